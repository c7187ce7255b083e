"""Convert agents' tasks to a corpus of dialogues, so that perturbations of user turns apply to their requests.

Each text of a user message is a dialogue of one turn. The values of the expected calls are marked as slot values, which
perturbations do not change.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from parapet.schemas.errors import InputError
from parapet.schemas.plain_texts import dialogue_of, longest_first, plain_service, user_turn, values_in
from parapet.transforms.perturbation.corpora import Corpus, corpus_of
from parapet.transforms.perturbation.languages import language_of

Task = Mapping[str, Any]

_SPLIT = "test"


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
