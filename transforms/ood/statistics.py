"""The numbers of ``ood``: what was injected in each set, and what became of the foreign utterances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parapet.schemas.errors import InputError
from parapet.transforms.ood.plan import Recipe, set_name, wanted
from parapet.transforms.ood.pool import IN_DOMAIN, STATUSES

MOST_IN_DOMAIN = 0.5


def statistics(recipe: Recipe, counts: Mapping[str, int]) -> dict[str, Any]:
    """``statistics.json``, given the summed counts."""
    return {
        "sets": {set_name(rate): _of_set(rate, recipe, counts) for rate in recipe.rates},
        "pool": pool_numbers(counts),
        "overlapping": counts.get("overlapping", 0),
    }


def _of_set(rate: str, recipe: Recipe, counts: Mapping[str, int]) -> dict[str, Any]:
    name = set_name(rate)
    prefix = f"from/{name}/"
    splits = {split or "all": _of_split(rate, split or "all", counts) for split in recipe.splits}
    sources = {key.removeprefix(prefix): n for key, n in sorted(counts.items()) if key.startswith(prefix)}
    return {"rate": float(rate), "splits": splits, "sources": sources}


def _of_split(rate: str, split: str, counts: Mapping[str, int]) -> dict[str, Any]:
    of = f"{set_name(rate)}/{split}"
    in_domain, ood = counts.get(f"in_domain/{of}", 0), counts.get(f"ood/{of}", 0)
    return {
        "in_domain_turns": in_domain,
        "ood_turns": ood,
        "wanted": wanted(rate, in_domain),
        "share": ood / (in_domain + ood) if in_domain else None,
        "dialogues_with_ood": counts.get(f"touched/{of}", 0),
        "uses": {str(n): times for n, times in uses_in(of, counts).items()},
    }


def uses_in(of: str, counts: Mapping[str, int]) -> dict[int, int]:
    """Times that an utterance is used in ``SET/SPLIT`` to the number of utterances that are, ascending."""
    prefix = f"uses/{of}/"
    return dict(sorted((int(key.removeprefix(prefix)), n) for key, n in counts.items() if key.startswith(prefix)))


def pool_numbers(counts: Mapping[str, int]) -> dict[str, Any]:
    """The foreign utterances: read, different, and what became of those."""
    texts = counts.get("texts", 0)
    numbers = {status: counts.get(f"pool/{status}", 0) for status in STATUSES}
    in_domain = sum(numbers[status] for status in IN_DOMAIN)
    return {
        "utterances": counts.get("source_rows", 0),
        "different": texts,
        **numbers,
        "familiar": counts.get("familiar", 0),
        "in_domain_share": in_domain / texts if texts else None,
    }


def check_foreign(counts: Mapping[str, int]) -> None:
    """Raises InputError where most of a source is in-domain."""
    pool = pool_numbers(counts)
    share = pool["in_domain_share"]
    if not pool["different"]:
        raise InputError("has no utterances", "--source")
    if share > MOST_IN_DOMAIN:
        raise InputError(
            f"is in-domain: {share:.0%} of its {pool['different']:,} different utterances are near-duplicates of turns "
            f"of the corpus ({pool['near_duplicate']:,}) or could be said in any of its dialogues "
            f"({pool['generic']:,}); give another",
            "--source",
        )
