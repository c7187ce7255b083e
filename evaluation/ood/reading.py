"""Labels of turns, in JSON lines or as ``parapet ood`` writes them, and what a detector said of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from parapet.evaluation.lines import Key, Keyed, check_same, key_of, named, read_keyed
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, is_there
from parapet.schemas.ood_turns import OOD_TURNS

OOD, IN_DOMAIN = "ood", "in_domain"

Label = Literal["ood", "in_domain", "in"]


class Labelled(Keyed, kw_only=True):
    """A row of the reference."""

    label: Label
    utterance: str = ""


class Detected(Keyed, kw_only=True):
    """A row of the predictions: a score, or a label, or both; the true label too, if there is no reference."""

    score: float | UnsetType = UNSET
    predicted: Label | UnsetType = UNSET
    label: Label | UnsetType = UNSET
    utterance: str = ""


class Turn(msgspec.Struct, frozen=True):
    """A turn with its label, and what the detector said.

    Attributes:
      ood: whether it is out-of-domain.
      score: None where there is none.
      predicted: whether it was said to be out-of-domain; None where that is not said.
    """

    ood: bool
    score: float | None
    predicted: bool | None
    utterance: str


class Truth(msgspec.Struct, frozen=True):
    """Of a turn of the reference, with its place in the file."""

    ood: bool
    utterance: str


def read_turns(predictions: str, truth: Mapping[Key, Truth] | None) -> dict[Key, Turn]:
    """The turns by key.

    Args:
      predictions: JSON lines.
      truth: of the reference; None where the predictions have the labels.

    Raises:
      InputError: turns missing, twice or unknown; no label, another than the reference's; neither score nor label
        predicted; some with a score (or a predicted label), others without.
    """
    rows = read_keyed(predictions, Detected)
    if truth is not None:
        rows = _in_only_set(rows, truth, predictions)
        check_same(truth, rows, predictions)
    found = {}
    for key, (number, row) in rows.items():
        where = f"line {number}"
        if truth is None and row.label is UNSET:
            raise InputError("has no label: give it here, or give --reference", predictions, where)
        if truth is not None and row.label is not UNSET and (row.label == OOD) != truth[key].ood:
            raise InputError("the label is another one than in the reference", predictions, where)
        if row.score is UNSET and row.predicted is UNSET:
            raise InputError("has neither a score nor a predicted label", predictions, where)
        found[key] = Turn(
            truth[key].ood if truth is not None else row.label == OOD,
            None if row.score is UNSET else row.score,
            None if row.predicted is UNSET else row.predicted == OOD,
            (truth[key].utterance if truth is not None else "") or row.utterance,
        )
    for name in ("score", "predicted"):
        lacking = [key for key, turn in found.items() if getattr(turn, name) is None]
        if lacking and len(lacking) < len(found):
            reason = f"has no {name}, and other rows have one: give all of them one, or none"
            raise InputError(reason, predictions, f"line {rows[lacking[0]][0]}")
    return found


def _in_only_set(
    rows: dict[Key, tuple[int, Detected]], truth: Mapping[Key, Truth], path: str
) -> dict[Key, tuple[int, Detected]]:
    """Rows without a set are of the reference's only one."""
    sets = {key[0] for key in truth}
    if "" in sets or any(key[0] for key in rows):
        return rows
    if len(sets) > 1:
        raise InputError(f"the rows have no 'set', and the reference has several: {', '.join(sorted(sets))}", path)
    (only,) = sets
    return {(only, *key[1:]): row for key, row in rows.items()}


def read_truth(reference: str, split: str, sets: Sequence[str]) -> dict[Key, Truth]:
    """The labels of a reference: a file of JSON lines, or what ``parapet ood`` wrote.

    Args:
      reference: the file or folder.
      split: of a folder.
      sets: of a folder, such as ``ood-10``; all that there are where none is named.

    Raises:
      InputError: nothing there, no such set or split, a file that cannot be read, a turn that appears twice.
    """
    if not is_there(reference):
        raise InputError("there is no such file or folder", reference)
    place = as_path(reference)
    if not place.is_dir():
        rows = read_keyed(reference, Labelled)
        return {key: Truth(row.label == OOD, row.utterance) for key, (_, row) in rows.items()}
    found: dict[Key, Truth] = {}
    for name in _sets_of(place, sets):
        for path in _files_of(place / name / "turns", split):
            for key, truth in _rows_of(path, name):
                if key in found:
                    raise InputError(f"{named(key)} appears twice", path)
                found[key] = truth
    return found


def _sets_of(place: Path, sets: Sequence[str]) -> list[str]:
    there = sorted(path.name for path in place.iterdir() if (path / "turns").is_dir())
    if not there:
        raise InputError("no set of 'parapet ood' here: expected such as ood-10/turns", place)
    for name in sets:
        if name not in there:
            raise InputError(f"there is no set {name!r}; there are: {', '.join(there)}", place, "--sets")
    return list(sets) or there


def _files_of(folder: Path, split: str) -> list[Path]:
    """Of a split; of a corpus without splits, those in the folder itself."""
    files = sorted((folder / split).glob("*.parquet")) or sorted(folder.glob("*.parquet"))
    if not files:
        there = ", ".join(sorted(path.name for path in folder.iterdir() if path.is_dir())) or "none"
        raise InputError(f"no turns of split {split!r}; there are: {there}", folder)
    return files


def _rows_of(path: Path, name: str) -> Iterator[tuple[Key, Truth]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = ["dialogue_id", "turn", "label", "utterance"]
    try:
        with path.open("rb") as handle:
            table = pq.read_table(handle, columns=columns)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"cannot be read as Parquet: {error}", path) from None
    for column in columns:
        if column not in table.column_names or table.schema.field(column).type != OOD_TURNS.field(column).type:
            raise InputError(f"these are no rows of 'parapet ood': column {column!r} is missing or another", path)
    row: dict[str, Any]
    for i, row in enumerate(table.to_pylist()):
        if row["label"] not in (OOD, IN_DOMAIN) or row["dialogue_id"] is None or row["turn"] is None:
            raise InputError(f"not a label, an id and a turn: {row['label']!r}", path, f"row {i}")
        yield (
            key_of(Keyed(set=name, **{k: row[k] for k in ("dialogue_id", "turn")})),
            Truth(row["label"] == OOD, row["utterance"] or ""),
        )
