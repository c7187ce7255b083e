"""The Beam side of ``hits``: services in, files out."""

from __future__ import annotations

from collections.abc import Iterator

import apache_beam as beam
from apache_beam.metrics.metric import Metrics

from schemas.service import Service
from transforms.hits.records import Page, ServiceHits, Settings
from transforms.hits.render_service import render_service
from transforms.hits.summary_files import summary_files


class MakeHits(beam.PTransform):
    """Renders the pages of services.

    Args:
      settings: what shapes the pages.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings

    def expand(self, services: beam.PCollection) -> dict[str, beam.PCollection]:
        """PCollection of (position, Service) to ``files``, (path, bytes), and ``counts``, (name, n)."""
        rendered = services | "Render service" >> beam.Map(_render, self.settings)
        pages = rendered | "Page files" >> beam.FlatMap(page_files)
        summary = (
            rendered
            | "Without pages" >> beam.Map(_without_pages)
            | "All services" >> beam.combiners.ToList()
            | "Summary files" >> beam.FlatMap(summary_files, self.settings)
        )
        return {
            "files": (pages, summary) | "All files" >> beam.Flatten(),
            "counts": rendered | "Count" >> beam.FlatMap(counts_of),
        }


def page_files(hits: ServiceHits) -> Iterator[tuple[str, bytes]]:
    """The two files of every page."""
    for page in hits.pages:
        yield page.record.page, page.html
        yield page.record.question, page.question


def counts_of(hits: ServiceHits) -> Iterator[tuple[str, int]]:
    """What became of a service, for the balance at the end of the run."""
    yield "services", 1
    yield "pages", len(hits.pages)
    yield "fields", sum(len(page.record.fields) for page in hits.pages)
    yield "not_asked", len(hits.not_asked)


def _render(service: tuple[int, Service], settings: Settings) -> ServiceHits:
    hits = render_service(*service, settings)
    for name, n in counts_of(hits):
        Metrics.counter("parapet", name).inc(n)
    return hits


def _without_pages(hits: ServiceHits) -> ServiceHits:
    # The pages' bytes are written where they were made; only their records travel.
    pages = [Page(page.record, b"", b"", page.body) for page in hits.pages]
    return ServiceHits(hits.position, hits.service_name, pages, hits.not_asked)
