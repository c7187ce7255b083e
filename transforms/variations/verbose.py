"""A turn said at more length: a sentence before it, one after it, hedges and full forms inside (RADDLE, section 4).

What is added says nothing: no value, no wish. The turn's own words stay in their order.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from functools import cache
from importlib import resources

from transforms.perturb.drawing import ALL, draws
from transforms.perturb.protected import touches, value_ranges
from transforms.perturb.typos import Draw, Operation
from transforms.variations.said import Said

# Of several acts, the one that a turn begins with, and the one that it ends with.
_FIRST = (
    *("NEGATE_INTENT", "AFFIRM_INTENT", "NEGATE", "AFFIRM", "GOODBYE", "SELECT", "REQUEST_ALTS"),
    *("THANK_YOU", "INFORM_INTENT", "INFORM", "REQUEST"),
)
_LAST = (
    *("GOODBYE", "THANK_YOU", "REQUEST", "REQUEST_ALTS", "INFORM_INTENT", "INFORM"),
    *("AFFIRM_INTENT", "NEGATE_INTENT", "NEGATE", "SELECT", "AFFIRM"),
)

_GREETING = re.compile(r"\W*(?:hi|hello|hey|greetings|good (?:morning|afternoon|evening|day))\b", re.IGNORECASE)
_ENDS = ".!?…"
_OPEN_ENDS = ",;:-–—("  # a turn that ends so goes on: nothing can stand behind it

_S = r"(?:^|(?<=[.,!?] ))"  # where a sentence or clause begins
# (kind, what, by what): the first letter keeps its case.
_RULES = tuple(
    (kind, re.compile(pattern, re.IGNORECASE), text)
    for kind, pattern, text in (
        ("hedge", r"\bI want(?= (?:to|an?|the)\b)", "I think I want"),
        ("hedge", r"\bI need(?= (?:to|an?|the)\b)", "I think I need"),
        ("hedge", r"\bcan you(?= (?:find|show|tell|give|get|search|check|book|reserve|suggest|recommend|help)\b)",
         "would you be able to"),
        ("hedge", _S + r"please(?= (?:find|show|tell|give|search|check|book|reserve|suggest|make|confirm)\b)",
         "if it is not too much trouble, please"),
        ("full_form", r"\bI['’]m\b", "I am"),
        ("full_form", r"\bI['’]d(?= (?:like|love|prefer|rather|also like)\b)", "I would"),
        ("full_form", r"\bI['’]ll\b", "I will"),
        ("full_form", r"\bI['’]ve\b", "I have"),
        ("full_form", r"\b(?:we|you|they)(['’])re\b", ""),
        ("full_form", r"\bwhat['’]s(?= (?:the|their|its|your|my)\b)", "what is"),
        ("full_form", r"\bthat['’]s(?! (?:been|got)\b)", "that is"),
        ("full_form", r"\bit['’]s(?= (?:an?|the|not|in|for|fine|good|great|perfect|okay|correct|right)\b)", "it is"),
        ("full_form", r"(?<=\bI )don['’]t\b", "do not"),
        ("full_form", r"(?<=\bI )can['’]t\b", "cannot"),
        ("full_form", r"\bgonna\b", "going to"),
        ("full_form", r"\bwanna(?= [a-z])", "want to"),
        ("full_form", _S + r"thanks(?= for\b|[.,!]|$)", "thank you"),
    )
)  # fmt: skip


@cache
def phrases() -> dict[str, dict[str, tuple[str, ...]]]:
    """``openers`` and ``closers``, by act; of any other act ``OTHER``."""
    text = resources.files("transforms.variations").joinpath("phrases.toml").read_text(encoding="utf-8")
    return {side: {act: tuple(some) for act, some in of.items()} for side, of in tomllib.loads(text).items()}


def verbose_operations(said: Said, key: bytes) -> tuple[list[Operation], str]:
    """What makes a turn longer, in order; where there is nothing, the reason."""
    utterance = said.utterance
    if not any(map(str.isalpha, utterance)):
        return [], "no_word"
    draw = draws(key).__next__
    before, after = _opener(said, draw), _closer(said, draw)
    if before and after:
        which = draw() * 4 // ALL  # both of two turns in four, else one of them
        before, after = (None if which == 1 else before), (None if which == 0 else after)
    inside = _inside(said, draw)
    operations = [one for one in (before, *inside, after) if one is not None]
    return operations, "" if operations else "no_rule"


def _act(acts: frozenset[str], order: Sequence[str]) -> str:
    return next((act for act in order if act in acts), "OTHER")


def _opener(said: Said, draw: Draw) -> Operation | None:
    number = draw()
    first = said.utterance[0]
    # An accent of its own, or what joins emoji, would fasten on to the sentence before it.
    if _GREETING.match(said.utterance) or first.isspace() or not (first.isascii() or first.isalnum()):
        return None
    text = _phrase(phrases()["openers"][_act(said.acts, _FIRST)], said, number)
    return Operation(0, 0, f"{text} ", "opener", "") if text else None


def _closer(said: Said, draw: Draw) -> Operation | None:
    number = draw()
    end = len(said.utterance.rstrip())
    last = said.utterance[end - 1]
    # Behind an emoji or a quotation mark nobody can say whether the sentence has ended.
    if last in _OPEN_ENDS or not (last in _ENDS or last.isalnum()):
        return None
    text = _phrase(phrases()["closers"][_act(said.acts, _LAST)], said, number)
    stop = "" if last in _ENDS else "."
    return Operation(end, end, f"{stop} {text}", "closer", "") if text else None


def _phrase(some: Sequence[str], said: Said, number: int) -> str:
    """The drawn phrase, or the next one that has no value of the dialogue in it."""
    first = number * len(some) // ALL
    for phrase in (*some[first:], *some[:first]):
        if not value_ranges(phrase, said.values) and phrase not in said.utterance:
            return phrase
    return ""


def _inside(said: Said, draw: Draw) -> list[Operation]:
    kept = said.protected()
    found: list[Operation] = []
    hedged = draw() * 2 // ALL == 0
    for kind, pattern, text in _RULES:
        if kind == "hedge" and not hedged:
            continue
        for match in pattern.finditer(said.utterance):
            start, end = match.span()
            if start == end or touches(start, end, [*kept, *((one.start, one.end) for one in found)]):
                continue
            before = match[0]
            after = text or f"{before[: match.start(1) - start]} are"
            found.append(Operation(start, end, _cased(before, after), kind, before))
    return sorted(found)


def _cased(before: str, after: str) -> str:
    """``after`` with a capital where ``before`` has one."""
    return after[0].upper() + after[1:] if before[0].isupper() else after
