"""``verify``: a manifest that contradicts itself, and documents that contradict the manifest, are found and named."""

import shutil

import pyarrow as pa
import pytest
import release_folder as folder
from release_folder import told

from parapet.schemas.release_manifest import Changes, Parent, Source


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
        (set_fields(version="one"), "MANIFEST.json: version: 'one' is not MAJOR.MINOR.PATCH"),
        (set_fields(name="big"), "MANIFEST.json: name: is 'big', but the folder is 'little'"),
        (drop_file("LICENSE"), "MANIFEST.json: LICENSE: is part of every release, and not in 'files'"),
        (
            drop_file("data/numbers/full-00000-of-00003.parquet"),
            "MANIFEST.json: configs.numbers.splits.full: 'data/numbers/full-00000-of-00003.parquet' is not in 'files'",
        ),
        (set_split(rows=11), "MANIFEST.json: configs.numbers.splits.full: has 11 rows, its files 10"),
        (
            set_split(logical_sha256="0"),
            "MANIFEST.json: configs.numbers.splits.full: its logical_sha256 is not that of its files",
        ),
        (
            set_split(files=["../x"]),
            "MANIFEST.json: configs.numbers.splits.full: '../x' is no file of this split: data/numbers/full-…",
        ),
        (
            lambda manifest: manifest.configs["numbers"].key.append("y"),
            "MANIFEST.json: configs.numbers: has the key 'y', and no such column",
        ),
        (
            lambda manifest: manifest.configs.pop("numbers"),
            "MANIFEST.json: data/numbers/full-00000-of-00003.parquet: is in 0 splits, not in one",
        ),
        (
            set_fields(parent=Parent("0.9.0", "")),
            "MANIFEST.json: changes: a release has a parent and changes, or neither",
        ),
        (
            set_fields(parent=Parent("0.9.9", ""), changes=Changes("patch", [])),
            "",
        ),
        (
            set_fields(parent=Parent("1.2.0", ""), changes=Changes("patch", [])),
            "MANIFEST.json: version: version 1.0.0 does not come after 1.2.0",
        ),
        (set_fields(licence="MIT"), "README.md: license: is 'cc-by-sa-4.0', MIT in the manifest"),
        (set_fields(licence="MIT"), f'croissant.json: license: is "{folder.LICENCE_URL}", MIT in the manifest'),
        (set_fields(licence="MIT"), "CITATION.cff: license: is 'CC-BY-SA-4.0', MIT in the manifest"),
        (set_fields(licence="MIT"), "LICENSE: does not name MIT, the licence of the manifest"),
    ],
)
def test_a_manifest_agrees_with_itself_and_the_documents(root, change, line):
    folder.edit_manifest(root, change)
    assert line in told(root) if line else told(root) == []


def test_a_source_that_asks_for_the_same_licence_gets_it(root):
    source = Source("A corpus", "https://example.org", "CC-BY-NC-SA-4.0")
    folder.edit_manifest(root, lambda manifest: manifest.sources.append(source))
    more, line = sorted(told(root), reverse=True)
    assert more.startswith("MANIFEST.json: sources[1]: is {")
    assert line.startswith("MANIFEST.json: licence: 'A corpus' is under CC-BY-NC-SA-4.0")


@pytest.mark.parametrize("column", ["worker_hash", "WorkerId", "accept_time", "submit_time"])
def test_columns_that_tell_of_workers_are_found(tmp_path, column):
    columns = folder.NUMBERS.append(pa.field(column, pa.string()))
    nested = folder.NUMBERS.append(pa.field("who", pa.list_(pa.struct([(column, pa.string())]))))
    for i, schema in enumerate((columns, nested)):
        tables = {"numbers": ("row", ["a", "b"], schema, [{"a": 1, "b": "2"}])}
        root = folder.write_release(tmp_path / str(i), folder.sample_corpora(1), tables)
        assert f"MANIFEST.json: configs.numbers: '{column}' may identify a worker" in told(root)


@pytest.mark.parametrize(
    ("path", "old", "new", "line"),
    [
        ("README.md", "---\n", "--\n", "README.md: has no front matter between two lines of ---"),
        ("README.md", "num_examples: 10", "num_examples: 9", "num_examples is 9, 10 in the manifest"),
        (
            "README.md",
            "- config_name: numbers",
            "- config_name: letters",
            "README.md: configs.letters: has the splits full",
        ),
        ("README.md", "license: ", "licence: ", "README.md: license: is None, CC-BY-SA-4.0 in the manifest"),
        ("README.md", "configs:", "configs: 7\nrest:", "README.md: configs: is no list of configurations"),
        ("README.md", "configs:", "configs: [", "README.md: cannot be read: "),
        ("croissant.json", "by-sa", "by-nc", "croissant.json: license: is "),
        ("croissant.json", '"1.0.0"', '"1.0.1"', "croissant.json: version: is '1.0.1', '1.0.0' by the manifest"),
        ("croissant.json", '"sha256": "', '"sha256": "0', "has another sha256 than the manifest"),
        ("croissant.json", "{", "[", "croissant.json: line 2 column "),
        ("CITATION.cff", "CC-BY-SA-4.0", "CC-BY-4.0", "CITATION.cff: license: is 'CC-BY-4.0'"),
        ("CITATION.cff", "license: ", "licence: ", "CITATION.cff: license: is None"),
        ("CITATION.cff", "version: 1.0.0", "version: 2.0", "CITATION.cff: version: is 2.0, '1.0.0' by the manifest"),
        ("CITATION.cff", "cff-version", "[", "CITATION.cff: cannot be read: "),
        ("CITATION.cff", "Ada", "Eve", "CITATION.cff: authors[0].given-names: is 'Eve', 'Ada' by the manifest"),
        ("croissant.json", "Ada", "Eve", "croissant.json: creator[0].name: is 'Eve Example', 'Ada Example' by the"),
        ("croissant.json", '"creator"', '"maker"', "croissant.json: creator: is null, "),
        ("README.md", "A little set", "A big set", "README.md: pretty_name: is 'A big set', 'A little set' by the"),
    ],
)
def test_documents_say_what_the_manifest_says(root, path, old, new, line):
    text = (root / path).read_text()
    assert old in text
    (root / path).write_text(text.replace(old, new))
    folder.mend_all(root, croissant=False)
    assert any(line in one for one in told(root))


def test_sizes_are_those_of_the_manifest(root):
    size = (root / "LICENSE").stat().st_size

    def change(manifest):
        next(file for file in manifest.files if file.path == "LICENSE").bytes = 1

    folder.edit_manifest(root, change)
    assert told(root) == [f"LICENSE: has {size} bytes, 1 in MANIFEST.json"]
