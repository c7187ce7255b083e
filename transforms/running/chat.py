"""Language models behind an OpenAI-compatible endpoint: one client for whatever asks them.

Retries, ``Retry-After`` and deadlines are those of the ``openai`` package (extra ``llm``). Each answer is kept at once
in SQLite, by a hash of its request, so that a run that is cut off pays for nothing twice and a rerun gives the same.
The key is read from an environment variable where a request is sent: no file, log or message contains it.
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

if TYPE_CHECKING:
    from openai import OpenAI

Message = Mapping[str, str]  # role and content

_KEY = re.compile(r"\b(?:sk|key|Bearer)[-_ ][\w.*-]{6,}")
_LONGEST_ANSWER = 1 << 20  # characters
CHARACTERS_OF_TOKEN = 4  # about, in English


class Endpoint(msgspec.Struct, frozen=True):
    """Where a model answers, and how it is asked.

    Attributes:
      url: such as ``http://127.0.0.1:8080/v1``.
      model: its name there.
      key_variable: the environment variable that has the key; without one none is sent.
      max_calls: requests that may be sent in all; those that the cache answers do not count.
      seconds: the deadline of each attempt.
      retries: after rate limits, outages and broken connections.
      temperature: 0 asks for the likeliest answer. Endpoints need not be deterministic all the same.
      seed: sent along, where the server minds it.
      parallel: requests of a worker at a time.
      known_as: what kept answers go by, where the address differs from run to run.
      dollars: for a million tokens, of requests and of answers.
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
        """Dollars for so many tokens of requests and of answers."""
        return (sent * self.dollars[0] + answered * self.dollars[1]) / 1e6

    def check(self) -> None:
        """Raises InputError where a value cannot be used."""
        if not SERVER.fullmatch(self.url):
            raise InputError("is not an address such as http://127.0.0.1:8080/v1", "--endpoint", self.url)
        if not self.model.strip():
            raise InputError("is required: give the name of the model at the endpoint, such as gpt-4o-mini", "--model")
        if self.parallel < 1 or self.max_calls < 0 or self.seconds <= 0:
            raise InputError("calls and seconds must be positive numbers", "--endpoint")


class Reply(msgspec.Struct, frozen=True):
    """An answer.

    Attributes:
      text: what the model said; empty where it only calls tools.
      tool_calls: (name, arguments as JSON text) of each call.
      tokens: of the request and of the answer, as the server counts them; 0 where it does not.
      characters: of the request, for estimates of what others will take.
      kept: whether the cache had it.
    """

    text: str
    tool_calls: Sequence[tuple[str, str]] = ()
    tokens: tuple[int, int] = (0, 0)
    characters: int = 0
    kept: bool = False


class Chat:
    """Asks a model. It is pickled and sent to the workers; threads may share it.

    Args:
      endpoint: where, and how.
      cache: an SQLite file of all answers; None: nothing is kept.
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
        """Creates the client, and the cache. Raises MissingExtra without the package ``openai``."""
        try:
            from openai import OpenAI
        except ImportError:
            raise MissingExtra("openai", "llm") from None
        for name in ("httpx", "httpx2", "openai"):  # else a line for each request and retry
            logging.getLogger(name).setLevel(logging.WARNING)
        of = self.endpoint
        key = os.environ.get(of.key_variable, "") if of.key_variable else ""
        self._client = OpenAI(
            base_url=of.url, api_key=key or "none", timeout=of.seconds, max_retries=of.retries
        )  # the package wants a key, whatever the server does
        if self.cache:
            Path(self.cache).parent.mkdir(parents=True, exist_ok=True)
            self._kept = sqlite3.connect(self.cache, timeout=60, check_same_thread=False, isolation_level=None)
            self._kept.execute("PRAGMA journal_mode=WAL")
            self._kept.execute("CREATE TABLE IF NOT EXISTS answers (request TEXT PRIMARY KEY, answer TEXT NOT NULL)")

    def close(self) -> None:
        """Closes both. A second call does nothing."""
        if self._client is not None:
            self._client.close()
        if self._kept is not None:
            self._kept.close()
        self._client = self._kept = None

    def ask(self, messages: Sequence[Message], **parameters: Any) -> Reply:
        """What the model answers.

        Args:
          messages: the conversation so far.
          parameters: further ones of the chat completions API, such as ``tools`` or ``response_format``.

        Raises:
          Refused: ``invalid``, ``unavailable``, ``wrong_answer`` or ``too_long``: this request has no answer.
          Stopped: ``key``, ``denied``, ``address`` or ``max_calls``: no further one can have one.
        """
        of = self.endpoint
        request, name = self._request(messages, parameters)
        if kept := self._found(name):
            return kept
        with self._lock:
            if of.max_calls and self.calls >= of.max_calls:
                raise Stopped(
                    f"max_calls: {of.max_calls:,} calls were made; raise --max_calls, or run the same command again"
                )
            self.calls += 1
        try:
            reply = msgspec.structs.replace(self._send(request), characters=characters(messages, parameters))
        except (Refused, Stopped):
            spend(errors=1)
            raise
        spend(tokens=sum(reply.tokens), microdollars=round(1e6 * of.cost(*reply.tokens)))
        if self._kept is not None:
            with self._lock:
                self._kept.execute(
                    "INSERT OR IGNORE INTO answers VALUES (?, ?)", (name, msgspec.json.encode(reply).decode())
                )
        return reply

    def knows(self, messages: Sequence[Message], **parameters: Any) -> bool:
        """Whether the cache has the answer that :meth:`ask` would give."""
        return self._found(self._request(messages, parameters)[1]) is not None

    def _request(self, messages: Sequence[Message], parameters: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        """The body of a request, and the name of its answer in the cache."""
        of = self.endpoint
        request = {
            "model": of.model, "temperature": of.temperature, "seed": of.seed, **parameters, "messages": list(messages)
        }  # fmt: skip
        content = json.dumps([of.known_as or of.url, request], sort_keys=True).encode("utf-8", "surrogatepass")
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
            answer = self._client.chat.completions.create(**request)
            return _reply(answer)
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
        except (openai.OpenAIError, ValueError, AttributeError, TypeError, IndexError) as error:
            raise Refused(f"wrong_answer: {self._cleaned(error)}") from None

    def _cleaned(self, error: Exception) -> str:
        """A message in one line, without the key or anything like one."""
        text = str(getattr(error, "message", "")) or str(error) or type(error).__name__
        key = os.environ.get(self.endpoint.key_variable, "") if self.endpoint.key_variable else ""
        return in_one_line(_KEY.sub("…", text.replace(key, "…") if key else text))


def characters(messages: Sequence[Message], parameters: Mapping[str, Any]) -> int:
    """How long a request is, as far as a model reads it."""
    return len(json.dumps([list(messages), dict(parameters)], ensure_ascii=False))


def _reply(answer: Any) -> Reply:
    """The answer of the API. Raises Refused where there is none, or one that nobody can have wanted."""
    message = answer.choices[0].message
    text = _sound(message.content or "")
    calls = [
        (_sound(str(call.function.name)), _sound(str(call.function.arguments)))
        for call in message.tool_calls or ()
        if getattr(call, "function", None)
    ]
    if len(text) + sum(len(arguments) for _, arguments in calls) > _LONGEST_ANSWER:
        raise Refused(f"too_long: {len(text):,} characters")
    usage = answer.usage
    return Reply(text, calls, (usage.prompt_tokens or 0, usage.completion_tokens or 0) if usage else (0, 0))


def _sound(text: str) -> str:
    """Without halves of surrogate pairs, which no file can have."""
    return text.encode("utf-8", "replace").decode()
