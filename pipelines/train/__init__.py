"""``parapet train``: the baseline models of the papers, trained here; one model at a time."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from pipelines.dispatch import hand_over

# Each model to the module of its family.
FAMILIES = {"rules": "babi", "tfidf": "babi", "nearest": "babi", "embeddings": "babi", "memn2n": "babi"}

MODELS = {
    "rules": "bAbI dialog tasks: the simulator's rule-based bot",
    "tfidf": "bAbI dialog tasks: the candidate closest to the dialogue, by TF-IDF",
    "nearest": "bAbI dialog tasks: the answer to the most similar utterance of the training set",
    "embeddings": "bAbI dialog tasks: supervised embeddings of dialogue and candidate",
    "memn2n": "bAbI dialog tasks: a memory network",
}

USAGE = f"""usage: parapet train MODEL [flags]

Trains a baseline model of the papers -> a folder with the model, its log, and what it was trained on.
A training that was stopped, however, goes on where it was when the same command is run again.

models:
{chr(10).join(f"  {name:12}{what}" for name, what in MODELS.items())}

example:
  parapet train memn2n --train dialog-babi-task1-API-calls-trn.txt --dev dialog-babi-task1-API-calls-dev.txt \\
    --candidates dialog-babi-candidates.txt --match dialog-babi-kb-all.txt --output my_model

'parapet train MODEL --help' shows the flags of one; 'parapet predict' takes what it makes.
"""


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet train``. Returns the exit status: 0, 1 for a failure, 2 for wrong usage."""
    argv = sys.argv[1:] if argv is None else list(argv)
    if argv and argv[0] in MODELS:
        return int(importlib.import_module(f"pipelines.train.{FAMILIES[argv[0]]}").run(argv))
    return hand_over("parapet train", "model", MODELS, "pipelines.train", USAGE, argv)
