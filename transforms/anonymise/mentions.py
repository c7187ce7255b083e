"""Mentions of what identifies people, and how overlapping mentions are resolved."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

# Kinds of mentions and their meanings, by precedence: where two overlap, the earlier kind takes the characters.
KINDS = {
    "EMAIL": "e-mail addresses, also spelled out: ann at mail dot com",
    "URL": "web addresses",
    "IP": "IP addresses",
    "IBAN": "account numbers with valid check digits",
    "CARD": "card numbers with a valid check digit",
    "ENTITY": "entries of --entities without a kind",
    "DATE": "dates, with a day or a year",
    "TIME": "times of day",
    "ORDER": "numbers of orders, bookings, accounts and so on; codes of letters and digits",
    "PHONE": "phone numbers, also spelled out",
    "NUMBER": "other numbers of seven digits or more",
    "ADDRESS": "streets with a house number, post codes",
    "HANDLE": "names on social media: @ann",
    "PERSON": "names of people",
    "LOCATION": "places",
    "ORGANIZATION": "companies, restaurants and so on",
}
# Placeholders as in the examples of Bordes et al. 2017, Table 7: a kind that is not here has its own name.
PAPER = {
    "ORGANIZATION": "org",
    "ENTITY": "org",
    "ADDRESS": "location",
    **dict.fromkeys(("IBAN", "CARD", "ORDER", "PHONE", "IP"), "number"),
}
PLACEHOLDER = re.compile(
    r"<(?:[A-Z]{2,20}_[0-9]{1,6}|"
    + "|".join(sorted({PAPER.get(kind, kind.lower()) for kind in (*KINDS, "silence")}))
    + r")>"
)


def placeholder(kind: str, number: int, paper: bool) -> str:
    """``<PERSON_1>``, or as in the paper ``<person>``."""
    return f"<{PAPER.get(kind, kind.lower())}>" if paper else f"<{kind}_{number}>"


_ORDER = {kind: i for i, kind in enumerate(KINDS)}
_SAYS = re.compile(r"\w")
_FREE = re.compile(rb"\0+")


class Mention(msgspec.Struct, frozen=True, order=True):
    """A span of a text, ``end`` exclusive, and its kind."""

    start: int
    end: int
    kind: str


def settled(text: str, found: Iterable[Mention], protected: Iterable[tuple[int, int]] = ()) -> list[Mention]:
    """Resolves overlaps; gives mentions in order. The rest of one that was cut is a mention still.

    Nothing that was found is dropped: of "Ann Lee 555 0143" as a person and "555 0143" as a phone, "Ann Lee" stays.

    Args:
      text: that has them.
      found: mentions, in any order. Of two that overlap, the earlier kind of ``KINDS`` has precedence, then the longer.
      protected: spans that are part of no mention.
    """
    taken = bytearray(len(text))
    for start, end in protected:
        taken[start:end] = b"\1" * (end - start)
    kept: list[Mention] = []
    for mention in sorted(found, key=lambda one: (_ORDER.get(one.kind, -1), one.start - one.end, one)):
        for free in _FREE.finditer(taken, mention.start, mention.end):
            start, end = free.span()
            if not _SAYS.search(text, start, end):
                continue
            while text[start].isspace():
                start += 1
            while text[end - 1].isspace():
                end -= 1
            kept.append(Mention(start, end, mention.kind))
        taken[mention.start : mention.end] = b"\1" * (mention.end - mention.start)
    return sorted(kept)
