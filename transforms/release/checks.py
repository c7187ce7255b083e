"""Checks of the annotation of dialogues: ``build`` runs them before it publishes, ``verify`` at any time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from parapet.schemas.dialogue import Dialogue, Frame, Turn, problems_of
from parapet.schemas.errors import InputError
from parapet.schemas.service import Service

# The kinds of faults, as ``allow_problems`` names them.
KINDS = {
    "format": "a dialogue that is not of the SGD format",
    "reference": "a service, slot or intent that the schemas of the same corpus and split do not have",
    "span": "a span that is not inside its utterance",
    "span_value": "a span whose text is none of the slot's values in its frame",
}

_SPAN = re.compile(r".*\.slots\[\d+\]")


class Fault(msgspec.Struct, frozen=True, order=True):
    """A record that fails a check.

    Attributes:
      kind: one of KINDS.
      where: the place in the dialogue: ``turns[3].frames[0].slots[1]``.
      reason: what is wrong there.
    """

    kind: str
    where: str
    reason: str


def dialogue_faults(dialogue: Dialogue, services: Mapping[str, Service]) -> Iterator[Fault]:
    """Yields every fault of a dialogue's annotation.

    Args:
      dialogue: the dialogue.
      services: those of its corpus and split, by name.
    """
    for where, reason in problems_of(dialogue, services):
        yield Fault("span" if _SPAN.fullmatch(where) else "reference", where, reason)
    for t, turn in enumerate(dialogue.turns):
        for f, frame in enumerate(turn.frames):
            for i, text in _strangers(turn, frame):
                yield Fault("span_value", f"turns[{t}].frames[{f}].slots[{i}]", f"{text!r} is no value of its slot")


def _strangers(turn: Turn, frame: Frame) -> Iterator[tuple[int, str]]:
    """The spans whose text is no value of the slot; a frame without values is not checked."""
    if not frame.slots or (values := _values_of(frame)) is None:
        return
    for i, span in enumerate(frame.slots):
        if isinstance(span.start, int) and isinstance(span.exclusive_end, int):
            text = turn.utterance[span.start : span.exclusive_end]
            if text and text not in values.get(span.slot, ()):
                yield i, text


def _values_of(frame: Frame) -> dict[str, set[str]] | None:
    if not frame.actions and not frame.state:
        return None
    values: dict[str, set[str]] = {}
    for action in frame.actions or []:
        found = values.setdefault(action.slot, set())
        found.update(action.values)
        found.update(action.canonical_values or [])
    if frame.state:
        for slot, texts in frame.state.slot_values.items():
            values.setdefault(slot, set()).update(texts)
    return values


def check_kinds(kinds: list[str]) -> None:
    """Raises InputError for a kind that there is not."""
    for kind in kinds:
        if kind not in KINDS:
            raise InputError(f"there is no kind {kind!r}: {', '.join(KINDS)}", "release.toml", "allow_problems")
