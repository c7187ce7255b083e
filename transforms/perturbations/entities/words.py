"""Words of a text, the same in utterances, in values and in training; and what words training has."""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache
from hashlib import blake2b
from importlib import resources
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from parapet.transforms.running.seeding import NumberRng

Hashes = npt.NDArray[np.uint64]

# A number is one word with its points, colons and dashes (7:17, 2019-03-05, 408-971-8523), an ordinal too (5th). A
# possessive 's is a word of its own, so that "Milpitas's" holds Milpitas.
WORD = re.compile(
    r"\d+(?:[.,:/-]\d+)*(?:(?:st|nd|rd|th)(?![^\W\d_]))?|[^\W\d_]+(?:['’](?!s\b)[^\W\d_]+)*", re.IGNORECASE
)


def plain(word: str) -> str:
    """A word without case, apostrophes, and the commas of thousands."""
    word = word.casefold()
    return word if word.isalnum() else word.replace(",", "").replace("'", "").replace("’", "")


def words(text: str) -> list[str]:
    """The words of a text: case folded, punctuation off."""
    if text.isascii():  # then a text in lower case has the same words
        found: list[str] = WORD.findall(text.lower())
        return found if "'" not in text and "," not in text else [plain(word) for word in found]
    return [plain(word) for word in WORD.findall(text)]


@lru_cache(1 << 16)
def words_of(text: str) -> tuple[str, ...]:
    """The same of a value: most are met again and again."""
    return tuple(words(text))


def folded(text: str) -> str:
    """A text without case, and with single blanks: what one value may be written in two ways by."""
    return " ".join(text.casefold().split())


def is_number(word: str) -> bool:
    """Whether a word is a bare number: ``7`` may count anything; ``7:17`` and ``5th`` are no bare numbers.

    Nor are six digits and more: nothing but a reference or a telephone has so many.
    """
    digits = word.replace(".", "", 1)
    return digits.isdecimal() and len(digits) < 6


class Training:
    """Words and pairs of words that occur in training.

    A sequence of two words or more occurs nowhere if none of its pairs does: so pairs are all that need be kept. They
    are kept as sorted 64-bit hashes: 5 MB for all of SGD's training split, which each worker can have.

    Args:
      grams: the hashes, sorted.
      texts: how many different texts they are of.
    """

    def __init__(self, grams: Hashes, texts: int) -> None:
        self.grams, self.texts = grams, texts
        self._sorted = grams.data
        self._known: dict[str, bool] = {}
        self._known_forms: dict[str, bool] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Training, (self.grams, self.texts)

    def leaks(self, text: str) -> bool:
        """Whether training has the text, if it is one word, or two words that follow each other in it."""
        found = self._known.get(text)
        if found is None:
            if len(self._known) > 100_000:
                self._known.clear()
            found = self._known[text] = any(self._has(gram) for gram in grams_of(words(text)))
        return found

    def leaks_form(self, text: str) -> bool:
        """As ``leaks``, of a reference or postcode: what is between spaces is one word, ``cb1`` or ``3ef``."""
        known = self._known_forms.get(text)
        if known is not None:
            return known
        if len(self._known_forms) > 100_000:
            self._known_forms.clear()
        chunks = [found for chunk in text.split() if (found := words(chunk))]
        pairs = [one + other for one, other in pairwise(chunks)] or chunks
        known = any(all(self._has(gram) for gram in grams_of(pair)) for pair in pairs)
        self._known_forms[text] = known
        return known

    def _has(self, gram: str) -> bool:
        wanted = _hashed(gram)
        place = bisect_left(self._sorted, wanted)
        return place < len(self._sorted) and self._sorted[place] == wanted


def grams_of(found: list[str]) -> list[str]:
    """What must not occur in training: a single word, or each pair of adjacent words."""
    return found if len(found) < 2 else [f"{one} {two}" for one, two in pairwise(found)]


def grams_in(texts: Iterable[str]) -> Hashes:
    """The words of texts, and the pairs of words that follow each other: their hashes, sorted."""
    grams: set[str] = set()
    for text in texts:
        found = words(text)
        grams.update(found)
        grams.update(grams_of(found))
    return hashes_of(grams)


def hashes_of(texts: Collection[str]) -> Hashes:
    """The hashes of different texts, sorted."""
    return np.sort(np.fromiter(map(_hashed, texts), np.uint64, len(texts)))


def _hashed(gram: str) -> int:
    return int.from_bytes(blake2b(gram.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def strings_of(value: Any) -> Iterator[str]:
    """Every string in a value, of lists and of the values of objects, in no order."""
    left = [value]
    while left:
        value = left.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            left.extend(value.values())
        elif isinstance(value, list):
            left.extend(value)


def _load() -> dict[str, list[str]]:
    text = (resources.files("parapet.transforms.perturbations.entities") / "names.toml").read_text(encoding="utf-8")
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
