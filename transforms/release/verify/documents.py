"""Do the documents of a release say what its manifest says: licence, version, rows, hashes?"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import yaml

from parapet.schemas.errors import InputError
from parapet.schemas.layout import parse_json
from parapet.schemas.release_manifest import CARD, CITATION, CROISSANT, LICENCE, MANIFEST, Manifest
from parapet.transforms.release.documents import licences
from parapet.transforms.release.opening import Release
from parapet.transforms.release.verify.findings import Findings

_SHAPE = (AttributeError, KeyError, TypeError)  # what a document of another shape raises


def check_documents(release: Release, found: Findings) -> None:
    """Compares the documents that can be parsed with the manifest; missing ones are reported elsewhere."""
    manifest = release.manifest
    own_text = bool(manifest.configuration.get("licence_file"))
    for problem in licences.problems(manifest.licence, manifest.sources, own_text):
        found.add("licence", MANIFEST, "licence", problem)
    checks: dict[str, Callable[[bytes, Manifest], Iterator[tuple[str, str]]]] = {
        CARD: _card,
        CROISSANT: _croissant,
        CITATION: _citation,
        LICENCE: _licence,
    }
    for path, check in checks.items():
        if (release.root / path).is_file():
            with found.guard("documents", path):
                for where, reason in check(release.read(path), manifest):
                    found.add("documents", path, where, reason)


def is_licence(value: Any, licence: str) -> bool:
    """Whether a document means the manifest's licence: by identifier, address, or tag of Hugging Face."""
    if isinstance(value, list):
        return any(is_licence(one, licence) for one in value)
    if isinstance(value, dict):
        return any(is_licence(value.get(key), licence) for key in ("@id", "url", "name"))
    if not isinstance(value, str):
        return False
    known = licences.find(licence)
    names = [licence] if known is None else [licence, known.url, known.tag]
    return _folded(value) in map(_folded, names)


def _folded(name: str) -> str:
    return " ".join(name.split()).casefold().rstrip("/")


def _card(data: bytes, manifest: Manifest) -> Iterator[tuple[str, str]]:
    front = _front_matter(data)
    value = front.get("license")
    if value == "other":
        value = front.get("license_name")
    if not is_licence(value, manifest.licence):
        yield "license", f"is {value!r}, {manifest.licence} in the manifest"
    yield from _config_names(front.get("configs"), manifest)
    examples = dict(_stated_examples(front.get("dataset_info")))
    expected = {
        (name, split): info.rows for name, config in manifest.configs.items() for split, info in config.splits.items()
    }
    for place in sorted({*examples, *expected}):
        if examples.get(place) != expected.get(place):
            stated, rows = examples.get(place, "missing"), expected.get(place, "none")
            yield f"dataset_info.{'.'.join(place)}", f"num_examples is {stated}, {rows} in the manifest"


def _front_matter(data: bytes) -> dict[str, Any]:
    parts = data.decode("utf-8").split("---\n", 2)
    if len(parts) < 3 or parts[0]:
        raise InputError("has no front matter between two lines of ---")
    front = yaml.safe_load(parts[1])
    if not isinstance(front, dict):
        raise InputError("its front matter is no mapping")
    return front


def _config_names(configs: Any, manifest: Manifest) -> Iterator[tuple[str, str]]:
    try:
        stated = {str(config["config_name"]): {str(one["split"]) for one in config["data_files"]} for config in configs}
    except _SHAPE:
        yield "configs", "is no list of configurations with their data_files"
        return
    for name in sorted({*stated, *manifest.configs}):
        expected = set(manifest.configs[name].splits) if name in manifest.configs else set()
        if stated.get(name, set()) != expected:
            listed = ", ".join(sorted(stated.get(name, set()))) or "none"
            yield f"configs.{name}", f"has the splits {listed}; in the manifest {', '.join(sorted(expected)) or 'none'}"


def _stated_examples(infos: Any) -> Iterator[tuple[tuple[str, str], Any]]:
    """(configuration, split) with its number of rows, as the card has it."""
    try:
        for info in [infos] if isinstance(infos, dict) else infos:
            for split in info["splits"]:
                yield (str(info.get("config_name", "default")), str(split["name"])), split["num_examples"]
    except _SHAPE:
        return


def _croissant(data: bytes, manifest: Manifest) -> Iterator[tuple[str, str]]:
    document = parse_json(data, CROISSANT)
    if not isinstance(document, dict):
        raise InputError("is no JSON object")
    if not is_licence(document.get("license"), manifest.licence):
        yield "license", f"is {json.dumps(document.get('license'))}, {manifest.licence} in the manifest"
    if str(document.get("version")) != manifest.version:
        yield "version", f"is {document.get('version')!r}, {manifest.version} in the manifest"
    # mlcroissant does not hold local files against their hashes, so a wrong one would stay unseen.
    files = {file.path: file.sha256 for file in manifest.files}
    distribution = document.get("distribution")
    for file in distribution if isinstance(distribution, list) else []:
        if not isinstance(file, dict) or "sha256" not in file:
            continue
        path = str(file.get("contentUrl"))
        if path in files and file["sha256"] != files[path]:
            yield f"distribution {path}", "has another sha256 than the manifest"


def _citation(data: bytes, manifest: Manifest) -> Iterator[tuple[str, str]]:
    citation = yaml.safe_load(data.decode("utf-8"))
    if not isinstance(citation, dict):
        raise InputError("is no YAML mapping")
    value = citation.get("license") or citation.get("license-url")
    # The format knows SPDX identifiers alone; a licence that has none is in the other documents.
    if not is_licence(value, manifest.licence) and (value or licences.find(manifest.licence)):
        yield "license", f"is {value!r}, {manifest.licence} in the manifest"
    if str(citation.get("version")) != manifest.version:
        yield "version", f"is {citation.get('version')!r}, {manifest.version} in the manifest"


def _licence(data: bytes, manifest: Manifest) -> Iterator[tuple[str, str]]:
    known, text = licences.find(manifest.licence), data.decode("utf-8")
    if known is not None and not any(name in text for name in (known.spdx, known.name, known.url)):
        yield "", f"does not name {known.spdx}, the licence of the manifest"
