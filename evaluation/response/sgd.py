"""Goals and knowledge of dialogues in the SGD layout, from their annotation."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from parapet.evaluation.response.goals import END, Goal, Request, Search
from parapet.evaluation.response.knowledge import Knowledge, satisfies
from parapet.schemas.dialogue import Dialogue, Frame
from parapet.schemas.errors import InputError
from parapet.schemas.service import Service
from parapet.transforms.corpora import domain_of, services_in_turns

_NAMES = frozenset({"name", "title"})
_YES_NO = frozenset({"true", "false"})


class Reference(msgspec.Struct, frozen=True):
    """What responses are held against.

    Attributes:
      goals: by dialogue. ``responses`` are the reference's, by the system's turns.
      skipped: requests that are not counted, by reason.
      domains: by dialogue and turn of the system, those that the turn speaks of.
    """

    goals: dict[str, Goal]
    responses: dict[str, dict[int, str]]
    knowledge: Knowledge
    skipped: dict[str, int]
    domains: dict[str, dict[int, tuple[str, ...]]] = {}


def reference_of(
    dialogues: Sequence[Dialogue],
    services: Mapping[str, Service],
    entities: Mapping[str, Sequence[Mapping[str, str]]] | None = None,
) -> Reference:
    """Makes goals and knowledge of the annotation.

    A *search* is a service call of an intent that is not transactional and has results: its parameters are the
    constraints, and it lasts until the service is called again or the user turns to another intent of it. A *request*
    is a ``REQUEST`` of the user's; what answers it are the values that the system ``INFORM``s of the slot when it next
    does. Requests that the reference never answers, and those answered by yes or no, are not counted: there is no value
    to look for.

    Args:
      dialogues: of a split.
      services: its schema.
      entities: further rows of the knowledge base, by service. Placeholders may speak of these and of the results of
        all searches; in words, a search is met by its own results, and by those of these rows that satisfy it. What
        other searches returned may be another user's: a balance, an alarm.

    Raises:
      InputError: a service or intent that the schema lacks, a dialogue id that appears twice.
    """
    rows: dict[str, list[Mapping[str, str]]] = defaultdict(list)
    for service, more in (entities or {}).items():
        rows[service].extend(more)
    ids = Counter(dialogue.dialogue_id for dialogue in dialogues)
    for dialogue in dialogues:
        if ids[dialogue.dialogue_id] > 1:
            raise InputError(f"dialogue {dialogue.dialogue_id!r} appears twice")
        for _, frame in _searches(dialogue, services):
            rows[frame.service].extend(frame.service_results or ())
    knowledge = Knowledge(rows, _said(dialogues))
    naming = naming_slots(dialogues, services)
    goals, responses, domains = {}, {}, {}
    skipped: Counter[str] = Counter()
    for dialogue in dialogues:
        searches = tuple(_goals_of(dialogue, services, naming, entities or {}))
        requests = tuple(_requests_of(dialogue, knowledge, skipped))
        goals[dialogue.dialogue_id] = Goal(searches, requests)
        responses[dialogue.dialogue_id] = {
            t: turn.utterance for t, turn in enumerate(dialogue.turns) if turn.speaker == "SYSTEM"
        }
        spoken_of = services_in_turns(dialogue)
        domains[dialogue.dialogue_id] = {
            t: tuple(dict.fromkeys(map(domain_of, spoken_of[t]))) for t in responses[dialogue.dialogue_id]
        }
    return Reference(goals, responses, knowledge, dict(sorted(skipped.items())), domains)


def _searches(dialogue: Dialogue, services: Mapping[str, Service]) -> Iterator[tuple[int, Frame]]:
    """The system's frames with a search that has results, with their turn."""
    for t, turn in enumerate(dialogue.turns):
        for frame in turn.frames:
            if turn.speaker != "SYSTEM" or not frame.service_call or not frame.service_results:
                continue
            if not _is_transactional(frame.service, frame.service_call.method, services, dialogue.dialogue_id, t):
                yield t, frame


def _is_transactional(name: str, method: str, services: Mapping[str, Service], dialogue: str, turn: int) -> bool:
    service = services.get(name)
    intent = next((one for one in service.intents if one.name == method), None) if service else None
    if intent is None:
        where = f"{dialogue} turns[{turn}]"
        raise InputError(f"the schema has no intent {method!r} of service {name!r}", "", where)
    return bool(intent.is_transactional)


def naming_slots(
    dialogues: Iterable[Dialogue], services: Mapping[str, Service]
) -> dict[tuple[str, str], tuple[str, ...]]:
    """By (service, intent) the slots that name an entity in an offer.

    Of the slots that every ``OFFER`` after such a search has: those whose name says ``name`` or ``title``; else those
    that are no parameter of the search (a departure time, a price); else all.
    """
    found: dict[tuple[str, str], set[str]] = {}
    asked: dict[tuple[str, str], set[str]] = defaultdict(set)
    for dialogue in dialogues:
        method: dict[str, str] = {}
        calls = {(t, frame.service): frame for t, frame in _searches(dialogue, services)}
        for t, turn in enumerate(dialogue.turns):
            for frame in turn.frames:
                if call := calls.get((t, frame.service)):
                    assert call.service_call
                    method[frame.service] = call.service_call.method
                    asked[frame.service, method[frame.service]] |= call.service_call.parameters.keys()
                offered = {action.slot for action in frame.actions or () if action.act == "OFFER"}
                if turn.speaker == "SYSTEM" and offered and frame.service in method:
                    key = frame.service, method[frame.service]
                    found[key] = found[key] & offered if key in found else offered
    chosen = {}
    for key, slots in found.items():
        named = {slot for slot in slots if _NAMES & set(slot.lower().split("_"))}
        chosen[key] = tuple(sorted(named or slots - asked[key] or slots))
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
            more = [dict(one) for one in entities.get(frame.service, ()) if satisfies(one, constraints)]
            yield Search(frame.service, constraints, slots, (*(frame.service_results or ()), *more), t, last)


def _end_of_search(dialogue: Dialogue, first: int, service: str, method: str) -> int:
    """The last turn before the service is called again, or the user turns to another intent of it."""
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
    """The values that the system gives for a slot when it next does."""
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
