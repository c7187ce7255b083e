"""The measures of SGD-X (Lee et al. 2022, Table 1 and section "Dataset Statistics"): how far variants are from their
original.

- *Names seen*: of the names of services that train lacks, the share that occurs among train's original names. Every
  name counts as often as services have it: so read, SGD's 15 unseen test services give the published 65 % of slots
  (75 of 116) and 71 % of intents (20 of 28); counted once each they would give 57 % and 70 %.
- *Name distance*: mean of 1 - Levenshtein.ratio(original, paraphrase) over the names of intents and slots.
- *Description BLEU*: corpus BLEU of a variant's descriptions (services', intents', slots') against the original's,
  lower-cased, punctuation split off.
- *Self-BLEU*: mean, over ordered pairs of variants, of the corpus BLEU of one against the other. This is the reading
  that comes nearest to the published 4.5.
- *Self-BLEU by description*, as the paper's footnote 3 defines it: for each description the mean sentence BLEU over
  ordered pairs of variants, then the mean over descriptions.

docs/statistics.md has the readings that were tried. Elements belong together by position. All of it is sums over
services, so services are counted one by one, in any order and on any worker, and the sums give the same numbers to the
last bit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import combinations, permutations
from typing import Any

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.service import Service
from parapet.transforms.distance import levenshtein_ratio

MAX_ORDER = 4  # n-grams of BLEU: one to four words
TOKENIZER = "intl"  # of sacrebleu's, the one that comes closest to the BLEU and self-BLEU that SGD-X published
ORIGINAL = ""  # the original's key beside the variants' names; no folder has this name

Ngrams = Counter[tuple[str, ...]]


class Names(msgspec.Struct, frozen=True):
    """The names that a model has seen in training."""

    slots: frozenset[str]
    intents: frozenset[str]


class Seen(msgspec.Struct, frozen=True):
    """How many names there are, and how many of them train has."""

    slots: int = 0
    slots_seen: int = 0
    intents: int = 0
    intents_seen: int = 0


class Counts(msgspec.Struct, frozen=True):
    """What one service adds to the measures.

    Attributes:
      distances: per variant, 1 - ratio of each name; kept apart, so that their sum can be exactly rounded.
      lengths: per variant and for ORIGINAL, the number of tokens and of n-grams of each order in the descriptions.
      matches: per unordered pair of these, the n-grams of each order that both have at the same position.
      self_bleu: of each description, the mean sentence BLEU over ordered pairs of variants; empty below two variants.
      seen: per variant and for ORIGINAL, the names that train has; empty for a service that train has itself.
    """

    distances: dict[str, list[float]]
    lengths: dict[str, list[int]]
    matches: dict[tuple[str, str], list[int]]
    self_bleu: list[float]
    seen: dict[str, Seen] = {}


def align(
    originals: Mapping[str, Service], variants: Mapping[str, Mapping[str, Service]]
) -> tuple[dict[str, dict[str, Service]], list[str]]:
    """Finds the service of each variant that stands for each original service, and checks that they compare.

    Args:
      originals: the original services, by name.
      variants: each variant's services, by their own names (``Hotels_13``).

    Returns:
      Per original name, in the order of ``originals``, each variant's service. A service that every variant lacks is
      left out: compose leaves out what is short of answers. Second, the services that the original lacks, sorted,
      without the variant's suffix: the published variants cover all of SGD, and the original may be a part of it.

    Raises:
      InputError: a service that only some variants have, a variant with no service of the original, or a service with
        another number of intents or slots.
    """
    aligned: dict[str, dict[str, Service]] = {name: {} for name in originals}
    unknown: set[str] = set()
    for variant, services in variants.items():
        suffix = name_suffix(originals, services)
        original_names = {name + suffix: name for name in originals}
        if original_names.keys().isdisjoint(services):
            raise InputError(f"no service of variant {variant} stands for a service of the original")
        for name, service in services.items():
            if name not in original_names:
                unknown.add(name.removesuffix(suffix))
                continue
            _check_positions(originals[original_names[name]], service, variant)
            aligned[original_names[name]][variant] = service
    for name, by_variant in aligned.items():
        missing = [variant for variant in variants if variant not in by_variant]
        if missing and by_variant:
            present = next(iter(by_variant))
            raise InputError(f"service {name!r} is in variant {present}, but missing from variant {missing[0]}")
    return {name: by_variant for name, by_variant in aligned.items() if by_variant}, sorted(unknown)


def name_suffix(originals: Iterable[str], names: Iterable[str]) -> str:
    """What a variant puts behind the names of services: ``3`` in SGD-X's v3.

    The suffix that accounts for the most services, then the shortest: read singly, ``Hotels_11`` may be variant 1 of
    ``Hotels_1`` or another service left as it is.
    """
    known = set(originals)
    votes: Counter[str] = Counter()
    for name in names:
        votes.update(name[i:] for i in range(1, len(name) + 1) if name[:i] in known)
    return min(votes, key=lambda suffix: (-votes[suffix], len(suffix), suffix), default="")


def names_of(services: Iterable[Service]) -> Names:
    """The names of slots and intents of ``services``: train's are the ones seen."""
    services = list(services)
    return Names(
        slots=frozenset(slot.name for service in services for slot in service.slots),
        intents=frozenset(intent.name for service in services for intent in service.intents),
    )


def count_seen(service: Service, train: Names) -> Seen:
    """Counts the names of one service that ``train`` has."""
    return Seen(
        slots=len(service.slots),
        slots_seen=sum(slot.name in train.slots for slot in service.slots),
        intents=len(service.intents),
        intents_seen=sum(intent.name in train.intents for intent in service.intents),
    )


def count(
    original: Service,
    variants: Mapping[str, Service],
    train: Names | None = None,
    tokenizer: str = TOKENIZER,
) -> Counts:
    """Counts one service.

    Args:
      original: the service.
      variants: its counterpart in each variant.
      train: the names seen in training, where the service is one that train lacks.
      tokenizer: of BLEU, by its name in sacrebleu.

    Raises:
      InputError: a variant has another number of intents or slots.
    """
    for variant, service in variants.items():
        _check_positions(original, service, variant)
    everyone = {ORIGINAL: original, **variants}
    descriptions = {key: descriptions_of(service) for key, service in everyone.items()}
    lengths, matches, self_bleu = _count_ngrams(descriptions, tokenizer)
    names = {key: element_names(service) for key, service in everyone.items()}
    return Counts(
        distances={
            key: [1.0 - levenshtein_ratio(*pair) for pair in zip(names[ORIGINAL], names[key], strict=True)]
            for key in variants
        },
        lengths=lengths,
        matches=matches,
        self_bleu=self_bleu,
        seen={} if train is None else {key: count_seen(service, train) for key, service in everyone.items()},
    )


def element_names(service: Service) -> list[str]:
    """The names of intents and slots, by position."""
    return [*(intent.name for intent in service.intents), *(slot.name for slot in service.slots)]


def descriptions_of(service: Service) -> list[str]:
    """The descriptions of the service, its intents and its slots, by position."""
    intents = (intent.description for intent in service.intents)
    return [service.description, *intents, *(slot.description for slot in service.slots)]


def _check_positions(original: Service, service: Service, variant: str) -> None:
    for kind in ("slots", "intents"):
        expected, found = len(getattr(original, kind)), len(getattr(service, kind))
        if expected != found:
            raise InputError(
                f"{service.service_name!r} of variant {variant} and its original {original.service_name!r} differ in "
                f"the number of {kind}: {found} and {expected}; elements are compared by position"
            )


def _count_ngrams(
    texts: Mapping[str, list[str]], tokenizer: str
) -> tuple[dict[str, list[int]], dict[tuple[str, str], list[int]], list[float]]:
    """Lengths, matches and self-BLEU of all keys, position by position, so that few n-grams are held at a time."""
    lengths = {key: [0] * (1 + MAX_ORDER) for key in texts}
    matches = {pair: [0] * MAX_ORDER for pair in combinations(texts, 2)}
    self_bleu = []
    for sentences in zip(*texts.values(), strict=True):
        ngrams, sizes = {}, {}
        for key, sentence in zip(texts, sentences, strict=True):
            ngrams[key], tokens = _ngrams(sentence, tokenizer)
            sizes[key] = [tokens, *(max(tokens - order, 0) for order in range(MAX_ORDER))]
            _add(lengths[key], sizes[key])
        scores: list[float | None] = []
        for (first, second), found in matches.items():
            shared = _shared(ngrams[first], ngrams[second])
            _add(found, shared)
            if first != ORIGINAL:
                scores += (_sentence_score(shared, sizes[one], sizes[other]) for one, other in _both(first, second))
        if (mean := _mean(scores)) is not None:
            self_bleu.append(mean)
    return lengths, matches, self_bleu


def _both(first: str, second: str) -> tuple[tuple[str, str], tuple[str, str]]:
    return (first, second), (second, first)


def _shared(first: Ngrams, second: Ngrams) -> list[int]:
    # Symmetric, so one count serves both directions of a pair.
    shared = [0] * MAX_ORDER
    for ngram in first.keys() & second.keys():
        shared[len(ngram) - 1] += min(first[ngram], second[ngram])
    return shared


@lru_cache(maxsize=1 << 12)
def _ngrams(text: str, tokenizer: str) -> tuple[Ngrams, int]:
    from sacrebleu.metrics.helpers import extract_all_word_ngrams

    counted, tokens = extract_all_word_ngrams(_bleu(tokenizer).tokenizer(text.lower().rstrip()), 1, MAX_ORDER)
    return counted, tokens


@cache
def _bleu(tokenizer: str = TOKENIZER) -> Any:
    from sacrebleu.metrics.bleu import BLEU  # imported late: it takes a quarter of a second

    return BLEU(lowercase=True, tokenize=tokenizer)


def bleu_signature(tokenizer: str = TOKENIZER) -> str:
    """Sacrebleu's own description of the settings, to be quoted beside the numbers."""
    bleu = _bleu(tokenizer)
    bleu.corpus_score(["a"], [["a"]])  # a signature exists only once something was scored
    return str(bleu.get_signature())


def _score(
    matches: Sequence[int], hypothesis: Sequence[int], reference: Sequence[int], effective_order: bool = False
) -> float:
    score = _bleu().compute_bleu(
        correct=list(matches),
        total=list(hypothesis[1:]),
        sys_len=hypothesis[0],
        ref_len=reference[0],
        smooth_method="exp",
        effective_order=effective_order,
    )
    return float(score.score)


def _sentence_score(matches: Sequence[int], hypothesis: Sequence[int], reference: Sequence[int]) -> float:
    # As sacrebleu scores a sentence: exponential smoothing, and only the orders that the sentence is long enough for.
    return _score(matches, hypothesis, reference, effective_order=True) if matches[0] else 0.0


def measures_of(counts: Iterable[Counts], variants: Sequence[str]) -> dict[str, Any]:
    """The measures that need no training split, from the counts of the services, in any order.

    Returns:
      ``{"variants": {"v1": {"name_distance", "description_bleu"}, ...}, "average": {...}, "self_bleu",
      "self_bleu_by_description"}``: distances 0-1, BLEU 0-100, None where there is nothing to measure.
    """
    by_description: list[float] = []
    distances: dict[str, list[float]] = {variant: [] for variant in variants}
    lengths = {key: [0] * (1 + MAX_ORDER) for key in (ORIGINAL, *variants)}
    matches = {pair: [0] * MAX_ORDER for pair in combinations((ORIGINAL, *variants), 2)}
    for counted in counts:
        by_description += counted.self_bleu
        for variant in variants:
            distances[variant] += counted.distances[variant]
        for key, sums in lengths.items():
            _add(sums, counted.lengths[key])
        for pair, found in matches.items():
            _add(found, counted.matches[pair])
    rows = {
        variant: {
            "name_distance": _mean(distances[variant]),
            "description_bleu": _score(matches[ORIGINAL, variant], lengths[variant], lengths[ORIGINAL]),
        }
        for variant in variants
    }
    return {
        "variants": rows,
        "average": _average(rows),
        "self_bleu": _self_bleu(variants, lengths, matches),
        "self_bleu_by_description": _mean(by_description),
    }


def _self_bleu(
    variants: Sequence[str], lengths: Mapping[str, Sequence[int]], matches: Mapping[tuple[str, str], Sequence[int]]
) -> float | None:
    scores = []
    for first, second in permutations(variants, 2):
        pair = (first, second) if (first, second) in matches else (second, first)
        scores.append(_score(matches[pair], lengths[first], lengths[second]))
    return _mean(scores)


def _shares(seen: Iterable[Seen]) -> dict[str, float | None]:
    seen = list(seen)
    slots, intents = sum(one.slots for one in seen), sum(one.intents for one in seen)
    return {
        "slot_names_seen": sum(one.slots_seen for one in seen) / slots if slots else None,
        "intent_names_seen": sum(one.intents_seen for one in seen) / intents if intents else None,
    }


def table(counts: Iterable[Counts], variants: Sequence[str]) -> dict[str, Any]:
    """All of Table 1, from the counts of its services.

    Returns:
      ``{"original": {...}, "variants": {"v1": {...}, ...}, "average": {...}, "self_bleu", ...}`` as statistics.json has
      it: shares and distances 0-1, BLEU 0-100. Without variants only the original has numbers.
    """
    counts = list(counts)
    measured = measures_of(counts, variants)
    rows = {}
    for variant in variants:
        shares = _shares(counted.seen[variant] for counted in counts if counted.seen)
        rows[variant] = {**shares, **measured["variants"][variant]}
    return {
        "original": _shares(counted.seen[ORIGINAL] for counted in counts if counted.seen),
        "variants": rows,
        "average": _average(rows),
        "self_bleu": measured["self_bleu"],
        "self_bleu_by_description": measured["self_bleu_by_description"],
    }


def rounded(value: Any) -> Any:
    """The numbers of a JSON value to six places: the last bits differ between builds of Python's mathematics."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return round(value, 6) if isinstance(value, float) else value


def _average(rows: Mapping[str, Mapping[str, float | None]]) -> dict[str, float | None]:
    keys = list(dict.fromkeys(key for row in rows.values() for key in row))
    return {key: _mean(row[key] for row in rows.values()) for key in keys}


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    # fsum is exactly rounded, so the order of services does not show.
    return math.fsum(known) / len(known) if known else None


def _add(sums: list[int], more: Sequence[int]) -> None:
    for i, number in enumerate(more):
        sums[i] += number
