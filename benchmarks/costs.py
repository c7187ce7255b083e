"""Measures what each pipeline costs, for the estimates of ``parapet suite --dry_run``; checks these estimates.

    python -m benchmarks.costs --write [--folder bench-output]    # some minutes: measures, writes the table of costs
    python -m benchmarks.costs --check [--folder bench-output]    # some minutes: estimates, then measures

Suites with all pipelines run on corpora of several sizes, one step at a time. ``--write`` fits a non-negative linear
function of what each step had to do, such as turns and megabytes, to the CPU seconds, the memory and the bytes
written: least squares of relative errors. ``--check`` takes other corpora: other sizes and seeds, more services, other
options; where PARAPET_DATA is set, SGD itself. It prints how many times as much was measured as had been estimated,
and ends with status 1 where that is beyond a factor of 1.5, in either direction.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import corpus, growth
from benchmarks.measuring import Cost, measure
from parapet.pipelines.suite import costs
from parapet.pipelines.suite.graph import make_graph
from parapet.pipelines.suite.options import lacks, parsed
from parapet.pipelines.suite.state import State
from parapet.pipelines.suite.suite_file import read_suite
from parapet.pipelines.suite.work import NotEstimated

_ANSWERS, _SERVICES = 1420, 6  # of the sample
MOST = 1.5  # how far an estimate may be from what is measured, as a factor
_DIALOGUES = "MB written"  # the count of them
KINDS = (costs.CPU, costs.MEMORY, costs.WRITTEN)
_LEAST = {costs.CPU: 0.1, costs.MEMORY: 10.0, costs.WRITTEN: 0.1}  # below that nobody minds a wrong estimate


class Size(NamedTuple):
    """How large the inputs of a suite are, and in which options it differs.

    Attributes:
      name: of the suite.
      dialogues: of train and of test; dev has a tenth.
      services: copies of each of the sample's.
      answers: copies of the services that the crowd paraphrases, and of each of its workers.
      heard: dialogues that are spoken.
      simulated: dialogues of each simulation.
      variants: of the schemas.
      env: shares of varied turns.
      rates: of turns out of domain.
      released: whether there is a release of all.
      scored: whether the system is scored on all sets, or on one.
      seed: of the corpus.
      sgd: a corpus with variants to take instead.
    """

    name: str
    dialogues: int
    services: int
    answers: tuple[int, int]
    heard: int
    simulated: int
    variants: int
    env: str
    rates: str
    released: bool
    scored: bool
    seed: str = "0"
    sgd: Path | None = None


FITTED = (
    Size("small", 64, 1, (1, 1), 1, 50, 5, "[0.1, 0.5, 0.8]", "[0.1, 0.2]", True, True),
    Size("middle", 500, 1, (1, 8), 4, 200, 1, "[0.5]", "[0.1]", False, False),
    Size("wide", 250, 8, (8, 1), 5, 100, 3, "[0.1, 0.5]", "[0.05, 0.1, 0.2]", True, True),
    Size("large", 2000, 2, (8, 4), 20, 1000, 5, "[0.1, 0.5, 0.8]", "[0.1, 0.2]", True, False),
)
HELD_OUT = (
    Size("a", 150, 3, (3, 2), 3, 80, 2, "[0.2, 0.6]", "[0.1]", True, True, "1"),
    Size("b", 800, 1, (2, 6), 5, 400, 4, "[0.3]", "[0.05, 0.15]", True, True, "2"),
    Size("c", 3000, 4, (12, 5), 10, 1500, 3, "[0.1, 0.3]", "[0.1, 0.3]", False, False, "3"),
)


class Measured(NamedTuple):
    """A step: what it had to do, what that was estimated to cost, and what it did cost."""

    suite: str
    step: str
    row: str
    counts: dict[str, float]
    estimated: dict[str, float]
    measured: dict[str, float]


def main() -> int:
    """Writes the table, or prints the check; gives 1 where an estimate is too far from what is measured."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = flags.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", action="store_true", help="write the table that the estimates are computed from")
    what.add_argument("--check", action="store_true", help="compare the estimates with what is measured")
    flags.add_argument("--folder", type=Path, default=Path("bench-output"))
    flags.add_argument("--keep", action="store_true", help="keep what the suites write")
    args = flags.parse_args()
    root = (args.folder / "costs").absolute()
    sizes = FITTED if args.write else held_out()
    found = [one for size in sizes for one in run(size, root, args.keep)]
    if args.check:
        return check(found)
    table = fitted(found)
    costs.TABLE.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    costs.read_table.cache_clear()
    estimated = [one._replace(estimated=_estimated(one.row, one.counts)) for one in found if one.row in table["rows"]]
    return check(estimated)


def held_out() -> list[Size]:
    """The suites of the check."""
    data = os.environ.get("PARAPET_DATA")
    if not data:
        return list(HELD_OUT)
    return [*HELD_OUT, HELD_OUT[1]._replace(name="sgd", sgd=Path(data) / "sgd", variants=5, rates="[0.05]")]


def run(size: Size, root: Path, keep: bool) -> list[Measured]:
    """Runs a suite of a size; estimates its steps before, and counts what they had to do after."""
    folder = root / size.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    file, output = folder / "suite.toml", folder / "out"
    file.write_text(_suite(size, folder), encoding="utf-8")
    suite = read_suite(str(file), [])
    state = State(output)
    graph = make_graph(suite, state.sets_of, lacks)
    flags = {name: parsed(step, output) for name, step in graph.steps.items()}
    speed = costs.speed_here()
    estimates = costs.estimate(graph, flags, list(graph.steps), state, suite.folder, speed)
    began = time.monotonic()
    command = [sys.executable, "-m", "parapet", "suite", str(file), "--output", str(output), "--jobs", "1", "--quiet"]
    own = None
    with suppress(subprocess.CalledProcessError):  # it has said why, and the other steps are done
        own = measure(command).cpu + _start().cpu
    print(f"{size.name}: {len(graph.steps)} steps in {time.monotonic() - began:.0f} s, speed {speed:.2f}", flush=True)
    state = State(output)  # read again: it has what the steps have used
    works = costs.works(graph, flags, [], state, suite.folder)
    rows = []
    for name in graph.steps:
        work, record, estimate = works[name], state.records.get(name), estimates[name]
        if record is None or not record.output:
            print(f"{size.name}: {name} was not measured, because it failed, or what it needs", file=sys.stderr)
            continue
        if isinstance(work, NotEstimated) or work.reason:
            continue
        known = {kind: getattr(estimate, kind) or 0.0 for kind in KINDS}
        real = {costs.CPU: record.cpu, costs.MEMORY: record.memory, costs.WRITTEN: _megabytes(output / name)}
        rows.append(Measured(size.name, name, work.row, work.counts, known, real))
    if own is not None:
        counts = {_DIALOGUES: sum(one.measured[costs.WRITTEN] for one in rows)}
        known = _estimated(costs.SUITE, counts, speed)
        rows.append(Measured(size.name, "the suite itself", costs.SUITE, counts, known, {costs.CPU: own}))
    if not keep:
        shutil.rmtree(folder)
    return rows


def _estimated(row: str, counts: Mapping[str, float], speed: float = 1.0) -> dict[str, float]:
    known = costs.read_table().rows.get(row, {})
    found = {kind: costs.predict(coefficients, counts) for kind, coefficients in known.items()}
    return {kind: cost * (speed if kind == costs.CPU else 1) for kind, cost in found.items()}


def _megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def fitted(found: Sequence[Measured]) -> dict[str, Any]:
    """The table: for each pipeline the coefficients of its counts."""
    rows = {}
    for row in sorted({one.row for one in found}):
        those = [one for one in found if one.row == row]
        kinds = [kind for kind in KINDS if kind in those[0].measured]
        rows[row] = {kind: _fit([(_counts(one, kind), one.measured[kind]) for one in those]) for kind in kinds}
    rows.setdefault(costs.SUITE, {costs.CPU: {costs.START: _rounded(_start().cpu)}})
    rows[costs.SUITE] |= {costs.MEMORY: {costs.START: _rounded(_start().memory)}, costs.WRITTEN: {}}
    units = {costs.CPU: "seconds, user and system", costs.MEMORY: "MB, the sum of the peaks of all processes"}
    return {
        "machine": f"{_processor()}, Python {platform.python_version()}",
        "loop": _rounded(costs.loop_seconds(2.0)),
        "units": {**units, costs.WRITTEN: "MB"},
        "rows": rows,
    }


def _counts(one: Measured, kind: str) -> dict[str, float]:
    """The counts that a cost may depend on. What is written is in proportion to the dialogues that are written."""
    known = _DIALOGUES in one.counts and kind == costs.WRITTEN
    return {_DIALOGUES: one.counts[_DIALOGUES]} if known else one.counts


def _fit(points: Sequence[tuple[Mapping[str, float], float]]) -> dict[str, float]:
    """Coefficients that are not negative, by least squares of relative errors."""
    import numpy as np
    from scipy.optimize import nnls

    names = [costs.START, *sorted({name for counts, _ in points for name in counts})]
    weights = np.array([1 / max(cost, 1e-6) for _, cost in points])
    counts = np.array([[1.0, *(counts.get(name, 0.0) for name in names[1:])] for counts, _ in points])
    scales = np.maximum(counts.max(axis=0), 1e-9)
    found, _ = nnls(counts / scales * weights[:, None], np.ones(len(points)))
    return {name: _rounded(one / scale) for name, one, scale in zip(names, found, scales, strict=True) if one > 0}


@cache
def _start() -> Cost:
    """The process that imports Beam, from which the steps are forked; the memory is that of the suite's own, too."""
    server = measure([sys.executable, "-c", "import parapet.pipelines.suite.preloaded"])
    suite = measure([sys.executable, "-m", "parapet", "suite", "sample", "--dry_run"])
    return server._replace(memory=server.memory + suite.memory)


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    names = (
        [line.partition(":")[2].strip() for line in path.read_text().splitlines() if line.startswith("model name")]
        if path.exists()
        else []
    )
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"


def _rounded(number: float) -> float:
    return float(f"{number:.4g}")


def check(found: Sequence[Measured]) -> int:
    """Prints by how much the measured costs differ from the estimates; gives 1 where one is too far away."""
    print(f"{'':14}{'':26}" + "".join(f"{kind:>12}{'estimate':>10}{'ratio':>7}" for kind in KINDS))
    far = []
    for one in sorted(found, key=lambda one: (one.row, one.measured[costs.CPU])):
        cells = ""
        for kind in KINDS:
            if kind not in one.measured:
                continue
            real, estimate = one.measured[kind], one.estimated.get(kind, 0.0)
            ratio = max(real, _LEAST[kind]) / max(estimate, _LEAST[kind])
            mark = "*" if not 1 / MOST <= ratio <= MOST else " "
            cells += f"{real:>12.2f}{estimate:>10.2f}{ratio:>6.2f}{mark}"
            if mark == "*":
                far.append((one, kind, ratio))
        print(f"{one.suite:14}{one.step:26}{cells}")
    within = len(found) - len({(one.suite, one.step) for one, _, _ in far})
    print(f"{within} of {len(found)} steps within a factor of {MOST} in CPU, memory and bytes")
    return 1 if far else 0


def _suite(size: Size, folder: Path) -> str:
    """The suite of a size, whose inputs are made beside it."""
    sgd, variants, heard = folder / "corpus", folder / "variants", folder / "heard"
    if size.sgd is None:
        numbers = {"train": size.dialogues, "dev": size.dialogues // 10, "test": size.dialogues}
        growth.make_corpus(sgd, numbers, size.services, size.seed)
        growth.make_variants(sgd, variants, size.variants)
    else:
        sgd, variants = size.sgd, size.sgd / "sgd_x" / "data"
    split = "test" if (sgd / "test").is_dir() else "dev"
    growth.make_corpus(heard, {"train": 40, "test": size.heard}, 1, size.seed)
    copies, workers = size.answers
    schemas, (names, descriptions) = corpus.make(folder / "crowd", _ANSWERS * copies * workers, _SERVICES * copies)
    growth.make_rewritings(folder / "rewrites.csv", workers)
    growth.make_chats(folder / "chats.jsonl", size.simulated)
    env, rates = size.env, size.rates
    release = '[release]\nname = "costs"\nversion = "1.0.0"\n' if size.released else ""
    of_sets = f'splits = ["{split}"]'
    train = f'train_split = "train"\ntest_split = "{split}"'
    return f"""
title = "Costs of {size.name}"
[corpus]
sgd = "{sgd}"
{of_sets}
[variants]
path = "{variants}"
[[sets]]
perturbation = "typos"
env = {env}
[[sets]]
perturbation = "verbose"
env = {env}
[[sets]]
perturbation = "simple"
env = {env}
[[sets]]
perturbation = "unseen_entities"
[[sets]]
perturbation = "ood"
rates = {rates}
max_bad = "50%"
[[systems]]
name = "Keywords"
model = "parapet.evaluation.dst.baseline:Keywords"
{"" if size.scored else 'sets = { typos = "@sets/typos/typos" }'}
[[steps]]
name = "evaluate"
pipeline = "evaluate dst"
reference = "@corpus"
split = "{split}"
predictions = "@corpus"
[[steps]]
name = "generated"
pipeline = "evaluate generation"
reference = "@corpus"
split = "{split}"
predictions = "reference"
{'variants = "@rewrite"' if size.scored else ""}
[[steps]]
name = "validity"
pipeline = "evaluate validity"
reference = "@corpus"
split = "{split}"
sets = {{ typos = "@sets/typos/typos"{', simple = "@sets/simple/simple"' if size.scored else ""} }}
[[steps]]
name = "variations"
pipeline = "language_variations"
sgd = "@corpus"
split = ["{split}"]
kinds = ["paraphrase"]
env = {env}
[[steps]]
name = "replay"
pipeline = "back_translate"
schemas = "{schemas}"
memory = ["@sample/translations.csv"]
pivots = {["zh", "ja", "ko"][: 1 + size.variants // 2]}
[[steps]]
pipeline = "augment"
sgd = "@corpus"
split = "{split}"
oracle = "@variants"
[[steps]]
name = "hits"
pipeline = "hits"
schemas = "{schemas}"
[[steps]]
name = "composed"
pipeline = "compose"
schemas = "{schemas}"
responses = ["{names}", "{descriptions}"]
[[steps]]
pipeline = "compose_variations"
responses = ["{folder / "rewrites.csv"}"]
[[steps]]
pipeline = "few_shot"
sgd = "@corpus"
{train}
sizes = [10, 50]
[[steps]]
pipeline = "unseen_services"
sgd = "@corpus"
test_split = "{split}"
{'hold_out = ["Ferries", "Gyms"]' if size.dialogues > 1000 and size.sgd is None else ""}
[[steps]]
pipeline = "reminders"
dialogues = [{size.simulated}, 10, 10]
[[steps]]
pipeline = "restaurants"
sizes = {size.simulated // 4}
babi_plus = {"true" if size.scored else "false"}
[[steps]]
pipeline = "anonymise"
chats = ["{folder / "chats.jsonl"}"]
[[steps]]
name = "heard"
pipeline = "speech_errors"
sgd = "{heard}"
wer = {"0.2" if size.scored else "0.1,0.2"!r}
language_model = "own"
snr = [15, 12, 9, 6]
{release}
"""


if __name__ == "__main__":
    sys.exit(main())
