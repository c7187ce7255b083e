"""Detection of out-of-domain turns: metrics by set, with a threshold tuned on other turns.

The metrics equal scikit-learn's, against which they are tested. They are four sums over whole numbers, for which
scikit-learn and SciPy (155 MB) would be large dependencies.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from parapet.evaluation import sets, task
from parapet.evaluation.intent import NO_LABEL, Item, Truth, item_rows, item_table, matched
from parapet.evaluation.results import read_parquet, results_of
from parapet.evaluation.sets import ALL, ORIGINAL, Key, Keyed, Placed, named
from parapet.evaluation.task import Metrics, Result, Stage
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, is_root, is_there
from parapet.transforms.perturb.ood.plan import FALLBACK, FALLBACKS
from parapet.transforms.report import text
from parapet.transforms.report.report import Report, Table

OOD, IN_DOMAIN = "ood", "in_domain"
EXAMPLES = 25
HEADINGS = {
    "accuracy": "accuracy",
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "auroc": "AUROC",
    "aupr": "AUPR",
    "fpr95": "FPR95",
}
SHORT = {name: HEADINGS[name] for name in ("f1", "auroc", "aupr", "fpr95")}  # for the terminal
TERMS = {
    "Positive": "The class to be found; precision, recall, F1, AUPR and FPR95 are those of this class.",
    "AUROC": "How often a positive turn scores above a negative one, ties being half: 50 is chance.",
    "AUPR": "Average precision: the area under the precision-recall curve, without interpolation. Chance is the share "
    "of positive turns.",
    "FPR95": "The share of negative turns that are taken for positive at the highest threshold that finds 95% of the "
    "positive. Low is good.",
    "Mean of F1": "As RADDLE reports OOD F1. Where a corpus without labels is among the sets, all of its turns are "
    "in-domain: it counts for the accuracy only.",
}

Numbers = dict[str, float | None]
ScoredItem = tuple[float, bool]  # a score, and whether the item is of the positive class


def curve_of(items: Sequence[ScoredItem]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Returns each distinct score, the highest first, and how many items from it on are right, and wrong."""
    scores, places = np.unique([-score for score, _ in items], return_inverse=True)
    positive = np.array([label for _, label in items])
    tp, fp = (np.bincount(places, of_class).cumsum().astype(int) for of_class in (positive, ~positive))
    return -scores, tp, fp


def areas(items: Sequence[ScoredItem]) -> Numbers:
    """Computes AUROC and FPR95, None without both classes, and AUPR, None without positives.

    They are scikit-learn's ``roc_auc_score``, ``average_precision_score``, and the first false positive rate of
    ``roc_curve(..., drop_intermediate=False)`` whose true positive rate is 95 % or more.
    """
    _, tp, fp = curve_of(items)
    positives, negatives = int(tp[-1]), int(fp[-1])
    auroc = aupr = fpr95 = None
    if positives:
        aupr = math.fsum(np.diff(tp, prepend=0) * tp / (tp + fp)) / positives
    if positives and negatives:
        # Each negative item counts the positive ones above it twice, and those with its score once.
        auroc = int(np.diff(fp, prepend=0) @ (tp + np.append(0, tp[:-1]))) / (2 * positives * negatives)
        fpr95 = int(fp[np.argmax(20 * tp >= 19 * positives)]) / negatives
    return {"auroc": auroc, "aupr": aupr, "fpr95": fpr95}


def best_threshold(items: Sequence[ScoredItem]) -> tuple[float, float] | None:
    """Returns the score that has the highest F1 as a threshold, the highest of equal ones; and that F1.

    None without positives.
    """
    thresholds, tp, fp = curve_of(items)
    f1 = 2 * tp / (tp[-1] + tp + fp)
    best = np.argmax(f1)
    return (float(thresholds[best]), float(f1[best])) if tp[-1] else None


def confusion(items: Sequence[Item]) -> Numbers:
    """Computes accuracy, precision, recall and F1; a number is 0 if its denominator is, as in scikit-learn."""
    counts = Counter((item.label == OOD, item.predicted == OOD) for item in items)
    tp, fp, fn = counts[True, True], counts[False, True], counts[True, False]
    return {
        "accuracy": (tp + counts[False, False]) / len(items),
        "precision": tp / (tp + fp) if tp + fp else 0.0,
        "recall": tp / (tp + fn) if tp + fn else 0.0,
        "f1": 2 * tp / (2 * tp + fp + fn) if tp + fp + fn else 0.0,
    }


def metrics_of(items: Sequence[Item]) -> Numbers:
    """Computes the metrics of at least one item; None for undefined ones."""
    metrics: Numbers = dict.fromkeys(HEADINGS)
    if items[0].predicted is not None:
        metrics |= confusion(items)
    if items[0].score is not None:
        metrics |= areas(scored(items))
    return metrics


def scored(items: Iterable[Item]) -> list[ScoredItem]:
    """Lists the scores with whether the items are out of domain."""
    return [(item.score, item.label == OOD) for item in items if item.score is not None]


Label = Literal["ood", "in_domain", "in"]


class Labelled(Keyed, kw_only=True):
    """A row of the reference."""

    label: Label | None = None
    utterance: str = ""


class Detected(Keyed, kw_only=True):
    """A row of the predictions: a score, a label or both.

    Or it is the response of a system in the turn after the user's: a fallback means that the user's turn is out of
    domain.
    """

    score: float | None = None
    predicted: Label | None = None
    response: str | None = None
    refused: bool = False


class OodRow(msgspec.Struct):
    """The relevant columns of a row of ``parapet ood``."""

    dialogue_id: str
    turn: int
    label: Literal["ood", "in_domain"]
    utterance: str | None
    fallback: str | None


def _label(label: Label) -> str:
    return OOD if label == OOD else IN_DOMAIN


Truths = dict[Key, Truth]


def read_items(predictions: str, split: str, truths: Truths) -> tuple[dict[Key, Item], dict[str, int]]:
    """Reads the items by key, and the number of refused requests by set.

    Args:
      predictions: JSON lines, or a folder with those of each set.
      split: the split.
      truths: the labels.

    Raises:
      InputError: items are missing, unknown or occur twice; there is neither a score nor a predicted label; or only
        some items have a score, or a predicted label.
    """
    rows = sets.keyed_predictions(predictions, split, list(dict.fromkeys(key[0] for key in truths)), Detected)
    words = set(map(_words, {FALLBACK, *FALLBACKS, *(truth.fallback for truth in truths.values() if truth.fallback)}))
    items: dict[Key, Item] = {}
    refused: list[Key] = []
    for key, placed, truth in matched((_of_user(key, placed, words) for key, placed in rows), truths):
        row = placed.row
        if row.refused:
            refused.append(key)
            continue
        if row.score is None and row.predicted is None:
            raise placed.error("has neither a score nor a predicted label")
        items[key] = Item(truth.label, row.predicted and _label(row.predicted), truth.utterance, row.score)
        first = next(iter(items.values()))
        for name in ("score", "predicted"):
            if (getattr(row, name) is None) != (getattr(first, name) is None):
                lacks, has = ("a", "none") if getattr(first, name) is None else ("no", "one")
                raise placed.error(f"has {lacks} {name}, but the first row has {has}: give it in all rows, or in none")
    sets.check_complete(truths, {*items, *refused}, predictions)
    task.check_scored(items, predictions)
    return items, dict(Counter(key[0] for key in sorted(refused)))


def _of_user(key: Key, placed: Placed[Detected], fallbacks: set[str]) -> tuple[Key, Placed[Detected]]:
    """Turns a response into a prediction for the preceding user turn."""
    row = placed.row
    if row.response is None or row.score is not None or row.predicted is not None:
        return key, placed
    row.predicted = "ood" if _words(row.response) in fallbacks else "in_domain"
    return (*key[:2], key[2] - 1), placed


def _words(response: str) -> str:
    """Normalises a response: models may differ in case and punctuation."""
    return " ".join(re.findall(r"\w+", response.casefold()))


def read_truths(sources: sets.Sources) -> tuple[Truths, frozenset[str]]:
    """Reads the labels of a reference and of further sets, and the names of the sets whose turns are all in domain.

    Args:
      sources: the reference is a file of JSON lines, an output of ``parapet ood``, or a corpus, all of whose turns are
        in domain, as are those of variants. Other sets are single sets of ``parapet ood``, corpora, or JSON lines.

    Raises:
      InputError: a file, set or split is missing or cannot be read, or a turn occurs twice.
    """
    if not is_there(sources.reference):
        raise InputError("there is no such file or folder", sources.reference)
    (_, place, _), *others = sets.find_sets(sources)
    roots: list[tuple[str | None, Path]]
    if place.is_dir() and (is_of_ood(str(place)) or not is_root(place)):
        roots = [(name, place / name) for name in _sets_of(place)]
    else:
        roots = [(ORIGINAL if place.is_dir() or others else None, place)]
    for name, other, _ in others:
        if name in dict(roots):
            raise InputError(f"another set is called {name!r}: give this one another name", other, "--sets")
        roots.append((name, other))
    truths: Truths = {}
    in_domain: set[str] = set()
    for set_name, root in roots:
        for path, key, truth in _truths_of(root, set_name, sources.split, in_domain):
            if key in truths:
                raise InputError(f"{named(key)} appears twice", path)
            truths[key] = truth
    return truths, frozenset(in_domain)


def _truths_of(root: Path, name: str | None, split: str, in_domain: set[str]) -> Iterator[tuple[str, Key, Truth]]:
    """Yields (file, key, truth) of the turns of a set; adds its name to ``in_domain`` if it has no labels.

    Only JSON lines may have no name, as their rows can name their sets.
    """
    if name is None or root.is_file():
        for key, placed in sets.keyed_rows(str(root), Labelled, name):
            if placed.row.label is None:
                raise placed.error(NO_LABEL)
            yield str(root), key, Truth(_label(placed.row.label), placed.row.utterance)
    elif _has_labels(root):
        for path in _files_of(root / "turns", split):
            for row in _rows_of(path):
                key = name, row.dialogue_id, row.turn
                yield str(path), key, Truth(row.label, row.utterance or "", fallback=row.fallback or "")
    elif is_of_ood(str(root)) and not is_root(root):
        names = _sets_of(root)
        reason = f"contains the sets {', '.join(names)}: give one of them, such as {names[0]}={root / names[0]}"
        raise InputError(reason, root, "--sets")
    else:
        in_domain.add(name)
        for file, dialogue in sets.read_dialogues(root, split):
            for position, turn in enumerate(dialogue.turns):
                if turn.speaker == "USER":
                    yield file, (name, dialogue.dialogue_id, position), Truth(IN_DOMAIN, turn.utterance)


def is_of_ood(path: str) -> bool:
    """Whether ``parapet ood`` wrote a folder: it has sets with labels of turns."""
    place = as_path(path)
    return place.is_dir() and any((folder / "turns").is_dir() for folder in place.iterdir())


def _has_labels(root: Path) -> bool:
    """Whether a set has labels of its turns; other perturbations also have rows there."""
    path = next(iter(sorted((root / "turns").rglob("*.parquet"))), None)
    return path is not None and "label" in read_parquet(path).column_names


def _sets_of(place: Path) -> list[str]:
    known = sorted(path.name for path in place.iterdir() if (path / "turns").is_dir())
    if not known:
        raise InputError("contains no set of 'parapet ood': expected folders such as ood-10/turns", place)
    return known


def _files_of(folder: Path, split: str) -> list[Path]:
    """Lists the files of a split; for a corpus without splits, those in the folder itself."""
    files = sorted((folder / split).glob("*.parquet")) or sorted(folder.glob("*.parquet"))
    if not files:
        known = ", ".join(sorted(path.name for path in folder.iterdir() if path.is_dir())) or "none"
        raise InputError(f"contains no turns of split {split!r}; these splits have some: {known}", folder)
    return files


def _rows_of(path: Path) -> list[OodRow]:
    try:
        return msgspec.convert(read_parquet(path).to_pylist(), list[OodRow])
    except msgspec.ValidationError as error:
        raise InputError(f"not the rows of 'parapet ood': {error}", path) from None


class Threshold(msgspec.Struct, frozen=True):
    """The lowest score of out-of-domain turns; its F1 on the turns for tuning, and their number."""

    value: float
    f1: float
    turns: int


class Detections(msgspec.Struct, frozen=True):
    """The scored turns.

    Attributes:
      items: by key; predictions are those of the threshold, if it was tuned.
      predicted: whether the predictions have labels of their own.
      in_domain: sets of corpora without labels, all of whose turns are in domain.
      refused: set to the number of turns that are not scored, because the request was refused.
    """

    items: dict[Key, Item]
    predicted: bool
    threshold: Threshold | None
    in_domain: frozenset[str]
    refused: dict[str, int]


class OodDetection(task.Task[Detections], frozen=True, kw_only=True):
    """The task of ``parapet evaluate --task ood``.

    Attributes:
      predictions: JSON lines with scores or predicted labels, or a folder of them for each set.
      sources: the sets; the reference is an output of ``parapet ood``, a corpus, or JSON lines.
      dev: predictions on other turns, for tuning a threshold; ``dev_split`` is their split.
    """

    name = "evaluate_ood"

    predictions: str
    sources: sets.Sources
    dev: str | None = None
    dev_split: str = "dev"

    def inputs(self) -> dict[str, str | None]:
        """Returns the files and folders."""
        return {"predictions": self.predictions, **self.sources.inputs(), "dev": self.dev}

    def read(self) -> Detections:
        """Reads the turns, and tunes the threshold.

        Raises InputError if the inputs cannot be used, or if dev is the scored split.
        """
        truths, in_domain = read_truths(self.sources)
        items, refused = read_items(self.predictions, self.sources.split, truths)
        predicted = any(item.predicted is not None for item in items.values())
        threshold = None
        if self.dev is not None:
            if len(scored(items.values())) < len(items):
                raise InputError("the rows have no score, which --dev requires to tune a threshold", self.predictions)
            threshold = self._tuned(self.dev)
            for key, item in items.items():
                is_ood = item.score is not None and item.score >= threshold.value
                items[key] = msgspec.structs.replace(item, predicted=OOD if is_ood else IN_DOMAIN)
        return Detections(items, predicted, threshold, in_domain, refused)

    def _tuned(self, dev: str) -> Threshold:
        """Tunes the threshold on --dev."""
        in_folder = as_path(self.sources.reference).is_dir()
        other = "a threshold must not be tuned on the turns that are scored"
        if in_folder and self.dev_split == self.sources.split:
            raise InputError(f"--dev contains turns of {self.dev_split}, too: {other}", "--dev_split")
        if not in_folder and as_path(dev) == as_path(self.predictions):
            raise InputError(f"is the same as --predictions: {other}", dev, "--dev")
        other_split = msgspec.structs.replace(self.sources, split=self.dev_split)
        truths, _ = read_truths(other_split if in_folder else sets.Sources(dev, self.dev_split))
        items, _ = read_items(dev, self.dev_split, truths)
        pairs = scored(items.values())
        if not pairs:
            raise InputError("the rows have no score, which --dev requires to tune a threshold", dev)
        best = best_threshold(pairs)
        if best is None:
            raise InputError("no turn is ood, so no threshold can be tuned", dev)
        return Threshold(*best, len(pairs))

    def score(self, inputs: Detections, stage: Stage) -> Result:
        """Computes precision, recall, F1 and areas, by set."""
        metrics, sizes = evaluate(inputs)
        note = about_threshold(inputs)
        details = {"groups": sizes, "threshold": inputs.threshold, "predicted": inputs.predicted}
        rows = item_rows(inputs.items, ("accuracy", "score"))
        results = results_of("ood", metrics, {name: size["turns"] for name, size in sizes.items()})
        return Result(
            files=task.files_of(metrics, results, details, rows, report(inputs, metrics, sizes, note)),
            summary=[
                *(
                    task.line(name, values, SHORT if "f1" in values else {"accuracy": "accuracy"}, 1)
                    + (f"; {text.counted(sizes[name]['turns'], 'turn')}" if name in sizes else "")
                    for name, values in metrics.items()
                ),
                note,
            ],
            options={
                "split": self.sources.split,
                "dev_split": self.dev_split,
                **({"sets": [name for name in sizes if name != ALL]} if len(sizes) > 1 else {}),
            },
            counts={"turns": len(inputs.items)},
            refused=inputs.refused,
        )


def evaluate(detections: Detections) -> tuple[Metrics, dict[str, dict[str, int]]]:
    """Computes (``metrics.json``, the size of each group)."""
    metrics: Metrics = {}
    sizes = {}
    for name, keys in sets.groups_of(detections.items).items():
        items = [detections.items[key] for key in keys]
        metrics[name] = metrics_of(items)
        if name in detections.in_domain:  # no turn is out of domain
            metrics[name] = {"accuracy": metrics[name]["accuracy"]}
        sizes[name] = {"turns": len(items), "ood": sum(item.label == OOD for item in items)}
    return sets.with_mean(metrics), sizes


def about_threshold(detections: Detections) -> str:
    """Describes how turns are classified, in a sentence."""
    if (threshold := detections.threshold) is not None:
        return (
            f"Positive from a score of {threshold.value:.6g}, the threshold of the highest F1 "
            f"({text.percent(threshold.f1, 2)}) on the {threshold.turns:,} turns of --dev; of equal ones the highest."
        )
    if detections.predicted:
        return "Precision, recall and F1 are those of the predicted labels."
    return "No precision, recall or F1: there is neither a file to tune a threshold on (--dev) nor a predicted label."


def report(detections: Detections, metrics: Metrics, sizes: Mapping[str, Mapping[str, int]], note: str) -> Report:
    """Makes the report: scores by set, and the turns with the worst scores."""
    defined = {name for values in metrics.values() for name, value in values.items() if value is not None}
    headings = {name: label for name, label in HEADINGS.items() if name in defined}
    chart = "f1" if "f1" in headings else "auroc"
    return task.set_report(
        metrics,
        {**headings, "turns": "turns", "ood": "out-of-domain"},
        sizes=sizes,
        sections=worst(detections.items),
        tiles=headings,
        chart={chart: HEADINGS[chart]},
        overall=sets.MEAN if sets.MEAN in metrics else ALL,
        terms=TERMS,
        refused=detections.refused,
        title="Out-of-domain detection",
        headline="Out-of-domain detection",
        lead=f"{text.counted(sizes[ALL]['turns'], 'turn')}, {sizes[ALL]['ood']:,} of them out-of-domain. Positive is "
        "out-of-domain; a high score speaks for out-of-domain.",
        notes=[note],
    )


def worst(items: Mapping[Key, Item]) -> list[Table]:
    """Lists the turns of each class with the worst scores; without scores, the wrong ones."""
    tables = []
    for label, title, sign in ((OOD, "Out-of-domain turns", 1), (IN_DOMAIN, "In-domain turns", -1)):
        of_class = [key for key in sorted(items) if items[key].label == label]
        wrong = [key for key in of_class if items[key].predicted not in (None, label)]
        keys = [key for key in of_class if items[key].score is not None] or wrong
        keys.sort(key=lambda key: sign * (items[key].score or 0.0))
        if keys:
            note = f"The first {min(EXAMPLES, len(keys)):,} of {len(keys):,}, the worst scores first; "
            tables.append(item_table(title, f"{note}{len(wrong):,} are wrong.", items, keys[:EXAMPLES]))
    return tables
