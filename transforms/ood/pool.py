"""The pool of foreign utterances: each text once, and what becomes of it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from transforms.ood.near import InDomain
from transforms.ood.texts import key_of

LONGEST = 400  # characters; what is longer is no turn of a dialogue

# What becomes of a different text of the source.
KEPT = "kept"
STATUSES = (KEPT, "near_duplicate", "generic", "too_long", "empty")
IN_DOMAIN = ("near_duplicate", "generic")


class Foreign(msgspec.Struct, frozen=True, order=True):
    """An utterance that comes from elsewhere.

    Attributes:
      key: its words; utterances with the same are the same.
      source: where it stands: file and line, or file, dialogue and turn.
      text: as it stands there, with single blanks.
      domains: of the dialogues it stands in, where they are known.
      splits: the splits that may have it; nothing where any may.
      about: domains that one of its words is typical of.
    """

    key: str
    source: str
    text: str
    domains: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()
    about: tuple[str, ...] = ()


def foreign(text: str, source: str, domains: tuple[str, ...] = (), splits: tuple[str, ...] = ()) -> Foreign:
    """An utterance as the pool has it."""
    return Foreign(key_of(text), source, " ".join(text.split()), domains, splits)


def merged(same: Iterable[Foreign]) -> Foreign:
    """One of the utterances with the same key: the first by source, with the domains and splits of all."""
    every = sorted(same)
    domains = {domain for one in every for domain in one.domains}
    splits = {split for one in every for split in one.splits}
    return msgspec.structs.replace(every[0], domains=tuple(sorted(domains)), splits=tuple(sorted(splits)))


def status_of(one: Foreign, in_domain: InDomain, own: bool) -> str:
    """What becomes of an utterance, see ``STATUSES``.

    Args:
      one: the utterance.
      in_domain: the turns of the corpus.
      own: it is the corpus's own: of turns only those of dialogues without one of its domains count.
    """
    if not one.key or not is_text(one.text):
        return "empty"
    if len(one.text) > LONGEST:
        return "too_long"
    domains = one.domains if own else ()
    if in_domain.is_near(one.key, domains):
        return "near_duplicate"
    return "generic" if in_domain.is_generic(one.key, domains) else KEPT


def is_text(text: str) -> bool:
    """Whether it can be written as UTF-8: half a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
