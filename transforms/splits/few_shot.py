"""Few-shot splits: small training sets for each domain, with their tests (RADDLE, Peng et al. 2021, section 4).

Files are read for candidates, each domain chooses, and the chosen dialogues are read again and written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import apache_beam as beam
import msgspec

from parapet.schemas.dialogue_files import BETWEEN, CLOSING, EMPTY, OPENING, DialogueFile, dialogue_text
from parapet.schemas.errors import InputError
from parapet.transforms.corpora import dialogues_of, domain_of
from parapet.transforms.counts import Balance, Counts, Identities, Invariant, Zero
from parapet.transforms.dead_letters import check_letters, in_order, of_dialogues
from parapet.transforms.fence import needed
from parapet.transforms.files import WriteFiles
from parapet.transforms.report import Report, Table, Text, Tile
from parapet.transforms.runs import FileResult, Letters, Outputs, RunInfo, WriteEach
from parapet.transforms.splits.few_shot_candidates import (
    TEST,
    TRAIN,
    Candidate,
    Candidates,
    Part,
    candidates_of,
    write_parts,
)
from parapet.transforms.splits.few_shot_choosing import Chosen, Rule, choose
from parapet.transforms.splits.split import Schema, SetOfDialogues, Split, SplitDialogue, take_each
from parapet.transforms.text import number

FILE = "dialogues_001.json"

Result = Mapping[str, Chosen]  # by domain


class FewShot(Split, frozen=True, kw_only=True):
    """Nested training sets for each domain, and a test."""

    name: ClassVar[str] = "few_shot"
    rule: Rule

    def splits(self) -> Sequence[str]:
        """The split of training and that of the tests."""
        return (self.rule.train_split, self.rule.test_split)

    def options(self) -> dict[str, object]:
        """The options that shape the content, for ``run.json``."""
        return dict(msgspec.to_builtins(self.rule))

    def write(self, files: beam.PCollection[DialogueFile], run: RunInfo) -> tuple[Outputs, beam.pvalue.AsSideInput]:
        """Chooses among the dialogues of all files, reads those that are chosen again, and writes the sets."""
        outputs = files | "Read" >> WriteEach(
            partial(read_candidates, split=self, output=run.output), shown=0, others=("candidates",)
        )
        chosen = (
            files.pipeline
            | "Run" >> beam.Create([run], reshuffle=False)
            | "Choose"
            >> beam.Map(
                chosen_of,
                self.rule,
                beam.pvalue.AsList(outputs.others["candidates"]),
                beam.pvalue.AsList(outputs.dead_letters),
                beam.pvalue.AsIter(outputs.counts),
            )
        )
        by_path = files | "By path" >> beam.Map(lambda file: (file.relative, file))
        texts = (
            {"file": by_path, "uses": chosen | "Uses" >> beam.FlatMap(uses_of, self.rule)}
            | "Join" >> beam.CoGroupByKey()
            | "Texts" >> beam.FlatMap(texts_of)
            | "By set" >> beam.GroupByKey()
        )
        written = texts | "Set files" >> beam.MapTuple(file_of) | "Write sets" >> WriteFiles(run.output)
        counts = (
            chosen | "Count chosen" >> beam.FlatMap(counts_of, self.rule),
            texts | "Count written" >> beam.FlatMap(counts_of_file),
        ) | "Counts of sets" >> beam.Flatten()
        return outputs.with_more("Sets", written=written, counts=counts), beam.pvalue.AsSingleton(chosen)

    def invariants(self) -> Sequence[Invariant]:
        """Every dialogue has one domain, several, others, or is left out; every set has all that were chosen."""
        return [
            Balance("dialogues", ("of_domains", "of_several_domains", "of_others", "left_out")),
            Balance("chosen", ("written",)),
            Zero("shared_ids", "ids in training and test"),
            Zero("shared_texts", "dialogues in training and test"),
        ]

    def sets(self, result: Result) -> Iterator[SetOfDialogues]:
        """The sets that have dialogues. Their schemas have all services of the domain."""
        for domain, chosen in result.items():
            for folder, dialogues in sets_of(domain, chosen, self.rule):
                split = self.rule.test_split if folder.endswith("/test") else self.rule.train_split
                used = {service for one in dialogues for service in one.services}
                own = (name for name in self.corpus.schemas[split].raw if domain_of(name) == domain)
                yield SetOfDialogues(folder, split, used.union(own))

    def statistics(self, result: Result, counts: Counts) -> dict[str, Any]:
        """The content of ``statistics.json``."""
        slots = domain_slots(self.corpus.schemas[self.rule.train_split])
        domains = {name: _of_domain(result[name], slots.get(name, ()), self.rule) for name in self.rule.domains}
        return {"domains": domains, "short": [*_short(domains, self.rule), *without_training(result)]}

    def summary(self, statistics: Mapping[str, Any]) -> Iterator[str]:
        """A line for each domain that has training sets."""
        for name, domain in statistics["domains"].items():
            if domain["train_candidates"]:
                sizes = ", ".join(str(of_set["dialogues"]) for of_set in domain["train"].values())
                n = domain["test"]["dialogues"]
                yield f"{name}: training sets of {sizes}; {n:,} test dialogue{'' if n == 1 else 's'}"

    def report(self, statistics: Mapping[str, Any]) -> Report:
        """The page and the card."""
        rule = self.rule
        domains = {name: of for name, of in statistics["domains"].items() if of["train_candidates"]}
        return Report(
            command=self.name,
            title="Few-shot splits",
            headline="Few-shot splits",
            lead="Small training sets for each domain, each with its test.",
            tiles=[
                Tile("domains", number(len(domains))),
                Tile("sizes of training sets", ", ".join(map(str, rule.sizes))),
                Tile("test dialogues", number(sum(of["test"]["dialogues"] for of in domains.values()))),
            ],
            notes=[f"{line[:1].upper()}{line[1:]}." for line in statistics["short"]],
            sections=[
                Table(
                    title="Sets",
                    columns=["domain", "set", "dialogues", "user turns", "slots"],
                    rows=[row for name, domain in domains.items() for row in _rows(name, domain)],
                    text_columns=2,
                    note="Slots: how many of the slots that occur in the domain's training dialogues a set has.",
                ),
                Text(
                    title="How they were made",
                    paragraphs=[
                        ("Dialogues that touch the domain. " if rule.multi_domain else "Dialogues of one domain only. ")
                        + f"Training dialogues are of `{rule.train_split}`, tests of `{rule.test_split}`; they share "
                        "no dialogue id, and no two have the same utterances.",
                        "Training sets are nested: a smaller one has the first dialogues of the next. The first ones "
                        "cover every slot that occurs in the domain's training dialogues; the others are drawn at "
                        "random. Few dialogues have many slots, so small sets have longer dialogues than a "
                        "random sample.",
                        f"Seed: `{rule.seed}`.",
                    ],
                ),
            ],
            links={"statistics.json": "all numbers", "dead_letters.jsonl": "what could not be used"},
        )


def domain_slots(schema: Schema) -> dict[str, list[str]]:
    """Each domain of a schema to the element ids of its slots."""
    slots: dict[str, list[str]] = {}
    for name, service in schema.services.items():
        slots.setdefault(domain_of(name), []).extend(f"{name}/slot/{slot.name}" for slot in service.slots)
    return slots


def read_candidates(file: DialogueFile, split: FewShot, output: str) -> FileResult:
    """The candidates of one file; none of a file that cannot be read to its end."""
    result = FileResult(file.relative)
    rule = split.rule
    part = TEST if file.split == rule.test_split else TRAIN
    found: dict[str, list[tuple[str, Candidate]]] = {}

    def take(item: SplitDialogue) -> None:
        candidates = candidates_of(item.dialogue, item.used, rule.domains, rule.seed, file.relative, item.position)
        result.counts.add(_kind_of(candidates, rule), id=item.identity)
        for domain, candidate in candidates:
            found.setdefault(domain, []).append((part, candidate))

    take_each(file, split.corpus.schemas[file.split].services, result, take)
    result.others["candidates"] = write_parts(output, file.relative, found)
    return result


def _kind_of(candidates: Sequence[tuple[str, Candidate]], rule: Rule) -> str:
    if not candidates:
        return "of_others"
    return "of_domains" if rule.multi_domain or candidates[0][1].alone else "of_several_domains"


def chosen_of(
    run: RunInfo,
    rule: Rule,
    parts: Sequence[tuple[str, Part]],
    dead_letters: Sequence[Letters],
    counts: Iterable[tuple[tuple[str, str, str, str], int]],
) -> dict[str, Chosen]:
    """The dialogues of each domain.

    Args:
      run: the run.
      rule: what is requested.
      parts: (domain, where some of its candidates are).
      dead_letters: of all files.
      counts: of each file.

    Raises:
      InputError: too many dialogues cannot be used, or no domain has a training dialogue.
    """
    # Reported here, before a lack of candidates that it causes.
    check_letters(in_order(dead_letters), of_dialogues(Counts.of_pairs(counts)), run.max_bad, run.done)
    chosen = {
        domain: choose(Candidates((part for of, part in parts if of == domain), run.output), rule)
        for domain in rule.domains
    }
    if not any(of_domain.train for of_domain in chosen.values()):
        raise InputError("; ".join(without_training(chosen)), "--domains")
    return chosen


def sets_of(domain: str, chosen: Chosen, rule: Rule) -> Iterator[tuple[str, list[Candidate]]]:
    """(folder, dialogues) of each set of a domain; none if it has no training dialogue."""
    if chosen.train:
        for size in rule.sizes:
            yield f"{domain}/{size}/train", chosen.train[:size]
        if chosen.test:
            yield f"{domain}/test", chosen.test


def uses_of(result: Result, rule: Rule) -> Iterator[tuple[str, tuple[int, str, int]]]:
    """(dialogue file, (position in it, path of a set's file, position there)) of every dialogue of every set."""
    for domain, chosen in result.items():
        for folder, dialogues in sets_of(domain, chosen, rule):
            for rank, candidate in enumerate(dialogues):
                yield candidate.file, (candidate.position, f"{folder}/{FILE}", rank)


def texts_of(joined: tuple[str, dict[str, Iterable[Any]]]) -> Iterator[tuple[str, tuple[int, bytes, int]]]:
    """(path of a set's file, (position there, text, identity in the set)) of every chosen dialogue of a file.

    Raises:
      InputError: one cannot be written, which was chosen among all: no other can take its place now.
    """
    _, groups = joined
    uses: dict[int, list[tuple[str, int]]] = {}
    for position, path, rank in groups["uses"]:
        uses.setdefault(position, []).append((path, rank))
    if not uses:
        return
    (file,) = groups["file"]
    for position, raw, plain, _ in dialogues_of(file):
        if position in uses:
            with needed(file.path, f"[{position}]"):
                text = dialogue_text(raw, plain)
            for path, rank in uses[position]:
                yield path, (rank, text, identity_in(path, file.relative, position))


def identity_in(path: str, file: str, position: int) -> int:
    """The identity of a dialogue in a set's file."""
    return Identities(path).of(f"{file}\0{position}")


def counts_of_file(texts: tuple[str, Iterable[tuple[int, bytes, int]]]) -> Iterator[tuple[tuple[object, ...], int]]:
    """How many dialogues a set's file has, and which."""
    counts, ids = Counts(), [identity for _, _, identity in texts[1]]
    counts.add("written", len(ids), id=sum(ids))
    yield from ((tuple(key), n) for key, n in counts.items())


def file_of(path: str, texts: Iterable[tuple[int, bytes, int]]) -> tuple[str, bytes]:
    """(path, bytes) of a set's dialogue file."""
    in_order = [text for _, text, _ in sorted(texts)]
    return path, OPENING + BETWEEN.join(in_order) + CLOSING if in_order else EMPTY


def counts_of(result: Result, rule: Rule) -> Iterator[tuple[tuple[object, ...], int]]:
    """Counts of the chosen dialogues, to be compared with those written; and of what training and test share."""
    counts = Counts()
    for domain, chosen in result.items():
        for folder, dialogues in sets_of(domain, chosen, rule):
            for one in dialogues:
                counts.add("chosen", id=identity_in(f"{folder}/{FILE}", one.file, one.position))
        counts.add("shared_ids", _shared(chosen, lambda one: one.dialogue_id))
        counts.add("shared_texts", _shared(chosen, lambda one: one.digest))
    yield from ((tuple(key), n) for key, n in counts.items())


def _shared(chosen: Chosen, key: Any) -> int:
    return len(set(map(key, chosen.train)) & set(map(key, chosen.test)))


def _of_domain(chosen: Chosen, schema_slots: Iterable[str], rule: Rule) -> dict[str, Any]:
    occurring = set(chosen.occurring)
    return {
        "train_candidates": chosen.candidates,
        "test_candidates": chosen.test_candidates,
        "repeated": chosen.repeated,
        "same_id": chosen.same_id,
        "several_domains": {"train": chosen.several[0], "test": chosen.several[1]},
        "slots_that_occur": len(occurring),
        "slots_that_never_occur": sorted(set(schema_slots) - occurring),
        "train": {str(size): _of_set(chosen.train[:size], occurring) for size in rule.sizes},
        "test": _lengths(chosen.test),
    }


def _of_set(dialogues: Sequence[Candidate], occurring: set[str]) -> dict[str, Any]:
    missing = occurring - {slot for one in dialogues for slot in one.slots}
    return {**_lengths(dialogues), "slots": len(occurring) - len(missing), "slots_missing": sorted(missing)}


def _lengths(dialogues: Sequence[Candidate]) -> dict[str, int]:
    return {"dialogues": len(dialogues), "user_turns": sum(one.turns for one in dialogues)}


def without_training(result: Result) -> list[str]:
    """Which domains have no training dialogue, and why: first those for which an option helps."""
    lacking = {name: chosen for name, chosen in result.items() if not chosen.train}
    several = {name: chosen.several[0] for name, chosen in lacking.items() if chosen.several[0]}
    none = [name for name in lacking if name not in several]
    lines = []
    if several:
        listed = ", ".join(f"{name} ({n:,})" for name, n in several.items())
        lines.append(f"training dialogues of these touch other domains too, so no set without --multi_domain: {listed}")
    if none:
        lines.append(f"no training dialogue touches these, so no set: {', '.join(none)}")
    return lines


def _short(domains: Mapping[str, Any], rule: Rule) -> list[str]:
    """What is less than was asked for: a line for each domain that has a training dialogue."""
    lines = []
    largest = str(rule.sizes[-1])
    for name, domain in domains.items():
        train = domain["train"][largest]
        if not train["dialogues"]:
            continue
        parts = [
            f"{n} of {requested} {what} dialogues" + (f" (--multi_domain: {more:,} more)" if more else "")
            for what, n, requested, more in (
                ("training", train["dialogues"], rule.sizes[-1], domain["several_domains"]["train"]),
                ("test", domain["test"]["dialogues"], rule.test, domain["several_domains"]["test"]),
            )
            if n < requested
        ]
        if train["slots_missing"]:
            parts.append(f"no training dialogue has {', '.join(train['slots_missing'])}")
        if parts:
            lines.append(f"{name}: {'; '.join(parts)}")
    return lines


def _rows(name: str, domain: Mapping[str, Any]) -> Iterator[list[str]]:
    for size, of_set in domain["train"].items():
        slots = f"{of_set['slots']} of {domain['slots_that_occur']}"
        yield [name, size, number(of_set["dialogues"]), number(of_set["user_turns"]), slots]
    yield [name, "test", number(domain["test"]["dialogues"]), number(domain["test"]["user_turns"]), ""]
