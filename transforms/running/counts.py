"""The counts of a run, what must hold of them, and the records that were left out: its dead letters.

A run leaves out a few bad records (``--max_bad``, 1 % by default), each with a line in ``dead_letters.jsonl``. More is
an error, and so is a run of which nothing is left. Every kind of record is held against the limit by itself: files,
the dialogues of each variant, the calls of each split. A file that cannot be read is one bad file; how many dialogues
it had nobody knows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from parapet.schemas.errors import InputError, UserCodeError, storable
from parapet.transforms.reports.text import counted
from parapet.transforms.running.fence import INTERNAL, PLUGIN, REPORT, Fault, trace_of

Part = Literal["set", "split", "value"]
Value = str | tuple[str, ...]
Counted = str | tuple[str, Value]  # the name of a count, or its name and value


FAULTS = "faults"  # records that were lost to a fault of Parapet or a plug-in, see transforms.running.fence


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
      >>> from parapet.transforms.running.counts import Counts
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
        """The sums of (key, n), as :class:`parapet.transforms.running.runs.Outputs` has them."""
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
                f"{self.set}: only {reached:.1%} of {total:,} {self.what}, but {self.flag} requires "
                f"{self.share:.0%}, so nothing was published: lower {self.flag} if you expect this of the "
                "corpus"
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


SHOWN = 3  # places in a message


class DeadLetter(msgspec.Struct, frozen=True, order=True, omit_defaults=True):
    """A dialogue that a variant does not have, a file that could not be read, a turn that stayed as it was.

    Attributes:
      variant: the variant; nothing where it concerns all, as a file does.
      split: the folder of the file.
      file: the file's name.
      dialogue_id: the dialogue; nothing where the whole file is meant.
      where: the place inside: ``turns[2].frames[0]``, or line and column.
      reason: an id (``unknown_slot``) and a sentence. Where the record is not to blame the id is ``internal_error`` or
        ``plugin_error``, see :mod:`parapet.transforms.running.fence`.
      trace: the traceback of such an error.
    """

    variant: str
    split: str
    file: str
    dialogue_id: str
    where: str
    reason: str
    trace: str = ""


class _File(Protocol):
    @property
    def split(self) -> str: ...
    @property
    def name(self) -> str: ...


def dead_file(file: _File, error: InputError) -> DeadLetter:
    """The dead letter of a file that cannot be read to its end."""
    reason = error.reason if isinstance(error, Fault) else f"broken_file: {error.reason}"
    return DeadLetter("", file.split, file.name, "", storable(error.where), storable(reason), trace_of(error))


def dead_dialogue(file: _File, dialogue_id: str, error: InputError, variant: str = "") -> DeadLetter:
    """The dead letter of one dialogue of a file, or of a place in it."""
    where, reason = storable(error.where), storable(error.reason)
    return DeadLetter(variant, file.split, file.name, storable(dialogue_id), where, reason, trace_of(error))


def id_of(dialogue: Any, position: int) -> str:
    """The id of a dialogue, or its position as ``[3]`` where it has none, or an empty one."""
    found = dialogue.get("dialogue_id") if isinstance(dialogue, dict) else None
    return storable(found) if isinstance(found, str) and found else f"[{position}]"


class Tally(msgspec.Struct, frozen=True):
    """How many records of one kind there were, and how many of them could not be used.

    Attributes:
      what: the kind, in the singular: ``dialogue``.
      total: all of them, the bad ones included.
      bad: those that could not be used.
      part: which of them: a variant, a split; nothing where it is all.
      is_record: whether the output is made of them: where there is none, it would be empty.
      is_needed: whether nothing can be made where each of them is bad.
    """

    what: str
    total: int
    bad: int
    part: str = ""
    is_record: bool = False
    is_needed: bool = True

    @property
    def share(self) -> Fraction:
        """Of those that are bad."""
        return Fraction(self.bad, self.total) if self.total else Fraction(0)

    def __str__(self) -> str:
        of_part = f" of {self.part}" if self.part else ""
        return f"{self.bad:,} of {self.total:,} {self.what}{'' if self.total == 1 else 's'}{of_part}"


def of_dialogues(counts: Counts) -> list[Tally]:
    """The tallies of a run whose counts are ``files``, ``broken_files``, ``dialogues`` and ``left_out``."""
    total, bad = counts.sum("dialogues", set=""), counts.sum("left_out", set="")
    return [of_files(counts), Tally("dialogue", total, bad, is_record=True)]


def of_variants(counts: Counts, variants: Sequence[str]) -> list[Tally]:
    """The same where each variant has its own count of ``left_out``."""
    total = counts.sum("dialogues", set="")
    left_out = counts.by("set", "left_out")
    of_all = left_out.get("", 0)
    return [
        of_files(counts),
        *(Tally("dialogue", total, left_out.get(name, 0) + of_all, name, is_record=True) for name in variants),
    ]


def of_files(counts: Counts) -> Tally:
    """Files that could not be read."""
    return Tally("file", counts.sum("files"), counts.sum("broken_files"))


def read_dead_letters(lines: Iterable[bytes]) -> Iterator[DeadLetter]:
    """The lines of a ``dead_letters.jsonl``."""
    return (msgspec.json.decode(line, type=DeadLetter) for line in lines)


def reasons_of(dead: Iterable[DeadLetter]) -> Counter[str]:
    """How often each reason occurs, by its id."""
    return Counter(map(reason_of, dead))


def reason_of(letter: DeadLetter) -> str:
    """The id of a reason."""
    return letter.reason.partition(":")[0]


def places_of(dead: Iterable[DeadLetter]) -> list[str]:
    """One line for each record: file, dialogue, place and reason. One that several variants lack is one."""
    lines: dict[tuple[str, str, str], str] = {}
    for letter in dead:
        path = f"{letter.split}/{letter.file}" if letter.split else letter.file
        parts = [path, f"dialogue {letter.dialogue_id}" if letter.dialogue_id else "", letter.where, letter.reason]
        record = (letter.split, letter.file, letter.dialogue_id or letter.where)
        lines.setdefault(record, ": ".join(part for part in parts if part))
    return list(lines.values())


def in_order(elements: Iterable[tuple[str, Sequence[DeadLetter]]]) -> list[DeadLetter]:
    """The dead letters of a run, given as (key, dead letters of an element of this key), in the order of the keys."""
    return [letter for _, letters in sorted(elements) for letter in letters]


def check_letters(letters: Sequence[DeadLetter], tallies: Sequence[Tally], max_bad: Fraction, done: str) -> None:
    """:func:`check_bad` of a run's dead letters."""
    traces = [letter.trace for letter in letters if letter.trace and reason_of(letter) == PLUGIN]
    check_bad(tallies, max_bad, done, reasons_of(letters), places_of(letters), traces[0] if traces else "")


def check_bad(
    tallies: Sequence[Tally],
    max_bad: Fraction,
    done: str,
    reasons: Mapping[str, int],
    places: Sequence[str],
    trace: str = "",
) -> None:
    """Raises InputError where more records are bad than may be, or none of those that make the output is left.

    Args:
      tallies: of all kinds of records.
      max_bad: the share of each kind that may be bad.
      done: what could not be done to a bad one: ``rewritten``.
      reasons: id to how often.
      places: where they are and why, a line each.
      trace: the traceback of a plug-in's error, which its author needs.

    Raises:
      UserCodeError: the same, where a plug-in's errors are among the reasons: the message ends with the traceback.
    """
    refusal = UserCodeError if trace else InputError
    end = f"\n{trace}" if trace else ""
    why = _why(reasons, places)
    blame = _blame(reasons)
    if nothing := _nothing_left(tallies, done):
        why = f": {why}{f'; {blame}' if blame else ''}" if places else ""
        raise refusal(f"{nothing}, so there is nothing to publish{why}{end}")
    over = [tally for tally in tallies if tally.share > max_bad]
    if over:
        limit = f"more than --max_bad {percent(max_bad)} allows" if max_bad else "but --max_bad allows none"
        advice = blame or "correct them"
        if all(one.bad < one.total for one in over):
            advice += f", or continue without them with --max_bad {percent(max(one.share for one in over), up=True)}"
        raise refusal(f"{_joined(over)} could not be {done}, {limit}, so nothing was published: {why}; {advice}{end}")


def _blame(reasons: Mapping[str, int]) -> str:
    """Whose fault it is, where no record is to blame; nothing where one is."""
    if not reasons or not reasons.keys() <= {INTERNAL, PLUGIN}:
        return ""
    return f"this is a bug in Parapet: {REPORT}" if INTERNAL in reasons else "this is a bug in the plug-in"


def _nothing_left(tallies: Sequence[Tally], done: str) -> str:
    """What there is nothing left of; nothing where all that is needed has some."""
    kinds: dict[str, list[Tally]] = {}
    for one in tallies:
        if one.is_needed:
            kinds.setdefault(one.what, []).append(one)
    for what, of_kind in kinds.items():
        if any(one.bad for one in of_kind) and all(one.bad == one.total for one in of_kind):
            return f"{_joined(one for one in of_kind if one.bad)} could not be {done}"
        if all(one.is_record and not one.total for one in of_kind):
            return f"there is no {what} in the input"
    return ""


def _why(reasons: Mapping[str, int], places: Sequence[str]) -> str:
    by_count = sorted(reasons.items(), key=lambda found: (-found[1], found[0]))
    shown = "; ".join(places[:SHOWN])
    more = f"; and {len(places) - SHOWN:,} more" if len(places) > SHOWN else ""
    return f"{', '.join(f'{reason} {n:,}' for reason, n in by_count)}; the first: {shown}{more}"


def _joined(tallies: Iterable[Tally]) -> str:
    *first, last = map(str, tallies)
    return f"{', '.join(first)} and {last}" if first else last


def percent(share: Fraction, up: bool = False) -> str:
    """``1%``, ``0.4%``: two digits that count, or one behind the point; rounded up where that is asked."""
    of_hundred = share * 100
    digits = 0 if of_hundred.denominator == 1 else 1 if of_hundred >= 1 else 2 - math.ceil(math.log10(of_hundred))
    scaled = of_hundred * 10**digits
    rounded = math.ceil(scaled) if up else round(scaled)
    return f"{rounded / 10**digits:g}%"


class FaultCounts:
    """Records that were lost to faults of Parapet, or of a plug-in, by fault."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}
        self._records: dict[str, set[int]] = {}

    def add(self, reason: str, record: tuple[str, ...]) -> None:
        """Counts the dead letter of a record, if its reason is a fault."""
        if reason.partition(":")[0] in (INTERNAL, PLUGIN):
            place = reason.rpartition(" (")[2]
            self._first.setdefault(place, reason)
            self._records.setdefault(place, set()).add(hash(record))

    def lines(self, place: str, plugins: str = "") -> Iterator[str]:
        """What is said of each fault.

        Args:
          place: where the dead letters are.
          plugins: what the plug-ins of the run are called.
        """
        for fault, reason in self._first.items():
            kind, _, what = reason.partition(": ")
            whose = "Parapet" if kind == INTERNAL else plugins or "a plug-in"
            advice = f"; {REPORT}" if kind == INTERNAL else ""
            n = len(self._records[fault])
            yield f"{counted(n, 'record was', 'records were')} lost to a bug in {whose}: {what}; see {place}{advice}"


def warnings_of(tallies: Iterable[Tally], reasons: Mapping[str, int], place: str, what: str) -> list[str]:
    """What a run that was published says of the records that it lacks.

    Args:
      tallies: of the run's counts.
      reasons: of its dead letters: id to how often.
      place: where they are.
      what: what became of them.
    """
    tallies = [tally for tally in tallies if tally.bad]
    if not reasons and not tallies:
        return []
    listed = ", ".join(f"{reason} {n:,}" for reason, n in sorted(reasons.items()))
    empty = [tally for tally in tallies if tally.is_record and tally.bad == tally.total]
    lines = [f"{one.part or 'the output'} contains no {one.what}: none of {one.total:,} can be used" for one in empty]
    return [*lines, f"{what}: {_joined(tallies) if tallies else sum(reasons.values())} ({listed}); see {place}"]
