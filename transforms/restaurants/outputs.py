"""What ``restaurants`` writes besides dialogues: knowledge base, candidates, schemas, numbers, a card and a page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam

from parapet.schemas.layout import schema_bytes
from parapet.transforms.babi_format import CANDIDATES, FACTS, candidates_text, facts_text
from parapet.transforms.restaurants.patterns import counted
from parapet.transforms.restaurants.plan import PLUS, Config
from parapet.transforms.restaurants.report import card, report_page
from parapet.transforms.restaurants.sgd import schema
from parapet.transforms.restaurants.statistics import Key, intersections, repeats, solved, statistics
from parapet.transforms.restaurants.world import World, candidates, knowledge_base
from parapet.transforms.restaurants.writing import EXAMPLES, SEEN, SHOWN, SIGNATURES, TALLIES, put_together


def summed(written: Any) -> tuple[beam.PCollection, ...]:
    """The outputs of ``WriteDialogues``, summed, as :func:`metadata_files` takes them."""
    tallies = written[TALLIES] | "Sum tallies" >> beam.CombinePerKey(sum)
    examples = written[EXAMPLES] | "Examples" >> beam.combiners.Top.SmallestPerKey(SHOWN)
    return tallies, put_together(written[SEEN]), examples, written[SIGNATURES]


def metadata_files(
    config: Config,
    tallies: Iterable[tuple[Key, int]],
    seen: Iterable[tuple[tuple[str, str], set[str]]],
    examples: Iterable[tuple[int, list[tuple[int, str]]]],
    signatures: Iterable[tuple[tuple[int, str], bytes]],
) -> Iterator[tuple[str, bytes]]:
    """(path below the output, bytes) of each file. Raises RuntimeError where the splits are not apart."""
    world = config.world()
    sums = Counter({**dict(tallies), **repeats(signatures)})
    numbers = {
        **_domain(world),
        "tasks": statistics(world, config.tasks, config.sizes, config.plus, sums),
        "bot": solved(config.tasks, config.sizes, sums),
        "apart": intersections(world, dict(seen)),
    }
    shown = {task: [text for _, text in sorted(found)] for task, found in sorted(examples)}
    yield "statistics.json", (json.dumps(numbers, indent=2) + "\n").encode()
    yield "README.md", card(numbers, config.options()).encode()
    yield "report.html", report_page(numbers, shown).encode()
    yield from _published(world, config)
    services = schema_bytes(schema(world.ontology))
    yield from ((name, services) for name in config.schema_names())


def _published(world: World, config: Config) -> Iterator[tuple[str, bytes]]:
    """Knowledge base and candidates; the sets with disfluencies are a folder that has all it needs."""
    if "babi" not in config.formats:
        return
    facts, texts = facts_text(knowledge_base(world)).encode(), candidates_text(candidates(world)).encode()
    for folder in ("", f"{PLUS}/") if config.plus else ("",):
        yield folder + FACTS, facts
        yield folder + CANDIDATES, texts


def _domain(world: World) -> dict[str, Any]:
    user, bot = counted(world.ontology.patterns)
    halves: Sequence[Sequence[Any]] = world.halves
    facts = len(world.names) + len(world.ontology.extras) + 1
    return {
        "domain": world.ontology.domain,
        "entities": {"seen": len(halves[0]), "unseen": len(halves[1])},
        "facts": sum(map(len, halves)) * facts,
        "requests": {split: len(part.requests) for split, part in world.parts.items()},
        "patterns": {"user": user, "bot": bot},
        "candidates": len(candidates(world)),
    }
