"""Files of the bAbI dialog tasks, read strictly: dialogues, the knowledge base, the candidates.

A line of a dialogue is ``N user<TAB>bot``, numbered from 1; a fact of the knowledge base is a line without a tab, ``N
entity relation value``. Where the bot speaks twice in a row, the user's part is ``<SILENCE>``. A blank line ends each
dialogue, the last one too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from schemas.errors import InputError

SILENCE = "<SILENCE>"

_NUMBERED = re.compile(r"([1-9][0-9]{0,8}) (.+)", re.DOTALL)


class Fact(msgspec.Struct, frozen=True):
    """A row of the knowledge base, such as ``resto_rome_cheap_thai_2stars R_cuisine thai``."""

    entity: str
    relation: str
    value: str


class Exchange(msgspec.Struct, frozen=True):
    """What the user says, or :data:`SILENCE`, and what the bot answers."""

    user: str
    bot: str


class BabiDialogue(msgspec.Struct, frozen=True):
    """A dialogue.

    Attributes:
      lines: facts and exchanges, in order.
      line: where it begins in its file, from 1.
    """

    lines: tuple[Fact | Exchange, ...]
    line: int = 1

    @property
    def exchanges(self) -> list[Exchange]:
        """The exchanges alone."""
        return [one for one in self.lines if isinstance(one, Exchange)]

    @property
    def facts(self) -> list[Fact]:
        """The facts alone."""
        return [one for one in self.lines if isinstance(one, Fact)]


def parse_dialogues(data: bytes, path: object = "") -> Iterator[BabiDialogue]:
    """The dialogues of a file's bytes, one by one.

    Raises:
      InputError: a line that is none of the format, or the file is cut off; with the line, possibly after dialogues.
    """
    found: list[Fact | Exchange] = []
    first = 1
    for number, line in enumerate(_lines(data, path), 1):
        if not line:
            if found:
                yield BabiDialogue(tuple(found), first)
            found = []
            continue
        place, parsed = _parse(line, path, f"line {number}")
        if place == 1 and found:  # numbers that begin again are enough
            yield BabiDialogue(tuple(found), first)
            found = []
        if place != len(found) + 1:
            reason = f"is numbered {place}, and {len(found) + 1} was expected: is something missing?"
            raise InputError(reason, path, f"line {number}")
        first = number if place == 1 else first
        found.append(parsed)
    if found:
        raise InputError("no blank line ends the last dialogue: is the file cut off?", path, f"line {first}")


def parse_facts(data: bytes, path: object = "") -> Iterator[Fact]:
    """The knowledge base, whose lines are ``1 entity relation<TAB>value``. Raises InputError with the line."""
    for number, line in enumerate(_lines(data, path), 1):
        left, tab, value = _content(line, path, f"line {number}")[1].partition("\t")
        words = left.split(" ")
        if len(words) != 2 or not all(words) or not tab or not value or "\t" in value:
            raise InputError("is no fact: 'entity relation', a tab and a value", path, f"line {number}")
        yield Fact(words[0], words[1], value)


def parse_candidates(data: bytes, path: object = "") -> list[str]:
    """What the bot may say, one text a line, ``1 text``. Raises InputError with the line."""
    return [_content(line, path, f"line {i}")[1] for i, line in enumerate(_lines(data, path), 1)]


def _lines(data: bytes, path: object) -> list[str]:
    try:
        text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError("not UTF-8: save the file as UTF-8", path, f"line {line}") from None
    lines = text.replace("\r\n", "\n").split("\n")
    if not text.strip():
        raise InputError("the file is empty", path)
    if lines.pop():
        raise InputError("the file ends inside a line: is it cut off?", path, f"line {len(lines) + 1}")
    return lines


def _content(line: str, path: object, where: str) -> tuple[int, str]:
    numbered = _NUMBERED.fullmatch(line)
    if not numbered:
        raise InputError("does not begin with a number and a space", path, where)
    return int(numbered[1]), numbered[2]


def _parse(line: str, path: object, where: str) -> tuple[int, Fact | Exchange]:
    place, content = _content(line, path, where)
    parts = content.split("\t")
    if len(parts) == 2 and all(part.strip() for part in parts):
        return place, Exchange(*parts)
    if len(parts) == 1:
        words = content.split(" ")
        if len(words) == 3 and all(words):
            return place, Fact(*words)
        raise InputError("has no tab, and is no fact of three words either", path, where)
    raise InputError("is not what the user says, a tab, and what the bot says", path, where)
