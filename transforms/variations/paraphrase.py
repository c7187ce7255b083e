"""A turn through another language and back: RADDLE's paraphrases (section 4) without a crowd.

First the turn is translated as it is. Where a value does not come back letter for letter, the turn is translated once
more with stand-ins for its values (``X1``), which engines carry through. What comes back is taken where every value is
in it, where it is no copy, and where it denies and affirms as the turn does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from parapet.transforms.seeding import DRAW_LIMIT, draws, key_of
from parapet.transforms.translation.local import PARAPHRASED
from parapet.transforms.translation.memory import ENGLISH
from parapet.transforms.user_turns import UserTurn
from parapet.transforms.variations.places import LOST, UNCLEAR, Anchor, anchors_of
from parapet.transforms.variations.rewording import Made, reworded

NOT_TRANSLATED, MEANING = "not_translated", "meaning"
NOT_IN_MEMORY = "not_in_memory: add a --memory that has the text, or choose another --engine"
KIND = "back_translated"  # of the operations

Leg = tuple[str, str, str]  # source, target, text
Answer = tuple[str, str]  # the translation, or nothing and the reason
Answers = Mapping[Leg, Answer]

_STAND_INS = "XZQKVJ"

_NEGATION = re.compile(
    r"\b(?:no|not|nope|nah|never|none|nothing|nobody|nowhere|neither|nor|without|cannot|cant|dont|wont)\b|n['’]t\b",
    re.IGNORECASE,
)
# What says yes anywhere; and what does so as a sentence of its own.
_YES = re.compile(
    r"\b(?:yes|yeah|yea|yep|yup|ok|okay|okey|alright)\b"
    r"|(?:^|[.,;!?] *)(?:sure|right|correct|exactly|absolutely|certainly|definitely|of course|agreed|all right|fine)"
    r"(?= *(?:[.,;!?]|$))"
    r"|\b(?:that|it)(?:['’]s| is) (?:right|correct)\b",
    re.IGNORECASE,
)


class Hidden(msgspec.Struct, frozen=True):
    """A turn with stand-ins for its values: the text, and what each stands for."""

    text: str
    values: Mapping[str, str]


def pivot_of(user_turn: UserTurn, pivots: Sequence[str], seed: str) -> str:
    """The language that a turn goes through: one of them, drawn."""
    key = key_of(seed, "pivot", user_turn.dialogue_id, str(user_turn.position))
    return pivots[next(draws(key)) * len(pivots) // DRAW_LIMIT]


def plain_text(user_turn: UserTurn) -> str:
    """What is translated first; nothing where a turn says values at most."""
    kept = anchors_of(user_turn)
    rest = _with(user_turn.utterance, kept, [""] * len(kept))
    return user_turn.utterance if not user_turn.wrong and any(map(str.isalpha, rest)) else ""


def hidden_text(user_turn: UserTurn, pivot: str, answers: Answers) -> str:
    """What is translated besides, since a value was lost on the way; else nothing."""
    text = plain_text(user_turn)
    if not text:
        return ""
    answer, _ = back_of(text, pivot, answers)
    return hidden(user_turn).text if answer and _lost(_taken(user_turn, answer, pivot)) else ""


def paraphrased(user_turn: UserTurn, pivot: str, answers: Answers) -> Made:
    """A turn as it came back, or why it is as it was."""
    text = plain_text(user_turn)
    if not text:
        return Made(reason="no_word")
    answer, why = back_of(text, pivot, answers)
    if not answer:
        return Made(reason=f"{NOT_TRANSLATED}: {why}")
    made = _taken(user_turn, answer, pivot)
    if not _lost(made):
        return made
    form = hidden(user_turn)
    answer, why = back_of(form.text, pivot, answers)
    if not answer:
        return made if why == NOT_IN_MEMORY else Made(reason=f"{NOT_TRANSLATED}: {why}")
    shown = revealed(answer, form)
    return made if shown is None else _taken(user_turn, shown, pivot)


def back_of(text: str, pivot: str, answers: Answers) -> Answer:
    """What came of a text, there and back; or nothing, and the reason."""
    there, why = answers.get((ENGLISH, pivot, text), ("", NOT_IN_MEMORY))
    return answers.get((pivot, ENGLISH, there), ("", NOT_IN_MEMORY)) if there else ("", why)


def hidden(user_turn: UserTurn) -> Hidden:
    """The turn with a stand-in for each value."""
    anchors = anchors_of(user_turn)
    letter = next((one for one in _STAND_INS if not re.search(rf"{one}\d", user_turn.utterance)), _STAND_INS[0])
    names = [f"{letter}{i}" for i in range(1, len(anchors) + 1)]
    values = [user_turn.utterance[one.start : one.end] for one in anchors]
    return Hidden(_with(user_turn.utterance, anchors, names), dict(zip(names, values, strict=True)))


def revealed(text: str, form: Hidden) -> str | None:
    """A text with the values in the place of the stand-ins; None where one is not there exactly once."""
    found = re.findall(r"(?<!\w)[A-Z]\d+(?!\w)", text)
    if sorted(name for name in found if name in form.values) != sorted(form.values):
        return None
    return re.sub(r"(?<!\w)[A-Z]\d+(?!\w)", lambda name: form.values.get(name[0], name[0]), text)


def _with(utterance: str, anchors: Sequence[Anchor], texts: Sequence[str]) -> str:
    pieces, at = [], 0
    for one, text in zip(anchors, texts, strict=True):
        pieces += [utterance[at : one.start], text]
        at = one.end
    return "".join([*pieces, utterance[at:]])


def _taken(user_turn: UserTurn, answer: str, pivot: str) -> Made:
    source = "checkpoint" if pivot == PARAPHRASED else f"back_translation:{pivot}"
    made = reworded(user_turn, answer, KIND, source)
    before = user_turn.utterance
    if made.operations and (denies(answer) != denies(before) or affirms(answer) != affirms(before)):
        return Made(reason=MEANING)
    return made


def denies(text: str) -> bool:
    """Whether a text has a negation."""
    return _NEGATION.search(text) is not None


def affirms(text: str) -> bool:
    """Whether a text says yes."""
    return _YES.search(text) is not None


def _lost(made: Made) -> bool:
    return made.reason.startswith((LOST, UNCLEAR))
