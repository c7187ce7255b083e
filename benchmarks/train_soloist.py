"""Times the training of soloist against a bare PyTorch loop over the same model.

    python -m benchmarks.train_soloist [--sgd ROOT] [--checkpoint DIR] [--epochs 2] [--batch 8] [--folder bench-output]

Turns are those of the bundled sample, or of a corpus; without a checkpoint the GPT-2 is a new one with random weights,
two layers of 128. The bare loop has the token ids ready too; it draws an order, pads its batches, and has the loss that
the model of transformers computes of its labels. See ``benchmarks.train`` for how it is timed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import torch
from torch.nn.utils.rnn import pad_sequence

from benchmarks.train import AIM, fastest, seconds
from evaluation.models.devices import DEVICES, device_of, seed_all
from evaluation.models.soloist.data import Step, read_source, steps_of
from evaluation.models.soloist.learning import CLIP, Settings, SoloistLearner
from evaluation.models.soloist.saving import KINDS
from evaluation.models.training import Schedule, fit, train_epoch
from schemas.layout import sample_root
from transforms.checkpoints import inspect


def main() -> int:
    """Prints the table; gives 1 where an epoch is slower than the aim."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--sgd", type=Path, default=sample_root())
    flags.add_argument("--checkpoint", type=Path)
    flags.add_argument("--epochs", type=int, default=2)
    flags.add_argument("--batch", type=int, default=8)
    flags.add_argument("--threads", type=int, default=1)
    flags.add_argument("--device", choices=DEVICES, default="auto")
    flags.add_argument("--folder", type=Path, default=Path("bench-output"))
    args = flags.parse_args()
    torch.set_num_threads(args.threads)
    device = device_of(args.device)
    source = read_source(str(args.sgd), "train")
    steps = [step for one in source.dialogues for step in steps_of(one, source.database)]
    checkpoint = args.checkpoint or random_gpt2(args.folder / "train_soloist_gpt2", steps)
    print(f"{len(steps):,} turns, {args.epochs} epochs, batches of {args.batch}, {args.threads} threads, {device.type}")
    print(f"{'':12}{'bare loop':>12}{'epochs':>10}{'ratio':>7}{'all':>10}{'ratio':>7}  (turns a second)")
    settings = Settings(
        checkpoint=inspect(str(checkpoint), KINDS),
        length=512,
        consistency=0.0,
        batch=args.batch,
        rate=1e-3,
        warmup=0.05,
        epochs=args.epochs,
        patience=args.epochs,
        seed="0",
        threads=args.threads,
        device=device.type,
    )

    def learner() -> SoloistLearner:
        return SoloistLearner(settings, steps, steps[: max(1, len(steps) // 10)])

    ways = {
        "bare": lambda: bare(learner()),
        "epochs": lambda: ours(learner(), args.folder, whole=False),
        "all": lambda: ours(learner(), args.folder, whole=True),
    }
    best = fastest(ways)
    rates = {way: args.epochs * len(steps) / s for way, s in best.items()}
    ratio, with_all = rates["epochs"] / rates["bare"], rates["all"] / rates["bare"]
    print(
        f"{'soloist':12}{rates['bare']:12,.1f}{rates['epochs']:10,.1f}{ratio:7.2f}{rates['all']:10,.1f}{with_all:7.2f}"
    )
    return int(ratio < AIM)


def random_gpt2(folder: Path, steps: list[Step]) -> Path:
    """A GPT-2 that has learned nothing, saved as real ones are."""
    sys.path.append(str(Path(__file__).parent.parent / "tests"))
    from tiny_gpt2 import save_gpt2

    shutil.rmtree(folder, ignore_errors=True)
    texts = [text for step in steps for _, text in (step.history[-1], *step.belief)]
    texts += [step.response for step in steps if step.response]
    return save_gpt2(folder, texts, size=128, layers=2, positions=1024, vocabulary=2000)


def bare(learner: SoloistLearner) -> float:
    """Trains as little as can be."""
    seed_all("0", "bare")
    rows, train = learner.train.rows, learner.train
    tokens = [one.long() for one in rows.flat.split(rows.lengths.tolist())]
    labels = []
    for row, belief, database, response in zip(
        tokens, train.belief.tolist(), train.database.tolist(), train.response.tolist(), strict=True
    ):
        label = torch.full_like(row, -100)
        label[belief:database], label[response:] = row[belief:database], row[response:]
        labels.append(label)
    started = seconds(learner.device)
    learner.module.train()
    for _ in range(learner.settings.epochs):
        for ids in torch.randperm(len(tokens)).split(learner.settings.batch):
            batch = pad_sequence([tokens[i] for i in ids.tolist()], batch_first=True).to(learner.device)
            mask = pad_sequence([torch.ones_like(tokens[i]) for i in ids.tolist()], batch_first=True)
            wanted = pad_sequence([labels[i] for i in ids.tolist()], batch_first=True, padding_value=-100)
            with torch.autocast(learner.device.type, torch.bfloat16, enabled=learner.device.type == "cuda"):
                loss = learner.module.model(
                    input_ids=batch, attention_mask=mask.to(learner.device), labels=wanted.to(learner.device)
                ).loss
            learner.optimiser.zero_grad(set_to_none=True)
            loss.backward()
            learner.optimiser.step()
    return seconds(learner.device) - started


def ours(learner: SoloistLearner, folder: Path, whole: bool) -> float:
    """Trains as the command does; the epochs alone, or with dev and the state."""
    out = folder / "train_soloist"
    shutil.rmtree(out, ignore_errors=True)
    settings = learner.settings
    schedule = Schedule(settings.epochs, settings.patience, settings.seed, settings.warmup, True, CLIP)
    started = seconds(learner.device)
    if whole:
        fit(learner, schedule, str(out), {"benchmark": True})
    else:
        for number in range(1, settings.epochs + 1):
            train_epoch(learner, schedule, number)
    return seconds(learner.device) - started


if __name__ == "__main__":
    sys.exit(main())
