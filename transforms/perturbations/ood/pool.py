"""The pool of foreign utterances: distinct texts, and where each of them may be injected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import msgspec

from parapet.schemas.errors import InputError
from parapet.transforms.perturbations.ood.language import Domains, Languages, TurnContent, Vocabulary, key_of
from parapet.transforms.running.counts import Counts

LONGEST = 400  # characters; longer texts are not turns of a dialogue
MOST_IN_DOMAIN = 0.5  # maximum share of in-domain texts in a source

# The statuses of a source's texts: the key in statistics.json, and its meaning.
KEPT = "kept"
STATUSES = {
    KEPT: "may be injected",
    "near_duplicate": "shares at least four in five words with an in-domain turn (Jaccard index 0.8 or more)",
    "generic": (
        "could be said in any dialogue: it has fewer than three content words, all of which occur in in-domain turns"
    ),
    "answer": "answers the system, with yes, no, thanks or the like",
    "refers_back": 'refers to something said before it, as in "is it furnished?"',
    "understood": "has no word that is foreign to other domains, which may understand it",
    "too_long": f"more than {LONGEST} characters",
    "empty": "without words",
}
IN_DOMAIN = ("near_duplicate", "generic")


class Utterance(msgspec.Struct, frozen=True, order=True, array_like=True):
    """A foreign utterance.

    Attributes:
      key: its words, by which utterances are compared.
      source: its origin: file and line, or file, dialogue and turn.
      text: the original text, with single spaces.
      domains: the domains of the dialogues it comes from, if known.
      splits: the splits where it may be used; empty for all.
      about: domains where it must not be used: one of its words is typical of them, or they understand it.
      content: its content as a turn; only for the corpus's own utterances, until they are judged.
    """

    key: str
    source: str
    text: str
    domains: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    content: TurnContent | None = None


def utterance_of(
    text: str,
    source: str,
    domains: tuple[str, ...] = (),
    splits: tuple[str, ...] = (),
    content: TurnContent | None = None,
) -> Utterance:
    """Make an utterance of the pool."""
    return Utterance(key_of(text), source, " ".join(text.split()), domains, splits, content=content)


def merged(same: Iterable[Utterance]) -> Utterance:
    """Merge utterances with the same key: the first by source, with the domains and splits of all.

    The result is about the domains of all, and is an answer if one of them is.
    """
    same = list(same)
    if len(same) == 1:
        return same[0]
    every = sorted(same, key=lambda utterance: (utterance.source, utterance.text))
    domains = {domain for utterance in every for domain in utterance.domains}
    splits = {split for utterance in every for split in utterance.splits}
    contents = [utterance.content for utterance in every if utterance.content]
    content = None
    if contents:
        content = TurnContent(
            tuple(sorted({domain for turn in contents for domain in turn.domains})),
            tuple(sorted(set.intersection(*({*turn.words} for turn in contents)))),
            contents[0].slots,
            any(turn.answers for turn in contents),
            any(turn.refers_back for turn in contents),
        )
    return msgspec.structs.replace(
        every[0], domains=tuple(sorted(domains)), splits=tuple(sorted(splits)), content=content
    )


class Judgement(msgspec.Struct, array_like=True):
    """The decision on an utterance.

    Attributes:
      status: one of ``STATUSES``.
      utterance: the utterance, with the domains where it must not be used.
      unless_near: whether it becomes a near-duplicate if an in-domain turn resembles it.
      is_familiar: for other sources: whether all its content words occur in in-domain turns.
    """

    status: str
    utterance: Utterance
    unless_near: bool = False
    is_familiar: bool = False


def judged(utterance: Utterance, vocabulary: Vocabulary, languages: Languages | None) -> Judgement:
    """Judge an utterance, except for near-duplicates.

    Args:
      utterance: the utterance.
      vocabulary: the vocabulary of the corpus's turns.
      languages: the languages of the corpus's domains, if the utterance is its own.
    """
    if not utterance.key:
        return Judgement("empty", utterance)
    if len(utterance.text) > LONGEST:
        return Judgement("too_long", utterance)
    about = vocabulary.about(utterance.key)
    if languages is None or utterance.content is None:
        status = "generic" if vocabulary.is_generic(utterance.key) else KEPT
        utterance = msgspec.structs.replace(utterance, about=about)
        return Judgement(status, utterance, unless_near=True, is_familiar=vocabulary.is_familiar(utterance.key))
    if utterance.content.answers:
        return Judgement("answer", utterance)
    if not utterance.content.words:
        return Judgement("generic", utterance)
    if utterance.content.refers_back:
        return Judgement("refers_back", utterance)
    foreign_to = languages.foreign_to(utterance.content)
    if not foreign_to:
        return Judgement("understood", utterance)
    about = tuple(sorted(languages.domains.difference(foreign_to).union(about)))
    return Judgement(KEPT, msgspec.structs.replace(utterance, about=about, content=None), unless_near=True)


def pool_numbers(counts: Counts) -> dict[str, Any]:
    """Return the numbers of foreign utterances: read, distinct, and by status."""
    texts = counts.sum("texts")
    numbers = {status: counts.sum("pool", value=status) for status in STATUSES}
    in_domain = sum(numbers[status] for status in IN_DOMAIN)
    return {
        "utterances": counts.sum("source_rows"),
        "different": texts,
        **numbers,
        "familiar": counts.sum("familiar"),
        "in_domain_share": in_domain / texts if texts else None,
    }


def check_foreign(counts: Counts) -> None:
    """Raise InputError if a source is empty or mostly in-domain."""
    pool = pool_numbers(counts)
    share = pool["in_domain_share"]
    if not pool["different"]:
        raise InputError("contains no utterances", "--source")
    if share > MOST_IN_DOMAIN:
        raise InputError(
            f"is in-domain: {share:.0%} of its {pool['different']:,} different utterances are "
            f"near-duplicates of turns of the corpus ({pool['near_duplicate']:,}) or could be said in any of "
            f"its dialogues ({pool['generic']:,}); give another source",
            "--source",
        )


# Jaccard index of 4/5 as integers, since 0.8 has no exact binary representation.
PART, WHOLE = 4, 5

# Longer sets have too many pairs in their prefixes, and single words are rare enough there.
_LONGEST_OF_PAIRS = 40

Tokens = tuple[int, ...]  # the distinct words of a text by rank, from rare to frequent


class Compared(msgspec.Struct, frozen=True, array_like=True):
    """A set of words to compare: of an in-domain turn, of utterances in the pool, or of both.

    Attributes:
      tokens: its words.
      spoken_in: the domains of each dialogue with such an in-domain turn.
      utterances: (id, domains) of utterances in the pool. Those with domains are only compared with turns of dialogues
        that share none of them.
    """

    tokens: Tokens
    spoken_in: tuple[Domains, ...]
    utterances: tuple[tuple[int, Domains], ...]


def tokens_of(words: Iterable[str], ranks: Mapping[str, int]) -> Tokens:
    """Return the distinct words by rank; words that do not occur in turns get negative numbers."""
    known, unknown = [], 0
    for word in set(words):
        rank = ranks.get(word)
        if rank is None:
            unknown += 1
        else:
            known.append(rank)
    return (*range(-unknown, 0), *sorted(known))


def least_shared(one: int, other: int) -> int:
    """Return the minimum number of common words of two sets of these sizes with a Jaccard index of at least 0.8."""
    return -(-PART * (one + other) // (PART + WHOLE))


def signatures(tokens: Tokens) -> Iterator[int]:
    """Yield numbers such that two sets with a Jaccard index of 0.8 or more share at least one.

    They stand for pairs of words if the smaller set has 2 to 40 words, else for single words; sets near that size have
    both. Words that do not occur in turns are skipped.
    """
    size = len(tokens)
    least = -(-PART * size // WHOLE)  # minimum number of words shared with any near-duplicate
    if size == 1 or size > _LONGEST_OF_PAIRS:
        yield from (-1 - token for token in tokens[: size - least + 1] if token >= 0)
    if size > 1 and least <= _LONGEST_OF_PAIRS:
        for rare, frequent in combinations(tokens[: size - least + 2], 2):
            if rare >= 0:
                yield rare << 32 | frequent


def near_duplicates(texts: Sequence[Compared]) -> Iterator[int]:
    """Yield the ids of utterances that resemble an in-domain turn; each set of words must occur once."""
    signed = [list(signatures(text.tokens)) for text in texts]
    signatures_here = {
        signature for text, ones in zip(texts, signed, strict=True) if text.utterances for signature in ones
    }
    turns = _Turns(texts)
    for i, (text, ones) in enumerate(zip(texts, signed, strict=True)):
        if text.spoken_in:
            turns.add(i, signatures_here.intersection(ones))
    for text, ones in zip(texts, signed, strict=True):
        yield from (identity for identity, domains in text.utterances if turns.resemble(text.tokens, ones, domains))


class _Turns:
    """The in-domain turns by signature, then by the domains of their dialogues.

    Most turns that share words are of one domain, so an utterance of that domain skips all of them at once.
    """

    def __init__(self, texts: Sequence[Compared]) -> None:
        self._texts = texts
        self._sets: dict[int, frozenset[int]] = {}
        self._kinds: dict[tuple[Domains, ...], int] = {}
        self._by_signature: dict[int, dict[int, list[int]]] = {}
        self._are_elsewhere: dict[Domains, dict[int, bool]] = {}  # by the domains of an utterance, then by kind

    def add(self, i: int, signatures_: Iterable[int]) -> None:
        kind = self._kinds.setdefault(self._texts[i].spoken_in, len(self._kinds))
        for signature in signatures_:
            self._by_signature.setdefault(signature, {}).setdefault(kind, []).append(i)

    def resemble(self, tokens: Tokens, signatures_: Iterable[int], domains: Domains) -> bool:
        are_elsewhere = self._are_elsewhere.setdefault(domains, {})
        words = frozenset(tokens)
        for signature in signatures_:
            for kind, turns in self._by_signature.get(signature, {}).items():
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
    """Whether at least one of several dialogues, given by their domains, shares none with ``domains``."""
    return not domains or any(not {*domains} & {*of_dialogue} for of_dialogue in spoken_in)
