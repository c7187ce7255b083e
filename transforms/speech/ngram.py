"""A trigram language model in the ARPA format: interpolated Witten-Bell (Chen and Goodman 1999, section 2.4)."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

ORDER = 3
START, END = "<s>", "</s>"

_NEVER = -99.0  # of the sentence's start, which is never predicted

Gram = tuple[str, ...]


def arpa(sentences: Iterable[Sequence[str]], base: Mapping[str, float] | None = None) -> str:
    """The model of these sentences, sorted: the same sentences in any order give the same text.

    Args:
      sentences: of words.
      base: word frequencies of the language; the probability left for other words is distributed by them, or
        evenly among their own words where there is none.
    """
    counts = _counts(sentences)
    seen = [gram[0] for gram in counts[0] if gram != (START,)]
    words = sorted({*seen, *(base or ()), END})
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
    """The words of a model in the ARPA format, of any order up to 3.

    Raises:
      ValueError: it is none, or a broken one: decoders do not check, and some end the process.
    """
    lines = [line.strip() for line in text.splitlines()]
    if "\\data\\" not in lines or "\\1-grams:" not in lines:
        raise ValueError("there are no 1-grams: it is no language model in the ARPA format")
    declared = {found[1]: found[2] for line in lines if (found := _COUNT.fullmatch(line))}
    grams: dict[str, list[list[str]]] = {}
    order = ""
    for line in lines[lines.index("\\data\\") + 1 :]:
        if line.startswith("\\"):
            order = line[1:2] if line.endswith("-grams:") else ""
            grams.setdefault(order, [])
        elif order and line:
            grams[order].append(_gram(line, int(order)))
    if "\\end\\" not in lines:
        raise ValueError("it does not end with \\\\end\\\\: it is no language model in the ARPA format, or cut off")
    for order, n in declared.items():
        if len(grams.get(order, [])) != int(n) or int(order) > ORDER:
            raise ValueError(f"it says that there are {n} {order}-grams, and has {len(grams.get(order, []))}")
    words = [gram[0] for gram in grams["1"]]
    if "1" not in declared or START not in words or END not in words:
        raise ValueError(f"it lacks {START} or {END}")
    return [word for word in words if not word.startswith("<")]


_COUNT = re.compile(r"ngram (\d) ?= ?(\d{1,9})")


def _gram(line: str, order: int) -> list[str]:
    parts = line.split()
    numbers = [parts[0], *parts[order + 1 :]]
    if len(parts) not in (order + 1, order + 2) or not all(_NUMBER.fullmatch(number) for number in numbers):
        raise ValueError(f"{line[:60]!r} is no {order}-gram")
    if any("(" in word for word in parts[1 : order + 1]):
        raise ValueError(f"a word with a bracket: {line[:60]!r}")
    return parts[1 : order + 1]


_NUMBER = re.compile(r"-?\d{1,9}(\.\d{1,12})?(e-?\d{1,2})?")


def perplexity(text: str, sentences: Iterable[Sequence[str]]) -> float:
    """How many words a model hesitates between, on average, before each word of these sentences and their ends.

    Args:
      text: a model in the ARPA format, of :func:`arpa`.
      sentences: of words; one that the model lacks counts as one of a million.

    Returns:
      10 to the mean of the negative decimal logarithms of the probabilities; 1 where there are no words.
    """
    grams, rests = _read(text)
    total, n = 0.0, 0
    for sentence in sentences:
        padded = (START, *sentence, END)
        for i in range(1, len(padded)):
            total += _log_probability(padded[max(0, i + 1 - ORDER) : i + 1], grams, rests)
            n += 1
    return float(10 ** (-total / n)) if n else 1.0


_UNKNOWN = -6.0


def _read(text: str) -> tuple[dict[Gram, float], dict[Gram, float]]:
    """The logarithms of the probabilities, and of what histories leave for others."""
    grams: dict[Gram, float] = {}
    rests: dict[Gram, float] = {}
    for line in text.splitlines():
        parts = line.split("\t")
        if len(parts) > 1:
            gram = tuple(parts[1].split(" "))
            grams[gram] = float(parts[0])
            if len(parts) > 2:
                rests[gram] = float(parts[2])
    return grams, rests


def _log_probability(gram: Gram, grams: Mapping[Gram, float], rests: Mapping[Gram, float]) -> float:
    if gram in grams:
        return grams[gram]
    if len(gram) == 1:
        return _UNKNOWN
    return rests.get(gram[:-1], 0.0) + _log_probability(gram[1:], grams, rests)


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
