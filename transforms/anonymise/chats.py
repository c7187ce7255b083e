"""Readers of chats, one by one, from JSON lines, CSV or the format of dialog bAbI; speakers are users or bots."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from parapet.schemas.errors import InputError, reason_and_place
from parapet.schemas.layout import as_path, is_there, parse_json_line
from parapet.schemas.limits import MAX_DIALOGUE_FILE, open_path
from parapet.transforms.running.seeding import stable_hash
from parapet.transforms.simulators.babi_format import SILENCE, Exchange, Fact, parse_dialogues
from parapet.transforms.storage.compressed import read_input

JSON_LINES, CSV, BABI = "JSON lines", "CSV", "dialog bAbI"
USER, BOT = "user", "bot"
API_CALL = "api_call"
MAX_LENGTH = 100_000  # characters of a turn; a longer one is not part of a chat

_BOTS = frozenset({"agent", "assistant", "bot", "operator", "representative", "support", "sys", "system"})
_ROLES = _BOTS | {"user", "customer", "client", "guest", "caller", "human", "usr", "visitor", "you", "me", ""}
_COLUMNS = {
    "chat": ("chat_id", "chat", "conversation_id", "dialogue_id", "session_id", "id"),
    "speaker": ("speaker", "role", "from", "author", "sender"),
    "text": ("text", "utterance", "message", "body"),
}
_NUMBERED = re.compile(rb"[0-9]{1,9} [^\r\n]")


class ChatFile(msgspec.Struct, frozen=True):
    """A file of chats: its kind, its number among the inputs, its path.

    Outputs contain its number instead of its name.
    """

    kind: str
    number: int
    path: str

    @property
    def name(self) -> str:
        """The name of its outputs."""
        return f"{self.number:05}"


class ChatTurn(msgspec.Struct, frozen=True):
    """A turn.

    Attributes:
      speaker: ``user`` or ``bot``.
      text: the text as written.
      called: the original speaker if it is not a role, as it may be a person's name.
    """

    speaker: str
    text: str
    called: str = ""


class Chat(msgspec.Struct, frozen=True):
    """A chat: its id in the file, its turns, and the number of its facts, which are left out."""

    chat_id: str
    turns: tuple[ChatTurn, ...]
    facts: int = 0


def list_chats(paths: Iterable[str]) -> list[ChatFile]:
    """Number the files in order. Raises InputError if a file is missing or of an unknown kind."""
    return [ChatFile(_kind_of(as_path(path)), number, path) for number, path in enumerate(paths, 1)]


def _kind_of(path: Path) -> str:
    if not is_there(path):
        raise InputError("there is no such file", path, "--chats")
    try:
        with open_path(path) as handle:
            head = handle.read(1 << 16).removeprefix(b"\xef\xbb\xbf").lstrip()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path, "--chats") from None
    if head.startswith(b"{"):
        return JSON_LINES
    if _NUMBERED.match(head) and b"\t" in head:
        return BABI
    if head and path.suffix.lower() in (".csv", ".tsv"):
        return CSV
    reason = (
        'contains no chats: expected lines such as {"chat_id": ..., "turns": [{"speaker", "text"}]}, a .csv with the '
    )
    raise InputError(reason + "columns chat_id, speaker and text, or the format of dialog bAbI", path, "--chats")


Row = tuple[str, "Chat | InputError"]  # its place, and the chat or the error


def read_chats(file: ChatFile, bots: frozenset[str] = frozenset()) -> Iterator[Row]:
    """Yield the chats of a file.

    Args:
      file: the file.
      bots: speakers that are bots, in addition to ``agent``, ``assistant``, ``bot`` and the like; in lower case.

    Raises:
      InputError: the file cannot be read to its end; may come after some chats.
    """
    readers = {JSON_LINES: _json_lines, CSV: _csv, BABI: _babi}
    try:
        for where, chat in readers[file.kind](file, _BOTS | bots):
            yield where, _sound(chat)
    except OSError as error:
        if error.strerror is None:  # network errors, which the runner retries
            raise
        raise InputError(f"cannot be read: {error.strerror}", file.name) from None


def _sound(chat: Chat | InputError) -> Chat | InputError:
    if isinstance(chat, InputError):
        return chat
    for t, turn in enumerate(chat.turns):
        where = f"turns[{t}]"
        if len(turn.text) > MAX_LENGTH:
            return InputError(
                f"too_long: {len(turn.text):,} characters, more than the maximum of {MAX_LENGTH:,}", "", where
            )
        try:
            f"{chat.chat_id}{turn.text}{turn.called}".encode()
        except UnicodeEncodeError:
            return InputError("not_unicode: invalid UTF-8, or a lone surrogate", "", where)
    return chat if chat.turns else InputError("no_turns: the chat has no turns")


def _lines(file: ChatFile) -> Iterator[bytes]:
    with FileSystems.open(file.path, compression_type=CompressionTypes.UNCOMPRESSED) as handle:
        for i, line in enumerate(handle):
            yield line if i else line.removeprefix(b"\xef\xbb\xbf")


class _Turn(msgspec.Struct):
    speaker: str
    text: str


class _Line(msgspec.Struct):
    turns: list[_Turn]
    chat_id: str | int = ""


def _json_lines(file: ChatFile, bots: frozenset[str]) -> Iterator[Row]:
    for number, line in enumerate(_lines(file), 1):
        if line.strip():
            yield f"line {number}", _of_line(line, bots)


def _of_line(line: bytes, bots: frozenset[str]) -> Chat | InputError:
    try:
        read: Any = parse_json_line(line)
        chat = msgspec.convert(read, _Line)
    except msgspec.ValidationError as error:
        reason, at = reason_and_place(error)
        return InputError(f"not_chat: {reason}", "", at)
    except ValueError:  # its message may quote the text
        return InputError("not_json: the line is not JSON")
    return Chat(str(chat.chat_id), tuple(_turn(turn.speaker, turn.text, bots) for turn in chat.turns))


def _turn(speaker: str, text: str, bots: frozenset[str]) -> ChatTurn:
    role = speaker.strip().lower()
    return ChatTurn(BOT if role in bots else USER, text, "" if role in _ROLES or role in bots else speaker.strip())


def _csv(file: ChatFile, bots: frozenset[str]) -> Iterator[Row]:
    """Yield the chats of a table with a row per turn; the rows of a chat are consecutive."""
    # Invalid UTF-8 becomes lone surrogates, so that only its own chat is left out.
    text = (line.decode("utf-8", "surrogateescape") for line in _lines(file))
    rows = csv.reader(text, delimiter="\t" if file.path.lower().endswith(".tsv") else ",")
    csv.field_size_limit(max(csv.field_size_limit(), 4 * MAX_LENGTH))
    try:
        header = [name.strip().lower() for name in next(rows)]
        places = {
            column: next((header.index(name) for name in names if name in header), -1)
            for column, names in _COLUMNS.items()
        }
        if missing := [column for column, place in places.items() if place < 0]:
            raise InputError(f"the header has no column for {', '.join(missing)}", file.name, "line 1")
        yield from _of_rows(file, ((rows.line_num, row) for row in rows if row), places, bots)
    except csv.Error as error:
        raise InputError(f"not CSV: {error}", file.name, f"line {rows.line_num}") from None


def _of_rows(
    file: ChatFile, rows: Iterable[tuple[int, list[str]]], places: dict[str, int], bots: frozenset[str]
) -> Iterator[Row]:
    def chat_of(numbered: tuple[int, list[str]]) -> str:
        row = numbered[1]
        return row[places["chat"]] if places["chat"] < len(row) else ""

    seen: set[int] = set()
    for chat_id, of_chat in groupby(rows, chat_of):
        same = list(of_chat)
        where = f"line {same[0][0]}"
        if stable_hash(chat_id) in seen:
            raise InputError("the rows of a chat must be consecutive: sort the file by chat", file.name, where)
        seen.add(stable_hash(chat_id))
        if any(max(places.values()) >= len(row) for _, row in same):
            yield where, InputError("short_row: a row has fewer columns than the header")
            continue
        turns = (_turn(row[places["speaker"]], row[places["text"]], bots) for _, row in same)
        yield where, Chat(chat_id, tuple(turns))


def _babi(file: ChatFile, _: frozenset[str]) -> Iterator[Row]:
    # Errors of this reader have line numbers, but never text.
    for dialogue in parse_dialogues(read_input(file.path, MAX_DIALOGUE_FILE), file.name):
        turns = []
        for line in dialogue.lines:
            if not isinstance(line, Fact):
                bot = line.bot if isinstance(line, Exchange) else SILENCE
                turns += [
                    ChatTurn(speaker, text) for speaker, text in ((USER, line.user), (BOT, bot)) if text != SILENCE
                ]
        facts = sum(isinstance(line, Fact) for line in dialogue.lines)
        yield f"line {dialogue.line}", Chat(f"line {dialogue.line}", tuple(turns), facts)
