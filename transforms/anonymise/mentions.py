"""A mention of something that identifies somebody, and what becomes of mentions that overlap."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

# What can be replaced, and what it means; in the order in which one takes characters from those after it.
KINDS = {
    "EMAIL": "e-mail addresses, also spelled out: ann at mail dot com",
    "URL": "web addresses",
    "IP": "addresses of machines",
    "IBAN": "account numbers whose check digits hold",
    "CARD": "card numbers whose check digit holds",
    "ENTITY": "entries of --entities without a kind",
    "DATE": "dates, with a day or a year",
    "TIME": "times of day",
    "ORDER": "numbers of orders, bookings, accounts and the like; codes of letters and digits",
    "PHONE": "phone numbers, also spelled out",
    "NUMBER": "other numbers of seven digits or more",
    "ADDRESS": "streets with a house number, post codes",
    "HANDLE": "names on social media: @ann",
    "PERSON": "names of people",
    "LOCATION": "places",
    "ORGANIZATION": "companies, restaurants and the like",
}
_ORDER = {kind: i for i, kind in enumerate(KINDS)}
_SAYS = re.compile(r"\w")
_FREE = re.compile(rb"\0+")


class Mention(msgspec.Struct, frozen=True, order=True):
    """Characters ``start`` to ``end`` (exclusive) of a text, of a kind."""

    start: int
    end: int
    kind: str


def settled(text: str, found: Iterable[Mention], standing: Iterable[tuple[int, int]] = ()) -> list[Mention]:
    """Mentions that do not overlap, in order; what is left of one that was cut still is a mention.

    Nothing that was found is let go: of "Ann Lee 555 0143" as a person and "555 0143" as a phone, "Ann Lee" stays.

    Args:
      text: in which they are.
      found: mentions, in any order. Of two, the earlier kind of ``KINDS`` takes what both claim, then the longer.
      standing: characters that are no part of any.
    """
    taken = bytearray(len(text))
    for start, end in standing:
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
