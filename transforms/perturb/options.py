"""The options that all perturbations share; imports nothing heavy."""

from __future__ import annotations

import importlib
import inspect
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from parapet.schemas.layout import sample_root
from parapet.transforms.core import options
from parapet.transforms.core.options import option

if TYPE_CHECKING:
    from parapet.transforms.perturb.base import Perturbation


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


# What the help of any perturbation has; {0} is its name.
EXAMPLE = """\
  parapet perturb {0} --output perturbed           # the sample
  parapet perturb {0} --sgd sgd --split test --output perturbed"""
FILES = "Writes OUT/SET/test/dialogues_001.json, statistics, a card and a page."


class KindOptions(PerturbationOptions):
    """The options of one kind of variation."""

    without = ("dry_run",)

    env: str | None = option(
        None,
        "rates of mixes with the original, such as (0.1, 0.5, 0.8): for each a set NAME-env1, NAME-env2, in which "
        "exactly this share of all user turns is varied, or all that can be where these are fewer",
        metavar="LIST",
    )
    rewritten: str | None = option(
        None,
        "JSON Lines of turns that people or a model have rewritten; they take the place of the rules",
        metavar="LIST",
    )


class TypoOptions(KindOptions):
    """The options of ``typos``."""

    target = "parapet.transforms.perturb.variations:Typos"
    description = f"Typos of people who type quickly, and abbreviations of people who chat. {FILES}"
    example = EXAMPLE.format("typos")
    group = "options of typos"

    rates: str | None = option(
        None, 'probabilities that a word has a typo, or is abbreviated: {"word": 0.08, "abbreviation": 0.15}'
    )
    perturb_values: bool = option(False, "whether annotated values may have typos; states keep what was meant")


class VerboseOptions(KindOptions):
    """The options of ``verbose``."""

    target = "parapet.transforms.perturb.variations:Verbose"
    description = (
        "The same turns in more words: polite and indirect requests, whole sentences for fragments, reasons, detours. "
        + FILES
    )
    example = EXAMPLE.format("verbose")
    group = "options of verbose"


class SimpleOptions(KindOptions):
    """The options of ``simple``."""

    target = "parapet.transforms.perturb.variations:Simple"
    description = f"Shorter user turns: what is not needed is dropped. {FILES}"
    example = EXAMPLE.format("simple")
    group = "options of simple"


class ParaphraseOptions(KindOptions):
    """The options of ``paraphrase``."""

    target = "parapet.transforms.perturb.variations:Paraphrase"
    description = f"User turns in other words. {FILES}"
    example = EXAMPLE.format("paraphrase")
    group = "options of paraphrase"
