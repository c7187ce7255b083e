"""Finds a state tracker's module by its name."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, runtime_checkable

from parapet.evaluation.dst.frames import State
from parapet.evaluation.dst.model import Example, Model

# Each has check(folder) and load(folder, device, batch).
MODULES = {
    "tiny_dst": "parapet.evaluation.models.dst.tiny.saving",
    "t5dst": "parapet.evaluation.models.dst.t5.saving",
    "sgp_dst": "parapet.evaluation.models.dst.sgp.saving",
}


@runtime_checkable
class Limited(Protocol):
    """A tracker that reads so many tokens at most."""

    def tracked(self, batch: Sequence[Example]) -> tuple[list[State], int]:
        """The state of each example; and how many of its inputs were too long, so that the dialogue was cut off."""


def check(folder: str, model: str) -> None:
    """Looks at a folder, without its weights. Raises InputError where ``model`` is not in it."""
    import_module(MODULES[model]).check(folder)


def load(folder: str, model: str, device: str, batch: int) -> Model:
    """The model in a folder, ready to predict.

    Args:
      folder: as ``parapet train`` wrote it.
      model: its name.
      device: ``auto``, ``cpu`` or ``cuda``.
      batch: what it computes at a time.

    Raises:
      InputError: it is not there, of another kind, or damaged.
    """
    found: Model = import_module(MODULES[model]).load(folder, device, batch)
    return found
