"""``parapet predict``: runs a model that ``parapet train`` made, or a language model, on files of dialogues."""

from parapet.pipelines import models

MODELS, command = models.PREDICTING, models.predict_command
ABOUT = """\
Runs a model of 'parapet train' on dialogues, or asks a language model:
OUT/predictions, for 'parapet evaluate'."""
EXAMPLE = """\
  parapet predict t5dst --model my_model --reference my_corpus --output my_states
  parapet evaluate --task dst --reference my_corpus --predictions my_states/predictions --output my_scores"""
