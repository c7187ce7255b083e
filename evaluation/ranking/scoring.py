"""Accuracy per response and per dialogue (Bordes et al. 2017, section 5), and of API calls field by field."""

from __future__ import annotations

from collections.abc import Sequence

from parapet.evaluation.lines import ALL, Key, with_mean
from parapet.evaluation.ranking.reading import Response, TestFile

API_CALL = "api_call"
FIELDS = ("cuisine", "location", "number", "price")
OF_CALLS = (API_CALL, *(f"{API_CALL}_{field}" for field in FIELDS))
METRICS = ("per_response", "per_dialogue", *OF_CALLS)

# Of a response: per_dialogue is that of the last one of a dialogue, what is of calls of calls alone.
Values = dict[str, float | None]


def is_right(response: Response) -> bool:
    """Whether the answer is the reference, to the letter; blanks at the ends do not count."""
    return response.answer.strip() == response.reference.strip()


def call_values(reference: str, answer: str) -> Values:
    """How much of an API call is right; nothing of what is no call, in the reference.

    Fields are by position. An answer that is no call has all of them wrong. A call of other than four fields (of task
    6, say) is scored as a whole alone.
    """
    wanted = reference.split()
    if wanted[:1] != [API_CALL]:
        return {}
    given = answer.split()
    found: Values = {API_CALL: float(given == wanted)}
    if len(wanted) == len(FIELDS) + 1:
        called = given[:1] == [API_CALL]
        for i, field in enumerate(FIELDS, 1):
            found[f"{API_CALL}_{field}"] = float(called and len(given) > i and given[i] == wanted[i])
    return found


def values_of(responses: Sequence[Response]) -> list[Values]:
    """``METRICS`` of each response of a file; of those of dialogues, the last response has the value."""
    wrong: set[int] = {one.dialogue for one in responses if not is_right(one)}
    found: list[Values] = []
    for i, one in enumerate(responses):
        values: Values = dict.fromkeys(METRICS)
        values["per_response"] = float(is_right(one))
        if i + 1 == len(responses) or responses[i + 1].dialogue != one.dialogue:
            values["per_dialogue"] = float(one.dialogue not in wrong)
        found.append(values | call_values(one.reference, one.answer))
    return found


def means(rows: Sequence[Values]) -> Values:
    """The mean of each metric over the rows that have it; None where none has."""
    found: Values = {}
    for name in METRICS:
        known = [value for row in rows if (value := row[name]) is not None]
        found[name] = sum(known) / len(known) if known else None
    return found


def evaluate(files: Sequence[TestFile]) -> tuple[dict[str, Values], list[tuple[Key, Response, Values]]]:
    """(``metrics.json``, the rows) of test files: all responses together, and each file."""
    rows: list[tuple[Key, Response, Values]] = []
    groups: dict[str, Values] = {}
    for file in sorted(files, key=lambda file: file.name):
        values = values_of(file.responses)
        groups[file.name] = means(values)
        # Dialogues of two files are never the same, though both are counted from 0.
        keys = [(file.name, f"{file.name}/{one.dialogue}", one.turn) for one in file.responses]
        rows += zip(keys, file.responses, values, strict=True)
    return with_mean({ALL: means([values for _, _, values in rows]), **groups}), rows
