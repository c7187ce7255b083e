"""The places of names in a dialogue: found once, then written with the names of one variant after another."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from parapet.schemas.dialogue import is_marker, typed
from parapet.schemas.errors import InputError
from parapet.transforms.variants.matching import Variant
from parapet.transforms.variants.names import Known, Names

NO_INTENT = "NONE"


class _OfService:
    """The places in the frames of one service, with the original names.

    Attributes:
      frames: the frames, for their ``service``.
      slots: slot to the (object, key) that it is the value of: spans, actions, ``copy_from``.
      intents: (object, key, intent).
      requested: (state, its requested slots).
      offered: (action, key, values) whose values are intents.
      records: (object, key, record) of records whose keys are slots.
      results: (frame, records whose keys are slots).
    """

    __slots__ = ("frames", "intents", "known", "offered", "records", "requested", "results", "slots")

    def __init__(self, known: tuple[frozenset[str], frozenset[str]]) -> None:
        self.known = known
        self.frames: list[dict[str, Any]] = []
        self.slots: dict[str, list[tuple[dict[str, Any], str]]] = {}
        self.intents: list[tuple[dict[str, Any], str, str]] = []
        self.requested: list[tuple[dict[str, Any], list[str]]] = []
        self.offered: list[tuple[dict[str, Any], str, list[Any]]] = []
        self.records: list[tuple[dict[str, Any], str, dict[str, Any]]] = []
        self.results: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []


class Places:
    """The places of one dialogue.

    Attributes:
      services: the services that it touches, in its list or in a frame.
      unknown_intents: how many intents the schema lacks; they are unchanged.

    Args:
      dialogue: the dialogue, parsed; :meth:`write` replaces its names in place.
      known: the slots and intents of every service of its split.

    Raises:
      InputError: a service or slot that the schema lacks, or not the SGD format; ``where`` is the place.
    """

    def __init__(self, dialogue: Any, known: Known) -> None:
        self.dialogue = dialogue
        self.unknown_intents = 0
        self._known = known
        self._of: dict[str, _OfService] = {}
        self._copies: list[tuple[dict[str, Any], str]] = []  # spans with ``copy_from``, and their services
        place = ""
        try:
            self._listed: list[str] = _typed(dialogue["services"], list)
            for i, service in enumerate(self._listed):
                place = f"services[{i}]"
                self._of_service(service)
            for t, turn in enumerate(_typed(dialogue["turns"], list)):
                for f, frame in enumerate(_typed(turn["frames"], list)):
                    place = f"turns[{t}].frames[{f}]"
                    self._take(frame, frame["service"], self._of_service(frame["service"]))
            place = ""
            for span, service in self._copies:
                self._take_copy(span, service)
        except InputError as error:
            raise InputError(error.reason, "", error.where or place) from None
        except (TypeError, KeyError, AttributeError):
            raise _not_sgd(dialogue, place) from None
        self.services = list(self._of)

    def _of_service(self, service: str) -> _OfService:
        of = self._of.get(service)
        if of is None:
            if service not in self._known:
                raise InputError(f"unknown_service: no schema has a service {service!r}")
            of = self._of[service] = _OfService(self._known[service])
        return of

    def _take(self, frame: dict[str, Any], service: str, of: _OfService) -> None:
        of.frames.append(frame)
        for span in frame.get("slots", ()):
            _take_slot(span, "slot", of, service)
            if "copy_from" in span:
                self._copies.append((span, service))
        for action in frame.get("actions", ()):
            if "slot" in _typed(action, dict):
                _take_action(action, of, service)
        if "state" in frame:
            state = frame["state"]
            self._take_intent(state, "active_intent", of)
            if requested := _typed(state["requested_slots"], list):
                _check_slots(requested, of, service)
                of.requested.append((state, requested))
            _take_record(state, "slot_values", of, service)
        if "service_call" in frame:
            call = frame["service_call"]
            self._take_intent(call, "method", of)
            _take_record(call, "parameters", of, service)
        if results := frame.get("service_results"):
            for record in _typed(results, list):
                _check_slots(_typed(record, dict), of, service)
            of.results.append((frame, results))

    def _take_intent(self, holder: dict[str, Any], key: str, of: _OfService) -> None:
        intent = holder[key]
        if intent in of.known[1]:
            of.intents.append((holder, key, intent))
        elif intent != NO_INTENT:
            _typed(intent, str)
            self.unknown_intents += 1

    def _take_copy(self, span: dict[str, Any], service: str) -> None:
        """The slot of ``copy_from`` belongs to the service of the frame, or else to another service of the dialogue."""
        slot = span["copy_from"]
        owners = [name for name, of in self._of.items() if slot in of.known[0]]
        if service in owners:
            owners = [service]
        if len(owners) != 1:
            which = "none" if not owners else "several"
            raise InputError(f"unknown_slot: copy_from {slot!r}: {which} of the dialogue's services has it")
        self._of[owners[0]].slots.setdefault(slot, []).append((span, "copy_from"))

    def write(self, names: Mapping[str, Names]) -> None:
        """Writes the names of one variant in all places. Can be repeated with those of another.

        Args:
          names: of every service in ``services``. New names may swap, or be old names of others.
        """
        self.dialogue["services"] = [names[service].service for service in self._listed]
        for service, of in self._of.items():
            new = names[service]
            slots, intents = new.slots, new.intents
            for frame in of.frames:
                frame["service"] = new.service
            for old, holders in of.slots.items():
                name = slots[old]
                for holder, key in holders:
                    holder[key] = name
            for holder, key, intent in of.intents:
                holder[key] = intents[intent]
            for state, requested in of.requested:
                state["requested_slots"] = [slots[slot] for slot in requested]
            for holder, key, values in of.offered:
                holder[key] = [intents.get(value, value) for value in values]
            for holder, key, record in of.records:
                holder[key] = _renamed(record, slots)
            for frame, results in of.results:
                frame["service_results"] = [_renamed(record, slots) for record in results]


def _take_slot(holder: dict[str, Any], key: str, of: _OfService, service: str) -> None:
    slot = holder[key]
    holders = of.slots.get(slot)
    if holders is None:
        _check_slots((slot,), of, service)
        holders = of.slots[slot] = []
    holders.append((holder, key))


def _take_action(action: dict[str, Any], of: _OfService, service: str) -> None:
    slot, act = action["slot"], action.get("act", "")
    if slot == "intent" and is_marker(act, slot):
        for key in ("values", "canonical_values"):
            if values := action.get(key):
                of.offered.append((action, key, [_typed(value, str) for value in _typed(values, list)]))
    elif slot and not is_marker(act, slot, of.known[0]):
        _take_slot(action, "slot", of, service)


def _take_record(holder: dict[str, Any], key: str, of: _OfService, service: str) -> None:
    if record := _typed(holder[key], dict):
        _check_slots(record, of, service)
        of.records.append((holder, key, record))


def _check_slots(slots: Collection[str], of: _OfService, service: str) -> None:
    if not of.known[0].issuperset(slots):
        unknown = next(slot for slot in slots if slot not in of.known[0])
        raise InputError(f"unknown_slot: service {service!r} has no slot {unknown!r}")


def _typed(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError
    return value


def _not_sgd(dialogue: Any, place: str) -> InputError:
    """The error of the typed reader, which is stricter and slower."""
    try:
        typed(dialogue)
    except InputError as error:
        return InputError(error.reason, "", error.where or place)
    return InputError("not_sgd: not the form of an SGD dialogue", "", place)


def _renamed(record: Mapping[str, Any], slots: Mapping[str, str]) -> dict[str, Any]:
    """A record with new keys, replaced all at once: names may swap."""
    return dict(zip(map(slots.__getitem__, record), record.values(), strict=True))


def places_of(dialogue: Any, known: Known) -> Places | InputError:
    """The places of a dialogue, or why it cannot be renamed; one that cannot be read is the error itself."""
    if isinstance(dialogue, InputError):
        return dialogue
    try:
        return Places(dialogue, known)
    except InputError as error:
        return error


def rename(variant: Variant, places: Places | InputError) -> Any:
    """Renames the dialogue of these places to the names of a variant, in place.

    Args:
      variant: the variant.
      places: the places, or why the dialogue cannot be renamed.

    Raises:
      InputError: why the variant cannot have the dialogue.
    """
    if isinstance(places, InputError):
        raise places
    for service in places.services:
        if service in variant.bad:
            raise InputError(f"bad_service: {service!r}: {variant.bad[service]}")
    places.write(variant.names)
    return places.dialogue
