"""Digests in files: as many different ones as a set has, however many files and ranges there are."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from parapet.transforms import digests
from parapet.transforms.digests import count_distinct, digest_of, write_digests
from parapet.transforms.files import prepare

DIGESTS = st.sets(st.one_of(st.binary(min_size=8, max_size=8), st.text(max_size=1).map(digest_of)), max_size=20)


@given(st.lists(DIGESTS, max_size=5), st.sampled_from([0, 1, 4, 1000]))
def test_as_many_as_a_set_has(found: list[set[bytes]], at_once: int) -> None:
    with tempfile.TemporaryDirectory() as output, mock.patch.object(digests, "_AT_ONCE", at_once):
        prepare(output, "reminders")
        files = [write_digests(output, f"digests/{i}", of_worker) for i, of_worker in enumerate(found)]
        assert count_distinct(files, output) == len(set().union(*found))


def test_no_more_is_read_at_once(tmp_path: Path) -> None:
    prepare(str(tmp_path), "reminders")
    files = [write_digests(str(tmp_path), f"d/{i}", (digest_of(f"{i} {j}") for j in range(2000))) for i in range(5)]
    read = []
    real = digests.as_array
    with (
        mock.patch.object(digests, "_AT_ONCE", 1000),
        mock.patch.object(digests, "as_array", lambda data: read.append(len(data)) or real(data)),
    ):
        assert count_distinct(files, str(tmp_path)) == 10_000
    assert sum(read) == 80_000
    assert max(read) <= 8_000
    assert len(pickle.dumps(files)) < 5 * 500
