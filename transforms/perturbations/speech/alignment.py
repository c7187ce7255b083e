"""Aligns reference and hypothesis: word errors, and where a slot value is in the hypothesis."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Any, Literal

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, parse_json
from parapet.schemas.limits import read_whole
from parapet.transforms.perturbations.speech.spoken import DRAWS, Word

Kind = Literal["equal", "substitute", "delete", "insert"]
Chunk = tuple[Kind, int, int, int, int]  # kind, reference words from and to, hypothesis words from and to


class Aligned(msgspec.Struct, frozen=True):
    """Reference and hypothesis, aligned with the fewest errors.

    Attributes:
      chunks: runs of one kind, in order, without gaps: together they are all words of both sides.
      substitutions: words recognised as another.
      deletions: words of the reference that the hypothesis lacks.
      insertions: words of the hypothesis that the reference lacks.
      hits: words recognised correctly.
    """

    chunks: tuple[Chunk, ...]
    substitutions: int
    deletions: int
    insertions: int
    hits: int


class Found(msgspec.Struct, frozen=True):
    """Characters of the new utterance, start to end."""

    start: int
    end: int


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> Aligned:
    """Aligns words; either side may have none.

    One pair a call: jiwer spends 15 microseconds on a pair of eight words in a batch, 20 by itself.

    Args:
      reference: the words that were spoken, without spaces.
      hypothesis: the words of the transcript, likewise.
    """
    jiwer, apart = _jiwer()
    found = jiwer.process_words(" ".join(reference), " ".join(hypothesis), apart, apart)
    return Aligned(
        tuple((c.type, c.ref_start_idx, c.ref_end_idx, c.hyp_start_idx, c.hyp_end_idx) for c in found.alignments[0]),
        found.substitutions,
        found.deletions,
        found.insertions,
        found.hits,
    )


@lru_cache(maxsize=1)
def _jiwer() -> tuple[Any, Any]:
    """jiwer, which comes with the extra "speech", and its transform that only splits at spaces."""
    import jiwer

    return jiwer, jiwer.Compose([jiwer.ReduceToListOfListOfWords()])


def alignment_text(reference: Sequence[str], hypothesis: Sequence[str], aligned: Aligned) -> str:
    """An alignment as text: word pairs, separated by spaces.

    ``want`` was recognised correctly, ``three>tree`` substituted, ``a>`` deleted, ``>the`` inserted.
    So "i want three>tree a> >the" can be read back; it is empty where both sides are.

    Raises:
      ValueError: a word is empty or has a space or ">", as no word of an utterance has.
    """
    if not all(map(_PLAIN, [*reference, *hypothesis])):
        raise ValueError("not the words of an utterance: one is empty or has a space or '>'")
    return " ".join(_pairs(reference, hypothesis, aligned))


_PLAIN = re.compile(r"[^\s>]+").fullmatch


def _pairs(reference: Sequence[str], hypothesis: Sequence[str], aligned: Aligned) -> Iterator[str]:
    for kind, start, end, hyp_start, hyp_end in aligned.chunks:
        spoken, recognised = reference[start:end], hypothesis[hyp_start:hyp_end]
        if kind == "equal":
            yield from spoken
        elif kind == "substitute":
            yield from (f"{one}>{other}" for one, other in zip(spoken, recognised, strict=True))
        elif kind == "delete":
            yield from (f"{one}>" for one in spoken)
        else:
            yield from (f">{other}" for other in recognised)


def plain_ranges(hypothesis: Sequence[str]) -> list[Found]:
    """Where each word is in ``" ".join(hypothesis)``."""
    ranges, at = [], 0
    for word in hypothesis:
        ranges.append(Found(at, at + len(word)))
        at += len(word) + 1
    return ranges


def find_span(start: int, end: int, words: Sequence[Word], aligned: Aligned, ranges: Sequence[Found]) -> Found | None:
    """The span of a slot value in the new utterance; None where it was not recognised correctly.

    All its words must be recognised correctly, with none inserted between them. A value that has a part of a number
    ("5" of "$5") has all of that number's words.

    Args:
      start: of the value's characters in the utterance.
      end: likewise.
      words: of the utterance.
      aligned: those words against the hypothesis.
      ranges: where each hypothesis word is in the new utterance: :func:`plain_ranges`, or those of :func:`restored`.
    """
    own = [i for i, word in enumerate(words) if word.start < end and start < word.end]
    if not own or start >= end:
        return None
    for kind, first, after, hyp_first, _ in aligned.chunks:
        if kind == "equal" and first <= own[0] and own[-1] < after:
            shift = hyp_first - first
            return Found(ranges[own[0] + shift].start, ranges[own[-1] + shift].end)
    return None


def restored(
    utterance: str, words: Sequence[Word], aligned: Aligned, hypothesis: Sequence[str]
) -> tuple[str, list[Found]]:
    """The hypothesis with the original spelling of words recognised correctly: "at 7:30 pm, tree people".

    These words have the capitals, digits and punctuation of the utterance. A number with a recognition error is spelled
    out. Punctuation stays with the word that it is attached to; what is between two words that follow one another in
    the utterance is kept. So without errors the result is the utterance itself.

    Returns:
      The text, and where each hypothesis word is in it: all words of a number are where that number is.
    """
    text, ranges = "", list[Found]()
    done: int | None = 0  # reference words up to here; None after a word written as recognised
    for piece in _pieces(words, aligned, hypothesis):
        if isinstance(piece, str):
            text += _between(utterance, words, done, None)
            ranges.append(Found(len(text), len(text) + len(piece)))
            text, done = text + piece, None
        else:
            first, after = piece
            text += _between(utterance, words, done, first)
            own = utterance[words[first].start : words[first].end]
            ranges += [Found(len(text), len(text) + len(own))] * (after - first)
            text, done = text + own, after
    return (text + _between(utterance, words, done, len(words)) if ranges else ""), ranges


def _pieces(words: Sequence[Word], aligned: Aligned, hypothesis: Sequence[str]) -> Iterator[str | tuple[int, int]]:
    """The hypothesis, in order: a word, or (from, to) the reference words of a token that was recognised correctly."""
    reference_of: list[int] = [-1] * len(hypothesis)
    for kind, start, end, hyp_start, hyp_end in aligned.chunks:
        if kind == "equal":
            reference_of[hyp_start:hyp_end] = range(start, end)
    tokens = {}  # by its first word
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


# Punctuation after a word and before one, up to a blank: the hyphen of "drop-off" belongs to neither.
_TAIL = re.compile(r"\S*(?=\s)")
_HEAD = re.compile(r"(?<=\s)\S*\Z")


def _between(utterance: str, words: Sequence[Word], done: int | None, following: int | None) -> str:
    """What is between the words up to ``done`` and the one ``following``; None for a word written as recognised."""
    if done == following and done is not None:
        return _gap(utterance, words, done)
    tail = head = ""
    if done:
        match = _TAIL.match(_gap(utterance, words, done) + (" " if done == len(words) else ""))
        tail = match.group() if match else ""
    if following is not None and following < len(words):
        match = _HEAD.search((" " if following == 0 else "") + _gap(utterance, words, following))
        head = match.group() if match else ""
    inside = done != 0 and (following is None or following < len(words))
    return f"{tail} {head}" if inside else tail + head


def _gap(utterance: str, words: Sequence[Word], at: int) -> str:
    """The characters between word ``at`` and the one before it, or the edge of the utterance."""
    start = words[at - 1].end if at else 0
    end = words[at].start if at < len(words) else len(utterance)
    return utterance[start:end]


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
        """The ratio whose transcript a set takes for a turn: of equally good ones, the highest.

        The quieter the noise, the more the errors sound like what was said.

        Args:
          setting: the set, with its level.
          errors: ratio to word errors, of the ratios that were tried.
          words: the number of reference words.
          draw: the turn's draw.
        """
        assert setting.level is not None
        nearest = _nearest(sorted(set(errors.values())), share(draw, setting.level) * words)
        return max(snr for snr, n in errors.items() if n == nearest)


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
    hint = f"a {'higher' if target < least else 'lower'} --snr causes {'fewer' if target < least else 'more'} errors"
    return f"{range_}, but the target is {target:.1%}; {hint}"


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
    settings = [setting if setting.level is not None else _with_level(setting, table) for setting in before.settings]
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
        raise InputError(f"is not a calibration.json of speech_errors: {error.reason}", path, "--calibration") from None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"is not a calibration.json of speech_errors: {error}", path, "--calibration") from None
    if not found.ratios or found.start not in found.ratios or not all(map(is_ratio, found.ratios)):  # NaN is read too
        raise InputError("is not a calibration.json of speech_errors: its ratios cannot be used", path, "--calibration")
    by_name = {setting.name: setting for setting in found.settings}
    chosen = []
    for target in targets:
        setting = by_name.get(set_name(target))
        if setting is None or setting.level is None or not 0 <= setting.level <= LEVELS:
            names = ", ".join(sorted(by_name))
            raise InputError(f"does not contain {set_name(target)}, only {names}", path, "--calibration")
        chosen.append(setting)
    changed = [
        f"was calibrated with {name} {before.get(name)!r}, but this run has {value!r}"
        for name, value in made_with.items()
        if before.get(name) != value
    ]
    ratios = tuple(sorted(found.ratios, reverse=True))
    return Calibration(ratios, found.start, tuple(chosen)), changed


def is_ratio(snr: float) -> bool:
    """Whether a signal-to-noise ratio, in dB, can be used."""
    return -20 <= snr <= 60
