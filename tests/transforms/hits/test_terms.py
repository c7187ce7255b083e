from decimal import Decimal

import pytest

from parapet.schemas.errors import InputError
from parapet.schemas.service import TASKS, task_id
from parapet.transforms.crowd.hits.terms import (
    MAX_ANNOTATION,
    RATINGS,
    REWRITES,
    VALIDITY,
    WORDING,
    Terms,
    plain,
)


@pytest.mark.parametrize(
    ("wage", "fields", "reward"),
    [
        ("15", 13, "1.34"),  # 320 s: 1.3333...
        ("15", 0, "0.25"),  # 60 s exactly: nothing to round
        ("7.25", 1, "0.17"),  # 80 s: 0.16111...
    ],
)
def test_reward_is_rounded_up_to_the_cent(wage, fields, reward):
    assert Terms(hourly_wage=Decimal(wage)).reward_for("names", fields) == Decimal(reward)


def test_descriptions_take_longer_than_names():
    terms = Terms()
    assert terms.seconds("names", 10) == 260
    assert terms.seconds("descriptions", 10) == 360


def test_a_rewriting_is_paid_for_its_answers_and_for_what_is_read():
    terms = Terms()
    assert terms.seconds(REWRITES, 4, 7) == 135
    assert terms.reward_for(REWRITES, 4, 7) == Decimal("0.57")  # 0.5625
    assert Terms(turn_seconds=Decimal(0)).seconds(REWRITES, 4, 100) == 100


def test_options_leave_out_the_estimates_of_the_other_task():
    assert {"name_seconds", "reading_seconds"} <= Terms().options(TASKS).keys()
    assert "rewrite_seconds" not in Terms().options(TASKS)
    assert {"rewrite_seconds", "turn_seconds"} <= Terms().options([REWRITES]).keys()
    assert "name_seconds" not in Terms().options([REWRITES])


def test_a_fixed_reward_is_written_with_cents():
    assert str(Terms(reward=Decimal("2.5")).reward_for("names", 400)) == "2.50"


def test_the_upper_fee_begins_at_ten_assignments():
    assert Terms(assignments=9).fees_for(Decimal("1.00")) == Decimal("1.80")
    assert Terms(assignments=10).fees_for(Decimal("1.00")) == Decimal("4.00")


def test_fees_are_exact_rounded_up_and_at_least_a_cent_each():
    assert Terms(assignments=3).fees_for(Decimal("0.33")) == Decimal("0.20")  # 0.198
    assert Terms(assignments=9).fees_for(Decimal("0.01")) == Decimal("0.09")
    # Floats would make 0.1 * 3 * 0.2 a hair more than 0.06, and the cent too many.
    assert Terms(assignments=3).fees_for(Decimal("0.10")) == Decimal("0.06")


def test_workers_have_an_hour_or_four_times_the_estimate():
    assert Terms().duration("names", 5) == 3_600
    assert Terms().duration("descriptions", 60) == 8_100  # 1,860 s, so 7,440 s, in whole quarters of an hour
    assert Terms(assignment_minutes=10).duration("descriptions", 60) == 600


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hourly_wage", Decimal(0)),
        ("reward", Decimal("0")),
        ("reward", Decimal("1.234")),
        ("reward", Decimal("-1")),
        ("fee", Decimal("20")),
        ("extra_fee", Decimal("-0.1")),
        ("assignments", 0),
        ("auto_approval_hours", 721),
        ("lifetime_days", 0),
        ("assignment_minutes", 0),
        ("reading_seconds", Decimal("-1")),
    ],
)
def test_what_mturk_would_refuse_is_refused_with_the_flag(name, value):
    with pytest.raises(InputError) as caught:
        Terms(**{name: value})
    assert str(caught.value).startswith(f"--{name}: ")


def test_wordings_fit():
    assert set(WORDING) == {*TASKS, REWRITES, RATINGS, VALIDITY}
    for wording in WORDING.values():
        assert 0 < len(wording.title) <= 128
        assert 0 < len(wording.description) <= 2_000
        assert 0 < len(wording.keywords) <= 1_000


def test_the_longest_service_name_fits_the_annotation():
    assert len(task_id("S" * 100, "descriptions")) <= MAX_ANNOTATION


def test_decimals_are_written_without_exponent():
    assert plain(Decimal("1E+2")) == "100"
    assert plain(7) == 7
