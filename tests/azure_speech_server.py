"""Azure's speech service on this machine: its WebSocket protocol for both ways, and faults by order.

``with AzureSpeechServer(faults=["503", "", "stall"]) as server: AzureRecogniser(endpoint=server.url)``.

What it speaks is no speech: the text's bytes are spread over the samples, so that it hears what was said, through noise
too. Without a fault it hears all of it down to about 0 dB SNR.
"""

import json
import logging
import re
import socket
import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request as Handshake
from websockets.http11 import Response
from websockets.sync.server import ServerConnection, serve

KEY = "a0b1c2d3e4f5061728394a5b6c7d8e9f"  # the one it takes
PCM = "raw-16khz-16bit-mono-pcm"
SPEAKING, LISTENING = "/cognitiveservices/websocket/v1", "/speech/recognition/"

# Faults of the handshake: status, and what the answer says.
_SAID = {
    **{400: "Bad request.", 401: "Access denied due to invalid subscription key or wrong API endpoint."},
    **{403: "Access denied: the resource may not be used.", 404: "Nothing is here.", 429: "Too many requests."},
    **{500: "Internal error.", 503: "Service unavailable."},
}
HANDSHAKE = {str(status): (status, said) for status, said in _SAID.items()}
# Those that close the connection of a request: code, and why. Azure closes for quotas so, too.
CLOSED = {
    "1000": (1000, ""),
    "1007": (1007, "The request is invalid."),
    "quota": (1007, "Quota exceeded."),
    "throttled": (1007, "Throttled due to too many requests"),
    "1011": (1011, "Internal error."),
}
# Others of a request. stall: no answer; cut: half of one, then nobody is there; nothing: no phrase, or no sound;
# silence, babble: no phrase because of them, or silent sound; tail: no answer for the last 0.2 s, whatever comes.

Samples = NDArray[np.int16]
Faults = Sequence[str] | Callable[[], str]


# Bytes as sound: a known beginning, two blocks a byte (one of 16 codes each), a NUL.
_BLOCK, _LOUD = 32, 6_000
_SIGNS = np.random.default_rng(7).choice([-1, 1], 512 + _BLOCK)
_BEGINNING = _SIGNS[:512]
_HADAMARD = np.array([[(-1) ** (i & j).bit_count() for j in range(_BLOCK)] for i in range(16)])
_CODES = _HADAMARD * _SIGNS[512:]


def sound_of(text: str) -> Samples:
    """16,000 samples a second; 4 ms a letter after 32 ms."""
    nibbles = [half for byte in (*text.encode(), 0) for half in (byte >> 4, byte & 15)]
    return (_LOUD * np.concatenate([_BEGINNING, *(_CODES[nibble] for nibble in nibbles)])).astype(np.int16)


def text_of(sound: Samples) -> tuple[str, float]:
    """What was said, and its SNR in dB; nothing where nothing was."""
    heard = sound.astype(float)
    if len(heard) < len(_BEGINNING) + 2 * _BLOCK:
        return "", 0.0
    likeness = np.correlate(heard, _BEGINNING, "valid") / len(_BEGINNING)
    start = int(likeness.argmax())
    if likeness[start] < 7 * np.sqrt(np.mean(heard**2) / len(_BEGINNING)) or likeness[start] < 1:
        return "", 0.0
    first = start + len(_BEGINNING)
    blocks = heard[first : first + (len(heard) - first) // (2 * _BLOCK) * 2 * _BLOCK].reshape(-1, _BLOCK)
    nibbles = (blocks @ _CODES.T).argmax(axis=1)
    letters = bytes((nibbles[::2] << 4 | nibbles[1::2]).tolist()).partition(b"\0")[0]
    said = likeness[start] * np.concatenate([_BEGINNING, *_CODES[nibbles[: 2 * len(letters) + 2]]])
    snr = 10 * np.log10(likeness[start] ** 2 / max(np.mean((heard[start : start + len(said)] - said) ** 2), 1e-9))
    return letters.decode(errors="replace"), float(snr)


@dataclass
class Request:
    """A request that came in whole."""

    text: str  # what is to be spoken, or was heard
    ssml: str = ""
    samples: Samples | None = None
    answered: bool = False


class AzureSpeechServer:
    """Speaks, and listens.

    Args:
      faults: what goes wrong, in order: those of a handshake wait for one, the others (and "", none) for a request. Or
        a function that says what does now.
      mishears: what is heard for a word, given its SNR in dB.
    """

    def __init__(self, faults: Faults = (), mishears: Callable[[str, float], str] = lambda word, snr: word) -> None:
        self.faults: list[str] | Callable[[], str] = faults if callable(faults) else list(faults)
        self.mishears = mishears
        self.keys: list[str] = []  # one a handshake
        self.requests: list[Request] = []
        self.errors: list[BaseException] = []
        self._connections: list[ServerConnection] = []
        quiet = logging.getLogger("azure_speech_server")  # a run's own messages are tested
        quiet.propagate = False
        how: dict[str, Any] = {"subprotocols": ["USP"], "process_request": self._let_in, "close_timeout": 0.1}
        self._server = serve(self._answer, "127.0.0.1", 0, logger=quiet, **how)
        self.url = f"ws://127.0.0.1:{self._server.socket.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        for connection in self._connections:
            connection.close()
        assert not self.errors, self.errors

    def take_fault(self, handshake: bool) -> str:
        fault = self.faults() if callable(self.faults) else self.faults[0] if self.faults else ""
        if (fault in HANDSHAKE) != handshake:
            return ""
        if not callable(self.faults):
            self.faults = self.faults[1:]
        return fault

    def _let_in(self, connection: ServerConnection, handshake: Handshake) -> Response | None:
        key = handshake.headers.get("Ocp-Apim-Subscription-Key", "")
        self.keys.append(key)
        fault = self.take_fault(handshake=True)
        if not fault:
            is_usp = handshake.headers.get("Sec-WebSocket-Protocol", "USP") == "USP"
            is_there = handshake.path.startswith((SPEAKING, LISTENING))
            fault = "401" if key != KEY else "400" if not is_usp else "" if is_there else "404"
        return connection.respond(*HANDSHAKE[fault]) if fault else None

    def _answer(self, connection: ServerConnection) -> None:
        self._connections.append(connection)
        conversation = _Conversation(self, connection)
        try:
            for message in connection:
                conversation.take(message)
        except (ConnectionClosed, OSError):
            pass
        except Exception as error:
            self.errors.append(error)
            raise


class _Conversation:
    """One connection: what has come in of the request under way."""

    def __init__(self, server: AzureSpeechServer, connection: ServerConnection) -> None:
        assert connection.request is not None
        self.server, self.connection = server, connection
        self.speaks = connection.request.path.partition("?")[0] == SPEAKING
        self.output = self.turn = self.fault = ""
        self.sound = bytearray()

    def take(self, message: str | bytes) -> None:
        headers, body = _taken_apart(message)
        path = headers["path"]
        if path == "synthesis.context":
            self.output = json.loads(body)["synthesis"]["audio"]["outputFormat"]
        elif path == "ssml" and self.speaks:
            self.turn = headers["x-requestid"]
            self._speak(body.decode())
        elif path == "audio" and not self.speaks:
            self._listen(headers["x-requestid"], body)
        else:
            assert path in ("speech.config", "speech.context", "telemetry"), path

    def _speak(self, ssml: str) -> None:
        # As the real one: what is no XML is a bad request.
        try:
            tree = ElementTree.fromstring(ssml)
        except ElementTree.ParseError:
            self.connection.close(*CLOSED["1007"])
            return
        request = Request("".join(next(iter(tree)).itertext()), ssml)
        self.server.requests.append(request)
        assert self.output == PCM, self.output
        sound = sound_of(request.text).tobytes()
        self.fault = self.server.take_fault(handshake=False)
        if self._breaks():
            return
        stream = uuid.uuid4().hex
        self._send("turn.start", {"context": {"serviceTag": uuid.uuid4().hex}})
        self._send("response", {"context": {"serviceTag": "1"}, "audio": {"type": "inline", "streamId": stream}})
        other = {"cut": sound[: len(sound) // 4 * 2], "silence": bytes(len(sound)), "nothing": b""}
        sound = other.get(self.fault, sound)
        for start in range(0, len(sound), 3200):
            self._send_sound(stream, sound[start : start + 3200])
        if self._is_cut():
            return
        self._send_sound(stream, b"")
        self._send("turn.end", {})
        request.answered = True

    def _listen(self, turn: str, chunk: bytes) -> None:
        if turn != self.turn:
            self.turn, self.sound = turn, bytearray()
            # What was left unanswered comes again, and is left again.
            self.fault = "rest" if self.fault == "tail" else self.server.take_fault(handshake=False)
            if self.fault != "stall":
                self._send("turn.start", {"context": {"serviceTag": uuid.uuid4().hex}})
        if chunk:
            self.sound += chunk
            return
        assert self.sound.startswith(b"RIFF"), self.sound[:44]
        samples = np.frombuffer(bytes(self.sound[44:]), np.int16)
        text, snr = text_of(samples)
        request = Request(text, samples=samples)
        self.server.requests.append(request)
        if self._breaks() or self._is_cut():
            return
        self._send_phrases(request, snr)
        self._send("turn.end", {})
        request.answered = True

    def _send_phrases(self, request: Request, snr: float) -> None:
        assert request.samples is not None
        whole = len(request.samples) * 625  # in ticks of 100 ns
        words = [] if self.fault in ("nothing", "silence", "babble") else request.text.split()
        if phrase := " ".join(filter(None, (self.server.mishears(word, snr) for word in words))):
            self._send_phrase("Success", 0, max(0, whole - 2_000_000) if self.fault == "tail" else whole, phrase)
        if self.fault in ("tail", "rest"):
            return
        if not phrase:
            status = {"silence": "InitialSilenceTimeout", "babble": "BabbleTimeout"}.get(self.fault, "NoMatch")
            self._send_phrase(status, 0, whole)
        self._send_phrase("EndOfDictation", whole, 0)

    def _send_phrase(self, status: str, start: int, length: int, lexical: str = "") -> None:
        answer: dict[str, Any] = {"Id": uuid.uuid4().hex, "RecognitionStatus": status}
        if status == "Success":
            shown = f"{lexical.capitalize()}."
            best = {"Confidence": 0.9, "Lexical": lexical, "ITN": lexical, "MaskedITN": lexical, "Display": shown}
            worse = {key: value if key == "Confidence" else "something else" for key, value in best.items()}
            answer |= {"DisplayText": shown, "NBest": [best, worse]}
        self._send("speech.phrase", {**answer, "Offset": start, "Duration": length})

    def _breaks(self) -> bool:
        if self.fault in CLOSED:
            self.connection.close(*CLOSED[self.fault])
        return self.fault in CLOSED or self.fault == "stall"

    def _is_cut(self) -> bool:
        if self.fault == "cut":
            self.connection.socket.shutdown(socket.SHUT_RDWR)
        return self.fault == "cut"

    def _send(self, path: str, body: Any) -> None:
        head = f"X-RequestId:{self.turn}\r\nContent-Type:application/json; charset=utf-8\r\nPath:{path}\r\n\r\n"
        self.connection.send(head + json.dumps(body))

    def _send_sound(self, stream: str, chunk: bytes) -> None:
        head = f"X-RequestId:{self.turn}\r\nContent-Type:audio/x-wav\r\nX-StreamId:{stream}\r\nPath:audio\r\n".encode()
        self.connection.send(len(head).to_bytes(2, "big") + head + chunk)


def _taken_apart(message: str | bytes) -> tuple[dict[str, str], bytes]:
    """Headers in lower case, and the body."""
    if isinstance(message, str):
        head, _, body = message.partition("\r\n\r\n")
        data = body.encode()
    else:
        size = int.from_bytes(message[:2], "big")
        head, data = message[2 : 2 + size].decode(), message[2 + size :]
    return {name.lower(): value for name, value in re.findall(r"([\w-]+):(.*)", head.replace("\r", ""))}, data
