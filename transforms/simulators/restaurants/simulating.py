"""Simulation of dialogues of tasks 1 to 5 (Bordes et al. 2017, section 3.1.1).

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

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import msgspec

from parapet.schemas.errors import InputError
from parapet.transforms.core.inputs import read_table
from parapet.transforms.core.seeding import StratifiedRng, stable_hash
from parapet.transforms.perturb.edits import Edit, edited, moved
from parapet.transforms.simulators.babi_format import SILENCE, Exchange, Fact
from parapet.transforms.simulators.common import Sentence, filled, joined
from parapet.transforms.simulators.restaurants.ontology import CALLS, Ontology, Range

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
        """Return the facts about an entity by name: extras, fields and rating."""
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
    """Raise InputError if a split has too few requests or entities."""
    hint = "give the fields more values, or more ratings"
    for split in splits:
        part = world.parts[split]
        if not part.requests or len(part.entities) < 2:
            raise InputError(f"too few values: {split} has too few requests or entities; {hint}", path)
        if not part.rich and {3, 5} & set(tasks):
            reason = f"no request of {split} finds {LEAST_RESULTS} or more of the knowledge base; {hint}"
            raise InputError(reason, path)
        if 3 in tasks and world.ontology.options and not part.options:
            numbers = ", ".join(world.ontology.options)
            reason = f"no request of {split} finds {numbers} of the knowledge base: give other numbers"
            raise InputError(reason, path, "options")


def dialogue_facts(world: World, entity: Entity) -> list[Fact]:
    """Return the facts about an entity in the order of the published dialogues."""
    known = world.facts(entity)
    extras, fields = world.ontology.extras, world.names
    mixed = [name for pair in itertools.zip_longest(extras, fields[: len(extras)]) for name in pair if name]
    order = [*mixed, *fields[len(extras) :], "rating"]
    return [Fact(entity.name, f"R_{name}", known[name]) for name in order]


def knowledge_base(world: World) -> Iterator[Fact]:
    """Yield all facts, the seen half first, in the order of the published knowledge base."""
    ontology = world.ontology
    crossed = [field.name for field in ontology.fields if not field.one_each]
    drawn = [field.name for field in ontology.fields if field.one_each]
    order = [*crossed, "rating", *ontology.extras, *drawn]
    for entity in itertools.chain(*world.halves):
        known = world.facts(entity)
        yield from (Fact(entity.name, f"R_{name}", known[name]) for name in order)


def candidates(world: World) -> list[str]:
    """Return all texts of the bot without duplicates: API calls, options, extras, and texts without values."""
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
    """Simulate one dialogue of a task. It depends on the arguments only.

    Dialogues with different numbers differ, in tasks 1 and 4 as long as the split has enough combinations; in the
    others there are always enough.
    """
    rng = StratifiedRng(world.seed, f"task{task}", split, number=number)
    simulation = _Simulation(world, rng, split)
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
        """Simulate all turns, and return the requests."""
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
        """Add the request with ``n`` of the fields, and the bot's questions about the others."""
        values = self._values(request)
        named = self.rng.sample(list(values), n)
        self._add(self._say("request", [(name, values[name]) for name in named]), "acknowledge")
        answer: Utterance | None = None
        for name in values:
            if name not in named:
                self._add(answer, f"ask.{name}")
                way = self.rng.choice(self.user[f"answer.{name}"])
                answer = Utterance(f"answer.{name}", filled(way, values))
        self._add(answer, "search")

    def _call(self, request: Request) -> None:
        self._add(None, "call", self._values(request))

    def _update(self, first: Request, last: Request) -> None:
        values = self._values(last)
        changed = [name for name, old in self._values(first).items() if values[name] != old]
        for name in self.rng.shuffled(changed):
            self._add(self._say("update", [(name, values[name])]), "updated")
        self._add(self._say("no_more"), "search_again")
        self._add(None, "call_again", values)

    def _offer(self, found: Sequence[Entity], results: Sequence[Entity]) -> Entity:
        """Offer options until one is accepted, and return it. The facts of ``results`` come before the first option."""
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
        """Add questions about the reserved entity, and their answers."""
        extras = self.ontology.extras
        extras_asked = extras if self.rng.chance(ALL_EXTRAS) else [self.rng.choice(extras)]
        known = self.world.facts(entity)
        for extra in self.rng.shuffled(extras_asked):
            question = Utterance(f"question.{extra}", Sentence(self.rng.choice(self.user[f"question.{extra}"])))
            self._add(question, f"give.{extra}", {extra: known[extra]})

    def _say(self, act: str, phrases: Sequence[tuple[str, str]] = ()) -> Utterance:
        """Draw an utterance of the user, with a phrase for each of the values."""
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
    """Draw two requests of a split that differ in ``n`` fields; if ``rich``, the second has enough results to offer."""
    part, fields = world.parts[split], world.ontology.fields
    for _ in range(_TRIES):
        last = rng.choice(part.rich if rich else part.requests)
        first = list(last)
        for i in rng.sample(range(len(fields)), n):
            others = [value for value in fields[i].of_half(split == "oov") if value != last[i]]
            first[i] = rng.choice(others)
        if world.of_request[tuple(first)] == split:
            return tuple(first), last
    reason = f"too few values: no two requests of {split} differ in {n} of the fields"
    raise InputError(f"{reason}; give fields more values, or fewer updates", "--ontology")


def lines_of(world: World, dialogue: Dialogue) -> Iterator[Fact | Exchange]:
    """Format a dialogue in the published format; facts of results come before the next exchange."""
    for pair in dialogue.pairs:
        for entity in pair.results:
            yield from dialogue_facts(world, entity)
        yield Exchange(pair.user.line.utterance if pair.user else SILENCE, pair.bot.line.utterance)


KINDS = ("hesitation", "correction", "restart")
# Shares of user turns according to the paper, whose corpus was not available; a turn may have several.
RATES = {"hesitation": 0.40, "correction": 0.21, "restart": 0.05}

_WORD = re.compile(r"\S+")


def disfluent(world: World, dialogue: Dialogue, split: str) -> Dialogue:
    """Add hesitations, self-corrections and restarts to user turns, as in bAbI+ (Shalyminov, Eshghi and Lemon 2017).

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
            line = _line(world, pair.user, split, odds, rng)
            pair = TurnPair(Utterance(pair.user.act, line), pair.bot, pair.results)
        pairs.append(pair)
    return Dialogue(dialogue.dialogue_id, dialogue.requests, tuple(pairs))


@cache
def _words() -> dict[str, tuple[str, ...]]:
    return {kind: tuple(words) for kind, words in read_table(__package__, "disfluencies.toml").items()}


def _can(kind: str, line: Sentence) -> bool:
    """Whether a turn can have a kind: a correction needs a value, a restart two words."""
    return bool(line.spans) if kind == "correction" else kind == "hesitation" or " " in line.utterance


def _line(world: World, user: Utterance, split: str, odds: Mapping[str, float], rng: StratifiedRng) -> Sentence:
    """Return the line of a turn with disfluencies."""
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
    """Insert a wrong value of the same half before a value.

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
    """Draw another value that the split contains, as the wrong one."""
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
