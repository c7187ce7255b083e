"""The Beam side of ``hits``: services or dialogue files in; pages, manifest, plan, requester files and index out."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain

import apache_beam as beam
import msgspec

from parapet.schemas.dialogue import Dialogue, parse_dialogues
from parapet.schemas.elements import TASKS, elements_of
from parapet.schemas.errors import InputError
from parapet.schemas.limits import MAX_DIALOGUE_FILE
from parapet.schemas.service import Service
from parapet.transforms.compressed import read_input
from parapet.transforms.counts import Balance, CountKey, Counts, Equals, Invariant
from parapet.transforms.files import STAGING, read_written, write_staged
from parapet.transforms.hits.judged import render_judged
from parapet.transforms.hits.page import requester_html
from parapet.transforms.hits.plan import Plan, make_plan
from parapet.transforms.hits.records import Hits, Page, PageRecord, RatedItem, Settings, VariedItem
from parapet.transforms.hits.render_dialogues import render_dialogues
from parapet.transforms.hits.render_service import render_service
from parapet.transforms.hits.rewriting import Choice, DialoguePath, Scan, choose, scan
from parapet.transforms.hits.terms import RATINGS, REWRITES, VALIDITY, HitTask, kind_of
from parapet.transforms.pages import render
from parapet.transforms.progress import advance, expect
from parapet.transforms.runs import FileResult, FinishRun, Outputs, RunInfo, WriteEach

CSV_COLUMNS = ("task_id", "service_name", "task", "fields", "body")
JUDGED_CSV_COLUMNS = ("task_id", "fields", "body")
REWRITES_CSV_COLUMNS = ("task_id", "dialogue_id", "turn", "values", "fields", "body")

_HITS = "hits"
_PROGRESS = ("services", "items", "pages", "fields", "not_asked", "not_drawn")


class MakeHits(beam.PTransform):
    """The pages of services, and all that is written of them together.

    Args:
      services: in order.
      settings: what shapes the pages.
      info: the run.
    """

    def __init__(self, services: Sequence[Service], settings: Settings, info: RunInfo) -> None:
        super().__init__()
        self.services, self.settings, self.info = list(services), settings, info

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        """The manifest of the published run."""
        expect(len(self.services), "services")
        write = partial(_write_service, settings=self.settings, output=self.info.output)
        outputs = (
            begin.pipeline
            | "Services" >> beam.Create(list(enumerate(self.services)))
            | "Make HITs" >> WriteEach(write, others=[_HITS], progress=_PROGRESS)
        )
        elements = sum(len(elements_of(service, task)) for service in self.services for task in TASKS)
        if self.settings.only is not None:
            elements = len(self.settings.only)
        invariants = [Equals(("services",), len(self.services)), Equals(("fields", "not_asked"), elements)]
        return _finish(outputs, self.settings, self.info, invariants)


class MakeRewriteHits(beam.PTransform):
    """The pages of the user turns of dialogue files, and all that is written of them together.

    Each file is read twice: first to choose among all turns.

    Args:
      paths: the dialogue files.
      settings: what shapes the pages.
      info: the run.
    """

    def __init__(self, paths: Sequence[DialoguePath], settings: Settings, info: RunInfo) -> None:
        super().__init__()
        self.paths, self.settings, self.info = list(paths), settings, info

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        """The manifest of the published run."""
        paths = begin.pipeline | "Dialogue files" >> beam.Create(self.paths)
        scans = paths | "Scan dialogues" >> beam.Map(scan_file, self.settings)
        choice = (
            scans | "All scans" >> beam.combiners.ToList() | "Choose turns" >> beam.Map(choose, self.settings.turns)
        )
        expect(len(self.paths), "files")
        write = partial(_write_file, settings=self.settings, output=self.info.output)
        outputs: Outputs = paths | "Make HITs" >> WriteEach(
            write, beam.pvalue.AsSingleton(choice), others=[_HITS], progress=_PROGRESS
        )
        outputs = outputs.with_more("Scanned", counts=scans | "Count turns" >> beam.FlatMap(_scan_counts))
        every_turn = Balance("user_turns", ("pages", "not_asked", "not_drawn"))
        return _finish(
            outputs, self.settings, self.info, [_some_turns, Equals(("files",), len(self.paths)), every_turn]
        )


def _some_turns(counts: Counts) -> Iterator[str]:
    """Raises InputError where there is nothing to ask about."""
    if not counts.sum("user_turns"):
        raise InputError("has no user turns, so nothing was written", "--dialogues")
    return iter(())


class MakeJudgedHits(beam.PTransform):
    """The pages of utterances that are judged, and all that is written of them together.

    Args:
      groups: the utterances that are judged together, in order.
      settings: what shapes the pages.
      info: the run.
    """

    def __init__(self, groups: Sequence[Sequence[RatedItem | VariedItem]], settings: Settings, info: RunInfo) -> None:
        super().__init__()
        self.groups, self.settings, self.info = list(groups), settings, info

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        """The manifest of the published run."""
        expect(len(self.groups), "pages")
        write = partial(_write_judged, settings=self.settings, output=self.info.output)
        outputs = (
            begin.pipeline
            | "Utterances" >> beam.Create(list(enumerate(self.groups)))
            | "Make HITs" >> WriteEach(write, others=[_HITS], progress=_PROGRESS)
        )
        every_item = Equals(("items", "not_asked"), sum(map(len, self.groups)))
        return _finish(outputs, self.settings, self.info, [every_item])


def _finish(outputs: Outputs, settings: Settings, info: RunInfo, invariants: Sequence[Invariant]) -> beam.PCollection:
    hits = beam.pvalue.AsList(outputs.others[_HITS])
    metadata = partial(_metadata_files, settings=settings, output=info.output)
    finish = FinishRun(info, metadata, hits, invariants=invariants)
    published: beam.PCollection = outputs | "Finish" >> finish
    return published


def scan_file(path: DialoguePath, settings: Settings) -> Scan:
    """Reads a dialogue file for the choice. Raises InputError where it cannot be read."""
    return scan(path.position, path.name, _read(path), settings.turns, settings.seed)


def render_file(path: DialoguePath, settings: Settings, choice: Choice) -> Hits:
    """Reads a dialogue file, and renders its pages."""
    return render_dialogues(path.position, path.name, _read(path), choice, settings)


def _read(path: DialoguePath) -> list[Dialogue]:
    return parse_dialogues(read_input(path.path, MAX_DIALOGUE_FILE), path.path)


def _write_service(service: tuple[int, Service], settings: Settings, output: str) -> FileResult:
    hits = render_service(*service, settings)
    result = _written(hits, settings, output)
    result.counts.add("services")
    advance(1, "services")
    result.counts.add("fields", sum(len(page.record.fields) for page in hits.pages))
    return result


def _write_file(path: DialoguePath, choice: Choice, settings: Settings, output: str) -> FileResult:
    hits = render_file(path, settings, choice)
    result = _written(hits, settings, output)
    result.counts.add("not_drawn", hits.not_drawn)
    advance(1, "files")
    return result


def _write_judged(group: tuple[int, Sequence[RatedItem | VariedItem]], settings: Settings, output: str) -> FileResult:
    hits = render_judged(*group, settings)
    result = _written(hits, settings, output)
    advance(1, "pages")
    result.counts.add("items", sum(len(page.record.judged or ()) for page in hits.pages))
    return result


def _written(hits: Hits, settings: Settings, output: str) -> FileResult:
    result = FileResult(str(hits.position))
    for page in hits.pages:
        result.written.append(write_staged(output, page.record.page, page.html))
        result.written.append(write_staged(output, page.record.question, page.question))
    result.counts.add("pages", len(hits.pages))
    result.counts.add("not_asked", len(hits.not_asked))
    # The pages' bytes are written here, and their rows for the requester put aside; only their records travel.
    for task in settings.tasks:
        write_staged(output, _rows_path(task, hits.position), csv_rows(hits.pages, task))
    pages = [Page(page.record, b"", b"", "") for page in hits.pages]
    result.others[_HITS] = [Hits(hits.position, pages, hits.not_asked)]
    return result


def _rows_path(task: HitTask, position: int) -> str:
    return f"rows/{task}/{position}.csv"


def _scan_counts(scanned: Scan) -> Iterator[tuple[CountKey, int]]:
    counts = Counts()
    counts.add("files")
    counts.add("user_turns", scanned.user_turns)
    yield from counts.items()


def _metadata_files(
    counts: Counts, examples: object, hits: Iterable[Hits], settings: Settings, output: str
) -> dict[str, bytes | Iterable[bytes]]:
    hits = list(hits)

    def rows(task: HitTask) -> Iterator[bytes]:
        for position in sorted(each.position for each in hits):
            yield read_written(output, f"{STAGING}/{_rows_path(task, position)}")

    tables = {f"requester/{task}.csv": chain([csv_head(task)], rows(task)) for task in settings.tasks}
    return {**summary_files(hits, settings), **tables}


def summary_files(hits: Iterable[Hits], settings: Settings) -> dict[str, bytes]:
    """Every file but the pages and the requester's tables, by path below the output folder, whatever the order."""
    ordered = sorted(hits, key=lambda each: each.position)
    pages = [page for each in ordered for page in each.pages]
    plan = plan_of(ordered, settings)
    return {
        "manifest.jsonl": b"".join(msgspec.json.encode(page.record) + b"\n" for page in pages),
        "plan.json": (json.dumps(plan.to_json(), indent=2) + "\n").encode(),
        "index.html": index_html([page.record for page in pages], plan, settings).encode(),
        **{f"requester/{task}.html": requester_html(task).encode() for task in settings.tasks},
    }


def plan_of(hits: Iterable[Hits], settings: Settings) -> Plan:
    """The plan of what was rendered."""
    hits = list(hits)
    records = [page.record for each in hits for page in each.pages]
    not_asked = [element for each in hits for element in each.not_asked]
    return make_plan(records, not_asked, settings.terms, settings.tasks)


def csv_head(task: HitTask) -> bytes:
    """The first row of the requester site's input."""
    columns = {REWRITES: REWRITES_CSV_COLUMNS, RATINGS: JUDGED_CSV_COLUMNS, VALIDITY: JUDGED_CSV_COLUMNS}
    return _csv([columns.get(task, CSV_COLUMNS)])


def csv_rows(pages: Sequence[Page], task: HitTask) -> bytes:
    """The other rows, one for each page of ``task``, no cell with a line break."""
    return _csv(_row(page) for page in pages if page.record.task == task)


def _csv(rows: Iterable[Sequence[str | int | None]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _row(page: Page) -> list[str | int | None]:
    record = page.record
    fields = " ".join(record.fields)
    if record.task == REWRITES:
        values = msgspec.json.encode(record.values).decode()
        return [record.task_id, record.dialogue_id, record.turn, values, fields, page.body]
    if record.judged is not None:
        return [record.task_id, fields, page.body]
    return [record.task_id, record.service_name, record.task, fields, page.body]


def index_html(records: Sequence[PageRecord], plan: Plan, settings: Settings) -> str:
    """The requester's page: plan, links to all pages, what is not asked."""
    return render(
        "hit_index.html.jinja",
        records=records,
        kind=kind_of(settings.tasks),
        cells=plan.cells(),
        terms=settings.terms,
        fee_percent=f"{(plan.terms.fee_rate() * 100).normalize():f}",
        sandbox=settings.sandbox,
        not_asked=plan.not_asked,
        by_reason=plan.not_asked_by_reason(),
        ambiguous=sorted(element_id for record in records for element_id in record.ambiguous),
    )
