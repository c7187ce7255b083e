"""The workers' side: which HITs are on offer, and taking, sending in and giving back an assignment."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from typing import Any

import msgspec

from parapet.local_mturk.assignments import move, pass_time
from parapet.local_mturk.hits import group_id, properties_of, question_of, settle
from parapet.local_mturk.qualifications import explained, unmet
from parapet.local_mturk.store import Store

WORKER_ID = re.compile(r"A[A-Z0-9]{1,63}")
PREVIEW = "ASSIGNMENT_ID_NOT_AVAILABLE"

_GIVEN_UP = ("Returned", "Abandoned")
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_ANSWERS = "http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2005-10-01/QuestionFormAnswers.xsd"

_SENTENCES = {
    "no_such_hit": "There is no HIT of this id.",
    "no_hit_left": "There is nothing of this kind left for you to do.",
    "expired": "This HIT is no longer on offer.",
    "no_assignment_left": "All assignments of this HIT are taken.",
    "already_done": "You have done this HIT already. Each worker can do it once.",
    "blocked": "The requester does not want work from you.",
    "not_qualified": "You do not have the qualifications that this HIT asks for.",
    "worker_id": "A worker id is an A followed by capital letters and digits.",
    "no_such_assignment": "There is no assignment of this id.",
    "too_late": "The time for this assignment is over. Somebody else can do it now.",
    "returned": "You have returned this assignment.",
    "already_submitted": "You have sent this assignment in already.",
    "no_answers": "The form has no field besides assignmentId, or none that could be read.",
}


class Refusal(Exception):
    """What a worker cannot do. ``reason`` is a word for programs; the sentence for people may have a detail."""

    def __init__(self, reason: str, detail: str = "") -> None:
        self.reason, self.detail = reason, detail
        super().__init__(f"{_SENTENCES[reason]} {detail}".strip())


class Accepted(msgspec.Struct, frozen=True):
    """An assignment in a worker's hands."""

    assignment_id: str
    hit_id: str
    worker_id: str


def on_offer(store: Store, worker_id: str = "") -> list[dict[str, Any]]:
    """The HITs that workers can take; for a worker, each with the reasons why not.

    HITs that only qualified workers may discover are left out for others.
    """
    check_worker(worker_id, needed=False)
    with store.transaction():
        pass_time(store)
        rows = store.all("SELECT * FROM hits WHERE NOT disposed AND NOT expired AND remaining > 0 ORDER BY n")
        properties = {row["type_id"]: properties_of(store, row["type_id"]) for row in rows}
        lacking = {
            type_id: unmet(store, found["QualificationRequirements"], worker_id) if worker_id else []
            for type_id, found in properties.items()
        }
        blocked = worker_id and store.one("SELECT 1 FROM blocks WHERE worker_id = ?", worker_id) is not None
        done = _done_by(store, worker_id)
    listed = []
    for row in rows:
        missing = lacking[row["type_id"]]
        if any(each["ActionsGuarded"] == "DiscoverPreviewAndAccept" for each in missing):
            continue
        reasons = [f"not_qualified: {explained(each)}" for each in missing]
        reasons += ["blocked"] if blocked else []
        reasons += ["already_done"] if row["id"] in done else []
        listed.append(_listed(row, properties[row["type_id"]], reasons))
    return listed


def _done_by(store: Store, worker_id: str) -> set[str]:
    if not worker_id:
        return set()
    rows = store.all("SELECT hit_id, status FROM assignments WHERE worker_id = ?", worker_id)
    return {row["hit_id"] for row in rows if row["status"] not in (*_GIVEN_UP, "Accepted")}


def _listed(row: sqlite3.Row, properties: dict[str, Any], reasons: list[str]) -> dict[str, Any]:
    return {
        "hit_id": row["id"],
        "hit_type_id": row["type_id"],
        "group_id": group_id(row["type_id"]),
        "title": properties["Title"],
        "description": properties["Description"],
        "reward": properties["Reward"],
        "seconds": properties["AssignmentDurationInSeconds"],
        "annotation": row["annotation"],
        "left": row["remaining"],
        "expiration": row["expiration"],
        "can_accept": not reasons,
        "reasons": reasons,
    }


def check_worker(worker_id: str, needed: bool = True) -> None:
    """Raises Refusal for what is no worker id."""
    if (worker_id or needed) and not WORKER_ID.fullmatch(worker_id):
        raise Refusal("worker_id")


def question_for(store: Store, hit_id: str, worker_id: str = "") -> str:
    """The question of a HIT that a worker looks at. Raises Refusal."""
    check_worker(worker_id, needed=False)
    with store.transaction():
        row = _hit(store, hit_id)
        requirements = properties_of(store, row["type_id"])["QualificationRequirements"] if worker_id else []
        guarded = [each for each in requirements if each["ActionsGuarded"] != "Accept"]
        if missing := unmet(store, guarded, worker_id):
            raise Refusal("not_qualified", f"({'; '.join(explained(each) for each in missing)})")
        return question_of(store, hit_id)


def _hit(store: Store, hit_id: str) -> sqlite3.Row:
    row = store.one("SELECT * FROM hits WHERE id = ? AND NOT disposed", hit_id)
    if row is None:
        raise Refusal("no_such_hit")
    return row


def accept(store: Store, hit_id: str, worker_id: str, seconds: int = 0) -> Accepted:
    """Gives a worker an assignment, or the one that they have not sent in yet.

    Args:
      store: the state.
      hit_id: the HIT.
      worker_id: the worker.
      seconds: so long ago, for workers that are played: they would all seem to have worked for no time.

    Raises:
      Refusal: they cannot have one.
    """
    check_worker(worker_id)
    with store.transaction():
        pass_time(store)
        hit, now = _hit(store, hit_id), store.now()
        sql = "SELECT id, status FROM assignments WHERE worker_id = ? AND hit_id = ? AND status NOT IN (?, ?)"
        if mine := store.one(sql, worker_id, hit_id, *_GIVEN_UP):
            if mine["status"] == "Accepted":
                return Accepted(mine["id"], hit_id, worker_id)
            raise Refusal("already_done")
        if hit["expired"]:
            raise Refusal("expired")
        if not hit["remaining"]:
            raise Refusal("no_assignment_left")
        if store.one("SELECT 1 FROM blocks WHERE worker_id = ?", worker_id):
            raise Refusal("blocked")
        properties = properties_of(store, hit["type_id"])
        if missing := unmet(store, properties["QualificationRequirements"], worker_id):
            raise Refusal("not_qualified", f"({'; '.join(explained(each) for each in missing)})")
        duration = properties["AssignmentDurationInSeconds"]
        begun = now - max(0, min(seconds, duration - 1))
        assignment_id = store.new_id()
        whose, due = {"id": assignment_id, "hit_id": hit_id, "worker_id": worker_id}, begun + duration
        store.insert("assignments", **whose, status="Accepted", accepted=begun, deadline=due, due=due)
        store.do("UPDATE hits SET accepted = accepted + 1 WHERE id = ?", hit_id)
        settle(store, hit_id)
    return Accepted(assignment_id, hit_id, worker_id)


def accept_in_group(store: Store, group: str, worker_id: str) -> Accepted:
    """Gives a worker the next HIT of a group that they can do. Raises Refusal."""
    check_worker(worker_id)
    for hit in on_offer(store, worker_id):
        if hit["group_id"] == group and hit["can_accept"]:
            return accept(store, hit["hit_id"], worker_id)
    raise Refusal("no_hit_left")


def submit(store: Store, assignment_id: str, fields: Iterable[tuple[str, str]]) -> str:
    """Takes a form in and returns its HIT's id. Raises Refusal."""
    answers = _joined(fields)
    if not answers:
        raise Refusal("no_answers")
    with store.transaction():
        pass_time(store)
        row = _in_hand(store, assignment_id)
        properties = store.one("SELECT type_id FROM hits WHERE id = ?", row["hit_id"])
        delay = properties_of(store, properties["type_id"])["AutoApprovalDelayInSeconds"] if properties else 0
        move(store, row, "Submitted")
        now = store.now()
        sql = "UPDATE assignments SET submitted = ?, auto_approval = ?, due = ?, answer = ? WHERE id = ?"
        store.do(sql, now, now + delay, now + delay, answer_xml(answers), assignment_id)
    return str(row["hit_id"])


def in_hand(store: Store, worker_id: str) -> list[dict[str, str]]:
    """The assignments that a worker has yet to send in or give back."""
    with store.transaction():
        pass_time(store)
        rows = store.all(
            "SELECT a.id, a.hit_id, h.type_id FROM assignments AS a JOIN hits AS h ON h.id = a.hit_id "
            "WHERE a.worker_id = ? AND a.status = 'Accepted' ORDER BY a.n",
            worker_id,
        )
        titles = [str(properties_of(store, row["type_id"])["Title"]) for row in rows]
    return [
        {"assignment_id": row["id"], "hit_id": row["hit_id"], "title": title}
        for row, title in zip(rows, titles, strict=True)
    ]


def give_back(store: Store, assignment_id: str) -> None:
    """Returns an assignment; another worker can have it. Raises Refusal."""
    with store.transaction():
        pass_time(store)
        move(store, _in_hand(store, assignment_id), "Returned")


def _in_hand(store: Store, assignment_id: str) -> sqlite3.Row:
    row = store.one("SELECT * FROM assignments WHERE id = ?", assignment_id)
    if row is None:
        raise Refusal("no_such_assignment")
    reasons = {"Abandoned": "too_late", "Returned": "returned"}
    if row["status"] != "Accepted":
        raise Refusal(reasons.get(row["status"], "already_submitted"))
    return row


def _joined(fields: Iterable[tuple[str, str]]) -> dict[str, str]:
    # Several boxes of one name come as one answer, with bars between.
    found: dict[str, str] = {}
    for name, text in fields:
        if name and name != "assignmentId":
            found[name] = f"{found[name]}|{text}" if name in found else text
    return found


def answer_xml(answers: dict[str, str]) -> str:
    """The QuestionFormAnswers document of a form.

    Line ends stay as they were posted: a bare carriage return would be lost to any XML parser. Characters that XML
    cannot have become U+FFFD.
    """
    parts = ['<?xml version="1.0" encoding="UTF-8"?>\n', f'<QuestionFormAnswers xmlns="{_ANSWERS}">']
    for name, text in answers.items():
        parts.append(f"<Answer><QuestionIdentifier>{_escaped(name)}</QuestionIdentifier>")
        parts.append(f"<FreeText>{_escaped(text)}</FreeText></Answer>")
    return "".join([*parts, "</QuestionFormAnswers>"])


def _escaped(text: str) -> str:
    text = _FORBIDDEN.sub("\ufffd", text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#13;")
