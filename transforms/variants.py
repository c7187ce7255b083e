"""Writes a service under new names and descriptions, every reference renamed (the SGD-X layout)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parapet.schemas.service import variant_service_name

_SLOT_REFERENCES = ("required_slots", "optional_slots", "result_slots")


def compose_variant(
    raw: Mapping[str, Any], variant: int | str, names: Mapping[str, str], descriptions: Mapping[str, str]
) -> dict[str, Any]:
    """The service as variant ``variant``; keys of other programs, and the order of keys, stay.

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
