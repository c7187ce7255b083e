"""Training examples of a corpus: held-out dialogues, and dialogues that are perturbed in each epoch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import Any, Generic, TypeVar

import msgspec

from parapet.schemas.dialogue import read_each, typed
from parapet.schemas.errors import InputError
from parapet.schemas.limits import MAX_DIALOGUE_FILE
from parapet.transforms.perturbation.base import Perturbation
from parapet.transforms.perturbation.corpora import Item, listed, read_corpus
from parapet.transforms.perturbation.corpus import apply, perturbation_of
from parapet.transforms.running.seeding import key_of, stable_hash
from parapet.transforms.storage.compressed import read_input

Row = TypeVar("Row")
Encoded = TypeVar("Encoded")


class Examples(msgspec.Struct, Generic[Row], frozen=True):
    """The examples of a split of a corpus.

    Attributes:
      rows: in the order of files and dialogues.
      paths: the files read.
    """

    rows: list[Row]
    paths: list[str]


def held_out(
    rows: Iterable[Row], share: float, seed: str, dialogue: Callable[[Row], str]
) -> tuple[list[Row], list[Row]]:
    """Splits rows into those to learn from, and those of held-out dialogues.

    A hash decides, so that a dialogue is always on the same side, whatever other dialogues there are.

    Args:
      rows: the rows of a training set.
      share: the share of dialogues to hold out.
      seed: the seed of the hash.
      dialogue: identifies the dialogue of a row; equal in all of its versions.
    """
    parts: tuple[list[Row], list[Row]] = ([], [])
    for row in rows:
        parts[is_held_out(share, seed, dialogue(row))].append(row)
    return parts


def is_held_out(share: float, seed: str, dialogue: str) -> bool:
    """Whether a dialogue is held out, by its identifier."""
    return stable_hash(seed, "held out", dialogue) / 2**64 < share


Raw = dict[str, Any]  # a dialogue in the SGD format


# Perturbed dialogues.


def perturbations_of(names: str, seed: str) -> list[Perturbation]:
    """Makes the perturbations that ``--perturb`` names, ready to perturb single dialogues.

    Args:
      names: comma-separated.
      seed: their seed.

    Raises:
      InputError: a perturbation is not installed, needs options, or needs the whole corpus.
    """
    if not listed(names):
        raise InputError("must be names of perturbations, such as typos,verbose", "--perturb")
    perturbations = []
    for name in listed(names):
        try:
            perturbation = perturbation_of(name, {"seed": seed}, as_flags=True)
        except InputError as error:
            raise InputError(error.reason if name in error.reason else f"{name}: {error.reason}", "--perturb") from None
        needs = "the whole corpus" if perturbation.needs_analysis() or perturbation.needs_corpus() else ""
        if len(perturbation.sets) > 1:
            needs = needs or f"a choice of its {len(perturbation.sets)} sets"
        if needs:
            advice = f"make a set with 'parapet perturb {name}', and add it to --train"
            raise InputError(f"{name} requires {needs} and cannot run in the training loop: {advice}", "--perturb")
        perturbations.append(perturbation)
    return perturbations


class Readable(msgspec.Struct, Generic[Row], frozen=True):
    """A training dialogue that can be perturbed.

    Attributes:
      raw: the dialogue in the SGD format, as JSON.
      rows: its examples.
      read: makes the examples of a version.
    """

    raw: bytes
    rows: list[Row]
    read: Callable[[Raw], list[Row]]


def readable(root: str, split: str, read: Callable[[Raw], list[Row]]) -> Iterator[Readable[Row]]:
    """Yields the dialogues of a split that have examples, in the order of its files.

    Args:
      root: a corpus.
      split: the split, such as ``train``.
      read: makes the examples of a dialogue.

    Raises:
      InputError: a file or a dialogue cannot be read.
    """
    for path in read_corpus(root, [split]).paths():
        for raw, _ in read_each(read_input(path, MAX_DIALOGUE_FILE), path):
            try:
                typed(raw)
            except InputError as error:
                raise InputError(error.reason, path, error.where) from None
            if rows := read(raw):
                yield Readable(msgspec.json.encode(raw), rows, read)


class Versions(Generic[Row]):
    """The versions of training dialogues, drawn anew for each epoch.

    Draws depend on the seed, the epoch and the dialogue's number. A version has as many examples as the original.

    Args:
      dialogues: the dialogues that have examples.
      names: names of perturbations, comma-separated; one is drawn for each version.
      share: the probability that a dialogue is perturbed.
      count: versions of a perturbed dialogue; of several, the worst is trained on, see :func:`worst`.
      seed: the seed of all draws.

    Raises:
      InputError: see :func:`perturbations_of`.
    """

    def __init__(self, dialogues: Sequence[Readable[Row]], names: str, share: float, count: int, seed: str) -> None:
        self.dialogues, self.names, self.share, self.count, self.seed = dialogues, names, share, count, seed
        perturbations_of(names, seed)
        self.failed: set[str] = set()

    def draw(self, epoch: int) -> list[list[list[Row]]]:
        """Draws the versions of each dialogue in an epoch, from 1; unperturbed dialogues keep their ``rows``."""
        seeds = [f"{self.seed}/{epoch}/{number}" for number in range(self.count)]
        kinds = [perturbations_of(self.names, seed) for seed in seeds]
        return [self._versions(number, dialogue, epoch, kinds) for number, dialogue in enumerate(self.dialogues)]

    def _versions(
        self, number: int, one: Readable[Row], epoch: int, kinds: Sequence[Sequence[Perturbation]]
    ) -> list[list[Row]]:
        drawn = Random(key_of(self.seed, "perturb", str(epoch), str(number)))  # noqa: S311 (no secret)
        if drawn.random() >= self.share:
            return [one.rows]
        first = drawn.randrange(len(kinds[0]))
        # Versions use the kinds in turn, so that few have the same kind.
        return [self._version(one, kind[(first + i) % len(kind)]) for i, kind in enumerate(kinds)]

    def _version(self, one: Readable[Row], perturbation: Perturbation) -> list[Row]:
        """Makes the examples of a version; those of the original if it cannot be perturbed."""
        raw = msgspec.json.decode(one.raw)
        try:
            result = apply(perturbation, Item(0, raw, plain=True), perturbation.sets[0], None, None)
            if result.error is not None:
                raise result.error
        except InputError as error:
            if perturbation.name not in self.failed:
                self.failed.add(perturbation.name)
                logging.warning("%s cannot perturb a dialogue, which stays unchanged: %s", perturbation.name, error)
            return one.rows
        rows = one.read(result.raw) if result.raw != raw else one.rows
        if len(rows) != len(one.rows):
            problem = f"{perturbation.name} made {len(rows)} examples from a dialogue that has {len(one.rows)}"
            raise InputError(f"{problem}: it must not change the number of turns and frames", "--perturb")
        return rows
