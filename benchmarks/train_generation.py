"""ft_t5 and pt_t5, on the system turns of a corpus; a tenth of them are dev."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial

from benchmarks.training import Case, checkpoint_of, flags_of, split
from parapet.evaluation.models.configs import GenerationConfig
from parapet.evaluation.models.generation.data import read_examples
from parapet.evaluation.models.generation.net import GenerationLearner
from parapet.pipelines.config_flags import read_config


def cases(model: str, args: argparse.Namespace) -> Iterator[Case]:
    """Yields the case of a model."""
    rows, dev = split(read_examples(args.corpus, "train").rows, args.examples or 150)
    texts = [text for row in rows for text in (row.text, row.said)]
    checkpoint = checkpoint_of(model, args, texts, dropout=0.1)
    config = read_config(GenerationConfig, flags_of(model, args), model=model)
    yield Case(model, "turns", partial(GenerationLearner, config, checkpoint, rows, dev), config)
