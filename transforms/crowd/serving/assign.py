"""Choose the next form for a person so that few people keep names and descriptions blind to each other.

A person who has seen one task of a service never gets the other one, even if nothing was submitted, since the page has
shown what the other one hides. So a service needs as many people as its two tasks have assignments together, and no
schedule needs fewer. People stay with one of the two tasks as long as it has work for them. With the minimum number of
people, none of whom drops out, every form is filled in, in whatever order they arrive (see
``tests/transforms/serving``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from parapet.schemas.service import TASKS
from parapet.transforms.crowd.serving.forms import Form

State = Literal["open", "submitted", "returned", "expired"]


class Event(msgspec.Struct, frozen=True):
    """A form that a person was given, in this collection or an earlier one with the same store.

    Attributes:
      state: the state of the form. Whatever it is, the person has seen the form.
    """

    person: int
    form: Form
    state: State


def choose(person: int, forms: Sequence[Form], history: Sequence[Event], limit: int | None = None) -> Form | None:
    """Choose the next form for a person; None if there is currently none.

    Args:
      person: a person without an open form.
      forms: the available forms, in order.
      history: all events, in order of time; several for the same person and form if it was returned.
      limit: maximum number of forms that a person may submit.
    """
    mine = [event for event in history if event.person == person]
    if limit is not None and sum(event.state == "submitted" for event in mine) >= limit:
        return None
    taken = Counter(event.form.key for event in history if event.state in ("open", "submitted"))
    possible = [form for form in forms if taken[form.key] < form.wanted and is_allowed(form, mine)]
    if not possible:
        return None
    side = next((event.form.task for event in mine if event.form.service), "") or _needed_side(
        forms, history, taken, limit
    )
    given_back = {event.form.key for event in mine}
    # On ties, max returns the first form in their order. The least complete form comes first, so that no form remains
    # at the end that everyone has already done.
    return max(
        possible,
        key=lambda form: (
            not form.service or form.task == side,
            form.key not in given_back,
            form.wanted - taken[form.key],
        ),
    )


def is_allowed(form: Form, mine: Iterable[Event]) -> bool:
    """Whether a person may see a form: its elements are not answered yet, and its hidden texts were not shown.

    Args:
      form: the form.
      mine: the events of the person so far.
    """
    for event in mine:
        other = event.form
        if other.service and other.service == form.service and other.task != form.task:
            return False
        if event.state in ("submitted", "open") and other.task == form.task and other.elements & form.elements:
            return False
    return True


def _needed_side(forms: Sequence[Form], history: Sequence[Event], taken: Counter[str], limit: int | None) -> str:
    """Return the task that needs most people: its open places minus what its current annotators can still do."""
    lacking = {}
    by_person: dict[int, list[Event]] = {}
    for event in history:
        by_person.setdefault(event.person, []).append(event)
    sides = {
        person: next((event.form.task for event in events if event.form.service), "")
        for person, events in by_person.items()
        if events[-1].state != "expired"  # people whose time has expired may not come back
    }
    for side in TASKS:
        left = [form for form in forms if form.service and form.task == side]
        lacking[side] = sum(max(0, form.wanted - taken[form.key]) for form in left)
        for person in (person for person, theirs in sides.items() if theirs == side):
            possible = sum(is_allowed(form, by_person[person]) for form in left)
            done = sum(event.state == "submitted" for event in by_person[person])
            lacking[side] -= possible if limit is None else min(possible, max(0, limit - done))
    return max(TASKS, key=lambda side: lacking[side])
