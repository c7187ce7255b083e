"""Settle rewriting tasks: join answers with dialogues, and draw one good rewriting for each turn and kind."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from parapet.schemas.decisions import csv_bytes
from parapet.schemas.dialogue import Dialogue, DialogueFile
from parapet.schemas.errors import InputError
from parapet.schemas.rows import KINDS, REWRITINGS, Assignment, DeadLetter, Kind, RewrittenTurn
from parapet.schemas.service import response_id
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
from parapet.transforms.crowd.dedupe import Decisions
from parapet.transforms.crowd.hits.page import PageRecord
from parapet.transforms.crowd.hits.rewrite_pages import turn_task_id
from parapet.transforms.crowd.hits.terms import REWRITES
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
    Repeats,
    RewriteText,
    canonical_text,
    flags,
    unacceptable,
    vet_answer,
    vet_worker,
)
from parapet.transforms.crowd.rewritten_turns.tasks import (
    FIELD_OF,
    KIND_OF,
    SourceTurn,
    check_same,
    place_of,
    source_turn,
    spans_of,
)
from parapet.transforms.crowd.rules import Verdict
from parapet.transforms.perturbation.corpora import dialogues_of
from parapet.transforms.reports.report import Report, Section, Table, Tile
from parapet.transforms.reports.text import counted, number, percent
from parapet.transforms.running.counts import id_of
from parapet.transforms.running.progress import expect_dialogues, tracked
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


def statistics(composed: Composed[DialogueOutcome], method: Mapping[str, str]) -> dict[str, Any]:
    """Return the content of ``statistics.json``; ``method`` has the options of the run."""
    outcomes = composed.outcomes
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
        "dead_letters": len(composed.dead),
        "sources": composed.sources(),
        "decisions": composed.decisions(),
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


Turns = dict[int, SourceTurn | str]  # position to the turn, or the reason why it cannot have been a task


class Rewriting(Entry, kw_only=True):
    """An answer to a rewriting task; ``answer`` is the input of the vetting rules."""

    answer: RewriteText

    def spelling(self) -> tuple[Any, ...]:
        """Return a sort key that puts well-spelled answers first; answers with intended typos all have the same key."""
        return () if self.answer.kind == "typos" else super().spelling()

    def shown(self) -> tuple[str, str, str, str]:
        """Return the turn, the kind, the previous turn, and the sentence."""
        turn = self.answer.turn
        before = turn.before or "(the conversation begins here)"
        return f"{turn.services}/turn/{turn.place}", self.answer.kind, before, turn.utterance

    def row(self) -> dict[str, Any]:
        """Return the answer's row of ``responses.parquet``."""
        turn = self.answer.turn
        return {
            **super().row(),
            "dialogue_id": turn.dialogue_id,
            "turn": turn.turn,
            "kind": self.answer.kind,
            "original": turn.utterance,
            "values": list(spans_of(turn.units, self.answer.places)),
        }


class Short(msgspec.Struct):
    """A turn without a good answer of a kind; ``in_review`` is the number of held answers."""

    dialogue_id: str
    turn: int
    kind: Kind
    in_review: int


class DialogueOutcome(Outcome, kw_only=True):
    """The outcome of one dialogue's answers.

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


def settle_turns(
    turns: Iterable[SourceTurn],
    assignments: Mapping[int, Sequence[Assignment]],
    decisions: Decisions,
    seed: int,
    repeats: Callable[[str, RewriteText], bool],
    name: str = "",
) -> DialogueOutcome:
    """Settle the turns of one dialogue.

    Args:
      turns: the turns to be rewritten.
      assignments: turn to its assignments, without duplicates.
      decisions: the decisions on their answers.
      seed: the seed of the draw.
      repeats: tells whether a worker gave an answer for several different sentences.
      name: the id of the dialogue.
    """
    outcome = DialogueOutcome(name=name)
    entries: list[Rewriting] = []
    for turn in sorted(turns, key=lambda turn: turn.turn):
        of_turn = sorted(assignments.get(turn.turn, ()), key=lambda a: a.assignment_id)
        answers = list(_read_answers(turn, of_turn, decisions, repeats, outcome.dead))
        for kind in KINDS:
            _settle_kind(turn, kind, [entry for entry in answers if entry.answer.kind == kind], seed, outcome)
        entries += sorted(answers, key=lambda entry: (KINDS.index(entry.answer.kind), entry.response_id))
        outcome.turns += 1
    note_answers(outcome, entries)
    for entry in entries:
        if entry.disposition == "used":
            answer, sentence = entry.answer, entry.answer.turn.utterance
            _add(outcome.words, answer.kind, len(answer.original), len(answer.words))
            _add(outcome.letters, answer.kind, len(sentence), int(levenshtein(answer.text, sentence)))
    outcome.examples = fewest(map(_example, entries), 1)
    return outcome


def _add(sums: dict[Kind, tuple[int, int]], kind: Kind, before: int, after: int) -> None:
    had = sums.get(kind, (0, 0))
    sums[kind] = had[0] + before, had[1] + after


def _example(entry: Rewriting) -> Example:
    answer, reason = entry.answer, entry.reason.partition(":")[0]
    place, drawn = answer.turn.place, stable_hash("example", entry.response_id)
    text = answer.text or entry.text
    return Example(drawn, answer.kind, entry.disposition, reason, place, answer.turn.utterance, text)


def _read_answers(
    turn: SourceTurn,
    assignments: Sequence[Assignment],
    decisions: Decisions,
    repeats: Callable[[str, RewriteText], bool],
    dead: list[DeadLetter],
) -> Iterator[Rewriting]:
    """Yield every vetted answer for a turn; add dead letters for decisions that cannot be carried out."""
    for assignment in assignments:
        fields = [field for field in FIELD_OF.values() if field in assignment.answers]
        for field in fields:
            decision = decisions.get(assignment.assignment_id, {}).get(field)
            text = assignment.answers[field]
            entry, void = decided(partial(_entry, turn, assignment, field), text, decision, _problem)
            dead += void
            if entry.decision is None:
                entry.verdict = _verdict(entry.answer, vet_worker(assignment, text, fields), repeats, assignment)
            yield entry


def _problem(entry: Rewriting) -> str:
    return unacceptable(entry.answer)


def _entry(turn: SourceTurn, assignment: Assignment, field: str, text_to_use: str) -> Rewriting:
    answer = RewriteText(KIND_OF[field], canonical_text(text_to_use, turn.utterance), turn)
    return Rewriting(
        response_id=response_id(assignment.assignment_id, field),
        text=assignment.answers[field],
        canonical=answer.text,
        words=answer.words,
        assignment=assignment,
        answer=answer,
    )


def _verdict(
    answer: RewriteText, of_worker: Verdict, repeats: Callable[[str, RewriteText], bool], assignment: Assignment
) -> Verdict:
    """Return the first verdict: rejections before reviews; within these, by assignment, then text, then worker."""
    if of_worker.action == "reject":
        return of_worker
    of_text = vet_answer(answer)
    if of_text.action == "reject" or not of_worker.action:
        if not of_text.action and repeats(assignment.worker_hash, answer):
            return Verdict("review", "repeated_answer")
        return of_text
    return of_worker


def _settle_kind(
    turn: SourceTurn, kind: Kind, entries: Sequence[Rewriting], seed: int, outcome: DialogueOutcome
) -> None:
    clusters = settle_same((" ".join(entry.words), entry) for entry in entries)
    good = good_answers(clusters)
    # One good answer is drawn by a seeded hash; if a reviewer accepted some, only these are candidates.
    by_text = {entry.canonical: entry for entry in [entry for entry in good if entry.accepted] or good}
    if by_text:
        used = by_text[draw(list(by_text), seed, turn.place, kind)[0]]
        used.disposition, used.reason = "used", ""
        outcome.rewritten.append(RewrittenTurn(turn.dialogue_id, turn.turn, kind, used.canonical, used.response_id))
    else:
        held = sum(same[0].disposition == "review" for same in clusters)
        outcome.short.append(Short(turn.dialogue_id, turn.turn, kind, held))
    outcome.reviews += review_items([clusters], lambda entry: flags(entry.answer))


class RewritingTask(CrowdTask[DialogueOutcome]):
    """The crowd task of rewriting user turns.

    Args:
      files: the dialogue files.
      tasks: the pages from folders of ``hits``, by dialogue; may be empty.
      seed: the seed of the draw among good answers.
      split: the split of the dialogues.
      output: the output folder.
    """

    pipeline = "compose_variations"
    audit_schema = REWRITINGS
    explanations = EXPLANATIONS

    def __init__(
        self,
        files: Sequence[DialogueFile],
        tasks: Mapping[str, Sequence[PageRecord]],
        seed: int,
        split: str,
        output: str,
    ) -> None:
        self.files, self.tasks, self.seed, self.output = list(files), tasks, seed, output
        self.method = {"split": split, "seed": str(seed)}
        self._dead: list[DeadLetter] = []

    def settle(self, assignments: Sequence[Assignment], decisions: Decisions) -> Iterator[DialogueOutcome]:
        """Settle every dialogue with tasks or answers. Raises InputError if a turn differs from what workers saw."""
        by_dialogue: dict[str, dict[int, list[Assignment]]] = {name: {} for name in self.tasks}
        for assignment in assignments:
            name, turn = place_of(assignment.service_name)
            by_dialogue.setdefault(name, {}).setdefault(turn, []).append(assignment)
        positions = {
            name: {*by_turn, *(task.turn or 0 for task in self.tasks.get(name, ()))}
            for name, by_turn in by_dialogue.items()
        }
        sources = self._read(positions)
        for name, tasks in self.tasks.items():
            for task in tasks:
                check_same(task, sources[name][task.turn or 0])
        repeats = Repeats(
            (assignment.worker_hash, text, source.utterance)
            for name, by_turn in by_dialogue.items()
            for position, of_turn in by_turn.items()
            if isinstance(source := sources[name][position], SourceTurn)
            for assignment in of_turn
            for text in assignment.answers.values()
        )
        for name in sorted(by_dialogue):
            turns = sources[name]
            good = {position: turn for position, turn in turns.items() if isinstance(turn, SourceTurn)}
            with settling(name):
                outcome = settle_turns(good.values(), by_dialogue[name], decisions, self.seed, repeats, name)
            for position, of_turn in by_dialogue[name].items():
                if isinstance(why := turns[position], str):
                    unknown(outcome, why, of_turn, decisions)
            yield outcome

    def _read(self, positions: Mapping[str, Iterable[int]]) -> dict[str, Turns]:
        """Read some turns of some dialogues."""
        expect_dialogues(self.files)
        turns: dict[str, Turns] = {}
        for file in self.files:
            try:
                for position, raw, dialogue in tracked(dialogues_of(file), "dialogues"):
                    name = id_of(raw, position)
                    if name in positions and name not in turns:
                        source = _source(dialogue, f"{name} of {file.relative}")
                        turns[name] = {
                            at: source if isinstance(source, str) else source_turn(source, at) for at in positions[name]
                        }
            except InputError as error:
                self._dead.append(DeadLetter("dialogues", file.relative, f"broken_file: {error}", "", file.relative))
        for name in positions.keys() - turns.keys():
            why = f"unknown_dialogue: the corpus has no dialogue {name!r} in this split"
            turns[name] = dict.fromkeys(positions[name], why)
        return turns

    def dead(self) -> list[DeadLetter]:
        """Return the dead letters of files that could not be read."""
        return self._dead

    def results(self, composed: Composed[DialogueOutcome]) -> Results:
        """Return statistics, report, the rewritten turns, and the shortfall."""
        outcomes = composed.outcomes
        numbers = statistics(composed, self.method)
        examples = [example for outcome in outcomes for example in outcome.examples]
        report = compose_variations_report(numbers, examples)
        rewritten = [turn for outcome in outcomes for turn in outcome.rewritten]
        lines = b"".join(msgspec.json.encode(turn) + b"\n" for turn in rewritten)
        files = {"rewritten.jsonl": lines, "shortfall.csv": shortfall(outcomes)}
        return Results(numbers, report, files, {"rewritten": len(rewritten)})


def _source(dialogue: Dialogue | InputError, place: str) -> Dialogue | str:
    """Return a dialogue, or why it cannot be used."""
    if isinstance(dialogue, InputError):
        return f"bad_dialogue: {place}: {dialogue.where}: {dialogue.reason}"
    return dialogue
