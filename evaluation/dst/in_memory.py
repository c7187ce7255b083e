"""Scores in one process what ``parapet evaluate --task dst`` scores on workers: a set, its references and predictions.

References and predictions are files, as the command takes them, or in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from parapet.evaluation.dst.files import (
    Dialogue,
    PassedOver,
    Predicted,
    ScoreConfig,
    Scored,
    as_dialogues,
    check_known,
    dialogues_in_memory,
    parse_dialogues,
    predictions_in_memory,
    read_predictions,
    score_dialogues,
)
from parapet.evaluation.dst.model import Example, predicted
from parapet.evaluation.dst.sets import Set, originals_of, seen_variants
from parapet.evaluation.sets import ORIGINAL, prediction_files
from parapet.schemas.dialogue import check_ids
from parapet.schemas.errors import InputError
from parapet.schemas.layout import TEST, SplitSchemas, as_path, is_there, parse_services
from parapet.transforms.corpora import Corpus, inline, read_file

BATCH = 64  # examples that a tracker gets at a time


class References(msgspec.Struct):
    """A set with its dialogues.

    Attributes:
      of: its services.
      split: whose dialogues; nothing where they are in memory.
      dialogues: all of them.
      originals: its names of services to the original's, where they differ.
    """

    of: Set
    split: str
    dialogues: list[Dialogue]
    originals: dict[str, str] = {}


def of_corpus(corpus: Corpus, split: str | None, name: str) -> References:
    """The references of a corpus.

    Args:
      corpus: the corpus.
      split: whose dialogues; None: ``test``, or the only one that has any.
      name: of the set.

    Raises:
      InputError: there is no such split, or something in it cannot be read.
    """
    if split is None:
        splits = list(dict.fromkeys(one for one in corpus.splits if corpus.files_of(one)))
        split = TEST if TEST in splits or not splits else splits[0]
        if split not in splits or (split != TEST and len(splits) > 1):
            raise InputError(f"of which split? there are dialogues of {', '.join(splits) or 'none'}", "split")
    dialogues: list[Dialogue] = []
    for file in (inline(corpus, file) for file in corpus.files_of(split)):
        dialogues += parse_dialogues(read_file(file), file.path or file.relative)
    seen = frozenset(_names(corpus, "train")) if "train" in corpus.splits else frozenset()
    services = {service.service_name: service for of in _schemas(corpus, split) for service in of.services}
    original = getattr(corpus, "original", None)
    originals = {}
    if isinstance(original, Corpus):
        originals = originals_of(name, services, _names(original, split))
        seen = seen_variants(originals, _names(original, "train"))
    return References(Set(name, "other", services, seen), split, dialogues, originals)


def _schemas(corpus: Corpus, split: str) -> list[SplitSchemas]:
    return [of for of, name in zip(corpus.folders.values(), corpus.splits, strict=True) if name == split]


def _names(corpus: Corpus, split: str) -> list[str]:
    return [service.service_name for of in _schemas(corpus, split) for service in of.services]


def of_dialogues(dialogues: Iterable[Any], schemas: Iterable[Any], name: str) -> References:
    """The references of dialogues and services that are dicts in SGD's form. Raises InputError where they are not."""
    parsed = parse_services(list(schemas), "schemas", "schemas")
    if parsed.bad:
        raise parsed.bad[0].error
    of = Set(name, "other", {service.service_name: service for service in parsed.services}, frozenset())
    return References(of, "", dialogues_in_memory(dialogues, "references"))


def score(references: References, predictions: Any, config: ScoreConfig) -> tuple[list[list[Scored]], PassedOver]:
    """Scores the frames of each dialogue.

    Args:
      references: of the set.
      predictions: the place of files, dialogues or lines in memory, a corpus, or a tracker.
      config: how frames are scored.

    Returns:
      The frames of each dialogue; and what ``config.official`` has passed over.

    Raises:
      InputError: as ``score_dialogues`` has it; or a dialogue is predicted that the references lack.
    """
    passed_over = PassedOver()
    check_ids((dialogue.dialogue_id for dialogue in references.dialogues), "references")
    by_id, path = _predictions(references, predictions)
    if not config.official:
        check_known(references.dialogues, by_id, path)
    slots = references.of.slots()
    return list(score_dialogues(references.dialogues, by_id, slots, config, path, passed_over)), passed_over


def _predictions(references: References, predictions: Any) -> tuple[dict[str, Dialogue], str]:
    """What was predicted, by dialogue id, and its place for messages."""
    if callable(predictions) or callable(getattr(predictions, "predict", None)):
        tracker = _Tracker(predictions)
        services = references.of.services
        return predicted(tracker, references.dialogues, services, BATCH, tracker.name), tracker.name
    if isinstance(predictions, Corpus):
        predictions = predictions.dialogues(references.split or None)
    place = "predictions"
    if isinstance(predictions, str | Path):
        place, name = str(predictions), references.of.name
        files = prediction_files(place, references.split, name if is_there(as_path(place) / name) else ORIGINAL)
        place = place if len(files) > 1 else next(iter(files.values()))
        rows: list[Predicted] = [row for path in files.values() for row in read_predictions(path)]
    else:
        rows = predictions_in_memory(predictions, place)
    return as_dialogues(references.dialogues, rows, place), place


class _Tracker:
    """A tracker, or a function, that must give as many states as it is asked for. Its own errors are its own."""

    def __init__(self, tracker: Any) -> None:
        self.name = getattr(tracker, "__name__", type(tracker).__name__)
        if isinstance(tracker, type):
            raise InputError(f"{self.name} is a class: give an object of it, {self.name}()", "predictions")
        self.called = getattr(tracker, "predict", tracker)

    def predict(self, batch: Sequence[Example]) -> Sequence[Any]:
        """The states, in order. Raises InputError where they are others than a list of as many."""
        states = self.called(batch)
        if not isinstance(states, Iterable) or isinstance(states, str | bytes | Mapping):
            raise InputError(f"{self.name} gave {type(states).__name__}: expected a list of states", "predictions")
        states = list(states)
        if len(states) != len(batch):
            raise InputError(f"{self.name} gave {len(states)} states for {len(batch)} examples", "predictions")
        return states
