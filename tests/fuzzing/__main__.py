"""``make fuzz``: mutated records through every target for an hour, or as long as asked; findings become seeds.

Two processes at most. A target that hangs, dies or takes too much memory ends its process: the next goes on after it.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import json
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import beam_memo

from fuzzing import seeds
from fuzzing.running import Workshop
from fuzzing.targets import ALL, Target
from parapet.pipelines.dispatch import PIPELINES

MEMORY = 12 * 2**30  # bytes of addresses that a process may have; an eighth of it is used
STUCK = 15 * 60.0  # seconds of a round, with all that it takes to find the smallest record


def main() -> int:
    """Runs for the time that is asked for; 1 where anything was found."""
    parser = argparse.ArgumentParser(prog="python -m fuzzing", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", default="0", help="of the mutations: the same seed mutates in the same way")
    parser.add_argument("--processes", type=int, choices=(1, 2), default=2)
    parser.add_argument("--only", default="", help="targets whose names have this")
    parser.add_argument(
        "--records", type=int, default=10_000, help="of each command before any gets more than its share"
    )
    parser.add_argument("--log", type=Path, default=Path("build/fuzz"), help="folder of the log")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.log.mkdir(parents=True, exist_ok=True)
    if args.worker is not None:
        return work(args)
    return watch(args)


def targets_of(args: argparse.Namespace) -> list[Target]:
    """Those that are asked for; each process has its own."""
    chosen = [target for target in ALL if args.only in target.name]
    return chosen if args.worker is None else chosen[args.worker :: args.processes]


def watch(args: argparse.Namespace) -> int:
    """Starts the processes, and others in the place of those that die; at the end the table."""
    end = time.monotonic() + args.minutes * 60
    logs = [args.log / f"{worker}.jsonl" for worker in range(args.processes)]
    for log in logs:
        log.write_text("")
    running: dict[int, subprocess.Popen[bytes]] = {}
    finished: set[int] = set()
    while len(finished) < args.processes:
        for worker in {*range(args.processes)} - finished:
            if worker not in running:
                running[worker] = _start(args, worker, end)
            elif (status := running[worker].poll()) is not None:
                del running[worker]
                if status == 0 or time.monotonic() > end:
                    finished.add(worker)
                else:
                    _died(logs[worker], args.log / f"{worker}.stacks", status)
        time.sleep(1)
    entries = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
    print(table(entries))
    found = [one for entry in entries for one in entry.get("found", ())]
    return 1 if found else 0


def _start(args: argparse.Namespace, worker: int, end: float) -> subprocess.Popen[bytes]:
    left = max(0.0, end - time.monotonic()) / 60
    flags = [f"--minutes={left}", f"--seed={args.seed}", f"--processes={args.processes}", f"--only={args.only}"]
    argv = [
        sys.executable,
        "-m",
        "fuzzing",
        *flags,
        f"--records={args.records}",
        f"--log={args.log}",
        f"--worker={worker}",
    ]
    return subprocess.Popen(argv)


def _died(log: Path, stacks: Path, status: int) -> None:
    """A process that was ended by what it ran: that is a finding."""
    started = json.loads(log.read_text().splitlines()[-1])
    stack = stacks.read_text()[-3_000:] if stacks.is_file() else ""
    found = {"target": started["target"], "kind": f"the process ended with status {status}", "details": stack}
    with log.open("a") as handle:
        print(json.dumps({**started, "records": 0, "seconds": 0.0, "found": [found]}), file=handle)
    print(f"FOUND {found['target']}: {found['kind']} in round {started['round']}\n{stack}", flush=True)


def work(args: argparse.Namespace) -> int:
    """Rounds of the targets of one process: those of the command that has had the fewest records go first."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    beam_memo.install()
    gc.set_threshold(50_000, 20, 100)
    os.environ["PARAPET_WORKER_KEY"] = "a worker key for fuzzing only"
    log = args.log / f"{args.worker}.jsonl"
    before = [json.loads(line) for line in log.read_text().splitlines()]
    rounds = Counter(entry["target"] for entry in before if "started" in entry)
    records, seconds = Counter[str](), Counter[str]()
    known: set[str] = {one["key"] for entry in before for one in entry.get("found", ()) if "key" in one}
    for entry in before:
        records[entry["target"].split()[0]] += entry.get("records", 0)
        seconds[entry["target"]] += entry.get("seconds", 0.0)
    end = time.monotonic() + args.minutes * 60
    workshop = Workshop()
    every = targets_of(args)
    with log.open("a", buffering=1) as handle, (args.log / f"{args.worker}.stacks").open("w") as stacks:
        while time.monotonic() < end and every:
            target = chosen(every, records, seconds, args.records)
            number = rounds[target.name]
            rounds[target.name] += 1
            print(json.dumps({"target": target.name, "round": number, "started": True}), file=handle)
            faulthandler.dump_traceback_later(STUCK, exit=True, file=stacks)
            began = time.process_time()
            n, found = target.round(workshop, Random(f"{args.seed}:{target.name}:{number}"), known)
            faulthandler.cancel_dump_traceback_later()
            took = time.process_time() - began
            records[target.command] += n
            seconds[target.name] += took
            shown: list[dict[str, Any]] = []
            for one in found:
                path = seeds.write(one)
                shown.append(
                    {"target": one.target, "kind": one.finding.kind, "seed": path.name, "details": one.finding.details}
                )
                print(f"FOUND {one.target}: {one.finding.kind}\n  {one.finding.details[-1_500:]}\n  {path}", flush=True)
            print(
                json.dumps({"target": target.name, "round": number, "records": n, "seconds": took, "found": shown}),
                file=handle,
            )
    workshop.close()
    return 0


def chosen(every: Sequence[Target], records: Counter[str], seconds: Counter[str], enough: int) -> Target:
    """The target whose turn it is.

    Nine tenths of the time belong to pipelines that have had too few records, in equal parts; then all are alike.
    """
    few = [target for target in every if target.command in PIPELINES and records[target.command] < enough]
    others = [target for target in every if target.command not in PIPELINES]
    of_command = Counter[str]()
    for target in every:
        of_command[target.command if target in few else ""] += seconds[target.name]
    if few and others and sum(of_command.values()) > 10 * sum(seconds[target.name] for target in others):
        few = others
    return min(few or every, key=lambda one: (of_command[one.command] if few else 0, seconds[one.name], one.name))


def table(entries: list[dict[str, Any]]) -> str:
    """Target, rounds, records, seconds, findings: what was done."""
    rows: dict[str, list[float]] = {}
    for entry in entries:
        if "records" in entry:
            row = rows.setdefault(entry["target"], [0, 0, 0.0, 0])
            for i, n in enumerate((1, entry["records"], entry["seconds"], len(entry["found"]))):
                row[i] += n
    lines = ["| target | rounds | records | CPU seconds | findings |", "|---|---|---|---|---|"]
    for name, (rounds, records, seconds, found) in sorted(rows.items()):
        lines.append(f"| {name} | {rounds:,} | {records:,} | {seconds:,.0f} | {found} |")
    total = [sum(row[i] for row in rows.values()) for i in range(4)]
    lines.append(f"| all | {total[0]:,} | {total[1]:,} | {total[2]:,.0f} | {total[3]} |")
    commands = Counter[str]()
    for name, row in rows.items():
        commands[name.split()[0]] += int(row[1])
    few = ", ".join(f"{name} {n:,}" for name, n in sorted(commands.items(), key=lambda pair: pair[1]))
    return "\n".join([*lines, "", f"records by command: {few}"])


if __name__ == "__main__":
    sys.exit(main())
