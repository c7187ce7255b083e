"""What pages, XML, MTurk and file systems can carry of a schema's or dialogue's texts, any of which may be hostile."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import quote
from xml.etree.ElementTree import Element

from defusedxml.ElementTree import fromstring

# Not allowed in XML 1.0: C0 controls but tab and line ends, surrogates, the two non-characters.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
_LINE_ENDS = re.compile("\r\n?")

NAMESPACE = "http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2011-11-11/HTMLQuestion.xsd"
MAX_BYTES = 65_535

# FrameHeight 0: the page takes the whole frame that the worker's site gives it.
_BEFORE = f'<HTMLQuestion xmlns="{NAMESPACE}"><HTMLContent><![CDATA['
_AFTER = "]]></HTMLContent><FrameHeight>0</FrameHeight></HTMLQuestion>"

# Most file systems take names of 255 bytes; the turn, the ending and a temporary name's are still to come.
MAX_NAME = 150


def shown(text: str) -> str:
    """A text of the schema as a page shows it: single spaces, no characters that XML forbids."""
    return " ".join(_FORBIDDEN.sub(" ", text).split())


def carriable(html: str) -> str:
    """HTML that survives the way through MTurk unchanged.

    Line ends become ``\\n`` (an XML parser would do the same), forbidden characters go, and characters beyond the
    basic plane become numeric references (MTurk refuses the four-byte ones). Not for scripts with such characters.
    """
    html = _FORBIDDEN.sub("", _LINE_ENDS.sub("\n", html))
    return _ASTRAL.sub(lambda found: f"&#{ord(found.group())};", html)


def without_variables(html: str) -> str:
    """HTML in which the requester site finds no ``${VAR}`` to fill in."""
    return html.replace("${", "&#36;{")


def question_xml(html: str) -> bytes:
    """The HTMLQuestion of a page that :func:`carriable` has prepared."""
    # "]]>" would end the CDATA section: begin another one inside it.
    return (_BEFORE + html.replace("]]>", "]]]]><![CDATA[>") + _AFTER).encode("utf-8")


def html_of(question: bytes) -> str:
    """The page inside an HTMLQuestion, as MTurk reads it. Raises ParseError where it is not well-formed."""
    root: Element = fromstring(question)
    return root.findtext(f"{{{NAMESPACE}}}HTMLContent") or ""


def page_name(dialogue_id: str) -> str:
    """The part of a file name that stands for a dialogue; different ids have different ones, letter case included.

    Letters, digits, ``_``, ``-`` and inner dots stay, all else is percent-encoded. A long one is cut, and
    a ``~``, which no other name has, begins the hash of the whole id.
    """
    name = quote(dialogue_id, safe="", errors="surrogatepass").replace("~", "%7E")
    if name.startswith("."):
        name = "%2E" + name[1:]
    if len(name) > MAX_NAME:
        digest = hashlib.sha256(dialogue_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        name = f"{name[: MAX_NAME - 33]}~{digest}"
    return name
