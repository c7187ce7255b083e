"""Choose new values: made up, or from a gazetteer."""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from functools import lru_cache, partial

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.schemas.limits import read_text
from parapet.transforms.perturbations.entities import forms, names
from parapet.transforms.perturbations.entities.kinds import FORMS, KINDS, is_none
from parapet.transforms.perturbations.entities.mentions import DialogueValues, Group, Kinds
from parapet.transforms.perturbations.entities.words import Training, grams_of, words, words_of
from parapet.transforms.running.seeding import stable_hash

GENERATED = "generated"
ATTEMPTS = 120  # to make a value that does not occur in training
COLUMNS = ["slot_or_kind", "value"]


Row = tuple[int, list[str]]  # of a gazetteer: line number, fields


class Sources(msgspec.Struct, frozen=True):
    """The sources of new values.

    Attributes:
      seed: the seed of all choices.
      pools: kind, slot or ``Service.slot`` to sorted values that do not occur in training; None if values are made up.
      country: the country whose towns, streets and airports occur in made-up names.
    """

    seed: str
    pools: dict[str, list[str]] | None = None
    country: str = names.US

    def pool_of(self, group: Group) -> str | None:
        """Return the pool for a group's value; None if the value is made up, or if there is no pool."""
        names = [f"{service}.{slot}" for service, slot in group.slots] + [slot for _, slot in group.slots]
        return next((name for name in (*names, group.kind) if name in (self.pools or ())), None)

    @property
    def makes(self) -> bool:
        """Whether values are made up."""
        return self.pools is None

    def numbers(self, dialogue_id: str, group: Group) -> Iterator[int]:
        """Yield a random number for each attempt at a group's value."""
        for attempt in range(ATTEMPTS):
            yield stable_hash(self.seed, "value", dialogue_id, group.key, str(attempt))

    def names(self, dialogue_id: str, group: Group) -> Iterator[str]:
        """Yield candidates for a group's value, in the order in which they are tried."""
        if self.makes:
            about = names.subject(tuple(group.slots))
            for attempt, number in enumerate(self.numbers(dialogue_id, group)):
                # "Sushi" may be a complete value, so that no new name can keep its last words.
                like = group.canonical if attempt < 12 else ""
                name = names.made_up_name(group.kind, like, number, about, self.country)
                if names.has_article(group.canonical) or not names.has_article(
                    name
                ):  # "the Visitor", not "the The Clockmaker"
                    yield name
            return
        pool = (self.pools or {}).get(self.pool_of(group) or "", [])
        start = stable_hash(self.seed, "value", dialogue_id, group.key) % len(pool) if pool else 0
        for place in range(len(pool)):
            yield pool[(start + place) % len(pool)]


def _distinct(values: Iterable[str]) -> list[str]:
    """Sort values and remove duplicates, ignoring case."""
    return sorted({value.casefold(): value for value in sorted(values, reverse=True)}.values())


def read_gazetteer(path: str) -> list[Row]:
    """Read the rows of a CSV file with the header ``slot_or_kind,value``.

    Raises:
      InputError: the file cannot be read, is not CSV, or has no rows.
    """
    text = read_text(as_path(path), where="--values")
    rows = csv.reader(io.StringIO(text, newline=""))
    try:
        if next(rows, None) != COLUMNS:
            raise InputError(f"the header must be {','.join(COLUMNS)}", path, "row 1")
        values = [(rows.line_num, row) for row in rows if row]
    except csv.Error as error:
        raise InputError(f"not CSV: {error}", path, f"row {rows.line_num}") from None
    if not values:
        raise InputError("contains no values", path)
    return values


def pools_of(
    rows: Iterable[Row], path: str, slots: Iterable[tuple[str, str]], training: Training
) -> tuple[dict[str, list[str]], int]:
    """Return a gazetteer's values by slot or kind, without those in training, and the number of values left out.

    Args:
      rows: the rows of the gazetteer.
      path: the gazetteer's path for messages.
      slots: the existing open slots.
      training: the n-grams of training.

    Raises:
      InputError: rows have unknown slots or unusable values; the message lists the first ten.
    """
    known = {*KINDS} | {slot for _, slot in slots} | {f"{service}.{slot}" for service, slot in slots}
    pools: dict[str, set[str]] = {}
    leaks, problems = 0, []
    for line, row in rows:
        if problem := _problem(row, known):
            problems.append(f"row {line}: {problem}")
            continue
        pool = pools.setdefault(row[0], set())
        if training.leaks(row[1]):
            leaks += 1
        else:
            pool.add(row[1].strip())
    if problems:
        more = f"; and {len(problems) - 10:,} more" if len(problems) > 10 else ""
        raise InputError("; ".join(problems[:10]) + more, path)
    return {name: _distinct(pool) for name, pool in pools.items()}, leaks


def _problem(row: list[str], known: set[str]) -> str:
    if len(row) != 2:
        return f"the row has {len(row)} columns, but must have 2: put quotes around values that contain a comma"
    name, value = row[0], row[1].strip()
    if name not in known:
        return f"{name!r} is neither an open slot of the corpus nor a kind ({', '.join(KINDS)})"
    if is_none(value) or not any(map(str.isalnum, value)) or len(value) > 200 or min(value) < " ":
        return f"{value!r} is not a usable value"
    parsers = {"date": forms.day_of, "time": forms.minutes_of, "price": forms.amount_of, "phone": forms.digits_of}
    if name in parsers and parsers[name](value) in (None, ""):
        return f"{value!r} is not a {name}, such as 2019-07-09, 17:22, 45.50 or 408-555-0123"
    return ""


_WEEKS = range(5, 46)  # a date moves by one to ten months and keeps its weekday
_SIZES = (15, 5)  # round times stay round if possible: 4 o'clock becomes a quarter past rather than 3:55
_FORM_ATTEMPTS = 8  # if training has the parts that all candidates share, further attempts do not help

Renderer = Callable[[str], str | None]  # formats the new value like an old one; returns None if its form is unknown


class Chooser:
    """Chooses the replacements in one dialogue.

    Args:
      dialogue_id: its id, part of the seed, so that choices differ between dialogues.
      found: its values; ``replacement`` and ``shown``, or ``reason``, are filled in.
      kinds: the kinds of slots.
      sources: the sources of new values.
      training: the n-grams of training.
    """

    def __init__(
        self, dialogue_id: str, found: DialogueValues, kinds: Kinds, sources: Sources, training: Training
    ) -> None:
        self.id, self.found, self.kinds = dialogue_id, found, kinds
        self.sources, self.training = sources, training
        surfaces = [text for group in found.groups for text in group.surfaces]
        self.taken = {text.casefold() for text in (*surfaces, *(text for _, _, text in found.closed))}
        # A new value must not contain an old one, or it could not be told apart from a leftover.
        self.old: dict[str, list[str]] = {}  # by first word
        for text in surfaces:
            if of_text := words_of(text):
                self.old.setdefault(of_text[0], []).append(f" {' '.join(of_text)} ")
        self.fresh: dict[str, set[str]] = {}  # by group key: texts reserved for the group

    def choose(self) -> None:
        """Set the replacement of each group, or the reason why it is kept."""
        left = self.found.groups
        if self.sources.makes:
            self._dates([group for group in left if group.kind == "date"])
            self._times([group for group in left if group.kind == "time" and not group.reason])
            left = [group for group in left if group.kind not in ("date", "time")]
        for group in left:
            if group.reason:
                continue
            if not self.sources.makes and self.sources.pool_of(group) is None:
                group.reason = "not_in_file"
            elif group.kind in FORMS:
                self._form(group)
            else:
                self._name(group)

    def _take(self, group: Group, new: str, render: Renderer) -> bool:
        """Use a value as the replacement of a group if it is suitable."""
        if leaks(self.training, group.kind, new):
            return False
        shown: dict[str, str] = {}
        for surface in group.surfaces:
            rendering = render(surface)
            if rendering is None:
                return False
            shown[surface] = rendering
        # A date without a month is as common in training as before, and others of the dialogue may be said so, too.
        fresh = {new, *(text for text in shown.values() if not (group.kind == "date" and forms.is_relative(text)))}
        if any(
            (text != new and leaks(self.training, group.kind, text))
            or text.casefold() in self.taken
            or self._holds_old(words_of(text))
            for text in fresh
        ):
            return False
        self.fresh[group.key] = {text.casefold() for text in fresh}
        self.taken |= self.fresh[group.key]
        group.replacement, group.shown = shown[group.canonical], shown
        return True

    def _holds_old(self, new: tuple[str, ...]) -> bool:
        first = [word for word in new if word in self.old]
        line = f" {' '.join(new)} " if first else ""
        return any(old in line for word in dict.fromkeys(first) for old in self.old[word])

    def _undo(self, groups: Iterable[Group]) -> None:
        for group in groups:
            self.taken -= self.fresh.pop(group.key, set())
            group.replacement, group.shown = "", {}

    def _name(self, group: Group) -> None:
        for name in self.sources.names(self.id, group):
            if self._take(group, name, _name_like(group, name)):
                return
        group.reason = "no_unseen_value"

    def _dates(self, groups: Sequence[Group]) -> None:
        """Move all dates by the same number of weeks, which keeps their order and weekdays, or keep all.

        Dates of one month stay in one month if possible, so that "the 4th of this month" still holds.
        """
        days = {group.key: day for group in groups if (day := forms.day_of(group.canonical)) is not None}
        known = [group for group in groups if group.key in days]
        for group in groups:
            if group.key not in days:
                group.reason = group.reason or "unknown_form"
        # "next Tuesday" may stay as it is while other dates move; "the 4th" may not
        fixed = any(group.reason and any(map(forms.has_digit, group.surfaces)) for group in groups)
        start = stable_hash(self.sources.seed, "weeks", self.id)
        moves = [_WEEKS[(start + attempt) % len(_WEEKS)] for attempt in range(len(_WEEKS))]
        if len(days) > 1:
            moves.sort(key=lambda weeks: len({_months_moved(day, weeks) for day in days.values()}) > 1)
        for weeks in moves:
            if fixed:
                break
            for group in known:
                new = forms.later(days[group.key], weeks)
                if new is None or not self._take(group, new.isoformat(), partial(forms.said_date, new)):
                    self._undo(known)
                    break
            else:
                return
        for group in known:
            group.reason = group.reason or ("kept_dates" if fixed else "no_unseen_value")

    def _times(self, groups: Sequence[Group]) -> None:
        """Move all times by the same number of minutes, none across noon, if possible; otherwise each on its own.

        Times stay as round as they were: tables are not booked at 6:47 pm, although trains leave then.
        """
        known: list[tuple[Group, int, tuple[tuple[int, ...], ...]]] = []  # time, moves of each size
        for group in groups:
            time = _time_of(group)
            if time is None:
                group.reason = "unknown_form"
                continue
            by_24_hours = all(map(forms.TIME_OF_DAY.fullmatch, group.surfaces))
            known.append((group, time, _moves(self.training, time, self._step(group), by_24_hours)))
        for shared in zip(*(moves for _, _, moves in known), strict=True):
            common = set.intersection(*map(set, shared))
            for move in self._order(tuple(sorted(move for move in common if abs(move) <= 60)), ""):
                if all(self._take_time(group, time + move) for group, time, _ in known):
                    return
                self._undo(group for group, _, _ in known)
        for group, time, (rounded, others) in known:
            order = [*self._order(rounded, group.key), *self._order(others, group.key)]
            if not any(self._take_time(group, time + move) for move in order):
                group.reason = "no_unseen_value"

    def _order(self, moves: tuple[int, ...], key: str) -> tuple[int, ...]:
        """Return the minutes by which a time may move, in the order in which they are tried."""
        start = stable_hash(self.sources.seed, "minutes", self.id, key) % len(moves) if moves else 0
        return moves[start:] + moves[:start]

    def _take_time(self, group: Group, minutes: int) -> bool:
        return self._take(group, forms.said_time(minutes, "00:00"), partial(forms.said_time, minutes))

    def _step(self, group: Group) -> int:
        return max(self.kinds[slot].step for slot in group.slots)

    def _form(self, group: Group) -> None:
        numbers = itertools.islice(self.sources.numbers(self.id, group), _FORM_ATTEMPTS)
        candidates: Iterable[tuple[str, Renderer]]
        if not self.sources.makes:
            candidates = (_as_said(group.kind, name) for name in self.sources.names(self.id, group))
        else:
            parse, say = {"price": (_float_of, forms.said_price), "phone": (forms.digits_of, forms.said_phone)}.get(
                group.kind, (forms.code_of, forms.said_code)
            )
            parsed = {parse(text) for text in group.surfaces}
            if len(parsed) > 1 or not parsed.isdisjoint(("", None)):
                group.reason = "unknown_form"
                return
            new: Iterable[str]
            if group.kind == "price":
                new = self._amounts(group)
            elif group.kind == "phone":
                new = (forms.other_digits(group.canonical, number) for number in numbers)
            else:
                new = (forms.other_code(group.kind, forms.code_of(group.canonical), number) for number in numbers)
            candidates = ((say(text, group.canonical), partial(say, text)) for text in new)
        if not any(self._take(group, *candidate) for candidate in candidates):
            group.reason = "no_unseen_value"

    def _amounts(self, group: Group) -> Iterator[str]:
        amounts = _unseen_amounts(self.training, forms.amount_of(group.canonical) or "", self._step(group))
        start = stable_hash(self.sources.seed, "value", self.id, group.key) % len(amounts) if amounts else 0
        return itertools.chain(amounts[start:], amounts[:start])


@lru_cache(1 << 14)
def _unseen_amounts(training: Training, amount: str, step: int) -> tuple[str, ...]:
    """Return other amounts that do not occur in training; it may have all whole ones."""
    return tuple(new for new in forms.other_amounts(amount, step) if new not in training.grams)


def _name_like(group: Group, name: str) -> Renderer:
    """Return a renderer that adapts case; but "pasta" for Italian becomes "Welsh food"."""

    def said(like: str) -> str:
        if group.kind == "cuisine" and like.casefold() != group.canonical.casefold():
            return name if like in group.modifiers or "food" in like else f"{name} food"  # for "pasta"
        return names.in_case_of(names.short_form(group.kind, like, group.canonical, name) or name, like)

    return said


def _months_moved(day: date, weeks: int) -> int:
    new = forms.later(day, weeks) or day
    return 12 * (new.year - day.year) + new.month - day.month


@lru_cache(16)
def _unseen_minutes(training: Training, by_24_hours: bool) -> frozenset[int]:
    """Return the minutes of the day that do not occur in training, as ``17:22`` or also as ``5:22 pm``."""
    likes = ("00:00",) if by_24_hours else ("00:00", "5:00 pm")
    return frozenset(
        n for n in range(1440) if not any(leaks(training, "time", forms.said_time(n, like)) for like in likes)
    )


@lru_cache(1 << 14)
def _moves(training: Training, time: int, step: int, by_24_hours: bool) -> tuple[tuple[int, ...], ...]:
    """Return the moves to an unseen time of the same half of the day: those that keep it very round, and others."""
    unseen, noon = _unseen_minutes(training, by_24_hours), time // 720 * 720
    moves = [new - time for new in range(max(noon, time - 120), min(noon + 720, time + 121)) if new in unseen]
    units = [math.lcm(*(n for n in (size, 5, step) if time % n == 0)) for size in _SIZES]
    return tuple(tuple(move for move in moves if move and move % unit == 0) for unit in units)


def leaks(training: Training, kind: str, text: str) -> bool:
    """Whether a new value of a kind occurs in training."""
    if kind == "time":  # "the evening" does
        return any(forms.has_digit(pair) and pair in training.grams for pair in grams_of(words(text)))
    return training.leaks_form(text) if kind in ("code", "postcode") else training.leaks(text)


def _float_of(text: str) -> float | None:
    amount = forms.amount_of(text)
    return None if amount is None else float(amount)


def _time_of(group: Group) -> int | None:
    """Return the time on which all forms with digits agree, or None."""
    figures = [forms.minutes_of(group.canonical)]
    figures += [minutes for text in group.surfaces if (minutes := forms.minutes_said(text)) is not None]
    known = [minutes for minutes in figures if minutes is not None]
    # "5:45" may be in the morning or in the afternoon.
    return known[0] if known and all((minutes - known[0]) % 720 == 0 for minutes in known) else None


def _as_said(kind: str, given: str) -> tuple[str, Renderer]:
    """Return a value of a gazetteer and its renderer."""
    day, minutes, amount = forms.day_of(given), forms.minutes_of(given), forms.amount_of(given)
    if kind == "date" and day is not None:
        return given, partial(forms.said_date, day)
    if kind == "time" and minutes is not None:
        return forms.said_time(minutes, "00:00"), partial(forms.said_time, minutes)
    if kind == "price" and amount is not None:
        return amount, lambda like: forms.said_price(amount, like) if forms.amount_of(like) else None
    digits = forms.digits_of(given)
    same = kind == "phone" and digits
    return (
        given,
        lambda like: forms.said_phone(digits, like) if same and len(forms.digits_of(like)) == len(digits) else given,
    )
