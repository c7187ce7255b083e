"""The Beam steps of ``hits``: turn services or dialogue files into pages, manifest, plan, requester files and index."""

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
from parapet.schemas.errors import InputError
from parapet.schemas.layout import STAGING
from parapet.schemas.limits import MAX_DIALOGUE_FILE
from parapet.schemas.service import TASKS, Service, elements_of
from parapet.transforms.crowd.hits.judged import render_judged
from parapet.transforms.crowd.hits.page import (
    Hits,
    Page,
    PageRecord,
    Plan,
    RatedItem,
    Settings,
    make_plan,
    requester_html,
)
from parapet.transforms.crowd.hits.rewrite_pages import DialoguePath, Scan, choose, render_dialogues, scan
from parapet.transforms.crowd.hits.schema_pages import render_service
from parapet.transforms.crowd.hits.terms import (
    RATINGS,
    REWRITES,
    SCHEMAS,
    SECONDS,
    HitTask,
    fee_rate,
    kind_of,
)
from parapet.transforms.reports.report import render
from parapet.transforms.running.counts import Balance, CountKey, Counts, Equals, Invariant
from parapet.transforms.running.progress import advance, expect
from parapet.transforms.running.runs import FileResult, FinishRun, Outputs, RunInfo, WriteEach
from parapet.transforms.storage.compressed import read_input
from parapet.transforms.storage.files import read_written, write_staged

CSV_COLUMNS = ("task_id", "service_name", "task", "fields", "body")
JUDGED_CSV_COLUMNS = ("task_id", "fields", "body")
REWRITES_CSV_COLUMNS = ("task_id", "dialogue_id", "turn", "values", "fields", "body")

_HITS = "hits"
_PROGRESS = ("services", "items", "pages", "fields", "not_asked", "not_drawn")


Unit = Service | DialoguePath | Sequence[RatedItem]
_UNITS = {SCHEMAS: "services", REWRITES: "files"}


class MakeHits(beam.PTransform):
    """Makes the pages of services, of the user turns of dialogue files, or of utterances to be judged.

    Dialogue files are read twice; the first time to draw from all turns.

    Args:
      units: services, dialogue files or groups of utterances, in order.
      settings: the settings of the pages.
      info: the run.
    """

    def __init__(self, units: Sequence[Unit], settings: Settings, info: RunInfo) -> None:
        super().__init__()
        self.units, self.settings, self.info = list(units), settings, info

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        """Return the manifest of the published run."""
        settings, output, task = self.settings, self.info.output, kind_of(self.settings.tasks)
        expect(len(self.units), _UNITS.get(task, "pages"))
        units = begin.pipeline | "Units" >> beam.Create(list(enumerate(self.units)))
        write = WriteEach(partial(_write, settings=settings, output=output), others=[_HITS], progress=_PROGRESS)
        if task == REWRITES:
            scans = units | "Scan dialogues" >> beam.MapTuple(lambda _, path: scan_file(path, settings))
            all_scans = scans | "All scans" >> beam.combiners.ToList()
            write.side = (beam.pvalue.AsSingleton(all_scans | "Choose turns" >> beam.Map(choose, settings.turns)),)
        outputs: Outputs = units | "Make HITs" >> write
        invariants: list[Invariant]
        if task == REWRITES:
            outputs = outputs.with_more("Scanned", counts=scans | "Count turns" >> beam.FlatMap(_scan_counts))
            every_turn = Balance("user_turns", ("pages", "not_asked", "not_drawn"))
            invariants = [_some_turns, Equals(("files",), len(self.units)), every_turn]
        elif task == SCHEMAS:
            elements = sum(
                len(elements_of(unit, task_here))
                for unit in self.units
                if isinstance(unit, Service)
                for task_here in TASKS
            )
            fields = elements if settings.only is None else len(settings.only)
            invariants = [Equals(("services",), len(self.units)), Equals(("fields", "not_asked"), fields)]
        else:
            invariants = [
                Equals(("items", "not_asked"), sum(len(unit) for unit in self.units if isinstance(unit, Sequence)))
            ]
        metadata = partial(_metadata_files, settings=settings, output=output)
        finish = FinishRun(self.info, metadata, beam.pvalue.AsList(outputs.others[_HITS]), invariants=invariants)
        published: beam.PCollection = outputs | "Finish" >> finish
        return published


def _some_turns(counts: Counts) -> Iterator[str]:
    """Raise InputError if there is no user turn."""
    if not counts.sum("user_turns"):
        raise InputError("contains no user turns, so nothing was written", "--dialogues")
    return iter(())


def scan_file(path: DialoguePath, settings: Settings) -> Scan:
    """Read a dialogue file for drawing turns. Raises InputError if it cannot be read."""
    return scan(path.position, path.name, _read(path), settings.turns, settings.seed)


def render_unit(position: int, unit: Unit, settings: Settings, last: str | None = None) -> Hits:
    """Render the pages of a service, a dialogue file or a group; ``last`` is the result of :func:`choose`."""
    if isinstance(unit, Service):
        return render_service(position, unit, settings)
    if isinstance(unit, DialoguePath):
        return render_dialogues(position, unit.name, _read(unit), last, settings)
    return render_judged(position, unit, settings)


def _read(path: DialoguePath) -> list[Dialogue]:
    return parse_dialogues(read_input(path.path, MAX_DIALOGUE_FILE), path.path)


def _write(element: tuple[int, Unit], last: str | None = None, *, settings: Settings, output: str) -> FileResult:
    hits = render_unit(*element, settings, last)
    result = _written(hits, settings, output)
    task = kind_of(settings.tasks)
    advance(1, _UNITS.get(task, "pages"))
    if task == SCHEMAS:
        result.counts.add("services")
        result.counts.add("fields", sum(len(page.record.fields) for page in hits.pages))
    elif task == REWRITES:
        result.counts.add("not_drawn", hits.not_drawn)
    else:
        result.counts.add("items", sum(len(page.record.items or ()) for page in hits.pages))
    return result


def _written(hits: Hits, settings: Settings, output: str) -> FileResult:
    result = FileResult(str(hits.position))
    for page in hits.pages:
        result.written.append(write_staged(output, page.record.page, page.html))
        result.written.append(write_staged(output, page.record.question, page.question))
    result.counts.add("pages", len(hits.pages))
    result.counts.add("not_asked", len(hits.not_asked))
    # Pages, and their rows for the requester, are written here, so that Beam moves only their records.
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
    """Return every file except the pages and the requester's tables, by path below the output folder.

    ``hits`` may be unsorted.
    """
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
    """Return the plan for the rendered pages."""
    hits = list(hits)
    records = [page.record for each in hits for page in each.pages]
    not_asked = [element for each in hits for element in each.not_asked]
    return make_plan(records, not_asked, settings.terms, settings.tasks)


def csv_head(task: HitTask) -> bytes:
    """Return the header row of the requester site's CSV."""
    columns = {REWRITES: REWRITES_CSV_COLUMNS, RATINGS: JUDGED_CSV_COLUMNS}
    return _csv([columns.get(task, CSV_COLUMNS)])


def csv_rows(pages: Sequence[Page], task: HitTask) -> bytes:
    """Return the CSV rows of the pages of ``task``, without line breaks in cells."""
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
    if record.items is not None:
        return [record.task_id, fields, page.body]
    return [record.task_id, record.service_name, record.task, fields, page.body]


def index_html(records: Sequence[PageRecord], plan: Plan, settings: Settings) -> str:
    """Render the requester's overview: the plan, links to all pages, and what is left out."""
    return render(
        "hit_index.html.jinja",
        records=records,
        kind=kind_of(settings.tasks),
        cells=plan.cells(),
        assignments=settings.terms.assignments,
        seconds=SECONDS,
        fee_percent=f"{(fee_rate(plan.terms.assignments) * 100).normalize():f}",
        sandbox=settings.sandbox,
        not_asked=plan.not_asked,
        by_reason=plan.not_asked_by_reason(),
        ambiguous=sorted(element_id for record in records for element_id in record.ambiguous),
    )
