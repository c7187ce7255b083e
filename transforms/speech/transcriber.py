"""Text to speech, noise and recognition in one worker: each text once, and transcripts are cached by their content."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

import msgspec
from apache_beam.io.filesystems import FileSystems

from parapet.transforms.files import join, read_written, whole
from parapet.transforms.perturbation.fence import bad_record
from parapet.transforms.refusals import Refused, Stopped
from parapet.transforms.seeding import stable_hash
from parapet.transforms.speech import noise as noises
from parapet.transforms.speech.audio import digest, read_sound, sound_bytes
from parapet.transforms.speech.engine import RATE, Recogniser, Synthesiser
from parapet.transforms.speech.spoken import Normalisation, spoken_words
from parapet.transforms.speech.turns import Utterance, joined

if TYPE_CHECKING:
    from parapet.transforms.speech.engine import Samples

Argument = TypeVar("Argument")
Answer = TypeVar("Answer")


class Transcript(msgspec.Struct, frozen=True):
    """The transcript of an utterance at one signal-to-noise ratio.

    Attributes:
      words: separated by spaces; empty where the engine recognised none.
      audio: the SHA-256 of the samples.
      seconds: the duration of the sound.
    """

    words: str
    audio: str
    seconds: float


_decode = msgspec.json.Decoder(dict[str, Transcript]).decode  # laid out before threads, as in schemas/service.py


class Failure(msgspec.Struct, frozen=True):
    """Why an utterance has no transcript: an id of the reason and, after a colon, an explanation."""

    reason: str


class Channel(msgspec.Struct, frozen=True):
    """What a text goes through before it is a transcript.

    Attributes:
      synthesiser: the text-to-speech engine.
      recogniser: the ASR engine.
      noise: what is added to the speech.
      seed: of the noise.
      rules: the normalisation of transcripts.
      cache: the folder in which transcripts are kept, and speech that costs money.
    """

    synthesiser: Synthesiser
    recogniser: Recogniser
    noise: noises.Noise
    seed: str
    rules: Normalisation
    cache: str

    @property
    def paid(self) -> bool:
        """Whether one of the engines costs money."""
        return self.synthesiser.dollars_per_million > 0 or self.recogniser.dollars_per_hour > 0

    @property
    def parallel(self) -> bool:
        """Whether one of the engines takes several texts at a time."""
        return max(self.synthesiser.parallel, self.recogniser.parallel) > 1

    def key(self, utterance: Utterance, snr: float) -> str:
        """A hash of everything that determines a transcript."""
        engines = [self.synthesiser.name, self.recogniser.name]
        rules = [noises.VERSION, self.rules.id]
        what = [*rules, *engines, self.noise.name, stable_hash(self.seed), utterance.voice, utterance.text, snr]
        return hashlib.sha256(msgspec.json.encode(what)).hexdigest()


def _file_of(shard: str) -> str:
    return f"heard/{shard}.json"


Results = dict[tuple[Utterance, float], Transcript | Failure]


class Transcriber:
    """Speaks and recognises in one worker. The engines are opened with the first text that is not in the cache.

    Attributes:
      decoded: how many transcripts were made, not read from the cache; reset by whoever counts them.
    """

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.stopped: dict[str, str] = {}  # engine to the reason why it is not called any more
        self.decoded = 0
        self._open: set[str] = set()
        self._lock, self._opening = Lock(), Lock()
        self._last: tuple[Utterance, noises.Mixer] | None = None
        self._kept: tuple[str, dict[str, Transcript]] | None = None  # a file of the cache, while it is used

    @contextmanager
    def using(self, shard: str) -> Iterator[None]:
        """Reads the cached transcripts of a shard once, and writes them once, unless one of the engines costs money."""
        file = _file_of(shard)
        cached = self._read(file)
        before = len(cached)
        self._kept = file, cached
        try:
            yield
        finally:
            self._kept = None
            if len(cached) > before and not self.channel.paid:
                self._write(file, cached)

    def close(self) -> None:
        """Closes the engines."""
        for engine in (self.channel.synthesiser, self.channel.recogniser):
            engine.close()
        self._open.clear()

    def transcribe(self, shard: str, utterances: Iterable[tuple[Utterance, Sequence[float]]]) -> Results:
        """Transcribes utterances at the given signal-to-noise ratios.

        Args:
          shard: the group of the utterances: their transcripts are cached in one file.
          utterances: (utterance, ratios in dB).
        """
        file = _file_of(shard)
        is_kept = self._kept is not None and self._kept[0] == file
        cached = self._kept[1] if self._kept is not None and is_kept else self._read(file)
        results, todo = self._look_up(utterances, cached)
        if not todo:
            return results
        self._open_once(self.channel.recogniser)
        speeches = self._speeches([utterance for utterance, _ in todo])

        def transcribe(item: tuple[Utterance, list[float]]) -> None:
            utterance, ratios = item
            fresh = self._recognise(utterance, ratios, self._mixer_of(utterance, speeches))
            with self._lock:
                for (utterance, snr), result in fresh.items():
                    if isinstance(result, Transcript):
                        cached[self.channel.key(utterance, snr)] = result
                        self.decoded += 1
                results.update(fresh)
                if self.channel.paid:
                    self._write(file, cached)

        self._in_threads(transcribe, todo, self.channel.recogniser.parallel)
        if not (is_kept or self.channel.paid):
            self._write(file, cached)
        return results

    def samples(self, utterance: Utterance, snr: float) -> Samples:
        """The sound that is recognised. Raises Refused or Stopped."""
        return self._mixer(utterance, self._speech(utterance)).at(snr)

    def _look_up(
        self, utterances: Iterable[tuple[Utterance, Sequence[float]]], cached: Mapping[str, Transcript]
    ) -> tuple[Results, list[tuple[Utterance, list[float]]]]:
        """What the cache has, and what remains to be transcribed."""
        results: Results = {}
        todo: dict[Utterance, list[float]] = {}
        for utterance, ratios in utterances:
            for snr in ratios:
                if (transcript := cached.get(self.channel.key(utterance, snr))) is not None:
                    results[utterance, snr] = transcript
                else:
                    todo.setdefault(utterance, []).append(snr)
        return results, list(todo.items())

    def _speeches(self, utterances: Sequence[Utterance]) -> dict[Utterance, Samples | Failure]:
        """The speech of a service, several texts at a time; empty for a local engine, which speaks text by text."""
        parallel = self.channel.synthesiser.parallel
        if parallel == 1:
            return {}
        return dict(zip(utterances, self._in_threads(self._speech_or_failure, utterances, parallel), strict=True))

    def _in_threads(
        self, function: Callable[[Argument], Answer], arguments: Sequence[Argument], parallel: int
    ) -> list[Answer]:
        if parallel == 1:
            return [function(argument) for argument in arguments]
        with ThreadPoolExecutor(parallel) as pool:
            return list(pool.map(function, arguments))

    def _speech_or_failure(self, utterance: Utterance) -> Samples | Failure:
        if self.channel.recogniser.name in self.stopped:  # nobody would listen
            return Failure(self.stopped[self.channel.recogniser.name])
        try:
            return self._call(self.channel.synthesiser, partial(self._speech, utterance))
        except Refused as error:
            return Failure(error.reason)

    def _mixer_of(
        self, utterance: Utterance, speeches: Mapping[Utterance, Samples | Failure]
    ) -> noises.Mixer | Failure:
        """What was mixed last is kept: an utterance is heard at one ratio after another."""
        last = self._last
        if last is not None and last[0] == utterance:
            return last[1]
        speech = speeches[utterance] if utterance in speeches else self._speech_or_failure(utterance)
        if isinstance(speech, Failure):
            return speech
        try:
            mixer = self._mixer(utterance, speech)
        except Exception as error:
            return Failure(bad_record(error).reason)
        self._last = utterance, mixer
        return mixer

    def _recognise(self, utterance: Utterance, ratios: Sequence[float], mixer: noises.Mixer | Failure) -> Results:
        if isinstance(mixer, Failure):
            return {(utterance, snr): mixer for snr in ratios}
        recogniser = self.channel.recogniser
        results: Results = {}
        for snr in ratios:
            try:
                samples = mixer.at(snr)
                words = self._call(recogniser, partial(recogniser.hear, samples))
                results[utterance, snr] = self._transcript(words, samples)
            except Refused as error:
                results[utterance, snr] = Failure(error.reason)
            except Exception as error:
                results[utterance, snr] = Failure(bad_record(error).reason)
        return results

    def _call(self, engine: Synthesiser | Recogniser, call: Callable[[], Answer]) -> Answer:
        """Calls an engine; once it has stopped, it is not called any more."""
        if engine.name in self.stopped:
            raise Refused(self.stopped[engine.name])
        try:
            return call()
        except Stopped as error:
            self.stopped[engine.name] = error.reason
            raise Refused(error.reason) from None
        except Refused:
            raise
        except Exception as error:
            raise Refused(bad_record(error, engine).reason) from None

    def _transcript(self, words: str, samples: Samples) -> Transcript:
        normalised = joined(spoken_words(words, self.channel.rules))
        return Transcript(normalised, digest(samples), round(len(samples) / RATE, 3))

    def _speech(self, utterance: Utterance) -> Samples:
        synthesiser = self.channel.synthesiser
        if not synthesiser.dollars_per_million:
            self._open_once(synthesiser)
            return synthesiser.speak(utterance.text, utterance.voice)
        # Speech that was paid for is kept in a file of its own. A local engine speaks faster than a file is read.
        name = hashlib.sha256(msgspec.json.encode([synthesiser.name, utterance])).hexdigest()
        file = f"spoken/{name}.flac"
        if FileSystems.exists(join(self.channel.cache, file)):
            return read_sound(read_written(self.channel.cache, file))
        self._open_once(synthesiser)
        speech = synthesiser.speak(utterance.text, utterance.voice)
        with whole(join(self.channel.cache, file)) as handle:
            handle.write(sound_bytes(speech, "flac"))
        return speech

    def _mixer(self, utterance: Utterance, speech: Samples) -> noises.Mixer:
        return noises.Mixer(speech, self.channel.noise, f"{self.channel.seed}\0{utterance.voice}\0{utterance.text}")

    def _open_once(self, engine: Synthesiser | Recogniser) -> None:
        with self._opening:
            if engine.name not in self._open:
                engine.open()
                self._open.add(engine.name)

    def _read(self, file: str) -> dict[str, Transcript]:
        if not FileSystems.exists(join(self.channel.cache, file)):
            return {}
        return _decode(read_written(self.channel.cache, file))

    def _write(self, file: str, cached: dict[str, Transcript]) -> None:
        with whole(join(self.channel.cache, file)) as handle:
            handle.write(msgspec.json.encode(cached, order="sorted"))
