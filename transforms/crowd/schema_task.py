"""The crowd task of paraphrasing schemas: what ``parapet compose`` reports and writes about each service and all."""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from importlib.metadata import version
from itertools import islice
from typing import Any

import apache_beam as beam
import msgspec

from parapet.schemas import errors, layout
from parapet.schemas.decisions import Decision, neutralise
from parapet.schemas.rows import RESPONSES, Assignment, DeadLetter
from parapet.schemas.service import VARIANTS, Task, parse_service
from parapet.transforms.core import files, plugins
from parapet.transforms.crowd import meaning, rules
from parapet.transforms.crowd.answer_files import SCHEMA_TASKS, payload
from parapet.transforms.crowd.compose import (
    NEEDED,
    Composed,
    Rank,
    Ranker,
    choose_texts,
    compose_service,
    elements_by_place,
)
from parapet.transforms.crowd.ingest import Group, Submission, join_decisions, merge_assignments
from parapet.transforms.crowd.report import compose_report, missing_answers
from parapet.transforms.crowd.task import CrowdTask, Notes, Outcome, Results, dispositions, reasons, total, without_dead
from parapet.transforms.crowd.vet import SchemaAnswer, Vet, Vetting
from parapet.transforms.crowd.worker_ids import without_ids
from parapet.transforms.variants import distance, table1

SHORTFALL_COLUMNS = (
    *("service_name", "element_id", "task", "field", "have", "need", "in_review", "reason", "composed"),
    "filled_variants",
)
_SERVICES_SHOWN = 2  # number of services whose paraphrases the report shows


class Options(msgspec.Struct, frozen=True):
    """The options of a composition, named like the command's flags.

    Attributes:
      vetting_rules: the names of plug-ins with rules.
    """

    seed: int = 0
    selection: str = "random"
    allow_partial: bool = False
    name_distance: str = "levenshtein"
    description_distance: str = "jaccard"
    vetting_rules: tuple[str, ...] = ()
    allow_not_blind: bool = False

    def rank(self) -> Rank:
        """Returns the transform that ranks answers. Raises InputError if an option is invalid."""
        distance.metric_named(self.name_distance, "name_distance")  # checked here, where the flag is known
        distance.metric_named(self.description_distance, "description_distance")
        return Rank(self.name_distance, self.description_distance, NEEDED, self.seed, selection=self.selection)

    def method(self) -> dict[str, str]:
        """Returns ``method`` of ``statistics.json``, without names of input files, which do not affect the result."""
        not_blind = {"blindness": "workers who saw the other task of the service are allowed"}
        return {
            "names": f"{self.name_distance.partition('=')[0]} distance",
            "descriptions": f"{self.description_distance.partition('=')[0]} distance",
            "stopwords": "articles",
            "lemmas": f"simplemma {version('simplemma')}",
            "selection": self.selection,
            "seed": str(self.seed),
            "meaning": meaning.measure(),
            **(not_blind if self.allow_not_blind else {}),
            "partial": "allowed" if self.allow_partial else "left out",
            **({"vetting rules": ", ".join(rules.choose_rules(self.vetting_rules))} if self.vetting_rules else {}),
        }

    def plugins(self) -> dict[str, Any]:
        """Returns the origin of the plug-ins for ``run.json``."""
        distances = ((self.name_distance, "name_distance"), (self.description_distance, "description_distance"))
        of_rules = (rule.chosen for rule in rules.choose_rules(self.vetting_rules).values())
        chosen = (plugins.choose(plugins.DISTANCES, *name_and_flag) for name_and_flag in distances)
        return plugins.recorded(*chosen, *of_rules)


class ServiceOutcome(Outcome, kw_only=True):
    """What became of the answers about a service.

    Attributes:
      composed: whether the variants were composed.
      to_accept: the number of held answers that would complete the service if reviewers accepted them; 0 if it is
        complete, or if all of them would not be enough.
      not_blind: the number of assignments of workers who had done the sibling task.
      measured: the service's part of SGD-X Table 1, if it was composed.
      examples: some paraphrases for the report.
    """

    composed: bool = False
    to_accept: int = 0
    not_blind: int = 0
    measured: table1.ServiceMeasures | None = None
    examples: list[list[str]] = msgspec.field(default_factory=list)


def conclude_service(
    raw: Mapping[str, Any], vetted: Iterable[SchemaAnswer], composed: Composed, ranker: Ranker
) -> tuple[ServiceOutcome, list[SchemaAnswer]]:
    """Returns the outcome of a service, and its answers in the order of ``responses.parquet``.

    Args:
      raw: the service as read from its schema file.
      vetted: all answers about it.
      composed: the service, with what became of the good ones.
      ranker: how answers were ranked.
    """
    service = parse_service(raw)
    answers = sorted(vetted, key=lambda a: (a.element_id, a.task, a.response_id))
    ranked = {answer.response_id: answer for answer in composed.answers}
    for answer in answers:
        if answer.disposition == "surplus":
            answer.distance, answer.variant = ranked[answer.response_id].distance, ranked[answer.response_id].variant
            if answer.variant:
                answer.disposition, answer.reason = "used", ""
            elif not composed.variants:
                answer.reason = "service_incomplete"
    outcome = ServiceOutcome(name=service.service_name, short=composed.short, composed=bool(composed.variants))
    places: dict[tuple[Task, str], list[SchemaAnswer]] = defaultdict(list)
    for answer in answers:
        if answer.same_answers:
            places[answer.task, answer.place].append(answer)
    outcome.note(answers, places.values())
    outcome.not_blind = len({a.response_id.rpartition(":")[0] for a in answers if a.not_blind})
    for short in composed.short:
        short.in_review = sum(answer.disposition == "review" for answer in places.get((short.task, short.place), ()))
    needed = [max(NEEDED - short.have, 1) for short in composed.short]
    if needed and all(short.in_review >= n for short, n in zip(composed.short, needed, strict=True)):
        # Whether accepting all of them would complete the service.
        usable = {
            place: [copy(a) for a in of_place if a.disposition not in ("rejected", "duplicate") and a.words]
            for place, of_place in places.items()
        }
        rankings = {place: ranker.rank(of_place) for place, of_place in usable.items() if of_place}
        outcome.to_accept = sum(needed) if choose_texts(elements_by_place(raw), rankings)[0] else 0
    if composed.variants:
        services = {f"v{k}": parse_service(v) for k, v in zip(VARIANTS, composed.variants, strict=True)}
        outcome.measured = table1.measure(table1.Item(service, services))
        outcome.examples = list(_examples(raw, composed.variants))
    return outcome, answers


def _examples(raw: Mapping[str, Any], variants: Sequence[Mapping[str, Any]]) -> Iterator[list[str]]:
    """Yields the first intent and the first slots of a composed service: names, then descriptions."""
    for field in ("name", "description"):
        for kind, n in (("intents", 1), ("slots", 4)):
            for i, element in enumerate(raw[kind][:n]):
                yield [element[field], *(variant[kind][i][field] for variant in variants)]


class Batch(msgspec.Struct):
    """A composed batch in memory: all answers and outcomes in the order of services, and variants by service."""

    outcomes: list[ServiceOutcome]
    answers: list[SchemaAnswer]
    variants: dict[str, list[dict[str, Any]]]
    dead: list[DeadLetter]
    notes: Notes


class SchemaTask(CrowdTask[ServiceOutcome]):
    """The crowd task of paraphrasing the names and descriptions of schemas.

    Args:
      splits: the schemas of the corpus.
      options: the options that affect the result.
      output: the output folder.
    """

    command = "compose"
    kind = SCHEMA_TASKS
    audit_schema = RESPONSES

    def __init__(self, splits: Sequence[layout.SplitSchemas], options: Options, output: str = "") -> None:
        self.splits, self.options = list(splits), options
        self.output, self.method, self.header = output, options.method(), options.plugins()
        self.explanations = rules.explanations(options.vetting_rules)
        self.rank = options.rank()

    def vetting(self) -> Vetting:
        """Returns what vets the answers about a service."""
        of_plugins = [*rules.choose_rules(self.options.vetting_rules).values()]
        return Vetting(self.splits, of_plugins, self.options.allow_not_blind)

    def vet(self, decisions: Iterable[str | Decision] = ()) -> Vet:
        """Returns the transform that vets answers."""
        vetting = self.vetting()
        return Vet(self.splits, decisions, vetting.rules, allow_not_blind=vetting.allow_not_blind)

    def compose(self, read: Iterable[Assignment], decisions: Iterable[Decision], dead: Iterable[DeadLetter]) -> Batch:
        """Composes a batch in memory, by the functions of the transforms.

        Args:
          read: the assignments as read, with copies.
          decisions: the decisions on their answers.
          dead: the dead letters so far.
        """
        batch = Batch([], [], {}, [*self.dead(), *dead], Notes())
        merged = without_dead(merge_assignments(read), batch.dead)
        services: dict[str, list[Submission]] = {name: [] for name in layout.raw_by_name(self.splits)}
        for submission in without_dead(join_decisions(merged, decisions), batch.dead):
            services.setdefault(submission.assignment.service_name, []).append(submission)
            batch.notes.add(submission.assignment)
        vetting = self.vetting()
        for name, submissions in sorted(services.items()):
            vetted = [answer for _, answer in without_dead(vetting.vet(name, submissions), batch.dead)]
            batch.notes.counts.update(vetted=len(vetted))
            if name not in vetting.raws:
                continue
            good: dict[tuple[str, str], list[SchemaAnswer]] = defaultdict(list)
            for answer in vetted:
                if answer.disposition == "surplus":
                    good[answer.task, answer.place].append(answer)
            rankings = [self.rank.ranker.rank(answers) for answers in good.values()]
            raw = vetting.raws[name]
            composed = compose_service(raw, elements_by_place(raw), rankings, self.options.allow_partial)
            outcome, answers = conclude_service(raw, vetted, composed, self.rank.ranker)
            batch.outcomes.append(outcome)
            batch.answers += answers
            if composed.variants:
                batch.variants[name] = composed.variants
        batch.dead = sorted(map(without_ids, batch.dead), key=msgspec.json.encode)
        return batch

    def in_order(self, outcomes: Iterable[ServiceOutcome]) -> list[ServiceOutcome]:
        """Returns the outcomes in the order in which services appear in the schema files."""
        of_name = {outcome.name: outcome for outcome in outcomes}
        return [of_name[name] for name in layout.services_by_name(self.splits)]

    def dead(self) -> list[DeadLetter]:
        """Returns the dead letters of services that break a rule of the format."""
        return [
            DeadLetter(
                "schemas",
                error.path,
                f"bad_service: {error.where}: {error.reason}",
                payload(errors.storable(json.dumps(bad.raw, ensure_ascii=False, separators=(",", ":")))),
                error.path,
            )
            for split in self.splits
            for bad in split.bad
            for error in (bad.error,)
        ]

    def results(self, outcomes: Sequence[ServiceOutcome], dead: Sequence[DeadLetter]) -> Results:
        """Returns statistics, report and shortfall."""
        outcomes = self.in_order(outcomes)
        numbers = self.statistics(outcomes, len(dead))
        examples = {outcome.name: outcome.examples for outcome in outcomes if outcome.examples}
        rows = shortfall_rows(outcomes)
        shown = dict(islice(examples.items(), _SERVICES_SHOWN))
        report = compose_report(numbers, self.explanations, shown, missing_answers(rows, numbers["services"]))
        out = io.StringIO()
        writer = csv.DictWriter(out, SHORTFALL_COLUMNS, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({**row, **{name: neutralise(row[name]) for name in ("service_name", "element_id")}})
        return Results(numbers, report, {"shortfall.csv": out.getvalue().encode()})

    def statistics(self, outcomes: Sequence[ServiceOutcome], dead: int) -> dict[str, Any]:
        """Returns the content of ``statistics.json``; ``dead`` is the number of dead letters."""
        splits: dict[str, list[str]] = defaultdict(list)
        for path, names in layout.splits_of(self.splits).items():
            for name in names:
                splits[name].append(path.rpartition("/")[0] or "schema")
        measured = [outcome.measured for outcome in outcomes if outcome.measured is not None]
        measures = table1.combine(measured, [f"v{k}" for k in VARIANTS]) if measured else {}
        content = {
            "answers": dispositions(outcomes),
            "dead_letters": dead,
            "sources": total(outcome.sources for outcome in outcomes),
            "reasons": reasons(outcomes),
            "not_blind_assignments": sum(outcome.not_blind for outcome in outcomes),
            "meaning": meaning.stated(),
            "services": {
                outcome.name: {
                    "splits": splits[outcome.name],
                    "composed": outcome.composed,
                    "partial": bool(outcome.composed and outcome.short),
                    "answers": dispositions([outcome]),
                    "short": len(outcome.short),
                    "to_accept": outcome.to_accept,
                }
                for outcome in outcomes
            },
            "variants": measures.get("variants", {}),
            "average": measures.get("average", {}),
            "self_bleu": measures.get("self_bleu"),
            "decisions": {"accept": 0, "fix": 0, "reject": 0, **total(outcome.decisions for outcome in outcomes)},
            "method": dict(self.method),
        }
        return {key: table1.rounded(value) for key, value in content.items()}


def shortfall_rows(outcomes: Iterable[ServiceOutcome]) -> list[dict[str, Any]]:
    """Returns a row in ``SHORTFALL_COLUMNS`` for each element and task that needs more good answers."""
    return [
        {
            "service_name": outcome.name,
            "element_id": short.element_id,
            "task": short.task,
            "field": short.place,
            "have": short.have,
            "need": NEEDED,
            "in_review": short.in_review,
            "reason": short.reason,
            "composed": "partial" if outcome.composed else "no",
            "filled_variants": " ".join(f"v{k}" for k in short.filled),
        }
        for outcome in outcomes
        for short in outcome.short
    ]


class Conclude(beam.PTransform):
    """Joins the vetted answers with the composed services, to pairs (outcome, answers) of each service.

    Args:
      task: the task.
      composed: the output ``composed`` of :class:`Compose`.
    """

    def __init__(self, task: SchemaTask, composed: beam.PCollection) -> None:
        super().__init__()
        self.raws = layout.raw_by_name(task.splits)
        self.ranker, self.composed = task.rank.ranker, composed

    def expand(self, vetted: beam.PCollection) -> beam.PCollection:
        """Converts a PCollection of (service name, answer)."""
        services = (vetted, self.composed) | "Services" >> Group(SchemaAnswer, Composed)
        return services | "Conclude" >> beam.FlatMap(_conclude, self.raws, self.ranker)


def _conclude(
    group: tuple[str, tuple[list[SchemaAnswer], list[Composed]]], raws: Mapping[str, Any], ranker: Ranker
) -> Iterator[tuple[ServiceOutcome, list[SchemaAnswer]]]:
    name, (vetted, (composed,)) = group
    yield conclude_service(raws[name], vetted, composed, ranker)


OfServices = Mapping[str, Sequence[dict[str, Any]]]  # the name of each composed service to its variants v1 to v5


def variants_of_split(split: layout.SplitSchemas, of_services: OfServices) -> dict[str, list[dict[str, Any]]]:
    """Returns the composed services of a split in each variant, in the order of its file; empty if there are none."""
    done = [of_services[s.service_name] for s in split.services if s.service_name in of_services]
    return {f"v{k}": list(of_variant) for k, of_variant in enumerate(zip(*done, strict=True), 1)}


def variant_files(split: layout.SplitSchemas, of_services: OfServices) -> dict[str, bytes]:
    """Returns the schema files of a split in each variant, by path."""
    variants = variants_of_split(split, of_services).items()
    return {f"{name}/{path}": data for name, raws in variants for path, data in split.variant_files(raws).items()}


class WriteVariants(beam.PTransform):
    """Writes the variants of all services of a split into ``v1/SPLIT/schema.json`` and so on.

    Args:
      splits: the schemas of the corpus.
      output: the output folder.
    """

    def __init__(self, splits: Sequence[layout.SplitSchemas], output: str) -> None:
        super().__init__()
        self.splits, self.output = {split.split: split for split in splits}, output

    def expand(self, variants: beam.PCollection) -> beam.PCollection:
        """Converts a PCollection of (service name, variants) to one of :data:`files.Written`."""
        names = {split: {s.service_name for s in schemas.services} for split, schemas in self.splits.items()}
        by_split = variants | "Of split" >> beam.FlatMap(
            lambda pair: [(split, pair) for split, of_split in names.items() if pair[0] in of_split]
        )
        return by_split | "Splits" >> Group(tuple) | "Write" >> beam.FlatMap(_write_variants, self.splits, self.output)


def _write_variants(
    group: tuple[str, tuple[list[Any]]], splits: Mapping[str, layout.SplitSchemas], output: str
) -> Iterator[files.Written]:
    split, (pairs,) = group
    of_services = {name: list(of_service.values()) for name, of_service in pairs}
    for path, data in variant_files(splits[split], of_services).items():
        yield files.write_staged(output, path, data)
