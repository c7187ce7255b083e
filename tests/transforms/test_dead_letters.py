"""How many records may be bad, and what is said where there are more."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st
from kit import raised

from parapet.schemas.errors import InputError
from parapet.transforms.core.counts import Tally, check_bad, warnings_of
from parapet.transforms.core.options import parse_share

ONE = Fraction(1, 100)


def refused(tallies, max_bad=ONE):
    reasons, examples = {"bad_span": 3, "not_sgd": 7}, ["a: 1", "b: 2", "c: 3", "d: 4"]
    return raised(InputError, check_bad, tallies, max_bad, "used", reasons, examples).reason


def test_where_all_are_bad_no_limit_is_advised():
    some, none = Tally("dialogue", 9, 1, "v1", True), Tally("dialogue", 9, 9, "v2", True)
    assert "--max_bad 100" not in refused([some, none])
    check_bad([some, none], Fraction(1), "used", {}, [])
    first, *_ = warnings_of([some, none], {"bad_span": 10}, "x", "left out")
    assert first == "v2 contains no dialogue: none of 9 can be used"
    for limit in (ONE, Fraction(1)):
        reason = refused([Tally("file", 2, 0), none], limit)
        assert reason.startswith("9 of 9 dialogues of v2 could not be used, so there is nothing to publish: not_sgd 7")
        assert "--max_bad" not in reason
    nothing = Tally("dialogue", 0, 0, is_record=True)
    assert refused([Tally("file", 2, 2), nothing], Fraction(1)).startswith("2 of 2 files")
    assert refused([Tally("file", 2, 0), nothing]).startswith("there is no dialogue in")


@given(st.lists(st.tuples(st.integers(1, 9999), st.integers(0, 9999)), min_size=1, max_size=4), st.integers(0, 100))
def test_the_limit_that_is_advised_passes(found, hundredths):
    tallies = [Tally("dialogue", max(n, bad), min(n, bad), str(i), True) for i, (n, bad) in enumerate(found)]
    try:
        check_bad(tallies, Fraction(hundredths, 100), "used", {}, [])
    except InputError as error:
        _, said, advice = error.reason.partition("correct them, or continue without them with --max_bad ")
        assert bool(said) == all(one.bad < one.total for one in tallies if one.share > Fraction(hundredths, 100)) or (
            all(one.bad == one.total for one in tallies)
        )
        if said:
            check_bad(tallies, parse_share(advice.split()[0]), "used", {}, [])
    else:
        assert all(one.share <= Fraction(hundredths, 100) for one in tallies)


def test_more_is_an_error_that_says_how_many_why_and_which_limit_would_do():
    assert refused([Tally("dialogue", 250, 3, is_record=True)]) == (
        "3 of 250 dialogues could not be used, more than --max_bad 1% allows, so nothing was "
        "published: not_sgd 7, bad_span 3; the first: a: 1; b: 2; c: 3; and 1 more; correct them, "
        "or continue without them with --max_bad 1.2%"
    )
