"""The JSON files of a corpus, as a release keeps them, held against the rows that must restore them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import orjson

from parapet.schemas.dialogue_table import dialogue_of, service_of
from parapet.schemas.errors import InputError
from parapet.schemas.layout import dialogue_bytes, parse_json, schema_bytes
from parapet.transforms.release.diff.differences import differing
from parapet.transforms.release.verify.findings import Findings

_IN_FULL = 20  # rows of a split whose first difference is looked up: each time a file is read again


class Kind(msgspec.Struct, frozen=True):
    """What a JSON file holds: dialogues or services.

    Attributes:
      name: what one is called.
      id: the key of its JSON that names it.
      file_bytes: a whole file, laid out as the published ones are.
      restored: one from its row.
      canonical: one as bytes that are the same where its file's would be.
    """

    name: str
    id: str
    file_bytes: Callable[[Sequence[Any]], bytes]
    restored: Callable[[Mapping[str, Any]], dict[str, Any]]
    canonical: Callable[[Any], bytes]


def _sorted(value: Any) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # numbers beyond 64 bits
        return json.dumps(value, sort_keys=True).encode()


def _in_order(value: Any) -> bytes:
    return json.dumps(value).encode()


DIALOGUE = Kind("dialogue", "dialogue_id", dialogue_bytes, dialogue_of, _sorted)
SERVICE = Kind("service", "service_name", schema_bytes, service_of, _in_order)


class _Copy(msgspec.Struct, frozen=True):
    path: str
    layout: str
    position: int
    digest: bytes


class Copies:
    """What the JSON files of one split hold, by key; digests only.

    Args:
      root: the release.
      kind: what the files hold.
      found: takes what does not hold.
    """

    def __init__(self, root: Path, kind: Kind, found: Findings) -> None:
        self.root, self.kind, self.found = root, kind, found
        self.unread = False  # whether a file could not be read
        self._copies: dict[str, _Copy] = {}
        self._told = 0
        self._last: tuple[str, list[Any]] = ("", [])

    def read(self, paths: Sequence[str], prefix: str) -> None:
        """Reads files; ``prefix`` goes before each name to make the key of its row."""
        for path in paths:
            if not (self.root / path).is_file():  # reported by the check of files
                self.unread = True
                continue
            before = len(self._copies)
            with self.found.guard("restore", path):
                self._read(path, prefix)
            self.unread |= len(self._copies) == before

    def _read(self, path: str, prefix: str) -> None:
        data, items = self._items(path)
        made = self.kind.file_bytes(items)
        layout = "published" if data == made else "no_newline" if data + b"\n" == made else "other"
        for i, item in enumerate(items):
            if (key := prefix + str(item[self.kind.id])) in self._copies:
                reason = f"occurs twice, also in {self._copies[key].path}"
                self.found.add("restore", path, f"{self.kind.name} {item[self.kind.id]}", reason)
            self._copies[key] = _Copy(path, layout, i, _digest(self.kind.canonical(item)))

    def _items(self, path: str) -> tuple[bytes, list[Any]]:
        data = (self.root / path).read_bytes()
        items = parse_json(data, path)
        if not isinstance(items, list):
            raise InputError(f"expected a list of {self.kind.name}s", path)
        for i, item in enumerate(items):
            if not isinstance(item, dict) or not isinstance(item.get(self.kind.id), str):
                raise InputError(f"is no {self.kind.name}: it has no {self.kind.id!r}", path, f"[{i}]")
        return data, items

    def compare(self, path: str, key: str, row: Mapping[str, Any]) -> None:
        """Compares a row with its copy; each is compared once.

        Args:
          path: the row's file.
          key: its key.
          row: all of it.
        """
        where = f"{self.kind.name} {key.replace(chr(0), '/')}"
        copy = self._copies.pop(key, None)
        if copy is None:
            if not self.unread:
                self.found.add("restore", path, where, "is in no file below sgd/")
            return
        expected = {"layout": copy.layout, "position": copy.position, "file": copy.path.rpartition("/")[2]}
        for column, value in expected.items():
            if row.get(column, value) != value:
                self.found.add("restore", path, where, f"{column}: {row[column]!r} is {value!r} for {copy.path}")
        made = self.kind.restored(row)
        if _digest(self.kind.canonical(made)) != copy.digest:
            self.found.add("restore", path, where, self._difference(made, copy))

    def _difference(self, made: dict[str, Any], copy: _Copy) -> str:
        self._told += 1
        if self._told > _IN_FULL:
            return f"differs from {copy.path}"
        if self._last[0] != copy.path:
            self._last = (copy.path, self._items(copy.path)[1])
        places = differing(made, self._last[1][copy.position], 1)
        if not places:
            return f"has its keys in another order than {copy.path}"
        return f"{places[0].path}: {places[0].old} is {places[0].new} in {copy.path}"

    def finish(self, missed: Callable[[str], bool], table: str) -> None:
        """Names what no row restores; ``missed`` says of a key whether its row may be in a file that is damaged."""
        self._last = ("", [])
        for key, copy in self._copies.items():
            if not missed(key):
                name = key.replace("\0", "/")
                self.found.add("restore", copy.path, f"{self.kind.name} {name}", f"has no row in {table}")


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
