"""User turns: text, annotated values, acts and services; text to protect; and edits that keep annotations correct."""

from __future__ import annotations

import copy
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import msgspec

from parapet.schemas.dialogue import Dialogue, Turn, is_marker, typed
from parapet.transforms.perturbation.base import Perturbed, changed_turn
from parapet.transforms.perturbation.corpora import services_in_turns


class Edit(msgspec.Struct, frozen=True, order=True):
    """An edit that replaces characters ``start`` to ``end`` (exclusive, in the original) by ``text``."""

    start: int
    end: int
    text: str


def edited(utterance: str, edits: Sequence[Edit]) -> str:
    """Apply edits. Raises ValueError if they are not in order, overlap, or are outside of the utterance."""
    parts, at = [], 0
    for edit in edits:
        if not at <= edit.start <= edit.end <= len(utterance):
            raise ValueError(f"edits out of order, or outside the utterance: {edits}")
        parts += [utterance[at : edit.start], edit.text]
        at = edit.end
    return "".join([*parts, utterance[at:]])


def moved(start: int, end: int, edits: Iterable[Edit]) -> tuple[int, int] | None:
    """Return the position of the characters ``start`` to ``end`` after the edits.

    Returns:
      The new position, longer or shorter if edits are inside; None if an edit crosses a border, so that the position is
        undefined. Insertions at a border are outside.
    """
    before = inside = 0
    for edit in edits:
        grown = len(edit.text) - (edit.end - edit.start)
        if edit.end <= start:
            before += grown
        elif edit.start >= end:
            break
        elif start <= edit.start and edit.end <= end:
            inside += grown
        else:
            return None
    return start + before, end + before + inside


def move_spans(turn: dict[str, Any], edits: Sequence[Edit]) -> list[str]:
    """Apply edits to a turn in the format of its file, in place: to the utterance, and to the spans of its frames.

    Returns:
      The slots of spans whose border is crossed by an edit; if there are any, the turn is unchanged.
    """
    places: list[tuple[dict[str, Any], tuple[int, int]]] = []
    torn: list[str] = []
    for frame in turn["frames"]:
        for span in frame.get("slots", ()):
            if isinstance(span.get("start"), int) and isinstance(span.get("exclusive_end"), int):
                place = moved(span["start"], span["exclusive_end"], edits)
                if place is None:
                    torn.append(str(span["slot"]))
                else:
                    places.append((span, place))
    if not torn:
        for span, (start, end) in places:
            span["start"], span["exclusive_end"] = start, end
        turn["utterance"] = edited(turn["utterance"], edits)
    return torn


Range = tuple[int, int]


class Ranges:
    """Ranges of characters that can be searched for overlaps in logarithmic time.

    Args:
      ranges: in any order; may overlap.
    """

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        ordered = sorted(ranges)
        self._starts = [start for start, _ in ordered]
        self._ends = list(accumulate((end for _, end in ordered), max))  # running maximum of ends

    def overlap(self, start: int, end: int) -> bool:
        """Whether any range overlaps ``start`` to ``end``; if these are equal, whether they are inside a range."""
        before = bisect_left(self._starts, end)
        return before > 0 and self._ends[before - 1] > start

    def touch(self, start: int, end: int) -> bool:
        """Whether any range overlaps characters ``start`` to ``end`` or is adjacent to them."""
        before = bisect_right(self._starts, end)
        return before > 0 and self._ends[before - 1] >= start


# Values of states that are never said.
_UNSAID = frozenset({"dontcare", "true", "false"})

_ASCII_LOWER = {upper: upper + 32 for upper in range(65, 91)}

YES = frozenset({"yes", "yeah", "yea", "yep", "yup"})
_NEGATIONS = """
no nope nah not never none nothing nobody neither nor without cannot cant dont doesnt didnt wont isnt arent wasnt werent
wouldnt couldnt shouldnt havent hasnt hadnt aint neednt mustnt
"""
NEGATIONS = frozenset(_NEGATIONS.split())

# Words for yes or no, numbers, times or money, where a changed letter may change the meaning.
_YES_NO = "ya sure ok okay okey alright right correct wrong nay except unless stop cancel"
_NUMBERS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
nineteen twenty thirty forty fourty fifty sixty seventy eighty ninety hundred thousand million billion half quarter
dozen couple both single double triple once twice first second third fourth fifth sixth seventh eighth ninth tenth
eleventh twelfth thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth thirtieth
"""
_TIMES = """
am pm noon midday midnight morning afternoon evening night today tonight tomorrow yesterday weekend oclock
monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thur thurs fri sat sun
january february march april may june july august september october november december
jan feb mar apr jun jul aug sep sept oct nov dec past till until after before
"""
_MONEY = "dollar dollars buck bucks cent cents euro euros pound pounds yen rupee rupees usd eur gbp grand free"
DECISIVE = YES | NEGATIONS | frozenset(f"{_YES_NO} {_NUMBERS} {_TIMES} {_MONEY}".split())

_NEGATION = re.compile(r"n['’]t\b", re.IGNORECASE)


def is_decisive(word: str) -> bool:
    """Whether a word means yes or no, a number, a time or money."""
    lower = word.lower()
    return lower in DECISIVE or _NEGATION.search(lower) is not None


def lowered(text: str) -> str:
    """Convert to lower case with the same length: ``"İ".lower()`` would have two characters."""
    return text.lower() if text.isascii() else text.translate(_ASCII_LOWER)


def sayable(values: Iterable[str]) -> tuple[str, ...]:
    """Return distinct values that may occur in a turn and have letters, as input of :func:`value_ranges`."""
    sayings = {lowered(value.strip()) for value in set(values)}
    return tuple(sorted(value for value in sayings - _UNSAID if any(map(str.isalpha, value))))


def value_ranges(utterance: str, values: Iterable[str]) -> list[Range]:
    """Find values as whole words in any case, including those inside of others and plurals.

    Args:
      utterance: the text.
      values: the result of :func:`sayable`.
    """
    text = lowered(utterance)
    ranges = []
    for value in values:
        at = text.find(value)
        while at >= 0:
            end = at + len(value)
            end += text[end : end + 1] == "s" and value[-1].isalpha()
            if not (text[at - 1 : at].isalnum() and value[0].isalnum()) and not (
                text[end : end + 1].isalnum() and value[-1].isalnum()
            ):
                ranges.append((at, end))
            at = text.find(value, at + 1)
    return ranges


def protected_ranges(
    utterance: str, spans: Sequence[Range], values: Iterable[str], perturb_values: bool = False
) -> list[Range]:
    """Return the ranges that must not be changed.

    Args:
      utterance: the utterance.
      spans: the spans of annotated values.
      values: values of the dialogue's states, from :func:`sayable`.
      perturb_values: whether annotated values may be changed, but not values without a span, such as categorical ones.
    """
    ranges = value_ranges(utterance, values)
    if not perturb_values:
        ranges += spans
        return ranges
    touched = Ranges(spans)
    return [span for span in ranges if not touched.overlap(*span)]


Edits = Iterable[tuple[int, int, str]]


class Span(msgspec.Struct, frozen=True):
    """An annotated value: characters ``start`` to ``end`` (exclusive), inside the utterance."""

    service: str
    slot: str
    start: int
    end: int


class UserTurn(msgspec.Struct, frozen=True):
    """A user turn.

    Attributes:
      dialogue_id: the id of its dialogue.
      position: its position in the dialogue, from 0.
      utterance: the text.
      spans: its annotated values.
      values: values in states and actions of the dialogue, from ``sayable``.
      acts: the acts of all its frames.
      services: the services that it is about.
      wrong: the slots of spans that are not inside the utterance.
      turn: the turn itself.
      before: the previous user turn.
    """

    dialogue_id: str
    position: int
    utterance: str
    spans: tuple[Span, ...]
    values: tuple[str, ...]
    acts: frozenset[str]
    services: tuple[str, ...]
    wrong: tuple[str, ...]
    turn: Turn | None = None
    before: Turn | None = None

    @property
    def ranges(self) -> list[Range]:
        """Return the ranges of its spans."""
        return [(span.start, span.end) for span in self.spans]

    def protected(self, perturb_values: bool = False) -> list[Range]:
        """Return the ranges that must not be changed."""
        return protected_ranges(self.utterance, self.ranges, self.values, perturb_values)


def user_turns(dialogue: Dialogue) -> Iterator[UserTurn]:
    """Yield the user turns, in order."""
    values = sayable(_values(dialogue))
    before = None
    for position, (turn, services) in enumerate(zip(dialogue.turns, services_in_turns(dialogue), strict=True)):
        if turn.speaker == "USER":
            yield _user_turn(dialogue.dialogue_id, position, turn, before, values, services)
            before = turn


def _values(dialogue: Dialogue) -> set[str]:
    values: set[str] = set()
    for turn in dialogue.turns:
        if turn.speaker == "USER":
            for frame in turn.frames:
                if frame.state:
                    values.update(*frame.state.slot_values.values())
                for action in frame.actions or ():
                    if not is_marker(action.act, action.slot):
                        values.update(action.values)
    return values


def _user_turn(
    dialogue_id: str,
    position: int,
    turn: Turn,
    before: Turn | None,
    values: tuple[str, ...],
    services: tuple[str, ...],
) -> UserTurn:
    spans: list[Span] = []
    wrong = []
    for frame in turn.frames:
        for span in frame.slots:
            if not isinstance(span.start, int) or not isinstance(span.exclusive_end, int):
                continue  # copied from another turn, so without a position in this one
            if not 0 <= span.start < span.exclusive_end <= len(turn.utterance):
                wrong.append(span.slot)
                continue
            spans.append(Span(frame.service, span.slot, span.start, span.exclusive_end))
    return UserTurn(
        dialogue_id=dialogue_id,
        position=position,
        utterance=turn.utterance,
        spans=tuple(spans),
        values=values,
        acts=frozenset(action.act for frame in turn.frames for action in frame.actions or ()),
        services=services,
        wrong=tuple(wrong),
        turn=turn,
        before=before,
    )


def edit_user_turns(
    dialogue: dict[str, Any], edits: Callable[[UserTurn], Edits], *, edit_values: bool = False
) -> Perturbed:
    """Edit the user turns of a dialogue. Spans of slot values move with the text; states are unchanged.

    Values are protected: an edit that overlaps the span of a value, or a value of the dialogue's states, is dropped. So
    are edits that would leave an empty utterance.

    Args:
      dialogue: the dialogue in SGD format; it is not modified.
      edits: called with each user turn, and returns edits of its utterance: characters ``start`` to ``end`` (exclusive)
        are replaced by ``text``. It can use these attributes of the turn: ``dialogue_id``, ``position`` in the
        dialogue, ``utterance``, ``spans``, ``acts``, ``services``.
      edit_values: whether the text inside spans may be edited, too.

    Returns:
      The dialogue, and a row (:func:`changed_turn`) for each changed turn.

    Raises:
      InputError: the dialogue is not in SGD format.
      ValueError: edits overlap, or are outside of the utterance.

    Example:
      >>> import parapet
      >>> dialogue = next(parapet.load_corpus().dialogues("test"))
      >>> dialogue["turns"][0]["utterance"]
      'My bike broke down, who can fix it in Port Alder?'
      >>> perturbed = parapet.edit_user_turns(dialogue, lambda turn: [(0, 0, "Hi! ")])
      >>> turn = perturbed.dialogue["turns"][0]
      >>> turn["utterance"]
      'Hi! My bike broke down, who can fix it in Port Alder?'
      >>> span = turn["frames"][0]["slots"][0]
      >>> turn["utterance"][span["start"] : span["exclusive_end"]]
      'Port Alder'
      >>> perturbed.rows[0]["turn"], perturbed.rows[0]["utterance"][:11]
      (0, 'Hi! My bike')
    """
    turns, rows = [*dialogue["turns"]], []
    for user_turn in user_turns(typed(dialogue)):
        wanted = sorted(Edit(start, end, text) for start, end, text in edits(user_turn))
        protected = user_turn.protected(edit_values)
        allowed = [
            edit for edit in wanted if not any(edit.start < end and start < edit.end for start, end in protected)
        ]
        turn = copy.deepcopy(turns[user_turn.position])
        torn = move_spans(turn, allowed)
        if torn or not turn["utterance"].strip() or turn["utterance"] == user_turn.utterance:
            continue
        rows.append(changed_turn(dialogue, user_turn.position, turn))
        turns[user_turn.position] = turn
    return Perturbed({**dialogue, "turns": turns}, rows)
