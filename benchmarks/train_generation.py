"""Times the training of ft_t5 and pt_t5 against a bare PyTorch loop over the same model.

    python -m benchmarks.train_generation [--checkpoint DIR] [--turns 150] [--epochs 2] [--batch 16]

Turns are those of the bundled sample; without a checkpoint the T5 is a new one with random weights, two layers of 128.
The bare loop draws an order, takes its batches and steps, and does nothing else. See ``benchmarks.train`` for how it is
timed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import torch

from benchmarks.train import AIM, fastest, seconds
from evaluation.models.devices import DEVICES, device_of, seed_all
from evaluation.models.generation.data import Example, read_examples
from evaluation.models.generation.learning import CLIP, WARMUP, GenerationLearner, Settings
from evaluation.models.generation.saving import ARCHITECTURES, load_t5
from evaluation.models.training import Schedule, fit, train_epoch
from schemas.layout import sample_root
from transforms.checkpoints import inspect


def main() -> int:
    """Prints the table; gives 1 where an epoch is slower than the aim."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--checkpoint", type=Path)
    flags.add_argument("--turns", type=int, default=150)
    flags.add_argument("--epochs", type=int, default=2)
    flags.add_argument("--batch", type=int, default=16)
    flags.add_argument("--threads", type=int, default=1)
    flags.add_argument("--device", choices=DEVICES, default="auto")
    flags.add_argument("--folder", type=Path, default=Path("bench-output"))
    args = flags.parse_args()
    torch.set_num_threads(args.threads)
    device = device_of(args.device)
    rows = read_examples(str(sample_root()), "train").rows
    rows = (rows * (args.turns // len(rows) + 1))[: args.turns]
    checkpoint = args.checkpoint or random_t5(args.folder / "train_generation_t5", rows)
    print(f"{len(rows):,} turns, {args.epochs} epochs, batches of {args.batch}, {args.threads} threads, {device.type}")
    print(f"{'':12}{'bare loop':>12}{'epochs':>10}{'ratio':>7}{'all':>10}{'ratio':>7}  (turns a second)")
    slow = False
    for model in ("ft_t5", "pt_t5"):
        settings = Settings(
            model=model,
            max_input=256,
            max_output=128,
            prefix_length=10 if model == "pt_t5" else 0,
            prefix_size=512,
            batch=args.batch,
            rate=1e-3,
            epochs=args.epochs,
            patience=args.epochs,
            seed="0",
            threads=args.threads,
            device=device.type,
        )

        def learner(settings: Settings = settings) -> GenerationLearner:
            tokenizer, t5 = load_t5(inspect(str(checkpoint), ARCHITECTURES))
            return GenerationLearner(settings, tokenizer, t5, rows, rows[: max(1, len(rows) // 10)])

        ways = {
            "bare": lambda: bare(learner()),
            "epochs": lambda: ours(learner(), args.folder, whole=False),
            "all": lambda: ours(learner(), args.folder, whole=True),
        }
        best = fastest(ways)
        rates = {way: args.epochs * len(rows) / s for way, s in best.items()}
        ratio, with_all = rates["epochs"] / rates["bare"], rates["all"] / rates["bare"]
        print(
            f"{model:12}{rates['bare']:12,.1f}{rates['epochs']:10,.1f}{ratio:7.2f}{rates['all']:10,.1f}{with_all:7.2f}",
            flush=True,
        )
        slow |= ratio < AIM
    return int(slow)


def random_t5(folder: Path, rows: list[Example]) -> Path:
    """A T5 that has learned nothing, saved as real ones are."""
    sys.path.append(str(Path(__file__).parent.parent / "tests"))
    from tiny_t5 import save_t5

    shutil.rmtree(folder, ignore_errors=True)
    return save_t5(folder, [text for one in rows for text in (one.text, one.said)], size=128, layers=2, vocabulary=2000)


def bare(learner: GenerationLearner) -> float:
    """Trains as little as can be."""
    seed_all("0", "bare")
    turns = len(learner.train[0].lengths)
    started = seconds(learner.device)
    learner.module.train()
    for _ in range(learner.settings.epochs):
        for ids in torch.randperm(turns).split(learner.settings.batch):
            with torch.autocast(learner.device.type, torch.bfloat16, enabled=learner.device.type == "cuda"):
                loss = learner.loss(ids)
            learner.optimiser.zero_grad(set_to_none=True)
            loss.backward()
            learner.optimiser.step()
    return seconds(learner.device) - started


def ours(learner: GenerationLearner, folder: Path, whole: bool) -> float:
    """Trains as the command does; the epochs alone, or with dev and the state."""
    out = folder / "train_generation"
    shutil.rmtree(out, ignore_errors=True)
    settings = learner.settings
    schedule = Schedule(settings.epochs, settings.patience, settings.seed, WARMUP, True, CLIP)
    started = seconds(learner.device)
    if whole:
        fit(learner, schedule, str(out), {"benchmark": True})
    else:
        for number in range(1, settings.epochs + 1):
            train_epoch(learner, schedule, number)
    return seconds(learner.device) - started


if __name__ == "__main__":
    sys.exit(main())
