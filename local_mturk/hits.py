"""HIT types and HITs: made, listed, extended, expired, deleted; and the money that is held for them."""

from __future__ import annotations

import hashlib
import sqlite3
from decimal import Decimal

import orjson

from parapet.local_mturk import errors
from parapet.local_mturk.qualifications import check_requirements
from parapet.local_mturk.question import check_question
from parapet.local_mturk.store import (
    EXTRA_FEE_FROM,
    Answer,
    Params,
    Store,
    cost_of_assignment,
    dollars,
    page,
    shown,
    units,
)

_DEFAULT_AUTO_APPROVAL = 2_592_000
_TYPE_MEMBERS = (
    "AutoApprovalDelayInSeconds",
    "AssignmentDurationInSeconds",
    "Reward",
    "Title",
    "Keywords",
    "Description",
    "QualificationRequirements",
)
_NOT_HERE = ("AssignmentReviewPolicy", "HITReviewPolicy", "HITLayoutId", "HITLayoutParameters")


def create_hit_type(store: Store, params: Params) -> Answer:
    """Equal properties make the same type, however often they are sent."""
    return {"HITTypeId": _type_id(store, params)}


def _type_id(store: Store, params: Params) -> str:
    errors.check_bounds("HITType", params)
    requirements = check_requirements(store, params.get("QualificationRequirements") or [])
    reward = Decimal(params["Reward"])
    properties = {
        "AutoApprovalDelayInSeconds": params.get("AutoApprovalDelayInSeconds", _DEFAULT_AUTO_APPROVAL),
        "AssignmentDurationInSeconds": params["AssignmentDurationInSeconds"],
        "Reward": f"{reward:.2f}",
        "Title": params["Title"],
        "Keywords": params.get("Keywords", ""),
        "Description": params["Description"],
        "QualificationRequirements": requirements,
    }
    text = orjson.dumps(properties, option=orjson.OPT_SORT_KEYS).decode()
    type_id = "3" + hashlib.sha256(f"{store.seed}:{text}".encode()).hexdigest()[:29].upper()
    store.do("INSERT OR IGNORE INTO hit_types VALUES (?, ?)", type_id, text)
    return type_id


def properties_of(store: Store, type_id: str) -> Answer:
    """The properties of a HIT type. Raises MTurkError where there is none."""
    row = store.one("SELECT properties FROM hit_types WHERE id = ?", type_id)
    if row is None:
        raise errors.no_hit_type(type_id)
    answer: Answer = orjson.loads(row["properties"])
    return answer


def create_hit(store: Store, params: Params) -> Answer:
    """A HIT, and its type where that is new."""
    _refuse_repeated(store, params)
    type_id = _type_id(store, {name: params[name] for name in _TYPE_MEMBERS if params.get(name) is not None})
    return _create(store, type_id, params)


def create_hit_with_hit_type(store: Store, params: Params) -> Answer:
    """A HIT of a type that exists."""
    _refuse_repeated(store, params)
    return _create(store, params["HITTypeId"], params)


def _refuse_repeated(store: Store, params: Params) -> None:
    token = params.get("UniqueRequestToken")
    if token and (hit_id := store.token_result("hit", token)):
        # The code is documented, and that the message has the id; the wording is an assumption.
        raise errors.MTurkError(f"The HIT {hit_id} has been created with this UniqueRequestToken.", "HitAlreadyExists")


def _create(store: Store, type_id: str, params: Params) -> Answer:
    properties = properties_of(store, type_id)
    for name in _NOT_HERE:
        if params.get(name):
            raise errors.invalid_value(name, params[name], "The local MTurk does not have it.")
    errors.check_bounds("HIT", params)
    question = params.get("Question")
    if question is None:
        raise errors.invalid_value("Question", "", "A HIT needs one.")
    check_question(question)
    assignments = params.get("MaxAssignments", 1)
    hit_id, now = store.new_id(), store.now()
    expiration, unit = (
        now + params["LifetimeInSeconds"],
        units(cost_of_assignment(Decimal(properties["Reward"]), assignments)),
    )
    row = {"annotation": params.get("RequesterAnnotation"), "assignments": assignments, "unit": unit}
    store.insert("hits", id=hit_id, type_id=type_id, created=now, expiration=expiration, **row)
    store.insert("questions", hit_id=hit_id, question=question)
    settle(store, hit_id)
    require_money(store)
    if token := params.get("UniqueRequestToken"):
        store.keep_token("hit", token, hit_id)
    return {"HIT": hit_answer(store, find_hit(store, hit_id))}


def find_hit(store: Store, hit_id: str) -> sqlite3.Row:
    """The row of a HIT. Raises MTurkError where there is none."""
    row = store.one("SELECT * FROM hits WHERE id = ?", hit_id)
    if row is None:
        raise errors.no_hit(hit_id)
    return row


def question_of(store: Store, hit_id: str) -> str:
    """The question of a HIT. Apart from the rest, for it is large and seldom asked for."""
    row = store.one("SELECT question FROM questions WHERE hit_id = ?", hit_id)
    return str(row["question"]) if row else ""


def settle(store: Store, hit_id: str) -> None:
    """Holds the money for every assignment of a HIT that may yet be paid, and no more.

    These are the ones that workers have or have sent in, and, while the HIT is on offer, the ones that nobody has.
    MTurk's own bookkeeping between publishing and paying is not documented; this is an assumption.
    """
    hit = find_hit(store, hit_id)
    waiting = hit["accepted"] + hit["submitted"]
    if not (hit["expired"] or hit["disposed"]):
        waiting += hit["remaining"]
    held = waiting * hit["unit"]
    if held != hit["held"]:
        store.do("UPDATE hits SET held = ? WHERE id = ?", held, hit_id)
        store.add("held", held - hit["held"])
        store.add("available", hit["held"] - held)


def require_money(store: Store) -> None:
    """Raises MTurkError where the account would be overdrawn."""
    if store.meta("available") < 0:
        raise errors.no_money()


def status_of(hit: sqlite3.Row) -> str:
    """``HITStatus``."""
    if hit["disposed"]:
        return "Disposed"
    if not hit["expired"] and hit["remaining"]:
        return "Assignable"
    if hit["accepted"]:
        return "Unassignable"
    return "Reviewing" if hit["reviewing"] else "Reviewable"


def hit_answer(store: Store, hit: sqlite3.Row) -> Answer:
    """A HIT as the API shows it."""
    properties = properties_of(store, hit["type_id"])
    requirements = properties.pop("QualificationRequirements")
    answer: Answer = {
        "HITId": hit["id"],
        "HITTypeId": hit["type_id"],
        "HITGroupId": group_id(hit["type_id"]),
        "CreationTime": hit["created"],
        **properties,
        "Question": question_of(store, hit["id"]),
        "HITStatus": status_of(hit),
        "MaxAssignments": hit["assignments"],
        "Expiration": hit["expiration"],
        "QualificationRequirements": requirements,
        "HITReviewStatus": "NotReviewed",
        "NumberOfAssignmentsPending": hit["accepted"],
        # Assumption: still counted after the HIT has expired.
        "NumberOfAssignmentsAvailable": hit["remaining"],
        "NumberOfAssignmentsCompleted": hit["approved"] + hit["rejected"],
    }
    if hit["annotation"] is not None:
        answer["RequesterAnnotation"] = hit["annotation"]
    return answer


def group_id(type_id: str) -> str:
    """The group in which workers see the HITs of a type."""
    return "3" + hashlib.sha256(f"group:{type_id}".encode()).hexdigest()[:29].upper()


def get_hit(store: Store, params: Params) -> Answer:
    """One HIT, deleted ones included."""
    return {"HIT": hit_answer(store, find_hit(store, params["HITId"]))}


def list_hits(store: Store, params: Params) -> Answer:
    """All HITs but deleted ones, the newest first."""
    rows, answer = page(store, params, "ListHITs", "SELECT * FROM hits WHERE NOT disposed", (), newest_first=True)
    return {**answer, "HITs": [hit_answer(store, row) for row in rows]}


def list_reviewable_hits(store: Store, params: Params) -> Answer:
    """The HITs on which nobody works any more and nobody can begin."""
    sql = (
        "SELECT * FROM hits WHERE NOT disposed AND accepted = 0 AND (expired OR remaining = 0) AND reviewing = ? "
        "AND type_id = coalesce(?, type_id)"
    )
    values = [params.get("Status") == "Reviewing", params.get("HITTypeId")]
    rows, answer = page(store, params, "ListReviewableHITs", sql, values, newest_first=True)
    return {**answer, "HITs": [hit_answer(store, row) for row in rows]}


def list_hits_for_qualification_type(store: Store, params: Params) -> Answer:
    """The HITs that ask for a qualification."""
    sql = (
        "SELECT * FROM hits WHERE NOT disposed AND type_id IN (SELECT t.id FROM hit_types AS t, "
        "json_each(t.properties, '$.QualificationRequirements') AS r "
        "WHERE json_extract(r.value, '$.QualificationTypeId') = ?)"
    )
    rows, answer = page(store, params, "ListHITsForQualificationType", sql, [params["QualificationTypeId"]], True)
    return {**answer, "HITs": [hit_answer(store, row) for row in rows]}


def update_expiration(store: Store, params: Params) -> Answer:
    """Sets when a HIT expires; a time that has passed expires it now, a later one puts it on offer again."""
    hit = find_hit(store, params["HITId"])
    if hit["disposed"]:
        raise errors.wrong_hit_state("Disposed", "Assignable, Unassignable, Reviewable, Reviewing")
    expiration, now = int(params["ExpireAt"]), store.now()
    if expiration > now:
        # Setting the same later time twice is refused, as Dallinger issue 3109 met it.
        token = f"{hit['id']}{expiration}"
        if store.token_result("expiration", token) is not None:
            raise errors.token_used(token)
        store.keep_token("expiration", token)
    store.do("UPDATE hits SET expiration = ?, expired = ? WHERE id = ?", expiration, expiration <= now, hit["id"])
    settle(store, hit["id"])
    require_money(store)
    return {}


def create_additional_assignments(store: Store, params: Params) -> Answer:
    """Asks more workers. An expired HIT stays expired."""
    token = params.get("UniqueRequestToken")
    if token and store.token_result("additional", token) is not None:
        raise errors.token_used(token)
    errors.check_bounds("AdditionalAssignments", params)
    hit, more = find_hit(store, params["HITId"]), params["NumberOfAdditionalAssignments"]
    if hit["disposed"]:
        raise errors.wrong_hit_state("Disposed", "Assignable, Unassignable, Reviewable, Reviewing")
    if hit["assignments"] < EXTRA_FEE_FROM <= hit["assignments"] + more:
        # The code is documented, the wording is an assumption.
        raise errors.MTurkError(
            f"A HIT created with fewer than {EXTRA_FEE_FROM} assignments cannot be extended to so many.",
            "InvalidMaximumAssignmentsIncrease",
        )
    if hit["assignments"] + more > errors.MAX_ASSIGNMENTS:
        raise errors.invalid_value("NumberOfAdditionalAssignments", more)
    store.do("UPDATE hits SET assignments = assignments + ? WHERE id = ?", more, hit["id"])
    settle(store, hit["id"])
    require_money(store)
    if token:
        store.keep_token("additional", token)
    return {}


def delete_hit(store: Store, params: Params) -> Answer:
    """Disposes of a HIT whose work is all reviewed. Its assignments can still be looked up (an assumption)."""
    hit = find_hit(store, params["HITId"])
    status = status_of(hit)
    if status not in ("Reviewable", "Reviewing") or hit["submitted"]:
        raise errors.wrong_hit_state(status, "Reviewing, Reviewable")
    store.do("UPDATE hits SET disposed = 1 WHERE id = ?", hit["id"])
    settle(store, hit["id"])
    return {}


def update_review_status(store: Store, params: Params) -> Answer:
    """Moves a HIT from Reviewable to Reviewing, or back."""
    hit, revert = find_hit(store, params["HITId"]), bool(params.get("Revert"))
    wanted = "Reviewing" if revert else "Reviewable"
    if status_of(hit) != wanted:
        raise errors.wrong_hit_state(status_of(hit), wanted)
    store.do("UPDATE hits SET reviewing = ? WHERE id = ?", not revert, hit["id"])
    return {}


def get_account_balance(store: Store, _params: Params) -> Answer:
    """What is left to spend."""
    return {"AvailableBalance": shown(store.meta("available"))}


def balance_of(store: Store) -> dict[str, Decimal]:
    """The whole account: what is left, what is held for work to come, and what is spent."""
    return {name: dollars(store.meta(name)) for name in ("available", "held", "paid")}
