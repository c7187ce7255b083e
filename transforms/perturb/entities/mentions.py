"""Find the values of a dialogue and their mentions, with all forms of a value in one group.

Utterances, values and training are split into words in the same way, and the words of training are indexed.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter
from typing import Any, cast

import msgspec

from parapet.schemas.dialogue import Dialogue, Frame, SlotSpan, Turn, is_marker
from parapet.schemas.errors import InputError
from parapet.transforms.perturb.entities.kinds import (
    FORMS,
    KINDS,
    OTHER,
    is_none,
    is_relative,
    kind_of_value,
    minutes_of,
)
from parapet.transforms.perturb.entities.names import GENERIC

# A number is one word with its points, colons and dashes (7:17, 2019-03-05, 408-971-8523), and so is an ordinal (5th).
# A possessive 's is a separate word, so that "Milpitas's" contains Milpitas.
WORD = re.compile(
    r"\d+(?:[.,:/-]\d+)*(?:(?:st|nd|rd|th)(?![^\W\d_]))?|[^\W\d_]+(?:['’](?!s\b)[^\W\d_]+)*", re.IGNORECASE
)


def _plain(word: str) -> str:
    """Normalises a word: case-fold it and remove apostrophes and thousands separators."""
    return word.casefold().replace(",", "").replace("'", "").replace("’", "")


def words(text: str) -> list[str]:
    """Splits a text into case-folded words without punctuation."""
    if text.isascii() and "'" not in text and "," not in text:
        return WORD.findall(text.lower())
    return [_plain(word) for word in WORD.findall(text)]


def located_words(text: str) -> list[tuple[str, int, int]]:
    """Returns the words of a text, each with its start and end."""
    return [(word, *match.span()) for word, match in zip(words(text), WORD.finditer(text), strict=True)]


@lru_cache(1 << 16)
def words_of(text: str) -> tuple[str, ...]:
    """Returns the words of a value, cached because most values recur."""
    return tuple(words(text))


def folded(text: str) -> str:
    """Normalises case and spaces, in which spellings of the same value may differ."""
    return " ".join(text.casefold().split())


def is_number(word: str) -> bool:
    """Whether a word is a bare number: ``7`` may count anything; ``7:17`` and ``5th`` are not bare numbers.

    Numbers of six digits or more are not bare, either: they are references or phone numbers.
    """
    digits = word.replace(".", "", 1)
    return digits.isdecimal() and len(digits) < 6


@lru_cache(1 << 16)
def leaks(training: frozenset[str], kind: str, text: str) -> bool:
    """Whether a new value of one word, or any two adjacent words of a longer one, occur in training.

    Pairs of generic words ("international airport") are ignored unless the value has no others; in times, pairs without
    digits ("the evening"). Phone numbers, references and postcodes keep a part of the old, so all pairs count.

    Args:
      training: the words and pairs of adjacent words in training. A longer sequence cannot occur if no pair of it does.
      kind: the kind of the value.
      text: the value.
    """
    text_words = words_of(text)
    pairs = grams_of(text_words)
    if kind in ("phone", "postcode", "code"):
        return training.issuperset(pairs)
    if kind == "time":
        return any(pair in training for pair in pairs if not pair.replace(" ", "").isalpha())
    telling = [
        " ".join(pair)
        for pair in pairwise(text_words)
        if not all(word in GENERIC or word[0].isdecimal() for word in pair)
    ]
    return not training.isdisjoint(telling or pairs)


def grams_of(text_words: Iterable[str]) -> list[str]:
    """Returns a single word, or each pair of adjacent words."""
    text_words = list(text_words)
    return text_words if len(text_words) < 2 else [f"{first} {other}" for first, other in pairwise(text_words)]


def grams_in(texts: Iterable[str]) -> set[str]:
    """Returns all words and pairs of adjacent words in texts."""
    grams: set[str] = set()
    for text in texts:
        text_words = words(text)
        grams.update(text_words)
        grams.update(grams_of(text_words))
    return grams


def strings_of(value: Any) -> Iterator[str]:
    """Yields every string in nested lists and in the values of objects, in no particular order."""
    left = [value]
    while left:
        value = left.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            left.extend(value.values())
        elif isinstance(value, list):
            left.extend(value)


Slot = tuple[str, str]  # service, slot
Kinds = Mapping[Slot, str]
Annotation = tuple[Slot, tuple[str, ...], str | None]  # slot, equal values, and their canonical form if known

_RANKS = {kind: rank for rank, kind in enumerate(KINDS)}


class Group(msgspec.Struct, eq=False):
    """A value of open slots.

    Attributes:
      surfaces: all spellings including the canonical ones.
      slots: the slots that have the value.
      named: the spellings that are known to be canonical.
      canonical: the form in service results and calls.
      kind: the kind of the value.
      reason: why it is kept; empty if it is to be replaced.
      replacement: the canonical form of the new value.
      shown: each surface to its replacement.
    """

    surfaces: set[str] = set()
    slots: set[Slot] = set()
    named: set[str] = set()
    canonical: str = ""
    kind: str = OTHER
    reason: str = ""
    replacement: str = ""
    shown: dict[str, str] = {}

    @property
    def key(self) -> str:
        """The case-folded canonical form, part of the seed for choices."""
        return self.canonical.casefold()

    def settle(self, kinds: Kinds) -> None:
        """Sets canonical form and kind once all spellings are known, and the reason if it is kept."""
        # without a canonical form, the form that a state would have: a time in 24 hours, else the longest form
        self.canonical = min(self.named, key=lambda text: (text.casefold(), text), default="") or max(
            self.surfaces, key=lambda text: (minutes_of(text) is not None, len(text), text)
        )
        self.kind = kind_of_value(min((kinds[slot] for slot in self.slots), key=_RANKS.__getitem__), self.canonical)
        if len({text.casefold() for text in self.named}) > 1:
            self.reason = "two_values"
        elif self.kind == OTHER:
            self.reason = "no_generator"


class DialogueValues(msgspec.Struct):
    """The values of a dialogue.

    Attributes:
      groups: values of open slots, sorted by key.
      closed: values of the other slots.
      values: each slot's values, case-folded.
    """

    groups: list[Group]
    closed: set[str]
    values: dict[Slot, set[str]]


def find_values(dialogue: Dialogue, kinds: Kinds) -> DialogueValues:
    """Finds the values of a dialogue: those that may be replaced, in groups, and those that are kept.

    Values are equal if an action says so (a value and its canonical form), if a state lists them for one slot (variants
    of one value), or if they differ only in case, whatever their slots.
    """
    by_key: dict[str, Group] = {}
    closed: set[str] = set()
    values: dict[Slot, set[str]] = {}
    for slot, same, canonical in distinct_annotations(dialogue):
        texts = (*same, canonical or "")
        values.setdefault(slot, set()).update([text.casefold() for text in texts])
        spoken = [text for text in texts if not is_none(text)]
        if kinds.get(slot) not in KINDS:
            closed.update(spoken)
            continue
        group = next((by_key[key] for text in spoken if (key := text.casefold()) in by_key), None) or Group()
        for text in spoken:
            if (other := by_key.setdefault(text.casefold(), group)) is not group:
                group.surfaces |= other.surfaces
                group.slots |= other.slots
                group.named |= other.named
                by_key.update((surface.casefold(), group) for surface in other.surfaces)
            group.surfaces.add(text)
            group.slots.add(slot)
        if canonical and not is_none(canonical):
            group.named.add(canonical)
    groups = list(set(by_key.values()))
    for group in groups:
        group.settle(kinds)
    # "Reservation at Uno", the name of an event, is kept, and must stay at Uno
    events = [_spaced(text) for group in groups if group.kind == OTHER for text in group.surfaces]
    for group in groups if events else ():
        if not group.reason and any(_spaced(text) in event for text in group.surfaces for event in events):
            group.reason = "kept_elsewhere"
    return DialogueValues(sorted(groups, key=attrgetter("key")), closed, values)


def _spaced(text: str) -> str:
    """Returns the words of a text between blanks."""
    return f" {' '.join(words_of(text))} "


def distinct_annotations(dialogue: Dialogue) -> Iterable[Annotation]:
    """Returns the annotations of all frames without duplicates, since states repeat earlier values."""
    return dict.fromkeys(
        ((frame.service, name), tuple(same), canonical)
        for turn in dialogue.turns
        for frame in turn.frames
        for name, same, canonical in _annotated(frame)
    )


def _annotated(frame: Frame) -> Iterator[tuple[str, Sequence[str], str | None]]:
    """Yields (slot, equal values, their canonical form if known) for the values of a frame."""
    for action in frame.actions or []:
        if action.slot and not is_marker(action.act, action.slot):
            canonical: list[str] = action.canonical_values or []
            for i, value in enumerate(action.values):
                yield action.slot, [value], canonical[i] if i < len(canonical) else None
            for value in canonical[len(action.values) :]:
                yield action.slot, [], value
    for slot, listed in frame.state.slot_values.items() if frame.state else ():
        yield slot, listed, None
    for result in [*([frame.service_call.parameters] if frame.service_call else []), *(frame.service_results or [])]:
        for slot, value in result.items():
            yield slot, [], value
    for span in frame.slots:
        if span.value:
            yield span.slot, [span.value] if isinstance(span.value, str) else span.value, None


class Surface(msgspec.Struct, frozen=True):
    """A form of a value.

    Attributes:
      words: its words.
      text: its text.
      before: the characters before the first word.
      behind: the characters after the last one.
      group: its group; None for a value of a slot that is not open.
    """

    words: tuple[str, ...]
    text: str
    before: str
    behind: str
    group: Group | None


class Mention(msgspec.Struct, frozen=True):
    """A value mentioned in an utterance.

    Attributes:
      start: the position of its first character.
      end: the position after its last character.
      text: the text at this position.
      like: the matching surface of its group, ignoring case and apostrophes.
      group: its group; None for a value of a slot that is not open.
    """

    start: int
    end: int
    text: str
    like: str
    group: Group | None


_PLACE = attrgetter("start", "end")


class Table:
    """The values of a dialogue that may be said in it, by their first word, longest first.

    Args:
      found: the values. Kept values are included, so that no other value is found inside them.
      vocabulary: all words of the utterances.
    """

    def __init__(self, found: DialogueValues, vocabulary: set[str]) -> None:
        self.heads: dict[str, list[Surface]] = {}
        surfaces = [(text, group) for group in found.groups for text in group.surfaces if not marked_only(group, text)]
        for text, group in (*surfaces, *((text, None) for text in found.closed if len(words_of(text)) > 1)):
            pieces, before, behind = _parts(text)
            if pieces and vocabulary.issuperset(pieces):
                self.heads.setdefault(pieces[0], []).append(Surface(pieces, text, before, behind, group))
        for listed in self.heads.values():
            listed.sort(key=lambda surface: (-len(surface.words), -len(surface.text), surface.text, not surface.group))

    def unmarked(
        self, utterance: str, words: Sequence[tuple[str, int, int]], marked: Sequence[Mention] = ()
    ) -> list[Mention]:
        """Finds mentions of values outside of spans, at word boundaries, longest first; returns them in order.

        Args:
          utterance: the utterance.
          words: its words with their positions.
          marked: the spans.
        """
        heads = self.heads
        mentions = []
        free = 0  # words before this index are part of a mention
        for at, (word, begin, _) in enumerate(words):
            for surface in heads[word] if word in heads and at >= free else ():
                size = len(surface.words)
                if size > 1 and tuple(text for text, _, _ in words[at : at + size]) != surface.words:
                    continue
                start, end = _with_marks(utterance, begin, words[at + size - 1][2], surface)
                if (
                    start is not None
                    and not any(span.start < end and start < span.end for span in marked)
                    and not is_ordinary(utterance, start, surface)
                ):
                    mentions.append(Mention(start, end, utterance[start:end], surface.text, surface.group))
                    free = at + size
                    break
        return mentions


_STARTS = re.compile(r"(?:^|[.?!])\W*$")
_QUOTE = ("'", '"', "“", "‘")


def is_ordinary(utterance: str, start: int, surface: Surface) -> bool:
    """Whether an unmarked value may be ordinary words: "Would you like to go?", "Play a song".

    It is a name if it is quoted, begins with a capital letter within a sentence, or has an uncommon word.
    """
    kind = surface.group.kind if surface.group else ""
    if kind in ("", *FORMS) or utterance[:start].endswith(_QUOTE):
        return False
    is_capital = utterance[start].isupper()
    if is_capital and not _STARTS.search(utterance[:start]):
        return False
    # names of these kinds are often words: "a new alarm"
    wordy = kind == "task" or (kind in ("title", "business") and len(surface.words) == 1)
    limit = 5.3 if not wordy else 5.0 if is_capital else 4.0
    return all(frequency(word) >= limit for word in surface.words)


@lru_cache(1 << 16)
def frequency(word: str) -> float:
    """Returns the logarithm of how often a word occurs in a billion words of English."""
    from wordfreq import zipf_frequency

    return float(zipf_frequency(word, "en"))


@lru_cache(1 << 16)
def _parts(text: str) -> tuple[tuple[str, ...], str, str]:
    """Returns the words of a value, and the text before and after them."""
    if not (located := located_words(text)):
        return (), "", ""
    return tuple(word for word, _, _ in located), text[: located[0][1]], text[located[-1][2] :]


def _with_marks(utterance: str, start: int, end: int, surface: Surface) -> tuple[int | None, int]:
    """Extends a match by the characters around the value, such as ``$``.

    The start is None if a bare number lacks them.
    """
    before, behind = surface.before, surface.behind
    wide = utterance[:start].endswith(before)
    far = utterance[end:].startswith(behind)
    if len(surface.words) == 1 and is_number(surface.words[0]) and not (wide and far):
        return None, end
    return start - len(before) if wide else start, end + len(behind) if far else end


def marked_only(group: Group, text: str) -> bool:
    """Whether a value only counts where a span marks it: bare numbers, and dates without a month."""
    return is_number(text.replace(",", "")) or (group.kind == "date" and is_relative(text))


def _marked_in(turn: Turn, found: DialogueValues, of: dict[str, Group]) -> list[Mention]:
    """Returns the spans of a turn as mentions, in order, one for each place. Values of overlapping ones are kept.

    Raises:
      InputError: a span is outside of the utterance, or its text is not a value of its slot.
    """
    mentions = [
        _marked(turn.utterance, (frame.service, span.slot), span, found, of)
        for frame in turn.frames
        for span in frame.slots
        if isinstance(span.start, int) and isinstance(span.exclusive_end, int)
    ]
    if len(mentions) < 2:
        return mentions
    mentions = sorted({_PLACE(mention): mention for mention in mentions}.values(), key=_PLACE)
    for mention, other in pairwise(mentions):
        for group in (mention.group, other.group) if other.start < mention.end else ():
            if group and not group.reason:
                group.reason = "overlapping_spans"
    return mentions


def _marked(utterance: str, slot: Slot, span: SlotSpan, found: DialogueValues, of: dict[str, Group]) -> Mention:
    start, end = cast(int, span.start), cast(int, span.exclusive_end)
    if not 0 <= start < end <= len(utterance):
        raise InputError(f"bad_span: the span of {span.slot!r} is not inside the utterance")
    text = utterance[start:end]
    group = of.get(text.casefold()) or of.get(folded(text))
    if not (group and slot in group.slots) and {text.casefold(), folded(text)}.isdisjoint(found.values.get(slot, ())):
        raise InputError(f"bad_span: {text!r} is not a value of {span.slot!r} in this dialogue")
    if group and slot not in group.slots:
        # This slot's value is kept. A bare number may be a different value here; a word must not be replaced
        # inconsistently.
        if is_number(text):
            group = None
        elif not group.reason:
            group.reason = "kept_elsewhere"
    like = text
    if group and text not in group.surfaces:
        like = min(spelling for spelling in group.surfaces if spelling.casefold() in (text.casefold(), folded(text)))
    return Mention(start, end, text, like, group)


def find_mentions(dialogue: Dialogue, found: DialogueValues) -> list[list[Mention]]:
    """Returns the mentions of values in every turn, marked and unmarked, in order.

    Groups with ambiguous mentions get a ``reason``, so that they are kept.

    Raises:
      InputError: a span is invalid; ``where`` names the turn.
    """
    groups = {surface.casefold(): group for group in found.groups for surface in group.surfaces}
    closed = {text.casefold() for text in found.closed}
    located = [located_words(turn.utterance) for turn in dialogue.turns]
    table = Table(found, {word for of_turn in located for word, _, _ in of_turn})
    turns = []
    for position, turn in enumerate(dialogue.turns):
        try:
            marked = _marked_in(turn, found, groups)
        except InputError as error:
            raise InputError(error.reason, "", f"turns[{position}]") from None
        unmarked = table.unmarked(turn.utterance, located[position], marked)
        for mention in unmarked:
            if mention.group and not mention.group.reason and mention.text.casefold() in closed:
                mention.group.reason = "ambiguous_word"
        turns.append(sorted([*marked, *unmarked], key=_PLACE) if unmarked else marked)
    return turns
