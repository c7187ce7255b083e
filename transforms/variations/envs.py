"""The Env mixes: an exact share of all user turns is varied, and the turns of a smaller share are among them.

Every turn has a place in one drawn order of all turns of a split: a hash of seed, dialogue and turn, whatever the
kind. Env-k has the first ``round(rate × user turns)``, halves up, of the turns that the kind can vary: all of them
where there are fewer. One threshold says which, so that a worker need not know of other files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from parapet.schemas.dialogue_files import DialogueFile
from parapet.schemas.errors import InputError
from parapet.transforms.corpora import dialogues_of
from parapet.transforms.exact_rates import Keys
from parapet.transforms.fence import bad_record
from parapet.transforms.perturbation import REFUSED
from parapet.transforms.progress import ANALYSIS, tracked
from parapet.transforms.seeding import key_of, short_digest
from parapet.transforms.user_turns import user_turns
from parapet.transforms.variations.kinds import Config, Given, vary

if TYPE_CHECKING:
    from apache_beam.pvalue import TaggedOutput

_SIZE, _DRAWN = 24, 16  # bytes of a place, and of what is drawn of it


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
) -> Iterator[tuple[tuple[str, str], Keys] | TaggedOutput]:
    """((kind, split), the turns of a file); and (place, error) of each dialogue that raises (REFUSED). Of a file that
    cannot be read nothing.

    Args:
      file: the file.
      others: the words of others, for each of ``names``.
      kinds: of variations.
      config: of these.
      given: the words of others that are at hand.
      names: the attributes of ``given`` that ``others`` replace.
    """
    from apache_beam.pvalue import TaggedOutput

    given = msgspec.structs.replace(given, **dict(zip(names, others, strict=True)))
    places: dict[str, list[bytes]] = {kind: [] for kind in kinds}
    turns = 0
    refused: dict[tuple[str, int], InputError] = {}
    try:
        for position, _, _, dialogue in tracked(dialogues_of(file), "dialogues", ANALYSIS):
            if isinstance(dialogue, InputError):
                continue
            try:
                among, of_dialogue = among_namesakes(file.relative, position), list(user_turns(dialogue))
                places_of_turns = [
                    (kind, place_in_order(config.seed, turn.dialogue_id, turn.position, among))
                    for turn in of_dialogue
                    for kind in kinds
                    if vary(kind, turn, config, given).operations
                ]
            except Exception as error:
                refused[file.relative, position] = bad_record(error)
                continue
            turns += len(of_dialogue)
            for kind, place in places_of_turns:
                places[kind].append(place)
    except Exception as error:
        bad_record(error)
        return  # the file driver reports it
    yield from (TaggedOutput(REFUSED, pair) for pair in refused.items())
    for kind, of_kind in places.items():
        yield (kind, file.split), Keys(turns, _SIZE, b"".join(of_kind))
