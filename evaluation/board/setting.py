"""What a board is about: the sets of a release, its tasks, and whether the release is what it says it is."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from parapet.evaluation.board.submission import TASKS, OfRelease
from parapet.evaluation.compare.results import AVERAGED, Column, set_order
from parapet.evaluation.dst.frames import METRICS as STATES
from parapet.evaluation.intent import METRICS as INTENTS
from parapet.evaluation.lines import ALL
from parapet.evaluation.response.domains import METRICS as RESPONSES
from parapet.evaluation.sets import ORIGINAL, SetRoot, read_dialogues
from parapet.evaluation.writing import sha256_of
from parapet.schemas.errors import InputError
from parapet.schemas.layout import dialogue_files
from parapet.schemas.release import MANIFEST
from parapet.transforms.release.reading import Release, open_release

_METRICS = {
    "dst": STATES,
    "response": RESPONSES,
    "intent": INTENTS,
    "ood": ("accuracy", "precision", "recall", "f1", "auroc", "aupr", "fpr95"),
}
_AGAIN = "'parapet release verify' shows what else is wrong"


class Released(msgspec.Struct, frozen=True):
    """A release as a board sees it.

    Attributes:
      of: its name, version and hash, which submissions have to give.
      root: the folder of the labels: its own, or that of the release with the labels.
      sha256: over the manifest of that release.
      roots: the sets that have the split, the original first.
      dialogues: of each set.
    """

    of: OfRelease
    root: Path
    sha256: str
    roots: list[SetRoot]
    dialogues: dict[str, list[str]]


def open_released(place: str, private: str | None, split: str) -> Released:
    """Opens a release, and checks that the split's files are those of its manifest.

    Args:
      place: the release that participants have.
      private: the one with the labels, where the other has none.
      split: whose dialogues.

    Raises:
      InputError: no release, a file that was changed, no original or no such split, or two releases that do not have
        the same turns.
    """
    release = open_release(place)
    labelled = open_release(private) if private else release
    roots = _roots(labelled, split)
    for one in {release.root: release, labelled.root: labelled}.values():
        _check_files(one, split)
    turns = {root.name: _turns(root.path, split) for root in roots}
    if private:
        others = {root.name: root for root in _roots(release, split)}
        for name, of in turns.items():
            if name not in others or _turns(others[name].path, split) != of:
                raise InputError(f"set {name!r} has other dialogues than in {place}", private, "--private")
    given = OfRelease(release.manifest.name, release.manifest.version, _sha256(release.root))
    dialogues = {name: list(dialogues) for name, dialogues in turns.items()}
    return Released(given, labelled.root, _sha256(labelled.root), roots, dialogues)


def _sha256(root: Path) -> str:
    return hashlib.sha256((root / MANIFEST).read_bytes()).hexdigest()


def _roots(release: Release, split: str) -> list[SetRoot]:
    folder = release.root / "sgd"
    names = sorted((path.name for path in folder.iterdir()), key=set_order) if folder.is_dir() else []
    found = [
        SetRoot(name, folder / name, "original" if name == ORIGINAL else "variant" if _is_variant(name) else "other")
        for name in names
        if dialogue_files(folder / name, split)
    ]
    if ORIGINAL not in [root.name for root in found]:
        raise InputError(f"the release has no dialogues in sgd/{ORIGINAL}/{split}", release.root, "--release")
    return found


def _is_variant(name: str) -> bool:
    return name[:1] == "v" and name[1:].isdigit()


def _check_files(release: Release, split: str) -> None:
    """Raises InputError where a file of the split is not what the manifest says."""
    known = {file.path: file.sha256 for file in release.manifest.files}
    for root in _roots(release, split):
        for path in sorted((root.path / split).iterdir()):
            relative = path.relative_to(release.root).as_posix()
            if known.get(relative) != sha256_of(path):
                raise InputError(f"is not the file that {MANIFEST} lists; {_AGAIN}", path)


def _turns(root: Path, split: str) -> dict[str, list[tuple[str, str]]]:
    """By dialogue who says what."""
    return {
        dialogue.dialogue_id: [(turn.speaker, turn.utterance) for turn in dialogue.turns]
        for _, dialogue in read_dialogues(root, split)
    }


def tasks_of(values: Sequence[str], released: Released, ood: str | None) -> dict[str, list[str]]:
    """Task to the sets that are scored, of values such as ``dst`` or ``response=original,typos``.

    Raises:
      InputError: a task or set that there is not; no folder with the labels of task ``ood``.
    """
    names = [root.name for root in released.roots]
    found: dict[str, list[str]] = {}
    for value in values:
        task, equals, listed = value.partition("=")
        if task not in TASKS or task in found:
            raise InputError(f"{task!r}: expected each of {', '.join(TASKS)} once", "--tasks")
        if task == "ood":
            if ood is None or equals:
                raise InputError("task ood needs --ood, the folder with its labels, and has the sets of it", "--tasks")
            found[task] = []
            continue
        sets = [name.strip() for name in listed.split(",")] if equals else names
        for name in sets:
            if name not in names:
                raise InputError(f"the release has no set {name!r}, only {', '.join(names)}", "--tasks")
        if ORIGINAL not in sets:
            raise InputError(f"{task}: the set {ORIGINAL!r} is always one of them", "--tasks")
        found[task] = [name for name in names if name in sets]
    if ood is not None and "ood" not in found:
        raise InputError("goes with --tasks ood", "--ood")
    return found


def columns_of_average(requested: Sequence[str], tasks: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """What the average counts, whoever has submitted what: as requested, or the main metric of each task on each set.

    Raises:
      InputError: a column that no submission can have.
    """
    if not requested:
        return tuple(
            column.name if task != "ood" else column.metric
            for task, sets in tasks.items()
            for column in _columns(task, sets, AVERAGED[task])
        )
    known = {name for task, sets in tasks.items() for one in _columns(task, sets, _METRICS[task]) for name in one.names}
    for name in requested:
        of_ood = "ood" in tasks and name.rpartition("/")[2] in _METRICS["ood"]  # whose sets are read later
        if name not in known and not of_ood:
            raise InputError(f"no task of the board has {name!r}", "--average")
    return tuple(requested)


def _columns(task: str, sets: Sequence[str], metrics: Sequence[str]) -> list[Column]:
    """The columns of a task; other tasks than ``dst`` have no names of sets where there is only one."""
    names = sets if len(sets) > 1 or task == "dst" else [ALL]
    return [Column(task, name, metric) for name in names for metric in metrics]


def evaluation_flags(task: str, sets: Sequence[str], released: Released, split: str, ood: str | None) -> list[str]:
    """The flags of ``parapet evaluate`` that name what is scored."""
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
