"""What a model learns from: the examples of a corpus, some of them held out, and dialogues perturbed in each epoch."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from random import Random
from typing import Any, Generic, TypeVar

import msgspec
import torch
from torch import Tensor

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
    """The examples of a corpus's split.

    Attributes:
      rows: in the order of files and dialogues.
      paths: the files that were read.
    """

    rows: list[Row]
    paths: list[str]


def held_out(
    rows: Iterable[Row], share: float, seed: str, dialogue: Callable[[Row], str]
) -> tuple[list[Row], list[Row]]:
    """Rows in two: those that are learned from, and those of the dialogues that are held out.

    A hash decides, so a dialogue is always on the same side, whatever other dialogues there are.

    Args:
      rows: of a training set.
      share: of the dialogues that is held out.
      seed: of the hash.
      dialogue: identifies the dialogue of a row, and is the same in all versions of it.
    """
    parts: tuple[list[Row], list[Row]] = ([], [])
    for row in rows:
        parts[is_held_out(share, seed, dialogue(row))].append(row)
    return parts


def is_held_out(share: float, seed: str, dialogue: str) -> bool:
    """Whether a dialogue is held out, by what identifies it."""
    return stable_hash(seed, "held out", dialogue) / 2**64 < share


Raw = dict[str, Any]  # a dialogue in the SGD format


# Perturbed dialogues.


def perturbations_of(names: str, seed: str) -> list[Perturbation]:
    """The perturbations that ``--perturb`` names, ready to perturb single dialogues.

    Args:
      names: comma-separated.
      seed: of what they draw.

    Raises:
      InputError: one is not installed, needs options, or needs the whole corpus.
    """
    if not listed(names):
        raise InputError("give names of perturbations, such as typos,verbose", "--perturb")
    perturbations = []
    for name in listed(names):
        try:
            one = perturbation_of(name, {"seed": seed}, as_flags=True)
        except InputError as error:
            raise InputError(error.reason if name in error.reason else f"{name}: {error.reason}", "--perturb") from None
        needs = "the whole corpus" if one.needs_analysis() or one.needs_corpus() else ""
        if len(one.sets) > 1:
            needs = needs or f"a choice of its {len(one.sets)} sets"
        if needs:
            advice = f"make a set with 'parapet perturb {name}', and add it to --train"
            raise InputError(f"{name} needs {needs} and cannot run in the training loop: {advice}", "--perturb")
        perturbations.append(one)
    return perturbations


class Readable(msgspec.Struct, Generic[Row], frozen=True):
    """A training dialogue that can be perturbed.

    Attributes:
      raw: the dialogue in the SGD format, as JSON.
      rows: its examples.
      read: the examples of a version of it.
    """

    raw: bytes
    rows: list[Row]
    read: Callable[[Raw], list[Row]]


def readable(root: str, split: str, read: Callable[[Raw], list[Row]]) -> Iterator[Readable[Row]]:
    """The dialogues of a split, in the order of its files, that have examples.

    Args:
      root: a corpus.
      split: ``train``.
      read: the examples of a dialogue.

    Raises:
      InputError: a file or a dialogue cannot be read.
    """
    for path in sorted(file.path for file in read_corpus(root, [split]).files):
        for raw, _ in read_each(read_input(path, MAX_DIALOGUE_FILE), path):
            try:
                typed(raw)
            except InputError as error:
                raise InputError(error.reason, path, error.where) from None
            if rows := read(raw):
                yield Readable(msgspec.json.encode(raw), rows, read)


class Versions(Generic[Row]):
    """The versions of training dialogues, drawn anew for each epoch.

    What is drawn depends on the seed, the epoch and the dialogue's number. A version has as many examples as the
    original.

    Args:
      dialogues: those that have examples.
      names: of perturbations, comma-separated; one is drawn for each version.
      share: how likely it is that a dialogue is perturbed.
      count: versions of a perturbed dialogue; of several the worst is trained on, see :func:`worst`.
      seed: of all that is drawn.

    Raises:
      InputError: as :func:`perturbations_of`.
    """

    def __init__(self, dialogues: Sequence[Readable[Row]], names: str, share: float, count: int, seed: str) -> None:
        self.dialogues, self.names, self.share, self.count, self.seed = dialogues, names, share, count, seed
        perturbations_of(names, seed)
        self.failed: set[str] = set()

    def draw(self, epoch: int) -> list[list[list[Row]]]:
        """The examples of each dialogue's versions in an epoch, from 1; of one that is not perturbed its ``rows``."""
        seeds = [f"{self.seed}/{epoch}/{number}" for number in range(self.count)]
        kinds = [perturbations_of(self.names, seed) for seed in seeds]
        return [self._versions(number, one, epoch, kinds) for number, one in enumerate(self.dialogues)]

    def _versions(
        self, number: int, one: Readable[Row], epoch: int, kinds: Sequence[Sequence[Perturbation]]
    ) -> list[list[Row]]:
        drawn = Random(key_of(self.seed, "perturb", str(epoch), str(number)))  # noqa: S311 (no secret)
        if drawn.random() >= self.share:
            return [one.rows]
        first = drawn.randrange(len(kinds[0]))
        # Versions take the kinds in turn, so that few of them are of one kind.
        return [self._version(one, of[(first + i) % len(of)]) for i, of in enumerate(kinds)]

    def _version(self, one: Readable[Row], perturbation: Perturbation) -> list[Row]:
        """The examples of a version; those of the original where it cannot be perturbed."""
        raw = msgspec.json.decode(one.raw)
        try:
            result = apply(perturbation, Item(0, raw, plain=True), perturbation.sets[0], None, None)
            if result.error is not None:
                raise result.error
        except InputError as error:
            if perturbation.name not in self.failed:
                self.failed.add(perturbation.name)
                logging.warning("%s cannot perturb a dialogue, which stays as it is: %s", perturbation.name, error)
            return one.rows
        rows = one.read(result.raw) if result.raw != raw else one.rows
        if len(rows) != len(one.rows):
            what = f"{perturbation.name} makes {len(rows)} examples of a dialogue that has {len(one.rows)}"
            raise InputError(f"{what}: its turns and frames must stay", "--perturb")
        return rows


def laid_out(
    drawn: Sequence[Sequence[Sequence[Row]]], encode: Callable[[int, Sequence[Row]], Sequence[Encoded]]
) -> tuple[list[Encoded], Tensor]:
    """The examples of all versions one behind the other: first those of each dialogue's first version, then the others.

    Args:
      drawn: what :meth:`Versions.draw` gives.
      encode: the examples of a version: (number of the dialogue, rows).

    Returns:
      The examples, and of each one of a first version the numbers of it in all versions, shape (examples, versions);
      one that has fewer versions than others has its first again.

    Raises:
      InputError: a version has another number of examples than the first.
    """
    firsts = [list(encode(number, versions[0])) for number, versions in enumerate(drawn)]
    found = [example for examples in firsts for example in examples]
    most = max((len(versions) for versions in drawn), default=1)
    table = torch.arange(len(found))[:, None].repeat(1, most)
    start = 0
    for number, (versions, first) in enumerate(zip(drawn, firsts, strict=True)):
        for column, rows in enumerate(versions[1:], 1):
            examples = encode(number, rows)
            if len(examples) != len(first):
                counts = f"{len(examples)} examples in one version and {len(first)} in another"
                raise InputError(f"a perturbed dialogue has {counts}: turns must stay what they are", "--perturb")
            table[start : start + len(first), column] = torch.arange(len(found), len(found) + len(examples))
            found += examples
        start += len(first)
    return found, table


def of_parts(table: Tensor, sizes: Sequence[int]) -> Tensor:
    """The same table for examples that are parts of those of a table.

    Args:
      table: as :func:`laid_out` gives it.
      sizes: parts of each example, of all versions.
    """
    starts = [0, *accumulate(sizes)]
    rows = [
        [starts[number] + part for number in numbers] for numbers in table.tolist() for part in range(sizes[numbers[0]])
    ]
    return torch.tensor(rows, dtype=torch.long).view(-1, table.shape[1])


POOL = 64  # batches whose examples are sorted by length; of more, the order would be less of a draw


def bucketed(lengths: Tensor, batch: int, generator: torch.Generator) -> Iterator[Tensor]:
    """The batches of an epoch: numbers of examples. Shuffled, sorted by length within pools, the batches shuffled.

    Args:
      lengths: of each example, on the CPU; shape (examples,).
      batch: examples of a batch.
      generator: what draws.
    """
    order = torch.randperm(len(lengths), generator=generator)
    batches = [
        one for pool in order.split(batch * POOL) for one in pool[lengths[pool].argsort(stable=True)].split(batch)
    ]
    for i in torch.randperm(len(batches), generator=generator).tolist():
        yield batches[i]


def by_length(lengths: Sequence[int], batch: int) -> Iterator[list[int]]:
    """Batches where nothing is drawn: numbers of examples, the longest first, so that memory runs out at once."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    for start in range(0, len(order), batch):
        yield order[start : start + batch]


class Rows:
    """Rows of token ids in one tensor, gathered and padded without a Python loop over them.

    Args:
      rows: of each example; may be empty.
      device: where the batches are wanted.
    """

    def __init__(self, rows: Sequence[Sequence[int]], device: torch.device | str = "cpu") -> None:
        self.lengths = torch.tensor([len(row) for row in rows], dtype=torch.long)
        self.starts = self.lengths.cumsum(0) - self.lengths
        self.flat = torch.tensor([token for row in rows for token in row], dtype=torch.int32)
        self.device = torch.device(device)

    def padded(self, ids: Tensor, fill: int, left: bool = False) -> tuple[Tensor, Tensor]:
        """Token ids and mask of some rows; both of shape (examples, the longest of them; at least 1).

        Args:
          ids: numbers of rows, on the CPU; shape (examples,).
          fill: the token that pads.
          left: pads on the left.
        """
        lengths = self.lengths[ids]
        width = max(1, int(lengths.max())) if len(ids) else 1
        columns = torch.arange(width)
        offsets = columns - (width - lengths)[:, None] if left else columns.expand(len(ids), width)
        mask = (offsets >= 0) & (offsets < lengths[:, None])
        tokens = torch.full((len(ids), width), fill, dtype=torch.long)
        places = (self.starts[ids][:, None] + offsets)[mask]
        tokens[mask] = self.flat[places].long()
        return tokens.to(self.device, non_blocking=True), mask.long().to(self.device, non_blocking=True)


# Logits in single precision are off by far less, and differ by far more as a rule.
DOUBT = 1e-2


Decision = TypeVar("Decision")


# For some rows: what is decided of each, and by how much the best choice is better than the next.
Decide = Callable[[Sequence[int]], Iterable[tuple[Decision, float]]]


def settled(batches: Iterable[Sequence[int]], decide: Decide[Decision]) -> list[Decision]:
    """The decision of each row, in the order of their numbers.

    Args:
      batches: numbers of rows; together all of them.
      decide: computes a batch.
    """
    found: dict[int, Decision] = {}
    for numbers in batches:
        for number, (decision, margin) in zip(numbers, decide(numbers), strict=True):
            if len(numbers) > 1 and not margin >= DOUBT:
                ((decision, _),) = decide([number])
            found[number] = decision
    return [found[number] for number in sorted(found)]


History = tuple[tuple[str, str], ...]  # (speaker, utterance) of each turn


class Stretch(msgspec.Struct, frozen=True):
    """The place of some tokens: from ``start`` to before ``end``."""

    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start


class Tokens:
    """Tokens of texts, one after the other."""

    def __init__(self) -> None:
        self.flat = array("i")

    def add(self, ids: Iterable[int]) -> Stretch:
        """Adds some; returns their place."""
        start = len(self.flat)
        self.flat.extend(ids)
        return Stretch(start, len(self.flat))


class Histories:
    """Dialogues so far, as tokens: one that continues the previous one is not written again.

    Args:
      tokens: where they are written.
      write: gives the token ids of a turn; called in the order in which they are written.
    """

    def __init__(self, tokens: Tokens, write: Callable[[tuple[str, str]], Iterable[int]]) -> None:
        self.tokens, self.write = tokens, write
        self.before: History = ()
        self.ends: list[int] = []

    def add(self, history: History) -> list[Stretch]:
        """The place of each turn of a history."""
        if not self.before or history[: len(self.before)] != self.before:
            self.before, self.ends = (), [len(self.tokens.flat)]
        for turn in history[len(self.before) :]:
            self.ends.append(self.tokens.add(self.write(turn)).end)
        self.before = history
        return [Stretch(*ends) for ends in pairwise(self.ends)]


class Pairs:
    """Rows, to be taken in batches.

    Args:
      tokens: that the rows are made of.
      rows: (of a dialogue, of a schema) for each row.
      limit: tokens of a row at most. Dialogues are cut off on the left; schemas are not, and may go beyond it.
      first: the token that each row begins with, if any.
    """

    def __init__(
        self, tokens: Tokens, rows: Sequence[tuple[Stretch, Stretch]], limit: int, first: int | None = None
    ) -> None:
        self.flat = torch.tensor(tokens.flat, dtype=torch.int32)
        self.first = first
        self.lead = int(first is not None)  # tokens before the dialogue
        places = torch.tensor([(a.start, a.end, b.start, b.end) for a, b in rows], dtype=torch.long).view(-1, 4)
        starts, self.ends, self.schemas, schema_ends = places.unbind(1)
        self.widths = schema_ends - self.schemas
        room = (limit - self.lead - self.widths).clamp(min=0)
        self.starts = torch.maximum(starts, self.ends - room)
        self.cut = int((self.starts > starts).sum())
        self.stretches = self.ends - self.starts  # of the dialogue
        self.lengths = self.lead + self.stretches + self.widths

    def __len__(self) -> int:
        return len(self.lengths)

    def padded(self, ids: Tensor, fill: int) -> tuple[Tensor, Tensor]:
        """Token ids and mask of some rows; both of shape (rows, the longest of them).

        Args:
          ids: numbers of rows, on the CPU; shape (rows,).
          fill: the token that pads.
        """
        columns = torch.arange(int(self.lengths[ids].max())) - self.lead
        own = self.stretches[ids][:, None]
        places = torch.where(
            columns < own, self.starts[ids][:, None] + columns, self.schemas[ids][:, None] - own + columns
        )
        mask = columns < self.lengths[ids][:, None] - self.lead
        tokens = self.flat[places.clamp(0, len(self.flat) - 1)].long().masked_fill(~mask, fill)
        if self.first is not None:
            tokens[:, 0] = self.first
        return tokens, mask.long()

    def decisions(self, batch: int, decide: Decide[Decision]) -> list[Decision]:
        """What is decided of each row, whatever it is batched with."""
        return settled(list(by_length(self.lengths.tolist(), batch)), decide)
