"""Scores predicted intents by accuracy and macro-F1, by set and by intent; and the labelled items of tasks.

The reference is JSON lines, or corpora, whose user turns have active intents. Items and their predictions, which the
task ood scores, too, are matched by key.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from parapet.evaluation import sets, task
from parapet.evaluation.dst.model import originals_of
from parapet.evaluation.results import results_of
from parapet.evaluation.sets import ALL, ORIGINAL, Key, Keyed, KeyedRow, Placed, named
from parapet.evaluation.task import Metrics, Result, Stage, with_group
from parapet.schemas.dialogue import Dialogue, Frame
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SINGLE, read_root
from parapet.schemas.service import Service
from parapet.transforms.perturb.corpora import services_in_turns
from parapet.transforms.report import text
from parapet.transforms.report.report import Report, Table

HEADINGS = {
    "accuracy": "accuracy",
    "macro_f1": "macro-F1",
    "macro_precision": "macro-precision",
    "macro_recall": "macro-recall",
}
SHORT = {"accuracy": "accuracy", "macro_f1": "macro-F1"}  # for the top of the page, and the terminal
OF_INTENTS = {"precision": "precision", "recall": "recall", "f1": "F1", "support": "items", "predicted": "predicted"}
EXAMPLES = 40
MOST_CONFUSED = 20
NO_LABEL = "has no label: add it to the row, or give --reference"
NONE = "NONE"  # the active intent of a turn without an intent

TERMS = {
    "Accuracy": "The share of items whose predicted intent is the reference's.",
    "Macro-F1": "The unweighted mean of F1 over the intents that the reference of the set has. An intent that is only "
    "predicted is not among them: such a prediction is wrong, and lowers the recall of the right intent.",
}


class Truth(msgspec.Struct, frozen=True):
    """What the reference says about a user turn.

    Attributes:
      label: its intent, or whether it is out of domain; empty if unknown.
      service: the service of the intent.
      fallback: the system's answer if the turn is out of domain.
    """

    label: str
    utterance: str = ""
    service: str = ""
    fallback: str = ""


class Item(msgspec.Struct, frozen=True):
    """A scored item: its label, and the predicted label, score, or both."""

    label: str
    predicted: str | None
    utterance: str
    score: float | None = None


def matched(
    rows: Iterable[tuple[Key, Placed[KeyedRow]]], truths: Mapping[Key, Truth]
) -> Iterator[tuple[Key, Placed[KeyedRow], Truth]]:
    """Yields each prediction with its truth.

    Raises:
      InputError: a prediction occurs twice, or the reference has no label for it.
    """
    seen: set[Key] = set()
    for key, placed in [*rows]:  # a file that cannot be read is said before a label that differs
        if key in seen:
            raise placed.error(f"{named(key)} appears twice")
        seen.add(key)
        if key not in truths:
            raise placed.error(f"the reference has no label for {named(key)}")
        yield key, placed, truths[key]


def item_rows(items: Mapping[Key, Item], metrics: Sequence[str] = ("accuracy",)) -> bytes:
    """Encodes ``rows.parquet``, see :func:`~parapet.evaluation.task.rows_bytes`."""
    keys = sorted(items)
    ordered = [items[key] for key in keys]
    right = [None if item.predicted is None else float(item.label == item.predicted) for item in ordered]
    columns = {"accuracy": right, "score": [item.score for item in ordered]}
    texts = {name: [getattr(item, name) for item in ordered] for name in ("label", "predicted", "utterance")}
    return task.rows_bytes(keys, {name: columns[name] for name in metrics}, texts)


def item_table(title: str, note: str, items: Mapping[Key, Item], keys: Iterable[Key]) -> Table:
    """Lists some items with their predictions."""
    rows = []
    for name, dialogue_id, turn in keys:
        item = items[name, dialogue_id, turn]
        score = "" if item.score is None else f"{item.score:.6g}"
        rows.append([f"{dialogue_id}, {turn}", name, item.utterance, item.label, item.predicted or "", score])
    columns = ["item", "set", "utterance", "label", "predicted", "score"]
    if not any(row[-1] for row in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    return Table(title=title, note=note, columns=columns, rows=rows, text_columns=5, in_card=False)


class Reference(Keyed, kw_only=True):
    """A row of the reference."""

    label: str = ""
    utterance: str = ""


class Prediction(Keyed, kw_only=True):
    """A row of the predictions."""

    predicted: str


# Service to intent to its name in another schema.
Renamed = Mapping[str, Mapping[str, str]]
# The part of details.json for a group: all items, or those of a set.
Details = dict[str, Any]


class Items(msgspec.Struct, frozen=True):
    """The scored items; ``without_state`` is the number of predictions for user turns without an active intent."""

    items: dict[Key, Item]
    without_state: int = 0


class Labels(msgspec.Struct, frozen=True):
    """The labels of a reference.

    Attributes:
      truths: by set, dialogue and turn; a single set has an empty name. User turns without a state have no label.
      names: the names of the sets.
      renamed: each variant's intents to their names in the original.
    """

    truths: dict[Key, Truth]
    names: list[str]
    renamed: dict[str, Renamed] = {}


class Intent(task.Task[Items], frozen=True, kw_only=True):
    """The task of ``parapet evaluate --task intent``.

    Attributes:
      predictions: JSON lines with ``predicted``, or a folder of them for each set.
      sources: the sets: corpora, or JSON lines with ``label``, which name their sets if they are the only ones.
    """

    name = "evaluate_intent"

    predictions: str
    sources: sets.Sources

    def inputs(self) -> dict[str, str | None]:
        """Returns the files and corpora."""
        return {"predictions": self.predictions, **self.sources.inputs()}

    def read(self) -> Items:
        """Reads the items by key.

        Predictions for user turns without a state are skipped.

        Raises:
          InputError: a set cannot be read; or items are missing, unknown or occur twice.
        """
        roots = sets.find_sets(self.sources)
        labels = _labels_of_sets(roots, self.sources.split)
        items = _match(self.predictions, self.sources.split, labels)
        if len(roots) == 1:
            return items
        dialogues: dict[str, set[str]] = {name: set() for name in labels.names}
        for name, dialogue_id, _ in labels.truths:
            dialogues[name].add(dialogue_id)
        common = sets.common_dialogues(dialogues)
        return Items({key: item for key, item in items.items.items() if key[1] in common}, items.without_state)

    def score(self, inputs: Items, stage: Stage) -> Result:
        """Computes accuracy and macro-F1."""
        metrics, details = evaluate(inputs.items)
        results = results_of("intent", metrics, {name: group["items"] for name, group in details.items()})
        ignored = text.counted(inputs.without_state, "prediction")
        named_sets = {"sets": [name for name in details if name != ALL]} if len(details) > 1 else {}
        rows = item_rows(inputs.items)
        return Result(
            files=task.files_of(metrics, results, details, rows, report(inputs.items, metrics, details)),
            summary=[
                task.line(name, values, SHORT)
                + (f" of {text.counted(details[name]['items'], 'item')}" if name in details else "")
                for name, values in metrics.items()
            ],
            options={"split": self.sources.split, **named_sets},
            counts={"items": len(inputs.items)},
            warnings=[f"{ignored} for user turns without a state were not scored"] if inputs.without_state else (),
        )


def _match(predictions: str, split: str, labels: Labels) -> Items:
    """Matches the predictions with the labels."""
    items: dict[Key, Item] = {}
    without_state = 0
    rows = sets.keyed_predictions(predictions, split, labels.names, Prediction)
    for key, placed, truth in matched(rows, labels.truths):
        if not truth.label:
            without_state += 1
            continue
        by_service = labels.renamed.get(key[0], {})
        renamed = {mine: its for names in by_service.values() for mine, its in names.items()}
        names = renamed | dict(by_service.get(truth.service, {}))
        predicted = names.get(placed.row.predicted, placed.row.predicted)
        if not predicted.strip():
            raise placed.error("the intent is empty")
        items[key] = Item(truth.label, predicted, truth.utterance)
    sets.check_complete([key for key, truth in labels.truths.items() if truth.label], items, predictions)
    return Items(items, without_state)


def _truths_of_lines(path: str, name: str | None = None) -> dict[Key, Truth]:
    truths = {}
    for key, placed in sets.keyed_rows(path, Reference, name):
        if not placed.row.label.strip():
            raise placed.error(NO_LABEL)
        truths[key] = Truth(placed.row.label, placed.row.utterance)
    return truths


def _labels_of_sets(roots: Sequence[sets.SetRoot], split: str) -> Labels:
    if len(roots) == 1 and roots[0].path.is_file():
        truths = _truths_of_lines(str(roots[0].path))
        return Labels(truths, list(dict.fromkeys(key[0] for key in truths)))
    labels = Labels({}, [root.name for root in roots] if len(roots) > 1 else [""])
    originals: dict[str, Service] = {}
    for name, root in zip(labels.names, roots, strict=True):
        set_name, path, kind = root
        sets.check_has_dialogues(root)
        if path.is_file():
            labels.truths.update(_truths_of_lines(str(path), name))
            continue
        schemas = {schema.split: schema.services for schema in read_root(path, leave_out_bad=True)}
        services = {service.service_name: service for service in schemas.get(split) or schemas.get(SINGLE) or []}
        originals = services if set_name == ORIGINAL else originals
        renamed = renamed_intents(set_name, services, originals) if kind == "variant" else {}
        labels.renamed[name] = renamed
        truths = {
            (name, dialogue.dialogue_id, turn): truth
            for _, dialogue in sets.read_dialogues(path, split)
            for turn, truth in user_turns(dialogue, renamed)
        }
        if not any(truth.label for truth in truths.values()):
            raise InputError(f"no user turn of {split!r} has a state, so there are no intents to compare with", path)
        labels.truths.update(truths)
    return labels


def user_turns(dialogue: Dialogue, renamed: Renamed) -> Iterator[tuple[int, Truth]]:
    """Yields (position, intent) of the user turns of a dialogue; ``renamed`` has the names to use for its intents."""
    for position, (turn, services) in enumerate(zip(dialogue.turns, services_in_turns(dialogue), strict=True)):
        if turn.speaker == "USER":
            intent = service = ""
            if (active := frame_of(turn.frames, services)) and active.state:
                service, intent = active.service, active.state.active_intent or NONE
                intent = renamed.get(service, {}).get(intent, intent)
            yield position, Truth(intent, turn.utterance, service)


def frame_of(frames: Iterable[Frame], services: Collection[str]) -> Frame | None:
    """Returns the frame whose active intent is that of the turn, or None without a state.

    If a turn has several services, this is the one whose intent the user names in it; otherwise one that the turn is
    about and that has an intent. Of several, it is the last, since the user turns to it.

    Args:
      frames: the frames of the turn; inactive ones may keep the intent of an earlier turn.
      services: the services that the turn is about.
    """

    def rank(frame: Frame) -> tuple[bool, bool, bool]:
        names_intent = any(action.act == "INFORM_INTENT" for action in frame.actions or ())
        is_active = bool(frame.state) and frame.state.active_intent not in ("", NONE)  # type: ignore[union-attr]
        return names_intent, frame.service in services, is_active

    return max(reversed([frame for frame in frames if frame.state]), key=rank, default=None)


def renamed_intents(
    variant: str, services: Mapping[str, Service], originals: Mapping[str, Service]
) -> dict[str, dict[str, str]]:
    """Maps the intents of a variant to their names in the original, by position.

    Args:
      variant: its name.
      services: the services of the variant's schema, by name.
      originals: the services of the original's schema, by name.
    """
    renamed = {}
    for name, original in originals_of(variant, services, originals).items():
        mine, its = services[name].intents, originals[original].intents if original in originals else []
        if len(mine) == len(its):
            pairs = zip(mine, its, strict=True)
            renamed[name] = {intent.name: other.name for intent, other in pairs if intent.name != other.name}
    return renamed


def evaluate(items: Mapping[Key, Item]) -> tuple[Metrics, dict[str, Details]]:
    """Computes (``metrics.json``, ``details.json``) of the items."""
    groups = {name: [items[key] for key in keys] for name, keys in sets.groups_of(items).items()}
    details = {name: details_of(of_group) for name, of_group in groups.items()}
    return sets.with_mean({name: overall(groups[name], details[name]) for name in groups}), details


def details_of(items: Sequence[Item]) -> Details:
    """Scores the intents of the reference, and counts confusions, the most frequent first.

    Precision is 0 if an intent is never predicted. Predictions of intents that no item of the reference has are
    counted apart: each is wrong and lowers the recall of the right intent.
    """
    support = Counter(item.label for item in items)
    predicted = Counter(str(item.predicted) for item in items)
    right = Counter(item.label for item in items if item.label == item.predicted)
    wrong = Counter((item.label, item.predicted) for item in items if item.label != item.predicted)
    return {
        "items": len(items),
        "classes": {
            label: {
                "precision": right[label] / predicted[label] if predicted[label] else 0.0,
                "recall": right[label] / n,
                "f1": 2 * right[label] / (n + predicted[label]),
                "support": n,
                "predicted": predicted[label],
            }
            for label, n in sorted(support.items())
        },
        "only_predicted": {label: n for label, n in sorted(predicted.items()) if label not in support},
        "most_confused": [
            {"label": label, "predicted": prediction, "items": n}
            for (label, prediction), n in sorted(wrong.items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_CONFUSED]
        ],
    }


def overall(items: Sequence[Item], details: Details) -> dict[str, float | None]:
    """Computes the metrics of a group; macro-averages are unweighted means over the intents of the reference."""
    intents = details["classes"].values()
    macro = {
        f"macro_{name}": sum(numbers[name] for numbers in intents) / len(intents)
        for name in ("f1", "precision", "recall")
    }
    return {"accuracy": sum(item.label == item.predicted for item in items) / len(items), **macro}


def report(items: Mapping[Key, Item], metrics: Metrics, details: Mapping[str, Details]) -> Report:
    """Makes the report: scores by set, confusions, scores by intent, and some wrong items."""
    everything, group = details[ALL], task.main_group(metrics)
    ranked = sorted(everything["classes"].items(), key=lambda pair: (pair[1]["f1"], pair[0]))
    wrong = [key for key in sorted(items) if items[key].label != items[key].predicted]
    unknown = {name: {"predicted": n} for name, n in everything["only_predicted"].items()}
    confused = [[pair["label"], pair["predicted"], f"{pair['items']:,}"] for pair in everything["most_confused"]]
    columns, note = ["intent", "predicted", "items"], f"The first {min(EXAMPLES, len(wrong)):,} of {len(wrong):,}."
    tables = [
        Table(title="Most frequent confusions", columns=columns, rows=confused, text_columns=2),
        task.group_table("Intents, the lowest F1 first", "intent", dict(ranked), OF_INTENTS, numbers_in="details.json"),
        task.group_table("Predicted, but not in the reference", "intent", unknown, {"predicted": "predicted"}),
        item_table("Wrong items", note, items, wrong[:EXAMPLES]),
    ]
    return task.set_report(
        metrics,
        {**HEADINGS, "items": "items"},
        sizes={name: {"items": numbers["items"]} for name, numbers in details.items()},
        sections=tables,
        tiles=SHORT,
        chart=SHORT,
        terms=TERMS,
        title="Intents",
        headline=f"{with_group('Intent accuracy', metrics, group, 'accuracy')}: "
        f"{text.percent(metrics[group]['accuracy'])}",
        lead=f"{text.counted(everything['items'], 'item')} with {text.counted(len(everything['classes']), 'intent')}.",
    )
