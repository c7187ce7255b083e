"""Tries readings of SGD-X's Table 1 on a release of SGD, and prints which give the published numbers, as Markdown.

    python -m benchmarks.table1_readings dstc8-schema-guided-dialogue

docs/papers.md ("Table 1") has what follows from this script's output on all 45 services.
"""

from __future__ import annotations

import itertools
import logging
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache

import Levenshtein
from sacrebleu.metrics import BLEU

from parapet.schemas.layout import read_root
from parapet.schemas.service import Service
from parapet.transforms.reports.text import name_words
from parapet.transforms.variants.table1 import (
    PUBLISHED,
    PUBLISHED_SELF_BLEU,
    TOKENIZER,
    Inputs,
    Item,
    descriptions_of,
    read_inputs,
)

Texts = list[tuple[str, ...]]  # for each element: the original, v1, ..., v5
KINDS = ("slots", "intents")


def names(service: Service, kind: str) -> list[str]:
    """Lists the names of its slots or intents."""
    return [element.name for element in getattr(service, kind)]


def columns_of(item: Item) -> list[Service]:
    """Lists the original and its variants."""
    return [item.original, *item.variants.values()]


def by_text(rows: Texts) -> Texts:
    """Reorders the paraphrases of each name: by Levenshtein distance, then by text."""
    return [(row[0], *sorted(row[1:], key=lambda name: (Levenshtein.distance(row[0], name), name))) for row in rows]


def names_seen(inputs: Inputs, train: Sequence[str]) -> Iterable[tuple[str, dict[str, list[float]]]]:
    """Yields each reading of "names seen in train", with its shares in percent by kind."""
    unseen = [item for item in inputs.items if item.unseen]
    known = [item for item in inputs.items if item.original.service_name in train]
    rows = {kind: [tuple(names(column, kind) for column in columns_of(item)) for item in unseen] for kind in KINDS}
    elements = {kind: [row for service in rows[kind] for row in zip(*service, strict=True)] for kind in KINDS}
    own = {
        kind: [set().union(*(names(columns_of(item)[i], kind) for item in known)) for i in range(6)] for kind in KINDS
    }
    assert inputs.train is not None  # SGD has a train split
    pools = {kind: {name for service in inputs.train for name in names(service, kind)} for kind in KINDS}

    def share(found: Sequence[bool]) -> float:
        return 100 * sum(found) / len(found)

    def shares(of: Callable[[str, int], float]) -> dict[str, list[float]]:
        return {kind: [of(kind, i) for i in range(6)] for kind in KINDS}

    def plain(name: str) -> tuple[str, ...]:
        return tuple(re.findall(r"\w", "".join(name_words(name))))

    yield (
        "every element, exact names, train's original names (the default)",
        shares(lambda kind, i: share([row[i] in pools[kind] for row in elements[kind]])),
    )
    ordered = {kind: by_text(elements[kind]) for kind in KINDS}
    yield (
        "the same, ties of distance ordered by text",
        shares(lambda kind, i: share([row[i] in pools[kind] for row in ordered[kind]])),
    )
    yield (
        "unique names",
        shares(lambda kind, i: share([name in pools[kind] for name in {r[i] for r in elements[kind]}])),
    )
    yield (
        "mean over services",
        shares(
            lambda kind, i: statistics.mean(
                share([name in pools[kind] for name in service[i]]) for service in rows[kind]
            )
        ),
    )
    yield (
        "without case and underscores",
        shares(
            lambda kind, i: share([plain(row[i]) in {plain(name) for name in pools[kind]} for row in elements[kind]])
        ),
    )
    yield (
        "train's names of the same variant",
        shares(lambda kind, i: share([row[i] in own[kind][i] for row in elements[kind]])),
    )


@cache
def scorer(tokenizer: str) -> BLEU:
    """Makes sacrebleu's BLEU, lower-cased."""
    return BLEU(lowercase=True, tokenize=tokenizer)


def corpus(tokenizer: str) -> Callable[[Texts, int, int], float]:
    """Returns a function that computes corpus BLEU of column i against column j."""
    return lambda rows, i, j: scorer(tokenizer).corpus_score([r[i] for r in rows], [[r[j] for r in rows]]).score


def sentences(method: str, effective: bool) -> Callable[[Texts, int, int], float]:
    """Returns a function that computes the mean sentence BLEU of column i against column j."""
    bleu = BLEU(lowercase=True, tokenize=TOKENIZER, smooth_method=method, effective_order=effective)
    return lambda rows, i, j: statistics.mean(bleu.sentence_score(row[i], [row[j]]).score for row in rows)


def bleu_readings(inputs: Inputs, splits: Sequence[Sequence[str]]) -> Iterable[tuple[str, list[float]]]:
    """Yields each reading of BLEU: v1 to v5, their average, and self-BLEU."""
    of_service = {item.original.service_name: list(map(descriptions_of, columns_of(item))) for item in inputs.items}

    def rows_of(services: Iterable[str], first: int = 0) -> Texts:
        return [row for name in services for row in zip(*(texts[first:] for texts in of_service[name]), strict=True)]

    unique, repeated = rows_of(of_service), rows_of(name for split in splits for name in split)
    words = [tuple(" ".join(re.findall(r"\w+", text)) for text in row) for row in unique]

    def read(rows: Texts, bleu: Callable[[Texts, int, int], float]) -> list[float]:
        variants = [bleu(rows, i, 0) for i in range(1, 6)]
        pairs = [bleu(rows, i, j) for i, j in itertools.permutations(range(1, 6), 2)]
        return [*variants, statistics.mean(variants), statistics.mean(pairs)]

    yield "corpus BLEU, `intl` (the default)", read(unique, corpus("intl"))
    yield "corpus BLEU, `13a`", read(unique, corpus("13a"))
    yield "corpus BLEU, words without punctuation", read(words, corpus("none"))
    yield "corpus BLEU, `none`", read(unique, corpus("none"))
    cased = BLEU(tokenize="intl")
    yield (
        "corpus BLEU, `intl`, case kept",
        read(unique, lambda rows, i, j: cased.corpus_score([r[i] for r in rows], [[r[j] for r in rows]]).score),
    )
    yield "corpus BLEU, `intl`, without the services' descriptions", read(rows_of(of_service, 1), corpus("intl"))
    yield "corpus BLEU, `intl`, every split's services", read(repeated, corpus("intl"))
    yield "corpus BLEU, `intl`, services of test", read(rows_of(splits[-1]), corpus("intl"))
    for method, effective in (("exp", True), ("add-k", False), ("floor", False), ("none", False)):
        label = f"mean sentence BLEU, `intl`, smoothing {method}" + (", effective order" if effective else "")
        yield label, read(unique, sentences(method, effective))


def main(root: str) -> None:
    """Prints both tables."""
    logging.getLogger("sacrebleu").setLevel(logging.ERROR)  # it recommends one of the readings for each sentence
    inputs = read_inputs(root, f"{root}/sgd_x/data", None)
    splits = [[service.service_name for service in split.services] for split in read_root(root)]
    print("| reading | row | orig | v1 | v2 | v3 | v4 | v5 |\n|---|---|--:|--:|--:|--:|--:|--:|")
    published_seen = {kind: [100 * (x or 0) for x in PUBLISHED[f"{kind[:-1]}_names_seen"][:6]] for kind in KINDS}
    print_seen("published", published_seen, digits=0)
    for reading, shares in names_seen(inputs, splits[0]):
        print_seen(reading, shares)
    print("\n| reading | v1 | v2 | v3 | v4 | v5 | average | self-BLEU |\n|---|--:|--:|--:|--:|--:|--:|--:|")
    published = [*PUBLISHED["description_bleu"][1:], PUBLISHED_SELF_BLEU]
    for reading, values in [("published", published), *bleu_readings(inputs, splits)]:
        digits = 1 if reading == "published" else 2
        print(f"| {reading} | " + " | ".join(f"{value:.{digits}f}" for value in values) + " |")


def print_seen(reading: str, shares: dict[str, list[float]], digits: int = 1) -> None:
    """Prints two rows of the first table."""
    for kind, values in shares.items():
        cells = " | ".join(f"{value:.{digits}f}" for value in values)
        print(f"| {reading if kind == 'slots' else ''} | {kind} | {cells} |")


if __name__ == "__main__":
    main(sys.argv[1])
