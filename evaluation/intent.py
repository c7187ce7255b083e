"""Intents: predictions beside the reference's, scored by accuracy and macro-F1, by set and by intent.

The reference is JSON lines, or corpora, whose user turns have active intents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from parapet.evaluation.intent_items import Item, ItemKey, Items, read_intents, read_items, read_sets
from parapet.evaluation.lines import ALL, group_label, groups_of, with_mean
from parapet.evaluation.sets import Sources
from parapet.evaluation.task import FILES, Metrics, Result, Stage, Task, files_of
from parapet.evaluation.writing import rows_bytes
from parapet.transforms import text
from parapet.transforms.report import Dot, Dots, Report, Section, Table, Tile

METRICS = ("accuracy", "macro_f1", "macro_precision", "macro_recall")
EXAMPLES = 40
MOST_CONFUSED = 20

TERMS = {
    "Accuracy": "The share of items whose predicted intent is the reference's.",
    "Macro-F1": "The unweighted mean of F1 over the intents that the reference of the set has. An intent that is only "
    "predicted is not among them: such a prediction is wrong, and lowers the recall of the right intent.",
    "All": "All items together, whatever their set.",
    "Mean": "The unweighted mean over the sets.",
}


class IntentScores(msgspec.Struct, frozen=True):
    """The scores of an intent of the reference: ``support`` items have it, for ``predicted`` it was predicted."""

    precision: float
    recall: float
    f1: float
    support: int
    predicted: int


class Confusion(msgspec.Struct, frozen=True):
    """How many items of an intent were taken for another."""

    label: str
    predicted: str
    items: int


class GroupDetails(msgspec.Struct, frozen=True):
    """What ``details.json`` has of a group: all items, or those of a set."""

    items: int
    classes: dict[str, IntentScores]
    only_predicted: dict[str, int]
    most_confused: list[Confusion]


class Intent(Task[Items], frozen=True, kw_only=True):
    """``parapet evaluate --task intent``.

    Attributes:
      predictions: JSON lines with ``predicted``; and ``label`` if there is no reference.
      reference: JSON lines with ``label``.
      sources: instead, a corpus, or JSON lines for each of several sets; ``predictions`` may then be a folder.
      intents: a text file with an intent a line; there may be no others.
    """

    name = "evaluate_intent"

    predictions: str
    reference: str | None = None
    sources: Sources | None = None
    intents: str | None = None

    def inputs(self) -> dict[str, str | None]:
        """The files and corpora."""
        sources = self.sources.inputs() if self.sources else {"reference": self.reference}
        return {"predictions": self.predictions, **sources, "intents": self.intents}

    def read(self) -> Items:
        """The items by key."""
        intents = read_intents(self.intents) if self.intents else None
        if self.sources:
            return read_sets(self.predictions, self.sources, intents)
        return Items(read_items(self.predictions, self.reference, intents))

    def score(self, inputs: Items, stage: Stage) -> Result:
        """Accuracy and macro-F1."""
        metrics, details = evaluate(inputs.items)
        keys = sorted(inputs.items)
        items = [inputs.items[key] for key in keys]
        texts: dict[str, list[str | None]] = {
            "label": [item.label for item in items],
            "predicted": [item.predicted for item in items],
            "utterance": [item.utterance for item in items],
        }
        if inputs.unit == "frame":
            texts["service"] = [key[3] for key in keys]
        rows = rows_bytes(
            [key[:3] for key in keys], {"accuracy": [float(item.label == item.predicted) for item in items]}, texts
        )
        ignored = text.counted(inputs.without_state, "prediction")
        sets = {"sets": [name for name in details if name != ALL]} if len(details) > 1 else {}
        return Result(
            files=files_of(metrics, details, rows, report(inputs.items, metrics, details)),
            summary=_summary(metrics, details),
            options={"split": self.sources.split, "unit": inputs.unit, **sets} if self.sources else {},
            counts={"items": len(items)},
            warnings=[f"{ignored} of user turns without a state: not scored"] if inputs.without_state else (),
        )


def _summary(metrics: Metrics, details: Mapping[str, GroupDetails]) -> list[str]:
    lines = []
    for name, values in metrics.items():
        items = f" of {text.counted(details[name].items, 'item')}" if name in details else ""
        accuracy, f1 = (text.percent(values[metric], 2) for metric in ("accuracy", "macro_f1"))
        if name == ALL or len(metrics) > 1:
            lines.append(f"{name}: accuracy {accuracy}, macro-F1 {f1}{items}")
    return lines


def evaluate(items: Mapping[ItemKey, Item]) -> tuple[Metrics, dict[str, GroupDetails]]:
    """(``metrics.json``, ``details.json``) of the items."""
    metrics: Metrics = {}
    details = {}
    for name, keys in groups_of(items).items():
        counts = confusion((items[key].label, items[key].predicted) for key in keys)
        metrics[name] = overall(counts)
        details[name] = GroupDetails(len(keys), by_intent(counts), only_predicted(counts), most_confused(counts))
    return with_mean(metrics), details


def confusion(pairs: Iterable[tuple[str, str]]) -> Counter[tuple[str, str]]:
    """Counts of (intent of the reference, predicted intent)."""
    return Counter(pairs)


def by_intent(counts: Mapping[tuple[str, str], int]) -> dict[str, IntentScores]:
    """The scores of the reference's intents, sorted. Precision is 0 where an intent is never predicted."""
    support: Counter[str] = Counter()
    predicted: Counter[str] = Counter()
    for (label, prediction), n in counts.items():
        support[label] += n
        predicted[prediction] += n
    scores = {}
    for label in sorted(support):
        right, n_label, n_predicted = counts.get((label, label), 0), support[label], predicted[label]
        precision = right / n_predicted if n_predicted else 0.0
        scores[label] = IntentScores(
            precision, right / n_label, 2 * right / (n_label + n_predicted), n_label, n_predicted
        )
    return scores


def only_predicted(counts: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """Intents that no item of the reference has, with how often they were predicted.

    They are not part of the macro-average, which is over the intents of the reference. Each such prediction is wrong,
    and lowers the recall of the right intent.
    """
    known = {label for label, _ in counts}
    unknown: Counter[str] = Counter()
    for (_, prediction), n in counts.items():
        if prediction not in known:
            unknown[prediction] += n
    return dict(sorted(unknown.items()))


def overall(counts: Mapping[tuple[str, str], int]) -> dict[str, float | None]:
    """``METRICS`` of items, of which there is at least one; macro-averages are unweighted means over intents."""
    intents = by_intent(counts).values()
    right = sum(n for (label, prediction), n in counts.items() if label == prediction)
    return {
        "accuracy": right / sum(counts.values()),
        "macro_f1": sum(scores.f1 for scores in intents) / len(intents),
        "macro_precision": sum(scores.precision for scores in intents) / len(intents),
        "macro_recall": sum(scores.recall for scores in intents) / len(intents),
    }


def most_confused(counts: Mapping[tuple[str, str], int], most: int = MOST_CONFUSED) -> list[Confusion]:
    """The most frequent mistakes, by number; ties by name."""
    wrong = [Confusion(label, prediction, n) for (label, prediction), n in counts.items() if label != prediction]
    return sorted(wrong, key=lambda pair: (-pair.items, pair.label, pair.predicted))[:most]


def report(items: Mapping[ItemKey, Item], metrics: Metrics, details: Mapping[str, GroupDetails]) -> Report:
    """The report: by set, by intent, what is most confused, some wrong items."""
    everything, of_all = details[ALL], metrics[ALL]
    by_set = [
        [group_label(name), *(text.percent(values[metric], 2) for metric in METRICS),
         f"{details[name].items:,}" if name in details else ""]
        for name, values in metrics.items()
    ]  # fmt: skip
    ranked = sorted(everything.classes.items(), key=lambda pair: (pair[1].f1, pair[0]))
    intents = [
        [name, *(text.percent(share, 2) for share in (scores.precision, scores.recall, scores.f1)),
         f"{scores.support:,}", f"{scores.predicted:,}"]
        for name, scores in ranked
    ]  # fmt: skip
    unknown = [[name, f"{n:,}"] for name, n in everything.only_predicted.items()]
    confused = [[pair.label, pair.predicted, f"{pair.items:,}"] for pair in everything.most_confused]
    wrong = [key for key in sorted(items) if items[key].label != items[key].predicted]
    examples = [
        [f"{key[1]}, {key[2]}", key[0], items[key].utterance, items[key].label, items[key].predicted]
        for key in wrong[:EXAMPLES]
    ]
    columns = ["set", "accuracy", "macro-F1", "macro-precision", "macro-recall", "items"]
    dots = [Dot(group_label(name), values["macro_f1"]) for name, values in metrics.items()]
    sections: list[Section] = [Table(title="Sets", columns=columns, rows=by_set)]
    if len(metrics) > 1:
        sections.append(Dots(title="Macro-F1 by set", dots=dots))
    if confused:
        columns = ["intent", "predicted", "items"]
        sections.append(Table(title="Most frequent confusions", columns=columns, rows=confused, text_columns=2))
    columns = ["intent", "precision", "recall", "F1", "items", "predicted"]
    sections.append(
        Table(title="Intents, the lowest F1 first", columns=columns, rows=intents, numbers_in="details.json")
    )
    if unknown:
        sections.append(
            Table(title="Predicted, but not in the reference", columns=["intent", "predicted"], rows=unknown)
        )
    if examples:
        sections.append(
            Table(
                title="Wrong items",
                note=f"The first {len(examples):,} of {len(wrong):,}.",
                columns=["item", "set", "utterance", "intent", "predicted"],
                rows=examples,
                text_columns=5,
            )
        )
    return Report(
        command="evaluate",
        title="Intents",
        headline=f"{text.percent(of_all['accuracy'])} of intents are right",
        lead=f"{text.counted(everything.items, 'item')} with {text.counted(len(everything.classes), 'intent')}.",
        tiles=[
            Tile("accuracy", text.percent(of_all["accuracy"], 2)),
            Tile("macro-F1", text.percent(of_all["macro_f1"], 2)),
        ],
        sections=sections,
        terms=TERMS,
        links=FILES,
    )
