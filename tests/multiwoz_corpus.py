"""A corpus in the shape of MultiWOZ 2.2 (Zang et al. 2020), of a few templates: nothing of it is from the real one.

As there, slots are called ``hotel-name``; one ``schema.json`` serves all splits; every user turn has a frame of every
service, most of them idle, in which the values of earlier services stay, and in half of the dialogues their intents;
the system's turns have a frame of the service they speak of or none, without state; no frame has acts, and there are no
calls of services; a state lists several ways of writing a value; references, phone numbers and postcodes are said by
the system alone and stand in no state.
"""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import kit

DOMAINS = ("hotel", "restaurant", "train", "taxi", "attraction", "police", "bus", "hospital")

_AREAS = ["centre", "east", "north", "south", "west"]
_DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_PRICES = ["cheap", "moderate", "expensive"]
_PEOPLE = [str(n) for n in range(1, 9)]
_TOWNS = ["cambridge", "ely", "norwich", "stansted airport", "peterborough", "birmingham new street", "leicester"]

Values = dict[str, str | list[str]]
Slots = dict[str, tuple[str, list[str] | None]]


def _contact(whom: str) -> Slots:
    words = {"address": "address", "phone": "phone number", "postcode": "postal code"}
    return {slot: (f"{said} of the {whom}", None) for slot, said in words.items()}


# Slot -> (description, possible values or None). Descriptions as short as MultiWOZ's.
_SLOTS: dict[str, Slots] = {
    "hotel": {
        "pricerange": ("price budget of the hotel", _PRICES),
        "area": ("area or place of the hotel", _AREAS),
        "stars": ("star rating of the hotel", [str(n) for n in range(6)]),
        "bookday": ("day of the hotel booking", _DAYS),
        "bookpeople": ("number of people for the hotel booking", _PEOPLE),
        "bookstay": ("length of stay at the hotel", _PEOPLE),
        "name": ("name of the hotel", None),
        **_contact("hotel"),
        "ref": ("reference number of the hotel booking", None),
    },
    "restaurant": {
        "pricerange": ("price budget for the restaurant", _PRICES),
        "area": ("area or place of the restaurant", _AREAS),
        "food": ("the cuisine of the restaurant you are looking for", None),
        "name": ("name of the restaurant", None),
        "bookday": ("day of the restaurant booking", _DAYS),
        "bookpeople": ("how many people for the restaurant reservation", _PEOPLE),
        "booktime": ("time of the restaurant booking", None),
        "address": ("food of the restaurant", None),  # MultiWOZ's descriptions have mistakes too
        "phone": ("phone number of the restaurant", None),
        "postcode": ("postal code of the restaurant", None),
        "ref": ("reference number of the restaurant booking", None),
    },
    "train": {
        "departure": ("departure location of the train", _TOWNS),
        "destination": ("destination of the train", _TOWNS),
        "day": ("day of the train", _DAYS),
        "bookpeople": ("how many train tickets you need", _PEOPLE),
        "leaveat": ("leaving time for the train", None),
        "arriveby": ("arrival time of the train", None),
        "trainid": ("ID of the train", None),
        "price": ("price of the train", None),
        "duration": ("duration of the travel", None),
        "ref": ("reference number of the train booking", None),
    },
    "taxi": {
        "departure": ("departure location of taxi", None),
        "destination": ("destination of taxi", None),
        "leaveat": ("leaving time of taxi", None),
        "arriveby": ("arrival time of taxi", None),
        "type": ("car type of the taxi", None),
        "phone": ("phone number of the taxi", None),
    },
    "attraction": {
        "type": ("type of the attraction", ["museum", "park", "college", "theatre", "boat"]),
        "area": ("area to search for attractions", _AREAS),
        "name": ("name of the attraction", None),
        "entrancefee": ("how much is the entrance fee", None),
        **_contact("attraction"),
    },
    "police": {"name": ("name of the police station", None), **_contact("police station")},
    "bus": {
        "departure": ("departure location of bus", ["cambridge", "london kings cross", "bishops stortford"]),
        "destination": ("destination of bus", ["cambridge", "london kings cross", "bishops stortford"]),
        "day": ("day to use the bus tickets", _DAYS),
        "leaveat": ("leaving time of bus", None),
    },
    "hospital": {"department": ("type of medical care", None), **_contact("hospital")},
}
_BOOKED = ("hotel", "restaurant", "train")

_FIRST = ["alder", "bridge", "chester", "dovecote", "elm", "fen", "granary", "harbour", "ivy", "juniper", "kiln"]
_KINDS = {
    "hotel": ["guest house", "lodge", "hotel"],
    "restaurant": ["kitchen", "brasserie", "tandoori", "noodle bar"],
    "attraction": ["museum", "gardens", "gallery", "park"],
}
_FOODS = ["italian", "modern european", "indian", "korean", "british", "gastropub", "north african", "thai"]
_STREETS = ["mill road", "regent street", "chesterton lane", "king's parade", "hills road", "magdalene street"]
_CARS = ["black toyota", "white honda", "blue tesla", "yellow skoda", "grey audi"]
_DEPARTMENTS = ["neurology", "teenage cancer unit", "children's surgical and medicine", "acute medical unit"]


class _Talk:
    """A dialogue as it grows: the state of each service, and the turns."""

    def __init__(self, rng: random.Random, persisting: bool) -> None:
        self.rng, self.persisting = rng, persisting
        self.values: dict[str, dict[str, list[str]]] = {domain: {} for domain in DOMAINS}
        self.intents = dict.fromkeys(DOMAINS, "NONE")
        self.turns: list[dict[str, Any]] = []

    def user(
        self,
        domain: str,
        intent: str,
        text: str,
        values: Values | None = None,
        requested: Sequence[str] = (),
    ) -> None:
        """A user turn about a domain: values go into its state, those without possible values get spans too."""
        if not self.persisting:
            self.intents = dict.fromkeys(DOMAINS, "NONE")
        if domain:
            self.intents[domain] = intent
        said: dict[str, str] = {}
        for slot, value in (values or {}).items():
            ways = [value] if isinstance(value, str) else value
            self.values[domain][f"{domain}-{slot}"] = ways
            said[slot] = ways[0]
        frames = []
        for service in DOMAINS:
            own = service == domain
            state = {
                "active_intent": self.intents[service],
                "requested_slots": [f"{service}-{slot}" for slot in requested] if own else [],
                "slot_values": {slot: list(ways) for slot, ways in self.values[service].items()},
            }
            spans = _spans(service, text, said) if own else []
            frames.append({"actions": [], "service": service, "slots": spans, "state": state})
        self._add("USER", text, frames)

    def system(self, domain: str, text: str, values: dict[str, str] | None = None) -> None:
        """A turn of the system."""
        spans = _spans(domain, text, values) if values else []
        self._add("SYSTEM", text, [{"actions": [], "service": domain, "slots": spans}] if spans else [])

    def _add(self, speaker: str, text: str, frames: list[dict[str, Any]]) -> None:
        self.turns.append({"frames": frames, "speaker": speaker, "turn_id": str(len(self.turns)), "utterance": text})


def _spans(domain: str, text: str, said: dict[str, str]) -> list[dict[str, Any]]:
    found = []
    for slot, value in said.items():
        start = text.find(value)
        if start >= 0 and _SLOTS[domain][slot][1] is None:
            end = start + len(value)
            found.append({"exclusive_end": end, "slot": f"{domain}-{slot}", "start": start, "value": value})
    return found


def schema() -> list[dict[str, Any]]:
    """The services."""
    services = []
    for domain, slots in _SLOTS.items():
        intents = [("find", f"search for a {domain}"), *([("book", f"book a {domain}")] if domain in _BOOKED else [])]
        made = [kit.intent(f"{verb}_{domain}", said, transactional=verb == "book") for verb, said in intents]
        for one in made:
            del one["result_slots"]
        described = [kit.slot(f"{domain}-{name}", said, *(possible or ())) for name, (said, possible) in slots.items()]
        services.append(kit.service(domain, described, made, f"{domain} search and reservation"))
    return services


def dialogue(number: int, domains: Sequence[str], seed: int = 0, lists_all: bool = False) -> dict[str, Any]:
    """A dialogue about some domains, in this order.

    Args:
      number: of the dialogue; odd ones have intents that persist in idle frames.
      domains: of ``DOMAINS``.
      seed: of all that is drawn.
      lists_all: its own list has all services, those of idle frames too.
    """
    talk = _Talk(random.Random(f"{seed}:{number}"), persisting=number % 2 == 1)
    for domain in domains:
        _PARTS[domain](talk)
    talk.user("", "", talk.rng.choice(["no, that's all. thank you!", "thanks, bye", "That is everything, goodbye."]))
    talk.system("", "thank you for using our services. goodbye!")
    services = list(DOMAINS) if lists_all else list(domains)
    return {"dialogue_id": f"MUL{number:04d}.json", "services": services, "turns": talk.turns}


def write_corpus(root: Path, splits: dict[str, Sequence[Sequence[str]]], **options: Any) -> Path:
    """Writes a corpus.

    Args:
      root: a new folder.
      splits: split to the domains of each of its dialogues.
      options: of :func:`dialogue`.
    """
    number = 0
    for split, parts in splits.items():
        (root / split).mkdir(parents=True)
        dialogues = [dialogue(number + n, domains, **options) for n, domains in enumerate(parts)]
        number += len(dialogues)
        (root / split / "dialogues_001.json").write_text(json.dumps(dialogues, indent=2))
    (root / "schema.json").write_text(json.dumps(schema(), indent=2))
    return root


def _name(talk: _Talk, domain: str) -> str:
    return f"{talk.rng.choice(_FIRST)} {talk.rng.choice(_KINDS[domain])}"


def _ref(talk: _Talk) -> str:
    return "".join(talk.rng.choices("abcdefghijklmnopqrstuvwxyz0123456789".upper(), k=8))


def _phone(talk: _Talk) -> str:
    return "01223" + "".join(talk.rng.choices("0123456789", k=6))


def _postcode(talk: _Talk) -> str:
    rng = talk.rng
    code = f"cb{rng.randrange(1, 6)}{rng.randrange(1, 10)}{''.join(rng.choices('abdefhjln', k=2))}"
    return rng.choice([code, f"{code[:3]} {code[3:]}".upper()])


def _time(talk: _Talk, minutes: Sequence[int] = (0, 15, 30, 45)) -> list[str]:
    """Ways of writing a time, the one that is said first."""
    hour, minute = talk.rng.randrange(6, 22), talk.rng.choice(minutes)
    plain = f"{hour:02d}:{minute:02d}"
    ways = [plain]
    if talk.rng.random() < 0.3:
        ways = [f"{(hour - 1) % 12 + 1}:{minute:02d} {'am' if hour < 12 else 'pm'}", plain]
    return ways


def _address(talk: _Talk) -> str:
    return f"{talk.rng.randrange(2, 150)} {talk.rng.choice(_STREETS)}"


def _hotel(talk: _Talk) -> None:
    rng = talk.rng
    price, area, name = rng.choice(_PRICES), rng.choice(_AREAS), _name(talk, "hotel")
    text = f"I need a {price} place to stay in the {area}."
    talk.user("hotel", "find_hotel", text, {"pricerange": price, "area": area})
    talk.system("hotel", f"How about the {name}? It has {rng.randrange(2, 5)} stars.", {"name": name})
    phone, postcode = _phone(talk), _postcode(talk)
    talk.user("hotel", "find_hotel", "What is their phone number and postcode?", None, ["phone", "postcode"])
    text = f"The phone number is {phone} and the postcode is {postcode}."
    talk.system("hotel", text, {"phone": phone, "postcode": postcode})
    day, people, stay, ref = rng.choice(_DAYS), rng.choice(_PEOPLE[1:]), rng.choice(_PEOPLE[1:5]), _ref(talk)
    text = f"Please book the {name} for {people} people and {stay} nights from {day}."
    values: Values = {"name": name, "bookpeople": people, "bookstay": stay, "bookday": day}
    talk.user("hotel", "book_hotel", text, values)
    talk.system("hotel", f"Booked. Your reference number is {ref}.", {"ref": ref})


def _restaurant(talk: _Talk) -> None:
    rng = talk.rng
    food, area, name = rng.choice(_FOODS), rng.choice(_AREAS), _name(talk, "restaurant")
    text = f"I am looking for a {food} restaurant in the {area}."
    talk.user("restaurant", "find_restaurant", text, {"food": food, "area": area})
    address = _address(talk)
    text = f"{name} serves {food} food at {address}. Shall I book it?"
    talk.system("restaurant", text, {"name": name, "food": food, "address": address})
    time, day, people, ref = _time(talk), rng.choice(_DAYS), rng.choice(_PEOPLE[1:]), _ref(talk)
    text = f"Yes, a table for {people} at {time[0]} on {day} please."
    values: Values = {"name": name, "booktime": time, "bookday": day, "bookpeople": people}
    talk.user("restaurant", "book_restaurant", text, values)
    talk.system("restaurant", f"I booked {name}, the reference is {ref}.", {"name": name, "ref": ref})
    if rng.random() < 0.5:
        postcode = _postcode(talk)
        talk.user("restaurant", "find_restaurant", "can i get their postcode?", None, ["postcode"])
        talk.system("restaurant", f"Sure, it is {postcode}.", {"postcode": postcode})


def _train(talk: _Talk) -> None:
    rng = talk.rng
    (start, end), day, time = rng.sample(_TOWNS, 2), rng.choice(_DAYS), _time(talk)
    text = f"i need a train from {start} to {end} on {day}, leaving after {time[0]}"
    values: Values = {"departure": start, "destination": end, "day": day, "leaveat": time}
    talk.user("train", "find_train", text, values)
    train, leaves, price = f"TR{rng.randrange(1000, 9999)}", _time(talk, (0, 5, 17, 36, 59))[-1], rng.randrange(4, 90)
    duration = f"{rng.randrange(17, 163)} minutes"
    text = f"{train} leaves at {leaves}, takes {duration} and costs {price}.10 pounds."
    said = {"trainid": train, "leaveat": leaves, "duration": duration, "price": f"{price}.10 pounds"}
    talk.system("train", text, said)
    people, ref = rng.choice(_PEOPLE), _ref(talk)
    talk.user("train", "book_train", f"Book that for {people} people.", {"bookpeople": people})
    talk.system("train", f"Done! Reference number : {ref} .", {"ref": ref})


def _attraction(talk: _Talk) -> None:
    kind, name = talk.rng.choice(["museum", "park", "college"]), _name(talk, "attraction")
    talk.user("attraction", "find_attraction", f"Is there a {kind} worth a visit?", {"type": kind})
    address, phone = _address(talk), _phone(talk)
    text = f"I would recommend {name} at {address}, their number is {phone}."
    talk.system("attraction", text, {"name": name, "address": address, "phone": phone})
    talk.user("attraction", "find_attraction", f"What does {name} cost?", {"name": name}, ["entrancefee"])
    talk.system("attraction", "Entrance is free.", {"entrancefee": "free"})


def _taxi(talk: _Talk) -> None:
    known = [values[slot][0] for values in talk.values.values() for slot in values if slot.endswith("-name")]
    start, end = (*known[:2], "alder lodge", "fen kitchen")[:2]
    time = _time(talk)
    text = f"I also need a taxi from {start} to {end}, leaving by {time[0]}."
    values: Values = {"departure": start, "destination": end, "leaveat": time}
    talk.user("taxi", "find_taxi", text, values)
    car, phone = talk.rng.choice(_CARS), _phone(talk)
    talk.system("taxi", f"A {car} is booked, contact number {phone}.", {"type": car, "phone": phone})


def _police(talk: _Talk) -> None:
    talk.user("police", "find_police", "I was robbed, where is the police station?", None, ["address"])
    talk.system("police", "Parkside police station is in Parkside, Cambridge.", {"name": "Parkside police station"})


def _bus(talk: _Talk) -> None:
    time = _time(talk)
    text = f"a bus from cambridge to bishops stortford at {time[0]} please"
    values: Values = {"departure": "cambridge", "destination": "bishops stortford", "leaveat": time}
    talk.user("bus", "find_bus", text, values)
    talk.system("bus", "I have no buses, I am sorry.")


def _hospital(talk: _Talk) -> None:
    department, phone = talk.rng.choice(_DEPARTMENTS), _phone(talk)
    text = f"I need the {department} of the hospital."
    talk.user("hospital", "find_hospital", text, {"department": department}, ["phone"])
    talk.system("hospital", f"Their number is {phone}.", {"phone": phone})


_PARTS = dict(zip(DOMAINS, (_hotel, _restaurant, _train, _taxi, _attraction, _police, _bus, _hospital), strict=True))
