"""All that a classifier is trained on, read and held against each other."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from parapet.evaluation.models.classifier.data import Turn, is_of_ood, read_labelled
from parapet.evaluation.models.holding_out import held_out
from parapet.evaluation.ood.reading import OOD
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.transforms import corpora


class Corpus(msgspec.Struct, frozen=True):
    """What it is trained on: turns with labels; ``foreign`` are those that a threshold is tuned on, if any."""

    train: list[Turn]
    dev: list[Turn]
    foreign: list[Turn]


class Read(msgspec.Struct, frozen=True):
    """A corpus, and (flag, path) of the files that it was read from."""

    corpus: Corpus
    files: list[tuple[str, str]]


def read_corpus(
    task: str,
    train: Sequence[str],
    split: str,
    dev: Sequence[str] | None,
    foreign: Sequence[str] | None,
    dev_split: str,
    share: float,
    seed: str,
) -> Read:
    """Reads what is trained on.

    Args:
      task: ``intent`` or ``ood``.
      train: paths, and their ``split``.
      dev: paths, with ``dev_split``; None for a ``share`` of the dialogues of ``train``.
      foreign: paths of turns to tune a threshold on, with ``dev_split``.
      seed: draws what is held out.

    Raises:
      InputError: one cannot be read; there is nothing to learn or to choose by.
    """
    learned = read_labelled(train, split, task)
    files = files_of("train", train, split)
    if dev:
        chosen_by = read_labelled(dev, dev_split, task)
        files += files_of("dev", dev, dev_split)
    else:
        learned, chosen_by = held_out(learned, share, seed, lambda turn: turn.key[1])
    if not learned or not chosen_by:
        raise InputError("there are too few dialogues to hold some out: give --dev", train[0], "--train")
    labels = {turn.label for turn in learned}
    if len(labels) < 2:
        raise InputError(f"all turns have the label {labels.pop()!r}: there is nothing to learn", train[0], "--train")
    lost = [turn for turn in chosen_by if turn.label not in labels]
    if lost:
        told = "dev: %s turns have labels that training lacks, %r for one: they cannot be right"
        logging.warning(told, f"{len(lost):,}", lost[0].label)
    if task == OOD:
        _check_both(chosen_by, dev[0] if dev else train[0], "--dev")
    tuned = read_labelled(foreign, dev_split, OOD) if foreign else []
    if foreign:
        _check_both(tuned, foreign[0], "--foreign")
        files += files_of("foreign", foreign, dev_split)
    return Read(Corpus(learned, chosen_by, tuned), files)


def _check_both(turns: Sequence[Turn], path: str, flag: str) -> None:
    if len({turn.label for turn in turns}) < 2:
        reason = f"all of these turns are {turns[0].label}: a threshold needs both kinds"
        raise InputError(reason, path, flag)


def files_of(flag: str, paths: Sequence[str], split: str) -> list[tuple[str, str]]:
    """(flag, path) of all files that are read for paths, in order."""
    found = []
    for path in paths:
        if as_path(path).is_file():
            found.append((flag, path))
        elif is_of_ood(path):
            sets = sorted(one / "turns" for one in as_path(path).iterdir() if (one / "turns").is_dir())
            named = [file for one in sets for file in sorted((one / split).glob("*.parquet"))]
            plain = [file for one in sets for file in sorted(one.glob("*.parquet"))]
            found += [(flag, str(file)) for file in named or plain]
        else:
            found += [(flag, one) for one in sorted(file.path for file in corpora.read_corpus(path, [split]).files)]
    return found
