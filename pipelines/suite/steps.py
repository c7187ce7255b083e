"""The steps of a suite: ``parapet`` commands, each with a folder of its own, and the graph that they are.

In the options of a step ``@STEP/path`` is what another step writes, ``@sample`` the bundled sample.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from parapet.schemas.layout import sample_root
from parapet.transforms.text import counted

Value = str | bool | int | float | list[Any] | dict[str, Any]
Options = dict[str, Value]

SAMPLE = "@sample"  # the bundled sample, wherever a path is expected
TASKS = ("dst", "response", "generation", "intent", "ood", "ranking")
COMPARISON = "comparison"
TABLES = ("table.csv", "table.parquet", "table.tex", "table.md")
# The files of a suite beside the folders of its steps, which no step may have as its name.
RESULTS = ("run.json", "index.html", "README.md", *TABLES, "release.toml", "release_licence.txt")

_OF_SYSTEMS = ("scores", "models", "predictions")  # the folders of steps that belong to a system
# At the beginning of a text, or after NAME=.
_REFERENCE = re.compile(r"(?:^|(?<==))@([\w.+\-/]+)")


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A command of a suite.

    Attributes:
      name: of the step, and of its folder below the output.
      command: its words: ``("perturb", "typos")``, ``("evaluate", "dst")``.
      options: by the name of the flag.
      place: where it comes from in the suite's file, for messages.
      about: what it makes.
      needs: what must be given, where it may be left out.
      after: steps besides those that the options name.
      files: written below the output before it runs: path to content.
      reads: what it reads besides, named as options name it.
    """

    name: str
    command: tuple[str, ...]
    options: Options
    place: str
    about: str = ""
    needs: str = ""
    after: tuple[str, ...] = ()
    files: dict[str, str] = {}
    reads: tuple[Value, ...] = ()

    @property
    def pipeline(self) -> str:
        """The first word of its command."""
        return self.command[0]


class LeftOut(msgspec.Struct, frozen=True):
    """An entry of the file that is left out, and what it would need."""

    name: str
    place: str
    reason: str
    needs: str


class ScoredSet(msgspec.Struct, frozen=True):
    """A set on which systems are scored, and where it is."""

    name: str
    root: str


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of a suite.

    Attributes:
      steps: by name, each after those that it needs.
      needs: the steps that each needs.
      sets: the robustness sets, in the file's order.
      systems: the names of the systems that are scored.
      left_out: entries of the file that cannot be had.
    """

    steps: dict[str, Step]
    needs: dict[str, frozenset[str]]
    sets: list[ScoredSet]
    systems: list[str]
    left_out: list[LeftOut]

    def lacking(self) -> list[tuple[str, LeftOut]]:
        """What is left out, once for each different thing that it needs: the names in words, and the first of them."""
        groups: dict[str, list[LeftOut]] = {}
        for entry in self.left_out:
            groups.setdefault(entry.needs or entry.reason, []).append(entry)
        named = []
        for group in groups.values():
            first, *others = dict.fromkeys(entry_of(entry.name).rpartition("/")[2] for entry in group)
            named.append((f"{first} and {counted(len(others), 'other')}" if others else first, group[0]))
        return named

    def with_needs(self, names: Iterable[str]) -> set[str]:
        """Steps, and all that they need."""
        result: set[str] = set()
        todo = list(names)
        while todo:
            name = todo.pop()
            if name not in result:
                result.add(name)
                todo += self.needs[name]
        return result


def without(step: Step, lost: Collection[str]) -> Step | None:
    """A step without what other steps failed to make: fewer sets, no variants; None where it cannot do without.

    Args:
      step: the step.
      lost: the steps that failed.
    """

    def uses(value: object) -> bool:
        return any(owner(reference, lost) is not None for reference in references(value))

    options = dict(step.options)
    for key in ("sets", "variants", "systems", "classifier"):
        value = options.get(key)
        if isinstance(value, dict):
            options[key] = {name: item for name, item in value.items() if not uses(item)}
        elif isinstance(value, list):
            options[key] = [item for item in value if not uses(item)]
        elif uses(value):
            del options[key]
        if options.get(key) in ({}, []):
            del options[key]
    no_systems = "systems" in step.options and "systems" not in options
    if no_systems or uses(options) or not set(step.after).isdisjoint(lost):
        return None
    return msgspec.structs.replace(step, options=options)


def references(value: object) -> Iterator[str]:
    """What the values of options name with ``@``, without the sign."""
    if isinstance(value, Mapping):
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from references(item)
    elif isinstance(value, str):
        yield from _REFERENCE.findall(value)


def owner(reference: str, steps: Collection[str]) -> str | None:
    """The step that writes what ``@reference`` names: ``sets/typos`` of ``sets/typos/typos``."""
    parts = [path.split("/") for path in (_in_full(reference), reference)]
    prefixes = ["/".join(words[:n]) for words in parts for n in range(1, len(words) + 1)]
    return max((name for name in prefixes if name in steps), key=len, default=None)


def _in_full(reference: str) -> str:
    """A reference with its task: ``scores/ours`` is ``scores/ours/dst``."""
    kind, _, rest = reference.partition("/")
    name, _, below = rest.partition("/")
    if kind not in _OF_SYSTEMS or not name or below.partition("/")[0] in TASKS:
        return reference
    return f"{kind}/{name}/dst" + (f"/{below}" if below else "")


def resolved(value: Value, output: Path) -> Value:
    """An option with the paths that its references name."""
    if isinstance(value, dict):
        return {key: resolved(item, output) for key, item in value.items()}
    if isinstance(value, list):
        return [resolved(item, output) for item in value]
    if isinstance(value, str):
        return _REFERENCE.sub(lambda match: place_of(match[1], output), value)
    return value


def place_of(reference: str, output: Path) -> str:
    """The path that ``@reference`` names."""
    head, _, rest = reference.partition("/")
    if head == SAMPLE[1:]:
        return str(sample_root() / rest) if rest else str(sample_root())
    return str(output / _in_full(reference))


def entry_of(name: str) -> str:
    """The entry of the file that a step or a reference belongs to: ``systems/ours`` of ``models/ours/dst``."""
    kind, _, rest = name.partition("/")
    if kind in _OF_SYSTEMS:
        return f"systems/{rest.partition('/')[0]}"
    return f"sets/{rest.partition('/')[0]}" if kind == "sets" else kind
