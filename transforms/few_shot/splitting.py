"""The wiring: files are read for candidates, each domain chooses, and what it chose is read again and written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import msgspec
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.dialogue_files import BETWEEN, CLOSING, EMPTY, OPENING, DialogueFile, dialogue_text
from parapet.schemas.errors import InputError
from parapet.schemas.service import Service
from parapet.transforms.corpora import dialogues_of
from parapet.transforms.dead_letters import DeadLetter, dead_dialogue, dead_file, id_of
from parapet.transforms.few_shot.candidates import TEST, TRAIN, Candidate, Rule, candidates_of
from parapet.transforms.few_shot.choosing import Chosen, choose
from parapet.transforms.few_shot.statistics import card, statistics, without_training
from parapet.transforms.touching import used_by

DEAD, COUNTS = "dead", "counts"
FILE = "dialogues_001.json"


class SplitSchema(msgspec.Struct, frozen=True):
    """The schema of a split: each service as its file has it and typed, by name, in the file's order."""

    raw: dict[str, Any]
    typed: dict[str, Service]


class ReadCandidates(beam.PTransform):
    """Reads dialogue files.

    Args:
      rule: what is wanted.
      schemas: by split.
    """

    def __init__(self, rule: Rule, schemas: Mapping[str, SplitSchema]) -> None:
        super().__init__()
        self.rule, self.schemas = rule, dict(schemas)

    def expand(self, files: beam.PCollection) -> Any:
        """DialogueFile to (domain, (part, Candidate)) (main), (file, letters) (DEAD), (name, n) (COUNTS)."""
        return files | "Read file" >> beam.FlatMap(read_file, self.rule, self.schemas).with_outputs(
            DEAD, COUNTS, main="candidates"
        )


def read_file(
    file: DialogueFile, rule: Rule, schemas: Mapping[str, SplitSchema]
) -> Iterator[tuple[str, tuple[str, Candidate]] | TaggedOutput]:
    """The candidates of one file; of a file that cannot be read to its end none."""
    services = schemas[file.split].typed
    part = TEST if file.split == rule.test_split else TRAIN
    found: list[tuple[str, tuple[str, Candidate]]] = []
    letters: list[DeadLetter] = []
    counts: Counter[str] = Counter(files=1)
    try:
        for position, raw, _, dialogue in dialogues_of(file):
            counts["dialogues"] += 1
            try:
                if isinstance(dialogue, InputError):
                    raise dialogue
                candidates = candidates_of(dialogue, used_by(dialogue, services), rule, file.relative, position)
            except InputError as error:
                letters.append(dead_dialogue(file, id_of(raw, position), error))
                counts["left_out"] += 1
                continue
            counts[_end_of(candidates, rule)] += 1
            found += [(domain, (part, one)) for domain, one in candidates]
    except InputError as error:
        letters = [dead_file(file, error)]
        found, counts = [], Counter(files=1, broken_files=1)
    yield from found
    if letters:
        yield TaggedOutput(DEAD, (file.relative, letters))
    for count in counts.items():
        yield TaggedOutput(COUNTS, count)


def _end_of(candidates: Sequence[tuple[str, Candidate]], rule: Rule) -> str:
    if not candidates:
        return "of_others"
    return "of_domains" if rule.multi_domain or candidates[0][1].alone else "of_several_domains"


def chosen_of(
    rule: Rule, found: Iterable[tuple[str, tuple[str, Candidate]]], dead: Iterable[Any] = ()
) -> dict[str, Chosen]:
    """What each domain gets, given the candidates of all.

    Args:
      rule: what is wanted.
      found: (domain, (part, candidate)).
      dead: the file of dead letters, so that bad input is reported before a lack of candidates that it causes.

    Raises:
      InputError: no domain has a training dialogue.
    """
    by_domain: dict[str, list[tuple[str, Candidate]]] = {domain: [] for domain in rule.domains}
    for domain, one in found:
        by_domain[domain].append(one)
    chosen = {domain: choose(of, rule) for domain, of in by_domain.items()}
    if not any(one.train for one in chosen.values()):
        raise InputError("; ".join(without_training(chosen)), "--domains")
    return chosen


def uses_of(chosen: Mapping[str, Chosen], rule: Rule) -> Iterator[tuple[str, tuple[int, str, int]]]:
    """(dialogue file, (position in it, path of a set's file, position there)) of every dialogue of every set."""
    for domain, one in chosen.items():
        for path, dialogues in sets_of(domain, one, rule):
            for rank, chosen_one in enumerate(dialogues):
                yield chosen_one.file, (chosen_one.position, f"{path}/{FILE}", rank)


def sets_of(domain: str, one: Chosen, rule: Rule) -> Iterator[tuple[str, list[Candidate]]]:
    """(folder, dialogues) of each set of a domain; none where it has no training dialogue."""
    if one.train:
        for size in rule.sizes:
            yield f"{domain}/{size}/train", one.train[:size]
        if one.test:
            yield f"{domain}/test", one.test


def texts_of(joined: tuple[str, dict[str, Iterable[Any]]]) -> Iterator[tuple[str, tuple[int, bytes]]]:
    """(path of a set's file, (position there, text)) of every dialogue of a file that some set has."""
    _, found = joined
    wanted: dict[int, list[tuple[str, int]]] = {}
    for position, path, rank in found["uses"]:
        wanted.setdefault(position, []).append((path, rank))
    if not wanted:
        return
    (file,) = found["file"]
    for position, raw, plain, _ in dialogues_of(file):
        if position in wanted:
            text = dialogue_text(raw, plain)
            for path, rank in wanted[position]:
                yield path, (rank, text)


def file_of(path: str, texts: Iterable[tuple[int, bytes]]) -> tuple[str, bytes]:
    """(path, bytes) of a set's dialogue file."""
    every = [text for _, text in sorted(texts)]
    return path, OPENING + BETWEEN.join(every) + CLOSING if every else EMPTY


def metadata_files(
    chosen: Mapping[str, Chosen],
    rule: Rule,
    schemas: Mapping[str, SplitSchema],
    domain_slots: Mapping[str, Sequence[str]],
) -> Iterator[tuple[str, bytes]]:
    """(path, bytes) of schemas, ``statistics.json`` and the card."""
    from parapet.schemas.layout import schema_bytes
    from parapet.transforms.corpora import domain_of

    numbers = statistics(chosen, domain_slots, rule)
    yield "statistics.json", (json.dumps(numbers, indent=2) + "\n").encode()
    yield "README.md", card(numbers, rule).encode()
    for domain, one in chosen.items():
        for folder, dialogues in sets_of(domain, one, rule):
            used = {service for found in dialogues for service in found.services}
            schema = schemas[rule.test_split if folder.endswith("/test") else rule.train_split]
            raw = [of for name, of in schema.raw.items() if name in used or domain_of(name) == domain]
            yield f"{folder}/schema.json", schema_bytes(raw)


def check_invariants(counts: dict[str, int], rule: Rule) -> dict[str, int]:
    """Every dialogue is of a domain, of several, of others, or left out; every set has all that were chosen.

    Raises:
      RuntimeError: they do not balance.
    """
    ends = sum(counts.get(name, 0) for name in ("of_domains", "of_several_domains", "of_others", "left_out"))
    wrong = ["dialogues"] if counts.get("dialogues", 0) != ends else []
    wrong += ["sets"] if counts.get("chosen", 0) != counts.get("written", 0) else []
    wrong += [f"{name} of training and test" for name in ("shared_ids", "shared_texts") if counts.get(name, 0)]
    if wrong:
        raise RuntimeError(f"the counts do not balance for {', '.join(wrong)}: {counts}")
    return counts


def counts_of(chosen: Mapping[str, Chosen], rule: Rule) -> list[tuple[str, int]]:
    """(name, n) of what was chosen, to be compared with what was written; and what train and test share."""
    counts: Counter[str] = Counter(shared_ids=0, shared_texts=0)
    for domain, one in chosen.items():
        counts["chosen"] += sum(len(dialogues) for _, dialogues in sets_of(domain, one, rule))
        counts["shared_ids"] += len({of.dialogue_id for of in one.train} & {of.dialogue_id for of in one.test})
        counts["shared_texts"] += len({of.digest for of in one.train} & {of.digest for of in one.test})
    return list(counts.items())
