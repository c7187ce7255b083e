"""What a tracker must beat: the most frequent value of each slot, and what was said last beside the slot's words.

parapet evaluate --task dst --model parapet.evaluation.models.dst.tiny.baselines:Copy ...
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from parapet.evaluation.dst.frames import State
from parapet.evaluation.dst.model import Example
from parapet.evaluation.models.dst.data import Labelled
from parapet.evaluation.models.dst.tiny.mentions import Said, listed, read
from parapet.evaluation.models.dst.tiny.targets import NO_INTENT
from parapet.evaluation.models.dst.tiny.words import normal, words_of_name, words_of_text
from parapet.schemas.service import Slot

NEAR = 3  # words to each side of a mention


class Majority:
    """Gives each slot the value that slots of its name mostly have in training.

    Args:
      frames: of a training set.
    """

    def __init__(self, frames: Iterable[Labelled]) -> None:
        values: dict[str, Counter[str]] = {}
        self.intents: Counter[str] = Counter()
        for one in frames:
            self.intents[one.state.active_intent] += 1
            for slot in one.asked.service.slots:
                of = one.state.slot_values.get(slot.name) or [""]
                values.setdefault(slot.name, Counter())[of[0]] += 1
        self.values = {slot: counts.most_common(1)[0][0] for slot, counts in values.items()}

    def predict(self, batch: Sequence[Example]) -> list[State]:
        """A state for each example."""
        return [self._state(one) for one in batch]

    def _state(self, asked: Example) -> State:
        there = {slot.name for slot in asked.service.slots}
        found = {slot: [value] for slot, value in self.values.items() if value and slot in there}
        intents = [intent.name for intent in asked.service.intents]
        named = max(intents, key=lambda name: (self.intents[name], -intents.index(name)), default=NO_INTENT)
        return State(named, [], found)


class Copy:
    """Copies to each slot what was said last beside a word of its name or description, by anyone."""

    def predict(self, batch: Sequence[Example]) -> list[State]:
        """A state for each example."""
        return [self._state(one) for one in batch]

    def _state(self, asked: Example) -> State:
        turns = [read(text, speaker == "USER") for speaker, text in asked.history]
        found = {slot.name: value for slot in asked.service.slots if (value := _copied(slot, turns))}
        named = asked.service.intents[0].name if asked.service.intents else NO_INTENT
        return State(named, [], {slot: [value] for slot, value in found.items()})


def _copied(slot: Slot, turns: Sequence[Said]) -> str:
    about = {*words_of_name(slot.name), *words_of_text(slot.description)}
    stems = {tuple(normal(text).split()): text for text in slot.possible_values}
    copied = ""
    for said in turns:
        if slot.is_categorical:
            places = [(first, behind, stems[said.words[first:behind]]) for first, behind in listed(said.words, stems)]
        else:
            places = [(one.first, one.behind, one.text) for one in said.mentions if one.look != "phrase"]
        for first, behind, text in places:
            if about & {*said.words[max(0, first - NEAR) : first], *said.words[behind : behind + NEAR]}:
                copied = text
    return copied
