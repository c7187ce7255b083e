"""Learns an ontology from dialogues of tasks 1 to 5 and their knowledge base.

An ontology has patterns, fields, and shares of the structure.

The sentences of published files belong to their authors, so Parapet's ontologies have others. From the user's own copy
of the files this module extracts their patterns for the rule-based bot and for ``parapet restaurants``, which then
simulates dialogues in the same words.

Acts of users and bot are inferred from how a dialogue goes on, never from words. The first line greets. A line of the
bot before any API call asks for a field if the user then gives its value. After a call, a turn of the user that leads
to another call follows the last update, and the turns before it are updates. The user rejects an option if another one
follows, and accepts the last. A line of the bot with a phone number answers a question about it. The remaining turns at
the end are thanks, and the answer that nothing else is needed.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from parapet.schemas.errors import InputError
from parapet.transforms.simulators.babi_format import SILENCE, BabiDialogue, Exchange, Fact
from parapet.transforms.simulators.common import slots_of
from parapet.transforms.simulators.restaurants.bot import (
    ANSWERS,
    RATING,
    Bot,
    Course,
    Rules,
    State,
    ValueFinder,
    reply_key,
)
from parapet.transforms.simulators.restaurants.ontology import parse_ontology

_STARS = re.compile(r"[0-9]+stars")
_DISTINCT = 0.9  # the minimum ratio of values to entities for a relation about the entity itself
CALL = "api_call "


class Learned(msgspec.Struct, frozen=True):
    """The result of learning.

    Attributes:
      ontology: the ontology as a TOML table.
      values: field to its values in the knowledge base, and ``name`` to its entities.
      course: the deviations of the dialogues from the usual course.
      dropped: (act, pattern) of ambiguous patterns: the same words are another act at the same point.
    """

    ontology: dict[str, Any]
    values: dict[str, list[str]]
    course: Course
    dropped: list[tuple[str, str]]

    def rules(self) -> Rules:
        """Create the rules for the bot."""
        ontology = parse_ontology(self.ontology, "", simulated=False)
        return Rules(ontology, ValueFinder(self.values), self.course)


def learn(dialogues: Sequence[BabiDialogue], knowledge: Sequence[Fact], path: object) -> Learned:
    """Learn from dialogues.

    Args:
      dialogues: dialogues of one or more of the tasks 1 to 5.
      knowledge: the facts of the knowledge base, including those of the out-of-vocabulary test.
      path: the path of the knowledge base, for messages.

    Raises:
      InputError: the calls have values that belong to no relation of the knowledge base.
    """
    answers = [exchange.bot for dialogue in dialogues for exchange in dialogue.exchanges]
    calls = [answer.split()[1:] for answer in answers if answer.startswith(CALL)]
    facts = [fact for dialogue in dialogues for fact in dialogue.facts]
    relations = relations_of(knowledge, calls, [fact.relation for fact in facts], path)
    if not relations.fields:
        raise InputError(
            "has no relation whose values several entities share: check that it belongs to these dialogues", path
        )
    values = _values([*knowledge, *facts], ("name", *relations.fields))
    finders = ValueFinder(values), ValueFinder(_values([*knowledge, *facts], ("name", *relations.extras)))
    labelled = [_Reader(dialogue, *finders, relations.fields).read() for dialogue in dialogues]
    patterns, dropped = _patterns(labelled, relations)
    user_values = {value for dialogue in labelled for exchange in dialogue for value in exchange.user.values.values()}
    user_values |= {value for call in calls for value in call} | {fact.value for fact in facts}
    ontology = {
        **_domain(relations, knowledge, values, user_values),
        "default_patterns": False,
        "patterns": patterns,
        "structure": _structure(labelled, relations),
    }
    parse_ontology(ontology, path, simulated=False)  # raises for names that an ontology cannot have
    asks = _asks(labelled, relations.fields)
    course = Course(asks if asks != relations.fields else (), _acts(labelled, asks))
    learned = Learned(ontology, values, course, dropped)
    replies = _replies(dialogues, *finders, learned.rules())
    return msgspec.structs.replace(learned, course=msgspec.structs.replace(course, replies=replies))


def _patterns(
    labelled: Iterable[Sequence[Labelled]], relations: Relations
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the table ``patterns``, the most frequent first, and the patterns that cannot be used."""
    users: dict[str, Counter[str]] = {}
    bots: dict[str, Counter[str]] = {}
    turns: list[tuple[str, str]] = []
    for exchange in (exchange for dialogue in labelled for exchange in dialogue):
        if exchange.user.name in ("request", "update"):
            turns.append((exchange.user.name, exchange.user.pattern))
        elif exchange.user.name:
            users.setdefault(exchange.user.name, Counter())[exchange.user.pattern] += 1
        bots.setdefault(exchange.bot.name, Counter())[exchange.bot.pattern] += 1
    heads, phrases = split_turns(turns)
    ways = {act: [text for text, _ in counts.most_common()] for act, counts in users.items()}
    ways |= heads | {f"phrase.{name}": texts for name, texts in phrases.items()}
    if "option" in bots:
        bots["next_option"] = bots["option"]
    texts = {act: [counts.most_common(1)[0][0]] for act, counts in bots.items() if act != "call"}
    if texts.get("welcome") == texts.get("farewell"):
        texts.pop("welcome", None)
    elif "farewell" not in texts and "welcome" in texts:
        texts["farewell"] = texts.pop("welcome")
    dropped: list[tuple[str, str]] = []
    table: dict[str, Any] = {"user": {}, "bot": {}}
    for side, of_side in (("user", ways), ("bot", texts)):
        for act, patterns in of_side.items():
            usable = [text for text in patterns if _usable(act, text)]
            dropped += [(act, text) for text in patterns if text not in usable]
            kind, _, name = act.partition(".")
            place = table[side].setdefault(kind, {}) if name else table[side]
            place[name or kind] = usable if side == "user" else "".join(usable)
    return table, dropped


def _usable(act: str, text: str) -> bool:
    """Whether a text has the gap for its value exactly once, and no other gap."""
    kind, _, name = act.partition(".")
    gap = {"option": "name", "next_option": "name"}.get(kind, name if kind in ("phrase", "answer", "give") else "")
    braces = text.count("{") + text.count("}")
    return text.count(f"{{{gap}}}") == 1 and braces == 2 if gap else not braces


def _domain(
    relations: Relations, knowledge: Iterable[Fact], values: Mapping[str, Sequence[str]], seen: set[str]
) -> dict[str, Any]:
    """Return an ontology's keys about its entities.

    Most are part of names such as ``resto_rome_cheap_thai_2stars``.
    """
    entities: dict[str, dict[str, str]] = {}
    for fact in knowledge:
        entities.setdefault(fact.entity, {})[fact.relation] = fact.value
    orders: Counter[tuple[str, ...]] = Counter()
    for name, known in entities.items():
        _, *parts, stars = name.split("_") if name.count("_") > 1 else (name, "", "")
        of_value = {known[relation]: bare(relation) for relation in known if bare(relation) in relations.fields}
        fits = _STARS.fullmatch(stars) and all(part in of_value for part in parts)
        orders[tuple(of_value[part] for part in parts) if fits else ()] += 1
    order = orders.most_common(1)[0][0]
    ratings = [int(known[RATING]) for known in entities.values() if known.get(RATING, "").isdecimal()]
    entity = next(iter(entities)).partition("_")[0]
    fields = []
    for name in relations.fields:
        unseen = [value for value in values[name] if value not in seen]
        halves = {"seen": [value for value in values[name] if value in seen], "unseen": unseen}
        once = {"one_each": True} if order and name not in order else {}
        fields.append({"name": name, **(halves if unseen else {"values": list(values[name])}), **once})
    return {
        "domain": re.sub("[^A-Za-z0-9-]", "", entity).lstrip("0123456789-")[:50] or "entity",
        "entity": entity,
        **({"name": list(order)} if order else {}),
        "ratings": min(max(ratings, default=8), 1000),
        "extras": list(relations.extras),
        "fields": fields,
    }


def _structure(labelled: Iterable[Sequence[Labelled]], relations: Relations) -> dict[str, Any]:
    """Return the table ``structure`` with the ranges and shares in the dialogues."""
    given_fields: dict[int, set[int]] = {}
    updates: dict[int, set[int]] = {}
    options: Counter[int] = Counter()
    chances = accepted = questions_here = asked_all = 0
    for dialogue in labelled:
        task = _task_of(dialogue)
        users = Counter(pair.user.name.partition(".")[0] for pair in dialogue)
        if task != 4:
            given_fields.setdefault(task, set()).update(
                len(pair.user.values) for pair in dialogue if pair.user.name == "request"
            )
        if users["update"] and task in (2, 5):
            # one field may change twice
            updates.setdefault(task, set()).add(min(users["update"], len(relations.fields)))
        if task in (3, 5):
            entities = len({fact.entity for pair in dialogue for fact in pair.facts})
            proposals = sum(pair.bot.name == "option" for pair in dialogue)
            options[entities] += task == 3
            chances += min(proposals, entities - 1)
            accepted += proposals < entities
        questions = {pair.user.name for pair in dialogue if pair.user.name.startswith("question.")}
        questions_here += bool(questions)
        asked_all += len(questions) == len(relations.extras) > 0
    table: dict[str, Any] = {}
    for key, found_ in (("given", given_fields), ("updates", updates)):
        if found_:
            table[key] = {
                f"task{task}": [min(numbers), max(numbers)] for task, numbers in sorted(found_.items()) if numbers
            }
    if numbers := +options:
        table["options"] = {str(n): round(count / numbers.total(), 3) for n, count in sorted(numbers.items()) if n}
    if chances > 0:
        table["accepted"] = round(accepted / chances, 3)
    if questions_here and len(relations.extras) > 1:
        table["all_extras"] = round(asked_all / questions_here, 3)
    return table


def _task_of(dialogue: Iterable[Labelled]) -> int:
    """Infer the task of a dialogue from its acts."""
    acts = Counter(name for exchange in dialogue for name in (exchange.user.name, exchange.bot.name))
    if acts["reserve_by_name"]:
        return 4
    if acts["option"]:
        return 5 if acts["call"] else 3
    return 2 if acts["call"] > 1 or acts["update"] else 1


def _asks(labelled: Iterable[Sequence[Labelled]], fields: Sequence[str]) -> tuple[str, ...]:
    """Return the fields in the order in which the bot asks for them; undetermined ones in the order of the calls."""
    before: Counter[tuple[str, str]] = Counter()
    for dialogue in labelled:
        fields_here = [
            exchange.bot.name.partition(".")[2] for exchange in dialogue if exchange.bot.name.startswith("ask.")
        ]
        before.update(itertools.combinations(fields_here, 2))
    later = {name: sum(before[other, name] > before[name, other] for other in fields) for name in fields}
    return tuple(sorted(fields, key=lambda name: later[name]))


def _acts(labelled: Iterable[Sequence[Labelled]], asks: Sequence[str]) -> dict[str, str]:
    """Return the bot's most frequent act in each situation, if it differs from the usual act."""
    done: dict[str, Counter[str]] = {}
    usual: dict[str, str] = {}
    for dialogue in labelled:
        state = State(asks)
        for exchange in dialogue:
            for fact in exchange.facts:
                state.read(fact)
            state.take(exchange.user.name, exchange.user.values)
            usual.setdefault(state.situation, state.usual())
            done.setdefault(state.situation, Counter())[exchange.bot.name.partition(".")[0]] += 1
            state.done(exchange.bot.name, exchange.bot.values.get("name", "") if exchange.bot.name == "option" else "")
    most = {situation: acts.most_common(1)[0][0] for situation, acts in sorted(done.items())}
    return {situation: act for situation, act in most.items() if act != usual[situation]}


def _values(facts: Iterable[Fact], names: Iterable[str]) -> dict[str, list[str]]:
    """Return relation to its values, and ``name`` to the entities, in the order of the facts."""
    values: dict[str, dict[str, None]] = {name: {} for name in names}
    for fact in facts:
        values["name"][fact.entity] = None
        if (name := bare(fact.relation)) in values:
            values[name][fact.value] = None
    return {name: list(of_name) for name, of_name in values.items()}


def _replies(
    dialogues: Iterable[BabiDialogue], of_user: ValueFinder, of_bot: ValueFinder, rules: Rules
) -> dict[str, str]:
    """Return texts without values that the rules do not find although they always follow the same context."""
    replies: dict[str, set[str]] = {}
    wrong: set[str] = set()
    for dialogue in dialogues:
        bot = Bot(rules)
        for line in dialogue.lines:
            if isinstance(line, Fact):
                bot.read(line)
            if not isinstance(line, Exchange):
                continue
            key = reply_key(bot.state.last, line.user)
            plain = not of_user.find(line.user).values and not of_bot.find(line.bot).values
            replies.setdefault(key, set()).add(line.bot)
            if bot.answer(line.user) != line.bot and plain and not line.bot.startswith(CALL):
                wrong.add(key)
            bot.hear(line.bot)
    return {key: min(replies[key]) for key in sorted(wrong) if len(replies[key]) == 1}


class Act(msgspec.Struct, frozen=True):
    """An act (a key of the patterns such as ``ask.price``), its text with gaps for values, and the values by gap.

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


class _Reader:
    """Labels the acts of one dialogue from its beginning, looking ahead."""

    def __init__(
        self, dialogue: BabiDialogue, of_user: ValueFinder, of_bot: ValueFinder, fields: Sequence[str]
    ) -> None:
        self.fields, self.of_user, self.of_bot = fields, of_user, of_bot
        self.exchanges: list[Exchange] = []
        self.facts: list[list[Fact]] = [[]]
        for line in dialogue.lines:
            if isinstance(line, Fact):
                self.facts[-1].append(line)
            elif isinstance(line, Exchange):
                self.exchanges.append(line)
                self.facts.append([])
        self.bots = [self._entities_of(exchange.bot) for exchange in self.exchanges]
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
        """Enter the phase after an exchange."""
        if user.name == "accept" or bot.name == "reserve_by_name":
            self.phase = "reserved"
        elif bot.name in ("call", "option"):
            self.phase = {"call": "called", "option": "offering"}[bot.name]
        elif user.name == "request":
            self.phase = "asking"
        self.thanked = self.thanked or user.name == "thank"

    def _entities_of(self, text: str) -> Act:
        """Return an act of the bot evident from its text: a call, an option, an answer; else an empty act."""
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
        kind, _, field = last.partition(".")
        if kind == "ask" and field not in values:
            pattern, values = self.of_user.find(text)
        if kind == "ask" and field in values:
            others = {name: value for name, value in values.items() if name != field}
            return Act(f"answer.{field}", _without_gaps(pattern, others), {field: values[field]})
        if self.phase == "start":
            return Act("request", pattern, values)
        if self.bots[i].name.startswith("give."):
            return Act(f"question.{self.bots[i].name.partition('.')[2]}", text)
        if self.phase == "called":
            if self._calls_next(i):
                return Act("no_more", text)
            if self._has("call", i):
                # A value that is changed again differs from the value in the call.
                return Act("update", *((pattern, values) if values else self.of_user.find(text)))
        if self.phase == "offering":
            return Act("reject" if self._has("option", i) else "accept", text)
        if self.phase in ("called", "reserved"):
            return Act("decline" if self.thanked else "thank", text)
        return Act("request", pattern, values)

    def _bot(self, i: int, user: Act) -> Act:
        act = self.bots[i]
        if act.name:
            return act
        if user.name == "request" and "name" in user.values:
            return Act("reserve_by_name", act.pattern)
        if user.name in ("", "request", "answer") or user.name.startswith("answer."):
            fields = self._asked(i) if self.phase in ("start", "asking") else ""
            name = f"ask.{fields}" if fields else "acknowledge" if user.name == "request" else "search"
            return Act(name, act.pattern)
        if user.name == "thank":
            return Act("anything_else" if self.phase == "reserved" else "welcome", act.pattern)
        return Act(ANSWERS[user.name], act.pattern)

    def _likely(self, i: int) -> Mapping[str, str] | None:
        """Return the values of the next call; without calls, the values common to all results; None if unknown."""
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
        """Return the field whose value the user gives in the next turn; empty if the user is silent or gives none."""
        if i + 1 >= len(self.exchanges) or self.exchanges[i + 1].user == SILENCE:
            return ""
        text = self.exchanges[i + 1].user
        values = self.of_user.find(text, self._likely(i + 1)).values or self.of_user.find(text).values
        return next((name for name in self.fields if name in values and name not in self.known), "")

    def _has(self, act: str, i: int) -> bool:
        """Whether the bot performs an act in this exchange or later."""
        return any(bot.name == act for bot in self.bots[i:])

    def _plain_next(self, i: int) -> bool:
        """Whether the user is silent in the next exchange, so that it is not the request."""
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
    """Fill these values into a pattern again."""
    for name, value in values.items():
        pattern = pattern.replace(f"{{{name}}}", value)
    return pattern


class Relations(NamedTuple):
    """The kinds of relations in a knowledge base; names are without ``R_``.

    Attributes:
      fields: the fields of API calls in order.
      extras: the properties that users may ask about; nearly every entity has its own value.
    """

    fields: tuple[str, ...]
    extras: tuple[str, ...]


def relations_of(
    facts: Sequence[Fact], calls: Iterable[Sequence[str]], order: Sequence[str], path: object
) -> Relations:
    """Classify the relations as fields and extras.

    Args:
      facts: the knowledge base.
      calls: the values of each API call.
      order: relations in the order of dialogues; without calls it determines the order of fields.
      path: the path of the knowledge base, for messages.

    Raises:
      InputError: the values of the calls do not belong to relations.
    """
    values: dict[str, set[str]] = {}
    entities: dict[str, set[str]] = {}
    for fact in facts:
        values.setdefault(fact.relation, set()).add(fact.value)
        entities.setdefault(fact.relation, set()).add(fact.entity)
    names = [relation for relation in dict.fromkeys((*order, *values)) if relation in values and relation != RATING]
    own = [name for name in names if len(entities[name]) > 1 and len(values[name]) > _DISTINCT * len(entities[name])]
    columns = [set(column) for column in zip(*calls, strict=False)]
    if columns:
        fields = _fields_of(columns, {name: values[name] for name in names}, path)
    else:
        fields = [name for name in names if name not in own]
    extras = [name for name in own if name not in fields]
    return Relations(tuple(map(bare, fields)), tuple(map(bare, extras)))


def bare(relation: str) -> str:
    """Return ``cuisine`` for ``R_cuisine``."""
    return relation.removeprefix("R_")


def _fields_of(columns: Sequence[set[str]], values: Mapping[str, set[str]], path: object) -> list[str]:
    """Return a relation for each position of the calls: the one with most of its values; ties go to the smallest."""
    fields: list[str] = []
    for place, column in enumerate(columns, 1):
        fits = [(-len(column & known), len(known), name) for name, known in values.items() if name not in fields]
        shared, _, best = min(fits, default=(0, 0, ""))
        if not shared:
            example = min(column)
            reason = (
                f"has none of the values in place {place} of api_call, such as {example!r}: check that it "
                "belongs to this domain"
            )
            raise InputError(reason, path)
        fields.append(best)
    return fields


ROUNDS = 12
MOST = 500  # the maximum number of turns to estimate counts from
_NEW = 0.02  # count of a new part, ...
_WORD = 0.2  # ... multiplied by this for each of its words

_Words = tuple[str, ...]
_Part = tuple[str, _Words, _Words]  # (act of a head or gap of a phrase, words before the gap, words after it)


def split_turns(turns: Iterable[tuple[str, str]]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Split requests and updates into a head and phrases with one value each, the most frequent first.

    In "may i have a table in {location} for {number} people" nothing marks the end of the head, or tells whether
    "people" belongs to the number. Other requests do: the best splits explain many requests by few shared parts. The
    method is expectation maximisation over all splits, with a prior for few and short parts, as in unsupervised word
    segmentation.

    Args:
      turns: (act, text with gaps such as ``{price}``).

    Returns:
      Act to the heads of its turns, and slot to the phrases with its gap.
    """
    lattices = [_Lattice(*turn) for turn in dict.fromkeys(turns)]
    usable = [lattice for lattice in lattices if lattice.head]
    chances = _Chances({})
    for _ in range(ROUNDS):
        counts: dict[_Part, float] = {}
        for lattice in usable[:: -(-len(usable) // MOST) or 1]:
            lattice.expect(chances, counts)
        chances = _Chances(counts)
    parts: Counter[_Part] = Counter()
    for lattice in usable:
        parts.update(lattice.best(chances))
    heads: dict[str, list[str]] = {}
    phrases: dict[str, list[str]] = {}
    for (name, before, after), _ in sorted(parts.items(), key=lambda item: (-item[1], item[0])):
        if slots := slots_of(name):
            phrases.setdefault(slots[0], []).append(" ".join((*before, name, *after)))
        else:
            heads.setdefault(name, []).append(" ".join(before))
    return heads, phrases


class _Lattice:
    """All splits of a turn.

    Args:
      act: the act of the turn.
      text: the text with gaps, at most one per word.
    """

    def __init__(self, act: str, text: str) -> None:
        self.act = act
        words = text.split()
        places = [i for i, word in enumerate(words) if slots_of(word)]
        self.slots = [words[i] for i in places]
        edges = [-1, *places, len(words)]
        self.between: list[_Words] = [tuple(words[a + 1 : b]) for a, b in itertools.pairwise(edges)]
        self.head = self.between[0]

    def _columns(self) -> list[list[int]]:
        """Return the possible splits of each sequence of words between values.

        The last sequence belongs to the last value.
        """
        first = range(1, len(self.head) + 1) if self.slots else [len(self.head)]
        inner = [range(len(words) + 1) for words in self.between[1:-1]]
        return [list(first), *map(list, inner), *([[len(self.between[-1])]] if self.slots else [])]

    def _part(self, i: int, start: int, end: int) -> _Part:
        """Return the head for i = 0, or phrase i, between a split before its value and a split after it."""
        if i == 0:
            return self.act, self.head[:end], ()
        return self.slots[i - 1], self.between[i - 1][start:], self.between[i][:end]

    def expect(self, chances: _Chances, counts: dict[_Part, float]) -> None:
        """Add the expected counts of parts in this turn."""
        columns = self._columns()
        forward = [{split: chances[self._part(0, 0, split)] for split in columns[0]}]
        for i in range(1, len(columns)):
            forward.append(
                {
                    end: sum(n * chances[self._part(i, start, end)] for start, n in forward[-1].items())
                    for end in columns[i]
                }
            )
        backward: dict[int, float] = dict.fromkeys(columns[-1], 1.0)
        total = sum(forward[-1].values())
        for i in range(len(columns) - 1, 0, -1):
            before: dict[int, float] = dict.fromkeys(columns[i - 1], 0.0)
            for start, n in forward[i - 1].items():
                for end, rest in backward.items():
                    part = self._part(i, start, end)
                    chance = chances[part] * rest
                    before[start] += chance
                    counts[part] = counts.get(part, 0.0) + n * chance / total
            backward = before
        for split, rest in backward.items():
            part = self._part(0, 0, split)
            counts[part] = counts.get(part, 0.0) + forward[0][split] * rest / total

    def best(self, chances: _Chances) -> Sequence[_Part]:
        """Return the parts of the most probable split."""
        columns = self._columns()
        paths: dict[int, tuple[float, tuple[_Part, ...]]] = {}
        for split in columns[0]:
            part = self._part(0, 0, split)
            paths[split] = (math.log(chances[part]), (part,))
        for i in range(1, len(columns)):
            extended: dict[int, tuple[float, tuple[_Part, ...]]] = {}
            for end in columns[i]:
                parts = [(start, self._part(i, start, end)) for start in paths]
                extended[end] = max(
                    ((paths[start][0] + math.log(chances[part]), (*paths[start][1], part)) for start, part in parts),
                    key=lambda path: path[0],
                )
            paths = extended
        return max(paths.values(), key=lambda path: path[0])[1]


class _Chances(dict[_Part, float]):
    """The probabilities of parts, including new ones, from their expected counts."""

    def __init__(self, counts: dict[_Part, float]) -> None:
        super().__init__()
        self._counts = counts
        self._sums: dict[str, float] = {}
        for (name, _, _), n in counts.items():
            self._sums[name] = self._sums.get(name, 0.0) + n

    def __missing__(self, part: _Part) -> float:
        name, before, after = part
        new = _NEW * _WORD ** (len(before) + len(after))
        self[part] = (self._counts.get(part, 0.0) + new) / (self._sums.get(name, 0.0) + _NEW)
        return self[part]
