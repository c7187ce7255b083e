"""Align reference and hypothesis: count word errors, and find slot values in the hypothesis."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby, pairwise, zip_longest
from typing import Any, Literal

import msgspec

from parapet.schemas.errors import InputError
from parapet.transforms.perturbations.speech.spoken import DRAWS, Word

Form = Literal["heard", "restored"]
Kind = Literal["equal", "substitute", "delete", "insert"]
# kind, first and last (exclusive) reference word, first and last (exclusive) hypothesis word
Chunk = tuple[Kind, int, int, int, int]


class Aligned(msgspec.Struct, frozen=True):
    """An alignment of reference and hypothesis with the fewest errors.

    Attributes:
      chunks: runs of one kind, in order and without gaps, which cover all words of both sides.
      substitutions: number of words recognised as another one.
      deletions: number of words of the reference that are missing from the hypothesis.
      insertions: number of words of the hypothesis that are not in the reference.
      hits: number of words recognised correctly.
    """

    chunks: tuple[Chunk, ...]
    substitutions: int
    deletions: int
    insertions: int
    hits: int

    @property
    def errors(self) -> int:
        """Return the number of word errors."""
        return self.substitutions + self.deletions + self.insertions


class Found(msgspec.Struct, frozen=True):
    """A range of characters in the new utterance; ``end`` is exclusive."""

    start: int
    end: int


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> Aligned:
    """Align words; either side may be empty.

    Pairs are aligned one at a time: for eight words, jiwer needs 20 microseconds, compared to 15 in a batch.

    Args:
      reference: the words that were spoken, without spaces.
      hypothesis: the words of the transcript, likewise.
    """
    jiwer, apart = _jiwer()
    alignment = jiwer.process_words(" ".join(reference), " ".join(hypothesis), apart, apart)
    return Aligned(
        tuple(
            (c.type, c.ref_start_idx, c.ref_end_idx, c.hyp_start_idx, c.hyp_end_idx) for c in alignment.alignments[0]
        ),
        alignment.substitutions,
        alignment.deletions,
        alignment.insertions,
        alignment.hits,
    )


@lru_cache(maxsize=1)
def _jiwer() -> tuple[Any, Any]:
    """Import jiwer, which is part of the extra "speech", and make a transform that only splits at spaces."""
    import jiwer

    return jiwer, jiwer.Compose([jiwer.ReduceToListOfListOfWords()])


def alignment_text(reference: Sequence[str], hypothesis: Sequence[str], aligned: Aligned) -> str:
    """Format an alignment as word pairs, separated by spaces.

    ``want`` was recognised correctly, ``three>tree`` substituted, ``a>`` deleted, ``>the`` inserted. The format, as in
    "i want three>tree a> >the", is unambiguous; it is empty if both sides are.
    """
    return " ".join(
        spoken if kind == "equal" else f"{spoken}>{recognised}"
        for kind, start, end, hyp_start, hyp_end in aligned.chunks
        for spoken, recognised in zip_longest(reference[start:end], hypothesis[hyp_start:hyp_end], fillvalue="")
    )


Ranges = Iterable[tuple[int, int]]  # first and last (exclusive) characters


def written(
    utterance: str, words: Sequence[Word], aligned: Aligned, hypothesis: Sequence[str], values: Ranges, form: Form
) -> tuple[str, list[Found]]:
    """Write the hypothesis as a text.

    ``heard``: plain words, except that values have the digits and abbreviations of the utterance. So "March 4th"
    becomes "march 4th" if it is a value that was recognised correctly, since the state has no "march fourth".

    ``restored``: words that were recognised correctly have the capitals, digits and punctuation of the utterance: "at
    7:30 pm, tree people". A number with a recognition error is spelled out, and punctuation next to an error is lost.
    Without errors, the result is the utterance itself.

    Args:
      utterance: the original text.
      words: its words.
      aligned: the alignment of these words with the hypothesis.
      hypothesis: the words of the transcript.
      values: the places of values in the utterance.
      form: one of the two.

    Returns:
      The text, and the position of each hypothesis word in it; all words of a number have the position of that number.
    """
    in_values = [any(start < word.end and word.start < end for start, end in values) for word in words]
    text, ranges = "", list[Found]()
    done: int | None = 0  # reference words before this index are written; None after a misrecognised word
    for piece in _pieces(words, aligned, hypothesis):
        between, parts, n = " " if text else "", [], 1
        if isinstance(piece, str):
            parts, done = [piece], None
        else:
            first, after = piece
            own, parts, n = utterance[words[first].start : words[first].end], _texts(words[first:after]), after - first
            if form == "restored":
                between = (
                    utterance[words[first - 1].end if first else 0 : words[first].start] if done == first else between
                )
                parts = [own]
            elif in_values[first] and _letters(own.lower()) != _letters(" ".join(parts)):
                parts = [" ".join(own.lower().split())]
            done = after
        for part in parts:
            text += between
            ranges += [Found(len(text), len(text) + len(part))] * (n - len(parts) + 1)
            text, between = text + part, " "
    return text + (utterance[words[-1].end :] if form == "restored" and words and done == len(words) else ""), ranges


def _texts(words: Iterable[Word]) -> list[str]:
    return [word.text for word in words]


def _letters(text: str) -> str:
    return re.sub(r"[^\w ]", "", text)


def find_span(start: int, end: int, words: Sequence[Word], aligned: Aligned, ranges: Sequence[Found]) -> Found | None:
    """Return the span of a slot value in the new utterance; None if it was not recognised correctly.

    All its words must be recognised correctly, without insertions between them. A value that contains part of a number
    ("5" in "$5") covers all words of that number.

    Args:
      start: the first character of the value in the utterance.
      end: the end of the value (exclusive).
      words: the words of the utterance.
      aligned: the alignment of these words with the hypothesis.
      ranges: the position of each hypothesis word in the new utterance, from :func:`written`.
    """
    own = [i for i, word in enumerate(words) if word.start < end and start < word.end]
    if not own or start >= end:
        return None
    for kind, first, after, hyp_first, _ in aligned.chunks:
        if kind == "equal" and first <= own[0] and own[-1] < after:
            shift = hyp_first - first
            return Found(ranges[own[0] + shift].start, ranges[own[-1] + shift].end)
    return None


def _pieces(words: Sequence[Word], aligned: Aligned, hypothesis: Sequence[str]) -> Iterator[str | tuple[int, int]]:
    """Yield the hypothesis in order: words, or ranges of reference words of a correctly recognised token."""
    reference_of: list[int] = [-1] * len(hypothesis)
    for kind, start, end, hyp_start, hyp_end in aligned.chunks:
        if kind == "equal":
            reference_of[hyp_start:hyp_end] = range(start, end)
    tokens = {}  # by index of the first word
    for _, run in groupby(range(len(words)), key=lambda i: (words[i].start, words[i].end)):
        token = list(run)
        tokens[token[0]] = token
    at = 0
    while at < len(hypothesis):
        token = tokens.get(reference_of[at], [])
        if token and reference_of[at : at + len(token)] == token:
            yield token[0], token[-1] + 1
            at += len(token)
        else:
            yield hypothesis[at]
            at += 1


CLOSE = 0.01  # a set that misses its target by more is an error
LEVELS = 10_000  # a level of 10,000 means 1

# Tolerance for the error rate of a sample of some 200 words: targets further outside are rejected at once.
_SLACK = 0.03

# Levels to consider, relative to the target; observed: 0.8 to 1.5.
_SOUGHT = 0.5, 1.6


class Setting(msgspec.Struct, frozen=True, order=True):
    """The settings of a set.

    Attributes:
      target: the word error rate, 0 to 1.
      level: the mode of the distribution of turns' error shares, in ten-thousandths; None until it is computed.
    """

    target: float
    level: int | None = None

    @property
    def name(self) -> str:
        """Return the folder of the set, such as ``SR-20``."""
        return set_name(self.target)


class Calibration(msgspec.Struct, frozen=True):
    """The calibration of a run.

    Attributes:
      ratios: the possible signal-to-noise ratios in dB, from the quietest noise.
      start: the ratio at which each turn is recognised first.
      settings: the sets.
    """

    ratios: tuple[float, ...]
    start: float
    settings: tuple[Setting, ...]

    def next_ratio(self, errors: Mapping[float, int], words: int, draws: Iterable[int]) -> float | None:
        """Return the next ratio for recognising a text, from ``start`` outwards; None if no other one can be closer.

        Args:
          errors: ratio to word errors, for the ratios tried so far.
          words: the number of reference words.
          draws: the draws of the turns with this text.
        """
        if not errors:
            return self.start
        targets = [setting.target for setting in self.settings]
        low = min(share(draw, round(LEVELS * _SOUGHT[0] * min(targets))) for draw in draws) * words
        high = max(share(draw, min(LEVELS, round(LEVELS * _SOUGHT[1] * max(targets)))) for draw in draws) * words
        tried = [self.ratios.index(snr) for snr in errors]
        # Errors are whole numbers, so nothing can be closer than half an error.
        if min(tried) > 0 and min(errors.values()) - 0.5 > low:
            return self.ratios[min(tried) - 1]
        if max(tried) + 1 < len(self.ratios) and max(errors.values()) + 0.5 < high:
            return self.ratios[max(tried) + 1]
        return None

    def chosen(self, setting: Setting, errors: Mapping[float, int], words: int, draw: int) -> float:
        """Return the ratio whose transcript a set uses for a turn; ties go to the highest ratio.

        With quieter noise, errors sound more like what was said.

        Args:
          setting: the set with its level.
          errors: ratio to word errors, for the ratios tried.
          words: the number of reference words.
          draw: the turn's draw.
        """
        assert setting.level is not None
        nearest = _nearest(sorted(set(errors.values())), share(draw, setting.level) * words)
        return max(snr for snr, n in errors.items() if n == nearest)


def set_name(target: float) -> str:
    """Return the name of a set: ``SR-20`` for a target of 0.2, ``SR-12.5`` for 0.125."""
    return f"SR-{100 * target:.10g}"


def share(draw: int, level: int) -> float:
    """Return a turn's share of wrong words: a quantile of the triangular distribution around a level.

    The distribution is symmetric and as wide as possible within 0 to 1: for levels up to a half, from 0 to twice the
    level. For each draw, the share increases with the level, from 0 to 1.

    Args:
      draw: the quantile, 0 to 9,999.
      level: 0 to 10,000.
    """
    quantile = (draw + 0.5) / DRAWS
    place = math.sqrt(2 * quantile) - 1 if quantile < 0.5 else 1 - math.sqrt(2 * (1 - quantile))  # -1 to 1
    middle = level / LEVELS
    return middle * (1 + place) if middle <= 0.5 else 1 - (1 - middle) * (1 - place)


def _nearest(errors: Sequence[int], target: float) -> int:
    """Return the number of errors nearest to a target; ties go to the smaller one. ``errors`` must be sorted."""
    return min(errors, key=lambda n: abs(n - target))


def steps(errors: Mapping[float, int], words: int, draw: int) -> Iterator[tuple[int, int]]:
    """Yield the levels at which a turn's errors increase, and by how much; level 0 has its minimum.

    Args:
      errors: ratio to word errors of one turn.
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
    """Raise InputError for targets far outside the error rates of a sample at the quietest and loudest noise."""
    for target in targets:
        if not quiet - _SLACK <= target <= loud + _SLACK:
            raise InputError(unreachable(target, quiet, loud))


def calibration(targets: Sequence[float], curve: Mapping[float, float]) -> Calibration:
    """Derive the calibration from a sample: turns start at the ratio whose error rate is closest to the mean target.

    Args:
      targets: word error rates.
      curve: signal-to-noise ratio to word error rate of the sample.
    """
    middle = sum(targets) / len(targets)
    ratios = tuple(sorted(curve, reverse=True))
    start = min(ratios, key=lambda snr: abs(curve[snr] - middle))
    return Calibration(ratios, start, tuple(map(Setting, sorted(targets))))


def unreachable(target: float, least: float, most: float) -> str:
    """Return the message about a target that cannot be reached."""
    range_ = f"{set_name(target)}: at these signal-to-noise ratios the word error rate is {least:.1%} to {most:.1%}"
    hint = f"a {'higher' if target < least else 'lower'} --snr causes {'fewer' if target < least else 'more'} errors"
    return f"{range_}, but the target is {target:.1%}; {hint}"


def with_levels(before: Calibration, sums: Iterable[tuple[int, tuple[int, int]]]) -> Calibration:
    """Set the level of each set so that it comes closest to its target.

    Args:
      before: the calibration.
      sums: (level, (reference words, additional errors from that level on)), summed over all turns; words are counted
        at level 0.

    Raises:
      InputError: a target cannot be reached.
    """
    table = sorted(sums)
    return msgspec.structs.replace(before, settings=tuple(_with_level(setting, table) for setting in before.settings))


def _with_level(setting: Setting, table: Sequence[tuple[int, tuple[int, int]]]) -> Setting:
    words = sum(n for _, (n, _) in table)
    target = setting.target * words
    errors, totals = 0, [(0, 0)] if not table else []
    for level, (_, more) in table:
        errors += more
        totals.append((level, errors))
    best, reached = min(totals, key=lambda pair: (abs(pair[1] - target), pair[0]))
    least, most = totals[0][1], totals[-1][1]
    # Any target between the two can be reached up to the errors of one turn.
    if words and abs(reached - target) > CLOSE * words and not least <= target <= most:
        raise InputError(unreachable(setting.target, least / words, most / words))
    return msgspec.structs.replace(setting, level=best)
