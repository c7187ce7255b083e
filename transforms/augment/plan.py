"""The plan of the training sets: which sets there are, and the schemas of the split under each of their variants."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from parapet.schemas.dialogue import DialogueFile, dialogue_folders, list_files
from parapet.schemas.errors import InputError
from parapet.schemas.layout import (
    SINGLE,
    SplitSchemas,
    as_path,
    raw_by_name,
    read_root,
    schema_bytes,
    services_by_name,
    split_of_folder,
)
from parapet.schemas.service import Service, parse_service
from parapet.transforms.augment.corrupting import (
    OPERATIONS,
    Change,
    Corruption,
    Operation,
    Rates,
    corrupted,
    vocabulary_of,
)
from parapet.transforms.corpora import listed
from parapet.transforms.naming import conventions_of
from parapet.transforms.variants.folders import Mapped, find_mapping, find_variants
from parapet.transforms.variants.matching import Variant, match_variant, names_of
from parapet.transforms.variants.names import Known, Names, by_position, known_names

Kind = Literal["backtrans", "oracle", "corrupted"]
KINDS: tuple[Kind, ...] = get_args(Kind)
NONE = "none"  # the original dialogues alone
ORIGINAL = "original"

# JSON bytes that go into one Parquet file: as many as in a release.
SHARD_BYTES = 64 * 2**20

Raw = dict[str, dict[str, Any]]  # original service to a variant's, as its file has it


class CorruptionConfig(msgspec.Struct, frozen=True):
    """Which corruptions are made, and how."""

    operations: Sequence[Operation]
    rates: Rates
    seed: str


class TrainingSet(msgspec.Struct, frozen=True):
    """One set: its folder, the names of its versions with the original first, the number of its Parquet files."""

    name: str
    versions: list[str]
    shards: int = 1


class Augmentation(msgspec.Struct, frozen=True):
    """What is made of every dialogue.

    Attributes:
      split: the folder below each set.
      known: the slots and intents of the original services.
      versions: the original and every variant, as variants to be written.
      sets: the sets.
    """

    split: str
    known: Known
    versions: list[Variant]
    sets: list[TrainingSet]

    @property
    def labels(self) -> list[str]:
        """The names of the versions, the original first."""
        return [variant.name for variant in self.versions]


class Plan(msgspec.Struct, frozen=True):
    """All that a run needs to know.

    Attributes:
      augmentation: what workers need.
      files: the dialogue files, the largest first.
      schemas: (path below the output, bytes) of every schema file.
      mapped: the names of every version but the original, of the split's services.
      corruptions: the same of the corruptions, of all splits' services.
      changes: what became of each name and description in the corruptions.
      corrupting: how they were corrupted.
      problems: what does not match, one line each.
      remarks: further warnings.
    """

    augmentation: Augmentation
    files: list[DialogueFile]
    schemas: list[tuple[str, bytes]]
    mapped: Mapped
    corruptions: Mapped
    changes: list[Change]
    corrupting: CorruptionConfig
    problems: list[str]
    remarks: list[str]

    def options(self) -> dict[str, Any]:
        """The options that shape the content, for ``run.json``."""
        sets = {of.name: of.versions for of in self.augmentation.sets}
        options: dict[str, Any] = {"split": self.augmentation.split, "sets": sets}
        if self.corruptions:
            of = self.corrupting
            options |= {"replace_rate": of.rates.replace, "order_rate": of.rates.order, "seed": of.seed}
        return options


class _Version(msgspec.Struct):
    variant: Variant
    raw: Raw
    problems: list[str] = []
    remarks: list[str] = []


def make_plan(
    root: str | Path,
    split: str,
    sets: Mapping[str, tuple[Kind, ...]],
    folders: Mapping[str, str],
    requested: Sequence[str],
    corrupting: CorruptionConfig,
) -> Plan:
    """Reads and matches the schemas, corrupts them, and lists the dialogue files.

    Args:
      root: the original corpus.
      split: whose dialogues.
      sets: the training sets with their kinds of variants.
      folders: kind to the folder of its variants, where it has one.
      requested: the names of the variants to take from these; all of them if it is empty.
      corrupting: how schemas are corrupted, where a set has it.

    Raises:
      InputError: files that cannot be read, no dialogues, no such variant, or two of one name in a run.
    """
    originals = read_root(root, leave_out_bad=True)
    folder, original = _folder_of(as_path(root), originals, split)
    if not folder:
        split = split_of_folder(root) or split
    files = list_files(as_path(root), [folder])
    kinds: dict[str, list[_Version]] = {
        kind: [_match(name, path, mapped, original, originals) for name, path, mapped in variants]
        for kind, variants in _find(folders, requested).items()
    }
    if not any("corrupted" in of for of in sets.values()):
        corrupting = msgspec.structs.replace(corrupting, operations=[])
    by_operation, changes = _corrupt(originals, original, corrupting)
    kinds["corrupted"] = [_version(name, raw, original.services) for name, raw in by_operation.items()]
    kinds[ORIGINAL] = [_version(ORIGINAL, raw_by_name([original]), original.services)]
    every = [*kinds[ORIGINAL], *(version for kind, of in kinds.items() if kind != ORIGINAL for version in of)]
    labels = [version.variant.name for version in every]
    if repeated := [name for name in labels if labels.count(name) > 1]:
        raise InputError(f"two variants are called {repeated[0]!r}: rename a folder, or leave one out", "", "--variant")
    chosen = {name: [*kinds[ORIGINAL], *(v for kind in of for v in kinds[kind])] for name, of in sets.items()}
    size = sum(file.size for file in files)
    return Plan(
        augmentation=Augmentation(
            split,
            known_names(original.services),
            [version.variant for version in every],
            [
                TrainingSet(name, [v.variant.name for v in of], max(1, -(-size * len(of) // SHARD_BYTES)))
                for name, of in chosen.items()
            ],
        ),
        files=files,
        schemas=[(f"{name}/{split}/schema.json", _schema(name, of)) for name, of in chosen.items()]
        + [
            (f"corruptions/{name}/{one.relative_path}", schema_bytes([raw[s.service_name] for s in one.services]))
            for name, raw in by_operation.items()
            for one in originals
            if one.services
        ],
        mapped={version.variant.name: version.variant.names for version in every[1:]},
        corruptions={
            name: _version(name, raw, services_by_name(originals).values()).variant.names
            for name, raw in by_operation.items()
        },
        changes=changes,
        corrupting=corrupting,
        problems=[str(bad.error) for one in originals for bad in one.bad]
        + [line for version in every for line in version.problems],
        remarks=[line for version in every for line in version.remarks],
    )


def _folder_of(root: Path, originals: Sequence[SplitSchemas], split: str) -> tuple[str, SplitSchemas]:
    """The folder of the dialogues and its schema; the root may be the folder of a split."""
    folders = dialogue_folders(root, originals)
    folder = split if split in folders or originals[0].split != SINGLE else ""
    if folder not in folders:
        others = ", ".join(name for name in folders if name) or "none"
        raise InputError(f"no dialogues of {split!r} here, such as {split}/dialogues_001.json (found: {others})", root)
    return folder, folders[folder]


def _find(
    folders: Mapping[str, str], requested: Sequence[str]
) -> dict[str, list[tuple[str, Path, Mapping[str, Names] | None]]]:
    """The variants of each kind: name, folder, and the recorded names."""
    variants_of = {kind: find_variants(folder, (), f"--{kind}") for kind, folder in folders.items()}
    every = [name for variants in variants_of.values() for name in variants]
    missing = [name for name in requested if name not in every]
    if missing:
        raise InputError(f"there is no variant {missing[0]!r} (found: {', '.join(every) or 'none'})", "--variant")
    chosen: dict[str, list[tuple[str, Path, Mapping[str, Names] | None]]] = {}
    for kind, variants in variants_of.items():
        mapped = find_mapping(folders[kind], "auto")
        chosen[kind] = [
            (name, path, names_of(name, mapped))
            for name, path in variants.items()
            if not requested or name in requested
        ]
        if not chosen[kind]:
            raise InputError(f"takes none of {', '.join(variants)}", folders[kind], "--variant")
    return chosen


def _match(
    name: str,
    path: Path,
    mapped: Mapping[str, Names] | None,
    original: SplitSchemas,
    originals: Sequence[SplitSchemas],
) -> _Version:
    matched = match_variant(name, read_root(path, leave_out_bad=True), path, originals, mapped, [original])
    variant = matched.splits[original.split]
    raw = raw_by_name(list(matched.targets.values()))
    of_services = {service: raw[names.service] for service, names in variant.names.items()}
    return _Version(variant, of_services, matched.problems, matched.remarks)


def _corrupt(
    originals: Sequence[SplitSchemas], original: SplitSchemas, corrupting: CorruptionConfig
) -> tuple[dict[str, Raw], list[Change]]:
    """Every service of the corpus under each corruption, with the words of the split that is augmented.

    With words of other splits, training would contain words of the test schemas.
    """
    every = services_by_name(list(originals))
    conventions = conventions_of(every.values())
    vocabulary = vocabulary_of(original.services, conventions)
    by_operation: dict[str, Raw] = {}
    changes: list[Change] = []
    for operation in corrupting.operations:
        corruption = Corruption(operation, corrupting.rates, corrupting.seed, vocabulary, conventions)
        for service, raw in raw_by_name(list(originals)).items():
            by_operation.setdefault(operation, {})[service], rows = corrupted(raw, corruption)
            changes += rows
    return by_operation, changes


def _version(name: str, raw: Raw, services: Iterable[Service]) -> _Version:
    """A version of some services whose elements are in the original order."""
    of_services = {service.service_name: raw[service.service_name] for service in services}
    names = {
        service.service_name: by_position(service, parse_service(dict(of_services[service.service_name])))
        for service in services
    }
    return _Version(Variant(name, names, {}), of_services)


def _schema(name: str, versions: Sequence[_Version]) -> bytes:
    """The schema file of a set: the original's services, then each variant's. Raises InputError for one name twice."""
    of: dict[str, str] = {}
    for version in versions:
        for raw in version.raw.values():
            service = str(raw["service_name"])
            # Without case: so does the reader of schema files compare them.
            other = of.setdefault(service.casefold(), version.variant.name)
            if other != version.variant.name:
                reason = f"service {service!r} is in {other} and in {version.variant.name}: they cannot be in one set"
                raise InputError(reason, f"set {name!r}", "--sets")
    return schema_bytes([raw for version in versions for raw in version.raw.values()])


def parse_sets(text: str) -> dict[str, tuple[Kind, ...]]:
    """The sets of a comma-separated list, by name, with the kinds of variants in them.

    Raises:
      InputError: no set, an unknown one, one that occurs twice (``a+b`` is ``b+a``), or a mix with ``none``.
    """
    sets: dict[str, tuple[Kind, ...]] = {}
    choices = f"{NONE}, {', '.join(KINDS)}, or a+b"
    for name in listed(text):
        words = [] if name == NONE else name.split("+")
        for word in words:
            if word == NONE:
                raise InputError(
                    f"{name!r}: every set has the original dialogues, and {NONE!r} has no others", "--sets"
                )
            if word not in KINDS or words.count(word) > 1:
                what = "occurs twice" if word in KINDS else "is not a set"
                raise InputError(f"{word!r} of {name!r} {what}: {choices}", "--sets")
        kinds = tuple(kind for kind in KINDS if kind in words)
        if kinds in sets.values():
            raise InputError(f"{name!r} occurs twice", "--sets")
        sets[name] = kinds
    if not sets:
        raise InputError(f"names no set: {choices}", "--sets")
    return sets


def default_sets(folders: Collection[str]) -> str:
    """One set of each kind of variants that there is; the folders are those that were given, by kind."""
    return ",".join([NONE, *(kind for kind in KINDS if kind == "corrupted" or kind in folders)])


def check_folders(sets: Mapping[str, tuple[Kind, ...]], folders: Collection[str]) -> None:
    """Raises InputError if a set needs a folder that was not given, or no set needs a folder."""
    for name, kinds in sets.items():
        for kind in kinds:
            if kind != "corrupted" and kind not in folders:
                raise InputError(f"the set {name!r} needs --{kind} DIR", "--sets")
    for folder in sorted(folders):
        if not any(folder in kinds for kinds in sets.values()):
            raise InputError(f"no set of --sets needs it ({', '.join(sets)})", f"--{folder}")


def parse_operations(text: str) -> list[Operation]:
    """The corruptions of a comma-separated list, in a fixed order. Raises InputError for an unknown one, or none."""
    requested = listed(text)
    operations = ", ".join(OPERATIONS)
    for name in requested:
        if name not in OPERATIONS:
            raise InputError(f"there is no corruption {name!r} (there are {operations})", "--corruptions")
    if not requested:
        raise InputError(f"names no corruption: there are {operations}", "--corruptions")
    return [operation for operation in OPERATIONS if operation in requested]
