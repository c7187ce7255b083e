"""Which sets a list names, the ids of versions, and the counts."""

import re

import pytest

from parapet.schemas.errors import InputError
from parapet.transforms.running.counts import CountKey, Counts, check_invariants
from parapet.transforms.splits.augment.augmenting import check_ids, invariants_of, version_id
from parapet.transforms.splits.augment.plan import (
    Augmentation,
    TrainingSet,
    check_folders,
    default_sets,
    parse_operations,
    parse_sets,
)
from parapet.transforms.variants.matching import Variant


def test_sets_and_their_kinds():
    assert parse_sets("none, oracle,oracle+backtrans,corrupted,") == {
        "none": (),
        "oracle": ("oracle",),
        "oracle+backtrans": ("backtrans", "oracle"),
        "corrupted": ("corrupted",),
    }
    assert default_sets(["oracle"]) == "none,oracle,corrupted"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no set: none, backtrans, oracle, corrupted, or a+b"),
        ("orcale", "'orcale' is not a set: none, backtrans, oracle, corrupted, or a+b"),
        ("oracle+", "'oracle+' is not a set"),
        ("oracle+oracle", "'oracle+oracle' is not a set"),
        ("backtrans+oracle,oracle+backtrans", "'oracle+backtrans' occurs twice"),
        ("none,none", "'none' occurs twice"),
        ("none+oracle", "'none+oracle' is not a set"),
    ],
)
def test_lists_that_name_no_sets(text, said):
    with pytest.raises(InputError, match=re.escape(f"--sets: {said}")):
        parse_sets(text)


def test_folders_and_sets_belong_together():
    check_folders(parse_sets("none,oracle"), ["oracle"])
    with pytest.raises(InputError, match="--sets: the set 'oracle' needs --oracle DIR"):
        check_folders(parse_sets("none,oracle"), [])
    with pytest.raises(InputError, match="--backtrans: no set of --sets needs it \\(none, oracle\\)"):
        check_folders(parse_sets("none,oracle"), ["oracle", "backtrans"])


def test_operations():
    assert parse_operations("both,replace") == ["replace", "both"]
    for text in ("swap", " ,"):
        with pytest.raises(InputError, match=r"--corruptions: .*the corruptions are replace, order, both"):
            parse_operations(text)


def test_ids():
    assert (version_id("1", "original"), version_id("1", "v1")) == ("1", "1_v1")


def test_versions_with_the_same_id():
    check_ids({"b": ["3", "1_v2"], "a": ["1"]}.items(), ["v1"])
    check_ids({"a": ["x", "x_a"]}.items(), ["a_b", "b"])  # two versions meet, and no original
    with pytest.raises(InputError, match=r"a and b: dialogue id '1' occurs twice"):
        check_ids({"b": ["1"], "a": ["1"]}.items(), [])
    with pytest.raises(InputError, match=r"^a: dialogue id '1' occurs twice"):
        check_ids({"a": ["1", "1"]}.items(), ["v1"])
    with pytest.raises(InputError, match=r"^b: dialogue id '1_v1' is also that of '1' in variant 'v1'"):
        check_ids({"b": ["1_v1"], "a": ["1"]}.items(), ["v1"])


def test_counts_that_do_not_balance_fail():
    counts = Counts(
        {
            CountKey("dialogues"): 2,
            CountKey("versions", "original"): 2,
            CountKey("versions", "v1"): 1,
            CountKey("left_out", "v1"): 1,
            CountKey("dialogues", "x"): 3,
            CountKey("rows", "x"): 3,
        }
    )
    versions = [Variant(name, {}, {}) for name in ("original", "v1")]
    invariants = invariants_of(Augmentation("train", {}, versions, [TrainingSet("x", ["original", "v1"])]))
    check_invariants(counts, invariants)
    for key in counts:
        wrong = Counts(counts)
        wrong[key] += 1
        with pytest.raises(RuntimeError, match="the counts do not balance for "):
            check_invariants(wrong, invariants)
