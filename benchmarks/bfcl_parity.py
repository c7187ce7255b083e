"""Compares verdicts on tool calls with BFCL's published checker: ``python -m benchmarks.bfcl_parity PACKAGE DATA``.

PACKAGE is a folder with ``bfcl_eval`` (``pip download --no-deps bfcl-eval``, unzipped), DATA one with BFCL's files of
tasks and ``possible_answer/``. The compared answers are the right ones with up to two changes each: values of other
types, other spellings, and parameters and calls that are missing, added or reordered.
"""

from __future__ import annotations

import copy
import sys
import types
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from parapet.evaluation.tools.checking import fault_of
from parapet.evaluation.tools.tasks import Expected, read_tasks

ROUNDS = 12  # answers to each task


def published_checker(package: str) -> Any:
    """Imports ``ast_checker`` from the package, without the clients of models that it would import."""
    sys.path.insert(0, package)
    table = types.ModuleType("bfcl_eval.constants.model_config")
    config = types.SimpleNamespace(underscore_to_dot=False)
    table.MODEL_CONFIG_MAPPING = defaultdict(lambda: config)  # type: ignore[attr-defined]
    sys.modules[table.__name__] = table
    for language in ("java", "js"):
        name = f"bfcl_eval.eval_checker.ast_eval.type_convertor.{language}_type_converter"
        sys.modules[name] = types.ModuleType(name)
        setattr(sys.modules[name], f"{language}_type_converter", None)
    from bfcl_eval.constants.enums import Language  # type: ignore[import-not-found]
    from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker  # type: ignore[import-not-found]

    return lambda *arguments: ast_checker(*arguments[:3], Language.PYTHON, arguments[3], "any")["valid"]


def right_calls(one: Expected, random: Random) -> list[dict[str, Any]]:
    """Draws calls with right values."""
    calls = []
    for call in one.calls:
        for name, parameters in call.items():
            arguments = {}
            for parameter, right in parameters.items():
                value = random.choice(right or [[]])
                if value != "" or random.random() < 0.2:
                    arguments[parameter] = _concrete(value, random)
            calls.append({name: arguments})
    return calls


def _concrete(value: Any, random: Random) -> Any:
    if isinstance(value, list):
        return [_concrete(item, random) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {key: of for key, of in value.items() if not (isinstance(of, list) and "" in of and random.random() < 0.5)}
    return {
        key: _concrete(random.choice(of), random) if isinstance(of, list) and of else of for key, of in kept.items()
    }


def _changed(value: Any, random: Random) -> Any:
    """Returns another value, of the same or another type."""
    if isinstance(value, bool):
        options: list[Any] = [not value, str(value), int(value), None]
    elif isinstance(value, int):
        options = [value + 1, float(value), str(value), -value, True, [value], None]
    elif isinstance(value, float):
        options = [int(value), value + 0.5, str(value), value * 2]
    elif isinstance(value, str):
        options = [value.upper(), value.replace(" ", ""), f"{value}.", value.replace(",", " -"), f"{value}x", "",
                   value.replace("'", '"'), 3, [value], {"a": value}, value[::-1]]  # fmt: skip
    elif isinstance(value, list):
        options = [value[::-1], value + value[:1], value[1:], [], [_changed(item, random) for item in value],
                   str(value), [str(item) for item in value], {}]  # fmt: skip
    elif isinstance(value, dict):
        options = [{**value, "zz": 1}, {}, str(value), [value]]
        for key in value:
            options += [{**value, key: _changed(value[key], random)}, {k: v for k, v in value.items() if k != key}]
    else:
        options = ["x"]
    return random.choice(options)


def mutated(calls: list[dict[str, Any]], one: Expected, random: Random) -> list[dict[str, Any]]:
    """Applies up to two changes to the calls."""
    calls = copy.deepcopy(calls)
    for _ in range(random.choice([0, 1, 1, 1, 2])):
        if not calls:
            break
        at, kind = random.randrange(len(calls)), random.random()
        name, arguments = next(iter(calls[at].items()))
        if kind < 0.1:
            calls[at] = {random.choice([f"{name}x", random.choice(one.task.function).name]): arguments}
        elif kind < 0.14:
            calls.pop(at)
        elif kind < 0.18:
            calls.append(copy.deepcopy(calls[at]))
        elif kind < 0.23:
            random.shuffle(calls)
        elif kind < 0.26:
            calls[at] = {name.replace(".", "_"): arguments}
        elif kind < 0.34 and arguments:
            arguments.pop(random.choice(sorted(arguments)))
        elif kind < 0.39:
            arguments["extra"] = 1
        elif kind < 0.44:
            known = sorted(one.task.function[0].parameters.get("properties", {})) or ["extra"]
            arguments.setdefault(random.choice(known), random.choice(["", 1, 2.5, [], True, {}]))
        elif arguments:
            key = random.choice(sorted(arguments))
            arguments[key] = _changed(arguments[key], random)
    return calls


def main(package: str, data: str, seed: str = "0") -> int:
    """Prints a line for each file; returns 1 if a verdict differs."""
    check, random, differing = published_checker(package), Random(seed), 0
    for path in sorted(Path(data).glob("BFCL*.json")):
        category = path.stem.removeprefix("BFCL_v4_")
        n = right = raised = other = 0
        for task in read_tasks(str(path)).values() if "irrelevance" not in category else ():
            tools = [msgspec.to_builtins(tool) for tool in task.task.function]
            for _ in range(ROUNDS):
                calls = mutated(right_calls(task, random), task, random)
                ours = fault_of(tools, calls, task.calls) is None
                try:
                    theirs = bool(check(tools, copy.deepcopy(calls), task.calls, category))
                except (KeyError, TypeError, AttributeError, IndexError):
                    theirs, raised = ours, raised + 1
                n, right, other = n + 1, right + theirs, other + (ours != theirs)
        if n:
            print(f"{path.name}: {n:,} answers, {right:,} right, {other:,} verdicts differ, {raised:,} it cannot judge")
        differing += other
    return int(differing > 0)


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
