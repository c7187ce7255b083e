"""Are the documents of a release those that its manifest makes?

They are made again of the manifest and compared: byte for byte where this Parapet is the one that wrote them, and else
in what other programs read: titles, authors, licence, version, dates, rows, sizes, hashes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import zip_longest
from typing import Any

import msgspec
import yaml

from parapet.schemas.distribution import code_sha256
from parapet.schemas.errors import InputError
from parapet.schemas.layout import parse_json
from parapet.schemas.release_manifest import (
    CARD,
    CHANGELOG,
    CITATION,
    CROISSANT,
    DOCUMENTS,
    LICENCE,
    MANIFEST,
    REPORT,
    Manifest,
)
from parapet.transforms.release.diff.differences import differing, shown_both
from parapet.transforms.release.documents import licences
from parapet.transforms.release.documents.card import card
from parapet.transforms.release.documents.changelog import changelog
from parapet.transforms.release.documents.citation import citation_cff
from parapet.transforms.release.documents.croissant import croissant
from parapet.transforms.release.documents.licences import licence_text
from parapet.transforms.release.documents.report import release_report
from parapet.transforms.release.opening import Release
from parapet.transforms.release.verify.findings import Findings
from parapet.transforms.report import page

_SHAPE = (AttributeError, KeyError, TypeError)  # what a document of another shape raises
_SHOWN = 3  # differences of one document

# What a version of Parapet does not change in a document, given the same manifest.
_FACTS = {
    CARD: ("pretty_name", "license_name", "license_link", "language"),
    CITATION: ("title", "version", "date-released", "abstract", "authors", "url"),
    CROISSANT: ("name", "alternateName", "version", "description", "url", "datePublished", "inLanguage", "creator"),
}


def check_documents(release: Release, found: Findings) -> list[str]:
    """Compares the documents with the manifest; missing ones are reported elsewhere.

    Returns:
      The documents whose text another Parapet wrote, so that it could not be compared.
    """
    manifest = release.manifest
    own_text = bool(manifest.configuration.get("licence_file"))
    for problem in licences.problems(manifest.licence, manifest.sources, own_text):
        found.add("licence", MANIFEST, "licence", problem)
    own_code = manifest.code.get("sha256") == code_sha256()
    not_compared = []
    for path in DOCUMENTS:
        if not (release.root / path).is_file():
            continue
        with found.guard("documents", path):
            data = release.read(path)
            expected = _expected(path, data, release)
            if data == expected:
                continue
            places = list(_CHECKS[path](data, manifest)) if path in _CHECKS else []
            places += _facts(path, data, expected)
            if own_code and not places:
                places = [_first_line(data.decode("utf-8"), expected.decode("utf-8"))]
            if not own_code:
                not_compared.append(path)
            for where, reason in places:
                found.add("documents", path, where, reason)
    return not_compared


def _expected(path: str, data: bytes, release: Release) -> bytes:
    """A document as the manifest makes it, of what it keeps from elsewhere: a licence's own text, earlier changes."""
    manifest = release.manifest
    # Documents are made when the data is there, and before there are documents.
    manifest = msgspec.structs.replace(manifest, files=[one for one in manifest.files if one.path not in DOCUMENTS])
    if path == CROISSANT:
        return croissant(manifest)
    if path == CARD:
        text = card(manifest)
    elif path == CITATION:
        text = citation_cff(manifest)
    elif path == REPORT:
        text = page(release_report(manifest))
    elif path == LICENCE:
        text = _licence_around(data.decode("utf-8"), manifest)
    else:
        text = _changelog_over(data.decode("utf-8"), release)
    return text.encode()


def _licence_around(text: str, manifest: Manifest) -> str:
    """LICENSE; where the release brings a licence of its own, that is whatever comes first."""
    if not manifest.configuration.get("licence_file"):
        return licence_text(manifest)
    notice = licence_text(manifest, "-").removeprefix("-")
    own = text.removesuffix(notice)
    return licence_text(manifest, own) if own.strip() else notice


def _changelog_over(text: str, release: Release) -> str:
    """CHANGELOG.md: on top of that of the parent, where it stands beside, or else of what is there."""
    manifest = release.manifest
    if manifest.parent is None:
        return changelog(manifest, "")
    beside = release.root.parent / manifest.parent.version / CHANGELOG
    if "/" not in manifest.parent.version and beside.is_file():
        return changelog(manifest, beside.read_bytes().decode("utf-8"))
    start = text.find("\n## ", text.find("\n## ") + 1)
    return changelog(manifest, text[start + 1 :] if start > 0 else "")


def _facts(path: str, data: bytes, expected: bytes) -> Iterator[tuple[str, str]]:
    """Where the keys of a document that hold its facts differ from the manifest."""
    if path not in _FACTS:
        return
    stated, made = (_parsed(path, one) for one in (data, expected))
    for key in _FACTS[path]:
        for place in differing(made.get(key), stated.get(key), _SHOWN):
            yield place.below(key), f"is {place.new}, {place.old} by the manifest"


def _parsed(path: str, data: bytes) -> dict[str, Any]:
    if path == CARD:
        return _front_matter(data)
    document = parse_json(data, path) if path == CROISSANT else yaml.safe_load(data.decode("utf-8"))
    if not isinstance(document, dict):
        raise InputError("is no JSON object" if path == CROISSANT else "is no YAML mapping")
    return document


def _first_line(text: str, expected: str) -> tuple[str, str]:
    pairs = enumerate(zip_longest(text.split("\n"), expected.split("\n"), fillvalue=""), 1)
    number, (line, wanted) = next((n, pair) for n, pair in pairs if pair[0] != pair[1])
    shown, right = shown_both(line, wanted)
    return f"line {number}", f"is {shown}, {right} by the manifest"


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
    document = _parsed(CROISSANT, data)
    if not is_licence(document.get("license"), manifest.licence):
        yield "license", f"is {json.dumps(document.get('license'))}, {manifest.licence} in the manifest"
    # mlcroissant does not hold local files against their hashes, so a wrong one would stay unseen.
    files = {file.path: file for file in manifest.files}
    distribution = document.get("distribution")
    for one in distribution if isinstance(distribution, list) else []:
        if not isinstance(one, dict) or "sha256" not in one:
            continue
        path = str(one.get("contentUrl"))
        if path not in files:
            yield f"distribution {path}", "is no file of the manifest"
        elif one["sha256"] != files[path].sha256:
            yield f"distribution {path}", "has another sha256 than the manifest"
        elif "contentSize" in one and one["contentSize"] != f"{files[path].bytes} B":
            yield f"distribution {path}", "has another size than the manifest"


def _citation(data: bytes, manifest: Manifest) -> Iterator[tuple[str, str]]:
    citation = _parsed(CITATION, data)
    value = citation.get("license") or citation.get("license-url")
    # The format knows SPDX identifiers alone; a licence that has none is in the other documents.
    if not is_licence(value, manifest.licence) and (value or licences.find(manifest.licence)):
        yield "license", f"is {value!r}, {manifest.licence} in the manifest"


def _licence(data: bytes, manifest: Manifest) -> Iterator[tuple[str, str]]:
    known, text = licences.find(manifest.licence), data.decode("utf-8")
    if known is not None and not any(name in text for name in (known.spdx, known.name, known.url)):
        yield "", f"does not name {known.spdx}, the licence of the manifest"


_CHECKS: Mapping[str, Callable[[bytes, Manifest], Iterator[tuple[str, str]]]] = {
    CARD: _card,
    CROISSANT: _croissant,
    CITATION: _citation,
    LICENCE: _licence,
}
