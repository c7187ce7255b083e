"""Trainings that are stopped on the way."""

from pathlib import Path
from typing import Any

import pytest
from kit import files_of

from parapet.schemas.layout import OWNER, STAGING


class Stopped(Exception):
    """A kill, as far as this process is concerned."""


def at_step(
    monkeypatch: pytest.MonkeyPatch, learner: type, step: int, error: type[BaseException] = KeyboardInterrupt
) -> None:
    """Raises an error, by default that of Ctrl-C, once, when a learner of a kind is asked for its ``step``-th loss."""
    name = "outcome" if "outcome" in vars(learner) else "loss"
    steps, loss = [], getattr(learner, name)

    def stopped(self: Any, batch: Any) -> Any:
        steps.append(1)
        if len(steps) == step:
            raise error
        return loss(self, batch)

    monkeypatch.setattr(learner, name, stopped)


def left_in(output: Path) -> list[str]:
    """The files that a stopped training has left, without the one by which readers see that it was stopped."""
    files = sorted(files_of(output))
    left = [path for path in files if not path.startswith(f"{STAGING}/{OWNER}")]
    assert len(left) == len(files) - 1
    return left
