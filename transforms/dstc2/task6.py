"""A call as dialog bAbI task 6 has it (Bordes et al. 2017, section 3.3): rounds with their searches, and lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from parapet.transforms.babi_format import SILENCE, Exchange, Fact
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


FAREWELL = "you are welcome"  # what task 6 has the bot answer to the last words, which DSTC2 leaves unanswered
NO_RESULT = Fact("api_call", "no", "result")  # a line of three words, as facts are


class Words:
    """Values of several words, which task 6 writes as one: ``asian_oriental``.

    Args:
      knowledge: its names and values.
      others: the ontology's.
    """

    def __init__(self, knowledge: Knowledge, others: Iterable[str]) -> None:
        values = {value for one in knowledge.restaurants for slot, value in one.values if slot in QUERY}
        values |= {one.name for one in knowledge.restaurants} | set(others)
        several = sorted({value for value in values if " " in value}, key=lambda value: (-len(value), value))
        self._pattern = _any_of(several)

    def joined(self, text: str) -> str:
        """The text with these values as one word each."""
        return self._pattern.sub(lambda found: token(found[0]), text) if self._pattern else text


def _any_of(values: Sequence[str]) -> re.Pattern[str] | None:
    """Finds any of the values, as whole words in any case; the first given goes before those that follow."""
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, values))})(?!\w)", re.IGNORECASE) if values else None


def lines_of(call: Call, found: Sequence[Round], words: Words) -> list[Fact | Exchange]:
    """The lines of a call."""
    bot = _Bot(words)
    lines: list[Fact | Exchange] = [Exchange(SILENCE, bot.says(call.turns[0]))]
    for one in found:
        user = words.joined(one.asked.user) or SILENCE
        if one.search is not None:
            lines.append(Exchange(user, api_call(one.search)))
            lines += _facts(one.search)
            user = SILENCE
        lines.append(Exchange(user, bot.says(one.answer) if one.answer is not None else FAREWELL))
    return lines


def api_call(search: Search) -> str:
    """``api_call chinese R_location cheap``."""
    asked = dict(search.query)
    return " ".join(["api_call", *(token(asked[slot]) if slot in asked else RELATIONS[slot] for slot in QUERY)])


def _facts(search: Search) -> list[Fact]:
    return [fact for one in search.results for fact in facts_about(one.restaurant, one.rating)] or [NO_RESULT]


class _Bot:
    """The system's prompts in order: a phone number is that of the restaurant it offered last."""

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
        return self.words.joined(text) or SILENCE
