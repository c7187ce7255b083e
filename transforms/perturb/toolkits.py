"""Agents' tasks with additional tools beside the right one, or without the right one.

Models err more often if they have more tools with similar functions (Rabinovich and Anaby-Tavor 2025, arXiv
2504.00914). If no tool fits, none should be called.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
from apache_beam.metrics import Metrics

from parapet.schemas import errors, layout
from parapet.schemas.layout import NAMES, TOOLS
from parapet.schemas.tools import Tool, ToolFile, ToolNames, is_hosted
from parapet.transforms.core import runs, seeding
from parapet.transforms.perturb.files import Rows, read_rows, write_rows
from parapet.transforms.splits.augment import OPERATIONS, CorruptionConfig, Rates, corrupt
from parapet.transforms.variants.tasks import renamed_task
from parapet.transforms.variants.tool_variants import TaskVariant, variant_of

Definition = Mapping[str, Any]
Task = Mapping[str, Any]

_EQUIVALENT = 0.4  # minimum cosine for a tool that may do the same as one of the task's
_OTHERWISE = 0.6  # the minimum if its name begins with another kind of action
# Words in names that do not tell what a tool is about, and uninformative endings.
_GENERIC = frozenset({
    "api", "average", "best", "by", "calc", "calculate", "calculator", "check", "closest", "compute", "convert",
    "converter", "current", "data", "detail", "details", "determine", "do", "estimate", "estimator", "fetch", "find",
    "finder", "for", "from", "function", "get", "in", "info", "information", "latest", "list", "local", "locate",
    "lookup", "make", "most", "nearby", "nearest", "of", "on", "predict", "prediction", "retrieve", "run", "search",
    "shortest", "show", "specific", "the", "to", "tool", "top", "upcoming", "v", "with",
})  # fmt: skip
# What a tool does, by kind, as names begin or end with it.
_ACTIONS = {
    word: kind
    for kind, words in {
        "order": "book booking buy order purchase rent rental reservation reserve",
        "create": "add create generate insert new",
        "update": "change edit modify set update",
        "delete": "cancel delete remove",
        "send": "email mail post send share",
        "train": "fit train",
        "draw": "draw plot",
        "play": "play",
        "ask": "calculate check fetch find get list lookup predict read retrieve search show",
    }.items()
    for word in words.split()
}
_SYNONYMS = {
    "appointment": "event", "concert": "event", "film": "movie", "hcf": "gcd", "lawsuit": "case", "mail": "email",
    "meeting": "event", "photo": "image", "picture": "image", "temperature": "weather", "ticket": "issue",
    "vehicle": "car",
}  # fmt: skip
_ENDING = re.compile(r"(?:ings?|ions?|[eo]rs?|e?s|e)$")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")  # digits only number versions, as in Weather_1
_LONG = 5  # letters from which a word counts as the head of a compound: distance of geodistance


class Catalogue:
    """All tools of some tasks, and their similarity: the cosine of TF-IDF vectors of the stems of their words.

    Args:
      tools: the definitions, in any dialect; of several with the same name, the first counts. Tools that an API runs
        are left out.
    """

    def __init__(self, tools: Iterable[Definition]) -> None:
        self.tools: dict[str, Definition] = {}
        self._subjects: dict[str, frozenset[str]] = {}
        self._same: dict[str, set[str]] = {}  # tools that may do the same, remembered since tasks share tools
        counts: dict[str, Counter[str]] = {}
        for raw in tools:
            if is_hosted(raw) or (tool := Tool(raw)).name in self.tools:
                continue
            self.tools[tool.name] = raw
            parameters = tool.parameters.first()
            words = _stems(" ".join([tool.name, tool.description, *(each.name for each in parameters)]))
            counts[tool.name] = Counter(words)
            self._subjects[tool.name] = frozenset(words + _stems(" ".join(each.description for each in parameters)))
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

    def similar(self, names: Iterable[str], own: Iterable[str]) -> list[str]:
        """Returns other tools, those most similar to some tools first, without any that may do the same as one of them.

        Args:
          names: the tools.
          own: the tools of the task, which are left out, too, with what may do the same.
        """
        scores: dict[str, float] = defaultdict(float)
        known = [name for name in dict.fromkeys([*names, *own]) if name in self.tools]
        same = set(known)
        for name in known:
            of_name: dict[str, float] = defaultdict(float)
            for word, weight in self._weights[name].items():
                for other, other_weight in self._postings[word]:
                    of_name[other] += weight * other_weight
            if name not in self._same:
                self._same[name] = {other for other in self.tools if self._may_be_same(name, other, of_name[other])}
            same |= self._same[name]
            for other in of_name if name in names else ():
                scores[other] += of_name[other]
        return sorted(self.tools.keys() - same, key=lambda other: (-round(scores[other], 6), other))

    def _may_be_same(self, name: str, other: str, cosine: float) -> bool:
        """Whether two tools may do the same, by their words, their names, or one's texts on the other's subject."""
        if _do_otherwise(name, other):
            return cosine >= _OTHERWISE
        mentioned = self._mentions(name, other) or self._mentions(other, name)
        return cosine >= _EQUIVALENT or mentioned or may_be_same(name, other)

    def _mentions(self, name: str, other: str) -> bool:
        """Whether the texts of a tool have all words of another one's subject."""
        subject = _subject(other)
        return bool(subject) and subject <= self._subjects[name]


@cache
def things_of(name: str) -> frozenset[str]:
    """Returns what a tool is about: the stems of its name, without its action and words that nearly all tools have."""
    return frozenset(_subject_words(name))


@cache
def _subject_words(name: str) -> list[str]:
    words = _words(name)
    if action := _action_word(name):
        words.remove(action)
    return _stems(" ".join(words)) or _stems(name)


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _stems(text: str) -> list[str]:
    words = [_SYNONYMS.get(word.removesuffix("s"), word) for word in _words(text) if word not in _GENERIC]
    return [_ENDING.sub("", word) or word for word in words]


@cache
def _subject(name: str) -> frozenset[str]:
    """Returns what a tool is about, without the namespace that it may share with many: ``lcm`` of ``math.lcm``."""
    last = name.rpartition(".")[2]
    is_action = _words(last) == [_action_word(name)]
    return things_of(name) if is_action else things_of(last) or things_of(name)


@cache
def _action_word(name: str) -> str:
    """Returns the word that says what a tool does, at the beginning or end of its name; empty if none is known."""
    words = _words(name.rpartition(".")[2])
    return next((word for word in (*words[:1], *words[-1:]) if word in _ACTIONS), "")


def _do_otherwise(name: str, other: str) -> bool:
    """Whether two names are of different kinds of action."""
    return len({_ACTIONS[word] for word in (_action_word(name), _action_word(other)) if word}) > 1


def _are_about_the_same(name: str, other: str) -> bool:
    things, others = things_of(name), things_of(other)
    joined, other_joined = "".join(_subject_words(name)), "".join(_subject_words(other))
    if not joined or not other_joined:  # nothing but an action, such as fetch
        return name == other
    return things <= others or others <= things or joined in other_joined or other_joined in joined


def may_be_same(name: str, other: str) -> bool:
    """Whether two names of the same kind of action may be of tools that do the same.

    These have a word of their subjects in common (``lawsuit_search``, ``lawsuits.get_details``), or differ in how words
    are joined (``t_test``, ``ttest``).
    """
    things, others = things_of(name), things_of(other)
    return (
        _are_about_the_same(name, other)
        or any(_are_same(word, word_of_other) for word in _subject(name) for word_of_other in others)
        or any(_are_same(word, word_of_other) for word in things for word_of_other in _subject(other))
    )


def _are_same(word: str, other: str) -> bool:
    return word == other or (min(len(word), len(other)) >= _LONG and (word.endswith(other) or other.endswith(word)))


def right_names(truth: Task | None) -> list[str]:
    """Returns the distinct functions of the expected calls."""
    return list(dict.fromkeys(name for call in (truth or {}).get("ground_truth", []) for name in call))


def with_distractors(
    task: Task, truth: Task | None, catalogue: Catalogue, counts: Sequence[int], seed: str
) -> list[dict[str, Any]]:
    """Adds tools that are similar to the right ones, or else to all of the task's, in a random order.

    Args:
      task: the task.
      truth: its expected calls, if any.
      catalogue: the source of further tools.
      counts: the numbers of tools to add, one for each result; fewer if the catalogue has no more that do something
        else.
      seed: the seed of the order.
    """
    own = {_name(tool): tool for tool in task["function"]}
    # BFCL has tasks without tools, where no call is expected
    similar = catalogue.similar(right_names(truth) or own, own) if own else []
    results = []
    for count in counts:
        tools = {**own, **{name: catalogue.tools[name] for name in similar[:count]}}
        order = sorted(tools, key=lambda name: (seeding.stable_hash(seed, "distractors", task["id"], name), name))
        results.append({**task, "function": [tools[name] for name in order]})
    return results


def without_the_right_tool(task: Task, truth: Task | None, catalogue: Catalogue) -> dict[str, Any] | None:
    """Replaces the tools of the expected calls, and those that do the same, by similar ones.

    Returns None if there are no expected calls, or if no tool is left.
    """
    if not (right := right_names(truth)):
        return None
    left = {_name(tool): tool for tool in task["function"]}
    for name in right:
        left = {
            other: tool
            for other, tool in left.items()
            if _do_otherwise(name, other) or not _are_about_the_same(name, other)
        }
    names = catalogue.similar(right, map(_name, task["function"]))[: len(task["function"]) - len(left)]
    tools = [*left.values(), *(catalogue.tools[name] for name in names)]
    return {**task, "function": tools} if tools else None


def _name(tool: Definition) -> str:
    """Returns the name of a definition; for a tool that the API runs, its type if it has none."""
    return str(tool.get("name") or tool.get("type")) if is_hosted(tool) else Tool(tool).name


def corrupted_tools(path: str, seed: str) -> dict[str, TaskVariant]:
    """Corrupts the names and descriptions of the tools in a task file: words replaced, reordered, or both.

    Args:
      path: the path of the tasks.
      seed: the seed of random choices.
    """
    schemas = layout.read_schema_file(path, layout.SINGLE)
    by_operation = corrupt([schemas], schemas, CorruptionConfig(list(OPERATIONS), Rates(), seed))
    variants = {}
    for operation, services in by_operation.items():
        files = schemas.variant_files(list(services.values()))
        names = msgspec.json.decode(files[NAMES], type=dict[str, ToolNames])
        variants[operation] = variant_of(operation, ToolFile(files[TOOLS], path), names, path)
    return variants


def catalogue_of(paths: Sequence[str]) -> Catalogue:
    """Returns the catalogue of the tools of all files, in the order of the files."""
    return Catalogue(tool for path in paths for task in read_rows(path)[0] for tool in task["function"])


_IMPOSSIBLE = {
    "distractors": "the tasks have no other tools to add: all offer the same ones, or tools that may do the same",
    "missing_tool": "no task has a correct call, so there is no tool to remove, or no tool would be left",
}


class Toolkits(msgspec.Struct, frozen=True):
    """The sets of tasks with other tools.

    Attributes:
      name: ``distractors``, ``missing_tool`` or ``corrupted``.
      counts: the numbers of distractors.
      seed: the seed of random choices.
    """

    name: str
    counts: Sequence[int] = ()
    seed: str = "0"

    @property
    def sets(self) -> list[str]:
        """Returns the names of the sets."""
        kinds = {"distractors": self.counts, "corrupted": OPERATIONS}.get(self.name, ())
        return [f"{self.name}-{kind}" for kind in kinds] or [self.name]

    def write(self, path: str, catalogue: Catalogue | None = None, *, output: str) -> runs.FileResult:
        """Writes a file of tasks, and the right calls beside it, in every set; ``corrupted`` needs no catalogue."""
        result = runs.FileResult(path)
        tasks, truths = read_rows(path)
        for name, (perturbed, right) in zip(self.sets, self._sets(path, tasks, truths, catalogue), strict=True):
            result.counts.add(name, len(perturbed))
            if self.counts and perturbed:
                count = int(name.rpartition("-")[2])
                if fewer := sum(n < count for n in _added(tasks, perturbed)):
                    Metrics.counter("parapet", f"fewer_tools/{name}").inc(fewer)
            result.written += write_rows(output, name, path, perturbed, right) if perturbed else []
        return result

    def check(self, counts: Mapping[str, int]) -> dict[str, int]:
        """Returns the summed counts for ``run.json``. Raises InputError if no task has other tools."""
        if not any(counts.values()):
            raise errors.InputError(_IMPOSSIBLE[self.name], "--tasks")
        return dict(counts)

    def impossible(self, path: str) -> str:
        """Returns why no task of a file would have other tools; empty if some would."""
        if self.name not in _IMPOSSIBLE or not layout.as_path(path).is_file():
            return ""
        every = self._sets(path, *read_rows(path), catalogue_of([path]))
        return "" if any(perturbed for perturbed, _ in every) else _IMPOSSIBLE[self.name]

    def _sets(self, path: str, tasks: Rows, truths: Rows, catalogue: Any) -> Iterator[tuple[Rows, Rows]]:
        """Yields the tasks and right calls of each set; no tasks if none would have other tools."""
        right = {truth["id"]: truth for truth in truths}
        if self.name == "corrupted":
            for variant in corrupted_tools(path, self.seed).values():
                pairs = [renamed_task(task, right.get(task["id"]), variant) for task in tasks]
                yield [task for task, _ in pairs], [answer for _, answer in pairs if answer is not None]
        if self.name == "missing_tool":
            toolkits = (without_the_right_tool(task, right.get(task["id"]), catalogue) for task in tasks)
            left = [task for task in toolkits if task is not None]
            yield left, [{"id": task["id"], "ground_truth": []} for task in left]
        if self.name == "distractors":
            more = [with_distractors(task, right.get(task["id"]), catalogue, self.counts, self.seed) for task in tasks]
            for of_count in map(list, zip(*more, strict=True)):
                yield of_count if any(_added(tasks, of_count)) else [], truths


def _added(tasks: Rows, perturbed: Rows) -> list[int]:
    """Returns the number of tools that each task has more than before."""
    return [len(new["function"]) - len(old["function"]) for old, new in zip(tasks, perturbed, strict=True)]
