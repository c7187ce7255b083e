"""Simulated dialogues in files of both formats, shard by shard; and the files that are made of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from hashlib import blake2b
from typing import Any

from parapet.schemas.dialogue_files import dialogue_text as sgd_text
from parapet.schemas.errors import InputError
from parapet.schemas.layout import schema_bytes
from parapet.transforms.babi_format import (
    CANDIDATES,
    FACTS,
    candidates_text,
    dialogue_text,
    facts_text,
    labelled_lines,
    parse_dialogues,
)
from parapet.transforms.counts import Counts
from parapet.transforms.fence import needed
from parapet.transforms.files import HashingWriter, staged
from parapet.transforms.progress import tracked
from parapet.transforms.report import report_files
from parapet.transforms.restaurants.bot import Rules, solve
from parapet.transforms.restaurants.config import PLUS, Config, Shard
from parapet.transforms.restaurants.disfluencies import disfluent
from parapet.transforms.restaurants.ontology import count_patterns
from parapet.transforms.restaurants.report import report_on
from parapet.transforms.restaurants.sgd import schema, sgd_dialogue
from parapet.transforms.restaurants.simulating import Dialogue, lines_of, simulate
from parapet.transforms.restaurants.statistics import count, intersections, note, repeats, solved, statistics
from parapet.transforms.restaurants.world import World, candidates, knowledge_base
from parapet.transforms.runs import FileResult
from parapet.transforms.seeding import stable_hash
from parapet.transforms.set_files import SetFiles

SEEN, SIGNATURES = "seen", "signatures"  # further outputs of a shard
SHOWN = 2  # dialogues of a task on the page


class Simulator:
    """What all shards have in common: the world, the rules of the bot, and everything that the bot may say.

    Args:
      config: the options.
    """

    def __init__(self, config: Config) -> None:
        self.config, self.world = config, config.world()
        self.rules = Rules(config.ontology)
        self.candidates = frozenset(candidates(self.world))


def write_shard(shard: Shard, simulator: Simulator) -> FileResult:
    """Writes the files of a shard into staging, dialogue by dialogue.

    Further outputs are ((split, kind), values that occur in the dialogues) in SEEN and, to find repeats,
    ((task, split), eight bytes of each dialogue) in SIGNATURES.

    Raises:
      InputError: the rule-based bot does not solve a dialogue without disfluencies.
    """
    return _Shard(shard, simulator).write()


class _Shard:
    """The dialogues of one shard."""

    def __init__(self, shard: Shard, simulator: Simulator) -> None:
        self.shard, self.simulator = shard, simulator
        self.config, self.world = simulator.config, simulator.world
        self.result = FileResult(shard.text_name(plus=False))
        self.counts: Counter[tuple[str, str]] = Counter()  # by name and value
        self.written: Counter[tuple[str, str]] = Counter()  # by format and corpus
        self.seen: dict[tuple[str, str], set[str]] = {}

    def write(self) -> FileResult:
        shard, config, result = self.shard, self.config, self.result
        sets = (False, True) if config.plus else (False,)
        signatures = bytearray()
        with ExitStack() as stack:
            texts: dict[bool, HashingWriter] = {}
            if "babi" in config.formats:
                for plus in sets:
                    handle = stack.enter_context(staged(config.output, shard.text_name(plus)))
                    texts[plus] = HashingWriter(handle)
            corpora = [shard.corpus(plus) for plus in sets] if "sgd" in config.formats else []
            files = SetFiles(config.output, corpora, shard.sgd_name, stack)
            for number in tracked(range(shard.first, shard.first + shard.dialogues), "dialogues"):
                with needed(result.key, f"dialogue {number}"):
                    simulated = simulate(self.world, shard.task, shard.split, number)
                    self._note(number, simulated)
                    for plus in sets:
                        dialogue = self._disfluent(simulated) if plus else simulated
                        text = dialogue_text(lines_of(self.world, dialogue)).encode()
                        self._solve(text, dialogue, plus)
                        if not plus:
                            signatures += blake2b(text, digest_size=8).digest()
                        if plus in texts:
                            texts[plus].write(text)
                            self.written["babi", shard.corpus(plus)] += 1
                        if corpora:
                            files.add(shard.corpus(plus), sgd_text(sgd_dialogue(self.world, dialogue)))
                            self.written["sgd", shard.corpus(plus)] += 1
            files.close()
        result.written = [writer.written(shard.text_name(plus)) for plus, writer in texts.items()] + files.written()
        result.others = {
            SEEN: list(self.seen.items()),
            SIGNATURES: [((str(shard.task), shard.split), bytes(signatures))],
        }
        result.counts.add("files", len(result.written))
        result.counts.add("dialogues", shard.dialogues)
        for (name, corpus), n in self.written.items():
            result.counts.add(name, n, set=corpus.removeprefix("sgd/"), split=shard.split)
        for (name, value), n in self.counts.items():
            result.counts.add(name, n, set=str(shard.task), split=shard.split, value=value)
        return result

    def _note(self, number: int, dialogue: Dialogue) -> None:
        for pair in dialogue.pairs:
            if pair.bot.line.utterance not in self.simulator.candidates:
                raise RuntimeError(f"{dialogue.dialogue_id}: the bot says {pair.bot.line.utterance!r}, no candidate")
        count(self.counts, self.world, self.shard.task, dialogue)
        note(self.world, self.shard.split, dialogue, self.seen)
        if self.shard.split == self.config.sizes[0][0] and number < SHOWN:
            example = (dialogue.dialogue_id, labelled_lines(lines_of(self.world, dialogue)))
            self.result.examples.setdefault(str(self.shard.task), []).append((number.to_bytes(8), example))

    def _disfluent(self, dialogue: Dialogue) -> Dialogue:
        disfluencies = disfluent(self.world, dialogue, self.shard.split, dict(self.config.plus))
        for kind, n in disfluencies.turns.items():
            self.counts["plus", kind] += n
        for kind, n in disfluencies.possible.items():
            self.counts["plus_possible", kind] += n
        return disfluencies.dialogue

    def _solve(self, text: bytes, dialogue: Dialogue, plus: bool) -> None:
        """Has the rule-based bot solve a dialogue as it is written; one without disfluencies it must solve."""
        if stable_hash(self.config.seed, "solve", dialogue.dialogue_id) >= self.config.solved * 2**64:
            return
        (parsed,) = parse_dialogues(text)
        right = solve(self.simulator.rules, parsed)
        if not plus and not all(right):
            wrong = parsed.exchanges[right.index(False)]
            reason = (
                f"dialogue {dialogue.dialogue_id}: the rule-based bot does not find {wrong.bot!r} as the answer to "
                f"{wrong.user!r}: are two patterns ambiguous? (--solve 0 goes on without the bot)"
            )
            raise InputError(reason, "--ontology")
        name = "plus" if plus else "plain"
        for key, n in (("answers", len(right)), ("right", sum(right)), ("tried", 1), ("solved", int(all(right)))):
            self.counts[key, name] += n


def metadata_files(
    counts: Counts,
    examples: Mapping[str, Sequence[Any]],
    seen: Iterable[tuple[tuple[str, str], set[str]]],
    signatures: Iterable[tuple[tuple[str, str], bytes]],
    config: Config,
) -> dict[str, bytes]:
    """The files besides dialogues, by path.

    Args:
      counts: of the run.
      examples: task to dialogues: id, and labelled lines.
      seen: ((split, kind), the values of that kind that occur there).
      signatures: ((task, split), eight bytes of each dialogue).
      config: the options.

    Raises:
      RuntimeError: the splits overlap.
    """
    world = config.world()
    counts.update(repeats(signatures))
    numbers = {
        **_domain(world),
        "tasks": statistics(world, config.tasks, config.sizes, config.plus, counts),
        "bot": solved(config.tasks, counts),
        "apart": intersections(world, dict(seen)),
    }
    services = schema_bytes(schema(world.ontology))
    return {
        **dict(_published(world, config)),
        **dict.fromkeys(config.schema_names(), services),
        **report_files(numbers, report_on(numbers, examples, config)),
    }


def _published(world: World, config: Config) -> Iterator[tuple[str, bytes]]:
    """Knowledge base and candidates; the folder of the sets with disfluencies is complete, too."""
    if "babi" not in config.formats:
        return
    facts, texts = facts_text(knowledge_base(world)).encode(), candidates_text(candidates(world)).encode()
    for folder in ("", f"{PLUS}/") if config.plus else ("",):
        yield folder + FACTS, facts
        yield folder + CANDIDATES, texts


def _domain(world: World) -> dict[str, Any]:
    user, bot = count_patterns(world.ontology.patterns)
    seen, unseen = world.halves
    facts = len(world.names) + len(world.ontology.extras) + 1
    return {
        "domain": world.ontology.domain,
        "entities": {"seen": len(seen), "unseen": len(unseen)},
        "facts": (len(seen) + len(unseen)) * facts,
        "requests": {split: len(part.requests) for split, part in world.parts.items()},
        "patterns": {"user": user, "bot": bot},
        "candidates": len(candidates(world)),
    }
