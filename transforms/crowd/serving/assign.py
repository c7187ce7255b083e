"""Choose the next form for a person, so that names and descriptions stay blind to each other.

A person who has seen one task of a service never gets the other one, even if nothing was submitted, since the page has
shown what the other one hides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

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
    seen = Counter(key for _, key in {(event.person, event.form.key) for event in history})
    given_back = {event.form.key for event in mine}
    possible = [form for form in forms if taken[form.key] < form.wanted and is_allowed(form, mine)]
    # The form that the fewest people have seen comes first, so that both tasks of a service proceed alike.
    return min(possible, key=lambda form: (form.key in given_back, seen[form.key]), default=None)


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
