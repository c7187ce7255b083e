"""Trainings that are stopped on the way."""

from __future__ import annotations

from typing import Any

import pytest


class Stopped(Exception):
    """A kill, as far as this process is concerned."""


def at_step(
    monkeypatch: pytest.MonkeyPatch, learner: type, step: int, error: type[BaseException] = KeyboardInterrupt
) -> None:
    """Raises an error, by default that of Ctrl-C, once, when a learner of a kind is asked for its ``step``-th loss."""
    steps, loss = [], learner.loss  # type: ignore[attr-defined]

    def stopped(self: Any, batch: Any) -> Any:
        steps.append(1)
        if len(steps) == step:
            raise error
        return loss(self, batch)

    monkeypatch.setattr(learner, "loss", stopped)
