"""The ontology of a simulated domain: its fields with their values, and how its dialogues are drawn; read from TOML."""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any, NoReturn

import msgspec

from parapet.schemas.errors import InputError, reason_and_place
from parapet.transforms.restaurants.patterns import Patterns, merged, patterns_for

MAX_ENTITIES = 1_000_000  # of a half: the knowledge base is held in memory
RESERVED = ("name", "rating", "intent", "count")
_FORBIDDEN = "_<>{}|"  # an underscore parts the pieces of an entity's name


class Field(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A field of an API call.

    Attributes:
      name: of the field; ``R_`` and the name is its relation in the knowledge base.
      seen: values of training, dev and test.
      unseen: those of the out-of-vocabulary test.
      values: instead of these two: values of both.
      one_each: each entity has one of the values, drawn, instead of there being entities for all of them.
    """

    name: str
    seen: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    one_each: bool = False

    @property
    def shared(self) -> bool:
        """Whether both halves have the same values."""
        return bool(self.values)

    def of_half(self, unseen: bool) -> tuple[str, ...]:
        """The values of one half."""
        return self.values or (self.unseen if unseen else self.seen)


class Ontology(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A domain.

    Attributes:
      domain: what is booked, such as ``restaurant``.
      entity: what names of entities begin with.
      fields: in the order in which the bot asks, which is that of ``api_call``.
      ratings: entities are rated 1 to this.
      extras: what a user may ask about an entity.
      name: the fields in an entity's name, in order; by default all but those of ``one_each``.
      patterns: what is said.
      structure: how dialogues are drawn.
    """

    domain: str
    entity: str
    fields: tuple[Field, ...]
    ratings: int
    extras: tuple[str, ...]
    patterns: Patterns
    structure: Structure
    name: tuple[str, ...] = ()

    @property
    def crossed(self) -> tuple[Field, ...]:
        """The fields of whose values all combinations are there, in the order of an entity's name."""
        of_name = {field.name: field for field in self.fields}
        return tuple(of_name[name] for name in self.name)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the fields."""
        return tuple(field.name for field in self.fields)


class _Given(msgspec.Struct, forbid_unknown_fields=True):
    """The file as it stands."""

    domain: str
    entity: str
    fields: tuple[Field, ...]
    ratings: int
    extras: tuple[str, ...]
    name: tuple[str, ...] = ()
    patterns: dict[str, Any] = {}
    structure: dict[str, Any] = {}


def default_ontology() -> Ontology:
    """The restaurants of the paper under names of our own."""
    folder = resources.files("parapet.transforms.restaurants")
    given = tomllib.loads((folder / "ontology.toml").read_text(encoding="utf-8"))
    patterns = tomllib.loads((folder / "patterns.toml").read_text(encoding="utf-8"))
    return parse_ontology({**given, "patterns": patterns}, "ontology.toml")


def read_ontology(data: bytes, path: object) -> Ontology:
    """An ontology of a user's.

    Raises:
      InputError: no TOML, an unknown key, too few values, two equal ones, one with a space; with file and place.
    """
    try:
        given = tomllib.loads(data.removeprefix(b"\xef\xbb\xbf").decode("utf-8"))
    except UnicodeDecodeError:
        raise InputError("not UTF-8: save the file as UTF-8", path) from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"not TOML: {error}", path) from None
    except RecursionError:
        raise InputError("TOML nested too deeply", path) from None
    return parse_ontology(given, path)


def parse_ontology(given: Mapping[str, Any], path: object) -> Ontology:
    """Types and checks an ontology. Raises InputError with the place."""
    _check_keys(given, path)
    try:
        found = msgspec.convert(given, _Given)
    except msgspec.ValidationError as error:
        reason, at = reason_and_place(error)
        raise InputError(reason, path, at) from None
    for place, reason in _problems(found):
        raise InputError(reason, path, place)
    fields = [field.name for field in found.fields]
    patterns = patterns_for(found.domain, fields, found.extras, found.patterns, path)
    structure = structure_for(len(fields), found.structure, path)
    names = found.name or tuple(field.name for field in found.fields if not field.one_each)
    return Ontology(found.domain, found.entity, found.fields, found.ratings, found.extras, patterns, structure, names)


def _check_keys(given: Mapping[str, Any], path: object) -> None:
    """An unknown key is told with the nearest there is."""
    fields = given.get("fields")
    parts: list[tuple[str, Any, type[msgspec.Struct]]] = [("", given, _Given)]
    parts += [(f"fields[{i}].", one, Field) for i, one in enumerate(fields if isinstance(fields, list) else [])]
    for place, part, kind in parts:
        known = kind.__struct_fields__
        for key in part if isinstance(part, dict) else ():
            if key not in known:
                _unknown(key, known, path, place + key)


def _unknown(key: str, known: Sequence[str], path: object, where: str) -> NoReturn:
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
    raise InputError(
        f"unknown key: {f'did you mean {near[0]}?' if near else 'there are ' + ', '.join(known)}", path, where
    )


def _problems(given: _Given) -> Iterator[tuple[str, str]]:
    """(place, reason) of what does not hold; places as ``fields[0].seen[2]``."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]{0,49}", given.domain):
        yield (
            "domain",
            f"{given.domain!r}: give one word of letters a to z, such as hotel; the service is named after it",
        )
    if reason := _bad_word(given.entity):
        yield "entity", reason
    if not 2 <= given.ratings <= 1000:
        yield "ratings", f"{given.ratings} ratings: give 2 to 1,000, such as 8"
    yield from _name_problems(given)
    for i, field in enumerate(given.fields):
        yield from _value_problems(f"fields[{i}]", field)
    yield from _twins(given)
    if not any(field.unseen for field in given.fields):
        yield "fields", "no field has unseen values: the out-of-vocabulary test needs one with seen and unseen"
    for unseen in (False, True):
        crossed = [len(field.of_half(unseen)) for field in given.fields if not field.one_each]
        if (entities := math.prod(crossed) * given.ratings) > MAX_ENTITIES:
            yield "fields", f"{entities:,} entities: at most {MAX_ENTITIES:,} are possible, give fewer values"


def _name_problems(given: _Given) -> Iterator[tuple[str, str]]:
    if not given.fields:
        yield "fields", "there is none: give one or more as [[fields]]"
    if not given.extras:
        yield "extras", 'there is none: give one or more, such as ["phone", "address"]'
    names = [(f"fields[{i}].name", field.name) for i, field in enumerate(given.fields)]
    names += [(f"extras[{i}]", name) for i, name in enumerate(given.extras)]
    known: set[str] = set()
    for place, name in names:
        if not name.isidentifier() or not name.isascii():
            yield place, f"{name!r}: a name has letters, digits and _, and no digit first"
        if name in RESERVED:
            yield place, f"{name!r} has a meaning of its own: choose another name"
        if name in known:
            yield place, f"{name!r} stands twice"
        known.add(name)
    crossed = [field.name for field in given.fields if not field.one_each]
    if not crossed:
        yield "fields", "all are one_each: at least one must not be"
    if given.name and sorted(given.name) != sorted(crossed):
        yield "name", f"must have the fields without one_each, each once: {', '.join(crossed)}"


def _value_problems(place: str, field: Field) -> Iterator[tuple[str, str]]:
    if field.values and (field.seen or field.unseen):
        yield place, f"{field.name}: give either values, or seen and unseen"
    for key in ("values",) if field.values else ("seen", "unseen"):
        values = getattr(field, key)
        if len(values) < 2:
            yield f"{place}.{key}", f"{field.name}: too few values ({len(values)}): give two or more"
        for i, value in enumerate(values):
            if reason := _bad_word(value):
                yield f"{place}.{key}[{i}]", reason


def _twins(given: _Given) -> Iterator[tuple[str, str]]:
    """Values that are equal, of one field or two: one could not tell what is meant."""
    first: dict[str, str] = {}
    for i, field in enumerate(given.fields):
        for key in ("values", "seen", "unseen"):
            for j, value in enumerate(getattr(field, key)):
                place = f"fields[{i}].{key}[{j}]"
                if value in first:
                    yield place, f"{value!r} stands twice: see {first[value]}"
                first[value] = place


def _bad_word(word: str) -> str:
    """Why a text cannot be one word of the published format; empty where it can."""
    if not word:
        return "is empty"
    if word.split() != [word] or not word.isprintable():
        return f"{word!r} has a space, a tab or a control character: write port-alder for Port Alder"
    if wrong := sorted(set(word) & set(_FORBIDDEN)):
        return f"{word!r} has {' '.join(wrong)}: write port-alder for port_alder"
    return ""


Range = tuple[int, int]  # the least and the most; each number of these and between is as likely


class Given(msgspec.Struct, frozen=True):
    """How many fields the first request names, by task."""

    task1: Range
    task2: Range
    task3: Range
    task5: Range


class Updates(msgspec.Struct, frozen=True):
    """How many fields are updated, by task."""

    task2: Range
    task5: Range


class Structure(msgspec.Struct, frozen=True):
    """How dialogues are drawn.

    Attributes:
      given: fields in the first request.
      updates: fields updated.
      options: (how many entities there are to choose from, share of the dialogues of task 3); without any, a request
        of task 3 is any that finds enough.
      accepted: share of the proposals that the user accepts; the last one always.
      all_extras: share of the dialogues of tasks 4 and 5 in which the user asks about all extras, not about one.
    """

    given: Given
    updates: Updates
    options: tuple[tuple[int, float], ...]
    accepted: float
    all_extras: float

    def given_in(self, task: int) -> Range:
        """Of task 1, 2, 3 or 5."""
        fields: Range = getattr(self.given, f"task{task}")
        return fields

    def updates_in(self, task: int) -> Range:
        """Of task 2 or 5; none in the others."""
        return getattr(self.updates, f"task{task}", (0, 0))


class _File(msgspec.Struct):
    """The table as it stands in a file."""

    given: Given
    updates: Updates
    options: dict[str, float]
    accepted: float
    all_extras: float


def structure_for(fields: int, table: Mapping[str, Any], path: object) -> Structure:
    """The structure that a table says; what it does not say is as published.

    Args:
      fields: how many the domain has.
      table: ``structure`` of an ontology.
      path: the ontology's file, for messages.

    Raises:
      InputError: an unknown key, a range or share that cannot be; with the place.
    """
    whole = merged(_published(fields), {**table, "options": {}}, path, "structure")
    whole["options"] = table.get("options", {})
    try:
        parsed = msgspec.convert(whole, _File)
    except msgspec.ValidationError as error:
        reason, at = reason_and_place(error)
        raise InputError(reason, path, f"structure.{at}" if at else "structure") from None
    for place, reason in _structure_problems(parsed, fields):
        raise InputError(reason, path, f"structure.{place}")
    options = tuple(sorted((int(number), share) for number, share in parsed.options.items()))
    return Structure(parsed.given, parsed.updates, options, parsed.accepted, parsed.all_extras)


def _published(fields: int) -> dict[str, Any]:
    """Section 3.1.1 of the paper; of tasks 2 and 5 what the published files have, which is less than it says."""
    some = max(1, fields - 1)
    return {
        "given": {"task1": [0, fields], "task2": [fields, fields], "task3": [0, fields], "task5": [1, some]},
        "updates": {"task2": [1, fields], "task5": [1, some]},
        "options": {},
        "accepted": 0.25,
        "all_extras": 0.5,
    }


def _structure_problems(parsed: _File, fields: int) -> Iterator[tuple[str, str]]:
    """(place, reason) of what cannot be."""
    for key, ranges, least in (("given", parsed.given, 0), ("updates", parsed.updates, 1)):
        for task, (low, high) in msgspec.structs.asdict(ranges).items():
            if not least <= low <= high <= fields:
                yield f"{key}.{task}", f"[{low}, {high}]: give the least and the most, from {least} to {fields} fields"
    for number, share in parsed.options.items():
        if not re.fullmatch("[1-9][0-9]{0,3}", number) or not 0 < share < math.inf:
            yield f"options.{number}", f"{share:g}: give a number of entities from 1 on and a share above 0: 3 = 0.73"
    for key, share in (("accepted", parsed.accepted), ("all_extras", parsed.all_extras)):
        if not 0 <= share <= 1:
            yield key, f"{share:g} is no share: give 0 to 1"
