"""The pages of ``parapet hits`` as forms to serve: their metadata, and their HTML with the server's additions."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

import msgspec
from markupsafe import Markup

from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.schemas.limits import MAX_DIALOGUE_FILE, read_text
from parapet.schemas.service import TASKS
from parapet.transforms.crowd.hits.page import PageRecord, read_manifest
from parapet.transforms.reports.report import render

_HEAD = "</head>"
_BODY = "<body>"
_FORM = re.compile(r'<form id="mturk_form" method="post" action="[^"]*" autocomplete="off">')
_INLINE = re.compile(r"<(style|script)>(.*?)</\1>", re.DOTALL)
_FOR_MTURK = (("or return the HIT", "or give the task back"), ("Accept the HIT to", "Begin the task to"))


class Form(msgspec.Struct, frozen=True):
    """A form for several people to fill in.

    Attributes:
      key: identifies the form.
      task: ``names``, ``descriptions`` or another kind of tasks.
      service: the service whose other task hides what this one shows; empty if nothing is hidden.
      elements: the elements that it asks about; nobody is asked about an element twice.
      fields: the form fields, all of which are required.
      wanted: the number of people who should fill it in.
      seconds: the time limit.
      parts: its HTML, to be joined by :func:`page`.
      policy: its Content-Security-Policy.
    """

    key: str
    task_id: str
    task: str
    service: str
    elements: frozenset[str]
    fields: tuple[str, ...]
    wanted: int
    seconds: int
    title: str
    parts: tuple[str, str, str] = ("", "", "")
    policy: str = ""


def read_forms(folder: str) -> tuple[Form, ...]:
    """Read the forms in an output folder of ``parapet hits``. Raises InputError if a page is missing or differs."""
    forms = tuple(_form(folder, record) for _, record in read_manifest(folder))
    if not forms:
        raise InputError("contains no pages: 'parapet hits' found nothing to ask", folder, "--hits")
    return forms


def _form(folder: str, record: PageRecord) -> Form:
    path = as_path(folder) / record.page
    html = read_text(path, MAX_DIALOGUE_FILE)
    is_blind = record.task in TASKS
    return Form(
        key=record.sha256[:32],
        task_id=record.requester_annotation,
        task=record.task,
        service=record.service_name if is_blind else "",
        elements=frozenset(record.element_ids or [f"{record.task_id} {record.part}"]),
        fields=tuple(record.fields),
        wanted=record.assignments,
        seconds=record.assignment_duration_seconds,
        title=record.title,
        parts=_parts(html, path),
        policy=policy(_INLINE.findall(html)),
    )


def _parts(html: str, path: Path) -> tuple[str, str, str]:
    """Split the HTML where the server inserts its own parts: above the form, and into it."""
    forms = list(_FORM.finditer(html))
    if len(forms) != 1 or html.count(_HEAD) != 1 or html.count(_BODY) != 1:
        raise InputError("is not a page of this version of 'parapet hits': make the pages again", path, "--hits")
    for old, new in _FOR_MTURK:
        html = html.replace(old, new)
    (form,) = _FORM.finditer(html)
    before, after = html[: form.start()], html[form.end() :]
    own = '<link rel="stylesheet" href="/static/collect.css">\n<script src="/static/collect.js" defer></script>\n'
    return before.replace(_HEAD, own + _HEAD), '<form id="mturk_form" method="post" action="/submit">', after


def policy(inline: Iterable[tuple[str, str]] = ()) -> str:
    """Return a Content-Security-Policy that allows the server's files, and the inline styles and scripts by hash."""
    sources = {"script": "script-src 'self'", "style": "style-src 'self'"}
    for kind, text in inline:
        sources[kind] += f" 'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
    fixed = "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    return f"default-src 'none'; {sources['script']}; {sources['style']}; {fixed}"


def page(form: Form, assignment_id: str, csrf: str, minutes: int) -> str:
    """Return the HTML of a form for one assignment.

    Args:
      form: the form.
      assignment_id: the id of the assignment.
      csrf: the token that proves that the form is sent from this page.
      minutes: the remaining time.
    """
    before, tag, after = form.parts
    bar = render("collect_bar.html.jinja", assignment_id=assignment_id, csrf=csrf, minutes=minutes)
    hidden = Markup('<input type="hidden" name="csrf_token" value="{}">').format(csrf)
    return f"{before}{bar}{tag}\n{hidden}{after}"
