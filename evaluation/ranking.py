"""Scores answers chosen among candidates, as in the bAbI dialog tasks: accuracy by response and dialogue, API calls.

The metrics are those of Bordes et al. 2017, section 5 and Table 2. Test files are in the bAbI format.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from parapet.evaluation.results import results_of
from parapet.evaluation.sets import ALL, ORIGINAL, Key, existing_file, read_lines, with_mean
from parapet.evaluation.task import (
    Headings,
    Metrics,
    Result,
    Stage,
    Task,
    check_scored,
    files_of,
    group_table,
    line,
    main_group,
    rows_bytes,
    set_report,
    shown,
    with_group,
)
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, check_published, is_there
from parapet.schemas.limits import MAX_DIALOGUE_FILE, read_whole
from parapet.transforms.reports import text
from parapet.transforms.reports.report import Report, Table
from parapet.transforms.simulators.babi_format import Exchange, parse_candidates, parse_dialogues

API_CALL = "api_call"
FIELDS = ("cuisine", "location", "number", "price")
PER_RESPONSE, PER_DIALOGUE, RECIPROCAL_RANK = "per_response", "per_dialogue", "mean_reciprocal_rank"
METRICS = (PER_RESPONSE, PER_DIALOGUE, API_CALL, *(f"{API_CALL}_{field}" for field in FIELDS))
NO_CANDIDATE = "not_among_candidates"
EXAMPLES = 40

TERMS = {
    "Per response": "The share of responses that are exactly the reference's.",
    "Per dialogue": "The share of dialogues all of whose responses are right.",
    "OOV": "The same task with cuisines, locations and restaurants that training lacks.",
    "API call": "The share of API calls that are right as a whole, and of their fields, by position. Where a call was "
    "due, an answer that is not a call has all fields wrong.",
    "Top k": "With rankings: an answer is right if it is among the first k of the ranking, as for Concierge in Bordes "
    "et al. 2017, Table 2 (k = 10).",
    "Mean reciprocal rank": "With rankings: the mean of 1 / rank of the right answer; 0 where it is not there.",
}
HEADINGS = {PER_RESPONSE: "per response", PER_DIALOGUE: "per dialogue"}
CALLS = {API_CALL: "API call", **{f"{API_CALL}_{field}": field for field in FIELDS}}


# The metrics of a response. Only the last response of a dialogue has per_dialogue, and only API calls have call
# metrics.
Values = dict[str, float | None]


_TASK = re.compile(r"task([0-9]+)")
_OOV = re.compile(r"[-_]oov$", re.IGNORECASE)


class Answer(msgspec.Struct):
    """A row of the predictions; dialogues and the bot's turns in them are counted from 0.

    Attributes:
      answers: the best answers, beginning with ``answer``; missing without a ranking.
      refused: whether there is no answer, because the request for it was refused.
    """

    dialogue: int
    turn: int
    answer: str
    answers: list[str] | None = None
    refused: bool = False


class Response(msgspec.Struct, frozen=True):
    """A response of the bot, and the predicted answers.

    Attributes:
      answer: the best answer.
      ranking: the best answers, the best one first; only that one without a ranking.
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
      name: the name of the file, without ``dialog-babi-`` and ``.txt``.
      task: its number, as text, or the name without ``-OOV`` if it has none.
      oov: whether it is a test with words that training lacks.
      set: the name of its set, if there are sets.
      refused: the number of refused requests; their dialogues are not scored.
    """

    name: str
    task: str
    oov: bool
    responses: list[Response]
    set: str = ""
    refused: int = 0

    @property
    def place(self) -> str:
        """The name, prefixed by the name of its set if it has one; unique in a run."""
        return f"{self.set}/{self.name}" if self.set else self.name

    @property
    def group(self) -> str:
        """The group in which it is scored: its set, or the file itself if there are no sets."""
        return self.set or self.name


class Answers(msgspec.Struct, frozen=True):
    """The test files with their answers; ``candidates`` are the possible answers, None for any."""

    files: list[TestFile]
    candidates: frozenset[str] | None = None


def list_tests(reference: Sequence[str], sets: Mapping[str, str]) -> dict[str, list[str]]:
    """Lists the test files of each set: ``original`` has those of the reference.

    Args:
      reference: files.
      sets: name to a file, or to a folder with files ``*tst*.txt``, or ``*.txt`` if none has such a name.

    Raises:
      InputError: a file is missing, two files of a set have the same name, a folder has no files, or there are none at
        all.
    """
    if ORIGINAL in sets:
        raise InputError(
            f"the name {ORIGINAL!r} is taken by the files of --reference: give this set another name", "--sets"
        )
    files = {ORIGINAL: list(reference)} if reference else {}
    for name, root in sets.items():
        place = as_path(root)
        if not is_there(root):
            raise InputError("there is no such file or folder", root, "--sets")
        paths_here = sorted(str(path) for path in place.glob("*.txt")) if place.is_dir() else [root]
        files[name] = [path for path in paths_here if "tst" in as_path(path).name] or paths_here
        if not files[name]:
            raise InputError("contains no test files: expected .txt", root, "--sets")
    if not files:
        raise InputError("is required, unless --sets is given: name the test files", "--reference")
    for paths in files.values():
        names = [stem_of(path) for path in paths]
        for path, name in zip(paths, names, strict=True):
            if names.count(name) > 1:
                raise InputError(f"two files are called {name!r}", "--reference")
            existing_file(path)
    return files


def answer_files(files: Mapping[str, Sequence[str]], predictions: Sequence[str]) -> list[tuple[str, str, str]]:
    """Lists (set, test file, file of the answers) for all test files.

    Args:
      files: the result of :func:`list_tests`.
      predictions: a folder with ``SET/NAME.jsonl`` for each file, for the original also ``NAME.jsonl``; or, for the
        original only, a file for each of its files.

    Raises:
      InputError: files are missing, or their numbers differ.
    """
    folder = as_path(predictions[0])
    if len(predictions) == 1 and is_there(predictions[0]) and folder.is_dir():
        paths_here = []
        for name, paths in files.items():
            of_set = folder / name if name != ORIGINAL or (folder / name).is_dir() else folder
            check_published(of_set, "--predictions")
            paths_here += [(name, path, str(_in_folder(of_set, path))) for path in paths]
        return paths_here
    if list(files) != [ORIGINAL]:
        raise InputError(
            "must be one folder that contains a folder for each of --sets", predictions[0], "--predictions"
        )
    if len(predictions) != len(files[ORIGINAL]):
        reason = (
            f"has {len(predictions)} files, but --reference has {len(files[ORIGINAL])}: give one for each, or a folder"
        )
        raise InputError(reason, "--predictions")
    return [(ORIGINAL, *pair) for pair in zip(files[ORIGINAL], predictions, strict=True)]


def _in_folder(folder: Path, reference: str) -> Path:
    path = folder / f"{stem_of(reference)}.jsonl"
    if not path.is_file():
        raise InputError(f"contains no answers: expected {path.name}", folder)
    return path


def stem_of(path: str) -> str:
    """Returns the name of a test file without ``.txt``, which is also that of its answers."""
    return as_path(path).name.removesuffix(".txt")


def read_test(
    reference: str, predictions: str, candidates: frozenset[str] | None, name: str = "", top: int = 1
) -> TestFile:
    """Reads a test file with a system's answers.

    Args:
      reference: a file in the bAbI format.
      predictions: JSON lines ``{"dialogue", "turn", "answer"}``.
      candidates: the possible answers; None for any.
      name: the name of the set, if there are sets.
      top: the number of answers of a ranking that count; with more than one, all answers must be ranked.

    Raises:
      InputError: a file cannot be read; answers are missing, occur twice, belong to no response, or are no candidate;
        with ``top``, a ranking is missing, too long, or inconsistent.
    """
    dialogues = [dialogue.exchanges for dialogue in parse_dialogues(_bytes(reference), reference)]
    answers = _answers_of_lines(predictions, dialogues, top)
    if candidates is not None:
        for (dialogue, turn), ranking in sorted(answers.items()):
            for answer in ranking:
                if answer and answer not in candidates:  # an empty answer is simply wrong
                    where = f"dialogue {dialogue} turn {turn}"
                    raise InputError(f"{answer!r} must be one of the candidates", predictions, where)
    stem = stem_of(reference).removeprefix("dialog-babi-")
    numbered = _TASK.search(stem)
    refused = [dialogue for (dialogue, _), ranking in answers.items() if not ranking]
    responses = [
        Response(d, t, exchange.user, exchange.bot, answers[d, t][0], answers[d, t])
        for d, exchanges in enumerate(dialogues)
        if d not in refused
        for t, exchange in enumerate(exchanges)
    ]
    if not answers:
        raise InputError("the bot says nothing in this dialogue", reference)
    check_scored(responses, predictions)
    task = numbered[1] if numbered else _OOV.sub("", stem)
    return TestFile(stem, task, bool(_OOV.search(stem)), responses, name, len(refused))


def read_candidates(path: str) -> frozenset[str]:
    """Reads the texts of the candidates. Raises InputError with the line."""
    return frozenset(text.strip() for text in parse_candidates(_bytes(path), path))


def _bytes(path: str) -> bytes:
    return read_whole(existing_file(path), MAX_DIALOGUE_FILE)


# Dialogue and turn to its answers, the best first.
_Rankings = dict[tuple[int, int], tuple[str, ...]]


def _answers_of_lines(path: str, dialogues: Sequence[Sequence[Exchange]], top: int) -> _Rankings:
    answers: _Rankings = {}
    for number, row in read_lines(path, Answer):
        where = f"line {number}"
        if not 0 <= row.dialogue < len(dialogues):
            raise InputError(
                f"there is no dialogue {row.dialogue}: must be from 0 to {len(dialogues) - 1}", path, where
            )
        turns = len(dialogues[row.dialogue])
        if not 0 <= row.turn < turns:
            reason = f"dialogue {row.dialogue} has no turn {row.turn}: turns of the bot are 0 to {turns - 1}"
            raise InputError(reason, path, where)
        if (row.dialogue, row.turn) in answers:
            raise InputError(f"dialogue {row.dialogue} turn {row.turn} appears twice", path, where)
        ranking = _ranking(row, top, path, where) if top > 1 and not row.refused else (row.answer.strip(),)
        answers[row.dialogue, row.turn] = () if row.refused else ranking
    keys = ((d, t) for d, exchanges in enumerate(dialogues) for t in range(len(exchanges)))
    if missing := [key for key in keys if key not in answers]:
        (dialogue, turn), n = missing[0], len(missing)
        more = f"; {n:,} are missing in all" if n > 1 else ""
        raise InputError(f"there is no answer for dialogue {dialogue} turn {turn}{more}", path)
    return answers


def _ranking(row: Answer, top: int, path: str, where: str) -> tuple[str, ...]:
    """Returns the ranked answers of a row. Raises InputError if there are none or too many, or one occurs twice."""
    if not row.answers:
        raise InputError("has no answers: 'parapet predict MODEL --top K' writes them", path, where)
    ranking = tuple(answer.strip() for answer in row.answers)
    if len(ranking) > top:
        raise InputError(f"has {len(ranking)} answers, but --top is {top}", path, where)
    if ranking[0] != row.answer.strip():
        raise InputError(f"'answer' is {row.answer!r}, but the first of 'answers' is {ranking[0]!r}", path, where)
    if len(set(ranking)) < len(ranking):
        twice = next(answer for i, answer in enumerate(ranking) if answer in ranking[:i])
        raise InputError(f"{twice!r} appears twice among its answers", path, where)
    return ranking


class ScoredResponse(msgspec.Struct, frozen=True):
    """A response with its metrics."""

    key: Key
    response: Response
    values: Values


class Ranking(Task[Answers], frozen=True, kw_only=True):
    """The task of ``parapet evaluate --task ranking``.

    Attributes:
      references: test files in the bAbI format.
      predictions: the answers to each of them, or a folder with all answers.
      candidates: a file with the possible answers.
      sets: name to a further test file, or to a folder of them.
      top: the number of answers of a ranking that count.
    """

    name = "evaluate_ranking"

    references: tuple[str, ...]
    predictions: tuple[str, ...]
    candidates: str | None = None
    sets: dict[str, str] = msgspec.field(default_factory=dict)
    top: int = 1

    def inputs(self) -> dict[str, str | None]:
        """Returns the files."""
        paths: dict[str, str | None] = {"candidates": self.candidates}
        for i, (_, reference, answers) in enumerate(self._files()):
            paths |= {f"reference/{i}": reference, f"predictions/{i}": answers}
        return paths

    def _files(self) -> list[tuple[str, str, str]]:
        return answer_files(list_tests(self.references, self.sets), self.predictions)

    def read(self) -> Answers:
        """Reads the test files and the answers."""
        candidates = read_candidates(self.candidates) if self.candidates else None
        tests = [
            read_test(reference, answers, candidates, name if self.sets else "", self.top)
            for name, reference, answers in self._files()
        ]
        return Answers(tests, candidates)

    def score(self, inputs: Answers, stage: Stage) -> Result:
        """Computes accuracy by set, or by file if there are no sets."""
        metrics, scored = evaluate(inputs.files, self.top)
        details = details_of(inputs)
        rows = rows_bytes(
            [response.key for response in scored],
            {name: [response.values[name] for response in scored] for name in metrics_of(self.top)},
            {
                name: [getattr(response.response, name) for response in scored]  # texts
                for name in ("user", "reference", "answer")
            },
        )
        sizes = Counter(response.key[0] for response in scored)
        results = results_of("ranking", metrics, {**sizes, ALL: len(scored)})
        ending = f"_top_{self.top}" if self.top > 1 else ""
        headings = {f"{metric}{ending}": label for metric, label in HEADINGS.items()}
        lines = [line(name, values, headings, 1) for name, values in metrics.items()]
        if self.top > 1:
            ranks = (shown(RECIPROCAL_RANK, values[RECIPROCAL_RANK]) for values in metrics.values())
            within = f" within the top {self.top}, mean reciprocal rank "
            lines = [of_group + within + rank for of_group, rank in zip(lines, ranks, strict=True)]
        return Result(
            files=files_of(
                metrics, results, details, rows, report(scored, metrics, details, self.top, refused_of(inputs.files))
            ),
            summary=lines,
            options={
                **({"sets": list(dict.fromkeys(file.set for file in inputs.files))} if self.sets else {}),
                **({"top": self.top} if self.top > 1 else {}),
            },
            counts={"responses": len(scored)},
            refused=refused_of(inputs.files),
            warnings=[
                (
                    f"{name}: {text.counted(n, 'response')} cannot be answered correctly, because the candidates "
                    "do not contain the right answer"
                )
                for name, file in details["files"].items()
                if (n := file.get(NO_CANDIDATE))
            ],
        )


def metrics_of(top: int) -> tuple[str, ...]:
    """Lists the metrics; for rankings, also those within the first 2, 3, ..., ``top`` answers."""
    if top == 1:
        return METRICS
    within = [f"{metric}_top_{k}" for metric in (PER_RESPONSE, PER_DIALOGUE) for k in range(2, top + 1)]
    return (*METRICS, *within, RECIPROCAL_RANK)


def is_right(response: Response) -> bool:
    """Whether the answer equals the reference, ignoring blanks at the ends."""
    return response.answer.strip() == response.reference.strip()


def call_values(reference: str, answer: str) -> Values:
    """Scores an API call; empty if the reference is not a call.

    Fields are compared by position. An answer that is not a call has all fields wrong. A call that does not have four
    fields, as in task 6, is only scored as a whole.
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


def values_of(responses: Sequence[Response], top: int = 1) -> list[Values]:
    """Computes the metrics of each response of a file; the last response of a dialogue has the dialogue's."""
    worst: dict[int, float] = {}  # dialogue to the worst rank of a right answer
    rights = [response.reference.strip() for response in responses]
    ranks = [
        response.ranking.index(right) + 1 if right in response.ranking else math.inf
        for response, right in zip(responses, rights, strict=True)
    ]
    for response, rank in zip(responses, ranks, strict=True):
        worst[response.dialogue] = max(rank, worst.get(response.dialogue, 1))
    rows: list[Values] = []
    for i, (response, rank) in enumerate(zip(responses, ranks, strict=True)):
        values: Values = dict.fromkeys(metrics_of(top))
        last = i + 1 == len(responses) or responses[i + 1].dialogue != response.dialogue
        for k in range(1, top + 1):
            ending = f"_top_{k}" if k > 1 else ""
            values[f"{PER_RESPONSE}{ending}"] = float(rank <= k)
            if last:
                values[f"{PER_DIALOGUE}{ending}"] = float(worst[response.dialogue] <= k)
        if top > 1:
            values[RECIPROCAL_RANK] = 1 / rank
        rows.append(values | call_values(response.reference, response.answer))
    return rows


def means(rows: Sequence[Values], top: int = 1) -> Values:
    """Averages each metric over the rows that have it; None if no row has it."""
    averages: Values = {}
    for name in metrics_of(top):
        values = [value for row in rows if (value := row[name]) is not None]
        averages[name] = sum(values) / len(values) if values else None
    return averages


def evaluate(files: Sequence[TestFile], top: int = 1) -> tuple[Metrics, list[ScoredResponse]]:
    """Computes (``metrics.json``, rows) of test files: for all responses, and for each set or file."""
    rows: list[ScoredResponse] = []
    groups: dict[str, list[Values]] = {}
    for file in sorted(files, key=_order):
        values = values_of(file.responses, top)
        groups.setdefault(file.group, []).extend(values)
        # Both files count dialogues from 0, but their dialogues differ.
        keys = [(file.group, f"{file.name}/{response.dialogue}", response.turn) for response in file.responses]
        rows += map(ScoredResponse, keys, file.responses, values)
    metrics = {name: means(values, top) for name, values in groups.items()}
    return with_mean({ALL: means([row.values for row in rows], top), **metrics}), rows


def _order(file: TestFile) -> tuple[bool, str, str]:
    """Sorts files, those of the original first."""
    return file.set != ORIGINAL, file.set, file.name


def details_of(answers: Answers) -> dict[str, Any]:
    """Makes ``details.json``: numbers of responses and right answers by file, and responses that are no candidate."""
    files = {}
    for file in sorted(answers.files, key=_order):
        responses, allowed, values = file.responses, answers.candidates, means(values_of(file.responses))
        files[file.place] = {
            "task": file.task,
            "oov": file.oov,
            "responses": len(responses),
            "dialogues": len({response.dialogue for response in responses}),
            PER_RESPONSE: values[PER_RESPONSE],
            PER_DIALOGUE: values[PER_DIALOGUE],
        }
        if allowed is not None:
            missing = [response for response in responses if response.reference.strip() not in allowed]
            files[file.place][NO_CANDIDATE] = len(missing)
    return {"files": files, "candidates": None if answers.candidates is None else len(answers.candidates)}


def by_task(details: Mapping[str, Any]) -> list[list[str]]:
    """Makes rows like Bordes et al. 2017, Table 2: plain and OOV, per response and (per dialogue)."""
    cells: dict[str, dict[bool, list[str]]] = {}
    for file in details["files"].values():
        both = f"{text.percent(file[PER_RESPONSE])} ({text.percent(file[PER_DIALOGUE])})"
        # Several files of a task, such as dev and test, share a cell.
        cells.setdefault(file["task"], {}).setdefault(file["oov"], []).append(both)
    return [
        [f"Task {task}" if task.isdigit() else task, *(", ".join(row.get(oov, ["–"])) for oov in (False, True))]
        for task, row in sorted(cells.items(), key=lambda pair: (not pair[0].isdigit(), pair[0].zfill(9)))
    ]


def refused_of(files: Sequence[TestFile]) -> dict[str, int]:
    """Counts the refused requests by group. The dialogues that lack their answers are not scored."""
    counts: dict[str, int] = {}
    for file in files:
        counts[file.group] = counts.get(file.group, 0) + file.refused
    return {group: n for group, n in counts.items() if n}


def report(
    rows: Sequence[ScoredResponse],
    metrics: Metrics,
    details: Mapping[str, Any],
    top: int = 1,
    refused: Mapping[str, int] = {},
) -> Report:
    """Makes the report: scores by set or file, by task, and by rank, of API calls, and frequent wrong answers."""
    files, group = details["files"], main_group(metrics)
    counts = {"responses": "responses", "dialogues": "dialogues"}
    counts |= {} if details["candidates"] is None else {NO_CANDIDATE: "not among the candidates"}
    within: Headings = {
        f"{metric}{'' if k == 1 else f'_top_{k}'}": f"{label}, top {k}"
        for k in range(1, top + 1)
        for metric, label in HEADINGS.items()
    }
    tables = [
        Table(
            title="Tasks",
            note="Share of responses that are right, in brackets of dialogues, as in Bordes et al. 2017, Table 2.",
            columns=["task", "plain", "OOV"],
            rows=by_task(details),
        ),
        group_table("Files", "file", files, {**HEADINGS, **counts}, numbers_in="details.json"),
        group_table(
            "Within the first answers",
            "set",
            metrics if top > 1 else {},
            {**within, RECIPROCAL_RANK: "mean reciprocal rank"},
            numbers_in="metrics.json",
        ),
        group_table(
            "API calls",
            "set",
            {name: values for name, values in metrics.items() if values[API_CALL] is not None},
            CALLS,
            numbers_in="metrics.json",
        ),
        Table(
            title="Most frequent wrong answers",
            columns=["reference", "answer", "for example", "times"],
            rows=wrong_answers(rows),
            text_columns=3,
            in_card=False,
        ),
    ]
    return set_report(
        metrics,
        HEADINGS,
        sizes={name: {} for name in metrics},
        sections=[table for table in tables if table.rows],
        tiles={**HEADINGS, API_CALL: "API calls"},
        terms=TERMS,
        refused=refused,
        title="Response ranking",
        headline=f"{with_group('Right responses', metrics, group, PER_RESPONSE)}: "
        f"{text.percent(metrics[group][PER_RESPONSE])}",
        lead=f"{text.counted(len(rows), 'response')} in {text.counted(len(files), 'file')}.",
    )


def wrong_answers(rows: Sequence[ScoredResponse]) -> list[list[str]]:
    """Lists (reference, answer, example, frequency), the most frequent first."""
    places: dict[tuple[str, str], list[Key]] = {}
    for row in rows:
        if not is_right(row.response):
            places.setdefault((row.response.reference, row.response.answer), []).append(row.key)
    ranked = sorted(places.items(), key=lambda pair: (-len(pair[1]), pair[0]))[:EXAMPLES]
    return [
        [reference, answer, f"{keys[0][1]}, {keys[0][2]}", f"{len(keys):,}"] for (reference, answer), keys in ranked
    ]
