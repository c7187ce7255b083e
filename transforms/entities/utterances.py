"""Values of an utterance replaced, with what English wants around them: articles, and prepositions of dates."""

from __future__ import annotations

import re
from collections.abc import Sequence

from parapet.schemas.errors import InputError
from parapet.transforms.entities import names
from parapet.transforms.entities.choosing import in_case_of
from parapet.transforms.entities.forms import is_relative
from parapet.transforms.entities.mentions import Mention
from parapet.transforms.perturb.edits import Edit

_ARTICLE = re.compile(r"\b(an?)(?=\s+[\"'“‘(]?$)", re.IGNORECASE)
_OPENING, _LAST = " \t\"'“‘(", ("a", "n", "A", "N")
_THE = re.compile(r"\bthe\s+$", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"(?:next|this|coming|\w+day\b)", re.IGNORECASE)  # "the next Wednesday bus" keeps its article
_WORD_BEFORE = re.compile(r"(?<![\w'’])([\w'’]+)\s+$")
_VOWEL = re.compile(r"[aeiouáéíóúàèìòùâêîôûäëïöü]|8|11(?!\d)|18(?!\d)|hour|hono|honest|heir", re.IGNORECASE)
_CONSONANT = re.compile(r"(?:uni(?!m|n)|us[aeu]|util|utop|ukrai|urug|eu|ewe|one\b|once\b|ouija)", re.IGNORECASE)


def article_of(text: str) -> str:
    """``a`` or ``an``, as English says it before a text."""
    start = text.lstrip("\"'“‘($#")
    if _CONSONANT.match(start):
        return "a"
    return "an" if _VOWEL.match(start) else "a"


def edits_of(utterance: str, mentions: Sequence[Mention]) -> list[Edit]:
    """The edits that replace the mentions whose groups have something to replace them, in order.

    Args:
      utterance: what is said.
      mentions: the values in it, in order; those of groups that are kept change nothing.

    Raises:
      InputError: values overlap.
    """
    edits: list[Edit] = []
    free = 0  # what is before belongs to another mention
    for mention in mentions:
        new = text_for(mention)
        if new is None:
            free = max(free, mention.end)
            continue
        if mention.start < free:
            raise InputError(f"overlapping: {mention.text!r} is said inside another value")
        edits += _around(utterance, mention, new, free)
        edits.append(Edit(mention.start, mention.end, new))
        free = mention.end
    return edits


def text_for(mention: Mention) -> str | None:
    """What a mention becomes, in its own case; None where it stays."""
    group = mention.group
    if group is None or group.reason or not group.replacement:
        return None
    shown = group.shown.get(mention.text)
    return in_case_of(group.shown[mention.like], mention.text) if shown is None else shown


def _around(utterance: str, mention: Mention, new: str, free: int) -> list[Edit]:
    before = utterance[free : mention.start]
    if mention.group and mention.group.kind == "date" and new[:1].isalpha():
        the = None if _ATTRIBUTE.match(mention.text) else _THE.search(before)
        start = free + the.start() if the else mention.start
        word = _WORD_BEFORE.search(utterance[:start])
        bare = is_relative(mention.text) and not mention.text.casefold().startswith("on ")
        on = "on " if bare and word and word[1].casefold() not in names.BEFORE_DATE else ""
        return [Edit(start, mention.start, on)] if the or on else []
    # An article ends with one of these letters, and most of what stands before a value does not.
    article = _ARTICLE.search(before) if before.rstrip(_OPENING)[-1:] in _LAST else None
    if article is None:
        return []
    wanted = article_of(new)
    # "a 11:45 am" has no article, but an "at" that lost a letter.
    if wanted == article[1].casefold() or article_of(mention.text) != article[1].casefold():
        return []
    place = free + article.start()
    return [Edit(place, place + len(article[1]), wanted.capitalize() if article[1][0] == "A" else wanted)]
