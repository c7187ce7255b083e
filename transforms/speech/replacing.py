"""Turns as a set has them: the transcript, slot spans located by the alignment, and a row that records all of it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from parapet.schemas.dialogue import Turn
from parapet.transforms.speech.alignment import Aligned, Found, align, alignment_text, find_span, plain_ranges, restored
from parapet.transforms.speech.spoken import Word
from parapet.transforms.speech.transcriber import Failure, Transcript
from parapet.transforms.speech.transcribing import Outcome
from parapet.transforms.speech.turns import SpokenTurn, joined

Form = Literal["heard", "restored"]


class Replaced(msgspec.Struct, frozen=True):
    """A user turn of a set.

    Attributes:
      row: of ``ASR_TURNS``, without the dialogue's id.
      aligned: reference against transcript; None where there is no transcript.
      spans: (frame, slot entry) to the span in the new utterance: None where the value is lost. Entries without a span
        (a copied value) are left out.
    """

    row: dict[str, Any]
    aligned: Aligned | None
    spans: dict[tuple[int, int], Found | None]


def replaced_turn(
    turn: SpokenTurn,
    outcomes: Sequence[Outcome],
    snr_of: Callable[[Mapping[float, int]], float],
    form: Form,
    voice: str,
    noise: str,
) -> Replaced:
    """A user turn as one set has it.

    Args:
      turn: the original.
      outcomes: of its utterance; none where the turn is not spoken.
      snr_of: chooses one of the ratios, given the word errors at each.
      form: how the transcript is written.
      voice: of the dialogue.
      noise: its name.
    """
    if not turn.words:
        return unchanged_turn(turn, "not_spoken", turn.reason, voice, noise)
    if failure := failure_of(outcomes):
        return unchanged_turn(turn, "failed", failure.reason, voice, noise)
    snr = snr_of({outcome.snr: outcome.errors for outcome in outcomes})
    transcript = next(outcome.result for outcome in outcomes if outcome.snr == snr)
    assert isinstance(transcript, Transcript)
    return recognised_turn(turn, transcript, form, {"voice": voice, "noise": noise, "snr": snr})


def with_turns(raw: Mapping[str, Any], replaced: Iterable[Replaced]) -> dict[str, Any]:
    """A copy of a dialogue, as its file has it, with some of its turns replaced."""
    turns = [*raw["turns"]]
    for new in replaced:
        position = new.row["turn"]
        turns[position] = copy.deepcopy(turns[position])
        write_into(turns[position], new)
    return {**raw, "turns": turns}


def failure_of(outcomes: Sequence[Outcome]) -> Failure | None:
    """Why a turn has no transcript at one of the ratios; None where it has one at all of them."""
    return next((outcome.result for outcome in outcomes if isinstance(outcome.result, Failure)), None)


def recognised_turn(turn: SpokenTurn, transcript: Transcript, form: Form, sound: Mapping[str, str | float]) -> Replaced:
    """A turn with a transcript.

    Args:
      turn: the original.
      transcript: of its spoken form.
      form: ``heard``: the transcript itself; ``restored``: words that were recognised correctly as the original has
        them, with its capitals, digits and punctuation.
      sound: voice, noise and signal-to-noise ratio, for the row.
    """
    reference, hypothesis = [word.text for word in turn.words], transcript.words.split()
    aligned = align(reference, hypothesis)
    utterance, ranges = transcript.words, plain_ranges(hypothesis)
    if form == "restored":
        utterance, ranges = restored(turn.turn.utterance, turn.words, aligned, hypothesis)
    spans = _spans(turn.turn, turn.words, aligned, ranges)
    errors = aligned.substitutions + aligned.deletions + aligned.insertions
    row = {
        "turn": turn.position,
        "status": "heard",
        "reason": "",
        "original": turn.turn.utterance,
        "utterance": utterance,
        "spoken": joined(turn.words),
        "hypothesis": transcript.words,
        "alignment": alignment_text(reference, hypothesis, aligned),
        "words": len(reference),
        "substitutions": aligned.substitutions,
        "deletions": aligned.deletions,
        "insertions": aligned.insertions,
        "wer": errors / len(reference),
        **sound,
        "audio_sha256": transcript.audio,
        "seconds": transcript.seconds,
        "slots": _slot_rows(turn.turn, spans),
    }
    return Replaced(row, aligned, spans)


def unchanged_turn(turn: SpokenTurn, status: str, reason: str, voice: str, noise: str) -> Replaced:
    """A turn that keeps its utterance: it is not spoken (``not_spoken``), or an engine failed (``failed``)."""
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
        return None  # the original has no such span
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
