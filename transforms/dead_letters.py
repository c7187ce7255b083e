"""Records that cannot be used: what is written of them, how many there may be, and what is said where there are more.

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
from typing import Any, Protocol

import msgspec

from parapet.schemas.errors import InputError, UserCodeError, storable
from parapet.transforms.counts import Counts
from parapet.transforms.perturbation.fence import INTERNAL, PLUGIN, REPORT, Fault, trace_of
from parapet.transforms.text import counted

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
        ``plugin_error``, see :mod:`parapet.transforms.perturbation.fence`.
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


Tallies = Callable[[Counts], list[Tally]]


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
    over = [one for one in tallies if one.share > max_bad]
    if over:
        limit = f"over --max_bad {percent(max_bad)}" if max_bad else "and --max_bad allows none"
        advice = blame or "mend these"
        if all(one.bad < one.total for one in over):
            advice += f", or --max_bad {percent(max(one.share for one in over), up=True)} goes on without them"
        raise refusal(f"{_joined(over)} could not be {done}, {limit}, so nothing was published: {why}; {advice}{end}")


def _blame(reasons: Mapping[str, int]) -> str:
    """Whose fault it is, where no record is to blame; nothing where one is."""
    if not reasons or not reasons.keys() <= {INTERNAL, PLUGIN}:
        return ""
    return f"this is a fault of Parapet: {REPORT}" if INTERNAL in reasons else "this is a fault of the plug-in"


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
            yield f"{counted(n, 'record was', 'records were')} lost to a fault of {whose}: {what}; see {place}{advice}"


def warnings_of(tallies: Iterable[Tally], reasons: Mapping[str, int], place: str, what: str) -> list[str]:
    """What a run that was published says of the records that it lacks.

    Args:
      tallies: of the run's counts.
      reasons: of its dead letters: id to how often.
      place: where they are.
      what: what became of them.
    """
    tallies = [one for one in tallies if one.bad]
    if not reasons and not tallies:
        return []
    listed = ", ".join(f"{reason} {n:,}" for reason, n in sorted(reasons.items()))
    empty = [one for one in tallies if one.is_record and one.bad == one.total]
    lines = [f"{one.part or 'the output'} has no {one.what} at all: none of {one.total:,} can be used" for one in empty]
    return [*lines, f"{what}: {_joined(tallies) if tallies else sum(reasons.values())} ({listed}); see {place}"]
