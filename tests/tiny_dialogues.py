"""A tiny corpus in the SGD format, of a few templates: what any tracker that learns can learn.

There are values that the user says, values that the system offers and the user takes, values that go from one service
to the other, and a slot that the user does not care about.
"""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from kit import act, corpus, frame, intent, service, slot, state, turn

DISHES = ("pizza", "curry", "soup")
AREAS = ("north", "south")
# As people say it, who do not know the values of a schema.
SAID = {"north": "up there", "south": "down the hill", "dontcare": "anywhere"}
PLACES = ("Opa", "Zum Hirsch")

_SLOTS = {"dish": ["what to eat"], "area": ["part of town", *AREAS], "place": ["the house"], "phone": ["its number"]}
FOOD: dict[str, Any] = service(
    "Food_1",
    [slot(name, *facts) for name, facts in _SLOTS.items()],
    [intent("FindFood", "look for food", "dish", area="dontcare"), intent("BookTable", "book", "place")],
    "places to eat",
)
TAXI: dict[str, Any] = service(
    "Taxi_1",
    [slot("goal", "where to go"), slot("seats", "how many people", "1", "2")],
    [intent("Ride", "take a car", "goal", seats="1")],
    "cars",
)


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
    yield turn("USER", f"i want {dish}", _said("FindFood", food))
    yield turn("SYSTEM", "where is it ?", frame("Food_1", act("REQUEST", "area")))
    food = {**food, "area": [area]}
    yield turn("USER", SAID[area], _said("FindFood", food))
    yield turn("SYSTEM", f"there is {place} .", frame("Food_1", act("OFFER", "place", place)))
    if not taken:
        yield turn("USER", "tell me the phone", _said("FindFood", food, "phone"))
        return
    food = {**food, "place": [place, place.lower()]}
    yield turn("USER", "book it", _said("BookTable", food))
    yield turn("SYSTEM", "done", frame("Food_1", act("NOTIFY_SUCCESS")))
    yield turn("USER", "a taxi there for two", frame("Taxi_1", state=state("Ride", goal=[place], seats=["2"])))


def _said(intent: str, values: dict[str, list[str]], *requested: str) -> dict[str, Any]:
    return frame("Food_1", state=state(intent, requested, **values))


def write_corpus(root: Path, turns: int = 99) -> Path:
    """A corpus with the same dialogues in train, dev and test: what is tested is whether they are learned.

    Args:
      root: a new folder.
      turns: the first so many of each dialogue.
    """
    made = dialogues(turns)
    return corpus(root, [FOOD, TAXI], train=made, dev=made, test=made)


def texts() -> list[str]:
    """All that is said, and all of the schemas: for a tokenizer."""
    said = [spoken["utterance"] for one in dialogues() for spoken in one["turns"]]
    told = [
        f"{one['name']} {one['description']} {' '.join(one.get('possible_values', ()))}"
        for of in (FOOD, TAXI)
        for one in (*of["slots"], *of["intents"])
    ]
    names = [f"{of['service_name']} {of['description']}" for of in (FOOD, TAXI)]
    others = "sys : usr : api : # sort tag keep jump none null do not care find food book table ride"
    return [*said, *told, *names, "NONE dontcare [USER] [SYSTEM] [domain] [slot] [PVs] [intent] [requested]", others]
