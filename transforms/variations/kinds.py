"""The kinds of variations: what each makes of a user turn, with its spans, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from parapet.transforms.perturb.edits import Edit, edited, moved
from parapet.transforms.perturb.protected import Range
from parapet.transforms.perturb.typos import Operation, Rates, typo_operations
from parapet.transforms.seeding import key_of
from parapet.transforms.user_turns import Span, UserTurn
from parapet.transforms.variations.paraphrase import Answers, paraphrased, pivot_of
from parapet.transforms.variations.paraphrase_rules import rephrased
from parapet.transforms.variations.rewording import RULES, Made, reworded
from parapet.transforms.variations.rewritten import REWRITTEN, Key, Rewritten
from parapet.transforms.variations.simple import simple_operations
from parapet.transforms.variations.verbose import verbose_operations

BAD_SPAN, TORN_SPAN = "bad_span", "torn_span"  # reasons for which a turn goes to the dead letters
NOT_REWRITTEN = "not_rewritten"


class Config(msgspec.Struct, frozen=True):
    """What shapes variations.

    Attributes:
      seed: of all that is drawn.
      rates: of typos.
      perturb_values: whether annotated values may have typos.
      pivots: the languages that paraphrases go through; none where rules make them.
      rewritten: whether the kinds come of files, and no rule makes any.
    """

    seed: str = "0"
    rates: Rates = Rates()
    perturb_values: bool = False
    pivots: tuple[str, ...] = ()
    rewritten: bool = False


class Given(msgspec.Struct, frozen=True):
    """Turns in the words of others.

    Attributes:
      rewritten: turns of files.
      answers: of an engine, or of a memory.
    """

    rewritten: Mapping[Key, Rewritten] = {}
    answers: Answers = {}


NOTHING = Given()


class Variation(msgspec.Struct, frozen=True):
    """A turn as a set has it.

    Attributes:
      utterance: its text.
      places: of its spans, in order.
      operations: what was done, in order.
      reason: why nothing was: an id, and what it is about after a colon.
      source: whose words they are; nothing where it is as it was.
    """

    utterance: str
    places: Sequence[Range]
    operations: Sequence[Operation]
    reason: str = ""
    source: str = ""


def _typos(user_turn: UserTurn, config: Config, given: Given) -> Made:
    key = key_of(config.seed, "typos", user_turn.dialogue_id, str(user_turn.position))
    made = typo_operations(
        user_turn.utterance, user_turn.ranges, user_turn.values, config.rates, key, config.perturb_values
    )
    return Made(made, "" if made else "no_word" if config.rates.at_least else "not_drawn")


def _verbose(user_turn: UserTurn, config: Config, given: Given) -> Made:
    return Made(
        *verbose_operations(user_turn, key_of(config.seed, "verbose", user_turn.dialogue_id, str(user_turn.position)))
    )


def _simple(user_turn: UserTurn, config: Config, given: Given) -> Made:
    return Made(*simple_operations(user_turn))


def _paraphrase(user_turn: UserTurn, config: Config, given: Given) -> Made:
    if not config.pivots:
        return rephrased(user_turn, key_of(config.seed, "paraphrase", user_turn.dialogue_id, str(user_turn.position)))
    return paraphrased(user_turn, pivot_of(user_turn, config.pivots, config.seed), given.answers)


def _rewritten(kind: str, user_turn: UserTurn, given: Given) -> Made:
    line = given.rewritten.get((user_turn.dialogue_id, user_turn.position, kind))
    if line is None:
        return Made(reason=NOT_REWRITTEN)
    text, source = line
    return reworded(user_turn, text, REWRITTEN, source, in_words=kind == "paraphrase")


KINDS: dict[str, Callable[[UserTurn, Config, Given], Made]] = {
    "typos": _typos,
    "verbose": _verbose,
    "simple": _simple,
    "paraphrase": _paraphrase,
}

# The share of its user turns that a kind must change, by default: a corpus of short turns has little to simplify. Of
# files, the share of the turns that they have.
LEAST = {"typos": 0.5, "verbose": 0.5, "simple": 0.1, "paraphrase": 0.3}
LEAST_OF_FILES = 0.5


def vary(kind: str, user_turn: UserTurn, config: Config, given: Given = NOTHING) -> Variation:
    """A turn as a kind has it: varied, or as it was with the reason."""
    if user_turn.wrong:
        reason = f"{BAD_SPAN}: {', '.join(user_turn.wrong)}: not inside the utterance"
        return Variation(user_turn.utterance, user_turn.ranges, (), reason)
    made = _rewritten(kind, user_turn, given) if config.rewritten else KINDS[kind](user_turn, config, given)
    if not made.operations:
        return Variation(user_turn.utterance, user_turn.ranges, (), made.reason)
    utterance = edited(user_turn.utterance, made.operations)
    places = []
    for i, span in enumerate(user_turn.spans):
        place = moved(span.start, span.end, made.operations) if made.places is None else made.places[i]
        if place is None or utterance[slice(*place)] != value_after(user_turn.utterance, span, made, config):
            return Variation(
                user_turn.utterance, user_turn.ranges, (), f"{TORN_SPAN}: {span.slot}: it cannot be mended"
            )
        places.append(place)
    if utterance == user_turn.utterance:
        return Variation(user_turn.utterance, user_turn.ranges, (), "unchanged")
    return Variation(utterance, places, made.operations, source=made.source)


def value_after(utterance: str, span: Span, made: Made, config: Config) -> str:
    """What must stand in a span afterwards: the text it had, with ``perturb_values`` after the operations inside."""
    value = utterance[span.start : span.end]
    if not config.perturb_values or made.source != RULES or made.places is not None:
        return value
    inside = [
        Edit(one.start - span.start, one.end - span.start, one.text)
        for one in made.operations
        if span.start <= one.start and one.end <= span.end and one.start < one.end
    ]
    return edited(value, inside)


def write_into(turn: dict[str, Any], variation: Variation) -> dict[str, Any]:
    """The turn of a file, as a set has it; the given one stays.

    Args:
      turn: as its file has it.
      variation: of the same turn.
    """
    places = iter(variation.places)
    frames = []
    for frame in turn["frames"]:
        if frame.get("slots"):
            frame = {**frame, "slots": [_moved_span(span, places) for span in frame["slots"]]}
        frames.append(frame)
    return {**turn, "utterance": variation.utterance, "frames": frames}


def _moved_span(span: dict[str, Any], places: Any) -> dict[str, Any]:
    if not isinstance(span.get("start"), int) or not isinstance(span.get("exclusive_end"), int):
        return span
    start, end = next(places)
    return {**span, "start": start, "exclusive_end": end}


def row_of(user_turn: UserTurn, variation: Variation, level: int) -> dict[str, Any]:
    """A row of ``parapet.schemas.perturbed_turns``."""
    return {
        "dialogue_id": user_turn.dialogue_id,
        "turn": user_turn.position,
        "status": "varied" if variation.operations else "unchanged",
        "reason": variation.reason,
        "original": user_turn.utterance,
        "utterance": variation.utterance,
        "source": variation.source,
        "operations": [
            {"kind": one.kind, "start": one.start, "end": one.end, "before": one.before, "after": one.text}
            for one in variation.operations
        ],
        "env": level,
        "slots": [
            {
                "service": span.service,
                "slot": span.slot,
                "value": user_turn.utterance[span.start : span.end],
                "start": span.start,
                "exclusive_end": span.end,
                "new_value": variation.utterance[start:end],
                "new_start": start,
                "new_exclusive_end": end,
            }
            for span, (start, end) in zip(user_turn.spans, variation.places, strict=True)
        ],
    }
