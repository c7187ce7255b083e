"""Turns as a set has them: the transcript, slot spans located by the alignment, and a row that records all of it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from parapet.schemas.dialogue import Turn
from parapet.transforms.speech.alignment import Aligned, Found, align, alignment_text, find_span, plain_ranges, restored
from parapet.transforms.speech.transcriber import Failure, Transcript
from parapet.transforms.speech.transcribing import Outcome
from parapet.transforms.speech.turns import SpokenTurn, joined

Form = Literal["heard", "restored"]
Spans = dict[tuple[int, int], Found | None]  # (frame, slot entry) to the span in the new utterance; None: it is lost


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
    spans: Spans


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
    original, utterance, ranges = turn.turn.utterance, transcript.words, plain_ranges(hypothesis)
    if form == "restored":
        utterance, ranges = restored(original, turn.words, aligned, hypothesis)
    spans = {
        place: find_span(start, end, turn.words, aligned, ranges) if 0 <= start < end <= len(original) else None
        for place, (start, end) in _original_spans(turn.turn).items()
    }
    errors = aligned.substitutions + aligned.deletions + aligned.insertions
    row = {
        **_row(turn, "heard", "", utterance, spans),
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
    }
    return Replaced(row, aligned, spans)


def unchanged_turn(turn: SpokenTurn, status: str, reason: str, voice: str, noise: str) -> Replaced:
    """A turn that keeps its utterance: it is not spoken (``not_spoken``), or an engine failed (``failed``)."""
    spans: Spans = {place: Found(*span) for place, span in _original_spans(turn.turn).items()}
    row = {**_row(turn, status, reason, turn.turn.utterance, spans), "voice": voice, "noise": noise}
    return Replaced(row, None, spans)


def _original_spans(turn: Turn) -> dict[tuple[int, int], tuple[int, int]]:
    """(frame, slot entry) to start and end; without entries that have no span."""
    return {
        (f, i): (span.start, span.exclusive_end)
        for f, frame in enumerate(turn.frames)
        for i, span in enumerate(frame.slots)
        if isinstance(span.start, int) and isinstance(span.exclusive_end, int)
    }


def _row(turn: SpokenTurn, status: str, reason: str, utterance: str, spans: Spans) -> dict[str, Any]:
    """The row of a turn, as far as it needs no transcript; the columns in their order."""
    return {
        "turn": turn.position,
        "status": status,
        "reason": reason,
        "original": turn.turn.utterance,
        "utterance": utterance,
        "spoken": joined(turn.words),
        **dict.fromkeys(("hypothesis", "alignment"), ""),
        **dict.fromkeys(("words", "substitutions", "deletions", "insertions"), 0),
        **dict.fromkeys(("wer", "voice", "noise", "snr")),
        "audio_sha256": "",
        "seconds": None,
        "slots": _slot_rows(turn.turn, spans),
    }


def _slot_rows(turn: Turn, spans: Spans) -> list[dict[str, Any]]:
    rows = []
    for (f, i), (start, end) in _original_spans(turn).items():
        found, frame = spans[f, i], turn.frames[f]
        rows.append(
            {
                "service": frame.service,
                "slot": frame.slots[i].slot,
                "value": turn.utterance[start:end],
                "start": start,
                "exclusive_end": end,
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
