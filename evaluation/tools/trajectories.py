"""Scores recorded trajectories of agents call by call, in the format of tau2-bench (Barres et al. 2025).

A task names the actions that solve it; a simulation has the messages of one run. An action is done if a call of the run
has its function and arguments, compared as by tau2's own action check: nested JSON by its content, and only the
``compare_args`` of an action that has them. Additional calls are counted but are no error, as a run may look things up.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from parapet.evaluation.sets import existing_file
from parapet.evaluation.tools.checking import Call, Fault
from parapet.evaluation.tools.tasks import Expected, ToolTask
from parapet.schemas.errors import InputError, reason_and_place
from parapet.schemas.layout import parse_json
from parapet.schemas.limits import MAX_FILE, read_whole


class Action(msgspec.Struct, frozen=True):
    """A call that is expected from an agent or the simulated user."""

    action_id: str
    name: str
    arguments: dict[str, Any]
    compare_args: list[str] | None = None


class _Criteria(msgspec.Struct, frozen=True):
    actions: list[Action] | None = None


class _Task(msgspec.Struct, frozen=True):
    id: str | int
    user_scenario: dict[str, Any] = {}
    evaluation_criteria: _Criteria | None = None


class _ToolCall(msgspec.Struct, frozen=True):
    name: str
    arguments: dict[str, Any]


class _Message(msgspec.Struct, frozen=True):
    role: str
    tool_calls: list[_ToolCall] | None = None


class _Simulation(msgspec.Struct, frozen=True):
    task_id: str | int
    messages: list[_Message]
    trial: int | None = None


class _Results(msgspec.Struct, frozen=True):
    simulations: list[_Simulation]


def are_tau2(path: str) -> bool:
    """Whether a file of tasks is in tau2's format: a list of objects with ``evaluation_criteria``."""
    data = read_whole(existing_file(path), MAX_FILE)
    return data.lstrip().startswith(b"[") and b'"evaluation_criteria"' in data


def read_trajectories(tasks: str, results: str) -> list[tuple[Expected, list[Call] | None]]:
    """Reads each expected action of each run, with the run's calls of its function.

    Args:
      tasks: tau2's ``tasks.json``.
      results: the output of ``tau2 run``: an object with ``simulations``.

    Raises:
      InputError: a file cannot be read, or a simulation belongs to no task.
    """
    by_id = {str(task.id): task for task in _read(tasks, list[_Task])}
    runs = []
    for i, run in enumerate(_read(results, _Results).simulations):
        task = by_id.get(str(run.task_id))
        if task is None:
            raise InputError(f"there is no task {str(run.task_id)!r}", results, f"simulations[{i}]")
        calls: list[Call] = [
            {call.name: call.arguments} for message in run.messages for call in message.tool_calls or ()
        ]
        runs += list(_actions(task, run, calls))
    if not runs:
        raise InputError("no task of these simulations expects a call", results)
    return runs


def _actions(task: _Task, run: _Simulation, calls: list[Call]) -> Iterator[tuple[Expected, list[Call] | None]]:
    instructions = task.user_scenario.get("instructions")
    reason = instructions.get("reason_for_call", "") if isinstance(instructions, dict) else instructions or ""
    trial = f"#{run.trial}" if run.trial else ""
    for action in (task.evaluation_criteria and task.evaluation_criteria.actions) or ():
        request = ToolTask(f"{task.id}{trial}/{action.action_id}", [[{"role": "user", "content": str(reason)}]], [])
        right = [{action.name: {key: [value] for key, value in action.arguments.items()}}]
        yield Expected(request, right, action), [call for call in calls if action.name in call]


def action_fault(action: Action, calls: list[Call]) -> Fault | None:
    """Returns why an action was not done; None if one of the calls of its function does it."""
    if not calls:
        return Fault("wrong_function", "", action.name)
    faults = [_fault(action, call[action.name]) for call in calls]
    return None if None in faults else faults[-1]


def _fault(action: Action, arguments: dict[str, Any]) -> Fault | None:
    compared = list(arguments) if action.compare_args is None else action.compare_args
    right = {key: _meant(value) for key, value in action.arguments.items() if key in compared}
    if not compared or right == (called := {key: _meant(arguments[key]) for key in arguments if key in compared}):
        return None
    if more := next((key for key in called if key not in right), ""):
        return Fault("unexpected_parameter", more)
    if fewer := next((key for key in right if key not in called), ""):
        return Fault("missing_parameter", fewer)
    where = next(key for key, value in called.items() if value != right[key])
    return Fault("wrong_value", where, repr(right[where]))


def _meant(value: Any) -> Any:
    """Parses JSON in texts, at any depth of a value."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return _meant(json.loads(value))
        except (ValueError, RecursionError):
            return value
    if isinstance(value, dict):
        return {key: _meant(item) for key, item in value.items()}
    return [_meant(item) for item in value] if isinstance(value, list) else value


def _read(path: str, kind: Any) -> Any:
    raw = parse_json(read_whole(existing_file(path), MAX_FILE), path)
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        reason, at = reason_and_place(error)
        raise InputError(reason, path, at) from None
