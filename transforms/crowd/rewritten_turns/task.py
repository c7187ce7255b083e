"""The crowd task of rewriting user turns: vet the answers, and draw a good one for each turn and kind."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import msgspec

from parapet.schemas.decisions import csv_bytes
from parapet.schemas.dialogue import DialogueFile
from parapet.schemas.errors import InputError
from parapet.schemas.rows import KINDS, REWRITINGS, Assignment, DeadLetter, Kind, RewrittenTurn
from parapet.transforms.crowd.decided import JoinDecisions, Submission
from parapet.transforms.crowd.hits.page import PageRecord
from parapet.transforms.crowd.hits.rewrite_pages import turn_task_id
from parapet.transforms.crowd.hits.terms import REWRITES
from parapet.transforms.crowd.outputs import DEAD_LETTERS, Group, WithDeadLetters, tagged
from parapet.transforms.crowd.rank import draw
from parapet.transforms.crowd.report import (
    DISPOSITIONS,
    FILES,
    answers_table,
    dead_letters_note,
    method_table,
    reasons_tables,
    review_notes,
    reviewers_text,
    words,
)
from parapet.transforms.crowd.rewritten_turns.rules import (
    EXPLANATIONS,
    RewriteText,
    canonical_text,
    flags,
    repeated_answers,
    unacceptable,
    vet_answer,
    vet_worker,
)
from parapet.transforms.crowd.rewritten_turns.tasks import (
    FIELD_OF,
    REWRITING_TASKS,
    SourceTurn,
    check_same,
    place_of,
    source_turn,
    spans_of,
)
from parapet.transforms.crowd.rules import Verdict
from parapet.transforms.crowd.task import (
    Answer,
    CrowdTask,
    Outcome,
    Results,
    all_end,
    answer_columns,
    apply_decision,
    dispositions,
    judging,
    merge_equal_answers,
    reasons,
    total,
    unknown,
)
from parapet.transforms.perturbation.corpora import dialogues_of
from parapet.transforms.reports.report import Report, Section, Table, Tile
from parapet.transforms.reports.text import counted, number, percent
from parapet.transforms.running.counts import id_of
from parapet.transforms.running.progress import tracked
from parapet.transforms.running.seeding import stable_hash
from parapet.transforms.variants.distance import levenshtein

_COLUMNS = ["turns", "short", "answers", *DISPOSITIONS, "words", "letters changed"]

# 'parapet mturk topup' reads ``service_name``, ``task``, ``field``, ``have`` and ``need``.
SHORTFALL_COLUMNS = (
    "task_id",
    "dialogue_id",
    "turn",
    "kind",
    "service_name",
    "task",
    "field",
    "have",
    "need",
    "in_review",
)

SHOWN = 6  # number of examples for each kind in the report
SHOWN_REASON = 2  # number of examples for each reason


class Example(msgspec.Struct, frozen=True, order=True):
    """An answer that the report may show; those with the lowest ``draw`` are shown."""

    draw: int
    kind: Kind
    disposition: str
    reason: str
    place: str
    original: str
    text: str


def compose_variations_report(numbers: Mapping[str, Any], examples: Iterable[Example]) -> Report:
    """Make the report; ``numbers`` is the content of ``statistics.json``."""
    answers, kinds, complete = numbers["answers"], numbers["kinds"], numbers["complete"]
    sections: list[Section] = [
        answers_table(answers, "in rewritten.jsonl"),
        Table(
            title="By kind",
            note="Only rewritten turns that are used count. Words: in percent of the words of the originals. Letters: "
            "inserted, deleted or replaced, in percent of the letters of the originals.",
            columns=["kind", *_COLUMNS],
            rows=[[kind, *_cells(row)] for kind, row in kinds.items()],
        ),
        *reasons_tables(numbers["reasons"], EXPLANATIONS),
        *example_tables(examples),
    ]
    return Report(
        command="compose_variations",
        title="Composed variations",
        headline=f"{answers['used']:,} rewritten turns from {counted(numbers['turns'], 'user turn')}",
        lead=f"{complete:,} of them {'has' if complete == 1 else 'have'} all four kinds: {', '.join(kinds)}.",
        tiles=[
            Tile("answers", number(answers["total"])),
            Tile("used", number(answers["used"])),
            Tile("held for review", number(answers["review"])),
            Tile("rejected", number(answers["rejected"])),
            Tile("still missing", number(numbers["short"])),
        ],
        notes=list(_notes(numbers)),
        sections=[*sections, *reviewers_text(numbers), method_table(numbers["method"])],
        links={
            "review.html": FILES["review.html"],
            "rewritten.jsonl": "the rewritten turns that are used, for `parapet language_variations --rewritten`",
            **FILES,
        },
    )


def _cells(row: Mapping[str, Any]) -> list[str]:
    counts = [row["turns"], row["short"], row["answers"]["total"], *(row["answers"][name] for name in DISPOSITIONS)]
    return [*map(number, counts), percent(row["words"], 0), percent(row["letters_changed"], 0)]


def _notes(numbers: Mapping[str, Any]) -> Iterable[str]:
    yield from review_notes(numbers)
    if short := numbers["short"]:
        yield f"{counted(short, 'rewritten turn')} still missing, counted by turn and kind: see `shortfall.csv`."
    yield from dead_letters_note(numbers["dead_letters"])


def fewest(examples: Iterable[Example], n: int) -> list[Example]:
    """Return the first ``n`` examples of each kind, disposition and reason, in the drawn order."""
    groups: dict[tuple[str, str, str], list[Example]] = defaultdict(list)
    for example in sorted(examples):
        groups[example.kind, example.disposition, example.reason].append(example)
    return [example for group in groups.values() for example in group[:n]]


def example_tables(examples: Iterable[Example]) -> Iterator[Table]:
    """Yield tables with some used rewritings of each kind, and with some rejected or held answers by reason."""
    tables: dict[tuple[str, ...], list[Example]] = defaultdict(list)
    for example in sorted(fewest(examples, SHOWN)):
        if example.disposition == "used":
            tables["", str(KINDS.index(example.kind)), f"{words(example.kind)}: some rewritten turns"].append(example)
        elif example.disposition in ("rejected", "review"):
            title = f"{words(example.disposition)}, {words(example.reason).lower()}: some answers"
            tables[example.disposition, example.reason, title].append(example)
    for (disposition, _, title), chosen in sorted(tables.items()):
        yield Table(
            title=title,
            columns=["dialogue:turn", "kind", "original", "answer" if disposition else "rewritten"],
            rows=[
                [row.place, row.kind, row.original, row.text] for row in chosen[: SHOWN_REASON if disposition else None]
            ],
            text_columns=4,
            in_card=False,
        )


def statistics(outcomes: Sequence[DialogueOutcome], dead: int, method: Mapping[str, str]) -> dict[str, Any]:
    """Return the content of ``statistics.json``; ``method`` has the options of the run."""
    turns = sum(outcome.turns for outcome in outcomes)
    short: Counter[Kind] = Counter(missing.kind for outcome in outcomes for missing in outcome.short)
    incomplete = sum(len({missing.turn for missing in outcome.short}) for outcome in outcomes)
    return {
        "turns": turns,
        "complete": turns - incomplete,
        "short": short.total(),
        "answers": dispositions(outcomes, KINDS),
        "reasons": reasons(outcomes, KINDS),
        "kinds": {
            kind: {
                "turns": sum(outcome.answers[kind, "used"] for outcome in outcomes),
                "short": short[kind],
                "answers": dispositions(outcomes, [kind]),
                "reasons": reasons(outcomes, [kind]),
                "words": _share(outcome.words.get(kind) for outcome in outcomes),
                "letters_changed": _share(outcome.letters.get(kind) for outcome in outcomes),
            }
            for kind in KINDS
        },
        "dead_letters": dead,
        "sources": total(outcome.sources for outcome in outcomes),
        "decisions": {"accept": 0, "fix": 0, "reject": 0, **total(outcome.decisions for outcome in outcomes)},
        "method": dict(method),
    }


def _share(sums: Iterable[tuple[int, int] | None]) -> float | None:
    """Return the ratio of the second sum to the first over all used answers: 1.4 means 40 % more words."""
    known = [pair for pair in sums if pair]
    before = sum(pair[0] for pair in known)
    return round(sum(pair[1] for pair in known) / before, 4) if before else None


def of_other_sentences(numbers: Mapping[str, Any]) -> bool:
    """Whether most typo answers are so far from their sentences that they belong to another corpus or split."""
    typos = numbers["kinds"]["typos"]
    far = sum(typos["reasons"]["rejected"].get(reason, 0) for reason in ("lost_value", "too_many_typos"))
    return bool(2 * far > typos["answers"]["total"])


def shortfall(outcomes: Iterable[DialogueOutcome]) -> bytes:
    """Return ``shortfall.csv``: a row for each turn and kind without a good answer."""
    rows = [
        [
            turn_task_id(missing.dialogue_id, missing.turn),
            missing.dialogue_id,
            str(missing.turn),
            missing.kind,
            f"{missing.dialogue_id}:{missing.turn}",
            REWRITES,
            FIELD_OF[missing.kind],
            "0",
            "1",
            str(missing.in_review),
        ]
        for outcome in outcomes
        for missing in sorted(outcome.short, key=lambda row: (row.turn, KINDS.index(row.kind)))
    ]
    return csv_bytes(SHORTFALL_COLUMNS, rows)


Repeated = Collection[tuple[str, tuple[str, ...]]]


class Rewriting(Answer, kw_only=True):
    """An answer to a rewriting task; ``to_vet`` is the input of the vetting rules."""

    to_vet: RewriteText

    @property
    def kind(self) -> str:
        """Return the kind of variation."""
        return self.to_vet.kind

    def spelling(self) -> tuple[Any, ...]:
        """Return a sort key that puts well-spelled answers first; answers with intended typos all have the same key."""
        return () if self.kind == "typos" else super().spelling()

    def shown(self) -> tuple[str, str, str, str]:
        """Return the turn, the kind, the previous turn, and the sentence."""
        turn = self.to_vet.turn
        before = turn.before or "(the conversation begins here)"
        return f"{turn.services}/turn/{turn.place}", self.kind, before, turn.utterance

    def row(self) -> dict[str, Any]:
        """Return the answer's row of ``responses.parquet``."""
        turn = self.to_vet.turn
        return {
            **super().row(),
            "dialogue_id": turn.dialogue_id,
            "turn": turn.turn,
            "kind": self.kind,
            "original": turn.utterance,
            "values": list(spans_of(turn.units, self.to_vet.places)),
        }


class Short(msgspec.Struct):
    """A turn without a good answer of a kind; ``in_review`` is the number of held answers."""

    dialogue_id: str
    turn: int
    kind: Kind
    in_review: int


class DialogueOutcome(Outcome, kw_only=True):
    """What became of the answers about a dialogue.

    Attributes:
      turns: the number of turns to be rewritten.
      words: kind to the number of words in the sentences and in the used rewritings; ``letters`` to the number of
        letters and of changed letters.
      examples: one for each kind, disposition and reason.
    """

    turns: int = 0
    rewritten: list[RewrittenTurn] = msgspec.field(default_factory=list)
    words: dict[Kind, tuple[int, int]] = msgspec.field(default_factory=dict)
    letters: dict[Kind, tuple[int, int]] = msgspec.field(default_factory=dict)
    examples: list[Example] = msgspec.field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """Return the number of rewritten turns."""
        return {"rewritten": len(self.rewritten)}


def rewrite_dialogue(
    name: str,
    turns: Iterable[SourceTurn],
    submissions: Sequence[Submission],
    seed: int,
    repeated: Repeated = frozenset(),
) -> tuple[DialogueOutcome, list[Rewriting], list[DeadLetter]]:
    """Vet the answers about a dialogue, and choose one for each turn and kind.

    Args:
      name: the id of the dialogue.
      turns: the turns to be rewritten.
      submissions: the assignments about them, without copies, with the decisions on their answers.
      seed: the seed of the draw.
      repeated: the (worker hash, words) that workers gave for several different sentences.

    Returns:
      The outcome, the answers in the order of ``responses.parquet``, and decisions that cannot be carried out.
    """
    outcome, answers, dead = DialogueOutcome(name=name), list[Rewriting](), list[DeadLetter]()
    places: list[list[Rewriting]] = []
    for turn in sorted(turns, key=lambda turn: turn.turn):
        of_turn = [s for s in submissions if place_of(s.assignment.service_name)[1] == turn.turn]
        for kind in KINDS:
            vetted = []
            for submission in sorted(of_turn, key=lambda s: s.assignment.assignment_id):
                if FIELD_OF[kind] in submission.assignment.answers:
                    answer, void = _vet(turn, kind, submission, repeated)
                    vetted.append(answer)
                    dead += void
            distinct = merge_equal_answers(vetted)
            _choose(turn, kind, distinct, seed, outcome)
            places.append(distinct)
            answers += sorted(vetted, key=lambda answer: answer.response_id)
        outcome.turns += 1
    outcome.note(answers, places)
    for answer in answers:
        if answer.disposition == "used":
            text, sentence = answer.to_vet, answer.to_vet.turn.utterance
            _add(outcome.words, text.kind, len(text.original), len(text.words))
            _add(outcome.letters, text.kind, len(sentence), int(levenshtein(text.text, sentence)))
    outcome.examples = fewest(map(_example, answers), 1)
    return outcome, answers, dead


def _add(sums: dict[Kind, tuple[int, int]], kind: Kind, before: int, after: int) -> None:
    had = sums.get(kind, (0, 0))
    sums[kind] = had[0] + before, had[1] + after


def _example(answer: Rewriting) -> Example:
    text, reason = answer.to_vet, answer.reason.partition(":")[0]
    place, drawn = text.turn.place, stable_hash("example", answer.response_id)
    return Example(drawn, text.kind, answer.disposition, reason, place, text.turn.utterance, text.text or answer.text)


def _vet(
    turn: SourceTurn, kind: Kind, submission: Submission, repeated: Repeated
) -> tuple[Rewriting, list[DeadLetter]]:
    """Vet an answer; its decision is a dead letter if it cannot be carried out."""
    assignment, field = submission.assignment, FIELD_OF[kind]

    def make(text: str) -> Rewriting:
        to_vet = RewriteText(kind, canonical_text(text, turn.utterance), turn)
        typed, columns = assignment.answers[field], answer_columns(assignment, field)
        return Rewriting(**columns, text=typed, canonical=to_vet.text, words=to_vet.words, to_vet=to_vet)

    answer, void = apply_decision(make, submission, field, lambda answer: unacceptable(answer.to_vet))
    if not answer.decision:
        fields = [field for field in FIELD_OF.values() if field in assignment.answers]
        of_worker = vet_worker(assignment, assignment.answers[field], fields)
        answer.verdict = _verdict(answer.to_vet, of_worker, repeated, assignment)
    return answer, void


def _verdict(answer: RewriteText, of_worker: Verdict, repeated: Repeated, assignment: Assignment) -> Verdict:
    """Return the first verdict: rejections before reviews; within these, by assignment, then text, then worker."""
    if of_worker.action == "reject":
        return of_worker
    of_text = vet_answer(answer)
    if of_text.action == "reject" or not of_worker.action:
        if not of_text.action and (assignment.worker_hash, answer.words) in repeated:
            return Verdict("review", "repeated_answer")
        return of_text
    return of_worker


def _choose(turn: SourceTurn, kind: Kind, distinct: Sequence[Rewriting], seed: int, outcome: DialogueOutcome) -> None:
    """Draw one good answer by a seeded hash; if a reviewer accepted some, only these are candidates."""
    good = [answer for answer in distinct if answer.disposition == "surplus"]
    by_text = {answer.canonical: answer for answer in [answer for answer in good if answer.accepted] or good}
    held = [answer for answer in distinct if answer.disposition == "review"]
    for answer in held:
        answer.flags = tuple(flags(answer.to_vet))
    if by_text:
        used = by_text[draw(list(by_text), seed, turn.place, kind)[0]]
        used.disposition, used.reason = "used", ""
        outcome.rewritten.append(RewrittenTurn(turn.dialogue_id, turn.turn, kind, used.canonical, used.response_id))
    else:
        outcome.short.append(Short(turn.dialogue_id, turn.turn, kind, len(held)))


class TurnOfCorpus(msgspec.Struct):
    """A turn that was to be rewritten, or why it cannot have been one.

    Attributes:
      file: the position of its file; if several files have a dialogue of this id, the first counts.
    """

    file: int
    position: int
    turn: SourceTurn | None = None
    why_not: str = ""


class RewritingTask(CrowdTask[DialogueOutcome]):
    """The crowd task of rewriting user turns.

    Args:
      tasks: the pages from folders of ``hits``, by dialogue; may be empty.
      seed: the seed of the draw among good answers.
      split: the split of the dialogues.
      output: the output folder.
    """

    command = "compose_variations"
    kind = REWRITING_TASKS
    audit_schema = REWRITINGS
    explanations = EXPLANATIONS

    def __init__(self, tasks: Mapping[str, Sequence[PageRecord]], seed: int, split: str, output: str) -> None:
        self.tasks, self.seed, self.output = tasks, seed, output
        self.method = {"split": split, "seed": str(seed)}

    def rewrite(
        self, name: str, submissions: Sequence[Submission], turns: Sequence[TurnOfCorpus], repeated: Repeated
    ) -> Iterator[tuple[DialogueOutcome, list[Rewriting]] | DeadLetter]:
        """Vet the answers about a dialogue, and choose those that are used.

        Raises:
          InputError: a turn differs from what workers saw.
          RuntimeError: an answer was lost.
        """
        by_position = first_turns(turns)
        unknown_dialogue = f"unknown_dialogue: the corpus has no dialogue {name!r} in this split"
        for page in self.tasks.get(name, ()):
            turn = by_position.get(page.turn or 0)
            check_same(page, unknown_dialogue if turn is None else turn.turn or turn.why_not)
        known = [turn.turn for turn in by_position.values() if turn.turn is not None]
        with judging(name):
            outcome, answers, dead = rewrite_dialogue(name, known, submissions, self.seed, repeated)
        for submission in submissions:
            turn = by_position.get(place_of(submission.assignment.service_name)[1])
            if turn is None or turn.turn is None:
                dead += unknown([submission], turn.why_not if turn is not None else unknown_dialogue)
        records: list[Rewriting | DeadLetter] = [*dead, *answers]
        yield from (record for record in all_end(submissions, records) if isinstance(record, DeadLetter))
        yield outcome, answers

    def results(self, outcomes: Sequence[DialogueOutcome], dead: Sequence[DeadLetter]) -> Results:
        """Return statistics, report, the rewritten turns, and the shortfall."""
        numbers = statistics(outcomes, len(dead), self.method)
        examples = [example for outcome in outcomes for example in outcome.examples]
        report = compose_variations_report(numbers, examples)
        lines = b"".join(msgspec.json.encode(turn) + b"\n" for outcome in outcomes for turn in outcome.rewritten)
        return Results(numbers, report, {"rewritten.jsonl": lines, "shortfall.csv": shortfall(outcomes)})


def first_turns(turns: Iterable[TurnOfCorpus]) -> dict[int, TurnOfCorpus]:
    """Return the turns of a dialogue by position, of the first file that has the dialogue."""
    by_position: dict[int, TurnOfCorpus] = {}
    for turn in sorted(turns, key=lambda turn: -turn.file):
        by_position[turn.position] = turn
    return by_position


def read_turns(
    place: tuple[int, DialogueFile], positions: Mapping[str, Iterable[int]]
) -> Iterator[tuple[str, TurnOfCorpus] | DeadLetter]:
    """Read some turns of the dialogues in a file.

    Args:
      place: the position of the file in the corpus, and the file.
      positions: the ids of dialogues to the positions of their turns.
    """
    n, file = place
    seen: set[str] = set()
    try:
        for position, raw, dialogue in tracked(dialogues_of(file), "dialogues"):
            name = id_of(raw, position)
            if name not in positions or name in seen:
                continue
            seen.add(name)
            for at in sorted(set(positions[name])):
                if isinstance(dialogue, InputError):
                    place_of_error = f"{name} of {file.relative}: {dialogue.where}"
                    turn: SourceTurn | str = f"bad_dialogue: {place_of_error}: {dialogue.reason}"
                else:
                    turn = source_turn(dialogue, at)
                of_corpus = TurnOfCorpus(n, at, None, turn) if isinstance(turn, str) else TurnOfCorpus(n, at, turn)
                yield name, of_corpus
    except InputError as error:
        yield DeadLetter("dialogues", file.relative, f"broken_file: {error}", "", file.relative)


class Rewritten(NamedTuple):
    """The outputs of :class:`RewriteTurns`."""

    outcomes: beam.PCollection[tuple[DialogueOutcome, list[Rewriting]]]
    dead_letters: beam.PCollection[DeadLetter]


class RewriteTurns(WithDeadLetters):
    """Vets the answers about each dialogue, and chooses one for each turn and kind.

    The input is a PCollection of assignments without copies. The result is a PCollection of (outcome, answers) of each
    dialogue.

    Args:
      task: the task.
      files: the dialogue files.
      decisions: the sheets of reviewers.
    """

    main = "outcomes"

    def __init__(self, task: RewritingTask, files: Sequence[DialogueFile], decisions: Sequence[str]) -> None:
        super().__init__()
        self.task, self.files, self.join = task, list(enumerate(files)), JoinDecisions(decisions)

    def outputs(self, assignments: beam.PCollection) -> Rewritten:
        """Return ``outcomes`` and ``dead_letters``."""
        task, pipeline = self.task, assignments.pipeline
        joined = assignments | "Decisions" >> self.join.with_outputs()
        pages = [(name, page.turn or 0) for name, of_name in task.tasks.items() for page in of_name]
        asked = pipeline | "Pages" >> beam.Create(pages, reshuffle=False)
        answered = assignments | "Answered" >> beam.Map(lambda assignment: place_of(assignment.service_name))
        places = beam.pvalue.AsList((asked, answered) | "Places" >> beam.Flatten())
        files = pipeline | "Dialogue files" >> beam.Create(self.files)
        turns = files | "Turns" >> beam.FlatMap(_read_turns, places).with_outputs(DEAD_LETTERS, main="turns")
        groups = (joined.submissions, turns.turns, asked) | "Dialogues" >> Group(
            Submission, TurnOfCorpus, int, by=[_by_dialogue, None, None]
        )
        texts = groups | "Texts" >> beam.FlatMap(_texts) | "Workers" >> Group(tuple)
        repeated = beam.pvalue.AsList(texts | "Repeated" >> beam.FlatMap(lambda group: repeated_answers(group[1][0])))
        step = beam.FlatMap(_rewrite, task, repeated).with_outputs(DEAD_LETTERS, main=self.main)
        rewritten = groups | "Rewrite" >> step
        dead = [outputs.dead_letters for outputs in (joined, turns, rewritten)] | "All dead letters" >> beam.Flatten()
        return Rewritten(rewritten.outcomes, dead)


def _by_dialogue(submission: Submission) -> tuple[str, Submission]:
    return place_of(submission.assignment.service_name)[0], submission


def _read_turns(place: tuple[int, DialogueFile], places: Iterable[tuple[str, int]]) -> Iterator[Any]:
    positions: dict[str, list[int]] = defaultdict(list)
    for name, position in places:
        positions[name].append(position)
    return tagged(read_turns(place, positions))


Dialogues = tuple[str, tuple[list[Submission], list[TurnOfCorpus], list[int]]]


def _texts(group: Dialogues) -> Iterator[tuple[str, tuple[str, str, str]]]:
    """Yield the texts of each worker, with the sentences that they rewrite."""
    _, (submissions, turns, _) = group
    by_position = first_turns(turns)
    for submission in submissions:
        assignment = submission.assignment
        turn = by_position.get(place_of(assignment.service_name)[1])
        if turn is not None and turn.turn is not None and assignment.worker_hash:
            for text in assignment.answers.values():
                yield assignment.worker_hash, (assignment.worker_hash, text, turn.turn.utterance)


def _rewrite(group: Dialogues, task: RewritingTask, repeated: Sequence[tuple[str, tuple[str, ...]]]) -> Iterator[Any]:
    name, (submissions, turns, _) = group
    return tagged(task.rewrite(name, submissions, turns, frozenset(repeated)))
