"""What a response mentions: values as they are said, or placeholders where it is delexicalised."""

from __future__ import annotations

import re

_PLACEHOLDER = re.compile(r"\[([^\[\]]{1,100})\]")
_NO_NAME = re.compile(r"[^a-z0-9]+")
_NUMBER = re.compile(r"_[0-9]+$")
_SHORT = {"post": "postcode", "ref": "reference", "id": "trainid", "addr": "address"}  # MultiWOZ has both


def plain_name(name: str) -> str:
    """A name in small letters, its words parted by underscores: ``restaurant_name`` of ``Restaurant-name``."""
    return _NO_NAME.sub("_", name.lower()).strip("_")


def placeholders(response: str) -> frozenset[str]:
    """The names in square brackets of a delexicalised response, plain."""
    return frozenset(_long(plain_name(name)) for name in _PLACEHOLDER.findall(response))


def placeholders_of(service: str, slot: str) -> tuple[frozenset[str], frozenset[str]]:
    """A slot's placeholders: with the service or its domain (``restaurant_phone``), without (``phone``)."""
    owners = {service, _NUMBER.sub("", service)}
    own = frozenset(_long(plain_name(f"{owner}_{slot}")) for owner in owners)
    return own, frozenset(_long(plain_name(name)) for name in (slot, f"value_{slot}"))


def _long(name: str) -> str:
    start, _, last = name.rpartition("_")
    return f"{start}_{_SHORT.get(last, last)}".strip("_")


def is_said(value: str, text: str) -> bool:
    """Whether a value stands in a text as words of its own; both in small letters."""
    at = text.find(value) if value else -1
    while at >= 0:
        end = at + len(value)
        before = at == 0 or not (text[at - 1].isalnum() and value[0].isalnum())
        after = end == len(text) or not (text[end].isalnum() and value[-1].isalnum())
        if before and after:
            return True
        at = text.find(value, at + 1)
    return False
