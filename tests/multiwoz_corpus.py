"""A corpus in the shape of MultiWOZ 2.2 (Zang et al. 2020), of a few templates: nothing of it is from the real one.

As there, slots are called ``hotel-name``; one ``schema.json`` serves all splits; every user turn has a frame of every
service, most of them idle, in which the values of earlier services stay, and in half of the dialogues their intents;
the system's turns have a frame of the service they speak of or none, without state; no frame has acts, and there are no
calls of services; a state lists several ways of writing a value; references, phone numbers and postcodes are said by
the system alone and stand in no state.
"""

import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import kit

_AREAS = ["centre", "east", "north", "south", "west"]
_DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_PRICES = ["cheap", "moderate", "expensive"]
_PEOPLE = [str(n) for n in range(1, 9)]
_TOWNS = ["cambridge", "ely", "norwich", "stansted airport", "peterborough", "birmingham new street", "leicester"]
_TYPES = ["museum", "park", "college"]
_FIRST = ["alder", "bridge", "chester", "dovecote", "elm", "fen", "granary", "harbour", "ivy", "juniper", "kiln"]
_KINDS = ["guest house", "lodge", "hotel", "kitchen", "brasserie", "tandoori", "noodle bar", "gardens", "gallery"]
_FOODS = ["italian", "modern european", "indian", "korean", "british", "gastropub", "north african", "thai"]
_STREETS = ["mill road", "regent street", "chesterton lane", "king's parade", "hills road", "magdalene street"]
_CARS = ["black toyota", "white honda", "blue tesla", "yellow skoda", "grey audi"]
_DEPARTMENTS = ["neurology", "teenage cancer unit", "children's surgical and medicine", "acute medical unit"]

# The possible values of slots in whatever service, or of one service.
_POSSIBLE = {
    **dict.fromkeys(("bookday", "train-day", "bus-day"), _DAYS),
    **dict.fromkeys(("train-departure", "train-destination", "bus-departure", "bus-destination"), _TOWNS),
    **{"pricerange": _PRICES, "area": _AREAS, "stars": _PEOPLE, "bookpeople": _PEOPLE, "bookstay": _PEOPLE},
    "attraction-type": _TYPES,
}
# Slots whose descriptions are other words than their names.
_DESCRIPTIONS = {
    **{"pricerange": "price budget", "bookday": "day of the booking", "bookpeople": "number of people"},
    **{"bookstay": "length of stay", "phone": "phone number", "postcode": "postal code", "ref": "reference number"},
    **{"booktime": "time of the booking", "leaveat": "leaving time", "arriveby": "arrival time", "food": "cuisine"},
}
_CONTACT = ["name", "address", "phone", "postcode"]
_SLOTS = {
    "hotel": ["pricerange", "area", "stars", "bookday", "bookpeople", "bookstay", *_CONTACT, "ref"],
    "restaurant": ["pricerange", "area", "food", "bookday", "bookpeople", "booktime", *_CONTACT, "ref"],
    "train": [*("departure", "destination", "day", "bookpeople", "leaveat", "arriveby"), "trainid", "price", "ref"],
    "taxi": ["departure", "destination", "leaveat", "arriveby", "type", "phone"],
    "attraction": ["type", "area", "entrancefee", *_CONTACT],
    "police": _CONTACT,
    "bus": ["departure", "destination", "day", "leaveat"],
    "hospital": ["department", *_CONTACT[1:]],
}
DOMAINS = tuple(_SLOTS)

# What is said about a domain: intent, user, system. After a bar are slots that the user requests or means unsaid.
_TALK = {
    "hotel": [
        ("find", "I need a {pricerange} place to stay in the {area}.", "How about the {name}? It has many stars."),
        ("find", "What is their phone number and postcode?|phone postcode", "It is {phone}, the postcode {postcode}."),
        ("book", "Please book the {name}, {bookpeople} people, {bookstay} nights from {bookday}.", "Booked: {ref}."),
    ],
    "restaurant": [
        ("find", "I am looking for a {food} restaurant in the {area}.", "{name} serves {food} food at {address}."),
        ("book", "Yes, a table for {bookpeople} at {booktime} on {bookday} please.|name", "I booked {name}, {ref}."),
        ("find", "can i get their postcode?|postcode", "Sure, it is {postcode}."),
    ],
    "train": [
        ("find", "a train from {departure} to {destination} on {day} after {leaveat}", "{trainid} costs {price}."),
        ("book", "Book that for {bookpeople} people.", "Done! Reference number : {ref} ."),
    ],
    "attraction": [
        ("find", "Is there a {type} worth a visit?", "I would recommend {name} at {address}, their number is {phone}."),
        ("find", "What does {name} cost?|entrancefee", "Entrance is {entrancefee}."),
    ],
    "taxi": [
        ("find", "I also need a taxi from {departure} to {destination} by {leaveat}.", "A {type} is booked, {phone}.")
    ],
    "police": [("find", "I was robbed, where is the police station?|address", "{name} is in Parkside, Cambridge.")],
    "bus": [("find", "a bus from {departure} to {destination} at {leaveat} please", "I have no buses, I am sorry.")],
    "hospital": [("find", "I need the {department} of the hospital.|phone", "Their number is {phone}.")],
}


def _possible(domain: str, slot: str) -> list[str]:
    return _POSSIBLE.get(slot, _POSSIBLE.get(f"{domain}-{slot}", []))


def _drawn(rng: random.Random, domain: str, places: Sequence[str]) -> dict[str, list[str]]:
    """Values of the slots of a domain, each in one way of writing or several; the first is said."""
    hour, minute = rng.randrange(6, 22), rng.choice((0, 15, 30, 45))
    time = [f"{hour:02d}:{minute:02d}"]
    if rng.random() < 0.3:
        time.insert(0, f"{(hour - 1) % 12 + 1}:{minute:02d} {'am' if hour < 12 else 'pm'}")
    code = f"cb{rng.randrange(1, 6)}{rng.randrange(1, 10)}{''.join(rng.choices('abdefhjln', k=2))}"
    open_values = {
        "name": f"{rng.choice(_FIRST)} {rng.choice(_KINDS)}",
        "address": f"{rng.randrange(2, 150)} {rng.choice(_STREETS)}",
        "phone": f"01223{rng.randrange(10**6):06}",
        "postcode": rng.choice([code, f"{code[:3]} {code[3:]}".upper()]),
        "ref": "".join(rng.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", k=8)),
        "food": rng.choice(_FOODS),
        "trainid": f"TR{rng.randrange(1000, 9999)}",
        "price": f"{rng.randrange(4, 90)}.10 pounds",
        **{"entrancefee": "free", "department": rng.choice(_DEPARTMENTS), "type": rng.choice(_CARS)},
        **{"departure": places[0], "destination": places[1]},
    }
    drawn = {slot: [value] for slot, value in open_values.items()} | {"booktime": time, "leaveat": time}
    return drawn | {slot: [rng.choice(values)] for slot in _SLOTS[domain] if (values := _possible(domain, slot))}


def schema() -> list[dict[str, Any]]:
    """The services."""
    services = []
    for domain, slots in _SLOTS.items():
        verbs = dict.fromkeys(intent for intent, *_ in _TALK[domain])
        intents = [kit.intent(f"{verb}_{domain}", f"{verb} a {domain}", transactional=verb == "book") for verb in verbs]
        for intent in intents:
            del intent["result_slots"]
        described = [
            kit.slot(f"{domain}-{slot}", f"{_DESCRIPTIONS.get(slot, slot)} of the {domain}", *_possible(domain, slot))
            for slot in slots
        ]
        services.append(kit.service(domain, described, intents, f"{domain} search and reservation"))
    return services


def dialogue(number: int, domains: Sequence[str], seed: int = 0, lists_all: bool = False) -> dict[str, Any]:
    """A dialogue about some domains, in this order.

    Args:
      number: of the dialogue; odd ones have intents that persist in idle frames.
      domains: of ``DOMAINS``.
      seed: of all that is drawn.
      lists_all: its own list has all services, those of idle frames too.
    """
    rng = random.Random(f"{seed}:{number}")
    states: dict[str, dict[str, list[str]]] = {domain: {} for domain in DOMAINS}
    intents, turns = dict.fromkeys(DOMAINS, "NONE"), list[dict[str, Any]]()

    def add(speaker: str, text: str, frames: list[dict[str, Any]]) -> None:
        turns.append({"frames": frames, "speaker": speaker, "turn_id": str(len(turns)), "utterance": text})

    def user(domain: str, intent: str, text: str, spans: list[dict[str, Any]], requested: Sequence[str]) -> None:
        if number % 2 == 0:
            intents.update(dict.fromkeys(DOMAINS, "NONE"))
        if domain:
            intents[domain] = f"{intent}_{domain}"
        frames = []
        for service in DOMAINS:
            asks = [f"{service}-{slot}" for slot in requested if service == domain]
            state = kit.state(intents[service], asks, **states[service])
            frames.append(kit.frame(service, slots=spans if service == domain else [], state=state))
        add("USER", text, frames)

    for domain in domains:
        named = [ways[0] for state in states.values() for slot, ways in state.items() if slot.endswith("-name")]
        drawn = _drawn(rng, domain, [*named, "alder lodge", "fen kitchen"])
        for intent, question, response in _TALK[domain]:
            template, _, unsaid = question.partition("|")
            text, spans = _filled(domain, template, drawn)
            meant = [*re.findall(r"{(\w+)}", template), *("name" for slot in unsaid.split() if slot == "name")]
            states[domain] |= {f"{domain}-{slot}": drawn[slot] for slot in meant}
            user(domain, intent, text, spans, [slot for slot in unsaid.split() if slot != "name"])
            text, spans = _filled(domain, response, drawn)
            add("SYSTEM", text, [kit.frame(domain, slots=spans)] if spans else [])
    user("", "", rng.choice(["no, that's all. thank you!", "thanks, bye", "That is everything, goodbye."]), [], [])
    add("SYSTEM", "thank you for using our services. goodbye!", [])
    return {"dialogue_id": f"MUL{number:04d}.json", "services": list(DOMAINS if lists_all else domains), "turns": turns}


def _filled(domain: str, template: str, drawn: dict[str, list[str]]) -> tuple[str, list[dict[str, Any]]]:
    """A text, and the spans of its values of slots without possible values."""
    text = template.format(**{slot: ways[0] for slot, ways in drawn.items()})
    slots = [slot for slot in re.findall(r"{(\w+)}", template) if not _possible(domain, slot)]
    said = {slot: drawn[slot][0] for slot in slots}
    return text, [{**kit.span(f"{domain}-{slot}", text, value), "value": value} for slot, value in said.items()]


def write_corpus(root: Path, splits: dict[str, Sequence[Sequence[str]]], **options: Any) -> Path:
    """Writes a corpus.

    Args:
      root: a new folder.
      splits: split to the domains of each of its dialogues.
      options: of :func:`dialogue`.
    """
    number = 0
    for split, parts in splits.items():
        dialogues = [dialogue(number + n, domains, **options) for n, domains in enumerate(parts)]
        number += len(dialogues)
        kit.write(root / split / "dialogues_001.json", dialogues)
    kit.write(root / "schema.json", schema())
    return root
