"""The rules by which an utterance is spoken: ``normalisation.toml``, or a file of its form."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterator
from functools import cached_property
from importlib import resources
from pathlib import Path

import msgspec

from parapet.schemas.errors import InputError, reason_and_place
from parapet.schemas.layout import as_path
from parapet.schemas.limits import read_text

WORD = re.compile(r"[a-z]+(?:'[a-z]+)*")

_PUNCTUATION = frozenset(".,:;'\"()/-_`")


class Sayings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is said for what a number needs."""

    point: str
    minus: str
    to: str
    dot: str
    zero: str
    oh: str
    oclock: str
    hundred: str
    midnight: str
    and_: str = msgspec.field(name="and")


class Months(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The names of the months, January first."""

    names: tuple[str, ...]


class Normalisation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """The rules of a file; ``normalisation.toml`` says what each table means."""

    version: str
    sayings: Sayings
    months: Months
    abbreviations: dict[str, str] = {}
    before_names: dict[str, str] = {}
    after_names: dict[str, str] = {}
    symbols: dict[str, str] = {}
    fractions: dict[str, str] = {}
    units: dict[str, tuple[str, str]] = {}
    currencies: dict[str, tuple[str, ...]] = {}
    scales: dict[str, str] = {}

    @cached_property
    def tokens(self) -> re.Pattern[str]:
        """What finds words, numbers and symbols; made once, and again in each process."""
        return _token_pattern(self)

    @cached_property
    def id(self) -> str:
        """A hash of all the rules: a file may change and keep its version."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()[:12]

    @cached_property
    def special(self) -> frozenset[str]:
        """The words that may be said as something else than they are written."""
        return frozenset({*self.abbreviations, *self.before_names, *self.after_names, *self.units, "am"})

    @cached_property
    def kept(self) -> frozenset[str]:
        """Characters that mean something by themselves, whatever Unicode would make of them."""
        return frozenset({*self.symbols, *self.currencies})


def load_normalisation(path: str | Path | None = None) -> Normalisation:
    """The rules of a TOML file, by default of the one that comes with Parapet.

    Raises:
      InputError: it cannot be read, or something in it cannot be said.
    """
    if path is None:
        path = "normalisation.toml"
        text = resources.files("parapet.transforms.speech").joinpath(path).read_text("utf-8")
    else:
        place = as_path(path)
        if not place.is_file():
            raise InputError("there is no such file", path)
        text = read_text(place)
    try:
        rules = msgspec.convert(tomllib.loads(text), Normalisation)
    except msgspec.ValidationError as error:
        reason, at = reason_and_place(error)
        raise InputError(reason, path, at) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"not TOML: {error}", path) from None
    for where, reason in _problems(rules):
        raise InputError(reason, path, where)
    return rules


def _problems(rules: Normalisation) -> Iterator[tuple[str, str]]:
    if not rules.version.strip():
        yield "version", "is empty"
    if len(rules.months.names) != 12:
        yield "months.names", f"twelve months are needed, here are {len(rules.months.names)}"
    for symbol, names in rules.currencies.items():
        if len(names) not in (2, 4):
            yield f"currencies.{symbol}", "give two names, or four: one, several, a hundredth, several hundredths"
    for table in ("abbreviations", "before_names", "after_names", "units", "scales"):
        for key in getattr(rules, table):
            if not WORD.fullmatch(key):
                yield f"{table}.{key}", f"{key!r} is not a word in lower-case letters"
    for table in ("symbols", "currencies"):
        for key in getattr(rules, table):
            if len(key) != 1 or key.isspace() or key.isalpha() or key.isdigit() or key in _PUNCTUATION:
                yield f"{table}.{key}", f"{key!r} is not one character that is no letter, digit or punctuation"
    for key in rules.fractions:
        if not re.fullmatch(r"[0-9]{1,2}/[0-9]{1,2}", key):
            yield f"fractions.{key}", f"{key!r} is not of the form 1/2"
    for where, said in _said(msgspec.to_builtins(rules), ""):
        if not said or not all(WORD.fullmatch(word) for word in said.split(" ")):
            yield where, f"{said!r} cannot be said: words in lower-case letters, one blank between them"


def _said(value: object, where: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, held in value.items():
            if key != "version" or where:
                yield from _said(held, f"{where}.{key}" if where else key)
    elif isinstance(value, list | tuple):
        for i, held in enumerate(value):
            yield from _said(held, f"{where}[{i}]")
    elif isinstance(value, str):
        yield where, value


def _token_pattern(rules: Normalisation) -> re.Pattern[str]:
    """One pattern for all that is said, by kind. Of kinds that begin alike the first that fits is taken."""
    currency, symbol, scale = (
        "|".join(map(re.escape, table)) or r"(?!)" for table in (rules.currencies, rules.symbols, rules.scales)
    )
    amount = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?"
    return re.compile(
        rf"""
        (?P<meridiem> (?<![a-z']) [ap]\.m (?![a-z]) \.? )
        | (?P<word> [a-z]+ (?:'[a-z]+)* )
        | (?P<phone> (?:\+\d{{1,3}}[-. ]?|1[-. ])?
                     (?: (?: \(\d{{2,5}}\)[ -]? | \d{{3}}- | \d{{5}}- ) (?:\d{{3,4}}[-. ]){{0,4}}
                       | \d{{3,5}}[-. ] (?:\d{{3,4}}[-. ]){{1,4}} ) \d{{4}} (?!\d) )
        | (?P<iso> \d{{4}}-\d\d-\d\d (?!\d) )
        | (?P<date> \d{{1,2}} (?P<sep>[/-]) \d{{1,2}} (?P=sep) (?:\d{{4}}|\d\d) (?!\d)
                  | \d{{1,2}} / \d{{1,2}} (?![\d/]) )
        | (?P<time> (?:[01]?\d|2[0-4]):[0-5]\d (?!:?\d) (?P<noon> (?= \s*[ap]\.?m(?![a-z]) ) )? )
        | (?P<money> (?: (?P<before>{currency}) \s? (?P<amount>{amount})
                       | (?P<amount_>{amount}) \s? (?P<after>{currency}) (?!\s?\d) )
                     (?: \s? (?P<scale>{scale}) (?![a-z]) )? )
        | (?P<ordinal> (?:\d{{1,3}}(?:,\d{{3}}){{1,2}} | \d{{1,9}}) (?:st|nd|rd|th) (?![a-z]) )
        | (?P<decade> (?: (?:1[1-9]|20)\d | [1-9] )0 '?s (?![a-z]) )
        | (?P<span> \d{{1,4}}-\d{{1,4}} (?![\d:/]|-\d) )
        | (?P<dotted> \d+(?:\.\d+){{2,}} )
        | (?P<number> {amount} | (?<![\w.])\.\d+ )
        | (?P<minus> (?<!\S)-(?=\d) )
        | (?P<to> -\s?(?=\d|{currency}) )
        | (?P<dot> (?<=[a-z0-9])\.(?=(?:com|org|net|edu|gov)(?![a-z])) )
        | (?P<symbol> {symbol} )
        """,
        re.VERBOSE,
    )
