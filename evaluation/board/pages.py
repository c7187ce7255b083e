"""The pages of a leaderboard, also as JSON and CSV."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from parapet.evaluation.board.submission import FILE, Found, OfRelease
from parapet.evaluation.compare.leaderboard import (
    Board,
    Grid,
    Number,
    SignificanceConfig,
    Value,
    cell,
    leaderboard,
    metric_label,
    one_row,
    read_systems,
    shown,
    with_interval,
)
from parapet.evaluation.compare.page import TERMS, sections
from parapet.evaluation.compare.page import terms as terms_of
from parapet.evaluation.compare.results import JGA, Column, Selection, of_100, read_outcome
from parapet.evaluation.dst.results import slots_table
from parapet.evaluation.response.task import SetScores, table_of
from parapet.evaluation.task import json_bytes
from parapet.schemas.decisions import csv_bytes
from parapet.transforms.reports.markdown import quoted
from parapet.transforms.reports.report import Report, Section, Table, Text, Tile, page
from parapet.transforms.reports.text import counted, number

NO_RANK = "–"


class Scored(msgspec.Struct, frozen=True):
    """An accepted submission.

    Attributes:
      name: its unique name on the leaderboard.
      scores: task to the folder of its scores, below the leaderboard's.
    """

    found: Found
    name: str
    scores: dict[str, str]

    @property
    def page(self) -> str:
        """The path of its page, which does not depend on the untrusted name of its folder."""
        return f"submissions/{hashlib.sha256(self.found.folder.encode('utf-8', 'replace')).hexdigest()[:16]}.html"


class Refused(msgspec.Struct, frozen=True):
    """A submission that was refused."""

    folder: str
    reason: str


class Setting(msgspec.Struct, frozen=True):
    """The contents of a leaderboard.

    Attributes:
      title: the title of the page.
      split: the split that is scored.
      tasks: task to the scored sets.
      dialogues: set to its number of dialogues.
    """

    title: str
    release: OfRelease
    split: str
    tasks: dict[str, list[str]]
    dialogues: dict[str, int]


def named(accepted: Sequence[tuple[Found, dict[str, str]]]) -> list[Scored]:
    """Orders submissions by name; those with equal names get the names of their folders appended."""
    names = [scored_here.submission.system for scored_here, _ in accepted]
    scored = [
        Scored(scored_here, f"{name} ({scored_here.folder})" if names.count(name) > 1 else name, scores)
        for name, (scored_here, scores) in zip(names, accepted, strict=True)
    ]
    return sorted(scored, key=lambda one: (one.name, one.found.folder))


def board_of(output: Path, scored: Sequence[Scored], selection: Selection) -> Board:
    """Makes the table of all submissions, sorted by average and then by name.

    Args:
      output: the folder of the leaderboard.
      scored: the submissions, in order of their names.
      selection: the sets, domains and columns of the average.
    """
    # Keys are numbers, as an untrusted name might read like a part of another system.
    names = {f"{i:06}": scored_one.name for i, scored_one in enumerate(scored)}
    paths = {
        key: [str(output / place) for place in scored_one.scores.values()]
        for key, scored_one in zip(names, scored, strict=True)
    }
    systems = read_systems(paths, sets="all", selection=selection)
    board = leaderboard(systems, SignificanceConfig(replicates=0))
    # If no submission has one of the averaged numbers, there is no average, rather than one of fewer numbers.
    whole = set(systems.selection.average) == set(selection.average)
    order = board.systems if whole else sorted(board.systems)
    return msgspec.structs.replace(
        board,
        systems=[names[key] for key in order],
        values=[msgspec.structs.replace(value, system=names[value.system]) for value in board.values],
        average={names[key]: board.average[key] if whole else Number(None) for key in order},
        examples={},
    )


def ranks_of(board: Board) -> dict[str, int | None]:
    """Returns the rank of each system. Systems with equal averages share a rank; without an average there is none."""
    values = {name: average.value for name, average in board.average.items()}
    known = [value for value in values.values() if value is not None]
    return {
        name: None if value is None else 1 + sum(other > value for other in known) for name, value in values.items()
    }


def files_of(
    output: Path, setting: Setting, board: Board | None, scored: Sequence[Scored], refused: Sequence[Refused]
) -> dict[str, bytes]:
    """Makes all published files, as path to content.

    Args:
      output: the folder of the scores.
      setting: the contents of the leaderboard.
      board: the table of accepted submissions; None if there are none.
      scored: the accepted submissions.
      refused: the refused submissions.
    """
    by_name = {submission.name: submission for submission in scored}
    ranked = [by_name[name] for name in board.systems] if board else []
    row = one_row(board) if board else None
    files = {
        "index.html": _index(setting, board, row, ranked, refused),
        "leaderboard.json": _json(setting, board, ranked, refused),
        "leaderboard.csv": _csv(board, row, ranked),
    }
    if board is not None:
        files |= {submission.page: _page(output, setting, board, submission) for submission in ranked}
    return files


def _index(
    setting: Setting, board: Board | None, row: Grid | None, ranked: Sequence[Scored], refused: Sequence[Refused]
) -> bytes:
    sections_here: list[Section] = []
    tiles: list[Tile] = []
    if board is not None and row is not None:
        sections_here.append(_ranking(board, row, ranked))
        sections_here += sections(board)[1 if board.selection.average else 0 :]
        best = board.average[board.systems[0]]
        tiles = [Tile("best average", number(best.value, 1))] if best.value is not None else []
    if refused:
        rows = [[refusal.folder, refusal.reason] for refusal in refused]
        sections_here.append(Table(title="Refused", columns=["folder", "reason"], rows=rows, text_columns=2))
    sections_here += [_sets(setting), _how(setting)]
    report = Report(
        command="leaderboard",
        title=setting.title,
        headline=setting.title,
        lead=f"{counted(len(ranked), 'submission')} to the release {setting.release.name} "
        f"{setting.release.version}, split {setting.split}.",
        tiles=[*tiles, Tile("submissions", f"{len(ranked):,}"), Tile("refused", f"{len(refused):,}")],
        sections=sections_here,
        terms={"JGA": TERMS["JGA"], **terms_of(board)} if board else {},
        notes=[f"By domain: a number is the unweighted mean over {', '.join(board.selection.domains)}."]
        if board and board.selection.domains
        else [],
        links={
            "leaderboard.csv": "a row a submission",
            "leaderboard.json": "all numbers, and what was refused",
        },
    )
    return page(report).encode()


def _ranking(board: Board, row: Grid, ranked: Sequence[Scored]) -> Table:
    ranks, numbers = ranks_of(board), row.blocks[0].numbers
    rows = []
    for scored_one, values in zip(ranked, numbers, strict=True):
        rank, submission = ranks[scored_one.name], scored_one.found.submission
        start = [NO_RANK if rank is None else str(rank), scored_one.name, ", ".join(submission.authors)]
        average = with_interval(board.average[scored_one.name])
        rows.append([*start, submission.date.isoformat(), average, *(cell(value, values) for value in values)])
    metrics = {column.metric for column in board.columns if column.in_average}
    average_name = f" by {metric_label(metrics.pop())}" if len(metrics) == 1 else ""
    return Table(
        title=f"Ranking{average_name}, of 100",
        note="In small print: the 95% interval, the change against the original. A name leads to the page of the "
        "submission.",
        columns=["rank", "system", "authors", "date", "average", *row.headings],
        rows=rows,
        text_columns=4,
        hrefs={(i, 1): scored_one.page for i, scored_one in enumerate(ranked)},
        numbers_in="leaderboard.csv",
    )  # fmt: skip


def _sets(setting: Setting) -> Table:
    return Table(
        title="Sets",
        columns=["set", "dialogues", *setting.tasks],
        rows=[
            [name, f"{n:,}", *("yes" if name in sets else "" for sets in setting.tasks.values())]
            for name, n in setting.dialogues.items()
        ],
    )


def _how(setting: Setting) -> Text:
    release = setting.release
    return Text(
        title="How to submit",
        paragraphs=[
            f"Predict all dialogues of all sets of {release.name} {release.version}. The SHA-256 of its MANIFEST.json "
            f"is `{release.manifest_sha256}`.",
            f"Put the predictions into a folder, with a `{FILE}` that says whose they are and of which release.",
            "The page of `parapet leaderboard` in Parapet's documentation has the format of both.",
        ],
    )


def _page(output: Path, setting: Setting, board: Board, one: Scored) -> bytes:
    """Makes the page of a submission."""
    alone = msgspec.structs.replace(
        board,
        systems=[one.name],
        values=[value for value in board.values if value.system == one.name],
        average={one.name: board.average[one.name]},
    )
    submission, rank = one.found.submission, ranks_of(board)[one.name]
    facts = [
        ["authors", ", ".join(submission.authors)],
        ["date", submission.date.isoformat()],
        *([["link", submission.link]] if submission.link else []),
        ["folder", one.found.folder],
        *([["description", " ".join(submission.description.split())]] if submission.description else []),
        *([f"SHA-256 of {task}", digest] for task, digest in one.found.sha256.items()),
        *([f"scores of {task}", "the page of its evaluation"] for task in one.scores),
    ]
    links = {f"scores of {task}": f"../{place}/report.html" for task, place in one.scores.items()}
    links |= {"link": quoted(submission.link)}
    hrefs = {(i, 1): links[key] for i, (key, _) in enumerate(facts) if key in links}
    sections_here: list[Section] = [
        Table(title="Submission", columns=["what", "value"], rows=facts, text_columns=2, hrefs=hrefs),
        *sections(alone),
        *_details(output, one.scores),
    ]
    report = Report(
        command="leaderboard",
        title=f"{one.name} – {setting.title}",
        headline=one.name,
        lead="Without a rank, since it was not scored on everything that the average counts."
        if rank is None
        else f"Rank {rank} of {counted(len(board.systems), 'submission')}.",
        tiles=[Tile("average", number(board.average[one.name].value, 1))],
        sections=sections_here,
        terms={"JGA": TERMS["JGA"], **terms_of(alone)},
        links={"../index.html": "the leaderboard"},
    )
    return page(report).encode()


def _details(output: Path, scores: Mapping[str, str]) -> Iterator[Table]:
    """Yields tables by domain and by slot."""
    if "dst" in scores:
        folder = output / scores["dst"]
        by_domain = {
            column: value for column, value in read_outcome(str(folder)).by_domain.items() if column.metric == JGA
        }
        domains = sorted({column.group for column in by_domain})
        yield Table(
            title="Joint goal accuracy by domain and set, of 100",
            columns=["set", *domains],
            rows=[
                [name, *(shown(JGA, by_domain.get(Column("dst", name, JGA, domain))) for domain in domains)]
                for name in dict.fromkeys(column.set for column in by_domain)
            ],
        )
    if "response" in scores:
        data = (output / scores["response"] / "domains.json").read_bytes()
        yield table_of(msgspec.json.decode(data, type=dict[str, SetScores]))
    if "dst" in scores:
        yield slots_table(json.loads((folder / "robustness.json").read_bytes())["sets"])


def _json(setting: Setting, board: Board | None, ranked: Sequence[Scored], refused: Sequence[Refused]) -> bytes:
    ranks = ranks_of(board) if board else {}
    values: dict[str, list[Value]] = {}
    for value in board.values if board else ():
        values.setdefault(value.system, []).append(value)
    submissions: list[Mapping[str, Any]] = [
        {
            "rank": ranks[submission.name],
            "name": submission.name,
            **msgspec.to_builtins(submission.found.submission),
            "folder": submission.found.folder,
            "predictions_sha256": submission.found.sha256,
            "average": board.average[submission.name] if board else None,
            "values": values.get(submission.name, []),
            "page": submission.page,
            "scores": submission.scores,
        }
        for submission in ranked
    ]
    return json_bytes(
        {
            **msgspec.to_builtins(setting),
            "columns": board.columns if board else [],
            "selection": board.selection if board else None,
            "submissions": submissions,
            "refused": refused,
        }
    )


def _csv(board: Board | None, row: Grid | None, ranked: Sequence[Scored]) -> bytes:
    """Makes a CSV with one row per submission, and unrounded numbers on a scale of 100."""
    columns = ("rank", "system", "authors", "date", "link", "average", *(row.headings if row else ()))
    if board is None or row is None:
        return csv_bytes(columns, [])
    ranks = ranks_of(board)

    def text(value: float | None) -> str:
        return "" if value is None else repr(float(value))

    rows = []
    for scored_one, values in zip(ranked, row.blocks[0].numbers, strict=True):
        submission, rank = scored_one.found.submission, ranks[scored_one.name]
        start = ["" if rank is None else str(rank), scored_one.name, "; ".join(submission.authors)]
        numbers = [None if v is None or v.value is None else of_100(v.metric, v.value) for v in values]
        average = board.average[scored_one.name].value
        rows.append([*start, submission.date.isoformat(), submission.link, *map(text, [average, *numbers])])
    return csv_bytes(columns, rows)
