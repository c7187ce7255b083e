"""The page: the metrics, what they cover, where a system fails, and how well references can be told apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from parapet.evaluation.generation.corpus import Corpus, SystemTurn
from parapet.evaluation.generation.metrics import METRICS, missing_values
from parapet.evaluation.generation.scoring import ScoredAct, Scores
from parapet.evaluation.lines import ALL
from parapet.evaluation.pages import Table, bars, page, percent, plain

EXAMPLES = 30

SCORERS = {
    "lexical": "Judged by the lexical scorer: rules on words, no model of language inference. It sees a value only if "
    "it is said as it stands, and nothing that is said in other words. Its SGSAcc is not that of the paper.",
    "nli": "Judged by a model of natural language inference: {model}.",
}
TERMS = {
    "SGSAcc": "Schema-guided semantic accuracy (Chen, Lin and Byrne 2023): of the valid acts, the share that the "
    "utterance is faithful to, which means that it entails the act's reference.",
    "Reference": "A sentence from the schema's words that says the act, such as 'City of the restaurant is Oslo'; of "
    "several the one that the ground truth entails most.",
    "Valid": "The ground truth entails a reference of the act, and none that was built from other values.",
    "Utterance alone": "The same without the second try, in which the turn before and the slot's description stand "
    "before the utterance.",
    "All acts": "The same over all acts, valid or not.",
    "Faithful turns": "Turns that are faithful to all their valid acts.",
    "SER": "Slot error rate: the share of utterances that miss a value of a free slot, told by its letters. Of all "
    "utterances, those without a value among them. Low is good.",
    "F1 on tampered references": "Whether the ground truth tells true references (one is to be entailed) from those "
    "with other values (none may be).",
    "#RANKED": "What was chosen among the candidates of an ensemble: the one that is faithful to the most acts.",
}


def report(corpus: Corpus, scores: Scores, metrics: Mapping[str, Any], details: Mapping[str, Any]) -> bytes:
    """The page, from ``metrics.json``, ``details.json`` and the acts."""
    of_all, covered, scorer = metrics[ALL], details["coverage"], details["scorer"]
    told = details["tampered_references"]
    further = [name for name in of_all if name not in METRICS]
    tables = [
        Table(
            "In %, BLEU from 0 to 100",
            (*_COLUMNS, *further),
            [_row(name, of, further) for name, of in metrics.items()],
            "The metrics",
        ),
        *(
            Table(
                "By " + what + ", in %", ["", *_PARTS], [_part(name, of) for name, of in details[key].items()], heading
            )
            for key, what, heading in (
                ("by_act", "act", "The acts"),
                ("by_slot_type", "the type of the slot", "The slots"),
                ("by_service", "service", "The services"),
            )
        ),
        Table(
            "What the ground truth entails, in %",
            ["Schema", "F1", "Precision", "Recall", "Valid", "Acts"],
            [_check(name, of) for name, of in told.items()],
            "True and tampered references",
        ),
        _worst(corpus, scores),
    ]
    f1 = {name: None if of["f1"] is None else 100 * of["f1"] for name, of in told.items()}
    return page(
        title="Generated utterances",
        headline=f"{percent(of_all['sgsacc'], 1)}% of acts are said faithfully",
        lead=f"{details['turns']:,} system turns with {covered['acts']:,} acts of {corpus.name or 'the corpus'}; "
        f"{covered['valid']:,} acts count, {percent(covered['share_valid'], 1)}%.",
        tiles={
            f"SGSAcc ({scorer['name']}), %": percent(of_all["sgsacc"]),
            "coverage, %": percent(covered["share_valid"]),
            "coverage without validation, %": percent(covered["share_entailed"]),
            "slot error rate, %": percent(of_all["slot_error_rate"]),
            "BLEU": plain(of_all["bleu"]),
        },
        tables=[table for table in tables if table.rows],
        plots=[bars("F1 on tampered references", "by schema, in %", f1)] if len(f1) > 1 else [],
        notes=[SCORERS[scorer["name"]].format(model=scorer["model"]), *_notes(details)],
        terms=TERMS,
    )


def _notes(details: Mapping[str, Any]) -> list[str]:
    said = [f"BLEU: {details['bleu_signature']}."]
    if not details["validation"]:
        said.append("Acts were not validated with tampered values (--no_validation).")
    return said


_COLUMNS = ("", "SGSAcc", "Utterance alone", "All acts", "Faithful turns", "SER", "BLEU")
_PARTS = ("SGSAcc", "Utterance alone", "Coverage", "Acts", "Unfaithful", "No reference", "Tampered entailed")


def _row(name: str, of: Mapping[str, float | None], further: Sequence[str]) -> list[str]:
    shares, others = METRICS[:-1], (percent(of.get(one)) for one in further)
    return [name, *(percent(of.get(one)) for one in shares), plain(of.get("bleu")), *others]


def _part(name: str, of: Mapping[str, Any]) -> list[str]:
    counts = ("acts", "unfaithful", "no_reference", "tampered_entailed")
    shares = ("sgsacc", "sgsacc_utterance_alone", "coverage")
    return [name, *(percent(of[one]) for one in shares), *(f"{of[one]:,}" for one in counts)]


def _check(name: str, of: Mapping[str, Any]) -> list[str]:
    return [name, *(percent(of[one]) for one in ("f1", "precision", "recall", "share_valid")), f"{of['acts']:,}"]


def _worst(corpus: Corpus, scores: Scores) -> Table:
    """The turns with the most unfaithful acts, then those that miss the most values."""
    unsaid: dict[tuple[str, int], list[ScoredAct]] = {}
    for one in scores.acts:
        if one.outcome == "unfaithful":
            unsaid.setdefault(one.turn.place, []).append(one)

    def fault(turn: SystemTurn) -> tuple[int, int]:
        return len(unsaid.get(turn.place, ())), len(missing_values(turn.acts, scores.said[turn.place]))

    wrong = [turn for turn in corpus.turns if fault(turn) != (0, 0)]
    worst = sorted(wrong, key=lambda turn: (*(-n for n in fault(turn)), turn.place))[:EXAMPLES]
    rows = [
        [
            f"{turn.dialogue_id}, {turn.turn}",
            turn.previous,
            turn.utterance,
            scores.said[turn.place],
            "\n".join(f"– {one.validated.reference}" for one in unsaid.get(turn.place, ())),
            "\n".join(f"– {slot}: {value}" for slot, value in missing_values(turn.acts, scores.said[turn.place])),
        ]
        for turn in worst
    ]
    columns = ["Turn", "Before", "Ground truth", "Said", "Not entailed", "Values missing"]
    return Table(f"{len(rows):,} of {len(wrong):,} turns with a fault", columns, rows, "The worst turns", 5)
