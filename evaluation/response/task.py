"""Responses of a task-oriented system: Inform, Success, BLEU and Combined (Budzianowski et al. 2018)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from parapet.evaluation.lines import ALL, read_lines
from parapet.evaluation.response.goals import Goal, Response, Verdict, judge
from parapet.evaluation.response.multiwoz import read_entities, read_reference
from parapet.evaluation.response.sgd import Reference, reference_of
from parapet.evaluation.task import FILES, Metrics, Result, Stage, Task, files_of
from parapet.evaluation.writing import rows_bytes
from parapet.schemas.errors import InputError
from parapet.schemas.layout import read_root, services_by_name
from parapet.transforms import text
from parapet.transforms.corpora import dialogues_of, read_corpus
from parapet.transforms.report import Example, Examples, Line, Part, Report, Section, Table, Tile

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


class Row(msgspec.Struct):
    """A row of the predictions."""

    dialogue_id: str
    turn: int
    response: str
    state: dict[str, dict[str, str | list[str]]] = {}
    domains: list[str] | None = None


class Inputs(msgspec.Struct, frozen=True):
    """What is scored: a system's responses, and the reference's goals and responses."""

    reference: Reference
    responses: Responses


class Evaluation(msgspec.Struct, frozen=True):
    """The scores of a system.

    Attributes:
      verdicts: by dialogue.
      signature: sacrebleu's.
    """

    metrics: Metrics
    verdicts: dict[str, Verdict]
    signature: str


class Details(msgspec.Struct, frozen=True):
    """``details.json``: how much there was to score."""

    bleu_signature: str
    dialogues: int
    dialogues_with_searches: int
    searches: int
    requests: int
    requests_not_counted: dict[str, int]
    entities: dict[str, int]


class ResponseTask(Task[Inputs], frozen=True, kw_only=True):
    """``parapet evaluate --task response``.

    Attributes:
      predictions: JSON lines, or ``reference``.
      reference: a corpus in the SGD format; None where there are goals.
      split: whose dialogues.
      goals: the goals as a file; ``responses`` are then the reference's.
      knowledge_base: entities, see :func:`parapet.evaluation.response.multiwoz.read_entities`.
      tokenizer: of sacrebleu.
    """

    name = "evaluate_response"

    predictions: str
    reference: str | None = None
    split: str = "test"
    goals: str | None = None
    responses: str | None = None
    knowledge_base: str | None = None
    tokenizer: str = "13a"

    def inputs(self) -> dict[str, str | None]:
        """The files, and the corpus."""
        return {
            "reference": self.reference,
            "goals": self.goals,
            "responses": self.responses,
            "knowledge_base": self.knowledge_base,
            "predictions": None if self.predictions == OWN else self.predictions,
        }

    def read(self) -> Inputs:
        """The goals, and the responses of the same turns."""
        reference = self._reference()
        if self.predictions == OWN:
            return Inputs(reference, own_responses(reference.responses))
        return Inputs(reference, read_responses(self.predictions, reference.responses))

    def _reference(self) -> Reference:
        if self.reference is not None:
            return read_corpus_reference(self.reference, self.split, self.knowledge_base)
        assert self.goals is not None
        assert self.responses is not None
        return read_reference(self.goals, self.knowledge_base, self.responses)

    def score(self, inputs: Inputs, stage: Stage) -> Result:
        """Inform, Success, BLEU and Combined."""
        reference, responses = inputs.reference, inputs.responses
        evaluation = evaluate(reference, responses, self.tokenizer)
        details = details_of(reference, evaluation)
        names = sorted(reference.goals)
        verdicts = [evaluation.verdicts[name] for name in names]
        rows = rows_bytes(
            [("", name, 0) for name in names],
            {"inform": [one.inform for one in verdicts], "success": [one.success for one in verdicts]},
            {"missed": ["; ".join(missed(reference.goals[name], evaluation.verdicts[name])) for name in names]},
        )
        values, n_responses = evaluation.metrics[ALL], sum(map(len, responses.values()))
        return Result(
            files=files_of(evaluation.metrics, details, rows, report(inputs, evaluation, details)),
            summary=[
                f"{text.counted(len(names), 'dialogue')}, {text.counted(n_responses, 'response')}",
                f"inform {text.percent(values['inform'])}, success {text.percent(values['success'])}, "
                f"BLEU {text.number(values['bleu'], 1)}, combined {text.number(values['combined'], 1)}",
            ],
            options={
                "split": self.split if self.reference is not None else None,
                "bleu_signature": evaluation.signature,
            },
            counts={"dialogues": len(names), "responses": n_responses},
        )


def read_corpus_reference(root: str, split: str, knowledge_base: str | None) -> Reference:
    """The goals of a corpus, from its annotation. Raises InputError where it cannot be read."""
    dialogues = []
    for file in sorted(read_corpus(root, [split]).files, key=lambda file: file.path):
        for position, _, _, dialogue in dialogues_of(file):
            if isinstance(dialogue, InputError):
                raise InputError(dialogue.reason, file.path, f"[{position}] {dialogue.where}")
            dialogues.append(dialogue)
    schemas = [schema for schema in read_root(root) if schema.split in (split, "schema")]
    entities = read_entities(knowledge_base) if knowledge_base else None
    try:
        return reference_of(dialogues, services_by_name(schemas), entities)
    except InputError as error:
        raise InputError(error.reason, root, error.where) from None


def read_responses(path: str, turns: Mapping[str, Mapping[int, str]]) -> Responses:
    """The responses of each dialogue.

    Args:
      path: JSON lines.
      turns: the reference's responses, which say what turns there are.

    Raises:
      InputError: responses missing, twice, or to a turn that is not the system's.
    """
    responses: dict[str, dict[int, Response]] = {}
    for number, row in read_lines(path, Row):
        where = f"line {number}"
        if row.dialogue_id not in turns:
            raise InputError(f"the reference has no dialogue {row.dialogue_id!r}", path, where)
        if row.turn not in turns[row.dialogue_id]:
            numbers = [str(turn) for turn in sorted(turns[row.dialogue_id])]
            listed = ", ".join([*numbers[:6], "..."] if len(numbers) > 6 else numbers)
            reason = f"turn {row.turn} of {row.dialogue_id!r} is not a turn of the system, which has {listed}"
            raise InputError(reason, path, where)
        if row.turn in responses.setdefault(row.dialogue_id, {}):
            raise InputError(f"dialogue {row.dialogue_id!r} turn {row.turn} appears twice", path, where)
        services = None if row.domains is None else tuple(row.domains)
        responses[row.dialogue_id][row.turn] = Response(row.turn, row.response, _state(row), services)
    missing = sorted((name, turn) for name, of in turns.items() for turn in of if turn not in responses.get(name, {}))
    if missing:
        (name, turn), n = missing[0], len(missing)
        more = f"; {n:,} are missing in all" if n > 1 else ""
        raise InputError(f"there is no response for dialogue {name!r} turn {turn}{more}", path)
    return {name: [of[turn] for turn in sorted(of)] for name, of in responses.items()}


def own_responses(turns: Mapping[str, Mapping[int, str]]) -> Responses:
    """The reference's own responses as if they were a system's."""
    return {name: [Response(turn, of[turn]) for turn in sorted(of)] for name, of in turns.items()}


def _state(row: Row) -> dict[str, dict[str, tuple[str, ...]]]:
    return {
        service: {slot: (value,) if isinstance(value, str) else tuple(value) for slot, value in slots.items()}
        for service, slots in row.state.items()
    }


def evaluate(reference: Reference, responses: Mapping[str, Sequence[Response]], tokenizer: str) -> Evaluation:
    """Scores the responses of all dialogues."""
    verdicts = {
        name: judge(goal, responses.get(name, ()), reference.knowledge) for name, goal in reference.goals.items()
    }
    bleu, signature = _bleu(reference, responses, tokenizer)
    inform = _mean([verdict.inform for verdict in verdicts.values()])
    success = _mean([verdict.success for verdict in verdicts.values()])
    combined = None if inform is None or success is None else 50 * (inform + success) + bleu
    metrics: Metrics = {ALL: {"inform": inform, "success": success, "bleu": bleu, "combined": combined}}
    for service, (searches, requests) in sorted(_by_service(reference.goals, verdicts).items()):
        metrics[service] = {"searches": _mean(searches), "requests": _mean(requests)}
    return Evaluation(metrics, verdicts, signature)


def _by_service(
    goals: Mapping[str, Goal], verdicts: Mapping[str, Verdict]
) -> dict[str, tuple[list[float], list[float]]]:
    """(searches, requests) of each service: 1 for each that was met."""
    services: dict[str, tuple[list[float], list[float]]] = {}
    for name, goal in goals.items():
        verdict = verdicts[name]
        for search, met in zip(goal.searches, verdict.searches, strict=True):
            services.setdefault(search.service, ([], []))[0].append(float(met))
        for request, met in zip(goal.requests, verdict.requests, strict=True):
            services.setdefault(request.service, ([], []))[1].append(float(met))
    return services


def _mean(values: Sequence[float | None]) -> float | None:
    defined = [value for value in values if value is not None]
    return sum(defined) / len(defined) if defined else None


def _bleu(reference: Reference, responses: Mapping[str, Sequence[Response]], tokenizer: str) -> tuple[float, str]:
    from sacrebleu.metrics.bleu import BLEU

    names = sorted(reference.responses)
    hypotheses = [response.response for name in names for response in responses.get(name, ())]
    references = [reference.responses[name][t] for name in names for t in sorted(reference.responses[name])]
    metric = BLEU(lowercase=True, tokenize=tokenizer)
    score = metric.corpus_score(hypotheses, [references]).score
    return float(score), str(metric.get_signature())


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


def details_of(reference: Reference, evaluation: Evaluation) -> Details:
    """How much there was to score."""
    goals = reference.goals.values()
    return Details(
        bleu_signature=evaluation.signature,
        dialogues=len(goals),
        dialogues_with_searches=sum(bool(goal.searches) for goal in goals),
        searches=sum(len(goal.searches) for goal in goals),
        requests=sum(len(goal.requests) for goal in goals),
        requests_not_counted=reference.skipped,
        entities={service: len(rows) for service, rows in reference.knowledge.entities.items()},
    )


def report(inputs: Inputs, evaluation: Evaluation, details: Details) -> Report:
    """The report: by service, and dialogues without success."""
    goals, verdicts, of_all = inputs.reference.goals, evaluation.verdicts, evaluation.metrics[ALL]
    services = [
        [name, text.percent(values["searches"], 2), text.percent(values["requests"], 2)]
        for name, values in evaluation.metrics.items()
        if name != ALL
    ]
    failed = [name for name in sorted(goals) if verdicts[name].success == 0]
    examples = [
        Example(
            f"dialogue {name}",
            [
                *(Line("missed", [Part(what)]) for what in missed(goals[name], verdicts[name])),
                *(
                    Line(f"turn {one.turn}", [Part(one.response[:500])])
                    for one in list(inputs.responses.get(name, ()))[:_RESPONSES]
                ),
            ],
        )
        for name in failed[:EXAMPLES]
    ]
    columns = ["service", "searches met", "requests answered"]
    sections: list[Section] = [Table(title="Services", columns=columns, rows=services)] if services else []
    if examples:
        note = f"The first {len(examples):,} of {len(failed):,}: what was missed, and the responses."
        sections.append(Examples(title="Dialogues without success", note=note, examples=examples))
    return Report(
        command="evaluate",
        title="Responses",
        headline=f"Combined score {text.number(of_all['combined'], 1)}",
        lead=f"{text.counted(details.dialogues, 'dialogue')}, {details.searches:,} searches, {details.requests:,} "
        "requests.",
        tiles=[
            Tile("inform", text.percent(of_all["inform"])),
            Tile("success", text.percent(of_all["success"])),
            Tile("BLEU", text.number(of_all["bleu"], 1)),
            Tile("combined", text.number(of_all["combined"], 1)),
        ],
        sections=sections,
        terms=TERMS | {"BLEU": f"{TERMS['BLEU']} Signature: `{evaluation.signature}`."},
        links=FILES,
    )
