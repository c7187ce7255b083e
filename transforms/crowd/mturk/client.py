"""The boto3 client: its address, its retries, and its errors in words.

In a dry run, the same client prints every request and answers it locally.
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
from itertools import count
from types import SimpleNamespace
from typing import Any, TypeVar

from parapet.schemas.errors import InputError, MissingExtra
from parapet.transforms.crowd.answer_files import worker_hash
from parapet.transforms.crowd.worker_ids import MASK, redact

T = TypeVar("T")
R = TypeVar("R")

PRODUCTION = "https://mturk-requester.us-east-1.amazonaws.com"
SANDBOX = "https://mturk-requester-sandbox.us-east-1.amazonaws.com"
ENDPOINT_VARIABLE = "AWS_ENDPOINT_URL_MTURK"

# MTurk has one region; for others, boto3 makes up an address that does not exist.
REGION = "us-east-1"

# Throttling begins at about a hundred calls; standard mode doubles its waits up to 20 s.
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

# After these errors, further calls would fail, too.
HOPELESS = frozenset(_ADVICE)

_ADDRESS = re.compile(r"https?://[^\s/]+(/\S*)?")

# A worker id such as "A2XYZ…" in MTurk's messages, also shorter or longer ones.
_WORKER_ID = re.compile(r"(?<![A-Za-z0-9])A(?:[A-Z0-9]{9,63}|(?=[A-Z]{0,62}[0-9])[A-Z0-9]{3,63})(?![A-Za-z0-9])")

_LONG = 300  # characters of an argument that a dry run prints


class UnusableAnswer(InputError):
    """A response of MTurk cannot be used."""


def endpoint_of(production: bool, endpoint_url: str | None) -> str:
    """Return the address to use: production, or the one given or in the environment, or the sandbox.

    Raises:
      InputError: both production and another address were requested.
    """
    other = endpoint_url or os.environ.get(ENDPOINT_VARIABLE)
    if production and other and other.rstrip("/") != PRODUCTION:
        flag = "--endpoint_url" if endpoint_url else ENDPOINT_VARIABLE
        raise InputError(f"{flag} names {other}: remove it, or leave out --production", "--production")
    if other and not _ADDRESS.fullmatch(other):
        raise InputError(f"{other!r} is not an address such as http://127.0.0.1:8765", "--endpoint_url")
    return PRODUCTION if production else (other or SANDBOX).rstrip("/")


def environment_of(endpoint: str) -> str:
    """Return ``production``, ``sandbox`` or the address itself."""
    return {PRODUCTION: "production", SANDBOX: "sandbox"}.get(endpoint, endpoint)


def connect(endpoint: str, parallel: int = 1, **credentials: str) -> Any:
    """Create a boto3 client for MTurk.

    Args:
      endpoint: the address, see :func:`endpoint_of`.
      parallel: the number of threads that will use it.
      credentials: boto3's arguments; without them, boto3 uses its usual sources (environment, profile, role).

    Raises:
      InputError: boto3 is not installed.
    """
    try:
        import boto3
        from botocore.config import Config
    except ImportError:
        raise MissingExtra("boto3", "mturk") from None
    # At lower levels these log what they send, including worker ids, and the source of the credentials.
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
    """Return the last part of MTurk's error code, ``HitAlreadyExists``, or botocore's code, ``ThrottlingException``."""
    response = getattr(error, "response", None) or {}  # None for a broken connection
    turk = str(response.get("TurkErrorCode") or response.get("Error", {}).get("TurkErrorCode") or "")
    return turk.rpartition(".")[2] or str(response.get("Error", {}).get("Code", "")) or type(error).__name__


def message_of(error: Exception) -> str:
    """Return MTurk's message without worker ids."""
    text = str((getattr(error, "response", None) or {}).get("Error", {}).get("Message", "")) or str(error)
    return _WORKER_ID.sub(MASK, redact(text))


@contextmanager
def explaining(what: str = "") -> Iterator[None]:
    """Convert botocore's errors to errors for users. Raises InputError."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (ClientError, BotoCoreError) as error:
        raise explained(error, what) from None


def explained(error: Exception, what: str = "") -> InputError:
    """Convert an error to one for users."""
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
        explanation = f"{message_of(error)} [{code}]"
        return InputError(f"{advice} ({explanation})" if advice else f"MTurk refused the call: {explanation}", what)
    return InputError(message_of(error), what)


def in_parallel(do: Callable[[T], R], items: Sequence[T], parallel: int) -> list[R]:
    """Apply ``do`` to items in parallel, keeping their order. Raises InputError if a request fails."""
    with explaining(), ThreadPoolExecutor(parallel) as pool:
        return list(pool.map(do, items))


def chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Split a sequence into chunks of ``size`` items."""
    return (items[start : start + size] for start in range(0, len(items), size))


def check_before_parsing(operation_model: Any, response_dict: dict[str, Any], **_: Any) -> None:
    """Handle botocore's event ``before-parse``.

    Raises UnusableAnswer for a body that is not JSON, such as a proxy's page, which botocore takes for an empty one.
    """
    body = response_dict["body"]
    if response_dict["status_code"] < 300 and body.strip():
        try:
            json.loads(body)
        except ValueError:
            shown = " ".join(body[:60].decode("ascii", "replace").split())
            reason = f"MTurk's answer is not JSON; it begins with {shown!r}"
            raise UnusableAnswer(reason, operation_model.name) from None


def pages(operation: Callable[..., Any], key: str, **arguments: Any) -> Iterator[dict[str, Any]]:
    """Yield every item of a paged listing.

    Args:
      operation: the boto3 method.
      key: the field with the items.
      **arguments: the operation's arguments.
    """
    token: dict[str, str] = {}
    while True:
        answer = operation(MaxResults=100, **arguments, **token)
        yield from answer[key]
        if not answer[key] or not answer.get("NextToken"):  # the last page may have a token and no items
            return
        token = {"NextToken": answer["NextToken"]}


def rehearsing_client(endpoint: str, lines: Iterable[dict[str, Any]], key: bytes, show: Callable[[str], None]) -> Any:
    """Create a boto3 client that sends nothing. Listings of assignments are answered from collected data.

    Args:
      endpoint: the address for the calls.
      lines: the collected assignments.
      key: the key for hashing the worker ids that are shown.
      show: called with each request as a line of JSON.
    """
    client = connect(endpoint, aws_access_key_id="rehearsal", aws_secret_access_key="rehearsal")  # noqa: S106
    by_hit: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        by_hit.setdefault(line["HITId"], []).append(line)
    numbers = count(1)

    def answer(model: Any, params: dict[str, Any], **_: Any) -> tuple[Any, dict[str, Any]]:
        body = json.loads(params["body"])
        shown = {name: _shown(name, value, key) for name, value in body.items()}
        show(json.dumps({"call": model.name, **shown}, ensure_ascii=False))
        return SimpleNamespace(status_code=200), _canned(model.name, body, by_hit, numbers)

    client.meta.events.register("before-call.mturk", answer)
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
    """Return MTurk's response, as far as the commands read it."""
    if operation == "CreateQualificationType":
        return {"QualificationType": {"QualificationTypeId": f"TYPE{next(numbers)}"}}
    if operation == "CreateHITType":
        return {"HITTypeId": f"HITTYPE{next(numbers)}"}
    if operation == "CreateHITWithHITType":
        ends = datetime.now(UTC) + timedelta(seconds=body["LifetimeInSeconds"])
        return {"HIT": {"HITId": f"HIT{next(numbers)}", "Expiration": ends}}
    if operation == "GetHIT":
        return {"HIT": {"HITId": body["HITId"], "MaxAssignments": 0, "Expiration": datetime.now(UTC)}}
    if operation == "ListAssignmentsForHIT":
        return {"Assignments": [_assignment(line) for line in by_hit.get(body["HITId"], [])]}
    return {operation.removeprefix("List"): []} if operation.startswith("List") else {}


def _assignment(line: dict[str, Any]) -> dict[str, Any]:
    return {
        name: datetime.fromisoformat(value) if name.endswith("Time") else value
        for name, value in line.items()
        if name != "RequesterAnnotation"
    }
