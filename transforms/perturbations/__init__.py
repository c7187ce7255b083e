"""Perturbations of user turns: paraphrases, typos, speech errors, out-of-domain turns and unseen entities."""

from __future__ import annotations

from parapet.transforms.perturbation import Command, Option

_VARIATION = "variation"

COMMAND = Command(
    "parapet.transforms.perturbations.variations:LanguageVariations",
    "Varies user turns: one set of dialogues for each kind of variation, and mixes of it with the original: "
    "OUT/typos, OUT/typos-env1 and so on.",
    """\
  parapet language_variations --output varied                 # the sample
  parapet language_variations --sgd sgd --kinds typos --rates word=0.2 --output varied
  parapet language_variations --sgd sgd --rewritten composed/rewritten.jsonl --output varied""",
    {
        "input": (
            Option(
                "rewritten",
                "rewritten turns: output of 'compose_variations'",
                "FILE",
                default=(),
                many=True,
                reads=True,
            ),
        ),
        _VARIATION: (
            Option("kinds", "typos, verbose, simple, paraphrase (default: all, or those of --rewritten)", "LIST"),
            Option("env", "shares of varied turns in the mixes of each kind, or none", "LIST", default="0.1,0.5,0.8"),
            Option(
                "rates",
                "rates of typos: probabilities word=0.08, abbreviation=0.15; weights omission=35, neighbour=25, "
                "doubling=20, transposition=15, lost_space=5",
                "LIST",
                default="",
                rare=True,
            ),
            Option("at_least", "minimum number of typos in a turn", "N", default=1, type=int, rare=True),
            Option("perturb_values", "typos in annotated values, too; states keep the correct value", rare=True),
            Option(
                "least_changed",
                "fail if a smaller share of the user turns changes (default: 0.5; simple 0.1, paraphrase 0.3)",
                "X",
                type=float,
                rare=True,
            ),
        ),
    },
    records="dialogues, turns or lines of --rewritten",
    done="varied",
    unusable="left out, or turns unchanged",
    has_messages=True,
    has_dry_run=True,
)
