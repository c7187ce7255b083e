"""``parapet babi_task6``: converts calls of DSTC2 to dialog bAbI task 6, and to a corpus in the SGD layout."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from parapet.pipelines.corpora import CorpusPipeline
from parapet.schemas.errors import InputError
from parapet.transforms.core import options
from parapet.transforms.core.options import REQUIRED, option
from parapet.transforms.report.text import counted

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.simulators.task6 import Config


class BabiTask6(CorpusPipeline["Config"]):
    """``parapet babi_task6``."""

    name = "babi_task6"
    description = (
        "Converts logs and labels of DSTC2 to dialog bAbI task 6 (Bordes et al. 2017), "
        "OUT/dialog-babi-task6-dstc2-trn.txt and so on; and to the SGD format, with states, spans, acts and API "
        "results, in OUT/sgd."
    )
    example = """\
  parapet babi_task6 --logs dstc2 --output task6
  parapet babi_task6 --logs dstc2 --split_rule original --user asr --output task6_recognised
  parapet babi_task6 --logs dstc2 --kb dialog-babi-task6-dstc2-kb.txt --max_bad 5% --output task6"""
    done = "converted"
    logs: str = option(REQUIRED, "DSTC2, unpacked: data/ and scripts/config/dstc2_*.flist", metavar="ROOT", reads=True)
    kb: str = options.folder("knowledge base of dialog bAbI (default: what the system says about restaurants)", "FILE")
    ontology: str = options.folder("ontology (default: ROOT/scripts/config/ontology_dstc2.json)", "FILE", rare=True)
    split_rule: Literal["paper", "original"] = option(
        "paper",
        "splits: dev keeps its first 500 calls and the rest goes to train, or those of DSTC2",
        group="conversion",
    )
    user: Literal["transcription", "asr"] = option(
        "transcription", "what users say: the transcription, or the first ASR hypothesis", group="conversion"
    )
    max_bad: Fraction = options.max_bad("calls of a split")
    seed: str = options.seed("the ratings")

    def inputs(self, config: Config) -> list[tuple[str, str]]:
        """Lists the calls."""
        return [("--logs", config.logs.folder)]

    def check(self) -> Config:
        """Reads the lists, the ontology and the knowledge base. Raises InputError if one of them cannot be used."""
        from parapet.transforms.simulators import task6
        from parapet.transforms.simulators.task6 import Config

        logs = task6.read_logs(self.logs, task6.PAPER_DEV if self.split_rule == "paper" else None)
        if not any(logs.splits.values()):
            raise InputError("the lists name no calls", self.logs, "--logs")
        ontology = task6.read_ontology(self.logs, self.ontology)
        knowledge = task6.read_knowledge(self.kb) if self.kb else None
        return self.settings_of(Config, logs=logs, ontology=ontology, knowledge=knowledge)

    def wire(self, pipeline: beam.Pipeline, config: Config) -> None:
        """Reads calls in batches, converts them, and writes dialogues, statistics and a page."""
        from functools import partial

        import apache_beam as beam

        from parapet.transforms.core.runs import WriteEach
        from parapet.transforms.simulators import task6
        from parapet.transforms.simulators.task6 import gathered

        read = (
            pipeline
            | "Batches" >> beam.Create(config.logs.batches)
            | "Spread" >> beam.Reshuffle()
            | "Calls" >> beam.FlatMap(task6.read_batch, config).with_outputs(task6.STATEMENTS, main="calls")
        )
        statements = read[task6.STATEMENTS] | "Sum statements" >> beam.CombinePerKey(sum)
        knowledge = beam.pvalue.AsSingleton(
            pipeline
            | "Given restaurants" >> beam.Create([config.knowledge], reshuffle=False)
            | "Restaurants" >> beam.Map(lambda known, stated: known or gathered(stated), beam.pvalue.AsIter(statements))
        )
        write = WriteEach(
            partial(task6.write_batch, config=config), knowledge, others=(task6.BABI,), progress=("calls",)
        )
        outputs = read.calls | "Spread calls" >> beam.Reshuffle() | "Dialogues" >> write
        texts = beam.pvalue.AsList(outputs.others[task6.BABI])
        _ = outputs | "Finish" >> self.finish(config, task6.metadata_files, knowledge, texts, shown=task6.SHOWN)

    def lines(self, config: Config, statistics: Any) -> Iterator[str]:
        """Yields the size of each split."""
        for split, numbers in statistics["splits"].items():
            sizes = f"{numbers['api_calls']:,} API calls, {numbers['facts']:,} facts"
            yield f"{split}: {counted(numbers['dialogues'], 'dialogue')}, {sizes}"
        yield f"{counted(statistics['restaurants'], 'restaurant')}, {statistics['candidates']:,} candidates"


COMMAND = BabiTask6
