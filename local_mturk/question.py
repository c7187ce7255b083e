"""The HTMLQuestion of a HIT: what MTurk would refuse, its page as a worker gets it here, and its form."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree.ElementTree import Element

import msgspec
from defusedxml import ElementTree
from defusedxml.common import DefusedXmlException

from parapet.local_mturk.errors import invalid_value

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


MAX_BYTES = 65_535
SUBMIT_PATH = "/mturk/externalSubmit"

_NAMESPACE = "http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2011-11-11/HTMLQuestion.xsd"
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")
_FOUR_BYTES = re.compile("[\U00010000-\U0010ffff]")
_SUBMIT = re.compile(r"https://(?:www|workersandbox)\.mturk\.com/mturk/externalSubmit")
_ACTION = re.compile(rf"(<form\b[^>]*?\baction\s*=\s*[\"']?){_SUBMIT.pattern}", re.IGNORECASE)


def check_question(question: str) -> None:
    """Raises MTurkError for a question that could not become a HIT."""
    if why := _fault(question):
        raise invalid_value("Question", question, why)


def _fault(question: str) -> str:
    size = len(question.encode())
    if size > MAX_BYTES:
        return f"It has {size:,} bytes; at most {MAX_BYTES:,} are allowed."
    if match := _FOUR_BYTES.search(question):
        return f"It has a character of four UTF-8 bytes (U+{ord(match.group()):X})."
    if match := _CONTROL.search(question):
        return f"It has a control character (U+{ord(match.group()):04X})."
    try:
        root: Element = ElementTree.fromstring(question, forbid_dtd=True)
    except (ElementTree.ParseError, DefusedXmlException, ValueError) as error:
        return f"It is not well-formed XML: {error}."
    if root.tag != f"{{{_NAMESPACE}}}HTMLQuestion":
        return f"Its root is {root.tag}; the local MTurk has HTMLQuestion of {_NAMESPACE} only."
    html = root.findtext(f"{{{_NAMESPACE}}}HTMLContent")
    height = root.findtext(f"{{{_NAMESPACE}}}FrameHeight")
    if html is None or not html.strip():
        return "It has no HTMLContent."
    if height is None or not height.strip().isdecimal():
        return "Its FrameHeight is missing or no number."
    # Not among MTurk's checks: such a HIT is created there, and nobody can submit it.
    form = read_form(html)
    if form is None:
        return "Its page has no form."
    if form.method != "post" or not _SUBMIT.fullmatch(form.action):
        return "Its form does not post to https://www.mturk.com/mturk/externalSubmit or the sandbox's."
    return ""


def html_of(question: str) -> str:
    """The page of a checked question."""
    root: Element = ElementTree.fromstring(question, forbid_dtd=True)
    return root.findtext(f"{{{_NAMESPACE}}}HTMLContent") or ""


def as_served(html: str) -> str:
    """The page with its form posting here; nothing else of it is touched."""
    return _ACTION.sub(rf"\g<1>{SUBMIT_PATH}", html)
