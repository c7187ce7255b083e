"""The sets: each dialogue file with its user turns as they were heard, once per target, beside a row for every turn."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import apache_beam as beam
import msgspec
import pyarrow as pa
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.asr_turns import ASR_TURNS
from parapet.schemas.dialogue import Dialogue
from parapet.schemas.dialogue_files import DialogueFile, dialogue_text
from parapet.schemas.errors import InputError
from parapet.transforms.corpora import dialogues_of
from parapet.transforms.dead_letters import DeadLetter, dead_dialogue, dead_file, id_of, of_dialogues
from parapet.transforms.dead_letters import Tally as BadTally
from parapet.transforms.files import Written, write_staged
from parapet.transforms.parquet import parquet_bytes
from parapet.transforms.refusals import Refused, Stopped
from parapet.transforms.seeding import stable_hash
from parapet.transforms.set_files import SetFiles
from parapet.transforms.speech.audio import sound_bytes
from parapet.transforms.speech.calibrate import Calibration, Setting
from parapet.transforms.speech.replacing import Form, Outcomes, Version, Versions, failure_of
from parapet.transforms.speech.statistics import GARBLED, Tally, tally_of
from parapet.transforms.speech.transcriber import Channel, Transcriber
from parapet.transforms.speech.transcribing import Outcome, TurnOutcomes
from parapet.transforms.speech.turns import Speakers, Utterance, user_turns
from parapet.transforms.touching import services_in_turns

DEAD, COUNTS, TALLIES, EXAMPLES = "dead", "counts", "tallies", "examples"
SHOWN = 12  # examples of a set on the page

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


class Sets(msgspec.Struct, frozen=True):
    """What is written.

    Attributes:
      output: the output folder.
      speakers: who says what.
      channel: engines and noise.
      form: how it is written down.
      audio: ``wav`` or ``flac`` where what was listened to is written too, else nothing.
    """

    output: str
    speakers: Speakers
    channel: Channel
    form: Form
    audio: str


class WriteSets(beam.PTransform):
    """Writes dialogue files of all sets into staging.

    Args:
      sets: what is written.
      calibration: PCollection of one Calibration, with levels.
    """

    def __init__(self, sets: Sets, calibration: beam.PCollection) -> None:
        super().__init__()
        self.sets, self.calibration = sets, calibration

    def expand(self, inputs: tuple[beam.PCollection, beam.PCollection]) -> Any:
        """(DialogueFile, (file, TurnOutcomes)) to Written (main), (file, letters) (DEAD), (name, n) (COUNTS), Tally
        (TALLIES), (set, (draw, row)) (EXAMPLES).
        """
        files, turns = inputs
        by_path = files | "By path" >> beam.Map(lambda file: (file.relative, file))
        return (
            {"file": by_path, "turns": turns}
            | "Join" >> beam.CoGroupByKey()
            | "Spread" >> beam.Reshuffle()
            | "Write file"
            >> beam.ParDo(_WriteFile(self.sets), beam.pvalue.AsSingleton(self.calibration)).with_outputs(
                DEAD, COUNTS, TALLIES, EXAMPLES, main="written"
            )
        )


class _WriteFile(beam.DoFn):
    def __init__(self, sets: Sets) -> None:
        super().__init__()
        self.sets = sets

    def setup(self) -> None:
        self.transcriber = Transcriber(self.sets.channel)

    def teardown(self) -> None:
        self.transcriber.close()

    def process(
        self, joined_file: tuple[str, dict[str, Iterable[Any]]], calibration: Calibration
    ) -> Iterator[Written | TaggedOutput]:
        relative, found = joined_file
        (file,) = found["file"]
        of = FileOfSets(file, found["turns"], calibration, self.sets, self.transcriber)
        yield from of.write()
        if of.letters:
            yield TaggedOutput(DEAD, (relative, of.letters))
        for count in of.counts.items():
            yield TaggedOutput(COUNTS, count)
        for tally in of.tallies:
            yield TaggedOutput(TALLIES, tally)
        for name, rows in of.examples.items():
            for example in sorted(rows, key=lambda drawn: drawn[0])[:SHOWN]:
                yield TaggedOutput(EXAMPLES, (name, example))
        for name in ("files", "dialogues", "turns"):
            Metrics.counter("parapet", name).inc(of.counts[name])


class FileOfSets:
    """One dialogue file, as every set has it.

    Attributes:
      letters: what could not be done, and why.
      counts: see :func:`check_invariants`.
      tallies: the numbers of every turn.
      examples: of each set the turns that were heard wrong, each with its place in a drawn order.
    """

    def __init__(
        self,
        file: DialogueFile,
        turns: Iterable[TurnOutcomes],
        calibration: Calibration,
        sets: Sets,
        transcriber: Transcriber,
    ) -> None:
        self.file, self.calibration, self.sets, self.transcriber = file, calibration, sets, transcriber
        self.settings = settings = calibration.settings
        self.writer = Versions(sets.speakers, sets.channel.noise.name, sets.form)
        self.heard: dict[int, dict[int, list[Outcome]]] = {}
        for turn in turns:
            self.heard.setdefault(turn.use.dialogue, {})[turn.use.turn] = turn.outcomes
        self.letters: list[DeadLetter] = []
        self.counts: Counter[str] = Counter(files=1)
        self.tallies: list[Tally] = []
        self.examples: dict[str, list[tuple[int, dict[str, Any]]]] = {one.name: [] for one in settings}
        self._written: list[Written] = []
        self._batches: dict[str, list[pa.RecordBatch]] = {one.name: [] for one in settings}

    def write(self) -> list[Written]:
        """Writes it into staging; of a file that cannot be read nothing."""
        try:
            with ExitStack() as stack:
                names = [one.name for one in self.settings]
                files = SetFiles(self.sets.output, names, self.file.relative, stack)
                self._write_dialogues(files)
        except InputError as error:
            self.letters = [dead_file(self.file, error)]
            self.counts = Counter(files=1, broken_files=1)
            self.tallies, self.examples = [], {}
            return []
        self._written += files.written()
        self.counts.update({f"dialogues/{name}": n for name, n in files.dialogues.items()})
        for name, batches in self._batches.items():
            path = f"{name}/turns/{self.file.relative.removesuffix('.json')}.parquet"
            self._written.append(
                write_staged(self.sets.output, path, parquet_bytes(pa.Table.from_batches(batches, ASR_TURNS)))
            )
        return self._written

    def _write_dialogues(self, files: SetFiles) -> None:
        for position, raw, plain, dialogue in dialogues_of(self.file):
            self.counts["dialogues"] += 1
            try:
                if isinstance(dialogue, InputError):
                    raise dialogue
                turns = list(user_turns(dialogue, self.sets.speakers))
                levels = self.heard.get(position, {})
                versions = [
                    (one, self.writer.version(raw, dialogue, turns, levels, self.calibration, one))
                    for one in self.settings
                ]
            except InputError as error:
                self._leave_out(id_of(raw, position), error.where, error.reason)
                self.counts["left_out"] += 1
                continue
            self.counts["turns"] += len(turns)
            self._tell_failures(dialogue.dialogue_id, levels)
            for one, version in versions:
                files.add(one.name, dialogue_text(version.dialogue, plain))
                self._take(one, position, dialogue, version)
        files.close()

    def _take(self, one: Setting, position: int, dialogue: Dialogue, version: Version) -> None:
        """Notes the rows and numbers of a dialogue that is in a set."""
        self._batches[one.name].append(version.batch)
        errors = words = 0
        services = services_in_turns(dialogue)
        for turn, replaced in version.turns:
            row = replaced.row
            self.counts[f"{row['status']}/{one.name}"] += 1
            if row["wer"] is not None:
                self.counts[f"perfect/{one.name}"] += row["wer"] == 0
                self.counts[f"garbled/{one.name}"] += row["wer"] >= GARBLED
            self.tallies += tally_of(one.name, services[turn.position], replaced)
            words += row["words"]
            errors += sum(row[name] for name in ("substitutions", "deletions", "insertions"))
            if row["wer"]:
                place = stable_hash("example", self.file.relative, dialogue.dialogue_id, str(turn.position))
                self.examples[one.name].append((place, {"dialogue_id": dialogue.dialogue_id, **row}))
            if self.sets.audio and row["status"] == "heard":
                self._write_audio(one, position, dialogue.dialogue_id, row)
        self.tallies.append(Tally(one.name, "dialogue", f"{self.file.relative}\0{position:06}", (errors, words)))

    def _leave_out(self, dialogue_id: str, where: str, reason: str) -> None:
        self.letters.append(dead_dialogue(self.file, dialogue_id, InputError(reason, "", where)))

    def _tell_failures(self, dialogue_id: str, levels: Outcomes) -> None:
        """A letter for each turn that the sets could not have."""
        for position, of_turn in sorted(levels.items()):
            if failed := failure_of(of_turn):
                self._leave_out(dialogue_id, f"turns[{position}]", failed.reason)

    def _write_audio(self, one: Setting, position: int, dialogue_id: str, row: dict[str, Any]) -> None:
        # An id may be anything; the position makes it unique, and one that has a path in it harmless.
        safe = _UNSAFE.sub("_", dialogue_id)[:60]
        folder = f"{one.name}/audio/{self.file.relative.removesuffix('.json')}"
        path = f"{folder}/{position:04}_{safe}_{row['turn']:02}.{self.sets.audio}"
        try:
            samples = self.transcriber.samples(Utterance(row["voice"], row["spoken"]), row["snr"])
        except (Refused, Stopped) as error:
            self._leave_out(dialogue_id, f"turns[{row['turn']}]", f"no_audio: {error}")
            self.counts["no_audio"] += 1
            return
        self._written.append(write_staged(self.sets.output, path, sound_bytes(samples, self.sets.audio)))
        self.counts["audio_files"] += 1


def check_invariants(counts: dict[str, int], sets: Sequence[str]) -> dict[str, int]:
    """Every dialogue is in every set or left out; every user turn of theirs was heard, had nothing to say, or failed.

    Raises:
      RuntimeError: they do not balance.
    """
    wrong = []
    for name in sets:
        if counts.get("dialogues", 0) != counts.get(f"dialogues/{name}", 0) + counts.get("left_out", 0):
            wrong.append(f"dialogues of {name}")
        ends = sum(counts.get(f"{status}/{name}", 0) for status in ("heard", "not_spoken", "failed"))
        if counts.get("turns", 0) != ends:
            wrong.append(f"turns of {name}")
    if wrong:
        raise RuntimeError(f"the counts do not balance for {', '.join(wrong)}: {counts}")
    return counts


def tallies(counts: Mapping[str, int], sets: Sequence[str]) -> list[BadTally]:
    """What is held against ``--max_bad``: files, dialogues, the turns of each set, and their recordings."""
    turns, lost = counts.get("turns", 0), counts.get("no_audio", 0)
    return [
        *of_dialogues(counts),
        *(BadTally("user turn", turns, counts.get(f"failed/{name}", 0), name) for name in sets),
        BadTally("recording", counts.get("audio_files", 0) + lost, lost),
    ]
