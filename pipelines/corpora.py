"""What commands that write dialogues share: they prepare the output, record the run, and report what they left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from parapet.pipelines import app
from parapet.pipelines.command import say, warn_dead_letters

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.running.runs import FinishRun, RunInfo


class CorpusPipeline(app.Pipeline[app.Settings]):
    """A pipeline that writes dialogues.

    Its settings may have ``tallies`` of the records that ``max_bad`` limits. Simulations have no such records.

    Attributes:
      done: what could not be done to a bad record, for messages.
      unusable: what becomes of it.
    """

    done: ClassVar[str] = "used"
    unusable: ClassVar[str] = "left out"

    def run_info(self, options: Mapping[str, object]) -> RunInfo:
        """Describes the run, given the options that affect the content."""
        from parapet.transforms.running.runs import RunInfo

        if (max_bad := getattr(self, "max_bad", None)) is not None:
            options = {**options, "max_bad": float(max_bad)}
        return RunInfo(self.name, self.output, options, max_bad or Fraction(0), self.done)

    def build(self, pipeline: beam.Pipeline, settings: app.Settings) -> None:
        """Prepares the output folder, and wires the pipeline."""
        from parapet.transforms.storage.files import prepare

        prepare(self.output, self.name)
        self.wire(pipeline, settings)

    def wire(self, pipeline: beam.Pipeline, settings: app.Settings) -> None:
        """Wires the pipeline."""
        raise NotImplementedError

    def finish(self, config: Any, metadata_files: Callable[..., Any], *side: Any, shown: int = 12) -> FinishRun:
        """Makes the last step, which checks and publishes the outputs; ``config`` knows what they must be."""
        from functools import partial

        from parapet.transforms.running.runs import FinishRun

        return FinishRun(
            self.run_info(config.options()),
            partial(metadata_files, config=config),
            *side,
            tallies=getattr(config, "tallies", None),
            invariants=config.invariants(),
            shown=shown,
        )

    def report(self, settings: app.Settings, counters: dict[str, int]) -> int | None:
        """Prints the results, and warns about records that were left out."""
        for line in self.lines(settings, self.statistics()):
            say(line)
        if tallies := getattr(settings, "tallies", None):
            warn_dead_letters(self.output, tallies, self.unusable)
        return None

    def lines(self, settings: app.Settings, statistics: Any) -> Iterable[str]:
        """Yields the results, to be printed."""
        raise NotImplementedError
