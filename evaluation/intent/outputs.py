"""Predicted intents beside the reference's, and the files of ``parapet evaluate --task intent``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from parapet.evaluation.intent import scores
from parapet.evaluation.lines import ALL, Key, Keyed, check_same, groups_of, read_keyed, with_mean
from parapet.evaluation.pages import Table, bars, page, percent
from parapet.evaluation.rows import ROWS, rows_bytes
from parapet.evaluation.writing import json_bytes
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, is_there

EXAMPLES = 40

TERMS = {
    "Accuracy": "The share of items whose predicted intent is the reference's.",
    "Macro-F1": "The unweighted mean of F1 over the classes that the reference of the set has. A class that is only "
    "predicted is no part of it: such a prediction is wrong, and lowers the recall of the class it should have been.",
    "#ALL": "All items together, whatever their set.",
    "#MEAN": "The unweighted mean over the sets.",
}


class Reference(Keyed, kw_only=True):
    """A row of the reference."""

    label: str
    utterance: str = ""


class Prediction(Keyed, kw_only=True):
    """A row of the predictions; where it has a label too, no reference is needed."""

    predicted: str
    label: str | UnsetType = UNSET
    utterance: str = ""


class Item(msgspec.Struct, frozen=True):
    """An utterance with its intent, and the predicted one."""

    label: str
    predicted: str
    utterance: str


def read_items(predictions: str, reference: str | None, classes: str | None) -> dict[Key, Item]:
    """The items by key.

    Args:
      predictions: JSON lines with ``predicted``; and ``label`` if there is no reference.
      reference: JSON lines with ``label``.
      classes: a text file with an intent a line; there may be no others.

    Raises:
      InputError: items missing, twice, or in one file alone; no label, two that differ, one that is no class.
    """
    predicted = read_keyed(predictions, Prediction)
    labels = read_keyed(reference, Reference) if reference else {}
    if reference:
        check_same(labels, predicted, predictions)
    known = read_classes(classes) if classes else None
    found = {}
    for key, (number, row) in predicted.items():
        line = f"line {number}"
        if not reference and row.label is UNSET:
            raise InputError("has no label: give it here, or give --reference", predictions, line)
        at, label = (labels[key][0], labels[key][1].label) if reference else (number, str(row.label))
        if reference and row.label not in (UNSET, label):
            raise InputError(f"the label is {row.label!r} here and {label!r} in the reference", predictions, line)
        for name, path, place in ((label, reference or predictions, at), (row.predicted, predictions, number)):
            if not name.strip():
                raise InputError("an intent is empty", path, f"line {place}")
            if known is not None and name not in known:
                raise InputError(f"{name!r} is none of the intents in {classes}", path, f"line {place}")
        said = labels[key][1].utterance if reference else ""
        found[key] = Item(label, row.predicted, said or row.utterance)
    return found


def read_classes(path: str) -> frozenset[str]:
    """The intents that there are, a line each. Raises InputError where there are none."""
    place = as_path(path)
    if not is_there(path) or not place.is_file():
        raise InputError("there is no such file", path)
    try:
        lines = place.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 at byte {error.start}", path) from None
    found = frozenset(line.strip() for line in lines if line.strip())
    if not found:
        raise InputError("there are no intents in it", path)
    return found


def evaluate(items: Mapping[Key, Item]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(``metrics.json``, ``details.json``) of the items."""
    metrics, details = {}, {}
    for name, keys in groups_of(items).items():
        counts = scores.confusion((items[key].label, items[key].predicted) for key in keys)
        metrics[name] = scores.overall(counts)
        details[name] = {
            "items": len(keys),
            "classes": msgspec.to_builtins(scores.by_class(counts)),
            "only_predicted": scores.only_predicted(counts),
            "most_confused": [
                {"label": label, "predicted": said, "items": n} for label, said, n in scores.most_confused(counts)
            ],
        }
    return with_mean(metrics), details


def files_of(items: Mapping[Key, Item], metrics: Mapping[str, Any], details: Mapping[str, Any]) -> dict[str, bytes]:
    """The files of the output folder."""
    keys = sorted(items)
    columns: dict[str, Sequence[float | None]] = {
        "accuracy": [float(items[key].label == items[key].predicted) for key in keys]
    }
    others = {name: [getattr(items[key], name) for key in keys] for name in ("label", "predicted", "utterance")}
    return {
        "metrics.json": json_bytes(metrics),
        "details.json": json_bytes(details),
        ROWS: rows_bytes(keys, columns, others),
        "report.html": report(items, metrics, details),
    }


def report(items: Mapping[Key, Item], metrics: Mapping[str, Any], details: Mapping[str, Any]) -> bytes:
    """The page: by set, by class, what is most confused, some wrong items."""
    everything, of_all = details[ALL], metrics[ALL]
    by_set = [
        [name, *(percent(of[one]) for one in scores.METRICS), f"{details[name]['items']:,}" if name in details else ""]
        for name, of in metrics.items()
    ]
    ranked = sorted(everything["classes"].items(), key=lambda one: (one[1]["f1"], one[0]))
    classes = [
        [
            name,
            *(percent(of[one]) for one in ("precision", "recall", "f1")),
            f"{of['support']:,}",
            f"{of['predicted']:,}",
        ]
        for name, of in ranked
    ]
    strange = [[name, f"{n:,}"] for name, n in everything["only_predicted"].items()]
    confused = [[one["label"], one["predicted"], f"{one['items']:,}"] for one in everything["most_confused"]]
    wrong = [key for key in sorted(items) if items[key].label != items[key].predicted]
    examples = [
        [f"{key[1]}, {key[2]}", key[0], items[key].utterance, items[key].label, items[key].predicted]
        for key in wrong[:EXAMPLES]
    ]
    columns = ["Set", "Accuracy", "Macro-F1", "Macro-precision", "Macro-recall", "Items"]
    tables = [
        Table("By set, in %", columns, by_set, "The sets"),
        Table("The most frequent mistakes", ["Intent", "Predicted", "Items"], confused, "Confused", 1),
        Table("By intent, the lowest F1 first, in %", ["Intent", "Precision", "Recall", "F1", "Items", "Predicted"],
              classes, "The intents"),
        Table("Intents that the reference does not have", ["Intent", "Predicted"], strange, "Only predicted"),
        Table(f"The first {len(examples):,} of {len(wrong):,}", ["Item", "Set", "Utterance", "Intent", "Predicted"],
              examples, "Wrong items", 4),
    ]  # fmt: skip
    f1 = {name: None if of["macro_f1"] is None else 100 * of["macro_f1"] for name, of in metrics.items()}
    return page(
        title="Intents",
        headline=f"{percent(of_all['accuracy'], 1)}% of intents are right",
        lead=f"{everything['items']:,} items of {len(everything['classes']):,} intents.",
        tiles={"accuracy, %": percent(of_all["accuracy"]), "macro-F1, %": percent(of_all["macro_f1"])},
        tables=[table for table in tables if table.rows],
        plots=[bars("Macro-F1 by set", "%", f1)] if len(metrics) > 1 else [],
        terms=TERMS,
    )
