"""``parapet train``: trains the baseline models of the papers; one model at a time."""

from __future__ import annotations

from collections.abc import Sequence

from parapet.pipelines.dispatch import hand_over
from parapet.pipelines.models import MODELS
from parapet.pipelines.models import train_command as command

USAGE = f"""usage: parapet train MODEL [flags]

Trains a baseline model of the papers. Run the same command again to resume a
training that was stopped.

models:
{chr(10).join(f"  {name:12}{what}" for name, what in MODELS.items())}

example:
  parapet train tiny_dst --train my_corpus --output my_model
  parapet train memn2n --train babi/task1-trn.txt --dev babi/task1-dev.txt \\
      --candidates babi/candidates.txt --output my_model

'parapet train MODEL --help' shows the flags of a model.
"""


def run(argv: Sequence[str]) -> int:
    """Runs ``parapet train``. Returns the exit status: 0, 1 for a failure, 2 for wrong usage."""
    from parapet.pipelines import app

    return hand_over(
        "parapet train", "model", MODELS, "", USAGE, argv, lambda model, flags: app.run(command(model), flags)
    )
