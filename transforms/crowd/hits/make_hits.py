"""The Beam steps of ``hits``: turn services or dialogue files into pages, manifest, plan, requester files and index."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import apache_beam as beam
import msgspec

from parapet.schemas import layout, limits
from parapet.schemas.dialogue import Dialogue, DialogueFile, parse_dialogues
from parapet.schemas.service import TASKS, Service, elements_of
from parapet.transforms.core import counts, files, inputs, progress, runs
from parapet.transforms.crowd.hits import dialogue_pages, schema_pages, terms
from parapet.transforms.crowd.hits import page as hit_pages
from parapet.transforms.crowd.hits.page import Hits, NotAsked, Page, PageRecord, Plan, RatedItem, Settings
from parapet.transforms.report.report import render

# The columns of the requester site's CSV.
_OF_SCHEMAS = ("task_id", "service_name", "task", "fields", "body")
CSV_COLUMNS: dict[terms.HitTask, tuple[str, ...]] = {
    **dict.fromkeys(TASKS, _OF_SCHEMAS),
    terms.REWRITES: ("task_id", "dialogue_id", "turn", "values", "fields", "body"),
    terms.RATINGS: ("task_id", "fields", "body"),
}

_NOT_ASKED = "not_asked"
_PROGRESS = ("services", "items", "pages", "fields", _NOT_ASKED, "not_drawn")
_UNITS = {terms.SCHEMAS: "services", terms.REWRITES: "files", terms.RATINGS: "pages"}

Unit = Service | DialogueFile | tuple[RatedItem, ...]


class MakeHits(beam.PTransform):
    """Makes the pages of services, of the user turns of dialogue files, or of utterances to be dialogue_pages.

    An element is one of these units; it becomes the files of its pages, and a :class:`NotAsked` for each element that
    none of them asks about. The lines of the manifest and of the requester's tables are staged for each unit, and
    joined at the end. If turns are drawn, dialogue files are read twice.

    Args:
      units: services, dialogue files or groups of utterances, in order.
      settings: the settings of the pages.
      info: the run.
    """

    def __init__(self, units: Sequence[Unit], settings: Settings, info: runs.RunInfo) -> None:
        super().__init__()
        self.units, self.settings, self.info = list(units), settings, info

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        """Returns the manifest of the published run."""
        settings, output = self.settings, self.info.output
        progress.expect(len(self.units), _UNITS[settings.kind])
        units = begin.pipeline | "Units" >> beam.Create(list(enumerate(self.units)))
        last = []
        if settings.turns is not None:
            drawn = (
                units
                | "Draw keys" >> beam.FlatMapTuple(lambda _, file: dialogue_pages.draw_keys(_read(file), settings.seed))
                | "Draw turns" >> beam.combiners.Top.Smallest(settings.turns)
            )
            last = [beam.pvalue.AsSingleton(drawn | "Last key" >> beam.Map(lambda keys: max(keys, default="")))]
        write = partial(_write, settings=settings, output=output)
        outputs = units | "Make HITs" >> runs.WriteEach(write, *last, others=[_NOT_ASKED], progress=_PROGRESS)
        metadata = partial(_metadata_files, units=len(self.units), settings=settings, output=output)
        not_asked = beam.pvalue.AsList(outputs.others[_NOT_ASKED])
        finish = runs.FinishRun(self.info, metadata, not_asked, invariants=_invariants(self.units, settings))
        published: beam.PCollection = outputs | "Finish" >> finish
        return published


def _invariants(units: Sequence[Unit], settings: Settings) -> list[counts.Invariant]:
    if settings.kind == terms.REWRITES:
        return [
            counts.Equals(("files",), len(units)),
            counts.Balance("user_turns", ("pages", "not_asked", "not_drawn")),
        ]
    if settings.kind == terms.RATINGS:
        return [counts.Equals(("items", "not_asked"), sum(len(unit) for unit in units if isinstance(unit, tuple)))]
    elements = sum(len(elements_of(unit, task)) for unit in units if isinstance(unit, Service) for task in TASKS)
    fields = elements if settings.only is None else len(settings.only)
    return [counts.Equals(("services",), len(units)), counts.Equals(("fields", "not_asked"), fields)]


def render_unit(unit: Unit, position: int, settings: Settings, last: str | None = None) -> Hits:
    """Renders the pages of the unit at a position; ``last`` is the last of :func:`dialogue_pages.draw_keys`."""
    if isinstance(unit, Service):
        return schema_pages.render_service(unit, settings)
    if isinstance(unit, DialogueFile):
        return dialogue_pages.render_dialogues(unit.relative, _read(unit), last, settings)
    return dialogue_pages.render_judged(unit, position, settings)


def plan_units(units: Sequence[Unit], settings: Settings) -> Plan:
    """Plans the pages of units without writing them."""
    last = None
    if settings.turns is not None:
        dialogues = (_read(unit) for unit in units if isinstance(unit, DialogueFile))
        keys = sorted(key for each in dialogues for key in dialogue_pages.draw_keys(each, settings.seed))
        last = max(keys[: settings.turns], default="")
    records, not_asked = list[PageRecord](), list[NotAsked]()  # without the pages, which are large
    for position, unit in enumerate(units):
        hits = render_unit(unit, position, settings, last)
        records += [page.record for page in hits.pages]
        not_asked += hits.not_asked
    return hit_pages.make_plan(records, not_asked, settings)


def _read(file: DialogueFile) -> list[Dialogue]:
    return parse_dialogues(inputs.read_input(file.path, limits.MAX_DIALOGUE_FILE), file.path)


def _write(element: tuple[int, Unit], last: str | None = None, *, settings: Settings, output: str) -> runs.FileResult:
    position, unit = element
    hits = render_unit(unit, position, settings, last)
    result = runs.FileResult(str(position))
    for page in hits.pages:
        result.written.append(files.write_staged(output, page.record.page, page.html))
        result.written.append(files.write_staged(output, page.record.question, page.question))
    lines = b"".join(msgspec.json.encode(page.record) + b"\n" for page in hits.pages)
    files.write_staged(output, _lines_path("manifest", position), lines)
    for task in settings.tasks:
        files.write_staged(output, _lines_path(task, position), _csv(_rows(hits.pages, task)))
    result.others[_NOT_ASKED] = hits.not_asked
    for name, n in {**hits.counts, "pages": len(hits.pages), _NOT_ASKED: len(hits.not_asked)}.items():
        result.counts.add(name, n)
    progress.advance(1, _UNITS[settings.kind])
    return result


def _lines_path(name: str, position: int) -> str:
    return f"lines/{name}/{position}"


def _metadata_files(
    totals: object, examples: object, not_asked: list[NotAsked], units: int, settings: Settings, output: str
) -> dict[str, bytes | Iterable[bytes]]:
    def lines(name: str, head: bytes = b"") -> Iterator[bytes]:
        yield head
        for position in range(units):
            yield files.read_written(output, f"{layout.STAGING}/{_lines_path(name, position)}")

    def records() -> Iterator[PageRecord]:
        return (msgspec.json.decode(line, type=PageRecord) for part in lines("manifest") for line in part.splitlines())

    plan = hit_pages.make_plan(records(), not_asked, settings)
    return {
        "index.html": render(
            "hit_index.html.jinja",
            plan=plan,
            settings=settings,
            records=records(),
            seconds=terms.SECONDS,
            fee_percent=f"{(plan.fee_rate * 100).normalize():f}",
            ambiguous=sorted(element_id for record in records() for element_id in record.ambiguous),
        ).encode(),
        "manifest.jsonl": lines("manifest"),
        "plan.json": (json.dumps(msgspec.to_builtins(plan), indent=2) + "\n").encode(),
        **{f"requester/{task}.csv": lines(task, _csv([CSV_COLUMNS[task]])) for task in settings.tasks},
        **{f"requester/{task}.html": hit_pages.requester_html(task).encode() for task in settings.tasks},
    }


def _rows(pages: Iterable[Page], task: terms.HitTask) -> Iterator[list[object]]:
    """Yields the rows of the pages of ``task`` for the requester site."""
    for record, body in ((page.record, page.body) for page in pages if page.record.task == task):
        texts = {"fields": " ".join(record.fields), "values": msgspec.json.encode(record.values).decode(), "body": body}
        cells = {**msgspec.structs.asdict(record), **texts}
        yield [cells[column] for column in CSV_COLUMNS[task]]


def _csv(rows: Iterable[Iterable[object]]) -> bytes:
    """Formats rows as CSV; their cells have no line breaks."""
    text = io.StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
