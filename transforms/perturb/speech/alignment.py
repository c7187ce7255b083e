"""Align reference and hypothesis: count word errors, and find slot values in the hypothesis.

Inaudible differences of spelling, such as ok and okay or that'll and that will, are no errors.
"""

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise, product, zip_longest
from operator import itemgetter
from typing import NamedTuple

import msgspec
from rapidfuzz.distance import Levenshtein, Opcodes

from parapet.schemas.errors import InputError
from parapet.transforms.perturb.speech.spoken import CONTRACTIONS, DRAWS, VARIANTS, Word

_MOST = 3  # words that are compared as a unit


def respelled(reference: Sequence[str], hypothesis: Sequence[str]) -> list[str]:
    """Returns the hypothesis with words that differ only in spelling respelled like the reference.

    Up to three words on either side are equal if their letters are ("p m", "pm"; "round trip", "roundtrip"), possibly
    after expanding variants and contractions.

    Args:
      reference: the words that were spoken.
      hypothesis: the words of the transcript.
    """
    if list(reference) == list(hypothesis):
        return list(hypothesis)
    spoken, heard = _spans(reference), _spans(hypothesis)
    n, m = len(reference), len(hypothesis)
    same: dict[tuple[int, int], list[tuple[int, int]]] = {}  # start of equal stretches to their numbers of words
    for letters, stretches in spoken.items():
        for (i, a), (j, b) in product(stretches, heard.get(letters, ())):
            same.setdefault((i, j), []).append((a, b))
    # The fewest errors from a pair of positions to the end, and the numbers of words covered by the first step.
    best: dict[tuple[int, int], tuple[int, int, int, bool]] = {(n, m): (0, 0, 0, True)}
    for i, j in product(range(n, -1, -1), range(m, -1, -1)):
        steps = [(best[i + a, j + b][0], a, b, True) for a, b in same.get((i, j), ())]
        steps += [
            (best[i + a, j + b][0] + 1, a, b, False) for a, b in ((1, 1), (1, 0), (0, 1)) if i + a <= n and j + b <= m
        ]
        if steps:
            best[i, j] = min(steps, key=itemgetter(0))
    words: list[str] = []
    i = j = 0
    while (i, j) != (n, m):
        _, a, b, is_same = best[i, j]
        words += reference[i : i + a] if is_same else hypothesis[j : j + b]
        i, j = i + a, j + b
    return words


def _spans(words: Sequence[str]) -> dict[str, set[tuple[int, int]]]:
    """Maps letters to their places (first word, number of words).

    Variants and contractions are included both expanded and not.
    """
    spans: dict[str, set[tuple[int, int]]] = {}
    for spelling in ([word.replace("'", "") for word in words], [_full(word) for word in words]):
        for i in range(len(words)):
            for n in range(1, min(_MOST, len(words) - i) + 1):
                spans.setdefault("".join(spelling[i : i + n]), set()).add((i, n))
    return spans


def _full(word: str) -> str:
    if word in VARIANTS:
        return VARIANTS[word].replace(" ", "")
    for ending, stands_for in CONTRACTIONS.items():
        if word.endswith(ending) and word != ending:
            return word.removesuffix(ending).replace("'", "") + stands_for
    return word.replace("'", "")


class Found(NamedTuple):
    """A range of characters in the new utterance; ``end`` is exclusive."""

    start: int
    end: int


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> Opcodes:
    """Aligns words with the fewest errors: runs of equal, replaced, deleted and inserted words."""
    return Levenshtein.opcodes(reference, hypothesis)


def word_errors(alignment: Opcodes) -> Counter[str]:
    """Counts the words that were replaced (``replace``), missing (``delete``) and added (``insert``)."""
    return Counter(edit.tag for edit in alignment.as_editops())


def alignment_text(reference: Sequence[str], hypothesis: Sequence[str], alignment: Opcodes) -> str:
    """Formats an alignment as word pairs, separated by spaces.

    ``want`` was recognised correctly, ``three>tree`` substituted, ``a>`` deleted, ``>the`` inserted. The format, as in
    "i want three>tree a> >the", is unambiguous; it is empty if both sides are.
    """
    return " ".join(
        spoken if run.tag == "equal" else f"{spoken}>{recognised}"
        for run in alignment
        for spoken, recognised in zip_longest(
            reference[run.src_start : run.src_end], hypothesis[run.dest_start : run.dest_end], fillvalue=""
        )
    )


def recognised_positions(alignment: Opcodes) -> dict[int, int]:
    """Maps each reference word that was recognised correctly to its position in the hypothesis."""
    equal = [run for run in alignment if run.tag == "equal"]
    return {i: i - run.src_start + run.dest_start for run in equal for i in range(run.src_start, run.src_end)}


def _position_together(words: Sequence[int], positions: Mapping[int, int]) -> int | None:
    """Returns the position of words that were recognised correctly with none in between; None if they were not."""
    first = positions.get(words[0])
    if first is None or any(positions.get(word) != first + i for i, word in enumerate(words)):
        return None
    return first


Ranges = Iterable[tuple[int, int]]  # first and last (exclusive) characters


def written(
    utterance: str, words: Sequence[Word], positions: Mapping[int, int], hypothesis: Sequence[str], values: Ranges
) -> tuple[str, list[Found]]:
    """Writes the hypothesis as a text of plain words, but values with the digits and abbreviations of the utterance.

    So "March 4th" becomes "march 4th" if it is a value that was recognised correctly, since the state has no "march
    fourth".

    Args:
      utterance: the original text.
      words: its words.
      positions: word to position in the hypothesis, from :func:`recognised_positions`.
      hypothesis: the words of the transcript.
      values: the places of values in the utterance.

    Returns:
      The text, and the position of each hypothesis word in it; all words of a number have the position of that number.
    """
    pieces = list(hypothesis)  # empty for words that are written as part of the number before them
    for (start, end), run in groupby(range(len(words)), key=lambda i: (words[i].start, words[i].end)):
        token = list(run)
        first = _position_together(token, positions)
        if first is None or not any(start < value_end and value_start < end for value_start, value_end in values):
            continue
        own, spoken = utterance[start:end].lower(), " ".join(words[i].text for i in token)
        if _letters(own) != _letters(spoken):
            pieces[first : first + len(token)] = [" ".join(own.split()), *[""] * (len(token) - 1)]
    text, ranges = "", list[Found]()
    for piece in pieces:
        if piece:
            text += f" {piece}" if text else piece
            ranges.append(Found(len(text) - len(piece), len(text)))
        else:
            ranges.append(ranges[-1])
    return text, ranges


def _letters(text: str) -> str:
    return re.sub(r"[^\w ]", "", text)


def find_span(
    start: int, end: int, words: Sequence[Word], positions: Mapping[int, int], ranges: Sequence[Found]
) -> Found | None:
    """Returns the span of a slot value in the new utterance; None if it was not recognised correctly.

    All its words must be recognised correctly, without insertions between them. A value that contains part of a number
    ("5" in "$5") covers all words of that number.

    Args:
      start: the first character of the value in the utterance.
      end: the end of the value (exclusive).
      words: the words of the utterance.
      positions: word to position in the hypothesis, from :func:`recognised_positions`.
      ranges: the position of each hypothesis word in the new utterance, from :func:`written`.
    """
    own = [i for i, word in enumerate(words) if word.start < end and start < word.end]
    first = _position_together(own, positions) if own and start < end else None
    return None if first is None else Found(ranges[first].start, ranges[first + len(own) - 1].end)


CLOSE = 0.01  # a set that misses its target by more is an error
LEVELS = 10_000  # a level of 10,000 means 1

# Levels to consider, relative to the target; observed: 0.8 to 1.5.
_SOUGHT = 0.5, 1.6


class Calibration(msgspec.Struct, frozen=True):
    """The calibration of a run.

    Attributes:
      ratios: the possible signal-to-noise ratios in dB, from the quietest noise.
      targets: the word error rate of each set, 0 to 1.
      levels: the mode of the distribution of turns' error shares in each set, in ten-thousandths; empty until computed.
    """

    ratios: tuple[float, ...]
    targets: tuple[float, ...]
    levels: tuple[int, ...] = ()

    def next_ratio(self, errors: Mapping[float, int], words: int, draws: Iterable[int]) -> float | None:
        """Returns the next ratio for recognising a text; None if no other one can be closer.

        The first is a quarter of the way from the quietest noise to the loudest; then come its neighbours.

        Args:
          errors: ratio to word errors, for the ratios tried so far.
          words: the number of reference words.
          draws: the draws of the turns with this text.
        """
        if not errors:
            return self.ratios[len(self.ratios) // 4]
        least, most = _SOUGHT[0] * min(self.targets), min(1, _SOUGHT[1] * max(self.targets))
        low = min(share(draw, round(LEVELS * least)) for draw in draws) * words
        high = max(share(draw, round(LEVELS * most)) for draw in draws) * words
        tried = [self.ratios.index(snr) for snr in errors]
        # Errors are whole numbers, so nothing can be closer than half an error.
        if min(tried) > 0 and min(errors.values()) - 0.5 > low:
            return self.ratios[min(tried) - 1]
        if max(tried) + 1 < len(self.ratios) and max(errors.values()) + 0.5 < high:
            return self.ratios[max(tried) + 1]
        return None


def choose_ratio(errors: Mapping[float, int], words: int, draw: int, level: int) -> float:
    """Returns the ratio whose transcript a set uses for a turn; ties go to the highest ratio.

    With quieter noise, errors sound more like what was said.

    Args:
      errors: ratio to word errors, for the ratios tried.
      words: the number of reference words.
      draw: the turn's draw.
      level: the level of the set.
    """
    nearest = _nearest(errors.values(), share(draw, level) * words)
    return max(snr for snr, n in errors.items() if n == nearest)


def set_name(target: float) -> str:
    """Returns the name of a set: ``SR-20`` for a target of 0.2, ``SR-12.5`` for 0.125."""
    return f"SR-{100 * target:.10g}"


def share(draw: int, level: int) -> float:
    """Returns a turn's share of wrong words: a quantile of the triangular distribution around a level.

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


def _nearest(errors: Iterable[int], target: float) -> int:
    """Returns the number of errors nearest to a target; ties go to the smaller one."""
    return min(errors, key=lambda n: (abs(n - target), n))


def steps(errors: Mapping[float, int], words: int, draw: int) -> Iterator[tuple[int, int]]:
    """Yields the levels at which a turn's errors increase, and by how much; level 0 has its minimum.

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


def with_levels(before: Calibration, sums: Iterable[tuple[int, tuple[int, int]]]) -> Calibration:
    """Sets the level of each set so that it comes closest to its target.

    Args:
      before: the calibration.
      sums: (level, (reference words, additional errors from that level on)), summed over all turns; words are counted
        at level 0. There must be at least one turn.

    Raises:
      InputError: a target cannot be reached.
    """
    table = sorted(sums)
    return msgspec.structs.replace(before, levels=tuple(_level(target, table) for target in before.targets))


def _level(target: float, table: Sequence[tuple[int, tuple[int, int]]]) -> int:
    words = sum(n for _, (n, _) in table)
    wanted = target * words
    errors, totals = 0, []
    for level, (_, more) in table:
        errors += more
        totals.append((level, errors))
    best, reached = min(totals, key=lambda pair: (abs(pair[1] - wanted), pair[0]))
    least, most = totals[0][1], totals[-1][1]
    # Any target between the two can be reached up to the errors of one turn.
    if abs(reached - wanted) > CLOSE * words and not least <= wanted <= most:
        change, effect = ("higher", "fewer") if wanted < least else ("lower", "more")
        raise InputError(
            f"{set_name(target)}: at these signal-to-noise ratios the word error rate is {least / words:.1%} to "
            f"{most / words:.1%}, but the target is {target:.1%}; a {change} --snr causes {effect} errors"
        )
    return best
