"""Ignore inaudible differences of spelling, such as ok and okay or that'll and that will, in word errors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from operator import itemgetter

from parapet.transforms.perturb.speech.spoken import CONTRACTIONS, VARIANTS

_MOST = 3  # words that are compared as a unit


def respelled(reference: Sequence[str], hypothesis: Sequence[str]) -> list[str]:
    """Return the hypothesis with words that differ only in spelling respelled like the reference.

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
    """Map letters to their places (first word, number of words).

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
