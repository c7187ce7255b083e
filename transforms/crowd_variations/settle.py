"""Settles one dialogue: which rewriting of each turn is used for each kind, and what becomes of every other answer.

Pure: assignments and decisions in, an :class:`Outcome` out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from parapet.schemas.decisions import Decision
from parapet.schemas.elements import response_id
from parapet.schemas.responses import Assignment, DeadLetter, Disposition
from parapet.schemas.rewritings import KINDS, Kind, RewrittenTurn
from parapet.transforms.crowd import vet as crowd_vet
from parapet.transforms.crowd.answers import settle_cluster
from parapet.transforms.crowd.lexicon import spelling_rank
from parapet.transforms.crowd.merge import unusable_decision
from parapet.transforms.crowd.rank import draw
from parapet.transforms.crowd.review import Neighbours, ReviewItem
from parapet.transforms.crowd_variations.tasks import FIELD_OF, KIND_OF, SourceTurn
from parapet.transforms.crowd_variations.values import spans_of
from parapet.transforms.crowd_variations.vet import Answer, flags, unacceptable, vet_answer, vet_worker
from parapet.transforms.crowd_variations.wording import canonical_text

Decisions = Mapping[str, Mapping[str, Decision]]  # assignment id to form field to decision
Repeats = Callable[[str, Answer], bool]  # worker hash and answer to whether the worker gave it for other sentences too


class Entry(msgspec.Struct):
    """One answer on its way to its disposition; ``surplus`` is a good one that is not drawn yet.

    Attributes:
      answer: as it would be emitted.
    """

    response_id: str
    answer: Answer
    text: str
    assignment: Assignment
    decision: Decision | None = None
    verdict: crowd_vet.Verdict = crowd_vet.PASS
    disposition: Disposition = "surplus"
    reason: str = ""

    @property
    def accepted(self) -> bool:
        """Whether a reviewer accepted or fixed it."""
        return self.decision is not None and self.decision.decision != "reject"


class Short(msgspec.Struct):
    """A turn without a good answer of a kind; ``in_review`` are held."""

    dialogue_id: str
    turn: int
    kind: Kind
    in_review: int


class Outcome(msgspec.Struct):
    """What became of one dialogue's answers."""

    rewritten: list[RewrittenTurn] = []
    audit: list[dict[str, Any]] = []
    entries: list[Entry] = []
    reviews: list[ReviewItem] = []
    short: list[Short] = []
    dead: list[DeadLetter] = []


def settle_turns(
    turns: Iterable[SourceTurn],
    assignments: Mapping[int, Sequence[Assignment]],
    decisions: Decisions,
    seed: int,
    repeats: Repeats,
) -> Outcome:
    """Settles the turns of one dialogue.

    Args:
      turns: that were to be rewritten.
      assignments: by turn, each once.
      decisions: on their answers.
      seed: of the draw.
      repeats: whether a worker gave an answer for several different sentences.
    """
    outcome = Outcome()
    for turn in sorted(turns, key=lambda turn: turn.turn):
        of_turn = sorted(assignments.get(turn.turn, ()), key=lambda a: a.assignment_id)
        entries, dead = read_answers(turn, of_turn, decisions, repeats)
        outcome.dead += dead
        for kind in KINDS:
            _settle_kind(turn, kind, [entry for entry in entries if entry.answer.kind == kind], seed, outcome)
        outcome.entries += sorted(entries, key=lambda entry: (KINDS.index(entry.answer.kind), entry.response_id))
    outcome.audit = [_audit_row(entry) for entry in outcome.entries]
    return outcome


def read_answers(
    turn: SourceTurn, assignments: Sequence[Assignment], decisions: Decisions, repeats: Repeats
) -> tuple[list[Entry], list[DeadLetter]]:
    """Every answer for a turn with the verdict on it, and dead letters for decisions that cannot be carried out."""
    entries, dead = [], []
    for assignment in assignments:
        fields = [field for field in FIELD_OF.values() if field in assignment.answers]
        for field in fields:
            text = assignment.answers[field]
            entry = _entry(turn, assignment, field, decisions.get(assignment.assignment_id, {}).get(field))
            if isinstance(entry, DeadLetter):
                dead.append(entry)
                entry = _entry(turn, assignment, field, None)
                assert isinstance(entry, Entry)
            if not entry.accepted and not entry.verdict.action:
                entry.verdict = _verdict(entry.answer, vet_worker(assignment, text, fields), repeats, assignment)
            entries.append(entry)
    return entries, dead


def _entry(turn: SourceTurn, assignment: Assignment, field: str, decision: Decision | None) -> Entry | DeadLetter:
    """The answer in a field as the reviewer wants it; a dead letter where that cannot be."""
    text = assignment.answers[field]
    text_to_use = decision.text if decision is not None and decision.decision == "fix" else text
    answer = Answer(KIND_OF[field], canonical_text(text_to_use, turn.utterance), turn)
    entry = Entry(response_id(assignment.assignment_id, field), answer, text, assignment, decision)
    if entry.accepted and decision is not None and (why := unacceptable(answer)):
        return unusable_decision(decision, f"bad_decision: {why}")
    if decision is not None and decision.decision == "reject":
        entry.verdict = crowd_vet.Verdict("reject", f"reviewer: {decision.reason}" if decision.reason else "reviewer")
    return entry


def _verdict(
    answer: Answer, of_worker: crowd_vet.Verdict, repeats: Repeats, assignment: Assignment
) -> crowd_vet.Verdict:
    """The first reason: what rejects before what holds, the assignment's before the text's before the worker's."""
    if of_worker.action == "reject":
        return of_worker
    of_text = vet_answer(answer)
    if of_text.action == "reject" or not of_worker.action:
        if not of_text.action and repeats(assignment.worker_hash, answer):
            return crowd_vet.Verdict("review", "repeated_answer")
        return of_text
    return of_worker


def _settle_kind(turn: SourceTurn, kind: Kind, entries: list[Entry], seed: int, outcome: Outcome) -> None:
    clusters: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        clusters[" ".join(entry.answer.words) or f"\0{entry.response_id}"].append(entry)
    for same in clusters.values():
        settle_cluster(same, _better)
    good = [same[0] for same in clusters.values() if same[0].disposition == "surplus"]
    used = _drawn(good, seed, turn.place, kind)
    for entry in good:
        entry.reason = "not_drawn"
    if used is not None:
        used.disposition, used.reason = "used", ""
        outcome.rewritten.append(RewrittenTurn(turn.dialogue_id, turn.turn, kind, used.answer.text, used.response_id))
    held = [same for same in clusters.values() if same[0].disposition == "review"]
    neighbours = Neighbours((same[0].answer.text, same[0].disposition) for same in clusters.values() if held)
    outcome.reviews += [_review_item(same, neighbours) for same in held]
    if used is None:
        outcome.short.append(Short(turn.dialogue_id, turn.turn, kind, len(held)))


def _better(entry: Entry) -> tuple[Any, ...]:
    """Of the same words the best spelled; of mistyped ones any."""
    answer = entry.answer
    spelled = spelling_rank(answer.text, answer.words, entry.text) if answer.words and answer.kind != "typos" else ()
    return spelled, answer.text, entry.response_id


def _drawn(good: Sequence[Entry], seed: int, place: str, kind: Kind) -> Entry | None:
    """One of the good answers, by seeded hash; of those that a reviewer accepted where there are any."""
    of_reviewer = [entry for entry in good if entry.accepted]
    by_text = {entry.answer.text: entry for entry in of_reviewer or good}
    return by_text[draw(list(by_text), seed, place, kind)[0]] if by_text else None


def _review_item(same: Sequence[Entry], neighbours: Neighbours) -> ReviewItem:
    best, turn = same[0], same[0].answer.turn
    shown, more = neighbours.of(best.answer.text, best.disposition)
    return ReviewItem(
        response_id=best.response_id,
        element_id=f"{turn.services}/turn/{turn.place}",
        task=best.answer.kind,
        prompt=turn.before or "(the conversation begins here)",
        original=turn.utterance,
        text=best.text,
        canonical=best.answer.text,
        reasons=list(Counter([best.reason, *flags(best.answer)])),
        same_answers=len(same),
        neighbours=shown,
        more_neighbours=more,
    )


def _audit_row(entry: Entry) -> dict[str, Any]:
    answer, assignment = entry.answer, entry.assignment
    return {
        "response_id": entry.response_id,
        "dialogue_id": answer.turn.dialogue_id,
        "turn": answer.turn.turn,
        "kind": answer.kind,
        "original": answer.turn.utterance,
        "text": entry.text,
        "canonical": answer.text,
        "disposition": entry.disposition,
        "reason": entry.reason,
        "values": list(spans_of(answer.turn.units, answer.places)),
        "worker_hash": assignment.worker_hash,
        "accept_time": _milliseconds(assignment.accept_time),
        "submit_time": _milliseconds(assignment.submit_time),
        "work_seconds": assignment.work_seconds,
    }


def _milliseconds(seconds: int | None) -> int | None:
    return None if seconds is None else seconds * 1000
