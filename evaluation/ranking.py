"""Answers chosen among candidates, as in the bAbI dialog tasks: accuracy per response and dialogue, API calls by field.

The metrics are those of Bordes et al. 2017, section 5 and Table 2.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from parapet.evaluation.lines import ALL, Key, group_label, read_lines, with_mean
from parapet.evaluation.task import FILES, Metrics, Result, Stage, Task, files_of
from parapet.evaluation.writing import rows_bytes
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, is_there
from parapet.transforms import text
from parapet.transforms.babi_format import Exchange, parse_candidates, parse_dialogues
from parapet.transforms.report import Report, Section, Table, Tile

API_CALL = "api_call"
FIELDS = ("cuisine", "location", "number", "price")
OF_CALLS = (API_CALL, *(f"{API_CALL}_{field}" for field in FIELDS))
METRICS = ("per_response", "per_dialogue", *OF_CALLS)
EXAMPLES = 40

TERMS = {
    "Per response": "The share of responses that are exactly the reference's.",
    "Per dialogue": "The share of dialogues all of whose responses are right.",
    "OOV": "The same task with cuisines, locations and restaurants that training lacks.",
    "API call": "The share of API calls that are right as a whole, and of their fields, by position. Where a call was "
    "due, an answer that is not a call has all fields wrong.",
    "All": "All responses together, whatever their file.",
    "Mean": "The unweighted mean over the files.",
}


# METRICS of a response. Only the last one of a dialogue has per_dialogue, and only API calls have those of calls.
Values = dict[str, float | None]


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


class FileDetails(msgspec.Struct, frozen=True, omit_defaults=True):
    """What ``details.json`` has of a test file.

    Attributes:
      not_among_candidates: how many responses no candidate could answer; None where there are no candidates.
    """

    task: str
    oov: bool
    responses: int
    dialogues: int
    not_among_candidates: int | None = None


class Details(msgspec.Struct, frozen=True):
    """``details.json``: the files, and how many candidates there are."""

    files: dict[str, FileDetails]
    candidates: int | None


class Answers(msgspec.Struct, frozen=True):
    """The test files with their answers; ``candidates`` are what may be answered, anything where it is None."""

    files: list[TestFile]
    candidates: frozenset[str] | None = None


class ScoredResponse(msgspec.Struct, frozen=True):
    """A response with its metrics."""

    key: Key
    response: Response
    values: Values


class Ranking(Task[Answers], frozen=True, kw_only=True):
    """``parapet evaluate --task ranking``.

    Attributes:
      references: test files in the bAbI format.
      predictions: the answers to each of them, or one folder with those to all.
      candidates: a file with what may be answered.
    """

    name = "evaluate_ranking"

    references: tuple[str, ...]
    predictions: tuple[str, ...]
    candidates: str | None = None

    def inputs(self) -> dict[str, str | None]:
        """The files."""
        paths: dict[str, str | None] = {"candidates": self.candidates}
        for i, (reference, answers) in enumerate(pair_up(self.references, self.predictions)):
            paths |= {f"reference/{i}": reference, f"predictions/{i}": answers}
        return paths

    def read(self) -> Answers:
        """Reads the test files and the answers."""
        candidates = read_candidates(self.candidates) if self.candidates else None
        pairs = pair_up(self.references, self.predictions)
        return Answers([read_test(reference, answers, candidates) for reference, answers in pairs], candidates)

    def score(self, inputs: Answers, stage: Stage) -> Result:
        """Accuracy, by file."""
        metrics, scored = evaluate(inputs.files)
        details = details_of(inputs)
        rows = rows_bytes(
            [one.key for one in scored],
            {name: [one.values[name] for one in scored] for name in METRICS},
            {
                "user": [one.response.user for one in scored],
                "reference": [one.response.reference for one in scored],
                "answer": [one.response.answer for one in scored],
            },
        )
        return Result(
            files=files_of(metrics, details, rows, report(scored, metrics, details)),
            summary=[
                f"{name}: per response {text.percent(values['per_response'])}, "
                f"per dialogue {text.percent(values['per_dialogue'])}"
                for name, values in metrics.items()
            ],
            options={},
            counts={"responses": len(scored)},
            warnings=[
                f"{name}: {text.counted(file.not_among_candidates, 'response')} cannot be answered: "
                "not among the candidates"
                for name, file in details.files.items()
                if file.not_among_candidates
            ],
        )


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
        reason = f"{len(predictions)} files for {len(references)} of --reference: give one for each, or a folder"
        raise InputError(reason, "--predictions")
    return list(zip(references, predictions, strict=True))


def _in_folder(folder: Path, reference: str) -> Path:
    stem = _stem(reference)
    files = [folder / f"{stem}{suffix}" for suffix in (".jsonl", ".txt") if (folder / f"{stem}{suffix}").is_file()]
    if not files:
        raise InputError(f"no answers here: expected {stem}.jsonl or {stem}.txt", folder)
    if len(files) > 1:
        raise InputError(f"both {stem}.jsonl and {stem}.txt are here: keep one", folder)
    return files[0]


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
        Response(d, t, exchange.user, exchange.bot, answers[d, t])
        for d, exchanges in enumerate(dialogues)
        for t, exchange in enumerate(exchanges)
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
    answers: dict[tuple[int, int], str] = {}
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
        answers[row.dialogue, row.turn] = row.answer.strip()
    keys = ((d, t) for d, exchanges in enumerate(dialogues) for t in range(len(exchanges)))
    if missing := [key for key in keys if key not in answers]:
        (dialogue, turn), n = missing[0], len(missing)
        more = f"; {n:,} are missing in all" if n > 1 else ""
        raise InputError(f"there is no answer for dialogue {dialogue} turn {turn}{more}", path)
    return answers


def _answers_of_dialogues(path: str, dialogues: Sequence[Sequence[Exchange]]) -> dict[tuple[int, int], str]:
    answered = list(parse_dialogues(_bytes(path), path))
    if len(answered) != len(dialogues):
        raise InputError(f"has {len(answered):,} dialogues, and the reference {len(dialogues):,}", path)
    answers = {}
    for d, (dialogue, exchanges) in enumerate(zip(answered, dialogues, strict=True)):
        where = f"dialogue {d} from line {dialogue.line}"
        if len(dialogue.exchanges) != len(exchanges):
            raise InputError(f"has {len(dialogue.exchanges)} turns, and the reference {len(exchanges)}", path, where)
        for t, (exchange, expected) in enumerate(zip(dialogue.exchanges, exchanges, strict=True)):
            if exchange.user != expected.user:
                raise InputError(f"turn {t} has another user's text than the reference", path, where)
            answers[d, t] = exchange.bot.strip()
    return answers


def is_right(response: Response) -> bool:
    """Whether the answer is exactly the reference; blanks at the ends do not count."""
    return response.answer.strip() == response.reference.strip()


def call_values(reference: str, answer: str) -> Values:
    """How much of an API call is right; empty where the reference is not a call.

    Fields are compared by position. An answer that is not a call has all of them wrong. A call with another number of
    fields than four, as in task 6, is scored only as a whole.
    """
    expected = reference.split()
    if expected[:1] != [API_CALL]:
        return {}
    words = answer.split()
    values: Values = {API_CALL: float(words == expected)}
    if len(expected) == len(FIELDS) + 1:
        is_call = words[:1] == [API_CALL]
        for i, field in enumerate(FIELDS, 1):
            values[f"{API_CALL}_{field}"] = float(is_call and len(words) > i and words[i] == expected[i])
    return values


def values_of(responses: Sequence[Response]) -> list[Values]:
    """``METRICS`` of each response of a file; the last response of a dialogue has the dialogue's."""
    wrong = {response.dialogue for response in responses if not is_right(response)}
    rows: list[Values] = []
    for i, response in enumerate(responses):
        values: Values = dict.fromkeys(METRICS)
        values["per_response"] = float(is_right(response))
        if i + 1 == len(responses) or responses[i + 1].dialogue != response.dialogue:
            values["per_dialogue"] = float(response.dialogue not in wrong)
        rows.append(values | call_values(response.reference, response.answer))
    return rows


def means(rows: Sequence[Values]) -> Values:
    """The mean of each metric over the rows that have it; None where none has."""
    averages: Values = {}
    for name in METRICS:
        values = [value for row in rows if (value := row[name]) is not None]
        averages[name] = sum(values) / len(values) if values else None
    return averages


def evaluate(files: Sequence[TestFile]) -> tuple[Metrics, list[ScoredResponse]]:
    """(``metrics.json``, the rows) of test files: all responses together, and each file."""
    rows: list[ScoredResponse] = []
    groups: Metrics = {}
    for file in sorted(files, key=lambda file: file.name):
        values = values_of(file.responses)
        groups[file.name] = means(values)
        # Dialogues of two files are never the same, though both are counted from 0.
        keys = [(file.name, f"{file.name}/{response.dialogue}", response.turn) for response in file.responses]
        rows += map(ScoredResponse, keys, file.responses, values)
    return with_mean({ALL: means([row.values for row in rows]), **groups}), rows


def details_of(answers: Answers) -> Details:
    """How much there was to answer, and how much of it no candidate could answer."""
    files = {}
    for file in sorted(answers.files, key=lambda file: file.name):
        responses, allowed = file.responses, answers.candidates
        files[file.name] = FileDetails(
            file.task,
            file.oov,
            len(responses),
            len({response.dialogue for response in responses}),
            None if allowed is None else sum(response.reference.strip() not in allowed for response in responses),
        )
    return Details(files, None if answers.candidates is None else len(answers.candidates))


def by_task(metrics: Metrics, details: Details) -> list[list[str]]:
    """Rows as of Bordes et al. 2017, Table 2: plain beside OOV, per response and (per dialogue)."""
    cells: dict[str, dict[bool, list[str]]] = {}
    for name, file in details.files.items():
        values = metrics[name]
        both = f"{text.percent(values['per_response'])} ({text.percent(values['per_dialogue'])})"
        # Several files of a task, such as dev and test, share a cell.
        cells.setdefault(file.task, {}).setdefault(file.oov, []).append(both)
    return [
        [f"Task {task}" if task.isdigit() else task, *(", ".join(row.get(oov, ["–"])) for oov in (False, True))]
        for task, row in sorted(cells.items(), key=lambda pair: (not pair[0].isdigit(), pair[0].zfill(9)))
    ]


def report(rows: Sequence[ScoredResponse], metrics: Metrics, details: Details) -> Report:
    """The report: by task, by file, API calls, the most frequent wrong answers."""
    by_file = [
        [name, *(text.percent(metrics[name][metric], 2) for metric in METRICS[:2]),
         f"{file.responses:,}", f"{file.dialogues:,}",
         *([] if file.not_among_candidates is None else [f"{file.not_among_candidates:,}"])]
        for name, file in details.files.items()
    ]  # fmt: skip
    columns = ["file", "per response", "per dialogue", "responses", "dialogues"]
    columns += [] if details.candidates is None else ["Not among the candidates"]
    calls = [
        [group_label(name), *(text.percent(values[metric], 2) for metric in OF_CALLS)]
        for name, values in metrics.items()
        if values[API_CALL] is not None
    ]
    sections: list[Section] = [
        Table(
            title="Tasks",
            note="Share of responses that are right, in brackets of dialogues, as in Bordes et al. 2017, Table 2.",
            columns=["task", "plain", "OOV"],
            rows=by_task(metrics, details),
        ),
        Table(title="Files", columns=columns, rows=by_file),
    ]
    if calls:
        columns = ["file", "API call", *FIELDS]
        sections.append(Table(title="API calls", columns=columns, rows=calls))
    if wrong := wrong_answers(rows):
        columns = ["reference", "answer", "for example", "times"]
        title = "Most frequent wrong answers"
        sections.append(Table(title=title, columns=columns, rows=wrong, text_columns=3, in_card=False))
    of_all = metrics[ALL]
    return Report(
        command="evaluate",
        title="Response ranking",
        headline=f"{text.percent(of_all['per_response'])} of responses are right",
        lead=f"{text.counted(len(rows), 'response')} in {text.counted(len(details.files), 'file')}.",
        tiles=[
            Tile("per response", text.percent(of_all["per_response"], 2)),
            Tile("per dialogue", text.percent(of_all["per_dialogue"], 2)),
            Tile("API calls", text.percent(of_all[API_CALL], 2)),
        ],
        sections=sections,
        terms=TERMS,
        links=FILES,
    )


def wrong_answers(rows: Sequence[ScoredResponse]) -> list[list[str]]:
    """(reference, answer, a place, how often), the most frequent first."""
    places: dict[tuple[str, str], list[Key]] = {}
    for row in rows:
        if not is_right(row.response):
            places.setdefault((row.response.reference, row.response.answer), []).append(row.key)
    ranked = sorted(places.items(), key=lambda pair: (-len(pair[1]), pair[0]))[:EXAMPLES]
    return [
        [reference, answer, f"{keys[0][1]}, {keys[0][2]}", f"{len(keys):,}"] for (reference, answer), keys in ranked
    ]
