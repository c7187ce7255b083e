"""What commands on corpora share: the options that name one and its sets, how the run is recorded and reported."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from parapet.pipelines import app, command
from parapet.pipelines.app import input_paths
from parapet.schemas.errors import InputError
from parapet.schemas.layout import DEAD_LETTERS, MANIFEST, as_path, is_there, sample_root, split_of_folder
from parapet.transforms.core import options
from parapet.transforms.core.options import REQUIRED, folder

if TYPE_CHECKING:
    from parapet.evaluation.sets import Sources
    from parapet.transforms.core.runs import FinishRun, RunInfo

REFERENCE = "corpus or release"
VARIANTS = "output of 'rewrite': dialogues under variants' names"
TASKS = "tasks in BFCL's format, with possible_answer/ beside them: files, or a folder"
SETS = "perturbed sets: typos=varied/typos SR-10=heard/SR-10"


class SetOptions(options.Options):
    """A corpus and its sets; the texts are parts of the help."""

    reference_text: ClassVar[str] = f"{REFERENCE} (default: the bundled sample)"
    variants_text: ClassVar[str] = VARIANTS
    sets_text: ClassVar[str] = SETS
    reference: str | None = folder("{reference_text}", "ROOT", None)
    split: str = options.split()
    variants: str | None = folder("{variants_text}", default=None)
    variant: str = options.variant()
    sets: list[str] = folder("{sets_text}", "NAME=ROOT", [])

    def sources(self, predictions: str | None = None) -> Sources:
        """Reads what the options name; a reference that is a split's folder determines the split.

        Args:
          predictions: the predictions of all sets, if any.

        Raises:
          InputError: a value is not ``NAME=ROOT``, or the output is one of the inputs.
        """
        from parapet.evaluation.sets import Sources, parse_sets
        from parapet.transforms.perturb.corpora import listed

        reference = str(self.reference or sample_root())
        others = parse_sets(self.sets)
        split = split_of_folder(reference) or self.split  # the other sets use the same split
        return Sources(reference, split, self.variants, tuple(listed(self.variant)), others, predictions)


def inputs_of(options: Any) -> list[tuple[str, str]]:
    """Lists what a command's options name, or the sample if they name no reference: all of it is read by workers."""
    sample = [] if options.reference else [("--reference", str(sample_root()))]
    return sample + [(f"--{name}", path) for name, path in input_paths(options)]


def of_run(path: str, task: str) -> str:
    """Returns the folder of predictions in the output of ``predict``; any other path unchanged."""
    folder = as_path(path)
    if path and is_there(path) and (folder / MANIFEST).is_file():
        for name in ("responses", "predictions") if task == "response" else ("predictions",):
            if (folder / name).is_dir():
                return str(folder / name)
    return path


class BabiOptions(options.Options):
    """Dialogues in the bAbI format, and further sets of them."""

    reference_text: ClassVar[str] = "dialogues in the bAbI format"
    reference: list[str] = folder("{reference_text}", "FILE", [])
    sets: list[str] = folder("further sets, files or folders: OOV=babi/task1-tst-OOV.txt", "NAME=PATH", [])


class TaskOptions(options.Options):
    """Agents' tasks and further sets of them."""

    reference: list[str] = folder(TASKS, "PATH", REQUIRED)
    variants: str | None = folder(
        "output of 'rewrite --tasks': v1/FILE, v2/FILE, ..., the same tasks with tools in other words", default=None
    )
    sets: list[str] = folder("further tasks: typos=varied/typos", "NAME=PATH", [])

    def task_sets(self) -> tuple[dict[str, str], tuple[str, ...]]:
        """Returns the sets by name, and the names of those that are variants. Raises InputError if there are none."""
        from parapet.evaluation.sets import parse_sets

        others, folder = parse_sets(self.sets), as_path(self.variants or "")
        if not self.variants:
            return others, ()
        names = sorted(path.name for path in folder.glob("*") if path.is_dir() and path.name[0] != ".")
        if not names:
            raise InputError("contains no folders of variants, such as v1", self.variants, "--variants")
        return {**{name: str(folder / name) for name in names}, **others}, tuple(names)


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
        from parapet.transforms.core.counts import Counts, faults_of, read_dead_letters, reasons_of, warnings_of
        from parapet.transforms.core.inputs import open_input

        for line in self.lines(settings, self.statistics()):
            command.say(line)
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
