"""Labels of turns, in JSON lines or as ``parapet ood`` writes them, and what a detector said of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from parapet.evaluation.lines import Key, Keyed, check_complete, named
from parapet.evaluation.sets import (
    ORIGINAL,
    Placed,
    Sources,
    find_sets,
    keyed_predictions,
    keyed_rows,
    read_dialogues,
)
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, is_root, is_there
from parapet.schemas.limits import open_path
from parapet.transforms.ood.plan import FALLBACKS

OOD, IN_DOMAIN = "ood", "in_domain"

Label = Literal["ood", "in_domain", "in"]


class Labelled(Keyed, kw_only=True):
    """A row of the reference."""

    label: Label
    utterance: str = ""


class Detected(Keyed, kw_only=True):
    """A row of the predictions: a score, or a label, or both; the true label too, if there is no reference.

    Or a system's response, in the turn after the user's: a fallback says that the user's is out-of-domain.
    """

    score: float | UnsetType = UNSET
    predicted: Label | UnsetType = UNSET
    response: str | UnsetType = UNSET
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
    """Of a turn of the reference, with its place in the file; ``fallback``: what the system answers, if it is known."""

    ood: bool
    utterance: str
    fallback: str = ""


class Truths(msgspec.Struct, frozen=True):
    """The labels of a reference.

    Attributes:
      turns: by key.
      in_domain: the sets that are corpora without labels: all of their turns are in-domain.
    """

    turns: dict[Key, Truth]
    in_domain: frozenset[str] = frozenset()


class OodRow(msgspec.Struct):
    """A row of ``parapet ood``, as far as it is read."""

    dialogue_id: str
    turn: int
    label: Literal["ood", "in_domain"]
    utterance: str | None
    fallback: str | None


def read_turns(predictions: str, split: str, truth: Truths | None) -> dict[Key, Turn]:
    """The turns by key.

    Args:
      predictions: JSON lines, or a folder with those of each set.
      split: whose turns.
      truth: of the reference; None where the predictions have the labels.

    Raises:
      InputError: turns missing, twice or unknown; no label, another than the reference's; neither score nor label
        predicted; some with a score (or a predicted label), others without.
    """
    if truth is None and as_path(predictions).is_dir():
        raise InputError("a folder has the predictions for sets: give --reference, too", predictions)
    truths = truth.turns if truth is not None else {}
    names = list(dict.fromkeys(key[0] for key in truths)) or [""]
    rows = keyed_predictions(predictions, split, names, Detected) if truth else keyed_rows(predictions, Detected)
    fallbacks = set(map(_words, [*FALLBACKS, *(its.fallback for its in truths.values() if its.fallback)]))
    turns: dict[Key, Turn] = {}
    first: Placed[Detected] | None = None
    for key, placed in rows:
        row = placed.row
        predicted: Label | UnsetType = row.predicted
        if row.response is not UNSET and row.score is UNSET and predicted is UNSET:
            # A response says of the user's turn before it whether it is out-of-domain.
            key, predicted = (*key[:2], key[2] - 1), "ood" if _words(row.response) in fallbacks else "in_domain"
        its = truths.get(key)
        if key in turns:
            raise placed.error(f"{named(key)} appears twice")
        if truth is not None and its is None:
            raise placed.error(f"the reference has no {named(key)}")
        if its is None and row.label is UNSET:
            raise placed.error("has no label: give it here, or give --reference")
        if its is not None and row.label is not UNSET and (row.label == OOD) != its.ood:
            raise placed.error("the label is another one than in the reference")
        if row.score is UNSET and predicted is UNSET:
            raise placed.error("has neither a score nor a predicted label")
        first = first or placed
        turns[key] = Turn(
            its.ood if its is not None else row.label == OOD,
            None if row.score is UNSET else row.score,
            None if predicted is UNSET else predicted == OOD,
            (its.utterance if its is not None else "") or row.utterance,
        )
        one = next(iter(turns.values()))
        for name in ("score", "predicted"):
            if (getattr(turns[key], name) is None) != (getattr(one, name) is None):
                lacks, has = ("no", "one") if getattr(one, name) is not None else ("a", "none")
                raise placed.error(f"has {lacks} {name}, and the first row has {has}: give all of them one, or none")
    check_complete(truths, turns, predictions)
    return turns


def _words(response: str) -> str:
    """A response without letters' case and punctuation, which models may write differently."""
    return " ".join(re.findall(r"\w+", response.casefold()))


def read_truth(sources: Sources, chosen: Sequence[str] = ()) -> Truths:
    """The labels of a reference, and of further sets.

    Args:
      sources: the reference is a file of JSON lines; what ``parapet ood`` wrote; or a corpus, all of whose turns are
        in-domain, as are those of variants. Other sets are each a set that ``parapet ood`` wrote, a corpus, or JSON
        lines.
      chosen: of the sets that ``parapet ood`` wrote, such as ``ood-10``; all that there are where none is named.

    Raises:
      InputError: nothing there, no such set or split, a file that cannot be read, a turn that appears twice.
    """
    if not is_there(sources.reference):
        raise InputError("there is no such file or folder", sources.reference)
    (_, place, _), *others = find_sets(sources)
    if place.is_dir() and (is_of_ood(str(place)) or not is_root(place)):
        roots: dict[str | None, Path] = {name: place / name for name in _sets_of(place, chosen)}
    elif chosen:
        raise InputError(f"needs a folder that 'parapet ood' wrote as --reference: {chosen[0]!r}", "--sets")
    else:
        roots = {ORIGINAL if place.is_dir() or others else None: place}
    for name, other, _ in others:
        if name in roots:
            raise InputError(f"there is a set of the name {name!r} already", other, "--sets")
        roots[name] = other
    turns: dict[Key, Truth] = {}
    in_domain: set[str] = set()
    for set_name, root in roots.items():
        for path, key, truth in _turns_of(root, set_name, sources.split, in_domain):
            if key in turns:
                raise InputError(f"{named(key)} appears twice", path)
            turns[key] = truth
    return Truths(turns, frozenset(in_domain))


def _turns_of(root: Path, name: str | None, split: str, in_domain: set[str]) -> Iterator[tuple[str, Key, Truth]]:
    """(file, key, truth) of the turns of a set; adds its name to ``in_domain`` where it has no labels.

    Only JSON lines may be without a name: they say themselves of which set they are.
    """
    if name is None or root.is_file():
        for key, placed in keyed_rows(str(root), Labelled, name):
            yield str(root), key, Truth(placed.row.label == OOD, placed.row.utterance)
    elif _has_labels(root):
        for path in _files_of(root / "turns", split):
            for row in _rows_of(path):
                key = name, row.dialogue_id, row.turn
                yield str(path), key, Truth(row.label == OOD, row.utterance or "", row.fallback or "")
    elif is_of_ood(str(root)) and not is_root(root):
        first, *more = _sets_of(root, ())
        reason = f"holds the sets {', '.join([first, *more])}: give one, {first}={root / first}"
        raise InputError(reason, root, "--sets")
    else:
        in_domain.add(name)
        for file, dialogue in read_dialogues(root, split):
            for position, turn in enumerate(dialogue.turns):
                if turn.speaker == "USER":
                    yield file, (name, dialogue.dialogue_id, position), Truth(False, turn.utterance)


def is_of_ood(path: str) -> bool:
    """Whether a folder is one that ``parapet ood`` wrote: it has sets with labels of turns."""
    place = as_path(path)
    return place.is_dir() and any((folder / "turns").is_dir() for folder in place.iterdir())


def _has_labels(root: Path) -> bool:
    """Whether a set has labels of its turns; other perturbations have rows there, too."""
    import pyarrow.parquet as pq

    path = next(iter(sorted((root / "turns").rglob("*.parquet"))), None) if (root / "turns").is_dir() else None
    return path is not None and "label" in _parquet(path, pq.read_schema).names


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


def _rows_of(path: Path) -> list[OodRow]:
    import pyarrow.parquet as pq

    def read(handle: Any) -> list[dict[str, Any]]:
        table = pq.read_table(handle)
        table.validate(full=True)  # a text may be no UTF-8
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows

    try:
        return msgspec.convert(_parquet(path, read), list[OodRow])
    except msgspec.ValidationError as error:
        raise InputError(f"these are no rows of 'parapet ood': {error}", path) from None


def _parquet(path: Path, read: Callable[[Any], Any]) -> Any:
    import pyarrow as pa

    try:
        with open_path(path) as handle:
            return read(handle)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"cannot be read as Parquet: {error}", path) from None
