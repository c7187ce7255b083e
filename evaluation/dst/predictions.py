"""Predictions as they come: dialogues in the SGD format, or JSON lines with the state of one frame each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from parapet.evaluation.dst.files import Dialogue, Frame, Span, Turn, dialogues_in_memory, json_of, parse_dialogues
from parapet.evaluation.dst.frames import State
from parapet.evaluation.lines import parse_line, parse_lines
from parapet.schemas.errors import InputError
from parapet.schemas.limits import MAX_DIALOGUE_FILE, check_plain
from parapet.transforms.compressed import open_plain, read_input


class Line(msgspec.Struct, forbid_unknown_fields=False):
    """A line of JSON: the state that was predicted after a user turn.

    Attributes:
      turn: the position in the dialogue's turns, from 0.
      service: as the reference's frame has it.
      set: the set that it is of; may be left out.
      slots: spans in the utterance, for slot tagging; may be left out.
    """

    dialogue_id: str
    turn: int
    service: str
    state: State
    slots: list[Span] | UnsetType = UNSET
    set: str = ""


Predicted = Dialogue | Line

_MARK = b"\xef\xbb\xbf"

_line = msgspec.json.Decoder(Line)
_split = msgspec.json.Decoder(list[msgspec.Raw]).decode


class FilePart(msgspec.Struct, frozen=True):
    """Lines or dialogues that follow one another in a file: workers exchange these, since values may be long."""

    path: str
    start: int
    end: int


def read_predictions(path: str) -> Iterator[Predicted]:
    """What a file has. Raises InputError with file, line or place, and reason."""
    return (prediction for prediction, _ in read_parts(path))


def read_parts(path: str, set_name: str = "") -> Iterator[tuple[Predicted, FilePart]]:
    """What a file has, each with the part of the file that it is.

    Args:
      path: of the file.
      set_name: the set that it is for; ``""``: lines of any set are accepted.

    Raises:
      InputError: a line or dialogue cannot be read, or a line is of another set.
    """
    if not path.endswith(".jsonl"):
        data, end = read_input(path, MAX_DIALOGUE_FILE), 0
        dialogues = parse_dialogues(data, path)
        for dialogue, item in zip(dialogues, _split(data.removeprefix(_MARK)), strict=True):
            start = data.index(bytes(item), end)
            end = start + len(bytes(item))
            yield dialogue, FilePart(path, start, end)
        return
    with open_plain(path) as handle:
        check_plain(handle.read(8), path)
        end = handle.seek(0)
        for number, line in parse_lines(handle, _line, path):
            if set_name and line.set not in ("", set_name):
                reason = f"is of set {line.set!r}, in the predictions of {set_name!r}"
                raise InputError(reason, path, f"line {number}")
            start, end = end, handle.tell()
            yield line, FilePart(path, start, end)


def predictions_in(parts: Iterable[FilePart]) -> Iterator[Predicted]:
    """The predictions in parts of files; those of a file are next to one another."""
    for path, of_file in groupby(parts, attrgetter("path")):
        with open_plain(path) as handle:
            for part in of_file:
                handle.seek(part.start)
                if not path.endswith(".jsonl"):
                    yield from parse_dialogues(b"[%b]" % handle.read(part.end - part.start), path)
                    continue
                for _, line in parse_lines(handle, _line, path):
                    yield line
                    if handle.tell() >= part.end:
                        break


def predictions_in_memory(given: Iterable[Any] | Mapping[str, Any], place: str) -> list[Predicted]:
    """What files could have as well: dialogues in SGD's form as dicts, or the dicts of lines.

    Args:
      given: any number of both; or dialogue id to its dialogue, or to a list of its lines, which may then lack the id.
      place: for messages.

    Raises:
      InputError: something else.
    """
    if isinstance(given, Mapping):
        return [one for name, of in given.items() for one in _of_dialogue(name, of, f"{place}[{name!r}]")]
    if isinstance(given, bytes) or not isinstance(given, Iterable):
        raise InputError(f"expected dialogues, found {type(given).__name__}", place)
    return [_one(item, f"{place}[{i}]") for i, item in enumerate(given)]


def _of_dialogue(name: str, of: Any, place: str) -> Iterator[Predicted]:
    of_lines = isinstance(of, list | tuple)
    for i, item in enumerate(of if of_lines else [of]):
        found = _one(
            {"dialogue_id": name, **item} if isinstance(item, Mapping) else item, f"{place}[{i}]" if of_lines else place
        )
        if found.dialogue_id != name:
            raise InputError(f"is of dialogue {found.dialogue_id!r}", place)
        yield found


def _one(item: Any, place: str) -> Predicted:
    if not isinstance(item, Mapping):
        raise InputError(f"expected a dict, found {type(item).__name__}", place)
    if "turns" in item:
        return dialogues_in_memory([item], place)[0]
    return parse_line(json_of(item, place), _line, place, "")


def as_dialogues(references: Iterable[Dialogue], predicted: Sequence[Predicted], path: object) -> dict[str, Dialogue]:
    """Predictions by dialogue id; lines become dialogues with the turns of their reference.

    Args:
      references: the dialogues of a file.
      predicted: what there is for them.
      path: for messages.

    Raises:
      InputError: something is predicted twice, or a line is for a turn that is not the user's.
    """
    found: dict[str, Dialogue] = {}
    lines: dict[str, list[Line]] = {}
    for one in predicted:
        if isinstance(one, Line):
            lines.setdefault(one.dialogue_id, []).append(one)
        elif one.dialogue_id in found:
            raise InputError(f"dialogue {one.dialogue_id!r} appears twice", path)
        else:
            found[one.dialogue_id] = one
    if lines:
        by_id = {reference.dialogue_id: reference for reference in references}
        for dialogue_id, of in lines.items():
            if dialogue_id in found:
                raise InputError(f"dialogue {dialogue_id!r} appears twice", path)
            found[dialogue_id] = _from_lines(by_id.get(dialogue_id), dialogue_id, of, path)
    return found


def _from_lines(reference: Dialogue | None, dialogue_id: str, lines: Sequence[Line], path: object) -> Dialogue:
    if reference is None:
        return Dialogue(dialogue_id, [])
    frames: dict[int, dict[str, Frame]] = {}
    for line in lines:
        where = f"{dialogue_id} turn {line.turn}"
        if not 0 <= line.turn < len(reference.turns) or reference.turns[line.turn].speaker != "USER":
            raise InputError("this is not a user turn: turns count from 0, the system's included", path, where)
        of = frames.setdefault(line.turn, {})
        if line.service in of:
            raise InputError(f"service {line.service} appears twice", path, where)
        of[line.service] = Frame(line.service, line.state, line.slots)
    turns = [Turn(turn.speaker, list(frames.get(i, {}).values())) for i, turn in enumerate(reference.turns)]
    return Dialogue(dialogue_id, turns)


def check_known(references: Iterable[Dialogue], predictions: Mapping[str, Dialogue], path: object) -> None:
    """Raises InputError where dialogues are predicted that the reference does not have."""
    unknown = sorted(predictions.keys() - {reference.dialogue_id for reference in references})
    if unknown:
        raise InputError(f"{len(unknown)} dialogues that the reference lacks, such as {unknown[0]!r}", path)
