"""Utterances made from dialogue acts: read, scored and reported. See the modules beside for what is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from parapet.evaluation.generation import metrics as measures
from parapet.evaluation.generation.breakdowns import Details, ScorerName, details_of
from parapet.evaluation.generation.corpus import Corpus, Place
from parapet.evaluation.generation.corpus import read as read_corpus
from parapet.evaluation.generation.lexical import Lexical
from parapet.evaluation.generation.metrics import ChosenMetric, Numbers, ScoredSet, ScoredTurn, missing_values
from parapet.evaluation.generation.nli import Nli
from parapet.evaluation.generation.page import report
from parapet.evaluation.generation.predictions import REFERENCE, Prediction, predicted_variants, read_predictions
from parapet.evaluation.generation.references import Rules
from parapet.evaluation.generation.scorers import Cached
from parapet.evaluation.generation.scoring import ScoredAct, evaluate
from parapet.evaluation.lines import Key
from parapet.evaluation.sets import ORIGINAL, Sources, find_sets
from parapet.evaluation.task import Metrics, Result, Stage, Task, files_of
from parapet.evaluation.writing import rows_bytes
from parapet.schemas.errors import InputError
from parapet.transforms import text
from parapet.transforms.corpora import domain_of
from parapet.transforms.plugins import recorded

_OF_ACTS = ("act", "slot", "slot_type", "values", "reference", "outcome", "premise")
_TEXTS = ("kind", "service", "seen", *_OF_ACTS, "utterance")

TAKEN = frozenset({"set", "dialogue_id", "turn", *_TEXTS, *measures.METRICS})  # no plug-in's metric has such a name


class SetInputs(msgspec.Struct, frozen=True):
    """What is scored in a set."""

    corpus: Corpus
    predictions: dict[Place, Prediction]


class Inputs(msgspec.Struct, frozen=True):
    """What is scored by set, and by what; of an original without others the name is empty."""

    sets: dict[str, SetInputs]
    scorer: Cached
    metrics: dict[str, ChosenMetric]


class Generation(Task[Inputs], frozen=True, kw_only=True):
    """``parapet evaluate --task generation``.

    Attributes:
      sources: the corpora with the acts of system turns. The references of acts are tested in the words of its
        variants, which are sets as well where predictions for them are there: of the same acts.
      predictions: JSON lines, a folder with those of each set, or ``reference``: the corpora's own turns.
      scorer: who judges entailment; ``nli_model`` is the folder of its model, ``batch`` pairs at a time.
      cache: a file that keeps judgements for another run.
      metrics: names of plug-ins' metrics.
      rules: by which references are built.
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
    rules: Rules = "paper"
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
            scores = evaluate(one.corpus, one.predictions, scorer, self.seed, self.validation, self.rules, stage)
            of_plugins = measures.plugin_values(inputs.metrics, one.corpus, scores)
            sets[name] = measures.scored_set(one.corpus, scores, of_plugins)
        metrics = measures.metrics_of(sets)
        details = details_of(sets, ScorerName(scorer.name, scorer.model), self.rules, self.validation)
        original = next(iter(sets.values())).corpus
        return Result(
            files=files_of(metrics, details, rows_of(sets, list(inputs.metrics)), report(sets, metrics, details)),
            summary=_summary(metrics, details, list(inputs.metrics)),
            options={
                "split": self.sources.split,
                "variants": list(original.words)[1:],
                "scorer": scorer.name,
                "model": scorer.model,
                "rules": self.rules,
                "validation": self.validation,
                "seed": self.seed,
                "own_turns": self.predictions == REFERENCE,
                **({"sets": list(sets)} if len(sets) > 1 else {}),
            },
            counts={"turns": details.turns, "acts": details.coverage.acts.acts},
            plugins=recorded(*(chosen for chosen, _ in inputs.metrics.values())),
        )


def rows_of(sets: Mapping[str, ScoredSet], plugins: Sequence[str]) -> bytes:
    """A row for each turn of each set, with the metrics of turns, and after it one for each of its acts."""
    keys: list[Key] = []
    texts: dict[str, list[str | None]] = {name: [] for name in _TEXTS}
    metrics = (*measures.TURN_METRICS, *measures.ACT_METRICS, *plugins)
    values: dict[str, list[float | None]] = {name: [] for name in metrics}

    def add(key: Key, row_texts: Mapping[str, str | None], row_values: Numbers) -> None:
        keys.append(key)
        for name, column in texts.items():
            column.append(row_texts.get(name))
        for name, numbers in values.items():
            numbers.append(row_values.get(name))

    for name, one in sets.items():
        is_seen = measures.seen_by(one.corpus.seen, domain_of)
        for turn in one.turns:
            key = (name or one.corpus.name, *turn.turn.place)
            of_plugins = {plugin: by_place[turn.turn.place] for plugin, by_place in one.plugins.system.items()}
            seen = is_seen(turn)
            group = None if seen is None else "seen" if seen else "unseen"
            add(key, {**_turn_texts(turn), "seen": group}, {**turn.values(), **of_plugins})
            for act in turn.acts:
                add(key, {**_act_texts(act), "seen": group}, measures.act_values(act))
    return rows_bytes(keys, values, texts)


def _turn_texts(one: ScoredTurn) -> dict[str, str | None]:
    missing = "; ".join(f"{slot}: {value}" for slot, value in missing_values(one.turn.acts, one.utterance))
    return {
        "kind": "turn",
        "service": "; ".join(dict.fromkeys(act.act.service for act in one.acts)) or None,
        "values": missing or None,
        "outcome": one.outcome,
        "utterance": one.utterance,
    }


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
    acts, of_turns = details.coverage.acts, details.coverage.turns
    shares = (of_turns.share_valid, of_turns.share_free_slot, of_turns.share_slot_error_rate)
    valid, about_free, with_values = (text.percent(share, 2) for share in shares)
    lines = [
        f"scorer: {details.scorer.name} ({details.scorer.model})",
        f"{text.counted(details.turns, 'system turn')}: {valid} are valid; {about_free} are about free slots, "
        f"{with_values} have values of some",
        f"{text.counted(acts.acts, 'act')}: {text.percent(acts.share_valid, 2)} are valid",
    ]
    for name, values in metrics.items():
        parts = [
            f"SGSAcc {text.percent(values['sgsacc'], 2)}",
            f"of all turns {text.percent(values['sgsacc_all'], 2)}",
            f"slot error rate {text.percent(values['slot_error_rate'], 2)}",
        ]
        if "bleu" in values:
            parts.append(f"BLEU {text.number(values['bleu'], 2)}")
            parts += [f"{plugin} {text.percent(values[plugin], 2)}" for plugin in plugins]
        lines.append(f"{name}: {', '.join(parts)}")
    lines.append(f"agreement with the slot error rate: {text.percent(details.agreement.share, 2)}")
    for name, check in details.tampered_references.items():
        lines.append(f"{name}: F1 on tampered references {text.percent(check.f1, 2)}")
    return lines
