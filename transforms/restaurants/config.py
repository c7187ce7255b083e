"""What a run of ``restaurants`` is given: tasks, sizes, and the files that come of them."""

from __future__ import annotations

import msgspec

from parapet.schemas.errors import InputError
from parapet.transforms.babi_format import dialogues_name
from parapet.transforms.corpora import listed
from parapet.transforms.counts import CountKey, Equal, Invariant
from parapet.transforms.restaurants.ontology import Ontology
from parapet.transforms.restaurants.simulating import TASKS, check_updates
from parapet.transforms.restaurants.world import SPLITS, World, check_world

PLUS = "babi_plus"
MAX_SIZE = 100_000_000  # dialogues of a set
FORMATS = ("babi", "sgd")


class Shard(msgspec.Struct, frozen=True):
    """The dialogues of one file.

    Attributes:
      task: 1 to 5.
      split: train, dev, test or oov.
      first: the number of its first dialogue in the set, from 0.
      dialogues: how many they are.
      part: which file of the set it is, from 1.
      parts: how many there are.
    """

    task: int
    split: str
    first: int
    dialogues: int
    part: int
    parts: int

    def text_name(self, plus: bool) -> str:
        """Of the file in the published format, below the output folder."""
        name = dialogues_name(self.task, self.split, self.part, self.parts)
        return f"{PLUS}/{name}" if plus else name

    def corpus(self, plus: bool) -> str:
        """The corpus in the SGD layout, below the output folder."""
        return corpus_name(self.task, self.split, plus)

    @property
    def sgd_name(self) -> str:
        """Of the file in the SGD layout, below its corpus."""
        return f"{'test' if self.split == 'oov' else self.split}/dialogues_{self.part:03}.json"


class Config(msgspec.Struct, frozen=True):
    """The options of a run.

    Attributes:
      output: the output folder.
      ontology: the domain.
      ontology_path: its file; None where it is the built-in one.
      tasks: in order.
      sizes: (split, dialogues of each task), without those of none.
      per_file: dialogues of a file at most.
      formats: babi, sgd or both.
      seed: of all that is drawn.
      least: entities that a request finds at least, where they are offered.
      plus: rates of disfluencies, where there are sets of them.
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
        return [
            Equal(
                {
                    CountKey(form, corpus_name(task, split, plus).removeprefix("sgd/"), split): size
                    for form in self.formats
                    for task in self.tasks
                    for split, size in self.sizes
                    for plus in ((False, True) if self.plus else (False,))
                }
            )
        ]

    def world(self) -> World:
        """The knowledge base."""
        return World(self.ontology, self.seed, self.least)

    def shards(self) -> list[Shard]:
        """One for each file, in order."""
        found = []
        for task in self.tasks:
            for split, size in self.sizes:
                parts = -(-size // self.per_file)
                for i in range(parts):
                    first = i * self.per_file
                    shard = Shard(task, split, first, min(self.per_file, size - first), i + 1, parts)
                    found.append(shard)
        return found

    def schema_names(self) -> list[str]:
        """Of the schema files in the SGD layout, below the output folder."""
        if "sgd" not in self.formats:
            return []
        return sorted(
            f"{corpus_name(task, split, plus)}/{'test' if split == 'oov' else split}/schema.json"
            for task in self.tasks
            for split, _ in self.sizes
            for plus in ((False, True) if self.plus else (False,))
        )


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


def parse_tasks(given: str) -> tuple[int, ...]:
    """``1,2`` as tasks, in order. Raises InputError."""
    parts = listed(given)
    for part in parts:
        if part not in map(str, TASKS):
            raise InputError(f"{part!r} is no task: there are 1 to 5; task 6 is 'parapet babi_task6'", "--tasks")
    if not parts or len(set(parts)) < len(parts):
        raise InputError("give each task once, such as 1,2,5", "--tasks")
    return tuple(sorted(map(int, parts)))


def parse_sizes(given: str) -> tuple[tuple[str, int], ...]:
    """``1000``, or ``train=5000,oov=0``: what is not named keeps its 1,000. Raises InputError."""
    sizes = dict.fromkeys(SPLITS, 1000)
    parts = listed(given)
    for part in parts:
        name, equals, text = part.partition("=")
        if not equals and len(parts) == 1:
            sizes = dict.fromkeys(SPLITS, _size(part))
        elif name not in sizes:
            raise InputError(f"{name!r} is no split: there are {', '.join(SPLITS)}", "--sizes")
        else:
            sizes[name] = _size(text)
    if not any(sizes.values()):
        raise InputError("nothing is asked for: give a size above 0", "--sizes")
    return tuple((split, size) for split, size in sizes.items() if size)


def parse_formats(given: str) -> tuple[str, ...]:
    """``babi,sgd``. Raises InputError."""
    parts = listed(given)
    for part in parts:
        if part not in FORMATS:
            raise InputError(f"{part!r} is no format: there are {', '.join(FORMATS)}", "--formats")
    if not parts:
        raise InputError("give babi, sgd or both", "--formats")
    return tuple(one for one in FORMATS if one in parts)


def check_numbers(per_file: int, least: int, solved: float, ratings: int) -> None:
    """Raises InputError for numbers of flags that cannot work."""
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
