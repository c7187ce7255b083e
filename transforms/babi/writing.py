"""Texts in the file format of the bAbI dialog tasks, see ``parapet.transforms.babi.reading``."""

from __future__ import annotations

from collections.abc import Iterable

from parapet.transforms.babi.reading import Exchange, Fact


def dialogue_text(lines: Iterable[Fact | Exchange]) -> str:
    """A dialogue with the blank line that ends it."""
    return "".join(f"{i} {_line(one)}\n" for i, one in enumerate(lines, 1)) + "\n"


def facts_text(facts: Iterable[Fact]) -> str:
    """A knowledge base; its lines all have the number 1."""
    return "".join(f"1 {one.entity} {one.relation}\t{one.value}\n" for one in facts)


def candidates_text(texts: Iterable[str]) -> str:
    """A file of candidates; its lines all have the number 1."""
    return "".join(f"1 {text}\n" for text in texts)


def _line(one: Fact | Exchange) -> str:
    if isinstance(one, Fact):
        return f"{one.entity} {one.relation} {one.value}"
    return f"{one.user}\t{one.bot}"
