"""Back-translate user turns, each text once; texts that lose a value are sent again without their values.

Also estimates the cost before anything is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import apache_beam as beam
import msgspec
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.dialogue import DialogueFile
from parapet.schemas.errors import InputError
from parapet.schemas.rows import Translation
from parapet.transforms.perturbation.base import REFUSED
from parapet.transforms.perturbation.corpora import dialogues_of
from parapet.transforms.perturbation.user_turns import UserTurn, user_turns
from parapet.transforms.perturbations import generated
from parapet.transforms.perturbations.generated import KINDS, Writer, language_of, marked
from parapet.transforms.perturbations.paraphrase import (
    Answer,
    Answers,
    Leg,
    back_of,
    hidden,
    hidden_text,
    pivot_of,
    plain_text,
)
from parapet.transforms.running.fence import bad_record
from parapet.transforms.translation.memory import ENGLISH, MEMORY_FILE, Engine, memory_bytes, merge
from parapet.transforms.translation.translate import BackTranslate, Known, OneWay, Untranslated

TextsOf = Callable[[UserTurn], Iterable[tuple[str, str]]]  # (pivot, text)


class Translating(msgspec.Struct, frozen=True):
    """How texts are translated.

    Attributes:
      known: translations that need not be requested.
      engine: the engine; None to use only the memory.
      paid: the folder in which every answer is saved immediately.
      memory: further rows of the published memory.
      pivots: the languages that turns are translated to; if empty, nothing is translated, and the memory is kept. For a
        language model (``generated``), all are requested, and nothing is translated back.
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

    @property
    def writer(self) -> Writer | None:
        """Return the engine if it is a language model that writes turns."""
        return self.engine if isinstance(self.engine, Writer) else None


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
    if how.writer:
        written, lost = texts["texts"] | "Write" >> OneWay(False, how.known, how.engine, how.paid)
        answers = (written, lost) | "Answers" >> beam.Flatten() | "As answers" >> beam.Map(answer_of)
        return answers, _memory(how, written), texts[REFUSED]
    plain, lost = texts["texts"] | "As they are" >> BackTranslate(how.known, how.engine, how.paid, how.again)
    first = (plain, lost) | "First answers" >> beam.Flatten() | "As answers" >> beam.Map(answer_of)
    read_again = beam.FlatMap(hidden_texts, how, beam.pvalue.AsDict(_once(first, "First")))
    without = files | "Texts without values" >> read_again.with_outputs(REFUSED, main="texts")
    hidden, lost_too = without["texts"] | "Without values" >> BackTranslate(how.known, how.engine, how.paid, how.again)
    second = (hidden, lost_too) | "Second answers" >> beam.Flatten() | "As answers too" >> beam.Map(answer_of)
    answers = _once((first, second) | "All answers" >> beam.Flatten(), "All")
    refused = (texts[REFUSED], without[REFUSED]) | "Untranslated" >> beam.Flatten()
    return answers, _memory(how, (plain, hidden) | "Translations" >> beam.Flatten()), refused


def _memory(how: Translating, translations: beam.PCollection) -> beam.PCollection:
    """Return (path below the output, bytes) of the memory to publish: new and known translations."""
    return (
        translations.pipeline
        | "Once" >> beam.Create([MEMORY_FILE] if how.memory or how.pivots else [], reshuffle=False)
        | "Memory" >> beam.Map(_memory_file, beam.pvalue.AsList(translations), how.memory)
    )


def _memory_file(name: str, translations: Iterable[Translation], memory: Sequence[Translation]) -> tuple[str, bytes]:
    return name, memory_bytes(merge((row for row in translations if row.provider), memory))


def _once(answers: beam.PCollection, name: str) -> beam.PCollection:
    """Merge the answers of texts that were requested both with and without values."""
    return answers | f"{name}: one of each" >> beam.CombinePerKey(max)  # max prefers a translation to a missing one


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
    if how.writer:
        return _texts(file, lambda user_turn: [(pivot, marked(user_turn)) for pivot in how.pivots])
    return _texts(file, lambda user_turn: [(pivot_of(user_turn, how.pivots, how.seed), plain_text(user_turn))])


def hidden_texts(file: DialogueFile, how: Translating, answers: Answers) -> Iterator[tuple[str, str] | TaggedOutput]:
    """Yield (pivot, text) for turns that lost a value, and exceptions as in :func:`plain_texts`."""

    def of(user_turn: UserTurn) -> list[tuple[str, str]]:
        pivot = pivot_of(user_turn, how.pivots, how.seed)
        return [(pivot, hidden_text(user_turn, pivot, answers))]

    return _texts(file, of)


def _texts(file: DialogueFile, texts_of: TextsOf) -> Iterator[tuple[str, str] | TaggedOutput]:
    try:
        for position, _, dialogue in dialogues_of(file):
            if isinstance(dialogue, InputError):
                continue
            try:
                texts = [(pivot, text) for turn in user_turns(dialogue) for pivot, text in texts_of(turn) if text]
            except Exception as error:
                yield TaggedOutput(REFUSED, ((file.relative, position), bad_record(error)))
                continue
            yield from texts
    except Exception as error:
        bad_record(error)
        return  # the step that writes the sets reports it


def plan_lines(files: Iterable[DialogueFile], how: Translating) -> Iterator[str]:
    """Yield a line per pivot on what would be requested. Files that cannot be read are skipped.

    The way back is assumed to be as long as the way there. Texts that lose values are counted a second time.
    """
    if how.writer:
        kinds = [kind for kind in KINDS if language_of(kind) in how.pivots]
        yield from generated.plan_lines(files, kinds, how.known, how.writer.chat.endpoint)
        return
    texts: dict[str, _Texts] = {pivot: _Texts(set(), set(), set()) for pivot in how.pivots}
    answers = known_answers(how.known, how.pivots)
    for file in files:
        with suppress(InputError):
            for _, _, dialogue in dialogues_of(file):
                for user_turn in () if isinstance(dialogue, InputError) else user_turns(dialogue):
                    pivot = pivot_of(user_turn, how.pivots, how.seed)
                    if not (text := plain_text(user_turn)):
                        continue
                    texts[pivot].plain.add(text)
                    if back_of(text, pivot, answers)[0]:
                        if again := hidden_text(user_turn, pivot, answers):
                            texts[pivot].certain.add(again)
                    elif (form := hidden(user_turn)).values:
                        texts[pivot].perhaps.add(form.text)
    total = most = 0
    for pivot, (plain, certain, perhaps) in texts.items():
        missing_texts, characters = _missing(plain | certain, pivot, how.known)
        more, more_characters = _missing(perhaps - plain - certain, pivot, how.known)
        yield (
            f"{pivot}: {len(plain):,} different user turns; {missing_texts:,} texts to translate there and back, "
            f"about {characters:,} characters; up to {more:,} more texts without their values, "
            f"{more_characters:,} characters"
        )
        total += characters
        most += characters + more_characters
    dollars_per_million = how.engine.dollars_per_million if how.engine else 0
    cost, most_cost = (f"${size * dollars_per_million / 1e6:,.2f}" for size in (total, most))
    yield f"{total:,} to {most:,} characters, {cost} to {most_cost}; dry run: nothing was sent or written"


class _Texts(NamedTuple):
    """The texts of a pivot: complete turns; turns without values, where these are lost; and where they may be lost."""

    plain: set[str]
    certain: set[str]
    perhaps: set[str]


def _missing(texts: set[str], pivot: str, known: Known) -> tuple[int, int]:
    """Count the texts to be requested, there and back, and their characters."""
    missing_texts = {text for text in texts if text not in known.of(ENGLISH, pivot)}
    translated = {known.of(ENGLISH, pivot)[text] for text in texts - missing_texts}
    back = translated - known.of(pivot, ENGLISH).keys()
    return 2 * len(missing_texts) + len(back), 2 * sum(map(len, missing_texts)) + sum(map(len, back))
