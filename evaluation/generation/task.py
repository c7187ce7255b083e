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
from parapet.evaluation.lines import ALL, Key, group_label
from parapet.evaluation.task import FILES, Metrics, Result, Stage, Task, files_of
from parapet.evaluation.writing import rows_bytes
from parapet.schemas.errors import InputError
from parapet.transforms import text
from parapet.transforms.plugins import recorded
from parapet.transforms.report import Dot, Dots, Example, Examples, Line, Part, Report, Section, Table, Tile

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
    "Ranked": "The utterances chosen among the candidates of an ensemble: the one faithful to the most acts.",
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


def report(corpus: Corpus, scores: Scores, metrics: Metrics, details: Details) -> Report:
    """The report, from ``metrics.json``, ``details.json`` and the acts."""
    of_all, covered, scorer = metrics[ALL], details.coverage, details.scorer
    plugins = [name for name in of_all if name not in measures.METRICS]
    tables = [
        Table(title="Metrics", columns=(*_COLUMNS, *plugins),
              rows=[_metrics_row(name, values, plugins) for name, values in metrics.items()]),
        *(
            Table(title=title, columns=[what, *_GROUP_COLUMNS], numbers_in="details.json",
                  rows=[_group_row(name, group) for name, group in groups.items()])
            for groups, what, title in (
                (details.by_act, "act", "Acts"),
                (details.by_slot_type, "type", "Types of slots"),
                (details.by_service, "service", "Services"),
            )
        ),
        Table(title="True and tampered references", note="Of the references that the ground truth entails.",
              columns=["schema", "F1", "precision", "recall", "valid", "acts"],
              rows=[_check_row(name, check) for name, check in details.tampered_references.items()]),
    ]  # fmt: skip
    sections: list[Section] = [table for table in tables if table.rows]
    if len(details.tampered_references) > 1:
        dots = [Dot(name, check.f1) for name, check in details.tampered_references.items()]
        sections.append(Dots(title="F1 on tampered references by schema", dots=dots))
    notes = [SCORERS[scorer.name].format(model=scorer.model)]
    if not details.validation:
        notes.append("Acts were not validated with tampered values (`--no_validation`).")
    return Report(
        command="evaluate",
        title="Generated utterances",
        headline=f"{text.percent(of_all['sgsacc'])} of acts are said faithfully",
        lead=f"{text.counted(details.turns, 'system turn')} with {text.counted(covered.acts, 'act')} of "
        f"{corpus.name or 'the corpus'}; {covered.valid:,} acts count, {text.percent(covered.share_valid)}.",
        tiles=[
            Tile(f"SGSAcc ({scorer.name})", text.percent(of_all["sgsacc"], 2)),
            Tile("coverage", text.percent(covered.share_valid, 2)),
            Tile("coverage without validation", text.percent(covered.share_entailed, 2)),
            Tile("slot error rate", text.percent(of_all["slot_error_rate"], 2)),
            Tile("BLEU", text.number(of_all["bleu"], 2)),
        ],
        sections=[*sections, *_worst(corpus, scores)],
        notes=notes,
        terms=TERMS | {"BLEU": f"By sacrebleu, from 0 to 100: `{details.bleu_signature}`."},
        links=FILES,
    )


_COLUMNS = ("set", "SGSAcc", "utterance alone", "all acts", "faithful turns", "SER", "BLEU")
_GROUP_COLUMNS = ("SGSAcc", "utterance alone", "coverage", "acts", "unfaithful", "no reference", "tampered entailed")


def _metrics_row(name: str, values: Numbers, plugins: Sequence[str]) -> list[str]:
    shares = [text.percent(values.get(metric), 2) for metric in measures.METRICS[:-1]]
    more = [text.percent(values.get(plugin), 2) for plugin in plugins]
    return [group_label(name), *shares, text.number(values.get("bleu"), 2), *more]


def _group_row(name: str, group: measures.Group) -> list[str]:
    shares = [text.percent(value, 2) for value in (group.sgsacc, group.sgsacc_utterance_alone, group.coverage)]
    counts = (group.acts, group.unfaithful, group.no_reference, group.tampered_entailed)
    return [name, *shares, *(f"{n:,}" for n in counts)]


def _check_row(name: str, check: measures.TamperedF1) -> list[str]:
    shares = (check.f1, check.precision, check.recall, check.share_valid)
    return [name, *(text.percent(share, 2) for share in shares), f"{check.acts:,}"]


def _worst(corpus: Corpus, scores: Scores) -> list[Section]:
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
    if not worst:
        return []
    examples = []
    for turn in worst:
        utterance = scores.utterances[turn.place]
        lines = {"before": turn.previous, "ground truth": turn.utterance, "utterance": utterance}
        shown = [Line(label, [Part(line)]) for label, line in lines.items()]
        acts = unfaithful.get(turn.place, ())
        shown += [Line("not entailed", [Part(one.validated.reference)]) for one in acts if one.validated.reference]
        shown += [
            Line("missing value", [Part(f"{slot}: {value}")]) for slot, value in missing_values(turn.acts, utterance)
        ]
        examples.append(Example(f"dialogue {turn.dialogue_id}, turn {turn.turn}", shown))
    note = f"{len(examples):,} of {text.counted(len(wrong), 'turn')} with an error."
    return [Examples(title="Turns with the most errors", note=note, examples=examples)]
