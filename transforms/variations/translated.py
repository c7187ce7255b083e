"""User turns through a translation engine, each text once; one that loses a value is sent again without its values.

And what that costs, before anything is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import apache_beam as beam
import msgspec
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.dialogue_files import DialogueFile
from parapet.schemas.errors import InputError
from parapet.schemas.translation import Translation
from parapet.transforms.back_translate.composing import ENGLISH
from parapet.transforms.back_translate.legs import BackTranslate, Known
from parapet.transforms.corpora import dialogues_of
from parapet.transforms.fence import bad_record
from parapet.transforms.perturbation import REFUSED
from parapet.transforms.translation.engine import Engine
from parapet.transforms.translation.memory import MEMORY_FILE, memory_bytes, merge
from parapet.transforms.translation.translate import Untranslated
from parapet.transforms.user_turns import UserTurn, user_turns
from parapet.transforms.variations.kinds import Config
from parapet.transforms.variations.paraphrase import Answer, Answers, Leg, hidden, hidden_text, pivot_of, plain_text

TextOf = Callable[[UserTurn, str], str]


class Translating(msgspec.Struct, frozen=True):
    """How texts are translated.

    Attributes:
      known: translations that need not be requested.
      engine: the engine; None where only the memory is used.
      paid: the folder in which every answer is kept at once.
      memory: the rows that the published memory has besides.
    """

    known: Known
    engine: Engine | None
    paid: str
    memory: Sequence[Translation]

    def transform(self, config: Config) -> TranslateTurns:
        """As a transform."""
        return TranslateTurns(config, self)


class TranslateTurns(beam.PTransform):
    """Translates the user turns of dialogue files; without pivots nothing.

    Args:
      config: seed and pivots.
      translating: how.
    """

    def __init__(self, config: Config, translating: Translating) -> None:
        super().__init__()
        self.config, self.translating = config, translating

    def expand(self, files: beam.PCollection) -> tuple[beam.PCollection, beam.PCollection, beam.PCollection | None]:
        """DialogueFile to PCollections of (Leg, Answer), each once, and of (path, bytes) of the memory.

        And, where texts are translated, of ((file, position), error) of the dialogues that raised.
        """
        answers, translations, refused = self._answers(files)
        memory = MakeMemory(self.translating.memory, bool(self.config.pivots))
        return answers, translations | "Memory" >> memory, refused

    def _answers(self, files: beam.PCollection) -> tuple[beam.PCollection, beam.PCollection, beam.PCollection | None]:
        known, engine, paid = self.translating.known, self.translating.engine, self.translating.paid
        if engine is None:
            answers = known_answers(known, self.config.pivots)
            pipeline = files.pipeline
            return pipeline | "Known" >> beam.Create(answers), pipeline | "Nothing new" >> beam.Create([]), None
        read = beam.FlatMap(plain_texts, self.config).with_outputs(REFUSED, main="texts")
        texts = files | "Texts" >> read
        plain, lost = texts["texts"] | "As they are" >> BackTranslate(known, engine, paid)
        first = (plain, lost) | "First answers" >> beam.Flatten() | "As answers" >> beam.Map(answer_of)
        read_again = beam.FlatMap(hidden_texts, self.config, beam.pvalue.AsDict(_once(first, "First")))
        without = files | "Texts without values" >> read_again.with_outputs(REFUSED, main="texts")
        hidden, lost_too = without["texts"] | "Without values" >> BackTranslate(known, engine, paid)
        second = (hidden, lost_too) | "Second answers" >> beam.Flatten() | "As answers too" >> beam.Map(answer_of)
        answers = _once((first, second) | "All answers" >> beam.Flatten(), "All")
        refused = (texts[REFUSED], without[REFUSED]) | "Refused" >> beam.Flatten()
        return answers, (plain, hidden) | "Translations" >> beam.Flatten(), refused


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


def plain_texts(file: DialogueFile, config: Config) -> Iterator[tuple[str, str] | TaggedOutput]:
    """(pivot, text) of the turns of a file, as they are; of one that cannot be read nothing.

    And (place, error) of each dialogue that raises (REFUSED).
    """
    return _texts(file, config, lambda user_turn, _: plain_text(user_turn))


def hidden_texts(file: DialogueFile, config: Config, answers: Answers) -> Iterator[tuple[str, str] | TaggedOutput]:
    """(pivot, text) of the turns that have lost a value on the way; and what raises, as of :func:`plain_texts`."""
    return _texts(file, config, lambda user_turn, pivot: hidden_text(user_turn, pivot, answers))


def _texts(file: DialogueFile, config: Config, text_of: TextOf) -> Iterator[tuple[str, str] | TaggedOutput]:
    try:
        for position, _, _, dialogue in dialogues_of(file):
            if isinstance(dialogue, InputError):
                continue
            texts = []
            try:
                for user_turn in user_turns(dialogue):
                    pivot = pivot_of(user_turn, config.pivots, config.seed)
                    if text := text_of(user_turn, pivot):
                        texts.append((pivot, text))
            except Exception as error:
                yield TaggedOutput(REFUSED, ((file.relative, position), bad_record(error)))
                continue
            yield from texts
    except Exception as error:
        bad_record(error)
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


class Estimate(msgspec.Struct, frozen=True):
    """Of one pivot.

    Attributes:
      texts: user turns as they are, each text once.
      asked: texts to ask for, both ways.
      characters: of these; the way back is taken to be as long as the way there.
      more: texts to ask for at most besides, without their values, where those are lost on the way.
      more_characters: of these.
    """

    texts: int
    asked: int
    characters: int
    more: int
    more_characters: int


def estimate(files: Iterable[DialogueFile], config: Config, known: Known) -> dict[str, Estimate]:
    """Pivot to what it asks for. Files that cannot be read are passed over, the run says so."""
    plain: dict[str, set[str]] = {pivot: set() for pivot in config.pivots}
    certain: dict[str, set[str]] = {pivot: set() for pivot in config.pivots}
    perhaps: dict[str, set[str]] = {pivot: set() for pivot in config.pivots}
    answers = dict(known_answers(known, config.pivots))
    for file in files:
        try:
            for _, _, _, dialogue in dialogues_of(file):
                for user_turn in () if isinstance(dialogue, InputError) else user_turns(dialogue):
                    pivot = pivot_of(user_turn, config.pivots, config.seed)
                    if not (text := plain_text(user_turn)):
                        continue
                    plain[pivot].add(text)
                    if _is_known(text, pivot, known):
                        if again := hidden_text(user_turn, pivot, answers):
                            certain[pivot].add(again)
                    elif (form := hidden(user_turn)).values:
                        perhaps[pivot].add(form.text)
        except InputError:
            continue
    return {pivot: _of(pivot, plain[pivot], certain[pivot], perhaps[pivot], known) for pivot in config.pivots}


def _of(pivot: str, plain: set[str], certain: set[str], perhaps: set[str], known: Known) -> Estimate:
    asked, characters = _missing(plain | certain, pivot, known)
    more, more_characters = _missing(perhaps - plain - certain, pivot, known)
    return Estimate(len(plain), asked, characters, more, more_characters)


def _missing(texts: set[str], pivot: str, known: Known) -> tuple[int, int]:
    """How many texts are to be asked for, there and back, and their characters."""
    there = {text for text in texts if text not in known.of(ENGLISH, pivot)}
    translated = {known.of(ENGLISH, pivot)[text] for text in texts - there}
    back = translated - known.of(pivot, ENGLISH).keys()
    return 2 * len(there) + len(back), 2 * sum(map(len, there)) + sum(map(len, back))


def _is_known(text: str, pivot: str, known: Known) -> bool:
    there = known.of(ENGLISH, pivot).get(text)
    return there is not None and there in known.of(pivot, ENGLISH)


def plan_lines(found: Mapping[str, Estimate], dollars_per_million: float) -> list[str]:
    """The estimate in words, a line each."""
    lines, total, most = [], 0, 0
    for pivot, of in found.items():
        lines.append(
            f"{pivot}: {of.texts:,} user turns, each text once; {of.asked:,} texts to ask for there and back, about "
            f"{of.characters:,} characters, and up to {of.more:,} without their values, {of.more_characters:,}"
        )
        total += of.characters
        most += of.characters + of.more_characters
    cost, most_cost = (f"${size * dollars_per_million / 1e6:,.2f}" for size in (total, most))
    return [*lines, f"{total:,} to {most:,} characters, {cost} to {most_cost}; nothing was asked or written"]
