"""Replace the values of one dialogue: choose new ones, made up or from a gazetteer, and write them to its turns."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from functools import lru_cache, partial
from typing import Any

import msgspec

from parapet.schemas import errors, layout, limits
from parapet.schemas.dialogue import Dialogue, is_marker
from parapet.transforms.core.seeding import stable_hash
from parapet.transforms.perturb.edits import Edit, move_spans
from parapet.transforms.perturb.entities import kinds, names
from parapet.transforms.perturb.entities.kinds import FORMS, KINDS, NAMES, is_none
from parapet.transforms.perturb.entities.mentions import (
    DialogueValues,
    Group,
    Kinds,
    Mention,
    Slot,
    find_mentions,
    find_values,
    leaks,
    words_of,
)
from parapet.transforms.perturb.entities.names import in_case_of

GENERATED = "generated"
ATTEMPTS = 120  # to make a name that does not occur in training
COLUMNS = ["slot_or_kind", "value"]

Row = tuple[int, list[str]]  # of a gazetteer: line number, fields
_HAS_DIGIT = re.compile(r"\d").search
Renderer = Callable[[str], str]  # writes the new value in the form of an old one


class Replacer(msgspec.Struct, frozen=True):
    """The data for replacing values, shared by all dialogues.

    Attributes:
      seed: the seed of all choices.
      kinds: the kind of each slot.
      training: the words and pairs of adjacent words in training.
      pools: a gazetteer's names by kind, slot or ``Service.slot``; those of other slots are made up.
      country: the country whose towns, streets and airports occur in made-up names.
      quarters: the slots of times that are multiples of a quarter of an hour.
    """

    seed: str
    kinds: Kinds
    training: frozenset[str]
    pools: dict[str, list[str]] = {}
    country: str = names.US
    quarters: frozenset[Slot] = frozenset()

    def names(self, dialogue_id: str, group: Group) -> Iterator[str]:
        """Yields candidates for a group's value, in the order in which they are tried."""
        slots = sorted(group.slots)
        places = [*(f"{service}.{slot}" for service, slot in slots), *(slot for _, slot in slots), group.kind]
        if pool := next((self.pools[place] for place in places if place in self.pools), None):
            start = stable_hash(self.seed, "value", dialogue_id, group.key) % len(pool)
            yield from (*pool[start:], *pool[:start])
            return
        about = names.subject(tuple(slots))
        for attempt in range(ATTEMPTS):
            number = stable_hash(self.seed, "value", dialogue_id, group.key, str(attempt))
            # "Sushi" may be a complete value, so that no new name can keep its last words.
            like = group.canonical if attempt < 12 else ""
            name = names.made_up_name(group.kind, like, number, about, self.country)
            if names.has_article(group.canonical) or not names.has_article(name):  # "the Visitor", not "the The Hours"
                yield name


def read_gazetteer(path: str) -> list[Row]:
    """Reads the rows of a CSV file with the header ``slot_or_kind,value``.

    Raises:
      InputError: the file cannot be read, is not CSV, or has no rows.
    """
    rows = csv.reader(io.StringIO(limits.read_text(layout.as_path(path), where="--values"), newline=""))
    try:
        if next(rows, None) != COLUMNS:
            raise errors.InputError(f"the header must be {','.join(COLUMNS)}", path, "row 1")
        values = [(rows.line_num, row) for row in rows if row]
    except csv.Error as error:
        raise errors.InputError(f"not CSV: {error}", path, f"row {rows.line_num}") from None
    if not values:
        raise errors.InputError("contains no values", path)
    return values


def pools_of(rows: Iterable[Row], path: str, kinds: Kinds) -> dict[str, list[str]]:
    """Returns a gazetteer's values by slot or kind.

    Args:
      rows: the rows of the gazetteer.
      path: the gazetteer's path for messages.
      kinds: the kinds of slots.

    Raises:
      InputError: a row has an unknown slot or an unusable value.
    """
    slots = [slot for slot, kind in kinds.items() if kind in NAMES]
    known = {*NAMES, *(slot for _, slot in slots), *(f"{service}.{slot}" for service, slot in slots)}
    pools: dict[str, set[str]] = {}
    for line, row in rows:
        if len(row) != 2:
            problem = f"the row has {len(row)} columns, but must have 2: put quotes around values that contain a comma"
        elif row[0] not in known:
            problem = f"{row[0]!r} is neither a slot with names nor a kind of names ({', '.join(NAMES)})"
        elif is_none(row[1].strip()) or not row[1].isprintable() or len(row[1]) > 200:
            problem = f"{row[1]!r} is not a usable value"
        else:
            pools.setdefault(row[0], set()).add(row[1].strip())
            continue
        raise errors.InputError(problem, path, f"row {line}")
    return {name: sorted(pool) for name, pool in pools.items()}


_WEEKS = range(5, 46)  # a date moves by one to ten months and keeps its weekday
_MOST_MINUTES = 120


class Chooser:
    """Chooses the replacements in one dialogue.

    Args:
      dialogue_id: its id, part of the seed, so that choices differ between dialogues.
      found: its values; ``replacement`` and ``shown``, or ``reason``, are filled in.
      replacer: the data for replacing values.
    """

    def __init__(self, dialogue_id: str, found: DialogueValues, replacer: Replacer) -> None:
        self.id, self.found, self.replacer, self.training = dialogue_id, found, replacer, replacer.training
        surfaces = [text for group in found.groups for text in group.surfaces]
        self.taken = {text.casefold() for text in (*surfaces, *found.closed)}
        # A new value must not contain an old one, or it could not be told apart from a leftover.
        self.old: dict[str, list[str]] = {}  # by first word
        for text in surfaces:
            if of_text := words_of(text):
                self.old.setdefault(of_text[0], []).append(f" {' '.join(of_text)} ")

    def choose(self) -> None:
        """Sets the replacement of each group, or the reason why it is kept."""
        self._dates([group for group in self.found.groups if group.kind == "date"])
        left = [group for group in self.found.groups if not group.reason]
        self._times([group for group in left if group.kind == "time"])
        for group in left:
            if group.kind in ("price", "phone", "postcode", "code"):
                self._form(group)
            elif group.kind not in FORMS and not any(
                self._take((group, name, _name_like(group, name))) for name in self.replacer.names(self.id, group)
            ):
                group.reason = "no_unseen_value"

    def _take(self, *choices: tuple[Group, str, Renderer]) -> bool:
        """Uses values as the replacements of groups if all of them are suitable."""
        taken: set[str] = set()
        results = []
        for group, new, render in choices:
            if leaks(self.training, group.kind, new):
                return False
            shown = {surface: render(surface) for surface in group.surfaces}
            # A date without a month is as common in training as before, and others of the dialogue may be said so, too.
            texts = {text for text in shown.values() if not (group.kind == "date" and kinds.is_relative(text))}
            fresh = {text.casefold() for text in (new, *texts)}
            if not (fresh.isdisjoint(self.taken) and fresh.isdisjoint(taken)) or any(
                leaks(self.training, group.kind, text) or self._holds_old(words_of(text)) for text in fresh
            ):
                return False
            taken |= fresh
            results.append(shown)
        self.taken |= taken
        for (group, _, _), shown in zip(choices, results, strict=True):
            group.replacement, group.shown = shown[group.canonical], shown
        return True

    def _holds_old(self, new: tuple[str, ...]) -> bool:
        return any(old in f" {' '.join(new)} " for word in new for old in self.old.get(word, ()))

    def _number(self, *key: str) -> int:
        return stable_hash(self.replacer.seed, *key)

    def _dates(self, groups: Sequence[Group]) -> None:
        """Moves all dates by the same number of weeks, which keeps their order and weekdays, or keep all.

        Dates of one month stay in one month if possible, so that "the 4th of this month" still holds.
        """
        days = [(group, day) for group in groups if (day := kinds.day_of(group.canonical)) is not None]
        for group in groups:
            group.reason = group.reason or ("" if kinds.day_of(group.canonical) else "unknown_form")
        if not days:
            return
        # "next Tuesday" may stay as it is while other dates move; "the 4th" may not
        fixed = any(group.reason and any(map(_HAS_DIGIT, group.surfaces)) for group in groups)
        start = self._number("weeks", self.id)
        moves = [timedelta(weeks=_WEEKS[(start + attempt) % len(_WEEKS)]) for attempt in range(len(_WEEKS))]
        if len(days) > 1:
            moves.sort(key=lambda move: len({(day + move).replace(day=1) for _, day in days}))
        for move in [] if fixed else moves:
            new = [(group, day + move) for group, day in days]
            if self._take(*((group, day.isoformat(), partial(kinds.said_date, day)) for group, day in new)):
                return
        for group, _ in days:
            group.reason = group.reason or ("kept_dates" if fixed else "no_unseen_value")

    def _times(self, groups: Sequence[Group]) -> None:
        """Moves all times by the same number of minutes if possible; otherwise each on its own."""
        times = []
        for group in groups:
            if (time := _time_of(group)) is None:
                group.reason = "unknown_form"
            else:
                times.append((group, time))
        if times and not self._move_times(*times):
            for group, time in times:
                if not self._move_times((group, time)):
                    group.reason = "no_unseen_value"

    def _move_times(self, *times: tuple[Group, int]) -> bool:
        """Moves times by the same number of minutes, by a multiple of a quarter of an hour if possible."""
        moves = sorted(set.intersection(*(self._moves_of(group, time) for group, time in times)))
        start = self._number("minutes", self.id, times[0][0].key) % len(moves) if moves else 0
        for move in sorted(moves[start:] + moves[:start], key=lambda move: move % 15 != 0):
            new = [(group, time + move) for group, time in times]
            if self._take(*((group, kinds.said_time(n, "00:00"), partial(kinds.said_time, n)) for group, n in new)):
                return True
        return False

    def _moves_of(self, group: Group, time: int) -> set[int]:
        round_to = 1 if self.replacer.quarters.isdisjoint(group.slots) else 15
        return set(_moves(self.replacer.training, time, max(round_to, 5 if time % 5 == 0 else 1)))

    def _form(self, group: Group) -> None:
        """Chooses another price, phone number, postcode or reference."""
        key = ("value", self.id, group.key)
        parse: Callable[[str], str | None]
        say: Callable[[str, str], str]
        new: Iterable[str]
        if group.kind == "price":
            parse, say = kinds.amount_of, kinds.said_price
            amounts = kinds.other_amounts(kinds.amount_of(group.canonical) or "0", self._number(*key))
            new = (amount for amount in amounts if amount not in self.training)
        else:
            parse, say = kinds.code_of, kinds.said_code
            numbers = (self._number(*key, str(attempt)) for attempt in range(8))
            new = (kinds.other_code(group.kind, kinds.code_of(group.canonical), number) for number in numbers)
        parsed = {parse(text) for text in group.surfaces}
        if len(parsed) > 1 or not parsed.isdisjoint(("", None)):
            group.reason = "unknown_form"
        elif not any(self._take((group, say(text, group.canonical), partial(say, text))) for text in new):
            group.reason = "no_unseen_value"


def _name_like(group: Group, name: str) -> Renderer:
    """Returns a renderer that adapts case and shortens; but "pasta" for Italian becomes "Welsh food"."""

    def said(like: str) -> str:
        if group.kind == "cuisine" and like.casefold() != group.canonical.casefold():
            return f"{name} food"
        return names.in_case_of(names.short_form(like, group.canonical, name), like)

    return said


@lru_cache(16)
def _unseen_minutes(training: frozenset[str]) -> frozenset[int]:
    """Returns the minutes of the day that do not occur in training, neither as ``17:22`` nor as ``5:22 pm``."""
    likes = ("00:00", "5:00 pm")
    return frozenset(n for n in range(1440) if not any(leaks(training, "time", kinds.said_time(n, x)) for x in likes))


@lru_cache(1 << 14)
def _moves(training: frozenset[str], time: int, unit: int) -> frozenset[int]:
    """Returns the moves to unseen times of the same half of the day that are multiples of some minutes."""
    noon = time // 720 * 720
    new = range(max(noon, time - _MOST_MINUTES), min(noon + 720, time + _MOST_MINUTES + 1))
    return frozenset(n - time for n in _unseen_minutes(training).intersection(new) if n % unit == 0)


def _time_of(group: Group) -> int | None:
    """Returns the time on which all forms with digits agree, or None."""
    figures = [kinds.minutes_of(group.canonical), *map(kinds.minutes_said, sorted(group.surfaces))]
    known = [minutes for minutes in figures if minutes is not None]
    # "5:45" may be in the morning or in the afternoon.
    return known[0] if known and all((minutes - known[0]) % 720 == 0 for minutes in known) else None


# before a value, with blanks and opening marks between
_ARTICLE = re.compile(r"(?<![^\W_])(an?)\s+[\"'“‘(]?\Z", re.IGNORECASE)
_VOWEL = re.compile(r"[aeiouáéíóúàèìòùâêîôûäëïöü]|8|11(?!\d)|18(?!\d)|hour|hono|honest|heir", re.IGNORECASE)
_CONSONANT = re.compile(r"(?:uni(?!m|n)|us[aeu]|util|utop|ukrai|urug|eu|ewe|one\b|once\b|ouija)", re.IGNORECASE)


def article_of(text: str) -> str:
    """Returns the article before a text: ``a`` or ``an``."""
    start = text.lstrip("\"'“‘($#")
    return "an" if _VOWEL.match(start) and not _CONSONANT.match(start) else "a"


def edits_of(utterance: str, mentions: Sequence[Mention]) -> list[Edit]:
    """Returns the edits that replace the mentions of groups with a replacement, and the articles before them, in order.

    Args:
      utterance: the utterance.
      mentions: the values in it, in order; kept groups produce no edits.

    Raises:
      InputError: values overlap.
    """
    edits: list[Edit] = []
    free = 0  # the text before this position belongs to another mention
    for mention in mentions:
        new = _text_for(mention)
        if new != mention.text and mention.start < free:
            raise errors.InputError(f"overlapping: {mention.text!r} occurs inside another value")
        if new != mention.text:
            article = _ARTICLE.search(utterance, free, mention.start)
            wanted = article_of(new)
            # In "a 11:45 am", "a" is not an article but a misspelled "at".
            if article and wanted != article[1].casefold() == article_of(mention.text):
                edits.append(Edit(*article.span(1), wanted.capitalize() if article[1][0] == "A" else wanted))
            edits.append(Edit(mention.start, mention.end, new))
        free = max(free, mention.end)
    return edits


def _text_for(mention: Mention) -> str:
    """Returns the replacement of a mention in its case; its own text if it is kept."""
    if mention.group is None or not mention.group.replacement:
        return mention.text
    shown = mention.group.shown
    return shown.get(mention.text) or in_case_of(shown[mention.like], mention.text)


class Replaced(msgspec.Struct):
    """A dialogue with replaced values.

    Attributes:
      dialogue: the dialogue in the format of its file.
      rows: a row for every value of every open slot, see ``parapet.schemas.rows``.
      turns_changed: the number of changed turns.
      leaks: the number of new values that occur in training, which the run asserts to be 0.
    """

    dialogue: dict[str, Any]
    rows: list[dict[str, Any]]
    turns_changed: int
    leaks: int


def replaced(raw: dict[str, Any], dialogue: Dialogue, replacer: Replacer) -> Replaced:
    """Replaces the values of one dialogue.

    Args:
      raw: the dialogue in the format of its file; it is not modified.
      dialogue: the same dialogue, typed.
      replacer: the data for replacing values.

    Raises:
      InputError: the dialogue cannot be made consistent and must not be used.
    """
    values = find_values(dialogue, replacer.kinds)
    mentions = find_mentions(dialogue, values)
    Chooser(dialogue.dialogue_id, values, replacer).choose()
    new_texts = {old: new for group in values.groups for old, new in group.shown.items()}
    turns, turns_changed = [], 0
    for position, of_turn in enumerate(mentions):
        turn = raw["turns"][position]
        turn = {**turn, "frames": [_new_frame(frame, replacer, new_texts) for frame in turn["frames"]]}
        turns.append(turn)
        if edits := edits_of(turn["utterance"], of_turn):
            if torn := move_spans(turn, edits):
                reason = f"torn_span: the span of {torn[0]!r} ends inside the replaced text"
                raise errors.InputError(reason, "", f"turns[{position}]")
            turns_changed += 1
    leaking = sum(
        leaks(replacer.training, group.kind, text)
        for group in values.groups
        for text in group.shown.values()
        if not (group.kind == "date" and kinds.is_relative(text))
    )
    rows = [_row(dialogue.dialogue_id, slot, group) for group in values.groups for slot in group.slots]
    rows.sort(key=lambda row: (row["service"], row["slot"], row["canonical"]))
    return Replaced({**raw, "turns": turns}, rows, turns_changed, leaking)


def _new_frame(frame: dict[str, Any], replacer: Replacer, new_texts: dict[str, str]) -> dict[str, Any]:
    """Returns a frame with the new values of its open slots."""

    def new(slot: str, value: Any) -> Any:
        if replacer.kinds.get((frame["service"], slot)) not in KINDS:
            return value
        if isinstance(value, str):
            return new_texts.get(value, value)
        return list(dict.fromkeys(new_texts.get(text, text) for text in value))  # variants may become equal

    copy = dict(frame)
    if frame.get("slots"):
        copy["slots"] = [
            {**span, "value": new(span["slot"], span["value"])} if span.get("value") else dict(span)
            for span in frame["slots"]
        ]
    if frame.get("actions"):
        copy["actions"] = [
            action | {key: [new(action["slot"], text) for text in action[key]] for key in _VALUE_KEYS if key in action}
            if action["slot"] and not is_marker(action["act"], action["slot"])
            else action
            for action in frame["actions"]
        ]
    for key, below in (("state", "slot_values"), ("service_call", "parameters")):
        if (frame.get(key) or {}).get(below):
            copy[key] = {**frame[key], below: {slot: new(slot, value) for slot, value in frame[key][below].items()}}
    if frame.get("service_results"):
        copy["service_results"] = [
            {slot: new(slot, value) for slot, value in result.items()} for result in frame["service_results"]
        ]
    return copy


_VALUE_KEYS = ("values", "canonical_values")


def _row(dialogue_id: str, slot: tuple[str, str], group: Group) -> dict[str, Any]:
    # The forms other than the canonical one, unless it is the only one.
    spoken = sorted(group.surfaces - {group.canonical}) or [group.canonical]
    return {
        "dialogue_id": dialogue_id,
        "service": slot[0],
        "slot": slot[1],
        "kind": group.kind,
        "status": "replaced" if group.replacement else "kept",
        "reason": group.reason,
        "value": spoken,
        "replacement": list(dict.fromkeys(group.shown[text] for text in spoken)) if group.replacement else [],
        "canonical": group.canonical,
        "canonical_replacement": group.replacement,
        # dates without a month are as common in training as before
        "unseen": bool(group.replacement) and not (group.kind == "date" and any(map(kinds.is_relative, spoken))),
    }
