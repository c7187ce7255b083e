"""The task of validity of perturbed sets, by automatic checks and human judgements; and its page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from parapet.evaluation.bootstrap import dialogues_of, means, replicated, share_interval
from parapet.evaluation.ratings.judgements import EXPLANATIONS, Answers, Judged, read_answers, read_hits, summed_up
from parapet.evaluation.ratings.task import OUTPUTS, with_interval
from parapet.evaluation.sets import ALL, Sources, groups_of, with_mean
from parapet.evaluation.task import FILES, Metrics, Result, Stage, Task, files_of, rows_bytes
from parapet.evaluation.validity.turns import (
    FUZZY,
    METRICS,
    OF_ROWS,
    Check,
    Crowd,
    Details,
    GroupDetails,
    LabelModel,
    Pairs,
    PeopleDetails,
    check,
    check_same_turns,
    compared_form,
    judged_values,
    load_classifier,
    lost_by_slot,
    predict_labels,
    read_pairs,
)
from parapet.schemas.errors import InputError
from parapet.transforms.crowd.hits.judged import SAME, VALUES
from parapet.transforms.crowd.hits.page import Place, VariedItem
from parapet.transforms.crowd.hits.terms import VALIDITY
from parapet.transforms.crowd.report import dead_letters_note, reasons_tables
from parapet.transforms.reports import text
from parapet.transforms.reports.report import Dot, Dots, Example, Examples, Line, Part, Report, Section, Table, Tile

PEOPLE_HEADS = {
    "human_valid": "valid",
    "human_same": "the same",
    "human_values": "all values",
    "naturalness": "naturalness",
    "observed_agreement": "agreement",
    "fleiss_kappa": "Fleiss' kappa",
    "krippendorff_alpha": "Krippendorff's alpha",
}
PEOPLE_TERMS = {
    "Valid": "Turns that say the same as the original and, where it has values, all of these, as more than half of the "
    "wanted workers find; of turns with a majority. The interval is Wilson's.",
    "Agreement": "The share of pairs of workers with one answer to whether a turn says the same; of turns with all "
    "wanted ratings.",
    "Naturalness": "The mean over turns of their mean rating, 1 to 5.",
    "Fleiss' kappa": "Agreement of the workers beyond chance on whether a turn says the same (Fleiss 1971), over turns "
    "with all wanted ratings: 1 is full agreement, 0 is chance, and near 0 where nearly all turns say the same.",
    "Krippendorff's alpha": "The same over all turns with two ratings or more.",
}
_NUMBERS = ("naturalness", "fleiss_kappa", "krippendorff_alpha")  # metrics that are no shares
EXAMPLES = 12  # examples for each set and check

TERMS = {
    "Changed": "User turns whose text is not the original's. The other columns, states aside, are of them.",
    "Values kept": "Changed turns with annotated values in which all of these stand letter for letter, as words of "
    "their own. Where a set has other values than the original, as unseen entities do, it is the set's that count.",
    "Nearly kept": f"The same where it is enough that a piece of the turn resembles the value, by {FUZZY} of 100 "
    "(Indel similarity); numbers and times are compared as they are spoken, where the extra `speech` is installed.",
    "States equal": "User turns, changed or not, whose dialogue states are the original's.",
    "Same label": "Changed turns for which the classifier predicts the same of the original and of the varied text.",
    "Accuracy": "Changed turns for which it predicts the right label, of the original and of the varied text.",
}
HEADS = {
    "changed": "changed",
    "states_equal": "states equal",
    "values_kept": "values kept",
    "values_kept_fuzzy": "nearly kept",
    "same_label": "same label",
    "accuracy_original": "accuracy, original",
    "accuracy": "accuracy, varied",
}


JudgedTurns = Mapping[Place, Judged[VariedItem]]
# returns the lines that describe how a turn fails; empty if it does not
Failing = Callable[[Check], Sequence[tuple[str, str]]]


def report(checks: Sequence[Check], judged: JudgedTurns, metrics: Metrics, details: Details) -> Report:
    """Makes the report: numbers of each set, human judgements, lost values, and turns that fail a check."""
    sets = [name for name in details.groups if name != ALL]
    of_all, everything = metrics[ALL], details.groups[ALL]
    names = [name for name in HEADS if name in of_all]
    labels_name = {"acts": "dialogue acts"}.get(details.labels or "", details.labels or "")
    sections: list[Section] = [
        _sets_table(sets, names, metrics, details, labels_name),
        _dots("Changed turns with all values, letter for letter", "values_kept", sets, metrics, details),
    ]
    if labels_name:
        title = f"Changed turns for which the same {labels_name} is predicted"
        sections.append(_dots(title, "same_label", sets, metrics, details))
    if details.people is not None:
        sections.append(_people_table(sets, metrics, details.people))
    sections.append(_values_table(sets, details))
    changes = [
        [name, before, after, f"{n:,}"] for name in sets for before, after, n in details.groups[name].changed_labels
    ]
    if changes:
        columns = ["set", "predicted of the original", "of the varied text", "user turns"]
        title = "Predictions that change"
        sections.append(
            Table(title=title, columns=columns, rows=changes, text_columns=3, numbers_in="details.json", in_card=False)
        )
    for name in sets:
        of_set = [checked for checked in checks if checked.pair.set == name]
        sections += _examples(f"Turns of {name} that people do not find valid", of_set, partial(_not_valid, judged))
        sections += _examples(f"Values lost in {name}", of_set, _lost)
        sections += _examples(f"Values that {name} says in another form", of_set, _in_another_form)
        sections += _examples(f"Turns of {name} with another prediction", of_set, _relabelled)
    notes: list[str] = []
    if details.people is not None:
        sections += reasons_tables(details.people.reasons, EXPLANATIONS, "Answers that do not count")
        notes = dead_letters_note(details.people.dead_letters)
    return Report(
        command="evaluate",
        title="Validity",
        headline=f"{text.percent(of_all['values_kept'])} of changed turns keep all values letter for letter",
        lead=f"{', '.join(sets)}: {everything.changed:,} of {everything.user_turns:,} user turns changed.",
        tiles=[Tile(HEADS[name], text.percent(of_all[name])) for name in names],
        sections=sections,
        terms={**_terms(bool(labels_name)), **(PEOPLE_TERMS if details.people else {})},
        notes=notes,
        links={**FILES, **(OUTPUTS if details.people else {})},
    )


def _terms(classified: bool) -> dict[str, str]:
    return {term: meaning for term, meaning in TERMS.items() if classified or term not in ("Same label", "Accuracy")}


def _people_table(sets: Sequence[str], metrics: Metrics, people: Crowd) -> Table:
    names = [name for name in PEOPLE_HEADS if any(name in metrics[group] for group in people.groups)]

    def cell(group: str, name: str) -> str:
        form = text.percent if name not in _NUMBERS else lambda value: text.number(value, 2)
        return with_interval(metrics[group][name], people.groups[group].intervals.get(name), form)

    rows = [
        [
            name,
            *(cell(name, metric) for metric in names),
            f"{people.groups[name].pairs:,}",
            f"{people.groups[name].majorities:,}",
        ]
        for name in sets
        if name in people.groups
    ]
    used, every = people.answers.get("used", 0), sum(people.answers.values())
    return Table(
        title="What people say",
        columns=["set", *(PEOPLE_HEADS[name] for name in names), "turns", "with a majority"],
        rows=rows,
        note=f"{text.counted(people.raters, 'worker')} for each turn, {text.counted(people.workers, 'worker')} in all; "
        f"{used:,} of {text.counted(every, 'answer')} count. Intervals of 95 %.",
        numbers_in="details.json",
    )


def _not_valid(judged: JudgedTurns, one: Check) -> Sequence[tuple[str, str]]:
    judgement = judged.get(one.pair.place)
    if judgement is None or judged_values(judgement)["human_valid"] != 0:
        return []
    questions = (("the same", SAME), ("all values", VALUES))
    counts = [
        (question_text, judgement.counts(question)[0], len(judgement.votes[question]))
        for question_text, question in questions
    ]
    return [("people", ", ".join(f"{question_text}: {yes} of {n}" for question_text, yes, n in counts if n))]


def _sets_table(sets: Sequence[str], names: Sequence[str], metrics: Metrics, details: Details, what: str) -> Table:
    def cell(group: str, name: str) -> str:
        return with_interval(metrics[group][name], details.groups[group].intervals.get(name))

    return Table(
        title="Sets",
        columns=["set", "user turns", *(HEADS[name] for name in names)],
        rows=[
            [name, f"{details.groups[name].user_turns:,}", *(cell(name, metric) for metric in names)] for name in sets
        ],
        note="Intervals of 95 %, over dialogues." + (f" The classifier predicts {what}." if what else ""),
        numbers_in="metrics.json",
    )


def _values_table(sets: Sequence[str], details: Details) -> Table:
    rows = []
    for name in sets:
        group = details.groups[name]
        shares_here = (group.values_found, group.values_found_fuzzy)
        shares = [text.percent(n / group.values if group.values else None) for n in shares_here]
        lost = ", ".join(f"{slot} ({n:,})" for slot, n in [*group.lost_by_slot.items()][:5])
        rows.append([name, lost, f"{group.values:,}", *shares])
    columns = ["set", "slots that lose most, letter for letter", "values", "letter for letter", "nearly"]
    title = "Annotated values of changed turns"
    return Table(title=title, columns=columns, rows=rows, text_columns=2, numbers_in="details.json")


def _dots(title: str, metric: str, sets: Sequence[str], metrics: Metrics, details: Details) -> Dots:
    dots = [Dot(name, metrics[name][metric], *(details.groups[name].intervals[metric] or ())) for name in sets]
    return Dots(title=title, dots=dots)


def _examples(title: str, checks: Iterable[Check], failing: Failing) -> list[Section]:
    failed = [(checked, lines) for checked in checks if (lines := failing(checked))]
    examples = []
    for failed_turn, lines in failed[:EXAMPLES]:
        original, pair = failed_turn.pair.original, failed_turn.pair
        shown = [*original.before[-1:], ("ORIGINAL", original.utterance), (pair.set, pair.utterance), *lines]
        place = f"dialogue {pair.dialogue_id}, turn {pair.turn}"
        examples.append(Example(place, [Line(label, [Part(line)]) for label, line in shown]))
    note = f"{len(examples):,} of {text.counted(len(failed), 'user turn')}."
    return [Examples(title=title, note=note, examples=examples)] if examples else []


def _lost(one: Check) -> Sequence[tuple[str, str]]:
    return [("lost", wanted.text) for wanted in one.lost_fuzzy]


def _in_another_form(one: Check) -> Sequence[tuple[str, str]]:
    return [("value", wanted.text) for wanted in one.lost if wanted not in one.lost_fuzzy]


def _relabelled(one: Check) -> Sequence[tuple[str, str]]:
    if not one.predicted or one.predicted[0] == one.predicted[1]:
        return []
    return [("predicted", f"{one.predicted[0]}, then {one.predicted[1]}"), ("label", one.label or "none")]


SHOWN_CHANGES = 20


class Inputs(NamedTuple):
    """The user turns; the classifier; and, if people were asked, their answers."""

    pairs: Pairs
    model: LabelModel | None
    asked: Answers[VariedItem] | None
    judged: JudgedTurns


class Validity(Task[Inputs], frozen=True, kw_only=True):
    """The task of ``parapet evaluate --task validity``.

    Attributes:
      sources: the original and its sets.
      classifier: a folder of ``parapet train classifier``, or None.
      hits: the folder of ``parapet hits --task validity``, or None; ``responses`` are the answers to its pages, in
        ``encoding`` if they have no byte order mark.
      seed: the seed of the bootstrap.
    """

    name = "evaluate_validity"

    sources: Sources
    classifier: str | None = None
    hits: str | None = None
    responses: tuple[str, ...] = ()
    encoding: str = "utf-8"
    seed: str = "0"

    def inputs(self) -> dict[str, str | None]:
        """Returns the corpora, the classifier, the pages and the answers to them."""
        responses = {f"responses/{i}": path for i, path in enumerate(self.responses, 1)}
        return {**self.sources.inputs(), "classifier": self.classifier, "hits": self.hits, **responses}

    def read(self) -> Inputs:
        """Reads the user turns of all sets with the original's. Raises InputError if they cannot be compared."""
        model = load_classifier(self.classifier) if self.classifier is not None else None
        pairs = read_pairs(self.sources)
        if self.hits is None:
            return Inputs(pairs, model, None, {})
        answers = read_answers(read_hits(self.hits, VALIDITY), self.responses, self.encoding)
        judged = answers.judged()
        check_same_turns(judged, pairs.pairs, self.hits)
        return Inputs(pairs, model, answers, {judgement.item.place: judgement for judgement in judged})

    def score(self, inputs: Inputs, stage: Stage) -> Result:
        """Checks every pair. Raises InputError if people were asked and no answer can be used."""
        pairs, labels, answers, judged = inputs.pairs, None, inputs.asked, inputs.judged
        if answers is not None and not any(judgement.votes[SAME] for judgement in judged.values()):
            raise InputError(f"no answer can be used: {answers.why_none()}", ", ".join(self.responses))
        if inputs.model is not None:
            stage("classify turns")
            labels = predict_labels(inputs.model, pairs.pairs)
        stage("check turns")
        form, spoken = compared_form()
        checks = [check(pair, labels, form) for pair in pairs.pairs]
        metrics, groups = evaluate(checks, pairs.sets, labels is not None, self.seed)
        people = _add_people(metrics, answers, judged.values(), self.seed) if answers is not None else None
        details = Details(labels.task if labels else None, spoken, pairs.missing, pairs.bad_spans, groups, people)
        metrics = with_mean(metrics)
        files = files_of(metrics, details, _rows(checks, judged), report(checks, judged, metrics, details))
        warnings = _warnings(pairs, spoken)
        if answers is not None:
            of_answers, more = answers.files(judged.values())
            files, warnings = files | of_answers, warnings + more
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
            counts={"turns": len(checks), "changed": sum(checked.pair.changed for checked in checks)},
            warnings=warnings,
        )


def evaluate(
    checks: Sequence[Check], sets: Sequence[str], classified: bool, seed: str
) -> tuple[Metrics, dict[str, GroupDetails]]:
    """Computes (``metrics.json``, details) of each set, and of all.

    Args:
      checks: the checks of all pairs.
      sets: the names of the sets, in order.
      classified: whether there is a classifier; without it, its metrics are left out.
      seed: the seed of the bootstrap over dialogues.
    """
    names = METRICS if classified else METRICS[:-3]
    by_key = {checked.pair.place: checked for checked in checks}
    groups = groups_of(by_key)
    metrics: Metrics = {}
    details = {}
    for group in (ALL, *sets):
        of_group = [by_key[key] for key in groups.get(group, ())]
        values = [checked.values() for checked in of_group]
        columns = {name: [row[name] for row in values] for name in names}
        metrics[group] = {name: _mean(column) for name, column in columns.items()}
        details[group] = _details(of_group, columns, seed)
    return metrics, details


def _add_people(metrics: Metrics, asked: Answers[VariedItem], judged: Iterable[Judged[VariedItem]], seed: str) -> Crowd:
    """Adds human judgements to the metrics of each judged set; returns their details."""
    judged, groups = list(judged), {}
    for group in metrics:
        of_group = [judgement for judgement in judged if group in (ALL, judgement.item.stratum)]
        if of_group:
            values = [judged_values(judgement) for judgement in of_group]
            people, intervals, complete = summed_up(of_group, values, SAME, seed)
            if not asked.hits.naturalness:
                del people["naturalness"]
            metrics[group] |= people
            decided = sum(row["human_valid"] is not None for row in values)
            groups[group] = PeopleDetails(len(of_group), decided, complete, intervals)
    return Crowd(groups=groups, **asked.counts())


def _mean(column: Sequence[float | None]) -> float | None:
    known = [value for value in column if value is not None]
    return sum(known) / len(known) if known else None


def _details(checks: Sequence[Check], columns: Mapping[str, Sequence[float | None]], seed: str) -> GroupDetails:
    dialogues = [checked.pair.dialogue_id for checked in checks]
    nan = float("nan")
    statistics = [(dialogues, [nan if v is None else v for v in column]) for column in columns.values()]
    drawn = replicated(seed, statistics)
    replicates = means(drawn)
    wanted = sum(len(checked.pair.wanted) for checked in checks)
    changes = Counter(
        checked.predicted for checked in checks if checked.predicted and checked.predicted[0] != checked.predicted[1]
    )
    return GroupDetails(
        user_turns=len(checks),
        changed=sum(checked.pair.changed for checked in checks),
        values=wanted,
        values_found=wanted - sum(len(checked.lost) for checked in checks),
        values_found_fuzzy=wanted - sum(len(checked.lost_fuzzy) for checked in checks),
        lost_by_slot=lost_by_slot(checks),
        changed_labels=[
            (before, after, n)
            for (before, after), n in sorted(changes.items(), key=lambda pair: (-pair[1], pair[0]))[:SHOWN_CHANGES]
        ],
        intervals={
            name: share_interval(replicates[:, i], dialogues_of(drawn[:, i, 1])) for i, name in enumerate(columns)
        },
    )


def _rows(checks: Sequence[Check], judged: JudgedTurns) -> bytes:
    keys = [checked.pair.place for checked in checks]
    people = {place: judged_values(judged_turn) for place, judged_turn in judged.items()}
    values = [checked.values() | people.get(checked.pair.place, {}) for checked in checks]
    return rows_bytes(
        keys,
        {name: [row.get(name) for row in values] for name in (*METRICS, *(OF_ROWS if judged else ()))},
        {
            "original": [checked.pair.original.utterance for checked in checks],
            "utterance": [checked.pair.utterance for checked in checks],
            "lost": ["; ".join(wanted.text for wanted in checked.lost) for checked in checks],
            "other_states": [", ".join(checked.pair.other_states) for checked in checks],
            "label": [checked.label or None for checked in checks],
            "predicted_original": [checked.predicted[0] if checked.predicted else None for checked in checks],
            "predicted": [checked.predicted[1] if checked.predicted else None for checked in checks],
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
        f"{name} lacks {text.counted(n, 'dialogue')} of the reference" for name, n in pairs.missing.items() if n
    ]
    if pairs.bad_spans:
        n = text.counted(pairs.bad_spans, "user turn")
        warnings.append(f"{n} of the reference with a span outside of the text: their values are not checked")
    if not spoken:
        warnings.append("numbers are compared as they are written: comparing spoken forms requires the extra 'speech'")
    return warnings
