"""A small corpus of made-up cafes whose system turns a tiny model can learn by heart and put together anew."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kit import act, dialogue, frame, intent, service, slot, turn, write

NAMES, CITIES, COUNTS, GARDENS = ("Opa", "Nisa"), ("Oslo", "Rome"), ("2", "5"), ("True", "False")
DIALOGUES = 6

SLOTS = {"cafe_name": "title", "city": "town", "has_garden": "is_green"}


def _schema(service_name: str, names: Sequence[str], *descriptions: str) -> list[dict[str, Any]]:
    values = ((), (), ("True", "False"))
    slots = [slot(name, text, *said) for name, text, said in zip(names, descriptions, values, strict=True)]
    _, city, garden = names
    find = intent("FindCafe", "find a cafe in a city", city, results=names, **{garden: "dontcare"})
    return [service(service_name, slots, [find], "Find a place for coffee")]


SCHEMA = _schema("Cafes_1", [*SLOTS], "Name of the cafe", "City of the cafe", "Whether there is a garden")
_OTHER = ("What the place is called", "Town where it stands", "Whether it has a garden")
VARIED = _schema("Cafes_11", [*SLOTS.values()], *_OTHER)


def turns(number: int, other: bool) -> Iterator[tuple[str, list[tuple[str, str, list[str]]]]]:
    """(utterance, its acts) of the system turns of a dialogue, in one of two ways to speak."""
    name, city = NAMES[number % 2], CITIES[number // 2 % 2]
    count, garden = COUNTS[(number + number // 2) % 2], GARDENS[number // 3 % 2]
    yield ("Which city ?", "Tell me the city .")[other], [("REQUEST", "city", [])]
    yield (f"You want {city} ?", f"So it is {city} .")[other], [("CONFIRM", "city", [city])]
    offer = (f"{name} is nice .", f"I found {name} for you .")[other]
    yield f"{offer} Anything else ?", [("OFFER", "cafe_name", [name]), ("REQ_MORE", "", [])]
    yield f"I have {count} cafes .", [("INFORM_COUNT", "count", [count])]
    said = {"True": ("They have a garden .", "A garden is there ."), "False": ("There is no garden .", "No garden .")}
    yield said[garden][other], [("INFORM", "has_garden", [garden])]


def dialogues(numbers: Sequence[int], varied: bool, other: bool) -> list[dict[str, Any]]:
    """Some of them."""
    name = (VARIED if varied else SCHEMA)[0]["service_name"]
    return [
        dialogue(f"{number:02}", *(said for one in turns(number, other) for said in _exchange(name, varied, *one)))
        for number in numbers
    ]


def _exchange(name: str, varied: bool, said: str, acts: Sequence[tuple[str, str, list[str]]]) -> list[dict[str, Any]]:
    actions = [
        act(what, SLOTS.get(slot, slot) if varied else slot, *values, canonical_values=values)
        for what, slot, values in acts
    ]
    return [turn("USER", "Go on ."), turn("SYSTEM", said, frame(name, *actions))]


def write_toy(root: Path, varied: bool = False, other: bool = False) -> Path:
    """Writes a corpus: train has dev and test twice, or more epochs would be needed.

    Args:
      root: a new folder.
      varied: with the words of the variant.
      other: with the other way to speak.
    """
    for split, times in (("train", 2), ("dev", 1), ("test", 1)):
        write_split(root / split, VARIED if varied else SCHEMA, dialogues(range(times * DIALOGUES), varied, other))
    return root


def write_split(folder: Path, schema: object, of: object) -> None:
    """Writes the files of one."""
    write(folder / "schema.json", schema)
    write(folder / "dialogues_001.json", of)


def texts(*roots: Path) -> list[str]:
    """What a tokenizer should know of corpora."""
    from parapet.evaluation.models.generation import read_examples

    rows = [one for root in roots for one in read_examples(str(root), "train").rows]
    return [text for one in rows for text in (one.text, one.said)]
