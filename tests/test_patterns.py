"""No regular expression of the package takes long over hostile text.

In a process of its own (``python tests/test_patterns.py``) every module that uses ``re`` is imported, and every pattern
that it compiles is run over long strings as the module runs it: ``match``, ``fullmatch``, or through the whole text.
What is shown needed more CPU time than a linear pattern ever does.
"""

from __future__ import annotations

import ast
import importlib
import itertools
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from re import _constants as sre  # the parsed form; it has no public name
from re import _parser as parser
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "parapet"
SHORT, LENGTH = 4_000, 20_000  # characters: an answer may have so many
# Seconds. A linear pattern takes up to 0.0002 over the short text and 0.001 over the long one, a quadratic one 0.0024
# and 0.05: other machines may be some times slower or faster.
SUSPICIOUS, LIMIT = 0.0008, 0.012
WHOLE_TEXT = ("search", "sub", "subn", "split", "findall", "finditer")
HANG = 1.0  # CPU seconds, after which a run is stopped
ROUNDS = 2
BOUNDED = {
    "transforms/anonymise/second_look.py: '_ENDS'",  # sees eight characters
    "pipelines/progress.py: '_STEP'",  # sees the labels of our own steps
    "schemas/json_text.py: '_TOKEN'",  # who reads its tokens ends at the first quote that is never closed
}

# Where patterns are made of values while records are read: each a literal text between bounds, or of a table of ours
# that the modules' own tests load. Whoever makes another says here what it is made of.
OF_VALUES = {
    "evaluation/dst/baseline.py: _last_said": "a literal",
    "evaluation/models/dst/sgp/labels.py: _pattern": "a literal",
    "evaluation/models/systems/data.py: _places": "a literal",
    "evaluation/ratings/answers.py: judged_tasks": "ids of our own",
    "local_mturk/model.py: _string": "botocore's model",
    "pipelines/perturb.py: about": "docstrings",
    "transforms/dstc2/rules.py: __init__": "a table of ours",
    "transforms/dstc2/rules.py: _problems": "a table of ours",
    "transforms/dstc2/sgd.py: _line": "a literal",
    "transforms/dstc2/task6.py: _any_of": "literals",
    "transforms/entities/mentions.py: _acted_dates": "a literal",
    "transforms/restaurants/bot.py: __init__": "a literal",
    "transforms/restaurants/bot.py: _matcher": "literals and words",
    "transforms/speech/normalisation.py: _token_pattern": "tried: compile_later",
    "transforms/variations/paraphrase.py: hidden": "a stand-in of ours",
    "transforms/variations/paraphrase_rules.py: _pattern": "tried: compile_later",
    "transforms/variations/paraphrase_rules.py: load_rules": "tried: compile_later",
    "transforms/variations/simple_rules.py: _rule": "tried: at import",
}

Text = tuple[str, str, str]  # what it begins with, what it repeats, what it ends with

METHODS = ("match", "fullmatch", *WHOLE_TEXT)

_ALPHABETS = (
    *"aA1 _-.,:@'<&[(\"\\/$\u00e9\u4e2d\n",
    *(
        "a ",
        "A ",
        "1 ",
        "a.",
        "a@",
        "aA",
        "a_",
        "a-",
        "a'",
        "1:",
        "1.",
        "1,",
        "1-",
        "@.",
        "<a",
        "<!",
        "&#1",
        "&a",
        "|!",
    ),
    *("http://a", "www.", "Ab ", "the ", "and ", "one ", "five ", "no ", " \n", "\r\n", "I'm ", "Mr. A "),
)


def modules() -> Iterator[tuple[str, Path]]:
    """(name, file) of every module that uses ``re``."""
    for folder in (PACKAGE, *sorted(path for path in PACKAGE.iterdir() if path.is_symlink())):
        for path in sorted(folder.rglob("*.py")):
            if "re." in path.read_text(encoding="utf-8"):
                relative = path.relative_to(ROOT).with_suffix("")
                yield ".".join(part for part in relative.parts if part != "__init__"), path


def patterns() -> Iterator[tuple[str, re.Pattern[Any], set[str]]]:
    """(where, pattern, the methods that are called of it) of every pattern of the package."""
    compiled: list[tuple[str, re.Pattern[Any]]] = []
    plain = re.compile

    def recording(pattern: Any, flags: int = 0) -> re.Pattern[Any]:
        found = plain(pattern, flags)
        file = sys._getframe(1).f_code.co_filename
        if file.startswith(f"{PACKAGE}/"):
            compiled.append((str(Path(file).relative_to(PACKAGE)), found))
        return found

    re.compile = recording  # type: ignore[assignment]
    loaded = {path: importlib.import_module(name) for name, path in modules()}
    compile_later()
    re.compile = plain
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in loaded}
    uses = {str(path.relative_to(PACKAGE)): _uses(tree) for path, tree in trees.items()}
    named = {
        id(pattern): name
        for module in loaded.values()
        for holder in [module, *vars(module).values()]
        if holder is module or hasattr(holder, "__struct_fields__")
        for name in ([*vars(module)] if holder is module else getattr(holder, "__struct_fields__", ()))
        if isinstance(pattern := getattr(holder, name, None), re.Pattern)
    }
    for file, pattern in compiled:
        name = named.get(id(pattern), "")
        private = uses.get(file, set()) if name.startswith("_") or not name else set().union(*uses.values())
        # One in a list or a table: whatever the file does with what is no pattern of its own; texts are split, too.
        others = {method for of, method in private if of not in named.values() and method != "split"}
        methods = {method for of, method in private if of == name} if name else others
        yield f"{file}: {name or pattern.pattern[:60]!r}", pattern, methods & {*METHODS} or {"search"}
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if literal := _literal_call(node):
                method, pattern, line = literal
                yield f"{path.relative_to(PACKAGE)}: line {line}", pattern, {method}


def compile_later() -> None:
    """Patterns that are made of tables when they are first needed."""
    from parapet.transforms.speech.normalisation import load_normalisation
    from parapet.transforms.variations.paraphrase_rules import load_rules

    assert load_normalisation().tokens
    assert load_rules().frames


def _uses(tree: ast.AST) -> set[tuple[str, str]]:
    """(name, method) of every call of a method of a name, or of a member of that name."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            of = node.value
            name = of.id if isinstance(of, ast.Name) else of.attr if isinstance(of, ast.Attribute) else ""
            if name != "re":
                found.add((name, node.attr))
    return found


def _literal_call(node: ast.AST) -> tuple[str, re.Pattern[Any], int] | None:
    """``re.search("...", ...)`` and its like, inside a function."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
        return None
    of_re = isinstance(node.func.value, ast.Name) and node.func.value.id == "re"
    first = node.args[0]
    if not of_re or node.func.attr == "compile" or not isinstance(first, ast.Constant):
        return None
    return node.func.attr, re.compile(first.value), node.lineno


def example(parsed: Any, choice: int) -> str:
    """A text that a parsed pattern matches, or nearly: of several branches the ``choice``-th."""
    text = ""
    for operation, value in parsed:
        if operation is sre.LITERAL:
            text += chr(value)
        elif operation is sre.NOT_LITERAL:
            text += "a" if value != ord("a") else "b"
        elif operation is sre.ANY:
            text += "a"
        elif operation is sre.IN:
            text += _member(value, choice)
        elif operation in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            text += example(value[2], choice) * max(value[0], 1)
        elif operation is sre.SUBPATTERN:
            text += example(value[3], choice)
        elif operation is sre.ATOMIC_GROUP:
            text += example(value, choice)
        elif operation is sre.BRANCH:
            text += example(value[1][choice % len(value[1])], choice)
    return text


def _member(items: Any, choice: int) -> str:
    negated = items[0][0] is sre.NEGATE
    if negated:
        excluded = {chr(value) for operation, value in items[1:] if operation is sre.LITERAL}
        return next(c for c in "a1 .-@" if c not in excluded)
    operation, value = items[choice % len(items)]
    if operation is sre.LITERAL:
        return chr(value)
    if operation is sre.RANGE:
        return chr(value[0])
    return {"CATEGORY_DIGIT": "1", "CATEGORY_SPACE": " ", "CATEGORY_NOT_WORD": "-"}.get(value.name, "a")


def hostile(pattern: re.Pattern[Any]) -> list[Text]:
    """What long strings repeat: of common letters and marks, and of what the pattern itself asks for."""
    parts = list(_ALPHABETS)
    heads = [""]
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    parsed = parser.parse(source, pattern.flags)
    for choice in range(4):
        text = example(parsed, choice)[:60]
        parts += [text, text[:-1], text[1:], text[: len(text) // 2], text[len(text) // 2 :]]
        parts += [text[i : i + 2] for i in range(0, len(text), 1 + len(text) // 6)]
        heads += [text[: len(text) // 2], text]
    ends = itertools.cycle(("", "!", "\0", "_ ", " a"))
    texts = [("", part, next(ends)) for part in dict.fromkeys(parts) if part]
    texts += [(head, part, "!") for head in list(dict.fromkeys(heads))[1:4] for part in "aA1 ."]
    return texts


def long(text: Text, length: int) -> str:
    """The text at its length."""
    head, part, end = text
    return head + (part * (length // len(part) + 1))[:length] + end


class TooLong(BaseException):
    """Raised by the timer."""


def _stop(*_: object) -> None:
    raise TooLong


def seconds(pattern: re.Pattern[Any], method: str, text: Any) -> tuple[float, float]:
    """Seconds by the clock, and of CPU; those of ``HANG`` where it was stopped."""
    run = pattern.finditer if method in WHOLE_TEXT else getattr(pattern, method)
    signal.signal(signal.SIGPROF, _stop)
    with suppress(TooLong):
        signal.setitimer(signal.ITIMER_PROF, HANG)
        began, began_cpu = time.perf_counter(), time.process_time()
        found = run(text)
        if method in WHOLE_TEXT:
            for _ in found:
                pass
        took = time.perf_counter() - began, time.process_time() - began_cpu
        signal.setitimer(signal.ITIMER_PROF, 0)
        return took
    return HANG, HANG


def is_slow(pattern: re.Pattern[Any], method: str, text: Text) -> bool:
    """Whether the time grows faster than the text: 4 times the text, 4 times the time, or 16 where it is quadratic.

    A busy machine adds to the time by the clock, so that this excludes only what is fast. CPU time decides, which some
    machines count in steps of 4 ms.
    """

    def took(length: int) -> tuple[float, float]:
        written = long(text, length)
        return seconds(pattern, method, written.encode("latin-1", "replace") if as_bytes else written)

    def grows() -> bool:
        _, some = took(LENGTH)
        return some >= HANG or (some >= LIMIT and took(4 * LENGTH)[1] >= min(HANG, 8 * some))

    as_bytes = isinstance(pattern.pattern, bytes)
    return took(SHORT)[0] >= SUSPICIOUS and all(grows() for _ in range(ROUNDS))


def main() -> None:
    """Tries all."""
    sys.path[0] = str(ROOT)  # not the tests, which have folders of the same names
    slow, tried = [], set()
    for where, pattern, methods in patterns():
        for method in sorted({"search" if method in WHOLE_TEXT else method for method in methods}):
            if (pattern, method) in tried or where in BOUNDED:
                continue
            tried.add((pattern, method))
            text = next((text for text in hostile(pattern) if is_slow(pattern, method, text)), None)
            if text is not None:
                slow.append(f"{where}.{method}: {pattern.pattern!r:.200}: {text}")
    json.dump({"patterns": len(tried), "slow": slow}, sys.stdout)


def test_every_pattern_of_the_package_is_linear() -> None:
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["patterns"] > 250
    assert found["slow"] == []


def test_whatever_makes_patterns_of_values_is_known() -> None:
    found = set()
    for _, path in modules():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                found |= {
                    f"{path.relative_to(PACKAGE)}: {function.name}"
                    for node in ast.walk(function)
                    if isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and isinstance(node.func.value, ast.Name)
                    and node.func.value.id == "re"
                    and node.func.attr in (*METHODS, "compile")
                    and node.args
                    and not isinstance(node.args[0], ast.Constant)
                }
    assert found == set(OF_VALUES)


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"[a-z0-9]+([A-Z][A-Za-z0-9]*)+", "fullmatch"),  # exponential, as names were told apart
        (r"\S+@\S+\.\w", "search"),  # cubic, as addresses were found
        (r"<[a-z][^>]*>", "search"),
        (r",?\s+please", "search"),
    ],
)
def test_what_is_not_linear_is_found(pattern: str, method: str) -> None:
    compiled = re.compile(pattern)
    assert any(is_slow(compiled, method, text) for text in hostile(compiled))


if __name__ == "__main__":
    main()
