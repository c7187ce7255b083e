"""Detection of out-of-domain turns: metrics by set, with a threshold tuned on other turns.

The metrics equal scikit-learn's, against which they are tested. They are only three formulas over integers, for which
scikit-learn and SciPy would be large dependencies. Items with equal scores are one step of a curve, as no threshold
separates them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from parapet.evaluation.results import results_of
from parapet.evaluation.sets import (
    ALL,
    MEAN,
    ORIGINAL,
    Key,
    Keyed,
    Placed,
    Sources,
    check_complete,
    find_sets,
    groups_of,
    keyed_predictions,
    keyed_rows,
    named,
    read_dialogues,
    with_mean,
)
from parapet.evaluation.task import (
    Metrics,
    Result,
    Stage,
    Task,
    check_scored,
    files_of,
    line,
    rows_bytes,
    set_report,
)
from parapet.schemas.errors import InputError
from parapet.schemas.layout import TEST, as_path, is_root, is_there
from parapet.schemas.limits import open_path
from parapet.transforms.perturbations.ood.plan import FALLBACKS
from parapet.transforms.reports import text
from parapet.transforms.reports.report import Report, Table

# A score, and whether the item is of the positive class.
ScoredItem = tuple[float, bool]


class Curve(NamedTuple):
    """The right (``tp``) and wrong (``fp``) items from each distinct score on, the highest first."""

    thresholds: NDArray[np.float64]
    tp: NDArray[np.int64]
    fp: NDArray[np.int64]

    @property
    def has_both(self) -> bool:
        """Whether there are items of both classes."""
        return bool(self.tp[-1] and self.fp[-1])


def curve_of(items: Iterable[ScoredItem]) -> Curve:
    """Returns the curve of at least one item."""
    ordered = sorted(items, key=lambda item: -item[0])
    scores, positive = np.array([score for score, _ in ordered]), np.array([label for _, label in ordered])
    last = np.flatnonzero(np.append(scores[1:] != scores[:-1], True))
    tp = np.cumsum(positive)[last]
    return Curve(scores[last], tp, last + 1 - tp)


def auroc(curve: Curve) -> float | None:
    """Computes the area under the ROC curve, like scikit-learn's ``roc_auc_score``; None without both classes.

    It is the probability that a positive item scores above a negative one; ties count half.
    """
    if not curve.has_both:
        return None
    twice = np.diff(curve.fp, prepend=0) @ (curve.tp + np.append(0, curve.tp[:-1]))
    return int(twice) / (2 * int(curve.tp[-1]) * int(curve.fp[-1]))


def aupr(curve: Curve) -> float | None:
    """Computes average precision: the area under the precision-recall curve without interpolation.

    None without positives. Equals scikit-learn's ``average_precision_score``.
    """
    terms = np.diff(curve.tp, prepend=0) * curve.tp / (curve.tp + curve.fp)
    return math.fsum(terms) / int(curve.tp[-1]) if curve.tp[-1] else None


def fpr95(curve: Curve) -> float | None:
    """Returns the false positive rate at the highest threshold with a true positive rate of at least 95 %.

    None without both classes. Equals that of scikit-learn's ``roc_curve(..., drop_intermediate=False)``.
    """
    wanted = np.argmax(20 * curve.tp >= 19 * curve.tp[-1])
    return int(curve.fp[wanted]) / int(curve.fp[-1]) if curve.has_both else None


def best_threshold(curve: Curve) -> float | None:
    """Returns the score that has the highest F1 as a threshold; the highest of equal ones. None without positives."""
    f1 = 2 * curve.tp / (curve.tp[-1] + curve.tp + curve.fp)
    return float(curve.thresholds[np.argmax(f1)]) if curve.tp[-1] else None


def precision_recall_f1(pairs: Iterable[tuple[bool, bool]]) -> tuple[float, float, float]:
    """Computes the scores of (positive, predicted positive); a score is 0 if its denominator is, as in scikit-learn."""
    tp = fp = fn = 0
    for positive, predicted in pairs:
        tp += positive and predicted
        fp += predicted and not positive
        fn += positive and not predicted
    precision = tp / (tp + fp) if tp + fp else 0.0
    recall = tp / (tp + fn) if tp + fn else 0.0
    return precision, recall, 2 * tp / (2 * tp + fp + fn) if tp + fp + fn else 0.0


OOD, IN_DOMAIN = "ood", "in_domain"

Label = Literal["ood", "in_domain", "in"]


class Labelled(Keyed, kw_only=True):
    """A row of the reference."""

    label: Label
    utterance: str = ""


class Detected(Keyed, kw_only=True):
    """A row of the predictions: a score, a label or both, and the true label if there is no reference.

    Or it is the response of a system in the turn after the user's: a fallback means that the user's turn is out of
    domain.
    """

    score: float | UnsetType = UNSET
    predicted: Label | UnsetType = UNSET
    response: str | UnsetType = UNSET
    label: Label | UnsetType = UNSET
    utterance: str = ""
    refused: bool = False


class Turn(msgspec.Struct, frozen=True):
    """A turn with its label, and the detector's prediction.

    Attributes:
      ood: whether it is out of domain.
      score: None if there is none.
      predicted: whether it was predicted to be out of domain; None if that is unknown.
    """

    ood: bool
    score: float | None
    predicted: bool | None
    utterance: str


class Truth(msgspec.Struct, frozen=True):
    """The label of a reference turn; ``fallback`` is the system's answer, if known."""

    ood: bool
    utterance: str
    fallback: str = ""


class Truths(msgspec.Struct, frozen=True):
    """The labels of a reference.

    Attributes:
      turns: by key.
      in_domain: the sets that are corpora without labels, all of whose turns are in domain.
    """

    turns: dict[Key, Truth]
    in_domain: frozenset[str] = frozenset()


class OodRow(msgspec.Struct):
    """The relevant columns of a row of ``parapet ood``."""

    dialogue_id: str
    turn: int
    label: Literal["ood", "in_domain"]
    utterance: str | None
    fallback: str | None


def read_turns(predictions: str, split: str, truth: Truths | None) -> tuple[dict[Key, Turn], dict[str, int]]:
    """Reads the turns by key, and the number of refused requests for turns by set.

    Args:
      predictions: JSON lines, or a folder with those of each set.
      split: the split.
      truth: the labels of the reference; None if the predictions have the labels.

    Raises:
      InputError: turns are missing, unknown or occur twice; a label is missing or differs from the reference's; there
        is neither a score nor a predicted label; or only some turns have a score, or a predicted label.
    """
    if truth is None and as_path(predictions).is_dir():
        raise InputError("is a folder, which has the predictions for several sets: add --reference", predictions)
    truths = truth.turns if truth is not None else {}
    names = list(dict.fromkeys(key[0] for key in truths)) or [""]
    rows = keyed_predictions(predictions, split, names, Detected) if truth else keyed_rows(predictions, Detected)
    fallbacks = set(map(_words, [*FALLBACKS, *(its.fallback for its in truths.values() if its.fallback)]))
    turns: dict[Key, Turn] = {}
    refused: set[Key] = set()
    first: Placed[Detected] | None = None
    for key, placed in rows:
        row = placed.row
        predicted: Label | UnsetType = row.predicted
        if row.response is not UNSET and row.score is UNSET and predicted is UNSET:
            # A response tells whether the preceding user turn is out of domain.
            key, predicted = (*key[:2], key[2] - 1), "ood" if _words(row.response) in fallbacks else "in_domain"
        its = truths.get(key)
        if key in turns:
            raise placed.error(f"{named(key)} appears twice")
        if truth is not None and its is None:
            raise placed.error(f"the reference has no {named(key)}")
        if its is None and row.label is UNSET:
            raise placed.error("has no label: add it to the row, or give --reference")
        if its is not None and row.label is not UNSET and (row.label == OOD) != its.ood:
            raise placed.error("the label differs from the one in the reference")
        if row.refused:
            refused.add(key)
            continue
        if row.score is UNSET and predicted is UNSET:
            raise placed.error("has neither a score nor a predicted label")
        first = first or placed
        turns[key] = Turn(
            its.ood if its is not None else row.label == OOD,
            None if row.score is UNSET else row.score,
            None if predicted is UNSET else predicted == OOD,
            (its.utterance if its is not None else "") or row.utterance,
        )
        first_turn = next(iter(turns.values()))
        for name in ("score", "predicted"):
            if (getattr(turns[key], name) is None) != (getattr(first_turn, name) is None):
                lacks, has = ("no", "one") if getattr(first_turn, name) is not None else ("a", "none")
                raise placed.error(f"has {lacks} {name}, but the first row has {has}: give it in all rows, or in none")
    check_complete(truths, turns.keys() | refused, predictions)
    check_scored(turns, predictions)
    return turns, dict(Counter(key[0] for key in sorted(refused)))


def _words(response: str) -> str:
    """Normalises a response: models may differ in case and punctuation."""
    return " ".join(re.findall(r"\w+", response.casefold()))


def read_truth(sources: Sources, chosen: Sequence[str] = ()) -> Truths:
    """Reads the labels of a reference and of further sets.

    Args:
      sources: the reference is a file of JSON lines, an output of ``parapet ood``, or a corpus, all of whose turns are
        in domain, as are those of variants. Other sets are single sets of ``parapet ood``, corpora, or JSON lines.
      chosen: sets of ``parapet ood``, such as ``ood-10``; empty for all.

    Raises:
      InputError: a file, set or split is missing or cannot be read, or a turn occurs twice.
    """
    if not is_there(sources.reference):
        raise InputError("there is no such file or folder", sources.reference)
    (_, place, _), *others = find_sets(sources)
    if place.is_dir() and (is_of_ood(str(place)) or not is_root(place)):
        roots: dict[str | None, Path] = {name: place / name for name in _sets_of(place, chosen)}
    elif chosen:
        raise InputError(f"{chosen[0]!r} requires the output of 'parapet ood' as --reference", "--sets")
    else:
        roots = {ORIGINAL if place.is_dir() or others else None: place}
    for name, other, _ in others:
        if name in roots:
            raise InputError(f"another set is called {name!r}: give this one another name", other, "--sets")
        roots[name] = other
    turns: dict[Key, Truth] = {}
    in_domain: set[str] = set()
    for set_name, root in roots.items():
        for path, key, truth in _turns_of(root, set_name, sources.split, in_domain):
            if key in turns:
                raise InputError(f"{named(key)} appears twice", path)
            turns[key] = truth
    return Truths(turns, frozenset(in_domain))


def _turns_of(root: Path, name: str | None, split: str, in_domain: set[str]) -> Iterator[tuple[str, Key, Truth]]:
    """Yields (file, key, truth) of the turns of a set; adds its name to ``in_domain`` if it has no labels.

    Only JSON lines may have no name, as their rows can name their sets.
    """
    if name is None or root.is_file():
        for key, placed in keyed_rows(str(root), Labelled, name):
            yield str(root), key, Truth(placed.row.label == OOD, placed.row.utterance)
    elif _has_labels(root):
        for path in _files_of(root / "turns", split):
            for row in _rows_of(path):
                key = name, row.dialogue_id, row.turn
                yield str(path), key, Truth(row.label == OOD, row.utterance or "", row.fallback or "")
    elif is_of_ood(str(root)) and not is_root(root):
        first, *more = _sets_of(root, ())
        reason = f"contains the sets {', '.join([first, *more])}: give one of them, such as {first}={root / first}"
        raise InputError(reason, root, "--sets")
    else:
        in_domain.add(name)
        for file, dialogue in read_dialogues(root, split):
            for position, turn in enumerate(dialogue.turns):
                if turn.speaker == "USER":
                    yield file, (name, dialogue.dialogue_id, position), Truth(False, turn.utterance)


def is_of_ood(path: str) -> bool:
    """Whether ``parapet ood`` wrote a folder: it has sets with labels of turns."""
    place = as_path(path)
    return place.is_dir() and any((folder / "turns").is_dir() for folder in place.iterdir())


def _has_labels(root: Path) -> bool:
    """Whether a set has labels of its turns; other perturbations also have rows there."""
    import pyarrow.parquet as pq

    path = next(iter(sorted((root / "turns").rglob("*.parquet"))), None) if (root / "turns").is_dir() else None
    return path is not None and "label" in _parquet(path, pq.read_schema).names


def _sets_of(place: Path, sets: Sequence[str]) -> list[str]:
    sets_here = sorted(path.name for path in place.iterdir() if (path / "turns").is_dir())
    if not sets_here:
        raise InputError("contains no set of 'parapet ood': expected folders such as ood-10/turns", place)
    for name in sets:
        if name not in sets_here:
            raise InputError(f"there is no set {name!r}: must be one of {', '.join(sets_here)}", place, "--sets")
    return list(sets) or sets_here


def _files_of(folder: Path, split: str) -> list[Path]:
    """Lists the files of a split; for a corpus without splits, those in the folder itself."""
    files = sorted((folder / split).glob("*.parquet")) or sorted(folder.glob("*.parquet"))
    if not files:
        known_sets = ", ".join(sorted(path.name for path in folder.iterdir() if path.is_dir())) or "none"
        raise InputError(f"contains no turns of split {split!r}; these splits have some: {known_sets}", folder)
    return files


def _rows_of(path: Path) -> list[OodRow]:
    import pyarrow.parquet as pq

    def read(handle: Any) -> list[dict[str, Any]]:
        table = pq.read_table(handle)
        table.validate(full=True)  # detects text that is not UTF-8
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows

    try:
        return msgspec.convert(_parquet(path, read), list[OodRow])
    except msgspec.ValidationError as error:
        raise InputError(f"not the rows of 'parapet ood': {error}", path) from None


def _parquet(path: Path, read: Callable[[Any], Any]) -> Any:
    import pyarrow as pa

    try:
        with open_path(path) as handle:
            return read(handle)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"cannot be read as Parquet: {error}", path) from None


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
METRICS = tuple(HEADINGS)
SHORT = {name: HEADINGS[name] for name in METRICS[3:]}  # for the terminal
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


class Threshold(msgspec.Struct, frozen=True):
    """The lowest score of out-of-domain turns; its F1 on the turns for tuning, and their number."""

    value: float
    f1: float
    turns: int


class Detections(msgspec.Struct, frozen=True):
    """The turns by key, with their labels and scores, and the threshold if it was tuned.

    Attributes:
      in_domain: sets of corpora without labels, all of whose turns are in domain.
      refused: set to the number of turns that are not scored, because the request was refused.
    """

    turns: dict[Key, Turn]
    threshold: Threshold | None = None
    in_domain: frozenset[str] = frozenset()
    refused: dict[str, int] = {}

    def predicted(self, turn: Turn) -> bool | None:
        """Whether a turn counts as out of domain: by the threshold, or else by its predicted label, if it has one."""
        if self.threshold is None or turn.score is None:
            return turn.predicted
        return turn.score >= self.threshold.value


class OodDetection(Task[Detections], frozen=True, kw_only=True):
    """The task of ``parapet evaluate --task ood``.

    Attributes:
      predictions: JSON lines with scores or predicted labels, or a folder of them for each set.
      sources: the sets; the reference is an output of ``parapet ood``, a corpus, or JSON lines. None if the predictions
        have the labels.
      chosen: the scored sets of an output of ``parapet ood``; empty for all.
      dev: predictions on other turns, for tuning a threshold; ``dev_split`` is their split.
    """

    name = "evaluate_ood"

    predictions: str
    sources: Sources | None = None
    chosen: tuple[str, ...] = ()
    dev: str | None = None
    dev_split: str = "dev"

    def inputs(self) -> dict[str, str | None]:
        """Returns the files and folders."""
        sources = self.sources.inputs() if self.sources else {}
        return {"predictions": self.predictions, **sources, "dev": self.dev}

    def read(self) -> Detections:
        """Reads the turns, and tunes the threshold.

        Raises InputError if the inputs cannot be used, or if dev is the scored split.
        """
        sources = self.sources
        truth = read_truth(sources, self.chosen) if sources else None
        turns, refused = read_turns(self.predictions, sources.split if sources else TEST, truth)
        threshold = self._tuned(turns) if self.dev else None
        return Detections(turns, threshold, truth.in_domain if truth else frozenset(), refused)

    def _tuned(self, turns: Mapping[Key, Turn]) -> Threshold:
        """Tunes the threshold on --dev."""
        assert self.dev is not None
        in_folder = self.sources if self.sources and as_path(self.sources.reference).is_dir() else None
        if in_folder and self.dev_split == in_folder.split:
            reason = (
                f"--dev contains turns of {self.dev_split}, too: a threshold must not be tuned on the turns that "
                "are scored"
            )
            raise InputError(reason, "--dev_split")
        if not in_folder and as_path(self.dev) == as_path(self.predictions):
            reason = "is the same as --predictions: a threshold must not be tuned on the turns that are scored"
            raise InputError(reason, self.dev, "--dev")
        truth = read_truth(msgspec.structs.replace(in_folder, split=self.dev_split), self.chosen) if in_folder else None
        dev, _ = read_turns(self.dev, self.dev_split, truth)
        for path, read in ((self.predictions, turns), (self.dev, dev)):
            if any(turn.score is None for turn in read.values()):
                raise InputError("the rows have no score, which --dev requires to tune a threshold", path)
        threshold = tune(list(dev.values()))
        if threshold is None:
            raise InputError("no turn is ood, so no threshold can be tuned", self.dev)
        return threshold

    def score(self, inputs: Detections, stage: Stage) -> Result:
        """Computes precision, recall, F1 and areas, by set."""
        metrics, sizes = evaluate(inputs)
        predicted = any(turn.predicted is not None for turn in inputs.turns.values())
        note = about_threshold(inputs.threshold, predicted)
        details = {"groups": sizes, "threshold": inputs.threshold, "predicted": predicted}
        page = report(inputs, metrics, sizes, note)
        results = results_of("ood", metrics, {name: size["turns"] for name, size in sizes.items()})
        return Result(
            files=files_of(metrics, results, details, _rows(inputs), page),
            summary=[
                *(
                    line(name, values, SHORT if "f1" in values else {"accuracy": "accuracy"}, 1)
                    + (f"; {text.counted(sizes[name]['turns'], 'turn')}" if name in sizes else "")
                    for name, values in metrics.items()
                ),
                note,
            ],
            options={
                "split": self.sources.split if self.sources else None,
                "dev_split": self.dev_split,
                **({"sets": [name for name in sizes if name != ALL]} if len(sizes) > 1 else {}),
            },
            counts={"turns": len(inputs.turns)},
            refused=inputs.refused,
        )


def tune(turns: Sequence[Turn]) -> Threshold | None:
    """Returns the threshold with the highest F1, for turns with scores; None if no turn is out of domain."""
    items = _scored(turns)
    value = best_threshold(curve_of(items))
    if value is None:
        return None
    f1 = precision_recall_f1((positive, score >= value) for score, positive in items)[2]
    return Threshold(value, f1, len(turns))


def _scored(turns: Iterable[Turn]) -> list[ScoredItem]:
    return [(turn.score, turn.ood) for turn in turns if turn.score is not None]


def evaluate(detections: Detections) -> tuple[Metrics, dict[str, dict[str, int]]]:
    """Computes (``metrics.json``, the size of each group)."""
    metrics: Metrics = {}
    sizes = {}
    for name, keys in groups_of(detections.turns).items():
        turns = [detections.turns[key] for key in keys]
        metrics[name] = metrics_of(turns, list(map(detections.predicted, turns)))
        if name in detections.in_domain:  # no turn is out of domain
            metrics[name] = {"accuracy": metrics[name]["accuracy"]}
        sizes[name] = {"turns": len(turns), "ood": sum(turn.ood for turn in turns)}
    return with_mean(metrics), sizes


def metrics_of(turns: Sequence[Turn], predicted: Sequence[bool | None]) -> dict[str, float | None]:
    """Computes ``METRICS`` for at least one turn; None for undefined metrics."""
    metrics: dict[str, float | None] = dict.fromkeys(METRICS)
    if predicted[0] is not None:
        pairs = [(turn.ood, bool(guess)) for turn, guess in zip(turns, predicted, strict=True)]
        metrics["accuracy"] = sum(positive == guess for positive, guess in pairs) / len(turns)
        metrics["precision"], metrics["recall"], metrics["f1"] = precision_recall_f1(pairs)
    if turns[0].score is not None:
        curve = curve_of(_scored(turns))
        metrics |= {"auroc": auroc(curve), "aupr": aupr(curve), "fpr95": fpr95(curve)}
    return metrics


def _rows(detections: Detections) -> bytes:
    keys = sorted(detections.turns)
    turns = [detections.turns[key] for key in keys]
    predicted = list(map(detections.predicted, turns))
    right = [None if guess is None else float(guess == turn.ood) for turn, guess in zip(turns, predicted, strict=True)]
    names = {True: OOD, False: IN_DOMAIN, None: None}
    return rows_bytes(
        keys,
        {"accuracy": right, "score": [turn.score for turn in turns]},
        {
            "label": [OOD if turn.ood else IN_DOMAIN for turn in turns],
            "predicted": [names[guess] for guess in predicted],
            "utterance": [turn.utterance for turn in turns],
        },
    )


def about_threshold(threshold: Threshold | None, predicted: bool) -> str:
    """Describes how turns are classified, in a sentence."""
    if threshold is not None:
        return (
            f"Positive from a score of {threshold.value:.6g}, the threshold of the highest F1 "
            f"({text.percent(threshold.f1, 2)}) on the {threshold.turns:,} turns of --dev; of equal ones the highest."
        )
    if predicted:
        return "Precision, recall and F1 are those of the predicted labels."
    return "No precision, recall or F1: there is neither a file to tune a threshold on (--dev) nor a predicted label."


def report(
    detections: Detections,
    metrics: Metrics,
    sizes: Mapping[str, Mapping[str, int]],
    note: str,
) -> Report:
    """Makes the report: scores by set, and the turns with the worst scores."""
    headings = {
        name: label
        for name, label in HEADINGS.items()
        if any(values.get(name) is not None for values in metrics.values())
    }
    chart = "f1" if "f1" in headings else "auroc"
    return set_report(
        metrics,
        {**headings, "turns": "turns", "ood": "out-of-domain"},
        sizes=sizes,
        sections=worst(detections),
        tiles=headings,
        chart={chart: HEADINGS[chart]},
        overall=MEAN if MEAN in metrics else ALL,
        terms=TERMS,
        refused=detections.refused,
        title="Out-of-domain detection",
        headline="Out-of-domain detection",
        lead=f"{text.counted(sizes[ALL]['turns'], 'turn')}, {sizes[ALL]['ood']:,} of them out-of-domain. Positive is "
        "out-of-domain; a high score speaks for out-of-domain.",
        notes=[note],
    )


def worst(detections: Detections) -> list[Table]:
    """Lists the turns of each class with the worst scores; without scores, the wrong ones."""
    tables = []
    turns = detections.turns
    for ood in (True, False):
        keys = [key for key in sorted(turns) if turns[key].ood == ood]
        wrong = {key: "yes" for key in keys if detections.predicted(turns[key]) not in (None, ood)}
        if keys and turns[keys[0]].score is not None:
            sign = 1 if ood else -1
            keys.sort(key=lambda key: (turns[key].score or 0.0) * sign)
        else:
            keys = list(wrong)
        rows = [
            [f"{key[1]}, {key[2]}", key[0], turns[key].utterance, wrong.get(key, ""),
             "" if (score := turns[key].score) is None else f"{score:.6g}"]
            for key in keys[:EXAMPLES]
        ]  # fmt: skip
        if rows:
            note = f"The first {len(rows):,} of {len(keys):,}, the worst scores first; {len(wrong):,} are wrong."
            title = "Out-of-domain turns" if ood else "In-domain turns"
            columns = ["turn", "set", "utterance", "wrong", "score"]
            tables.append(Table(title=title, note=note, columns=columns, rows=rows, text_columns=4, in_card=False))
    return tables
