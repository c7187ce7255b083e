"""The folder that ``hits --task rewrites`` has made: which turns were asked about, and with which words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from parapet.schemas.errors import InputError
from parapet.transforms.crowd_variations.asked import AskedTurn
from parapet.transforms.files import join, read_bytes
from parapet.transforms.hits.kept_values import KeptValue
from parapet.transforms.hits.terms import REWRITES

MANIFEST = "manifest.jsonl"


class Task(msgspec.Struct, frozen=True):
    """Of a line of the manifest what tells whether the turn is still the same."""

    task: str
    task_id: str
    dialogue_id: str = ""
    turn: int = -1
    utterance: str = ""
    values: list[KeptValue] = []


_decode = msgspec.json.Decoder(Task).decode


def read_tasks(folders: Iterable[str]) -> dict[str, list[Task]]:
    """The tasks of folders of ``hits``, by dialogue; each once.

    Raises:
      InputError: no such folder, no rewriting tasks in it, or two folders that do not agree.
    """
    found: dict[str, Task] = {}
    for folder in folders:
        for task in _of_folder(folder):
            if found.setdefault(task.task_id, task) != task:
                reason = (
                    f"{task.task_id} asks about another sentence than in an earlier folder: give those of one corpus"
                )
                raise InputError(reason, folder, "--hits")
    tasks: dict[str, list[Task]] = defaultdict(list)
    for _, task in sorted(found.items()):
        tasks[task.dialogue_id].append(task)
    return dict(tasks)


def _of_folder(folder: str) -> list[Task]:
    path = join(folder, MANIFEST)
    try:
        lines = read_bytes(path).splitlines()
    except OSError:
        raise InputError(f"there is no {MANIFEST}: give the output of 'parapet hits'", folder, "--hits") from None
    tasks = []
    for number, line in enumerate(lines, 1):
        try:
            task = _decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"not a manifest of 'parapet hits': {error}", path, f"row {number}") from None
        if task.task == REWRITES:
            tasks.append(task)
    if not tasks:
        raise InputError("has no rewriting tasks: make them with 'parapet hits --task rewrites'", folder, "--hits")
    return tasks


def check_same(task: Task, turn: AskedTurn | str) -> None:
    """Raises InputError unless the corpus still has what the task asked about."""
    if isinstance(turn, str):
        why = turn
    elif turn.utterance != task.utterance:
        why = f"workers saw {task.utterance!r}, and the corpus has {turn.utterance!r}"
    elif [mark.kept for unit in turn.units for mark in unit.marks] != task.values:
        why = "its values are annotated otherwise now"
    else:
        return
    reason = f"{task.task_id} is not what it was: {why}; give --sgd and --split as they were given to 'parapet hits'"
    raise InputError(reason, "--hits")
