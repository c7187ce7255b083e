"""The two times that a corpus is heard: some texts through every noise, then every turn through those it needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import apache_beam as beam
import msgspec
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.errors import InputError
from parapet.transforms.seeding import stable_hash
from parapet.transforms.speech.alignment import align
from parapet.transforms.speech.calibrate import Calibration, Errors, calibration, check_within_reach, steps, with_levels
from parapet.transforms.speech.hearing import Heard, Hearer, Sound, Unheard
from parapet.transforms.speech.turns import Use, Utterance, shard_of, uses_of

if TYPE_CHECKING:
    from parapet.transforms.speech.setup import Setup

BINS, FAILED = "bins", "failed"


class Listened(NamedTuple):
    """PCollections of what was heard.

    Attributes:
      curve: (ratio, (errors, words)) of the sample; none where the calibration is another run's.
      turns: (file, HeardTurn).
      calibration: one Calibration, with the levels of all sets.
    """

    curve: beam.PCollection
    turns: beam.PCollection
    calibration: beam.PCollection


class Listen(beam.PTransform):
    """Hears a corpus: a sample, by which it is calibrated, then every turn.

    Args:
      setup: with what.
    """

    def __init__(self, setup: Setup) -> None:
        super().__init__()
        self.setup = setup

    def expand(self, files: beam.PCollection) -> Listened:
        """PCollection of DialogueFile to what was heard in them."""
        pipeline, setup, config = files.pipeline, self.setup, self.setup.config
        uses = files | "Spread files" >> beam.Reshuffle() | "Texts" >> beam.FlatMap(uses_of, setup.speakers)
        if setup.calibrated is None:
            curve, failed = uses | "Sample" >> Sample(setup.sound, config.targets, config.ratios, config.sample)
            first = (
                pipeline
                | "Once" >> beam.Create([config.targets], reshuffle=False)
                | "Calibrate" >> beam.Map(calibration_of, beam.pvalue.AsIter(curve), beam.pvalue.AsIter(failed))
            )
        else:
            curve = pipeline | "No curve" >> beam.Create([], reshuffle=False)
            first = pipeline | "Calibration" >> beam.Create([setup.calibrated], reshuffle=False)
        heard = uses | "Hear" >> HearTurns(setup.sound, first)
        final = first | "Levels" >> beam.Map(with_levels, beam.pvalue.AsIter(sum_bins(heard[BINS])))
        return Listened(curve, heard.turns, final)


class Level(msgspec.Struct, frozen=True):
    """What was heard of a text through one noise.

    Attributes:
      snr: the signal-to-noise ratio, dB.
      errors: in words.
      outcome: what was heard, or why nothing could be.
    """

    snr: float
    errors: int
    outcome: Heard | Unheard


class HeardTurn(msgspec.Struct, frozen=True):
    """A turn with what was heard of it, at every noise among which its sets choose."""

    use: Use
    levels: list[Level]


class Sample(beam.PTransform):
    """Hears some texts, chosen by hash, through every noise: first the quietest and the loudest, whether they will do.

    Args:
      sound: how.
      targets: the word error rates that are wanted.
      ratios: the signal-to-noise ratios, dB, the quietest noise first.
      size: how many texts.
    """

    def __init__(self, sound: Sound, targets: Sequence[float], ratios: Sequence[float], size: int) -> None:
        super().__init__()
        self.sound, self.targets, self.ratios, self.size = sound, tuple(targets), tuple(ratios), size

    def expand(self, uses: beam.PCollection) -> Any:
        """PCollection of (Utterance, Use) to those of (ratio, (errors, words)) and of reasons of failures."""
        heard = (
            uses
            | "Texts" >> beam.Map(lambda use: (use[0].voice, use[0].text))  # a key must be of plain types
            | "Distinct" >> beam.Distinct()
            | "Choose" >> beam.combiners.Top.Smallest(self.size, key=drawn_order)
            | "Hear sample"
            >> beam.ParDo(_HearSample(self.sound, self.targets, self.ratios)).with_outputs(FAILED, main="heard")
        )
        return heard.heard, heard[FAILED]


def drawn_order(text: tuple[str, str]) -> tuple[int, tuple[str, str]]:
    """An order of (voice, text) that looks drawn and is always the same."""
    return stable_hash("sample", *text), text


def sum_tuples(values: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """The sums, place by place."""
    return tuple(map(sum, zip(*values, strict=True)))


class _Hears(beam.DoFn):
    def __init__(self, sound: Sound) -> None:
        super().__init__()
        self.sound = sound

    def setup(self) -> None:
        self.hearer = Hearer(self.sound)

    def teardown(self) -> None:
        self.hearer.close()

    def count(self) -> None:
        Metrics.counter("parapet", "decoded").inc(self.hearer.decoded)
        self.hearer.decoded = 0


class _HearSample(_Hears):
    """In one place, so that a target that is out of reach ends the run after the first texts."""

    def __init__(self, sound: Sound, targets: Sequence[float], ratios: Sequence[float]) -> None:
        super().__init__(sound)
        self.targets, self.ratios = targets, ratios

    def process(self, chosen: Sequence[tuple[str, str]]) -> Iterator[tuple[float, tuple[int, ...]] | TaggedOutput]:
        utterances = [Utterance(*one) for one in sorted(chosen)]
        quietest, *between, loudest = self.ratios
        curve: dict[float, tuple[int, ...]] = {}
        for ratios in ((quietest, loudest), between):
            for utterance in utterances:
                outcomes = self.hearer.hear(shard_of(utterance), [(utterance, ratios)])
                for (_, snr), heard in outcomes.items():
                    if isinstance(heard, Heard):
                        curve[snr] = sum_tuples([curve.get(snr, (0, 0)), errors_of(utterance, heard)])
                    else:
                        yield TaggedOutput(FAILED, heard.reason)
            if quietest in curve and loudest in curve:
                check_within_reach(self.targets, Errors(*curve[quietest]), Errors(*curve[loudest]))
        self.count()
        yield from curve.items()


def errors_of(utterance: Utterance, heard: Heard) -> tuple[int, int]:
    """Word errors, and the words that were said."""
    said = utterance.text.split()
    aligned = align(said, heard.words.split())
    return aligned.substitutions + aligned.deletions + aligned.insertions, len(said)


def calibration_of(
    targets: Sequence[float], curve: Iterable[tuple[float, tuple[int, int]]], failed: Iterable[str]
) -> Calibration:
    """How turns are heard, by what was heard of the sample.

    Raises:
      InputError: a service that answered nothing; a corpus in which nobody says a word.
    """
    found = {snr: Errors(*sums) for snr, sums in curve}
    if len(found) < 2:
        reason = min(failed, default="no user turn has anything that can be said")
        raise InputError(f"nothing was heard, so nothing was published: {reason}")
    return calibration(targets, found)


class HearTurns(beam.PTransform):
    """Hears every turn through the noises that its sets may need; a text that many turns have once.

    Args:
      sound: how.
      calibration: PCollection of one Calibration.
    """

    def __init__(self, sound: Sound, calibration: beam.PCollection) -> None:
        super().__init__()
        self.sound, self.calibration = sound, calibration

    def expand(self, uses: beam.PCollection) -> Any:
        """PCollection of (Utterance, Use) to (file, HeardTurn) (main) and the bins of the levels (BINS)."""
        return (
            uses
            | "By shard" >> beam.Map(lambda use: (shard_of(use[0]), use))
            | "Group" >> beam.GroupByKey()
            | "Spread" >> beam.Reshuffle()
            | "Hear shard"
            >> beam.ParDo(_HearShard(self.sound), beam.pvalue.AsSingleton(self.calibration)).with_outputs(
                BINS, main="turns"
            )
        )


class _HearShard(_Hears):
    def process(
        self, group: tuple[str, Iterable[tuple[Utterance, Use]]], calibration: Calibration
    ) -> Iterator[tuple[str, HeardTurn] | TaggedOutput]:
        shard, of_shard = group
        uses: dict[Utterance, list[Use]] = {}
        for utterance, use in sorted(of_shard):
            uses.setdefault(utterance, []).append(use)
        every = hear_as_needed(self.hearer, shard, uses, calibration)
        self.count()
        bins: dict[int, tuple[int, ...]] = {}
        for utterance, of_one in uses.items():
            levels = every[utterance]
            failed = any(isinstance(level.outcome, Unheard) for level in levels)
            errors, words = {level.snr: level.errors for level in levels}, len(utterance.text.split())
            for use in of_one:
                yield use.file, HeardTurn(use, levels)
                for level, more in () if failed else steps(errors, words, use.draw):
                    sums = (0 if level else words, more)
                    bins[level] = sum_tuples([bins[level], sums]) if level in bins else sums
        for bin_ in bins.items():
            yield TaggedOutput(BINS, bin_)


def hear_as_needed(
    hearer: Hearer, shard: str, uses: dict[Utterance, list[Use]], calibration: Calibration
) -> dict[Utterance, list[Level]]:
    """Hears each text from the calibration's first ratio outwards, until its turns have what they may need.

    Returns:
      What was heard of each, the quietest noise first; after a failure nothing more is tried of that text.
    """
    every: dict[Utterance, list[Level]] = {utterance: [] for utterance in uses}
    pending = [(utterance, [calibration.start]) for utterance in uses]
    while pending:
        outcomes = hearer.hear(shard, pending)
        again = []
        for utterance, (snr,) in pending:
            outcome, levels = outcomes[utterance, snr], every[utterance]
            if isinstance(outcome, Unheard):
                levels.append(Level(snr, 0, outcome))
                continue
            errors, words = errors_of(utterance, outcome)
            levels.append(Level(snr, errors, outcome))
            heard = {level.snr: level.errors for level in levels}
            following = calibration.next_ratio(heard, words, [use.draw for use in uses[utterance]])
            if following is not None:
                again.append((utterance, [following]))
        pending = again
    return {utterance: sorted(levels, key=lambda level: -level.snr) for utterance, levels in every.items()}


def sum_bins(bins: beam.PCollection) -> beam.PCollection:
    """PCollection of bins to the same with one per level."""
    return bins | "Sum bins" >> beam.CombinePerKey(sum_tuples)
