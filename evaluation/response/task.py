"""Responses of a task-oriented system: Inform, Success, BLEU and Combined (Budzianowski et al. 2018)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from parapet.evaluation.response.domains import Bleu, SetScores, dialogue_sums, metrics_of, scores_of, table_of
from parapet.evaluation.response.goals import (
    Goal,
    Reference,
    Response,
    Verdict,
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
    find_sets,
    match_turns,
    read_dialogues,
    read_rows,
    with_mean,
)
from parapet.evaluation.task import (
    Metrics,
    Result,
    Stage,
    Task,
    files_of,
    group_table,
    json_bytes,
    line,
    rows_bytes,
    set_report,
)
from parapet.schemas.errors import InputError
from parapet.schemas.layout import TEST, read_root, services_by_name
from parapet.transforms import text
from parapet.transforms.report import Example, Examples, Line, Part, Report, Section

OWN = "reference"  # in place of a file: the reference's own responses
EXAMPLES = 40
_RESPONSES = 30  # of an example

Responses = dict[str, list[Response]]  # by dialogue, in order of turns

TERMS = {
    "Inform": "The share of dialogues in which every search of the user was met: the entity last offered satisfies "
    "its constraints.",
    "Success": "The share of dialogues in which, besides, every slot that the user asks for was answered.",
    "BLEU": "Corpus BLEU of all responses against the reference's, in lower case, by sacrebleu.",
    "Combined": "(Inform + Success) / 2 + BLEU, all of 100.",
    "Searches, requests": "For a service, the shares of searches met and of requests answered.",
}
HEADINGS = {"inform": "inform", "success": "success", "bleu": "BLEU", "combined": "combined"}
OF_SERVICES = ("searches", "requests")


class Row(msgspec.Struct):
    """A row of the predictions; ``set`` where one file has those of several."""

    dialogue_id: str
    turn: int
    response: str
    set: str = ""
    state: dict[str, dict[str, str | list[str]]] = {}
    domains: list[str] | None = None


class SetInputs(msgspec.Struct, frozen=True):
    """What is scored in a set: a system's responses, and the reference's goals and responses."""

    reference: Reference
    responses: Responses


Inputs = dict[str, SetInputs]  # by set; of an original without others the name is empty


class Evaluation(msgspec.Struct, frozen=True):
    """The scores of a system.

    Attributes:
      verdicts: by set and dialogue.
      services: the services' shares of searches met and requests answered, over all sets.
      domains: ``domains.json``.
      signature: sacrebleu's.
    """

    sets: Metrics
    services: Metrics
    verdicts: dict[str, dict[str, Verdict]]
    domains: dict[str, SetScores]
    signature: str

    @property
    def metrics(self) -> Metrics:
        """``metrics.json``."""
        return {**self.sets, **self.services}


class ResponseTask(Task[Inputs], frozen=True, kw_only=True):
    """``parapet evaluate --task response``.

    Attributes:
      predictions: JSON lines, a folder of them for each set, or ``reference``.
      sources: the sets, corpora in the SGD format; None where there are goals.
      goals: the goals as a file; ``responses`` are then the reference's.
      knowledge_base: entities, see :func:`parapet.evaluation.response.goals.read_entities`.
      tokenizer: of sacrebleu.
    """

    name = "evaluate_response"

    predictions: str
    sources: Sources | None = None
    goals: str | None = None
    responses: str | None = None
    knowledge_base: str | None = None
    tokenizer: str = "13a"

    def inputs(self) -> dict[str, str | None]:
        """The files, and the corpora."""
        return {
            **(self.sources.inputs() if self.sources else {}),
            "goals": self.goals,
            "responses": self.responses,
            "knowledge_base": self.knowledge_base,
            "predictions": None if self.predictions == OWN else self.predictions,
        }

    def read(self) -> Inputs:
        """The goals, and the responses of the same turns."""
        references = self._references()
        if self.predictions == OWN:
            responses = {name: own_responses(reference.responses) for name, reference in references.items()}
        else:
            split = self.sources.split if self.sources else TEST
            turns = {name: reference.responses for name, reference in references.items()}
            responses = read_responses(self.predictions, split, turns)
        several = len(references) > 1
        return {name if several else "": SetInputs(references[name], responses[name]) for name in references}

    def _references(self) -> dict[str, Reference]:
        """Of each set. That of a variant is the original's: goals are found by the names of its schema."""
        if self.sources is None:
            assert self.goals is not None
            assert self.responses is not None
            return {ORIGINAL: read_reference(self.goals, self.knowledge_base, self.responses)}
        references: dict[str, Reference] = {}
        for name, path, kind in find_sets(self.sources):
            if kind == "variant":
                read_root(path)  # raises InputError where there are no schemas: it is no variant
                references[name] = references[ORIGINAL]
            else:
                references[name] = read_corpus_reference(str(path), self.sources.split, self.knowledge_base)
        return references

    def score(self, inputs: Inputs, stage: Stage) -> Result:
        """Inform, Success, BLEU and Combined."""
        evaluation = evaluate(inputs, self.tokenizer)
        sizes = sizes_of(inputs)
        n_responses = sum(len(of) for one in inputs.values() for of in one.responses.values())
        files = files_of(
            evaluation.metrics,
            details_of(inputs, sizes, evaluation.signature),
            rows_of(inputs, evaluation),
            report(inputs, evaluation, sizes),
        )
        lines = [line(name, values, HEADINGS, 1) for name, values in evaluation.sets.items()]
        return Result(
            files={**files, "domains.json": json_bytes(evaluation.domains)},
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
    """The goals of a corpus, from its annotation. Raises InputError where it cannot be read."""
    dialogues = [dialogue for _, dialogue in read_dialogues(root, split)]
    schemas = [schema for schema in read_root(root) if schema.split in (split, "schema")]
    entities = read_entities(knowledge_base) if knowledge_base else None
    try:
        return reference_of(dialogues, services_by_name(schemas), entities)
    except InputError as error:
        raise InputError(error.reason, root, error.where) from None


def read_responses(predictions: str, split: str, turns: Turns) -> dict[str, Responses]:
    """The responses of each set and dialogue.

    Args:
      predictions: JSON lines, or a folder with those of each set.
      split: whose dialogues.
      turns: by set and dialogue the reference's responses, which say what turns there are.

    Raises:
      InputError: responses missing, twice, or to a turn that is not the system's.
    """
    rows = match_turns(read_rows(predictions, split, list(turns), Row), turns, predictions)
    responses: dict[str, Responses] = {name: {} for name in rows}
    for name, by_turn in rows.items():
        for (dialogue_id, turn), row in by_turn.items():
            services = None if row.domains is None else tuple(row.domains)
            response = Response(turn, row.response, _state(row), services)
            responses[name].setdefault(dialogue_id, []).append(response)
    return responses


def own_responses(turns: Mapping[str, Mapping[int, str]]) -> Responses:
    """The reference's own responses as if they were a system's."""
    return {name: [Response(turn, of[turn]) for turn in sorted(of)] for name, of in turns.items()}


def _state(row: Row) -> dict[str, dict[str, tuple[str, ...]]]:
    return {
        service: {slot: (value,) if isinstance(value, str) else tuple(value) for slot, value in slots.items()}
        for service, slots in row.state.items()
    }


def evaluate(inputs: Inputs, tokenizer: str) -> Evaluation:
    """Scores the responses of all dialogues: all together, each set that has a name, and each service."""
    verdicts = {
        name: {
            dialogue: judge(goal, one.responses.get(dialogue, ()), one.reference.knowledge)
            for dialogue, goal in one.reference.goals.items()
        }
        for name, one in inputs.items()
    }
    bleu = Bleu(tokenizer)
    sums = {name: dialogue_sums(one.reference, one.responses, verdicts[name], bleu) for name, one in inputs.items()}
    groups = {ALL: list(sums.values()), **{name: [of] for name, of in sums.items() if name}}
    metrics: Metrics = {}
    for name, parts in groups.items():
        values = metrics_of([row for part in parts for row in part.get("", {}).values()], bleu)
        shares = (None if np.isnan(value) else float(value) for value in values)
        metrics[name] = dict(zip(HEADINGS, shares, strict=True))
    services: Metrics = {
        service: {key: sum(met) / len(met) if met else None for key, met in zip(OF_SERVICES, of, strict=True)}
        for service, of in sorted(_by_service(inputs, verdicts).items())
    }
    if both := sorted(metrics.keys() & services.keys()):
        raise InputError(f"a set cannot be called as a service is: {both[0]}", "--sets")
    domains = {name or ORIGINAL: scores_of(of, bleu) for name, of in sums.items()}
    return Evaluation(with_mean(metrics), services, verdicts, domains, bleu.signature)


def _by_service(
    inputs: Inputs, verdicts: Mapping[str, Mapping[str, Verdict]]
) -> dict[str, tuple[list[float], list[float]]]:
    """(searches, requests) of each service: 1 for each that was met."""
    services: dict[str, tuple[list[float], list[float]]] = {}
    for name, one in inputs.items():
        for dialogue, goal in one.reference.goals.items():
            verdict = verdicts[name][dialogue]
            for search, met in zip(goal.searches, verdict.searches, strict=True):
                services.setdefault(search.service, ([], []))[0].append(float(met))
            for request, met in zip(goal.requests, verdict.requests, strict=True):
                services.setdefault(request.service, ([], []))[1].append(float(met))
    return services


def rows_of(inputs: Inputs, evaluation: Evaluation) -> bytes:
    """A row for each dialogue of each set."""
    keys: list[Key] = [(name, dialogue, 0) for name, one in inputs.items() for dialogue in sorted(one.reference.goals)]
    verdicts = [evaluation.verdicts[name][dialogue] for name, dialogue, _ in keys]
    goals = [inputs[name].reference.goals[dialogue] for name, dialogue, _ in keys]
    return rows_bytes(
        keys,
        {"inform": [one.inform for one in verdicts], "success": [one.success for one in verdicts]},
        {"missed": ["; ".join(missed(goal, verdict)) for goal, verdict in zip(goals, verdicts, strict=True)]},
    )


def missed(goal: Goal, verdict: Verdict) -> list[str]:
    """The parts of a goal that were not met, in words."""
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
    """How much there was to score, in all and by set."""
    groups = {ALL: list(inputs.values()), **{name: [one] for name, one in inputs.items() if name}}
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


def details_of(inputs: Inputs, sizes: Mapping[str, Mapping[str, Any]], signature: str) -> dict[str, Any]:
    """``details.json``: how much there was to score, in all and by set where there are several."""
    entities: dict[str, set[tuple[tuple[str, str], ...]]] = {}
    for one in inputs.values():
        for service, rows in one.reference.knowledge.entities.items():
            entities.setdefault(service, set()).update(tuple(row.items()) for row in rows)
    return {
        **sizes[ALL],
        "bleu_signature": signature,
        "entities": {service: len(rows) for service, rows in entities.items()},
        **({"sets": {name: sizes[name] for name in inputs}} if len(inputs) > 1 else {}),
    }


def report(inputs: Inputs, evaluation: Evaluation, sizes: Mapping[str, Mapping[str, Any]]) -> Report:
    """The report: by set, by domain, by service, and dialogues without success."""
    columns = {"searches": "searches met", "requests": "requests answered"}
    tables = [
        table_of(evaluation.domains),
        group_table("Services", "service", evaluation.services, columns, numbers_in="metrics.json"),
    ]
    of_all = sizes[ALL]
    return set_report(
        evaluation.sets,
        {**HEADINGS, "dialogues": "dialogues"},
        sizes=sizes,
        sections=[*(table for table in tables if table.rows), *_failed(inputs, evaluation)],
        tiles=HEADINGS,
        chart={name: HEADINGS[name] for name in ("inform", "success")},
        terms=TERMS | {"BLEU": f"{TERMS['BLEU']} Signature: `{evaluation.signature}`."},
        links={"domains.json": "the metrics by set and domain, with intervals"},
        title="Responses",
        headline=f"Combined score {text.number(evaluation.sets[ALL]['combined'], 1)}",
        lead=f"{text.counted(of_all['dialogues'], 'dialogue')}, {of_all['searches']:,} searches, "
        f"{of_all['requests']:,} requests.",
    )


def _failed(inputs: Inputs, evaluation: Evaluation) -> list[Section]:
    """Dialogues without success: what was missed, and the responses."""
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
        lines = [Line("missed", [Part(what)]) for what in missed(goal, verdict)]
        lines += [Line(f"turn {one.turn}", [Part(one.response[:500])]) for one in responses]
        examples.append(Example(f"dialogue {dialogue}" + (f" of {name}" if name else ""), lines))
    note = f"The first {len(examples):,} of {len(failed):,}: what was missed, and the responses."
    return [Examples(title="Dialogues without success", note=note, examples=examples)] if examples else []
