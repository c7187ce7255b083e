"""One service's pages: the work unit of the pipeline, and a pure function."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from decimal import ROUND_UP

from schemas.elements import TASKS, Task, task_id
from schemas.service import Service
from transforms.hits.ambiguity import ambiguous_elements
from transforms.hits.page import body_html, item_html, page_html
from transforms.hits.question_xml import MAX_BYTES, question_xml
from transforms.hits.questions import Asked, NotAsked, ask
from transforms.hits.records import Page, PageRecord, ServiceHits, Settings
from transforms.hits.split import split
from transforms.hits.terms import HOUR, WORDING

NOTHING_TO_SHOW = "nothing_to_show: the text that the page would show is blank"
TOO_LARGE = f"too_large: the text alone passes the {MAX_BYTES:,} bytes of an HTMLQuestion"

# Room for what the requester site puts around a page of its own accord.
SITE_BYTES = 1_024


def render_service(position: int, service: Service, settings: Settings) -> ServiceHits:
    """Renders both tasks of a service; every element is on exactly one page of a task, or in ``not_asked``."""
    ambiguous = ambiguous_elements(service, settings.ambiguous, settings.listed)
    hits = ServiceHits(position, service.service_name, [], [])
    for task in TASKS:
        this = task_id(service.service_name, task)
        asked, blank = ask(service, task, ambiguous, settings.only)
        items = [item_html(task, each.question) for each in asked]
        capacity = _capacity(task, asked)
        fits = [len(item.encode()) <= capacity for item in items]
        large = [each.element_id for each, ok in zip(asked, fits, strict=True) if not ok]
        asked = [each for each, ok in zip(asked, fits, strict=True) if ok]
        items = [item for item, ok in zip(items, fits, strict=True) if ok]
        hits.not_asked.extend(NotAsked(this, element_id, NOTHING_TO_SHOW) for element_id in blank)
        hits.not_asked.extend(NotAsked(this, element_id, TOO_LARGE) for element_id in large)
        runs = split([len(item.encode()) for item in items], capacity)
        for part, run in enumerate(runs, 1):
            chosen = [asked[i] for i in run], [items[i] for i in run]
            hits.pages.append(_page(service.service_name, task, part, len(runs), *chosen, settings))
    return hits


def _capacity(task: Task, asked: Sequence[Asked]) -> int:
    """Bytes for the questions of a page: all of the HTMLQuestion but what is around them, at its largest."""
    one_of_each_kind = list({each.question.kind: each.question for each in asked}.values())
    # The sandbox's address is the longer one.
    around = page_html(task, body_html(task, one_of_each_kind, [""] * len(one_of_each_kind)), sandbox=True)
    return MAX_BYTES - SITE_BYTES - len(question_xml(around))


def _page(
    service_name: str,
    task: Task,
    part: int,
    parts: int,
    asked: Sequence[Asked],
    items: Sequence[str],
    settings: Settings,
) -> Page:
    terms, wording = settings.terms, WORDING[task]
    body = body_html(task, [each.question for each in asked], items)
    html = page_html(task, body, settings.sandbox)
    question = question_xml(html)
    if len(question) > MAX_BYTES:
        raise AssertionError(f"{service_name}: {task} part {part} has {len(question)} bytes")
    element_ids = [each.element_id for each in asked]
    stem = f"pages/{service_name}.{task}" + (f".{part}" if part > 1 else "")
    fields = len(asked)
    record = PageRecord(
        task_id=task_id(service_name, task),
        service_name=service_name,
        task=task,
        part=part,
        parts=parts,
        page=f"{stem}.html",
        question=f"{stem}.xml",
        fields=[each.question.field for each in asked],
        element_ids=element_ids,
        ambiguous=[each.element_id for each in asked if each.question.meaning],
        bytes=len(question),
        sha256=hashlib.sha256(question).hexdigest(),
        title=wording.title,
        description=wording.description,
        keywords=wording.keywords,
        reward=f"{terms.reward_for(task, fields):f}",
        assignments=terms.assignments,
        requester_annotation=task_id(service_name, task),
        assignment_duration_seconds=terms.duration(task, fields),
        auto_approval_delay_seconds=terms.auto_approval_hours * HOUR,
        lifetime_seconds=terms.lifetime_days * 24 * HOUR,
        estimated_seconds=int(terms.seconds(task, fields).to_integral_value(ROUND_UP)),
    )
    return Page(record, html.encode(), question, body)
