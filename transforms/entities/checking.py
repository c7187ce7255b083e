"""What must hold of a dialogue whose values were replaced; where it does not, the dialogue is not used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from parapet.schemas.dialogue import Dialogue, Turn, typed
from parapet.schemas.errors import InputError
from parapet.transforms.entities.forms import is_relative
from parapet.transforms.entities.groups import Found, Group, Slot, annotated
from parapet.transforms.entities.kinds import is_none
from parapet.transforms.entities.mentions import Mention, Table
from parapet.transforms.entities.tokens import folded, is_number, words


def check_replaced(
    before: Dialogue, raw: dict[str, Any], found: Found, mentions: Sequence[Sequence[Mention]], table: Table
) -> None:
    """Checks spans, what is left of old values, and whether states follow from what was said, as before.

    Args:
      before: the dialogue as it was.
      raw: as it is now, as its file has it.
      found: its values.
      mentions: of each turn, the values in its utterance.
      table: by which they were found.

    Raises:
      InputError: something does not hold.
    """
    after = typed(raw)
    _check_spans(after, found)
    _check_left(after, table, mentions)
    _check_states(before, after, found)


def _check_spans(dialogue: Dialogue, found: Found) -> None:
    """Every span is a value of its slot somewhere in the dialogue, or what one that is kept is called."""
    values: dict[Slot, set[str]] = {}
    for turn in dialogue.turns:
        for frame in turn.frames:
            for name, same, canonical in annotated(frame):
                values.setdefault((frame.service, name), set()).update(
                    folded(value) for value in (*same, canonical or "")
                )
    for position, turn in enumerate(dialogue.turns):
        for frame in turn.frames:
            for span in frame.slots:
                if isinstance(span.start, int) and isinstance(span.exclusive_end, int):
                    text = turn.utterance[span.start : span.exclusive_end]
                    slot = (frame.service, span.slot)
                    if {folded(text), found.spoken.get((slot, text), folded(text))}.isdisjoint(values.get(slot, ())):
                        reason = f"bad_span: {text!r} is no value of {span.slot!r} after the replacement"
                        raise InputError(reason, "", f"turns[{position}]")


def _check_left(after: Dialogue, table: Table, mentions: Sequence[Sequence[Mention]]) -> None:
    """No value that was replaced is still said."""
    for position, (turn, of_turn) in enumerate(zip(after.turns, mentions, strict=True)):
        if not of_turn:
            continue  # as it was
        for mention in table.unmarked(turn.utterance):
            if mention.group and mention.group.replacement and not _inside_kept(mention, of_turn):
                reason = f"left_behind: {mention.text!r} is still said"
                raise InputError(reason, "", f"turns[{position}]")


def _inside_kept(mention: Mention, of_turn: Sequence[Mention]) -> bool:
    """Whether it is a part of a value that is kept: the city in the name of a station."""
    return any(
        (one.group is None or not one.group.replacement) and mention.text.casefold() in one.text.casefold()
        for one in of_turn
    )


def _check_states(before: Dialogue, after: Dialogue, found: Found) -> None:
    """A value of the state that had been said is so after, too: what a tracker can know stays what it can know."""
    of = found.by_surface()
    said_before, said_after = " ", " "
    done: set[tuple[str, str, tuple[str, ...]]] = set()
    for position, (old, new) in enumerate(zip(before.turns, after.turns, strict=True)):
        said_before += f"{' '.join(words(old.utterance))} "
        said_after += f"{' '.join(words(new.utterance))} "
        for service, slot, listed, now in _states(old, new):
            group = next((of[value] for value in listed if value in of), None)
            if group is None or not group.replacement or (service, slot, tuple(listed)) in done:
                continue
            done.add((service, slot, tuple(listed)))
            if _said(listed, said_before, group) and not _said(now, said_after, group):
                reason = f"state_differs: the value of {slot!r} had been said, and now is not"
                raise InputError(reason, "", f"turns[{position}]")


def _states(old: Turn, new: Turn) -> Any:
    for one, other in zip(old.frames, new.frames, strict=True):
        if one.state and other.state:
            for slot, listed in one.state.slot_values.items():
                yield one.service, slot, listed, other.state.slot_values[slot]


def _said(values: Sequence[str], text: str, group: Group) -> bool:
    """Whether one of the values has been said; of a bare number, or a day without its month, nobody can tell."""
    for value in values:
        found = words(value)
        if is_none(value) or not found or is_number(found[0]) or (group.kind == "date" and is_relative(value)):
            continue
        if f" {' '.join(found)} " in text:
            return True
    return False
