"""A release of SGD's train and dev with dialogues under SGD-X: built, compared, tampered with."""

import shutil
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from kit import TWO_PROCESSES, json_of, lacking, run

from parapet.pipelines.main import main
from parapet.schemas import layout
from parapet.schemas.dialogue_table import dialogue_file, schema_file

TOML = """
name = "sgd_slice"
version = "1.0.0"
licence = "CC-BY-SA-4.0"
title = "A slice of SGD under the schema variants of SGD-X"
description = "Dialogues of SGD's train and dev under the names of SGD-X."

[[authors]]
name = "Ada Example"

[[sources]]
title = "The Schema-Guided Dialogue Dataset"
url = "https://github.com/google-research-datasets/dstc8-schema-guided-dialogue"
licence = "CC-BY-SA-4.0"

[[corpora]]
path = "{sgd}"
name = "original"
kind = "original"

[[corpora]]
path = "dialogues"
kind = "variants"
"""


@pytest.fixture(scope="module")
def work(real_data, real_dialogues, tmp_path_factory):
    """``release.toml`` beside the rewritten dialogues, and the release in ``out``."""
    folder = tmp_path_factory.mktemp("sgd")
    variants = ["--variants", str(real_data / "sgd" / "sgd_x" / "data"), "--variant", "v1,v5"]  # two, for the time
    run("rewrite", "--sgd", str(real_dialogues), *variants, output=folder / "dialogues")
    (folder / "release.toml").write_text(TOML.format(sgd=real_dialogues))
    assert build(folder, "out") == 0
    return folder


def build(folder, out, *flags, toml="release.toml"):
    return main(["release", "build", "--config", str(folder / toml), "--output", str(folder / out), "--quiet", *flags])


def root(folder, out="out", version="1.0.0"):
    return folder / out / "sgd_slice" / version


@pytest.mark.thorough
def test_built_elsewhere_on_two_processes_it_is_the_same(work):
    assert build(work, "elsewhere", *TWO_PROCESSES) == 0
    assert (root(work, "elsewhere") / "SHA256SUMS").read_bytes() == (root(work) / "SHA256SUMS").read_bytes()


def test_it_verifies_and_its_rows_are_the_files(work):
    run("release", "verify", str(root(work)))
    for path in sorted((root(work) / "sgd").rglob("*.json")):
        corpus, split = path.parts[-3:-1]
        config = "schemas" if path.name == "schema.json" else corpus
        rows = [
            row
            for shard in sorted((root(work) / "data" / config).glob(f"{split}-*.parquet"))
            for row in pq.ParquetFile(shard).read().to_pylist()
        ]
        if config == "schemas":
            assert schema_file(row for row in rows if row["variant"] == corpus) == path.read_bytes()
        else:
            assert dialogue_file(row for row in rows if row["file"] == path.name) == path.read_bytes()


@pytest.mark.thorough
def test_a_changed_copy_is_another_version_and_the_difference_is_named(work):
    changed = work / "changed"
    shutil.copytree(work / "dialogues", changed / "dialogues")
    path = changed / "dialogues" / "v5" / "dev" / "dialogues_002.json"
    dialogues = json_of(path)
    dialogues[7]["turns"][0]["utterance"] += " Thanks!"
    gone = dialogues.pop()
    path.write_bytes(layout.dialogue_bytes(dialogues))
    shutil.copytree(work / "out", changed / "out")
    (changed / "release.toml").write_text((work / "release.toml").read_text().replace("1.0.0", "2.0.0"))
    assert build(changed, "out") == 0
    said = run("release", "diff", root(work), root(changed, version="2.0.0")).output
    assert dialogues[7]["dialogue_id"] in said
    assert not lacking(said, f"~ {dialogues[7]['dialogue_id']}: turns", gone["dialogue_id"], "major")


@pytest.mark.thorough
def test_datasets_loads_it(work, real_dialogues, tmp_path):
    program = "import sys, datasets; d = datasets.load_dataset(sys.argv[1], 'v5'); print({k: len(d[k]) for k in d})"
    offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path), "HOME": str(tmp_path)}
    command = [sys.executable, "-W", "ignore", "-c", program, str(root(work))]
    told = subprocess.run(command, capture_output=True, text=True, env=offline, check=True).stdout
    files = {split: layout.dialogue_files(real_dialogues, split) for split in ("train", "dev")}
    counts = {split: sum(len(json_of(path)) for path in of) for split, of in files.items()}
    assert told.strip() == str(counts)
    assert counts["dev"] == 3 * counts["train"] >= 96
