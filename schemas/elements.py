"""Elements: what is paraphrased. Their ids, form fields and tasks are contracts with other programs."""

from __future__ import annotations

import re
from typing import Literal, get_args

import msgspec

from parapet.schemas.service import Service

Kind = Literal["intent", "slot", "service"]
Task = Literal["names", "descriptions"]
TASKS: tuple[Task, ...] = get_args(Task)
VARIANTS = (1, 2, 3, 4, 5)

FIELD = re.compile(r"(intent|slot)_(0|[1-9][0-9]{0,5})|(service)")


class Element(msgspec.Struct, frozen=True):
    """An intent, a slot or the service itself.

    Attributes:
      id: ``SERVICE/intent/NAME``, ``SERVICE/slot/NAME`` or ``SERVICE/service``, original names.
      field: the form field, ``intent_0``, ``slot_3`` or ``service``: kind and position in the original schema.
      values: the possible values of a categorical slot, else empty.
    """

    id: str
    field: str
    kind: Kind
    name: str
    description: str
    values: tuple[str, ...] = ()

    def text(self, task: Task) -> str:
        """The original of what ``task`` asks for."""
        return self.name if task == "names" else self.description

    def prompt(self, task: Task) -> str:
        """What ``task`` shows."""
        return self.description if task == "names" else self.name


def elements_of(service: Service, task: Task) -> list[Element]:
    """The elements that ``task`` asks about: intents, slots and, for descriptions, the service."""
    name = service.service_name
    found = [
        Element(f"{name}/intent/{intent.name}", f"intent_{i}", "intent", intent.name, intent.description)
        for i, intent in enumerate(service.intents)
    ]
    found += [
        Element(
            f"{name}/slot/{slot.name}",
            f"slot_{i}",
            "slot",
            slot.name,
            slot.description,
            tuple(slot.possible_values) if slot.is_categorical else (),
        )
        for i, slot in enumerate(service.slots)
    ]
    if task == "descriptions":
        found.append(Element(f"{name}/service", "service", "service", name, service.description))
    return found


def task_id(service_name: str, task: Task) -> str:
    """``SERVICE:names`` or ``SERVICE:descriptions``."""
    return f"{service_name}:{task}"


def response_id(assignment_id: str, field: str) -> str:
    """The key of the audit, the review sheet and the decisions: ``3XYZ:slot_3``."""
    return f"{assignment_id}:{field}"
