"""Dialogues of a corpus as most pipelines take them: the files, the dialogues in them, and draws that never change."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from parapet.schemas.dialogue import Dialogue, typed
from parapet.schemas.dialogue_files import DialogueFile, dialogue_folders, list_files, read_each
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, read_root

_SUFFIX = re.compile(r"_\d+$")


class Corpus(msgspec.Struct, frozen=True):
    """The dialogues of a run.

    Attributes:
      files: the dialogue files, the largest first.
      schemas: (path below a set, the bytes of a schema file).
      problems: what is wrong with schemas, one line each.
    """

    files: list[DialogueFile]
    schemas: list[tuple[str, bytes]]
    problems: list[str]


def read_corpus(root: str | Path, splits: Sequence[str]) -> Corpus:
    """Lists the dialogues of some splits. Raises InputError: files that cannot be read, no such split."""
    originals = read_root(root, leave_out_bad=True)
    folders = dialogue_folders(as_path(root), originals)
    if set(folders) != {""}:  # a split of its own has no folders
        if not splits:
            raise InputError("give one or more of train, dev, test", "--split")
        for split in splits:
            if split not in folders:
                there = ", ".join(folder for folder in folders if folder) or "none"
                raise InputError(f"there are no dialogues in {split!r}; there are in: {there}", root, "--split")
        folders = {split: folders[split] for split in splits}
    schemas = {of.relative_path: as_path(of.path).read_bytes() for of in folders.values()}
    problems = list(dict.fromkeys(str(bad.error) for of in folders.values() for bad in of.bad))
    return Corpus(list_files(as_path(root), folders), sorted(schemas.items()), problems)


def read_file(file: DialogueFile) -> bytes:
    """The bytes of a dialogue file. Raises InputError where it cannot be read, ever."""
    if file.content is not None:
        return file.content
    try:
        if "://" not in file.path:
            return Path(file.path).read_bytes()
        from parapet.transforms.files import read_bytes

        return read_bytes(file.path)
    except OSError as error:
        if error.strerror is None:  # of the network: the runner tries again
            raise
        raise InputError(f"cannot be read: {error.strerror}", file.path) from None


def dialogues_of(file: DialogueFile) -> Iterator[tuple[int, Any, bool, Dialogue | InputError]]:
    """(position, the dialogue as it stands, whether it is plain JSON, the same typed or why it is no dialogue).

    Raises:
      InputError: the file cannot be read, or is no list; possibly after some dialogues.
    """
    for position, (raw, plain) in enumerate(read_each(read_file(file), file.path)):
        try:
            yield position, raw, plain, typed(raw)
        except InputError as error:
            yield position, raw, plain, error


def listed(given: str) -> list[str]:
    """The parts of a flag's list, without blanks: ``0.1, 0.2``."""
    return [part for part in given.replace(" ", "").split(",") if part]


def domain_of(service: str) -> str:
    """``Restaurants`` of ``Restaurants_2``."""
    return _SUFFIX.sub("", service)


def hashed(*parts: str) -> int:
    """64 bits that look drawn, the same for the same parts."""
    return int.from_bytes(hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()[:8], "big")
