"""Variants matched with a corpus: which service, intent and slot of a variant belongs to which of the original."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import msgspec

from parapet.schemas.dialogue import DialogueFile, dialogue_folders, list_files
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SINGLE, SplitSchemas, as_path, counterpart, read_root, services_by_name
from parapet.schemas.service import Service
from parapet.transforms.table1 import name_suffix
from parapet.transforms.variants.folders import Mapped
from parapet.transforms.variants.names import Known, Names, by_mapping, by_position, known_names, marker_names

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
    originals = read_root(root, leave_out_bad=True)
    root = as_path(root)
    folders = dialogue_folders(root, originals)
    files = list_files(root, folders)
    matched = [
        match_variant(name, read_root(path, leave_out_bad=True), path, originals, names_of(name, mapped))
        for name, path in variants.items()
    ]
    return Plan(
        variants=list(variants),
        splits={
            folder: Split(known_names(split.services), [of.splits[split.split] for of in matched])
            for folder, split in folders.items()
        },
        files=files,
        schemas=[
            (f"{name}/{split.relative_path}", of.targets[split.split].path)
            for name, of in zip(variants, matched, strict=True)
            for split in originals
            if split.split in of.targets
        ],
        mapped={
            name: {service: names for split in of.splits.values() for service, names in split.names.items()}
            for name, of in zip(variants, matched, strict=True)
        },
        problems=[str(bad.error) for split in originals for bad in split.bad]
        + [problem for of in matched for problem in of.problems],
        remarks=[remark for of in matched for remark in of.remarks],
    )


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
        more = [f"and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
        raise InputError("\n".join([f"{what}; what does not match:", *problems[:_SHOWN], *more]), "", "--variants")


def names_of(variant: str, mapped: Mapped | None) -> Mapping[str, Names] | None:
    """The recorded names of a variant; None if there is no mapping."""
    return None if mapped is None else mapped.get(variant, {})


class Matched(msgspec.Struct):
    """One variant: the names and the schemas of each split; problems and remarks as in ``Plan``."""

    splits: dict[str, Variant] = {}
    targets: dict[str, SplitSchemas] = {}
    problems: list[str] = []
    remarks: list[str] = []


def match_variant(
    name: str,
    splits: list[SplitSchemas],
    path: object,
    originals: Sequence[SplitSchemas],
    mapped: Mapping[str, Names] | None,
    chosen: Sequence[SplitSchemas] | None = None,
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
    suffix = name_suffix(services_by_name(list(originals)), services_by_name(splits))
    of = Matched()
    wrong: dict[str, list[str]] = {}
    marked: dict[str, str] = {}
    for split in originals if chosen is None else chosen:
        matched: dict[str, Names] = {}
        if target := counterpart(split, splits):
            of.targets[split.split] = target
            matched, bad = match_services(split.services, target, suffix, mapped)
            for service, reason in bad.items():
                wrong.setdefault(f"service {service!r}: {reason}", []).append(split.relative_path)
        else:
            there = ", ".join(other.relative_path for other in splits)
            reason = f"the variant has no such split, but {there}"
            wrong.setdefault(reason, []).append(split.path if split.split == SINGLE else split.relative_path)
            bad = {service.service_name: reason for service in split.services}
        of.splits[split.split] = Variant(name, matched, bad)
        for old, names in matched.items():
            marked |= {f"{old}: {slot!r}": names.slots[slot] for slot in marker_names(names)}
    of.problems += [f"{path}: {', '.join(files)}: {what}" for what, files in wrong.items()]
    of.remarks += [
        f"{name}: {slot} is now called {word!r}, a name with a special meaning in actions"
        for slot, word in marked.items()
    ]
    return of


def match_services(
    services: Iterable[Service], target: SplitSchemas, suffix: str, mapped: Mapping[str, Names] | None
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
                raise InputError("the mapping lacks it")
            new = old + suffix if mapped is None else mapped[old].service
            if new in broken:
                place = ": ".join(part for part in (broken[new].where, broken[new].reason) if part)
                raise InputError(f"{new!r} is bad: {place}")
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
