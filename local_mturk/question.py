"""The HTMLQuestion of a HIT: what MTurk would refuse, and the page in it as a worker gets it here."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element

from defusedxml import ElementTree
from defusedxml.common import DefusedXmlException

from parapet.local_mturk.errors import invalid_value
from parapet.local_mturk.forms import read_form

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
    if found := _FOUR_BYTES.search(question):
        return f"It has a character of four UTF-8 bytes (U+{ord(found.group()):X})."
    if found := _CONTROL.search(question):
        return f"It has a control character (U+{ord(found.group()):04X})."
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
