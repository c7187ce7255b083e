"""The HTMLQuestion: a page wrapped for MTurk's API."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from defusedxml.ElementTree import fromstring

NAMESPACE = "http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2011-11-11/HTMLQuestion.xsd"
MAX_BYTES = 65_535

# FrameHeight 0: the page takes the whole frame that the worker's site gives it.
_BEFORE = f'<HTMLQuestion xmlns="{NAMESPACE}"><HTMLContent><![CDATA['
_AFTER = "]]></HTMLContent><FrameHeight>0</FrameHeight></HTMLQuestion>"


def question_xml(html: str) -> bytes:
    """The HTMLQuestion of a page that :func:`parapet.transforms.hits.markup.carriable` has prepared."""
    # "]]>" would end the CDATA section: begin another one inside it.
    return (_BEFORE + html.replace("]]>", "]]]]><![CDATA[>") + _AFTER).encode("utf-8")


def html_of(question: bytes) -> str:
    """The page inside an HTMLQuestion, as MTurk reads it. Raises ParseError where it is not well-formed."""
    root: Element = fromstring(question)
    return root.findtext(f"{{{NAMESPACE}}}HTMLContent") or ""
