"""ft_t5 and pt_t5, on the system turns of a corpus; a tenth of them for dev."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from benchmarks.training import Case, checkpoint_of, flags_of, split
from parapet.evaluation.models.generation.data import read_examples
from parapet.evaluation.models.generation.learning import CLIP, WARMUP, GenerationLearner, Settings
from parapet.evaluation.models.generation.saving import load_t5
from parapet.pipelines.train.flags import training_of
from parapet.pipelines.train.generation import LEAST


def cases(model: str, args: argparse.Namespace) -> Iterator[Case]:
    """The one of a model."""
    rows, dev = split(read_examples(args.corpus, "train").rows, args.examples or 150)
    texts = [text for one in rows for text in (one.text, one.said)]
    checkpoint = checkpoint_of(model, args, texts, dropout=0.1)
    flags = flags_of(model, args)
    own = {flag: getattr(flags, flag) for flag in LEAST if hasattr(flags, flag)}
    settings = Settings(model=model, **own, **training_of(flags))

    def make() -> GenerationLearner:
        return GenerationLearner(settings, *load_t5(checkpoint), rows, dev)

    yield Case(model, "turns", make, settings.schedule(WARMUP, True, CLIP))
