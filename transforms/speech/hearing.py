"""Texts spoken, put through noise and heard: each once, and what was heard is kept in a folder by its content."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

import msgspec
from apache_beam.io.filesystems import FileSystems

from parapet.transforms.files import join, read_written, whole
from parapet.transforms.refusals import Refused, Stopped
from parapet.transforms.seeding import stable_hash
from parapet.transforms.speech import noise as noises
from parapet.transforms.speech.audio import digest, read_sound, sound_bytes
from parapet.transforms.speech.engine import RATE, Recogniser, Synthesiser
from parapet.transforms.speech.spoken import Normalisation, spoken_words
from parapet.transforms.speech.turns import Utterance, joined

if TYPE_CHECKING:
    from parapet.transforms.speech.engine import Samples

Given = TypeVar("Given")
Answer = TypeVar("Answer")


class Heard(msgspec.Struct, frozen=True):
    """What was heard of an utterance at one noise.

    Attributes:
      words: parted by blanks; nothing where none was made out.
      audio: the SHA-256 of the samples.
      seconds: how long they last.
    """

    words: str
    audio: str
    seconds: float


class Unheard(msgspec.Struct, frozen=True):
    """Why an utterance was not heard: an id of the reason and, after a colon, what a person should know."""

    reason: str


class Sound(msgspec.Struct, frozen=True):
    """How texts are made to sound and who listens.

    Attributes:
      synthesiser: who speaks.
      recogniser: who listens.
      noise: between the two.
      seed: of the noise.
      rules: by which what is heard is written down.
      kept: the folder in which everything that was heard, and what was paid for, is kept.
    """

    synthesiser: Synthesiser
    recogniser: Recogniser
    noise: noises.Noise
    seed: str
    rules: Normalisation
    kept: str

    @property
    def paid(self) -> bool:
        """Whether any of it costs money."""
        return self.synthesiser.dollars_per_million > 0 or self.recogniser.dollars_per_hour > 0

    def key(self, utterance: Utterance, snr: float) -> str:
        """Of all that shapes what is heard."""
        engines = [self.synthesiser.name, self.recogniser.name]
        rules = [noises.VERSION, self.rules.id]
        what = [*rules, *engines, self.noise.name, stable_hash(self.seed), utterance.voice, utterance.text, snr]
        return hashlib.sha256(msgspec.json.encode(what)).hexdigest()


Outcomes = dict[tuple[Utterance, float], Heard | Unheard]


class Hearer:
    """Speaks and listens in one worker; engines are opened with the first text that was never heard."""

    def __init__(self, sound: Sound) -> None:
        self.sound = sound
        self.stopped: dict[str, str] = {}  # engine to why it is of no use
        self.decoded = 0
        self._open: set[str] = set()
        self._lock, self._opening = Lock(), Lock()

    def close(self) -> None:
        """Closes the engines."""
        for engine in (self.sound.synthesiser, self.sound.recogniser):
            engine.close()
        self._open.clear()

    def hear(self, shard: str, wanted: Iterable[tuple[Utterance, Sequence[float]]]) -> Outcomes:
        """What is heard of each utterance at each signal-to-noise ratio.

        Args:
          shard: the group of the utterances: what they were heard as is kept in its file.
          wanted: (utterance, ratios in dB).
        """
        file = f"heard/{shard}.json"
        kept = self._read(file)
        found, todo = self._known(wanted, kept)
        if not todo:
            return found
        self._open_once(self.sound.recogniser)
        speeches = self._speeches([utterance for utterance, _ in todo])

        def one(what: tuple[Utterance, list[float]]) -> None:
            utterance, ratios = what
            speech = speeches[utterance] if utterance in speeches else self._spoken(utterance)
            fresh = self._outcomes(utterance, ratios, speech)
            with self._lock:
                for (utterance, snr), outcome in fresh.items():
                    if isinstance(outcome, Heard):
                        kept[self.sound.key(utterance, snr)] = outcome
                        self.decoded += 1
                found.update(fresh)
                if self.sound.paid:
                    self._write(file, kept)

        self._in_threads(one, todo, self.sound.recogniser.parallel)
        if not self.sound.paid:
            self._write(file, kept)
        return found

    def _known(
        self, wanted: Iterable[tuple[Utterance, Sequence[float]]], kept: Mapping[str, Heard]
    ) -> tuple[Outcomes, list[tuple[Utterance, list[float]]]]:
        """What was heard before, and what is still to be heard."""
        found: Outcomes = {}
        todo: dict[Utterance, list[float]] = {}
        for utterance, ratios in wanted:
            for snr in ratios:
                if (before := kept.get(self.sound.key(utterance, snr))) is not None:
                    found[utterance, snr] = before
                else:
                    todo.setdefault(utterance, []).append(snr)
        return found, list(todo.items())

    def _speeches(self, utterances: Sequence[Utterance]) -> dict[Utterance, Samples | Unheard]:
        """What a service says, several texts at a time; nothing of an engine here, which speaks when it is its turn."""
        parallel = self.sound.synthesiser.parallel
        if parallel == 1:
            return {}
        return dict(zip(utterances, self._in_threads(self._spoken, utterances, parallel), strict=True))

    def samples(self, utterance: Utterance, snr: float) -> Samples:
        """What was listened to. Raises Refused or Stopped."""
        return self._through(utterance, self._speech(utterance), snr)

    def _in_threads(self, do: Callable[[Given], Answer], to: Sequence[Given], parallel: int) -> list[Answer]:
        if parallel == 1:
            return [do(one) for one in to]
        with ThreadPoolExecutor(parallel) as pool:
            return list(pool.map(do, to))

    def _spoken(self, utterance: Utterance) -> Samples | Unheard:
        if self.sound.recogniser.name in self.stopped:  # nobody would listen
            return Unheard(self.stopped[self.sound.recogniser.name])
        try:
            return self._asked(self.sound.synthesiser, partial(self._speech, utterance))
        except Refused as error:
            return Unheard(error.reason)

    def _outcomes(self, utterance: Utterance, ratios: Sequence[float], speech: Samples | Unheard) -> Outcomes:
        if isinstance(speech, Unheard):
            return {(utterance, snr): speech for snr in ratios}
        found: Outcomes = {}
        for snr in ratios:
            try:
                samples = self._through(utterance, speech, snr)
                words = self._asked(self.sound.recogniser, partial(self.sound.recogniser.hear, samples))
                found[utterance, snr] = self._heard(words, samples)
            except Refused as error:
                found[utterance, snr] = Unheard(error.reason)
        return found

    def _asked(self, engine: Synthesiser | Recogniser, ask: Callable[[], Answer]) -> Answer:
        """What an engine answers; once it is of no use to ask, it is not asked any more."""
        if engine.name in self.stopped:
            raise Refused(self.stopped[engine.name])
        try:
            return ask()
        except Stopped as error:
            self.stopped[engine.name] = error.reason
            raise Refused(error.reason) from None

    def _heard(self, words: str, samples: Samples) -> Heard:
        plain = joined(spoken_words(words, self.sound.rules))
        return Heard(plain, digest(samples), round(len(samples) / RATE, 3))

    def _speech(self, utterance: Utterance) -> Samples:
        synthesiser = self.sound.synthesiser
        if not synthesiser.dollars_per_million:
            self._open_once(synthesiser)
            return synthesiser.speak(utterance.text, utterance.voice)
        # Paid for: kept as a file of its own. What costs nothing is spoken again sooner than it is read.
        name = hashlib.sha256(msgspec.json.encode([synthesiser.name, utterance])).hexdigest()
        file = f"spoken/{name}.flac"
        if FileSystems.exists(join(self.sound.kept, file)):
            return read_sound(read_written(self.sound.kept, file))
        self._open_once(synthesiser)
        speech = synthesiser.speak(utterance.text, utterance.voice)
        with whole(join(self.sound.kept, file)) as handle:
            handle.write(sound_bytes(speech, "flac"))
        return speech

    def _through(self, utterance: Utterance, speech: Samples, snr: float) -> Samples:
        key = f"{self.sound.seed}\0{utterance.voice}\0{utterance.text}"
        return noises.through_noise(speech, self.sound.noise, snr, key)

    def _open_once(self, engine: Synthesiser | Recogniser) -> None:
        with self._opening:
            if engine.name not in self._open:
                engine.open()
                self._open.add(engine.name)

    def _read(self, file: str) -> dict[str, Heard]:
        if not FileSystems.exists(join(self.sound.kept, file)):
            return {}
        return msgspec.json.decode(read_written(self.sound.kept, file), type=dict[str, Heard])

    def _write(self, file: str, kept: dict[str, Heard]) -> None:
        with whole(join(self.sound.kept, file)) as handle:
            handle.write(msgspec.json.encode(kept, order="sorted"))
