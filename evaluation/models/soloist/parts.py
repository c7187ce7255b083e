"""What the model reads and writes, as parts: a mark and the text behind it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from parapet.evaluation.dst.frames import State
from parapet.evaluation.models.soloist.database import Database

USER, SYSTEM = "<|user|>", "<|system|>"
BELIEF, SERVICE, INTENT, SLOT, VALUE, ASKED = (
    "<|belief|>", "<|service|>", "<|intent|>", "<|slot|>", "<|value|>", "<|asked|>"
)  # fmt: skip
DATABASE, RESPONSE, END = "<|database|>", "<|response|>", "<|end|>"
MARKS = (USER, SYSTEM, BELIEF, SERVICE, INTENT, SLOT, VALUE, ASKED, DATABASE, RESPONSE, END)

NONE = "NONE"

Part = tuple[str, str]
Belief = dict[str, State]  # service to its state


def history_parts(turns: Iterable[tuple[str, str]]) -> tuple[Part, ...]:
    """What was said, of (speaker, utterance)."""
    return tuple((USER if speaker == "USER" else SYSTEM, text) for speaker, text in turns)


def belief_parts(belief: Mapping[str, State], said: str) -> tuple[Part, ...]:
    """A belief state. Of values that mean the same the one that was said last, else the first, is taken.

    Args:
      belief: the states.
      said: all that was said, in small letters.
    """
    found: list[Part] = []
    for service, state in belief.items():
        found += [(SERVICE, service), (INTENT, state.active_intent or NONE)]
        for slot, values in sorted(state.slot_values.items()):
            if values:
                found += [(SLOT, slot), (VALUE, max(values, key=lambda value: said.rfind(value.casefold())))]
        found += [(ASKED, slot) for slot in sorted(state.requested_slots)]
    return tuple(found)


def belief_of(parts: Sequence[Part]) -> Belief:
    """The states that parts tell, of which a model may have written any: what makes no sense is passed over."""
    found: Belief = {}
    state = slot = None
    for mark, text in parts:
        if mark == SERVICE:
            state, slot = found.setdefault(text, State(NONE, [], {})) if text else None, None
        elif state is None or not text:
            continue
        elif mark == INTENT:
            state.active_intent = text
        elif mark == SLOT:
            slot = text
        elif mark == VALUE and slot is not None:
            state.slot_values[slot], slot = [text], None
        elif mark == ASKED and text not in state.requested_slots:
            state.requested_slots.append(text)
    return found


def database_parts(belief: Mapping[str, State], database: Database) -> tuple[Part, ...]:
    """How many entities satisfy the belief state, for each of its services that has entities."""
    found: list[Part] = []
    for service, state in belief.items():
        if database.has(service):
            found += [(SERVICE, service), (VALUE, how_many(database.matches(service, state.slot_values)))]
    return tuple(found)


def how_many(matches: int) -> str:
    """A number of entities in the words of the model."""
    return "none" if not matches else "one" if matches == 1 else "few" if matches <= 5 else "many"
