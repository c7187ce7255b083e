"""Convert agents' tasks to a corpus of dialogues, so that perturbations of user turns apply to their requests.

Each user message is a dialogue of one turn. The values of the expected calls are marked as slot values, which
perturbations do not change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from parapet.schemas.errors import InputError
from parapet.schemas.plain_texts import dialogue_of, longest_first, plain_service, user_turn, values_in
from parapet.transforms.perturbation.corpora import Corpus, corpus_of

Task = Mapping[str, Any]

_SPLIT = "test"


def corpus_of_tasks(tasks: Sequence[Task], truths: Mapping[str, Task]) -> Corpus:
    """Convert the user messages to dialogues, with ids for :func:`reworded_tasks`.

    Args:
      tasks: lines of task files.
      truths: the expected calls, by the task's id.
    """
    dialogues = []
    for at, task in enumerate(tasks):
        values = longest_first(values_in(truths.get(task["id"], {}).get("ground_truth", [])))
        dialogues += [dialogue_of(_id(at, *place), [user_turn(text, values)]) for place, text in messages_of(task)]
    return corpus_of({_SPLIT: dialogues}, {_SPLIT: [plain_service()]})


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
        question = [[dict(message) for message in turn] for turn in task["question"]]
        for (i, j), text in messages_of(task):
            new = texts[_id(at, i, j)]
            question[i][j]["content"] = new
            changed += new != text
        messages.append({**task, "question": question})
    return messages, changed


def messages_of(task: Task) -> Iterator[tuple[tuple[int, int], str]]:
    """Yield ((turn, message), text) of each non-empty user message."""
    for i, turn in enumerate(task["question"]):
        for j, message in enumerate(turn):
            if message.get("role") == "user" and isinstance(message.get("content"), str) and message["content"].strip():
                yield (i, j), message["content"]


def _id(task: int, turn: int, message: int) -> str:
    return f"{task:07}_{turn}_{message}"
