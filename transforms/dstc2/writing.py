"""Calls read, a knowledge base gathered from all of them, dialogues written: one batch of calls is one element."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from fractions import Fraction
from typing import Any

import apache_beam as beam
import msgspec
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.dialogue_files import dialogue_text
from parapet.schemas.errors import InputError, storable
from parapet.transforms.babi_format import SILENCE, Exchange, Fact
from parapet.transforms.babi_format import dialogue_text as babi_text
from parapet.transforms.dead_letters import DeadLetter
from parapet.transforms.dstc2.calls import ASR, Batch, Call, Logs, Ontology, read_call
from parapet.transforms.dstc2.corpus import dialogue_of, slots_of
from parapet.transforms.dstc2.knowledge import Knowledge, Said, facts_of, gathered
from parapet.transforms.dstc2.task6 import NO_RESULT, Round, Words, lines_of, offers_of, rounds
from parapet.transforms.files import Written
from parapet.transforms.set_files import SetFiles

FACTS, TEXTS, BABI, DEAD, COUNTS, EXAMPLES = "facts", "texts", "babi", "dead", "counts", "examples"
CANDIDATE, WORD = "candidate", "word"  # kinds of texts that are collected

SET = "sgd"
SHOWN = 3


class Config(msgspec.Struct, frozen=True):
    """The options of a run.

    Attributes:
      output: the output folder.
      logs: the calls, by split.
      split_rule: ``paper`` or ``original``.
      user: what users say: ``transcription`` or ``asr``.
      ontology: that of DSTC2.
      knowledge: the knowledge base; None where it is gathered from the calls.
      seed: of the ratings.
      max_bad: share of the calls of a split that may be left out.
    """

    output: str
    logs: Logs
    split_rule: str
    user: str
    ontology: Ontology
    knowledge: Knowledge | None
    seed: str
    max_bad: Fraction

    def options(self) -> dict[str, object]:
        """Those that shape the content, for ``run.json``."""
        return {
            "split_rule": self.split_rule,
            "user": self.user,
            "kb": self.knowledge is not None,
            "seed": self.seed,
            "max_bad": float(self.max_bad),
        }


class Read(msgspec.Struct, frozen=True):
    """A batch, read: its calls, and a letter for each that cannot be."""

    batch: Batch
    calls: tuple[Call, ...]
    letters: tuple[DeadLetter, ...]


class ReadCalls(beam.PTransform):
    """Reads calls."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config

    def expand(self, batches: beam.PCollection) -> Any:
        """Batch to Read (main), and (fact, n) (FACTS)."""
        return (
            batches
            | "Spread" >> beam.Reshuffle()
            | "Read batch" >> beam.FlatMap(read_batch, self.config).with_outputs(FACTS, main="read")
        )


def read_batch(batch: Batch, config: Config) -> Iterator[Read | TaggedOutput]:
    """The calls of a batch, and what they say of restaurants."""
    calls, letters = [], []
    for name in batch.names:
        try:
            calls.append(read_call(config.logs.folder, name, config.user == ASR))
        except InputError as error:
            letters.append(letter(batch, name, error))
    yield Read(batch, tuple(calls), tuple(letters))
    if config.knowledge is None:
        for fact in Counter(fact for call in calls for fact in facts_of(call)).items():
            yield TaggedOutput(FACTS, fact)


def letter(batch: Batch, name: str, error: InputError) -> DeadLetter:
    """Why a call is left out."""
    where = ": ".join(part for part in (error.path, error.where) if part)
    return DeadLetter("", batch.split, storable(name), "", storable(where), storable(error.reason))


class WriteTask(beam.PTransform):
    """Writes the SGD layout into staging, and makes the texts of dialog bAbI.

    Args:
      config: the options.
      facts: PCollection of (fact, how often it was said).
    """

    def __init__(self, config: Config, facts: beam.PCollection) -> None:
        super().__init__()
        self.config, self.facts = config, facts

    def expand(self, read: beam.PCollection) -> Any:
        """Read to Written (main), (split, (index, text)) (BABI), ((kind, text), n) (TEXTS), (file, letters) (DEAD),
        (name, n) (COUNTS), (split, (index, text)) (EXAMPLES).
        """
        return (
            read
            | "Spread" >> beam.Reshuffle()
            | "Write batch"
            >> beam.ParDo(_WriteBatch(self.config), beam.pvalue.AsList(self.facts)).with_outputs(
                BABI, TEXTS, DEAD, COUNTS, EXAMPLES, main="written"
            )
        )


class _WriteBatch(beam.DoFn):
    """The knowledge base is made once for each worker's copy."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.maker: Maker | None = None

    def process(self, read: Read, facts: Sequence[tuple[Said, int]]) -> Iterator[Written | TaggedOutput]:
        if self.maker is None:
            self.maker = Maker(self.config, facts)
        of = OfBatch(read)
        yield from of.write(self.maker)
        yield TaggedOutput(BABI, (read.batch.split, (read.batch.index, "".join(of.dialogues))))
        yield from (TaggedOutput(TEXTS, one) for one in of.texts.items())
        yield from (TaggedOutput(COUNTS, one) for one in of.counts.items())
        if of.letters:
            yield TaggedOutput(DEAD, (f"{read.batch.split}/{read.batch.index:06}", of.letters))
        for i, text in enumerate(of.dialogues[:SHOWN]):
            yield TaggedOutput(EXAMPLES, (read.batch.split, ((read.batch.index, i), text)))
        Metrics.counter("parapet", "calls").inc(len(read.batch.names))


class Maker:
    """What dialogues are made with: the knowledge base, and its values of several words."""

    def __init__(self, config: Config, facts: Iterable[tuple[Said, int]]) -> None:
        self.config = config
        self.knowledge = config.knowledge or gathered(facts)
        values = (value for slot, found in config.ontology.informable.items() for value in found)
        self.words = Words(self.knowledge, values)
        self.known = frozenset(slots_of(config.ontology))


class OfBatch:
    """A batch's dialogues.

    Attributes:
      dialogues: in the format of dialog bAbI.
      texts: (kind, text) of candidates and words, with how often.
      letters: the calls that were left out.
      counts: see ``parapet.transforms.dstc2.invariants``.
    """

    def __init__(self, read: Read) -> None:
        self.read = read
        self.dialogues: list[str] = []
        self.texts: Counter[tuple[str, str]] = Counter()
        self.letters = list(read.letters)
        split = read.batch.split
        self.counts: Counter[str] = Counter({f"calls/{split}": len(read.batch.names)})

    def write(self, maker: Maker) -> list[Written]:
        """Writes the file of the SGD layout into staging."""
        batch = self.read.batch
        with ExitStack() as stack:
            files = SetFiles(maker.config.output, [SET], batch.relative, stack)
            for call in self.read.calls:
                found = rounds(call, maker.knowledge, maker.config.seed)
                try:
                    dialogue = dialogue_of(call, found, maker.known)
                except InputError as error:
                    self.letters.append(letter(batch, call.name, error))
                    continue
                files.add(SET, dialogue_text(dialogue))
                lines = lines_of(call, found, maker.words)
                self.dialogues.append(babi_text(lines))
                self._count(found, lines)
            files.close()
        self.counts[f"left_out/{batch.split}"] += len(self.letters)
        return files.written()

    def _count(self, found: Sequence[Round], lines: Sequence[Fact | Exchange]) -> None:
        said = [line for line in lines if isinstance(line, Exchange)]
        facts = [line for line in lines if isinstance(line, Fact)]
        offers = [given for _, given in offers_of(found)]
        sums = {
            "dialogues": 1,
            "user_turns": sum(line.user != SILENCE for line in said),
            "bot_turns": len(said),
            "api_calls": sum(one.search is not None for one in found),
            "no_result": facts.count(NO_RESULT),
            "facts": len(facts) - facts.count(NO_RESULT),
            "offers": len(offers),
            "offers_found": sum(offers),
        }
        for name, n in sums.items():
            self.counts[f"{name}/{self.read.batch.split}"] += n
        self.texts.update((CANDIDATE, line.bot) for line in said)
        words = (word for line in lines for text in msgspec.structs.astuple(line) for word in text.split())
        self.texts.update((WORD, word) for word in words)
