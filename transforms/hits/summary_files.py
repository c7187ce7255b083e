"""The files that tell of all pages together: manifest, plan, requester site, index."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence

import msgspec

from parapet.transforms.hits.page import requester_html
from parapet.transforms.hits.plan import Plan, make_plan
from parapet.transforms.hits.records import Hits, Page, PageRecord, Settings
from parapet.transforms.hits.terms import REWRITES, HitTask
from parapet.transforms.pages import render

CSV_COLUMNS = ("task_id", "service_name", "task", "fields", "body")
REWRITES_CSV_COLUMNS = ("task_id", "dialogue_id", "turn", "values", "fields", "body")


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
