"""The forms of pages as a browser sees them, and words to fill them in."""

import hashlib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from defusedxml.ElementTree import fromstring
from local_http import Answer, LocalService, Request

from parapet.transforms.crowd.hits.markup import NAMESPACE

_BUTTONS = frozenset({"submit", "button", "image", "reset", "file"})
_WORDS = ("amber", "basket", "candle", "early", "gentle", "harbour", "island", "kettle", "meadow", "pebble", "river")


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


def made_up(key: str, words: int) -> str:
    """Return up to 32 meaningless words that depend only on ``key``."""
    return " ".join(_WORDS[n % len(_WORDS)] for n in hashlib.sha256(key.encode()).digest()[:words])


def html_of(question: bytes) -> str:
    """The page inside an HTMLQuestion."""
    return fromstring(question).findtext(f"{{{NAMESPACE}}}HTMLContent") or ""


# A local server in place of MTurk's: shows HIT pages, and keeps what their forms send.


_UTF_8 = {"Content-Type": "text/html; charset=utf-8"}


class Recorder(LocalService):
    """Serves a folder's pages, with the form's address turned to itself, and keeps what is posted."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder, self.posted = folder, list[list[tuple[str, str]]]()

    def answer(self, request: Request) -> Answer:
        if request.method == "POST":
            self.posted.append(parse_qsl(request.body.decode(), keep_blank_values=True))
            return Answer("<title>thanks</title>")
        path = self.folder / unquote(request.path).lstrip("/")
        if not path.is_file():
            return Answer("", 404)
        return Answer(path.read_text(encoding="utf-8").replace("https://www.mturk.com", self.url), headers=_UTF_8)


def serve(folder: Path) -> Iterator[Recorder]:
    with Recorder(folder) as server:
        yield server
