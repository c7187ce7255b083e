"""Which of two noises each turn is heard through, so that all of them together have the word error rate that is asked.

One noise for all turns misses a target by points: the rate rises steeply with the noise. So every turn is heard twice,
through a noise that is too quiet for the target and through one that is too loud, and one threshold for the whole set
says which of the two a turn keeps: the louder where its draw, a hash of its dialogue and position, is below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from schemas.errors import InputError

CLOSE = 0.01  # a set is not called by a target that it misses by more

# A sample's rates are not those of the whole; a bracket is wider than they ask by this share.
_MARGIN = 0.15


class Setting(msgspec.Struct, frozen=True, order=True):
    """How the turns of one set are heard.

    Attributes:
      target: the word error rate, 0 to 1.
      quiet: the signal-to-noise ratio of the quieter noise, dB.
      loud: of the louder one.
      threshold: turns whose draw is below it are heard through the louder; None where that is still to be found.
    """

    target: float
    quiet: float
    loud: float
    threshold: int | None = None

    @property
    def name(self) -> str:
        """The set's folder: ``SR-20``."""
        return set_name(self.target)

    def snr(self, draw: int) -> float:
        """Through which of the two a turn is heard."""
        assert self.threshold is not None
        return self.loud if draw < self.threshold else self.quiet

    def levels(self, draw: int) -> tuple[float, ...]:
        """Through which a turn must be heard."""
        return (self.quiet, self.loud) if self.threshold is None else (self.snr(draw),)


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


def brackets(targets: Sequence[float], curve: Mapping[float, Errors]) -> list[Setting]:
    """For each target the nearest two noises between which it lies, by the rates of a sample.

    Args:
      targets: word error rates.
      curve: signal-to-noise ratio to the errors of the sample; at least two.

    Raises:
      InputError: a target that no mixture of these noises has.
    """
    levels = sorted(curve, reverse=True)
    settings = []
    for target in targets:
        quiet = [snr for snr in levels if curve[snr].rate <= target * (1 - _MARGIN)]
        loud = [snr for snr in levels if curve[snr].rate >= target * (1 + _MARGIN)]
        # The rate may be lower at a louder noise by chance: of the quiet ones the loudest that is above some loud one.
        one = min((snr for snr in quiet if snr > min(loud, default=levels[-1])), default=levels[0])
        other = max((snr for snr in loud if snr < one), default=levels[-1])
        if not curve[one].rate - CLOSE <= target <= curve[other].rate + CLOSE:
            rates = [errors.rate for errors in curve.values()]
            raise InputError(unreachable(target, min(rates), max(rates)))
        settings.append(Setting(target, one, other))
    return settings


def unreachable(target: float, least: float, most: float) -> str:
    """Why a target cannot be had, and what to do."""
    reached = f"{set_name(target)}: {least:.1%} to {most:.1%} of the words"
    if target < least:
        hint = "a quieter --snr makes fewer errors, and so does --language_model own of the embedded listener"
    else:
        hint = "a louder --snr makes more errors"
    return f"{reached} are heard wrong through these noises, and {target:.1%} are asked for; {hint}"


Bins = Iterable[tuple[tuple[float, int], tuple[int, int, int]]]


def thresholds(settings: Sequence[Setting], bins: Bins) -> list[Setting]:
    """The settings with the threshold that comes nearest to each target.

    Args:
      settings: of which some may have a threshold already.
      bins: ((target, draw), (words said, errors through the quiet noise, errors through the loud one)), summed over the
        turns with that draw.

    Raises:
      InputError: a target that cannot be had.
    """
    by_target: dict[float, list[tuple[int, tuple[int, int, int]]]] = {}
    for (target, draw), sums in bins:
        by_target.setdefault(target, []).append((draw, sums))
    return [
        one if one.threshold is not None else _with_threshold(one, by_target.get(one.target, [])) for one in settings
    ]


def _with_threshold(one: Setting, bins: list[tuple[int, tuple[int, int, int]]]) -> Setting:
    words = sum(n for _, (n, _, _) in bins)
    errors = least = sum(quiet for _, (_, quiet, _) in bins)
    wanted = one.target * words
    best, found = abs(errors - wanted), 0
    for draw, (_, quiet, loud) in sorted(bins):
        errors += loud - quiet
        if abs(errors - wanted) < best:
            best, found = abs(errors - wanted), draw + 1
    # Between the two every target can be had, as nearly as a single turn allows.
    if words and best > CLOSE * words and not least <= wanted <= errors:
        raise InputError(unreachable(one.target, least / words, errors / words))
    return msgspec.structs.replace(one, threshold=found)
