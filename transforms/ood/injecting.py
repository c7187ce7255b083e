"""Injects foreign utterances into a dialogue, each followed by a fallback of the system; and makes its rows."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

from parapet.schemas.errors import InputError, is_unicode
from parapet.transforms.ood.plan import Injection
from parapet.transforms.seeding import stable_hash

# Each fits where the user goes on with the task, and where the dialogue ends: none asks a question that a user turn
# after it would leave unanswered, none speaks of a domain.
FALLBACKS = (
    "Sorry, that is not something I can help you with.",
    "I'm afraid I can't help with that one.",
    "That is outside of what I can do, sorry.",
    "Apologies, I don't have an answer to that.",
    "Sorry, I didn't quite get that. I can only assist you with the task at hand.",
    "I'm sorry, I'm not able to do that for you.",
    "That's beyond what I know about, I'm afraid.",
    "Unfortunately, this is not something I was made for.",
    "Sorry, I can't do anything about that. Let's keep to your request.",
    "I'm not sure I follow. That doesn't seem to be about your request.",
    "I wish I could help, but I know nothing about that.",
    "My apologies, that is something I cannot take care of.",
)


def fallback_of(seed: str, dialogue_id: str, turn: int) -> str:
    """The answer to the utterance that is injected for a dialogue's turn."""
    return FALLBACKS[stable_hash(seed, "fallback", dialogue_id, str(turn)) % len(FALLBACKS)]


Row = dict[str, Any]


def injected(
    raw: dict[str, Any], injections: Sequence[Injection], place: str, seed: str
) -> tuple[dict[str, Any], list[Row]]:
    """A dialogue with its injections (Lee and Shalyminov 2019: a foreign turn and a fallback, the rest unchanged).

    The foreign turn has the frames of the user turn before it, with the same state and nothing requested: a
    tracker must find that nothing has changed. The system's answer has no frames.

    Args:
      raw: the dialogue as its file has it; it is not modified.
      injections: of this dialogue.
      place: ``append`` or ``between``.
      seed: of the fallbacks.

    Returns:
      The new dialogue; the rows of its user turns.
    """
    dialogue_id = str(raw["dialogue_id"])
    at_end = place == "append"
    last = len(raw["turns"]) - 1
    after: dict[int, list[Injection]] = {}
    for injection in sorted(injections):
        after.setdefault(last if at_end else injection.turn + 1, []).append(injection)
    turns: list[Any] = []
    rows: list[Row] = []
    frames: list[Any] = []
    for t, turn in enumerate(raw["turns"]):
        if turn["speaker"] == "USER":
            rows.append(_row(dialogue_id, len(turns), turn["utterance"], original_turn=t))
            frames = turn["frames"]
        turns.append(turn)
        for injection in after.get(t, ()):
            fallback = fallback_of(seed, dialogue_id, injection.turn)
            text, source = injection.utterance.text, injection.utterance.source
            rows.append(_row(dialogue_id, len(turns), text, source=source, fallback=fallback))
            turns.append({"speaker": "USER", "utterance": text, "frames": kept_frames(frames)})
            turns.append({"speaker": "SYSTEM", "utterance": fallback, "frames": []})
    return {**raw, "turns": turns}, rows


def kept_frames(frames: Iterable[Any]) -> list[Any]:
    """The frames of a user turn that says nothing of the services: the state stays, and nothing is requested."""
    kept = []
    for frame in frames:
        if isinstance(frame.get("state"), dict):  # the official scorer reads the state of each frame there is
            new = {"service": frame["service"], "slots": []}
            if "actions" in frame:
                new["actions"] = []
            kept.append({**new, "state": {**copy.deepcopy(frame["state"]), "requested_slots": []}})
    return kept


def _row(
    dialogue_id: str,
    turn: int,
    utterance: str,
    original_turn: int | None = None,
    source: str | None = None,
    fallback: str | None = None,
) -> Row:
    return {
        "dialogue_id": dialogue_id,
        "turn": turn,
        "original_turn": original_turn,
        "label": "in_domain" if source is None else "ood",
        "source": source,
        "utterance": utterance,
        "fallback": fallback,
    }


def check_unicode(raw: dict[str, Any]) -> InputError | None:
    """Why a table of turns cannot hold a dialogue; None where it can."""
    texts = [raw["dialogue_id"], *(turn["utterance"] for turn in raw["turns"])]
    return None if all(map(is_unicode, texts)) else InputError("not_unicode: half a surrogate pair")
