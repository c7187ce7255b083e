"""The pages of ``parapet hits`` as forms to serve: their records, and their HTML with the server's additions."""

from __future__ import annotations

import base64
import hashlib
import re

from msgspec.structs import asdict

from parapet.schemas import layout, limits
from parapet.schemas.errors import InputError
from parapet.schemas.service import TASKS
from parapet.transforms.crowd.hits.page import PageRecord, read_manifest
from parapet.transforms.report.report import render

_FORM = re.compile(r'<form id="mturk_form" method="post" action="[^"]*" autocomplete="off">')
_INLINE = re.compile(r"<(style|script)(?: type=\"module\")?>(.*?)</\1>", re.DOTALL)


class Form(PageRecord, frozen=True):
    """A page for several people to fill in. All of its fields are required.

    Attributes:
      html: the page, in which a task is not a HIT.
    """

    html: str = ""

    @property
    def key(self) -> str:
        """Return what identifies the form."""
        return self.sha256[:32]

    @property
    def hides(self) -> str:
        """Return the service whose other task hides what this one shows; empty if nothing is hidden."""
        return self.service_name if self.task in TASKS else ""

    @property
    def elements(self) -> frozenset[str]:
        """Return the elements that it asks about; nobody is asked about an element twice."""
        return frozenset(self.element_ids or [f"{self.task_id} {self.part}"])


def read_forms(folder: str) -> list[Form]:
    """Read the forms in an output folder of ``parapet hits``. Raises InputError if a page is missing or differs."""
    forms = []
    for record in read_manifest(folder):
        path = layout.as_path(folder) / record.page
        html = limits.read_text(path, limits.MAX_DIALOGUE_FILE)
        if len(_FORM.findall(html)) != 1:
            raise InputError("is not a page of this version of 'parapet hits': make the pages again", path, "--hits")
        html = html.replace("or return the HIT", "or give the task back")
        forms.append(Form(**asdict(record), html=html.replace("Accept the HIT to", "Begin the task to")))
    if not forms:
        raise InputError("contains no pages: 'parapet hits' found nothing to ask", folder, "--hits")
    return forms


def page(form: Form, assignment_id: str, minutes: int) -> str:
    """Return the HTML of a form for one assignment, with the remaining time, and the server's style and script."""
    bar = render("collect_bar.html.jinja", assignment_id=assignment_id, minutes=minutes)
    return _FORM.sub(lambda _: f'{bar}<form id="mturk_form" method="post" action="/submit">', form.html)


def policy(html: str) -> str:
    """Return a Content-Security-Policy that allows the styles and scripts that stand in a page, and no others."""
    hashes = {"script": "", "style": ""}
    for kind, text in _INLINE.findall(html):
        hashes[kind] += f" 'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
    sources = f"script-src{hashes['script']}; style-src{hashes['style']}; connect-src 'self'"
    return f"default-src 'none'; {sources}; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
