"""The trackers, on the first frames of a corpus; the first tenth of these is dev, and all are predicted."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import partial

from benchmarks.training import Case, checkpoint_of, flags_of, split
from parapet.evaluation.dst.model import Example
from parapet.evaluation.models.dst.data import Labelled, read_labels
from parapet.evaluation.models.dst.sgp.learning import Settings as SgpSettings
from parapet.evaluation.models.dst.sgp.learning import SgpLearner
from parapet.evaluation.models.dst.sgp.net import Modules
from parapet.evaluation.models.dst.sgp.saving import load_encoder
from parapet.evaluation.models.dst.sgp.texts import KINDS
from parapet.evaluation.models.dst.sgp.tracking import SgpTracker
from parapet.evaluation.models.dst.t5.learning import Settings as T5Settings
from parapet.evaluation.models.dst.t5.learning import T5Learner
from parapet.evaluation.models.dst.t5.tracking import T5Tracker
from parapet.evaluation.models.dst.tiny.learning import Settings as TinySettings
from parapet.evaluation.models.dst.tiny.learning import TinyLearner
from parapet.evaluation.models.dst.tiny.saving import Tracker
from parapet.evaluation.models.dst.tiny.tracking import Tracking
from parapet.evaluation.models.pretrained import load
from parapet.pipelines.train.fine_tuning import fine_tuning_of
from parapet.pipelines.train.flags import training_of

Sets = tuple[list[Labelled], list[Labelled]]

ANSWER = 4  # tokens that t5dst predicts: one that has learned little may not find an end


def cases(model: str, args: argparse.Namespace) -> Iterator[Case]:
    """The one of a model."""
    case, number = {"tiny_dst": (_tiny, 150), "t5dst": (_t5, 12), "sgp_dst": (_sgp, 40)}[model]
    read = read_labels(args.corpus, "train").frames
    sets = split(read, min(args.examples or number, len(read)))
    yield case(model, args, sets, [one.asked for one in sets[0]])


def _tiny(model: str, args: argparse.Namespace, sets: Sets, asked: Sequence[Example]) -> Case:
    flags = flags_of(model, args)
    settings = TinySettings(size=flags.size, **training_of(flags))

    def tracker(learner: TinyLearner) -> Tracker:
        return Tracker(Tracking(learner.module.double(), learner.reader, learner.device), 64)

    make = partial(TinyLearner, settings, *sets)
    return Case(model, "dialogues", make, settings.plan(), tracker=tracker, asked=asked)


def _t5(model: str, args: argparse.Namespace, sets: Sets, asked: Sequence[Example]) -> Case:
    settings = T5Settings(**fine_tuning_of(flags_of(model, args)))
    checkpoint = checkpoint_of(model, args, _texts(asked), dropout=0.1)
    tokenizer, _ = load(checkpoint, "AutoModelForSeq2SeqLM")

    def make() -> T5Learner:
        return T5Learner(settings, *load(checkpoint, "AutoModelForSeq2SeqLM"), *sets)

    def tracker(learner: T5Learner) -> T5Tracker:
        return T5Tracker(tokenizer, learner.module, settings.length, ANSWER, settings.batch)

    return Case(model, "prompts", make, settings.plan(), tracker=tracker, asked=asked)


def _sgp(model: str, args: argparse.Namespace, sets: Sets, asked: Sequence[Example]) -> Case:
    settings = SgpSettings(shared=False, **fine_tuning_of(flags_of(model, args)))
    checkpoint = checkpoint_of(model, args, _texts(asked), positions=settings.length)
    tokenizer, _ = load_encoder(checkpoint)

    def make() -> SgpLearner:
        modules = Modules([load_encoder(checkpoint)[1] for _ in KINDS])
        return SgpLearner(settings, tokenizer, modules, *sets)

    def groups(learner: SgpLearner) -> list[int]:
        return [len(one.rows) for one in learner.examples.values()]

    def tracker(learner: SgpLearner) -> SgpTracker:
        return SgpTracker(tokenizer, learner.module, settings.length, settings.batch)

    return Case(model, "inputs", make, settings.plan(), groups=groups, tracker=tracker, asked=asked)


def _texts(asked: Sequence[Example]) -> list[str]:
    """All that is said, and all of the schemas' slots: for a tokenizer."""
    said = [utterance for one in asked for _, utterance in one.history[-2:]]
    return [*said, *(f"{slot.name} {slot.description}" for one in asked for slot in one.service.slots)]
