"""Are the rows of a split those that the manifest describes, each once, sorted, and in the shard of its key?"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from parapet.schemas.errors import InputError
from parapet.schemas.release_manifest import Config, File, Manifest
from parapet.transforms.release.diff.differences import plain_type, shown_both
from parapet.transforms.release.keys import key_text, shard_of
from parapet.transforms.release.logical import row_json
from parapet.transforms.release.opening import read_rows
from parapet.transforms.release.verify.files import is_inside
from parapet.transforms.release.verify.findings import Findings
from parapet.transforms.release.verify.manifest import SHARD

Row = dict[str, Any]


class SplitTable:
    """The rows of one split, checked while they are read.

    Of the rows, only hashes of their keys are kept.

    Attributes:
      name: of its configuration.
      split: the split.
      rows: read so far.
      shards: the number of shards, as the files' names have it; 0 where they do not.
      unread: the shards that could not be read to their end.
    """

    def __init__(self, root: Path, manifest: Manifest, config: str, split: str, found: Findings) -> None:
        self.root, self.config, self.found = root, manifest.configs[config], found
        self.name, self.split = config, split
        self.files = {file.path: file for file in manifest.files}
        self.paths = [path for path in self.config.splits[split].files if is_inside(path)]
        self.rows, self.shards, self.unread = 0, 0, set[int]()
        self._keys: dict[bytes, str] = {}

    def read(self) -> Iterator[tuple[str, Row]]:
        """Yields (path, row), of every file that can be read as what it should be."""
        for path in self.paths:
            match = SHARD.fullmatch(path)
            shard, self.shards = (int(match[3]), int(match[4])) if match else (-1, self.shards)
            self.unread.add(shard)
            if not (self.root / path).is_file():  # reported by the check of files
                continue
            with self.found.guard("parquet", path):
                check_columns(self.root / path, self.config)
                for row in self._checked(path, shard):
                    self.rows += 1
                    yield path, row
                self.unread.discard(shard)

    def missed(self, text: str) -> bool:
        """Whether the row of a key may be in a file that could not be read."""
        return bool(self.unread) and (not self.shards or shard_of(text, self.shards) in self.unread)

    def _checked(self, path: str, shard: int) -> Iterator[Row]:
        digest, n, before = hashlib.sha256(), 0, ""
        for row in read_rows(self.root / path):
            digest.update(row_json(row) + b"\n")
            text = key_text(row, self.config.key)
            self._check_key(path, n, text, before, shard)
            n, before = n + 1, text
            yield row
        self._check_totals(path, n, digest.hexdigest())

    def _check_key(self, path: str, n: int, text: str, before: str, shard: int) -> None:
        where = f"row {n} ({name_of(text)})"
        if text < before:
            self.found.add("order", path, where, "comes after a row with a greater key")
        if self.shards and shard_of(text, self.shards) != shard:
            right = f"shard {shard_of(text, self.shards)} of {self.shards}"
            self.found.add("order", path, where, f"belongs into {right}")
        key = hashlib.blake2b(text.encode(), digest_size=16).digest()
        if key in self._keys:
            other = "" if self._keys[key] == path else f", also in {self._keys[key]}"
            self.found.add("keys", path, where, f"is not the only row with this key{other}")
        self._keys.setdefault(key, path)

    def _check_totals(self, path: str, n: int, logical_sha256: str) -> None:
        file = self.files.get(path, File(path, 0, ""))
        if file.rows != n:
            self.found.add("parquet", path, "", f"has {n:,} rows, {file.rows or 0:,} in the manifest")
        if file.logical_sha256 != logical_sha256:
            self.found.add("parquet", path, "", "its rows are not those whose hash the manifest has")


def name_of(text: str) -> str:
    """A key as text."""
    return text.replace("\0", "/")


def check_columns(path: Path, config: Config) -> None:
    """Raises InputError where a file has other columns than its configuration."""
    found = _columns(path)
    wanted = {column.name: plain_type(column.type) for column in config.columns}
    if list(found.items()) == list(wanted.items()):
        return
    reasons = [f"it has no column {name!r}" for name in wanted if name not in found]
    reasons += [f"the manifest has no column {name!r}" for name in found if name not in wanted]
    for name in found:
        if wanted.get(name, found[name]) != found[name]:
            here, there = shown_both(found[name], wanted[name])
            reasons.append(f"column {name!r} is {here}, {there} in the manifest")
    raise InputError("; ".join(reasons) or "its columns are in another order", path)


def _columns(path: Path) -> dict[str, str]:
    try:
        with path.open("rb") as handle:
            schema = pq.read_schema(handle)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"cannot be read as Parquet: {error}", path) from None
    return {field.name: plain_type(str(field.type)) for field in schema}
