"""Text: cleaning typed text, splitting it into words, formatting numbers, and naming conventions."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from enum import Enum
from functools import lru_cache

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.service import Kind, Service, Toolset

_SPACES = re.compile(r"\s+")
_WORD = re.compile(r"[^\W_]+")
_OTHER_KIND = re.compile(rb'<[A-Za-z!?]|\{ ?"')

# Categories of invisible characters: controls, formats (zero-width, bidi marks), private use, surrogates, unassigned.
_INVISIBLE = frozenset({"Cc", "Cf", "Co", "Cs", "Cn"})
# Invisible characters of other categories: joiners, fillers, variation selectors, the empty braille cell.
_IGNORABLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\ufe00-\ufe0f\U000e0100-\U000e01ef]")


def clean(text: str) -> str:
    """Normalises a text: NFKC, no invisible characters, single spaces, none at the ends.

    Idempotent: characters that a step produces (such as a compatibility character that becomes a space) are cleaned in
    the same pass.
    """
    if text.isascii() and text.isprintable():
        return _SPACES.sub(" ", text).strip()
    text = unicodedata.normalize("NFKC", _SPACES.sub(" ", text))
    text = _IGNORABLE.sub("", text)
    text = "".join(c for c in text if c.isspace() or unicodedata.category(c) not in _INVISIBLE)
    # Removing a format character can join a letter and its accent.
    return _SPACES.sub(" ", unicodedata.normalize("NFKC", text)).strip()


def words(text: str) -> tuple[str, ...]:
    """Splits a text into lower-case words; apostrophes inside a word are dropped, other punctuation separates words."""
    return tuple(_WORD.findall(text.casefold().replace("'", "").replace("\u2019", "")))


cached_words = lru_cache(maxsize=1 << 13)(words)  # for prompts and originals, which are split repeatedly


def percent(value: float | None, digits: int = 1, signed: bool = False) -> str:
    """Formats a share in percent: 0.646 is ``64.6%``; a dash if it is undefined."""
    return "–" if value is None or not math.isfinite(value) else f"{100 * value:{'+' if signed else ''}.{digits}f}%"


def number(value: float | None, digits: int = 0, signed: bool = False) -> str:
    """Formats a number with thousands separators, such as ``1,234.5``; a dash if it is undefined."""
    return "–" if value is None or not math.isfinite(value) else f"{value:{'+' if signed else ''},.{digits}f}"


def counted(n: int, noun: str, plural: str = "") -> str:
    """Formats a count, such as ``1 service`` or ``2 services``; ``plural`` is for irregular nouns."""
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Formats rows of cells as lines with aligned columns: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in rows)
    return "\n".join("  ".join(line).rstrip() for line in lines)


def check_plain_text(beginning: bytes, path: object, flag: str = "") -> None:
    """Raises InputError if a file that should have one text per line is HTML, XML or JSON."""
    if match := _OTHER_KIND.match(beginning.removeprefix(b"\xef\xbb\xbf").lstrip()):
        kind = "HTML or XML" if match[0][:1] == b"<" else "JSON"
        raise InputError(f"is {kind}: expected plain text, one entry per line", path, flag)


# Both boundaries, so that BookAHotel becomes book, a, hotel.
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_PART = re.compile(r"[^A-Za-z0-9]+")


class Convention(Enum):
    """How the words of a name are joined."""

    SNAKE = "snake_case"
    CAMEL = "CamelCase"
    LOWER_CAMEL = "lowerCamelCase"
    KEBAB = "kebab-case"
    DOMAIN_SLOT = "domain-slot"  # MultiWOZ 2.2: "hotel-pricerange", where the part before the hyphen is the domain


class Conventions(msgspec.Struct, frozen=True):
    """The conventions of a corpus for the names of its slots and of its intents."""

    slots: Convention = Convention.SNAKE
    intents: Convention = Convention.CAMEL
    by_name: bool = False  # for tools: the convention of each name with several words is taken from the name itself

    def of(self, kind: Kind, name: str = "") -> Convention:
        """Returns the convention of a kind of element, or that of the name itself if ``by_name``."""
        own = _last(name) if self.by_name else ""
        usual = self.intents if kind == "intent" else self.slots
        if not own or re.fullmatch("[a-z0-9]+", own):
            return usual
        return next((convention for convention in _OF_TOOLS if _FORM[convention].fullmatch(own)), usual)

    def within(self, service: Service) -> Conventions:
        """Returns the conventions of one toolset, which may have its own; for other services, the corpus's."""
        return conventions_of([service]) if self.by_name else self


_FORM = {
    Convention.SNAKE: re.compile(r"[a-z0-9]+(_[a-z0-9]+)*"),
    Convention.CAMEL: re.compile(r"[A-Z][A-Za-z0-9]*"),
    Convention.LOWER_CAMEL: re.compile(r"[a-z0-9]+[A-Z][A-Za-z0-9]*"),
    Convention.KEBAB: re.compile(r"[a-z0-9]+(-[a-z0-9]+)*"),
    Convention.DOMAIN_SLOT: re.compile(r"[a-z0-9]+-[a-z0-9]+(_[a-z0-9]+)*"),
}


_OF_TOOLS = (Convention.SNAKE, Convention.CAMEL, Convention.LOWER_CAMEL, Convention.KEBAB)


@lru_cache(maxsize=1 << 13)
def name_words(name: str) -> tuple[str, ...]:
    """Splits a name in any convention, or typed freely, into lower-case words of ASCII letters and digits.

    Letters lose their accents; apostrophes vanish ("driver's" is one word); characters without an ASCII form are
    dropped. A text entirely in capitals has no camel-case boundaries.
    """
    ascii_name = name.replace("'", "").replace("\u2019", "")
    if not ascii_name.isascii():
        ascii_name = "".join(c for c in unicodedata.normalize("NFKD", ascii_name) if ord(c) < 128)
    words = []
    for part in _PART.split(ascii_name):
        if part:
            words += _CAMEL.split(part)
    return tuple(word.lower() for word in words)


def find_convention(names: Iterable[str]) -> Convention:
    """Returns the convention that most of the names follow; SNAKE if no name follows any.

    Single lower-case words fit several conventions and count for each. Ties go to the earlier one of the enumeration,
    except that ``domain-slot`` precedes ``kebab-case`` if every hyphenated name has exactly one hyphen and the parts
    before it repeat.
    """
    names = [name for name in names if name]
    votes: Counter[Convention] = Counter()
    for name in names:
        votes.update(convention for convention, form in _FORM.items() if form.fullmatch(name))
    if not votes:
        return Convention.SNAKE
    prefixes = Counter(name.split("-")[0] for name in names if "-" in name)
    if votes[Convention.DOMAIN_SLOT] * 2 > len(names) and len(prefixes) * 2 <= sum(prefixes.values()):
        return Convention.DOMAIN_SLOT
    order = [Convention.SNAKE, Convention.CAMEL, Convention.LOWER_CAMEL, Convention.KEBAB]
    return max(order, key=lambda convention: (votes[convention], -order.index(convention)))


def conventions_of(services: Iterable[Service]) -> Conventions:
    """Returns the naming conventions of a corpus from all of its services."""
    services = list(services)
    slots = [slot.name for service in services for slot in service.slots]
    intents = [intent.name for service in services for intent in service.intents]
    if not any(isinstance(service, Toolset) for service in services):
        return Conventions(find_convention(slots), find_convention(intents))
    # Single words fit several conventions: without other names, parameters follow the convention of tools, and vice
    # versa.
    several = [
        [name for name in map(_last, names) if not re.fullmatch("[a-z0-9]+", name)] for names in (slots, intents)
    ]
    hyphens = {Convention.DOMAIN_SLOT: Convention.KEBAB}  # tools have no domains
    of_slots, of_intents = (
        hyphens.get(convention, convention)
        for convention in (find_convention(several[i] or several[1 - i]) for i in (0, 1))
    )
    return Conventions(of_slots, of_intents, by_name=True)


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def join_words(parts: Iterable[str], convention: Convention, original: str = "") -> str:
    """Joins words to a name; ``""`` without words.

    Args:
      parts: lower-case ASCII words.
      convention: the convention of the name.
      original: the paraphrased name; ``domain-slot`` names keep its domain, names with dots keep the part before the
        last dot.
    """
    if not (parts := list(parts)):
        return ""
    space, dot, _ = original.rpartition(".")
    if dot:
        front = list(name_words(space))
        parts = parts[len(front) :] if parts[: len(front)] == front and len(parts) > len(front) else parts
        return f"{space}.{join_words(parts, convention)}"
    match convention:
        case Convention.CAMEL:
            name = "".join(part[:1].upper() + part[1:] for part in parts)
            return name if name[0].isalpha() else f"The{name}"  # an intent such as "24HourRental" is not an identifier
        case Convention.LOWER_CAMEL:
            return parts[0] + "".join(part[:1].upper() + part[1:] for part in parts[1:])
        case Convention.KEBAB:
            return "-".join(parts)
        case Convention.DOMAIN_SLOT:
            domain = original.partition("-")[0] if "-" in original else ""
            head = list(name_words(domain))
            if parts[: len(head)] == head and len(parts) > len(head):
                parts = parts[len(head) :]
            return f"{domain}-{'_'.join(parts)}" if domain else "_".join(parts)
        case _:
            return "_".join(parts)
