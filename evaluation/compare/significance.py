"""Which differences between two systems are significant: paired tests over dialogues.

Approximate randomisation (Noreen 1989; Yeh 2000): in each replicate the two systems' results on a dialogue change
places or not, by the toss of a coin, and p is how often the difference is then as large as the observed one. What is
computed over several sets at once (the mean over variants, the schema sensitivity) is tested by a paired Poisson
bootstrap, from which all intervals are, too. Coins and weights depend on seed and dialogue id alone: the order of
dialogues is irrelevant, and a dialogue that occurs in several sets is resampled alike in all of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from parapet.evaluation import bootstrap
from parapet.evaluation.compare.rows import Parts, Sums

_SAME = 1e-9  # differences closer than this are equal

Whole = NDArray[np.int64]
Real = NDArray[np.float64]


class Difference(msgspec.Struct, frozen=True):
    """A paired test.

    Attributes:
      difference: the first system's value minus the second's.
      interval: of 95 % for it, of the bootstrap.
      p: two-sided.
      dialogues: how many were resampled.
    """

    difference: float
    interval: tuple[float, float] | None
    p: float
    dialogues: int


Pair = Sequence[tuple[Sums, Sums]]  # of two systems, for each part of their numbers


def paired(
    pairs: Sequence[Pair],
    factors: Sequence[float],
    numbers: Sequence[Sequence[int]],
    seed: str,
    replicates: int,
    method: str = "randomisation",
) -> list[list[Difference]]:
    """Tests pairs of systems.

    Args:
      pairs: of each pair both systems' sums by dialogue, part by part. The parts are the same for all pairs.
      factors: what the mean of each part is multiplied by.
      numbers: what is tested: the mean over some parts, by position.
      seed: any text.
      replicates: of the method. The intervals of randomisation take ``bootstrap.REPLICATES``.
      method: ``randomisation``, or ``bootstrap``: then p is twice the share of replicates beyond zero.

    Returns:
      Of each pair the difference in each of the numbers.
    """
    is_bootstrap = method == "bootstrap"
    size = len(pairs), len(factors), 2, 2
    seen = np.zeros(size, np.int64)
    swapped = np.zeros((0 if is_bootstrap else replicates, *size), np.int64)
    drawn = np.zeros((replicates if is_bootstrap else bootstrap.REPLICATES, *size), np.int64)
    for names, values in _chunks([sums for pair in pairs for part in pair for sums in part]):
        values = values.reshape(-1, *size)
        seen += values.sum(axis=0)
        drawn += bootstrap.weighted(np.stack([_weights(seed, name, len(drawn)) for name in names]), values)
        if not is_bootstrap:
            coins = np.stack([coins_of(seed, name, replicates) for name in names])
            # Where the coin says so, the two systems' results change places.
            swapped += bootstrap.weighted(coins, values[..., ::-1, :] - values)
    swapped += seen
    factor = np.asarray(factors, dtype=float)
    gaps, of_chance, resampled = _gaps(seen, factor), _gaps(swapped, factor), _gaps(drawn, factor)

    def test(i: int, number: list[int]) -> Difference:
        difference, replicated = float(gaps[i, number].mean()), resampled[:, i, number].mean(axis=-1)
        # Not "at least as large", or "at most zero": a replicate without a value speaks against significance too.
        if is_bootstrap:
            beyond = replicates - max(int((replicated > _SAME).sum()), int((replicated < -_SAME).sum()))
            p = min(1.0, 2 * (1 + beyond) / (1 + replicates))
        else:
            smaller = int((np.abs(of_chance[:, i, number].mean(axis=-1)) < abs(difference) - _SAME).sum())
            p = (1 + replicates - smaller) / (1 + replicates)
        dialogues = {name for part in number for sums in pairs[i][part] for name in sums}
        return Difference(difference, bootstrap.interval(replicated), p, len(dialogues))

    return [[test(i, list(number)) for number in numbers] for i in range(len(pairs))]


def intervals(numbers: Sequence[Parts], seed: str) -> list[tuple[float, float] | None]:
    """The 95 % interval of each number, from a Poisson bootstrap over dialogues; None where there is none."""
    flat = [part for parts in numbers for part in parts]
    drawn = np.zeros((bootstrap.REPLICATES, len(flat), 2), np.int64)
    for names, values in _chunks(flat):
        drawn += bootstrap.weighted(np.stack([_weights(seed, name) for name in names]), values)
    means = bootstrap.means(drawn)
    ends = np.cumsum([len(parts) for parts in numbers])
    return [
        bootstrap.interval(means[:, end - len(parts) : end].mean(axis=1)) if parts else None
        for parts, end in zip(numbers, ends, strict=True)
    ]


def _chunks(flat: Sequence[Sums]) -> Iterator[tuple[list[str], Whole]]:
    """Some dialogues at a time, with their sums in units of 2 ** -40 and counts: shape (dialogue, sums, 2)."""
    names = sorted({name for sums in flat for name in sums})
    place = {name: i for i, name in enumerate(names)}
    columns: dict[int, tuple[NDArray[np.intp], Whole]] = {}  # a system is in many pairs
    for sums in flat:
        if sums and id(sums) not in columns:
            at = np.fromiter((place[name] for name in sums), np.intp, len(sums))
            pairs = np.array(list(sums.values()))
            fixed = np.rint(np.ldexp(pairs, [bootstrap.POINT, 0])).astype(np.int64)
            order = np.argsort(at)
            columns[id(sums)] = at[order], fixed[order]
    for start in range(0, len(names), bootstrap.CHUNK):
        chunk = names[start : start + bootstrap.CHUNK]
        values = np.zeros((len(chunk), len(flat), 2), np.int64)
        for j, sums in enumerate(flat):
            if sums:
                at, fixed = columns[id(sums)]
                low, high = np.searchsorted(at, [start, start + len(chunk)])
                values[at[low:high] - start, j] = fixed[low:high]
        yield chunk, values


@lru_cache(maxsize=1 << 14)
def _weights(seed: str, dialogue_id: str, replicates: int = bootstrap.REPLICATES) -> NDArray[np.uint8]:
    """The weights of the bootstrap, kept for the next numbers; none is ever as large as 256."""
    return bootstrap.weights(seed, dialogue_id, replicates).astype(np.uint8)


def coins_of(seed: str, dialogue_id: str, replicates: int) -> Whole:
    """0 or 1 for each replicate, drawn from seed and dialogue alone."""
    text = f"swap\0{seed}\0{dialogue_id}".encode("utf-8", "surrogatepass")
    bits = np.frombuffer(hashlib.shake_128(text).digest((replicates + 7) // 8), np.uint8)
    return np.unpackbits(bits)[:replicates].astype(np.int64)


def _gaps(sums: Whole, factor: Real) -> Real:
    """First system minus second, of (..., part, system, sum and count)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        means = np.ldexp(sums[..., 0].astype(float), -bootstrap.POINT) / sums[..., 1]
    gaps: Real = (means[..., 0] - means[..., 1]) * factor
    return gaps


def holm(values: Sequence[float]) -> list[float]:
    """p-values corrected for their number (Holm 1979), in the same order."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    corrected = [0.0] * len(values)
    highest = 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min(1.0, (len(values) - rank) * values[i]))
        corrected[i] = highest
    return corrected
