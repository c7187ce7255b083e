"""Sorted runs against lists in memory."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parapet.transforms import sorted_runs
from parapet.transforms.files import STAGING
from parapet.transforms.sorted_runs import GatheredRuns, RunWriter, count, joined, merged, shard_of, sort_key

RECORDS = st.lists(st.tuples(st.binary(max_size=3), st.binary(max_size=40)), max_size=12)
TEXTS = st.text(st.characters(), max_size=3)  # half surrogates, too


def written(folder: str, parts: list[list[tuple[bytes, bytes]]]) -> list[sorted_runs.Run]:
    """Runs of one file, or without one."""
    writer = RunWriter(folder)
    runs = [writer.write(records) for records in parts]
    writer.close()
    return runs


@pytest.mark.parametrize("in_files", [False, True])
@given(parts=st.lists(RECORDS, max_size=5), buffer=st.integers(1, 30))
@settings(deadline=None)
def test_merged_runs_are_the_sorted_records(tmp_path_factory, in_files, parts, buffer):
    folder = str(tmp_path_factory.mktemp("runs")) if in_files else ""
    runs = written(folder, parts)
    with pytest.MonkeyPatch.context() as patch:
        for limit in ("_LEAST", "_MOST", "_BUFFERS"):
            patch.setattr(sorted_runs, limit, buffer)
        assert list(merged(runs)) == sorted(record for records in parts for record in records)
    assert count(runs) == sum(map(len, parts))
    assert all(bool(run[4]) != in_files for run in runs if run[3])


@given(st.lists(st.lists(st.tuples(TEXTS, st.binary(max_size=3)), max_size=8), max_size=3))
def test_joined_runs_have_the_contents_of_each_key(groups):
    found: dict[str, list[list[bytes]]] = defaultdict(lambda: [[] for _ in groups])
    for i, records in enumerate(groups):
        for key, content in sorted(records):
            found[key][i].append(content)
    runs = [written("", [[(sort_key(key), content) for key, content in records]]) for records in groups]
    assert list(joined(*runs)) == sorted(found.items())


@given(st.lists(st.tuples(st.sampled_from("abc"), st.binary(max_size=4), st.binary(max_size=9)), max_size=30))
def test_gathered_records_are_each_in_one_run_of_their_group(records):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_runs, "_GATHERED", 20)
        gathered = GatheredRuns(RunWriter(""))
        runs = [run for record in records for run in gathered.add(*record)]
        runs += gathered.flush()
        assert not list(gathered.flush())
    by_group = {group: [run for of, run in runs if of == group] for group in "abc"}
    for group, of_group in by_group.items():
        assert list(merged(of_group)) == sorted((key, content) for of, key, content in records if of == group)
    assert all(sum(map(len, (key, content))) <= 20 + 13 for _, run in runs for key, content in merged([run]))


def test_a_file_is_whole_when_it_is_closed_and_no_other_is_left(tmp_path: Path) -> None:
    writer = RunWriter(str(tmp_path))
    run = writer.write([(b"b", b"2"), (b"a", b"1")])
    assert not Path(run[0]).exists()
    writer.close()
    assert list(merged([run])) == [(b"a", b"1"), (b"b", b"2")]
    again = writer.write([(b"c", b"")])
    writer.close()
    assert sorted(tmp_path.rglob("*.*")) == [tmp_path / STAGING, tmp_path / STAGING / ".runs"]
    assert {Path(run[0]), Path(again[0])} == set((tmp_path / STAGING / ".runs").iterdir())
    assert list(merged([again, run])) == [(b"a", b"1"), (b"b", b"2"), (b"c", b"")]


def test_a_content_larger_than_its_buffer(tmp_path: Path) -> None:
    large = [(b"%d" % i, random.Random(i).randbytes(3 * sorted_runs._MOST)) for i in range(3)]
    assert list(merged(written(str(tmp_path), [large, [(b"11", b"x")]]))) == sorted([*large, (b"11", b"x")])


def test_keys_fall_into_all_shards() -> None:
    shards = {key: shard_of(key, 8) for key in (b"%d" % i for i in range(400))}
    sizes = [len(list(group)) for _, group in groupby(sorted(shards.values()))]
    assert len(sizes) == 8
    assert min(sizes) > 20
    assert shards == {key: shard_of(key, 8) for key in reversed(shards)}
