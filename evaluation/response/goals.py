"""The goal of a dialogue's user, the system's responses, and how they meet it: Inform and Success."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from parapet.evaluation.response.knowledge import Entity, Knowledge, is_said, placeholders, placeholders_of, satisfies
from parapet.transforms.corpora import domain_of

END = 2**31 - 1


class Search(msgspec.Struct, frozen=True):
    """An entity that the user wants to be offered.

    Attributes:
      service: whose entities.
      constraints: slot to the values that will do.
      results: entities that satisfy them for sure, and the only ones that are looked for in words; None for all that
        there are.
      naming: the slots whose values, all in one response, offer an entity; or the placeholder of one of them, for a
        slot that a schema lists values of has none in most delexicalised corpora.
      first: the turns in which it is to be offered begin here. ``last`` is the last of them.
      given: whether it counts as offered whatever is said, since there is nothing to be found.
      optional: whether it counts where nothing at all is offered, since nobody asks for the entity's name.
    """

    service: str
    constraints: dict[str, tuple[str, ...]]
    naming: tuple[str, ...]
    results: tuple[dict[str, str], ...] | None = None
    first: int = 0
    last: int = END
    given: bool = False
    optional: bool = False


class Request(msgspec.Struct, frozen=True):
    """A slot that the user asks for, to be answered in turn ``first`` or later.

    Attributes:
      values: what answers it, in small letters: any of them in a response. The slot's placeholder does too, and so does
        the slot's value of an entity that was offered as its search wants.
    """

    service: str
    slot: str
    values: tuple[str, ...] = ()
    first: int = 0


class Goal(msgspec.Struct, frozen=True):
    """Of one dialogue."""

    searches: tuple[Search, ...] = ()
    requests: tuple[Request, ...] = ()

    @property
    def domains(self) -> tuple[str, ...]:
        """Those of its searches and requests, sorted."""
        services = [one.service for one in self.searches] + [one.service for one in self.requests]
        return tuple(sorted(set(map(domain_of, services))))


class Response(msgspec.Struct, frozen=True):
    """A response of the system.

    Attributes:
      state: service to slot to values, as the system understands the user. Placeholders stand for the entities
        that satisfy it.
      services: those that it is about; None where that is not given.
    """

    turn: int
    response: str
    state: dict[str, dict[str, tuple[str, ...]]] = {}
    services: tuple[str, ...] | None = None


class Verdict(msgspec.Struct, frozen=True):
    """Of the searches and requests of a goal, in their order: whether each was met."""

    searches: tuple[bool, ...]
    requests: tuple[bool, ...]

    @property
    def inform(self) -> float | None:
        """1 where every search was met; None where there is neither a search nor a request."""
        return float(all(self.searches)) if self.searches or self.requests else None

    @property
    def success(self) -> float | None:
        """1 where, besides, every request was answered: never above ``inform``."""
        return float(all(self.searches) and all(self.requests)) if self.searches or self.requests else None


def judge(goal: Goal, responses: Sequence[Response], knowledge: Knowledge) -> Verdict:
    """Compares a system's responses with a goal.

    An offer counts until another one follows: a search is met where the last entities that were offered in its turns
    all satisfy it. Of values (unlike placeholders) only those of entities that satisfy it are looked for.
    """
    prepared = [_Prepared(response) for response in responses]
    met: list[bool] = []
    offered: dict[str, list[Entity]] = {}
    for search in goal.searches:
        entities = _offered(search, prepared, knowledge)
        good = bool(entities) and all(_is_wanted(entity, search) for entity in entities)
        met.append(good or search.given or (search.optional and not entities))
        if good:
            offered.setdefault(search.service, []).extend(entities)
    answered = (_answered(request, prepared, offered.get(request.service, ()), knowledge) for request in goal.requests)
    return Verdict(tuple(met), tuple(answered))


class _Prepared:
    """A response with its text in lower case and its placeholders."""

    def __init__(self, response: Response) -> None:
        self.response = response
        self.text, self.names = response.response.casefold(), placeholders(response.response)

    def has(self, service: str, slot: str) -> bool:
        """Whether the slot's placeholder is in it; one without its service is of those that are spoken of."""
        own, shared = placeholders_of(service, slot)
        active = self.response.services is None or service in self.response.services
        return bool(own & self.names) or (active and bool(shared & self.names))


def _offered(search: Search, responses: Sequence[_Prepared], knowledge: Knowledge) -> list[Entity]:
    """What was last offered.

    As in MultiWOZ's script, an offer stays as it is where a later response is about more entities that include it.
    """
    offered: list[Entity] = []
    for response in responses:
        if search.first <= response.response.turn <= search.last:
            entities = _entities(search, response, knowledge)
            if entities is not None and not (offered and _ids(offered) <= _ids(entities)):
                offered = entities
    return offered


def _ids(entities: Sequence[Entity]) -> set[tuple[tuple[str, str], ...]]:
    return {tuple(sorted(entity.items())) for entity in entities}


def _is_wanted(entity: Entity, search: Search) -> bool:
    return entity in (search.results or ()) or satisfies(entity, search.constraints)


def _entities(search: Search, response: _Prepared, knowledge: Knowledge) -> list[Entity] | None:
    """The entities that a response offers; None where it is not known to offer any."""
    if response.names and any(response.has(search.service, slot) for slot in search.naming):
        state = response.response.state.get(search.service)
        if state is None:
            return []
        constraints = {slot: knowledge.meant(search.service, slot, values) for slot, values in state.items()}
        return knowledge.find(search.service, constraints)
    known = knowledge.find(search.service, search.constraints) if search.results is None else search.results
    mentioned = [
        entity
        for entity in known
        if search.naming
        and all(_is_mentioned(entity, slot, search.service, response, knowledge) for slot in search.naming)
    ]
    return mentioned or None


def _is_mentioned(entity: Entity, slot: str, service: str, response: _Prepared, knowledge: Knowledge) -> bool:
    value = entity.get(slot)
    return value is not None and any(is_said(way, response.text) for way in knowledge.ways(service, slot, value))


def _answered(
    request: Request, responses: Sequence[_Prepared], offered: Sequence[Entity], knowledge: Knowledge
) -> bool:
    service, slot = request.service, request.slot
    for response in responses:
        if response.response.turn < request.first:
            continue
        if response.has(service, slot) or any(is_said(value, response.text) for value in request.values):
            return True
        if any(_is_mentioned(entity, slot, service, response, knowledge) for entity in offered):
            return True
    return False
