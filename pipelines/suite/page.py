"""The page of a suite: scores, published numbers beside ours, and how everything was made."""

from __future__ import annotations

import json
import re
import shlex
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from parapet.evaluation.compare import page as scores
from parapet.evaluation.compare.board import Board, read_board
from parapet.evaluation.compare.kinds import set_order
from parapet.evaluation.dst.failures import page_place
from parapet.evaluation.endpoint import outcomes
from parapet.evaluation.sets import ORIGINAL, mixes
from parapet.evaluation.task import NOT_DEFINED
from parapet.pipelines.dispatch import PIPELINES
from parapet.pipelines.suite.gates import verdicts_of
from parapet.pipelines.suite.running import BLOCKED, FAILED, Outcome
from parapet.pipelines.suite.state import State
from parapet.pipelines.suite.steps import COMPARISON, Graph, Step, entry_of, place_of
from parapet.pipelines.suite.suite_file import SEED, SuiteFile, Table
from parapet.transforms.reports import report
from parapet.transforms.reports.text import counted, number, percent

# The pages of steps.
_PAGES = {
    **{"report.html": "report", "index.html": "pages", "review.html": "review", "report/index.html": "report"},
    "*/*/report/index.html": "release",
}
_TABLES = {
    "table.csv": "all numbers, one per row; also as `table.parquet`",
    "table.tex": "the table for LaTeX",
    "table.md": "the table as Markdown",
    "run.json": "the suite, the command of each step, versions, and the hash of everything that was written",
}

_OUTPUT = re.compile(r"(?:^|(?<=[=,:]))OUT/")  # in the commands of records


def suite_report(
    suite: SuiteFile,
    graph: Graph,
    state: State,
    there: Mapping[str, Step],
    lost: Mapping[str, Outcome],
    header: Mapping[str, Any],
) -> report.Report:
    """Makes the report of a suite.

    Args:
      suite: the suite's file.
      graph: its steps.
      state: the state of the output folder.
      there: the steps that have an output.
      lost: the steps that failed or could not run.
      header: ``run.json`` without its files.
    """
    output = state.output
    board = read_board(str(output / COMPARISON / "leaderboard.json")) if COMPARISON in there else None
    first: list[report.Section] = [*scores.charts(board)[:1], *scores.main_tables(board)] if board else []
    return report.Report(
        command="suite",
        title=suite.title,
        headline=suite.title,
        lead=" ".join(filter(None, [suite.description, suite.corpus.description])),
        tiles=scores.tiles(board) if board else [],
        sections=[
            *first,
            _gates(suite, output),
            *_failures(graph, there, output),
            *_asked(there, output),
            *(scores.sections(board)[len(first) :] if board else []),
            *(beside_ours(table, suite.seeds, graph, output) for table in suite.tables),
            _missing(graph, lost),
            _made(there, state, suite.folder),
            _provenance(header),
        ],
        notes=_notes(graph, lost, board),
        terms=scores.TERMS if board else {},
        links={**(_TABLES if board else {}), **dict(_links(there, output))},
    )


def _gates(suite: SuiteFile, output: Path) -> report.Table:
    """Makes a table of the gates' conditions and the actual numbers."""
    rows = []
    for gate, condition, system, value, is_met in verdicts_of(suite, output):
        shown = number(value, 4) if value is not None else NOT_DEFINED if system else "–"
        rows.append([gate, system or "–", condition, shown, "met" if is_met else "missed"])
    columns = ["number", "system", "must be", "is", ""]
    return report.Table(title="Gates", columns=columns, rows=rows, text_columns=3, numbers_in="table.csv")


def _notes(graph: Graph, lost: Mapping[str, Outcome], board: Board | None) -> list[str]:
    """Lists what readers must know before they read the numbers."""
    notes = scores.notes(board) if board else []
    if graph.left_out:
        left_out = ", ".join(names for names, _ in graph.lacking())
        notes = [f"Left out, for lack of an input or a package: {left_out}. What they need is listed below.", *notes]
    if lost:
        names = ", ".join(name for name, outcome in lost.items() if outcome.status != BLOCKED)
        notes = [f"Not all steps succeeded ({names}): what is missing is listed below.", *notes]
    return notes


def _failures(graph: Graph, there: Mapping[str, Step], output: Path) -> Iterator[report.Table]:
    """How many frames of each set are wrong, by system, with links to the pages that show them; mixes are folded."""
    steps = {system: step for system in graph.systems if (step := f"scores/{system}/dst") in there}
    numbers = {step: json.loads((output / step / "robustness.json").read_bytes())["sets"] for step in steps.values()}
    names = sorted({name for sets in numbers.values() for name in sets}, key=set_order)
    mixed = mixes(names)
    for folded in (False, True):
        rows, hrefs = [[name] for name in names if (name in mixed) == folded], {}
        for i, row in enumerate(rows):
            for step, sets in numbers.items():
                failures = sets.get(row[0], {}).get("failures")
                if failures is None:
                    row.append("–")
                    continue
                hrefs[i, len(row)] = f"{quote(step)}/{page_place(row[0])}"
                new = "" if row[0] == ORIGINAL else f"\n{failures['right_on_original']:,} of them right on the original"
                row.append(f"{failures['wrong']:,} of {failures['frames']:,}{new}")
        if hrefs:
            yield report.Table(
                title="Which examples each system gets wrong",
                note="An example is a frame: one service in one user turn. Each number links to a page that shows the "
                "wrong frames: the user's turn in the original and in the set, the dialogue before it, and the "
                "expected and predicted states. Frames that are right on the original and wrong in the set come first.",
                columns=["set", *steps],
                rows=rows,
                hrefs=hrefs,
                in_card=False,
                folded=f"{counted(len(rows), 'more set')}: mixes of these sets with the original" if folded else "",
            )


def _asked(there: Mapping[str, Step], output: Path) -> Iterator[report.Section]:
    """Yields sections on how each language model was prompted, what its answers cost, and how many were unreadable."""
    rows: list[list[str]] = []
    prompts: dict[str, list[str]] = {}
    for name in (name for name in there if name.startswith("predictions/")):
        run = json.loads((output / name / "run.json").read_bytes())
        if "prompt" not in run:
            continue
        model, who = run["model"], ", ".join(name.split("/")[1:])
        sums, without = outcomes.totals(run["counts"]), outcomes.left_out(run["counts"])
        answers, (refused, _, reason) = sums.get("answers_had", 0), outcomes.refusals(run["counts"])
        why = ", ".join(f"{n:,} {kind[7:]}" for kind, n in sums.items() if kind.startswith("unread_"))
        tokens, price = (sums.get("tokens_sent", 0), sums.get("tokens_answered", 0)), model["dollars"]
        cost = sum(n * dollars for n, dollars in zip(tokens, price, strict=True)) / 1e6
        asked = f"temperature {'not sent' if model['temperature'] is None else model['temperature']}"
        asked += f", style {run['options']['style']}" if "style" in run["options"] else ""
        asked += f"\nsent without {without}, which the endpoint does not take" if without else ""
        rows.append(
            [
                who,
                f"{model['name']}\n{model.get('endpoint', 'embedded')}",
                asked,
                f"{answers:,}",
                f"{percent(sums.get('unread', 0) / max(answers, 1))}\n{why}".strip(),
                f"{refused:,}\n{reason}".strip(),
                f"{tokens[0]:,} + {tokens[1]:,}" if any(tokens) else "not reported",
                f"${cost:,.2f}" if cost else "–",
            ]
        )
        prompts.setdefault(run["prompt"]["template"], []).append(who)
    yield report.Table(
        title="How the language models were asked",
        note="Answers that could not be read count as wrong; requests that were refused have no answer and are not "
        "scored. Tokens are those of requests and of answers, as the server counts them. Endpoints need not be "
        "deterministic, even at temperature 0: the kept answers make a rerun exact. `answers/` beside the "
        "predictions has every answer.",
        columns=["system", "model", "asked with", "answers", "not readable", "refused", "tokens", "cost"],
        rows=rows,
        text_columns=3,
        in_card=False,
    )
    for template, systems in prompts.items():
        yield report.Table(
            title=f"Prompt: {'; '.join(systems)}",
            columns=["template"],
            rows=[[line] for line in template.splitlines()],
            in_card=False,
            folded="the prompt, a Jinja template",
        )


def _missing(graph: Graph, lost: Mapping[str, Outcome]) -> report.Table:
    rows = [[names, "left out", first.reason, first.needs or "–"] for names, first in graph.lacking()]
    for name, outcome in lost.items():
        failed = outcome.status == FAILED
        todo = f"see .suite/logs/{name}.log" if failed else "run the suite again"
        rows.append([name, "failed" if failed else "not run", outcome.reason, todo])
    columns = ["step", "", "why", "what to do"]
    return report.Table(title="What is missing", columns=columns, rows=rows, text_columns=4, numbers_in="run.json")


def _made(there: Mapping[str, Step], state: State, folder: Path) -> report.Table:
    """Makes a table of how each step was made: its pages and command.

    Commands can be pasted in the folder of the suite's file; ``OUT`` stands for the output folder in their records.
    """
    output = state.output.relative_to(folder) if state.output.is_relative_to(folder) else state.output
    rows = []
    for name, step in there.items():
        pages = " ".join(f"`{path}`" for path, _ in _links({name: step}, state.output))
        record = state.records[name]
        words = [_OUTPUT.sub(lambda _: f"{output}/", word) for word in shlex.split(record.command)]
        result = "\n".join(filter(None, [step.about or PIPELINES[step.pipeline], pages]))
        rows.append([f"{name}\nsha256 {record.output[:12]}", result, f"`{shlex.join(words)}`"])
    return report.Table(
        title="How it was made",
        note="Each command runs in the folder of the suite's file; that of a built-in suite, where the suite was run. "
        "`@sample` is the bundled sample.",
        columns=["step", "result", "command"],
        rows=rows,
        text_columns=3,
        numbers_in="run.json",
        inline=True,
    )


def _provenance(header: Mapping[str, Any]) -> report.Text:
    versions = ", ".join(f"{name} {version}" for name, version in header["packages"].items())
    return report.Text(
        title="Versions, and how to cite",
        paragraphs=[
            f"Made with Parapet {header['version']} (code {header['code_sha256'][:12]}), {versions}.",
            "`run.json` has the hash of everything that each step wrote.",
            "Cite the papers whose methods you use, which Parapet's documentation lists (docs/method.md), the corpus "
            "as its authors ask, and a release by its name and version.",
        ],
    )


def _links(there: Mapping[str, Step], output: Path) -> Iterator[tuple[str, str]]:
    """Yields the pages of the steps, with descriptions."""
    for name in there:
        for pattern, description in _PAGES.items():
            for path in sorted((output / name).glob(pattern)):
                yield path.relative_to(output).as_posix(), f"{description} of {name}"


class Ours(NamedTuple):
    """One of our numbers; over several seeds their mean, with the standard deviation (n - 1)."""

    value: float
    deviation: float | None = None


def beside_ours(table: Table, seeds: Sequence[str], graph: Graph, output: Path) -> report.Table:
    """Makes a table of our numbers, with the published ones and the differences in small print."""
    needs = {entry_of(entry.name): entry.needs for entry in graph.left_out}
    rows, missing = [], dict[str, None]()
    cells = [(row, list(table.cells(row))) for row in table.rows]
    pointers = "".join(cell.ours for _, row in cells for cell in row)
    for row, of_row in cells:
        ours = [over_seeds(cell.ours, cell.relative_to, cell.scale, seeds, output) for cell in of_row]
        for cell, value in zip(of_row, ours, strict=True):
            if value is None:
                step = cell.ours.replace(SEED, seeds[0])[1:].partition("#")[0]
                missing |= {row.needs: None, needs.get(entry_of(step), ""): None}
        digits = table.digits if row.digits is None else row.digits
        shown = [
            shown_cell(value, cell.published, digits, bool(pointers)) for value, cell in zip(ours, of_row, strict=True)
        ]
        if set(shown) != {"–"}:
            rows.append([row.name, *shown])
    note = f"Published in {table.source}; in small print the published number and the difference."
    if not pointers or not any(row.published for row in table.rows):
        note = f"Published in {table.source}." if not pointers else f"Ours ({table.source})."
    if len(seeds) > 1 and SEED in pointers:
        note += f" ±: the standard deviation over {len(seeds)} seeds; the number is their mean."
    note += f" {table.note}" if table.note else ""
    if known := "; ".join(filter(None, missing)):
        note += f" What is missing needs {known}."
    return report.Table(title=table.title, columns=["", *table.columns], rows=rows, note=note, numbers_in="run.json")


def over_seeds(pointer: str, base: str, scale: float, seeds: Sequence[str], output: Path) -> Ours | None:
    """Averages a number over the seeds; None if it is missing for a seed."""
    values = []
    for seed in seeds if SEED in f"{pointer}{base}" else seeds[:1]:
        value = pointed(pointer.replace(SEED, seed), output)
        if base and value is not None:
            other = pointed(base.replace(SEED, seed), output)
            value = value / other - 1 if other else None
        if value is None:
            return None
        values.append(value * scale)
    return Ours(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None)


def pointed(pointer: str, output: Path) -> float | None:
    """Reads the number that ``@STEP/FILE.json#/KEY/KEY`` points to; None if it does not exist."""
    place, _, path = pointer.removeprefix("@").partition("#/")
    try:
        value = json.loads(Path(place_of(place, output)).read_bytes())
        for key in path.split("/"):
            key = key.replace("~1", "/").replace("~0", "~")
            value = value[int(key)] if isinstance(value, list) else value[key]
        return float(value) if isinstance(value, int | float) else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def shown_cell(ours: Ours | None, paper: float | None, digits: int, compared: bool = True) -> str:
    """Formats our number with the paper's and the difference in small print, or the paper's alone if we have none."""
    if not compared:
        return "–" if paper is None else number(paper, digits)
    shown = "–" if ours is None else number(ours.value, digits)
    if ours is not None and ours.deviation is not None:
        shown += f" ± {number(ours.deviation, digits)}"
    if paper is None:
        return shown
    # Adding 0 turns -0.0 into 0.0, which prints as positive.
    difference = "" if ours is None else f", {round(ours.value - paper, digits) + 0.0:+.{digits}f}".replace("-", "−")
    return f"{shown}\npaper {number(paper, digits)}{difference}"
