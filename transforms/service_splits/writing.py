"""Each dialogue file as the splits have it: read once, and written for everything that is held out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.dialogue_files import DialogueFile, dialogue_text
from parapet.schemas.errors import InputError
from parapet.schemas.service import Service
from parapet.transforms.corpora import dialogues_of
from parapet.transforms.dead_letters import DeadLetter, dead_dialogue, dead_file, id_of
from parapet.transforms.files import Written
from parapet.transforms.service_splits.plan import SETS, HeldOut
from parapet.transforms.set_files import SetFiles
from parapet.transforms.touching import used_by, without

DEAD, COUNTS, COMBINATIONS = "dead", "counts", "combinations"

# Split, services that are touched, idle services, what is counted: ``dialogues`` or ``turns`` of the user.
Combination = tuple[str, tuple[str, ...], tuple[str, ...], str]


class WriteSplits(beam.PTransform):
    """Writes dialogue files of all splits into staging.

    Args:
      output: the output folder.
      held_out: what is held out.
      services: split of the corpus to its services, by name.
    """

    def __init__(self, output: str, held_out: HeldOut, services: Mapping[str, Mapping[str, Service]]) -> None:
        super().__init__()
        self.output, self.held_out, self.services = output, held_out, services

    def expand(self, files: beam.PCollection) -> Any:
        """DialogueFile to Written (main), (file, letters) (DEAD), (name, n) (COUNTS), (Combination, n)
        (COMBINATIONS).
        """
        return (
            files
            | "Spread" >> beam.Reshuffle()
            | "Write file"
            >> beam.ParDo(_WriteFile(self.output, self.held_out, self.services)).with_outputs(
                DEAD, COUNTS, COMBINATIONS, main="written"
            )
        )


class _WriteFile(beam.DoFn):
    def __init__(self, output: str, held_out: HeldOut, services: Mapping[str, Mapping[str, Service]]) -> None:
        super().__init__()
        self.output, self.held_out, self.services = output, held_out, services

    def process(self, file: DialogueFile) -> Iterator[Written | TaggedOutput]:
        of = FileOfSplits(file, self.output, self.held_out, self.services[file.split])
        yield from of.write()
        if of.letters:
            yield TaggedOutput(DEAD, (file.relative, of.letters))
        for count in of.counts.items():
            yield TaggedOutput(COUNTS, count)
        for found in of.combinations.items():
            yield TaggedOutput(COMBINATIONS, found)
        for name in ("files", "dialogues"):
            Metrics.counter("parapet", name).inc(of.counts[name])


class FileOfSplits:
    """One dialogue file, as every split has it.

    Attributes:
      letters: what could not be read, and why.
      counts: ``dialogues``, ``left_out``, and where they ended: ``Banks/train``, ``Banks/touches_it_alone``.
      combinations: of services, and how many dialogues and turns have them: all numbers are made of these.
    """

    def __init__(self, file: DialogueFile, output: str, held_out: HeldOut, services: Mapping[str, Service]) -> None:
        self.file, self.output, self.held_out, self.services = file, output, held_out, services
        self.letters: list[DeadLetter] = []
        self.counts: Counter[str] = Counter(files=1)
        self.combinations: Counter[Combination] = Counter()

    def write(self) -> list[Written]:
        """Writes it into staging; of a file that cannot be read nothing, and no file without a dialogue."""
        ends = self.held_out.ends_of(self.file.split)
        names = [f"{group}/{end}" for group in self.held_out.groups for end in ends]
        try:
            with ExitStack() as stack:
                files = SetFiles(self.output, names, self.file.name, stack)
                self._write_dialogues(files)
                files.close()
        except InputError as error:
            self.letters = [dead_file(self.file, error)]
            self.counts, self.combinations = Counter(files=1, broken_files=1), Counter()
            return []
        self.counts.update({name: n for name, n in files.dialogues.items() if n})
        return [one for name, one in zip(files.dialogues, files.written(), strict=True) if files.dialogues[name]]

    def _write_dialogues(self, files: SetFiles) -> None:
        for position, raw, plain, dialogue in dialogues_of(self.file):
            self.counts["dialogues"] += 1
            try:
                if isinstance(dialogue, InputError):
                    raise dialogue
                used, text = used_by(dialogue, self.services), dialogue_text(raw, plain)
            except InputError as error:
                self.letters.append(dead_dialogue(self.file, id_of(raw, position), error))
                self.counts["left_out"] += 1
                continue
            combination = (self.file.split, used.touched, used.idle)
            self.combinations[*combination, "dialogues"] += 1
            self.combinations[*combination, "turns"] += sum(turn.speaker == "USER" for turn in dialogue.turns)
            for group in self.held_out.groups:
                end = self.held_out.end_of(group, self.file.split, used)
                if end not in SETS:
                    self.counts[f"{group}/{end}"] += 1
                elif idle := self.held_out.idle_of(group, end, used):
                    files.add(f"{group}/{end}", dialogue_text(without(raw, idle), plain))
                else:
                    files.add(f"{group}/{end}", text)
