"""The trackers, on the first frames of a corpus; the first tenth of these is dev, and all are predicted."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import partial

from benchmarks.training import Case, checkpoint_of, flags_of, split
from parapet.evaluation.dst.model import Example
from parapet.evaluation.models.configs import T5DstConfig, TinyConfig
from parapet.evaluation.models.dst.data import Labelled, read_labels
from parapet.evaluation.models.dst.sgp_learning import SgpLearner
from parapet.evaluation.models.dst.sgp_tracking import SgpTracker
from parapet.evaluation.models.dst.t5 import Card, T5Learner, T5Tracker
from parapet.evaluation.models.dst.tiny import TinyLearner, Tracker
from parapet.pipelines.config_flags import read_config
from parapet.pipelines.models.trackers import SgpDst

Sets = tuple[list[Labelled], list[Labelled]]

ANSWER = 4  # tokens that t5dst predicts, as a barely trained model may not find an end


def cases(model: str, args: argparse.Namespace) -> Iterator[Case]:
    """Yields the case of a model."""
    case, number = {"tiny_dst": (_tiny, 150), "t5dst": (_t5, 12), "sgp_dst": (_sgp, 40)}[model]
    read = read_labels(args.corpus, "train").rows
    sets = split(read, min(args.examples or number, len(read)))
    yield case(model, args, sets, [one.asked for one in sets[0]])


def _tiny(model: str, args: argparse.Namespace, sets: Sets, asked: Sequence[Example]) -> Case:
    config = read_config(TinyConfig, flags_of(model, args))

    def tracker(learner: TinyLearner) -> Tracker:
        return Tracker(learner.module, 64)

    make = partial(TinyLearner, config, *sets)
    return Case(model, "dialogues", make, config, tracker=tracker, asked=asked)


def _t5(model: str, args: argparse.Namespace, sets: Sets, asked: Sequence[Example]) -> Case:
    config = read_config(T5DstConfig, flags_of(model, args))
    checkpoint = checkpoint_of(model, args, _texts(asked), dropout=0.1)

    def tracker(learner: T5Learner) -> T5Tracker:
        card = Card(length=config.max_length, answer=ANSWER)
        return T5Tracker(learner.tokenizer, learner.module, card, config.batch_size)

    make = partial(T5Learner, config, checkpoint, *sets)
    return Case(model, "prompts", make, config, tracker=tracker, asked=asked)


def _sgp(model: str, args: argparse.Namespace, sets: Sets, asked: Sequence[Example]) -> Case:
    config = SgpDst(model).check(flags_of(model, args))
    checkpoint = checkpoint_of(model, args, _texts(asked), positions=config.max_length)

    def groups(learner: SgpLearner) -> list[int]:
        return [len(example.questions) for example in learner.examples.values()]

    def tracker(learner: SgpLearner) -> SgpTracker:
        return SgpTracker(learner.tokenizer, learner.modules, config.max_length, config.batch_size)

    make = partial(SgpLearner, config, checkpoint, *sets)
    return Case(model, "inputs", make, config, groups=groups, tracker=tracker, asked=asked)


def _texts(asked: Sequence[Example]) -> list[str]:
    """Lists utterances and slots of schemas, for a tokenizer."""
    said = [utterance for example in asked for _, utterance in example.history[-2:]]
    return [*said, *(f"{slot.name} {slot.description}" for example in asked for slot in example.service.slots)]
