"""The domain of a simulation, and dialogues of tasks 1 to 5 in it (Bordes et al. 2017, sections 3.1 to 3.3).

1, issuing API calls: a request gives some of the fields, the bot asks for the others in order and makes the call.

2, updating API calls: after the call, fields are updated in random order, the bot makes another call, the user thanks.

3, displaying options: the results of a request come before the dialogue; the bot offers them by rating, the best one
first, until the user accepts: each with a probability of 25 %, the last one always.

4, providing extra information: a reservation by name, then questions about phone (25 %), address (25 %) or both.

5, conducting full dialogues: all of these; the user thanks, and declines further help.

The domain has the numbers of given and updated fields and of results. Requests of task 5 have as
many results as those of task 3: the paper's text says one or more, but its Table 1 has 24 lines of results.

The knowledge base has two halves, which share no value of a field with seen and unseen values, and therefore no entity
and no property of an entity. In the seen half every request, that is, every combination of values, belongs to one
split: half of them to train, a quarter each to dev and test; this also holds among the requests with one result, with
two, and so on. So no two splits share a request or an entity, which belongs to the request that finds it, and each
dialogue can be simulated independently.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Annotated, Any

import msgspec

from parapet.schemas.errors import InputError
from parapet.transforms.core.inputs import convert, parse_toml, read_table
from parapet.transforms.core.seeding import StratifiedRng, stable_hash
from parapet.transforms.perturb.edits import Edit, edited, moved
from parapet.transforms.simulators.formats import SILENCE, Exchange, Fact, Sentence, filled, joined

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
        """Returns the values of one half."""
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
        """Returns act of the user to its wordings; without acts that have none."""
        return {act: ways for act, ways in self.user.items() if ways}

    def bot_texts(self, fields: Sequence[str]) -> dict[str, str]:
        """Returns act of the bot to its text; without acts that have none. Calls have the gaps of the fields."""
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
        """Returns how many fields the first request of task 1, 2, 3 or 5 gives.

        As in section 3.1.1 of the paper, but tasks 2 and 5 as in the published files, whose numbers are lower;
        generalised from four fields to any number.
        """
        n = len(self.fields)
        return {2: (n, n), 5: (1, max(1, n - 1))}.get(task, (0, n))

    def updates_in(self, task: int) -> Range:
        """Returns how many fields are updated in task 2 or 5, like :meth:`given_in`."""
        n = len(self.fields)
        return (1, n) if task == 2 else (1, max(1, n - 1))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields."""
        return tuple(field.name for field in self.fields)


def default_ontology() -> Ontology:
    """Returns the restaurants of the paper, with other names."""
    patterns = read_table(__package__, "patterns.toml")
    return parse_ontology({**read_table(__package__, "ontology.toml"), "patterns": patterns}, "ontology.toml")


def babi_ontology() -> bytes:
    """Returns the restaurants and sentences of the published tasks, as an ontology file."""
    return (resources.files(__package__) / "babi.toml").read_bytes()


def read_ontology(data: bytes, path: object) -> Ontology:
    """Parses an ontology file.

    Args:
      data: the content of the file.
      path: the path of the file, for messages.

    Raises:
      InputError: invalid TOML, an unknown key, too few values, repeated values, or a value with a space; with the
        place.
    """
    return parse_ontology(parse_toml(data, path), path)


def parse_ontology(given: Mapping[str, Any], path: object) -> Ontology:
    """Validates an ontology. Raises InputError with the place."""
    content: Ontology = convert({key: value for key, value in given.items() if key != "patterns"}, Ontology, path)
    for place, reason in _problems(content):
        raise InputError(reason, path, place)
    return msgspec.structs.replace(
        content,
        name=content.name or tuple(field.name for field in content.fields if not field.one_each),
        patterns=_patterns(content, given.get("patterns", {}), path),
    )


def _problems(given: Ontology) -> Iterator[tuple[str, str]]:
    """Yields (place, reason) for each problem, with places such as ``fields[0].seen[2]``."""
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
    if not (crossed := [field.name for field in given.fields if not field.one_each]):
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
    """Yields repeated values, in one field or two, because they are ambiguous."""
    first: dict[str, str] = {}
    for i, field in enumerate(given.fields):
        for key in ("values", "seen", "unseen"):
            for j, value in enumerate(getattr(field, key)):
                place = f"fields[{i}].{key}[{j}]"
                if value in first:
                    yield place, f"{value!r} appears twice: see {first[value]}"
                first[value] = place


def _bad_word(word: str) -> str:
    """Explains why a text cannot be a word of the published format; empty if it can."""
    if not word:
        return "must not be empty"
    if word.split() != [word] or not word.isprintable():
        return f"{word!r} contains a space, a tab or a control character: write for example port-alder for Port Alder"
    if wrong := sorted(set(word) & set(_FORBIDDEN)):
        return f"{word!r} contains {' '.join(wrong)}: write for example port-alder for port_alder"
    return ""


def _patterns(content: Ontology, given: Any, path: object) -> Patterns:
    """Returns the patterns of an ontology; defaults are filled with its words.

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
    """Fills the patterns for any domain with the words of this one."""

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
    """Returns a table with defaults, nested ones included. Raises InputError with the place."""
    if not isinstance(given, dict):
        raise InputError("expected a table", path, place)
    table = dict(default)
    for key, value in given.items():
        if key not in default:
            raise InputError(f"unknown key: must be one of {', '.join(default)}", path, f"{place}.{key}")
        table[key] = merged(default[key], value, path, f"{place}.{key}") if isinstance(default[key], dict) else value
    return table


def _pattern_problems(patterns: Patterns) -> Iterator[tuple[str, str]]:
    """Yields (act, reason) for each problem. Ambiguous texts are found later, by the bot that solves the dialogues."""
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


SPLITS = ("train", "dev", "test", "oov")
LEAST_RESULTS = 3  # of a request in tasks 3 and 5, whose entities are offered
_DEALT = ("train", "test", "train", "dev")  # requests are assigned to these in turn

Request = tuple[str, ...]  # a value for each field, in order


class Entity(msgspec.Struct, frozen=True):
    """An entity that can be reserved: its name, values in the order of the fields, and rating."""

    name: str
    request: Request
    rating: int


class Part(msgspec.Struct, frozen=True):
    """The subjects of the dialogues of a split.

    Attributes:
      requests: all requests.
      rich: the requests with enough results to choose from.
      options: for task 3, (rich requests with a certain number of results, their share); may be empty.
      entities: the results of all requests.
    """

    requests: list[Request]
    rich: list[Request]
    options: list[tuple[list[Request], float]]
    entities: list[Entity]


class World:
    """A domain with its knowledge base.

    Args:
      ontology: the domain.
      seed: the seed of random choices.

    Attributes:
      names: the names of the fields.
      user_ways: act of the user to its wordings.
      bot_texts: act of the bot to its text.
      halves: the entities seen in training, and the unseen ones.
      found: request to its results.
      parts: split to the subjects of its dialogues.
    """

    def __init__(self, ontology: Ontology, seed: str) -> None:
        self.ontology, self.seed = ontology, seed
        self.names = ontology.names
        self.user_ways = ontology.patterns.user_ways()
        self.bot_texts = ontology.patterns.bot_texts(ontology.names)
        self.halves = [list(self._entities(unseen)) for unseen in (False, True)]
        self.found: dict[Request, list[Entity]] = {}
        for entity in itertools.chain(*self.halves):
            self.found.setdefault(entity.request, []).append(entity)
        seen, unseen = (self._requests(unseen) for unseen in (False, True))
        seen.sort(
            key=lambda request: (-len(self.found.get(request, ())), stable_hash(seed, "request", *request), request)
        )
        cut: dict[str, list[Request]] = {split: [] for split in SPLITS[:-1]}
        for i, request in enumerate(seen):
            cut[_DEALT[i % len(_DEALT)]].append(request)
        cut["oov"] = unseen
        self.parts = {split: self._part(requests) for split, requests in cut.items()}
        self.of_request = {request: split for split, requests in cut.items() for request in requests}

    def facts(self, entity: Entity) -> dict[str, str]:
        """Returns the facts about an entity by name: extras, fields and rating."""
        values = dict(zip(self.names, entity.request, strict=True))
        extras = {extra: f"{entity.name}_{extra}" for extra in self.ontology.extras}
        return {**values, "rating": str(entity.rating), **extras}

    def _entities(self, unseen: bool) -> Iterator[Entity]:
        ontology = self.ontology
        drawn = {field.name: field.of_half(unseen) for field in ontology.fields if field.one_each}
        for values in itertools.product(*(field.of_half(unseen) for field in ontology.crossed)):
            of_field = dict(zip(ontology.name, values, strict=True))
            for rating in range(1, ontology.ratings + 1):
                name = f"{ontology.entity}_{'_'.join(values)}_{rating}stars"
                for field, choice in drawn.items():
                    of_field[field] = choice[stable_hash(self.seed, "kb", name, field) % len(choice)]
                yield Entity(name, tuple(of_field[field] for field in self.names), rating)

    def _requests(self, unseen: bool) -> list[Request]:
        return list(itertools.product(*(field.of_half(unseen) for field in self.ontology.fields)))

    def _part(self, requests: list[Request]) -> Part:
        rich = [request for request in requests if len(self.found.get(request, ())) >= LEAST_RESULTS]
        options = []
        for number, share in self.ontology.shares:
            if those := [request for request in rich if len(self.found[request]) == number]:
                options.append((those, share))
        return Part(requests, rich, options, [entity for request in requests for entity in self.found.get(request, ())])


def check_world(world: World, tasks: Sequence[int], splits: Sequence[str], path: object) -> None:
    """Raises InputError if a split has too few requests or entities."""
    hint = "give the fields more values, or more ratings"
    for split in splits:
        part = world.parts[split]
        if not part.requests or len(part.entities) < 2:
            raise InputError(f"too few values: {split} has too few requests or entities; {hint}", path)
        if not part.rich and {3, 5} & set(tasks):
            raise InputError(f"no request of {split} finds {LEAST_RESULTS} or more of the knowledge base; {hint}", path)
        if 3 in tasks and world.ontology.options and not part.options:
            numbers = ", ".join(world.ontology.options)
            reason = f"no request of {split} finds {numbers} of the knowledge base: give other numbers"
            raise InputError(reason, path, "options")


def dialogue_facts(world: World, entity: Entity) -> list[Fact]:
    """Returns the facts about an entity in the order of the published dialogues."""
    known = world.facts(entity)
    extras, fields = world.ontology.extras, world.names
    mixed = [name for pair in itertools.zip_longest(extras, fields[: len(extras)]) for name in pair if name]
    return [Fact(entity.name, f"R_{name}", known[name]) for name in [*mixed, *fields[len(extras) :], "rating"]]


def knowledge_base(world: World) -> Iterator[Fact]:
    """Yields all facts, the seen half first, in the order of the published knowledge base."""
    ontology = world.ontology
    crossed = [field.name for field in ontology.fields if not field.one_each]
    order = [*crossed, "rating", *ontology.extras, *(field.name for field in ontology.fields if field.one_each)]
    for entity in itertools.chain(*world.halves):
        known = world.facts(entity)
        yield from (Fact(entity.name, f"R_{name}", known[name]) for name in order)


def candidates(world: World) -> list[str]:
    """Returns all texts of the bot without duplicates: API calls, options, extras, and texts without values."""
    entities = list(itertools.chain(*world.halves))
    texts = [" ".join(("api_call", *request)) for request in sorted(world.of_request)]
    for act, text in world.bot_texts.items():
        kind, _, extra = act.partition(".")
        if kind in ("option", "next_option"):
            texts += [text.replace("{name}", entity.name) for entity in entities]
        elif kind == "give":
            texts += [text.replace(f"{{{extra}}}", f"{entity.name}_{extra}") for entity in entities]
        elif kind not in CALLS:
            texts.append(text)
    return list(dict.fromkeys(texts))


TASKS = (1, 2, 3, 4, 5)

ACCEPTED = 0.25  # the share of options that the user accepts; the last one always
ALL_EXTRAS = 0.5  # the share of the dialogues of tasks 4 and 5 in which the user asks about all extras instead of one

_TRIES = 10_000  # to draw two requests that differ; a few are enough unless there are too few values


class Utterance(msgspec.Struct, frozen=True):
    """An utterance of the user or the bot: its act, a key of the patterns such as ``ask.price``, and its line."""

    act: str
    line: Sentence

    @property
    def values(self) -> dict[str, str]:
        """The values in the utterance by slot."""
        return {slot: self.line.utterance[start:end] for slot, start, end in self.line.spans}


class TurnPair(msgspec.Struct, frozen=True):
    """An utterance of the user and the answer of the bot.

    Attributes:
      user: the utterance; None if the user is silent.
      bot: the answer.
      results: the entities whose facts come before it.
    """

    user: Utterance | None
    bot: Utterance
    results: tuple[Entity, ...] = ()


class Dialogue(msgspec.Struct, frozen=True):
    """A simulated dialogue.

    Attributes:
      dialogue_id: unique in its task.
      requests: the first request and the updated one; for task 4, the request that finds the entity.
      pairs: the turns in order.
    """

    dialogue_id: str
    requests: tuple[Request, ...]
    pairs: tuple[TurnPair, ...]


def simulate(world: World, task: int, split: str, number: int) -> Dialogue:
    """Simulates one dialogue of a task. It depends on the arguments only.

    Dialogues with different numbers differ, in tasks 1 and 4 as long as the split has enough combinations; in the
    others there are always enough.
    """
    simulation = _Simulation(world, StratifiedRng(world.seed, f"task{task}", split, number=number), split)
    requests = simulation.run(task)
    return Dialogue(f"{task}_{split}_{number:05}", tuple(requests), tuple(simulation.pairs))


class _Simulation:
    """Simulates one dialogue."""

    def __init__(self, world: World, rng: StratifiedRng, split: str) -> None:
        self.world, self.rng, self.split = world, rng, split
        self.part, self.ontology = world.parts[split], world.ontology
        self.user, self.bot = world.user_ways, world.bot_texts
        self.pairs: list[TurnPair] = []

    def run(self, task: int) -> list[Request]:
        """Simulates all turns, and returns the requests."""
        if task == 4:
            return [self._by_name()]
        first, last = self._requests(task)
        results = self.rng.shuffled(self.world.found[last]) if task in (3, 5) else []
        self._add(self._say("greet"), "greet", results=results if task == 3 else ())
        self._ask_for(first, _between(self.rng, self.ontology.given_in(task)))
        if task != 3:
            self._call(first)
        if task in (2, 5):
            self._update(first, last)
        if task == 2:
            self._add(self._say("thank"), "welcome" if "welcome" in self.bot else "farewell")
        if task == 3:
            self._offer(results, ())
        if task == 5:
            self._inform(self._offer(results, results))
            self._add(self._say("thank"), "anything_else")
            self._add(self._say("decline"), "farewell")
        return [first] if first == last else [first, last]

    def _requests(self, task: int) -> tuple[Request, Request]:
        if task in (2, 5):
            aside = self.rng.fork()  # for choices that may be discarded, because not all fit two requests
            n = _between(aside, self.ontology.updates_in(task))
            pair = _updated_from(self.world, aside, self.split, n, task == 5)
            self.rng.enter(repr(pair))
            return pair
        among = self.part.rich if task == 3 else self.part.requests
        if task == 3 and self.part.options:
            numbers, shares = zip(*self.part.options, strict=True)
            among = self.rng.weighted(numbers, shares)
        request = self.rng.choice(among)
        return request, request

    def _ask_for(self, request: Request, n: int) -> None:
        """Adds the request with ``n`` of the fields, and the bot's questions about the others."""
        values = self._values(request)
        named = self.rng.sample(list(values), n)
        self._add(self._say("request", [(name, values[name]) for name in named]), "acknowledge")
        answer: Utterance | None = None
        for name in values:
            if name not in named:
                self._add(answer, f"ask.{name}")
                answer = Utterance(f"answer.{name}", filled(self.rng.choice(self.user[f"answer.{name}"]), values))
        self._add(answer, "search")

    def _call(self, request: Request) -> None:
        self._add(None, "call", self._values(request))

    def _update(self, first: Request, last: Request) -> None:
        values = self._values(last)
        for name in self.rng.shuffled([name for name, old in self._values(first).items() if values[name] != old]):
            self._add(self._say("update", [(name, values[name])]), "updated")
        self._add(self._say("no_more"), "search_again")
        self._add(None, "call_again", values)

    def _offer(self, found: Sequence[Entity], results: Sequence[Entity]) -> Entity:
        """Offers options until one is accepted, which it returns. The facts of ``results`` precede the first option."""
        ordered = sorted(found, key=lambda entity: -entity.rating)
        for i, entity in enumerate(ordered):
            self._add(None, "next_option" if i else "option", {"name": entity.name}, () if i else results)
            if entity is ordered[-1] or self.rng.chance(ACCEPTED):
                break
            self._add(self._say("reject"), "another")
        self._add(self._say("accept"), "reserve")
        return entity

    def _by_name(self) -> Request:
        entity = self.rng.choice(self.part.entities)
        self._add(self._say("greet"), "greet", results=[entity])
        self._add(self._say("request", [("name", entity.name)]), "reserve_by_name")
        self._inform(entity)
        return entity.request

    def _inform(self, entity: Entity) -> None:
        """Adds questions about the reserved entity, and their answers."""
        extras = self.ontology.extras
        extras_asked = extras if self.rng.chance(ALL_EXTRAS) else [self.rng.choice(extras)]
        known = self.world.facts(entity)
        for extra in self.rng.shuffled(extras_asked):
            question = Utterance(f"question.{extra}", Sentence(self.rng.choice(self.user[f"question.{extra}"])))
            self._add(question, f"give.{extra}", {extra: known[extra]})

    def _say(self, act: str, phrases: Sequence[tuple[str, str]] = ()) -> Utterance:
        """Draws an utterance of the user, with a phrase for each of the values."""
        lines = [Sentence(self.rng.choice(self.user[act]))]
        for name, value in phrases:
            lines.append(filled(self.rng.choice(self.user[f"phrase.{name}"]), {name: value}))
        return Utterance(act, joined(*lines))

    def _add(
        self, user: Utterance | None, act: str, values: Mapping[str, str] | None = None, results: Sequence[Entity] = ()
    ) -> None:
        line = filled(self.bot[act], values) if values else Sentence(self.bot[act])
        self.pairs.append(TurnPair(user, Utterance(act, line), tuple(results)))

    def _values(self, request: Request) -> dict[str, str]:
        return dict(zip(self.world.names, request, strict=True))


def _between(rng: StratifiedRng, numbers: Range) -> int:
    least, most = numbers
    return least + rng.below(most - least + 1)


def _updated_from(world: World, rng: StratifiedRng, split: str, n: int, rich: bool) -> tuple[Request, Request]:
    """Draws two requests of a split that differ in ``n`` fields; if ``rich``, the second has enough results."""
    part, fields = world.parts[split], world.ontology.fields
    for _ in range(_TRIES):
        last = rng.choice(part.rich if rich else part.requests)
        first = list(last)
        for i in rng.sample(range(len(fields)), n):
            first[i] = rng.choice([value for value in fields[i].of_half(split == "oov") if value != last[i]])
        if world.of_request[tuple(first)] == split:
            return tuple(first), last
    reason = f"too few values: no two requests of {split} differ in {n} of the fields"
    raise InputError(f"{reason}; give fields more values, or fewer updates", "--ontology")


def lines_of(world: World, dialogue: Dialogue) -> Iterator[Fact | Exchange]:
    """Formats a dialogue in the published format; facts of results come before the next exchange."""
    for pair in dialogue.pairs:
        for entity in pair.results:
            yield from dialogue_facts(world, entity)
        yield Exchange(pair.user.line.utterance if pair.user else SILENCE, pair.bot.line.utterance)


KINDS = ("hesitation", "correction", "restart")
# Shares of user turns according to the paper, whose corpus was not available; a turn may have several.
RATES = {"hesitation": 0.40, "correction": 0.21, "restart": 0.05}

_WORD = re.compile(r"\S+")


def disfluent(world: World, dialogue: Dialogue, split: str) -> Dialogue:
    """Adds hesitations, self-corrections and restarts to user turns, as in bAbI+ (Shalyminov, Eshghi and Lemon 2017).

    The meaning is unchanged: the values after a correction are the original ones, their spans are shifted, and the
    bot's turns stay the same. A hesitation is inserted before a word ("a table um somewhere in lima"). A correction
    inserts another value first ("somewhere in quito wait no lima"), or also repeats the word before it ("somewhere in
    quito wait no in lima"). A restart breaks off and begins again ("let us have once more let us have a table").

    A rate of ``RATES`` is a share of all user turns. As a turn without a value cannot have a correction, turns with
    values have it more often, and likewise for the other kinds.
    """
    users = [pair.user for pair in dialogue.pairs if pair.user]
    possible = {kind: sum(_can(kind, user.line) for user in users) for kind in KINDS}
    odds = {kind: RATES[kind] * len(users) / n if n else 0.0 for kind, n in possible.items()}
    pairs = []
    for i, pair in enumerate(dialogue.pairs):
        if pair.user:
            rng = StratifiedRng(world.seed, "babi_plus", dialogue.dialogue_id, str(i))
            pair = TurnPair(Utterance(pair.user.act, _line(world, pair.user, split, odds, rng)), pair.bot, pair.results)
        pairs.append(pair)
    return Dialogue(dialogue.dialogue_id, dialogue.requests, tuple(pairs))


@cache
def _words() -> dict[str, tuple[str, ...]]:
    return {kind: tuple(words) for kind, words in read_table(__package__, "disfluencies.toml").items()}


def _can(kind: str, line: Sentence) -> bool:
    """Whether a turn can have a kind: a correction needs a value, a restart two words."""
    return bool(line.spans) if kind == "correction" else kind == "hesitation" or " " in line.utterance


def _line(world: World, user: Utterance, split: str, odds: Mapping[str, float], rng: StratifiedRng) -> Sentence:
    """Returns the line of a turn with disfluencies."""
    text = user.line.utterance
    words = [word.span() for word in _WORD.finditer(text)]
    kinds = [kind for kind in KINDS if rng.chance(odds[kind]) and _can(kind, user.line)]
    edits = []
    if "restart" in kinds:
        broken_off = text[: words[rng.below(len(words) - 1)][1]]
        edits.append(Edit(0, 0, f"{broken_off} {rng.choice(_words()['restart'])} "))
    if "correction" in kinds:
        edits.append(_correction(world, user, split, rng))
    if "hesitation" in kinds:
        at = rng.choice(words)[0]
        edits.append(Edit(at, at, f"{rng.choice(_words()['hesitation'])} "))
    edits.sort(key=lambda edit: edit.start)  # stable: edits at the same place keep their order
    return _edited(user.line, edits)


def _correction(world: World, user: Utterance, split: str, rng: StratifiedRng) -> Edit:
    """Inserts a wrong value of the same half before a value.

    It stands alone or with the preceding word, which is then repeated.
    """
    text = user.line.utterance
    slot, start, end = rng.choice(user.line.spans)
    wrong = _another(world, slot, split, text[start:end], rng)
    begin = start
    word = text.rfind(" ", 0, max(start - 1, 0)) + 1
    if rng.below(2) and not any(word < other <= start for _, _, other in user.line.spans):
        begin = word
    return Edit(begin, begin, f"{text[begin:start]}{wrong} {rng.choice(_words()['correction'])} ")


def _another(world: World, slot: str, split: str, right: str, rng: StratifiedRng) -> str:
    """Draws another value that the split contains, as the wrong one."""
    if slot == "name":
        entities = world.parts[split].entities
        i = rng.below(len(entities))
        return entities[i - (entities[i].name == right)].name  # or its neighbour
    (values,) = (field.of_half(split == "oov") for field in world.ontology.fields if field.name == slot)
    return rng.choice([value for value in values if value != right])


def _edited(line: Sentence, edits: list[Edit]) -> Sentence:
    spans = []
    for slot, start, end in line.spans:
        place = moved(start, end, edits)
        assert place is not None  # edits only insert, and never inside a value
        spans.append((slot, *place))
    return Sentence(edited(line.utterance, edits), tuple(spans))
