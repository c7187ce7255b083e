"""``parapet leaderboard``: scores and ranks submissions to a release, and writes a page."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from parapet.pipelines.app import Command
from parapet.pipelines.command import counted, say
from parapet.schemas.errors import InputError
from parapet.schemas.layout import dialogue_files
from parapet.transforms.core import options
from parapet.transforms.core.options import REQUIRED, option

if TYPE_CHECKING:
    from parapet.transforms.release.reading import Release

EXAMPLE = """\
  parapet leaderboard --release releases/my_dataset --submissions submissions --output board
  parapet leaderboard --release releases/my_dataset --submissions submissions --tasks dst response \\
    --metrics joint_goal_accuracy combined --output board"""

SCORED = ("dst", "response", "intent", "ood", "generation")


class Leaderboard(Command["Release"]):
    """``parapet leaderboard``; its settings are the opened release."""

    name = "leaderboard"
    description = """Scores the submissions to a release as 'parapet evaluate' does, ranks them by the mean of their
        metrics, and writes a page. Those that cannot be scored are listed with the reason."""
    example = EXAMPLE
    note = """exit status: 0 if a submission was scored, 1 if none was, 2 for wrong usage.
        A submission is a folder with submission.toml and predictions, as docs/release.md shows."""
    group = "scoring"
    stopped = "the leaderboard is unchanged, run the same command again"
    release: str = options.folder(
        "release with the labels of the predicted sets: NAME/VERSION, or NAME for its latest", default=REQUIRED
    )
    submissions: str = options.folder("folder with a folder for each submission", default=REQUIRED)
    ood: str = options.folder("output of 'ood', with the labels of task ood", rare=True)
    split: str = options.split()
    output: str = options.output_folder()
    tasks: list[str] = option(
        ["dst"], f"what each submission predicts (default: dst): {', '.join(SCORED)}", metavar="TASK", choices=SCORED
    )
    sets: list[str] = option(
        [], "sets of the release that count, besides the original and its variants (default: all)", metavar="NAME"
    )
    metrics: list[str] = option(
        [],
        "metrics whose mean ranks the submissions, as in 'compare' (default: the main metric of each task)",
        metavar="NAME",
    )

    def check(self) -> Release:
        """Opens the release. Raises InputError if it lacks a set, or the labels of a task."""
        from parapet.transforms.release.reading import open_release

        release = open_release(self.release)
        for name, flag in (("original", "--release"), *((name, "--sets") for name in self.sets)):
            if not dialogue_files(release.root / "sgd" / name, self.split):
                raise InputError(f"the release has no dialogues in sgd/{name}/{self.split}", release.root, flag)
        if ("ood" in self.tasks) != bool(self.ood):
            raise InputError("task ood and the folder with its labels must be given together", "--tasks, --ood")
        return release

    def act(self, release: Release) -> None:
        """Scores the submissions and publishes the page. Raises InputError if none can be scored."""
        from parapet.evaluation.compare import page as reading
        from parapet.evaluation.compare.board import Config, compare_systems
        from parapet.evaluation.task import publish
        from parapet.pipelines.progress import running
        from parapet.schemas.errors import run_header
        from parapet.transforms.report.text import number

        submissions: dict[str, reading.Submission] = {}
        refused: dict[str, str] = {}
        systems: dict[str, list[str]] = {}
        folders = sorted(path for path in Path(self.submissions).iterdir() if path.is_dir() and path.name[0] != ".")
        with running("parapet leaderboard") as progress, TemporaryDirectory() as scores:
            for i, folder in enumerate(folders):
                progress.stage(f"submission {i + 1:,} of {len(folders):,}")
                try:
                    submission, predictions = reading.read_submission(folder, self.tasks)
                    if submission.name in submissions:
                        raise InputError(f"another submission is called {submission.name!r}")
                    outputs = {task: f"{scores}/{i}/{task}" for task in predictions}
                    for task, path in predictions.items():
                        self._score(release, task, path, outputs[task])
                except InputError as error:
                    refused[folder.name] = str(error).replace(f"{folder}/", "").replace(str(folder), folder.name)
                    logging.warning("%s is not scored: %s", folder.name, refused[folder.name])
                    continue
                submissions[submission.name], systems[submission.name] = submission, list(outputs.values())
            if not systems:
                first = next((f"; the first: {name}: {reason}" for name, reason in refused.items()), ": there is none")
                raise InputError(f"no submission was scored{first}", "--submissions")
            progress.stage("page")
            board = compare_systems(systems, Config(metrics=tuple(self.metrics), replicates=0))
        to = f"{release.manifest.name} {release.manifest.version}"
        lead = f"{counted(len(submissions), 'submission')} to {to}, split {self.split}."
        files = reading.submission_files(board, submissions, refused, release.manifest.title, lead)
        recorded = {"release": to, "split": self.split, "tasks": self.tasks, "metrics": self.metrics}
        counts = {"submissions": len(folders), "scored": len(submissions), "refused": len(refused)}
        publish(self.output, files, {**run_header("leaderboard", recorded), "counts": counts})
        for name, rank in reading.ranks_of(board).items():
            say(f"{rank} {name}: {number(board.average[name].value, 1)}")
        say(f"{counted(len(folders), 'submission')}, {len(refused):,} of them not scored: {self.output}/index.html")

    def _score(self, release: Release, task: str, predictions: Path, output: str) -> None:
        """Runs ``parapet evaluate`` in a process of its own, so that no submission can break the leaderboard."""
        from parapet.evaluation.sets import ORIGINAL, open_reference

        flags = ["--reference", self.ood if task == "ood" else str(release.root), "--split", self.split]
        _, variants = open_reference(str(release.root))  # which 'evaluate' finds by itself
        # A release may have schemas without dialogues, such as back-translated ones.
        folders = [folder for folder in sorted((release.root / "sgd").iterdir()) if dialogue_files(folder, self.split)]
        others = [folder for folder in folders if folder.name not in (ORIGINAL, *variants)]
        if self.sets:
            others = [folder for folder in others if folder.name in self.sets]
        if others and task != "ood":
            flags += ["--sets", *(f"{folder.name}={folder}" for folder in others)]
        argv = ["evaluate", "--task", task, *flags, "--predictions", str(predictions), "--output", output, "--quiet"]
        result = subprocess.run([sys.executable, "-P", "-m", "parapet", *argv], capture_output=True, text=True)  # noqa: S603
        if result.returncode:
            lines = result.stderr.strip().splitlines() or ["scoring was killed"]
            raise InputError(f"{task}: {lines[-1].removeprefix('error: ')}")


COMMAND = Leaderboard
