"""What the local MTurk answers when it refuses, in the service's own words where those are known."""

from __future__ import annotations

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
