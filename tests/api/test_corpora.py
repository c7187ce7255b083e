"""Corpora and texts in memory: read lazily, saved whole, perturbed; mistakes are InputErrors that say what to do."""

import json
import math
import shutil
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import cases, json_of, lacking, raised, write

import parapet
from parapet.evaluation.dst.trackers import Names

SAMPLE = parapet.load_corpus()


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    write(tmp_path / "mine" / "test" / "schema.json", "mine")
    reason = r"mine/test/schema.json: was not written by an earlier run"
    raised(parapet.InputError, parapet.load_corpus().save, tmp_path / "mine", match=reason)
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
    raised(parapet.InputError, parapet.load_corpus, tmp_path, name="v1", match="has no corpus 'v1': must be one of ori")


@cases(
    "dialogues services reason",
    ({"valid": []}, {"valid": []}, "'valid' is not a split"),
    ({"dev": []}, {}, "the split 'dev' has dialogues, but no services"),
    ({"dev": []}, {"dev": []}, r"services\['dev'\]: the list of services is empty"),
    ({"dev": []}, {"dev": [{"service_name": "A"}]}, r"services\['dev'\]: \[0\]"),
    ({"dev": [{"x": math.nan}]}, {"dev": SAMPLE.services("dev")}, r"dialogues\['dev'\]: is not JSON"),
    ({"dev": [{1, 2}]}, {"dev": SAMPLE.services("dev")}, r"dialogues\['dev'\]: is not JSON"),
    ({"dev": []}, {"dev": [{**SAMPLE.services("dev")[0], "note": {1}}]}, r"services\['dev'\]: is not JSON: Object of "),
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
    reason = r"dialogues_001.json: \[1\]\.turns\[0\]: not_sgd: .*`utterance`"
    raised(parapet.InputError, list, corpus.dialogues("test"), match=reason)
    raised(parapet.InputError, lambda: parapet.perturb(corpus, "typos").rows, match=r"\[1\]\.turns\[0\]")
    raised(parapet.InputError, corpus.save, tmp_path / "out", match=r"\[1\]\.turns\[0\]")
    assert not (tmp_path / "out" / "run.json").exists()
    raised(parapet.InputError, lambda: list(corpus.dialogues("tests")), match="must be one of train, dev, test")
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


TEXTS = ["I need a taxi to the station", "Please book a table for two at the Golden Lion", "Thank you so much"]


@cases("kind", "typos", "verbose", "simple", "paraphrase")
def test_a_text_is_perturbed_alike_alone_and_in_a_list(kind):
    together = parapet.perturb_text(TEXTS, kind, seed=1)
    assert together == [parapet.perturb_text(text, kind, seed=1) for text in TEXTS]
    assert together == parapet.perturb_text(iter(TEXTS), kind, seed=1)
    assert together[0] != TEXTS[0] or kind == "simple"  # "I need" may stay
    assert any(parapet.perturb_text(TEXTS, kind, seed=seed) != together for seed in range(2, 9)) or kind == "simple"
    assert parapet.perturb_text(["", " ", TEXTS[0], TEXTS[0]], kind, seed=1) == ["", " ", together[0], together[0]]
    assert parapet.perturb_text([], kind) == []


@given(st.integers(0, 10_000), st.sampled_from(["typos", "verbose"]))
def test_protected_values_stay(seed, kind):
    results = parapet.perturb_text(TEXTS, kind, seed=seed, protect=["the golden LION", "table", "station."])
    assert not lacking(results[1], "table", "the Golden Lion")
    assert "stati" in parapet.perturb_text(TEXTS[0], "typos", seed=seed, protect="station")


def test_more_values_than_the_service_has_slots_and_options():
    assert parapet.perturb_text("I need a taxi now", "typos", set_name="typos-env1", env=(0.4,)) == "I need a taxi now"
    words = "river stone cloud table green seven window garden silver bridge music paper orange doctor winter "
    text = (6 * words).strip()
    assert parapet.perturb_text(text, "typos", seed=1, protect=set(text.split())) == text


OPTIONS = r"typos got an unexpected keyword argument 'sed': its options are seed, "
NEEDS_CORPUS = "ood needs a corpus with schemas and states, which plain texts have not: use"


@cases(
    "call reason",
    (lambda: parapet.perturb_text(3, "typos"), "expected a text or a list of texts, found int"),
    (lambda: parapet.perturb_text(["a", 3], "typos"), r"text: \[1\]: expected a text, found int"),
    (lambda: parapet.perturb_text("a", "typos", protect=[3]), r"protect: expected a list of texts, found \[3\]"),
    (lambda: parapet.perturb_text("a", "typos", protect=3), "protect: expected a list of texts, found 3"),
    (lambda: parapet.perturb_text("a", "ood", set_name="ood-10"), NEEDS_CORPUS),
    (lambda: parapet.perturb(SAMPLE, "typo"), r"no perturbation 'typo': did you mean 'typos'\?"),
    (lambda: parapet.perturb(SAMPLE, "typos", sed=1), OPTIONS),
    (lambda: parapet.perturb(SAMPLE, "typos", rates={"wrod": 1}), r"^rates: there is no rate 'wrod': did you mean 'wo"),
    (lambda: parapet.perturb(SAMPLE, "typos", env=0.1), r"set_name is required and must be one of typos, typos-env1"),
    (lambda: parapet.perturb(SAMPLE, "typos", set_name="typo"), r"typos makes no set 'typo': must be one of typos"),
    (lambda: parapet.perturb(SAMPLE, "verbose", rewritten="nowhere.jsonl"), "nowhere.jsonl: .*cannot be read"),
    (lambda: parapet.perturb([], "typos"), "corpus: expected a corpus from parapet.load_corpus .* found list"),
    (lambda: parapet.apply_variants(SAMPLE, "nowhere"), "nowhere: variants: there is no such folder"),
    (lambda: parapet.apply_variants(SAMPLE, {"v1": {}}, names=["v2"]), r"there is no variant 'v2' \(found: v1\)"),
    (lambda: parapet.apply_variants(SAMPLE, {"v1": {"valid": []}}), r"variants\['v1'\]\['valid'\]: .* is empty"),
    (lambda: parapet.load_corpus(Path(__file__)), r"not JSON"),
    (lambda: parapet.load_corpus("s3x://bucket/corpus"), "cannot be read"),
    *((lambda place=place: SAMPLE.save(place), "expected the path of a folder, not ") for place in (None, 3, b"x")),
)
def test_mistakes(call, reason, capsys):
    raised(parapet.InputError, call, match=reason)
    assert capsys.readouterr() == ("", "")
