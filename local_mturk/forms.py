"""What a page asks for: its form, and the named fields in it."""

from __future__ import annotations

from html.parser import HTMLParser

import msgspec

_BUTTONS = frozenset({"submit", "button", "image", "reset", "file"})
_CHOICES = frozenset({"checkbox", "radio"})


class Form(msgspec.Struct):
    """The first form of a page.

    Attributes:
      action: where it goes. ``method`` in small letters.
      fields: name of each field to the value that it has from the start.
      choices: name of boxes to tick to their values; left alone, they send nothing.
    """

    action: str
    method: str
    fields: dict[str, str] = {}
    choices: dict[str, list[str]] = {}


def read_form(html: str) -> Form | None:
    """The form of a page; None where it has none. Fields count even while a script has yet to enable them."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader.form


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.form: Form | None = None
        self._open = False
        self._textarea = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form" and self.form is None:
            self.form = Form(given.get("action", ""), given.get("method", "get").lower())
            self._open = True
        name = given.get("name", "")
        if not (self._open and self.form and name):
            return
        kind = given.get("type", "text").lower()
        if tag == "input" and kind in _CHOICES:
            self.form.choices.setdefault(name, []).append(given.get("value", "on"))
        elif (tag == "input" and kind not in _BUTTONS) or tag == "select":
            self.form.fields.setdefault(name, given.get("value", ""))
        elif tag == "textarea":
            self.form.fields.setdefault(name, "")
            self._textarea = name

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._open = False
        elif tag == "textarea":
            self._textarea = ""

    def handle_data(self, data: str) -> None:
        if self._textarea and self.form:
            self.form.fields[self._textarea] += data
