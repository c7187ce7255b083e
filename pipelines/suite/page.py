"""The results of a suite: its page, with published numbers beside ours, and the verdicts of ``[gates]``."""

from __future__ import annotations

import json
import math
import operator
import re
import shlex
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from parapet.evaluation.compare import page as scores
from parapet.evaluation.compare.board import by_set, read_board
from parapet.evaluation.dst.failures import page_place
from parapet.evaluation.endpoint.outcomes import totals
from parapet.evaluation.results import set_order
from parapet.evaluation.sets import ORIGINAL, mixes, run_name
from parapet.pipelines.main import PIPELINES
from parapet.pipelines.suite.running import FAILED, Outcome
from parapet.pipelines.suite.suite_file import COMPARISON, SEED, Step, Table, entry_of, place_of, references
from parapet.schemas.errors import no_such, pointer_keys
from parapet.transforms.report import report
from parapet.transforms.report.text import number, percent

if TYPE_CHECKING:
    from parapet.evaluation.results import ResultRow
    from parapet.pipelines.suite import Plan
    from parapet.pipelines.suite.graph import Graph
    from parapet.pipelines.suite.suite_file import SuiteFile

_PAGES = ("report.html", "index.html", "review.html", "report/index.html", "*/*/report/index.html")  # of steps
_FILES = {
    "table.csv": "all numbers, one per row; also as `table.parquet`, `table.tex` and `table.md`",
    "run.json": "the suite, the command of each step, versions, and the hash of everything that was written",
}
_OUTPUT = re.compile(r"(?:^|(?<=[=,:]))OUT/")  # in the commands of records


def suite_report(
    plan: Plan, there: Mapping[str, Step], lost: Mapping[str, Outcome], header: Mapping[str, Any]
) -> report.Report:
    """Makes the report of a suite.

    Args:
      plan: the suite.
      there: the steps that have an output.
      lost: the steps that failed or could not run.
      header: ``run.json`` without its files.
    """
    suite, graph, output = plan.suite, plan.graph, plan.state.output
    board = read_board(str(output / COMPARISON / "leaderboard.json")) if COMPARISON in there else None
    first: list[report.Section] = [*scores.charts(board)[:1], *by_set(board)] if board else []
    notes = scores.notes(board) if board else []
    for what, names in (("Left out", [names for names, _ in graph.lacking()]), ("Failed or not run", lost)):
        if names:
            notes.insert(0, f"{what}: {', '.join(names)}. The reasons are listed below.")
    return report.Report(
        command="suite",
        title=suite.title,
        headline=scores.headline(board) if board else suite.title,
        lead=" ".join(filter(None, [scores.lead(board) if board else "", suite.description, suite.corpus.description])),
        sections=[
            *first,
            _failures(graph, there, output),
            _asked(there, output),
            *(scores.sections(board)[len(first) :] if board else []),
            *(beside_ours(table, suite.seeds, graph, output) for table in suite.tables),
            _missing(graph, lost),
            _made(plan, there, header),
        ],
        notes=notes,
        terms=scores.TERMS if board else {},
        links={
            **(_FILES if board else {}),
            **{page: f"page of {name}" for name in there for page in _pages(name, output)},
        },
    )


def _failures(graph: Graph, there: Mapping[str, Step], output: Path) -> report.Table:
    """How many frames of each set are wrong, by system, with links to the pages that show them; without mixes.

    Of a system with several runs, the first counts.
    """
    steps = [step for system in graph.systems if (step := f"scores/{system}/dst") in there]
    places = [step if (output / step / "robustness.json").is_file() else f"{step}/{run_name(0)}" for step in steps]
    numbers = {place: json.loads((output / place / "robustness.json").read_bytes())["sets"] for place in places}
    names = {name for sets in numbers.values() for name in sets}
    rows, hrefs = [[name] for name in sorted(names - mixes(names), key=set_order)], {}
    for i, row in enumerate(rows):
        for step, sets in numbers.items():
            if failures := sets.get(row[0], {}).get("failures"):
                hrefs[i, len(row)] = f"{quote(step)}/{page_place(row[0])}"
                new = "" if row[0] == ORIGINAL else f"\n{failures['right_on_original']:,} of them right on the original"
                row.append(f"{failures['wrong']:,} of {failures['frames']:,}{new}")
            else:
                row.append("–")
    return report.Table(
        title="Which examples each system gets wrong",
        note="An example is a frame: one service in one user turn. Each number links to a page that shows the "
        "wrong frames: the user's turn in the original and in the set, the dialogue before it, and the "
        "expected and predicted states. Frames that are right on the original and wrong in the set come first.",
        columns=["set", *numbers],
        rows=rows if hrefs else [],
        hrefs=hrefs,
        in_card=False,
    )


def _asked(there: Mapping[str, Step], output: Path) -> report.Table:
    """Makes a table of what language models answered, how many answers were unreadable, and what they cost."""
    rows = []
    for name in (name for name in there if name.startswith("predictions/")):
        run = json.loads((output / name / "run.json").read_bytes())
        if "prompt" not in run:
            continue
        model, n = run["model"], Counter(totals(run["counts"]))
        cost = (n["tokens_sent"] * model["dollars"][0] + n["tokens_answered"] * model["dollars"][1]) / 1e6
        who = [name.removeprefix("predictions/"), f"{model['name']}\n{model.get('endpoint', 'embedded')}"]
        answers = [f"{n['answers_had']:,}", percent(n["unread"] / max(n["answers_had"], 1)), f"{n['refused']:,}"]
        rows.append([*who, *answers, f"${cost:,.2f}" if cost else "–"])
    return report.Table(
        title="What the language models answered",
        note="Answers that could not be read count as wrong; requests that were refused have no answer and are not "
        "scored. `run.json` beside the predictions has the prompt and the parameters, and `answers/` every answer.",
        columns=["system", "model", "answers", "not readable", "refused", "cost"],
        rows=rows,
        text_columns=2,
        in_card=False,
    )


def _missing(graph: Graph, lost: Mapping[str, Outcome]) -> report.Table:
    rows = [[names, "left out", first.reason, first.needs or "–"] for names, first in graph.lacking()]
    for name, outcome in lost.items():
        failed = outcome.status == FAILED
        todo = f"see .suite/logs/{name}.log" if failed else "run the suite again"
        rows.append([name, "failed" if failed else "not run", outcome.reason, todo])
    columns = ["step", "outcome", "why", "what to do"]
    return report.Table(title="What is missing", columns=columns, rows=rows, text_columns=4, numbers_in="run.json")


def _made(plan: Plan, there: Mapping[str, Step], header: Mapping[str, Any]) -> report.Table:
    """Makes a table of how each step was made: its pages and command.

    Commands can be pasted in the folder of the suite's file; ``OUT`` stands for the output folder in their records.
    """
    state, folder, rows = plan.state, plan.suite.folder, []
    output = state.output.relative_to(folder) if state.output.is_relative_to(folder) else state.output
    for name, step in there.items():
        pages = " ".join(f"`{page}`" for page in _pages(name, state.output))
        record = state.records[name]
        words = [_OUTPUT.sub(lambda _: f"{output}/", word) for word in shlex.split(record.command)]
        result = "\n".join(filter(None, [step.about or PIPELINES[step.command[0]], pages]))
        rows.append([f"{name}\nsha256 {record.output[:12]}", result, f"`{shlex.join(words)}`"])
    return report.Table(
        title="How it was made",
        note="Each command runs in the folder of the suite's file; that of a built-in suite, where the suite was run. "
        f"`@sample` is the bundled sample. Parapet {header['version']} (code {header['code_sha256'][:12]}) made it; "
        "`run.json` has the versions of other packages, and docs/method.md the papers to cite.",
        columns=["step", "result", "command"],
        rows=rows,
        text_columns=3,
        numbers_in="run.json",
        inline=True,
    )


def _pages(name: str, output: Path) -> list[str]:
    """Lists the pages of a step."""
    return [path.relative_to(output).as_posix() for pattern in _PAGES for path in sorted((output / name).glob(pattern))]


def beside_ours(table: Table, seeds: Sequence[str], graph: Graph, output: Path) -> report.Table:
    """Makes a table of our numbers, with the published ones and the differences in small print."""
    left_out = {entry_of(entry.name): entry.needs for entry in graph.left_out}
    has_ours = any(ours for row in table.rows for _, ours, *_ in table.cells(row))
    rows, missing = [], dict[str, None]()
    for row in table.rows:
        shown, digits = [], table.digits if row.digits is None else row.digits
        for published, ours, base, scale in table.cells(row):
            numbers = over_seeds(ours, base, scale, seeds, output)
            shown.append(shown_cell(numbers, published, digits) if has_ours else number(published, digits))
            if not numbers:
                steps = references(ours.replace(SEED, seeds[0]))
                missing |= dict.fromkeys([row.needs, *(left_out.get(entry_of(step), "") for step in steps)])
        if set(shown) != {"–"}:
            rows.append([row.name, *shown])
    notes = [f"Source: {table.source}.", table.note]
    if has_ours:
        notes.insert(1, "In small print the published number, and the difference of ours.")
    if len(seeds) > 1:
        notes.append(f"±: the standard deviation over {len(seeds)} seeds; the number is their mean.")
    if known := "; ".join(filter(None, missing)):
        notes.append(f"What is missing needs {known}.")
    note = " ".join(filter(None, notes))
    return report.Table(title=table.title, columns=["", *table.columns], rows=rows, note=note, numbers_in="run.json")


def over_seeds(pointer: str, base: str, scale: float, seeds: Sequence[str], output: Path) -> list[float]:
    """Reads our number for each seed, or its change relative to that of ``base``; none if it is missing for a seed."""
    values = []
    for seed in seeds if SEED in f"{pointer}{base}" else seeds[:1]:
        value, other = (pointed(text.replace(SEED, seed), output) for text in (pointer, base))
        if base and value is not None:
            value = value / other - 1 if other else None
        if value is None:
            return []
        values.append(value * scale)
    return values


def pointed(pointer: str, output: Path) -> float | None:
    """Reads the number that ``@STEP/FILE.json#/KEY/KEY`` points to; None if it does not exist."""
    place, _, path = pointer.removeprefix("@").partition("#/")
    try:
        value = json.loads(Path(place_of(place, output)).read_bytes())
        for key in pointer_keys(f"/{path}"):
            value = value[int(key)] if isinstance(value, list) else value[key]
        return float(value) if isinstance(value, int | float) else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def shown_cell(ours: Sequence[float], paper: float, digits: int) -> str:
    """Formats the mean of our numbers and their standard deviation (n - 1), with the paper's in small print."""
    mean = statistics.fmean(ours) if ours else math.nan
    shown = number(mean, digits)
    if len(ours) > 1:
        shown += f" ± {number(statistics.stdev(ours), digits)}"
    if math.isnan(paper):
        return shown
    # Adding 0 turns -0.0 into 0.0, which prints as positive.
    difference = f", {round(mean - paper, digits) + 0.0:+.{digits}f}".replace("-", "−") if ours else ""
    return f"{shown}\npaper {number(paper, digits)}{difference}"


_CONDITION = re.compile(r"\s*(>=|<=|>|<)\s*(-?\d+(?:\.\d+)?)\s*")
_HOLDS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt
}  # fmt: skip


class Verdict(NamedTuple):
    """A gate applied to one system; ``value`` is None if the number does not exist or is not defined."""

    gate: str
    condition: str
    system: str
    value: float | None
    is_met: bool

    def text(self) -> str:
        """In words."""
        lacking = "not defined, as the accuracy is too low" if self.system else "the results contain no such number"
        value_text = lacking if self.value is None else f"{self.value:.4f}"
        return f"{self.gate} {self.condition}: {value_text}{f' ({self.system})' if self.system else ''}"


def check_gates(suite: SuiteFile, graph: Graph) -> None:
    """Raises InputError for a gate on a number that no system of the suite can have, before anything runs."""
    if not suite.gates:
        return
    from parapet.evaluation.results import OF_100, SENSITIVITY, VARIANTS, shown_metrics

    requested, averaged = (_metrics_in(suite.compare.get(key, [])) for key in ("metrics", "average"))
    shown_sets = suite.compare.get("sets", [])
    known: dict[str, str] = {}  # the name of a number to its metric
    beginnings: tuple[str, ...] = ()  # of numbers on sets whose names are not known yet
    for step in (step for name, step in graph.steps.items() if name.startswith("scores/")):
        _, system, task = step.name.split("/")
        options, variants = step.options, list[str]()
        if "variants" in options:
            variants = str(options["variant"]).split(",") if "variant" in options else graph.variant_names
        is_open = task == "ranking" or ("variants" in options and not variants)
        sets = ["original", *(str(name).partition("=")[0] for name in options.get("sets", ())), *variants]
        sets += [VARIANTS] if len(variants) > 1 or is_open else []
        for metric in [*(requested or shown_metrics(task)), *averaged]:
            for name in sets:
                if name in (shown_sets or sets) and (metric != SENSITIVITY or name == VARIANTS):
                    known |= dict.fromkeys(_names(system, metric, name), metric)
            beginnings += (f"{metric}.", f"{system}.{metric}.") if is_open else ()
    for gate, condition in suite.gates.items():
        if gate not in known and not gate.startswith(beginnings):
            raise suite.error(no_such("number", gate, known), f"gates.{gate}")
        parts, metric = _CONDITION.fullmatch(condition), known.get(gate, SENSITIVITY)
        is_share = metric not in OF_100 and metric != SENSITIVITY
        if not parts or (is_share and not 0 <= float(parts[2]) <= 1):
            reason = 'expected a condition such as ">= 0.4"; metrics go from 0 to 1'
            raise suite.error(f"{condition!r}: {reason}", f"gates.{gate}")


def _metrics_in(columns: Iterable[object]) -> list[str]:
    """Returns what may be the metric in names of columns: ``SET/METRIC``, and ``accuracy/CATEGORY`` is one, too."""
    parts = [str(name).split("/") for name in columns]
    return ["/".join(names[i:]) for names in parts for i in range(len(names))]


def judge(gates: Mapping[str, str], numbers: Iterable[ResultRow]) -> Iterator[Verdict]:
    """Judges each gate for each system that has its number; yields a verdict without a system if none has it.

    Args:
      gates: ``METRIC``, ``METRIC.SET``, ``SYSTEM.METRIC`` or ``SYSTEM.METRIC.SET`` to a condition. Without a set, it
        applies to the original set, and for schema sensitivity to the variants; ``variants`` is the mean over variants.
      numbers: the numbers of all systems, from 0 to 1.
    """
    named: dict[str, list[ResultRow]] = {}
    for row in numbers:
        for name in _names(row.system, row.metric, row.set):
            named.setdefault(name, []).append(row)
    for gate, condition in gates.items():
        _, sign, limit, _ = _CONDITION.split(condition)
        if gate not in named:
            yield Verdict(gate, condition, "", None, False)
        for row in named.get(gate, ()):
            is_met = row.value is not None and _HOLDS[sign](row.value, float(limit))
            yield Verdict(gate, condition, row.system, row.value, is_met)


def _names(system: str, metric: str, of_set: str) -> list[str]:
    label = {"#VARIANTS": "variants", "#ALL": "original"}.get(of_set, of_set)  # of all sets: without other sets
    is_main = label == "original" or (label == "variants" and metric == "schema_sensitivity")
    names = [f"{metric}.{label}", *([metric] if is_main else [])]
    return [*names, *(f"{system}.{name}" for name in names)]


def verdicts_of(suite: SuiteFile, output: Path) -> list[Verdict]:
    """Judges a suite's gates by the numbers in its output folder; by none if the comparison failed."""
    if not suite.gates:
        return []
    from parapet.evaluation.results import AVERAGE, is_undefined, read_results

    place = output / "table.parquet"
    rows = read_results(place) if place.is_file() else []
    numbers = [
        row
        for row in rows
        if (row.group, row.metric == AVERAGE) == ("all", False)
        and (row.value is not None or is_undefined(row, [other for other in rows if other.system == row.system]))
    ]
    return list(judge(suite.gates, numbers))
