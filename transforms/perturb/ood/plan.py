"""The plan: which foreign utterance is inserted at which place. Each place gets one of those used least that fit."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import accumulate, count, islice
from typing import Any

import msgspec

from parapet.schemas.dialogue import Dialogue, DialogueFile
from parapet.schemas.errors import InputError
from parapet.transforms.core.counts import Counts
from parapet.transforms.core.seeding import stable_hash
from parapet.transforms.perturb.mixes import size_of
from parapet.transforms.perturb.ood.utterances import Utterance, asks_for_action, user_turns_of

Domains = tuple[str, ...]


class Place(msgspec.Struct, frozen=True, order=True, array_like=True):
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
    domains: Domains


def turns_with_place(dialogue: Dialogue) -> list[int]:
    """Returns the user turns that the system answers and after which the user goes on, where one can interrupt."""
    speakers = [turn.speaker for turn in dialogue.turns]
    return [t for t in user_turns_of(dialogue) if speakers[t + 1 : t + 3] == ["SYSTEM", "USER"]]


def places_of(
    dialogue: Dialogue, file: DialogueFile, position: int, domains: tuple[str, ...], config: Config
) -> list[Place]:
    """Returns the places of a dialogue, given its position in its file and its domains."""
    split, name = file.split, dialogue.dialogue_id
    return [
        Place(stable_hash(config.seed, "place", split, name, str(turn)), split, file.relative, position, turn, domains)
        for turn in turns_with_place(dialogue)
    ]


@cache
def set_name(rate: str) -> str:
    """Returns the name of a set: ``ood-10`` for ``0.1``."""
    return f"ood-{float(100 * Fraction(rate)):g}"


class Config(msgspec.Struct, frozen=True):
    """The options that determine the sets.

    Attributes:
      rates: the rates in ascending order.
      seed: the random seed.
      splits: the splits to write; empty for all.
      own: whether the corpus's own requests are foreign utterances.
    """

    rates: tuple[str, ...]
    seed: str
    splits: tuple[str, ...]
    own: bool = False

    @property
    def sets(self) -> list[str]:
        """Returns the names of the sets."""
        return [set_name(rate) for rate in self.rates]

    def writes(self, split: str) -> bool:
        """Whether the dialogues of a split are written."""
        return not self.splits or split in self.splits


class Injection(msgspec.Struct, frozen=True, order=True, array_like=True):
    """A foreign utterance and its place.

    Attributes:
      dialogue: the dialogue's position in its file.
      turn: the position of the user turn that the place belongs to.
      utterance: the foreign utterance.
      sets: the number of sets, counted from the last, that have it.
    """

    dialogue: int
    turn: int
    utterance: Utterance
    sets: int


Planned = list[tuple[str, Injection]]  # with the path of the dialogue file below the root

MOST_USES = 2  # uses of an utterance above which there is a warning


def plan(
    config: Config, places: Iterable[Place], pool: Iterable[Utterance], turns: Mapping[str, int]
) -> tuple[Planned, Counts]:
    """Chooses the first places of each split, in drawn order, for which there is an utterance that fits.

    The places of a lower rate are the first of those of a higher one, with the same utterances, so that sets are
    nested. No utterance is used in two splits, or twice in a dialogue.

    Args:
      config: the options.
      places: the places of all splits.
      pool: the utterances that may be injected.
      turns: split to its number of in-domain user turns.

    Returns:
      (dialogue file, injection), in order; and for each set how many distinct utterances it has and how often the most
      frequent is used.

    Raises:
      InputError: there are too few places or utterances.
    """
    of_split: dict[str, list[Place]] = {split: [] for split in config.splits}
    for place in sorted(places):
        of_split[place.split].append(place)
    allotted: dict[str, list[Utterance]] = {split: [] for split in config.splits}
    if allotted:  # else the corpus is empty
        for utterance in sorted(pool, key=lambda utterance: stable_hash(config.seed, "foreign", utterance.key)):
            allotted[_split_of(utterance, config, turns)].append(utterance)
    planned, counts = Planned(), Counts()
    for split, of_places in of_split.items():
        sizes = [size_of(rate, turns.get(split, 0)) for rate in config.rates]
        served = list(islice(_served(of_places, allotted[split]), sizes[-1]))
        if len(served) < sizes[-1]:
            raise _too_few(config, split, len(served) / turns[split], len(of_places), len(allotted[split]))
        for rank, (place, utterance) in enumerate(served):
            sets = sum(rank < size for size in sizes)
            planned.append((place.file, Injection(place.dialogue, place.turn, utterance, sets)))
        for name, size in zip(config.sets, sizes, strict=True):
            uses = Counter(utterance for _, utterance in served[:size])
            counts.add("distinct", len(uses), set=name, split=split)
            counts.add("most_uses", max(uses.values(), default=0), set=name, split=split)
            for utterance in uses:
                counts.add("distinct_of_source", set=name, value=utterance.origin)
    return sorted(planned), counts


def _split_of(utterance: Utterance, config: Config, turns: Mapping[str, int]) -> str:
    """Draws the split in which an utterance may be used; larger splits get more."""
    splits = [split for split in config.splits if not utterance.splits or split in utterance.splits]
    ends = list(accumulate(turns.get(split, 0) for split in splits))
    draw = stable_hash(config.seed, "split", utterance.key) % max(1, ends[-1])
    return splits[min(bisect_right(ends, draw), len(splits) - 1)]


def _served(places: Iterable[Place], utterances: Sequence[Utterance]) -> Iterator[tuple[Place, Utterance]]:
    """Serves places in order, each with the next utterance that fits; those for which there is none are passed over."""
    uses: Counter[int] = Counter()
    fitting: dict[Domains, list[int]] = {}
    queues: dict[Domains, Iterator[int]] = {}
    of_dialogues: dict[tuple[str, int], set[int]] = {}
    for place in places:
        if (domains := place.domains) not in queues:
            fitting[domains] = [i for i, one in enumerate(utterances) if {*one.about}.isdisjoint(domains)]
            queues[domains] = _least_used(fitting[domains], uses)
        known = of_dialogues.setdefault((place.file, place.dialogue), set())
        if len(known) < len(fitting[domains]):
            chosen = next(i for i in queues[domains] if i not in known)
            uses[chosen] += 1
            known.add(chosen)
            yield place, utterances[chosen]


def _least_used(fitting: Sequence[int], uses: Mapping[int, int]) -> Iterator[int]:
    for limit in count(1):
        yield from (i for i in fitting if uses[i] < limit)


def _too_few(config: Config, split: str, reached: float, places: int, texts: int) -> InputError:
    rate = int(reached * 1000) / 1000  # rounded down
    advice = f"lower --rates to {rate:g} or less, the highest possible rate" if rate else "no rate is possible"
    split = f" of {split}" if split else ""
    return InputError(
        f"too few places or foreign utterances for {config.sets[-1]}{split} ({places:,} and {texts:,}; no utterance is "
        "used twice in a dialogue, in two splits, or in dialogues of domains that it belongs to or is about): "
        f"{advice}, or use another --source",
        "--rates",
    )


# Each fits whether the user goes on with the task or the dialogue ends: none asks a question or mentions a domain.
_AFTER_ANYTHING = (
    "Sorry, I didn't quite get that. I can only assist you with the task at hand.",
    "I'm not sure I follow. That doesn't seem to be about your request.",
)
_AFTER_QUESTIONS = (
    "Sorry, that is not something I can help you with.",
    "Sorry, I can't do anything about that. Let's keep to your request.",
    "I'm afraid I can't help with that one.",
    "Apologies, I don't have an answer to that.",
    "That's beyond what I know about, I'm afraid.",
    "I wish I could help, but I know nothing about that.",
)
_AFTER_REQUESTS = (
    *_AFTER_QUESTIONS[:3],
    "That is outside of what I can do, sorry.",
    "I'm sorry, I'm not able to do that for you.",
    "Unfortunately, this is not something I was made for.",
    "My apologies, that is something I cannot take care of.",
)
FALLBACKS = tuple(dict.fromkeys((*_AFTER_ANYTHING, *_AFTER_QUESTIONS, *_AFTER_REQUESTS)))
FALLBACK = "[fallback]"  # stands for any of them in a delexicalised response


def fallback_of(seed: str, dialogue_id: str, turn: int, utterance: str) -> str:
    """Returns the system's answer to the utterance that is injected for a dialogue's turn."""
    fitting: tuple[str, ...] = _AFTER_ANYTHING
    if asks_for_action(utterance):
        fitting += _AFTER_REQUESTS
    elif utterance.endswith("?"):
        fitting += _AFTER_QUESTIONS
    return fitting[stable_hash(seed, "fallback", dialogue_id, str(turn)) % len(fitting)]


Row = dict[str, Any]


def injected(raw: dict[str, Any], injections: Sequence[Injection], seed: str) -> tuple[dict[str, Any], list[Row]]:
    """Injects foreign turns, each with a fallback, and keeps the rest (Lee and Shalyminov 2019).

    A foreign turn has the frames of the user turn before it, with the same state and no requested slots: a tracker must
    recognise that nothing has changed. The fallback has no frames.

    Args:
      raw: the dialogue in the format of its file; it is not modified.
      injections: the injections of this dialogue.
      seed: the seed for choosing fallbacks.

    Returns:
      The new dialogue; the rows of its user turns.
    """
    dialogue_id = str(raw["dialogue_id"])
    utterances = {injection.turn + 1: injection.utterance for injection in injections}  # after the system's answer
    turns: list[Any] = []
    rows: list[Row] = []
    frames: list[Any] = []

    def add_row(label: str, utterance: str, **more: object) -> None:
        row = {"dialogue_id": dialogue_id, "turn": len(turns), "original_turn": None, "label": label, "source": None}
        rows.append({**row, "utterance": utterance, "fallback": None, **more})

    for t, turn in enumerate(raw["turns"]):
        if turn["speaker"] == "USER":
            add_row("in_domain", turn["utterance"], original_turn=t)
            frames = turn["frames"]
        turns.append(turn)
        if t in utterances:
            text = utterances[t].text
            fallback = fallback_of(seed, dialogue_id, t - 1, text)
            add_row("ood", text, source=utterances[t].source, fallback=fallback)
            turns.append({"speaker": "USER", "utterance": text, "frames": kept_frames(frames)})
            turns.append({"speaker": "SYSTEM", "utterance": fallback, "frames": []})
    return {**raw, "turns": turns}, rows


def kept_frames(frames: Iterable[Any]) -> list[Any]:
    """Returns frames for a user turn without task content: with the same state and no requested slots."""
    kept = []
    for frame in frames:
        if isinstance(frame.get("state"), dict):  # the official scorer expects a state in each frame
            actions: dict[str, Any] = {"actions": []} if "actions" in frame else {}
            values = {slot: [*values] for slot, values in frame["state"]["slot_values"].items()}
            state = {**frame["state"], "requested_slots": [], "slot_values": values}
            kept.append({"service": frame["service"], "slots": [], **actions, "state": state})
    return kept
