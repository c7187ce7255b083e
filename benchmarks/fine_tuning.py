"""What the benchmarks of trackers that fine-tune a checkpoint share: flags, the sample's frames, two loops, a table.

The bare loop draws an order, takes its batches, padded to their longest, and steps, and does nothing else. Ours is
timed in its epochs alone. In rounds, one after the other, so that what else the machine does hits both alike; the best
of each counts. Seconds are CPU seconds, of all threads. On a GPU they are those on the clock.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from evaluation.models.devices import DEVICES, device_of, seed_all
from evaluation.models.dst.data import Labelled, read_labels
from evaluation.models.training import Learner, Schedule, train_epoch
from schemas.layout import sample_root

ROUNDS = 3
AIM = 0.9

# The tiny random checkpoints are those of the tests.
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))


class Tracker(Protocol):
    """A model ready to predict."""

    def predict(self, batch: Sequence[Any]) -> Sequence[Any]:
        """The state of each example."""


def flags_of(told: str | None, batch: int) -> argparse.Namespace:
    """Parses the command line; ``device`` becomes the name of one."""
    flags = argparse.ArgumentParser(description=told, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--checkpoint", help="a folder (default: a tiny random one)")
    flags.add_argument("--corpus", default=str(sample_root()))
    flags.add_argument("--frames", type=int, default=200, help="the first so many of the training set")
    flags.add_argument("--batch_size", type=int, default=batch)
    flags.add_argument("--threads", type=int, default=1)
    flags.add_argument("--device", choices=DEVICES, default="auto")
    flags.add_argument("--folder", type=Path, default=Path("bench-output"))
    args = flags.parse_args()
    torch.set_num_threads(args.threads)
    args.device = device_of(args.device).type
    return args


def frames_of(args: argparse.Namespace) -> tuple[list[Labelled], list[str]]:
    """The frames, and all that is said in them and their schemas: for a tokenizer."""
    frames = read_labels(args.corpus, "train").frames[: args.frames]
    said = [utterance for one in frames for _, utterance in one.asked.history[-2:]]
    told = [f"{slot.name} {slot.description}" for one in frames for slot in one.asked.service.slots]
    return frames, [*said, *told]


def seconds(device: str) -> float:
    """CPU seconds so far; with a GPU, those on the clock when it is done."""
    if device == "cuda":
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()


def compare(make: Callable[[], tuple[Learner, Tracker]], orders: Callable[[Learner], list[Tensor]], args: Any) -> int:
    """Prints the table; gives 1 where an epoch is slower than the aim.

    Args:
      make: a learner with new weights, and the tracker that it trains.
      orders: the batches of the bare loop, in a random order.
      args: the flags.
    """
    frames, _ = frames_of(args)
    best = {"bare": float("inf"), "ours": float("inf")}
    rows = 0
    for _ in range(ROUNDS):
        learner, _ = make()
        seed_all("0", "bare")
        started = seconds(args.device)
        rows = bare(learner, orders(learner), args.device)
        best["bare"] = min(best["bare"], seconds(args.device) - started)
        learner, tracker = make()
        started = seconds(args.device)
        train_epoch(learner, Schedule(1, 1, "0"), 1)
        best["ours"] = min(best["ours"], seconds(args.device) - started)
    learner.module.eval()
    started = seconds(args.device)
    tracker.predict([one.asked for one in frames])
    predicted = len(frames) / (seconds(args.device) - started)
    rates = {way: rows / spent for way, spent in best.items()}
    ratio = rates["ours"] / rates["bare"]
    print(
        f"{len(frames):,} frames, {rows:,} inputs, batches of {args.batch_size}, {args.threads} threads, {args.device}"
    )
    print(f"inputs a second: bare loop {rates['bare']:,.0f}, ours {rates['ours']:,.0f}, ratio {ratio:.2f}")
    print(f"prediction: {predicted:,.1f} frames a second")
    return int(ratio < AIM)


def bare(learner: Learner, batches: Sequence[Tensor], device: str) -> int:
    """Trains as little as can be; gives how many inputs there were."""
    learner.module.train()
    for ids in batches:
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            loss = learner.loss(ids)
        learner.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        learner.optimiser.step()
    return sum(map(len, batches))
