"""``verify``: each way of damaging a release, and a manifest that contradicts itself, is found and named."""

import shutil

import pyarrow as pa
import pytest
import release_folder as folder
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import THOROUGH, cases, lacking, write
from release_folder import told

from parapet.transforms.release.verify import MOST, Finding, Findings

TRAIN = "sgd/original/train/dialogues_001.json"


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    return folder.write_release(tmp_path_factory.mktemp("pristine"))


@pytest.fixture
def root(pristine, tmp_path):
    shutil.copytree(pristine.parent, tmp_path / "little")
    return tmp_path / "little" / "1.0.0"


def shard_with(root, dialogue_id):
    """The file of the original's train with this dialogue."""
    paths = sorted((root / "data/original").glob("train-*.parquet"))
    return next(path for path in paths if dialogue_id in [row["dialogue_id"] for row in folder.rows_in(path)])


def name(root, path):
    return path.relative_to(root).as_posix()


# What is whole.


@cases(
    "damage lines",
    (lambda root: write(root / "SHA256SUMS.sig", b"a signature"), []),
    (lambda root: (root / "MANIFEST.json").unlink(), ["MANIFEST.json: is missing"]),
    (lambda root: folder.mend(write(root / "notes.txt", b"x").parent), ["notes.txt: is not listed in MANIFEST.json"]),
)
def test_files_that_lack_or_lie_there_too(root, damage, lines):
    damage(root)
    assert told(root) == lines


# Rows.


def reworded(rows):
    return [{**rows[0], "turns": [{**rows[0]["turns"][0], "utterance": "Hi."}, *rows[0]["turns"][1:]]}, *rows[1:]]


def test_rows_whose_hash_is_not_that_of_the_manifest_are_found(root):
    """Someone replaced rows, and mended all checksums but the hashes of rows."""
    path = shard_with(root, "1_00000")
    before = folder.manifest_of(root)
    folder.edit_rows(path, reworded)
    folder.mend_all(root)

    def keep(manifest):
        old = {file.path: file.logical_sha256 for file in before.files}
        for file in manifest.files:
            file.logical_sha256 = old[file.path]
        for config, info in manifest.configs.items():
            info.splits = before.configs[config].splits

    folder.edit_manifest(root, keep)
    (line,) = told(root)
    assert line.startswith(f"{name(root, path)}: its rows have the SHA-256 ")


# Bytes.


@pytest.fixture(scope="module")
def little(tmp_path_factory):
    return folder.write_release(tmp_path_factory.mktemp("flips"), folder.sample_corpora(1))


@settings(max_examples=20 if THOROUGH else 8)
@given(data=st.data())
def test_any_flipped_byte_is_found(little, data):
    path = data.draw(st.sampled_from(sorted(path for path in little.rglob("*") if path.is_file())))
    before = path.read_bytes()
    place = data.draw(st.integers(0, len(before) - 1))
    byte = data.draw(st.integers(1, 255))
    try:
        path.write_bytes(before[:place] + bytes([before[place] ^ byte]) + before[place + 1 :])
        assert told(little)
    finally:
        path.write_bytes(before)


def test_a_missing_shard_is_found_and_no_row_of_it_is_blamed(root):
    gone = shard_with(root, "1_00000")
    gone.unlink()
    assert told(root) == [f"{name(root, gone)}: is missing"]


def test_links_are_not_followed(root, tmp_path):
    (tmp_path / "elsewhere").write_bytes((root / "LICENSE").read_bytes())
    (root / "LICENSE").unlink()
    (root / "LICENSE").symlink_to(tmp_path / "elsewhere")
    assert "LICENSE: is a link: a release must contain its files itself" in told(root)


def test_checksums_have_one_form(root):
    sums = root / "SHA256SUMS"
    sums.write_text(sums.read_text().upper())
    assert any(line.startswith("SHA256SUMS: line 1: is not a SHA-256 in lower case") for line in told(root))


def test_without_checksums_the_manifest_still_speaks(root):
    (root / "SHA256SUMS").unlink()
    (root / "LICENSE").write_text("mine")
    (root / "extra").write_text("x")
    lines = told(root)
    assert not lacking(lines, "SHA256SUMS: is missing", "extra: is not listed in MANIFEST.json")
    assert any(line.startswith("LICENSE: its SHA-256 is") for line in lines)


# Rows.


def test_what_is_no_parquet_is_said_and_the_rest_goes_on(root):
    first = write(root / FIRST, b"PAR1 nothing PAR1")
    path = shard_with(root, "1_00000")
    folder.edit_rows(path, lambda rows: rows[1:])
    lines = told(root)
    assert any(line.startswith(f"{name(root, first)}: cannot be read as Parquet: ") for line in lines)
    assert any(line.startswith(f"{name(root, path)}: its rows have the SHA-256 ") for line in lines)


@cases("data", b"", b"{}", b"[1]", b'[{"dialogue_id": 3}]', b"[" * 2000, b"\xff")
def test_json_that_is_none_is_said(root, data):
    (root / TRAIN).write_bytes(data)
    folder.mend_all(root)
    assert [line.partition(": ")[0] for line in told(root)] == [TRAIN]


# What the records say.


def test_a_slot_that_no_schema_has_is_found(tmp_path):
    corpora = folder.sample_corpora()
    dialogue = corpora["original"]["test"]["dialogues_001.json"][0]
    dialogue["turns"][0]["frames"][0]["actions"][0]["slot"] = "nowhere"
    lines = [line for line in told(folder.write_release(tmp_path, corpora)) if "actions[0]" in line]
    reason = "turns[0].frames[0].actions[0].slot: the service has no slot 'nowhere'"
    assert lines == [f"sgd/original/test/dialogues_001.json: dialogue 1_00000: {reason}"]


def test_a_service_that_breaks_a_rule_is_found(tmp_path):
    corpora = folder.sample_corpora()
    corpora["original"]["test"]["schema.json"][0]["intents"][0]["required_slots"] = ["nowhere"]
    (line,) = told(folder.write_release(tmp_path, corpora))
    assert line.startswith("sgd/original/test/schema.json: [0].intents[0].required_slots: service 'Ferries_1': intent")
    assert "'nowhere'" in line


FULL = "configs.numbers.splits.full"
FIRST = "data/numbers/full-00000-of-00003.parquet"


def without(path):
    return lambda manifest: manifest.files.remove(next(file for file in manifest.files if file.path == path))


@cases(
    "change line",
    (lambda manifest: manifest.counts["services"].pop("noisy"), "counts.services.noisy.test: is 0, but should be 4"),
    (lambda manifest: manifest.counts["turns"].update(v9={"train": 1}), "counts.turns.v9.train: is 1, but should be 0"),
    (lambda manifest: manifest.dispositions.update(used=6), "dispositions.used: is 6, but should be 7"),
    (lambda manifest: manifest.rejections.clear(), "rejections.echo: is 0, but should be 1"),
    (without("LICENSE"), "LICENSE: is part of every release, but is not in 'files'"),
    (without(FIRST), f"{FULL}: '{FIRST}' is not in 'files'"),
    (lambda manifest: setattr(manifest.configs["numbers"].splits["full"], "rows", 11),
     f"{FULL}: has 11 rows, but its files have 10"),
)  # fmt: skip
def test_a_manifest_with_wrong_counts_or_that_contradicts_itself(root, change, line):
    folder.edit_manifest(root, change)
    assert f"MANIFEST.json: {line}" in told(root)


# What is damaged beyond.


def test_many_findings_of_a_kind_are_counted():
    found = Findings()
    for i in range(MOST + 3):
        found.add("order", "b", f"row {i}", "wrong")
    found.add("order", "a", "", "wrong")
    listed = found.listed()
    assert (listed[0], len(listed)) == (Finding("order", "a", "", "wrong"), MOST + 2)
    assert str(listed[-1]) == "b: and 3 more of this kind"


@cases("column", "worker_hash", "WorkerId", "accept_time", "submit_time")
def test_columns_that_tell_of_workers_are_found(tmp_path, column):
    columns = folder.NUMBERS.append(pa.field(column, pa.string()))
    nested = folder.NUMBERS.append(pa.field("who", pa.list_(pa.struct([(column, pa.string())]))))
    for i, schema in enumerate((columns, nested)):
        tables = {"numbers": ("row", ["a", "b"], schema, [{"a": 1, "b": "2"}])}
        root = folder.write_release(tmp_path / str(i), folder.sample_corpora(1), tables)
        assert f"MANIFEST.json: configs.numbers: '{column}' may identify a worker" in told(root)


@cases("keep", 0, 1, 1000, -2)
def test_a_truncated_manifest_is_named_and_the_files_are_still_checked(root, keep):
    (root / "MANIFEST.json").write_bytes((root / "MANIFEST.json").read_bytes()[:keep])
    (root / "LICENSE").write_bytes(b"mine")
    lines = told(root)
    assert any(line.startswith("MANIFEST.json: its SHA-256 is") for line in lines)
    assert any(line.startswith("MANIFEST.json: ") and "SHA-256" not in line for line in lines)
    assert any(line.startswith("LICENSE: its SHA-256 is") for line in lines)
