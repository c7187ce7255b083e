"""Times the training of t5dst against a bare PyTorch loop over the same model, and its predictions.

python -m benchmarks.train_t5dst [--checkpoint DIR] [--frames 200] [--batch_size 32] [--threads 1]
"""

from __future__ import annotations

import shutil
import sys

import torch
from torch import Tensor

from benchmarks import fine_tuning
from evaluation.models.dst.t5.learning import ANSWER, Settings, T5Learner
from evaluation.models.dst.t5.saving import KINDS
from evaluation.models.dst.t5.tracking import T5Tracker
from evaluation.models.pretrained import load
from evaluation.models.training import Learner
from transforms.checkpoints import inspect


def main() -> int:
    """Prints the table; gives 1 where an epoch is slower than the aim."""
    args = fine_tuning.flags_of(__doc__, 32)
    frames, texts = fine_tuning.frames_of(args)
    if not args.checkpoint:
        from tiny_t5 import save_t5

        shutil.rmtree(args.folder / "t5", ignore_errors=True)
        args.checkpoint = str(save_t5(args.folder / "t5", texts, size=128, layers=2, vocabulary=2000, dropout=0.1))
    settings = Settings(
        batch=args.batch_size,
        rate=1e-4,
        warmup=0.0,
        length=512,
        negatives=1.0,
        dev_frames=0,
        epochs=1,
        patience=1,
        seed="0",
        threads=args.threads,
        device=args.device,
    )

    def make() -> tuple[T5Learner, T5Tracker]:
        tokenizer, t5 = load(inspect(args.checkpoint, KINDS), "AutoModelForSeq2SeqLM")
        learner = T5Learner(settings, tokenizer, t5, frames, [])
        # A model that has learned little may not find an end: answers of the usual length, then.
        return learner, T5Tracker(tokenizer, t5, 512, min(ANSWER, 4), args.batch_size)

    def orders(learner: Learner) -> list[Tensor]:
        assert isinstance(learner, T5Learner)
        return list(torch.randperm(len(learner.inputs)).split(args.batch_size))

    return fine_tuning.compare(make, orders, args)


if __name__ == "__main__":
    sys.exit(main())
