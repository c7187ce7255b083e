"""Azure's Speech SDK at arm's length: each call has a deadline, and nothing of one sound is left in the next.

What was measured of version 1.53, against a server on this machine:

- After a close without a reason, or without an answer, a call takes 70 seconds to fail, and a stop 10. So each runs in
  a thread that can be left behind.
- A start takes half a second longer where the sound is read before the start is over. So the sound is held until then.
- A recogniser keeps sound until the service has answered for it, and sends it again at the next start, before the next
  sound. Whatever is left, be it a millisecond, shifts or loses all later answers without an error. So a recogniser is
  used again only where the service has answered up to the last sample.
- A callback into Python while it exits ends the process by a signal. So callbacks are taken off first.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from parapet.schemas.errors import MissingExtra
from parapet.transforms.refusals import Refused, Stopped

Answer = TypeVar("Answer")


_TICKS = 625  # of 100 ns, a sample
_UNTHROTTLED = "SPEECH-TransmitLengthBeforThrottleMs"  # their spelling
_RETRIES = "SPEECH-Error-MaxRetryCount"
_ANSWERED = "SPEECH-UspContinuationOffset"
_LONG = "86400000"


KEY_VARIABLE = "AZURE_SPEECH_KEY"

DEADLINE, STALE, BROKEN = "Deadline", "Stale", "Broken"  # codes of our own, beside Azure's

_PASSING = {
    *(DEADLINE, STALE, BROKEN),
    *("TooManyRequests", "ConnectionFailure", "ServiceTimeout", "ServiceError", "ServiceUnavailable", "RuntimeError"),
}
# Azure closes connections as bad requests (1007) for these, too: https://github.com/Azure-Samples/
# cognitive-services-speech-sdk/issues/2785 and 1075.
_QUOTA = re.compile(r"quota", re.IGNORECASE)
_THROTTLED = re.compile(r"throttl|too many requests", re.IGNORECASE)

_NO_HOST = re.compile(r"DNS resolution failed|hostname not found", re.IGNORECASE)

_SECRETS = re.compile(r"\b[A-Za-z0-9+/]{32,}={0,2}|(?<![\w-])eyJ[\w-]+\.[\w.-]*|bearer +\S+|\b\w+://\S+", re.IGNORECASE)
_NOISE = re.compile(r"(SessionId|X-ConnectionId): *\w*|Content-Type: [^\n]*|USP state: .*|\[CALL STACK.*", re.DOTALL)


class Failed(Exception):
    """An attempt failed.

    Args:
      code: the name of Azure's ``CancellationErrorCode``, or one of ours.
      message: Azure's. It may contain the address or a key: show only ``cleaned``.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code)
        self.code, self.message = code, message

    @property
    def passes(self) -> bool:
        """Whether the error is transient."""
        if _THROTTLED.search(self.message) and not _QUOTA.search(self.message):
            return True
        if _NO_HOST.search(self.message):
            return False
        return self.code in _PASSING and not _QUOTA.search(self.message) and "(404)" not in self.message

    @property
    def cleaned(self) -> str:
        """Azure's message, in one line, without addresses or anything that looks like a key or token."""
        key = os.environ.get(KEY_VARIABLE, "").strip()
        message = self.message.replace(key, "…") if key else self.message
        return _SECRETS.sub("…", " ".join(_NOISE.sub("", message).split()))[:300] or self.code

    def meaning(self) -> Refused | Stopped:
        """The meaning of an error that a retry would not change."""
        if _QUOTA.search(self.message):
            return Stopped(f"quota: {self.cleaned}: wait until it is reset, or request a higher one")
        if _NO_HOST.search(self.message):
            return Stopped("no_host: there is no such address: check the region, the endpoint and the network")
        if "(404)" in self.message:
            return Stopped(f"not_found: {self.cleaned}: check the region, or the endpoint")
        if self.code == "Forbidden" or (self.code == "AuthenticationFailure" and "(403)" in self.message):
            advice = "check that the Speech resource is enabled for you and your network, and its quota not used up"
            return Stopped(f"denied: {self.cleaned}: {advice}")
        if self.code == "AuthenticationFailure":
            advice = f"check that {KEY_VARIABLE} is a key of a Speech resource in this region"
            return Stopped(f"credentials: Azure rejects them ({self.cleaned}): {advice}")
        if self.code == "BadRequest":
            return Refused(f"invalid: {self.cleaned}")
        return Refused(f"failed: {self.cleaned} ({self.code})")


def sdk() -> Any:
    """The SDK.

    Raises:
      InputError: it is not installed.
    """
    try:
        import azure.cognitiveservices.speech as speech
    except ImportError:
        raise MissingExtra("azure-cognitiveservices-speech", "azure") from None
    return speech


def configuration(key: str, region: str, host: str, language: str) -> Any:
    """What clients are made of: Azure in a region, or a host that speaks the same."""
    speech = sdk()
    place = {"host": host} if host else {"region": region}
    made = speech.SpeechConfig(**place, **({"subscription": key} if key else {}))
    made.speech_recognition_language = language
    made.output_format = speech.OutputFormat.Detailed
    made.set_profanity(speech.ProfanityOption.Raw)
    made.set_speech_synthesis_output_format(speech.SpeechSynthesisOutputFormat.Raw16Khz16BitMonoPcm)
    made.set_property_by_name(_UNTHROTTLED, _LONG)
    made.set_property_by_name(_RETRIES, "0")
    return made


def within(seconds: float, work: Callable[[], Answer]) -> Answer:
    """What ``work`` returns; after so many seconds it is left behind.

    Raises:
      Failed: it took longer, or the SDK broke.
    """
    outcome: Future[Answer] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    # A pool's threads would be waited for when the process ends.
    threading.Thread(target=run, daemon=True).start()
    try:
        return outcome.result(max(0.0, seconds))
    except TimeoutError:
        raise Failed(DEADLINE, "no answer in time") from None
    except RuntimeError as error:  # the SDK's only exception
        raise Failed(BROKEN, str(error)) from None


class Mouth:
    """One synthesiser, with one connection.

    Attributes:
      fit: whether it may be used again.
    """

    def __init__(self, config: Any) -> None:
        self.fit = True
        self._synthesiser: Any = sdk().SpeechSynthesizer(config, None)

    def ask(self, ssml: str, seconds: float) -> bytes:
        """Its sound.

        Raises:
          Failed: there is none.
        """
        self.fit = False
        result = within(seconds, lambda: self._synthesiser.speak_ssml_async(ssml).get())
        if details := result.cancellation_details:
            raise Failed(details.error_code.name, details.error_details)
        self.fit = True
        sound: bytes = result.audio_data
        return sound

    def part(self) -> None:
        """Nothing is to be done, as it calls nobody."""

    def close(self) -> None:
        """Closes it, which may take a while."""
        self._synthesiser = None


class Ear:
    """One recogniser, with one connection, which hears a sound to its end: all its phrases, whatever the pauses."""

    # No local variable may have the recogniser: frames live on in exceptions, and it would go when and where they do.

    def __init__(self, config: Any) -> None:
        speech = sdk()
        self._source, self._events = _Source(), _Events()
        # The stream must outlive the recogniser: it would be read without.
        self._stream: Any = speech.audio.PullAudioInputStream(
            self._source, speech.audio.AudioStreamFormat(samples_per_second=16_000, bits_per_sample=16, channels=1)
        )
        self._recogniser: Any = speech.SpeechRecognizer(config, speech.audio.AudioConfig(stream=self._stream))
        self._recogniser.recognized.connect(self._events.recognised)
        self._recogniser.canceled.connect(self._events.cancelled)
        self._recogniser.session_stopped.connect(self._events.stopped)
        self._fit, self._end = True, 0

    @property
    def fit(self) -> bool:
        """Whether it may hear another sound. A connection may break after the answer, too."""
        return self._fit and self._events.failure is None

    def ask(self, sound: bytes, seconds: float) -> list[str]:
        """The service's answer for each phrase, as JSON.

        Raises:
          Failed: it has none for this sound.
        """
        self._fit = False
        over = time.monotonic() + seconds
        start, self._end = self._end, self._end + len(sound) // 2 * _TICKS
        self._events.clear()
        self._source.hold(sound)
        within(over - time.monotonic(), self._start)
        self._source.let_go()
        if not self._events.over.wait(max(0.0, over - time.monotonic())):
            raise Failed(DEADLINE, "no answer in time")
        if self._events.failure:
            raise Failed(*self._events.failure)
        within(over - time.monotonic(), self._stop)
        if any(not start <= offset <= self._end for offset, _ in self._events.phrases):
            raise Failed(STALE, "the answer to another sound")
        self._fit = self._recogniser.properties.get_property_by_name(_ANSWERED) == str(self._end)
        return [answer for _, answer in self._events.phrases]

    def part(self) -> None:
        """Takes it off whatever it is at: it calls nobody any more."""
        self._recogniser.recognized.disconnect_all()
        self._recogniser.canceled.disconnect_all()
        self._recogniser.session_stopped.disconnect_all()
        self._source.hold(b"")
        self._source.let_go()

    def close(self) -> None:
        """Closes it, which may take a while."""
        # What is not stopped first holds up all others in the process while it goes.
        with suppress(RuntimeError):
            self._stop()
        self._recogniser = None
        self._stream = None

    def _start(self) -> None:
        self._recogniser.start_continuous_recognition_async().get()

    def _stop(self) -> None:
        self._recogniser.stop_continuous_recognition_async().get()


class _Source:
    """What the SDK reads. Their own class for it is loaded with the SDK only, and adds nothing."""

    def __init__(self) -> None:
        self._sound = memoryview(b"")
        self._held = threading.Event()

    def hold(self, sound: bytes) -> None:
        self._held.clear()
        self._sound = memoryview(sound)

    def let_go(self) -> None:
        self._held.set()

    def read(self, buffer: memoryview) -> int:
        self._held.wait()
        part, self._sound = self._sound[: len(buffer)], self._sound[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)

    def get_property(self, _: Any) -> str:
        return ""

    def close(self) -> None:
        pass


class _Events:
    """What the SDK tells of one sound, by threads of its own. It knows no recogniser, else neither would ever go."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.clear()

    def clear(self) -> None:
        self.phrases: list[tuple[int, str]] = []
        self.failure: tuple[str, str] | None = None
        self.over.clear()

    def recognised(self, event: Any) -> None:
        if json.loads(event.result.json)["RecognitionStatus"] == "Success":
            self.phrases.append((event.result.offset, event.result.json))

    def cancelled(self, event: Any) -> None:
        details = event.cancellation_details
        if details.reason.name == "Error":
            self.failure = details.code.name, details.error_details
            self.over.set()

    def stopped(self, _: Any) -> None:
        self.over.set()
