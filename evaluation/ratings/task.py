"""The task of human judgements of utterances: majorities, agreement among raters and with the metric, and the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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
from parapet.transforms.crowd.work_times import TABLE
from parapet.transforms.report import text
from parapet.transforms.report.numbers import sections_of
from parapet.transforms.report.report import Dot, Dots, Examples, Report, Section, Table, Tile, dialogue_example

EXAMPLES = 30

METRICS = {
    "agreement": "agreement",
    "human_faithful": "judged faithful",
    "naturalness": "naturalness",
    "fleiss_kappa": "Fleiss' kappa",
    "krippendorff_alpha": "Krippendorff's alpha",
}
VALIDATED, INVALID = "#VALIDATED", "#INVALID"
# The groups, and their strata.
GROUPS: Mapping[str, frozenset[str]] = {
    ALL: frozenset({"faithful", "unfaithful", "invalid"}),
    VALIDATED: frozenset({"faithful", "unfaithful"}),
    "#FAITHFUL": frozenset({"faithful"}),
    "#UNFAITHFUL": frozenset({"unfaithful"}),
    INVALID: frozenset({"invalid"}),
}
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


Intervals = dict[tuple[str, str], Interval | None]  # by group and metric


class GroupDetails(msgspec.Struct, frozen=True):
    """The part of ``details.json`` for a group.

    Attributes:
      utterances: the number of utterances to rate; ``majorities`` is the number of those with a majority.
      complete: the number of utterances with all wanted ratings, used for kappa.
      confusion: metric to majority (``none`` without one) to a number.
    """

    utterances: int
    majorities: int
    complete: int
    confusion: dict[str, dict[str, int]]


Groups = dict[str, GroupDetails]


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


def evaluate(judged: Sequence[Judged], naturalness: bool, seed: str) -> tuple[Metrics, Intervals, Groups]:
    """Computes (``metrics.json``, 95 % intervals, details) of each group that has utterances."""
    metrics: Metrics = {}
    intervals: Intervals = {}
    details: Groups = {}
    for name, strata in GROUPS.items():
        group = [judgement for judgement in judged if judgement.item.stratum in strata]
        if not group:
            continue
        values, intervals_of_group, complete = summed_up(group, [_values(judgement) for judgement in group], seed)
        if not naturalness:
            del values["naturalness"], intervals_of_group["naturalness"]
        metrics[name] = values
        intervals |= {(name, metric): interval for metric, interval in intervals_of_group.items()}
        confusion: dict[str, Counter[str]] = {word: Counter() for word in ("faithful", "unfaithful")}
        for judgement in group:
            confusion[verdict(judgement.item.faithful)][verdict(judgement.majority())] += 1
        decided = sum(judgement.majority() is not None for judgement in group)
        details[name] = GroupDetails(len(group), decided, complete, {word: {**of} for word, of in confusion.items()})
    return metrics, intervals, details


def report(
    judged: Sequence[Judged], metrics: Metrics, intervals: Intervals, groups: Groups, counts: Mapping[str, Any]
) -> Report:
    """Makes the report: agreement by group, utterances or pairs on which people and the metric differ, answers."""
    validated, answers, unit = metrics.get(VALIDATED, {}), counts["answers"], counts["unit"]
    tiles = {"agreement": "agreement, validated", "fleiss_kappa": "Fleiss' kappa, validated"}
    sections: list[Section] = [
        Dots(
            title="Agreement with the metric",
            note="How often the majority of the workers says what the metric says.",
            dots=[
                Dot(LABELS[name], values["agreement"], *(intervals[name, "agreement"] or ()))
                for name, values in metrics.items()
            ],
        ),
        Table(
            title="Agreement",
            columns=["sample", *(METRICS[name] for name in metrics[ALL]), f"{unit}s", "with a majority"],
            rows=[
                [
                    LABELS[name],
                    *(_shown(metric, value) for metric, value in values.items()),
                    *(f"{n:,}" for n in (groups[name].utterances, groups[name].majorities)),
                ]
                for name, values in metrics.items()
            ],
            numbers_in="results.parquet",
        ),
        _differences(judged, unit),
        reasons_table(counts["reasons"], EXPLANATIONS, "Answers that do not count"),
        *sections_of(counts, TABLE),
    ]
    missing = groups[ALL].utterances - groups[ALL].majorities
    notes = [f"{text.counted(missing, unit)} without a majority: see `shortfall.csv`."] if missing else []
    return Report(
        command="evaluate",
        title="Human evaluation",
        headline=f"People and the metric agree on {text.percent(validated.get('agreement'))} of validated {unit}s",
        lead=f"{text.counted(len(judged), unit)}, each rated by {text.counted(counts['raters'], 'worker')}; "
        f"{answers.get('used', 0):,} of {sum(answers.values()):,} answers count.",
        tiles=[
            *(Tile(label, _shown(metric, validated.get(metric))) for metric, label in tiles.items()),
            Tile("judged faithful", text.percent(metrics[ALL]["human_faithful"])),
        ],
        sections=sections,
        terms=TERMS,
        notes=[*notes, *dead_letters_note(counts["dead_letters"])],
        links={**FILES, **OUTPUTS},
    )


def _shown(metric: str, value: float | None) -> str:
    return text.percent(value) if metric in ("agreement", "human_faithful") else text.number(value, 2)


def _differences(judged: Iterable[Judged], unit: str) -> Examples:
    """Lists utterances or pairs on which metric and majority differ, the clearest majorities first."""
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
    note = f"{len(examples):,} of {text.counted(len(wrong), unit)}."
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
        metrics, intervals, groups = evaluate(judged, hits.naturalness, self.seed)
        counts = inputs.counts()
        files, warnings = inputs.files(judged)
        sizes = {name: group.utterances for name, group in groups.items()}
        page = report(judged, metrics, intervals, groups, counts)
        results = results_of("ratings", metrics, sizes, intervals=intervals)
        return Result(
            files=files | files_of(metrics, results, {**counts, "groups": groups}, _rows(judged), page),
            summary=[
                f"{name}: agreement with the metric {text.percent(values['agreement'])}, Fleiss' kappa "
                f"{text.number(values['fleiss_kappa'], 2)}, over {text.counted(sizes[name], hits.unit)}"
                for name, values in metrics.items()
            ],
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
            "acts": ["; ".join(act.text for act in judgement.item.acts) for judgement in judged],
            "utterance": [judgement.item.utterance for judgement in judged],
        },
    )
