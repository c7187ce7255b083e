"""A rule-based bot that solves the tasks (Bordes et al. 2017, section 4.1).

It knows the patterns of the domain, the names of its fields and extras, and the dialogue so far. It knows no values, no
entities, and nothing about how the dialogue was simulated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from parapet.transforms.babi_format import SILENCE, BabiDialogue, Exchange, Fact
from parapet.transforms.restaurants.ontology import Ontology
from parapet.transforms.restaurants.patterns import SIMPLE

_GAP = re.compile(r"\\\{(\w+)\\\}")
_HEADS = ("request", "update")


class Rules:
    """The patterns of a domain, for recognition.

    Args:
      ontology: the domain; only the names of its fields and extras are used.
    """

    def __init__(self, ontology: Ontology) -> None:
        self.fields = ontology.names
        self.texts = ontology.patterns.bot_texts(self.fields)
        ways = ontology.patterns.user_ways()
        self._plain = {text: act for act in SIMPLE if act not in _HEADS for text in ways[act]}
        self._plain |= {text: act for act in ways if act.startswith("question.") for text in ways[act]}
        # Longest first, here and with phrases: one may be a prefix of another.
        heads = sorted(((text, act) for act in _HEADS for text in ways[act]), key=lambda head: -len(head[0]))
        self._heads = [(re.compile(rf"{re.escape(text)}(?![^ ])"), act) for text, act in heads]
        phrases = [(text, act.partition(".")[2]) for act in ways if act.startswith("phrase.") for text in ways[act]]
        self._phrases = [(name, _matcher(text)) for text, name in sorted(phrases, key=lambda one: -len(one[0]))]
        self._answers = {name: [_matcher(text) for text in ways[f"answer.{name}"]] for name in self.fields}
        self._bot = {text: act for act, text in self.texts.items()}
        self._options = [_matcher(self.texts[act]) for act in ("option", "next_option")]

    def understand(self, text: str, asked: str) -> tuple[str, dict[str, str]]:
        """The act of the user, with values by field or ``name``; ``("", {})`` where no pattern matches.

        Args:
          text: the utterance.
          asked: the field that the bot asked for, if any.
        """
        if text in self._plain:
            return self._plain[text], {}
        for head, act in self._heads:
            if begins := head.match(text):
                values = self._phrase_values(text[begins.end() :])
                return ("", {}) if values is None else (act, values)
        for answer in self._answers.get(asked, ()):
            if found := answer.fullmatch(text):
                return "answer", {asked: found[1]}
        return "", {}

    def _phrase_values(self, text: str) -> dict[str, str] | None:
        """The values of consecutive phrases, each after a space; None where there is anything else."""
        values: dict[str, str] = {}
        at = 0
        while at < len(text):
            for name, phrase in self._phrases:
                if found := phrase.match(text, at + 1):
                    values[name], at = found[1], found.end()
                    break
            else:
                return None
        return values

    def act_of(self, text: str) -> tuple[str, str]:
        """The act of a text of the bot, and the entity that it offers, if any."""
        for option in self._options:
            if found := option.fullmatch(text):
                return "option", found[1]
        return self._bot.get(text, "call" if text.startswith("api_call ") else ""), ""


class Bot:
    """The bot in one dialogue.

    Args:
      rules: of the domain.
    """

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._facts: dict[str, dict[str, str]] = {}
        self._wishes: dict[str, str] = {}
        self._offered: list[str] = []
        self._reserved = ""
        self._last = ""  # act of the bot

    def read(self, fact: Fact) -> None:
        """Reads a fact in the dialogue."""
        self._facts.setdefault(fact.entity, {})[fact.relation] = fact.value

    def answer(self, user: str) -> str:
        """The answer to an utterance of the user; empty where no rule applies."""
        if user == SILENCE:
            return self._go_on()
        act, values = self.rules.understand(user, self._last.removeprefix("ask."))
        self._reserved = values.pop("name", self._reserved)
        self._wishes |= values
        if act == "request":
            return self._text("reserve_by_name" if self._reserved else "acknowledge")
        if act == "answer":
            return self._ask_or_search()
        if act == "accept":
            self._reserved = self._offered[-1] if self._offered else ""
        if act.startswith("question."):
            extra = act.removeprefix("question.")
            value = self._facts.get(self._reserved, {}).get(f"R_{extra}", "")
            return self._text(f"give.{extra}", {extra: value})
        if act == "thank":  # for a call, or for a reservation
            return self._text("farewell" if self._last == "call" else "anything_else")
        return self._text(_ANSWERS.get(act, ""))

    def hear(self, text: str) -> None:
        """Takes the right answer, whether it was the bot's own or not."""
        self._last, offered = self.rules.act_of(text)
        if offered:
            self._offered.append(offered)

    def _go_on(self) -> str:
        """The next text where the user is silent."""
        if self._last == "acknowledge":
            return self._ask_or_search()
        left = {name: of for name, of in self._facts.items() if name not in self._offered}
        if not left:
            return self._text("call", self._wishes)
        best = max(left, key=lambda name: int(left[name].get("R_rating", "0")))
        return self._text("next_option" if self._offered else "option", {"name": best})

    def _ask_or_search(self) -> str:
        for name in self.rules.fields:
            if name not in self._wishes:
                return self._text(f"ask.{name}")
        return self._text("search")

    def _text(self, act: str, values: Mapping[str, str] | None = None) -> str:
        text = self.rules.texts.get(act, "")
        for name, value in (values or {}).items():
            text = text.replace(f"{{{name}}}", value)
        return text


# Acts of the user to the bot's answers, where these do not depend on the dialogue so far.
_ANSWERS = {
    "greet": "greet",
    "update": "updated",
    "no_more": "search_again",
    "reject": "another",
    "accept": "reserve",
    "decline": "farewell",
}


def solve(rules: Rules, dialogue: BabiDialogue) -> list[bool]:
    """For each answer whether the bot finds it, given everything before it."""
    bot = Bot(rules)
    right = []
    for line in dialogue.lines:
        if isinstance(line, Exchange):
            right.append(bot.answer(line.user) == line.bot)
            bot.hear(line.bot)
        else:
            bot.read(line)
    return right


def _matcher(pattern: str) -> re.Pattern[str]:
    """A regular expression of a pattern with one gap, which matches one word, up to a space or the end."""
    return re.compile(_GAP.sub(r"(\\S+)", re.escape(pattern)) + r"(?!\S)")
