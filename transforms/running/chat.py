"""A client for language models behind an OpenAI-compatible endpoint.

Retries, ``Retry-After`` and deadlines are those of the ``openai`` package (extra ``llm``). Each answer is cached
immediately in SQLite, by a hash of its request, so that an interrupted run pays for nothing twice, and a rerun gives
the same answers. The key is read from an environment variable when a request is sent: no file, log or message contains
it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from parapet.schemas.errors import InputError, MissingExtra
from parapet.transforms.running.fence import SERVER, Refused, Stopped, in_one_line
from parapet.transforms.running.progress import spend
from parapet.transforms.running.replies import Reply, Unreadable, read_reply

if TYPE_CHECKING:
    from openai import OpenAI

Message = Mapping[str, Any]  # role, content and, in a conversation with tools, calls

_KEY = re.compile(r"\b(?:sk|key|Bearer)[-_ ][\w.*-]{6,}")
_LONGEST_ANSWER = 1 << 20  # characters
CHARACTERS_OF_TOKEN = 4  # approximate, for English


class Endpoint(msgspec.Struct, frozen=True):
    """The endpoint of a model, and the parameters of requests.

    Attributes:
      url: such as ``http://127.0.0.1:8080/v1``.
      model: the model's name at the endpoint.
      key_variable: the environment variable with the key; if empty, no key is sent.
      max_calls: maximum number of requests, not counting answers from the cache.
      seconds: the timeout of each attempt.
      retries: number of retries after rate limits, outages and broken connections.
      temperature: 0 requests the most likely answer; endpoints may still not be deterministic.
      seed: sent with each request; the server may ignore it.
      parallel: number of parallel requests per worker.
      known_as: replaces the address as a key of the cache, if the address differs from run to run.
      dollars: price of a million tokens of requests, and of answers.
    """

    url: str
    model: str
    key_variable: str = "OPENAI_API_KEY"
    max_calls: int = 0
    seconds: float = 120
    retries: int = 4
    temperature: float = 0
    seed: int = 0
    parallel: int = 4
    dollars: tuple[float, float] = (0, 0)
    known_as: str = ""

    def cost(self, sent: int, answered: int) -> float:
        """Return the cost in dollars for numbers of tokens in requests and answers."""
        return (sent * self.dollars[0] + answered * self.dollars[1]) / 1e6

    def check(self) -> None:
        """Raise InputError if a value is invalid."""
        if not SERVER.fullmatch(self.url):
            raise InputError("is not an address such as http://127.0.0.1:8080/v1", "--endpoint", self.url)
        if not self.model.strip():
            raise InputError("is required: give the name of the model at the endpoint, such as gpt-4o-mini", "--model")
        if self.parallel < 1 or self.max_calls < 0 or self.seconds <= 0:
            raise InputError("calls and seconds must be positive numbers", "--endpoint")


class Chat:
    """A client for a model. It is pickled and sent to the workers; threads may share it.

    Args:
      endpoint: the endpoint and its parameters.
      cache: an SQLite file of all answers; None for no cache.
    """

    def __init__(self, endpoint: Endpoint, cache: str | Path | None = None) -> None:
        endpoint.check()
        self.endpoint, self.cache = endpoint, str(cache) if cache else None
        self._client: OpenAI | None = None
        self._kept: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self.calls = 0

    def __getstate__(self) -> dict[str, Any]:
        return {"endpoint": self.endpoint, "cache": self.cache}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__init__(state["endpoint"], state["cache"])  # type: ignore[misc]

    def open(self) -> None:
        """Create the client and the cache. Raises MissingExtra without the package ``openai``."""
        try:
            from openai import OpenAI
        except ImportError:
            raise MissingExtra("openai", "llm") from None
        for name in ("httpx", "httpx2", "openai"):  # otherwise they log each request and retry
            logging.getLogger(name).setLevel(logging.WARNING)
        endpoint = self.endpoint
        key = os.environ.get(endpoint.key_variable, "") if endpoint.key_variable else ""
        self._client = OpenAI(
            base_url=endpoint.url, api_key=key or "none", timeout=endpoint.seconds, max_retries=endpoint.retries
        )  # the package requires a key, even if the server does not
        if self.cache:
            Path(self.cache).parent.mkdir(parents=True, exist_ok=True)
            self._kept = sqlite3.connect(self.cache, timeout=60, check_same_thread=False, isolation_level=None)
            self._kept.execute("PRAGMA journal_mode=WAL")
            self._kept.execute("CREATE TABLE IF NOT EXISTS answers (request TEXT PRIMARY KEY, answer TEXT NOT NULL)")

    def close(self) -> None:
        """Close client and cache. A second call does nothing."""
        if self._client is not None:
            self._client.close()
        if self._kept is not None:
            self._kept.close()
        self._client = self._kept = None

    def ask(self, messages: Sequence[Message], **parameters: Any) -> Reply:
        """Return the model's answer.

        Args:
          messages: the conversation so far.
          parameters: further parameters of the chat completions API, such as ``tools`` or ``response_format``.

        Raises:
          Refused: ``invalid``, ``unavailable``, ``wrong_answer`` or ``too_long``: this request cannot be answered.
          Stopped: ``key``, ``denied``, ``address`` or ``max_calls``: further requests would fail, too.
        """
        endpoint = self.endpoint
        request, name = self._request(messages, parameters)
        if kept := self._found(name):
            return kept
        with self._lock:
            if endpoint.max_calls and self.calls >= endpoint.max_calls:
                raise Stopped(
                    f"max_calls: {endpoint.max_calls:,} calls were made; "
                    "raise --max_calls, or run the same command again"
                )
            self.calls += 1
        try:
            reply = msgspec.structs.replace(self._send(request), characters=characters(messages, parameters))
        except (Refused, Stopped):
            spend(errors=1)
            raise
        spend(tokens=sum(reply.tokens), microdollars=round(1e6 * endpoint.cost(*reply.tokens)))
        if self._kept is not None:
            with self._lock:
                self._kept.execute(
                    "INSERT OR IGNORE INTO answers VALUES (?, ?)", (name, msgspec.json.encode(reply).decode())
                )
        return reply

    def knows(self, messages: Sequence[Message], **parameters: Any) -> bool:
        """Whether the cache has the answer to this request."""
        return self._found(self._request(messages, parameters)[1]) is not None

    def _request(self, messages: Sequence[Message], parameters: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        """Return the body of a request, and the key of its answer in the cache."""
        endpoint = self.endpoint
        request = {
            "model": endpoint.model,
            "temperature": endpoint.temperature,
            "seed": endpoint.seed,
            **parameters,
            "messages": list(messages),
        }
        content = json.dumps([endpoint.known_as or endpoint.url, request], sort_keys=True).encode(
            "utf-8", "surrogatepass"
        )
        return request, hashlib.sha256(content).hexdigest()

    def _found(self, name: str) -> Reply | None:
        if self._kept is None:
            return None
        with self._lock:
            row = self._kept.execute("SELECT answer FROM answers WHERE request = ?", (name,)).fetchone()
        return msgspec.structs.replace(msgspec.json.decode(row[0], type=Reply), kept=True) if row else None

    def _send(self, request: dict[str, Any]) -> Reply:
        import openai

        assert self._client is not None, "open it first"
        try:
            answer = self._client.chat.completions.with_raw_response.create(**request)
            reply = read_reply(json.loads(answer.text))
        except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
            is_key = isinstance(error, openai.AuthenticationError)
            hint = f": set {self.endpoint.key_variable}" if is_key and self.endpoint.key_variable else ""
            raise Stopped(f"{'key' if is_key else 'denied'}: {self._cleaned(error)}{hint}") from None
        except openai.NotFoundError as error:
            raise Stopped(f"address: {self.endpoint.url} has no such model or path: {self._cleaned(error)}") from None
        except (openai.RateLimitError, openai.InternalServerError, openai.APIConnectionError) as error:
            raise Refused(f"unavailable: {self._cleaned(error)}") from None
        except openai.APIStatusError as error:
            raise Refused(f"invalid: {self._cleaned(error)}") from None
        except (openai.OpenAIError, Unreadable, ValueError, RecursionError) as error:
            raise Refused(f"wrong_answer: {self._cleaned(error)}") from None
        if (length := len(reply.text) + sum(len(arguments) for _, arguments in reply.tool_calls)) > _LONGEST_ANSWER:
            raise Refused(f"too_long: {length:,} characters")
        return reply

    def _cleaned(self, error: Exception) -> str:
        """Return an error's message on one line, without the key or anything similar."""
        text = str(getattr(error, "message", "")) or str(error) or type(error).__name__
        key = os.environ.get(self.endpoint.key_variable, "") if self.endpoint.key_variable else ""
        return in_one_line(_KEY.sub("…", text.replace(key, "…") if key else text))


def characters(messages: Sequence[Message], parameters: Mapping[str, Any]) -> int:
    """Return the length of a request as JSON."""
    return len(json.dumps([list(messages), dict(parameters)], ensure_ascii=False))
