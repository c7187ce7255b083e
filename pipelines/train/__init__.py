"""``parapet train``: the baseline models of the papers, trained here; one model at a time."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from parapet.pipelines.command import run_checked
from parapet.pipelines.dispatch import hand_over

_BABI = dict.fromkeys(("rules", "tfidf", "nearest", "embeddings", "memn2n"), "babi")
_GENERATION = dict.fromkeys(("ft_t5", "pt_t5"), "generation")

STOPPED = "run the same command again: it goes on after the last whole epoch"

# Each model to the module that trains it: it has parser(model), check(args) and act(args, rest).
FAMILIES = {
    "tiny_dst": "tiny_dst",
    "t5dst": "t5dst",
    "sgp_dst": "sgp_dst",
    **_GENERATION,
    "classifier": "classifier",
    "soloist": "soloist",
    **_BABI,
}

MODELS = {
    "tiny_dst": "dialogue states: a small net, from scratch, in minutes on two cores",
    "t5dst": "dialogue states: a T5 that is asked for one slot at a time",
    "sgp_dst": "dialogue states: four BERT encoders and rules that combine them",
    "ft_t5": "system utterances from their acts: a fine-tuned T5",
    "pt_t5": "system utterances from their acts: a T5 with trained prefixes",
    "classifier": "intents and out-of-domain turns: a text classifier",
    "soloist": "history -> belief -> database state -> response: a GPT-2",
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
  parapet train tiny_dst --train my_corpus --output my_model
  parapet train memn2n --train babi/task1-trn.txt --dev babi/task1-dev.txt --candidates babi/candidates.txt \\
    --output my_model

'parapet train MODEL --help' shows the flags of one; 'parapet predict' takes what it makes.
"""


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet train``. Returns the exit status: 0, 1 for a failure, 2 for wrong usage."""
    argv = sys.argv[1:] if argv is None else list(argv)
    if argv and argv[0] in MODELS:
        of = importlib.import_module(f"parapet.pipelines.train.{FAMILIES[argv[0]]}")
        return run_checked(of.parser(argv[0]), argv[1:], of.check, of.act, STOPPED)
    return hand_over("parapet train", "model", MODELS, "parapet.pipelines.train", USAGE, argv)
