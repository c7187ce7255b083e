"""The files of ``parapet evaluate --task ranking``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from parapet.evaluation.lines import ALL, Key
from parapet.evaluation.pages import Table, page, percent
from parapet.evaluation.ranking.reading import Response, TestFile
from parapet.evaluation.ranking.scoring import FIELDS, METRICS, OF_CALLS, Values, is_right
from parapet.evaluation.rows import ROWS, rows_bytes
from parapet.evaluation.writing import json_bytes

EXAMPLES = 40

TERMS = {
    "Per response": "The share of responses that are the reference's, to the letter.",
    "Per dialogue": "The share of dialogues all of whose responses are.",
    "OOV": "The same task with cuisines, locations and restaurants that training lacks.",
    "API call": "The share of API calls that are right as a whole, and of their fields, by position. What is no call "
    "where one was due has all fields wrong.",
    "#ALL": "All responses together, whatever their file.",
    "#MEAN": "The unweighted mean over the files.",
}


def details_of(files: Sequence[TestFile], candidates: frozenset[str] | None) -> dict[str, Any]:
    """How much there was to answer; and of it what no candidate could answer, where there are candidates."""
    found = {}
    for file in sorted(files, key=lambda file: file.name):
        one: dict[str, Any] = {
            "task": file.task,
            "oov": file.oov,
            "responses": len(file.responses),
            "dialogues": len({response.dialogue for response in file.responses}),
        }
        if candidates is not None:
            one["not_among_candidates"] = sum(one.reference.strip() not in candidates for one in file.responses)
        found[file.name] = one
    return {"files": found, "candidates": None if candidates is None else len(candidates)}


def files_of(
    rows: Sequence[tuple[Key, Response, Values]], metrics: Mapping[str, Values], details: Mapping[str, Any]
) -> dict[str, bytes]:
    """The files of the output folder."""
    columns = {name: [values[name] for _, _, values in rows] for name in METRICS}
    texts: dict[str, Sequence[Any]] = {
        "user": [one.user for _, one, _ in rows],
        "reference": [one.reference for _, one, _ in rows],
        "answer": [one.answer for _, one, _ in rows],
    }
    return {
        "metrics.json": json_bytes(metrics),
        "details.json": json_bytes(details),
        ROWS: rows_bytes([key for key, _, _ in rows], columns, texts),
        "report.html": report(rows, metrics, details),
    }


def by_task(metrics: Mapping[str, Values], details: Mapping[str, Any]) -> list[list[str]]:
    """Rows as of Bordes et al. 2017, Table 2: plain beside OOV, per response and (per dialogue)."""
    cells: dict[str, dict[bool, list[str]]] = {}
    for name, of in details["files"].items():
        found = metrics[name]
        both = f"{percent(found['per_response'], 1)} ({percent(found['per_dialogue'], 1)})"
        # Two files of one task, dev and test say, stand apart.
        there = cells.setdefault(of["task"], {})
        there.setdefault(of["oov"], []).append(both)
    return [
        [f"Task {task}" if task.isdigit() else task, *(", ".join(there.get(oov, ["–"])) for oov in (False, True))]
        for task, there in sorted(cells.items(), key=lambda one: (not one[0].isdigit(), one[0].zfill(9)))
    ]


def report(
    rows: Sequence[tuple[Key, Response, Values]], metrics: Mapping[str, Values], details: Mapping[str, Any]
) -> bytes:
    """The page: by task, by file, API calls, what was answered wrongly most often."""
    of_files = details["files"]
    by_file = [
        [name, *(percent(metrics[name][one]) for one in ("per_response", "per_dialogue")),
         f"{of['responses']:,}", f"{of['dialogues']:,}",
         *([f"{of['not_among_candidates']:,}"] if details["candidates"] is not None else [])]
        for name, of in of_files.items()
    ]  # fmt: skip
    columns = ["File", "Per response", "Per dialogue", "Responses", "Dialogues"]
    columns += ["Not among the candidates"] if details["candidates"] is not None else []
    calls = [
        [name, *(percent(of[one]) for one in OF_CALLS)] for name, of in metrics.items() if of[OF_CALLS[0]] is not None
    ]
    tables = [
        Table("% of responses that are right, (% of dialogues); as Bordes et al. 2017, Table 2",
              ["Task", "Plain", "OOV"], by_task(metrics, details), "The tasks"),
        Table("In %", columns, by_file, "The files"),
        Table("In %", ["File", "API call", *(field.capitalize() for field in FIELDS)], calls, "API calls"),
        Table("Most frequent first", ["Right", "Answered", "Times", "For example"], wrong_answers(rows),
              "Wrong answers", 1),
    ]  # fmt: skip
    of_all = metrics[ALL]
    return page(
        title="Response ranking",
        headline=f"{percent(of_all['per_response'], 1)}% of responses are right",
        lead=f"{len(rows):,} responses in {len(of_files):,} file{'s' if len(of_files) > 1 else ''}.",
        tiles={
            "per response, %": percent(of_all["per_response"]),
            "per dialogue, %": percent(of_all["per_dialogue"]),
            "API calls, %": percent(of_all[OF_CALLS[0]]),
        },
        tables=[table for table in tables if table.rows],
        terms=TERMS,
    )


def wrong_answers(rows: Sequence[tuple[Key, Response, Values]]) -> list[list[str]]:
    """(reference, answer, how often, a place), the most frequent first."""
    found: dict[tuple[str, str], list[Key]] = {}
    for key, response, _ in rows:
        if not is_right(response):
            found.setdefault((response.reference, response.answer), []).append(key)
    ranked = sorted(found.items(), key=lambda one: (-len(one[1]), one[0]))[:EXAMPLES]
    return [
        [reference, answer, f"{len(keys):,}", f"{keys[0][1]}, {keys[0][2]}"] for (reference, answer), keys in ranked
    ]
