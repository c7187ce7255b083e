"""Human judgements of generated utterances: majority, agreement of the raters, and agreement with the metric."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from parapet.evaluation.bootstrap import REPLICATES, interval, means, replicated, weights
from parapet.evaluation.lines import ALL
from parapet.evaluation.ratings.agreement import (
    Interval,
    fleiss_interval,
    fleiss_kappa,
    krippendorff_alpha,
    wilson_interval,
)
from parapet.evaluation.ratings.answers import (
    EXPLANATIONS,
    Answers,
    Hits,
    Place,
    Rating,
    read_answers,
    read_hits,
    responses_bytes,
)
from parapet.evaluation.task import FILES, Metrics, Result, Stage, Task, files_of
from parapet.evaluation.writing import rows_bytes
from parapet.schemas.decisions import csv_bytes
from parapet.schemas.errors import InputError
from parapet.schemas.responses import DeadLetter
from parapet.transforms import text
from parapet.transforms.crowd.report import dead_letters_note, reasons_tables
from parapet.transforms.crowd.worker_key import load_worker_key
from parapet.transforms.hits.ratings import FAITHFUL, NATURAL, NO, YES
from parapet.transforms.hits.records import RatedItem
from parapet.transforms.hits.terms import RATINGS
from parapet.transforms.report import Dot, Dots, Example, Examples, Line, Part, Report, Section, Table, Tile

EXAMPLES = 30

VALIDATED, INVALID = "#VALIDATED", "#INVALID"
# The groups, and the strata of which they are.
GROUPS: Mapping[str, frozenset[str]] = {
    ALL: frozenset({"faithful", "unfaithful", "invalid"}),
    VALIDATED: frozenset({"faithful", "unfaithful"}),
    "#FAITHFUL": frozenset({"faithful"}),
    "#UNFAITHFUL": frozenset({"unfaithful"}),
    INVALID: frozenset({"invalid"}),
}
METRICS = ("agreement", "human_faithful", "naturalness", "fleiss_kappa", "krippendorff_alpha")
# Chen, Lin and Byrne (2023), section 2.2. Kappa is given before the turns that fail the validation are mentioned.
PAPER = {(VALIDATED, "agreement"): "90.0%", (INVALID, "agreement"): "76%", (VALIDATED, "fleiss_kappa"): "0.93"}
LABELS = {
    ALL: "all",
    VALIDATED: "validated",
    "#FAITHFUL": "validated, metric: faithful",
    "#UNFAITHFUL": "validated, metric: unfaithful",
    INVALID: "not validated",
}
TERMS = {
    "Majority": "What more than half of the wanted workers say of an utterance; there is none where too few ratings "
    "count.",
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
    "responses.parquet": "a row for every answer, with its disposition and the reason",
    "shortfall.csv": "utterances that lack ratings, for `parapet mturk topup`",
    "dead_letters.jsonl": "input that could not be read, with file, place and reason",
}


class Inputs(msgspec.Struct, frozen=True):
    """The pages and what workers answered."""

    hits: Hits
    answers: Answers


class Judged(msgspec.Struct, frozen=True):
    """What people say of an utterance.

    Attributes:
      votes: (worker hash, yes or no) of the ratings that count.
      natural: the ratings of naturalness.
      majority: whether it is faithful; None where there is no majority.
    """

    item: RatedItem
    votes: tuple[tuple[str, str], ...]
    natural: tuple[int, ...]
    majority: bool | None

    @property
    def agrees(self) -> bool | None:
        """Whether the metric says the same."""
        return None if self.majority is None else self.majority is self.item.faithful

    @property
    def counts(self) -> list[int]:
        """How many found it faithful, and how many not."""
        return [sum(vote == choice for _, vote in self.votes) for choice in (YES, NO)]

    def values(self) -> dict[str, float | None]:
        """Of each metric that is a mean over utterances, the value of this one."""
        return {
            "agreement": None if self.agrees is None else float(self.agrees),
            "human_faithful": None if self.majority is None else float(self.majority),
            "naturalness": sum(self.natural) / len(self.natural) if self.natural else None,
        }


class GroupDetails(msgspec.Struct, frozen=True):
    """What ``details.json`` has of a group.

    Attributes:
      utterances: how many were to be rated; ``majorities`` have one.
      complete: how many have all wanted ratings: those of kappa.
      confusion: metric to majority (``none`` where there is none) to a number.
      intervals: of 95 %, by metric; None where there is none.
    """

    utterances: int
    majorities: int
    complete: int
    confusion: dict[str, dict[str, int]]
    intervals: dict[str, Interval | None]


class Details(msgspec.Struct, frozen=True):
    """``details.json``."""

    raters: int
    workers: int
    assignments: int
    groups: dict[str, GroupDetails]
    answers: dict[str, int]
    reasons: dict[str, dict[str, int]]
    dead_letters: int


class Ratings(Task[Inputs], frozen=True, kw_only=True):
    """``parapet evaluate --task ratings``.

    Attributes:
      hits: the folder of ``parapet hits --task ratings``.
      responses: batch CSVs and JSON lines.
      encoding: of responses without a byte order mark.
      seed: of the bootstrap.
    """

    name = "evaluate_ratings"

    hits: str
    responses: tuple[str, ...]
    encoding: str = "utf-8"
    seed: str = "0"

    def inputs(self) -> dict[str, str | None]:
        """The pages, and the files of answers."""
        return {"hits": self.hits, **{f"responses/{i}": path for i, path in enumerate(self.responses, 1)}}

    def read(self) -> Inputs:
        """Reads pages and answers. Raises InputError where nothing can be made of them."""
        hits = read_hits(self.hits)
        return Inputs(hits, read_answers(self.responses, hits, load_worker_key(), self.encoding))

    def score(self, inputs: Inputs, stage: Stage) -> Result:
        """Majorities, and how far workers and metric agree. Raises InputError where no rating can be used."""
        hits, answers = inputs.hits, inputs.answers
        judged = judge(hits, answers.ratings)
        if not any(one.votes for one in judged):
            raise InputError(f"no rating can be used: {_why_none(answers)}", ", ".join(self.responses))
        metrics, groups = evaluate(judged, hits, self.seed)
        details = _details(hits, answers, groups)
        short = [one for one in judged if len(one.votes) < hits.raters]
        files = files_of(metrics, details, _rows(judged), report(judged, metrics, details))
        files |= {
            "responses.parquet": responses_bytes(answers.ratings),
            "shortfall.csv": _shortfall(hits, short),
            "dead_letters.jsonl": _lines(answers.dead),
        }
        warnings = [f"{text.counted(len(short), 'utterance')} short of ratings, see shortfall.csv"] if short else []
        if answers.dead:
            warnings.append(f"not used: {text.counted(len(answers.dead), 'record')}, see dead_letters.jsonl")
        return Result(
            files=files,
            summary=_summary(metrics, details),
            options={"raters": hits.raters, "naturalness": hits.naturalness, "seed": self.seed},
            counts={"utterances": len(judged), "assignments": answers.assignments, "ratings": len(answers.ratings)},
            warnings=warnings,
        )


def _why_none(answers: Answers) -> str:
    reasons = Counter(rating.reason for rating in answers.ratings if rating.reason)
    reasons += Counter(letter.reason.partition(":")[0] for letter in answers.dead)
    return ", ".join(f"{n:,} {reason}" for reason, n in reasons.most_common(3)) or "the files hold none"


def judge(hits: Hits, ratings: Iterable[Rating]) -> list[Judged]:
    """The majority on each utterance, in the order of dialogues and turns."""
    used: dict[tuple[Place, str], list[Rating]] = defaultdict(list)
    for rating in ratings:
        if rating.disposition == "used":
            used[rating.place, rating.of.question].append(rating)
    found = []
    for item in sorted(hits.items, key=lambda item: (item.dialogue_id, item.turn)):
        place = item.dialogue_id, item.turn
        of_item = used[place, FAITHFUL]
        votes = sorted((one.assignment.worker_hash or one.assignment.assignment_id, one.text) for one in of_item)
        natural = sorted(int(one.text) for one in used[place, NATURAL])
        found.append(Judged(item, tuple(votes), tuple(natural), _majority([vote for _, vote in votes], hits.raters)))
    return found


def _majority(votes: Sequence[str], raters: int) -> bool | None:
    for choice in (YES, NO):
        if 2 * votes.count(choice) > raters:
            return choice == YES
    return None


def evaluate(judged: Sequence[Judged], hits: Hits, seed: str) -> tuple[Metrics, dict[str, GroupDetails]]:
    """(``metrics.json``, details) of each group that has utterances."""
    drawn = {one.item.dialogue_id: weights(seed, one.item.dialogue_id, REPLICATES) for one in judged}
    metrics: Metrics = {}
    details = {}
    for name, strata in GROUPS.items():
        if group := [one for one in judged if one.item.stratum in strata]:
            metrics[name], details[name] = _of_group(group, hits.raters, drawn, seed)
            if not hits.naturalness:
                del metrics[name]["naturalness"]
                del details[name].intervals["naturalness"]
    return metrics, details


def _of_group(
    group: Sequence[Judged], raters: int, drawn: Mapping[str, NDArray[np.int64]], seed: str
) -> tuple[dict[str, float | None], GroupDetails]:
    complete = [one for one in group if len(one.votes) == raters and raters > 1]
    counts = [one.counts for one in complete]
    labels = [(worker, (one.item.dialogue_id, one.item.turn), vote) for one in group for worker, vote in one.votes]
    decided = [one for one in group if one.majority is not None]
    agreeing, faithful = sum(bool(one.agrees) for one in decided), sum(bool(one.majority) for one in decided)
    natural = [(one.item.dialogue_id, value) for one in group if (value := one.values()["naturalness"]) is not None]
    values: dict[str, float | None] = {
        "agreement": agreeing / len(decided) if decided else None,
        "human_faithful": faithful / len(decided) if decided else None,
        "naturalness": sum(value for _, value in natural) / len(natural) if natural else None,
        "fleiss_kappa": fleiss_kappa(counts),
        "krippendorff_alpha": krippendorff_alpha(labels),
    }
    of_complete = np.array([drawn[one.item.dialogue_id] for one in complete])
    intervals = {
        "agreement": wilson_interval(agreeing, len(decided)),
        "human_faithful": wilson_interval(faithful, len(decided)),
        "naturalness": _mean_interval(natural, seed),
        "fleiss_kappa": None if values["fleiss_kappa"] is None else fleiss_interval(counts, of_complete),
    }
    confusion: dict[str, Counter[str]] = {verdict: Counter() for verdict in ("faithful", "unfaithful")}
    for one in group:
        confusion[_word(one.item.faithful)][_word(one.majority)] += 1
    return values, GroupDetails(
        len(group), len(decided), len(complete), {name: dict(of) for name, of in confusion.items()}, intervals
    )


def _mean_interval(values: Sequence[tuple[str, float]], seed: str) -> Interval | None:
    statistic = [dialogue_id for dialogue_id, _ in values], [value for _, value in values]
    return interval(means(replicated(seed, [statistic]))[:, 0])


def _word(faithful: bool | None) -> str:
    return "none" if faithful is None else "faithful" if faithful else "unfaithful"


def _details(hits: Hits, answers: Answers, groups: dict[str, GroupDetails]) -> Details:
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    for rating in answers.ratings:
        if rating.reason:
            reasons[rating.disposition][rating.reason] += 1
    workers = {rating.assignment.worker_hash for rating in answers.ratings if rating.assignment.worker_hash}
    return Details(
        raters=hits.raters,
        workers=len(workers),
        assignments=answers.assignments,
        groups=groups,
        answers=dict(sorted(Counter(rating.disposition for rating in answers.ratings).items())),
        reasons={disposition: dict(sorted(of.items())) for disposition, of in sorted(reasons.items())},
        dead_letters=len(answers.dead),
    )


def _rows(judged: Sequence[Judged]) -> bytes:
    values = [one.values() for one in judged]
    return rows_bytes(
        [("", one.item.dialogue_id, one.item.turn) for one in judged],
        {name: [row[name] for row in values] for name in ("agreement", "human_faithful", "naturalness")},
        {
            "stratum": [one.item.stratum for one in judged],
            "metric": [_word(one.item.faithful) for one in judged],
            "majority": [_word(one.majority) for one in judged],
            "votes": ["/".join(map(str, one.counts)) for one in judged],
            "utterance": [one.item.utterance for one in judged],
        },
    )


def _lines(dead: Iterable[DeadLetter]) -> bytes:
    return b"".join(line + b"\n" for line in sorted(map(msgspec.json.encode, dead)))


def _shortfall(hits: Hits, short: Iterable[Judged]) -> bytes:
    """``shortfall.csv`` as ``parapet mturk topup`` reads it: a row for each utterance that lacks ratings."""
    fields = {
        (field.item.dialogue_id, field.item.turn): (page_id, name)
        for page_id, page in hits.pages.items()
        for name, field in page.fields.items()
        if field.question == FAITHFUL and field.item.stratum != "check"
    }
    rows = []
    for one in short:
        place = one.item.dialogue_id, one.item.turn
        page_id, field = fields[place]
        rows.append([page_id, f"{place[0]}:{place[1]}", RATINGS, field, str(len(one.votes)), str(hits.raters)])
    return csv_bytes(("service_name", "element_id", "task", "field", "have", "need"), sorted(rows))


def _summary(metrics: Metrics, details: Details) -> list[str]:
    ratings = sum(details.answers.values())
    lines = [
        f"{text.counted(ratings, 'rating')} in {text.counted(details.assignments, 'assignment')} by "
        f"{text.counted(details.workers, 'worker')}: {details.answers.get('used', 0):,} count"
    ]
    for name, values in metrics.items():
        group = details.groups[name]
        low_high = _between(group.intervals["agreement"])
        lines.append(
            f"{name}: agreement with the metric {text.percent(values['agreement'])}{low_high}, "
            f"Fleiss' kappa {text.number(values['fleiss_kappa'], 2)}, of {text.counted(group.utterances, 'utterance')}"
        )
    return lines


def _between(pair: Interval | None) -> str:
    return f" ({text.percent(pair[0])} to {text.percent(pair[1])})" if pair else ""


def report(judged: Sequence[Judged], metrics: Metrics, details: Details) -> Report:
    """The report: agreement by group beside the paper's, what metric and people say, where they differ, the answers."""
    of_all = metrics[ALL]
    validated, invalid = metrics.get(VALIDATED, {}), metrics.get(INVALID, {})
    tiles = [
        Tile("agreement, validated", text.percent(validated.get("agreement"))),
        Tile("agreement, not validated", text.percent(invalid.get("agreement"))),
        Tile("Fleiss' kappa, validated", text.number(validated.get("fleiss_kappa"), 2)),
        Tile("judged faithful", text.percent(of_all["human_faithful"])),
    ]
    if "naturalness" in of_all:
        tiles.append(Tile("naturalness, 1 to 5", text.number(of_all["naturalness"], 2)))
    sections: list[Section] = [
        _groups_table(metrics, details),
        Dots(
            title="Agreement with the metric",
            dots=[Dot(LABELS[name], values["agreement"], *(details.groups[name].intervals["agreement"] or ()))
                  for name, values in metrics.items()],
        ),
        Table(
            title="What the metric and the majority say",
            columns=["sample", "metric", "majority: faithful", "unfaithful", "none"],
            rows=[
                [LABELS[name], verdict, *(f"{of.get(word, 0):,}" for word in ("faithful", "unfaithful", "none"))]
                for name in (VALIDATED, INVALID) if name in details.groups
                for verdict, of in details.groups[name].confusion.items()
            ],
            text_columns=2,
            numbers_in="details.json",
        ),
        *_differences(judged),
        *reasons_tables(details.reasons, EXPLANATIONS, "Answers that do not count"),
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
        pair, published = details.groups[group].intervals.get(name), PAPER.get((group, name))
        small = [f"{form(pair[0])} to {form(pair[1])}"] if pair else []
        return "\n".join([form(metrics[group][name]), *small, *([f"paper: {published}"] if published else [])])

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


def _differences(judged: Iterable[Judged]) -> list[Section]:
    """The utterances of which metric and majority say different things; the most certain majorities first."""
    wrong = [one for one in judged if one.agrees is False]
    wrong.sort(key=lambda one: (one.item.stratum == "invalid", -max(one.counts), one.item.dialogue_id, one.item.turn))
    examples = []
    for one in wrong[:EXAMPLES]:
        item, (yes, no) = one.item, one.counts
        lines = {"before": item.previous, "utterance": item.utterance, "metric": _word(item.faithful)}
        lines["workers"] = f"{yes} faithful, {no} unfaithful"
        shown = [Line(label, [Part(line)]) for label, line in lines.items()]
        shown[1:1] = [Line("has to", [Part(act.text)]) for act in item.acts]
        place = f"dialogue {item.dialogue_id}, turn {item.turn}"
        examples.append(Example(f"{place}, not validated" if item.stratum == "invalid" else place, shown))
    note = f"{len(examples):,} of {text.counted(len(wrong), 'utterance')}."
    return [Examples(title="Where people and the metric differ", note=note, examples=examples)] if examples else []
