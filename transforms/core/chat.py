"""A client for language models behind an OpenAI-compatible endpoint.

A request has one of three ends: an answer, an answer that cannot be read (``Unreadable``), or no answer (``Refused``,
or ``Stopped`` if further requests would fail, too). Each answer is cached immediately in SQLite, by a hash of what was
asked, so that a rerun gives the same answers and pays for none of them again; only calls that were in flight when a run
was killed are sent, and paid for, again. The key is read from an environment variable when a request is sent: no file,
log or message contains it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from parapet.schemas.errors import InputError
from parapet.transforms.core.exchange import QUOTA, UNREACHABLE, Answer, Exchange
from parapet.transforms.core.fence import SERVER, THIS_MACHINE, Refused, Stopped, in_one_line
from parapet.transforms.core.progress import spend
from parapet.transforms.core.replies import Reply, Unreadable, read_reply

Message = Mapping[str, str]  # role and content

_KEY = re.compile(r"\b(?:sk|key|Bearer)[-_ ][\w.*-]{6,}")
_LONGEST_ANSWER = 1 << 20  # characters
CHARACTERS_OF_TOKEN = 4  # approximate, for English
MOST_ALIKE = 10  # equal refusals in a row that end a run
_VARYING = re.compile(r"\w*\d\w*")  # ids and numbers, in which the messages of equal refusals may differ
_TABLES = """
CREATE TABLE IF NOT EXISTS answers (request TEXT PRIMARY KEY, answer TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS left_out (model TEXT, parameter TEXT, PRIMARY KEY (model, parameter));
"""


class Endpoint(msgspec.Struct, frozen=True):
    """The endpoint of a model, and the parameters of requests.

    Attributes:
      url: such as ``http://127.0.0.1:8080/v1``.
      model: the model's name at the endpoint.
      key_variable: the environment variable with the key; if empty, no key is sent.
      insecure_key: whether the key may be sent over plain http to another machine.
      max_calls: maximum number of requests, not counting answers from the cache.
      seconds: the timeout of each attempt, from the connection to the last byte of the answer.
      retries: number of retries after rate limits, outages and broken connections.
      temperature: 0 requests the most likely answer; endpoints may still not be deterministic. None: not sent.
      seed: sent with each request; the server may ignore it.
      max_tokens: the limit of each answer; 0 for that of the task, None: not sent.
      extra_body: further parameters of each request, sent as they are.
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
    temperature: float | None = 0
    seed: int = 0
    parallel: int = 4
    dollars: tuple[float, float] = (0, 0)
    known_as: str = ""
    max_tokens: int | None = 0
    extra_body: dict[str, Any] = {}
    insecure_key: bool = False

    @property
    def key(self) -> str:
        """The key; empty if there is none."""
        return os.environ.get(self.key_variable, "").strip() if self.key_variable else ""

    @property
    def is_local(self) -> bool:
        """Whether the address is the loopback interface of this machine."""
        return urlsplit(self.url).hostname in THIS_MACHINE

    def cost(self, sent: int, answered: int) -> float:
        """Return the cost in dollars for numbers of tokens in requests and answers."""
        return (sent * self.dollars[0] + answered * self.dollars[1]) / 1e6

    def parameters(self) -> dict[str, object]:
        """Return the parameters that the user chose, for ``run.json``."""
        chosen = {"max_tokens": self.max_tokens, "extra_body": self.extra_body}
        defaults = {"max_tokens": 0, "extra_body": {}}
        return {"temperature": self.temperature} | {k: v for k, v in chosen.items() if v != defaults[k]}

    def check(self) -> None:
        """Raise InputError if a value is invalid."""
        if not SERVER.fullmatch(self.url):
            raise InputError("is not an address such as http://127.0.0.1:8080/v1", "--endpoint", self.url)
        if not self.model.strip():
            raise InputError("is required: give the name of the model at the endpoint, such as gpt-4o-mini", "--model")
        if self.parallel < 1 or self.max_calls < 0 or self.seconds <= 0:
            raise InputError("calls and seconds must be positive numbers", "--endpoint")
        if not (self.key.isascii() and self.key.isprintable()):
            raise InputError(f"the key in {self.key_variable} has characters that no key has", "--key_variable")
        if self.url.startswith("http:") and self.key and not (self.is_local or self.insecure_key):
            raise InputError(
                f"would get the key in {self.key_variable} unencrypted: give an address with https, send no key "
                "(--key_variable ''), or allow it with --insecure_key",
                "--endpoint",
                self.url,
            )


class Chat:
    """A client for a model. It is pickled and sent to the workers; threads may share it.

    Args:
      endpoint: the endpoint and its parameters.
      cache: an SQLite file of all answers; None for no cache.

    Attributes:
      left_out: the parameters that the endpoint does not take, which are left out of all requests.
    """

    def __init__(self, endpoint: Endpoint, cache: str | Path | None = None) -> None:
        endpoint.check()
        self.endpoint, self.cache = endpoint, str(cache) if cache else None
        self._exchange: Exchange | None = None
        self._kept: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self._alike = ("", 0)  # the last refusal, and how many equal ones there were in a row
        self.left_out: set[str] = set()
        self.calls = 0

    def __getstate__(self) -> dict[str, Any]:
        return {"endpoint": self.endpoint, "cache": self.cache}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__init__(state["endpoint"], state["cache"])  # type: ignore[misc]

    def open(self) -> None:
        """Create the client and the cache. Raises MissingExtra without the package ``httpx``."""
        endpoint = self.endpoint
        url = f"{endpoint.url.rstrip('/')}/chat/completions"
        self._exchange = Exchange(url, endpoint.key, endpoint.seconds, uses_proxies=not endpoint.is_local)
        if self.cache:
            Path(self.cache).parent.mkdir(parents=True, exist_ok=True)
            self._kept = sqlite3.connect(self.cache, timeout=60, check_same_thread=False, isolation_level=None)
            self._kept.execute("PRAGMA journal_mode=WAL")
            self._kept.executescript(_TABLES)
            rows = self._kept.execute("SELECT parameter FROM left_out WHERE model = ?", (self._name,))
            self.left_out.update(name for (name,) in rows)

    @property
    def _name(self) -> str:
        return f"{self.endpoint.known_as or self.endpoint.url} {self.endpoint.model}"

    def close(self) -> None:
        """Close client and cache. A second call does nothing."""
        if self._exchange is not None:
            self._exchange.close()
        if self._kept is not None:
            self._kept.close()
        self._exchange = self._kept = None

    def ask(self, messages: Sequence[Message], repetition: int = 0, /, **parameters: Any) -> Reply:
        """Return the model's answer.

        Args:
          messages: the conversation so far.
          repetition: the number of this answer, from 0, of several independent answers to the same request.
          parameters: further parameters of the chat completions API, such as ``tools`` or ``response_format``.

        Raises:
          Unreadable: the answer is too long, or no chat completion.
          Refused: ``invalid``, ``unavailable`` or ``wrong_answer``: there is no answer to this request.
          Stopped: ``key``, ``denied``, ``quota``, ``address``, ``max_calls``, or a refusal that was repeated: further
            requests would fail, too.
        """
        endpoint = self.endpoint
        request, name = self._request(messages, parameters, repetition)
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
        except (Refused, Stopped, Unreadable) as error:
            spend(errors=1)
            self._count_refusal("" if isinstance(error, Unreadable) else str(error))
            raise
        self._count_refusal("")
        spend(tokens=sum(reply.tokens), microdollars=round(1e6 * endpoint.cost(*reply.tokens)))
        if self._kept is not None:
            with self._lock:
                self._kept.execute(
                    "INSERT OR IGNORE INTO answers VALUES (?, ?)", (name, msgspec.json.encode(reply).decode())
                )
        return reply

    def _count_refusal(self, reason: str) -> None:
        """Count equal refusals in a row; an answer, with an empty reason, ends them. Raises Stopped if too many."""
        with self._lock:
            kind = _VARYING.sub("", reason)
            self._alike = kind, self._alike[1] + 1 if kind == self._alike[0] else 1
            if reason and self._alike[1] >= MOST_ALIKE:
                raise Stopped(f"{reason} ({self._alike[1]} requests in a row)") from None

    def knows(self, messages: Sequence[Message], repetition: int = 0, /, **parameters: Any) -> bool:
        """Whether the cache has the answer to this request."""
        return self._found(self._request(messages, parameters, repetition)[1]) is not None

    def _request(
        self, messages: Sequence[Message], parameters: Mapping[str, Any], repetition: int = 0
    ) -> tuple[dict[str, Any], str]:
        """Return the body of a request as it was asked for, and the key of its answer in the cache.

        Each repetition has another seed, as a server that respects seeds would repeat its answer.
        """
        endpoint = self.endpoint
        request: dict[str, Any] = {
            "model": endpoint.model,
            "temperature": endpoint.temperature,
            "seed": endpoint.seed + repetition,
            **parameters,
            "messages": list(messages),
        }
        request |= {"temperature": None} if endpoint.temperature is None else {}
        request |= {} if endpoint.max_tokens == 0 else {"max_tokens": endpoint.max_tokens}
        request = {name: value for name, value in request.items() if value is not None} | endpoint.extra_body
        known = [endpoint.known_as or endpoint.url, request, *([repetition] if repetition else [])]
        content = json.dumps(known, sort_keys=True).encode("utf-8", "surrogatepass")
        return request, hashlib.sha256(content).hexdigest()

    def _found(self, name: str) -> Reply | None:
        if self._kept is None:
            return None
        with self._lock:
            row = self._kept.execute("SELECT answer FROM answers WHERE request = ?", (name,)).fetchone()
        return msgspec.structs.replace(msgspec.json.decode(row[0], type=Reply), kept=True) if row else None

    def _send(self, request: dict[str, Any]) -> Reply:
        """Send a request, again after failures that may pass, and without parameters that the endpoint refuses."""
        assert self._exchange is not None, "open it first"
        is_gone = self._alike[0].startswith(f"unavailable: {UNREACHABLE}")  # the last request has waited long enough
        failures, retries = 0, 0 if is_gone else self.endpoint.retries
        while True:
            sent = self._without_left_out(request)
            answer = self._exchange.post(sent)
            if not answer.reason:
                return _limited(read_reply(answer.body))
            if name := answer.refused_parameter(sent):
                self._leave_out(name)
            elif failures < answer.retries(retries):
                time.sleep(answer.wait(failures))
                failures += 1
            else:
                raise self._refusal(answer)

    def _without_left_out(self, request: Mapping[str, Any]) -> dict[str, Any]:
        left_out = set(self.left_out)
        sent = {name: value for name, value in request.items() if name not in left_out}
        if "max_tokens" in left_out and "max_tokens" in request and "max_completion_tokens" not in left_out:
            sent.setdefault("max_completion_tokens", request["max_tokens"])  # its newer name
        return sent

    def _leave_out(self, parameter: str) -> None:
        """Leave a parameter out of this and all later requests, also in later runs with the same cache."""
        with self._lock:
            self.left_out.add(parameter)
            if self._kept is not None:
                self._kept.execute("INSERT OR IGNORE INTO left_out VALUES (?, ?)", (self._name, parameter))

    def _refusal(self, answer: Answer) -> Refused | Stopped:
        """Return the error for a request without an answer, in the endpoint's own words."""
        endpoint, status = self.endpoint, answer.status
        text = answer.reason.replace(endpoint.key, "…") if endpoint.key else answer.reason
        text = in_one_line(_KEY.sub("…", text))
        if status == 401:
            return Stopped(f"key: {text}" + (f": set {endpoint.key_variable}" if endpoint.key_variable else ""))
        if status == 403:
            return Stopped(f"denied: {text}")
        if status == 402 or answer.code in QUOTA:
            return Stopped(f"quota: {text}")
        if status == 404:
            return Stopped(f"address: {endpoint.url} has no such model or path: {text}")
        if 300 <= status < 400:
            return Stopped(f"address: {endpoint.url}: {text}: give that address if you trust it")
        if status == 200:
            return Refused(f"wrong_answer: {text}")
        return Refused(f"{'unavailable' if answer.may_pass else 'invalid'}: {text}")


def characters(messages: Sequence[Message], parameters: Mapping[str, Any]) -> int:
    """Return the length of a request as JSON."""
    return len(json.dumps([list(messages), dict(parameters)], ensure_ascii=False))


def _limited(reply: Reply) -> Reply:
    """Return the reply. Raises Unreadable if it is too long."""
    length = len(reply.text) + sum(len(arguments) for _, arguments in reply.tool_calls)
    if length > _LONGEST_ANSWER:
        raise Unreadable(f"too_long: {length:,} characters")
    return reply
