"""A rule-based bot that solves the tasks (Bordes et al. 2017, section 4.1).

It knows the patterns of the domain, the names of its fields and extras, and the dialogue so far. It needs no values, no
entities, and nothing about how the dialogue was simulated. It interprets a turn by the bot's previous act, because the
same words may answer a question at one point and request a table at another.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from parapet.transforms.simulators import formats, restaurants_simulation

RATING = "R_rating"

_PIECE = re.compile(r"[^\W_]+(?:[-'_][^\W_]+)*|[^\W_]+")
_GAP = re.compile(r"\\\{(\w+)\\\}")
_HEADS = ("request", "update")

# Act of the bot to the user's possible next acts, the most probable first; "" is the beginning.
_EXPECTED = {
    "": ("greet", "request"),
    "greet": ("request",),
    "call": ("update", "thank", "no_more"),
    "updated": ("no_more", "update"),
    "option": ("accept", "reject"),
    **dict.fromkeys(("reserve", "reserve_by_name", "give"), ("thank", "question")),
    "anything_else": ("decline", "thank", "question"),
    **dict.fromkeys(("farewell", "welcome"), ("decline", "thank")),
}
_SAME = {"next_option": "option", "call_again": "call"}


class ValueFinder:
    """Finds values in texts.

    Args:
      slots: slot to its values, each a single word.
    """

    def __init__(self, slots: Mapping[str, Iterable[str]]) -> None:
        self._slots: dict[str, list[str]] = {}
        for slot, values in slots.items():
            for value in values:
                self._slots.setdefault(value, []).append(slot)

    def has(self, slot: str, value: str) -> bool:
        """Whether the slot has this value."""
        return slot in self._slots.get(value, ())

    def find(self, text: str) -> dict[str, str]:
        """Finds the values in a text by slot, the first of each.

        Args:
          text: words separated by spaces; values may have punctuation around them.
        """
        values: dict[str, str] = {}
        for word in text.split():
            for piece in [word] if word in self._slots else _PIECE.findall(word):
                if slots := [slot for slot in self._slots.get(piece, ()) if slot not in values]:
                    values[slots[0]] = piece
        return values


class Reading(NamedTuple):
    """An interpretation of an utterance: its act, values by field or ``name``, and whether a pattern matched."""

    act: str
    values: dict[str, str]
    understood: bool = True


_SILENCE = Reading("", {})
_MOST_READINGS = 10_000


class Rules:
    """The patterns of a domain, for interpreting utterances.

    Args:
      ontology: the domain; only its patterns and the names of its fields and extras are used.
      values: finds values of a knowledge base in turns that match no pattern; None to find no values there.
    """

    def __init__(self, ontology: restaurants_simulation.Ontology, values: ValueFinder | None = None) -> None:
        self.fields, self.values = ontology.names, values
        self.texts = ontology.patterns.bot_texts(self.fields)
        ways = ontology.patterns.user_ways()
        self._plain: dict[str, list[str]] = {}
        for act, texts in ways.items():
            if (act in restaurants_simulation.SIMPLE and act not in _HEADS) or act.startswith("question."):
                for text in texts:
                    self._plain.setdefault(text, []).append(act)
        # Longest first, as for phrases, because one may be a prefix of another.
        heads = sorted(((text, act) for act in _HEADS for text in ways.get(act, ())), key=lambda head: -len(head[0]))
        self._heads = [(re.compile(rf"{re.escape(text)}(?![^ ])"), act) for text, act in heads]
        phrases = [(text, act.partition(".")[2]) for act in ways if act.startswith("phrase.") for text in ways[act]]
        self._phrases = [(name, _matcher(text)) for text, name in sorted(phrases, key=lambda phrase: -len(phrase[0]))]
        self._answers = {name: [_matcher(text) for text in ways.get(f"answer.{name}", ())] for name in self.fields}
        self._bot: dict[str, str] = {}
        for act, text in self.texts.items():
            self._bot.setdefault(text, act)
        self._readings: dict[tuple[str, str], Reading] = {}  # cache of interpretations, because most turns recur
        self._options = [_matcher(self.texts[act]) for act in ("option", "next_option") if act in self.texts]

    def understand(self, text: str, last: str) -> Reading:
        """Interprets an utterance; guess if no pattern matches.

        Args:
          text: the utterance.
          last: the previous act of the bot; empty at the beginning.
        """
        if (reading := self._readings.get((text, last))) is None:
            if len(self._readings) >= _MOST_READINGS:
                self._readings.clear()
            reading = self._readings[text, last] = self._understand(" ".join(text.split()), last)
        return reading

    def _understand(self, text: str, last: str) -> Reading:
        kind, _, field = last.partition(".")
        expected = _EXPECTED.get(kind, ())
        if kind == "ask":
            readings = [{field: match[1]} for answer in self._answers[field] if (match := answer.fullmatch(text))]
            if readings:
                return self._likely("answer", readings, text)
        if plain := self._plain.get(text, []):
            plain_kinds = {act.partition(".")[0]: act for act in plain}
            for act in expected:
                if act in plain_kinds:
                    return Reading(plain_kinds[act], {})
        for in_place in (True, False):
            for head, act in self._heads:
                begins = head.match(text) if (act in expected) == in_place else None
                if begins and (parses := self._parses(text, begins.end())):
                    return self._likely(act, parses, text)
        return Reading(plain[0], {}) if plain else self._guess(text, kind, field)

    def _parses(self, text: str, at: int) -> list[dict[str, str]]:
        """Returns the values of consecutive phrases up to the end.

        Without a knowledge base to choose by, only the first parse is returned.
        """
        return list(islice(self._phrase_values(text, at), None if self.values else 1))

    def _phrase_values(self, text: str, at: int) -> Iterator[dict[str, str]]:
        """Yields the values of consecutive phrases up to the end, each after a space; several if ambiguous."""
        if at == len(text):
            yield {}
            return
        for name, phrase in self._phrases:
            if match := phrase.match(text, at + 1):
                for values in self._phrase_values(text, match.end()):
                    yield {name: match[1], **values}

    def _likely(self, act: str, parses: Sequence[dict[str, str]], text: str) -> Reading:
        """Chooses the first parse whose values are in the knowledge base; without a knowledge base, the first."""
        if self.values is None:
            return Reading(act, parses[0])
        for values in parses:
            if all(self.values.has(name, value) for name, value in values.items()):
                return Reading(act, values)
        known = self.values.find(text)
        for values in parses:  # other values are not in the knowledge base
            if all(values.get(name) == value for name, value in known.items()):
                return Reading(act, values)
        return Reading(act, known, understood=False)

    def _guess(self, text: str, last: str, asked: str) -> Reading:
        """Guesses the most probable act after the bot's last one, with the values of the knowledge base in the text."""
        values = self.values.find(text) if self.values else {}
        acts = _EXPECTED.get(last, ())
        if last == "ask":
            act = "answer"
            values = {asked: values[asked]} if asked in values else values
        elif values and "update" in acts:
            act = "update"
        elif last in ("", "greet"):
            act = "request" if values or last else "greet"
        else:
            act = self._nearest(text, [kind for kind in acts if kind != "update"])
        return Reading(act, values, understood=False)

    def _nearest(self, text: str, kinds: Sequence[str]) -> str:
        """Returns the act of these kinds with the pattern most similar by words; the first kind if none is similar."""
        words = set(text.split())
        best, nearest = 0.0, kinds[0] if kinds else "other"
        for pattern, acts in self._plain.items():
            known = set(pattern.split())
            share = len(words & known) / len(words | known)
            for act in acts:
                if share > best and act.partition(".")[0] in kinds:
                    best, nearest = share, act
        return nearest

    def act_of(self, text: str) -> tuple[str, str]:
        """Returns the act of the bot's text (the text itself if it has none), and the entity offered, if any."""
        for option in self._options:
            if match := option.fullmatch(text):
                return "option", match[1]
        return self._bot.get(text, "call" if text.startswith("api_call ") else text), ""


# Acts of the user to the bot's answers, if these do not depend on the dialogue so far.
ANSWERS = {
    "greet": "greet",
    "request": "acknowledge",
    "update": "updated",
    "no_more": "search_again",
    "reject": "another",
    "accept": "reserve",
    "question": "give",
    "decline": "farewell",
}


class Bot:
    """The bot in one dialogue.

    Args:
      rules: the rules of the domain.

    Attributes:
      not_understood: the number of the user's turns that matched no pattern.
    """

    def __init__(self, rules: Rules) -> None:
        self.rules, self.not_understood = rules, 0
        self._facts: dict[str, dict[str, str]] = {}
        self._wishes: dict[str, str] = {}
        self._user = ""  # the user's last act
        self._reserved, self._asked_about = "", ""  # an entity and an extra
        self._results: dict[str, None] = {}  # entities with facts since the last call; before the first call, all
        self._offered: list[str] = []
        self._calls = 0
        self._last = ""  # the bot's last act
        self._own = ("", "", "")  # the text of its last answer, its act, and the entity that it offers

    def read(self, fact: formats.Fact) -> None:
        """Reads a fact in the dialogue."""
        self._facts.setdefault(fact.entity, {})[fact.relation] = fact.value
        self._results[fact.entity] = None

    def answer(self, user: str) -> str:
        """Returns the answer to an utterance of the user; empty if no rule applies."""
        reading = _SILENCE if user == formats.SILENCE else self.rules.understand(user, self._last)
        self.not_understood += not reading.understood
        self._take(reading.act, reading.values)
        act = self._next_act()
        values, offered = self._wishes, ""
        if act == "ask":
            act = f"ask.{self._missing}"
        elif act == "option":
            offered = self._best
            values = {**values, "name": offered}
            act = "next_option" if self._offered else "option"
        elif act == "give":
            extra = self._asked_about
            act, values = f"give.{extra}", {extra: self._facts.get(self._reserved, {}).get(f"R_{extra}", "")}
        elif act == "call" and self._missing:
            values = values | {name: f"R_{name}" for name in self.rules.fields if name not in values}
        texts = self.rules.texts
        text = texts.get(act) or (texts["farewell"] if act == "welcome" else "")
        if "{" in text:
            for name, value in values.items():
                text = text.replace(f"{{{name}}}", value)
        self._own = (text, act, offered)
        return text

    def hear(self, text: str) -> None:
        """Updates the state with the right answer, which may differ from the bot's own."""
        own, act, offered = self._own
        if text != own:
            act, offered = self.rules.act_of(text)
        self._last = _SAME.get(act, act)
        if offered:
            self._offered.append(offered)
        if self._last == "call":
            self._calls += 1
            self._offered, self._results = [], dict.fromkeys(self._results) if self._calls == 1 else {}

    def _take(self, act: str, values: Mapping[str, str]) -> None:
        """Updates the state with the user's act; ``""`` for silence."""
        self._user, _, name = act.partition(".")
        if self._user == "question":
            self._asked_about = name
        for field, value in values.items():
            if field == "name":
                self._reserved = value
            else:
                self._wishes[field] = value
        if act == "accept" and self._offered:
            self._reserved = self._offered[-1]

    @property
    def _missing(self) -> str:
        """The next field to ask for; empty if all are known."""
        return next((name for name in self.rules.fields if name not in self._wishes), "")

    @property
    def _best(self) -> str:
        """The entity with the highest rating that was not offered yet; empty if none is left."""
        return formats.best_rated([name for name in self._results if name not in self._offered], self._facts, RATING)

    def _next_act(self) -> str:
        """Returns the bot's next act in the course of the tasks; empty if there is none."""
        user = self._user
        if user == "answer" or (user == "" and self._last == "acknowledge"):
            return "ask" if self._missing else "search"
        if user == "":
            return "option" if self._best else "call"
        if user == "request" and self._reserved:
            return "reserve_by_name"
        if user == "thank":
            return "welcome" if self._last == "call" else "anything_else"
        return ANSWERS.get(user, "")


def solve(rules: Rules, dialogue: formats.BabiDialogue) -> list[bool]:
    """Returns for each answer whether the bot finds it after the right dialogue so far."""
    return [answer == line.bot for line, answer in answered(Bot(rules), dialogue)]


def answered(bot: Bot, dialogue: formats.BabiDialogue) -> Iterator[tuple[formats.Exchange, str]]:
    """Yields each exchange of a dialogue with the bot's answer after the right dialogue so far."""
    for line in dialogue.lines:
        if isinstance(line, formats.Exchange):
            yield line, bot.answer(line.user)
            bot.hear(line.bot)
        elif isinstance(line, formats.Fact):
            bot.read(line)


def _matcher(pattern: str) -> re.Pattern[str]:
    """Compiles a pattern with one gap, which matches one word, up to a space or the end."""
    return re.compile(_GAP.sub(r"(\\S+)", re.escape(pattern)) + r"(?!\S)")
