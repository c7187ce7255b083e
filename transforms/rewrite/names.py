"""The new names of one service in one variant: matched by position or by a recorded mapping, and checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from parapet.schemas.dialogue import MARKERS
from parapet.schemas.errors import InputError, reason_and_place
from parapet.schemas.layout import parse_json
from parapet.schemas.service import Intent, Service, Slot


class Names(msgspec.Struct, frozen=True):
    """What a service, its intents and its slots are called in a variant.

    Attributes:
      service: the service's name.
      intents: old name to new name, every intent.
      slots: old name to new name, every slot.
    """

    service: str
    intents: dict[str, str]
    slots: dict[str, str]


Mapped = dict[str, dict[str, Names]]  # variant, original service, names: what mapping.json holds

_decoder = msgspec.json.Decoder(Mapped)


def read_mapping(data: bytes, path: object) -> Mapped:
    """Reads a ``mapping.json``. Raises InputError with file, place and reason."""
    parse_json(data, path)
    try:
        return _decoder.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except msgspec.ValidationError as error:
        reason, at = reason_and_place(error)
        raise InputError(reason, path, at) from None
    except msgspec.DecodeError as error:
        raise InputError(str(error), path) from None


def mapping_bytes(mapped: Mapped) -> bytes:
    """A ``mapping.json``: two spaces, sorted variants and services, names in the order of the schema, a newline."""
    ordered = {variant: dict(sorted(names.items())) for variant, names in sorted(mapped.items())}
    text = msgspec.json.format(msgspec.json.encode(ordered), indent=2).decode() + "\n"
    return text.encode()


def by_position(original: Service, variant: Service) -> Names:
    """The n-th intent of the one is the n-th of the other, and so are slots: what SGD-X's layout promises.

    Raises:
      InputError: another number of intents or slots, or a slot that is categorical in one of them only.
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
    """The names that were recorded, checked against both schemas.

    Raises:
      InputError: the mapping lacks an intent or slot, has one too many, sends two to one name or to a name that the
        variant lacks, or pairs a categorical slot with a free one.
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
            (f"the mapping gives two {what} one name", [n for n, c in Counter(renamed.values()).items() if c > 1]),
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
            raise InputError(f"slot {slot.name!r} is {kinds[0]}, and {new!r} in its place is {kinds[1]}")


def marker_names(names: Names) -> list[str]:
    """The slots that a variant calls ``intent`` or ``count``, though they were not called so: hard to tell apart."""
    return [old for old, new in names.slots.items() if new in MARKERS and old != new]


def known_names(services: Iterable[Service]) -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    """Per service its slots and its intents, as the dialogues may name them."""
    return {
        service.service_name: (
            frozenset(slot.name for slot in service.slots),
            frozenset(intent.name for intent in service.intents),
        )
        for service in services
    }


def _listed(names: Iterable[Any]) -> str:
    return ", ".join(map(repr, names))


def renamed_record(record: Mapping[str, Any], slots: Mapping[str, str]) -> dict[str, Any]:
    """A record with new keys, all at once: names may swap, or be one another's."""
    return dict(zip(map(slots.__getitem__, record), record.values(), strict=True))
