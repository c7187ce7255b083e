"""There and back: texts into each pivot, and what came of them into English again; each text once a leg."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import msgspec
from apache_beam.pvalue import TaggedOutput

from schemas.translation import Translation
from transforms.back_translate.texts import ENGLISH
from transforms.translation.batches import Batch, make_batches
from transforms.translation.engine import Engine
from transforms.translation.memory import Texts, missing
from transforms.translation.translate import DEAD, Translate, Untranslated, in_groups

ROWS = "rows"


class Known(msgspec.Struct, frozen=True):
    """What need not be asked for: the memory's rows of one engine (of any, for a replay)."""

    texts: Texts

    def of(self, source: str, target: str) -> dict[str, str]:
        """Text to translation."""
        return self.texts.get((source, target), {})

    def rows(self, texts: Iterable[str], source: str, target: str) -> list[Translation]:
        """Those of the texts that are known, as rows of no engine in particular."""
        known = self.of(source, target)
        return [Translation("", "", source, target, text, known[text]) for text in sorted(set(texts) & known.keys())]


def replay(texts: Sequence[str], pivots: Sequence[str], known: Known) -> tuple[list[Translation], list[Untranslated]]:
    """Both legs from the memory alone: what it has, and what it lacks."""
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
    """Asks an engine for what is not known.

    Args:
      texts: in English, each once.
      pivots: the languages.
      known: what need not be asked for.
      engine: whom to ask.
      paid: where every answer is kept at once.
    """

    def __init__(self, texts: Sequence[str], pivots: Sequence[str], known: Known, engine: Engine, paid: str) -> None:
        super().__init__()
        self.texts, self.pivots, self.known, self.engine, self.paid = list(texts), list(pivots), known, engine, paid

    def expand(self, pipeline: beam.Pipeline) -> Any:
        """Pipeline to the PCollections of Translation, of both legs, and of Untranslated."""
        known, batches, too_long = self._first()
        there = (
            pipeline
            | "Texts" >> beam.Create(in_groups(batches, self.engine))
            | "There" >> Translate(self.engine, self.paid)
        )
        pivot_texts = (there.translated, pipeline | "Known" >> beam.Create(known)) | "Pivot texts" >> beam.Flatten()
        asked = (
            pivot_texts
            | "By pivot" >> beam.Map(_by_pivot)
            | "Once each" >> beam.Distinct()
            | "Group by pivot" >> beam.GroupByKey()
            | "Batch" >> beam.ParDo(_MakeBatches(self.known, self.engine)).with_outputs(DEAD, ROWS, main="asked")
        )
        back = asked.asked | "Back" >> Translate(self.engine, self.paid)
        translations = (pivot_texts, back.translated, asked[ROWS]) | "Translations" >> beam.Flatten()
        long = pipeline | "Too long" >> beam.Create(too_long)
        dead = (there[DEAD], back[DEAD], asked[DEAD], long) | "Untranslated" >> beam.Flatten()
        return translations, dead

    def _first(self) -> tuple[list[Translation], list[Batch], list[Untranslated]]:
        known: list[Translation] = []
        batches: list[Batch] = []
        too_long: list[Untranslated] = []
        for pivot in self.pivots:
            rows, more, long = _split(self.texts, ENGLISH, pivot, self.known, self.engine.limits)
            known, batches, too_long = known + rows, batches + more, too_long + long
        return known, batches, too_long


class _MakeBatches(beam.DoFn):
    def __init__(self, known: Known, engine: Engine) -> None:
        super().__init__()
        self.known, self.engine = known, engine

    def process(self, group: tuple[str, Iterable[str]]) -> Iterator[Any]:
        pivot, texts = group
        rows, batches, too_long = _split(texts, pivot, ENGLISH, self.known, self.engine.limits)
        yield from in_groups(batches, self.engine)
        for row in rows:
            yield TaggedOutput(ROWS, row)
        for one in too_long:
            yield TaggedOutput(DEAD, one)


def _split(
    texts: Iterable[str], source: str, target: str, known: Known, limits: Any
) -> tuple[list[Translation], list[Batch], list[Untranslated]]:
    """What is known of some texts, what is to be asked for, what cannot be."""
    texts = list(texts)
    batches, too_long = make_batches(missing(texts, known.of(source, target)), source, target, limits)
    reason = f"too_long: over {limits.codepoints:,} characters, more than a request may hold"
    long = [Untranslated(source, target, text, reason) for text in too_long]
    return known.rows(texts, source, target), batches, long


def _by_pivot(row: Translation) -> tuple[str, str]:
    return row.target, row.translation
