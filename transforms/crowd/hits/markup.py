"""Encode untrusted text for pages, XML and MTurk, and find the words that a rewriting must keep."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from urllib.parse import quote

import msgspec
from msgspec import UNSET

from parapet.schemas.dialogue import Frame, Turn

# Not allowed in XML 1.0: C0 controls except tab and line ends, surrogates, the two non-characters.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
_LINE_ENDS = re.compile("\r\n?")

NAMESPACE = "http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2011-11-11/HTMLQuestion.xsd"
MAX_BYTES = 65_535

# FrameHeight 0: the page fills the frame of the worker's site.
_BEFORE = f'<HTMLQuestion xmlns="{NAMESPACE}"><HTMLContent><![CDATA['
_AFTER = "]]></HTMLContent><FrameHeight>0</FrameHeight></HTMLQuestion>"


def shown(text: str) -> str:
    """Clean a text of the schema for display: single spaces, no characters that XML forbids."""
    return " ".join(_FORBIDDEN.sub(" ", text).split())


def carriable(html: str) -> str:
    """Encode HTML so that it passes through MTurk unchanged.

    Line ends become ``\\n`` (as in an XML parser), forbidden characters are removed, and characters beyond the basic
    plane become numeric references (MTurk refuses four-byte characters). Not suitable for scripts with such characters.
    """
    html = _FORBIDDEN.sub("", _LINE_ENDS.sub("\n", html))
    return _ASTRAL.sub(lambda match: f"&#{ord(match.group())};", html)


def without_variables(html: str) -> str:
    """Escape ``${``, so that the requester site does not substitute variables."""
    return html.replace("${", "&#36;{")


def question_xml(html: str) -> bytes:
    """Wrap a page that :func:`carriable` has encoded in an HTMLQuestion."""
    # "]]>" would end the CDATA section, so it is split across two sections.
    return (_BEFORE + html.replace("]]>", "]]]]><![CDATA[>") + _AFTER).encode("utf-8")


def page_name(dialogue_id: str) -> str:
    """Convert a dialogue id to a part of a file name: all but letters, digits and ``_-~.`` is percent-encoded."""
    name = quote(dialogue_id, safe="", errors="surrogatepass")
    return f"%2E{name[1:]}" if name.startswith(".") else name


# Actions with these "slots" have no slot: an offered intent, the number of results.
_NO_SLOTS = frozenset({"", "intent", "count"})

# Inside a word or number: the 2 in 12, 2nd, 2:30 and 2.50 is not a separate number.
_INSIDE_WORD = re.compile(r"(?<=[^\W_])(?=[^\W_])|(?<=\d)(?=[:.,/]\d)|(?<=\d[:.,/])(?=\d)")


class KeptValue(msgspec.Struct, frozen=True):
    """A value, as the page shows it, that an answer must contain verbatim, and its slot."""

    slot: str
    service: str
    value: str


class Mark(msgspec.Struct, frozen=True):
    """A kept value and its position: characters ``start`` to ``end`` of the utterance as the page shows it."""

    kept: KeptValue
    start: int
    end: int


def marks(turn: Turn, before: Turn | None = None) -> list[Mark]:
    """Find the values to keep, in the order of the utterance.

    These are the texts of slot spans, and values of slots without a span (categorical ones) that occur verbatim in the
    utterance. The latter come from the turn's actions or, if a corpus has none, from changes of the state.

    Args:
      turn: the user's turn.
      before: the previous user turn.

    Raises:
      ValueError: a span has no text in the utterance.
    """
    kept = list(_of_spans(turn))
    text = speakable(turn.utterance)
    for frame in turn.frames:
        spanned = {span.slot for span in frame.slots} | _NO_SLOTS
        for slot, values in _values_of(frame, before):
            for value in dict.fromkeys(map(speakable, values)) if slot not in spanned else ():
                start = find_word(text, value, [(mark.start, mark.end) for mark in kept])
                if start is not None:
                    kept.append(Mark(KeptValue(slot, frame.service, value), start, start + len(value)))
    return sorted(kept, key=lambda mark: (mark.start, mark.end, mark.kept.service, mark.kept.slot))


def speakable(text: str) -> str:
    """Clean a text of a dialogue as :func:`shown` does, and remove byte order marks, which forms trim, too."""
    return shown(text.replace("\ufeff", " "))


def find_word(text: str, value: str, taken: Sequence[tuple[int, int]] = (), whole: bool = True) -> int | None:
    """Find the first ``value`` in ``text`` outside the ``taken`` ranges; None if absent.

    Unless ``whole`` is False, only whole words count.
    """
    start = text.find(value) if value else -1
    while start >= 0:
        end = start + len(value)
        is_cut = whole and any(_INSIDE_WORD.match(text, at) for at in (start, end))
        if not is_cut and not any(start < other_end and other_start < end for other_start, other_end in taken):
            return start
        start = text.find(value, start + 1)
    return None


def bold_pieces(text: str, marks: Iterable[Mark]) -> list[tuple[str, bool]]:
    """Split a text where bold begins or ends; marks that overlap or touch become one bold piece."""
    is_bold = [False] * len(text)
    for mark in marks:
        is_bold[mark.start : mark.end] = [True] * (mark.end - mark.start)
    pieces = groupby(zip(text, is_bold, strict=True), key=lambda pair: pair[1])
    return [("".join(letter for letter, _ in piece), bold) for bold, piece in pieces]


def _of_spans(turn: Turn) -> Iterator[Mark]:
    raw = turn.utterance
    for frame in turn.frames:
        for span in frame.slots:
            if not isinstance(span.start, int) or not isinstance(span.exclusive_end, int):
                continue  # copied from another slot, so not in this utterance
            value = speakable(raw[span.start : span.exclusive_end])
            if not (0 <= span.start < span.exclusive_end <= len(raw) and value):
                raise ValueError(f"slot {span.slot!r}: {span.start}-{span.exclusive_end} has no text in the utterance")
            # A letter is appended so that the space before the value is not stripped.
            first = raw[span.start : span.exclusive_end].find(value[0])
            start = len(speakable(raw[: span.start + first] + "x")) - 1
            yield Mark(KeptValue(span.slot, frame.service, value), start, start + len(value))


def _values_of(frame: Frame, before: Turn | None) -> list[tuple[str, list[str]]]:
    if frame.actions is not UNSET:
        return [(action.slot, action.values) for action in frame.actions]
    frames = [other for other in (before.frames if before else ()) if other.service == frame.service]
    earlier = [other.state.slot_values for other in frames if other.state]
    state = frame.state.slot_values if frame.state else {}
    return [(slot, values) for slot, values in state.items() if not earlier or earlier[-1].get(slot) != values]
