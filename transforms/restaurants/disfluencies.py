"""Hesitations, self-corrections and restarts in user turns: bAbI+ (Shalyminov, Eshghi and Lemon 2017).

The meaning is unchanged: the values after a correction are the original ones, their spans move along, and the bot says
the same. A hesitation comes before a word ("a table um somewhere in lima"). A correction puts another value first
("somewhere in quito wait no lima"), or also repeats the word before it ("somewhere in quito wait no in lima"). A
restart breaks off and begins again ("let us have once more let us have a table").
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources

import msgspec

from parapet.schemas.errors import InputError
from parapet.transforms.corpora import listed
from parapet.transforms.restaurants.simulating import Dialogue, TurnPair, Utterance, World
from parapet.transforms.seeding import StratifiedRng
from parapet.transforms.sgd_turns import Line
from parapet.transforms.user_turns import Edit, edited, moved

KINDS = ("hesitation", "correction", "restart")
# Shares of user turns, as the paper describes its corpus, which was not available; a turn may have several.
RATES = {"hesitation": 0.40, "correction": 0.21, "restart": 0.05}

_WORD = re.compile(r"\S+")


class Disfluent(msgspec.Struct, frozen=True):
    """A dialogue with disfluencies.

    Attributes:
      dialogue: the dialogue.
      turns: kind to the number of user turns that have it.
      possible: kind to the number of user turns that can have it.
    """

    dialogue: Dialogue
    turns: dict[str, int]
    possible: dict[str, int]


def parse_rates(given: str) -> tuple[tuple[str, float], ...]:
    """Parses ``correction=0.3``; other kinds keep their defaults. Raises InputError."""
    rates = dict(RATES)
    for part in listed(given):
        name, _, text = part.partition("=")
        if name not in rates:
            raise InputError(f"{name!r} is no disfluency: there are {', '.join(KINDS)}", "--babi_plus_rates")
        try:
            rates[name] = float(text)
        except ValueError:
            rates[name] = -1
        if not 0 <= rates[name] <= 1:
            raise InputError(
                f"{name} needs a share of the user's turns, such as {name}={RATES[name]:g}", "--babi_plus_rates"
            )
    return tuple(rates.items())


def disfluent(world: World, dialogue: Dialogue, split: str, rates: Mapping[str, float]) -> Disfluent:
    """Adds disfluencies to a dialogue.

    A rate is a share of all user turns. A turn without a value has nothing to correct, so those that can have a kind
    have it more often.
    """
    users = [pair.user for pair in dialogue.pairs if pair.user]
    possible = {kind: sum(_can(kind, user.line) for user in users) for kind in KINDS}
    odds = {kind: rates[kind] * len(users) / n if n else 0.0 for kind, n in possible.items()}
    turns = dict.fromkeys(KINDS, 0)
    pairs = []
    for i, pair in enumerate(dialogue.pairs):
        if pair.user:
            rng = StratifiedRng(world.seed, "babi_plus", dialogue.dialogue_id, str(i))
            line, kinds = _line(world, pair.user, split, odds, rng)
            for kind in kinds:
                turns[kind] += 1
            pair = TurnPair(Utterance(pair.user.act, line), pair.bot, pair.results)
        pairs.append(pair)
    return Disfluent(Dialogue(dialogue.dialogue_id, dialogue.requests, tuple(pairs)), turns, possible)


@cache
def _words() -> dict[str, tuple[str, ...]]:
    text = (resources.files("parapet.transforms.restaurants") / "disfluencies.toml").read_text(encoding="utf-8")
    return {kind: tuple(words) for kind, words in tomllib.loads(text).items()}


def _can(kind: str, line: Line) -> bool:
    """Whether a turn can have a kind: a correction needs a value, a restart two words."""
    return bool(line.spans) if kind == "correction" else kind == "hesitation" or " " in line.utterance


def _line(
    world: World, user: Utterance, split: str, odds: Mapping[str, float], rng: StratifiedRng
) -> tuple[Line, list[str]]:
    """The line of a turn with disfluencies, and their kinds."""
    text = user.line.utterance
    words = [word.span() for word in _WORD.finditer(text)]
    kinds = [kind for kind in KINDS if rng.chance(odds[kind]) and _can(kind, user.line)]
    edits = []
    if "restart" in kinds:
        broken_off = text[: words[rng.below(len(words) - 1)][1]]
        edits.append(Edit(0, 0, f"{broken_off} {rng.choice(_words()['restart'])} "))
    if "correction" in kinds:
        edits.append(_correction(world, user, split, rng))
    if "hesitation" in kinds:
        at = rng.choice(words)[0]
        edits.append(Edit(at, at, f"{rng.choice(_words()['hesitation'])} "))
    edits.sort(key=lambda edit: edit.start)  # stable: at one place they keep their order
    return _edited(user.line, edits), kinds


def _correction(world: World, user: Utterance, split: str, rng: StratifiedRng) -> Edit:
    """A wrong value of the same half before a value, alone or with the word before it, which is repeated."""
    text = user.line.utterance
    slot, start, end = rng.choice(user.line.spans)
    wrong = _another(world, slot, split, text[start:end], rng)
    begin = start
    word = text.rfind(" ", 0, max(start - 1, 0)) + 1
    if rng.below(2) and not any(word < other <= start for _, _, other in user.line.spans):
        begin = word
    return Edit(begin, begin, f"{text[begin:start]}{wrong} {rng.choice(_words()['correction'])} ")


def _another(world: World, slot: str, split: str, right: str, rng: StratifiedRng) -> str:
    """A value that might be said by mistake: one that the split has anyway."""
    if slot == "name":
        entities = world.parts[split].entities
        i = rng.below(len(entities))
        return entities[i - (entities[i].name == right)].name  # or its neighbour
    (values,) = (field.of_half(split == "oov") for field in world.ontology.fields if field.name == slot)
    return rng.choice([value for value in values if value != right])


def _edited(line: Line, edits: list[Edit]) -> Line:
    spans = []
    for slot, start, end in line.spans:
        place = moved(start, end, edits)
        assert place is not None  # edits only insert, and never inside a value
        spans.append((slot, *place))
    return Line(edited(line.utterance, edits), tuple(spans))
