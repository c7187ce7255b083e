"""``parapet leaderboard``: scores and ranks submissions to a release, and writes a page."""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from parapet.pipelines.command import counted, run_checked, say
from parapet.pipelines.flags import INPUT, StrictParser, add_output, add_split
from parapet.schemas.errors import InputError
from parapet.schemas.layout import dialogue_files

DESCRIPTION = """\
Scores the submissions to a release as 'parapet evaluate' does, ranks them by the mean of their metrics, and writes a
page. Those that cannot be scored are listed with the reason."""

EXAMPLE = """\
  parapet leaderboard --release releases/my_dataset --submissions submissions --output board
  parapet leaderboard --release releases/my_dataset --submissions submissions --tasks dst response \\
    --metrics joint_goal_accuracy combined --output board"""

NOTE = """\
exit status: 0 if a submission was scored, 1 if none was, 2 for wrong usage.
A submission is a folder with submission.toml and predictions, as docs/release.md shows."""

SCORED = ("dst", "response", "intent", "ood", "generation")


def parser() -> StrictParser:
    """Builds the command line."""
    parser = StrictParser("leaderboard", DESCRIPTION, EXAMPLE, NOTE)
    add = parser.group(INPUT)
    text = "release with the labels of the predicted sets: NAME/VERSION, or NAME for its latest"
    add("--release", required=True, metavar="DIR", reads=True, help=text)
    text = "folder with a folder for each submission"
    add("--submissions", required=True, metavar="DIR", reads=True, help=text)
    add("--ood", rare=True, metavar="DIR", reads=True, help="output of 'ood', with the labels of task ood")
    add_split(parser)
    add_output(parser)
    add = parser.group("scoring")
    text = "what each submission predicts (default: dst)"
    add(
        "--tasks",
        nargs="+",
        default=["dst"],
        choices=SCORED,
        metavar="TASK",
        help=f"{text}: {', '.join(SCORED)}",
    )
    text = "sets of the release that count, besides the original and its variants (default: all)"
    add("--sets", nargs="+", metavar="NAME", help=text)
    text = "metrics whose mean ranks the submissions, as in 'compare' (default: the main metric of each task)"
    add("--metrics", nargs="+", default=[], metavar="NAME", help=text)
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_checked(parser(), argv, check, act, "the leaderboard is unchanged, run the same command again")


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Checks the flags. Raises InputError if they do not describe a leaderboard."""
    from parapet.transforms.release.reading import open_release

    release = open_release(args.release)
    original = release.root / "sgd" / "original"
    if not original.is_dir() or not dialogue_files(original, args.split):
        raise InputError(f"the release has no dialogues in sgd/original/{args.split}", release.root, "--release")
    for name in args.sets or ():
        if not dialogue_files(release.root / "sgd" / name, args.split):
            raise InputError(f"the release has no dialogues in sgd/{name}/{args.split}", release.root, "--sets")
    if ("ood" in args.tasks) != (args.ood is not None):
        raise InputError("task ood and the folder with its labels must be given together", "--tasks, --ood")
    args.release = release
    return args


def act(args: argparse.Namespace) -> None:
    """Scores the submissions and publishes the page. Raises InputError if none can be scored."""
    from parapet.evaluation.compare.board import Config, leaderboard
    from parapet.evaluation.compare.submissions import Submission, files_of, ranks_of, read_submission
    from parapet.evaluation.compare.systems import read_systems
    from parapet.evaluation.task import publish
    from parapet.pipelines.progress import running
    from parapet.schemas.errors import run_header
    from parapet.transforms.reports.text import number

    submissions: dict[str, Submission] = {}
    refused: dict[str, str] = {}
    systems: dict[str, list[str]] = {}
    folders = sorted(path for path in Path(args.submissions).iterdir() if path.is_dir() and path.name[0] != ".")
    with running("parapet leaderboard") as progress, TemporaryDirectory() as scores:
        for i, folder in enumerate(folders):
            progress.stage(f"submission {i + 1:,} of {len(folders):,}")
            try:
                submission, predictions = read_submission(folder, args.tasks)
                if submission.name in submissions:
                    raise InputError(f"another submission is called {submission.name!r}")
                outputs = {task: f"{scores}/{i}/{task}" for task in predictions}
                for task, path in predictions.items():
                    _score(args, task, path, outputs[task])
            except InputError as error:
                refused[folder.name] = str(error).replace(f"{folder}/", "").replace(str(folder), folder.name)
                logging.warning("%s is not scored: %s", folder.name, refused[folder.name])
                continue
            submissions[submission.name], systems[submission.name] = submission, list(outputs.values())
        if not systems:
            first = "".join(f"; the first: {name}: {reason}" for name, reason in [*refused.items()][:1])
            raise InputError(f"no submission was scored{first or ': the folder contains none'}", "--submissions")
        progress.stage("page")
        board = leaderboard(*read_systems(systems, Config(metrics=tuple(args.metrics), replicates=0)))
    manifest = args.release.manifest
    lead = f"{counted(len(submissions), 'submission')} to {manifest.name} {manifest.version}, split {args.split}."
    files = files_of(board, submissions, refused, manifest.title, lead)
    options = {"release": f"{manifest.name} {manifest.version}", "split": args.split, "tasks": args.tasks}
    counts = {"submissions": len(folders), "scored": len(submissions), "refused": len(refused)}
    publish(args.output, files, {**run_header("leaderboard", {**options, "metrics": args.metrics}), "counts": counts})
    for name, rank in ranks_of(board).items():
        say(f"{rank} {name}: {number(board.average[name].value, 1)}")
    say(f"{counted(len(folders), 'submission')}, {len(refused):,} of them not scored: {args.output}/index.html")


def _score(args: argparse.Namespace, task: str, predictions: Path, output: str) -> None:
    """Runs ``parapet evaluate`` in a process of its own, so that no submission can break the leaderboard."""
    from parapet.evaluation.sets import ORIGINAL, open_reference

    _, variants = open_reference(str(args.release.root))  # which 'evaluate' finds by itself
    # A release may have schemas without dialogues, such as back-translated ones.
    folders = [folder for folder in sorted((args.release.root / "sgd").iterdir()) if dialogue_files(folder, args.split)]
    names = args.sets or [folder.name for folder in folders]
    others = [
        f"{each.name}={each}" for each in folders if each.name in names and each.name not in (ORIGINAL, *variants)
    ]
    reference = args.ood if task == "ood" else str(args.release.root)
    flags = ["--reference", reference, "--split", args.split]
    flags += ["--sets", *others] if others and task != "ood" else []
    argv = ["evaluate", "--task", task, *flags, "--predictions", str(predictions), "--output", output, "--quiet"]
    result = subprocess.run([sys.executable, "-P", "-m", "parapet", *argv], capture_output=True, text=True)  # noqa: S603
    if result.returncode:
        lines = result.stderr.strip().splitlines() or ["scoring was killed"]
        raise InputError(f"{task}: {lines[-1].removeprefix('error: ')}")
