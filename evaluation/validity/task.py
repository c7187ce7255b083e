"""The task: validity of perturbed sets by what a machine can check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from parapet.evaluation.bootstrap import interval, means, replicated
from parapet.evaluation.lines import ALL, groups_of, with_mean
from parapet.evaluation.sets import Sources
from parapet.evaluation.task import Metrics, Result, Stage, Task, files_of
from parapet.evaluation.validity.checks import (
    METRICS,
    Check,
    LabelModel,
    check,
    compared_form,
    load_classifier,
    lost_by_slot,
    predict_labels,
)
from parapet.evaluation.validity.page import report
from parapet.evaluation.validity.results import Details, GroupDetails
from parapet.evaluation.validity.turns import Pairs, read_pairs
from parapet.evaluation.writing import rows_bytes
from parapet.transforms import text

SHOWN_CHANGES = 20


class Inputs(NamedTuple):
    """The user turns, and the classifier, where there is one."""

    pairs: Pairs
    model: LabelModel | None


class Validity(Task[Inputs], frozen=True, kw_only=True):
    """``parapet evaluate --task validity``.

    Attributes:
      sources: the original and its sets.
      classifier: a folder of ``parapet train classifier``, or None.
      seed: of the bootstrap.
    """

    name = "evaluate_validity"

    sources: Sources
    classifier: str | None = None
    seed: str = "0"

    def inputs(self) -> dict[str, str | None]:
        """The corpora, and the classifier."""
        return {**self.sources.inputs(), "classifier": self.classifier}

    def read(self) -> Inputs:
        """The user turns of all sets beside the original's. Raises InputError where they cannot be compared."""
        model = load_classifier(self.classifier) if self.classifier is not None else None
        return Inputs(read_pairs(self.sources), model)

    def score(self, inputs: Inputs, stage: Stage) -> Result:
        """Checks every pair."""
        pairs, labels = inputs.pairs, None
        if inputs.model is not None:
            stage("classify turns")
            labels = predict_labels(inputs.model, pairs.pairs)
        stage("check turns")
        form, spoken = compared_form()
        checks = [check(pair, labels, form) for pair in pairs.pairs]
        metrics, groups = evaluate(checks, pairs.sets, labels is not None, self.seed)
        details = Details(
            labels=labels.task if labels else None, spoken=spoken, missing_dialogues=pairs.missing, groups=groups,
            bad_spans=pairs.bad_spans,
        )  # fmt: skip
        return Result(
            files=files_of(metrics, details, _rows(checks), report(checks, metrics, details)),
            summary=_summary(metrics, details),
            options={
                "split": self.sources.split,
                "sets": pairs.sets,
                "labels": details.labels,
                "spoken": spoken,
                "seed": self.seed,
            },
            counts={"turns": len(checks), "changed": sum(one.pair.changed for one in checks)},
            warnings=_warnings(pairs, spoken),
        )


def evaluate(
    checks: Sequence[Check], sets: Sequence[str], classified: bool, seed: str
) -> tuple[Metrics, dict[str, GroupDetails]]:
    """(``metrics.json``, details) of each set, and of all.

    Args:
      checks: of all pairs.
      sets: the names of the sets, in order.
      classified: whether there is a classifier; without it, its metrics are left out.
      seed: of the bootstrap over dialogues.
    """
    names = METRICS if classified else METRICS[:-3]
    by_key = {(one.pair.set, *one.pair.place): one for one in checks}
    groups = groups_of(by_key)
    metrics: Metrics = {}
    details = {}
    for group in (ALL, *sets):
        of_group = [by_key[key] for key in groups.get(group, ())]
        values = [one.values() for one in of_group]
        columns = {name: [row[name] for row in values] for name in names}
        metrics[group] = {name: _mean(column) for name, column in columns.items()}
        details[group] = _details(of_group, columns, seed)
    return with_mean(metrics), details


def _mean(column: Sequence[float | None]) -> float | None:
    known = [value for value in column if value is not None]
    return sum(known) / len(known) if known else None


def _details(checks: Sequence[Check], columns: Mapping[str, Sequence[float | None]], seed: str) -> GroupDetails:
    dialogues = [one.pair.dialogue_id for one in checks]
    nan = float("nan")
    statistics = [(dialogues, [nan if v is None else v for v in column]) for column in columns.values()]
    replicates = means(replicated(seed, statistics))
    wanted = sum(len(one.pair.wanted) for one in checks)
    changes = Counter(one.predicted for one in checks if one.predicted and one.predicted[0] != one.predicted[1])
    return GroupDetails(
        user_turns=len(checks),
        changed=sum(one.pair.changed for one in checks),
        values=wanted,
        values_found=wanted - sum(len(one.lost) for one in checks),
        values_found_fuzzy=wanted - sum(len(one.lost_fuzzy) for one in checks),
        lost_by_slot=lost_by_slot(checks),
        changed_labels=[
            (before, after, n)
            for (before, after), n in sorted(changes.items(), key=lambda pair: (-pair[1], pair[0]))[:SHOWN_CHANGES]
        ],
        intervals={name: interval(replicates[:, i]) for i, name in enumerate(columns)},
    )


def _rows(checks: Sequence[Check]) -> bytes:
    values = [one.values() for one in checks]
    return rows_bytes(
        [(one.pair.set, *one.pair.place) for one in checks],
        {name: [row[name] for row in values] for name in METRICS},
        {
            "original": [one.pair.original.utterance for one in checks],
            "utterance": [one.pair.utterance for one in checks],
            "lost": ["; ".join(wanted.text for wanted in one.lost) for one in checks],
            "other_states": [", ".join(one.pair.other_states) for one in checks],
            "label": [one.label or None for one in checks],
            "predicted_original": [one.predicted[0] if one.predicted else None for one in checks],
            "predicted": [one.predicted[1] if one.predicted else None for one in checks],
        },
    )


def _summary(metrics: Metrics, details: Details) -> list[str]:
    lines = []
    for name, group in details.groups.items():
        if name == ALL:
            continue
        values = metrics[name]
        share = group.values_found / group.values if group.values else None
        line = f"{name}: {text.percent(values['changed'])} of {text.counted(group.user_turns, 'user turn')} changed"
        line += f", {text.percent(share)} of {text.counted(group.values, 'value')} kept"
        if details.labels:
            line += f", same {details.labels} predicted for {text.percent(values['same_label'])}"
        lines.append(line)
    return lines


def _warnings(pairs: Pairs, spoken: bool) -> list[str]:
    warnings = [
        f"{name}: lacks {text.counted(n, 'dialogue')} of the reference" for name, n in pairs.missing.items() if n
    ]
    if pairs.bad_spans:
        n = text.counted(pairs.bad_spans, "user turn")
        warnings.append(f"{n} of the reference with a span outside the text: their values are not checked")
    if not spoken:
        warnings.append("numbers are compared as they are written: spoken forms need the extra 'speech'")
    return warnings
