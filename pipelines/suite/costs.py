"""What the steps of a suite will cost: processor time, memory and disk, from the counts of ``work.py``.

Each cost is linear in the counts: a constant, and so much for each turn, megabyte or answer. The coefficients are in
``costs.json``, which ``python -m benchmarks.costs --write`` measures; times are scaled to this machine by a loop that
was timed there, too.
"""

from __future__ import annotations

import json
import os
import time
from argparse import Namespace
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import msgspec

from parapet.pipelines.suite.state import State
from parapet.pipelines.suite.steps import Graph
from parapet.pipelines.suite.work import Inputs, NotEstimated, Work, work_of
from parapet.pipelines.workers import AUTO

TABLE = Path(__file__).with_name("costs.json")
START = "start"  # the coefficient of every run
SUITE = "suite"  # the row of what a suite does besides its steps
CPU, MEMORY, WRITTEN = "cpu", "memory", "written"
_ROUND = 0.2  # seconds for which the loop is timed


class Table(msgspec.Struct, frozen=True):
    """The table of costs.

    Attributes:
      machine: on which it was measured.
      loop: seconds that one round of the loop took there.
      units: of each kind of cost.
      rows: of pipelines, to the kinds of costs, to coefficients: of the start, and of one of each count.
    """

    machine: str
    loop: float
    units: dict[str, str]
    rows: dict[str, dict[str, dict[str, float]]]


class StepCost(msgspec.Struct, frozen=True, kw_only=True):
    """An estimate for a step; None for what is not known.

    Attributes:
      cpu: seconds, of all its processes.
      memory: megabytes, the sum of the peaks of its processes.
      written: megabytes.
      counts: of what it has to do.
      reason: why something is not estimated, or where the numbers come from if not from counts.
    """

    cpu: float | None = None
    memory: float | None = None
    written: float | None = None
    counts: dict[str, float] = {}
    reason: str = ""


@cache
def read_table() -> Table:
    """The table that is installed."""
    return msgspec.json.decode(TABLE.read_bytes(), type=Table)


def estimate(
    graph: Graph, flags: Mapping[str, Namespace], stale: Sequence[str], state: State, folder: Path, speed: float = 1.0
) -> dict[str, StepCost]:
    """Estimates the cost of steps.

    Args:
      graph: of the suite.
      flags: of the steps that will run, and of those that score, as their commands parse them.
      stale: the steps that will run; what others have written is counted where it lies.
      state: of the suite's output.
      folder: where relative paths start.
      speed: how many times as long as in the table everything takes on this machine.
    """
    found = works(graph, flags, stale, state, folder)
    costs = {}
    for name in stale:
        work, record = found[name], state.records.get(name)
        cost = StepCost(reason=str(work)) if isinstance(work, NotEstimated) else cost_of(work, speed)
        cost = _with_workers(cost, getattr(flags[name], "workers", AUTO))
        if cost.cpu is None and record is not None and record.cpu:
            reason = f"as last time: {cost.reason}"
            cost = msgspec.structs.replace(cost, cpu=record.cpu, memory=record.memory, reason=reason)
        costs[name] = cost
    return costs


def works(
    graph: Graph, flags: Mapping[str, Namespace], stale: Collection[str], state: State, folder: Path
) -> dict[str, Work | NotEstimated]:
    """What steps have to do, or why nobody knows; see :func:`estimate`."""
    inputs = Inputs(folder, state.output, state.sets_of)
    found: dict[str, Work | NotEstimated] = {}
    for name, step in graph.steps.items():
        if name not in flags:
            continue
        try:
            work = found[name] = work_of(step, flags[name], inputs)
            # What lies there is counted, but for scores: they do not show how many turns were scored.
            if name in stale or step.pipeline == "evaluate":
                inputs.predicted[name] = work.output
        except NotEstimated as error:
            found[name] = error
            if name in stale:
                inputs.predicted[name] = None
    return found


def cost_of(work: Work, speed: float = 1.0) -> StepCost:
    """The cost of some work, by the table."""
    row = read_table().rows.get(work.row)
    reason = work.reason or ("" if row else f"{work.row} has not been measured")
    if row is None:
        return StepCost(counts=work.counts, reason=reason)
    known = {kind: predict(coefficients, work.counts) for kind, coefficients in row.items()}
    if reason:
        return StepCost(written=known[WRITTEN], counts=work.counts, reason=reason)
    return StepCost(
        cpu=known[CPU] * speed, memory=known[MEMORY], written=known[WRITTEN], counts=work.counts, reason=reason
    )


def _with_workers(cost: StepCost, workers: int | str) -> StepCost:
    """The cost with processes of its own, each of which starts anew; ``auto`` is none in a suite."""
    if cost.memory is None or not isinstance(workers, int) or workers < 2:
        return cost
    return msgspec.structs.replace(cost, memory=cost.memory + workers * read_table().rows[SUITE][MEMORY][START] / 2)


def predict(coefficients: Mapping[str, float], counts: Mapping[str, float]) -> float:
    """The start, and for each count so much as its coefficient says."""
    return coefficients.get(START, 0.0) + sum(coefficients.get(name, 0.0) * n for name, n in counts.items())


def total(costs: Iterable[float | None]) -> float:
    """The sum of what is known."""
    return sum(cost for cost in costs if cost is not None)


def peak(costs: Mapping[str, StepCost], jobs: int) -> float:
    """Megabytes of so many steps side by side, in the worst case: of those that need most, and of the suite itself."""
    largest = sorted((one.memory or 0.0 for one in costs.values()), reverse=True)
    return sum(largest[:jobs]) + predict(read_table().rows[SUITE][MEMORY], {})


def memory_of_machine() -> float | None:
    """Megabytes that this machine has, or that a container is allowed; None where nobody says."""
    sizes = []
    with suppress(ValueError, OSError):
        sizes.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # no such group, or "max"
            sizes.append(int(Path(path).read_text()))
    return min(sizes) / 1e6 if sizes else None


def speed_here() -> float:
    """How many times as long as on the table's machine a loop of typical work takes here."""
    return loop_seconds(_ROUND) / read_table().loop


def loop_seconds(budget: float, clock: Callable[[], float] = time.process_time) -> float:
    """Processor seconds of the quickest of the rounds of a loop that parses, looks up, joins and writes.

    Args:
      budget: seconds for all rounds.
      clock: in seconds.
    """
    turns = [
        {"speaker": "USER", "utterance": f"I need {i} seats at {i % 12} pm", "frames": [{"slot": i}]}
        for i in range(800)
    ]
    text = json.dumps(turns).encode()
    best, begun = float("inf"), clock()
    while best == float("inf") or clock() - begun < budget:
        start = clock()
        seen: dict[str, int] = {}
        for turn in msgspec.json.decode(text):
            for word in turn["utterance"].lower().split():
                seen[word] = seen.get(word, 0) + 1
            turn["utterance"] = " ".join(sorted(turn["utterance"].split(), key=len))
        msgspec.json.encode(turns)
        best = min(best, clock() - start)
    return best
