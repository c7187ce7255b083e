"""The wiring: ranges of numbers become dialogues and whole files; none says the same as another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import apache_beam as beam
import msgspec
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.dialogue_files import dialogue_text
from parapet.schemas.errors import InputError
from parapet.transforms.files import Written
from parapet.transforms.reminders.dialogue import check_dialogue, digest_of, simulate
from parapet.transforms.reminders.goals import Goal
from parapet.transforms.set_files import SetFiles

COUNTS, TALLIES, DIGESTS, TEXTS, EXAMPLES = "counts", "tallies", "digests", "texts", "examples"
ATTEMPTS = 100  # to say something else than every other dialogue
SHOWN = 2  # dialogues of a file that may be shown on the page

Place = tuple[str, int]  # split, number in it
Key = tuple[str, str, str]  # split, what is counted, of which


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
        """Those that shape the content, for ``run.json``."""
        return {"dialogues": self.sizes, "per_file": self.per_file, "seed": self.seed}


class Share(msgspec.Struct, frozen=True):
    """The dialogues of one file: numbers ``first`` to ``last``, exclusive.

    Attributes:
      split: such as ``train``.
      name: of the file.
      first: number of the first dialogue.
      last: number behind the last one.
    """

    split: str
    name: str
    first: int
    last: int

    def places(self) -> Iterator[Place]:
        """Of its dialogues."""
        return ((self.split, number) for number in range(self.first, self.last))


def shares_of(sizes: Mapping[str, int], per_file: int) -> list[Share]:
    """The files of splits of these sizes."""
    return [
        Share(split, f"dialogues_{i:03}.json", first, min(first + per_file, size))
        for split, size in sizes.items()
        for i, first in enumerate(range(0, size, per_file), 1)
    ]


def digests_of(share: Share, seed: str) -> Iterator[tuple[Place, bytes]]:
    """What each dialogue says at the first attempt, as a digest."""
    for split, number in share.places():
        yield (split, number), digest_of(simulate(seed, split, number)[0])


def attempts_of(seed: str, digests: Iterable[tuple[Place, bytes]]) -> dict[Place, int]:
    """The attempts of the dialogues that would say the same as another one, of the same split or not.

    The first by split and number keeps what it says; the others are made again until they say something new.

    Raises:
      InputError: one of them never does: more dialogues were asked for than there are.
    """
    taken: set[bytes] = set()
    again = []
    for place, digest in sorted(digests):
        if digest in taken:
            again.append(place)
        taken.add(digest)
    attempts = {}
    for split, number in again:
        for attempt in range(1, ATTEMPTS):
            digest = digest_of(simulate(seed, split, number, attempt)[0])
            if digest not in taken:
                taken.add(digest)
                attempts[split, number] = attempt
                break
        else:
            raise InputError("there are not that many different dialogues: ask for fewer", "", "--dialogues")
    return attempts


class WriteDialogues(beam.PTransform):
    """Writes dialogue files into staging.

    Args:
      output: the output folder.
      seed: of all dialogues.
      attempts: PCollection of what :func:`attempts_of` gives.
    """

    def __init__(self, output: str, seed: str, attempts: beam.PCollection) -> None:
        super().__init__()
        self.output, self.seed, self.attempts = output, seed, attempts

    def expand(self, shares: beam.PCollection) -> Any:
        """Share to Written (main), (name, n) (COUNTS), (Key, n) (TALLIES), digests (DIGESTS), (split, utterances)
        (TEXTS), (Place, lines) (EXAMPLES).
        """
        return shares | "Write file" >> beam.ParDo(
            _WriteShare(self.output, self.seed), beam.pvalue.AsSingleton(self.attempts)
        ).with_outputs(COUNTS, TALLIES, DIGESTS, TEXTS, EXAMPLES, main="written")


class _WriteShare(beam.DoFn):
    def __init__(self, output: str, seed: str) -> None:
        super().__init__()
        self.output, self.seed = output, seed

    def process(self, share: Share, attempts: Mapping[Place, int]) -> Iterator[Written | TaggedOutput]:
        tallies: Counter[Key] = Counter()
        said: set[str] = set()
        with ExitStack() as stack:
            file = SetFiles(self.output, [share.split], share.name, stack)
            for split, number in share.places():
                attempt = attempts.get((split, number), 0)
                dialogue, goal = simulate(self.seed, split, number, attempt)
                check_dialogue(dialogue, goal)
                file.add(split, dialogue_text(dialogue))
                tally(tallies, split, dialogue, goal)
                said.update(turn["utterance"] for turn in dialogue["turns"])
                yield TaggedOutput(DIGESTS, digest_of(dialogue))
                if number < share.first + SHOWN and split == "train":
                    yield TaggedOutput(EXAMPLES, ((split, number), _lines(dialogue)))
                yield TaggedOutput(COUNTS, (f"again/{split}", int(attempt > 0)))
            file.close()
        yield from file.written()
        yield TaggedOutput(TEXTS, (share.split, sorted(said)))
        yield TaggedOutput(COUNTS, (f"written/{share.split}", share.last - share.first))
        for number_of in tallies.items():
            yield TaggedOutput(TALLIES, number_of)
        Metrics.counter("parapet", "dialogues").inc(share.last - share.first)


def _lines(dialogue: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(turn["speaker"], turn["utterance"]) for turn in dialogue["turns"]]


def tally(tallies: Counter[Key], split: str, dialogue: Mapping[str, Any], goal: Goal) -> None:
    """Counts a dialogue: turns, acts of each side, tasks, calls, and where its user goes astray."""
    turns = dialogue["turns"]
    tallies[split, "all", "dialogues"] += 1
    tallies[split, "all", "turns"] += len(turns)
    tallies[split, "all", "failed_calls"] += sum(not call.succeeds for call in goal.calls)
    tallies[split, "tasks_of_a_dialogue", str(len(goal.tasks))] += 1
    for task in goal.tasks:
        tallies[split, "intents", task.intent] += 1
        for name, is_so in ((task.astray, task.astray), ("retry", task.retry), ("found", task.found)):
            if is_so:
                tallies[split, "users", name] += 1
    for turn in turns:
        (frame,) = turn["frames"]
        tallies[split, "all", "spans"] += len(frame["slots"])
        tallies[split, "all", "calls"] += "service_call" in frame
        for action in frame["actions"]:
            tallies[split, turn["speaker"].lower() + "_acts", action["act"]] += 1
            if action["act"] == "NEGATE" and turn["frames"][0]["state"]["active_intent"] != "NONE":
                tallies[split, "users", "denies"] += 1


def check_counts(counts: dict[str, int], sizes: Mapping[str, int]) -> dict[str, int]:
    """Every dialogue that was asked for is written, and none says the same as another.

    Raises:
      RuntimeError: one is missing, or said twice.
    """
    asked = sum(sizes.values())
    wrong = [split for split, size in sizes.items() if counts.get(f"written/{split}", 0) != size]
    if counts.get("different", 0) != asked:
        wrong.append(f"what is said ({counts.get('different', 0)} different of {asked})")
    if wrong:
        raise RuntimeError(f"the counts do not balance for {', '.join(wrong)}: {counts}")
    return counts
