"""The files of ``parapet evaluate --task ood``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from parapet.evaluation.lines import ALL, MEAN, Key
from parapet.evaluation.ood.reading import IN_DOMAIN, OOD, Turn
from parapet.evaluation.ood.scoring import METRICS, Settings, is_positive
from parapet.evaluation.pages import Table, bars, page, percent
from parapet.evaluation.rows import ROWS, rows_bytes
from parapet.evaluation.writing import json_bytes

EXAMPLES = 25

HEADINGS = {
    "accuracy": "Accuracy",
    "precision": "Precision",
    "recall": "Recall",
    "f1": "F1",
    "auroc": "AUROC",
    "aupr": "AUPR",
    "fpr95": "FPR95",
}
TERMS = {
    "Positive": "The class that is to be found; precision, recall, F1, AUPR and FPR95 are of it.",
    "AUROC": "How often a positive turn scores above a negative one, ties being half: 50 is chance.",
    "AUPR": "Average precision: the area under the precision-recall curve, without interpolation. Chance is the share "
    "of positive turns.",
    "FPR95": "The share of negative turns that are taken for positive at the highest threshold that finds 95% of the "
    "positive. Low is good.",
    "#ALL": "All turns together, whatever their set.",
    "#MEAN": "The unweighted mean over the sets, as RADDLE reports OOD F1.",
}


def files_of(
    turns: Mapping[Key, Turn], metrics: Mapping[str, Any], details: Mapping[str, Any], settings: Settings
) -> dict[str, bytes]:
    """The files of the output folder."""
    keys = sorted(turns)
    said = [is_positive(turns[key], settings) for key in keys]
    right = [
        None if one is None else float(one == (turns[key].ood == (settings.positive == OOD)))
        for key, one in zip(keys, said, strict=True)
    ]
    other = {True: settings.positive, False: IN_DOMAIN if settings.positive == OOD else OOD, None: None}
    columns: dict[str, Sequence[float | None]] = {"accuracy": right, "score": [turns[key].score for key in keys]}
    texts: dict[str, Sequence[Any]] = {
        "label": [OOD if turns[key].ood else IN_DOMAIN for key in keys],
        "predicted": [other[one] for one in said],
        "utterance": [turns[key].utterance for key in keys],
    }
    return {
        "metrics.json": json_bytes(metrics),
        "details.json": json_bytes(details),
        ROWS: rows_bytes(keys, columns, texts),
        "report.html": report(turns, metrics, details, settings),
    }


def report(
    turns: Mapping[Key, Turn], metrics: Mapping[str, Any], details: Mapping[str, Any], settings: Settings
) -> bytes:
    """The page: by set, and the turns that were furthest off."""
    shown = [name for name in METRICS if any(of[name] is not None for of in metrics.values())]
    counts = details["groups"]
    rows = [[name, *(percent(of[one]) for one in shown), *_counts(counts.get(name))] for name, of in metrics.items()]
    columns = ["Set", *(HEADINGS[name] for name in shown), "Turns", "Out-of-domain"]
    plotted = "f1" if "f1" in shown else "auroc"
    values = {name: None if of[plotted] is None else 100 * of[plotted] for name, of in metrics.items()}
    tables = [Table(f"By set, in %; positive: {settings.positive}", columns, rows, "The sets"), *worst(turns, settings)]
    return page(
        title="Out-of-domain detection",
        headline="Out-of-domain detection",
        lead=f"{counts[ALL]['turns']:,} turns, of which {counts[ALL]['ood']:,} out-of-domain. "
        f"Positive is {settings.positive}; a high score speaks for {settings.high}.",
        tiles={f"{HEADINGS[name]}, %": percent(metrics.get(MEAN, metrics[ALL])[name]) for name in shown},
        tables=[table for table in tables if table.rows],
        plots=[bars(f"{HEADINGS[plotted]} by set", "%", values)] if len(metrics) > 1 else [],
        notes=[about_threshold(details)],
        terms=TERMS,
    )


def about_threshold(details: Mapping[str, Any]) -> str:
    """Where precision, recall and F1 come from."""
    tuned = details["threshold"]
    if tuned is not None:
        return (
            f"Positive from {tuned['value']:.6g} on, the threshold of the highest F1 ({percent(tuned['f1'])}%) over "
            f"{tuned['turns']:,} turns of --dev; of equal ones the highest."
        )
    if details["predicted"]:
        return "Precision, recall and F1 are of the predicted labels."
    return "There is neither a file to tune a threshold on (--dev) nor a predicted label: areas only."


def _counts(of: Mapping[str, int] | None) -> list[str]:
    return ["", ""] if of is None else [f"{of['turns']:,}", f"{of['ood']:,}"]


def worst(turns: Mapping[Key, Turn], settings: Settings) -> list[Table]:
    """The turns of each class whose scores are furthest on the wrong side; without scores, some that are wrong."""
    found = []
    for ood in (True, False):
        of = [key for key in sorted(turns) if turns[key].ood == ood]
        wrong = [
            key for key in of if is_positive(turns[key], settings) not in (None, ood == (settings.positive == OOD))
        ]
        if of and turns[of[0]].score is not None:
            upwards = ood == (settings.high == OOD)
            of = sorted(of, key=lambda key: (turns[key].score or 0.0) * (1 if upwards else -1))
        else:
            of = wrong
        name = "Out-of-domain turns" if ood else "In-domain turns"
        rows = [
            [f"{key[1]}, {key[2]}", key[0], turns[key].utterance, "yes" if key in set(wrong) else "",
             "" if turns[key].score is None else f"{turns[key].score:.6g}"]
            for key in of[:EXAMPLES]
        ]  # fmt: skip
        caption = f"The first {len(rows):,} of {len(of):,}, the worst scores first; {len(wrong):,} are wrong"
        found.append(Table(caption, ["Turn", "Set", "Utterance", "Wrong", "Score"], rows, name, 3))
    return found
