"""Paraphrase user turns (RADDLE, section 4) by translation there and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rapidfuzz.distance import Levenshtein

from parapet.transforms.perturbation.user_turns import UserTurn
from parapet.transforms.perturbations import gate
from parapet.transforms.perturbations.rewording import Anchor, Rewrite, anchors_of, reworded
from parapet.transforms.reports.text import words
from parapet.transforms.translation.memory import ENGLISH, by_languages, merge, read_memory

NOT_TRANSLATED = "not_translated"
_NOT_IN_MEMORY = ("", "not_in_memory: add a memory that contains the text")

Answer = tuple[str, str]  # a translation; or an empty string and the reason
Answers = Mapping[tuple[str, str, str], Answer]  # by source, target, text


def answers_in(memories: Sequence[str]) -> Answers:
    """Read translation memories. Raises InputError."""
    known = by_languages(merge(*map(read_memory, memories)))
    return {(*leg, text): (answer, "") for leg, texts in known.items() for text, answer in texts.items()}


def pivots_in(answers: Answers) -> list[str]:
    """Return the languages between which and English there are translations."""
    return sorted({target for source, target, _ in answers if source == ENGLISH})


def back_translated(user_turn: UserTurn, pivots: Sequence[str], answers: Answers) -> Rewrite:
    """Back-translate a turn through the first language that allows it, or return the reason why it is unchanged."""
    text = plain_text(user_turn)
    if not text:
        return Rewrite(reason="no_word")
    answer, why, pivot = "", "", ""
    for pivot in pivots:
        answer, why = _back(text, pivot, answers)
        if answer:
            break
    if not answer:
        return Rewrite(reason=f"{NOT_TRANSLATED}: {why}")
    rewrite = reworded(user_turn, answer, f"back_translation:{pivot}")
    if rewrite.reason:
        return rewrite
    if not _agrees(text, answer, pivot, answers):
        return Rewrite(reason="unstable")  # what came back is another text in the other language
    reason = gate.refusal(text, answer, gate.values_of(user_turn))
    return Rewrite(reason=reason) if reason else rewrite


def plain_text(user_turn: UserTurn) -> str:
    """Return the text that is translated; empty if a turn contains only values."""
    kept = anchors_of(user_turn)
    rest = with_texts(user_turn.utterance, kept, [""] * len(kept))
    return user_turn.utterance if not user_turn.wrong and any(map(str.isalpha, rest)) else ""


def with_texts(utterance: str, anchors: Sequence[Anchor], texts: Sequence[str]) -> str:
    """Replace the text of each anchor."""
    pieces, at = [], 0
    for anchor, text in zip(anchors, texts, strict=True):
        pieces += [utterance[at : anchor.start], text]
        at = anchor.end
    return "".join([*pieces, utterance[at:]])


def _back(text: str, pivot: str, answers: Answers) -> Answer:
    translation, why = answers.get((ENGLISH, pivot, text), _NOT_IN_MEMORY)
    return answers.get((pivot, ENGLISH, translation), _NOT_IN_MEMORY) if translation else ("", why)


def _agrees(text: str, answer: str, pivot: str, answers: Answers) -> bool:
    """Whether an answer's translation differs from the text's by at most a word, and translates back to the answer.

    Also true if that is not in the memory.
    """
    translated, again = (answers.get((ENGLISH, pivot, english), _NOT_IN_MEMORY)[0] for english in (text, answer))
    if not again:
        return True
    back, _ = answers.get((pivot, ENGLISH, again), _NOT_IN_MEMORY)
    return Levenshtein.distance(words(translated), words(again)) <= 1 and words(back) == words(answer)
