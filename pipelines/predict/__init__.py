"""``parapet predict``: models that ``parapet train`` made, on files of dialogues; one model at a time."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from pipelines.dispatch import hand_over
from pipelines.train import FAMILIES, MODELS

USAGE = f"""usage: parapet predict MODEL [flags]

Runs a model that 'parapet train' made on dialogues -> OUT/predictions, as 'parapet evaluate' takes them.

models:
{chr(10).join(f"  {name:12}{what}" for name, what in MODELS.items())}

example:
  parapet predict memn2n --model my_model --reference babi/*-tst*.txt --output my_answers
  parapet evaluate --task ranking --reference babi/*-tst*.txt --predictions my_answers/predictions --output my_scores

'parapet predict MODEL --help' shows the flags of one.
"""


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet predict``. Returns the exit status: 0, 1 for a failure, 2 for wrong usage."""
    argv = sys.argv[1:] if argv is None else list(argv)
    if argv and argv[0] in MODELS:
        return int(importlib.import_module(f"pipelines.predict.{FAMILIES[argv[0]]}").run(argv))
    return hand_over("parapet predict", "model", MODELS, "pipelines.predict", USAGE, argv)
