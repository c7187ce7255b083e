"""What the model is asked, what it should answer, and how its answers are understood.

The form is that of Lee, Cheng and Ostendorf 2021, "Dialogue State Tracking with a Language Model using Schema-Driven
Prompting", section 3, with slots' descriptions and possible values:

    [USER] I want to eat [SYSTEM] Where? [domain] Restaurants_1 finds tables [slot] city where it is [PVs] Rome, Paris

Theirs are slots alone, ``slots``. With ``all`` the active intent and the requested slots are asked for likewise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
from rapidfuzz.distance import Indel

from parapet.evaluation.dst.frames import State
from parapet.schemas.service import Service, Slot
from parapet.transforms.seeding import stable_hash

NONE = "NONE"
DONTCARE = "dontcare"
CLOSE = 0.75  # how similar an answer must be to a name or value to count as it

Kind = Literal["slot", "intent", "requested"]
Prompts = Literal["all", "slots"]
Answers = Literal["nearest", "raw"]  # how an answer that is no possible value of its slot is understood


class Prompt(msgspec.Struct, frozen=True):
    """A question about a service.

    Attributes:
      text: what follows the dialogue.
      slot: that is asked for, with kind ``slot``.
    """

    kind: Kind
    text: str
    slot: Slot | None = None


def turn_text(speaker: str, utterance: str) -> str:
    """A turn as the model sees it."""
    return f" [{speaker}] {utterance}"


def prompts_of(service: Service, prompts: Prompts = "all") -> list[Prompt]:
    """What a service is asked: its slots in order; with ``all`` also the active intent and the requested slots."""
    domain = f" [domain] {service.service_name} {service.description}"
    found = [Prompt("slot", domain + _slot(slot), slot) for slot in service.slots]
    if prompts == "slots":
        return found
    intents = ", ".join(f"{intent.name} {intent.description}" for intent in service.intents)
    names = ", ".join(slot.name for slot in service.slots)
    return [
        *found,
        Prompt("intent", f"{domain} [intent] {intents}"),
        Prompt("requested", f"{domain} [requested] {names}"),
    ]


def _slot(slot: Slot) -> str:
    values = f" [PVs] {', '.join(slot.possible_values)}" if slot.is_categorical else ""
    return f" [slot] {slot.name} {slot.description}{values}"


def target(
    prompt: Prompt, service: Service, state: State, history: Sequence[tuple[str, str]], seed: str | None = None
) -> str:
    """What should be answered.

    Args:
      prompt: the question.
      service: that it is about.
      state: the right one.
      history: (speaker, utterance) so far.
      seed: draws one of a slot's equal values, as Lee, Cheng and Ostendorf do; without it that which was said last is
        taken, of a categorical slot the first.
    """
    if prompt.kind == "intent":
        return state.active_intent or NONE
    if prompt.kind == "requested":
        requested = set(state.requested_slots)
        return ", ".join(slot.name for slot in service.slots if slot.name in requested) or NONE
    assert prompt.slot is not None
    values = state.slot_values.get(prompt.slot.name) or [NONE]
    if len(values) > 1 and seed is not None:
        place = (service.service_name, prompt.slot.name, *(utterance for _, utterance in history))
        return values[stable_hash(seed, "value", *place) % len(values)]
    return values[0] if prompt.slot.is_categorical or len(values) == 1 else said_last(values, history)


def said_last(values: Sequence[str], history: Sequence[tuple[str, str]]) -> str:
    """Of several values that are the same the one that was said last; of several of those, or of none, the first."""
    wanted = [value.casefold() for value in values]
    for _, utterance in reversed(history):
        said = utterance.casefold()
        found = [said.rfind(value) for value in wanted]
        if max(found) >= 0:
            return values[found.index(max(found))]
    return values[0]


def state_of(service: Service, answers: Iterable[tuple[Prompt, str]], read: Answers = "nearest") -> State:
    """The state that answers make. Without the prompts for them it has no intent and no requested slots.

    Args:
      service: that was asked about.
      answers: to each prompt.
      read: see :func:`value_of`.
    """
    state = State(NONE, [], {})
    for prompt, answer in answers:
        answer = " ".join(answer.split())
        if prompt.kind == "intent":
            state.active_intent = nearest(answer, [NONE, *(intent.name for intent in service.intents)]) or NONE
        elif prompt.kind == "requested":
            state.requested_slots = _requested(answer, [slot.name for slot in service.slots])
        elif prompt.slot is not None:
            value = value_of(answer, prompt.slot, read)
            if value:
                state.slot_values[prompt.slot.name] = [value]
    return state


def value_of(answer: str, slot: Slot, read: Answers = "nearest") -> str:
    """The value that an answer means; empty for none.

    Args:
      answer: as the model gave it.
      slot: that was asked for.
      read: of a categorical slot ``raw`` takes any answer, ``nearest`` the most similar of the possible values.
    """
    if answer in ("", NONE):
        return ""
    if not slot.is_categorical or read == "raw":
        return answer
    found = nearest(answer, [*slot.possible_values, DONTCARE, NONE])
    return "" if found == NONE else found


def _requested(answer: str, names: Sequence[str]) -> list[str]:
    if answer in ("", NONE):
        return []
    found = {nearest(one.strip(), names) for one in answer.split(",")}
    return [name for name in names if name in found]


def nearest(answer: str, choices: Sequence[str]) -> str:
    """The choice that an answer means: itself, or the most similar one if it is close, the first of several.

    Args:
      answer: as the model gave it.
      choices: what it could have said.

    Returns:
      Empty where none is close.
    """
    if answer in choices:
        return answer
    small = answer.casefold()
    scores = [Indel.normalized_similarity(small, one.casefold()) for one in choices]
    best = max(scores, default=0.0)
    return choices[scores.index(best)] if best >= CLOSE else ""
