"""The boto3 client: where it talks to, what it retries, and what MTurk's refusals mean to a person."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from parapet.schemas.errors import InputError, MissingExtra
from parapet.transforms.crowd.worker_ids import MASK, redact
from parapet.transforms.mturk.answers import check_before_parsing

PRODUCTION = "https://mturk-requester.us-east-1.amazonaws.com"
SANDBOX = "https://mturk-requester-sandbox.us-east-1.amazonaws.com"
ENDPOINT_VARIABLE = "AWS_ENDPOINT_URL_MTURK"

# MTurk has one region; with another boto3 makes up an address that does not exist.
REGION = "us-east-1"

# Throttling begins at about a hundred calls; standard mode waits longer each time, up to 20 s.
_RETRIES = {"mode": "standard", "max_attempts": 10}
_TIMEOUT = 60  # seconds

_ADVICE = {
    "UnrecognizedClientException": "MTurk does not know these credentials",
    "InvalidSignatureException": "the secret key does not fit the access key",
    "IncompleteSignature": "the credentials are incomplete",
    "AccessDeniedException": "these credentials may not use MTurk: link the AWS account to a requester account",
    "ExpiredTokenException": "the session token has expired: log in again",
    "InsufficientFunds": "the account's balance does not cover this: prepay HITs at requester.mturk.com",
    "ThrottlingException": "MTurk keeps refusing for too many calls: run the same command again in a while, or with "
    "--parallel_calls 1",
}

# After these no further call can go well.
HOPELESS = frozenset(_ADVICE)

_ADDRESS = re.compile(r"https?://[^\s/]+(/\S*)?")

# "A2XYZ…" in a message of MTurk's, shorter or longer ones too.
_WORKER_ID = re.compile(r"(?<![A-Za-z0-9])A(?:[A-Z0-9]{9,63}|(?=[A-Z]{0,62}[0-9])[A-Z0-9]{3,63})(?![A-Za-z0-9])")


def endpoint_of(production: bool, endpoint_url: str | None) -> str:
    """The address to talk to: MTurk's production, or the one given or in the environment, or MTurk's sandbox.

    Raises:
      InputError: production is asked for and another address given.
    """
    other = endpoint_url or os.environ.get(ENDPOINT_VARIABLE)
    if production and other and other.rstrip("/") != PRODUCTION:
        flag = "--endpoint_url" if endpoint_url else ENDPOINT_VARIABLE
        raise InputError(f"{flag} names {other}: take it away, or leave --production out", "--production")
    if other and not _ADDRESS.fullmatch(other):
        raise InputError(f"{other!r} is no address such as http://127.0.0.1:8765", "--endpoint_url")
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
        return InputError(f"{advice} ({said})" if advice else f"MTurk refuses: {said}", what)
    return InputError(message_of(error), what)
