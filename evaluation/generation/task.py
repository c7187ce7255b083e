"""The task of utterances generated from dialogue acts: reads, scores and reports. Other modules define the metrics."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from parapet.evaluation import task
from parapet.evaluation.generation import metrics as measures
from parapet.evaluation.generation.corpus import (
    REFERENCE,
    Corpus,
    Place,
    Prediction,
    Rules,
    predicted_variants,
    read_predictions,
)
from parapet.evaluation.generation.corpus import read as read_corpus
from parapet.evaluation.generation.lexical import Lexical
from parapet.evaluation.generation.metrics import ChosenMetric, ScoredSet, ScoredTurn, missing_values
from parapet.evaluation.generation.scoring import Cached, Nli, ScoredAct, Scorer, evaluate
from parapet.evaluation.generation.templates import Templates, key_of, read_templates, template_of
from parapet.evaluation.results import SEEN, UNSEEN, results_of
from parapet.evaluation.sets import ALL, ORIGINAL, Key, Sources, common_dialogues, find_sets
from parapet.schemas.errors import InputError
from parapet.transforms.core.chat import Chat, Endpoint
from parapet.transforms.core.plugins import recorded
from parapet.transforms.perturb.corpora import domain_of
from parapet.transforms.report import text
from parapet.transforms.report.report import Examples, Report, Section, dialogue_example

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
TAKEN = frozenset({"set", "dialogue_id", "turn", *_TEXTS, *measures.METRICS})


class SetInputs(msgspec.Struct, frozen=True):
    """The data of a set; ``refused`` is the number of turns that are not scored."""

    corpus: Corpus
    predictions: dict[Place, Prediction]
    refused: int = 0


class Inputs(msgspec.Struct, frozen=True):
    """The data by set, the scorer and the metrics; a single original set has an empty name."""

    sets: dict[str, SetInputs]
    scorer: Cached
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
        metrics = measures.read_metrics(self.metrics, TAKEN)
        scorer = Cached(self._scorer(), "" if self.scorer == "llm" else self.cache or "")
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
        predictions = read_predictions(
            self.predictions, split, {name: corpus_here.turns for name, corpus_here in corpora.items()}
        )
        dialogues = {name: {turn.dialogue_id for turn in corpus.turns} for name, corpus in corpora.items()}
        common = common_dialogues(dialogues)
        for name, corpus in corpora.items():
            turns = tuple(turn for turn in corpus.turns if turn.dialogue_id in common)
            corpora[name] = msgspec.structs.replace(corpus, turns=turns)
        named = len(corpora) > 1
        sets = {name if named else "": _answered(corpora[name], predictions[name]) for name in corpora}
        for set_input in sets.values():
            task.check_scored(set_input.predictions, self.predictions)
        return Inputs(sets, scorer, metrics)

    def _scorer(self) -> Scorer:
        if self.scorer == "nli":
            if self.nli_model is None:
                raise InputError("is required: give a folder with a model", "--nli_model")
            return Nli(self.nli_model, self.batch)
        if self.nli_model is not None:
            raise InputError("requires --scorer nli", "--nli_model")
        if self.scorer == "lexical":
            return Lexical()
        from parapet.evaluation.endpoint.prompting import prompt_of
        from parapet.evaluation.endpoint.tasks import Judge

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
            scores = evaluate(
                set_input.corpus, set_input.predictions, scorer, self.seed, self.validation, self.rules, stage
            )
            sets[name] = measures.scored_set(set_input.corpus, scores, inputs.metrics)
        metrics = measures.metrics_of(sets)
        names: dict[str, object] = {"name": scorer.name, "model": scorer.model}
        if isinstance(unread := getattr(scorer.scorer, "unread", None), int):
            names["unread"] = unread
        rules = "templates" if self.templates else self.rules
        details = measures.details_of(sets, scorer=names, rules=rules, validation=self.validation)
        sizes = {ALL: details["turns"], **{name: len(scored.turns) for name, scored in sets.items()}}
        groups = {measures.SEEN_DOMAINS: SEEN, measures.UNSEEN_DOMAINS: UNSEEN}
        results = results_of("generation", metrics, sizes, groups)
        original = next(iter(sets.values())).corpus
        refused = {name: set_input.refused for name, set_input in inputs.sets.items() if set_input.refused}
        return task.Result(
            files=task.files_of(
                metrics, results, details, rows_of(sets, list(inputs.metrics)), report(sets, metrics, details, refused)
            ),
            refused=refused,
            summary=_summary(metrics, details, list(inputs.metrics)),
            options={
                "split": self.sources.split,
                "variants": list(original.words)[1:],
                "scorer": scorer.name,
                "model": scorer.model,
                "rules": rules,
                "validation": self.validation,
                "seed": self.seed,
                "own_turns": self.predictions == REFERENCE,
                **({"sets": list(sets)} if len(sets) > 1 else {}),
            },
            counts={"turns": details["turns"], "acts": details["coverage"]["acts"]["acts"]},
            plugins=recorded(*(chosen for chosen, _ in inputs.metrics.values())),
        )


def with_templates(corpus: Corpus, templates: Templates) -> Corpus:
    """Makes templates the references of the acts of a corpus, and warns about acts without one."""
    if not templates:
        return corpus
    acts = [act for turn in corpus.turns for act in turn.acts]
    if without := [act for act in acts if template_of(act, templates) is None]:
        message = "%s of %s acts have no template and are judged by sentences of the rules, such as %s of %s"
        key, service = key_of(without[0]), without[0].service
        logging.warning(message, f"{len(without):,}", f"{len(acts):,}", key, service)
    words = {
        service: msgspec.structs.replace(words_of_service, templates=templates.get(service, {}))
        for service, words_of_service in corpus.words[ORIGINAL].items()
    }
    return msgspec.structs.replace(corpus, words={ORIGINAL: words})


def _answered(corpus: Corpus, predictions: dict[Place, Prediction]) -> SetInputs:
    """Leaves out the turns without an utterance, because a request was refused."""
    answered = {place: prediction for place, prediction in predictions.items() if not prediction.refused}
    if len(answered) < len(predictions):
        turns = tuple(turn for turn in corpus.turns if turn.place in answered)
        corpus = msgspec.structs.replace(corpus, turns=turns)
    return SetInputs(corpus, answered, len(predictions) - len(answered))


def rows_of(sets: Mapping[str, ScoredSet], plugins: Sequence[str]) -> bytes:
    """Makes rows for each turn of each set, with the metrics of turns, each followed by rows for its acts."""
    rows: list[tuple[Key, Mapping[str, Any]]] = []
    for name, scored in sets.items():
        is_seen = measures.seen_by(scored.corpus.seen, domain_of)
        for turn in scored.turns:
            key = (name or scored.corpus.name, *turn.turn.place)
            seen = {"seen": {True: SEEN, False: UNSEEN, None: None}[is_seen(turn)]}
            rows.append((key, {**_turn_texts(turn), **seen, **turn.values()}))
            rows += ((key, {**_act_texts(act), **seen, **measures.act_values(act)}) for act in turn.acts)
    metrics = (*measures.TURN_METRICS, *measures.ACT_METRICS, *plugins)
    return task.rows_bytes(
        [key for key, _ in rows],
        {name: [row.get(name) for _, row in rows] for name in metrics},
        {name: [row.get(name) for _, row in rows] for name in _TEXTS},
    )


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
    checks = details["tampered_references"]
    plugins = {name: name for name in of_all if name not in measures.METRICS}
    sections: list[Section] = [
        task.group_table(title, first, groups, headings, numbers_in="details.json")
        for title, first, groups, headings in (
            ("Services", "service", details["by_service"], OF_TURNS),
            ("Acts", "act", details["by_act"], OF_ACTS),
            ("Types of slots", "type", details["by_slot_type"], OF_ACTS),
            ("True and tampered references", "schema", checks, OF_CHECKS),
        )
    ]
    notes = [SCORERS[scorer["name"]].format(model=scorer["model"]), *_judge(scorer), RULES[details["rules"]]]
    if not details["validation"]:
        notes.append("Turns were not validated (`--no_validation`): all count.")
    n_valid, share_valid = covered["turns"]["valid"], text.percent(covered["turns"]["share_valid"])
    names = ", ".join(name for name in sets if name) or next(iter(sets.values())).corpus.name or "the corpus"
    return task.set_report(
        metrics,
        {**HEADINGS, **plugins},
        sizes={name: {} for name in metrics},
        sections=[*sections, _worst(sets)],
        tiles={**SHORT, "sgsacc": f"SGSAcc ({scorer['name']})", "bleu": "BLEU"},
        facts={
            "coverage of SGSAcc": share_valid,
            "agreement": text.percent(details["agreement"]["share"], 2),
        },
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
    worst = sorted(wrong, key=lambda found: (*found[:2], found[3].turn.place, found[2]))[:EXAMPLES]
    examples = []
    for _, _, name, scored in worst:
        turn, utterance = scored.turn, scored.utterance
        lines = [("before", turn.previous), ("ground truth", turn.utterance), ("utterance", utterance)]
        references = [act.validated.reference for act in scored.acts if act.outcome == "unfaithful"]
        lines += [("not entailed", reference) for reference in references if reference]
        lines += [("missing value", f"{slot}: {value}") for slot, value in missing_values(turn.acts, utterance)]
        place = f"dialogue {turn.dialogue_id}, turn {turn.turn}" + (f" of {name}" if name else "")
        examples.append(dialogue_example(place, lines))
    note = f"{len(examples):,} of {text.counted(len(wrong), 'turn')} with an error."
    return Examples(title="Turns with the most errors", note=note, examples=examples)
