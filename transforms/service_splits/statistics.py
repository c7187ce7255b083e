"""Numbers of the splits, all of them made of the combinations of services that dialogues have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from parapet.schemas.service import Service
from parapet.transforms.service_splits.plan import REASONS, SETS, TEST, TRAIN, HeldOut
from parapet.transforms.service_splits.writing import Combination
from parapet.transforms.table1 import count_seen, names_of
from parapet.transforms.touching import Used


class About(msgspec.Struct, frozen=True):
    """What is known before a dialogue is read.

    Attributes:
      held_out: what is held out.
      services: split of the corpus to its services, by name.
      raw: the same as their files have them.
      listed: the services that the schema of train lists; None where all splits have one schema.
    """

    held_out: HeldOut
    services: dict[str, dict[str, Service]]
    raw: dict[str, dict[str, Any]]
    listed: frozenset[str] | None


class Set(msgspec.Struct):
    """A set of a split: how many dialogues and user turns it has, and which services its dialogues have."""

    dialogues: int = 0
    turns: int = 0
    services: set[str] = set()

    def add(self, what: str, n: int, services: Iterable[str]) -> None:
        """Takes the dialogues or the turns of one combination of services."""
        setattr(self, what, getattr(self, what) + n)
        self.services.update(services)


def sets_of(
    about: About, group: str, combinations: Sequence[tuple[Combination, int]]
) -> tuple[dict[str, Set], dict[str, int], int]:
    """The sets of one split; why dialogues are in none; how many lost idle services that are held out."""
    sets = {name: Set() for name in SETS}
    left = dict.fromkeys(REASONS, 0)
    cut = 0
    for (split, touched, idle, what), n in combinations:
        used = Used(touched, idle)
        end = about.held_out.end_of(group, split, used)
        if end in sets:
            dropped = about.held_out.idle_of(group, end, used)
            sets[end].add(what, n, {*touched, *idle} - {*dropped})
            cut += n if dropped and what == "dialogues" else 0
        elif what == "dialogues":
            left[end] += n
    return sets, left, cut


def statistics(about: About, combinations: Sequence[tuple[Combination, int]], left_out: int) -> dict[str, Any]:
    """``statistics.json``.

    Args:
      about: what is held out.
      combinations: with their numbers, summed.
      left_out: dialogues that could not be read.
    """
    held = {group: _of_group(about, group, combinations) for group in about.held_out.groups}
    return {
        "by": about.held_out.by,
        "test_split": about.held_out.test_split,
        "left_out": left_out,
        "as_given": as_given(about, combinations),
        "held_out": held,
        "short": short(held),
    }


def _of_group(about: About, group: str, combinations: Sequence[tuple[Combination, int]]) -> dict[str, Any]:
    sets, left, cut = sets_of(about, group, combinations)
    test = about.services[about.held_out.test_split]
    tested = [name for name in about.held_out.groups[group] if name in sets[TEST].services]
    trained = [about.services[TRAIN][name] for name in sorted(sets[TRAIN].services)]
    return {
        "services": list(about.held_out.groups[group]),
        "sets": {
            name: {"dialogues": one.dialogues, "turns": one.turns, "services": sorted(one.services)}
            for name, one in sets.items()
            if one.dialogues
        },
        "left_out": left,
        "without_idle_frames": cut,
        "seen": seen([test[name] for name in tested], trained),
        # Of a part of a corpus few services have dialogues: what its schema lists is then nearer to the whole.
        "seen_in_schema": seen(
            [test[name] for name in about.held_out.groups[group] if name in test],
            [one for name, one in about.services[TRAIN].items() if name not in about.held_out.groups[group]],
        ),
    }


def seen(services: Sequence[Service], trained: Sequence[Service]) -> dict[str, Any]:
    """How much of some services is known from others, as SGD-X counts it (Lee et al. 2022, Table 1).

    Args:
      services: that are tested on.
      trained: that are trained on.
    """
    names = names_of(trained)
    counts = [count_seen(service, names) for service in services]
    pairs = {(slot.name, slot.description) for service in trained for slot in service.slots}
    slots, intents = sum(one.slots for one in counts), sum(one.intents for one in counts)
    slots_seen, intents_seen = sum(one.slots_seen for one in counts), sum(one.intents_seen for one in counts)
    pairs_seen = sum((slot.name, slot.description) in pairs for service in services for slot in service.slots)
    return {
        "services": len(services),
        "slots": slots,
        "intents": intents,
        "slot_names_seen": _share(slots_seen, slots),
        "intent_names_seen": _share(intents_seen, intents),
        "slots_and_descriptions_seen": _share(pairs_seen, slots),
    }


def as_given(about: About, combinations: Sequence[tuple[Combination, int]]) -> dict[str, Any]:
    """The corpus's own splits: their services, which of them training has, and dialogues by that."""
    of_split: dict[str, dict[tuple[str, ...], dict[str, int]]] = {split: {} for split in about.services}
    for (split, touched, _, what), n in combinations:
        found = of_split[split].setdefault(touched, {"dialogues": 0, "turns": 0})
        found[what] += n
    known = about.listed
    if known is None:
        known = frozenset(service for touched in of_split.get(TRAIN, {}) for service in touched)
    return {split: _as_given(about, split, found, known) for split, found in of_split.items()}


def _as_given(
    about: About, split: str, found: Mapping[tuple[str, ...], Mapping[str, int]], known: frozenset[str]
) -> dict[str, Any]:
    services = about.services[split]
    by_service = {name: sum(of["dialogues"] for touched, of in found.items() if name in touched) for name in services}
    kinds = {"seen": 0, "both": 0, "unseen": 0}
    for touched, of in found.items():
        there = known.intersection(touched)
        kinds["unseen" if not there else "seen" if len(there) == len(touched) else "both"] += of["dialogues"]
    unseen = sorted(name for name in services if name not in known and (about.listed is not None or by_service[name]))
    trained = [service for name, service in about.services[TRAIN].items() if name in known]
    return {
        "dialogues": sum(of["dialogues"] for of in found.values()),
        "turns": sum(of["turns"] for of in found.values()),
        "services": by_service,
        "unseen_services": unseen,
        "dialogues_by_services": kinds,
        "seen": seen([services[name] for name in unseen], trained),
    }


def short(held: Mapping[str, Any]) -> list[str]:
    """What is held out and has nothing to train on or to test on."""
    found = []
    for name, what in ((TEST, "no dialogue to test on"), (TRAIN, "no dialogue left to train on")):
        without = [group for group, one in held.items() if name not in one["sets"]]
        if without:
            found.append(f"{what}: {', '.join(without)}")
    return found


def _share(n: int, of: int) -> float | None:
    return round(n / of, 6) if of else None
