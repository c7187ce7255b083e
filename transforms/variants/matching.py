"""Variants matched with a corpus: their folders and ``mapping.json``, and the names of services, intents and slots."""

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


def name_suffix(originals: Iterable[str], names: Iterable[str]) -> str:
    """What a variant puts behind the names of services: ``3`` in SGD-X's v3.

    The suffix that accounts for the most services, then the shortest: read singly, ``Hotels_11`` may be variant 1 of
    ``Hotels_1`` or another service left as it is.
    """
    known = set(originals)
    votes: Counter[str] = Counter()
    for name in names:
        votes.update(name[i:] for i in range(1, len(name) + 1) if name[:i] in known)
    return min(votes, key=lambda suffix: (-votes[suffix], len(suffix), suffix), default="")


def by_position(original: Service, variant: Service) -> Names:
    """Matches intents and slots by position: the n-th of the variant is the n-th of the original, as in SGD-X.

    Raises:
      InputError: the numbers of intents or slots differ, or a slot is categorical in one of the two only.
    """
    for what in ("intents", "slots"):
        ours, theirs = len(getattr(original, what)), len(getattr(variant, what))
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
      InputError: the mapping has other intents or slots than the schemas, gives two of them the same name, or pairs a
        categorical slot with a free one.
    """
    ordered = []
    for what, renamed in (("intents", names.intents), ("slots", names.slots)):
        olds, news = ([element.name for element in getattr(of, what)] for of in (original, variant))
        wrong = {*olds} ^ {*renamed} | {*renamed.values()} - {*news}
        if wrong or len({*renamed.values()}) < len(renamed):
            reason = f"the {what} of the mapping must be those of the two schemas, each of them once"
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
    if "tool_keys" not in raw:  # a toolset has no description
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


MAPPING = "mapping.json"

Mapped = dict[str, dict[str, Names]]  # variant, original service, names: what mapping.json holds

_decoder = msgspec.json.Decoder(Mapped)


def find_variants(folder: str | Path, requested: Collection[str] = (), flag: str = "--variants") -> dict[str, Path]:
    """The variants in a folder by name, in natural order (v2 before v10); or the folder itself if it is one.

    Args:
      folder: holds ``v1/train/schema.json`` and so on, or is such a variant, a split's folder of one, or its schema.
      requested: the names of the variants; all of them if it is empty.
      flag: the flag that names the folder, for messages.

    Raises:
      InputError: no such folder, no variant in it, none of a requested name, or sets of dialogues instead of variants.
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
    """``v1`` of the folder ``v1``, of ``v1/test`` and of ``v1/test/schema.json``."""
    path = variant.resolve()
    path = path.parent if path.is_file() else path
    return path.parent.name if path.name in layout.SPLITS else path.name


def find_mapping(folder: str | Path, source: str) -> Mapped | None:
    """The recorded names, or None if elements are matched by position.

    Args:
      folder: the variants' folder.
      source: ``auto`` (the folder's ``mapping.json``, if it has one), ``position``, or a file.

    Raises:
      InputError: no such file, or no mapping.
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
    """Reads a ``mapping.json``. Raises InputError with file, place and reason."""
    layout.parse_json(data, path)
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


_SHOWN = 5  # lines of what does not match, in an error


class Variant(msgspec.Struct, frozen=True):
    """One variant of a split.

    Attributes:
      name: its folder's name.
      names: original service to its names.
      bad: original service to the reason why it has no names.
    """

    name: str
    names: dict[str, Names]
    bad: dict[str, str]


class Split(msgspec.Struct, frozen=True):
    """The names that the dialogues of a folder may use, and their variants."""

    known: Known
    variants: list[Variant]


class Plan(msgspec.Struct, frozen=True):
    """A corpus, matched with its variants.

    Attributes:
      variants: their names, in natural order.
      splits: folder to the services and variants of its dialogues.
      files: the dialogue files, the largest first, so that workers finish at about the same time.
      schemas: (path below the output, path of a variant's schema file) to be copied.
      mapped: the names of each variant, as ``mapping.json`` records them.
      problems: what does not match, one line each.
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
    """Reads all schemas, matches them, and lists the dialogue files.

    Args:
      root: the original corpus.
      variants: the folder of each variant, by name.
      mapped: the recorded names; None: elements are matched by position.

    Raises:
      InputError: a schema file that cannot be read, no dialogues, or dialogues without a schema.
    """
    originals = layout.read_root(root, leave_out_bad=True)
    root = layout.as_path(root)
    folders = dialogue_folders(root, originals)
    files = list_files(root, folders)
    matched = match_folders(variants, originals, mapped)
    return Plan(
        variants=list(variants),
        splits={
            folder: Split(known_names(split.services), [of.splits[split.split] for of in matched.values()])
            for folder, split in folders.items()
        },
        files=files,
        schemas=[
            (f"{name}/{split.relative_path}", of.targets[split.split].path)
            for name, of in matched.items()
            for split in originals
            if split.split in of.targets
        ],
        mapped={
            name: {service: names for split in of.splits.values() for service, names in split.names.items()}
            for name, of in matched.items()
        },
        problems=[str(bad.error) for split in originals for bad in split.bad]
        + [problem for of in matched.values() for problem in of.problems],
        remarks=[remark for of in matched.values() for remark in of.remarks],
    )


def match_folders(
    variants: Mapping[str, Path],
    originals: Sequence[layout.SplitSchemas],
    mapped: Mapped | None,
    chosen: Sequence[layout.SplitSchemas] | None = None,
) -> dict[str, Matched]:
    """Reads and matches variants, given the folder of each; see :func:`match_variant`."""
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
    """Raises InputError if no service of a variant matches, so that it cannot have any dialogue.

    Args:
      variants: of every split.
      problems: what does not match, one line each.
      max_bad: the share of a variant's dialogues that may be left out; with 1, one variant at least must match.
    """
    matched: Counter[str] = Counter()
    for variant in variants:
        matched[variant.name] += len(variant.names)
    without = [name for name, n in matched.items() if not n]
    if without and (max_bad < 1 or len(without) == len(matched)):
        what = f"no service of the corpus has a match in {', '.join(without)}, so nothing was written"
        more = [f"and {len(problems) - _SHOWN:,} more"] if len(problems) > _SHOWN else []
        raise InputError("\n".join([f"{what}; what does not match:", *problems[:_SHOWN], *more]), "", "--variants")


class Matched(msgspec.Struct):
    """One variant: the names and the schemas of each split; problems and remarks as in ``Plan``."""

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
    """Matches the services of a variant with those of the original.

    Args:
      name: the name of the variant.
      splits: its schemas.
      path: its folder, for messages.
      originals: the schemas of the original.
      mapped: the recorded names; None: elements are matched by position.
      chosen: those of the originals whose services are matched; by default all.
    """
    suffix = name_suffix(layout.services_by_name(list(originals)), layout.services_by_name(splits))
    of = Matched()
    wrong: dict[str, list[str]] = {}
    marked: dict[str, str] = {}
    for split in originals if chosen is None else chosen:
        matched: dict[str, Names] = {}
        if target := layout.counterpart(split, splits):
            of.targets[split.split] = target
            matched, bad = match_services(split.services, target, suffix, mapped)
            for service, reason in bad.items():
                wrong.setdefault(f"service {service!r}: {reason}", []).append(split.relative_path)
        else:
            there = ", ".join(other.relative_path for other in splits)
            reason = f"the variant has no such split, only {there}"
            wrong.setdefault(reason, []).append(split.path if split.split == layout.SINGLE else split.relative_path)
            bad = {service.service_name: reason for service in split.services}
        of.splits[split.split] = Variant(name, matched, bad)
        for old, names in matched.items():
            marked |= {f"{old}: {slot!r}": names.slots[slot] for slot in marker_names(names)}
    of.problems += [f"{path}: {', '.join(files)}: {what}" for what, files in wrong.items()]
    of.remarks += [
        f"{name}: {slot} is now called {word!r}, a name that has a special meaning in actions"
        for slot, word in marked.items()
    ]
    return of


def match_services(
    services: Iterable[Service], target: layout.SplitSchemas, suffix: str, mapped: Mapping[str, Names] | None
) -> tuple[dict[str, Names], dict[str, str]]:
    """Matches the services of one schema file.

    Args:
      services: the original ones.
      target: the variant's schema file.
      suffix: what the variant appends to the names of services, if there is no mapping.
      mapped: original service to its names as recorded, or None: by position.

    Returns:
      (original service to its names, original service to the reason why it has none).
    """
    there = {service.service_name: service for service in target.services}
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
            if new not in there:
                raise InputError(f"the variant has no service {new!r}")
            if new in taken:
                raise InputError(f"{new!r} is the counterpart of {taken[new]!r} already")
            theirs = there[new]
            matched[old] = by_position(service, theirs) if mapped is None else by_mapping(service, theirs, mapped[old])
            taken[new] = old
        except InputError as error:
            wrong[old] = error.reason
    return matched, wrong
