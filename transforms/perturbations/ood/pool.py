"""The pool of foreign utterances: each text once, and which of them may be injected where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import msgspec

from parapet.schemas.errors import InputError, is_unicode
from parapet.transforms.perturbations.ood.language import Domains, Languages, TurnContent, Vocabulary, key_of
from parapet.transforms.running.counts import Counts

LONGEST = 400  # characters; what is longer is no turn of a dialogue
MOST_IN_DOMAIN = 0.5  # of the texts of a source

# What becomes of a text of the source: the key in statistics.json, and what it means.
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
    """A foreign utterance: one that comes from elsewhere.

    Attributes:
      key: its words; utterances with the same words are the same.
      source: where it is from: file and line, or file, dialogue and turn.
      text: as it is there, with single spaces.
      domains: of the dialogues it is from, where they are known.
      splits: the splits that may have it; empty where any may.
      about: domains that may not have it: one of its words is typical of them, or they understand it.
      content: what it says as a turn; only for those of the corpus itself, until they are judged.
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
    """An utterance as the pool has it."""
    return Utterance(key_of(text), source, " ".join(text.split()), domains, splits, content=content)


def merged(same: Iterable[Utterance]) -> Utterance:
    """One of the utterances with the same key: the first by source, with the domains and splits of all.

    It speaks of the domains of all, too, and answers where one of them does.
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
    """What becomes of an utterance.

    Attributes:
      status: one of ``STATUSES``.
      utterance: with the domains that may not have it.
      unless_near: whether it is a near-duplicate instead where an in-domain turn resembles it.
      is_familiar: of another source: whether in-domain turns have each of its content words.
    """

    status: str
    utterance: Utterance
    unless_near: bool = False
    is_familiar: bool = False


def judged(utterance: Utterance, vocabulary: Vocabulary, languages: Languages | None) -> Judgement:
    """What becomes of an utterance, but for the near-duplicates.

    Args:
      utterance: the utterance.
      vocabulary: of the turns of the corpus.
      languages: of the corpus's domains, where the utterance is its own.
    """
    if not utterance.key or not is_unicode(utterance.text):
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
    """The foreign utterances: how many were read, how many are different, and what becomes of those."""
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
    """Raises InputError where a source is empty, or most of it is in-domain."""
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


# Jaccard index of 4/5, as whole numbers: 0.8 itself is no binary fraction.
PART, WHOLE = 4, 5

# Of longer sets prefixes have many pairs; single words are rare enough there.
_LONGEST_OF_PAIRS = 40

Tokens = tuple[int, ...]  # the words of a text by rank, each once, ascending: from rare to frequent


class Compared(msgspec.Struct, frozen=True, array_like=True):
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


def near_duplicates(texts: Sequence[Compared]) -> Iterator[int]:
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

    def __init__(self, texts: Sequence[Compared]) -> None:
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
