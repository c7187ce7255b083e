"""Answers chosen among candidates, as in the bAbI dialog tasks: accuracy per response and dialogue, API calls by field.

The metrics are those of Bordes et al. 2017, section 5 and Table 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from parapet.evaluation.lines import ALL, MEAN, ORIGINAL, Key, group_label, with_mean
from parapet.evaluation.ranking_files import (
    Answers,
    Response,
    TestFile,
    answer_files,
    list_tests,
    read_candidates,
    read_test,
)
from parapet.evaluation.task import FILES, Metrics, Result, Stage, Task, files_of
from parapet.evaluation.writing import rows_bytes
from parapet.transforms import text
from parapet.transforms.report import Report, Section, Table, Tile

API_CALL = "api_call"
FIELDS = ("cuisine", "location", "number", "price")
OF_CALLS = (API_CALL, *(f"{API_CALL}_{field}" for field in FIELDS))
PER_RESPONSE, PER_DIALOGUE, RECIPROCAL_RANK = "per_response", "per_dialogue", "mean_reciprocal_rank"
METRICS = (PER_RESPONSE, PER_DIALOGUE, *OF_CALLS)
EXAMPLES = 40

TERMS = {
    "Per response": "The share of responses that are exactly the reference's.",
    "Per dialogue": "The share of dialogues all of whose responses are right.",
    "OOV": "The same task with cuisines, locations and restaurants that training lacks.",
    "API call": "The share of API calls that are right as a whole, and of their fields, by position. Where a call was "
    "due, an answer that is not a call has all fields wrong.",
    "All": "All responses together, whatever their set and file.",
    "Mean": "The unweighted mean over the sets, or where there are none over the files.",
}

RANKING_TERMS = {
    "Top k": "An answer is right if it is among the first k of the ranking.",
    "Mean reciprocal rank": "The mean of 1 / rank of the right answer, 0 where it is not in the ranking.",
}


# The metrics of a response. Only the last one of a dialogue has per_dialogue, and only API calls have those of calls.
Values = dict[str, float | None]


class FileDetails(msgspec.Struct, frozen=True, omit_defaults=True):
    """What ``details.json`` has of a test file.

    Attributes:
      not_among_candidates: how many responses no candidate could answer; None where there are no candidates.
    """

    task: str
    oov: bool
    responses: int
    dialogues: int
    per_response: float | None
    per_dialogue: float | None
    not_among_candidates: int | None = None


class Details(msgspec.Struct, frozen=True):
    """``details.json``: the files, and how many candidates there are."""

    files: dict[str, FileDetails]
    candidates: int | None


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
      sets: by name further test files, or folders of them.
      top: how many answers of a ranking count.
    """

    name = "evaluate_ranking"

    references: tuple[str, ...]
    predictions: tuple[str, ...]
    candidates: str | None = None
    sets: dict[str, str] = msgspec.field(default_factory=dict)
    top: int = 1

    def inputs(self) -> dict[str, str | None]:
        """The files."""
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
        """Accuracy, by set, or where there are none by file."""
        metrics, scored = evaluate(inputs.files, self.top)
        details = details_of(inputs)
        rows = rows_bytes(
            [one.key for one in scored],
            {name: [one.values[name] for one in scored] for name in metrics_of(self.top)},
            {
                "user": [one.response.user for one in scored],
                "reference": [one.response.reference for one in scored],
                "answer": [one.response.answer for one in scored],
            },
        )
        return Result(
            files=files_of(metrics, details, rows, report(scored, metrics, details, self.top)),
            summary=[_summary(name, values, self.top) for name, values in metrics.items()],
            options={
                **({"sets": list(dict.fromkeys(file.set for file in inputs.files))} if self.sets else {}),
                **({"top": self.top} if self.top > 1 else {}),
            },
            counts={"responses": len(scored)},
            warnings=[
                f"{name}: {text.counted(file.not_among_candidates, 'response')} cannot be answered: "
                "not among the candidates"
                for name, file in details.files.items()
                if file.not_among_candidates
            ],
        )


def metrics_of(top: int) -> tuple[str, ...]:
    """The metrics, of rankings with up to ``top`` answers also those within the first 2, 3, ... of them."""
    if top == 1:
        return METRICS
    within = [f"{metric}_top_{k}" for metric in (PER_RESPONSE, PER_DIALOGUE) for k in range(2, top + 1)]
    return (*METRICS, *within, RECIPROCAL_RANK)


def _summary(name: str, values: Values, top: int) -> str:
    """A line about a group; of rankings it has what is right among the first ``top``."""
    ending = f"_top_{top}" if top > 1 else ""
    within = f" within the top {top}" if top > 1 else ""
    response, dialogue = (text.percent(values[f"{metric}{ending}"]) for metric in (PER_RESPONSE, PER_DIALOGUE))
    rank = f", mean reciprocal rank {text.number(values[RECIPROCAL_RANK], 3)}" if top > 1 else ""
    return f"{name}: per response {response}, per dialogue {dialogue}{within}{rank}"


def is_right(response: Response) -> bool:
    """Whether the answer is exactly the reference; blanks at the ends do not count."""
    return response.answer.strip() == response.reference.strip()


def rank_of(response: Response) -> int | None:
    """The place of the reference in the ranking, from 1; None where it is not there."""
    right = response.reference.strip()
    return response.ranking.index(right) + 1 if right in response.ranking else None


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


def values_of(responses: Sequence[Response], top: int = 1) -> list[Values]:
    """The metrics of each response of a file; the last response of a dialogue has the dialogue's."""
    worst: dict[int, float] = {}  # rank of the right answer in a dialogue
    ranks = [1 if is_right(response) else (rank_of(response) or math.inf) for response in responses]
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
    """The mean of each metric over the rows that have it; None where none has."""
    averages: Values = {}
    for name in metrics_of(top):
        values = [value for row in rows if (value := row[name]) is not None]
        averages[name] = sum(values) / len(values) if values else None
    return averages


def evaluate(files: Sequence[TestFile], top: int = 1) -> tuple[Metrics, list[ScoredResponse]]:
    """(``metrics.json``, the rows) of test files: all responses together, and those of each set, or of each file."""
    rows: list[ScoredResponse] = []
    groups: dict[str, list[Values]] = {}
    for file in sorted(files, key=_order):
        values = values_of(file.responses, top)
        groups.setdefault(file.group, []).extend(values)
        # Dialogues of two files are never the same, though both are counted from 0.
        keys = [(file.group, f"{file.name}/{response.dialogue}", response.turn) for response in file.responses]
        rows += map(ScoredResponse, keys, file.responses, values)
    metrics = {name: means(values, top) for name, values in groups.items()}
    return with_mean({ALL: means([row.values for row in rows], top), **metrics}), rows


def _order(file: TestFile) -> tuple[bool, str, str]:
    """The original first."""
    return file.set != ORIGINAL, file.set, file.name


def details_of(answers: Answers) -> Details:
    """How much there was to answer in each file, how much of it is right, and how much no candidate could answer."""
    files = {}
    for file in sorted(answers.files, key=_order):
        responses, allowed, values = file.responses, answers.candidates, means(values_of(file.responses))
        files[file.place] = FileDetails(
            file.task,
            file.oov,
            len(responses),
            len({response.dialogue for response in responses}),
            values["per_response"],
            values["per_dialogue"],
            None if allowed is None else sum(response.reference.strip() not in allowed for response in responses),
        )
    return Details(files, None if answers.candidates is None else len(answers.candidates))


def by_task(details: Details) -> list[list[str]]:
    """Rows as of Bordes et al. 2017, Table 2: plain beside OOV, per response and (per dialogue)."""
    cells: dict[str, dict[bool, list[str]]] = {}
    for file in details.files.values():
        both = f"{text.percent(file.per_response)} ({text.percent(file.per_dialogue)})"
        # Several files of a task, such as dev and test, share a cell.
        cells.setdefault(file.task, {}).setdefault(file.oov, []).append(both)
    return [
        [f"Task {task}" if task.isdigit() else task, *(", ".join(row.get(oov, ["–"])) for oov in (False, True))]
        for task, row in sorted(cells.items(), key=lambda pair: (not pair[0].isdigit(), pair[0].zfill(9)))
    ]


def report(rows: Sequence[ScoredResponse], metrics: Metrics, details: Details, top: int = 1) -> Report:
    """The report: by task, by file, within the top 1, 2, ..., API calls, the most frequent wrong answers."""
    by_file = [
        [name, text.percent(file.per_response, 2), text.percent(file.per_dialogue, 2),
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
            rows=by_task(details),
        ),
        Table(title="Files", columns=columns, rows=by_file),
    ]
    if not metrics.keys() - {ALL, MEAN} <= details.files.keys():
        by_set = [
            [group_label(name), *(text.percent(values[metric], 2) for metric in METRICS[:2])]
            for name, values in metrics.items()
        ]
        columns = ["set", "per response", "per dialogue"]
        sections.insert(0, Table(title="Sets", columns=columns, rows=by_set, numbers_in="metrics.json"))
    if top > 1:
        sections.append(_within(metrics, top))
    if calls:
        columns = ["set", "API call", *FIELDS]
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
        terms=TERMS | RANKING_TERMS if top > 1 else TERMS,
        links=FILES,
    )


def _within(metrics: Metrics, top: int) -> Table:
    """What is right within the first answers, by group."""
    endings = ["", *(f"_top_{k}" for k in range(2, top + 1))]
    return Table(
        title="Within the first answers",
        note="Share of responses whose right answer is among the first k of the ranking, in brackets of dialogues all "
        "of whose right answers are, as for Concierge in Bordes et al. 2017, Table 2 (k = 10).",
        columns=["set", *(f"top {k}" for k in range(1, top + 1)), "mean reciprocal rank"],
        rows=[
            [
                group_label(name),
                *(
                    f"{text.percent(values[PER_RESPONSE + e])} ({text.percent(values[PER_DIALOGUE + e])})"
                    for e in endings
                ),
                text.number(values[RECIPROCAL_RANK], 3),
            ]
            for name, values in metrics.items()
        ],
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
