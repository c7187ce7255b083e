"""``release verify`` finds a change of any field of the manifest and of any document, checksums made anew with it."""

from __future__ import annotations

import copy
import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import release_folder as folder
import yaml
from release_corpora import Built, build, edit
from two_workers import THOROUGH

from parapet.schemas import release_config, release_manifest
from parapet.schemas.errors import InputError
from parapet.schemas.release_manifest import DOCUMENTS, parse_manifest
from parapet.transforms.release.manifest import COUNTED
from parapet.transforms.release.opening import Release, open_release
from parapet.transforms.release.verify.configuration import check_configuration
from parapet.transforms.release.verify.documents import check_documents
from parapet.transforms.release.verify.examine import examine
from parapet.transforms.release.verify.findings import Findings
from parapet.transforms.release.verify.manifest import check_manifest

Place = tuple[str | int, ...]

# Nothing in a release says the same a second time, so that only a signature can hold it: the code and the libraries
# that made it, and the hashes of inputs that are not in it as they were.
SIGNED_ALONE = re.compile(r"code\.sha256.*|libraries\..+|inputs\.\d+\.files\.\d+\.(?:path|sha256)")


STRUCTS = [
    one for module in (release_config, release_manifest) for one in vars(module).values() if isinstance(one, type)
]
FIELDS = {name for one in STRUCTS if issubclass(one, msgspec.Struct) for name in one.__struct_fields__}
FIELDS |= {"parapet", "sha256", *COUNTED}


@pytest.fixture(scope="module")
def root(suite_release: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy with all that a release can hold."""
    place = tmp_path_factory.mktemp("mutations") / "small"
    shutil.copytree(suite_release.root.parent, place)
    return place / "1.0.0"


def leaves(value: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not value or not isinstance(value, dict | list):
        yield place, value
    for key, child in children:
        yield from leaves(child, (*place, key))


def changed(value: Any) -> Any:
    if isinstance(value, str):
        return value[:-1] + ("1" if value.endswith("0") else "0") if value else "x"
    if isinstance(value, bool | int | float):
        return not value if isinstance(value, bool) else value + 1
    return {"x": "y"} if isinstance(value, dict) else ["x"] if isinstance(value, list) else "x"


def mutants(raw: Any) -> Iterator[tuple[str, Any]]:
    """Each leaf with another value; of leaves of one kind the first, in thorough runs all, and all without them."""
    of_kind: dict[Place, list[tuple[Place, Any]]] = {}
    for place, value in leaves(raw):
        kind = tuple(key if key in FIELDS else "*" for key in place)
        of_kind.setdefault(kind, []).append((place, value))
    for alike in of_kind.values():
        for place, value in alike if THOROUGH else alike[:1]:
            for gone in (False, True) if THOROUGH and isinstance(place[-1], str) else (False,):
                mutant = copy.deepcopy(raw)
                holder = mutant
                for key in place[:-1]:
                    holder = holder[key]
                if gone:
                    del holder[place[-1]]
                else:
                    holder[place[-1]] = changed(value)
                yield ".".join(map(str, place)) + (" gone" if gone else ""), mutant


def is_found(root: Path, data: bytes) -> bool:
    """Whether verify reports a manifest: what looks at it alone first, for that is quick."""
    (root / "MANIFEST.json").write_bytes(data)
    found = Findings()
    try:
        manifest = parse_manifest(data, "")
    except InputError:
        return True
    with found.guard("manifest", "MANIFEST.json"):
        check_manifest(root, manifest, found)
        check_configuration(root, manifest, found)
        if not found.listed():
            check_documents(Release(root, manifest), found)
    if found.listed():
        return True
    folder.mend(root)
    return bool(examine(root).findings)


def test_every_field_of_the_manifest_is_covered(root: Path) -> None:
    before = (root / "MANIFEST.json").read_bytes()
    sums = (root / "SHA256SUMS").read_bytes()
    raw = json.loads(before)
    try:
        names = [one["name"] for one in raw["inputs"]]
        copied = {str(i) for i, name in enumerate(names) if name in ("original", "v1", "v2", "typos")}
        assert len(copied) == 4
        seen, missed = 0, []
        for place, mutant in mutants(raw):
            seen += 1
            data = (json.dumps(mutant, indent=2, ensure_ascii=False) + "\n").encode()
            if not is_found(root, data):
                missed.append(place)
        assert seen > 60
        assert not [place for place in missed if not SIGNED_ALONE.fullmatch(place)]
        assert not [place for place in missed if place.startswith("inputs.") and place.split(".")[1] in copied]
        assert any(place == "code.sha256" for place in missed), "then SIGNED_ALONE says too much"
        for text in (before.replace(b'"title"', b'"title": "", "title"', 1), before.replace(b"{", b'{"x": 1, ', 1)):
            assert is_found(root, text)
            assert is_found(root, before + b" ")
    finally:
        (root / "MANIFEST.json").write_bytes(before)
        (root / "SHA256SUMS").write_bytes(sums)


def test_a_configuration_whose_hash_is_made_anew_must_agree_with_the_rest(root: Path) -> None:
    raw = json.loads((root / "MANIFEST.json").read_bytes())
    missed = []
    for place, configuration in mutants(raw["configuration"]):
        text = json.dumps(configuration, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        digest = hashlib.sha256(text.encode()).hexdigest()
        mutant = {**raw, "configuration": configuration, "configuration_sha256": digest}
        manifest = parse_manifest(json.dumps(mutant).encode(), "")
        found = Findings()
        with found.guard("manifest", ""):
            check_configuration(root, manifest, found)
        # The file is not the mutant: that is one finding.
        if len(found.listed()) < 2:
            with found.guard("documents", ""):
                check_documents(Release(root, manifest), found)
        if len(found.listed()) < 2:
            missed.append(place)
    # The last part of an input's path is nowhere else; a corpus may have its folder's name, and a release no date.
    same = re.compile(r"\w+\.\d+\.path|corpora\.\d+\.name gone|date gone")
    assert not [place for place in missed if not same.fullmatch(place)]


@pytest.mark.parametrize("path", DOCUMENTS)
def test_every_document_is_covered(root: Path, path: str) -> None:
    release, before = open_release(root), (root / path).read_bytes()
    lines = before.decode().split("\n")
    places = range(0, len(lines), 1 if THOROUGH else max(1, len(lines) // 4))
    try:
        for i in places:
            (root / path).write_text("\n".join([*lines[:i], f"{lines[i]}x", *lines[i + 1 :]]))
            found = Findings()
            assert check_documents(release, found) == []
            assert {finding.path for finding in found.listed()} == {path}, i
    finally:
        (root / path).write_bytes(before)
    found = Findings()
    assert check_documents(release, found) == []
    assert found.listed() == []


def test_facts_hold_in_documents_of_another_parapet(root: Path) -> None:
    release = open_release(root)
    release.manifest.code["sha256"] = "0" * 64
    texts = {path: (root / path).read_text() for path in DOCUMENTS}
    try:
        (root / "README.md").write_text(texts["README.md"] + "More.\n")
        (root / "report/index.html").write_text("<!DOCTYPE html>")
        found = Findings()
        assert check_documents(release, found) == ["README.md", "report/index.html"]
        assert found.listed() == []
        citation, croissant = yaml.safe_load(texts["CITATION.cff"]), json.loads(texts["croissant.json"])
        for document in (citation, croissant):
            document.update({"version": "9.0.0", "url": "https://evil.example"})
        citation["authors"][0]["given-names"] = croissant["creator"][0]["name"] = "Eve"
        (root / "CITATION.cff").write_text(yaml.safe_dump(citation))
        (root / "croissant.json").write_text(json.dumps(croissant))
        check_documents(release, found)
        assert {(one.path, one.where.split("[")[0]) for one in found.listed()} == {
            *(("CITATION.cff", where) for where in ("version", "url", "authors")),
            *(("croissant.json", where) for where in ("version", "url", "creator")),
        }
    finally:
        for path, text in texts.items():
            (root / path).write_text(text)


def test_the_parent_beside_a_release_is_the_one_that_it_names(
    built: Built, toml: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(built.root.parent, tmp_path / "out" / "small")
    shard = next((tmp_path / "out" / "small" / "1.0.0" / "data" / "v1").glob("*.parquet"))
    shard.rename(tmp_path / "shard")
    edit(toml, ('version = "1.0.0"', 'version = "1.0.1"'), ('changes = "First."', 'changes = "Second."'))
    assert build(toml, tmp_path / "out") == 2
    assert f"{shard}: is missing, or not the file of its release" in capsys.readouterr().err
    (tmp_path / "shard").rename(shard)
    assert build(toml, tmp_path / "out", "--quiet") == 0
    root = tmp_path / "out" / "small" / "1.0.1"
    assert examine(root).findings == []
    parent = root.parent / "1.0.0"
    text = (parent / "CHANGELOG.md").read_text()
    (parent / "CHANGELOG.md").write_text(text.replace("First.", "Worst."))
    assert [(one.check, one.path) for one in examine(root).findings] == [("documents", "CHANGELOG.md")]
    (parent / "CHANGELOG.md").write_text(text)
    with (parent / "MANIFEST.json").open("a") as handle:
        handle.write(" ")
    (finding,) = examine(root).findings
    assert finding.where == "parent.manifest_sha256"
    # Without the parent the changelog is held against the manifest as far as that goes.
    shutil.rmtree(parent)
    assert examine(root).findings == []
    (root / "CHANGELOG.md").write_text((root / "CHANGELOG.md").read_text().replace("Second.", "Last."))
    assert [(one.check, one.path) for one in examine(root).findings][-1:] == [("documents", "CHANGELOG.md")]


def test_labels_that_should_be_hidden_are_found(suite_release: Built, tmp_path: Path) -> None:
    shutil.copytree(suite_release.root, root := tmp_path / "small" / "1.0.0")

    def change(manifest: Any) -> None:
        manifest.configuration["corpora"][0]["hide_labels"] = ["test"]
        text = json.dumps(manifest.configuration, sort_keys=True, separators=(",", ":"))
        manifest.configuration_sha256 = hashlib.sha256(text.encode()).hexdigest()

    folder.edit_manifest(root, change)
    lines = [str(finding) for finding in examine(root).findings]
    assert lines
    assert all(re.match(r"sgd/original/test/dialogues_\d+\.json: has labels, which are hidden", line) for line in lines)
    assert msgspec.json.decode((root / "MANIFEST.json").read_bytes())["configuration"]["corpora"][0]["hide_labels"]
