"""Perturb the requests of agents' tasks: each file of tasks is a corpus, whose user turns are perturbed.

Each text of a user message is a dialogue of one turn. The values of the expected calls are marked as slot values, which
perturbations do not change.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.schemas.plain_texts import dialogue_of, longest_first, plain_service, user_turn, values_in
from parapet.schemas.tasks import ANSWERS, answers_beside, by_id
from parapet.transforms.perturbation.base import Perturbation
from parapet.transforms.perturbation.corpora import Corpus, corpus_of
from parapet.transforms.perturbation.corpus import perturbed_sets
from parapet.transforms.perturbation.languages import OTHER_LANGUAGES, check_most, language_of
from parapet.transforms.running.runs import FileResult
from parapet.transforms.storage.files import Written, write_staged

Task = Mapping[str, Any]

Rows = list[dict[str, Any]]

_SPLIT = "test"


class Reworded(msgspec.Struct, frozen=True):
    """The sets of tasks whose messages are perturbed."""

    perturbation: Perturbation

    @property
    def sets(self) -> Sequence[str]:
        """Return the names of the sets."""
        return self.perturbation.sets

    def write(self, path: str, output: str) -> FileResult:
        """Write a file of tasks, and the right calls beside it, in every set.

        Raises:
          InputError: the perturbation adds or removes turns.
        """
        result = FileResult(path)
        tasks, truths = read_rows(path)
        right = {truth["id"]: truth for truth in truths}
        corpus, others = corpus_of_tasks(tasks, right, self.perturbation.languages)
        result.counts.add("messages", sum(1 for task in tasks for _ in messages_of(task)))
        for language, n in others.items():
            result.counts.add(OTHER_LANGUAGES, n, set=language)
        for name, perturbed in perturbed_sets(corpus, self.perturbation).items():
            reworded, changed = reworded_tasks(tasks, perturbed)
            result.counts.add("changed", changed, set=name)
            result.written += write_rows(output, name, path, reworded, truths)
        return result

    def check(self, counts: Mapping[str, int]) -> dict[str, int]:
        """Return the summed counts for ``run.json``. Raises InputError if most messages are in other languages."""
        others = {key.partition("/")[2]: n for key, n in counts.items() if key.startswith(OTHER_LANGUAGES)}
        check_most(
            self.perturbation.name, self.perturbation.languages, counts["messages"], others, "--tasks", "message"
        )
        kept = {key: n for key, n in counts.items() if not key.startswith(OTHER_LANGUAGES)}
        return {**kept, OTHER_LANGUAGES: sum(others.values())}


def read_rows(path: str) -> tuple[Rows, Rows]:
    """Read the tasks of a file and, if there are any, the right calls beside it."""
    return _rows(as_path(path)), _rows(answers_beside(as_path(path)))


def _rows(path: Path) -> Rows:
    return list(by_id(path.read_bytes(), path).values()) if path.is_file() else []


def write_rows(output: str, name: str, path: str, tasks: Rows, truths: Rows) -> list[Written]:
    """Write tasks and, if there are any, their right calls in a set, under the name of their file."""
    file = as_path(path).name
    files = {f"{name}/{file}": tasks, f"{name}/{ANSWERS}/{file}": truths}
    return [write_staged(output, place, _json_lines(rows)) for place, rows in files.items() if rows]


def _json_lines(rows: Rows) -> bytes:
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows).encode("utf-8", "surrogatepass")


def corpus_of_tasks(
    tasks: Sequence[Task], truths: Mapping[str, Task], languages: Collection[str] = ()
) -> tuple[Corpus, Counter[str]]:
    """Convert the texts of user messages to dialogues, with ids for :func:`reworded_tasks`.

    Args:
      tasks: lines of task files.
      truths: the expected calls, by the task's id.
      languages: messages in another language, or of a task in another, are left out; if empty, none are.

    Returns:
      The corpus, and the number of messages that are left out, by language.
    """
    dialogues, others, known = [], Counter[str](), ("", *languages)
    for at, task in enumerate(tasks):
        values = longest_first(values_in(truths.get(task["id"], {}).get("ground_truth", [])))
        texts = list(messages_of(task))
        of_task = language_of(" ".join(text for _, text in texts))
        for place, text in texts:
            language = of_task if of_task not in known else language_of(text)
            if languages and language not in known:
                others[language] += 1
            else:
                dialogues.append(dialogue_of(_id(at, *place), [user_turn(text, values)]))
    return corpus_of({_SPLIT: dialogues}, {_SPLIT: [plain_service()]}), others


def reworded_tasks(tasks: Sequence[Task], corpus: Corpus) -> tuple[list[dict[str, Any]], int]:
    """Return the tasks with the messages of a perturbed corpus, and the number of changed messages.

    Raises:
      InputError: the perturbation adds or removes turns.
    """
    texts = {}
    for dialogue in corpus.dialogues(_SPLIT):
        if len(dialogue["turns"]) != 1:
            raise InputError("adds or removes turns, but the request of a task is a single turn")
        texts[dialogue["dialogue_id"]] = dialogue["turns"][0]["utterance"]
    changed, messages = 0, []
    for at, task in enumerate(tasks):
        question = copy.deepcopy(task["question"])
        for (i, j, k), text in messages_of(task):
            new = texts.get(_id(at, i, j, k), text)
            if k < 0:
                question[i][j]["content"] = new
            else:
                question[i][j]["content"][k]["text"] = new
            changed += new != text
        messages.append({**task, "question": question})
    return messages, changed


def messages_of(task: Task) -> Iterator[tuple[tuple[int, int, int], str]]:
    """Yield ((turn, message, part), text) of each non-empty text of the user; the part of a plain text is -1."""
    for i, turn in enumerate(task["question"]):
        for j, message in enumerate(turn):
            content = message.get("content") if message.get("role") == "user" else None
            parts = [*enumerate(content)] if isinstance(content, list) else [(-1, {"type": "text", "text": content})]
            for k, part in parts:
                text = part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None
                if isinstance(text, str) and text.strip():
                    yield (i, j, k), text


def _id(task: int, turn: int, message: int, part: int) -> str:
    return f"{task:07}_{turn}_{message}" + (f"_{part}" if part >= 0 else "")
