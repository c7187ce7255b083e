"""The HTMLQuestion of a HIT: what MTurk would refuse of it, and the fields of its form."""

import re
from xml.etree.ElementTree import Element

from defusedxml import ElementTree
from defusedxml.common import DefusedXmlException
from page_form import PageForm as Form

from .state import invalid_value

_MAX_BYTES = 65_535
_NAMESPACE = "{http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2011-11-11/HTMLQuestion.xsd}"
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")
_FOUR_BYTES = re.compile("[\U00010000-\U0010ffff]")
_SUBMIT = re.compile(r"https://(?:www|workersandbox)\.mturk\.com/mturk/externalSubmit")


def check_question(question: str) -> None:
    """Raises MTurkError for a question that could not become a HIT, or whose form nobody could submit."""
    if why := _fault(question):
        raise invalid_value("Question", question, why)


def _fault(question: str) -> str:
    size = len(question.encode())
    if size > _MAX_BYTES:
        return f"It has {size:,} bytes; at most {_MAX_BYTES:,} are allowed."
    if match := _FOUR_BYTES.search(question) or _CONTROL.search(question):
        return f"It has a character that is not allowed (U+{ord(match.group()):04X})."
    try:
        root: Element = ElementTree.fromstring(question, forbid_dtd=True)
    except (ElementTree.ParseError, DefusedXmlException, ValueError) as error:
        return f"It is not well-formed XML: {error}."
    html, height = root.findtext(f"{_NAMESPACE}HTMLContent"), root.findtext(f"{_NAMESPACE}FrameHeight")
    if root.tag != f"{_NAMESPACE}HTMLQuestion" or not (html or "").strip() or not (height or "").strip().isdecimal():
        return "It is no HTMLQuestion with HTMLContent and a FrameHeight."
    form = Form(html or "")
    if form.method != "post" or not _SUBMIT.fullmatch(form.action):
        return "Its page has no form that posts to https://www.mturk.com/mturk/externalSubmit or the sandbox's."
    return ""


def form_of(question: str) -> Form:
    """The form of a checked question."""
    return Form(ElementTree.fromstring(question, forbid_dtd=True).findtext(f"{_NAMESPACE}HTMLContent") or "")
