"""Responses of a task-oriented system: Inform, Success, BLEU and Combined (Budzianowski et al. 2018)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from parapet.evaluation.lines import ALL, Key, group_label, with_mean
from parapet.evaluation.response.domains import SetScores, scores_of, table_of
from parapet.evaluation.response.goals import Goal, Response, Verdict, judge
from parapet.evaluation.response.multiwoz import read_entities, read_reference
from parapet.evaluation.response.sgd import Reference, reference_of
from parapet.evaluation.sets import ORIGINAL, Placed, Sources, find_sets, read_dialogues, read_rows
from parapet.evaluation.task import FILES, Metrics, Result, Stage, Task, files_of
from parapet.evaluation.writing import json_bytes, rows_bytes
from parapet.schemas.errors import InputError
from parapet.schemas.layout import TEST, read_root, services_by_name
from parapet.transforms import text
from parapet.transforms.report import Dot, Dots, Example, Examples, Line, Part, Report, Section, Table, Tile

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
    "All": "All dialogues together, whatever their set.",
    "Mean": "The unweighted mean over the sets.",
}


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
      signature: sacrebleu's.
    """

    sets: Metrics
    services: Metrics
    verdicts: dict[str, dict[str, Verdict]]
    signature: str

    @property
    def metrics(self) -> Metrics:
        """``metrics.json``."""
        return {**self.sets, **self.services}


class Size(msgspec.Struct, frozen=True):
    """How much there was to score in a set."""

    dialogues: int
    dialogues_with_searches: int
    searches: int
    requests: int
    requests_not_counted: dict[str, int]


class Details(Size, frozen=True, kw_only=True, omit_defaults=True):
    """``details.json``: how much there was to score, in all and by set where there are several."""

    bleu_signature: str
    entities: dict[str, int]
    sets: dict[str, Size] = {}


class ResponseTask(Task[Inputs], frozen=True, kw_only=True):
    """``parapet evaluate --task response``.

    Attributes:
      predictions: JSON lines, a folder of them for each set, or ``reference``.
      sources: the sets, corpora in the SGD format; None where there are goals.
      goals: the goals as a file; ``responses`` are then the reference's.
      knowledge_base: entities, see :func:`parapet.evaluation.response.multiwoz.read_entities`.
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
        details = details_of(inputs, evaluation)
        n_responses = sum(len(of) for one in inputs.values() for of in one.responses.values())
        names = {"sets": list(inputs)} if len(inputs) > 1 else {}
        stage("domains")
        domains = {
            name or ORIGINAL: scores_of(one.reference, one.responses, evaluation.verdicts[name], self.tokenizer)
            for name, one in inputs.items()
        }
        page = report(inputs, evaluation, details, domains)
        return Result(
            files={
                **files_of(evaluation.metrics, details, rows_of(inputs, evaluation), page),
                "domains.json": json_bytes(domains),
            },
            summary=[
                f"{text.counted(details.dialogues, 'dialogue')}, {text.counted(n_responses, 'response')}",
                *(
                    (f"{name}: " if len(inputs) > 1 else "")
                    + f"inform {text.percent(values['inform'])}, success {text.percent(values['success'])}, "
                    f"BLEU {text.number(values['bleu'], 1)}, combined {text.number(values['combined'], 1)}"
                    for name, values in evaluation.sets.items()
                ),
            ],
            options={
                "split": self.sources.split if self.sources else None,
                "bleu_signature": evaluation.signature,
                **names,
            },
            counts={"dialogues": details.dialogues, "responses": n_responses},
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


def read_responses(
    predictions: str, split: str, turns: Mapping[str, Mapping[str, Mapping[int, str]]]
) -> dict[str, Responses]:
    """The responses of each set and dialogue.

    Args:
      predictions: JSON lines, or a folder with those of each set.
      split: whose dialogues.
      turns: by set and dialogue the reference's responses, which say what turns there are.

    Raises:
      InputError: responses missing, twice, or to a turn that is not the system's.
    """
    found: dict[str, dict[str, dict[int, Response]]] = {name: {} for name in turns}
    for placed in read_rows(predictions, split, list(turns), Row):
        row, known = placed.row, turns[placed.set]
        _check_turn(placed, known)
        responses = found[placed.set].setdefault(row.dialogue_id, {})
        if row.turn in responses:
            raise placed.error(f"dialogue {row.dialogue_id!r} turn {row.turn} appears twice")
        services = None if row.domains is None else tuple(row.domains)
        responses[row.turn] = Response(row.turn, row.response, _state(row), services)
    for name, known in turns.items():
        missing = sorted(
            (id_, turn) for id_, of in known.items() for turn in of if turn not in found[name].get(id_, {})
        )
        if missing:
            (id_, turn), n = missing[0], len(missing)
            reason = f"there is no response for dialogue {id_!r} turn {turn}" + (
                f" of {name}" if len(turns) > 1 else ""
            )
            raise InputError(reason + (f"; {n:,} are missing in all" if n > 1 else ""), predictions)
    return {
        name: {id_: [of[turn] for turn in sorted(of)] for id_, of in responses.items()}
        for name, responses in found.items()
    }


def _check_turn(placed: Placed[Row], turns: Mapping[str, Mapping[int, str]]) -> None:
    row = placed.row
    if row.dialogue_id not in turns:
        raise placed.error(f"the reference has no dialogue {row.dialogue_id!r}")
    if row.turn not in turns[row.dialogue_id]:
        numbers = [str(turn) for turn in sorted(turns[row.dialogue_id])]
        listed = ", ".join([*numbers[:6], "..."] if len(numbers) > 6 else numbers)
        raise placed.error(f"turn {row.turn} of {row.dialogue_id!r} is not a turn of the system, which has {listed}")


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
    overall, signature = _metrics(inputs, verdicts, list(inputs), tokenizer)
    sets = {name: _metrics(inputs, verdicts, [name], tokenizer)[0] for name in inputs if name}
    services: Metrics = {
        service: {"searches": _mean(searches), "requests": _mean(requests)}
        for service, (searches, requests) in sorted(_by_service(inputs, verdicts).items())
    }
    for name in sets:
        if name in services:
            raise InputError(f"a set cannot be called as a service is: {name}", "--sets")
    return Evaluation(with_mean({ALL: overall, **sets}), services, verdicts, signature)


def _metrics(
    inputs: Inputs, verdicts: Mapping[str, Mapping[str, Verdict]], names: Sequence[str], tokenizer: str
) -> tuple[dict[str, float | None], str]:
    """The metrics of some sets together, and BLEU's signature."""
    judged = [verdict for name in names for verdict in verdicts[name].values()]
    bleu, signature = _bleu([inputs[name] for name in names], tokenizer)
    inform = _mean([verdict.inform for verdict in judged])
    success = _mean([verdict.success for verdict in judged])
    combined = None if inform is None or success is None else 50 * (inform + success) + bleu
    return {"inform": inform, "success": success, "bleu": bleu, "combined": combined}, signature


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


def _mean(values: Sequence[float | None]) -> float | None:
    defined = [value for value in values if value is not None]
    return sum(defined) / len(defined) if defined else None


def _bleu(sets: Sequence[SetInputs], tokenizer: str) -> tuple[float, str]:
    from sacrebleu.metrics.bleu import BLEU

    hypotheses, references = [], []
    for one in sets:
        of_reference = one.reference.responses
        for name in sorted(of_reference):
            hypotheses += [response.response for response in one.responses.get(name, ())]
            references += [of_reference[name][turn] for turn in sorted(of_reference[name])]
    metric = BLEU(lowercase=True, tokenize=tokenizer)
    score = metric.corpus_score(hypotheses, [references]).score
    return float(score), str(metric.get_signature())


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


def details_of(inputs: Inputs, evaluation: Evaluation) -> Details:
    """How much there was to score."""
    sizes = {name: _size([one.reference]) for name, one in inputs.items()}
    entities: dict[str, set[tuple[tuple[str, str], ...]]] = {}
    for one in inputs.values():
        for service, rows in one.reference.knowledge.entities.items():
            entities.setdefault(service, set()).update(tuple(row.items()) for row in rows)
    return Details(
        **msgspec.structs.asdict(_size([one.reference for one in inputs.values()])),
        bleu_signature=evaluation.signature,
        entities={service: len(rows) for service, rows in entities.items()},
        sets=sizes if len(sizes) > 1 else {},
    )


def _size(references: Sequence[Reference]) -> Size:
    goals = [goal for reference in references for goal in reference.goals.values()]
    skipped = sum((Counter(reference.skipped) for reference in references), Counter[str]())
    return Size(
        dialogues=len(goals),
        dialogues_with_searches=sum(bool(goal.searches) for goal in goals),
        searches=sum(len(goal.searches) for goal in goals),
        requests=sum(len(goal.requests) for goal in goals),
        requests_not_counted=dict(sorted(skipped.items())),
    )


def report(inputs: Inputs, evaluation: Evaluation, details: Details, domains: Mapping[str, SetScores]) -> Report:
    """The report: by set, by domain, by service, and dialogues without success."""
    of_all = evaluation.sets[ALL]
    by_set = [
        [group_label(name), text.percent(values["inform"], 2), text.percent(values["success"], 2),
         text.number(values["bleu"], 2), text.number(values["combined"], 2),
         f"{details.sets[name].dialogues:,}" if name in details.sets else ""]
        for name, values in evaluation.sets.items()
    ]  # fmt: skip
    services = [
        [name, text.percent(values["searches"], 2), text.percent(values["requests"], 2)]
        for name, values in evaluation.services.items()
    ]
    sections: list[Section] = []
    if len(inputs) > 1:
        columns = ["set", "inform", "success", "BLEU", "combined", "dialogues"]
        sections.append(Table(title="Sets", columns=columns, rows=by_set, numbers_in="metrics.json"))
        dots = [
            Dot(group_label(name), values[metric], group=metric)
            for name, values in evaluation.sets.items()
            for metric in ("inform", "success")
        ]
        sections.append(Dots(title="Inform and Success by set", dots=dots))
    if any(of.domains for of in domains.values()):
        sections.append(table_of(domains))
    if services:
        columns = ["service", "searches met", "requests answered"]
        sections.append(Table(title="Services", columns=columns, rows=services))
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
        sections=[*sections, *_failed(inputs, evaluation)],
        terms=TERMS | {"BLEU": f"{TERMS['BLEU']} Signature: `{evaluation.signature}`."},
        links={**FILES, "domains.json": "the metrics by set and domain, with intervals"},
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
