"""Detection of out-of-domain turns: metrics by set, with a threshold tuned on other turns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from parapet.evaluation.lines import ALL, MEAN, Key, groups_of, with_mean
from parapet.evaluation.ood import curves
from parapet.evaluation.ood.reading import IN_DOMAIN, OOD, Turn, read_truth, read_turns
from parapet.evaluation.sets import Sources
from parapet.evaluation.task import Metrics, Result, Stage, Task, files_of, line, set_report
from parapet.evaluation.writing import rows_bytes, sha256_of
from parapet.schemas.errors import InputError
from parapet.schemas.layout import TEST, as_path
from parapet.transforms import text
from parapet.transforms.report import Report, Table

Class = Literal["ood", "in_domain"]

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
SHORT = {name: HEADINGS[name] for name in METRICS[3:]}  # on the terminal
_CLASSES = {OOD: "out-of-domain", IN_DOMAIN: "in-domain"}
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


class Orientation(msgspec.Struct, frozen=True):
    """Which class is positive, and which one a high score speaks for."""

    positive: Class = "ood"
    high: Class = "ood"

    def is_positive(self, turn: Turn) -> bool:
        """Whether a turn is of the positive class."""
        return turn.ood == (self.positive == OOD)

    def score(self, turn: Turn) -> float:
        """The turn's score for the positive class. The turn must have one."""
        assert turn.score is not None
        # Not -0.0, which would look different in the outputs.
        return turn.score if self.positive == self.high else 0.0 - turn.score

    def predicted_positive(self, turn: Turn, threshold: float | None) -> bool | None:
        """Whether a turn is taken for positive: by the threshold, else by its predicted label, None without either."""
        if threshold is not None:
            return self.score(turn) >= threshold
        return None if turn.predicted is None else turn.predicted == (self.positive == OOD)


class Threshold(msgspec.Struct, frozen=True):
    """The threshold from which on a turn is positive.

    Attributes:
      value: in terms of the positive class's score.
      f1: that it has on the turns on which it was tuned; ``turns`` how many they are.
    """

    value: float
    f1: float
    turns: int


class Detections(msgspec.Struct, frozen=True):
    """The turns by key, with their labels and scores, and the threshold if one was tuned.

    Attributes:
      in_domain: sets of corpora without labels, all of whose turns are in-domain.
    """

    turns: dict[Key, Turn]
    threshold: Threshold | None = None
    in_domain: frozenset[str] = frozenset()

    @property
    def cut(self) -> float | None:
        """The threshold's value."""
        return None if self.threshold is None else self.threshold.value


class OodDetection(Task[Detections], frozen=True, kw_only=True):
    """``parapet evaluate --task ood``.

    Attributes:
      predictions: JSON lines with scores or predicted labels, or a folder of them for each set.
      sources: the sets; their reference is what ``parapet ood`` wrote, a corpus, or JSON lines. None where the
        predictions have the labels.
      chosen: of what ``parapet ood`` wrote the sets that are scored, all where none is named.
      dev: predictions on other turns, on which a threshold is tuned; ``dev_split`` their split.
      orientation: the positive class, and that of high scores.
    """

    name = "evaluate_ood"

    predictions: str
    sources: Sources | None = None
    chosen: tuple[str, ...] = ()
    dev: str | None = None
    dev_split: str = "dev"
    orientation: Orientation = Orientation()

    def inputs(self) -> dict[str, str | None]:
        """The files and folders."""
        sources = self.sources.inputs() if self.sources else {}
        return {"predictions": self.predictions, **sources, "dev": self.dev}

    def read(self) -> Detections:
        """Reads the turns, and tunes the threshold. Raises InputError where that is not possible or not fair."""
        sources = self.sources
        truth = read_truth(sources, self.chosen) if sources else None
        turns = read_turns(self.predictions, sources.split if sources else TEST, truth)
        threshold = self._tuned(turns) if self.dev else None
        return Detections(turns, threshold, truth.in_domain if truth else frozenset())

    def _tuned(self, turns: Mapping[Key, Turn]) -> Threshold:
        """The threshold that is best on --dev."""
        assert self.dev is not None
        in_folder = self.sources if self.sources and as_path(self.sources.reference).is_dir() else None
        if in_folder and self.dev_split == in_folder.split:
            reason = f"--dev is of {self.dev_split} too: a threshold is not tuned on what is scored"
            raise InputError(reason, "--dev_split")
        if not in_folder and _same(self.dev, self.predictions):
            reason = "is the same as --predictions: a threshold is not tuned on what is scored"
            raise InputError(reason, self.dev, "--dev")
        truth = read_truth(msgspec.structs.replace(in_folder, split=self.dev_split), self.chosen) if in_folder else None
        dev = read_turns(self.dev, self.dev_split, truth)
        for path, read in ((self.predictions, turns), (self.dev, dev)):
            if any(turn.score is None for turn in read.values()):
                raise InputError("the rows have no score, and --dev needs one to tune a threshold on", path)
        threshold = tune(list(dev.values()), self.orientation)
        if threshold is None:
            raise InputError(f"no turn is {self.orientation.positive}: no threshold can be tuned on it", self.dev)
        return threshold

    def score(self, inputs: Detections, stage: Stage) -> Result:
        """Precision, recall, F1 and areas, by set."""
        metrics, sizes = evaluate(inputs, self.orientation)
        predicted = any(turn.predicted is not None for turn in inputs.turns.values())
        note = about_threshold(inputs.threshold, predicted)
        details = {"groups": sizes, "threshold": inputs.threshold, "predicted": predicted}
        page = report(inputs, metrics, sizes, note, self.orientation)
        return Result(
            files=files_of(metrics, details, _rows(inputs, self.orientation), page),
            summary=[
                *(
                    line(name, values, SHORT if "f1" in values else {"accuracy": "accuracy"}, 1)
                    + (f"; {text.counted(sizes[name]['turns'], 'turn')}" if name in sizes else "")
                    for name, values in metrics.items()
                ),
                note,
            ],
            options={
                "positive": self.orientation.positive,
                "high": self.orientation.high,
                "split": self.sources.split if self.sources else None,
                "dev_split": self.dev_split,
                **({"sets": [name for name in sizes if name != ALL]} if len(sizes) > 1 else {}),
            },
            counts={"turns": len(inputs.turns)},
        )


def _same(dev: str, predictions: str) -> bool:
    """Whether two files have one content."""
    paths = as_path(dev), as_path(predictions)
    return all(path.is_file() for path in paths) and sha256_of(paths[0]) == sha256_of(paths[1])


def tune(turns: Sequence[Turn], orientation: Orientation) -> Threshold | None:
    """The threshold of the highest F1 over turns that all have a score; None where no turn is positive."""
    items = _scored(turns, orientation)
    value = curves.best_threshold(curves.points_of(items))
    if value is None:
        return None
    f1 = curves.precision_recall_f1((positive, score >= value) for score, positive in items)[2]
    return Threshold(value, f1, len(turns))


def _scored(turns: Iterable[Turn], orientation: Orientation) -> list[curves.Scored]:
    return [(orientation.score(turn), orientation.is_positive(turn)) for turn in turns]


def evaluate(detections: Detections, orientation: Orientation) -> tuple[Metrics, dict[str, dict[str, int]]]:
    """(``metrics.json``, the size of each group)."""
    metrics: Metrics = {}
    sizes = {}
    for name, keys in groups_of(detections.turns).items():
        turns = [detections.turns[key] for key in keys]
        metrics[name] = metrics_of(turns, orientation, detections.cut)
        if name in detections.in_domain:  # there is nothing to find
            metrics[name] = {"accuracy": metrics[name]["accuracy"]}
        sizes[name] = {"turns": len(turns), "ood": sum(turn.ood for turn in turns)}
    return with_mean(metrics), sizes


def metrics_of(turns: Sequence[Turn], orientation: Orientation, threshold: float | None) -> dict[str, float | None]:
    """``METRICS`` of turns, of which there is at least one; None where one is not defined."""
    metrics: dict[str, float | None] = dict.fromkeys(METRICS)
    truth = [orientation.is_positive(turn) for turn in turns]
    predicted = [orientation.predicted_positive(turn, threshold) for turn in turns]
    if predicted[0] is not None:
        pairs = [(positive, bool(guess)) for positive, guess in zip(truth, predicted, strict=True)]
        metrics["accuracy"] = sum(positive == guess for positive, guess in pairs) / len(turns)
        metrics["precision"], metrics["recall"], metrics["f1"] = curves.precision_recall_f1(pairs)
    if turns[0].score is not None:
        points = curves.points_of(_scored(turns, orientation))
        metrics |= {"auroc": curves.auroc(points), "aupr": curves.aupr(points), "fpr95": curves.fpr95(points)}
    return metrics


def _rows(detections: Detections, orientation: Orientation) -> bytes:
    keys = sorted(detections.turns)
    turns = [detections.turns[key] for key in keys]
    predicted = [orientation.predicted_positive(turn, detections.cut) for turn in turns]
    right = [
        None if guess is None else float(guess == orientation.is_positive(turn))
        for turn, guess in zip(turns, predicted, strict=True)
    ]
    negative = IN_DOMAIN if orientation.positive == OOD else OOD
    names = {True: orientation.positive, False: negative, None: None}
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
    """Where precision, recall and F1 come from, in a sentence."""
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
    orientation: Orientation,
) -> Report:
    """The report: by set, and the turns that were furthest off."""
    headings = {
        name: label
        for name, label in HEADINGS.items()
        if any(values.get(name) is not None for values in metrics.values())
    }
    chart = "f1" if "f1" in headings else "auroc"
    classes = _CLASSES[orientation.positive], _CLASSES[orientation.high]
    return set_report(
        metrics,
        {**headings, "turns": "turns", "ood": "out-of-domain"},
        sizes=sizes,
        sections=worst(detections, orientation),
        tiles=headings,
        chart={chart: HEADINGS[chart]},
        overall=MEAN if MEAN in metrics else ALL,
        terms=TERMS,
        title="Out-of-domain detection",
        headline="Out-of-domain detection",
        lead=f"{text.counted(sizes[ALL]['turns'], 'turn')}, {sizes[ALL]['ood']:,} of them out-of-domain. Positive is "
        f"{classes[0]}; a high score speaks for {classes[1]}.",
        notes=[note],
    )


def worst(detections: Detections, orientation: Orientation) -> list[Table]:
    """The turns of each class whose scores are furthest on the wrong side; without scores, those that are wrong."""
    tables = []
    turns, cut = detections.turns, detections.cut
    for ood in (True, False):
        keys = [key for key in sorted(turns) if turns[key].ood == ood]
        wrong = {
            key: "yes"
            for key in keys
            if orientation.predicted_positive(turns[key], cut) not in (None, orientation.is_positive(turns[key]))
        }
        if keys and turns[keys[0]].score is not None:
            sign = 1 if ood == (orientation.high == OOD) else -1
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
