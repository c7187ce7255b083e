"""The base of splits, which copy dialogues of a corpus into sets, each a corpus of its own; and ``unseen_services``.

The splits ``unseen_services`` are a corpus for each domain or service that is held out: no training dialogue touches
it, and every test dialogue does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol

import apache_beam as beam
import msgspec

from parapet.schemas.dialogue import Dialogue, DialogueFile, dialogue_folders, dialogue_text, list_files
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SINGLE, SPLITS, as_path, read_root, schema_bytes
from parapet.schemas.service import Service
from parapet.transforms.perturbation.corpora import Used, dialogues_of, domain_of, listed, used_by, without
from parapet.transforms.reports.report import Report, Table, Tile, report_files
from parapet.transforms.reports.text import number, percent
from parapet.transforms.running.counts import Balance, Counts, Invariant, dead_dialogue, id_of, of_dialogues
from parapet.transforms.running.fence import bad_record
from parapet.transforms.running.progress import tracked
from parapet.transforms.running.runs import FileResult, FinishRun, Outputs, RunInfo, WriteEach
from parapet.transforms.storage.set_files import SetFiles
from parapet.transforms.variants.table1 import names_seen, rounded


class Schema(msgspec.Struct, frozen=True):
    """The schema of a split of the corpus.

    Attributes:
      raw: the services by name, as in the file and in its order.
      services: the same services as typed objects.
    """

    raw: dict[str, Any]
    services: dict[str, Service]


class SplitCorpus(msgspec.Struct, frozen=True):
    """The corpus that dialogues are copied from.

    Attributes:
      root: its folder.
      schemas: the schema of each split that has dialogues.
      one_schema: whether all splits share one schema file, as in MultiWOZ 2.2.
      problems: the problems of services that were left out, by split.
    """

    root: str
    schemas: dict[str, Schema]
    one_schema: bool
    problems: dict[str, list[str]]

    def files(self, splits: Collection[str]) -> list[DialogueFile]:
        """List the dialogue files of some splits, the largest first."""
        return list_files(as_path(self.root), splits)

    def problems_of(self, splits: Collection[str]) -> list[str]:
        """Return the problems of some splits without duplicates."""
        return list(dict.fromkeys(line for split in splits for line in self.problems[split]))


def read_split_corpus(root: str) -> SplitCorpus:
    """Read the schemas of a corpus. Raises InputError if there are none, or dialogues lack a schema."""
    originals = read_root(root, leave_out_bad=True)
    folders = dialogue_folders(as_path(root), originals)
    present = {split: folders[split] for split in SPLITS if split in folders}
    return SplitCorpus(
        root,
        {
            split: Schema(
                {str(raw["service_name"]): raw for raw in schemas.raw},
                {service.service_name: service for service in schemas.services},
            )
            for split, schemas in present.items()
        },
        originals[0].split == SINGLE,
        {split: [str(bad.error) for bad in schemas.bad] for split, schemas in present.items()},
    )


class SetOfDialogues(NamedTuple):
    """A set created by a split: its folder, its split of the corpus, and the services of its schema."""

    folder: str
    split: str
    services: Collection[str]


class Split(Protocol):
    """Copies sets of dialogues from a corpus.

    Attributes:
      name: the name of the command.
      corpus: the corpus that dialogues are copied from.
    """

    name: ClassVar[str]

    @property
    def corpus(self) -> SplitCorpus:
        """The corpus that dialogues are copied from."""

    def splits(self) -> Collection[str]:
        """Return the splits of the corpus whose dialogues are read."""

    def options(self) -> dict[str, object]:
        """Return the options that affect the content, for ``run.json``."""

    def write(self, files: beam.PCollection[DialogueFile], run: RunInfo) -> tuple[Outputs, beam.pvalue.AsSideInput]:
        """Write the dialogue files of all sets into staging.

        Returns:
          The outputs, and the result of the split, which :meth:`sets` and :meth:`statistics` accept.
        """

    def sets(self, result: Any) -> Iterator[SetOfDialogues]:
        """Yield the sets that have dialogues."""

    def statistics(self, result: Any, counts: Counts) -> dict[str, Any]:
        """Return the content of ``statistics.json``; ``short`` lists what is less than requested, a line each."""

    def report(self, statistics: Mapping[str, Any]) -> Report:
        """Create the report for the page and the card."""

    def summary(self, statistics: Mapping[str, Any]) -> Iterator[str]:
        """Yield the lines that the command prints."""

    def invariants(self) -> Sequence[Invariant]:
        """Return the invariants of the counts."""


class WriteSplit(beam.PTransform):
    """Creates a split and publishes it: the sets with their schemas, statistics, card and page."""

    def __init__(self, split: Split, run: RunInfo) -> None:
        super().__init__()
        self.split, self.run = split, run

    def expand(self, files: beam.PCollection[DialogueFile]) -> beam.PCollection:
        """Transform a PCollection of dialogue files to a single element, the manifest."""
        outputs, result = self.split.write(files, self.run)
        finish = FinishRun(
            self.run,
            partial(_metadata_files, split=self.split),
            result,
            tallies=of_dialogues,
            invariants=self.split.invariants(),
        )
        published: beam.PCollection = outputs | "Finish" >> finish
        return published


def _metadata_files(counts: Counts, _: object, result: Any, split: Split) -> dict[str, bytes]:
    statistics = split.statistics(result, counts)
    files = report_files(statistics, split.report(statistics))
    for dialogues in split.sets(result):
        raw = split.corpus.schemas[dialogues.split].raw
        services = [service for name, service in raw.items() if name in dialogues.services]
        files[f"{dialogues.folder}/schema.json"] = schema_bytes(services)
    return files


class SplitDialogue(NamedTuple):
    """A dialogue in a file: its position, JSON object, whether that is plain JSON, typed object, services."""

    position: int
    raw: dict[str, Any]
    dialogue: Dialogue
    used: Used


def take_each(
    file: DialogueFile, services: Mapping[str, Service], result: FileResult, take: Callable[[SplitDialogue], None]
) -> None:
    """Call ``take`` for each dialogue of a file. Unusable dialogues become dead letters, as does an unreadable file.

    Args:
      file: the dialogue file.
      services: the services of its split by name.
      result: receives dead letters and counts.
      take: raises if it cannot use a dialogue, before it does anything with it.

    Raises:
      InputError: the file cannot be read to its end; may come after some dialogues.
    """
    result.counts.add("files")
    for position, raw, dialogue in tracked(dialogues_of(file), "dialogues"):
        result.counts.add("dialogues")
        try:
            if isinstance(dialogue, InputError):
                raise dialogue
            take(SplitDialogue(position, raw, dialogue, used_by(dialogue, services)))
        except Exception as error:
            result.dead_letters.append(dead_dialogue(file, id_of(raw, position), bad_record(error)))
            result.counts.add("left_out")


DOMAIN = "domain"
TRAIN, DEV, TEST, TEST_SEEN = "train", "dev", "test", "test_seen"
SETS = (TRAIN, DEV, TEST, TEST_SEEN)
# Why a dialogue is in no set.
ONLY, BOTH, OTHERS = "touches_it_alone", "touches_it_and_others", "test_of_others"
REASONS = (ONLY, BOTH, OTHERS)

# The files of the output folder beside the folders of domains or services.
_RESERVED = ("run.json", "statistics.json", "readme.md", "report.html", "dead_letters.jsonl")

# Split, touched services, idle services, unit of the count: ``dialogues`` or ``turns`` of the user. All numbers are
Combination = tuple[str, tuple[str, ...], tuple[str, ...], str]
Combinations = Sequence[tuple[Combination, int]]

_SEEN = {
    "slot_names_seen": "slot names seen",
    "intent_names_seen": "intent names seen",
    "slots_and_descriptions_seen": "slots seen with description",
}
_GIVEN = ("split", "dialogues", "services", "unseen", "with seen only", "with both", "with unseen only")
_TERMS = {
    "left out": "Dialogues of train or dev that touch what is held out, and those of the test split that do not.",
    "names seen": "The share of the names of the tested services that services of train have, too (SGD-X, Table 1).",
    "slots seen with description": "The same for slots whose name and description are both in train.",
    "unseen service": "A service that the corpus's own training does not have.",
}


class UnseenServices(msgspec.Struct, frozen=True, kw_only=True):
    """Splits by domain or service, each held out in a corpus of its own (leave one domain out).

    Attributes:
      corpus: the corpus that dialogues are copied from.
      by: ``domain`` or ``service``.
      groups: each held-out domain or service to its services, sorted.
      test_split: the split of the corpus for test dialogues.
      with_seen: whether to write its other dialogues too, as ``test_seen``.
    """

    name: ClassVar[str] = "unseen_services"
    corpus: SplitCorpus
    by: str
    groups: dict[str, tuple[str, ...]]
    test_split: str
    with_seen: bool

    def splits(self) -> Collection[str]:
        """Return all splits of the corpus."""
        return self.corpus.schemas

    def options(self) -> dict[str, object]:
        """Return the options that affect the content, for ``run.json``."""
        return {
            "by": self.by,
            "hold_out": list(self.groups),
            "test_split": self.test_split,
            "test_seen": self.with_seen,
        }

    def services(self, split: str) -> dict[str, Service]:
        """Return the services of a split of the corpus by name."""
        return self.corpus.schemas[split].services

    # Destinations of dialogues.

    def destination(self, group: str, split: str, used: Used) -> str:
        """Return the set of a dialogue (of ``SETS``), or a reason (of ``REASONS``) if it is in none.

        Args:
          group: the held-out domain or service.
          split: the split of the dialogue.
          used: the services of the dialogue.
        """
        held = [service for service in used.touched if service in self.groups[group]]
        if split != self.test_split:
            return split if not held else ONLY if len(held) == len(used.touched) else BOTH
        if held:
            return TEST
        # If dev is the test split, it is also dev for the other services.
        return TEST_SEEN if self.with_seen else DEV if split == DEV else OTHERS

    def dropped(self, group: str, set_name: str, used: Used) -> tuple[str, ...]:
        """Return the services whose idle frames a set omits: only a test may name what is held out."""
        return () if set_name == TEST else tuple(service for service in used.idle if service in self.groups[group])

    def write(self, files: beam.PCollection[DialogueFile], run: RunInfo) -> tuple[Outputs, beam.pvalue.AsSideInput]:
        """Write each dialogue file for every set."""
        outputs = files | "Write" >> WriteEach(
            partial(write_file, split=self, run=run), shown=0, others=("combinations",)
        )
        combinations = outputs.others["combinations"] | "Sum combinations" >> beam.CombinePerKey(sum)
        return outputs, beam.pvalue.AsList(combinations)

    def invariants(self) -> Sequence[Invariant]:
        """For every held-out group, each dialogue is in one set, or left out for one reason."""
        return [Balance("dialogues", (*SETS, *REASONS), tuple(self.groups), shared=("left_out",))]

    # Statistics.

    def sets(self, result: Combinations) -> Iterator[SetOfDialogues]:
        """Yield the sets that have dialogues."""
        for group in self.groups:
            for name, of_set in self.set_counts(group, result)[0].items():
                split = self.test_split if name in (TEST, TEST_SEEN) else name
                yield SetOfDialogues(f"{group}/{name}", split, of_set["services"])

    def set_counts(
        self, group: str, combinations: Combinations
    ) -> tuple[dict[str, dict[str, Any]], dict[str, int], int]:
        """Count the sets of a group that have dialogues.

        Returns the dialogues, user turns and services of each set; the number of dialogues in no set by reason; and the
        number of dialogues that lost idle frames.
        """
        sets: dict[str, dict[str, Any]] = {name: {"dialogues": 0, "turns": 0, "services": set()} for name in SETS}
        left_out = dict.fromkeys(REASONS, 0)
        shortened = 0
        for (split, touched, idle, place), n in combinations:
            used = Used(touched, idle)
            destination = self.destination(group, split, used)
            if destination in sets:
                dropped = self.dropped(group, destination, used)
                sets[destination][place] += n
                sets[destination]["services"] |= {*touched, *idle} - {*dropped}
                shortened += n if dropped and place == "dialogues" else 0
            elif place == "dialogues":
                left_out[destination] += n
        return {name: of_set for name, of_set in sets.items() if of_set["dialogues"]}, left_out, shortened

    def statistics(self, result: Combinations, counts: Counts) -> dict[str, Any]:
        """Return the content of ``statistics.json``."""
        held_out = {group: self._of_group(group, result) for group in self.groups}
        return {
            "by": self.by,
            "test_split": self.test_split,
            "left_out": counts.sum("left_out"),
            "as_given": self.as_given(result),
            "held_out": held_out,
            "short": _short(held_out),
        }

    def _of_group(self, group: str, combinations: Combinations) -> dict[str, Any]:
        sets, left_out, shortened = self.set_counts(group, combinations)
        test, train = self.services(self.test_split), self.services(TRAIN)
        services = {name: sorted(sets[name]["services"]) if name in sets else [] for name in (TRAIN, TEST)}
        tested = [name for name in self.groups[group] if name in services[TEST]]
        return {
            "services": list(self.groups[group]),
            "sets": {name: {**of_set, "services": sorted(of_set["services"])} for name, of_set in sets.items()},
            "left_out": left_out,
            "without_idle_frames": shortened,
            "seen": seen([test[name] for name in tested], [train[name] for name in services[TRAIN]]),
            # In a part of a corpus few services have dialogues; the schema then tells more about the whole corpus.
            "seen_in_schema": seen(
                [test[name] for name in self.groups[group] if name in test],
                [service for name, service in train.items() if name not in self.groups[group]],
            ),
        }

    def as_given(self, combinations: Combinations) -> dict[str, Any]:
        """Describe the corpus's own splits: their services, which of them occur in training, and dialogues by that."""
        of_split: dict[str, dict[tuple[str, ...], dict[str, int]]] = {split: {} for split in self.corpus.schemas}
        for (split, touched, _, place), n in combinations:
            of_split[split].setdefault(touched, {"dialogues": 0, "turns": 0})[place] += n
        # One schema for all splits says nothing about training, so the services that its dialogues touch count.
        trained = [service for touched in of_split.get(TRAIN, {}) for service in touched]
        known = frozenset(trained if self.corpus.one_schema else self.services(TRAIN))
        return {split: self._as_given(split, by_services, known) for split, by_services in of_split.items()}

    def _as_given(
        self, split: str, by_services: Mapping[tuple[str, ...], Mapping[str, int]], known: frozenset[str]
    ) -> dict[str, Any]:
        services = self.services(split)
        dialogues = {touched: numbers["dialogues"] for touched, numbers in by_services.items()}
        by_service = {name: sum(n for touched, n in dialogues.items() if name in touched) for name in services}
        kinds = {"seen": 0, "both": 0, "unseen": 0}
        for touched, n in dialogues.items():
            in_train = known.intersection(touched)
            kinds["unseen" if not in_train else "seen" if len(in_train) == len(touched) else "both"] += n
        listed = not self.corpus.one_schema
        unseen = sorted(name for name in services if name not in known and (listed or by_service[name]))
        trained = [service for name, service in self.services(TRAIN).items() if name in known]
        return {
            "dialogues": sum(dialogues.values()),
            "turns": sum(numbers["turns"] for numbers in by_services.values()),
            "services": by_service,
            "unseen_services": unseen,
            "dialogues_by_services": kinds,
            "seen": seen([services[name] for name in unseen], trained),
        }

    def summary(self, statistics: Mapping[str, Any]) -> Iterator[str]:
        """Yield a line for each split."""
        for name, group in statistics["held_out"].items():
            sets = ", ".join(f"{key} {numbers['dialogues']:,}" for key, numbers in group["sets"].items())
            names = f"{percent(group['seen']['slot_names_seen'], 0)} of slot names seen in training"
            yield f"{name}: {sets}; {names}; {sum(group['left_out'].values()):,} dialogues left out"

    def report(self, statistics: Mapping[str, Any]) -> Report:
        """Create the report for the page and the card."""
        held_out, published = statistics["held_out"], statistics["as_given"]
        return Report(
            command=self.name,
            title="Unseen services",
            headline=f"Splits by {self.by}",
            lead=f"One corpus for each {self.by} that is held out: no dialogue of `train` and `dev` touches it, and "
            f"every dialogue of `test` does. Tests are taken from the split `{self.test_split}`. The schema of each "
            "set lists the services of its dialogues.",
            tiles=[
                Tile("dialogues", number(sum(split["dialogues"] for split in published.values()))),
                Tile(f"{self.by}s held out", number(len(held_out))),
            ],
            notes=[f"{line[:1].upper()}{line[1:]}." for line in statistics["short"]],
            sections=[
                Table(
                    title="Held out",
                    columns=[self.by, *SETS, "left out", *_SEEN.values()],
                    rows=[
                        [
                            name,
                            *(number(group["sets"].get(set_name, {}).get("dialogues")) for set_name in SETS),
                            number(sum(group["left_out"].values())),
                            *_seen_cells(group["seen"]),
                        ]
                        for name, group in held_out.items()
                    ],
                    note="Dialogues of each set, and how much of what is tested on has a name that train has, too.",
                ),
                Table(
                    title="The corpus's own splits",
                    columns=[*_GIVEN, *_SEEN.values()],
                    rows=[
                        [
                            name,
                            number(split["dialogues"]),
                            number(sum(n > 0 for n in split["services"].values())),
                            number(len(split["unseen_services"])),
                            *map(number, split["dialogues_by_services"].values()),
                            *_seen_cells(split["seen"]),
                        ]
                        for name, split in published.items()
                    ],
                    note="Which services training lacks, and how many dialogues have services that it has, or lacks.",
                ),
            ],
            terms=_TERMS,
            links={"statistics.json": "all numbers", "dead_letters.jsonl": "what could not be used"},
        )


def write_file(file: DialogueFile, split: UnseenServices, run: RunInfo) -> FileResult:
    """Write one dialogue file for every set into staging; no file without dialogues."""
    result = FileResult(file.relative)
    names = [f"{group}/{end}" for group in split.groups for end in SETS]
    combinations: Counter[Combination] = Counter()

    def take(item: SplitDialogue) -> None:
        text = dialogue_text(item.raw)
        combination = (file.split, item.used.touched, item.used.idle)
        user_turns = sum(turn.speaker == "USER" for turn in item.dialogue.turns)
        texts = {}
        for group in split.groups:
            destination = split.destination(group, file.split, item.used)
            dropped = split.dropped(group, destination, item.used) if destination in SETS else ()
            shown = dialogue_text(without(item.raw, dropped)) if dropped else text
            texts[group] = destination, shown
        # Nothing raises from here on.
        combinations[*combination, "dialogues"] += 1
        combinations[*combination, "turns"] += user_turns
        for group, (destination, shown) in texts.items():
            if destination in SETS:
                files.add(f"{group}/{destination}", shown)
            else:
                result.counts.add(destination, set=group)

    with ExitStack() as stack:
        files = SetFiles(run.output, names, file.name, stack)
        take_each(file, split.services(file.split), result, take)
        files.close(keep_empty=False)
    for name, n in files.dialogues.items():
        group, _, destination = name.rpartition("/")
        if n:
            result.counts.add(destination, n, set=group)
    result.written = files.written()
    result.others["combinations"] = list(combinations.items())
    return result


def groups_of(services: Iterable[str], by: str) -> dict[str, tuple[str, ...]]:
    """Map each domain or service to its services, both sorted.

    Raises:
      InputError: a domain or service has the name of an output file.
    """
    groups: dict[str, list[str]] = {}
    for service in sorted(set(services)):
        groups.setdefault(domain_of(service) if by == DOMAIN else service, []).append(service)
    for name in groups:
        if name.lower() in _RESERVED:
            raise InputError(f"{by} {name!r} has the name of an output file: rename it", "--sgd")
    return {name: tuple(services_here) for name, services_here in sorted(groups.items())}


def chosen(available: Collection[str], requested: str | None, what: str, flag: str) -> list[str]:
    """Return the names in a comma-separated list, sorted, or all. Raises InputError if a name does not exist."""
    if requested is None:
        return sorted(available)
    names = sorted(set(listed(requested)))
    if unknown := [name for name in names if name not in available]:
        raise InputError(f"there is no {what} {unknown[0]!r}: must be one of {', '.join(sorted(available))}", flag)
    if not names:
        raise InputError(f"must be one or more of {', '.join(sorted(available))}", flag)
    return names


def test_split_of(requested: str | None, splits: Collection[str]) -> str:
    """Return the split for tests: the requested one, else test, else dev. Raises InputError if it has no dialogues."""
    test_split = requested or next((split for split in (TEST, DEV) if split in splits), "")
    if TRAIN not in splits:
        raise InputError("there are no dialogues in 'train' to train on", "--sgd")
    if test_split not in splits or test_split == TRAIN:
        others = ", ".join(split for split in SPLITS if split in splits and split != TRAIN) or "none"
        raise InputError(
            f"there are no dialogues in {test_split!r} to test on; these splits have some: {others}", "--test_split"
        )
    return test_split


def seen(services: Sequence[Service], trained: Sequence[Service]) -> dict[str, Any]:
    """Count how much of some services is known from others, as in SGD-X (Lee et al. 2022, Table 1).

    Args:
      services: the services tested on.
      trained: the services trained on.
    """
    slots = [(slot.name, slot.description) for service in services for slot in service.slots]
    known = {(slot.name, slot.description) for service in trained for slot in service.slots}
    return {
        "services": len(services),
        "slots": len(slots),
        "intents": sum(len(service.intents) for service in services),
        **rounded(names_seen(services, trained)),
        "slots_and_descriptions_seen": rounded(sum(slot in known for slot in slots) / len(slots)) if slots else None,
    }


def _short(held_out: Mapping[str, Any]) -> list[str]:
    lines = []
    for name, problem in ((TEST, "no dialogue to test on"), (TRAIN, "no dialogue left to train on")):
        without_any = [group for group, numbers in held_out.items() if name not in numbers["sets"]]
        if without_any:
            lines.append(f"{problem}: {', '.join(without_any)}")
    return lines


def _seen_cells(shares: Mapping[str, float | None]) -> list[str]:
    """Format the shares of seen names as cells."""
    return [percent(shares[name], 0) for name in _SEEN]
