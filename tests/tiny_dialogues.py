"""A tiny corpus in the SGD format, of a few templates: what any tracker that learns can learn.

There are values that the user says, values that the system offers and the user takes, values that go from one service
to the other, and a slot that the user does not care about.
"""

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from kit import write

DISHES = ("pizza", "curry", "soup")
AREAS = ("north", "south")
# As people say it, who do not know the values of a schema.
SAID = {"north": "up there", "south": "down the hill", "dontcare": "anywhere"}
PLACES = ("Opa", "Zum Hirsch")

FOOD: dict[str, Any] = {
    "service_name": "Food_1",
    "description": "places to eat",
    "slots": [
        {"name": "dish", "description": "what to eat", "is_categorical": False, "possible_values": []},
        {"name": "area", "description": "part of town", "is_categorical": True, "possible_values": list(AREAS)},
        {"name": "place", "description": "the house", "is_categorical": False, "possible_values": []},
        {"name": "phone", "description": "its number", "is_categorical": False, "possible_values": []},
    ],
    "intents": [
        {
            "name": "FindFood",
            "description": "look for food",
            "required_slots": ["dish"],
            "optional_slots": {"area": "dontcare"},
        },
        {"name": "BookTable", "description": "book", "required_slots": ["place"], "optional_slots": {}},
    ],
}
TAXI: dict[str, Any] = {
    "service_name": "Taxi_1",
    "description": "cars",
    "slots": [
        {"name": "goal", "description": "where to go", "is_categorical": False, "possible_values": []},
        {"name": "seats", "description": "how many people", "is_categorical": True, "possible_values": ["1", "2"]},
    ],
    "intents": [
        {"name": "Ride", "description": "take a car", "required_slots": ["goal"], "optional_slots": {"seats": "1"}}
    ],
}

Frames = list[dict[str, Any]]


def dialogues(turns: int = 99) -> list[dict[str, Any]]:
    """All dialogues, in the SGD format.

    Args:
      turns: the first so many of each dialogue.
    """
    made = []
    for number, (dish, area, place) in enumerate(product(DISHES, (*AREAS, "dontcare"), PLACES)):
        taken = number % 3 > 0
        said = list(_turns(dish, area, place, taken))[:turns]
        services = ["Food_1", "Taxi_1"] if taken else ["Food_1"]
        made.append({"dialogue_id": f"{number:05d}", "services": services, "turns": said})
    return made


def _turns(dish: str, area: str, place: str, taken: bool) -> Iterator[dict[str, Any]]:
    food = {"dish": [dish]}
    yield _user(f"i want {dish}", [_frame("Food_1", "FindFood", [], food)])
    yield _system("where is it ?", _act("REQUEST", "area"))
    food = {**food, "area": [area]}
    yield _user(SAID[area], [_frame("Food_1", "FindFood", [], food)])
    yield _system(f"there is {place} .", _act("OFFER", "place", place))
    if not taken:
        yield _user("tell me the phone", [_frame("Food_1", "FindFood", ["phone"], food)])
        return
    food = {**food, "place": [place, place.lower()]}
    yield _user("book it", [_frame("Food_1", "BookTable", [], food)])
    yield _system("done", _act("NOTIFY_SUCCESS"))
    yield _user("a taxi there for two", [_frame("Taxi_1", "Ride", [], {"goal": [place], "seats": ["2"]})])


def _user(said: str, frames: Frames) -> dict[str, Any]:
    return {"speaker": "USER", "utterance": said, "frames": frames}


def _system(said: str, action: dict[str, Any]) -> dict[str, Any]:
    frame = {"service": "Food_1", "slots": [], "actions": [action]}
    return {"speaker": "SYSTEM", "utterance": said, "frames": [frame]}


def _act(act: str, slot: str = "", *values: str) -> dict[str, Any]:
    return {"act": act, "slot": slot, "values": list(values), "canonical_values": list(values)}


def _frame(service: str, intent: str, requested: list[str], values: dict[str, list[str]]) -> dict[str, Any]:
    state = {"active_intent": intent, "requested_slots": requested, "slot_values": values}
    return {"service": service, "slots": [], "actions": [], "state": state}


def write_corpus(root: Path, turns: int = 99) -> Path:
    """A corpus with the same dialogues in train, dev and test: what is tested is whether they are learned.

    Args:
      root: a new folder.
      turns: the first so many of each dialogue.
    """
    for split in ("train", "dev", "test"):
        folder = root / split
        write(folder / "schema.json", [FOOD, TAXI])
        (folder / "dialogues_001.json").write_text(json.dumps(dialogues(turns)))
    return root


def texts() -> list[str]:
    """All that is said, and all of the schemas: for a tokenizer."""
    said = [turn["utterance"] for one in dialogues() for turn in one["turns"]]
    told = [
        f"{one['name']} {one['description']} {' '.join(one.get('possible_values', ()))}"
        for service in (FOOD, TAXI)
        for one in (*service["slots"], *service["intents"])
    ]
    names = [f"{service['service_name']} {service['description']}" for service in (FOOD, TAXI)]
    ours = "NONE dontcare [USER] [SYSTEM] [domain] [slot] [PVs] [intent] [requested]"
    others = "sys : usr : api : # sort tag keep jump none null do not care find food book table ride"
    return [*said, *told, *names, ours, others]
