"""The names of a service in a variant: matched with the original's by position or mapping, and given to its schema."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from parapet.schemas.dialogue import MARKERS
from parapet.schemas.errors import InputError
from parapet.schemas.service import Intent, Service, Slot, variant_service_name

_SLOT_REFERENCES = ("required_slots", "optional_slots", "result_slots")

# Service to its slots and its intents.
Known = Mapping[str, tuple[frozenset[str], frozenset[str]]]


class Names(msgspec.Struct, frozen=True):
    """The names of a service, its intents and its slots in a variant.

    Attributes:
      service: the service's name.
      intents: old name to new name, every intent.
      slots: old name to new name, every slot.
    """

    service: str
    intents: dict[str, str]
    slots: dict[str, str]


def by_position(original: Service, variant: Service) -> Names:
    """Matches intents and slots by position: the n-th of the variant is the n-th of the original, as in SGD-X.

    Raises:
      InputError: the numbers of intents or slots differ, or a slot is categorical in one of the two only.
    """
    for what, ours, theirs in (
        ("intents", len(original.intents), len(variant.intents)),
        ("slots", len(original.slots), len(variant.slots)),
    ):
        if ours != theirs:
            raise InputError(f"has {theirs} {what}, the original {ours}")
    names = Names(
        variant.service_name,
        {a.name: b.name for a, b in zip(original.intents, variant.intents, strict=True)},
        {a.name: b.name for a, b in zip(original.slots, variant.slots, strict=True)},
    )
    _check_categorical(original, variant, names)
    return names


def by_mapping(original: Service, variant: Service, names: Names) -> Names:
    """Recorded names, checked against both schemas.

    Raises:
      InputError: the mapping lacks an intent or slot, has one too many, gives two of them the same name, names one that
        the variant lacks, or pairs a categorical slot with a free one.
    """
    kinds: tuple[tuple[str, Sequence[Intent | Slot], Sequence[Intent | Slot], dict[str, str]], ...] = (
        ("intents", original.intents, variant.intents, names.intents),
        ("slots", original.slots, variant.slots, names.slots),
    )
    for what, ours, theirs, renamed in kinds:
        olds, news = [element.name for element in ours], [element.name for element in theirs]
        for reason, wrong in (
            (f"the mapping lacks {what}", [name for name in olds if name not in renamed]),
            (f"the mapping has {what} that the original lacks", [name for name in renamed if name not in olds]),
            (f"the mapping has {what} that the variant lacks", [n for n in renamed.values() if n not in news]),
            (f"the mapping gives two {what} the same name", [n for n, c in Counter(renamed.values()).items() if c > 1]),
        ):
            if wrong:
                raise InputError(f"{reason}: {_listed(wrong)}")
    _check_categorical(original, variant, names)
    return Names(names.service, *({o.name: n[o.name] for o in ours} for _, ours, _, n in kinds))


def _check_categorical(original: Service, variant: Service, names: Names) -> None:
    theirs = {slot.name: slot.is_categorical for slot in variant.slots}
    for slot in original.slots:
        new = names.slots[slot.name]
        if slot.is_categorical != theirs[new]:
            kinds = ("categorical", "not") if slot.is_categorical else ("not categorical", "categorical")
            raise InputError(f"slot {slot.name!r} is {kinds[0]}, but {new!r} in the variant is {kinds[1]}")


def marker_names(names: Names) -> list[str]:
    """The slots that are named ``intent`` or ``count`` only in the variant: names with a special meaning in actions."""
    return [old for old, new in names.slots.items() if new in MARKERS and old != new]


def known_names(services: Iterable[Service]) -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    """Each service to its slots and its intents: the names that dialogues may use."""
    return {
        service.service_name: (
            frozenset(slot.name for slot in service.slots),
            frozenset(intent.name for intent in service.intents),
        )
        for service in services
    }


def _listed(names: Iterable[Any]) -> str:
    return ", ".join(map(repr, names))


def compose_variant(
    raw: Mapping[str, Any], variant: int | str, names: Mapping[str, str], descriptions: Mapping[str, str]
) -> dict[str, Any]:
    """The service under new names and descriptions, every reference renamed. Other keys and their order are kept.

    Args:
      raw: the service as its file has it.
      variant: 1 to 5; ``X_1`` becomes ``X_11``.
      names: form field (``intent_0``, ``slot_3``) to new name, for every intent and slot.
      descriptions: form field, ``service`` included, to new description.
    """
    slots = {slot["name"]: names[f"slot_{i}"] for i, slot in enumerate(raw["slots"])}
    service = dict(raw)
    service["service_name"] = variant_service_name(raw["service_name"], variant)
    service["description"] = descriptions["service"]
    service["slots"] = [
        {**slot, "name": names[f"slot_{i}"], "description": descriptions[f"slot_{i}"]}
        for i, slot in enumerate(raw["slots"])
    ]
    service["intents"] = [
        {
            **intent,
            "name": names[f"intent_{i}"],
            "description": descriptions[f"intent_{i}"],
            **{key: _renamed(intent[key], slots) for key in _SLOT_REFERENCES if key in intent},
        }
        for i, intent in enumerate(raw["intents"])
    ]
    return service


def _renamed(references: Any, slots: Mapping[str, str]) -> Any:
    if isinstance(references, dict):
        return {slots[name]: value for name, value in references.items()}
    return [slots[name] for name in references]
