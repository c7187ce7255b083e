"""``parapet train``: trains the baseline models of the papers; one model at a time."""

from parapet.pipelines import models

MODELS, command = models.MODELS, models.train_command
ABOUT = """\
Trains a baseline model of the papers. Run the same command again to resume a
training that was stopped."""
EXAMPLE = "  parapet train damd --train my_corpus --output my_model"
