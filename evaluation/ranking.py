"""Scores answers chosen among candidates, as in the bAbI dialog tasks: accuracy by response and dialogue, API calls.

The metrics are those of Bordes et al. 2017, section 5 and Table 2. Test files are in the bAbI format.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from parapet.evaluation import sets, task
from parapet.evaluation.results import results_of
from parapet.evaluation.sets import ALL, ORIGINAL, Key
from parapet.evaluation.task import Metrics, Result, Stage, files_of, with_group
from parapet.schemas import layout, limits
from parapet.schemas.errors import InputError
from parapet.transforms.report import text
from parapet.transforms.report.report import Report, Table
from parapet.transforms.simulators.formats import Exchange, parse_candidates, parse_dialogues

API_CALL = "api_call"
FIELDS = ("cuisine", "location", "number", "price")
PER_RESPONSE, PER_DIALOGUE, RECIPROCAL_RANK = "per_response", "per_dialogue", "mean_reciprocal_rank"
NO_CANDIDATE = "not_among_candidates"
EXAMPLES = 40

HEADINGS = {PER_RESPONSE: "per response", PER_DIALOGUE: "per dialogue"}
CALLS = {API_CALL: "API call", **{f"{API_CALL}_{field}": field for field in FIELDS}}
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

# The metrics of a response. Only the last response of a dialogue has per_dialogue, and only API calls have call
# metrics.
Values = dict[str, float | None]


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
    """A response of the bot with the predicted answer, and its metrics."""

    key: Key
    user: str
    reference: str
    answer: str
    values: Values


class TestFile(msgspec.Struct, frozen=True):
    """A file of test dialogues with the answers.

    Attributes:
      name: the name of the file, without ``dialog-babi-`` and ``.txt``.
      group: the group in which it is scored: its set, or the file itself if there are no sets.
      refused: the number of refused requests; their dialogues are not scored.
    """

    name: str
    group: str
    responses: list[Response]
    refused: int = 0


class Answers(msgspec.Struct, frozen=True):
    """The test files with their answers; ``candidates`` are the possible answers, None for any."""

    files: list[TestFile]
    candidates: frozenset[str] | None = None


def list_tests(reference: Sequence[str], others: Mapping[str, str]) -> dict[str, list[str]]:
    """Lists the test files of each set: ``original`` has those of the reference.

    Args:
      reference: files.
      others: name to a file, or to a folder with files ``*tst*.txt``, or ``*.txt`` if none has such a name.

    Raises:
      InputError: a file is missing, two files of a set have the same name, a folder has no files, or there are none at
        all.
    """
    if ORIGINAL in others:
        reason = f"the name {ORIGINAL!r} is taken by the files of --reference: give this set another name"
        raise InputError(reason, "--sets")
    if not reference and not others:
        raise InputError("is required, unless --sets is given: name the test files", "--reference")
    files = {ORIGINAL: list(reference)} if reference else {}
    for name, root in others.items():
        if not layout.is_there(root):
            raise InputError("there is no such file or folder", root, "--sets")
        texts = sorted(map(str, layout.as_path(root).glob("*.txt"))) if layout.as_path(root).is_dir() else [root]
        files[name] = [path for path in texts if "tst" in layout.as_path(path).name] or texts
        if not texts:
            raise InputError("contains no test files: expected .txt", root, "--sets")
    for paths in files.values():
        for stem, n in Counter(map(stem_of, paths)).items():
            if n > 1:
                raise InputError(f"two files are called {stem!r}", "--reference")
        for path in paths:
            sets.existing_file(path)
    return files


def answer_files(files: Mapping[str, Sequence[str]], predictions: str) -> list[tuple[str, str, str]]:
    """Lists (set, test file, file of the answers) for all test files.

    Args:
      files: the result of :func:`list_tests`.
      predictions: a folder with ``SET/NAME.jsonl`` for each file, for the original also ``NAME.jsonl``; or the file of
        the answers to a single test file.

    Raises:
      InputError: files are missing.
    """
    folder, tests = layout.as_path(predictions), [(name, path) for name, paths in files.items() for path in paths]
    if folder.is_dir():
        return [(name, path, _in_folder(folder, name, path)) for name, path in tests]
    if len(tests) > 1:
        reason = f"is a file, but there are {len(tests)} test files: give a folder with FILE.jsonl for each"
        raise InputError(reason, predictions, "--predictions")
    return [(name, path, predictions) for name, path in tests]


def _in_folder(root: Path, name: str, reference: str) -> str:
    folder = root / name if name != ORIGINAL or (root / name).is_dir() else root
    layout.check_published(folder, "--predictions")
    path = folder / f"{stem_of(reference)}.jsonl"
    if not path.is_file():
        raise InputError(f"contains no answers: expected {path.name}", folder)
    return str(path)


def stem_of(path: str) -> str:
    """Returns the name of a test file without ``.txt``, which is also that of its answers."""
    return layout.as_path(path).name.removesuffix(".txt")


def read_test(
    reference: str, predictions: str, candidates: frozenset[str] | None, name: str = "", top: int = 1
) -> TestFile:
    """Reads a test file, and scores a system's answers.

    Args:
      reference: a file in the bAbI format.
      predictions: JSON lines ``{"dialogue", "turn", "answer"}``.
      candidates: the possible answers; None for any.
      name: the name of the set, if there are sets.
      top: the number of answers of a ranking that count; with more than one, all answers must be ranked.

    Raises:
      InputError: a file cannot be read; answers are missing, occur twice, belong to no response, or are no candidate;
        with ``top``, a ranking is missing.
    """
    dialogues = [dialogue.exchanges for dialogue in parse_dialogues(_bytes(reference), reference)]
    if not any(dialogues):
        raise InputError("the bot says nothing in this dialogue", reference)
    answers = _read_answers(predictions, dialogues, candidates, top)
    stem = stem_of(reference).removeprefix("dialog-babi-")
    responses: list[Response] = []
    for d, exchanges in enumerate(dialogues):
        rankings = [answers[d, t] for t in range(len(exchanges))]
        if all(rankings):  # none was refused
            # Several files of a set count dialogues from 0, but their dialogues differ.
            keys = [(name or stem, f"{stem}/{d}", t) for t in range(len(exchanges))]
            rows = zip(keys, exchanges, rankings, score_dialogue(exchanges, rankings, top), strict=True)
            responses += [Response(key, of.user, of.bot, ranking[0], values) for key, of, ranking, values in rows]
    task.check_scored(responses, predictions)
    return TestFile(stem, name or stem, responses, sum(not ranking for ranking in answers.values()))


def read_candidates(path: str) -> frozenset[str]:
    """Reads the texts of the candidates. Raises InputError with the line."""
    return frozenset(candidate.strip() for candidate in parse_candidates(_bytes(path), path))


def _bytes(path: str) -> bytes:
    return limits.read_whole(sets.existing_file(path), limits.MAX_DIALOGUE_FILE)


def _read_answers(
    path: str, dialogues: Sequence[Sequence[Exchange]], candidates: frozenset[str] | None, top: int
) -> dict[tuple[int, int], list[str]]:
    """Reads the answers to each dialogue and turn, the best first; none for a refused request."""
    answers: dict[tuple[int, int], list[str]] = {}
    for number, row in sets.read_lines(path, Answer):
        key = row.dialogue, row.turn
        turns = len(dialogues[row.dialogue]) if 0 <= row.dialogue < len(dialogues) else 0
        ranking = [answer.strip() for answer in (row.answers or [])[:top]] if top > 1 else [row.answer.strip()]
        # An empty answer is simply wrong.
        unknown = [answer for answer in ranking if answer and candidates is not None and answer not in candidates]
        reason = ""
        if not turns:
            reason = f"there is no dialogue {row.dialogue}: must be from 0 to {len(dialogues) - 1}"
        elif not 0 <= row.turn < turns:
            reason = f"dialogue {row.dialogue} has no turn {row.turn}: turns of the bot are 0 to {turns - 1}"
        elif key in answers:
            reason = f"dialogue {row.dialogue} turn {row.turn} appears twice"
        elif not ranking and not row.refused:
            reason = "has no answers: 'parapet predict MODEL --top K' writes them"
        elif unknown and not row.refused:
            reason = f"{unknown[0]!r} must be one of the candidates"
        if reason:
            raise InputError(reason, path, f"line {number}")
        answers[key] = [] if row.refused else ranking
    keys = [(d, t) for d, exchanges in enumerate(dialogues) for t in range(len(exchanges))]
    if missing := [key for key in keys if key not in answers]:
        (dialogue, turn), n = missing[0], len(missing)
        more = f"; {n:,} are missing in all" if n > 1 else ""
        raise InputError(f"there is no answer for dialogue {dialogue} turn {turn}{more}", path)
    return answers


def metrics_of(top: int) -> tuple[str, ...]:
    """Lists the metrics; for rankings, also those within the first 2, 3, ..., ``top`` answers."""
    within = [f"{metric}_top_{k}" for metric in HEADINGS for k in range(2, top + 1)]
    return (*HEADINGS, *CALLS, *within, *([RECIPROCAL_RANK] if top > 1 else []))


def score_dialogue(exchanges: Sequence[Exchange], rankings: Sequence[Sequence[str]], top: int = 1) -> list[Values]:
    """Computes the metrics of each response of a dialogue; the last response has the dialogue's."""
    ranks = [
        ranking.index(right) + 1 if right in ranking else math.inf
        for ranking, right in zip(rankings, [exchange.bot.strip() for exchange in exchanges], strict=True)
    ]
    rows: list[Values] = []
    for exchange, ranking, rank in zip(exchanges, rankings, ranks, strict=True):
        values: Values = dict.fromkeys(metrics_of(top))
        for k in range(1, top + 1):
            values[_within(PER_RESPONSE, k)] = float(rank <= k)
            if len(rows) == len(exchanges) - 1:
                values[_within(PER_DIALOGUE, k)] = float(max(ranks) <= k)
        if top > 1:
            values[RECIPROCAL_RANK] = 1 / rank
        rows.append(values | call_values(exchange.bot, ranking[0]))
    return rows


def _within(metric: str, k: int) -> str:
    return f"{metric}_top_{k}" if k > 1 else metric


def call_values(reference: str, answer: str) -> Values:
    """Scores an API call; empty if the reference is not a call.

    Fields are compared by position. An answer that is not a call has all fields wrong. A call that does not have four
    fields, as in task 6, is only scored as a whole.
    """
    expected, words = reference.split(), answer.split()
    if expected[:1] != [API_CALL]:
        return {}
    values: Values = {API_CALL: float(words == expected)}
    if len(expected) == len(FIELDS) + 1:
        for i, field in enumerate(FIELDS, 1):
            values[f"{API_CALL}_{field}"] = float(words[:1] == [API_CALL] and words[i : i + 1] == [expected[i]])
    return values


def means(responses: Sequence[Response], metrics: Sequence[str]) -> Values:
    """Averages each metric over the responses that have it; None if none has it."""
    averages: Values = {}
    for name in metrics:
        values = [value for response in responses if (value := response.values[name]) is not None]
        averages[name] = sum(values) / len(values) if values else None
    return averages


class Ranking(task.Task[Answers], frozen=True, kw_only=True):
    """The task of ``parapet evaluate --task ranking``.

    Attributes:
      references: test files in the bAbI format.
      predictions: a folder with all answers, or the file of the answers to a single test file.
      candidates: a file with the possible answers.
      sets: name to a further test file, or to a folder of them.
      top: the number of answers of a ranking that count.
    """

    name = "evaluate_ranking"

    references: tuple[str, ...]
    predictions: str
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
        """Reads the test files and the answers, those of the original first."""
        candidates = read_candidates(self.candidates) if self.candidates else None
        tests = [
            read_test(reference, answers, candidates, name if self.sets else "", self.top)
            for name, reference, answers in self._files()
        ]
        return Answers(sorted(tests, key=lambda test: (test.group != ORIGINAL, test.group, test.name)), candidates)

    def score(self, inputs: Answers, stage: Stage) -> Result:
        """Computes accuracy by set, or by file if there are no sets."""
        metrics, details = evaluate(inputs, self.top)
        responses = [response for file in inputs.files for response in file.responses]
        rows = task.rows_bytes(
            [response.key for response in responses],
            {name: [response.values[name] for response in responses] for name in metrics_of(self.top)},
            {name: [getattr(response, name) for response in responses] for name in ("user", "reference", "answer")},
        )
        sizes = Counter(response.key[0] for response in responses)
        results = results_of("ranking", metrics, {**sizes, ALL: len(responses)})
        refused = sum((Counter({file.group: file.refused}) for file in inputs.files), Counter[str]())
        headings = {_within(metric, self.top): label for metric, label in HEADINGS.items()}
        lines = [task.line(name, values, headings, 1) for name, values in metrics.items()]
        if self.top > 1:
            ranks = (task.shown(RECIPROCAL_RANK, values[RECIPROCAL_RANK]) for values in metrics.values())
            within = f" within the top {self.top}, mean reciprocal rank "
            lines = [of_group + within + rank for of_group, rank in zip(lines, ranks, strict=True)]
        return Result(
            files=files_of(metrics, results, details, rows, report(responses, metrics, details, self.top, refused)),
            summary=lines,
            options={
                **({"sets": list(dict.fromkeys(file.group for file in inputs.files))} if self.sets else {}),
                **({"top": self.top} if self.top > 1 else {}),
            },
            counts={"responses": len(responses)},
            refused=refused,
            warnings=[
                f"{name}: {text.counted(n, 'response')} cannot be answered correctly, because the candidates do not "
                "contain the right answer"
                for name, file in details["files"].items()
                if (n := file.get(NO_CANDIDATE))
            ],
        )


def evaluate(answers: Answers, top: int = 1) -> tuple[Metrics, dict[str, Any]]:
    """Computes (``metrics.json``, ``details.json``): for all responses, and for each set or file."""
    groups: dict[str, list[Response]] = {ALL: []}
    files = {}
    for file in answers.files:
        groups[ALL] += file.responses
        groups.setdefault(file.group, []).extend(file.responses)
        details: dict[str, Any] = {
            "responses": len(file.responses),
            "dialogues": len({response.key[1] for response in file.responses}),
            **means(file.responses, [*HEADINGS]),
        }
        if answers.candidates is not None:
            details[NO_CANDIDATE] = sum(
                response.reference.strip() not in answers.candidates for response in file.responses
            )
        files[file.name if file.group == file.name else f"{file.group}/{file.name}"] = details
    metrics = {name: means(responses, metrics_of(top)) for name, responses in groups.items()}
    n_candidates = None if answers.candidates is None else len(answers.candidates)
    return sets.with_mean(metrics), {"files": files, "candidates": n_candidates}


def report(
    responses: Sequence[Response], metrics: Metrics, details: Mapping[str, Any], top: int, refused: Mapping[str, int]
) -> Report:
    """Makes the report: scores by set and file, and by rank, of API calls, and frequent wrong answers."""
    files, group = details["files"], task.main_group(metrics)
    of_file = {**HEADINGS, "responses": "responses", "dialogues": "dialogues"}
    if details["candidates"] is not None:
        of_file[NO_CANDIDATE] = "not among the candidates"
    within = {_within(metric, k): f"{label}, top {k}" for k in range(1, top + 1) for metric, label in HEADINGS.items()}
    within[RECIPROCAL_RANK] = "mean reciprocal rank"
    with_calls = {sets.group_label(name): values for name, values in metrics.items() if values[API_CALL] is not None}
    rank_groups = {sets.group_label(name): values for name, values in metrics.items()} if top > 1 else {}
    right = with_group("Right responses", metrics, group, PER_RESPONSE)
    return task.set_report(
        metrics,
        HEADINGS,
        sizes={name: {} for name in metrics},
        sections=[
            task.group_table("Files", "file", files, of_file, numbers_in="details.json"),
            task.group_table("Within the first answers", "set", rank_groups, within, numbers_in="metrics.json"),
            task.group_table("API calls", "set", with_calls, CALLS, numbers_in="metrics.json"),
            wrong_answers(responses),
        ],
        tiles={**HEADINGS, API_CALL: "API calls"},
        chart=HEADINGS,
        terms=TERMS,
        refused=refused,
        title="Response ranking",
        headline=f"{right}: {text.percent(metrics[group][PER_RESPONSE])}",
        lead=f"{text.counted(len(responses), 'response')} in {text.counted(len(files), 'file')}.",
    )


def wrong_answers(responses: Sequence[Response]) -> Table:
    """Lists (reference, answer, example, frequency), the most frequent first."""
    places: dict[tuple[str, str], list[Key]] = {}
    for response in responses:
        if not response.values[PER_RESPONSE]:
            places.setdefault((response.reference, response.answer), []).append(response.key)
    ranked = sorted(places.items(), key=lambda pair: (-len(pair[1]), pair[0]))[:EXAMPLES]
    rows = [[*pair, f"{keys[0][1]}, {keys[0][2]}", f"{len(keys):,}"] for pair, keys in ranked]
    columns = ["reference", "answer", "for example", "times"]
    return Table(title="Most frequent wrong answers", columns=columns, rows=rows, text_columns=3, in_card=False)
