"""Make names that fit a slot: real places, people, cuisines and genres; businesses and titles composed of words.

The end of a name says what it denotes ("Italian Restaurant", "International Airport"), so it is kept and the rest is
replaced. If the old name has no such end, the slot decides: a ``theater_name`` gets the name of a cinema.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from parapet.transforms.core import inputs, seeding

US, GB = "us", "gb"

# The subject of a slot by words of its name or its service's name; the first match counts.
_ABOUT = {
    word: about
    for about, words in (
        ("cinema", "theater theatre cinema"),
        ("salon", "salon stylist barber"),
        ("dentist", "dentist"),
        ("doctor", "doctor physician therapist clinic"),
        ("apartments", "property apartment"),
        ("song", "song track"),
        ("album", "album"),
        ("artist", "artist singer band musician"),
        ("event", "event concert"),
        ("venue", "venue"),
        ("restaurant", "restaurant cafe"),
        ("hotel", "hotel hostel accommodation guesthouse"),
        ("movie", "movie film media"),
        ("music", "music"),
        ("sight", "attraction travel"),
    )
    for word in words.split()
}
_PLACES = {"event": "venue", "venue": "venue", "sight": "sight"}
_ARTS = ("artist", "song", "album", "music", "movie")
_DOCTOR = re.compile(r"(?:dr|prof)\.? ", re.IGNORECASE)
_MATCH = re.compile(r" vs\.? ", re.IGNORECASE)  # "Mets Vs Phillies"
_STATE = re.compile(r", [A-Z]{2}$", re.IGNORECASE)
_AIRPORT_CODE = re.compile(r"[A-Z]{3}\b")


def _load() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    tables = inputs.read_table(__package__, "names.toml")
    lists = {name: [entry.strip() for entry in entries.split(",")] for name, entries in tables["lists"].items()}
    return lists, {name: words.split() for name, words in tables["words"].items()}


_lists, _words = _load()

HOUSES = frozenset(_words["houses"])
GENERIC = HOUSES.union(_words["generic"], _words["directions"])
# Adds the state as in "Brooklyn, NY", where the old value has one.
_STATES = {city: state for city, _, state in (entry.rpartition(" ") for entry in _lists["cities_us"])}
_CITIES = {US: list(_STATES), GB: _lists["cities_gb"]}
_AIRPORTS = {US: _lists["airports_us"], GB: _lists["airports_gb"]}


@lru_cache(10_000)
def subject(slots: tuple[tuple[str, str], ...]) -> str:
    """Returns the subject of slots, such as ``cinema`` or ``song``; empty if it is unknown.

    Args:
      slots: (service, slot) of all slots that have the value.
    """
    for texts in zip(*((slot, service) for service, slot in slots), strict=True):
        for text in texts:
            for word in re.findall(r"[a-z]+", text.casefold()):
                if about := _ABOUT.get(word) or _ABOUT.get(word.removesuffix("s")):
                    return about
    return ""


class Namer:
    """Makes a name.

    Args:
      number: a 64-bit hash.
      like: the value to replace; empty if its form does not matter.
      about: the subject, see :func:`subject`.
      country: the country of towns, streets and airports: ``us`` or ``gb``.
    """

    def __init__(self, number: int, like: str, about: str = "", country: str = US) -> None:
        self.rng, self.like, self.about, self.country = seeding.NumberRng(number), like, about, country

    def pick(self, name: str) -> str:
        """Draws an entry of a list."""
        return self.rng.choice(_lists[name])

    def city(self) -> str:
        """Draws a town of the country."""
        return self.rng.choice(_CITIES[self.country])

    def person(self) -> str:
        """Makes a first name and surname, with the title of the old name; a single name stays single."""
        if self.about in ("artist", "music") and self.rng.below(2):
            return self.band()
        doctor = _DOCTOR.match(self.like)
        bare = self.like[doctor.end() :] if doctor else self.like
        name = self.pick("first")
        if " " in bare.strip() or not bare or self.about in _ARTS:
            name = f"{name} {self.pick('family')}"
        return f"{doctor[0]}{name}" if doctor else name

    def band(self) -> str:
        """Makes a name of two words, the second often in plural after an article."""
        adjective, noun = self.pick("bands_adjectives"), self.pick("bands_nouns")
        if adjective == noun:
            noun = "Choir"
        return f"The {adjective} {noun}s" if self.rng.below(3) == 0 else f"{adjective} {noun}"

    def street_address(self) -> str:
        """Makes a number and a street of the old kind, such as a road; a street without a number has none."""
        numbers = re.findall(r"^\d+", self.like or "100")
        ends = [end for word in self.like.split() if (end := word.rstrip(".,").title()) in _lists["street_ends"]]
        street = f"{self.pick('streets')} {ends[-1] if ends else self.pick('street_ends')}"
        return " ".join([*map(self._digits, numbers), street])

    def _digits(self, like: str) -> str:
        return str(1 + self.rng.below(9)) + "".join(str(self.rng.below(10)) for _ in like[1:])

    def airport(self) -> str:
        """Draws a real airport of the country, with its code if the old name has one."""
        code, _, name = self.rng.choice(_AIRPORTS[self.country]).partition(" ")
        return f"{code} {generic_end(self.like)}".rstrip() if _AIRPORT_CODE.match(self.like) else name

    def station(self) -> str:
        """Combines a town and the end of the old name."""
        return f"{self.city()} {generic_end(self.like) or 'Station'}"

    def business(self) -> str:
        """Makes the name of a cinema, a restaurant or the like."""
        if self.about == "cinema":
            return f"{self.pick('cinemas')} {generic_end(self.like.rstrip('0123456789 ')) or self.pick('ends_cinema')}"
        if self.about in _ARTS:
            return self.person()  # "Linkin Park" is not a park
        start = self.pick("houses")
        if self.about in ("restaurant", "salon") and self.rng.below(4) == 0:
            owner = self.pick("family")
            start = f"{owner}'" if owner.endswith("s") else f"{owner}'s"
        end = generic_end(self.like)
        if not end or end.rpartition(" ")[2].casefold() in _words["spots"]:
            ends = f"ends_{self.about}"
            end = self.pick(ends if ends in _lists else "ends_house")
        return f"{start} {end}"

    def place(self) -> str:
        """Makes the name of a sight or an event's venue: a park stays a park."""
        end = generic_end(self.like) or self.pick(f"ends_{_PLACES.get(self.about, 'place')}")
        return f"{self.city() if self.rng.below(2) else self.pick('family')} {end}"

    def title(self) -> str:
        """Makes the title of a movie, song, album, concert or match."""
        if match := _MATCH.search(self.like):
            return match[0].join(self._teams(self.like[: match.start()], self.like[match.end() :]))
        if self.about == "event":
            if end := generic_end(self.like):
                return f"{self.city()} {end}"
            self.about, self.like = "artist", ""
            return self.person()
        lines = {"song": "song_lines", "music": "song_lines", "album": "album_lines"}.get(self.about, "movie_lines")
        if self.rng.below(4) == 0:
            return f"{self.pick('bands_adjectives')} {self.pick('bands_nouns')}"
        return self._filled(self.pick(lines))

    def _teams(self, *like: str) -> list[str]:
        """Draws teams, or teams of towns, as in the old title."""
        towns, teams = self._two(_CITIES[self.country]), self._two(_lists["teams"])
        if not any(" " in side for side in like):
            return teams
        return [f"{town} {team}" for town, team in zip(towns, teams, strict=True)]

    def _two(self, choices: Sequence[str]) -> list[str]:
        """Draws two different entries."""
        first = self.rng.below(len(choices))
        return [choices[first], choices[(first + 1 + self.rng.below(len(choices) - 1)) % len(choices)]]

    def task(self) -> str:
        """Makes the text of a reminder."""
        return self._filled(self.pick("tasks"))

    def _filled(self, line: str) -> str:
        if "{" not in line:
            return line
        return line.format(city=self.city(), first=self.pick("first"), family=self.pick("family"))

    def car(self) -> str:
        """Draws a model, with its make if the old name has two words."""
        make_and_model = self.pick("cars")
        return make_and_model if " " in self.like or not self.like else make_and_model.partition(" ")[2]


def has_article(text: str) -> bool:
    """Whether a name begins with an article: "The Beatles", "A Star Is Born"."""
    return text.partition(" ")[0].casefold() in ("the", "a", "an")


def in_case_of(text: str, like: str) -> str:
    """Adapts the case of a text to another; three or four capital letters count as an abbreviation ("SFO")."""
    if like.islower():
        return text.lower()
    return text.upper() if like == like.upper() and sum(map(str.isalpha, like)) > 4 else text


def made_up_name(kind: str, like: str, number: int, about: str = "", country: str = US) -> str:
    """Makes a name of a kind.

    Args:
      kind: one of ``kinds.NAMES``.
      like: the value to replace: a single name stays single, a park a park.
      number: a 64-bit hash.
      about: the subject, see :func:`subject`.
      country: the country of towns, streets and airports.
    """
    return _MAKERS[kind](Namer(number, like, about, country))


_MAKERS: dict[str, Callable[[Namer], str]] = {
    "address": Namer.street_address,
    "airport": Namer.airport,
    "business": Namer.business,
    "car": Namer.car,
    "city": Namer.city,
    "cuisine": lambda namer: namer.pick("eateries" if namer.like.casefold() in HOUSES else "cuisines"),
    "genre": lambda namer: namer.pick("genres"),
    "music": lambda namer: namer.pick("music"),
    "person": Namer.person,
    "place": Namer.place,
    "station": Namer.station,
    "task": Namer.task,
    "title": Namer.title,
}


@lru_cache(10_000)
def generic_end(name: str) -> str:
    """Returns the generic words at the end of a name: "Kitchen & Bar"; empty if the whole name is generic."""
    tokens = name.split()
    start = len(tokens)
    while start > 0 and _is_generic(tokens[start - 1]):
        start -= 1
    while start < len(tokens) and tokens[start].casefold() in _LINKS:
        start += 1
    return " ".join(tokens[start:]) if start else ""


_LINKS = frozenset({"&", "and", "of", "at", "in", "the"})


def _is_generic(word: str) -> bool:
    return word == "&" or word.casefold() in GENERIC


def short_form(like: str, canonical: str, name: str) -> str:
    """Shortens or extend a new name like the old one: "Beatles" without the article, "Fresno, CA" with the state.

    Args:
      like: the old value as written here.
      canonical: its canonical form.
      name: the new canonical form.
    """
    if _STATE.search(like) and name in _STATES:
        return f"{name}, {_STATES[name]}"
    if has_article(canonical) and has_article(name) and not has_article(like):
        return name.partition(" ")[2]
    return name


def country_of(numbers: Sequence[str]) -> str:
    """Returns ``gb`` if most phone numbers and postcodes of a corpus are British, else ``us``."""
    british = sum(text.startswith(("0", "+44", "(0")) or any(map(str.isalpha, text)) for text in numbers)
    return GB if 2 * british > len(numbers) else US
