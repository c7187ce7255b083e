"""Choose the next form for a person, so that names and descriptions stay blind to each other.

A person who has seen one task of a service never gets the other one, even if nothing was submitted, since the page has
shown what the other one hides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from parapet.transforms.crowd.serving.forms import Form


class Event(NamedTuple):
    """A form that a person was given, in this collection or an earlier one with the same store.

    Attributes:
      state: ``open``, ``late`` (open for long), ``submitted``, ``returned`` or ``expired``. Whatever it is, the person
        has seen the form.
    """

    person: int
    form: Form
    state: str


def choose(person: int, forms: Sequence[Form], history: Sequence[Event], limit: int | None = None) -> Form | None:
    """Choose the next form for a person; None if there is currently none.

    If no place is free, those of late forms are. What these people send is saved, too, so a form may get more answers
    than wanted.

    Args:
      person: a person without an open form.
      forms: the available forms, in order.
      history: all events; several for the same person and form if it was returned.
      limit: maximum number of forms that a person may submit.
    """
    own = [event for event in history if event.person == person]
    if limit is not None and sum(event.state == "submitted" for event in own) >= limit:
        return None
    taken = Counter(event.form.key for event in history if event.state in ("open", "submitted"))
    late = Counter(event.form.key for event in history if event.state == "late")
    seen = Counter(key for _, key in {(event.person, event.form.key) for event in history})
    given_back = {event.form.key for event in own}
    possible = [form for form in forms if taken[form.key] < form.assignments and _is_allowed(form, own)]
    free = [form for form in possible if taken[form.key] + late[form.key] < form.assignments]
    # The form that the fewest people have seen comes first, so that both tasks of a service proceed alike.
    return min(free or possible, key=lambda form: (form.key in given_back, seen[form.key]), default=None)


def _is_allowed(form: Form, own: Sequence[Event]) -> bool:
    """Whether a person may see a form: its elements are not answered yet, and its hidden texts were not shown."""
    for _, other, state in own:
        if other.hides and other.hides == form.hides and other.task != form.task:
            return False
        if state in ("submitted", "open") and other.task == form.task and other.elements & form.elements:
            return False
    return True
