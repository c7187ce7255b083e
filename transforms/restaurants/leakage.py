"""Whether the splits are apart: no request in two of them, and nothing of the out-of-vocabulary test in training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from parapet.transforms.restaurants.simulating import Made
from parapet.transforms.restaurants.world import SPLITS, World

Seen = dict[tuple[str, str], set[str]]  # (split, kind of thing) to what occurs there

REQUEST, ENTITY = "request", "name"


def note(world: World, split: str, made: Made, seen: Seen) -> None:
    """Notes what occurs in a dialogue: all that is said, and all that is listed."""

    def add(kind: str, value: str) -> None:
        seen.setdefault((split, kind), set()).add(value)

    listed = seen.setdefault((split, ENTITY), set())
    for request in made.requests:
        add(REQUEST, " ".join(request))
    for spoken in made.spoken:
        for entity in spoken.results:  # before one of them is spoken of
            if entity.name not in listed:
                listed.add(entity.name)
                for name, value in world.facts(entity).items():
                    add(name, value)
        for said in (spoken.user, spoken.bot):
            for slot, value in said.values.items() if said else ():
                add(slot, value)


def union(sets: Iterable[Iterable[str]]) -> set[str]:
    """All that occurs in any; how the workers' notes are put together."""
    return set().union(*sets)


def intersections(world: World, seen: Mapping[tuple[str, str], Iterable[str]]) -> dict[str, Any]:
    """What splits share.

    Returns:
      ``requests``: pairs of splits to the number of requests that both have; ``oov``: for each kind of thing, how many
      the out-of-vocabulary test has, how many training, dev and test have, and how many both.

    Raises:
      RuntimeError: a request is in two splits, or what must be unseen is in training.
    """
    sets = {key: set(values) for key, values in seen.items()}
    pairs = {
        f"{first}+{second}": len(sets[first, REQUEST] & sets[second, REQUEST])
        for i, first in enumerate(SPLITS)
        for second in SPLITS[i + 1 :]
        if (first, REQUEST) in sets and (second, REQUEST) in sets
    }
    apart = [field.name for field in world.ontology.fields if not field.shared]
    shared = [field.name for field in world.ontology.fields if field.shared]
    rows = {}
    for kind in (ENTITY, *apart, *world.ontology.extras, *shared, "rating"):
        oov = sets.get(("oov", kind), set())
        train = set().union(*(sets.get((split, kind), set()) for split in SPLITS[:-1]))
        unseen = kind not in shared and kind != "rating"
        rows[kind] = {"oov": len(oov), "seen": len(train), "both": len(oov & train), "must_be_unseen": unseen}
    wrong = [pair for pair, n in pairs.items() if n]
    wrong += [kind for kind, row in rows.items() if row["must_be_unseen"] and row["both"]]
    if wrong:
        raise RuntimeError(f"the splits are not apart: {', '.join(wrong)}")
    return {"requests": pairs, "oov": rows}
