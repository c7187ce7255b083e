"""Readers of chats, one by one, from JSON lines or CSV; speakers are users or bots."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from itertools import groupby

import msgspec
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from parapet.schemas.errors import InputError, reason_and_place
from parapet.schemas.layout import as_path, is_there, parse_json_line
from parapet.schemas.limits import open_path

USER, BOT = "user", "bot"
API_CALL = "api_call"

_BOTS = frozenset({"agent", "assistant", "bot", "operator", "representative", "support", "sys", "system"})
_ROLES = _BOTS | {"user", "customer", "client", "guest", "caller", "human", "usr", "visitor", "you", "me", ""}
_COLUMNS = ("chat_id", "speaker", "text")


class ChatFile(msgspec.Struct, frozen=True):
    """A file of chats: whether it is CSV, its number among the inputs, its path.

    Outputs contain its number instead of its name.
    """

    is_csv: bool
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
    """A chat: its turns."""

    turns: tuple[ChatTurn, ...]


def list_chats(paths: Iterable[str]) -> list[ChatFile]:
    """Number the files in order. Raises InputError if a file is missing or of an unknown kind."""
    return [ChatFile(_is_csv(path), number, path) for number, path in enumerate(paths, 1)]


def _is_csv(path: str) -> bool:
    place = as_path(path)
    if not is_there(place):
        raise InputError("there is no such file", path, "--chats")
    if place.suffix.lower() == ".csv":
        return True
    try:
        with open_path(place) as handle:
            head = handle.read(1 << 16).removeprefix(b"\xef\xbb\xbf").lstrip()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path, "--chats") from None
    if not head.startswith(b"{"):
        reason = (
            'contains no chats: expected lines such as {"turns": [{"speaker": ..., "text": ...}]}, or a .csv with the'
        )
        raise InputError(f"{reason} columns {', '.join(_COLUMNS)}", path, "--chats")
    return False


Row = tuple[str, "Chat | InputError"]  # its place, and the chat or the error


def read_chats(file: ChatFile, bots: frozenset[str] = frozenset()) -> Iterator[Row]:
    """Yield the chats of a file.

    Args:
      file: the file.
      bots: speakers that are bots, in addition to ``agent``, ``assistant``, ``bot`` and the like; in lower case.

    Raises:
      InputError: the file cannot be read to its end; may come after some chats.
    """
    read = _csv if file.is_csv else _json_lines
    try:
        for where, chat in read(file, _BOTS | bots):
            yield where, _checked(chat)
    except OSError as error:
        if error.strerror is None:  # network errors, which the runner retries
            raise
        raise InputError(f"cannot be read: {error.strerror}", file.name) from None


def _checked(chat: Chat | InputError) -> Chat | InputError:
    if isinstance(chat, InputError):
        return chat
    for t, turn in enumerate(chat.turns):
        if not (turn.text + turn.called).isascii() and any("\ud800" <= c <= "\udfff" for c in turn.text + turn.called):
            return InputError("not_unicode: invalid UTF-8", "", f"turns[{t}]")
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


def _json_lines(file: ChatFile, bots: frozenset[str]) -> Iterator[Row]:
    for number, line in enumerate(_lines(file), 1):
        if line.strip():
            yield f"line {number}", _of_line(line, bots)


def _of_line(line: bytes, bots: frozenset[str]) -> Chat | InputError:
    try:
        chat = msgspec.convert(parse_json_line(line), _Line)
    except msgspec.ValidationError as error:
        reason, at = reason_and_place(error)
        return InputError(f"not_chat: {reason}", "", at)
    except ValueError:  # its message may quote the text
        return InputError("not_json: the line is not JSON")
    return Chat(tuple(_turn(turn.speaker, turn.text, bots) for turn in chat.turns))


def _turn(speaker: str, text: str, bots: frozenset[str]) -> ChatTurn:
    role = speaker.strip().lower()
    return ChatTurn(BOT if role in bots else USER, text, "" if role in _ROLES or role in bots else speaker.strip())


def _csv(file: ChatFile, bots: frozenset[str]) -> Iterator[Row]:
    """Yield the chats of a table with a row per turn; the rows of a chat are consecutive."""
    # Invalid UTF-8 becomes lone surrogates, so that only its own chat is left out.
    rows = csv.DictReader(line.decode("utf-8", "surrogateescape") for line in _lines(file))
    try:
        if missing := [column for column in _COLUMNS if column not in (rows.fieldnames or ())]:
            raise InputError(f"the header has no column for {', '.join(missing)}", file.name, "line 1")
        numbered = ((rows.line_num, row) for row in rows)
        for _, group in groupby(numbered, lambda item: item[1]["chat_id"]):
            of_chat = list(group)
            where = f"line {of_chat[0][0]}"
            if any(row["text"] is None or row["speaker"] is None for _, row in of_chat):
                yield where, InputError("short_row: a row has fewer columns than the header")
            else:
                yield where, Chat(tuple(_turn(row["speaker"], row["text"], bots) for _, row in of_chat))
    except csv.Error as error:
        raise InputError(f"not CSV: {error}", file.name, f"line {rows.line_num}") from None
