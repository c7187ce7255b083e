"""A longer turn: a filler before it, one after it, full forms inside (verbosity of RADDLE, section 4).

A filler says nothing, and its words are drawn from a hash of seed, dialogue and turn alone: neither what the turn says
nor how it is annotated has a part in it, so that nobody can tell an act or a label by it. The turn's own words stay in
their order.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from functools import cache
from importlib import resources

import msgspec

from parapet.transforms.perturbation.user_turns import Ranges, UserTurn, value_ranges
from parapet.transforms.perturbations.typos import Draw, Operation
from parapet.transforms.running.seeding import DRAW_LIMIT, draws

_GREETING = re.compile(
    r"\W*(?:hi|hello|hey|greetings|good (?:morning|afternoon|evening|day))(?: there)?\b(?P<stop>[.!]*)(?P<gap>,?\s*)",
    re.IGNORECASE,
)
# A sentence that asks, where no mark says so.
_ASKS = re.compile(
    r"(?:(?:and|also|so|but|okay|ok|yes|no)\b,? )?"
    r"(?:what|where|when|which|who|whose|why|how|is|are|was|does|do|did|can|could|may|might|will|would|should|has|have)"
    r"(?:['’]s)?\b",
    re.IGNORECASE,
)
_ENDS = ".!?…"
_OPEN_ENDS = ",;:-–—("  # a turn that ends so goes on: nothing can stand behind it
_TRIES = 8  # for a filler without a value of the dialogue

_S = r"(?:^|(?<=[.,!?] ))"  # where a sentence or clause begins
# (what, by what): the first letter keeps its case.
_FULL_FORMS = tuple(
    (re.compile(pattern, re.IGNORECASE), text)
    for pattern, text in (
        (r"\bI['’]m\b", "I am"),
        (r"\bI['’]d(?= (?:like|love|prefer|rather|also like)\b)", "I would"),
        (r"\bI['’]ll\b", "I will"),
        (r"\bI['’]ve\b", "I have"),
        (r"\b(?:we|you|they)(['’])re\b", ""),
        (r"\bwhat['’]s(?= (?:the|their|its|your|my)\b)", "what is"),
        (r"\bthat['’]s(?! (?:been|got)\b)", "that is"),
        (r"\bit['’]s(?= (?:an?|the|not|in|for|fine|good|great|perfect|okay|correct|right)\b)", "it is"),
        (r"(?<=\bI )don['’]t\b", "do not"),
        (r"(?<=\bI )can['’]t\b", "cannot"),
        (r"\bgonna\b", "going to"),
        (r"\bwanna(?= [a-z])", "want to"),
        (_S + r"thanks(?= for\b|[.,!]|$)", "thank you"),
    )
)  # fmt: skip


class Grammar(msgspec.Struct, frozen=True):
    """What fillers of one side, before or behind a turn, are made of; see ``phrases.toml``."""

    starts: tuple[str, ...]
    sentences: tuple[str, ...]
    adverbs: tuple[str, ...]
    tails: tuple[str, ...]

    def filler(self, draw: Draw) -> str:
        """A sentence with a start, a tail or both; in two of three that have a place for an adverb, with one."""
        sentence = _drawn(self.sentences, draw)
        adverb = _drawn(self.adverbs, draw) if draw() * 3 // DRAW_LIMIT else ""
        sentence = " ".join(sentence.replace("{}", adverb).split())
        start, tail = _drawn(self.starts, draw), _drawn(self.tails, draw)
        sides = draw() * 3 // DRAW_LIMIT
        start, tail = "" if sides == 1 else start, "" if sides == 0 else tail
        text = ", ".join(filter(None, (start, sentence, tail)))
        return f"{text[0].upper()}{text[1:]}."


@cache
def grammar(side: str) -> Grammar:
    """Of ``opener`` or ``closer``."""
    text = resources.files("parapet.transforms.perturbations").joinpath("phrases.toml").read_text(encoding="utf-8")
    parts = tomllib.loads(text)
    own = parts[side]
    sentences = (*parts["sentences"], *own["sentences"])
    return Grammar(tuple(own["starts"]), sentences, tuple(parts["adverbs"]), tuple(parts["tails"]))


def _drawn(parts: Sequence[str], draw: Draw) -> str:
    return parts[draw() * len(parts) // DRAW_LIMIT]


def verbose_operations(user_turn: UserTurn, key: bytes) -> tuple[list[Operation], str]:
    """What makes a turn longer, in order; where there is nothing, the reason.

    Which sides have a filler, and which filler, is drawn from the key alone. Of what the turn says only its outer form
    counts: where a filler can stand.
    """
    utterance = user_turn.utterance
    if not any(map(str.isalpha, utterance)):
        return [], "no_word"
    draw = draws(key).__next__
    sides = draw() * 4 // DRAW_LIMIT  # both of two turns in four, else one of them
    kept = Ranges(user_turn.protected())
    before, after = (
        _opener(user_turn, _filler("opener", user_turn, draw), kept),
        _closer(user_turn, _filler("closer", user_turn, draw), kept),
    )
    if before and after:
        before, after = (None if sides == 1 else before), (None if sides == 0 else after)
    inside = _inside(user_turn, kept, before)
    operations = [one for one in (before, *inside, after) if one is not None]
    return sorted(operations), "" if operations else "no_rule"


def _filler(side: str, user_turn: UserTurn, draw: Draw) -> str:
    """A drawn filler that has no value of the dialogue in it, and is no part of the turn."""
    for _ in range(_TRIES):
        text = grammar(side).filler(draw)
        if not value_ranges(text, user_turn.values) and text not in user_turn.utterance:
            return text
    return ""


def _opener(user_turn: UserTurn, text: str, kept: Ranges) -> Operation | None:
    """Before the turn, or between its greeting and what follows."""
    utterance = user_turn.utterance
    # An accent of its own, or what joins emoji, would fasten on to the sentence before it.
    if not text or utterance[0].isspace() or not (utterance[0].isascii() or utterance[0].isalnum()):
        return None
    greeting = _GREETING.match(utterance)
    if greeting is None or kept.touch(*greeting.span()):
        return Operation(0, 0, f"{text} ", "opener", "")
    at = greeting.end()
    rest = utterance[at : at + 1]
    if not (greeting["gap"] and rest.isascii() and rest.isalnum()):
        return None  # it is all that the turn says, or nobody can say where it ends
    if greeting["stop"]:
        return Operation(at, at, f"{text} ", "opener", "")
    start, end = greeting.start("gap"), at + rest.islower()
    return Operation(start, end, f". {text} {rest.upper() * rest.islower()}", "opener", utterance[start:end])


def _closer(user_turn: UserTurn, text: str, kept: Ranges) -> Operation | None:
    end = len(user_turn.utterance.rstrip())
    if end < len(user_turn.utterance) and kept.touch(end, len(user_turn.utterance)):
        return None  # a value ends in the space behind the sentence
    last = user_turn.utterance[end - 1]
    # Behind an emoji or a quotation mark nobody can say whether the sentence has ended.
    if not text or last in _OPEN_ENDS or not (last in _ENDS or last.isalnum()):
        return None
    sentence = re.split(r"[.!?…]\s+", user_turn.utterance)[-1]
    stop = "" if last in _ENDS else "?" if _ASKS.match(sentence) else "."
    return Operation(end, end, f"{stop} {text}", "closer", "")


def _inside(user_turn: UserTurn, kept: Ranges, opener: Operation | None) -> list[Operation]:
    taken = kept
    if opener and opener.end:
        taken.add(opener.start, opener.end)
    operations: list[Operation] = []
    for pattern, text in _FULL_FORMS:
        for match in pattern.finditer(user_turn.utterance):
            start, end = match.span()
            if start == end or taken.touch(start, end):
                continue
            before = match[0]
            after = text or f"{before[: match.start(1) - start]} are"
            operations.append(Operation(start, end, _cased(before, after), "full_form", before))
            taken.add(start, end)
    return operations


def _cased(before: str, after: str) -> str:
    """``after`` with a capital where ``before`` has one."""
    return after[0].upper() + after[1:] if before[0].isupper() else after
