"""``parapet export``: writes agents' tasks in the formats of bfcl-eval, inspect-ai and promptfoo."""

from typing import Any, Literal

from parapet.pipelines import app, command, corpora
from parapet.schemas.errors import InputError
from parapet.transforms.core import options

Format = Literal["bfcl", "inspect", "promptfoo"]


class Export(corpora.TaskOptions, app.Command[dict[str, list[str]]]):
    """``parapet export``; its settings are the files of tasks by set."""

    name = "export"
    description = (
        "Writes tasks of agents, their variants and perturbed sets as other tools read them: OUT/original, OUT/v1, ..."
    )
    example = "  parapet export --reference tasks.jsonl --variants rewritten --to promptfoo --output exported"
    note = """\
bfcl: files for bfcl-eval's data folder; inspect: a dataset of inspect-ai; promptfoo: a configuration with test cases.
docs/tools.md shows how each is used."""
    to: Format = options.option(options.REQUIRED, "format", group=options.OUTPUT)
    output: str = options.output_folder()

    def check(self) -> dict[str, list[str]]:
        """Lists the tasks' files. Raises InputError if there are none."""
        from parapet.evaluation.tools.tasks import list_files

        sets, _ = self.task_sets()
        return list_files(self.reference, sets)

    def act(self, sets: dict[str, list[str]]) -> None:
        """Reads the tasks and publishes the exported files."""
        from parapet.evaluation.task import publish
        from parapet.evaluation.tools.exports import export
        from parapet.evaluation.tools.tasks import read_tasks
        from parapet.schemas.errors import run_header

        files: dict[str, bytes] = {}
        counts: dict[str, int] = {}
        for name, paths in sets.items():
            rows = dict[str, Any]()
            for path in paths:
                tasks = read_tasks(path)
                if same := rows.keys() & tasks:
                    raise InputError(f"two tasks of the set {name} are called {min(same)!r}", path)
                rows |= tasks
            files |= export(list(rows.values()), self.to, name)
            counts[name] = len(rows)
        publish(self.output, files, {**run_header("export", {"to": self.to, "sets": list(sets)}), "counts": counts})
        for name, n in counts.items():
            command.say(f"{name}: {command.counted(n, 'task')}")


COMMAND = Export
