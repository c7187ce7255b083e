"""The two times that a corpus is listened to: a sample through every noise, then every turn through those it needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import msgspec
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput

from schemas.errors import InputError
from transforms.corpora import hashed
from transforms.speech.alignment import align
from transforms.speech.calibrate import Errors, Setting, brackets
from transforms.speech.hearing import Heard, Hearer, Sound, Unheard
from transforms.speech.turns import Use, Utterance, shard_of

BINS, FAILED = "bins", "failed"

Levels = dict[float, Heard | Unheard]  # by signal-to-noise ratio


class HeardTurn(msgspec.Struct, frozen=True):
    """A turn with what was heard of it, at every noise that its sets need."""

    use: Use
    levels: list[tuple[float, Heard | Unheard]]


class Sample(beam.PTransform):
    """Hears some texts, chosen by hash, through every noise.

    Args:
      sound: how.
      ratios: the signal-to-noise ratios, dB.
      size: how many texts.
    """

    def __init__(self, sound: Sound, ratios: Sequence[float], size: int) -> None:
        super().__init__()
        self.sound, self.ratios, self.size = sound, tuple(ratios), size

    def expand(self, uses: beam.PCollection) -> Any:
        """PCollection of (Utterance, Use) to those of (ratio, (errors, words)) and of reasons of failures."""
        heard = (
            uses
            | "Texts" >> beam.Map(lambda use: (use[0].voice, use[0].text))  # a key must be of plain types
            | "Distinct" >> beam.Distinct()
            | "Choose" >> beam.combiners.Top.Smallest(self.size, key=drawn_order)
            | "Each" >> beam.FlatMap(lambda chosen: [Utterance(*one) for one in chosen])
            | "By shard" >> beam.Map(lambda utterance: (shard_of(utterance), utterance))
            | "Group" >> beam.GroupByKey()
            | "Spread" >> beam.Reshuffle()
            | "Hear sample" >> beam.ParDo(_HearSample(self.sound, self.ratios)).with_outputs(FAILED, main="heard")
        )
        return heard.heard | "Sum" >> beam.CombinePerKey(sum_tuples), heard[FAILED]


def drawn_order(text: tuple[str, str]) -> tuple[int, tuple[str, str]]:
    """An order of (voice, text) that looks drawn and is always the same."""
    return hashed("sample", *text), text


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
    def __init__(self, sound: Sound, ratios: Sequence[float]) -> None:
        super().__init__(sound)
        self.ratios = ratios

    def process(self, group: tuple[str, Iterable[Utterance]]) -> Iterator[tuple[float, tuple[int, int]] | TaggedOutput]:
        shard, utterances = group
        outcomes = self.hearer.hear(shard, [(utterance, self.ratios) for utterance in sorted(utterances)])
        self.count()
        for (utterance, snr), heard in outcomes.items():
            if isinstance(heard, Heard):
                yield snr, errors_of(utterance, heard)
            else:
                yield TaggedOutput(FAILED, heard.reason)


def errors_of(utterance: Utterance, heard: Heard) -> tuple[int, int]:
    """Word errors, and the words that were said."""
    said = utterance.text.split()
    aligned = align(said, heard.words.split())
    return aligned.substitutions + aligned.deletions + aligned.insertions, len(said)


def settings_of(
    targets: Sequence[float], curve: Iterable[tuple[float, tuple[int, int]]], failed: Iterable[str]
) -> list[Setting]:
    """The brackets of the targets, by what was heard of the sample.

    Raises:
      InputError: a target that cannot be had; a service that answered nothing; a corpus in which nobody says a word.
    """
    found = {snr: Errors(*sums) for snr, sums in curve}
    if len(found) < 2:
        reason = min(failed, default="no user turn has anything that can be said")
        raise InputError(f"nothing was heard, so nothing was published: {reason}")
    return brackets(targets, found)


class HearTurns(beam.PTransform):
    """Hears every turn through the noises that its sets need; a text that many turns have once.

    Args:
      sound: how.
      settings: PCollection of one list of Setting.
    """

    def __init__(self, sound: Sound, settings: beam.PCollection) -> None:
        super().__init__()
        self.sound, self.settings = sound, settings

    def expand(self, uses: beam.PCollection) -> Any:
        """PCollection of (Utterance, Use) to (file, HeardTurn) (main) and the bins of the thresholds (BINS)."""
        return (
            uses
            | "By shard" >> beam.Map(lambda use: (shard_of(use[0]), use))
            | "Group" >> beam.GroupByKey()
            | "Spread" >> beam.Reshuffle()
            | "Hear shard"
            >> beam.ParDo(_HearShard(self.sound), beam.pvalue.AsSingleton(self.settings)).with_outputs(
                BINS, main="turns"
            )
        )


class _HearShard(_Hears):
    def process(
        self, group: tuple[str, Iterable[tuple[Utterance, Use]]], settings: list[Setting]
    ) -> Iterator[tuple[str, HeardTurn] | TaggedOutput]:
        shard, of_shard = group
        uses: dict[Utterance, list[Use]] = {}
        for utterance, use in sorted(of_shard):
            uses.setdefault(utterance, []).append(use)
        outcomes = self.hearer.hear(shard, [(one, levels_of(of_one, settings)) for one, of_one in uses.items()])
        self.count()
        bins: dict[tuple[float, int], tuple[int, ...]] = {}
        for utterance, of_one in uses.items():
            errors = {
                snr: errors_of(utterance, heard)
                for snr in levels_of(of_one, settings)
                if isinstance(heard := outcomes[utterance, snr], Heard)
            }
            for use in of_one:
                levels = levels_of([use], settings)
                yield use.file, HeardTurn(use, [(snr, outcomes[utterance, snr]) for snr in levels])
                for key, sums in _bins(use, settings, errors):
                    bins[key] = sum_tuples([bins[key], sums]) if key in bins else sums
        for bin_ in bins.items():
            yield TaggedOutput(BINS, bin_)


def levels_of(uses: Iterable[Use], settings: Sequence[Setting]) -> list[float]:
    """The signal-to-noise ratios through which turns with these draws must be heard, the quietest noise first."""
    return sorted({snr for use in uses for one in settings for snr in one.levels(use.draw)}, reverse=True)


def _bins(
    use: Use, settings: Sequence[Setting], errors: Mapping[float, tuple[int, int]]
) -> Iterator[tuple[tuple[float, int], tuple[int, ...]]]:
    for one in settings:
        if one.threshold is None and one.quiet in errors and one.loud in errors:
            (quiet, words), (loud, _) = errors[one.quiet], errors[one.loud]
            yield (one.target, use.draw), (words, quiet, loud)


def sum_bins(bins: beam.PCollection) -> beam.PCollection:
    """PCollection of bins to the same with one per target and draw."""
    return bins | "Sum bins" >> beam.CombinePerKey(sum_tuples)
