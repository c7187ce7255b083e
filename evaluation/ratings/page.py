"""The page of a human evaluation: agreement beside the paper's, what metric and people say, where they differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from parapet.evaluation.ratings.answers import EXPLANATIONS
from parapet.evaluation.ratings.judgements import INVALID, METRICS, VALIDATED, Details, Interval, Judged, verdict
from parapet.evaluation.sets import ALL
from parapet.evaluation.task import FILES, Metrics
from parapet.transforms import text
from parapet.transforms.crowd.report import dead_letters_note, reasons_tables
from parapet.transforms.report import Dot, Dots, Example, Examples, Line, Part, Report, Section, Table, Tile

EXAMPLES = 30

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
                [LABELS[name], metric, *(f"{of.get(word, 0):,}" for word in ("faithful", "unfaithful", "none"))]
                for name in (VALIDATED, INVALID) if name in details.groups
                for metric, of in details.groups[name].confusion.items()
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


def with_interval(
    value: float | None, pair: Interval | None, form: Callable[[float | None], str] = text.percent
) -> str:
    """A number and, below it, its interval where there is one."""
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


def _differences(judged: Iterable[Judged]) -> list[Section]:
    """The utterances of which metric and majority say different things; the most certain majorities first."""
    wrong = [one for one in judged if one.agrees is False]
    wrong.sort(key=lambda one: (one.item.stratum == "invalid", -max(one.counts), one.item.dialogue_id, one.item.turn))
    examples = []
    for one in wrong[:EXAMPLES]:
        item, (yes, no) = one.item, one.counts
        lines = {"before": item.previous, "utterance": item.utterance, "metric": verdict(item.faithful)}
        lines["workers"] = f"{yes} faithful, {no} unfaithful"
        shown = [Line(label, [Part(line)]) for label, line in lines.items()]
        shown[1:1] = [Line("has to", [Part(act.text)]) for act in item.acts]
        place = f"dialogue {item.dialogue_id}, turn {item.turn}"
        examples.append(Example(f"{place}, not validated" if item.stratum == "invalid" else place, shown))
    note = f"{len(examples):,} of {text.counted(len(wrong), 'utterance')}."
    return [Examples(title="Where people and the metric differ", note=note, examples=examples)] if examples else []
