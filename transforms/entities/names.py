"""Made-up names by kind: from one number, one name. Their words and syllables are in ``names.toml``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection
from importlib import resources

from parapet.transforms.entities.vocabulary import words
from parapet.transforms.seeding import NumberRng


def _load() -> dict[str, list[str]]:
    text = (resources.files("parapet.transforms.entities") / "names.toml").read_text(encoding="utf-8")
    return {name: words.split() for name, words in tomllib.loads(text).items()}


_words = _load()

KNOWN_HOUSES = frozenset(_words["known_houses"])
KNOWN_SIGHTS = KNOWN_HOUSES | frozenset(_words["known_sights"])
COMMON = frozenset(_words["common"])
BEFORE_DATE = frozenset(_words["before_date"])
_CHORES = [
    (name.removeprefix("chore_").title(), things) for name, things in _words.items() if name.startswith("chore_")
]

_TITLES = ("dr ", "dr. ", "mr. ", "mrs. ", "ms. ", "prof. ")
_MATCH = re.compile(r" vs\.? ", re.IGNORECASE)  # "Mets Vs Phillies"


def made_up_name(kind: str, like: str, number: int) -> str:
    """A name of a kind.

    Args:
      kind: one of ``kinds.NAMES``.
      like: the value it stands for: a person of one name stays one, a place keeps the number of its house.
      number: 64 bits that look drawn.
    """
    return _MAKERS[kind](NumberRng(number), like)


def _joined(start: str, end: str) -> str:
    """Two syllables; no letter three times in a row."""
    return start + (end[1:] if start[-2:] == end[0] * 2 else end)


def _town(rng: NumberRng, _: str) -> str:
    return _joined(rng.choice(_words["starts"]), rng.choice(_words["town_ends"]))


def _family(rng: NumberRng) -> str:
    return _joined(rng.choice(_words["starts"]), rng.choice(_words["family_ends"]))


def _person(rng: NumberRng, like: str) -> str:
    first = rng.choice(_words["first"])
    title = like.split()[0] + " " if like.casefold().startswith(_TITLES) else ""
    return f"{title}{first} {_family(rng)}" if len(words(like)) > 1 else first


def _address(rng: NumberRng, like: str) -> str:
    number = 100 + rng.below(9800) if like[:1].isdigit() else 0
    street = f"{_town(rng, like)} {rng.choice(_words['streets'])}"
    return f"{number} {street}" if number else street


def _last_word(like: str, known: Collection[str]) -> str:
    """What kind of house or sight a name ends with, or nothing."""
    last = like.split()[-1].title() if len(like.split()) > 1 else ""
    return last if last in known else ""


def _business(rng: NumberRng, like: str) -> str:
    house = _last_word(like, KNOWN_HOUSES)
    if house:
        first = _town(rng, "") if rng.below(2) else f"{rng.choice(_words['adjectives'])} {rng.choice(_words['nouns'])}"
        return f"{first} {house}"
    form = rng.below(4)
    if form == 0:
        return f"The {rng.choice(_words['adjectives'])} {rng.choice(_words['nouns'])}"
    if form == 1:
        return f"{_family(rng)}'s {rng.choice(_words['houses'])}"
    first = rng.choice(_words["nouns"])
    if form == 2:
        return f"{first} & {rng.choice([noun for noun in _words['nouns'] if noun != first])}"
    return f"{rng.choice(_words['adjectives'])} {first} {rng.choice(_words['houses'])}"


def _place(rng: NumberRng, like: str) -> str:
    return f"{_town(rng, '')} {_last_word(like, KNOWN_SIGHTS) or rng.choice(_words['sights'])}"


def _title(rng: NumberRng, like: str) -> str:
    if _MATCH.search(like):
        return " Vs ".join(f"{_town(rng, '')} {_plural(rng.choice(_words['nouns']))}" for _ in range(2))
    form = rng.below(4)
    adjective, noun = rng.choice(_words["adjectives"]), rng.choice(_words["nouns"])
    if form == 0:
        return f"The {adjective} {noun}"
    if form == 1:
        return f"{rng.choice(_words['after'])} {adjective} {_plural(noun)}"
    return f"{adjective} {noun}" if form == 2 else f"{rng.choice(_words['first'])}'s {noun}"


def _plural(noun: str) -> str:
    if noun.endswith(("s", "x", "z", "ch", "sh")):
        return f"{noun}es"
    return f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeou" else f"{noun}s"


def _task(rng: NumberRng, _: str) -> str:
    """A chore of a list: of verbs and things drawn apart, most would make no sense."""
    verb, things = _CHORES[rng.below(len(_CHORES))]
    return f"{verb} the {rng.choice(_words['owners'])} {rng.choice(things)}"


def _car(rng: NumberRng, _: str) -> str:
    model = rng.choice(_words["cars"])
    return model if rng.below(2) else _joined(rng.choice(_words["starts"]), rng.choice(_words["car_ends"]))


_MAKERS: dict[str, Callable[[NumberRng, str], str]] = {
    "address": _address,
    "airport": lambda rng, like: f"{_town(rng, like)} Airport",
    "business": _business,
    "car": _car,
    "city": _town,
    "cuisine": lambda rng, _: rng.choice(_words["cuisines"]),
    "genre": lambda rng, _: rng.choice(_words["genres"]),
    "music": lambda rng, _: rng.choice(_words["music"]),
    "person": _person,
    "place": _place,
    "station": lambda rng, like: f"{_town(rng, like)} Station",
    "task": _task,
    "title": _title,
}
