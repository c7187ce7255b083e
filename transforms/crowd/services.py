"""The Beam side of ``compose``: the answers to one service's tasks are settled as one element."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any

import apache_beam as beam
import orjson
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.elements import VARIANTS
from parapet.schemas.layout import SplitSchemas, raw_by_name, schema_bytes
from parapet.schemas.responses import RESPONSES
from parapet.transforms.crowd import audit
from parapet.transforms.crowd.composing import AUDIT, FILES, SUMMARY, CrowdRun, Metadata
from parapet.transforms.crowd.composition import bad_names, bad_services
from parapet.transforms.crowd.options import Options
from parapet.transforms.crowd.reading import (
    COUNTS,
    DEAD_LETTERS,
    show_progress,
    tag_counts,
    tag_dead_letters,
    unpack_merged,
)
from parapet.transforms.crowd.report import compose_report
from parapet.transforms.crowd.settle import Settings, settle
from parapet.transforms.crowd.summary import ServiceSummary, shortfall_csv, statistics, summarise, top_up_plan
from parapet.transforms.crowd.vet import explanations
from parapet.transforms.progress import advance, expect
from parapet.transforms.runs import RunInfo

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
        [item for summary in summaries for item in summary.reviews],
        shortfall_csv(summaries),
        {"top_up_plan.json": (json.dumps(top_up_plan(summaries), indent=2) + "\n").encode()},
    )


class SettleServices(beam.PTransform):
    """(service name, packed MergedBatch) to the files of the variants, audit, summaries, dead letters and counts.

    Args:
      splits: the schemas of the corpus.
      settings: of the run.
    """

    def __init__(self, splits: Sequence[SplitSchemas], settings: Settings) -> None:
        super().__init__()
        self.splits, self.settings = splits, settings

    def expand(self, merged: beam.PCollection) -> dict[str, beam.PCollection]:
        """The outputs by name, as :class:`parapet.transforms.crowd.composing.ComposeAnswers` takes them."""
        raws = [(name, orjson.dumps(service)) for name, service in raw_by_name(list(self.splits)).items()]
        expect(len(raws), "services")
        bad_schemas = merged.pipeline | "Bad services" >> beam.Create(bad_services(self.splits), reshuffle=False)
        settle_service = _SettleService(self.settings, _places_of(self.splits), bad_names(self.splits))
        settled = (
            {"schema": merged.pipeline | "Services" >> beam.Create(raws), "responses": merged}
            | "By service" >> beam.CoGroupByKey()
            | "Settle service"
            >> beam.ParDo(settle_service).with_outputs(_VARIANTS, AUDIT, SUMMARY, DEAD_LETTERS, COUNTS)
        )
        return {
            FILES: settled[_VARIANTS]
            | "By schema file" >> beam.GroupByKey()
            | "Schema files" >> beam.MapTuple(_schema_file),
            AUDIT: settled[AUDIT],
            SUMMARY: settled[SUMMARY],
            DEAD_LETTERS: (settled[DEAD_LETTERS], bad_schemas) | "Unusable answers and services" >> beam.Flatten(),
            COUNTS: settled[COUNTS],
        }


class _SettleService(beam.DoFn):
    """(service name, its schema and responses) to its outcome, on several outputs.

    Args:
      settings: of the run.
      places: service name to the schema files that hold it, each with the service's position there.
      left_out: names of services whose schemas are bad.
    """

    def __init__(
        self, settings: Settings, places: Mapping[str, Sequence[tuple[str, int]]], left_out: frozenset[str]
    ) -> None:
        super().__init__()
        self.settings, self.places, self.left_out = settings, places, left_out

    def process(self, element: tuple[str, Mapping[str, Iterable[bytes]]]) -> Iterator[TaggedOutput]:
        name, groups = element
        answers = unpack_merged(groups["responses"])
        raw = next((orjson.loads(schema) for schema in groups["schema"]), None)
        settled = settle(name, raw, answers.assignments, answers.decisions, self.settings, self.left_out)
        if raw is not None:
            advance(1, "services")
        yield from tag_dead_letters(settled.dead)
        yield from tag_counts(settled.counts)
        outcome = settled.outcome
        if raw is None or outcome is None:
            return
        for k, variant in zip(VARIANTS, outcome.variants, strict=False):
            for path, position in self.places[name]:
                yield TaggedOutput(_VARIANTS, (f"v{k}/{path}", (position, orjson.dumps(variant))))
        yield TaggedOutput(AUDIT, (name, audit.pack(outcome.audit)))
        yield TaggedOutput(SUMMARY, summarise(raw, outcome))
        for row in outcome.audit:
            show_progress(row.disposition, 1)
        show_progress("services_composed", bool(outcome.variants))


def _places_of(splits: Iterable[SplitSchemas]) -> dict[str, list[tuple[str, int]]]:
    """Service name to (schema file, position there)."""
    places: dict[str, list[tuple[str, int]]] = {}
    for split in splits:
        for position, service in enumerate(split.services):
            places.setdefault(service.service_name, []).append((split.relative_path, position))
    return places


def _schema_file(path: str, services: Iterable[tuple[int, bytes]]) -> tuple[str, bytes]:
    """(schema file, its services with their positions) to (schema file, bytes)."""
    return path, schema_bytes([orjson.loads(service) for _, service in sorted(services)])
