"""The dialogue files of a corpus: listed, read one dialogue at a time, and written with the published files' bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import orjson

from parapet.schemas import limits
from parapet.schemas.dialogue import over_limit, repeated_id
from parapet.schemas.errors import InputError
from parapet.schemas.json_text import check_kept, items_in, parse_as_python, parse_json, without_mark
from parapet.schemas.layout import SINGLE, SPLITS, SplitSchemas, dialogue_files
from parapet.schemas.limits import in_bytes

# What stands before the first dialogue of a file, between two, and after the last.
OPENING, BETWEEN, CLOSING = b"[\n", b",\n", b"\n]\n"
EMPTY = b"[]\n"
NULL = b"null"  # orjson writes it for NaN, too, which Python's own module keeps

_OPTIONS = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS
_NOT_ASCII = re.compile("[\x7f-\U0010ffff]+")
_split = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode = msgspec.json.Decoder().decode


class DialogueFile(msgspec.Struct, frozen=True):
    """A file of dialogues.

    Attributes:
      split: the folder below the root in which it stands: ``train``, or nothing.
      name: the file's.
      path: its place.
      size: in bytes.
      content: its bytes, where they are at hand and there is no file at all.
    """

    split: str
    name: str
    path: str
    size: int
    content: bytes | None = None

    @property
    def relative(self) -> str:
        """Its path below the root."""
        return f"{self.split}/{self.name}" if self.split else self.name


def list_files(root: Path, folders: Iterable[str]) -> list[DialogueFile]:
    """The dialogue files of the folders below ``root``, the largest first. Raises InputError where there are none."""
    paths = [(folder, path) for folder in folders for path in dialogue_files(root, folder)]
    if not paths:
        raise InputError("no dialogues here: expected files such as train/dialogues_001.json", root)
    with ThreadPoolExecutor(16) as pool:  # a bucket answers one question after another slowly
        sizes = pool.map(lambda found: found[1].stat().st_size, paths)
        files = [
            DialogueFile(folder, path.name, str(path), size) for (folder, path), size in zip(paths, sizes, strict=True)
        ]
    return sorted(files, key=lambda file: (-file.size, file.relative))


def dialogue_folders(root: Path, originals: Sequence[SplitSchemas]) -> dict[str, SplitSchemas]:
    """The folders below ``root`` that hold dialogues, each with the schema that stands for it.

    Raises:
      InputError: dialogues without a schema.
    """
    if originals[0].split == SINGLE:
        # MultiWOZ 2.2 has one schema for all splits; a split alone has its dialogues beside the schema.
        return {folder: originals[0] for folder in ("", *SPLITS) if dialogue_files(root, folder)}
    of = {split.split: split for split in originals}
    for split in SPLITS:
        if split not in of and dialogue_files(root, split):
            raise InputError("there are dialogues and no schema.json", root / split)
    return {name: split for name, split in of.items() if dialogue_files(root, name)}


def read_each(data: bytes, path: object) -> Iterator[tuple[Any, bool]]:
    """The items of a dialogue file, one at a time: besides the bytes only one is in memory.

    Yields:
      (item, whether it is plain JSON; Python's own module also takes NaN, infinity and half surrogates). An item that
      is beyond a limit, has what cannot be kept as it stands, or has the id of an earlier item, is the ``InputError``
      that says so.

    Raises:
      InputError: not JSON or not a list; possibly after some items.
    """
    data = without_mark(data, path)
    items: Sequence[Any] | None
    try:
        items = _split(data)
    except (msgspec.MsgspecError, RecursionError):
        items = items_in(data)
    first: dict[str, int] = {}
    for position, raw in enumerate(_parsed(data, path) if items is None else items):
        try:
            item, plain = read_item(bytes(raw))
        except ValueError:
            # The whole file, so that the error has its line and column.
            _parsed(data, path)
            raise InputError("not JSON", path) from None
        dialogue_id = item.get("dialogue_id") if isinstance(item, dict) else None
        if isinstance(dialogue_id, str) and (reason := repeated_id(dialogue_id, position, first)):
            item, plain = InputError(reason), False
        yield item, plain


def read_item(raw: bytes) -> tuple[Any, bool]:
    """One item, and whether it is plain. Raises ValueError for what is not JSON."""
    if len(raw) > limits.MAX_DIALOGUE:
        reason = f"too_large: the dialogue has {len(raw):,} bytes, over the limit of {in_bytes(limits.MAX_DIALOGUE)}"
        return InputError(reason), False
    try:
        try:
            item, plain = _decode(raw), True
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            item, plain = parse_as_python(raw), False
        check_kept(raw, item)
    except InputError as error:
        return InputError(f"not_sgd: {error.reason}", "", error.where.removeprefix(".")), False
    if isinstance(item, dict) and (reason := over_limit(item.get("dialogue_id"), item.get("turns"))):
        return InputError(reason), False
    return item, plain


def _parsed(data: bytes, path: object) -> list[Any]:
    items = parse_json(data, path)
    if not isinstance(items, list):
        raise InputError(f"expected a list of dialogues, found {type(items).__name__}", path)
    return items


def file_bytes(texts: Sequence[bytes]) -> bytes:
    """A dialogue file, from its dialogues as :func:`dialogue_text` has them."""
    return OPENING + BETWEEN.join(texts) + CLOSING if texts else EMPTY


def dialogue_text(dialogue: Any, plain: bool = True) -> bytes:
    """One dialogue as it stands in a file of them, ``json.dumps(..., indent=2, sort_keys=True)``: ASCII, indented.

    Args:
      dialogue: the dialogue.
      plain: as :func:`read_each` has it.

    Raises:
      InputError: nested too deeply, or it has a value that JSON cannot hold.
    """
    if plain:
        try:
            data = orjson.dumps([dialogue], option=_OPTIONS)[2:-2]
        except TypeError as error:  # whole numbers beyond 64 bits, or nested deeply
            if "must be str" in str(error):  # Python's own module would write 1 as "1"
                raise InputError(f"is not JSON: {error}") from None
            data = NULL
        if NULL not in data:
            return as_ascii(data)
    try:
        return json.dumps([dialogue], indent=2, sort_keys=True)[2:-2].encode("ascii")
    except RecursionError:
        raise InputError("not_sgd: nested too deeply") from None
    except (TypeError, ValueError) as error:
        raise InputError(f"is not JSON: {error}") from None


def as_ascii(data: bytes) -> bytes:
    """JSON with every character outside ASCII, and DEL, escaped as Python's own module does."""
    if data.isascii() and b"\x7f" not in data:
        return data
    return _NOT_ASCII.sub(_escape, data.decode()).encode("ascii")


def _escape(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1]
