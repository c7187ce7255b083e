"""``parapet augment`` as a person runs it."""

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from kit import files_of

from benchmarks.rewrite_reference import names_of, rename
from parapet.pipelines import augment
from parapet.pipelines.main import main
from parapet.schemas import layout
from parapet.schemas.dialogue import problems_of, read_dialogues
from parapet.schemas.dialogue_table import dialogue_of
from parapet.transforms.variants.matching import compose_variant

ALL = "none,backtrans,oracle,corrupted,backtrans+oracle"
VERSIONS = {
    "none": [],
    "backtrans": ["ja", "zh"],
    "oracle": ["v1", "v2"],
    "corrupted": ["replace", "order", "both"],
    "backtrans+oracle": ["ja", "zh", "v1", "v2"],
}


def variant_of(raw: dict[str, Any], label: str) -> dict[str, Any]:
    """Every slot has its neighbour's name, or a new one."""
    slots, intents = ([element["name"] for element in raw[key]] for key in ("slots", "intents"))
    slots = slots[1:] + slots[:1] if label in ("v1", "ja") else [f"{label}_{name}" for name in slots]
    names = {f"slot_{i}": name for i, name in enumerate(slots)}
    names |= {f"intent_{i}": f"Do{name}{label.title()}" for i, name in enumerate(intents)}
    suffix = label.removeprefix("v")
    return compose_variant(raw, suffix, names, dict.fromkeys((*names, "service"), "Ünlike"))


def make_corpus(folder: Path, sample: Path) -> Path:
    shutil.copytree(sample, folder / "sgd")
    for split in layout.read_root(sample):
        for place in ("oracle/v1", "oracle/v2", "backtrans/zh", "backtrans/ja"):
            path = folder / place / split.relative_path
            path.parent.mkdir(parents=True)
            path.write_bytes(layout.schema_bytes([variant_of(raw, path.parts[-3]) for raw in split.raw]))
    return folder


@pytest.fixture
def corpus(tmp_path, sample):
    """The sample, with two variants of each kind."""
    return make_corpus(tmp_path, sample)


@pytest.fixture(scope="module")
def made(tmp_path_factory, sample):
    """All sets; tests only read them."""
    corpus = make_corpus(tmp_path_factory.mktemp("augment"), sample)
    assert run(corpus, "--quiet") == 0
    return corpus


def run(corpus: Path, *flags: str, sets: str = ALL, out: str = "out") -> int:
    places = [f"--{kind}={corpus / kind}" for kind in ("backtrans", "oracle") if kind in sets]
    return augment.run(["--sgd", str(corpus / "sgd"), "--sets", sets, *places, "--output", str(corpus / out), *flags])


def edit(path: Path, change: Callable[[Any], object]) -> None:
    what = json.loads(path.read_bytes())
    change(what)
    path.write_text(json.dumps(what))


def letters_of(out: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in (out / "dead_letters.jsonl").read_text().splitlines()]


def reference(corpus: Path, corruptions: Path, output: Path, sets: str = ALL, split: str = "train") -> None:
    """The same in plain loops: everything in memory, a deep copy a version."""
    folders = {"backtrans": corpus / "backtrans", "oracle": corpus / "oracle", "corrupted": corruptions}
    schema = json.loads((corpus / "sgd" / split / "schema.json").read_bytes())
    for name in sets.split(","):
        places = [] if name == "none" else [folders[kind] for kind in name.split("+")]
        schemas = [
            (label, json.loads((place / label / split / "schema.json").read_bytes()))
            for place in places
            for label in VERSIONS[name]
            if (place / label).exists()
        ]
        folder = output / name / split
        folder.mkdir(parents=True)
        services = [*schema, *(service for _, variant in schemas for service in variant)]
        (folder / "schema.json").write_text(json.dumps(services, indent=2) + "\n")
        for path in (corpus / "sgd" / split).glob("dialogues_*.json"):
            dialogues = []
            for dialogue in json.loads(path.read_bytes()):
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
    expected = files_of(tmp_path)
    assert {name: data for name, data in found.items() if "/train/" in name and "corruptions/" not in name} == expected
    others = {name for name in found if name not in expected and not name.endswith(".parquet")}
    schemas = {f"corruptions/{of}/{split}/schema.json" for of in VERSIONS["corrupted"] for split in layout.SPLITS}
    assert others == schemas | {
        *("run.json", "mapping.json", "dead_letters.jsonl", "statistics.json", "README.md", "report.html"),
        *("corruptions/mapping.json", "corruptions/changes.jsonl"),
    }
    assert found["dead_letters.jsonl"] == b""


def test_counts_balance_and_every_file_is_in_the_manifest(made):
    manifest = json.loads((made / "out/run.json").read_bytes())
    assert set(manifest["files"]) == set(files_of(made / "out")) - {"run.json"}
    counts = manifest["counts"]
    statistics = json.loads((made / "out/statistics.json").read_bytes())
    assert counts["dialogues"] == statistics["dialogues"] == 24
    assert list(statistics["versions"].values()) == [{"dialogues": 24, "left_out": 0}] * 8
    for name, versions in VERSIONS.items():
        assert counts[f"dialogues/{name}"] == counts[f"rows/{name}"] == 24 * (1 + len(versions))
        assert manifest["options"]["sets"][name] == ["original", *versions]
    assert manifest["options"]["replace_rate"] == 0.2
    for page in ("report.html", "README.md"):
        text = (made / "out" / page).read_text()
        assert "A word is replaced with probability 0.2; a share of 0.3 of the words changes places." in text
    changes = [json.loads(line) for line in (made / "out/corruptions/changes.jsonl").read_text().splitlines()]
    for of in VERSIONS["corrupted"]:
        changed = [c for c in changes if c["corruption"] == of and c["field"] == "name" and not c["reason"]]
        assert statistics["corruptions"][of]["names"]["changed"] == len(changed) > 0
        assert all(change["emitted"] != change["original"] for change in changed)


@pytest.mark.parametrize("name", ALL.split(","))
def test_references_hold_ids_are_unique_and_rows_are_the_json(name, made):
    root = made / "out" / name
    services = layout.services_by_name(layout.read_root(root))
    ids, by_file = [], {}
    for path in layout.dialogue_files(root, "train"):
        dialogues = read_dialogues(path)
        assert [list(problems_of(dialogue, services)) for dialogue in dialogues] == [[]] * len(dialogues)
        ids += [dialogue.dialogue_id for dialogue in dialogues]
        by_file[path.name] = json.loads(path.read_bytes())
    assert len(ids) == len(set(ids)) == 24 * (1 + len(VERSIONS[name]))
    (path,) = (root / "parquet").iterdir()
    assert path.name == "train-00000-of-00001.parquet"
    rows = pq.read_table(path).to_pylist()
    keys = [(row["source_dialogue_id"], row["dialogue_id"]) for row in rows]
    assert keys == sorted(keys)
    assert {key[1] for key in keys} == set(ids)
    for row in rows:
        assert dialogue_of(row) == by_file[row["file"]][row["position"]]
        suffix = "" if row["variant"] == "original" else f"_{row['variant']}"
        assert row["dialogue_id"] == row["source_dialogue_id"] + suffix
        assert (row["layout"], row["source_json"]) == ("published", None)


def test_corruptions_are_variants_for_the_other_pipelines(made, tmp_path):
    places = ["--sgd", str(made / "sgd"), "--variants", str(made / "out/corruptions")]
    assert main(["rewrite", *places, "--output", str(tmp_path / "rewritten"), "--quiet"]) == 0
    assert main(["statistics", *places, "--output", str(tmp_path / "statistics"), "--quiet"]) == 0
    mine = json.loads((made / "out/corrupted/train/dialogues_001.json").read_bytes())
    theirs = json.loads((tmp_path / "rewritten/order/train/dialogues_001.json").read_bytes())
    kept = [{**d, "dialogue_id": d["dialogue_id"][:-6]} for d in mine if d["dialogue_id"].endswith("_order")]
    assert kept == theirs


def test_no_test_word_comes_into_training(made):
    """Words that replace others are train's, also in the corrupted test schemas."""
    from parapet.transforms.reports.text import Conventions, name_words
    from parapet.transforms.splits.augment.plan import vocabulary_of

    train, test = (layout.read_root(made / "sgd" / split)[0].services for split in ("train", "test"))
    seen = vocabulary_of(train, Conventions())
    own = {word for service in test for slot in service.slots for word in name_words(slot.name)}
    for service in layout.read_root(made / "out/corruptions/replace/test")[0].services:
        words = {word for slot in service.slots for word in name_words(slot.name)}
        assert words <= own | set(seen.slots)
    assert own - set(seen.slots)


def test_seed_rates_and_operations(made):
    flags = ["--replace_rate=0", "--order_rate=1", "--corruptions", "order,replace", "--seed", "Ünlike", "--quiet"]
    assert run(made, *flags, sets="corrupted", out="seed") == 0
    options = json.loads((made / "seed/run.json").read_bytes())["options"]
    assert (options["seed"], options["replace_rate"], options["order_rate"]) == ("Ünlike", 0, 1)
    assert options["sets"] == {"corrupted": ["original", "replace", "order"]}
    assert sorted(path.name for path in (made / "seed/corruptions").iterdir() if path.is_dir()) == ["order", "replace"]
    same = (made / "seed/corruptions/replace/train/schema.json").read_text().replace('_1replace"', '_1"')
    assert same == (made / "sgd/train/schema.json").read_text()
    path = "corruptions/order/train/schema.json"
    assert (made / "seed" / path).read_bytes() != (made / "out" / path).read_bytes()


def test_some_variants_another_split_and_a_split_alone(corpus):
    flags = ["--variant", "v2,zh", "--split", "dev", "--quiet"]
    assert run(corpus, *flags, sets="backtrans+oracle") == 0
    versions = json.loads((corpus / "out/run.json").read_bytes())["options"]["sets"]["backtrans+oracle"]
    assert versions == ["original", "zh", "v2"]
    assert (corpus / "out/backtrans+oracle/dev/dialogues_001.json").exists()
    assert (corpus / "out/backtrans+oracle/parquet/dev-00000-of-00001.parquet").exists()
    alone = ["--sgd", str(corpus / "sgd/dev"), "--split", "dev", "--sets", "none", "--output", str(corpus / "alone")]
    assert augment.run([*alone, "--quiet"]) == 0
    original = (corpus / "sgd/dev/dialogues_001.json").read_bytes()
    assert (corpus / "alone/none/dev/dialogues_001.json").read_bytes() == original


def test_mismatches_are_told_and_lose_nothing(corpus, capsys):
    edit(corpus / "oracle/v2/train/schema.json", lambda schema: schema.pop())
    edit(corpus / "sgd/train/dialogues_001.json", lambda dialogues: dialogues[2].pop("turns"))
    edit(corpus / "oracle/v1/test/schema.json", lambda schema: schema.pop())  # of another split: no matter
    assert run(corpus, sets="oracle") == 1
    told = capsys.readouterr().err.splitlines()
    assert told[0].endswith("v2: train/schema.json: service 'Museums_1': the variant has no service 'Museums_12'")
    each = "1 of 24 dialogues of original, 1 of 24 dialogues of v1 and 8 of 24 dialogues of v2"
    assert told[1].startswith(f"error: {each} could not be augmented, over --max_bad 1%, so nothing was published")
    assert run(corpus, "--quiet", "--max_bad", "100%", sets="none,oracle") == 0
    letters = letters_of(corpus / "out")
    broken = [letter for letter in letters if letter["reason"].startswith("not_sgd")]
    assert [letter["variant"] for letter in broken] == ["original", "v1", "v2"]
    gone = {letter["dialogue_id"] for letter in letters if letter["reason"].startswith("bad_service: 'Museums_1'")}
    assert len(gone) == len(letters) - 3 > 0
    written = [
        dialogue["dialogue_id"]
        for path in (corpus / "out/oracle/train").glob("dialogues_*.json")
        for dialogue in json.loads(path.read_bytes())
    ]
    assert len(written) == 23 * 3 - len(gone)
    assert not {f"{name}_v2" for name in gone} & set(written)
    counts = json.loads((corpus / "out/run.json").read_bytes())["counts"]
    assert counts["left_out/v2"] == len(gone) + 1
    assert counts["dialogues/oracle"] == counts["rows/oracle"] == len(written)
    services = [s["service_name"] for s in json.loads((corpus / "out/oracle/train/schema.json").read_bytes())]
    assert "Museums_11" in services
    assert "Museums_12" not in services


def test_a_file_that_cannot_be_read_fails_the_run_or_is_left_out(corpus, capsys):
    path = corpus / "sgd/train/dialogues_001.json"
    path.write_bytes(path.read_bytes()[:5000])
    assert run(corpus, "--quiet", sets="oracle") == 1
    told = capsys.readouterr().err
    assert "error: 1 of 2 files could not be augmented, over --max_bad 1%, so nothing was published" in told
    assert len(told.splitlines()) == 1
    assert not (corpus / "out/run.json").exists()
    assert run(corpus, "--quiet", "--max_bad", "100%", sets="oracle") == 0
    (letter,) = letters_of(corpus / "out")
    assert (letter["variant"], letter["file"], letter["dialogue_id"]) == ("", "dialogues_001.json", "")
    rows = pq.read_table(corpus / "out/oracle/parquet").to_pylist()
    whole = json.loads((corpus / "sgd/train/dialogues_002.json").read_bytes())
    assert len(rows) == 3 * len(whole)
    assert not (corpus / "out/oracle/train/dialogues_001.json").exists()


def test_unusual_files_come_through(corpus):
    def change(dialogues: list[Any]) -> None:
        dialogues[0]["turns"][0]["utterance"] = "Ünlike \u2028 \x7f 😀"
        dialogues[0]["mine"] = {"n": [1, None]}

    edit(corpus / "sgd/train/dialogues_001.json", change)
    (corpus / "sgd/train/dialogues_003.json").write_text("[]")
    assert run(corpus, "--quiet", sets="oracle") == 0
    reference(corpus, corpus / "out/corruptions", corpus / "reference", "oracle")
    found = files_of(corpus / "out")
    expected = files_of(corpus / "reference")
    assert {name: found[name] for name in expected} == expected
    rows = pq.read_table(corpus / "out/oracle/parquet").to_pylist()
    first = json.loads(expected["oracle/train/dialogues_001.json"])[:3]
    assert [dialogue_of(row) for row in rows if row["source_json"]] == first


def test_an_id_that_stands_twice_fails_the_run(corpus, capsys):
    edit(corpus / "sgd/train/dialogues_002.json", lambda dialogues: dialogues[0].update(dialogue_id="1_00000"))
    assert run(corpus, "--quiet", sets="none") == 1
    told = capsys.readouterr().err
    assert "dialogues_001.json and train/dialogues_002.json: dialogue id '1_00000' occurs twice" in told
    assert not (corpus / "out/run.json").exists()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--sets", "oralce"], "--sets: 'oralce' is not a set: none, backtrans, oracle, corrupted, or a+b"),
        (["--sets", "oracle+corrupted"], "--sets: the set 'oracle+corrupted' needs --oracle DIR"),
        (["--sets", "none", "--oracle", "{corpus}/oracle"], "--oracle: no set of --sets needs it (none)"),
        (["--oracle", "{corpus}/oracle", "--variant", "v1,v7"], "--variant: there is no variant 'v7' (found: v1, v2)"),
        (["--variant", "v1"], "--variant: there is no variant 'v1' (found: none)"),
        (
            ["--oracle", "{corpus}/oracle", "--backtrans", "{corpus}/backtrans", "--variant", "v1"],
            "backtrans: --variant: takes none of ja, zh",
        ),
        (["--oracle", "{corpus}/nowhere"], "nowhere: --oracle: there is no such folder"),
        (["--backtrans", "{corpus}/out/none/parquet"], "--backtrans: no variants here"),
        (["--sgd", "{corpus}/nowhere"], "nowhere: --sgd: there is no such file or folder"),
        (["--replace_rate", "1.5"], "--replace_rate: 1.5 is not between 0 and 1"),
        (["--order_rate", "nan"], "--order_rate: nan is not between 0 and 1"),
        (["--order_rate", "much"], "argument --order_rate: invalid float value: 'much'"),
        (["--corruptions", "swap"], "--corruptions: 'swap': the corruptions are replace, order, both"),
        (["--split", "all"], "no dialogues of 'all' here"),
        (["--corruption", "order"], "unknown flag --corruption: did you mean --corruptions?"),
        (["--oracle", "{corpus}/oracle", "--output", "{corpus}/oracle"], "the same folder as --oracle"),
        (["--output", "{corpus}/sgd"], "the same folder as --sgd"),
    ],
)
def test_mistakes_on_the_command_line(flags, said, made, capsys):
    before = files_of(made)
    given = [flag.format(corpus=made) for flag in flags]
    assert augment.run(["--sgd", str(made / "sgd"), "--output", str(made / "none"), *given]) == 2
    assert said in capsys.readouterr().err
    assert files_of(made) == before


def test_variants_of_one_name_cannot_be_told_apart(corpus, capsys):
    (corpus / "backtrans/zh").rename(corpus / "backtrans/v1")
    assert run(corpus, "--quiet") == 2
    assert "two variants are called 'v1': rename a folder, or leave one out" in capsys.readouterr().err
    (corpus / "backtrans/v1").rename(corpus / "backtrans/again")
    shutil.copytree(corpus / "oracle/v1", corpus / "backtrans/copy")
    assert run(corpus, "--quiet") == 2
    said = "set 'backtrans+oracle': --sets: service 'Ferries_11' is in copy and in v1: they cannot be in one set"
    assert said in capsys.readouterr().err


def test_a_corpus_without_the_split(corpus, capsys):
    shutil.rmtree(corpus / "sgd/train")
    assert run(corpus, "--quiet", sets="none") == 2
    assert "no dialogues of 'train' here" in capsys.readouterr().err


def test_the_sample_without_any_flags(tmp_path, capsys):
    assert augment.run(["--output", str(tmp_path / "out")]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[:3] == [
        "24 dialogues in 2 files",
        "none: 24 dialogues: original",
        "corrupted: 96 dialogues: original, replace, order, both",
    ]
    assert [line.split(": ")[0] for line in told[3:]] == ["replace", "order", "both"]
    assert all(line.endswith("of descriptions changed") for line in told[3:])
    assert {path.name for path in (tmp_path / "out").iterdir() if path.is_dir()} == {"none", "corrupted", "corruptions"}


def test_the_published_variants(real_data, real_dialogues, tmp_path):
    """Dialogues under all schemas of SGD-X, their references checked."""
    flags = ["--sgd", str(real_dialogues), "--oracle", str(real_data / "sgd/sgd_x/data"), "--quiet"]
    assert augment.run([*flags, "--output", str(tmp_path / "out")]) == 0
    root = tmp_path / "out/oracle"
    services = layout.services_by_name(layout.read_root(root))
    for path in layout.dialogue_files(root, "train"):
        assert not [one for dialogue in read_dialogues(path) for one in problems_of(dialogue, services)]
    counts = json.loads((tmp_path / "out/run.json").read_bytes())["counts"]
    assert counts["dialogues/oracle"] == counts["rows/oracle"] == 6 * counts["dialogues"] > 0
