"""Tasks of agents as a corpus of dialogues, so that any perturbation of user turns perturbs their requests.

Each message of the user's is a dialogue of one turn. What the right calls need of it is marked as values of slots,
which perturbations leave as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from parapet.schemas.errors import InputError
from parapet.transforms.perturbation.corpora import Corpus, corpus_of

Task = Mapping[str, Any]

_SPLIT = "test"
_SERVICE, _INTENT = "Tools_1", "UseTools"
_MOST_VALUES = 40  # of a message


def corpus_of_tasks(tasks: Sequence[Task], truths: Mapping[str, Task]) -> Corpus:
    """The user's messages as dialogues; their ids are those of :func:`reworded_tasks`.

    Args:
      tasks: lines of files of tasks.
      truths: the right calls, by the task's id.
    """
    dialogues = []
    for at, task in enumerate(tasks):
        values = sorted(
            set(values_in(truths.get(task["id"], {}).get("ground_truth", []))), key=lambda one: (-len(one), one)
        )
        dialogues += [_dialogue(_id(at, *place), text, values) for place, text in messages_of(task)]
    slots = [
        {"name": f"value_{i}", "description": "A value", "is_categorical": False, "possible_values": []}
        for i in range(_MOST_VALUES)
    ]
    intent = {"name": _INTENT, "description": "Use tools", "is_transactional": False, "required_slots": [],
              "optional_slots": {}, "result_slots": []}  # fmt: skip
    service = {"service_name": _SERVICE, "description": "Tools", "slots": slots, "intents": [intent]}
    return corpus_of({_SPLIT: dialogues}, {_SPLIT: [service]})


def reworded_tasks(tasks: Sequence[Task], corpus: Corpus) -> tuple[list[dict[str, Any]], int]:
    """The tasks with the messages of a perturbed corpus, and how many messages changed.

    Raises:
      InputError: the perturbation does not keep turns as they are.
    """
    texts = {}
    for dialogue in corpus.dialogues(_SPLIT):
        if len(dialogue["turns"]) != 1:
            raise InputError("adds or removes turns, but the request of a task is a single turn")
        texts[dialogue["dialogue_id"]] = dialogue["turns"][0]["utterance"]
    changed, found = 0, []
    for at, task in enumerate(tasks):
        question = [[dict(message) for message in turn] for turn in task["question"]]
        for (i, j), text in messages_of(task):
            new = texts[_id(at, i, j)]
            question[i][j]["content"] = new
            changed += new != text
        found.append({**task, "question": question})
    return found, changed


def messages_of(task: Task) -> Iterator[tuple[tuple[int, int], str]]:
    """((turn, message), text) of each message of the user's that says something."""
    for i, turn in enumerate(task["question"]):
        for j, message in enumerate(turn):
            if message.get("role") == "user" and isinstance(message.get("content"), str) and message["content"].strip():
                yield (i, j), message["content"]


def values_in(calls: Any) -> Iterator[str]:
    """Every text and number of calls, however deep, but for the names of parameters; also the parts of texts.

    A user who wants "New York, NY" says "New York": what stands between commas, names and numbers are values, too.
    """
    if isinstance(calls, Mapping):
        for value in calls.values():
            yield from values_in(value)
    elif isinstance(calls, list):
        for value in calls:
            yield from values_in(value)
    elif isinstance(calls, int | float) and not isinstance(calls, bool):
        yield f"{calls:g}"
        yield str(calls)
    elif isinstance(calls, str) and calls.strip():
        yield calls.strip()
        yield from filter(None, map(str.strip, re.split(r"[,;/()]", calls)))
        yield from (word for word in re.findall(r"\w+", calls) if len(word) > 1 and not word.islower())


def _id(task: int, turn: int, message: int) -> str:
    return f"{task:07}_{turn}_{message}"


def _dialogue(name: str, text: str, values: Iterable[str]) -> dict[str, Any]:
    spans = sorted(_spans(text, values))[:_MOST_VALUES]
    slots = [{"slot": f"value_{i}", "start": start, "exclusive_end": end} for i, (start, end) in enumerate(spans)]
    said = {f"value_{i}": [text[start:end]] for i, (start, end) in enumerate(spans)}
    actions = [{"act": "INFORM", "slot": slot, "values": of, "canonical_values": of} for slot, of in said.items()]
    state = {"active_intent": _INTENT, "requested_slots": [], "slot_values": said}
    frame = {"service": _SERVICE, "actions": actions, "slots": slots, "state": state}
    turn = {"speaker": "USER", "utterance": text, "frames": [frame]}
    return {"dialogue_id": name, "services": [_SERVICE], "turns": [turn]}


def _spans(text: str, values: Iterable[str]) -> list[tuple[int, int]]:
    """Where values stand in a text, the first ones first; they do not overlap."""
    taken: list[tuple[int, int]] = []
    for value in values:
        for match in re.finditer(rf"(?<!\w){re.escape(value)}(?!\w)", text, re.IGNORECASE):
            if all(match.end() <= start or match.start() >= end for start, end in taken):
                taken.append(match.span())
    return taken
