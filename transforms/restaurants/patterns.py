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
      welcome: answers thanks for an API call; where empty, ``farewell`` does.
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
    welcome: str
    ask: tuple[tuple[str, str], ...]
    give: tuple[tuple[str, str], ...]


class Patterns(msgspec.Struct, frozen=True):
    """The patterns of both sides."""

    user: User
    bot: Bot

    def user_ways(self) -> dict[str, Ways]:
        """Act of the user, such as ``greet`` or ``answer.price``, to its wordings; without acts that have none."""
        return {act: ways for act, ways in self._user().items() if ways}

    def bot_texts(self, fields: Sequence[str]) -> dict[str, str]:
        """Act of the bot, such as ``greet`` or ``ask.price``, to its text; without acts that have none.

        Calls have the gaps of the fields.
        """
        call = " ".join(("api_call", *(f"{{{name}}}" for name in fields)))
        return {act: text for act, text in self._bot().items() if text} | dict.fromkeys(CALLS, call)

    def without_text(self) -> list[str]:
        """The acts without any text, such as ``user.update`` or ``bot.ask.price``; ``welcome`` may have none."""
        texts: dict[str, object] = {f"user.{act}": ways for act, ways in self._user().items()}
        texts |= {f"bot.{act}": text for act, text in self._bot().items() if act != "welcome"}
        return [act for act, text in texts.items() if not text]

    def _user(self) -> dict[str, Ways]:
        user = self.user
        ways: dict[str, Ways] = {key: getattr(user, key) for key in SIMPLE}
        for key, pairs in (("phrase", user.phrase), ("answer", user.answer), ("question", user.question)):
            ways |= {f"{key}.{name}": of for name, of in pairs}
        return ways

    def _bot(self) -> dict[str, str]:
        texts: dict[str, str] = {key: getattr(self.bot, key) for key in self.bot.__struct_fields__[:-2]}
        texts |= {f"ask.{name}": text for name, text in self.bot.ask}
        return texts | {f"give.{name}": text for name, text in self.bot.give}


def counted_patterns(patterns: Patterns) -> tuple[int, int]:
    """The number of patterns of the user, and of the bot with its two API calls."""
    return sum(map(len, patterns.user_ways().values())), len(patterns.bot_texts(()))


def patterns_for(
    domain: str,
    fields: Sequence[str],
    extras: Sequence[str],
    given: Mapping[str, Any],
    path: object,
    *,
    defaults: bool = True,
    simulated: bool = True,
) -> Patterns:
    """The patterns of an ontology; defaults are filled with its words.

    Args:
      domain: the kind of entity.
      fields: their names.
      extras: their names.
      given: the table ``patterns`` of the ontology.
      path: the ontology's file, for messages.
      defaults: whether acts without patterns get the default ones.
      simulated: whether texts must fit the format, and be unambiguous without a knowledge base.

    Raises:
      InputError: an unknown key, a missing or unknown gap, a text that could be two acts; with the place.
    """
    default = _default(domain, fields, extras)
    if not defaults:
        default = _emptied(default)
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
    for place, reason in _problems(patterns, defaults, simulated):
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


def _emptied(table: Any) -> Any:
    if isinstance(table, dict):
        return {key: _emptied(value) for key, value in table.items()}
    return [] if isinstance(table, list) else ""


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
            yield f"bot.{act}", f"bot.{act}", text, gaps


# What the bot answers to, by its last act; where several of these have the same text, it cannot tell them apart. An
# update always has a value, unlike "no more" and thanks, and the answer to a question is read as just that.
_TOGETHER = ({"phrase"}, {"reject", "accept"}, {"question", "thank"})


def _problems(patterns: Patterns, complete: bool, simulated: bool) -> Iterator[tuple[str, str]]:
    if complete:
        for act in patterns.without_text():
            yield act, "there is none: give one or more"
    first: dict[tuple[int, str], tuple[str, str]] = {}
    for place, what, text, gaps in _texts(patterns):
        if simulated and (not text.strip() or text != " ".join(text.split()) or not text.isprintable()):
            yield place, f"{text!r}: give one line, with single spaces and no tabs"
        if simulated and (SILENCE in text or text.startswith("api_call")):
            yield place, f"{text!r}: {SILENCE} and api_call are reserved by the format"
        if slots_of(text) != gaps or text.count("{") + text.count("}") != 2 * len(gaps):
            wanted = " and ".join(f"{{{gap}}}" for gap in gaps) or "no {gap}"
            yield place, f"{text!r} must have {wanted}{', once' if gaps else ''}"
        side, _, act = what.partition(".")
        for gap in gaps:
            text = text.replace(f"{{{gap}}}", "{}")
        for i, together in enumerate(_TOGETHER if simulated else ()):
            if side == "user" and act.partition(".")[0] in together:
                other, there = first.setdefault((i, text), (act, place))
                if other != act:
                    yield place, f"says the same as {there}, in the same place: it would be ambiguous"
