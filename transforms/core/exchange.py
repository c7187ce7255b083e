"""Exchanges JSON with an OpenAI-compatible server, with limits on the size of an answer and on its whole time."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import re
import threading
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from parapet.schemas.errors import MissingExtra
from parapet.transforms.core.replies import Unreadable

LARGEST = 16 << 20  # bytes of an answer
UNREACHABLE = "cannot be reached"
QUOTA = ("insufficient_quota", "billing_hard_limit_reached")

_LONGEST_WAIT = 60.0  # seconds, whatever a server asks for
_TIMEOUT, _NO_STATUS = 408, 0  # if the server did not answer

# Parameters that are left out if the server does not take them; the other words stand for the format of answers.
_FORMAT = "response_format"
_OPTIONAL = ("temperature", "seed", "max_tokens", "max_completion_tokens", "tool_choice", _FORMAT)
_NAMED = re.compile(
    rf"\b(?:{'|'.join(_OPTIONAL)}|(?:response|json)[_ ](?:format|schema|mode)|structured[_ ]outputs?|grammar)\b",
    re.IGNORECASE,
)
_OF_THIS_REQUEST = re.compile(r"context(?!=)|too (?:large|long|many)", re.IGNORECASE)
_OF_A_PARAMETER = (500, 501)  # statuses that some servers have for a parameter that they do not take
_WORDS = ("error", "message", "detail", "errors", "msg", "metadata", "raw")  # keys under which servers give reasons
_CONTENT = ("content", "refusal", "tool_calls", "function_call")


class Answer(NamedTuple):
    """The answer to a request.

    Attributes:
      status: of HTTP, or in an error that came with status 200; 0 if the server could not be reached.
      body: the decoded JSON; None if it is none.
      reason: why this is no answer of the model, in the server's own words; empty if it is one.
      code: the id of the error.
      parameter: what the error is about, if the server says so apart from its message.
      retry_after: the seconds that the server asks to wait; None if it does not.
    """

    status: int
    body: Any = None
    reason: str = ""
    code: str = ""
    parameter: str = ""
    retry_after: float | None = None

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed later."""
        status = self.status
        return (status in (_NO_STATUS, _TIMEOUT, 409, 429) or status >= 500) and self.code not in QUOTA

    def retries(self, most: int) -> int:
        """Return how often to send the request again; after a timeout only once, as the server may bill each time."""
        return 0 if not self.may_pass else min(most, 1) if self.status == _TIMEOUT else most

    def wait(self, failures: int) -> float:
        """Return the seconds to wait after a number of earlier failures."""
        if self.retry_after is not None:
            return min(max(self.retry_after, 0.0), _LONGEST_WAIT)
        return min(0.5 * 2.0**failures, 8.0) * random.uniform(0.75, 1)  # noqa: S311

    def refused_parameter(self, sent: Collection[str]) -> str:
        """Return the parameter, of those that were sent, that the server names and that can be left out, or ''."""
        is_busy = self.may_pass and self.status not in _OF_A_PARAMETER
        if is_busy or not self.reason or self.status in (200, 401, 402, 403, 404):
            return ""
        if _OF_THIS_REQUEST.search(f"{self.code} {self.reason}"):
            return ""
        words = (match[0].lower() for match in _NAMED.finditer(self.parameter or self.reason))
        names = (word if word in _OPTIONAL else _FORMAT for word in words)
        return next((name for name in names if name in sent), "")


class Exchange:
    """An open connection to a server. Threads may share it.

    Args:
      url: the address that requests are posted to.
      key: sent as a bearer token; empty for none.
      seconds: the limit for each answer, from the connection to its last byte.
      uses_proxies: whether the proxies of the environment are used.

    Raises:
      MissingExtra: the package ``httpx`` is missing.
    """

    def __init__(self, url: str, key: str, seconds: float, uses_proxies: bool) -> None:
        try:
            import httpx
        except ImportError:
            raise MissingExtra("httpx", "llm") from None
        for name in ("httpx", "httpcore"):  # otherwise they log each request
            logging.getLogger(name).setLevel(logging.WARNING)
        # Encoded answers are not asked for: they could be far larger than what is received.
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        headers |= {"Authorization": f"Bearer {key}"} if key else {}
        limits = httpx.Limits(max_connections=None)
        self.url, self.seconds, self._failures = url, seconds, (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError)
        # httpx limits each wait for some bytes. Only an event loop can limit all waits together; a thread runs it.
        self._client = httpx.AsyncClient(headers=headers, timeout=None, limits=limits, trust_env=uses_proxies)  # noqa: S113
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def post(self, body: Mapping[str, Any]) -> Answer:
        """Send a request. Redirects are not followed, as they would take request and key elsewhere.

        Raises Unreadable if the answer is too large or nested too deeply.
        """
        try:
            return asyncio.run_coroutine_threadsafe(self._post(json.dumps(body).encode()), self._loop).result()
        except TimeoutError:
            return Answer(_TIMEOUT, reason=f"no complete answer within {self.seconds:g} seconds")
        except self._failures as error:
            return Answer(_NO_STATUS, reason=f"{UNREACHABLE}: {_cause(error)}")

    async def _post(self, content: bytes) -> Answer:
        async with asyncio.timeout(self.seconds), self._client.stream("POST", self.url, content=content) as response:
            received = bytearray()
            async for chunk in response.aiter_raw():
                received += chunk
                if len(received) > LARGEST:
                    raise Unreadable(f"too_long: more than {LARGEST >> 20} MB")
        return read_answer(response.status_code, response.headers, bytes(received))

    def close(self) -> None:
        """Close the connections."""
        asyncio.run_coroutine_threadsafe(self._client.aclose(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def read_answer(status: int, headers: Mapping[str, str], content: bytes) -> Answer:
    """Read what a server sent. Raises Unreadable if it is an answer that is nested too deeply."""
    body = None
    try:
        body = json.loads(content)
        error = _error(body)
        words = _words(body) or _words(error)
    except ValueError:
        error, words = {}, ""
    except RecursionError:
        if status == 200:
            raise Unreadable("too_deep") from None
        error, words = {}, ""
    if isinstance(written := error.get("failed_generation"), str) and written:  # an answer that Groq cannot parse
        return Answer(200, {"choices": [{"message": {"content": written}}]})
    if status == 200 and isinstance(body, dict) and body.get("choices") is not None and not error:
        return Answer(status, body)
    codes = [str(error.get(key) or "") for key in ("code", "type")]
    code = next((code for code in codes if code in QUOTA), codes[0])
    text = words or content[:1000].decode("utf-8", "replace").strip() or "no explanation"
    if status == 200 and error:
        status = int(code) if re.fullmatch("[45][0-9][0-9]", code) else 400
    elif status == 200:
        text = f"no chat completion: {text}"
    elif 300 <= status < 400:
        text = f"redirects to {headers.get('location', 'an unknown address')}"
    waits = _retry_after(headers.get("retry-after", ""))
    return Answer(status, None, f"HTTP {status}: {text}", code, str(error.get("param") or ""), waits)


def _error(body: Any) -> dict[str, Any]:
    """Return the error in an answer; empty if there is none."""
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, dict):
        return {}
    error = body if body.get("object") == "error" else body.get("error")
    if isinstance(choices := body.get("choices"), list) and choices and isinstance(choice := choices[0], dict):
        error = choice.get("error")
        message = choice.get("message")
        is_empty = not isinstance(message, dict) or not any(map(message.get, _CONTENT))
        if choice.get("finish_reason") == "content_filter" and is_empty:
            error = error or "finish_reason content_filter, without content"
    return error if isinstance(error, dict) else {"message": str(error)} if error else {}


def _words(value: Any) -> str:
    """Return what an error says, with the place of each part as FastAPI has it: ``body.seed: Extra inputs``."""
    if isinstance(value, list):
        return "; ".join(filter(None, map(_words, value)))
    if not isinstance(value, dict):
        return value if isinstance(value, str) else ""
    place = ".".join(map(str, value["loc"])) if isinstance(value.get("loc"), list) else ""
    return ": ".join(filter(None, [place, *(_words(value[key]) for key in _WORDS if key in value)]))


def _retry_after(text: str) -> float | None:
    """Return the seconds of ``Retry-After``, which may be a date."""
    try:
        return float(text)
    except ValueError:
        with suppress(ValueError):
            return parsedate_to_datetime(text).timestamp() - time.time()
    return None


def _cause(error: BaseException) -> str:
    """Return the innermost reason, as the outer ones only say that there is no connection."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner.exceptions[0] if isinstance(inner, BaseExceptionGroup) else inner
    if isinstance(error, ConnectionError) and error.errno:
        return os.strerror(error.errno)
    return str(getattr(error, "strerror", None) or error) or type(error).__name__
