"""Reads the files of a release, many at a time, each once: their hashes, and which splits are whole.

A split of dialogues is whole where its Parquet files are those that ``build`` would write of its JSON files: same rows,
in the same files and order, with the logical hashes of the manifest. Then no check of its rows could find anything; the
rows of all others are checked one by one (:mod:`parapet.transforms.release.verify.records`). The rows that the JSON
files make wait on disk for their Parquet file, compressed, about a twentieth of the JSON.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from parapet.schemas.dialogue_lines import collection_paused, dialogue_lines
from parapet.schemas.dialogue_table import DIALOGUES
from parapet.schemas.layout import as_path
from parapet.schemas.release_manifest import Config, File, Manifest
from parapet.schemas.service import Service
from parapet.transforms.progress import advance, expect
from parapet.transforms.release.checks import dialogue_faults
from parapet.transforms.release.keys import shard_path
from parapet.transforms.release.shards import (
    ROWS_OF_A_GROUP,
    join_parts,
    parts,
    pieces_of,
    sorted_groups,
    table_of_lines,
)
from parapet.transforms.release.verify.files import Digest, digest_of, standing_files
from parapet.transforms.release.verify.findings import Findings
from parapet.transforms.release.verify.manifest import SHARD
from parapet.transforms.release.verify.tables import check_columns

LARGE = 64 * 2**20  # bytes of a release from which on several processes repay their start

_BATCH = 16 * 2**20  # bytes of files that one task reads

Copies = Mapping[tuple[str, str, str], list[str]]  # record, corpus and split -> paths
Services = Mapping[tuple[str, str], Mapping[str, Service]]  # corpus and split -> name -> service
Task = TypeVar("Task")
Result = TypeVar("Result")


class WholeSplit(msgspec.Struct):
    """What a split holds whose JSON and Parquet files agree: rows, turns, faults by kind."""

    rows: int = 0
    turns: int = 0
    faults: Counter[str] = msgspec.field(default_factory=Counter)


class Survey(msgspec.Struct):
    """What was read.

    Attributes:
      digests: of every file that could be read, by path.
      whole: configuration and split -> what it holds, of the splits that are whole.
    """

    digests: dict[str, Digest]
    whole: dict[tuple[str, str], WholeSplit]


class _Batch(msgspec.Struct, frozen=True):
    """Files that one task reads: any files, or, where ``part`` is given, JSON files of one split of dialogues.

    Attributes:
      root: the release.
      paths: the files.
      part: where the rows of dialogues are put aside.
      shards: how many shards they are for.
      services: those that the dialogues may speak of; empty where the schemas cannot be read.
    """

    root: str
    paths: list[str]
    part: str = ""
    shards: int = 1
    services: Mapping[str, Service] = {}


class _Shard(msgspec.Struct, frozen=True):
    """A Parquet file as the manifest has it, the columns that it should have, and the parts with its rows."""

    root: str
    file: File
    config: Config
    number: int
    parts: list[str]


class _Split(msgspec.Struct, frozen=True):
    """A split that may be whole: its Parquet files by their numbers, of so many, and its JSON files."""

    place: tuple[str, str]
    files: dict[int, str]
    shards: int
    copies: list[str]


def survey(root: Path, manifest: Manifest, copies: Copies, services: Services, processes: int | None = None) -> Survey:
    """Reads all files of a release.

    Args:
      root: the release.
      manifest: its manifest.
      copies: the JSON files of each (record, corpus, split).
      services: those of the corpora and splits whose schemas could be read.
      processes: how many read side by side; None: one for each core, where the release is large.
    """
    files = {file.path: file for file in manifest.files}
    standing = standing_files(root, Findings())
    expect(len(standing), "files")
    splits = [split for split in _splits(manifest, copies) if {*split.files.values(), *split.copies} <= standing]
    others = standing - {path for split in splits for path in (*split.files.values(), *split.copies)}
    found = Survey({}, {})
    if processes is None:
        processes = _cores() if sum(file.bytes for file in manifest.files) >= LARGE else 1
    with tempfile.TemporaryDirectory(prefix="parapet-verify-") as folder, _mapping(processes) as mapped:
        tasks = [_Batch(str(root), group) for group in _grouped(sorted(others), files)]
        of_split: dict[tuple[str, str], range] = {}
        for split in splits:
            first = len(tasks)
            for group in _grouped(split.copies, files):
                part = f"{folder}/{len(tasks)}"
                tasks.append(_Batch(str(root), group, part, split.shards, services.get(split.place, {})))
            of_split[split.place] = range(first, len(tasks))
        contents: list[WholeSplit | None] = []
        for digests, content in mapped(_read, tasks):
            found.digests |= digests
            contents.append(content)
        shards: list[_Shard] = []
        for split in splits:
            batches = of_split[split.place]
            found.whole |= _sum(split.place, [contents[i] for i in batches])
            waiting = [tasks[i].part for i in batches] if split.place in found.whole else []
            for number, path in split.files.items():
                shards.append(_Shard(str(root), files[path], manifest.configs[split.place[0]], number, waiting))
        rows = Counter[str]()
        for shard, (digests, n) in zip(shards, mapped(_compare, shards), strict=True):
            found.digests |= digests
            rows[shard.file.path] = n
    for split in splits:
        of_files = [rows[path] for path in split.files.values()]
        if split.place in found.whole and (min(of_files) < 0 or sum(of_files) != found.whole[split.place].rows):
            del found.whole[split.place]
    return found


def _splits(manifest: Manifest, copies: Copies) -> Iterator[_Split]:
    """The splits of dialogues whose Parquet files are named as ``build`` names them; it writes none without rows."""
    listed = Counter(file.path for file in manifest.files)
    for name, config in manifest.configs.items():
        for split, info in config.splits.items():
            names = [SHARD.fullmatch(path) for path in info.files]
            numbers = {int(match[3]): match[0] for match in names if match}
            totals = {int(match[4]) for match in names if match}
            paths = copies.get(("dialogue", name, split), [])
            if config.record != "dialogue" or config.key != ["dialogue_id"] or len(totals) != 1 or not paths:
                continue
            (shards,) = totals
            expected = [shard_path(name, split, number, shards) for number in numbers]
            if info.files == expected and all(listed[path] == 1 for path in (*expected, *paths)):
                yield _Split((name, split), numbers, shards, paths)


def _grouped(paths: Iterable[str], files: Mapping[str, File]) -> Iterator[list[str]]:
    """Files for one task: together not much more than ``_BATCH`` bytes."""
    group, size = list[str](), 0
    for path in paths:
        more = files[path].bytes if path in files else 0
        if group and size + more > _BATCH:
            yield group
            group, size = [], 0
        group.append(path)
        size += more
    if group:
        yield group


def _sum(place: tuple[str, str], batches: Sequence[WholeSplit | None]) -> dict[tuple[str, str], WholeSplit]:
    total = WholeSplit()
    for one in batches:
        if one is None:
            return {}
        total.rows += one.rows
        total.turns += one.turns
        total.faults.update(one.faults)
    return {place: total}


# What one process does. It stops at nothing: what is wrong with a file the checks that follow say.


def _read(batch: _Batch) -> tuple[dict[str, Digest], WholeSplit | None]:
    """Hashes files, and puts the rows of dialogues aside; None where one does not hold dialogues."""
    digests: dict[str, Digest] = {}
    content, read = WholeSplit(), 0
    packed: dict[int, list[bytes]] = {}
    for path in batch.paths:
        with suppress(Exception):
            if batch.part:
                data = (as_path(batch.root) / path).read_bytes()
                digests[path] = (hashlib.sha256(data).hexdigest(), len(data))
                _put_aside(data, path, batch, content, packed)
            else:
                digests[path] = digest_of(as_path(batch.root) / path)
            read += 1
        advance(1, "files")
    if not batch.part or read < len(batch.paths):
        return digests, None
    Path(batch.part).write_bytes(join_parts(packed))
    return digests, content


@collection_paused()
def _put_aside(data: bytes, path: str, batch: _Batch, content: WholeSplit, packed: dict[int, list[bytes]]) -> None:
    found = dialogue_lines(data, path.rpartition("/")[2], path)
    keys = [dialogue.dialogue_id for dialogue in found.dialogues]
    for shard, piece in parts(table_of_lines(keys, "dialogue_id", found.lines), ["dialogue_id"], batch.shards):
        packed.setdefault(shard, []).append(piece)
    content.rows += len(keys)
    for dialogue in found.dialogues:
        content.turns += len(dialogue.turns)
        content.faults.update(fault.kind for fault in dialogue_faults(dialogue, batch.services))


def _compare(shard: _Shard) -> tuple[dict[str, Digest], int]:
    """Hashes a Parquet file, and counts its rows; -1 where they are not those that wait for it."""
    digests: dict[str, Digest] = {}
    rows = -1
    with suppress(Exception):
        path = as_path(shard.root) / shard.file.path
        data = path.read_bytes()
        digests[shard.file.path] = (hashlib.sha256(data).hexdigest(), len(data))
        if shard.parts:
            check_columns(path, shard.config)
            rows = _equal_rows(data, shard)
    advance(1, "files")
    return digests, rows


def _equal_rows(data: bytes, shard: _Shard) -> int:
    rows, digest = 0, hashlib.sha256()
    with pq.ParquetFile(pa.BufferReader(data)) as file:
        batches = file.iter_batches(ROWS_OF_A_GROUP, use_threads=False)
        for group in sorted_groups(_waiting(shard), shard.file.path):
            batch = next(batches, None)
            if batch is None or not pa.Table.from_batches([batch]).cast(DIALOGUES).equals(group.table):
                return -1
            rows += batch.num_rows
            for line in group.lines:
                digest.update(line)
                digest.update(b"\n")
        if next(batches, None) is not None:
            return -1
    return rows if (rows, digest.hexdigest()) == (shard.file.rows, shard.file.logical_sha256) else -1


def _waiting(shard: _Shard) -> Iterator[bytes]:
    for part in shard.parts:
        with open(part, "rb") as handle:
            yield from pieces_of(handle, shard.number)


# Processes.


class _Mapping(Protocol):
    def __call__(self, function: Callable[[Task], Result], tasks: Iterable[Task], /) -> Iterable[Result]: ...


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _mapping(processes: int) -> Iterator[_Mapping]:
    """``map``, in so many processes. They are forked from one that has no threads, and ends with this one."""
    if processes == 1:
        yield map
        return
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with ProcessPoolExecutor(processes, context, _begin) as pool:
        try:
            yield pool.map
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _begin() -> None:
    """What a process does first: leaves Ctrl-C to the command, and ends when that does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
    os._exit(1)
