"""Which places of a split get which foreign utterances, in which sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from schemas.errors import InputError
from transforms.corpora import hashed, listed
from transforms.ood.matching import match
from transforms.ood.places import PLACES, Place, set_name, wanted
from transforms.ood.pool import Foreign

Kind = tuple[str, tuple[str, ...]]  # the split and the domains of a place's dialogue


class Recipe(msgspec.Struct, frozen=True):
    """What the sets are made by.

    Attributes:
      rates: as they were given, ascending.
      place: ``append`` or ``between``.
      seed: of all that is drawn.
      splits: whose dialogues are written.
      own: the foreign utterances are the corpus's own.
    """

    rates: tuple[str, ...]
    place: str
    seed: str
    splits: tuple[str, ...]
    own: bool

    @property
    def sets(self) -> list[str]:
        """The names of the sets."""
        return [set_name(rate) for rate in self.rates]


class Injection(msgspec.Struct, frozen=True, order=True):
    """A foreign utterance in its place.

    Attributes:
      draw: the place's: the order of those that are appended.
      dialogue: the dialogue's position in its file.
      turn: the user turn that the place belongs to.
      utterance: what is said.
      sets: how many of the sets, from the last, have it.
    """

    draw: int
    dialogue: int
    turn: int
    utterance: Foreign
    sets: int


def parse_rates(given: str) -> tuple[str, ...]:
    """``0.1,0.2`` as rates, ascending. Raises InputError where they are none, or one stands twice."""
    parts = listed(given)
    for part in parts:
        try:
            rate = float(part)
        except ValueError:
            raise InputError(f"{part!r} is no rate: give shares such as 0.1,0.2,0.5", "--rates") from None
        if not 0 < rate <= 1:
            raise InputError(f"{part} is no rate: give shares above 0, up to 1, such as 0.2", "--rates")
    names = {set_name(part) for part in parts}
    if not parts or len(names) < len(parts):
        raise InputError("give each rate once, such as 0.1,0.2,0.5", "--rates")
    return tuple(sorted(parts, key=float))


def plan(
    recipe: Recipe, places: Iterable[Place], pool: Iterable[Foreign], turns: Mapping[str, int]
) -> list[tuple[str, Injection]]:
    """Takes the first places of each split in drawn order, and gives each an utterance that no other has.

    The places of a lower rate are the first of those of a higher one, with the same utterances: sets are nested.

    Args:
      recipe: how.
      places: of all splits.
      pool: what may be injected.
      turns: split to the number of its in-domain user turns.

    Returns:
      (dialogue file, injection), in order.

    Raises:
      InputError: too few places or utterances.
    """
    numbers = {split: [wanted(rate, turns.get(split, 0)) for rate in recipe.rates] for split in recipe.splits}
    of_split: dict[str, list[Place]] = {split: [] for split in recipe.splits}
    for place in sorted(places):
        of_split[place.split].append(place)
    chosen: list[tuple[Place, int]] = []
    for split, counts in numbers.items():
        _check_places(recipe, split, len(of_split[split]), counts[-1])
        chosen += [(place, _sets(rank, counts)) for rank, place in enumerate(of_split[split][: counts[-1]])]
    utterances = sorted(pool, key=lambda one: (hashed(recipe.seed, "foreign", one.key), one))
    matched = match(
        [(place.split, place.domains) for place, _ in chosen],
        [(one.splits, one.domains + one.about) for one in utterances],
        _fits,
    )
    missing = Counter(place.split for (place, _), i in zip(chosen, matched, strict=True) if i is None)
    if missing:
        raise _too_few(recipe, missing, len(chosen), len(utterances))
    return sorted(
        (place.file, Injection(place.draw, place.dialogue, place.turn, utterances[i], sets))
        for (place, sets), i in zip(chosen, matched, strict=True)
        if i is not None
    )


def _fits(place: Kind, utterance: tuple[tuple[str, ...], tuple[str, ...]]) -> bool:
    """Whether the split may have the utterance, and the dialogue shares no domain with it."""
    (split, domains), (splits, others) = place, utterance
    return (not splits or split in splits) and not set(domains) & set(others)


def _sets(rank: int, counts: Sequence[int]) -> int:
    return sum(rank < count for count in counts)


def _check_places(recipe: Recipe, split: str, there: int, needed: int) -> None:
    if there < needed:
        of = f" of {split}" if split else ""
        other = PLACES[1 - PLACES.index(recipe.place)]
        raise InputError(
            f"too few places: the dialogues{of} have {there:,} to {recipe.place}, and {needed:,} are needed, "
            f"{needed - there:,} more; give lower rates, or --place {other}",
            "--rates",
        )


def _too_few(recipe: Recipe, missing: Mapping[str, int], needed: int, there: int) -> InputError:
    of = " and ".join(f"{n:,} of {split}" if split else f"{n:,}" for split, n in sorted(missing.items()))
    own = ", nor in another split that is written" if recipe.own and len(recipe.splits) > 1 else ""
    return InputError(
        f"too few foreign utterances for {recipe.sets[-1]}: {of} missing, {needed:,} are needed in all (there are "
        f"{there:,}; each is used once, and not in dialogues of domains that it is of or speaks of{own}); give "
        "lower rates, or a larger --source",
        "--rates",
    )
