"""A toy corpus in the SGD format whose responses depend on how many entities the database has."""

from itertools import product
from pathlib import Path
from typing import Any

from kit import act, corpus, dialogue, frame, intent, service, slot, span, state, turn

CITIES = ("Rome", "Oslo", "Bonn", "Lima")
COUNTS = (1, 3, 8, 0)
STARS = ("two", "three")
WAYS = ("an inn in {} please", "I need a room in {}", "anything in {} ?")
SLOTS = ("city", "stars", "inn_name", "phone")

SERVICE: dict[str, Any] = service(
    "Inns_1",
    [slot(name, name, *(STARS if name == "stars" else ())) for name in SLOTS],
    [intent("FindInn", "look for an inn", "city", results=SLOTS, stars="dontcare")],
    "places to stay",
)


def inns(city: str, stars: str) -> list[dict[str, str]]:
    """How many there are is told by neither the city nor the stars alone."""
    n = COUNTS[(CITIES.index(city) + 2 * STARS.index(stars)) % 4]
    return [{"city": city, "stars": stars, "inn_name": f"{city} Inn {i}", "phone": f"555 {i}"} for i in range(n)]


def dialogues() -> list[dict[str, Any]]:
    """24 of them, each with three user turns."""
    return [dialogue(f"1_{n:05d}", *_turns(*one)) for n, one in enumerate(product(CITIES, STARS, WAYS))]


def _turns(city: str, stars: str, way: str) -> list[dict[str, Any]]:
    found = inns(city, stars)
    first, both = {"city": [city]}, {"city": [city], "stars": [stars]}
    said = way.format(city)
    asked = [_user(said, first, slots=[span("city", said, city)])]
    asked.append(_system("how many stars ?", act("REQUEST", "stars")))
    asked.append(_user(f"{stars} stars", both))
    if not found:
        nothing = f"there is nothing in {city} ."
        return [*asked, _system(nothing, slots=[span("city", nothing, city)]), _user("bye", both)]
    name, phone = found[0]["inn_name"], found[0]["phone"]
    count = {1: "only", 3: "for one", 8: "among many"}[len(found)]
    made = {"method": "FindInn", "parameters": {"city": city, "stars": stars}}
    call = {"service_call": made, "service_results": found}
    there = f"there is {name} {count} ."
    asked.append(_system(there, act("OFFER", "inn_name", name), slots=[span("inn_name", there, name)], **call))
    asked.append(_user("what is the phone ?", both, act("REQUEST", "phone"), requested=["phone"]))
    return [*asked, _system(f"it is {phone} .", act("INFORM", "phone", phone))]


def _user(said: str, values: Any, *actions: Any, requested: Any = (), **more: Any) -> dict[str, Any]:
    return turn("USER", said, frame("Inns_1", *actions, state=state("FindInn", requested, **values), **more))


def _system(said: str, *actions: Any, **more: Any) -> dict[str, Any]:
    return turn("SYSTEM", said, frame("Inns_1", *actions, **more))


def write_corpus(root: Path) -> Path:
    """A corpus with the same dialogues in train and dev, and a quarter of them in test: are they learned?"""
    made = dialogues()
    return corpus(root, [SERVICE], train=made, dev=made, test=made[::4])


def texts() -> list[str]:
    """All that is said, for a tokenizer."""
    return [
        *(said["utterance"] for one in dialogues() for said in one["turns"]),
        *("Inns_1", "FindInn", "city", "stars", "phone", "none", "one", "few", "many"),
        *("[inns_1_inn_name]", "[inns_1_phone]", "[inns_1_city]"),
    ]
