"""Test files in the bAbI format and a system's answers to them: found by set, read, and matched."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from parapet.evaluation.lines import read_lines
from parapet.evaluation.sets import ORIGINAL
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, is_there
from parapet.schemas.limits import MAX_DIALOGUE_FILE, read_whole
from parapet.schemas.published import check_published
from parapet.transforms.babi_format import Exchange, parse_candidates, parse_dialogues

_TASK = re.compile(r"task([0-9]+)")
_OOV = re.compile(r"[-_]oov$", re.IGNORECASE)


class Answer(msgspec.Struct):
    """A row of the predictions; dialogues and the bot's turns in them are counted from 0.

    Attributes:
      answers: the best answers, the best one first, which is ``answer``; missing where they are not ranked.
    """

    dialogue: int
    turn: int
    answer: str
    answers: list[str] | None = None


class Response(msgspec.Struct, frozen=True):
    """A response of the bot, and the answers given in its place.

    Attributes:
      answer: the best answer.
      ranking: the best answers, the best one first; only that one where no ranking was asked for.
    """

    dialogue: int
    turn: int
    user: str
    reference: str
    answer: str
    ranking: tuple[str, ...] = ()


class TestFile(msgspec.Struct, frozen=True):
    """A file of test dialogues with the answers.

    Attributes:
      name: that of the file, without ``dialog-babi-`` and ``.txt``.
      task: its number, as text, or the name without ``-OOV`` where it has none.
      oov: whether it is a test with words that training lacks.
      set: the name of its set, where there are sets.
    """

    name: str
    task: str
    oov: bool
    responses: list[Response]
    set: str = ""

    @property
    def place(self) -> str:
        """The name, after that of its set if it has one: different for all files of a run."""
        return f"{self.set}/{self.name}" if self.set else self.name

    @property
    def group(self) -> str:
        """Under which it is scored: its set, or where there are no sets the file itself."""
        return self.set or self.name


class Answers(msgspec.Struct, frozen=True):
    """The test files with their answers; ``candidates`` are what may be answered, anything where it is None."""

    files: list[TestFile]
    candidates: frozenset[str] | None = None


def list_tests(reference: Sequence[str], sets: Mapping[str, str]) -> dict[str, list[str]]:
    """The test files of each set: ``original`` has those of the reference.

    Args:
      reference: files.
      sets: by name a file, or a folder: its files ``*tst*.txt``, or all ``*.txt`` where none is called so.

    Raises:
      InputError: a file is not there, two of a set have one name, a folder has none, or there is nothing at all.
    """
    if ORIGINAL in sets:
        raise InputError(f"there is a set of the name {ORIGINAL!r} already: the files of --reference", "--sets")
    files = {ORIGINAL: list(reference)} if reference else {}
    for name, root in sets.items():
        place = as_path(root)
        if not is_there(root):
            raise InputError("there is no such file or folder", root, "--sets")
        found = sorted(str(path) for path in place.glob("*.txt")) if place.is_dir() else [root]
        files[name] = [path for path in found if "tst" in as_path(path).name] or found
        if not files[name]:
            raise InputError("there are no test files here: expected .txt", root, "--sets")
    if not files:
        raise InputError("give test files, here or as --sets", "--reference")
    for paths in files.values():
        names = [stem_of(path) for path in paths]
        for path, name in zip(paths, names, strict=True):
            if names.count(name) > 1:
                raise InputError(f"two files are called {name!r}", "--reference")
            if not is_there(path) or not as_path(path).is_file():
                raise InputError("there is no such file", path)
    return files


def answer_files(files: Mapping[str, Sequence[str]], predictions: Sequence[str]) -> list[tuple[str, str, str]]:
    """(set, test file, file of the answers) of all test files.

    Args:
      files: of :func:`list_tests`.
      predictions: a folder with ``SET/NAME.jsonl`` or ``.txt`` for each file, of the original ``NAME.jsonl``, too; or,
        for the original alone, a file for each of its files.

    Raises:
      InputError: there are not as many, or none in the folder.
    """
    folder = as_path(predictions[0])
    if len(predictions) == 1 and is_there(predictions[0]) and folder.is_dir():
        found = []
        for name, paths in files.items():
            of_set = folder / name if name != ORIGINAL or (folder / name).is_dir() else folder
            check_published(of_set, "--predictions")
            found += [(name, path, str(_in_folder(of_set, path))) for path in paths]
        return found
    if list(files) != [ORIGINAL]:
        raise InputError("with --sets give one folder, with a folder for each set", predictions[0], "--predictions")
    if len(predictions) != len(files[ORIGINAL]):
        reason = f"{len(predictions)} files for {len(files[ORIGINAL])} of --reference: give one for each, or a folder"
        raise InputError(reason, "--predictions")
    return [(ORIGINAL, *pair) for pair in zip(files[ORIGINAL], predictions, strict=True)]


def _in_folder(folder: Path, reference: str) -> Path:
    stem = stem_of(reference)
    files = [folder / f"{stem}{suffix}" for suffix in (".jsonl", ".txt") if (folder / f"{stem}{suffix}").is_file()]
    if not files:
        raise InputError(f"no answers here: expected {stem}.jsonl or {stem}.txt", folder)
    if len(files) > 1:
        raise InputError(f"both {stem}.jsonl and {stem}.txt are here: keep one", folder)
    return files[0]


def stem_of(path: str) -> str:
    """The name of a test file, without ``.txt``: its answers are called so, too."""
    return as_path(path).name.removesuffix(".txt")


def read_test(
    reference: str, predictions: str, candidates: frozenset[str] | None, name: str = "", top: int = 1
) -> TestFile:
    """A test file with a system's answers.

    Args:
      reference: in the bAbI format.
      predictions: JSON lines ``{"dialogue", "turn", "answer"}``, or the same dialogues with the bot's answers.
      candidates: what may be answered; anything where it is None.
      name: of the set, where there are sets.
      top: how many answers of a ranking count; with more than one, all answers must be ranked.

    Raises:
      InputError: a file that cannot be read, answers that are missing, twice, or of no response, one that is no
        candidate; with ``top``, answers without a ranking, with a longer one, or with one that is not sound.
    """
    dialogues = [dialogue.exchanges for dialogue in parse_dialogues(_bytes(reference), reference)]
    if predictions.endswith((".jsonl", ".json")):
        answers = _answers_of_lines(predictions, dialogues, top)
    elif top > 1:
        raise InputError("dialogues have one answer a turn: --top needs JSON lines with answers", predictions)
    else:
        answers = _answers_of_dialogues(predictions, dialogues)
    if candidates is not None:
        for (dialogue, turn), ranking in sorted(answers.items()):
            for answer in ranking:
                if answer not in candidates:
                    where = f"dialogue {dialogue} turn {turn}"
                    raise InputError(f"{answer!r} is none of the candidates", predictions, where)
    stem = stem_of(reference).removeprefix("dialog-babi-")
    numbered = _TASK.search(stem)
    responses = [
        Response(d, t, exchange.user, exchange.bot, answers[d, t][0], answers[d, t])
        for d, exchanges in enumerate(dialogues)
        for t, exchange in enumerate(exchanges)
    ]
    if not responses:
        raise InputError("the bot says nothing in it", reference)
    task = numbered[1] if numbered else _OOV.sub("", stem)
    return TestFile(stem, task, bool(_OOV.search(stem)), responses, name)


def read_candidates(path: str) -> frozenset[str]:
    """The candidates' texts. Raises InputError with the line."""
    return frozenset(text.strip() for text in parse_candidates(_bytes(path), path))


def _bytes(path: str) -> bytes:
    if not is_there(path) or not as_path(path).is_file():
        raise InputError("there is no such file", path)
    return read_whole(as_path(path), MAX_DIALOGUE_FILE)


# Dialogue and turn to its answers, the best first.
_Rankings = dict[tuple[int, int], tuple[str, ...]]


def _answers_of_lines(path: str, dialogues: Sequence[Sequence[Exchange]], top: int) -> _Rankings:
    answers: _Rankings = {}
    for number, row in read_lines(path, Answer):
        where = f"line {number}"
        if not 0 <= row.dialogue < len(dialogues):
            raise InputError(f"there is no dialogue {row.dialogue}: they are 0 to {len(dialogues) - 1}", path, where)
        turns = len(dialogues[row.dialogue])
        if not 0 <= row.turn < turns:
            reason = f"dialogue {row.dialogue} has no turn {row.turn}: the bot has 0 to {turns - 1}"
            raise InputError(reason, path, where)
        if (row.dialogue, row.turn) in answers:
            raise InputError(f"dialogue {row.dialogue} turn {row.turn} appears twice", path, where)
        answers[row.dialogue, row.turn] = _ranking(row, top, path, where) if top > 1 else (row.answer.strip(),)
    keys = ((d, t) for d, exchanges in enumerate(dialogues) for t in range(len(exchanges)))
    if missing := [key for key in keys if key not in answers]:
        (dialogue, turn), n = missing[0], len(missing)
        more = f"; {n:,} are missing in all" if n > 1 else ""
        raise InputError(f"there is no answer for dialogue {dialogue} turn {turn}{more}", path)
    return answers


def _ranking(row: Answer, top: int, path: str, where: str) -> tuple[str, ...]:
    """The ranked answers of a row. Raises InputError where there are none, too many, or one twice."""
    if not row.answers:
        raise InputError("has no answers: 'parapet predict MODEL --top K' writes them", path, where)
    ranking = tuple(answer.strip() for answer in row.answers)
    if len(ranking) > top:
        raise InputError(f"has {len(ranking)} answers, and --top is {top}", path, where)
    if ranking[0] != row.answer.strip():
        raise InputError(f"its answer is {row.answer!r}, and the first of its answers {ranking[0]!r}", path, where)
    if len(set(ranking)) < len(ranking):
        twice = next(answer for i, answer in enumerate(ranking) if answer in ranking[:i])
        raise InputError(f"{twice!r} is twice among its answers", path, where)
    return ranking


def _answers_of_dialogues(path: str, dialogues: Sequence[Sequence[Exchange]]) -> _Rankings:
    answered = list(parse_dialogues(_bytes(path), path))
    if len(answered) != len(dialogues):
        raise InputError(f"has {len(answered):,} dialogues, and the reference {len(dialogues):,}", path)
    answers: _Rankings = {}
    for d, (dialogue, exchanges) in enumerate(zip(answered, dialogues, strict=True)):
        where = f"dialogue {d} from line {dialogue.line}"
        if len(dialogue.exchanges) != len(exchanges):
            raise InputError(f"has {len(dialogue.exchanges)} turns, and the reference {len(exchanges)}", path, where)
        for t, (exchange, expected) in enumerate(zip(dialogue.exchanges, exchanges, strict=True)):
            if exchange.user != expected.user:
                raise InputError(f"turn {t} has another user's text than the reference", path, where)
            answers[d, t] = (exchange.bot.strip(),)
    return answers
