"""The metrics of dialogue states: equal to the published numbers, to a plain reference, and to cases worked by hand."""

import doctest
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import THOROUGH, json_of, service, slot

import parapet
from benchmarks.evaluate_reference import evaluate, frame_metrics, match
from parapet import Scores
from parapet.evaluation import statistics
from parapet.evaluation.dst import frames
from parapet.evaluation.dst.frames import JOINT, METRICS, Scored, State, fuzzy_score, score_frame, slots_of
from parapet.evaluation.dst.model import References, Set
from parapet.schemas.layout import read_root
from parapet.schemas.service import parse_service


@pytest.mark.parametrize("name", ["exact", "fuzzy", "fuzzy_joint_across_turn"])
def test_equals_the_official_scoring(real_data, name):
    settings, across_turn = frames.ScoreConfig(fuzzy=name != "exact"), name.endswith("across_turn")
    expected = json_of(real_data / "evaluation" / "expected_dev.json")[name]
    splits = {split.split: split for split in read_root(real_data / "sgd")}
    services = {service.service_name: slots_of(service) for service in splits["dev"].services}
    seen = frozenset(service.service_name for service in splits["train"].services)
    paths = sorted((real_data / "evaluation" / "predictions" / "dev").glob("*.json"))
    pairs = [(real_data / "sgd" / "dev" / path.name, path) for path in paths]
    totals = []
    for reference, predicted in ([frames.parse_dialogues(path.read_bytes(), path) for path in pair] for pair in pairs):
        by_id = {dialogue.dialogue_id: dialogue for dialogue in predicted}
        totals.append(frames.add_up(frames.score_dialogues(reference, by_id, services, settings), seen, across_turn))
    metrics = frames.means(frames.merged(totals))
    assert metrics.keys() == expected.keys()
    for key, of in expected.items():
        assert metrics[key] == pytest.approx({name: value for name, value in of.items() if value != "NA"}, abs=1e-12)
    if name == "fuzzy":  # so is the plain reference
        plain = evaluate(pairs, {raw["service_name"]: raw for raw in splits["dev"].raw}, seen)
        found, wanted = ({key: of[METRICS[JOINT]] for key, of in some.items()} for some in (plain, expected))
        assert found == pytest.approx(wanted, abs=1e-12)


SERVICE = service("Cafes_1", [slot("kind", "", "tea", "coffee"), slot("time"), slot("street")], (), "Cafes")
SAID = st.sampled_from(["tea", "coffee", "6 pm", "6:00 pm", "Rue É.", "", "PM 6", "十"])
VALUES = st.lists(SAID, min_size=1, max_size=3)
FIELDS = {
    "active_intent": st.sampled_from(["Find", "NONE"]),
    "requested_slots": st.lists(st.sampled_from(["kind", "time"]), max_size=3),
    "slot_values": st.dictionaries(st.sampled_from(["kind", "time", "street"]), VALUES),
}
STATES = st.fixed_dictionaries(FIELDS)
SPAN = st.tuples(st.sampled_from(["kind", "time", "street"]), st.integers(0, 12), st.integers(0, 5))
SPANS = st.lists(SPAN.map(lambda of: {"slot": of[0], "start": of[1], "exclusive_end": of[1] + of[2]}), max_size=3)
UTTERANCE = "tea at 6 pm, Rue É."


@given(STATES, STATES, SPANS, st.none() | SPANS, st.booleans())
@settings(max_examples=300 if THOROUGH else 100)
def test_equals_the_plain_reference(wanted, given_, spans, predicted, fuzzy):
    other = {"state": given_} | ({} if predicted is None else {"slots": predicted})
    expected = frame_metrics({"state": wanted, "slots": spans}, other, UTTERANCE, SERVICE, fuzzy)
    texts = [[(s["slot"], UTTERANCE[s["start"] : s["exclusive_end"]]) for s in of or ()] for of in (spans, predicted)]
    spoken = None if predicted is None else (texts[0], texts[1])
    found, wrong = score_frame(State(**wanted), State(**given_), slots_of(parse_service(SERVICE)), spoken, fuzzy)
    known = {name: value for name, value in zip(METRICS, found, strict=True) if not math.isnan(value)}
    assert known == pytest.approx(expected, abs=1e-12)
    assert math.prod(slot.score for slot in wrong) == pytest.approx(expected["joint_goal_accuracy"])


def test_long_predictions_are_cut_in_rows():
    """Values may be long, and Beam keeps all that is exchanged in memory."""
    long = State("", [], {"time": ["x" * 2000]})
    _, (wrong,) = score_frame(State("", [], {}), long, slots_of(parse_service(SERVICE)))
    assert wrong.predicted == "x" * 999 + "…"


@given(st.text(max_size=12), st.text(max_size=12))
def test_fuzzy_score_is_the_plain_match(first, second):
    assert fuzzy_score(first, second) == match(first, second, True)
    assert fuzzy_score(first, second) == fuzzy_score(second, first)


def frame(value, turn=0, dialogue_id="1", position=0):
    values = (value,) * len(METRICS)
    return Scored(dialogue_id, turn, position, f"Cafes_{position}", "", values, (), ("", ""))


def test_sensitivity_as_worked_by_hand():
    assert doctest.testmod(statistics).failed == 0
    right = [[frame(value), frame(0.0, turn=2)] for value in (1.0, 1.0, 1.0, 0.0, 0.0)]
    measured = frames.measured([right], lambda name: frames.keys_of(name, frozenset()))
    found = {zero: frames.means(frames.add_up_coefficients(measured, zero)) for zero in statistics.POLICIES}
    jga = {name: of["#UNSEEN_SERVICES"]["joint_goal_accuracy"] for name, of in found.items()}
    deviation = math.sqrt((3 * 0.4**2 + 2 * 0.6**2) / 4)
    assert jga == pytest.approx({"zero": deviation / 0.6 / 2, "drop": deviation / 0.6})


def plain_sensitivity(values, zero):
    """SGD-X, equations 1 to 3, of (variant, turn), and the coefficient of each turn: NaN where it does not count."""
    mean, spread = values.mean(axis=0), values.std(axis=0, ddof=1)
    of_turns = np.divide(spread, mean, out=np.full(len(mean), 0.0 if zero == "zero" else np.nan), where=mean > 0)
    return float(np.nanmean(of_turns)) if np.isfinite(of_turns).any() else math.nan, of_turns


def plain_interval(dialogues, of_turns, seed, replicates):
    """The percentiles of the mean when each dialogue counts as often as its weight says."""
    drawn = [statistics.weights(seed, name, replicates) for name in dialogues]
    weights = np.array(drawn) * np.isfinite(of_turns)[:, None]
    with np.errstate(invalid="ignore"):
        return np.nanquantile(np.nan_to_num(of_turns) @ weights / weights.sum(axis=0), [0.025, 0.975])


@given(st.integers(0, 2**32), st.integers(2, 6), st.integers(1, 30), st.sampled_from([0.0, 0.3, 0.9]))
@settings(max_examples=60 if THOROUGH else 25)
def test_sensitivity_of_random_predictions_is_the_plain_one(seed, n_variants, n, wrong):
    random = np.random.default_rng(seed)
    # Random dialogues of turns of one to three frames; random scores, of which some are 0 under all variants.
    places = [(f"d{i % 7}", i // 7, j) for i in range(n) for j in range(random.integers(1, 4))]
    places.sort()
    values = random.choice([0.0, 0.07, 0.5, 0.93, 1.0, 1.0], (n_variants, len(places)))
    values[:, random.random(len(places)) < wrong] = 0.0
    scores = [scores_of(places, row) for row in values]
    for zero in statistics.POLICIES:
        expected, of_frames = plain_sensitivity(values, zero)
        assert parapet.schema_sensitivity(scores, zero=zero) == pytest.approx(expected, abs=1e-12, nan_ok=True)
        interval = parapet.schema_sensitivity_interval(scores, zero=zero, replicates=200, seed=seed)
        low, high = (math.nan, math.nan)
        if not math.isnan(expected):
            low, high = plain_interval([name for name, *_ in places], of_frames, str(seed), 200)
        if high - low < 1e-9:  # without width it would claim certainty
            low, high = (math.nan, math.nan)
        assert interval == pytest.approx((low, high), abs=1e-12, nan_ok=True)


def test_intervals_across_turns_are_of_the_products():
    places = [("d0", 0, 0), ("d0", 0, 1), ("d0", 2, 0), ("d1", 0, 0), ("d1", 0, 1), ("d2", 0, 0)]
    products = np.array([0.5, 1.0, 0.0, 1.0])  # d0 has two turns
    scores = scores_of(places, np.array([1.0, 0.5, 1.0, 0.9, 0.0, 1.0]), across_turn=True)
    expected = plain_interval(["d0", "d0", "d1", "d2"], products, "0", 300)
    assert scores.interval(replicates=300) == pytest.approx(expected, abs=1e-12)
    assert scores.interval("average_goal_accuracy", replicates=300) != pytest.approx(expected, abs=1e-3)
    # Of the services Cafes_1 only the second frames count.
    of_service = scores.interval(services="Cafes_1", replicates=300)
    assert of_service == pytest.approx(plain_interval(["d0", "d1"], np.array([0.5, 0.0]), "0", 300), abs=1e-12)


def scores_of(places, values, across_turn=False):
    """Scores of frames at (dialogue, turn, frame)."""
    by_dialogue = {}
    for (name, at, position), value in zip(places, values.tolist(), strict=True):
        by_dialogue.setdefault(name, []).append(frame(value, at, name, position))
    references = References(Set("v", "variant", {}, frozenset()), "", [])
    return Scores("v", {}, {}, list(by_dialogue.values()), references, across_turn)
