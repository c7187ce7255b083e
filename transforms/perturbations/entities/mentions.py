"""Find the values of a dialogue, with all forms of a value in one group, and their mentions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import cast

import msgspec

from parapet.schemas.dialogue import Dialogue, Frame, SlotSpan, Turn, is_marker
from parapet.schemas.errors import InputError
from parapet.transforms.perturbations.entities import forms
from parapet.transforms.perturbations.entities.kinds import (
    CLOSED,
    FORMS,
    KINDS,
    OTHER,
    SlotKind,
    is_none,
    kind_of_value,
)
from parapet.transforms.perturbations.entities.names import GENERIC, generic_end
from parapet.transforms.perturbations.entities.words import folded, is_number, located_words, words_of

Slot = tuple[str, str]  # service, slot
Kinds = Mapping[Slot, SlotKind]
Annotation = tuple[Slot, tuple[str, ...], str | None]  # slot, equal values, and their canonical form if known

_UNKNOWN = SlotKind(OTHER)
_RANKS = {kind: rank for rank, kind in enumerate(KINDS)}


class Group(msgspec.Struct):
    """A value of open slots.

    Attributes:
      key: the case-folded canonical form, part of the seed for choices.
      kind: the kind of the value.
      canonical: the form in service results and calls.
      surfaces: all spellings including the canonical one, sorted.
      slots: the slots that have the value, sorted.
      reason: why it is kept; empty if it is to be replaced.
      replacement: the canonical form of the new value.
      shown: each surface to its replacement.
      modifiers: texts that are said before a noun: "pasta restaurant".
    """

    key: str
    kind: str
    canonical: str
    surfaces: list[str]
    slots: list[Slot]
    reason: str = ""
    replacement: str = ""
    shown: dict[str, str] = {}
    modifiers: set[str] = set()


class DialogueValues(msgspec.Struct):
    """The values of a dialogue.

    Attributes:
      groups: values of open slots, sorted by key.
      closed: values of the other slots: (service, slot, value), sorted.
      values: each slot's values, case-folded.
    """

    groups: list[Group]
    closed: list[tuple[str, str, str]]
    values: dict[Slot, set[str]]

    def by_surface(self) -> dict[str, Group]:
        """Return surface → group."""
        return {surface: group for group in self.groups for surface in group.surfaces}


class _Equal:
    """Values that are known to be equal: all spellings, their slots, and those that are canonical."""

    def __init__(self) -> None:
        self.surfaces, self.slots, self.canonical = set[str](), set[Slot](), set[str]()

    def group(self, kinds: Kinds) -> Group:
        slots, named = sorted(self.slots), {text.casefold() for text in self.canonical}
        # without a canonical form, the form that a state would have: a time in 24 hours, else the longest form
        canonical = min(self.canonical, key=lambda text: (text.casefold(), text), default="") or max(
            self.surfaces, key=lambda text: (forms.minutes_of(text) is not None, len(text), text)
        )
        kind = kind_of_value(min((kinds[slot].kind for slot in slots), key=_RANKS.__getitem__), canonical)
        reason = "two_values" if len(named) > 1 else reason_of(kind) if kind == OTHER else ""
        return Group(canonical.casefold(), kind, canonical, sorted(self.surfaces), slots, reason)


def find_values(dialogue: Dialogue, kinds: Kinds) -> DialogueValues:
    """Find the values of a dialogue: those that may be replaced, in groups, and those that are kept.

    Values are equal if an action says so (a value and its canonical form), if a state lists them for one slot (variants
    of one value), or if they differ only in case, whatever their slots.
    """
    by_key: dict[str, _Equal] = {}
    closed: set[tuple[str, str, str]] = set()
    values: dict[Slot, set[str]] = {}
    for slot, same, canonical in distinct_annotations(dialogue):
        texts = (*same, canonical or "")
        values.setdefault(slot, set()).update([text.casefold() for text in texts])
        if kinds.get(slot, _UNKNOWN).kind not in KINDS:
            closed.update((*slot, text) for text in texts if not is_none(text))
            continue
        spoken = [text for text in texts if not is_none(text)]
        equal = next((by_key[key] for text in spoken if (key := text.casefold()) in by_key), None) or _Equal()
        for text in spoken:
            other = by_key.setdefault(text.casefold(), equal)
            if other is not equal:
                equal.surfaces |= other.surfaces
                equal.slots |= other.slots
                equal.canonical |= other.canonical
                by_key.update((surface.casefold(), equal) for surface in other.surfaces)
            equal.surfaces.add(text)
            equal.slots.add(slot)
        if canonical and not is_none(canonical):
            equal.canonical.add(canonical)
    groups = sorted((equal.group(kinds) for equal in set(by_key.values())), key=attrgetter("key"))
    # "Reservation at Uno", the name of an event, is kept, and must stay at Uno
    events = [spaced(text) for group in groups if group.kind == OTHER for text in group.surfaces]
    for group in groups if events else ():
        if not group.reason and any(spaced(text) in event for text in group.surfaces for event in events):
            group.reason = "kept_elsewhere"
    return DialogueValues(groups, sorted(closed), values)


def spaced(text: str) -> str:
    """Return the words of a text between blanks."""
    return f" {' '.join(words_of(text))} "


def distinct_annotations(dialogue: Dialogue) -> Iterable[Annotation]:
    """Return the annotations of all frames without duplicates, since states repeat earlier values."""
    return dict.fromkeys(
        ((frame.service, name), tuple(same), canonical)
        for turn in dialogue.turns
        for frame in turn.frames
        for name, same, canonical in annotated(frame)
    )


def annotated(frame: Frame) -> Iterator[tuple[str, list[str], str | None]]:
    """Yield (slot, equal values, their canonical form if known) for the values of a frame."""
    for action in frame.actions or []:
        if not action.slot or is_marker(action.act, action.slot):
            continue
        canonical: list[str] = action.canonical_values or []
        for i, value in enumerate(action.values):
            yield action.slot, [value], canonical[i] if i < len(canonical) else None
        for value in canonical[len(action.values) :]:
            yield action.slot, [], value
    if frame.state:
        for slot, listed in frame.state.slot_values.items():
            yield slot, listed, None
    if frame.service_call:
        for slot, value in frame.service_call.parameters.items():
            yield slot, [], value
    for result in frame.service_results or []:
        for slot, value in result.items():
            yield slot, [], value
    for span in frame.slots:
        if isinstance(span.value, str):
            yield span.slot, [span.value], None
        elif span.value:
            yield span.slot, list(span.value), None


def reason_of(kind: str) -> str:
    """Return why the values of a slot that is not open are kept."""
    return "categorical" if kind == "categorical" else "closed" if kind in CLOSED else "no_generator"


class Surface(msgspec.Struct, frozen=True):
    """A form of a value.

    Attributes:
      words: its words.
      text: its text.
      before: the characters before the first word.
      behind: the characters after the last one.
      group: its group; None for a value of a slot that is not open.
      is_part: whether it is only a part of the value, such as a surname.
    """

    words: tuple[str, ...]
    text: str
    before: str
    behind: str
    group: Group | None
    is_part: bool = False


class Mention(msgspec.Struct, frozen=True):
    """A value mentioned in an utterance.

    Attributes:
      start: the position of its first character.
      end: the position after its last character.
      text: the text at this position.
      like: the matching surface of its group, ignoring case and apostrophes.
      group: its group; None for a value of a slot that is not open.
      slots: the slots of the spans that mark it; empty if it is not marked.
    """

    start: int
    end: int
    text: str
    like: str
    group: Group | None
    slots: tuple[Slot, ...] = ()


_PLACE = attrgetter("start", "end")


class Table:
    """The values of a dialogue that may be said in it, by their first word, longest first.

    Args:
      found: the values. Kept values are included, so that no other value is found inside them.
      vocabulary: all words of the utterances.
    """

    def __init__(self, found: DialogueValues, vocabulary: set[str]) -> None:
        self.vocabulary = vocabulary
        self.heads: dict[str, list[Surface]] = {}
        whole = {folded(text) for group in found.groups for text in group.surfaces}
        for group in found.groups:
            for text in group.surfaces:
                if not marked_only(group, text):
                    self._add(text, group)
            if not vocabulary.isdisjoint(words_of(group.canonical)):
                for text in parts_of(group.kind, group.canonical):
                    if folded(text) not in whole:
                        self._add(text, group, is_part=True)
        for _, _, text in found.closed:
            if len(words_of(text)) > 1:
                self._add(text, None)
        for surfaces in self.heads.values():
            surfaces.sort(key=lambda surface: (-len(surface.words), -len(surface.text), surface.text))

    def _add(self, text: str, group: Group | None, is_part: bool = False) -> None:
        pieces, before, behind = _parts(text)
        if pieces and self.vocabulary.issuperset(pieces):
            self.heads.setdefault(pieces[0], []).append(Surface(pieces, text, before, behind, group, is_part))

    def unmarked(
        self, utterance: str, words: Sequence[tuple[str, int, int]], marked: Sequence[tuple[int, int]] = ()
    ) -> list[Mention]:
        """Find mentions of values outside of spans, at word boundaries, longest first; return them in order.

        Args:
          utterance: the utterance.
          words: its words with their positions.
          marked: the spans, sorted.
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
                    and not any(begin < end and start < other for begin, other in marked)
                    and not (surface.group and is_ordinary(utterance, start, surface))
                ):
                    mentions.append(Mention(start, end, utterance[start:end], surface.text, surface.group))
                    free = at + size
                    break
        return mentions


@lru_cache(1 << 14)
def parts_of(kind: str, name: str) -> tuple[str, ...]:
    """Return the short names by which people refer to it: "Alegrias" for "Alegrias, Food From Spain"; surnames.

    Each has an uncommon word.
    """
    if kind not in ("address", "business", "person", "place", "title"):
        return ()
    short = re.split(r"[,:(]| - ", name)[0].strip()
    parts = {short, short.removesuffix(generic_end(short)).strip()}
    if kind == "person":
        parts.add(short.rpartition(" ")[2])
    if kind == "address":
        street = short.lstrip("0123456789 ")
        parts = {street, street.rpartition(" ")[0]}
    return tuple(sorted(part for part in parts - {name} if any(map(_is_uncommon, words_of(part)))))


def _is_uncommon(word: str) -> bool:
    return len(word) > 3 and word not in GENERIC and frequency(word) < 4.5


_STARTS = re.compile(r"(?:^|[.?!])\W*$")
_QUOTE = ("'", '"', "“", "‘")
_WORDY = ("title", "task", "business")  # kinds of names that are often words


def is_ordinary(utterance: str, start: int, surface: Surface) -> bool:
    """Whether an unmarked value may be ordinary words: "Would you like to go?", "Play a song".

    It is a name if it is quoted, begins with a capital letter within a sentence, or has an uncommon word.
    """
    kind = surface.group.kind if surface.group else ""
    if surface.is_part:
        return not utterance[start].isupper()
    if kind in FORMS or utterance[:start].endswith(_QUOTE):
        return False
    is_capital = utterance[start].isupper()
    if is_capital and not _STARTS.search(utterance[:start]):
        return False
    wordy = kind == "task" or (kind in _WORDY and len(surface.words) == 1)  # "a new alarm"
    limit = 5.3 if not wordy else 5.0 if is_capital else 4.0
    return all(frequency(word) >= limit for word in surface.words)


@lru_cache(1 << 16)
def frequency(word: str) -> float:
    """Return the logarithm of how often a word occurs in a billion words of English."""
    from wordfreq import zipf_frequency

    return float(zipf_frequency(word, "en"))


@lru_cache(1 << 16)
def _parts(text: str) -> tuple[tuple[str, ...], str, str]:
    """Return the words of a value, and the text before and after them."""
    located = located_words(text)
    if not located:
        return (), "", ""
    return tuple(word for word, _, _ in located), text[: located[0][1]], text[located[-1][2] :]


def _with_marks(utterance: str, start: int, end: int, surface: Surface) -> tuple[int | None, int]:
    """Extend a match by the characters around the value, such as ``$``.

    The start is None if a bare number lacks them.
    """
    before, behind = surface.before, surface.behind
    wide = start - len(before) >= 0 and utterance[start - len(before) : start] == before
    far = utterance[end : end + len(behind)] == behind
    if len(surface.words) == 1 and is_number(surface.words[0]) and not (wide and far):
        return None, end
    return start - len(before) if wide else start, end + len(behind) if far else end


def marked_only(group: Group, text: str) -> bool:
    """Whether a value only counts where a span marks it: bare numbers, and dates without a month."""
    return is_number(text.replace(",", "")) or (group.kind == "date" and forms.is_relative(text))


def marked_in(turn: Turn, found: DialogueValues, of: dict[str, Group]) -> list[Mention]:
    """Return the spans of a turn as mentions, in order. Spans of the same text are merged; overlapping ones are kept.

    Raises:
      InputError: a span is outside of the utterance, or its text is not a value of its slot.
    """
    mentions = [
        _marked(turn.utterance, (frame.service, span.slot), span, found, of)
        for frame in turn.frames
        for span in frame.slots
        if isinstance(span.start, int) and isinstance(span.exclusive_end, int)
    ]
    places: dict[tuple[int, int], Mention] = {}
    for mention in sorted(mentions, key=attrgetter("start", "end", "slots")) if len(mentions) > 1 else mentions:
        same = places.get((mention.start, mention.end))
        slots = tuple(sorted({*same.slots, *mention.slots})) if same else mention.slots
        places[mention.start, mention.end] = msgspec.structs.replace(same, slots=slots) if same else mention
    return list(places.values())


def _marked(utterance: str, slot: Slot, span: SlotSpan, found: DialogueValues, of: dict[str, Group]) -> Mention:
    start, end = cast(int, span.start), cast(int, span.exclusive_end)
    if not 0 <= start < end <= len(utterance):
        raise InputError(f"bad_span: the span of {span.slot!r} is not inside the utterance")
    text = utterance[start:end]
    written = {text, text.casefold(), folded(text)}
    group = of.get(text) or of.get(folded(text))
    if not (group and slot in group.slots) and written.isdisjoint(found.values.get(slot, ())):
        raise InputError(f"bad_span: {text!r} is not a value of {span.slot!r} in this dialogue")
    if group and slot not in group.slots:
        # This slot's value is kept. A bare number may be a different value here; a word must not be replaced
        # inconsistently.
        if is_number(text):
            group = None
        elif not group.reason:
            group.reason = "kept_elsewhere"
    every = group.surfaces if group else [text]
    like = text if text in every else next(spelling for spelling in every if spelling.casefold() in written)
    return Mention(start, end, text, like, group, (slot,))


def keep_unclear(dialogue: Dialogue, found: DialogueValues) -> tuple[list[list[Mention]], Table]:
    """Set the ``reason`` of groups with ambiguous mentions, so that they are kept.

    Returns:
      The mentions of every turn, marked and unmarked, in order; and the table with which they were found.

    Raises:
      InputError: a span is invalid; ``where`` names the turn.
    """
    groups = {surface.casefold(): group for group in found.groups for surface in group.surfaces} | found.by_surface()
    closed = {text.casefold() for _, _, text in found.closed}
    located = [located_words(turn.utterance) for turn in dialogue.turns]
    table = Table(found, {word for of_turn in located for word, _, _ in of_turn})
    days = _Days(found.groups)
    turns = []
    for position, turn in enumerate(dialogue.turns):
        try:
            marked = marked_in(turn, found, groups)
        except InputError as error:
            raise InputError(error.reason, "", f"turns[{position}]") from None
        _keep_overlapping(marked)
        regions = [(marked_mention.start, marked_mention.end) for marked_mention in marked]
        unmarked = table.unmarked(turn.utterance, located[position], regions)
        for mention in unmarked:
            if mention.group and mention.like not in mention.group.surfaces:
                mention.group.surfaces.append(mention.like)  # a part of the value
            if mention.group and not mention.group.reason and mention.text.casefold() in closed:
                mention.group.reason = "ambiguous_word"
        if days.groups:
            taken = [*regions, *((mention.start, mention.end) for mention in unmarked)]
            unmarked += days.unmarked(turn.utterance, taken)
        turns.append(sorted([*marked, *unmarked], key=_PLACE) if unmarked else marked)
        for mention in turns[-1]:
            if mention.group and mention.group.kind == "cuisine" and _NOUN.match(turn.utterance, mention.end):
                mention.group.modifiers.add(mention.like)
    return turns, table


_NOUN = re.compile(r"[ -]?(?:food|cuisine|restaurant|place|spot|dish|meal|joint|eater|style|type|kind|bar|house)", re.I)
_TH = "(?:st|nd|rd|th)"
_DATE_SAID = re.compile(
    rf"(?<![\w-])(?:(?P<iso>\d{{4}}-\d\d-\d\d)|(?:the )?(?P<day>\d\d?){_TH}?(?: of)? (?P<month>{forms.MONTH_NAMES})"
    rf"|(?P<month2>{forms.MONTH_NAMES}) (?:the )?(?P<day2>\d\d?){_TH}?|the (?P<day3>\d\d?){_TH}(?= of "
    r"(?:this|the|next) month| ?(?:[.,;!?)]|$)| (?:at|from|until|till?|to|and|for|in|please|instead)\b))(?![\w-])",
    re.IGNORECASE,
)


class _Days:
    """The dates of a dialogue by (month, day) and by day, to find those that no span marks."""

    def __init__(self, groups: Sequence[Group]) -> None:
        dated = [(group, forms.day_of(group.canonical)) for group in groups if group.kind == "date"]
        self.groups = [(group, day) for group, day in dated if day is not None]

    def unmarked(self, utterance: str, taken: Sequence[tuple[int, int]]) -> list[Mention]:
        """Find dates in any form. If one is none of the dialogue's dates, these are kept: it could not move along."""
        mentions = []
        for match in _DATE_SAID.finditer(utterance):
            if any(start < match.end() and match.start() < end for start, end in taken):
                continue
            month = (match["month"] or match["month2"] or "")[:3].casefold()
            number = int(match["day"] or match["day2"] or match["day3"] or 0)
            same = [
                group
                for group, day in self.groups
                if (day.isoformat() == match["iso"])
                or (day.day == number and (not month or day.strftime("%b").casefold() == month))
            ]
            if len(same) == 1:
                if match[0] not in same[0].surfaces:
                    same[0].surfaces.append(match[0])
                mentions.append(Mention(match.start(), match.end(), match[0], match[0], same[0]))
            else:
                for group, _ in self.groups:
                    group.reason = group.reason or "ambiguous_word"
        return mentions


def _keep_overlapping(marked: Sequence[Mention]) -> None:
    for i, span in enumerate(marked):
        for other in marked[i + 1 :]:
            if other.start < span.end:
                for group in (span.group, other.group):
                    if group and not group.reason:
                        group.reason = "overlapping_spans"
