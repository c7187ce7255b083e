"""Corpora in the form that the Hugging Face hub has SGD in: Parquet, JSON lines, folders of ``save_to_disk``."""

import json
import shutil
import sys

import datasets
import huggingface_hub
import pyarrow.parquet
import pytest
from hub_form import DIALOGUES, SERVICES, dialogue_row, service_row, write_table
from kit import THOROUGH, TWO_WORKERS, cases, files_of, lacking, raised, refused, run, write

import parapet
from parapet.schemas import hub_tables
from parapet.schemas.errors import MissingExtra
from parapet.schemas.hub_tables import dialogue_of, parts_of

WHOLE = parapet.load_corpus()
FEW = {split: list(WHOLE.dialogues(split))[:3] for split in WHOLE.splits}
SAMPLE = parapet.corpus_of(FEW, {split: WHOLE.services(split) for split in WHOLE.splits})
SPLITS = {"train": "train", "dev": "validation", "test": "test"}


@pytest.fixture(scope="module", autouse=True)
def _quiet():
    datasets.disable_progress_bars()


@pytest.fixture(scope="module", params=["parquet", "flat", "jsonl", "disk"])
def root(request, tmp_path_factory):
    """The sample in one of the forms, with the configurations ``dialogues`` and ``schema``."""
    root, form = tmp_path_factory.mktemp("hub") / request.param, request.param
    places = {
        "parquet": "{config}/{split}/0000.parquet",
        "flat": "{config}/{split}-00000-of-00001.parquet",
        "jsonl": "{config}/{split}.jsonl",
        "disk": "{config}/{split}",
    }
    for split, name in SPLITS.items():
        for config, rows, features in (
            ("dialogues", map(dialogue_row, SAMPLE.dialogues(split)), DIALOGUES),
            ("schema", map(service_row, SAMPLE.services(split)), SERVICES),
        ):
            write_table(list(rows), features, root / places[form].format(config=config, split=name))
    return root


def test_a_corpus_is_the_one_that_it_was_made_of(root, tmp_path):
    corpus = parapet.load_corpus(root)
    assert corpus.splits == SAMPLE.splits
    for split in SAMPLE.splits:
        assert list(corpus.dialogues(split)) == [*SAMPLE.dialogues(split)]
        assert corpus.services(split) == SAMPLE.services(split)
    corpus.save(tmp_path / "saved")
    assert list(parapet.load_corpus(tmp_path / "saved").dialogues()) == list(SAMPLE.dialogues())


@pytest.mark.parametrize("root", ["disk"], indirect=True)
def test_it_is_perturbed_as_the_original_on_one_or_two_workers(root, tmp_path):
    flags = {"sgd": root, "split": "test,dev" if THOROUGH else "test", "seed": 1}
    made = run("perturb", "typos", **flags, output=tmp_path / "one")
    assert not made.dead_letters
    run("perturb", "typos", *TWO_WORKERS, **flags, output=tmp_path / "two")
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")
    typos = parapet.perturb(SAMPLE, "typos", seed=1).dialogues("test")
    assert made.dialogues("typos/test") == {dialogue["dialogue_id"]: dialogue for dialogue in typos}
    assert parapet.load_corpus(tmp_path / "one/typos").services("test") == SAMPLE.services("test")


@cases("argv", ["few_shot"], ["rewrite", "--variants", "{variants}", "--mapping", "position"])
@pytest.mark.parametrize("root", ["flat"], indirect=True)
def test_other_commands_take_it_too(argv, root, sample, tmp_path):
    for split in SPLITS:
        write(tmp_path / f"variants/v1/{split}/schema.json", (sample / split / "schema.json").read_bytes())
    SAMPLE.save(tmp_path / "original")
    line = [part.format(variants=tmp_path / "variants") for part in argv]
    made = run(*line, sgd=root, output=tmp_path / "rows")
    original = run(*line, sgd=tmp_path / "original", output=tmp_path / "sgd")
    assert made.manifest["counts"]["dialogues"] == original.manifest["counts"]["dialogues"] > 0
    assert not made.dead_letters


def test_schema_json_beside_the_rows_serves_all_splits(tmp_path):
    write(tmp_path / "schema.json", SAMPLE.services())
    for split, name in SPLITS.items():
        write_table([*map(dialogue_row, SAMPLE.dialogues(split))], DIALOGUES, tmp_path / f"data/{name}.parquet")
    corpus = parapet.load_corpus(tmp_path)
    assert (corpus.services(), list(corpus.dialogues("dev"))) == (SAMPLE.services(), list(SAMPLE.dialogues("dev")))
    alone = tmp_path / "alone"
    write(alone / "schema.json", SAMPLE.services("test"))
    shutil.copy(tmp_path / "data/test.parquet", alone / "some.parquet")
    assert parapet.load_corpus(alone / "some.parquet").splits == ("all",)
    assert list(parapet.load_corpus(alone / "some.parquet").dialogues()) == list(SAMPLE.dialogues("test"))


def test_large_files_are_read_in_parts(tmp_path, monkeypatch):
    rows = [{**dialogue_row(dialogue), "dialogue_id": str(i)} for i, dialogue in enumerate(SAMPLE.dialogues())]
    write(tmp_path / "schema.json", SAMPLE.services())
    datasets.Dataset.from_list(rows, features=DIALOGUES).to_parquet(tmp_path / "train.parquet", batch_size=4)
    write_table(rows, DIALOGUES, tmp_path / "disk/test")
    monkeypatch.setattr(hub_tables, "PART", 2)
    assert pyarrow.parquet.ParquetFile(tmp_path / "train.parquet").num_row_groups > 1
    assert parts_of(tmp_path / "train.parquet")[:2] == [(0, 2), (2, 4)]
    corpus = parapet.load_corpus(tmp_path / "train.parquet")
    assert len(corpus.files) == -(-len(rows) // 2)
    assert [dialogue["dialogue_id"] for dialogue in corpus.dialogues()] == [row["dialogue_id"] for row in rows]
    shutil.copy(tmp_path / "schema.json", tmp_path / "disk")
    on_disk = parapet.load_corpus(tmp_path / "disk")
    assert [dialogue["dialogue_id"] for dialogue in on_disk.dialogues("test")] == [row["dialogue_id"] for row in rows]


def test_multiwoz_of_the_hub():
    span = {"slot": ["hotel-name", "hotel-name"], "value": ["Larch", ""], "start": [9, -1], "exclusive_end": [4, -1]}
    copied = {"copy_from": ["", "hotel-name"], "copy_from_value": [[], ["larch"]]}
    values = {"slots_values_name": ["hotel-name"], "slots_values_list": [["larch"]]}
    state = {"active_intent": "find_hotel", "requested_slots": [], "slots_values": values}
    frames = {"service": ["hotel"], "state": [state], "slots": [{**span, **copied}]}
    turns = {"turn_id": ["0"], "speaker": [0], "utterance": ["The Larch"], "frames": [frames]}
    (turn,) = dialogue_of({"dialogue_id": "MUL1.json", "services": ["hotel"], "turns": turns})["turns"]
    assert (turn["turn_id"], turn["frames"][0]["state"]["slot_values"]) == ("0", {"hotel-name": ["larch"]})
    assert turn["frames"][0]["slots"] == [
        {"slot": "hotel-name", "value": "Larch", "start": 4, "exclusive_end": 9},
        {"slot": "hotel-name", "copy_from": "hotel-name", "value": ["larch"]},
    ]


def test_bad_rows_are_dead_letters(tmp_path):
    rows = [dialogue_row(dialogue) for dialogue in SAMPLE.dialogues("test")]
    lines = [json.dumps(row) for row in rows]
    odd = json.dumps({**rows[0], "dialogue_id": "odd", "turns": {"speaker": [0], "utterance": []}})
    write(tmp_path / "sgd/test.jsonl", "\n".join([*lines, "not json", odd, "[1]", lines[0], '{"dialogue_id": "x"}']))
    write(tmp_path / "sgd/schema.json", SAMPLE.services("test"))
    made = run("perturb", "simple", sgd=tmp_path / "sgd", max_bad="80%", output=tmp_path / "out")
    reasons = {letter["where"] or letter["dialogue_id"]: letter["reason"] for letter in made.dead_letters}
    assert reasons[f"line {len(rows) + 1}"].startswith("not_json: Expecting value")
    assert reasons[f"line {len(rows) + 3}"] == "not_sgd: no object"
    assert sum(reason.startswith("not_sgd: the row has another shape") for reason in reasons.values()) >= 1
    assert any(reason.startswith("duplicate_id") for reason in reasons.values())
    assert (len(made.dead_letters), len(made.dialogues("simple/test"))) == (5, len(rows))


def test_what_is_no_such_corpus(tmp_path):
    rows = [dialogue_row(dialogue) for dialogue in SAMPLE.dialogues("test")]
    write_table(rows, DIALOGUES, tmp_path / "alone/test.parquet")
    said = refused("perturb", "simple", sgd=tmp_path / "alone", output=tmp_path / "out")
    assert "dialogues and no schemas of all splits: put schema.json beside them, or the rows" in said
    write_table([service_row(SAMPLE.services("train")[0])], SERVICES, tmp_path / "alone/schema/train.parquet")
    assert "no schemas of all splits" in refused("perturb", "simple", sgd=tmp_path / "alone", output=tmp_path / "out")
    for name in "ab":
        write_table(rows, DIALOGUES, tmp_path / f"two/{name}/test.parquet")
    said = refused("perturb", "simple", sgd=tmp_path / "two", output=tmp_path / "out")
    assert "there are dialogues of several data sets: a, b; give one of these folders" in said
    broken = tmp_path / "broken"
    write(broken / "schema.json", SAMPLE.services("test"))
    (broken / "test.parquet").write_bytes((tmp_path / "alone/test.parquet").read_bytes()[:-40])
    said = refused("perturb", "simple", sgd=broken, output=tmp_path / "out")
    assert not lacking(said, "test.parquet: cannot be read (", "damaged or no .parquet file; download it again")
    cut = bytearray((tmp_path / "alone/test.parquet").read_bytes())
    cut[200:400] = b"\0" * 200
    (broken / "test.parquet").write_bytes(cut)
    said = refused("perturb", "simple", sgd=broken, output=tmp_path / "out", status=1)
    assert "broken_file" in said


@pytest.mark.parametrize("root", ["parquet"], indirect=True)
def test_what_reads_only_sgd_says_how_to_convert(root, tmp_path):
    said = refused("evaluate", task="dst", reference=root, model="keywords", output=tmp_path / "out", status=1)
    assert "a Parquet file, and not JSON: if it has dialogues, parapet.load_corpus(FOLDER).save('sgd')" in said


@pytest.mark.parametrize("root", ["parquet"], indirect=True)
def test_names_of_the_hub(root, tmp_path, monkeypatch):
    asked = []

    def fetch(name, **options):
        asked.append((name, options["repo_type"], options.get("revision")))
        if name == "ada/none":
            raise huggingface_hub.errors.RepositoryNotFoundError("404: no such data set\nmore", response=_Response())
        if name == "ada/plain" and options.get("revision"):
            raise huggingface_hub.errors.RevisionNotFoundError("no such branch", response=_Response())
        return str(root)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    assert list(parapet.load_corpus("hf:ada/plain").dialogues("dev")) == list(SAMPLE.dialogues("dev"))
    branch = "refs/convert/parquet"
    assert asked == [("ada/plain", "dataset", branch), ("ada/plain", "dataset", None)]
    assert run("perturb", "simple", sgd="hf:schema_guided_dstc8", output=tmp_path / "out").dialogues("simple/test")
    assert asked[2:] == [("schema_guided_dstc8", "dataset", branch)]
    said = refused("perturb", "simple", sgd="hf:ada/none", output=tmp_path / "no")
    assert "hf:ada/none: cannot be downloaded from the Hugging Face hub: 404: no such data set" in said
    assert "more" not in said
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    raised(MissingExtra, parapet.load_corpus, "hf:schema_guided_dstc8", match="huggingface_hub is not installed")


class _Response:
    headers: dict[str, str] = {}
    request = None
