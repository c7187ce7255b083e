"""The counts of a run: what was counted, in which set and split, of which value. And what must hold of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Literal, NamedTuple

import msgspec

from parapet.schemas.errors import InputError

Part = Literal["set", "split", "value"]
Value = str | tuple[str, ...]
Counted = str | tuple[str, Value]  # the name of a count, or its name and value


FAULTS = "faults"  # records that were lost to a fault of Parapet or a plug-in, see transforms.perturbation.fence


class CountKey(NamedTuple):
    """What is counted.

    Attributes:
      name: such as ``dialogues`` or ``turns_changed``.
      set: the set in which it is counted; empty where it concerns all of them.
      split: the split in which it is counted.
      value: of which category: a reason, an operation, a domain; or of which combination of them.
    """

    name: str
    set: str = ""
    split: str = ""
    value: Value = ""

    def __str__(self) -> str:
        return "/".join(map(str, self)).rstrip("/")


class Counts(Counter[CountKey]):
    """Counts by key. Keys that were never counted are 0.

    Example:
      >>> from parapet.transforms.counts import Counts
      >>> counts = Counts()
      >>> counts.add("turns", 2, set="typos", split="test")
      >>> counts.add("turns", 3, set="typos", split="dev")
      >>> counts.sum("turns", set="typos"), counts.by("split", "turns", set="typos")
      (5, {'dev': 3, 'test': 2})
    """

    def add(self, name: str, n: int = 1, *, set: str = "", split: str = "", value: str = "") -> None:
        """Adds to one count; adding 0 makes sure that the key is there.

        Args:
          name: of the count.
          n: how many records.
          set: in which they are counted.
          split: in which they are counted.
          value: of which category they are.
        """
        self[CountKey(name, set, split, value)] += n

    def sum(self, name: str, **parts: str) -> int:
        """The sum of all counts of a name, of those with the given set, split or value where they are given."""
        return sum(n for _, n in self._of(name, parts))

    def by(self, part: Part, name: str, **parts: str) -> dict[str, int]:
        """The counts of a name by set, by split or by value, sorted; the others may be given."""
        sums: dict[str, int] = {}
        for key, n in self._of(name, parts):
            sums[getattr(key, part)] = sums.get(getattr(key, part), 0) + n
        return dict(sorted(sums.items()))

    def _of(self, name: str, parts: Mapping[str, str]) -> Iterator[tuple[CountKey, int]]:
        for key, n in self.items():
            if key.name == name and all(getattr(key, part) == wanted for part, wanted in parts.items()):
                yield key, n

    def as_json(self, names: Sequence[str] | None = None) -> dict[str, int]:
        """The counts that have no value, by ``name/set/split``: what ``run.json`` records. Of ``names``, if given."""
        keys = sorted(key for key, n in self.items() if n and not key.value and (names is None or key.name in names))
        return {str(key): self[key] for key in keys}

    @classmethod
    def named(cls, **numbers: int) -> Counts:
        """Counts that concern all sets and splits, by name."""
        return cls({CountKey(name): n for name, n in numbers.items()})

    @classmethod
    def of_json(cls, counts: Mapping[str, int]) -> Counts:
        """The counts of a ``run.json``."""
        return cls({CountKey(*name.split("/")): n for name, n in counts.items()})

    @classmethod
    def of_pairs(cls, pairs: Iterable[tuple[tuple[str, str, str, str], int]]) -> Counts:
        """The sums of (key, n), as :class:`parapet.transforms.runs.Outputs` has them."""
        counts = cls()
        for key, n in pairs:
            counts[CountKey(*key)] += n
        return counts


# What must hold: each gives what is wrong, in words, given the counts. They are checked before anything is published.
Invariant = Callable[[Counts], Iterable[str]]


class Balance(msgspec.Struct, frozen=True):
    """Every record that was read ends in exactly one place: ``total`` is the sum of ``parts``.

    Attributes:
      total: the name of the count of all records.
      parts: the names of the counts in which they end.
      sets: for each of these sets; none: over all.
      shared: parts that are counted once for all sets, or in one of them.
      by_set: whether the total is counted in each set, too; else once for all.
      splits: for each of these splits; none: over all.
      is_early: whether the total is counted before records may be lost to faults: where some are, nothing is compared.
    """

    total: str
    parts: Sequence[str]
    sets: Sequence[str] = ()
    shared: Sequence[str] = ()
    by_set: bool = False
    splits: Sequence[str] = ()
    is_early: bool = False

    def __call__(self, counts: Counts) -> Iterator[str]:
        """``dialogues of typos in test``, where they do not balance."""
        if self.is_early and counts.sum(FAULTS):
            return
        for name, split in product(self.sets or [""], self.splits or [""]):
            if not self._holds(counts, name, split):
                yield _place(self.total, name, split)

    def _holds(self, counts: Counts, set_name: str, split: str) -> bool:
        in_split = {"split": split} if split else {}
        in_set = {"set": set_name, **in_split} if set_name else in_split
        of_all = {"set": "", **in_split} if set_name else in_split
        ends = sum(counts.sum(part, **in_set) for part in (*self.parts, *self.shared))
        if set_name:
            ends += sum(counts.sum(part, **of_all) for part in self.shared)
        return counts.sum(self.total, **(in_set if self.by_set else of_all)) == ends


class Equal(msgspec.Struct, frozen=True):
    """Counts that are known before the run: of the calls that are listed, or of the dialogues that are simulated.

    Attributes:
      expected: key to the number that it must be.
    """

    expected: Mapping[CountKey, int]

    def __call__(self, counts: Counts) -> Iterator[str]:
        """``dialogues of typos in test``, where it is another number."""
        for key, n in self.expected.items():
            if counts[key] != n:
                yield _place(key.name, key.set, key.split)


class Equals(msgspec.Struct, frozen=True):
    """Nothing is lost on the way: the sum of the counts ``names`` is ``number``, which was known before the run."""

    names: Sequence[str]
    number: int

    def __call__(self, counts: Counts) -> Iterator[str]:
        """``fields + not_asked, expected 120``, where it is another."""
        if sum(counts.sum(name) for name in self.names) != self.number:
            yield f"{' + '.join(self.names)}, expected {self.number:,}"


class Zero(msgspec.Struct, frozen=True):
    """Something that must not be: ``name`` counts it, ``what`` says it."""

    name: str
    what: str

    def __call__(self, counts: Counts) -> Iterator[str]:
        """``what``, where it is there."""
        if counts.sum(self.name):
            yield self.what


class Exact(msgspec.Struct, frozen=True):
    """A rate that is exact: of every split, ``count`` of a set is what ``wanted`` gives for the number of ``total``.

    Where ``available`` is named and there are fewer of these, it is all of them. Where records were lost to faults
    after what is to have the rate was chosen among all of them, no rate can be exact.

    Attributes:
      count: the name of what has the rate.
      total: the name of what it is a rate of.
      set: the set.
      wanted: the number that must be, given the total.
      total_set: the set in which the total is counted; empty where it is counted once for all.
      available: the name of the count, of that set too, of which ``count`` is a part.
    """

    count: str
    total: str
    set: str
    wanted: Callable[[int], int]
    total_set: str = ""
    available: str = ""

    def __call__(self, counts: Counts) -> Iterator[str]:
        """``count of set in split``, where it is another."""
        if counts.sum(FAULTS):
            return
        found = counts.by("split", self.count, set=self.set)
        totals = counts.by("split", self.total, set=self.total_set)
        available = counts.by("split", self.available, set=self.total_set) if self.available else None
        for split in sorted({*found, *totals}):
            wanted = self.wanted(totals.get(split, 0))
            if found.get(split, 0) != (wanted if available is None else min(wanted, available.get(split, 0))):
                yield _place(self.count, self.set, split)


class Least(msgspec.Struct, frozen=True):
    """A share that must be reached, such as that of the turns that a perturbation has changed.

    Attributes:
      count: the name of what is to reach it.
      total: the name of what it is a share of.
      share: from 0 to 1.
      set: the set in which both are counted.
      what: how the message calls what is counted: ``user turns changed``.
      flag: the flag of the share.
      needed: whether nothing at all is too little, too.
    """

    count: str
    total: str
    share: float
    set: str
    what: str
    flag: str = "--least_changed"
    needed: bool = False

    def __call__(self, counts: Counts) -> Iterator[str]:
        """Raises InputError where the share is lower: that is the input's fault, and no fault of the run."""
        count, total = counts.sum(self.count, set=self.set), counts.sum(self.total, set=self.set)
        if self.share and (count < self.share * total or (self.needed and not total)):
            reached = count / total if total else 0.0
            raise InputError(
                f"{self.set}: only {reached:.1%} of {total:,} {self.what}, and {self.flag} requires {self.share:.0%}, "
                "so nothing was published: give a lower share if that is what you expect of this corpus"
            )
        return iter(())


def _place(name: str, set_name: str, split: str) -> str:
    return name + (f" of {set_name}" if set_name else "") + (f" in {split}" if split else "")


def check_invariants(counts: Counts, invariants: Iterable[Invariant]) -> None:
    """Checks what must hold of the counts of a run.

    Raises:
      RuntimeError: something does not hold: a fault of Parapet or of a plug-in. Nothing is published then.
      InputError: the input does not allow it, see :class:`Least`.
    """
    wrong: list[str] = []
    too_little: InputError | None = None
    for invariant in invariants:
        try:
            wrong += invariant(counts)
        except InputError as error:
            too_little = too_little or error
    if too_little and not wrong:
        raise too_little
    if wrong:
        raise RuntimeError(f"the counts do not balance for {', '.join(wrong)}: {counts.as_json()}")
