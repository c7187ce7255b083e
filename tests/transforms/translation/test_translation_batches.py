"""Batches: each text once, within the limits, and no more of them than one pass over the sorted texts makes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from parapet.transforms.translation.memory import Batch, Limits, make_batches

texts_of_all_kinds = st.sets(st.text(max_size=30), max_size=60)
limits_of_all_kinds = st.builds(Limits, texts=st.integers(1, 10), codepoints=st.integers(1, 60))


def count_greedily(lengths: list[int], limits: Limits) -> int:
    """How many batches it takes to fill one after the other, by lengths alone."""
    batches, texts, codepoints = 0, 0, 0
    for length in lengths:
        texts, codepoints = texts + 1, codepoints + length
        if batches == 0 or texts > limits.texts or codepoints > limits.codepoints:
            batches, texts, codepoints = batches + 1, 1, length
    return batches


@settings(deadline=None)
@given(texts_of_all_kinds, limits_of_all_kinds)
def test_each_text_is_in_one_batch_within_the_limits(texts, limits):
    batches, too_long = make_batches(texts, "en", "ko", limits)
    assert [text for batch in batches for text in batch.texts] == sorted(texts - set(too_long))
    assert too_long == sorted(text for text in texts if len(text) > limits.codepoints)
    for batch in batches:
        assert (batch.source, batch.target) == ("en", "ko")
        assert 1 <= len(batch.texts) <= limits.texts
        assert sum(map(len, batch.texts)) <= limits.codepoints


@settings(deadline=None)
@given(texts_of_all_kinds, limits_of_all_kinds)
def test_there_are_no_more_than_one_pass_makes(texts, limits):
    batches, too_long = make_batches(texts, "en", "ko", limits)
    assert len(batches) == count_greedily([len(text) for text in sorted(texts - set(too_long))], limits)


@settings(deadline=None)
@given(texts_of_all_kinds, limits_of_all_kinds, st.randoms(use_true_random=False))
def test_the_order_of_arrival_does_not_matter(texts, limits, order):
    shuffled = sorted(texts)
    order.shuffle(shuffled)
    assert make_batches(shuffled, "en", "ko", limits) == make_batches(sorted(texts), "en", "ko", limits)


def test_by_hand():
    limits = Limits(texts=2, codepoints=5)
    batches, too_long = make_batches(["bb", "a", "ccc", "dddddd", "eeeee", "f"], "en", "ko", limits)
    assert batches == [
        Batch("en", "ko", ("a", "bb")),
        Batch("en", "ko", ("ccc",)),
        Batch("en", "ko", ("eeeee",)),
        Batch("en", "ko", ("f",)),
    ]
    assert too_long == ["dddddd"]
    assert make_batches([], "en", "ko", limits) == ([], [])


def test_codepoints_count_not_bytes():
    batches, too_long = make_batches(["가나다라마", "🐑🐑🐑🐑🐑"], "ko", "en", Limits(texts=9, codepoints=5))
    assert [batch.texts for batch in batches] == [("가나다라마",), ("🐑🐑🐑🐑🐑",)]
    assert too_long == []
