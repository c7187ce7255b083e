"""A call in the SGD layout: the service, states from the labels, spans, acts, API calls with their results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from parapet.schemas.errors import InputError
from parapet.transforms.dstc2.calls import DONTCARE, Act, Call, CallTurn, Ontology, Slots
from parapet.transforms.dstc2.knowledge import QUERY, RELATIONS, Restaurant
from parapet.transforms.dstc2.task6 import Round, Search
from parapet.transforms.sgd_turns import (
    Line,
    act,
    schema_intent,
    schema_service,
    schema_slot,
    state,
    system_turn,
    user_turn,
)

SERVICE, INTENT, RATING = "Restaurants_dstc2", "FindRestaurants", "rating"
_CATEGORICAL = 10  # maximum number of values

_DESCRIPTIONS = {
    "food": "Cuisine of the restaurant",
    "area": "Part of town in which the restaurant is",
    "pricerange": "Price range of the restaurant",
    "name": "Name of the restaurant",
    "addr": "Address of the restaurant",
    "phone": "Phone number of the restaurant",
    "postcode": "Post code of the restaurant",
    "signature": "Signature dish of the restaurant",
}
# Acts of DSTC2 to those of SGD; others keep their name.
_USER = {"reqalts": "REQUEST_ALTS", "reqmore": "REQ_MORE", "thankyou": "THANK_YOU", "bye": "GOODBYE"}
_SYSTEM = {
    "reqmore": "REQ_MORE",
    "expl-conf": "CONFIRM",
    "impl-conf": "CONFIRM",
    "confirm-domain": "OFFER_INTENT",
    "select": "REQUEST",
    "canthelp": "NOTIFY_FAILURE",
    "canthelp.exception": "NOTIFY_FAILURE",
    "canthelp.missing_slot_value": "NOTIFY_FAILURE",
}


def slots_of(ontology: Ontology) -> list[str]:
    """The service's slots, in order."""
    return list(dict.fromkeys((*QUERY, "name", *ontology.informable, *RELATIONS, *ontology.requestable, RATING)))


def schema_of(ontology: Ontology) -> list[dict[str, Any]]:
    """The services of the schema file: one."""
    slots = []
    for name in slots_of(ontology):
        values = sorted(value for value in ontology.informable.get(name, []) if value != DONTCARE)
        description = _DESCRIPTIONS.get(name, f"{name.capitalize()} of the restaurant")
        slots.append(schema_slot(name, description, values if len(values) <= _CATEGORICAL else ()))
    names = [slot["name"] for slot in slots]
    optional = {name: DONTCARE for name in names if name in ontology.informable}
    description = "Find a restaurant by cuisine, part of town and price range"
    intent = schema_intent(INTENT, description, [], names, optional=optional)
    return [schema_service(SERVICE, "Restaurants of a town, found by phone (DSTC2)", slots, [intent])]


def dialogue_of(call: Call, of_call: Sequence[Round], slots: frozenset[str]) -> dict[str, Any]:
    """The dialogue. The user begins, as in SGD: the welcome, the same in all calls, is left out.

    Args:
      call: the call.
      of_call: its rounds.
      slots: of the service.

    Raises:
      InputError: a label has a slot that the service does not have.
    """
    turns = []
    for t, round_ in enumerate(of_call):
        turns.append(_user_turn(round_.turn, slots, f"turns[{t}]"))
        if round_.answer is not None:
            turns.append(_system_turn(round_.answer, round_.search, slots))
    return {"dialogue_id": call.name, "services": [SERVICE], "turns": turns}


def _user_turn(turn: CallTurn, known: frozenset[str], where: str) -> dict[str, Any]:
    for slot in (*(slot for slot, _ in turn.goals), *turn.requested):
        if slot not in known:
            raise InputError(f"unknown_slot: the ontology has no slot {slot!r}", "label.json", where)
    acts = _acts(turn.user_acts, _USER, known, asked_for(turn.system_acts))
    # In a silent turn the label has no method, but the search goes on.
    intent = "NONE" if turn.method == "finished" or (turn.method == "none" and not turn.goals) else INTENT
    after = state(intent, {slot: [value] for slot, value in turn.goals}, turn.requested)
    return user_turn(SERVICE, _line(turn.user, acts), acts, after)


def _system_turn(turn: CallTurn, search: Search | None, known: frozenset[str]) -> dict[str, Any]:
    acts = _acts(turn.system_acts, _SYSTEM, known, "")
    line = _line(turn.system, acts)
    if search is None:
        return system_turn(SERVICE, line, acts)
    results = [result_of(rated.restaurant, rated.rating) for rated in search.results]
    return system_turn(SERVICE, line, acts, (INTENT, dict(search.query)), results)


def result_of(restaurant: Restaurant, rating: int) -> dict[str, str]:
    """A restaurant as a result of the service."""
    return {"name": restaurant.name, **dict(restaurant.values), RATING: str(rating)}


def asked_for(acts: Iterable[Act]) -> str:
    """The slot that a prompt requests, meant by ``inform(this=dontcare)``; empty where there are several."""
    slots = {value for act in acts if act.act == "request" for slot, value in act.slots if slot == "slot"}
    return slots.pop() if len(slots) == 1 else ""


def _acts(acts: Iterable[Act], names: dict[str, str], known: frozenset[str], this: str) -> list[dict[str, Any]]:
    actions = []
    for said in acts:
        name = names.get(said.act, said.act.upper().replace(".", "_").replace("-", "_"))
        if said.act == "confirm-domain":
            actions.append(act(name, "intent", INTENT))
        elif said.act == "select":  # "something in the north or in the south": one act with both values
            actions += [act(name, slot, *(v for s, v in said.slots if s == slot)) for slot in _slots(said.slots, known)]
        elif said.act == "request":
            actions += [act(name, value) for slot, value in said.slots if slot == "slot" and value in known]
        else:
            pairs = [(this if slot == "this" else slot, value) for slot, value in said.slots]
            actions += [act(name, slot, value) for slot, value in pairs if slot in known or slot == "count"]
            if not pairs or pairs == [("", DONTCARE)]:
                actions.append(act(name))
    return actions


def _slots(pairs: Slots, known: frozenset[str]) -> list[str]:
    return [slot for slot in dict.fromkeys(slot for slot, _ in pairs) if slot in known]


def _line(text: str, acts: Iterable[dict[str, Any]]) -> Line:
    """The text with the first span of each value of the acts; the longest values are placed first."""
    values = {
        (action["slot"], value)
        for action in acts
        for value in action["values"]
        if value and action["slot"] not in ("intent", "count")
    }
    spans: list[tuple[str, int, int]] = []
    for slot, value in sorted(values, key=lambda pair: (-len(pair[1]), pair)):
        for found in re.finditer(rf"(?<!\w){re.escape(value)}(?!\w)", text):
            if all(found.end() <= start or end <= found.start() for _, start, end in spans):
                spans.append((slot, found.start(), found.end()))
                break
    return Line(text, tuple(sorted(spans, key=lambda span: (span[1], span[0]))))
