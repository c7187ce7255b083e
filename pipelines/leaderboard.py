"""``parapet leaderboard``: checks and scores submissions to a release, and writes static pages."""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from parapet.pipelines.command import EXIT_FAILURE, counted, run_checked, say
from parapet.pipelines.flags import INPUT, StrictParser, add_output, add_split
from parapet.schemas.errors import InputError
from parapet.schemas.layout import stays_within

if TYPE_CHECKING:
    from parapet.evaluation.board.pages import Refused, Setting
    from parapet.evaluation.board.submission import Found, Released
    from parapet.evaluation.compare.results import Selection

DESCRIPTION = """\
Makes a leaderboard of a folder of submissions to a release, as static pages. Each submission is checked: it must be of
this release, complete and harmless. Those that are refused are listed with the reason. The others are scored as
'parapet evaluate' scores, again only when they have changed."""

EXAMPLE = """\
  parapet leaderboard --release releases/my_dataset --template --output my_submission
  parapet leaderboard --release releases/my_dataset --submissions submissions --output board
  parapet leaderboard --release releases/my_dataset --submissions submissions --tasks dst response=original,typos \\
    --average joint_goal_accuracy combined --output board"""

NOTE = """\
exit status: 0 if a submission was accepted, 1 if none was, 2 for wrong usage.
A submission is a folder with submission.toml and predictions, as docs/release.md shows."""

NAME = "leaderboard"
SCORES = "scores"  # folder in the output; scores are stored under the hash of their inputs
_MOST_REASON = 500  # characters


class Config(msgspec.Struct, frozen=True):
    """A leaderboard to build: the flags, and what was read from them; ``folders`` are the submissions, sorted."""

    args: argparse.Namespace
    released: Released
    setting: Setting
    selection: Selection
    folders: list[Path]

    @property
    def output(self) -> Path:
        """The folder of the leaderboard."""
        return Path(self.args.output)


def parser() -> StrictParser:
    """Builds the command line."""
    parser = StrictParser("leaderboard", DESCRIPTION, EXAMPLE, NOTE)
    add = parser.group(INPUT)
    text = "release whose test sets are predicted: NAME/VERSION, or NAME for its latest"
    add("--release", required=True, metavar="DIR", reads=True, help=text)
    add("--submissions", metavar="DIR", reads=True, help="folder with a folder for each submission")
    add("--template", action="store_true", help="instead: write a submission.toml to be filled in")
    text = "release with the labels, where --release has none"
    add("--private", metavar="DIR", reads=True, help=text)
    text = "output of 'ood', with the labels of task ood"
    add("--ood", rare=True, metavar="DIR", reads=True, help=text)
    add_output(parser)
    add = parser.group("board")
    text = "what is scored, TASK or TASK=SET,SET (default: dst and response on all sets)"
    add("--tasks", nargs="+", default=["dst", "response"], metavar="TASK", help=text)
    add_split(parser)
    text = "columns that the average counts, as in 'compare' (default: the main metric of each task on each set)"
    add("--average", nargs="+", default=[], metavar="NAME", help=text)
    text = "domains: each number is the unweighted mean over them"
    add("--domains", rare=True, nargs="+", default=[], metavar="NAME", help=text)
    add("--title", rare=True, default="", help="of the page (default: that of the release)")
    add = parser.group("limits of a submission")
    add("--max_mb", rare=True, type=int, default=1000, metavar="N", help="megabytes")
    add("--timeout", rare=True, type=int, default=3600, metavar="SECONDS", help="for scoring a task")
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_checked(parser(), argv, check, act, "the leaderboard is unchanged, run the same command again")


def check(args: argparse.Namespace) -> Config:
    """Checks the flags. Raises InputError if they do not describe a leaderboard."""
    from parapet.evaluation.board.pages import Setting
    from parapet.evaluation.board.submission import columns_of_average, open_released, tasks_of
    from parapet.evaluation.compare.results import Selection
    from parapet.transforms.release.reading import open_release

    if (args.submissions is None) == (not args.template):
        raise InputError("give exactly one of the two", "--submissions, --template")
    for flag in ("max_mb", "timeout"):
        if getattr(args, flag) < 1:
            raise InputError("must be 1 or more", f"--{flag}")
    output = Path(args.output)
    if not stays_within(args.output, f"{SCORES}/any"):
        raise InputError("leads outside of the output folder by a link: remove the link", output / SCORES)
    folders = [] if args.submissions is None else _folders(Path(args.submissions))
    released = open_released(args.release, args.private, args.split)
    tasks = tasks_of(args.tasks, released, args.ood)
    dialogues = {name: len(ids) for name, ids in released.dialogues.items()}
    title = args.title or open_release(args.release).manifest.title
    setting = Setting(title, released.of, args.split, tasks, dialogues)
    selection = Selection(domains=tuple(args.domains), average=columns_of_average(args.average, tasks))
    return Config(args, released, setting, selection, folders)


def _folders(submissions: Path) -> list[Path]:
    """Lists the folders of submissions by name, without hidden ones. Raises InputError if there is no such folder."""
    if not submissions.is_dir():
        raise InputError("there is no such folder", submissions, "--submissions")
    return sorted(
        path for path in submissions.iterdir() if path.name[:1] != "." and (path.is_dir() or path.is_symlink())
    )


def act(config: Config) -> int:
    """Checks and scores the submissions, and publishes the pages. Returns the exit status."""
    from parapet.evaluation.board import pages
    from parapet.evaluation.task import publish
    from parapet.pipelines.progress import running
    from parapet.schemas.errors import run_header

    if config.args.template:
        return _write_template(config)
    accepted: list[tuple[Found, dict[str, str]]] = []
    refused: list[Refused] = []
    with running("parapet leaderboard") as progress:
        for i, folder in enumerate(config.folders, 1):
            progress.stage(f"submission {i:,} of {len(config.folders):,}")
            try:
                accepted.append(_accepted(folder, config))
            except InputError as error:
                refused.append(pages.Refused(_shown(folder.name), _reason(error, folder)))
        progress.stage("pages")
        scored = pages.named(accepted)
        board = pages.board_of(config.output, scored, config.selection) if scored else None
        files = pages.files_of(config.output, config.setting, board, scored, refused)
    options = {
        **msgspec.to_builtins(config.setting),
        **msgspec.to_builtins(config.selection),
        "labels_sha256": config.released.sha256,
    }
    counts = {"submissions": len(config.folders), "accepted": len(scored), "refused": len(refused)}
    publish(str(config.output), files, {**run_header(NAME, options), "counts": counts})
    _clear(config.output, {place for scored_here in scored for place in scored_here.scores.values()})
    for scored_here in refused:
        logging.warning("%s was refused: %s", scored_here.folder, scored_here.reason)
    for name, rank in pages.ranks_of(board).items() if board else ():
        average = board.average[name].value if board else None
        say(f"{pages.NO_RANK if rank is None else rank} {name}" + ("" if average is None else f": {average:.1f}"))
    say(f"{counted(len(config.folders), 'submission')}, {len(refused):,} of them refused: {config.output}/index.html")
    if scored:
        return 0
    first = "".join(f"; the first: {scored_here.folder}: {scored_here.reason}" for scored_here in refused[:1])
    logging.error("--submissions: no submission was accepted%s", first or ": the folder contains none")
    return EXIT_FAILURE


def _write_template(config: Config) -> int:
    from parapet.evaluation.board.submission import FILE, template
    from parapet.transforms.storage import disk

    path = config.output / FILE
    if path.exists():
        raise InputError("exists already: choose another folder, or remove it", path)
    disk.write(path, template(config.released.of, config.setting.tasks, datetime.date.today()).encode())
    say(f"{path}: fill it in, and put the predictions beside it")
    return 0


def _accepted(folder: Path, config: Config) -> tuple[Found, dict[str, str]]:
    """Reads and scores a submission; also returns the folder of scores per task. Raises InputError if it is refused."""
    from parapet.evaluation.board.submission import check_complete, read_submission

    tasks = config.setting.tasks
    submission = read_submission(folder, config.released.of, list(tasks), config.args.max_mb)
    for task, predictions in submission.predictions.items():
        expected = {name: config.released.dialogues[name] for name in tasks[task]}
        try:
            check_complete(predictions, config.setting.split, expected)
        except InputError as error:
            raise InputError(f"{task}: {error}") from None
    return submission, {task: _score(submission, task, config) for task in submission.predictions}


def _score(found: Found, task: str, config: Config) -> str:
    """Scores a task, unless the same inputs were scored before; returns the path of the scores below the output.

    It runs in a separate process, so that no file of a submission can break the leaderboard.
    """
    from parapet.evaluation.board.submission import evaluation_flags
    from parapet.evaluation.task import sha256_of
    from parapet.schemas.errors import code_sha256

    flags = evaluation_flags(task, config.setting.tasks[task], config.released, config.setting.split, config.args.ood)
    labels = Path(config.args.ood or "") / "run.json"  # contains the hashes of all files
    of_ood = sha256_of(labels) if task == "ood" and labels.is_file() else ""
    made_from = [task, found.sha256[task], config.released.sha256, config.setting.tasks[task], config.setting.split,
                 of_ood, code_sha256()]  # fmt: skip
    place = f"{SCORES}/{hashlib.sha256(json.dumps(made_from).encode()).hexdigest()[:32]}"
    output = config.output / place
    if (output / "run.json").is_file():
        return place
    shutil.rmtree(output, ignore_errors=True)
    predictions = found.predictions[task].absolute()
    argv = ["evaluate", "--task", task, *flags, "--predictions", str(predictions), "--output", str(output), "--quiet"]
    command = [sys.executable, "-m", "parapet", *argv]
    try:
        environment = {**os.environ, "PYTHONSAFEPATH": "1"}  # ignore modules in the working directory
        done = subprocess.run(  # noqa: S603  # our own program
            command, capture_output=True, timeout=config.args.timeout, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"{task}: scoring took more than {config.args.timeout:,} s") from None
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        reason = lines[-1].removeprefix("error: ") if lines and done.returncode > 0 else "scoring was killed"
        raise InputError(f"{task}: {reason}")
    return place


def _reason(error: InputError, folder: Path) -> str:
    """Formats why a submission is refused, without paths of this machine."""
    text = str(error).replace(f"{folder.absolute()}/", "").replace(f"{folder}/", "").replace(str(folder), folder.name)
    return _shown(text)


def _shown(text: str) -> str:
    """Formats untrusted text as one printable line."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return line if len(line) <= _MOST_REASON else f"{line[: _MOST_REASON - 3]}..."


def _clear(output: Path, kept: set[str]) -> None:
    """Deletes scores that no current submission uses."""
    folder = output / SCORES
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if f"{SCORES}/{path.name}" not in kept:
            shutil.rmtree(path, ignore_errors=True)
