"""Dialogues of the SGD format (Rastogi et al. 2020, section 3.2): their annotation, validation and files.

Files are read one dialogue at a time, and written byte for byte like the published ones.
"""

import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import msgspec
import orjson
from msgspec import UNSET, UnsetType

from parapet.schemas import layout, limits
from parapet.schemas.errors import InputError, reason_and_place
from parapet.schemas.limits import parse_json_line
from parapet.schemas.service import Service


class Action(msgspec.Struct):
    """A dialogue act with its slot (may be ``""``), its values as said, and their canonical forms."""

    act: str
    slot: str
    values: list[str]
    canonical_values: list[str] | UnsetType = UNSET


class SlotSpan(msgspec.Struct):
    """The position of a value in the utterance: characters ``start`` to ``exclusive_end``."""

    slot: str
    start: int | UnsetType = UNSET
    exclusive_end: int | UnsetType = UNSET
    # For copied slots (SGD's other form of annotation, and MultiWOZ 2.2).
    copy_from: str | UnsetType = UNSET
    value: str | list[str] | UnsetType = UNSET


class State(msgspec.Struct):
    """The dialogue state after a user turn."""

    active_intent: str
    requested_slots: list[str]
    slot_values: dict[str, list[str]]


class ServiceCall(msgspec.Struct):
    """A call to the service: an intent, and values for its slots."""

    method: str
    parameters: dict[str, str]


class Frame(msgspec.Struct):
    """A service's annotation of a turn: user frames have the state, system frames the service call."""

    service: str
    slots: list[SlotSpan] = []
    actions: list[Action] | UnsetType = UNSET
    state: State | UnsetType = UNSET
    service_call: ServiceCall | UnsetType = UNSET
    service_results: list[dict[str, str]] | UnsetType = UNSET


class Turn(msgspec.Struct):
    """A turn of one speaker, with a frame for each service that it is about."""

    speaker: Literal["USER", "SYSTEM"]
    utterance: str
    frames: list[Frame]


class Dialogue(msgspec.Struct):
    """A dialogue; user and system alternate, beginning with the user."""

    dialogue_id: str
    services: list[str]
    turns: list[Turn]


# These names in an action are not slots in certain acts: the value is an intent, or the number of results. In other
# acts they may be slots: Homes_2 of SGD has a slot ``intent``.
MARKERS = {"intent": ("INFORM_INTENT", "OFFER_INTENT"), "count": ("INFORM_COUNT",)}


def is_marker(act: str, slot: str, slots: Container[str] | None = None) -> bool:
    """Whether the ``slot`` of an action stands for an intent or a number of results, so that it is not a slot.

    Args:
      act: the act of the action.
      slot: the slot of the action.
      slots: the slots of the service, if known; names that it does not have are not slots in any act.
    """
    return slot in MARKERS and (act in MARKERS[slot] or (slots is not None and slot not in slots))


class _AnyDialogue(Protocol):
    dialogue_id: str


AnyDialogue = TypeVar("AnyDialogue", bound=_AnyDialogue)

_decoder = msgspec.json.Decoder(list[Dialogue])
_split = msgspec.json.Decoder(list[msgspec.Raw]).decode


def typed(raw: Any) -> Dialogue:
    """Validates a parsed dialogue and converts it to typed objects.

    Raises:
      InputError: it is not a dialogue; ``where`` is the place in it.
    """
    if isinstance(raw, InputError):  # from read_each
        raise raw
    try:
        return msgspec.convert(raw, Dialogue)
    except msgspec.ValidationError as error:
        reason, at = reason_and_place(error)
        raise InputError(f"not_sgd: {reason}", "", at) from None


def repeated_id(dialogue_id: str, position: int, first: dict[str, int]) -> str:
    """Returns why a dialogue cannot be used if an earlier one has the same id, else ``""``.

    Predictions, rows and random draws are matched to dialogues by id, so two dialogues with the same id would share
    them.

    Args:
      dialogue_id: its id.
      position: its position in the file, from 0.
      first: id to position of earlier dialogues in the file; the id is added.
    """
    if (earlier := first.setdefault(dialogue_id, position)) == position:
        return ""
    return f"duplicate_id: dialogue {dialogue_id!r} appears twice, first at [{earlier}]: give each its own id"


def check_ids(dialogue_ids: Iterable[str], path: object) -> None:
    """Raises InputError with position and id if two dialogues have the same id."""
    first: dict[str, int] = {}
    for position, dialogue_id in enumerate(dialogue_ids):
        if reason := repeated_id(dialogue_id, position, first):
            raise InputError(reason, path, f"[{position}]")


def read_dialogues(path: str | Path) -> list[Dialogue]:
    """Reads a dialogue file. Raises InputError with file, position and reason."""
    return parse_dialogues(limits.read_whole(layout.as_path(path), limits.MAX_DIALOGUE_FILE), path)


def parse_dialogues(data: bytes, path: object) -> list[Dialogue]:
    """Parses the bytes of a dialogue file. Raises InputError with file, position and reason."""
    return decode_dialogues(_decoder, data, path)


def decode_dialogues(decoder: msgspec.json.Decoder[list[AnyDialogue]], data: bytes, path: object) -> list[AnyDialogue]:
    """Parses the bytes of a dialogue file with a decoder.

    Raises:
      InputError: the bytes are not JSON or not such dialogues, or two dialogues have the same id. The error has file,
        position and reason.
    """
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        if not data.isascii():
            data.decode()  # unknown keys are not decoded below
        dialogues = decoder.decode(data)
    except msgspec.ValidationError as error:
        reason, at = reason_and_place(error)
        raise InputError(reason, path, at) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        limits.parse_json(data, path)  # for line and column in the error
        raise
    check_ids((dialogue.dialogue_id for dialogue in dialogues), path)
    return dialogues


class _AnyName(frozenset[str]):
    def __contains__(self, name: object) -> bool:
        return True


def problems_of(dialogue: Dialogue, services: Mapping[str, Service] | None) -> Iterator[tuple[str, str]]:
    """Yields (position, reason) for every invalid reference or span in ``dialogue``.

    Args:
      dialogue: the dialogue.
      services: the services of its split, by name; None if unknown, to check only spans.
    """
    names: dict[str, tuple[frozenset[str], frozenset[str]] | None] = {}  # service to the names of slots and of intents
    if services is None:
        names = {frame.service: (_AnyName(), _AnyName()) for turn in dialogue.turns for frame in turn.frames}
        services = {}
    for t, turn in enumerate(dialogue.turns):
        for f, frame in enumerate(turn.frames):
            if frame.service not in names:
                service = services.get(frame.service)
                names[frame.service] = None if service is None else names_in(service)
            if (known := names[frame.service]) is None:
                yield f"turns[{t}].frames[{f}].service", f"no schema for service {frame.service!r}"
                continue
            for place, reason in _frame_problems(turn, frame, *known):
                yield f"turns[{t}].frames[{f}]{place}", reason


def names_in(service: Service) -> tuple[frozenset[str], frozenset[str]]:
    """Returns the names of the slots and of the intents, which dialogues may use."""
    return frozenset(slot.name for slot in service.slots), frozenset(intent.name for intent in service.intents)


def _frame_problems(
    turn: Turn, frame: Frame, slots: frozenset[str], intents: frozenset[str]
) -> Iterator[tuple[str, str]]:
    for i, span in enumerate(frame.slots):
        if span.slot not in slots:
            yield f".slots[{i}].slot", f"the service has no slot {span.slot!r}"
        if not isinstance(span.start, int) or not isinstance(span.exclusive_end, int):
            continue
        if not 0 <= span.start < span.exclusive_end <= len(turn.utterance):
            yield f".slots[{i}]", f"span {span.start}-{span.exclusive_end} is not inside the utterance"
    for i, action in enumerate(frame.actions or []):
        if action.slot and action.slot not in slots and not is_marker(action.act, action.slot, slots):
            yield f".actions[{i}].slot", f"the service has no slot {action.slot!r}"
    if frame.state:
        if frame.state.active_intent not in intents and frame.state.active_intent != "NONE":
            yield ".state.active_intent", f"the service has no intent {frame.state.active_intent!r}"
        for name in [*frame.state.slot_values, *frame.state.requested_slots]:
            if name not in slots:
                yield ".state", f"the service has no slot {name!r}"
    if frame.service_call:
        if frame.service_call.method not in intents:
            yield ".service_call.method", f"the service has no intent {frame.service_call.method!r}"
        for name in frame.service_call.parameters:
            if name not in slots:
                yield ".service_call.parameters", f"the service has no slot {name!r}"
    for i, result in enumerate(frame.service_results or []):
        for name in result:
            if name not in slots:
                yield f".service_results[{i}]", f"the service has no slot {name!r}"


# The text before the first dialogue of a file, between two, and after the last.
OPENING, BETWEEN, CLOSING = b"[\n", b",\n", b"\n]\n"
EMPTY = b"[]\n"

_OPTIONS = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS


MESSAGES = "messages"  # chat messages, see parapet.schemas.messages


class DialogueFile(msgspec.Struct, frozen=True):
    """A file of dialogues.

    Attributes:
      split: the folder below the root: ``train``, or an empty string.
      name: the file name.
      path: its full path.
      size: its size in bytes.
      content: its bytes if it exists in memory only.
      form: the form of the file: empty for the SGD layout, or ``MESSAGES``.
      repeated: (position, problem) of dialogues whose id another file of the split has, too.
      languages: the languages of the dialogues to analyze; if empty, all.
      dialogues: the number of dialogues, for progress; 0 if unknown.
    """

    split: str
    name: str
    path: str
    size: int
    content: bytes | None = None
    form: str = ""
    repeated: tuple[tuple[int, str], ...] = ()
    languages: tuple[str, ...] = ()
    dialogues: int = 0

    @property
    def relative(self) -> str:
        """Returns its path below the root."""
        return f"{self.split}/{self.name}" if self.split else self.name


def list_files(root: Path, folders: Iterable[str]) -> list[DialogueFile]:
    """Lists the dialogue files in folders below ``root``, largest first. Raises InputError if there are none."""
    of_folders = corpus_files(root)
    if not (paths := [(folder, path) for folder in folders for path in of_folders.get(folder, ())]):
        raise InputError("contains no dialogues: expected files such as train/dialogues_001.json", root)
    places = [path for _, path in paths]
    sizes, ids = layout.of_each(places, lambda path: path.stat().st_size), layout.of_each(places, dialogue_ids)
    first: dict[tuple[str, str], str] = {}  # where the id was seen first
    files = []
    for folder, path in paths:
        repeated = []
        for position, name in enumerate(ids[path]):
            if isinstance(name, str) and (place := first.setdefault((folder, name), str(path))) != str(path):
                repeated.append((position, f"duplicate_id: dialogue {name!r} is in {place}, too: give each its own id"))
        files.append(
            DialogueFile(folder, path.name, str(path), sizes[path], repeated=tuple(repeated), dialogues=len(ids[path]))
        )
    return sorted(files, key=lambda file: (-file.size, file.relative))


class _Id(msgspec.Struct):
    dialogue_id: Any = None


_ids = msgspec.json.Decoder(list[_Id])


def dialogue_ids(path: str | Path) -> list[Any]:
    """Returns the ids of a file's dialogues; an empty list if its reader will refuse it."""
    with suppress(InputError, OSError, ValueError, RecursionError):
        data = limits.read_whole(layout.as_path(path), limits.MAX_DIALOGUE_FILE)
        return [item.dialogue_id for item in _ids.decode(data.removeprefix(b"\xef\xbb\xbf"))]
    return []


def check_no_id_twice(files: Iterable[DialogueFile]) -> None:
    """Raises InputError, with both places, if a dialogue's id is in two files of a split."""
    for file in files:
        for position, reason in file.repeated:
            raise InputError(reason, file.path, f"[{position}]")


def corpus_files(root: Path) -> dict[str, list[Path]]:
    """Lists the dialogue files of each folder below ``root``."""
    return {folder: files for folder in ("", *layout.SPLITS) if (files := layout.dialogue_files(root, folder))}


def dialogue_folders(root: Path, originals: Sequence[layout.SplitSchemas]) -> dict[str, layout.SplitSchemas]:
    """Returns the folders below ``root`` with dialogues, each with its schema.

    Raises:
      InputError: there are dialogues without a schema.
    """
    if originals[0].split == layout.SINGLE:
        # MultiWOZ 2.2 has one schema for all splits; a single split has its dialogues beside the schema.
        return dict.fromkeys(corpus_files(root), originals[0])
    split_schemas, files = {split.split: split for split in originals}, corpus_files(root)
    for split in layout.SPLITS:
        if split not in split_schemas and split in files:
            raise InputError("contains dialogues, but no schema.json: add the schema of their services", root / split)
    return {name: split for name, split in split_schemas.items() if name in files}


def read_each(data: bytes, path: object) -> Iterator[Any]:
    """Yields the items of a dialogue file, with only one of them parsed at a time.

    An item that cannot be decoded or has the id of an earlier item is replaced by an ``InputError``.

    Raises:
      InputError: the file is not JSON or not a list; raised before the first item.
    """
    data = limits.without_mark(data, path)
    try:
        items = map(_decoded, _split(data))
    except (msgspec.MsgspecError, RecursionError):
        items = map(_checked, _list_in(data, path))
    first: dict[str, int] = {}
    for position, item in enumerate(items):
        dialogue_id = item.get("dialogue_id") if isinstance(item, dict) else None
        is_repeated = isinstance(dialogue_id, str) and repeated_id(dialogue_id, position, first)
        yield InputError(is_repeated) if is_repeated else item


def _decoded(raw: msgspec.Raw) -> Any:
    try:
        return limits.parse_json_line(bytes(raw))
    except ValueError as error:
        return InputError(f"not_sgd: {error}")


def _list_in(data: bytes, path: object) -> list[Any]:
    """Parses a list of which msgspec refuses an item, such as one with NaN, which Python's json module writes."""
    try:
        items = json.loads(data)
    except (ValueError, RecursionError):
        items = limits.parse_json(data, path)  # raises InputError with line and column
    if not isinstance(items, list):
        raise InputError(f"expected a list of dialogues, found {type(items).__name__}", path)
    return items


def _checked(item: Any) -> Any:
    try:
        json.dumps(item, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        return InputError(f"not_sgd: {error}")
    return item


def file_bytes(texts: Sequence[bytes]) -> bytes:
    """Joins the results of :func:`dialogue_text` to a dialogue file."""
    return OPENING + BETWEEN.join(texts) + CLOSING if texts else EMPTY


def dialogue_text(dialogue: Any, is_from_json: bool = False) -> bytes:
    """Formats a dialogue as in a file, like ``json.dumps(..., indent=2, sort_keys=True)``: ASCII, indented.

    Args:
      dialogue: the dialogue.
      is_from_json: whether its values were read from JSON, so that none is NaN. To search for it takes as long as
        formatting.

    Raises:
      InputError: it is nested too deeply, or has a value that JSON cannot represent.
    """
    try:
        data = orjson.dumps([dialogue], option=_OPTIONS)[2:-2]
        if not is_from_json and b"null" in data:  # orjson also writes it for NaN
            json.dumps(dialogue, allow_nan=False)
        return layout.as_ascii(data)
    except (TypeError, ValueError) as error:
        raise InputError(f"is not JSON: {error}") from None


_SERVICE, _INTENT = "Tools_1", "UseTools"
_SLOTS = 40


def plain_service() -> dict[str, Any]:
    """Returns the only service of such dialogues."""
    slots = [
        {"name": f"value_{i}", "description": "A value", "is_categorical": False, "possible_values": []}
        for i in range(_SLOTS)
    ]
    intent = {"name": _INTENT, "description": "Use tools", "is_transactional": False, "required_slots": [],
              "optional_slots": {}, "result_slots": []}  # fmt: skip
    return {"service_name": _SERVICE, "description": "Tools", "slots": slots, "intents": [intent]}


def dialogue_of(dialogue_id: str, turns: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Creates a dialogue of that service."""
    return {"dialogue_id": dialogue_id, "services": [_SERVICE], "turns": list(turns)}


def system_turn(text: str) -> dict[str, Any]:
    """Creates a turn that perturbations do not change."""
    return {"speaker": "SYSTEM", "utterance": text, "frames": []}


def user_turn(text: str, values: Iterable[str] = ()) -> dict[str, Any]:
    """Creates a user turn in which values are annotated wherever they occur as whole words.

    Args:
      text: the utterance.
      values: the values in the order of :func:`longest_first`.
    """
    spans = [(f"value_{i % _SLOTS}", start, end) for i, (start, end) in enumerate(sorted(_spans(text, values)))]
    values_by_slot: dict[str, list[str]] = {}
    for slot, start, end in spans:
        values_by_slot.setdefault(slot, []).append(text[start:end])
    actions = [
        {"act": "INFORM", "slot": slot, "values": texts, "canonical_values": texts}
        for slot, texts in values_by_slot.items()
    ]
    state = {"active_intent": _INTENT, "requested_slots": [], "slot_values": values_by_slot}
    slots = [{"slot": slot, "start": start, "exclusive_end": end} for slot, start, end in spans]
    frame = {"service": _SERVICE, "actions": actions, "slots": slots, "state": state}
    return {"speaker": "USER", "utterance": text, "frames": [frame]}


def longest_first(values: Iterable[str]) -> list[str]:
    """Sorts values without duplicates, long ones first, so that "New York" precedes "York"."""
    return sorted({value.strip() for value in values} - {""}, key=lambda value: (-len(value), value))


def values_in(calls: Any) -> Iterator[str]:
    """Yields all texts and numbers in calls at any depth, except names of parameters; also the parts of texts.

    A user who wants "New York, NY" may say "New York", so the texts between commas, names and numbers are values, too.
    """
    if isinstance(calls, Mapping):
        for value in calls.values():
            yield from values_in(value)
    elif isinstance(calls, list):
        for value in calls:
            yield from values_in(value)
    elif isinstance(calls, int | float) and not isinstance(calls, bool):
        yield f"{calls:g}"
        yield str(calls)
    elif isinstance(calls, str) and calls.strip():
        yield calls.strip()
        yield from filter(None, map(str.strip, re.split(r"[,;/()]", calls)))
        yield from (word for word in re.findall(r"\w+", calls) if len(word) > 1 and not word.islower())


def _spans(text: str, values: Iterable[str]) -> list[tuple[int, int]]:
    """Finds the positions of values in a text; earlier values take precedence over overlapping ones."""
    taken: list[tuple[int, int]] = []
    for value in values:
        for match in re.finditer(rf"(?<!\w){re.escape(value)}(?!\w)", text, re.IGNORECASE):
            if all(match.end() <= start or match.start() >= end for start, end in taken):
                taken.append(match.span())
    return taken


LINE = "line"  # the key of the original line in a dialogue
_USER = "user"
_TEXTS = ("text", "input_text")  # the types of parts that a user writes
_ROLES = ("user", "assistant", "system", "developer", "tool", "function")


def read_messages(data: bytes, path: object) -> Iterator[Any]:
    """Yields the conversations of a file as dialogues, in the form of ``parapet.schemas.dialogue.read_each``.

    Raises:
      InputError: the file is a JSON list instead of JSON lines.
    """
    data = data.removeprefix(b"\xef\xbb\xbf")
    if data.lstrip().startswith(b"["):
        reason = "a JSON list, and not JSON lines: write one conversation a line, such as by jq -c '.[]' FILE"
        raise InputError(reason, path)
    first: dict[str, int] = {}
    lines = [(number, line) for number, line in enumerate(data.split(b"\n"), 1) if line.strip()]
    for position, (number, line) in enumerate(lines):
        try:
            dialogue = _dialogue(line.strip(), number)
            if reason := repeated_id(dialogue["dialogue_id"], position, first):
                raise InputError(reason)
        except InputError as error:
            place = f"line {number}" + (f": {error.where.removeprefix('.')}" if error.where else "")
            yield InputError(error.reason, "", place)
        else:
            yield dialogue


def line_text(line: str, turns: Sequence[Mapping[str, Any]]) -> bytes:
    """Returns the line of a conversation with the texts of perturbed turns; the same bytes if no text has changed.

    Args:
      line: the original line, stored in the dialogue under ``LINE``.
      turns: the perturbed turns of the dialogue.

    Raises:
      InputError: the number of turns is not that of the texts.
    """
    record = parse_json_line(line)
    places = [place for message in record["messages"] for place in _places(message)]
    if len(places) != len(turns):
        raise InputError("adds or leaves out turns: chat messages keep theirs")
    changed = [
        (place, turn["utterance"])
        for place, turn in zip(places, turns, strict=True)
        if place.is_user and place.text != turn["utterance"]
    ]
    for place, text in changed:
        place.holder[place.key] = text
    if not changed:
        return f"{line}\n".encode()
    separators = None if '": ' in line else (",", ":")
    return f"{json.dumps(record, ensure_ascii=line.isascii(), separators=separators)}\n".encode()


def _dialogue(line: bytes, number: int) -> dict[str, Any]:
    """Converts a line to a dialogue. Raises InputError with the place in the line."""
    try:
        record = parse_json_line(line)
    except ValueError as error:
        raise InputError(f"not_json: {error}") from None
    if not isinstance(record, dict) or not isinstance(record.get("messages"), list):
        raise InputError('not_messages: expected {"messages": [{"role": ..., "content": ...}]}')
    messages = record["messages"]
    for i, message in enumerate(messages):
        _check(message, f"messages[{i}]")
    values = longest_first(values_in([arguments for message in messages for arguments in _arguments(message)]))
    turns = [
        user_turn(place.text, values) if place.is_user else system_turn(place.text)
        for message in messages
        for place in _places(message)
    ]
    name = record.get("id")
    is_name = isinstance(name, str | int) and not isinstance(name, bool) and name != ""
    return {**dialogue_of(str(name) if is_name else f"line_{number:07}", turns), LINE: line.decode()}


def _check(message: Any, where: str) -> None:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise InputError('not_messages: expected {"role": ..., "content": ...}', "", where)
    if message["role"] not in _ROLES:  # with another name for the user, such as "human", nothing would be perturbed
        reason = f"not_messages: unknown role {message['role']!r}: expected one of {', '.join(_ROLES)}"
        raise InputError(reason, "", f"{where}.role")
    if message["role"] == _USER and not isinstance(message.get("content"), str | list | None):
        raise InputError("not_messages: expected a text, or a list of parts", "", f"{where}.content")


class _Place(NamedTuple):
    """Where the text of a turn is: ``holder[key]``."""

    holder: Any
    key: str | int
    text: str
    is_user: bool


def _places(message: dict[str, Any]) -> list[_Place]:
    """Returns the places of a message's turns: the texts of a user, otherwise the message itself."""
    content = message.get("content")
    if message["role"] == _USER and isinstance(content, list):
        places = [_Place(content, i, part, True) for i, part in enumerate(content) if isinstance(part, str)]
        parts = [part for part in content if isinstance(part, dict) and part.get("type", "text") in _TEXTS]
        places += [_Place(part, "text", part["text"], True) for part in parts if isinstance(part.get("text"), str)]
        if places:
            return places
    is_text = isinstance(content, str)
    return [_Place(message, "content", str(content) if is_text else "", message["role"] == _USER and is_text)]


def _arguments(message: Mapping[str, Any]) -> Iterator[Any]:
    """Yields the arguments of the functions that a message calls."""
    parts = message.get("content")
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict) and part.get("type") == "tool_use":
            yield part.get("input")
    calls = message.get("tool_calls")
    functions = [call.get("function") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    for function in [*functions, message.get("function_call")]:
        arguments = function.get("arguments") if isinstance(function, dict) else None
        if isinstance(arguments, str):
            with suppress(ValueError):
                arguments = parse_json_line(arguments)
        yield arguments
