"""A published release: its manifest, and its rows as in Parquet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.schemas.published import check_published
from parapet.schemas.release_manifest import MANIFEST, Manifest, parse_manifest

LATEST = "latest.json"
_ROWS_AT_ONCE = 500


class Release(msgspec.Struct, frozen=True):
    """A release: the folder of its version, and its manifest."""

    root: Path
    manifest: Manifest

    def read(self, relative: str) -> bytes:
        """A file of it, whole. Raises InputError where it is not there."""
        try:
            return (self.root / relative).read_bytes()
        except OSError:
            raise InputError("is missing", self.root / relative) from None

    def rows(self, config: str, split: str, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        """The rows of a split, file by file; all columns, or those named."""
        for relative in self.manifest.configs[config].splits[split].files:
            yield from read_rows(self.root / relative, columns)


def read_rows(path: Path, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file. Raises InputError where it is missing, or is not one."""
    try:
        with path.open("rb") as handle, pq.ParquetFile(handle) as file:
            for batch in file.iter_batches(_ROWS_AT_ONCE, columns=columns):
                batch.validate(full=True)  # a text may be no UTF-8
                yield from batch.to_pylist()
    except FileNotFoundError:
        raise InputError("is missing", path) from None
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"cannot be read as Parquet: {error}", path) from None


def read_manifest(root: Path) -> Manifest:
    """The manifest of a version's folder. Raises InputError where there is none."""
    path = root / MANIFEST
    if not path.is_file():
        raise InputError(f"is no release: there is no {MANIFEST}", root)
    return parse_manifest(path.read_bytes(), path)


def open_release(place: str | Path) -> Release:
    """Opens ``NAME/VERSION``; of a folder ``NAME`` the version that ``latest.json`` names.

    Raises:
      InputError: no such folder, not a release, or one that is not whole.
    """
    root = as_path(place)
    if not (root / MANIFEST).is_file() and (version := latest_version(root)):
        root = root / version
    if not root.is_dir():
        raise InputError("there is no such folder", place)
    check_published(root)
    return Release(root, read_manifest(root))


def latest_version(folder: Path) -> str:
    """The version that ``latest.json`` of a dataset's folder names; nothing where there is none."""
    path = folder / LATEST
    if not path.is_file():
        return ""
    try:
        version = orjson.loads(path.read_bytes())["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        version = None
    if not isinstance(version, str) or "/" in version or version.startswith("."):
        raise InputError("does not name a version", path)
    return version
