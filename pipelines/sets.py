"""The options that name a corpus and its sets, shared by all tasks of ``evaluate`` and models of ``predict``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from parapet.pipelines.app import input_paths
from parapet.schemas.errors import InputError
from parapet.schemas.layout import MANIFEST, as_path, is_there, sample_root, split_of_folder
from parapet.transforms.core import options
from parapet.transforms.core.options import REQUIRED, folder

if TYPE_CHECKING:
    from parapet.evaluation.sets import Sources

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
