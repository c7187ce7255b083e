"""Numbers of the sets: turns and their share that changed, operations by kind, characters, domains, reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from parapet.transforms.corpora import domain_of
from parapet.transforms.user_turns import UserTurn
from parapet.transforms.variations.envs import size_of
from parapet.transforms.variations.kinds import Variation

Key = tuple[str, str, str]  # kind of variation, what is counted, of which


@cache
def domains_of(services: tuple[str, ...]) -> frozenset[str]:
    """Of the services that a turn speaks of."""
    return frozenset(map(domain_of, services))


def tally(tallies: Counter[Key], kind: str, pairs: Iterable[tuple[UserTurn, Variation]]) -> None:
    """Counts the turns of a dialogue as one kind has them."""
    sums = dict.fromkeys((*_SUMS, "spans_perturbed"), 0)
    named: list[Key] = []
    for said, variation in pairs:
        sums["turns"] += 1
        sums["words"] += said.utterance.count(" ") + 1
        sums["characters_before"] += len(said.utterance)
        sums["characters_after"] += len(variation.utterance)
        sums["spans"] += len(said.spans)
        domains = domains_of(said.services)
        named += [(kind, "domain_turns", domain) for domain in domains]
        if not variation.operations:
            named.append((kind, "reason", variation.reason.partition(":")[0]))
            continue
        sums["varied"] += 1
        named.append((kind, "source", variation.source))
        named += [(kind, "domain_varied", domain) for domain in domains]
        for one in variation.operations:
            named.append((kind, "operation", one.kind))
            sums["characters_edited"] += max(one.end - one.start, len(one.text))
        for span, place in zip(said.spans, variation.places, strict=True):
            if said.utterance[span.start : span.end] != variation.utterance[slice(*place)]:
                sums["spans_perturbed"] += 1
    for name, n in sums.items():
        tallies[kind, "all", name] += n
    tallies.update(named)


_SUMS = ("turns", "varied", "words", "characters_before", "characters_after", "characters_edited", "spans")


def statistics(
    kinds: Sequence[str], envs: Sequence[str], tallies: Mapping[Key, int], counts: Mapping[str, int]
) -> dict[str, Any]:
    """``statistics.json``.

    Args:
      kinds: of variations, in order.
      envs: the rates of the Env sets.
      tallies: summed.
      counts: summed, see ``parapet.transforms.variations.invariants``.
    """
    return {
        "odd_spans": counts.get("odd_spans", 0),
        "rewritten": _of_lines(kinds, counts),
        "kinds": {kind: _of_kind(kind, envs, tallies, counts) for kind in kinds},
    }


def _of_kind(kind: str, envs: Sequence[str], tallies: Mapping[Key, int], counts: Mapping[str, int]) -> dict[str, Any]:
    found: dict[str, Any] = {name: tallies.get((kind, "all", name), 0) for name in (*_SUMS, "spans_perturbed")}
    found["changed"] = _share(found["varied"], found["turns"])
    operations = _named(kind, "operation", tallies)
    total = sum(operations.values())
    found["operations"] = {
        name: {"count": n, "share": _share(n, total), "per_word": _share(n, found["words"])}
        for name, n in operations.items()
    }
    varied = _named(kind, "domain_varied", tallies)
    found["domains"] = {
        name: {"turns": n, "varied": varied.get(name, 0), "changed": _share(varied.get(name, 0), n)}
        for name, n in _named(kind, "domain_turns", tallies).items()
    }
    found["reasons"] = _named(kind, "reason", tallies)
    found["sources"] = _named(kind, "source", tallies)
    found["envs"] = {f"{kind}-env{i}": _of_env(f"{kind}-env{i}", kind, rate, counts) for i, rate in enumerate(envs, 1)}
    return found


def _of_lines(kinds: Sequence[str], counts: Mapping[str, int]) -> dict[str, Any] | None:
    """What became of the lines of files, where there are some; of those that have a turn the kinds say more."""
    lines = of_splits("lines/", counts)
    if not lines:
        return None
    return {
        "lines": sum(lines.values()) + counts.get("bad_lines", 0),
        "bad": counts.get("bad_lines", 0),
        "kind_not_asked": sum(n for kind, n in lines.items() if kind not in kinds),
        "no_user_turn": sum(of_splits("lines_without_turn/", counts).values()),
        "with_a_turn": of_splits("lines_with_turn/", counts),
    }


def _of_env(name: str, kind: str, rate: str, counts: Mapping[str, int]) -> dict[str, Any]:
    splits = {}
    for split, varied in of_splits(f"varied/{kind}/", counts).items():
        replaced = counts.get(f"replaced/{name}/{split}", 0)
        turns = varied + counts.get(f"unchanged/{kind}/{split}", 0)
        splits[split] = {
            "can_be_varied": varied,
            "asked": size_of(rate, varied),
            "replaced": replaced,
            "share": _share(replaced, varied),
            "share_of_user_turns": _share(replaced, turns),
        }
    return {"rate": float(rate), "splits": splits}


def of_splits(prefix: str, counts: Mapping[str, int]) -> dict[str, int]:
    """Split, or kind, to its number, of counts whose names begin so."""
    return {name.removeprefix(prefix): n for name, n in sorted(counts.items()) if name.startswith(prefix)}


def _named(kind: str, what: str, tallies: Mapping[Key, int]) -> dict[str, int]:
    return {key[2]: n for key, n in sorted(tallies.items()) if key[:2] == (kind, what)}


def _share(n: int, of: int) -> float | None:
    return n / of if of else None


def as_mapping(pairs: Iterable[tuple[Any, int]]) -> dict[Any, int]:
    """Sums by key, of what the workers counted."""
    sums: Counter[Any] = Counter()
    for key, n in pairs:
        sums[key] += n
    return dict(sums)
