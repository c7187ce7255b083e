"""Where each dialogue goes when a domain or a service is held out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.layout import SPLITS
from parapet.transforms.corpora import domain_of
from parapet.transforms.touching import Used

DOMAIN = "domain"
TRAIN, DEV, TEST, TEST_SEEN = "train", "dev", "test", "test_seen"
SETS = (TRAIN, DEV, TEST, TEST_SEEN)
# Why a dialogue is in no set.
ONLY, BOTH, OTHERS = "touches_it_alone", "touches_it_and_others", "test_of_others"
REASONS = (ONLY, BOTH, OTHERS)

# What stands in the output folder beside the folders of what is held out.
_RESERVED = ("run.json", "statistics.json", "readme.md", "report.html", "dead_letters.jsonl")


class HeldOut(msgspec.Struct, frozen=True):
    """What is held out, each in a split of its own.

    Attributes:
      by: ``domain`` or ``service``.
      groups: domain or service to its services, sorted.
      test_split: whose dialogues the tests are of.
      with_seen: the others of it are wanted too, as ``test_seen``.
    """

    by: str
    groups: dict[str, tuple[str, ...]]
    test_split: str
    with_seen: bool

    def end_of(self, group: str, split: str, used: Used) -> str:
        """Where a dialogue goes: one of ``SETS``, or one of ``REASONS`` why it goes nowhere.

        Args:
          group: what is held out.
          split: of the dialogue.
          used: its services.
        """
        held = [service for service in used.touched if service in self.groups[group]]
        if held:
            if split == self.test_split:
                return TEST
            return ONLY if len(held) == len(used.touched) else BOTH
        return self._end_of_others(split)

    def _end_of_others(self, split: str) -> str:
        if split != self.test_split:
            return split
        # A dev that is tested on is dev as well, for what is not held out.
        return TEST_SEEN if self.with_seen else DEV if split == DEV else OTHERS

    def ends_of(self, split: str) -> list[str]:
        """The sets in which dialogues of a split can end."""
        ends = [TEST] if split == self.test_split else []
        others = self._end_of_others(split)
        return [*ends, others] if others in SETS else ends

    def idle_of(self, group: str, end: str, used: Used) -> tuple[str, ...]:
        """Services that a set does not have where they are idle: nothing may point to those that are held out."""
        return () if end == TEST else tuple(service for service in used.idle if service in self.groups[group])


def groups_of(services: Iterable[str], by: str) -> dict[str, tuple[str, ...]]:
    """Domain or service to its services, both sorted.

    Raises:
      InputError: one is called as a file of the output.
    """
    found: dict[str, list[str]] = {}
    for service in sorted(set(services)):
        found.setdefault(domain_of(service) if by == DOMAIN else service, []).append(service)
    for name in found:
        if name.lower() in _RESERVED:
            raise InputError(f"{by} {name!r} has the name of a file that is written: rename it", "--sgd")
    return {name: tuple(of) for name, of in sorted(found.items())}


def chosen(groups: Mapping[str, tuple[str, ...]], asked: Sequence[str] | None, by: str) -> dict[str, tuple[str, ...]]:
    """The groups that are asked for, or all. Raises InputError where one is not there."""
    if asked is None:
        return dict(groups)
    if not asked:
        raise InputError(f"give one or more of: {', '.join(groups)}", "--hold_out")
    for name in asked:
        if name not in groups:
            hint = " (--by service holds out one service)" if by == DOMAIN and "_" in name else ""
            raise InputError(f"there is no {by} {name!r}{hint}; there are: {', '.join(groups)}", "--hold_out")
    return {name: groups[name] for name in sorted(set(asked))}


def test_split_of(asked: str | None, there: Collection[str]) -> str:
    """The split that is tested on: the one asked for, else test, else dev. Raises InputError where it cannot be."""
    found = asked or next((split for split in (TEST, DEV) if split in there), "")
    if TRAIN not in there:
        raise InputError("there are no dialogues in 'train', and so nothing to train on", "--sgd")
    if found not in there or found == TRAIN:
        others = ", ".join(split for split in SPLITS if split in there and split != TRAIN) or "none"
        raise InputError(f"there are no dialogues in {found!r} to test on; there are in: {others}", "--test_split")
    return found
