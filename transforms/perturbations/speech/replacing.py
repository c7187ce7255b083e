"""Replace turns by transcripts, locate slot spans by the alignment, and record both in a row."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from parapet.schemas.dialogue import Turn
from parapet.transforms.perturbation.base import Place
from parapet.transforms.perturbation.corpora import domain_of
from parapet.transforms.perturbations.speech import alignment
from parapet.transforms.perturbations.speech.alignment import Form, Found, Setting
from parapet.transforms.perturbations.speech.spoken import SpokenTurn, joined
from parapet.transforms.perturbations.speech.transcribing import Failure, Outcome, Transcript
from parapet.transforms.running.counts import Counts

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


def replaced_turn(
    turn: SpokenTurn,
    outcomes: Sequence[Outcome],
    snr_of: Callable[[Mapping[float, int]], float],
    form: Form,
    voice: str,
    noise: str,
) -> Replaced:
    """Return a user turn in the version of one set.

    Args:
      turn: the original turn.
      outcomes: the outcomes of its utterance; empty if the turn is not spoken.
      snr_of: chooses a ratio, given the word errors at each.
      form: the form of the transcript.
      voice: the voice of the dialogue.
      noise: the name of the noise.
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
    """Return a copy of a dialogue, in the format of its file, with some turns replaced."""
    turns = [*raw["turns"]]
    for new in replaced:
        position = new.row["turn"]
        turns[position] = copy.deepcopy(turns[position])
        write_into(turns[position], new)
    return {**raw, "turns": turns}


def failure_of(outcomes: Sequence[Outcome]) -> Failure | None:
    """Return why a turn has no transcript at one of the ratios, or None if it has all."""
    return next((outcome.result for outcome in outcomes if isinstance(outcome.result, Failure)), None)


def recognised_turn(turn: SpokenTurn, transcript: Transcript, form: Form, sound: Mapping[str, str | float]) -> Replaced:
    """Return a turn with its transcript.

    Args:
      turn: the original turn.
      transcript: the transcript of its spoken form.
      form: the form of the transcript, see :func:`~parapet.transforms.perturbations.speech.alignment.written`.
      sound: voice, noise and signal-to-noise ratio, for the row.
    """
    reference, hypothesis = [word.text for word in turn.words], transcript.words.split()
    aligned = alignment.align(reference, hypothesis)
    original, values = turn.turn.utterance, _original_spans(turn.turn)
    utterance, ranges = alignment.written(original, turn.words, aligned, hypothesis, values.values(), form)
    spans: Spans = {}
    for place, (start, end) in values.items():
        is_inside = 0 <= start < end <= len(original)
        spans[place] = alignment.find_span(start, end, turn.words, aligned, ranges) if is_inside else None
    row = {
        **_row(turn, "heard", "", utterance, spans),
        "hypothesis": transcript.words,
        "alignment": alignment.alignment_text(reference, hypothesis, aligned),
        "words": len(reference),
        "substitutions": aligned.substitutions,
        "deletions": aligned.deletions,
        "insertions": aligned.insertions,
        "wer": aligned.errors / len(reference),
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
            elif (span_here := replaced.spans[f, i]) is not None:
                kept.append({**span, "start": span_here.start, "exclusive_end": span_here.end})
        frame["slots"] = kept


Point = tuple[float, tuple[int, int]]  # signal-to-noise ratio, (errors, words)

_RESAMPLES = 2000
GARBLED = 0.6  # minimum word error rate of a garbled turn
# The counts that are summed over turns with a transcript.
SUMS = ("turns", "words", "substitutions", "deletions", "insertions", "slots", "slots_kept")


def turn_counts(row: Mapping[str, Any], services: Iterable[str]) -> Iterator[tuple[str | tuple[str, str], int]]:
    """Yield the counts of one user turn: a name, or (name, value), and a number.

    Args:
      row: a row of ``ASR_TURNS``.
      services: the services of the turn.
    """
    yield row["status"], 1
    if row["status"] != "heard":
        return
    errors = sum(row[kind] for kind in ("substitutions", "deletions", "insertions"))
    sums = {
        "turns": 1,
        **{name: row[name] for name in ("words", "substitutions", "deletions", "insertions")},
        "slots": len(row["slots"]),
        "slots_kept": sum(slot["status"] == "kept" for slot in row["slots"]),
    }
    domains = {domain_of(service) or service for service in services}
    for name, n in sums.items():
        yield name, n
        for domain in domains:
            yield (f"domain_{name}", domain), n
    yield ("turn_errors", f"{errors}/{row['words']}"), 1


def dialogue_counts(place: Place, rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[tuple[str, str], int]]:
    """Yield the word errors and reference words of a dialogue, for computing intervals."""
    file, position = place
    errors = words = 0
    for row in rows:
        words += row["words"]
        errors += sum(row[kind] for kind in ("substitutions", "deletions", "insertions"))
    key = f"{file}\0{position:06}"
    yield ("dialogue_errors", key), errors
    yield ("dialogue_words", key), words


def statistics(counts: Counts, settings: Sequence[Setting], curve: Iterable[Point]) -> dict[str, Any]:
    """Return the sets and the curve of ``statistics.json``.

    Args:
      counts: the counts of all turns and dialogues (:func:`turn_counts`, :func:`dialogue_counts`).
      settings: the sets.
      curve: signal-to-noise ratio to (errors, words) of the sample.
    """
    return {
        "sets": {setting.name: _of_set(setting, counts) for setting in sorted(settings)},
        "curve": [
            {"snr": snr, "words": words, "errors": errors, "wer": errors / words}
            for snr, (errors, words) in sorted(curve, reverse=True)
            if words
        ],
    }


def _of_set(setting: Setting, counts: Counts) -> dict[str, Any]:
    name = setting.name
    errors, words = (counts.by("value", f"dialogue_{kind}", set=name) for kind in ("errors", "words"))
    low, high = interval([(errors[place], words[place]) for place in sorted(words)], name)
    domains = {kind: counts.by("value", f"domain_{kind}", set=name) for kind in SUMS}
    return {
        "target": setting.target,
        **numbers([counts.sum(kind, set=name) for kind in SUMS]),
        "wer_low": low,
        "wer_high": high,
        "level": None if setting.level is None else setting.level / alignment.LEVELS,
        "turn_wer": turn_rates(counts.by("value", "turn_errors", set=name)),
        "domains": {
            domain: numbers([domains[kind].get(domain, 0) for kind in SUMS]) for domain in sorted(domains["turns"])
        },
    }


def numbers(sums: Sequence[int]) -> dict[str, Any]:
    """Return the sums by name, the word error rate and the share of slot values kept; None if undefined."""
    sums_by_name = dict(zip(SUMS, sums, strict=True))
    errors = sums_by_name["substitutions"] + sums_by_name["deletions"] + sums_by_name["insertions"]
    return {
        **sums_by_name,
        "wer": errors / sums_by_name["words"] if sums_by_name["words"] else None,
        "slot_survival": sums_by_name["slots_kept"] / sums_by_name["slots"] if sums_by_name["slots"] else None,
    }


def turn_rates(turns: Mapping[str, int]) -> dict[str, Any]:
    """Return the distribution of the word error rates of single turns, each with the same weight.

    Args:
      turns: ``errors/words`` to the number of turns.

    Returns:
      ``quartiles``; ``perfect``, the share of turns without errors; ``garbled``, the share with a rate of at least
        ``GARBLED``.
    """
    rates = [(int(errors) / int(words), n) for name, n in turns.items() for errors, words in [name.split("/")]]
    every = sum(n for _, n in rates)
    return {
        "quartiles": _quartiles(rates),
        "perfect": sum(n for rate, n in rates if not rate) / every if every else None,
        "garbled": sum(n for rate, n in rates if rate >= GARBLED) / every if every else None,
    }


def _quartiles(values: Sequence[tuple[float, int]]) -> list[float]:
    """Return the smallest values that a quarter, half and three quarters do not exceed; empty without values."""
    every = [value for value, n in values for _ in range(n)]
    return [float(value) for value in np.quantile(every, (0.25, 0.5, 0.75), method="inverted_cdf")] if every else []


def interval(dialogues: Sequence[tuple[int, int]], name: str) -> tuple[float | None, float | None]:
    """Return the 95 % interval of the word error rate by percentile bootstrap.

    It resamples dialogues, since turns are dependent.

    Args:
      dialogues: (errors, words) of each dialogue.
      name: the name of the set, which is the seed.
    """
    table = np.array(dialogues, np.float64).reshape(-1, 2)
    if not table[:, 1].sum():
        return None, None
    drawn = np.random.default_rng(list(name.encode()))
    rates = []
    for _ in range(_RESAMPLES):
        errors, words = table[drawn.integers(len(table), size=len(table))].sum(axis=0)
        if words:
            rates.append(errors / words)
    low, high = np.percentile(rates, [2.5, 97.5])
    return round(float(low), 6), round(float(high), 6)
