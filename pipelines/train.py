"""``parapet train``: trains the baseline models of the papers; one model at a time."""

from __future__ import annotations

from parapet.pipelines.models import MODELS, train_command

command = train_command

USAGE = f"""usage: parapet train MODEL [flags]

Trains a baseline model of the papers. Run the same command again to resume a
training that was stopped.

models:
{chr(10).join(f"  {name:12}{what}" for name, what in MODELS.items())}

example:
  parapet train tiny_dst --train my_corpus --output my_model

'parapet train MODEL --help' shows the flags of a model.
"""
