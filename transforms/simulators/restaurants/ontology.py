"""The ontology of a simulated domain in TOML: fields with values, sentence patterns, structure of dialogues."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Annotated, Any

import msgspec

from parapet.schemas.errors import InputError
from parapet.transforms.core.inputs import convert, parse_toml, read_table

RESERVED = ("name", "rating", "intent", "count")
_FORBIDDEN = "_<>{}|"  # the underscore separates the parts of an entity's name

# Acts of the user without a field or an extra.
SIMPLE = ("greet", "request", "update", "no_more", "reject", "accept", "thank", "decline")
CALLS = ("call", "call_again")
_NAMED_GAP = ("phrase", "answer", "give")  # kinds of acts whose texts have a gap of the same name

Range = tuple[int, int]  # minimum and maximum of a uniform distribution
Name = Annotated[str, msgspec.Meta(pattern="^[A-Za-z_][A-Za-z0-9_]*$")]


class Field(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A field of an API call.

    Attributes:
      name: the name of the field; ``R_NAME`` is its relation in the knowledge base.
      seen: the values in train, dev and test.
      unseen: the values in the out-of-vocabulary test.
      values: the values in all splits, instead of ``seen`` and ``unseen``.
      one_each: whether each entity has one random value, instead of one entity existing for each value.
    """

    name: Name
    seen: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    one_each: bool = False

    def of_half(self, unseen: bool) -> tuple[str, ...]:
        """Return the values of one half."""
        return self.values or (self.unseen if unseen else self.seen)


class Patterns(msgspec.Struct, frozen=True):
    """The sentence patterns of both sides by act; ``any_domain.toml`` has all acts.

    The user's acts: ``greet`` begins every dialogue; ``request`` asks for an entity and is followed by ``phrase.FIELD``
    or ``phrase.name``; ``answer.FIELD`` answers the bot's question; ``update`` changes a value and is followed by a
    phrase; ``no_more`` ends the updates; ``reject`` asks for another option, ``accept`` accepts one; ``question.EXTRA``
    is about the reserved entity; ``thank`` follows a reservation; ``decline`` declines further help.

    The bot's acts: ``greet`` answers a greeting, ``acknowledge`` a request, ``updated`` an update; ``ask.FIELD`` asks
    for a value; ``search`` announces a search once all fields are known, ``search_again`` a search after updates;
    ``option`` offers an entity, ``another`` answers a rejection, and ``next_option`` then offers the next entity;
    ``reserve`` answers an acceptance, ``reserve_by_name`` a request by name; ``give.EXTRA`` answers a question;
    ``anything_else`` answers thanks for a reservation; ``welcome`` answers thanks for an API call (``farewell`` if it
    is empty); ``farewell`` answers ``decline``.

    Attributes:
      user: act to its wordings.
      bot: act to its text. ``api_call`` with its fields counts as two more acts, the first call and an updated one.
    """

    user: dict[str, tuple[str, ...]] = {}
    bot: dict[str, str] = {}

    def user_ways(self) -> dict[str, tuple[str, ...]]:
        """Return act of the user to its wordings; without acts that have none."""
        return {act: ways for act, ways in self.user.items() if ways}

    def bot_texts(self, fields: Sequence[str]) -> dict[str, str]:
        """Return act of the bot to its text; without acts that have none. Calls have the gaps of the fields."""
        call = " ".join(("api_call", *(f"{{{name}}}" for name in fields)))
        return {act: text for act, text in self.bot.items() if text} | dict.fromkeys(CALLS, call)


class Ontology(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A domain.

    Attributes:
      domain: the kind of entity, such as ``restaurant``, in one word; the service is named after it.
      entity: the prefix of the names of entities.
      fields: the fields in the order in which the bot asks for them, and of ``api_call``.
      ratings: the highest rating; the lowest is 1.
      extras: the properties of an entity that users may ask about.
      patterns: the patterns of utterances.
      options: number of options to share of the dialogues of task 3; if empty, task 3 uses any request with enough
        results.
      name: the fields in the name of an entity, in order; by default all that are not ``one_each``.
    """

    domain: Annotated[str, msgspec.Meta(pattern="^[A-Za-z][A-Za-z0-9-]{0,49}$")]
    entity: str
    fields: Annotated[tuple[Field, ...], msgspec.Meta(min_length=1)]
    ratings: Annotated[int, msgspec.Meta(ge=2, le=1000)]
    extras: Annotated[tuple[Name, ...], msgspec.Meta(min_length=1)]
    name: tuple[str, ...] = ()
    patterns: Patterns = Patterns()
    options: dict[Annotated[str, msgspec.Meta(pattern="^[1-9][0-9]{0,3}$")], Annotated[float, msgspec.Meta(gt=0)]] = {}

    @property
    def crossed(self) -> tuple[Field, ...]:
        """The fields with an entity for each combination of their values, in the order of its name."""
        by_name = {field.name: field for field in self.fields}
        return tuple(by_name[name] for name in self.name)

    @property
    def shares(self) -> list[tuple[int, float]]:
        """(number of options, share of the dialogues of task 3), by number."""
        return sorted((int(number), share) for number, share in self.options.items())

    def given_in(self, task: int) -> Range:
        """Return how many fields the first request of task 1, 2, 3 or 5 gives.

        As in section 3.1.1 of the paper, but tasks 2 and 5 as in the published files, whose numbers are lower;
        generalised from four fields to any number.
        """
        n = len(self.fields)
        return {2: (n, n), 5: (1, max(1, n - 1))}.get(task, (0, n))

    def updates_in(self, task: int) -> Range:
        """Return how many fields are updated in task 2 or 5, like :meth:`given_in`."""
        n = len(self.fields)
        return (1, n) if task == 2 else (1, max(1, n - 1))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields."""
        return tuple(field.name for field in self.fields)


def default_ontology() -> Ontology:
    """Return the restaurants of the paper, with other names."""
    patterns = read_table(__package__, "patterns.toml")
    return parse_ontology({**read_table(__package__, "ontology.toml"), "patterns": patterns}, "ontology.toml")


def babi_ontology() -> bytes:
    """Return the restaurants and sentences of the published tasks, as an ontology file."""
    return (resources.files(__package__) / "babi.toml").read_bytes()


def read_ontology(data: bytes, path: object) -> Ontology:
    """Parse an ontology file.

    Args:
      data: the content of the file.
      path: the path of the file, for messages.

    Raises:
      InputError: invalid TOML, an unknown key, too few values, repeated values, or a value with a space; with the
        place.
    """
    return parse_ontology(parse_toml(data, path), path)


def parse_ontology(given: Mapping[str, Any], path: object) -> Ontology:
    """Validate an ontology. Raises InputError with the place."""
    domain = {key: value for key, value in given.items() if key != "patterns"}
    content: Ontology = convert(domain, Ontology, path)
    for place, reason in _problems(content):
        raise InputError(reason, path, place)
    return msgspec.structs.replace(
        content,
        name=content.name or tuple(field.name for field in content.fields if not field.one_each),
        patterns=_patterns(content, given.get("patterns", {}), path),
    )


def _problems(given: Ontology) -> Iterator[tuple[str, str]]:
    """Yield (place, reason) for each problem, with places such as ``fields[0].seen[2]``."""
    if reason := _bad_word(given.entity):
        yield "entity", reason
    yield from _name_problems(given)
    for i, field in enumerate(given.fields):
        yield from _value_problems(f"fields[{i}]", field)
    yield from _twins(given)
    if not any(field.unseen for field in given.fields):
        yield "fields", "no field has unseen values: the out-of-vocabulary test needs one with seen and unseen"


def _name_problems(given: Ontology) -> Iterator[tuple[str, str]]:
    names = [(f"fields[{i}].name", field.name) for i, field in enumerate(given.fields)]
    names += [(f"extras[{i}]", name) for i, name in enumerate(given.extras)]
    seen: set[str] = set()
    for place, name in names:
        if name in RESERVED:
            yield place, f"{name!r} is reserved: choose another name"
        if name in seen:
            yield place, f"{name!r} appears twice"
        seen.add(name)
    crossed = [field.name for field in given.fields if not field.one_each]
    if not crossed:
        yield "fields", "all fields are one_each, but at least one must not be"
    if given.name and sorted(given.name) != sorted(crossed):
        yield "name", f"must contain each field without one_each once: {', '.join(crossed)}"


def _value_problems(place: str, field: Field) -> Iterator[tuple[str, str]]:
    if field.values and (field.seen or field.unseen):
        yield place, f"{field.name}: must have either values, or seen and unseen"
    for key in ("values",) if field.values else ("seen", "unseen"):
        values = getattr(field, key)
        if len(values) < 2:
            yield f"{place}.{key}", f"{field.name}: has {len(values)} values, but needs at least two"
        for i, value in enumerate(values):
            if reason := _bad_word(value):
                yield f"{place}.{key}[{i}]", reason


def _twins(given: Ontology) -> Iterator[tuple[str, str]]:
    """Yield repeated values, in one field or two, because they are ambiguous."""
    first: dict[str, str] = {}
    for i, field in enumerate(given.fields):
        for key in ("values", "seen", "unseen"):
            for j, value in enumerate(getattr(field, key)):
                place = f"fields[{i}].{key}[{j}]"
                if value in first:
                    yield place, f"{value!r} appears twice: see {first[value]}"
                first[value] = place


def _bad_word(word: str) -> str:
    """Explain why a text cannot be a word of the published format; empty if it can."""
    if not word:
        return "must not be empty"
    if word.split() != [word] or not word.isprintable():
        return f"{word!r} contains a space, a tab or a control character: write for example port-alder for Port Alder"
    if wrong := sorted(set(word) & set(_FORBIDDEN)):
        return f"{word!r} contains {' '.join(wrong)}: write for example port-alder for port_alder"
    return ""


def _patterns(content: Ontology, given: Any, path: object) -> Patterns:
    """Return the patterns of an ontology; defaults are filled with its words.

    Args:
      content: the domain.
      given: the table ``patterns`` of the ontology.
      path: the path of the ontology for messages.

    Raises:
      InputError: an unknown key, a missing or unknown gap, a text that could be two acts; with the place.
    """
    default = _default_patterns(content)
    sides: dict[str, dict[str, Any]] = {"user": {}, "bot": {}}
    for side, acts in merged(default, given, path, "patterns").items():
        for act, value in acts.items():
            named = isinstance(default[side][act], dict)
            for name, texts in value.items() if named else [("", value)]:
                key = f"{act}.{name}" if named else act
                kind = tuple[str, ...] if side == "user" else str
                sides[side][key] = convert(texts, kind, path, f"patterns.{side}.{key}")
    patterns = Patterns(**sides)
    for place, reason in _pattern_problems(patterns):
        raise InputError(reason, path, f"patterns.{place}")
    return patterns


def _default_patterns(content: Ontology) -> dict[str, dict[str, Any]]:
    """Fill the patterns for any domain with the words of this one."""

    def filled(value: Any, key: str, name: str) -> Any:
        if isinstance(value, list):
            return [filled(text, key, name) for text in value]
        # A gap has the name itself; a text has the name with spaces.
        words = name if key == "DOMAIN" else name.replace("_", " ")
        return value.replace(f"{{{key}}}", f"{{{name}}}").replace(key, words)

    names = {"FIELD": content.names, "EXTRA": content.extras}
    tables: dict[str, dict[str, Any]] = {}
    for side, acts in read_table(__package__, "any_domain.toml").items():
        tables[side] = {
            act: {name: filled(value, key, name) for key, value in texts.items() for name in names.get(key, (key,))}
            if isinstance(texts, dict)
            else filled(texts, "DOMAIN", content.domain)
            for act, texts in acts.items()
        }
    return tables


def merged(default: Mapping[str, Any], given: Any, path: object, place: str) -> dict[str, Any]:
    """Return a table with defaults, nested ones included. Raises InputError with the place."""
    if not isinstance(given, dict):
        raise InputError("expected a table", path, place)
    table = dict(default)
    for key, value in given.items():
        if key not in default:
            raise InputError(f"unknown key: must be one of {', '.join(default)}", path, f"{place}.{key}")
        nested = isinstance(default[key], dict)
        table[key] = merged(default[key], value, path, f"{place}.{key}") if nested else value
    return table


def _pattern_problems(patterns: Patterns) -> Iterator[tuple[str, str]]:
    """Yield (act, reason) for each problem. Ambiguous texts are found later, by the bot that solves the dialogues."""
    for side, acts in (("user", patterns.user), ("bot", {act: (text,) for act, text in patterns.bot.items()})):
        for act, texts in acts.items():
            kind, _, name = act.partition(".")
            gap = {"option": "name", "next_option": "name"}.get(kind, name if kind in _NAMED_GAP else "")
            if not any(texts) and act != "welcome":
                yield f"{side}.{act}", "must have at least one entry"
            for text in filter(None, texts):
                if text != " ".join(text.split()) or not text.isprintable():
                    yield f"{side}.{act}", f"{text!r} must be a single line, with single spaces and no tabs"
                has_gap = bool(gap)
                if text.count(f"{{{gap}}}") != has_gap or text.count("{") + text.count("}") != 2 * has_gap:
                    wanted = f"{{{gap}}}, once" if gap else "no {gap}"
                    yield f"{side}.{act}", f"{text!r} must have {wanted}"
