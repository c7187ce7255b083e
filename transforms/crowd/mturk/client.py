"""The boto3 client: its address, its retries, and its errors in words."""

import json
import logging
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from parapet.schemas.errors import InputError, MissingExtra
from parapet.transforms.crowd.worker_ids import MASK, redact

PRODUCTION = "https://mturk-requester.us-east-1.amazonaws.com"
SANDBOX = "https://mturk-requester-sandbox.us-east-1.amazonaws.com"
ENDPOINT_VARIABLE = "AWS_ENDPOINT_URL_MTURK"

# MTurk has one region; for others, boto3 makes up an address that does not exist.
REGION = "us-east-1"

_ADVICE = {
    "UnrecognizedClientException": "MTurk does not recognise these credentials",
    "InvalidSignatureException": "the secret key does not match the access key",
    "IncompleteSignature": "the credentials are incomplete",
    "AccessDeniedException": "these credentials may not use MTurk: link the AWS account to a requester account",
    "ExpiredTokenException": "the session token has expired: log in again",
    "InsufficientFunds": "the account's balance does not cover this: prepay HITs at requester.mturk.com",
    "ThrottlingException": "too many calls: wait a while and run the same command again, or use --parallel_calls 1",
}

# After these errors, further calls would fail, too.
HOPELESS = frozenset(_ADVICE)

_ADDRESS = re.compile(r"https?://[^\s/]+(/\S*)?")

# A worker id such as "A2XYZ…" in MTurk's messages, also shorter or longer ones.
_WORKER_ID = re.compile(r"(?<![A-Za-z0-9])A(?:[A-Z0-9]{9,63}|(?=[A-Z]{0,62}[0-9])[A-Z0-9]{3,63})(?![A-Za-z0-9])")


class UnusableAnswer(InputError):
    """A response of MTurk cannot be used."""


def endpoint_of(production: bool, endpoint_url: str | None) -> str:
    """Returns the address to use: production, or the one given or in the environment, or the sandbox.

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
    """Returns ``production``, ``sandbox`` or the address itself."""
    return {PRODUCTION: "production", SANDBOX: "sandbox"}.get(endpoint, endpoint)


def where(endpoint: str) -> str:
    """Returns ``in production``, ``in the sandbox`` or ``at http://…``."""
    return {PRODUCTION: "in production", SANDBOX: "in the sandbox"}.get(endpoint, f"at {endpoint}")


def connect(endpoint: str, parallel: int = 1) -> Any:
    """Creates a boto3 client for MTurk.

    Args:
      endpoint: the address, see :func:`endpoint_of`.
      parallel: the number of threads that will use it.

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
    # Throttling begins at about a hundred calls; standard mode doubles its waits up to 20 s.
    retries = {"mode": "standard", "max_attempts": 10}
    config = Config(retries=retries, max_pool_connections=max(10, parallel), connect_timeout=60, read_timeout=60)
    with explaining():
        session = boto3.session.Session(region_name=REGION)
        client = session.client("mturk", endpoint_url=endpoint, config=config)
    client.meta.events.register("before-parse.mturk", check_before_parsing)
    return client


def code_of(error: Exception) -> str:
    """Returns the end of MTurk's error code, ``HitAlreadyExists``, or botocore's code, ``ThrottlingException``."""
    response = getattr(error, "response", None) or {}  # None for a broken connection
    turk = str(response.get("TurkErrorCode") or response.get("Error", {}).get("TurkErrorCode") or "")
    return turk.rpartition(".")[2] or str(response.get("Error", {}).get("Code", "")) or type(error).__name__


def message_of(error: Exception) -> str:
    """Returns MTurk's message without worker ids."""
    text = str((getattr(error, "response", None) or {}).get("Error", {}).get("Message", "")) or str(error)
    return _WORKER_ID.sub(MASK, redact(text))


@contextmanager
def explaining(operation: str = "") -> Iterator[None]:
    """Converts botocore's errors to errors for users. Raises InputError."""
    from botocore import exceptions

    try:
        yield
    except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError):
        reason = "no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile"
        raise InputError(reason, operation) from None
    except (exceptions.ConnectionError, exceptions.HTTPClientError) as error:
        raise InputError(f"no answer from MTurk: {error}; run the same command again", operation) from None
    except exceptions.ClientError as error:
        advice = _ADVICE.get(code_of(error), "MTurk refused the call")
        raise InputError(f"{advice}: {message_of(error)} [{code_of(error)}]", operation) from None
    except exceptions.BotoCoreError as error:
        raise InputError(message_of(error), operation) from None


def check_before_parsing(operation_model: Any, response_dict: dict[str, Any], **_: Any) -> None:
    """Handles botocore's event ``before-parse``.

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
    """Yields every item of a paged listing.

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
