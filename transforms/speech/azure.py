"""Azure AI Speech by its own SDK; with another endpoint, whatever speaks the same protocol."""

from __future__ import annotations

import atexit
import json
import logging
import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar
from xml.sax.saxutils import escape

from parapet.schemas.errors import InputError
from parapet.transforms import plugins
from parapet.transforms.refusals import Refused
from parapet.transforms.speech.azure_sdk import KEY_VARIABLE, Ear, Failed, Mouth, configuration, sdk, within
from parapet.transforms.speech.engine import RATE

if TYPE_CHECKING:
    from parapet.transforms.speech.engine import Samples

REGION_VARIABLE = "AZURE_SPEECH_REGION"

_VOICE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]+){2,3}(:[A-Za-z0-9]+)?")
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]+){1,2}")
_REGION = re.compile(r"[a-z0-9]+")
_ADDRESS = re.compile(r"(wss?)://([^\s/:@?#]+|\[[\da-f:]+\])(:\d+)?/?")
_HERE = ("localhost", "127.0.0.1", "[::1]")
_NO_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_WHOLE = RATE // 100  # Azure answers in steps of 10 ms: samples in one
_CLOSING = 5.0  # seconds that a client may take


class _Client(Protocol):
    """A :class:`Mouth` or an :class:`Ear`."""

    @property
    def fit(self) -> bool: ...

    def part(self) -> None: ...

    def close(self) -> None: ...


Client = TypeVar("Client", bound=_Client)
Answer = TypeVar("Answer")


class _Azure(Generic[Client]):
    """What the two have in common."""

    name: str

    def __init__(
        self,
        make: Callable[[Any], Client],
        region: str,
        endpoint: str,
        seconds: float,
        patience: float,
        first_wait: float,
        longest_wait: float,
        parallel: int,
        language: str,
    ) -> None:
        if region and not _REGION.fullmatch(region):
            raise InputError("is no region such as westeurope", "--azure_region", region)
        if endpoint and not _ADDRESS.fullmatch(endpoint):
            raise InputError("is no address such as wss://HOST or ws://127.0.0.1:5000", "--azure_endpoint")
        if not _LANGUAGE.fullmatch(language):
            raise InputError("is no language such as en-US", "language", language)
        if parallel < 1:
            raise InputError("must be at least 1", "parallel", str(parallel))
        self.region, self.endpoint, self.language = region, endpoint.rstrip("/"), language
        self.seconds, self.patience = seconds, patience
        self.first_wait, self.longest_wait = first_wait, longest_wait
        self.parallel = parallel
        self._make = make
        self._pool: _Pool[Client] | None = None
        self._down = False

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Creates one of the flags ``azure_region``, ``azure_endpoint`` and ``parallel_calls``."""
        given = {name: options[f"azure_{name}"] for name in ("region", "endpoint") if f"azure_{name}" in options}
        return cls(**given, parallel=plugins.parallel_calls(options))

    def open(self) -> None:
        """Loads the SDK; calls nobody yet.

        Raises:
          InputError: it is not installed, or there is no key, or neither region nor endpoint.
        """
        sdk()
        key, region = self._key(), self.region or os.environ.get(REGION_VARIABLE, "").strip()
        if not self.endpoint and not region:
            raise InputError(
                f"is not given: name the region of your Speech resource, or set {REGION_VARIABLE}", "--azure_region"
            )
        if not self.endpoint and not _REGION.fullmatch(region):
            raise InputError("is no region such as westeurope", REGION_VARIABLE)
        self.close()
        config = configuration(key, region, self.endpoint, self.language)
        make = self._make
        self._pool = _Pool(self.parallel, lambda: make(config))
        atexit.register(self.close)

    def close(self) -> None:
        """Closes the connections. A second call does nothing."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None
            atexit.unregister(self.close)

    def _key(self) -> str:
        """From the environment: it is never pickled, logged or shown."""
        key = os.environ.get(KEY_VARIABLE, "").strip()
        address = _ADDRESS.fullmatch(self.endpoint)
        if address and address[1] == "ws":
            # Unencrypted: the key does not leave this machine.
            return key if address[2] in _HERE else ""
        if not key:
            raise InputError("is not set: it must be a key of your Speech resource, on all workers", KEY_VARIABLE)
        return key

    def _answer(self, ask: Callable[[Client], Answer]) -> Answer:
        """The answer, after as many attempts as patience allows."""
        assert self._pool is not None, "open it first"
        until = time.monotonic() + (0 if self._down else self.patience)
        longest = self.first_wait
        while True:
            try:
                with self._pool.client() as client:
                    answer = ask(client)
            except Failed as failure:
                if not failure.passes:
                    raise failure.meaning() from None
                wait = random.uniform(0, min(longest, self.longest_wait))  # noqa: S311 (no secret)
                if time.monotonic() + wait >= until:
                    self._down = True
                    raise Refused(f"unavailable: {failure.cleaned}") from None
                logging.info("Azure Speech: %s; trying again", failure.cleaned)
                time.sleep(wait)
                longest *= 2
            else:
                self._down = False
                return answer


class AzureSynthesiser(_Azure[Mouth]):
    """Speaks with Azure's neural voices, one request a text.

    The key of the Speech resource is read from the environment variable ``AZURE_SPEECH_KEY`` on each worker: it is
    never pickled, and no message contains it.

    Transient errors (an outage, too many requests, a deadline, a broken connection) are retried with exponential
    backoff and jitter. The SDK itself retries once where no sound has come. Azure may charge for an answer that was
    lost on its way.

    Args:
      region: of the Speech resource, such as ``westeurope``; else ``AZURE_SPEECH_REGION`` has it.
      endpoint: ``wss://HOST`` in place of the region's own; or ``ws://HOST:PORT`` (a container, a local server)
        unencrypted, and without the key unless it is on this machine.
      seconds: the deadline of each attempt.
      patience: how long a request is retried, in seconds. After that, later requests have one attempt each until one
        succeeds, so that an outage is not waited out text by text.
      first_wait: the maximum wait before the second attempt, in seconds.
      longest_wait: the maximum wait before any attempt, in seconds.
      dollars_per_million: the list price of a million characters in neural voices, built in: check it.
      parallel: the maximum number of concurrent requests, each on a connection that is kept.
      language: of the text, where the voice knows several.

    Raises:
      InputError: an invalid argument.
    """

    name = "azure:neural"
    default_voice = "en-US-JennyNeural"

    def __init__(
        self,
        region: str = "",
        endpoint: str = "",
        seconds: float = 30,
        patience: float = 300,
        first_wait: float = 1,
        longest_wait: float = 32,
        dollars_per_million: float = 15.0,
        parallel: int = 1,
        language: str = "en-US",
    ) -> None:
        super().__init__(Mouth, region, endpoint, seconds, patience, first_wait, longest_wait, parallel, language)
        self.dollars_per_million = dollars_per_million

    def check(self, voices: list[str]) -> None:
        """Raises InputError for what cannot be the name of a voice; whether Azure has it, Azure alone knows."""
        for voice in voices:
            if not is_voice(voice):
                raise InputError(f"{voice!r} is no voice of Azure's, such as en-US-JennyNeural", "--voices")

    def speak(self, text: str, voice: str) -> Samples:
        """The sound of a text in a voice such as ``en-US-JennyNeural``.

        Raises:
          Refused: ``invalid``: Azure does not take this text or voice. ``empty_answer``: it was silent.
            ``unavailable``: it did not answer for as long as patience lasts. ``failed``: anything else.
          Stopped: ``credentials``, ``denied``, ``quota`` or ``not_found``.
        """
        import numpy as np

        ssml = self._ssml(text, voice)
        answer = self._answer(lambda mouth: mouth.ask(ssml, self.seconds))
        sound = np.frombuffer(answer[: len(answer) // 2 * 2], "<i2").astype(np.int16)
        if not sound.any():
            raise Refused(f"empty_answer: {'silence' if len(sound) else 'no sound'} from {voice}")
        return sound

    def _ssml(self, text: str, voice: str) -> str:
        if not is_voice(voice):
            raise Refused(f"invalid: {voice[:80]!r} is no voice such as en-US-JennyNeural")
        if not text.strip():
            raise Refused("invalid: there is nothing to speak")
        if _NO_XML.search(text):
            raise Refused("invalid: has characters that cannot be sent")
        spoken = escape(text, {'"': "&quot;", "'": "&apos;"})
        return (
            '<speak version="1.0" xmlns="http://www.w3.org/2001/10/synthesis" '
            f'xml:lang="{self.language}"><voice name="{voice}">{spoken}</voice></speak>'
        )


class AzureRecogniser(_Azure[Ear]):
    """Listens to one sound a request, up to its end: phrases that pauses part are joined.

    Key, retries and arguments are those of :class:`AzureSynthesiser`, but:

    Args:
      region: as there.
      endpoint: as there; Azure's own differ for the two (``wss://REGION.stt.speech.microsoft.com`` listens).
      seconds: the deadline of each try, beyond the length of the sound.
      patience: as there.
      first_wait: as there.
      longest_wait: as there.
      dollars_per_hour: the list price of an hour of sound in real time, built in: check it.
      parallel: as there. A connection is kept where Azure has answered for all of a sound; else something of it might
        be taken for the beginning of the next.
      language: of the speech.

    Raises:
      InputError: an invalid argument.
    """

    def __init__(
        self,
        region: str = "",
        endpoint: str = "",
        seconds: float = 30,
        patience: float = 300,
        first_wait: float = 1,
        longest_wait: float = 32,
        dollars_per_hour: float = 1.0,
        parallel: int = 1,
        language: str = "en-US",
    ) -> None:
        super().__init__(Ear, region, endpoint, seconds, patience, first_wait, longest_wait, parallel, language)
        self.name = f"azure:{language}"
        self.dollars_per_hour = dollars_per_hour

    def hear(self, sound: Samples) -> str:
        """The words (Azure's lexical form, no punctuation); empty where there are none.

        Raises:
          Refused: ``invalid``: Azure does not take this sound. ``unavailable``, ``failed``: as in
            :meth:`AzureSynthesiser.speak`.
          Stopped: as there.
        """
        import numpy as np

        if not len(sound):
            return ""
        # Azure could not answer for less than a step of its own.
        whole = np.pad(sound.astype("<i2"), (0, -len(sound) % _WHOLE)).tobytes()
        seconds = self.seconds + len(sound) / RATE
        answers = self._answer(lambda ear: ear.ask(whole, seconds))
        # The first of the best is the one that the service shows.
        phrases = [json.loads(answer)["NBest"][0]["Lexical"] for answer in answers]
        return " ".join(" ".join(phrases).split())


def is_voice(name: str) -> bool:
    """Whether it looks like the name of a voice; Azure alone knows whether it has it."""
    return _VOICE.fullmatch(name) is not None


# By the names that an engine's module has for them.
Synthesiser, Recogniser = AzureSynthesiser, AzureRecogniser


class _Pool(Generic[Client]):
    """Clients, as many as are needed at a time, kept for as long as they are fit."""

    def __init__(self, most: int, make: Callable[[], Client]) -> None:
        self._make = make
        self._room = threading.Semaphore(most)
        self._idle: list[Client] = []  # append and pop are atomic

    @contextmanager
    def client(self) -> Iterator[Client]:
        with self._room:
            client = self._take()
            try:
                yield client
            finally:
                if client.fit:
                    self._idle.append(client)
                else:
                    _leave(client)

    def close(self) -> None:
        while self._idle:
            client = self._idle.pop()
            client.part()
            with suppress(Failed, RuntimeError):  # the latter where no thread can be started any more
                within(_CLOSING, client.close)

    def _take(self) -> Client:
        with suppress(IndexError):
            while not (client := self._idle.pop()).fit:
                _leave(client)
            return client
        return self._make()


def _leave(client: _Client) -> None:
    """Closes it, without waiting for what hangs."""
    client.part()
    threading.Thread(target=client.close, daemon=True).start()
