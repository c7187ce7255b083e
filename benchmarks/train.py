"""Times the training of the bAbI models against a bare PyTorch loop over the same model.

    python -m benchmarks.train [--dialogues 1000] [--task 1] [--epochs 3] [--threads 1] [--folder bench-output]

Dialogues are those of the simulator. The bare loop draws an order, takes its batches and steps, and does nothing else.
Ours is timed twice: the epochs alone, and all that a training does, with dev after each epoch and the state written. In
rounds, one after the other, so that what else the machine does hits all alike; the best of each counts. Seconds are CPU
seconds, of all threads. On a GPU they are those on the clock.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from evaluation.models.babi.data import Corpus, types_of
from evaluation.models.babi.learning import BabiLearner, Settings
from evaluation.models.devices import DEVICES, device_of, seed_all
from evaluation.models.training import Schedule, fit, train_epoch
from transforms.babi.reading import BabiDialogue, Exchange
from transforms.restaurants.ontology import default_ontology
from transforms.restaurants.published import lines_of
from transforms.restaurants.simulating import simulate
from transforms.restaurants.world import World, candidates, knowledge_base

ROUNDS = 3
AIM = 0.9


def main() -> int:
    """Prints the table; gives 1 where an epoch is slower than the aim."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--dialogues", type=int, default=1000)
    flags.add_argument("--task", type=int, default=1)
    flags.add_argument("--epochs", type=int, default=3)
    flags.add_argument("--threads", type=int, default=1)
    flags.add_argument("--device", choices=DEVICES, default="auto")
    flags.add_argument("--folder", type=Path, default=Path("bench-output"))
    args = flags.parse_args()
    torch.set_num_threads(args.threads)
    device = device_of(args.device)
    print(
        f"task {args.task}, {args.dialogues:,} dialogues, {args.epochs} epochs, {args.threads} threads, {device.type}"
    )
    print(f"{'':28}{'bare loop':>12}{'epochs':>10}{'ratio':>7}{'all':>10}{'ratio':>7}  (examples a second)")
    slow = False
    for model, match in (("memn2n", False), ("memn2n", True), ("embeddings", False)):
        corpus = made(args.task, args.dialogues, match)
        settings = Settings(
            model=model,
            net={"size": 128} | ({"hops": 1, "memory": 256} if model == "memn2n" else {}),
            batch=32,
            rate=0.003,
            margin=1.0,
            negatives=1000 if model == "embeddings" else 0,
            epochs=args.epochs,
            patience=args.epochs,
            seed="0",
            threads=args.threads,
            device=device.type,
        )
        ways = {
            "bare": lambda s=settings, c=corpus: bare(BabiLearner(s, c), s),
            "epochs": lambda s=settings, c=corpus: ours(BabiLearner(s, c), s, args.folder, whole=False),
            "all": lambda s=settings, c=corpus: ours(BabiLearner(s, c), s, args.folder, whole=True),
        }
        best = fastest(ways)
        rates = {way: args.epochs * sum(len(one.exchanges) for one in corpus.train) / s for way, s in best.items()}
        ratio, with_all = rates["epochs"] / rates["bare"], rates["all"] / rates["bare"]
        name = f"{model}{', match types' if match else ''}"
        print(
            f"{name:28}{rates['bare']:12,.0f}{rates['epochs']:10,.0f}{ratio:7.2f}{rates['all']:10,.0f}{with_all:7.2f}",
            flush=True,
        )
        slow |= ratio < AIM
    return int(slow)


def made(task: int, dialogues: int, match: bool) -> Corpus:
    """Dialogues of the simulator."""
    world = World(default_ontology(), "0", 3)
    train, dev = (
        [BabiDialogue(tuple(lines_of(world, simulate(world, task, split, i)))) for i in range(n)]
        for split, n in (("train", dialogues), ("dev", max(1, dialogues // 10)))
    )
    dev.append(
        BabiDialogue((Exchange("hello", "what is none of the candidates"),))
    )  # or dev is soon perfect, and ends it
    knowledge = types_of(knowledge_base(world)) if match else {}
    return Corpus(train, dev, candidates(world), knowledge, str(task))


def fastest(ways: dict[str, Callable[[], float]]) -> dict[str, float]:
    """The least seconds of each way, of several rounds."""
    found = dict.fromkeys(ways, float("inf"))
    for _ in range(ROUNDS):
        for name, way in ways.items():
            found[name] = min(found[name], way())
    return found


def seconds(device: torch.device) -> float:
    """CPU seconds so far; with a GPU, those on the clock when it is done."""
    if device.type == "cuda":
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()


def bare(learner: BabiLearner, settings: Settings) -> float:
    """Trains as little as can be."""
    seed_all("0", "bare")
    turns = len(learner.train.now)
    started = seconds(learner.device)
    learner.module.train()
    for _ in range(settings.epochs):
        for ids in torch.randperm(turns).to(learner.device).split(settings.batch):
            with torch.autocast(learner.device.type, torch.bfloat16, enabled=learner.device.type == "cuda"):
                loss = learner.loss(ids)
            learner.optimiser.zero_grad(set_to_none=True)
            loss.backward()
            learner.optimiser.step()
    return seconds(learner.device) - started


def ours(learner: BabiLearner, settings: Settings, folder: Path, whole: bool) -> float:
    """Trains as the command does; the epochs alone, or with dev and the state."""
    out = folder / "train"
    shutil.rmtree(out, ignore_errors=True)
    schedule = Schedule(settings.epochs, settings.patience, settings.seed)
    started = seconds(learner.device)
    if whole:
        fit(learner, schedule, str(out), {"benchmark": True})
    else:
        for number in range(1, settings.epochs + 1):
            train_epoch(learner, schedule, number)
    return seconds(learner.device) - started


if __name__ == "__main__":
    sys.exit(main())
