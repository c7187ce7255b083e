"""Which dialogue files are meant: those of a corpus, of a split's folder, or files by name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.layout import SPLITS, TEST, as_path, dialogue_files, is_there


class DialoguePath(msgspec.Struct, frozen=True):
    """A dialogue file. ``name`` is its last folder and file name: it says the split, and not whose machine it was."""

    position: int
    path: str
    name: str


def dialogue_paths(places: Iterable[str | Path], split: str | None = None) -> list[DialoguePath]:
    """The dialogue files of corpora, splits' folders and files, each once, in that order.

    Args:
      places: ``ROOT`` with ``{train,dev,test}/dialogues_NNN.json``, a folder with ``dialogues_NNN.json``, or files.
      split: of corpora; where it is not said ``test``. A split's folder has its own.

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
    found = dialogue_files(place, split or TEST) or (dialogue_files(place, "") if split is None else [])
    if not found:
        there = [each for each in SPLITS if dialogue_files(place, each)]
        if there:
            raise InputError(f"no dialogues of {split or TEST!r}; there are in: {', '.join(there)}", place, "--split")
        raise InputError(f"no dialogues here: expected {split or TEST}/dialogues_001.json and so on", place)
    return found
