"""Exports agents' tasks in the formats of other tools: bfcl-eval, inspect-ai and promptfoo."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from parapet.evaluation.tools.agent import functions_of
from parapet.evaluation.tools.checking import Call, fault_of
from parapet.evaluation.tools.tasks import Expected
from parapet.schemas.tasks import ANSWERS

_NO_PARAMETERS = {"type": "dict", "properties": {}}
_BFCL_TYPES = {"object": "dict", "number": "float", "null": "any"}
Rows = Sequence[Expected]
Files = dict[str, bytes]


def export(rows: Rows, to: str, name: str) -> Files:
    """Makes the files of a set, by path.

    Args:
      rows: the tasks.
      to: a format of ``parapet export``.
      name: the name of the set.
    """
    return {"bfcl": _bfcl, "inspect": _inspect, "promptfoo": _promptfoo}[to](rows, name)


def is_right(metadata: Mapping[str, Any], calls: Sequence[Call]) -> bool:
    """Whether the calls that answer a sample of inspect-ai are right.

    Args:
      metadata: the sample's metadata.
      calls: ``{FUNCTION: ARGUMENTS}``.
    """
    return fault_of(metadata["tools"], calls, metadata["ground_truth"]) is None


def right_calls(expected: Expected) -> list[dict[str, Any]]:
    """Returns the calls with the first right value of each parameter, without optional parameters."""
    return [{"name": name, "arguments": _first(right)} for call in expected.calls for name, right in call.items()]


def _first(right: Mapping[str, list[Any]]) -> dict[str, Any]:
    return {key: _plain(values[0]) for key, values in right.items() if values and values[0] != "" and "" not in values}


def _plain(value: Any) -> Any:
    """Converts a right value to that of a call: in a dictionary, each key also has a list of right values."""
    if isinstance(value, dict):
        return _first(value) if all(isinstance(item, list) for item in value.values()) else value
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _lines(rows: Iterable[Any]) -> bytes:
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows).encode()


# bfcl-eval identifies its categories by file name and by the ids in it.


def bfcl_category(expected: Expected) -> str:
    """Returns the BFCL category of a task, by its tools and calls."""
    if not expected.calls:
        return "irrelevance"
    many = len(expected.task.function) > 1
    if len(expected.calls) > 1:
        return "parallel_multiple" if many else "parallel"
    return "multiple" if many else "simple_python"


def _bfcl(rows: Rows, name: str) -> Files:
    counts: Counter[str] = Counter()
    files: dict[str, list[Any]] = {}
    ids = []
    for expected in rows:
        category = bfcl_category(expected)
        task = {"id": f"{category}_{counts[category]}", "question": expected.task.question}
        counts[category] += 1
        functions = [
            {**msgspec.structs.asdict(tool), "parameters": _with_types(tool.parameters or _NO_PARAMETERS)}
            for tool in expected.task.function
        ]
        files.setdefault(f"BFCL_v4_{category}.json", []).append({**task, "function": functions})
        if expected.calls:
            truth = {"id": task["id"], "ground_truth": expected.calls}
            files.setdefault(f"{ANSWERS}/BFCL_v4_{category}.json", []).append(truth)
        ids.append({"id": task["id"], "of": expected.task.id})
    return {f"{name}/{path}": _lines(lines) for path, lines in {**files, "ids.jsonl": ids}.items()}


def _with_types(schema: Any) -> Any:
    """Converts types in a JSON Schema to BFCL's, except for the names under ``properties``."""
    if isinstance(schema, list):
        return [_with_types(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    new: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties" and isinstance(value, dict):
            new[key] = {name: _with_types(subschema) for name, subschema in value.items()}
        elif key == "type":
            first = next((part for part in value if part != "null"), "any") if isinstance(value, list) else value
            new[key] = _BFCL_TYPES.get(first, first)
        else:
            new[key] = value if key in ("default", "enum", "const", "examples") else _with_types(value)
    return new


def _inspect(rows: Rows, name: str) -> Files:
    samples = []
    for expected in rows:
        task, calls = expected.task, _under_legal_names(expected)
        metadata = {"category": task.category, "tools": functions_of(task), "ground_truth": calls}
        target = json.dumps(right_calls(msgspec.structs.replace(expected, calls=calls)), ensure_ascii=False)
        samples.append({"id": task.id, "input": task.messages, "target": target, "metadata": metadata})
    return {f"{name}.jsonl": _lines(samples)}


def _under_legal_names(expected: Expected) -> list[dict[str, Any]]:
    """Returns the right calls with names that APIs accept: without dots."""
    legal = expected.task.legal_names
    return [{legal[name]: right for name, right in call.items()} for call in expected.calls]


# promptfoo passes the provider's answer to the check: a list of calls, or a text if there are none.
_CHECK = """\
// Whether the calls of an answer are right: for promptfoo, made by Parapet. Compares as BFCL's AST checker does: texts
// without case, blanks and punctuation; the order of calls does not count.
const plain = (value) =>
  typeof value === "string" ? value.replace(/[ ,./\\-_*^]/g, "").toLowerCase().replaceAll("'", '"') : value;
const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const same = (value, right) => {
  if (Array.isArray(value) && Array.isArray(right)) {
    return value.length === right.length && value.every((item, i) => same(item, right[i]));
  }
  if (isObject(value) && isObject(right)) return fits(value, right);
  return plain(value) === plain(right);
};
const fits = (values, right) =>
  Object.keys(values).every((key) => Array.isArray(right[key]) && right[key].some((one) => same(values[key], one))) &&
  Object.keys(right).every((key) => key in values || right[key].includes(""));
module.exports = (output, context) => {
  let calls = output;
  if (typeof output === "string") {
    try {
      calls = JSON.parse(output);
    } catch {
      calls = [];
    }
  }
  const left = (Array.isArray(calls) ? calls : []).map((call) => {
    const of = call.function ?? call;
    const given = of.arguments ?? of.input ?? "{}";
    return { name: of.name, values: typeof given === "string" ? JSON.parse(given || "{}") : given };
  });
  const expected = JSON.parse(context.vars.expected);
  if (left.length !== expected.length) {
    return { pass: false, score: 0, reason: `${left.length} calls in place of ${expected.length}` };
  }
  for (const one of expected) {
    const [name, right] = Object.entries(one)[0];
    const at = left.findIndex((call) => call.name === name && fits(call.values, right));
    if (at < 0) return { pass: false, score: 0, reason: `no call is ${JSON.stringify(one)}` };
    left.splice(at, 1);
  }
  return { pass: true, score: 1, reason: "all calls are right" };
};
"""


def _promptfoo(rows: Rows, name: str) -> Files:
    tests = []
    for expected in rows:
        tools = [{"type": "function", "function": function} for function in functions_of(expected.task)]
        tests.append(
            {
                "description": expected.task.id,
                "vars": {
                    "messages": json.dumps(expected.task.messages, ensure_ascii=False),
                    "expected": json.dumps(_under_legal_names(expected), ensure_ascii=False),
                },
                "options": {"tools": [*tools, *expected.task.hosted]},
                "metadata": {"category": expected.task.category, "set": name},
                "assert": [{"type": "javascript", "value": "file://check_calls.cjs"}],
            }
        )
    config = {
        "description": f"Tool calls: {name}",
        "prompts": ["{{messages | safe}}"],
        "providers": ["openai:chat:gpt-4o-mini"],
        "tests": tests,
    }
    # JSON is also YAML, and its texts cannot be misread as other values
    text = json.dumps(config, indent=1, ensure_ascii=False)
    return {f"{name}/promptfooconfig.yaml": f"{text}\n".encode(), f"{name}/check_calls.cjs": _CHECK.encode()}
