"""A simulated corpus: its files, no two dialogues of which are the same, its statistics and its report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import msgspec

from parapet.schemas.dialogue import dialogue_text
from parapet.schemas.errors import InputError
from parapet.schemas.layout import schema_bytes
from parapet.transforms.counts import CountKey, Counts, Equal, Invariant
from parapet.transforms.perturbation.fence import needed
from parapet.transforms.perturbation.files import SetFiles
from parapet.transforms.progress import tracked
from parapet.transforms.reminders.dialogue import DIGEST_SIZE, check_dialogue, digest_of, simulate, text_digest
from parapet.transforms.reminders.service import SCHEMA, SERVICE
from parapet.transforms.reminders.user import Goal
from parapet.transforms.reminders.wording import TODAY, templates
from parapet.transforms.report import Examples, Report, Text, Tile, dialogue_example, report_files
from parapet.transforms.runs import FileResult
from parapet.transforms.simulators import count_distinct, nested_table
from parapet.transforms.text import counted

DIGESTS, UTTERANCES = "digests", "utterances"  # further outputs of a shard
ATTEMPTS = 100  # to differ from every other dialogue
SHOWN = 6  # dialogues on the page, two of a file

_TOTALS = ("dialogues", "turns", "spans", "calls", "failed_calls")
# What is counted by value, with its name in the report.
_BY_VALUE = {
    "intents": "task",
    "system_acts": "act of the system",
    "tasks_of_a_dialogue": "tasks of a dialogue",
    "user_acts": "act of the user",
    "users": "user",
}
BEHAVIORS = {
    "slip": "gives a wrong value and corrects it",
    "mind": "changes a value when asked to confirm it",
    "denies": "denies what the system confirms",
    "found": "acts on a reminder that was looked up before",
    "retry": "tries another time because the first is taken",
}


class Config(msgspec.Struct, frozen=True):
    """The options of a run.

    Attributes:
      output: the output folder.
      sizes: dialogues of each split that has any.
      per_file: dialogues of a file.
      seed: of all dialogues.
    """

    output: str
    sizes: dict[str, int]
    per_file: int
    seed: str

    def options(self) -> dict[str, object]:
        """The options that shape the content, for ``run.json``."""
        return {"dialogues": self.sizes, "per_file": self.per_file, "seed": self.seed}

    def shards(self) -> list[Shard]:
        """One for each file."""
        return [
            Shard(split, f"dialogues_{i:03}.json", first, min(first + self.per_file, size))
            for split, size in self.sizes.items()
            for i, first in enumerate(range(0, size, self.per_file), 1)
        ]

    def invariants(self) -> list[Invariant]:
        """Every dialogue is written, and no two are the same."""
        sizes = {CountKey("dialogues", split=split): size for split, size in self.sizes.items()}
        return [Equal({**sizes, CountKey("different"): sum(self.sizes.values())})]


class Shard(msgspec.Struct, frozen=True):
    """The dialogues of one file: the numbers from ``first`` up to, but not including, ``end``."""

    split: str
    name: str
    first: int
    end: int


def digest_shard(shard: Shard, seed: str) -> tuple[str, int, bytes]:
    """(split, number of the first dialogue, the digests of all dialogues at the first attempt)."""
    digests = [digest_of(simulate(seed, shard.split, number)[0]) for number in range(shard.first, shard.end)]
    return shard.split, shard.first, b"".join(digests)


def choose_attempts(seed: str, digests: Iterable[tuple[str, int, bytes]]) -> dict[tuple[str, int], int]:
    """(split, number) to the attempt of each dialogue that would be the same as another one, in any split.

    The first by split and number stays; the others are simulated again until they differ from all.

    Raises:
      InputError: one of them never does: there are not as many different dialogues.
    """
    shards = sorted(digests)
    split_digests = [[data[i : i + DIGEST_SIZE] for i in range(0, len(data), DIGEST_SIZE)] for _, _, data in shards]
    taken = {digest for shard_digests in split_digests for digest in shard_digests}
    seen: set[bytes] = set()
    attempts = {}
    for (split, first, _), shard_digests in zip(shards, split_digests, strict=True):
        for number, digest in enumerate(shard_digests, first):
            if digest not in seen:
                seen.add(digest)
                continue
            for attempt in range(1, ATTEMPTS):
                other = digest_of(simulate(seed, split, number, attempt)[0])
                if other not in taken:
                    taken.add(other)
                    attempts[split, number] = attempt
                    break
            else:
                raise InputError("there are not that many different dialogues: ask for fewer", "", "--dialogues")
    return attempts


def count_different(_: str, digests: Iterable[bytes]) -> tuple[CountKey, int]:
    """The count of the dialogues that differ from each other, in the same split or not."""
    return CountKey("different"), count_distinct(digests)


def write_shard(shard: Shard, attempts: Mapping[tuple[str, int], int], config: Config) -> FileResult:
    """Writes a dialogue file into staging.

    Args:
      shard: its dialogues.
      attempts: of those that are simulated again.
      config: the options.
    """
    split = shard.split
    result = FileResult(f"{split}/{shard.name}")
    counts: Counter[tuple[str, str]] = Counter()
    utterances: set[bytes] = set()
    digests = []
    examples = result.examples[split] = []
    with ExitStack() as stack:
        file = SetFiles(config.output, [split], shard.name, stack)
        for number in tracked(range(shard.first, shard.end), "dialogues"):
            attempt = attempts.get((split, number), 0)
            with needed(result.key, f"dialogue {number}"):
                dialogue, goal = simulate(config.seed, split, number, attempt)
                check_dialogue(dialogue, goal)
                file.add(split, dialogue_text(dialogue))
            count(counts, dialogue, goal)
            counts["made_again", ""] += attempt > 0
            utterances.update(text_digest(turn["utterance"]) for turn in dialogue["turns"])
            digests.append(digest_of(dialogue))
            if number < shard.first + 2 and split == "train":
                lines = [(turn["speaker"].lower(), turn["utterance"]) for turn in dialogue["turns"]]
                examples.append((number.to_bytes(8), (dialogue["dialogue_id"], lines)))
        file.close()
    result.written = file.written()
    result.others = {DIGESTS: [b"".join(digests)], UTTERANCES: [(split, b"".join(sorted(utterances)))]}
    for (name, value), n in counts.items():
        result.counts.add(name, n, split=split, value=value)
    return result


def count(counts: Counter[tuple[str, str]], dialogue: Mapping[str, Any], goal: Goal) -> None:
    """Counts a dialogue by (name, value): turns, acts of each side, tasks, calls, and how its user behaves."""
    turns = dialogue["turns"]
    counts["dialogues", ""] += 1
    counts["turns", ""] += len(turns)
    counts["failed_calls", ""] += sum(not call.succeeds for call in goal.calls)
    counts["tasks_of_a_dialogue", str(len(goal.tasks))] += 1
    for task in goal.tasks:
        counts["intents", task.intent] += 1
        for name, is_so in ((task.deviation, task.deviation), ("retry", task.retry), ("found", task.looked_up)):
            if is_so:
                counts["users", name] += 1
    for turn in turns:
        (frame,) = turn["frames"]
        counts["spans", ""] += len(frame["slots"])
        counts["calls", ""] += "service_call" in frame
        for action in frame["actions"]:
            counts[turn["speaker"].lower() + "_acts", action["act"]] += 1
            if action["act"] == "NEGATE" and frame["state"]["active_intent"] != "NONE":
                counts["users", "denies"] += 1


def statistics(config: Config, counts: Counts, different: Mapping[str, int]) -> dict[str, Any]:
    """``statistics.json``.

    Args:
      config: the options.
      counts: of the run.
      different: split to the number of its different utterances.
    """
    splits: dict[str, dict[str, Any]] = {}
    for split in config.sizes:
        splits[split] = {name: counts.sum(name, split=split) for name in _TOTALS}
        splits[split]["different_utterances"] = different.get(split, 0)
        splits[split]["made_again"] = counts.sum("made_again", split=split)
        by_value = {name: counts.by("value", name, split=split) for name in _BY_VALUE}
        splits[split] |= {name: values for name, values in by_value.items() if values}
    patterns = templates().texts.values()
    return {
        "service": SERVICE,
        "today": TODAY.isoformat(),
        "names": len(templates().names),
        "templates": sum(len(texts) for by_key in patterns for texts in by_key.values()),
        "splits": splits,
    }


def metadata_files(
    counts: Counts,
    examples: Mapping[str, Sequence[Any]],
    utterances: Sequence[tuple[str, bytes]],
    config: Config,
) -> dict[str, bytes]:
    """The files besides dialogues: schemas, ``statistics.json``, the card and the page."""
    different = {split: count_distinct(data for name, data in utterances if name == split) for split in config.sizes}
    numbers = statistics(config, counts, different)
    schemas = {f"{split}/schema.json": schema_bytes([SCHEMA]) for split in config.sizes}
    return {**schemas, **report_files(numbers, report_on(numbers, examples.get("train", ()), config.seed))}


def report_on(numbers: Mapping[str, Any], examples: Sequence[tuple[str, list[tuple[str, str]]]], seed: str) -> Report:
    """The card and the page.

    Args:
      numbers: ``statistics.json``.
      examples: dialogues: id, and (speaker, utterance) of each turn.
      seed: of the run.
    """
    splits = numbers["splits"]
    totals = {name: sum(split[name] for split in splits.values()) for name in (*_TOTALS, "different_utterances")}
    by_value: dict[str, dict[str, dict[str, int]]] = {label: {} for label in _BY_VALUE.values()}
    for split, of_split in splits.items():
        for name, label in _BY_VALUE.items():
            for value, n in of_split.get(name, {}).items():
                by_value[label].setdefault(BEHAVIORS.get(value, value), {})[split] = n
    return Report(
        command="reminders",
        title="Reminders",
        headline="Simulated dialogues about reminders",
        lead=f"{counted(totals['dialogues'], 'dialogue')}, {counted(totals['turns'], 'turn')}, in the SGD layout: an "
        "agenda-based user (Schatzmann et al. 2007) talks to a system that sets, finds, moves and cancels reminders.",
        tiles=[
            Tile("different utterances", f"{totals['different_utterances']:,}"),
            Tile("templates", f"{numbers['templates']:,}"),
            Tile("names of reminders", f"{numbers['names']:,}"),
        ],
        sections=[
            nested_table("Splits", "split", splits, [*_TOTALS, "different_utterances", "made_again"]),
            nested_table("Tasks, acts and users", "what is counted", by_value, list(splits)),
            Text(
                title="About these dialogues",
                paragraphs=[
                    "They are seed dialogues, like those of the reminder domain of RADDLE (Peng et al. 2021): made "
                    "from act templates, to be rewritten by people or to have their values replaced by unseen ones.",
                    f"Today is {numbers['today']}, as in SGD. The splits share names, days and times, but no dialogue.",
                    f"Seed: `{seed}`. All texts were written for Parapet.",
                ],
            ),
            Examples(title="Examples", examples=[dialogue_example(place, lines) for place, lines in examples]),
        ],
        terms={
            "failed calls": "Intended: the time is taken by another reminder, or there is no such reminder.",
            "made again": "Dialogues that were at first the same as another one.",
        },
        links={"statistics.json": "all numbers"},
    )
