"""The metrics of dialogue states: equal to the published numbers, to a plain reference, and to cases worked by hand."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.evaluate_reference import evaluate, frame_metrics, match
from parapet.evaluation import bootstrap
from parapet.evaluation.dst import files, sensitivity, totals
from parapet.evaluation.dst.files import Scored
from parapet.evaluation.dst.frames import METRICS, State, fuzzy_score, score_frame, slots_of
from parapet.schemas.layout import read_root
from parapet.schemas.service import parse_service

SETTINGS = {
    "exact": (files.ScoreConfig(fuzzy=False), False),
    "fuzzy": (files.ScoreConfig(), False),
    "fuzzy_joint_across_turn": (files.ScoreConfig(), True),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_equals_the_official_scoring(real_data: Path, name: str) -> None:
    settings, across_turn = SETTINGS[name]
    expected = json.loads((real_data / "evaluation" / "expected_dev.json").read_bytes())[name]
    splits = {split.split: split.services for split in read_root(real_data / "sgd")}
    services = {service.service_name: slots_of(service) for service in splits["dev"]}
    seen = frozenset(service.service_name for service in splits["train"])
    found = []
    for path in sorted((real_data / "evaluation" / "predictions" / "dev").glob("*.json")):
        reference = files.parse_dialogues((real_data / "sgd" / "dev" / path.name).read_bytes(), path)
        predicted = files.by_id(files.parse_dialogues(path.read_bytes(), path), path)
        found.append(totals.add_up(files.score_dialogues(reference, predicted, services, settings), seen, across_turn))
    metrics = totals.means(totals.merged(found))
    assert metrics.keys() == expected.keys()
    for key, of in expected.items():
        assert metrics[key] == pytest.approx({name: value for name, value in of.items() if value != "NA"}, abs=1e-12)


SERVICE = {
    "service_name": "Cafes_1",
    "description": "Cafes",
    "slots": [
        {"name": "kind", "description": "", "is_categorical": True, "possible_values": ["tea", "coffee"]},
        {"name": "time", "description": "", "is_categorical": False, "possible_values": []},
        {"name": "street", "description": "", "is_categorical": False, "possible_values": []},
    ],
    "intents": [],
}
VALUES = st.lists(
    st.sampled_from(["tea", "coffee", "6 pm", "6:00 pm", "Rue É.", "", "PM 6", "十"]), min_size=1, max_size=3
)
STATES = st.fixed_dictionaries(
    {
        "active_intent": st.sampled_from(["Find", "NONE"]),
        "requested_slots": st.lists(st.sampled_from(["kind", "time"]), max_size=3),
        "slot_values": st.dictionaries(st.sampled_from(["kind", "time", "street"]), VALUES),
    }
)
SPANS = st.lists(
    st.builds(
        lambda slot, start, length: {"slot": slot, "start": start, "exclusive_end": start + length},
        st.sampled_from(["kind", "time", "street"]),
        st.integers(0, 12),
        st.integers(0, 5),
    ),
    max_size=3,
)
UTTERANCE = "tea at 6 pm, Rue É."


@given(STATES, STATES, SPANS, st.none() | SPANS, st.booleans())
@settings(max_examples=300, deadline=None)
def test_equals_the_plain_reference(wanted: Any, given_: Any, spans: Any, predicted: Any, fuzzy: bool) -> None:
    reference: dict[str, Any] = {"state": wanted, "slots": spans}
    other: dict[str, Any] = {"state": given_} | ({} if predicted is None else {"slots": predicted})
    expected = frame_metrics(reference, other, UTTERANCE, SERVICE, fuzzy)
    texts = [[(s["slot"], UTTERANCE[s["start"] : s["exclusive_end"]]) for s in of or ()] for of in (spans, predicted)]
    found, wrong = score_frame(
        State(**wanted),
        State(**given_),
        slots_of(parse_service(SERVICE)),
        None if predicted is None else (texts[0], texts[1]),
        fuzzy,
    )
    known = {name: value for name, value in zip(METRICS, found, strict=True) if not math.isnan(value)}
    assert known == pytest.approx(expected, abs=1e-12)
    joint = 1.0
    for one in wrong:
        joint *= one.score
    assert joint == pytest.approx(expected["joint_goal_accuracy"])


@given(st.text(max_size=12), st.text(max_size=12))
def test_fuzzy_score_is_the_plain_match(first: str, second: str) -> None:
    assert fuzzy_score(first, second) == match(first, second, True)
    assert fuzzy_score(first, second) == fuzzy_score(second, first)


def test_fuzzy_scores_of_known_pairs() -> None:
    # "6 half past" and "30 6 pm" share "6 p": 2 * 3 of 18 characters.
    pairs = {("6 pm", "PM 6"): 1.0, ("half past 6", "6:30 pm"): 0.33, ("", "x"): 0.0, ("?!", "!?"): 0.0, ("", ""): 1.0}
    assert {pair: fuzzy_score(*pair) for pair in pairs} == pairs


def frame(value: float, turn: int = 0, dialogue_id: str = "1", service: str = "Cafes_1") -> Scored:
    return Scored(dialogue_id, turn, 0, service, "", (value,) * len(METRICS), (), ("", ""))


def test_sensitivity_as_worked_by_hand() -> None:
    check = "import doctest, sys, parapet.evaluation.dst.sensitivity as it; sys.exit(doctest.testmod(it).failed)"
    subprocess.run([sys.executable, "-c", check], check=True)
    right = [[frame(value), frame(0.0, turn=2)] for value in (1.0, 1.0, 1.0, 0.0, 0.0)]
    services = {"Cafes_1": "Cafes_1"}
    found = {name: totals.means(of) for name, of in sensitivity.add_up([right], services, frozenset()).items()}
    jga = {name: of["#UNSEEN_SERVICES"]["joint_goal_accuracy"] for name, of in found.items()}
    deviation = math.sqrt((3 * 0.4**2 + 2 * 0.6**2) / 4)
    assert jga == pytest.approx(
        {
            "frame/drop": deviation / 0.6,
            "frame/zero": deviation / 0.6 / 2,
            "turn/drop": deviation / 0.6,
            "turn/zero": deviation / 0.6 / 2,
        }
    )


def test_a_turn_is_the_product_of_its_frames() -> None:
    two = [[frame(a), frame(b)] for a, b in ((1.0, 0.5), (1.0, 1.0), (0.5, 0.5))]
    (_, found, means) = sensitivity.coefficients(two, "turn")[0]
    joint = METRICS.index("joint_goal_accuracy")
    products = [0.5, 1.0, 0.25]
    assert found[joint] == pytest.approx(np.std(products, ddof=1) / np.mean(products))
    averages = [0.75, 1.0, 0.5]
    assert means[0] == pytest.approx(np.mean(averages))


def test_sums_are_the_same_in_any_order() -> None:
    parts = [totals.add_up([[frame(0.1 * i, dialogue_id=str(i))]], frozenset()) for i in range(40)]
    assert totals.merged(parts) == totals.merged(reversed(parts))
    halves = [totals.merged(parts[::2]), totals.merged(parts[1::2])]
    assert totals.means(totals.merged(halves)) == totals.means(totals.merged(parts))


def test_bootstrap_finds_the_spread_of_a_mean() -> None:
    values = np.random.default_rng(7).normal(0.6, 0.2, 400)
    found = sum(
        bootstrap.resampled(bootstrap.weights("0", str(i), 2000), [value], [1]) for i, value in enumerate(values)
    )
    between = bootstrap.interval(bootstrap.means(found)[:, 0])
    assert between is not None
    error = 1.96 * np.std(values, ddof=1) / math.sqrt(400)
    assert between == pytest.approx((values.mean() - error, values.mean() + error), abs=error / 8)
    assert bootstrap.interval(np.array([math.nan])) is None


def test_official_mode_counts_what_it_passes_over() -> None:
    user = {"speaker": "USER", "utterance": "tea", "frames": [{"service": "Cafes_1", "state": _state(kind=["tea"])}]}
    odd = {**user, "frames": [{"service": "Cafes_1", "state": _state(kind=["tea"], colour=["red"])}]}
    system = {"speaker": "SYSTEM", "utterance": "ok", "frames": []}
    reference = _parsed({"dialogue_id": "1", "turns": [user, system, user]}, {"dialogue_id": "2", "turns": [user]})
    predicted = files.by_id(_parsed({"dialogue_id": "1", "turns": [odd]}), "")
    found = files.PassedOver()
    services = {"Cafes_1": slots_of(parse_service(SERVICE))}
    scored = list(files.score_dialogues(reference, predicted, services, files.ScoreConfig(official=True), "", found))
    assert [len(of) for of in scored] == [1]
    assert scored[0][0].values[METRICS.index("joint_goal_accuracy")] == 1.0
    assert (found.missing_dialogues, found.missing_turns, found.unknown_slots) == (1, 2, 1)


def _state(**values: list[str]) -> dict[str, Any]:
    return {"active_intent": "Find", "requested_slots": [], "slot_values": values}


def _parsed(*dialogues: Any) -> list[files.Dialogue]:
    return files.parse_dialogues(json.dumps(dialogues).encode(), "p.json")


def test_the_plain_reference_equals_the_official_scoring(real_data: Path) -> None:
    place = real_data / "evaluation" / "predictions" / "dev"
    splits = {split.split: split for split in read_root(real_data / "sgd")}
    pairs = [(real_data / "sgd" / "dev" / path.name, path) for path in sorted(place.glob("*.json"))]
    services = {raw["service_name"]: raw for raw in splits["dev"].raw}
    seen = {service.service_name for service in splits["train"].services}
    expected = json.loads((real_data / "evaluation" / "expected_dev.json").read_bytes())["fuzzy"]
    found = evaluate(pairs, services, seen)
    assert {key: of["joint_goal_accuracy"] for key, of in found.items()} == pytest.approx(
        {key: of["joint_goal_accuracy"] for key, of in expected.items()}, abs=1e-12
    )
