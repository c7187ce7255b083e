"""Which function does which operation; requests are checked against botocore's own model of the service."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from parapet.local_mturk import assignments, hits, qualifications
from parapet.local_mturk.errors import MTurkError, shortened
from parapet.local_mturk.store import Answer, Params, Store

TARGET = "MTurkRequesterServiceV20170117."

_RANGES = {"integer": 1 << 31, "long": 1 << 63}


@cache
def service_model() -> Any:
    """botocore's model of MTurk. Needs the extra ``mturk``."""
    from botocore.loaders import Loader
    from botocore.model import ServiceModel

    return ServiceModel(Loader().load_service_model("mturk", "service-2"), "mturk")


@cache
def operations() -> frozenset[str]:
    """The names of all operations that MTurk has."""
    return frozenset(service_model().operation_names)


def check(operation: str, params: Any) -> None:
    """Raises MTurkError for a request that the model does not allow; all that is wrong with it in one message."""
    if not isinstance(params, dict):
        raise MTurkError("The request is not a JSON object.", code="SerializationException")
    checker = _input_checker(operation)
    wrong = list(checker(params, "")) if checker else []
    if wrong:
        # The form of MTurk's own answers: boto3 issues 1222 and 1223, Dallinger issue 1052.
        errors = "error" if len(wrong) == 1 else "errors"
        raise MTurkError(f"{len(wrong)} validation {errors} detected: {'; '.join(wrong)}", code="ValidationException")


_Check = Callable[[Any, str], Iterator[str]]


@cache
def _input_checker(operation: str) -> _Check | None:
    shape = service_model().operation_model(operation).input_shape
    return _checker(shape) if shape is not None else None


def _checker(shape: Any) -> _Check:
    makers: dict[str, Callable[[Any], _Check]] = {
        "structure": _structure,
        "list": _list,
        "string": _string,
        "integer": _number,
        "long": _number,
        "boolean": _boolean,
        "timestamp": _timestamp,
    }
    return makers[shape.type_name](shape)


def _structure(shape: Any) -> _Check:
    members = {name: _checker(member) for name, member in shape.members.items()}
    required = frozenset(shape.required_members)

    def checked(value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield _fails(value, path, "be an object")
            return
        for name in sorted(required):
            if value.get(name) is None:
                yield f"Value null at '{_below(path, name)}' failed to satisfy constraint: Member must not be null"
        for name, item in value.items():
            if name not in members:
                # Assumption: MTurk may pass over these. A client that sends one has a mistake in it.
                yield _fails(item, _below(path, str(name)), "be a member of this structure")
            elif item is not None:
                yield from members[name](item, _below(path, name))

    return checked


def _list(shape: Any) -> _Check:
    member, sizes = _checker(shape.member), _size(shape)

    def checked(value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, list):
            yield _fails(value, path, "be a list")
            return
        yield from sizes(len(value), value, path)
        for i, item in enumerate(value, 1):
            yield from member(item, f"{path}.{i}.member")

    return checked


def _string(shape: Any) -> _Check:
    sizes = _size(shape)
    pattern = shape.metadata.get("pattern")
    fits = re.compile(pattern).fullmatch if pattern else None
    allowed = shape.enum

    def checked(value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, str):
            yield _fails(value, path, "be a string")
            return
        yield from sizes(len(value), value, path)
        if fits and not fits(value):
            yield _fails(value, path, f"satisfy regular expression pattern: {pattern}")
        if allowed and value not in allowed:
            yield _fails(value, path, f"satisfy enum value set: [{', '.join(allowed)}]")

    return checked


def _number(shape: Any) -> _Check:
    bound = _RANGES[shape.type_name]
    low, high = shape.metadata.get("min", -bound), shape.metadata.get("max", bound - 1)

    def checked(value: Any, path: str) -> Iterator[str]:
        if isinstance(value, bool) or not isinstance(value, int):
            yield _fails(value, path, "be a whole number")
        elif value < low:
            yield _fails(value, path, f"have value greater than or equal to {low}")
        elif value > high:
            yield _fails(value, path, f"have value less than or equal to {high}")

    return checked


def _boolean(_shape: Any) -> _Check:
    def checked(value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, bool):
            yield _fails(value, path, "be true or false")

    return checked


def _timestamp(_shape: Any) -> _Check:
    def checked(value: Any, path: str) -> Iterator[str]:
        # The JSON protocol has seconds since 1970; the bounds are those of a year 0 to 9999.
        if isinstance(value, bool) or not isinstance(value, int | float) or not -62e9 < value < 253e9:
            yield _fails(value, path, "be a time in seconds since 1970")

    return checked


def _size(shape: Any) -> Callable[[int, Any, str], Iterator[str]]:
    low, high = shape.metadata.get("min"), shape.metadata.get("max")

    def checked(size: int, value: Any, path: str) -> Iterator[str]:
        if low is not None and size < low:
            yield _fails(value, path, f"have length greater than or equal to {low}")
        if high is not None and size > high:
            yield _fails(value, path, f"have length less than or equal to {high}")

    return checked


def _below(path: str, name: str) -> str:
    # The service names members with a small first letter: hITId, bonusAmount.
    name = name[:1].lower() + name[1:]
    return f"{path}.{name}" if path else name


def _fails(value: Any, path: str, what: str) -> str:
    return f"Value '{shortened(value)}' at '{path}' failed to satisfy constraint: Member must {what}"


_DONE_HERE: dict[str, Callable[[Store, Params], Answer]] = {
    "ApproveAssignment": assignments.approve_assignment,
    "AssociateQualificationWithWorker": qualifications.associate_qualification,
    "CreateAdditionalAssignmentsForHIT": hits.create_additional_assignments,
    "CreateHIT": hits.create_hit,
    "CreateHITType": hits.create_hit_type,
    "CreateHITWithHITType": hits.create_hit_with_hit_type,
    "CreateQualificationType": qualifications.create_qualification_type,
    "CreateWorkerBlock": qualifications.create_worker_block,
    "DeleteHIT": hits.delete_hit,
    "DeleteQualificationType": qualifications.delete_qualification_type,
    "DeleteWorkerBlock": qualifications.delete_worker_block,
    "DisassociateQualificationFromWorker": qualifications.disassociate_qualification,
    "GetAccountBalance": hits.get_account_balance,
    "GetAssignment": assignments.get_assignment,
    "GetHIT": hits.get_hit,
    "GetQualificationScore": qualifications.get_qualification_score,
    "GetQualificationType": qualifications.get_qualification_type,
    "ListAssignmentsForHIT": assignments.list_assignments,
    "ListBonusPayments": assignments.list_bonus_payments,
    "ListHITs": hits.list_hits,
    "ListHITsForQualificationType": hits.list_hits_for_qualification_type,
    "ListQualificationTypes": qualifications.list_qualification_types,
    "ListReviewableHITs": hits.list_reviewable_hits,
    "ListWorkerBlocks": qualifications.list_worker_blocks,
    "ListWorkersWithQualificationType": qualifications.list_workers_with_qualification,
    "NotifyWorkers": qualifications.notify_workers,
    "RejectAssignment": assignments.reject_assignment,
    "SendBonus": assignments.send_bonus,
    "UpdateExpirationForHIT": hits.update_expiration,
    "UpdateHITReviewStatus": hits.update_review_status,
    "UpdateQualificationType": qualifications.update_qualification_type,
}


def checked(operation: str, params: Params) -> Params:
    """The request without the members that say null. Raises MTurkError where the service model forbids it."""
    if operation not in operations():
        raise MTurkError(f"Unknown operation {operation[:100]}.", code="UnknownOperationException")
    check(operation, params)
    return {name: value for name, value in params.items() if value is not None}


def perform(store: Store, operation: str, params: Params) -> Answer:
    """Does a checked request, inside a transaction. Raises MTurkError where MTurk would refuse."""
    done = _DONE_HERE.get(operation)
    if done is None:
        raise MTurkError(f"The local MTurk does not have {operation}.", code="UnknownOperationException")
    assignments.pass_time(store)
    return done(store, params)
