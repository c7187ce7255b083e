"""Agents' tasks with additional tools beside the right one, or without the right one.

Models err more often if they have more tools with similar functions (Rabinovich and Anaby-Tavor 2025, arXiv
2504.00914). If no tool fits, none should be called.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from parapet.schemas import layout
from parapet.schemas.tools import NAMES, TOOLS, ToolFile, ToolNames
from parapet.transforms.running.seeding import stable_hash
from parapet.transforms.splits.augment.plan import OPERATIONS, CorruptionConfig, Rates, corrupt
from parapet.transforms.variants.tasks import TaskVariant, variant_of

Definition = Mapping[str, Any]
Task = Mapping[str, Any]

_EQUIVALENT = 0.4  # minimum cosine for a tool that may do the same as the right one
# Words in names that do not tell what a tool is about, and uninformative endings.
_GENERIC = frozenset({
    "api", "by", "calc", "calculate", "calculator", "check", "compute", "convert", "converter", "current", "data",
    "detail", "details", "do", "fetch", "find", "for", "from", "function", "get", "in", "info", "information",
    "latest", "list", "local", "lookup", "make", "of", "on", "retrieve", "search", "show", "specific", "the", "to",
    "tool", "with",
})  # fmt: skip
_ENDING = re.compile(r"(?:ings?|ions?|ers?|s)$")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


class Catalogue:
    """All tools of some tasks, and their similarity: the cosine of TF-IDF vectors of their words.

    Args:
      tools: the definitions; of several with the same name, the first counts.
    """

    def __init__(self, tools: Iterable[Definition]) -> None:
        self.tools: dict[str, Definition] = {}
        for tool in tools:
            self.tools.setdefault(tool["name"], tool)
        counts = {name: Counter(words_of(tool)) for name, tool in self.tools.items()}
        having = Counter(word for words in counts.values() for word in words)
        self._weights = {name: self._vector(words, having) for name, words in counts.items()}
        self._postings: dict[str, list[tuple[str, float]]] = defaultdict(list)
        for name, vector in self._weights.items():
            for word, weight in vector.items():
                self._postings[word].append((name, weight))

    def _vector(self, counts: Counter[str], having: Counter[str]) -> dict[str, float]:
        n = len(self.tools)
        raw = {word: (1 + math.log(count)) * math.log((1 + n) / (1 + having[word])) for word, count in counts.items()}
        length = math.sqrt(sum(weight * weight for weight in raw.values()))
        return {word: round(weight / length, 9) for word, weight in raw.items() if length}

    def similar(self, name: str, without: Iterable[str]) -> list[str]:
        """Return the other tools, most similar first, except some, and except those that may do the same."""
        scores: dict[str, float] = defaultdict(float)
        for word, weight in self._weights[name].items():
            for other, postings in self._postings[word]:
                scores[other] += weight * postings
        left_out = {name, *without}
        ranked = sorted((-round(score, 6), other) for other, score in scores.items() if other not in left_out)
        near = [other for score, other in ranked if -score < _EQUIVALENT]
        rest = [other for other in sorted(self.tools) if other not in scores and other not in left_out]
        things = things_of(name)
        return [other for other in [*near, *rest] if not _may_be_same(things, things_of(other))]


def words_of(tool: Definition) -> list[str]:
    """Return the lower-case words of name, description and parameters."""
    schema = tool.get("parameters") or {}
    text = " ".join([tool["name"], tool.get("description", ""), *(schema.get("properties") or {})])
    return [word.lower() for word in _WORD.findall(text)]


def things_of(name: str) -> frozenset[str]:
    """Return what a tool is about: the words of its name without endings, except words that nearly all tools have."""
    words = [word.lower() for word in _WORD.findall(name)]
    return frozenset(_ENDING.sub("", word) for word in words if word not in _GENERIC)


def _may_be_same(things: frozenset[str], others: frozenset[str]) -> bool:
    """Whether one name contains the words of the other: ``lawsuit_search`` and ``lawsuits.get_details``."""
    return things <= others or others <= things


def right_names(truth: Task | None) -> list[str]:
    """Return the distinct functions of the expected calls."""
    return list(dict.fromkeys(name for call in (truth or {}).get("ground_truth", []) for name in call))


def with_distractors(task: Task, truth: Task | None, catalogue: Catalogue, count: int, seed: str) -> dict[str, Any]:
    """Add tools that are similar to the right one, or to the first, in a random order.

    Args:
      task: the task.
      truth: its expected calls, if any.
      catalogue: the source of further tools.
      count: the number of tools to add.
      seed: the seed of the order.
    """
    own = [tool["name"] for tool in task["function"]]
    if not own:  # BFCL has tasks without tools, where no call is expected
        return dict(task)
    names = catalogue.similar((right_names(truth) or own)[0], own)[:count]
    tools = [*task["function"], *(catalogue.tools[name] for name in names)]
    order = sorted(tools, key=lambda tool: (stable_hash(seed, "distractors", task["id"], tool["name"]), tool["name"]))
    return {**task, "function": order}


def without_the_right_tool(task: Task, truth: Task | None, catalogue: Catalogue) -> dict[str, Any] | None:
    """Replace the tools of the expected calls by similar tools; None if there are no expected calls."""
    right = right_names(truth)
    if not right:
        return None
    own = [tool["name"] for tool in task["function"]]
    left = [tool for tool in task["function"] if tool["name"] not in right]
    names = catalogue.similar(right[0], own)[: len(right)]
    return {**task, "function": [*left, *(catalogue.tools[name] for name in names)]}


def corrupted_tools(path: str, seed: str) -> dict[str, TaskVariant]:
    """Corrupt the names and descriptions of the tools in a task file: words replaced, reordered, or both.

    Args:
      path: the path of the tasks.
      seed: the seed of random choices.
    """
    schemas = layout.read_schema_file(path, layout.SINGLE)
    by_operation, _ = corrupt([schemas], schemas, CorruptionConfig(list(OPERATIONS), Rates(), seed))
    variants = {}
    for operation, services in by_operation.items():
        files = schemas.variant_files(list(services.values()))
        names = msgspec.json.decode(files[NAMES], type=dict[str, ToolNames])
        variants[operation] = variant_of(operation, ToolFile(files[TOOLS], path), names, files[NAMES], path)
    return variants
