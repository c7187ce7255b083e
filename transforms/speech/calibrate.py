"""Calibration: at which signal-to-noise ratio each turn is recognised, so that a set has a given word error rate.

One ratio for all turns misses a rate by points, since errors multiply within a few decibels; with a mixture of two
ratios half of the turns are perfect and the others garbled. So each turn has a target share of errors, drawn once from
a triangular distribution, and takes the transcript of the ratio that comes nearest to it. The level, the middle of the
distribution, is one number for the whole set: the one that brings the rate over all words nearest to the target.

A turn's share only rises with the level, and all sets of a run choose among the same transcripts: so no turn has fewer
errors in the set of a higher rate.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, parse_json
from parapet.schemas.limits import read_whole
from parapet.transforms.speech.turns import DRAWS

CLOSE = 0.01  # a set that misses its target by more is an error
LEVELS = 10_000  # a level is so many parts of 1

# By how much the rate of a sample of some 200 words may be off: a target further outside is rejected at once.
_SLACK = 0.03

# The levels that a set may turn out to have, as parts of its target; observed: 0.8 to 1.5 times the target.
_SOUGHT = 0.5, 1.6


class Setting(msgspec.Struct, frozen=True, order=True):
    """One set.

    Attributes:
      target: the word error rate, 0 to 1.
      level: the middle of the distribution of the turns' shares of errors, of 10,000; None until it is computed.
    """

    target: float
    level: int | None = None

    @property
    def name(self) -> str:
        """The set's folder: ``SR-20``."""
        return set_name(self.target)


class Calibration(msgspec.Struct, frozen=True):
    """The calibration of a run.

    Attributes:
      ratios: the signal-to-noise ratios that may be used, dB, the quietest noise first.
      start: the ratio at which each turn is recognised first.
      settings: the sets.
    """

    ratios: tuple[float, ...]
    start: float
    settings: tuple[Setting, ...]

    def next_ratio(self, errors: Mapping[float, int], words: int, draws: Iterable[int]) -> float | None:
        """The next ratio at which to recognise a text, from ``start`` outwards; None where no other can be nearer.

        Args:
          errors: ratio to word errors, of the ratios tried so far.
          words: the number of reference words.
          draws: of the turns that have this text.
        """
        if not errors:
            return self.start
        targets = [setting.target for setting in self.settings]
        low = min(share(draw, round(LEVELS * _SOUGHT[0] * min(targets))) for draw in draws) * words
        high = max(share(draw, min(LEVELS, round(LEVELS * _SOUGHT[1] * max(targets)))) for draw in draws) * words
        tried = [self.ratios.index(snr) for snr in errors]
        # Errors are whole numbers: within half an error nothing can be nearer.
        if min(tried) > 0 and min(errors.values()) - 0.5 > low:
            return self.ratios[min(tried) - 1]
        if max(tried) + 1 < len(self.ratios) and max(errors.values()) + 0.5 < high:
            return self.ratios[max(tried) + 1]
        return None

    def chosen(self, setting: Setting, errors: Mapping[float, int], words: int, draw: int) -> float:
        """The ratio whose transcript a set takes for a turn: of equally good ones, the nearest to ``start``.

        Args:
          setting: the set, with its level.
          errors: ratio to word errors, of the ratios that were tried.
          words: the number of reference words.
          draw: the turn's draw.
        """
        assert setting.level is not None
        nearest = _nearest(sorted(set(errors.values())), share(draw, setting.level) * words)
        return min((snr for snr, n in errors.items() if n == nearest), key=lambda snr: (abs(snr - self.start), -snr))


def set_name(target: float) -> str:
    """``SR-20`` for a target of 0.2, ``SR-12.5`` for 0.125."""
    return f"SR-{100 * target:.10g}"


def share(draw: int, level: int) -> float:
    """The share of a turn's words that should be wrong: a quantile of the triangular distribution around a level.

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


def _nearest(errors: Sequence[int], target: float) -> int:
    """Of sorted numbers of errors the nearest to a target; of two the smaller."""
    return min(errors, key=lambda n: abs(n - target))


def steps(errors: Mapping[float, int], words: int, draw: int) -> Iterator[tuple[int, int]]:
    """The levels at which a turn's errors increase, and by how much; level 0 has its smallest number of errors.

    Args:
      errors: ratio to word errors, of one turn.
      words: the number of reference words.
      draw: the turn's draw.
    """
    every = sorted(set(errors.values()))
    yield 0, every[0]
    for before, n in pairwise(every):
        level = bisect_left(range(LEVELS + 1), True, key=lambda level: _nearest(every, share(draw, level) * words) >= n)
        if level <= LEVELS:
            yield level, n - before


def check_within_reach(targets: Sequence[float], quiet: float, loud: float) -> None:
    """Raises InputError for a target far outside the rates of a sample at the quietest and the loudest noise."""
    for target in targets:
        if not quiet - _SLACK <= target <= loud + _SLACK:
            raise InputError(unreachable(target, quiet, loud))


def calibration(targets: Sequence[float], curve: Mapping[float, float]) -> Calibration:
    """The calibration that follows from a sample: turns start at the ratio whose rate is nearest to the mean target.

    Args:
      targets: word error rates.
      curve: signal-to-noise ratio to the word error rate of the sample.
    """
    middle = sum(targets) / len(targets)
    ratios = tuple(sorted(curve, reverse=True))
    start = min(ratios, key=lambda snr: abs(curve[snr] - middle))
    return Calibration(ratios, start, tuple(map(Setting, sorted(targets))))


def unreachable(target: float, least: float, most: float) -> str:
    """The message about a target that cannot be reached."""
    range_ = f"{set_name(target)}: at these signal-to-noise ratios the word error rate is {least:.1%} to {most:.1%}"
    if target < least:
        hint = "a higher --snr makes fewer errors, and so does --language_model mixed of the embedded listener"
    else:
        hint = "a lower --snr makes more errors"
    return f"{range_}, and the target is {target:.1%}; {hint}"


def with_levels(before: Calibration, sums: Iterable[tuple[int, tuple[int, int]]]) -> Calibration:
    """The calibration with the level of each set that comes nearest to its target.

    Args:
      before: some of its sets may have a level already.
      sums: (level, (reference words, additional errors from that level on)), summed over all turns; the words are
        counted at level 0.

    Raises:
      InputError: a target that cannot be reached.
    """
    table = sorted(sums)
    settings = [one if one.level is not None else _with_level(one, table) for one in before.settings]
    return msgspec.structs.replace(before, settings=tuple(settings))


def _with_level(setting: Setting, table: Sequence[tuple[int, tuple[int, int]]]) -> Setting:
    words = sum(n for _, (n, _) in table)
    target = setting.target * words
    errors, totals = 0, [(0, 0)] if not table else []
    for level, (_, more) in table:
        errors += more
        totals.append((level, errors))
    best, reached = min(totals, key=lambda pair: (abs(pair[1] - target), pair[0]))
    least, most = totals[0][1], totals[-1][1]
    # Any target between the two can be reached to within one turn.
    if words and abs(reached - target) > CLOSE * words and not least <= target <= most:
        raise InputError(unreachable(setting.target, least / words, most / words))
    return msgspec.structs.replace(setting, level=best)


def read_calibration(
    path: str, targets: Sequence[float], made_with: Mapping[str, object]
) -> tuple[Calibration, list[str]]:
    """Reads the calibration of another run.

    Args:
      path: its ``calibration.json``.
      targets: the word error rates of this run's sets.
      made_with: what this run's word error rates depend on.

    Returns:
      The calibration of these sets; how this run differs from the other, one line each.

    Raises:
      InputError: no such file, or one without one of the targets.
    """
    data = read_whole(as_path(path), where="--calibration")
    try:
        decoded = parse_json(data, path)
        found = msgspec.convert(decoded, Calibration)
        before = dict(decoded["made_with"])
    except InputError as error:
        raise InputError(f"is no calibration.json of speech_errors: {error.reason}", path, "--calibration") from None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"is no calibration.json of speech_errors: {error}", path, "--calibration") from None
    if not found.ratios or found.start not in found.ratios or not all(map(is_ratio, found.ratios)):  # NaN is read too
        raise InputError("is no calibration.json of speech_errors: ratios that cannot be used", path, "--calibration")
    by_name = {setting.name: setting for setting in found.settings}
    chosen = []
    for target in targets:
        setting = by_name.get(set_name(target))
        if setting is None or setting.level is None or not 0 <= setting.level <= LEVELS:
            names = ", ".join(sorted(by_name))
            raise InputError(f"has no {set_name(target)}; it has {names}", path, "--calibration")
        chosen.append(setting)
    changed = [
        f"calibrated with {name} {before.get(name)!r}, this run has {value!r}"
        for name, value in made_with.items()
        if before.get(name) != value
    ]
    ratios = tuple(sorted(found.ratios, reverse=True))
    return Calibration(ratios, found.start, tuple(chosen)), changed


def is_ratio(snr: float) -> bool:
    """Whether a signal-to-noise ratio, in dB, can be used."""
    return -20 <= snr <= 60
