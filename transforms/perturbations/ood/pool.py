"""The pool of foreign utterances: distinct texts, and where each of them may be injected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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


def near_duplicates(texts: Sequence[Compared]) -> Iterator[int]:
    """Yield the ids of utterances with a Jaccard index of 0.8 or more to an in-domain turn of another domain.

    Each set of words must occur once. Two such sets share one of the first, rarest words of each
    (Chaudhuri et al. 2006, prefix filtering).
    """
    turns: dict[int, list[Compared]] = {}
    for text in texts:
        for token in _rarest(text.tokens) if text.spoken_in else ():
            turns.setdefault(token, []).append(text)
    for text in texts:
        if not text.utterances:
            continue
        words = frozenset(text.tokens)
        near = {
            domains
            for token in _rarest(text.tokens)
            for turn in turns.get(token, ())
            if _is_near(words, turn.tokens)
            for domains in turn.spoken_in
        }
        for identity, own in text.utterances:
            if any(not {*own} & {*domains} for domains in near):
                yield identity


def _rarest(tokens: Tokens) -> Tokens:
    """Return the words of which one is shared with any near-duplicate."""
    return tokens[: len(tokens) // 5 + 1]


def _is_near(words: frozenset[int], tokens: Tokens) -> bool:
    """Whether the Jaccard index is at least 4/5, in integers, since 0.8 has no exact binary representation."""
    size, other = len(words), len(tokens)
    return 5 * min(size, other) >= 4 * max(size, other) and 9 * len(words.intersection(tokens)) >= 4 * (size + other)
