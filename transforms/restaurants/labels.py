"""What users and bot do in dialogues of tasks 1 to 5, told by how a dialogue goes on, never by its words.

The first line greets. A line of the bot before any API call, after which the user gives a value, asks for it. After a
call, a turn of the user that leads to another call has had its updates, one before it is an update. The user rejects an
option where another one follows, and accepts the last. A line of the bot with a phone number gives it, so the user has
asked for it. What is left at the end are thanks, and that nothing else is wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from parapet.transforms.babi_format import SILENCE, BabiDialogue, Exchange, Fact
from parapet.transforms.restaurants.values import Relations, ValueFinder, bare

CALL = "api_call "


class Act(msgspec.Struct, frozen=True):
    """An act, as a key of the patterns such as ``ask.price``; its text with gaps for values, and these by gap.

    The act of a silent user is empty.
    """

    name: str
    pattern: str = ""
    values: dict[str, str] = {}


class Labelled(msgspec.Struct, frozen=True):
    """An exchange with its acts, and the facts before it."""

    user: Act
    bot: Act
    facts: tuple[Fact, ...] = ()


class Labeller:
    """Finds the acts of dialogues.

    Args:
      relations: which relations are fields and extras.
      facts: the knowledge base, and all facts of dialogues.

    Attributes:
      values: field to its values, and ``name`` to the entities, in the order of the facts.
    """

    def __init__(self, relations: Relations, facts: Iterable[Fact]) -> None:
        self.relations = relations
        found: dict[str, dict[str, None]] = {name: {} for name in ("name", *relations.fields, *relations.extras)}
        for fact in facts:
            found["name"][fact.entity] = None
            if (name := bare(fact.relation)) in found:
                found[name][fact.value] = None
        self.values = {name: list(values) for name, values in found.items()}
        self.of_user = ValueFinder({name: self.values[name] for name in ("name", *relations.fields)})
        self.of_bot = ValueFinder({name: self.values[name] for name in ("name", *relations.extras)})

    def label(self, dialogue: BabiDialogue) -> list[Labelled]:
        """The acts of each exchange."""
        return _Reader(self, dialogue).read()


class _Reader:
    """Reads one dialogue from its beginning, looking ahead."""

    def __init__(self, labeller: Labeller, dialogue: BabiDialogue) -> None:
        self.fields = labeller.relations.fields
        self.of_user, self.of_bot = labeller.of_user, labeller.of_bot
        self.exchanges: list[Exchange] = []
        self.facts: list[list[Fact]] = [[]]
        for line in dialogue.lines:
            if isinstance(line, Fact):
                self.facts[-1].append(line)
            elif isinstance(line, Exchange):
                self.exchanges.append(line)
                self.facts.append([])
        self.bots = [self._entities_of(one.bot) for one in self.exchanges]
        self.phase = "start"  # then asking, called, offering, reserved
        self.known: dict[str, str] = {}
        self.thanked = False

    def read(self) -> list[Labelled]:
        labelled: list[Labelled] = []
        last = ""
        for i, (exchange, facts) in enumerate(zip(self.exchanges, self.facts, strict=False)):
            user = self._user(i, last) if exchange.user != SILENCE else Act("")
            self.known |= user.values
            bot = self._bot(i, user)
            labelled.append(Labelled(user, bot, tuple(facts)))
            self._enter(user, bot)
            last = bot.name
        return labelled

    def _enter(self, user: Act, bot: Act) -> None:
        """The phase after an exchange."""
        if user.name == "accept" or bot.name == "reserve_by_name":
            self.phase = "reserved"
        elif bot.name in ("call", "option"):
            self.phase = {"call": "called", "option": "offering"}[bot.name]
        elif user.name == "request":
            self.phase = "asking"
        self.thanked = self.thanked or user.name == "thank"

    def _entities_of(self, text: str) -> Act:
        """An act of the bot that its text alone tells: a call, an option, what was asked about; or none."""
        if text.startswith(CALL):
            return Act("call", text)
        pattern, values = self.of_bot.find(text)
        for slot in values:
            act = "option" if slot == "name" else f"give.{slot}"
            return Act(act, pattern, values)
        return Act("", text)

    def _user(self, i: int, last: str) -> Act:
        text = " ".join(self.exchanges[i].user.split())
        pattern, values = self.of_user.find(text, self._likely(i))
        if i == 0 and not (values and self._plain_next(i)):
            return Act("greet", text)
        kind, _, asked = last.partition(".")
        if kind == "ask" and asked not in values:
            pattern, values = self.of_user.find(text)
        if kind == "ask" and asked in values:
            others = {name: value for name, value in values.items() if name != asked}
            return Act(f"answer.{asked}", _without_gaps(pattern, others), {asked: values[asked]})
        if self.phase == "start":
            return Act("request", pattern, values)
        if self.bots[i].name.startswith("give."):
            return Act(f"question.{self.bots[i].name.partition('.')[2]}", text)
        if self.phase == "called":
            if self._calls_next(i):
                return Act("no_more", text)
            if self._has("call", i):
                # A value that is changed once more is not that of the call.
                return Act("update", *((pattern, values) if values else self.of_user.find(text)))
        if self.phase == "offering":
            return Act("reject" if self._has("option", i) else "accept", text)
        if self.phase in ("called", "reserved"):
            return Act("decline" if self.thanked else "thank", text)
        return Act("request", pattern, values)

    def _bot(self, i: int, user: Act) -> Act:
        found = self.bots[i]
        if found.name:
            return found
        if user.name == "request" and "name" in user.values:
            return Act("reserve_by_name", found.pattern)
        if user.name in ("", "request", "answer") or user.name.startswith("answer."):
            asked = self._asked(i) if self.phase in ("start", "asking") else ""
            name = f"ask.{asked}" if asked else "acknowledge" if user.name == "request" else "search"
            return Act(name, found.pattern)
        if user.name == "thank":
            return Act("anything_else" if self.phase == "reserved" else "welcome", found.pattern)
        return Act(_ANSWERS[user.name], found.pattern)

    def _likely(self, i: int) -> Mapping[str, str] | None:
        """The values of the next call; without one, what all results have in common; None where nothing is known."""
        for bot in self.bots[i:]:
            if bot.name == "call":
                return dict(zip(self.fields, bot.pattern.split()[1:], strict=False))
        common: dict[str, set[str]] = {}
        if not any(bot.name == "call" for bot in self.bots):
            for fact in (fact for facts in self.facts for fact in facts):
                common.setdefault(bare(fact.relation), set()).add(fact.value)
        return {
            name: min(values) for name, values in common.items() if name in self.fields and len(values) == 1
        } or None

    def _asked(self, i: int) -> str:
        """The field whose value the user gives in the next turn, if that is not silent."""
        if i + 1 >= len(self.exchanges) or self.exchanges[i + 1].user == SILENCE:
            return ""
        text = self.exchanges[i + 1].user
        values = self.of_user.find(text, self._likely(i + 1)).values or self.of_user.find(text).values
        return next((name for name in self.fields if name in values and name not in self.known), "")

    def _has(self, act: str, i: int) -> bool:
        """Whether the bot does this from the exchange on."""
        return any(bot.name == act for bot in self.bots[i:])

    def _plain_next(self, i: int) -> bool:
        """Whether the next exchange is not the request."""
        return i + 1 < len(self.exchanges) and self.exchanges[i + 1].user == SILENCE

    def _calls_next(self, i: int) -> bool:
        """Whether the bot makes a call before the user speaks again."""
        for j in range(i, len(self.bots)):
            if j > i and self.exchanges[j].user != SILENCE:
                break
            if self.bots[j].name == "call":
                return True
        return False


def _without_gaps(pattern: str, values: Mapping[str, str]) -> str:
    """A pattern with these values filled in again."""
    for name, value in values.items():
        pattern = pattern.replace(f"{{{name}}}", value)
    return pattern


# Acts of the user to what the bot says then.
_ANSWERS = {
    "greet": "greet",
    "update": "updated",
    "no_more": "search_again",
    "reject": "another",
    "accept": "reserve",
    "decline": "farewell",
}
