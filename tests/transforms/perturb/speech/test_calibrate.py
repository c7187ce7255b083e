"""Shares of errors, the search for noises and the level of a set: against a plain search through all there is."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import cases, raised

from parapet.schemas.errors import InputError
from parapet.transforms.perturb.speech import alignment
from parapet.transforms.perturb.speech.alignment import (
    LEVELS,
    Calibration,
    choose_ratio,
    set_name,
    share,
    with_levels,
)
from parapet.transforms.perturb.speech.spoken import DRAWS

RATIOS = (20.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0)
TARGETS = (0.1, 0.2, 0.3)
SETS = Calibration(RATIOS, TARGETS)

DRAW = st.one_of(st.integers(0, DRAWS - 1), st.sampled_from([0, DRAWS // 2 - 1, DRAWS // 2, DRAWS - 1]))

RATE = "at these signal-to-noise ratios the word error rate is"


def plain_share(draw, level):
    """The quantile of the triangular distribution by bisection of its cumulative distribution function."""
    half = min(level, 1 - level)
    low, high = level - half, level + half
    for _ in range(80):
        x = (low + high) / 2
        part = (x - (level - half)) / half if half else 1
        below = part**2 / 2 if part < 1 else 1 - (2 - part) ** 2 / 2
        low, high = (x, high) if below < (draw + 0.5) / DRAWS else (low, x)
    return low


@given(DRAW, st.integers(1, LEVELS - 1))
def test_shares_are_of_a_triangular_distribution(draw, level):
    assert share(draw, level) == pytest.approx(plain_share(draw, level / LEVELS), abs=1e-6)


# What a text was heard as: errors by ratio, of some words; a recogniser may hear better through a louder noise.
ERRORS = {words: st.lists(st.integers(0, words + 2), min_size=7, max_size=7) for words in range(1, 13)}
HEARD = st.integers(1, 12).flatmap(lambda words: st.tuples(st.just(words), ERRORS[words]))
TURNS = st.lists(st.tuples(HEARD, DRAW), min_size=1, max_size=12)


def searched(errors, words, *draws, plan=SETS):
    """What a text is heard through, and as."""
    heard = {}
    while (snr := plan.next_ratio(heard, words, draws)) is not None:
        assert snr not in heard
        heard[snr] = errors[RATIOS.index(snr)]
    return heard


def plain_choice(heard, words, draw, level):
    """The ratio whose errors are nearest to the turn's share: the fewest of equals, then the highest."""
    wanted = share(draw, level) * words
    return min((abs(errors - wanted), errors, -snr, snr) for snr, errors in heard.items())[-1]


@given(HEARD, DRAW, st.integers(0, LEVELS))
def test_the_choice_is_that_of_a_plain_search(heard, draw, level):
    words, errors = heard
    known = dict(zip(RATIOS, errors, strict=True))
    assert choose_ratio(known, words, draw, level) == plain_choice(known, words, draw, level)


@given(HEARD, DRAW, st.lists(st.integers(0, LEVELS), min_size=2, max_size=4))
def test_a_turn_has_no_fewer_errors_in_the_set_of_a_higher_rate(heard, draw, levels):
    words, errors = heard
    known = searched(errors, words, draw)
    chosen = [choose_ratio(known, words, draw, level) for level in sorted(levels)]
    assert [known[snr] for snr in chosen] == sorted(known[snr] for snr in chosen)
    # As many errors are the same errors: nothing else is heard where a rate asks for no more.
    assert len(set(chosen)) == len({known[snr] for snr in chosen})


@given(HEARD, st.lists(DRAW, min_size=1, max_size=3))
def test_where_noise_makes_errors_the_search_finds_what_all_ratios_would_give(heard, draws):
    """Up to the levels that are sought; with fewer ratios heard where not all are needed."""
    words, errors = heard
    errors = sorted(errors)
    known, every = searched(errors, words, *draws), dict(zip(RATIOS, errors, strict=True))
    for draw in draws:
        for level in (500, 1000, 2000, 3500, 4800):
            ratio = choose_ratio(known, words, draw, level)
            assert known[ratio] == every[choose_ratio(every, words, draw, level)]
    assert [snr for snr in RATIOS if snr in known] == sorted(known, reverse=True)
    at = [RATIOS.index(snr) for snr in known]
    assert max(at) - min(at) + 1 == len(at), "no ratio between two is passed over"


@given(TURNS, st.sampled_from([0.05, 0.1, 0.2, 0.3, 0.5, 0.9]), st.randoms(use_true_random=False))
def test_the_level_is_the_nearest_of_all(turns, target, drawn):
    known = [(dict(zip(RATIOS, errors, strict=True)), words, draw) for (words, errors), draw in turns]
    bins = {}
    for errors, words, draw in known:
        for level, more in alignment.steps(errors, words, draw):
            before = bins.get(level, (0, 0))
            bins[level] = (before[0] + (0 if level else words), before[1] + more)
    given = list(bins.items())
    drawn.shuffle(given)
    # A level only matters where some turn changes, which all bins name: those are all that a plain search need try.
    totals = {}
    for level in sorted({0, *bins, *(level - 1 for level in bins if level)}):
        totals[level] = sum(errors[plain_choice(errors, words, draw, level)] for errors, words, draw in known)
    assert list(totals.values()) == sorted(totals.values())
    wanted = target * sum(words for _, words, _ in known)
    best = min(abs(errors - wanted) for errors in totals.values())
    plan = Calibration(RATIOS, (target,))
    every = max(sum(words for _, words, _ in known), 1)
    if not min(totals.values()) <= wanted <= max(totals.values()) and best > alignment.CLOSE * every:
        raised(InputError, with_levels, plan, given, match=f"{set_name(target)}: ")
        return
    (found,) = with_levels(plan, given).levels
    reached = sum(errors[plain_choice(errors, words, draw, found)] for errors, words, draw in known)
    assert abs(reached - wanted) == pytest.approx(best, abs=1e-9)


@given(st.integers(1, 9999))
def test_each_hundredth_of_a_percent_has_its_own_name(n):
    assert float(set_name(n / 10000).removeprefix("SR-")) == pytest.approx(n / 100, rel=1e-9)
    assert len(set_name(n / 10000)) <= len("SR-99.99")


@cases("target", 0.1, 0.6)
def test_a_target_that_the_whole_does_not_have(target):
    bins = [(0, (10_000, 2000)), (400, (0, 1000)), (700, (0, 2000))]
    hint = "a higher --snr" if target == 0.1 else "a lower --snr"
    said = f"{RATE} 20.0% to 50.0%, but the target is {target:.1%}; {hint} causes "
    raised(InputError, with_levels, Calibration(RATIOS, (target,)), bins, match=re.escape(said))
    assert with_levels(Calibration(RATIOS, (0.29,)), iter(bins)).levels == (400,)
