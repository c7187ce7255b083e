"""MTurk's answers, held against what the commands read of them before botocore does.

An answer that lacks a member, has another type in its place or is no JSON at all (the page of a proxy) is one clear
error that names the operation; it never ends in a KeyError, and never counts as done.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal

import msgspec

from parapet.schemas.errors import InputError, reason_and_place

MAX_BYTES = 64 << 20  # a page of 100 HITs has 6.5 MB
MAX_ITEMS = 1_000_000  # of a listing
MAX_ASSIGNMENTS = 20_000  # of a HIT
_SHOWN = 160  # characters of what is wrong
_EMPTY_PAGES = 5  # in a row, with a token each; then the listing has ended

_Id = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
_Time = Annotated[float, msgspec.Meta(ge=0, lt=253_402_300_800)]  # seconds since 1970, before the year 10000
_Dollars = Annotated[str, msgspec.Meta(pattern=r"\A-?[0-9]{1,12}(\.[0-9]{1,6})?\Z", max_length=20)]
_Number = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]


class UnusableAnswer(InputError):
    """An answer of MTurk's that cannot be what was asked for."""


class _Hit(msgspec.Struct):
    HITId: _Id
    Expiration: _Time


class _WholeHit(_Hit):
    HITTypeId: _Id
    MaxAssignments: _Number
    RequesterAnnotation: str | None = None
    Question: str | None = None


class _Assignment(msgspec.Struct):
    AssignmentId: _Id
    WorkerId: _Id
    HITId: _Id
    AssignmentStatus: Literal["Submitted", "Approved", "Rejected"]
    SubmitTime: _Time
    AcceptTime: _Time
    AutoApprovalTime: _Time | None = None
    ApprovalTime: _Time | None = None
    RejectionTime: _Time | None = None
    Deadline: _Time | None = None
    RequesterFeedback: str | None = None
    Answer: str | None = None


class _Status(msgspec.Struct):
    AssignmentStatus: Literal["Submitted", "Approved", "Rejected"]


class _Bonus(msgspec.Struct):
    WorkerId: _Id
    BonusAmount: _Dollars


class _Type(msgspec.Struct):
    QualificationTypeId: _Id


class _NamedType(_Type):
    Name: str


class _Page(msgspec.Struct, kw_only=True):
    NextToken: str | None = None


class _GetAccountBalance(msgspec.Struct):
    AvailableBalance: _Dollars


class _CreateHITType(msgspec.Struct):
    HITTypeId: _Id


class _CreateHIT(msgspec.Struct):
    HIT: _Hit


class _GetHIT(msgspec.Struct):
    HIT: _WholeHit


class _ListHITs(_Page, kw_only=True):
    HITs: list[_WholeHit]


class _ListAssignments(_Page, kw_only=True):
    Assignments: list[_Assignment]


class _GetAssignment(msgspec.Struct):
    Assignment: _Status


class _ListBonusPayments(_Page, kw_only=True):
    BonusPayments: list[_Bonus]


class _CreateQualificationType(msgspec.Struct):
    QualificationType: _Type


class _ListQualificationTypes(_Page, kw_only=True):
    QualificationTypes: list[_NamedType]


class _Nothing(msgspec.Struct):
    """Of an operation whose answer holds nothing that is read."""


_ANSWERS: dict[str, type[msgspec.Struct]] = {
    "CreateHITType": _CreateHITType,
    "CreateHITWithHITType": _CreateHIT,
    "CreateQualificationType": _CreateQualificationType,
    "GetAccountBalance": _GetAccountBalance,
    "GetAssignment": _GetAssignment,
    "GetHIT": _GetHIT,
    "ListAssignmentsForHIT": _ListAssignments,
    "ListBonusPayments": _ListBonusPayments,
    "ListHITs": _ListHITs,
    "ListHITsForQualificationType": _ListHITs,
    "ListQualificationTypes": _ListQualificationTypes,
}

# msgspec lays out a Struct when it first meets it; two threads that meet one at once crash the process (0.22).
_LAID_OUT = [msgspec.json.Decoder(kind) for kind in (*_ANSWERS.values(), _Nothing)]


def check_before_parsing(operation_model: Any, response_dict: dict[str, Any], **_: Any) -> None:
    """botocore's event ``before-parse``. Raises UnusableAnswer where the answer is not one to the call."""
    if response_dict["status_code"] >= 300:
        response_dict["body"] = _refusal(response_dict["body"])
    else:
        check(operation_model.name, response_dict["body"])


def check(operation: str, body: bytes) -> None:
    """Raises UnusableAnswer unless the body of an answer has what is read of it, and each as what it must be."""
    expected = _ANSWERS.get(operation, _Nothing)
    if expected is _Nothing and not body.strip():
        return
    if len(body) > MAX_BYTES:
        raise UnusableAnswer(f"MTurk's answer is too large: {len(body):,} bytes, over {MAX_BYTES:,}", operation)
    try:
        msgspec.convert(json.loads(body, parse_constant=_no_number), expected)
    except msgspec.ValidationError as error:
        reason, place = reason_and_place(error)
        raise UnusableAnswer(f"MTurk's answer cannot be used: {reason[:_SHOWN]}", operation, place) from None
    except (ValueError, RecursionError):
        shown = " ".join(body[:60].decode("ascii", "replace").split())
        raise UnusableAnswer(f"MTurk's answer is not JSON; it begins with {shown!r}", operation) from None


def _no_number(name: str) -> float:
    raise ValueError(name)


def _refusal(body: bytes) -> bytes:
    """The body of an error as botocore can read it: all but an object of JSON whose members are plain is none."""
    try:
        error = json.loads(body)
    except (ValueError, RecursionError):
        return b"{}"
    if not isinstance(error, dict):
        return b"{}"
    plain = {name: value for name, value in error.items() if isinstance(value, str)}
    return body if len(plain) == len(error) else json.dumps(plain).encode()


def pages(
    operation: Callable[..., Any], key: str, most: int | None = None, **arguments: Any
) -> Iterator[dict[str, Any]]:
    """Every item of a paged listing.

    Args:
      operation: boto3's method.
      key: the member that holds the items.
      most: items that there can be, if fewer than ``MAX_ITEMS``.
      **arguments: of the operation.

    Raises:
      UnusableAnswer: the listing does not end: a token comes again after items, or there are more of them than can be.
    """
    name = operation.__name__
    most = MAX_ITEMS if most is None else most
    token: dict[str, str] = {}
    seen: set[str] = set()
    items = empty = 0
    while True:
        answer = operation(MaxResults=100, **arguments, **token)
        yield from answer[key]
        items += len(answer[key])
        # The last page may come with a token and nothing on it; one in the middle may be empty as well.
        empty = 0 if answer[key] else empty + 1
        following = answer.get("NextToken")
        if not following or empty == _EMPTY_PAGES or (empty and following in seen):
            return
        if following in seen:
            raise UnusableAnswer("MTurk's listing does not end: it gives a page for the second time", name)
        if items > most:
            raise UnusableAnswer(f"MTurk's listing does not end: it has over {most:,} items", name)
        seen.add(following)
        token = {"NextToken": following}
