"""Simulated dialogues into files: one element is one file of each format, written dialogue by dialogue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from hashlib import blake2b
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.dialogue_files import dialogue_text as sgd_text
from parapet.schemas.errors import InputError
from parapet.transforms.babi_format import dialogue_text, parse_dialogues
from parapet.transforms.files import HashingWriter, Written, staged
from parapet.transforms.restaurants.bot import Rules, solve
from parapet.transforms.restaurants.disfluencies import disfluent
from parapet.transforms.restaurants.plan import Config, Shard
from parapet.transforms.restaurants.sgd import sgd_dialogue
from parapet.transforms.restaurants.simulating import Made, lines_of, simulate
from parapet.transforms.restaurants.statistics import Key, Seen, note, tally, union
from parapet.transforms.restaurants.world import candidates
from parapet.transforms.seeding import stable_hash
from parapet.transforms.set_files import SetFiles

COUNTS, TALLIES, SEEN, EXAMPLES, SIGNATURES = "counts", "tallies", "seen", "examples", "signatures"
SHOWN = 5  # dialogues of a task on the page


class WriteDialogues(beam.PTransform):
    """Simulates and writes files into staging.

    Args:
      config: the options.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config

    def expand(self, shards: beam.PCollection) -> Any:
        """Shard to Written (main), (name, n) (COUNTS), (Key, n) (TALLIES), ((split, kind), values) (SEEN),
        (task, (number, text)) (EXAMPLES) and ((task, split), eight bytes of each dialogue) (SIGNATURES).
        """
        return (
            shards
            | "Spread" >> beam.Reshuffle()
            | "Write file"
            >> beam.ParDo(_WriteShard(self.config)).with_outputs(
                COUNTS, TALLIES, SEEN, EXAMPLES, SIGNATURES, main="written"
            )
        )


def put_together(seen: beam.PCollection) -> beam.PCollection:
    """((split, kind), values) of all workers, each key once."""
    return seen | "Put together" >> beam.CombinePerKey(union)


class _WriteShard(beam.DoFn):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config

    def setup(self) -> None:
        self._maker = Maker(self.config)

    def process(self, shard: Shard) -> Iterator[Written | TaggedOutput]:
        of = self._maker.write(shard)
        yield from of.written
        for tag, pairs in ((COUNTS, of.counts), (TALLIES, of.tallies), (SEEN, of.seen)):
            for pair in pairs.items():
                yield TaggedOutput(tag, pair)
        for example in of.examples:
            yield TaggedOutput(EXAMPLES, (shard.task, example))
        yield TaggedOutput(SIGNATURES, ((shard.task, shard.split), bytes(of.signatures)))
        Metrics.counter("parapet", "dialogues").inc(shard.dialogues)
        Metrics.counter("parapet", "files").inc()


class Maker:
    """What all files of a run have in common: the world, the bot's rules, and all that the bot may say.

    Args:
      config: the options.
    """

    def __init__(self, config: Config) -> None:
        self.config, self.world = config, config.world()
        self.rules = Rules(config.ontology)
        self.candidates = frozenset(candidates(self.world))

    def write(self, shard: Shard) -> ShardFiles:
        """Writes the files of a shard."""
        of = ShardFiles(self, shard)
        of.write()
        return of


class ShardFiles:
    """The dialogues of one file.

    Attributes:
      written: the files.
      counts: see ``parapet.transforms.restaurants.invariants``.
      tallies: numbers of the dialogues.
      seen: what occurs in them.
      examples: of the first dialogues of a task the number and the text.
      signatures: eight bytes of each dialogue, by which repeats are found.
    """

    def __init__(self, maker: Maker, shard: Shard) -> None:
        self.maker, self.shard, self.world = maker, shard, maker.world
        self.config: Config = maker.config
        self.written: list[Written] = []
        self.counts: Counter[str] = Counter()
        self.tallies: Counter[Key] = Counter()
        self.seen: Seen = {}
        self.examples: list[tuple[int, str]] = []
        self.signatures = bytearray()

    def write(self) -> None:
        """Writes them into staging."""
        shard, config = self.shard, self.config
        sets = (False, True) if config.plus else (False,)
        with ExitStack() as stack:
            texts: dict[bool, HashingWriter] = {}
            if "babi" in config.formats:
                for plus in sets:
                    handle = stack.enter_context(staged(config.output, shard.text_name(plus)))
                    texts[plus] = HashingWriter(handle)
            corpora = [shard.corpus(plus) for plus in sets] if "sgd" in config.formats else []
            files = SetFiles(config.output, corpora, shard.sgd_name, stack)
            for number in range(shard.first, shard.first + shard.dialogues):
                made = simulate(self.world, shard.task, shard.split, number)
                self._note(number, made)
                for plus in sets:
                    said = self._disfluent(made) if plus else made
                    text = dialogue_text(lines_of(self.world, said)).encode()
                    self._solve(text, said, plus)
                    if not plus:
                        self.signatures += blake2b(text, digest_size=8).digest()
                    if plus in texts:
                        texts[plus].write(text)
                        self._count("babi", plus)
                    if corpora:
                        files.add(shard.corpus(plus), sgd_text(sgd_dialogue(self.world, said)))
                        self._count("sgd", plus)
            files.close()
        self.written = [writer.written(shard.text_name(plus)) for plus, writer in texts.items()] + files.written()
        self.counts["files"] = len(self.written)

    def _note(self, number: int, made: Made) -> None:
        for spoken in made.spoken:
            if spoken.bot.line.utterance not in self.maker.candidates:
                raise RuntimeError(f"{made.dialogue_id}: the bot says {spoken.bot.line.utterance!r}, no candidate")
        tally(self.world, self.shard.task, self.shard.split, made, self.tallies)
        note(self.world, self.shard.split, made, self.seen)
        if self.shard.split == self.config.sizes[0][0] and number < SHOWN:
            self.examples.append((number, dialogue_text(lines_of(self.world, made))))

    def _disfluent(self, made: Made) -> Made:
        found = disfluent(self.world, made, self.shard.split, dict(self.config.plus))
        for name, n in found.counts.items():
            self.tallies[self.shard.task, self.shard.split, f"plus/{name}"] += n
        return found.made

    def _solve(self, text: bytes, made: Made, plus: bool) -> None:
        """Has the bot of rules solve a dialogue as it is written; one without disfluencies it must solve."""
        if stable_hash(self.config.seed, "solve", made.dialogue_id) >= self.config.solved * 2**64:
            return
        (dialogue,) = parse_dialogues(text)
        right = solve(self.maker.rules, dialogue)
        if not plus and not all(right):
            wrong = dialogue.exchanges[right.index(False)]
            reason = (
                f"dialogue {made.dialogue_id}: the bot of rules does not find {wrong.bot!r} as the answer to "
                f"{wrong.user!r}: can two patterns be taken for each other? (--solve 0 goes on without the bot)"
            )
            raise InputError(reason, "--ontology")
        name = "plus" if plus else "plain"
        for key, n in (("answers", len(right)), ("right", sum(right)), ("tried", 1), ("solved", int(all(right)))):
            self.tallies[self.shard.task, self.shard.split, f"bot/{name}/{key}"] += n

    def _count(self, form: str, plus: bool) -> None:
        self.counts[f"{form}/{self.shard.corpus(plus).removeprefix('sgd/')}/{self.shard.split}"] += 1
