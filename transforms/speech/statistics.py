"""Word error rates of the sets: realised, with an interval; by kind of error, domain and voice; slots that survived."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from parapet.transforms.corpora import domain_of
from parapet.transforms.speech.calibrate import LEVELS, Setting
from parapet.transforms.speech.replacing import Replaced

_RESAMPLES = 2000
GARBLED = 0.6  # a turn with so many of its words wrong, or more
# What is summed, of turns that were heard.
SUMS = ("turns", "words", "substitutions", "deletions", "insertions", "slots", "slots_kept")


class Tally(msgspec.Struct, frozen=True):
    """Numbers to be summed.

    Attributes:
      set: of which set.
      kind: ``all``, ``domain``, ``voice``; ``rate`` or ``snr``: how many turns have it; or ``dialogue``, which are not
        summed: intervals are drawn from them.
      name: which domain or voice, ``errors/words`` of a turn, its ratio; of a dialogue its file and position.
      sums: as ``SUMS`` has them; of a dialogue (errors, words).
    """

    set: str
    kind: str
    name: str
    sums: tuple[int, ...]


def tally_of(name: str, services: Iterable[str], replaced: Replaced) -> Iterator[Tally]:
    """The numbers of one turn, that speaks of some services; nothing where it was not heard."""
    row = replaced.row
    if row["status"] != "heard":
        return
    errors = tuple(row[kind] for kind in ("words", "substitutions", "deletions", "insertions"))
    sums = (1, *errors, len(row["slots"]), sum(slot["status"] == "kept" for slot in row["slots"]))
    yield Tally(name, "all", "", sums)
    yield Tally(name, "voice", row["voice"], sums)
    yield Tally(name, "rate", f"{sum(errors[1:])}/{errors[0]}", (1,))
    yield Tally(name, "snr", f"{row['snr']:g}", (1,))
    for domain in sorted({domain_of(service) for service in services}):
        yield Tally(name, "domain", domain, sums)


def statistics(
    settings: Sequence[Setting],
    curve: Iterable[tuple[float, tuple[int, int]]],
    sums: Iterable[tuple[tuple[str, str, str], tuple[int, ...]]],
    dialogues: Iterable[tuple[str, tuple[str, tuple[int, int]]]],
) -> dict[str, Any]:
    """``statistics.json``.

    Args:
      settings: of the sets.
      curve: signal-to-noise ratio to (errors, words) of the sample; nothing where none was heard.
      sums: (set, kind, name) to the sums of its turns.
      dialogues: (set, (name, (errors, words))) of every dialogue.
    """
    by_key = dict(sums)
    errors: dict[str, list[tuple[int, int]]] = {}
    for name, (_, pair) in sorted(dialogues):
        errors.setdefault(name, []).append(pair)
    return {
        "sets": {one.name: _of_set(one, by_key, errors.get(one.name, [])) for one in sorted(settings)},
        "curve": [
            {"snr": snr, "words": words, "errors": wrong, "wer": wrong / words}
            for snr, (wrong, words) in sorted(curve, reverse=True)
            if words
        ],
    }


def _of_set(
    one: Setting, sums: Mapping[tuple[str, str, str], tuple[int, ...]], dialogues: Sequence[tuple[int, int]]
) -> dict[str, Any]:
    def of_kind(kind: str) -> dict[str, tuple[int, ...]]:
        return {key[2]: of for key, of in sorted(sums.items()) if key[:2] == (one.name, kind)}

    low, high = interval(dialogues, one.name)
    found: dict[str, Any] = {
        "target": one.target,
        **numbers(sums.get((one.name, "all", ""), (0,) * len(SUMS))),
        "wer_low": low,
        "wer_high": high,
        "level": None if one.level is None else one.level / LEVELS,
        "turn_wer": turn_rates({name: n for name, (n, *_) in of_kind("rate").items()}),
        "turn_snr": _quartiles((float(name), n) for name, (n, *_) in of_kind("snr").items()),
    }
    for kind in ("domain", "voice"):
        found[f"{kind}s"] = {name: numbers(of) for name, of in of_kind(kind).items()}
    return found


def numbers(sums: Sequence[int]) -> dict[str, Any]:
    """The sums by name, with the word error rate, and the share of slot values that survived; None of nothing."""
    of = dict(zip(SUMS, sums, strict=True))
    errors = of["substitutions"] + of["deletions"] + of["insertions"]
    return {
        **of,
        "wer": errors / of["words"] if of["words"] else None,
        "slot_survival": of["slots_kept"] / of["slots"] if of["slots"] else None,
    }


def turn_rates(turns: Mapping[str, int]) -> dict[str, Any]:
    """How the word error rates of single turns are distributed, each turn counted once, however long.

    Args:
      turns: how many have so many errors in so many words, by ``errors/words``.

    Returns:
      ``quartiles``; ``perfect``, the share of turns without an error; ``garbled``, of those with ``GARBLED`` or more;
      ``tenths``, how many turns have no error, then up to 10 %, up to 20 % and so on, and more than 100 %.
    """
    rates = [(int(errors) / int(words), n) for name, n in turns.items() for errors, words in [name.split("/")]]
    every = sum(n for _, n in rates)
    tenths = [0] * 12
    for rate, n in rates:
        tenths[min(math.ceil(round(10 * rate, 9)), 11)] += n
    return {
        "quartiles": _quartiles(rates),
        "perfect": tenths[0] / every if every else None,
        "garbled": sum(n for rate, n in rates if rate >= GARBLED) / every if every else None,
        "tenths": tenths,
    }


def _quartiles(values: Iterable[tuple[float, int]]) -> list[float]:
    """The smallest value that a quarter, half, three quarters are not above; nothing of nothing."""
    every = sorted(values)
    total = sum(n for _, n in every)
    reached = list(itertools.accumulate(n for _, n in every))
    return [every[bisect_left(reached, total * quarter / 4)][0] for quarter in (1, 2, 3)] if total else []


def interval(dialogues: Sequence[tuple[int, int]], name: str) -> tuple[float | None, float | None]:
    """95 % of the word error rates of resampled dialogues (percentile bootstrap; turns of one hang together).

    Args:
      dialogues: (errors, words) of each.
      name: the draws' seed.
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
