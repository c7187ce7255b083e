"""The Env mixes: an exact share of all user turns is varied, and the turns of a smaller share are among them.

Every turn has a place in one drawn order of all turns of a split: a hash of seed, dialogue and turn, whatever the
kind. Env-k has the first ``round(rate × user turns)``, halves up, of the turns that the kind can vary: all of them
where there are fewer. One threshold says which, so that a worker need not know of other files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, NamedTuple

import apache_beam as beam
import msgspec

from parapet.schemas.dialogue_files import DialogueFile
from parapet.schemas.errors import InputError
from parapet.transforms.corpora import dialogues_of
from parapet.transforms.progress import ANALYSIS, tracked
from parapet.transforms.seeding import key_of, short_digest
from parapet.transforms.user_turns import user_turns
from parapet.transforms.variations.kinds import Config, Given, vary

_SIZE, _DRAWN = 24, 16  # bytes of a place, and of what is drawn of it


class Places(NamedTuple):
    """User turns of a split, as one kind has them.

    Attributes:
      turns: how many there are.
      varied: the places of those that the kind can vary, in one string of bytes.
    """

    turns: int
    varied: bytes


def place_in_order(seed: str, dialogue_id: str, turn: int, among: bytes) -> bytes:
    """A turn's place. What :func:`among_namesakes` gives decides between two dialogues of one id, and only there."""
    return short_digest(key_of(seed, "env", dialogue_id, str(turn))) + among


def among_namesakes(file: str, position: int) -> bytes:
    """The place of a dialogue among those of its id."""
    return short_digest(key_of(file, str(position)))[: _SIZE - _DRAWN]


def places_of_file(
    file: DialogueFile,
    *others: Mapping[Any, Any],
    kinds: Sequence[str],
    config: Config,
    given: Given,
    names: Sequence[str],
) -> Iterator[tuple[tuple[str, str], Places]]:
    """((kind, split), the turns of a file). Of a file that cannot be read nothing.

    Args:
      file: the file.
      others: the words of others, for each of ``names``.
      kinds: of variations.
      config: of these.
      given: the words of others that are at hand.
      names: the attributes of ``given`` that ``others`` replace.
    """
    given = msgspec.structs.replace(given, **dict(zip(names, others, strict=True)))
    places: dict[str, list[bytes]] = {kind: [] for kind in kinds}
    turns = 0
    try:
        for position, _, _, dialogue in tracked(dialogues_of(file), "dialogues", ANALYSIS):
            if isinstance(dialogue, InputError):
                continue
            among = among_namesakes(file.relative, position)
            for turn in user_turns(dialogue):
                turns += 1
                place = place_in_order(config.seed, turn.dialogue_id, turn.position, among)
                for kind in kinds:
                    if vary(kind, turn, config, given).operations:
                        places[kind].append(place)
    except InputError:
        return  # the file driver reports it
    for kind, of_kind in places.items():
        yield (kind, file.split), Places(turns, b"".join(of_kind))


def size_of(rate: str, turns: int) -> int:
    """``round(rate × turns)``, halves up; the rate as it was written, since 0.1 has no exact float."""
    return int((Decimal(rate) * turns).quantize(Decimal(1), ROUND_HALF_UP))


def level_of(place: bytes, thresholds: Sequence[bytes]) -> int:
    """The smallest Env, from 1, that has the turn; 0 where none has."""
    return next((i for i, threshold in enumerate(thresholds, 1) if place <= threshold), 0)


class Thresholds(beam.CombineFn):
    """Places to the last place that each rate takes in; nothing where it takes none.

    It holds them all: 24 bytes a turn, 24 MB for a million.
    """

    def __init__(self, rates: Sequence[str]) -> None:
        super().__init__()
        self.rates = tuple(rates)

    def create_accumulator(self) -> list[Places]:
        """Nothing yet."""
        return []

    def add_input(self, accumulator: list[Places], places: Places) -> list[Places]:
        """With the places of one more file."""
        accumulator.append(places)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[list[Places]]) -> list[Places]:
        """With those of all."""
        every = [places for accumulator in accumulators for places in accumulator]
        return [Places(sum(places.turns for places in every), b"".join(places.varied for places in every))]

    def extract_output(self, accumulator: list[Places]) -> list[bytes]:
        """The thresholds, in the order of the rates."""
        [(turns, places)] = self.merge_accumulators([accumulator])
        ordered = sorted(places[at : at + _SIZE] for at in range(0, len(places), _SIZE))
        sizes = [min(size_of(rate, turns), len(ordered)) for rate in self.rates]
        return [ordered[size - 1] if size else b"" for size in sizes]
