"""Labels of turns, in JSON lines or as ``parapet ood`` writes them, and what a detector said of them."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from parapet.evaluation.lines import Key, Keyed, check_complete, key_of, named, read_keyed
from parapet.evaluation.sets import ORIGINAL, Placed, Sources, find_sets, read_dialogues, read_rows
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, is_root, is_there
from parapet.schemas.limits import open_path
from parapet.schemas.ood_turns import OOD_TURNS
from parapet.transforms.ood.injecting import FALLBACKS

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
      fallbacks: what the reference's system answers to out-of-domain turns.
    """

    turns: dict[Key, Truth]
    in_domain: frozenset[str] = frozenset()
    fallbacks: frozenset[str] = frozenset()

    @property
    def sets(self) -> list[str]:
        """The names of the sets; one without a name where JSON lines have none."""
        return list(dict.fromkeys(key[0] for key in self.turns))


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
    fallbacks = frozenset(map(_words, [*FALLBACKS, *(truth.fallbacks if truth else ())]))
    rows: dict[Key, Placed[Detected]] = {}
    for key, placed in (_judged(*one, fallbacks) for one in _predicted(predictions, split, truth).items()):
        if key in rows:
            raise placed.error(f"{named(key)} has a response and another row")
        rows[key] = placed
    if truth is not None:
        for key, placed in rows.items():
            if key not in truth.turns:
                raise placed.error(f"the reference has no {named(key)}")
        check_complete(truth.turns, rows, predictions)
    found = {}
    for key, placed in rows.items():
        row, its = placed.row, truth.turns[key] if truth is not None else None
        if its is None and row.label is UNSET:
            raise placed.error("has no label: give it here, or give --reference")
        if its is not None and row.label is not UNSET and (row.label == OOD) != its.ood:
            raise placed.error("the label is another one than in the reference")
        if row.score is UNSET and row.predicted is UNSET:
            raise placed.error("has neither a score nor a predicted label")
        found[key] = Turn(
            its.ood if its is not None else row.label == OOD,
            None if row.score is UNSET else row.score,
            None if row.predicted is UNSET else row.predicted == OOD,
            (its.utterance if its is not None else "") or row.utterance,
        )
    for name in ("score", "predicted"):
        lacking = [key for key, turn in found.items() if getattr(turn, name) is None]
        if lacking and len(lacking) < len(found):
            raise rows[lacking[0]].error(f"has no {name}, and other rows have one: give all of them one, or none")
    return found


def _judged(key: Key, placed: Placed[Detected], fallbacks: Container[str]) -> tuple[Key, Placed[Detected]]:
    """A response as the label of the user's turn before it; other rows as they are."""
    row = placed.row
    if row.response is UNSET or row.score is not UNSET or row.predicted is not UNSET:
        return key, placed
    label: Label = "ood" if _words(row.response) in fallbacks else "in_domain"
    return (*key[:2], key[2] - 1), placed._replace(row=msgspec.structs.replace(row, predicted=label))


def _words(response: str) -> str:
    """A response without letters' case and punctuation, which models may write differently."""
    return " ".join(re.findall(r"\w+", response.casefold()))


def _predicted(predictions: str, split: str, truth: Truths | None) -> dict[Key, Placed[Detected]]:
    """The rows by key; those without a set are of the reference's only one."""
    if as_path(predictions).is_dir():
        if truth is None:
            raise InputError("a folder has the predictions for sets: give --reference, too", predictions)
        found: dict[Key, Placed[Detected]] = {}
        names = {name or ORIGINAL: name for name in truth.sets}
        for placed in read_rows(predictions, split, list(names), Detected):
            try:
                key: Key = (names[placed.set], *key_of(placed.row)[1:])
            except InputError as error:
                raise placed.error(error.reason) from None
            if key in found:
                raise placed.error(f"{named(key)} appears twice")
            found[key] = placed
        return found
    rows = {
        key: Placed(key[0], predictions, f"line {number}", row)
        for key, (number, row) in read_keyed(predictions, Detected).items()
    }
    if truth is None or "" in truth.sets or any(key[0] for key in rows):
        return rows
    if len(truth.sets) > 1:
        listed = ", ".join(sorted(truth.sets))
        raise InputError(f"the rows have no 'set', and the reference has several: {listed}", predictions)
    return {(truth.sets[0], *key[1:]): placed for key, placed in rows.items()}


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
    reference, split = sources.reference, sources.split
    if not is_there(reference):
        raise InputError("there is no such file or folder", reference)
    (_, place, _), *others = find_sets(sources)
    if place.is_dir() and (is_of_ood(str(place)) or not is_root(place)):
        roots = {name: place / name for name in _sets_of(place, chosen)}
    elif chosen:
        raise InputError(f"needs a folder that 'parapet ood' wrote as --reference: {chosen[0]!r}", "--sets")
    elif place.is_dir() or others:
        roots = {ORIGINAL: place}
    else:
        rows = read_keyed(reference, Labelled)
        return Truths({key: Truth(row.label == OOD, row.utterance) for key, (_, row) in rows.items()})
    for name, other, _ in others:
        if name in roots:
            raise InputError(f"there is a set of the name {name!r} already", other, "--sets")
        roots[name] = other
    turns: dict[Key, Truth] = {}
    in_domain: set[str] = set()
    fallbacks: set[str] = set()
    for name, root in roots.items():
        for path, key, truth in _turns_of(root, name, split, in_domain):
            if key in turns:
                raise InputError(f"{named(key)} appears twice", path)
            turns[key] = truth
            fallbacks |= {truth.fallback} if truth.fallback else set()
    return Truths(turns, frozenset(in_domain), frozenset(fallbacks))


def _turns_of(root: Path, name: str, split: str, in_domain: set[str]) -> Iterator[tuple[str, Key, Truth]]:
    """(file, key, truth) of the turns of a set; adds its name to ``in_domain`` where it has no labels."""
    if root.is_file():
        for key, (number, row) in read_keyed(str(root), Labelled).items():
            if key[0]:
                reason = "has a set of its own: give all sets as --sets, or in one file"
                raise InputError(reason, root, f"line {number}")
            yield str(root), (name, *key[1:]), Truth(row.label == OOD, row.utterance)
    elif _has_labels(root):
        for path in _files_of(root / "turns", split):
            yield from ((str(path), *row) for row in _rows_of(path, name))
    elif is_of_ood(str(root)) and not is_root(root):
        there = _sets_of(root, ())
        raise InputError(f"holds the sets {', '.join(there)}: give one, {there[0]}={root / there[0]}", root, "--sets")
    else:
        in_domain.add(name)
        for file, dialogue in read_dialogues(root, split):
            for position, turn in enumerate(dialogue.turns):
                if turn.speaker == "USER":
                    yield file, (name, dialogue.dialogue_id, position), Truth(False, turn.utterance)


def is_of_ood(path: str) -> bool:
    """Whether a folder is one that ``parapet ood`` wrote: it has sets with labels of turns."""
    place = as_path(path)
    return place.is_dir() and any((one / "turns").is_dir() for one in place.iterdir())


def _has_labels(root: Path) -> bool:
    """Whether a set has labels of its turns; other perturbations have rows there, too."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = next(iter(sorted((root / "turns").rglob("*.parquet"))), None) if (root / "turns").is_dir() else None
    if path is None:
        return False
    try:
        with open_path(path) as handle:
            return "label" in pq.read_schema(handle).names
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"cannot be read as Parquet: {error}", path) from None


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

    columns = ["dialogue_id", "turn", "label", "utterance", "fallback"]
    try:
        with open_path(path) as handle:
            table = pq.read_table(handle, columns=columns)
        table.validate(full=True)  # a text may be no UTF-8
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
            Truth(row["label"] == OOD, row["utterance"] or "", row["fallback"] or ""),
        )
