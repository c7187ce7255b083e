"""Assigns foreign utterances to places: each place gets one that fits, and each utterance is used once."""

from __future__ import annotations

import copy
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from heapq import heapify, heappop, heapreplace
from itertools import pairwise
from typing import Any, Generic, TypeVar

import msgspec

from parapet.schemas.dialogue import Dialogue, DialogueFile
from parapet.schemas.errors import InputError, is_unicode
from parapet.transforms.perturbation.base import size_of
from parapet.transforms.perturbation.corpora import listed
from parapet.transforms.perturbations.ood import PLACES
from parapet.transforms.perturbations.ood.pool import Utterance
from parapet.transforms.running.seeding import stable_hash

# What places have in common, and what utterances have: whether they fit depends on nothing else.
P = TypeVar("P", bound=Hashable)
U = TypeVar("U", bound=Hashable)


class Matching(Generic[P, U]):
    """Places served in order, each by the first utterance in order that fits and is left.

    Where none is left, others change theirs to make room: a maximum matching by augmenting paths (Berge 1957), over
    groups of the same kind. Whoever is served stays so.

    Attributes:
      found: for each place the index of its utterance, or None.
    """

    def __init__(self, places: Sequence[P], utterances: Sequence[U], fits: Callable[[P, U], bool]) -> None:
        self.places = places
        self.found: list[int | None] = [None] * len(places)
        self.free: dict[U, deque[int]] = {}
        for i, kind in enumerate(utterances):
            self.free.setdefault(kind, deque()).append(i)
        # kind of utterance -> kind of place -> the places of it that hold one
        self.holders: dict[U, dict[P, list[int]]] = {group: {} for group in self.free}
        self.groups = {kind: [group for group in self.free if fits(kind, group)] for kind in dict.fromkeys(places)}
        # kind of place -> (the first utterance of a kind that fits, its kind's number); what is outdated goes when met
        self._names = list(self.free)
        numbers = {group: n for n, group in enumerate(self._names)}
        self._heads = {
            kind: [(self.free[group][0], numbers[group]) for group in groups] for kind, groups in self.groups.items()
        }
        for heap in self._heads.values():
            heapify(heap)
        self._hopeless: set[P] = set()

    def serve(self, place: int) -> bool:
        """Serves a place, if it can be."""
        kind = self.places[place]
        group = self._first(kind)
        if group is not None:
            self._give(place, group)
        elif kind not in self._hopeless:
            path = self._path(kind)
            if path is not None:  # else there will be none later: whoever is served keeps something
                self._shift(place, path)
        return self.found[place] is not None

    def _first(self, kind: P) -> U | None:
        """The group with the first utterance that fits and is left."""
        heap = self._heads[kind]
        while heap:
            head, number = heap[0]
            left = self.free[self._names[number]]
            if left and left[0] == head:
                return self._names[number]
            if left:
                heapreplace(heap, (left[0], number))
            else:
                heappop(heap)
        return None

    def _give(self, place: int, group: U) -> None:
        self.found[place] = self.free[group].popleft()
        self.holders[group].setdefault(self.places[place], []).append(place)

    def _path(self, kind: P) -> list[tuple[U, P]] | None:
        """Steps (group, kind of a place that leaves it) to a group with something left, which the last one takes."""
        came: dict[U, tuple[U, P] | None] = dict.fromkeys(self.groups[kind])
        seen = {kind}
        queue = deque(came)
        while queue:
            group = queue.popleft()
            for holder, places in self.holders[group].items():
                if places and holder not in seen:
                    seen.add(holder)
                    other = self._first(holder)
                    if other is not None:
                        return self._steps(came, group, [(group, holder), (other, holder)])
                    new = [other for other in self.groups[holder] if other not in came]
                    came.update(dict.fromkeys(new, (group, holder)))
                    queue.extend(new)
        self._hopeless |= seen  # whatever these hold, none of them can have another
        return None

    def _steps(self, came: dict[U, tuple[U, P] | None], group: U, steps: list[tuple[U, P]]) -> list[tuple[U, P]]:
        """The way from the first group to ``group``, then ``steps``."""
        at = came[group]
        while at is not None:
            steps.insert(0, at)
            at = came[at[0]]
        return steps

    def _shift(self, place: int, path: list[tuple[U, P]]) -> None:
        """From the end of the path: a place takes from the next group what it leaves in its own to the one before."""
        for (group, holder), (following, _) in reversed(list(pairwise(path))):
            leaving = self.holders[group][holder].pop()
            left = self.found[leaving]
            self._give(leaving, following)
            if left is not None:
                self.free[group].append(left)
        self._give(place, path[0][0])


class Place(msgspec.Struct, frozen=True, order=True):
    """A place in a dialogue at which an utterance can be injected; places are sorted by their draw.

    Attributes:
      draw: 64 bits, of seed, split, dialogue id and turn; nothing else decides which places are taken.
      split: the folder of the dialogue.
      file: the dialogue file, below the root.
      dialogue: the dialogue's position in the file.
      turn: the position of the user turn that the place belongs to.
      domains: of the dialogue.
    """

    draw: int
    split: str
    file: str
    dialogue: int
    turn: int
    domains: tuple[str, ...]


def user_turns_of(dialogue: Dialogue) -> list[int]:
    """The positions of the user turns."""
    return [t for t, turn in enumerate(dialogue.turns) if turn.speaker == "USER"]


def turns_with_place(dialogue: Dialogue, place: str) -> list[int]:
    """The user turns that have a place; after each, user and system still take turns.

    Args:
      dialogue: the dialogue.
      place: ``append``: a place at the dialogue's end for every user turn, if the system has the last word;
        ``between``: a place after the system's answer to it, if the user goes on after that.
    """
    speakers = [turn.speaker for turn in dialogue.turns]
    users = user_turns_of(dialogue)
    if place == "append":
        return users if speakers and speakers[-1] == "SYSTEM" else []
    return [t for t in users if speakers[t + 1 : t + 3] == ["SYSTEM", "USER"]]


def places_of(
    dialogue: Dialogue, file: DialogueFile, position: int, domains: tuple[str, ...], config: Config
) -> list[Place]:
    """The places of a dialogue, given its position in its file and its domains."""
    split, name = file.split, dialogue.dialogue_id
    return [
        Place(stable_hash(config.seed, "place", split, name, str(turn)), split, file.relative, position, turn, domains)
        for turn in turns_with_place(dialogue, config.place)
    ]


@cache
def set_name(rate: str) -> str:
    """``ood-10`` of ``0.1``."""
    return f"ood-{float(100 * Fraction(rate)):g}"


# How often an utterance of the corpus's own, or of our small talk, may be used, see ``most_uses``.
MOST_USES = 10
TURNS_A_USE = 25

Kind = tuple[str, tuple[str, ...]]  # the split and the domains of a place's dialogue


class Config(msgspec.Struct, frozen=True):
    """How the sets are made.

    Attributes:
      rates: as they were written, ascending.
      place: ``append`` or ``between``.
      seed: the random seed.
      splits: the splits that are written; none: all.
      own: the foreign utterances are the corpus's own.
      chat: they are our own small talk.
    """

    rates: tuple[str, ...]
    place: str
    seed: str
    splits: tuple[str, ...]
    own: bool
    chat: bool = False

    @property
    def again(self) -> bool:
        """Whether an utterance may be used more than once, see :func:`most_uses`."""
        return self.own or self.chat

    @property
    def sets(self) -> list[str]:
        """The names of the sets."""
        return [set_name(rate) for rate in self.rates]

    def writes(self, split: str) -> bool:
        """Whether the dialogues of a split are written."""
        return not self.splits or split in self.splits


class Injection(msgspec.Struct, frozen=True, order=True, array_like=True):
    """A foreign utterance and its place.

    Attributes:
      draw: the place's: the order of those that are appended.
      dialogue: the dialogue's position in its file.
      turn: the position of the user turn that the place belongs to.
      utterance: the foreign utterance.
      sets: how many of the sets, from the last, have it.
    """

    draw: int
    dialogue: int
    turn: int
    utterance: Utterance
    sets: int


def parse_rates(given: str) -> tuple[str, ...]:
    """``0.1,0.2`` as rates, ascending. Raises InputError where one is invalid or repeated."""
    parts = listed(given)
    for part in parts:
        try:
            rate = float(part)
        except ValueError:
            raise InputError(
                f"{part!r} is not a number above 0 and up to 1 (example: 0.1,0.2,0.5)", "--rates"
            ) from None
        if not 0 < rate <= 1:
            raise InputError(f"{part} is not a number above 0 and up to 1 (example: 0.1,0.2,0.5)", "--rates")
    names = {set_name(part) for part in parts}
    if not parts or len(names) < len(parts):
        raise InputError("each rate must appear once (example: 0.1,0.2,0.5)", "--rates")
    return tuple(sorted(parts, key=float))


def most_uses(turns: int) -> int:
    """How often an utterance of ``own`` or ``chat`` may be injected into a split with so many in-domain user turns.

    Once for each 25 of them, rounded; ten times at most, and always once.
    """
    return max(1, min((2 * turns + TURNS_A_USE) // (2 * TURNS_A_USE), MOST_USES))


Planned = list[tuple[str, Injection]]  # with the dialogue file, below the root


def plan(config: Config, places: Iterable[Place], pool: Iterable[Utterance], turns: Mapping[str, int]) -> Planned:
    """Takes the first places of each split in drawn order that something fits, and gives each an utterance.

    The places of a lower rate are the first of those of a higher one, with the same utterances: sets are nested. An
    utterance of a file or plug-in is used once. Another is used again, see :func:`most_uses`, where it
    belongs to one split, all that fit have been used as often, and the dialogue has it not yet.

    Args:
      config: how.
      places: of all splits.
      pool: what may be injected.
      turns: split to the number of in-domain user turns.

    Returns:
      (dialogue file, injection), in order.

    Raises:
      InputError: there are too few places or utterances.
    """
    of_split: dict[str, list[Place]] = {split: [] for split in config.splits}
    for place in sorted(places):
        of_split[place.split].append(place)
    for split, of in of_split.items():
        check_places(config, split, len(of), turns.get(split, 0))
    # All splits side by side: no split takes what another needs more.
    ranked = sorted((rank / turns[split], place) for split, of in of_split.items() for rank, place in enumerate(of))
    utterances = _copies(config, pool, turns)
    numbers = {split: [size_of(rate, turns.get(split, 0)) for rate in config.rates] for split in config.splits}
    needed = {split: of[-1] for split, of in numbers.items()}
    served = _served([place for _, place in ranked], utterances, needed)
    served_of = Counter(place.split for place, _ in served)
    if missing := {split: n - served_of[split] for split, n in sorted(needed.items()) if served_of[split] < n}:
        highest = min(served_of[split] / turns[split] for split in missing)
        raise _too_few(config, missing, sum(needed.values()), len({utterance.key for utterance in utterances}), highest)
    ranks: Counter[str] = Counter()
    planned = []
    for place, one in served:
        sets = sum(ranks[place.split] < count for count in numbers[place.split])
        ranks[place.split] += 1
        planned.append((place.file, Injection(place.draw, place.dialogue, place.turn, one, sets)))
    return sorted(planned)


def _served(
    places: Sequence[Place], utterances: Sequence[Utterance], wanted_of: Mapping[str, int]
) -> list[tuple[Place, Utterance]]:
    """The first places that can be served, as many of each split as are wanted, in order, with their utterances."""
    places = list(places)
    while True:
        matching = Matching(
            [(place.split, place.domains) for place in places],
            [(utterance.splits, utterance.domains + utterance.about) for utterance in utterances],
            _fits,
        )
        left = dict(wanted_of)
        for i, place in enumerate(places):
            if left[place.split] and matching.serve(i):
                left[place.split] -= 1
        chosen = [(place, i) for place, i in zip(places, matching.found, strict=True) if i is not None]
        given = _apart([place for place, _ in chosen], [utterances[i] for _, i in chosen])
        again = {place for (place, _), one in zip(chosen, given, strict=True) if one is None}
        if not again:
            return [(place, one) for (place, _), one in zip(chosen, given, strict=True) if one is not None]
        places = [place for place in places if place not in again]


def _copies(config: Config, pool: Iterable[Utterance], turns: Mapping[str, int]) -> list[Utterance]:
    """The utterances in drawn order, as often as each may be used: all once, then those that may be used again."""
    drawn = sorted(pool, key=lambda one: (stable_hash(config.seed, "foreign", one.key), one))
    uses = [1] * len(drawn)
    if config.again:
        for i, one in enumerate(drawn):
            splits = one.splits or config.splits
            if len(splits) == 1:  # else it might get into two
                uses[i] = most_uses(turns.get(splits[0], 0))
    return [one for n in range(max(uses, default=0)) for one, most in zip(drawn, uses, strict=True) if n < most]


def _apart(places: Sequence[Place], utterances: Sequence[Utterance]) -> list[Utterance | None]:
    """No utterance twice in a dialogue: a place changes with another of its kind; where none will do, it has none."""
    given: list[Utterance | None] = list(utterances)
    had: dict[tuple[str, int], Counter[str]] = {}
    by_kind: dict[Kind, list[int]] = {}
    for i, (place, one) in enumerate(zip(places, utterances, strict=True)):
        by_kind.setdefault((place.split, place.domains), []).append(i)
        had.setdefault((place.file, place.dialogue), Counter())[one.key] += 1
    for i, (place, one) in enumerate(zip(places, utterances, strict=True)):
        here = had[place.file, place.dialogue]
        if given[i] != one or here[one.key] < 2:
            continue
        here[one.key] -= 1
        given[i] = None
        for j in by_kind[place.split, place.domains]:
            other, there = given[j], had[places[j].file, places[j].dialogue]
            if other and there is not here and not here[other.key] and not there[one.key]:
                there[other.key] -= 1
                there[one.key] = here[other.key] = 1
                given[i], given[j] = other, one
                break
    return given


def _fits(place: Kind, utterance: tuple[tuple[str, ...], tuple[str, ...]]) -> bool:
    """Whether the split may have the utterance, and the dialogue shares no domain with it."""
    (split, domains), (splits, others) = place, utterance
    return (not splits or split in splits) and not set(domains) & set(others)


def check_places(config: Config, split: str, there: int, turns: int) -> None:
    """Raises InputError where a split has too few places for the highest rate."""
    needed = size_of(config.rates[-1], turns)
    if there < needed:
        of = f" of {split}" if split else ""
        other = PLACES[1 - PLACES.index(config.place)]
        raise InputError(
            f"too few places: the dialogues{of} have {there:,} places to {config.place}, but {needed:,} are "
            f"needed; {_highest(there / turns)}, or use --place {other}",
            "--rates",
        )


def _too_few(config: Config, missing: Mapping[str, int], needed: int, texts: int, reached: float) -> InputError:
    """The error where places have no utterance.

    Args:
      config: how.
      missing: split to the number of places that have none.
      needed: places of all splits.
      texts: how many different utterances there are.
      reached: the lowest share of user turns that was served.
    """
    splits = " and ".join(f"{n:,} of {split}" if split else f"{n:,}" for split, n in missing.items())
    if config.again:
        rule = (
            f"each is used at most once per {TURNS_A_USE} user turns of its split and at most {MOST_USES} "
            "times in all, and never in dialogues of its own domains or of domains that would understand it"
        )
        rule += ", nor in more than one split" if len(config.splits) > 1 else ""
    else:
        rule = "each is used once, and never in dialogues of domains that it belongs to or is about"
    return InputError(
        f"too few foreign utterances for {config.sets[-1]}: {splits} missing, {needed:,} needed in all "
        f"(there are {texts:,}; {rule}); {_highest(reached)}, or use another --source",
        "--rates",
    )


def _highest(share: float) -> str:
    """The advice, given the share of user turns up to which all is well: rounded down, so that it can be reached."""
    rate = int(share * 1000) / 1000
    return (
        f"lower --rates to {rate:g} or less, the highest possible rate"
        if rate
        else "no rate is possible: choose other splits"
    )


# Each fits where the user goes on with the task, and where the dialogue ends: none asks a question that a user turn
# after it would leave unanswered, none speaks of a domain.
FALLBACKS = (
    "Sorry, that is not something I can help you with.",
    "I'm afraid I can't help with that one.",
    "That is outside of what I can do, sorry.",
    "Apologies, I don't have an answer to that.",
    "Sorry, I didn't quite get that. I can only assist you with the task at hand.",
    "I'm sorry, I'm not able to do that for you.",
    "That's beyond what I know about, I'm afraid.",
    "Unfortunately, this is not something I was made for.",
    "Sorry, I can't do anything about that. Let's keep to your request.",
    "I'm not sure I follow. That doesn't seem to be about your request.",
    "I wish I could help, but I know nothing about that.",
    "My apologies, that is something I cannot take care of.",
)


def fallback_of(seed: str, dialogue_id: str, turn: int) -> str:
    """The answer to the utterance that is injected for a dialogue's turn."""
    return FALLBACKS[stable_hash(seed, "fallback", dialogue_id, str(turn)) % len(FALLBACKS)]


Row = dict[str, Any]


def injected(
    raw: dict[str, Any], injections: Sequence[Injection], place: str, seed: str
) -> tuple[dict[str, Any], list[Row]]:
    """A dialogue with its injections (Lee and Shalyminov 2019: a foreign turn and a fallback, the rest unchanged).

    The foreign turn has the frames of the user turn before it, with the same state and nothing requested: a
    tracker must find that nothing has changed. The system's answer has no frames.

    Args:
      raw: the dialogue as its file has it; it is not modified.
      injections: of this dialogue.
      place: ``append`` or ``between``.
      seed: of the fallbacks.

    Returns:
      The new dialogue; the rows of its user turns.
    """
    dialogue_id = str(raw["dialogue_id"])
    at_end = place == "append"
    last = len(raw["turns"]) - 1
    after: dict[int, list[Injection]] = {}
    for injection in sorted(injections):
        after.setdefault(last if at_end else injection.turn + 1, []).append(injection)
    turns: list[Any] = []
    rows: list[Row] = []
    frames: list[Any] = []
    for t, turn in enumerate(raw["turns"]):
        if turn["speaker"] == "USER":
            rows.append(_row(dialogue_id, len(turns), turn["utterance"], original_turn=t))
            frames = turn["frames"]
        turns.append(turn)
        for injection in after.get(t, ()):
            fallback = fallback_of(seed, dialogue_id, injection.turn)
            text, source = injection.utterance.text, injection.utterance.source
            rows.append(_row(dialogue_id, len(turns), text, source=source, fallback=fallback))
            turns.append({"speaker": "USER", "utterance": text, "frames": kept_frames(frames)})
            turns.append({"speaker": "SYSTEM", "utterance": fallback, "frames": []})
    return {**raw, "turns": turns}, rows


def kept_frames(frames: Iterable[Any]) -> list[Any]:
    """The frames of a user turn that says nothing of the services: the state stays, and nothing is requested."""
    kept = []
    for frame in frames:
        if isinstance(frame.get("state"), dict):  # the official scorer reads the state of each frame there is
            new = {"service": frame["service"], "slots": []}
            if "actions" in frame:
                new["actions"] = []
            kept.append({**new, "state": {**copy.deepcopy(frame["state"]), "requested_slots": []}})
    return kept


def _row(
    dialogue_id: str,
    turn: int,
    utterance: str,
    original_turn: int | None = None,
    source: str | None = None,
    fallback: str | None = None,
) -> Row:
    return {
        "dialogue_id": dialogue_id,
        "turn": turn,
        "original_turn": original_turn,
        "label": "in_domain" if source is None else "ood",
        "source": source,
        "utterance": utterance,
        "fallback": fallback,
    }


def check_unicode(raw: dict[str, Any]) -> InputError | None:
    """Why a table of turns cannot hold a dialogue; None where it can."""
    texts = [raw["dialogue_id"], *(turn["utterance"] for turn in raw["turns"])]
    return (
        None
        if all(map(is_unicode, texts))
        else InputError("not_unicode: the text contains a lone surrogate, which is not valid Unicode")
    )
