"""The sets of a run, shared by all tasks; and their predictions, which are read strictly and matched by key.

Every set has a name. ``original`` is the reference; its variants have the names of their folders, such as ``v1``;
others are named by ``--sets NAME=ROOT``. The predictions for all sets are in one folder, see :func:`prediction_files`.
Errors in JSON lines name file and line.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Generic, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from parapet.schemas import layout, limits
from parapet.schemas.dialogue import Dialogue, corpus_files
from parapet.schemas.errors import InputError, reason_and_place
from parapet.transforms.perturb.corpora import dialogues_of, read_corpus
from parapet.transforms.variants.matching import find_variants

# Set, dialogue id, turn. Items that are not turns of a dialogue have their own id and turn 0.
Key = tuple[str, str, int]

ALL, MEAN = "#ALL", "#MEAN"
ORIGINAL = "original"  # the name of the reference's set


def mixes(sets: Collection[str]) -> set[str]:
    """Returns the sets that mix another set with the original: ``typos-env1`` if ``typos`` is a set, too."""
    return {name for name in sets if (match := re.fullmatch("(.+)-env[0-9]+", name)) and match[1] in sets}


def group_label(name: str) -> str:
    """Returns the label of a group: ``Seen domains`` for ``#SEEN_DOMAINS``; a set's label is its name."""
    return name[1:].capitalize().replace("_", " ") if name.startswith("#") else name


class Keyed(msgspec.Struct, kw_only=True):
    """The common fields of rows: an ``id``, or ``dialogue_id`` and ``turn``; and the set, if there are several."""

    set: str = ""
    id: str | int | UnsetType = UNSET
    dialogue_id: str | int | UnsetType = UNSET
    turn: int | UnsetType = UNSET


AnyRow = TypeVar("AnyRow")
KeyedRow = TypeVar("KeyedRow", bound=Keyed)
_decode = msgspec.json.Decoder().decode


def existing_file(path: str) -> Path:
    """Returns the path of a file. Raises InputError if it does not exist."""
    place = layout.as_path(path)
    if not layout.is_there(path) or not place.is_file():
        raise InputError("there is no such file", path)
    return place


def read_lines(path: str, kind: type[AnyRow]) -> Iterator[tuple[int, AnyRow]]:
    """Yields the rows of JSON lines with their line number, from 1. Blank lines and unknown fields are ignored.

    Raises:
      InputError: the file does not exist, is not UTF-8 or JSON, or is not of ``kind``; with the line.
    """
    with limits.open_path(existing_file(path)) as handle:
        yield from parse_lines(handle, msgspec.json.Decoder(kind), path)


def parse_lines(handle: BinaryIO, decoder: msgspec.json.Decoder[AnyRow], path: str) -> Iterator[tuple[int, AnyRow]]:
    """Yields the rows of an open file; only one line is in memory at a time. See :func:`read_lines`."""
    for number, line in enumerate(iter(handle.readline, b""), 1):
        text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        if text.strip():
            yield number, parse_line(text, decoder, path, f"line {number}")


def parse_line(line: bytes, decoder: msgspec.json.Decoder[AnyRow], path: str, where: str) -> AnyRow:
    """Parses a row. Raises InputError as :func:`read_lines`."""
    try:
        return decoder.decode(line)
    except msgspec.ValidationError as error:
        reason, at = reason_and_place(error)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason, at = f"this is not JSON: {error}", ""
    raise InputError(f"{at}: {reason}" if at else reason, path, where)


def key_of(placed: Placed[KeyedRow]) -> Key:
    """Returns the key of a row. Raises InputError if it has none, or more than one."""
    row = placed.row
    if row.set.startswith("#"):
        raise placed.error(f"a set cannot be called {row.set!r}: names with # are reserved")
    if row.id is not UNSET:
        if row.dialogue_id is not UNSET or row.turn is not UNSET:
            raise placed.error("has both an id and a dialogue_id or turn: give one or the other")
        return row.set, str(row.id), 0
    if row.dialogue_id is UNSET or row.turn is UNSET:
        raise placed.error("has no key: give an id, or dialogue_id and turn")
    if not 0 <= row.turn < 2**31:
        raise placed.error(f"there is no turn {row.turn}: turns count from 0")
    return row.set, str(row.dialogue_id), row.turn


def named(key: Key) -> str:
    """Formats a key for messages."""
    name, dialogue_id, turn = key
    return f"{dialogue_id!r}, turn {turn}" + (f", of {name!r}" if name else "")


def check_complete(reference: Iterable[Key], predictions: Container[Key], path: str) -> None:
    """Raises InputError if predictions are missing.

    Args:
      reference: the keys to be predicted.
      predictions: the predicted keys.
      path: the path of the predictions, for messages.
    """
    if missing := sorted(key for key in reference if key not in predictions):
        more = f"; {len(missing):,} are missing in all" if len(missing) > 1 else ""
        raise InputError(f"there is no prediction for {named(missing[0])}{more}", path)


def groups_of(keys: Iterable[Key]) -> dict[str, list[Key]]:
    """Groups sorted keys for scoring: ``#ALL``, and each named set, the original first."""
    groups: dict[str, list[Key]] = {ALL: []}
    for key in sorted(keys, key=lambda key: (key[0] != ORIGINAL, key)):
        groups[ALL].append(key)
        if key[0]:
            groups.setdefault(key[0], []).append(key)
    return groups


def with_mean(groups: Mapping[str, Mapping[str, float | None]]) -> dict[str, dict[str, float | None]]:
    """Adds ``#MEAN`` if there are several sets: the unweighted mean over the sets that have a metric.

    It is None if the metric is undefined for one of them.
    """
    sets = [metrics for name, metrics in groups.items() if name != ALL]
    result = {name: dict(metrics) for name, metrics in groups.items()}
    if len(sets) > 1:
        result[MEAN] = {name: _mean([metrics[name] for metrics in sets if name in metrics]) for name in groups[ALL]}
    return result


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(values) else None


RELEASE = "MANIFEST.json"  # distinguishes a release from a corpus

Kind = Literal["original", "variant", "other"]


class Sources(msgspec.Struct, frozen=True):
    """The sources that the flags name.

    Attributes:
      reference: a corpus, or a release.
      split: the split.
      variants: a folder of variants, or None; a release has its own.
      wanted: the names of the variants to use; empty for all.
      others: further sets, by name.
      predictions: the predictions of all sets; None if a model predicts.
    """

    reference: str
    split: str
    variants: str | None = None
    wanted: tuple[str, ...] = ()
    others: dict[str, str] = {}
    predictions: str | None = None

    def inputs(self) -> dict[str, str | None]:
        """Returns flag to path, with one entry for each set."""
        sets = {f"sets/{name}": root for name, root in self.others.items()}
        return {"reference": self.reference, "variants": self.variants, **sets}


class SetRoot(NamedTuple):
    """A set, and the folder of its corpus."""

    name: str
    path: Path
    kind: Kind


def find_sets(sources: Sources) -> list[SetRoot]:
    """Lists the sets that the flags name, the original first. A release includes its variants.

    Raises:
      InputError: a folder or variant is missing, or two sets have the same name.
    """
    reference, released = open_reference(sources.reference)
    variants = {}
    if sources.variants is not None:
        variants = find_variants(sources.variants, sources.wanted)
    elif released:
        missing = [name for name in sources.wanted if name not in released]
        if missing:
            reason = f"there is no variant {missing[0]!r} (found: {', '.join(released)})"
            raise InputError(reason, reference, "--variant")
        variants = {name: path for name, path in released.items() if name in (sources.wanted or released)}
    if ORIGINAL in variants:
        raise InputError(f"a variant cannot be called {ORIGINAL!r}", variants[ORIGINAL], "--variants")
    roots = [SetRoot(ORIGINAL, reference, "original")]
    roots += [SetRoot(name, path, "variant") for name, path in variants.items()]
    for name, other in sources.others.items():
        if name in {root.name for root in roots}:
            raise InputError(f"another set is called {name!r}: give this one another name", other, "--sets")
        if not layout.is_there(other):
            raise InputError("there is no such file or folder", other, "--sets")
        roots.append(SetRoot(name, layout.as_path(other), "other"))
    return roots


def open_reference(root: str) -> tuple[Path, dict[str, Path]]:
    """Returns the corpus of a reference, and the variants of a release."""
    path = layout.as_path(root)
    if not layout.is_there(path / RELEASE):
        return path, {}
    corpora = path / "sgd"
    folders = {folder.name: folder for folder in sorted(corpora.iterdir())} if layout.is_there(corpora) else {}
    if ORIGINAL not in folders:
        raise InputError("the release has no sgd/original: give a corpus as --reference", root, "--reference")
    variants = {name: folder for name, folder in folders.items() if name[:1] == "v" and name[1:].isdigit()}
    return folders[ORIGINAL], variants


def read_dialogues(root: str | Path, split: str) -> Iterator[tuple[str, Dialogue]]:
    """Yields the dialogues of a split, each with the path of its file, in the order of paths.

    Raises:
      InputError: a file or dialogue cannot be read, two dialogues have the same id, or the split does
        not exist.
    """
    for file in sorted(read_corpus(root, [split]).files, key=lambda file: file.path):
        for position, _, dialogue in dialogues_of(file):
            where = f"[{position}]"
            if isinstance(dialogue, InputError):
                raise InputError(dialogue.reason, file.path, f"{where} {dialogue.where}".strip())
            yield file.path, dialogue


def check_has_dialogues(root: SetRoot) -> None:
    """Raises InputError for a variant that has only schemas."""
    if root.kind == "variant" and root.path.is_dir() and not corpus_files(root.path):
        reason = f"contains schemas without dialogues: run 'parapet rewrite --variants {root.path.parent}'"
        raise InputError(f"{reason}, and give its output", root.path, "--variants")


def services_of_train(root: str | Path, schemas: Mapping[str, layout.SplitSchemas]) -> frozenset[str] | None:
    """Returns the names of the services that a system has seen in training; None if there is no training split.

    Args:
      root: the corpus.
      schemas: its schemas by split; one for all splits, as MultiWOZ 2.2 has it, is also that of train.
    """
    train = schemas.get(layout.TRAIN) or (
        schemas.get(layout.SINGLE) if layout.dialogue_files(root, layout.TRAIN) else None
    )
    return None if train is None else frozenset(service.service_name for service in train.services)


def common_dialogues(sets: Mapping[str, Collection[str]]) -> frozenset[str]:
    """Returns the dialogues that all sets have, which are compared; warns about the others.

    Args:
      sets: the distinct ids of the dialogues of each set, the original's first.

    Raises:
      InputError: less than half of the original's dialogues are in all sets.
    """
    original, *_ = sets
    common = frozenset(sets[original]).intersection(*sets.values())
    others = [f"{len(ids) - len(common):,} of {name}" for name, ids in sets.items() if len(ids) > len(common)]
    if not others:
        return common
    counts = ", ".join([*others[:6], "..."] if len(others) > 6 else others)
    if not common or 2 * len(common) < len(sets[original]):
        reason = (
            f"the sets have different dialogues: all of them have only {len(common):,} of the "
            f"{len(sets[original]):,} of {original}; the others are {counts}: give sets made from the same dialogues"
        )
        raise InputError(reason, "--variants, --sets")
    logging.warning(
        "the sets have different dialogues: only the %s that all of them have are compared, without %s",
        f"{len(common):,}",
        counts,
    )
    return common


def parse_sets(values: Sequence[str]) -> dict[str, str]:
    """Parses values such as ``typos=varied/typos`` to names and roots. Raises InputError."""
    roots: dict[str, str] = {}
    for value in values:
        name, equals, root = value.partition("=")
        if not equals or not root or not name or "/" in name or name[0] in ".#":
            raise InputError(f"{value!r} is not of the form NAME=ROOT (example: typos=varied/typos)", "--sets")
        if name in roots:
            raise InputError(f"{name!r} appears twice", "--sets")
        roots[name] = root
    return roots


def prediction_files(
    predictions: str, split: str, name: str, suffixes: Sequence[str] = (".json", ".jsonl")
) -> dict[str, str]:
    """Returns the paths of a set's prediction files, by name.

    They are in ``PREDICTIONS/NAME/SPLIT`` or ``PREDICTIONS/NAME``, or are one file, ``PREDICTIONS/NAME.jsonl``. Those
    of the original may be in ``PREDICTIONS/SPLIT`` or ``PREDICTIONS`` itself.

    Args:
      predictions: the folder of all sets, or one file.
      split: the split.
      name: the name of the set.
      suffixes: the suffixes of the files.

    Raises:
      InputError: there are none.
    """
    root = layout.as_path(predictions)
    if not layout.is_there(root):
        raise InputError("there is no such file or folder", root, "--predictions")
    if root.is_file():
        if name != ORIGINAL:
            reason = f"is a file, which can only have predictions for the original: give a folder for {name}"
            raise InputError(reason, root, "--predictions")
        return {root.name: str(root)}
    for place in (root / name / split, root / name):
        if files := _listed(place, suffixes):
            return files
    if ".jsonl" in suffixes and (root / f"{name}.jsonl").is_file():
        return {f"{name}.jsonl": str(root / f"{name}.jsonl")}
    for place in (root / split, root) if name == ORIGINAL else ():
        if files := _listed(place, suffixes):
            return files
    expected = f"{' or '.join(suffixes)} files in {root / name / split} or {root / name}"
    raise InputError(f"contains no predictions for {name}: expected {expected}", root, "--predictions")


_RUN = re.compile("run-(0|[1-9][0-9]*)")


def run_name(number: int) -> str:
    """Returns the name of the folder of one of several runs of a system, counted from 0."""
    return f"run-{number}"


def run_folders(predictions: str) -> list[str]:
    """Lists the folders ``run-0``, ``run-1`` … of a folder of predictions; none if they are of a single run.

    Raises InputError if the folder of a run is missing.
    """
    root = layout.as_path(predictions)
    if not layout.is_there(predictions) or not root.is_dir():
        return []
    names = [path.name for path in root.iterdir() if path.is_dir()]
    numbers = sorted(int(match[1]) for match in map(_RUN.fullmatch, names) if match)
    if numbers != list(range(len(numbers))):
        raise InputError(f"has {run_name(numbers[-1])}, so it must have all of run-0, run-1 …", root, "--predictions")
    return [str(root / run_name(number)) for number in numbers]


def _listed(folder: Path, suffixes: Sequence[str]) -> dict[str, str]:
    if not layout.is_there(folder) or not folder.is_dir():
        return {}
    layout.check_published(folder, "--predictions")
    return {
        path.name: str(path)
        for path in sorted(folder.iterdir())
        if path.suffix in suffixes and path.name not in ("schema.json", "run.json") and path.is_file()
    }


Row = TypeVar("Row", bound=Any)  # has the name of its set, or an empty text, in "set"


class Placed(NamedTuple, Generic[Row]):
    """A row with its set and its place: a file, and a position in it such as ``line 7``."""

    set: str
    path: str
    where: str
    row: Row

    def error(self, reason: str) -> InputError:
        """Makes an error at this place."""
        return InputError(reason, self.path, self.where)


def read_rows(predictions: str, split: str, names: Sequence[str], kind: type[Row]) -> Iterator[Placed[Row]]:
    """Yields the predictions for all sets from JSON lines.

    Args:
      predictions: a folder, in which :func:`prediction_files` finds those of each set; or a file, whose rows name their
        ``set`` if there are several.
      split: the split.
      names: the names of the sets.
      kind: the type of the rows.

    Raises:
      InputError: a file cannot be read, a set has no predictions, or a row belongs to another set.
    """
    if layout.as_path(predictions).is_dir():
        for name in names:
            for path in prediction_files(predictions, split, name, (".jsonl",)).values():
                for number, row in read_lines(path, kind):
                    placed = Placed(name, path, f"line {number}", row)
                    if row.set not in ("", name):
                        raise placed.error(f"belongs to set {row.set!r}, but is in the files of {name!r}")
                    yield placed
        return
    turns_found = set()
    for number, row in read_lines(predictions, kind):
        placed = Placed(row.set or names[0], predictions, f"line {number}", row)
        if not row.set and len(names) > 1:
            raise placed.error(f"has no 'set', but there are several sets: {', '.join(names)}")
        if placed.set not in names:
            listed = ", ".join(names)
            raise placed.error(f"there is no set {row.set!r}, only {listed}: add it with --sets {row.set}=ROOT")
        turns_found.add(placed.set)
        yield placed
    missing = [name for name in names if name not in turns_found]
    if missing and len(names) > 1:
        raise InputError(f"contains no predictions for {missing[0]}", predictions, "--predictions")


def keyed_rows(path: str, kind: type[KeyedRow], name: str | None = None) -> Iterator[tuple[Key, Placed[KeyedRow]]]:
    """Yields the rows of a file of JSON lines, each with its key.

    Args:
      path: the path of the file.
      kind: the type of the rows.
      name: the set of all rows; None if the rows may name it themselves.

    Raises:
      InputError: see :func:`read_lines`; or a row has no key, two rows have the same, only some rows have a set, or a
        row names a set although there is a ``name``.
    """
    rows: dict[Key, Placed[KeyedRow]] = {}
    for number, row in read_lines(path, kind):
        placed = Placed(row.set, path, f"line {number}", row)
        key = key_of(placed)
        if key in rows:
            raise placed.error(f"{named(key)} appears twice: first in {rows[key].where}")
        if name is not None and row.set:
            raise placed.error("names a set: give all sets as --sets, or all in one file")
        rows[key] = placed
    if not rows:
        raise InputError("contains no rows", path)
    without_set = [placed for placed in rows.values() if not placed.set]
    if 0 < len(without_set) < len(rows):
        raise without_set[0].error("has no set, but other rows have one: give a set in all rows, or in none")
    for key, placed in rows.items():
        yield (key if name is None else (name, *key[1:])), placed


def keyed_predictions(
    predictions: str, split: str, names: Sequence[str], kind: type[KeyedRow]
) -> Iterator[tuple[Key, Placed[KeyedRow]]]:
    """Yields the predictions for all sets like :func:`read_rows`, each with its key.

    A single set may have the name ``""``. Its predictions are searched as those of the original.
    """
    by_name = {name or ORIGINAL: name for name in names}
    for placed in read_rows(predictions, split, list(by_name), kind):
        yield (by_name[placed.set], *key_of(placed)[1:]), placed


# Set to dialogue to system turn to the reference's utterance.
Turns = Mapping[str, Mapping[str, Mapping[int, str]]]


RowOfTurn = TypeVar("RowOfTurn", bound=Any)  # has dialogue_id and turn


def match_turns(
    rows: Iterable[Placed[RowOfTurn]], turns: Turns, predictions: str
) -> dict[str, dict[tuple[str, int], RowOfTurn]]:
    """Returns each set's predictions by dialogue and turn, in the order of the reference: one for each system turn.

    Raises:
      InputError: a prediction is missing, occurs twice, or is for a turn that is not the system's.
    """
    rows_by_set: dict[str, dict[tuple[str, int], RowOfTurn]] = {name: {} for name in turns}
    for placed in rows:
        row, known = placed.row, turns[placed.set].get(placed.row.dialogue_id)
        if known is None:
            raise placed.error(f"the reference has no dialogue {row.dialogue_id!r}")
        if row.turn not in known:
            numbers = [str(turn) for turn in sorted(known)]
            listed = ", ".join([*numbers[:6], "..."] if len(numbers) > 6 else numbers)
            reason = f"turn {row.turn} of {row.dialogue_id!r} is not a turn of the system, whose turns are {listed}"
            raise placed.error(reason)
        if (row.dialogue_id, row.turn) in rows_by_set[placed.set]:
            raise placed.error(f"dialogue {row.dialogue_id!r} turn {row.turn} appears twice")
        rows_by_set[placed.set][row.dialogue_id, row.turn] = row
    for name, dialogues in turns.items():
        keys = sorted((dialogue_id, turn) for dialogue_id, known in dialogues.items() for turn in known)
        if missing := [key for key in keys if key not in rows_by_set[name]]:
            reason = f"there is no prediction for dialogue {missing[0][0]!r} turn {missing[0][1]}"
            reason += f" of {name}" if len(turns) > 1 else ""
            raise InputError(reason + (f"; {len(missing):,} are missing in all" if missing[1:] else ""), predictions)
        rows_by_set[name] = {key: rows_by_set[name][key] for key in keys}
    return rows_by_set
