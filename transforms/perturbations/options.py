"""The options of each kind of language variation; imports nothing heavy."""

from __future__ import annotations

from parapet.transforms.perturbation.options import PerturbationOptions
from parapet.transforms.running.options import option

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

    target = "parapet.transforms.perturbations.variations:Typos"
    description = f"Typos of people who type quickly, and abbreviations of people who chat. {FILES}"
    example = EXAMPLE.format("typos")
    group = "options of typos"

    rates: str | None = option(
        None, 'probabilities that a word has a typo, or is abbreviated: {"word": 0.08, "abbreviation": 0.15}'
    )
    perturb_values: bool = option(False, "whether annotated values may have typos; states keep what was meant")


class VerboseOptions(KindOptions):
    """The options of ``verbose``."""

    target = "parapet.transforms.perturbations.variations:Verbose"
    description = (
        "The same turns in more words: polite and indirect requests, whole sentences for fragments, reasons, detours. "
        + FILES
    )
    example = EXAMPLE.format("verbose")
    group = "options of verbose"


class SimpleOptions(KindOptions):
    """The options of ``simple``."""

    target = "parapet.transforms.perturbations.variations:Simple"
    description = f"Shorter user turns: what is not needed is dropped. {FILES}"
    example = EXAMPLE.format("simple")
    group = "options of simple"


class ParaphraseOptions(KindOptions):
    """The options of ``paraphrase``."""

    target = "parapet.transforms.perturbations.variations:Paraphrase"
    description = f"User turns in other words. {FILES}"
    example = EXAMPLE.format("paraphrase")
    group = "options of paraphrase"
