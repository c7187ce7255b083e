"""A turn as it was heard: the new utterance, its spans found again by the alignment, and a row that says all of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from parapet.schemas.dialogue import Turn
from parapet.transforms.speech.alignment import Aligned, Found, align, alignment_text, find_span, plain_ranges, restored
from parapet.transforms.speech.hearing import Heard
from parapet.transforms.speech.spoken import Word
from parapet.transforms.speech.turns import UserTurn, joined

Form = Literal["heard", "restored"]


class Replaced(msgspec.Struct, frozen=True):
    """A turn of a set.

    Attributes:
      row: of ``ASR_TURNS``, but for the dialogue's id.
      aligned: what was said against what was heard; None where nothing was.
      spans: of each frame and span the place in the new utterance: None where the value is lost, and for what is no
        span (a copied value) the place is not asked for.
    """

    row: dict[str, Any]
    aligned: Aligned | None
    spans: dict[tuple[int, int], Found | None]


def heard_turn(turn: UserTurn, heard: Heard, form: Form, sound: dict[str, Any]) -> Replaced:
    """A turn that was spoken and heard.

    Args:
      turn: as it was.
      heard: what was heard of it.
      form: ``heard``: the words as they were heard; ``restored``: those that were heard right as the original has them,
        with its capitals, digits and punctuation.
      sound: voice, noise and signal-to-noise ratio, for the row.
    """
    words = heard.words.split()
    aligned = align([word.text for word in turn.words], words)
    utterance, ranges = heard.words, plain_ranges(words)
    if form == "restored":
        utterance, ranges = restored(turn.turn.utterance, turn.words, aligned, words)
    spans = _spans(turn.turn, turn.words, aligned, ranges)
    said = len(turn.words)
    errors = aligned.substitutions + aligned.deletions + aligned.insertions
    row = {
        "turn": turn.position,
        "status": "heard",
        "reason": "",
        "original": turn.turn.utterance,
        "utterance": utterance,
        "spoken": joined(turn.words),
        "hypothesis": heard.words,
        "alignment": alignment_text([word.text for word in turn.words], words, aligned),
        "words": said,
        "substitutions": aligned.substitutions,
        "deletions": aligned.deletions,
        "insertions": aligned.insertions,
        "wer": errors / said,
        **sound,
        "audio_sha256": heard.audio,
        "seconds": heard.seconds,
        "slots": _slot_rows(turn.turn, spans),
    }
    return Replaced(row, aligned, spans)


def kept_turn(turn: UserTurn, status: str, reason: str, voice: str, noise: str) -> Replaced:
    """A turn that stays as it was: there is nothing in it that is said, or it could not be heard."""
    utterance = turn.turn.utterance
    spans: dict[tuple[int, int], Found | None] = {
        (f, i): Found(span.start, span.exclusive_end)
        for f, frame in enumerate(turn.turn.frames)
        for i, span in enumerate(frame.slots)
        if isinstance(span.start, int) and isinstance(span.exclusive_end, int)
    }
    row = {
        "turn": turn.position,
        "status": status,
        "reason": reason,
        "original": utterance,
        "utterance": utterance,
        "spoken": joined(turn.words),
        "hypothesis": "",
        "alignment": "",
        "words": 0,
        "substitutions": 0,
        "deletions": 0,
        "insertions": 0,
        "wer": None,
        "voice": voice,
        "noise": noise,
        "snr": None,
        "audio_sha256": "",
        "seconds": None,
        "slots": _slot_rows(turn.turn, spans),
    }
    return Replaced(row, None, spans)


def _spans(
    turn: Turn, words: Sequence[Word], aligned: Aligned, ranges: Sequence[Found]
) -> dict[tuple[int, int], Found | None]:
    return {
        (f, i): _found(turn, span.start, span.exclusive_end, words, aligned, ranges)
        for f, frame in enumerate(turn.frames)
        for i, span in enumerate(frame.slots)
        if isinstance(span.start, int) and isinstance(span.exclusive_end, int)
    }


def _found(
    turn: Turn, start: int, end: int, words: Sequence[Word], aligned: Aligned, ranges: Sequence[Found]
) -> Found | None:
    if not 0 <= start < end <= len(turn.utterance):
        return None  # it was nowhere in the original
    return find_span(start, end, words, aligned, ranges)


def _slot_rows(turn: Turn, spans: dict[tuple[int, int], Found | None]) -> list[dict[str, Any]]:
    rows = []
    for (f, i), found in spans.items():
        span = turn.frames[f].slots[i]
        assert isinstance(span.start, int)
        assert isinstance(span.exclusive_end, int)
        rows.append(
            {
                "service": turn.frames[f].service,
                "slot": span.slot,
                "value": turn.utterance[span.start : span.exclusive_end],
                "start": span.start,
                "exclusive_end": span.exclusive_end,
                "status": "lost" if found is None else "kept",
                "heard_start": None if found is None else found.start,
                "heard_exclusive_end": None if found is None else found.end,
            }
        )
    return rows


def write_into(raw: dict[str, Any], replaced: Replaced) -> None:
    """Puts the new utterance and the spans that are left into a turn as its file has it."""
    raw["utterance"] = replaced.row["utterance"]
    for f, frame in enumerate(raw["frames"]):
        if "slots" not in frame:
            continue
        kept = []
        for i, span in enumerate(frame["slots"]):
            if (f, i) not in replaced.spans:
                kept.append(span)
            elif (found := replaced.spans[f, i]) is not None:
                kept.append({**span, "start": found.start, "exclusive_end": found.end})
        frame["slots"] = kept
