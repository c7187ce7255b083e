"""Robust training: dialogues perturbed anew in each epoch, the worst of several, and adversarial regularisation.

RADDLE (Peng et al. 2021, section 6.3) proposes adversarial training for dialogue models. A family of models has little
to add: it encodes the dialogues that :class:`Versions` draws for an epoch, and gives the loss of each example; for the
regularisation, its embeddings and the logits of what it predicts
(:class:`parapet.evaluation.models.training.Learner`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from random import Random
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parapet.schemas.dialogue import typed
from parapet.schemas.dialogue_files import read_each
from parapet.schemas.errors import InputError
from parapet.schemas.limits import MAX_DIALOGUE_FILE
from parapet.transforms.compressed import read_input
from parapet.transforms.corpora import Item, listed, read_corpus
from parapet.transforms.perturbation import Perturbation
from parapet.transforms.perturbation_results import apply
from parapet.transforms.perturbations import perturbation_of
from parapet.transforms.seeding import key_of

if TYPE_CHECKING:
    from parapet.evaluation.models.configs import TrainingConfig
    from parapet.evaluation.models.training import Learner

Row = TypeVar("Row")
Encoded = TypeVar("Encoded")
Raw = dict[str, Any]  # a dialogue in the SGD format

START = 0.1  # of epsilon: the length of the random perturbation from which the ascent step starts
TINY = 1e-12


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
    found = []
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
        found.append(one)
    return found


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


def worst(learner: Learner, batch: Tensor) -> Tensor:
    """Of each example the version with the highest loss under the present model, of equal ones the first.

    Args:
      learner: whose ``versions`` say which there are.
      batch: numbers of examples.

    Returns:
      Numbers of versions.
    """
    if learner.versions is None or learner.versions.shape[1] == 1:
        return batch
    versions = learner.versions[batch]
    numbers = versions[(versions != versions[:, :1]).any(1)].unique()
    if not len(numbers):
        return batch
    learner.module.eval()
    with torch.no_grad():
        losses = learner.example_losses(numbers).float().cpu()
    learner.module.train()
    found = torch.zeros(versions.shape)
    there = torch.isin(versions, numbers)
    found[there] = losses[torch.searchsorted(numbers, versions[there])]
    return versions.gather(1, found.argmax(1, keepdim=True)).squeeze(1)


# Perturbed embeddings.


class Shift:
    """What is added to the vectors that embedding modules give, one tensor for each module, of their first call."""

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self.modules = modules
        self.seen: dict[int, Tensor] = {}
        self.added: dict[int, Tensor] = {}

    @contextmanager
    def hooked(self) -> Iterator[None]:
        """Records the vectors of a forward pass, and adds to them."""
        self.seen = {}

        def hook(number: int, given: Tensor) -> Tensor | None:
            if number in self.seen:  # T5 embeds what it reads first, then what it writes
                return None
            self.seen[number] = given.detach()
            return given + self.added[number] if number in self.added else None

        handles = [
            module.register_forward_hook(lambda _, __, given, number=number: hook(number, given))
            for number, module in enumerate(self.modules)
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


def along(direction: Tensor, vectors: Tensor, share: float) -> Tensor:
    """Vectors along others, whose lengths are a share of those of ``vectors``; 0 where a direction is 0."""
    lengths = direction.norm(dim=-1, keepdim=True)
    return share * vectors.norm(dim=-1, keepdim=True) * direction / lengths.clamp(min=TINY)


def divergence(clean: Sequence[Tensor], other: Sequence[Tensor]) -> Tensor:
    """The mean Kullback-Leibler divergence of predictions from clean ones, summed over kinds of predictions.

    Args:
      clean, other: logits of each kind, shape (predictions, options).
    """
    pairs = [
        (p.float().log_softmax(-1), q.float().log_softmax(-1)) for p, q in zip(clean, other, strict=True) if len(p)
    ]
    return torch.stack([F.kl_div(q, p, reduction="batchmean", log_target=True) for p, q in pairs]).sum()


@contextmanager
def same_draws() -> Iterator[Callable[[], None]]:
    """Gives a function that sets the generators to where they are now: so that passes drop the same."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []
    states = torch.get_rng_state(), [torch.cuda.get_rng_state(number) for number in devices]

    def reset() -> None:
        torch.set_rng_state(states[0])
        for number, state in zip(devices, states[1], strict=True):
            torch.cuda.set_rng_state(state, number)

    yield reset


def regularised(learner: Learner, batch: Tensor, weight: float, epsilon: float) -> Tensor:
    """The loss, and how much predictions change where embeddings are shifted in the direction that changes them most.

    Virtual adversarial regularisation as in ALUM (Liu et al. 2020, Algorithm 1) with one ascent step: a small random
    shift, a step along the gradient of the divergence, and the divergence there times ``weight``. A shift is as long as
    ``epsilon`` times the embedding that it is added to. All passes drop the same units. The clean predictions are
    constants of the divergence.

    Args:
      learner: with ``embeddings`` and ``outcome``.
      batch: numbers of examples.
      weight: of the divergence.
      epsilon: as a share of the length of an embedding.
    """
    shift = Shift(learner.embeddings())
    # The shift is drawn on the CPU, so that a seed means the same on every device.
    drawn = torch.Generator().manual_seed(int(torch.randint(2**62, ())))
    with same_draws() as reset:
        with shift.hooked():
            loss, clean = learner.outcome(batch)
        clean, seen = [one.detach() for one in clean], shift.seen
        shift.added = {
            number: along(torch.randn(given.shape, generator=drawn).to(given), given, START * epsilon).requires_grad_()
            for number, given in seen.items()
        }
        reset()
        with shift.hooked():
            near = divergence(clean, learner.outcome(batch)[1])
        gradients = torch.autograd.grad(near, list(shift.added.values()), allow_unused=True)
        shift.added = {
            number: along(gradient, seen[number], epsilon)
            for number, gradient in zip(seen, gradients, strict=True)
            if gradient is not None
        }
        reset()
        with shift.hooked():
            far = divergence(clean, learner.outcome(batch)[1])
    return loss + weight * far


def loss_of(learner: Learner, config: TrainingConfig, batch: Tensor) -> Tensor:
    """The loss of a batch, as a training has it: plain, of the worst versions, regularised."""
    batch = worst(learner, batch)
    if config.adversarial_weight:
        return regularised(learner, batch, config.adversarial_weight, config.adversarial_epsilon)
    return learner.loss(batch)
