"""Times ``parapet restaurants``: dialogues per CPU second, and the growth of time and memory.

    python -m benchmarks.restaurants [--dialogues 10000] [--steps 2] [--growth 10] [--folder bench-output]

Each task runs by itself in one process, with this number of training dialogues; then all five tasks together, in the
published format only and also in the SGD layout, with this number of dialogues, then ``--growth`` times as many, and so
on: time should grow linearly, memory not at all. The times include the start of Python and Beam, which is also shown,
from a run over one dialogue of a task. CPU seconds are user and system time of the program and its children; memory is
the peak of the largest process. Before that, the rule-based bot answers 1,000 dialogues of each task; its ratio is
relative to reading the dialogues.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path

from benchmarks.measuring import measure
from parapet.pipelines.restaurants import check, parser
from parapet.transforms.simulators.babi_format import dialogue_text, parse_dialogues
from parapet.transforms.simulators.restaurants.bot import Rules, solve
from parapet.transforms.simulators.restaurants.simulating import lines_of
from parapet.transforms.simulators.restaurants.simulating import simulate as simulated

BOT_DIALOGUES = 1000


def main() -> int:
    """Prints the table."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--dialogues", type=int, default=10_000)
    flags.add_argument("--steps", type=int, default=2)
    flags.add_argument("--growth", type=int, default=10)
    flags.add_argument("--folder", type=Path, default=Path("bench-output"))
    args = flags.parse_args()
    out = args.folder / "restaurants"
    for task in (1, 2, 3, 4, 5):
        read, answered = bot(task)
        print(f"bot, task {task}: {BOT_DIALOGUES / answered:,.0f} dialogues/CPU s, ratio {answered / read:.1f}")
    start = simulate(out, "1", 1, "babi")[0]
    print(f"start of Python and Beam: {start:.1f} CPU s, taken off below")
    print(f"{'':26}{'dialogues':>11}{'CPU':>11}{'dialogues/CPU s':>17}{'ratio':>7}{'wall':>10}{'memory':>10}")

    def line(what: str, tasks: str, dialogues: int, formats: str, *more: str, before: float = 0.0) -> float:
        cpu, wall, memory = simulate(out, tasks, dialogues // len(tasks.split(",")), formats, *more)
        cpu -= start
        ratio = f"{cpu / before:7.1f}" if before else " " * 7
        rate = dialogues / cpu
        print(f"{what:26}{dialogues:11,}{cpu:9.1f} s{rate:17,.0f}{ratio}{wall:8.1f} s{memory:7.0f} MB", flush=True)
        return cpu

    for task in "12345":
        line(f"task {task}, both formats", task, args.dialogues, "babi,sgd")
    for what, formats in (("all, both formats", "babi,sgd"), ("all, published format", "babi")):
        before, dialogues = 0.0, args.dialogues
        for _ in range(args.steps):
            before = line(what, "1,2,3,4,5", dialogues, formats, before=before)
            dialogues *= args.growth
    print("ratio: CPU seconds against the line above")
    shutil.rmtree(out, ignore_errors=True)
    return 0


def bot(task: int) -> tuple[float, float]:
    """Measures CPU seconds to read the dialogues of a task, and to answer their turns: the quickest of three rounds."""
    config = check(parser().parse([f"--output={task}"])[0])
    world = config.world()
    dialogues = [simulated(world, task, "train", number) for number in range(BOT_DIALOGUES)]
    text = "".join(dialogue_text(lines_of(world, dialogue)) for dialogue in dialogues).encode()
    rounds = []
    for _ in range(3):
        rules = Rules(config.ontology)  # new, without caches of the previous round
        started = time.process_time()
        parsed = list(parse_dialogues(text))
        read = time.process_time() - started
        started = time.process_time()
        if not all(all(solve(rules, dialogue)) for dialogue in parsed):
            raise AssertionError(f"the bot does not solve task {task}")
        rounds.append((read, time.process_time() - started))
    return min(read for read, _ in rounds), min(answered for _, answered in rounds)


def simulate(out: Path, tasks: str, dialogues: int, formats: str, *more: str) -> tuple[float, float, float]:
    """Measures CPU seconds, seconds and peak megabytes of a run with this number of training dialogues of each task."""
    shutil.rmtree(out, ignore_errors=True)
    command = [sys.executable, "-m", "parapet", "restaurants", "--quiet", "--output", str(out), "--tasks", tasks]
    command += ["--sizes", f"train={dialogues},dev=0,test=0,oov=0", "--formats", formats, *more]
    return measure(command)[:3]


if __name__ == "__main__":
    sys.exit(main())
