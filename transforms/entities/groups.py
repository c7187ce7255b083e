"""The values of a dialogue: each with all its forms, as one group."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from parapet.schemas.dialogue import Dialogue, Frame, is_marker
from parapet.transforms.entities.forms import minutes_of
from parapet.transforms.entities.kinds import CHOICE, CLOSED, OTHER, REPLACED, SlotKind, is_none, kind_of_value
from parapet.transforms.entities.vocabulary import folded, words
from parapet.transforms.speech.spoken import Normalisation, load_normalisation, spoken_words

Slot = tuple[str, str]  # service, slot
Kinds = Mapping[Slot, SlotKind]
Annotation = tuple[Slot, tuple[str, ...], str | None]  # values that are the same, and their canonical form if known

_UNKNOWN = SlotKind(OTHER)
_RANKS = {kind: rank for rank, kind in enumerate(REPLACED)}


class Group(msgspec.Struct):
    """A value of open slots.

    Attributes:
      key: its canonical form, case folded: what choices are drawn by.
      kind: of its values.
      canonical: the form that results and calls have.
      surfaces: every way in which it is written, canonical included, sorted.
      slots: the slots that have it, sorted.
      reason: why it is kept; empty where it is to be replaced.
      replacement: the canonical form of what stands for it.
      shown: each surface to what stands for it.
    """

    key: str
    kind: str
    canonical: str
    surfaces: list[str]
    slots: list[Slot]
    reason: str = ""
    replacement: str = ""
    shown: dict[str, str] = {}


class DialogueValues(msgspec.Struct):
    """The values of a dialogue.

    Attributes:
      groups: values of open slots, by key.
      closed: values of the other slots: (service, slot, value), sorted.
      said: the texts that stand in spans.
      values: each slot's values, case folded, and as they are spoken where a span has them so ("ten a m").
      spoken: what a span says so, by its slot, to the value that it is.
    """

    groups: list[Group]
    closed: list[tuple[str, str, str]]
    said: set[str]
    values: dict[Slot, set[str]]
    spoken: dict[tuple[Slot, str], str]

    def by_surface(self) -> dict[str, Group]:
        """Each surface, as it is written, to its group."""
        return {surface: group for group in self.groups for surface in group.surfaces}


class _Values:
    """Values that are known to be the same are joined (union-find over their case-folded forms)."""

    def __init__(self) -> None:
        self.parent: dict[str, str] = {}
        self.surfaces: dict[str, set[str]] = {}
        self.slots: dict[str, set[Slot]] = {}
        self.canonical: dict[str, set[str]] = {}

    def add(self, slot: Slot, same: Iterable[str], canonical: str | None = None) -> None:
        keys = []
        for value in (*same, canonical):
            if value is None or is_none(value):
                continue
            key = value.casefold()
            self.parent.setdefault(key, key)
            self.surfaces.setdefault(key, set()).add(value)
            self.slots.setdefault(key, set()).add(slot)
            keys.append(key)
        if canonical is not None and not is_none(canonical):
            self.canonical.setdefault(canonical.casefold(), set()).add(canonical)
        for key in keys[1:]:
            self.parent[self.root(key)] = self.root(keys[0])

    def root(self, key: str) -> str:
        while self.parent[key] != key:
            self.parent[key] = key = self.parent[self.parent[key]]
        return key

    def groups(self, kinds: Kinds) -> Iterator[Group]:
        members: dict[str, list[str]] = {}
        for key in sorted(self.parent):
            members.setdefault(self.root(key), []).append(key)
        for keys in members.values():
            surfaces = sorted({surface for key in keys for surface in self.surfaces[key]})
            slots = sorted({slot for key in keys for slot in self.slots[key]})
            named = sorted({key for key in keys if key in self.canonical})
            canonical = min(self.canonical[named[0]]) if named else _fullest(surfaces)
            kind = min((kinds[slot].kind for slot in slots), key=_RANKS.__getitem__)
            group = Group(canonical.casefold(), kind_of_value(kind, canonical), canonical, surfaces, slots)
            if group.kind == OTHER:
                group.reason = reason_of(OTHER)
            if len(named) > 1:
                group.reason = "two_values"
            elif kind != CHOICE and any(kinds[slot].kind == CHOICE for slot in slots):
                group.reason = "categorical"  # nothing unseen is in a closed set
            yield group


def _fullest(surfaces: Iterable[str]) -> str:
    """The one of a value's forms that a state would have: a time in 24 hours, else the longest."""
    return max(surfaces, key=lambda text: (minutes_of(text) is not None, len(text), text))


def find_values(dialogue: Dialogue, kinds: Kinds) -> DialogueValues:
    """The values of a dialogue: those that may be replaced, as groups; those that are kept, as they are.

    Values are the same where an action says so (a value and its canonical form), where a state lists them for one slot
    (the variants of one value), or where they differ in case alone, whatever slots they are of.
    """
    values = _Values()
    closed: set[tuple[str, str, str]] = set()
    said: set[str] = set()
    every: dict[Slot, set[str]] = {}
    marked: list[tuple[Slot, str]] = []
    for slot, same, canonical in distinct_annotations(dialogue):
        every.setdefault(slot, set()).update([value.casefold() for value in (*same, canonical or "")])
        if kinds.get(slot, _UNKNOWN).kind in REPLACED:
            values.add(slot, same, canonical)
        else:
            closed.update((*slot, value) for value in (*same, canonical or "") if not is_none(value))
    for turn in dialogue.turns:
        for frame in turn.frames:
            for span in frame.slots:
                if isinstance(span.start, int) and isinstance(span.exclusive_end, int):
                    text = turn.utterance[max(0, span.start) : max(0, span.exclusive_end)]
                    said.add(text)
                    marked.append(((frame.service, span.slot), text))
    spoken = _spoken(marked, every)
    for (slot, text), value in spoken.items():
        every[slot].add(text.casefold())
        if kinds.get(slot, _UNKNOWN).kind in REPLACED:
            values.add(slot, [text, value])
    groups = sorted(values.groups(kinds), key=lambda group: group.key)
    _keep_parts(groups)
    return DialogueValues(groups, sorted(closed), said, every, spoken)


def _spoken(marked: Iterable[tuple[Slot, str]], values: Mapping[Slot, Collection[str]]) -> dict[tuple[Slot, str], str]:
    """Spans that are no value, but what one is called when it is read aloud, as a recogniser writes it."""
    found = {}
    for slot, text in marked:
        if values.get(slot) and not {text.casefold(), folded(text)}.intersection(values[slot]):
            said = _read_aloud(text)
            same = [value for value in sorted(values[slot]) if said and _read_aloud(value) == said]
            if same:
                found[slot, text] = same[0]
    return found


@functools.cache
def _rules() -> Normalisation:
    return load_normalisation()


@functools.lru_cache(10_000)
def _read_aloud(text: str) -> tuple[str, ...]:
    return tuple(word.text for word in spoken_words(text, _rules()))


def _keep_parts(groups: Sequence[Group]) -> None:
    """Keeps what the name of an event has that is kept: "Reservation at Uno" is at Uno still."""
    events = [f" {' '.join(words(text))} " for one in groups if one.kind == OTHER for text in one.surfaces]
    for group in groups if events else ():
        if not group.reason and any(
            f" {' '.join(words(text))} " in event for text in group.surfaces for event in events
        ):
            group.reason = "kept_elsewhere"


def distinct_annotations(dialogue: Dialogue) -> Iterable[Annotation]:
    """The values of all frames, each annotation once: states repeat what has been said."""
    return dict.fromkeys(
        ((frame.service, name), tuple(same), canonical)
        for turn in dialogue.turns
        for frame in turn.frames
        for name, same, canonical in annotated(frame)
    )


def annotated(frame: Frame) -> Iterator[tuple[str, list[str], str | None]]:
    """The values of a frame: (slot, values that are the same, their canonical form where one is known)."""
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
    """Why the values of a slot that is not open are kept."""
    return "categorical" if kind == "categorical" else "closed" if kind in CLOSED else "no_generator"


def values_of(dialogue: Dialogue) -> Iterator[tuple[Slot, str, bool]]:
    """Every value of a dialogue: (slot, value, whether it is known to be a canonical form)."""
    for slot, same, canonical in distinct_annotations(dialogue):
        for value in same:
            yield slot, value, False
        if canonical is not None:
            yield slot, canonical, True
