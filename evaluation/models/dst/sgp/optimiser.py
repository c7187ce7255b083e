"""BertAdam, the optimiser of BERT's first PyTorch port, with a schedule for each group of parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

BETAS = (0.9, 0.999)
EPSILON = 1e-6
WEIGHT_DECAY = 0.01
NOT_DECAYED = ("bias", "LayerNorm.weight")


def warmup_linear(progress: float, warmup: float) -> float:
    """The share of the full learning rate: rises to 1 at ``warmup``, then falls to 0 at 1."""
    if progress < warmup:
        return progress / warmup
    return max((1 - progress) / (1 - warmup), 0.0) if warmup < 1 else 1.0


def groups_of(parameters: Iterable[tuple[str, Tensor]], **settings: Any) -> list[dict[str, Any]]:
    """Two groups of named parameters: those whose weights decay, and biases and normalisations, whose weights do not.

    Args:
      parameters: (name, parameter).
      settings: of both groups, such as ``steps`` and ``warmup``.
    """
    decayed: dict[bool, list[Tensor]] = {True: [], False: []}
    for name, parameter in parameters:
        decayed[not name.endswith(NOT_DECAYED)].append(parameter)
    return [{"params": some, "weight_decay": WEIGHT_DECAY * flag, **settings} for flag, some in decayed.items()]


class BertAdam(torch.optim.Optimizer):
    """Adam with decoupled weight decay and without bias correction, as ``pytorch-pretrained-bert`` 0.6.2 has it.

    torch's AdamW corrects the bias, which is large in the first of few steps. A group's learning rate follows
    :func:`warmup_linear` over the steps that have a gradient for it: modules that are trained by turns are trained as
    if each were alone. The norm of each tensor's gradient is clipped, not that of all together.

    Args:
      groups: of parameters; each with ``steps``, the number of its steps, and ``warmup``, the share of these in which
        the learning rate rises.
      lr: the full learning rate.
      clip: the largest norm; 0 for any.
      decay: whether the rate falls after the warm-up.
    """

    def __init__(self, groups: Iterable[dict[str, Any]], lr: float, clip: float = 1.0, decay: bool = True) -> None:
        super().__init__(groups, {"lr": lr, "initial_lr": lr, "clip": clip, "decay": decay, "step": 0})

    def step(self, closure: Callable[[], float] | None = None) -> None:
        """A step for the parameters that have a gradient. ``lr`` of a group becomes what it was made with."""
        with torch.no_grad():
            self._step()

    def _step(self) -> None:
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            if not parameters:
                group["lr"] = 0.0
                continue
            progress = group["step"] / group["steps"]
            share = warmup_linear(progress, group["warmup"]) if group["decay"] or progress < group["warmup"] else 1.0
            group["lr"] = group["initial_lr"] * share
            group["step"] += 1
            gradients = [parameter.grad for parameter in parameters]
            if group["clip"]:
                norms = torch.stack(torch._foreach_norm(gradients))
                shares = (group["clip"] / (norms + 1e-6)).clamp(max=1.0)
                gradients = torch._foreach_mul(gradients, list(shares.unbind()))
            means, squares = zip(*(self._moments(parameter) for parameter in parameters), strict=True)
            torch._foreach_mul_(means, BETAS[0])
            torch._foreach_add_(means, gradients, alpha=1 - BETAS[0])
            torch._foreach_mul_(squares, BETAS[1])
            torch._foreach_addcmul_(squares, gradients, gradients, value=1 - BETAS[1])
            scales = torch._foreach_sqrt(squares)
            torch._foreach_add_(scales, EPSILON)
            updates = torch._foreach_div(means, scales)
            if group["weight_decay"]:
                torch._foreach_add_(updates, parameters, alpha=group["weight_decay"])
            torch._foreach_add_(parameters, updates, alpha=-group["lr"])

    def _moments(self, parameter: Tensor) -> tuple[Tensor, Tensor]:
        state = self.state[parameter]
        if not state:
            state.update(mean=torch.zeros_like(parameter), square=torch.zeros_like(parameter))
        return state["mean"], state["square"]
