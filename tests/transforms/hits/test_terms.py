from decimal import Decimal

import pytest
from kit import raised

from parapet.schemas.errors import InputError
from parapet.schemas.service import TASKS
from parapet.transforms.crowd.hits.terms import RATINGS, REWRITES, VALIDITY, WORDING, Terms


def test_a_fixed_reward_is_written_with_cents():
    assert str(Terms(reward=Decimal("2.5")).reward_for("names", 400)) == "2.50"


def test_the_upper_fee_begins_at_ten_assignments():
    assert Terms(assignments=9).fees_for(Decimal("1.00")) == Decimal("1.80")
    assert Terms(assignments=10).fees_for(Decimal("1.00")) == Decimal("4.00")


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
    assert str(raised(InputError, Terms, **{name: value})).startswith(f"--{name}: ")


def test_wordings_fit():
    assert set(WORDING) == {*TASKS, REWRITES, RATINGS, VALIDITY}
    for wording in WORDING.values():
        assert 0 < len(wording.title) <= 128
        assert 0 < len(wording.description) <= 2_000
        assert 0 < len(wording.keywords) <= 1_000
