from __future__ import annotations

import orjson
import yaml
from release_manifests import follows, manifest

from parapet.schemas.release_manifest import File, manifest_bytes, parse_manifest
from parapet.transforms.release.documents.every import documents


def test_all_documents() -> None:
    found = documents(manifest(**follows()), "# Changelog\n\n## 1.0.0\n\nThe first version.\n", "Own terms.")
    assert list(found) == sorted(
        ["CHANGELOG.md", "CITATION.cff", "LICENSE", "README.md", "croissant.json", "report/index.html"]
    )
    assert found["README.md"].startswith(b"---\npretty_name: ")
    assert found["CHANGELOG.md"].endswith(b"## 1.0.0\n\nThe first version.\n")
    assert found["LICENSE"].startswith(b"Own terms.\n\n")
    assert orjson.loads(found["croissant.json"])["@type"] == "sc:Dataset"
    assert yaml.safe_load(found["CITATION.cff"])["type"] == "dataset"
    assert found["report/index.html"].startswith(b"<!DOCTYPE html>")
    assert all(data.endswith(b"\n") for data in found.values())


def test_the_same_manifest_gives_the_same_bytes() -> None:
    first = documents(manifest(), "", "")
    again = documents(parse_manifest(manifest_bytes(manifest()), "MANIFEST.json"), "", "")
    assert first == again


def test_files_that_are_no_data_change_neither_card_nor_croissant() -> None:
    found = manifest()
    first = documents(found, "", "")
    found.files = [*found.files, File("LICENSE", 12, "0" * 64), File("report/index.html", 12, "0" * 64)]
    again = documents(found, "", "")
    assert again["README.md"] == first["README.md"]
    assert again["croissant.json"] == first["croissant.json"]
