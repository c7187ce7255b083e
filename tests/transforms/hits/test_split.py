""""""

from parapet.transforms.crowd.hits.page import split


def test_parts_are_about_equal():
    assert [len(run) for run in split([10] * 11, 100)] == [6, 5]
    assert [len(run) for run in split([10] * 10, 100)] == [10]
