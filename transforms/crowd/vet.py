"""Vet the answers about a service: each passes, is held for a reviewer, or is rejected, with the reason.

Answers are normalised, vetted by the rules of :mod:`.rules`, compared in meaning with the other elements of the
service, and joined with the decisions of reviewers. Those with the same words count once.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import apache_beam as beam

from parapet.schemas import errors, layout, rows
from parapet.schemas.decisions import Decision
from parapet.schemas.service import TASKS, Element, Service, Task, elements_of, parse_service, response_id
from parapet.transforms.crowd import meaning, rules
from parapet.transforms.crowd import task as crowd
from parapet.transforms.crowd.answer_files import payload
from parapet.transforms.crowd.ingest import Group, JoinDecisions, Submission, WithDeadLetters, as_assignments, no_answer
from parapet.transforms.crowd.worker_ids import load_worker_key
from parapet.transforms.perturb.corpora import Corpus
from parapet.transforms.report.text import Convention, Conventions, clean, conventions_of, join_words, name_words, words


class SchemaAnswer(crowd.Answer, kw_only=True, array_like=True):
    """An answer about an element of a schema.

    Attributes:
      place: the form field: ``slot_3``.
      name: the element's name; ``description`` its description, and ``cue`` what stood for a missing one.
      not_blind: whether the worker had seen the original in the sibling task.
      variant: the variant that uses it, from 1.
      distance: from the original; None if the answer was not ranked.
    """

    element_id: str
    place: str
    task: Task
    element_kind: str
    name: str
    description: str
    cue: str = ""
    not_blind: bool = False
    variant: int | None = None
    distance: float | None = None

    @property
    def original(self) -> str:
        """Returns the text that was hidden from the worker."""
        return self.name if self.task == "names" else self.description

    @property
    def to_vet(self) -> rules.AnswerText:
        """Returns the input of the vetting rules."""
        return rules.AnswerText(clean(self.text), self.words, self.task, self.name, self.description)

    def same(self) -> str:
        """Returns the key that answers with the same words share: the canonical name, in which words are joined."""
        return self.canonical if self.task == "names" else super().same()

    def shown(self) -> tuple[str, str, str, str]:
        """Returns the element, the task, its prompt, and the text that was hidden from the worker."""
        prompt = (self.description or self.cue) if self.task == "names" else self.name
        return self.element_id, self.task, prompt, self.original

    def row(self) -> dict[str, Any]:
        """Returns the answer's row of ``responses.parquet``."""
        field = "name" if self.task == "names" else "description"
        more = {name: getattr(self, name) for name in ("element_id", "variant", "distance")}
        return {**super().row(), "field": field, **more}


def _not_blind(assignments: Sequence[rows.Assignment]) -> set[str]:
    """Returns the assignments of workers who did the sibling task before and so have seen the hidden texts."""
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


def _problem(answer: SchemaAnswer) -> str:
    return "" if answer.words else "the text contains no word"


def _answer(
    assignment: rows.Assignment, element: Element, convention: Convention, not_blind: bool, text: str
) -> SchemaAnswer:
    task = assignment.task
    assert task in ("names", "descriptions")  # files are read for answers to these tasks only
    canonical, words = canonical_form(text, task, convention, element.text(task))
    return SchemaAnswer(
        **crowd.answer_columns(assignment, element.field),
        text=assignment.answers[element.field],
        canonical=canonical,
        words=words,
        element_id=element.id,
        place=element.field,
        task=task,
        element_kind=element.kind,
        name=element.name,
        description=element.description,
        cue=element.cue,
        not_blind=not_blind,
    )


def as_description(text: str, original: str) -> str:
    """Adapts a cleaned text to the style of descriptions.

    It begins with a capital, is not all capitals, and ends with a full stop only if the original does.

    Only the case of letters and a final full stop change, never a word.
    """
    letters = [c for c in text if c.isalpha()]
    if len(letters) > 4 and " " in text and all(c.isupper() for c in letters):
        text = text.lower()
    capital = text[:1].upper() + text[1:]
    # "iPhone repair" keeps its case; an accent that would combine with the new capital would change the letter.
    if text[:2].islower() and unicodedata.is_normalized("NFC", capital):
        text = capital
    if text.endswith(".") and not text.endswith("..") and not original.endswith("."):
        text = text[:-1].rstrip()
    return text


@lru_cache(maxsize=1 << 12)
def canonical_form(text: str, task: Task, convention: Convention, original: str) -> tuple[str, tuple[str, ...]]:
    """Returns a text as written to the output, and the words by which equal answers are recognised.

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


def _judge_meaning(answers: Sequence[SchemaAnswer], elements: Mapping[Task, Mapping[str, Element]]) -> None:
    """Holds answers that mean another element of the service or something unrelated, unless a reviewer decided on them.

    An answer that two people wrote independently in the same words is not held: they are unlikely to make the same
    mistake. This does not apply to models, whose answers agree even if they are wrong.
    """
    measure = meaning.measure()
    of_kind: dict[tuple[Task, str], list[SchemaAnswer]] = defaultdict(list)
    for answer in answers:
        if answer.verdict.action != "reject":
            of_kind[answer.task, answer.element_kind].append(answer)
    for (task, kind), group in of_kind.items():
        texts: dict[str, list[str]] = defaultdict(list)
        writers: dict[tuple[str, str], set[str]] = defaultdict(set)
        for answer in group:
            texts[answer.place].append(answer.text)
            if answer.source != "llm":
                writers[answer.place, answer.same()].add(answer.worker_hash or answer.response_id.rpartition(":")[0])
        alike = [element for element in elements[task].values() if element.kind == kind]
        judge = meaning.Meaning(task, alike, texts, measure)
        for answer in group:
            doubt = judge.doubt(elements[task][answer.place], answer.text)
            answer.doubt = doubt.similarity if doubt.margin is None else doubt.margin
            reason = doubt.reason(meaning.THRESHOLDS[measure, task])
            is_confirmed = len(writers[answer.place, answer.same()]) > 1
            if reason and not is_confirmed and not answer.verdict.action and not answer.decision:
                answer.verdict = rules.Verdict("review", reason)


class Vetting:
    """Vets the answers about the services of a corpus.

    Args:
      splits: the schemas of the corpus.
      vetting: the vetting rules, or functions besides the built-in ones.
      allow_not_blind: whether to accept answers of workers who saw the sibling task.
    """

    def __init__(
        self,
        splits: Sequence[layout.SplitSchemas],
        vetting: rules.Rules[rules.AnswerText] | Sequence[Callable[[rules.AnswerText], str | None]] = rules.BUILT_IN,
        allow_not_blind: bool = False,
    ) -> None:
        self.raws, services = layout.raw_by_name([*splits]), layout.services_by_name([*splits])
        self.conventions = conventions_of(services.values())
        self.left_out = {str(bad.raw.get("service_name")) for s in splits for bad in s.bad if isinstance(bad.raw, dict)}
        self.rules = vetting if isinstance(vetting, rules.Rules) else rules.BUILT_IN.with_functions(vetting)
        self.allow_not_blind = allow_not_blind

    def vet(self, name: str, submissions: Sequence[Submission]) -> Iterator[tuple[str, SchemaAnswer] | rows.DeadLetter]:
        """Vets the answers about a service; those about one that the corpus lacks become dead letters."""
        if name in self.raws:
            service = parse_service(self.raws[name])
            with crowd.judging(name):
                vetted = self.vet_service(service, submissions)
            for record in crowd.all_end(submissions, vetted):
                yield record if isinstance(record, rows.DeadLetter) else (name, record)
        elif name in self.left_out:
            why = f"{name!r} was left out, because its schema is invalid (see bad_service)"
            yield from crowd.unknown(submissions, f"unknown_service: {why}")
        else:
            yield from crowd.unknown(submissions, f"unknown_service: no schema has a service {name!r}")

    def vet_service(self, service: Service, submissions: Iterable[Submission]) -> list[SchemaAnswer | rows.DeadLetter]:
        """Vets all answers about a service.

        Args:
          service: the service.
          submissions: its assignments, without copies, and the decisions on their answers.
        """
        elements = {task: {element.field: element for element in elements_of(service, task)} for task in TASKS}
        conventions = self.conventions.within(service)
        ordered = sorted(submissions, key=lambda submission: submission.assignment.assignment_id)
        seen_both = _not_blind([submission.assignment for submission in ordered])
        answers, dead = list[SchemaAnswer](), list[rows.DeadLetter]()
        for submission in ordered:
            not_blind = submission.assignment.assignment_id in seen_both
            answers += crowd.without_dead(self._vet_submission(submission, elements, conventions, not_blind), dead)
        _judge_meaning(answers, elements)
        by_place: dict[tuple[Task, str], list[SchemaAnswer]] = defaultdict(list)
        for answer in answers:
            by_place[answer.task, answer.place].append(answer)
        for of_place in by_place.values():
            for best in crowd.merge_equal_answers(of_place):
                if best.disposition == "review":
                    best.flags = tuple(self.rules.flags(best.to_vet))
        return [*dead, *answers]

    def _vet_submission(
        self,
        submission: Submission,
        elements: Mapping[Task, Mapping[str, Element]],
        conventions: Conventions,
        not_blind: bool,
    ) -> Iterator[SchemaAnswer | rows.DeadLetter]:
        """Vets each answer of a form on its own; fields that its task does not have become dead letters."""
        assignment = submission.assignment
        assert assignment.task in TASKS  # files are read for answers to these tasks only
        known = elements[assignment.task]
        of_form = rules.vet_assignment(assignment, [field for field in assignment.answers if field in known])
        not_blind = not_blind and not of_form.action
        if not_blind and not self.allow_not_blind:
            of_form = rules.Verdict("review", "not_blind")
        for field, text in sorted(assignment.answers.items()):
            decision = submission.decisions.get(field)
            if field in known:
                convention = conventions.of(known[field].kind, known[field].name)
                make = partial(_answer, assignment, known[field], convention, not_blind)
                answer, dead = crowd.apply_decision(make, submission, field, _problem)
                yield from dead
                if not answer.decision:
                    of_text = rules.PASS if of_form.action == "reject" else rules.vet_answer(answer.to_vet, self.rules)
                    verdicts = (of_text, of_form, rules.vet_typing(assignment, field))
                    answer.verdict = next((verdict for verdict in verdicts if verdict.action), rules.PASS)
                yield answer
            elif text.strip() or decision:
                reason = f"unknown_position: task {assignment.service_name}:{assignment.task} has no field {field}"
                if decision:
                    reason += f" (so the decision {decision.decision} in {decision.source} is ignored, too)"
                key = response_id(assignment.assignment_id, field)
                yield rows.DeadLetter("compose", key, reason, payload(text.strip()), assignment.source)
        if not any(field in known or text.strip() for field, text in assignment.answers.items()):
            yield no_answer(assignment)


def read_schemas(schemas: Any) -> list[layout.SplitSchemas]:
    """Reads and checks schemas: from a corpus, its folder, a file, or a list of services.

    Services that break a rule of the format are left out.

    Raises:
      InputError: it cannot be read, or no service is good.
    """
    if isinstance(schemas, str | Path):
        return layout.read_root(schemas, leave_out_bad=True)
    if isinstance(schemas, Corpus):
        return list({id(split): split for split in schemas.folders.values()}.values())
    if not isinstance(schemas, Iterable):
        raise errors.InputError(f"expected a corpus, its place or services, found {type(schemas).__name__}", "services")
    services = list(schemas) if not isinstance(schemas, Mapping) else schemas
    if services and isinstance(services, list) and all(isinstance(split, layout.SplitSchemas) for split in services):
        return services
    return layout.compared([layout.parse_services(services, "services", layout.SINGLE)], leave_out_bad=True)


class Vet(WithDeadLetters):
    """Vets the answers about each service.

    The input is a PCollection of ``parapet.schemas.rows.Assignment``, or of dicts like the lines of ``parapet collect``
    or the rows of a batch CSV (docs/formats.md). The result is a PCollection of (service name, answer); an answer has
    ``disposition``: ``surplus`` (good, and not chosen yet), ``review``, ``rejected`` or ``duplicate`` (the words of
    another answer), and the ``reason``. ``with_outputs()`` has ``answers`` and ``dead_letters``: answers about services
    and elements that do not exist, and decisions that have no effect.

    Args:
      schemas: the schemas of the corpus: anything that ``parapet.compose`` accepts.
      decisions: reviewers' decisions: CSV files, or records of ``parapet.schemas.decisions.Decision``.
      rules: further rules: functions from an answer (its ``text``, ``words``, ``task``, and the ``name`` and
        ``description`` of its element) to the reason to hold it for review, or None.
      allow_not_blind: accept answers of workers who also did the sibling task of the service.

    Raises:
      InputError: the schemas or decisions cannot be read.

    Example:
      >>> import apache_beam as beam, parapet
      >>> from parapet.schemas.layout import sample_root
      >>> names = str(sample_root() / "crowd" / "names.csv")
      >>> with beam.Pipeline() as pipeline:
      ...     answers = pipeline | parapet.beam.ReadAnswers([names]) | parapet.beam.Dedupe()
      ...     vetted = answers | parapet.beam.Vet(sample_root())
      ...     held = vetted | beam.Filter(lambda pair: pair[1].disposition == "review")
      ...     _ = held | beam.combiners.Count.Globally() | beam.Map(print)
      63
    """

    main = "answers"

    def __init__(
        self,
        schemas: Any,
        decisions: str | Path | Decision | Iterable[str | Path | Decision] | None = None,
        rules: rules.Rules[rules.AnswerText] | Sequence[Callable[[rules.AnswerText], str | None]] = (),
        *,
        allow_not_blind: bool = False,
    ) -> None:
        super().__init__()
        self.vetting = Vetting(read_schemas(schemas), rules, allow_not_blind)
        self.join = JoinDecisions(decisions)
        self.key = load_worker_key()

    def outputs(self, records: beam.PCollection) -> Any:
        """Returns ``answers`` and ``dead_letters``."""
        key, vetting = self.key, self.vetting
        read = records | "Assignments" >> self.apart(lambda record: as_assignments(record, key))
        joined = read.answers | "Decisions" >> self.join.with_outputs()
        services = joined.submissions | "Services" >> Group(Submission, by=[lambda s: (s.assignment.service_name, s)])
        vetted = services | "Vet" >> self.apart(lambda group: vetting.vet(group[0], group[1][0]))
        return self.gathered(vetted.answers, read.dead_letters, joined.dead_letters, vetted.dead_letters)
