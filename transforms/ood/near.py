"""Near-duplicates: utterances that have, but for one word in five, the words of an in-domain turn.

They are found by a set-similarity join. Words are ordered from rare to frequent. Two sets of a Jaccard index of 0.8 or
more share so many words that two of those are among the first few of either (prefix filtering: Chaudhuri et al. 2006,
Bayardo et al. 2007; with several words: Wang, Li and Feng 2012, section 3). So each set has a signature for each pair
of words in its prefix, and only sets with a signature in common are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

import msgspec

from parapet.transforms.ood.texts import Domains

# Jaccard index of 4/5, as whole numbers: 0.8 itself is no binary fraction.
PART, WHOLE = 4, 5

# Of longer sets prefixes have many pairs; single words are rare enough there.
_LONGEST_OF_PAIRS = 40

Tokens = tuple[int, ...]  # the words of a text by rank, each once, ascending: from rare to frequent


class Text(msgspec.Struct, frozen=True, array_like=True):
    """What is compared: an in-domain turn, utterances of the pool with the same words, or both.

    Attributes:
      tokens: its words.
      spoken_in: the domains of each in-domain dialogue that has it.
      utterances: (id, domains) of utterances of the pool. With domains, only turns of dialogues that share none of them
        are looked at.
    """

    tokens: Tokens
    spoken_in: tuple[Domains, ...]
    utterances: tuple[tuple[int, Domains], ...]


def tokens_of(words: Iterable[str], ranks: Mapping[str, int]) -> Tokens:
    """The different words, by rank; those that no turn has get numbers below 0."""
    known, unknown = [], 0
    for word in set(words):
        rank = ranks.get(word)
        if rank is None:
            unknown += 1
        else:
            known.append(rank)
    return (*range(-unknown, 0), *sorted(known))


def least_shared(one: int, other: int) -> int:
    """How many words sets of two sizes share at least, if their Jaccard index is 0.8 or more."""
    return -(-PART * (one + other) // (PART + WHOLE))


def signatures(tokens: Tokens) -> Iterator[int]:
    """Numbers of which two sets with a Jaccard index of 0.8 have one in common; none for words that no turn has.

    Pairs of words decide where the smaller set has 2 to 40 words, else single ones: near that size a set has both.
    """
    size = len(tokens)
    least = -(-PART * size // WHOLE)  # words that it shares with any near-duplicate, at least
    if size == 1 or size > _LONGEST_OF_PAIRS:
        yield from (-1 - token for token in tokens[: size - least + 1] if token >= 0)
    if size > 1 and least <= _LONGEST_OF_PAIRS:
        for rare, frequent in combinations(tokens[: size - least + 2], 2):
            if rare >= 0:
                yield rare << 32 | frequent


def near_duplicates(texts: Sequence[Text]) -> Iterator[int]:
    """The ids of utterances that an in-domain turn resembles, given each set of words once."""
    signed = [list(signatures(text.tokens)) for text in texts]
    asked = {one for text, ones in zip(texts, signed, strict=True) if text.utterances for one in ones}
    turns = _Turns(texts)
    for i, (text, ones) in enumerate(zip(texts, signed, strict=True)):
        if text.spoken_in:
            turns.add(i, asked.intersection(ones))
    for text, ones in zip(texts, signed, strict=True):
        yield from (identity for identity, domains in text.utterances if turns.resemble(text.tokens, ones, domains))


class _Turns:
    """The in-domain turns by signature, then by the domains of their dialogues.

    Most turns that share words are of one domain: an utterance of that domain passes over all of them at once.
    """

    def __init__(self, texts: Sequence[Text]) -> None:
        self._texts = texts
        self._sets: dict[int, frozenset[int]] = {}
        self._kinds: dict[tuple[Domains, ...], int] = {}
        self._by_signature: dict[int, dict[int, list[int]]] = {}
        self._are_elsewhere: dict[Domains, dict[int, bool]] = {}  # by the domains of an utterance, then by kind

    def add(self, i: int, signatures_: Iterable[int]) -> None:
        kind = self._kinds.setdefault(self._texts[i].spoken_in, len(self._kinds))
        for one in signatures_:
            self._by_signature.setdefault(one, {}).setdefault(kind, []).append(i)

    def resemble(self, tokens: Tokens, signatures_: Iterable[int], domains: Domains) -> bool:
        are_elsewhere = self._are_elsewhere.setdefault(domains, {})
        words = frozenset(tokens)
        for one in signatures_:
            for kind, turns in self._by_signature.get(one, {}).items():
                if kind not in are_elsewhere:
                    are_elsewhere[kind] = _elsewhere(self._texts[turns[0]].spoken_in, domains)
                if are_elsewhere[kind] and any(self._is_near(words, i) for i in turns):
                    return True
        return False

    def _is_near(self, words: frozenset[int], i: int) -> bool:
        size, other = len(words), len(self._texts[i].tokens)
        if WHOLE * min(size, other) < PART * max(size, other):
            return False
        if i not in self._sets:
            self._sets[i] = frozenset(self._texts[i].tokens)
        return len(words & self._sets[i]) >= least_shared(size, other)


def _elsewhere(spoken_in: tuple[Domains, ...], domains: Domains) -> bool:
    """Whether one of several dialogues, given their domains, shares none with ``domains``."""
    return not domains or any(not {*domains} & {*of_dialogue} for of_dialogue in spoken_in)
