"""Acts with other values, which nothing that was said should entail: the negatives of SGSAcc's validation."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from parapet.evaluation.generation.references import Act
from parapet.evaluation.generation.turns import Pools
from parapet.transforms.seeding import stable_hash

_NO_WORD = re.compile(r"[\W_]+")


def tampered(act: Act, pools: Pools, *drawn_by: str) -> Act | None:
    """The act with each value replaced by another of the slot's.

    A boolean says the opposite. Others are drawn by hash from the values of the slot in the corpus, for categorical
    slots from those of the schema. Two ways to say one value are one value.

    Args:
      act: the act.
      pools: the values of all slots.
      drawn_by: what the draw depends on: seed, dialogue, turn, position.

    Returns:
      None where there is nothing to replace, or nothing to replace it by.
    """
    if not act.states:
        return None
    if act.is_boolean:
        other = ("False" if act.is_true else "True",)
        return msgspec.structs.replace(act, values=other, canonical=other)
    taken = {_plain(one) for one in (*act.values, *act.canonical)}
    chosen: list[tuple[str, str]] = []
    for i in range(len(act.values)):
        one = _draw(pools.of.get(act.pool, ()), taken, stable_hash(*drawn_by, act.slot, str(i)))
        if one is None:
            return None
        chosen.append(one)
        taken |= {_plain(form) for form in one}
    values, canonical = zip(*chosen, strict=True)
    return msgspec.structs.replace(act, values=values, canonical=canonical)


def _draw(pool: Sequence[tuple[str, str]], taken: set[str], number: int) -> tuple[str, str] | None:
    """The first free value from a place on that the number gives."""
    for i in range(len(pool)):
        value, canonical = pool[(number + i) % len(pool)]
        if _plain(value) and _plain(value) not in taken and _plain(canonical) not in taken:
            return value, canonical
    return None


def _plain(value: str) -> str:
    return _NO_WORD.sub(" ", value.casefold()).strip()
