"""Users' goals, systems' offers, and whether responses meet the goals: Inform and Success.

Goals and entities come from the annotation of a corpus in the SGD layout, or from files in MultiWOZ's format. Responses
mention entities by values or by placeholders.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from parapet.evaluation.sets import existing_file, read_lines
from parapet.schemas import errors, layout, limits
from parapet.schemas.dialogue import Action, Dialogue, Frame
from parapet.schemas.service import Service
from parapet.transforms.perturb.corpora import domain_of, services_in_turns

Entity = Mapping[str, str]
# Slot to the accepted values.
Constraints = Mapping[str, Sequence[str]]

_ANY = frozenset({"", "dontcare", "dont care", "do n't care", "don't care", "do not care"})
_NO_LATER, _NO_EARLIER = ("arriveby", "arrive_by"), ("leaveat", "leave_at")


class Knowledge:
    """The entities of services.

    Args:
      entities: service to its rows, slot to value.
      said: (service, slot, value, a spelling in dialogues).
    """

    def __init__(
        self, entities: Mapping[str, Iterable[Entity]], said: Iterable[tuple[str, str, str, str]] = ()
    ) -> None:
        # Without duplicates, and independent of the order of the input.
        self.entities = {
            service: [dict(entity) for entity in sorted({tuple(sorted(row.items())) for row in rows})]
            for service, rows in entities.items()
        }
        self._said: dict[tuple[str, str, str], set[str]] = {}
        self._meant: dict[tuple[str, str, str], set[str]] = {}
        for service, slot, value, way in said:
            self._said.setdefault((service, slot, value.casefold()), set()).add(way.casefold())
            self._meant.setdefault((service, slot, way.casefold()), set()).add(value)
        self._found: dict[tuple[str, tuple[tuple[str, tuple[str, ...]], ...]], list[Entity]] = {}

    def find(self, service: str, constraints: Constraints) -> list[Entity]:
        """Returns the entities that satisfy constraints, in a fixed order."""
        key = service, tuple(sorted((slot, tuple(values)) for slot, values in constraints.items()))
        if key not in self._found:
            self._found[key] = [entity for entity in self.entities.get(service, []) if satisfies(entity, constraints)]
        return self._found[key]

    def ways(self, service: str, slot: str, value: str) -> list[str]:
        """Returns the spellings of a value in lower case: its own, and those in dialogues."""
        return [value.casefold(), *sorted(self._said.get((service, slot, value.casefold()), ()))]

    def meant(self, service: str, slot: str, values: Iterable[str]) -> tuple[str, ...]:
        """Returns values from a dialogue, and all values with the same spelling in dialogues."""
        meanings = dict.fromkeys(values)
        for value in list(meanings):
            meanings |= dict.fromkeys(sorted(self._meant.get((service, slot, value.casefold()), ())))
        return tuple(meanings)


def satisfies(entity: Entity, constraints: Constraints) -> bool:
    """Whether an entity has an accepted value for each slot; slots that it lacks are ignored.

    ``arriveBy`` and ``leaveAt`` are bounds, as in MultiWOZ: no later, no earlier.
    """
    for slot, values in constraints.items():
        have = entity.get(slot)
        if have is None or any(value.casefold() in _ANY for value in values):
            continue
        if not any(_fits(plain_name(slot), have.casefold(), value.casefold()) for value in values):
            return False
    return True


def _fits(slot: str, have: str, wanted: str) -> bool:
    if slot in _NO_LATER:
        return have.zfill(5) <= wanted.zfill(5)
    return have.zfill(5) >= wanted.zfill(5) if slot in _NO_EARLIER else have == wanted


_PLACEHOLDER = re.compile(r"\[([^\[\]]{1,100})\]")
_NO_NAME = re.compile(r"[^a-z0-9]+")
_NUMBER = re.compile(r"_[0-9]+$")
_SHORT = {"post": "postcode", "ref": "reference", "id": "trainid", "addr": "address"}  # MultiWOZ uses both names


def plain_name(name: str) -> str:
    """Lower-cases a name and separates its words by underscores: ``restaurant_name`` for ``Restaurant-name``."""
    return _NO_NAME.sub("_", name.lower()).strip("_")


def placeholders(response: str) -> frozenset[str]:
    """Returns the normalised names in square brackets in a delexicalised response."""
    return frozenset(_long(plain_name(name)) for name in _PLACEHOLDER.findall(response))


def placeholders_of(service: str, slot: str) -> tuple[frozenset[str], frozenset[str]]:
    """Returns a slot's placeholders: with the service or its domain (``restaurant_phone``), and without (``phone``)."""
    own = frozenset(_long(plain_name(f"{owner}_{slot}")) for owner in {service, _NUMBER.sub("", service)})
    return own, frozenset(_long(plain_name(name)) for name in (slot, f"value_{slot}"))


def _long(name: str) -> str:
    start, _, last = name.rpartition("_")
    return f"{start}_{_SHORT.get(last, last)}".strip("_")


def is_said(value: str, text: str) -> bool:
    """Whether a value occurs in a text as whole words; both in lower case."""
    at = text.find(value) if value else -1
    while at >= 0:
        end = at + len(value)
        before = at == 0 or not (text[at - 1].isalnum() and value[0].isalnum())
        after = end == len(text) or not (text[end].isalnum() and value[-1].isalnum())
        if before and after:
            return True
        at = text.find(value, at + 1)
    return False


END = 2**31 - 1


class Search(msgspec.Struct, frozen=True):
    """An entity that the user wants to be offered.

    Attributes:
      service: the service of the entity.
      constraints: slot to the accepted values.
      results: entities known to satisfy them, the only ones that are searched in words; None for all satisfying
        entities.
      naming: the slots whose values, all in one response, count as an offer; a placeholder of one of them suffices, as
        most delexicalised corpora have none for slots with listed values.
      first: the first turn in which the offer counts; ``last`` is the last one.
      given: whether it counts as offered in any case, since there is nothing to find.
      optional: whether it counts if nothing at all is offered, since nobody asks for the entity's name.
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
    """A slot that the user requests, to be answered in turn ``first`` or later.

    Attributes:
      values: the possible answers, in lower case, one of which must be in a response. The slot's placeholder also
        counts, and so does the slot's value for an offered entity that satisfies its search.
    """

    service: str
    slot: str
    values: tuple[str, ...] = ()
    first: int = 0


class Goal(msgspec.Struct, frozen=True):
    """The goal of a dialogue."""

    searches: tuple[Search, ...] = ()
    requests: tuple[Request, ...] = ()

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains of its searches and requests, sorted."""
        services = [search.service for search in self.searches] + [request.service for request in self.requests]
        return tuple(sorted(set(map(domain_of, services))))


Acts = frozenset[tuple[str, str]]  # (service, act), without slots


class Response(msgspec.Struct, frozen=True):
    """A response of the system.

    Attributes:
      state: service to slot to values, as the system understands the user. Placeholders stand for the entities that
        satisfy it.
      services: the services that it is about; None if unknown.
      acts: its acts; None if unknown.
    """

    turn: int
    response: str
    state: dict[str, dict[str, tuple[str, ...]]] = {}
    services: tuple[str, ...] | None = None
    acts: Acts | None = None


class Verdict(msgspec.Struct, frozen=True):
    """Whether each search and request of a goal was met, in order."""

    searches: tuple[bool, ...]
    requests: tuple[bool, ...]

    @property
    def inform(self) -> float | None:
        """1 if every search was met; None without searches and requests."""
        return float(all(self.searches)) if self.searches or self.requests else None

    @property
    def success(self) -> float | None:
        """1 if every search was met and every request answered; None without searches and requests."""
        return float(all(self.searches) and all(self.requests)) if self.searches or self.requests else None


def judge(goal: Goal, responses: Sequence[Response], knowledge: Knowledge) -> Verdict:
    """Compares a system's responses with a goal.

    An offer holds until the next one: a search is met if the last entities offered in its turns all satisfy it. Values,
    unlike placeholders, are only searched for entities that satisfy it.
    """
    prepared = [_Prepared(response) for response in responses]
    met: list[bool] = []
    offered: dict[str, list[Entity]] = {}
    for search in goal.searches:
        entities = _offered(search, prepared, knowledge)
        good = bool(entities) and all(
            entity in (search.results or ()) or satisfies(entity, search.constraints) for entity in entities
        )
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
        """Whether it has the slot's placeholder.

        One without a service refers to the services that the response is about.
        """
        own, shared = placeholders_of(service, slot)
        active = self.response.services is None or service in self.response.services
        return bool(own & self.names) or (active and bool(shared & self.names))


def _offered(search: Search, responses: Sequence[_Prepared], knowledge: Knowledge) -> list[Entity]:
    """Returns the last offer.

    As in MultiWOZ's script, a later response about more entities that include the offered ones does not change an
    offer.
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


def _entities(search: Search, response: _Prepared, knowledge: Knowledge) -> list[Entity] | None:
    """Returns the entities that a response offers; None if it is not known to offer any."""
    if response.names and any(response.has(search.service, slot) for slot in search.naming):
        state = response.response.state.get(search.service)
        if state is None:
            return []
        constraints = {slot: knowledge.meant(search.service, slot, values) for slot, values in state.items()}
        return knowledge.find(search.service, constraints)
    known = knowledge.find(search.service, search.constraints) if search.results is None else search.results
    if not search.naming:
        return None
    return [
        entity
        for entity in known
        if all(_is_mentioned(entity, slot, search.service, response, knowledge) for slot in search.naming)
    ] or None


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


_NAMES = frozenset({"name", "title"})
_YES_NO = frozenset({"true", "false"})


class Reference(msgspec.Struct, frozen=True):
    """The reference for responses.

    Attributes:
      goals: by dialogue. ``responses`` are the reference's, by dialogue and system turn.
      skipped: the number of requests that do not count, by reason.
      domains: dialogue to system turn to the domains that it is about.
      acts: dialogue to system turn to its acts; empty if the dialogues have none.
    """

    goals: dict[str, Goal]
    responses: dict[str, dict[int, str]]
    knowledge: Knowledge
    skipped: dict[str, int]
    domains: dict[str, dict[int, tuple[str, ...]]] = {}
    acts: dict[str, dict[int, Acts]] = {}


def reference_of(
    dialogues: Sequence[Dialogue],
    services: Mapping[str, Service],
    entities: Mapping[str, Sequence[Mapping[str, str]]] | None = None,
) -> Reference:
    """Derives goals and knowledge from the annotation.

    A *search* is a service call of a non-transactional intent that has results. Its parameters are the constraints, and
    it lasts until the service is called again or the user turns to another of its intents. A *request* is a ``REQUEST``
    of the user's; the possible answers are the values in the system's next ``INFORM`` of the slot. Requests that the
    reference never answers, and those answered by yes or no, do not count, as there is no value to search for.

    Args:
      dialogues: the dialogues of a split.
      services: the services of its schema.
      entities: further rows of the knowledge base, by service. Placeholders may refer to these and to the results of
        all searches. In words, a search is met by its own results, and by those of these rows that satisfy it; the
        results of other searches may belong to another user, such as a balance or an alarm.

    Raises:
      InputError: the schema lacks a service or intent, or a dialogue id occurs twice.
    """
    rows: dict[str, list[Mapping[str, str]]] = defaultdict(list)
    for service, more in (entities or {}).items():
        rows[service].extend(more)
    ids = Counter(dialogue.dialogue_id for dialogue in dialogues)
    for dialogue in dialogues:
        if ids[dialogue.dialogue_id] > 1:
            raise errors.InputError(f"dialogue {dialogue.dialogue_id!r} appears twice")
        for _, frame in _searches(dialogue, services):
            rows[frame.service].extend(frame.service_results or ())
    knowledge = Knowledge(rows, _said(dialogues))
    naming = naming_slots(dialogues, services)
    goals, responses, domains, acts = {}, {}, {}, {}
    skipped: Counter[str] = Counter()
    for dialogue in dialogues:
        searches = tuple(_goals_of(dialogue, services, naming, entities or {}))
        goals[dialogue.dialogue_id] = Goal(searches, tuple(_requests_of(dialogue, knowledge, skipped)))
        responses[dialogue.dialogue_id] = {
            t: turn.utterance for t, turn in enumerate(dialogue.turns) if turn.speaker == "SYSTEM"
        }
        spoken_of = services_in_turns(dialogue)
        domains[dialogue.dialogue_id] = {
            t: tuple(dict.fromkeys(map(domain_of, spoken_of[t]))) for t in responses[dialogue.dialogue_id]
        }
        acts[dialogue.dialogue_id] = {
            t: acts_of({frame.service: frame.actions or () for frame in dialogue.turns[t].frames})
            for t in responses[dialogue.dialogue_id]
        }
    has_acts = any(any(of_turns.values()) for of_turns in acts.values())
    return Reference(goals, responses, knowledge, dict(sorted(skipped.items())), domains, acts if has_acts else {})


def acts_of(actions: Mapping[str, Iterable[Action]]) -> Acts:
    """Returns the acts of a turn, given its actions by service."""
    return frozenset((service, action.act) for service, of_service in actions.items() for action in of_service)


def _searches(dialogue: Dialogue, services: Mapping[str, Service]) -> Iterator[tuple[int, Frame]]:
    """Yields (turn, frame) of system frames with a search that has results."""
    for t, turn in enumerate(dialogue.turns):
        for frame in turn.frames:
            if turn.speaker != "SYSTEM" or not frame.service_call or not frame.service_results:
                continue
            if not _is_transactional(frame.service, frame.service_call.method, services, dialogue.dialogue_id, t):
                yield t, frame


def _is_transactional(name: str, method: str, services: Mapping[str, Service], dialogue: str, turn: int) -> bool:
    service = services.get(name)
    intent = next((intent for intent in service.intents if intent.name == method), None) if service else None
    if intent is None:
        where = f"{dialogue} turns[{turn}]"
        raise errors.InputError(f"the schema has no intent {method!r} of service {name!r}", "", where)
    return bool(intent.is_transactional)


def naming_slots(
    dialogues: Iterable[Dialogue], services: Mapping[str, Service]
) -> dict[tuple[str, str], tuple[str, ...]]:
    """Returns, by (service, intent), the slots that name an entity in an offer.

    Of the slots in every ``OFFER`` after such a search, these are the ones whose name contains ``name`` or ``title``;
    otherwise those that are not parameters of the search (a departure time, a price); otherwise all.
    """
    always_offered: dict[tuple[str, str], set[str]] = {}
    parameters: dict[tuple[str, str], set[str]] = defaultdict(set)
    for dialogue in dialogues:
        method: dict[str, str] = {}
        calls = {(t, frame.service): frame for t, frame in _searches(dialogue, services)}
        for t, turn in enumerate(dialogue.turns):
            for frame in turn.frames:
                if call := calls.get((t, frame.service)):
                    assert call.service_call
                    method[frame.service] = call.service_call.method
                    parameters[frame.service, method[frame.service]] |= call.service_call.parameters.keys()
                offered = {action.slot for action in frame.actions or () if action.act == "OFFER"}
                if turn.speaker == "SYSTEM" and offered and frame.service in method:
                    key = frame.service, method[frame.service]
                    always_offered[key] = always_offered[key] & offered if key in always_offered else offered
    chosen = {}
    for key, slots in always_offered.items():
        named = {slot for slot in slots if _NAMES & set(slot.lower().split("_"))}
        chosen[key] = tuple(sorted(named or slots - parameters[key] or slots))
    return chosen


def _goals_of(
    dialogue: Dialogue,
    services: Mapping[str, Service],
    naming: Mapping[tuple[str, str], tuple[str, ...]],
    entities: Mapping[str, Sequence[Mapping[str, str]]],
) -> Iterator[Search]:
    for t, frame in _searches(dialogue, services):
        assert frame.service_call
        slots = naming.get((frame.service, frame.service_call.method), ())
        if slots:
            constraints: dict[str, tuple[str, ...]] = {
                slot: (value,) for slot, value in frame.service_call.parameters.items()
            }
            last = _end_of_search(dialogue, t, frame.service, frame.service_call.method)
            more = [dict(entity) for entity in entities.get(frame.service, ()) if satisfies(entity, constraints)]
            yield Search(frame.service, constraints, slots, (*(frame.service_results or ()), *more), t, last)


def _end_of_search(dialogue: Dialogue, first: int, service: str, method: str) -> int:
    """Returns the last turn before the service is called again, or the user turns to another of its intents."""
    for t, turn in enumerate(dialogue.turns[first + 1 :], first + 1):
        for frame in turn.frames:
            if frame.service == service and (
                frame.service_call or (frame.state and frame.state.active_intent not in (method, "NONE"))
            ):
                return t - 1
    return END


def _requests_of(dialogue: Dialogue, knowledge: Knowledge, skipped: Counter[str]) -> Iterator[Request]:
    for t, turn in enumerate(dialogue.turns):
        for frame in turn.frames if turn.speaker == "USER" else ():
            for action in frame.actions or ():
                if action.act != "REQUEST" or not action.slot:
                    continue
                values = _informed(dialogue, t + 1, frame.service, action.slot)
                if not values:
                    skipped["never_answered"] += 1
                elif {value.casefold() for value in values} & _YES_NO:
                    skipped["yes_or_no"] += 1
                else:
                    ways = [way for value in values for way in knowledge.ways(frame.service, action.slot, value)]
                    yield Request(frame.service, action.slot, tuple(dict.fromkeys(ways)), t + 1)


def _informed(dialogue: Dialogue, first: int, service: str, slot: str) -> list[str]:
    """Returns the values that the system informs next for a slot."""
    for turn in dialogue.turns[first:]:
        for frame in turn.frames:
            if turn.speaker == "SYSTEM" and frame.service == service:
                for action in frame.actions or ():
                    if action.act == "INFORM" and action.slot == slot and action.values:
                        return [*action.values, *(action.canonical_values or ())]
    return []


def _said(dialogues: Iterable[Dialogue]) -> Iterator[tuple[str, str, str, str]]:
    for dialogue in dialogues:
        for turn in dialogue.turns:
            for frame in turn.frames:
                for action in frame.actions or ():
                    for value, way in zip(action.canonical_values or (), action.values, strict=False):
                        yield frame.service, action.slot, value, way


NAMING = ("name", "trainid", "id")


class DomainGoal(msgspec.Struct):
    """The goal of a domain."""

    informable: dict[str, str | list[str]] = {}
    requestable: list[str] = []


class ResponseRow(msgspec.Struct):
    """A row of the reference responses."""

    dialogue_id: str
    turn: int
    response: str


def read_reference(goals: str, knowledge: str | None, responses: str) -> Reference:
    """Reads goals, entities and reference responses.

    Args:
      goals: JSON ``{dialogue id: {domain: {"informable": {slot: value}, "requestable": [slot]}}}``.
      knowledge: see :func:`read_entities`.
      responses: JSON lines ``{"dialogue_id", "turn", "response"}``.

    Raises:
      InputError: a file cannot be read, or dialogues have goals without responses, or responses without goals.
    """
    by_dialogue = _read(goals, dict[str, dict[str, DomainGoal]])
    entities = read_entities(knowledge) if knowledge else {}
    naming = {domain: _naming_of(rows) for domain, rows in entities.items()}
    parsed = {dialogue: _goal(domains, naming) for dialogue, domains in by_dialogue.items()}
    turns_of: dict[str, dict[int, str]] = {}
    for number, row in read_lines(responses, ResponseRow):
        turns = turns_of.setdefault(row.dialogue_id, {})
        if row.turn in turns:
            reason = f"dialogue {row.dialogue_id!r} turn {row.turn} appears twice"
            raise errors.InputError(reason, responses, f"line {number}")
        turns[row.turn] = row.response
    for dialogue in sorted(parsed.keys() ^ turns_of.keys()):
        lacking, path = ("goal", goals) if dialogue in turns_of else ("response", responses)
        raise errors.InputError(f"there is no {lacking} for dialogue {dialogue!r}", path)
    if not parsed:
        raise errors.InputError("contains no goals", goals)
    # Nothing says of which of the goal's domains a turn speaks: of all.
    domains = {dialogue: dict.fromkeys(turns_of[dialogue], goal.domains) for dialogue, goal in parsed.items()}
    return Reference(parsed, turns_of, Knowledge(entities), {}, domains)


def _goal(domains: Mapping[str, DomainGoal], naming: Mapping[str, str | None]) -> Goal:
    searches, requests = [], []
    for domain, goal in sorted(domains.items()):
        constraints = {
            slot: (value,) if isinstance(value, str) else tuple(value) for slot, value in goal.informable.items()
        }
        slot = naming.get(domain)
        requested = {plain_name(name) for name in goal.requestable}
        searches.append(
            Search(
                domain,
                constraints,
                (slot,) if slot else (),
                given=slot is None or "name" in {plain_name(name) for name in constraints},
                optional=slot is not None and plain_name(slot) != "name" and plain_name(slot) not in requested,
            )
        )
        requests += [Request(domain, name) for name in sorted(set(goal.requestable))]
    return Goal(tuple(searches), tuple(requests))


def _naming_of(rows: Sequence[Mapping[str, str]]) -> str | None:
    slots = {plain_name(slot): slot for row in rows for slot in row}
    return next((slots[name] for name in NAMING if name in slots), None)


def read_entities(path: str) -> dict[str, list[dict[str, str]]]:
    """Reads a knowledge base: JSON ``{service: [{slot: value}]}``, or a folder of ``SERVICE_db.json`` with such lists.

    Values that are neither text nor numbers (a position on a map, a list of rooms) are left out.

    Raises:
      InputError: a file is missing or cannot be read.
    """
    if not layout.is_there(path):
        raise errors.InputError("there is no such file or folder", path)
    place = layout.as_path(path)
    if not place.is_dir():
        return {service: _rows(rows) for service, rows in _read(path, dict[str, list[dict[str, Any]]]).items()}
    files = sorted(place.glob("*_db.json"))
    if not files:
        raise errors.InputError("contains no knowledge base: expected files such as restaurant_db.json", path)
    return {file.name.removesuffix("_db.json"): _rows(_read(str(file), list[dict[str, Any]])) for file in files}


def _rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    return [{slot: str(value) for slot, value in row.items() if isinstance(value, str | int | float)} for row in rows]


def _read(path: str, kind: Any) -> Any:
    try:
        return msgspec.convert(layout.parse_json(limits.read_whole(existing_file(path)), path), kind)
    except msgspec.ValidationError as error:
        reason, at = errors.reason_and_place(error)
        raise errors.InputError(reason, path, at) from None
