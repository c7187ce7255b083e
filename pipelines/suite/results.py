"""The files of a suite's results: the page, the tables, and ``run.json``, which is written last."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from parapet.pipelines.suite.running import BLOCKED, FAILED, STOPPED, Outcome
from parapet.pipelines.suite.state import State, versions, write
from parapet.pipelines.suite.steps import COMPARISON, TABLES, Graph
from parapet.pipelines.suite.suite_file import SuiteFile
from parapet.schemas.errors import code_sha256, run_header

MANIFEST, PAGE, CARD = "run.json", "index.html", "README.md"


def write_results(suite: SuiteFile, graph: Graph, state: State, outcomes: Mapping[str, Outcome]) -> None:
    """Writes the page, the tables and ``run.json``, unless they are there already.

    Args:
      suite: the file.
      graph: its steps.
      state: of the output folder.
      outcomes: of the steps that were to run; of the others, what earlier runs made is shown.
    """
    lost = {name: outcome for name, outcome in outcomes.items() if outcome.status in (FAILED, BLOCKED, STOPPED)}
    there = {name: step for name, step in graph.steps.items() if state.output_of(name) and name not in lost}
    described: dict[str, Any] = msgspec.to_builtins(suite, enc_hook=str)
    del described["folder"], described["path"]  # the same suite elsewhere has the same results
    header = {
        **run_header("suite", {"suite": suite.name}),
        "code_sha256": code_sha256(),
        "packages": versions(),
        "suite": described,
        "steps": {name: {"command": state.records[name].command, "sha256": state.output_of(name)} for name in there},
        "left_out": {entry.name: entry.reason for entry in graph.left_out},
        "failed": {name: outcome.reason for name, outcome in lost.items()},
    }
    place = state.output / MANIFEST
    if _is_current(place, header, state):
        return
    from parapet.pipelines.suite.page import suite_report  # with Jinja
    from parapet.transforms.report import card, page

    shown = suite_report(suite, graph, state, there, lost, header)
    files = {PAGE: page(shown).encode(), CARD: card(shown).encode()}
    if COMPARISON in there:
        files |= {path: (state.output / COMPARISON / path).read_bytes() for path in TABLES}
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
