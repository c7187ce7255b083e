"""Renders pages, and the record of each with what publishing it needs. Nothing else of the schema comes in here."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from decimal import ROUND_UP
from functools import cache
from typing import Any

from parapet.transforms.hits.markup import MAX_BYTES, carriable, question_xml, without_variables
from parapet.transforms.hits.records import Page, PageRecord, Settings
from parapet.transforms.hits.terms import HOUR, WORDING, HitTask
from parapet.transforms.report import render

LIVE = "https://www.mturk.com/mturk/externalSubmit"
SANDBOX = "https://workersandbox.mturk.com/mturk/externalSubmit"

# Of the published SGD-X paraphrases the longest name has 8 words, the longest description 19.
# Of rewritings: how many more than the sentence itself.
MAX_WORDS: dict[HitTask, int] = {"names": 8, "descriptions": 25, "rewrites": 40}
MAX_LETTERS: dict[HitTask, int] = {"names": 60, "descriptions": 200, "rewrites": 300}

_BODY = "${body}"

TOO_LARGE = f"too_large: the text alone passes the {MAX_BYTES:,} bytes of an HTMLQuestion"

# Room for what the requester site puts around a page of its own accord.
SITE_BYTES = 1_024


def page_html(task: HitTask, body: str, sandbox: bool = False) -> str:
    """A whole page around a body, ready for :func:`parapet.transforms.hits.markup.question_xml`.

    Args:
      task: the task.
      body: HTML as :func:`one_line` has made it.
      sandbox: whether the form goes to MTurk's sandbox.
    """
    before, after = _frame(task, sandbox)
    return before + body + after


@cache
def _frame(task: HitTask, sandbox: bool) -> tuple[str, str]:
    """What every page has before and after its body: rendered once, for there are thousands of pages."""
    context = {"task": task, "title": WORDING[task].title, "action": SANDBOX if sandbox else LIVE, "body": _BODY}
    before, _, after = carriable(render("hit_page.html.jinja", **context, **_limits(task))).partition(_BODY)
    return before, after


def requester_html(task: HitTask) -> str:
    """The template for the requester site: no form of its own, ``${body}`` in place of the questions."""
    return carriable(render("hit_requester.html.jinja", task=task, body=_BODY, **_limits(task)))


def one_line(html: str) -> str:
    """HTML for a body: on one line, as the requester site's CSV has it, with nothing that MTurk would not carry."""
    return without_variables("".join(line.strip() for line in carriable(html).split("\n")))


def _limits(task: HitTask) -> dict[str, int]:
    return {"max_words": MAX_WORDS.get(task, 0), "max_letters": MAX_LETTERS.get(task, 0)}


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
      about: further fields of the record: the service, the elements, the turn or the items.
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


def split(sizes: Sequence[int], capacity: int) -> list[range]:
    """Cuts a sequence into as few runs as possible, none above ``capacity``, about equally large.

    Args:
      sizes: bytes of each item; none may be above ``capacity``.
      capacity: bytes that a run may have.

    Returns:
      The positions of each run, in order; no run for no items.

    Raises:
      ValueError: an item is larger than a run may be.
    """
    if any(size > capacity for size in sizes):
        raise ValueError("an item is larger than a part may be")
    runs = _fill(sizes, capacity)
    if len(runs) < 2:
        return runs
    # The smallest capacity that needs no more runs makes the largest run as small as it can be.
    low, high = max(max(sizes), -(-sum(sizes) // len(runs))), capacity
    while low < high:
        middle = (low + high) // 2
        if len(_fill(sizes, middle)) <= len(runs):
            high = middle
        else:
            low = middle + 1
    return _fill(sizes, low)


def _fill(sizes: Sequence[int], capacity: int) -> list[range]:
    runs: list[range] = []
    start = used = 0
    for i, size in enumerate(sizes):
        if used + size > capacity:
            runs.append(range(start, i))
            start, used = i, 0
        used += size
    if start < len(sizes):
        runs.append(range(start, len(sizes)))
    return runs
