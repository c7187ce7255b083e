"""The spoken form of an utterance (text normalisation): lower-case words in plain letters, numbers spelled out.

It is the reference of the word error rate and the input of the synthesiser. Its rules are in ``normalisation.toml``, or
in a file of this format.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from importlib import resources
from pathlib import Path

import msgspec

from parapet.schemas.dialogue import Dialogue, DialogueFile, Turn
from parapet.schemas.errors import InputError, storable
from parapet.schemas.layout import as_path
from parapet.schemas.limits import read_text
from parapet.transforms.perturbation.corpora import dialogues_of
from parapet.transforms.running.fence import bad_record
from parapet.transforms.running.seeding import stable_hash
from parapet.transforms.storage.toml import convert, parse_toml

WORD = re.compile(r"[a-z]+(?:'[a-z]+)*")

_PUNCTUATION = frozenset(".,:;'\"()/-_`")


class Sayings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Words for the parts of numbers."""

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
    """The names of the months, from January."""

    names: tuple[str, ...]


class Normalisation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """The rules of a file; see ``normalisation.toml`` for the meaning of each table."""

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
    initials: tuple[str, ...] = ()
    variants: dict[str, str] = {}
    contractions: dict[str, str] = {}

    @cached_property
    def tokens(self) -> re.Pattern[str]:
        """The pattern that matches words, numbers and symbols; compiled once per process."""
        return _token_pattern(self)

    @cached_property
    def id(self) -> str:
        """A hash of all rules, since a file may change without changing its version."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()[:12]

    @cached_property
    def special(self) -> frozenset[str]:
        """The words that may be pronounced differently from their spelling."""
        return frozenset(
            {*self.abbreviations, *self.before_names, *self.after_names, *self.units, *self.initials, "am"}
        )

    @cached_property
    def kept(self) -> frozenset[str]:
        """Characters with their own meaning, which are exempt from Unicode normalisation."""
        return frozenset({*self.symbols, *self.currencies})


def load_normalisation(path: str | Path | None = None) -> Normalisation:
    """Load the rules of a TOML file, by default the built-in one.

    Raises:
      InputError: the file cannot be read, or has an entry that cannot be spoken.
    """
    if path is None:
        path = "normalisation.toml"
        data = resources.files("parapet.transforms.perturbations.speech").joinpath(path).read_bytes()
    else:
        place = as_path(path)
        if not place.is_file():
            raise InputError("there is no such file", path)
        data = read_text(place).encode()
    rules: Normalisation = convert(parse_toml(data, path), Normalisation, path)
    for where, reason in _problems(rules):
        raise InputError(reason, path, where)
    return rules


def _problems(rules: Normalisation) -> Iterator[tuple[str, str]]:
    if not rules.version.strip():
        yield "version", "is empty"
    if len(rules.months.names) != 12:
        yield "months.names", f"must name twelve months, found {len(rules.months.names)}"
    for symbol, names in rules.currencies.items():
        if len(names) not in (2, 4):
            yield f"currencies.{symbol}", "must be two or four names: one, several, a hundredth, several hundredths"
    for table in ("abbreviations", "before_names", "after_names", "units", "scales", "variants"):
        for key in getattr(rules, table):
            if not WORD.fullmatch(key):
                yield f"{table}.{key}", f"{key!r} must be a word in lower-case letters"
    for table in ("symbols", "currencies"):
        for key in getattr(rules, table):
            if len(key) != 1 or key.isspace() or key.isalpha() or key.isdigit() or key in _PUNCTUATION:
                yield f"{table}.{key}", f"{key!r} must be a single character other than a letter, digit or punctuation"
    for key in rules.fractions:
        if not re.fullmatch(r"[0-9]{1,2}/[0-9]{1,2}", key):
            yield f"fractions.{key}", f"{key!r} must be of the form 1/2"
    for where, spoken_form in _said(msgspec.to_builtins(rules), ""):
        if not spoken_form or not all(WORD.fullmatch(word) for word in spoken_form.split(" ")):
            yield (
                where,
                f"{spoken_form!r} cannot be spoken: must be words in lower-case letters, separated by single spaces",
            )


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
    """Compile the pattern for all tokens, by kind. If several kinds match, the first one counts."""
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


_LETTERS = {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i", "ħ": "h"}
_APOSTROPHES = frozenset("\u2018\u2019\u201b\u2032\u00b4`\uff07\u02bb\u02bc")
_UNSEEN = frozenset({"Mn", "Me", "Cf"})  # accents, joiners, soft hyphens: neither spoken nor separators


class Word(msgspec.Struct, frozen=True):
    """A spoken word, and the characters of the utterance it comes from (``end`` is exclusive).

    All words of a number have the range of the whole number, so the ranges of two words are equal or disjoint.
    """

    text: str
    start: int
    end: int


def spoken_words(utterance: str, rules: Normalisation) -> list[Word]:
    """Return the spoken words in order, with the characters that each comes from.

    Never raises an exception; characters that cannot be spoken are left out, see :func:`unspeakable`.
    """
    text, starts, ends = _fold(utterance, rules.kept)
    reading = Reading(text, utterance, starts, rules)
    special, words = rules.special, list[Word]()
    for match in rules.tokens.finditer(text):
        text_here = match.group()
        if match.lastgroup == "word" and text_here not in special:
            pieces = [(text_here, match.start(), match.end())]
        else:
            pieces = reading.read(match)
        reading.last = match
        for text_here, start, end in pieces:
            if starts:
                start, end = starts[start], ends[end - 1]
            words.extend([Word(word, start, end) for word in text_here.split(" ")])
    return words


def unspeakable(utterance: str, rules: Normalisation, longest: int) -> str | None:
    """Return why an utterance cannot be spoken.

    Args:
      utterance: any text.
      rules: the normalisation rules.
      longest: maximum number of characters of the utterance, and of its spoken form.

    Returns:
      ``too_long``; ``script`` for letters without Latin equivalents; ``empty`` without letters and digits; or None, if
        it has words.
    """
    if len(utterance) > longest:
        return "too_long"
    if not utterance.isascii() and any(_fold_character(c) == " " and c.isalpha() for c in utterance):
        return "script"
    text, _, _ = _fold(utterance, rules.kept)
    if not re.search("[a-z0-9]", text):
        return "empty"
    words = spoken_words(utterance, rules)
    return "too_long" if sum(len(word.text) for word in words) + len(words) - 1 > longest else None


def _fold(utterance: str, kept: frozenset[str]) -> tuple[str, list[int], list[int]]:
    """Fold a text to lower-case ASCII, except ``kept``; return it with the start and end of each character's source.

    The lists are empty if all characters keep their positions. Invisible characters belong to the character before
    them.
    """
    if utterance.isascii():
        text, starts, ends = utterance.lower().replace("`", "'"), list[int](), list[int]()
    else:
        folded = []
        starts, ends = [], []
        for i, c in enumerate(utterance):
            new = c if c in kept else _fold_character(c)
            if new:
                folded.append(new)
                starts.extend([i] * len(new))
                ends.extend([i + 1] * len(new))
            elif ends:
                for k in range(len(ends) - len(folded[-1]), len(ends)):
                    ends[k] = i + 1
        text = "".join(folded)
    # a typing error with the key beside the apostrophe, ten times in SGD
    return text.replace('o"clock', "o'clock"), starts, ends


@lru_cache(maxsize=1 << 12)
def _fold_character(c: str) -> str:
    """Fold a character to lower-case ASCII: an empty string if it is invisible, a blank if it has no such form."""
    if c in _APOSTROPHES:
        return "'"
    category = unicodedata.category(c)
    if category in _UNSEEN:
        return ""
    if category == "Nd":
        return str(unicodedata.digit(c))
    if category == "Pd" or c == "\u2212":
        return "-"
    parts = (d for d in unicodedata.normalize("NFKD", c).lower() if not unicodedata.combining(d))
    plain = "".join(_LETTERS.get(d, d) for d in parts)
    # Several characters must all be letters, since "1." in one character would be split; and a symbol must become a
    # single character, since a trademark sign would be joined to its word.
    fits = (plain.isalpha() or category != "So") and (len(plain) == 1 or (plain.isalpha() and category != "So"))
    return plain if fits and plain.isascii() else " "


# Longer numbers are read digit by digit, even with commas.
_LONGEST_NUMBER = 15

# After these words, "am" is read "a m", as after digits. Not after "one": "which one am I to take?"
_HOURS = frozenset(
    re.findall("[a-z']+", "two three four five six seven eight nine ten eleven twelve fifteen thirty o'clock")
)

# Where an abbreviation ends and another word begins.
_NEXT_WORD = re.compile(r"\.?\s+(?=[a-z])")


class Reading:
    """Reads all tokens of an utterance except plain words, taking earlier tokens into account."""

    def __init__(self, text: str, utterance: str, starts: Sequence[int], rules: Normalisation) -> None:
        self._text, self._utterance, self._starts, self._rules = text, utterance, starts, rules
        self.last: re.Match[str] | None = None
        self._here = 0

    def read(self, match: re.Match[str]) -> list[tuple[str, int, int]]:
        """Return what is spoken for a token, with the range of the folded text it comes from; may be empty."""
        kind, self._here = str(match.lastgroup), match.start()
        if kind == "span":
            return self._span(match)
        spoken_form = getattr(self, f"_{kind}")(match)
        return [(spoken_form, match.start(), match.end())] if spoken_form else []

    def _meridiem(self, match: re.Match[str]) -> str:
        return f"{match.group()[0]} m"

    def _word(self, match: re.Match[str]) -> str:
        word, rules = match.group(), self._rules
        if word in rules.initials and all(map(self._is_capital, range(match.start(), match.end()))):
            return " ".join(word)
        if word == "am":
            return "a m" if self._after("number", "time", "span") or self._word_before() in _HOURS else word
        if word in rules.units and self._after("number", "span", gap=" -"):
            return rules.units[word][self.last is None or self.last.group() != "1"]
        if word in rules.after_names or word in rules.before_names:
            if self._after_name():
                return rules.after_names.get(word) or rules.abbreviations.get(word, word)
            following = _NEXT_WORD.match(self._text, match.end())
            if following and self._is_capital(following.end()):
                return rules.before_names.get(word) or rules.abbreviations.get(word, word)
        return rules.abbreviations.get(word, word)

    def _phone(self, match: re.Match[str]) -> str:
        spoken_form = _digit_by_digit(re.sub(r"\D", "", match.group()), self._rules)
        return (
            f"{self._rules.symbols['+']} {spoken_form}"
            if match.group()[0] == "+" and "+" in self._rules.symbols
            else spoken_form
        )

    def _iso(self, match: re.Match[str]) -> str:
        year, month, day = match.group().split("-")
        return self._date_said(int(month), int(day), year) or self._parts(match)

    def _date(self, match: re.Match[str]) -> str:
        text = match.group()
        if text in self._rules.fractions:
            return self._fraction(self._rules.fractions[text])
        month, day, *year = re.split("[/-]", text)
        spoken_form = self._date_said(int(month), int(day), *year)
        # The day comes first, as in most of the world, only if a year makes it certainly a date: not in "24/7".
        return spoken_form or (year and self._date_said(int(day), int(month), *year)) or self._parts(match)

    def _date_said(self, month: int, day: int, year: str = "") -> str:
        if not (1 <= month <= 12 and 1 <= day <= 31):
            return ""
        spoken_form = f"{self._rules.months.names[month - 1]} {_spelled(day, 'ordinal')}"
        return f"{spoken_form} {self._plain(year)}" if year else spoken_form

    def _parts(self, match: re.Match[str]) -> str:
        return " ".join(self._plain(part) for part in re.findall(r"\d+", match.group()))

    def _time(self, match: re.Match[str]) -> str:
        hour, minute = map(int, match.group().split(":"))
        sayings = self._rules.sayings
        hours = _spelled(hour) if hour else sayings.zero
        if minute:
            return f"{hours} {_spelled(minute)}" if minute > 9 else f"{hours} {sayings.oh} {_spelled(minute)}"
        if match["noon"] is not None:
            return hours
        if hour in (0, 24):
            return sayings.midnight
        return f"{hours} {sayings.oclock if hour <= 12 else sayings.hundred}"

    def _money(self, match: re.Match[str]) -> str:
        amount = match["amount"] or match["amount_"]
        names = self._rules.currencies[match["before"] or match["after"]]
        whole, _, decimals = amount.replace(",", "").partition(".")
        if match["scale"]:
            return f"{self._amount(amount)} {self._rules.scales[match['scale']]} {names[1]}"
        if len(decimals) != 2 or len(names) < 4:
            return f"{self._amount(amount)} {names[amount != '1']}"
        units, hundredths = whole.lstrip("0"), int(decimals)
        parts = []
        if units or not hundredths:
            parts.append(f"{self._amount(whole)} {names[units != '1']}")
        if hundredths:
            parts.append(f"{_spelled(hundredths)} {names[2 + (hundredths != 1)]}")
        return f" {self._rules.sayings.and_} ".join(parts)

    def _ordinal(self, match: re.Match[str]) -> str:
        return _spelled(int(match.group()[:-2].replace(",", "")), "ordinal")

    def _decade(self, match: re.Match[str]) -> str:
        spoken_form = _spelled(int(match.group().rstrip("'s")), "year")
        return f"{spoken_form[:-1]}ies" if spoken_form.endswith("y") else f"{spoken_form}s"

    def _span(self, match: re.Match[str]) -> list[tuple[str, int, int]]:
        """Read two numbers separately; the word "to" comes from the hyphen."""
        first, second = match.group().split("-")
        hyphen = match.start() + len(first)
        rising = int(first) < int(second) and not (first.startswith("0") or second.startswith("0"))
        to = [(self._rules.sayings.to, hyphen, hyphen + 1)] if rising else []
        days = rising and self._after_month()
        days_spoken = [self._day(number) if days else self._plain(number) for number in (first, second)]
        return [(days_spoken[0], match.start(), hyphen), *to, (days_spoken[1], hyphen + 1, match.end())]

    def _dotted(self, match: re.Match[str]) -> str:
        return f" {self._rules.sayings.point} ".join(self._plain(part) for part in match.group().split("."))

    def _number(self, match: re.Match[str]) -> str:
        text = match.group()
        if not text.isdigit():
            return self._amount(text)
        return self._day(text) if self._after_month() else self._plain(text)

    def _minus(self, match: re.Match[str]) -> str:
        return self._rules.sayings.minus

    def _to(self, match: re.Match[str]) -> str:
        last = self.last
        timely = self._after("time", "date", "iso", "money", "meridiem")
        hour = last is not None and last.group() in ("am", "pm") and last.end() == match.start()
        return self._rules.sayings.to if timely or hour else ""

    def _dot(self, match: re.Match[str]) -> str:
        return self._rules.sayings.dot

    def _symbol(self, match: re.Match[str]) -> str:
        if match.group() == "#" and not self._text[match.end() : match.end() + 1].isdigit():
            return ""
        spoken_form = self._rules.symbols[match.group()]
        return self._fraction(spoken_form) if match.group().isnumeric() else spoken_form

    def _fraction(self, said: str) -> str:
        return f"{self._rules.sayings.and_} {said}" if self._after("number") else said

    def _plain(self, digits: str) -> str:
        """Read a number without comma and point: digit by digit, as a year, or as a cardinal."""
        if len(digits) > 4 or (digits[0] == "0" and len(digits) > 1):
            return _digit_by_digit(digits, self._rules)
        number = int(digits)
        return _spelled(number, "year" if 1100 <= number <= 2099 else "cardinal")

    def _day(self, digits: str) -> str:
        return _spelled(int(digits), "ordinal") if len(digits) < 3 and 1 <= int(digits) <= 31 else self._plain(digits)

    def _amount(self, text: str) -> str:
        """Read a number as a cardinal, with its decimals digit by digit."""
        whole, _, decimals = text.replace(",", "").partition(".")
        parts = []
        if whole:
            long = len(whole) > _LONGEST_NUMBER
            parts.append(_digit_by_digit(whole, self._rules) if long else _spelled(int(whole)))
        if decimals:
            parts += [self._rules.sayings.point, _digit_by_digit(decimals, self._rules)]
        return " ".join(parts)

    def _after(self, *kinds: str, gap: str = " ") -> bool:
        """Whether the previous token is of one of these kinds, with only ``gap`` in between."""
        last, here = self.last, self._here
        return last is not None and last.lastgroup in kinds and not self._text[last.end() : here].strip(gap)

    def _word_before(self) -> str:
        return self.last.group() if self.last is not None and self._after("word") else ""

    def _after_month(self) -> bool:
        word = self._word_before()
        return bool(word) and self._rules.abbreviations.get(word, word) in self._rules.months.names

    def _after_name(self) -> bool:
        """Whether the previous token is an ordinal, or a capitalised word other than "I" and the first one."""
        if self._after("ordinal"):
            return True
        if self.last is None or len(self._word_before()) < 2 or not self._is_capital(self.last.start()):
            return False
        return re.search("[a-z0-9]", self._text[: self.last.start()]) is not None

    def _is_capital(self, at: int) -> bool:
        return self._utterance[self._starts[at] if self._starts else at].isupper()


def _digit_by_digit(digits: str, rules: Normalisation) -> str:
    return " ".join(rules.sayings.zero if digit == "0" else _spelled(int(digit)) for digit in digits)


@lru_cache(maxsize=1 << 14)
def _spelled(number: int, kind: str = "cardinal") -> str:
    """Spell out a number in American English: without "and"."""
    from num2words import num2words  # part of the extra "speech"

    spelled = num2words(number, to=kind).replace("-", " ").replace(",", "")
    return " ".join(word for word in spelled.split() if word != "and")


DRAWS = 10_000  # number of possible draws of a turn
_MOST = 1 << 63
_SHARDS = 3  # hexadecimal digits: 4,096 groups of texts
_SECONDS_A_WORD, _SECONDS_AROUND = 0.3, 0.8  # of Hibari at its own speed, including silence


class Speakers(msgspec.Struct, frozen=True):
    """How user turns are spoken.

    Attributes:
      voices: the voices; each dialogue has one of them.
      seed: the seed of all draws.
      rules: the normalisation rules for the spoken form.
      longest: maximum length of an utterance that is spoken, in characters.
    """

    voices: tuple[str, ...]
    seed: str
    rules: Normalisation
    longest: int


class Utterance(msgspec.Struct, frozen=True, order=True):
    """A voice and words separated by spaces. It is spoken once, however many turns share it."""

    voice: str
    text: str


class Occurrence(msgspec.Struct, frozen=True, order=True):
    """A turn with an utterance.

    Attributes:
      file: the path of its dialogue file below the root.
      dialogue: the dialogue's position in the file.
      turn: the turn's position in the dialogue.
      draw: 0 to 9,999; a higher draw means a larger share of wrong words, relative to the rest of the set.
      dialogue_id: the dialogue's id.
    """

    file: str
    dialogue: int
    turn: int
    draw: int
    dialogue_id: str


class SpokenTurn(msgspec.Struct, frozen=True):
    """A user turn: its position, and its words or the reason why it is not spoken."""

    position: int
    turn: Turn
    words: list[Word]
    reason: str


def user_turns(dialogue: Dialogue, speakers: Speakers) -> Iterator[SpokenTurn]:
    """Yield the user turns of a dialogue, in order.

    Raises:
      InputError: the position of a span exceeds 64 bits, so that it does not fit into a row.
    """
    for position, turn in enumerate(dialogue.turns):
        if turn.speaker == "USER":
            for f, frame in enumerate(turn.frames):
                for span in frame.slots:
                    if any(isinstance(at, int) and not -_MOST <= at < _MOST for at in (span.start, span.exclusive_end)):
                        where = f"turns[{position}].frames[{f}]"
                        raise InputError(f"not_sgd: the span of {span.slot!r} exceeds 64 bits", "", where)
            reason = unspeakable(turn.utterance, speakers.rules, speakers.longest)
            words = [] if reason else spoken_words(turn.utterance, speakers.rules)
            yield SpokenTurn(position, turn, words, reason or "")


def voice_of(dialogue_id: str, speakers: Speakers) -> str:
    """Return the voice of a dialogue's user."""
    return speakers.voices[stable_hash(speakers.seed, "voice", dialogue_id) % len(speakers.voices)]


def draw_of(dialogue_id: str, turn: int, speakers: Speakers) -> int:
    """Return a turn's draw, 0 to 9,999."""
    return stable_hash(speakers.seed, "draw", dialogue_id, str(turn)) % DRAWS


def shard_of(utterance: Utterance) -> str:
    """Return the group of texts whose transcripts are cached in one file."""
    return hashlib.sha256(f"{utterance.voice}\0{utterance.text}".encode()).hexdigest()[:_SHARDS]


def occurrences_of(
    file: DialogueFile, speakers: Speakers, refused: dict[tuple[str, int], InputError] | None = None
) -> Iterator[tuple[Utterance, Occurrence]]:
    """Yield the utterances of a file, and where they occur. Bad dialogues are skipped; they are reported with the sets.

    Args:
      file: the file.
      speakers: the voices and the normalisation rules.
      refused: receives the dialogues that raise exceptions, by file and position.
    """
    try:
        dialogues = list(dialogues_of(file))
    except Exception as error:
        bad_record(error)
        return
    for position, _, dialogue in dialogues:
        if isinstance(dialogue, InputError):
            continue
        name = dialogue.dialogue_id
        try:
            voice = voice_of(name, speakers)
            places = [
                (
                    Utterance(voice, joined(turn.words)),
                    Occurrence(
                        file.relative, position, turn.position, draw_of(name, turn.position, speakers), storable(name)
                    ),
                )
                for turn in user_turns(dialogue, speakers)
                if turn.words
            ]
        except Exception as error:
            bad = bad_record(error)
            if refused is not None:
                refused[file.relative, position] = bad
            continue
        yield from places


def joined(words: Sequence[Word]) -> str:
    """Join words with spaces."""
    return " ".join(word.text for word in words)


class Size(msgspec.Struct):
    """The amount of speech in a corpus.

    Attributes:
      turns: user turns that are spoken.
      texts: distinct utterances.
      characters: number of characters of distinct utterances.
      seconds: estimated duration of distinct utterances.
    """

    turns: int = 0
    texts: int = 0
    characters: int = 0
    seconds: float = 0.0


def size_of(files: Sequence[DialogueFile], speakers: Speakers) -> Size:
    """Read all files and compute the amount of speech."""
    size = Size()
    seen: set[Utterance] = set()
    for file in files:
        for utterance, _ in occurrences_of(file, speakers):
            size.turns += 1
            if utterance not in seen:
                seen.add(utterance)
                size.characters += len(utterance.text)
                size.seconds += _SECONDS_A_WORD * len(utterance.text.split()) + _SECONDS_AROUND
    size.texts = len(seen)
    return size
