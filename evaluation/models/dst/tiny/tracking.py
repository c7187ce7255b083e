"""The small tracker: step by step, each from the state that was predicted before; and its folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from parapet.evaluation.dst.frames import State
from parapet.evaluation.dst.model import Example
from parapet.evaluation.models import saving
from parapet.evaluation.models.batching import by_length
from parapet.evaluation.models.configs import LARGEST
from parapet.evaluation.models.devices import device_of, enough_memory
from parapet.evaluation.models.dst.tiny.batch import batch_of
from parapet.evaluation.models.dst.tiny.net import TinyNet
from parapet.evaluation.models.dst.tiny.steps import CARELESS, DONTCARE, EMPTY, Reader, Track
from parapet.evaluation.models.dst.tiny.targets import ANY, KEEP, NO_INTENT, grouped, step_of
from parapet.evaluation.models.dst.tiny.words import Lexicon
from parapet.evaluation.models.saving import MODEL
from parapet.schemas.errors import InputError
from parapet.schemas.service import Slot
from parapet.transforms import files

DIGITS = 6  # scores that agree to this many digits are equal, whatever the order of summation


class Tracking:
    """A net that is asked for states.

    Args:
      net: in evaluation mode.
      reader: with the net's number of buckets.
      device: where the net is, or shall be.
    """

    def __init__(self, net: TinyNet, reader: Reader, device: torch.device) -> None:
        self.net, self.reader, self.device = net.to(device), reader, device

    def states(self, asked: Sequence[Example], batch: int) -> list[State]:
        """The states of some examples.

        Args:
          asked: of any dialogues; those of one dialogue and service are read together, where one continues the other.
          batch: dialogues at a time.
        """
        groups = list(grouped(asked))
        tracks = [self.reader.track(asked[of[-1]].service, asked[of[-1]].history) for of in groups]
        found: dict[int, State] = {}
        for ids in by_length([len(one.words) for one in tracks], batch):
            for i, states in zip(ids, self.track([tracks[i] for i in ids]), strict=True):
                found |= {example: states[step_of(asked[example])] for example in groups[i]}
        return [found[i] for i in range(len(asked))]

    def track(self, tracks: Sequence[Track]) -> list[list[State]]:
        """The states of each track after each of its steps."""
        with torch.inference_mode():
            return self._track(tracks)

    def _track(self, tracks: Sequence[Track]) -> list[list[State]]:
        batch = batch_of(tracks, self.device)
        read = self.net.read(batch, rows_of(self.reader.lexicon, batch.vocabulary))
        slots, values = batch.value_keys.shape[1:]
        none = batch.intent_there.shape[1]
        option_keys = torch.cat([batch.value_keys, batch.keys[:, None].expand(-1, slots, -1)], 2)
        keys = torch.full((len(tracks), 1, slots, 1), EMPTY, device=self.device)
        intent = torch.full((len(tracks), 1), none, device=self.device)
        now: list[dict[str, str]] = [{} for _ in tracks]
        states: list[list[State]] = [[] for _ in tracks]
        for step in range(int(batch.steps.max())):
            scores = self.net.score(read, step, keys, intent)
            chosen = first_best(torch.cat([scores.fixed, scores.values, scores.mentions], 3)[:, 0])
            chosen = chosen.masked_fill(~batch.slot_there, KEEP)
            new = option_keys.gather(2, (chosen - 2).clamp(min=0)[..., None]).squeeze(2)
            new = torch.where(chosen == ANY, CARELESS, torch.where(chosen == KEEP, keys[:, 0, :, 0], new))
            keys, intent = new[:, None, :, None], first_best(scores.intents)
            for i, s, option in _nonzero(chosen):
                slot = tracks[i].schema.service.slots[s]
                now[i][slot.name] = text_of(tracks[i], s, option, values)
            requested: list[list[str]] = [[] for _ in tracks]
            for i, s, _ in _nonzero((scores.requested[:, 0] > 0) & batch.slot_there):
                requested[i].append(tracks[i].schema.service.slots[s].name)
            for i, (track, number) in enumerate(zip(tracks, intent[:, 0].tolist(), strict=True)):
                if step < track.steps:
                    named = track.schema.service.intents[number].name if number < none else NO_INTENT
                    states[i].append(State(named, requested[i], {slot: [text] for slot, text in now[i].items()}))
        return states


def text_of(track: Track, slot: int, option: int, values: int) -> str:
    """The value of an option.

    Args:
      track: the dialogue.
      slot: its number.
      option: ``ANY``, a listed value or a mention.
      values: for how many listed values there is room.
    """
    of: Slot = track.schema.service.slots[slot]
    if option == ANY:
        return DONTCARE
    value, mention = option - 2, option - 2 - values
    if mention >= 0 and not of.is_categorical:
        return track.texts[mention]
    if mention >= 0:
        value = track.value_keys[slot].tolist().index(track.keys[mention])
    text: str = of.possible_values[value]
    return text


def rows_of(lexicon: Lexicon, vocabulary: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of some words in the table, one behind the other, and where those of each begin."""
    rows = [lexicon.rows[i] for i in vocabulary.tolist()]
    starts = torch.tensor([0, *(len(row) for row in rows)]).cumsum(0)
    flat = torch.tensor([i for row in rows for i in row], dtype=torch.long)
    return flat.to(vocabulary.device), starts.to(vocabulary.device)


def first_best(scores: Tensor) -> Tensor:
    """The number of the best; of those that are equal the first."""
    return torch.round(scores.double(), decimals=DIGITS).argmax(-1)


def _nonzero(table: Tensor) -> Iterator[tuple[int, int, int]]:
    """(row, column, value) of each entry that is not 0."""
    places = table.nonzero()
    yield from zip(places[:, 0].tolist(), places[:, 1].tolist(), table[tuple(places.T)].tolist(), strict=True)


FORMAT = 1
NAME = "tiny_dst"
BUCKETS = 8192  # of the tables of embeddings


class Card(saving.Card, frozen=True, kw_only=True):
    """What ``model.json`` says.

    Attributes:
      buckets: of the tables of embeddings.
      size: of an embedding.
    """

    model: str = NAME
    format: int = FORMAT
    buckets: int
    size: int


def read_card(folder: str) -> Card:
    """What is in a folder. Raises InputError where no such model is there, or the file is damaged."""
    card = saving.read_card(folder, NAME, Card, FORMAT)
    if not (1 <= card.buckets <= BUCKETS and 1 <= card.size <= LARGEST):  # else any amount of memory could be allocated
        raise InputError("has sizes that no such model has: train it again", files.join(folder, MODEL))
    return card


def check(folder: str) -> None:
    """Looks at a folder. Raises InputError where no such model is there, or it is damaged."""
    load(folder, "cpu", 1)  # it is small


def load(folder: str, device: str, batch: int) -> Tracker:
    """The model in a folder, ready to predict.

    Args:
      folder: as ``parapet train tiny_dst`` wrote it.
      device: ``auto``, ``cpu`` or ``cuda``.
      batch: dialogues at a time.

    Raises:
      InputError: it is not there, of another kind, or damaged.
    """
    card = read_card(folder)
    net = TinyNet(card.buckets, card.size)
    saving.load_weights(net, folder)
    return Tracker(Tracking(net.double().eval(), Reader(card.buckets), device_of(device)), batch)


class Tracker:
    """What ``predict`` asks.

    Args:
      tracking: the net with what it reads by.
      batch: dialogues at a time.
    """

    def __init__(self, tracking: Tracking, batch: int) -> None:
        self.tracking, self.batch = tracking, batch

    def predict(self, batch: Sequence[Example]) -> list[State]:
        """A state for each example, from its history alone: examples of one dialogue are merely read together."""
        with enough_memory(f"lower --batch_size, which is {self.batch}"):
            return self.tracking.states(batch, self.batch)
