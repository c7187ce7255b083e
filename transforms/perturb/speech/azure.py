"""Azure AI Speech through its SDK; with another endpoint, any service with the same protocol.

Each request has its own client and connection, so that no state is carried over from one sound to the next. Measured
with version 1.53 of the SDK, against a server on this machine:

- The SDK itself retries immediately, and only a few times. That is too short for an outage or a rate limit, so attempts
  are repeated here, with waits between them.
- After a close without a reason, or without a response, the SDK repeats a synthesis after 40 seconds, but a recognition
  may never end. So that has a deadline.
- A start takes half a second longer if the sound is available before it has finished. So the sound is sent afterwards.
- A callback into Python while it exits kills the process with a signal, and a recogniser that is not stopped blocks all
  others while it is released. So callbacks are disconnected, and recognisers stopped.
"""

from __future__ import annotations

import json
import logging
import os
import random
import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar
from xml.sax.saxutils import escape, quoteattr

from parapet.schemas.errors import InputError, MissingExtra
from parapet.transforms.core import fence, plugins
from parapet.transforms.perturb.speech.engine import RATE

if TYPE_CHECKING:
    from parapet.transforms.perturb.speech.engine import Samples

Answer = TypeVar("Answer")

KEY_VARIABLE, REGION_VARIABLE = "AZURE_SPEECH_KEY", "AZURE_SPEECH_REGION"
WAITS = 1.0, 32.0  # seconds: maximum before the second attempt, and before any later one
DEADLINE = 30.0  # seconds to answer for a sound, beside its length
_CLOSING = 5.0  # seconds to close a client

_VOICE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]+){2,3}(:[A-Za-z0-9]+)?")
_LANGUAGE = "en-US"
_REGION = re.compile(r"[a-z0-9]+")
# Without encryption, the key must not leave this machine.
_ADDRESS = re.compile(r"(wss://[^\s/:@?#]+|wss?://(localhost|127\.0\.0\.1|\[::1\]))(:\d+)?/?")

_STEP = RATE // 100  # samples in 10 ms, the time step of Azure's answers

# Azure closes connections as bad requests (1007) if it throttles them, or the quota is used up: https://github.com/
# Azure-Samples/cognitive-services-speech-sdk/issues/2785 and 1075.
_THROTTLED = r"(?!.*quota).*(throttl|too many requests)"
_TRANSIENT_CODES = frozenset(
    ["TooManyRequests", "ConnectionFailure", "ServiceTimeout", "ServiceError", "ServiceUnavailable", "RuntimeError"]
)
# Errors after which further requests would fail, too: a pattern of code and message, the reason, and what to do.
_STOPS = (
    (r".*quota", "quota", "wait until it is reset, or request a higher one"),
    (r".*(DNS resolution failed|hostname not found)", "no_host", "check the region, the endpoint and the network"),
    (r".*\(404\)", "not_found", "check the region, or the endpoint"),
    (
        r"Forbidden|AuthenticationFailure.*\(403\)",
        "denied",
        "check that the Speech resource is enabled for you and your network, and its quota not used up",
    ),
    (r"AuthenticationFailure", "credentials", f"check that {KEY_VARIABLE} is a key of a resource in this region"),
)
_FLAGS = re.IGNORECASE | re.DOTALL
_SECRETS = re.compile(r"\b[A-Za-z0-9+/]{32,}={0,2}|(?<![\w-])eyJ[\w-]+\.[\w.-]*|bearer +\S+|\b\w+://\S+", re.IGNORECASE)
_NOISE = re.compile(r"(SessionId|X-ConnectionId): *\w*|Content-Type: [^\n]*|USP state: .*|\[CALL STACK.*", re.DOTALL)


class _Transient(Exception):
    """An attempt failed, but another one may succeed."""


def _error(code: str, message: str) -> Exception:
    """Returns the exception for an error of Azure's: _Transient, Stopped or Refused.

    Args:
      code: the name of Azure's ``CancellationErrorCode``.
      message: Azure's message. Addresses, keys and tokens are removed from it.
    """
    cleaned, text = _cleaned(message) or code, f"{code} {message}"
    if re.match(_THROTTLED, text, _FLAGS):
        return _Transient(cleaned)
    for pattern, reason, advice in _STOPS:
        if re.match(pattern, text, _FLAGS):
            return fence.Stopped(f"{reason}: {cleaned}: {advice}")
    if code in _TRANSIENT_CODES:
        return _Transient(cleaned)
    return fence.Refused(f"invalid: {cleaned}" if code == "BadRequest" else f"failed: {cleaned} ({code})")


def _cleaned(message: str) -> str:
    return _SECRETS.sub("…", " ".join(_NOISE.sub("", message).split()))[:300]


def sdk() -> Any:
    """Imports the SDK. Raises MissingExtra if it is not installed."""
    try:
        import azure.cognitiveservices.speech as speech
    except ImportError:
        raise MissingExtra("azure-cognitiveservices-speech", "azure") from None
    return speech


class _Azure:
    """The common part of synthesiser and recogniser.

    The key of the Speech resource is read from the environment variable ``AZURE_SPEECH_KEY`` on each worker: it is
    never pickled, and no message contains it.

    Transient errors (an outage, too many requests, a broken connection) are retried with exponential backoff and
    jitter. Azure may charge for an answer that was lost on its way.

    Args:
      region: the region of the Speech resource, such as ``westeurope``; defaults to ``AZURE_SPEECH_REGION``.
      endpoint: ``wss://HOST`` instead of the region's own; or ``ws://127.0.0.1:PORT`` (a container, a local server).
        Azure's own differ for synthesis and recognition.
      patience: how long a request is retried, in seconds. After that, later requests have one attempt each until one
        succeeds, so that each text does not wait for the end of an outage.
      parallel: the maximum number of concurrent requests.

    Raises:
      InputError: an invalid argument.
    """

    def __init__(self, region: str = "", endpoint: str = "", patience: float = 300, parallel: int = 1) -> None:
        if region and not _REGION.fullmatch(region):
            raise InputError("is not a region such as westeurope", "--azure_region", region)
        if endpoint and not _ADDRESS.fullmatch(endpoint):
            raise InputError("is not an address such as wss://HOST or ws://127.0.0.1:5000", "--azure_endpoint")
        self.region, self.endpoint = region, endpoint.rstrip("/")
        self.patience, self.parallel = patience, parallel
        self._config: Any = None
        self._down = False

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Creates an object from the flags ``azure_region``, ``azure_endpoint`` and ``parallel_calls``."""
        settings = {name: options[f"azure_{name}"] for name in ("region", "endpoint") if f"azure_{name}" in options}
        return cls(**settings, parallel=plugins.parallel_calls(options))

    def open(self) -> None:
        """Loads the SDK, without any requests yet.

        Raises:
          InputError: the SDK is not installed, or the key, or both region and endpoint are missing.
        """
        speech = sdk()
        region = self.region or os.environ.get(REGION_VARIABLE, "").strip()
        if not self.endpoint and not _REGION.fullmatch(region):
            raise InputError(
                f"must be the region of your Speech resource, such as westeurope (or set {REGION_VARIABLE})",
                "--azure_region",
                region,
            )
        if not (key := os.environ.get(KEY_VARIABLE, "").strip()):
            raise InputError("is not set: it must be a key of your Speech resource, on all workers", KEY_VARIABLE)
        place = {"host": self.endpoint} if self.endpoint else {"region": region}
        config = speech.SpeechConfig(subscription=key, **place)
        config.speech_recognition_language = _LANGUAGE
        config.output_format = speech.OutputFormat.Detailed
        config.set_profanity(speech.ProfanityOption.Raw)
        config.set_speech_synthesis_output_format(speech.SpeechSynthesisOutputFormat.Raw16Khz16BitMonoPcm)
        config.set_property_by_name("SPEECH-TransmitLengthBeforThrottleMs", "86400000")  # sic, in the SDK
        config.set_property_by_name("SPEECH-Error-MaxRetryCount", "0")
        self._config = config

    def close(self) -> None:
        """Forgets the key. A second call does nothing."""
        self._config = None

    def _answer(self, ask: Callable[[], Answer]) -> Answer:
        """Returns the answer, retrying until patience runs out."""
        until = time.monotonic() + (0 if self._down else self.patience)
        longest, limit = WAITS
        while True:
            try:
                answer = ask()
            except (_Transient, RuntimeError) as error:  # the SDK itself raises RuntimeError
                reason = _cleaned(str(error))
                wait = random.uniform(0, min(longest, limit))  # noqa: S311 (not a secret)
                if time.monotonic() + wait >= until:
                    self._down = True
                    raise fence.Refused(f"unavailable: {reason}") from None
                logging.info("Azure Speech: %s; trying again", reason)
                time.sleep(wait)
                longest *= 2
            else:
                self._down = False
                return answer


class AzureSynthesiser(_Azure):
    """Synthesises speech with Azure's neural voices, with one request per text.

    Attributes:
      dollars_per_million: the built-in list price of a million characters in neural voices, which may be outdated.
    """

    name = "azure:neural"
    default_voice = "en-US-JennyNeural"
    dollars_per_million = 15.0

    def check(self, voices: list[str]) -> None:
        """Raises InputError if a name cannot be that of a voice; only Azure knows whether it exists."""
        for voice in voices:
            if not _VOICE.fullmatch(voice):
                raise InputError(f"{voice!r} is not a voice of Azure's, such as en-US-JennyNeural", "--voices")

    def speak(self, text: str, voice: str) -> Samples:
        """Synthesises a text in a voice such as ``en-US-JennyNeural``.

        Raises:
          Refused: ``invalid``: Azure does not take this text or voice. ``empty_answer``: it was silent.
            ``unavailable``: it did not answer for as long as patience lasts. ``failed``: anything else.
          Stopped: ``credentials``, ``denied``, ``quota``, ``no_host`` or ``not_found``.
        """
        import numpy as np

        ssml = (
            f'<speak version="1.0" xmlns="http://www.w3.org/2001/10/synthesis" xml:lang="{_LANGUAGE}">'
            f"<voice name={quoteattr(voice)}>{escape(text)}</voice></speak>"
        )
        answer = self._answer(lambda: self._synthesise(ssml))
        sound = np.frombuffer(answer[: len(answer) // 2 * 2], "<i2").astype(np.int16)
        if not sound.any():
            raise fence.Refused(f"empty_answer: {'silence' if len(sound) else 'no sound'} from {voice}")
        return sound

    def _synthesise(self, ssml: str) -> bytes:
        synthesiser = sdk().SpeechSynthesizer(self._config, None)  # must outlive the request
        result = synthesiser.speak_ssml_async(ssml).get()
        if details := result.cancellation_details:
            raise _error(details.error_code.name, details.error_details)
        sound: bytes = result.audio_data
        return sound


class AzureRecogniser(_Azure):
    """Recognises one sound per request up to its end; phrases separated by pauses are joined.

    Attributes:
      dollars_per_hour: the built-in list price of an hour of sound in real time, which may be outdated.
    """

    name = f"azure:{_LANGUAGE}"
    dollars_per_hour = 1.0

    def hear(self, sound: Samples) -> str:
        """Recognises a sound; returns words (Azure's lexical form, no punctuation), or an empty string without any.

        Raises:
          Refused: ``invalid``: Azure does not take this sound. ``unavailable``, ``failed``: as in
            :meth:`AzureSynthesiser.speak`.
          Stopped: as there.
        """
        import numpy as np

        if not len(sound):
            return ""
        # Azure cannot answer for a sound shorter than its time step.
        whole = np.pad(sound.astype("<i2"), (0, -len(sound) % _STEP)).tobytes()
        answers = self._answer(lambda: _Ear(self._config).hear(whole))
        # the first of equally good hypotheses is the one that the service shows
        return " ".join(word for answer in answers for word in answer["NBest"][0]["Lexical"].split())


class _Ear:
    """A recogniser for one sound, up to its end: all phrases, whatever the pauses."""

    # No local variable may hold the recogniser: exceptions keep frames alive, which would delay its release.

    def __init__(self, config: Any) -> None:
        audio = sdk().audio
        # The stream must outlive the recogniser, which reads from it.
        self._stream: Any = audio.PushAudioInputStream(
            audio.AudioStreamFormat(samples_per_second=RATE, bits_per_sample=16, channels=1)
        )
        self._recogniser: Any = sdk().SpeechRecognizer(config, audio.AudioConfig(stream=self._stream))
        self._events = _Events()
        self._recogniser.recognized.connect(self._events.recognised)
        self._recogniser.canceled.connect(self._events.cancelled)
        self._recogniser.session_stopped.connect(self._events.stopped)

    def hear(self, sound: bytes) -> list[dict[str, Any]]:
        """Returns the service's answer for each phrase. Raises the error for which it cannot answer."""
        events, is_done = self._events, False
        try:
            self._recogniser.start_continuous_recognition_async().get()
            self._stream.write(sound)
            self._stream.close()
            if not events.over.wait(len(sound) / (2 * RATE) + DEADLINE):
                raise _Transient("no answer in time")
            if events.failure:
                raise _error(*events.failure)
            is_done = True
            return events.phrases
        finally:
            for signal in ("recognized", "canceled", "session_stopped"):
                getattr(self._recogniser, signal).disconnect_all()
            closing = threading.Thread(target=self._close, daemon=True)
            closing.start()
            if is_done:  # takes long after a failure
                closing.join(_CLOSING)

    def _close(self) -> None:
        with suppress(RuntimeError):
            self._recogniser.stop_continuous_recognition_async().get()
        self._recogniser = self._stream = None


class _Events:
    """Events of the SDK for one sound, from its own threads; has no reference to the recogniser, to avoid a cycle."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.phrases: list[dict[str, Any]] = []
        self.failure: tuple[str, str] | None = None

    def recognised(self, event: Any) -> None:
        answer = json.loads(event.result.json)
        if answer["RecognitionStatus"] == "Success":
            self.phrases.append(answer)

    def cancelled(self, event: Any) -> None:
        details = event.cancellation_details
        if details.reason.name == "Error":
            self.failure = details.code.name, details.error_details
            self.over.set()

    def stopped(self, _: Any) -> None:
        self.over.set()


# The names that the module of an engine must define.
Synthesiser, Recogniser = AzureSynthesiser, AzureRecogniser
