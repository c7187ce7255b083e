"""Answers that say the same in the same words, and which of them is spelled best."""

from __future__ import annotations

from parapet.transforms.crowd import lexicon


def spelling_rank(canonical: str, words: tuple[str, ...], typed: str) -> tuple[int, ...]:
    """Sorts the better-spelled of two answers with the same words first; smaller is better.

    Unknown words, then shouting, then no capital at the beginning, then brackets or quotes left open, then what had
    to be mended to get from what was typed to what is emitted.
    """
    letters = [c for c in canonical if c.isalpha()]
    shouted = len(letters) > 4 and all(c.isupper() for c in letters)
    capitals = sum(c.isupper() for c in canonical[1:])
    open_pairs = abs(canonical.count("(") - canonical.count(")")) + canonical.count('"') % 2
    return (
        len(lexicon.unknown_words(words)),
        int(shouted),
        int(not canonical[:1].isupper()),
        open_pairs,
        capitals,
        int(canonical[-1:] in ".,;:"),
        int(typed != canonical),
    )
