"""All that is read before anything is scored: the system turns of a split, the words of its schemas, the values."""

from __future__ import annotations

from pathlib import Path

import msgspec

from parapet.evaluation.generation.turns import Pools, SystemTurn, kinds_of, pools_of, system_turns
from parapet.evaluation.generation.words import ServiceWords, varied_words, words_of
from parapet.schemas.dialogue import Dialogue
from parapet.schemas.errors import InputError, surrogate_in
from parapet.schemas.layout import SINGLE, read_root
from parapet.transforms.corpora import dialogues_of, read_corpus
from parapet.transforms.variants.folders import find_variants

ORIGINAL = "original"


class Corpus(msgspec.Struct, frozen=True):
    """What utterances are scored against.

    Attributes:
      name: of the split.
      turns: the system turns, by dialogue id and position.
      words: of each service, for the original and each variant.
      pools: the values of each slot.
      seen: the services of the training schema; None where there is none.
    """

    name: str
    turns: tuple[SystemTurn, ...]
    words: dict[str, dict[str, ServiceWords]]
    pools: Pools
    seen: frozenset[str] | None


def read(root: str | Path, split: str, variants: str | None = None) -> Corpus:
    """Reads a split.

    Args:
      root: the corpus.
      split: whose dialogues; a corpus without splits is read whole.
      variants: a folder of schema variants, or None.

    Raises:
      InputError: a file or dialogue that cannot be read, an id that stands twice, a service without a schema, no act of
        the system in the whole split, a variant that does not match.
    """
    schemas = {one.split: one for one in read_root(root, leave_out_bad=True)}
    files = sorted(read_corpus(root, [split]).files, key=lambda file: file.relative)
    services = (schemas[SINGLE] if SINGLE in schemas else schemas[split]).services
    by_name = {service.service_name: service for service in services}
    kinds = kinds_of(services)
    dialogues: dict[str, Dialogue] = {}
    turns: list[SystemTurn] = []
    for file in files:
        for position, raw, plain, dialogue in dialogues_of(file):
            if isinstance(dialogue, InputError):
                raise InputError(dialogue.reason, file.path, f"[{position}].{dialogue.where}".rstrip("."))
            if not plain and surrogate_in(raw) is not None:
                raise InputError("not_unicode: half a surrogate in it", file.path, f"[{position}]")
            if dialogue.dialogue_id in dialogues:
                raise InputError(f"dialogue {dialogue.dialogue_id!r} stands twice in the split", file.path)
            dialogues[dialogue.dialogue_id] = dialogue
            try:
                turns += system_turns(dialogue, kinds)
            except InputError as error:
                raise InputError(error.reason, file.path, error.where) from None
    if not any(turn.acts for turn in turns):
        raise InputError("no system turn has an action: there is nothing that utterances should say", root, split)
    used = {act.service for turn in turns for act in turn.acts}
    words = {ORIGINAL: {name: words_of(service) for name, service in by_name.items()}}
    for name, place in (find_variants(variants) if variants is not None else {}).items():
        if name == ORIGINAL:
            raise InputError(f"a variant cannot be called {ORIGINAL!r}", place, "--variants")
        words[name] = varied_words((by_name[one] for one in sorted(used)), read_root(place, leave_out_bad=True), name)
    train = schemas.get("train")
    seen = frozenset(service.service_name for service in train.services) if train is not None else None
    ordered = sorted(turns, key=lambda turn: turn.place)
    return Corpus(split, tuple(ordered), words, pools_of(dialogues.values(), by_name, kinds), seen)
