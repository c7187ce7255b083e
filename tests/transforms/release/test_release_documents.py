"""The documents that a release is published with."""

import orjson
import yaml
from release_manifests import columns, follows, manifest

from parapet.schemas.release import DOCUMENTS
from parapet.transforms.release.building import write_documents
from parapet.transforms.release.reading import Release


def documents(folder, of, parent=None, licence=""):
    write_documents(of, columns(), str(folder), parent, licence)
    return {path: (folder / path).read_bytes() for path in DOCUMENTS}


def test_all_documents(tmp_path):
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.0.0\n\nThe first version.\n")
    found = documents(tmp_path / "new", manifest(**follows()), Release(tmp_path, manifest()), "Own terms.")
    assert found["README.md"].startswith(b"---\npretty_name: ")
    assert found["CHANGELOG.md"].endswith(b"## 1.0.0\n\nThe first version.\n")
    assert found["LICENSE"].startswith(b"Own terms.\n\n")
    assert orjson.loads(found["croissant.json"])["@type"] == "sc:Dataset"
    assert yaml.safe_load(found["CITATION.cff"])["type"] == "dataset"
    assert found["report/index.html"].startswith(b"<!DOCTYPE html>")
    assert all(data.endswith(b"\n") for data in found.values())
