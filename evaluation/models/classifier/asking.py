"""What a classifier is asked in one run: the files of the reference in all of its sets."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from parapet.evaluation.dst.sets import ORIGINAL, Given, Plan, Set, make_plan
from parapet.evaluation.models.classifier.data import Turn, is_of_ood, read_turns, turns_of_corpus
from parapet.evaluation.ood.reading import OOD
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, is_there

Source = tuple[tuple[str, str], ...]  # (set, path) of a file in all sets that have it: they are asked at one time


class Asked(msgspec.Struct, frozen=True):
    """All files of a run.

    Attributes:
      sources: the largest first; of what is no corpus one, without a set.
      split: whose turns.
      renamed: by set, how the intents of its schema are called in the original's.
      remarks: what its owner should know.
    """

    sources: list[Source]
    split: str
    renamed: dict[str, dict[str, dict[str, str]]] = {}
    remarks: list[str] = []


def find(given: Given, task: str) -> Asked:
    """The files that are named.

    Args:
      given: a reference: a corpus, a file of JSON lines, or a folder that ``parapet ood`` wrote; of a corpus its
        variants and further sets too.
      task: ``intent`` or ``ood``.

    Raises:
      InputError: something is not there, or cannot be asked for this task.
    """
    path = given.reference
    if not is_there(path):
        raise InputError("there is no such file or folder", path, "--reference")
    file, foreign = as_path(path).is_file(), is_of_ood(path)
    if (file or foreign) and (given.variants or given.others):
        raise InputError("go with a corpus: the reference is none", "--variants, --sets")
    if file or foreign:
        asked = Asked([(("", path),)], given.split)
        if next(turns_of(asked, 0, task), None) is None:  # says at once what is wrong with it
            raise InputError(f"there are no user turns of {given.split!r} in it", path, "--reference")
        return asked
    plan = make_plan(given)
    sources = [tuple((one.set, one.reference) for one in job.members) for job in plan.jobs]
    return Asked(sources, given.split, {name: renamed(one, plan) for name, one in plan.sets.items()}, plan.remarks)


def renamed(one: Set, plan: Plan) -> dict[str, dict[str, str]]:
    """Intents of a variant as its original calls them: they stand at the same place of the service."""
    original = plan.sets[ORIGINAL].services
    found = {}
    for name, service in one.services.items():
        other = original.get(plan.originals.get(name, name)) if one.kind == "variant" else None
        if other is not None and len(other.intents) == len(service.intents):
            pairs = zip(service.intents, other.intents, strict=True)
            found[name] = {mine.name: its.name for mine, its in pairs if mine.name != its.name}
    return found


def turns_of(asked: Asked, number: int, task: str) -> Iterator[Turn]:
    """The turns of a file in all its sets, by dialogue and turn. Raises InputError where it cannot be read."""
    found = [turn for name, path in asked.sources[number] for turn in _read(asked, name, path, task)]
    yield from sorted(found, key=lambda turn: (turn.key[1], turn.key[2], turn.key[0]))


def _read(asked: Asked, name: str, path: str, task: str) -> Iterator[Turn]:
    if not name:
        yield from read_turns(path, asked.split, task)
        return
    for turn in turns_of_corpus(path, name, asked.renamed.get(name, {})):
        if task == OOD:
            yield msgspec.structs.replace(turn, label="")  # whether it is foreign is nowhere said
        elif turn.label:
            yield turn
