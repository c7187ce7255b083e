"""One service's pages: the unit of work, and a pure function. A task too large for one page is cut into parts."""

from __future__ import annotations

from collections.abc import Sequence

from parapet.schemas.elements import TASKS, Task, task_id
from parapet.schemas.service import Service
from parapet.transforms.hits.cues import cue_of
from parapet.transforms.hits.page import TOO_LARGE, body_html, capacity, item_html, make_page
from parapet.transforms.hits.questions import ElementQuestion, NotAsked, ambiguous_elements, questions_of
from parapet.transforms.hits.records import Hits, Page, Settings

NOTHING_TO_SHOW = "nothing_to_show: the text that the page would show is blank"


def render_service(position: int, service: Service, settings: Settings) -> Hits:
    """Renders both tasks of a service; every element is on exactly one page of a task, or in ``not_asked``."""
    ambiguous = ambiguous_elements(service, settings.ambiguous, settings.listed)
    hits = Hits(position, [], [])
    for task in TASKS:
        this = task_id(service.service_name, task)
        questions, blank = questions_of(service, task, ambiguous, settings.only)
        items = [item_html(task, each.question) for each in questions]
        cue = cue_of(service, task, settings.cues, settings.written)
        room = _room(task, questions, cue)
        fits = [len(item.encode()) <= room for item in items]
        large = [each.element_id for each, ok in zip(questions, fits, strict=True) if not ok]
        questions = [each for each, ok in zip(questions, fits, strict=True) if ok]
        items = [item for item, ok in zip(items, fits, strict=True) if ok]
        hits.not_asked.extend(NotAsked(this, element_id, NOTHING_TO_SHOW) for element_id in blank)
        hits.not_asked.extend(NotAsked(this, element_id, TOO_LARGE) for element_id in large)
        runs = split([len(item.encode()) for item in items], room)
        for part, run in enumerate(runs, 1):
            chosen = [questions[i] for i in run], [items[i] for i in run]
            hits.pages.append(_page(service.service_name, task, part, len(runs), *chosen, cue, settings))
    return hits


def _room(task: Task, questions: Sequence[ElementQuestion], cue: str) -> int:
    """Bytes for the questions of a page: all of its body but what is around them, at its largest."""
    one_of_each_kind = list({each.question.kind: each.question for each in questions}.values())
    return capacity(task) - len(body_html(task, one_of_each_kind, [""] * len(one_of_each_kind), cue).encode())


def _page(
    service_name: str,
    task: Task,
    part: int,
    parts: int,
    questions: Sequence[ElementQuestion],
    items: Sequence[str],
    cue: str,
    settings: Settings,
) -> Page:
    return make_page(
        task,
        f"pages/{service_name}.{task}" + (f".{part}" if part > 1 else ""),
        body_html(task, [each.question for each in questions], items, cue),
        settings,
        task_id=task_id(service_name, task),
        service_name=service_name,
        part=part,
        parts=parts,
        fields=[each.question.field for each in questions],
        element_ids=[each.element_id for each in questions],
        ambiguous=[each.element_id for each in questions if each.question.meaning],
        cue=cue,
    )


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
