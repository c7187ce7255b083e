"""A toy corpus in the SGD format whose responses depend on how many entities the database has."""

import json
from itertools import product
from pathlib import Path
from typing import Any

from kit import write

CITIES = ("Rome", "Oslo", "Bonn", "Lima")
COUNTS = (1, 3, 8, 0)
STARS = ("two", "three")
WAYS = ("an inn in {} please", "I need a room in {}", "anything in {} ?")
SLOTS = ("city", "stars", "inn_name", "phone")

SERVICE: dict[str, Any] = {
    "service_name": "Inns_1",
    "description": "places to stay",
    "slots": [
        {"name": name, "description": name, "is_categorical": name == "stars",
         "possible_values": list(STARS) if name == "stars" else []}
        for name in SLOTS
    ],
    "intents": [
        {"name": "FindInn", "description": "look for an inn", "is_transactional": False, "required_slots": ["city"],
         "optional_slots": {"stars": "dontcare"}, "result_slots": list(SLOTS)}
    ],
}  # fmt: skip


def inns(city: str, stars: str) -> list[dict[str, str]]:
    """How many there are is told by neither the city nor the stars alone."""
    n = COUNTS[(CITIES.index(city) + 2 * STARS.index(stars)) % 4]
    return [{"city": city, "stars": stars, "inn_name": f"{city} Inn {i}", "phone": f"555 {i}"} for i in range(n)]


def dialogues() -> list[dict[str, Any]]:
    """24 of them, each with three user turns."""
    return [
        {"dialogue_id": f"1_{n:05d}", "services": ["Inns_1"], "turns": _turns(*one)}
        for n, one in enumerate(product(CITIES, STARS, WAYS))
    ]


def _turns(city: str, stars: str, way: str) -> list[dict[str, Any]]:
    found = inns(city, stars)
    state = {"city": [city]}
    both = {**state, "stars": [stars]}
    said = way.format(city)
    asked = [_user(said, state, spans=[("city", said.index(city), city)])]
    asked.append(_system("how many stars ?", [{"act": "REQUEST", "slot": "stars", "values": []}]))
    asked.append(_user(f"{stars} stars", both))
    if not found:
        return [*asked, _system(f"there is nothing in {city} .", [], spans=[("city", 20, city)]), _user("bye", both)]
    name, phone = found[0]["inn_name"], found[0]["phone"]
    count = {1: "only", 3: "for one", 8: "among many"}[len(found)]
    offered = [{"act": "OFFER", "slot": "inn_name", "values": [name], "canonical_values": [name]}]
    made = {"method": "FindInn", "parameters": {"city": city, "stars": stars}}
    call = {"service_call": made, "service_results": found}
    asked.append(_system(f"there is {name} {count} .", offered, spans=[("inn_name", 9, name)], **call))
    asked.append(_user("what is the phone ?", both, ["phone"], [{"act": "REQUEST", "slot": "phone", "values": []}]))
    told = [{"act": "INFORM", "slot": "phone", "values": [phone], "canonical_values": [phone]}]
    return [*asked, _system(f"it is {phone} .", told)]


def _user(
    said: str, values: dict[str, list[str]], requested: Any = (), actions: Any = (), spans: Any = ()
) -> dict[str, Any]:
    state = {"active_intent": "FindInn", "requested_slots": list(requested), "slot_values": values}
    return {"speaker": "USER", "utterance": said, "frames": [_frame(actions, spans, state=state)]}


def _system(said: str, actions: list[dict[str, Any]], spans: Any = (), **more: Any) -> dict[str, Any]:
    return {"speaker": "SYSTEM", "utterance": said, "frames": [_frame(actions, spans, **more)]}


def _frame(actions: Any, spans: Any, **more: Any) -> dict[str, Any]:
    slots = [{"slot": slot, "start": start, "exclusive_end": start + len(value)} for slot, start, value in spans]
    return {"service": "Inns_1", "slots": slots, "actions": list(actions), **more}


def write_corpus(root: Path) -> Path:
    """A corpus with the same dialogues in train and dev, and a quarter of them in test: are they learned?"""
    for split in ("train", "dev", "test"):
        folder = root / split
        write(folder / "schema.json", [SERVICE])
        (folder / "dialogues_001.json").write_text(json.dumps(dialogues()[:: 4 if split == "test" else 1]))
    return root


def texts() -> list[str]:
    """All that is said, for a tokenizer."""
    return [
        *(turn["utterance"] for one in dialogues() for turn in one["turns"]),
        *("Inns_1", "FindInn", "city", "stars", "phone", "none", "one", "few", "many"),
        *("[inns_1_inn_name]", "[inns_1_phone]", "[inns_1_city]"),
    ]
