"""Who gets which form next, so that few people keep names and descriptions blind to each other. Pure functions.

A person who has seen one task of a service never gets the other, even if nothing was submitted: the page has shown what
the other one hides. So a service needs as many people as its two tasks have assignments together, and no schedule can
do with fewer. People keep to one of the two tasks as long as it has work for them: with that many people who do not
give up, every form is filled in, whatever the order in which they come (``tests/transforms/serving`` shows it).
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
      key: of the form. ``task``, ``service`` and ``elements`` too are its own.
      state: what became of it. Whatever it is, the person has seen the form.
    """

    person: int
    key: str
    task: str
    service: str
    elements: frozenset[str]
    state: State


def choose(person: int, forms: Sequence[Form], history: Sequence[Event], limit: int | None = None) -> Form | None:
    """The form that a person gets next; None where there is none for them now.

    Args:
      person: who has no open form.
      forms: those on offer, in order.
      history: all events, in order of time; several for the same person and form if it was returned.
      limit: how many forms a person may submit.
    """
    mine = [event for event in history if event.person == person]
    if limit is not None and sum(event.state == "submitted" for event in mine) >= limit:
        return None
    taken = Counter(event.key for event in history if event.state in ("open", "submitted"))
    possible = [form for form in forms if taken[form.key] < form.wanted and is_allowed(form, mine)]
    if not possible:
        return None
    side = next((event.task for event in mine if event.service), "") or _needed_side(forms, history, taken, limit)
    given_back = {event.key for event in mine}
    # max takes the first of equals: the order of the forms. What is furthest from complete comes first, so that no form
    # is left at the end for people who have all done it.
    return max(
        possible,
        key=lambda form: (
            not form.service or form.task == side,
            form.key not in given_back,
            form.wanted - taken[form.key],
        ),
    )


def is_allowed(form: Form, mine: Iterable[Event]) -> bool:
    """Whether a person may see a form: nothing of it is answered already, and nothing that it hides was shown.

    Args:
      form: the form.
      mine: what the person was given so far.
    """
    for event in mine:
        if event.service and event.service == form.service and event.task != form.task:
            return False
        if event.state in ("submitted", "open") and event.task == form.task and event.elements & form.elements:
            return False
    return True


def _needed_side(forms: Sequence[Form], history: Sequence[Event], taken: Counter[str], limit: int | None) -> str:
    """The task that lacks most people: what is left of it, less what those who do it already can still do."""
    lacking = {}
    by_person: dict[int, list[Event]] = {}
    for event in history:
        by_person.setdefault(event.person, []).append(event)
    sides = {
        who: next((event.task for event in events if event.service), "")
        for who, events in by_person.items()
        if events[-1].state != "expired"  # who let the time run out may not come back
    }
    for side in TASKS:
        left = [form for form in forms if form.service and form.task == side]
        lacking[side] = sum(max(0, form.wanted - taken[form.key]) for form in left)
        for who in (who for who, theirs in sides.items() if theirs == side):
            possible = sum(is_allowed(form, by_person[who]) for form in left)
            done = sum(event.state == "submitted" for event in by_person[who])
            lacking[side] -= possible if limit is None else min(possible, max(0, limit - done))
    return max(TASKS, key=lambda side: lacking[side])
