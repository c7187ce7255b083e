"""Read and check JSON Lines of turns that were rewritten by someone else, such as the crowd or a model."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from parapet.schemas.dialogue import DialogueFile
from parapet.schemas.errors import InputError, reason_and_place
from parapet.schemas.limits import MAX_DIALOGUE_FILE
from parapet.schemas.rows import KINDS
from parapet.transforms.core.compressed import read_input
from parapet.transforms.core.counts import CountKey, DeadLetter, Tally, check_bad, places_of, reasons_of
from parapet.transforms.perturb.corpora import dialogues_of

if TYPE_CHECKING:
    import apache_beam as beam

REWRITTEN = "rewritten"  # the source of lines that do not name one

Key = tuple[str, int, str]  # dialogue id, turn, kind


class Line(msgspec.Struct, frozen=True):
    """A line of a file: one rewritten turn of a dialogue.

    Attributes:
      dialogue_id: the dialogue.
      turn: the position of the user's turn in it, from 0, including system turns.
      kind: one of :data:`KINDS`.
      utterance: the new text.
      source: the source of the words.
    """

    dialogue_id: str
    turn: Annotated[int, Meta(ge=0)]
    kind: str
    utterance: str
    source: str = ""

    @property
    def key(self) -> Key:
        """Return the key, which must be unique."""
        return self.dialogue_id, self.turn, self.kind


_decode = msgspec.json.Decoder(Line).decode


def read_lines(path: str) -> Iterator[tuple[int, Line | str]]:
    """Yield (number from 1, the line or its error), skipping empty lines.

    Raises:
      InputError: the file cannot be read.
    """
    data = read_input(path, MAX_DIALOGUE_FILE, "--rewritten")
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if line.strip():
            yield number, _read(line)


def _read(line: bytes) -> Line | str:
    try:
        result = _decode(line)
    except msgspec.ValidationError as error:
        reason, at = reason_and_place(error)
        return f"bad_line: {at}: {reason}" if at else f"bad_line: {reason}"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return f"not_json: {error}"
    if result.kind not in KINDS:
        return f"unknown_kind: {result.kind!r}: must be one of {', '.join(KINDS)}"
    text = result.utterance.strip()
    if not text:
        return "no_text: the utterance is empty"
    return msgspec.structs.replace(result, utterance=text)


class Rewritten:
    """Files of rewritten turns. They are read once in each process: pickled objects do not contain the lines.

    Args:
      paths: the files; if there are several lines for a turn and kind, the first counts.
    """

    def __init__(self, paths: Iterable[object]) -> None:
        self.paths = tuple(map(str, paths))

    def __reduce__(self) -> tuple[type[Rewritten], tuple[Sequence[str]]]:
        return Rewritten, (self.paths,)

    @cached_property
    def _content(self) -> tuple[dict[Key, tuple[Line, str, str]], list[DeadLetter]]:
        """The lines by key, with file and place; and the dead letters of bad lines."""
        lines: dict[Key, tuple[Line, str, str]] = {}
        bad = []
        for path in self.paths:
            name = path.rpartition("/")[2]
            for number, line in read_lines(path):
                where = f"line {number}"
                if isinstance(line, str):
                    bad.append(DeadLetter("", "", name, "", where, line))
                elif line.key in lines:
                    reason = f"duplicate: {' '.join(lines[line.key][1:])} also has the {line.kind} of turn {line.turn}"
                    bad.append(DeadLetter("", "", name, line.dialogue_id, where, reason))
                else:
                    lines[line.key] = line, name, where
        return lines, bad

    def get(self, key: Key) -> Line | None:
        """Return the line of a turn and kind, or None. Raises InputError if a file cannot be read."""
        entry = self._content[0].get(key)
        return entry and entry[0]

    def kinds(self) -> set[str]:
        """Return the kinds that have lines."""
        return {kind for _, _, kind in self._content[0]}

    def total(self, kinds: Collection[str]) -> int:
        """Return the number of bad lines, and of lines of some kinds."""
        lines, bad = self._content
        return len(bad) + sum(kind in kinds for _, _, kind in lines)

    def check(self, max_bad: Fraction) -> None:
        """Raise InputError if too many lines are bad; names the number and the first of them."""
        bad = self._content[1]
        tally = Tally("line", self.total(self.kinds()), len(bad), "--rewritten")
        check_bad([tally], max_bad, "used", reasons_of(bad), places_of(bad))

    def unused(self, kinds: Collection[str], matched: Collection[Key]) -> Iterator[tuple[str, list[DeadLetter]]]:
        """Yield (sort key, letters) of bad lines, and of lines of these kinds without a turn in the dialogues."""
        lines, bad = self._content
        reason = "no_user_turn: the dialogues that --split selects have no user turn {} of that dialogue id"
        rest = [
            DeadLetter("", "", name, line.dialogue_id, where, reason.format(line.turn))
            for key, (line, name, where) in lines.items()
            if line.kind in kinds and key not in matched
        ]
        for i, letter in enumerate([*bad, *rest]):
            yield f"\0{i:09}", [letter]


def unused_lines(
    files: beam.PCollection[DialogueFile], rewritten: Rewritten, kinds: Sequence[str]
) -> tuple[beam.PCollection, beam.PCollection]:
    """Find the bad lines, and those without a turn in the dialogues of the files.

    Returns:
      PCollection of (sort key, letters), and of their counts.
    """
    import apache_beam as beam

    keys = files | "Turns of lines" >> beam.FlatMap(_user_turns, kinds)
    matched = keys | "With a line" >> beam.Filter(rewritten.get)
    once = files.pipeline | "Lines" >> beam.Create([None], reshuffle=False)
    unused = beam.FlatMap(lambda _, matched: rewritten.unused(kinds, set(matched)), beam.pvalue.AsIter(matched))
    letters = once | "Unused lines" >> unused
    return letters, letters | "Count lines" >> beam.Map(lambda letter: (tuple(CountKey("bad_lines")), len(letter[1])))


def _user_turns(file: DialogueFile, kinds: Sequence[str]) -> Iterator[Key]:
    with suppress(InputError):  # the step that writes the sets reports files and dialogues that cannot be read
        for _, _, dialogue in dialogues_of(file):
            if isinstance(dialogue, InputError):
                continue
            for i, turn in enumerate(dialogue.turns):
                if turn.speaker == "USER":
                    yield from ((dialogue.dialogue_id, i, kind) for kind in kinds)
