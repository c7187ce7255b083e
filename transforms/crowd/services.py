"""The Beam side of ``compose``: the answers to one service's tasks are settled as one element."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.elements import VARIANTS
from parapet.schemas.layout import SplitSchemas, raw_by_name, schema_bytes
from parapet.schemas.responses import RESPONSES, Assignment, DeadLetter
from parapet.transforms.counts import Counts
from parapet.transforms.crowd import audit
from parapet.transforms.crowd.composing import (
    AUDIT,
    FILES,
    REVIEWS,
    SUMMARY,
    CrowdRun,
    Metadata,
    SettleAnswers,
    WriteDeadLetters,
    packed_reviews,
)
from parapet.transforms.crowd.composition import bad_names, bad_services
from parapet.transforms.crowd.merge import lost_ones, settle_fenced
from parapet.transforms.crowd.options import Options
from parapet.transforms.crowd.reading import (
    COUNTS,
    DEAD_LETTERS,
    SHARDS,
    MergedAnswers,
    dead_letter_key,
    show_progress,
    tag_counts,
    tagged,
    unpack_merged,
)
from parapet.transforms.crowd.report import compose_report
from parapet.transforms.crowd.settle import Settings, Settled, settle
from parapet.transforms.crowd.summary import ServiceSummary, shortfall_csv, statistics, summarise, top_up_plan
from parapet.transforms.crowd.vet import explanations
from parapet.transforms.fence import Fault, bad_record
from parapet.transforms.progress import advance, expect
from parapet.transforms.runs import RunInfo
from parapet.transforms.sorted_runs import GatheredRuns, RunWritingDoFn, joined, shard_of, sort_key

_VARIANTS = "variants"
_SERVICES_SHOWN = 2  # whose paraphrases the report shows


def variants_run(output: str, options: Options, services: Mapping[str, Sequence[str]]) -> CrowdRun:
    """The run of ``compose``.

    Args:
      output: the output folder.
      options: what shapes the result.
      services: schema file to the names of its services.
    """
    return CrowdRun(
        RunInfo("compose", output, options.method(), header=options.plugins()),
        RESPONSES,
        explanations(options.vetting_rules),
        partial(_metadata, options, services),
    )


def _metadata(
    options: Options,
    services: Mapping[str, Sequence[str]],
    summaries: Iterable[ServiceSummary],
    dead_letters: int,
    agreement: dict[str, Any] | None,
) -> Metadata:
    position = {name: i for i, name in enumerate(dict.fromkeys(chain.from_iterable(services.values())))}
    summaries = sorted(summaries, key=lambda summary: position[summary.service_name])
    numbers = statistics(summaries, services, dead_letters, agreement, options.method())
    examples = {summary.service_name: summary.examples for summary in summaries if summary.examples}
    shown = dict(islice(examples.items(), _SERVICES_SHOWN))
    return Metadata(
        numbers,
        compose_report(numbers, explanations(options.vetting_rules), shown),
        {
            "shortfall.csv": shortfall_csv(summaries),
            "top_up_plan.json": (json.dumps(top_up_plan(summaries), indent=2) + "\n").encode(),
        },
    )


class SettleServices(SettleAnswers):
    """Settles answers service by service; ``files`` are the schema files of the variants.

    Args:
      splits: the schemas of the corpus.
      settings: of the run.
      output: as of SettleAnswers.
    """

    def __init__(self, splits: Sequence[SplitSchemas], settings: Settings, output: str) -> None:
        super().__init__(output)
        self.splits, self.settings = splits, settings

    def expand(self, merged: beam.PCollection) -> dict[str, beam.PCollection]:
        """The outputs by name."""
        raws = [
            (shard_of(sort_key(name), SHARDS), (name, _packed(service)))
            for name, service in raw_by_name(list(self.splits)).items()
        ]
        expect(len(raws), "services")
        settle_services = _SettleServices(self.output, self.settings, _places_of(self.splits), bad_names(self.splits))
        settled = (
            {"schemas": merged.pipeline | "Services" >> beam.Create(raws), "answers": merged}
            | "By service" >> beam.CoGroupByKey()
            | "Settle service"
            >> beam.ParDo(settle_services).with_outputs(_VARIANTS, AUDIT, REVIEWS, SUMMARY, DEAD_LETTERS, COUNTS)
        )
        bad_schemas = (
            merged.pipeline
            | "Bad services" >> beam.Create([bad_services(self.splits)], reshuffle=False)
            | "Their dead letters" >> beam.ParDo(WriteDeadLetters(self.output))
        )
        return {
            FILES: settled[_VARIANTS]
            | "By schema file" >> beam.GroupByKey()
            | "Schema files" >> beam.MapTuple(_schema_file),
            AUDIT: settled[AUDIT],
            REVIEWS: settled[REVIEWS],
            SUMMARY: settled[SUMMARY],
            DEAD_LETTERS: (settled[DEAD_LETTERS], bad_schemas) | "Unusable answers and services" >> beam.Flatten(),
            COUNTS: settled[COUNTS],
        }


class _SettleServices(RunWritingDoFn):
    """(shard, its services' schemas and answers) to the outcome of each service, on several outputs.

    Args:
      output: below which runs are written.
      settings: of the run.
      places: service name to the schema files that hold it, each with the service's position there.
      left_out: names of services whose schemas are bad.
    """

    def __init__(
        self,
        output: str,
        settings: Settings,
        places: Mapping[str, Sequence[tuple[str, int]]],
        left_out: frozenset[str],
    ) -> None:
        super().__init__(output)
        self.settings, self.places, self.left_out = settings, places, left_out

    def process(self, element: tuple[str, Mapping[str, Iterable[Any]]]) -> Iterator[TaggedOutput]:
        _, groups = element
        gathered = GatheredRuns(self.runs)
        schemas = {name: json.loads(schema) for name, schema in groups["schemas"]}
        for name, (packed,) in joined(groups["answers"]):
            yield from self._service(name, schemas.pop(name, None), unpack_merged(packed), gathered)
        for name, raw in schemas.items():
            yield from self._service(name, raw, unpack_merged([]), gathered)
        yield from tagged(gathered.flush())

    def _service(
        self, name: str, raw: Mapping[str, Any] | None, answers: MergedAnswers, gathered: GatheredRuns
    ) -> Iterator[TaggedOutput]:
        def settle_all(assignments: Sequence[Assignment]) -> tuple[Settled, _OfService | None]:
            decisions = {one.assignment_id: answers.decisions.get(one.assignment_id, {}) for one in assignments}
            settled = settle(name, raw, assignments, decisions, self.settings, self.left_out)
            return settled, self._of_service(name, raw, settled)

        try:
            (settled, of_service), errors = settle_fenced(settle_all, answers.assignments)
        except Exception as error:  # of the service, whatever was answered
            bad = bad_record(error, is_private=True)
            if not isinstance(bad, Fault):
                raise
            errors = {assignment.assignment_id: bad for assignment in answers.assignments}
            of_service = None
            settled = Settled(None, [DeadLetter("compose", name, bad.reason, "", self._source_of(name))], Counts())
        dead, counts = lost_ones(answers.assignments, answers.decisions, errors)
        yield from tag_counts(settled.counts)
        yield from tag_counts(counts)
        for letter in (*settled.dead, *dead):
            yield from tagged(gathered.add(DEAD_LETTERS, dead_letter_key(letter)))
        if of_service is None:
            return
        advance(1, "services")
        yield from (TaggedOutput(_VARIANTS, variant) for variant in of_service.variants)
        yield TaggedOutput(SUMMARY, of_service.summary)
        show_progress({**of_service.summary.answers, "services_composed": of_service.summary.composed})
        for element, items in of_service.reviews:
            yield from tagged(gathered.add(REVIEWS, element, items))
        yield from tagged(gathered.add(AUDIT, sort_key(name), of_service.audit))

    def _of_service(self, name: str, raw: Mapping[str, Any] | None, settled: Settled) -> _OfService | None:
        outcome = settled.outcome
        if raw is None or outcome is None:
            return None
        return _OfService(
            [
                (f"v{k}/{path}", (position, _packed(variant)))
                for k, variant in zip(VARIANTS, outcome.variants, strict=False)
                for path, position in self.places[name]
            ],
            summarise(raw, outcome),
            list(packed_reviews(outcome.reviews)),
            audit.pack(outcome.audit),
        )

    def _source_of(self, name: str) -> str:
        return ", ".join(path for path, _ in self.places.get(name, ()))


class _OfService(NamedTuple):
    """What is written of a service that a schema has."""

    variants: list[tuple[str, tuple[int, bytes]]]
    summary: ServiceSummary
    reviews: list[tuple[bytes, bytes]]
    audit: bytes


def _places_of(splits: Iterable[SplitSchemas]) -> dict[str, list[tuple[str, int]]]:
    """Service name to (schema file, position there)."""
    places: dict[str, list[tuple[str, int]]] = {}
    for split in splits:
        for position, service in enumerate(split.services):
            places.setdefault(service.service_name, []).append((split.relative_path, position))
    return places


def _packed(service: Mapping[str, Any]) -> bytes:
    """A service as JSON that Python reads as it was: with whole numbers of any size, and NaN."""
    return json.dumps(service).encode("ascii")


def _schema_file(path: str, services: Iterable[tuple[int, bytes]]) -> tuple[str, bytes]:
    """(schema file, its services with their positions) to (schema file, bytes)."""
    return path, schema_bytes([json.loads(service) for _, service in sorted(services)])
