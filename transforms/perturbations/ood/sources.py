"""Sources of foreign utterances: our own small talk, plug-ins, and files: text, JSON lines, or dialogues of SGD."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.resources import files

import msgspec

from parapet.schemas.dialogue import DialogueFile
from parapet.schemas.errors import InputError
from parapet.schemas.layout import DIALOGUE_FILE, as_path, is_root, is_there, parse_json_line
from parapet.schemas.limits import MAX_DIALOGUE_FILE
from parapet.transforms.perturbation.corpora import dialogues_of, domains_of
from parapet.transforms.perturbations.ood import CHAT, OWN
from parapet.transforms.perturbations.ood.plan import user_turns_of
from parapet.transforms.perturbations.ood.pool import KEPT, Utterance, utterance_of
from parapet.transforms.perturbations.ood.requests import is_self_contained
from parapet.transforms.reports.text import check_plain_text
from parapet.transforms.running import plugins
from parapet.transforms.storage.files import read_bytes

TEXT, JSON_LINES, SGD = "plain text", "JSON lines", "SGD"
PLUG_IN = "plug-in"
SMALL_TALK = "small talk"
_KINDS = {".txt": TEXT, ".jsonl": JSON_LINES, ".json": SGD}

Rows = Iterator[tuple[str, str | InputError]]


class SourceFile(msgspec.Struct, frozen=True):
    """A file of foreign utterances: its kind, its name below the source, and its path.

    For a plug-in, it stands for all its utterances, and the path is the user's argument.
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
    place = as_path(given)
    if is_there(given):
        folder = place.parent if place.is_file() else place
        paths = [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.suffix in _KINDS)
        if folder == place and is_root(place):
            paths = [path for path in paths if DIALOGUE_FILE.fullmatch(path.name)]
        if not paths:
            reason = "contains no utterances: expected .txt, .jsonl, or .json with dialogues in the SGD format"
            raise InputError(reason, given, "--source")
        names = [path.relative_to(folder).as_posix() for path in paths]
        kinds = [_KINDS.get(path.suffix, TEXT) for path in paths]
        return list(map(SourceFile, kinds, names, map(str, paths)))
    if given == CHAT:
        return [SourceFile(SMALL_TALK, CHAT, "")]
    if chosen := plugin_of(given):
        plugins.make(chosen, ["__iter__"])  # an incomplete plug-in is reported before the pipeline runs
        return [SourceFile(PLUG_IN, chosen.plugin.name, given)]
    other = f"or the name of a plug-in ({plugins.told(plugins.OOD_SOURCES)})"
    reason = f"there is no such file or folder: give a file or folder, 'own', 'chat', {other}"
    raise InputError(reason, given, "--source")


def plugin_of(given: str) -> plugins.Chosen | None:
    """Return the plug-in named by ``--source``. A file or folder of that name has priority."""
    return None if is_there(given) or given == CHAT else plugins.find(plugins.OOD_SOURCES, given, "--source")


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
            yield utterance_of(text, f"{file.name}:{where.rpartition(' ')[2]}", origin)


def _lines(file: SourceFile) -> Iterator[tuple[str, bytes]]:
    data = read_bytes(file.path, MAX_DIALOGUE_FILE).removeprefix(b"\xef\xbb\xbf")
    if file.kind == TEXT:
        check_plain_text(data[:1000], file.name)
    return ((f"line {number}", line) for number, line in enumerate(data.split(b"\n"), 1) if line.strip())


def _text(file: SourceFile) -> Rows:
    for where, line in _lines(file):
        try:
            yield where, line.decode().strip()
        except UnicodeDecodeError as error:
            yield where, InputError(f"not_utf8: byte {error.start}; save the file as UTF-8")


def _json_lines(file: SourceFile) -> Rows:
    for where, line in _lines(file):
        try:
            item = parse_json_line(line)
        except ValueError as error:
            yield where, InputError(f"not_json: {error}")
            continue
        text = item.get("text", item.get("utterance")) if isinstance(item, dict) else None
        problem = InputError('no_utterance: has neither "text" nor "utterance" with a text')
        yield where, text if isinstance(text, str) else problem


def _sgd(file: SourceFile) -> Iterator[Utterance | InputError]:
    for position, _, dialogue in dialogues_of(DialogueFile("", file.name, file.path, 0)):
        if isinstance(dialogue, InputError):
            yield InputError(dialogue.reason, file.name, f"[{position}].{dialogue.where}")
            continue
        domains = domains_of(dialogue)
        for turn in user_turns_of(dialogue):
            text = dialogue.turns[turn].utterance
            source = source_id(file.name, dialogue.dialogue_id, turn)
            status = KEPT if is_self_contained(text) else "refers_back"
            yield utterance_of(text, source, file.name.partition("/")[0], domains, status=status)


def _small_talk(file: SourceFile) -> Rows:
    for number, line in enumerate(files(__package__).joinpath("small_talk.txt").read_text("utf-8").splitlines(), 1):
        yield f"line {number}", line


def _plugged(file: SourceFile) -> Rows:
    """Yield the texts of a plug-in, numbered from 1."""
    chosen = plugins.choose(plugins.OOD_SOURCES, file.path, "--source")
    for number, text in enumerate(plugins.make(chosen), 1):
        problem = InputError(f"no_utterance: expected a text, found {type(text).__name__}")
        yield f"text {number}", text if isinstance(text, str) else problem


_READERS: dict[str, Callable[[SourceFile], Rows]] = {
    TEXT: _text,
    JSON_LINES: _json_lines,
    SMALL_TALK: _small_talk,
    PLUG_IN: _plugged,
}


def source_id(name: str, dialogue_id: str, turn: int) -> str:
    """Return the id of a dialogue's turn as a source, for the rows."""
    return f"{name}:{dialogue_id}:{turn}".encode(errors="replace").decode()
