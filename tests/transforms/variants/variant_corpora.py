"""Small services and dialogues for the tests of rewriting."""

import copy
from typing import Any

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

DIALOGUE: dict[str, Any] = {
    "dialogue_id": "1_00000",
    "services": ["Taxi_1", "Bus_1"],
    "turns": [
        {
            "speaker": "USER",
            "utterance": "A shared taxi from Rome to from",
            "frames": [
                {
                    "service": "Taxi_1",
                    "slots": [{"slot": "from", "start": 19, "exclusive_end": 23}],
                    "actions": [
                        {
                            "act": "INFORM_INTENT",
                            "slot": "intent",
                            "values": ["GetTaxi"],
                            "canonical_values": ["GetTaxi"],
                        },
                        {"act": "INFORM", "slot": "to", "values": ["from"], "canonical_values": ["from"]},
                        {"act": "REQUEST", "slot": "shared", "values": []},
                        {"act": "THANK_YOU", "slot": "", "values": []},
                    ],
                    "state": {
                        "active_intent": "GetTaxi",
                        "requested_slots": ["shared", "to"],
                        "slot_values": {"from": ["Rome"], "intent": ["work"], "to": ["from", "To"]},
                    },
                }
            ],
        },
        {
            "speaker": "SYSTEM",
            "utterance": "2 of them",
            "frames": [
                {
                    "service": "Taxi_1",
                    "slots": [],
                    "actions": [
                        {"act": "INFORM_COUNT", "slot": "count", "values": ["2"], "canonical_values": ["2"]},
                        {"act": "OFFER_INTENT", "slot": "intent", "values": ["FindTaxi"], "canonical_values": []},
                    ],
                    "service_call": {"method": "FindTaxi", "parameters": {"from": "Rome", "to": "from"}},
                    "service_results": [
                        {"from": "Rome", "to": "from"},
                        {"to": "from", "from": "Rome", "shared": "yes"},
                    ],
                },
                {
                    "service": "Bus_1",
                    "slots": [{"slot": "to", "copy_from": "to", "value": ["from"]}],
                    "actions": [{"act": "INFORM", "slot": "count", "values": ["1"]}],
                    "state": {"active_intent": "NONE", "requested_slots": [], "slot_values": {}},
                },
            ],
        },
    ],
}


def changed(way: list[Any], value: Any) -> dict[str, Any]:
    """The dialogue with another value at a place."""
    dialogue = copy.deepcopy(DIALOGUE)
    at: Any = dialogue
    for step in way[:-1]:
        at = at[step]
    at[way[-1]] = value
    return dialogue
