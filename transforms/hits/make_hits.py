"""The Beam side of ``hits``: services or dialogue files in, files out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import apache_beam as beam
from apache_beam.metrics.metric import Metrics

from parapet.schemas.dialogue import Dialogue, parse_dialogues
from parapet.schemas.service import Service
from parapet.transforms.files import read_bytes
from parapet.transforms.hits.choose_turns import Choice, Scan, choose, scan
from parapet.transforms.hits.dialogue_paths import DialoguePath
from parapet.transforms.hits.records import Hits, Page, Settings
from parapet.transforms.hits.render_dialogues import render_dialogues
from parapet.transforms.hits.render_service import render_service
from parapet.transforms.hits.summary_files import summary_files


class MakeHits(beam.PTransform):
    """Renders the pages of services.

    Args:
      settings: what shapes the pages.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings

    def expand(self, services: beam.PCollection) -> dict[str, beam.PCollection]:
        """PCollection of (position, Service) to ``pages`` and ``summary``, (path, bytes), and ``counts``, (name, n)."""
        rendered = services | "Render service" >> beam.Map(_render, self.settings)
        return {**_files(rendered, self.settings), "counts": rendered | "Count" >> beam.FlatMap(counts_of)}


class MakeRewriteHits(beam.PTransform):
    """Renders the pages of the user turns of dialogue files. Each file is read twice: first to choose among all turns.

    Args:
      settings: what shapes the pages.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings

    def expand(self, paths: beam.PCollection) -> dict[str, beam.PCollection]:
        """PCollection of DialoguePath to ``pages`` and ``summary``, (path, bytes), and ``counts``, (name, n)."""
        scans = paths | "Scan dialogues" >> beam.Map(scan_file, self.settings)
        choice = scans | "All scans" >> beam.combiners.ToList() | "Choose turns" >> beam.Map(_choose, self.settings)
        rendered = paths | "Render dialogues" >> beam.Map(_render_file, self.settings, beam.pvalue.AsSingleton(choice))
        counts = (
            rendered | "Count rewrites" >> beam.FlatMap(rewrite_counts_of),
            scans | "Count turns" >> beam.FlatMap(_scan_counts),
        )
        return {**_files(rendered, self.settings), "counts": counts | "All counts" >> beam.Flatten()}


def _files(rendered: beam.PCollection, settings: Settings) -> dict[str, beam.PCollection]:
    """The files of every page, and those that tell of all pages together.

    Not in one collection: pages are to be written where they were rendered, and none of them kept.
    """
    return {
        "pages": rendered | "Page files" >> beam.FlatMap(page_files),
        "summary": rendered
        | "Without pages" >> beam.Map(_without_pages)
        | "All" >> beam.combiners.ToList()
        | "Summary files" >> beam.FlatMap(summary_files, settings),
    }


def scan_file(path: DialoguePath, settings: Settings) -> Scan:
    """Reads a dialogue file for the choice. Raises InputError where it cannot be read."""
    return scan(path.position, path.name, _read(path), settings.turns, settings.seed)


def render_file(path: DialoguePath, settings: Settings, choice: Choice) -> Hits:
    """Reads a dialogue file, and renders its pages."""
    return render_dialogues(path.position, path.name, _read(path), choice, settings)


def _read(path: DialoguePath) -> list[Dialogue]:
    return parse_dialogues(read_bytes(path.path), path.path)


def page_files(hits: Hits) -> Iterator[tuple[str, bytes]]:
    """The two files of every page."""
    for page in hits.pages:
        yield page.record.page, page.html
        yield page.record.question, page.question


def counts_of(hits: Hits) -> Iterator[tuple[str, int]]:
    """What became of a service, for the balance at the end of the run."""
    yield "services", 1
    yield "pages", len(hits.pages)
    yield "fields", sum(len(page.record.fields) for page in hits.pages)
    yield "not_asked", len(hits.not_asked)


def rewrite_counts_of(hits: Hits) -> Iterator[tuple[str, int]]:
    """What became of the user turns of a dialogue file."""
    yield "pages", len(hits.pages)
    yield "not_asked", len(hits.not_asked)
    yield "not_drawn", hits.not_drawn


def _render(service: tuple[int, Service], settings: Settings) -> Hits:
    hits = render_service(*service, settings)
    _show(counts_of(hits))
    return hits


def _render_file(path: DialoguePath, settings: Settings, choice: Choice) -> Hits:
    hits = render_file(path, settings, choice)
    _show(rewrite_counts_of(hits))
    return hits


def _scan_counts(scanned: Scan) -> Iterator[tuple[str, int]]:
    yield "files", 1
    yield "user_turns", scanned.user_turns


def _choose(scans: Iterable[Scan], settings: Settings) -> Choice:
    return choose(scans, settings.turns)


def _show(counts: Iterable[tuple[str, int]]) -> None:
    for name, n in counts:
        Metrics.counter("parapet", name).inc(n)


def _without_pages(hits: Hits) -> Hits:
    # The pages' bytes are written where they were made; only their records travel.
    pages = [Page(page.record, b"", b"", page.body) for page in hits.pages]
    return Hits(hits.position, pages, hits.not_asked)
