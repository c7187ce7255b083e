"""Small services and dialogues for the tests of rewriting."""

import copy
from typing import Any

from kit import act, dialogue, frame, state, turn

from parapet.schemas.service import Intent, Service, Slot
from parapet.transforms.variants.matching import Names

TAXI = Service(
    "Taxi_1",
    "Rides",
    [Slot("to", "Where to"), Slot("from", "Where from"), Slot("intent", "What for"), Slot("shared", "", True, ["yes"])],
    [Intent("GetTaxi", "Get one"), Intent("FindTaxi", "Look for one")],
)
BUS = Service("Bus_1", "Buses", [Slot("to", "Where to"), Slot("count", "How many")], [Intent("GetBus", "Buy a ticket")])
SERVICES = {service.service_name: service for service in (TAXI, BUS)}

# to and from swap; so do the intents.
TAXI_NAMES = Names(
    "Taxi_11",
    {"GetTaxi": "FindTaxi", "FindTaxi": "GetTaxi"},
    {"to": "from", "from": "to", "intent": "purpose", "shared": "pooled"},
)
BUS_NAMES = Names("Bus_11", {"GetBus": "BuySeat"}, {"to": "goal", "count": "seats"})
NAMES = {"Taxi_1": TAXI_NAMES, "Bus_1": BUS_NAMES}

DIALOGUE: dict[str, Any] = dialogue(
    "1_00000",
    turn(
        "USER",
        "A shared taxi from Rome to from",
        frame(
            "Taxi_1",
            act("INFORM_INTENT", "intent", "GetTaxi"),
            act("INFORM", "to", "from"),
            act("REQUEST", "shared"),
            act("THANK_YOU"),
            slots=[{"slot": "from", "start": 19, "exclusive_end": 23}],
            state=state("GetTaxi", ["shared", "to"], **{"from": ["Rome"], "intent": ["work"], "to": ["from", "To"]}),
        ),
    ),
    turn(
        "SYSTEM",
        "2 of them",
        frame(
            "Taxi_1",
            act("INFORM_COUNT", "count", "2"),
            act("OFFER_INTENT", "intent", "FindTaxi", canonical_values=[]),
            service_call={"method": "FindTaxi", "parameters": {"from": "Rome", "to": "from"}},
            service_results=[{"from": "Rome", "to": "from"}, {"to": "from", "from": "Rome", "shared": "yes"}],
        ),
        frame(
            "Bus_1",
            {"act": "INFORM", "slot": "count", "values": ["1"]},
            slots=[{"slot": "to", "copy_from": "to", "value": ["from"]}],
            state=state(),
        ),
    ),
)


def changed(way: list[Any], value: Any) -> dict[str, Any]:
    """The dialogue with another value at a place."""
    raw = copy.deepcopy(DIALOGUE)
    at: Any = raw
    for step in way[:-1]:
        at = at[step]
    at[way[-1]] = value
    return raw
