"""Turns that somebody else has rewritten, the crowd or a model: JSON lines, read and checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from parapet.schemas.errors import InputError, reason_and_place
from parapet.schemas.rewritings import KINDS
from parapet.transforms.dead_letters import DeadLetter
from parapet.transforms.files import read_bytes

REWRITTEN = "rewritten"  # the source of a line that names none

Key = tuple[str, int, str]  # dialogue id, turn, kind
Rewritten = tuple[str, str]  # text, source


class Line(msgspec.Struct, frozen=True):
    """A line of a file: one turn of one dialogue, said in one other way.

    Attributes:
      dialogue_id: the dialogue.
      turn: the position of the user's turn in it, from 0; system turns count.
      kind: of :data:`KINDS`.
      utterance: what is said.
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


class Given(msgspec.Struct, frozen=True):
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
    try:
        data = read_bytes(path)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path, "--rewritten") from None
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


def read_given(paths: Sequence[str]) -> Given:
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
    return Given(paths, {kind: n for kind, n in lines.items() if n}, bad)
