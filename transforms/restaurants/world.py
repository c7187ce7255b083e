"""The knowledge base in two halves, and the split of each request (Bordes et al. 2017, section 3.1).

The halves share no value of a field with seen and unseen values, so no entity and no property of one. In the seen half
every request, that is a value for each field, belongs to one split: half of them to train, a quarter each to dev and
test, also among the requests with one result, with two, and so on. So no two splits share a request, nor an entity,
which belongs to the request that finds it; and each dialogue can be simulated on its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import msgspec

from parapet.schemas.errors import InputError
from parapet.transforms.babi_format import Fact
from parapet.transforms.restaurants.ontology import CALLS, Ontology
from parapet.transforms.seeding import stable_hash

SPLITS = ("train", "dev", "test", "oov")
_DEALT = ("train", "test", "train", "dev")  # requests are assigned to these in turn

Request = tuple[str, ...]  # a value for each field, in order


class Entity(msgspec.Struct, frozen=True):
    """An entity that can be booked: name, values in the order of the fields, and rating."""

    name: str
    request: Request
    rating: int


class Part(msgspec.Struct, frozen=True):
    """The subjects of the dialogues of a split.

    Attributes:
      requests: all requests.
      rich: those with enough results to choose from.
      options: for task 3, (those of them with a certain number of results, their share); may be empty.
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
      seed: of random choices.
      least: minimum number of results of a request of which entities are offered.

    Attributes:
      names: of the fields.
      user_ways: act of the user to its wordings.
      bot_texts: act of the bot to its text.
      halves: the entities seen in training, and the unseen ones.
      found: request to its results.
      parts: split to the subjects of its dialogues.
    """

    def __init__(self, ontology: Ontology, seed: str, least: int) -> None:
        self.ontology, self.seed, self.least = ontology, seed, least
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
        """The facts about an entity by name: extras, fields and rating."""
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
        rich = [request for request in requests if len(self.found.get(request, ())) >= self.least]
        options = []
        for number, share in self.ontology.structure.shares():
            if those := [request for request in rich if len(self.found[request]) == number]:
                options.append((those, share))
        return Part(requests, rich, options, [entity for request in requests for entity in self.found.get(request, ())])


def check_world(world: World, tasks: Sequence[int], splits: Sequence[str], path: object) -> None:
    """Raises InputError where a split has too few requests or entities."""
    fewer = "give the fields more values" + ("" if world.least < 2 else ", more ratings, or a lower --least_options")
    for split in splits:
        part = world.parts[split]
        if not part.requests or len(part.entities) < 2:
            raise InputError(f"too few values: {split} has too few requests or entities; {fewer}", path)
        if not part.rich and {3, 5} & set(tasks):
            reason = f"no request of {split} finds {world.least} or more of the knowledge base; {fewer}"
            raise InputError(reason, path)
        if 3 in tasks and world.ontology.structure.options and not part.options:
            numbers = ", ".join(str(number) for number, _ in world.ontology.structure.shares())
            reason = f"no request of {split} finds {numbers} of the knowledge base: give other numbers"
            if world.least > 1:
                reason += ", or a lower --least_options"
            raise InputError(reason, path, "structure.options")


def dialogue_facts(world: World, entity: Entity) -> list[Fact]:
    """The facts about an entity in the order of the published dialogues."""
    known = world.facts(entity)
    extras, fields = world.ontology.extras, world.names
    mixed = [name for pair in itertools.zip_longest(extras, fields[: len(extras)]) for name in pair if name]
    order = [*mixed, *fields[len(extras) :], "rating"]
    return [Fact(entity.name, f"R_{name}", known[name]) for name in order]


def knowledge_base(world: World) -> Iterator[Fact]:
    """All facts, the seen half first, in the order of the published knowledge base."""
    ontology = world.ontology
    crossed = [field.name for field in ontology.fields if not field.one_each]
    drawn = [field.name for field in ontology.fields if field.one_each]
    order = [*crossed, "rating", *ontology.extras, *drawn]
    for entity in itertools.chain(*world.halves):
        known = world.facts(entity)
        yield from (Fact(entity.name, f"R_{name}", known[name]) for name in order)


def candidates(world: World) -> list[str]:
    """All texts of the bot, each once: API calls, options, extras of each entity, and texts without values."""
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
