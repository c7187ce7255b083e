"""``parapet compose``: composes crowd answers into schema variants v1 to v5, with audit, review page and shortfall."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any, Literal

from parapet.pipelines import crowd_answers
from parapet.pipelines.command import counted, say
from parapet.transforms.core import options, plugins
from parapet.transforms.core.options import option

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.crowd.schema_task import SchemaTask

MOST_SHOWN = 5  # services that the command tells what they lack
DISTANCES = plugins.Names(plugins.DISTANCES)


class Compose(crowd_answers.Composing["SchemaTask"]):
    """``parapet compose``."""

    name = "compose"
    description = (
        "Vets, ranks and composes crowd answers into the schema variants v1...v5 of SGD-X. "
        "Writes OUT/v1/SPLIT/schema.json and so on, an audit of every answer, and a page to review them."
    )
    example = """\
  parapet compose --allow_partial --output out               # the sample
  parapet compose --schemas my_corpus --responses names.csv --output out
  # open out/review.html in a browser, decide, download decisions.csv, then
  parapet compose --schemas my_corpus --responses names.csv --decisions decisions.csv --output out"""
    complete = "element has five good answers"
    corpus, sample = "schemas", ("names.csv", "descriptions.csv")
    schemas: str = options.schemas()
    allow_partial: bool = option(False, "repeat answers where there are fewer than five good ones")
    allow_not_blind: bool = option(False, "take answers of workers who also did the sibling task")
    selection: Literal["random", "diverse"] = option("random", "which five are used where there are more")
    name_distance: str = option("levenshtein", "distance that ranks names", rare=True, choices=DISTANCES)
    description_distance: str = option("jaccard", "distance that ranks descriptions", rare=True, choices=DISTANCES)
    vetting_rules: tuple[str, ...] = option(
        (), "vetting rules of plug-ins: NAME or NAME=ARGUMENT, comma-separated", rare=True, commas=True
    )
    seed: int = options.seed("--selection", 0)

    def check(self) -> SchemaTask:
        """Reads the settings. Raises InputError if a flag or file cannot be used."""
        from parapet.schemas import layout
        from parapet.transforms.crowd.schema_task import Options, SchemaTask

        splits = layout.read_root(self.schemas or layout.sample_root(), leave_out_bad=True)
        _ = self.sources  # check them
        return SchemaTask(splits, self.settings_of(Options), self.output)

    def compose(self, assignments: beam.PCollection, task: SchemaTask) -> tuple[Any, ...]:
        """Composes the answers into variants."""
        import apache_beam as beam

        from parapet.transforms.crowd.compose import Compose as ComposeAnswers
        from parapet.transforms.crowd.schema_task import Conclude, WriteVariants

        vetted = assignments | task.vet(self.sources.decisions).with_outputs()
        ranked = vetted.answers | task.rank.with_outputs()
        composed = ranked.rankings | ComposeAnswers(task.splits, task.options.allow_partial).with_outputs()
        variants = composed.variants | WriteVariants(task.splits, task.output)
        bad_services = assignments.pipeline | "Bad services" >> beam.Create(task.dead(), reshuffle=False)
        dead = [bad_services, *(outputs.dead_letters for outputs in (vetted, ranked, composed))]
        return vetted.answers | Conclude(task, composed.composed), dead, [variants], vetted.answers

    def report(self, task: SchemaTask, counters: dict[str, int]) -> int:
        """Prints what was composed and what to do next. Returns the exit status."""
        from parapet.transforms.core.files import read_written
        from parapet.transforms.crowd.report import missing_answers

        services = self.statistics()["services"]
        complete = sum(service["composed"] and not service["partial"] for service in services.values())
        partial = sum(service["partial"] for service in services.values())
        short = len(services) - complete
        headline = f"{complete} of {len(services)} services composed" + (f", {partial} partially" if partial else "")
        missing = short - partial  # the headline already names services that --allow_partial composed
        needs = f"{counted(missing, 'service')} {'needs' if missing == 1 else 'need'} more answers" if missing else ""
        has_bad = any(split.bad for split in task.splits)
        nothing = "" if complete or partial else "no service could be composed"
        status = self.conclude(headline, short + has_bad, needs, nothing)
        if missing:
            rows = csv.DictReader(io.StringIO(read_written(self.output, "shortfall.csv").decode()))
            for sentence in missing_answers(list(rows), services)[:MOST_SHOWN]:
                say(f"missing: {sentence}")
        return status


COMMAND = Compose
