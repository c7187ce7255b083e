"""``parapet predict``: models that ``parapet train`` made, on files of dialogues; one model at a time."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from parapet.pipelines.command import run_command
from parapet.pipelines.dispatch import hand_over
from parapet.pipelines.train import FAMILIES as TRAINERS
from parapet.pipelines.train import MODELS

# Each model to the module that runs it, which has what run_command takes.
FAMILIES = {**TRAINERS, **dict.fromkeys(("tiny_dst", "t5dst", "sgp_dst"), "dst")}

USAGE = f"""usage: parapet predict MODEL [flags]

Runs a model that 'parapet train' made on dialogues -> OUT/predictions, as 'parapet evaluate' takes them.

models:
{chr(10).join(f"  {name:12}{what}" for name, what in MODELS.items())}

example:
  parapet predict tiny_dst --model my_model --reference my_corpus --variants my_dialogues --output my_states
  parapet evaluate --task dst --reference my_corpus --variants my_dialogues --predictions my_states/predictions \\
    --output my_scores

'parapet predict MODEL --help' shows the flags of one.
"""


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet predict``. Returns the exit status: 0, 1 for a failure, 2 for wrong usage."""
    argv = sys.argv[1:] if argv is None else list(argv)
    if argv and argv[0] in MODELS:
        of = importlib.import_module(f"parapet.pipelines.predict.{FAMILIES[argv[0]]}")
        return run_command(of.parser(argv[0]), argv[1:], of.check, of.build, of.report, of.files_read)
    return hand_over("parapet predict", "model", MODELS, "parapet.pipelines.predict", USAGE, argv)
