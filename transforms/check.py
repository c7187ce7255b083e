"""``parapet check``: what is wrong with corpora, schemas, tools, tasks, predictions, answers and releases.

Files are recognised by their content and read by the readers of the commands, whose errors become findings; further
checks compare parts that readers accept one by one. One file is read at a time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import msgspec

from parapet.schemas import layout, limits, release, tasks, tools
from parapet.schemas.dialogue import Dialogue, Frame, list_files, read_each, typed
from parapet.schemas.errors import InputError, pointer_of
from parapet.schemas.json_text import parse_json
from parapet.schemas.messages import read_messages
from parapet.schemas.rows import DeadLetter
from parapet.schemas.service import Service
from parapet.transforms.crowd.answer_files import SCHEMA_TASKS, read_responses, read_sheet
from parapet.transforms.crowd.hits.terms import REWRITES
from parapet.transforms.crowd.rewritten_turns.tasks import REWRITING_TASKS
from parapet.transforms.release.plan import dialogue_faults
from parapet.transforms.release.reading import LATEST, find_release
from parapet.transforms.release.verify import examine as verify_release
from parapet.transforms.reports.text import counted
from parapet.transforms.running.progress import advance, expect

# The kinds of findings, each with its meaning or what to do. Others are the reasons of readers: no_assignment_id.
WARNINGS = {
    "no_schema": "dialogues without the schema of their services, as predictions may have them",
    "no_frame": "a service of the dialogue that no turn has a frame of",
    "speakers": "turns whose speakers do not alternate, beginning with the user",
    "value_not_said": "a state value that nobody has said so far: information, since states may have canonical forms",
    "call_incomplete": "a service call without a required slot of its intent",
    "refused": "a request that an endpoint refused: run the prediction again",
    "unread_answer": "an answer that predict could not read, which counts as wrong",
    "unknown_field": "an answer to a field that the form does not have",
    "other_file": "a file of another kind",
}
KINDS = {
    **release.KINDS,
    **tasks.CONTRADICTIONS,
    **WARNINGS,
    "not_recognised": "there is nothing that Parapet reads",
    "unreadable": "a file or record that its reader refuses",
    "incomplete": "an output that is not as the command wrote it: run the command again",
    "duplicate_id": "the same id twice: give each its own",
    "schema": "a service or tool that commands leave out",
    "categorical_value": "a state value that the schema does not list",
    "no_right_calls": "a task that cannot be scored",
    "unknown_function": "a right call of a function that the task does not have",
}
_ONCE = ("reference", "categorical_value", "value_not_said")  # which later turns of a dialogue repeat
_EXPECTED = (
    "expected a corpus (train/schema.json and train/dialogues_001.json), schemas, tools, tasks, predictions, answers "
    "of annotators (CSV or JSON) or a release"
)
_OPENAPI = "is an OpenAPI description: write each operation as a tool with name, description and parameters"
_OTHER_TASKS = {
    "evaluation_criteria": "tau2-bench, which runs them itself, also through 'parapet proxy'",
    "question": "BFCL without functions, which bfcl-eval runs itself over several turns",
}
_READ = (".json", ".jsonl", ".yaml", ".yml", ".csv", ".tsv")
_BESIDE = (tasks.ANSWERS, layout.MANIFEST, layout.NAMES, layout.DEAD_LETTERS)  # read with others, or not at all
_ANSWERS = {"AssignmentId", "HITId", "HIT", "HITs", "Assignment", "Assignments"}
_PREDICTED = {"result", "predicted", "score", "refused", "answer"}
_KEYS = ("set", "dialogue_id", "dialogue", "turn", "service", "id")  # which identify a prediction
_REASON = re.compile(r"([a-z]+_[a-z_]+): (.+)", re.DOTALL)
_PLACE = re.compile(r"\[(\d+)\]|([^.\[\]]+)")
_BEGINNING = limits.MIB  # the bytes of a file that have its first record


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
    severity: Literal["error", "warning"]
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
    path, is_recognised = layout.as_path(place), False
    for item in _examine(path):
        is_recognised |= isinstance(item, Contents)
        yield item
    if path.is_dir() and not is_recognised:
        names = ", ".join(sorted(entry.name for entry in path.iterdir())[:5])
        yield _finding("not_recognised", path, "", f"{f'has only {names}' if names else 'is empty'}: {_EXPECTED}")


def _examine(path: Path) -> Iterator[Item]:
    try:
        layout.check_published(path)
    except InputError as error:
        yield _of_error(error, path, "incomplete")
    try:
        yield from _folder(path) if path.is_dir() else _file(path)
    except InputError as error:
        yield _of_error(error, path)
    except OSError as error:
        yield _finding("unreadable", path, "", f"cannot be read: {error.strerror or error}")


def _finding(kind: str, path: object, place: str, message: str) -> Finding:
    """Make a finding; ``place`` is a position, a JSON Pointer or ``turns[3].frames[0]``, or a position and these."""
    position, _, inside = place.rpartition(": ")
    if not position and not re.search(r"[\[/]", inside):
        position, inside = inside, ""
    pointer = inside if inside.startswith("/") else _pointer(inside)
    return Finding(kind, "warning" if kind in WARNINGS else "error", str(path), position, pointer, message)


def _pointer(place: str) -> str:
    return pointer_of(index or key for index, key in _PLACE.findall(place))


def _of_error(error: InputError, path: object, kind: str = "unreadable") -> Finding:
    """Make a finding of a reader's error; its reason may begin with its kind."""
    match = _REASON.fullmatch(error.reason.removeprefix("not_sgd: "))
    kind, message = match.groups() if match else (kind, error.reason.removeprefix("not_sgd: "))
    return _finding(kind, error.path or path, error.where, message)


def _folder(path: Path) -> Iterator[Item]:
    if any((path / name).is_file() for name in (release.MANIFEST, LATEST)):
        root = find_release(path)
        result = verify_release(root)
        yield Contents(str(root), f"a release of {counted(result.files, 'file')} and {counted(result.rows, 'row')}")
        for mismatch in result.findings:
            yield _finding(mismatch.check, root / mismatch.path, mismatch.where, mismatch.reason)
        return
    if _has_schemas(path) or any(layout.dialogue_files(path, split) for split in ("", *layout.SPLITS)):
        yield from _corpus(path)
        return
    is_output = layout.find_output(path) is not None
    for entry in sorted(path.iterdir()):
        if entry.name.startswith(".") or entry.name in _BESIDE:
            continue
        for item in _examine(entry) if entry.is_dir() or entry.suffix.lower() in _READ else ():
            if not isinstance(item, Finding) or item.kind != "not_recognised":
                yield item
            elif not is_output:
                yield msgspec.structs.replace(item, kind="other_file", severity="warning")


def _has_schemas(path: Path) -> bool:
    return any((path / split / "schema.json").is_file() for split in ("", *layout.SPLITS))


def _file(path: Path) -> Iterator[Item]:
    """Recognise a file by its first record or its first line."""
    expect(1, "files")
    with limits.open_path(path) as handle:
        beginning = handle.read(_BEGINNING)
    limits.check_plain(beginning[:8], path)
    text = beginning.decode("utf-8-sig", "replace").lstrip()
    header = text.partition("\n")[0].strip()
    if text[:1] in ("[", "{"):
        yield from _json(path, text)
    elif re.match(r"(openapi|swagger)\s*:", text):
        raise InputError(f"not_recognised: {_OPENAPI}")
    elif "Answer." in header:
        yield from _answers(path, text)
    elif "response_id" in header and "decision" in header:
        yield Contents(str(path), "decisions of reviewers")
        yield from (_finding("bad_decision", path, letter.key, letter.reason) for letter in read_sheet(str(path))[1])
    elif re.search("[,;\t]", header):
        reason = f"is a table ({header[:80]}), but not of answers, whose columns are Answer.slot_0 and so on; chats are"
        raise InputError(f'not_recognised: {reason} JSON lines: {{"messages": [{{"role": "user", "content": "Hi"}}]}}')
    else:
        raise InputError(f"not_recognised: {f'begins with {header[:40]!r}' if text else 'is empty'}: {_EXPECTED}")
    advance(1, "files")


def _json(path: Path, text: str) -> Iterator[Item]:
    record: dict[str, Any] = {}
    with suppress(ValueError, RecursionError):
        record = json.JSONDecoder().raw_decode(text, text.index("{"))[0]
    keys = record.keys()
    if not keys:
        parse_json(limits.read_whole(path), path)  # for line and column in the error
    if {"openapi", "swagger"} & keys:
        raise InputError(f"not_recognised: {_OPENAPI}")
    if whose := next((whose for key, whose in _OTHER_TASKS.items() if key in keys and not tasks.is_task(record)), ""):
        raise InputError(f"not_recognised: has tasks of {whose}: docs/tools.md has the format of Parapet's tasks")
    if "messages" in keys:
        yield Contents(str(path), "chat messages, which 'parapet perturb typos --messages FILE' changes")
        messages = read_messages(limits.read_whole(path, limits.MAX_DIALOGUE_FILE), path)
        yield from (_of_error(item, path) for item in messages if isinstance(item, InputError))
    elif {"dialogue_id", "turns"} <= keys:
        yield Contents(str(path), "dialogues")
        beside = next((folder for folder in (path.parent, path.parent.parent) if _has_schemas(folder)), None)
        services = None if beside is None else layout.services_by_name(layout.read_root(beside, leave_out_bad=True))
        yield from _dialogues(path, services)
    elif {"dialogue_id", "turn", "kind"} <= keys:
        yield Contents(str(path), "rewritten turns, for 'parapet language_variations --rewritten'")
    elif tasks.is_task(record):
        yield from _tasks(path)
    elif text[0] == "{" and ({"dialogue_id", "turn"} <= keys or _PREDICTED & keys):
        yield from _predictions(path)
    elif _ANSWERS & keys:
        yield from _answers(path, text)
    else:
        yield from _schemas(path)


def _answers(path: Path, beginning: str) -> Iterator[Item]:
    yield Contents(str(path), "answers of annotators")
    task_kind = REWRITING_TASKS if f":{REWRITES}" in beginning else SCHEMA_TASKS
    for record in read_responses(str(path), b"check", "utf-8", task_kind):
        row = record.source.removeprefix(f"{path}").lstrip(": ")
        if isinstance(record, DeadLetter):
            kind, _, reason = record.reason.partition(": ")
            yield _finding(kind, path, row, reason.removeprefix(f"{path}: "))
        else:
            yield from (_finding("unread_time", path, row, problem) for problem in record.unread)


def _corpus(path: Path) -> Iterator[Item]:
    splits = layout.read_root(path, leave_out_bad=True) if _has_schemas(path) else []
    folders = [split for split in ("", *layout.SPLITS) if layout.dialogue_files(path, split)]
    files = list_files(path, folders) if folders else []
    n = sum(len(split.services) for split in splits)
    yield Contents(str(path), f"a corpus of {counted(n, 'service')} and {counted(len(files), 'file')} of dialogues")
    if not splits:
        yield _finding("no_schema", path, "", "has no schema.json: slots, intents and values are not checked")
    bad = [service for split in splits for service in split.bad]
    yield from (_of_error(service.error, path, "schema") for service in bad)
    left_out = {str(service.raw.get("service_name")) for service in bad if isinstance(service.raw, dict)}
    by_split = {split.split: {service.service_name: service for service in split.services} for split in splits}
    expect(len(files), "files")
    for file in sorted(files, key=lambda file: file.relative):
        yield from (_finding("duplicate_id", file.path, f"[{i}]", reason) for i, reason in file.repeated)
        services = by_split.get(file.split, by_split.get(layout.SINGLE))
        try:
            yield from _dialogues(layout.as_path(file.path), services, left_out)
        except InputError as error:
            yield _of_error(error, file.path)
        advance(1, "files")


def _schemas(path: Path) -> Iterator[Item]:
    try:
        (split,) = layout.read_root(path, leave_out_bad=True)
    except InputError as error:
        reason = f"is JSON, but was not recognised: {error.reason}; {_EXPECTED}"
        raise InputError(f"not_recognised: {reason}", error.path, error.where) from None
    what = "schemas" if split.tools is None else "definitions of tools"
    yield Contents(str(path), f"{what}: {', '.join(service.service_name for service in split.services[:5])}")
    yield from (_of_error(bad.error, path, "schema") for bad in split.bad)
    for toolset in split.tools.toolsets.values() if split.tools is not None else ():
        for tool in toolset.tools:
            yield from _tool_findings(tool, path, tool.name, "")


def _tool_findings(tool: tools.Tool, path: Path, position: str, pointer: str) -> Iterator[Finding]:
    properties, required = tool.parameters.root.get("properties"), tool.parameters.root.get("required")
    for name in required if isinstance(required, list) else ():
        if name not in (properties or {}):
            place = f"{position}: {pointer}/required"
            yield _finding("schema", path, place, f"{name!r} is required, but not among the parameters")


# Dialogues.


def _dialogues(path: Path, services: Mapping[str, Service] | None, left_out: Collection[str] = ()) -> Iterator[Finding]:
    """Check a file of dialogues, given the services of its split, and those that were reported as bad."""
    no_schema = {f"no schema for service {name!r}" for name in left_out}
    for i, item in enumerate(read_each(limits.read_whole(path, limits.MAX_DIALOGUE_FILE), path)):
        try:
            dialogue = typed(item)
        except InputError as error:
            where = f"[{i}].{error.where}".rstrip(".")
            yield _of_error(InputError(error.reason, path, where), path, "format")
            continue
        faults = ((fault.kind, fault.where, fault.reason) for fault in dialogue_faults(dialogue, services, str(path)))
        reported = set[tuple[str, str]]()
        for kind, where, reason in (*faults, *_contradictions(dialogue, services or {})):
            if reason in no_schema or (kind in _ONCE and (kind, reason) in reported):
                continue
            reported.add((kind, reason))
            turn = re.match(r"turns\[(\d+)\]", where)
            position = f"{dialogue.dialogue_id}, turn {turn[1]}" if turn else dialogue.dialogue_id
            yield _finding(kind, path, f"{position}: /{i}{_pointer(where)}", reason)


def _contradictions(dialogue: Dialogue, services: Mapping[str, Service]) -> Iterator[tuple[str, str, str]]:
    """Yield (kind, place, reason) of what :func:`dialogue_faults` accepts."""
    framed = {frame.service for turn in dialogue.turns for frame in turn.frames}
    for i, name in enumerate(dialogue.services):
        if services and name not in services:
            yield "reference", f"services[{i}]", f"no schema for service {name!r}"
        elif name not in framed:
            yield "no_frame", f"services[{i}]", f"no turn has a frame of service {name!r}"
    said, previous = "", "SYSTEM"
    for t, turn in enumerate(dialogue.turns):
        said += f"\n{turn.utterance.casefold()}"
        if turn.speaker == previous:
            before = "as the turn before" if t else "but the user begins"
            yield "speakers", f"turns[{t}].speaker", f"the speaker is the {turn.speaker.lower()}, {before}"
        previous = turn.speaker
        for f, frame in enumerate(turn.frames):
            for kind, place, reason in _frame_contradictions(frame, services.get(frame.service), turn.utterance, said):
                yield kind, f"turns[{t}].frames[{f}].{place}", reason


def _frame_contradictions(
    frame: Frame, service: Service | None, utterance: str, said: str
) -> Iterator[tuple[str, str, str]]:
    """Yield (kind, place, reason) of spans, state values and calls, given all that was said so far, casefolded."""
    for i, span in enumerate(frame.slots):
        if isinstance(span.value, str) and isinstance(span.start, int) and isinstance(span.exclusive_end, int):
            text = utterance[span.start : span.exclusive_end]
            if text.casefold() != span.value.casefold():
                yield "span_value", f"slots[{i}]", f"the span is {text!r}, but its value {span.value!r}"
    if service is None:
        return
    slots = {slot.name: slot for slot in service.slots}
    for name, values in (frame.state.slot_values if frame.state else {}).items():
        if name not in slots or not values or "dontcare" in values:
            continue
        if slots[name].is_categorical:
            if unknown := [value for value in values if value not in slots[name].possible_values]:
                yield "categorical_value", "state", f"{unknown[0]!r} is not a possible value of slot {name!r}"
        elif not any(value.casefold() in said for value in values):
            yield "value_not_said", "state", f"slot {name!r} is {values[0]!r}, which nobody has said so far"
    if frame.service_call:
        method, parameters = frame.service_call.method, frame.service_call.parameters
        required = next((intent.required_slots for intent in service.intents if intent.name == method), [])
        if missing := [name for name in required if name not in parameters]:
            yield "call_incomplete", "service_call.parameters", f"{method!r} requires slot {missing[0]!r}"


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
            yield _finding("duplicate_id", path, f"{position}: /id", f"{name!r} appears twice")
        known.add(name)
        schemas: dict[str, Mapping[str, Any]] = {}
        for i, raw in enumerate(task.get("function") or ()):
            try:
                tool = None if tools.is_hosted(raw) else tools.Tool(raw)
            except InputError as error:
                yield _finding("schema", path, f"{position}: /function/{i}{error.where}", error.reason)
                continue
            if tool is not None:
                schemas[tool.name] = tool.parameters.root
                yield from _tool_findings(tool, path, position, f"/function/{i}/parameters")
        if name in answers:
            yield from _answer_findings(answers[name], schemas, beside)
        elif "irrelevance" not in name:
            yield _finding("no_right_calls", path, position, f"{beside} has no right calls for {name!r}")


def _answer_findings(answer: Mapping[str, Any], schemas: Mapping[str, Any], path: Path) -> Iterator[Finding]:
    place = f"{answer['id']}: /ground_truth"
    try:
        calls = msgspec.convert(answer.get("ground_truth"), list[dict[str, dict[str, list[Any]]]])
    except msgspec.ValidationError as error:
        yield _finding("unreadable", path, place, str(error))
        return
    for function in sorted({function for call in calls for function in call} - schemas.keys()):
        yield _finding("unknown_function", path, place, f"{function!r} is not a function of the task")
    for kind, pointer, reason in tasks.contradictions(schemas, calls):
        yield _finding(kind, path, f"{place}{pointer}", reason)


_row = msgspec.json.Decoder(dict[str, Any])


def _predictions(path: Path) -> Iterator[Item]:
    """Check JSON lines; for a prediction the keys of its place, refusals and unread answers are the same everywhere."""
    yield Contents(str(path), "predictions")
    known = set[int]()
    with limits.open_path(path) as handle:
        for number, line in enumerate(handle, 1):
            place = f"line {number}"
            if not line.strip():
                continue
            try:
                row = _row.decode(line.removeprefix(b"\xef\xbb\xbf"))
            except msgspec.MsgspecError as error:
                yield _finding("unreadable", path, place, str(error))
                continue
            key = ", ".join(f"{name} {row[name]}" for name in _KEYS if name in row)
            if hash(key) in known:
                yield _finding("duplicate_id", path, place, f"{key} is predicted twice")
            known.add(hash(key))
            if row.get("refused"):
                yield _finding("refused", path, place, f"{key}: the request was refused")
            if row.get("unread") or row.get("result") == {"unreadable": True}:
                yield _finding("unread_answer", path, place, f"{key}: {row.get('unread')}")
