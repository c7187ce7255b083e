"""Utterances made from dialogue acts: read, scored and reported. See the modules beside for what is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from parapet.evaluation.generation import metrics as measures
from parapet.evaluation.generation.corpus import Corpus, Place, SystemTurn
from parapet.evaluation.generation.corpus import read as read_corpus
from parapet.evaluation.generation.lexical import Lexical
from parapet.evaluation.generation.metrics import ChosenMetric, Numbers, PluginValues, missing_values
from parapet.evaluation.generation.nli import Nli
from parapet.evaluation.generation.predictions import REFERENCE, Prediction, read_predictions
from parapet.evaluation.generation.scorers import Cached
from parapet.evaluation.generation.scoring import ScoredAct, Scores, evaluate
from parapet.evaluation.lines import ALL, Key
from parapet.evaluation.pages import Table, bars, page, percent, plain
from parapet.evaluation.task import Metrics, Result, Stage, Task, files_of
from parapet.evaluation.writing import rows_bytes
from parapet.schemas.errors import InputError
from parapet.transforms import text
from parapet.transforms.plugins import recorded

EXAMPLES = 30

_ACT_METRICS = ("sgsacc", "sgsacc_utterance_alone", "sgsacc_all_acts")
_TURN_METRICS = ("slot_error_rate", "faithful_turns")
_TEXTS = ("kind", "service", "act", "slot", "slot_type", "values", "reference", "outcome", "premise", "utterance")

TAKEN = frozenset({"set", "dialogue_id", "turn", *_TEXTS, *measures.METRICS})  # no plug-in's metric has such a name

SCORERS = {
    "lexical": "Judged by the lexical scorer: rules on words, no model of language inference. It sees a value only "
    "where it is said verbatim, and nothing that is said in other words. Its SGSAcc is not that of the paper.",
    "nli": "Judged by a model of natural language inference: {model}.",
}
TERMS = {
    "SGSAcc": "Schema-guided semantic accuracy (Chen, Lin and Byrne 2023): the share of valid acts to which the "
    "utterance is faithful, that is, whose reference it entails.",
    "Reference": "A sentence that says the act in the schema's words, such as 'City of the restaurant is Oslo'; of "
    "several, the one that the ground truth entails most.",
    "Valid": "The ground truth entails a reference of the act, and none that was built from other values.",
    "Utterance alone": "SGSAcc without the second try, in which the turn before and the slot's description precede "
    "the utterance.",
    "All acts": "SGSAcc over all acts, valid or not.",
    "Faithful turns": "Turns that are faithful to all their valid acts.",
    "SER": "Slot error rate: the share of all utterances, those without a value included, that do not contain a "
    "value of a free slot verbatim. Low is good.",
    "F1 on tampered references": "How well the ground truth distinguishes true references (one has to be entailed) "
    "from those with other values (none may be).",
    "#RANKED": "The utterances chosen among the candidates of an ensemble: the one faithful to the most acts.",
}


class Inputs(msgspec.Struct, frozen=True):
    """What is scored, and by what."""

    corpus: Corpus
    predictions: dict[Place, Prediction]
    scorer: Cached
    metrics: dict[str, ChosenMetric]


class ScorerName(msgspec.Struct, frozen=True):
    """The judge of entailment, and its model with the version."""

    name: str
    model: str


class Details(msgspec.Struct, frozen=True):
    """``details.json``."""

    scorer: ScorerName
    validation: bool
    turns: int
    coverage: measures.Coverage
    by_act: dict[str, measures.Group]
    by_slot_type: dict[str, measures.Group]
    by_act_and_slot_type: dict[str, measures.Group]
    by_service: dict[str, measures.Group]
    tampered_references: dict[str, measures.TamperedF1]
    bleu_signature: str


class Generation(Task[Inputs], frozen=True, kw_only=True):
    """``parapet evaluate --task generation``.

    Attributes:
      reference: a corpus with the acts of system turns; ``split`` whose dialogues.
      predictions: JSON lines, a folder with dialogues, or ``reference``: the corpus's own turns.
      variants: a folder of schema variants, or None.
      scorer: who judges entailment; ``nli_model`` is the folder of its model, ``batch`` pairs at a time.
      cache: a file that keeps judgements for another run.
      metrics: names of plug-ins' metrics.
      validation: whether acts count only if the ground truth entails a reference, and none with tampered values.
      seed: of the tampered values.
    """

    name = "evaluate_generation"

    reference: str
    predictions: str
    split: str = "test"
    variants: str | None = None
    scorer: Literal["lexical", "nli"] = "lexical"
    nli_model: str | None = None
    batch: int = 32
    cache: str | None = None
    metrics: tuple[str, ...] = ()
    validation: bool = True
    seed: str = "0"

    def inputs(self) -> dict[str, str | None]:
        """The folders, and the file of predictions."""
        predictions = None if self.predictions == REFERENCE else self.predictions
        return {"reference": self.reference, "predictions": predictions, "variants": self.variants}

    def read(self) -> Inputs:
        """Reads the corpus and the predictions, and makes the scorer. Raises InputError where one of them fails."""
        metrics = measures.read_metrics(self.metrics, TAKEN)
        scorer = Cached(self._scorer(), self.cache or "")
        corpus = read_corpus(self.reference, self.split, self.variants)
        return Inputs(corpus, read_predictions(self.predictions, self.split, corpus.turns), scorer, metrics)

    def _scorer(self) -> Lexical | Nli:
        if self.scorer == "nli" and self.nli_model is not None:
            return Nli(self.nli_model, self.batch)
        if self.scorer == "nli":
            raise InputError("a folder with a model is needed", "--nli_model")
        if self.nli_model is not None:
            raise InputError("needs --scorer nli", "--nli_model")
        return Lexical()

    def score(self, inputs: Inputs, stage: Stage) -> Result:
        """SGSAcc, slot error rate and BLEU."""
        corpus, scorer = inputs.corpus, inputs.scorer
        scores = evaluate(corpus, inputs.predictions, scorer, self.seed, self.validation, stage)
        plugins = measures.plugin_values(inputs.metrics, corpus, scores)
        metrics = metrics_of(corpus, scores, plugins)
        details = details_of(corpus, scores, ScorerName(scorer.name, scorer.model), self.validation)
        rows = rows_of(corpus, scores, plugins)
        return Result(
            files=files_of(metrics, details, rows, report(corpus, scores, metrics, details)),
            summary=_summary(metrics, details, list(inputs.metrics)),
            options={
                "split": self.split,
                "variants": list(corpus.words)[1:],
                "scorer": scorer.name,
                "model": scorer.model,
                "validation": self.validation,
                "seed": self.seed,
                "own_turns": self.predictions == REFERENCE,
            },
            counts={"turns": details.turns, "acts": details.coverage.acts},
            plugins=recorded(*(chosen for chosen, _ in inputs.metrics.values())),
        )


def metrics_of(corpus: Corpus, scores: Scores, plugins: PluginValues) -> Metrics:
    """``metrics.json``."""
    metrics = measures.metrics_of(corpus, scores.acts, scores.utterances)
    metrics[ALL] |= measures.means(plugins.system)
    if scores.ranked is not None:
        ranked = measures.overall(corpus, scores.ranked.acts, scores.ranked.utterances)
        metrics[measures.RANKED] = {**ranked, **measures.means(plugins.ranked)}
    return metrics


def details_of(corpus: Corpus, scores: Scores, scorer: ScorerName, validation: bool) -> Details:
    """``details.json``."""
    acts = scores.acts
    return Details(
        scorer=scorer,
        validation=validation,
        turns=len(corpus.turns),
        coverage=measures.coverage(acts),
        by_act=measures.breakdown(acts, lambda one: one.act.act),
        by_slot_type=measures.breakdown(acts, lambda one: one.act.kind),
        by_act_and_slot_type=measures.breakdown(acts, lambda one: f"{one.act.act} {one.act.kind}"),
        by_service=measures.breakdown(acts, lambda one: one.act.service),
        tampered_references={
            name: measures.tampered_f1(checks)
            for name, checks in scores.checks.items()
            if any(validated.tampered is not None for _, validated in checks)
        },
        bleu_signature=measures.corpus_bleu([""], [""])[1],
    )


def rows_of(corpus: Corpus, scores: Scores, plugins: PluginValues) -> bytes:
    """A row for each turn, with the metrics of turns, and after it one for each of its acts."""
    of_turns = measures.turn_values(corpus, scores.acts, scores.utterances)
    by_turn: dict[Place, list[ScoredAct]] = {}
    for one in scores.acts:
        by_turn.setdefault(one.turn.place, []).append(one)
    keys: list[Key] = []
    texts: dict[str, list[str | None]] = {name: [] for name in _TEXTS}
    values: dict[str, list[float | None]] = {name: [] for name in (*_ACT_METRICS, *_TURN_METRICS, *plugins.system)}

    def add(place: Place, row_texts: Mapping[str, str | None], row_values: Numbers) -> None:
        keys.append((corpus.name, *place))
        for name, column in texts.items():
            column.append(row_texts.get(name))
        for name, numbers in values.items():
            numbers.append(row_values.get(name))

    for turn in corpus.turns:
        place, utterance = turn.place, scores.utterances[turn.place]
        missing = "; ".join(f"{slot}: {value}" for slot, value in missing_values(turn.acts, utterance))
        of_plugins = {name: by_place[place] for name, by_place in plugins.system.items()}
        row = {"kind": "turn", "values": missing or None, "utterance": utterance}
        add(place, row, {**of_turns[place], **of_plugins})
        for one in by_turn.get(place, ()):
            add(place, _act_texts(one), measures.accuracies([one]))
    return rows_bytes(keys, values, texts)


def _act_texts(one: ScoredAct) -> dict[str, str | None]:
    return {
        "kind": "act",
        "service": one.act.service,
        "act": one.act.act,
        "slot": one.act.slot or None,
        "slot_type": one.act.kind,
        "values": "; ".join(one.act.values) or None,
        "reference": one.validated.reference,
        "outcome": one.outcome,
        "premise": one.faithful.premise,
    }


def _summary(metrics: Metrics, details: Details, plugins: Sequence[str]) -> list[str]:
    turns = text.counted(details.turns, "system turn")
    acts = text.counted(details.coverage.acts, "act")
    lines = [
        f"scorer: {details.scorer.name} ({details.scorer.model})",
        f"{turns}, {acts}: {text.percent(details.coverage.share_valid, 2)} count",
    ]
    for name, values in metrics.items():
        parts = [f"SGSAcc {text.percent(values['sgsacc'], 2)}"]
        if "bleu" in values:
            parts.append(f"slot error rate {text.percent(values['slot_error_rate'], 2)}")
            parts.append(f"BLEU {text.number(values['bleu'], 2)}")
            parts += [f"{plugin} {text.percent(values[plugin], 2)}" for plugin in plugins]
        lines.append(f"{name}: {', '.join(parts)}")
    for name, check in details.tampered_references.items():
        lines.append(f"{name}: F1 on tampered references {text.percent(check.f1, 2)}")
    return lines


def report(corpus: Corpus, scores: Scores, metrics: Metrics, details: Details) -> bytes:
    """The page, from ``metrics.json``, ``details.json`` and the acts."""
    of_all, covered, scorer = metrics[ALL], details.coverage, details.scorer
    plugins = [name for name in of_all if name not in measures.METRICS]
    tables = [
        Table("In %, BLEU from 0 to 100", (*_COLUMNS, *plugins),
              [_metrics_row(name, values, plugins) for name, values in metrics.items()], "The metrics"),
        *(
            Table(f"By {what}, in %", ["", *_GROUP_COLUMNS],
                  [_group_row(name, group) for name, group in groups.items()], heading)
            for groups, what, heading in (
                (details.by_act, "act", "The acts"),
                (details.by_slot_type, "the type of the slot", "The slots"),
                (details.by_service, "service", "The services"),
            )
        ),
        Table("What the ground truth entails, in %", ["Schema", "F1", "Precision", "Recall", "Valid", "Acts"],
              [_check_row(name, check) for name, check in details.tampered_references.items()],
              "True and tampered references"),
        _worst(corpus, scores),
    ]  # fmt: skip
    f1 = {name: None if one.f1 is None else 100 * one.f1 for name, one in details.tampered_references.items()}
    notes = [SCORERS[scorer.name].format(model=scorer.model), f"BLEU: {details.bleu_signature}."]
    if not details.validation:
        notes.append("Acts were not validated with tampered values (--no_validation).")
    return page(
        title="Generated utterances",
        headline=f"{percent(of_all['sgsacc'], 1)}% of acts are said faithfully",
        lead=f"{details.turns:,} system turns with {covered.acts:,} acts of {corpus.name or 'the corpus'}; "
        f"{covered.valid:,} acts count, {percent(covered.share_valid, 1)}%.",
        tiles={
            f"SGSAcc ({scorer.name}), %": percent(of_all["sgsacc"]),
            "coverage, %": percent(covered.share_valid),
            "coverage without validation, %": percent(covered.share_entailed),
            "slot error rate, %": percent(of_all["slot_error_rate"]),
            "BLEU": plain(of_all["bleu"]),
        },
        tables=[table for table in tables if table.rows],
        plots=[bars("F1 on tampered references", "by schema, in %", f1)] if len(f1) > 1 else [],
        notes=notes,
        terms=TERMS,
    )


_COLUMNS = ("", "SGSAcc", "Utterance alone", "All acts", "Faithful turns", "SER", "BLEU")
_GROUP_COLUMNS = ("SGSAcc", "Utterance alone", "Coverage", "Acts", "Unfaithful", "No reference", "Tampered entailed")


def _metrics_row(name: str, values: Numbers, plugins: Sequence[str]) -> list[str]:
    shares = [percent(values.get(metric)) for metric in measures.METRICS[:-1]]
    return [name, *shares, plain(values.get("bleu")), *(percent(values.get(plugin)) for plugin in plugins)]


def _group_row(name: str, group: measures.Group) -> list[str]:
    shares = [percent(value) for value in (group.sgsacc, group.sgsacc_utterance_alone, group.coverage)]
    counts = (group.acts, group.unfaithful, group.no_reference, group.tampered_entailed)
    return [name, *shares, *(f"{n:,}" for n in counts)]


def _check_row(name: str, check: measures.TamperedF1) -> list[str]:
    shares = (check.f1, check.precision, check.recall, check.share_valid)
    return [name, *map(percent, shares), f"{check.acts:,}"]


def _worst(corpus: Corpus, scores: Scores) -> Table:
    """The turns with the most unfaithful acts, then those that miss the most values."""
    unfaithful: dict[Place, list[ScoredAct]] = {}
    for one in scores.acts:
        if one.outcome == "unfaithful":
            unfaithful.setdefault(one.turn.place, []).append(one)

    def faults(turn: SystemTurn) -> tuple[int, int]:
        missing = missing_values(turn.acts, scores.utterances[turn.place])
        return len(unfaithful.get(turn.place, ())), len(missing)

    wrong = [turn for turn in corpus.turns if faults(turn) != (0, 0)]
    worst = sorted(wrong, key=lambda turn: (*(-n for n in faults(turn)), turn.place))[:EXAMPLES]
    rows = [
        [
            f"{turn.dialogue_id}, {turn.turn}",
            turn.previous,
            turn.utterance,
            (utterance := scores.utterances[turn.place]),
            "\n".join(f"– {one.validated.reference}" for one in unfaithful.get(turn.place, ())),
            "\n".join(f"– {slot}: {value}" for slot, value in missing_values(turn.acts, utterance)),
        ]
        for turn in worst
    ]
    columns = ["Turn", "Before", "Ground truth", "Utterance", "Not entailed", "Values missing"]
    return Table(f"{len(rows):,} of {len(wrong):,} turns with a fault", columns, rows, "The worst turns", 5)
