"""There and back: texts into each pivot, and their translations into English again; each text once per leg."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import msgspec
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.rows import Translation
from parapet.transforms.back_translate.composing import ENGLISH
from parapet.transforms.translation.engine import Batch, Engine, make_batches
from parapet.transforms.translation.memory import Texts, missing
from parapet.transforms.translation.translate import DEAD, Translate, Untranslated, in_groups

ROWS = "rows"


class Known(msgspec.Struct, frozen=True):
    """Translations that need not be paid for: the memory's rows of one engine (of any, for a replay)."""

    texts: Texts

    def of(self, source: str, target: str) -> dict[str, str]:
        """Text to translation."""
        return self.texts.get((source, target), {})

    def rows(self, texts: Iterable[str], source: str, target: str) -> list[Translation]:
        """Those of the texts that are known, as rows of no engine in particular."""
        known = self.of(source, target)
        return [Translation("", "", source, target, text, known[text]) for text in sorted(set(texts) & known.keys())]


def replay(texts: Sequence[str], pivots: Sequence[str], known: Known) -> tuple[list[Translation], list[Untranslated]]:
    """Both legs from the memory alone: the translations that it has, and the texts that it lacks."""
    found: list[Translation] = []
    lacking: list[Untranslated] = []
    for pivot in pivots:
        leg = list(texts)
        for source, target in ((ENGLISH, pivot), (pivot, ENGLISH)):
            rows = known.rows(leg, source, target)
            lacking += [
                Untranslated(source, target, text, "not_in_memory: the memory has no such text")
                for text in missing(leg, known.of(source, target))
            ]
            found += rows
            leg = [row.translation for row in rows]
    return found, lacking


class BackTranslate(beam.PTransform):
    """Sends what is not known to an engine, each text once per leg.

    Args:
      known: translations of the memory.
      engine: for all others.
      paid: the folder in which every translation is kept as soon as it arrives.
    """

    def __init__(self, known: Known, engine: Engine, paid: str) -> None:
        super().__init__()
        self.known, self.engine, self.paid = known, engine, paid

    def expand(self, texts: beam.PCollection) -> Any:
        """PCollection of (pivot, English text) to those of Translation, of both legs, and of Untranslated."""
        there, lost = texts | "There" >> _Leg(False, self.known, self.engine, self.paid)
        back, lost_too = (
            there
            | "Pivot texts" >> beam.Map(lambda row: (row.target, row.translation))
            | "Back" >> _Leg(True, self.known, self.engine, self.paid)
        )
        translations = (there, back) | "Translations" >> beam.Flatten()
        dead = (lost, lost_too) | "Untranslated" >> beam.Flatten()
        return translations, dead


class _Leg(beam.PTransform):
    """(pivot, text) to Translation and Untranslated, one way: out of English, or back into it."""

    def __init__(self, back: bool, known: Known, engine: Engine, paid: str) -> None:
        super().__init__()
        self.back, self.known, self.engine, self.paid = back, known, engine, paid

    def expand(self, texts: beam.PCollection) -> Any:
        batches = (
            texts
            | "Once each" >> beam.Distinct()
            | "Group by pivot" >> beam.GroupByKey()
            | "Batch"
            >> beam.FlatMap(_batches, self.back, self.known, self.engine).with_outputs(DEAD, ROWS, main="batches")
        )
        answered = batches.batches | "Ask" >> Translate(self.engine, self.paid)
        translations = (batches[ROWS], answered.translated) | "Known and new" >> beam.Flatten()
        dead = (batches[DEAD], answered[DEAD]) | "Without an answer" >> beam.Flatten()
        return translations, dead


def _batches(
    group: tuple[str, Iterable[str]], back: bool, known: Known, engine: Engine
) -> Iterator[list[Batch] | TaggedOutput]:
    """Batches of the texts of a pivot that are not known, the known translations, and texts too long to send."""
    pivot, texts = group[0], list(group[1])
    source, target = (pivot, ENGLISH) if back else (ENGLISH, pivot)
    unknown = missing(texts, known.of(source, target))
    batches, too_long = make_batches(unknown, source, target, engine.limits)
    yield from in_groups(batches, engine)
    yield from (TaggedOutput(ROWS, row) for row in known.rows(texts, source, target))
    reason = f"too_long: over {engine.limits.codepoints:,} characters, more than a request may hold"
    yield from (TaggedOutput(DEAD, Untranslated(source, target, text, reason)) for text in too_long)
