"""Perturb the requests of agents' tasks: each text of a user message is perturbed as a dialogue of one turn.

The values of the expected calls are marked as slot values, which perturbations do not change.
"""

import copy
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from parapet.schemas.layout import as_path
from parapet.schemas.messages import longest_first, values_in
from parapet.schemas.tasks import ANSWERS, answers_beside, by_id
from parapet.transforms.core.files import Written, write_staged
from parapet.transforms.core.runs import FileResult
from parapet.transforms.perturb import apply, base, corpora

Task = Mapping[str, Any]

Rows = list[dict[str, Any]]


class Reworded(msgspec.Struct, frozen=True):
    """The sets of tasks whose messages are perturbed."""

    perturbation: base.Perturbation

    @property
    def sets(self) -> Sequence[str]:
        """Returns the names of the sets."""
        return self.perturbation.sets

    def write(self, path: str, output: str) -> FileResult:
        """Writes a file of tasks, and the right calls beside it, in every set."""
        result = FileResult(path)
        tasks, truths = read_rows(path)
        right = {truth["id"]: truth for truth in truths}
        texts, others = texts_of_tasks(tasks, right, self.perturbation.languages)
        result.counts.add("messages", sum(1 for task in tasks for _ in messages_of(task)))
        for language, n in others.items():
            result.counts.add(corpora.OTHER_LANGUAGES, n, set=language)
        for name, perturbed in apply.perturbed_texts(texts, self.perturbation).items():
            reworded, changed = reworded_tasks(tasks, perturbed)
            result.counts.add("changed", changed, set=name)
            result.written += write_rows(output, name, path, reworded, truths)
        return result

    def check(self, counts: Mapping[str, int]) -> dict[str, int]:
        """Returns the summed counts for ``run.json``. Raises InputError if most messages are in other languages."""
        others = {key.partition("/")[2]: n for key, n in counts.items() if key.startswith(corpora.OTHER_LANGUAGES)}
        corpora.check_most(
            self.perturbation.name, self.perturbation.languages, counts["messages"], others, "--tasks", "message"
        )
        kept = {key: n for key, n in counts.items() if not key.startswith(corpora.OTHER_LANGUAGES)}
        return {**kept, corpora.OTHER_LANGUAGES: sum(others.values())}


def read_rows(path: str) -> tuple[Rows, Rows]:
    """Reads the tasks of a file and, if there are any, the right calls beside it."""
    return _rows(as_path(path)), _rows(answers_beside(as_path(path)))


def _rows(path: Path) -> Rows:
    return list(by_id(path.read_bytes(), path).values()) if path.is_file() else []


def write_rows(output: str, name: str, path: str, tasks: Rows, truths: Rows) -> list[Written]:
    """Writes tasks and, if there are any, their right calls in a set, under the name of their file."""
    file = as_path(path).name
    files = {f"{name}/{file}": tasks, f"{name}/{ANSWERS}/{file}": truths}
    return [write_staged(output, place, _json_lines(rows)) for place, rows in files.items() if rows]


def _json_lines(rows: Rows) -> bytes:
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows).encode("utf-8", "surrogatepass")


def texts_of_tasks(
    tasks: Sequence[Task], truths: Mapping[str, Task], languages: Collection[str] = ()
) -> tuple[dict[str, tuple[str, list[str]]], Counter[str]]:
    """Collects the texts of user messages.

    Args:
      tasks: lines of task files.
      truths: the expected calls, by the task's id.
      languages: messages in another language, or of a task in another, are left out; if empty, none are.

    Returns:
      Each text with the values that its task's calls need, by an id for :func:`reworded_tasks`; and the number of
        messages that are left out, by language.
    """
    texts, others, known = {}, Counter[str](), ("", *languages)
    for at, task in enumerate(tasks):
        values = longest_first(values_in(truths.get(task["id"], {}).get("ground_truth", [])))
        messages = [(place, holder[key]) for place, holder, key in messages_of(task)]
        of_task = corpora.language_of(" ".join(text for _, text in messages))
        for place, text in messages:
            language = of_task if of_task not in known else corpora.language_of(text)
            if languages and language not in known:
                others[language] += 1
            else:
                texts[_id(at, *place)] = text, values
    return texts, others


def reworded_tasks(tasks: Sequence[Task], texts: Mapping[str, str]) -> tuple[list[dict[str, Any]], int]:
    """Returns the tasks with other texts of messages, by id, and the number of changed messages."""
    changed, reworded = 0, []
    for at, task in enumerate(tasks):
        new_task = {**task, "question": copy.deepcopy(task["question"])}
        for place, holder, key in messages_of(new_task):
            new = texts.get(_id(at, *place), holder[key])
            changed += new != holder[key]
            holder[key] = new
        reworded.append(new_task)
    return reworded, changed


def messages_of(task: Task) -> Iterator[tuple[tuple[int, int, int], dict[str, Any], str]]:
    """Yields ((turn, message, part), object, key) of each non-empty user text; the part of a plain text is -1."""
    for i, turn in enumerate(task["question"]):
        for j, message in enumerate(turn):
            if message.get("role") != "user":
                continue
            holders = [(-1, message, "content")]
            if isinstance(message.get("content"), list):
                parts = [part if isinstance(part, dict) else {} for part in message["content"]]
                holders = [(k, part, "text") for k, part in enumerate(parts) if part.get("type") == "text"]
            for k, holder, key in holders:
                if isinstance(holder.get(key), str) and holder[key].strip():
                    yield (i, j, k), holder, key


def _id(task: int, turn: int, message: int, part: int) -> str:
    return f"{task:07}_{turn}_{message}" + (f"_{part}" if part >= 0 else "")
