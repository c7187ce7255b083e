"""``parapet rewrite --tasks``: renames tools in BFCL tasks, and in the expected calls, as in tool variants."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from parapet.pipelines.corpora import CorpusPipeline
from parapet.schemas.layout import MANIFEST
from parapet.transforms.report.text import counted
from parapet.transforms.variants import VariantOptions

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.variants.tasks import TaskVariants


class RewriteTasks(VariantOptions, CorpusPipeline["TaskVariants"]):
    """``parapet rewrite --tasks``."""

    name = "rewrite"
    without = (*VariantOptions.without, "sgd")

    def check(self) -> TaskVariants:
        """Reads the variants. Raises InputError if they cannot be used."""
        from parapet.schemas.layout import NAMES
        from parapet.schemas.limits import MAX_FILE, read_whole
        from parapet.transforms.variants.matching import find_variants
        from parapet.transforms.variants.tasks import TaskVariants, list_tasks
        from parapet.transforms.variants.tool_variants import read_variant

        paths = find_variants(self.variants, self.variant_names)
        variants = [read_variant(name, path) for name, path in paths.items()]
        mappings = {name: read_whole(path / NAMES, MAX_FILE) for name, path in paths.items()}
        return TaskVariants(list_tasks(self.tasks), variants, mappings)

    def inputs(self, tasks: TaskVariants) -> list[tuple[str, str]]:
        """Lists the files that workers read: the tasks."""
        return [("--tasks", file.path) for file in tasks.files]

    def wire(self, pipeline: beam.Pipeline, tasks: TaskVariants) -> None:
        """Writes tasks and answers for each variant."""
        import apache_beam as beam

        from parapet.transforms.core.runs import WriteEach
        from parapet.transforms.variants.tasks import metadata_files, write_file

        write_tasks = partial(write_file, variants=tasks.variants, output=self.output)
        write = WriteEach(write_tasks, shown=0, progress=("files", "tasks"))
        outputs = pipeline | "Files" >> beam.Create(tasks.files) | "Tasks" >> write
        _ = outputs | "Finish" >> self.finish(tasks, metadata_files)

    def statistics(self) -> Any:
        """Reads the counts of the run."""
        from parapet.transforms.core.counts import Counts

        return Counts.of_json(self.written(MANIFEST)["counts"])

    def lines(self, tasks: TaskVariants, statistics: Any) -> Iterator[str]:
        """Yields the number of tasks of each variant."""
        for name in tasks.names:
            rewritten = counted(statistics.sum("written", set=name), "task")
            yield f"{name}: {rewritten} rewritten, {statistics.sum('left_out', set=name):,} left out"
