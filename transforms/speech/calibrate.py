"""Through which noise each turn is heard, so that all of them together have a rate, and their own spread around it.

One noise for all turns misses a rate by points, since errors become many within a few decibels; and of a mixture of two
noises half of the turns are perfect and the others garbled. So every turn has a share of errors of its own, drawn once
from a triangular distribution, and is heard through the noise that comes nearest to it. The level, in the middle of the
distribution, is one number for the whole set: the one that brings all words together nearest to the rate.

A turn's share only rises with the level, and the noises that it was heard through are the same for all sets of a run:
so no turn has fewer errors in the set of a higher rate.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec

from parapet.schemas.errors import InputError
from parapet.transforms.speech.turns import DRAWS

CLOSE = 0.01  # a set is not called by a target that it misses by more
LEVELS = 10_000  # a level is so many parts of 1

# By how much the rate of a sample of some 200 words may be off: a target further outside is not even tried.
_SLACK = 0.03

# Shares of errors that may come to be wanted, as parts of the target: levels that sets had were 0.8 to 1.5 times it.
_SOUGHT = 0.5, 1.6


class Setting(msgspec.Struct, frozen=True, order=True):
    """One set.

    Attributes:
      target: the word error rate, 0 to 1.
      level: the middle of what the turns' shares of errors are drawn from, of 10,000; None where it is still unknown.
    """

    target: float
    level: int | None = None

    @property
    def name(self) -> str:
        """The set's folder: ``SR-20``."""
        return set_name(self.target)


class Calibration(msgspec.Struct, frozen=True):
    """How the turns of a run are heard.

    Attributes:
      ratios: the signal-to-noise ratios that may be used, dB, the quietest noise first.
      start: the ratio through which each turn is heard first.
      settings: the sets.
    """

    ratios: tuple[float, ...]
    start: float
    settings: tuple[Setting, ...]

    def next_ratio(self, errors: Mapping[float, int], words: int, draws: Iterable[int]) -> float | None:
        """Through which ratio a text must be heard next, from ``start`` outwards; None where nothing is to be gained.

        Args:
          errors: ratio to word errors, of those it was heard through.
          words: of the text.
          draws: of the turns that say it.
        """
        if not errors:
            return self.start
        targets = [one.target for one in self.settings]
        low = min(share(draw, round(LEVELS * _SOUGHT[0] * min(targets))) for draw in draws) * words
        high = max(share(draw, min(LEVELS, round(LEVELS * _SOUGHT[1] * max(targets)))) for draw in draws) * words
        heard = [self.ratios.index(snr) for snr in errors]
        # Errors are whole: within half a one nothing can be nearer.
        if min(heard) > 0 and min(errors.values()) - 0.5 > low:
            return self.ratios[min(heard) - 1]
        if max(heard) + 1 < len(self.ratios) and max(errors.values()) + 0.5 < high:
            return self.ratios[max(heard) + 1]
        return None

    def chosen(self, one: Setting, errors: Mapping[float, int], words: int, draw: int) -> float:
        """Through which of the ratios that it was heard through a turn is in a set: of equals the nearest to ``start``.

        Args:
          one: the set, with its level.
          errors: ratio to word errors.
          words: of the turn.
          draw: of the turn.
        """
        assert one.level is not None
        nearest = _nearest(sorted(set(errors.values())), share(draw, one.level) * words)
        return min((snr for snr, n in errors.items() if n == nearest), key=lambda snr: (abs(snr - self.start), -snr))


class Errors(msgspec.Struct, frozen=True):
    """Word errors, and the words that were said."""

    errors: int
    words: int

    @property
    def rate(self) -> float:
        """The word error rate."""
        return self.errors / max(self.words, 1)


def set_name(target: float) -> str:
    """``SR-20`` for a target of 0.2, ``SR-12.5`` for 0.125."""
    return f"SR-{100 * target:.10g}"


def share(draw: int, level: int) -> float:
    """The share of its words that a turn is to have wrong: a quantile of the triangular distribution around a level.

    The distribution is symmetric and as wide as fits into 0 to 1: from 0 to twice the level where that is up to a half.
    For each draw it rises with the level, from 0 to 1.

    Args:
      draw: 0 to 9,999: which quantile.
      level: 0 to 10,000.
    """
    quantile = (draw + 0.5) / DRAWS
    place = math.sqrt(2 * quantile) - 1 if quantile < 0.5 else 1 - math.sqrt(2 * (1 - quantile))  # -1 to 1
    middle = level / LEVELS
    return middle * (1 + place) if middle <= 0.5 else 1 - (1 - middle) * (1 - place)


def _nearest(errors: Sequence[int], wanted: float) -> int:
    """Of some numbers of errors, sorted, the nearest to what is wanted; of two the smaller."""
    return min(errors, key=lambda n: abs(n - wanted))


def steps(errors: Mapping[float, int], words: int, draw: int) -> Iterator[tuple[int, int]]:
    """By how many errors a turn has more from a level on; level 0 has those that it has anyway.

    Args:
      errors: ratio to word errors, of one turn.
      words: of the turn.
      draw: of the turn.
    """
    every = sorted(set(errors.values()))
    yield 0, every[0]
    for before, n in pairwise(every):
        level = bisect_left(range(LEVELS + 1), True, key=lambda level: _nearest(every, share(draw, level) * words) >= n)
        if level <= LEVELS:
            yield level, n - before


def check_within_reach(targets: Sequence[float], quiet: Errors, loud: Errors) -> None:
    """Raises InputError for a target that is far from what a sample has through the quietest and the loudest noise."""
    for target in targets:
        if not quiet.rate - _SLACK <= target <= loud.rate + _SLACK:
            raise InputError(unreachable(target, quiet.rate, loud.rate))


def calibration(targets: Sequence[float], curve: Mapping[float, Errors]) -> Calibration:
    """How turns are heard, by what a sample was heard as: first through the ratio that has the targets' mean.

    Args:
      targets: word error rates.
      curve: signal-to-noise ratio to the errors of the sample.
    """
    middle = sum(targets) / len(targets)
    ratios = tuple(sorted(curve, reverse=True))
    start = min(ratios, key=lambda snr: abs(curve[snr].rate - middle))
    return Calibration(ratios, start, tuple(map(Setting, sorted(targets))))


def unreachable(target: float, least: float, most: float) -> str:
    """Why a target cannot be reached, and what to do."""
    reached = f"{set_name(target)}: {least:.1%} to {most:.1%} of the words"
    if target < least:
        hint = "a quieter --snr makes fewer errors, and so does --language_model mixed of the embedded listener"
    else:
        hint = "a louder --snr makes more errors"
    return f"{reached} are heard wrong through these noises, and {target:.1%} are asked for; {hint}"


def with_levels(before: Calibration, sums: Iterable[tuple[int, tuple[int, int]]]) -> Calibration:
    """The calibration with the level of each set that comes nearest to its target.

    Args:
      before: of which some sets may have a level already.
      sums: (level, (words said, errors more from that level on)), summed over all turns; the words at level 0.

    Raises:
      InputError: a target that cannot be reached.
    """
    table = sorted(sums)
    found = [one if one.level is not None else _with_level(one, table) for one in before.settings]
    return msgspec.structs.replace(before, settings=tuple(found))


def _with_level(one: Setting, table: Sequence[tuple[int, tuple[int, int]]]) -> Setting:
    words = sum(n for _, (n, _) in table)
    wanted = one.target * words
    errors, totals = 0, [(0, 0)] if not table else []
    for level, (_, more) in table:
        errors += more
        totals.append((level, errors))
    found, best = min(totals, key=lambda at: (abs(at[1] - wanted), at[0]))
    least, most = totals[0][1], totals[-1][1]
    # Between the two every target can be reached, as nearly as a single turn allows.
    if words and abs(best - wanted) > CLOSE * words and not least <= wanted <= most:
        raise InputError(unreachable(one.target, least / words, most / words))
    return msgspec.structs.replace(one, level=found)
