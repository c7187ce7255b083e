"""What a run of ``babi_task6`` is given: lists of calls, their split, and the ontology."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from parapet.schemas.errors import InputError, reason_and_place
from parapet.schemas.layout import SPLITS, as_path, is_there, parse_json

PAPER_DEV = 500  # Bordes et al. 2017, Table 1: DSTC2's 506 less six, which train has
BATCH = 128  # calls, and so dialogues of a file in the SGD layout
_PLACES = ("scripts/config", "")


class Batch(msgspec.Struct, frozen=True):
    """Calls that are read together, and fill one dialogue file.

    Attributes:
      split: ``train``, ``dev`` or ``test``.
      index: of the batch in its split, from 0.
      names: folders of the calls, in the order of the list.
    """

    split: str
    index: int
    names: tuple[str, ...]

    @property
    def relative(self) -> str:
        """The dialogue file below the corpus."""
        return f"{self.split}/dialogues_{self.index + 1:03}.json"


class Ontology(msgspec.Struct, frozen=True):
    """``ontology_dstc2.json``: values of the slots a caller can give, and the slots that can be asked for."""

    informable: dict[str, list[str]]
    requestable: list[str]


class Logs(msgspec.Struct, frozen=True):
    """The calls of a run.

    Attributes:
      folder: where they are.
      splits: to the calls' folders, in the order of the lists, after the split rule.
      moved: calls that went from dev to train.
    """

    folder: str
    splits: dict[str, tuple[str, ...]]
    moved: int

    @property
    def batches(self) -> list[Batch]:
        """All calls, in batches."""
        return [
            Batch(split, start // BATCH, names[start : start + BATCH])
            for split, names in self.splits.items()
            for start in range(0, len(names), BATCH)
        ]


def read_logs(root: str, dev: int | None) -> Logs:
    """Finds the calls by the lists of DSTC2, ``scripts/config/dstc2_train.flist`` and so on.

    Args:
      root: DSTC2 as it unpacks: ``data`` and ``scripts``.
      dev: how many calls the dev set keeps, the first of its list; the others go to train. None: as DSTC2 has it.

    Raises:
      InputError: no list, a list that cannot be read, a call that is listed twice.
    """
    if not is_there(root):
        raise InputError("there is no such folder", root, "--logs")
    found = {split: path for split in SPLITS if (path := _found(root, f"dstc2_{split}.flist"))}
    if not found:
        raise InputError("no lists here: expected scripts/config/dstc2_train.flist, _dev and _test", root, "--logs")
    splits = {split: _names(path) for split, path in found.items()}
    twice = [name for name, n in Counter(name for names in splits.values() for name in names).items() if n > 1]
    if twice:
        raise InputError(f"{twice[0]!r} is listed twice: a call belongs to one split", root, "--logs")
    moved = [] if dev is None else splits.get("dev", [])[dev:]
    if moved and "train" in splits:
        splits["train"] += moved
        splits["dev"] = splits["dev"][:dev]
    else:
        moved = []
    data = as_path(root) / "data"
    folder = str(data if data.is_dir() else as_path(root))
    return Logs(folder, {split: tuple(names) for split, names in splits.items()}, len(moved))


def _found(root: str, name: str) -> Path | None:
    places = [as_path(root) / place / name for place in _PLACES]
    return next((place for place in places if place.is_file()), None)


def _names(path: Path) -> list[str]:
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 at byte {error.start}", path) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path) from None
    return [line.strip() for line in text.splitlines() if line.strip()]


def read_ontology(root: str, given: str | None) -> Ontology:
    """Reads ``ontology_dstc2.json``. Raises InputError where it is missing or none."""
    path = as_path(given) if given else _found(root, "ontology_dstc2.json")
    if path is None or not is_there(path):
        reason = "no ontology here: expected scripts/config/ontology_dstc2.json, or give --ontology FILE"
        raise InputError(reason, given or root, "--ontology")
    read: Any = parse_json(path.read_bytes(), path)
    try:
        ontology = msgspec.convert(read, Ontology)
    except msgspec.ValidationError as error:
        reason, at = reason_and_place(error)
        raise InputError(f"is no ontology of DSTC2: {reason}", path, at) from None
    for slot in ("food", "area", "pricerange"):
        if slot not in ontology.informable:
            raise InputError(f"is no ontology of DSTC2: informable has no {slot!r}", path)
    return ontology


def sizes(splits: Mapping[str, Sequence[str]]) -> str:
    """``train 1,618, dev 500, test 1,117``."""
    return ", ".join(f"{split} {len(names):,}" for split, names in splits.items())
