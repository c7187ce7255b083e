"""The counts of a run, checks on them, and its dead letters: the records that were left out.

A run leaves out a few bad records (``--max_bad``, 1 % by default), each with a line in ``dead_letters.jsonl``. A larger
share is an error, and so is a run without any usable record. The limit applies to each kind of record separately:
files, the dialogues of each variant, the calls of each split. A file that cannot be read counts as one bad file, since
the number of its dialogues is unknown.
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
from parapet.transforms.core.fence import INTERNAL, PLUGIN, REPORT, Fault, trace_of
from parapet.transforms.report.text import counted

Part = Literal["set", "split", "value"]
Value = str | tuple[str, ...]
Counted = str | tuple[str, Value]  # the name of a count, or its name and value


FAULTS = "faults"  # number of records lost to a fault of Parapet or a plug-in, see transforms.core.fence


class CountKey(NamedTuple):
    """The key of a count.

    Attributes:
      name: the name, such as ``dialogues`` or ``turns_changed``.
      set: the set in which it is counted; empty for all sets.
      split: the split in which it is counted.
      value: the category, such as a reason, an operation or a domain, or a combination of categories.
    """

    name: str
    set: str = ""
    split: str = ""
    value: Value = ""

    def __str__(self) -> str:
        return "/".join(map(str, self)).rstrip("/")


class Counts(Counter[CountKey]):
    """Counts by key; missing keys are 0.

    Example:
      >>> from parapet.transforms.core.counts import Counts
      >>> counts = Counts()
      >>> counts.add("turns", 2, set="typos", split="test")
      >>> counts.add("turns", 3, set="typos", split="dev")
      >>> counts.sum("turns", set="typos"), counts.by("split", "turns", set="typos")
      (5, {'dev': 3, 'test': 2})
    """

    def add(self, name: str, n: int = 1, *, set: str = "", split: str = "", value: str = "") -> None:
        """Adds to a count; adding 0 makes sure that the key exists.

        Args:
          name: the name of the count.
          n: number of records.
          set: the set of the records.
          split: the split of the records.
          value: the category of the records.
        """
        self[CountKey(name, set, split, value)] += n

    def sum(self, name: str, **parts: str) -> int:
        """Sums all counts of a name, optionally only those with a certain set, split or value."""
        return sum(n for _, n in self._of(name, parts))

    def by(self, part: Part, name: str, **parts: str) -> dict[str, int]:
        """Returns the counts of a name by set, split or value, sorted; optionally with certain other parts only."""
        sums: dict[str, int] = {}
        for key, n in self._of(name, parts):
            sums[getattr(key, part)] = sums.get(getattr(key, part), 0) + n
        return dict(sorted(sums.items()))

    def _of(self, name: str, parts: Mapping[str, str]) -> Iterator[tuple[CountKey, int]]:
        for key, n in self.items():
            if key.name == name and all(getattr(key, part) == wanted for part, wanted in parts.items()):
                yield key, n

    def as_json(self, names: Sequence[str] | None = None) -> dict[str, int]:
        """Returns the counts without a value by ``name/set/split`` for ``run.json``, optionally of ``names`` only."""
        keys = sorted(key for key, n in self.items() if n and not key.value and (names is None or key.name in names))
        return {str(key): self[key] for key in keys}

    @classmethod
    def of_json(cls, counts: Mapping[str, int]) -> Counts:
        """Parses the counts of a ``run.json``."""
        return cls({CountKey(*name.split("/")): n for name, n in counts.items()})

    @classmethod
    def of_pairs(cls, pairs: Iterable[tuple[tuple[str, str, str, str], int]]) -> Counts:
        """Sums up pairs (key, n), as in :class:`parapet.transforms.core.runs.Outputs`."""
        counts = cls()
        for key, n in pairs:
            counts[CountKey(*key)] += n
        return counts


# A check on the counts before anything is published; yields descriptions of violations.
Invariant = Callable[[Counts], Iterable[str]]


class Balance(msgspec.Struct, frozen=True):
    """Checks that every record is in exactly one category: ``total`` is the sum of ``parts``.

    Attributes:
      total: the name of the count of all records.
      parts: the names of the counts of the categories.
      sets: the sets to check separately; if empty, all are checked together.
      shared: categories that are counted once for all sets, or in one of them.
      by_set: whether the total is counted for each set rather than once for all.
      splits: the splits to check separately; if empty, all are checked together.
      is_early: whether the total is counted before records may be lost to faults; if there are faults, the check is
        skipped.
    """

    total: str
    parts: Sequence[str]
    sets: Sequence[str] = ()
    shared: Sequence[str] = ()
    by_set: bool = False
    splits: Sequence[str] = ()
    is_early: bool = False

    def __call__(self, counts: Counts) -> Iterator[str]:
        """Yields counts that do not balance, such as ``dialogues of typos in test``."""
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
    """Checks counts that are known before the run, such as the number of calls or of simulated dialogues.

    Attributes:
      expected: key to expected number.
    """

    expected: Mapping[CountKey, int]

    def __call__(self, counts: Counts) -> Iterator[str]:
        """Yields counts that differ, such as ``dialogues of typos in test``."""
        for key, n in self.expected.items():
            if counts[key] != n:
                yield _place(key.name, key.set, key.split)


class Equals(msgspec.Struct, frozen=True):
    """Checks that no record is lost: the sum of the counts ``names`` is ``number``, which was known before the run."""

    names: Sequence[str]
    number: int

    def __call__(self, counts: Counts) -> Iterator[str]:
        """Yields a description such as ``fields + not_asked, expected 120`` if the sum differs."""
        if sum(counts.sum(name) for name in self.names) != self.number:
            yield f"{' + '.join(self.names)}, expected {self.number:,}"


class Zero(msgspec.Struct, frozen=True):
    """Checks that something never happens: ``name`` is its count, ``what`` its description."""

    name: str
    what: str

    def __call__(self, counts: Counts) -> Iterator[str]:
        """Yields ``what`` if the count is not 0."""
        if counts.sum(self.name):
            yield self.what


class Exact(msgspec.Struct, frozen=True):
    """Checks an exact rate: in every split, ``count`` of a set is ``wanted`` applied to ``total``.

    If ``available`` is set and smaller, it is the expected number. The check is skipped if records were lost to faults,
    since the selection was made among all records.

    Attributes:
      count: the name of the count with the rate.
      total: the name of the count that the rate refers to.
      set: the set.
      wanted: computes the expected number from the total.
      total_set: the set in which the total is counted; empty if it is counted once for all.
      available: the name of the count, in that set, too, which limits ``count``.
    """

    count: str
    total: str
    set: str
    wanted: Callable[[int], int]
    total_set: str = ""
    available: str = ""

    def __call__(self, counts: Counts) -> Iterator[str]:
        """Yields counts that differ, such as ``count of set in split``."""
        if counts.sum(FAULTS):
            return
        dialogues = counts.by("split", self.count, set=self.set)
        totals = counts.by("split", self.total, set=self.total_set)
        available = counts.by("split", self.available, set=self.total_set) if self.available else None
        for split in sorted({*dialogues, *totals}):
            wanted = self.wanted(totals.get(split, 0))
            if dialogues.get(split, 0) != (wanted if available is None else min(wanted, available.get(split, 0))):
                yield _place(self.count, self.set, split)


class Least(msgspec.Struct, frozen=True):
    """Checks a minimum share, such as that of changed turns.

    Attributes:
      count: the name of the count.
      total: the name of the count that it is a share of.
      share: the minimum, from 0 to 1.
      set: the set in which both are counted.
      what: the description of ``total`` in messages: ``user turns changed``.
      flag: the flag that sets the share.
      needed: whether a total of 0 is an error, too.
    """

    count: str
    total: str
    share: float
    set: str
    what: str
    flag: str = "--least_changed"
    needed: bool = False

    def __call__(self, counts: Counts) -> Iterator[str]:
        """Raises InputError if the share is lower, since the cause is the input rather than the run."""
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
    """Checks the counts of a run.

    Raises:
      RuntimeError: a check fails because of a fault in Parapet or a plug-in. Nothing is published then.
      InputError: the input is the cause, see :class:`Least`.
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
    """A record that was left out: a dialogue missing from a variant, an unreadable file, an unchanged turn.

    Attributes:
      variant: the variant; empty for all, as for a file.
      split: the folder of the file.
      file: the file's name.
      dialogue_id: the id of the dialogue; empty for the whole file.
      where: the place in it: ``turns[2].frames[0]``, or line and column.
      reason: an id (``unknown_slot``) and a sentence. If the record is not the cause, the id is ``internal_error`` or
        ``plugin_error``, see :mod:`parapet.transforms.core.fence`.
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
    """Returns the dead letter of a file that cannot be read completely."""
    reason = error.reason if isinstance(error, Fault) else f"broken_file: {error.reason}"
    return DeadLetter("", file.split, file.name, "", storable(error.where), storable(reason), trace_of(error))


def dead_dialogue(file: _File, dialogue_id: str, error: InputError, variant: str = "") -> DeadLetter:
    """Returns the dead letter of a dialogue in a file, or of a place in it."""
    where, reason = storable(error.where), storable(error.reason)
    return DeadLetter(variant, file.split, file.name, storable(dialogue_id), where, reason, trace_of(error))


def id_of(dialogue: Any, position: int) -> str:
    """Returns the id of a dialogue, or its position as ``[3]`` if it has no id."""
    dialogue_id = dialogue.get("dialogue_id") if isinstance(dialogue, dict) else None
    return storable(dialogue_id) if isinstance(dialogue_id, str) and dialogue_id else f"[{position}]"


class Tally(msgspec.Struct, frozen=True):
    """The number of records of one kind, and of the bad ones among them.

    Attributes:
      what: the kind of record, in the singular: ``dialogue``.
      total: the number of all records, including bad ones.
      bad: the number of records that could not be used.
      part: the variant or split; empty for all records.
      is_record: whether the output consists of these records, so that it would be empty without them.
      is_needed: whether the run fails if all of them are bad.
    """

    what: str
    total: int
    bad: int
    part: str = ""
    is_record: bool = False
    is_needed: bool = True

    @property
    def share(self) -> Fraction:
        """Returns the share of bad records."""
        return Fraction(self.bad, self.total) if self.total else Fraction(0)

    def __str__(self) -> str:
        of_part = f" of {self.part}" if self.part else ""
        return f"{self.bad:,} of {self.total:,} {self.what}{'' if self.total == 1 else 's'}{of_part}"


def of_dialogues(counts: Counts) -> list[Tally]:
    """Returns the tallies of a run with counts ``files``, ``broken_files``, ``dialogues`` and ``left_out``."""
    total, bad = counts.sum("dialogues", set=""), counts.sum("left_out", set="")
    return [of_files(counts), Tally("dialogue", total, bad, is_record=True)]


def of_variants(counts: Counts, variants: Sequence[str]) -> list[Tally]:
    """Returns the tallies of a run in which each variant has its own count ``left_out``."""
    total = counts.sum("dialogues", set="")
    left_out = counts.by("set", "left_out")
    of_all = left_out.get("", 0)
    return [
        of_files(counts),
        *(Tally("dialogue", total, left_out.get(name, 0) + of_all, name, is_record=True) for name in variants),
    ]


def of_files(counts: Counts) -> Tally:
    """Returns the tally of files that could not be read."""
    return Tally("file", counts.sum("files"), counts.sum("broken_files"))


def read_dead_letters(lines: Iterable[bytes]) -> Iterator[DeadLetter]:
    """Parses the lines of a ``dead_letters.jsonl``."""
    return (msgspec.json.decode(line, type=DeadLetter) for line in lines)


def reasons_of(dead: Iterable[DeadLetter]) -> Counter[str]:
    """Counts reasons by id."""
    return Counter(map(reason_of, dead))


def reason_of(letter: DeadLetter) -> str:
    """Returns the id of a letter's reason."""
    return letter.reason.partition(":")[0]


def places_of(dead: Iterable[DeadLetter]) -> list[str]:
    """Returns one line per record: file, dialogue, place and reason.

    A record missing from several variants has one line.
    """
    lines: dict[tuple[str, str, str], str] = {}
    for letter in dead:
        path = f"{letter.split}/{letter.file}" if letter.split else letter.file
        parts = [path, f"dialogue {letter.dialogue_id}" if letter.dialogue_id else "", letter.where, letter.reason]
        record = (letter.split, letter.file, letter.dialogue_id or letter.where)
        lines.setdefault(record, ": ".join(part for part in parts if part))
    return list(lines.values())


def in_order(elements: Iterable[tuple[str, Sequence[DeadLetter]]]) -> list[DeadLetter]:
    """Sorts the dead letters of a run by the key of their element."""
    return [letter for _, letters in sorted(elements) for letter in letters]


def check_letters(letters: Sequence[DeadLetter], tallies: Sequence[Tally], max_bad: Fraction, done: str) -> None:
    """Applies :func:`check_bad` to a run's dead letters."""
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
    """Raises InputError if too many records are bad or none is usable.

    Args:
      tallies: the tallies of all kinds of records.
      max_bad: maximum share of bad records of each kind.
      done: the operation that failed for bad records, as a participle such as ``rewritten``.
      reasons: id to number of occurrences.
      places: lines with places and reasons.
      trace: the traceback of a plug-in's exception, for its author.

    Raises:
      UserCodeError: raised instead if a plug-in's exceptions are among the reasons; the message ends with the
        traceback.
    """
    refusal = UserCodeError if trace else InputError
    end = f"\n{trace}" if trace else ""
    why, blame = _why(reasons, places), _blame(reasons)
    if nothing := _nothing_left(tallies, done):
        why = f": {why}{f'; {blame}' if blame else ''}" if places else ""
        raise refusal(f"{nothing}, so there is nothing to publish{why}{end}")
    if over := [tally for tally in tallies if tally.share > max_bad]:
        limit = f"more than --max_bad {percent(max_bad)} allows" if max_bad else "but --max_bad allows none"
        advice = blame or "correct them"
        if all(tally.bad < tally.total for tally in over):
            advice += (
                f", or continue without them with --max_bad {percent(max(tally.share for tally in over), up=True)}"
            )
        raise refusal(f"{_joined(over)} could not be {done}, {limit}, so nothing was published: {why}; {advice}{end}")


def _blame(reasons: Mapping[str, int]) -> str:
    """Describes whose fault it is if no record is the cause; else an empty string."""
    if not reasons or not reasons.keys() <= {INTERNAL, PLUGIN}:
        return ""
    return f"this is a bug in Parapet: {REPORT}" if INTERNAL in reasons else "this is a bug in the plug-in"


def _nothing_left(tallies: Sequence[Tally], done: str) -> str:
    """Describes which required records are missing completely, or returns an empty string."""
    kinds: dict[str, list[Tally]] = {}
    for tally in tallies:
        if tally.is_needed:
            kinds.setdefault(tally.what, []).append(tally)
    for unit, of_kind in kinds.items():
        if any(tally.bad for tally in of_kind) and all(tally.bad == tally.total for tally in of_kind):
            return f"{_joined(tally for tally in of_kind if tally.bad)} could not be {done}"
        if all(tally.is_record and not tally.total for tally in of_kind):
            return f"there is no {unit} in the input"
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
    """Formats a share as ``1%`` or ``0.4%``, with two significant digits or one decimal place.

    It is rounded up if requested.
    """
    of_hundred = share * 100
    digits = 0 if of_hundred.denominator == 1 else 1 if of_hundred >= 1 else 2 - math.ceil(math.log10(of_hundred))
    scaled = of_hundred * 10**digits
    return f"{(math.ceil(scaled) if up else round(scaled)) / 10**digits:g}%"


def faults_of(dead: Iterable[DeadLetter], place: str, plugins: str = "") -> Iterator[str]:
    """Yields a message about each bug in Parapet or a plug-in by which records were lost.

    Args:
      dead: the dead letters.
      place: their path.
      plugins: the names of the run's plug-ins.
    """
    faults: dict[str, list[DeadLetter]] = {}
    for letter in dead:
        if reason_of(letter) in (INTERNAL, PLUGIN):
            faults.setdefault(letter.reason.rpartition(" (")[2], []).append(letter)
    for letters in faults.values():
        kind, _, reason = letters[0].reason.partition(": ")
        whose = "Parapet" if kind == INTERNAL else plugins or "a plug-in"
        advice = f"; {REPORT}" if kind == INTERNAL else ""
        n = len({(letter.split, letter.file, letter.dialogue_id, letter.where) for letter in letters})
        yield f"{counted(n, 'record was', 'records were')} lost to a bug in {whose}: {reason}; see {place}{advice}"


def warnings_of(tallies: Iterable[Tally], reasons: Mapping[str, int], place: str, what: str) -> list[str]:
    """Returns warnings about the records missing from a published run.

    Args:
      tallies: the tallies of the run.
      reasons: id to number of its dead letters.
      place: the path of the dead letters.
      what: the beginning of the line, such as ``left out``.
    """
    tallies = [tally for tally in tallies if tally.bad]
    if not reasons and not tallies:
        return []
    listed = ", ".join(f"{reason} {n:,}" for reason, n in sorted(reasons.items()))
    lines = [
        f"{tally.part or 'the output'} contains no {tally.what}: none of {tally.total:,} can be used"
        for tally in tallies
        if tally.is_record and tally.bad == tally.total
    ]
    return [*lines, f"{what}: {_joined(tallies) if tallies else sum(reasons.values())} ({listed}); see {place}"]
