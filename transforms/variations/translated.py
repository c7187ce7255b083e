"""Texts of user turns through an engine, each once; what loses a value on the way is sent again without its values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam

from parapet.schemas.dialogue_files import DialogueFile
from parapet.schemas.errors import InputError
from parapet.schemas.translation import Translation
from parapet.transforms.back_translate.composing import ENGLISH
from parapet.transforms.back_translate.legs import BackTranslate, Known
from parapet.transforms.corpora import dialogues_of
from parapet.transforms.translation.engine import Engine
from parapet.transforms.translation.memory import MEMORY_FILE, memory_bytes, merge
from parapet.transforms.translation.translate import Untranslated
from parapet.transforms.user_turns import UserTurn, user_turns
from parapet.transforms.variations.kinds import Settings
from parapet.transforms.variations.paraphrase import Answer, Answers, Leg, hidden_text, pivot_of, plain_text

TextOf = Callable[[UserTurn, str], str]


class TranslateTurns(beam.PTransform):
    """Asks an engine for the user turns of dialogue files.

    Args:
      settings: seed and pivots; without pivots nothing is translated.
      known: what need not be asked for.
      engine: whom to ask; none where the memory has to do.
      paid: where every answer is kept at once.
    """

    def __init__(self, settings: Settings, known: Known, engine: Engine | None, paid: str) -> None:
        super().__init__()
        self.settings, self.known, self.engine, self.paid = settings, known, engine, paid

    def expand(self, files: beam.PCollection) -> Any:
        """PCollection of DialogueFile to those of (Leg, Answer), each once, and of Translation."""
        if self.engine is None:
            known = known_answers(self.known, self.settings.pivots)
            pipeline = files.pipeline
            return pipeline | "Known" >> beam.Create(known), pipeline | "Nothing new" >> beam.Create([])
        plain, lost = (
            files
            | "Texts" >> beam.FlatMap(plain_texts, self.settings)
            | "As they are" >> BackTranslate(self.known, self.engine, self.paid)
        )
        first = (plain, lost) | "First answers" >> beam.Flatten() | "As answers" >> beam.Map(answer_of)
        hidden, lost_too = (
            files
            | "Texts without values"
            >> beam.FlatMap(hidden_texts, self.settings, beam.pvalue.AsDict(_once(first, "First")))
            | "Without values" >> BackTranslate(self.known, self.engine, self.paid)
        )
        second = (hidden, lost_too) | "Second answers" >> beam.Flatten() | "As answers too" >> beam.Map(answer_of)
        answers = _once((first, second) | "All answers" >> beam.Flatten(), "All")
        return answers, (plain, hidden) | "Translations" >> beam.Flatten()


def _once(answers: beam.PCollection, name: str) -> beam.PCollection:
    """A text that was asked for both with and without values has one answer."""
    return answers | f"{name}: one of each" >> beam.CombinePerKey(max)  # a translation rather than none


def answer_of(row: Translation | Untranslated) -> tuple[Leg, Answer]:
    """What came of a text, by the text."""
    answer = (row.translation, "") if isinstance(row, Translation) else ("", row.reason)
    return (row.source, row.target, row.text), answer


def known_answers(known: Known, pivots: Sequence[str]) -> list[tuple[Leg, Answer]]:
    """What a memory has of some pivots, where nobody is asked."""
    legs = [leg for pivot in pivots for leg in ((ENGLISH, pivot), (pivot, ENGLISH))]
    return [((*leg, text), (answer, "")) for leg in legs for text, answer in known.of(*leg).items()]


def plain_texts(file: DialogueFile, settings: Settings) -> Iterator[tuple[str, str]]:
    """(pivot, text) of the turns of a file, as they are; of one that cannot be read nothing."""
    return _texts(file, settings, lambda said, _: plain_text(said))


def hidden_texts(file: DialogueFile, settings: Settings, answers: Answers) -> Iterator[tuple[str, str]]:
    """(pivot, text) of the turns that have lost a value on the way."""
    return _texts(file, settings, lambda said, pivot: hidden_text(said, pivot, answers))


def _texts(file: DialogueFile, settings: Settings, text_of: TextOf) -> Iterator[tuple[str, str]]:
    try:
        for _, _, _, dialogue in dialogues_of(file):
            if isinstance(dialogue, InputError):
                continue
            for said in user_turns(dialogue):
                pivot = pivot_of(said, settings.pivots, settings.seed)
                if text := text_of(said, pivot):
                    yield pivot, text
    except InputError:
        return  # who writes the sets says so


class MakeMemory(beam.PTransform):
    """The memory to be published: what was asked for now, and what was known before.

    Args:
      memory: what was known.
      needed: whether there is to be one even without a row.
    """

    def __init__(self, memory: Sequence[Translation], needed: bool) -> None:
        super().__init__()
        self.memory, self.needed = memory, needed

    def expand(self, translations: beam.PCollection) -> beam.PCollection:
        """PCollection of Translation to (path below the output, bytes)."""
        names = [MEMORY_FILE] if self.memory or self.needed else []
        return (
            translations.pipeline
            | "Once" >> beam.Create(names, reshuffle=False)
            | "File" >> beam.Map(_memory_file, beam.pvalue.AsList(translations), self.memory)
        )


def _memory_file(name: str, translations: Iterable[Translation], memory: Sequence[Translation]) -> tuple[str, bytes]:
    return name, memory_bytes(merge((row for row in translations if row.provider), memory))
