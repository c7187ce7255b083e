"""What the stages of ``hits`` hand to each other: settings in, pages and their records out."""

from __future__ import annotations

import msgspec

from schemas.elements import Task
from transforms.hits.ambiguity import AUTO
from transforms.hits.questions import NotAsked
from transforms.hits.terms import Terms


class Settings(msgspec.Struct, frozen=True):
    """What shapes the pages.

    Attributes:
      ambiguous: ``auto``, ``none`` or the file that ``listed`` was read from.
      listed: element ids from that file.
      sandbox: whether the forms go to MTurk's sandbox.
      only: what may be asked for, as (task id, form field); None for everything.
    """

    terms: Terms = Terms()
    ambiguous: str = AUTO
    listed: frozenset[str] = frozenset()
    sandbox: bool = False
    only: frozenset[tuple[str, str]] | None = None


class PageRecord(msgspec.Struct, frozen=True):
    """A line of ``manifest.jsonl``: one HIT, with everything that publishing it needs but the question's text.

    Attributes:
      page: the HTML, below the output folder. ``question`` is the HTMLQuestion of it.
      fields: the form fields that the page asks for, in its order; ``element_ids`` the elements they are about.
      ambiguous: the ids of the elements that are shown with their description.
      bytes: of the question. ``sha256`` too.
      reward: dollars, as MTurk takes it.
      requester_annotation: the task id.
    """

    task_id: str
    service_name: str
    task: Task
    part: int
    parts: int
    page: str
    question: str
    fields: list[str]
    element_ids: list[str]
    ambiguous: list[str]
    bytes: int
    sha256: str
    title: str
    description: str
    keywords: str
    reward: str
    assignments: int
    requester_annotation: str
    assignment_duration_seconds: int
    auto_approval_delay_seconds: int
    lifetime_seconds: int
    estimated_seconds: int


class Page(msgspec.Struct, frozen=True):
    """A rendered page. ``body`` is the part between the requester template's ends."""

    record: PageRecord
    html: bytes
    question: bytes
    body: str


class ServiceHits(msgspec.Struct, frozen=True):
    """All pages of a service. ``position`` is the service's place in the schemas."""

    position: int
    service_name: str
    pages: list[Page]
    not_asked: list[NotAsked]
