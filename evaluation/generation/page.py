"""The report page of generated utterances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from parapet.evaluation.generation import metrics as measures
from parapet.evaluation.generation.breakdowns import ActGroup, Details, TamperedF1, TurnGroup
from parapet.evaluation.generation.metrics import Numbers, ScoredSet, ScoredTurn, missing_values
from parapet.evaluation.lines import ALL, group_label
from parapet.evaluation.task import FILES, Metrics
from parapet.transforms import text
from parapet.transforms.report import Dot, Dots, Example, Examples, Line, Part, Report, Section, Table, Tile

EXAMPLES = 30

SCORERS = {
    "lexical": "Judged by the lexical scorer: rules on words, no model of language inference. It sees a value only "
    "where it is said verbatim, and nothing that is said in other words. Its SGSAcc is not that of the paper.",
    "nli": "Judged by a model of natural language inference: {model}.",
}
RULES = {
    "paper": "References are built by the rules of the paper (`--rules paper`).",
    "extended": "References are built by rules of our own (`--rules extended`), not by those of the paper.",
}
TERMS = {
    "SGSAcc": "Schema-guided semantic accuracy (Chen, Lin and Byrne 2023): the share of valid turns whose utterance is "
    "faithful to all acts, that is, entails the reference of each.",
    "Reference": "A sentence that says the act in the schema's words, such as 'City of the restaurant is Oslo'; of "
    "several, the one that the ground truth entails most.",
    "Valid": "Of an act: the ground truth entails a reference, and none that was built from other values. Of a turn: "
    "all of its acts are valid.",
    "All turns": "SGSAcc over all turns, valid or not.",
    "Utterance alone": "SGSAcc without the second try, in which the turn before and the slot's description precede "
    "the utterance.",
    "By act": "The share of valid acts to which the utterance is faithful, and that of all acts.",
    "SER": "Slot error rate: the share of all utterances, those without a value included, that do not contain a "
    "value of a free slot verbatim. Low is good.",
    "Coverage": "The share of turns that a metric can judge: of SGSAcc valid ones, of SER those with a value of a free "
    "slot. The paper's 66 % for SER fits the turns about a free slot, requests included (`share_free_slot`).",
    "Agreement": "Of the turns that both can judge, the share in which SGSAcc, of the acts on free slots, and SER have "
    "the same result.",
    "F1 on tampered references": "How well the ground truth distinguishes true references (one has to be entailed) "
    "from those with other values (none may be).",
    "Ranked": "The utterances chosen among the candidates of an ensemble: the one faithful to the most acts.",
    "Seen domains": "Turns whose domains are all in the training schema; a domain is a service's name without its "
    "number.",
}


def report(sets: Mapping[str, ScoredSet], metrics: Metrics, details: Details) -> Report:
    """The report, from ``metrics.json``, ``details.json`` and the turns."""
    of_all, covered, scorer = metrics[ALL], details.coverage, details.scorer
    plugins = [name for name in of_all if name not in measures.METRICS]
    tables = [
        Table(title="Metrics", columns=(*_COLUMNS, *plugins),
              rows=[_metrics_row(name, values, plugins) for name, values in metrics.items()]),
        *(
            Table(title=title, columns=[what, *_TURN_COLUMNS], text_columns=2, numbers_in="details.json",
                  rows=[_turns_row(name, group) for name, group in of_turns.items()])
            for of_turns, what, title in (
                (details.by_domain, "domain", "Domains"),
                (details.by_service, "service", "Services"),
            )
        ),
        *(
            Table(title=title, columns=[what, *_ACT_COLUMNS], numbers_in="details.json",
                  rows=[_acts_row(name, group) for name, group in of_acts.items()])
            for of_acts, what, title in (
                (details.by_act, "act", "Acts"),
                (details.by_slot_type, "type", "Types of slots"),
            )
        ),
        Table(title="True and tampered references", note="Of the references that the ground truth entails.",
              columns=["schema", "F1", "precision", "recall", "valid", "acts"],
              rows=[_check_row(name, check) for name, check in details.tampered_references.items()]),
    ]  # fmt: skip
    sections: list[Section] = [table for table in tables if table.rows]
    if details.sets:
        dots = [Dot(name, metrics[name]["sgsacc"]) for name in details.sets]
        sections.insert(1, Dots(title="SGSAcc by set", dots=dots))
    if len(details.tampered_references) > 1:
        dots = [Dot(name, check.f1) for name, check in details.tampered_references.items()]
        sections.append(Dots(title="F1 on tampered references by schema", dots=dots))
    notes = [SCORERS[scorer.name].format(model=scorer.model), RULES[details.rules]]
    if not details.validation:
        notes.append("Turns were not validated (`--no_validation`): all count.")
    of_turns = covered.turns
    return Report(
        command="evaluate",
        title="Generated utterances",
        headline=f"{text.percent(of_all['sgsacc'])} of turns say all their acts faithfully",
        lead=f"{text.counted(details.turns, 'system turn')} with {text.counted(covered.acts.acts, 'act')} of "
        f"{', '.join(details.sets) or next(iter(sets.values())).corpus.name or 'the corpus'}; "
        f"{of_turns.valid:,} turns are valid, {text.percent(of_turns.share_valid)}.",
        tiles=[
            Tile(f"SGSAcc ({scorer.name})", text.percent(of_all["sgsacc"], 2)),
            Tile("SGSAcc, all turns", text.percent(of_all["sgsacc_all"], 2)),
            Tile("coverage of SGSAcc", text.percent(of_turns.share_valid, 2)),
            Tile("slot error rate", text.percent(of_all["slot_error_rate"], 2)),
            Tile("coverage of SER", text.percent(of_turns.share_slot_error_rate, 2)),
            Tile("agreement", text.percent(details.agreement.share, 2)),
            Tile("BLEU", text.number(of_all["bleu"], 2)),
        ],
        sections=[*sections, *_worst(sets)],
        notes=notes,
        terms=TERMS | {"BLEU": f"By sacrebleu, from 0 to 100: `{details.bleu_signature}`."},
        links=FILES,
    )


_COLUMNS = ("set", "SGSAcc", "all turns", "utterance alone", "SER", "by act", "all acts", "BLEU")
_TURN_COLUMNS = ("in training", "SGSAcc", "all turns", "SER", "coverage", "turns", "by act")
_ACT_COLUMNS = ("by act", "all acts", "coverage", "acts", "unfaithful", "no reference", "tampered entailed")


def _metrics_row(name: str, values: Numbers, plugins: Sequence[str]) -> list[str]:
    shares = [text.percent(values.get(metric), 2) for metric in measures.METRICS[:-1]]
    more = [text.percent(values.get(plugin), 2) for plugin in plugins]
    return [group_label(name), *shares, text.number(values.get("bleu"), 2), *more]


def _turns_row(name: str, group: TurnGroup) -> list[str]:
    seen = "–" if group.seen is None else "seen" if group.seen else "unseen"
    shares = (group.sgsacc, group.sgsacc_all, group.slot_error_rate, group.coverage)
    by_act = text.percent(group.sgsacc_acts, 2)
    return [name, seen, *(text.percent(share, 2) for share in shares), f"{group.turns:,}", by_act]


def _acts_row(name: str, group: ActGroup) -> list[str]:
    shares = [text.percent(value, 2) for value in (group.sgsacc_acts, group.sgsacc_acts_all, group.coverage)]
    counts = (group.acts, group.unfaithful, group.no_reference, group.tampered_entailed)
    return [name, *shares, *(f"{n:,}" for n in counts)]


def _check_row(name: str, check: TamperedF1) -> list[str]:
    shares = (check.f1, check.precision, check.recall, check.share_valid)
    return [name, *(text.percent(share, 2) for share in shares), f"{check.acts:,}"]


def _worst(sets: Mapping[str, ScoredSet]) -> list[Section]:
    """The turns with the most unfaithful acts, then those that miss the most values."""
    wrong: list[tuple[int, int, str, ScoredTurn]] = []
    for name, one in sets.items():
        for scored in one.turns:
            n_unfaithful = sum(act.outcome == "unfaithful" for act in scored.acts)
            n_missing = len(missing_values(scored.turn.acts, scored.utterance))
            if n_unfaithful or n_missing:
                wrong.append((-n_unfaithful, -n_missing, name, scored))
    worst = sorted(wrong, key=lambda found: (*found[:2], found[3].turn.place, found[2]))[:EXAMPLES]
    examples = []
    for _, _, name, scored in worst:
        turn, utterance = scored.turn, scored.utterance
        lines = {"before": turn.previous, "ground truth": turn.utterance, "utterance": utterance}
        shown = [Line(label, [Part(line)]) for label, line in lines.items()]
        references = [act.validated.reference for act in scored.acts if act.outcome == "unfaithful"]
        shown += [Line("not entailed", [Part(reference)]) for reference in references if reference]
        shown += [
            Line("missing value", [Part(f"{slot}: {value}")]) for slot, value in missing_values(turn.acts, utterance)
        ]
        place = f"dialogue {turn.dialogue_id}, turn {turn.turn}" + (f" of {name}" if name else "")
        examples.append(Example(place, shown))
    note = f"{len(examples):,} of {text.counted(len(wrong), 'turn')} with an error."
    return [Examples(title="Turns with the most errors", note=note, examples=examples)] if examples else []
