"""Turns that somebody else has rewritten, the crowd or a model: JSON lines, read and checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any

import apache_beam as beam
import msgspec
from msgspec import Meta

from parapet.schemas.errors import reason_and_place
from parapet.schemas.limits import MAX_DIALOGUE_FILE
from parapet.schemas.rewritings import KINDS
from parapet.transforms.compressed import read_input
from parapet.transforms.counts import CountKey
from parapet.transforms.dead_letters import DeadLetter, Tally, check_bad, places_of, reasons_of

REWRITTEN = "rewritten"  # the source of a line that names none

Key = tuple[str, int, str]  # dialogue id, turn, kind
Rewritten = tuple[str, str]  # text, source


class Line(msgspec.Struct, frozen=True):
    """A line of a file: one turn of one dialogue in other words.

    Attributes:
      dialogue_id: the dialogue.
      turn: the position of the user's turn in it, from 0; system turns count.
      kind: of :data:`KINDS`.
      utterance: what is user_turn.
      source: whose words they are.
    """

    dialogue_id: str
    turn: Annotated[int, Meta(ge=0)]
    kind: str
    utterance: str
    source: str = ""

    @property
    def key(self) -> Key:
        """Of it there may be one line."""
        return self.dialogue_id, self.turn, self.kind


class Files(msgspec.Struct, frozen=True):
    """The files as a whole.

    Attributes:
      paths: in the order given.
      lines: how many there are of each kind, without those that are bad.
      bad: of each bad line the file and what is wrong with it.
    """

    paths: Sequence[str]
    lines: Mapping[str, int]
    bad: Sequence[DeadLetter]


_decode = msgspec.json.Decoder(Line).decode


def read_lines(path: str) -> Iterator[tuple[int, Line | str]]:
    """(number, the line or what is wrong with it), from 1; empty lines are none.

    Raises:
      InputError: the file cannot be read.
    """
    data = read_input(path, MAX_DIALOGUE_FILE, "--rewritten")
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if line.strip():
            yield number, _read(line)


def _read(line: bytes) -> Line | str:
    try:
        found = _decode(line)
    except msgspec.ValidationError as error:
        reason, at = reason_and_place(error)
        return f"bad_line: {at}: {reason}" if at else f"bad_line: {reason}"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return f"not_json: {error}"
    if found.kind not in KINDS:
        return f"unknown_kind: {found.kind!r}: there are {', '.join(KINDS)}"
    text = found.utterance.strip()
    if not text:
        return "no_text: the utterance is empty"
    return msgspec.structs.replace(found, utterance=text)


def read_files(paths: Sequence[str]) -> Files:
    """Reads all files once, to know their kinds and mistakes. Raises InputError where one cannot be read."""
    lines: dict[str, int] = dict.fromkeys(KINDS, 0)
    bad: list[DeadLetter] = []
    first: dict[Key, str] = {}
    for path in paths:
        name = path.rpartition("/")[2]
        for number, line in read_lines(path):
            where = f"line {number}"
            if isinstance(line, str):
                bad.append(DeadLetter("", "", name, "", where, line))
            elif line.key in first:
                reason = f"duplicate: {first[line.key]} has the {line.kind} of turn {line.turn} too"
                bad.append(DeadLetter("", "", name, line.dialogue_id, where, reason))
            else:
                first[line.key] = f"{name} {where}"
                lines[line.kind] += 1
    return Files(paths, {kind: n for kind, n in lines.items() if n}, bad)


Found = tuple[int, int, str, str, str]  # place of the file in the order given, line, file's name, text, source


def check_lines(files: Files, max_bad: Fraction) -> None:
    """Raises InputError where more lines cannot be used than may be: how many, and the first of them."""
    bad = len(files.bad)
    tally = Tally("line", sum(files.lines.values()) + bad, bad, "--rewritten")
    check_bad([tally], max_bad, "used", reasons_of(files.bad), places_of(files.bad))


class ReadRewritten(beam.PTransform):
    """Reads the files where workers are.

    Args:
      given: the files; none where there are none.
      kinds: which of them are made; lines of others are passed over.
    """

    def __init__(self, given: Files | None, kinds: Sequence[str]) -> None:
        super().__init__()
        self.paths, self.kinds = list(enumerate(given.paths if given else ())), tuple(kinds)

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        """Pipeline to PCollection of (Key, Found); of several lines of one key the first."""
        return (
            pipeline
            | "Files" >> beam.Create(self.paths)
            | "Lines" >> beam.FlatMap(_keyed, self.kinds)
            | "First of each turn" >> beam.CombinePerKey(min)
        )


def _keyed(given: tuple[int, str], kinds: Sequence[str]) -> Iterator[tuple[Key, Found]]:
    place, path = given
    for number, line in read_lines(path):
        if isinstance(line, Line) and line.kind in kinds:
            yield line.key, (place, number, path.rpartition("/")[2], line.utterance, line.source or REWRITTEN)


class Fates(beam.PTransform):
    """What becomes of the lines: how many have and have not a turn, and letters for those that are of no use.

    Args:
      given: the files; none where there are none.
      lines: PCollection of (Key, Found).
    """

    def __init__(self, given: Files | None, lines: beam.PCollection) -> None:
        super().__init__()
        self.given, self.lines = given or Files((), {}, ()), lines

    def expand(self, matched: beam.PCollection) -> tuple[beam.PCollection, beam.PCollection]:
        """(Key, anything) of lines that a turn has asked for, to (where it sorts, letters) and (name, n)."""
        pipeline, given = matched.pipeline, self.given
        bad = [(f"\0{i:09}", [letter]) for i, letter in enumerate(given.bad)]
        counts = [(CountKey("lines", kind), n) for kind, n in given.lines.items()]
        checked = {"lines": self.lines, "turns": matched} | "By line" >> beam.CoGroupByKey()
        letters = (
            pipeline | "Bad lines" >> beam.Create(bad),
            checked | "Lines without a turn" >> beam.FlatMap(_without_turn),
        )
        fates = (
            pipeline | "Lines read" >> beam.Create([*counts, (CountKey("bad_lines"), len(bad))] if given.paths else []),
            checked | "Fates" >> beam.Map(_fate),
        )
        return letters | "Letters" >> beam.Flatten(), fates | "Counts" >> beam.Flatten()


def _without_turn(pair: tuple[Key, Mapping[str, Iterable[Any]]]) -> Iterator[tuple[str, list[DeadLetter]]]:
    (dialogue_id, turn, _), of = pair
    if not any(of["turns"]):
        for place, number, name, _, _ in of["lines"]:
            reason = f"no_user_turn: the dialogues have no user turn {turn} of that id; --split says whose are read"
            letter = DeadLetter("", "", name, dialogue_id, f"line {number}", reason)
            yield f"\0{place:06}:{number:09}", [letter]


def _fate(pair: tuple[Key, Mapping[str, Iterable[Any]]]) -> tuple[CountKey, int]:
    (_, _, kind), of = pair
    return CountKey("lines_with_turn" if any(of["turns"]) else "lines_without_turn", kind), 1
