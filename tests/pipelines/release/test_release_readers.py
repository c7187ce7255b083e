"""The programs with which people read releases, on one as it was built."""

import json
import subprocess
import sys

import pandas
import pytest
from kit import json_of, rows_of
from release_corpora import MEMORY

from parapet.schemas import layout

# In a process of its own: the library reads these settings once, when it is imported. It takes seconds: one for all.
WITH_DATASETS = """
import json, sys
from datasets import get_dataset_config_names, load_dataset
root = sys.argv[1]
found = {}
for config in [*get_dataset_config_names(root), "none"]:
    for how in ("whole", "streaming"):
        splits = load_dataset(root, *[config] * (config != "none"), streaming=how == "streaming")
        found |= {f"{config} {split} {how}": list(rows) for split, rows in splits.items()}
json.dump(found, sys.stdout, default=str)
"""


def run(program, cache, *arguments):
    """What a program prints, without a network: the rows of each thing that it was asked for."""
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(cache), "HOME": str(cache)}
    command = [sys.executable, "-W", "ignore", "-c", program, *arguments]
    told = subprocess.run(command, capture_output=True, text=True, env=offline, check=False)
    assert told.returncode == 0, told.stderr
    return json.loads(told.stdout)


@pytest.mark.thorough
def test_datasets_loads_every_configuration(suite_release, tmp_path):
    """What it loads is named "configuration split how", where "none" names none."""
    loaded = run(WITH_DATASETS, tmp_path, str(suite_release.root))
    configs = json_of(suite_release.root / "MANIFEST.json")["configs"]
    assert configs.keys() == {"schemas", "original", "v1", "typos", "paraphrases", "memory", "typos_turns"}
    rows = {f"{name} {split}": info["rows"] for name, one in configs.items() for split, info in one["splits"].items()}
    rows |= {f"none {split}": rows[f"original {split}"] for split in layout.SPLITS}
    expected = {f"{place} {how}": n for place, n in rows.items() for how in ("whole", "streaming")}
    assert {place: len(found) for place, found in loaded.items()} == expected
    assert all(loaded[f"{place} whole"] == loaded[f"{place} streaming"] for place in rows)
    assert loaded["memory full whole"] == sorted(MEMORY, key=lambda row: (row["source"], row["pivot"]))
    assert {row["variant"] for row in loaded["schemas dev whole"]} == {"original", "v1", "v2"}


def test_pandas(built):
    path = built.root / "data" / "original" / "train-00000-of-00001.parquet"
    frame, expected = pandas.read_parquet(path), rows_of(path)
    assert frame["dialogue_id"].tolist() == [dialogue["dialogue_id"] for dialogue in expected]
    assert [turn["utterance"] for turn in frame["turns"][0]] == [turn["utterance"] for turn in expected[0]["turns"]]
    memory = pandas.read_parquet(built.root / "data" / "memory")
    assert memory["text"].tolist() == [row["text"] for row in sorted(MEMORY, key=lambda r: (r["source"], r["pivot"]))]
