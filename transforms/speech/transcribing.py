"""Transcribes a corpus in two passes: a sample at every ratio, then each turn at the ratios that it needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import apache_beam as beam
import msgspec
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.dialogue import DialogueFile
from parapet.schemas.errors import InputError
from parapet.transforms.perturbation.base import REFUSED
from parapet.transforms.perturbation.fence import Fault, bad_record
from parapet.transforms.progress import advance, expect, tracked
from parapet.transforms.seeding import stable_hash
from parapet.transforms.speech.alignment import align
from parapet.transforms.speech.calibrate import Calibration, calibration, check_within_reach, steps, with_levels
from parapet.transforms.speech.transcriber import Channel, Failure, Transcriber, Transcript
from parapet.transforms.speech.turns import Occurrence, Speakers, Utterance, occurrences_of, shard_of

if TYPE_CHECKING:
    from parapet.transforms.speech.setup import Setup

_STAGE = "transcription"

BINS, FAILED = "bins", "failed"


class Transcribed(NamedTuple):
    """PCollections of transcripts.

    Attributes:
      curve: (ratio, (errors, words)) of the sample; empty where the calibration is another run's.
      turns: TurnOutcomes.
      calibration: one Calibration, with the levels of all sets.
      refused: ((file, position), error) of the dialogues that raised.
    """

    curve: beam.PCollection
    turns: beam.PCollection
    calibration: beam.PCollection
    refused: beam.PCollection


class Transcribe(beam.PTransform):
    """Transcribes a corpus: first a sample, by which the run is calibrated, then every turn.

    Args:
      setup: the engines, the noise and the options.
    """

    def __init__(self, setup: Setup) -> None:
        super().__init__()
        self.setup = setup

    def expand(self, files: beam.PCollection) -> Transcribed:
        """PCollection of DialogueFile to the transcripts of its turns."""
        pipeline, setup, config = files.pipeline, self.setup, self.setup.config
        read = beam.FlatMap(_uses_of, setup.speakers).with_outputs(REFUSED, main="uses")
        texts = files | "Spread files" >> beam.Reshuffle() | "Texts" >> read
        uses = texts["uses"]
        if setup.calibrated is None:
            curve, failed = transcribe_sample(uses, setup.channel, config.targets, config.ratios, config.sample)
            first = (
                pipeline
                | "Once" >> beam.Create([config.targets], reshuffle=False)
                | "Calibrate" >> beam.Map(calibration_of, beam.pvalue.AsIter(curve), beam.pvalue.AsIter(failed))
            )
        else:
            curve = pipeline | "No curve" >> beam.Create([], reshuffle=False)
            first = pipeline | "Calibration" >> beam.Create([setup.calibrated], reshuffle=False)
        outcomes = transcribe_turns(uses, setup.channel, first)
        bins = outcomes[BINS] | "Sum bins" >> beam.CombinePerKey(sum_tuples)
        final = first | "Levels" >> beam.Map(with_levels, beam.pvalue.AsIter(bins))
        return Transcribed(curve, outcomes.turns, final, texts[REFUSED])


def _uses_of(file: DialogueFile, speakers: Speakers) -> Iterator[tuple[Utterance, Occurrence] | TaggedOutput]:
    refused: dict[tuple[str, int], InputError] = {}
    uses = list(occurrences_of(file, speakers, refused))
    expect(len(uses), "turns", _STAGE)
    yield from uses
    yield from (TaggedOutput(REFUSED, pair) for pair in refused.items() if isinstance(pair[1], Fault))


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of recognising an utterance at one signal-to-noise ratio.

    Attributes:
      snr: the signal-to-noise ratio, dB.
      errors: word errors.
      result: the transcript, or why there is none.
    """

    snr: float
    errors: int
    result: Transcript | Failure


class TurnOutcomes(msgspec.Struct, frozen=True):
    """A turn with its outcomes at each ratio among which its sets choose."""

    use: Occurrence
    outcomes: list[Outcome]


def transcribe_sample(
    uses: beam.PCollection, channel: Channel, targets: Sequence[float], ratios: Sequence[float], size: int
) -> tuple[beam.PCollection, beam.PCollection]:
    """Transcribes some texts, chosen by hash, at every ratio: first the two extremes, to check that they suffice.

    Args:
      uses: PCollection of (Utterance, Occurrence).
      channel: the engines and the noise.
      targets: the word error rates of the sets.
      ratios: the signal-to-noise ratios, dB, the quietest noise first.
      size: how many texts.

    Returns:
      PCollections of (ratio, (errors, words)), and of reasons of failures.
    """
    quietest, *between, loudest = ratios
    chosen = (
        uses
        | "Sample" >> beam.Map(lambda use: (use[0].voice, use[0].text))  # a key must be of plain types
        | "Distinct" >> beam.Distinct()
        | "Choose" >> beam.combiners.Top.Smallest(size, key=drawn_order)
        | "Sample by shard" >> beam.FlatMap(_by_shard)
        | "Group sample" >> beam.GroupByKey()
        | "Spread sample" >> beam.Reshuffle()
    )
    hear = partial(_TranscribeSample, channel)
    extremes = chosen | "Extremes" >> beam.ParDo(hear((quietest, loudest))).with_outputs(FAILED, main="curve")
    ends = extremes.curve | "Sum extremes" >> beam.CombinePerKey(sum_tuples)
    within_reach = (
        uses.pipeline
        | "Targets" >> beam.Create([tuple(targets)], reshuffle=False)
        | "Within reach" >> beam.Map(_check_extremes, beam.pvalue.AsDict(ends), quietest, loudest)
    )
    others = chosen | "Between" >> beam.ParDo(hear(between), beam.pvalue.AsSingleton(within_reach)).with_outputs(
        FAILED, main="curve"
    )
    sums = others.curve | "Sum between" >> beam.CombinePerKey(sum_tuples)
    curve = (ends, sums) | "Curve" >> beam.Flatten()
    return curve, (extremes[FAILED], others[FAILED]) | "Failures" >> beam.Flatten()


def _by_shard(chosen: Sequence[tuple[str, str]]) -> Iterator[tuple[str, tuple[str, str]]]:
    expect(2 * len(chosen), "texts", "calibration")
    for voice, text in chosen:
        yield shard_of(Utterance(voice, text)), (voice, text)


def _check_extremes(
    targets: Sequence[float], ends: Mapping[float, tuple[int, int]], quietest: float, loudest: float
) -> bool:
    """True. Raises InputError where a target is out of reach of these ratios."""
    if quietest in ends and loudest in ends:
        check_within_reach(targets, _rate(*ends[quietest]), _rate(*ends[loudest]))
    return True


def _rate(errors: int, words: int) -> float:
    return errors / max(words, 1)


def drawn_order(text: tuple[str, str]) -> tuple[int, tuple[str, str]]:
    """A pseudo-random order of (voice, text) that is always the same."""
    return stable_hash("sample", *text), text


def sum_tuples(values: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """Sums tuples element by element."""
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
        self, group: tuple[str, Iterable[tuple[str, str]]], within_reach: bool = True
    ) -> Iterator[tuple[float, tuple[int, int]] | TaggedOutput]:
        """The errors and words of each text of a shard at each ratio.

        Args:
          group: the shard, and (voice, text) of it.
          within_reach: comes once the extremes are known, so that a target out of reach ends the run before.
        """
        shard, texts = group
        with self.transcriber.using(shard):
            for utterance in tracked([Utterance(*text) for text in sorted(texts)], "texts", "calibration"):
                for (_, snr), result in self.transcriber.transcribe(shard, [(utterance, self.ratios)]).items():
                    if isinstance(result, Transcript):
                        yield snr, errors_of(utterance, result)
                    else:
                        yield TaggedOutput(FAILED, result.reason)
        self.count()


def errors_of(utterance: Utterance, transcript: Transcript) -> tuple[int, int]:
    """Word errors, and the number of reference words."""
    reference = utterance.text.split()
    aligned = align(reference, transcript.words.split())
    return aligned.substitutions + aligned.deletions + aligned.insertions, len(reference)


def calibration_of(
    targets: Sequence[float], curve: Iterable[tuple[float, tuple[int, int]]], failed: Iterable[str]
) -> Calibration:
    """Calibrates a run by its sample.

    Raises:
      InputError: there are no transcripts: the engine failed, or the corpus has no user turn with words.
    """
    rates = {snr: _rate(*sums) for snr, sums in curve}
    if len(rates) < 2:
        reason = min(failed, default="no user turn has words that can be spoken")
        raise InputError(f"no turn was transcribed, so nothing was published: {reason}")
    return calibration(targets, rates)


def transcribe_turns(uses: beam.PCollection, channel: Channel, calibration: beam.PCollection) -> Any:
    """Transcribes every turn at the ratios that its sets may need; a text that many turns share only once.

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
        | "By shard" >> beam.Map(lambda use: (shard_of(use[0]), use))
        | "Group" >> beam.GroupByKey()
        | "Spread" >> beam.Reshuffle()
        | "Transcribe shard" >> transcribe.with_outputs(BINS, main="turns")
    )


class _TranscribeShard(_Transcribes):
    def process(
        self, group: tuple[str, Iterable[tuple[Utterance, Occurrence]]], calibration: Calibration
    ) -> Iterator[TurnOutcomes | TaggedOutput]:
        shard, of_shard = group
        uses: dict[Utterance, list[Occurrence]] = {}
        for utterance, use in sorted(of_shard):
            uses.setdefault(utterance, []).append(use)
        with self.transcriber.using(shard):
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
                for level, more in () if failed else steps(errors, words, use.draw):
                    sums = (0 if level else words, more)
                    bins[level] = sum_tuples([bins[level], sums]) if level in bins else sums
        for bin_ in bins.items():
            yield TaggedOutput(BINS, bin_)


def transcribe_as_needed(
    transcriber: Transcriber, shard: str, uses: dict[Utterance, list[Occurrence]], calibration: Calibration
) -> dict[Utterance, list[Outcome]]:
    """Transcribes each text from the calibration's first ratio outwards, until its turns have what they may need.

    Returns:
      The outcomes of each text, the quietest noise first; after a failure no other ratio is tried.
    """
    every: dict[Utterance, list[Outcome]] = {utterance: [] for utterance in uses}
    # A service hears many texts at a time. A local engine hears one at all its ratios: then it is spoken once.
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
