"""What an engine would be asked for, before it is: texts, characters, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from parapet.schemas.dialogue_files import DialogueFile
from parapet.schemas.errors import InputError
from parapet.transforms.back_translate.composing import ENGLISH
from parapet.transforms.back_translate.legs import Known
from parapet.transforms.corpora import dialogues_of
from parapet.transforms.user_turns import user_turns
from parapet.transforms.variations.kinds import Settings
from parapet.transforms.variations.paraphrase import hidden, hidden_text, pivot_of, plain_text
from parapet.transforms.variations.translated import known_answers


class Estimate(msgspec.Struct, frozen=True):
    """Of one pivot.

    Attributes:
      texts: user turns as they are, each text once.
      asked: texts to ask for, both ways.
      characters: of these; the way back is taken to be as long as the way there.
      more: texts to ask for at most besides, without their values, where those are lost on the way.
      more_characters: of these.
    """

    texts: int
    asked: int
    characters: int
    more: int
    more_characters: int


def estimate(files: Iterable[DialogueFile], settings: Settings, known: Known) -> dict[str, Estimate]:
    """Pivot to what it asks for. Files that cannot be read are passed over, the run says so."""
    plain: dict[str, set[str]] = {pivot: set() for pivot in settings.pivots}
    certain: dict[str, set[str]] = {pivot: set() for pivot in settings.pivots}
    perhaps: dict[str, set[str]] = {pivot: set() for pivot in settings.pivots}
    answers = dict(known_answers(known, settings.pivots))
    for file in files:
        try:
            for _, _, _, dialogue in dialogues_of(file):
                for said in () if isinstance(dialogue, InputError) else user_turns(dialogue):
                    pivot = pivot_of(said, settings.pivots, settings.seed)
                    if not (text := plain_text(said)):
                        continue
                    plain[pivot].add(text)
                    if _is_known(text, pivot, known):
                        if again := hidden_text(said, pivot, answers):
                            certain[pivot].add(again)
                    elif (form := hidden(said)).values:
                        perhaps[pivot].add(form.text)
        except InputError:
            continue
    return {pivot: _of(pivot, plain[pivot], certain[pivot], perhaps[pivot], known) for pivot in settings.pivots}


def _of(pivot: str, plain: set[str], certain: set[str], perhaps: set[str], known: Known) -> Estimate:
    asked, characters = _missing(plain | certain, pivot, known)
    more, more_characters = _missing(perhaps - plain - certain, pivot, known)
    return Estimate(len(plain), asked, characters, more, more_characters)


def _missing(texts: set[str], pivot: str, known: Known) -> tuple[int, int]:
    """How many texts are to be asked for, there and back, and their characters."""
    there = {text for text in texts if text not in known.of(ENGLISH, pivot)}
    translated = {known.of(ENGLISH, pivot)[text] for text in texts - there}
    back = translated - known.of(pivot, ENGLISH).keys()
    return 2 * len(there) + len(back), 2 * sum(map(len, there)) + sum(map(len, back))


def _is_known(text: str, pivot: str, known: Known) -> bool:
    there = known.of(ENGLISH, pivot).get(text)
    return there is not None and there in known.of(pivot, ENGLISH)


def plan_lines(found: Mapping[str, Estimate], dollars_per_million: float) -> list[str]:
    """The estimate in words, a line each."""
    lines, total, most = [], 0, 0
    for pivot, of in found.items():
        lines.append(
            f"{pivot}: {of.texts:,} user turns, each text once; {of.asked:,} texts to ask for there and back, about "
            f"{of.characters:,} characters, and up to {of.more:,} without their values, {of.more_characters:,}"
        )
        total += of.characters
        most += of.characters + of.more_characters
    cost, most_cost = (f"${size * dollars_per_million / 1e6:,.2f}" for size in (total, most))
    return [*lines, f"{total:,} to {most:,} characters, {cost} to {most_cost}; nothing was asked or written"]
