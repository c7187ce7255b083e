"""The steps of a suite: ``parapet`` commands, each with a folder of its own, and the graph that they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from parapet.pipelines.suite.references import entry_of, owner, references
from parapet.pipelines.suite.suite_file import Options, Value
from parapet.transforms.text import counted

COMPARISON = "comparison"
# The files of a suite beside the folders of its steps, which no step may have as its name.
RESULTS = (
    *("run.json", "index.html", "README.md", "table.csv", "table.parquet", "table.tex", "table.md"),
    *("release.toml", "release_licence.txt"),
)


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
        for one in self.left_out:
            groups.setdefault(one.needs or one.reason, []).append(one)
        named = []
        for group in groups.values():
            first, *others = dict.fromkeys(entry_of(one.name).rpartition("/")[2] for one in group)
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


def without(step: Step, lost: Iterable[str]) -> Step | None:
    """A step without what other steps failed to make: fewer sets, no variants; None where it cannot do without.

    Args:
      step: the step.
      lost: the steps that failed.
    """
    failed = list(lost)
    options = dict(step.options)
    for key in ("sets", "variants", "systems", "classifier"):
        value = options.get(key)
        if isinstance(value, dict):
            options[key] = {name: item for name, item in value.items() if not _uses(item, failed)}
        elif isinstance(value, list):
            options[key] = [item for item in value if not _uses(item, failed)]
        elif _uses(value, failed):
            del options[key]
        if options.get(key) in ({}, []):
            del options[key]
    if (
        _uses(options, failed)
        or set(step.after) & set(failed)
        or ("systems" in step.options and "systems" not in options)
    ):
        return None
    return msgspec.structs.replace(step, options=options)


def _uses(value: object, steps: Sequence[str]) -> bool:
    return any(owner(reference, steps) is not None for reference in references(value))
