"""What the pipeline hands to the command that finishes the release: files, inputs, counts, faults."""

from __future__ import annotations

from collections.abc import Iterable

import apache_beam as beam
import msgspec

from parapet.schemas.release_manifest import File, InputFile
from parapet.transforms.files import join, read_written, whole
from parapet.transforms.progress import expect
from parapet.transforms.release.checks import Fault
from parapet.transforms.release.plan import Plan, batched
from parapet.transforms.release.sources import COPIES, COUNTS, FAULTS, FAULTS_SHOWN, INPUTS, Found, ReadSources
from parapet.transforms.release.writing import WriteShards, shards_of

FILE = ".summary.json"


class Summary(msgspec.Struct):
    """What was written, and what it was made of.

    Attributes:
      files: shards and copies, by path.
      inputs: by place in the plan, sorted by path.
      counts: what -> corpus -> split -> n.
      faults: the first of each kind.
    """

    files: list[File]
    inputs: list[list[InputFile]]
    counts: dict[str, dict[str, dict[str, int]]]
    faults: list[Found]

    def totals(self, what: str) -> dict[str, int]:
        """The counts of what has no splits: ``fault``, ``disposition``, ``rejection``."""
        return {name: sum(splits.values()) for name, splits in self.counts.get(what, {}).items()}


class BuildData(beam.PTransform):
    """Writes the data of a release below a folder, and its summary last.

    Args:
      plan: what there is to read.
      folder: where to write.
    """

    def __init__(self, plan: Plan, folder: str) -> None:
        super().__init__()
        self.plan, self.folder = plan, folder

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        """Pipeline to the summary's path."""
        expect(len(self.plan.sources), "files")
        batches = batched(self.plan.sources)
        read = pipeline | "Files" >> beam.Create(batches) | "Read" >> ReadSources(self.plan, self.folder)
        shards = read.parts | "Parquet" >> WriteShards(shards_of(batches), self.folder)
        files = (shards, read[COPIES]) | "All files" >> beam.Flatten()
        faults = read[FAULTS] | "First faults" >> beam.combiners.Top.SmallestPerKey(FAULTS_SHOWN, key=_order)
        return (
            pipeline
            | "Once" >> beam.Create([len(self.plan.inputs)], reshuffle=False)
            | "Summary"
            >> beam.Map(
                _write,
                folder=self.folder,
                files=beam.pvalue.AsList(files),
                inputs=beam.pvalue.AsList(read[INPUTS]),
                counts=beam.pvalue.AsList(read[COUNTS] | "Sum counts" >> beam.CombinePerKey(sum)),
                faults=beam.pvalue.AsList(faults | "All kinds" >> beam.FlatMap(_second)),
            )
        )


def _order(found: Found) -> tuple[str, str, Fault]:
    return found.path, found.dialogue_id, found.fault


def _second(pair: tuple[str, list[Found]]) -> list[Found]:
    return pair[1]


def _write(
    n: int,
    folder: str,
    files: Iterable[File],
    inputs: Iterable[tuple[int, InputFile]],
    counts: Iterable[tuple[tuple[str, str, str], int]],
    faults: Iterable[Found],
) -> str:
    summary = summarise(n, files, inputs, counts, faults)
    with whole(join(folder, FILE)) as handle:
        handle.write(msgspec.json.encode(summary))
    return FILE


def summarise(
    n: int,
    files: Iterable[File],
    inputs: Iterable[tuple[int, InputFile]],
    counts: Iterable[tuple[tuple[str, str, str], int]],
    faults: Iterable[Found],
) -> Summary:
    """Everything in one order, whatever the order of arrival."""
    of_input: list[list[InputFile]] = [[] for _ in range(n)]
    for i, file in inputs:
        of_input[i].append(file)
    nested: dict[str, dict[str, dict[str, int]]] = {}
    for (what, corpus, split), count in sorted(counts):
        nested.setdefault(what, {}).setdefault(corpus, {})[split] = count
    return Summary(
        sorted(files, key=lambda file: file.path),
        [sorted(one, key=lambda file: file.path) for one in of_input],
        nested,
        sorted(faults, key=_order),
    )


def read_summary(folder: str) -> Summary:
    """The summary of a run that has ended."""
    return msgspec.json.decode(read_written(folder, FILE), type=Summary)
