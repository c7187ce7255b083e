"""Utterances made from dialogue acts: read, scored and reported. See the modules beside for what is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from parapet.evaluation.generation import metrics as measures
from parapet.evaluation.generation.corpus import Corpus, Place, SystemTurn
from parapet.evaluation.generation.corpus import read as read_corpus
from parapet.evaluation.generation.lexical import Lexical
from parapet.evaluation.generation.metrics import ChosenMetric, Numbers, ScoredSet, missing_values
from parapet.evaluation.generation.nli import Nli
from parapet.evaluation.generation.predictions import REFERENCE, Prediction, predicted_variants, read_predictions
from parapet.evaluation.generation.scorers import Cached
from parapet.evaluation.generation.scoring import ScoredAct, TurnAct, Validated, evaluate
from parapet.evaluation.lines import ALL, Key, group_label
from parapet.evaluation.sets import ORIGINAL, Sources, find_sets
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


class SetInputs(msgspec.Struct, frozen=True):
    """What is scored in a set."""

    corpus: Corpus
    predictions: dict[Place, Prediction]


class Inputs(msgspec.Struct, frozen=True):
    """What is scored by set, and by what; of an original without others the name is empty."""

    sets: dict[str, SetInputs]
    scorer: Cached
    metrics: dict[str, ChosenMetric]


class ScorerName(msgspec.Struct, frozen=True):
    """The judge of entailment, and its model with the version."""

    name: str
    model: str


class SetDetails(msgspec.Struct, frozen=True):
    """What ``details.json`` has of a set."""

    turns: int
    coverage: measures.Coverage


class Details(msgspec.Struct, frozen=True, omit_defaults=True):
    """``details.json``; ``sets`` where there are several."""

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
    sets: dict[str, SetDetails] = {}


class Generation(Task[Inputs], frozen=True, kw_only=True):
    """``parapet evaluate --task generation``.

    Attributes:
      sources: the corpora with the acts of system turns. The references of acts are tested in the words of its
        variants, which are sets as well where predictions for them are there: of the same acts.
      predictions: JSON lines, a folder with those of each set, or ``reference``: the corpora's own turns.
      scorer: who judges entailment; ``nli_model`` is the folder of its model, ``batch`` pairs at a time.
      cache: a file that keeps judgements for another run.
      metrics: names of plug-ins' metrics.
      validation: whether acts count only if the ground truth entails a reference, and none with tampered values.
      seed: of the tampered values.
    """

    name = "evaluate_generation"

    sources: Sources
    predictions: str
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
        return {**self.sources.inputs(), "predictions": predictions}

    def read(self) -> Inputs:
        """Reads the corpora and the predictions, and makes the scorer. Raises InputError where one of them fails."""
        metrics = measures.read_metrics(self.metrics, TAKEN)
        scorer = Cached(self._scorer(), self.cache or "")
        split = self.sources.split
        (_, path, _), *roots = find_sets(self.sources)
        variants = {root.name: root.path for root in roots if root.kind == "variant"}
        original = read_corpus(path, split, variants)
        corpora = {ORIGINAL: original}
        own_words = msgspec.structs.replace(original, words={ORIGINAL: original.words[ORIGINAL]})
        corpora |= dict.fromkeys(predicted_variants(self.predictions, split, list(variants)), own_words)
        for root in roots:
            if root.kind == "other":
                corpus = read_corpus(root.path, split)
                seen = original.seen if corpus.seen is None else corpus.seen  # it has the original's services
                corpora[root.name] = msgspec.structs.replace(corpus, seen=seen)
        turns = {name: corpus.turns for name, corpus in corpora.items()}
        predictions = read_predictions(self.predictions, split, turns)
        named = len(corpora) > 1
        sets = {name if named else "": SetInputs(corpora[name], predictions[name]) for name in corpora}
        return Inputs(sets, scorer, metrics)

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
        scorer, sets = inputs.scorer, {}
        for name, one in inputs.sets.items():
            if name:
                stage(name)
            scores = evaluate(one.corpus, one.predictions, scorer, self.seed, self.validation, stage)
            sets[name] = ScoredSet(one.corpus, scores, measures.plugin_values(inputs.metrics, one.corpus, scores))
        metrics = measures.metrics_of(sets)
        details = details_of(sets, ScorerName(scorer.name, scorer.model), self.validation)
        original = next(iter(sets.values())).corpus
        return Result(
            files=files_of(metrics, details, rows_of(sets, list(inputs.metrics)), report(sets, metrics, details)),
            summary=_summary(metrics, details, list(inputs.metrics)),
            options={
                "split": self.sources.split,
                "variants": list(original.words)[1:],
                "scorer": scorer.name,
                "model": scorer.model,
                "validation": self.validation,
                "seed": self.seed,
                "own_turns": self.predictions == REFERENCE,
                **({"sets": list(sets)} if len(sets) > 1 else {}),
            },
            counts={"turns": details.turns, "acts": details.coverage.acts},
            plugins=recorded(*(chosen for chosen, _ in inputs.metrics.values())),
        )


def details_of(sets: Mapping[str, ScoredSet], scorer: ScorerName, validation: bool) -> Details:
    """``details.json``."""
    acts = [act for one in sets.values() for act in one.scores.acts]
    checks: dict[str, list[tuple[TurnAct, Validated]]] = {}
    for name, one in sets.items():
        # Of the original in the words of each schema, and of other sets in its words; variants have the same acts.
        schemas = one.scores.checks.items() if name in ("", ORIGINAL) else [(name, one.scores.checks[ORIGINAL])]
        checks |= {schema: of for schema, of in schemas if schema not in checks}
    return Details(
        scorer=scorer,
        validation=validation,
        turns=sum(len(one.corpus.turns) for one in sets.values()),
        coverage=measures.coverage(acts),
        by_act=measures.breakdown(acts, lambda one: one.act.act),
        by_slot_type=measures.breakdown(acts, lambda one: one.act.kind),
        by_act_and_slot_type=measures.breakdown(acts, lambda one: f"{one.act.act} {one.act.kind}"),
        by_service=measures.breakdown(acts, lambda one: one.act.service),
        tampered_references={
            schema: measures.tampered_f1(of)
            for schema, of in checks.items()
            if any(validated.tampered is not None for _, validated in of)
        },
        bleu_signature=measures.corpus_bleu([""], [""])[1],
        sets={
            name: SetDetails(len(one.corpus.turns), measures.coverage(one.scores.acts))
            for name, one in sets.items()
            if name
        },
    )


def rows_of(sets: Mapping[str, ScoredSet], plugins: Sequence[str]) -> bytes:
    """A row for each turn of each set, with the metrics of turns, and after it one for each of its acts."""
    keys: list[Key] = []
    texts: dict[str, list[str | None]] = {name: [] for name in _TEXTS}
    values: dict[str, list[float | None]] = {name: [] for name in (*_ACT_METRICS, *_TURN_METRICS, *plugins)}

    def add(key: Key, row_texts: Mapping[str, str | None], row_values: Numbers) -> None:
        keys.append(key)
        for name, column in texts.items():
            column.append(row_texts.get(name))
        for name, numbers in values.items():
            numbers.append(row_values.get(name))

    for name, one in sets.items():
        corpus, scores = one.corpus, one.scores
        of_turns = measures.turn_values(corpus, scores.acts, scores.utterances)
        by_turn: dict[Place, list[ScoredAct]] = {}
        for act in scores.acts:
            by_turn.setdefault(act.turn.place, []).append(act)
        for turn in corpus.turns:
            place, utterance = turn.place, scores.utterances[turn.place]
            key = (name or corpus.name, *place)
            missing = "; ".join(f"{slot}: {value}" for slot, value in missing_values(turn.acts, utterance))
            of_plugins = {plugin: by_place[place] for plugin, by_place in one.plugins.system.items()}
            row = {"kind": "turn", "values": missing or None, "utterance": utterance}
            add(key, row, {**of_turns[place], **of_plugins})
            for act in by_turn.get(place, ()):
                add(key, _act_texts(act), measures.accuracies([act]))
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


def report(sets: Mapping[str, ScoredSet], metrics: Metrics, details: Details) -> Report:
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
    if details.sets:
        dots = [Dot(name, metrics[name]["sgsacc"]) for name in details.sets]
        sections.insert(1, Dots(title="SGSAcc by set", dots=dots))
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
        f"{', '.join(details.sets) or next(iter(sets.values())).corpus.name or 'the corpus'}; "
        f"{covered.valid:,} acts count, {text.percent(covered.share_valid)}.",
        tiles=[
            Tile(f"SGSAcc ({scorer.name})", text.percent(of_all["sgsacc"], 2)),
            Tile("coverage", text.percent(covered.share_valid, 2)),
            Tile("coverage without validation", text.percent(covered.share_entailed, 2)),
            Tile("slot error rate", text.percent(of_all["slot_error_rate"], 2)),
            Tile("BLEU", text.number(of_all["bleu"], 2)),
        ],
        sections=[*sections, *_worst(sets)],
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


def _worst(sets: Mapping[str, ScoredSet]) -> list[Section]:
    """The turns with the most unfaithful acts, then those that miss the most values."""
    wrong: list[tuple[int, int, str, SystemTurn, list[ScoredAct]]] = []
    for name, one in sets.items():
        unfaithful: dict[Place, list[ScoredAct]] = {}
        for act in one.scores.acts:
            if act.outcome == "unfaithful":
                unfaithful.setdefault(act.turn.place, []).append(act)
        for turn in one.corpus.turns:
            acts = unfaithful.get(turn.place, [])
            n_missing = len(missing_values(turn.acts, one.scores.utterances[turn.place]))
            if acts or n_missing:
                wrong.append((-len(acts), -n_missing, name, turn, acts))
    worst = sorted(wrong, key=lambda found: (*found[:2], found[3].place, found[2]))[:EXAMPLES]
    examples = []
    for _, _, name, turn, acts in worst:
        utterance = sets[name].scores.utterances[turn.place]
        lines = {"before": turn.previous, "ground truth": turn.utterance, "utterance": utterance}
        shown = [Line(label, [Part(line)]) for label, line in lines.items()]
        shown += [Line("not entailed", [Part(one.validated.reference)]) for one in acts if one.validated.reference]
        shown += [
            Line("missing value", [Part(f"{slot}: {value}")]) for slot, value in missing_values(turn.acts, utterance)
        ]
        place = f"dialogue {turn.dialogue_id}, turn {turn.turn}" + (f" of {name}" if name else "")
        examples.append(Example(place, shown))
    note = f"{len(examples):,} of {text.counted(len(wrong), 'turn')} with an error."
    return [Examples(title="Turns with the most errors", note=note, examples=examples)] if examples else []
