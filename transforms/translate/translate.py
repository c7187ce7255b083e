"""Translation of batches by an engine, there and back. Each answer is stored before anything else happens to it."""

from __future__ import annotations

import hashlib
import html
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import apache_beam as beam
import msgspec
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.layout import as_path, is_there
from parapet.schemas.rows import Translation
from parapet.transforms.core import fence, files, progress
from parapet.transforms.translate.memory import ENGLISH, Batch, Engine, Limits, Texts, make_batches, missing

DEAD = "dead"

_STAGE = "translation"
_REQUESTS_EACH = 8  # requests per thread in a group: few enough that a slow request does not hold up the others


class Untranslated(msgspec.Struct, frozen=True, order=True):
    """A text without a translation. The reason is an id and, after a colon, an explanation for people."""

    source: str
    target: str
    text: str
    reason: str


class _Translate(beam.DoFn):
    def __init__(self, engine: Engine, paid: str) -> None:
        super().__init__()
        self.engine, self.paid = engine, paid
        self.opened = False
        self.stopped = ""

    def teardown(self) -> None:
        if self.opened:
            self.engine.close()

    def process(self, batches: list[Batch]) -> Iterator[Any]:
        with ThreadPoolExecutor(self.engine.parallel) as pool:
            if not self.opened:  # before any thread needs it
                self.engine.open()
                self.opened = True
            done = list(pool.map(self._translate, batches))
        for outcomes, requests, codepoints in done:
            # Beam loses counts made in our own threads.
            Metrics.counter("parapet", "requests").inc(requests)
            Metrics.counter("parapet", "codepoints").inc(codepoints)
            for outcome in outcomes:
                if isinstance(outcome, Untranslated):
                    Metrics.counter("parapet", "texts_not_translated").inc()
                    yield TaggedOutput(DEAD, outcome)
                else:
                    yield outcome

    def _translate(self, batch: Batch) -> tuple[list[Translation | Untranslated], int, int]:
        """Returns the outcomes of one batch, with the number of requests and of codepoints sent."""
        part = part_of(batch, self.engine)
        # Answers exist already if Beam retries this bundle; they are not requested twice.
        kept = read_part(self.paid, part)
        outcomes_of_batch: list[Translation | Untranslated] = list(kept)
        requests = codepoints = 0
        known = {row.text for row in kept}
        rest = tuple(text for text in batch.texts if text not in known)
        for outcomes, sent in self._requests(Batch(batch.source, batch.target, rest)) if rest else ():
            if fresh := [outcome for outcome in outcomes if isinstance(outcome, Translation)]:
                # Stored before the next request, because the parts of a split batch are paid for separately.
                kept = [*kept, *fresh]
                with files.whole(files.join(self.paid, part)) as handle:
                    handle.write(msgspec.json.encode(kept))
            outcomes_of_batch += outcomes
            requests, codepoints = requests + (sent > 0), codepoints + sent
        progress.advance(len(batch.texts), "texts", _STAGE)
        return outcomes_of_batch, requests, codepoints

    def _requests(self, batch: Batch) -> Iterator[tuple[list[Translation | Untranslated], int]]:
        """Yields the outcomes of one request after the other, with the number of codepoints answered."""
        try:
            if self.stopped:
                raise fence.Stopped(self.stopped)
            answers = self.engine.translate(list(batch.texts), batch.source, batch.target)
        except fence.Stopped as error:
            self.stopped = error.reason
            yield _dead(batch, error.reason), 0
        except fence.Refused as error:
            if error.splits and len(batch.texts) > 1:
                middle = len(batch.texts) // 2
                for texts in (batch.texts[:middle], batch.texts[middle:]):
                    yield from self._requests(Batch(batch.source, batch.target, texts))
            else:
                yield _dead(batch, error.reason), 0
        except Exception as error:
            yield _dead(batch, fence.bad_record(error, self.engine).reason), 0
        else:
            size = sum(map(len, batch.texts))
            if len(answers) != len(batch.texts):
                reason = f"wrong_count: {len(batch.texts)} texts were sent, but {len(answers)} were returned"
                yield _dead(batch, reason), size
            else:
                pairs = zip(batch.texts, answers, strict=True)
                yield [self._outcome(batch, text, answer) for text, answer in pairs], size

    def _outcome(self, batch: Batch, text: str, answer: str) -> Translation | Untranslated:
        if not (translation := unescaped(text, answer).strip()):
            return Untranslated(batch.source, batch.target, text, "empty_answer: the engine returned an empty text")
        return Translation(self.engine.provider, self.engine.model, batch.source, batch.target, text, translation)


def _dead(batch: Batch, reason: str) -> list[Translation | Untranslated]:
    return [Untranslated(batch.source, batch.target, text, reason) for text in batch.texts]


def unescaped(text: str, answer: str) -> str:
    """Replaces HTML entities in an answer if the text that was sent had none."""
    return answer if html.unescape(text) != text else html.unescape(answer)


def part_of(batch: Batch, engine: Engine) -> str:
    """Returns the name of the file for the answers to a batch, which depends on the engine and the texts."""
    return f"{hashlib.sha256(msgspec.json.encode([engine.provider, engine.model, batch])).hexdigest()}.json"


_decode = msgspec.json.Decoder(list[Translation]).decode  # created before threads start, as in schemas/service.py


def read_part(paid: str, part: str) -> list[Translation]:
    """Reads the stored answers to a batch; empty if it was never answered."""
    return _decode(files.read_written(paid, part)) if FileSystems.exists(files.join(paid, part)) else []


def read_parts(paid: str) -> list[Translation]:
    """Reads all answers stored in a folder, that is, everything an interrupted run has paid for."""
    if not is_there(folder := as_path(paid)):
        return []
    parts = [read_part(paid, path.name) for path in sorted(folder.iterdir()) if path.suffix == ".json"]
    return [row for rows in parts for row in rows]


ROWS = "rows"


class Known(msgspec.Struct, frozen=True):
    """Translations that need not be paid for: the memory's rows of one engine, or of any engine for a replay."""

    texts: Texts

    def of(self, source: str, target: str) -> dict[str, str]:
        """Returns translation by text."""
        return self.texts.get((source, target), {})

    def rows(self, texts: Iterable[str], source: str, target: str) -> list[Translation]:
        """Returns the known texts as rows without an engine."""
        known = self.of(source, target)
        return [Translation("", "", source, target, text, known[text]) for text in sorted(set(texts) & known.keys())]


class Translating(msgspec.Struct, frozen=True):
    """How texts are translated.

    Attributes:
      known: translations that need not be requested.
      engine: the engine; None to use only the memory.
      paid: the folder in which every answer is saved immediately.
      memory: further rows of the published memory.
      pivots: the languages that texts are translated to.
    """

    known: Known
    engine: Engine | None
    paid: str
    memory: Sequence[Translation]
    pivots: Sequence[str]


class Replay(Engine):
    """Stands for an engine where only the memory may answer."""

    provider = "memory"
    model = ""
    limits = Limits(1024, 1_000_000)

    def open(self) -> None:
        """Does nothing."""

    def translate(self, texts: list[str], source: str, target: str) -> list[str]:
        """Raises Refused: what is asked for is not in the memory."""
        raise fence.Refused("not_in_memory: add a --memory that contains the text, or choose another --engine")


class BackTranslate(beam.PTransform):
    """Sends unknown texts to an engine, each text once per direction.

    Args:
      known: the translations in the memory.
      engine: the engine for all other texts.
      paid: the folder in which every translation is kept as soon as it arrives.
    """

    def __init__(self, known: Known, engine: Engine, paid: str) -> None:
        super().__init__()
        self.known, self.engine, self.paid = known, engine, paid

    def expand(self, texts: beam.PCollection) -> Any:
        """Transforms a PCollection of (pivot, English text) to Translation, in both directions, and Untranslated."""
        forth, lost = texts | "There" >> OneWay(False, self.known, self.engine, self.paid)
        back, lost_too = (
            forth
            | "Pivot texts" >> beam.Map(lambda row: (row.target, row.translation))
            | "Back" >> OneWay(True, self.known, self.engine, self.paid)
        )
        return (forth, back) | "Translations" >> beam.Flatten(), (lost, lost_too) | "Untranslated" >> beam.Flatten()


class OneWay(beam.PTransform):
    """Translates (pivot, text) in one direction to Translation and Untranslated.

    Args:
      back: whether into English instead of out of it.
      known: the translations in the memory.
      engine: the engine for all other texts.
      paid: the folder in which every translation is kept as soon as it arrives.
    """

    def __init__(self, back: bool, known: Known, engine: Engine, paid: str) -> None:
        super().__init__()
        self.back, self.known, self.engine, self.paid = back, known, engine, paid

    def expand(self, texts: beam.PCollection) -> Any:
        """Transforms a PCollection of (pivot, text) to Translation and Untranslated."""
        batches = (
            texts
            | "Once each" >> beam.Distinct()
            | "Group by pivot" >> beam.GroupByKey()
            | "Batch"
            >> beam.FlatMap(_batches, self.back, self.known, self.engine).with_outputs(DEAD, ROWS, main="batches")
        )
        answered = (
            batches.batches
            | "Spread" >> beam.Reshuffle()
            | "Translate group" >> beam.ParDo(_Translate(self.engine, self.paid)).with_outputs(DEAD, main="translated")
        )
        translations = (batches[ROWS], answered.translated) | "Known and new" >> beam.Flatten()
        return translations, (batches[DEAD], answered[DEAD]) | "Without an answer" >> beam.Flatten()


def _batches(
    group: tuple[str, Iterable[str]], back: bool, known: Known, engine: Engine
) -> Iterator[list[Batch] | TaggedOutput]:
    """Yields batches of a pivot's unknown texts, the known translations, and the texts that are too long to send."""
    pivot, texts = group[0], list(group[1])
    source, target = (pivot, ENGLISH) if back else (ENGLISH, pivot)
    unknown = missing(texts, known.of(source, target))
    batches, too_long = make_batches(unknown, source, target, engine.limits)
    progress.expect(len(unknown) - len(too_long), "texts", _STAGE)
    size = engine.parallel * _REQUESTS_EACH if engine.parallel > 1 else 1
    yield from (batches[i : i + size] for i in range(0, len(batches), size))
    yield from (TaggedOutput(ROWS, row) for row in known.rows(texts, source, target))
    reason = f"too_long: the text has more than {engine.limits.codepoints:,} characters, the limit of a request"
    yield from (TaggedOutput(DEAD, Untranslated(source, target, text, reason)) for text in too_long)
