"""The spoken form of an utterance (text normalisation): lower-case words in plain letters, numbers spelled out.

It is the reference of the word error rate and the input of the synthesiser. ``normalisation.toml`` has abbreviations,
units and the like.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import msgspec

from parapet.schemas.dialogue import Dialogue, DialogueFile, Turn
from parapet.schemas.errors import storable
from parapet.transforms.core import inputs, seeding
from parapet.transforms.perturb.base import analyze_dialogues

WORD = re.compile(r"[a-z]+(?:'[a-z]+)*")

_RULES = inputs.read_table(__package__, "normalisation.toml")
VERSION: str = _RULES["version"]
VARIANTS: Mapping[str, str] = _RULES["variants"]
CONTRACTIONS: Mapping[str, str] = _RULES["contractions"]
_MONTHS: Sequence[str] = _RULES["months"]["names"]
_ABBREVIATIONS: Mapping[str, str] = _RULES["abbreviations"]
_BEFORE_NAMES: Mapping[str, str] = _RULES["before_names"]
_AFTER_NAMES: Mapping[str, str] = _RULES["after_names"]
_SYMBOLS: Mapping[str, str] = _RULES["symbols"]
_UNITS: Mapping[str, Sequence[str]] = _RULES["units"]
_CURRENCIES: Mapping[str, Sequence[str]] = _RULES["currencies"]
_INITIALS = frozenset(_RULES["initials"])
# Words that may be pronounced differently from their spelling.
SPECIAL = frozenset({*_ABBREVIATIONS, *_BEFORE_NAMES, *_AFTER_NAMES, *_UNITS, *_INITIALS, "am"})
_KEPT = frozenset({*_SYMBOLS, *_CURRENCIES})  # characters that are exempt from Unicode normalisation

_CURRENCY, _SYMBOL = ("|".join(map(re.escape, table)) for table in (_CURRENCIES, _SYMBOLS))
_AMOUNT = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?"
# All tokens, by kind. If several kinds match, the first one counts.
_TOKEN = re.compile(
    rf"""
    (?P<meridiem> (?<![a-z']) [ap]\.m (?![a-z]) \.? )
    | (?P<word> [a-z]+ (?:'[a-z]+)* )
    | (?P<time> (?:[01]?\d|2[0-4]):[0-5]\d (?!:?\d) (?P<noon> (?= \s*[ap]\.?m(?![a-z]) ) )? )
    | (?P<money> (?P<before>{_CURRENCY}) \s? (?P<amount>{_AMOUNT})
               | (?P<amount_>{_AMOUNT}) \s? (?P<after>{_CURRENCY}) (?!\s?\d) )
    | (?P<ordinal> (?:\d{{1,3}}(?:,\d{{3}}){{1,2}} | \d{{1,9}}) (?:st|nd|rd|th) (?![a-z]) )
    | (?P<number> {_AMOUNT} | (?<![\w.])\.\d+ )
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
    """Returns the spoken words in order, with the characters that each comes from.

    Never raises an exception; characters that cannot be spoken are left out, see :func:`words_or_reason`.
    """
    text, starts, ends = _fold(utterance)
    reading = Reading(text, utterance, starts)
    words: list[Word] = []
    for match in _TOKEN.finditer(text):
        spoken_form, (start, end) = reading.read(match), match.span()
        words += [Word(word, starts[start], ends[end - 1]) for word in spoken_form.split()]
    return words


def words_or_reason(utterance: str, longest: int) -> tuple[list[Word], str]:
    """Returns the spoken words, or none and why an utterance cannot be spoken.

    Args:
      utterance: any text.
      longest: maximum number of characters of its spoken form.

    Returns:
      The words, and the reason: ``script`` for letters without Latin equivalents; ``empty`` without letters and digits;
        ``too_long``.
    """
    if not utterance.isascii() and any(_fold_character(c) == " " and c.isalpha() for c in utterance):
        return [], "script"
    words = spoken_words(utterance)
    return ([], "too_long") if len(joined(words)) > longest else (words, "" if words else "empty")


def _fold(utterance: str) -> tuple[str, list[int], list[int]]:
    """Folds a text to lower-case ASCII, except symbols; returns it with the start and end of each character's source.

    Invisible characters belong to the character before them.
    """
    folded, starts, ends = "", list[int](), list[int]()
    last = ""
    for i, c in enumerate(utterance):
        new = c if c in _KEPT else _fold_character(c)
        if new:
            last = new
            folded += new
            starts += [i] * len(new)
            ends += [i + 1] * len(new)
        else:
            ends[len(ends) - len(last) :] = [i + 1] * len(last)
    # a typing error with the key beside the apostrophe, ten times in SGD
    return folded.replace('o"clock', "o'clock"), starts, ends


@lru_cache(maxsize=1 << 12)
def _fold_character(c: str) -> str:
    """Folds a character to lower-case ASCII: an empty string if it is invisible, a blank if it has no such form."""
    if c in _APOSTROPHES:
        return "'"
    if (category := unicodedata.category(c)) in _UNSEEN:
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
        self._last: re.Match[str] | None = None
        self._token_start = 0

    def read(self, match: re.Match[str]) -> str:
        """Returns what is spoken for a token; may be empty."""
        self._token_start = match.start()
        kind, text = str(match.lastgroup), match.group()
        spoken_form = text if kind == "word" and text not in SPECIAL else getattr(self, f"_{kind}")(match)
        self._last = match
        return str(spoken_form)

    def _meridiem(self, match: re.Match[str]) -> str:
        return f"{match.group()[0]} m"

    def _word(self, match: re.Match[str]) -> str:
        word = match.group()
        if word in _INITIALS and all(map(self._is_capital, range(match.start(), match.end()))):
            return " ".join(word)
        if word == "am":
            return "a m" if self._after("number", "time") or self._word_before() in _HOURS else word
        if word in _UNITS and self._after("number", gap=" -"):
            return _UNITS[word][self._last is None or self._last.group() != "1"]
        if word in _AFTER_NAMES or word in _BEFORE_NAMES:
            if self._after_name():
                return _AFTER_NAMES.get(word) or _ABBREVIATIONS.get(word, word)
            following = _NEXT_WORD.match(self._text, match.end())
            if following and self._is_capital(following.end()):
                return _BEFORE_NAMES.get(word) or _ABBREVIATIONS.get(word, word)
        return _ABBREVIATIONS.get(word, word)

    def _time(self, match: re.Match[str]) -> str:
        hour, minute = map(int, match.group().split(":"))
        hours = _spelled(hour) if hour else _ZERO
        if minute:
            return f"{hours} {_spelled(minute)}" if minute > 9 else f"{hours} oh {_spelled(minute)}"
        if match["noon"] is not None:
            return hours
        return f"{hours} o'clock" if hour <= 12 else f"{hours} hundred"

    def _money(self, match: re.Match[str]) -> str:
        amount = match["amount"] or match["amount_"]
        names = _CURRENCIES[match["before"] or match["after"]]
        return f"{self._amount(amount)} {names[amount != '1']}"

    def _ordinal(self, match: re.Match[str]) -> str:
        return _spelled(int(match.group()[:-2].replace(",", "")), "ordinal")

    def _number(self, match: re.Match[str]) -> str:
        text = match.group()
        if not text.isdigit():
            return self._amount(text)
        is_day = self._after_month() and len(text) < 3 and 1 <= int(text) <= 31
        return _spelled(int(text), "ordinal") if is_day else self._plain(text)

    def _symbol(self, match: re.Match[str]) -> str:
        if match.group() == "#" and not self._text[match.end() : match.end() + 1].isdigit():
            return ""
        return _SYMBOLS[match.group()]

    def _plain(self, digits: str) -> str:
        """Reads a number without comma and point: digit by digit, as a year, or as a cardinal."""
        if len(digits) > 4 or (digits[0] == "0" and len(digits) > 1):
            return _digit_by_digit(digits)
        number = int(digits)
        return _spelled(number, "year" if 1100 <= number <= 2099 else "cardinal")

    def _amount(self, text: str) -> str:
        """Reads a number as a cardinal, with its decimals digit by digit."""
        whole, _, decimals = text.replace(",", "").partition(".")
        parts = []
        if whole:
            parts.append(_digit_by_digit(whole) if len(whole) > _LONGEST_NUMBER else _spelled(int(whole)))
        if decimals:
            parts += ["point", _digit_by_digit(decimals)]
        return " ".join(parts)

    def _after(self, *kinds: str, gap: str = " ") -> bool:
        """Whether the previous token is of one of these kinds, with only ``gap`` in between."""
        last, start = self._last, self._token_start
        return last is not None and last.lastgroup in kinds and not self._text[last.end() : start].strip(gap)

    def _word_before(self) -> str:
        return self._last.group() if self._last is not None and self._after("word") else ""

    def _after_month(self) -> bool:
        word = self._word_before()
        return bool(word) and _ABBREVIATIONS.get(word, word) in _MONTHS

    def _after_name(self) -> bool:
        """Whether the previous token is an ordinal, or a capitalised word other than "I" and the first one."""
        if self._after("ordinal"):
            return True
        if self._last is None or len(self._word_before()) < 2 or not self._is_capital(self._last.start()):
            return False
        return re.search("[a-z0-9]", self._text[: self._last.start()]) is not None

    def _is_capital(self, at: int) -> bool:
        return self._utterance[self._starts[at]].isupper()


def _digit_by_digit(digits: str) -> str:
    return " ".join(_ZERO if digit == "0" else _spelled(int(digit)) for digit in digits)


@lru_cache(maxsize=1 << 14)
def _spelled(number: int, kind: str = "cardinal") -> str:
    """Spells out a number in American English: without "and"."""
    from num2words import num2words  # part of the extra "speech"

    spelled = num2words(number, to=kind).replace("-", " ").replace(",", "")
    return " ".join(word for word in spelled.split() if word != "and")


DRAWS = 10_000  # number of possible draws of a turn
_SHARDS = 3  # hexadecimal digits: 4,096 groups of texts
CHARACTERS_AN_HOUR = 40_000  # of Hibari at its own speed, including silence


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
    """Yields the user turns of a dialogue, in order."""
    for position, turn in enumerate(dialogue.turns):
        if turn.speaker == "USER":
            yield SpokenTurn(position, turn, *words_or_reason(turn.utterance, speakers.longest))


def voice_of(dialogue_id: str, speakers: Speakers) -> str:
    """Returns the voice of a dialogue's user."""
    return speakers.voices[seeding.stable_hash(speakers.seed, "voice", dialogue_id) % len(speakers.voices)]


def draw_of(dialogue_id: str, turn: int, speakers: Speakers) -> int:
    """Returns a turn's draw, 0 to 9,999."""
    return seeding.stable_hash(speakers.seed, "draw", dialogue_id, str(turn)) % DRAWS


def shard_of(utterance: Utterance) -> str:
    """Returns the group of texts whose transcripts are cached in one file."""
    return hashlib.sha256(f"{utterance.voice}\0{utterance.text}".encode()).hexdigest()[:_SHARDS]


def occurrences(
    speakers: Speakers, dialogue: Dialogue, file: DialogueFile, position: int
) -> Iterator[tuple[Utterance, Occurrence]]:
    """Yields the utterances of a dialogue, and where they occur."""
    name = dialogue.dialogue_id
    voice = voice_of(name, speakers)
    for turn in user_turns(dialogue, speakers):
        if turn.words:
            draw = draw_of(name, turn.position, speakers)
            place = Occurrence(file.relative, position, turn.position, draw, storable(name))
            yield Utterance(voice, joined(turn.words)), place


def occurrences_of(file: DialogueFile, speakers: Speakers) -> Iterator[Any]:
    """Yields the utterances of a file, and where they occur; see :func:`analyze_dialogues` for dialogues that fail."""
    return analyze_dialogues(file, partial(occurrences, speakers))


def joined(words: Sequence[Word]) -> str:
    """Joins words with spaces."""
    return " ".join(word.text for word in words)
