"""``parapet perturb NAME --tasks``: perturbs the requests of agents' tasks, or their toolkits."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from parapet.pipelines import app
from parapet.pipelines.command import counted, say
from parapet.pipelines.corpora import TASKS
from parapet.pipelines.perturb import TOOLKITS, TRANSLATING, combined, options_of
from parapet.schemas.errors import InputError, run_header
from parapet.schemas.layout import MANIFEST
from parapet.transforms.core import options
from parapet.transforms.core.options import INPUT, REQUIRED, option
from parapet.transforms.perturb.options import PerturbationOptions

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.perturb.task_corpus import Reworded
    from parapet.transforms.perturb.toolkits import Toolkits


@dataclass(frozen=True)
class TaskSets:
    """The files of tasks, what is done to them, and the head of ``run.json``."""

    files: list[str]
    sets: Reworded | Toolkits
    header: dict[str, Any]


class TasksPipeline(app.Pipeline[TaskSets]):
    """Writes each file of tasks in every set."""

    tasks: list[str] = option(REQUIRED, TASKS, group=INPUT, metavar="PATH", reads=True)

    def files(self) -> list[str]:
        """Lists the files of ``--tasks``. Raises InputError if one cannot be read."""
        from parapet.evaluation.tools.tasks import list_files, read_tasks

        (files,) = list_files(self.tasks, {}).values()
        for path in files:
            read_tasks(path)
        return files

    def inputs(self, tasks: TaskSets) -> list[tuple[str, str]]:
        """Lists the files that workers read: the tasks."""
        return [("--tasks", path) for path in tasks.files]

    def build(self, pipeline: beam.Pipeline, tasks: TaskSets) -> None:
        """Wires the pipeline."""
        import apache_beam as beam

        from parapet.transforms.core import files
        from parapet.transforms.core.counts import CountKey
        from parapet.transforms.core.runs import WriteEach
        from parapet.transforms.perturb.toolkits import Toolkits, catalogue_of

        files.prepare(self.output, tasks.header["pipeline"])
        paths = pipeline | "Files" >> beam.Create(tasks.files)
        side = []
        if isinstance(tasks.sets, Toolkits) and tasks.sets.name != "corrupted":
            once = pipeline | "Once" >> beam.Create([tasks.files], reshuffle=False)
            side = [beam.pvalue.AsSingleton(once | "Catalogue" >> beam.Map(catalogue_of))]
        write = partial(tasks.sets.write, output=self.output)
        outputs = paths | "Tasks" >> WriteEach(write, *side, shown=0, progress=())
        counts = outputs.counts | "By name" >> beam.MapTuple(lambda key, n: (str(CountKey(*key)), n))
        _ = outputs.written | "Publish" >> files.Publish(self.output, tasks.header, counts, tasks.sets.check)

    def report(self, tasks: TaskSets, counters: dict[str, int]) -> None:
        """Prints the number of tasks, or of changed messages, in each set."""
        from parapet.transforms.perturb.corpora import OTHER_LANGUAGES
        from parapet.transforms.perturb.task_corpus import Reworded

        counts = self.written(MANIFEST)["counts"]
        if isinstance(tasks.sets, Reworded):
            if n := counts[OTHER_LANGUAGES]:
                known = ", ".join(tasks.sets.perturbation.languages)
                logging.warning("%s in other languages than %s: they stay as they are", counted(n, "message"), known)
            for name in tasks.sets.sets:
                messages = counted(counts["messages"], "message")
                say(f"{self.output}/{name}: {counts[f'changed/{name}']:,} of {messages} changed")
            return
        for name in tasks.sets.sets:
            fewer = counters.get(f"fewer_tools/{name}")
            lacking = f", {fewer:,} of them with fewer tools than asked for" if fewer else ""
            say(f"{self.output}/{name}: {counted(counts[name], 'task')}{lacking}")


class PerturbTasks(PerturbationOptions, TasksPipeline):
    """A perturbation of what users say in tasks."""

    def check(self) -> TaskSets:
        """Makes the perturbation. Raises InputError if it needs dialogues."""
        from parapet.transforms.perturb.apply import complete
        from parapet.transforms.perturb.task_corpus import Reworded

        files, perturbation = self.files(), complete(self.make())
        if not perturbation.keeps_turns or perturbation.needs_corpus():
            reason = f"{perturbation.name} requires dialogues, but the request of a task is a single turn"
            raise InputError(reason, "--tasks")
        recorded = {"perturbation": perturbation.name, **perturbation.recorded_options()}
        return TaskSets(files, Reworded(perturbation), run_header("perturb_tasks", recorded))


class ChangeToolkits(TasksPipeline):
    """A change of the tools that tasks offer."""

    change: ClassVar[str]
    without: ClassVar[tuple[str, ...]] = ()
    count: list[int] = option([5, 10, 20], "added tools: a set for each number", group="distractors", ge=1)
    seed: str = options.seed("what is drawn")

    def make(self) -> Toolkits:
        """Makes the change."""
        from parapet.transforms.perturb.toolkits import Toolkits

        return Toolkits(self.change, () if "count" in self.without else self.count, self.seed)

    def check(self) -> TaskSets:
        """Reads the tasks."""
        recorded = {name: getattr(self, name) for name in ("seed", "count") if name not in self.without}
        return TaskSets(self.files(), self.make(), run_header(f"perturb_{self.change}", recorded))


# The options that a change does not have.
_WITHOUT = {"distractors": (), "corrupted": ("count",), "missing_tool": ("count", "seed")}


def command(name: str) -> type[TasksPipeline]:
    """Returns the command of a perturbation of tasks, or of a change of their tools.

    Raises InputError if the perturbation is for dialogues, or is not installed.
    """
    if name == TRANSLATING:
        raise InputError(f"{name} is for dialogues: use typos, verbose, simple or paraphrase", "--tasks")
    program = f"perturb {name} --tasks"
    example = f"  parapet perturb {name} --tasks tasks.json --output perturbed"
    if name in TOOLKITS:
        own = {"change": name, "without": _WITHOUT[name], "description": TOOLKITS[name]}
        return combined(ChangeToolkits, name=program, example=example, **own)
    description = (
        f"Perturbs what users say in tasks in BFCL's format, by {name}: OUT/SET/FILE, with the right calls beside it. "
        f"Values that these need stay as they are. For 'parapet evaluate --task tool_calls --sets {name}=OUT/SET'."
    )
    kind = options_of(name)
    without = ("sgd", "messages", "split", "max_bad", "dry_run", *kind.without)
    return combined(kind, PerturbTasks, name=program, description=description, example=example, without=without)
