"""``parapet augment`` as a person runs it."""

import copy
import json
import shutil

import kit
import pyarrow.parquet as pq
import pytest
from kit import cases, dialogues_of, edit, files_of, json_of, rows_of, write
from test_language_variations import some_of_sgd

from benchmarks.rewrite_reference import names_of, rename
from parapet.schemas import layout
from parapet.schemas.dialogue import problems_of, read_dialogues
from parapet.schemas.rows import dialogue_of
from parapet.transforms.variants.matching import compose_variant

ALL = "none,backtrans,oracle,corrupted,backtrans+oracle"
VERSIONS = {"none": [], "backtrans": ["ja", "zh"], "oracle": ["v1", "v2"], "corrupted": ["replace", "order", "both"]}
VERSIONS["backtrans+oracle"] = [*VERSIONS["backtrans"], *VERSIONS["oracle"]]


def variant_of(raw, label):
    """Every slot has its neighbour's name, or a new one."""
    slots, intents = ([element["name"] for element in raw[key]] for key in ("slots", "intents"))
    slots = slots[1:] + slots[:1] if label in ("v1", "ja") else [f"{label}_{name}" for name in slots]
    names = {f"slot_{i}": name for i, name in enumerate(slots)}
    names |= {f"intent_{i}": f"Do{name}{label.title()}" for i, name in enumerate(intents)}
    return compose_variant(raw, label.removeprefix("v"), names, dict.fromkeys((*names, "service"), "Ünlike"))


def make_corpus(folder, sample):
    shutil.copytree(sample, folder / "sgd")
    for path in (folder / "sgd").glob("*/dialogues_*.json"):
        write(path, layout.dialogue_bytes(json_of(path)[:6]))
    for split in layout.read_root(sample):
        for place in ("oracle/v1", "oracle/v2", "backtrans/zh", "backtrans/ja"):
            schema = layout.schema_bytes([variant_of(raw, place[-2:]) for raw in split.raw])
            write(folder / place / split.relative_path, schema)
    return folder


@pytest.fixture
def corpus(tmp_path, sample):
    """Six dialogues of each file of the sample, with two variants of each kind."""
    return make_corpus(tmp_path, sample)


@pytest.fixture(scope="module")
def made(tmp_path_factory, sample):
    """All sets; tests only read them."""
    corpus = make_corpus(tmp_path_factory.mktemp("augment"), sample)
    run(corpus, "--quiet")
    return corpus


def run(corpus, *flags, sets=ALL, status=0):
    places = [f"--{kind}={corpus / kind}" for kind in ("backtrans", "oracle") if kind in sets]
    return kit.run("augment", *places, *flags, sgd=corpus / "sgd", sets=sets, output=corpus / "out", status=status)


def reference(corpus, corruptions, output, sets=ALL, split="train"):
    """The same in plain loops: everything in memory, a deep copy a version."""
    folders = {"backtrans": corpus / "backtrans", "oracle": corpus / "oracle", "corrupted": corruptions}
    schema = json_of(corpus / "sgd" / split / "schema.json")
    for name in sets.split(","):
        places = [folders[kind] for kind in name.split("+") if kind != "none"]
        paths = [(label, place / label) for place in places for label in VERSIONS[name] if (place / label).exists()]
        schemas = [(label, json_of(path / split / "schema.json")) for label, path in paths]
        folder = output / name / split
        services = [*schema, *(service for _, variant in schemas for service in variant)]
        write(folder / "schema.json", json.dumps(services, indent=2) + "\n")
        for path in (corpus / "sgd" / split).glob("dialogues_*.json"):
            dialogues = []
            for dialogue in json_of(path):
                dialogues.append(dialogue)
                for label, variant in schemas:
                    version = copy.deepcopy(dialogue)
                    rename(version, names_of({split: schema}, {split: variant}))
                    version["dialogue_id"] += f"_{label}"
                    dialogues.append(version)
            (folder / path.name).write_text(json.dumps(dialogues, indent=2, sort_keys=True) + "\n")


def test_the_same_as_a_plain_reference(made, tmp_path):
    reference(made, made / "out/corruptions", tmp_path)
    found = files_of(made / "out")
    sets = {name for name in found if "/train/" in name and "corruptions/" not in name and ".parquet" not in name}
    assert {name: found[name] for name in sets} == files_of(tmp_path)
    schemas = {f"corruptions/{of}/{split}/schema.json" for of in VERSIONS["corrupted"] for split in layout.SPLITS}
    assert schemas <= found.keys()
    assert found["dead_letters.jsonl"] == b""


def test_some_variants_another_split_and_a_split_alone(corpus):
    run(corpus, "--variant", "v2,zh", "--split", "dev", "--quiet", sets="backtrans+oracle")
    assert json_of(corpus / "out/run.json")["options"]["sets"]["backtrans+oracle"] == ["original", "zh", "v2"]
    assert (corpus / "out/backtrans+oracle/dev/dialogues_001.json").exists()
    assert (corpus / "out/backtrans+oracle/parquet/dev/dialogues_001.parquet").exists()
    kit.run("augment", sgd=corpus / "sgd/dev", split="dev", sets="none", quiet=True, output=corpus / "alone")
    original = (corpus / "sgd/dev/dialogues_001.json").read_bytes()
    assert (corpus / "alone/none/dev/dialogues_001.json").read_bytes() == original


def test_mismatches_are_told_and_lose_nothing(corpus):
    edit(corpus / "oracle/v2/train/schema.json", lambda schema: schema[:-1])
    edit(corpus / "sgd/train/dialogues_001.json", lambda dialogues: dialogues[2].__delitem__("turns"))
    edit(corpus / "oracle/v1/test/schema.json", lambda schema: schema[:-1])  # of another split: no matter
    told = run(corpus, sets="oracle", status=1).errors.splitlines()
    assert told[0].endswith("v2: train/schema.json: service 'Museums_1': the variant has no service 'Museums_12'")
    each = "1 of 12 dialogues of original, 1 of 12 dialogues of v1 and 4 of 12 dialogues of v2"
    assert told[1].startswith(f"error: {each} could not be augmented, more than --max_bad 1% allows, so nothing was")
    run(corpus, "--quiet", "--max_bad", "100%", sets="none,oracle")
    letters = rows_of(corpus / "out" / "dead_letters.jsonl")
    broken = [letter for letter in letters if letter["reason"].startswith("not_sgd")]
    assert [letter["variant"] for letter in broken] == ["original", "v1", "v2"]
    gone = {letter["dialogue_id"] for letter in letters if letter["reason"].startswith("bad_service: 'Museums_1'")}
    assert len(gone) == len(letters) - 3 > 0
    written = dialogues_of(corpus / "out/oracle/train")
    assert len(written) == 11 * 3 - len(gone)
    assert not {f"{name}_v2" for name in gone} & written.keys()
    counts = json_of(corpus / "out/run.json")["counts"]
    assert counts["left_out/v2"] == len(gone) + 1
    assert counts["dialogues/oracle"] == counts["rows/oracle"] == len(written)
    services = [s["service_name"] for s in json_of(corpus / "out/oracle/train/schema.json")]
    assert "Museums_11" in services
    assert "Museums_12" not in services


def test_unusual_files_come_through(corpus):
    def change(dialogues):
        dialogues[0]["turns"][0]["utterance"] = "Ünlike \u2028 \x7f 😀"
        dialogues[0]["mine"] = {"n": [1, None]}

    edit(corpus / "sgd/train/dialogues_001.json", change)
    (corpus / "sgd/train/dialogues_003.json").write_text("[]")
    run(corpus, "--quiet", sets="oracle")
    reference(corpus, corpus / "out/corruptions", corpus / "reference", "oracle")
    found, expected = files_of(corpus / "out"), files_of(corpus / "reference")
    assert {name: found[name] for name in expected} == expected
    rows = pq.read_table(corpus / "out/oracle/parquet/train").to_pylist()
    first = json.loads(expected["oracle/train/dialogues_001.json"])[:3]
    assert [dialogue_of(row) for row in rows if row["source_json"]] == first


VARIED = ["--oracle", "{corpus}/oracle", "--variant", "v1"]


@cases(
    "flags said",
    (["--sets", "oracle+corrupted"], "--sets: the set 'oracle+corrupted' requires --oracle DIR"),
    ([*VARIED[:3], "v1,v7"], "--variant: there is no variant 'v7' (found: v1, v2)"),
    ([*VARIED, "--backtrans", "{corpus}/backtrans"], "backtrans: --variant: must name at least one of ja, zh"),
    (["--order_rate", "much"], "argument --order_rate: 'much' is not a number"),
    (["--sets", ","], "argument --sets: must be one or more values"),
    (["--split", "all"], "contains no dialogues of 'all'"),
)
def test_mistakes_on_the_command_line(flags, said, made):
    before = files_of(made)
    given = [flag.format(corpus=made) for flag in flags]
    assert said in kit.run("augment", "--sgd", made / "sgd", "--output", made / "none", *given, status=2).errors
    assert files_of(made) == before


def test_variants_of_one_name_cannot_be_told_apart(corpus):
    (corpus / "backtrans/zh").rename(corpus / "backtrans/v1")
    assert "two variants are called 'v1': rename a folder, or leave one out" in run(corpus, "--quiet", status=2).errors
    (corpus / "backtrans/v1").rename(corpus / "backtrans/again")
    shutil.copytree(corpus / "oracle/v1", corpus / "backtrans/copy")
    said = "set 'backtrans+oracle': --sets: service 'Ferries_11' is in copy and in v1: they cannot be in one set"
    assert said in run(corpus, "--quiet", status=2).errors


def test_the_published_variants(real_data, tmp_path):
    """Dialogues under all schemas of SGD-X, their references checked."""
    sgd = some_of_sgd(real_data, tmp_path / "sgd")
    kit.run("augment", "--quiet", sets="oracle", sgd=sgd, oracle=real_data / "sgd/sgd_x/data", output=tmp_path / "out")
    root = tmp_path / "out/oracle"
    services = layout.services_by_name(layout.read_root(root))
    for path in layout.dialogue_files(root, "train"):
        assert not [one for dialogue in read_dialogues(path) for one in problems_of(dialogue, services)]
    counts = json_of(tmp_path / "out/run.json")["counts"]
    assert counts["dialogues/oracle"] == counts["rows/oracle"] == 6 * counts["dialogues"] > 0
