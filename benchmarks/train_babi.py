"""The nets for the bAbI dialog tasks, on simulated dialogues of task 1; a tenth as many are dev."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial

from torch import Tensor

from benchmarks.training import Case, flags_of
from parapet.evaluation.models.babi.data import Corpus, types_of
from parapet.evaluation.models.babi.nets import BabiLearner
from parapet.evaluation.models.configs import BabiConfig
from parapet.pipelines.config_flags import read_config
from parapet.transforms.simulators.babi_format import BabiDialogue, Exchange
from parapet.transforms.simulators.restaurants.ontology import default_ontology
from parapet.transforms.simulators.restaurants.simulating import World, candidates, knowledge_base, lines_of, simulate

TASK = "1"
FILES = ("--train=-", "--dev=-", "--candidates=-")  # replaced by simulated dialogues
# A row for each of these settings; the knowledge base of --match is also simulated.
FLAGS = {"memn2n": ((), ("--match", "-")), "embeddings": ((), ("--negatives", "0"))}


def cases(model: str, args: argparse.Namespace) -> Iterator[Case]:
    """Yields memn2n without and with match-type features, and embeddings with each loss."""
    for more in FLAGS[model]:
        flags = flags_of(model, args, *FILES, *more)
        config = read_config(BabiConfig, flags, model=model)
        make = partial(BabiLearner, config, corpus_of(args.examples or 350, flags.match is not None))
        name = " ".join([model, *more]).removesuffix(" -")
        yield Case(name, "turns", make, config, loss=moved)


def corpus_of(dialogues: int, match: bool) -> Corpus:
    """Simulates dialogues; those for dev have an additional one that no model answers correctly."""
    world = World(default_ontology(), "0", 3)
    train, dev = (
        [BabiDialogue(tuple(lines_of(world, simulate(world, int(TASK), split, i)))) for i in range(n)]
        for split, n in (("train", dialogues), ("dev", max(1, dialogues // 10)))
    )
    dev.append(BabiDialogue((Exchange("hello", "what is none of the candidates"),)))
    knowledge = types_of(knowledge_base(world)) if match else {}
    return Corpus(train, dev, candidates(world), knowledge, TASK)


def moved(learner: BabiLearner) -> Callable[[Tensor], Tensor]:
    """Returns the learner's own loss for batches that are moved to its device."""
    return lambda ids: learner.loss(ids.to(learner.device))
