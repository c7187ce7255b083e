"""Perturbations of user turns: paraphrases, typos, speech errors, out-of-domain turns and unseen entities."""

from __future__ import annotations

from dataclasses import dataclass

from parapet.transforms.perturbation import PerturbationOptions
from parapet.transforms.running.options import INPUT, option

_VARIATION = "variation"


@dataclass(frozen=True, kw_only=True)
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
