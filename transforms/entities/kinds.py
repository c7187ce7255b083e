"""What kind of values a slot has, told from its values, its name and its description."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

# Values that are none, in SGD and MultiWOZ 2.2.
NONE = frozenset({"", "dontcare", "don't care", "do n't care", "none", "not mentioned", "?"})

FORMS = ("date", "time", "price", "phone")  # what keeps its form: always made, never drawn from names
CLOSED = ("number", "boolean", "categorical")  # every value there can be has been seen
NAMES = (
    "address", "airport", "station", "cuisine", "genre", "music", "person", "task", "title", "car", "city", "place",
    "business",
)  # fmt: skip
OTHER = "other"
KINDS = (*FORMS, *NAMES)
CHOICE = "choice"  # a categorical slot whose values are replaced by others of its closed set
REPLACED = (*KINDS, CHOICE)

ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_CLOCK = re.compile(r"\d?\d:\d\d(?: ?[ap]\.?m\.?)?", re.IGNORECASE)
_NUMBER = re.compile(r"[$£€]?\d[\d,]*(?:\.\d+)?%?")
_PHONE = re.compile(r"[+(]?\d[\d ().+-]{5,}\d")
_TRUTH = frozenset({"true", "false", "yes", "no", "free"})
_ADDRESS = re.compile(
    r"\d+[A-Za-z]?,? .*\b(?:st|street|rd|road|ave?|avenue|ln|lane|dr|drive|blvd|boulevard|ct|court|pl|place|pkwy|"
    r"parkway|hwy|highway|way|row|alley|terrace|circle|square|real|rue|yard)\b",
    re.IGNORECASE,
)
_AIRPORT = re.compile(r"\bairport\b", re.IGNORECASE)
_STATION = re.compile(r"\b(?:station|terminal|depot|transit|intermodal)\b", re.IGNORECASE)

_PRICE_WORDS = frozenset(
    ["price", "fare", "cost", "costs", "amount", "balance", "rent", "fee", "fees", "total", "money"]
)
# The first line that has a word of the slot's name says the kind; then the same for the description.
_BY_WORD = [
    ("address", "address street"),
    ("airport", "airport"),
    ("station", "station"),
    ("cuisine", "cuisine food"),
    ("genre", "genre"),
    ("person", "director directed actor actors starring cast artist recipient contact instructor driver therapist "
     "doctor author receiver"),
    ("task", "alarm reminder"),
    ("title", "movie title song album track event film show book"),
    ("car", "car"),
    ("city", "city town"),
    ("place", "attraction pickup dropoff destination"),
    ("business", "restaurant hotel salon theater theatre property shop gym library dentist stylist company line bank"),
    ("city", "location area origin departure port from to where"),
    ("place", "venue place"),
]  # fmt: skip


class SlotKind(msgspec.Struct, frozen=True):
    """A slot: its kind, and its closed set of values where it has one."""

    kind: str
    possible: tuple[str, ...] = ()


def is_none(value: str) -> bool:
    """Whether a value says that there is none, or that any will do."""
    return value.casefold() in NONE


def kind_of(name: str, description: str, values: Iterable[str]) -> str:
    """The kind of an open slot.

    Args:
      name: the slot's name.
      description: its description, or nothing.
      values: the different values that dialogues have for it, in any order.
    """
    real = [value for value in values if not is_none(value)]
    in_name, in_description = (set(re.findall(r"[a-z]+", text.casefold())) for text in (name, description))
    if real and all(value.casefold() in _TRUTH for value in real):
        return "boolean"
    for kind, shape in (("date", ISO_DATE), ("time", _CLOCK)):
        if _mostly(shape, real):
            return kind
    if _mostly(_NUMBER, real):
        # "phone" before "price": the digits of one may be without a dash
        if "phone" in in_name:
            return "phone"
        return "price" if _PRICE_WORDS & (in_name | in_description) else "number"
    if "phone" in in_name or (_mostly(_PHONE, real) and "phone" in in_description):
        return "phone"
    for found in (in_name, in_description):
        for kind, known in _BY_WORD:
            if not found.isdisjoint(known.split()):
                if kind == "genre" and in_description & {"music", "song", "songs", "album", "track"}:
                    return "music"
                if found is in_description and known.startswith("location"):
                    continue  # "to" and "from" stand in any description
                return kind
    return OTHER


def _mostly(shape: re.Pattern[str], values: list[str]) -> bool:
    """Whether at least half of the values, and one, have a shape: the others are as users say them."""
    return bool(values) and 2 * sum(shape.fullmatch(value) is not None for value in values) >= len(values)


def kind_of_value(kind: str, value: str) -> str:
    """The kind of one value of a slot whose values are of several: a destination may be an address or a station."""
    if kind in ("city", "place", "business"):
        if _ADDRESS.match(value):
            return "address"
        if _AIRPORT.search(value):
            return "airport"
        if kind != "business" and _STATION.search(value):
            return "station"
    return kind
