"""``parapet predict``: runs a model that ``parapet train`` made, or a language model, on files of dialogues."""

from __future__ import annotations

from parapet.pipelines.models import PREDICTING as MODELS
from parapet.pipelines.models import predict_command

command = predict_command

USAGE = f"""usage: parapet predict MODEL [flags]

Runs a model of 'parapet train' on dialogues, or asks a language model:
OUT/predictions, for 'parapet evaluate'.

models:
{chr(10).join(f"  {name:15}{what}" for name, what in MODELS.items())}

example:
  parapet predict tiny_dst --model my_model --output my_states

'parapet predict MODEL --help' shows the flags of a model.
"""
