"""``parapet check``: what is wrong with corpora, schemas, tools, tasks, predictions, answers and releases.

Files are recognised by their content and read by the readers of the commands, whose errors become findings; further
checks compare parts that readers accept one by one. One file is read at a time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import msgspec

from parapet.schemas import layout, limits, release, tasks, tools
from parapet.schemas.decisions import COLUMNS as DECISIONS
from parapet.schemas.dialogue import MARKERS, Dialogue, Frame, dialogue_ids, list_files, read_each, typed
from parapet.schemas.errors import InputError, pointer_of
from parapet.schemas.json_text import parse_json_line
from parapet.schemas.messages import read_messages
from parapet.schemas.rows import DeadLetter
from parapet.schemas.service import Service
from parapet.transforms.crowd.answer_files import read_responses, read_sheet
from parapet.transforms.release.plan import dialogue_faults
from parapet.transforms.release.reading import LATEST
from parapet.transforms.running.progress import advance, expect

Severity = Literal["error", "warning"]

# The kinds of findings, each with what to do. Others are machine-readable reasons of readers, such as no_assignment_id.
KINDS = {
    **release.KINDS,
    **tasks.CONTRADICTIONS,
    "not_recognised": "files in which there is nothing that Parapet reads",
    "unreadable": "a file or record that its reader refuses",
    "incomplete": "an output of Parapet's that is not as the command wrote it: run the command again",
    "duplicate_id": "the same id twice: give each its own",
    "schema": "a service or tool that commands leave out",
    "categorical_value": "a state value that the schema does not list",
    "call_incomplete": "a service call without a required slot of its intent",
    "no_schema": "dialogues without the schema of their services, as predictions have them",
    "no_frame": "a service of the dialogue that no turn has a frame of",
    "speakers": "turns whose speakers do not alternate, beginning with the user",
    "value_not_said": "a state value that nobody has said so far; information, since states may have canonical forms",
    "default_value": "a default that is not among the values of its slot or parameter",
    "no_description": "an element without a description, which systems and annotators need",
    "no_right_calls": "a task without right calls, which cannot be scored",
    "unknown_function": "a right call of a function that the task does not have",
    "refused": "a request that an endpoint refused: run the prediction again",
    "unreadable_answer": "an answer that predict could not read, which counts as wrong",
}
_FREE = ("dontcare", "")  # values that stand for any
_TABLES = (".csv", ".tsv")
_READ = (".json", ".jsonl", ".yaml", ".yml", *_TABLES)
_OF_MTURK = {"AssignmentId", "WorkerId", "HITId", "HIT", "HITs", "Assignment", "Assignments"}
_MACHINE_READABLE = re.compile(r"([a-z]+_[a-z_]+): (.+)", re.DOTALL)
_PLACE = re.compile(r"\[(\d+)\]|([^.\[\]]+)")
_BEGINNING = limits.MIB  # bytes of a file that must have its first record


class Finding(msgspec.Struct, frozen=True):
    """Something wrong.

    Attributes:
      kind: a key of :data:`KINDS`, or the machine-readable reason of a reader.
      file: the file or folder.
      position: the place in words: ``1_00000, turn 4``, ``line 7``, ``row 3``.
      pointer: the place in JSON or in the line, as JSON Pointer.
      message: what is wrong and, if helpful, what to do about it.
    """

    kind: str
    severity: Severity
    file: str
    position: str
    pointer: str
    message: str


class Contents(msgspec.Struct, frozen=True):
    """What a path was recognised as."""

    file: str
    description: str


Item = Finding | Contents


def examine(place: str | Path) -> Iterator[Item]:
    """Yield what a file or folder is recognised as, and what is wrong with it."""
    path = layout.as_path(place)
    yield from _guarded(_published(path), path, "incomplete")
    yield from _guarded(_folder(path) if path.is_dir() else _file(path), path)


def _published(path: Path) -> Iterator[Item]:
    layout.check_published(path)
    yield from ()


def _guarded(items: Iterable[Item], path: object, kind: str = "unreadable") -> Iterator[Item]:
    try:
        yield from items
    except InputError as error:
        yield _of_error(error, path, kind)


def _of_error(error: InputError, path: object, kind: str = "unreadable") -> Finding:
    """Make a finding of a reader's error; its reason may begin with its kind."""
    position, _, inside = error.where.rpartition(": ")
    if not position and not re.search(r"[\[/]", inside):
        position, inside = inside, ""
    pointer = inside if inside.startswith("/") else _pointer(inside)
    match = _MACHINE_READABLE.fullmatch(error.reason)
    kind, message = match.groups() if match else (kind, error.reason)
    return Finding(kind, "error", error.path or str(path), position, pointer, message)


def _pointer(place: str) -> str:
    """Convert a place such as ``turns[3].frames[0]``."""
    return pointer_of(index or key for index, key in _PLACE.findall(place))


_EXPECTED = (
    "expected a corpus (train/schema.json and train/dialogues_001.json), schemas, tools, tasks, predictions, answers "
    "of annotators (CSV or JSON) or a release"
)


def _folder(path: Path) -> Iterator[Item]:
    if any((path / name).is_file() for name in (release.MANIFEST, LATEST)):
        yield from _release(path)
    elif layout.is_root(path) or any(layout.dialogue_files(path, split) for split in ("", *layout.SPLITS)):
        yield from _corpus(path)
    else:
        entries = [entry for entry in sorted(path.iterdir()) if not entry.name.startswith(".") and _is_read(entry)]
        if not entries:
            content = ", ".join(entry.name for entry in sorted(path.iterdir())[:5])
            raise InputError(f"not_recognised: {f'has only {content}' if content else 'is empty'}: {_EXPECTED}")
        is_anything = False
        for item in (item for entry in entries for item in examine(entry)):
            is_anything |= isinstance(item, Contents)
            if isinstance(item, Finding) and item.kind == "not_recognised":
                item = msgspec.structs.replace(item, severity="warning")  # beside others, or else see below
            yield item
        if not is_anything:
            raise InputError(f"not_recognised: none of its files was recognised: {_EXPECTED}")


def _is_read(entry: Path) -> bool:
    if entry.is_dir():
        return entry.name != tasks.ANSWERS  # which is read with the tasks
    return entry.suffix.lower() in _READ and entry.name not in (layout.MANIFEST, layout.NAMES, layout.DEAD_LETTERS)


def _file(path: Path) -> Iterator[Item]:
    """Recognise a file by its first record."""
    with limits.open_path(path) as handle:
        beginning = handle.read(_BEGINNING)
    limits.check_plain(beginning[:8], path)
    text = beginning.decode("utf-8-sig", "replace").lstrip()
    if not text:
        raise InputError("not_recognised: the file is empty")
    expect(1, "files")
    if text[0] not in "[{":
        yield from _table(path, text)
    else:
        yield from _json(path, _first_record(text))
    advance(1, "files")


def _first_record(text: str) -> dict[str, Any]:
    """Return the first object of a JSON list, of JSON lines, or the whole; empty if it cannot be read."""
    with suppress(ValueError, RecursionError):
        record, _ = json.JSONDecoder().raw_decode(text, text.index("{"))
        return dict(record)
    return {}


def _json(path: Path, record: Mapping[str, Any]) -> Iterator[Item]:
    keys = record.keys()
    if {"openapi", "swagger"} & keys:
        raise InputError(_OPENAPI)
    if "messages" in keys:
        yield Contents(str(path), "chat messages, which 'parapet perturb typos --messages FILE' changes")
        messages = read_messages(limits.read_whole(path, limits.MAX_DIALOGUE_FILE), path)
        yield from (_of_error(item, path) for item in messages if isinstance(item, InputError))
    elif "dialogue_id" in keys and "turns" in keys:
        yield Contents(str(path), "dialogues")
        yield from _dialogues(path, _services_for(path))
    elif "evaluation_criteria" in keys:
        reason = "has tasks of tau2-bench, which runs them itself, with its own tools: docs/tools.md shows BFCL's format"
        raise InputError(f"not_recognised: {reason}")
    elif tasks.is_task(record):
        yield from _tasks(path)
    elif "id" in keys and tasks.ANSWERS in path.parts:
        yield Contents(str(path), "right calls, which are checked with their tasks")
    elif "id" in keys or {"dialogue_id", "turn"} <= keys or {"dialogue", "turn"} <= keys:
        yield from _predictions(path)
    elif _OF_MTURK & keys:
        yield from _answers(path)
    else:
        yield from _schemas(path)


_OPENAPI = (
    "not_recognised: is an OpenAPI description: write each operation as a tool with name, description and parameters "
    "(docs/tools.md), and check that file"
)


def _table(path: Path, text: str) -> Iterator[Item]:
    header = text.partition("\n")[0].strip()
    columns = {column.strip(' "') for column in re.split("[,;\t]", header)}
    if re.match(r"(openapi|swagger)\s*:", text):
        raise InputError(_OPENAPI)
    if any(column.startswith("Answer.") for column in columns):
        yield from _answers(path)
    elif {"response_id", "decision"} <= columns:
        yield Contents(str(path), f"decisions of reviewers ({', '.join(DECISIONS)})")
        yield from (_of_dead_letter(letter, path) for letter in read_sheet(str(path))[1])
    elif len(columns) > 1:
        reason = f"is a table ({header[:80]}): answers of annotators have the columns of docs/collect.md; chats are JSON"
        raise InputError(f'not_recognised: {reason} lines, {{"messages": [{{"role": "user", "content": "Hi"}}]}}')
    else:
        raise InputError(f"not_recognised: is neither JSON nor a table; it begins with {text[:40]!r}")


def _release(path: Path) -> Iterator[Item]:
    from parapet.transforms.release.reading import find_release
    from parapet.transforms.release.verify import examine as verify

    root = find_release(path)
    result = verify(root)
    yield Contents(str(root), f"a release of {result.files:,} files and {result.rows:,} rows")
    for finding in result.findings:
        yield Finding(finding.check, "error", str(root / finding.path), finding.where, "", finding.reason)


def _answers(path: Path) -> Iterator[Item]:
    yield Contents(str(path), "answers of annotators")
    for record in read_responses(str(path), b"check", "utf-8"):
        if isinstance(record, DeadLetter):
            yield _of_dead_letter(record, path)
        for problem in () if isinstance(record, DeadLetter) else record.unread:
            yield Finding("unreadable_time", "warning", str(path), _row(record.source, path), "", problem)


def _of_dead_letter(letter: DeadLetter, path: Path) -> Finding:
    kind, _, message = letter.reason.partition(": ")
    severity: Severity = "warning" if kind == "unknown_field" else "error"
    message = f"{message} ({letter.key.rpartition(':')[2]})" if severity == "warning" else message
    return Finding(kind, severity, str(path), _row(letter.source, path), "", message)


def _row(source: str, path: Path) -> str:
    return source.removeprefix(f"{path}").lstrip(": ")


# Corpora and schemas.


def _corpus(path: Path) -> Iterator[Item]:
    splits: list[layout.SplitSchemas] = []
    try:
        splits = layout.read_root(path, leave_out_bad=True)
    except InputError as error:
        if layout.is_root(path):
            yield _of_error(error, path, "schema")
        else:
            reason = "has no schema.json: slots, intents and values are not checked"
            yield Finding("no_schema", "warning", str(path), "", "", reason)
    folders = [split for split in ("", *layout.SPLITS) if layout.dialogue_files(path, split)]
    files = list_files(path, folders) if folders else []
    n = sum(len(split.services) for split in splits)
    yield Contents(str(path), f"a corpus of {n:,} services and {len(files):,} files of dialogues")
    for split in splits:
        yield from _schema_findings(split)
    by_split = {split.split: {service.service_name: service for service in split.services} for split in splits}
    expect(len(files), "files")
    for file in sorted(files, key=lambda file: file.relative):
        services = by_split.get(file.split, by_split.get(layout.SINGLE))
        yield from (_of_error(InputError(reason, "", f"[{i}]"), file.path) for i, reason in file.repeated)
        yield from _guarded(_dialogues(Path(file.path), services), file.path)
        advance(1, "files")


def _services_for(path: Path) -> dict[str, Service] | None:
    """Return the services of the schema beside a file of dialogues, or one level above; None if there is none."""
    for folder in (path.parent, path.parent.parent):
        if (folder / "schema.json").is_file():
            splits = layout.read_root(folder / "schema.json", leave_out_bad=True)
            return {service.service_name: service for split in splits for service in split.services}
    return None


def _schemas(path: Path) -> Iterator[Item]:
    try:
        splits = layout.read_root(path, leave_out_bad=True)
    except InputError as error:
        reason = f"is JSON, but was not recognised: {error.reason}; {_EXPECTED}"
        raise InputError(f"not_recognised: {reason}", error.path, error.where) from None
    for split in splits:
        kind = "definitions of tools" if split.tools is not None else "schemas"
        yield Contents(str(path), f"{kind}: {', '.join(service.service_name for service in split.services[:5])}")
        yield from _schema_findings(split)


def _schema_findings(schemas: layout.SplitSchemas) -> Iterator[Finding]:
    path = schemas.path
    yield from (_of_error(bad.error, path, "schema") for bad in schemas.bad)
    if schemas.tools is not None:
        for toolset in schemas.tools.toolsets.values():
            for tool in toolset.tools:
                yield from _tool_findings(tool, path, tool.name)
        return
    for service in schemas.services:
        values = {slot.name: slot.possible_values for slot in service.slots if slot.is_categorical}
        position = next(i for i, raw in enumerate(schemas.raw) if raw["service_name"] == service.service_name)
        for i, intent in enumerate(service.intents):
            for name, default in intent.optional_slots.items():
                if name in values and default not in (*values[name], *_FREE):
                    place = pointer_of((position, "intents", i, "optional_slots", name))
                    reason = f"{default!r} is not a possible value of slot {name!r}"
                    yield Finding("default_value", "warning", path, service.service_name, place, reason)
        for kind, elements in (("slots", service.slots), ("intents", service.intents)):
            for i, element in enumerate(elements):
                if not element.description.strip():
                    place = pointer_of((position, kind, i, "description"))
                    reason = f"{element.name!r} has no description"
                    yield Finding("no_description", "warning", path, service.service_name, place, reason)


def _tool_findings(tool: tools.Tool, path: str, position: str, pointer: str = "") -> Iterator[Finding]:
    """Yield parameters of a tool whose default or required names contradict their schema."""
    for parameter in tool.parameters.all:
        schema = parameter.schema if isinstance(parameter.schema, Mapping) else {}
        default = schema.get("default")
        if parameter.values and default not in (None, *_FREE, *parameter.values) and not isinstance(default, list):
            reason = f"the default {default!r} of {parameter.name!r} is not in its enum"
            yield Finding("default_value", "warning", path, position, f"{pointer}{parameter.pointer}/default", reason)
    root = tool.parameters.root
    names, required = root.get("properties") or {}, root.get("required")
    for name in required if isinstance(required, list) else ():
        if name not in names:
            reason = f"{name!r} is required, but not among the parameters"
            yield Finding("schema", "error", path, position, f"{pointer}/required", reason)


# Dialogues.


def _dialogues(path: Path, services: Mapping[str, Service] | None) -> Iterator[Item]:
    for i, item in enumerate(read_each(limits.read_whole(path, limits.MAX_DIALOGUE_FILE), path)):
        try:
            dialogue = typed(item)
        except InputError as error:
            yield _of_error(InputError(error.reason, path, f"[{i}].{error.where}".rstrip(".")), path, "format")
            continue
        faults = ((fault.kind, fault.where, fault.reason) for fault in dialogue_faults(dialogue, services, str(path)))
        for kind, where, reason in (*faults, *_contradictions(dialogue, services or {})):
            severity: Severity = "warning" if kind in _WARNINGS else "error"
            turn = re.match(r"turns\[(\d+)\]", where)
            position = f"{dialogue.dialogue_id}, turn {turn[1]}" if turn else dialogue.dialogue_id
            yield Finding(kind, severity, str(path), position, f"/{i}{_pointer(where)}", reason)


_WARNINGS = ("no_frame", "speakers", "value_not_said", "call_incomplete")


def _contradictions(dialogue: Dialogue, services: Mapping[str, Service]) -> Iterator[tuple[str, str, str]]:
    """Yield (kind, place, reason) of what :func:`dialogue_faults` accepts."""
    framed = {frame.service for turn in dialogue.turns for frame in turn.frames}
    for i, name in enumerate(dialogue.services):
        if services and name not in services:
            yield "reference", f"services[{i}]", f"no schema for service {name!r}"
        elif name not in framed:
            yield "no_frame", f"services[{i}]", f"no turn has a frame of service {name!r}"
    said, known = "", set[tuple[str, str]]()
    for t, turn in enumerate(dialogue.turns):
        said += f"\n{turn.utterance.casefold()}"
        if turn.speaker != ("USER", "SYSTEM")[t % 2]:
            yield "speakers", f"turns[{t}].speaker", f"turn {t} is of the {turn.speaker.lower()}"
        for f, frame in enumerate(turn.frames):
            for place, kind, reason in _frame_contradictions(frame, services.get(frame.service), said, known):
                yield kind, f"turns[{t}].frames[{f}].{place}", reason
            for i, span in enumerate(frame.slots):
                if isinstance(span.value, str) and isinstance(span.start, int) and isinstance(span.exclusive_end, int):
                    text = turn.utterance[span.start : span.exclusive_end]
                    if text.casefold() != span.value.casefold():
                        reason = f"the span is {text!r}, but its value {span.value!r}"
                        yield "span_value", f"turns[{t}].frames[{f}].slots[{i}]", reason


def _frame_contradictions(
    frame: Frame, service: Service | None, said: str, known: set[tuple[str, str]]
) -> Iterator[tuple[str, str, str]]:
    """Yield (place, kind, reason) of state values and calls.

    Args:
      frame: the frame.
      service: its service; None if unknown.
      said: all that was said up to the turn, casefolded.
      known: slots and values that were reported before; what is reported is added.
    """
    slots = {slot.name: slot for slot in service.slots} if service else {}
    for name, values in (frame.state.slot_values if frame.state else {}).items():
        slot = slots.get(name)
        reported = (f"{frame.service}/{name}", "\0".join(values))
        if slot is None or reported in known or any(value in _FREE for value in values):
            continue
        if slot.is_categorical:
            if strangers := [value for value in values if value not in slot.possible_values]:
                known.add(reported)
                yield "state", "categorical_value", f"{strangers[0]!r} is not a possible value of slot {name!r}"
        elif not any(value.casefold() in said for value in values):
            known.add(reported)
            yield "state", "value_not_said", f"slot {name!r} is {values[0]!r}, which nobody has said so far"
    if service and frame.service_call:
        method, parameters = frame.service_call.method, frame.service_call.parameters
        required = next((intent.required_slots for intent in service.intents if intent.name == method), [])
        if missing := [name for name in required if name not in parameters]:
            yield "service_call.parameters", "call_incomplete", f"{method!r} requires slot {missing[0]!r}"


# Tasks of agents, and predictions.


def _tasks(path: Path) -> Iterator[Item]:
    beside = tasks.answers_beside(path)
    answers = tasks.by_id(limits.read_whole(beside), beside) if beside.is_file() else {}
    yield Contents(str(path), f"tasks of agents, {len(answers):,} with right calls")
    known = set[str]()
    for where, task in tasks.records(limits.read_whole(path)):
        if isinstance(task, InputError):
            yield _of_error(task, path)
            continue
        name, position = task["id"], f"{where}, {task['id']}"
        if name in known:
            yield Finding("duplicate_id", "error", str(path), position, "/id", f"{name!r} appears twice")
        known.add(name)
        schemas: dict[str, Mapping[str, Any]] = {}
        for i, raw in enumerate(task.get("function") or ()):
            try:
                tool = None if tools.is_hosted(raw) else tools.Tool(raw)
            except InputError as error:
                place = f"/function/{i}{error.where}"
                yield Finding("schema", "error", str(path), position, place, error.reason)
                continue
            if tool is not None:
                schemas[tool.name] = tool.parameters.root
                place = f"/function/{i}/parameters"
                yield from _tool_findings(tool, str(path), position, place)
        if name not in answers:
            if "irrelevance" not in name:
                yield Finding("no_right_calls", "error", str(path), position, "", f"{beside} has no answer to {name!r}")
            continue
        try:
            calls = msgspec.convert(answers[name].get("ground_truth"), list[dict[str, dict[str, list[Any]]]])
        except msgspec.ValidationError as error:
            yield Finding("unreadable", "error", str(beside), name, "/ground_truth", str(error))
            continue
        for function in sorted({function for call in calls for function in call} - schemas.keys()):
            reason = f"{function!r} is not a function of the task"
            yield Finding("unknown_function", "error", str(beside), name, "/ground_truth", reason)
        for kind, pointer, reason in tasks.contradictions(schemas, calls):
            yield Finding(kind, "error", str(beside), name, f"/ground_truth{pointer}", reason)


_KEYS = ("set", "dialogue_id", "dialogue", "turn", "service", "id")  # which identify a prediction


def _predictions(path: Path) -> Iterator[Item]:
    yield Contents(str(path), "predictions")
    known = set[int]()
    with limits.open_path(path) as handle:
        for number, line in enumerate(handle, 1):
            position = f"line {number}"
            if not line.strip():
                continue
            try:
                row = parse_json_line(line.removeprefix(b"\xef\xbb\xbf"))
            except ValueError as error:
                yield Finding("unreadable", "error", str(path), position, "", f"not JSON: {error}")
                continue
            if not isinstance(row, dict):
                yield Finding("unreadable", "error", str(path), position, "", "expected an object")
                continue
            key = ", ".join(f"{name} {row[name]}" for name in _KEYS if name in row)
            if hash(key) in known:
                yield Finding("duplicate_id", "error", str(path), position, "", f"{key} is predicted twice")
            known.add(hash(key))
            if row.get("refused"):
                yield Finding("refused", "warning", str(path), position, "/refused", f"{key}: the request was refused")
            if row.get("unread") or row.get("result") == {"unreadable": True}:
                yield Finding("unreadable_answer", "warning", str(path), position, "", f"{key}: {row.get('unread')}")
