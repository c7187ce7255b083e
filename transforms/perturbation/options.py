"""The options that all perturbations share; imports nothing heavy."""

from __future__ import annotations

import importlib
import inspect
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from parapet.schemas.layout import sample_root
from parapet.transforms.running import options
from parapet.transforms.running.options import option

if TYPE_CHECKING:
    from parapet.transforms.perturbation.base import Perturbation


class PerturbationOptions(options.Options):
    """The options that perturbations share. A subclass declares those of one perturbation.

    Attributes:
      target: ``module:class`` of the perturbation.
      without: the shared options that it does not have.
      records: what ``max_bad`` is a share of.
      done: what could not be done to a bad record; ``unusable`` says what becomes of it.
    """

    target: ClassVar[str]
    description: ClassVar[str]
    example: ClassVar[str]
    without: ClassVar[tuple[str, ...]] = ("messages", "dry_run")
    records: ClassVar[str] = "dialogues"
    done: ClassVar[str] = "perturbed"
    unusable: ClassVar[str] = "left out"

    output: str = options.output_folder()
    sgd: str = options.sgd()
    messages: list[str] = option(
        [], "chats (JSON lines) instead of a corpus", group=options.INPUT, metavar="FILE", reads=True
    )
    split: str = options.split(many=True)
    max_bad: Fraction = options.max_bad("{records}")
    dry_run: bool = options.dry_run()
    seed: str = options.seed()

    @property
    def root(self) -> str:
        """The corpus."""
        return self.sgd or str(sample_root())

    @classmethod
    def perturbation(cls) -> type[Perturbation]:
        """Imports the class of the perturbation."""
        module, _, name = cls.target.partition(":")
        kind: type[Perturbation] = getattr(importlib.import_module(module), name)
        return kind

    def make(self, **more: object) -> Perturbation:
        """Makes the perturbation: its keyword arguments are the options of the same names, and ``more``."""
        kind = self.perturbation()
        values = {name: getattr(self, name, None) for name in inspect.signature(kind).parameters}
        return kind(
            **{name: value for name, value in values.items() if value is not None and value is not False} | more
        )
