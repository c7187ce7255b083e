"""Check whether a user turn that a language model has rewritten may replace the original.

The values of the turn have been located before (``rewording``). Each check compares two texts and has an id, under
which refusals are counted: ``copy`` (the same words, apart from contractions), ``characters`` (an accent, an emoji or
another mark is lost), ``boilerplate`` (of a language model), ``polarity`` (yes, no, not), ``facts`` (numbers, dates,
names), ``roles`` (prepositions of values), ``person`` (their to your) and ``meaning`` (another subject).

A language model writes correct English, so neither grammar nor word order is checked. Similarity is computed without
the values, which alone would make two turns similar. At ``NEAR``, 97 to 99 % of the longer forms of our rules pass on
250 turns of SGD's dev split, by either measure, and 6 to 14 % of other turns (paraphrases 83 to 100 %, short ones least
by n-grams; other turns 10 to 17 %).
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Sequence

from parapet.transforms.perturb import language
from parapet.transforms.perturb.rewording import COPY, occurrences
from parapet.transforms.report import meaning

CHARACTERS, BOILERPLATE, POLARITY, FACTS = "characters", "boilerplate", "polarity", "facts"
ROLES, PERSON, MEANING = "roles", "person", "meaning"

NEAR = 0.3  # minimum similarity without values
SHORTEST = 3  # words; shorter turns have no clear meaning without context

_NEGATION = re.compile(
    r"\b(?:no|not|nope|nah|never|none|nothing|nobody|nowhere|neither|nor|without|cannot|cant|dont|wont)\b|n['’]t\b",
    re.IGNORECASE,
)
_MAY_GO = re.compile(r"[’‘\s]")
_SHORT = re.compile(r"n['’]t\b", re.IGNORECASE)
# "No, that's all" and "not all that" both negate.
_NOT = re.compile(r"\b(?:not|cannot|cant|dont|wont)\b|n['’]t\b", re.IGNORECASE)
# Words that mean yes anywhere, and others that do as a separate sentence.
_YES = re.compile(
    r"\b(?:yes|yeah|yea|yep|yup|ok|okay|okey|alright)\b"
    r"|(?:^|[.,;!?] *)(?:sure|right|correct|exactly|absolutely|certainly|definitely|of course|agreed|all right|fine)"
    r"(?= *(?:[.,;!?]|$))"
    r"|\b(?:that|it)(?:['’]s| is) (?:right|correct)\b",
    re.IGNORECASE,
)
_BOILERPLATE = re.compile(
    r"^(?:sure|certainly|of course|absolutely)[!,.:]? +(?:here|i can|i['’]d be)\b"
    r"|^here(?:['’]s| is| are)\b.*:"
    r"|\bas an? (?:ai|artificial|(?:large )?language model|assistant)\b"
    r"|\b(?:rewritten|rephrased|reworded|paraphrased?|verbose|simplified|original) (?:version|sentence|text|turn)\b"
    r"|^(?:user|assistant|output|paraphrase|rewrite|answer|response|sentence)\s*:"
    r"|\b(?:would|do|are|did|can|could|should|shall) you (?:like|want|need|prefer|looking|interested|have in mind)\b"
    r"|\b(?:how (?:can|may) i|(?:happy|glad|here) to) (?:help|assist)\b|\blet me know (?:if|whether) you\b"
    r"|\*\*|^#|```|^[-*•] |\n"
    r"|^[\"“'‘].*[\"”'’]$",
    re.IGNORECASE,
)
# Counts as a value wherever it occurs, annotated or not.
_FACT = re.compile(
    r"\d+(?:[:.,]\d+)*"
    r"|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|half|quarter|noon|midnight|dozen|single|double"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|may(?= \d)|june|july|august|september"
    r"|october|november|december|today|tonight|tomorrow|morning|afternoon|evening|night|weekend|week|month|year"
    r"|one[- ]way|round[- ]trip|economy|business|premium|first|second|third|last|next|rooms?|bedrooms?"
    r"|cheap(?:er|est)?)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w+")
_NAME = re.compile(r"(?<=[a-z] )(?!(?:I|You)\b)[A-Z]\w+")
_ROLE = re.compile(
    r"about|above|after|around|at|before|below|between|by|for|from|in|near|on|over|since|till|to|under|until|with"
)
_STRANDED = re.compile(r"\b(about|at|for|from|in|on|to|with)(?= *(?:[.,;!?]|and\b|$))", re.IGNORECASE)
_ANIMATE = re.compile(r"\b(?:he|him|his|she|her|hers|your|yours)\b", re.IGNORECASE)
_HELP = re.compile(r"\byour(?: \w+)? (?:help|time|assistance)\b|\b(?:for|about) (?:all )?your\b", re.IGNORECASE)


def refusal(before: str, after: str, values: Sequence[str] = ()) -> str:
    """Return the id of the first check that a text fails, or an empty string.

    Args:
      before: the original turn.
      after: the rewritten turn.
      values: texts that must keep the preposition before them, as numbers and dates must.
    """
    if language.plain_words(_SHORT.sub(" not", before)) == language.plain_words(_SHORT.sub(" not", after)):
        return COPY
    if not keeps_characters(before, after):
        return CHARACTERS
    if _BOILERPLATE.search(after) and not _BOILERPLATE.search(before):
        return BOILERPLATE
    if not same_polarity(before, after) or bool(_NOT.search(after)) != bool(_NOT.search(before)):
        return POLARITY
    if _facts(before) != _facts(after) or not {*_NAME.findall(before)} <= {*_WORD.findall(after)}:
        return FACTS
    kept = sorted({*values, *_FACT.findall(before)}, key=lambda value: (-len(value), value))
    if _roles(before, kept) != _roles(after, kept) or not _matches(_STRANDED, before) <= _matches(_WORD, after):
        return ROLES
    if not _matches(_ANIMATE, _HELP.sub("", after)) <= _matches(_ANIMATE, before):
        return PERSON
    if len(language.plain_words(before)) < SHORTEST or not _is_near(before, after, values):
        return MEANING
    return ""


def keeps_characters(before: str, after: str) -> bool:
    """Whether a text keeps the letters with accents, emoji and marks of another; ASCII and apostrophes may change."""
    if before.isascii():
        return True
    return not Counter(char for char in before if not char.isascii() and not _MAY_GO.match(char)) - Counter(after)


def _is_near(before: str, after: str, values: Sequence[str]) -> bool:
    rest, rest_after = (_without(text, values) for text in (before, after))
    return not rest or meaning.similarity(rest, rest_after) >= NEAR


def _without(text: str, values: Sequence[str]) -> str:
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, " ")
    return " ".join(text.split())


def same_polarity(text: str, other: str) -> bool:
    """Whether both texts or neither negate, and both or neither say yes."""
    return denies(text) == denies(other) and affirms(text) == affirms(other)


@functools.lru_cache(4096)
def denies(text: str) -> bool:
    """Whether a text has a negation."""
    return _NEGATION.search(text) is not None


@functools.lru_cache(4096)
def affirms(text: str) -> bool:
    """Whether a text says yes."""
    return _YES.search(text) is not None


def _facts(text: str) -> Counter[str]:
    return Counter(fact.lower().replace("-", " ") for fact in _FACT.findall(text))


def _roles(text: str, values: Sequence[str]) -> Counter[tuple[str, str]]:
    """Count how often each value follows each preposition, ignoring articles."""
    roles: Counter[tuple[str, str]] = Counter()
    for value, places in occurrences(text, values).items():
        for start, _ in places:
            words = [word for word in _WORD.findall(text[:start].lower()[-40:]) if word not in ("the", "a", "an")]
            role = words[-1] if words and _ROLE.fullmatch(words[-1]) else ""
            roles["until" if role == "till" else role, value] += 1
    return roles


def _matches(pattern: re.Pattern[str], text: str) -> set[str]:
    return set(pattern.findall(text.lower()))
