"""Detect answers that embeddings cannot reject.

These are negations and opposites of their element, boilerplate of language models, and names of data types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from parapet.transforms.core.inputs import read_table

# What language models add to an answer: openers, Markdown, lists, excuses.
BOILERPLATE = re.compile(
    r"^\W*(?:sure|certainly|of course|absolutely|great question)\s*[!,.:]"
    r"|\bas an? (?:ai|artificial intelligence|(?:large )?language model|assistant)\b"
    r"|\bhere(?:['’]s| is| are)\b.{0,40}\b(?:paraphras|rephras|rewor|rewrit|version|alternativ|option|suggest)"
    r"|^\W*(?:paraphras\w*|rephras\w*|reworded|rewritten|answer|output|response|suggestion)\b[^:]{0,20}:"
    r"|\b(?:option|paraphrase|version|alternative) ?\d\b"
    r"|\bi(?:['’]m| am) sorry\b|\bi (?:cannot|can['’]t|can not) (?:provide|help|assist|paraphrase|generate)"
    r"|\blet me know if\b|\bhope this helps\b|\b(?:provided|given) (?:prompt|context|description)\b"
    r"|\*\*[^*]+\*\*|`[^`]+`|^\s*#{1,4} |^\s*[-*•] "
    r"|(?:^|\s)1[.)] .*\s2[.)] ",
    re.IGNORECASE | re.DOTALL,
)
_TABLE = read_table(__package__, "contrast.toml")
_NEGATION = re.compile(r"\b(?:no|not|never|none|neither|nor|without|lacks?|lacking|cannot|non|(?:fail|refuse)s? to)\b")
_OR_NOT = re.compile(r"\bor (?:not|none?|without)\b|\byes (?:or |and )?no\b|\bnon? of\b|(?<=\w )nos?$|\bnon ?stop")
_PREFIX = re.compile(r"(?:un|non|in|im|dis)(?=[a-z]{4})")


def is_type(words: tuple[str, ...]) -> bool:
    """Whether a text only names a data type."""
    types, others = _TABLE["types"], _TABLE["besides"]
    return any(word in types for word in words) and all(word in types or word in others for word in words)


def denies_alone(words: tuple[str, ...], own: tuple[str, ...]) -> bool:
    """Whether an answer negates something that its element does not negate.

    Args:
      words: the words of the answer.
      own: the words of the element's name and of all its description.
    """
    for some, others in ((words, own), (own, words)):
        if any(word not in others and _PREFIX.sub("", word, count=1) in others for word in some):
            return True
    text, of_element = " ".join(words), " ".join(own)
    denies = _denies(text) and not _denies(of_element) and "none" not in own
    # "without a return" is a direction, not a negation
    return denies and not any(other for _, other in _sides(text, of_element, False))


def _denies(text: str) -> bool:
    return _NEGATION.search(_OR_NOT.sub(" ", text)) is not None


def says_the_opposite(text: str, own: str, of_name: bool) -> bool:
    """Whether an answer has words of only one side of a pair of opposites, and its element only of the other side.

    Args:
      text: the words of the answer, separated by single spaces.
      own: the name and description of the element, in the same form.
      of_name: whether the answer is a name.
    """
    return _denies(text) == _denies(own) and (False, True) in _sides(text, own, of_name)


def _sides(text: str, own: str, of_name: bool) -> Iterator[tuple[bool, bool]]:
    """For each pair of opposites with only one side in the element, yield whether the text has this and the other."""
    for pair in _opposites(of_name):
        for side, other in (pair, pair[::-1]):
            if side.search(own) and not other.search(own):
                yield side.search(text) is not None, other.search(text) is not None


@cache
def _opposites(of_name: bool) -> list[tuple[re.Pattern[str], ...]]:
    pairs = [*_TABLE["pairs"], *(_TABLE["of_names"] if of_name else ())]
    return [tuple(re.compile(rf"\b(?:{'|'.join(map(_pattern, side))})\b") for side in pair) for pair in pairs]


def _pattern(word: str) -> str:
    return re.escape(word).replace(r"\*", r"\w*")
