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
_TYPES: dict[str, tuple[Any, str]] = {
    "structure": (dict, "be an object"),
    "list": (list, "be a list"),
    "string": (str, "be a string"),
    "integer": (int, "be a whole number"),
    "long": (int, "be a whole number"),
    "boolean": (bool, "be true or false"),
    "timestamp": (int | float, "be a time in seconds since 1970"),  # as the JSON protocol has it
}


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
    shape = service_model().operation_model(operation).input_shape
    wrong = list(_wrong(shape, params, "")) if shape is not None else []
    if wrong:
        # The form of MTurk's own answers: boto3 issues 1222 and 1223, Dallinger issue 1052.
        errors = "error" if len(wrong) == 1 else "errors"
        raise MTurkError(f"{len(wrong)} validation {errors} detected: {'; '.join(wrong)}", code="ValidationException")


def _wrong(shape: Any, value: Any, path: str) -> Iterator[str]:
    """All that is wrong with a value, by botocore's shape of it."""
    kind = shape.type_name
    expected, what = _TYPES[kind]
    if not isinstance(value, expected) or (isinstance(value, bool) and kind != "boolean"):
        yield _fails(value, path, what)
    elif kind == "structure":
        for name in sorted(shape.required_members):
            if value.get(name) is None:
                yield f"Value null at '{_below(path, name)}' failed to satisfy constraint: Member must not be null"
        for name, item in value.items():
            if name not in shape.members:
                # Assumption: MTurk may pass over these. A client that sends one has a mistake in it.
                yield _fails(item, _below(path, str(name)), "be a member of this structure")
            elif item is not None:
                yield from _wrong(shape.members[name], item, _below(path, name))
    elif kind == "list":
        yield from _out_of_bounds(shape, len(value), value, path, "length")
        for i, item in enumerate(value, 1):
            yield from _wrong(shape.member, item, f"{path}.{i}.member")
    elif kind == "string":
        pattern = shape.metadata.get("pattern")
        yield from _out_of_bounds(shape, len(value), value, path, "length")
        if pattern and not re.fullmatch(pattern, value):
            yield _fails(value, path, f"satisfy regular expression pattern: {pattern}")
        if shape.enum and value not in shape.enum:
            yield _fails(value, path, f"satisfy enum value set: [{', '.join(shape.enum)}]")
    elif kind in _RANGES:
        yield from _out_of_bounds(shape, value, value, path, "value", _RANGES[kind])
    elif kind == "timestamp" and not -62e9 < value < 253e9:  # the years 0 to 9999
        yield _fails(value, path, what)


def _out_of_bounds(shape: Any, n: int, value: Any, path: str, what: str, most: int = 0) -> Iterator[str]:
    low, high = (
        shape.metadata.get("min", -most if most else None),
        shape.metadata.get("max", most - 1 if most else None),
    )
    if low is not None and n < low:
        yield _fails(value, path, f"have {what} greater than or equal to {low}")
    elif high is not None and n > high:
        yield _fails(value, path, f"have {what} less than or equal to {high}")


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
