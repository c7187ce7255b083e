"""Which sets a list names, the ids of versions, and the counts."""

import re

import pytest
from kit import raised

from parapet.schemas.errors import InputError
from parapet.transforms.splits.augment.augmenting import check_ids
from parapet.transforms.splits.augment.plan import check_folders, parse_operations, parse_sets


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
    raised(InputError, parse_sets, text, match=re.escape(f"--sets: {said}"))


def test_folders_and_sets_belong_together():
    check_folders(parse_sets("none,oracle"), ["oracle"])
    with pytest.raises(InputError, match="--sets: the set 'oracle' needs --oracle DIR"):
        check_folders(parse_sets("none,oracle"), [])
    with pytest.raises(InputError, match="--backtrans: no set of --sets needs it \\(none, oracle\\)"):
        check_folders(parse_sets("none,oracle"), ["oracle", "backtrans"])


def test_operations():
    assert parse_operations("both,replace") == ["replace", "both"]
    for text in ("swap", " ,"):
        raised(InputError, parse_operations, text, match=r"--corruptions: .*the corruptions are replace, order, both")


def test_versions_with_the_same_id():
    check_ids({"b": ["3", "1_v2"], "a": ["1"]}.items(), ["v1"])
    check_ids({"a": ["x", "x_a"]}.items(), ["a_b", "b"])  # two versions meet, and no original
    raised(InputError, check_ids, {"b": ["1"], "a": ["1"]}.items(), [], match=r"a and b: dialogue id '1' occurs twice")
    raised(InputError, check_ids, {"a": ["1", "1"]}.items(), ["v1"], match=r"^a: dialogue id '1' occurs twice")
    with pytest.raises(InputError, match=r"^b: dialogue id '1_v1' is also that of '1' in variant 'v1'"):
        check_ids({"b": ["1_v1"], "a": ["1"]}.items(), ["v1"])
