"""Match variants with a corpus: their folders, ``mapping.json``, and the names of services, intents and slots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from parapet.schemas import dialogue, layout
from parapet.schemas.errors import InputError
from parapet.schemas.service import Service, variant_service_name

_SLOT_REFERENCES = ("required_slots", "optional_slots", "result_slots")

# service to (its slots, its intents)
Known = Mapping[str, tuple[frozenset[str], frozenset[str]]]


class Names(msgspec.Struct, frozen=True):
    """The names of a service, its intents and its slots in a variant.

    Attributes:
      service: the service's name.
      intents: old name to new name of every intent.
      slots: old name to new name of every slot.
    """

    service: str
    intents: dict[str, str]
    slots: dict[str, str]


def name_suffix(originals: Iterable[str], names: Iterable[str]) -> str:
    """Returns what a variant appends to the names of services: ``3`` in SGD-X's v3.

    It is the suffix that matches the most services, and of these the shortest. A single name is ambiguous:
    ``Hotels_11`` may be variant 1 of ``Hotels_1`` or an unchanged service.
    """
    known = set(originals)
    votes: Counter[str] = Counter()
    for name in names:
        votes.update(name[i:] for i in range(1, len(name) + 1) if name[:i] in known)
    return min(votes, key=lambda suffix: (-votes[suffix], len(suffix), suffix), default="")


def by_position(original: Service, variant: Service) -> Names:
    """Matches intents and slots by position, as in SGD-X.

    Raises:
      InputError: the numbers of intents or slots differ, or a slot is categorical in only one of the two.
    """
    for kind in ("intents", "slots"):
        ours, theirs = len(getattr(original, kind)), len(getattr(variant, kind))
        if ours != theirs:
            raise InputError(f"has {theirs} {kind}, the original {ours}")
    for slot, new in zip(original.slots, variant.slots, strict=True):
        if slot.is_categorical != new.is_categorical:
            kinds = ("categorical", "not") if slot.is_categorical else ("not categorical", "categorical")
            raise InputError(f"slot {slot.name!r} is {kinds[0]}, but {new.name!r} in the variant is {kinds[1]}")
    return Names(
        variant.service_name,
        {a.name: b.name for a, b in zip(original.intents, variant.intents, strict=True)},
        {a.name: b.name for a, b in zip(original.slots, variant.slots, strict=True)},
    )


def known_names(services: Iterable[Service]) -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    """Returns service → (slots, intents): the names that dialogues may use."""
    return {service.service_name: dialogue.names_in(service) for service in services}


def compose_variant(
    raw: Mapping[str, Any], variant: int | str, names: Mapping[str, str], descriptions: Mapping[str, str]
) -> dict[str, Any]:
    """Returns the service with new names and descriptions, and all references renamed.

    Other keys and their order are kept. Their lists of slot names, such as ``offered_slots``, are renamed, too.

    Args:
      raw: the service as read from its file.
      variant: 1 to 5, or a suffix; ``X_1`` becomes ``X_11``.
      names: form field (``intent_0``, ``slot_3``) to new name of every intent and slot.
      descriptions: form field, including ``service``, to new description. Those that are missing stay.
    """
    slots = {slot["name"]: names[f"slot_{i}"] for i, slot in enumerate(raw["slots"])}
    service = _with_renamed_lists(raw, slots, ("slots", "intents"))
    service["service_name"] = variant_service_name(raw["service_name"], variant)
    if "tool_keys" not in raw:  # toolsets have no description
        service["description"] = descriptions["service"]
    for kind, known in (("slot", ("possible_values",)), ("intent", _SLOT_REFERENCES)):
        service[f"{kind}s"] = [
            {
                **_with_renamed_lists(element, slots, known),
                "name": names[f"{kind}_{i}"],
                "description": descriptions.get(f"{kind}_{i}", element["description"]),
            }
            for i, element in enumerate(raw[f"{kind}s"])
        ]
    for intent in service["intents"]:
        intent |= {key: _renamed(intent[key], slots) for key in _SLOT_REFERENCES if key in intent}
    return service


def names_slots(value: Any, slots: Collection[str]) -> bool:
    """Whether a value under an unknown key is a list of slot names, or a record by slot, and not empty."""
    return isinstance(value, list | dict) and bool(value) and all(type(name) is str and name in slots for name in value)


def _with_renamed_lists(element: Mapping[str, Any], slots: Mapping[str, str], known: Collection[str]) -> dict[str, Any]:
    return {
        key: _renamed(value, slots) if key not in known and names_slots(value, slots) else value
        for key, value in element.items()
    }


def _renamed(references: Any, slots: Mapping[str, str]) -> Any:
    if isinstance(references, dict):
        return {slots[name]: value for name, value in references.items()}
    return [slots[name] for name in references]


MAPPING = "mapping.json"

Mapped = dict[str, dict[str, Names]]  # variant to original service to its names: the content of mapping.json


def find_variants(folder: str | Path, requested: Collection[str] = (), flag: str = "--variants") -> dict[str, Path]:
    """Finds the variants in a folder by name, in natural order (v2 before v10); the folder may also be a variant.

    Args:
      folder: contains ``v1/train/schema.json`` and so on, or is such a variant, the folder of one of its splits, or its
        schema.
      requested: the names of the variants; if empty, all.
      flag: the flag that names the folder, for messages.

    Raises:
      InputError: the folder does not exist, has no variants, lacks a requested one, or has sets of dialogues instead.
    """
    folder = layout.as_path(folder)
    if not layout.is_there(folder):
        raise InputError("there is no such folder", folder, flag)
    layout.check_variants(folder, flag)
    alone = folder.is_file() or layout.is_root(folder)
    variants = {_name_of(folder): folder} if alone else layout.variant_roots(folder)
    if not variants:
        raise InputError("contains no variants: expected folders such as v1/train/schema.json", folder, flag)
    if missing := [name for name in requested if name not in variants]:
        raise InputError(f"there is no variant {missing[0]!r} (found: {', '.join(variants)})", folder, "--variant")
    return {name: path for name, path in variants.items() if not requested or name in requested}


def _name_of(variant: Path) -> str:
    """Returns ``v1`` for the folder ``v1``, for ``v1/test`` and for ``v1/test/schema.json``."""
    path = variant.resolve()
    path = path.parent if path.is_file() else path
    return path.parent.name if path.name in layout.SPLITS else path.name


def mapping_bytes(mapped: Mapped) -> bytes:
    """Formats a ``mapping.json``, indented by two spaces.

    Variants and services are sorted, and names are in the order of the schema.
    """
    ordered = {variant: dict(sorted(names.items())) for variant, names in sorted(mapped.items())}
    return msgspec.json.format(msgspec.json.encode(ordered), indent=2) + b"\n"


class Variant(msgspec.Struct, frozen=True):
    """One variant of a split.

    Attributes:
      name: the name of its folder.
      names: original service to its names.
      bad: original service to the reason why it has no match.
    """

    name: str
    names: dict[str, Names]
    bad: dict[str, str]


def match_folders(
    variants: Mapping[str, Path],
    originals: Sequence[layout.SplitSchemas],
    chosen: Sequence[layout.SplitSchemas] | None = None,
) -> dict[str, Matched]:
    """Reads and matches variants in their folders; see :func:`match_variant`."""
    return {
        name: match_variant(name, layout.read_root(path, leave_out_bad=True), path, originals, chosen)
        for name, path in variants.items()
    }


def check_matched(matches: Mapping[str, Matched]) -> None:
    """Raises InputError if no service of a variant matches, so that it cannot have any dialogues."""
    if without := [name for name, matched in matches.items() if not matched.names]:
        problem = next(problem for matched in matches.values() for problem in matched.problems)
        reason = f"no service of the corpus has a match in {', '.join(without)}; the first problem is: {problem}"
        raise InputError(reason, "", "--variants")


class Matched(msgspec.Struct):
    """A matched variant: the names and schemas of each split, and mismatches, one line each."""

    splits: dict[str, Variant] = {}
    targets: dict[str, layout.SplitSchemas] = {}
    problems: list[str] = []

    @property
    def names(self) -> dict[str, Names]:
        """Original service to its names, of all splits."""
        return {service: names for split in self.splits.values() for service, names in split.names.items()}


def match_variant(
    name: str,
    splits: list[layout.SplitSchemas],
    path: object,
    originals: Sequence[layout.SplitSchemas],
    chosen: Sequence[layout.SplitSchemas] | None = None,
) -> Matched:
    """Matches the services of a variant with those of the original.

    Args:
      name: the name of the variant.
      splits: the variant's schemas.
      path: the variant's folder for messages.
      originals: the original's schemas.
      chosen: the original schemas whose services are matched; by default all.
    """
    suffix = name_suffix(layout.services_by_name(list(originals)), layout.services_by_name(splits))
    result = Matched()
    for split in originals if chosen is None else chosen:
        names: dict[str, Names] = {}
        if target := layout.counterpart(split, splits):
            result.targets[split.split] = target
            names, bad = match_services(split.services, target, suffix)
            problems = [f"service {service!r}: {reason}" for service, reason in bad.items()]
        else:
            known = ", ".join(other.relative_path for other in splits)
            problems = [f"the variant has no such split, only {known}"]
            bad = {service.service_name: problems[0] for service in split.services}
        result.splits[split.split] = Variant(name, names, bad)
        result.problems += [f"{path}: {split.relative_path}: {problem}" for problem in problems]
    return result


def match_services(
    services: Iterable[Service], target: layout.SplitSchemas, suffix: str
) -> tuple[dict[str, Names], dict[str, str]]:
    """Matches the services of one schema file.

    Args:
      services: the original services.
      target: the variant's schema file.
      suffix: the suffix of the variant's service names.

    Returns:
      (original service to its names, original service to the reason why it has no match).
    """
    variants = {service.service_name: service for service in target.services}
    invalid = {
        str(bad.raw.get("service_name")): ": ".join(filter(None, (bad.error.where, bad.error.reason)))
        for bad in target.bad
        if isinstance(bad.raw, dict)
    }
    matched: dict[str, Names] = {}
    wrong: dict[str, str] = {}
    for service in services:
        old = service.service_name
        try:
            if (new := old + suffix) in invalid:
                raise InputError(f"the variant's service {new!r} is invalid: {invalid[new]}")
            if new not in variants:
                raise InputError(f"the variant has no service {new!r}")
            matched[old] = by_position(service, variants[new])
        except InputError as error:
            wrong[old] = error.reason
    return matched, wrong
