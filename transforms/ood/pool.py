"""The pool of foreign utterances: each text once, and what becomes of it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from parapet.schemas.errors import is_unicode
from parapet.transforms.ood.language import Languages, Saying
from parapet.transforms.ood.texts import InDomain, key_of

LONGEST = 400  # characters; what is longer is no turn of a dialogue

# What becomes of a different text of the source.
KEPT = "kept"
STATUSES = (KEPT, "near_duplicate", "generic", "answer", "understood", "too_long", "empty")
IN_DOMAIN = ("near_duplicate", "generic")


class Foreign(msgspec.Struct, frozen=True, order=True):
    """An utterance that comes from elsewhere.

    Attributes:
      key: its words; utterances with the same are the same.
      source: where it stands: file and line, or file, dialogue and turn.
      text: as it stands there, with single blanks.
      domains: of the dialogues it stands in, where they are known.
      splits: the splits that may have it; nothing where any may.
      about: domains that may not have it: one of its words is typical of them, or they understand it.
      said: what is known of it as a turn; only of the corpus's own, until it is judged.
    """

    key: str
    source: str
    text: str
    domains: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    said: Saying | None = None


def foreign(
    text: str, source: str, domains: tuple[str, ...] = (), splits: tuple[str, ...] = (), said: Saying | None = None
) -> Foreign:
    """An utterance as the pool has it."""
    return Foreign(key_of(text), source, " ".join(text.split()), domains, splits, said=said)


def merged(same: Iterable[Foreign]) -> Foreign:
    """One of the utterances with the same key: the first by source, with the domains and splits of all.

    It speaks of the domains of all, too, and answers where one of them does.
    """
    every = sorted(same, key=lambda one: (one.source, one.text))
    domains = {domain for one in every for domain in one.domains}
    splits = {split for one in every for split in one.splits}
    sayings = [one.said for one in every if one.said]
    said = None
    if sayings:
        said = Saying(
            tuple(sorted({domain for one in sayings for domain in one.domains})),
            tuple(sorted(set.intersection(*({*one.content} for one in sayings)))),
            sayings[0].slots,
            any(one.answers for one in sayings),
        )
    return msgspec.structs.replace(every[0], domains=tuple(sorted(domains)), splits=tuple(sorted(splits)), said=said)


def judged(one: Foreign, in_domain: InDomain, languages: Languages | None) -> tuple[str, Foreign]:
    """What becomes of an utterance, see ``STATUSES``; and the utterance, with the domains that may not have it.

    Args:
      one: the utterance.
      in_domain: the turns of the corpus. For an utterance of its own, only those of dialogues that share no domain
        with it count.
      languages: of the corpus's domains, where the utterance is its own.
    """
    if not one.key or not is_unicode(one.text):
        return "empty", one
    if len(one.text) > LONGEST:
        return "too_long", one
    about = in_domain.about(one.key)
    if languages is None or one.said is None:
        if in_domain.is_near(one.key):
            return "near_duplicate", one
        return "generic" if in_domain.is_generic(one.key) else KEPT, msgspec.structs.replace(one, about=about)
    if one.said.answers:
        return "answer", one
    if not one.said.content:
        return "generic", one
    foreign_to = languages.foreign_to(one.said)
    if not foreign_to:
        return "understood", one
    if in_domain.is_near(one.key, one.domains):
        return "near_duplicate", one
    about = tuple(sorted(languages.domains.difference(foreign_to).union(about)))
    return KEPT, msgspec.structs.replace(one, about=about, said=None)
