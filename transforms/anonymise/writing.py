"""Chats, read one by one from JSON lines or CSV, and their anonymised files; statistics, a report, a set for training.

Speakers are users or bots. The set is built like Concierge in Bordes et al. 2017 (section 3.3, Table 1): splits by
dialogue, all utterances of operators as candidates, and the figures of Table 1. It is held in memory.
"""

from __future__ import annotations

import csv
import itertools
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import groupby
from typing import Any

import msgspec
import orjson
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from parapet.schemas import layout, limits
from parapet.schemas.errors import InputError, reason_and_place, storable
from parapet.transforms.anonymise.replacing import (
    BOT,
    KINDS,
    SUSPICIONS,
    USER,
    Anonymiser,
    Chat,
    ChatTurn,
    Replaced,
    Rules,
    Suspect,
    normalised,
    suspects_in,
)
from parapet.transforms.core import fence, progress, runs, seeding
from parapet.transforms.core.counts import Balance, CountKey, Counts, DeadLetter, Equal, Invariant, Tally, of_files
from parapet.transforms.core.files import HashingWriter, staged, write_staged
from parapet.transforms.report.numbers import Metric, Numbers, metrics_named, sections_of
from parapet.transforms.report.report import Report, Text, Tile, report_files
from parapet.transforms.report.text import counted
from parapet.transforms.simulators import formats as babi

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


def list_chats(paths: Iterable[str]) -> list[ChatFile]:
    """Numbers the files in order. Raises InputError if a file is missing or of an unknown kind."""
    return [ChatFile(_is_csv(path), number, path) for number, path in enumerate(paths, 1)]


def _is_csv(path: str) -> bool:
    place = layout.as_path(path)
    if not layout.is_there(place):
        raise InputError("there is no such file", path, "--chats")
    if place.suffix.lower() == ".csv":
        return True
    try:
        with limits.open_path(place) as handle:
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
    """Yields the chats of a file.

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
        chat = msgspec.convert(layout.parse_json_line(line), _Line)
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
    """Yields the chats of a table with a row per turn; the rows of a chat are consecutive."""
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


SET = "set"  # the Beam output with the dialogues of the set
SUSPECTS = "suspects"  # the folder of possibly missed mentions
Line = babi.Exchange | babi.Unanswered

_TOTALS = ("files", "broken_files", "chats", "written", "left_out", "turns", "chats_with_suspects")


class Config(msgspec.Struct, frozen=True):
    """The options of a run.

    Attributes:
      output: the output folder.
      files: the chats.
      rules: the rules of the replacement.
      bots: speakers that are bots, in addition to the usual ones, in lower case.
      splits: the splits of a data set to write in addition; None for no data set.
    """

    output: str
    files: tuple[ChatFile, ...]
    rules: Rules
    bots: frozenset[str]
    splits: SplitConfig | None

    def options(self) -> dict[str, object]:
        """Returns the options that affect the content, for ``run.json``.

        They contain no word of a chat and no file name.
        """
        return {
            "entities": len(self.rules.entities),
            "spacy_model": self.rules.model and self.rules.model.rstrip("/").rpartition("/")[2],
            "phone_regions": list(self.rules.regions),
            "keep": sorted(self.rules.kept),
            "placeholders": "paper" if self.rules.paper else "numbered",
            **({"splits": list(self.splits.sizes), "seed": self.splits.seed} if self.splits else {}),
        }

    def invariants(self) -> list[Invariant]:
        """Every chat is written or left out, every turn of a written chat is written."""
        balances = [Balance("chats", ["written", "left_out"]), Balance("turns", ["written_turns"])]
        return [Equal({CountKey("files"): len(self.files)}), *balances]

    def tallies(self, counts: Counts) -> list[Tally]:
        """Returns the records that count against ``--max_bad``."""
        # files are identified by numbers here, not by names
        files = msgspec.structs.replace(of_files(counts), part="--chats")
        return [files, Tally("chat", counts.sum("chats"), counts.sum("left_out"), "--chats", is_record=True)]


def names_of_file(file: ChatFile, config: Config) -> Iterator[str]:
    """Yields the words of names in one file, so that the check of other chats also knows them.

    They are kept in memory only and never written. A file that cannot be read yields nothing; :func:`write_file`
    reports it.
    """
    anonymiser = Anonymiser(config.rules)
    seen: set[str] = set()
    try:
        for _, chat in progress.tracked(read_chats(file, config.bots), "chats", "names"):
            progress.expect(1, "chats")
            if isinstance(chat, Chat):
                try:
                    new = anonymiser.of(chat).names - seen
                except Exception as error:
                    fence.bad_record(error, is_private=True)  # write_file meets and reports it, too
                    continue
                seen |= new
                yield from sorted(new)
    except InputError:
        return


def write_file(file: ChatFile, names: Sequence[str], config: Config) -> runs.FileResult:
    """Writes one file of chats into staging; nothing if it cannot be read to its end.

    Args:
      file: the chats.
      names: the words of names in all files.
      config: the options.
    """
    result = runs.FileResult(file.name)
    result.counts.add("files")
    paths = [f"chats/{file.name}.jsonl", f"babi/{file.name}.txt", f"{SUSPECTS}/{file.name}.jsonl"]
    try:
        with ExitStack() as stack:
            writers = [HashingWriter(stack.enter_context(staged(config.output, path))) for path in paths]
            _write_chats(file, frozenset(names), config, result, writers)
    except Exception as error:
        bad = fence.bad_record(error, is_private=True)
        reason = bad.reason if isinstance(bad, fence.Fault) else f"broken_file: {bad.reason}"
        return result.failed(_dead_letter(file, bad.where, reason, fence.trace_of(bad)))
    result.written = [writer.written(path) for writer, path in zip(writers, paths, strict=True)]
    return result


def _write_chats(
    file: ChatFile, names: frozenset[str], config: Config, result: runs.FileResult, writers: Sequence[HashingWriter]
) -> None:
    anonymiser = Anonymiser(config.rules)
    for number, (where, chat) in enumerate(progress.tracked(read_chats(file, config.bots), "chats"), 1):
        result.counts.add("chats")
        try:
            if isinstance(chat, InputError):
                raise chat
            replaced = anonymiser.of(chat)
            suspects = [
                suspect
                for t, text in enumerate(replaced.texts)
                for suspect in suspects_in(t, text, replaced.parts, names)
            ]
            lines = _lines_of_files(chat, f"{file.name}-{number:06}", replaced, suspects)
            of_set = _of_set(chat, replaced) if config.splits else ()
        except Exception as error:
            bad = fence.bad_record(error, is_private=True)
            place = ": ".join(part for part in (where, bad.where) if part)
            result.dead_letters.append(_dead_letter(file, place, bad.reason, fence.trace_of(bad)))
            result.counts.add("left_out")
            continue
        for writer, line in zip(writers, lines, strict=True):
            writer.write(line)
        result.counts.add("written")
        _count(result.counts, chat, replaced, suspects)
        if of_set:
            result.others.setdefault(SET, []).append((file.number, number, of_set))
        elif config.splits:
            result.counts.add("without_answer")


def _lines_of_files(
    chat: Chat, chat_id: str, replaced: Replaced, suspects: Sequence[Suspect]
) -> tuple[bytes, bytes, bytes]:
    """Formats a chat as JSON and as dialog bAbI, and its suspects."""
    utterances = [
        (turn.speaker, normalised(text) if turn.speaker == BOT else text)
        for turn, text in zip(chat.turns, replaced.texts, strict=True)
    ]
    turns = [{"speaker": speaker, "text": text} for speaker, text in utterances]
    rows = ({"chat_id": chat_id, **msgspec.structs.asdict(suspect)} for suspect in suspects)
    return (
        orjson.dumps({"chat_id": chat_id, "turns": turns}) + b"\n",
        babi.dialogue_text(lines_of(utterances)).encode(),
        b"".join(orjson.dumps(row) + b"\n" for row in rows),
    )


def _of_set(chat: Chat, replaced: Replaced) -> tuple[Line, ...]:
    """Returns the lines of a chat in the set; empty if the operator never answers."""
    texts = zip(chat.turns, replaced.texts, strict=True)
    lines = tuple(lines_of([(turn.speaker, normalised(text)) for turn, text in texts]))
    return lines if any(isinstance(line, babi.Exchange) for line in lines) else ()


def _dead_letter(file: ChatFile, where: str, reason: str, trace: str = "") -> DeadLetter:
    """Creates the dead letter of a chat or a file, without any word of a chat."""
    return DeadLetter("", "", file.name, "", storable(where), storable(reason), trace)


def _count(counts: Counts, chat: Chat, replaced: Replaced, suspects: Sequence[Suspect]) -> None:
    counts.add("turns", len(chat.turns))
    counts.add("written_turns", len(replaced.texts))
    counts.add("chats_with_suspects", int(bool(suspects)))
    for kind, n in replaced.mentions.items():
        counts.add("mentions", n, value=kind)
    for kind, n in replaced.things.items():
        counts.add("things", n, value=kind)
    for suspect in suspects:
        counts.add("suspects", value=suspect.kind)


def lines_of(utterances: Iterable[tuple[str, str]]) -> list[Line]:
    """Converts (speaker, text) to lines of a dialogue.

    Of several consecutive user turns, only the last one is answered.
    """
    lines: list[Line] = []
    waiting = ""
    for speaker, text in utterances:
        if speaker == USER:
            lines += [babi.Unanswered(waiting)] if waiting and text else []
            waiting = text or waiting
        elif text:
            lines.append(babi.Exchange(waiting or babi.SILENCE, text))
            waiting = ""
    if waiting or not lines:
        lines.append(babi.Unanswered(waiting or babi.SILENCE))
    return lines


def statistics(counts: Counts) -> dict[str, Any]:
    """Returns the content of ``statistics.json``."""
    mentions, things, suspects = (counts.by("value", name) for name in ("mentions", "things", "suspects"))
    return {
        **{name: counts.sum(name) for name in _TOTALS},
        "replaced": {kind: {"mentions": n, "things": things[kind]} for kind, n in mentions.items()},
        "suspects": {kind: suspects.get(kind, 0) for kind in SUSPICIONS},
    }


def metadata_files(counts: Counts, _: Mapping[str, Sequence[Any]], config: Config) -> dict[str, bytes]:
    """Returns the files other than chats. They contain no word of a chat."""
    numbers = statistics(counts)
    if config.splits:
        numbers["set"] = {**set_statistics(counts), "without_answer": counts.sum("without_answer")}
    return report_files(numbers, report_of(numbers))


def report_of(numbers: Mapping[str, Any]) -> Report:
    """Creates the report for the card and the page from the content of ``statistics.json``."""
    replaced = sum(of_kind["mentions"] for of_kind in numbers["replaced"].values())
    return Report(
        command="anonymise",
        title="Anonymised chats",
        headline="What was replaced, and what may have been missed",
        lead=f"{counted(numbers['written'], 'chat')} with {counted(numbers['turns'], 'turn')}, in the style of the "
        f"Concierge data of Bordes et al. 2017 (section 3.3).",
        tiles=[
            Tile("chats", f"{numbers['written']:,}"),
            Tile("turns", f"{numbers['turns']:,}"),
            Tile("mentions replaced", f"{replaced:,}"),
            Tile("suspects", f"{sum(numbers['suspects'].values()):,}"),
            Tile("chats left out", f"{numbers['left_out']:,}"),
        ],
        sections=[
            *sections_of(
                numbers,
                Numbers(
                    "Replaced mentions",
                    "replaced/*",
                    ("kind",),
                    (Metric("mentions", "mentions"), Metric("things", "different in their chats")),
                    {kind: f"{meaning} ({kind})" for kind, meaning in KINDS.items()},
                    chart="bars",
                ),
                Numbers(
                    "Suspects",
                    "suspects/*",
                    ("kind",),
                    (Metric("", "suspects"),),
                    SUSPICIONS,
                    note="What a second look, by other means, suspects was missed.",
                ),
            ),
            *(sections_of({"here": numbers["set"], "the paper's Concierge": PAPER}, _SET) if "set" in numbers else []),
            Text(
                title="Before you publish",
                paragraphs=[
                    "Rules and models miss things. `suspects/` lists what may have been missed, by chat and turn, with "
                    "its first character and its length. Read a sample of the chats, too.",
                    "No table of what was replaced is kept anywhere. Numbered placeholders are the same for the same "
                    "person, place or number throughout its chat, and only there.",
                    "API calls have lost their arguments, as in the Concierge data.",
                ],
            ),
        ],
        links={"statistics.json": "all numbers", "dead_letters.jsonl": "chats that could not be read"},
    )


FOLDER = "concierge"


class SplitConfig(msgspec.Struct, frozen=True):
    """The shares of train, dev and test, and the seed that assigns chats to them."""

    sizes: tuple[float, ...]
    seed: str


# A chat of the set: the number of its file, its number in the file, and its lines.
SetDialogue = tuple[int, int, tuple[Line, ...]]


def split_of(dialogues: Sequence[str], config: SplitConfig) -> list[int]:
    """Returns the split of each dialogue, 0 to 2; dialogues with the same text are in the same split.

    Raises:
      InputError: a split would be empty.
    """
    ends = [round(end * len(dialogues)) for end in itertools.accumulate(config.sizes)][:-1]
    sizes = Counter(dialogues)
    splits: dict[str, int] = {}
    before = 0
    for text in sorted(sizes, key=lambda text: seeding.stable_digest(config.seed, text)):
        splits[text] = bisect_right(ends, before)
        before += sizes[text]
    if empty := [name for i, name in enumerate(layout.SPLITS) if config.sizes[i] and i not in splits.values()]:
        raise InputError(f"{len(splits):,} different chats are too few, the split {empty[0]} would be empty")
    return [splits[text] for text in dialogues]


def write_set(dialogues: Iterable[SetDialogue], output: str, config: SplitConfig) -> runs.FileResult:
    """Writes splits and candidates into staging, and counts the figures of Table 1.

    Args:
      dialogues: the dialogues in any order.
      output: the output folder.
      config: the sizes of the splits.

    Raises:
      InputError: see :func:`split_of`.
    """
    ordered = [lines for _, _, lines in sorted(dialogues, key=lambda dialogue: dialogue[:2])]
    result = runs.FileResult(FOLDER)
    counts = result.counts
    texts = [babi.dialogue_text(lines) for lines in ordered]
    places = split_of(texts, config)
    words: set[str] = set()
    candidates: dict[str, None] = {}
    for lines, place in zip(ordered, places, strict=True):
        counts.add("set_dialogues", split=layout.SPLITS[place])
        for line in lines:
            words.update(line.user.split())
            counts.add("set_user", int(line.user != babi.SILENCE))
            if isinstance(line, babi.Exchange):
                words.update(line.bot.split())
                counts.add("set_bot")
                candidates[line.bot] = None
    counts.add("set_vocabulary", len(words - {babi.SILENCE}))
    counts.add("set_candidates", len(candidates))
    files = {
        f"dialog-concierge-{babi.SPLITS[name]}.txt": "".join(
            text for text, at in zip(texts, places, strict=True) if at == i
        )
        for i, name in enumerate(layout.SPLITS)
    }
    files["dialog-concierge-candidates.txt"] = babi.candidates_text(sorted(candidates))
    result.written = [
        write_staged(output, f"{FOLDER}/{name}", text.encode()) for name, text in sorted(files.items()) if text
    ]
    return result


def set_statistics(counts: Counts) -> dict[str, Any]:
    """Returns the set's part of ``statistics.json``: the figures of Table 1."""
    dialogues = {name: counts.sum("set_dialogues", split=name) for name in layout.SPLITS}
    total = max(1, sum(dialogues.values()))
    user, bot = counts.sum("set_user") / total, counts.sum("set_bot") / total
    return {
        "dialogues": dialogues,
        "utterances": user + bot,
        "user_utterances": user,
        "bot_utterances": bot,
        "vocabulary": counts.sum("set_vocabulary"),
        "candidates": counts.sum("set_candidates"),
    }


# The Concierge data of Bordes et al. 2017, Table 1.
PAPER = {"utterances": 8, "user_utterances": 4, "bot_utterances": 4, "vocabulary": 8629, "candidates": 11482}
_SET = Numbers(
    "The set",
    "*",
    ("chats",),
    metrics_named(*PAPER, digits=1),
    note="As in Table 1 of Bordes et al. (2017), by chat. Silences are not counted. Candidates are operators' texts.",
)
