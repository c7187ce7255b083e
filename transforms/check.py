"""``parapet check``: what is wrong with corpora, schemas, tools, tasks, predictions, answers and releases.

Files are recognised by their content and read by the readers of the commands, whose errors become findings; further
checks compare parts that readers accept one by one. One file is read at a time.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import msgspec

from parapet.schemas import layout, limits, release, tasks, tools
from parapet.schemas.dialogue import Dialogue, Frame, list_files, read_each, read_messages, typed
from parapet.schemas.errors import InputError, pointer_of
from parapet.schemas.limits import parse_json
from parapet.schemas.rows import DeadLetter
from parapet.schemas.service import Service
from parapet.transforms.core.progress import advance, expect
from parapet.transforms.crowd.answer_files import SCHEMA_TASKS, read_responses, read_sheet
from parapet.transforms.crowd.hits.terms import REWRITES
from parapet.transforms.crowd.rewrite_rules import REWRITING_TASKS
from parapet.transforms.release.plan import dialogue_faults
from parapet.transforms.release.reading import LATEST, find_release
from parapet.transforms.release.verify import examine as verify_release
from parapet.transforms.report.text import counted

Severity = Literal["error", "warning", "information"]
Fault = tuple[str, str, str]  # kind, place in the dialogue, reason

RECOGNISED = "recognised"
WARNINGS = {
    "no_frame": "a service of the dialogue that no turn has a frame of",
    "speakers": "turns whose speakers do not alternate",
    "value_not_said": "a state value that nobody has said so far: information, since states may have canonical forms",
    "call_incomplete": "a service call without a required slot of its intent",
    "no_answer": "a request that was refused, or an answer that predict could not read, which counts as wrong",
    "unknown_field": "an answer to a field that the form does not have",
}
# The kinds whose messages do not say what they mean. Others are such as duplicate_id, and the reasons of readers.
KINDS = {**release.KINDS, **tasks.CONTRADICTIONS, **WARNINGS, "schema": "a service or tool that commands leave out"}
_SEVERITIES: Mapping[str, Severity] = {RECOGNISED: "information", **dict.fromkeys(WARNINGS, "warning")}
_EXPECTED = (
    "expected a corpus (train/schema.json and train/dialogues_001.json), schemas, tools, tasks, predictions, answers "
    "of annotators (CSV or JSON) or a release"
)
_OPENAPI = "is an OpenAPI description: write each operation as a tool with name, description and parameters"
_TABLE = (
    "is a table, but not of answers, whose columns are Answer.slot_0 and so on; chats are JSON lines: "
    '{"messages": [{"role": "user", "content": "Hi"}]}'
)
_READ = (".json", ".jsonl", ".yaml", ".yml", ".csv", ".tsv")
_BESIDE = (tasks.ANSWERS, layout.MANIFEST, layout.NAMES, layout.DEAD_LETTERS)  # read with others, or not at all
_ASSIGNMENTS = {"AssignmentId", "HITId", "HIT", "HITs", "Assignment", "Assignments"}
_KEYS = ("set", "dialogue_id", "dialogue", "turn", "service", "id", "kind")  # which identify a prediction
_REASON = re.compile(r"([a-z]+_[a-z_]+): (.+)", re.DOTALL)
_PLACE = re.compile(r"\[(\d+)\]|([^.\[\]]+)")
_BEGINNING = limits.MIB  # the bytes of a file that have its first record


class Finding(msgspec.Struct, frozen=True):
    """Something wrong, or what a file was recognised as.

    Attributes:
      kind: a key of :data:`KINDS`, the machine-readable reason of a reader, or :data:`RECOGNISED`.
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


def examine(place: str | Path) -> Iterator[Finding]:
    """Yields what a file or folder is recognised as, and what is wrong with it."""
    path, is_recognised = layout.as_path(place), False
    for finding in _examine(path):
        is_recognised |= finding.kind == RECOGNISED
        is_beside_others = finding.kind == "not_recognised" and finding.file != str(path)
        yield msgspec.structs.replace(finding, severity="warning") if is_beside_others else finding
    if path.is_dir() and not is_recognised:
        names = ", ".join(sorted(entry.name for entry in path.iterdir())[:5])
        yield _finding("not_recognised", path, "", f"{f'has only {names}' if names else 'is empty'}: {_EXPECTED}")


def _examine(path: Path) -> Iterator[Finding]:
    try:
        layout.check_published(path)
        yield from _folder(path) if path.is_dir() else _file(path)
    except InputError as error:
        yield _of_error(error, path)
    except OSError as error:
        yield _finding("unreadable", path, "", f"cannot be read: {error.strerror or error}")


def _finding(kind: str, path: object, place: str, message: str) -> Finding:
    """Makes a finding; ``place`` is a position, a JSON Pointer or ``turns[3].frames[0]``, or a position and these."""
    position, _, inside = place.rpartition(": ")
    if not position and not re.search(r"[\[/]", inside):
        position, inside = inside, ""
    pointer = inside if inside.startswith("/") else _pointer(inside)
    return Finding(kind, _SEVERITIES.get(kind, "error"), str(path), position, pointer, message)


def _pointer(place: str) -> str:
    return pointer_of(*(index or key for index, key in _PLACE.findall(place)))


def _of_error(error: InputError, path: object, kind: str = "unreadable") -> Finding:
    """Makes a finding of a reader's error; its reason may begin with its kind."""
    reason = error.reason.removeprefix("not_sgd: ")
    match = _REASON.fullmatch(reason)
    return _finding(match[1] if match else kind, error.path or path, error.where, match[2] if match else reason)


def _folder(path: Path) -> Iterator[Finding]:
    folders = [split for split in ("", *layout.SPLITS) if layout.dialogue_files(path, split)]
    if any((path / name).is_file() for name in (release.MANIFEST, LATEST)):
        root = find_release(path)
        result = verify_release(root)
        message = f"a release of {counted(result.files, 'file')} and {counted(result.rows, 'row')}"
        yield _finding(RECOGNISED, root, "", message)
        for mismatch in result.findings:
            yield _finding(mismatch.check, root / mismatch.path, mismatch.where, mismatch.reason)
    elif folders or any((path / split / "schema.json").is_file() for split in ("", *layout.SPLITS)):
        yield from _corpus(path, folders)
    else:
        for entry in sorted(path.iterdir()):
            is_read = entry.is_dir() or entry.suffix.lower() in _READ
            if is_read and not entry.name.startswith(".") and entry.name not in _BESIDE:
                yield from _examine(entry)


def _file(path: Path) -> Iterator[Finding]:
    """Recognises a file by its first record or its first line."""
    with limits.open_path(path) as handle:
        beginning = handle.read(_BEGINNING)
    limits.check_plain(beginning[:8], path)
    text = beginning.decode("utf-8-sig", "replace").lstrip()
    header = text.partition("\n")[0].strip()
    if text[:1] in ("[", "{"):
        yield from _json(path, text)
    elif "Answer." in header:
        yield from _answers(path, text)
    elif "response_id" in header and "decision" in header:
        yield _finding(RECOGNISED, path, "", "decisions of reviewers")
        yield from (_finding("bad_decision", path, letter.key, letter.reason) for letter in read_sheet(str(path))[1])
    elif header.startswith("openapi:"):
        raise InputError(f"not_recognised: {_OPENAPI}")
    elif re.search("[,;\t]", header):
        raise InputError(f"not_recognised: {_TABLE}")
    else:
        raise InputError(f"not_recognised: {f'begins with {header[:40]!r}' if text else 'is empty'}: {_EXPECTED}")


def _json(path: Path, text: str) -> Iterator[Finding]:
    record: dict[str, Any] = {}
    with suppress(ValueError, RecursionError):
        record = json.JSONDecoder().raw_decode(text, text.index("{"))[0]
    keys = record.keys()
    if not keys:
        parse_json(limits.read_whole(path), path)  # for line and column in the error
    if tasks.is_task(record):
        yield from _tasks(path)
    elif "openapi" in keys:
        raise InputError(f"not_recognised: {_OPENAPI}")
    elif "messages" in keys:
        yield _finding(RECOGNISED, path, "", "chat messages, which 'parapet perturb typos --messages FILE' changes")
        messages = read_messages(limits.read_whole(path, limits.MAX_DIALOGUE_FILE), path)
        yield from (_of_error(item, path) for item in messages if isinstance(item, InputError))
    elif {"dialogue_id", "turns"} <= keys:
        yield _finding(RECOGNISED, path, "", "dialogues")
        services = None
        with suppress(InputError):  # they may have no schema beside them, as predictions
            services = layout.services_by_name(layout.read_root(path.parent, leave_out_bad=True))
        yield from _dialogues(path, services)
    elif text[0] == "{" and {"id", "dialogue_id"} & keys and "question" not in keys:
        yield from _predictions(path)
    elif _ASSIGNMENTS & keys:
        yield from _answers(path, text)
    else:
        try:
            yield from _corpus(path, [])
        except InputError as error:
            reason = f"not_recognised: is JSON, but was not recognised: {error.reason}; {_EXPECTED}"
            raise InputError(reason, error.path, error.where) from None


def _answers(path: Path, beginning: str) -> Iterator[Finding]:
    yield _finding(RECOGNISED, path, "", "answers of annotators")
    task_kind = REWRITING_TASKS if f":{REWRITES}" in beginning else SCHEMA_TASKS
    for record in read_responses(str(path), b"check", "utf-8", task_kind):
        if isinstance(record, DeadLetter):
            kind, _, reason = record.reason.partition(": ")
            place = record.source.removeprefix(f"{path}").lstrip(": ")
            yield _finding(kind, path, place, reason.removeprefix(f"{path}: "))


# Dialogues.


def _corpus(path: Path, folders: list[str]) -> Iterator[Finding]:
    """Checks schemas or tools, and the dialogues in folders."""
    splits = layout.read_root(path, leave_out_bad=True) if path.is_file() or layout.is_root(path) else []
    files = list_files(path, folders) if folders else []
    kind, n = "a corpus" if folders else "schemas or tools", sum(len(split.services) for split in splits)
    dialogues = f" and {counted(len(files), 'file')} of dialogues" if folders else ""
    yield _finding(RECOGNISED, path, "", f"{kind} of {counted(n, 'service')}{dialogues}")
    bad = [service for split in splits for service in split.bad]
    yield from (_of_error(service.error, path, "schema") for service in bad)
    left_out = {str(service.raw.get("service_name")) for service in bad if isinstance(service.raw, dict)}
    by_split = {split.split: {service.service_name: service for service in split.services} for split in splits}
    expect(len(files), "files")
    for file in sorted(files, key=lambda file: file.relative):
        yield from (_finding("duplicate_id", file.path, f"[{i}]", reason) for i, reason in file.repeated)
        try:
            services = by_split.get(file.split, by_split.get(layout.SINGLE))
            yield from _dialogues(layout.as_path(file.path), services, left_out)
        except InputError as error:
            yield _of_error(error, file.path)
        advance(1, "files")


def _dialogues(path: Path, services: Mapping[str, Service] | None, left_out: Collection[str] = ()) -> Iterator[Finding]:
    """Checks a file of dialogues, given the services of its split, and those that were reported as bad."""
    for i, item in enumerate(read_each(limits.read_whole(path, limits.MAX_DIALOGUE_FILE), path)):
        try:
            dialogue = typed(item)
        except InputError as error:
            yield _of_error(InputError(error.reason, path, f"[{i}].{error.where}"), path, "format")
            continue
        faults = ((fault.kind, fault.where, fault.reason) for fault in dialogue_faults(dialogue, services, str(path)))
        reported = {("reference", f"no schema for service {name!r}") for name in left_out}
        for kind, where, reason in (*faults, *_contradictions(dialogue, services or {})):
            if (kind, reason) not in reported:  # later turns repeat the state
                turn = re.match(r"turns\[(\d+)\]", where)
                position = f"{dialogue.dialogue_id}, turn {turn[1]}" if turn else dialogue.dialogue_id
                yield _finding(kind, path, f"{position}: /{i}{_pointer(where)}", reason)
            reported.add((kind, reason))


def _contradictions(dialogue: Dialogue, services: Mapping[str, Service]) -> Iterator[Fault]:
    """Yields what :func:`dialogue_faults` accepts."""
    framed = {frame.service for turn in dialogue.turns for frame in turn.frames}
    for i, name in enumerate(dialogue.services):
        if services and name not in services:
            yield "reference", f"services[{i}]", f"no schema for service {name!r}"
        elif name not in framed:
            yield "no_frame", f"services[{i}]", f"no turn has a frame of service {name!r}"
    said, speaker = "", ""
    for t, turn in enumerate(dialogue.turns):
        said += f"\n{turn.utterance.casefold()}"
        if turn.speaker == speaker:
            yield "speakers", f"turns[{t}].speaker", f"the speaker is the {speaker.lower()}, as the turn before"
        speaker = turn.speaker
        for f, frame in enumerate(turn.frames):
            if frame.service in services:
                for kind, place, reason in _of_frame(frame, services[frame.service], said):
                    yield kind, f"turns[{t}].frames[{f}].{place}", reason


def _of_frame(frame: Frame, service: Service, said: str) -> Iterator[Fault]:
    """Yields what contradicts the schema or all that was said so far, casefolded."""
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
        for name in next((intent.required_slots for intent in service.intents if intent.name == method), []):
            if name not in parameters:
                yield "call_incomplete", "service_call.parameters", f"{method!r} requires slot {name!r}"


# Tasks of agents, and predictions.


def _tasks(path: Path) -> Iterator[Finding]:
    beside = tasks.answers_beside(path)
    answers = tasks.by_id(limits.read_whole(beside), beside) if beside.is_file() else {}
    file = tools.ToolFile(limits.read_whole(path), path)
    yield _finding(RECOGNISED, path, "", f"tasks of agents, {len(answers):,} with right calls")
    yield from (_of_error(bad, path, "schema") for bad in file.bad)
    for name, toolset in file.of_tasks.items():
        if name not in answers and "irrelevance" not in name:
            yield _finding("no_right_calls", path, name, f"{beside} has no right calls for {name!r}")
        try:
            calls = msgspec.convert(answers.get(name, {}).get("ground_truth", []), tasks.RightCalls)
        except msgspec.ValidationError as error:
            raise InputError(str(error), beside, f"{name}: /ground_truth") from None
        schemas = {tool.name: tool.parameters.root for tool in file.toolsets[toolset].tools}
        for kind, pointer, reason in tasks.contradictions(schemas, calls):
            yield _finding(kind, beside, f"{name}: /ground_truth{pointer}", reason)


_row = msgspec.json.Decoder(dict[str, Any])


def _predictions(path: Path) -> Iterator[Finding]:
    yield _finding(RECOGNISED, path, "", "predictions, or other rows with ids")
    known = set[str]()
    with limits.open_path(path) as handle:
        for number, line in enumerate(handle, 1):
            place = f"line {number}"
            try:
                row = _row.decode(line.removeprefix(b"\xef\xbb\xbf")) if line.strip() else {}
            except msgspec.MsgspecError as error:
                yield _finding("unreadable", path, place, str(error))
                continue
            key = ", ".join(f"{name} {row[name]}" for name in _KEYS if name in row)
            if key and key in known:
                yield _finding("duplicate_id", path, place, f"{key} appears twice")
            known.add(key)
            if row.get("refused") or row.get("unread") or row.get("result") == {"unreadable": True}:
                yield _finding("no_answer", path, place, f"{key}: {row.get('unread') or 'refused or unreadable'}")
