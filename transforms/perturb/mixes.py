"""Mixes of a set with the original: an exact share of all user turns is varied.

The turns of a smaller share are among those of a larger one. All turns of a split are ordered by a key, a hash of seed,
dialogue and turn, whatever the kind. A mix has the first ``round(rate × user turns)``, halves rounded up, of the turns
that the kind can vary, or all of them if there are fewer. The selection is a threshold, the highest selected key, so
that a worker does not need other files. All keys of a split are sorted in memory, at some 20 bytes per turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from functools import partial
from typing import TYPE_CHECKING

from parapet.schemas.dialogue import Dialogue, DialogueFile
from parapet.schemas.errors import InputError
from parapet.transforms.core.seeding import key_of, short_digest
from parapet.transforms.perturb import base, corpora, user_turns

if TYPE_CHECKING:
    import apache_beam as beam

# A part of the turns, such as one file: the number of turns, a share of which is selected, and the keys of the turns
# that can be selected.
Keys = tuple[int, Sequence[bytes]]
VariedTurns = Callable[[Dialogue], Mapping[str, tuple[int, Sequence[user_turns.UserTurn]]]]


def parse_rates(text: str, flag: str) -> list[str]:
    """Parses ``0.1,0.2`` to rates as written, ascending. Raises InputError if a rate is invalid or repeated."""
    rates = corpora.listed(text)
    try:
        different = {f"{float(rate):g}" for rate in rates if 0 < float(rate) <= 1}
    except ValueError:
        different = set()
    if not rates or len(different) < len(rates):
        raise InputError(f"{text!r} must be different numbers above 0 and up to 1 (example: 0.1,0.2,0.5)", flag)
    return sorted(rates, key=float)


def names(kind: str, rates: Sequence[str]) -> list[str]:
    """Returns the names of the mixes of a kind."""
    return [f"{kind}-env{i}" for i in range(1, len(rates) + 1)]


def size_of(rate: str, turns: int) -> int:
    """Returns ``round(rate × turns)``, halves rounded up; the rate is a string, since 0.1 has no exact float."""
    return int((Decimal(rate) * turns).quantize(Decimal(1), ROUND_HALF_UP))


def level_of(key: bytes, thresholds: Sequence[bytes]) -> int:
    """Returns the number of the smallest share that contains the turn, from 1; 0 if none does."""
    return next((i for i, threshold in enumerate(thresholds, 1) if key <= threshold), 0)


def thresholds(parts: Iterable[Keys], rates: Sequence[str]) -> list[bytes]:
    """Returns the threshold of each rate: empty if no key is selected, and the last key if there are too few.

    Args:
      parts: the keys of all turns.
      rates: the rates as strings.
    """
    turns, ordered = 0, list[bytes]()
    for n, keys in parts:
        turns += n
        ordered += keys
    ordered.sort()
    sizes = [min(size_of(rate, turns), len(ordered)) for rate in rates]
    return [ordered[size - 1] if size else b"" for size in sizes]


def order_of(seed: str, turn: user_turns.UserTurn, place: base.Place) -> bytes:
    """Returns the place of a turn in the order of all; file and position tell dialogues with the same id apart."""
    of_dialogue = short_digest(key_of(place[0], str(place[1])))[:8]
    return short_digest(key_of(seed, "env", turn.dialogue_id, str(turn.position))) + of_dialogue


def find_thresholds(
    files: beam.PCollection[DialogueFile], seed: str, rates: Sequence[str], varied: VariedTurns
) -> base.Analysis:
    """Computes the thresholds of each kind and split: ``thresholds``, shared by all dialogues.

    Args:
      files: the dialogue files.
      seed: the seed of the order.
      rates: the rates of the mixes.
      varied: returns for each kind the number of a dialogue's user turns, and those that it varies.
    """
    import apache_beam as beam

    spread = files | "Spread files" >> beam.Reshuffle()
    read = beam.FlatMap(base.analyze_dialogues, partial(_keys, seed, varied))
    outputs = spread | "Keys" >> read.with_outputs(base.REFUSED, main="keys")
    grouped = outputs["keys"] | "Gather" >> beam.GroupByKey()
    by_group = grouped | "Thresholds" >> beam.MapTuple(lambda group, parts: (group, thresholds(parts, rates)))
    return base.Analysis(shared={"thresholds": by_group, base.REFUSED: outputs[base.REFUSED]})


def _keys(
    seed: str, varied: VariedTurns, dialogue: Dialogue, file: DialogueFile, position: int
) -> Iterator[tuple[tuple[str, str], Keys]]:
    """Yields ((kind, split), (user turns, keys of those that are varied))."""
    place = file.relative, position
    for kind, (total, turns) in varied(dialogue).items():
        yield (kind, file.split), (total, [order_of(seed, turn, place) for turn in turns])
