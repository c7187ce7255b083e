"""Checks that the manifest of a release agrees with itself and with its folders."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from parapet.schemas.release_config import NAME, VERSION
from parapet.schemas.release_manifest import DOCUMENTS, MANIFEST, SUMS, Config, File, Manifest, SplitInfo
from parapet.transforms.release.logical import split_sha256
from parapet.transforms.release.verify.files import is_inside
from parapet.transforms.release.verify.findings import Findings
from parapet.transforms.release.versions import contradiction

RECORDS = ("dialogue", "service", "paraphrase", "row")

SHARD = re.compile(r"data/([^/]+)/([^/]+)-([0-9]{5,})-of-([0-9]{5,})\.parquet")
# Who a worker is, or when somebody was at work, at any depth of a column's type.
_PRIVATE = re.compile(r"(?i)\b(worker\w*|accept_time|submit_time)\b(?=:|$)")


def check_manifest(root: Path, manifest: Manifest, found: Findings) -> None:
    """Checks what can be seen in the manifest alone.

    Args:
      root: the release.
      manifest: its manifest.
      found: takes what does not hold.
    """
    _check_names(root, manifest, found)
    _check_parent(manifest, found)
    files = {file.path: file for file in manifest.files}
    for path, n in Counter(file.path for file in manifest.files).items():
        if n > 1:
            found.add("manifest", MANIFEST, path, f"occurs {n} times in 'files'")
        if not is_inside(path):
            found.add("manifest", MANIFEST, path, "leaves the release's folder: it was not read")
        if path in (MANIFEST, SUMS):
            found.add("manifest", MANIFEST, path, "cannot hold its own hash")
    for path in DOCUMENTS:
        if path not in files:
            found.add("manifest", MANIFEST, path, "is part of every release, and not in 'files'")
    claimed: Counter[str] = Counter()
    for name, config in manifest.configs.items():
        _check_config(name, config, found)
        for split, info in config.splits.items():
            claimed.update(info.files)
            _check_split(name, split, info, files, found)
    for path in files:
        if path.startswith("data/") and claimed[path] != 1:
            found.add("manifest", MANIFEST, path, f"is in {claimed[path]} splits, not in one")


def _check_names(root: Path, manifest: Manifest, found: Findings) -> None:
    place = root.resolve()
    if not NAME.fullmatch(manifest.name):
        found.add("manifest", MANIFEST, "name", f"{manifest.name!r} cannot be a name")
    elif manifest.name != place.parent.name:
        found.add("manifest", MANIFEST, "name", f"is {manifest.name!r}, but the folder is {place.parent.name!r}")
    if not VERSION.fullmatch(manifest.version):
        found.add("manifest", MANIFEST, "version", f"{manifest.version!r} is not MAJOR.MINOR.PATCH")
    elif manifest.version != place.name:
        found.add("manifest", MANIFEST, "version", f"is {manifest.version!r}, but the folder is {place.name!r}")


def _check_parent(manifest: Manifest, found: Findings) -> None:
    parent, changes = manifest.parent, manifest.changes
    if (parent is None) != (changes is None):
        found.add("manifest", MANIFEST, "changes", "a release has a parent and changes, or neither")
    if parent is None or not VERSION.fullmatch(manifest.version):
        return
    if not VERSION.fullmatch(parent.version):
        found.add("manifest", MANIFEST, "parent.version", f"{parent.version!r} is not MAJOR.MINOR.PATCH")
        return
    level = changes.level if changes is not None else "patch"
    if level not in ("patch", "minor", "major"):
        found.add("manifest", MANIFEST, "changes.level", f"there is no level {level!r}")
    elif wrong := contradiction(parent.version, manifest.version, level):
        found.add("manifest", MANIFEST, "version", wrong)


def _check_config(name: str, config: Config, found: Findings) -> None:
    where = f"configs.{name}"
    if config.record not in RECORDS:
        found.add("manifest", MANIFEST, where, f"there is no record {config.record!r}")
    columns = [column.name for column in config.columns]
    if not config.key:
        found.add("manifest", MANIFEST, where, "has no key")
    for column in config.key:
        if column not in columns:
            found.add("manifest", MANIFEST, where, f"has the key {column!r}, and no such column")
    for column in private_columns(config):
        found.add("private", MANIFEST, where, f"{column!r} may identify a worker")


def private_columns(config: Config) -> list[str]:
    """Columns, and fields inside their types, that may identify a worker or the time of their work."""
    texts = [text for column in config.columns for text in (column.name, column.type)]
    return sorted({match[1] for text in texts for match in _PRIVATE.finditer(text)})


def _check_split(name: str, split: str, info: SplitInfo, files: dict[str, File], found: Findings) -> None:
    where = f"configs.{name}.splits.{split}"
    shards = set()
    for path in info.files:
        match = SHARD.fullmatch(path)
        if not match or match[1] != name or match[2] != split:
            found.add("manifest", MANIFEST, where, f"{path!r} is no file of this split: data/{name}/{split}-…")
            continue
        shards.add(int(match[4]))
        if not int(match[3]) < int(match[4]):
            found.add("manifest", MANIFEST, where, f"{path!r} is numbered beyond the last")
    if len(shards) > 1:
        found.add("manifest", MANIFEST, where, "its files are numbered by different totals")
    known = [files[path] for path in info.files if path in files]
    for path in info.files:
        if path not in files:
            found.add("manifest", MANIFEST, where, f"{path!r} is not in 'files'")
    if not known:
        found.add("manifest", MANIFEST, where, "has no files")
    if (rows := sum(file.rows or 0 for file in known)) != info.rows:
        found.add("manifest", MANIFEST, where, f"has {info.rows:,} rows, its files {rows:,}")
    if info.logical_sha256 != split_sha256(file.logical_sha256 for file in known):
        found.add("manifest", MANIFEST, where, "its logical_sha256 is not that of its files")
