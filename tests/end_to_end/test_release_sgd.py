"""A release of SGD's train and dev with dialogues under SGD-X has the files that it was built of."""

import pyarrow.parquet as pq
import pytest
from kit import THOROUGH, run
from release_folder import dialogue_file, schema_file

TOML = """
name = "sgd_slice"
version = "1.0.0"
licence = "CC-BY-SA-4.0"
description = "Dialogues of SGD's train and dev under the names of SGD-X."

[[authors]]
name = "Ada Example"

[[corpora]]
path = "{sgd}"
name = "original"
kind = "original"

[[corpora]]
path = "dialogues"
kind = "variants"
"""


@pytest.fixture(scope="module")
def release(real_data, real_dialogues, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sgd")
    some = "v1,v5" if THOROUGH else "v5"
    variants = ["--variants", str(real_data / "sgd" / "sgd_x" / "data"), "--variant", some]
    run("rewrite", "--sgd", str(real_dialogues), *variants, output=folder / "dialogues")
    (folder / "release.toml").write_text(TOML.format(sgd=real_dialogues))
    run("release", "build", config=folder / "release.toml", output=folder / "out")
    return folder / "out/sgd_slice/1.0.0"


def test_it_verifies_and_its_rows_are_the_files(release):
    run("release", "verify", str(release))
    for path in sorted((release / "sgd").rglob("*.json")):
        corpus, split = path.parts[-3:-1]
        config = "schemas" if path.name == "schema.json" else corpus
        rows = [
            row
            for shard in sorted((release / "data" / config).glob(f"{split}-*.parquet"))
            for row in pq.ParquetFile(shard).read().to_pylist()
        ]
        if config == "schemas":
            assert schema_file(row for row in rows if row["variant"] == corpus) == path.read_bytes()
        else:
            assert dialogue_file(row for row in rows if row["file"] == path.name) == path.read_bytes()
