"""Text to speech, noise and recognition: each text once, with transcripts cached by content."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

import apache_beam as beam
import msgspec
from apache_beam.io.filesystems import FileSystems
from apache_beam.pvalue import AsIter, TaggedOutput

from parapet.schemas.dialogue import DialogueFile
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.schemas.limits import read_whole
from parapet.transforms.core import progress, seeding
from parapet.transforms.core.fence import Refused, Stopped, bad_record
from parapet.transforms.core.files import join, read_written, whole
from parapet.transforms.perturb.base import REFUSED
from parapet.transforms.perturb.speech import alignment, sound, spoken
from parapet.transforms.perturb.speech.alignment import Calibration, respelled
from parapet.transforms.perturb.speech.engine import RATE, Recogniser, Synthesiser
from parapet.transforms.perturb.speech.spoken import Occurrence, Speakers, Utterance

if TYPE_CHECKING:
    from parapet.transforms.perturb.speech.engine import Samples

Answer = TypeVar("Answer")

_STAGE, BINS = "transcription", "bins"


class Transcript(msgspec.Struct, frozen=True):
    """The transcript of an utterance at one signal-to-noise ratio.

    Attributes:
      words: the words separated by spaces; empty if none were recognised.
      errors: the number of word errors.
      audio: the SHA-256 of the samples.
      seconds: the duration of the sound.
    """

    words: str
    errors: int
    audio: str
    seconds: float


_decode = msgspec.json.Decoder(dict[str, Transcript]).decode  # prepared before threads start, as in schemas/service.py


def read_transcripts(path: str) -> dict[str, Transcript]:
    """Reads transcripts by key. Raise InputError if the file has none."""
    data = read_whole(as_path(path), where="--transcripts")
    try:
        return _decode(data)
    except msgspec.DecodeError as error:
        raise InputError(f"contains no transcripts: {error}", path, "--transcripts") from None


class Outcome(msgspec.Struct, frozen=True):
    """The transcripts of an utterance by signal-to-noise ratio in dB, or the reason why it has none."""

    transcripts: dict[float, Transcript]
    failure: str = ""

    @property
    def errors(self) -> dict[float, int]:
        """Returns the number of word errors at each ratio."""
        return {snr: transcript.errors for snr, transcript in self.transcripts.items()}


class Channel(msgspec.Struct, frozen=True):
    """The components that turn a text into a transcript.

    Attributes:
      synthesiser: the text-to-speech engine.
      recogniser: the ASR engine.
      noise: the noise added to the speech.
      seed: the seed of the noise.
      cache: the folder for transcripts, and for speech that costs money.
      transcripts: known transcripts by key, which the cache does not need to have.
    """

    synthesiser: Synthesiser
    recogniser: Recogniser
    noise: sound.Noise
    seed: str
    cache: str
    transcripts: Mapping[str, Transcript] = {}

    def key(self, utterance: Utterance, snr: float) -> str:
        """Returns a hash of everything that determines a transcript."""
        engines = [self.synthesiser.name, self.recogniser.name]
        facts = [sound.VERSION, spoken.VERSION, *engines, self.noise.name, seeding.stable_hash(self.seed)]
        return hashlib.sha256(msgspec.json.encode([*facts, utterance.voice, utterance.text, snr])).hexdigest()


class Transcriber:
    """Synthesises and recognises in one worker. Engines are opened for the first text that is not in the cache."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._stopped = ""  # the reason why the engines are no longer called
        self._open: set[str] = set()
        self._lock = Lock()

    def close(self) -> None:
        """Closes the engines."""
        for engine in (self.channel.synthesiser, self.channel.recogniser):
            engine.close()
        self._open.clear()

    def transcribe(
        self, shard: str, draws: Mapping[Utterance, Sequence[int]], calibration: Calibration
    ) -> dict[Utterance, Outcome]:
        """Transcribes utterances at all ratios that their turns may need.

        Args:
          shard: the group of the utterances, whose transcripts are cached in one file.
          draws: the draws of the turns with each utterance.
          calibration: chooses the ratios.
        """
        file = f"heard/{shard}.json"
        path, cached = join(self.channel.cache, file), dict[str, Transcript]()
        if FileSystems.exists(path):
            cached = _decode(read_written(self.channel.cache, file))

        def outcome(utterance: Utterance) -> Outcome:
            known = len(cached)
            try:
                return Outcome(self._transcripts(utterance, draws[utterance], calibration, cached))
            except Exception as error:
                return Outcome({}, error.reason if isinstance(error, Refused) else bad_record(error).reason)
            finally:
                with self._lock:
                    if len(cached) > known:
                        with whole(path) as handle:
                            handle.write(msgspec.json.encode(cached, order="sorted"))

        # both engines must bear as many calls
        with ThreadPoolExecutor(min(self.channel.synthesiser.parallel, self.channel.recogniser.parallel)) as pool:
            return dict(zip(draws, pool.map(outcome, draws), strict=True))

    def _transcripts(
        self, utterance: Utterance, draws: Sequence[int], calibration: Calibration, cached: dict[str, Transcript]
    ) -> dict[float, Transcript]:
        reference = utterance.text.split()
        mixer: sound.Mixer | None = None
        errors: dict[float, int] = {}
        transcripts: dict[float, Transcript] = {}
        while (snr := calibration.next_ratio(errors, len(reference), draws)) is not None:
            key = self.channel.key(utterance, snr)
            if (transcript := self.channel.transcripts.get(key) or cached.get(key)) is None:
                mixer = mixer or self._mixer(utterance)
                transcript = self._recognised(reference, mixer.at(snr))
                with self._lock:
                    cached[key] = transcript
            transcripts[snr], errors[snr] = transcript, transcript.errors
        return transcripts

    def _recognised(self, reference: Sequence[str], samples: Samples) -> Transcript:
        recogniser = self.channel.recogniser
        words = [word.text for word in spoken.spoken_words(self._call(recogniser, lambda: recogniser.hear(samples)))]
        hypothesis = respelled(reference, words)
        errors = alignment.word_errors(alignment.align(reference, hypothesis)).total()
        return Transcript(" ".join(hypothesis), errors, sound.digest(samples), round(len(samples) / RATE, 3))

    def _call(self, engine: Synthesiser | Recogniser, call: Callable[[], Answer]) -> Answer:
        """Calls an engine, unless one has raised Stopped before."""
        if self._stopped:
            raise Refused(self._stopped)
        try:
            with self._lock:
                if engine.name not in self._open:
                    engine.open()
                    self._open.add(engine.name)
            return call()
        except Stopped as error:
            self._stopped = error.reason
            raise Refused(error.reason) from None
        except Refused:
            raise
        except Exception as error:
            raise Refused(bad_record(error, engine).reason) from None

    def samples(self, utterance: Utterance, snr: float) -> Samples:
        """Returns the sound to recognise. Raises Refused."""
        return self._mixer(utterance).at(snr)

    def _mixer(self, utterance: Utterance) -> sound.Mixer:
        key = f"{self.channel.seed}\0{utterance.voice}\0{utterance.text}"
        return sound.Mixer(self._speech(utterance), self.channel.noise, key)

    def _speech(self, utterance: Utterance) -> Samples:
        synthesiser = self.channel.synthesiser
        # Speech that costs money is cached in separate files. A local engine is faster than reading a file.
        is_cached = synthesiser.dollars_per_million > 0
        file = f"spoken/{hashlib.sha256(msgspec.json.encode([synthesiser.name, utterance])).hexdigest()}.flac"
        path = join(self.channel.cache, file)
        if is_cached and FileSystems.exists(path):
            return sound.read_sound(read_written(self.channel.cache, file))
        speech = self._call(synthesiser, lambda: synthesiser.speak(utterance.text, utterance.voice))
        if is_cached:
            with whole(path) as handle:
                handle.write(sound.sound_bytes(speech, "flac"))
        return speech


def transcribe(
    files: beam.PCollection, speakers: Speakers, channel: Channel, calibration: Calibration
) -> tuple[beam.PCollection, ...]:
    """Transcribes the turns of DialogueFiles, texts shared by several turns only once, and set the levels of the sets.

    Args:
      files: the dialogue files.
      speakers: the voices and the spoken form.
      channel: the engines and the noise.
      calibration: the sets and the possible ratios.

    Returns:
      PCollections of (Occurrence, Outcome); of one Calibration, with the levels of all sets; and of ((file, position),
        error) of dialogues that raised exceptions.
    """
    read = beam.FlatMap(_occurrences_of, speakers).with_outputs(REFUSED, main="uses")
    texts = files | "Spread files" >> beam.Reshuffle() | "Texts" >> read
    outcomes = (
        texts["uses"]
        | "By shard" >> beam.Map(lambda use: (spoken.shard_of(use[0]), use))
        | "Group" >> beam.GroupByKey()
        | "Spread" >> beam.Reshuffle()
        | "Transcribe shard" >> beam.ParDo(_TranscribeShard(channel, calibration)).with_outputs(BINS, main="turns")
    )
    bins = outcomes[BINS] | "Sum bins" >> beam.CombinePerKey(sum_tuples)
    failures = (
        outcomes.turns
        | "Failures" >> beam.FlatMap(lambda turn: [turn[1].failure] if turn[1].failure else [])
        | "One failure" >> beam.combiners.Top.Smallest(1)
    )
    final = (
        files.pipeline
        | "Calibration" >> beam.Create([calibration], reshuffle=False)
        | "Levels" >> beam.Map(_calibrated, AsIter(bins), AsIter(failures))
    )
    return outcomes.turns, final, texts[REFUSED]


def _occurrences_of(file: DialogueFile, speakers: Speakers) -> list[tuple[Utterance, Occurrence] | TaggedOutput]:
    uses = list(spoken.occurrences_of(file, speakers))
    progress.expect(len(uses), "turns", _STAGE)
    return uses


def sum_tuples(values: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """Sums tuples element by element."""
    return tuple(map(sum, zip(*values, strict=True)))


def _calibrated(
    calibration: Calibration, bins: Iterable[tuple[int, tuple[int, int]]], failures: Iterable[list[str]]
) -> Calibration:
    """Sets the levels. Raises InputError without transcripts, or if a target cannot be reached."""
    if not (sums := list(bins)):
        reasons = [reason for some in failures for reason in some]
        reason = min(reasons, default="no user turn contains words that can be spoken")
        raise InputError(f"no turn was transcribed, so nothing was published: {reason}")
    return alignment.with_levels(calibration, sums)


class _TranscribeShard(beam.DoFn):
    def __init__(self, channel: Channel, calibration: Calibration) -> None:
        super().__init__()
        self.channel, self.calibration = channel, calibration

    def setup(self) -> None:
        self.transcriber = Transcriber(self.channel)

    def teardown(self) -> None:
        self.transcriber.close()

    def process(
        self, group: tuple[str, Iterable[tuple[Utterance, Occurrence]]]
    ) -> Iterator[tuple[Occurrence, Outcome] | TaggedOutput]:
        shard, of_shard = group
        uses: dict[Utterance, list[Occurrence]] = {}
        for utterance, use in sorted(of_shard):
            uses.setdefault(utterance, []).append(use)
        draws = {utterance: [use.draw for use in same_text] for utterance, same_text in uses.items()}
        outcomes = self.transcriber.transcribe(shard, draws, self.calibration)
        progress.advance(sum(map(len, uses.values())), "turns", _STAGE)
        for utterance, same_text in uses.items():
            outcome, words = outcomes[utterance], len(utterance.text.split())
            for use in same_text:
                yield use, outcome
                for level, more in () if outcome.failure else alignment.steps(outcome.errors, words, use.draw):
                    yield TaggedOutput(BINS, (level, (0 if level else words, more)))
