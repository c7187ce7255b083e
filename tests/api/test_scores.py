"""``parapet.score_states`` and its company: the numbers of ``evaluate --task dst``, in memory."""

import copy
import math
import random
import sys

import kit
import pandas as pd
import pytest
from kit import json_of, raised, write
from state_predictions import ALL, BASELINE, CORPUS, DIALOGUES, JGA, PREDICTIONS, by_command, lines_of, metrics_of

import parapet
from parapet.evaluation.dst.trackers import Names
from parapet.schemas.errors import MissingExtra
from parapet.schemas.layout import dialogue_bytes, sample_root


@pytest.fixture(scope="module")
def predictions(tmp_path_factory):
    """A folder laid out as the reference is."""
    folder = tmp_path_factory.mktemp("predictions") / "test"
    write(folder / "dialogues_001.json", dialogue_bytes(PREDICTIONS))
    return folder.parent


# --- the numbers of the command ------------------------------------------------------------------------------------


def test_every_form_of_predictions_gives_the_same(tmp_path, predictions):
    expected = parapet.score_states(CORPUS, predictions).metrics
    lines = lines_of(PREDICTIONS)
    shuffled = random.Random(0).sample(lines, len(lines))
    write(tmp_path / "lines/a.jsonl", shuffled[::2])
    write(tmp_path / "lines/b.jsonl", shuffled[1::2])
    first = {dialogue["dialogue_id"] for dialogue in PREDICTIONS[:3]}
    for name, form in {
        "dialogues": PREDICTIONS,
        "a generator": iter(PREDICTIONS),
        "lines": shuffled,
        "both": PREDICTIONS[:3] + [line for line in lines if line["dialogue_id"] not in first],
        "a corpus": parapet.corpus_of({"test": PREDICTIONS}, {"test": CORPUS.services("test")}),
        "files of lines": tmp_path / "lines",
    }.items():
        assert parapet.score_states(CORPUS, form).metrics == expected, name


def test_references_in_memory_score_the_same(predictions):
    expected = parapet.score_states(CORPUS, predictions)
    train = [service["service_name"] for service in CORPUS.services("train")]
    found = parapet.score_states(iter(DIALOGUES), PREDICTIONS, schemas=CORPUS.services("test"), seen=train)
    assert found.metrics == expected.metrics
    assert found.frames.equals(expected.frames)
    unseen = parapet.score_states(DIALOGUES, PREDICTIONS, schemas=CORPUS.services("test"), name="ours")
    assert unseen.metrics["#UNSEEN_SERVICES"] == unseen.metrics[ALL] == expected.metrics[ALL]
    assert set(unseen.frames["set"].to_pylist()) == {"ours"}


# --- variants ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scores():
    """Of the original and of two variants."""
    crowd = sample_root() / "crowd"
    made = parapet.compose(CORPUS, [crowd / "names.csv", crowd / "descriptions.csv"], allow_partial=True)
    corpora = {"original": CORPUS, **parapet.apply_variants(CORPUS, made.variants, names=["v1", "v2"])}
    return {name: parapet.score_states(corpus, Names()) for name, corpus in corpora.items()}


def test_the_original_is_in_no_sensitivity(scores):
    only = {name: of for name, of in scores.items() if name != "original"}
    assert parapet.schema_sensitivity(scores) == parapet.schema_sensitivity(only)
    assert parapet.schema_sensitivity(list(only.values())) == parapet.schema_sensitivity(only)
    one = {name: scores[name] for name in ("original", "v1")}
    raised(parapet.InputError, parapet.schema_sensitivity, one, match="at least two variants, found 1")


def test_sensitivity_by_hand():
    """Of two frames one is right under three of five variants, one under none: see evaluation/dst/frames.py."""
    schemas = [kit.service("A_1", [kit.slot("slot", "", "x", "y")])]

    def dialogue(*values):
        frames = [kit.frame("A_1", state=kit.state(slot=[value])) for value in values]
        return kit.dialogue("1", *(kit.turn("USER", "", frame) for frame in frames))

    reference = [dialogue("x", "x")]
    first = [parapet.score_states(reference, [dialogue("x", "y")], schemas=schemas) for _ in range(3)]
    second = [parapet.score_states(reference, [dialogue("y", "y")], schemas=schemas) for _ in range(2)]
    assert parapet.schema_sensitivity(first + second) == pytest.approx(math.sqrt(0.3) / 1.2)
    assert parapet.schema_sensitivity(first + second, zero="drop") == pytest.approx(math.sqrt(0.3) / 0.6)
    assert parapet.schema_sensitivity(second) == 0
    assert math.isnan(parapet.schema_sensitivity(second, zero="drop"))
    assert all(map(math.isnan, parapet.schema_sensitivity_interval(second, zero="drop")))


def test_sets_that_do_not_match_are_refused(scores):
    short = parapet.score_states(DIALOGUES[1:], PREDICTIONS[1:], schemas=CORPUS.services("test"))
    every = parapet.score_states(DIALOGUES, PREDICTIONS, schemas=CORPUS.services("test"))
    reason = f"v2 lacks 1 of {len(DIALOGUES)} dialogues, such as {DIALOGUES[0]['dialogue_id']!r}"
    raised(parapet.InputError, parapet.schema_sensitivity, {"v1": every, "v2": short}, match=f"^scores: {reason}")
    assert parapet.schema_sensitivity({"v1": every, "v2": short}, allow_missing=True) == 0
    cut = copy.deepcopy(DIALOGUES)
    predicted = copy.deepcopy(PREDICTIONS)
    for dialogues in (cut, predicted):
        del dialogues[0]["turns"][-2:]
    other = parapet.score_states(cut, predicted, schemas=CORPUS.services("test"))
    differ = "because their user turns or frames differ"
    raised(parapet.InputError, parapet.schema_sensitivity, [every, other], match=differ)
    unknown = "metric: 'jga' is unknown: must be one of active_intent"
    raised(parapet.InputError, parapet.schema_sensitivity, scores, metric="jga", match=unknown)
    odd = {"v1": scores["v1"].metrics, "v2": scores["v2"]}
    raised(parapet.InputError, parapet.schema_sensitivity, odd, match="^v1: expected the scores of a variant, found di")


# --- tables --------------------------------------------------------------------------------------------------------


def test_pandas_has_what_arrow_has(scores):
    frames = scores["v2"].frames
    pd.testing.assert_frame_equal(parapet.to_pandas(scores["v2"]), frames.to_pandas())
    pd.testing.assert_frame_equal(parapet.to_pandas(frames), frames.to_pandas())
    table = parapet.to_pandas({"ours": scores["v1"], "theirs": scores["v2"]})
    assert table.columns[0] == "set"
    means = {"ours": scores["v1"].joint_goal_accuracy, "theirs": scores["v2"].joint_goal_accuracy}
    assert table.groupby("set")[JGA].mean().to_dict() == pytest.approx(means)
    typos = parapet.perturb(CORPUS, "typos", seed=1)
    assert len(parapet.to_pandas(typos)) == typos.rows.num_rows > 100
    made = parapet.compose(CORPUS, sample_root() / "crowd" / "names.csv")
    assert parapet.to_pandas(made).disposition.tolist() == made.audit["disposition"].to_pylist()
    raised(parapet.InputError, parapet.to_pandas, 3, match="^x: expected a table, scores, a composition or rows, f")
    raised(parapet.InputError, parapet.to_pandas, {"a": []}, match=r"^x\['a'\]: expected")


def test_without_pandas_it_says_how_to_install_it(monkeypatch, scores):
    monkeypatch.setitem(sys.modules, "pandas", None)
    raised(MissingExtra, parapet.to_pandas, scores["v1"], match=r"pandas is not installed: pip install .*\[pandas\]")


# --- mistakes ------------------------------------------------------------------------------------------------------


def refused(*args, **options):
    return str(raised(parapet.InputError, parapet.score_states, *args, **options))


def edited(change):
    predicted = copy.deepcopy(PREDICTIONS)
    change(predicted[0])
    return predicted


def test_bad_predictions_are_refused_with_place_and_reason(tmp_path):
    first = DIALOGUES[0]["dialogue_id"]
    frame = DIALOGUES[0]["turns"][0]["frames"][0]["service"]
    assert refused(CORPUS, PREDICTIONS[1:]) == f"predictions: there is no prediction for dialogue {first!r}"
    assert "that the reference lacks" in refused(DIALOGUES[1:], PREDICTIONS, schemas=CORPUS.services("test"))
    assert refused(CORPUS, [*PREDICTIONS, PREDICTIONS[0]]) == f"predictions: dialogue {first!r} appears twice"
    lacks = f"predictions: {first} turns[0] {frame}: there is no frame of this service in the turn"
    assert refused(CORPUS, edited(lambda dialogue: dialogue["turns"][0]["frames"].clear())) == lacks
    assert f"predictions: {first}: " in refused(CORPUS, edited(lambda dialogue: dialogue["turns"].pop()))
    odd = edited(lambda dialogue: dialogue["turns"][0]["frames"][0]["state"].update(slot_values=3))
    assert refused(CORPUS, odd).startswith("predictions[0]: [0].turns[0].frames[0].state.slot_values: Expected")
    assert refused(CORPUS, [3]) == "predictions[0]: expected a dict, found int"
    assert refused(CORPUS, 3) == "predictions: expected dialogues, found int"
    assert refused(CORPUS, [{"dialogue_id": first}]).startswith("predictions[0]: Object missing required field")
    assert refused(CORPUS, {"\ud800": PREDICTIONS[0]})
    assert "predictions[0]: cannot be represented as JSON" in refused(CORPUS, [{"turns": {1, 2}, "x": object()}])
    assert refused(CORPUS, tmp_path / "none").startswith(f"{tmp_path}/none: ")
    assert refused(CORPUS, tmp_path).startswith(f"{tmp_path}: ")
    write(tmp_path / "a.jsonl", [{"dialogue_id": 1}])
    assert refused(CORPUS, tmp_path).startswith(f"{tmp_path}/a.jsonl: line 1")


def test_bad_references_are_refused_with_place_and_reason(tmp_path):
    services = CORPUS.services("test")
    assert refused(tmp_path / "none", []) == f"{tmp_path}/none: there is no such file or folder"
    assert refused(CORPUS, PREDICTIONS, split="valid").startswith("there is no split 'valid'")
    assert "schemas: dialogues in memory require the schemas of their services" in refused(DIALOGUES, PREDICTIONS)
    assert refused(DIALOGUES, PREDICTIONS, schemas=[{}]).startswith("schemas: [0]: Object missing required field")
    others = refused(DIALOGUES, PREDICTIONS, schemas=CORPUS.services("train"))
    assert "the schemas of the reference do not have this service" in others
    assert refused([], [], schemas=services) == "references: contains no dialogues"
    assert refused(3, []).startswith("references: expected a corpus, its place or dialogues, found int")
    assert refused(DIALOGUES * 2, PREDICTIONS, schemas=services).startswith("references: [8]: duplicate_id")
    assert refused([3], [], schemas=services).startswith("references: [0]: Expected `object`, got `int`")
    assert refused(CORPUS, PREDICTIONS, seen="Ferries_1").startswith("seen: expected a list of service names")
    half = parapet.corpus_of({"train": DIALOGUES[:1], "dev": DIALOGUES[:1]}, {"train": services, "dev": services})
    assert refused(half, PREDICTIONS) == "split: is required: must be one of the splits that have dialogues: train, dev"


def test_trackers_that_give_something_else_are_refused():
    assert refused(CORPUS, Names) == "predictions: Names is a class: give an object of it, such as Names()"
    assert refused(CORPUS, lambda batch: None).endswith(" states, one for each example, found None")
    assert refused(CORPUS, lambda batch: [{}]).endswith(" states, one for each example, found a list of length 1")
    assert "returned something that is not a state" in refused(CORPUS, lambda batch: [{}] * len(batch))

    def failing(batch):
        raise ZeroDivisionError("mine")

    raised(ZeroDivisionError, parapet.score_states, CORPUS, failing, match="mine")
    assert parapet.score_states(CORPUS, Names().predict).metrics == parapet.score_states(CORPUS, Names()).metrics


def test_intervals_are_those_of_the_command(tmp_path):
    by_command(tmp_path, "--model", BASELINE, "--seed", "7", "--replicates", "200")
    expected = json_of(tmp_path / "robustness.json")["sets"]["original"]["intervals"]
    scores = parapet.score_states(parapet.load_corpus(), Names())
    assert {key: list(scores.interval(services=key, seed=7, replicates=200)) for key in expected} == expected
    raised(parapet.InputError, scores.interval, "jga", match="metric: 'jga' is unknown: must be one of")
    raised(parapet.InputError, scores.interval, level=95, match="level: 95 is not a number between 0 and 1")
    raised(parapet.InputError, scores.interval, replicates=0, match="replicates: 0: must be 1 or more")
    assert str(scores.interval(services="Nobodys")) == "(nan, nan)"


def test_files_score_as_by_the_command(tmp_path, predictions):
    expected = metrics_of(by_command(tmp_path / "out", "--predictions", predictions))
    assert 0.1 < expected[ALL][JGA] < 0.9
    for place in (predictions, str(predictions / "test"), predictions / "test" / "dialogues_001.json"):
        assert parapet.score_states(sample_root(), place).metrics == expected
