"""A composition in memory: the work of ``parapet compose``, as plain functions without Beam."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from parapet.schemas.decisions import Decision
from parapet.schemas.elements import VARIANTS
from parapet.schemas.errors import storable
from parapet.schemas.layout import SplitSchemas, raw_by_name
from parapet.schemas.responses import Assignment, DeadLetter, audit_table
from parapet.transforms.counts import Counts, check_invariants
from parapet.transforms.crowd import agreement
from parapet.transforms.crowd.ingest.fields import payload
from parapet.transforms.crowd.ingest.files import Sources, distinct, read_responses, read_sheet
from parapet.transforms.crowd.merge import merge
from parapet.transforms.crowd.settle import Outcome, Settings, settle
from parapet.transforms.crowd.summary import INVARIANTS


class Answers(msgspec.Struct):
    """The answers and decisions of a composition.

    Attributes:
      assignments: with all copies of each.
      decisions: of all reviewers.
      dead: what could not be read.
      agreement: of two reviewers, with the sheet of what to adjudicate; empty where there were none.
    """

    assignments: list[Assignment] = []
    decisions: list[Decision] = []
    dead: list[DeadLetter] = []
    agreement: list[tuple[dict[str, Any], bytes]] = []


class Settled(msgspec.Struct):
    """Every service settled.

    Attributes:
      outcomes: by the service's name, in the order of the schema files.
      dead: every record that could not be used, in the order of ``dead_letters.jsonl``.
      counts: of assignments, answers and decisions.
    """

    outcomes: dict[str, Outcome]
    dead: list[DeadLetter]
    counts: Counts

    def variants(self, splits: Iterable[SplitSchemas]) -> dict[str, dict[str, list[dict[str, Any]]]]:
        """``v1`` to ``v5``, to the name of a split, to its composed services in the order of its file."""
        found: dict[str, dict[str, list[dict[str, Any]]]] = {}
        for split in splits:
            composed = [variants for s in split.services if (variants := self.outcomes[s.service_name].variants)]
            for k in VARIANTS if composed else ():
                found.setdefault(f"v{k}", {})[split.split] = [of_service[k - 1] for of_service in composed]
        return found

    def audit(self) -> pa.Table:
        """What became of every answer; a chunk for each service, in the order of ``responses.parquet``."""
        return pa.concat_tables(audit_table(self.outcomes[name].audit) for name in sorted(self.outcomes))


def read_answers(sources: Sources, key: bytes) -> Answers:
    """Reads all files of a composition.

    Args:
      sources: the files.
      key: for the workers' hashes.

    Raises:
      InputError: a reviewer's sheet that is none. A response file that is none is a dead letter.
      DamagedFile: a compressed file that is cut off or damaged.
    """
    answers = Answers()
    for path in distinct(sources.responses):
        for record in read_responses(path, key, sources.encoding, sources.kind):
            if isinstance(record, Assignment):
                answers.assignments.append(record)
            else:
                answers.dead.append(record)
    for path in distinct(sources.decisions):
        decisions, bad = read_sheet(path)
        answers.decisions += decisions
        answers.dead += bad
    if sources.reviewers:
        (first, bad), (second, worse) = map(read_sheet, sources.reviewers)
        merged = agreement.merge_reviewers(first, second)
        answers.decisions += merged.decisions
        answers.dead += [*bad, *worse]
        sheet = agreement.adjudicate_csv(merged.adjudicate)
        answers.agreement.append((msgspec.to_builtins(merged.agreement), sheet))
    return answers


def settle_all(splits: Sequence[SplitSchemas], answers: Answers, settings: Settings) -> Settled:
    """Merges the answers and settles every service.

    Args:
      splits: the corpus.
      answers: of all workers and reviewers.
      settings: of the run.
    """
    merged = merge(answers.assignments, answers.decisions)
    raws, left_out = raw_by_name(list(splits)), bad_names(splits)
    by_service: dict[str, list[Assignment]] = defaultdict(list)
    for assignment in merged.assignments:
        by_service[assignment.service_name].append(assignment)
    found = Settled({}, [*bad_services(splits), *answers.dead, *merged.dead], Counts())
    found.counts.update(merged.counts)
    found.counts.add("assignments_read", len(answers.assignments))
    for name in dict.fromkeys((*raws, *by_service)):
        of_service = by_service.get(name, [])
        decisions = {a.assignment_id: d for a in of_service if (d := merged.decisions.get(a.assignment_id))}
        settled = settle(name, raws.get(name), of_service, decisions, settings, left_out)
        found.counts.update(settled.counts)
        found.dead += settled.dead
        if settled.outcome is not None:
            found.outcomes[name] = settled.outcome
    check_invariants(found.counts, INVARIANTS)
    found.dead.sort(key=msgspec.json.encode)
    return found


def bad_services(splits: Iterable[SplitSchemas]) -> list[DeadLetter]:
    """The services that break a rule of the format."""
    return [
        DeadLetter(
            "schemas",
            error.path,
            f"bad_service: {error.where}: {error.reason}",
            payload(storable(json.dumps(bad.raw, ensure_ascii=False, separators=(",", ":")))),
            error.path,
        )
        for split in splits
        for bad in split.bad
        for error in (bad.error,)
    ]


def bad_names(splits: Iterable[SplitSchemas]) -> frozenset[str]:
    """The names of services that break a rule of the format."""
    bad = (service.raw for split in splits for service in split.bad)
    return frozenset(str(raw.get("service_name")) for raw in bad if isinstance(raw, dict))
