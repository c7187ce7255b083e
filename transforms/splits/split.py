"""What all splits have in common: dialogues of a corpus are copied unchanged into sets, each a corpus of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

import apache_beam as beam
import msgspec

from parapet.schemas.dialogue import Dialogue, DialogueFile, dialogue_folders, list_files
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SINGLE, SPLITS, as_path, read_root, schema_bytes
from parapet.schemas.service import Service
from parapet.transforms.corpora import dialogues_of
from parapet.transforms.counts import Counts, Invariant
from parapet.transforms.dead_letters import dead_dialogue, id_of, of_dialogues
from parapet.transforms.perturbation.fence import bad_record
from parapet.transforms.progress import tracked
from parapet.transforms.report import Report, card, page
from parapet.transforms.runs import FileResult, FinishRun, Outputs, RunInfo
from parapet.transforms.touching import Used, used_by


class Schema(msgspec.Struct, frozen=True):
    """The schema of a split of the corpus.

    Attributes:
      raw: the services by name, as the file has them, in its order.
      services: the same, typed.
    """

    raw: dict[str, Any]
    services: dict[str, Service]


class SplitCorpus(msgspec.Struct, frozen=True):
    """The corpus that dialogues are taken from.

    Attributes:
      root: its folder.
      schemas: the schema of each split that has dialogues.
      one_schema: whether all splits share one schema file, as in MultiWOZ 2.2.
      problems: what is wrong with services that were left out.
    """

    root: str
    schemas: dict[str, Schema]
    one_schema: bool
    problems: dict[str, list[str]]

    def files(self, splits: Collection[str]) -> list[DialogueFile]:
        """The dialogue files of some splits, the largest first."""
        return list_files(as_path(self.root), splits)

    def problems_of(self, splits: Collection[str]) -> list[str]:
        """The problems of some splits, each once."""
        return list(dict.fromkeys(line for split in splits for line in self.problems[split]))


def read_split_corpus(root: str) -> SplitCorpus:
    """Reads the schemas of a corpus. Raises InputError where there are none, or dialogues without one."""
    originals = read_root(root, leave_out_bad=True)
    folders = dialogue_folders(as_path(root), originals)
    found = {split: folders[split] for split in SPLITS if split in folders}
    return SplitCorpus(
        root,
        {
            split: Schema(
                {str(raw["service_name"]): raw for raw in schemas.raw},
                {service.service_name: service for service in schemas.services},
            )
            for split, schemas in found.items()
        },
        originals[0].split == SINGLE,
        {split: [str(bad.error) for bad in schemas.bad] for split, schemas in found.items()},
    )


class SetOfDialogues(NamedTuple):
    """A set that a split has made: where it is, the split of the corpus that it is of, and the services it needs."""

    folder: str
    split: str
    services: Collection[str]


class Split(msgspec.Struct, frozen=True, kw_only=True):
    """The base of what takes sets of dialogues out of a corpus.

    Attributes:
      name: the name of the command.
      corpus: where the dialogues are taken from.
    """

    name: ClassVar[str]
    corpus: SplitCorpus

    def splits(self) -> Collection[str]:
        """The splits of the corpus whose dialogues are read."""
        raise NotImplementedError

    def options(self) -> dict[str, object]:
        """The options that shape the content, for ``run.json``."""
        raise NotImplementedError

    def write(self, files: beam.PCollection[DialogueFile], run: RunInfo) -> tuple[Outputs, beam.pvalue.AsSideInput]:
        """Writes the dialogue files of all sets into staging.

        Returns:
          The outputs; and the result of the split, as :meth:`sets` and :meth:`statistics` take it.
        """
        raise NotImplementedError

    def sets(self, result: Any) -> Iterator[SetOfDialogues]:
        """The sets that have dialogues."""
        raise NotImplementedError

    def statistics(self, result: Any, counts: Counts) -> dict[str, Any]:
        """The content of ``statistics.json``; ``short`` has what is less than was asked for, a line each."""
        raise NotImplementedError

    def report(self, statistics: Mapping[str, Any]) -> Report:
        """The page and the card."""
        raise NotImplementedError

    def summary(self, statistics: Mapping[str, Any]) -> Iterator[str]:
        """The lines that the command prints."""
        raise NotImplementedError

    def invariants(self) -> Sequence[Invariant]:
        """What must hold of the counts."""
        raise NotImplementedError


class WriteSplit(beam.PTransform):
    """Makes a split and publishes it: the sets with their schemas, statistics, card and page."""

    def __init__(self, split: Split, run: RunInfo) -> None:
        super().__init__()
        self.split, self.run = split, run

    def expand(self, files: beam.PCollection[DialogueFile]) -> beam.PCollection:
        """PCollection of dialogue files to one element, the manifest."""
        outputs, result = self.split.write(files, self.run)
        finish = FinishRun(
            self.run,
            partial(_metadata_files, split=self.split),
            result,
            tallies=of_dialogues,
            invariants=self.split.invariants(),
        )
        published: beam.PCollection = outputs | "Finish" >> finish
        return published


def _metadata_files(counts: Counts, _: object, result: Any, split: Split) -> dict[str, bytes]:
    statistics = split.statistics(result, counts)
    report = split.report(statistics)
    files = {
        "statistics.json": (json.dumps(statistics, indent=2) + "\n").encode(),
        "README.md": card(report).encode(),
        "report.html": page(report).encode(),
    }
    for dialogues in split.sets(result):
        raw = split.corpus.schemas[dialogues.split].raw
        services = [service for name, service in raw.items() if name in dialogues.services]
        files[f"{dialogues.folder}/schema.json"] = schema_bytes(services)
    return files


class SplitDialogue(NamedTuple):
    """A dialogue of a file: its position there, as the file has it, whether that is plain JSON, typed; its services."""

    position: int
    raw: dict[str, Any]
    plain: bool
    dialogue: Dialogue
    used: Used


def take_each(
    file: DialogueFile, services: Mapping[str, Service], result: FileResult, take: Callable[[SplitDialogue], None]
) -> None:
    """Gives each dialogue of a file to ``take``. One that cannot be used is a dead letter, and so is the file.

    Args:
      file: the dialogue file.
      services: of its split, by name.
      result: where dead letters and counts are added.
      take: raises where it cannot use a dialogue, before it does anything with it.

    Raises:
      InputError: the file cannot be read to its end; possibly after some dialogues.
    """
    result.counts.add("files")
    for position, raw, plain, dialogue in tracked(dialogues_of(file), "dialogues"):
        result.counts.add("dialogues")
        try:
            if isinstance(dialogue, InputError):
                raise dialogue
            take(SplitDialogue(position, raw, plain, dialogue, used_by(dialogue, services)))
        except Exception as error:
            result.dead_letters.append(dead_dialogue(file, id_of(raw, position), bad_record(error)))
            result.counts.add("left_out")
