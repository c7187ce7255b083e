"""The spoken form of an utterance (text normalisation): lower-case words in plain letters, numbers spelled out.

It is the reference of the word error rate and the input of the synthesiser. ``normalisation.toml`` has abbreviations,
units and the like.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import msgspec

from parapet.schemas.dialogue import Dialogue, DialogueFile, Turn
from parapet.schemas.errors import InputError, storable
from parapet.transforms.perturbation.corpora import dialogues_of
from parapet.transforms.running.fence import bad_record
from parapet.transforms.running.seeding import stable_hash
from parapet.transforms.storage.toml import read_table

WORD = re.compile(r"[a-z]+(?:'[a-z]+)*")

_RULES = read_table(__package__, "normalisation.toml")
VERSION: str = _RULES["version"]
VARIANTS: Mapping[str, str] = _RULES["variants"]
CONTRACTIONS: Mapping[str, str] = _RULES["contractions"]
_MONTHS: Sequence[str] = _RULES["months"]["names"]
_ABBREVIATIONS: Mapping[str, str] = _RULES["abbreviations"]
_BEFORE_NAMES: Mapping[str, str] = _RULES["before_names"]
_AFTER_NAMES: Mapping[str, str] = _RULES["after_names"]
_SYMBOLS: Mapping[str, str] = _RULES["symbols"]
_FRACTIONS: Mapping[str, str] = _RULES["fractions"]
_UNITS: Mapping[str, Sequence[str]] = _RULES["units"]
_CURRENCIES: Mapping[str, Sequence[str]] = _RULES["currencies"]
_SCALES: Mapping[str, str] = _RULES["scales"]
_INITIALS = frozenset(_RULES["initials"])
# Words that may be pronounced differently from their spelling.
SPECIAL = frozenset({*_ABBREVIATIONS, *_BEFORE_NAMES, *_AFTER_NAMES, *_UNITS, *_INITIALS, "am"})
_KEPT = frozenset({*_SYMBOLS, *_CURRENCIES})  # characters that are exempt from Unicode normalisation

_CURRENCY, _SYMBOL, _SCALE = ("|".join(map(re.escape, table)) for table in (_CURRENCIES, _SYMBOLS, _SCALES))
_AMOUNT = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?"
# All tokens, by kind. If several kinds match, the first one counts.
_TOKEN = re.compile(
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
    | (?P<money> (?: (?P<before>{_CURRENCY}) \s? (?P<amount>{_AMOUNT})
                   | (?P<amount_>{_AMOUNT}) \s? (?P<after>{_CURRENCY}) (?!\s?\d) )
                 (?: \s? (?P<scale>{_SCALE}) (?![a-z]) )? )
    | (?P<ordinal> (?:\d{{1,3}}(?:,\d{{3}}){{1,2}} | \d{{1,9}}) (?:st|nd|rd|th) (?![a-z]) )
    | (?P<span> \d{{1,4}}-\d{{1,4}} (?![\d:/]|-\d) )
    | (?P<number> {_AMOUNT} | (?<![\w.])\.\d+ )
    | (?P<to> -\s?(?=\d|{_CURRENCY}) )
    | (?P<dot> (?<=[a-z0-9])\.(?=(?:com|org|net|edu|gov)(?![a-z])) )
    | (?P<symbol> {_SYMBOL} )
    """,
    re.VERBOSE,
)
_ZERO = "zero"  # of digits that are read one by one


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


def spoken_words(utterance: str) -> list[Word]:
    """Return the spoken words in order, with the characters that each comes from.

    Never raises an exception; characters that cannot be spoken are left out, see :func:`unspeakable`.
    """
    text, starts, ends = _fold(utterance)
    reading = Reading(text, utterance, starts)
    words: list[Word] = []
    for match in _TOKEN.finditer(text):
        text_here = match.group()
        if match.lastgroup == "word" and text_here not in SPECIAL:
            pieces = [(text_here, match.start(), match.end())]
        else:
            pieces = reading.read(match)
        reading.last = match
        for text_here, start, end in pieces:
            if starts:
                start, end = starts[start], ends[end - 1]
            words.extend([Word(word, start, end) for word in text_here.split(" ")])
    return words


def unspeakable(utterance: str, longest: int) -> str | None:
    """Return why an utterance cannot be spoken.

    Args:
      utterance: any text.
      longest: maximum number of characters of the utterance, and of its spoken form.

    Returns:
      ``too_long``; ``script`` for letters without Latin equivalents; ``empty`` without letters and digits; or None, if
        it has words.
    """
    if len(utterance) > longest:
        return "too_long"
    if not utterance.isascii() and any(_fold_character(c) == " " and c.isalpha() for c in utterance):
        return "script"
    text, _, _ = _fold(utterance)
    if not re.search("[a-z0-9]", text):
        return "empty"
    words = spoken_words(utterance)
    return "too_long" if sum(len(word.text) for word in words) + len(words) - 1 > longest else None


def _fold(utterance: str) -> tuple[str, list[int], list[int]]:
    """Fold a text to lower-case ASCII, except symbols; return it with the start and end of each character's source.

    The lists are empty if all characters keep their positions. Invisible characters belong to the character before
    them.
    """
    if utterance.isascii():
        text, starts, ends = utterance.lower().replace("`", "'"), list[int](), list[int]()
    else:
        folded = []
        starts, ends = [], []
        for i, c in enumerate(utterance):
            new = c if c in _KEPT else _fold_character(c)
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

    def __init__(self, text: str, utterance: str, starts: Sequence[int]) -> None:
        self._text, self._utterance, self._starts = text, utterance, starts
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
        word = match.group()
        if word in _INITIALS and all(map(self._is_capital, range(match.start(), match.end()))):
            return " ".join(word)
        if word == "am":
            return "a m" if self._after("number", "time", "span") or self._word_before() in _HOURS else word
        if word in _UNITS and self._after("number", "span", gap=" -"):
            return _UNITS[word][self.last is None or self.last.group() != "1"]
        if word in _AFTER_NAMES or word in _BEFORE_NAMES:
            if self._after_name():
                return _AFTER_NAMES.get(word) or _ABBREVIATIONS.get(word, word)
            following = _NEXT_WORD.match(self._text, match.end())
            if following and self._is_capital(following.end()):
                return _BEFORE_NAMES.get(word) or _ABBREVIATIONS.get(word, word)
        return _ABBREVIATIONS.get(word, word)

    def _phone(self, match: re.Match[str]) -> str:
        plus = f"{_SYMBOLS['+']} " if match.group()[0] == "+" else ""
        return plus + _digit_by_digit(re.sub(r"\D", "", match.group()))

    def _iso(self, match: re.Match[str]) -> str:
        year, month, day = match.group().split("-")
        return self._date_said(int(month), int(day), year) or self._parts(match)

    def _date(self, match: re.Match[str]) -> str:
        text = match.group()
        if text in _FRACTIONS:
            return self._fraction(_FRACTIONS[text])
        month, day, *year = re.split("[/-]", text)
        spoken_form = self._date_said(int(month), int(day), *year)
        # The day comes first, as in most of the world, only if a year makes it certainly a date: not in "24/7".
        return spoken_form or (year and self._date_said(int(day), int(month), *year)) or self._parts(match)

    def _date_said(self, month: int, day: int, year: str = "") -> str:
        if not (1 <= month <= 12 and 1 <= day <= 31):
            return ""
        spoken_form = f"{_MONTHS[month - 1]} {_spelled(day, 'ordinal')}"
        return f"{spoken_form} {self._plain(year)}" if year else spoken_form

    def _parts(self, match: re.Match[str]) -> str:
        return " ".join(self._plain(part) for part in re.findall(r"\d+", match.group()))

    def _time(self, match: re.Match[str]) -> str:
        hour, minute = map(int, match.group().split(":"))
        hours = _spelled(hour) if hour else _ZERO
        if minute:
            return f"{hours} {_spelled(minute)}" if minute > 9 else f"{hours} oh {_spelled(minute)}"
        if match["noon"] is not None:
            return hours
        if hour in (0, 24):
            return "midnight"
        return f"{hours} o'clock" if hour <= 12 else f"{hours} hundred"

    def _money(self, match: re.Match[str]) -> str:
        amount = match["amount"] or match["amount_"]
        names = _CURRENCIES[match["before"] or match["after"]]
        whole, _, decimals = amount.replace(",", "").partition(".")
        if match["scale"]:
            return f"{self._amount(amount)} {_SCALES[match['scale']]} {names[1]}"
        if len(decimals) != 2 or len(names) < 4:
            return f"{self._amount(amount)} {names[amount != '1']}"
        units, hundredths = whole.lstrip("0"), int(decimals)
        parts = []
        if units or not hundredths:
            parts.append(f"{self._amount(whole)} {names[units != '1']}")
        if hundredths:
            parts.append(f"{_spelled(hundredths)} {names[2 + (hundredths != 1)]}")
        return " and ".join(parts)

    def _ordinal(self, match: re.Match[str]) -> str:
        return _spelled(int(match.group()[:-2].replace(",", "")), "ordinal")

    def _span(self, match: re.Match[str]) -> list[tuple[str, int, int]]:
        """Read two numbers separately; the word "to" comes from the hyphen."""
        first, second = match.group().split("-")
        hyphen = match.start() + len(first)
        rising = int(first) < int(second) and not (first.startswith("0") or second.startswith("0"))
        to = [("to", hyphen, hyphen + 1)] if rising else []
        days = rising and self._after_month()
        days_spoken = [self._day(number) if days else self._plain(number) for number in (first, second)]
        return [(days_spoken[0], match.start(), hyphen), *to, (days_spoken[1], hyphen + 1, match.end())]

    def _number(self, match: re.Match[str]) -> str:
        text = match.group()
        if not text.isdigit():
            return self._amount(text)
        return self._day(text) if self._after_month() else self._plain(text)

    def _to(self, match: re.Match[str]) -> str:
        last = self.last
        timely = self._after("time", "date", "iso", "money", "meridiem")
        hour = last is not None and last.group() in ("am", "pm") and last.end() == match.start()
        return "to" if timely or hour else ""

    def _dot(self, match: re.Match[str]) -> str:
        return "dot"

    def _symbol(self, match: re.Match[str]) -> str:
        if match.group() == "#" and not self._text[match.end() : match.end() + 1].isdigit():
            return ""
        spoken_form = _SYMBOLS[match.group()]
        return self._fraction(spoken_form) if match.group().isnumeric() else spoken_form

    def _fraction(self, said: str) -> str:
        return f"and {said}" if self._after("number") else said

    def _plain(self, digits: str) -> str:
        """Read a number without comma and point: digit by digit, as a year, or as a cardinal."""
        if len(digits) > 4 or (digits[0] == "0" and len(digits) > 1):
            return _digit_by_digit(digits)
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
            parts.append(_digit_by_digit(whole) if long else _spelled(int(whole)))
        if decimals:
            parts += ["point", _digit_by_digit(decimals)]
        return " ".join(parts)

    def _after(self, *kinds: str, gap: str = " ") -> bool:
        """Whether the previous token is of one of these kinds, with only ``gap`` in between."""
        last, here = self.last, self._here
        return last is not None and last.lastgroup in kinds and not self._text[last.end() : here].strip(gap)

    def _word_before(self) -> str:
        return self.last.group() if self.last is not None and self._after("word") else ""

    def _after_month(self) -> bool:
        word = self._word_before()
        return bool(word) and _ABBREVIATIONS.get(word, word) in _MONTHS

    def _after_name(self) -> bool:
        """Whether the previous token is an ordinal, or a capitalised word other than "I" and the first one."""
        if self._after("ordinal"):
            return True
        if self.last is None or len(self._word_before()) < 2 or not self._is_capital(self.last.start()):
            return False
        return re.search("[a-z0-9]", self._text[: self.last.start()]) is not None

    def _is_capital(self, at: int) -> bool:
        return self._utterance[self._starts[at] if self._starts else at].isupper()


def _digit_by_digit(digits: str) -> str:
    return " ".join(_ZERO if digit == "0" else _spelled(int(digit)) for digit in digits)


@lru_cache(maxsize=1 << 14)
def _spelled(number: int, kind: str = "cardinal") -> str:
    """Spell out a number in American English: without "and"."""
    from num2words import num2words  # part of the extra "speech"

    spelled = num2words(number, to=kind).replace("-", " ").replace(",", "")
    return " ".join(word for word in spelled.split() if word != "and")


DRAWS = 10_000  # number of possible draws of a turn
_SHARDS = 3  # hexadecimal digits: 4,096 groups of texts
SECONDS_A_WORD, SECONDS_AROUND = 0.3, 0.8  # of Hibari at its own speed, including silence


class Speakers(msgspec.Struct, frozen=True):
    """How user turns are spoken.

    Attributes:
      voices: the voices; each dialogue has one of them.
      seed: the seed of all draws.
      longest: maximum length of an utterance that is spoken, in characters.
    """

    voices: tuple[str, ...]
    seed: str
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
    """Yield the user turns of a dialogue, in order."""
    for position, turn in enumerate(dialogue.turns):
        if turn.speaker == "USER":
            reason = unspeakable(turn.utterance, speakers.longest)
            words = [] if reason else spoken_words(turn.utterance)
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
      speakers: the voices.
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
        name, places = dialogue.dialogue_id, []
        try:
            voice = voice_of(name, speakers)
            for turn in user_turns(dialogue, speakers):
                if turn.words:
                    draw = draw_of(name, turn.position, speakers)
                    place = Occurrence(file.relative, position, turn.position, draw, storable(name))
                    places.append((Utterance(voice, joined(turn.words)), place))
        except Exception as error:
            bad = bad_record(error)
            if refused is not None:
                refused[file.relative, position] = bad
            continue
        yield from places


def joined(words: Sequence[Word]) -> str:
    """Join words with spaces."""
    return " ".join(word.text for word in words)
