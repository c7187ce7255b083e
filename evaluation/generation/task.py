"""Utterances generated from dialogue acts: SGSAcc by turn and act, slot error rate, BLEU and plug-ins; the report."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from parapet.evaluation import task
from parapet.evaluation.generation import lexical, scoring
from parapet.evaluation.generation.corpus import (
    REFERENCE,
    Act,
    Corpus,
    Place,
    Prediction,
    Rules,
    SystemTurn,
    Templates,
    predicted_variants,
    read_predictions,
    read_templates,
    warn_without_template,
)
from parapet.evaluation.generation.corpus import read as read_corpus
from parapet.evaluation.results import SEEN, UNSEEN, results_of
from parapet.evaluation.sets import ALL, ORIGINAL, Key, Sources, common_dialogues, find_sets, with_mean
from parapet.schemas.errors import InputError
from parapet.transforms.core import plugins
from parapet.transforms.core.chat import Chat, Endpoint
from parapet.transforms.perturb.corpora import domain_of
from parapet.transforms.report import text
from parapet.transforms.report.report import Examples, Report, Section, dialogue_example

SEEN_DOMAINS, UNSEEN_DOMAINS = "#SEEN_DOMAINS", "#UNSEEN_DOMAINS"
SEEN_SERVICES, UNSEEN_SERVICES = "#SEEN_SERVICES", "#UNSEEN_SERVICES"
TURN_METRICS = ("sgsacc", "sgsacc_all", "sgsacc_utterance_alone", "slot_error_rate")
ACT_METRICS = ("sgsacc_acts", "sgsacc_acts_all")
METRICS = (*TURN_METRICS, *ACT_METRICS, "bleu")
FLAG = "--metrics"

Numbers = dict[str, float | None]


class ScoredTurn(msgspec.Struct, frozen=True):
    """A system turn with the predicted utterance.

    Attributes:
      utterance: the prediction.
      acts: in order; SGSAcc ignores turns without acts.
      plugins: the values of plug-ins' metrics.
    """

    turn: SystemTurn
    utterance: str
    acts: tuple[scoring.ScoredAct, ...]
    plugins: Numbers = {}

    @property
    def valid(self) -> bool:
        """Whether all its acts are valid, so that SGSAcc includes it."""
        return bool(self.acts) and all(act.valid for act in self.acts)

    @property
    def faithful(self) -> bool:
        """Whether all its acts are realised faithfully (section 2)."""
        return all(act.premise is not None for act in self.acts)

    @property
    def outcome(self) -> str | None:
        """The outcome: ``faithful``, ``unfaithful``, or ``not_valid``; None without acts."""
        return ("faithful" if self.faithful else "unfaithful") if self.valid else "not_valid" if self.acts else None

    @property
    def has_values(self) -> bool:
        """Whether it has a value of a free slot, which slot error rate checks."""
        return any(act.act.kind == "free" and act.act.values for act in self.acts)

    def values(self) -> Numbers:
        """Returns the metrics of turns, 1 or 0; None if the metric ignores the turn."""
        alone = all(act.premise == "utterance" for act in self.acts)
        return {
            "sgsacc": float(self.faithful) if self.valid else None,
            "sgsacc_all": float(self.faithful) if self.acts else None,
            "sgsacc_utterance_alone": float(alone) if self.valid else None,
            "slot_error_rate": float(bool(missing_values(self.turn.acts, self.utterance))),
            **self.plugins,
        }


def act_values(one: scoring.ScoredAct) -> Numbers:
    """Returns the metrics of acts, 1 or 0; None if the metric ignores the act."""
    faithful = float(one.premise is not None)
    return {"sgsacc_acts": faithful if one.valid else None, "sgsacc_acts_all": faithful}


def accuracies(turns: Sequence[ScoredTurn]) -> Numbers:
    """Computes SGSAcc and slot error rate over turns, 0 to 1; None if no turn counts.

    ``sgsacc`` is the share of valid turns that are faithful, ``sgsacc_all`` that of all turns with acts;
    ``sgsacc_utterance_alone`` is ``sgsacc`` without the augmented premise. ``sgsacc_acts`` and ``sgsacc_acts_all`` are
    shares of acts.
    """
    of_turns = [turn.values() for turn in turns]
    of_acts = [act_values(act) for turn in turns for act in turn.acts]
    return {**means(of_turns, TURN_METRICS), **means(of_acts, ACT_METRICS)}


def seen_by(seen: frozenset[str] | None, name_of: Callable[[str], str]) -> Callable[[ScoredTurn], bool | None]:
    """Returns a function that tells whether all services of a turn are seen; None without a training schema or acts.

    Args:
      seen: the services of the training schema.
      name_of: returns the name to look up for a service: its own, or its domain.
    """
    known = frozenset(map(name_of, seen or ()))

    def is_seen(one: ScoredTurn) -> bool | None:
        if seen is None or not one.acts:
            return None
        return all(name_of(act.act.service) in known for act in one.acts)

    return is_seen


class ScoredSet(msgspec.Struct, frozen=True):
    """A set with its scores.

    Attributes:
      turns: the predicted utterances.
      checks: see :class:`Scores`.
    """

    corpus: Corpus
    turns: list[ScoredTurn]
    checks: dict[str, list[tuple[scoring.TurnAct, scoring.Validated]]]


def scored_set(corpus: Corpus, scores: scoring.Scores, metrics: Mapping[str, ChosenMetric] = {}) -> ScoredSet:
    """Scores a set turn by turn. Raises InputError if a plug-in returns values that are not shares, or too few."""
    plugins = {name: _values(*metric, corpus, scores.utterances) for name, metric in metrics.items()}
    acts: dict[Place, list[scoring.ScoredAct]] = {}
    for act in scores.acts:
        acts.setdefault(act.turn.place, []).append(act)
    turns = []
    for i, turn in enumerate(corpus.turns):
        values = {name: column[i] for name, column in plugins.items()}
        turns.append(ScoredTurn(turn, scores.utterances[turn.place], tuple(acts.get(turn.place, ())), values))
    return ScoredSet(corpus, turns, scores.checks)


def overall(turns: Sequence[ScoredTurn]) -> Numbers:
    """Computes all metrics over turns."""
    return {
        **accuracies(turns),
        "bleu": corpus_bleu([turn.utterance for turn in turns], [turn.turn.utterance for turn in turns])[0],
        **means([turn.plugins for turn in turns], turns[0].plugins if turns else ()),
    }


def metrics_of(sets: Mapping[str, ScoredSet]) -> dict[str, Numbers]:
    """Computes the metrics of a system's utterances.

    They are over all sets and over each named set. SGSAcc and slot error rate are also by whether the turn's domains,
    and its services, were all seen in training.
    """
    of_all = overall([turn for scored in sets.values() for turn in scored.turns])
    metrics = with_mean({ALL: of_all, **{name: overall(scored.turns) for name, scored in sets.items() if name}})
    for name_of, keys in ((domain_of, (UNSEEN_DOMAINS, SEEN_DOMAINS)), (str, (UNSEEN_SERVICES, SEEN_SERVICES))):
        groups: dict[bool | None, list[ScoredTurn]] = {}
        for scored in sets.values():
            is_seen = seen_by(scored.corpus.seen, name_of)
            for turn in scored.turns:
                groups.setdefault(is_seen(turn), []).append(turn)
        metrics |= {keys[seen]: accuracies(groups[seen]) for seen in (True, False) if seen in groups}
    return metrics


Details = dict[str, Any]


def coverage(turns: Iterable[ScoredTurn]) -> Details:
    """Counts the turns and acts that SGSAcc and slot error rate include (section 2.2).

    Turns without acts are ignored. Turns: ``valid`` ones have only valid acts and enter SGSAcc; ``slot_error_rate``
    counts those with a value of a free slot; ``free_slot`` those with an act on a free slot, including a REQUEST
    without a value; ``categorical`` those with the value of a categorical or boolean slot. Acts: ``entailed`` ones have
    a reference sentence that the ground truth entails.
    """
    turns = [turn for turn in turns if turn.acts]
    acts = [act for turn in turns for act in turn.acts]
    of_turns = {
        "valid": sum(turn.valid for turn in turns),
        "slot_error_rate": sum(turn.has_values for turn in turns),
        "free_slot": sum(any(act.act.kind == "free" for act in turn.acts) for turn in turns),
        "categorical": sum(
            any(act.act.kind in ("categorical", "boolean") and act.act.states for act in turn.acts) for turn in turns
        ),
    }
    of_acts = {
        "entailed": sum(act.validated.premise is not None for act in acts),
        "valid": sum(act.valid for act in acts),
    }
    return {"turns": _with_shares("turns", len(turns), of_turns), "acts": _with_shares("acts", len(acts), of_acts)}


def _with_shares(name: str, whole: int, parts: Mapping[str, int]) -> Details:
    return {name: whole, **parts, **{f"share_{part}": ratio(n, whole) for part, n in parts.items()}}


def agreement(turns: Iterable[ScoredTurn]) -> Details:
    """Counts turns on which SGSAcc (only acts on free slots) and slot error rate agree, of those that both include.

    See section 2.2.
    """
    judged = [turn for turn in turns if turn.valid and turn.has_values]
    same = 0
    for turn in judged:
        free = [act for act in turn.acts if act.act.kind == "free" and act.act.values]
        same += all(act.premise is not None for act in free) != bool(missing_values(turn.turn.acts, turn.utterance))
    return {"turns": len(judged), "same": same, "share": ratio(same, len(judged))}


def by_group(items: Iterable[tuple[str, Numbers]], counted: str, metric: str) -> dict[str, Details]:
    """Averages the metrics of the items of each group, sorted by name.

    Args:
      items: (group, metrics) of each turn or act.
      counted: the name of the number of items.
      metric: ``coverage`` is the share of the items for which this metric is defined.
    """
    groups: dict[str, list[Numbers]] = {}
    for name, values in items:
        groups.setdefault(name, []).append(values)
    return {
        name: {
            counted: len(group),
            "coverage": ratio(sum(values[metric] is not None for values in group), len(group)),
            **means(group, group[0]),
        }
        for name, group in sorted(groups.items())
    }


def tampered_f1(checks: Iterable[tuple[scoring.TurnAct, scoring.Validated]]) -> Details:
    """Measures how well the ground truth distinguishes true sentences from tampered ones (the paper's Appendix A).

    Each act with tampered values yields two examples: its sentences, one of which should be entailed, and the sentences
    with tampered values, none of which should be.
    """
    pairs = [validated for _, validated in checks if validated.tampered is not None]
    right = sum(pair.premise is not None for pair in pairs)
    wrong = sum(bool(pair.tampered) for pair in pairs)
    return {
        "acts": len(pairs),
        "true_entailed": right,
        "tampered_entailed": wrong,
        "precision": ratio(right, right + wrong),
        "recall": ratio(right, len(pairs)),
        "f1": ratio(2 * right, right + wrong + len(pairs)),
    }


def details_of(sets: Mapping[str, ScoredSet], **options: object) -> Details:
    """Makes ``details.json``, which has ``sets`` if there are several. ``options`` are the settings of the scoring."""
    turns = [turn for scored in sets.values() for turn in scored.turns]
    acts = [act for turn in turns for act in turn.acts]
    checks: dict[str, Details] = {}
    for name, one in sets.items():
        # The original has checks in the words of each schema, and other sets in their own words; variants have the same
        # acts.
        schemas = one.checks if name in ("", ORIGINAL) else {name: one.checks[ORIGINAL]}
        checks |= {schema: tampered_f1(pairs) for schema, pairs in schemas.items() if schema not in checks}
    by_set = {
        name: {"turns": len(one.turns), "coverage": coverage(one.turns), "agreement": agreement(one.turns)}
        for name, one in sets.items()
        if name
    }
    return {
        **options,
        "turns": len(turns),
        "coverage": coverage(turns),
        "agreement": agreement(turns),
        "by_service": by_group(
            ((name, turn.values()) for turn in turns for name in {act.act.service for act in turn.acts}),
            "turns",
            "sgsacc",
        ),
        "by_act": by_group(((act.act.act, act_values(act)) for act in acts), "acts", "sgsacc_acts"),
        "by_slot_type": by_group(((act.act.kind, act_values(act)) for act in acts), "acts", "sgsacc_acts"),
        "tampered_references": {schema: check for schema, check in checks.items() if check["acts"]},
        "bleu_signature": corpus_bleu([""], [""])[1],
        **({"sets": by_set} if by_set else {}),
    }


def ratio(part: int, whole: int) -> float | None:
    """Returns a share; None if ``whole`` is 0."""
    return part / whole if whole else None


def means(rows: Collection[Numbers], names: Iterable[str]) -> Numbers:
    """Averages metrics."""
    return {name: mean(values[name] for values in rows) for name in names}


def mean(values: Iterable[float | None]) -> float | None:
    """Averages the values that are not None; None if there are none."""
    defined = [value for value in values if value is not None]
    return math.fsum(defined) / len(defined) if defined else None


def missing_values(acts: Iterable[Act], utterance: str) -> list[tuple[str, str]]:
    """Returns (slot, value) of the values that an utterance should contain verbatim, ignoring case, but does not.

    Only values of free slots count, as categorical ones may be expressed in any words. An utterance that lacks a value
    is an error; the slot error rate is the share of errors among all utterances, including those without values.
    """
    lower = utterance.lower()
    return [
        (act.slot, value) for act in acts if act.kind == "free" for value in act.values if value.lower() not in lower
    ]


def corpus_bleu(utterances: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """Computes the BLEU of a corpus, 0 to 100; also returns sacrebleu's signature, which describes the computation."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU()
    return float(metric.corpus_score(list(utterances), [list(references)]).score), str(metric.get_signature())


class Metric(Protocol):
    """The interface of a plug-in's metric."""

    def score(self, utterances: Sequence[str], references: Sequence[str], /) -> Sequence[float | None]:
        """Scores utterances.

        Args:
          utterances: all utterances of a run, in order.
          references: the corpus's utterances of the same turns.

        Returns:
          For each utterance a share, 0 to 1, where more is better; None for no score.
        """
        ...


ChosenMetric = tuple[plugins.Chosen, Metric]


def read_metrics(names: Sequence[str], taken: Container[str]) -> dict[str, ChosenMetric]:
    """Returns the metrics that ``--metrics`` names, by name.

    Args:
      names: the names.
      taken: names of other metrics, and of other columns of the rows.

    Raises:
      InputError: a metric is not installed, cannot be constructed, is repeated, or has a taken name.
    """
    metrics: dict[str, ChosenMetric] = {}
    for wanted in names:
        chosen = plugins.choose(plugins.METRICS, wanted, FLAG)
        name = chosen.plugin.name
        if name in metrics:
            raise InputError(f"{name!r} appears twice", FLAG)
        if name in taken:
            raise chosen.refused("cannot be used, because the rows have a column of that name")
        metrics[name] = chosen, plugins.make(chosen, plugins.members(Metric))
    return metrics


def _values(
    chosen: plugins.Chosen, metric: Metric, corpus: Corpus, utterances: Mapping[Place, str]
) -> list[float | None]:
    references = [turn.utterance for turn in corpus.turns]
    values = list(metric.score([utterances[turn.place] for turn in corpus.turns], references))
    if len(values) != len(references):
        raise chosen.refused(f"returned {len(values)} values for {len(references)} turns")
    shares = [*map(_as_float, values)]
    for turn, value in zip(corpus.turns, shares, strict=True):
        if value is not None and not 0 <= value <= 1:
            place = f"{turn.dialogue_id}, turn {turn.turn}"
            raise chosen.refused(f"returned a value that is not between 0 and 1 for {place}")
    return shares


def _as_float(value: object) -> float | None:
    """Converts a number of any library to a float; NaN if it is not a number."""
    try:
        return None if value is None else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan


EXAMPLES = 30

SCORERS = {
    "lexical": "Judged by the lexical scorer: rules on words, no model of language inference. It sees a value only "
    "where it is said verbatim, and nothing that is said in other words. Its SGSAcc is not that of the paper.",
    "nli": "Judged by a model of natural language inference: {model}.",
    "llm": "Judged by a language model ({model}), not by a model of language inference: its SGSAcc is not that of the "
    "paper.",
}
RULES = {
    "paper": "References are built by the rules of the paper (`--rules paper`).",
    "extended": "References are built by rules of our own (`--rules extended`), not by those of the paper.",
    "templates": "References are sentences of the user's templates (`--templates`): semantic accuracy, not SGSAcc.",
}
TERMS = {
    "SGSAcc": "Schema-guided semantic accuracy (Chen, Lin and Byrne 2023): the share of valid turns whose utterance is "
    "faithful to all acts, that is, entails the reference of each.",
    "Reference": "A sentence that says the act in the schema's words, such as 'City of the restaurant is Oslo'; of "
    "several, the one that the ground truth entails most.",
    "Valid": "An act is valid if the ground truth entails a reference, and no reference with other values. A turn is "
    "valid if all of its acts are.",
    "All turns": "SGSAcc over all turns, valid or not.",
    "Utterance alone": "SGSAcc without the second try, in which the turn before and the slot's description precede "
    "the utterance.",
    "By act": "The share of valid acts to which the utterance is faithful, and that of all acts.",
    "SER": "Slot error rate: the share of all utterances, those without a value included, that do not contain a "
    "value of a free slot verbatim. Low is good.",
    "Coverage": "The share of turns that a metric can judge: of SGSAcc valid ones, of SER those with a value of a free "
    "slot. The paper's 66 % for SER fits the turns about a free slot, requests included (`share_free_slot`).",
    "Agreement": "The share of turns on which SGSAcc (only acts on free slots) and SER agree, over the turns that both "
    "can judge.",
    "F1 on tampered references": "How well the ground truth distinguishes true references (one has to be entailed) "
    "from those with other values (none may be).",
    "Seen domains": "Turns whose domains are all in the training schema; a domain is a service's name without its "
    "number.",
}
HEADINGS = {
    "sgsacc": "SGSAcc",
    "sgsacc_all": "all turns",
    "sgsacc_utterance_alone": "utterance alone",
    "slot_error_rate": "SER",
    "sgsacc_acts": "by act",
    "sgsacc_acts_all": "all acts",
    "bleu": "BLEU",
}
SHORT = {"sgsacc": "SGSAcc", "sgsacc_all": "of all turns", "slot_error_rate": "slot error rate"}
OF_TURNS = {
    "sgsacc": "SGSAcc",
    "sgsacc_all": "all turns",
    "slot_error_rate": "SER",
    "coverage": "coverage",
    "turns": "turns",
}
OF_ACTS = {"sgsacc_acts": "by act", "sgsacc_acts_all": "all acts", "coverage": "coverage", "acts": "acts"}
OF_CHECKS = {"f1": "F1", "precision": "precision", "recall": "recall", "acts": "acts"}

_OF_ACTS = ("act", "slot", "slot_type", "values", "reference", "outcome", "premise")
_TEXTS = ("kind", "service", "seen", *_OF_ACTS, "utterance")

# names that plug-ins' metrics must not have
TAKEN = frozenset({"set", "dialogue_id", "turn", *_TEXTS, *METRICS})


class SetInputs(msgspec.Struct, frozen=True):
    """The data of a set; ``refused`` is the number of turns that are not scored."""

    corpus: Corpus
    predictions: dict[Place, Prediction]
    refused: int = 0


class Inputs(msgspec.Struct, frozen=True):
    """The data by set, the scorer and the metrics; a single original set has an empty name."""

    sets: dict[str, SetInputs]
    scorer: scoring.Cached
    metrics: dict[str, ChosenMetric]


class Generation(task.Task[Inputs], frozen=True, kw_only=True):
    """The task of ``parapet evaluate --task generation``.

    Attributes:
      sources: the corpora with the acts of system turns. Sentences of acts are also validated in the words of the
        variants. Variants with predictions are scored as sets, with the same acts.
      predictions: JSON lines, a folder with those of each set, or ``reference``: the corpora's own turns.
      scorer: the judge of entailment; for ``nli``, ``nli_model`` is the folder of its model, ``batch`` the pairs at a
        time.
      endpoint: the endpoint of ``llm``; ``prompt`` replaces the built-in template.
      cache: a file that keeps judgements, or answers of ``llm``, for other runs.
      metrics: names of plug-ins' metrics.
      rules: the rules that make the sentences.
      templates: a folder of templates, whose sentences take the place of those by rules.
      validation: whether acts count only if the ground truth entails a sentence, and none with tampered values.
      seed: the seed of tampered values.
    """

    name = "evaluate_generation"

    sources: Sources
    predictions: str
    scorer: Literal["lexical", "nli", "llm"] = "lexical"
    nli_model: str | None = None
    endpoint: Endpoint | None = None
    prompt: str | None = None
    batch: int = 32
    cache: str | None = None
    metrics: tuple[str, ...] = ()
    rules: Rules = "paper"
    templates: str | None = None
    validation: bool = True
    seed: str = "0"

    def inputs(self) -> dict[str, str | None]:
        """Returns the folders, and the file of predictions."""
        predictions = None if self.predictions == REFERENCE else self.predictions
        return {**self.sources.inputs(), "predictions": predictions, "templates": self.templates}

    def read(self) -> Inputs:
        """Reads the corpora and the predictions, and makes the scorer.

        Raises InputError if one of them cannot be used.
        """
        if self.templates and self.sources.variants:
            raise InputError("cannot be used with --variants: templates do not depend on the schema", "--templates")
        metrics = read_metrics(self.metrics, TAKEN)
        scorer = scoring.Cached(self._scorer(), "" if self.scorer == "llm" else self.cache or "")
        split = self.sources.split
        (_, path, _), *roots = find_sets(self.sources)
        variants = {root.name: root.path for root in roots if root.kind == "variant"}
        templates = read_templates(self.templates)[0] if self.templates else {}
        original = with_templates(read_corpus(path, split, variants), templates)
        corpora = {ORIGINAL: original}
        own_words = msgspec.structs.replace(original, words={ORIGINAL: original.words[ORIGINAL]})
        corpora |= dict.fromkeys(predicted_variants(self.predictions, list(variants)), own_words)
        for root in roots:
            if root.kind == "other":
                corpus = with_templates(read_corpus(root.path, split), templates)
                seen = original.seen if corpus.seen is None else corpus.seen  # it has the original's services
                corpora[root.name] = msgspec.structs.replace(corpus, seen=seen)
        turns_by_set = {name: corpus.turns for name, corpus in corpora.items()}
        predictions = read_predictions(self.predictions, split, turns_by_set)
        dialogues = {name: {turn.dialogue_id for turn in corpus.turns} for name, corpus in corpora.items()}
        common = common_dialogues(dialogues)
        for name, corpus in corpora.items():
            turns = tuple(turn for turn in corpus.turns if turn.dialogue_id in common)
            corpora[name] = msgspec.structs.replace(corpus, turns=turns)
        sets = {name if len(corpora) > 1 else "": _answered(corpora[name], predictions[name]) for name in corpora}
        for set_input in sets.values():
            task.check_scored(set_input.predictions, self.predictions)
        return Inputs(sets, scorer, metrics)

    def _scorer(self) -> scoring.Scorer:
        if self.scorer == "nli":
            if self.nli_model is None:
                raise InputError("is required: give a folder with a model", "--nli_model")
            return scoring.Nli(self.nli_model, self.batch)
        if self.nli_model is not None:
            raise InputError("requires --scorer nli", "--nli_model")
        if self.scorer == "lexical":
            return lexical.Lexical()
        from parapet.evaluation.endpoint.asking import prompt_of
        from parapet.evaluation.endpoint.models import Judge

        assert self.endpoint is not None
        chat = Chat(self.endpoint, self.cache)
        chat.open()
        return Judge(chat, prompt_of("entailment", self.prompt))

    def score(self, inputs: Inputs, stage: task.Stage) -> task.Result:
        """Computes SGSAcc, slot error rate and BLEU."""
        scorer, sets = inputs.scorer, {}
        for name, set_input in inputs.sets.items():
            if name:
                stage(name)
            scores = scoring.evaluate(
                set_input.corpus, set_input.predictions, scorer, self.seed, self.validation, self.rules, stage
            )
            sets[name] = scored_set(set_input.corpus, scores, inputs.metrics)
        metrics = metrics_of(sets)
        names: dict[str, object] = {"name": scorer.name, "model": scorer.model}
        if isinstance(unread := getattr(scorer.scorer, "unread", None), int):
            names["unread"] = unread
        rules = "templates" if self.templates else self.rules
        details = details_of(sets, scorer=names, rules=rules, validation=self.validation)
        sizes = {ALL: details["turns"], **{name: len(scored.turns) for name, scored in sets.items()}}
        results = results_of("generation", metrics, sizes, {SEEN_DOMAINS: SEEN, UNSEEN_DOMAINS: UNSEEN})
        refused = {name: set_input.refused for name, set_input in inputs.sets.items() if set_input.refused}
        return task.Result(
            files=task.files_of(
                metrics, results, details, rows_of(sets, list(inputs.metrics)), report(sets, metrics, details, refused)
            ),
            refused=refused,
            summary=_summary(metrics, details, list(inputs.metrics)),
            options={
                "split": self.sources.split,
                "variants": list(next(iter(sets.values())).corpus.words)[1:],
                "scorer": scorer.name,
                "model": scorer.model,
                "rules": rules,
                "validation": self.validation,
                "seed": self.seed,
                "own_turns": self.predictions == REFERENCE,
                **({"sets": list(sets)} if len(sets) > 1 else {}),
            },
            counts={"turns": details["turns"], "acts": details["coverage"]["acts"]["acts"]},
            plugins=plugins.recorded(*(chosen for chosen, _ in inputs.metrics.values())),
        )


def with_templates(corpus: Corpus, templates: Templates) -> Corpus:
    """Makes templates the references of the acts of a corpus, and warns about acts without one."""
    if not templates:
        return corpus
    acts = [act for turn in corpus.turns for act in turn.acts]
    warn_without_template(acts, templates, "are judged by sentences of the rules")
    words = {
        service: msgspec.structs.replace(words_of_service, templates=templates.get(service, {}))
        for service, words_of_service in corpus.words[ORIGINAL].items()
    }
    return msgspec.structs.replace(corpus, words={ORIGINAL: words})


def _answered(corpus: Corpus, predictions: dict[Place, Prediction]) -> SetInputs:
    """Leaves out the turns without an utterance, because a request was refused."""
    answered = {place: prediction for place, prediction in predictions.items() if not prediction.refused}
    if len(answered) < len(predictions):
        corpus = msgspec.structs.replace(corpus, turns=tuple(turn for turn in corpus.turns if turn.place in answered))
    return SetInputs(corpus, answered, len(predictions) - len(answered))


def rows_of(sets: Mapping[str, ScoredSet], plugins: Sequence[str]) -> bytes:
    """Makes rows for each turn of each set, with the metrics of turns, each followed by rows for its acts."""
    rows: list[tuple[Key, Mapping[str, Any]]] = []
    for name, scored in sets.items():
        is_seen = seen_by(scored.corpus.seen, domain_of)
        for turn in scored.turns:
            key = (name or scored.corpus.name, *turn.turn.place)
            seen = {"seen": {True: SEEN, False: UNSEEN, None: None}[is_seen(turn)]}
            rows.append((key, {**_turn_texts(turn), **seen, **turn.values()}))
            rows += ((key, {**_act_texts(act), **seen, **act_values(act)}) for act in turn.acts)
    return task.rows_bytes(
        [key for key, _ in rows],
        {name: [row.get(name) for _, row in rows] for name in (*TURN_METRICS, *ACT_METRICS, *plugins)},
        {name: [row.get(name) for _, row in rows] for name in _TEXTS},
    )


def _turn_texts(one: ScoredTurn) -> dict[str, str | None]:
    return {
        "kind": "turn",
        "service": "; ".join(dict.fromkeys(act.act.service for act in one.acts)) or None,
        "values": "; ".join(f"{slot}: {value}" for slot, value in missing_values(one.turn.acts, one.utterance)) or None,
        "outcome": one.outcome,
        "utterance": one.utterance,
    }


def _act_texts(one: scoring.ScoredAct) -> dict[str, str | None]:
    return {
        "kind": "act",
        "service": one.act.service,
        "act": one.act.act,
        "slot": one.act.slot or None,
        "slot_type": one.act.kind,
        "values": "; ".join(one.act.values) or None,
        "reference": one.validated.reference,
        "outcome": one.outcome,
        "premise": one.premise,
    }


def _summary(metrics: task.Metrics, details: Mapping[str, Any], plugins: Sequence[str]) -> list[str]:
    scorer, turns = details["scorer"], details["coverage"]["turns"]
    whole = {**SHORT, "bleu": "BLEU", **{name: name for name in plugins}}
    return [
        f"scorer: {scorer['name']} ({scorer['model']})",
        *_judge(scorer),
        f"{text.counted(details['turns'], 'system turn')}: {text.percent(turns['share_valid'], 2)} valid",
        *(task.line(name, values, whole if "bleu" in values else SHORT) for name, values in metrics.items()),
        f"agreement of SGSAcc with the slot error rate: {text.percent(details['agreement']['share'], 2)}",
        *(
            f"{name}: F1 on tampered references {text.percent(check['f1'], 2)}"
            for name, check in details["tampered_references"].items()
        ),
    ]


def _judge(scorer: Mapping[str, Any]) -> list[str]:
    """Describes the reliability of a language model as a judge."""
    if "unread" not in scorer:
        return []
    return [f"{text.counted(scorer['unread'], 'answer')} of the judge could not be read and count as not entailed"]


def report(
    sets: Mapping[str, ScoredSet], metrics: task.Metrics, details: Mapping[str, Any], refused: Mapping[str, int] = {}
) -> Report:
    """Makes the report from ``metrics.json``, ``details.json`` and the turns."""
    of_all, scorer, covered = metrics[ALL], details["scorer"], details["coverage"]
    group = task.main_group(metrics)
    sections: list[Section] = [
        task.group_table(title, first, groups, headings, numbers_in="details.json")
        for title, first, groups, headings in (
            ("Services", "service", details["by_service"], OF_TURNS),
            ("Acts", "act", details["by_act"], OF_ACTS),
            ("Types of slots", "type", details["by_slot_type"], OF_ACTS),
            ("True and tampered references", "schema", details["tampered_references"], OF_CHECKS),
        )
    ]
    notes = [SCORERS[scorer["name"]].format(model=scorer["model"]), *_judge(scorer), RULES[details["rules"]]]
    if not details["validation"]:
        notes.append("Turns were not validated (`--no_validation`): all count.")
    n_valid, share_valid = covered["turns"]["valid"], text.percent(covered["turns"]["share_valid"])
    names = ", ".join(name for name in sets if name) or next(iter(sets.values())).corpus.name or "the corpus"
    return task.set_report(
        metrics,
        {**HEADINGS, **{name: name for name in of_all if name not in METRICS}},
        sizes={name: {} for name in metrics},
        sections=[*sections, _worst(sets)],
        tiles={**SHORT, "sgsacc": f"SGSAcc ({scorer['name']})", "bleu": "BLEU"},
        facts={"coverage of SGSAcc": share_valid, "agreement": text.percent(details["agreement"]["share"], 2)},
        chart={"sgsacc": "SGSAcc"},
        terms=TERMS | {"BLEU": f"By sacrebleu, from 0 to 100: `{details['bleu_signature']}`."},
        refused=refused,
        title="Generated utterances",
        headline=f"{task.with_group('Turns that say all their acts faithfully', metrics, group, 'sgsacc')}: "
        f"{text.percent(metrics[group]['sgsacc'])}",
        lead=f"{text.counted(details['turns'], 'system turn')} with {text.counted(covered['acts']['acts'], 'act')} of "
        f"{names}; {n_valid:,} turns are valid, {share_valid}.",
        notes=notes,
    )


def _worst(sets: Mapping[str, ScoredSet]) -> Examples:
    """Lists the turns with the most unfaithful acts, then those that miss the most values."""
    wrong: list[tuple[int, int, str, ScoredTurn]] = []
    for name, set_input in sets.items():
        for scored in set_input.turns:
            n_unfaithful = sum(act.outcome == "unfaithful" for act in scored.acts)
            n_missing = len(missing_values(scored.turn.acts, scored.utterance))
            if n_unfaithful or n_missing:
                wrong.append((-n_unfaithful, -n_missing, name, scored))
    examples = []
    for _, _, name, scored in sorted(wrong, key=lambda found: (*found[:2], found[3].turn.place, found[2]))[:EXAMPLES]:
        turn, utterance = scored.turn, scored.utterance
        lines = [("before", turn.previous), ("ground truth", turn.utterance), ("utterance", utterance)]
        references = [act.validated.reference for act in scored.acts if act.outcome == "unfaithful"]
        lines += [("not entailed", reference) for reference in references if reference]
        lines += [("missing value", f"{slot}: {value}") for slot, value in missing_values(turn.acts, utterance)]
        place = f"dialogue {turn.dialogue_id}, turn {turn.turn}" + (f" of {name}" if name else "")
        examples.append(dialogue_example(place, lines))
    note = f"{len(examples):,} of {text.counted(len(wrong), 'turn')} with an error."
    return Examples(title="Turns with the most errors", note=note, examples=examples)
