"""What pages, XML and MTurk can carry of a text, any of which may be hostile, and which words a rewriting must keep."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from urllib.parse import quote
from xml.etree.ElementTree import Element

import msgspec
from defusedxml.ElementTree import fromstring
from msgspec import UNSET

from parapet.schemas.dialogue import Frame, Turn

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
    return _ASTRAL.sub(lambda match: f"&#{ord(match.group())};", html)


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


# Actions on these name no slot: an offered intent, the number of results.
_NO_SLOTS = frozenset({"", "intent", "count"})

_PARTS_NUMBER = re.compile(r"[:.,/]\d")


class KeptValue(msgspec.Struct, frozen=True):
    """A value that an answer must have character for character, as the page shows it, and its slot."""

    slot: str
    service: str
    value: str


class Mark(msgspec.Struct, frozen=True):
    """A kept value with its place: characters ``start`` to ``end`` of the utterance as the page shows it."""

    kept: KeptValue
    start: int
    end: int


def marks(turn: Turn, before: Turn | None = None) -> list[Mark]:
    """The values to keep, in the order of the utterance.

    Those are what the slot spans point to; and values of slots without a span, categorical ones, that occur in the
    utterance word for word: of the turn's actions or, where a corpus has none, of what the turn has changed in the
    state.

    Args:
      turn: the user's turn.
      before: the user's turn before it.

    Raises:
      ValueError: a span is not inside the utterance; says which.
    """
    found = list(_of_spans(turn))
    text = speakable(turn.utterance)
    for slot, service, value in _without_span(turn, before):
        start = find_word(text, value, [(mark.start, mark.end) for mark in found])
        if start is not None:
            found.append(Mark(KeptValue(slot, service, value), start, start + len(value)))
    return sorted(found, key=lambda mark: (mark.start, mark.end, mark.kept.service, mark.kept.slot))


def speakable(text: str) -> str:
    """A text of a dialogue as a page shows it: as :func:`shown`, and no byte order mark, for forms trim that too."""
    return shown(text.replace("\ufeff", " "))


def find_word(text: str, value: str, taken: Sequence[tuple[int, int]] = ()) -> int | None:
    """The first place of ``value`` in ``text`` as whole words, outside the ``taken`` places; None if nowhere."""
    start = text.find(value) if value else -1
    while start >= 0:
        end = start + len(value)
        if not (
            _inside_word(text, start)
            or _inside_word(text, end)
            or any(start < other_end and other_start < end for other_start, other_end in taken)
        ):
            return start
        start = text.find(value, start + 1)
    return None


def bold_pieces(text: str, found: Sequence[Mark]) -> list[tuple[str, bool]]:
    """The text cut where bold begins or ends; marks that overlap are one bold piece."""
    pieces: list[tuple[str, bool]] = []
    at = 0
    for start, end in _joined(found):
        pieces += [(text[at:start], False), (text[start:end], True)]
        at = end
    return [piece for piece in (*pieces, (text[at:], False)) if piece[0]]


def _of_spans(turn: Turn) -> Iterator[Mark]:
    raw = turn.utterance
    for frame in turn.frames:
        for span in frame.slots:
            if not isinstance(span.start, int) or not isinstance(span.exclusive_end, int):
                continue  # copied from another slot: not in this utterance
            where = f"slot {span.slot!r}: {span.start}-{span.exclusive_end}"
            if not 0 <= span.start < span.exclusive_end <= len(raw):
                raise ValueError(f"{where} is not inside the utterance")
            value = speakable(raw[span.start : span.exclusive_end])
            if not value:
                raise ValueError(f"{where} has nothing to see")
            # A letter after the text before the value keeps the space between the two.
            first = raw[span.start : span.exclusive_end].find(value[0])
            start = len(speakable(raw[: span.start + first] + "x")) - 1
            yield Mark(KeptValue(span.slot, frame.service, value), start, start + len(value))


def _without_span(turn: Turn, before: Turn | None) -> Iterator[tuple[str, str, str]]:
    """(slot, service, value) of the slots that the turn has no span for."""
    for frame in turn.frames:
        spanned = {span.slot for span in frame.slots} | _NO_SLOTS
        for slot, values in _values_of(frame, before):
            if slot not in spanned:
                for value in dict.fromkeys(map(speakable, values)):
                    yield slot, frame.service, value


def _values_of(frame: Frame, before: Turn | None) -> Iterator[tuple[str, list[str]]]:
    if frame.actions is not UNSET:
        yield from ((action.slot, action.values) for action in frame.actions)
    elif frame.state is not UNSET:
        earlier: dict[str, list[str]] = {}
        for other in before.frames if before else ():
            if other.service == frame.service and other.state is not UNSET:
                earlier = other.state.slot_values
        yield from ((slot, values) for slot, values in frame.state.slot_values.items() if earlier.get(slot) != values)


def _inside_word(text: str, at: int) -> bool:
    """Whether ``at`` is inside a word or a number: the 2 of 12, 2nd, 2:30 and 2.50 is no number of its own."""
    left, right = text[max(0, at - 2) : at], text[at : at + 2]
    return (
        (left[-1:].isalnum() and right[:1].isalnum())
        or (left[-1:].isdigit() and _PARTS_NUMBER.fullmatch(right) is not None)
        or (right[:1].isdigit() and _PARTS_NUMBER.fullmatch(left[::-1]) is not None)
    )


def _joined(found: Sequence[Mark]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for mark in sorted(found, key=lambda mark: mark.start):
        if joined and mark.start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], mark.end))
        else:
            joined.append((mark.start, mark.end))
    return joined
