"""The ontology of a simulated domain, read from TOML: fields with values, and the structure of dialogues."""

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

MAX_ENTITIES = 1_000_000  # of a half; the knowledge base is kept in memory
RESERVED = ("name", "rating", "intent", "count")
_FORBIDDEN = "_<>{}|"  # the underscore separates the parts of an entity's name


class Field(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A field of an API call.

    Attributes:
      name: of the field; ``R_NAME`` is its relation in the knowledge base.
      seen: values of train, dev and test.
      unseen: values of the out-of-vocabulary test.
      values: values of both, instead of these two.
      one_each: each entity has one random value, instead of an entity for each value.
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
      domain: the kind of entity, such as ``restaurant``.
      entity: prefix of the names of entities.
      fields: in the order in which the bot asks, which is that of ``api_call``.
      ratings: the highest rating; the lowest is 1.
      extras: properties of an entity that users may ask for.
      patterns: of the utterances.
      structure: the random choices in dialogues.
      name: the fields in the name of an entity, in order; by default all that are not ``one_each``.
      default_patterns: whether acts without patterns got the default ones; if not, some tasks cannot be simulated.
    """

    domain: str
    entity: str
    fields: tuple[Field, ...]
    ratings: int
    extras: tuple[str, ...]
    patterns: Patterns
    structure: Structure
    name: tuple[str, ...] = ()
    default_patterns: bool = True

    @property
    def crossed(self) -> tuple[Field, ...]:
        """The fields of which there is an entity for each combination of values, in the order of its name."""
        of_name = {field.name: field for field in self.fields}
        return tuple(of_name[name] for name in self.name)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the fields."""
        return tuple(field.name for field in self.fields)


class _Given(msgspec.Struct, forbid_unknown_fields=True):
    """The content of the file."""

    domain: str
    entity: str
    fields: tuple[Field, ...]
    ratings: int
    extras: tuple[str, ...]
    name: tuple[str, ...] = ()
    default_patterns: bool = True
    patterns: dict[str, Any] = {}
    structure: dict[str, Any] = {}


def default_ontology() -> Ontology:
    """The restaurants of the paper, with other names."""
    folder = resources.files("parapet.transforms.restaurants")
    content = tomllib.loads((folder / "ontology.toml").read_text(encoding="utf-8"))
    patterns = tomllib.loads((folder / "patterns.toml").read_text(encoding="utf-8"))
    return parse_ontology({**content, "patterns": patterns}, "ontology.toml")


def read_ontology(data: bytes, path: object, *, simulated: bool = True) -> Ontology:
    """Parses a file.

    Args:
      data: its bytes.
      path: its path, for messages.
      simulated: whether dialogues are simulated from it; else its values are not checked.

    Raises:
      InputError: no TOML, an unknown key, too few values, repeated values, or a value with a space; with the place.
    """
    try:
        content = tomllib.loads(data.removeprefix(b"\xef\xbb\xbf").decode("utf-8"))
    except UnicodeDecodeError:
        raise InputError("not UTF-8: save the file as UTF-8", path) from None
    except RecursionError:
        raise InputError("TOML nested too deeply", path) from None
    except ValueError as error:
        raise InputError(f"not TOML: {error}", path) from None
    return parse_ontology(content, path, simulated=simulated)


def parse_ontology(given: Mapping[str, Any], path: object, *, simulated: bool = True) -> Ontology:
    """Validates an ontology, for simulation or for the rule-based bot alone. Raises InputError with the place."""
    _check_keys(given, path)
    try:
        content = msgspec.convert(given, _Given)
    except msgspec.ValidationError as error:
        reason, at = reason_and_place(error)
        raise InputError(reason, path, at) from None
    for place, reason in _problems(content) if simulated else _name_problems(content):
        raise InputError(reason, path, place)
    fields = [field.name for field in content.fields]
    defaults = content.default_patterns
    patterns = patterns_for(
        content.domain, fields, content.extras, content.patterns, path, defaults=defaults, simulated=simulated
    )
    structure = structure_for(len(fields), content.structure, path)
    names = content.name or tuple(field.name for field in content.fields if not field.one_each)
    return Ontology(
        domain=content.domain,
        entity=content.entity,
        fields=content.fields,
        ratings=content.ratings,
        extras=content.extras,
        patterns=patterns,
        structure=structure,
        name=names,
        default_patterns=defaults,
    )


def _check_keys(given: Mapping[str, Any], path: object) -> None:
    """Raises InputError for an unknown key, with the nearest known one."""
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
    """(place, reason) of each problem; places as ``fields[0].seen[2]``."""
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
    if not given.extras:
        yield "extras", 'there is none: give one or more, such as ["phone", "address"]'
    for i, field in enumerate(given.fields):
        yield from _value_problems(f"fields[{i}]", field)
    yield from _twins(given)
    if not any(field.unseen for field in given.fields):
        yield "fields", "no field has unseen values: the out-of-vocabulary test needs one with seen and unseen"
    for unseen in (False, True):
        crossed = [len(field.of_half(unseen)) for field in given.fields if not field.one_each]
        if (entities := math.prod(crossed) * given.ratings) > MAX_ENTITIES:
            yield "fields", f"{entities:,} entities: at most {MAX_ENTITIES:,} are supported, give fewer values"


def _name_problems(given: _Given) -> Iterator[tuple[str, str]]:
    if not given.fields:
        yield "fields", "there is none: give one or more as [[fields]]"
    names = [(f"fields[{i}].name", field.name) for i, field in enumerate(given.fields)]
    names += [(f"extras[{i}]", name) for i, name in enumerate(given.extras)]
    seen: set[str] = set()
    for place, name in names:
        if not name.isidentifier() or not name.isascii():
            yield place, f"{name!r}: a name has letters, digits and _, and no digit first"
        if name in RESERVED:
            yield place, f"{name!r} has a meaning of its own: choose another name"
        if name in seen:
            yield place, f"{name!r} stands twice"
        seen.add(name)
    crossed = [field.name for field in given.fields if not field.one_each]
    if not crossed:
        yield "fields", "all fields are one_each: at least one must not be"
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
    """Equal values, in one field or two: they would be ambiguous."""
    first: dict[str, str] = {}
    for i, field in enumerate(given.fields):
        for key in ("values", "seen", "unseen"):
            for j, value in enumerate(getattr(field, key)):
                place = f"fields[{i}].{key}[{j}]"
                if value in first:
                    yield place, f"{value!r} stands twice: see {first[value]}"
                first[value] = place


def _bad_word(word: str) -> str:
    """Why a text cannot be a word of the published format; empty where it can."""
    if not word:
        return "is empty"
    if word.split() != [word] or not word.isprintable():
        return f"{word!r} has a space, a tab or a control character: write port-alder for Port Alder"
    if wrong := sorted(set(word) & set(_FORBIDDEN)):
        return f"{word!r} has {' '.join(wrong)}: write port-alder for port_alder"
    return ""


Range = tuple[int, int]  # minimum and maximum; the numbers are uniformly distributed


class Given(msgspec.Struct, frozen=True):
    """Number of fields in the first request, by task."""

    task1: Range
    task2: Range
    task3: Range
    task5: Range


class Updates(msgspec.Struct, frozen=True):
    """Number of updated fields, by task."""

    task2: Range
    task5: Range


class Structure(msgspec.Struct, frozen=True):
    """The random choices in dialogues. The defaults are those of the paper, or of its files where it has none.

    Attributes:
      given: fields in the first request.
      updates: fields updated.
      options: (number of entities to choose from, share of the dialogues of task 3); where empty, a request of task 3
        is any with enough results.
      accepted: share of the proposals that the user accepts; the last one is always accepted.
      all_extras: share of the dialogues of tasks 4 and 5 in which the user asks about all extras, not just one.
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
    """The table ``structure`` of a file."""

    given: Given
    updates: Updates
    options: dict[str, float]
    accepted: float
    all_extras: float


def structure_for(fields: int, table: Mapping[str, Any], path: object) -> Structure:
    """The structure of a domain; defaults are as published.

    Args:
      fields: number of fields of the domain.
      table: ``structure`` of an ontology.
      path: the ontology's file, for messages.

    Raises:
      InputError: an unknown key, or a range or share that is out of bounds; with the place.
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
    """Section 3.1.1 of the paper; for tasks 2 and 5 the published files, which have less than the paper says.

    The figures of the files are counts of 1,000 dialogues a task. Those for the four fields of the paper are carried
    over to any number of fields.
    """
    some = max(1, fields - 1)
    return {
        "given": {"task1": [0, fields], "task2": [fields, fields], "task3": [0, fields], "task5": [1, some]},
        "updates": {"task2": [1, fields], "task5": [1, some]},
        "options": {},
        "accepted": 0.25,
        "all_extras": 0.5,
    }


def _structure_problems(parsed: _File, fields: int) -> Iterator[tuple[str, str]]:
    """(place, reason) of each problem."""
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
