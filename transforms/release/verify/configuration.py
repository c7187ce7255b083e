"""Does a manifest say what its configuration asked for: titles, authors, licence, inputs, kinds of data?"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from parapet.schemas.errors import InputError, reason_and_place
from parapet.schemas.layout import SINGLE
from parapet.schemas.release_config import VERSION, Corpus, ReleaseConfig
from parapet.schemas.release_manifest import MANIFEST, Input, Manifest, manifest_bytes
from parapet.transforms.release.checks import KINDS
from parapet.transforms.release.diff.differences import differing
from parapet.transforms.release.documents.citation import release_date
from parapet.transforms.release.manifest import configuration_sha256, head_of
from parapet.transforms.release.opening import open_release
from parapet.transforms.release.plan import OF_PARAPHRASES, PARAPHRASES, SCHEMAS, WHOLE
from parapet.transforms.release.sources import without_labels
from parapet.transforms.release.verify.files import is_inside
from parapet.transforms.release.verify.findings import Findings

_SHOWN = 5  # places of one field


def check_configuration(root: Path, manifest: Manifest, found: Findings) -> None:
    """Holds the manifest against its configuration, its copies of the inputs, and the parent where that is at hand.

    Args:
      root: the release.
      manifest: its manifest.
      found: takes what does not hold.
    """

    def add(where: str, reason: str) -> None:
        found.add("manifest", MANIFEST, where, reason)

    if (root / MANIFEST).read_bytes() != manifest_bytes(manifest):
        add("", "has more or other text than its content: unknown or repeated keys, another order or layout")
    if manifest.configuration_sha256 != configuration_sha256(manifest.configuration):
        add("configuration_sha256", "is not the SHA-256 of 'configuration'")
    try:
        config = msgspec.convert(manifest.configuration, ReleaseConfig)
    except msgspec.ValidationError as error:
        reason, at = reason_and_place(error)
        add(f"configuration.{at}".rstrip("."), reason)
        return
    for field, expected in head_of(config).items():
        stated = msgspec.to_builtins(getattr(manifest, field))
        for place in differing(expected, stated, _SHOWN):
            add(place.below(field), f"is {place.new}, but {place.old} by 'configuration'")
    if (config.signing or UNSET) != manifest.signing:
        add("signing", "is not that of 'configuration'")
    if config.date is not None and manifest.created != config.date.isoformat():
        add("created", f"is {manifest.created!r}, but {config.date} by 'configuration'")
    if config.date is None and manifest.created and release_date(manifest) != manifest.created:
        add("created", f"{manifest.created!r} is no date")
    if sorted(manifest.statistics) != sorted(one.name for one in config.statistics):
        add("statistics", "has other names than 'configuration'")
    for kind in manifest.known_problems:
        if kind not in KINDS or kind not in config.allow_problems:
            add(f"known_problems.{kind}", "is not in 'allow_problems' of 'configuration'")
    _check_parent(root, manifest, config, found)
    for where, reason in _inputs(manifest, config):
        add(where, reason)
    for where, reason in _configs(manifest, config):
        add(where, reason)
    _check_copies(root, manifest, config, found)


def _check_parent(root: Path, manifest: Manifest, config: ReleaseConfig, found: Findings) -> None:
    """A parent that stands beside the release must be the one that it names."""
    parent = manifest.parent
    if parent is None:
        if config.parent not in ("", "none"):
            found.add("manifest", MANIFEST, "parent", f"is missing: 'configuration' names {config.parent}")
        return
    if config.parent not in ("", parent.version):
        found.add("manifest", MANIFEST, "parent.version", f"is {parent.version}, {config.parent} by 'configuration'")
    if VERSION.fullmatch(parent.version) and (path := root.parent / parent.version / MANIFEST).is_file():
        if hashlib.sha256(path.read_bytes()).hexdigest() != parent.manifest_sha256:
            found.add("manifest", MANIFEST, "parent.manifest_sha256", f"is not that of {parent.version} beside it")
            return
        with found.guard("manifest", MANIFEST, "parent"):
            earlier = open_release(path.parent).manifest
            if earlier.version != parent.version or earlier.name != manifest.name:
                found.add("manifest", MANIFEST, "parent", f"is {earlier.name} {earlier.version} by its own manifest")


def _corpora(manifest: Manifest, config: ReleaseConfig) -> dict[str, Corpus]:
    """Name of each corpus among the inputs to what the configuration says of it; names of a folder's are their own."""
    named = {corpus.name: corpus for corpus in config.corpora if corpus.name}
    others = {*named, PARAPHRASES, *(table.name for table in config.tables)}
    folders: dict[str, Corpus] = {}
    for corpus in config.corpora:
        if not corpus.name:
            if corpus.kind in folders:  # which of two folders a corpus is from, nothing says
                hidden = [*folders[corpus.kind].hide_labels, *corpus.hide_labels]
                corpus = msgspec.structs.replace(corpus, splits=[], hide_labels=hidden)
            folders[corpus.kind] = corpus
    of_folders = {
        one.name: folders[one.kind] for one in manifest.inputs if one.name not in others and one.kind in folders
    }
    return {**named, **of_folders}


def _inputs(manifest: Manifest, config: ReleaseConfig) -> Iterator[tuple[str, str]]:
    corpora = _corpora(manifest, config)
    expected = {name: corpus.kind for name, corpus in corpora.items()}
    expected |= {PARAPHRASES: "audit"} if config.audits else {}
    expected |= {table.name: table.kind for table in config.tables}
    for i, one in enumerate(manifest.inputs):
        if one.name not in expected:
            yield f"inputs[{i}]", f"{one.name!r} ({one.kind}) is no input of 'configuration'"
        elif one.kind != expected[one.name]:
            yield f"inputs[{i}].kind", f"is {one.kind!r}, {expected[one.name]!r} by 'configuration'"
    for name in expected.keys() - {one.name for one in manifest.inputs}:
        yield "inputs", f"has no {name!r}, which 'configuration' names"
    for corpus in config.corpora:
        if corpus.kind not in {one.kind for one in corpora.values()}:
            yield "inputs", f"has no corpus of {corpus.path!r}, which 'configuration' names"
    copies = {path for path in (file.path for file in manifest.files) if path.startswith("sgd/")}
    for i, one in enumerate(manifest.inputs):
        if one.name in corpora:
            yield from _copied(f"inputs[{i}]", one, corpora[one.name], manifest)
            copies -= {f"sgd/{one.name}/{file.path}" for file in one.files}
    for path in sorted(copies):
        yield path, "is of no file of the inputs"


def _copied(where: str, one: Input, corpus: Corpus, manifest: Manifest) -> Iterator[tuple[str, str]]:
    """A corpus goes into a release byte for byte, but for labels that are hidden."""
    copies = {file.path: file for file in manifest.files}
    for k, file in enumerate(one.files):
        copy = copies.get(f"sgd/{one.name}/{file.path}")
        if copy is None:
            yield f"{where}.files[{k}]", f"{file.path!r} is in no file below sgd/{one.name}"
        elif not _is_hidden(file.path, corpus) and (copy.sha256, copy.bytes) != (file.sha256, file.bytes):
            yield f"{where}.files[{k}]", f"its SHA-256 and size are not those of {copy.path}"
    splits = {_split_of(file.path) for file in one.files}
    if corpus.splits and splits != set(corpus.splits):
        yield where, f"has the splits {', '.join(sorted(splits))}; {', '.join(corpus.splits)} by 'configuration'"
    for split in sorted(set(corpus.hide_labels) - splits):
        yield where, f"has no split {split}, whose labels are hidden by 'configuration'"


def _split_of(relative: str) -> str:
    return relative.rpartition("/")[0] or SINGLE


def _is_hidden(relative: str, corpus: Corpus) -> bool:
    return _split_of(relative) in corpus.hide_labels and not relative.endswith("schema.json")


def _check_copies(root: Path, manifest: Manifest, config: ReleaseConfig, found: Findings) -> None:
    """Splits whose labels are hidden must not have any."""
    corpora = _corpora(manifest, config)
    for one in manifest.inputs:
        for file in one.files if one.name in corpora else ():
            path = f"sgd/{one.name}/{file.path}"
            if _is_hidden(file.path, corpora[one.name]) and is_inside(path) and (root / path).is_file():
                with found.guard("private", path):
                    data = (root / path).read_bytes()
                    if without_labels(data, path) != data:
                        raise InputError("has labels, which are hidden by 'configuration'", path)


def _configs(manifest: Manifest, config: ReleaseConfig) -> Iterator[tuple[str, str]]:
    expected: dict[str, tuple[str, str, list[str]]] = {SCHEMAS: ("schemas", "service", ["variant", "service_name"])}
    for name, corpus in _corpora(manifest, config).items():
        expected[name] = (corpus.kind, "dialogue", ["dialogue_id"])
    if config.audits:
        expected[PARAPHRASES] = (OF_PARAPHRASES, "paraphrase", ["response_id"])
    splits: dict[str, str] = {PARAPHRASES: WHOLE}
    for table in config.tables:
        expected[table.name] = (table.kind, "row", table.key)
        splits[table.name] = table.split
    for name, one in manifest.configs.items():
        if name not in expected:
            yield f"configs.{name}", "is of no input of 'configuration'"
            continue
        stated: dict[str, Any] = {"kind": one.kind, "record": one.record, "key": one.key}
        for field, value in zip(stated, expected[name], strict=True):
            if stated[field] != value:
                yield f"configs.{name}.{field}", f"is {stated[field]!r}, {value!r} by 'configuration'"
        if name in splits and list(one.splits) != [splits[name]]:
            yield f"configs.{name}.splits", f"are not {splits[name]!r} alone, as by 'configuration'"
