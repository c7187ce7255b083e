"""The crowd task of rewriting user turns: vet the answers, and draw a good one for each turn and kind."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import msgspec
from apache_beam.pvalue import AsList, TaggedOutput

from parapet.schemas.decisions import csv_bytes
from parapet.schemas.dialogue import DialogueFile
from parapet.schemas.errors import InputError
from parapet.schemas.rows import DISPOSITIONS, IN_WORDS, KINDS, REWRITINGS, DeadLetter, Kind, RewrittenTurn
from parapet.transforms.core.counts import id_of
from parapet.transforms.core.progress import tracked
from parapet.transforms.crowd import report
from parapet.transforms.crowd import rewrite_rules as rules
from parapet.transforms.crowd import task as crowd
from parapet.transforms.crowd.compose import draw
from parapet.transforms.crowd.hits.dialogue_pages import turn_task_id
from parapet.transforms.crowd.hits.page import PageRecord
from parapet.transforms.crowd.hits.terms import REWRITES
from parapet.transforms.crowd.ingest import DEAD_LETTERS, Group, JoinDecisions, Submission, WithDeadLetters, tagged
from parapet.transforms.crowd.rewrite_rules import FIELD_OF, SourceTurn
from parapet.transforms.perturb.corpora import dialogues_of
from parapet.transforms.report.numbers import Metric, Numbers, metrics_named, sections_of
from parapet.transforms.report.report import Report, Table
from parapet.transforms.report.text import counted, number
from parapet.transforms.variants.distance import levenshtein

SHOWN = 6  # number of examples of each kind in the report
SHOWN_REASON = 2  # number of examples of each reason

# The columns of ``shortfall.csv``, which ``mturk topup`` and ``hits`` read: turns without a good answer of a kind.
SHORTFALL = ("task_id", "dialogue_id", "turn", "kind", "service_name", "task", "field", "have", "need", "in_review")

# The (worker hash, words) of answers that a worker gave for several different sentences.
Repeated = Collection[tuple[str, tuple[str, ...]]]


class TurnAnswer(crowd.Answer, kw_only=True):
    """An answer to a rewriting task; ``to_vet`` is the input of the vetting rules."""

    to_vet: rules.RewriteText

    @property
    def kind(self) -> str:
        """Returns the kind of variation."""
        return self.to_vet.kind

    def spelling(self) -> tuple[Any, ...]:
        """Returns a sort key that puts well-spelled answers first; it is the same for all with intended typos."""
        return () if self.kind == "typos" else super().spelling()

    def shown(self) -> tuple[str, str, str, str]:
        """Returns the turn, the kind, the previous turn, and the sentence."""
        turn = self.to_vet.turn
        before = turn.before or "(the conversation begins here)"
        return f"{turn.services}/turn/{turn.place}", self.kind, before, turn.utterance

    def row(self) -> dict[str, Any]:
        """Returns the answer's row of ``responses.parquet``."""
        turn = self.to_vet.turn
        of_turn = {"dialogue_id": turn.dialogue_id, "turn": turn.turn, "kind": self.kind, "original": turn.utterance}
        return {**super().row(), **of_turn, "values": list(rules.value_rows(turn.units, self.to_vet.places))}


class TurnOutcome(crowd.Outcome, kw_only=True):
    """What became of the answers about a turn.

    Attributes:
      rewritten: the answers that are used.
      sizes: for these, by kind, the numbers of words before and after, of letters, and of changed letters.
      examples: (disposition, kind or reason) to an example for the report.
    """

    rewritten: list[RewrittenTurn] = msgspec.field(default_factory=list)
    sizes: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)
    examples: dict[tuple[str, str], list[str]] = msgspec.field(default_factory=dict)

    def counts(self) -> dict[str, int]:
        """Returns the number of rewritten turns."""
        return {"rewritten": len(self.rewritten)}


def rewrite_turn(
    turn: SourceTurn, submissions: Iterable[Submission], seed: int, repeated: Repeated = frozenset()
) -> tuple[TurnOutcome, list[TurnAnswer], list[DeadLetter]]:
    """Vets the answers about a turn, and chooses one for each kind.

    Args:
      turn: the turn to be rewritten.
      submissions: the assignments about it, without copies, with the decisions on their answers.
      seed: the seed of the draw.
      repeated: the answers that workers gave for several different sentences.

    Returns:
      The outcome, the answers in the order of ``responses.parquet``, and decisions that cannot be carried out.
    """
    # Outcomes are sorted by name: turn 2 before turn 10, and all turns of "1" before those of "1_1".
    outcome = TurnOutcome(name=f"{turn.dialogue_id}\0{turn.turn:09}")
    answers, places, dead = list[TurnAnswer](), list[list[TurnAnswer]](), list[DeadLetter]()
    submissions = sorted(submissions, key=lambda submission: submission.assignment.assignment_id)
    for kind in KINDS:
        of_kind = [submission for submission in submissions if FIELD_OF[kind] in submission.assignment.answers]
        vetted = [_vet(turn, kind, submission, repeated, dead) for submission in of_kind]
        distinct = crowd.merge_equal_answers(vetted)
        _choose(turn, kind, distinct, seed, outcome)
        places.append(distinct)
        answers += sorted(vetted, key=lambda answer: answer.response_id)
    outcome.note(answers, places)
    for answer in answers:
        group = answer.reason.partition(":")[0] or answer.kind
        example = [turn.place, answer.kind, turn.utterance, answer.canonical or answer.text]
        outcome.examples.setdefault((answer.disposition, group), example)
    return outcome, answers, dead


def _vet(
    turn: SourceTurn, kind: Kind, submission: Submission, repeated: Repeated, dead: list[DeadLetter]
) -> TurnAnswer:
    """Vets an answer; its decision is appended to ``dead`` if it cannot be carried out."""
    assignment, field = submission.assignment, FIELD_OF[kind]
    typed, columns = assignment.answers[field], crowd.answer_columns(assignment, field)

    def make(text: str) -> TurnAnswer:
        to_vet = rules.RewriteText(kind, rules.canonical_text(text, turn.utterance), turn)
        return TurnAnswer(**columns, text=typed, canonical=to_vet.text, words=to_vet.words, to_vet=to_vet)

    answer, void = crowd.apply_decision(make, submission, field, lambda answer: rules.unacceptable(answer.to_vet))
    dead += void
    if not answer.decision:
        answer.verdict = rules.vet(answer.to_vet, assignment, typed, (assignment.worker_hash, answer.words) in repeated)
    return answer


def _choose(turn: SourceTurn, kind: Kind, distinct: Sequence[TurnAnswer], seed: int, outcome: TurnOutcome) -> None:
    """Draws one good answer by a seeded hash; if a reviewer accepted some, only these are candidates."""
    good = [answer for answer in distinct if answer.disposition == "surplus"]
    by_text = {answer.canonical: answer for answer in [answer for answer in good if answer.accepted] or good}
    held = [answer for answer in distinct if answer.disposition == "review"]
    for answer in held:
        answer.flags = tuple(rules.flags(answer.to_vet))
    dialogue_id, n = turn.dialogue_id, turn.turn
    if not by_text:
        ids = (turn_task_id(dialogue_id, n), dialogue_id, n, kind, turn.place, REWRITES, FIELD_OF[kind])
        outcome.short.append(dict(zip(SHORTFALL, (*ids, 0, 1, len(held)), strict=True)))
        return
    used = by_text[draw(list(by_text), seed, turn.place, kind)[0]]
    used.disposition, used.reason = "used", ""
    outcome.rewritten.append(RewrittenTurn(dialogue_id, n, kind, used.canonical, used.response_id))
    outcome.sizes[kind, "words"] += len(used.to_vet.original)
    outcome.sizes[kind, "new words"] += len(used.words)
    outcome.sizes[kind, "letters"] += len(turn.utterance)
    outcome.sizes[kind, "changed letters"] += int(levenshtein(used.canonical, turn.utterance))


class RewritingTask(crowd.CrowdTask[TurnOutcome]):
    """The crowd task of rewriting user turns.

    Args:
      files: the dialogue files.
      pages: the tasks of ``hits``; may be empty.
      split: the split of the dialogues.
      seed: the seed of the draw among good answers.
      output: the output folder.
    """

    command = "compose_variations"
    kind = rules.REWRITING_TASKS
    audit_schema = REWRITINGS
    explanations = rules.EXPLANATIONS

    def __init__(
        self, files: Sequence[DialogueFile], pages: Sequence[PageRecord], split: str, seed: int, output: str
    ) -> None:
        self.files, self.pages, self.seed, self.output = files, pages, seed, output
        self.method = {"split": split, "seed": str(seed)}

    def results(self, outcomes: Sequence[TurnOutcome], dead: Sequence[DeadLetter]) -> crowd.Results:
        """Returns statistics, report, the rewritten turns, and the shortfall."""
        numbers = statistics(outcomes, len(dead), self.method)
        lines = b"".join(msgspec.json.encode(turn) + b"\n" for outcome in outcomes for turn in outcome.rewritten)
        short = (row.values() for outcome in outcomes for row in outcome.short)
        shortfall = csv_bytes(SHORTFALL, (map(str, row) for row in short))
        page = compose_variations_report(numbers, outcomes)
        return crowd.Results(numbers, page, {"rewritten.jsonl": lines, "shortfall.csv": shortfall})


def statistics(outcomes: Sequence[TurnOutcome], dead: int, method: Mapping[str, str]) -> dict[str, Any]:
    """Returns the content of ``statistics.json``.

    Args:
      outcomes: one for each turn.
      dead: the number of dead letters.
      method: the options of the run.
    """
    short: Counter[Kind] = Counter(row["kind"] for outcome in outcomes for row in outcome.short)
    sizes = sum((outcome.sizes for outcome in outcomes), Counter[tuple[str, str]]())

    def ratio(kind: Kind, after: str, before: str) -> float | None:
        return round(sizes[kind, after] / sizes[kind, before], 4) if sizes[kind, before] else None

    return {
        "turns": len(outcomes),
        "complete": sum(not outcome.short for outcome in outcomes),
        "short": short.total(),
        "answers": crowd.dispositions(outcomes, KINDS),
        "reasons": crowd.reasons(outcomes, KINDS),
        "kinds": {
            kind: {
                "turns": sum(outcome.answers[kind, "used"] for outcome in outcomes),
                "short": short[kind],
                "answers": crowd.dispositions(outcomes, [kind]),
                "reasons": crowd.reasons(outcomes, [kind]),
                "words": ratio(kind, "new words", "words"),
                "letters_changed": ratio(kind, "changed letters", "letters"),
            }
            for kind in KINDS
        },
        "dead_letters": dead,
        "sources": crowd.total(outcome.sources for outcome in outcomes),
        "decisions": {"accept": 0, "fix": 0, "reject": 0, **crowd.total(outcome.decisions for outcome in outcomes)},
        "method": dict(method),
    }


def compose_variations_report(numbers: Mapping[str, Any], outcomes: Iterable[TurnOutcome]) -> Report:
    """Makes the report.

    Args:
      numbers: the content of ``statistics.json``.
      outcomes: one for each turn.
    """
    kinds, complete, short = numbers["kinds"], numbers["complete"], numbers["short"]
    by_kind = Numbers(
        "By kind",
        "kinds/*",
        ("kind",),
        (
            *metrics_named("turns", "short"),
            Metric("answers.total", "answers"),
            *(Metric(f"answers.{disposition}", IN_WORDS[disposition]) for disposition in DISPOSITIONS),
            *(metric._replace(percent=True) for metric in metrics_named("words", "letters_changed", digits=0)),
        ),
        note="Only rewritten turns that are used count. Words: in percent of the words of the originals. Letters: "
        "inserted, deleted or replaced, in percent of the letters of the originals.",
    )
    tables = [*sections_of(numbers, by_kind), *_example_tables(outcomes)]
    notes = [f"{counted(short, 'rewritten turn')} still missing, counted by turn and kind: see `shortfall.csv`."]
    return Report(
        command="compose_variations",
        title="Composed variations",
        headline=f"{numbers['answers']['used']:,} rewritten turns from {counted(numbers['turns'], 'user turn')}",
        lead=f"{counted(complete, 'turn')} {'has' if complete == 1 else 'have'} all four kinds: {', '.join(kinds)}.",
        tiles=report.tiles(numbers, {"still missing": number(short)}),
        notes=report.notes(numbers, notes if short else []),
        sections=[
            report.answers_chart(numbers["answers"]),
            *report.sections(numbers, rules.EXPLANATIONS, tables, "in rewritten.jsonl"),
        ],
        links={
            "rewritten.jsonl": "the rewritten turns that are used, for `parapet language_variations --rewritten`",
            **report.FILES,
        },
    )


def _example_tables(outcomes: Iterable[TurnOutcome]) -> Iterator[Table]:
    """Yields a table of used answers of each kind, and one of rejected and held answers by reason."""
    examples: dict[tuple[str, str], list[list[str]]] = defaultdict(list)
    for outcome in outcomes:
        for group, example in outcome.examples.items():
            examples[group].append(example)
    used = [example for kind in KINDS for example in examples["used", kind][:SHOWN]]
    unused = [
        [report.words(reason), *example]
        for disposition, reason in sorted(examples)
        if disposition in ("rejected", "review")
        for example in examples[disposition, reason][:SHOWN_REASON]
    ]
    columns = ["reason", "dialogue:turn", "kind", "original", "answer"]
    tables = {"Some rewritten turns": used, "Some answers that were rejected or held for review": unused}
    for title, rows in tables.items():
        n = len(rows[0]) if rows else 0
        yield Table(title=title, columns=columns[-n:], rows=rows, text_columns=n, in_card=False)


class TurnOfCorpus(msgspec.Struct):
    """A turn that was to be rewritten, or why it cannot have been one.

    Attributes:
      dialogue: the file and the dialogue in it; if several dialogues have the same id, the first counts.
    """

    dialogue: tuple[int, int]
    turn: SourceTurn | str


def read_turns(file: tuple[int, DialogueFile], places: Iterable[str]) -> Iterator[tuple[str, Any] | TaggedOutput]:
    """Reads turns of the dialogues in a file, as (place, :class:`TurnOfCorpus`).

    Args:
      file: the position of the file in the corpus, and the file.
      places: ``DIALOGUE_ID:TURN`` of the turns.
    """
    positions: dict[str, set[int]] = defaultdict(set)
    for name, _, number_of_turn in (place.rpartition(":") for place in places):
        positions[name].add(int(number_of_turn))
    n, dialogue_file = file
    try:
        for i, raw, dialogue in tracked(dialogues_of(dialogue_file), "dialogues"):
            name = id_of(raw, i)
            for position in positions.get(name, ()):
                if isinstance(dialogue, InputError):
                    where = f"{name} of {dialogue_file.relative}: {dialogue.where}"
                    turn: SourceTurn | str = f"bad_dialogue: {where}: {dialogue.reason}"
                else:
                    turn = rules.source_turn(dialogue, position)
                yield f"{name}:{position}", TurnOfCorpus((n, i), turn)
    except InputError as error:
        dead = DeadLetter("dialogues", dialogue_file.relative, f"broken_file: {error}", "", dialogue_file.relative)
        yield TaggedOutput(DEAD_LETTERS, dead)


class RewriteTurns(WithDeadLetters):
    """Vets the answers about each turn, and chooses one for each kind.

    The input is a PCollection of assignments without copies. The result is a PCollection of (outcome, answers) of each
    turn.

    Args:
      task: the task.
      decisions: the sheets of reviewers.
    """

    main = "outcomes"

    def __init__(self, task: RewritingTask, decisions: Sequence[str]) -> None:
        super().__init__()
        self.files, self.seed, self.join = list(enumerate(task.files)), task.seed, JoinDecisions(decisions)
        self.pages = [(f"{page.dialogue_id}:{page.turn}", page) for page in task.pages]

    def outputs(self, assignments: beam.PCollection) -> Any:
        """Returns ``outcomes`` and ``dead_letters``."""
        pipeline = assignments.pipeline
        pages = pipeline | "Pages" >> beam.Create(self.pages, reshuffle=False)
        answered = assignments | "Answered" >> beam.Map(lambda assignment: assignment.service_name)
        places = AsList((pages | beam.Keys(), answered) | "Places" >> beam.Flatten())
        files = pipeline | "Dialogue files" >> beam.Create(self.files)
        corpus = files | "Corpus" >> beam.FlatMap(read_turns, places).with_outputs(DEAD_LETTERS, main="turns")
        joined = assignments | "Decisions" >> self.join.with_outputs()
        submissions = joined.submissions | "By turn" >> beam.Map(lambda each: (each.assignment.service_name, each))
        turns = (submissions, corpus.turns, pages) | "Turns" >> Group(Submission, TurnOfCorpus, PageRecord)
        texts = turns | "Texts" >> beam.FlatMap(_texts) | "Workers" >> Group(tuple)
        repeated = AsList(texts | "Repeated" >> beam.FlatMap(lambda group: rules.repeated_answers(group[1][0])))
        step = beam.FlatMap(_rewrite, self.seed, repeated).with_outputs(DEAD_LETTERS, main=self.main)
        rewritten = turns | "Rewrite" >> step
        return self.gathered(rewritten.outcomes, corpus.dead_letters, joined.dead_letters, rewritten.dead_letters)


TurnGroup = tuple[str, tuple[list[Submission], list[TurnOfCorpus], list[PageRecord]]]


def _turn(place: str, turns: Sequence[TurnOfCorpus]) -> SourceTurn | str:
    if not turns:
        return f"unknown_dialogue: the corpus has no dialogue {place.rpartition(':')[0]!r} in this split"
    return min(turns, key=lambda turn: turn.dialogue).turn


def _texts(group: TurnGroup) -> Iterator[tuple[str, tuple[str, str, str]]]:
    """Yields the texts of each worker, with the sentence that they rewrite."""
    place, (submissions, turns, _) = group
    turn = _turn(place, turns)
    for submission in submissions:
        worker = submission.assignment.worker_hash
        if isinstance(turn, SourceTurn) and worker:
            for text in submission.assignment.answers.values():
                yield worker, (worker, text, turn.utterance)


def _rewrite(
    group: TurnGroup, seed: int, repeated: Iterable[tuple[str, tuple[str, ...]]]
) -> Iterator[tuple[TurnOutcome, list[TurnAnswer]] | TaggedOutput]:
    """Checks that a turn is the one that workers saw, and vets and chooses the answers about it.

    Raises:
      InputError: the turn differs from what workers saw.
      RuntimeError: an answer was lost.
    """
    place, (submissions, turns, pages) = group
    turn = _turn(place, turns)
    for page in pages:
        rules.check_same(page, turn)
    if isinstance(turn, str):
        yield from tagged(crowd.unknown(submissions, turn))
        return
    with crowd.judging(place):
        outcome, answers, dead = rewrite_turn(turn, submissions, seed, frozenset(repeated))
    records: list[TurnAnswer | DeadLetter] = [*answers, *dead]
    yield from tagged(record for record in crowd.all_end(submissions, records) if isinstance(record, DeadLetter))
    yield outcome, answers
