"""Qualification types, requirements, who meets them; blocks, and messages to workers."""

from __future__ import annotations

import sqlite3
from typing import Any

import msgspec
import orjson

from parapet.local_mturk import errors
from parapet.local_mturk.errors import invalid_value, no_qualification_type
from parapet.local_mturk.store import Answer, Params, Store, page

LOCALE = "00000000000000000071"
PERCENT_APPROVED = "000000000000000000L0"
NUMBER_APPROVED = "00000000000000000040"
ADULT = "00000000000000000060"
MASTERS = ("2F1QJWKUDD8XADTFD2Q0G6UTO95ALH", "2ARFPLSP75KLA8M8DH1HTEQVJT3SY6")  # production, sandbox

SYSTEM_TYPES = {
    LOCALE: "Worker_Locale",
    PERCENT_APPROVED: "Worker_PercentAssignmentsApproved",
    NUMBER_APPROVED: "Worker_NumberHITsApproved",
    ADULT: "Worker_Adult",
    MASTERS[0]: "Masters",
    MASTERS[1]: "Masters (sandbox)",
}

_PRESENCE = ("Exists", "DoesNotExist")
_SETS = ("In", "NotIn")
_ORDER = ("LessThan", "LessThanOrEqualTo", "GreaterThan", "GreaterThanOrEqualTo")
_MOST_VALUES, _MOST_LOCALES = 15, 30

Requirement = dict[str, Any]


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What MTurk knows of a worker by itself."""

    country: str = "US"
    subdivision: str = ""
    percent_approved: int = 100
    number_approved: int = 1_000
    masters: bool = False
    adult: bool = False


def check_requirements(store: Store, requirements: list[Requirement]) -> list[Requirement]:
    """The requirements as they are kept. Raises MTurkError for those that MTurk could not use."""
    for requirement in requirements:
        type_id = requirement["QualificationTypeId"]
        known = store.one("SELECT 1 FROM qualification_types WHERE id = ?", type_id)
        if type_id not in SYSTEM_TYPES and not known:
            raise no_qualification_type(type_id)
        if why := _fault(requirement):
            raise invalid_value("QualificationRequirement", orjson.dumps(requirement).decode(), why)
    ids = [requirement["QualificationTypeId"] for requirement in requirements]
    # Assumption: one type twice is refused for custom types too.
    if repeated := {type_id for type_id in ids if ids.count(type_id) > 1}:
        raise invalid_value("QualificationRequirement", min(repeated), "The type occurs twice.")
    return [_kept(requirement) for requirement in requirements]


def _kept(requirement: Requirement) -> Requirement:
    guarded = requirement.get("ActionsGuarded")
    if guarded is None:
        guarded = "PreviewAndAccept" if requirement.get("RequiredToPreview") else "Accept"
    return {
        **{name: value for name, value in requirement.items() if value is not None},
        "RequiredToPreview": guarded != "Accept",
        "ActionsGuarded": guarded,
    }


def _fault(requirement: Requirement) -> str:
    comparator = requirement["Comparator"]
    numbers, places = requirement.get("IntegerValues") or [], requirement.get("LocaleValues") or []
    locale = requirement["QualificationTypeId"] == LOCALE
    values, most = (places, _MOST_LOCALES) if locale else (numbers, _MOST_VALUES)
    if locale and numbers:
        return "A locale is compared with LocaleValues."
    if not locale and places:
        return "LocaleValues are for the locale only."
    if comparator in _PRESENCE:
        return f"{comparator} takes no values." if values else ""
    if locale and comparator in _ORDER:
        return "Locales are equal or not; they have no order."
    if comparator in _SETS:
        return "" if 1 <= len(values) <= most else f"{comparator} takes 1 to {most} values."
    return "" if len(values) == 1 else f"{comparator} takes one value."


def profile_of(store: Store, worker_id: str) -> Profile:
    """A worker's profile: what was set, or the defaults."""
    row = store.one("SELECT profile FROM workers WHERE worker_id = ?", worker_id)
    return msgspec.json.decode(row["profile"], type=Profile) if row else Profile()


def unmet(store: Store, requirements: list[Requirement], worker_id: str) -> list[Requirement]:
    """The requirements that keep a worker away."""
    if not requirements:
        return []
    profile = profile_of(store, worker_id)
    return [each for each in requirements if not _meets(store, each, worker_id, profile)]


def _meets(store: Store, requirement: Requirement, worker_id: str, profile: Profile) -> bool:
    type_id, comparator = requirement["QualificationTypeId"], requirement["Comparator"]
    if type_id == LOCALE:
        return _meets_locale(comparator, requirement.get("LocaleValues") or [], profile)
    has, value = _score(store, type_id, worker_id, profile)
    if comparator in _PRESENCE:
        return bool(has == (comparator == "Exists"))
    wanted: list[int] = requirement["IntegerValues"]
    compared: dict[str, bool] = {
        "LessThan": value < wanted[0],
        "LessThanOrEqualTo": value <= wanted[0],
        "GreaterThan": value > wanted[0],
        "GreaterThanOrEqualTo": value >= wanted[0],
        "EqualTo": value == wanted[0],
        "NotEqualTo": value != wanted[0],
        "In": value in wanted,
        "NotIn": value not in wanted,
    }
    # A worker without the qualification meets no comparison, not even NotEqualTo (an assumption).
    return has and compared[comparator]


def _meets_locale(comparator: str, wanted: list[dict[str, str]], profile: Profile) -> bool:
    if comparator in _PRESENCE:
        return comparator == "Exists"
    found = any(
        place["Country"] == profile.country and place.get("Subdivision") in (None, profile.subdivision)
        for place in wanted
    )
    return found == (comparator in ("EqualTo", "In"))


def _score(store: Store, type_id: str, worker_id: str, profile: Profile) -> tuple[bool, int]:
    system = {
        PERCENT_APPROVED: (True, profile.percent_approved),
        NUMBER_APPROVED: (True, profile.number_approved),
        ADULT: (profile.adult, int(profile.adult)),
        MASTERS[0]: (profile.masters, int(profile.masters)),
        MASTERS[1]: (profile.masters, int(profile.masters)),
    }
    if type_id in system:
        return system[type_id]
    row = store.one(
        "SELECT value FROM qualifications WHERE type_id = ? AND worker_id = ? AND status = 'Granted'",
        type_id,
        worker_id,
    )
    return (True, row["value"]) if row else (False, 0)


def explained(requirement: Requirement) -> str:
    """A requirement in words."""
    type_id = requirement["QualificationTypeId"]
    places = ["-".join(place.values()) for place in requirement.get("LocaleValues") or []]
    values = ", ".join([*map(str, requirement.get("IntegerValues") or []), *places])
    return f"{SYSTEM_TYPES.get(type_id, type_id)} {requirement['Comparator']} {values}".strip()


_KEPT = ("Name", "Description", "Keywords", "QualificationTypeStatus", "RetryDelayInSeconds")
_NOT_HERE = ("Test", "AnswerKey", "TestDurationInSeconds")


def create_qualification_type(store: Store, params: Params) -> Answer:
    """A type of the requester's own, under a name that no other has."""
    errors.check_bounds("QualificationType", params)
    _refuse_tests(params)
    if store.one("SELECT 1 FROM qualification_types WHERE name = ?", params["Name"]):
        raise errors.MTurkError(
            "You have already created a QualificationType with this name. A QualificationType's name must be unique "
            "among all of the QualificationTypes created by the same user.",
            "QualificationTypeAlreadyExists",
        )
    kept = {name: params[name] for name in _KEPT if params.get(name) is not None}
    kept |= {"IsRequestable": True, "AutoGranted": bool(params.get("AutoGranted"))}
    if kept["AutoGranted"]:
        kept["AutoGrantedValue"] = params.get("AutoGrantedValue", 1)
    type_id = store.new_id()
    properties = orjson.dumps(kept).decode()
    store.insert("qualification_types", id=type_id, name=params["Name"], created=store.now(), properties=properties)
    return {"QualificationType": _type_answer(_own_type(store, type_id))}


def _refuse_tests(params: Params) -> None:
    for name in _NOT_HERE:
        if params.get(name) is not None:
            raise errors.invalid_value(name, params[name], "The local MTurk has no qualification tests.")


def _own_type(store: Store, type_id: str) -> sqlite3.Row:
    row = store.one("SELECT * FROM qualification_types WHERE id = ?", type_id)
    if row is None:
        raise errors.no_qualification_type(type_id)
    return row


def _type_answer(row: sqlite3.Row) -> Answer:
    return {"QualificationTypeId": row["id"], "CreationTime": row["created"], **orjson.loads(row["properties"])}


def _system_type(type_id: str) -> Answer:
    name = SYSTEM_TYPES[type_id]
    return {
        "QualificationTypeId": type_id,
        "CreationTime": 0,
        "Name": name,
        "Description": name,
        "QualificationTypeStatus": "Active",
        "IsRequestable": False,
        "AutoGranted": False,
    }


def get_qualification_type(store: Store, params: Params) -> Answer:
    """A type, MTurk's own ones included."""
    type_id = params["QualificationTypeId"]
    known = type_id in SYSTEM_TYPES
    return {"QualificationType": _system_type(type_id) if known else _type_answer(_own_type(store, type_id))}


def update_qualification_type(store: Store, params: Params) -> Answer:
    """Changes what may change of a type."""
    errors.check_bounds("QualificationTypeUpdate", params)
    _refuse_tests(params)
    row = _own_type(store, params["QualificationTypeId"])
    changed = {name: params[name] for name in (*_KEPT, "AutoGranted", "AutoGrantedValue") if name in params}
    text = orjson.dumps({**orjson.loads(row["properties"]), **changed}).decode()
    store.do("UPDATE qualification_types SET properties = ? WHERE id = ?", text, row["id"])
    return {"QualificationType": _type_answer(_own_type(store, row["id"]))}


def delete_qualification_type(store: Store, params: Params) -> Answer:
    """Removes a type and everybody's qualifications of it."""
    row = _own_type(store, params["QualificationTypeId"])
    store.do("DELETE FROM qualifications WHERE type_id = ?", row["id"])
    store.do("DELETE FROM qualification_types WHERE id = ?", row["id"])
    return {}


def list_qualification_types(store: Store, params: Params) -> Answer:
    """The types whose name, description or keywords have the query in them."""
    query = params.get("Query", "").lower()
    # instr has no wildcards in it, unlike LIKE.
    sql = (
        "SELECT * FROM qualification_types WHERE instr(lower(name || ' ' || (properties ->> '$.Description') || ' ' || "
        "coalesce(properties ->> '$.Keywords', '')), ?) > 0"
    )
    rows, answer = page(store, params, "ListQualificationTypes", sql, [query])
    types = [_type_answer(row) for row in rows]
    first_page = not params.get("NextToken")
    if first_page and not params.get("MustBeOwnedByCaller") and not params["MustBeRequestable"]:
        types += [_system_type(type_id) for type_id, name in SYSTEM_TYPES.items() if query in name.lower()]
    return {**answer, "NumResults": len(types), "QualificationTypes": types}


def associate_qualification(store: Store, params: Params) -> Answer:
    """Gives a worker a qualification, or its one another value. Any worker id of the right form is somebody's."""
    row = _own_type(store, params["QualificationTypeId"])
    if orjson.loads(row["properties"])["QualificationTypeStatus"] != "Active":
        # Assumption: the wording. The code is one of those that MTurk's Java library knows.
        raise errors.MTurkError("The QualificationType is not active.", "InvalidQualificationTypeState")
    store.do(
        "INSERT INTO qualifications (type_id, worker_id, value, granted, status) VALUES (?, ?, ?, ?, 'Granted') "
        "ON CONFLICT DO UPDATE SET value = excluded.value, granted = excluded.granted, status = 'Granted'",
        row["id"],
        params["WorkerId"],
        params.get("IntegerValue", 1),
        store.now(),
    )
    return {}


def disassociate_qualification(store: Store, params: Params) -> Answer:
    """Takes a qualification away."""
    row = _granted(store, params)
    store.do("UPDATE qualifications SET status = 'Revoked' WHERE n = ?", row["n"])
    return {}


def get_qualification_score(store: Store, params: Params) -> Answer:
    """The value that a worker has."""
    return {"Qualification": qualification_answer(_granted(store, params))}


def _granted(store: Store, params: Params) -> sqlite3.Row:
    type_id = _own_type(store, params["QualificationTypeId"])["id"]
    sql = "SELECT * FROM qualifications WHERE type_id = ? AND worker_id = ? AND status = 'Granted'"
    row = store.one(sql, type_id, params["WorkerId"])
    if row is None:
        raise errors.MTurkError("You requested a Qualification that does not exist.", "QualificationDoesNotExist")
    return row


def list_workers_with_qualification(store: Store, params: Params) -> Answer:
    """Who has a qualification, or had it."""
    type_id = _own_type(store, params["QualificationTypeId"])["id"]
    sql = "SELECT * FROM qualifications WHERE type_id = ? AND status = ?"
    values = [type_id, params.get("Status", "Granted")]
    rows, answer = page(store, params, "ListWorkersWithQualificationType", sql, values)
    return {**answer, "Qualifications": [qualification_answer(row) for row in rows]}


def qualification_answer(row: sqlite3.Row) -> Answer:
    """A qualification as the API shows it."""
    return {
        "QualificationTypeId": row["type_id"],
        "WorkerId": row["worker_id"],
        "GrantTime": row["granted"],
        "IntegerValue": row["value"],
        "Status": row["status"],
    }


def create_worker_block(store: Store, params: Params) -> Answer:
    """Keeps a worker away from all HITs. Again with another reason is no error."""
    errors.check_bounds("Block", params)
    store.do("INSERT OR REPLACE INTO blocks (worker_id, reason) VALUES (?, ?)", params["WorkerId"], params["Reason"])
    return {}


def delete_worker_block(store: Store, params: Params) -> Answer:
    """Lets a worker in again; one who was never blocked is no error."""
    store.do("DELETE FROM blocks WHERE worker_id = ?", params["WorkerId"])
    return {}


def list_worker_blocks(store: Store, params: Params) -> Answer:
    """Who is blocked, and why."""
    rows, answer = page(store, params, "ListWorkerBlocks", "SELECT * FROM blocks WHERE 1", ())
    return {**answer, "WorkerBlocks": [{"WorkerId": row["worker_id"], "Reason": row["reason"]} for row in rows]}


def notify_workers(store: Store, params: Params) -> Answer:
    """Keeps a message for workers. One who never did anything for this requester cannot be reached."""
    errors.check_bounds("Notice", params)
    failures: list[dict[str, Any]] = []
    for worker_id in params["WorkerIds"]:
        sql = "SELECT 1 FROM assignments WHERE worker_id = ? AND status IN ('Approved', 'Rejected')"
        if not store.one(sql, worker_id):
            failures.append(
                {
                    "NotifyWorkersFailureCode": "HardFailure",
                    "NotifyWorkersFailureMessage": "No prior relationship with this worker.",
                    "WorkerId": worker_id,
                }
            )
            continue
        subject, text = params["Subject"], params["MessageText"]
        store.insert("notices", worker_id=worker_id, subject=subject, text=text, sent=store.now())
    return {"NotifyWorkersFailureStatuses": failures}
