"""``parapet statistics``: computes the numbers of SGD-X Table 1 and self-BLEU, as JSON and a page."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from parapet.pipelines import app, command
from parapet.schemas import errors, layout
from parapet.transforms.core import options

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.variants.table1 import Inputs


class Statistics(app.Pipeline["Inputs"]):
    """``parapet statistics``; its settings are the aligned schemas."""

    name = "statistics"
    description = (
        "Measures how far schema variants are from the original: the numbers of SGD-X Table 1, and self-BLEU. Without "
        "variants, how many names of unseen services occur in train. Writes OUT/statistics.json and OUT/report.html."
    )
    example = """\
  parapet statistics --output names_seen                 # the sample
  parapet statistics --sgd sgd --variants sgd/sgd_x/data --split test --output sgd_x_statistics"""
    sgd: str = options.sgd()
    variants: str = options.folder(options.SCHEMA_VARIANTS)

    def check(self) -> Inputs:
        """Reads and aligns the schemas. Raises InputError if they cannot be measured."""
        from parapet.transforms.variants.table1 import read_inputs

        inputs = read_inputs(command.read_good(self.sgd or layout.sample_root()), self.variants or None)
        if inputs.train is None:
            logging.warning("there is no train/schema.json, so names that occur in train are not counted")
        if left_out := inputs.left_out:
            text = "%s of the original are in no variant, and not counted: %s"
            logging.warning(text, command.counted(len(left_out), "service"), ", ".join(left_out[:5]))
        return inputs

    def wire(self, pipeline: beam.Pipeline, inputs: Inputs) -> None:
        """Measures each service, and writes the statistics of all."""
        import apache_beam as beam

        from parapet.transforms.core.files import Publish, WriteFiles
        from parapet.transforms.variants.table1 import measure, statistics_files

        recorded = {"split": inputs.split, "variants": inputs.variants}
        measured = pipeline | "Services" >> beam.Create(inputs.items) | "Measure" >> beam.Map(measure)
        _ = (
            pipeline
            | "Inputs" >> beam.Create([inputs], reshuffle=False)
            | "Combine" >> beam.FlatMap(statistics_files, beam.pvalue.AsList(measured))
            | "Write" >> WriteFiles(self.output)
            | "Publish" >> Publish(self.output, errors.run_header("statistics", recorded))
        )

    def report(self, inputs: Inputs, counters: dict[str, int]) -> None:
        """Prints the table."""
        from parapet.transforms.variants.table1 import text_table

        command.say(text_table(self.statistics()))
        command.say(f"report: {self.output}/report.html")


COMMAND = Statistics
