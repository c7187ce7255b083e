"""Convert agents' tasks to a corpus of dialogues, so that perturbations of user turns apply to their requests.

Each user message is a dialogue of one turn. The values of the expected calls are marked as slot values, which
perturbations do not change.
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
    """Convert the user messages to dialogues, with ids for :func:`reworded_tasks`.

    Args:
      tasks: lines of task files.
      truths: the expected calls, by the task's id.
    """
    dialogues = []
    for at, task in enumerate(tasks):
        values = sorted(
            set(values_in(truths.get(task["id"], {}).get("ground_truth", []))), key=lambda value: (-len(value), value)
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
    """Return the tasks with the messages of a perturbed corpus, and the number of changed messages.

    Raises:
      InputError: the perturbation adds or removes turns.
    """
    texts = {}
    for dialogue in corpus.dialogues(_SPLIT):
        if len(dialogue["turns"]) != 1:
            raise InputError("adds or leaves out turns: a task's request is one turn")
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
    """Yield ((turn, message), text) of each non-empty user message."""
    for i, turn in enumerate(task["question"]):
        for j, message in enumerate(turn):
            if message.get("role") == "user" and isinstance(message.get("content"), str) and message["content"].strip():
                yield (i, j), message["content"]


def values_in(calls: Any) -> Iterator[str]:
    """Yield every text and number in calls, at any depth, except names of parameters; also the parts of texts.

    A user who wants "New York, NY" may say "New York", so the texts between commas, names and numbers are values, too.
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
    """Return the positions of values in a text without overlaps; earlier values have priority."""
    taken: list[tuple[int, int]] = []
    for value in values:
        for match in re.finditer(rf"(?<!\w){re.escape(value)}(?!\w)", text, re.IGNORECASE):
            if all(match.end() <= start or match.start() >= end for start, end in taken):
                taken.append(match.span())
    return taken
