"""Back-translate user turns, each text once, and estimate the cost before anything is sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import apache_beam as beam
import msgspec
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.dialogue import DialogueFile
from parapet.schemas.errors import InputError
from parapet.schemas.rows import Translation
from parapet.transforms.perturbation.base import REFUSED
from parapet.transforms.perturbation.corpora import dialogues_of
from parapet.transforms.perturbation.user_turns import UserTurn, user_turns
from parapet.transforms.perturbations.paraphrase import (
    Answer,
    Leg,
    pivot_of,
    plain_text,
)
from parapet.transforms.running.fence import bad_record
from parapet.transforms.translation.memory import ENGLISH, MEMORY_FILE, Engine, memory_bytes, merge
from parapet.transforms.translation.translate import BackTranslate, Known, Untranslated


class Translating(msgspec.Struct, frozen=True):
    """How texts are translated.

    Attributes:
      known: translations that need not be requested.
      engine: the engine; None to use only the memory.
      paid: the folder in which every answer is saved immediately.
      memory: further rows of the published memory.
      pivots: the languages that turns are translated to; if empty, nothing is translated, and the memory is kept.
      seed: the seed for choosing a pivot.
      again: whether to translate the result a second time, as a check.
    """

    known: Known
    engine: Engine | None
    paid: str
    memory: Sequence[Translation]
    pivots: Sequence[str] = ()
    seed: str = "0"
    again: bool = False


def translate_turns(
    files: beam.PCollection, how: Translating
) -> tuple[beam.PCollection, beam.PCollection, beam.PCollection | None]:
    """Translate the turns of a PCollection of DialogueFile.

    Returns PCollections of (Leg, Answer) without duplicates, of (path, bytes) of the memory and, if texts are
    translated, of ((file, position), error) for dialogues that raised an exception.
    """
    if how.engine is None:
        known = known_answers(how.known, how.pivots).items()
        answers = files.pipeline | "Known" >> beam.Create(known)
        return answers, _memory(how, files.pipeline | "Nothing new" >> beam.Create([])), None
    read = beam.FlatMap(plain_texts, how).with_outputs(REFUSED, main="texts")
    texts = files | "Texts" >> read
    translated, lost = texts["texts"] | "Translate" >> BackTranslate(how.known, how.engine, how.paid, how.again)
    answers = (translated, lost) | "Answers" >> beam.Flatten() | "As answers" >> beam.Map(answer_of)
    once = answers | "One of each" >> beam.CombinePerKey(max)  # max prefers a translation to a missing one
    return once, _memory(how, translated), texts[REFUSED]


def _memory(how: Translating, translations: beam.PCollection) -> beam.PCollection:
    """Return (path below the output, bytes) of the memory to publish: new and known translations."""
    return (
        translations.pipeline
        | "Once" >> beam.Create([MEMORY_FILE] if how.memory or how.pivots else [], reshuffle=False)
        | "Memory" >> beam.Map(_memory_file, beam.pvalue.AsList(translations), how.memory)
    )


def _memory_file(name: str, translations: Iterable[Translation], memory: Sequence[Translation]) -> tuple[str, bytes]:
    return name, memory_bytes(merge((row for row in translations if row.provider), memory))


def answer_of(row: Translation | Untranslated) -> tuple[Leg, Answer]:
    """Return (leg, answer) for a translation or its failure."""
    answer = (row.translation, "") if isinstance(row, Translation) else ("", row.reason)
    return (row.source, row.target, row.text), answer


def known_answers(known: Known, pivots: Sequence[str]) -> dict[Leg, Answer]:
    """Return the translations of some pivots in a memory, without any requests."""
    legs = [leg for pivot in pivots for leg in ((ENGLISH, pivot), (pivot, ENGLISH))]
    return {(*leg, text): (answer, "") for leg in legs for text, answer in known.of(*leg).items()}


def plain_texts(file: DialogueFile, how: Translating) -> Iterator[tuple[str, str] | TaggedOutput]:
    """Yield (pivot, text) for the turns of a file; nothing if it cannot be read.

    Also yields (place, error) for each dialogue that raises an exception (REFUSED).
    """
    try:
        for position, _, dialogue in dialogues_of(file):
            if isinstance(dialogue, InputError):
                continue
            try:
                texts = [pair for turn in user_turns(dialogue) for pair in _texts_of(turn, how)]
            except Exception as error:
                yield TaggedOutput(REFUSED, ((file.relative, position), bad_record(error)))
                continue
            yield from texts
    except Exception as error:
        bad_record(error)
        return  # the step that writes the sets reports it


def _texts_of(user_turn: UserTurn, how: Translating) -> list[tuple[str, str]]:
    """Return (pivot, text) of what is translated for a turn."""
    text = plain_text(user_turn)
    return [(pivot_of(user_turn, how.pivots, how.seed), text)] if text else []


def plan_lines(files: Iterable[DialogueFile], how: Translating) -> Iterator[str]:
    """Yield a line per pivot on what would be requested. Files that cannot be read are skipped.

    The way back is assumed to be as long as the way there.
    """
    texts: dict[str, set[str]] = {pivot: set() for pivot in how.pivots}
    for file in files:
        for pair in plain_texts(file, how):
            if isinstance(pair, tuple):
                texts[pair[0]].add(pair[1])
    total = 0
    for pivot, of_pivot in texts.items():
        missing = of_pivot - how.known.of(ENGLISH, pivot).keys()
        characters = 2 * sum(map(len, missing))
        yield f"{pivot}: {len(of_pivot):,} different user turns, {len(missing):,} to translate there and back"
        total += characters
    dollars = total * (how.engine.dollars_per_million if how.engine else 0) / 1e6
    yield f"{total:,} characters, ${dollars:,.2f}; dry run: nothing was sent or written"
