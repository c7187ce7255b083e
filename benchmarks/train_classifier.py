"""Times the training of the classifier against a bare PyTorch loop over the same model.

    python -m benchmarks.train_classifier [--sgd ROOT] [--checkpoint DIR] [--epochs 2] [--batch 32] [--folder OUT]

Turns are those of the bundled sample, or of a corpus; without a checkpoint the BERT is a new one with random weights,
two layers of 128. The bare loop has the token ids ready too; it draws an order, pads its batches and steps. See
``benchmarks.train`` for how it is timed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

from benchmarks.train import AIM, fastest, seconds
from evaluation.models.classifier.data import INTENT, Turn, read_labelled
from evaluation.models.classifier.learning import CLIP, WARMUP, ClassifierLearner, Settings
from evaluation.models.classifier.saving import KINDS
from evaluation.models.devices import DEVICES, device_of, seed_all
from evaluation.models.training import Schedule, fit, train_epoch
from schemas.layout import sample_root
from transforms.checkpoints import inspect


def main() -> int:
    """Prints the table; gives 1 where an epoch is slower than the aim."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--sgd", type=Path, default=sample_root())
    flags.add_argument("--checkpoint", type=Path)
    flags.add_argument("--epochs", type=int, default=2)
    flags.add_argument("--batch", type=int, default=32)
    flags.add_argument("--threads", type=int, default=1)
    flags.add_argument("--device", choices=DEVICES, default="auto")
    flags.add_argument("--folder", type=Path, default=Path("bench-output"))
    args = flags.parse_args()
    torch.set_num_threads(args.threads)
    device = device_of(args.device)
    turns = read_labelled([str(args.sgd)], "train", INTENT)
    turns = turns * (600 // len(turns) + 1)
    checkpoint = args.checkpoint or random_bert(args.folder / "train_classifier_bert", turns)
    print(f"{len(turns):,} turns, {args.epochs} epochs, batches of {args.batch}, {args.threads} threads, {device.type}")
    print(f"{'':14}{'bare loop':>12}{'epochs':>10}{'ratio':>7}{'all':>10}{'ratio':>7}  (turns a second)")
    slow = False
    for name, begun in (("from scratch", None), ("checkpoint", inspect(str(checkpoint), KINDS))):
        settings = Settings(
            task=INTENT,
            checkpoint=begun,
            size=64,
            buckets=2**15,
            length=128,
            score="msp",
            batch=args.batch,
            rate=1e-3,
            epochs=args.epochs,
            patience=args.epochs,
            seed="0",
            threads=args.threads,
            device=device.type,
        )

        def learner(settings: Settings = settings) -> ClassifierLearner:
            return ClassifierLearner(settings, turns, turns[: len(turns) // 10])

        ways = {
            "bare": lambda: bare(learner()),
            "epochs": lambda: ours(learner(), args.folder, whole=False),
            "all": lambda: ours(learner(), args.folder, whole=True),
        }
        best = fastest(ways)
        rates = {way: args.epochs * len(turns) / s for way, s in best.items()}
        ratio, with_all = rates["epochs"] / rates["bare"], rates["all"] / rates["bare"]
        print(
            f"{name:14}{rates['bare']:12,.1f}{rates['epochs']:10,.1f}{ratio:7.2f}{rates['all']:10,.1f}{with_all:7.2f}",
            flush=True,
        )
        slow |= ratio < AIM
    return int(slow)


def random_bert(folder: Path, turns: list[Turn]) -> Path:
    """A BERT that has learned nothing, saved as real ones are."""
    sys.path.append(str(Path(__file__).parent.parent / "tests"))
    from tiny_bert import save_bert

    shutil.rmtree(folder, ignore_errors=True)
    return save_bert(folder, [turn.utterance for turn in turns], size=128, layers=2, positions=128, vocabulary=2000)


def bare(learner: ClassifierLearner) -> float:
    """Trains as little as can be."""
    seed_all("0", "bare")
    rows = learner.rows
    tokens = [one.long() for one in rows.flat.split(rows.lengths.tolist())]
    pad, classes = learner.encoder.pad, learner.classes.cpu()
    started = seconds(learner.device)
    learner.module.train()
    for _ in range(learner.settings.epochs):
        for ids in torch.randperm(len(tokens)).split(learner.settings.batch):
            batch = pad_sequence([tokens[i] for i in ids.tolist()], batch_first=True, padding_value=pad)
            batch = batch.to(learner.device)
            with torch.autocast(learner.device.type, torch.bfloat16, enabled=learner.device.type == "cuda"):
                logits = learner.module(batch, (batch != pad).long())
                loss = F.cross_entropy(logits.float(), classes[ids].to(learner.device))
            learner.optimiser.zero_grad(set_to_none=True)
            loss.backward()
            learner.optimiser.step()
    return seconds(learner.device) - started


def ours(learner: ClassifierLearner, folder: Path, whole: bool) -> float:
    """Trains as the command does; the epochs alone, or with dev and the state."""
    out = folder / "train_classifier"
    shutil.rmtree(out, ignore_errors=True)
    settings = learner.settings
    of_checkpoint = settings.checkpoint is not None
    warmup, clip = (WARMUP, CLIP) if of_checkpoint else (0.0, 0.0)
    schedule = Schedule(settings.epochs, settings.patience, settings.seed, warmup, of_checkpoint, clip)
    started = seconds(learner.device)
    if whole:
        fit(learner, schedule, str(out), {"benchmark": True})
    else:
        for number in range(1, settings.epochs + 1):
            train_epoch(learner, schedule, number)
    return seconds(learner.device) - started


if __name__ == "__main__":
    sys.exit(main())
