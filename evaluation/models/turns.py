"""User turns for a classifier, from a corpus, JSON lines or ``parapet ood``; and their prediction."""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import msgspec

from parapet.evaluation import intent, ood, sets
from parapet.evaluation.dst.model import make_plan
from parapet.evaluation.models import inference
from parapet.evaluation.models.inference import Answers, Part
from parapet.schemas import layout, limits
from parapet.schemas.dialogue import parse_dialogues
from parapet.schemas.errors import InputError
from parapet.transforms.core.inputs import read_input
from parapet.transforms.perturb import corpora

INTENT = "intent"
UNREAD = "unread"  # the label of an answer that could not be read; it always counts as wrong
REFUSED = "refused"  # the label if there is no answer; the turn is not scored


class Turn(msgspec.Struct, frozen=True):
    """A user's utterance.

    Attributes:
      key: its set, dialogue and turn.
      label: its intent, or ``ood`` or ``in_domain``; empty if unknown.
    """

    key: sets.Key
    utterance: str
    label: str


class Row(sets.Keyed, kw_only=True):
    """A line of a file, in the format of ``parapet evaluate``."""

    utterance: str
    label: str = ""


def read_labelled(paths: Sequence[str], split: str, task: str) -> list[Turn]:
    """Reads the turns of all paths that have a label.

    Args:
      paths: corpora, files of JSON lines, or folders that ``parapet ood`` wrote.
      split: the split of the folders.
      task: ``intent`` or ``ood``.

    Raises:
      InputError: a path cannot be read, or has no label of this task.
    """
    labelled = []
    for path in paths:
        all_turns = list(read_turns(path, split, task))
        turns = [turn for turn in all_turns if turn.label]
        if not turns:
            raise InputError(f"no user turn has a label for --task {task}", path)
        if len(turns) < len(all_turns):
            logging.warning("%s: %s turns without a label are left out", path, f"{len(all_turns) - len(turns):,}")
        labelled += turns
    return labelled


def read_turns(path: str, split: str, task: str) -> Iterator[Turn]:
    """Reads the user turns of a path, with or without labels. Raises InputError as :func:`read_labelled`."""
    if not layout.is_there(path):
        raise InputError("there is no such file or folder", path)
    if layout.as_path(path).is_file():
        return iter(turns_of_lines(path, task))
    if ood.is_of_ood(path):
        if task != ood.OOD:
            reason = "is the output of 'parapet ood', which has labels for --task ood"
            raise InputError(f"{reason}: give a corpus for --task {task}", path)
        truths, _ = ood.read_truths(sets.Sources(path, split))
        return (Turn(key, truth.utterance, truth.label) for key, truth in truths.items())
    if task == ood.OOD:
        raise InputError("contains no set of 'parapet ood': give its output, or JSON lines with ood or in_domain", path)
    return (turn for path in corpora.read_corpus(path, [split]).paths() for turn in turns_of_corpus(path, "", {}))


def turns_of_lines(path: str, task: str) -> list[Turn]:
    """Reads the rows of a file. Raises InputError for a row without an utterance, or with a label of another task."""
    turns = []
    for key, placed in sets.keyed_rows(path, Row):
        row = placed.row
        label = ood.IN_DOMAIN if task == ood.OOD and row.label == "in" else row.label
        if task == ood.OOD and label not in ("", ood.OOD, ood.IN_DOMAIN):
            raise placed.error(f"{label!r} is not a label of --task ood: must be {ood.OOD} or {ood.IN_DOMAIN}")
        if label and not label.strip():
            raise placed.error("the label is empty")
        turns.append(Turn(key, row.utterance, label))
    return turns


def turns_of_corpus(path: str, name: str, renamed: intent.Renamed) -> Iterator[Turn]:
    """Reads the user turns of a dialogue file.

    Args:
      path: the file.
      name: the name of its set.
      renamed: service to intent to the name to use.
    """
    for dialogue in parse_dialogues(read_input(path, limits.MAX_DIALOGUE_FILE), path):
        for turn, truth in intent.user_turns(dialogue, renamed):
            yield Turn((name, dialogue.dialogue_id, turn), truth.utterance, truth.label)


class Answer(msgspec.Struct, frozen=True):
    """The class of an utterance.

    Attributes:
      label: the class.
      score: the score for being out of domain.
    """

    label: str
    score: float


Source = tuple[tuple[str, str], ...]  # (set, path) of a file in all sets that have it, which are predicted together


class Reference(msgspec.Struct, frozen=True):
    """All files of a run.

    Attributes:
      sources: the largest first; for JSON lines and ``parapet ood``, a single one without a set.
      split: the split.
      renamed: set to service to intent to its name in the original's schema.
      remarks: warnings for the user.
      in_folders: whether each set's predictions have their own folder, unlike those of JSON lines.
    """

    sources: list[Source]
    split: str
    renamed: dict[str, dict[str, dict[str, str]]] = {}
    remarks: list[str] = []
    in_folders: bool = True


def find(given: sets.Sources, task: str) -> Reference:
    """Lists the files of a run.

    Args:
      given: the reference is a corpus, a file of JSON lines, or a folder that ``parapet ood`` wrote; a corpus may have
        variants and further sets.
      task: ``intent`` or ``ood``.

    Raises:
      InputError: something is missing, or does not fit the task.
    """
    path = given.reference
    if not layout.is_there(path):
        raise InputError("there is no such file or folder", path, "--reference")
    file, foreign = layout.as_path(path).is_file(), ood.is_of_ood(path)
    if (file or foreign) and (given.variants or given.others):
        raise InputError("require a corpus as the reference", "--variants, --sets")
    if file or foreign:
        reference = Reference([(("", path),)], given.split, in_folders=foreign)
        if next(turns_of(reference, 0, task), None) is None:  # says at once what is wrong with it
            raise InputError(f"contains no user turns of {given.split!r}", path, "--reference")
        return reference
    plan = make_plan(given)
    sources = [tuple((member.set, member.reference) for member in job.members) for job in plan.jobs]
    renamed = {
        name: intent.renamed_intents(name, set_plan.services, plan.sets[sets.ORIGINAL].services)
        for name, set_plan in plan.sets.items()
        if set_plan.kind == "variant"
    }
    return Reference(sources, given.split, renamed, plan.remarks)


def turns_of(reference: Reference, number: int, task: str) -> Iterator[Turn]:
    """Yields the turns of a file in all its sets, by dialogue and turn. Raises InputError if it cannot be read."""
    turns = [turn for name, path in reference.sources[number] for turn in _read(reference, name, path, task)]
    yield from sorted(turns, key=lambda turn: (turn.key[1], turn.key[2], turn.key[0]))


def _read(reference: Reference, name: str, path: str, task: str) -> Iterator[Turn]:
    if not name:
        yield from read_turns(path, reference.split, task)
        return
    for turn in turns_of_corpus(path, name, reference.renamed.get(name, {})):
        if task == ood.OOD:
            yield msgspec.structs.replace(turn, label="")  # corpora have no out-of-domain labels
        elif turn.label:
            yield turn


CHUNK = 2048  # turns
PREDICTIONS = "predictions"


class Turns(NamedTuple):
    """Some turns of a file in all of its sets; ``file`` is its number, ``number`` that of the chunk."""

    file: int
    number: int
    turns: tuple[Turn, ...]


class Answering(Protocol):
    """The interface of a trained classifier or a language model."""

    def answers(self, texts: Sequence[str]) -> tuple[list[Answer], int]:
        """Answers each text; also returns the number of distinct texts that were too long and lost their beginnings."""
        ...


class Job(inference.Job[int, Turns, Answering], frozen=True, kw_only=True):
    """A prediction of classes.

    Attributes:
      task: ``intent`` or ``ood``.
      threshold: turns with at least this score are out of domain; None for scores without a decision.
      reference: the files.
    """

    unit: ClassVar[str] = "turns"

    task: str
    threshold: float | None
    reference: Reference

    @property
    def place(self) -> str:
        """The folder of the predictions below the output folder, or their file if all sets share it."""
        return PREDICTIONS if self.reference.in_folders else self.path_of("")

    def path_of(self, name: str) -> str:
        """Returns the path of a set's predictions below the output folder; those of JSON lines share a file."""
        folder = f"/{name}/{self.reference.split}" if self.reference.in_folders else ""
        return f"{PREDICTIONS}{folder}/{self.task}.jsonl"

    def sources(self) -> Sequence[int]:
        """Lists the numbers of the files."""
        return range(len(self.reference.sources))

    def chunks(self, file: int) -> Iterator[Turns]:
        """Yields chunks of the turns of a file in all of its sets. Raises InputError if it cannot be read."""
        turns = list(turns_of(self.reference, file, self.task))
        for first in range(0, len(turns), CHUNK):
            yield Turns(file, first // CHUNK, tuple(turns[first : first + CHUNK]))

    def asked(self, chunk: Turns) -> dict[str, int]:
        """Counts the turns, in all and by set."""
        by_set = Counter(turn.key[0] for turn in chunk.turns if turn.key[0])
        return {"asked": len(chunk.turns), **{f"turns/{name}": n for name, n in by_set.items()}}

    def load(self) -> Answering:
        """Loads the classifier."""
        from parapet.evaluation.models.classifier import load

        return load(self.folder, self.device, self.batch_size)[1]

    def answer(self, model: Answering, chunk: Turns) -> Answers:
        """Encodes rows for ``parapet evaluate``; counts rows, and utterances whose beginnings were cut off."""
        answers, long = model.answers([turn.utterance for turn in chunk.turns])
        files: dict[str, list[bytes]] = {}
        for turn, answer in zip(chunk.turns, answers, strict=True):
            files.setdefault(self.path_of(turn.key[0]), []).append(_line(turn, answer, self))
        counts = {"answered": len(chunk.turns)}
        if long:
            counts["too_long"] = long
        order = chunk.file, chunk.number
        return Answers([Part(path, order, b"".join(lines)) for path, lines in files.items()], counts)


def _line(turn: Turn, answer: Answer, job: Job) -> bytes:
    name, dialogue, position = turn.key
    if answer.label == UNREAD:
        answer = Answer(ood.IN_DOMAIN, 0.0) if turn.label == ood.OOD else Answer(ood.OOD, 1.0)
    row: dict[str, Any] = {"set": name} if name else {}
    row |= {"dialogue_id": dialogue, "turn": position}
    if answer.label == REFUSED:
        row["refused"] = True
    elif job.task != ood.OOD:
        row["predicted"] = answer.label
    else:
        row["score"] = answer.score
        if job.threshold is not None:
            row["predicted"] = ood.OOD if answer.score >= job.threshold else ood.IN_DOMAIN
    if turn.label:
        row["label"] = turn.label
    return msgspec.json.encode({**row, "utterance": turn.utterance}) + b"\n"
