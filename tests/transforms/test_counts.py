"""Typed counts, and what must hold of them."""

import errno
import pickle
from fractions import Fraction

from apache_beam.io.filesystem import BeamIOError
from hypothesis import given
from hypothesis import strategies as st
from kit import cases, raised

from parapet.schemas.errors import InputError, MissingExtra, NoRoomError, UserCodeError
from parapet.transforms.core import counts as counting
from parapet.transforms.core.counts import Balance, CountKey, Counts, Exact, Tally, Zero, check_bad, check_invariants
from parapet.transforms.core.fence import Stopped, bad_record, trace_of
from parapet.transforms.core.options import parse_share

PARTS = st.sampled_from(["", "typos", "test", "no_rule"])
KEYS = st.builds(CountKey, st.sampled_from(["turns", "dialogues", "reason"]), PARTS, PARTS, PARTS)
RATE_OF_AVAILABLE = Exact("varied", "turns", "r", lambda n: n // 2, total_set="k", available="able")


def counts_of(**numbers):
    """``dialogues__typos`` is of the set typos."""
    counts = Counts()
    for name, n in numbers.items():
        counts.add(*name.split("__")[:1], n, set="".join(name.split("__")[1:]))
    return counts


@given(st.dictionaries(KEYS, st.integers(1, 9)))
def test_sums_are_those_of_a_plain_loop(numbers):
    counts = Counts.of_pairs((tuple(key), n) for key, n in numbers.items())
    assert counts.sum("turns") == sum(n for key, n in numbers.items() if key.name == "turns")
    of_typos = (n for key, n in numbers.items() if key[:3] == ("turns", "typos", ""))
    assert counts.sum("turns", set="typos", split="") == sum(of_typos)
    by_value = counts.by("value", "reason")
    assert list(by_value) == sorted({key.value for key in numbers if key.name == "reason"})
    assert (sum(by_value.values()), pickle.loads(pickle.dumps(counts))) == (counts.sum("reason"), counts)


@given(st.dictionaries(KEYS, st.integers(1, 9)))
def test_a_manifest_has_the_counts_without_a_value(numbers):
    assert Counts.of_json(Counts(numbers).as_json()) == {key: n for key, n in numbers.items() if not key.value}


@cases("invariant counts wrong",
        (Balance("turns", ("changed", "kept")), counts_of(turns=4, changed=1, kept=2), ["turns"]),
        (Balance("dialogues", ("dialogues",), ("a", "b"), shared=("left_out",)),
         counts_of(dialogues=3, dialogues__a=2, dialogues__b=3, left_out=1), ["dialogues of b"]),
        (Balance("turns", ("kept",), ("a", "b"), by_set=True), counts_of(turns__a=3, turns__b=2, kept__a=3, kept__b=3),
         ["turns of b"]),
        (Zero("leaks", "values that occur in training"), counts_of(leaks=1), ["values that occur in training"]),
        (Exact("ood", "turns", "r", lambda n: n // 2, total_set="r"), counts_of(ood__r=3, turns__r=5), ["ood of r"]),
        (Exact("ood", "turns", "r", lambda n: n // 2, total_set="r"), counts_of(turns__r=5), ["ood of r"]),
        (RATE_OF_AVAILABLE, counts_of(varied__r=1, turns__k=6, able__k=1), []),
        (RATE_OF_AVAILABLE, counts_of(varied__r=3, turns__k=6, able__k=4), []),
        (RATE_OF_AVAILABLE, counts_of(varied__r=1, turns__k=6, able__k=4), ["varied of r"]),
        (RATE_OF_AVAILABLE, counts_of(varied__r=2, turns__k=6, able__k=1), ["varied of r"]))  # fmt: skip
def test_invariants(invariant, counts, wrong):
    assert list(invariant(counts)) == wrong
    if wrong:
        raised(RuntimeError, check_invariants, counts, [invariant], match=f"do not balance for {wrong[0]}")
    else:
        check_invariants(counts, [invariant])


# How many records may be bad, and what is said where there are more.


ONE = Fraction(1, 100)


def refused(tallies, max_bad=ONE):
    reasons, examples = {"bad_span": 3, "not_sgd": 7}, ["a: 1", "b: 2", "c: 3", "d: 4"]
    return raised(InputError, check_bad, tallies, max_bad, "used", reasons, examples).reason


def test_where_all_are_bad_no_limit_is_advised():
    some, none = Tally("dialogue", 9, 1, "v1", True), Tally("dialogue", 9, 9, "v2", True)
    assert "--max_bad 100" not in refused([some, none])
    check_bad([some, none], Fraction(1), "used", {}, [])
    first, *_ = counting.warnings_of([some, none], {"bad_span": 10}, "x", "left out")
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


# What becomes of an error that is raised while a record is handled.


def thrown(error):
    def throw():
        raise error

    return raised(type(error), throw)


@cases(
    "error",
    *(NoRoomError("full"), MemoryError(), OSError(errno.EIO, "disk"), ConnectionResetError(), TimeoutError()),
    *(Stopped("daily_limit"), MissingExtra("torch", "models"), BeamIOError("bucket")),
    ids=lambda error: type(error).__name__,
)
def test_what_is_no_fault_of_a_record_is_passed_on(error):
    assert raised(type(error), bad_record, error) is error


def test_what_code_of_the_users_has_reported_itself():
    fault = bad_record(UserCodeError("tracker.py:T failed in predict:\nTraceback ...\nKeyError: 'x'", "--model"))
    assert fault.reason == "plugin_error: tracker.py:T failed in predict"
    fault = pickle.loads(pickle.dumps(fault))
    assert trace_of(fault) == "Traceback ...\nKeyError: 'x'"


def test_messages_are_short_one_line_and_the_same_in_each_run():
    reason = bad_record(thrown(ValueError(f"<thing at 0x7f1c2d3e4f50>\n\n is\ud800 {'x' * 1000}"))).reason
    assert reason.startswith("internal_error: ValueError: <thing at 0x...> is\\ud800 xxx")
    assert len(reason) < 400

    class Odd(Exception):
        def __str__(self):
            raise KeyError

    assert bad_record(thrown(Odd())).reason.startswith("internal_error: Odd (")


def test_a_recursion_error_is_the_records_and_its_traceback_is_short():
    def deeper(n):
        return deeper(n + 1)

    fault = bad_record(raised(RecursionError, deeper, 0))
    assert "RecursionError: maximum recursion depth exceeded" in fault.reason
    assert trace_of(fault).count("\n") < 30
