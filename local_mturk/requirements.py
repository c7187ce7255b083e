"""Qualification requirements: whether they make sense, and whether a worker meets them."""

from __future__ import annotations

from typing import Any

import msgspec
import orjson

from parapet.local_mturk.errors import invalid_value, no_qualification_type
from parapet.local_mturk.store import Store

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
