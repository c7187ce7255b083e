"""Files of chats, anonymised: a file is one element, read chat by chat and written chat by chat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from fractions import Fraction

import apache_beam as beam
import msgspec
import orjson
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.errors import InputError, storable
from parapet.transforms.anonymise.chats import BOT, USER, Chat, ChatFile, read_chats
from parapet.transforms.anonymise.replacing import Anonymiser, Replaced, Rules, normalised
from parapet.transforms.anonymise.second_look import Suspect, suspects_in
from parapet.transforms.babi_format import SILENCE, Exchange, dialogue_text
from parapet.transforms.dead_letters import DeadLetter
from parapet.transforms.files import HashingWriter, Written, staged

DEAD, COUNTS = "dead", "counts"
SUSPECTS = "suspects"  # the folder of what a second look found


class Config(msgspec.Struct, frozen=True):
    """The options of a run.

    Attributes:
      output: the output folder.
      files: the chats.
      rules: what is replaced.
      bots: speakers that are bots, besides the usual ones, in lower case.
      normalise: whether bots' texts become lower case.
      keep_ids: whether chats keep their ids; else they are numbered.
      strict: whether a suspect fails the run.
      max_bad: share of the chats that may be left out.
    """

    output: str
    files: tuple[ChatFile, ...]
    rules: Rules
    bots: frozenset[str]
    normalise: bool
    keep_ids: bool
    strict: bool
    max_bad: Fraction

    def options(self) -> dict[str, object]:
        """Those that shape the content, for ``run.json``. None contains a word of a chat, or the name of a file."""
        return {
            "entities": len(self.rules.entities),
            "spacy_model": self.rules.model and self.rules.model.rstrip("/").rpartition("/")[2],
            "phone_regions": list(self.rules.regions),
            "keep": sorted(self.rules.kept),
            "bot_text": "normalised" if self.normalise else "kept",
            "keep_ids": self.keep_ids,
            "strict": self.strict,
            "max_bad": float(self.max_bad),
        }


class Names(beam.PTransform):
    """The words of names that are replaced anywhere, so that a second look knows those of other chats.

    They are in memory only, and in no output.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config

    def expand(self, files: beam.PCollection) -> beam.PCollection:
        """ChatFile to str, each once."""
        return (
            files
            | "Spread" >> beam.Reshuffle()
            | "Names of file" >> beam.FlatMap(names_of_file, self.config)
            | "Each once" >> beam.Distinct()
        )


def names_of_file(file: ChatFile, config: Config) -> Iterator[str]:
    """The words of names of one file. Of a file that cannot be read: who writes it says so."""
    anonymiser = Anonymiser(config.rules)
    told: set[str] = set()
    try:
        for _, chat in read_chats(file, config.bots):
            if isinstance(chat, Chat):
                new = anonymiser.of(chat).names - told
                told |= new
                yield from sorted(new)
    except InputError:
        return


class WriteChats(beam.PTransform):
    """Writes chats into staging.

    Args:
      config: the options.
      names: PCollection of str, of :class:`Names`.
    """

    def __init__(self, config: Config, names: beam.PCollection) -> None:
        super().__init__()
        self.config, self.names = config, names

    def expand(self, files: beam.PCollection) -> beam.PCollection:
        """ChatFile to Written (main), (file, letters) (DEAD), (name, n) (COUNTS)."""
        return (
            files
            | "Spread" >> beam.Reshuffle()
            | "Write file"
            >> beam.ParDo(_WriteFile(self.config), beam.pvalue.AsList(self.names)).with_outputs(
                DEAD, COUNTS, main="written"
            )
        )


class _WriteFile(beam.DoFn):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config

    def process(self, file: ChatFile, names: Sequence[str]) -> Iterator[Written | TaggedOutput]:
        of = FileOfChats(file, self.config, frozenset(names))
        yield from of.write()
        if of.letters:
            yield TaggedOutput(DEAD, (file.name, of.letters))
        yield from (TaggedOutput(COUNTS, count) for count in of.counts.items())
        for name in ("chats", "turns"):
            Metrics.counter("parapet", name).inc(of.counts[name])


class FileOfChats:
    """One file's chats.

    Attributes:
      letters: chats that were left out, and why; never a word of theirs.
      counts: see ``parapet.transforms.anonymise.invariants``.
    """

    def __init__(self, file: ChatFile, config: Config, names: frozenset[str]) -> None:
        self.file, self.config, self.names = file, config, names
        self.letters: list[DeadLetter] = []
        self.counts: Counter[str] = Counter(files=1)

    def write(self) -> list[Written]:
        """Writes it into staging; of a file that cannot be read to its end nothing."""
        paths = [f"chats/{self.file.name}.jsonl", f"babi/{self.file.name}.txt", f"{SUSPECTS}/{self.file.name}.jsonl"]
        try:
            with ExitStack() as stack:
                writers = [HashingWriter(stack.enter_context(staged(self.config.output, path))) for path in paths]
                self._write_chats(*writers)
        except InputError as error:
            self.letters = [self._dead(error.where, f"broken_file: {error.reason}")]
            self.counts = Counter(files=1, broken_files=1)
            return []
        return [writer.written(path) for writer, path in zip(writers, paths, strict=True)]

    def _write_chats(self, chats: HashingWriter, babi: HashingWriter, suspects: HashingWriter) -> None:
        anonymiser = Anonymiser(self.config.rules)
        for number, (where, chat) in enumerate(read_chats(self.file, self.config.bots), 1):
            self.counts["chats"] += 1
            if isinstance(chat, InputError):
                place = ": ".join(part for part in (where, chat.where) if part)
                self.letters.append(self._dead(place, chat.reason))
                self.counts["left_out"] += 1
                continue
            replaced = anonymiser.of(chat)
            found = [
                one for t, text in enumerate(replaced.texts) for one in suspects_in(t, text, replaced.parts, self.names)
            ]
            self._count(chat, replaced, found)
            texts = [self._said(turn.speaker, text) for turn, text in zip(chat.turns, replaced.texts, strict=True)]
            said = [(turn.speaker, text) for turn, text in zip(chat.turns, texts, strict=True)]
            chat_id = chat.chat_id if self.config.keep_ids else f"{self.file.name}-{number:06}"
            turns = [{"speaker": speaker, "text": text} for speaker, text in said]
            chats.write(orjson.dumps({"chat_id": chat_id, "turns": turns}) + b"\n")
            babi.write(dialogue_text(exchanges_of(said)).encode())
            for one in found:
                suspects.write(orjson.dumps({"chat_id": chat_id, **msgspec.structs.asdict(one)}) + b"\n")

    def _dead(self, where: str, reason: str) -> DeadLetter:
        return DeadLetter("", "", self.file.name, "", storable(where), storable(reason))

    def _said(self, speaker: str, text: str) -> str:
        return normalised(text) if speaker == BOT and self.config.normalise else text

    def _count(self, chat: Chat, replaced: Replaced, found: Sequence[Suspect]) -> None:
        self.counts["written"] += 1
        self.counts["turns"] += len(chat.turns)
        self.counts["written_turns"] += len(replaced.texts)
        self.counts["facts_left_out"] += chat.facts
        self.counts["chats_with_suspects"] += bool(found)
        self.counts.update({f"mentions/{kind}": n for kind, n in replaced.mentions.items()})
        self.counts.update({f"things/{kind}": n for kind, n in replaced.things.items()})
        self.counts.update(f"suspects/{one.kind}" for one in found)


def exchanges_of(said: Iterable[tuple[str, str]]) -> list[Exchange]:
    """Turns as exchanges of user and bot: what a user says in several turns is joined, who says nothing is silent."""
    exchanges: list[Exchange] = []
    waiting: list[str] = []
    for speaker, text in said:
        if speaker == USER:
            waiting += [text] if text else []
        else:
            exchanges.append(Exchange(" ".join(waiting) or SILENCE, text or SILENCE))
            waiting = []
    if waiting or not exchanges:
        exchanges.append(Exchange(" ".join(waiting) or SILENCE, SILENCE))
    return exchanges
