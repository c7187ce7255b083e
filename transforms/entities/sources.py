"""Where new values come from: made up, held out of the corpus itself, or of a gazetteer."""

from __future__ import annotations

import csv
import functools
import io
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.schemas.limits import read_text
from parapet.transforms.counts import percent
from parapet.transforms.entities.forms import amount_of, day_of, digits_of, minutes_of
from parapet.transforms.entities.groups import Group
from parapet.transforms.entities.kinds import FORMS, KINDS, NAMES, is_none
from parapet.transforms.entities.names import made_up_name
from parapet.transforms.entities.vocabulary import Training
from parapet.transforms.seeding import stable_hash

GENERATED, CORPUS = "generated", "corpus"
ATTEMPTS = 240  # to make a value that training does not have
COLUMNS = ["slot_or_kind", "value"]


Row = tuple[int, str, str]  # of a gazetteer: its line, a slot or kind, a value


class Sources(msgspec.Struct, frozen=True, dict=True):
    """Where values come from.

    Attributes:
      mode: ``generated``, ``corpus`` or ``file``.
      seed: of all choices.
      pools: kind, slot or ``Service.slot`` to values that training does not have, sorted; none where they are made.
    """

    mode: str
    seed: str
    pools: dict[str, list[str]] = {}

    def pool_of(self, group: Group) -> str | None:
        """Which pool a group's value comes from; None where it is made, or where there is none."""
        names = [f"{service}.{slot}" for service, slot in group.slots] + [slot for _, slot in group.slots]
        return next((name for name in (*names, group.kind) if name in self.pools), None)

    @functools.cached_property
    def folded(self) -> dict[str, frozenset[str]]:
        """The values of the pools, case folded."""
        return {name: frozenset(map(str.casefold, pool)) for name, pool in self.pools.items()}

    def makes(self, group: Group) -> bool:
        """Whether the group's value is made up."""
        return self.mode == GENERATED or (self.mode == CORPUS and group.kind in FORMS)

    def numbers(self, dialogue_id: str, group: Group) -> Iterator[int]:
        """Draws for a group's value, one for each attempt."""
        for attempt in range(ATTEMPTS):
            yield stable_hash(self.seed, "value", dialogue_id, group.key, str(attempt))

    def names(self, dialogue_id: str, group: Group) -> Iterator[str]:
        """Candidates for a group's value, in the order in which they are tried."""
        if self.makes(group):
            for attempt, number in enumerate(self.numbers(dialogue_id, group)):
                # "Sushi" may be a value of its own: then no new name can end with it as the old one does.
                yield made_up_name(group.kind, group.canonical if attempt < ATTEMPTS // 2 else "", number)
            return
        pool = self.pools.get(self.pool_of(group) or "", [])
        start = stable_hash(self.seed, "value", dialogue_id, group.key) % len(pool) if pool else 0
        for place in range(len(pool)):
            yield pool[(start + place) % len(pool)]


def held_out(values: Iterable[tuple[str, str]], training: Training, seed: str) -> dict[str, list[str]]:
    """The half of a corpus's own names that is held out, without what training has (Bordes et al. 2017, 3.1.2).

    Args:
      values: (kind, canonical form).
      training: what training has.
      seed: of the halves.
    """
    pools: dict[str, set[str]] = {kind: set() for kind in NAMES}
    for kind, value in values:
        if kind in pools and stable_hash(seed, "held_out", value.casefold()) % 2 and not training.leaks(value):
            pools[kind].add(value)
    return {kind: _distinct(pool) for kind, pool in pools.items()}


def _distinct(values: Iterable[str]) -> list[str]:
    """Sorted, each once, whatever its case."""
    return sorted({value.casefold(): value for value in sorted(values, reverse=True)}.values())


def read_gazetteer(path: str) -> list[Row]:
    """The rows of a CSV file with a header ``slot_or_kind,value``.

    Raises:
      InputError: it cannot be read, or values are none: the message has the first ten rows.
    """
    text = read_text(as_path(path), where="--values")
    found: list[Row] = []
    problems = []
    rows = csv.reader(io.StringIO(text, newline=""))
    try:
        if next(rows, None) != COLUMNS:
            raise InputError(f"the first row must be {','.join(COLUMNS)}", path, "row 1")
        for row in rows:
            if not row:
                continue
            if problem := _problem(row):
                problems.append(f"row {rows.line_num}: {problem}")
            else:
                found.append((rows.line_num, row[0], row[1].strip()))
    except csv.Error as error:
        raise InputError(f"not CSV: {error}", path, f"row {rows.line_num}") from None
    _refuse(problems, path)
    if not found:
        raise InputError("has no values", path)
    return found


def pools_of(
    rows: Iterable[Row], path: str, slots: Iterable[tuple[str, str]], training: Training
) -> tuple[dict[str, list[str]], int]:
    """The values of a gazetteer by slot or kind, without those that training has, and how many those were.

    Args:
      rows: of the gazetteer.
      path: of the gazetteer, for messages.
      slots: the open slots there are.
      training: what training has.

    Raises:
      InputError: rows of slots that are not there: the message has the first ten.
    """
    known = {*KINDS} | {slot for _, slot in slots} | {f"{service}.{slot}" for service, slot in slots}
    pools: dict[str, set[str]] = {}
    leaks, problems = 0, []
    for line, name, value in rows:
        if name not in known:
            kinds = ", ".join(KINDS)
            problems.append(f"row {line}: {name!r} is neither an open slot of the corpus nor a kind ({kinds})")
            continue
        pool = pools.setdefault(name, set())
        if training.leaks(value):
            leaks += 1
        else:
            pool.add(value)
    _refuse(problems, path)
    return {name: _distinct(pool) for name, pool in pools.items()}, leaks


def _refuse(problems: list[str], path: str) -> None:
    if problems:
        more = f"; and {len(problems) - 10} more" if len(problems) > 10 else ""
        raise InputError("; ".join(problems[:10]) + more, path)


def _problem(row: list[str]) -> str:
    if len(row) != len(COLUMNS):
        return f"{len(row)} columns, and there must be {len(COLUMNS)}: quote a value that has a comma"
    kind, value = row[0], row[1].strip()
    if is_none(value) or not any(char.isalnum() for char in value):
        return f"{value!r} is no value"
    if any(ord(char) < 32 for char in value) or len(value) > 200:
        return "a value is one line of 200 characters at most"
    forms = {"date": day_of, "time": minutes_of, "price": amount_of, "phone": digits_of}
    if kind in forms and not forms[kind](value) and forms[kind](value) != 0:
        return f"{value!r} is no {kind}, such as 2019-07-09, 17:22, 45.50 or 408-555-0123"
    return ""


def check_enough(pools: Mapping[str, list[str]], needs: Mapping[str, int], path: str, max_bad: Fraction) -> str:
    """What is missing where some dialogue needs more values than there are; nothing where there are enough.

    Raises:
      InputError: of some a larger share is missing than may be.
    """
    short = {name: (need, len(pools.get(name, ()))) for name, need in sorted(needs.items())}
    missing = [
        f"{name}: {need - there} missing (a dialogue needs {need}, there are {there})"
        for name, (need, there) in short.items()
        if there < need
    ]
    if any(need - there > max_bad * need for need, there in short.values()):
        hint = "add values, or give --values generated"
        if any(short[name][1] for name in short):
            most = max(Fraction(need - there, need) for need, there in short.values() if need)
            hint += f"; --max_bad {percent(most, up=True)} keeps what finds none as it is"
        raise InputError(f"too few values; {hint}: {'; '.join(missing)}", path, "--values")
    return f"too few values, what finds none is kept: {'; '.join(missing)}" if missing else ""
