"""Simulated annotators who visit a running ``parapet collect serve`` over HTTP, as people with browsers do.

They are for trying out a collection. They replay recorded answers or submit meaningless words and random choices, so
they only connect to servers on this machine.
"""

from __future__ import annotations

import csv
import hashlib
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from html.parser import HTMLParser
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

from parapet.schemas.errors import InputError
from parapet.transforms.crowd.ingest import PRACTICE
from parapet.transforms.crowd.serving.forms import Form
from parapet.transforms.crowd.serving.store import Outcome, Store, Telemetry
from parapet.transforms.running.fence import THIS_MACHINE

_BUTTONS = frozenset({"submit", "button", "image", "reset", "file"})
_WORDS = ("amber", "basket", "candle", "early", "gentle", "harbour", "island", "kettle", "meadow", "pebble", "river")
_SECONDS = 60  # timeout of a request
_MINUTES = 10  # simulated time to fill in a form


class PracticeStore(Store):
    """A store for simulated annotators, whose clock advances by ten minutes for each form.

    Its answers are marked by their source and, so that the mark survives any conversion, by the assignments' ids.
    """

    mark = PRACTICE

    def __init__(self, path: Path) -> None:
        self._ahead = 0.0
        super().__init__(path, "practice", lambda: time.time() + self._ahead)

    def submit(
        self, person: int, assignment_id: str, form: Form, answers: Mapping[str, str], telemetry: Telemetry
    ) -> Outcome:
        """Advance the clock by ten minutes and save the answers."""
        self._ahead += _MINUTES * 60
        return super().submit(person, assignment_id, form, answers, telemetry)


class PageForm(HTMLParser):
    """Parses the first form of a page, or the first that is sent to ``action``, including fields that scripts disable.

    Attributes:
      action: the form's action. ``method`` is in lower case.
      fields: name of each field to its initial value.
      choices: name of checkboxes and radio buttons to their values; they send nothing unless selected.
    """

    def __init__(self, html: str, action: str = "") -> None:
        super().__init__(convert_charrefs=True)
        self.action = self.method = ""
        self.fields: dict[str, str] = {}
        self.choices: dict[str, list[str]] = {}
        self._wanted, self._found, self._open, self._textarea = action, False, False, ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record the form and its fields."""
        attributes = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._open = not self._found and attributes.get("action", "").startswith(self._wanted)
            self._found |= self._open
            if self._open:
                self.action, self.method = attributes.get("action", ""), attributes.get("method", "get").lower()
        name, kind = attributes.get("name", ""), attributes.get("type", "text").lower()
        if not (self._open and name):
            return
        if tag == "input" and kind in ("checkbox", "radio"):
            self.choices.setdefault(name, []).append(attributes.get("value", "on"))
        elif (tag == "input" and kind not in _BUTTONS) or tag in ("select", "textarea"):
            self.fields.setdefault(name, attributes.get("value", ""))
            self._textarea = name if tag == "textarea" else ""

    def handle_endtag(self, tag: str) -> None:
        """Handle the end of the form or of a text area."""
        self._open = self._open and tag != "form"
        self._textarea = "" if tag == "textarea" else self._textarea

    def handle_data(self, data: str) -> None:
        """Add text in a text area to its field's value."""
        if self._textarea:
            self.fields[self._textarea] += data


def read_invitations(path: str) -> list[str]:
    """Read the links from the invitations written by ``collect serve``.

    Raises:
      InputError: the file cannot be read, has no links, or has a link to another machine.
    """
    try:
        with Path(path).open(encoding="utf-8", newline="") as handle:
            links = [row.get("link") or "" for row in csv.DictReader(handle)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot be read: {error}", path, "--invitations") from None
    if not any(links):
        raise InputError(
            "has no column 'link': give the invitations that 'parapet collect serve' wrote", path, "--invitations"
        )
    for row, link in enumerate(links, 2):
        if urlsplit(link).hostname not in THIS_MACHINE or urlsplit(link).scheme != "http":
            reason = (
                "leads to another machine: simulated annotators only answer a server on this machine, such as "
                "http://127.0.0.1"
            )
            raise InputError(reason, path, f"row {row}")
    return links


def visit(
    link: str, forms: Sequence[Form], recorded: Mapping[str, Iterator[Mapping[str, str]]], seed: str
) -> Iterator[str]:
    """Do all tasks that the server assigns to one person.

    Args:
      link: the invitation link.
      forms: the served forms, which identify a page by its text.
      recorded: task id to recorded answers, one person after another; without any, words are made up.
      seed: the seed of words and choices.

    Yields:
      The task id of each saved form.

    Raises:
      InputError: the server does not answer, or refuses.
    """
    browser = _Browser(link)
    while True:
        home = PageForm(browser.get("/"))
        if home.action != "/begin":
            return
        address, html = browser.post("/begin", home.fields)
        form = next((form for form in forms if form.parts[2] in html), None)
        if "assignmentId" not in address:
            return
        if form is None:
            raise InputError("the server does not serve these forms", "--hits")
        assignment_id = parse_qs(urlsplit(address).query)["assignmentId"][0]
        if not assignment_id.startswith(PRACTICE):
            browser.post("/return", PageForm(html, "/return").fields | {"assignmentId": assignment_id})
            reason = (
                "runs without --practice, and would store these answers as those of people: start it with --practice"
            )
            raise InputError(f"{reason}, and with a --db of its own", browser.origin)
        page = PageForm(html, "/submit")
        recorded_answers = next(recorded[form.task_id], {}) if form.task_id in recorded else {}
        answers = {
            field: recorded_answers.get(field, "").strip() or _answer(page, field, f"{seed} {form.key} {field}")
            for field in form.fields
        }
        sent = {**page.fields, **answers, "assignmentId": assignment_id}
        browser.post("/submit", sent)
        yield form.task_id


def _answer(page: PageForm, field: str, key: str) -> str:
    if choices := page.choices.get(field):
        return choices[hashlib.sha256(key.encode()).digest()[0] % len(choices)]
    return made_up(key, 4)


def made_up(key: str, words: int) -> str:
    """Return up to 32 meaningless words that depend only on ``key``."""
    return " ".join(_WORDS[n % len(_WORDS)] for n in hashlib.sha256(key.encode()).digest()[:words])


class _Browser:
    """A person's browser session with cookies, begun by an invitation link."""

    def __init__(self, link: str) -> None:
        parts = urlsplit(link)
        self.origin = f"{parts.scheme}://{parts.netloc}"
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        self._open(link.removeprefix(self.origin))

    def get(self, path: str) -> str:
        """Load a page."""
        return self._open(path)[1]

    def post(self, path: str, fields: Mapping[str, str]) -> tuple[str, str]:
        """Send a form; return the address of the response, and its page."""
        return self._open(path, urlencode(fields).encode())

    def _open(self, path: str, body: bytes | None = None) -> tuple[str, str]:
        headers = {} if body is None else {"Origin": self.origin}
        request = urllib.request.Request(f"{self.origin}{path}", body, headers)  # noqa: S310 (http to this machine)
        try:
            with self._opener.open(request, timeout=_SECONDS) as answer:
                return answer.url, answer.read().decode("utf-8", "replace")
        except urllib.error.HTTPError as error:
            raise InputError(f"the server answered {error.code} {error.reason}", self.origin) from None
        except OSError as error:
            reason = f"no server is running: start 'parapet collect serve' first ({getattr(error, 'reason', error)})"
            raise InputError(reason, self.origin) from None
