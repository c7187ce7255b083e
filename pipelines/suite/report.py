"""The results of a suite: a page with the scores first, then how everything was made; the tables; ``run.json``."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec

from parapet.pipelines.suite.running import BLOCKED, FAILED, STOPPED, Outcome
from parapet.pipelines.suite.state import PACKAGES, State, write
from parapet.pipelines.suite.steps import COMPARISON, Graph, Step, place_of
from parapet.pipelines.suite.suite_file import Row, SuiteFile, Table
from parapet.schemas.distribution import code_sha256, run_header
from parapet.transforms import report
from parapet.transforms.text import number

MANIFEST, PAGE, CARD = "run.json", "index.html", "README.md"
TABLES = ("table.csv", "table.parquet", "table.tex", "table.md")
_PAGES = ("report.html", "index.html", "review.html", "report/index.html")  # of a step

# What a paper that uses the suite should cite, by what it takes from it.
_CITE = {
    "rewrite": "Lee et al. (2022), SGD-X: A Benchmark for Robust Generalization in Schema-Guided Dialogue Systems, "
    "AAAI",
    "sets": "Peng et al. (2021), RADDLE: An Evaluation Benchmark and Analysis Platform for Robust Task-oriented Dialog "
    "Systems, ACL",
    "restaurants": "Bordes, Boureau and Weston (2017), Learning End-to-End Goal-Oriented Dialog, ICLR",
}


def write_results(suite: SuiteFile, graph: Graph, state: State, outcomes: Mapping[str, Outcome]) -> None:
    """Writes the page, the tables and ``run.json``, unless they are there already.

    Args:
      suite: the file.
      graph: its steps.
      state: of the output folder.
      outcomes: of the steps that were to run; of the others, what earlier runs made is shown.
    """
    lost = {name: one for name, one in outcomes.items() if one.status in (FAILED, BLOCKED, STOPPED)}
    there = {name: step for name, step in graph.steps.items() if state.output_of(name) and name not in lost}
    header = {
        **run_header("suite", {"suite": suite.name}),
        "code_sha256": code_sha256(),
        "packages": _packages(),
        "suite": _described(suite),
        "steps": {
            name: {"command": state.records[name].command, "sha256": state.output_of(name)}
            for name, step in there.items()
        },
        "left_out": {one.name: one.reason for one in graph.left_out},
        "failed": {name: one.reason for name, one in lost.items()},
    }
    place = state.output / MANIFEST
    if _is_current(place, header, state):
        return
    files = _files(suite, graph, state, there, lost)
    for path, content in files.items():
        write(state.output / path, content)
    for path in TABLES:
        if path not in files:
            (state.output / path).unlink(missing_ok=True)
    listed = {path: hashlib.sha256(content).hexdigest() for path, content in sorted(files.items())}
    write(place, (json.dumps({**header, "files": listed}, indent=1, sort_keys=True) + "\n").encode())


def _is_current(place: Path, header: Mapping[str, Any], state: State) -> bool:
    """Whether the results stand as they would be written."""
    try:
        manifest = json.loads(place.read_bytes())
    except (OSError, ValueError):
        return False
    files = manifest.pop("files", {})
    whole = all(state.hash_of(state.output / path) == digest for path, digest in files.items())
    return whole and manifest == json.loads(json.dumps(header))


def _described(suite: SuiteFile) -> dict[str, Any]:
    """The file's content, as the page is made of it."""
    described: dict[str, Any] = msgspec.to_builtins(suite, enc_hook=str)
    del described["folder"], described["path"]  # the same suite elsewhere has the same results
    return described


def _packages() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def _files(
    suite: SuiteFile, graph: Graph, state: State, there: Mapping[str, Step], lost: Mapping[str, Outcome]
) -> dict[str, bytes]:
    """The files of the results, by path."""
    links = dict(_links(there, state.output))
    shown = report.Report(
        command="suite",
        title=suite.title,
        headline=suite.title,
        lead=suite.description,
        tiles=_tiles(there, state.output),
        sections=[
            *_scores(there, state.output),
            *(_published(table, state.output) for table in suite.tables),
            *_missing(graph, lost),
            *_made(there, state),
            _provenance(there),
        ],
        notes=_notes(graph, there, lost, state.output),
        terms=_terms(there),
        links={**{path: "the scores as a table" for path in TABLES if COMPARISON in there}, **links},
    )
    files = {PAGE: report.page(shown).encode(), CARD: report.card(shown).encode()}
    if COMPARISON in there:
        files |= {path: (state.output / COMPARISON / path).read_bytes() for path in TABLES}
    return files


def _board(there: Mapping[str, Step], output: Path) -> Any:
    if COMPARISON not in there:
        return None
    from parapet.evaluation.compare.leaderboard import read_board

    return read_board(str(output / COMPARISON / "leaderboard.json"))


def _scores(there: Mapping[str, Step], output: Path) -> list[report.Section]:
    from parapet.evaluation.compare.page import sections

    board = _board(there, output)
    return sections(board) if board is not None else []


def _tiles(there: Mapping[str, Step], output: Path) -> list[report.Tile]:
    from parapet.evaluation.compare.page import tiles

    board = _board(there, output)
    return tiles(board) if board is not None else []


def _terms(there: Mapping[str, Step]) -> dict[str, str]:
    if COMPARISON not in there:
        return {}
    from parapet.evaluation.compare.page import TERMS

    return dict(TERMS)


def _notes(graph: Graph, there: Mapping[str, Step], lost: Mapping[str, Outcome], output: Path) -> list[str]:
    """What must be known before the numbers are read."""
    notes = []
    if lost:
        names = ", ".join(name for name, one in lost.items() if one.status != BLOCKED)
        notes.append(f"Not all steps succeeded ({names}): what is missing is listed below.")
    if graph.left_out:
        notes.append(f"Left out, for lack of an input or a package: {', '.join(one.name for one in graph.left_out)}.")
    board = _board(there, output)
    if board is not None:
        from parapet.evaluation.compare.page import notes as notes_of

        notes += notes_of(board)
    return notes


def _published(table: Table, output: Path) -> report.Table:
    """A published table beside ours: our number, in small print the paper's and the difference."""
    rows, lacking = [], []
    for row in table.rows:
        digits = table.digits if row.digits is None else row.digits
        cells = [
            _beside(ours, paper, digits)
            for ours, paper in zip(_ours(row, table, output), _papers(row, table), strict=True)
        ]
        if row.needs and all(cell.startswith("–") for cell in cells):
            lacking.append(f"{row.name}: {row.needs}.")
        rows.append([row.name, *cells])
    note = f"Ours; in small print the published number ({table.source}) and the difference. {table.note}"
    lines = " ".join([note.strip(), *(["To get ours:", *lacking] if lacking else [])])
    return report.Table(title=table.title, columns=["", *table.columns], rows=rows, note=lines, numbers_in=MANIFEST)


def _papers(row: Row, table: Table) -> Sequence[float | None]:
    values = row.published or [float("nan")] * len(table.columns)
    return [None if value != value else value for value in values]


def _ours(row: Row, table: Table, output: Path) -> list[float | None]:
    pointers = row.pointers(table.columns)
    scales = row.scale if isinstance(row.scale, tuple) else (row.scale,) * len(pointers)
    values = [_pointed(pointer, output) for pointer in pointers]
    return [None if value is None else value * scale for value, scale in zip(values, scales, strict=True)]


def _pointed(pointer: str, output: Path) -> float | None:
    """The number that ``@STEP/FILE.json#/KEY/KEY`` points to; None where there is none."""
    place, _, path = pointer.removeprefix("@").partition("#/")
    try:
        value = json.loads(Path(place_of(place, output)).read_bytes())
        for key in path.split("/"):
            key = key.replace("~1", "/").replace("~0", "~")
            value = value[int(key)] if isinstance(value, list) else value[key]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _beside(ours: float | None, paper: float | None, digits: int) -> str:
    shown = "–" if ours is None else number(ours, digits)
    if paper is None:
        return shown
    difference = "" if ours is None else f", {ours - paper:+.{digits}f}".replace("-", "−")
    return f"{shown}\npaper {number(paper, digits)}{difference}"


def _missing(graph: Graph, lost: Mapping[str, Outcome]) -> Iterator[report.Section]:
    rows = [[one.name, "left out", one.reason, one.needs or "–"] for one in graph.left_out]
    for name, one in lost.items():
        todo = f"see .suite/logs/{name}.log" if one.status == FAILED else "run the suite again"
        rows.append([name, "not run" if one.status == BLOCKED else one.status, one.reason, todo])
    if rows:
        columns = ["step", "", "why", "what to do"]
        yield report.Table(title="What is missing", columns=columns, rows=rows, text_columns=4, numbers_in=MANIFEST)


def _made(there: Mapping[str, Step], state: State) -> Iterator[report.Section]:
    """How each step was made."""
    rows = []
    for name, step in there.items():
        summary = _changed(state.output / name)
        rows.append([f"{name}\n{step.about}" if step.about else name, summary, state.records[name].command])
    columns = ["step", "result", "command, in the folder of the suite's file"]
    yield report.Table(title="How it was made", columns=columns, rows=rows, text_columns=3, numbers_in=MANIFEST)


def _changed(folder: Path) -> str:
    """What a step made, from its ``run.json``: its main counts."""
    try:
        counts = json.loads((folder / MANIFEST).read_bytes()).get("counts", {})
    except (OSError, ValueError, AttributeError):
        return ""
    totals: dict[str, int] = {}
    for key, value in counts.items() if isinstance(counts, dict) else ():
        if isinstance(value, int):
            name = str(key).partition("/")[0]
            totals[name] = totals.get(name, 0) + value
    wanted = ("dialogues", "dialogues_changed", "turns_changed", "responses", "left_out")
    return ", ".join(f"{totals[name]:,} {name.replace('_', ' ')}" for name in wanted if totals.get(name))


def _provenance(there: Mapping[str, Step]) -> report.Text:
    kinds = {name.partition("/")[0] for name in there}
    cited = [text for kind, text in _CITE.items() if kind in kinds]
    versions = ", ".join(f"{name} {number}" for name, number in _packages().items())
    header = run_header("suite", {})
    return report.Text(
        title="How to cite, versions",
        paragraphs=[
            f"Made with Parapet {header['version']} (code {code_sha256()[:12]}), {versions}.",
            "`run.json` has the hash of everything that each step wrote.",
            *(f"Cite {text}." for text in cited),
            "Cite the corpus as its authors ask, and the release by its name and version, where there is one.",
        ],
    )


def _links(there: Mapping[str, Step], output: Path) -> Iterator[tuple[str, str]]:
    """The pages of the steps."""
    for name, step in there.items():
        for page in _PAGES:
            if (output / name / page).is_file():
                yield f"{name}/{page}", step.about or name
    for path in sorted((output / "release").glob("*/*/report/index.html")):
        yield path.relative_to(output).as_posix(), "the release"
