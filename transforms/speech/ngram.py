"""A trigram language model in the ARPA format: interpolated Witten-Bell (Chen and Goodman 1999, section 2.4)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

ORDER = 3
START, END = "<s>", "</s>"

_NEVER = -99.0  # of the sentence's start, which nobody says

Gram = tuple[str, ...]


def arpa(sentences: Iterable[Sequence[str]], base: Mapping[str, float] | None = None) -> str:
    """The model of these sentences, sorted: the same sentences in any order give the same text.

    Args:
      sentences: of words.
      base: how often words are said in general; what the sentences leave for other words is shared out by it, or
        evenly among their own words where there is none.
    """
    counts = _counts(sentences)
    said = [gram[0] for gram in counts[0] if gram != (START,)]
    words = sorted({*said, *(base or ()), END})
    least = min((base or {}).values(), default=1.0)
    weights = {word: (base or {}).get(word, least) for word in words}
    total = sum(weights.values())
    lower: Mapping[Gram, float] = {(word,): weights[word] / total for word in words}
    counts[0] = Counter({(word,): counts[0][(word,)] for word in words})
    tables: list[dict[Gram, float]] = []
    rests: dict[Gram, float] = {}
    for order, found in enumerate(counts, 1):
        totals, kinds = _followers(found)
        rests |= {history: kinds[history] / (totals[history] + kinds[history]) for history in totals}
        table = {}
        for gram, n in found.items():
            history = gram[:-1]
            shorter = gram if order == 1 else gram[1:]
            table[gram] = (n + kinds[history] * lower[shorter]) / (totals[history] + kinds[history])
        tables.append(table)
        lower = table
    return _text(tables, rests)


def words_of(text: str) -> list[str]:
    """The words of a model in the ARPA format. Raises ValueError where it is none."""
    head, found, rest = text.partition("\\1-grams:\n")
    body, end, _ = rest.partition("\n\\")
    if not found or not end or "\\data\\" not in head:
        raise ValueError("there are no 1-grams: it is no language model in the ARPA format")
    words = [line.split()[1] for line in body.splitlines() if len(line.split()) > 1]
    return [word for word in words if not word.startswith("<")]


def _counts(sentences: Iterable[Sequence[str]]) -> list[Counter[Gram]]:
    counts: list[Counter[Gram]] = [Counter() for _ in range(ORDER)]
    for sentence in sentences:
        if sentence:
            padded = (START, *sentence, END)
            for order, found in enumerate(counts, 1):
                found.update(zip(*(padded[i:] for i in range(order)), strict=False))
    return counts


def _followers(found: Mapping[Gram, int]) -> tuple[Counter[Gram], Counter[Gram]]:
    """For each history how often it is followed, and by how many different words."""
    totals: Counter[Gram] = Counter()
    kinds: Counter[Gram] = Counter()
    for gram, n in found.items():
        totals[gram[:-1]] += n
        kinds[gram[:-1]] += n > 0
    return totals, kinds


def _text(tables: Sequence[Mapping[Gram, float]], rests: Mapping[Gram, float]) -> str:
    logs = [{gram: math.log10(p) for gram, p in table.items()} for table in tables]
    logs[0][(START,)] = _NEVER
    lines = ["\\data\\", *(f"ngram {order}={len(table)}" for order, table in enumerate(logs, 1))]
    for order, table in enumerate(logs, 1):
        lines += ["", f"\\{order}-grams:"]
        for gram in sorted(table):
            rest = f"\t{math.log10(rests[gram]):.4f}" if order < ORDER and gram in rests else ""
            lines.append(f"{table[gram]:.4f}\t{' '.join(gram)}{rest}")
    return "\n".join([*lines, "", "\\end\\", ""])
