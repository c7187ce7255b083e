"""The set: each dialogue file with other values, beside a row for every value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.dialogue import Dialogue
from parapet.schemas.dialogue_files import BETWEEN, CLOSING, EMPTY, OPENING, DialogueFile, dialogue_text
from parapet.schemas.errors import InputError
from parapet.schemas.errors import storable as safe
from parapet.schemas.replacements import REPLACEMENTS
from parapet.transforms.corpora import dialogues_of
from parapet.transforms.dead_letters import DeadLetter, dead_dialogue, dead_file, id_of
from parapet.transforms.entities.replacing import PLACES, Replaced, Replacer, replaced
from parapet.transforms.files import HashingWriter, Written, staged, write_staged
from parapet.transforms.parquet import parquet_bytes
from parapet.transforms.perturb.edits import Edit
from parapet.transforms.seeding import stable_hash

DEAD, COUNTS, TALLIES, EXAMPLES = "dead", "counts", "tallies", "examples"
FOLDER = "replacements"
SHOWN = 16  # examples on the page

Key = tuple[str, str, str]  # what is counted, of what, which


class WriteSet(beam.PTransform):
    """Writes dialogue files with other values into staging.

    Args:
      output: the output folder.
      replacer: how values are replaced.
    """

    def __init__(self, output: str, replacer: Replacer) -> None:
        super().__init__()
        self.output, self.replacer = output, replacer

    def expand(self, files: beam.PCollection) -> Any:
        """DialogueFile to Written (main), (file, letters) (DEAD), (name, n) (COUNTS), (Key, n) (TALLIES),
        (draw, example) (EXAMPLES).
        """
        return (
            files
            | "Spread" >> beam.Reshuffle()
            | "Replace values"
            >> beam.ParDo(_WriteFile(self.output, self.replacer)).with_outputs(
                DEAD, COUNTS, TALLIES, EXAMPLES, main="written"
            )
        )


class _WriteFile(beam.DoFn):
    def __init__(self, output: str, replacer: Replacer) -> None:
        super().__init__()
        self.output, self.replacer = output, replacer

    def process(self, file: DialogueFile) -> Iterator[Written | TaggedOutput]:
        of = FileOfSet(file, self.output, self.replacer)
        yield from of.write()
        if of.letters:
            yield TaggedOutput(DEAD, (file.relative, of.letters))
        for count in of.counts.items():
            yield TaggedOutput(COUNTS, count)
        for tally in of.tallies.items():
            yield TaggedOutput(TALLIES, tally)
        for example in sorted(of.examples, key=lambda drawn: drawn[0])[:SHOWN]:
            yield TaggedOutput(EXAMPLES, example)
        for name in ("files", "dialogues", "changed"):
            Metrics.counter("parapet", name).inc(of.counts[name])


class FileOfSet:
    """One dialogue file with other values.

    Attributes:
      letters: what was left out, and why.
      counts: see :func:`check_invariants`.
      tallies: values by kind, slot and reason; places.
      examples: turns that have other values, each with its place in a drawn order.
    """

    def __init__(self, file: DialogueFile, output: str, replacer: Replacer) -> None:
        self.file, self.output, self.replacer = file, output, replacer
        self.letters: list[DeadLetter] = []
        self.counts: Counter[str] = Counter(files=1)
        self.tallies: Counter[Key] = Counter()
        self.examples: list[tuple[int, dict[str, Any]]] = []
        self._rows: list[dict[str, Any]] = []

    def write(self) -> list[Written]:
        """Writes it into staging, with its rows; of a file that cannot be read nothing."""
        try:
            with ExitStack() as stack:
                writer = HashingWriter(stack.enter_context(staged(self.output, self.file.relative)))
                self._write_dialogues(writer)
        except InputError as error:
            self.letters = [dead_file(self.file, error)]
            self.counts = Counter(files=1, broken_files=1)
            self.tallies, self.examples = Counter(), []
            return []
        path = f"{FOLDER}/{self.file.relative.removesuffix('.json')}.parquet"
        return [writer.written(self.file.relative), write_staged(self.output, path, _parquet(self._rows))]

    def _write_dialogues(self, writer: HashingWriter) -> None:
        written = 0
        for position, raw, plain, dialogue in dialogues_of(self.file):
            self.counts["dialogues"] += 1
            try:
                if isinstance(dialogue, InputError):
                    raise dialogue
                made = replaced(raw, dialogue, self.replacer)
                text = dialogue_text(made.dialogue, plain)
            except InputError as error:
                self.letters.append(dead_dialogue(self.file, id_of(raw, position), error))
                self.counts["left_out"] += 1
                continue
            writer.write(BETWEEN if written else OPENING)
            writer.write(text)
            written += 1
            self._count(raw, dialogue, made)
        writer.write(CLOSING if written else EMPTY)

    def _count(self, raw: dict[str, Any], dialogue: Dialogue, made: Replaced) -> None:
        self._rows += made.rows
        self.counts.update(
            written=1, open=made.open, changed=bool(made.changed), unchanged=not made.changed, leaks=made.leaks
        )
        self.counts["open_changed"] += made.open and bool(made.changed)
        self.counts["turns"] += len(dialogue.turns)
        self.counts["turns_changed"] += len(made.changed)
        self.counts["values"] += len(made.rows)
        for row in made.rows:
            self.counts[row["status"]] += 1
            self.tallies["kind", row["kind"], row["status"]] += 1
            slot = safe(f"{row['service']}.{row['slot']}")
            self.tallies["slot", slot, row["reason"] or row["status"]] += 1
            self.tallies["slot_kind", slot, row["kind"]] += 1
            if row["reason"]:
                self.tallies["reason", row["reason"], ""] += 1
            for place in PLACES:
                self.tallies["place", place, ""] += row[place]
        for position, edits in made.changed:
            utterance = raw["turns"][position]["utterance"]
            drawn = stable_hash("example", self.file.relative, dialogue.dialogue_id, str(position))
            example = {
                "dialogue_id": safe(dialogue.dialogue_id),
                "turn": position,
                "speaker": dialogue.turns[position].speaker,
                "parts": [[safe(old), safe(new)] for old, new in parts_of(utterance, edits)],
            }
            self.examples.append((drawn, example))


def parts_of(utterance: str, edits: list[Edit]) -> list[tuple[str, str]]:
    """An utterance in parts, (what stood there, what stands there)."""
    parts, at = [], 0
    for edit in edits:
        kept = utterance[at : edit.start]
        parts += [(kept, kept), (utterance[edit.start : edit.end], edit.text)]
        at = edit.end
    parts.append((utterance[at:], utterance[at:]))
    return [(old, new) for old, new in parts if old or new]


def _parquet(rows: list[dict[str, Any]]) -> bytes:
    clean = [{name: _clean(value) for name, value in row.items()} for row in rows]
    return parquet_bytes(pa.Table.from_pylist(clean, REPLACEMENTS))


def _clean(value: Any) -> Any:
    if isinstance(value, list):
        return [safe(one) for one in value]
    return safe(value) if isinstance(value, str) else value


def check_invariants(counts: dict[str, int], least_changed: float) -> dict[str, int]:
    """Every dialogue is written or left out, every value replaced or kept, and none leaks; and enough has changed.

    Args:
      counts: summed over all files.
      least_changed: the share of dialogues with open slots that must have changed.

    Raises:
      RuntimeError: they do not balance, or a new value occurs in training.
      InputError: too few dialogues have changed.
    """
    of = Counter(counts)
    wrong = []
    if of["dialogues"] != of["written"] + of["left_out"]:
        wrong.append("dialogues")
    if of["written"] != of["changed"] + of["unchanged"]:
        wrong.append("changed dialogues")
    if of["values"] != of["replaced"] + of["kept"]:
        wrong.append("values")
    if wrong:
        raise RuntimeError(f"the counts do not balance for {', '.join(wrong)}: {counts}")
    if of["leaks"]:
        raise RuntimeError(f"{of['leaks']} new values occur in training: {counts}")
    if of["open_changed"] < least_changed * of["open"] or (least_changed and of["written"] and not of["open"]):
        raise InputError(
            f"only {of['open_changed']} of {of['open']} dialogues with open slots have changed, so nothing was "
            "published (--least_changed 0 publishes all the same, with the reasons in statistics.json)"
        )
    return {"leaks": 0, **counts}
