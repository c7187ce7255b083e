"""A line on the terminal that says which stage runs and for how long."""

from __future__ import annotations

import logging
import re
from types import TracebackType

_STAGE_LOGGER = "apache_beam.runners.portability.fn_api_runner.fn_runner"
_STEP = re.compile(r"ref_AppliedPTransform_([^)]+?)_\d+\)")


class _Stages(logging.Handler):
    """Hears of each stage from the local runner's log."""

    def __init__(self, progress: Progress) -> None:
        super().__init__(logging.INFO)
        self.progress = progress

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if message.startswith("Running"):
            steps = _STEP.findall(message)
            self.progress.stage(steps[-1].replace("-", " ").replace("_", " ") if steps else "")


class Progress:
    """Context manager; silent where ``enabled`` is false (no terminal, or --quiet)."""

    def __init__(self, title: str, enabled: bool) -> None:
        self.title, self.enabled, self.stages = title, enabled, 0

    def __enter__(self) -> Progress:
        if self.enabled:
            from rich.console import Console

            self.console = Console(stderr=True)
            self.status = self.console.status(f"{self.title}: starting")
            self.status.start()
            logger = logging.getLogger(_STAGE_LOGGER)
            self.handler, self.level, self.propagate = _Stages(self), logger.level, logger.propagate
            logger.addHandler(self.handler)
            logger.setLevel(logging.INFO)
            logger.propagate = False
        return self

    def stage(self, name: str) -> None:
        """Shows the next stage."""
        self.stages += 1
        self.status.update(f"{self.title}: stage {self.stages} [dim]{name}[/dim]")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.enabled:
            logger = logging.getLogger(_STAGE_LOGGER)
            logger.removeHandler(self.handler)
            logger.setLevel(self.level)
            logger.propagate = self.propagate
            self.status.stop()
