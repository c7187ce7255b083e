"""The task of human judgements of utterances: majorities, agreement among raters and with the metric, and the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from parapet.evaluation.ratings.judgements import (
    EXPLANATIONS,
    Answers,
    Interval,
    Judged,
    judge_ratings,
    read_hits,
    summed_up,
)
from parapet.evaluation.results import results_of
from parapet.evaluation.sets import ALL
from parapet.evaluation.task import FILES, Metrics, Result, Stage, Task, files_of, rows_bytes
from parapet.schemas.errors import InputError
from parapet.transforms.crowd.hits.judged import FAITHFUL
from parapet.transforms.crowd.report import dead_letters_note, reasons_table
from parapet.transforms.reports import text
from parapet.transforms.reports.report import Dot, Dots, Examples, Report, Section, Table, Tile, dialogue_example

EXAMPLES = 30

METRICS = ("agreement", "human_faithful", "naturalness", "fleiss_kappa", "krippendorff_alpha")
VALIDATED, INVALID = "#VALIDATED", "#INVALID"
# The groups, and their strata.
GROUPS: Mapping[str, frozenset[str]] = {
    ALL: frozenset({"faithful", "unfaithful", "invalid"}),
    VALIDATED: frozenset({"faithful", "unfaithful"}),
    "#FAITHFUL": frozenset({"faithful"}),
    "#UNFAITHFUL": frozenset({"unfaithful"}),
    INVALID: frozenset({"invalid"}),
}
# Chen, Lin and Byrne (2023), section 2.2. The paper states kappa before it mentions turns that fail validation.
PAPER = {(VALIDATED, "agreement"): "90.0%", (INVALID, "agreement"): "76%", (VALIDATED, "fleiss_kappa"): "0.93"}
LABELS = {
    ALL: "all",
    VALIDATED: "validated",
    "#FAITHFUL": "validated, metric: faithful",
    "#UNFAITHFUL": "validated, metric: unfaithful",
    INVALID: "not validated",
}
TERMS = {
    "Majority": "What more than half of the wanted workers say about an utterance; undefined if too few ratings count.",
    "Agreement": "The share of utterances with a majority of which majority and metric say the same. The interval is "
    "Wilson's, of 95 %.",
    "Judged faithful": "The share of utterances with a majority that it finds faithful.",
    "Fleiss' kappa": "Agreement of the workers beyond chance (Fleiss 1971), over utterances with all wanted ratings: 1 "
    "is full agreement, 0 is chance. Where nearly all utterances are of one kind, as in the "
    "two halves of the validated ones, it is near 0, too.",
    "Krippendorff's alpha": "The same over all utterances with two ratings or more.",
    "Naturalness": "The mean over utterances of their mean rating, 1 to 5.",
    "Validated": "The ground truth entails a reference of every act, and none with other values.",
}
OUTPUTS = {
    "responses.parquet": "a row for every answer, what became of it and why",
    "shortfall.csv": "utterances that lack ratings, for `parapet mturk topup`",
    "dead_letters.jsonl": "input that could not be read, with file, place and reason",
}


class GroupDetails(msgspec.Struct, frozen=True):
    """The part of ``details.json`` for a group.

    Attributes:
      utterances: the number of utterances to rate; ``majorities`` is the number of those with a majority.
      complete: the number of utterances with all wanted ratings, used for kappa.
      confusion: metric to majority (``none`` without one) to a number.
      intervals: 95 % intervals by metric; None if undefined.
    """

    utterances: int
    majorities: int
    complete: int
    confusion: dict[str, dict[str, int]]
    intervals: dict[str, Interval | None]


class Details(msgspec.Struct, frozen=True):
    """The content of ``details.json``."""

    raters: int
    workers: int
    assignments: int
    groups: dict[str, GroupDetails]
    answers: dict[str, int]
    reasons: dict[str, dict[str, int]]
    dead_letters: int


def agrees(judgement: Judged) -> bool | None:
    """Whether majority and metric agree on an utterance; None without a majority."""
    majority = judgement.majority()
    return None if majority is None else majority is judgement.item.faithful


def verdict(faithful: bool | None) -> str:
    """Returns the word for the verdict of metric or majority."""
    return "none" if faithful is None else "faithful" if faithful else "unfaithful"


def _values(judgement: Judged) -> dict[str, float | None]:
    """Returns the utterance's value for each metric that is a mean over utterances."""
    agreeing, faithful = (None if word is None else float(word) for word in (agrees(judgement), judgement.majority()))
    return {"agreement": agreeing, "human_faithful": faithful, "naturalness": judgement.naturalness}


def evaluate(judged: Sequence[Judged], naturalness: bool, seed: str) -> tuple[Metrics, dict[str, GroupDetails]]:
    """Computes (``metrics.json``, details) of each group that has utterances."""
    metrics: Metrics = {}
    details = {}
    for name, strata in GROUPS.items():
        group = [judgement for judgement in judged if judgement.item.stratum in strata]
        if not group:
            continue
        values, intervals, complete = summed_up(group, [_values(judgement) for judgement in group], seed)
        if not naturalness:
            del values["naturalness"], intervals["naturalness"]
        metrics[name] = {metric: values[metric] for metric in METRICS if metric in values}
        confusion: dict[str, Counter[str]] = {word: Counter() for word in ("faithful", "unfaithful")}
        for judgement in group:
            confusion[verdict(judgement.item.faithful)][verdict(judgement.majority())] += 1
        decided = sum(judgement.majority() is not None for judgement in group)
        by_word = {word: dict(counts) for word, counts in confusion.items()}
        details[name] = GroupDetails(len(group), decided, complete, by_word, intervals)
    return metrics, details


def report(judged: Sequence[Judged], metrics: Metrics, details: Details) -> Report:
    """Makes the report: agreement by group beside the paper's, verdicts of metric and people, differences, answers."""
    of_all = metrics[ALL]
    validated, invalid = metrics.get(VALIDATED, {}), metrics.get(INVALID, {})
    tiles = [
        Tile("agreement, validated", text.percent(validated.get("agreement"))),
        *([Tile("agreement, not validated", text.percent(invalid["agreement"]))] if invalid else []),
        Tile("Fleiss' kappa, validated", text.number(validated.get("fleiss_kappa"), 2)),
        Tile("judged faithful", text.percent(of_all["human_faithful"])),
    ]
    if "naturalness" in of_all:
        tiles.append(Tile("naturalness, 1 to 5", text.number(of_all["naturalness"], 2)))
    sections: list[Section] = [
        Dots(
            title="Agreement with the metric",
            note="How often the majority of the workers says what the metric says.",
            dots=[Dot(LABELS[name], values["agreement"], *(details.groups[name].intervals["agreement"] or ()))
                  for name, values in metrics.items()],
        ),
        _groups_table(metrics, details),
        Table(
            title="What the metric and the majority say",
            columns=["sample", "metric", "majority: faithful", "unfaithful", "none"],
            rows=[
                [LABELS[name], metric, *(f"{counts.get(word, 0):,}" for word in ("faithful", "unfaithful", "none"))]
                for name in (VALIDATED, INVALID) if name in details.groups
                for metric, counts in details.groups[name].confusion.items()
            ],
            text_columns=2,
            numbers_in="details.json",
        ),
        _differences(judged),
        reasons_table(details.reasons, EXPLANATIONS, "Answers that do not count"),
    ]  # fmt: skip
    missing = sum(group.utterances - group.majorities for name, group in details.groups.items() if name == ALL)
    notes = [f"{text.counted(missing, 'utterance')} without a majority: see `shortfall.csv`."] if missing else []
    return Report(
        command="evaluate",
        title="Human evaluation",
        headline=f"People and the metric agree on {text.percent(validated.get('agreement'))} of validated utterances",
        lead=f"{text.counted(len(judged), 'utterance')}, each rated by {text.counted(details.raters, 'worker')}; "
        f"{details.answers.get('used', 0):,} of {sum(details.answers.values()):,} answers count.",
        tiles=tiles,
        sections=sections,
        terms=TERMS,
        notes=[*notes, *dead_letters_note(details.dead_letters)],
        links={**FILES, **OUTPUTS},
    )


def with_interval(
    value: float | None, pair: Interval | None, form: Callable[[float | None], str] = text.percent
) -> str:
    """Formats a number with its interval below, if any."""
    return form(value) + (f"\n{form(pair[0])} to {form(pair[1])}" if pair else "")


def _groups_table(metrics: Metrics, details: Details) -> Table:
    named = [name for name in METRICS if name in metrics[ALL]]
    heads = {
        "agreement": "agreement",
        "human_faithful": "judged faithful",
        "naturalness": "naturalness",
        "fleiss_kappa": "Fleiss' kappa",
        "krippendorff_alpha": "Krippendorff's alpha",
    }

    def cell(group: str, name: str) -> str:
        form = text.percent if name in ("agreement", "human_faithful") else lambda value: text.number(value, 2)
        cell = with_interval(metrics[group][name], details.groups[group].intervals.get(name), form)
        published = PAPER.get((group, name))
        return f"{cell}\npaper: {published}" if published else cell

    return Table(
        title="Agreement",
        columns=["sample", *(heads[name] for name in named), "utterances", "with a majority"],
        rows=[
            [
                LABELS[group],
                *(cell(group, name) for name in named),
                f"{details.groups[group].utterances:,}",
                f"{details.groups[group].majorities:,}",
            ]
            for group in metrics
        ],
        note="Intervals of 95 %; beside the paper's figures (Chen, Lin and Byrne 2023, section 2.2).",
        numbers_in="details.json",
    )


def _differences(judged: Iterable[Judged]) -> Examples:
    """Lists utterances on which metric and majority differ, the clearest majorities first."""
    wrong = [judgement for judgement in judged if agrees(judgement) is False]
    wrong.sort(key=lambda judgement: (judgement.item.stratum == "invalid", -max(judgement.counts())))
    examples = []
    for judgement in wrong[:EXAMPLES]:
        item, (yes, no) = judgement.item, judgement.counts()
        lines = {"before": item.previous, "utterance": item.utterance, "metric": verdict(item.faithful)}
        lines["workers"] = f"{yes} faithful, {no} unfaithful"
        shown = [*lines.items()]
        shown[1:1] = [("has to", act.text) for act in item.acts]
        place = f"dialogue {item.dialogue_id}, turn {item.turn}"
        examples.append(dialogue_example(f"{place}, not validated" if item.stratum == "invalid" else place, shown))
    note = f"{len(examples):,} of {text.counted(len(wrong), 'utterance')}."
    return Examples(title="Where people and the metric differ", note=note, examples=examples)


class Ratings(Task[Answers], frozen=True, kw_only=True):
    """The task of ``parapet evaluate --task ratings``.

    Attributes:
      hits: the folder of ``parapet hits --task ratings``.
      responses: batch CSVs and JSON lines.
      encoding: the encoding of responses without a byte order mark.
      seed: the seed of the bootstrap.
    """

    name = "evaluate_ratings"

    hits: str
    responses: tuple[str, ...]
    encoding: str = "utf-8"
    seed: str = "0"

    def inputs(self) -> dict[str, str | None]:
        """Returns the pages, and the files of answers."""
        return {"hits": self.hits, **{f"responses/{i}": path for i, path in enumerate(self.responses, 1)}}

    def read(self) -> Answers:
        """Reads pages and answers. Raises InputError if they cannot be used."""
        return judge_ratings(read_hits(self.hits), self.responses, self.encoding)

    def score(self, inputs: Answers, stage: Stage) -> Result:
        """Computes majorities, and the agreement of workers and metric. Raises InputError if no rating can be used."""
        hits, judged = inputs.hits, inputs.judged()
        if not any(judgement.votes[FAITHFUL] for judgement in judged):
            raise InputError(f"no rating can be used: {inputs.why_none()}", ", ".join(self.responses))
        metrics, groups = evaluate(judged, hits.naturalness, self.seed)
        details = Details(groups=groups, **inputs.counts())
        files, warnings = inputs.files(judged)
        results = results_of(
            "ratings",
            metrics,
            {name: group.utterances for name, group in groups.items()},
            intervals={(name, metric): pair for name in groups for metric, pair in groups[name].intervals.items()},
        )
        return Result(
            files=files | files_of(metrics, results, details, _rows(judged), report(judged, metrics, details)),
            summary=_summary(metrics, details),
            options={"raters": hits.raters, "naturalness": hits.naturalness, "seed": self.seed},
            counts={"utterances": len(judged), "assignments": inputs.assignments, "ratings": len(inputs.ratings)},
            warnings=warnings,
        )


def _rows(judged: Sequence[Judged]) -> bytes:
    values = [_values(judgement) for judgement in judged]
    return rows_bytes(
        [("", judgement.item.dialogue_id, judgement.item.turn) for judgement in judged],
        {name: [row[name] for row in values] for name in ("agreement", "human_faithful", "naturalness")},
        {
            "stratum": [judgement.item.stratum for judgement in judged],
            "metric": [verdict(judgement.item.faithful) for judgement in judged],
            "majority": [verdict(judgement.majority()) for judgement in judged],
            "votes": ["/".join(map(str, judgement.counts())) for judgement in judged],
            "utterance": [judgement.item.utterance for judgement in judged],
        },
    )


def _summary(metrics: Metrics, details: Details) -> list[str]:
    ratings = sum(details.answers.values())
    lines = [
        (
            f"{text.counted(ratings, 'rating')} in {text.counted(details.assignments, 'assignment')} by "
            f"{text.counted(details.workers, 'worker')}, {details.answers.get('used', 0):,} of which count"
        )
    ]
    for name, values in metrics.items():
        group = details.groups[name]
        low_high = _between(group.intervals["agreement"])
        lines.append(
            f"{name}: agreement with the metric {text.percent(values['agreement'])}{low_high}, Fleiss' kappa "
            f"{text.number(values['fleiss_kappa'], 2)}, over {text.counted(group.utterances, 'utterance')}"
        )
    return lines


def _between(pair: Interval | None) -> str:
    return f" ({text.percent(pair[0])} to {text.percent(pair[1])})" if pair else ""
