"""The page of an evaluation of validity: the sets, what was lost, and turns that fail a check."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from parapet.evaluation.ratings.answers import EXPLANATIONS
from parapet.evaluation.ratings.page import OUTPUTS, with_interval
from parapet.evaluation.sets import ALL
from parapet.evaluation.task import FILES, Metrics
from parapet.evaluation.validity.checks import FUZZY, Check
from parapet.evaluation.validity.people import Crowd, Details, Judged
from parapet.transforms import text
from parapet.transforms.crowd.report import dead_letters_note, reasons_tables
from parapet.transforms.hits.judged import YES
from parapet.transforms.hits.records import Place
from parapet.transforms.report import Dot, Dots, Example, Examples, Line, Part, Report, Section, Table, Tile

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
_NUMBERS = ("naturalness", "fleiss_kappa", "krippendorff_alpha")  # are no shares
EXAMPLES = 12  # of each set and check

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


Failing = Callable[[Check], Sequence[tuple[str, str]]]  # the lines that say how a turn fails; none where it does not


def report(checks: Sequence[Check], judged: Mapping[Place, Judged], metrics: Metrics, details: Details) -> Report:
    """The report: the numbers of each set, what people say of it, what was lost in it, and turns that fail a check."""
    sets = [name for name in details.groups if name != ALL]
    of_all, everything = metrics[ALL], details.groups[ALL]
    names = [name for name in HEADS if name in of_all]
    what = {"acts": "dialogue acts"}.get(details.labels or "", details.labels or "")
    sections: list[Section] = [
        _sets_table(sets, names, metrics, details, what),
        _dots("Changed turns with all values, letter for letter", "values_kept", sets, metrics, details),
    ]
    if what:
        title = f"Changed turns for which the same {what} is predicted"
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
        of_set = [one for one in checks if one.pair.set == name]
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
        terms={**_terms(bool(what)), **(PEOPLE_TERMS if details.people else {})},
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


def _not_valid(judged: Mapping[Place, Judged], one: Check) -> Sequence[tuple[str, str]]:
    found = judged.get((one.pair.set, *one.pair.place))
    if found is None or found.values()["human_valid"] != 0:
        return []
    counts = [("the same", found.same), ("all values", found.kept)]
    said = [f"{what}: {sum(answer == YES for _, answer in of)} of {len(of)}" for what, of in counts if of]
    return [("people", ", ".join(said))]


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
        found = (group.values_found, group.values_found_fuzzy)
        shares = [text.percent(n / group.values if group.values else None) for n in found]
        lost = ", ".join(f"{slot} ({n:,})" for slot, n in [*group.lost_by_slot.items()][:5])
        rows.append([name, lost, f"{group.values:,}", *shares])
    columns = ["set", "slots that lose most, letter for letter", "values", "letter for letter", "nearly"]
    title = "Annotated values of changed turns"
    return Table(title=title, columns=columns, rows=rows, text_columns=2, numbers_in="details.json")


def _dots(title: str, metric: str, sets: Sequence[str], metrics: Metrics, details: Details) -> Dots:
    dots = [Dot(name, metrics[name][metric], *(details.groups[name].intervals[metric] or ())) for name in sets]
    return Dots(title=title, dots=dots)


def _examples(title: str, checks: Iterable[Check], failing: Failing) -> list[Section]:
    failed = [(one, lines) for one in checks if (lines := failing(one))]
    examples = []
    for one, lines in failed[:EXAMPLES]:
        original, pair = one.pair.original, one.pair
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
