"""What users and bot say: sentence patterns with gaps, the paper's domain's or made of an ontology's words."""

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

# What the user does without a field or an extra.
SIMPLE = ("greet", "request", "update", "no_more", "reject", "accept", "thank", "decline")
CALLS = ("call", "call_again")


class User(msgspec.Struct, frozen=True):
    """The user's patterns; of each one is drawn.

    Attributes:
      greet: begins every dialogue.
      request: what is to be booked; phrases of fields, or of a name, follow it.
      update: a wish is changed; the phrase of a field follows it.
      no_more: nothing else is to be changed.
      reject: another option, please.
      accept: this option, please.
      thank: thanks, behind a reservation.
      decline: nothing else is wanted.
      phrase: field or ``name`` to what stands behind a request.
      answer: field to answers to the bot's question.
      question: extra to questions about what was reserved.
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
    """The bot's patterns; ``api_call`` and its fields are two more, the first and an updated one.

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
    """What both sides say."""

    user: User
    bot: Bot

    def user_ways(self) -> dict[str, Ways]:
        """What the user does, such as ``greet`` or ``answer.price``, to the ways of saying it."""
        user = self.user
        ways: dict[str, Ways] = {key: getattr(user, key) for key in SIMPLE}
        for key, pairs in (("phrase", user.phrase), ("answer", user.answer), ("question", user.question)):
            ways |= {f"{key}.{name}": of for name, of in pairs}
        return ways

    def bot_texts(self, fields: Sequence[str]) -> dict[str, str]:
        """What the bot does, such as ``greet`` or ``ask.price``, to what it says; calls have the gaps of the fields."""
        texts: dict[str, str] = {key: getattr(self.bot, key) for key in self.bot.__struct_fields__[:-2]}
        texts |= {f"ask.{name}": text for name, text in self.bot.ask}
        texts |= {f"give.{name}": text for name, text in self.bot.give}
        call = " ".join(("api_call", *(f"{{{name}}}" for name in fields)))
        return {**texts, "call": call, "call_again": call}


def counted_patterns(patterns: Patterns) -> tuple[int, int]:
    """How many patterns the user has, and the bot with its two API calls."""
    return sum(map(len, patterns.user_ways().values())), len(patterns.bot_texts(()))


def patterns_for(
    domain: str, fields: Sequence[str], extras: Sequence[str], given: Mapping[str, Any], path: object
) -> Patterns:
    """Patterns as given, what is not given made of the words of the ontology.

    Args:
      domain: what is booked.
      fields: their names.
      extras: their names.
      given: the table ``patterns`` of an ontology.
      path: the ontology's file, for messages.

    Raises:
      InputError: an unknown key, a gap that is missing or strange, one text for two things; with the place.
    """
    default = _default(domain, fields, extras)
    sides: dict[str, dict[str, Any]] = {}
    for side, of_side in default.items():
        sides[side] = merged(of_side, given.get(side, {}), path, f"patterns.{side}")
    for key in given:
        if key not in default:
            raise InputError("unknown key: there are user and bot", path, f"patterns.{key}")
    try:
        found = msgspec.convert(
            {side: {key: _as_pairs(value) for key, value in of.items()} for side, of in sides.items()}, Patterns
        )
    except msgspec.ValidationError as error:
        reason, at = reason_and_place(error)
        raise InputError(reason, path, f"patterns.{at}" if at else "patterns") from None
    for place, reason in _problems(found):
        raise InputError(reason, path, f"patterns.{place}")
    return found


@cache
def _any_domain() -> str:
    return (resources.files("parapet.transforms.restaurants") / "any_domain.toml").read_text(encoding="utf-8")


def _default(domain: str, fields: Sequence[str], extras: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The patterns of any domain, with these words."""

    def expand(value: Any) -> Any:
        if isinstance(value, dict):
            made: dict[str, Any] = {}
            for key, one in value.items():
                names = {"FIELD": fields, "EXTRA": extras}.get(key)
                made |= {name: fill(one, key, name) for name in names} if names is not None else {key: expand(one)}
            return made
        return fill(value, "DOMAIN", domain)

    def fill(value: Any, key: str, name: str) -> Any:
        if isinstance(value, list):
            return [fill(one, key, name) for one in value]
        # In a gap the name stands as it is, said aloud with spaces.
        said = name if key == "DOMAIN" else name.replace("_", " ")
        return str(value).replace(f"{{{key}}}", f"{{{name}}}").replace(key, said)

    return {side: expand(of) for side, of in tomllib.loads(_any_domain()).items()}


def merged(default: Mapping[str, Any], given: Any, path: object, place: str) -> dict[str, Any]:
    """A table with defaults for what is not given, and tables in it likewise. Raises InputError with the place."""
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
    """(place, what it is for, text, the gaps that it must have) of each pattern."""
    for act, ways in patterns.user_ways().items():
        kind, _, name = act.partition(".")
        for i, text in enumerate(ways):
            yield f"user.{act}[{i}]", f"user.{act}", text, [name] if kind in ("phrase", "answer") else []
    for act, text in patterns.bot_texts(()).items():
        kind, _, name = act.partition(".")
        gaps = {"option": ["name"], "next_option": ["name"], "give": [name]}.get(kind, [])
        if kind not in CALLS:
            yield f"bot.{act}", f"bot.{_SAME.get(act, act)}", text, gaps


# What may be said in the same words.
_SAME = {"search_again": "search", "next_option": "option", "reserve_by_name": "reserve"}


def _problems(patterns: Patterns) -> Iterator[tuple[str, str]]:
    for act, ways in patterns.user_ways().items():
        if not ways:
            yield f"user.{act}", "there is none: give one or more"
    first: dict[tuple[str, str], tuple[str, str]] = {}
    for place, what, text, gaps in _texts(patterns):
        if not text.strip() or text != " ".join(text.split()) or not text.isprintable():
            yield place, f"{text!r}: words in one line, one space between, no tabs, please"
        if SILENCE in text or text.startswith("api_call"):
            yield place, f"{text!r}: {SILENCE} and api_call belong to the format"
        if slots_of(text) != gaps or text.count("{") + text.count("}") != 2 * len(gaps):
            wanted = " and ".join(f"{{{gap}}}" for gap in gaps) or "no {gap}"
            yield place, f"{text!r} must have {wanted}{', once' if gaps else ''}"
        side = what.partition(".")[0]
        # Which answer is meant is told by the question before it.
        told = "user.answer" if what.startswith("user.answer") else what
        for gap in gaps:
            text = text.replace(f"{{{gap}}}", "{}")
        other, there = first.setdefault((side, text), (told, place))
        if other != told:
            yield place, f"says the same as {there}: one could not tell what is meant"
