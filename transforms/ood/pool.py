"""The pool of foreign utterances: each text once, and which of them may be injected where."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from parapet.schemas.errors import InputError, is_unicode
from parapet.transforms.counts import Counts
from parapet.transforms.ood.language import Languages, TurnContent
from parapet.transforms.ood.texts import Vocabulary, key_of

LONGEST = 400  # characters; what is longer is no turn of a dialogue
MOST_IN_DOMAIN = 0.5  # of the texts of a source

# What becomes of a text of the source: the key in statistics.json, and what it means.
KEPT = "kept"
STATUSES = {
    KEPT: "may be injected",
    "near_duplicate": "has the words of an in-domain turn, but for one in five (Jaccard index 0.8 or more)",
    "generic": "could be said in any dialogue: it has fewer than three content words, and in-domain turns have those",
    "answer": "answers the system, with yes, no, thanks or the like",
    "understood": "has no word that is foreign to other domains, which may understand it",
    "too_long": f"over {LONGEST} characters",
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
        raise InputError("has no utterances", "--source")
    if share > MOST_IN_DOMAIN:
        raise InputError(
            f"is in-domain: {share:.0%} of its {pool['different']:,} different utterances are near-duplicates of turns "
            f"of the corpus ({pool['near_duplicate']:,}) or could be said in any of its dialogues "
            f"({pool['generic']:,}); give another",
            "--source",
        )
