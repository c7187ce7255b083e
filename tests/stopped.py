"""Trainings that are stopped on the way."""

from __future__ import annotations

from typing import Any

import pytest


def at_step(monkeypatch: pytest.MonkeyPatch, learner: type, step: int) -> None:
    """Presses Ctrl-C, once, when a learner of a kind is asked for so manyth a loss."""
    steps, loss = [], learner.loss  # type: ignore[attr-defined]

    def stopped(self: Any, batch: Any) -> Any:
        steps.append(1)
        if len(steps) == step:
            raise KeyboardInterrupt
        return loss(self, batch)

    monkeypatch.setattr(learner, "loss", stopped)
