"""A client for Prolific's REST API that repeats only requests that are safe to repeat.

It follows docs.prolific.com as of 2026 and was never tested against the live service. Messages from the service are
shown without ids that we did not send, since these may identify participants.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from http.cookiejar import DefaultCookiePolicy
from typing import Any
from urllib.parse import urlsplit

import requests
from urllib3.exceptions import NewConnectionError

from parapet.schemas.errors import InputError
from parapet.transforms.running.fence import THIS_MACHINE, Refused, in_one_line

URL = "https://api.prolific.com/api/v1"
TOKEN = "PROLIFIC_TOKEN"  # noqa: S105 - the name of a variable

_SECONDS = 60.0  # timeout of a request
_TRIES = 5
_LONGEST_WAIT = 60.0  # upper limit, even if the service asks for more
_MOST_PAGES = 1_000
_LARGEST = 1 << 24  # bytes of a response
_ID = re.compile(r"\b[0-9a-fA-F]{24}\b")


class Unknown(Exception):
    """The request may or may not have been carried out."""


class Denied(InputError):
    """The token is invalid or lacks permission, so further requests would fail, too."""


class Prolific:
    """A client for Prolific's REST API.

    Args:
      url: the address of the API.
      token: the account's token; None to refuse every request, for a dry run without an account.
      wait: seconds before the second attempt, doubled for each further one.

    Raises:
      InputError: the address is invalid, or the token is missing.
    """

    def __init__(self, url: str, token: str | None, wait: float = 1) -> None:
        parts = urlsplit(url)
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in THIS_MACHINE)
        if not is_safe or not parts.netloc or "@" in parts.netloc or parts.query or parts.fragment:
            raise InputError(f"must be an address that begins with https://, such as {URL}", "--endpoint_url", url)
        if token is not None and (not token.strip() or not token.isascii() or not token.strip().isprintable()):
            raise InputError(
                "is not set: set it to an API token of your Prolific account (Settings, API tokens)", TOKEN
            )
        self.url, self._token, self._wait = url.rstrip("/"), token and token.strip(), wait
        self._session = requests.Session()
        self._session.trust_env = False  # a .netrc would override the token
        self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))

    def close(self) -> None:
        """Close all connections."""
        self._session.close()

    def get(self, path: str) -> dict[str, Any]:
        """Send a GET request. Raises Refused, or InputError if further requests would fail, too."""
        return _object(self._send("GET", f"{self.url}{path}", None, repeats=True))

    def listed(self, path: str) -> Iterator[dict[str, Any]]:
        """Yield all entries of a paged list without duplicates. Raises as :meth:`get`."""
        address = f"{self.url}{path}"
        seen: set[str] = set()
        for _ in range(_MOST_PAGES):
            answer = _object(self._send("GET", address, None, repeats=True))
            results = answer.get("results")
            if not isinstance(results, list):
                raise Refused("wrong_answer: the list has no results")
            new = [entry for entry in results if isinstance(entry, dict) and str(entry.get("id")) not in seen]
            seen.update(str(entry.get("id")) for entry in new)
            yield from new
            address = _next(answer)
            if not address or not new:
                return
            if not address.startswith(f"{self.url}/"):  # so that the token is not sent elsewhere
                raise Refused("wrong_answer: the next page is at another address")

    def post(self, path: str, body: Mapping[str, Any], repeats: bool = False) -> Any:
        """Send a POST request.

        Args:
          path: the path below the API's address.
          body: the JSON body.
          repeats: whether the request is idempotent, so that it can be repeated.

        Returns:
          The parsed response.

        Raises:
          Refused: the request was not carried out.
          Unknown: the request may have been carried out.
          InputError: further requests would fail, too.
        """
        return self._send("POST", f"{self.url}{path}", body, repeats)

    def _send(self, method: str, address: str, body: Mapping[str, Any] | None, repeats: bool) -> Any:
        if self._token is None:
            raise Refused("no_token: nothing was sent")
        for i in range(_TRIES):
            is_last = i == _TRIES - 1
            try:
                response = self._session.request(
                    method,
                    address,
                    json=body,
                    headers={"Authorization": f"Token {self._token}"},
                    timeout=_SECONDS,
                    allow_redirects=False,
                )
                data = response.content
            except requests.RequestException as error:
                if repeats and not is_last:
                    time.sleep(min(self._wait * 2**i, _LONGEST_WAIT))
                    continue
                reason = f"no answer from {urlsplit(address).hostname}: {type(error).__name__}"
                is_undone = method == "GET" or _was_never_sent(error)
                raise (Refused(f"unavailable: {reason}") if is_undone else Unknown(reason)) from None
            status = response.status_code
            if status == 429 or (repeats and status >= 500):
                if is_last:
                    raise Refused(f"unavailable: {self._message(data, body)} ({status})")
                time.sleep(_asked(response.headers.get("Retry-After"), self._wait * 2**i))
                continue
            return self._answer(method, status, data, body)
        raise AssertionError("the last try returns or raises")

    def _answer(self, method: str, status: int, data: bytes, body: Mapping[str, Any] | None) -> Any:
        if status in (401, 403):
            problem = "is not valid" if status == 401 else "does not allow this"
            raise Denied(f"the token {problem}: {self._message(data, body)}", TOKEN)
        if 400 <= status < 500:
            raise Refused(f"invalid: {self._message(data, body)} ({status})")
        if not 200 <= status < 300:
            reason = f"{self._message(data, body)} ({status})"
            raise Refused(f"unavailable: {reason}") if method == "GET" else Unknown(reason)
        try:
            if len(data) > _LARGEST:
                raise ValueError("too large")
            return json.loads(data) if data else {}
        except (ValueError, RecursionError):
            reason = "the answer is not JSON"
            raise (Refused(f"wrong_answer: {reason}") if method == "GET" else Unknown(reason)) from None

    def _message(self, data: bytes, body: Mapping[str, Any] | None) -> str:
        """Return the service's message on one line, without the token and without ids that were not sent."""
        sent = str(body)
        text = in_one_line(data[:2_000].decode("utf-8", "replace"), self._token or "")
        return _ID.sub(lambda match: match[0] if match[0] in sent else "…", text) or "no message"


def _was_never_sent(error: requests.RequestException) -> bool:
    """Whether the connection failed before the request could be sent."""
    cause = getattr(error.args[0], "reason", None) if error.args else None
    return isinstance(error, requests.ConnectTimeout) or isinstance(cause, NewConnectionError)


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Refused("wrong_answer: not a JSON object")
    return value


def _next(answer: Mapping[str, Any]) -> str:
    """Return the address of the next page; empty on the last page."""
    links = answer.get("_links")
    following = links.get("next") if isinstance(links, dict) else None
    address = following.get("href") if isinstance(following, dict) else following
    return address if isinstance(address, str) else ""


def _asked(header: str | None, otherwise: float) -> float:
    """Return the seconds to wait that the service asks for, at most a minute."""
    try:
        seconds = float(header or "")
    except ValueError:
        seconds = otherwise
    return min(max(seconds, 0.0), _LONGEST_WAIT)
