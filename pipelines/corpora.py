"""What commands that write dialogues share: they prepare the output, record the run, and report what they left out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from parapet.pipelines import app
from parapet.pipelines.command import say
from parapet.schemas.layout import DEAD_LETTERS, MANIFEST, sample_root

if TYPE_CHECKING:
    from parapet.transforms.core.runs import FinishRun, RunInfo


class CorpusPipeline(app.Pipeline[app.Settings]):
    """A pipeline that writes dialogues.

    Its settings may have ``tallies`` of the records that ``max_bad`` limits. Simulations have no such records.

    Attributes:
      done: what could not be done to a bad record, for messages.
      unusable: what becomes of it.
    """

    done: ClassVar[str] = "used"
    unusable: ClassVar[str] = "left out"

    @property
    def root(self) -> str:
        """The corpus of ``--sgd``, or the sample."""
        return getattr(self, "sgd", "") or str(sample_root())

    def inputs(self, settings: app.Settings) -> list[tuple[str, str]]:
        """Lists the corpus, if the command has one."""
        return [("--sgd", self.root)] if hasattr(self, "sgd") else []

    def run_info(self, options: Mapping[str, object]) -> RunInfo:
        """Describes the run, given the options that affect the content."""
        from parapet.transforms.core.runs import RunInfo

        if (max_bad := getattr(self, "max_bad", None)) is not None:
            options = {**options, "max_bad": float(max_bad)}
        return RunInfo(self.name, self.output, options, max_bad or Fraction(0), self.done)

    def finish(self, config: Any, metadata_files: Callable[..., Any], *side: Any, shown: int = 12) -> FinishRun:
        """Makes the last step, which checks and publishes the outputs; ``config`` knows what they must be."""
        from parapet.transforms.core.runs import FinishRun

        return FinishRun(
            self.run_info(config.options()),
            partial(metadata_files, config=config),
            *side,
            tallies=getattr(config, "tallies", None),
            invariants=config.invariants(),
            shown=shown,
        )

    def report(self, settings: app.Settings, counters: dict[str, int]) -> int | None:
        """Prints the results, and warns about records that were left out: how many, why, and where they are listed.

        Records lost to bugs in Parapet or a plug-in are errors, which are shown with ``--quiet``, too.
        """
        from parapet.transforms.core.compressed import open_input
        from parapet.transforms.core.counts import Counts, faults_of, read_dead_letters, reasons_of, warnings_of

        for line in self.lines(settings, self.statistics()):
            say(line)
        if (tallies := getattr(settings, "tallies", None)) is None:
            return None
        place, manifest = f"{self.output}/{DEAD_LETTERS}", self.written(MANIFEST)
        with open_input(place) as lines:
            letters = list(read_dead_letters(lines))
        for line in warnings_of(tallies(Counts.of_json(manifest["counts"])), reasons_of(letters), place, self.unusable):
            logging.warning("%s", line)
        plugins = manifest.get("plugins", ())
        names = (f"the plug-in {plugin['name']!r} ({plugin['distribution']} {plugin['version']})" for plugin in plugins)
        for line in faults_of(letters, place, " or ".join(names)):
            logging.error("%s", line)
        return None

    def lines(self, settings: app.Settings, statistics: Any) -> Iterable[str]:
        """Yields the results, to be printed."""
        raise NotImplementedError
