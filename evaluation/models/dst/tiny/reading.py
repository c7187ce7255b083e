"""What the small tracker computes of a dialogue before it looks at any state.

Each word of the schema looks for the word of the dialogue that is most like it. Equal words match fully, whatever
training had; that "guests" is like "people" is learned."""

from __future__ import annotations

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parapet.evaluation.models.dst.tiny.batch import Batch
from parapet.evaluation.models.dst.tiny.mentions import LOOKS

NEVER = -1e4  # the score of what cannot be; half precision has it too
SPREAD = 0.1  # of new vectors; they have no length, so that it only says how fast they turn


class Words(nn.Module):
    """The vectors of words: of their stems, and of their pieces, so that those never seen have some too.

    Args:
      buckets: of the table.
      size: of a vector.
    """

    def __init__(self, buckets: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.table = nn.EmbeddingBag(buckets, size + 1, mode="mean", include_last_offset=True)
        nn.init.normal_(self.table.weight, std=SPREAD)
        with torch.no_grad():
            self.table.weight[:, size] = 0.0

    def forward(self, rows: tuple[Tensor, Tensor], rare: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The vectors of a vocabulary, of length 1; and how much each word counts beside others.

        Args:
          rows: the table's rows of each word, one behind the other, and where each begins; word 0 is none.
          rare: how likely it is that a word is taken for one that was never seen; None for never.
        """
        found = self.table(*rows)
        vectors, telling = F.normalize(found[:, : self.size], dim=1), found[:, self.size]
        if rare is not None:
            new = torch.rand(len(vectors), device=vectors.device) < rare
            vectors = torch.where(new[:, None], F.normalize(torch.randn_like(vectors), dim=1), vectors)
            telling = telling.masked_fill(new, 0.0)
        there = torch.arange(len(vectors), device=vectors.device) > 0
        return vectors * there[:, None], telling


class Matching(nn.Module):
    """From how alike two words are to how well one meets the other: steeply, from 0 to 1."""

    def __init__(self) -> None:
        super().__init__()
        self.steep, self.middle = nn.Parameter(torch.tensor(8.0)), nn.Parameter(torch.tensor(0.6))

    def forward(self, vectors: Tensor, words: Tensor, tokens: Tensor) -> Tensor:
        """(track, schema word, token): how well each token meets each word.

        Args:
          vectors: of the vocabulary; its word 0 meets none, and is met by none.
          words: of schemas; (track, ...).
          tokens: of dialogues; (track, token).
        """
        flat = words.flatten(1)
        alike = torch.bmm(vectors[flat], vectors[tokens].transpose(1, 2))
        there = (flat > 0)[:, :, None] & (tokens > 0)[:, None]
        return torch.sigmoid(self.steep * (alike - self.middle)) * there


def best(met: Tensor, places: Tensor) -> Tensor:
    """The best of several tokens: (track, word, token) and (track, where, token) to (track, word, where)."""
    flat = places.flatten(1)[:, None].expand(-1, met.shape[1], -1)
    top: Tensor = met.gather(2, flat).unflatten(2, places.shape[1:]).max(3).values
    return top


def shares(words: Tensor, telling: Tensor) -> Tensor:
    """How much each word of a field counts, of sum 1; the words are the last dimension."""
    return telling[words].masked_fill(words == 0, NEVER).softmax(-1)


def weighed(met: Tensor, places: Tensor, weights: Tensor) -> Tensor:
    """How well each field is met at each of several places: (track, element, field, where)."""
    return torch.einsum("befl,beflp->befp", weights, best(met, places).unflatten(1, weights.shape[1:]))


def most(met: Tensor, mask: Tensor) -> Tensor:
    """The most over the sentences of each step: (track, ..., sentence) to (track, ..., step).

    Args:
      met: not below 0.
      mask: (track, step, sentence).
    """
    mask = mask.reshape(mask.shape[0], *[1] * (met.dim() - 2), *mask.shape[1:])
    top: Tensor = (met[..., None, :] * mask).max(-1).values
    return top


def at(met: Tensor, places: Tensor) -> Tensor:
    """(track, slot, field, where) to (track, slot, field, mention), each mention at its place."""
    return met.gather(3, places[:, None, None].expand(-1, *met.shape[1:3], -1))


def against(met: Tensor, there: Tensor) -> Tensor:
    """How much better than the best of the other elements, which are the second dimension.

    Args:
      met: (track, element, ...).
      there: (track, element): what is not filled up.
    """
    if met.shape[1] < 2:
        return met
    there = there.reshape(*there.shape, *[1] * (met.dim() - 2))
    top = met.masked_fill(~there, NEVER).topk(2, 1).values
    others = torch.where(met >= top[:, :1], top[:, 1:2], top[:, :1])
    return met - others.where(others > NEVER / 2, 0.0)


HIDDEN = 32
PAIR = 64  # of a slot and a mention
BAG = 16  # of words as they are said
SAID = 24  # of what a turn says
TURN = SAID + 1  # with whether it accepts something
SLOT_TURN = 12  # features of a slot and a turn
INTENT_TURN = 8
VALUE_TURN = 6
_SIMS, _OF_MENTION, _OF_PAIR, _FLAGS = 12, len(LOOKS) + 6, 4, 6
_LEAST = -10.0  # of the logarithm of a probability


class Read(msgspec.Struct, frozen=True):
    """What was read.

    Attributes:
      batch: from what.
      pairs: (track, slot, mention, feature).
      owners: (track, slot, mention): the logarithm of how likely the mention is that slot's, if it is any's.
      slot_turn: (track, step, slot, feature).
      turn: (track, step, feature).
      accepts: (track, step): the logit of whether the user takes what the system named.
      intent_turn: (track, step, intent, feature).
      value_turn: (track, step, slot, listed value, feature).
      mention_step, mention_user: (track, mention): its step, and whether the user said it.
    """

    batch: Batch
    pairs: Tensor
    owners: Tensor
    slot_turn: Tensor
    turn: Tensor
    accepts: Tensor
    intent_turn: Tensor
    value_turn: Tensor
    mention_step: Tensor
    mention_user: Tensor


class _Turns(msgspec.Struct, frozen=True):
    """Which sentences are of which step, (track, step, sentence); ``closing`` is the last before the user's turn."""

    user: Tensor
    system: Tensor
    closing: Tensor
    asking: Tensor
    asked: Tensor
    numbers: Tensor


def _turns(batch: Batch) -> _Turns:
    numbers = torch.arange(int(batch.steps.max()), device=batch.step.device)
    here = (batch.step[:, None] == numbers[:, None]) & batch.sentence_there[:, None]
    user, last, asks = batch.user[:, None], batch.last[:, None], batch.asks[:, None]
    return _Turns(here & user, here & ~user, here & ~user & last, here & user & asks, here & ~user & asks, numbers)


class Reading(nn.Module):
    """Reads tracks.

    Args:
      buckets: of the tables of embeddings.
      size: of an embedding.
      drop: the share of words that are hidden in training where it is read what is said.
    """

    def __init__(self, buckets: int, size: int, drop: float) -> None:
        super().__init__()
        self.drop = drop
        self.words, self.matching = Words(buckets, size), Matching()
        self.acts = nn.EmbeddingBag(buckets, BAG, mode="sum", include_last_offset=True)
        self.kinds = nn.Embedding(buckets, BAG)
        for table in (self.acts, self.kinds):
            nn.init.normal_(table.weight, std=0.05)
        self.wants = nn.Linear(size, BAG)
        features = 2 * _SIMS + 2 + 2 * BAG + _OF_MENTION + _OF_PAIR
        self.pair = nn.Sequential(nn.Linear(features, PAIR), nn.ReLU(), nn.Dropout(drop / 2))
        self.owner = nn.Linear(PAIR, 1)
        self.pair_out, self.owner_out = nn.Linear(PAIR, HIDDEN), nn.Parameter(torch.zeros(HIDDEN))
        self.said, self.accepts = nn.Linear(2 * BAG + _FLAGS, SAID), nn.Linear(SAID, 1)

    def forward(self, batch: Batch, rows: tuple[Tensor, Tensor], rare: Tensor | None = None) -> Read:
        """Reads some tracks.

        Args:
          batch: of them.
          rows, rare: of the words of its vocabulary, as :class:`Words` takes them.
        """
        vectors, telling = self.words(rows, rare)
        turns = _turns(batch)
        weights = shares(batch.slots, telling)
        met = self.matching(vectors, batch.slots, batch.words)
        by_sentence = weighed(met, batch.sentences, weights)
        mention_step, mention_user = (one.gather(1, batch.sentence) for one in (batch.step, batch.user))
        by_turn = [most(by_sentence, one) for one in (turns.user, turns.closing, turns.system, turns.asking)]
        around = [weighed(met, places, weights) for places in (batch.left, batch.right, batch.own)]
        around += [at(by_sentence, batch.sentence), at(by_turn[1], mention_step), at(by_turn[2], mention_step)]
        sims = torch.stack(around, 4).transpose(2, 3).flatten(3)
        wants = torch.einsum("bsfl,bsflk->bsk", weights, self.wants(vectors)[batch.slots])
        pairs, owners = self._pairs(batch, sims, wants, mention_user)
        turn, accepts = self._said(batch, turns)
        slot_turn = torch.cat([*by_turn, against(torch.cat(by_turn[:2], 2), batch.slot_there)], 2).permute(0, 3, 1, 2)
        return Read(
            batch=batch,
            pairs=pairs,
            owners=owners,
            slot_turn=slot_turn,
            turn=turn,
            accepts=accepts,
            intent_turn=self._intents(batch, turns, vectors, telling),
            value_turn=self._values(batch, turns, vectors),
            mention_step=mention_step,
            mention_user=mention_user,
        )

    def _pairs(self, batch: Batch, sims: Tensor, wants: Tensor, user: Tensor) -> tuple[Tensor, Tensor]:
        """Each slot with each mention: how they go together, and beside the other slots."""
        slots = sims.shape[1]
        kinds = self._shown(self.kinds(batch.beside)).sum(2)
        fits = wants[:, :, None] * kinds[:, None]
        both = torch.cat([sims, fits.sum(3, keepdim=True)], 3)
        of_mention = torch.cat([kinds, _of_mention(batch, user).to(kinds.dtype)], 2)[:, None].expand(-1, slots, -1, -1)
        of_pair = _of_pair(batch, user).to(kinds.dtype)
        features = torch.cat([both, against(both, batch.slot_there), fits, of_mention, of_pair], 3)
        hidden = self.pair(features)
        able = batch.valid & batch.slot_there[:, :, None] & batch.mention_there[:, None]
        scores = self.owner(hidden).squeeze(3).masked_fill(~able, NEVER)
        owners = scores.log_softmax(1).clamp(min=_LEAST)
        return self.pair_out(hidden) + owners[..., None] * self.owner_out, owners

    def _shown(self, of_words: Tensor) -> Tensor:
        """Hides some words."""
        if not self.training or not self.drop:
            return of_words
        return of_words * (torch.rand_like(of_words[..., :1]) >= self.drop) / (1 - self.drop)

    def _said(self, batch: Batch, turns: _Turns) -> tuple[Tensor, Tensor]:
        """What the user says and the system said before, whatever the schema."""
        shown = self._shown(torch.ones_like(batch.acts, dtype=self.acts.weight.dtype)[:, None]).squeeze(1)
        first = turns.numbers.expand(len(batch.steps), -1)
        bags = self.acts(batch.acts, batch.acts_at, shown).reshape(*first.shape, 2 * BAG)
        flags = [turns.asking.any(2), turns.asked.any(2), turns.system.any(2), first == 0, first == 1]
        flags.append(turns.user.sum(2) > 1)
        said = torch.relu(self.said(torch.cat([bags, torch.stack(flags, 2).to(bags.dtype)], 2)))
        accepts = self.accepts(said).squeeze(2)
        return torch.cat([said, torch.tanh(accepts / 2)[..., None]], 2), accepts

    def _intents(self, batch: Batch, turns: _Turns, vectors: Tensor, telling: Tensor) -> Tensor:
        """How well each intent is met in each turn, and beside the others."""
        met = self.matching(vectors, batch.intents, batch.words)
        by_sentence = weighed(met, batch.sentences, shares(batch.intents, telling))
        by_turn = torch.cat([most(by_sentence, one) for one in (turns.user, turns.system)], 2)
        return torch.cat([by_turn, against(by_turn, batch.intent_there)], 2).permute(0, 3, 1, 2)

    def _values(self, batch: Batch, turns: _Turns, vectors: Tensor) -> Tensor:
        """How well each listed value is met in each turn, and beside the slot's others; whether it says yes or no."""
        met = best(self.matching(vectors, batch.values, batch.words), batch.sentences).unflatten(
            1, batch.values.shape[1:]
        )
        words = (batch.values > 0).to(met.dtype)
        by_sentence = (met * words[..., None]).sum(3) / words.sum(3, keepdim=True).clamp(min=1)
        by_turn = torch.stack([most(by_sentence, one) for one in (turns.user, turns.system)], 4)
        top = by_turn.masked_fill(~batch.value_there[..., None, None], 0.0).amax(2, keepdim=True)
        truth = F.one_hot(batch.truth, 3)[..., None, 1:].to(by_turn.dtype).expand_as(by_turn)
        return torch.cat([by_turn, by_turn - top, truth], 4).permute(0, 3, 1, 2, 4)


def _of_mention(batch: Batch, user: Tensor) -> Tensor:
    """(track, mention, feature)."""
    asks = batch.asks.gather(1, batch.sentence)
    size = batch.size.clamp(max=5) / 5
    flags = torch.stack([user, asks, batch.begins, batch.whole, user & batch.whole, size], 2)
    return torch.cat([F.one_hot(batch.look, len(LOOKS)), flags], 2)


def _of_pair(batch: Batch, user: Tensor) -> Tensor:
    """(track, slot, mention, feature): whether the slot lists what is said, and what slot it is."""
    lists = (batch.keys[:, None, :, None] == batch.value_keys[:, :, None]).any(3)
    categorical, some = batch.categorical[:, :, None], batch.value_there.any(2)[:, :, None]
    return torch.stack([lists, categorical.expand_as(lists), some.expand_as(lists), lists & user[:, None]], 3)
