import logging
from pathlib import Path
from typing import Any

import mlcroissant
import msgspec
import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from release_manifests import MEMORY, SGD, columns, manifest, rows, write_data

from parapet.schemas.release import Author, Column, Manifest
from parapet.transforms.release.croissant import croissant

# Of rdflib and pandas, as mlcroissant calls them.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def read(found: Manifest) -> dict[str, Any]:
    return dict(orjson.loads(croissant(found, columns())))


def dataset(root: Path, found: Manifest) -> mlcroissant.Dataset:
    (root / "croissant.json").write_text(croissant(found, columns()))
    return mlcroissant.Dataset(jsonld=root / "croissant.json")


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    return dataset(write_data(tmp_path_factory.mktemp("release")), manifest())


def test_the_dataset():
    found = read(manifest())
    assert found["conformsTo"] == "http://mlcommons.org/croissant/1.1"
    assert found["name"] == "tiny-x"
    assert found["version"] == "1.1.0"
    assert found["license"] == "https://creativecommons.org/licenses/by-sa/4.0/"
    assert found["datePublished"] == "2026-02-03"
    assert found["citeAs"].startswith("@misc{tiny-x-1-1-0,")
    assert found["creator"] == [
        {"@type": "sc:Person", "name": "Ada Lovelace", "url": "https://orcid.org/0000-0002-1825-0097"},
        {"@type": "sc:Person", "name": "Hopper, Grace Brewster"},
        {"@type": "sc:Organization", "name": "The Parapet authors"},
    ]
    assert found["isBasedOn"][0]["url"] == SGD.url
    assert "datePublished" not in read(manifest(created=""))
    assert read(manifest(licence="Our-Own"))["license"] == "Our-Own"


def test_every_parquet_file_has_size_and_checksum():
    found = manifest()
    files = {one["@id"]: one for one in read(found)["distribution"] if one["@type"] == "cr:FileObject"}
    assert {
        path: (one["contentUrl"], one["contentSize"], one["sha256"], one["encodingFormat"])
        for path, one in files.items()
    } == {
        file.path: (file.path, f"{file.bytes} B", file.sha256, "application/x-parquet")
        for file in found.files
        if file.path.startswith("data/")
    }
    sets = [one for one in read(found)["distribution"] if one["@type"] == "cr:FileSet"]
    assert [one["includes"] for one in sets] == [f"data/{name}/*.parquet" for name in found.configs]


def test_it_is_valid_and_standard(caplog, tmp_path):
    with caplog.at_level(logging.WARNING):
        issues = dataset(tmp_path, manifest()).metadata.ctx.issues
    assert (issues.errors, issues.warnings, caplog.messages) == (set(), set(), [])


def test_records_of_dialogues(release):
    found = list(release.records("original"))
    expected = [(split, row) for split in ("test", "train") for row in rows("original", split)]
    assert len(found) == len(expected)
    for record, (split, row) in zip(found, expected, strict=True):
        assert record["original/split"] == split.encode()
        assert record["original/dialogue_id"] == row["dialogue_id"].encode()
        assert record["original/position"] == row["position"]
        assert record["original/services"] == [name.encode() for name in row["services"]]
        assert record["original/source_json"] is None
        assert record["original/turns"] == [
            {"original/turns/speaker": turn["speaker"].encode(), "original/turns/utterance": turn["utterance"].encode()}
            for turn in row["turns"]
        ]


def test_records_of_schemas(release):
    record = next(iter(release.records("schemas")))
    row = rows("schemas", "train")[0]
    assert record["schemas/variant"] == b"original"
    assert [slot["schemas/slots/possible_values"] for slot in record["schemas/slots"]] == [
        [value.encode() for value in slot["possible_values"]] for slot in row["slots"]
    ]


def test_records_of_any_table(release):
    first, second = release.records("memory")
    assert first["memory/_split"] == b"full"
    assert first["memory/split"] == b"a"
    assert first["memory/a%20name%2C%20with%3A%20all%20of%20it"] == 1
    assert first["memory/scores"] == [0.5, 1.0]
    assert first["memory/model"] == {"memory/model/name": b"m", "memory/model/sizes": [1, 2]}
    assert (first["memory/day"].year, first["memory/seen"].year, first["memory/good"]) == (2024, 2023, True)
    assert second["memory/text"] == b"welt"
    assert second["memory/scores"] is None


def test_splits_have_names(release):
    assert [record["split-names/name"] for record in release.records("split-names")] == ["train", "test", "full"]


def test_what_cannot_be_said_is_named():
    sets = {one["@id"]: one for one in read(manifest())["recordSet"]}
    assert "not described here: raw (binary)" in sets["memory"]["description"]
    fields = {one["name"]: one for one in sets["original"]["field"]}
    assert fields["turns"]["description"].endswith(
        "Nested deeper, in the Parquet files only: frames (list of {service, slots, actions, state, service_call, "
        "service_results})"
    )
    assert sets["original"]["key"] == [{"@id": "original/split"}, {"@id": "original/dialogue_id"}]
    assert set(MEMORY.names) - {one["name"] for one in sets["memory"]["field"]} == {"raw"}


TEXTS = st.one_of(
    st.sampled_from(["a b", "a/b", "@id", "x:y", "http://e.org/#x", '"', "<b>", "\\u0000", "%", "é", "where"]),
    st.text(min_size=1, max_size=10),
)


@given(TEXTS, TEXTS, TEXTS, st.sampled_from([pa.int8(), pa.string(), pa.list_(pa.string()), pa.binary(), None]))
@settings(max_examples=8, deadline=None)
def test_any_text_is_valid(title, column, name, kind):
    found = manifest(title=title, description=title, release_notes=name, authors=[Author(name)], homepage=name)
    kind = kind or pa.struct([(name, pa.int8())])
    schema = pa.schema([(column, kind), ("text", pa.string())])
    described = [Column(field.name, str(field.type)) for field in schema]
    found.configs["memory"] = msgspec.structs.replace(found.configs["memory"], kind=name, columns=described)
    text = croissant(found, {**columns(), "memory": schema})
    metadata = mlcroissant.Dataset(jsonld=orjson.loads(text)).metadata
    assert metadata.ctx.issues.errors == set()
