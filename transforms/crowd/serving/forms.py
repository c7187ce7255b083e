"""The pages of ``parapet hits`` as forms to be served: what they ask for, and their HTML with the server's parts."""

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
    """A form that several people fill in.

    Attributes:
      key: differs between forms, and is the same for the same form.
      task: ``names``, ``descriptions`` or another kind of tasks.
      service: whose other task hides what this one shows; empty where nothing is hidden.
      elements: what is asked about; nobody is asked twice.
      fields: the form fields. All must be filled in.
      wanted: how many people are to fill it in.
      seconds: the time that a person has.
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
    """The forms of an output folder of ``parapet hits``. Raises InputError where a page is missing or another's."""
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
    """The HTML cut where the server's own parts go: above the form, and into it."""
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
    """A Content-Security-Policy that allows the server's files, and these inline styles and scripts by their hashes."""
    hashes: dict[str, list[str]] = {"style": [], "script": []}
    for kind, text in inline:
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        hashes[kind].append(f"'sha256-{digest}'")
    return "; ".join(
        [
            "default-src 'none'",
            " ".join(["script-src 'self'", *hashes["script"]]),
            " ".join(["style-src 'self'", *hashes["style"]]),
            "connect-src 'self'",
            "form-action 'self'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        ]
    )


def page(form: Form, assignment_id: str, csrf: str, minutes: int) -> str:
    """The form for one assignment.

    Args:
      form: what is asked.
      assignment_id: whose form it is.
      csrf: the token that proves that it is sent from this page.
      minutes: the time that is left.
    """
    before, tag, after = form.parts
    bar = render("collect_bar.html.jinja", assignment_id=assignment_id, csrf=csrf, minutes=minutes)
    hidden = Markup('<input type="hidden" name="csrf_token" value="{}">').format(csrf)
    return f"{before}{bar}{tag}\n{hidden}{after}"
