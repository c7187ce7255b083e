"""The options of ``restaurants``: tasks, sizes, formats; and the shards that follow from them."""

from __future__ import annotations

import logging

import msgspec

from parapet.schemas.errors import InputError
from parapet.transforms.babi_format import dialogues_name
from parapet.transforms.corpora import listed
from parapet.transforms.counts import CountKey, Equal, Invariant
from parapet.transforms.restaurants.ontology import Ontology
from parapet.transforms.restaurants.simulating import SPLITS, TASKS, World, check_updates, check_world, missing_acts

PLUS = "babi_plus"
MAX_SIZE = 100_000_000  # dialogues of a set
FORMATS = ("babi", "sgd")


class Shard(msgspec.Struct, frozen=True):
    """The dialogues of one file.

    Attributes:
      task: 1 to 5.
      split: train, dev, test or oov.
      first: the number of its first dialogue in the set, from 0.
      dialogues: number of dialogues.
      part: number of the file in its set, from 1.
      parts: number of files of the set.
    """

    task: int
    split: str
    first: int
    dialogues: int
    part: int
    parts: int

    def text_name(self, plus: bool) -> str:
        """The path of the file in the published format."""
        name = dialogues_name(self.task, self.split, self.part, self.parts)
        return f"{PLUS}/{name}" if plus else name

    def corpus(self, plus: bool) -> str:
        """The folder of the corpus in the SGD layout."""
        return corpus_name(self.task, self.split, plus)

    @property
    def sgd_name(self) -> str:
        """The path of the file in its corpus."""
        return f"{'test' if self.split == 'oov' else self.split}/dialogues_{self.part:03}.json"


class Config(msgspec.Struct, frozen=True):
    """The options of a run.

    Attributes:
      output: the output folder.
      ontology: the domain.
      ontology_path: its file; None where it is the built-in one.
      tasks: in order.
      sizes: (split, dialogues of each task) of the splits that have any.
      per_file: maximum number of dialogues of a file.
      formats: babi, sgd or both.
      seed: of all random choices.
      least: minimum number of results of a request of which entities are offered.
      plus: rates of disfluencies; empty where there are none.
      solved: share of the dialogues that the rule-based bot must solve.
    """

    output: str
    ontology: Ontology
    ontology_path: str | None
    tasks: tuple[int, ...]
    sizes: tuple[tuple[str, int], ...]
    per_file: int
    formats: tuple[str, ...]
    seed: str
    least: int
    plus: tuple[tuple[str, float], ...]
    solved: float

    def options(self) -> dict[str, object]:
        """Those that shape the content, for ``run.json``."""
        return {
            "ontology": msgspec.to_builtins(self.ontology) if self.ontology_path else "restaurants",
            "tasks": list(self.tasks),
            "sizes": dict(self.sizes),
            "formats": list(self.formats),
            "dialogues_per_file": self.per_file,
            "least_options": self.least,
            "babi_plus": dict(self.plus),
            "solve": self.solved,
            "seed": self.seed,
        }

    def invariants(self) -> list[Invariant]:
        """Every set has, in every format, as many dialogues as were requested."""
        sets = [(corpus_name(task, split, plus), split, size) for task, split, size, plus in self._sets()]
        counts = {
            CountKey(form, name.removeprefix("sgd/"), split): n for form in self.formats for name, split, n in sets
        }
        return [Equal(counts)]

    def world(self) -> World:
        """The knowledge base."""
        return World(self.ontology, self.seed, self.least)

    def shards(self) -> list[Shard]:
        """One for each file, in order."""
        return [
            Shard(task, split, first, min(self.per_file, size - first), part, -(-size // self.per_file))
            for task in self.tasks
            for split, size in self.sizes
            for part, first in enumerate(range(0, size, self.per_file), 1)
        ]

    def schema_names(self) -> list[str]:
        """The paths of the schema files in the SGD layout."""
        if "sgd" not in self.formats:
            return []
        return sorted(
            f"{corpus_name(task, split, plus)}/{'test' if split == 'oov' else split}/schema.json"
            for task, split, _, plus in self._sets()
        )

    def _sets(self) -> list[tuple[int, str, int, bool]]:
        """(task, split, dialogues, whether with disfluencies) of each set."""
        kinds = (False, True) if self.plus else (False,)
        return [(task, split, size, plus) for task in self.tasks for split, size in self.sizes for plus in kinds]


def corpus_name(task: int, split: str, plus: bool) -> str:
    """``sgd/task1``, ``sgd/task1-oov``, ``sgd/task1-plus-oov``."""
    return f"sgd/task{task}{'-plus' if plus else ''}{'-oov' if split == 'oov' else ''}"


def check(config: Config) -> None:
    """Raises InputError where the ontology has too few values for the tasks."""
    path = config.ontology_path or ""
    splits = [split for split, _ in config.sizes]
    world = config.world()
    check_world(world, config.tasks, splits, path)
    check_updates(world, config.tasks, splits, path)


def tasks_for(text: str, ontology: Ontology, path: object) -> tuple[int, ...]:
    """The tasks to simulate, in order.

    Args:
      text: such as ``1,2``; empty for all that the ontology has patterns for, with a warning where these are not all.
      ontology: the domain.
      path: its file, for messages.

    Raises:
      InputError: no task, or one for which patterns are missing.
    """
    tasks = parse_tasks(text) if text else TASKS
    missing = {task: acts for task in tasks if (acts := missing_acts(ontology, task))}
    reasons = [f"there are no patterns of {', '.join(acts)}, which task {task} needs" for task, acts in missing.items()]
    if reasons and (text or len(missing) == len(tasks)):
        raise InputError(reasons[0], path)
    for reason in reasons:
        logging.warning("%s: %s: it is left out", path, reason)
    return tuple(task for task in tasks if task not in missing)


def parse_tasks(text: str) -> tuple[int, ...]:
    """Parses ``1,2``; gives the tasks in order. Raises InputError."""
    parts = listed(text)
    for part in parts:
        if part not in map(str, TASKS):
            raise InputError(f"{part!r} is no task: choose from 1 to 5; task 6 is 'parapet babi_task6'", "--tasks")
    if not parts or len(set(parts)) < len(parts):
        raise InputError("give each task once, such as 1,2,5", "--tasks")
    return tuple(sorted(map(int, parts)))


def parse_sizes(text: str) -> tuple[tuple[str, int], ...]:
    """Parses ``1000`` or ``train=5000,oov=0``, with a default of 1,000. Raises InputError."""
    sizes = dict.fromkeys(SPLITS, 1000)
    parts = listed(text)
    for part in parts:
        name, equals, size = part.partition("=")
        if not equals and len(parts) == 1:
            sizes = dict.fromkeys(SPLITS, _size(part))
        elif name not in sizes:
            raise InputError(f"{name!r} is no split: choose from {', '.join(SPLITS)}", "--sizes")
        else:
            sizes[name] = _size(size)
    if not any(sizes.values()):
        raise InputError("all sizes are 0: give one above 0", "--sizes")
    return tuple((split, size) for split, size in sizes.items() if size)


def parse_formats(text: str) -> tuple[str, ...]:
    """Parses ``babi,sgd``. Raises InputError."""
    parts = listed(text)
    for part in parts:
        if part not in FORMATS:
            raise InputError(f"{part!r} is no format: choose from {', '.join(FORMATS)}", "--formats")
    if not parts:
        raise InputError("give babi, sgd or both", "--formats")
    return tuple(name for name in FORMATS if name in parts)


def check_numbers(per_file: int, least: int, solved: float, ratings: int) -> None:
    """Raises InputError for numbers out of range."""
    if not 1 <= per_file <= 1_000_000:
        raise InputError(f"{per_file}: give 1 to 1,000,000", "--dialogues_per_file")
    if not 1 <= least <= ratings:
        raise InputError(f"{least}: give 1 to {ratings}, the number of ratings", "--least_options")
    if not 0 <= solved <= 1:
        raise InputError(f"{solved:g} is no share: give 0 to 1", "--solve")


def _size(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > MAX_SIZE:
        raise InputError(f"{text!r} is no size: give a number up to {MAX_SIZE:,}, such as 1000", "--sizes")
    return int(text)
