"""Service schemas of the SGD format (Rastogi et al. 2020, section 3.1), and their elements, which are paraphrased.

Other programs rely on the ids of elements, form fields and tasks.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args

import msgspec

from parapet.schemas.errors import InputError, reason_and_place

# Service names become part of file names, task ids and element ids.
SERVICE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,99}")
FILE_NAME_RULE = "must consist of at most 100 letters, digits, '_', '-' and '.', because files are named after it"


class NamedElement(msgspec.Struct):
    """A part of a schema. ``frame.service == "Hotels_1"``, as a user's model may have it, compares the name."""

    def __eq__(self, other: object) -> bool:
        """Compares with another element, or the name with a text."""
        name: str = getattr(self, self.__struct_fields__[0])
        return name == other if isinstance(other, str) else super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        """Returns the opposite of ``==``, which a Struct does not derive."""
        return not self == other


class Slot(NamedElement, omit_defaults=False):
    """A slot. Non-categorical slots have no possible values; MultiWOZ 2.2 omits the key."""

    name: str
    description: str
    is_categorical: bool = False
    possible_values: list[str] = []


class Intent(NamedElement):
    """An intent. ``optional_slots`` maps a slot to its default value; MultiWOZ 2.2 has no ``result_slots``."""

    name: str
    description: str
    is_transactional: bool = False
    required_slots: list[str] = []
    optional_slots: dict[str, str] = {}
    result_slots: list[str] = []


class Service(NamedElement):
    """A service: its intents and slots, in the order of the file, since other programs rely on their positions."""

    service_name: str
    description: str
    slots: list[Slot]
    intents: list[Intent]


class Toolset(Service, kw_only=True):
    """A toolset as a service: its tools are intents, its parameters slots. Several slots can have the same name.

    Attributes:
      toolset: its name; a variant keeps the original's.
      tool_keys: form field to the elements that share its texts: ``tool/NAME``, ``parameter/NAME/POINTER``. The first
        one is part of the id.
      tool_scopes: form field to the scopes in which the name must be unique.
      tool_cues: form field to what is shown of an element without a description.
    """

    toolset: str
    tool_keys: dict[str, list[str]]
    tool_scopes: dict[str, list[str]]
    tool_cues: dict[str, str]


# msgspec prepares a Struct on first use; two threads that do so at the same time crash the process (0.22).
_LAID_OUT = msgspec.json.Decoder(Service), msgspec.json.Decoder(Toolset)


def parse_service(raw: Any, path: object = "", where: str = "") -> Service:
    """Converts a service to typed objects and validates it.

    Raises:
      InputError: with file, position and reason of the first problem.
    """
    try:
        service = msgspec.convert(raw, Toolset if isinstance(raw, dict) and "tool_keys" in raw else Service)
    except msgspec.ValidationError as error:
        reason, at = reason_and_place(error)
        raise InputError(reason, path, _within(where, at)) from None
    for place, reason in problems_of(service):
        raise InputError(f"service {service.service_name!r}: {reason}", path, _within(where, place))
    return service


def _within(where: str, place: str) -> str:
    return ".".join(part for part in (where, place) if part)


def problems_of(service: Service) -> Iterator[tuple[str, str]]:
    """Yields (position, reason) for every rule of the format that ``service`` breaks."""
    if not SERVICE_NAME.fullmatch(service.service_name) or ".." in service.service_name:
        yield "service_name", f"a service name {FILE_NAME_RULE}"
    kinds: tuple[tuple[str, Sequence[Slot | Intent]], ...] = (("slots", service.slots), ("intents", service.intents))
    for kind, elements in kinds:
        counts = Counter(element.name for element in elements)
        for i, element in enumerate(elements):
            if not element.name.strip():
                yield f"{kind}[{i}].name", "the name is empty"
            elif counts[element.name] > 1 and not isinstance(service, Toolset):
                yield f"{kind}[{i}].name", f"{element.name!r} appears {counts[element.name]} times"
    slots = {slot.name for slot in service.slots}
    for i, intent in enumerate(service.intents):
        for key in ("required_slots", "optional_slots", "result_slots"):
            for name in getattr(intent, key):
                if name not in slots:
                    reason = f"intent {intent.name!r} refers to slot {name!r}, which the service lacks"
                    yield f"intents[{i}].{key}", reason
    for i, slot in enumerate(service.slots):
        if slot.is_categorical and not slot.possible_values:
            yield f"slots[{i}].possible_values", f"slot {slot.name!r} is categorical, but has no possible values"


def variant_service_name(service_name: str, variant: int | str) -> str:
    """Returns the name of a service in a variant: ``Hotels_13`` for ``Hotels_1`` in variant 3, as in SGD-X."""
    return f"{service_name}{variant}"


Kind = Literal["intent", "slot", "service"]
Task = Literal["names", "descriptions"]
TASKS: tuple[Task, ...] = get_args(Task)
VARIANTS = (1, 2, 3, 4, 5)

FIELD = re.compile(r"(intent|slot)_(0|[1-9][0-9]{0,5})|(service)")


class Element(msgspec.Struct, frozen=True):
    """An intent, a slot or the service itself.

    Attributes:
      id: ``SERVICE/intent/NAME``, ``SERVICE/slot/NAME`` or ``SERVICE/service`` with original names; for a toolset
        ``TOOLSET/tool/NAME`` or ``TOOLSET/parameter/NAME/POINTER``.
      field: the form field, ``intent_0``, ``slot_3`` or ``service``: kind and position in the original schema.
      values: the possible values of a categorical slot, else empty.
      scopes: elements that share a scope must have different names.
      cue: the text that stands for a missing description when its name is asked for.
    """

    id: str
    field: str
    kind: Kind
    name: str
    description: str
    values: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ("",)
    cue: str = ""

    def text(self, task: Task) -> str:
        """Returns the original of the text that ``task`` asks for."""
        return self.name if task == "names" else self.description

    def prompt(self, task: Task) -> str:
        """Returns the text that ``task`` shows."""
        return (self.description or self.cue) if task == "names" else self.name


def elements_of(service: Service, task: Task) -> list[Element]:
    """Returns the elements that ``task`` asks about: intents, slots and, for descriptions, the service.

    Toolsets have no description, and some of their tools and parameters have none, either.
    """
    name = service.service_name

    def element(kind: Kind, position: int, of: Intent | Slot, values: Sequence[str] = ()) -> Element:
        field, key, scopes, cue = f"{kind}_{position}", f"{kind}/{of.name}", tuple[str, ...](("",)), ""
        if isinstance(service, Toolset):
            key, scopes = service.tool_keys[field][0], tuple(service.tool_scopes[field])
            cue = service.tool_cues.get(field, "")
        return Element(f"{name}/{key}", field, kind, of.name, of.description, tuple(values), scopes, cue)

    elements = [element("intent", i, intent) for i, intent in enumerate(service.intents)]
    elements += [
        element("slot", i, slot, slot.possible_values if slot.is_categorical else ())
        for i, slot in enumerate(service.slots)
    ]
    if task == "descriptions" and isinstance(service, Toolset):
        return [element for element in elements if not element.cue]
    if task == "descriptions":
        elements.append(Element(f"{name}/service", "service", "service", name, service.description))
    return elements


def task_id(service_name: str, task: Task) -> str:
    """Returns ``SERVICE:names`` or ``SERVICE:descriptions``."""
    return f"{service_name}:{task}"


def response_id(assignment_id: str, field: str) -> str:
    """Returns the key of an answer in the audit, the review sheet and the decisions: ``3XYZ:slot_3``."""
    return f"{assignment_id}:{field}"
