"""``parapet rewrite --tasks``: renames tools in BFCL tasks, and in the expected calls, as in tool variants."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from parapet.pipelines import app
from parapet.pipelines.command import counted, say, warn_dead_letters
from parapet.schemas.errors import InputError
from parapet.transforms.variants import VariantOptions

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.schemas.dialogue import DialogueFile
    from parapet.transforms.variants.tasks import TaskVariant


@dataclass(frozen=True)
class TaskVariants:
    """The files of tasks, and the variants."""

    files: list[DialogueFile]
    variants: list[TaskVariant]

    @property
    def names(self) -> list[str]:
        """The names of the variants."""
        return [variant.name for variant in self.variants]


@dataclass(frozen=True, kw_only=True)
class RewriteTasks(VariantOptions, app.Pipeline[TaskVariants]):
    """``parapet rewrite --tasks``."""

    name = "rewrite"

    def check(self) -> TaskVariants:
        """Reads the variants. Raises InputError if they cannot be used."""
        from parapet.transforms.variants.matching import find_variants
        from parapet.transforms.variants.tasks import list_tasks, read_variant

        if self.sgd:
            raise InputError("cannot be combined with --tasks: give one of the two", "--sgd")
        if self.mapping != "auto":
            raise InputError(
                "is for --sgd, not for --tasks: the names.json of each variant has the names of tools", "--mapping"
            )
        paths = find_variants(self.variants, self.variant_names)
        return TaskVariants(list_tasks(self.tasks), [read_variant(name, path) for name, path in paths.items()])

    def inputs(self, tasks: TaskVariants) -> list[tuple[str, str]]:
        """Lists the files that workers read: the tasks."""
        return [("--tasks", file.path) for file in tasks.files]

    def build(self, pipeline: beam.Pipeline, tasks: TaskVariants) -> None:
        """Writes tasks and answers for each variant."""
        import apache_beam as beam

        from parapet.schemas.tools import NAMES
        from parapet.transforms.running.counts import Balance, CountKey, Equal
        from parapet.transforms.running.runs import FinishRun, RunInfo, WriteEach
        from parapet.transforms.storage.files import prepare
        from parapet.transforms.variants.tasks import tallies, write_file

        prepare(self.output, self.name)
        recorded = {"variants": tasks.names, "max_bad": float(self.max_bad)}
        mappings = {f"{variant.name}/{NAMES}": variant.mapping for variant in tasks.variants}
        variants = [msgspec.structs.replace(variant, mapping=b"") for variant in tasks.variants]  # workers need it not
        write = WriteEach(
            partial(write_file, variants=variants, output=self.output), shown=0, progress=("files", "tasks")
        )
        finish = FinishRun(
            RunInfo(self.name, self.output, recorded, self.max_bad, self.done),
            lambda *_: mappings,
            tallies=partial(tallies, variants=tasks.names),
            invariants=[
                Equal({CountKey("files"): len(tasks.files)}),
                Balance("tasks", ["written", "left_out"], sets=tasks.names),
            ],
        )
        _ = pipeline | "Files" >> beam.Create(tasks.files) | "Tasks" >> write | "Finish" >> finish

    def report(self, tasks: TaskVariants, counters: dict[str, int]) -> None:
        """Prints the number of tasks of each variant."""
        from parapet.schemas.layout import MANIFEST
        from parapet.transforms.running.counts import Counts
        from parapet.transforms.storage.files import read_written
        from parapet.transforms.variants.tasks import tallies

        counts = Counts.of_json(json.loads(read_written(self.output, MANIFEST))["counts"])
        for name in tasks.names:
            say(
                f"{name}: {counted(counts.sum('written', set=name), 'task')} rewritten, "
                f"{counts.sum('left_out', set=name):,} left out"
            )
        warn_dead_letters(self.output, partial(tallies, variants=tasks.names))
