"""A call as a dialogue of dialog bAbI task 6 (Bordes et al. 2017, section 3.3): rounds with searches, and lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from parapet.transforms.babi_format import SILENCE, Exchange, Fact, Line, Unanswered
from parapet.transforms.dstc2.calls import DONTCARE, Call, CallTurn, Slots
from parapet.transforms.dstc2.knowledge import (
    QUERY,
    RELATIONS,
    TOKENS,
    Knowledge,
    Rated,
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
