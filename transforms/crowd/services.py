"""Turn the answers about a service into its variants v1 to v5 (SGD-X, Lee et al. 2022, section 2.3).

The steps are: normalise, vet, apply the reviewers' decisions, deduplicate, draw five, rank, compose.
"""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import lru_cache, partial
from importlib.metadata import version
from itertools import islice
from typing import Any

import msgspec

from parapet.schemas.decisions import neutralise
from parapet.schemas.errors import InputError, storable
from parapet.schemas.layout import SplitSchemas, raw_by_name, services_by_name, splits_of
from parapet.schemas.rows import RESPONSES, Assignment, DeadLetter
from parapet.schemas.service import TASKS, VARIANTS, Element, Task, elements_of, parse_service, response_id
from parapet.transforms.crowd import meaning, rules
from parapet.transforms.crowd.answer_files import payload
from parapet.transforms.crowd.composing import (
    Composed,
    CrowdTask,
    Entry,
    Outcome,
    Results,
    decided,
    dispositions,
    good_answers,
    note_answers,
    reasons,
    review_items,
    settle_same,
    settling,
    unknown,
)
from parapet.transforms.crowd.dedupe import Decisions, no_answer
from parapet.transforms.crowd.rank import Candidates, assign_names, draw, most_diverse, ranked
from parapet.transforms.crowd.report import Example, compose_report, missing_answers
from parapet.transforms.reports.text import (
    Convention,
    Conventions,
    as_description,
    clean,
    conventions_of,
    join_words,
    name_words,
    words,
)
from parapet.transforms.running import plugins
from parapet.transforms.running.progress import advance, expect
from parapet.transforms.running.seeding import seed_text
from parapet.transforms.variants import distance, table1
from parapet.transforms.variants.distance import Method
from parapet.transforms.variants.matching import compose_variant


class ElementAnswer(Entry, kw_only=True):
    """An answer about a schema element; ``variant`` is the number of the variant that uses it."""

    element: Element
    task: Task
    variant: int | None = None
    distance: float | None = None

    def vetted(self) -> rules.AnswerText:
        """Return the input of the vetting rules."""
        return rules.AnswerText(clean(self.text), self.words, self.task, self.element.name, self.element.description)

    def shown(self) -> tuple[str, str, str, str]:
        """Return the element, the task, its prompt, and the text that was hidden from the worker."""
        return self.element.id, self.task, self.element.prompt(self.task), self.element.text(self.task)

    def same(self) -> str:
        """Return the key that duplicate answers share."""
        return self.canonical if self.task == "names" else " ".join(self.words)

    def row(self) -> dict[str, Any]:
        """Return the answer's row of ``responses.parquet``."""
        return {
            **super().row(),
            "element_id": self.element.id,
            "field": "name" if self.task == "names" else "description",
            "variant": self.variant,
            "distance": self.distance,
        }


def read_answers(
    assignments: Sequence[Assignment],
    elements: Mapping[Task, Sequence[Element]],
    decisions: Decisions,
    conventions: Conventions,
    more_rules: rules.Rules[rules.AnswerText],
    outcome: ServiceOutcome,
    allow_not_blind: bool = False,
) -> list[ElementAnswer]:
    """Read and vet each answer on its own, before answers are compared with each other.

    Args:
      assignments: the assignments of one service, without duplicates, in order.
      elements: the elements of the service, by task.
      decisions: the decisions on the answers.
      conventions: the naming conventions of the corpus.
      more_rules: the vetting rules.
      outcome: receives the dead letters of fields that the task does not have, and of decisions without effect.
      allow_not_blind: whether to accept answers of workers who saw the sibling task.
    """
    by_field: dict[str, dict[str, Element]] = {
        task: {element.field: element for element in of_task} for task, of_task in elements.items()
    }
    seen_both = _not_blind(assignments)
    answers = []
    for assignment in assignments:
        known = by_field[assignment.task]
        verdict = rules.vet_assignment(assignment, [field for field in assignment.answers if field in known])
        if not verdict.action and assignment.assignment_id in seen_both:
            outcome.not_blind += 1
            if not allow_not_blind:
                verdict = rules.Verdict("review", "not_blind")
        for field, text in sorted(assignment.answers.items()):
            decision = decisions.get(assignment.assignment_id, {}).get(field)
            if field in known:
                make = partial(
                    _entry, assignment, known[field], conventions.of(known[field].kind, known[field].name), text
                )
                entry, dead = decided(make, text, decision, _problem)
                outcome.dead += dead
                if entry.decision is None:
                    of_text = rules.PASS if verdict.action == "reject" else rules.vet_answer(entry.vetted(), more_rules)
                    verdicts = (of_text, verdict, rules.vet_typing(assignment, field))
                    entry.verdict = next((each for each in verdicts if each.action), rules.PASS)
                answers.append(entry)
            elif text.strip() or decision:
                reason = f"unknown_position: task {assignment.service_name}:{assignment.task} has no field {field}"
                note = (
                    f" (so the decision {decision.decision} in {decision.source} is ignored, too)" if decision else ""
                )
                key = response_id(assignment.assignment_id, field)
                outcome.dead.append(DeadLetter("compose", key, reason + note, payload(text.strip()), assignment.source))
                outcome.dead_answers += [key] if text.strip() else []
        if not any(field in known or text.strip() for field, text in assignment.answers.items()):
            outcome.dead.append(no_answer(assignment))
    return answers


def judge_meaning(answers: Sequence[ElementAnswer], elements: Mapping[Task, Sequence[Element]]) -> None:
    """Hold answers that mean another element of the service or something unrelated, unless a reviewer decided on them.

    An answer that two people wrote independently in the same words is not held: they are unlikely to make the same
    mistake. This does not apply to models, whose answers agree even if they are wrong.

    Args:
      answers: the answers about one service, vetted one by one.
      elements: the elements of the service, by task.
    """
    measure = meaning.measure()
    of_kind: dict[tuple[Task, str], list[ElementAnswer]] = defaultdict(list)
    for answer in answers:
        if answer.verdict.action != "reject":
            of_kind[answer.task, answer.element.kind].append(answer)
    for (task, kind), groups in of_kind.items():
        texts: dict[str, list[str]] = defaultdict(list)
        for answer in groups:
            texts[answer.element.field].append(answer.text)
        alike = [element for element in elements[task] if element.kind == kind]
        judge = meaning.Meaning(task, alike, texts, measure)
        writers: dict[tuple[str, str], set[str]] = defaultdict(set)
        for answer in groups:
            person = answer.assignment.worker_hash or answer.assignment.assignment_id
            if answer.assignment.platform != "llm":
                writers[answer.element.field, answer.same()].add(person)
        for answer in groups:
            doubt = judge.doubt(answer.element, answer.text)
            answer.doubt = doubt.similarity if doubt.margin is None else doubt.margin
            reason = doubt.reason(meaning.THRESHOLDS[measure, task])
            is_confirmed = len(writers[answer.element.field, answer.same()]) > 1
            if reason and not is_confirmed and not answer.verdict.action and answer.decision is None:
                answer.verdict = rules.Verdict("review", reason)


def _not_blind(assignments: Sequence[Assignment]) -> set[str]:
    """Return the assignments of workers who did the sibling task before and so have seen the hidden texts."""
    first: dict[str, dict[str, int]] = defaultdict(dict)
    for a in assignments:
        if a.worker_hash:
            when = a.submit_time or 0
            first[a.worker_hash][a.task] = min(when, first[a.worker_hash].get(a.task, when))
    return {
        a.assignment_id
        for a in assignments
        for task, when in first.get(a.worker_hash, {}).items()
        if task != a.task and when <= (a.submit_time or 0)
    }


def _problem(entry: ElementAnswer) -> str:
    return "" if entry.words else "the text contains no word"


def _entry(
    assignment: Assignment, element: Element, convention: Convention, text: str, text_to_use: str
) -> ElementAnswer:
    task = assignment.task
    assert task in ("names", "descriptions")  # the ingest accepts only answers to schema tasks
    canonical, words = canonical_form(text_to_use, task, convention, element.text(task))
    return ElementAnswer(
        response_id=response_id(assignment.assignment_id, element.field),
        text=text,
        canonical=canonical,
        words=words,
        assignment=assignment,
        element=element,
        task=task,
    )


@lru_cache(maxsize=1 << 15)
def canonical_form(text: str, task: Task, convention: Convention, original: str) -> tuple[str, tuple[str, ...]]:
    """Return a text as written to the output, and the words by which equal answers are recognised.

    Args:
      text: the text as typed.
      task: ``names`` or ``descriptions``.
      convention: the naming convention.
      original: the element's original text.
    """
    text = clean(text)
    if task == "names":
        name = join_words(name_words(text), convention, original)
        # MultiWOZ's names get their domain, so "area" for hotel-area equals the original and must be detected as a
        # copy.
        has_front = convention is Convention.DOMAIN_SLOT or "." in original
        return name, name_words(name) if has_front else name_words(text)
    return as_description(text, original), words(text)


NEEDED = len(VARIANTS)
SELECTIONS = ("random", "diverse")
SHORTFALL_COLUMNS = (
    *("service_name", "element_id", "task", "field", "have", "need", "in_review", "reason", "composed"),
    "filled_variants",
)
_SERVICES_SHOWN = 2  # number of services whose paraphrases the report shows

Place = tuple[Task, str]  # task and form field
Variants = dict[str, dict[str, list[dict[str, Any]]]]  # variant to split to services


class Short(msgspec.Struct):
    """An element with fewer than five good answers.

    Attributes:
      form_field: such as ``slot_3``.
      have: the number of good answers; ``in_review`` is the number of those held.
      filled: the variants that repeat an answer or the original if the service was composed anyway.
      reason: ``too_few``, or ``name_collision`` if there are five answers but their names collide.
    """

    element_id: str
    task: Task
    form_field: str
    have: int
    in_review: int
    reason: str = "too_few"
    filled: tuple[int, ...] = ()


class Options(msgspec.Struct, frozen=True):
    """The options, named like the command's flags.

    Attributes:
      seed: the seed of the draw.
      selection: how five of more good answers are chosen, one of ``SELECTIONS``.
      allow_partial: also compose services whose elements have at least one good answer, repeating it.
      name_distance: the distance that ranks names: ``levenshtein``, ``jaccard``, or a plug-in.
      description_distance: the distance that ranks descriptions.
      stopwords: ``articles``, ``spacy``, ``none``, or a file of words.
      spacy_model: a trained spaCy pipeline for lemmas; empty for simplemma.
      vetting_rules: the names of plug-in rules.
      allow_not_blind: accept the answers of workers who saw the sibling task.
    """

    seed: int = 0
    selection: str = "random"
    allow_partial: bool = False
    name_distance: str = "levenshtein"
    description_distance: str = "jaccard"
    stopwords: str = "articles"
    spacy_model: str = ""
    vetting_rules: tuple[str, ...] = ()
    allow_not_blind: bool = False

    def check(self) -> None:
        """Raise InputError if an option is invalid."""
        seed_text(self.seed)
        distance.check_distance(self.name_distance, "name_distance")
        distance.check_distance(self.description_distance, "description_distance")
        if self.selection not in SELECTIONS:
            raise InputError(f"{self.selection!r} is unknown: must be 'random' or 'diverse'", "selection")
        distance.load_stopwords(self.stopwords)
        distance.check_spacy_model(self.spacy_model)
        rules.choose_rules(self.vetting_rules)

    def distances(self) -> Method:
        """Return the distances for ranking names and descriptions."""
        stopwords = distance.load_stopwords(self.stopwords)
        return Method(self.name_distance, self.description_distance, stopwords, self.spacy_model)

    def method(self) -> dict[str, str]:
        """Return ``method`` of ``statistics.json``, without names of input files, which do not affect the result."""
        return {
            "names": f"{self.name_distance.partition('=')[0]} distance",
            "descriptions": f"{self.description_distance.partition('=')[0]} distance",
            "stopwords": self.stopwords if self.stopwords in ("articles", "spacy", "none") else "a file",
            "lemmas": self.spacy_model or f"simplemma {version('simplemma')}",
            "selection": self.selection,
            "seed": str(self.seed),
            "meaning": meaning.measure(),
            **(
                {"blindness": "workers who saw the other task of the service are allowed"}
                if self.allow_not_blind
                else {}
            ),
            "partial": "allowed" if self.allow_partial else "left out",
            **({"vetting rules": ", ".join(rules.choose_rules(self.vetting_rules))} if self.vetting_rules else {}),
        }

    def plugins(self) -> dict[str, Any]:
        """Return the origin of the plug-ins for ``run.json``."""
        distances = ((self.name_distance, "name_distance"), (self.description_distance, "description_distance"))
        chosen_rules = (rule.chosen for rule in rules.choose_rules(self.vetting_rules).values())
        chosen = (plugins.choose(plugins.DISTANCES, *name_and_flag) for name_and_flag in distances)
        return plugins.recorded(*chosen, *chosen_rules)


class ServiceOutcome(Outcome, kw_only=True):
    """The outcome of a service. ``variants`` is empty if it was not composed.

    Attributes:
      to_accept: the number of held answers that would complete the service if reviewers accepted them; 0 if it is
        complete, or if all of them would not be enough.
      not_blind: the number of assignments of workers who had done the sibling task.
      measured: the counts for SGD-X Table 1, if the service was composed.
      examples: some paraphrases for the report.
    """

    variants: list[dict[str, Any]] = msgspec.field(default_factory=list)
    to_accept: int = 0
    not_blind: int = 0
    measured: table1.Item | None = None
    examples: list[Example] = msgspec.field(default_factory=list)


def settle_service(
    raw: Mapping[str, Any],
    assignments: Sequence[Assignment],
    decisions: Decisions,
    options: Options,
    conventions: Conventions,
    method: Method,
) -> ServiceOutcome:
    """Settles one service.

    Args:
      raw: the service as read from its schema file.
      assignments: its assignments, without duplicates.
      decisions: the decisions on their answers.
      options: the options of the run.
      conventions: the naming conventions of the corpus.
      method: the distances that rank names and descriptions.
    """
    service = parse_service(raw)
    conventions = conventions.within(service)
    outcome = ServiceOutcome(name=service.service_name)
    elements = {task: elements_of(service, task) for task in TASKS}
    assignments = sorted(assignments, key=lambda a: a.assignment_id)
    more_rules = rules.rules_of(options.vetting_rules)
    answers = read_answers(assignments, elements, decisions, conventions, more_rules, outcome, options.allow_not_blind)
    judge_meaning(answers, elements)
    by_place: dict[Place, list[ElementAnswer]] = defaultdict(list)
    for answer in answers:
        by_place[answer.task, answer.element.field].append(answer)
    clusters: dict[Place, list[list[ElementAnswer]]] = {
        place: settle_same((answer.same(), answer) for answer in of_place) for place, of_place in by_place.items()
    }
    good = {place: good_answers(cluster) for place, cluster in clusters.items()}
    taken = _take(elements, good, options, method, outcome)
    for short in outcome.short:
        held = clusters.get((short.task, short.form_field), [])
        short.in_review = sum(same[0].disposition == "review" for same in held)
    outcome.to_accept = _to_accept(elements, clusters, options, method, outcome.short)
    if taken is not None:
        outcome.variants = [
            compose_variant(
                raw,
                k,
                {field: texts[k - 1] for (task, field), texts in taken.items() if task == "names"},
                {field: texts[k - 1] for (task, field), texts in taken.items() if task == "descriptions"},
            )
            for k in VARIANTS
        ]
    _dispose(good, taken)

    def flags(answer: ElementAnswer) -> Iterable[str]:
        return rules.flags(answer.vetted(), more_rules)

    outcome.reviews = review_items(clusters.values(), flags)
    ordered = sorted(answers, key=lambda a: (a.element.id, a.task, a.response_id))
    note_answers(outcome, ordered)
    if outcome.variants:
        services = {f"v{k}": parse_service(variant) for k, variant in zip(VARIANTS, outcome.variants, strict=True)}
        outcome.measured = table1.Item(service, services)
        outcome.examples = list(_examples(raw, outcome.variants))
    return outcome


def _take(
    elements: Mapping[Task, list[Element]],
    good: Mapping[Place, list[ElementAnswer]],
    options: Options,
    method: Method,
    outcome: Outcome,
) -> dict[Place, list[str]] | None:
    """Choose the five texts of every element by increasing distance, or return None if the service cannot be composed.

    Sets the distance of every good answer, and records elements that need more answers.
    """
    candidates = {
        (task, element.field): _candidates(element, task, good.get((task, element.field), []), options, method)
        for task in TASKS
        for element in elements[task]
    }
    names = {place: answers for place, answers in candidates.items() if place[0] == "names"}
    assigned = assign_names(list(names.values()), NEEDED)
    missing = {place for place, answers in candidates.items() if len(answers.texts) < NEEDED}
    collided = {place for place, answers in names.items() if answers.key not in assigned} - missing
    # An element without answers has nothing to repeat.
    partial = options.allow_partial and all(candidate.texts for candidate in candidates.values())
    if missing | collided and partial:
        for place in missing | collided:
            element = next(e for e in elements[place[0]] if e.field == place[1])
            candidates[place].original = element.text(place[0])
        assigned = assign_names(list(names.values()), NEEDED)
    _note_short(outcome, elements, candidates, missing, collided, partial)
    taken: dict[Place, list[str]] = {}
    for place, answers in candidates.items():
        if place[0] == "names" and answers.key in assigned:
            taken[place] = assigned[answers.key]
        elif place[0] == "descriptions" and (len(answers.texts) >= NEEDED or partial):
            texts = ranked(answers.texts[:NEEDED], answers.distances[:NEEDED])
            taken[place] = texts + texts[-1:] * (NEEDED - len(texts))
    return taken if taken.keys() == candidates.keys() else None


def _to_accept(
    elements: Mapping[Task, list[Element]],
    clusters: Mapping[Place, list[list[ElementAnswer]]],
    options: Options,
    method: Method,
    short: Sequence[Short],
) -> int:
    """Return how many held answers have to be accepted to complete the service; 0 if all of them are not enough."""
    needed = [max(NEEDED - item.have, 1) for item in short]
    if not short or any(item.in_review < n for item, n in zip(short, needed, strict=True)):
        return 0
    with_held = {
        place: [copy(same[0]) for same in cluster if same[0].disposition in ("surplus", "review") and same[0].words]
        for place, cluster in clusters.items()
    }
    strictly = msgspec.structs.replace(options, allow_partial=False)
    is_complete = _take(elements, with_held, strictly, method, ServiceOutcome(name="")) is not None
    return sum(needed) if is_complete else 0


def _candidates(
    element: Element, task: Task, answers: list[ElementAnswer], options: Options, method: Method
) -> Candidates:
    metric = method.metric(task)
    original = element.text(task)
    texts = draw([a.canonical for a in answers], options.seed, element.id, task)
    if options.selection == "diverse":
        texts = most_diverse(texts, NEEDED, metric)
    for answer in answers:
        answer.distance = float(metric(original, answer.canonical))
    distance = {answer.canonical: answer.distance or 0.0 for answer in answers}
    return Candidates(element.id, texts, [distance[text] for text in texts], scopes=element.scopes)


def _note_short(
    outcome: Outcome,
    elements: Mapping[Task, list[Element]],
    candidates: Mapping[Place, Candidates],
    missing: set[Place],
    collided: set[Place],
    partial: bool,
) -> None:
    for task in TASKS:
        for element in elements[task]:
            place = (task, element.field)
            if place in missing | collided:
                have = len(candidates[place].texts)
                filled = VARIANTS[min(have, NEEDED) if place in missing else 0 :] if partial else ()
                reason = "too_few" if place in missing else "name_collision"
                outcome.short.append(Short(element.id, task, element.field, have, 0, reason, tuple(filled)))


def _dispose(good: Mapping[Place, list[ElementAnswer]], taken: Mapping[Place, list[str]] | None) -> None:
    """Mark good answers as used, or keep them as surplus with a reason."""
    for place, answers in good.items():
        for answer in answers:
            if taken is None:
                answer.reason = "service_incomplete"
            elif answer.canonical in taken[place]:
                # A repeated answer counts for the first variant that it fills.
                answer.variant = taken[place].index(answer.canonical) + 1
                answer.disposition, answer.reason = "used", ""


def _examples(raw: Mapping[str, Any], variants: Sequence[Mapping[str, Any]]) -> Iterator[Example]:
    """Yield the first intent and the first slots of a composed service: names, then descriptions."""
    for field in ("name", "description"):
        for kind, n in (("intents", 1), ("slots", 4)):
            for i, element in enumerate(raw[kind][:n]):
                yield Example(element[field], [variant[kind][i][field] for variant in variants])


class SchemaTask(CrowdTask[ServiceOutcome]):
    """The crowd task of paraphrasing the names and descriptions of schemas.

    Args:
      splits: the schemas of the corpus.
      options: the options that affect the result.
      output: the output folder.
    """

    pipeline = "compose"
    audit_schema = RESPONSES

    def __init__(self, splits: Sequence[SplitSchemas], options: Options, output: str = "") -> None:
        self.splits, self.options = list(splits), options
        self.output, self.method, self.header = output, options.method(), options.plugins()
        self.explanations = rules.explanations(options.vetting_rules)

    def settle(self, assignments: Sequence[Assignment], decisions: Decisions) -> Iterator[ServiceOutcome]:
        """Settle every service that the schemas or the answers contain."""
        raws, method = raw_by_name(self.splits), self.options.distances()
        conventions = conventions_of(services_by_name(self.splits).values())
        by_service: dict[str, list[Assignment]] = {name: [] for name in raws}
        for assignment in assignments:
            by_service.setdefault(assignment.service_name, []).append(assignment)
        expect(len(raws), "services")
        for name, of_service in by_service.items():
            if name in raws:
                advance(1, "services")
                with settling(name):
                    outcome = settle_service(raws[name], of_service, decisions, self.options, conventions, method)
                yield outcome
            else:
                reason = f"unknown_service: no schema has a service {name!r}"
                if name in self._bad_names():
                    reason = f"unknown_service: {name!r} was left out, because its schema is invalid (see bad_service)"
                outcome = ServiceOutcome(name=name, known=False)
                unknown(outcome, reason, of_service, decisions)
                yield outcome

    def _bad_names(self) -> set[str]:
        bad = (service.raw for split in self.splits for service in split.bad)
        return {str(raw.get("service_name")) for raw in bad if isinstance(raw, dict)}

    def dead(self) -> list[DeadLetter]:
        """Return the dead letters of services that break a rule of the format."""
        return [
            DeadLetter(
                "schemas",
                error.path,
                f"bad_service: {error.where}: {error.reason}",
                payload(storable(json.dumps(bad.raw, ensure_ascii=False, separators=(",", ":")))),
                error.path,
            )
            for split in self.splits
            for bad in split.bad
            for error in (bad.error,)
        ]

    def variants(self, composed: Composed[ServiceOutcome]) -> Variants:
        """Return variant (``v1`` to ``v5``) to split to its composed services, in the order of the split's file."""
        outcomes = {outcome.name: outcome for outcome in composed.outcomes}
        variants: Variants = {}
        for split in self.splits:
            names = [service.service_name for service in split.services]
            done = [outcomes[name].variants for name in names if name in outcomes and outcomes[name].variants]
            for k in VARIANTS if done else ():
                variants.setdefault(f"v{k}", {})[split.split] = [of_service[k - 1] for of_service in done]
        return variants

    def results(self, composed: Composed[ServiceOutcome]) -> Results:
        """Return statistics, report, variants and shortfall."""
        numbers = self.statistics(composed)
        examples = {outcome.name: outcome.examples for outcome in composed.outcomes if outcome.examples}
        rows = shortfall_rows(composed.outcomes)
        shown = dict(islice(examples.items(), _SERVICES_SHOWN))
        report = compose_report(numbers, self.explanations, shown, missing_answers(rows, numbers["services"]))
        out = io.StringIO()
        writer = csv.DictWriter(out, SHORTFALL_COLUMNS, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({**row, **{name: neutralise(row[name]) for name in ("service_name", "element_id")}})
        files = {"shortfall.csv": out.getvalue().encode()}
        for variant, of_splits in self.variants(composed).items():
            for split in self.splits:
                services = of_splits.get(split.split, ())
                for path, data in split.variant_files(services).items() if services else ():
                    files[f"{variant}/{path}"] = data
        return Results(numbers, report, files)

    def statistics(self, composed: Composed[ServiceOutcome]) -> dict[str, Any]:
        """Return the content of ``statistics.json``."""
        outcomes = composed.outcomes
        splits: dict[str, list[str]] = defaultdict(list)
        for path, names in splits_of(self.splits).items():
            for name in names:
                splits[name].append(path.rpartition("/")[0] or "schema")
        measured = [outcome.measured for outcome in outcomes if outcome.measured is not None]
        measures = table1.measures_of(measured, [f"v{k}" for k in VARIANTS]) if measured else {}
        content = {
            "answers": dispositions(outcomes),
            "dead_letters": len(composed.dead),
            "sources": composed.sources(),
            "reasons": reasons(outcomes),
            "not_blind_assignments": sum(outcome.not_blind for outcome in outcomes),
            "meaning": meaning.stated(),
            "services": {
                outcome.name: {
                    "splits": splits[outcome.name],
                    "composed": bool(outcome.variants),
                    "partial": bool(outcome.variants and outcome.short),
                    "answers": dispositions([outcome]),
                    "short": len(outcome.short),
                    "to_accept": outcome.to_accept,
                }
                for outcome in outcomes
            },
            "variants": measures.get("variants", {}),
            "average": measures.get("average", {}),
            "self_bleu": measures.get("self_bleu"),
            "decisions": composed.decisions(),
            "method": dict(self.method),
        }
        return {key: table1.rounded(value) for key, value in content.items()}


def shortfall_rows(outcomes: Iterable[ServiceOutcome]) -> list[dict[str, Any]]:
    """Return a row in ``SHORTFALL_COLUMNS`` for each element and task that needs more good answers."""
    return [
        {
            "service_name": outcome.name,
            "element_id": short.element_id,
            "task": short.task,
            "field": short.form_field,
            "have": short.have,
            "need": NEEDED,
            "in_review": short.in_review,
            "reason": short.reason,
            "composed": "partial" if outcome.variants else "no",
            "filled_variants": " ".join(f"v{k}" for k in short.filled),
        }
        for outcome in outcomes
        for short in outcome.short
    ]
