"""Assignments and bonuses as the requester sees them: listed, approved, rejected, paid."""

from __future__ import annotations

import sqlite3
from decimal import Decimal

import orjson

from parapet.local_mturk import errors
from parapet.local_mturk.hits import find_hit, hit_answer, require_money, settle
from parapet.local_mturk.store import Answer, Params, Store, cost_of_bonus, dollars, page, units

REVIEWED = ("Submitted", "Approved", "Rejected")

_OVERRIDE_SECONDS = 30 * 24 * 3_600
# The statuses that are counted per HIT, in the order of the statement that does it.
_COUNTED = ("Accepted", "Submitted", "Approved", "Rejected")
_COUNT = (
    "UPDATE hits SET accepted = accepted + ?, submitted = submitted + ?, approved = approved + ?, "
    "rejected = rejected + ? WHERE id = ?"
)


def find_assignment(store: Store, assignment_id: str) -> sqlite3.Row:
    """The row of an assignment that was submitted. Raises MTurkError where there is none."""
    row = store.one("SELECT * FROM assignments WHERE id = ?", assignment_id)
    if row is None or row["status"] not in REVIEWED:
        # An assignment in a worker's hands does not exist for the requester: Mephisto issue 1081, psiTurk issue 424.
        raise errors.no_assignment(assignment_id)
    return row


def move(store: Store, assignment: sqlite3.Row, status: str) -> None:
    """Gives an assignment another status, and keeps its HIT's counts and money right."""
    store.do("UPDATE assignments SET status = ?, due = NULL WHERE id = ?", status, assignment["id"])
    changes = [(status == each) - (assignment["status"] == each) for each in _COUNTED]
    store.do(_COUNT, *changes, assignment["hit_id"])
    settle(store, assignment["hit_id"])


def approve(store: Store, assignment: sqlite3.Row, when: int, feedback: str | None = None) -> None:
    """Approves and pays."""
    unit = find_hit(store, assignment["hit_id"])["unit"]
    move(store, assignment, "Approved")
    sql = "UPDATE assignments SET approved = ?, rejected = NULL, feedback = coalesce(?, feedback) WHERE id = ?"
    store.do(sql, when, feedback, assignment["id"])
    store.add("available", -unit)
    store.add("paid", unit)


def pass_time(store: Store) -> None:
    """Everything that has happened by itself since the last request: HITs expired, work was approved or given up.

    The HITs come first, whatever the times, so that no assignment goes back on offer that nobody could take any more.
    """
    now = store.now()
    for hit in store.all("SELECT id FROM hits WHERE NOT expired AND expiration <= ?", now):
        store.do("UPDATE hits SET expired = 1 WHERE id = ?", hit["id"])
        settle(store, hit["id"])
    for assignment in store.all("SELECT * FROM assignments WHERE due <= ?", now):
        if assignment["status"] == "Submitted":
            approve(store, assignment, assignment["due"])
        else:
            move(store, assignment, "Abandoned")


def assignment_answer(row: sqlite3.Row) -> Answer:
    """An assignment as the API shows it."""
    answer = {
        "AssignmentId": row["id"],
        "WorkerId": row["worker_id"],
        "HITId": row["hit_id"],
        "AssignmentStatus": row["status"],
        "AutoApprovalTime": row["auto_approval"],
        "AcceptTime": row["accepted"],
        "SubmitTime": row["submitted"],
        "ApprovalTime": row["approved"],
        "RejectionTime": row["rejected"],
        "Deadline": row["deadline"],
        "Answer": row["answer"],
        "RequesterFeedback": row["feedback"],
    }
    return {name: value for name, value in answer.items() if value is not None}


def list_assignments(store: Store, params: Params) -> Answer:
    """The assignments of a HIT that were submitted, in the order in which they were accepted."""
    find_hit(store, params["HITId"])
    statuses = orjson.dumps(params.get("AssignmentStatuses") or REVIEWED).decode()
    sql = "SELECT * FROM assignments WHERE hit_id = ? AND status IN (SELECT value FROM json_each(?))"
    rows, answer = page(store, params, "ListAssignmentsForHIT", sql, [params["HITId"], statuses])
    return {**answer, "Assignments": [assignment_answer(row) for row in rows]}


def get_assignment(store: Store, params: Params) -> Answer:
    """One assignment with its HIT."""
    row = store.one("SELECT * FROM assignments WHERE id = ?", params["AssignmentId"])
    if row is not None and row["status"] not in REVIEWED:
        raise errors.wrong_assignment_state("Reviewable,Approved,Rejected")  # as turkserver-meteor issue 56 met it
    row = find_assignment(store, params["AssignmentId"])
    return {"Assignment": assignment_answer(row), "HIT": hit_answer(store, find_hit(store, row["hit_id"]))}


def approve_assignment(store: Store, params: Params) -> Answer:
    """Pays for work that is submitted; for rejected work only when told to, within 30 days."""
    errors.check_bounds("Review", params)
    row = _for_review(store, params["AssignmentId"])
    now = store.now()
    if row["status"] == "Rejected":
        if not params.get("OverrideRejection"):
            raise errors.wrong_assignment_state("Submitted")
        if now - row["submitted"] > _OVERRIDE_SECONDS or find_hit(store, row["hit_id"])["disposed"]:
            raise errors.wrong_assignment_state("Submitted")
    elif row["status"] != "Submitted":
        raise errors.wrong_assignment_state("Submitted")
    approve(store, row, now, params.get("RequesterFeedback"))
    require_money(store)
    return {}


def reject_assignment(store: Store, params: Params) -> Answer:
    """Refuses to pay. Nobody else gets the assignment; its money is free again."""
    errors.check_bounds("Rejection", params)
    row = _for_review(store, params["AssignmentId"])
    if row["status"] != "Submitted":
        raise errors.wrong_assignment_state("Submitted")
    move(store, row, "Rejected")
    feedback, now = params["RequesterFeedback"], store.now()
    store.do("UPDATE assignments SET rejected = ?, feedback = ? WHERE id = ?", now, feedback, row["id"])
    return {}


def _for_review(store: Store, assignment_id: str) -> sqlite3.Row:
    row = store.one("SELECT * FROM assignments WHERE id = ?", assignment_id)
    if row is None:
        raise errors.no_assignment(assignment_id)
    if row["status"] not in REVIEWED:
        raise errors.wrong_assignment_state("null")  # as ParlAI issue 2957 and psiTurk issue 424 met it
    return row


def send_bonus(store: Store, params: Params) -> Answer:
    """Pays a worker on top, at once."""
    token = params.get("UniqueRequestToken")
    if token and store.token_result("bonus", token) is not None:
        raise errors.token_used(token)
    errors.check_bounds("Bonus", params)
    amount = Decimal(params["BonusAmount"])
    if not 0 < amount <= errors.MAX_BONUS:
        raise errors.invalid_value("BonusAmount", params["BonusAmount"])
    row = find_assignment(store, params["AssignmentId"])
    if row["worker_id"] != params["WorkerId"]:
        # That it is refused is known (psiTurk issue 190); the code and the wording are assumptions.
        raise errors.invalid_value("WorkerId", params["WorkerId"], "The assignment is another worker's.")
    cost = units(cost_of_bonus(amount))
    store.add("available", -cost)
    store.add("paid", cost)
    require_money(store)
    whose = {"assignment_id": row["id"], "hit_id": row["hit_id"], "worker_id": row["worker_id"]}
    store.insert("bonuses", **whose, amount=units(amount), reason=params["Reason"], granted=store.now())
    if token:
        store.keep_token("bonus", token, row["id"])
    return {}


def list_bonus_payments(store: Store, params: Params) -> Answer:
    """The bonuses of a HIT or of an assignment."""
    hit_id, assignment_id = params.get("HITId"), params.get("AssignmentId")
    if (hit_id is None) == (assignment_id is None):
        raise errors.invalid_value("HITId", hit_id, "Give either a HITId or an AssignmentId.")
    if hit_id is not None:
        find_hit(store, hit_id)
        sql = "SELECT * FROM bonuses WHERE hit_id = ?"
    else:
        find_assignment(store, str(assignment_id))
        sql = "SELECT * FROM bonuses WHERE assignment_id = ?"
    rows, answer = page(store, params, "ListBonusPayments", sql, [hit_id or assignment_id])
    return {**answer, "BonusPayments": [bonus_answer(row) for row in rows]}


def bonus_answer(row: sqlite3.Row) -> Answer:
    """A bonus as the API shows it."""
    return {
        "WorkerId": row["worker_id"],
        "BonusAmount": f"{dollars(row['amount']):.2f}",
        "AssignmentId": row["assignment_id"],
        "Reason": row["reason"],
        "GrantTime": row["granted"],
    }
