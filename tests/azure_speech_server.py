"""Azure's speech service on this machine: its WebSocket protocol for both ways, and faults by order.

``with AzureSpeechServer(faults=["503", "", "stall"]) as server: AzureRecogniser(endpoint=server.url)``.

What it speaks is no speech: the text's bytes are spread over the samples, so that it hears what was said, through noise
too. Without a fault it hears all of it down to about 0 dB SNR.
"""

import asyncio
import json
import logging
import re
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request as Handshake
from websockets.http11 import Response

KEY = "a0b1c2d3e4f5061728394a5b6c7d8e9f"  # the one it takes
PCM = "raw-16khz-16bit-mono-pcm"
SPEAKING, LISTENING = "/cognitiveservices/websocket/v1", "/speech/recognition/"

# Faults of the handshake: status, and what the answer says.
HANDSHAKE = {
    "400": (400, "Bad request."),
    "401": (401, "Access denied due to invalid subscription key or wrong API endpoint."),
    "403": (403, "Access denied: the resource may not be used."),
    "404": (404, "Nothing is here."),
    "429": (429, "Too many requests."),
    "500": (500, "Internal error."),
    "503": (503, "Service unavailable."),
}
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
FAULTS = {*HANDSHAKE, *CLOSED, "stall", "cut", "nothing", "silence", "babble", "tail", ""}

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
    """One that came in whole; ``number`` counts from 0, ``connection`` too."""

    number: int
    connection: int
    kind: str  # speak or hear
    key: str
    options: Mapping[str, Any]  # of the address, and what came before the request
    ssml: str = ""
    voice: str = ""
    text: str = ""  # what is to be spoken, or was heard
    sound: bytes = b""
    answered: bool = False

    @property
    def samples(self) -> Samples:
        return np.frombuffer(self.sound, np.int16)


class AzureSpeechServer:
    """Speaks, and listens.

    Args:
      faults: what goes wrong, in order: those of a handshake wait for one, the others (and "", none) for a request. Or
        a function that says what does now.
      mishears: what is heard in a word's place; or a function of the word and the SNR in dB.
      phrase_words: so many words a phrase, as if there were pauses.
      together: so many requests must have come in before the first is answered.
      host: an address of this machine.
      key: the one it takes.
      closed: for faults of CLOSED, other codes and reasons.
    """

    def __init__(
        self,
        faults: Faults = (),
        mishears: Mapping[str, str] | Callable[[str, float], str] | None = None,
        phrase_words: int = 1_000,
        together: int = 1,
        host: str = "127.0.0.1",
        key: str = KEY,
        closed: Mapping[str, tuple[int, str]] | None = None,
    ) -> None:
        self.faults: list[str] | Callable[[], str] = faults if callable(faults) else list(faults)
        assert callable(self.faults) or FAULTS.issuperset(self.faults)
        self.mishears = mishears if callable(mishears) else lambda word, _: (mishears or {}).get(word, word)
        self.phrase_words, self.together, self.host = phrase_words, together, host
        self.key, self.closed = key, {**CLOSED, **(closed or {})}
        self.keys: list[str] = []  # one a handshake
        self.connections = 0  # those let in
        self.requests: list[Request] = []
        self.errors: list[BaseException] = []
        self._sockets: list[ServerConnection] = []
        self._all_here = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._ready, self._over = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.url = ""

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)
        assert not self.errors, self.errors

    @property
    def sounds(self) -> list[Samples]:
        return [request.samples for request in self.requests if request.kind == "hear"]

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        quiet = logging.getLogger("azure_speech_server")  # a run's own messages are tested
        quiet.propagate = False
        how: dict[str, Any] = {"subprotocols": ["USP"], "process_request": self._let_in, "close_timeout": 0.1}
        async with serve(self._answer, self.host, 0, logger=quiet, **how) as server:
            self.url = f"ws://{self.host}:{next(iter(server.sockets)).getsockname()[1]}"
            self._ready.set()
            await self._over.wait()

    def _fault(self, handshake: bool) -> str:
        fault = self.faults() if callable(self.faults) else self.faults[0] if self.faults else ""
        if (fault in HANDSHAKE) != handshake:
            return ""
        if not callable(self.faults):
            self.faults = self.faults[1:]
        return fault

    def _let_in(self, connection: ServerConnection, handshake: Handshake) -> Response | None:
        key = handshake.headers.get("Ocp-Apim-Subscription-Key", "")
        self.keys.append(key)
        fault = self._fault(handshake=True)
        if not fault and key != self.key:
            fault = "401"
        if not fault and handshake.headers.get("Sec-WebSocket-Protocol", "USP") != "USP":
            fault = "400"
        if fault:
            return connection.respond(*HANDSHAKE[fault])
        if not handshake.path.startswith((SPEAKING, LISTENING)):
            return connection.respond(*HANDSHAKE["404"])
        return None

    async def _answer(self, socket: ServerConnection) -> None:
        number, self.connections = self.connections, self.connections + 1
        self._sockets.append(socket)
        assert socket.request is not None
        conversation = _Conversation(self, socket, number)
        try:
            async for message in socket:
                await conversation.take(message)
        except ConnectionClosed:
            pass
        except Exception as error:
            self.errors.append(error)
            raise


class _Conversation:
    """One connection: what has come in of the request under way."""

    def __init__(self, server: AzureSpeechServer, socket: ServerConnection, number: int) -> None:
        assert socket.request is not None
        self.server, self.socket, self.number = server, socket, number
        path, _, query = socket.request.path.partition("?")
        self.speaks = path == SPEAKING
        self.query = dict(part.split("=", 1) for part in query.split("&") if part)
        self.key = socket.request.headers.get("Ocp-Apim-Subscription-Key", "")
        self.options: dict[str, Any] = {}
        self.turn, self.sound, self.fault = "", bytearray(), ""

    async def take(self, message: str | bytes) -> None:
        headers, body = _taken_apart(message)
        path = headers["path"]
        if path in ("speech.config", "speech.context", "synthesis.context"):
            self.options = {**self.options, path: json.loads(body)}
        elif path == "ssml" and self.speaks:
            self.turn = headers["x-requestid"]
            await self._speak(body.decode())
        elif path == "audio" and not self.speaks:
            await self._listen(headers["x-requestid"], body)
        else:
            assert path == "telemetry", path

    async def _speak(self, ssml: str) -> None:
        # As the real one: what is no XML is a bad request.
        try:
            tree = ElementTree.fromstring(ssml)
        except ElementTree.ParseError:
            await self.socket.close(*self.server.closed["1007"])
            return
        voice = next(iter(tree))
        said = "".join(voice.itertext())
        request = await self._taken("speak", ssml=ssml, voice=voice.attrib["name"], text=said)
        asked = self.options["synthesis.context"]["synthesis"]["audio"]["outputFormat"]
        assert asked == PCM, asked
        sound = sound_of(said).tobytes()
        fault = self.server._fault(handshake=False)
        if await self._breaks(fault):
            return
        stream = uuid.uuid4().hex
        await self._send("turn.start", {"context": {"serviceTag": uuid.uuid4().hex}})
        await self._send("response", {"context": {"serviceTag": "1"}, "audio": {"type": "inline", "streamId": stream}})
        if fault == "cut":
            sound = sound[: len(sound) // 4 * 2]
        if fault in ("nothing", "silence"):
            sound = bytes(len(sound)) if fault == "silence" else b""
        for start in range(0, len(sound), 3200):
            await self._send_sound(stream, sound[start : start + 3200])
        if fault == "cut":
            self.socket.transport.abort()
            return
        await self._send_sound(stream, b"")
        await self._send("turn.end", {})
        request.answered = True

    async def _listen(self, turn: str, chunk: bytes) -> None:
        if turn != self.turn:
            self.turn, self.sound = turn, bytearray()
            # What was left unanswered comes again, and is left again.
            self.fault = "rest" if self.fault == "tail" else self.server._fault(handshake=False)
            if self.fault != "stall":
                await self._send("turn.start", {"context": {"serviceTag": uuid.uuid4().hex}})
        if chunk:
            self.sound += chunk
            return
        header, sound = bytes(self.sound[:44]), bytes(self.sound[44:])
        assert header.startswith(b"RIFF"), header
        request = await self._taken("hear", sound=sound)
        if await self._breaks(self.fault):
            return
        if self.fault == "cut":
            self.socket.transport.abort()
            return
        request.text, snr = text_of(request.samples)
        await self._send_phrases(request, snr)
        await self._send("turn.end", {})
        request.answered = True

    async def _send_phrases(self, request: Request, snr: float) -> None:
        whole = len(request.sound) // 2 * 625  # in ticks of 100 ns
        words = [] if self.fault in ("nothing", "silence", "babble") else request.text.split()
        heard = [self.server.mishears(word, snr) for word in words]
        size = self.server.phrase_words
        phrases = [" ".join(filter(None, heard[at : at + size])) for at in range(0, len(heard), size)]
        answered = max(0, whole - 2_000_000) if self.fault == "tail" else whole
        for number, phrase in enumerate(phrases):
            start, end = (answered * at // len(phrases) for at in (number, number + 1))
            await self._send_phrase("Success", start, end - start, phrase)
        if self.fault in ("tail", "rest"):
            return
        if not phrases:
            status = {"silence": "InitialSilenceTimeout", "babble": "BabbleTimeout"}.get(self.fault, "NoMatch")
            await self._send_phrase(status, 0, whole)
        await self._send_phrase("EndOfDictation", whole, 0)

    async def _send_phrase(self, status: str, start: int, length: int, lexical: str = "") -> None:
        answer: dict[str, Any] = {"Id": uuid.uuid4().hex, "RecognitionStatus": status}
        if status == "Success":
            shown = f"{lexical.capitalize()}."
            best = {"Confidence": 0.9, "Lexical": lexical, "ITN": lexical, "MaskedITN": lexical, "Display": shown}
            worse = {key: value if key == "Confidence" else "something else" for key, value in best.items()}
            answer |= {"DisplayText": shown, "NBest": [best, worse]}
        await self._send("speech.phrase", {**answer, "Offset": start, "Duration": length})

    async def _taken(self, kind: str, **given: Any) -> Request:
        server = self.server
        options = {**self.query, **self.options}
        request = Request(len(server.requests), self.number, kind, self.key, options, **given)
        server.requests.append(request)
        if len(server.requests) >= server.together:
            server._all_here.set()
        await asyncio.wait_for(server._all_here.wait(), 10)
        return request

    async def _breaks(self, fault: str) -> bool:
        if fault in CLOSED:
            await self.socket.close(*self.server.closed[fault])
        return fault in CLOSED or fault == "stall"

    async def _send(self, path: str, body: Any) -> None:
        head = f"X-RequestId:{self.turn}\r\nContent-Type:application/json; charset=utf-8\r\nPath:{path}\r\n\r\n"
        await self.socket.send(head + json.dumps(body))

    async def _send_sound(self, stream: str, chunk: bytes) -> None:
        head = f"X-RequestId:{self.turn}\r\nContent-Type:audio/x-wav\r\nX-StreamId:{stream}\r\nPath:audio\r\n".encode()
        await self.socket.send(len(head).to_bytes(2, "big") + head + chunk)


def _taken_apart(message: str | bytes) -> tuple[dict[str, str], bytes]:
    """Headers in lower case, and the body."""
    if isinstance(message, str):
        head, _, body = message.partition("\r\n\r\n")
        data = body.encode()
    else:
        size = int.from_bytes(message[:2], "big")
        head, data = message[2 : 2 + size].decode(), message[2 + size :]
    return {name.lower(): value for name, value in re.findall(r"([\w-]+):(.*)", head.replace("\r", ""))}, data
