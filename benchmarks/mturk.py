"""Runs a large batch against the tests' fake MTurk with errors, and checks that nothing is lost or done twice.

    python -m benchmarks.mturk [--hits 2000] [--assignments 9] [--throttle 0.1] [--drop 0.02] [--folder bench-output]

The batch is published, answered, collected and paid. Prints seconds and peak memory of each command, each a process of
its own, and the server's counts. Runs from a checkout, as it needs ``tests``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "practice",
    "AWS_SECRET_ACCESS_KEY": "practice",
    "PARAPET_WORKER_KEY": "a key for benchmarks only",
}


def main() -> int:
    """Prints the table; returns 1 if something was lost or done twice."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--hits", type=int, default=2_000)
    flags.add_argument("--assignments", type=int, default=9)
    flags.add_argument("--throttle", default="0.1")
    flags.add_argument("--drop", default="0.02", help="of connections, half before and half after the call took effect")
    flags.add_argument("--parallel_calls", default="16")
    flags.add_argument("--folder", type=Path, default=Path("bench-output") / "mturk")
    args = flags.parse_args()
    shutil.rmtree(args.folder, ignore_errors=True)
    args.folder.mkdir(parents=True)
    schemas, hits, batch = (args.folder / name for name in ("schemas.json", "hits", "batch"))
    schemas.write_text(json.dumps(services(args.hits // 2)))
    audit, half = args.folder / "variants", float(args.drop) / 2
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    from fake_mturk import FakeMTurk, Faults, invented, play

    faults = Faults(throttle=float(args.throttle), drop_before=half, drop_after=half)
    with FakeMTurk(args.folder / "mturk", faults=faults, balance=Decimal(10_000_000)) as server:
        at = ("--batch", batch, "--parallel_calls", args.parallel_calls)
        parapet("hits", "--schemas", schemas, "--output", hits, "--assignments", args.assignments, "--quiet")
        parapet("mturk", "publish", "--hits", hits, *at, "--endpoint_url", server.url)
        play(server, invented(server, 0, 5_000))
        parapet("mturk", "collect", *at)
        parapet(
            "compose", "--schemas", schemas, "--responses", batch / "assignments.jsonl", "--output", audit, "--quiet"
        )
        parapet("mturk", "pay", *at, "--audit", audit)
        return judge(server.snapshot(), server.calls, batch, args.hits, args.hits * args.assignments)


def services(n: int) -> list[Any]:
    """Makes services with two intents and three slots each, copies of the sample's under other names."""
    from parapet.schemas.layout import sample_root

    sample = json.loads((sample_root() / "train" / "schema.json").read_bytes())
    found = []
    for i in range(n):
        service = json.loads(json.dumps(sample[i % len(sample)]))
        service["service_name"] = f"Bench{i}_1"
        service["slots"] = service["slots"][:3]
        names = {slot["name"] for slot in service["slots"]}
        service["intents"] = service["intents"][:2]
        for intent in service["intents"]:
            for key in ("required_slots", "result_slots"):
                intent[key] = [name for name in intent[key] if name in names]
            intent["optional_slots"] = {k: v for k, v in intent["optional_slots"].items() if k in names}
        found.append(service)
    return found


def parapet(*flags: object) -> None:
    """Runs a command and prints its duration and memory."""
    words = list(map(str, flags))
    command = [sys.executable, "-m", "parapet", *words]
    began = time.monotonic()
    process = subprocess.Popen(command, env={**os.environ, **ENVIRONMENT}, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    name = " ".join(words[:2] if words[0] == "mturk" else words[:1])
    peak = used.ru_maxrss / 1024
    print(
        f"{name:24} {time.monotonic() - began:8.1f} s  CPU {used.ru_utime + used.ru_stime:7.1f} s  {peak:6.0f} MB",
        flush=True,
    )
    # Made-up words compose no service: that is status 1, but the audit is written.
    if process.returncode and (words[0], process.returncode) != ("compose", 1):
        raise SystemExit(f"{' '.join(words)}: exit status {process.returncode}")


def judge(there: Any, calls: Any, batch: Path, hits: int, assignments: int) -> int:
    """Compares the server's state with what was requested and collected."""
    from parapet.transforms.crowd.mturk import collect as collected

    states = Counter(item["AssignmentStatus"] for item in there["assignments"].values())
    lines = collected.load(batch)
    print(f"HITs {len(there['hits']):,}, assignments {dict(states)}, collected {len(lines):,}")
    for operation, outcomes in calls.items():
        print(f"  {operation:32} {dict(outcomes)}")
    rewards = sum(
        (Decimal(there["hits"][item["HITId"]]["Reward"]) for item in there["assignments"].values()), Decimal(0)
    )
    print(f"rewards ${rewards:,.2f}, balance {there['balance']}")
    good = (
        len(there["hits"]) == hits
        and states == {"Approved": assignments}
        and {line["AssignmentId"] for line in lines} == set(there["assignments"])
        and len(lines) == assignments
    )
    print("nothing lost, nothing twice" if good else "SOMETHING WAS LOST OR DONE TWICE")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
