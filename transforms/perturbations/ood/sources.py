"""Sources of foreign utterances: our own small talk, or files, whose format is detected from their content."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from parapet.schemas.dialogue import DialogueFile
from parapet.schemas.errors import InputError
from parapet.schemas.layout import DIALOGUE_FILE, as_path, is_root, is_there, parse_json, parse_json_line
from parapet.schemas.limits import MAX_DIALOGUE_FILE
from parapet.transforms.perturbation.corpora import dialogues_of, domains_of
from parapet.transforms.perturbations.ood import CHAT, OWN
from parapet.transforms.perturbations.ood.plan import user_turns_of
from parapet.transforms.perturbations.ood.pool import KEPT, Utterance, utterance_of
from parapet.transforms.perturbations.ood.requests import is_self_contained
from parapet.transforms.reports.text import check_plain_text
from parapet.transforms.running import plugins
from parapet.transforms.storage.files import read_bytes

TEXT, JSON_LINES, DSTC2, KEY_VALUE, SGD = "plain text", "JSON lines", "DSTC2", "Stanford key-value", "SGD"
PLUG_IN = "plug-in"
SMALL_TALK = "small talk"
_FIELDS = ("text", "utterance")
_SUFFIXES = (".txt", ".json", ".jsonl", ".text", ".lst")
# DSTC2's transcriptions of silence and noise
_SILENCE = frozenset({"noise", "unintelligible", "sil", "unk", "inaudible"})


Rows = Iterator[tuple[str, str | InputError]]


class SourceFile(msgspec.Struct, frozen=True):
    """A file of foreign utterances: its kind, its name below the source, and its path.

    For DSTC2, it is the ``log.json`` of a call, beside its ``label.json``. For a plug-in, it stands for all its
    utterances, and the path is the user's argument.
    """

    kind: str
    name: str
    path: str


def names_of(given: str) -> list[str]:
    """Split ``own,chat,FILE`` into sources; a file or folder may have a comma in its name."""
    return [given] if is_there(given) else [name for part in given.split(",") if (name := part.strip())]


def list_sources(given: str) -> list[SourceFile]:
    """List the files of ``--source`` except the corpus itself, sorted by name for each of its parts.

    Raises:
      InputError: a source does not exist, has no files, or one has an unknown format.
    """
    names = names_of(given)
    if not names:
        raise InputError("must be one or more of own, chat, files and plug-ins", "--source")
    return [file for name in names if name != OWN for file in _files_of(name)]


def _files_of(given: str) -> list[SourceFile]:
    if is_chat(given):
        return [SourceFile(SMALL_TALK, CHAT, "")]
    if chosen := plugin_of(given):
        plugins.make(chosen, ["__iter__"])  # an incomplete plug-in is reported before the pipeline runs
        return [SourceFile(PLUG_IN, chosen.plugin.name, given)]
    if not is_there(given):
        other = f"or the name of a plug-in ({plugins.told(plugins.OOD_SOURCES)})"
        raise InputError(
            f"there is no such file or folder: give a file or folder, 'own', 'chat', {other}", given, "--source"
        )
    place = as_path(given)
    if place.is_file():
        return [SourceFile(kind_of(place), place.name, str(place))]
    if is_root(place):
        files = [path for path in _walk(place) if DIALOGUE_FILE.fullmatch(path.name)]
        kinds = dict.fromkeys(files, SGD)
    elif files := [path for path in _walk(place) if path.name == "log.json"]:
        kinds = dict.fromkeys(files, DSTC2)
    else:
        files = [path for path in _walk(place) if path.suffix.lower() in _SUFFIXES]
        kinds = {path: kind_of(path) for path in files}
    if not files:
        reason = (
            "contains no utterances: expected text (.txt), JSON lines (.jsonl), DSTC2 calls (log.json), a key-value "
        )
        raise InputError(reason + "corpus (.json), or an SGD corpus with its schema.json", given, "--source")
    sources = [SourceFile(kinds[path], path.relative_to(place).as_posix(), str(path)) for path in files]
    return sorted(sources, key=lambda file: file.name)


def is_chat(given: str) -> bool:
    """Whether ``--source`` names Parapet's own small talk. A file or folder of that name has priority."""
    return given == CHAT and not is_there(given)


def plugin_of(given: str) -> plugins.Chosen | None:
    """Return the plug-in named by ``--source``. A file or folder of that name has priority."""
    return None if is_there(given) or is_chat(given) else plugins.find(plugins.OOD_SOURCES, given, "--source")


def _walk(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))


def kind_of(path: Path) -> str:
    """Detect the format of a file from its content. Raises InputError if it is JSON of an unknown format."""
    data = _bytes_of(path, str(path)).lstrip()
    if not data:
        raise InputError("the file is empty", path)
    if not data.startswith((b"[", b"{")):
        if b"\0" in data:
            raise InputError("is not text: expected one utterance per line, or JSON", path)
        return TEXT
    try:
        content = parse_json(data, path)
    except InputError:
        if isinstance(_of_line(data.partition(b"\n")[0]), str) or path.suffix.lower() == ".jsonl":
            return JSON_LINES
        if path.suffix.lower() == ".json":
            raise
        return TEXT  # plain text may begin with a bracket
    first = content[0] if isinstance(content, list) and content else content
    keys = first.keys() if isinstance(first, dict) else ()
    if "turns" in keys:
        return SGD if "dialogue_id" in keys else DSTC2
    if "dialogue" in keys:
        return KEY_VALUE
    if isinstance(_of_line(data), str):
        if b"\n" in data.strip():
            raise InputError("must be JSON lines, with one record per line", path)
        return JSON_LINES
    raise InputError(
        'is JSON of an unknown kind: expected lines such as {"text": "..."}, a key-value corpus '
        '([{"dialogue": ...}]), a DSTC2 log, or SGD dialogues',
        path,
    )


def _bytes_of(path: str | Path, name: str) -> bytes:
    try:
        return read_bytes(str(path), MAX_DIALOGUE_FILE).removeprefix(b"\xef\xbb\xbf")
    except OSError as error:
        if error.strerror is None:  # a network error, which the runner retries
            raise
        raise InputError(f"cannot be read: {error.strerror}", name) from None


def read_source(file: SourceFile) -> Iterator[Utterance | InputError]:
    """Yield the utterances of a file, and an error for each bad row. Raises InputError if the file cannot be read."""
    if file.kind == SGD:
        yield from _sgd(file)
        return
    origin = file.name.partition("/")[0]
    for where, text in _READERS[file.kind](file):
        if isinstance(text, InputError):
            yield InputError(text.reason, file.name, where)
        else:
            is_turn = file.kind in (DSTC2, KEY_VALUE)
            yield utterance_of(text, f"{file.name}:{where.rpartition(' ')[2]}", origin, status=_status(text, is_turn))


def _status(text: str, is_turn: bool) -> str:
    return "refers_back" if is_turn and not is_self_contained(text) else KEPT


def _lines(file: SourceFile) -> Rows:
    data = _bytes_of(file.path, file.name)
    check_plain_text(data[:1000], file.name)
    for number, line in enumerate(data.split(b"\n"), 1):
        try:
            if text := line.decode().strip():
                yield f"line {number}", text
        except UnicodeDecodeError as error:
            yield f"line {number}", InputError(f"not_utf8: byte {error.start}; save the file as UTF-8")


def _json_lines(file: SourceFile) -> Rows:
    for number, line in enumerate(_bytes_of(file.path, file.name).split(b"\n"), 1):
        if line.strip():
            yield f"line {number}", _of_line(line)


def _of_line(line: bytes) -> str | InputError:
    try:
        item = parse_json_line(line)
    except ValueError as error:
        return InputError(f"not_json: {error}")
    texts = [item[field] for field in _FIELDS if field in item] if isinstance(item, dict) else []
    if not texts:
        return InputError('no_utterance: has neither "text" nor "utterance"')
    return texts[0] if isinstance(texts[0], str) else InputError("no_utterance: the utterance is not a text")


def _key_value(file: SourceFile) -> Rows:
    read = parse_json(_bytes_of(file.path, file.name), file.name)
    for i, item in enumerate(read if isinstance(read, list) else ()):
        turns = item.get("dialogue") if isinstance(item, dict) else None
        if not isinstance(turns, list):
            yield f"[{i}].dialogue", InputError("no_utterance: the dialogue is not a list of turns")
            continue
        for t, turn in enumerate(turns):
            where = f"[{i}].dialogue[{t}]"
            if not isinstance(turn, dict) or not isinstance(turn.get("data"), dict):
                yield where, InputError("no_utterance: a turn must have 'turn' and 'data'")
            elif turn.get("turn") == "driver":
                utterance = turn["data"].get("utterance")
                yield (
                    where,
                    utterance if isinstance(utterance, str) else InputError("no_utterance: 'data' has no utterance"),
                )


def _dstc2(file: SourceFile) -> Rows:
    """Yield the caller's turns: the transcriptions in ``label.json``, or else the first ASR hypotheses."""
    log = _turns(parse_json(_bytes_of(file.path, file.name), file.name), file.name)
    labels: list[Any] = []
    label = os.path.join(os.path.dirname(file.path), "label.json")
    if os.path.basename(file.path) == "log.json" and is_there(label):
        labels = _turns(parse_json(_bytes_of(label, label), label), file.name.replace("log.json", "label.json"))
    for t, turn in enumerate(log):
        where = f"turns[{t}]"
        utterance = labels[t].get("transcription") if t < len(labels) and isinstance(labels[t], dict) else None
        utterance = _first_hypothesis(turn) if utterance is None else utterance
        if not isinstance(utterance, str):
            yield where, InputError("no_utterance: neither a transcription in label.json nor asr-hyps in log.json")
        elif text := " ".join(word for word in utterance.split() if word.lower() not in _SILENCE):
            yield where, text


def _turns(read: Any, name: str) -> list[Any]:
    turns = read.get("turns") if isinstance(read, dict) else None
    if not isinstance(turns, list):
        raise InputError("is not a DSTC2 call: it has no list of turns", name)
    return turns


def _first_hypothesis(turn: Any) -> Any:
    """Return ``input.live.asr-hyps[0].asr-hyp``, or ``transcription`` if the file is a separate label.json."""
    try:
        if "transcription" in turn:
            return turn["transcription"]
        hypotheses: list[Any] = turn["input"]["live"]["asr-hyps"]
        return hypotheses[0]["asr-hyp"] if hypotheses else ""
    except (KeyError, TypeError, IndexError, AttributeError):
        return None


def _sgd(file: SourceFile) -> Iterator[Utterance | InputError]:
    dialogues = dialogues_of(DialogueFile("", file.name, file.path, 0))
    for position, _, dialogue in dialogues:
        if isinstance(dialogue, InputError):
            yield InputError(dialogue.reason, file.name, f"[{position}].{dialogue.where}")
            continue
        domains = domains_of(dialogue)
        for turn in user_turns_of(dialogue):
            text = dialogue.turns[turn].utterance
            source = source_id(file.name, dialogue.dialogue_id, turn)
            yield utterance_of(text, source, file.name.partition("/")[0], domains, status=_status(text, True))


def _small_talk(file: SourceFile) -> Rows:
    for number, line in enumerate(files(__package__).joinpath("small_talk.txt").read_text("utf-8").splitlines(), 1):
        yield f"line {number}", line


def _plugged(file: SourceFile) -> Rows:
    """Yield the texts of a plug-in, numbered from 1."""
    chosen = plugins.choose(plugins.OOD_SOURCES, file.path, "--source")
    for number, text in enumerate(plugins.make(chosen), 1):
        is_text = isinstance(text, str)
        yield (
            f"text {number}",
            text if is_text else InputError(f"no_utterance: expected a text, found {type(text).__name__}"),
        )


_READERS: dict[str, Callable[[SourceFile], Rows]] = {
    TEXT: _lines,
    JSON_LINES: _json_lines,
    DSTC2: _dstc2,
    KEY_VALUE: _key_value,
    SMALL_TALK: _small_talk,
    PLUG_IN: _plugged,
}


def source_id(name: str, dialogue_id: str, turn: int) -> str:
    """Return the id of a dialogue's turn as a source, for the rows."""
    return f"{name}:{dialogue_id}:{turn}".encode(errors="replace").decode()


def kinds_of(files: Iterable[SourceFile]) -> list[str]:
    """Return the distinct formats of files, sorted."""
    return sorted({file.kind for file in files})
