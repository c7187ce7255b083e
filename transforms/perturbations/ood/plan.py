"""Assign foreign utterances to places: each place gets one that fits, and each utterance is used once."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from heapq import merge
from typing import Any

import msgspec

from parapet.schemas.dialogue import Dialogue, DialogueFile
from parapet.schemas.errors import InputError
from parapet.transforms.perturbation.base import size_of
from parapet.transforms.perturbation.corpora import listed
from parapet.transforms.perturbations.ood import PLACES
from parapet.transforms.perturbations.ood.language import Domains
from parapet.transforms.perturbations.ood.pool import Utterance
from parapet.transforms.running.seeding import stable_hash


class Place(msgspec.Struct, frozen=True, order=True):
    """A place in a dialogue where an utterance can be injected; places are sorted by their draw.

    Attributes:
      draw: 64-bit hash of seed, split, dialogue id and turn, the only criterion for choosing places.
      split: the folder of the dialogue's split.
      file: the path of the dialogue file below the root.
      dialogue: the dialogue's position in the file.
      turn: the position of the user turn that the place belongs to.
      domains: the domains of the dialogue.
    """

    draw: int
    split: str
    file: str
    dialogue: int
    turn: int
    domains: tuple[str, ...]


def user_turns_of(dialogue: Dialogue) -> list[int]:
    """Return the positions of user turns."""
    return [t for t, turn in enumerate(dialogue.turns) if turn.speaker == "USER"]


def turns_with_place(dialogue: Dialogue, place: str) -> list[int]:
    """Return the user turns with a place for an injection, after which user and system still alternate.

    Args:
      dialogue: the dialogue.
      place: ``append``: all user turns have a place at the end of the dialogue, if the system has the last word;
        ``between``: a user turn has a place after the system's answer, if the user continues.
    """
    speakers = [turn.speaker for turn in dialogue.turns]
    users = user_turns_of(dialogue)
    if place == "append":
        return users if speakers and speakers[-1] == "SYSTEM" else []
    return [t for t in users if speakers[t + 1 : t + 3] == ["SYSTEM", "USER"]]


def places_of(
    dialogue: Dialogue, file: DialogueFile, position: int, domains: tuple[str, ...], config: Config
) -> list[Place]:
    """Return the places of a dialogue, given its position in its file and its domains."""
    split, name = file.split, dialogue.dialogue_id
    return [
        Place(stable_hash(config.seed, "place", split, name, str(turn)), split, file.relative, position, turn, domains)
        for turn in turns_with_place(dialogue, config.place)
    ]


@cache
def set_name(rate: str) -> str:
    """Return the name of a set: ``ood-10`` for ``0.1``."""
    return f"ood-{float(100 * Fraction(rate)):g}"


# Limits for using an utterance from the corpus or from the small talk again, see ``most_uses``.
MOST_USES = 10
TURNS_A_USE = 25

Kind = tuple[str, tuple[str, ...]]  # the split and the domains of a place's dialogue


class Config(msgspec.Struct, frozen=True):
    """The options that determine the sets.

    Attributes:
      rates: the rates in ascending order.
      place: ``append`` or ``between``.
      seed: the random seed.
      splits: the splits to write; empty for all.
      own: whether the foreign utterances are the corpus's own.
      chat: whether they are Parapet's small talk.
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
        """Return the names of the sets."""
        return [set_name(rate) for rate in self.rates]

    def writes(self, split: str) -> bool:
        """Whether the dialogues of a split are written."""
        return not self.splits or split in self.splits


class Injection(msgspec.Struct, frozen=True, order=True, array_like=True):
    """A foreign utterance and its place.

    Attributes:
      draw: the draw of the place, which orders appended utterances.
      dialogue: the dialogue's position in its file.
      turn: the position of the user turn that the place belongs to.
      utterance: the foreign utterance.
      sets: the number of sets, counted from the last, that have it.
    """

    draw: int
    dialogue: int
    turn: int
    utterance: Utterance
    sets: int


def parse_rates(given: str) -> tuple[str, ...]:
    """Parse ``0.1,0.2`` to rates, ascending. Raises InputError if a rate is invalid or repeated."""
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
    """Return how often an utterance may be injected into a split, by its number of in-domain user turns.

    The utterance is from ``own`` or ``chat``. It may be used once per 25 turns, rounded, but at least once and at most
    ten times.
    """
    return max(1, min((2 * turns + TURNS_A_USE) // (2 * TURNS_A_USE), MOST_USES))


Planned = list[tuple[str, Injection]]  # with the path of the dialogue file below the root


def plan(config: Config, places: Iterable[Place], pool: Iterable[Utterance], turns: Mapping[str, int]) -> Planned:
    """Choose the first places of each split, in drawn order, for which there is an utterance that fits.

    The places of a lower rate are the first of those of a higher one, with the same utterances, so that sets are
    nested. Utterances of a file or plug-in are used once. Others are used again, see :func:`most_uses`, if they belong
    to a single split, all others that fit have been used as often, and the dialogue does not contain them yet.

    Args:
      config: the options.
      places: the places of all splits.
      pool: the utterances that may be injected.
      turns: split to its number of in-domain user turns.

    Returns:
      (dialogue file, injection), in order.

    Raises:
      InputError: there are too few places or utterances.
    """
    of_split: dict[str, list[Place]] = {split: [] for split in config.splits}
    for place in sorted(places):
        of_split[place.split].append(place)
    for split, places_here in of_split.items():
        check_places(config, split, len(places_here), turns.get(split, 0))
    # All splits are served in parallel, so that none uses up what another one needs more.
    ranked = sorted(
        (rank / turns[split], place)
        for split, places_here in of_split.items()
        for rank, place in enumerate(places_here)
    )
    utterances = _copies(config, pool, turns)
    numbers = {split: [size_of(rate, turns.get(split, 0)) for rate in config.rates] for split in config.splits}
    needed = {split: places_here[-1] for split, places_here in numbers.items()}
    served = _served([place for _, place in ranked], utterances, needed)
    served_of = Counter(place.split for place, _ in served)
    if missing := {split: n - served_of[split] for split, n in sorted(needed.items()) if served_of[split] < n}:
        highest = min(served_of[split] / turns[split] for split in missing)
        raise _too_few(config, missing, sum(needed.values()), len({utterance.key for utterance in utterances}), highest)
    ranks: Counter[str] = Counter()
    planned = []
    for place, utterance_here in served:
        sets = sum(ranks[place.split] < count for count in numbers[place.split])
        ranks[place.split] += 1
        planned.append((place.file, Injection(place.draw, place.dialogue, place.turn, utterance_here, sets)))
    return sorted(planned)


def _served(
    places: Iterable[Place], utterances: Sequence[Utterance], needed: Mapping[str, int]
) -> list[tuple[Place, Utterance]]:
    """Serve places in order, as many of each split as needed, each with the first remaining utterance that fits.

    No dialogue gets an utterance twice. Places for which nothing is left are passed over.
    """
    groups: dict[tuple[Domains, Domains], list[int]] = {}  # by splits and domains, on which alone it depends what fits
    for i, utterance in enumerate(utterances):
        groups.setdefault((utterance.splits, utterance.domains + utterance.about), []).append(i)
    candidates: dict[tuple[str, Domains], Iterator[int]] = {}  # by the split and the domains of places
    held: dict[tuple[str, Domains], list[int]] = {}  # candidates that a dialogue could not have twice
    left, used = dict(needed), set[int]()
    of_dialogues: dict[tuple[str, int], set[str]] = {}
    served = []
    for place in places:
        if not left[place.split]:
            continue
        kind = (place.split, place.domains)
        if kind not in candidates:
            candidates[kind] = merge(*(group for of_group, group in groups.items() if _fits(place, *of_group)))
        known = of_dialogues.setdefault((place.file, place.dialogue), set())
        held[kind] = [i for i in held.get(kind, ()) if i not in used]
        chosen = next((i for i in held[kind] if utterances[i].key not in known), None)
        while chosen is None and (candidate := next(candidates[kind], None)) is not None:
            if candidate not in used and utterances[candidate].key in known:
                held[kind].append(candidate)
            elif candidate not in used:
                chosen = candidate
        if chosen is not None:
            used.add(chosen)
            known.add(utterances[chosen].key)
            left[place.split] -= 1
            served.append((place, utterances[chosen]))
    return served


def _copies(config: Config, pool: Iterable[Utterance], turns: Mapping[str, int]) -> list[Utterance]:
    """Return the utterances in drawn order: first all once, then the reusable ones as often as allowed."""
    drawn = sorted(pool, key=lambda one: (stable_hash(config.seed, "foreign", one.key), one))
    uses = [1] * len(drawn)
    if config.again:
        for i, one in enumerate(drawn):
            splits = one.splits or config.splits
            if len(splits) == 1:  # otherwise it might be used in two splits
                uses[i] = most_uses(turns.get(splits[0], 0))
    return [one for n in range(max(uses, default=0)) for one, most in zip(drawn, uses, strict=True) if n < most]


def _fits(place: Place, splits: Domains, domains: Domains) -> bool:
    """Whether an utterance of these splits and domains may be said in the split and shares no domain with it."""
    return (not splits or place.split in splits) and not set(place.domains) & set(domains)


def check_places(config: Config, split: str, there: int, turns: int) -> None:
    """Raise InputError if a split has too few places for the highest rate."""
    needed = size_of(config.rates[-1], turns)
    if there < needed:
        of_split = f" of {split}" if split else ""
        other = PLACES[1 - PLACES.index(config.place)]
        raise InputError(
            f"too few places: the dialogues{of_split} have {there:,} places to {config.place}, but {needed:,} are "
            f"needed; {_highest(there / turns)}, or use --place {other}",
            "--rates",
        )


def _too_few(config: Config, missing: Mapping[str, int], needed: int, texts: int, reached: float) -> InputError:
    """Return the error about places without an utterance.

    Args:
      config: the options.
      missing: split to the number of places without an utterance.
      needed: the number of places needed in all splits.
      texts: the number of distinct utterances.
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
    """Suggest a rate for the largest possible share of user turns, rounded down."""
    rate = int(share * 1000) / 1000
    return (
        f"lower --rates to {rate:g} or less, the highest possible rate"
        if rate
        else "no rate is possible: choose other splits"
    )


# Each fits whether the user goes on with the task or the dialogue ends: none asks a question or mentions a domain.
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
    """Return the system's answer to the utterance that is injected for a dialogue's turn."""
    return FALLBACKS[stable_hash(seed, "fallback", dialogue_id, str(turn)) % len(FALLBACKS)]


Row = dict[str, Any]


def injected(
    raw: dict[str, Any], injections: Sequence[Injection], place: str, seed: str
) -> tuple[dict[str, Any], list[Row]]:
    """Inject foreign turns, each with a fallback, and keep the rest (Lee and Shalyminov 2019).

    A foreign turn has the frames of the user turn before it, with the same state and no requested slots: a tracker must
    recognise that nothing has changed. The fallback has no frames.

    Args:
      raw: the dialogue in the format of its file; it is not modified.
      injections: the injections of this dialogue.
      place: ``append`` or ``between``.
      seed: the seed for choosing fallbacks.

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
    """Return frames for a user turn without task content: with the same state and no requested slots."""
    kept = []
    for frame in frames:
        if isinstance(frame.get("state"), dict):  # the official scorer expects a state in each frame
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
