"""A call in the format of dialog bAbI, as task 6 has it (Bordes et al. 2017, section 3.3)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from parapet.transforms.babi.reading import SILENCE, Exchange, Fact
from parapet.transforms.dstc2.calls import Call, CallTurn
from parapet.transforms.dstc2.knowledge import QUERY, RELATIONS, TOKENS, Knowledge, facts_about, offered, token
from parapet.transforms.dstc2.rounds import Round, Search

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
