"""Simulated dialogues about reminders, and a corpus of them without duplicates.

The system tracks the state, requests missing slots, confirms, calls the service and reports the result. User and system
alternate until goodbye, and the result is checked. The corpus has dialogue files, schemas, statistics and a report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
import numpy as np

from parapet.schemas import errors, layout
from parapet.schemas.dialogue import dialogue_text
from parapet.transforms.core import fence, files, progress, runs, seeding
from parapet.transforms.core.counts import CountKey, Counts, Equal, Invariant
from parapet.transforms.report.numbers import Numbers, metrics_named, sections_of
from parapet.transforms.report.report import Examples, Report, Text, Tile, dialogue_example, report_files
from parapet.transforms.report.text import counted
from parapet.transforms.simulators.formats import state, system_turn, user_turn
from parapet.transforms.simulators.reminders_user import (
    CONFIRMED,
    DATE,
    FIND,
    NAME,
    OFTEN,
    REPEATS,
    REQUIRED,
    SCHEMA,
    SERVICE,
    SLOTS,
    SYSTEM,
    TIME,
    TODAY,
    USER,
    Act,
    Calendar,
    Goal,
    User,
    Value,
    another,
    day_value,
    draw_goal,
    repeats_value,
    say,
    templates,
    time_value,
    values_of,
)

NO_INTENT = "NONE"


class Reply(NamedTuple):
    """A turn of the system.

    Attributes:
      acts: its dialogue acts.
      call: the service call before it, with intent and canonical values; None without a call.
      results: the results of the call.
    """

    acts: list[Act]
    call: tuple[str, dict[str, str]] | None = None
    results: tuple[dict[str, str], ...] = ()


class System:
    """A system with a calendar.

    A new intent starts without values, because reminders do not share them. Selecting an offered reminder sets its
    name.

    Args:
      calendar: the service.
      rng: the random generator of its choices.

    Attributes:
      intent: the active intent, or ``NONE``.
      values: slot to value, as informed or affirmed by the user.
    """

    def __init__(self, calendar: Calendar, rng: seeding.SeededRng) -> None:
        self.calendar, self.rng = calendar, rng
        self.intent, self.values = NO_INTENT, dict[str, Value]()
        self._said: list[Act] = []  # the acts of the previous turn
        self._found: list[dict[str, str]] = []  # the results of the last call, the current one first
        self._has_misheard = False

    def hear(self, acts: Sequence[Act]) -> None:
        """Tracks the state."""
        names = {act.name for act in acts}
        if "INFORM_INTENT" in names:
            self.intent = next(act.value.text for act in acts if act.name == "INFORM_INTENT" and act.value)
            self.values = {NAME: self._say(NAME)} if "SELECT" in names else {}
            self._has_misheard = False
        if "AFFIRM" in names:
            self.values |= values_of([act for act in self._said if act.name == "CONFIRM"])
        if any(act.name == "NEGATE" and act.note == "more" for act in acts):
            self.intent = NO_INTENT
        self.values |= values_of([act for act in acts if act.name == "INFORM"])

    def reply(self, acts: Sequence[Act]) -> Reply:
        """Returns the next turn of the system after the acts of the user."""
        reply = self._reply({act.name for act in acts}, [act.slot for act in acts if act.name == "REQUEST"])
        self._said = reply.acts
        return reply

    def _reply(self, names: set[str], requested: list[str]) -> Reply:
        if "GOODBYE" in names or self.intent == NO_INTENT:
            return Reply([Act("GOODBYE")])
        if "THANK_YOU" in names:
            return Reply([Act("REQ_MORE")])
        if requested:
            return Reply([Act("INFORM", slot, self._say(slot)) for slot in SLOTS if slot in requested])
        if "REQUEST_ALTS" in names:
            del self._found[0]
            return Reply(self._offer("next"))
        if "AFFIRM" in names:
            return self._do()
        if missing := [slot for slot in REQUIRED[self.intent] if slot not in self.values]:
            return Reply(self._ask(missing))
        return self._do() if self.intent == FIND else Reply(self._confirm())

    def _ask(self, missing: list[str]) -> list[Act]:
        """Requests one missing slot, or two."""
        two = len(missing) > 1 and self.rng.chance(0.35)
        return [Act("REQUEST", slot) for slot in missing[: 1 + two]]

    def _confirm(self) -> list[Act]:
        """Confirms the values, including defaults. Occasionally a value is misheard."""
        values = {slot: self.values.get(slot) or repeats_value(self.rng, OFTEN[0]) for slot in CONFIRMED[self.intent]}
        if not self._has_misheard and self.rng.chance(0.08):
            self._has_misheard = True
            slot = self.rng.choice([slot for slot in values if slot != REPEATS])
            other = another(self.rng, slot)
            if other.canonical != values[slot].canonical:
                values[slot] = other
        return [Act("CONFIRM", slot, value) for slot, value in values.items()]

    def _do(self) -> Reply:
        """Calls the service and reports the result."""
        parameters = {slot: value.canonical for slot, value in self.values.items()}
        answer = self.calendar.call(self.intent, parameters)
        self._found = list(answer.results)
        if answer.failure:
            acts = [Act("NOTIFY_FAILURE", note=answer.failure)]
        elif self.intent == FIND:
            acts = self._offer("one" if len(answer.results) == 1 else "many")
            count = str(len(answer.results))
            acts.append(Act("INFORM_COUNT", "count", Value(count, count)))
        else:
            acts = [Act("NOTIFY_SUCCESS")]
        if self.intent != FIND and not answer.failure and self.rng.chance(0.4):
            acts.append(Act("REQ_MORE"))
        return Reply(acts, (self.intent, parameters), answer.results)

    def _offer(self, note: str) -> list[Act]:
        slots = (NAME, TIME) if self.rng.chance(0.5) else (NAME,)
        return [Act("OFFER", slot, self._say(slot), note) for slot in slots]

    def _say(self, slot: str) -> Value:
        """Returns the value of a slot of the current reminder."""
        canonical = self._found[0][slot]
        if slot == NAME:
            return Value(canonical, canonical)
        return {DATE: day_value, TIME: time_value, REPEATS: repeats_value}[slot](self.rng, canonical)


LONGEST = 80  # turns; longer dialogues are going in circles


def simulate(seed: str, split: str, number: int, attempt: int = 0) -> tuple[dict[str, Any], Goal]:
    """Simulates a dialogue, and returns it with the goal of its user. It depends on the arguments only.

    Args:
      seed: any text.
      split: the name of the split, such as ``train``.
      number: the number of the dialogue in its split.
      attempt: how many earlier attempts were duplicates of other dialogues.

    Raises:
      RuntimeError: the dialogue does not end.
    """
    rng = seeding.SeededRng(seed, "reminders", split, str(number), str(attempt))
    goal = draw_goal(rng)
    user, system = User(goal, rng), System(Calendar(goal.reminders), rng)
    turns: list[dict[str, Any]] = []
    heard: list[Act] = []
    while not any(act.name == "GOODBYE" for act in heard):
        if len(turns) >= LONGEST:
            raise RuntimeError(f"dialogue {number} of {split} does not end")
        acts = user.speak(heard)
        system.hear(acts)
        values = {slot: [value.text] for slot, value in system.values.items()}
        requested = [act.slot for act in acts if act.name == "REQUEST"]
        line = say(USER, acts, system.intent, rng)
        turns.append(
            user_turn(SERVICE, line, [act.as_action() for act in acts], state(system.intent, values, requested))
        )
        reply = system.reply(acts)
        heard = reply.acts
        line = say(SYSTEM, heard, system.intent, rng)
        turns.append(system_turn(SERVICE, line, [act.as_action() for act in heard], reply.call, reply.results))
    return {"dialogue_id": f"{split}_{number:05}", "services": [SERVICE], "turns": turns}, goal


DIGEST_SIZE = 8  # bytes


def text_digest(text: str) -> bytes:
    """Returns a hash of a text; ten million texts have a collision with a probability of 1 in 400,000."""
    return blake2b(text.encode(), digest_size=DIGEST_SIZE).digest()


def count_distinct(digests: Iterable[bytes]) -> int:
    """Counts the different digests of eight bytes in several concatenations of digests."""
    return len(np.unique(np.frombuffer(b"".join(digests), "<u8")))


def digest_of(dialogue: dict[str, Any]) -> bytes:
    """Returns a hash of the utterances: equal dialogues have equal hashes."""
    return text_digest("\0".join(turn["utterance"] for turn in dialogue["turns"]))


DIGESTS, UTTERANCES = "digests", "utterances"  # further outputs of a shard
ATTEMPTS = 100  # the maximum number of attempts to differ from every other dialogue
SHOWN = 6  # dialogues on the page, two of a file

_TOTALS = ("dialogues", "turns", "spans", "calls", "failed_calls")
_SHOWN = (*_TOTALS, "different_utterances", "made_again")


class Config(msgspec.Struct, frozen=True):
    """The options of a run.

    Attributes:
      output: the output folder.
      sizes: the number of dialogues of each split that has any.
      per_file: the maximum number of dialogues per file.
      seed: the seed of all dialogues.
    """

    output: str
    sizes: dict[str, int]
    per_file: int
    seed: str

    def options(self) -> dict[str, object]:
        """Returns the options that affect the content, for ``run.json``."""
        return {"dialogues": self.sizes, "per_file": self.per_file, "seed": self.seed}

    def shards(self) -> list[Shard]:
        """Returns a shard for each file."""
        return [
            Shard(split, f"dialogues_{i:03}.json", first, min(first + self.per_file, size))
            for split, size in self.sizes.items()
            for i, first in enumerate(range(0, size, self.per_file), 1)
        ]

    def invariants(self) -> list[Invariant]:
        """Every dialogue is written. Duplicates are checked for when ``statistics.json`` is created."""
        return [Equal({CountKey("dialogues", split=split): size for split, size in self.sizes.items()})]


class Shard(msgspec.Struct, frozen=True):
    """The dialogues of one file: the numbers from ``first`` up to, but not including, ``end``."""

    split: str
    name: str
    first: int
    end: int


def digest_shard(shard: Shard, seed: str) -> tuple[str, int, bytes]:
    """Returns (split, number of the first dialogue, the digests of all dialogues at the first attempt)."""
    digests = [digest_of(simulate(seed, shard.split, number)[0]) for number in range(shard.first, shard.end)]
    return shard.split, shard.first, b"".join(digests)


def choose_attempts(seed: str, digests: Iterable[tuple[str, int, bytes]]) -> dict[tuple[str, int], int]:
    """Maps (split, number) to the attempt for each dialogue that would duplicate another one, in any split.

    The first one by split and number is kept; the others are simulated again until they differ from all.

    Raises:
      InputError: a dialogue never differs, because there are not enough different dialogues.
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
                if (other := digest_of(simulate(seed, split, number, attempt)[0])) not in taken:
                    taken.add(other)
                    attempts[split, number] = attempt
                    break
            else:
                raise errors.InputError(
                    "there are fewer different dialogues than this: give a lower number", "", "--dialogues"
                )
    return attempts


def write_shard(shard: Shard, attempts: Mapping[tuple[str, int], int], config: Config) -> runs.FileResult:
    """Writes a dialogue file into staging.

    Args:
      shard: the dialogues of the file.
      attempts: the attempts of dialogues that are simulated again.
      config: the options.
    """
    split = shard.split
    result = runs.FileResult(f"{split}/{shard.name}")
    counts: Counter[str] = Counter()
    utterances: set[bytes] = set()
    digests = []
    examples = result.examples[split] = []
    with ExitStack() as stack:
        file = files.SetFiles(config.output, [split], shard.name, stack)
        for number in progress.tracked(range(shard.first, shard.end), "dialogues"):
            attempt = attempts.get((split, number), 0)
            with fence.needed(result.key, f"dialogue {number}"):
                dialogue, _ = simulate(config.seed, split, number, attempt)
                file.add(split, dialogue_text(dialogue))
            count(counts, dialogue)
            counts["made_again"] += attempt > 0
            utterances.update(text_digest(turn["utterance"]) for turn in dialogue["turns"])
            digests.append(digest_of(dialogue))
            if number < shard.first + 2 and split == "train":
                lines = [(turn["speaker"].lower(), turn["utterance"]) for turn in dialogue["turns"]]
                examples.append((number.to_bytes(8), (dialogue["dialogue_id"], lines)))
        file.close()
    result.written = file.written()
    result.others = {DIGESTS: [b"".join(digests)], UTTERANCES: [(split, b"".join(sorted(utterances)))]}
    for name, n in counts.items():
        result.counts.add(name, n, split=split)
    return result


def count(counts: Counter[str], dialogue: Mapping[str, Any]) -> None:
    """Counts a dialogue by name: its turns, spans and calls."""
    frames = [frame for turn in dialogue["turns"] for frame in turn["frames"]]
    calls = [frame for frame in frames if "service_call" in frame]
    counts["dialogues"] += 1
    counts["turns"] += len(dialogue["turns"])
    counts["spans"] += sum(len(frame["slots"]) for frame in frames)
    counts["calls"] += len(calls)
    counts["failed_calls"] += sum(not frame["service_results"] for frame in calls)


def metadata_files(
    counts: Counts,
    examples: Mapping[str, Sequence[Any]],
    digests: Sequence[bytes],
    utterances: Sequence[tuple[str, bytes]],
    config: Config,
) -> dict[str, bytes]:
    """Creates the files other than dialogues: schemas, ``statistics.json``, the card and the page.

    Raises:
      RuntimeError: two dialogues are duplicates, in one split or in two.
    """
    if (different := count_distinct(digests)) != (total := sum(config.sizes.values())):
        raise RuntimeError(f"{total - different:,} of {total:,} dialogues are the same as another one")
    splits: dict[str, dict[str, Any]] = {}
    for split in config.sizes:
        splits[split] = {name: counts.sum(name, split=split) for name in _TOTALS}
        splits[split]["different_utterances"] = count_distinct(data for name, data in utterances if name == split)
        splits[split]["made_again"] = counts.sum("made_again", split=split)
    numbers = {
        "service": SERVICE,
        "today": TODAY.isoformat(),
        "names": len(templates().names),
        "templates": sum(len(texts) for by_act in templates().texts.values() for texts in by_act.values()),
        "splits": splits,
    }
    schemas = {f"{split}/schema.json": layout.schema_bytes([SCHEMA]) for split in config.sizes}
    return {**schemas, **report_files(numbers, report_on(numbers, examples.get("train", ()), config.seed))}


def report_on(numbers: Mapping[str, Any], examples: Sequence[tuple[str, list[tuple[str, str]]]], seed: str) -> Report:
    """Creates the report for the card and the page.

    Args:
      numbers: the content of ``statistics.json``.
      examples: (id, (speaker, utterance) of each turn) of some dialogues.
      seed: the seed of the run.
    """
    splits = numbers["splits"]
    totals = {name: sum(split[name] for split in splits.values()) for name in (*_TOTALS, "different_utterances")}
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
            Examples(title="Examples", examples=[dialogue_example(place, lines) for place, lines in examples]),
            *sections_of(numbers, Numbers("Splits", "splits/*", ("split",), metrics_named(*_SHOWN))),
            Text(
                title="About these dialogues",
                paragraphs=[
                    "They are seed dialogues, like those of the reminder domain of RADDLE (Peng et al. 2021): made "
                    "from act templates, to be rewritten by people or to have their values replaced by unseen ones.",
                    f"Today is {numbers['today']}, as in SGD. The splits share names, days and times, but no dialogue.",
                    f"Seed: `{seed}`. All texts were written for Parapet.",
                ],
            ),
        ],
        terms={
            "failed calls": "Intended: the time is taken by another reminder, or there is no such reminder.",
            "made again": "Dialogues that were at first the same as another one.",
        },
        links={"statistics.json": "all numbers"},
    )
