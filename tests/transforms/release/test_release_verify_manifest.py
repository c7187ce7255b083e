"""``verify``: a manifest that contradicts itself is found and named."""

import shutil

import pyarrow as pa
import pytest
import release_folder as folder
from release_folder import told


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    return folder.write_release(tmp_path_factory.mktemp("pristine"))


@pytest.fixture
def root(pristine, tmp_path):
    shutil.copytree(pristine.parent, tmp_path / "little")
    return tmp_path / "little" / "1.0.0"


def drop_file(path):
    def change(manifest):
        manifest.files = [file for file in manifest.files if file.path != path]

    return change


def set_split(**fields):
    def change(manifest):
        for field, value in fields.items():
            setattr(manifest.configs["numbers"].splits["full"], field, value)

    return change


def set_fields(**fields):
    def change(manifest):
        for field, value in fields.items():
            setattr(manifest, field, value)

    return change


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (set_fields(version="1.0.1"), "MANIFEST.json: version: is '1.0.1', but the folder is '1.0.0'"),
        (set_fields(name="big"), "MANIFEST.json: name: is 'big', but the folder is 'little'"),
        (drop_file("LICENSE"), "MANIFEST.json: LICENSE: is part of every release, and not in 'files'"),
        (
            drop_file("data/numbers/full-00000-of-00003.parquet"),
            "MANIFEST.json: configs.numbers.splits.full: 'data/numbers/full-00000-of-00003.parquet' is not in "
            "'files', or is no file of this split: data/numbers/full-…",
        ),
        (set_split(rows=11), "MANIFEST.json: configs.numbers.splits.full: has 11 rows, its files 10"),
        (
            set_split(files=["../x"]),
            "MANIFEST.json: configs.numbers.splits.full: '../x' is not in 'files', or is no file of this split: "
            "data/numbers/full-…",
        ),
        (
            lambda manifest: manifest.configs["numbers"].key.append("y"),
            "MANIFEST.json: configs.numbers: has the key a, b, y, and no such column",
        ),
        (
            lambda manifest: manifest.configs.pop("numbers"),
            "MANIFEST.json: data/numbers/full-00000-of-00003.parquet: is in 0 splits, not in one",
        ),
    ],
)
def test_a_manifest_agrees_with_itself(root, change, line):
    folder.edit_manifest(root, change)
    assert line in told(root)


@pytest.mark.parametrize("column", ["worker_hash", "WorkerId", "accept_time", "submit_time"])
def test_columns_that_tell_of_workers_are_found(tmp_path, column):
    columns = folder.NUMBERS.append(pa.field(column, pa.string()))
    nested = folder.NUMBERS.append(pa.field("who", pa.list_(pa.struct([(column, pa.string())]))))
    for i, schema in enumerate((columns, nested)):
        tables = {"numbers": ("row", ["a", "b"], schema, [{"a": 1, "b": "2"}])}
        root = folder.write_release(tmp_path / str(i), folder.sample_corpora(1), tables)
        assert f"MANIFEST.json: configs.numbers: '{column}' may identify a worker" in told(root)
