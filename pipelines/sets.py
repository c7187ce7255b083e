"""The options that name a corpus and its sets, shared by all tasks of ``evaluate`` and models of ``predict``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from parapet.schemas.errors import InputError
from parapet.schemas.layout import MANIFEST, as_path, is_there, sample_root, split_of_folder
from parapet.transforms.running import options
from parapet.transforms.running.options import INPUT, REQUIRED, option

if TYPE_CHECKING:
    from parapet.evaluation.sets import Sources

REFERENCE = "corpus or release"
VARIANTS = "output of 'rewrite': dialogues under variants' names"
TASKS = "tasks in BFCL's format, with possible_answer/ beside them: files, or a folder"
SETS = "perturbed sets: typos=varied/typos SR-10=heard/SR-10"


@dataclass(frozen=True, kw_only=True)
class SetOptions:
    """A corpus and its sets; the texts are parts of the help."""

    reference_text: ClassVar[str] = f"{REFERENCE} (default: the bundled sample)"
    variants_text: ClassVar[str] = VARIANTS
    sets_text: ClassVar[str] = SETS
    reference: str | None = option(None, "{reference_text}", group=INPUT, metavar="ROOT", reads=True)
    split: str = options.split()
    variants: str | None = option(None, "{variants_text}", group=INPUT, metavar="DIR", reads=True)
    variant: str = options.variant()
    sets: list[str] = option([], "{sets_text}", group=INPUT, metavar="NAME=ROOT", reads=True)

    def sources(self, predictions: str | None = None) -> Sources:
        """Reads what the options name; a reference that is a split's folder determines the split.

        Args:
          predictions: the predictions of all sets, if any.

        Raises:
          InputError: a value is not ``NAME=ROOT``, or the output is one of the inputs.
        """
        from parapet.evaluation.sets import Sources, parse_sets
        from parapet.transforms.perturbation.corpora import listed

        reference = str(self.reference or sample_root())
        others = parse_sets(self.sets)
        split = split_of_folder(reference) or self.split  # the other sets use the same split
        return Sources(reference, split, self.variants, tuple(listed(self.variant)), others, predictions)


@dataclass(frozen=True, kw_only=True)
class LabelledSetOptions(SetOptions):
    """A corpus and its sets, if the labels are not in the predictions."""

    reference: str | None = option(
        None, "{reference_text} (default: the labels in the predictions)", group=INPUT, metavar="PATH", reads=True
    )


def of_run(path: str, task: str) -> str:
    """Returns the folder of predictions in the output of ``predict``; any other path unchanged."""
    folder = as_path(path)
    if path and is_there(path) and (folder / MANIFEST).is_file():
        for name in ("responses", "predictions") if task == "response" else ("predictions",):
            if (folder / name).is_dir():
                return str(folder / name)
    return path


@dataclass(frozen=True, kw_only=True)
class BabiOptions:
    """Dialogues in the bAbI format, and further sets of them."""

    reference_text: ClassVar[str] = "dialogues in the bAbI format"
    reference: list[str] = option([], "{reference_text}", group=INPUT, metavar="FILE", reads=True)
    sets: list[str] = option(
        [], "further sets, files or folders: OOV=babi/task1-tst-OOV.txt", group=INPUT, metavar="NAME=PATH", reads=True
    )


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """Agents' tasks and further sets of them."""

    reference: list[str] = option(REQUIRED, TASKS, group=INPUT, metavar="PATH", reads=True)
    variants: str | None = option(
        None,
        "output of 'rewrite --tasks': v1/FILE, v2/FILE, ..., the same tasks with tools in other words",
        group=INPUT,
        metavar="DIR",
        reads=True,
    )
    sets: list[str] = option([], "further tasks: typos=varied/typos", group=INPUT, metavar="NAME=PATH", reads=True)

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
