"""The knowledge base in its two halves, and which requests belong to which split (Bordes et al. 2017, section 3.1).

The halves share no value of a field that has seen and unseen ones, and so no entity and nothing asked about one. In the
seen half every request, that is a value for each field, belongs to one split: half of them to train, a quarter to dev
and to test each, and so of those that find one entity, two, and so on. So no two splits share a request, and as an
entity belongs to the request that finds it, no entity either; whoever makes a dialogue needs to know of no other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import msgspec

from parapet.schemas.errors import InputError
from parapet.transforms.babi_format import Fact
from parapet.transforms.restaurants.ontology import Ontology
from parapet.transforms.restaurants.patterns import CALLS
from parapet.transforms.seeding import stable_hash

SPLITS = ("train", "dev", "test", "oov")
_DEALT = ("train", "test", "train", "dev")  # to which requests are dealt in turn

Request = tuple[str, ...]  # a value for each field, in order


class Entity(msgspec.Struct, frozen=True):
    """What can be booked: its name, its values in the order of the fields, and its rating."""

    name: str
    request: Request
    rating: int


class Part(msgspec.Struct, frozen=True):
    """What a split's dialogues are about.

    Attributes:
      requests: all of them.
      rich: those that find enough entities to choose from.
      options: (those of them that find so many entities as has a share, the share) for task 3; may be none.
      entities: of all requests.
    """

    requests: list[Request]
    rich: list[Request]
    options: list[tuple[list[Request], float]]
    entities: list[Entity]


class World:
    """A domain with its knowledge base.

    Args:
      ontology: the domain.
      seed: of what is drawn.
      least: entities that a request must find to be offered.

    Attributes:
      names: of the fields.
      user_ways: what the user does to the ways of saying it.
      bot_texts: what the bot does to what it says.
      halves: the entities seen in training, and those that are not.
      found: request to its entities.
      parts: split to what its dialogues are about.
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
        seen.sort(key=lambda one: (-len(self.found.get(one, ())), stable_hash(seed, "request", *one), one))
        cut: dict[str, list[Request]] = {split: [] for split in SPLITS[:-1]}
        for i, request in enumerate(seen):
            cut[_DEALT[i % len(_DEALT)]].append(request)
        cut["oov"] = unseen
        self.parts = {split: self._part(requests) for split, requests in cut.items()}
        self.of_request = {request: split for split, requests in cut.items() for request in requests}

    def facts(self, entity: Entity) -> dict[str, str]:
        """All that is known of an entity: extras, fields and rating, by name."""
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
        for number, share in self.ontology.structure.options:
            if those := [request for request in rich if len(self.found[request]) == number]:
                options.append((those, share))
        return Part(requests, rich, options, [entity for request in requests for entity in self.found.get(request, ())])


def check_world(world: World, tasks: Sequence[int], splits: Sequence[str], path: object) -> None:
    """Raises InputError where a split has too little to talk about."""
    fewer = "give the fields more values" + ("" if world.least < 2 else ", more ratings, or a lower --least_options")
    for split in splits:
        part = world.parts[split]
        if not part.requests or len(part.entities) < 2:
            raise InputError(f"too few values: too little is left for {split} to ask for; {fewer}", path)
        if not part.rich and {3, 5} & set(tasks):
            reason = f"no request of {split} finds {world.least} or more of the knowledge base; {fewer}"
            raise InputError(reason, path)
        if 3 in tasks and world.ontology.structure.options and not part.options:
            numbers = ", ".join(str(number) for number, _ in world.ontology.structure.options)
            reason = f"no request of {split} finds {numbers} of the knowledge base: give other numbers"
            if world.least > 1:
                reason += ", or a lower --least_options"
            raise InputError(reason, path, "structure.options")


# The published order of the facts, in dialogues and in the knowledge base; ontologies of others fit themselves in.
def dialogue_facts(world: World, entity: Entity) -> list[Fact]:
    """The facts of an entity as dialogues list them."""
    known = world.facts(entity)
    extras, fields = world.ontology.extras, world.names
    mixed = [name for pair in itertools.zip_longest(extras, fields[: len(extras)]) for name in pair if name]
    order = [*mixed, *fields[len(extras) :], "rating"]
    return [Fact(entity.name, f"R_{name}", known[name]) for name in order]


def knowledge_base(world: World) -> Iterator[Fact]:
    """All facts, the seen half first, as the file of the knowledge base lists them."""
    ontology = world.ontology
    crossed = [field.name for field in ontology.fields if not field.one_each]
    drawn = [field.name for field in ontology.fields if field.one_each]
    order = [*crossed, "rating", *ontology.extras, *drawn]
    for entity in itertools.chain(*world.halves):
        known = world.facts(entity)
        yield from (Fact(entity.name, f"R_{name}", known[name]) for name in order)


def candidates(world: World) -> list[str]:
    """All that the bot may say, each once: API calls, options, extras of each entity, and phrases without a value."""
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
