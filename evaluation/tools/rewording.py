"""Measures the effect of the checker on losses: values that are wrong only because the request was reworded.

A request for "the Big Apple" instead of "New York" is answered with "the Big Apple", but the right calls still have
"New York". Part of the loss on perturbed requests is of this kind (Rabinovich and Anaby-Tavor 2025, arXiv 2504.00914),
and is reported separately.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from parapet.evaluation.tools.checking import Call, Fault, fault_of, plain
from parapet.evaluation.tools.tasks import UNREADABLE, Expected


def task_fault(expected: Expected, calls: list[Call] | None) -> Fault | None:
    """Returns what is wrong with the calls for a task; None if they are right."""
    if calls is None:
        return Fault("unreadable") if expected.calls else None  # as in BFCL, an unreadable answer calls nothing
    if calls == [UNREADABLE]:
        return Fault("unreadable")
    tools = [msgspec.structs.asdict(tool) for tool in expected.task.function]
    return fault_of(tools, calls, expected.calls)


def is_reworded(expected: Expected, calls: list[Call] | None, original: str | None) -> bool:
    """Whether wrong calls would be right if new words of the request were accepted where it lost the right values.

    Args:
      expected: the task of the set.
      calls: the wrong calls.
      original: the request of the same task in the reference; None if it is missing.
    """
    if not calls or calls == [UNREADABLE] or original is None or original == expected.task.request:
        return False
    before, now = plain(original), plain(expected.task.request)
    own = sorted({text for text in _texts(calls) if plain(text) and plain(text) in now and plain(text) not in before})

    def with_own(right: list[Any]) -> list[Any]:
        own_texts = [plain(value) for value in right if isinstance(value, str) and value]
        was_lost = any(value in before for value in own_texts) and not any(value in now for value in own_texts)
        return [*right, *own] if was_lost else right

    lenient = [
        {
            name: {parameter: with_own(right) for parameter, right in parameters.items()}
            for name, parameters in call.items()
        }
        for call in expected.calls
    ]
    return bool(own) and task_fault(Expected(expected.task, lenient), calls) is None


def _texts(calls: list[Call]) -> Iterator[str]:
    for call in calls:
        for arguments in call.values():
            yield from (value for value in arguments.values() if isinstance(value, str))
