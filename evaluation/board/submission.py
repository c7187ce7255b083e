"""Reads and checks submissions to a leaderboard, and its release.

A submission is a folder with ``submission.toml`` and predictions. It is untrusted and checked, and so is the release.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import re
import stat
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

import msgspec
from msgspec import UNSET, UnsetType

from parapet.evaluation.compare.results import AVERAGED, Column, set_order
from parapet.evaluation.dst.frames import METRICS as STATES
from parapet.evaluation.intent import METRICS as INTENTS
from parapet.evaluation.response.task import METRICS as RESPONSES
from parapet.evaluation.sets import ALL, ORIGINAL, SetRoot, prediction_files, read_dialogues, read_lines
from parapet.evaluation.task import sha256_of
from parapet.schemas.errors import InputError, reason_and_place
from parapet.schemas.layout import dialogue_files
from parapet.schemas.limits import MAX_DIALOGUE_FILE, read_whole
from parapet.schemas.release import MANIFEST
from parapet.transforms.release.reading import Release, open_release
from parapet.transforms.reports.markdown import is_url

FILE = "submission.toml"
TASKS = ("dst", "response", "intent", "ood")
_MOST_BYTES = 64 * 1024  # limit of submission.toml
_MOST_FILES = 10_000
_MOST_NAMED = 5  # dialogues listed in a message
# invisible marks that change the direction of text
_DIRECTIONS = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# Invisible characters that Python counts as printable.
_UNSEEN = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\ufe00-\ufe0f\U000e0100-\U000e01ef]")
# Hyphens, dashes, minus signs and slashes that look like those of ASCII.
_LIKE_ASCII = {**dict.fromkeys([*range(0x2010, 0x2016), 0x2212], "-"), **dict.fromkeys([0x2044, 0x2215], "/")}
# Scripts that names may mix with Latin letters, since none of their letters looks like a Latin one.
_BESIDE_LATIN = ("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "BOPOMOFO", "HANGUL")
# Cyrillic and Greek letters that look like Latin ones.
_LIKE_LATIN = frozenset(
    "\u0410\u0412\u0415\u0405\u0406\u0408\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425"
    "\u0430\u0435\u0455\u0456\u0458\u043e\u0440\u0441\u0443\u0445\u04bb\u0501\u051b\u051d"
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf\u03bd"
)


class OfRelease(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The release that was predicted; ``manifest_sha256`` is the hash of its ``MANIFEST.json``."""

    name: str
    version: str
    manifest_sha256: str


class Submission(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of ``submission.toml``.

    Attributes:
      system: its name on the leaderboard.
      tasks: task to the folder of its predictions, below that of the submission.
      link: a paper or a repository.
    """

    system: str
    authors: list[str]
    date: datetime.date
    release: OfRelease
    tasks: dict[str, str]
    link: str = ""
    description: str = ""


class Found(msgspec.Struct, frozen=True):
    """A submission that may be scored.

    Attributes:
      folder: its name below the folder of submissions.
      predictions: task to the path of its predictions.
      sha256: task to the hash over names and bytes of its predictions.
    """

    folder: str
    submission: Submission
    predictions: dict[str, Path]
    sha256: dict[str, str]


def template(release: OfRelease, tasks: Iterable[str], today: datetime.date) -> str:
    """Makes a ``submission.toml`` to fill in."""
    folders = "\n".join(f'{task} = "{_FOLDERS[task]}"' for task in tasks)
    return f"""\
system = "My system"
authors = ["Ada Example"]
date = {today.isoformat()}
link = "" # a paper or a repository: https://...
description = ""

# The release that the predictions are of
[release]
name = "{release.name}"
version = "{release.version}"
manifest_sha256 = "{release.manifest_sha256}"

# The folders of predictions, each with a folder for every set: predictions/original/test/...
[tasks]
{folders}
"""


_FOLDERS = {"dst": "predictions", "response": "responses", "intent": "intents", "ood": "ood"}


def read_submission(
    folder: Path, release: OfRelease, tasks: Sequence[str], megabytes: int = 1000, most_files: int = _MOST_FILES
) -> Found:
    """Reads and checks a submission, except for its predictions.

    Args:
      folder: the submission's folder.
      release: the leaderboard's release.
      tasks: the leaderboard's tasks.
      megabytes: the limit of its size.
      most_files: the limit of its number of files.

    Raises:
      InputError: the submission is refused; the message says why.
    """
    if not folder.name.isprintable():
        raise InputError("the folder's name has characters that cannot be shown")
    files = _files_of(folder, megabytes, most_files)
    submission = _read(folder)
    _check_release(submission.release, release)
    if not submission.tasks:
        raise InputError(f"no predictions: [tasks] must name at least one of {', '.join(tasks)}")
    predictions = {}
    for task, place in submission.tasks.items():
        if task not in tasks:
            raise InputError(f"this leaderboard has no task {_short(task)!r}, only {', '.join(tasks)}", "", "tasks")
        predictions[task] = _below(folder, place, f"tasks.{task}")
    hashes = {task: _sha256(place, files) for task, place in predictions.items()}
    return Found(folder.name, submission, predictions, hashes)


def _files_of(folder: Path, megabytes: int, most_files: int) -> list[Path]:
    """Lists the files of a submission, sorted.

    Raises InputError for special files, or if files are too large or too many.
    """
    if folder.is_symlink():
        raise InputError("is a link, which is not allowed")
    files, size = [], 0
    for root, folders, names in os.walk(folder, onerror=_unreadable):
        for name in [*folders, *names]:
            path = Path(root) / name
            mode = path.lstat().st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise InputError(f"{_short(str(path.relative_to(folder)))} is a link, or not a regular file")
            if stat.S_ISREG(mode):
                files.append(path)
                size += path.lstat().st_size
        if len(files) > most_files:
            raise InputError(f"has more than {most_files:,} files")
        if size > megabytes * 10**6:
            raise InputError(f"has more than {megabytes:,} MB")
    return sorted(files)


def _unreadable(error: OSError) -> None:
    raise InputError(f"cannot be read: {error.strerror}")


def _read(folder: Path) -> Submission:
    path = folder / FILE
    if not path.is_file():
        raise InputError(f"there is no {FILE}")
    if path.stat().st_size > _MOST_BYTES:
        raise InputError(f"{FILE} has more than {_MOST_BYTES // 1024} KB")
    data = read_whole(path, _MOST_BYTES)
    try:
        submission = msgspec.convert(tomllib.loads(data.decode()), Submission)
    except msgspec.ValidationError as error:
        reason, at = reason_and_place(error)
        raise InputError(f"{FILE}: {at + ': ' if at else ''}{reason}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{FILE} is not TOML: {error}") from None
    texts = {"system": [submission.system], "authors": submission.authors, "description": [submission.description]}
    for key, values in texts.items():
        for value in values:
            _check_text(key, value, 2000 if key == "description" else 100)
    _check_name(submission.system)
    if not submission.authors or len(submission.authors) > 50:
        raise InputError(f"{FILE}: authors: must have 1 to 50 entries")
    if submission.link and not (is_url(submission.link) and len(submission.link) <= 500):
        raise InputError(f"{FILE}: link: expected https://... or http://..., of at most 500 characters")
    return submission


def _check_text(key: str, value: str, most: int) -> None:
    if not value.strip() and key != "description":
        raise InputError(f"{FILE}: {key}: must not be empty")
    if len(value) > most:
        raise InputError(f"{FILE}: {key}: has more than {most:,} characters")
    controls = (letter for letter in value if unicodedata.category(letter) in ("Cc", "Cs") and letter != "\n")
    if next(controls, None) or _DIRECTIONS.search(value) or ("\n" in value and key != "description"):
        raise InputError(f"{FILE}: {key}: contains control characters")


def _check_name(name: str) -> None:
    """Raises InputError if a system's name could be mistaken for one made of other characters."""
    if not name.isprintable() or _UNSEEN.search(name):
        raise InputError(f"{FILE}: system: contains invisible characters: type the name again")
    plain = " ".join(unicodedata.normalize("NFKC", name).translate(_LIKE_ASCII).split())
    if plain != name:
        raise InputError(f"{FILE}: system: contains unusual forms of characters: write {plain!r}")
    letters = [letter for letter in name if letter.isalpha()]
    scripts = {unicodedata.name(letter, "?").split()[0] for letter in letters}.difference(_BESIDE_LATIN)
    if len(scripts) > 1:
        listed = " and ".join(script.capitalize() for script in sorted(scripts))
        raise InputError(f"{FILE}: system: mixes {listed} letters, some of which look alike: use letters of one script")
    if letters and _LIKE_LATIN.issuperset(letters):
        raise InputError(
            f"{FILE}: system: all letters are {scripts.pop().capitalize()}, but look like Latin ones: use Latin letters"
        )


def _check_release(given: OfRelease, release: OfRelease) -> None:
    for key in ("name", "version", "manifest_sha256"):
        given_value, other = getattr(given, key), getattr(release, key)
        if given_value != other:
            raise InputError(
                f"is for another release: {key} is {_short(given_value)!r}, but that of this leaderboard is {other!r}"
            )


def _below(folder: Path, place: str, where: str) -> Path:
    """Returns a path below the folder. Raises InputError if it lies outside or does not exist."""
    parts = PurePosixPath(place).parts
    if not parts or place.startswith("/") or ".." in parts or "\\" in place or "\0" in place:
        raise InputError(f"{_short(place)!r} is not a folder of the submission", "", where)
    path = folder.joinpath(*parts)
    if not path.exists():
        raise InputError(f"there is no {_short(place)!r}", "", where)
    return path


def _sha256(place: Path, files: Iterable[Path]) -> str:
    """Hashes the names and bytes of the files below a path."""
    digest = hashlib.sha256()
    for path in files:
        if path == place or place in path.parents:
            name = path.relative_to(place.parent).as_posix()
            digest.update(f"{name}\0{sha256_of(path)}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


class _Identified(msgspec.Struct):
    """The id of a dialogue or of a row of predictions; other fields are ignored."""

    dialogue_id: str | int | UnsetType = UNSET


def check_complete(predictions: Path, split: str, expected: Mapping[str, Sequence[str]]) -> None:
    """Raises InputError that lists all sets and dialogues without a prediction.

    Args:
      predictions: a task's predictions: a folder with those of each set, or a file.
      split: the scored split.
      expected: set to its dialogue ids.
    """
    if predictions.is_file():
        return  # a single file for all sets; the evaluation reports what is missing
    missing = []
    for name, ids in expected.items():
        try:
            files = prediction_files(str(predictions), split, name)
        except InputError:
            missing.append(f"there are no predictions for {name!r}")
            continue
        predicted = {dialogue_id for path in files.values() for dialogue_id in _ids_in(path)}
        if lacking := [dialogue_id for dialogue_id in ids if dialogue_id not in predicted]:
            named = ", ".join(lacking[:_MOST_NAMED]) + (", ..." if len(lacking) > _MOST_NAMED else "")
            missing.append(f"{len(lacking):,} of {len(ids):,} dialogues of {name!r} are missing: {named}")
    if missing:
        raise InputError(f"incomplete: {'; '.join(missing)}")


def _ids_in(path: str) -> Iterator[str]:
    if path.endswith(".jsonl"):
        rows: Iterable[_Identified] = (row for _, row in read_lines(path, _Identified))
    else:
        try:
            rows = msgspec.json.decode(read_whole(path, MAX_DIALOGUE_FILE), type=list[_Identified])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"not a JSON file of dialogues: {error}", path) from None
    yield from (str(row.dialogue_id) for row in rows)


def _short(text: str) -> str:
    """Shortens untrusted text to one line for a message."""
    line = " ".join(text.split())
    return line if len(line) <= 80 else f"{line[:77]}..."


_METRICS = {
    "dst": STATES,
    "response": RESPONSES,
    "intent": INTENTS,
    "ood": ("accuracy", "precision", "recall", "f1", "auroc", "aupr", "fpr95"),
}
_AGAIN = "'parapet release verify' shows what else is wrong"


class Released(msgspec.Struct, frozen=True):
    """The release of a leaderboard.

    Attributes:
      of: its name, version and hash, which submissions must state.
      root: the folder of the labels: in the release itself, or in the release with the labels.
      sha256: the hash of the manifest of that release.
      roots: the sets that have the split, the original first.
      dialogues: the dialogue ids of each set.
    """

    of: OfRelease
    root: Path
    sha256: str
    roots: list[SetRoot]
    dialogues: dict[str, list[str]]


def open_released(place: str, private: str | None, split: str) -> Released:
    """Opens a release, and checks the split's files against its manifest.

    Args:
      place: the release that participants have.
      private: the release with the labels, if ``place`` has none.
      split: the scored split.

    Raises:
      InputError: a release is missing, a file has changed, the original or the split is missing, or the two releases
        have different turns.
    """
    release = open_release(place)
    labelled = open_release(private) if private else release
    roots = _roots(labelled, split)
    for opened in {release.root: release, labelled.root: labelled}.values():
        _check_files(opened, split)
    turns = {root.name: _turns(root.path, split) for root in roots}
    if private:
        others = {root.name: root for root in _roots(release, split)}
        for name, dialogues_here in turns.items():
            if name not in others or _turns(others[name].path, split) != dialogues_here:
                raise InputError(f"set {name!r} has different dialogues than in {place}", private, "--private")
    expected = OfRelease(release.manifest.name, release.manifest.version, sha256_of(release.root / MANIFEST))
    dialogues = {name: list(dialogues) for name, dialogues in turns.items()}
    return Released(expected, labelled.root, sha256_of(labelled.root / MANIFEST), roots, dialogues)


def _roots(release: Release, split: str) -> list[SetRoot]:
    folder = release.root / "sgd"
    names = sorted((path.name for path in folder.iterdir()), key=set_order) if folder.is_dir() else []
    roots = [
        SetRoot(name, folder / name, "original" if name == ORIGINAL else "variant" if _is_variant(name) else "other")
        for name in names
        if dialogue_files(folder / name, split)
    ]
    if ORIGINAL not in [root.name for root in roots]:
        raise InputError(f"the release has no dialogues in sgd/{ORIGINAL}/{split}", release.root, "--release")
    return roots


def _is_variant(name: str) -> bool:
    return name[:1] == "v" and name[1:].isdigit()


def _check_files(release: Release, split: str) -> None:
    """Raises InputError if a file of the split differs from the manifest."""
    known = {file.path: file.sha256 for file in release.manifest.files}
    for root in _roots(release, split):
        for path in [*root.path.glob("*.json"), *sorted((root.path / split).iterdir())]:
            relative = path.relative_to(release.root).as_posix()
            if known.get(relative) != sha256_of(path):
                raise InputError(f"differs from the file that {MANIFEST} lists; {_AGAIN}", path)


def _turns(root: Path, split: str) -> dict[str, list[tuple[str, str]]]:
    """Returns (speaker, utterance) of the turns of each dialogue."""
    return {
        dialogue.dialogue_id: [(turn.speaker, turn.utterance) for turn in dialogue.turns]
        for _, dialogue in read_dialogues(root, split)
    }


def tasks_of(values: Sequence[str], released: Released, ood: str | None) -> dict[str, list[str]]:
    """Maps tasks to the scored sets, from values such as ``dst`` or ``response=original,typos``.

    Raises:
      InputError: a task or set does not exist, or the folder with the labels of task ``ood`` is missing.
    """
    names = [root.name for root in released.roots]
    tasks: dict[str, list[str]] = {}
    for value in values:
        task, equals, listed = value.partition("=")
        if task not in TASKS or task in tasks:
            raise InputError(f"{task!r}: must be one of {', '.join(TASKS)}, and appear once", "--tasks")
        if task == "ood":
            if ood is None or equals:
                raise InputError(
                    "task ood requires --ood, the folder with its labels, and takes no sets: they are those of "
                    "this folder",
                    "--tasks",
                )
            tasks[task] = []
            continue
        sets = [name.strip() for name in listed.split(",")] if equals else names
        for name in sets:
            if name not in names:
                raise InputError(f"the release has no set {name!r}, only {', '.join(names)}", "--tasks")
        if ORIGINAL not in sets:
            raise InputError(f"{task}: the sets must include {ORIGINAL!r}", "--tasks")
        tasks[task] = [name for name in names if name in sets]
    if ood is not None and "ood" not in tasks:
        raise InputError("requires --tasks ood", "--ood")
    return tasks


def columns_of_average(requested: Sequence[str], tasks: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Returns the columns of the average: those requested, or the main metric of each task on each set.

    They do not depend on the submissions.

    Raises:
      InputError: no submission can have such a column.
    """
    if not requested:
        return tuple(
            column.name if task != "ood" else column.metric
            for task, sets in tasks.items()
            for column in _columns(task, sets, AVERAGED[task])
        )
    known = {
        name for task, sets in tasks.items() for column in _columns(task, sets, _METRICS[task]) for name in column.names
    }
    for name in requested:
        of_ood = "ood" in tasks and name.rpartition("/")[2] in _METRICS["ood"]  # its sets are read later
        if name not in known and not of_ood:
            raise InputError(f"no task of the leaderboard has {name!r}", "--average")
    return tuple(requested)


def _columns(task: str, sets: Sequence[str], metrics: Sequence[str]) -> list[Column]:
    """Lists the columns of a task. With a single set, only those of ``dst`` have the set's name."""
    names = sets if len(sets) > 1 or task == "dst" else [ALL]
    return [Column(task, name, metric) for name in names for metric in metrics]


def evaluation_flags(task: str, sets: Sequence[str], released: Released, split: str, ood: str | None) -> list[str]:
    """Makes the flags of ``parapet evaluate`` that name the scored files."""
    if task == "ood":
        return ["--reference", str(ood), "--split", split]
    folder = released.root / "sgd"
    kinds: Mapping[str, str] = {root.name: root.kind for root in released.roots}
    variants = [name for name in sets if kinds[name] == "variant"]
    others = [f"{name}={folder / name}" for name in sets if kinds[name] == "other"]
    return [
        *("--reference", str(folder / ORIGINAL), "--split", split),
        *(["--variants", str(folder), "--variant", ",".join(variants)] if variants else []),
        *(["--sets", *others] if others else []),
    ]
