"""A corpus with one ``schema.json`` for all splits, as MultiWOZ 2.2 has it, goes through every command.

The results are those of the same corpus with the schema in each split.
"""

import re
import shutil

import pyarrow.parquet as pq
import pytest
from commands import inputs_of, lines, made, write_inputs
from kit import THOROUGH, json_of, run, write

from parapet.schemas.layout import SPLITS

LINES = lines("/place", "/place/out")
# These take seconds or need what a slow line makes; test_multiwoz_files.py has the others of `rewrite` and `evaluate`.
SLOW = {
    *("hits", "compose", "back_translate", "speech_errors", "suite"),
    *("train classifier", "predict classifier", "evaluate intent", "hits ratings"),
    *("evaluate variants", "language_variations rewritten", "ood", "ood source"),
}


def reads(name, corpus="/place/sgd"):
    """Whether a line reads the corpus, and nothing that a slow line makes."""
    paths = [path for _, _, path in inputs_of(LINES[name], "/place")]
    needed = {path.removeprefix("/place/out/").split("/")[0] for path in paths if path.startswith("/place/out/")}
    return corpus in paths and (THOROUGH or not ({name} | needed) & SLOW)


NAMES = [name for name in LINES if reads(name)] + ["release", "leaderboard"]


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """The inputs of the lines: with the schema in each split, and with one for all."""
    root = tmp_path_factory.mktemp("places")
    for name in ("each", "one"):
        write_inputs(root / name)
        paths = [root / name / "sgd" / split / "schema.json" for split in SPLITS]
        schema = list({service["service_name"]: service for path in paths for service in json_of(path)}.values())
        for path in paths:
            path.unlink()
        for path in paths if name == "each" else [root / name / "sgd/schema.json"]:
            write(path, schema)
        toml = root / name / "release.toml"
        toml.write_text(toml.read_text().replace('splits = ["test"]\n', ""))
    return root


def contents(folder, place):
    """The dialogues, rows, and numbers below a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.suffix == ".parquet" and "/schemas/" not in name:
            found[name] = pq.read_table(path).to_pylist()
        elif path.name.startswith(("dialogues_", "metrics", "dead_letters")) or path.suffix in (".csv", ".jsonl"):
            found[name] = path.read_text("utf-8").replace(str(place), "")
    return found


@pytest.mark.parametrize("name", NAMES)
def test_it_makes_what_a_schema_in_each_split_makes(name, places):
    each, one = (contents(made(places / kind, name), places / kind) for kind in ("each", "one"))
    assert one == each
    assert one or name in ("statistics", "hits names", "leaderboard", "augment", "few_shot")


def test_a_release_holds_all_its_dialogues_and_their_services(places, tmp_path):
    one = made(places / "one", "release") / "sample"
    assert run("release", "verify", one).output.endswith("0 findings\n")
    changes = run("release", "diff", made(places / "each", "release") / "sample", one, status=None).output
    assert "\noriginal/" not in changes
    assert re.search(r"schemas/test: 0 added, \d removed", changes)
    shutil.copytree(one, tmp_path / "sample")
    path = tmp_path / "sample/1.0.0/sgd/original/schema.json"
    write(path, [service for service in json_of(path) if service["service_name"] != "Gyms_1"])
    assert "no schema for service 'Gyms_1'" in run("release", "verify", tmp_path / "sample", status=1).output


@pytest.mark.parametrize(("path", "split"), [("test", "test"), ("test/schema.json", "test"), ("flat", "full")])
def test_a_folder_of_dialogues_is_one_split_of_a_release(path, split, places, tmp_path):
    root = shutil.copytree(places / "each/sgd", tmp_path / "sgd")
    shutil.copytree(root / "test", root / "flat")
    toml = (places / "each/release.toml").read_text().replace('"sgd"', f'"sgd/{path}"')
    write(tmp_path / "release.toml", toml)
    run("release", "build", config=tmp_path / "release.toml", output=tmp_path / "out")
    assert run("release", "verify", tmp_path / "out/sample").output.endswith("0 findings\n")
    version = tmp_path / "out/sample/1.0.0"
    rows = pq.read_table(version / f"data/original/{split}-00000-of-00001.parquet").to_pylist()
    assert len(rows) == len(json_of(root / "test/dialogues_001.json"))
    copy = version / "sgd/original/dialogues_001.json"
    assert copy.read_bytes() == (root / "test/dialogues_001.json").read_bytes()


def test_a_split_of_a_release_needs_a_schema(places, tmp_path):
    root = shutil.copytree(places / "each/sgd", tmp_path / "sgd")
    (root / "dev/schema.json").unlink()
    shutil.copy(places / "each/release.toml", tmp_path)
    result = run("release", "build", config=tmp_path / "release.toml", output=tmp_path / "out", status=2)
    assert "sgd/dev: contains dialogues, but no schema.json" in result.errors
