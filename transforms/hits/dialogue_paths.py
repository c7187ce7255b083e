"""Which dialogue files are meant: those of a corpus, of a split's folder, or files by name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from schemas.errors import InputError
from schemas.layout import SPLITS, as_path, dialogue_files, is_there


class DialoguePath(msgspec.Struct, frozen=True):
    """A dialogue file. ``name`` is its last folder and file name: it says the split, and not whose machine it was."""

    position: int
    path: str
    name: str


def dialogue_paths(places: Iterable[str | Path], split: str | None = None) -> list[DialoguePath]:
    """The dialogue files of corpora, splits' folders and files, each once, in that order.

    Args:
      places: ``ROOT`` with ``{train,dev,test}/dialogues_NNN.json``, a folder with ``dialogues_NNN.json``, or files.
      split: only this one, of corpora.

    Raises:
      InputError: nothing there, or no dialogue file in it.
    """
    found = {path.resolve(): path for place in places for path in _files_of(as_path(place), split)}
    return [
        DialoguePath(position, str(path), f"{resolved.parent.name}/{resolved.name}")
        for position, (resolved, path) in enumerate(found.items())
    ]


def _files_of(place: Path, split: str | None) -> list[Path]:
    if not is_there(place):
        raise InputError("there is no such file or folder", place)
    if place.is_file():
        if split is not None:
            raise InputError("is a file: --split takes one split of a corpus's folder", place)
        return [place]
    if split is not None:
        found, expected = dialogue_files(place, split), f"{split}/dialogues_001.json"
    else:
        found = [path for each in SPLITS for path in dialogue_files(place, each)] or dialogue_files(place, "")
        expected = "train/dialogues_001.json, or dialogues_001.json,"
    if not found:
        raise InputError(f"no dialogues here: expected {expected} and so on", place)
    return found
