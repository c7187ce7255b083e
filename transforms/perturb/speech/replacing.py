"""Replace turns by transcripts, locate slot spans by the alignment, and record both in a row."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from parapet.schemas.dialogue import Turn
from parapet.transforms.core.counts import Counted, Counts
from parapet.transforms.perturb.speech import alignment
from parapet.transforms.perturb.speech.alignment import Found
from parapet.transforms.perturb.speech.spoken import SpokenTurn, joined
from parapet.transforms.perturb.speech.transcribing import Transcript

# (frame, slot entry) to the span in the new utterance; None if the value is lost
Spans = dict[tuple[int, int], Found | None]


class Replaced(msgspec.Struct, frozen=True):
    """A user turn of a set.

    Attributes:
      row: a row of ``ASR_TURNS``, without the dialogue's id.
      spans: (frame, slot entry) to the span in the new utterance, or None if the value is lost. Entries without a span
        (copied values) are left out.
    """

    row: dict[str, Any]
    spans: Spans


def with_turns(raw: Mapping[str, Any], replaced: Iterable[Replaced]) -> dict[str, Any]:
    """Return a copy of a dialogue, in the format of its file, with some turns replaced."""
    turns = [*raw["turns"]]
    for new in replaced:
        position = new.row["turn"]
        turns[position] = copy.deepcopy(turns[position])
        write_into(turns[position], new)
    return {**raw, "turns": turns}


def recognised_turn(turn: SpokenTurn, transcript: Transcript, sound: Mapping[str, object]) -> Replaced:
    """Return a turn with its transcript.

    Args:
      turn: the original turn.
      transcript: the transcript of its spoken form.
      sound: voice, noise and signal-to-noise ratio, for the row.
    """
    reference, hypothesis = [word.text for word in turn.words], transcript.words.split()
    aligned = alignment.align(reference, hypothesis)
    errors, positions = alignment.word_errors(aligned), alignment.recognised_positions(aligned)
    original, values = turn.turn.utterance, _original_spans(turn.turn)
    utterance, ranges = alignment.written(original, turn.words, positions, hypothesis, values.values())
    spans: Spans = {}
    for place, (start, end) in values.items():
        is_inside = 0 <= start < end <= len(original)
        spans[place] = alignment.find_span(start, end, turn.words, positions, ranges) if is_inside else None
    row = {
        **_row(turn, "heard", "", utterance, spans),
        "hypothesis": transcript.words,
        "alignment": alignment.alignment_text(reference, hypothesis, aligned),
        "words": len(reference),
        "substitutions": errors["replace"],
        "deletions": errors["delete"],
        "insertions": errors["insert"],
        "wer": errors.total() / len(reference),
        **sound,
        "audio_sha256": transcript.audio,
        "seconds": transcript.seconds,
    }
    return Replaced(row, spans)


def unchanged_turn(turn: SpokenTurn, status: str, reason: str, voice: str, noise: str) -> Replaced:
    """Return a turn that keeps its utterance: it is ``not_spoken``, or an engine ``failed``."""
    spans: Spans = {place: Found(*span) for place, span in _original_spans(turn.turn).items()}
    row = {**_row(turn, status, reason, turn.turn.utterance, spans), "voice": voice, "noise": noise}
    return Replaced(row, spans)


def _original_spans(turn: Turn) -> dict[tuple[int, int], tuple[int, int]]:
    """Return (frame, slot entry) → (start, end) of entries with a span whose ends fit into a row."""
    return {
        (f, i): (span.start, span.exclusive_end)
        for f, frame in enumerate(turn.frames)
        for i, span in enumerate(frame.slots)
        if isinstance(span.start, int) and isinstance(span.exclusive_end, int)
        if max(abs(span.start), abs(span.exclusive_end)) < 1 << 63
    }


def _row(turn: SpokenTurn, status: str, reason: str, utterance: str, spans: Spans) -> dict[str, Any]:
    """Return the row of a turn with the columns that need no transcript, in the right order."""
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
        span, frame = spans[f, i], turn.frames[f]
        rows.append(
            {
                "service": frame.service,
                "slot": frame.slots[i].slot,
                "value": turn.utterance[start:end],
                "start": start,
                "exclusive_end": end,
                "status": "lost" if span is None else "kept",
                "heard_start": None if span is None else span.start,
                "heard_exclusive_end": None if span is None else span.end,
            }
        )
    return rows


def write_into(raw: dict[str, Any], replaced: Replaced) -> None:
    """Write the new utterance and the remaining spans into a turn in the format of its file."""
    raw["utterance"] = replaced.row["utterance"]
    for f, frame in enumerate(raw["frames"]):
        if "slots" not in frame:
            continue
        kept = []
        for i, span in enumerate(frame["slots"]):
            if (f, i) not in replaced.spans:
                kept.append(span)
            elif (new := replaced.spans[f, i]) is not None:
                kept.append({**span, "start": new.start, "exclusive_end": new.end})
        frame["slots"] = kept


_ERRORS = ("substitutions", "deletions", "insertions")


def counts(rows: Iterable[Mapping[str, Any]]) -> Counter[Counted]:
    """Return the counts of a dialogue: statuses of its turns, and sums over those with a transcript.

    Args:
      rows: the rows of ``ASR_TURNS`` of its user turns.
    """
    sums: Counter[Counted] = Counter(row["status"] for row in rows)
    for row in rows:
        if row["status"] == "heard":
            sums.update({name: row[name] for name in ("words", *_ERRORS)})
            sums["slots"] += len(row["slots"])
            sums["slots_kept"] += sum(slot["status"] == "kept" for slot in row["slots"])
            sums["perfect_turns"] += row["wer"] == 0
    return sums


def set_statistics(target: float, counts: Counts) -> dict[str, Any]:
    """Return the numbers of a set, from the sums of :func:`counts`; rates without turns, words or slots are None."""
    set_name = alignment.set_name(target)
    names = ("words", *_ERRORS, "slots", "slots_kept", "perfect_turns")
    numbers = {name: counts.sum(name, set=set_name) for name in names}
    turns = counts.sum("heard", set=set_name)
    return {
        "target": target,
        "turns": turns,
        **numbers,
        "wer": _rate(sum(numbers[kind] for kind in _ERRORS), numbers["words"]),
        "slot_survival": _rate(numbers["slots_kept"], numbers["slots"]),
        "perfect": _rate(numbers["perfect_turns"], turns),
    }


def _rate(part: int, whole: int) -> float | None:
    return part / whole if whole else None
