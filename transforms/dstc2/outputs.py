"""What ``babi_task6`` writes besides the SGD layout: the files of dialog bAbI, numbers, a card and a page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import apache_beam as beam

from parapet.schemas.layout import schema_bytes
from parapet.transforms.babi_format import SPLITS, Fact, candidates_text
from parapet.transforms.dstc2.card import card
from parapet.transforms.dstc2.corpus import schema_of
from parapet.transforms.dstc2.knowledge import Said, facts_about
from parapet.transforms.dstc2.report import report_page
from parapet.transforms.dstc2.writing import BABI, CANDIDATE, COUNTS, EXAMPLES, SET, SHOWN, TEXTS, WORD, Config, Maker

FILE = "dialog-babi-task6-dstc2-{}.txt"
_SUMS = (
    "dialogues",
    "left_out",
    "user_turns",
    "bot_turns",
    "api_calls",
    "no_result",
    "facts",
    "offers",
    "offers_found",
)


def babi_files(written: Any, splits: Sequence[str]) -> beam.PCollection:
    """(path, bytes) of each split's dialogues, in the order of the list."""
    # A split without calls has a file too.
    none = written.written.pipeline | "Splits" >> beam.Create([(split, (-1, "")) for split in splits], reshuffle=False)
    return (
        (written[BABI], none)
        | "Texts of splits" >> beam.Flatten()
        | "By split" >> beam.GroupByKey()
        | "Files of splits" >> beam.MapTuple(_of_split)
    )


def _of_split(split: str, texts: Iterable[tuple[int, str]]) -> tuple[str, bytes]:
    return FILE.format(SPLITS[split]), "".join(text for _, text in sorted(texts)).encode()


def summed(written: Any) -> tuple[beam.PCollection, beam.PCollection, beam.PCollection]:
    """What ``WriteTask`` found, as :func:`metadata_files` takes it after the facts."""
    counts = written[COUNTS] | "Sum counts" >> beam.CombinePerKey(sum)
    texts = written[TEXTS] | "Sum texts" >> beam.CombinePerKey(sum)
    examples = written[EXAMPLES] | "Examples" >> beam.combiners.Top.SmallestPerKey(SHOWN)
    return counts, texts, examples


def metadata_files(
    config: Config,
    facts: Iterable[tuple[Said, int]],
    counts: Iterable[tuple[str, int]],
    texts: Iterable[tuple[tuple[str, str], int]],
    examples: Iterable[tuple[str, list[tuple[Any, str]]]],
) -> list[tuple[str, bytes]]:
    """(path below the output, bytes) of each file."""
    maker = Maker(config, facts)
    kinds = sorted(key for key, _ in texts)
    candidates = [text for kind, text in kinds if kind == CANDIDATE]
    kb = [fact for one in maker.knowledge.restaurants for fact in facts_about(one)]
    numbers = statistics(config, dict(counts))
    numbers["vocabulary"] = sum(kind == WORD for kind, _ in kinds)
    numbers["candidates"] = len(candidates)
    numbers["restaurants"] = len(maker.knowledge.restaurants)
    numbers["kb_facts"] = len(kb)
    shown = dict(sorted((split, [text for _, text in found]) for split, found in examples))
    files = {
        FILE.format("candidates"): candidates_text(candidates).encode(),
        FILE.format("kb"): _facts_text(kb).encode(),
        "statistics.json": (json.dumps(numbers, indent=2) + "\n").encode(),
        "README.md": card(numbers, config.options()).encode(),
        "report.html": report_page(numbers, shown).encode(),
    }
    schema = schema_bytes(schema_of(config.ontology))
    schemas = {f"{SET}/{split}/schema.json": schema for split in config.logs.splits}
    return sorted({**files, **schemas}.items())


def _facts_text(facts: Iterable[Fact]) -> str:
    """As task 6 has them: with a space before the value, where the other tasks have a tab."""
    return "".join(f"1 {one.entity} {one.relation} {one.value}\n" for one in facts)


def statistics(config: Config, counts: Mapping[str, int]) -> dict[str, Any]:
    """``statistics.json``, less what is known of all dialogues only."""
    splits = {}
    for split in config.logs.splits:
        found: dict[str, Any] = {name: counts.get(f"{name}/{split}", 0) for name in _SUMS}
        n = found["dialogues"]
        means = {"utterances": found["user_turns"] + found["bot_turns"] + found["facts"] + found["no_result"]}
        means |= {name: found[name] for name in ("user_turns", "bot_turns", "facts")}
        found["per_dialogue"] = {name: round(of / n, 2) if n else None for name, of in means.items()}
        splits[split] = found
    return {"splits": splits, "moved_from_dev_to_train": config.logs.moved}
