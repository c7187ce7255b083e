"""Sentence patterns of user and bot, with gaps for values: those of the paper's domain, or of any other one."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from parapet.schemas.errors import InputError, reason_and_place
from parapet.transforms.babi_format import SILENCE
from parapet.transforms.sgd_turns import slots_of

Ways = tuple[str, ...]
ByName = tuple[tuple[str, Ways], ...]  # of a field or extra; in pairs, so that it can be hashed

# Acts of the user without a field or an extra.
SIMPLE = ("greet", "request", "update", "no_more", "reject", "accept", "thank", "decline")
CALLS = ("call", "call_again")


class User(msgspec.Struct, frozen=True):
    """The patterns of the user; each act has one or more wordings.

    Attributes:
      greet: begins every dialogue.
      request: asks for an entity; phrases of fields, or of a name, follow.
      update: changes a value; the phrase of a field follows.
      no_more: nothing else is to be changed.
      reject: asks for another option.
      accept: accepts an option.
      thank: thanks after a reservation.
      decline: nothing else is needed.
      phrase: field or ``name`` to phrases after a request.
      answer: field to answers to the bot's question.
      question: extra to questions about the reserved entity.
    """

    greet: Ways
    request: Ways
    update: Ways
    no_more: Ways
    reject: Ways
    accept: Ways
    thank: Ways
    decline: Ways
    phrase: ByName
    answer: ByName
    question: ByName


class Bot(msgspec.Struct, frozen=True):
    """The patterns of the bot. ``api_call`` with its fields counts as two more, the first call and an updated one.

    Attributes:
      greet: answers a greeting.
      acknowledge: answers a request.
      search: all fields are known; ``search_again`` after updates.
      updated: answers an update.
      option: offers an entity; ``next_option`` after one was rejected.
      another: answers a rejection.
      reserve: answers an acceptance; ``reserve_by_name`` a request by name.
      anything_else: answers thanks for a reservation.
      farewell: answers that nothing else is wanted.
      ask: field to the question for it.
      give: extra to the answer.
    """

    greet: str
    acknowledge: str
    search: str
    search_again: str
    updated: str
    option: str
    next_option: str
    another: str
    reserve: str
    reserve_by_name: str
    anything_else: str
    farewell: str
    ask: tuple[tuple[str, str], ...]
    give: tuple[tuple[str, str], ...]


class Patterns(msgspec.Struct, frozen=True):
    """The patterns of both sides."""

    user: User
    bot: Bot

    def user_ways(self) -> dict[str, Ways]:
        """Act of the user, such as ``greet`` or ``answer.price``, to its wordings."""
        user = self.user
        ways: dict[str, Ways] = {key: getattr(user, key) for key in SIMPLE}
        for key, pairs in (("phrase", user.phrase), ("answer", user.answer), ("question", user.question)):
            ways |= {f"{key}.{name}": of for name, of in pairs}
        return ways

    def bot_texts(self, fields: Sequence[str]) -> dict[str, str]:
        """Act of the bot, such as ``greet`` or ``ask.price``, to its text; calls have the gaps of the fields."""
        texts: dict[str, str] = {key: getattr(self.bot, key) for key in self.bot.__struct_fields__[:-2]}
        texts |= {f"ask.{name}": text for name, text in self.bot.ask}
        texts |= {f"give.{name}": text for name, text in self.bot.give}
        call = " ".join(("api_call", *(f"{{{name}}}" for name in fields)))
        return {**texts, "call": call, "call_again": call}


def counted_patterns(patterns: Patterns) -> tuple[int, int]:
    """The number of patterns of the user, and of the bot with its two API calls."""
    return sum(map(len, patterns.user_ways().values())), len(patterns.bot_texts(()))


def patterns_for(
    domain: str, fields: Sequence[str], extras: Sequence[str], given: Mapping[str, Any], path: object
) -> Patterns:
    """The patterns of an ontology; defaults are filled with its words.

    Args:
      domain: the kind of entity.
      fields: their names.
      extras: their names.
      given: the table ``patterns`` of the ontology.
      path: the ontology's file, for messages.

    Raises:
      InputError: an unknown key, a missing or unknown gap, one text for two acts; with the place.
    """
    default = _default(domain, fields, extras)
    sides: dict[str, dict[str, Any]] = {}
    for side, of_side in default.items():
        sides[side] = merged(of_side, given.get(side, {}), path, f"patterns.{side}")
    for key in given:
        if key not in default:
            raise InputError("unknown key: there are user and bot", path, f"patterns.{key}")
    try:
        patterns = msgspec.convert(
            {side: {key: _as_pairs(value) for key, value in of.items()} for side, of in sides.items()}, Patterns
        )
    except msgspec.ValidationError as error:
        reason, at = reason_and_place(error)
        raise InputError(reason, path, f"patterns.{at}" if at else "patterns") from None
    for place, reason in _problems(patterns):
        raise InputError(reason, path, f"patterns.{place}")
    return patterns


@cache
def _any_domain() -> str:
    return (resources.files("parapet.transforms.restaurants") / "any_domain.toml").read_text(encoding="utf-8")


def _default(domain: str, fields: Sequence[str], extras: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The default patterns, filled with these words."""

    def expand(value: Any) -> Any:
        if isinstance(value, dict):
            expanded: dict[str, Any] = {}
            for key, one in value.items():
                names = {"FIELD": fields, "EXTRA": extras}.get(key)
                expanded |= {name: fill(one, key, name) for name in names} if names is not None else {key: expand(one)}
            return expanded
        return fill(value, "DOMAIN", domain)

    def fill(value: Any, key: str, name: str) -> Any:
        if isinstance(value, list):
            return [fill(one, key, name) for one in value]
        # A gap has the name itself; a text has it with spaces.
        words = name if key == "DOMAIN" else name.replace("_", " ")
        return str(value).replace(f"{{{key}}}", f"{{{name}}}").replace(key, words)

    return {side: expand(of) for side, of in tomllib.loads(_any_domain()).items()}


def merged(default: Mapping[str, Any], given: Any, path: object, place: str) -> dict[str, Any]:
    """A table with defaults, and nested tables likewise. Raises InputError with the place."""
    if not isinstance(given, dict):
        raise InputError("expected a table", path, place)
    table = dict(default)
    for key, value in given.items():
        if key not in default:
            raise InputError(f"unknown key: there are {', '.join(default)}", path, f"{place}.{key}")
        nested = isinstance(default[key], dict)
        table[key] = merged(default[key], value, path, f"{place}.{key}") if nested else value
    return table


def _as_pairs(value: Any) -> Any:
    return list(value.items()) if isinstance(value, dict) else value


def _texts(patterns: Patterns) -> Iterator[tuple[str, str, str, list[str]]]:
    """(place, act, text, required gaps) of each pattern."""
    for act, ways in patterns.user_ways().items():
        kind, _, name = act.partition(".")
        for i, text in enumerate(ways):
            yield f"user.{act}[{i}]", f"user.{act}", text, [name] if kind in ("phrase", "answer") else []
    for act, text in patterns.bot_texts(()).items():
        kind, _, name = act.partition(".")
        gaps = {"option": ["name"], "next_option": ["name"], "give": [name]}.get(kind, [])
        if kind not in CALLS:
            yield f"bot.{act}", f"bot.{_SAME.get(act, act)}", text, gaps


# Acts that may have the same text.
_SAME = {"search_again": "search", "next_option": "option", "reserve_by_name": "reserve"}


def _problems(patterns: Patterns) -> Iterator[tuple[str, str]]:
    for act, ways in patterns.user_ways().items():
        if not ways:
            yield f"user.{act}", "there is none: give one or more"
    first: dict[tuple[str, str], tuple[str, str]] = {}
    for place, what, text, gaps in _texts(patterns):
        if not text.strip() or text != " ".join(text.split()) or not text.isprintable():
            yield place, f"{text!r}: give one line, with single spaces and no tabs"
        if SILENCE in text or text.startswith("api_call"):
            yield place, f"{text!r}: {SILENCE} and api_call are reserved by the format"
        if slots_of(text) != gaps or text.count("{") + text.count("}") != 2 * len(gaps):
            wanted = " and ".join(f"{{{gap}}}" for gap in gaps) or "no {gap}"
            yield place, f"{text!r} must have {wanted}{', once' if gaps else ''}"
        side = what.partition(".")[0]
        # The question before it distinguishes answers.
        act = "user.answer" if what.startswith("user.answer") else what
        for gap in gaps:
            text = text.replace(f"{{{gap}}}", "{}")
        other, there = first.setdefault((side, text), (act, place))
        if other != act:
            yield place, f"says the same as {there}: it would be ambiguous"
