"""The boto3 client: where it talks to, what it retries, and what MTurk's answers and refusals mean.

An answer that lacks a member, has another type in its place or is not JSON at all (the page of a proxy) is one clear
error that names the operation; it never ends in a KeyError, and never counts as done. In a dry run the same client
prints every request and answers it here instead of sending it.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from io import BytesIO
from itertools import count
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from parapet.schemas.errors import InputError, MissingExtra, reason_and_place
from parapet.transforms.crowd.ingest import worker_hash
from parapet.transforms.crowd.worker_ids import MASK, redact

T = TypeVar("T")
R = TypeVar("R")

PRODUCTION = "https://mturk-requester.us-east-1.amazonaws.com"
SANDBOX = "https://mturk-requester-sandbox.us-east-1.amazonaws.com"
ENDPOINT_VARIABLE = "AWS_ENDPOINT_URL_MTURK"

# MTurk has one region; with another boto3 makes up an address that does not exist.
REGION = "us-east-1"

# Throttling begins at about a hundred calls; standard mode waits longer each time, up to 20 s.
_RETRIES = {"mode": "standard", "max_attempts": 10}
_TIMEOUT = 60  # seconds

_ADVICE = {
    "UnrecognizedClientException": "MTurk does not recognise these credentials",
    "InvalidSignatureException": "the secret key does not match the access key",
    "IncompleteSignature": "the credentials are incomplete",
    "AccessDeniedException": "these credentials may not use MTurk: link the AWS account to a requester account",
    "ExpiredTokenException": "the session token has expired: log in again",
    "InsufficientFunds": "the account's balance does not cover this: prepay HITs at requester.mturk.com",
    "ThrottlingException": (
        "MTurk keeps refusing because of too many calls: wait a while and run the same command again, or use "
        "--parallel_calls 1"
    ),
}

# After these no further call can go well.
HOPELESS = frozenset(_ADVICE)

_ADDRESS = re.compile(r"https?://[^\s/]+(/\S*)?")

# "A2XYZ…" in a message of MTurk's, shorter or longer ones too.
_WORKER_ID = re.compile(r"(?<![A-Za-z0-9])A(?:[A-Z0-9]{9,63}|(?=[A-Z]{0,62}[0-9])[A-Z0-9]{3,63})(?![A-Za-z0-9])")

MAX_BYTES = 64 << 20  # a page of 100 HITs has 6.5 MB
MAX_ITEMS = 1_000_000  # of a listing
_SHOWN = 160  # characters of what is wrong
_LONG = 300  # characters of an argument that a dry run shows
_EMPTY_PAGES = 5  # in a row, with a token each; then the listing has ended


_Id = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
_Time = Annotated[float, msgspec.Meta(ge=0, lt=253_402_300_800)]  # seconds since 1970, before the year 10000
_Dollars = Annotated[str, msgspec.Meta(pattern=r"\A-?[0-9]{1,12}(\.[0-9]{1,6})?\Z", max_length=20)]
_Number = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]
_AssignmentStatus = Literal["Submitted", "Approved", "Rejected"]


class UnusableAnswer(InputError):
    """An answer of MTurk's that cannot be what was asked for."""


class _Hit(msgspec.Struct):
    HITId: _Id
    HITTypeId: _Id
    Expiration: _Time
    MaxAssignments: _Number
    RequesterAnnotation: str | None = None
    Question: str | None = None


class _Assignment(msgspec.Struct):
    AssignmentId: _Id
    WorkerId: _Id
    HITId: _Id
    AssignmentStatus: _AssignmentStatus
    SubmitTime: _Time
    AcceptTime: _Time
    AutoApprovalTime: _Time | None = None
    ApprovalTime: _Time | None = None
    RejectionTime: _Time | None = None
    Deadline: _Time | None = None
    RequesterFeedback: str | None = None
    Answer: str | None = None


class _Bonus(msgspec.Struct):
    WorkerId: _Id
    BonusAmount: _Dollars


class _QualificationType(msgspec.Struct):
    QualificationTypeId: _Id
    Name: str


def _answer(**members: Any) -> type[msgspec.Struct]:
    return msgspec.defstruct("Answer", [*members.items(), ("NextToken", str | None, None)])


# What the commands read of each answer.
_ANSWERS = {
    "CreateHITType": _answer(HITTypeId=_Id),
    "CreateHITWithHITType": _answer(HIT=_answer(HITId=_Id, Expiration=_Time)),
    "CreateQualificationType": _answer(QualificationType=_answer(QualificationTypeId=_Id)),
    "GetAccountBalance": _answer(AvailableBalance=_Dollars),
    "GetAssignment": _answer(Assignment=_answer(AssignmentStatus=_AssignmentStatus)),
    "GetHIT": _answer(HIT=_Hit),
    "ListAssignmentsForHIT": _answer(Assignments=list[_Assignment]),
    "ListBonusPayments": _answer(BonusPayments=list[_Bonus]),
    "ListHITs": _answer(HITs=list[_Hit]),
    "ListHITsForQualificationType": _answer(HITs=list[_Hit]),
    "ListQualificationTypes": _answer(QualificationTypes=list[_QualificationType]),
}
_NOTHING = _answer()

# msgspec lays out a Struct when it first meets it; two threads that meet one at once crash the process (0.22).
_LAID_OUT = [msgspec.json.Decoder(kind) for kind in (*_ANSWERS.values(), _NOTHING)]


def endpoint_of(production: bool, endpoint_url: str | None) -> str:
    """The address to talk to: MTurk's production, or the one given or in the environment, or MTurk's sandbox.

    Raises:
      InputError: production is asked for and another address given.
    """
    other = endpoint_url or os.environ.get(ENDPOINT_VARIABLE)
    if production and other and other.rstrip("/") != PRODUCTION:
        flag = "--endpoint_url" if endpoint_url else ENDPOINT_VARIABLE
        raise InputError(f"{flag} names {other}: remove it, or leave out --production", "--production")
    if other and not _ADDRESS.fullmatch(other):
        raise InputError(f"{other!r} is not an address such as http://127.0.0.1:8765", "--endpoint_url")
    return PRODUCTION if production else (other or SANDBOX).rstrip("/")


def environment_of(endpoint: str) -> str:
    """``production``, ``sandbox`` or the address itself."""
    return {PRODUCTION: "production", SANDBOX: "sandbox"}.get(endpoint, endpoint)


def connect(endpoint: str, parallel: int = 1, **credentials: str) -> Any:
    """A boto3 client for MTurk.

    Args:
      endpoint: the address, see :func:`endpoint_of`.
      parallel: how many threads will use it.
      credentials: boto3's arguments; without them it looks where it always does (environment, profile, role).

    Raises:
      InputError: boto3 is not installed.
    """
    try:
        import boto3
        from botocore.config import Config
    except ImportError:
        raise MissingExtra("boto3", "mturk") from None
    # At lower levels these say what they send: worker ids, and where the credentials are from.
    for name in ("boto3", "botocore", "urllib3"):
        logging.getLogger(name).setLevel(logging.WARNING)
    config = Config(
        retries=_RETRIES, max_pool_connections=max(10, parallel), connect_timeout=_TIMEOUT, read_timeout=_TIMEOUT
    )
    with explaining():
        session = boto3.session.Session(region_name=REGION, **credentials)
        client = session.client("mturk", endpoint_url=endpoint, config=config)
    client.meta.events.register("before-parse.mturk", check_before_parsing)
    return client


def code_of(error: Exception) -> str:
    """The last part of MTurk's own code, ``HitAlreadyExists``; or botocore's, ``ThrottlingException``."""
    response = getattr(error, "response", None) or {}  # of a connection that broke it is None
    turk = str(response.get("TurkErrorCode") or response.get("Error", {}).get("TurkErrorCode") or "")
    return turk.rpartition(".")[2] or str(response.get("Error", {}).get("Code", "")) or type(error).__name__


def message_of(error: Exception) -> str:
    """What MTurk says, without worker ids."""
    text = str((getattr(error, "response", None) or {}).get("Error", {}).get("Message", "")) or str(error)
    return _WORKER_ID.sub(MASK, redact(text))


@contextmanager
def explaining(what: str = "") -> Iterator[None]:
    """Turns botocore's errors into those that a user should read. Raises InputError."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (ClientError, BotoCoreError) as error:
        raise explained(error, what) from None


def explained(error: Exception, what: str = "") -> InputError:
    """The error as a user should read it."""
    from botocore import exceptions

    code = code_of(error)
    if isinstance(error, InputError):
        return error
    if isinstance(error, exceptions.NoCredentialsError | exceptions.PartialCredentialsError):
        return InputError("no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile", what)
    if isinstance(error, exceptions.ConnectionError | exceptions.HTTPClientError):
        return InputError(f"no answer from MTurk: {error}; run the same command again", what)
    if isinstance(error, exceptions.ClientError):
        advice = _ADVICE.get(code)
        said = f"{message_of(error)} [{code}]"
        return InputError(f"{advice} ({said})" if advice else f"MTurk refused the call: {said}", what)
    return InputError(message_of(error), what)


def in_parallel(do: Callable[[T], R], items: Sequence[T], parallel: int) -> list[R]:
    """Reads, a few at a time, in order. Raises InputError where one is not answered."""
    with explaining(), ThreadPoolExecutor(parallel) as pool:
        return list(pool.map(do, items))


def chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Runs of ``size`` items."""
    return (items[start : start + size] for start in range(0, len(items), size))


def check_before_parsing(operation_model: Any, response_dict: dict[str, Any], **_: Any) -> None:
    """botocore's event ``before-parse``. Raises UnusableAnswer where the answer is not one to the call."""
    if response_dict["status_code"] >= 300:
        response_dict["body"] = _refusal(response_dict["body"])
    else:
        check(operation_model.name, response_dict["body"])


def check(operation: str, body: bytes) -> None:
    """Raises UnusableAnswer unless the body of an answer has what is read of it, and each as what it must be."""
    expected = _ANSWERS.get(operation, _NOTHING)
    if expected is _NOTHING and not body.strip():
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
            raise UnusableAnswer("MTurk's listing does not end: it returned the same page twice", name)
        if items > most:
            raise UnusableAnswer(f"MTurk's listing does not end: it has more than {most:,} items", name)
        seen.add(following)
        token = {"NextToken": following}


def rehearsing_client(endpoint: str, lines: Iterable[dict[str, Any]], key: bytes, show: Callable[[str], None]) -> Any:
    """A boto3 client that sends nothing.

    Requests go as far as botocore's signed HTTP request. Listings of assignments are answered from what was collected.

    Args:
      endpoint: where the calls would go.
      lines: what was collected.
      key: worker ids are shown as keyed hashes.
      show: is given each request as a line of JSON.
    """
    client = connect(endpoint, aws_access_key_id="rehearsal", aws_secret_access_key="rehearsal")  # noqa: S106
    by_hit: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        by_hit.setdefault(line["HITId"], []).append(line)
    numbers = count(1)

    def answer(request: Any, **_: Any) -> Any:
        operation = request.headers["X-Amz-Target"].decode().rpartition(".")[2]
        body = json.loads(request.body)
        shown = {name: _shown(name, value, key) for name, value in body.items()}
        show(json.dumps({"call": operation, **shown}, ensure_ascii=False))
        return _response(request.url, _canned(operation, body, by_hit, numbers))

    client.meta.events.register("before-send.mturk", answer)
    return client


def _shown(name: str, value: Any, key: bytes) -> Any:
    if name == "WorkerId":
        return f"worker {worker_hash(key, value)}"
    if isinstance(value, str) and len(value) > _LONG:
        return f"{len(value.encode()):,} bytes"
    return value


def _canned(
    operation: str, body: dict[str, Any], by_hit: dict[str, list[dict[str, Any]]], numbers: Iterator[int]
) -> dict[str, Any]:
    """What MTurk would answer, as far as the commands look at it."""
    if operation == "CreateQualificationType":
        return {"QualificationType": {"QualificationTypeId": f"TYPE{next(numbers)}"}}
    if operation == "CreateHITType":
        return {"HITTypeId": f"HITTYPE{next(numbers)}"}
    if operation == "CreateHITWithHITType":
        ends = datetime.now(UTC) + timedelta(seconds=body["LifetimeInSeconds"])
        return {"HIT": {"HITId": f"HIT{next(numbers)}", "Expiration": ends.timestamp()}}
    if operation == "GetHIT":
        return {"HIT": {"HITId": body["HITId"], "HITTypeId": "HITTYPE", "MaxAssignments": 0, "Expiration": 0}}
    if operation == "ListAssignmentsForHIT":
        return {"Assignments": [_assignment(line) for line in by_hit.get(body["HITId"], [])]}
    return {operation.removeprefix("List"): []} if operation.startswith("List") else {}


def _assignment(line: dict[str, Any]) -> dict[str, Any]:
    return {
        name: datetime.fromisoformat(value).timestamp() if name.endswith("Time") else value
        for name, value in line.items()
        if name != "RequesterAnnotation"
    }


def _response(url: str, content: dict[str, Any]) -> Any:
    from botocore.awsrequest import AWSResponse

    data = json.dumps(content).encode()

    class Raw(BytesIO):
        def stream(self) -> Iterable[bytes]:
            yield data

    return AWSResponse(url, 200, {"Content-Type": "application/x-amz-json-1.1"}, Raw(data))
