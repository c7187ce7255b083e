"""The options of language variations and of each of their kinds; imports nothing heavy."""

from __future__ import annotations

from parapet.transforms.perturbation.options import PerturbationOptions
from parapet.transforms.running.options import INPUT, option

_VARIATION = "variation"


class VariationOptions(PerturbationOptions):
    """The options of language variations, without those of translation."""

    description = (
        "Varies user turns: one set of dialogues for each kind of variation, and mixes of it with the original: "
        "OUT/typos, OUT/typos-env1 and so on."
    )
    example = """\
  parapet language_variations --output varied                 # the sample
  parapet language_variations --sgd sgd --kinds typos --rates word=0.2 --output varied
  parapet language_variations --sgd sgd --rewritten composed/rewritten.jsonl --output varied"""
    records = "dialogues, turns or lines of --rewritten"
    done = "varied"
    unusable = "left out, or turns unchanged"
    without = ()

    rewritten: list[str] = option(
        [], "rewritten turns: output of 'compose_variations'", group=INPUT, metavar="FILE", reads=True
    )
    kinds: str = option(
        "",
        "typos, verbose, simple, paraphrase (default: all, or those of --rewritten)",
        group=_VARIATION,
        metavar="LIST",
    )
    env: str = option(
        "0.1,0.5,0.8", "shares of varied turns in the mixes of each kind, or none", group=_VARIATION, metavar="LIST"
    )
    rates: str = option(
        "",
        "rates of typos: probabilities word=0.08, abbreviation=0.15; weights omission=35, neighbour=25, "
        "doubling=20, transposition=15, lost_space=5",
        group=_VARIATION,
        metavar="LIST",
        rare=True,
    )
    at_least: int = option(1, "minimum number of typos in a turn", group=_VARIATION, rare=True)
    perturb_values: bool = option(
        False, "typos in annotated values, too; states keep the correct value", group=_VARIATION, rare=True
    )
    least_changed: float | None = option(
        None,
        "fail if a smaller share of the user turns changes (default: 0.5; simple 0.1, paraphrase 0.3)",
        group=_VARIATION,
        rare=True,
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

    target = "parapet.transforms.perturbations.variations:Typos"
    description = f"Typos of people who type quickly, and abbreviations of people who chat. {FILES}"
    example = EXAMPLE.format("typos")
    group = "options of typos"

    rates: str | None = option(
        None, '{"word": 0.08, "abbreviation": 0.15} are the probabilities; weights of the kinds of typos besides'
    )
    at_least: int | None = option(None, "typos of a turn whose words allow them (default: 1)")
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
    description = (
        "User turns in other words: by rules, on request also translated and back; or as others have rewritten them. "
        + FILES
    )
    example = EXAMPLE.format("paraphrase")
    group = "options of paraphrase"

    engine: str | None = option(
        None,
        "rules uses rules alone, embedded also translates, by the extra translate (default: rules)",
    )
    memory: str | None = option(
        None,
        "translation memories, Parquet or CSV, as parapet back_translate writes them; they replace the engine",
        metavar="LIST",
    )
    pivots: str | None = option(
        None, "the languages to go through; of several, one is drawn for each turn (default: pt)"
    )
