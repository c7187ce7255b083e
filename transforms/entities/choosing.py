"""Chooses the new values of one dialogue: one for each value, in its form, and none that occurs in training."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial

from parapet.transforms.entities import forms
from parapet.transforms.entities.groups import DialogueValues, Group, Kinds
from parapet.transforms.entities.kinds import CHOICE, FORMS
from parapet.transforms.entities.sources import ATTEMPTS, Sources
from parapet.transforms.entities.vocabulary import WORD, Training, words_of
from parapet.transforms.seeding import stable_hash

_WEEKS = range(5, 46)  # so that a date moves by one to ten months, and keeps its weekday
_MINUTES = [minute for minute in range(-60, 61) if minute]
_MORE_MINUTES = [minute for minute in range(-120, 121) if minute]
_SIZES = (15, 5)  # what is round stays round where that can be: a 4 o'clock becomes a quarter past rather than 3:55
_FORM_ATTEMPTS = 40  # of a form in which training has most, more find no more

Renderer = Callable[[str], str | None]  # writes the new value in the form of an old one; None if unknown


class Chooser:
    """Chooses for one dialogue.

    Args:
      dialogue_id: its id: choices differ from dialogue to dialogue.
      found: its values; ``replacement`` and ``shown``, or ``reason``, are filled in.
      kinds: the slots' kinds, with the values of categorical ones.
      sources: where values come from.
      training: what training has.
    """

    def __init__(
        self, dialogue_id: str, found: DialogueValues, kinds: Kinds, sources: Sources, training: Training
    ) -> None:
        self.id, self.found, self.kinds = dialogue_id, found, kinds
        self.sources, self.training = sources, training
        surfaces = [text for group in found.groups for text in group.surfaces]
        self.taken = {text.casefold() for text in (*surfaces, *(text for _, _, text in found.closed))}
        # A new value must not contain an old one: leftovers of the old one could not be distinguished from it.
        self.old: dict[str, list[str]] = {}  # by their first words
        for text in surfaces:
            if of_text := words_of(text):
                self.old.setdefault(of_text[0], []).append(f" {' '.join(of_text)} ")
        self.fresh: dict[str, set[str]] = {}  # by the keys of groups: what was taken for them

    def choose(self) -> None:
        """Fills in the replacement of each group, or why it is kept."""
        left = [group for group in self.found.groups if not group.reason]
        for kind, together in (("date", self._dates), ("time", self._times)):
            of_kind = [group for group in left if group.kind == kind]
            if of_kind and self.sources.makes(of_kind[0]):
                together(of_kind)
                left = [group for group in left if group.kind != kind]
        for group in left:
            if group.kind == CHOICE:
                self._choice(group)
            elif not self.sources.makes(group) and self.sources.pool_of(group) is None:
                group.reason = "not_in_file"
            elif group.kind in FORMS:
                self._form(group)
            else:
                self._name(group)

    def _take(self, group: Group, new: str, render: Renderer, unseen: bool = True) -> bool:
        """Takes a value as the replacement of a group, if it is suitable."""
        shown: dict[str, str] = {}
        fresh = {new}
        if unseen and leaks(self.training, group.kind, new):
            return False
        for surface in group.surfaces:
            said = render(surface)
            if said is None:
                return False
            if said not in fresh:
                if unseen and leaks(self.training, group.kind, said):
                    return False
                fresh.add(said)
            shown[surface] = said
        if any(text.casefold() in self.taken or self._holds_old(words_of(text)) for text in fresh):
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

    def _choice(self, group: Group) -> None:
        possible = sorted({value for slot in group.slots for value in self.kinds[slot].possible})
        start = stable_hash(self.sources.seed, "value", self.id, group.key) % max(1, len(possible))
        for value in possible[start:] + possible[:start]:
            every = all(value in self.kinds[slot].possible for slot in group.slots)
            if every and self._take(group, value, partial(_always, value), unseen=False):
                return
        group.reason = "closed"

    def _dates(self, groups: Sequence[Group]) -> None:
        """All dates move by the same number of weeks: what comes first stays first, a Friday a Friday."""
        days = [(group, forms.day_of(group.canonical)) for group in groups]
        for group, day in days:
            if day is None:
                group.reason = "unknown_form"
        known = [(group, day) for group, day in days if day is not None]
        start = stable_hash(self.sources.seed, "weeks", self.id)
        for attempt in range(len(_WEEKS)):
            weeks = _WEEKS[(start + attempt) % len(_WEEKS)]
            for group, day in known:
                new = forms.later(day, weeks)
                if new is None or not self._take(group, new.isoformat(), partial(forms.said_date, new)):
                    self._undo(group for group, _ in known)
                    break
            else:
                return
        for group, _ in known:
            group.reason = "no_unseen_value"

    def _times(self, groups: Sequence[Group]) -> None:
        """All times move by the same minutes and none across noon, if possible; else each by itself."""
        times = [(group, _time_of(group)) for group in groups]
        for group, time in times:
            if time is None:
                group.reason = "unknown_form"
        known = [(group, time) for group, time in times if time is not None]
        for size in _SIZES if known else ():
            for minutes in self._order(_MINUTES, ""):
                if all(self._may_move(group, time, minutes, size) for group, time in known):
                    if all(self._take_time(group, time + minutes) for group, time in known):
                        return
                    self._undo(group for group, _ in known)
        for group, time in known:
            order = self._order(_MORE_MINUTES, group.key)
            moves = (minutes for size in _SIZES for minutes in order if self._may_move(group, time, minutes, size))
            if not any(self._take_time(group, time + minutes) for minutes in moves):
                group.reason = "no_unseen_value"

    def _may_move(self, group: Group, time: int, minutes: int, size: int) -> bool:
        """Whether a time may move by some minutes: mornings stay mornings, and round times round.

        Nobody books at 6:47 pm, even where some trains leave then.
        """
        new = time + minutes
        steps = (size, 5, self._step(group))
        return new // 720 == time // 720 and not any(time % step == 0 and new % step for step in steps)

    def _order(self, minutes: list[int], key: str) -> list[int]:
        """By how many minutes a time may move, in the order in which they are tried."""
        start = stable_hash(self.sources.seed, "minutes", self.id, key) % len(minutes)
        return minutes[start:] + minutes[:start]

    def _take_time(self, group: Group, minutes: int) -> bool:
        return self._take(group, forms.said_time(minutes, "00:00"), partial(forms.said_time, minutes))

    def _step(self, group: Group) -> int:
        return max(self.kinds[slot].step for slot in group.slots)

    def _form(self, group: Group) -> None:
        render, why = self._candidates(group)
        if render is None:
            group.reason = why
            return
        for new in render:
            if self._take(group, *new):
                return
        group.reason = "no_unseen_value"

    def _candidates(self, group: Group) -> tuple[Iterable[tuple[str, Renderer]] | None, str]:
        """(canonical form, renderer) of each candidate; or None, and why there is none."""
        if not self.sources.makes(group):
            return (_as_said(group.kind, name) for name in self.sources.names(self.id, group)), ""
        numbers = itertools.islice(self.sources.numbers(self.id, group), _FORM_ATTEMPTS)
        if group.kind == "price":
            amount = forms.amount_of(group.canonical)
            amounts = [forms.amount_of(text) for text in group.surfaces]
            if amount is None or any(other is None or float(other) != float(amount) for other in amounts):
                return None, "unknown_form"
            step = self._step(group)
            number = stable_hash(self.sources.seed, "value", self.id, group.key)
            drawn = itertools.islice(forms.other_amounts(amount, number, step), ATTEMPTS)
            # Of whole prices training may have all: most candidates are dropped here.
            prices = ((forms.said_price(new, group.canonical), new) for new in drawn)
            return (
                (price, partial(forms.said_price, new)) for price, new in prices if not self.training.leaks(price)
            ), ""
        if group.kind != "phone":
            code = forms.code_of(group.canonical)
            if not code or any(forms.code_of(text) != code for text in group.surfaces):
                return None, "unknown_form"
            codes = (forms.other_code(group.kind, code, number) for number in numbers)
            return ((forms.said_code(new, group.canonical), partial(forms.said_code, new)) for new in codes), ""
        digits = forms.digits_of(group.canonical)
        if not digits or any(forms.digits_of(text) != digits for text in group.surfaces):
            return None, "unknown_form"
        if " " in (kept := _kept_words(group.canonical)) and self.training.leaks(kept):
            return None, "no_unseen_value"  # each candidate has them
        made = (forms.other_digits(group.canonical, number) for number in numbers)
        return ((forms.said_phone(new, group.canonical), partial(forms.said_phone, new)) for new in made), ""


def _name_like(group: Group, name: str) -> Renderer:
    """In the case of the old value; of "pasta" for Italian, the new one is Uzbek all the same."""

    def said(like: str) -> str:
        if group.kind == "cuisine" and like.casefold() != group.canonical.casefold():
            return name
        return in_case_of(name, like)

    return said


def in_case_of(text: str, like: str) -> str:
    """A text in the case of another; three or four capital letters are an abbreviation, "SFO"."""
    if like == like.lower():
        return text.lower()
    return text.upper() if like == like.upper() and sum(map(str.isalpha, like)) > 4 else text


def leaks(training: Training, kind: str, text: str) -> bool:
    """Whether training has a new value of a kind."""
    return training.leaks_form(text) if kind in ("code", "postcode") else training.leaks(text)


@lru_cache(10_000)
def _kept_words(like: str) -> str:
    """The words of a phone number that are nothing but country and area: they stay in another one."""
    digits = [place for place, char in enumerate(like) if char.isdecimal()]
    kept = forms.area_of(like)
    end = digits[kept - 1] + 1 if kept else 0
    return " ".join(word[0] for word in WORD.finditer(like) if word.end() <= end)


def _time_of(group: Group) -> int | None:
    """The time that all ways of writing agree on, as far as they are in figures."""
    figures = [forms.minutes_of(group.canonical)]
    figures += [minutes for text in group.surfaces if (minutes := forms.minutes_said(text)) is not None]
    known = [minutes for minutes in figures if minutes is not None]
    # "5:45" may be in the morning or in the afternoon.
    return known[0] if known and all((minutes - known[0]) % 720 == 0 for minutes in known) else None


def _always(value: str, _: str) -> str:
    return value


def _as_said(kind: str, given: str) -> tuple[str, Renderer]:
    """A value of a gazetteer, and how it is written in the style of another."""
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
