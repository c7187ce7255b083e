"""Reads the answers of OpenAI-compatible servers, in the many forms in which these send text, reasoning and calls."""

import ast
import json
import operator
import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

_TEXTS = ("text", "output_text", "refusal")  # types of the parts of content that a reader sees
_CALLS = ("tool_use", "tool_call", "function_call")  # of parts that are calls
_NAMES = ("name", "function", "tool_name", "tool", "recipient_name")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "tool_input")
_LISTS = ("calls", "tool_calls", "tool_call", "function_call", "tool_uses")
_AROUND = re.compile(r"^(?:functions|default_api|tools?)[.:]|\.call$|:\d+$")  # what models write around names
_THOUGHT = re.compile(r"<(/?)(?:think|thinking|thought|reasoning)>|\[(/?)THINK\]", re.IGNORECASE)
_FENCED = re.compile(r"\s*```\w*\s*(.*?)\s*```\s*", re.DOTALL)
_BEGIN = re.compile(r"[\[{]")
# A mark, the name, and after further marks the arguments as JSON or, below, in tags of their own.
_MARK = (
    r"<function=|<invoke name=\"|\[TOOL_CALLS\]|<\|tool_call_begin\|>|<｜tool▁call▁begin｜>(?!function<)|"
    r"<｜tool▁sep｜>(?=\w)|<tool_call>(?=\s*\w)|\bto="
)
_TAGGED = re.compile(rf"(?:{_MARK})\s*([\w.-]+)(?:(?!{_MARK}|</|<parameter|<arg_key)[^{{}}()]){{0,80}}")
_PARAMETER = re.compile(
    r"(?:<parameter(?:=| name=\")|<arg_key>)([^<>\"]+)(?:\"?>|</arg_key>\s*<arg_value>)"
    r"((?:(?!<parameter|<arg_).)*?)</(?:parameter|arg_value)>",
    re.DOTALL,
)
_CODE = re.compile(r"(?:```tool_code|<\|python_tag\|>|<tool_call>)(.*?)(?:```|<[/|]|$)", re.DOTALL)
_MEANT = re.compile(
    r"<[/|｜]*(?:tool[_▁]?call|function|invoke)|\[TOOL_CALLS\]|<\|python_tag\|>|```tool_code|\bto=functions\b|"
    r"\"(?:arguments|tool_calls?|function_call)\"\s*:|^\s*(?:```\w*\s*)?(?:[\[{]\s*[\"'{]|\[\s*[\w.]+\()",
    re.IGNORECASE,
)
_MOST_SCANNED = 1 << 24  # characters that are read again after what is not JSON
_LARGEST = 1 << 20  # number that is raised to a power, of at most 64

_OPERATIONS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
}  # fmt: skip

Calls = list[tuple[str, str]]


class Unreadable(Exception):
    """An answer without the requested content; the message is a one-word reason."""


class Reply(msgspec.Struct, frozen=True):
    """An answer.

    Attributes:
      text: the model's text without its reasoning; empty if it only calls tools.
      tool_calls: (name, arguments as JSON text) of each call.
      tokens: the tokens of request and answer, as counted by the server; 0 if it does not count them.
      characters: length of the request, for estimates of further requests.
      kept: whether it came from the cache.
      written: whether the calls were read from the text, because the server passed none.
    """

    text: str
    tool_calls: Sequence[tuple[str, str]] = ()
    tokens: tuple[int, int] = (0, 0)
    characters: int = 0
    kept: bool = False
    written: bool = False


def read_reply(body: Any) -> Reply:
    """Converts the decoded body of an answer. Raises Unreadable if it is no chat completion."""
    try:
        message = body["choices"][0]["message"]
        content, calls = message.get("content"), message.get("tool_calls")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise Unreadable("no_message") from None
    parts = content if isinstance(content, list) else [content]
    text = "".join(map(text_of, parts)) or text_of(message.get("refusal"))
    calls = calls if isinstance(calls, list) else [calls]
    calls = [call for call in calls if call] or [call for call in [message.get("function_call")] if call]
    calls = calls or [part for part in parts if isinstance(part, dict) and part.get("type") in _CALLS]
    usage = body.get("usage")
    counts = [usage.get(key) if isinstance(usage, dict) else 0 for key in ("prompt_tokens", "completion_tokens")]
    sent, answered = (int(n) if isinstance(n, int | float) and 0 <= n < 1 << 53 else 0 for n in counts)
    return Reply(_without_thoughts(_sound(text)), [call_of(call) or ("", "{}") for call in calls], (sent, answered))


def text_of(part: Any) -> str:
    """Returns the text of a part of content; empty for reasoning, images and the like."""
    if isinstance(part, dict) and part.get("type", "text") in _TEXTS:
        part = part.get("text", part.get("refusal"))
    return part if isinstance(part, str) else ""


def _without_thoughts(text: str) -> str:
    """Removes reasoning in ``<think>``. The opening tag may be part of the prompt, and the answer may end within it."""
    answer, start, is_thought = list[str](), 0, False
    for tag in _THOUGHT.finditer(text):
        if tag[1] or tag[2]:
            answer, start, is_thought = answer if is_thought else [], tag.end(), False
        elif not is_thought:
            answer.append(text[start : tag.start()])
            is_thought = True
    if not is_thought:
        answer.append(text[start:])
    return "".join(answer).strip() if start or is_thought else text


def call_of(value: Any) -> tuple[str, str] | None:
    """Returns the name of a call and its arguments as JSON text; None if it has no name.

    Known forms are those of OpenAI, old and new, Anthropic (``input``) and what models write (``parameters``).
    """
    function = value.get("function") if isinstance(value, dict) else None
    value = function if isinstance(function, dict) else value
    names = [value[key] for key in _NAMES if value.get(key)] if isinstance(value, dict) else [None]
    name = names[0] if names else None
    if not isinstance(name, str) or not name.strip():
        return None
    return _sound(name.strip()), as_text(next((value[key] for key in _ARGUMENTS if key in value), None))


def as_text(arguments: Any) -> str:
    """Returns arguments as the text of an object if they can be read as one, else as they came."""
    for _ in range(3):  # some servers encode them twice
        if not isinstance(arguments, str):
            break
        text = _unfenced(arguments).strip()
        value = _parse(text) if text else None
        if isinstance(value, dict):
            return text
        if value is None and text not in ("", "null"):
            return _sound(arguments)
        arguments = value
    if isinstance(arguments, list) and len(arguments) < 2:  # PHP has an empty list for an empty object
        arguments = arguments[0] if arguments else None
    if arguments is None:
        return "{}"
    try:
        return json.dumps(arguments, ensure_ascii=False)
    except RecursionError:
        return ""


def _unfenced(text: str) -> str:
    fenced = _FENCED.fullmatch(text)
    return fenced[1] if fenced else text


def _parse(text: str) -> Any:
    """Parses JSON; returns None if it is not JSON, or nested too deeply."""
    try:
        return msgspec.json.decode(text.encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def arguments_in(text: str) -> dict[str, Any]:
    """Parses the arguments of a call. Raises Unreadable, ``bad_arguments``, if they are no object."""
    value = _parse(text)
    if not isinstance(value, dict):
        raise Unreadable("bad_arguments")
    return value


def values_in(text: str) -> Iterator[Any]:
    """Yields the JSON objects and lists in a text, from left to right, without those inside others."""
    decode, at, left, length = json.JSONDecoder().raw_decode, 0, _MOST_SCANNED, len(text.rstrip())
    while left > 0 and (begin := _BEGIN.search(text, at)):
        at = begin.start() + 1
        try:
            end = decode(text, begin.start())[1]
        except json.JSONDecodeError as error:
            if error.msg.startswith("Unterminated") or error.pos >= length:
                return  # the answer was cut off: its parts are not the answer
            left -= 16 + error.pos - at + error.pos // 64  # the place in the error is computed from the beginning
            continue
        except (ValueError, RecursionError):  # a number with too many digits
            return
        if (value := _parse(text[begin.start() : end])) is not None:
            yield value
        at = end


def object_in(text: str, keys: Iterable[str] = ()) -> dict[str, Any]:
    """Parses the JSON object in an answer, ignoring text around it.

    Args:
      text: the answer.
      keys: the requested keys. Of several objects the last one with most of them counts.

    Raises:
      Unreadable: there is none: ``not_json``.
    """
    requested, best = frozenset(keys), None
    for value in values_in(text):
        while requested and isinstance(value, dict) and len(value) == 1 and requested.isdisjoint(value):
            (inner,) = value.values()
            if not isinstance(inner, dict):
                break
            value = inner
        if isinstance(value, dict) and (best is None or len(requested & value.keys()) >= len(requested & best.keys())):
            best = value
    if best is None:
        raise Unreadable("not_json")
    return best


def written_calls(text: str, tools: Mapping[str, Any]) -> Calls:
    """Reads the calls that an answer has in its text, as of servers that do not parse them.

    These are JSON (``<tool_call>{"name": …, "arguments": …}</tool_call>``, fenced or bare), JSON or tagged parameters
    after a name (``<function=NAME>{…}``, ``[TOOL_CALLS]NAME{…}``) and Python (``[f(a="x")]``). They count only if all
    of them call tools that were offered.

    Args:
      text: the answer.
      tools: the name of each tool to the JSON Schema of its arguments.
    """
    tags = list(_TAGGED.finditer(text))
    ends = [*(tag.start() for tag in tags[1:]), len(text)]
    calls = [
        (name, arguments)
        for tag, end in zip(tags, ends, strict=False)
        if (arguments := _tagged(text[tag.end() : end], tools.get(name := own_name(tag[1], tools)))) is not None
    ]
    calls = calls or [call for value in values_in(text) for call in _calls_in(value, tools)]
    if not calls:
        begin, code = re.search(rf"\[\s*{_either(tools)}\s*\(", text), _CODE.search(text)
        source = code[1] if code else text[begin.start() : text.rfind("]") + 1] if begin else _unfenced(text)
        source = re.sub(r"^print\((.*)\)$", r"\1", source.strip(), flags=re.MULTILINE)
        python = python_calls(re.sub(r"\)[ ;]*\n\s*(?=[\w.]+\()", "),", source)) or []
        calls = [
            (name, json.dumps(arguments, ensure_ascii=False)) for call in python for name, arguments in call.items()
        ]
    calls = [(own_name(name, tools), arguments) for name, arguments in calls]
    return calls if all(name in tools for name, _ in calls) else []


def own_name(name: str, names: Collection[str]) -> str:
    """Returns the name of a tool without what models write around it, such as ``functions.``."""
    bare = name if name in names else _AROUND.sub("", name)
    return bare if bare in names else name


def _tagged(text: str, schema: Any) -> str | None:
    """Returns the arguments at the beginning of a text that follows the name of a call; None if they are none."""
    if text.startswith("{"):
        try:
            return text[: json.JSONDecoder().raw_decode(text)[1]]
        except (ValueError, RecursionError):
            return ""
    if not text.startswith("<") and text.strip():
        return None
    properties = schema.get("properties") if isinstance(schema, dict) else None
    arguments, tags = {}, list(_PARAMETER.finditer(text))
    if len(tags) < len(re.findall("<parameter|<arg_key", text)):
        return ""  # it was cut off
    for match in tags:
        name, value = (part.strip() for part in match.groups())
        kind = (properties or {}).get(name)
        is_text = isinstance(kind, dict) and kind.get("type") == "string"
        arguments[name] = value if is_text or (parsed := _parse(value)) is None else parsed
    return json.dumps(arguments, ensure_ascii=False)


def is_meant_as_call(text: str, names: Collection[str]) -> bool:
    """Whether an answer that is a text was probably to be a call. An empty list of calls is none."""
    value = _parse(_unfenced(text))
    if value == [] or (isinstance(value, dict) and any(key in value and not value[key] for key in _LISTS)):
        return False
    return bool(_MEANT.search(text) or re.match(rf"\s*(?:```\w*\s*)?\[?\s*{_either(names)}\s*\(", text))


def _either(names: Collection[str]) -> str:
    return f"(?:{'|'.join(map(re.escape, sorted(names))) or '(?!)'})"


def _calls_in(value: Any, names: Collection[str]) -> Iterator[tuple[str, str]]:
    if isinstance(value, list):
        for item in value:
            yield from _calls_in(item, names)
    elif isinstance(value, dict):
        inner = next((value[key] for key in _LISTS if isinstance(value.get(key), list | dict)), None)
        if inner is not None:
            yield from _calls_in(inner, names)
        elif value and all(key in names and isinstance(below, dict) for key, below in value.items()):
            yield from ((name, as_text(arguments)) for name, arguments in value.items())
        elif (call := call_of(value)) and "description" not in value:  # which a repeated definition has
            yield call


def python_calls(text: str) -> list[dict[str, dict[str, Any]]] | None:
    """Reads calls in Python's syntax as ``bfcl-eval`` does, without evaluating anything; None if they are none.

    A variable or an inner call without keywords is its text; positional arguments are ignored.
    """
    text = text.strip("`\n ")
    text = f"{'' if text.startswith('[') else '['}{text}{'' if text.endswith(']') else ']'}"
    try:
        with warnings.catch_warnings():  # of escapes such as \d
            warnings.simplefilter("ignore")
            body = ast.parse(text, mode="eval").body
        if not isinstance(body, ast.List) or not all(isinstance(item, ast.Call) for item in body.elts):
            return None
        return [_call(item) for item in body.elts if isinstance(item, ast.Call)]
    except (SyntaxError, ValueError, TypeError, ArithmeticError, RecursionError, MemoryError):
        return None


def _call(call: ast.Call) -> dict[str, dict[str, Any]]:
    parts, function = list[str](), call.func
    while isinstance(function, ast.Attribute):
        parts.append(function.attr)
        function = function.value
    if isinstance(function, ast.Name):
        parts.append(function.id)
    return {".".join(reversed(parts)): {str(keyword.arg): _value(keyword.value) for keyword in call.keywords}}


def _value(node: ast.expr | None) -> Any:
    if isinstance(node, ast.Constant):
        value = node.value
        if isinstance(value, str):
            return _sound(value)
        return "..." if value is ... else value if isinstance(value, int | float | None) else str(value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        return -_value(node.operand) if isinstance(node.op, ast.USub) else +_value(node.operand)
    if isinstance(node, ast.List | ast.Tuple):
        items = [_value(item) for item in node.elts]
        return tuple(items) if isinstance(node, ast.Tuple) else items
    if isinstance(node, ast.Dict):
        return {_key(key): _value(value) for key, value in zip(node.keys, node.values, strict=True)}
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        left, right = _value(node.left), _value(node.right)
        is_small = not isinstance(node.op, ast.Pow) or (abs(left) <= _LARGEST and abs(right) <= 64)
        numbers = [value for value in (left, right) if isinstance(value, int | float)]
        if is_small and (len(numbers) == 2 or (not numbers and isinstance(node.op, ast.Add))):
            value = _OPERATIONS[type(node.op)](left, right)
            if isinstance(value, int | float | str | list):
                return value
    if isinstance(node, ast.Call) and node.keywords:
        return _call(node)
    if isinstance(node, ast.Name | ast.Call | ast.Subscript):
        return _sound(ast.unparse(node))
    raise ValueError("not a value")


def _key(node: ast.expr | None) -> Any:
    key = _value(node)
    if not isinstance(key, str | int | float | None):
        raise ValueError("not a key of JSON")
    return key


def _sound(text: str) -> str:
    """Replaces lone surrogates, which cannot be written to files."""
    return text.encode("utf-8", "replace").decode()
