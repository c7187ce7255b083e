"""A line on the terminal that says which stage runs, and for how long."""

from __future__ import annotations

import logging
import re
from types import TracebackType

# Where the local runner tells of each bundle it starts.
_LOGGER = "apache_beam.runners.portability.fn_api_runner.fn_runner.run_bundle"
_STEP = re.compile(r"ref_AppliedPTransform_([^)]+?)_\d+\)")


class _Stages(logging.Handler):
    """Hears of each stage from the local runner's log."""

    def __init__(self, progress: Progress) -> None:
        super().__init__(logging.DEBUG)
        self.progress = progress

    def emit(self, record: logging.LogRecord) -> None:
        if record.msg.startswith("Running bundle"):
            names = dict.fromkeys(step_name(step) for step in _STEP.findall(record.getMessage()))
            self.progress.stage(", ".join(names)[:80])


def step_name(step: str) -> str:
    """``Read-responses-ParDo-ReadResponses-`` is of the step "Read responses": ours are a capital and small letters."""
    return re.match(r"[^-]*(?:-[a-z][^-A-Z]*(?![^-]))*", step)[0].replace("-", " ")  # type: ignore[index]


class Progress:
    """Context manager; silent where ``enabled`` is false (no terminal, or --quiet)."""

    def __init__(self, title: str, enabled: bool) -> None:
        self.title, self.enabled, self.stages = title, enabled, 0

    def __enter__(self) -> Progress:
        if self.enabled:
            from rich.console import Console
            from rich.progress import Progress as Bar
            from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

            columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
            self.bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self.task = self.bar.add_task(f"{self.title}: starting", total=None)
            self.bar.start()
            logger = logging.getLogger(_LOGGER)
            self.handler, self.level, self.propagate = _Stages(self), logger.level, logger.propagate
            logger.addHandler(self.handler)
            logger.setLevel(logging.DEBUG)
            logger.propagate = False
        return self

    def stage(self, name: str) -> None:
        """Shows the next stage."""
        self.stages += 1
        self.bar.update(self.task, description=f"{self.title}: stage {self.stages}, {name}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.enabled:
            logger = logging.getLogger(_LOGGER)
            logger.removeHandler(self.handler)
            logger.setLevel(self.level)
            logger.propagate = self.propagate
            self.bar.stop()
