"""The files that tell of all pages together: manifest, plan, requester site, index."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence

import msgspec

from schemas.elements import TASKS, Task
from transforms.hits.page import requester_html
from transforms.hits.plan import Plan, make_plan
from transforms.hits.records import Page, PageRecord, ServiceHits, Settings
from transforms.pages import render

CSV_COLUMNS = ("task_id", "service_name", "task", "fields", "body")


def summary_files(services: Iterable[ServiceHits], settings: Settings) -> list[tuple[str, bytes]]:
    """Every file but the pages, as (path below the output folder, bytes). Any order of ``services`` will do."""
    ordered = sorted(services, key=lambda service: service.position)
    pages = [page for service in ordered for page in service.pages]
    plan = plan_of(ordered, settings)
    files = [
        ("manifest.jsonl", b"".join(msgspec.json.encode(page.record) + b"\n" for page in pages)),
        ("plan.json", (json.dumps(plan.to_json(), indent=2) + "\n").encode()),
        ("index.html", index_html([page.record for page in pages], plan, settings).encode()),
    ]
    for task in TASKS:
        files.append((f"requester/{task}.html", requester_html(task).encode()))
        files.append((f"requester/{task}.csv", requester_csv(pages, task)))
    return files


def plan_of(services: Iterable[ServiceHits], settings: Settings) -> Plan:
    """The plan of rendered services."""
    services = list(services)
    records = [page.record for service in services for page in service.pages]
    return make_plan(records, [each for service in services for each in service.not_asked], settings.terms)


def requester_csv(pages: Sequence[Page], task: Task) -> bytes:
    """The requester site's input: a row per page of ``task``, no cell with a line break."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for page in pages:
        record = page.record
        if record.task == task:
            writer.writerow([record.task_id, record.service_name, task, " ".join(record.fields), page.body])
    return text.getvalue().encode()


def index_html(records: Sequence[PageRecord], plan: Plan, settings: Settings) -> str:
    """The page from which a requester looks at everything."""
    return render(
        "hit_index.html.jinja",
        records=records,
        cells=plan.cells(),
        terms=settings.terms,
        fee_percent=f"{(plan.terms.fee_rate() * 100).normalize():f}",
        sandbox=settings.sandbox,
        not_asked=plan.not_asked,
        ambiguous=sorted(element_id for record in records for element_id in record.ambiguous),
    )
