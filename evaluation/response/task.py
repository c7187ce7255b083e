"""Responses of a task-oriented system: Inform, Success, BLEU and Combined (Budzianowski et al. 2018).

The metrics are computed by set, with intervals, and by domain, as in Tables 3 and 5 of RADDLE (Peng et al. 2021). A
dialogue counts for each domain of its goal, with that domain's searches and requests; a response counts for the domains
that its turn is about.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from parapet.evaluation import results, statistics, task
from parapet.evaluation.response.goals import (
    Goal,
    Reference,
    Response,
    Verdict,
    acts_of,
    judge,
    read_entities,
    read_reference,
    reference_of,
)
from parapet.evaluation.sets import (
    ALL,
    ORIGINAL,
    Key,
    Sources,
    Turns,
    common_dialogues,
    find_sets,
    match_turns,
    read_dialogues,
    read_rows,
    with_mean,
)
from parapet.schemas.dialogue import Action
from parapet.schemas.errors import InputError
from parapet.schemas.layout import TEST, read_root, services_by_name
from parapet.transforms.perturb.corpora import domain_of
from parapet.transforms.report import text
from parapet.transforms.report.report import Examples, Report, dialogue_example

METRICS = ("inform", "success", "bleu", "combined")
SEED = "0"  # seed of the bootstrap's weights

# For a dialogue: whether it has a search or request, Inform, Success, and for BLEU four counts, four totals, and the
# lengths of the responses and of the references.
_Sums = NDArray[np.int64]
_SIZE = 13
DialogueSums = dict[str, dict[str, _Sums]]  # domain ("" for all together) to dialogue to sums
_ORDER = 4  # longest n-grams of BLEU


def dialogue_sums(
    reference: Reference, responses: Mapping[str, Sequence[Response]], verdicts: Mapping[str, Verdict], bleu: Bleu
) -> DialogueSums:
    """Computes the sums for the metrics of a set.

    Args:
      reference: goals, responses, and the domains of each turn.
      responses: dialogue to the system's responses.
      verdicts: by dialogue.
      bleu: counts n-grams.
    """
    rows: DialogueSums = {}
    for dialogue, goal in reference.goals.items():
        verdict, own = verdicts[dialogue], reference.responses[dialogue]
        of_turns = reference.domains.get(dialogue, {})
        texts = responses.get(dialogue, ())
        for domain in sorted({"", *goal.domains, *(name for names in of_turns.values() for name in names)}):
            spoken = [response for response in texts if not domain or domain in of_turns.get(response.turn, ())]
            pairs = [(response.response, own[response.turn]) for response in spoken]
            judged = _within(domain, goal, verdict) if domain else verdict
            shares = [int(judged.inform is not None), int(judged.inform or 0), int(judged.success or 0)]
            rows.setdefault(domain, {})[dialogue] = np.array([*shares, *bleu.sums(pairs)], np.int64)
    return rows


def _within(domain: str, goal: Goal, verdict: Verdict) -> Verdict:
    """Restricts a verdict to the searches and requests of a domain."""
    searches = zip(goal.searches, verdict.searches, strict=True)
    requests = zip(goal.requests, verdict.requests, strict=True)
    return Verdict(
        tuple(met for search, met in searches if domain_of(search.service) == domain),
        tuple(met for search, met in requests if domain_of(search.service) == domain),
    )


class Bleu:
    """BLEU from sums, which can be added up over dialogues."""

    def __init__(self, tokenizer: str) -> None:
        from sacrebleu.metrics.bleu import BLEU

        self._metric = BLEU(lowercase=True, tokenize=tokenizer)
        self._metric.corpus_score([""], [[""]])  # computes the signature
        self.signature = str(self._metric.get_signature())

    def sums(self, pairs: Sequence[tuple[str, str]]) -> list[int]:
        """Computes counts, totals and lengths of (response, reference)."""
        if not pairs:
            return [0] * (2 * _ORDER + 2)
        score = self._metric.corpus_score([pair[0] for pair in pairs], [[pair[1] for pair in pairs]])
        return [*score.counts, *score.totals, score.sys_len, score.ref_len]

    def of_sums(self, sums: Sequence[int]) -> float:
        """Computes BLEU with the smoothing of ``corpus_score``; NaN without references."""
        if not sums[-1]:
            return math.nan
        counts, totals = list(sums[:_ORDER]), list(sums[_ORDER : 2 * _ORDER])
        return float(self._metric.compute_bleu(counts, totals, sums[-2], sums[-1], smooth_method="exp").score)


def metrics_of(rows: Iterable[_Sums], bleu: Bleu) -> dict[str, float | None]:
    """Computes the metrics over dialogues; None if undefined."""
    (values,) = _metrics(sum(rows, np.zeros(_SIZE, np.int64))[None], bleu)
    return {name: results.finite(value) for name, value in zip(METRICS, values.tolist(), strict=True)}


def _metrics(sums: _Sums, bleu: Bleu) -> NDArray[np.float64]:
    """Computes METRICS for each row of sums: shape (rows, 4), NaN if undefined."""
    with statistics.quiet():
        inform, success = sums[:, 1] / sums[:, 0], sums[:, 2] / sums[:, 0]
    of_bleu = np.array([bleu.of_sums(row) for row in sums[:, 3:].tolist()])
    return np.stack([inform, success, of_bleu, 50 * (inform + success) + of_bleu], axis=1)


def intervals_of(rows: Mapping[str, _Sums], bleu: Bleu) -> dict[str, results.Interval]:
    """Computes 95 % intervals: Wilson's for shares, for the others from a Poisson bootstrap over dialogues."""
    names = sorted(rows)
    sums = np.array([rows[name] for name in names], np.int64).reshape(-1, _SIZE)
    drawn = _metrics(statistics.resampled(names, sums, partial(statistics.weights, SEED)), bleu)
    intervals: dict[str, results.Interval] = {
        name: statistics.interval(column) for name, column in zip(METRICS, drawn.T, strict=True)
    }
    judged, informed, successful = sums.sum(axis=0).tolist()[:3]
    shares = {"inform": informed, "success": successful}
    return intervals | {name: statistics.wilson_interval(n, judged) for name, n in shares.items()}


class Domains(msgspec.Struct, frozen=True):
    """A set in ``domains.json``: the metrics and number of dialogues of each domain, and the mean over the domains."""

    domains: dict[str, dict[str, float | None]]
    mean: dict[str, float | None]


def domains_of(rows: DialogueSums, bleu: Bleu) -> Domains:
    """Computes the metrics of the domains of a set."""
    domains = {
        domain: {
            **metrics_of(rows[domain].values(), bleu),
            "dialogues": sum(int(row[0]) for row in rows[domain].values()),
        }
        for domain in sorted(rows.keys() - {""})
    }
    mean = {name: results.macro_average([numbers[name] for numbers in domains.values()]) for name in METRICS}
    return Domains(domains, mean)


OWN = "reference"  # in place of a file: the reference's own responses
EXAMPLES = 40
_RESPONSES = 30  # responses in an example

Responses = dict[str, list[Response]]  # by dialogue, in the order of turns

TERMS = {
    "Inform": "The share of dialogues in which every search of the user was met: the entity last offered satisfies "
    "its constraints.",
    "Success": "The share of these dialogues in which every slot that the user asks for was answered, too.",
    "BLEU": "Corpus BLEU of all responses against the reference's, in lower case, by sacrebleu.",
    "Combined": "(Inform + Success) / 2 + BLEU, all of 100.",
    "Act accuracy": "The share of responses with exactly the acts of the reference's, such as REQUEST, without slots; "
    "only of systems that give their acts.",
    "Searches, requests": "For a service, the shares of searches met and of requests answered.",
}
HEADINGS = {"inform": "inform", "success": "success", "bleu": "BLEU", "combined": "combined"}
OF_ACTS = {"act_accuracy": "act accuracy"}  # where all responses have acts
OF_SERVICES = ("searches", "requests")


class Row(msgspec.Struct):
    """A row of the predictions; it has ``set`` if a file has several sets."""

    dialogue_id: str
    turn: int
    response: str
    set: str = ""
    state: dict[str, dict[str, str | list[str]]] = {}
    domains: list[str] | None = None
    acts: dict[str, list[Action]] | None = None


class SetInputs(msgspec.Struct, frozen=True):
    """The data of a set: a system's responses, and the reference's goals and responses."""

    reference: Reference
    responses: Responses


Inputs = dict[str, SetInputs]  # by set; the name of a single original set is empty


class Evaluation(msgspec.Struct, frozen=True):
    """The scores of a system.

    Attributes:
      verdicts: by set and dialogue.
      services: each service's shares of met searches and answered requests, over all sets.
      domains: the content of ``domains.json``, by set.
      intervals: of the metrics in ``sets``, by set and metric.
      signature: sacrebleu's signature.
    """

    sets: task.Metrics
    services: task.Metrics
    verdicts: dict[str, dict[str, Verdict]]
    domains: dict[str, Domains]
    intervals: dict[tuple[str, str], results.Interval]
    signature: str

    @property
    def metrics(self) -> task.Metrics:
        """The content of ``metrics.json``."""
        return {**self.sets, **self.services}


class ResponseTask(task.Task[Inputs], frozen=True, kw_only=True):
    """The task of ``parapet evaluate --task response``.

    Attributes:
      predictions: JSON lines, a folder of them for each set, or ``reference``.
      sources: the sets, corpora in the SGD format; None if there are goals.
      goals: a file of goals; ``responses`` are then the reference's.
      knowledge_base: entities, see :func:`parapet.evaluation.response.goals.read_entities`.
      tokenizer: sacrebleu's tokenizer.
    """

    name = "evaluate_response"

    predictions: str
    sources: Sources | None = None
    goals: str | None = None
    responses: str | None = None
    knowledge_base: str | None = None
    tokenizer: str = "13a"

    def inputs(self) -> dict[str, str | None]:
        """Returns the files and the corpora."""
        return {
            **(self.sources.inputs() if self.sources else {}),
            "goals": self.goals,
            "responses": self.responses,
            "knowledge_base": self.knowledge_base,
            "predictions": None if self.predictions == OWN else self.predictions,
        }

    def read(self) -> Inputs:
        """Reads the goals, and the responses of the same turns."""
        references = self._references()
        if self.predictions == OWN:
            responses = {name: own_responses(reference.responses) for name, reference in references.items()}
        else:
            turns = {name: reference.responses for name, reference in references.items()}
            responses = read_responses(self.predictions, self.sources.split if self.sources else TEST, turns)
        common = common_dialogues({name: reference.responses for name, reference in references.items()})
        sets = {}
        for name, reference in references.items():
            goals = {dialogue: goal for dialogue, goal in reference.goals.items() if dialogue in common}
            compared = {dialogue: answers for dialogue, answers in responses[name].items() if dialogue in common}
            reference = msgspec.structs.replace(reference, goals=goals)
            sets[name if len(references) > 1 else ""] = SetInputs(reference, compared)
        return sets

    def _references(self) -> dict[str, Reference]:
        """Reads the reference of each set. Variants have that of the original, as goals use the names of its schema."""
        if self.sources is None:
            assert self.goals is not None
            assert self.responses is not None
            return {ORIGINAL: read_reference(self.goals, self.knowledge_base, self.responses)}
        references: dict[str, Reference] = {}
        for name, path, kind in find_sets(self.sources):
            if kind == "variant":
                read_root(path)  # raises InputError if it has no schemas and thus is no variant
                references[name] = references[ORIGINAL]
            else:
                references[name] = read_corpus_reference(str(path), self.sources.split, self.knowledge_base)
        return references

    def score(self, inputs: Inputs, stage: task.Stage) -> task.Result:
        """Computes Inform, Success, BLEU and Combined."""
        evaluation = evaluate(inputs, self.tokenizer)
        sizes = sizes_of(inputs)
        n_responses = sum(len(responses) for input_ in inputs.values() for responses in input_.responses.values())
        services = {service: service for service in evaluation.services}
        n_dialogues = {name: size["dialogues"] for name, size in sizes.items()}
        files = task.files_of(
            evaluation.metrics,
            results.results_of("response", evaluation.metrics, n_dialogues, services, evaluation.intervals),
            {
                **sizes[ALL],
                "bleu_signature": evaluation.signature,
                **({"sets": {name: sizes[name] for name in inputs}} if len(inputs) > 1 else {}),
            },
            rows_of(inputs, evaluation),
            report(inputs, evaluation, sizes),
        )
        lines = [task.line(name, values, headings_of(values), 1) for name, values in evaluation.sets.items()]
        return task.Result(
            files={**files, "domains.json": task.json_bytes(evaluation.domains)},
            summary=[
                f"{text.counted(sizes[ALL]['dialogues'], 'dialogue')}, {text.counted(n_responses, 'response')}",
                *(lines if len(inputs) > 1 else [lines[0].partition(": ")[2]]),
            ],
            options={
                "split": self.sources.split if self.sources else None,
                "bleu_signature": evaluation.signature,
                **({"sets": list(inputs)} if len(inputs) > 1 else {}),
            },
            counts={"dialogues": sizes[ALL]["dialogues"], "responses": n_responses},
        )


def read_corpus_reference(root: str, split: str, knowledge_base: str | None) -> Reference:
    """Reads the goals of a corpus from its annotation. Raises InputError if it cannot be read."""
    dialogues = [dialogue for _, dialogue in read_dialogues(root, split)]
    schemas = [schema for schema in read_root(root) if schema.split in (split, "schema")]
    entities = read_entities(knowledge_base) if knowledge_base else None
    try:
        return reference_of(dialogues, services_by_name(schemas), entities)
    except InputError as error:
        raise InputError(error.reason, root, error.where) from None


def read_responses(predictions: str, split: str, turns: Turns) -> dict[str, Responses]:
    """Reads the responses of each set and dialogue.

    Args:
      predictions: JSON lines, or a folder with those of each set.
      split: the split.
      turns: set to dialogue to the reference's responses, which determine the turns.

    Raises:
      InputError: responses are missing, occur twice, or belong to a turn that is not the system's.
    """
    rows = match_turns(read_rows(predictions, split, list(turns), Row), turns, predictions)
    responses: dict[str, Responses] = {name: {} for name in rows}
    for name, by_turn in rows.items():
        for (dialogue_id, turn), row in by_turn.items():
            services = None if row.domains is None else tuple(row.domains)
            acts = None if row.acts is None else acts_of(row.acts)
            response = Response(turn, row.response, _state(row), services, acts)
            responses[name].setdefault(dialogue_id, []).append(response)
    return responses


def own_responses(turns: Mapping[str, Mapping[int, str]]) -> Responses:
    """Returns the reference's own responses as if they were a system's."""
    return {name: [Response(turn, by_turn[turn]) for turn in sorted(by_turn)] for name, by_turn in turns.items()}


def _state(row: Row) -> dict[str, dict[str, tuple[str, ...]]]:
    return {
        service: {slot: (value,) if isinstance(value, str) else tuple(value) for slot, value in slots.items()}
        for service, slots in row.state.items()
    }


def evaluate(inputs: Inputs, tokenizer: str) -> Evaluation:
    """Scores the responses of all dialogues: over all sets, for each named set, and for each service."""
    verdicts = {
        name: {
            dialogue: judge(goal, set_input.responses.get(dialogue, ()), set_input.reference.knowledge)
            for dialogue, goal in set_input.reference.goals.items()
        }
        for name, set_input in inputs.items()
    }
    bleu = Bleu(tokenizer)
    sums = {
        name: dialogue_sums(set_input.reference, set_input.responses, verdicts[name], bleu)
        for name, set_input in inputs.items()
    }
    groups = {ALL: list(sums.values()), **{name: [set_sums] for name, set_sums in sums.items() if name}}
    metrics: task.Metrics = {}
    for name, parts in groups.items():
        metrics[name] = metrics_of([row for part in parts for row in part.get("", {}).values()], bleu)
        accuracy = act_accuracy(inputs.values() if name == ALL else [inputs[name]])
        if accuracy is not None:
            metrics[name]["act_accuracy"] = accuracy
    services: task.Metrics = {
        service: {key: sum(met) / len(met) if met else None for key, met in zip(OF_SERVICES, set_sums, strict=True)}
        for service, set_sums in sorted(_by_service(inputs, verdicts).items())
    }
    if both := sorted(metrics.keys() & services.keys()):
        raise InputError(f"a set cannot have the name of a service: {both[0]}", "--sets")
    intervals = {
        (name or ALL, metric): interval
        for name, set_sums in sums.items()
        for metric, interval in intervals_of(set_sums.get("", {}), bleu).items()
    }
    domains = {name or ORIGINAL: domains_of(set_sums, bleu) for name, set_sums in sums.items()}
    return Evaluation(with_mean(metrics), services, verdicts, domains, intervals, bleu.signature)


def act_accuracy(inputs: Iterable[SetInputs]) -> float | None:
    """Computes the share of responses with exactly the acts of the reference's, without slots (RADDLE, Table 7).

    None if a response or the reference has no acts.
    """
    right = []
    for set_input in inputs:
        for dialogue, responses in set_input.responses.items():
            of_turns = set_input.reference.acts.get(dialogue, {})
            for response in responses:
                if response.acts is None or response.turn not in of_turns:
                    return None
                right.append(response.acts == of_turns[response.turn])
    return sum(right) / len(right) if right else None


def _by_service(
    inputs: Inputs, verdicts: Mapping[str, Mapping[str, Verdict]]
) -> dict[str, tuple[list[float], list[float]]]:
    """Returns (searches, requests) of each service: 1 for each that was met."""
    services: dict[str, tuple[list[float], list[float]]] = {}
    for name, set_input in inputs.items():
        for dialogue, goal in set_input.reference.goals.items():
            verdict = verdicts[name][dialogue]
            for search, met in zip(goal.searches, verdict.searches, strict=True):
                services.setdefault(search.service, ([], []))[0].append(float(met))
            for request, met in zip(goal.requests, verdict.requests, strict=True):
                services.setdefault(request.service, ([], []))[1].append(float(met))
    return services


def rows_of(inputs: Inputs, evaluation: Evaluation) -> bytes:
    """Makes a row for each dialogue of each set."""
    keys: list[Key] = [
        (name, dialogue, 0) for name, set_input in inputs.items() for dialogue in sorted(set_input.reference.goals)
    ]
    verdicts = [evaluation.verdicts[name][dialogue] for name, dialogue, _ in keys]
    goals = [inputs[name].reference.goals[dialogue] for name, dialogue, _ in keys]
    return task.rows_bytes(
        keys,
        {"inform": [verdict.inform for verdict in verdicts], "success": [verdict.success for verdict in verdicts]},
        {"missed": ["; ".join(missed(goal, verdict)) for goal, verdict in zip(goals, verdicts, strict=True)]},
    )


def missed(goal: Goal, verdict: Verdict) -> list[str]:
    """Formats the parts of a goal that were not met."""
    lines = []
    for search, met in zip(goal.searches, verdict.searches, strict=True):
        if not met:
            slots = ", ".join(f"{slot}={'|'.join(values)}" for slot, values in sorted(search.constraints.items()))
            lines.append(f"{search.service}: no offer of {slots or 'anything'}")
    for request, met in zip(goal.requests, verdict.requests, strict=True):
        if not met:
            answer = f" ({request.values[0]})" if request.values else ""
            lines.append(f"{request.service}: {request.slot}{answer} not answered")
    return lines


def sizes_of(inputs: Inputs) -> dict[str, dict[str, Any]]:
    """Counts what was scored, in all and by set."""
    groups = {ALL: list(inputs.values()), **{name: [set_input] for name, set_input in inputs.items() if name}}
    sizes = {}
    for name, parts in groups.items():
        goals = [goal for part in parts for goal in part.reference.goals.values()]
        skipped = sum((Counter(part.reference.skipped) for part in parts), Counter[str]())
        sizes[name] = {
            "dialogues": len(goals),
            "dialogues_with_searches": sum(bool(goal.searches) for goal in goals),
            "searches": sum(len(goal.searches) for goal in goals),
            "requests": sum(len(goal.requests) for goal in goals),
            "requests_not_counted": dict(sorted(skipped.items())),
        }
    return sizes


def report(inputs: Inputs, evaluation: Evaluation, sizes: Mapping[str, Mapping[str, Any]]) -> Report:
    """Makes the report: scores by set, by domain and by service, and dialogues without success."""
    columns = {"searches": "searches met", "requests": "requests answered"}
    services = task.group_table("Services", "service", evaluation.services, columns, numbers_in="metrics.json")
    of_all, group = sizes[ALL], task.main_group(evaluation.sets)
    domains = [
        task.group_table(
            f"Domains of {name}" if len(evaluation.domains) > 1 else "Domains",
            "domain",
            {**of_set.domains, **({"mean over domains": of_set.mean} if len(of_set.domains) > 1 else {})},
            {**HEADINGS, "dialogues": "dialogues"},
            numbers_in="domains.json",
            in_card=False,
        )
        for name, of_set in evaluation.domains.items()
    ]
    return task.set_report(
        evaluation.sets,
        {**headings_of(evaluation.sets[ALL]), "dialogues": "dialogues"},
        sizes=sizes,
        sections=[*domains, services, _failed(inputs, evaluation)],
        tiles=headings_of(evaluation.sets[group]),
        chart={name: HEADINGS[name] for name in ("inform", "success")},
        terms=TERMS | {"BLEU": f"{TERMS['BLEU']} Signature: `{evaluation.signature}`."},
        links={"domains.json": "the metrics by set and domain"},
        title="Responses",
        headline=f"{task.with_group('Combined score', evaluation.sets, group, 'combined')}: "
        f"{text.number(evaluation.sets[group]['combined'], 1)}",
        lead=f"{text.counted(of_all['dialogues'], 'dialogue')}, "
        f"{text.counted(of_all['searches'], 'search', 'searches')}, {text.counted(of_all['requests'], 'request')}.",
    )


def headings_of(metrics: Mapping[str, float | None]) -> dict[str, str]:
    """Returns the headings of a set's metrics."""
    return {**HEADINGS, **{name: label for name, label in OF_ACTS.items() if name in metrics}}


def _failed(inputs: Inputs, evaluation: Evaluation) -> Examples:
    """Shows dialogues without success: what was missed, and the responses."""
    failed = [
        (name, dialogue)
        for name in inputs
        for dialogue, verdict in sorted(evaluation.verdicts[name].items())
        if verdict.success == 0
    ]
    examples = []
    for name, dialogue in failed[:EXAMPLES]:
        goal, verdict = inputs[name].reference.goals[dialogue], evaluation.verdicts[name][dialogue]
        responses = list(inputs[name].responses.get(dialogue, ()))[:_RESPONSES]
        lines = [("missed", missed_item) for missed_item in missed(goal, verdict)]
        lines += [(f"turn {response.turn}", response.response[:500]) for response in responses]
        examples.append(dialogue_example(f"dialogue {dialogue}" + (f" of {name}" if name else ""), lines))
    note = f"The first {len(examples):,} of {len(failed):,}: what was missed, and the responses."
    return Examples(title="Dialogues without success", note=note, examples=examples)
