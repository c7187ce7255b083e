"""Test files of the bAbI dialog tasks, and the answers of a system to them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from parapet.evaluation.lines import read_lines
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, is_there
from parapet.transforms.babi_format import Exchange, parse_candidates, parse_dialogues

_TASK = re.compile(r"task([0-9]+)")
_OOV = re.compile(r"[-_]oov$", re.IGNORECASE)


class Answer(msgspec.Struct):
    """A row of the predictions; dialogues and the bot's turns in them are counted from 0."""

    dialogue: int
    turn: int
    answer: str


class Response(msgspec.Struct, frozen=True):
    """A response of the bot, and the answer given in its place."""

    dialogue: int
    turn: int
    user: str
    reference: str
    answer: str


class TestFile(msgspec.Struct, frozen=True):
    """A file of test dialogues with the answers.

    Attributes:
      name: of the set: that of the file, without ``dialog-babi-`` and ``.txt``.
      task: its number, as text, or the name without ``-OOV`` where it has none.
      oov: whether it is a test with words that training lacks.
    """

    name: str
    task: str
    oov: bool
    responses: list[Response]


def pair_up(references: Sequence[str], predictions: Sequence[str]) -> list[tuple[str, str]]:
    """The answers' file of each test file: one each in the same order, or of the same name in one folder.

    Raises:
      InputError: there are not as many, or none in the folder, or two test files have one name.
    """
    names = [_stem(path) for path in references]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two files are called {name!r}", "--reference")
    if len(predictions) == 1 and is_there(predictions[0]) and as_path(predictions[0]).is_dir():
        return [(path, str(_in_folder(as_path(predictions[0]), path))) for path in references]
    if len(predictions) != len(references):
        there = f"{len(references)} of --reference and {len(predictions)} of --predictions"
        raise InputError(f"{there}: give one for each, or a folder", "--predictions")
    return list(zip(references, predictions, strict=True))


def _in_folder(folder: Path, reference: str) -> Path:
    stem = _stem(reference)
    there = [folder / f"{stem}{suffix}" for suffix in (".jsonl", ".txt") if (folder / f"{stem}{suffix}").is_file()]
    if not there:
        raise InputError(f"no answers here: expected {stem}.jsonl or {stem}.txt", folder)
    if len(there) > 1:
        raise InputError(f"both {stem}.jsonl and {stem}.txt are here: keep one", folder)
    return there[0]


def _stem(path: str) -> str:
    return as_path(path).name.removesuffix(".txt")


def read_test(reference: str, predictions: str, candidates: frozenset[str] | None) -> TestFile:
    """A test file with a system's answers.

    Args:
      reference: in the bAbI format.
      predictions: JSON lines ``{"dialogue", "turn", "answer"}``, or the same dialogues with the bot's answers.
      candidates: what may be answered; anything where it is None.

    Raises:
      InputError: a file that cannot be read, answers that are missing, twice, or of no response, one that is no
        candidate.
    """
    dialogues = [dialogue.exchanges for dialogue in parse_dialogues(_bytes(reference), reference)]
    if predictions.endswith((".jsonl", ".json")):
        answers = _answers_of_lines(predictions, dialogues)
    else:
        answers = _answers_of_dialogues(predictions, dialogues)
    if candidates is not None:
        for (dialogue, turn), answer in sorted(answers.items()):
            if answer not in candidates:
                where = f"dialogue {dialogue} turn {turn}"
                raise InputError(f"{answer!r} is none of the candidates", predictions, where)
    name = _stem(reference).removeprefix("dialog-babi-")
    numbered = _TASK.search(name)
    responses = [
        Response(d, t, one.user, one.bot, answers[d, t])
        for d, exchanges in enumerate(dialogues)
        for t, one in enumerate(exchanges)
    ]
    if not responses:
        raise InputError("the bot says nothing in it", reference)
    return TestFile(name, numbered[1] if numbered else _OOV.sub("", name), bool(_OOV.search(name)), responses)


def read_candidates(path: str) -> frozenset[str]:
    """The candidates' texts. Raises InputError with the line."""
    return frozenset(text.strip() for text in parse_candidates(_bytes(path), path))


def _bytes(path: str) -> bytes:
    if not is_there(path) or not as_path(path).is_file():
        raise InputError("there is no such file", path)
    return as_path(path).read_bytes()


def _answers_of_lines(path: str, dialogues: Sequence[Sequence[Exchange]]) -> dict[tuple[int, int], str]:
    found: dict[tuple[int, int], str] = {}
    for number, row in read_lines(path, Answer):
        where = f"line {number}"
        if not 0 <= row.dialogue < len(dialogues):
            raise InputError(f"there is no dialogue {row.dialogue}: they are 0 to {len(dialogues) - 1}", path, where)
        turns = len(dialogues[row.dialogue])
        if not 0 <= row.turn < turns:
            reason = f"dialogue {row.dialogue} has no turn {row.turn}: the bot has 0 to {turns - 1}"
            raise InputError(reason, path, where)
        if (row.dialogue, row.turn) in found:
            raise InputError(f"dialogue {row.dialogue} turn {row.turn} stands twice", path, where)
        found[row.dialogue, row.turn] = row.answer.strip()
    missing = [key for key in _keys(dialogues) if key not in found]
    if missing:
        (dialogue, turn), n = missing[0], len(missing)
        more = f"; {n:,} are missing in all" if n > 1 else ""
        raise InputError(f"there is no answer for dialogue {dialogue} turn {turn}{more}", path)
    return found


def _keys(dialogues: Sequence[Sequence[Exchange]]) -> Iterator[tuple[int, int]]:
    return ((d, t) for d, exchanges in enumerate(dialogues) for t in range(len(exchanges)))


def _answers_of_dialogues(path: str, dialogues: Sequence[Sequence[Exchange]]) -> dict[tuple[int, int], str]:
    answered = list(parse_dialogues(_bytes(path), path))
    if len(answered) != len(dialogues):
        raise InputError(f"has {len(answered):,} dialogues, and the reference {len(dialogues):,}", path)
    found = {}
    for d, (dialogue, exchanges) in enumerate(zip(answered, dialogues, strict=True)):
        given = dialogue.exchanges
        where = f"dialogue {d} from line {dialogue.line}"
        if len(given) != len(exchanges):
            raise InputError(f"has {len(given)} turns, and the reference {len(exchanges)}", path, where)
        for t, (one, wanted) in enumerate(zip(given, exchanges, strict=True)):
            if one.user != wanted.user:
                raise InputError(f"turn {t} has another user's text than the reference", path, where)
            found[d, t] = one.bot.strip()
    return found
