"""``parapet reminders``: simulates a corpus of dialogues about reminders."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from parapet.pipelines.corpora import CorpusPipeline
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SPLITS
from parapet.transforms.core import options
from parapet.transforms.core.options import option
from parapet.transforms.report.text import counted

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.simulators.reminders_corpus import Config


class Reminders(CorpusPipeline["Config"]):
    """``parapet reminders``."""

    name = "reminders"
    description = (
        "Simulates dialogues about reminders, in the SGD format: an agenda-based user talks to a system that sets, "
        "finds, moves and cancels reminders. Writes OUT/train/dialogues_001.json, OUT/train/schema.json and so on."
    )
    example = """\
  parapet reminders --output reminders                       # 1,000 dialogues for training, 200 and 200
  parapet reminders --dialogues 50,50,400 --seed 7 --output reminders
  parapet unseen_entities --sgd reminders --output unseen    # values that training does not have"""
    group = "simulation"
    dialogues: tuple[int, ...] = option(
        (1000, 200, 200), "number of dialogues of train, dev and test", commas=True, ge=0, le=9_999_999
    )
    per_file: int = option(128, "dialogues per file", group=options.OUTPUT, rare=True, ge=1, le=10_000)
    seed: str = options.seed()

    def check(self) -> Config:
        """Checks the sizes. Raises InputError if they cannot be used."""
        from parapet.transforms.simulators.reminders_corpus import Config

        if len(self.dialogues) != len(SPLITS) or not any(self.dialogues):
            reason = "must be three numbers of dialogues, for train, dev and test (example: 1000,200,200)"
            raise InputError(reason, "--dialogues")
        sizes = {split: size for split, size in zip(SPLITS, self.dialogues, strict=True) if size}
        return Config(self.output, sizes, self.per_file, self.seed)

    def wire(self, pipeline: beam.Pipeline, config: Config) -> None:
        """Finds duplicates by digests, simulates the other dialogues, and writes files and a page."""
        from functools import partial

        import apache_beam as beam

        from parapet.transforms.core.progress import expect
        from parapet.transforms.core.runs import WriteEach
        from parapet.transforms.simulators import reminders_corpus

        expect(sum(self.dialogues), "dialogues")
        shards = pipeline | "Shards" >> beam.Create(config.shards())
        digests = (
            shards | "Spread" >> beam.Reshuffle() | "Digests" >> beam.Map(reminders_corpus.digest_shard, config.seed)
        )
        attempts = (
            pipeline
            | "Seed" >> beam.Create([config.seed], reshuffle=False)
            | "Attempts" >> beam.Map(reminders_corpus.choose_attempts, beam.pvalue.AsIter(digests))
        )
        write = WriteEach(
            partial(reminders_corpus.write_shard, config=config),
            beam.pvalue.AsSingleton(attempts),
            others=(reminders_corpus.DIGESTS, reminders_corpus.UTTERANCES),
            progress=("dialogues",),
        )
        outputs = shards | "Spread files" >> beam.Reshuffle() | "Dialogues" >> write
        compared = [
            beam.pvalue.AsList(outputs.others[name]) for name in (reminders_corpus.DIGESTS, reminders_corpus.UTTERANCES)
        ]
        _ = outputs | "Finish" >> self.finish(
            config, reminders_corpus.metadata_files, *compared, shown=reminders_corpus.SHOWN
        )

    def lines(self, config: Config, statistics: Any) -> Iterator[str]:
        """Yields the size of each split."""
        for split, numbers in statistics["splits"].items():
            sizes = f"{counted(numbers['turns'], 'turn')}, {numbers['different_utterances']:,} different utterances"
            yield f"{split}: {counted(numbers['dialogues'], 'dialogue')}, {sizes}"


COMMAND = Reminders
