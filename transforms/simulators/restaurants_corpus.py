"""The corpus of ``restaurants``: options and shards, dialogues in both formats, and the files created from all of them.

In SGD, user and system alternate, and calls are not utterances. So several lines of the bot, with the user silent in
between, become one turn; its frame has the call and its results. The facts before a dialogue of task 3 become the
results of the search when the bot starts to offer; the facts before a dialogue of task 4, the result of the
reservation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import msgspec

from parapet.schemas.dialogue import dialogue_text as sgd_text
from parapet.schemas.errors import InputError
from parapet.schemas.layout import schema_bytes
from parapet.transforms.core import fence, progress, runs
from parapet.transforms.core.counts import CountKey, Counts, Equal, Invariant
from parapet.transforms.core.files import HashingWriter, SetFiles, staged
from parapet.transforms.report.numbers import Numbers, metrics_named, sections_of
from parapet.transforms.report.report import Examples, Report, Text, Tile, dialogue_example, report_files
from parapet.transforms.report.text import counted
from parapet.transforms.simulators import formats
from parapet.transforms.simulators.restaurants_bot import Rules, solve
from parapet.transforms.simulators.restaurants_simulation import (
    CALLS,
    RATES,
    SPLITS,
    Dialogue,
    Ontology,
    TurnPair,
    Utterance,
    World,
    candidates,
    disfluent,
    knowledge_base,
    lines_of,
    simulate,
)

SHOWN = 2  # dialogues of a task on the page


class Simulator:
    """The shared state of all shards: the world, the rules of the bot, and the bot's possible utterances.

    Args:
      config: the options.
    """

    def __init__(self, config: Config) -> None:
        self.config, self.world = config, config.world()
        self.rules = Rules(config.ontology)
        self.candidates = frozenset(candidates(self.world))


def write_shard(shard: Shard, simulator: Simulator) -> runs.FileResult:
    """Writes the files of a shard into staging, dialogue by dialogue.

    Raises:
      InputError: the rule-based bot does not solve a dialogue without disfluencies.
    """
    config, world = simulator.config, simulator.world
    task, split, first = shard.task, shard.split, shard.first
    result = runs.FileResult(shard.text_name(plus=False))
    counts: Counter[tuple[str, str]] = Counter()  # by name and value
    written: Counter[tuple[str, str]] = Counter()  # by format and corpus
    kinds = (False, True) if config.babi_plus else (False,)
    with ExitStack() as stack:
        paths = [shard.text_name(plus) for plus in kinds if "babi" in config.formats]
        texts = {path: HashingWriter(stack.enter_context(staged(config.output, path))) for path in paths}
        corpora = [shard.corpus(plus) for plus in kinds if "sgd" in config.formats]
        files = SetFiles(config.output, corpora, shard.sgd_name, stack)
        for number in progress.tracked(range(first, first + shard.dialogues), "dialogues"):
            with fence.needed(result.key, f"dialogue {number}"):
                dialogue = simulate(world, task, split, number)
                for pair in dialogue.pairs:
                    if (says := pair.bot.line.utterance) not in simulator.candidates:
                        raise RuntimeError(f"{dialogue.dialogue_id}: the bot says {says!r}, no candidate")
                count(counts, world, dialogue)
                if split == config.sizes[0][0] and number < SHOWN:
                    example = (dialogue.dialogue_id, formats.labelled_lines(lines_of(world, dialogue)))
                    result.examples.setdefault(str(task), []).append((number.to_bytes(8), example))
                for plus in kinds:
                    if plus:
                        dialogue = disfluent(world, dialogue, split)
                    text = formats.dialogue_text(lines_of(world, dialogue)).encode()
                    counts.update(_solve(simulator, text, dialogue, plus))
                    corpus = shard.corpus(plus)
                    if texts:
                        texts[shard.text_name(plus)].write(text)
                        written["babi", corpus] += 1
                    if corpora:
                        files.add(corpus, sgd_text(sgd_dialogue(world, dialogue)))
                        written["sgd", corpus] += 1
        files.close()
    result.written = [writer.written(path) for path, writer in texts.items()] + files.written()
    result.counts.add("files", len(result.written))
    result.counts.add("dialogues", shard.dialogues)
    for (form, corpus), n in written.items():
        result.counts.add(form, n, set=corpus.removeprefix("sgd/"), split=split)
    for (name, value), n in counts.items():
        result.counts.add(name, n, set=str(task), split=split, value=value)
    return result


def _solve(simulator: Simulator, text: bytes, dialogue: Dialogue, plus: bool) -> dict[tuple[str, str], int]:
    """Lets the bot solve a dialogue as it is written. Raises InputError if it fails without disfluencies."""
    (parsed,) = formats.parse_dialogues(text)
    right = solve(simulator.rules, parsed)
    if not plus and not all(right):
        wrong = parsed.exchanges[right.index(False)]
        reason = (
            f"dialogue {dialogue.dialogue_id}: the rule-based bot does not find the answer {wrong.bot!r} to "
            f"{wrong.user!r}: check whether two patterns are ambiguous"
        )
        raise InputError(reason, "--ontology")
    numbers = {"answers": len(right), "right": sum(right), "tried": 1, "solved": int(all(right))}
    return {(name, "plus" if plus else "plain"): n for name, n in numbers.items()}


def metadata_files(counts: Counts, examples: Mapping[str, Sequence[Any]], config: Config) -> dict[str, bytes]:
    """Creates the files other than dialogues, by path.

    Args:
      counts: the counts of the run.
      examples: task to (id, labelled lines) of some dialogues.
      config: the options.
    """
    world = config.world()
    numbers = {
        **_domain(world),
        "tasks": statistics(config.tasks, config.sizes, counts),
        "bot": solved(config.tasks, counts),
    }
    files = dict.fromkeys(config.schema_names(), schema_bytes(schema(world.ontology)))
    if "babi" in config.formats:
        # The folder of the sets with disfluencies is complete, too.
        for folder in ("", f"{PLUS}/") if config.babi_plus else ("",):
            files[folder + formats.FACTS] = formats.facts_text(knowledge_base(world)).encode()
            files[folder + formats.CANDIDATES] = formats.candidates_text(candidates(world)).encode()
    return files | report_files(numbers, report_on(numbers, examples, config.seed, config.babi_plus))


def _domain(world: World) -> dict[str, Any]:
    patterns = world.ontology.patterns
    seen, unseen = world.halves
    facts = len(world.names) + len(world.ontology.extras) + 1
    return {
        "domain": world.ontology.domain,
        "entities": {"seen": len(seen), "unseen": len(unseen)},
        "facts": (len(seen) + len(unseen)) * facts,
        "requests": {split: len(part.requests) for split, part in world.parts.items()},
        "patterns": {"user": sum(map(len, patterns.user_ways().values())), "bot": len(patterns.bot_texts(()))},
        "candidates": len(candidates(world)),
    }


PLUS = "babi_plus"
MAX_SIZE = 100_000_000  # dialogues of a set


class Shard(msgspec.Struct, frozen=True):
    """The dialogues of one file.

    Attributes:
      task: the task, 1 to 5.
      split: the split: train, dev, test or oov.
      first: the number of its first dialogue in the set, from 0.
      dialogues: the number of dialogues.
      part: the number of the file in its set, from 1.
      parts: the number of files of the set.
    """

    task: int
    split: str
    first: int
    dialogues: int
    part: int
    parts: int

    def text_name(self, plus: bool) -> str:
        """Returns the path of the file in the published format."""
        name = formats.dialogues_name(self.task, self.split, self.part, self.parts)
        return f"{PLUS}/{name}" if plus else name

    def corpus(self, plus: bool) -> str:
        """Returns the folder of the corpus in the SGD layout."""
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
      ontology_path: its file; empty for the built-in domain.
      tasks: the tasks in order.
      sizes: (split, dialogues of each task) for splits that have any.
      dialogues_per_file: the maximum number of dialogues per file.
      formats: the output formats: babi, sgd or both.
      seed: the seed of all random choices.
      babi_plus: whether to add copies with disfluencies.
    """

    output: str
    ontology: Ontology
    ontology_path: str
    tasks: tuple[int, ...]
    sizes: tuple[tuple[str, int], ...]
    dialogues_per_file: int
    formats: tuple[str, ...]
    seed: str
    babi_plus: bool

    def options(self) -> dict[str, object]:
        """Returns the options that affect the content, for ``run.json``."""
        return {
            "ontology": msgspec.to_builtins(self.ontology) if self.ontology_path else "restaurants",
            "tasks": list(self.tasks),
            "sizes": dict(self.sizes),
            "formats": list(self.formats),
            "dialogues_per_file": self.dialogues_per_file,
            "babi_plus": self.babi_plus,
            "seed": self.seed,
        }

    def invariants(self) -> list[Invariant]:
        """Every set has, in every format, the requested number of dialogues."""
        sets = [(corpus_name(task, split, plus), split, size) for task, split, size, plus in self._sets()]
        counts = {
            CountKey(form, name.removeprefix("sgd/"), split): n for form in self.formats for name, split, n in sets
        }
        return [Equal(counts)]

    def world(self) -> World:
        """Creates the knowledge base."""
        return World(self.ontology, self.seed)

    def shards(self) -> list[Shard]:
        """Returns a shard for each file, in order."""
        most = self.dialogues_per_file
        return [
            Shard(task, split, first, min(most, size - first), part, -(-size // most))
            for task in self.tasks
            for split, size in self.sizes
            for part, first in enumerate(range(0, size, most), 1)
        ]

    def schema_names(self) -> list[str]:
        """Returns the paths of the schema files in the SGD layout."""
        if "sgd" not in self.formats:
            return []
        return sorted(
            f"{corpus_name(task, split, plus)}/{'test' if split == 'oov' else split}/schema.json"
            for task, split, _, plus in self._sets()
        )

    def _sets(self) -> list[tuple[int, str, int, bool]]:
        """Returns (task, split, dialogues, whether with disfluencies) for each set."""
        kinds = (False, True) if self.babi_plus else (False,)
        return [(task, split, size, plus) for task in self.tasks for split, size in self.sizes for plus in kinds]


def corpus_name(task: int, split: str, plus: bool) -> str:
    """Returns the folder of a corpus: ``sgd/task1``, ``sgd/task1-oov``, ``sgd/task1-plus-oov``."""
    return f"sgd/task{task}{'-plus' if plus else ''}{'-oov' if split == 'oov' else ''}"


def parse_sizes(parts: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Parses ``1000``, or ``train=5000`` and ``oov=0`` with a default of 1,000. Raises InputError."""
    sizes = dict.fromkeys(SPLITS, 1000)
    for part in parts:
        name, equals, size = part.rpartition("=")
        if (equals or len(parts) > 1) and name not in sizes:
            raise InputError(f"{name!r} is not a split: must be one of {', '.join(SPLITS)}", "--sizes")
        if not size.isdecimal() or int(size) > MAX_SIZE:
            raise InputError(f"{size!r} is not a size: must be a number up to {MAX_SIZE:,} (example: 1000)", "--sizes")
        sizes |= dict.fromkeys([name] if equals else SPLITS, int(size))
    if not any(sizes.values()):
        raise InputError("at least one size must be above 0", "--sizes")
    return tuple((split, size) for split, size in sizes.items() if size)


# Acts of the user or the bot, to acts of SGD without a slot.
_ACTS = {
    "no_more": ("NEGATE",),
    "reject": ("REQUEST_ALTS",),
    "accept": ("SELECT",),
    "thank": ("THANK_YOU",),
    "decline": ("NEGATE", "GOODBYE"),
    "greet": ("REQ_MORE",),
    "updated": ("REQ_MORE",),
    "reserve": ("NOTIFY_SUCCESS",),
    "reserve_by_name": ("NOTIFY_SUCCESS",),
    "anything_else": ("REQ_MORE",),
    "farewell": ("GOODBYE",),
}


def schema(ontology: Ontology) -> list[dict[str, Any]]:
    """Creates the services of a corpus, which is a single one."""
    domain, extras = ontology.domain, ontology.extras
    slots = [
        formats.schema_slot("name", f"Name of the {domain}"),
        *(
            formats.schema_slot(field.name, f"{_aloud(field.name)} of the {domain}", field.values)
            for field in ontology.fields
        ),
        formats.schema_slot("rating", f"Rating of the {domain}, the higher the better"),
        *(formats.schema_slot(extra, f"{_aloud(extra)} of the {domain}") for extra in extras),
    ]
    names = [slot["name"] for slot in slots]
    service, find, reserve = names_for(ontology)
    return [
        formats.schema_service(
            service,
            f"Finds a {domain} that is what the user wants, and books it",
            slots,
            [
                formats.schema_intent(find, f"Find a {domain} by {', '.join(ontology.names)}", ontology.names, names),
                formats.schema_intent(reserve, f"Book a {domain} by its name", ["name"], names, transactional=True),
            ],
        )
    ]


def names_for(ontology: Ontology) -> tuple[str, str, str]:
    """Returns the service and its intents: ``Restaurants_1``, ``FindRestaurant``, ``ReserveRestaurant``."""
    domain = "".join(c for c in ontology.domain if c.isascii() and c.isalnum()).capitalize()
    return f"{domain}s_1", f"Find{domain}", f"Reserve{domain}"


def sgd_dialogue(world: World, dialogue: Dialogue) -> dict[str, Any]:
    """Converts a dialogue to the SGD format."""
    turns = _Turns(world)
    for pair in dialogue.pairs:
        turns.add(pair)
    turns.close()
    return {"dialogue_id": dialogue.dialogue_id, "services": [turns.service], "turns": turns.turns}


class _Turns:
    """Collects the turns of a dialogue."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.service, self.find, self.reserve = names_for(world.ontology)
        # Values of these slots have spans; the values of others are among the possible values.
        self._free = {field.name for field in world.ontology.fields if not field.values}
        self._free |= {"name", *world.ontology.extras}
        self.turns: list[dict[str, Any]] = []
        self._said: list[Utterance] = []  # by the bot, since the user last spoke
        self._call: tuple[str, dict[str, str]] | None = None
        self._known: list[dict[str, str]] = []  # the entities whose facts are known
        self._wishes: dict[str, str] = {}
        self._offered = ""
        self._intent = "NONE"

    def add(self, pair: TurnPair) -> None:
        """Adds the next line of the dialogue."""
        if pair.results:
            self._known = [{"name": entity.name, **self.world.facts(entity)} for entity in pair.results]
        if pair.user:
            self.close()
            self.turns.append(self._of_user(pair.user))
        self._of_bot(pair.bot)

    def _of_user(self, utterance: Utterance) -> dict[str, Any]:
        kind, _, extra = utterance.act.partition(".")
        values = utterance.values
        acts = [formats.act("INFORM", slot, value) for slot, value in values.items()]
        if kind == "request":
            self._intent = self.reserve if "name" in values else self.find
            acts.append(formats.act("INFORM_INTENT", "intent", self._intent))
        elif kind == "accept":
            self._intent, self._wishes["name"] = self.reserve, self._offered
        elif kind in ("thank", "decline"):
            self._intent = "NONE"
        if kind == "question":
            acts.append(formats.act("REQUEST", extra))
        elif kind != "greet":
            acts += [formats.act(name) for name in _ACTS.get(kind, ())]
        self._wishes |= values
        after = formats.state(
            self._intent, {slot: [value] for slot, value in self._wishes.items()}, [extra] if kind == "question" else []
        )
        return formats.user_turn(self.service, self._spans(utterance.line), acts, after)

    def _of_bot(self, utterance: Utterance) -> None:
        if utterance.act in CALLS:
            self._call = (self.find, utterance.values)
            return
        if utterance.act == "option" and self._call is None:  # task 3
            self._call = (self.find, {name: self._wishes[name] for name in self.world.names})
        if utterance.act in ("option", "next_option"):
            self._offered = utterance.values["name"]
        if utterance.act in ("reserve", "reserve_by_name"):
            self._call = (self.reserve, {"name": self._wishes["name"]})
        self._said.append(utterance)

    def close(self) -> None:
        """Ends the bot's turn, if any; also called after the last line."""
        if not self._said:
            return
        acts = [action for utterance in self._said for action in _bot_acts(utterance)]
        line = formats.joined(*(self._spans(utterance.line) for utterance in self._said))
        self.turns.append(formats.system_turn(self.service, line, acts, self._call, self._results()))
        self._said, self._call = [], None

    def _results(self) -> list[dict[str, str]]:
        """Returns the results of the call: for a search all known entities, for a reservation the reserved one."""
        if self._call and self._call[0] == self.reserve:
            return [entity for entity in self._known if entity["name"] == self._call[1]["name"]]
        return self._known

    def _spans(self, line: formats.Sentence) -> formats.Sentence:
        return formats.Sentence(line.utterance, tuple(span for span in line.spans if span[0] in self._free))


def _bot_acts(utterance: Utterance) -> list[dict[str, Any]]:
    kind, _, slot = utterance.act.partition(".")
    if kind == "ask":
        return [formats.act("REQUEST", slot)]
    if kind in ("option", "next_option"):
        return [formats.act("OFFER", "name", utterance.values["name"])]
    if kind == "give":
        return [formats.act("INFORM", slot, utterance.values[slot])]
    return [formats.act(name) for name in _ACTS.get(kind, ())]


def _aloud(name: str) -> str:
    return name.replace("_", " ").capitalize()


# Bordes et al. 2017, Table 1: means per dialogue. The first row is the sum of the others except for task 3, where the
PAPER = {
    1: {"utterances": 12, "user": 5, "bot": 7, "results": 0},
    2: {"utterances": 17, "user": 7, "bot": 10, "results": 0},
    3: {"utterances": 43, "user": 7, "bot": 10, "results": 23},
    4: {"utterances": 15, "user": 4, "bot": 4, "results": 7},
    5: {"utterances": 55, "user": 13, "bot": 18, "results": 24},
}
# Measured on the published files of these tasks, all four splits together.
PUBLISHED = {
    1: {"utterances": 10.00, "user": 4.00, "silences": 2.00, "bot": 6.00, "results": 0.0},
    4: {"utterances": 14.02, "user": 3.51, "silences": 0.0, "bot": 3.51, "results": 7.0},
}
LINES = ("user", "silences", "bot", "results")


def count(counts: Counter[tuple[str, str]], world: World, dialogue: Dialogue) -> None:
    """Counts the lines of a dialogue by (name, value)."""
    pairs = dialogue.pairs
    users = sum(pair.user is not None for pair in pairs)
    facts = len(world.names) + len(world.ontology.extras) + 1
    counts["dialogues", ""] += 1
    counts["lines", "user"] += users
    counts["lines", "silences"] += len(pairs) - users
    counts["lines", "bot"] += len(pairs)
    counts["lines", "results"] += sum(len(pair.results) for pair in pairs) * facts


def statistics(tasks: Sequence[int], sizes: Sequence[tuple[str, int]], counts: Counts) -> dict[str, Any]:
    """Returns the part of ``statistics.json`` about dialogues, by task.

    Args:
      tasks: the simulated tasks.
      sizes: (split, dialogues).
      counts: the counts of the run.
    """
    return {
        str(task): {
            "splits": {split: _means(counts, set=str(task), split=split) for split, _ in sizes},
            "all": _means(counts, set=str(task)),
            "paper": PAPER[task],
            "published_files": PUBLISHED.get(task),
        }
        for task in tasks
    }


def _means(counts: Counts, **parts: str) -> dict[str, Any]:
    n = counts.sum("dialogues", **parts)
    lines = {name: counts.sum("lines", value=name, **parts) for name in LINES}
    means = {name: lines[name] / n if n else None for name in LINES}
    utterances = lines["user"] + lines["bot"] + lines["results"]
    return {"dialogues": n, "utterances": utterances / n if n else None, **means}


def solved(tasks: Sequence[int], counts: Counts) -> dict[str, dict[str, Any]]:
    """Returns the bot's results by set (``plain``, ``plus``), task and kind of test: answers and dialogues."""
    results: dict[str, dict[str, Any]] = {}
    for name in ("plain", "plus"):
        for task in tasks:
            for test, splits in (("seen", ("train", "dev", "test")), ("oov", ("oov",))):
                sums = {
                    key: sum(counts.sum(key, set=str(task), split=split, value=name) for split in splits)
                    for key in ("answers", "right", "tried", "solved")
                }
                if sums["tried"]:
                    shares = {
                        "per_response": sums["right"] / sums["answers"],
                        "per_dialogue": sums["solved"] / sums["tried"],
                    }
                    results.setdefault(name, {}).setdefault(str(task), {})[test] = {**sums, **shares}
    return results


TITLES = {
    "1": "issuing API calls",
    "2": "updating API calls",
    "3": "displaying options",
    "4": "providing extra information",
    "5": "full dialogues",
}
_MEANS = ("utterances", "user", "silences", "bot", "results")
TERMS = {
    "utterances": "Those of the user and of the bot, and lines of facts; without silences.",
    "silences": "Lines in which the user says nothing because the bot speaks twice in a row.",
    "results": "Lines of facts that API calls return.",
    "per dialogue": "Dialogues in which the rule-based bot finds every answer.",
}


def report_on(numbers: Mapping[str, Any], examples: Mapping[str, Sequence[Any]], seed: str, plus: bool) -> Report:
    """Creates the report for the card and the page.

    Args:
      numbers: the content of ``statistics.json``.
      examples: task to (id, labelled lines) of some dialogues.
      seed: the seed of the run.
      plus: whether there are copies with disfluencies.
    """
    tasks = numbers["tasks"]
    means = {
        TITLES[task]: {
            "all": parts["all"],
            **parts["splits"],
            "paper, Table 1": parts["paper"],
            **({"published files": parts["published_files"]} if parts["published_files"] else {}),
        }
        for task, parts in tasks.items()
    }
    metrics = metrics_named("dialogues", *_MEANS, digits=2)
    answers, right, tried, done = metrics_named("answers", "per_response", "tried", "per_dialogue")
    dialogues = counted(sum(task["all"]["dialogues"] for task in tasks.values()), "dialogue")
    notes = [
        "No request (a value for each field) is in two splits. No entity, and no value of a field with unseen values, "
        "is both in training and in the out-of-vocabulary test.",
        f"Seed: `{seed}`. Each dialogue depends only on the seed, its task, its split and its number.",
    ]
    if plus:
        rates = ", ".join(f"{kind} {share:.0%}" for kind, share in RATES.items())
        notes.append(f"`babi_plus`: the same with disfluencies in user turns: {rates}. API calls are unchanged.")
    return Report(
        command="restaurants",
        title=f"Simulated dialogues about a {numbers['domain']}",
        headline=f"Simulated dialogues about a {numbers['domain']}",
        lead=f"{dialogues} of {counted(len(tasks), 'task')} of Bordes et al. 2017, section 3.",
        tiles=[Tile(name, f"{numbers[name]:,}") for name in ("candidates", "facts")],
        sections=[
            *sections_of(
                {"means": means}, Numbers("Means per dialogue", "means/*/*", ("task", "dialogues of"), metrics)
            ),
            *sections_of(
                numbers,
                Numbers(
                    "The rule-based bot",
                    "bot/*/*/*",
                    ("dialogues", "task", "test"),
                    (answers, right._replace(percent=True), tried, done._replace(percent=True)),
                    note="The answers that it finds, given everything before; `plus` has disfluencies. Also the "
                    "dialogues solved.",
                    in_card=False,
                ),
            ),
            Text(title="About these dialogues", paragraphs=notes),
            *(
                Examples(
                    title=f"Examples of task {task}, {TITLES[task]}",
                    examples=[dialogue_example(*example) for example in of_task],
                )
                for task, of_task in sorted(examples.items())
            ),
        ],
        terms=TERMS,
        links={"statistics.json": "all numbers"},
    )
