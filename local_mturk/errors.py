"""What the local MTurk refuses: its errors, in the service's own words where those are known, and its bounds."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

_PREFIX = "AWS.MechanicalTurk."


class MTurkError(Exception):
    """A refusal.

    Args:
      message: for people. Where there is a ``turk_code``, the answer adds the time in brackets, as MTurk does.
      turk_code: ``HITDoesNotExist`` of ``AWS.MechanicalTurk.HITDoesNotExist``; "" where the error has none.
      code: boto3's ``error.response["Error"]["Code"]``.
      status: of the HTTP answer.
    """

    def __init__(self, message: str, turk_code: str = "", code: str = "RequestError", status: int = 400) -> None:
        super().__init__(message)
        self.message, self.turk_code, self.code, self.status = message, turk_code, code, status

    @property
    def outcome(self) -> str:
        """The name under which the call is counted."""
        return self.turk_code or self.code

    def body(self, milliseconds: int) -> dict[str, str]:
        """The answer's JSON."""
        if not self.turk_code:  # from the layer in front of MTurk, which has no clock in its messages
            return {"__type": self.code, "Message": self.message}
        message = f"{self.message} ({milliseconds})"
        return {"__type": self.code, "Message": message, "TurkErrorCode": _PREFIX + self.turk_code}


def invalid_value(parameter: str, value: object, why: str = "") -> MTurkError:
    """A value that the model allows and MTurk does not.

    MTurk answers these with ``ParameterValidationError`` (botocore issues 2108, aws-sdk-java 2055), which the service
    model does not have: boto3 gives ``Error.Code`` and no ``TurkErrorCode`` for them.
    """
    message = f'The value "{shortened(value)}" is not valid for the parameter {parameter}.' + (f" {why}" if why else "")
    return MTurkError(message, "InvalidParameterValue", "ParameterValidationError")


def no_hit(hit_id: str) -> MTurkError:
    """There is no such HIT."""
    return MTurkError(f"Hit {hit_id} does not exist.", "HITDoesNotExist")


def no_hit_type(type_id: str) -> MTurkError:
    """There is no such HIT type."""
    return MTurkError(f"Hit type {type_id} does not exist.", "HITTypeDoesNotExist")  # assumption: the wording


def no_assignment(assignment_id: str) -> MTurkError:
    """There is no such assignment, or nobody has submitted it yet."""
    return MTurkError(f"Assignment {assignment_id} does not exist.", "AssignmentDoesNotExist")


def no_qualification_type(type_id: str) -> MTurkError:
    """There is no such qualification type."""
    return MTurkError(f"QualificationType {type_id} does not exist.", "QualificationTypeDoesNotExist")


def wrong_assignment_state(wanted: str) -> MTurkError:
    """The assignment has another status."""
    return MTurkError(f"This operation can be called with a status of: {wanted}", "InvalidAssignmentState")


def wrong_hit_state(status: str, wanted: str) -> MTurkError:
    """The HIT has another status, or assignments that nobody has reviewed."""
    message = f"This HIT is currently in the state '{status}'.  This operation can be called with a status of: {wanted}"
    return MTurkError(message, "InvalidHITState")


def no_money() -> MTurkError:
    """The account cannot pay for this."""
    # Assumption: the wording.
    return MTurkError(
        "Your account does not have enough funds to pay for this request and its fees.", "InsufficientFunds"
    )


def token_used(token: str) -> MTurkError:
    """The token has done its work already. The wording is that of Dallinger issue 3109; the code is an assumption."""
    return MTurkError(f'The idempotency token "{token}" has already been processed.', "DuplicateRequest")


def shortened(value: object) -> str:
    """A value for a message."""
    text = str(value)
    return text if len(text) <= 100 else text[:100] + "…"


MAX_ASSIGNMENTS = 1_000_000_000
MAX_BONUS = Decimal(10_000)

_YEAR = 31_536_000

# Lengths in characters, numbers by value, lists by length.
_BOUNDS: dict[str, dict[str, tuple[int, int]]] = {
    "HITType": {
        "AutoApprovalDelayInSeconds": (0, 2_592_000),
        "AssignmentDurationInSeconds": (30, _YEAR),
        "Title": (1, 128),
        "Keywords": (0, 1_000),
        "Description": (1, 2_000),
        "QualificationRequirements": (0, 10),
    },
    "HIT": {
        "LifetimeInSeconds": (30, _YEAR),
        "MaxAssignments": (1, MAX_ASSIGNMENTS),
        "RequesterAnnotation": (0, 255),
        "Question": (1, 1 << 20),  # counted in bytes where it is parsed
    },
    "AdditionalAssignments": {"NumberOfAdditionalAssignments": (1, MAX_ASSIGNMENTS)},
    "Review": {"RequesterFeedback": (0, 1_024)},
    "Rejection": {"RequesterFeedback": (1, 1_024)},
    "Bonus": {"Reason": (1, 4_096)},
    "QualificationType": {"Name": (1, 200), "Description": (1, 2_000), "Keywords": (0, 1_000)},
    "QualificationTypeUpdate": {"Description": (1, 2_000)},
    "Notice": {"Subject": (1, 200), "MessageText": (1, 4_096), "WorkerIds": (1, 100)},
    "Block": {"Reason": (1, 2_000)},
}


def check_bounds(kind: str, params: dict[str, Any]) -> None:
    """Raises MTurkError for the first member that is out of bounds. Members that are not given pass."""
    for name, (low, high) in _BOUNDS[kind].items():
        value = params.get(name)
        if value is None:
            continue
        size, what = (value, "a value") if isinstance(value, int) else (len(value), "a length")
        if not low <= size <= high:
            raise invalid_value(name, value, f"It must have {what} from {low:,} to {high:,}.")
