"""The task: validity of perturbed sets, by what a machine can check and by what people say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from parapet.evaluation.bootstrap import interval, means, replicated
from parapet.evaluation.ratings.answers import (
    Answers,
    Hits,
    answer_counts,
    answer_files,
    answer_warnings,
    read_answers,
    read_hits,
    why_none,
)
from parapet.evaluation.sets import ALL, Sources, groups_of, with_mean
from parapet.evaluation.task import Metrics, Result, Stage, Task, files_of, rows_bytes
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
from parapet.evaluation.validity.people import METRICS as PEOPLE
from parapet.evaluation.validity.people import OF_ROWS, Crowd, Details, GroupDetails, Judged, judge, short_of, summed_up
from parapet.evaluation.validity.turns import Pairs, read_pairs
from parapet.schemas.errors import InputError
from parapet.transforms import text
from parapet.transforms.crowd.worker_ids import load_worker_key
from parapet.transforms.hits.records import Place, VariedItem
from parapet.transforms.hits.terms import VALIDITY

SHOWN_CHANGES = 20


class Asked(NamedTuple):
    """What people were asked, what they answered, and what they say of each turn."""

    hits: Hits[VariedItem]
    answers: Answers
    judged: dict[Place, Judged]


class Inputs(NamedTuple):
    """The user turns; the classifier; and what people have answered of some of them, where they were asked."""

    pairs: Pairs
    model: LabelModel | None
    asked: Asked | None


class Validity(Task[Inputs], frozen=True, kw_only=True):
    """``parapet evaluate --task validity``.

    Attributes:
      sources: the original and its sets.
      classifier: a folder of ``parapet train classifier``, or None.
      hits: the folder of ``parapet hits --task validity``, or None; ``responses`` the answers to its pages, of
        ``encoding`` where they have no byte order mark.
      seed: of the bootstrap.
    """

    name = "evaluate_validity"

    sources: Sources
    classifier: str | None = None
    hits: str | None = None
    responses: tuple[str, ...] = ()
    encoding: str = "utf-8"
    seed: str = "0"

    def inputs(self) -> dict[str, str | None]:
        """The corpora, the classifier, the pages and the answers to them."""
        responses = {f"responses/{i}": path for i, path in enumerate(self.responses, 1)}
        return {**self.sources.inputs(), "classifier": self.classifier, "hits": self.hits, **responses}

    def read(self) -> Inputs:
        """The user turns of all sets beside the original's. Raises InputError where they cannot be compared."""
        model = load_classifier(self.classifier) if self.classifier is not None else None
        pairs = read_pairs(self.sources)
        return Inputs(pairs, model, self._read_answers(pairs) if self.hits is not None else None)

    def _read_answers(self, pairs: Pairs) -> Asked:
        assert self.hits is not None
        hits = read_hits(self.hits, VALIDITY)
        answers = read_answers(self.responses, hits, load_worker_key(), self.encoding)
        return Asked(hits, answers, judge(hits, answers, pairs.pairs, self.hits))

    def score(self, inputs: Inputs, stage: Stage) -> Result:
        """Checks every pair. Raises InputError where people were asked and no answer can be used."""
        pairs, labels, asked = inputs.pairs, None, inputs.asked
        if asked is not None and not any(one.same for one in asked.judged.values()):
            raise InputError(f"no answer can be used: {why_none(asked.answers)}", ", ".join(self.responses))
        if inputs.model is not None:
            stage("classify turns")
            labels = predict_labels(inputs.model, pairs.pairs)
        stage("check turns")
        form, spoken = compared_form()
        checks = [check(pair, labels, form) for pair in pairs.pairs]
        metrics, groups = evaluate(checks, pairs.sets, labels is not None, self.seed)
        judged = asked.judged if asked is not None else {}
        people = _add_people(metrics, asked, self.seed) if asked is not None else None
        details = Details(labels.task if labels else None, spoken, pairs.missing, pairs.bad_spans, groups, people)
        metrics = with_mean(metrics)
        files = files_of(metrics, details, _rows(checks, judged), report(checks, judged, metrics, details))
        warnings = _warnings(pairs, spoken)
        if asked is not None:
            short = short_of(judged)
            files |= answer_files(asked.hits, asked.answers, short)
            warnings += answer_warnings(len(short), asked.answers)
        return Result(
            files=files,
            summary=_summary(metrics, details),
            options={
                "split": self.sources.split,
                "sets": pairs.sets,
                "labels": details.labels,
                "spoken": spoken,
                "seed": self.seed,
            },
            counts={"turns": len(checks), "changed": sum(one.pair.changed for one in checks)},
            warnings=warnings,
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
    return metrics, details


def _add_people(metrics: Metrics, asked: Asked, seed: str) -> Crowd:
    """Adds what people say to the metrics of each set that they were asked about; the details of it."""
    names = [name for name in PEOPLE if name != "naturalness" or asked.hits.naturalness]
    groups = {}
    for group in metrics:
        judged = [one for one in asked.judged.values() if group in (ALL, one.item.stratum)]
        if judged:
            found, groups[group] = summed_up(judged, seed)
            metrics[group] |= {name: found[name] for name in names}
    return Crowd(asked.hits.raters, groups=groups, **answer_counts(asked.answers))


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


def _rows(checks: Sequence[Check], judged: Mapping[Place, Judged]) -> bytes:
    keys = [(one.pair.set, *one.pair.place) for one in checks]
    values = [
        one.values() | (judged[key].values() if key in judged else {}) for key, one in zip(keys, checks, strict=True)
    ]
    return rows_bytes(
        keys,
        {name: [row.get(name) for row in values] for name in (*METRICS, *(OF_ROWS if judged else ()))},
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
        if "human_valid" in values:
            assert details.people is not None
            pairs = text.counted(details.people.groups[name].pairs, "turn")
            line += f"; people find {text.percent(values['human_valid'])} of {pairs} valid, "
            line += f"Fleiss' kappa {text.number(values['fleiss_kappa'], 2)}"
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
