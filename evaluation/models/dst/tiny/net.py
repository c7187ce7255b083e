"""The small tracker's net: every slot looks for its value among mentions, listed values, and what it had before."""

from __future__ import annotations

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parapet.evaluation.models.dst.tiny.batch import Batch
from parapet.evaluation.models.dst.tiny.mentions import LOOKS
from parapet.evaluation.models.dst.tiny.reading import (
    HIDDEN,
    INTENT_TURN,
    NEVER,
    SLOT_TURN,
    TURN,
    VALUE_TURN,
    Read,
    Reading,
)
from parapet.evaluation.models.dst.tiny.steps import CARELESS, EMPTY

_PHRASE = LOOKS.index("phrase")
_AGES, _STATE, _INTENT = 7, SLOT_TURN + TURN + 3, INTENT_TURN + TURN + 3


class Scores(msgspec.Struct, frozen=True):
    """What speaks for each option at some steps.

    Attributes:
      fixed: (track, step, slot, option): that the value stays, and that any will do.
      values: (track, step, slot, listed value).
      mentions: (track, step, slot, mention).
      intents: (track, step, intent), the last for none of them.
      requested: (track, step, slot): above 0 where it is asked for.
    """

    fixed: Tensor
    values: Tensor
    mentions: Tensor
    intents: Tensor
    requested: Tensor


class TinyNet(nn.Module):
    """The net.

    Args:
      buckets: of the tables of embeddings.
      size: of an embedding.
      drop: the share of words that are hidden in training where it is read what is said.
    """

    def __init__(self, buckets: int, size: int, drop: float = 0.0) -> None:
        super().__init__()
        self.reading = Reading(buckets, size, drop)
        self.age, self.newer = nn.Linear(_AGES, HIDDEN), nn.Parameter(torch.zeros(HIDDEN))
        self.state, self.mention = nn.Linear(_STATE, HIDDEN), nn.Linear(HIDDEN, 1)
        self.fixed = nn.Sequential(nn.Linear(_STATE, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 2))
        self.value_turn, self.value_state = nn.Linear(VALUE_TURN + 1, HIDDEN), nn.Linear(_STATE, HIDDEN)
        self.value = nn.Linear(HIDDEN, 1)
        self.intent = nn.Sequential(nn.Linear(_INTENT, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))
        self.requested = nn.Sequential(nn.Linear(_STATE, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))

    def read(self, batch: Batch, rows: tuple[Tensor, Tensor], rare: Tensor | None = None) -> Read:
        """All that can be said before the state is known, see :class:`Reading`."""
        read: Read = self.reading(batch, rows, rare)
        return read

    def score(self, read: Read, first: int, before: Tensor, intent_before: Tensor) -> Scores:
        """What speaks for each option at some steps.

        Args:
          read: what was read.
          first: the first step; how many there are, the other arguments tell.
          before: the keys of the values before; (track, step, slot, alternative).
          intent_before: the intent before, the number of intents for none; (track, step).
        """
        steps = slice(first, first + before.shape[1])
        state = _state(read, steps, before)
        return Scores(
            fixed=self.fixed(state),
            values=self._values(read, steps, before, state),
            mentions=self._mentions(read, steps, before, self.state(state)),
            intents=self._intents(read, steps, intent_before),
            requested=self.requested(state).squeeze(3),
        )

    def _values(self, read: Read, steps: slice, before: Tensor, state: Tensor) -> Tensor:
        """Of listed values, which need not be said word by word."""
        batch = read.batch
        now = torch.arange(steps.start, steps.stop, device=before.device)
        now_said = (read.mention_step[:, None] == now[:, None]) & read.mention_user[:, None]
        equal = batch.value_keys[..., None] == batch.keys[:, None, None]
        said = (equal[:, None] & now_said[:, :, None, None]).any(4)
        of_turn = torch.cat([read.value_turn[:, steps], said[..., None].to(state.dtype)], 4)
        hidden = torch.relu(self.value_turn(of_turn) + self.value_state(state)[:, :, :, None])
        stays = (before[:, :, :, None] == batch.value_keys[:, None, :, :, None]).any(4)
        able = (batch.value_there & batch.categorical[:, :, None])[:, None] & ~stays
        return self.value(hidden).squeeze(4).masked_fill(~able, NEVER)

    def _mentions(self, read: Read, steps: slice, before: Tensor, state: Tensor) -> Tensor:
        """Of mentions that were there then; of phrases only the newest. Computed for these alone: they are a few."""
        batch = read.batch
        tracks, count, slots = before.shape[:3]
        now = torch.arange(steps.start, steps.stop, device=before.device)
        age = now[:, None] - read.mention_step[:, None]
        there = batch.mention_there[:, None] & ((age == 0) | ((age > 0) & (batch.look != _PHRASE)[:, None]))
        track, step, mention = there.nonzero(as_tuple=True)
        size = batch.keys.shape[1]
        pairs = read.pairs.transpose(1, 2).flatten(0, 1).index_select(0, track * size + mention)
        states = state.flatten(0, 1).index_select(0, track * count + step)
        ages = self.age(_ages(read, age, before)[track, step, mention])[:, None]
        newer = _newer(read, steps)[track, step, :, mention][..., None] * self.newer
        scores = self.mention(torch.relu(pairs + states + ages + newer)).squeeze(2)
        stays = (before[track, step] == batch.keys[track, mention, None, None]).any(2)
        able = batch.valid[track, :, mention] & ~stays
        found = torch.full((tracks, count, size, slots), NEVER, dtype=scores.dtype, device=scores.device)
        return found.index_put((track, step, mention), scores.masked_fill(~able, NEVER)).transpose(2, 3)

    def _intents(self, read: Read, steps: slice, before: Tensor) -> Tensor:
        of_turn = F.pad(read.intent_turn[:, steps], (0, 0, 0, 1))
        turn = read.turn[:, steps, None].expand(-1, -1, of_turn.shape[2], -1)
        none = of_turn.shape[2] - 1
        number = torch.arange(none + 1, device=before.device).expand(*before.shape, -1)
        stays, had_none = number == before[..., None], (before == none)[..., None].expand_as(number)
        flags = torch.stack([number == none, stays, had_none], 3).to(of_turn.dtype)
        able = F.pad(read.batch.intent_there, (0, 1), value=True)
        return self.intent(torch.cat([of_turn, turn, flags], 3)).squeeze(3).masked_fill(~able[:, None], NEVER)


def _state(read: Read, steps: slice, before: Tensor) -> Tensor:
    """(track, step, slot, feature): the slot in the turn, the turn, what the slot had before."""
    turn = read.turn[:, steps, None].expand(-1, -1, before.shape[2], -1)
    had, careless = (before != EMPTY).any(3), (before == CARELESS).any(3)
    flags = torch.stack([had, careless, read.batch.categorical[:, None].expand_as(had)], 3)
    return torch.cat([read.slot_turn[:, steps], turn, flags.to(turn.dtype)], 3)


def _ages(read: Read, age: Tensor, before: Tensor) -> Tensor:
    """(track, step, mention, feature): who said it how long ago, and whether any slot has it."""
    user = read.mention_user[:, None]
    taken = (before.flatten(2)[..., None] == read.batch.keys[:, None, None]).any(2)
    flags = [(age == 0) & user, (age == 0) & ~user, (age == 1) & ~user, (age > 1) & ~user, (age > 0) & user]
    return torch.stack([*flags, age.clamp(0, 5) / 5, taken], 3).to(read.pairs.dtype)


def _newer(read: Read, steps: slice) -> Tensor:
    """How much the system has named for a slot since a mention; (track, step, slot, mention)."""
    batch = read.batch
    named = (~read.mention_user & batch.mention_there)[:, None] & batch.valid
    at = read.mention_step[:, None].expand(-1, batch.valid.shape[1], -1)
    empty = read.owners.new_zeros(*at.shape[:2], int(batch.steps.max()))
    so_far = empty.scatter_add(2, at, read.owners.exp() * named).cumsum(2)
    now = so_far[:, :, steps].transpose(1, 2)[..., None]
    return (now - so_far.gather(2, at)[:, None]).clamp(0, 2)
