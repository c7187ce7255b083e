"""Questions to a module as rows of token ids, and the modules: an encoder each, and small heads on it."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
import torch
from torch import Tensor, nn

from parapet.evaluation.models.batching import Pairs, Stretch, Tokens
from parapet.evaluation.models.dst.sgp.rules import FEATURES, KINDS, Exchange, Kind, Schema
from parapet.schemas.errors import InputError

ROOM = 16  # tokens that are left to the dialogue at least


class Batch(msgspec.Struct, frozen=True):
    """Inputs of a module.

    Attributes:
      tokens, mask, types: as BERT takes them; shape (rows, width).
      features: the context feature of each token; shape (rows, width).
      options: the columns of each option's tokens, 0 for none; shape (rows, options, tokens).
      open: where a span may begin and end: the user's tokens and "null"; shape (rows, width).
      null: the column of "null"; shape (rows,).
    """

    tokens: Tensor
    mask: Tensor
    types: Tensor
    features: Tensor
    options: Tensor
    open: Tensor
    null: Tensor

    def to(self, device: torch.device) -> Batch:
        """The same on a device."""
        return Batch(*(getattr(self, name).to(device, non_blocking=True) for name in self.__struct_fields__))


class Texts:
    """Tokens of texts.

    Args:
      tokenizer: of the checkpoint, a fast one.
      utterances: of dialogues.
    """

    def __init__(self, tokenizer: Any, utterances: Iterable[str]) -> None:
        self.tokenizer = tokenizer
        distinct = list(dict.fromkeys(utterances)) or [""]
        encoded = tokenizer(distinct, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        self._utterances = dict(zip(distinct, encoded["input_ids"], strict=True))
        self._offsets = dict(zip(distinct, encoded["offset_mapping"], strict=True))
        self._ids: dict[str, list[int]] = {}

    def utterance(self, text: str) -> list[int]:
        """The ids of an utterance."""
        ids: list[int] = self._utterances[text]
        return ids

    def ids(self, text: str) -> list[int]:
        """The ids of another text."""
        if text not in self._ids:
            self._ids[text] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return self._ids[text]

    def text_of(self, utterance: str, first: int, last: int) -> str:
        """The text of two tokens of an utterance and those between them."""
        offsets = self._offsets[utterance]
        return utterance[offsets[first][0] : offsets[last][1]]

    def tokens_of(self, utterance: str, begin: int, end: int) -> tuple[int, int] | None:
        """The first and the last token of characters of an utterance; None where none has them."""
        found = [i for i, (first, last) in enumerate(self._offsets[utterance]) if first < end and last > begin]
        return (found[0], found[-1]) if found else None


class _Written(msgspec.Struct, frozen=True):
    """A schema as tokens.

    Attributes:
      schema: the texts.
      stretch: its tokens.
      options: (begin, end) of each option, relative to them.
      segment: its token that ends the first segment, relative to them.
    """

    schema: Schema
    stretch: Stretch
    options: list[tuple[int, int]]
    segment: int


class Questions:
    """Questions to a module.

    Args:
      texts: the tokens.
      kind: the module.
      limit: tokens of a row at most.
    """

    def __init__(self, texts: Texts, kind: Kind, limit: int) -> None:
        self.texts, self.kind, self.limit = texts, kind, limit
        self._tokens = Tokens()
        self._contexts: dict[tuple[Exchange, str], Stretch] = {}
        self._schemas: dict[Hashable, _Written] = {}
        self._rows: list[tuple[Stretch, Stretch]] = []
        self._options: list[list[tuple[int, int]]] = []
        self._features, self._spoken, self._segments = array("i"), array("i"), array("i")

    def ask(self, exchange: Exchange, key: Hashable, schema: Callable[[], Schema], feature: int) -> int:
        """Adds a question; gives its number.

        Args:
          exchange: the utterances that the module sees.
          key: identifies the schema.
          schema: gives it.
          feature: the context feature; of "intents" the number of the previous one, from 1, and 0 for none.

        Raises:
          InputError: the schema is so long that no room is left to the dialogue.
        """
        written = self._schemas.get(key)
        if written is None:
            written = self._schemas[key] = self._write(schema())
        self._rows.append((self._context(exchange, written.schema), written.stretch))
        self._options.append(written.options)
        self._features.append(feature)
        self._spoken.append(len(self.texts.utterance(exchange[1])))
        self._segments.append(written.segment)
        return len(self._rows) - 1

    def _context(self, exchange: Exchange, schema: Schema) -> Stretch:
        key = (exchange, schema.context)
        if key not in self._contexts:
            ids, (system, user) = self.texts.ids, exchange
            lead = [*ids(schema.context), self.texts.tokenizer.sep_token_id] if schema.context else []
            said = [*ids("sys :"), *self.texts.utterance(system), *ids("usr :"), *self.texts.utterance(user)]
            self._contexts[key] = self._tokens.add([*lead, *said, *ids(schema.mark)])
        return self._contexts[key]

    def _write(self, schema: Schema) -> _Written:
        end = self.texts.tokenizer.sep_token_id
        written, places = [end], []
        for text in (*schema.head, *schema.options):
            ids = self.texts.ids(text)
            places.append((len(written), len(written) + len(ids)))
            written += [*ids, end]
        if len(written) + ROOM > self.limit:
            reason = f"takes {len(written)} of {self.limit} tokens, which leaves too few to the dialogue: give more"
            raise InputError(reason, "--max_length", " ".join((*schema.head, *schema.options))[:80])
        segment = places[len(schema.head) - 1][0] - 1 if schema.head else 0
        return _Written(schema, self._tokens.add(written), places[len(schema.head) :], segment)

    def __len__(self) -> int:
        return len(self._rows)

    @cached_property
    def pairs(self) -> Pairs:
        """The rows, when all questions are asked."""
        return Pairs(self._tokens, self._rows, self.limit, self.texts.tokenizer.cls_token_id)

    @cached_property
    def _tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Columns of each distinct schema's options, the number of a row's schema, features, the user's tokens, ends.

        The columns are relative to the schema, and so are the ends of the first segments.
        """
        distinct = {id(one): one for one in self._options}
        places = {number: i for i, number in enumerate(distinct)}
        most = max((len(one) for one in distinct.values()), default=0)
        longest = max((end - begin for one in distinct.values() for begin, end in one), default=1)
        options = torch.zeros(len(distinct), most, longest, dtype=torch.long)
        for i, one in enumerate(distinct.values()):
            for j, (begin, end) in enumerate(one):
                options[i, j, : end - begin] = torch.arange(begin, end)
        which = torch.tensor([places[id(one)] for one in self._options], dtype=torch.long)
        rest = (torch.tensor(one, dtype=torch.long) for one in (self._features, self._spoken, self._segments))
        return (options, which, *rest)

    def batch(self, ids: Tensor) -> Batch:
        """Some rows; ``ids`` are their numbers, on the CPU."""
        all_options, which, features, spoken, segments = self._tensors
        tokens, mask = self.pairs.padded(ids, self.texts.tokenizer.pad_token_id)
        behind = self.pairs.lead + self.pairs.stretches[ids]  # where the schema begins
        columns = torch.arange(tokens.shape[1])
        options = all_options[which[ids]]
        options = torch.where(options > 0, options + behind[:, None, None], 0)
        feature = features[ids][:, None].expand_as(tokens)
        if self.kind == "intents":
            previous = options[torch.arange(len(ids)), (features[ids] - 1).clamp(min=0)]
            feature = torch.zeros_like(tokens).scatter_(1, previous, (feature[:, :1] > 0).long().expand_as(previous))
            feature[:, 0] = 0  # where the filling went
        first = self.first(ids)
        user = (columns >= first.clamp(min=self.pairs.lead)[:, None]) & (columns < (first + spoken[ids])[:, None])
        open = (user | (columns == behind[:, None] - 1)) & (self.kind == "combine")
        types = (columns > (behind + segments[ids])[:, None]).long() * mask
        return Batch(tokens, mask, types, feature, options, open, behind - 1)

    def first(self, ids: Tensor) -> Tensor:
        """The columns of the first tokens of the user's utterances; below 1 where these are cut off."""
        marks = len(self.texts.ids("null")) if self.kind == "combine" else 0
        return self.pairs.lead + self.pairs.stretches[ids] - marks - self._tensors[3][ids]


NEVER = -1e9  # the score of what cannot be


class Scores(NamedTuple):
    """What a module says, as logits in single precision.

    Attributes:
      options: of each option; shape (rows, options).
      starts, ends: of each token, as where a value begins and ends; shape (rows, width).
      yes: whether the slot is requested, or a value copied; shape (rows,).
    """

    options: Tensor
    starts: Tensor
    ends: Tensor
    yes: Tensor


class Heads(nn.Module):
    """What a module has beside its encoder.

    Args:
      features: values of the context feature.
      encoder: that of the module.
    """

    def __init__(self, features: int, encoder: Any) -> None:
        super().__init__()
        size = encoder.config.hidden_size
        self.feature = nn.Embedding(features, encoder.get_input_embeddings().embedding_dim)
        self.option = nn.Sequential(nn.Linear(size, size), nn.Tanh(), nn.Linear(size, 1))
        self.span = nn.Linear(size, 2)
        self.yes = nn.Linear(size, 1)
        for name, weights in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(weights)
            else:
                nn.init.normal_(weights, std=encoder.config.initializer_range)

    def forward(self, hidden: Tensor, batch: Batch) -> Scores:
        """The scores; ``hidden`` has shape (rows, width, size)."""
        rows = torch.arange(len(hidden), device=hidden.device)[:, None, None]
        none = batch.options == 0
        largest = hidden[rows, batch.options].masked_fill(none[..., None], NEVER).amax(2)
        absent = none.all(-1)
        options = self.option(largest.masked_fill(absent[..., None], 0.0)).squeeze(-1).float()
        spans = self.span(hidden).float().masked_fill(~batch.open[..., None], NEVER)
        return Scores(
            options.masked_fill(absent, NEVER), spans[..., 0], spans[..., 1], self.yes(hidden[:, 0]).squeeze(-1).float()
        )


class Modules(nn.Module):
    """All four.

    Args:
      encoders: BERT-like, one for each of ``KINDS``.
    """

    def __init__(self, encoders: Sequence[Any]) -> None:
        super().__init__()
        self.encoders = nn.ModuleDict(dict(zip(KINDS, encoders, strict=True)))
        self.heads = nn.ModuleDict({kind: Heads(FEATURES[kind], self.encoders[kind]) for kind in KINDS})
        # RoBERTa has one type of token, DistilBERT none.
        self.typed = getattr(encoders[0].config, "type_vocab_size", 0) > 1

    def forward(self, kind: Kind, batch: Batch) -> Scores:
        """What a module says of a batch."""
        encoder, heads = self.encoders[kind], self.heads[kind]
        types = {"token_type_ids": batch.types} if self.typed else {}
        # As BERT adds its own embeddings: before the normalisation.
        embedded = encoder.get_input_embeddings()(batch.tokens) + heads.feature(batch.features)
        hidden = encoder(inputs_embeds=embedded, attention_mask=batch.mask, **types).last_hidden_state
        scores: Scores = heads(hidden, batch)
        return scores


def best_spans(scores: Scores, batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of each row where the best span begins and ends, the sum of their probabilities, and the lead of that sum.

    "null" is a span of its own.
    """
    width = scores.starts.shape[1]
    columns = torch.arange(width, device=scores.starts.device)
    null = columns == batch.null[:, None]
    fits = (columns[:, None] <= columns) & (null[:, :, None] == null[:, None, :])
    fits = fits & batch.open[:, :, None] & batch.open[:, None, :]
    sums = scores.starts.softmax(1)[:, :, None] + scores.ends.softmax(1)[:, None, :]
    best = sums.masked_fill(~fits, -1.0).flatten(1).topk(min(2, width * width))
    places = best.indices[:, 0]
    return places // width, places % width, best.values[:, 0], best.values[:, 0] - best.values[:, -1]
