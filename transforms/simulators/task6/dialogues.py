"""A call as a dialogue of dialog bAbI task 6 (Bordes et al. 2017, section 3.3): rounds with searches, and lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from parapet.schemas.errors import InputError
from parapet.transforms.babi_format import SILENCE, Exchange, Fact, Line, Unanswered
from parapet.transforms.simulators.common import (
    Sentence,
    act,
    schema_intent,
    schema_service,
    schema_slot,
    state,
    system_turn,
    user_turn,
)
from parapet.transforms.simulators.task6.calls import (
    DONTCARE,
    QUERY,
    RELATIONS,
    TOKENS,
    Act,
    Call,
    CallTurn,
    Knowledge,
    Ontology,
    Rated,
    Restaurant,
    Slots,
    facts_about,
    offered,
    ratings,
    token,
)

_ANSWERS = frozenset({"offer", "canthelp", "canthelp.exception"})  # system acts that need a search


class Search(msgspec.Struct, frozen=True):
    """An API call: (slot, value) of the known slots, and its results."""

    query: Slots
    results: tuple[Rated, ...]


class Round(msgspec.Struct, frozen=True):
    """An utterance of the caller, and the answer of the system.

    Attributes:
      turn: the turn in which the caller speaks, after its prompt.
      search: the search of the system before it answers; None where there is none.
      answer: the turn whose prompt is the answer; None after the last words of the caller.
    """

    turn: CallTurn
    search: Search | None
    answer: CallTurn | None


def rounds(call: Call, knowledge: Knowledge, seed: str) -> list[Round]:
    """The rounds of a call.

    There is a search where the answer needs one and the state (food, area and price range) differs from that of the
    previous search. Values of ``dontcare`` are no restriction.

    Args:
      call: the call.
      knowledge: the knowledge base.
      seed: of the ratings.
    """
    queries = _queries(call)
    found: list[Round] = []
    for t, turn in enumerate(call.turns):
        answer = call.turns[t + 1] if t + 1 < len(call.turns) else None
        search = None
        if t in queries:
            until = next((later for later in queries if later > t), len(call.turns))
            offers = [name for turn in call.turns[t + 1 : until + 1] for name in offered(turn.system_acts)]
            results = ratings(knowledge.search(queries[t]), offers, seed, "rating", call.name, str(t))
            search = Search(queries[t], tuple(results))
        found.append(Round(turn, search, answer))
    return found


def _queries(call: Call) -> dict[int, Slots]:
    """Turn to the query after it, in order."""
    queries: dict[int, Slots] = {}
    last: Slots | None = None
    for t, (turn, answer) in enumerate(zip(call.turns, call.turns[1:], strict=False)):
        query = query_of(turn.goals)
        if query != last and any(act.act in _ANSWERS for act in answer.system_acts):
            queries[t] = last = query
    return queries


def query_of(goals: Slots) -> Slots:
    """The part of a state that restricts a search, in the order of an API call."""
    goal = {slot: value.lower() for slot, value in goals}
    return tuple((slot, goal[slot]) for slot in QUERY if goal.get(slot, DONTCARE) not in (DONTCARE, ""))


def offers_of(of_call: Sequence[Round]) -> Iterator[tuple[str, bool]]:
    """Each restaurant that the system offers, and whether it is among the results of the previous search."""
    results: set[str] = set()
    for round_ in of_call:
        if round_.search is not None:
            results = {rated.restaurant.name for rated in round_.search.results}
        if round_.answer is not None:
            yield from ((name, name in results) for name in offered(round_.answer.system_acts))


FAREWELL = "you are welcome"  # in task 6 the answer to the last words, which have none in DSTC2
NO_RESULT = Fact("api_call", "no", "result")  # a line of three words, as facts are


class Words:
    """Values of several words, which task 6 joins: ``asian_oriental``.

    Args:
      knowledge: for its names and values.
      others: further values.
    """

    def __init__(self, knowledge: Knowledge, others: Iterable[str]) -> None:
        values = {value for restaurant in knowledge.restaurants for slot, value in restaurant.values if slot in QUERY}
        values |= {restaurant.name for restaurant in knowledge.restaurants} | set(others)
        several = sorted({value for value in values if " " in value}, key=lambda value: (-len(value), value))
        self._pattern = _any_of(several)

    def joined(self, text: str) -> str:
        """The text with each of these values as one word."""
        return self._pattern.sub(lambda found: token(found[0]), text) if self._pattern else text


def _any_of(values: Sequence[str]) -> re.Pattern[str] | None:
    """A pattern of the values as whole words in any case; earlier ones take precedence."""
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, values))})(?!\w)", re.IGNORECASE) if values else None


def lines_of(call: Call, of_call: Sequence[Round], words: Words) -> list[Line]:
    """The lines of a call."""
    bot = _Bot(words)
    lines: list[Line] = [_line(SILENCE, bot.says(call.turns[0]))]
    for round_ in of_call:
        user = words.joined(round_.turn.user) or SILENCE
        if round_.search is not None:
            lines.append(Exchange(user, api_call(round_.search)))
            lines += _facts(round_.search)
            user = SILENCE
        lines.append(_line(user, bot.says(round_.answer) if round_.answer is not None else FAREWELL))
    return lines


def _line(user: str, bot: str) -> Line:
    return Exchange(user, bot) if bot else Unanswered(user)


def api_call(search: Search) -> str:
    """``api_call chinese R_location cheap``."""
    query = dict(search.query)
    return " ".join(["api_call", *(token(query[slot]) if slot in query else RELATIONS[slot] for slot in QUERY)])


def _facts(search: Search) -> list[Fact]:
    return [fact for rated in search.results for fact in facts_about(rated.restaurant, rated.rating)] or [NO_RESULT]


class _Bot:
    """The prompts of the system in order; a phone number becomes that of the restaurant offered last."""

    def __init__(self, words: Words) -> None:
        self.words, self.name = words, ""

    def says(self, turn: CallTurn) -> str:
        self.name = (offered(turn.system_acts) or [self.name])[-1]
        text = turn.system
        if self.name:
            for act in turn.system_acts:
                for slot, value in act.slots:
                    if slot in TOKENS and value and (pattern := _any_of([value])):
                        text = pattern.sub(lambda _, slot=slot: f"{token(self.name)}_{TOKENS[slot]}", text)  # type: ignore[misc]
        return self.words.joined(text)


SERVICE, INTENT, RATING = "Restaurants_dstc2", "FindRestaurants", "rating"
_CATEGORICAL = 10  # maximum number of values

_DESCRIPTIONS = {
    "food": "Cuisine of the restaurant",
    "area": "Part of town in which the restaurant is",
    "pricerange": "Price range of the restaurant",
    "name": "Name of the restaurant",
    "addr": "Address of the restaurant",
    "phone": "Phone number of the restaurant",
    "postcode": "Post code of the restaurant",
    "signature": "Signature dish of the restaurant",
}
# Acts of DSTC2 to those of SGD; others keep their name.
_USER = {"reqalts": "REQUEST_ALTS", "reqmore": "REQ_MORE", "thankyou": "THANK_YOU", "bye": "GOODBYE"}
_SYSTEM = {
    "reqmore": "REQ_MORE",
    "expl-conf": "CONFIRM",
    "impl-conf": "CONFIRM",
    "confirm-domain": "OFFER_INTENT",
    "select": "REQUEST",
    "canthelp": "NOTIFY_FAILURE",
    "canthelp.exception": "NOTIFY_FAILURE",
    "canthelp.missing_slot_value": "NOTIFY_FAILURE",
}


def slots_of(ontology: Ontology) -> list[str]:
    """The service's slots, in order."""
    return list(dict.fromkeys((*QUERY, "name", *ontology.informable, *RELATIONS, *ontology.requestable, RATING)))


def schema_of(ontology: Ontology) -> list[dict[str, Any]]:
    """The services of the schema file: one."""
    slots = []
    for name in slots_of(ontology):
        values = sorted(value for value in ontology.informable.get(name, []) if value != DONTCARE)
        description = _DESCRIPTIONS.get(name, f"{name.capitalize()} of the restaurant")
        slots.append(schema_slot(name, description, values if len(values) <= _CATEGORICAL else ()))
    names = [slot["name"] for slot in slots]
    optional = {name: DONTCARE for name in names if name in ontology.informable}
    description = "Find a restaurant by cuisine, part of town and price range"
    intent = schema_intent(INTENT, description, [], names, optional=optional)
    return [schema_service(SERVICE, "Restaurants of a town, found by phone (DSTC2)", slots, [intent])]


def dialogue_of(call: Call, of_call: Sequence[Round], slots: frozenset[str]) -> dict[str, Any]:
    """The dialogue. The user begins, as in SGD: the welcome, the same in all calls, is left out.

    Args:
      call: the call.
      of_call: its rounds.
      slots: of the service.

    Raises:
      InputError: a label has a slot that the service does not have.
    """
    turns = []
    for t, round_ in enumerate(of_call):
        turns.append(_user_turn(round_.turn, slots, f"turns[{t}]"))
        if round_.answer is not None:
            turns.append(_system_turn(round_.answer, round_.search, slots))
    return {"dialogue_id": call.name, "services": [SERVICE], "turns": turns}


def _user_turn(turn: CallTurn, known: frozenset[str], where: str) -> dict[str, Any]:
    for slot in (*(slot for slot, _ in turn.goals), *turn.requested):
        if slot not in known:
            raise InputError(f"unknown_slot: the ontology has no slot {slot!r}", "label.json", where)
    acts = _acts(turn.user_acts, _USER, known, asked_for(turn.system_acts))
    # In a silent turn the label has no method, but the search goes on.
    intent = "NONE" if turn.method == "finished" or (turn.method == "none" and not turn.goals) else INTENT
    after = state(intent, {slot: [value] for slot, value in turn.goals}, turn.requested)
    return user_turn(SERVICE, _with_spans(turn.user, acts), acts, after)


def _system_turn(turn: CallTurn, search: Search | None, known: frozenset[str]) -> dict[str, Any]:
    acts = _acts(turn.system_acts, _SYSTEM, known, "")
    line = _with_spans(turn.system, acts)
    if search is None:
        return system_turn(SERVICE, line, acts)
    results = [result_of(rated.restaurant, rated.rating) for rated in search.results]
    return system_turn(SERVICE, line, acts, (INTENT, dict(search.query)), results)


def result_of(restaurant: Restaurant, rating: int) -> dict[str, str]:
    """A restaurant as a result of the service."""
    return {"name": restaurant.name, **dict(restaurant.values), RATING: str(rating)}


def asked_for(acts: Iterable[Act]) -> str:
    """The slot that a prompt requests, meant by ``inform(this=dontcare)``; empty where there are several."""
    slots = {value for act in acts if act.act == "request" for slot, value in act.slots if slot == "slot"}
    return slots.pop() if len(slots) == 1 else ""


def _acts(acts: Iterable[Act], names: dict[str, str], known: frozenset[str], this: str) -> list[dict[str, Any]]:
    actions = []
    for said in acts:
        name = names.get(said.act, said.act.upper().replace(".", "_").replace("-", "_"))
        if said.act == "confirm-domain":
            actions.append(act(name, "intent", INTENT))
        elif said.act == "select":  # "something in the north or in the south": one act with both values
            actions += [act(name, slot, *(v for s, v in said.slots if s == slot)) for slot in _slots(said.slots, known)]
        elif said.act == "request":
            actions += [act(name, value) for slot, value in said.slots if slot == "slot" and value in known]
        else:
            pairs = [(this if slot == "this" else slot, value) for slot, value in said.slots]
            actions += [act(name, slot, value) for slot, value in pairs if slot in known or slot == "count"]
            if not pairs or pairs == [("", DONTCARE)]:
                actions.append(act(name))
    return actions


def _slots(pairs: Slots, known: frozenset[str]) -> list[str]:
    return [slot for slot in dict.fromkeys(slot for slot, _ in pairs) if slot in known]


def _with_spans(text: str, acts: Iterable[dict[str, Any]]) -> Sentence:
    """The text with the first span of each value of the acts; the longest values are placed first."""
    values = {
        (action["slot"], value)
        for action in acts
        for value in action["values"]
        if value and action["slot"] not in ("intent", "count")
    }
    spans: list[tuple[str, int, int]] = []
    for slot, value in sorted(values, key=lambda pair: (-len(pair[1]), pair)):
        for found in re.finditer(rf"(?<!\w){re.escape(value)}(?!\w)", text):
            if all(found.end() <= start or end <= found.start() for _, start, end in spans):
                spans.append((slot, found.start(), found.end()))
                break
    return Sentence(text, tuple(sorted(spans, key=lambda span: (span[1], span[0]))))
