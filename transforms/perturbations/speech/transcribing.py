"""Text to speech, noise and recognition in one worker: each text once, with transcripts cached by content."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import BoundedSemaphore, Lock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import apache_beam as beam
import msgspec
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.dialogue import DialogueFile
from parapet.schemas.errors import InputError
from parapet.transforms.perturbation.base import REFUSED
from parapet.transforms.perturbations.speech import alignment, sound, spoken
from parapet.transforms.perturbations.speech.alignment import Calibration
from parapet.transforms.perturbations.speech.engine import RATE, Recogniser, Synthesiser
from parapet.transforms.perturbations.speech.sound import digest, read_sound, sound_bytes
from parapet.transforms.perturbations.speech.spelling import respelled
from parapet.transforms.perturbations.speech.spoken import Occurrence, Speakers, Utterance
from parapet.transforms.running.fence import Fault, Refused, Stopped, bad_record
from parapet.transforms.running.progress import advance, expect, tracked
from parapet.transforms.running.seeding import stable_hash
from parapet.transforms.storage.files import join, read_written, whole

if TYPE_CHECKING:
    from parapet.transforms.perturbations.speech.engine import Samples

Answer = TypeVar("Answer")


class Transcript(msgspec.Struct, frozen=True):
    """The transcript of an utterance at one signal-to-noise ratio.

    Attributes:
      words: the words separated by spaces; empty if none were recognised.
      audio: the SHA-256 of the samples.
      seconds: the duration of the sound.
    """

    words: str
    audio: str
    seconds: float


_decode = msgspec.json.Decoder(dict[str, Transcript]).decode  # prepared before threads start, as in schemas/service.py


class Failure(msgspec.Struct, frozen=True):
    """Why an utterance has no transcript: the id of a reason and, after a colon, an explanation."""

    reason: str


def _failure(error: Exception) -> Failure:
    return Failure(error.reason if isinstance(error, Refused) else bad_record(error).reason)


class Channel(msgspec.Struct, frozen=True):
    """The components that turn a text into a transcript.

    Attributes:
      synthesiser: the text-to-speech engine.
      recogniser: the ASR engine.
      noise: the noise added to the speech.
      seed: the seed of the noise.
      cache: the folder for transcripts, and for speech that costs money.
    """

    synthesiser: Synthesiser
    recogniser: Recogniser
    noise: sound.Noise
    seed: str
    cache: str

    @property
    def parallel(self) -> bool:
        """Whether one of the engines processes several texts at a time."""
        return max(self.synthesiser.parallel, self.recogniser.parallel) > 1

    def key(self, utterance: Utterance, snr: float) -> str:
        """Return a hash of everything that determines a transcript."""
        engines = [self.synthesiser.name, self.recogniser.name]
        facts = [sound.VERSION, spoken.VERSION, *engines, self.noise.name, stable_hash(self.seed)]
        return hashlib.sha256(msgspec.json.encode([*facts, utterance.voice, utterance.text, snr])).hexdigest()


Results = dict[tuple[Utterance, float], Transcript | Failure]


class Transcriber:
    """Synthesises and recognises in one worker. Engines are opened for the first text that is not in the cache.

    Attributes:
      decoded: the number of transcripts that were not read from the cache; reset by the caller that counts them.
    """

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.stopped: dict[str, str] = {}  # engine to the reason why it is no longer called
        self.decoded = 0
        self._open: set[str] = set()
        self._lock, self._opening = Lock(), Lock()
        engines = (channel.synthesiser, channel.recogniser)
        self._turns = {engine.name: BoundedSemaphore(engine.parallel) for engine in engines}
        self._last: tuple[Utterance, sound.Mixer] | None = None

    def close(self) -> None:
        """Close the engines."""
        for engine in (self.channel.synthesiser, self.channel.recogniser):
            engine.close()
        self._open.clear()

    def transcribe(self, shard: str, utterances: Iterable[tuple[Utterance, Sequence[float]]]) -> Results:
        """Transcribe utterances at the given signal-to-noise ratios.

        Args:
          shard: the group of the utterances, whose transcripts are cached in one file.
          utterances: (utterance, ratios in dB).
        """
        file = f"heard/{shard}.json"
        cached = self._read(file)
        results: Results = {}
        todo: dict[Utterance, list[float]] = {}
        for utterance, ratios in utterances:
            for snr in ratios:
                if (transcript := cached.get(self.channel.key(utterance, snr))) is not None:
                    results[utterance, snr] = transcript
                else:
                    todo.setdefault(utterance, []).append(snr)
        if not todo:
            return results
        self._open_once(self.channel.recogniser)

        def transcribe(utterance: Utterance) -> None:
            fresh = self._recognise(utterance, todo[utterance])
            with self._lock:
                for (utterance, snr), result in fresh.items():
                    if isinstance(result, Transcript):
                        cached[self.channel.key(utterance, snr)] = result
                        self.decoded += 1
                results.update(fresh)
                with whole(join(self.channel.cache, file)) as handle:
                    handle.write(msgspec.json.encode(cached, order="sorted"))

        if not self.channel.parallel:
            for utterance in todo:
                transcribe(utterance)
            return results
        with ThreadPoolExecutor(max(self.channel.synthesiser.parallel, self.channel.recogniser.parallel)) as pool:
            list(pool.map(transcribe, todo))
        return results

    def samples(self, utterance: Utterance, snr: float) -> Samples:
        """Return the sound to recognise. Raises Refused or Stopped."""
        return self._mixer(utterance, self._speech(utterance)).at(snr)

    def _recognise(self, utterance: Utterance, ratios: Sequence[float]) -> Results:
        try:
            mixer = self._mixer_of(utterance)
        except Exception as error:
            return dict.fromkeys(((utterance, snr) for snr in ratios), _failure(error))
        recogniser = self.channel.recogniser
        results: Results = {}
        for snr in ratios:
            try:
                samples = mixer.at(snr)
                words = self._call(recogniser, partial(recogniser.hear, samples))
                results[utterance, snr] = self._transcript(utterance, words, samples)
            except Exception as error:
                results[utterance, snr] = _failure(error)
        return results

    def _mixer_of(self, utterance: Utterance) -> sound.Mixer:
        """Return the mixer of an utterance; the last one is cached, since an utterance is needed at several ratios."""
        last = self._last
        if last is not None and last[0] == utterance:
            return last[1]
        if reason := self.stopped.get(self.channel.recogniser.name):
            raise Refused(reason)  # the speech could not be recognised
        mixer = self._mixer(utterance, self._call(self.channel.synthesiser, partial(self._speech, utterance)))
        self._last = utterance, mixer
        return mixer

    def _call(self, engine: Synthesiser | Recogniser, call: Callable[[], Answer]) -> Answer:
        """Call an engine, unless it has raised Stopped before."""
        if engine.name in self.stopped:
            raise Refused(self.stopped[engine.name])
        try:
            with self._turns[engine.name]:
                return call()
        except Stopped as error:
            self.stopped[engine.name] = error.reason
            raise Refused(error.reason) from None
        except Refused:
            raise
        except Exception as error:
            raise Refused(bad_record(error, engine).reason) from None

    def _transcript(self, utterance: Utterance, words: str, samples: Samples) -> Transcript:
        normalised = [word.text for word in spoken.spoken_words(words)]
        spelled = " ".join(respelled(utterance.text.split(), normalised))
        return Transcript(spelled, digest(samples), round(len(samples) / RATE, 3))

    def _speech(self, utterance: Utterance) -> Samples:
        synthesiser = self.channel.synthesiser
        if not synthesiser.dollars_per_million:
            self._open_once(synthesiser)
            return synthesiser.speak(utterance.text, utterance.voice)
        # Speech that costs money is cached in separate files. A local engine is faster than reading a file.
        name = hashlib.sha256(msgspec.json.encode([synthesiser.name, utterance])).hexdigest()
        file = f"spoken/{name}.flac"
        if FileSystems.exists(join(self.channel.cache, file)):
            return read_sound(read_written(self.channel.cache, file))
        self._open_once(synthesiser)
        speech = synthesiser.speak(utterance.text, utterance.voice)
        with whole(join(self.channel.cache, file)) as handle:
            handle.write(sound_bytes(speech, "flac"))
        return speech

    def _mixer(self, utterance: Utterance, speech: Samples) -> sound.Mixer:
        room = f"{self.channel.seed}\0{utterance.voice}"
        return sound.Mixer(speech, self.channel.noise, f"{room}\0{utterance.text}", room)

    def _open_once(self, engine: Synthesiser | Recogniser) -> None:
        with self._opening:
            if engine.name not in self._open:
                engine.open()
                self._open.add(engine.name)

    def _read(self, file: str) -> dict[str, Transcript]:
        if not FileSystems.exists(join(self.channel.cache, file)):
            return {}
        return _decode(read_written(self.channel.cache, file))


_STAGE = "transcription"

BINS, FAILED = "bins", "failed"


class Transcribed(NamedTuple):
    """PCollections of transcripts.

    Attributes:
      curve: (ratio, (errors, words)) of the sample.
      turns: TurnOutcomes.
      calibration: one Calibration, with the levels of all sets.
      refused: ((file, position), error) of dialogues that raised exceptions.
    """

    curve: beam.PCollection
    turns: beam.PCollection
    calibration: beam.PCollection
    refused: beam.PCollection


def transcribe(
    files: beam.PCollection,
    speakers: Speakers,
    channel: Channel,
    targets: Sequence[float],
    ratios: Sequence[float],
    sample: int,
) -> Transcribed:
    """Transcribe the turns of DialogueFiles: first a sample, which calibrates the run, then all.

    Args:
      files: the dialogue files.
      speakers: the voices and the spoken form.
      channel: the engines and the noise.
      targets: word error rates, 0 to 1, ascending, with one set each.
      ratios: signal-to-noise ratios in dB, starting with the quietest noise.
      sample: number of texts that are recognised first, to estimate the error rate of each ratio.
    """
    pipeline = files.pipeline
    read = beam.FlatMap(_uses_of, speakers).with_outputs(REFUSED, main="uses")
    texts = files | "Spread files" >> beam.Reshuffle() | "Texts" >> read
    uses = texts["uses"]
    curve, failed = transcribe_sample(uses, channel, ratios, sample)
    first = (
        pipeline
        | "Once" >> beam.Create([targets], reshuffle=False)
        | "Calibrate" >> beam.Map(calibration_of, beam.pvalue.AsIter(curve), beam.pvalue.AsIter(failed))
    )
    outcomes = transcribe_turns(uses, channel, first)
    bins = outcomes[BINS] | "Sum bins" >> beam.CombinePerKey(sum_tuples)
    final = first | "Levels" >> beam.Map(alignment.with_levels, beam.pvalue.AsIter(bins))
    return Transcribed(curve, outcomes.turns, final, texts[REFUSED])


def _uses_of(file: DialogueFile, speakers: Speakers) -> Iterator[tuple[Utterance, Occurrence] | TaggedOutput]:
    refused: dict[tuple[str, int], InputError] = {}
    uses = list(spoken.occurrences_of(file, speakers, refused))
    expect(len(uses), "turns", _STAGE)
    yield from uses
    yield from (TaggedOutput(REFUSED, pair) for pair in refused.items() if isinstance(pair[1], Fault))


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of recognising an utterance at one signal-to-noise ratio.

    Attributes:
      snr: the signal-to-noise ratio in dB.
      errors: the number of word errors.
      result: the transcript, or the error.
    """

    snr: float
    errors: int
    result: Transcript | Failure


class TurnOutcomes(msgspec.Struct, frozen=True):
    """A turn with its outcomes at the ratios from which its sets choose."""

    use: Occurrence
    outcomes: list[Outcome]


def transcribe_sample(
    uses: beam.PCollection, channel: Channel, ratios: Sequence[float], size: int
) -> tuple[beam.PCollection, beam.PCollection]:
    """Transcribe some texts, chosen by hash, at every ratio.

    Args:
      uses: PCollection of (Utterance, Occurrence).
      channel: the engines and the noise.
      ratios: the signal-to-noise ratios in dB, starting with the quietest noise.
      size: number of texts.

    Returns:
      PCollections of (ratio, (errors, words)), and of reasons of failures.
    """
    chosen = (
        uses
        | "Sample" >> beam.Map(lambda use: (use[0].voice, use[0].text))  # keys must have plain types
        | "Distinct" >> beam.Distinct()
        | "Choose" >> beam.combiners.Top.Smallest(size, key=drawn_order)
        | "Sample by shard" >> beam.FlatMap(_by_shard)
        | "Group sample" >> beam.GroupByKey()
        | "Spread sample" >> beam.Reshuffle()
    )
    heard = chosen | "Hear sample" >> beam.ParDo(_TranscribeSample(channel, ratios)).with_outputs(FAILED, main="curve")
    return heard.curve | "Sum sample" >> beam.CombinePerKey(sum_tuples), heard[FAILED]


def _by_shard(chosen: Sequence[tuple[str, str]]) -> Iterator[tuple[str, tuple[str, str]]]:
    expect(len(chosen), "texts", "calibration")
    for voice, text in chosen:
        yield spoken.shard_of(Utterance(voice, text)), (voice, text)


def drawn_order(text: tuple[str, str]) -> tuple[int, tuple[str, str]]:
    """Return a sort key that orders (voice, text) pseudo-randomly but reproducibly."""
    return stable_hash("sample", *text), text


def sum_tuples(values: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """Sum tuples element by element."""
    return tuple(map(sum, zip(*values, strict=True)))


class _Transcribes(beam.DoFn):
    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self.channel = channel

    def setup(self) -> None:
        self.transcriber = Transcriber(self.channel)

    def teardown(self) -> None:
        self.transcriber.close()

    def count(self) -> None:
        Metrics.counter("parapet", "decoded").inc(self.transcriber.decoded)
        self.transcriber.decoded = 0


class _TranscribeSample(_Transcribes):
    def __init__(self, channel: Channel, ratios: Sequence[float]) -> None:
        super().__init__(channel)
        self.ratios = ratios

    def process(
        self, group: tuple[str, Iterable[tuple[str, str]]]
    ) -> Iterator[tuple[float, tuple[int, int]] | TaggedOutput]:
        """Yield the errors and words of each text of a shard at each ratio."""
        shard, texts = group
        for utterance in tracked([Utterance(*text) for text in sorted(texts)], "texts", "calibration"):
            for (_, snr), result in self.transcriber.transcribe(shard, [(utterance, self.ratios)]).items():
                if isinstance(result, Transcript):
                    yield snr, errors_of(utterance, result)
                else:
                    yield TaggedOutput(FAILED, result.reason)
        self.count()


def errors_of(utterance: Utterance, transcript: Transcript) -> tuple[int, int]:
    """Return the number of word errors and of reference words."""
    reference = utterance.text.split()
    return alignment.align(reference, transcript.words.split()).errors, len(reference)


def calibration_of(
    targets: Sequence[float], curve: Iterable[tuple[float, tuple[int, int]]], failed: Iterable[str]
) -> Calibration:
    """Calibrate a run from its sample.

    Raises:
      InputError: there are no transcripts, because the engine failed or no user turn has words; or a target is far from
        the rates of the sample.
    """
    rates = {snr: errors / max(words, 1) for snr, (errors, words) in curve}
    if len(rates) < 2:
        reason = min(failed, default="no user turn contains words that can be spoken")
        raise InputError(f"no turn was transcribed, so nothing was published: {reason}")
    alignment.check_within_reach(targets, rates[max(rates)], rates[min(rates)])
    return alignment.calibration(targets, rates)


def transcribe_turns(uses: beam.PCollection, channel: Channel, calibration: beam.PCollection) -> Any:
    """Transcribe every turn at the ratios that its sets may need; texts shared by several turns only once.

    Args:
      uses: PCollection of (Utterance, Occurrence).
      channel: the engines and the noise.
      calibration: PCollection of one Calibration.

    Returns:
      PCollections of TurnOutcomes (``turns``) and of the bins of the levels (BINS).
    """
    transcribe = beam.ParDo(_TranscribeShard(channel), beam.pvalue.AsSingleton(calibration))
    return (
        uses
        | "By shard" >> beam.Map(lambda use: (spoken.shard_of(use[0]), use))
        | "Group" >> beam.GroupByKey()
        | "Spread" >> beam.Reshuffle()
        | "Transcribe shard" >> transcribe.with_outputs(BINS, main="turns")
    )


class _TranscribeShard(_Transcribes):
    def process(
        self,
        group: tuple[str, Iterable[tuple[Utterance, Occurrence]]],
        calibration: Calibration,
    ) -> Iterator[TurnOutcomes | TaggedOutput]:
        shard, of_shard = group
        uses: dict[Utterance, list[Occurrence]] = {}
        for utterance, use in sorted(of_shard):
            uses.setdefault(utterance, []).append(use)
        all_outcomes = transcribe_as_needed(self.transcriber, shard, uses, calibration)
        self.count()
        advance(sum(map(len, uses.values())), "turns", _STAGE)
        bins: dict[int, tuple[int, ...]] = {}
        for utterance, same_text in uses.items():
            outcomes = all_outcomes[utterance]
            failed = any(isinstance(outcome.result, Failure) for outcome in outcomes)
            errors, words = {outcome.snr: outcome.errors for outcome in outcomes}, len(utterance.text.split())
            for use in same_text:
                yield TurnOutcomes(use, outcomes)
                for level, more in () if failed else alignment.steps(errors, words, use.draw):
                    sums = (0 if level else words, more)
                    bins[level] = sum_tuples([bins[level], sums]) if level in bins else sums
        for bin_ in bins.items():
            yield TaggedOutput(BINS, bin_)


def transcribe_as_needed(
    transcriber: Transcriber,
    shard: str,
    uses: dict[Utterance, list[Occurrence]],
    calibration: Calibration,
) -> dict[Utterance, list[Outcome]]:
    """Transcribe each text from the calibration's first ratio outwards, until its turns have all ratios they may need.

    Returns:
      The outcomes of each text, starting with the quietest noise; after a failure no other ratio is tried.
    """
    every: dict[Utterance, list[Outcome]] = {utterance: [] for utterance in uses}
    # A service processes many texts at a time. A local engine processes a text at all its ratios, so it is spoken once.
    batches = [list(uses)] if transcriber.channel.parallel else [[utterance] for utterance in uses]
    for batch in batches:
        pending = [(utterance, [calibration.start]) for utterance in batch]
        while pending:
            results = transcriber.transcribe(shard, pending)
            again = []
            for utterance, (snr,) in pending:
                result, outcomes = results[utterance, snr], every[utterance]
                if isinstance(result, Failure):
                    outcomes.append(Outcome(snr, 0, result))
                    continue
                try:
                    errors, words = errors_of(utterance, result)
                    by_ratio = {**{outcome.snr: outcome.errors for outcome in outcomes}, snr: errors}
                    next_ratio = calibration.next_ratio(by_ratio, words, [use.draw for use in uses[utterance]])
                except Exception as error:
                    outcomes.append(Outcome(snr, 0, Failure(bad_record(error).reason)))
                    continue
                outcomes.append(Outcome(snr, errors, result))
                if next_ratio is not None:
                    again.append((utterance, [next_ratio]))
            pending = again
    return {utterance: sorted(outcomes, key=lambda outcome: -outcome.snr) for utterance, outcomes in every.items()}
