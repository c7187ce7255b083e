"""Predictions of a classifier: the turns of a reference in all of its sets, to rows for ``parapet evaluate``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import msgspec

from parapet.evaluation.dst.model import make_plan
from parapet.evaluation.intent import renamed_intents
from parapet.evaluation.models import inference
from parapet.evaluation.models.classifier.data import Turn, read_turns, turns_of_corpus
from parapet.evaluation.models.classifier.net import Answer, Classifier, load
from parapet.evaluation.models.inference import Answers, Part
from parapet.evaluation.ood import IN_DOMAIN, OOD, is_of_ood
from parapet.evaluation.sets import ORIGINAL, Sources
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, is_there

Source = tuple[tuple[str, str], ...]  # (set, path) of a file in all sets that have it: they are asked at one time


class Reference(msgspec.Struct, frozen=True):
    """All files of a run.

    Attributes:
      sources: the largest first; of what is no corpus one, without a set.
      split: whose turns.
      renamed: by set, how the intents of its schema are called in the original's.
      remarks: what its owner should know.
      in_folders: whether each set's predictions are in a folder of its own: not those of JSON lines.
    """

    sources: list[Source]
    split: str
    renamed: dict[str, dict[str, dict[str, str]]] = {}
    remarks: list[str] = []
    in_folders: bool = True


def find(given: Sources, task: str) -> Reference:
    """The files that are named.

    Args:
      given: a reference: a corpus, a file of JSON lines, or a folder that ``parapet ood`` wrote; of a corpus its
        variants and further sets too.
      task: ``intent``, ``acts`` or ``ood``.

    Raises:
      InputError: something is not there, or cannot be asked for this task.
    """
    path = given.reference
    if not is_there(path):
        raise InputError("there is no such file or folder", path, "--reference")
    file, foreign = as_path(path).is_file(), is_of_ood(path)
    if (file or foreign) and (given.variants or given.others):
        raise InputError("go with a corpus: the reference is none", "--variants, --sets")
    if file or foreign:
        reference = Reference([(("", path),)], given.split, in_folders=foreign)
        if next(turns_of(reference, 0, task), None) is None:  # says at once what is wrong with it
            raise InputError(f"there are no user turns of {given.split!r} in it", path, "--reference")
        return reference
    plan = make_plan(given)
    sources = [tuple((one.set, one.reference) for one in job.members) for job in plan.jobs]
    services = plan.sets[ORIGINAL].services
    renamed = {
        name: renamed_intents(name, one.services, services) for name, one in plan.sets.items() if one.kind == "variant"
    }
    return Reference(sources, given.split, renamed, plan.remarks)


def turns_of(reference: Reference, number: int, task: str) -> Iterator[Turn]:
    """The turns of a file in all its sets, by dialogue and turn. Raises InputError where it cannot be read."""
    found = [turn for name, path in reference.sources[number] for turn in _read(reference, name, path, task)]
    yield from sorted(found, key=lambda turn: (turn.key[1], turn.key[2], turn.key[0]))


def _read(reference: Reference, name: str, path: str, task: str) -> Iterator[Turn]:
    if not name:
        yield from read_turns(path, reference.split, task)
        return
    for turn in turns_of_corpus(path, name, reference.renamed.get(name, {}), task):
        if task == OOD:
            yield msgspec.structs.replace(turn, label="")  # whether it is foreign is nowhere said
        elif turn.label:
            yield turn


CHUNK = 2048  # turns
PREDICTIONS = "predictions"


class Turns(NamedTuple):
    """Some turns of a file in all of its sets; ``file`` is its number, ``number`` that of the chunk."""

    file: int
    number: int
    turns: tuple[Turn, ...]


class Job(inference.Job[int, Turns, Classifier], frozen=True, kw_only=True):
    """What is predicted.

    Attributes:
      task: ``intent``, ``acts`` or ``ood``.
      threshold: turns with this score or more are out of domain; None for scores without a decision.
      reference: the files.
    """

    unit: ClassVar[str] = "turns"

    task: str
    threshold: float | None
    reference: Reference

    def path_of(self, name: str) -> str:
        """The path of a set's predictions below the output folder; those of JSON lines are in one file."""
        folder = f"/{name}/{self.reference.split}" if self.reference.in_folders else ""
        return f"{PREDICTIONS}{folder}/{self.task}.jsonl"

    def sources(self) -> Sequence[int]:
        """The numbers of the files."""
        return range(len(self.reference.sources))

    def chunks(self, file: int) -> Iterator[Turns]:
        """The turns of a file in all of its sets, some at a time. Raises InputError where it cannot be read."""
        turns = list(turns_of(self.reference, file, self.task))
        for first in range(0, len(turns), CHUNK):
            yield Turns(file, first // CHUNK, tuple(turns[first : first + CHUNK]))

    def asked(self, chunk: Turns) -> dict[str, int]:
        """The turns, in all and by set."""
        by_set = Counter(turn.key[0] for turn in chunk.turns if turn.key[0])
        return {"asked": len(chunk.turns), **{f"turns/{name}": n for name, n in by_set.items()}}

    def load(self) -> Classifier:
        """The classifier."""
        return load(self.folder, self.device, self.batch_size)[1]

    def answer(self, model: Classifier, chunk: Turns) -> Answers:
        """Rows for ``parapet evaluate``; counts them, and utterances whose beginnings were cut off."""
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
    row: dict[str, Any] = {"set": name} if name else {}
    row |= {"dialogue_id": dialogue, "turn": position}
    if job.task != OOD:
        row["predicted"] = answer.label
    else:
        row["score"] = answer.score
        if job.threshold is not None:
            row["predicted"] = OOD if answer.score >= job.threshold else IN_DOMAIN
    if turn.label:
        row["label"] = turn.label
    return msgspec.json.encode({**row, "utterance": turn.utterance}) + b"\n"
