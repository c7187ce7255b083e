"""What a family of models defines for a training, and its loss: plain, of the worst versions, or regularised.

RADDLE (Peng et al. 2021, section 6.3) proposes adversarial training for dialogue models. A family has little to add: it
encodes the dialogues that :class:`parapet.evaluation.models.examples.Versions` draws for an epoch, and gives the loss
of each example; for the regularisation, its embeddings and the logits of what it predicts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parapet.evaluation.models.configs import TrainingConfig


class Learner(ABC):
    """A model with its data: what a family of models defines, and :func:`train` trains.

    Attributes:
      module: what is trained, on its device.
      optimiser: of its parameters.
      metric: the name of what ``dev`` measures: a share, the higher the better.
      total_steps: of a training by epochs, where these differ in length; else 0.
      versions: of each example the numbers of its versions, shape (examples, versions), of which the worst is trained
        on; None where each has one. See :func:`parapet.evaluation.models.examples.laid_out`.
    """

    module: nn.Module
    optimiser: torch.optim.Optimizer
    metric: str
    total_steps: int = 0
    versions: Tensor | None = None

    def prepare(self, epoch: int) -> None:  # noqa: B027 (most have nothing to do)
        """Called before the batches of an epoch, from 1, are drawn: for examples that differ from epoch to epoch.

        What is prepared depends on the epoch alone, whichever was prepared before.
        """

    @abstractmethod
    def batches(self, generator: torch.Generator) -> Iterable[Tensor]:
        """The batches of an epoch: numbers of examples, shape (examples,), in an order drawn from the generator."""

    @abstractmethod
    def loss(self, batch: Tensor) -> Tensor:
        """The mean loss of a batch; a scalar. One without a gradient moves nothing."""

    @abstractmethod
    def dev(self) -> float:
        """The metric on the dev set."""

    @abstractmethod
    def files(self) -> dict[str, bytes]:
        """The files of the model's folder, when the module has the best weights: path to content."""

    def example_losses(self, batch: Tensor) -> Tensor:
        """The loss of each example, shape (examples,), without a gradient, in evaluation mode."""
        return torch.stack([self.loss(one[None]) for one in batch])

    def embeddings(self) -> Sequence[nn.Module]:
        """The modules whose vectors adversarial regularisation shifts."""
        raise NotImplementedError

    def outcome(self, batch: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The loss, and what is predicted: logits of each kind of predictions, shape (predictions, options)."""
        raise NotImplementedError

    def result(self) -> dict[str, float | None]:
        """What ``run.json`` says of the model besides its best row; called after ``files``."""
        return {}


START = 0.1  # of epsilon: the length of the random perturbation from which the ascent step starts


TINY = 1e-12


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
