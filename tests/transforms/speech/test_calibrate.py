"""Brackets and thresholds: by curves made up here, and against a search through every threshold there is."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schemas.errors import InputError
from transforms.speech.calibrate import CLOSE, Errors, Setting, brackets, set_name, thresholds, unreachable
from transforms.speech.turns import DRAWS


def curve_of(*rates: float, words: int = 1000) -> dict[float, Errors]:
    """From 20 dB on, 2 dB louder each."""
    return {20.0 - 2 * i: Errors(round(rate * words), words) for i, rate in enumerate(rates)}


@pytest.mark.parametrize(
    ("rates", "target", "quiet", "loud"),
    [
        ((0.02, 0.08, 0.15, 0.3, 0.6), 0.1, 18, 16),
        ((0.02, 0.08, 0.15, 0.3, 0.6), 0.2, 16, 14),
        ((0.02, 0.08, 0.15, 0.3, 0.6), 0.5, 14, 12),
        # A level that has the target, or nearly, is passed over: the whole is not the sample.
        ((0.02, 0.08, 0.2, 0.3, 0.6), 0.2, 18, 14),
        ((0.02, 0.08, 0.19, 0.22, 0.6), 0.2, 18, 12),
        # Unless there is none beyond it.
        ((0.2, 0.3, 0.6), 0.2, 20, 18),
        ((0.19, 0.21, 0.6), 0.2, 20, 16),
        ((0.02, 0.1, 0.2), 0.2, 18, 16),
        ((0.02, 0.1, 0.195), 0.2, 18, 16),
        ((0.1, 0.3), 0.2, 20, 18),
        ((0.2, 0.205), 0.2, 20, 18),
        ((0.2, 0.2), 0.2, 20, 18),
        # More errors through a quieter noise, by chance.
        ((0.05, 0.3, 0.1, 0.5), 0.2, 16, 14),
        ((0.3, 0.05, 0.1, 0.5), 0.2, 16, 14),
        ((0.05, 0.3, 0.1), 0.2, 20, 18),
        ((0.1, 0.05, 0.06, 0.3), 0.08, 16, 14),
    ],
)
def test_the_two_noises_of_a_target(rates: tuple[float, ...], target: float, quiet: float, loud: float) -> None:
    curve = curve_of(*rates)
    assert brackets([target], curve) == [Setting(target, quiet, loud)]
    assert brackets([target], dict(reversed(curve.items()))) == [Setting(target, quiet, loud)]


RATES = st.lists(st.floats(0, 1), min_size=2, max_size=7)


@settings(deadline=None, max_examples=300)
@given(RATES, st.floats(0.01, 0.99))
def test_the_target_lies_between_the_two_noises(rates, target) -> None:
    curve = curve_of(*rates)
    try:
        (found,) = brackets([target], curve)
    except InputError:
        found = None
    if found:
        assert found.quiet > found.loud
        assert curve[found.quiet].rate - CLOSE <= target <= curve[found.loud].rate + CLOSE
        assert found.threshold is None
        inside = [errors.rate for snr, errors in curve.items() if found.loud < snr < found.quiet]
        assert all(abs(rate - target) < 0.15 * target + 1e-9 for rate in inside), "nothing nearer would have done"
    rising = sorted(errors.rate for errors in curve.values())
    if rising == [errors.rate for errors in curve.values()] and rising[0] <= target <= rising[-1]:
        assert found


def test_several_targets_each_have_their_own() -> None:
    found = brackets([0.3, 0.1], curve_of(0.02, 0.15, 0.6))
    assert found == [Setting(0.3, 18, 16), Setting(0.1, 20, 18)]


def test_what_cannot_be_had_says_what_to_do() -> None:
    said = "of the words are heard wrong through these noises"
    with pytest.raises(InputError, match=f"SR-5: 10.0% to 30.0% {said}, and 5.0% are asked for; a quieter"):
        brackets([0.05], curve_of(0.1, 0.2, 0.3))
    with pytest.raises(InputError, match="--language_model own"):
        brackets([0.05], curve_of(0.1, 0.2, 0.3))
    with pytest.raises(
        InputError, match=f"SR-50: 10.0% to 30.0% {said}, and 50.0% are asked for; a louder --snr makes"
    ):
        brackets([0.5], curve_of(0.1, 0.2, 0.3))
    with pytest.raises(InputError, match="SR-5: "):
        brackets([0.2, 0.05], curve_of(0.1, 0.2, 0.3))


@pytest.mark.parametrize("target", [0.05, 0.5])
def test_what_cannot_be_had_is_told_with_both_ends_of_the_curve(target: float) -> None:
    with pytest.raises(InputError, match=r"10\.0% to 30\.0% of the words are heard wrong"):
        brackets([target], curve_of(0.1, 0.2, 0.3))


def test_why_a_target_cannot_be_had() -> None:
    low, high = unreachable(0.125, 0.2, 0.4), unreachable(0.5, 0.2, 0.4)
    said = "20.0% to 40.0% of the words are heard wrong through these noises, and"
    assert low.startswith(f"SR-12.5: {said} 12.5% are asked for; ")
    assert "a quieter --snr" in low
    assert "--language_model own" in low
    assert high.startswith(f"SR-50: {said} 50.0% are asked for; ")
    assert "a louder --snr" in high


@pytest.mark.parametrize(
    ("target", "name"),
    [(0.1, "SR-10"), (0.2, "SR-20"), (0.07, "SR-7"), (0.29, "SR-29"), (0.125, "SR-12.5"), (0.005, "SR-0.5")],
)
def test_names_of_sets(target: float, name: str) -> None:
    assert set_name(target) == Setting(target, 20, 10).name == name


@given(st.integers(1, 9999))
def test_each_hundredth_of_a_percent_has_its_own_name(n) -> None:
    assert float(set_name(n / 10000).removeprefix("SR-")) == pytest.approx(n / 100, rel=1e-9)
    assert len(set_name(n / 10000)) <= len("SR-99.99")


def test_through_which_noise_a_turn_is_heard() -> None:
    setting = Setting(0.2, 15, 9, 4000)
    assert [setting.snr(draw) for draw in (0, 3999, 4000, 9999)] == [9, 9, 15, 15]
    assert setting.levels(3999) == (9,)
    assert Setting(0.2, 15, 9).levels(3999) == (15, 9)
    assert {Setting(0.2, 15, 9, 0).snr(draw) for draw in range(DRAWS)} == {15}
    assert {Setting(0.2, 15, 9, DRAWS).snr(draw) for draw in range(DRAWS)} == {9}
    assert Errors(3, 12).rate == 0.25
    assert Errors(0, 0).rate == 0


BINS = st.dictionaries(
    st.one_of(st.integers(0, DRAWS - 1), st.sampled_from([0, 1, DRAWS - 2, DRAWS - 1])),
    st.tuples(st.integers(1, 20), st.integers(0, 20), st.integers(0, 25)),
    max_size=6,
)


@settings(deadline=None, max_examples=40)
@given(BINS, st.sampled_from([0.05, 0.1, 0.2, 0.3, 0.5]), st.randoms(use_true_random=False))
@example({0: (10, 0, 10)}, 0.5, None)
@example({DRAWS - 1: (10, 0, 10)}, 0.9, None)
@example({}, 0.2, None)
@example({5: (10, 2, 2)}, 0.2, None)
def test_the_threshold_is_the_nearest_of_all(bins, target, drawn) -> None:
    setting = Setting(target, 15, 9)
    given = [((target, draw), sums) for draw, sums in bins.items()]
    given.append(((0.99, 17), (100, 0, 100)))  # of another set
    if drawn:
        drawn.shuffle(given)
    words = sum(n for n, _, _ in bins.values())
    every = [0] * (DRAWS + 1)
    for draw, (_, quiet, loud) in bins.items():
        for threshold in range(DRAWS + 1):
            every[threshold] += loud if draw < threshold else quiet
    best = min(abs(errors - target * words) for errors in every)
    found = reason = None
    try:
        (found,) = thresholds([setting], given)
    except InputError as error:
        reason = error.reason
    if reason is not None:
        assert best > CLOSE * words
        assert reason.startswith(f"SR-{100 * target:g}: ")
        assert not every[0] < target * words < every[-1], "between the two it can be had"
    else:
        assert (found.target, found.quiet, found.loud) == (target, 15, 9)
        assert 0 <= found.threshold <= DRAWS
        assert abs(every[found.threshold] - target * words) == pytest.approx(best, abs=1e-9)
        assert best <= CLOSE * words + 1e-9 or every[0] <= target * words <= every[-1]


def test_thresholds_that_are_carried_over_stay() -> None:
    given = [Setting(0.2, 15, 9, 4000), Setting(0.3, 12, 5), Setting(0.9, 12, 5, 0)]
    bins = [((0.3, draw), (10, 0, 10)) for draw in range(0, 10000, 100)]
    found = thresholds(given, iter(bins))
    assert found == [given[0], Setting(0.3, 12, 5, 2901), given[2]]


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (
            0.1,
            "20.0% to 50.0% of the words are heard wrong through these noises, and 10.0% are asked for; a quieter",
        ),
        (
            0.6,
            "20.0% to 50.0% of the words are heard wrong through these noises, and 60.0% are asked for; a louder",
        ),
    ],
)
def test_a_target_that_the_whole_does_not_have(target: float, said: str) -> None:
    bins = [((target, draw), (10, 2, 5)) for draw in range(1000)]
    with pytest.raises(InputError, match=re.escape(said)):
        thresholds([Setting(target, 15, 9)], bins)
