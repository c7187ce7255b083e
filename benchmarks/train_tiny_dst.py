"""Times the training of tiny_dst against a bare PyTorch loop over the same model, and its predictions.

python -m benchmarks.train_tiny_dst [--corpus ROOT] [--frames 200] [--batch_size 4] [--threads 1]
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor

from benchmarks import fine_tuning
from evaluation.models.dst.tiny.learning import Settings, TinyLearner
from evaluation.models.dst.tiny.saving import Tracker
from evaluation.models.dst.tiny.tracking import Tracking
from evaluation.models.training import Learner


def main() -> int:
    """Prints the table; gives 1 where an epoch is slower than the aim."""
    args = fine_tuning.flags_of(__doc__, 4)
    frames, _ = fine_tuning.frames_of(args)
    settings = Settings(
        size=64,
        batch=args.batch_size,
        rate=0.005,
        epochs=1,
        patience=1,
        seed="0",
        threads=args.threads,
        device=args.device,
    )

    def make() -> tuple[TinyLearner, Tracker]:
        learner = TinyLearner(settings, frames, [])
        return learner, Tracker(Tracking(learner.module, learner.reader, learner.device), 64)

    def orders(learner: Learner) -> list[Tensor]:
        assert isinstance(learner, TinyLearner)
        return list(torch.randperm(len(learner.tracks)).split(args.batch_size))

    return fine_tuning.compare(make, orders, args)


if __name__ == "__main__":
    sys.exit(main())
