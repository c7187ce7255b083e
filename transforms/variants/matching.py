"""Match variants with a corpus: their folders, ``mapping.json``, and the names of services, intents and slots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec

from parapet.schemas import layout
from parapet.schemas.dialogue import MARKERS, DialogueFile, dialogue_folders, list_files
from parapet.schemas.errors import InputError, reason_and_place
from parapet.schemas.limits import read_whole
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
    """Return what a variant appends to the names of services: ``3`` in SGD-X's v3.

    It is the suffix that matches the most services, and of these the shortest. A single name is ambiguous:
    ``Hotels_11`` may be variant 1 of ``Hotels_1`` or an unchanged service.
    """
    known = set(originals)
    votes: Counter[str] = Counter()
    for name in names:
        votes.update(name[i:] for i in range(1, len(name) + 1) if name[:i] in known)
    return min(votes, key=lambda suffix: (-votes[suffix], len(suffix), suffix), default="")


def by_position(original: Service, variant: Service) -> Names:
    """Match intents and slots by position, as in SGD-X.

    Raises:
      InputError: the numbers of intents or slots differ, or a slot is categorical in only one of the two.
    """
    for kind in ("intents", "slots"):
        ours, theirs = len(getattr(original, kind)), len(getattr(variant, kind))
        if ours != theirs:
            raise InputError(f"has {theirs} {kind}, the original {ours}")
    names = Names(
        variant.service_name,
        {a.name: b.name for a, b in zip(original.intents, variant.intents, strict=True)},
        {a.name: b.name for a, b in zip(original.slots, variant.slots, strict=True)},
    )
    _check_categorical(original, variant, names)
    return names


def by_mapping(original: Service, variant: Service, names: Names) -> Names:
    """Check recorded names against both schemas, and return them in the schema's order.

    Raises:
      InputError: the mapping has other intents or slots than the schemas, maps two of them to the same name, or pairs a
        categorical slot with a non-categorical one.
    """
    ordered = []
    for kind, renamed in (("intents", names.intents), ("slots", names.slots)):
        olds, news = ([element.name for element in getattr(service, kind)] for service in (original, variant))
        wrong = {*olds} ^ {*renamed} | {*renamed.values()} - {*news}
        if wrong or len({*renamed.values()}) < len(renamed):
            reason = f"the {kind} of the mapping must be those of the two schemas, each of them once"
            raise InputError(f"{reason}: {', '.join(map(repr, sorted(wrong or renamed.values())))}")
        ordered.append({name: renamed[name] for name in olds})
    _check_categorical(original, variant, names)
    return Names(names.service, *ordered)


def _check_categorical(original: Service, variant: Service, names: Names) -> None:
    theirs = {slot.name: slot.is_categorical for slot in variant.slots}
    for slot in original.slots:
        new = names.slots[slot.name]
        if slot.is_categorical != theirs[new]:
            kinds = ("categorical", "not") if slot.is_categorical else ("not categorical", "categorical")
            raise InputError(f"slot {slot.name!r} is {kinds[0]}, but {new!r} in the variant is {kinds[1]}")


def marker_names(names: Names) -> list[str]:
    """Return slots that only the variant names ``intent`` or ``count``, which have a meaning in actions."""
    return [old for old, new in names.slots.items() if new in MARKERS and old != new]


def known_names(services: Iterable[Service]) -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    """Return service → (slots, intents): the names that dialogues may use."""
    return {
        service.service_name: (
            frozenset(slot.name for slot in service.slots),
            frozenset(intent.name for intent in service.intents),
        )
        for service in services
    }


def compose_variant(
    raw: Mapping[str, Any], variant: int | str, names: Mapping[str, str], descriptions: Mapping[str, str]
) -> dict[str, Any]:
    """Return the service with new names and descriptions, and all references renamed.

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

_decoder = msgspec.json.Decoder(Mapped)


def find_variants(folder: str | Path, requested: Collection[str] = (), flag: str = "--variants") -> dict[str, Path]:
    """Find the variants in a folder by name, in natural order (v2 before v10); the folder may also be a variant itself.

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
    missing = [name for name in requested if name not in variants]
    if missing:
        raise InputError(f"there is no variant {missing[0]!r} (found: {', '.join(variants)})", folder, "--variant")
    return {name: path for name, path in variants.items() if not requested or name in requested}


def _name_of(variant: Path) -> str:
    """Return ``v1`` for the folder ``v1``, for ``v1/test`` and for ``v1/test/schema.json``."""
    path = variant.resolve()
    path = path.parent if path.is_file() else path
    return path.parent.name if path.name in layout.SPLITS else path.name


def find_mapping(folder: str | Path, source: str) -> Mapped | None:
    """Read the recorded names; None if elements are matched by position.

    Args:
      folder: the variants' folder.
      source: ``auto`` for the folder's ``mapping.json``, if it exists; ``position``; or a file.

    Raises:
      InputError: the file does not exist, or is not a mapping.
    """
    if source == "position":
        return None
    path = layout.as_path(folder) / MAPPING if source == "auto" else layout.as_path(source)
    if not layout.is_there(path) or not path.is_file():
        if source == "auto":
            return None
        raise InputError("there is no such file", path, "--mapping")
    return read_mapping(read_whole(path), path)


def read_mapping(data: bytes, path: object) -> Mapped:
    """Parse a ``mapping.json``. Raises InputError with file, place and reason."""
    layout.parse_json(data, path)
    try:
        return _decoder.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except msgspec.ValidationError as error:
        reason, at = reason_and_place(error)
        raise InputError(reason, path, at) from None
    except msgspec.DecodeError as error:
        raise InputError(str(error), path) from None


def mapping_bytes(mapped: Mapped) -> bytes:
    """Format a ``mapping.json``, indented by two spaces.

    Variants and services are sorted, and names are in the order of the schema.
    """
    ordered = {variant: dict(sorted(names.items())) for variant, names in sorted(mapped.items())}
    text = msgspec.json.format(msgspec.json.encode(ordered), indent=2).decode() + "\n"
    return text.encode()


_SHOWN = 5  # mismatches listed in an error


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


class Split(msgspec.Struct, frozen=True):
    """The names that the dialogues of a folder may use, and the names in its variants."""

    known: Known
    variants: list[Variant]


class Plan(msgspec.Struct, frozen=True):
    """A corpus matched with its variants.

    Attributes:
      variants: the names of the variants, in natural order.
      splits: folder to the services of its dialogues, and their variants.
      files: the dialogue files, largest first, so that workers finish at about the same time.
      schemas: (path below the output, path of a variant's schema file) of files to copy.
      mapped: the names in each variant, for ``mapping.json``.
      problems: mismatches, one line each.
      remarks: further warnings.
    """

    variants: list[str]
    splits: dict[str, Split]
    files: list[DialogueFile]
    schemas: list[tuple[str, str]]
    mapped: Mapped
    problems: list[str]
    remarks: list[str]


def make_plan(root: str | Path, variants: Mapping[str, Path], mapped: Mapped | None) -> Plan:
    """Read and match all schemas, and list the dialogue files.

    Args:
      root: the original corpus.
      variants: the folder of each variant, by name.
      mapped: the recorded names; None to match elements by position.

    Raises:
      InputError: a schema file cannot be read, or there are no dialogues, or dialogues without a schema.
    """
    originals = layout.read_root(root, leave_out_bad=True)
    root = layout.as_path(root)
    folders = dialogue_folders(root, originals)
    files = list_files(root, folders)
    matched = match_folders(variants, originals, mapped)
    return Plan(
        variants=list(variants),
        splits={
            folder: Split(
                known_names(split.services), [matched_split.splits[split.split] for matched_split in matched.values()]
            )
            for folder, split in folders.items()
        },
        files=files,
        schemas=[
            (f"{name}/{split.relative_path}", matched_split.targets[split.split].path)
            for name, matched_split in matched.items()
            for split in originals
            if split.split in matched_split.targets
        ],
        mapped={
            name: {service: names for split in matched_split.splits.values() for service, names in split.names.items()}
            for name, matched_split in matched.items()
        },
        problems=[str(bad.error) for split in originals for bad in split.bad]
        + [problem for matched_split in matched.values() for problem in matched_split.problems],
        remarks=[remark for matched_split in matched.values() for remark in matched_split.remarks],
    )


def match_folders(
    variants: Mapping[str, Path],
    originals: Sequence[layout.SplitSchemas],
    mapped: Mapped | None,
    chosen: Sequence[layout.SplitSchemas] | None = None,
) -> dict[str, Matched]:
    """Read and match variants in their folders; see :func:`match_variant`."""
    return {
        name: match_variant(
            name,
            layout.read_root(path, leave_out_bad=True),
            path,
            originals,
            None if mapped is None else mapped.get(name, {}),
            chosen,
        )
        for name, path in variants.items()
    }


def check_matched(variants: Iterable[Variant], problems: Sequence[str], max_bad: Fraction) -> None:
    """Raise InputError if no service of a variant matches, so that it cannot have any dialogues.

    Args:
      variants: the variants of every split.
      problems: mismatches, one line each.
      max_bad: maximum share of a variant's dialogues that may be left out; with 1, only one variant must match.
    """
    matched: Counter[str] = Counter()
    for variant in variants:
        matched[variant.name] += len(variant.names)
    without = [name for name, n in matched.items() if not n]
    if without and (max_bad < 1 or len(without) == len(matched)):
        problem = f"no service of the corpus has a match in {', '.join(without)}, so nothing was written"
        more = [f"and {len(problems) - _SHOWN:,} more"] if len(problems) > _SHOWN else []
        raise InputError("\n".join([f"{problem}; what does not match:", *problems[:_SHOWN], *more]), "", "--variants")


class Matched(msgspec.Struct):
    """A matched variant: the names and schemas of each split; problems and remarks as in ``Plan``."""

    splits: dict[str, Variant] = {}
    targets: dict[str, layout.SplitSchemas] = {}
    problems: list[str] = []
    remarks: list[str] = []


def match_variant(
    name: str,
    splits: list[layout.SplitSchemas],
    path: object,
    originals: Sequence[layout.SplitSchemas],
    mapped: Mapping[str, Names] | None,
    chosen: Sequence[layout.SplitSchemas] | None = None,
) -> Matched:
    """Match the services of a variant with those of the original.

    Args:
      name: the name of the variant.
      splits: the variant's schemas.
      path: the variant's folder for messages.
      originals: the original's schemas.
      mapped: the recorded names; None to match elements by position.
      chosen: the original schemas whose services are matched; by default all.
    """
    suffix = name_suffix(layout.services_by_name(list(originals)), layout.services_by_name(splits))
    matched_here = Matched()
    wrong: dict[str, list[str]] = {}
    marked: dict[str, str] = {}
    for split in originals if chosen is None else chosen:
        matched: dict[str, Names] = {}
        if target := layout.counterpart(split, splits):
            matched_here.targets[split.split] = target
            matched, bad = match_services(split.services, target, suffix, mapped)
            for service, reason in bad.items():
                wrong.setdefault(f"service {service!r}: {reason}", []).append(split.relative_path)
        else:
            known = ", ".join(other.relative_path for other in splits)
            reason = f"the variant has no such split, only {known}"
            wrong.setdefault(reason, []).append(split.path if split.split == layout.SINGLE else split.relative_path)
            bad = {service.service_name: reason for service in split.services}
        matched_here.splits[split.split] = Variant(name, matched, bad)
        for old, names in matched.items():
            marked |= {f"{old}: {slot!r}": names.slots[slot] for slot in marker_names(names)}
    matched_here.problems += [f"{path}: {', '.join(files)}: {problem}" for problem, files in wrong.items()]
    matched_here.remarks += [
        f"{name}: {slot} is now called {word!r}, a name that has a special meaning in actions"
        for slot, word in marked.items()
    ]
    return matched_here


def match_services(
    services: Iterable[Service], target: layout.SplitSchemas, suffix: str, mapped: Mapping[str, Names] | None
) -> tuple[dict[str, Names], dict[str, str]]:
    """Match the services of one schema file.

    Args:
      services: the original services.
      target: the variant's schema file.
      suffix: the suffix of the variant's service names, if there is no mapping.
      mapped: original service to its recorded names; None to match by position.

    Returns:
      (original service to its names, original service to the reason why it has no match).
    """
    services_here = {service.service_name: service for service in target.services}
    broken = {str(bad.raw.get("service_name")): bad.error for bad in target.bad if isinstance(bad.raw, dict)}
    matched: dict[str, Names] = {}
    wrong: dict[str, str] = {}
    taken: dict[str, str] = {}
    for service in services:
        old = service.service_name
        try:
            if mapped is not None and old not in mapped:
                raise InputError("the mapping does not contain it")
            new = old + suffix if mapped is None else mapped[old].service
            if new in broken:
                place = ": ".join(part for part in (broken[new].where, broken[new].reason) if part)
                raise InputError(f"the variant's service {new!r} is invalid: {place}")
            if new not in services_here:
                raise InputError(f"the variant has no service {new!r}")
            if new in taken:
                raise InputError(f"{new!r} is the counterpart of {taken[new]!r} already")
            theirs = services_here[new]
            matched[old] = by_position(service, theirs) if mapped is None else by_mapping(service, theirs, mapped[old])
            taken[new] = old
        except InputError as error:
            wrong[old] = error.reason
    return matched, wrong
