"""The words and syllables that made-up names consist of, and some that no name may be, as ``names.toml`` has them."""

from __future__ import annotations

import tomllib
from importlib import resources


def _load() -> dict[str, list[str]]:
    text = (resources.files("parapet.transforms.entities") / "names.toml").read_text(encoding="utf-8")
    return {name: words.split() for name, words in tomllib.loads(text).items()}


_words = _load()

FIRST = _words["first"]
STARTS = _words["starts"]
TOWN_ENDS = _words["town_ends"]
FAMILY_ENDS = _words["family_ends"]
STREETS = _words["streets"]
ADJECTIVES = _words["adjectives"]
NOUNS = _words["nouns"]
HOUSES = _words["houses"]
SIGHTS = _words["sights"]
KNOWN_HOUSES = frozenset(_words["known_houses"])
KNOWN_SIGHTS = KNOWN_HOUSES | frozenset(_words["known_sights"])
AFTER = _words["after"]
OWNERS = _words["owners"]
CHORES = [(name.removeprefix("chore_").title(), things) for name, things in _words.items() if name.startswith("chore_")]
CARS = _words["cars"]
CAR_ENDS = _words["car_ends"]
CUISINES = _words["cuisines"]
GENRES = _words["genres"]
MUSIC = _words["music"]
COMMON = frozenset(_words["common"])
BEFORE_DATE = frozenset(_words["before_date"])
