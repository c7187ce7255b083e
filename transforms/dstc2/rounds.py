"""A call as rounds: what the caller says, the search it makes necessary, and what the system answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from parapet.transforms.dstc2.calls import DONTCARE, Call, CallTurn, Slots
from parapet.transforms.dstc2.knowledge import QUERY, Knowledge, Rated, offered, ratings

_ANSWERS = frozenset({"offer", "canthelp", "canthelp.exception"})  # that the system cannot give without a search


class Search(msgspec.Struct, frozen=True):
    """An API call: slot to value, without those that are unknown, and what it gives."""

    query: Slots
    results: tuple[Rated, ...]


class Round(msgspec.Struct, frozen=True):
    """What follows the system's welcome, in order.

    Attributes:
      asked: the turn in which the caller speaks, after its prompt.
      search: what the system looks up before it answers.
      answer: the turn whose prompt answers; None after the caller's last words.
    """

    asked: CallTurn
    search: Search | None
    answer: CallTurn | None


def rounds(call: Call, knowledge: Knowledge, seed: str) -> list[Round]:
    """The rounds of a call.

    A search is made where the answer needs one and the state (its food, area and price range) is not that of the search
    before, which the first never is. Who does not care does not restrict.

    Args:
      call: the call.
      knowledge: what is searched.
      seed: of the ratings.
    """
    queries = _queries(call)
    found: list[Round] = []
    for t, turn in enumerate(call.turns):
        answer = call.turns[t + 1] if t + 1 < len(call.turns) else None
        search = None
        if t in queries:
            until = next((later for later in queries if later > t), len(call.turns))
            offers = [name for one in call.turns[t + 1 : until + 1] for name in offered(one.system_acts)]
            results = ratings(knowledge.search(queries[t]), offers, seed, "rating", call.name, str(t))
            search = Search(queries[t], tuple(results))
        found.append(Round(turn, search, answer))
    return found


def _queries(call: Call) -> dict[int, Slots]:
    """Turn to the query made after it, in order."""
    made: dict[int, Slots] = {}
    last: Slots | None = None
    for t, (turn, answer) in enumerate(zip(call.turns, call.turns[1:], strict=False)):
        query = query_of(turn.goals)
        if query != last and any(act.act in _ANSWERS for act in answer.system_acts):
            made[t] = last = query
    return made


def query_of(goals: Slots) -> Slots:
    """The part of a state that restricts a search, in the order of an API call."""
    goal = {slot: value.lower() for slot, value in goals}
    return tuple((slot, goal[slot]) for slot in QUERY if goal.get(slot, DONTCARE) not in (DONTCARE, ""))


def offers_of(found: Sequence[Round]) -> Iterator[tuple[str, bool]]:
    """Each restaurant that the system offers, and whether the search before gave it."""
    given: set[str] = set()
    for one in found:
        if one.search is not None:
            given = {rated.restaurant.name for rated in one.search.results}
        if one.answer is not None:
            yield from ((name, name in given) for name in offered(one.answer.system_acts))
