"""Simulated dialogues in files of both formats, shard by shard; and the files that are made of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from hashlib import blake2b
from typing import Any

from parapet.schemas.dialogue import dialogue_text as sgd_text
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
from parapet.transforms.files import HashingWriter, staged
from parapet.transforms.perturbation.fence import needed
from parapet.transforms.perturbation.files import SetFiles
from parapet.transforms.progress import tracked
from parapet.transforms.report import report_files
from parapet.transforms.restaurants.bot import Rules, solve
from parapet.transforms.restaurants.config import PLUS, Config, Shard
from parapet.transforms.restaurants.disfluencies import disfluent
from parapet.transforms.restaurants.ontology import count_patterns
from parapet.transforms.restaurants.report import report_on
from parapet.transforms.restaurants.sgd import schema, sgd_dialogue
from parapet.transforms.restaurants.simulating import Dialogue, World, candidates, knowledge_base, lines_of, simulate
from parapet.transforms.restaurants.statistics import Seen, count, intersections, note, repeats, solved, statistics
from parapet.transforms.runs import FileResult
from parapet.transforms.seeding import stable_hash

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
    config, world = simulator.config, simulator.world
    task, split, first = shard.task, shard.split, shard.first
    result = FileResult(shard.text_name(plus=False))
    counts: Counter[tuple[str, str]] = Counter()  # by name and value
    written: Counter[tuple[str, str]] = Counter()  # by format and corpus
    seen: Seen = {}
    signatures: list[bytes] = []
    kinds = (False, True) if config.plus else (False,)
    with ExitStack() as stack:
        paths = [shard.text_name(plus) for plus in kinds if "babi" in config.formats]
        texts = {path: HashingWriter(stack.enter_context(staged(config.output, path))) for path in paths}
        corpora = [shard.corpus(plus) for plus in kinds if "sgd" in config.formats]
        files = SetFiles(config.output, corpora, shard.sgd_name, stack)
        for number in tracked(range(first, first + shard.dialogues), "dialogues"):
            with needed(result.key, f"dialogue {number}"):
                dialogue = simulate(world, task, split, number)
                _check_candidates(dialogue, simulator.candidates)
                count(counts, world, task, dialogue)
                note(world, split, dialogue, seen)
                if split == config.sizes[0][0] and number < SHOWN:
                    example = (dialogue.dialogue_id, labelled_lines(lines_of(world, dialogue)))
                    result.examples.setdefault(str(task), []).append((number.to_bytes(8), example))
                for plus in kinds:
                    if plus:
                        disfluencies = disfluent(world, dialogue, split, dict(config.plus))
                        dialogue = disfluencies.dialogue
                        counts.update({("plus", kind): n for kind, n in disfluencies.turns.items()})
                        counts.update({("plus_possible", kind): n for kind, n in disfluencies.possible.items()})
                    text = dialogue_text(lines_of(world, dialogue)).encode()
                    counts.update(_solve(simulator, text, dialogue, plus))
                    if not plus:
                        signatures.append(blake2b(text, digest_size=8).digest())
                    corpus = shard.corpus(plus)
                    if texts:
                        texts[shard.text_name(plus)].write(text)
                        written["babi", corpus] += 1
                    if corpora:
                        files.add(corpus, sgd_text(sgd_dialogue(world, dialogue)))
                        written["sgd", corpus] += 1
        files.close()
    result.written = [writer.written(path) for path, writer in texts.items()] + files.written()
    result.others = {SEEN: list(seen.items()), SIGNATURES: [((str(task), split), b"".join(signatures))]}
    result.counts.add("files", len(result.written))
    result.counts.add("dialogues", shard.dialogues)
    for (form, corpus), n in written.items():
        result.counts.add(form, n, set=corpus.removeprefix("sgd/"), split=split)
    for (name, value), n in counts.items():
        result.counts.add(name, n, set=str(task), split=split, value=value)
    return result


def _check_candidates(dialogue: Dialogue, candidates: Collection[str]) -> None:
    for pair in dialogue.pairs:
        if pair.bot.line.utterance not in candidates:
            raise RuntimeError(f"{dialogue.dialogue_id}: the bot says {pair.bot.line.utterance!r}, no candidate")


def _solve(simulator: Simulator, text: bytes, dialogue: Dialogue, plus: bool) -> dict[tuple[str, str], int]:
    """Has the rule-based bot solve a dialogue as it is written; one without disfluencies it must solve."""
    config = simulator.config
    if stable_hash(config.seed, "solve", dialogue.dialogue_id) >= config.solved * 2**64:
        return {}
    (parsed,) = parse_dialogues(text)
    right = solve(simulator.rules, parsed)
    if not plus and not all(right):
        wrong = parsed.exchanges[right.index(False)]
        reason = (
            f"dialogue {dialogue.dialogue_id}: the rule-based bot does not find {wrong.bot!r} as the answer to "
            f"{wrong.user!r}: are two patterns ambiguous? (--solve 0 goes on without the bot)"
        )
        raise InputError(reason, "--ontology")
    numbers = {"answers": len(right), "right": sum(right), "tried": 1, "solved": int(all(right))}
    return {(name, "plus" if plus else "plain"): n for name, n in numbers.items()}


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
