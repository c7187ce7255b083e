"""The Beam side of ``hits``: services or dialogue files in; pages, manifest, plan, requester files and index out."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import apache_beam as beam
import msgspec
from apache_beam.metrics.metric import Metrics

from parapet.schemas.dialogue import Dialogue, parse_dialogues
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SPLITS, TEST, as_path, dialogue_files, is_there
from parapet.schemas.service import Service
from parapet.transforms.files import read_bytes
from parapet.transforms.hits.page import requester_html
from parapet.transforms.hits.plan import Plan, make_plan
from parapet.transforms.hits.records import Hits, Page, PageRecord, Settings
from parapet.transforms.hits.render_dialogues import render_dialogues
from parapet.transforms.hits.render_service import render_service
from parapet.transforms.hits.rewriting import Choice, Scan, choose, scan
from parapet.transforms.hits.terms import REWRITES, HitTask
from parapet.transforms.pages import render

CSV_COLUMNS = ("task_id", "service_name", "task", "fields", "body")
REWRITES_CSV_COLUMNS = ("task_id", "dialogue_id", "turn", "values", "fields", "body")


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


class DialoguePath(msgspec.Struct, frozen=True):
    """A dialogue file. ``name`` is its last folder and file name: it says the split, and not whose machine it was."""

    position: int
    path: str
    name: str


def dialogue_paths(places: Iterable[str | Path], split: str | None = None) -> list[DialoguePath]:
    """The dialogue files of corpora, splits' folders and files, each once, in that order.

    Args:
      places: ``ROOT`` with ``{train,dev,test}/dialogues_NNN.json``, a folder with ``dialogues_NNN.json``, or files.
      split: of corpora; where it is not said ``test``. A split's folder has its own.

    Raises:
      InputError: nothing there, or no dialogue file in it.
    """
    found = {path.resolve(): path for place in places for path in _files_of(as_path(place), split)}
    return [
        DialoguePath(position, str(path), f"{resolved.parent.name}/{resolved.name}")
        for position, (resolved, path) in enumerate(found.items())
    ]


def _files_of(place: Path, split: str | None) -> list[Path]:
    if not is_there(place):
        raise InputError("there is no such file or folder", place)
    if place.is_file():
        if split is not None:
            raise InputError("is a file: --split takes one split of a corpus's folder", place)
        return [place]
    found = dialogue_files(place, split or TEST) or (dialogue_files(place, "") if split is None else [])
    if not found:
        there = [each for each in SPLITS if dialogue_files(place, each)]
        if there:
            raise InputError(f"no dialogues of {split or TEST!r}; there are in: {', '.join(there)}", place, "--split")
        raise InputError(f"no dialogues here: expected {split or TEST}/dialogues_001.json and so on", place)
    return found


def summary_files(hits: Iterable[Hits], settings: Settings) -> list[tuple[str, bytes]]:
    """Every file but the pages, as (path below the output folder, bytes). Any order of ``hits`` will do."""
    ordered = sorted(hits, key=lambda each: each.position)
    pages = [page for each in ordered for page in each.pages]
    plan = plan_of(ordered, settings)
    files = [
        ("manifest.jsonl", b"".join(msgspec.json.encode(page.record) + b"\n" for page in pages)),
        ("plan.json", (json.dumps(plan.to_json(), indent=2) + "\n").encode()),
        ("index.html", index_html([page.record for page in pages], plan, settings).encode()),
    ]
    for task in settings.tasks:
        files.append((f"requester/{task}.html", requester_html(task).encode()))
        files.append((f"requester/{task}.csv", requester_csv(pages, task)))
    return files


def plan_of(hits: Iterable[Hits], settings: Settings) -> Plan:
    """The plan of what was rendered."""
    hits = list(hits)
    records = [page.record for each in hits for page in each.pages]
    not_asked = [one for each in hits for one in each.not_asked]
    return make_plan(records, not_asked, settings.terms, settings.tasks)


def requester_csv(pages: Sequence[Page], task: HitTask) -> bytes:
    """The requester site's input: a row per page of ``task``, no cell with a line break."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(REWRITES_CSV_COLUMNS if task == REWRITES else CSV_COLUMNS)
    writer.writerows(_row(page) for page in pages if page.record.task == task)
    return text.getvalue().encode()


def _row(page: Page) -> list[str | int | None]:
    record = page.record
    fields = " ".join(record.fields)
    if record.task == REWRITES:
        values = msgspec.json.encode(record.values).decode()
        return [record.task_id, record.dialogue_id, record.turn, values, fields, page.body]
    return [record.task_id, record.service_name, record.task, fields, page.body]


def index_html(records: Sequence[PageRecord], plan: Plan, settings: Settings) -> str:
    """The page from which a requester looks at everything."""
    return render(
        "hit_index.html.jinja",
        records=records,
        rewrites=REWRITES in settings.tasks,
        cells=plan.cells(),
        terms=settings.terms,
        fee_percent=f"{(plan.terms.fee_rate() * 100).normalize():f}",
        sandbox=settings.sandbox,
        not_asked=plan.not_asked,
        by_reason=plan.not_asked_by_reason(),
        ambiguous=sorted(element_id for record in records for element_id in record.ambiguous),
    )
