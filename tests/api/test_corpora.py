"""``parapet.load_corpus`` and what it gives: lazily read, saved whole, and errors with file and place."""

import json
import math
import shutil
from itertools import product

import pytest
from kit import cases, json_of, raised, write

import parapet
from parapet.evaluation.dst.trackers import Names


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    write(tmp_path / "mine" / "test" / "schema.json", "mine")
    with pytest.raises(parapet.InputError, match=r"mine/test/schema.json: was not written by an earlier run"):
        parapet.load_corpus().save(tmp_path / "mine")
    assert (tmp_path / "mine" / "test" / "schema.json").read_text() == "mine"


def test_schemas_alone(sample, tmp_path):
    shutil.copy(sample / "dev" / "schema.json", tmp_path / "schema.json")
    for root in (tmp_path, tmp_path / "schema.json"):
        corpus = parapet.load_corpus(root)
        assert (corpus.services(), list(corpus.dialogues())) == (json_of(tmp_path / "schema.json"), [])


def test_a_release(sample, tmp_path):
    shutil.copytree(sample, tmp_path / "sgd" / "original")
    (tmp_path / "MANIFEST.json").write_text("{}")
    assert parapet.load_corpus(tmp_path).splits == ("train", "dev", "test")
    with pytest.raises(parapet.InputError, match=r"the release has no corpus 'v1': must be one of original"):
        parapet.load_corpus(tmp_path, name="v1")


@cases(
    "dialogues services reason",
    ({"valid": []}, {"valid": []}, "'valid' is not a split"),
    ({"dev": []}, {}, "the split 'dev' has dialogues, but no services"),
    ({"dev": []}, {"dev": []}, r"services\['dev'\]: the list of services is empty"),
    ({"dev": []}, {"dev": [{"service_name": "A"}]}, r"services\['dev'\]: \[0\]"),
    ({"dev": [{"x": math.nan}]}, {"dev": parapet.load_corpus().services("dev")}, r"dialogues\['dev'\]: is not JSON"),
    ({"dev": [{1, 2}]}, {"dev": parapet.load_corpus().services("dev")}, r"dialogues\['dev'\]: is not JSON"),
    (
        {"dev": []},
        {"dev": [{**parapet.load_corpus().services("dev")[0], "note": {1}}]},
        r"services\['dev'\]: is not JSON: Object of type set",
    ),
)
def test_bad_data_in_memory(dialogues, services, reason):
    raised(parapet.InputError, parapet.corpus_of, dialogues, services, match=reason)


def test_bad_files(sample, tmp_path, capsys):
    raised(parapet.InputError, parapet.load_corpus, tmp_path / "nowhere", match="there is no such file or folder")
    shutil.copytree(sample, tmp_path / "bad")
    path = tmp_path / "bad" / "test" / "dialogues_001.json"
    dialogues = json_of(path)
    del dialogues[1]["turns"][0]["utterance"]
    path.write_text(json.dumps(dialogues))
    corpus = parapet.load_corpus(tmp_path / "bad")
    with pytest.raises(parapet.InputError, match=r"dialogues_001.json: \[1\]\.turns\[0\]: not_sgd: .*`utterance`"):
        list(corpus.dialogues("test"))
    with pytest.raises(parapet.InputError, match=r"\[1\]\.turns\[0\]"):
        _ = parapet.perturb(corpus, "typos").rows
    raised(parapet.InputError, corpus.save, tmp_path / "out", match=r"\[1\]\.turns\[0\]")
    assert not (tmp_path / "out" / "run.json").exists()
    with pytest.raises(parapet.InputError, match="there is no split 'tests': must be one of train, dev, test"):
        list(corpus.dialogues("tests"))
    path.write_text("[")
    raised(parapet.InputError, list, corpus.dialogues("test"), match=r"dialogues_001.json: line 1 column 2: not JSON")
    assert capsys.readouterr() == ("", "")


def test_a_corpus_is_not_saved_over_itself(sample, tmp_path):
    parapet.load_corpus(sample).save(tmp_path / "own")
    before = {path: path.read_bytes() for path in (tmp_path / "own").rglob("*") if path.is_file()}
    corpus = parapet.load_corpus(tmp_path / "own")
    for each in (corpus, parapet.perturb(corpus, "typos")):
        for folder in (tmp_path / "own", str(tmp_path), tmp_path / "other" / ".." / "own"):
            raised(parapet.InputError, each.save, folder, match="the corpus was read from this folder: choose another")
    assert {path: path.read_bytes() for path in (tmp_path / "own").rglob("*") if path.is_file()} == before
    parapet.perturb(corpus, "typos").save(tmp_path / "typos")


@pytest.mark.parametrize("folder", [None, 3, b"x"])
def test_a_folder_is_a_path(folder):
    raised(parapet.InputError, parapet.load_corpus().save, folder, match=r"expected the path of a folder, not ")


def test_a_seed_is_a_number_or_a_text():
    corpus = parapet.load_corpus()
    scores = parapet.score_states(corpus, Names())
    takers = [
        lambda seed: parapet.perturb(corpus, "typos", seed=seed),
        lambda seed: parapet.perturbations()["unseen_entities"](seed=seed),
        lambda seed: scores.interval(seed=seed),
        lambda seed: parapet.compose(corpus, [], seed=seed),
    ]
    for taker, seed in product(takers, [math.nan, 1.5, None, True, [1], b"x"]):
        raised(parapet.InputError, taker, seed, match="must be a whole number or a text")


def test_what_json_cannot_hold_is_named_with_its_place(tmp_path):
    class Numbered(parapet.Perturbation):
        name = "numbered"

        def perturb(self, dialogue, random):
            return parapet.Perturbed({**dialogue, "note": {1: 2}})

    with pytest.raises(parapet.InputError, match=r"dialogues_00\d.json: \[0\]: is not JSON: Dict key must be str"):
        parapet.perturb(parapet.load_corpus(), Numbered).save(tmp_path / "out")
