"""Times the training of sgp_dst against a bare PyTorch loop over the same modules, and its predictions.

python -m benchmarks.train_sgp_dst [--checkpoint DIR] [--frames 200] [--batch_size 32] [--threads 1]
"""

from __future__ import annotations

import shutil
import sys

import torch
from torch import Tensor

from benchmarks import fine_tuning
from evaluation.models.dst.sgp.learning import Settings, SgpLearner
from evaluation.models.dst.sgp.net import Modules
from evaluation.models.dst.sgp.saving import TYPES, load_encoder
from evaluation.models.dst.sgp.tracking import SgpTracker
from evaluation.models.training import Learner
from transforms.checkpoints import inspect


def main() -> int:
    """Prints the table; gives 1 where an epoch is slower than the aim."""
    args = fine_tuning.flags_of(__doc__, 32)
    frames, texts = fine_tuning.frames_of(args)
    if not args.checkpoint:
        from tiny_bert import save_bert

        shutil.rmtree(args.folder / "bert", ignore_errors=True)
        args.checkpoint = str(save_bert(args.folder / "bert", texts, 128, layers=2, positions=256, vocabulary=2000))
    settings = Settings(
        shared=True,
        batch=args.batch_size,
        rate=2e-5,
        warmup=0.0,
        length=256,
        negatives=1.0,
        dev_frames=0,
        epochs=1,
        patience=1,
        seed="0",
        threads=args.threads,
        device=args.device,
    )

    def make() -> tuple[SgpLearner, SgpTracker]:
        tokenizer, encoder = load_encoder(inspect(args.checkpoint, TYPES))
        modules = Modules([encoder])
        learner = SgpLearner(settings, tokenizer, modules, frames, [])
        return learner, SgpTracker(tokenizer, modules, 256, args.batch_size)

    def orders(learner: Learner) -> list[Tensor]:
        assert isinstance(learner, SgpLearner)
        batches, first = [], 0
        for one in learner.examples.values():
            batches += [ids + first for ids in torch.randperm(len(one.rows)).split(args.batch_size)]
            first += len(one.rows)
        return [batches[i] for i in torch.randperm(len(batches)).tolist()]

    return fine_tuning.compare(make, orders, args)


if __name__ == "__main__":
    sys.exit(main())
