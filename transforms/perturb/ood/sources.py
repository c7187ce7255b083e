"""Sources of foreign utterances: our own small talk, and files: plain text, or dialogues in the SGD format."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

import msgspec

from parapet.schemas.dialogue import DialogueFile
from parapet.schemas.errors import InputError
from parapet.schemas.layout import DIALOGUE_FILE, as_path, is_there
from parapet.schemas.limits import MAX_DIALOGUE_FILE
from parapet.transforms.core.files import read_bytes
from parapet.transforms.perturb.corpora import dialogues_of, domains_of
from parapet.transforms.perturb.ood import CHAT, OWN
from parapet.transforms.perturb.ood.plan import user_turns_of
from parapet.transforms.perturb.ood.pool import KEPT, Utterance, utterance_of
from parapet.transforms.perturb.ood.requests import is_self_contained
from parapet.transforms.report.text import check_plain_text


class SourceFile(msgspec.Struct, frozen=True):
    """A file of foreign utterances: its name below the source, and its path, which is empty for our own small talk."""

    name: str
    path: str


def names_of(source: str) -> list[str]:
    """Split ``own,chat,FILE`` into sources; a file or folder may have a comma in its name."""
    return [source] if is_there(source) else [name for part in source.split(",") if (name := part.strip())]


def list_sources(source: str) -> list[SourceFile]:
    """List the files of ``--source`` except the corpus itself, sorted by name for each of its parts.

    Raises:
      InputError: a source does not exist, has no files, or one has an unknown format.
    """
    names = names_of(source)
    if not names:
        raise InputError("must be one or more of own, chat, files and folders", "--source")
    return [file for name in names if name != OWN for file in _files_of(name)]


def _files_of(name: str) -> list[SourceFile]:
    if name == CHAT:
        return [SourceFile(CHAT, "")]
    place = as_path(name)
    if place.is_file():
        folder, paths = place.parent, [place] if place.suffix in (".txt", ".json") else []
    else:
        dialogues = [path for path in place.rglob("*.json") if DIALOGUE_FILE.fullmatch(path.name)]
        folder, paths = place, sorted(dialogues or place.rglob("*.txt"))
    if not paths:
        problem = "contains no utterances" if is_there(name) else "there is no such file or folder"
        reason = f"{problem}; give own, chat, text (.txt), dialogues in the SGD format (.json), or a folder"
        raise InputError(reason, name, "--source")
    return [SourceFile(path.relative_to(folder).as_posix(), str(path)) for path in paths]


def read_source(file: SourceFile) -> Iterator[Utterance | InputError]:
    """Yield the utterances of a file, and an error for each bad row. Raises InputError if the file cannot be read."""
    return _sgd(file) if file.path.endswith(".json") else _text(file)


def _text(file: SourceFile) -> Iterator[Utterance | InputError]:
    if file.path:
        data = read_bytes(file.path, MAX_DIALOGUE_FILE).removeprefix(b"\xef\xbb\xbf")
        check_plain_text(data[:1000], file.name)
    else:
        data = files(__package__).joinpath("small_talk.txt").read_bytes()
    for number, line in enumerate(data.split(b"\n"), 1):
        try:
            if text := line.decode().strip():
                yield utterance_of(text, f"{file.name}:{number}", _origin(file))
        except UnicodeDecodeError as error:
            yield InputError(f"not_utf8: byte {error.start}; save the file as UTF-8", file.name, f"line {number}")


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
            yield utterance_of(text, source, _origin(file), domains, status=status)


def _origin(file: SourceFile) -> str:
    return file.name.partition("/")[0]


def source_id(name: str, dialogue_id: str, turn: int) -> str:
    """Return the id of a dialogue's turn as a source, for the rows."""
    return f"{name}:{dialogue_id}:{turn}".encode(errors="replace").decode()
