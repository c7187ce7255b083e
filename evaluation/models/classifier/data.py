"""What the classifier learns from and is asked: utterances with a label, of a corpus, JSON lines or ``parapet ood``."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import msgspec

from parapet.evaluation.intent import Renamed, user_turns
from parapet.evaluation.models.configs import ClassifierConfig
from parapet.evaluation.models.examples import held_out
from parapet.evaluation.ood import IN_DOMAIN, OOD, is_of_ood, read_truth
from parapet.evaluation.sets import Key, Keyed, Sources, read_keyed
from parapet.schemas.dialogue import parse_dialogues
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, is_there
from parapet.schemas.limits import MAX_DIALOGUE_FILE
from parapet.transforms import corpora
from parapet.transforms.compressed import read_input

INTENT, ACTS = "intent", "acts"
HELD_OUT = 0.1  # of the dialogues, where there is no --dev


class Turn(msgspec.Struct, frozen=True):
    """An utterance of the user's.

    Attributes:
      key: its set, dialogue and turn.
      label: its intent, its dialogue acts, or ``ood`` or ``in_domain``; empty where that is not known.
    """

    key: Key
    utterance: str
    label: str


class Row(Keyed, kw_only=True):
    """A line of a file, as ``parapet evaluate`` has them."""

    utterance: str
    label: str = ""


def read_labelled(paths: Sequence[str], split: str, task: str) -> list[Turn]:
    """The turns of all paths that have a label.

    Args:
      paths: corpora, files of JSON lines, or folders that ``parapet ood`` wrote.
      split: of the folders.
      task: ``intent``, ``acts`` or ``ood``.

    Raises:
      InputError: one cannot be read, or has no label of this task.
    """
    found = []
    for path in paths:
        all_turns = list(read_turns(path, split, task))
        turns = [turn for turn in all_turns if turn.label]
        if not turns:
            raise InputError(f"no user turn of it has a label of --task {task}", path)
        if len(turns) < len(all_turns):
            logging.warning("%s: %s turns have no label: left out", path, f"{len(all_turns) - len(turns):,}")
        found += turns
    return found


def read_turns(path: str, split: str, task: str) -> Iterator[Turn]:
    """The user turns of a path, with or without labels. Raises InputError as :func:`read_labelled`."""
    if not is_there(path):
        raise InputError("there is no such file or folder", path)
    if as_path(path).is_file():
        return iter(turns_of_lines(path, task))
    if is_of_ood(path):
        if task != OOD:
            raise InputError(
                f"is of 'parapet ood' and has labels for --task ood: give the corpus for --task {task}", path
            )
        return (
            turn_of(key, truth.ood, truth.utterance) for key, truth in read_truth(Sources(path, split)).turns.items()
        )
    if task == OOD:
        raise InputError("has no set of 'parapet ood': give what it wrote, or JSON lines with ood or in_domain", path)
    corpus = corpora.read_corpus(path, [split])
    return (turn for file in sorted(one.path for one in corpus.files) for turn in turns_of_corpus(file, "", {}, task))


def turn_of(key: Key, ood: bool, utterance: str) -> Turn:
    """A turn that is out of domain, or is not."""
    return Turn(key, utterance, OOD if ood else IN_DOMAIN)


def turns_of_lines(path: str, task: str) -> list[Turn]:
    """The rows of a file. Raises InputError: a row without an utterance, or with a label of another task."""
    found = []
    for key, (number, row) in read_keyed(path, Row).items():
        label = IN_DOMAIN if task == OOD and row.label == "in" else row.label
        if task == OOD and label not in ("", OOD, IN_DOMAIN):
            raise InputError(f"{label!r} is no label of --task ood: {OOD} or {IN_DOMAIN}", path, f"line {number}")
        if label and not label.strip():
            raise InputError("the label is empty", path, f"line {number}")
        found.append(Turn(key, row.utterance, label))
    return found


def turns_of_corpus(path: str, name: str, renamed: Renamed, task: str) -> Iterator[Turn]:
    """The user turns of a dialogue file.

    Args:
      path: the file.
      name: of its set.
      renamed: how its intents are to be called.
      task: ``acts``; of any other the label is the intent.
    """
    for dialogue in parse_dialogues(read_input(path, MAX_DIALOGUE_FILE), path):
        for turn in user_turns(dialogue, renamed):
            label = turn.acts if task == ACTS else turn.intent
            yield Turn((name, dialogue.dialogue_id, turn.turn), turn.utterance, label)


class Corpus(msgspec.Struct, frozen=True):
    """What a classifier is trained on.

    Attributes:
      train, dev: turns with labels.
      foreign: turns with labels that a threshold is tuned on, if any.
      files: (flag, path) of the files that they were read from.
    """

    train: list[Turn]
    dev: list[Turn]
    foreign: list[Turn]
    files: list[tuple[str, str]]


def read_training(config: ClassifierConfig, train: Sequence[str]) -> Corpus:
    """Reads what a classifier is trained on.

    Args:
      config: names the task and the paths; without paths of dev some dialogues of training are held out.
      train: the paths of training.

    Raises:
      InputError: a file cannot be read; there is nothing to learn, or nothing to choose the best epoch by.
    """
    task, dev, foreign = config.task, config.dev, config.foreign
    learned = read_labelled(train, config.split, task)
    files = files_of("train", train, config.split)
    if dev:
        chosen_by = read_labelled(dev, config.dev_split, task)
        files += files_of("dev", dev, config.dev_split)
    else:
        learned, chosen_by = held_out(learned, HELD_OUT, config.seed, lambda turn: turn.key[1])
    if not learned or not chosen_by:
        raise InputError("there are too few dialogues to hold some out: give --dev", train[0], "--train")
    labels = {turn.label for turn in learned}
    if len(labels) < 2:
        raise InputError(f"all turns have the label {labels.pop()!r}: there is nothing to learn", train[0], "--train")
    lost = [turn for turn in chosen_by if turn.label not in labels]
    if lost:
        message = "dev: %s turns have labels that training lacks, such as %r: they cannot be right"
        logging.warning(message, f"{len(lost):,}", lost[0].label)
    if task == OOD:
        _check_both(chosen_by, dev[0] if dev else train[0], "--dev")
    tuned = read_labelled(foreign, config.dev_split, OOD) if foreign else []
    if foreign:
        _check_both(tuned, foreign[0], "--foreign")
        files += files_of("foreign", foreign, config.dev_split)
    return Corpus(learned, chosen_by, tuned, files)


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
