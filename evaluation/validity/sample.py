"""Which user turns of perturbed sets people compare with the original."""

from __future__ import annotations

from parapet.evaluation.validity.turns import Pair, Pairs
from parapet.schemas.errors import InputError
from parapet.transforms.hits.records import CHECK, VariedItem
from parapet.transforms.seeding import stable_digest


def draw_sample(pairs: Pairs, size: int, seed: int) -> tuple[list[VariedItem], dict[str, dict[str, int]]]:
    """Draws turns of each set at random, without replacement, of those that have changed and mean to say the same.

    A turn is drawn by a hash of seed, set, dialogue and turn: a larger sample contains the smaller one. Turns with
    another state than the original's, as of unseen entities, do not mean to say the same.

    Args:
      pairs: of all sets.
      size: how many of each set; fewer are drawn where there are fewer.
      seed: of the draw.

    Returns:
      The turns, and by set how many were ``drawn`` of how many ``turns``.

    Raises:
      InputError: a set has no turn that can be drawn, or a reserved name.
    """
    items: list[VariedItem] = []
    drawn = {}
    for name in pairs.sets:
        if name == CHECK:
            raise InputError(f"a set cannot be called {CHECK!r} here", name, "--sets")
        found = [pair for pair in pairs.pairs if pair.set == name and pair.changed and not pair.other_states]
        if not found:
            raise InputError("no user turn has another text and the same state: nothing to compare", name, "--sets")
        found.sort(key=lambda pair: stable_digest(str(seed), "pair", pair.set, pair.dialogue_id, str(pair.turn)))
        items += map(item_of, found[:size])
        drawn[name] = {"drawn": len(found[:size]), "turns": len(found)}
    return items, drawn


def item_of(pair: Pair) -> VariedItem:
    """A pair as its page shows it."""
    original = pair.original
    values = tuple(dict.fromkeys(value.value for value in original.values))
    return VariedItem(
        pair.dialogue_id,
        pair.turn,
        pair.set,
        original.services,
        original.before,
        original.utterance,
        values,
        pair.utterance,
    )
