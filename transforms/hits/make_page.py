"""One HIT from the body of its page: the files, and the record with what publishing needs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from decimal import ROUND_UP
from functools import cache
from typing import Any

from parapet.transforms.hits.page import page_html
from parapet.transforms.hits.question_xml import MAX_BYTES, question_xml
from parapet.transforms.hits.records import Page, PageRecord, Settings
from parapet.transforms.hits.terms import HOUR, WORDING, HitTask

TOO_LARGE = f"too_large: the text alone passes the {MAX_BYTES:,} bytes of an HTMLQuestion"

# Room for what the requester site puts around a page of its own accord.
SITE_BYTES = 1_024


@cache
def capacity(task: HitTask) -> int:
    """Bytes that the body of a page may have."""
    # The sandbox's address is the longer one.
    return MAX_BYTES - SITE_BYTES - len(question_xml(page_html(task, "", sandbox=True)))


def make_page(
    task: HitTask,
    stem: str,
    body: str,
    settings: Settings,
    *,
    task_id: str,
    fields: Sequence[str],
    turns: int = 0,
    **about: Any,
) -> Page:
    """The page and its record.

    Args:
      task: the task.
      stem: the page's files, below the output folder, without their endings.
      body: at most :func:`capacity` bytes.
      settings: the conditions, and where the form goes.
      task_id: the task id.
      fields: the form fields.
      turns: the turns of a dialogue that are to be read.
      about: what else the record says: the service, the elements or the turn.
    """
    terms, wording = settings.terms, WORDING[task]
    html = page_html(task, body, settings.sandbox)
    question = question_xml(html)
    if len(question) > MAX_BYTES:
        raise AssertionError(f"{stem} has {len(question)} bytes")
    size = (task, len(fields), turns)
    record = PageRecord(
        task_id=task_id,
        task=task,
        page=f"{stem}.html",
        question=f"{stem}.xml",
        fields=list(fields),
        bytes=len(question),
        sha256=hashlib.sha256(question).hexdigest(),
        title=wording.title,
        description=wording.description,
        keywords=wording.keywords,
        reward=f"{terms.reward_for(*size):f}",
        assignments=terms.assignments,
        requester_annotation=task_id,
        assignment_duration_seconds=terms.duration(*size),
        auto_approval_delay_seconds=terms.auto_approval_hours * HOUR,
        lifetime_seconds=terms.lifetime_days * 24 * HOUR,
        estimated_seconds=int(terms.seconds(*size).to_integral_value(ROUND_UP)),
        **about,
    )
    return Page(record, html.encode(), question, body)
