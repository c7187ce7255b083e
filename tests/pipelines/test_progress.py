"""What the progress line makes of the local runner's log."""

from __future__ import annotations

import pytest

from parapet.pipelines.progress import step_name


@pytest.mark.parametrize(
    ("step", "name"),
    [
        ("Read-responses-ParDo-ReadResponses-", "Read responses"),
        ("By-assignment-CoGroupByKeyImpl-Tag-0-", "By assignment"),
        ("Settle-ParDo-SettleServices-", "Settle"),
        ("Services-MaybeReshuffle-Reshuffle-ReshufflePerKey", "Services"),
        ("Write-pages-Write-file", "Write pages"),
    ],
)
def test_a_step_is_told_by_our_label(step: str, name: str) -> None:
    assert step_name(step) == name
