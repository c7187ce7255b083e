"""Submissions of strangers to a leaderboard: reads and checks them, and ranks those that were scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from parapet.evaluation.compare.board import Board
from parapet.evaluation.compare.page import TERMS, leader, sections
from parapet.evaluation.compare.tables import long_table
from parapet.evaluation.task import json_bytes
from parapet.schemas.errors import InputError
from parapet.schemas.limits import read_whole
from parapet.transforms.core.inputs import convert, parse_toml
from parapet.transforms.report.markdown import is_url, quoted
from parapet.transforms.report.report import Report, Table, page
from parapet.transforms.report.text import number

FILE = "submission.toml"


class Submission(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of ``submission.toml``: the system's name, task to its predictions, and a web address."""

    name: str
    predictions: dict[str, str]
    url: str = ""


def read_submission(folder: Path, tasks: Sequence[str]) -> tuple[Submission, dict[str, Path]]:
    """Reads a submission; also returns the path of the predictions of each task.

    Raises InputError if it cannot be read, lacks a task, or names or links to files outside its folder.
    """
    if not (folder / FILE).is_file():
        raise InputError(f"there is no {FILE}")
    if folder.is_symlink() or any(path.is_symlink() for path in folder.rglob("*")):
        raise InputError("contains a link: submit the file itself")
    submission: Submission = convert(parse_toml(read_whole(folder / FILE), FILE), Submission, FILE)
    if not submission.name.strip() or not submission.name.isprintable() or len(submission.name) > 100:
        raise InputError("must be one line of 1 to 100 printable characters", FILE, "name")
    if submission.url and not is_url(submission.url):
        raise InputError("must begin with https:// or http://", FILE, "url")
    paths = {}
    for task in tasks:
        if task not in submission.predictions:
            raise InputError(f"names no predictions of task {task}", FILE, "predictions")
        place = submission.predictions[task]
        path = folder / place.replace("\0", "")
        if not path.resolve().is_relative_to(folder.resolve()) or not path.exists():
            raise InputError(f"{place!r} is not in the folder of the submission", FILE, f"predictions.{task}")
        paths[task] = path
    return submission, paths


def ranks_of(board: Board) -> dict[str, str]:
    """Returns the rank of each system; systems with equal averages share one, and without an average there is none."""
    values = [board.average[name].value for name in board.systems]  # the best first
    numbers = zip(board.systems, values, strict=True)
    return {name: "–" if value is None else str(1 + values.index(value)) for name, value in numbers}


def files_of(
    board: Board, submissions: Mapping[str, Submission], refused: Mapping[str, str], title: str, lead: str
) -> dict[str, bytes]:
    """Makes the page, and the table as JSON and CSV.

    Args:
      board: the comparison of the scored submissions.
      submissions: the scored submissions by name.
      refused: folder to the reason why its submission is not scored.
      title: the title of the page.
      lead: the line below it.
    """
    ranks = ranks_of(board)
    ranking = Table(
        title="Ranking, by the average of 100",
        columns=["rank", "system", "average"],
        rows=[[ranks[name], name, number(board.average[name].value, 1)] for name in board.systems],
        text_columns=2,
        hrefs={(i, 1): quoted(url) for i, name in enumerate(board.systems) if (url := submissions[name].url)},
    )
    reasons = [list(pair) for pair in refused.items()]
    not_scored = Table(title="Not scored", columns=["folder", "reason"], rows=reasons, text_columns=2)
    report = Report(
        command="leaderboard",
        title=title,
        headline=leader(board),
        lead=lead,
        sections=[ranking, *sections(board), not_scored],
        terms=TERMS,
        links={"table.csv": "all numbers", "leaderboard.json": "everything"},
    )
    everything = {"board": board, "ranks": ranks, "submissions": submissions, "refused": refused}
    return {
        "index.html": page(report).encode(),
        "leaderboard.json": json_bytes(everything),
        **long_table(board),
    }
