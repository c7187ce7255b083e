"""Generators of names by kind: from one number, one name."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from parapet.transforms.entities import names
from parapet.transforms.entities.tokens import words

_TITLES = ("dr ", "dr. ", "mr. ", "mrs. ", "ms. ", "prof. ")
_MATCH = re.compile(r" vs\.? ", re.IGNORECASE)  # "Mets Vs Phillies"


class Draw:
    """Choices out of one large number, one after the other."""

    def __init__(self, number: int) -> None:
        self.left = number

    def of(self, choices: Sequence[str]) -> str:
        """One of the choices."""
        return choices[self.below(len(choices))]

    def below(self, n: int) -> int:
        """A number from 0 to n - 1."""
        self.left, found = divmod(self.left, n)
        return found


def made(kind: str, like: str, number: int) -> str:
    """A name of a kind.

    Args:
      kind: one of ``kinds.NAMES``.
      like: the value it stands for: a person of one name stays one, a place keeps the number of its house.
      number: 64 bits that look drawn.
    """
    return _MAKERS[kind](Draw(number), like)


def _joined(start: str, end: str) -> str:
    """Two syllables; no letter stands three times."""
    return start + (end[1:] if start[-2:] == end[0] * 2 else end)


def _town(draw: Draw, _: str) -> str:
    return _joined(draw.of(names.STARTS), draw.of(names.TOWN_ENDS))


def _family(draw: Draw) -> str:
    return _joined(draw.of(names.STARTS), draw.of(names.FAMILY_ENDS))


def _person(draw: Draw, like: str) -> str:
    first = draw.of(names.FIRST)
    title = like.split()[0] + " " if like.casefold().startswith(_TITLES) else ""
    return f"{title}{first} {_family(draw)}" if len(words(like)) > 1 else first


def _address(draw: Draw, like: str) -> str:
    number = 100 + draw.below(9800) if like[:1].isdigit() else 0
    street = f"{_town(draw, like)} {draw.of(names.STREETS)}"
    return f"{number} {street}" if number else street


def _last_word(like: str, known: Collection[str]) -> str:
    """What kind of house or sight a name ends with, or nothing."""
    last = like.split()[-1].title() if len(like.split()) > 1 else ""
    return last if last in known else ""


def _business(draw: Draw, like: str) -> str:
    house = _last_word(like, names.KNOWN_HOUSES)
    if house:
        first = _town(draw, "") if draw.below(2) else f"{draw.of(names.ADJECTIVES)} {draw.of(names.NOUNS)}"
        return f"{first} {house}"
    form = draw.below(4)
    if form == 0:
        return f"The {draw.of(names.ADJECTIVES)} {draw.of(names.NOUNS)}"
    if form == 1:
        return f"{_family(draw)}'s {draw.of(names.HOUSES)}"
    first = draw.of(names.NOUNS)
    if form == 2:
        return f"{first} & {draw.of([noun for noun in names.NOUNS if noun != first])}"
    return f"{draw.of(names.ADJECTIVES)} {first} {draw.of(names.HOUSES)}"


def _place(draw: Draw, like: str) -> str:
    return f"{_town(draw, '')} {_last_word(like, names.KNOWN_SIGHTS) or draw.of(names.SIGHTS)}"


def _title(draw: Draw, like: str) -> str:
    if _MATCH.search(like):
        return f"{_town(draw, '')} {_plural(draw.of(names.NOUNS))} Vs {_town(draw, '')} {_plural(draw.of(names.NOUNS))}"
    form = draw.below(4)
    adjective, noun = draw.of(names.ADJECTIVES), draw.of(names.NOUNS)
    if form == 0:
        return f"The {adjective} {noun}"
    if form == 1:
        return f"{draw.of(names.AFTER)} {adjective} {_plural(noun)}"
    return f"{adjective} {noun}" if form == 2 else f"{draw.of(names.FIRST)}'s {noun}"


def _plural(noun: str) -> str:
    if noun.endswith(("s", "x", "z", "ch", "sh")):
        return f"{noun}es"
    return f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeou" else f"{noun}s"


def _task(draw: Draw, _: str) -> str:
    """A chore of a list: of verbs and things drawn apart, most would make no sense."""
    verb, things = names.CHORES[draw.below(len(names.CHORES))]
    return f"{verb} the {draw.of(names.OWNERS)} {draw.of(things)}"


def _car(draw: Draw, _: str) -> str:
    model = draw.of(names.CARS)
    return model if draw.below(2) else _joined(draw.of(names.STARTS), draw.of(names.CAR_ENDS))


_MAKERS: dict[str, Callable[[Draw, str], str]] = {
    "address": _address,
    "airport": lambda draw, like: f"{_town(draw, like)} Airport",
    "business": _business,
    "car": _car,
    "city": _town,
    "cuisine": lambda draw, _: draw.of(names.CUISINES),
    "genre": lambda draw, _: draw.of(names.GENRES),
    "music": lambda draw, _: draw.of(names.MUSIC),
    "person": _person,
    "place": _place,
    "station": lambda draw, like: f"{_town(draw, like)} Station",
    "task": _task,
    "title": _title,
}
