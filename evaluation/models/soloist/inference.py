"""The model at work: first the belief state, then, with what the database has, the response."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import torch
from torch import Tensor

from parapet.evaluation.models import pretrained
from parapet.evaluation.models.batching import Rows, by_length
from parapet.evaluation.models.devices import device_of, enough_memory
from parapet.evaluation.models.saving import MODEL
from parapet.evaluation.models.soloist.net import MODEL_CLASS, Card, Tokens, check
from parapet.evaluation.models.systems import inference
from parapet.evaluation.models.systems.data import (
    BELIEF,
    DATABASE,
    END,
    MARKS,
    RESPONSE,
    Database,
    Reply,
    Step,
    belief_of,
    database_parts,
)
from parapet.transforms.seeding import stable_hash

DIGITS = 9  # what is behind them depends on padding


class Sampling(msgspec.Struct, frozen=True):
    """How a token is chosen.

    Attributes:
      top_p: 0 for the most likely one; else it is drawn among the most likely that together have this probability
        (Holtzman et al. 2020, section 3.1).
      seed: of the draws.
    """

    top_p: float = 0.0
    seed: str = "0"


GREEDY = Sampling()


def go_on(
    model: Any,
    prompts: Sequence[Sequence[int]],
    end: int,
    most: int,
    batch: int,
    sampling: Sampling = GREEDY,
    keys: Sequence[str] = (),
) -> list[list[int]]:
    """What follows each prompt, up to the token that ends it, which is left out.

    Prompts are padded on the left, and positions count from their first token, so that what follows one does not depend
    on the others. What is drawn depends on the seed, the key and the number of the token alone.

    Args:
      model: of transformers, in double precision.
      prompts: token ids; none is empty.
      end: the token that ends.
      most: tokens at most.
      batch: prompts at a time.
      sampling: how tokens are chosen.
      keys: of the prompts, where tokens are drawn.
    """
    device = next(model.parameters()).device
    rows = Rows(prompts, device)
    found: list[list[int]] = [[] for _ in prompts]
    for ids in by_length(rows.lengths.tolist(), batch):
        tokens, mask = rows.padded(torch.tensor(ids), 0, left=True)
        written = _written(model, tokens, mask, end, most, sampling, [keys[i] for i in ids] if sampling.top_p else [])
        for i, row in zip(ids, written, strict=True):
            found[i] = row[: row.index(end)] if end in row else row
    return found


def _written(
    model: Any, tokens: Tensor, mask: Tensor, end: int, most: int, sampling: Sampling, keys: Sequence[str]
) -> list[list[int]]:
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    done = torch.zeros(len(tokens), dtype=torch.bool, device=tokens.device)
    chosen: list[Tensor] = []
    past = None
    for step in range(most):
        told = model.base_model(
            input_ids=tokens, attention_mask=mask, position_ids=positions, past_key_values=past, use_cache=True
        )
        past = told.past_key_values
        logits = model.get_output_embeddings()(told.last_hidden_state[:, -1])
        token = drawn(logits, sampling, [f"{key}\0{step}" for key in keys]) if keys else likeliest(logits)
        chosen.append(token)
        done |= token == end
        if bool(done.all()):
            break
        tokens, positions = token[:, None], positions[:, -1:] + 1
        mask = torch.cat([mask, mask.new_ones(len(mask), 1)], 1)
    written: list[list[int]] = torch.stack(chosen, 1).tolist()
    return written


def likeliest(logits: Tensor) -> Tensor:
    """The most likely token of each row; of equal ones the first."""
    return logits.round(decimals=DIGITS).argmax(1)


def drawn(logits: Tensor, sampling: Sampling, keys: Sequence[str]) -> Tensor:
    """A token of each row, drawn among the most likely ones by a hash of the seed and its key."""
    order = logits.round(decimals=DIGITS).sort(dim=1, descending=True, stable=True)
    probabilities = order.values.softmax(1)
    before = probabilities.cumsum(1) - probabilities
    kept = (probabilities * (before < sampling.top_p)).cumsum(1)
    shares = torch.tensor(
        [stable_hash(sampling.seed, key) / 2**64 for key in keys], dtype=kept.dtype, device=kept.device
    )
    place = (kept <= shares[:, None] * kept[:, -1:]).sum(1, keepdim=True).clamp(max=kept.shape[1] - 1)
    return order.indices.gather(1, place).squeeze(1)


class Soloist:
    """A model whose answer to a turn does not depend on what else is in the batch; it computes in double precision.

    Args:
      card: what is known of it.
      model: of transformers.
      tokens: its tokenizer.
      database: what is looked up between the belief state and the response.
      device: where to compute.
      batch: turns at a time.
      sampling: how the tokens of responses are chosen; those of belief states are the most likely ones.
    """

    def __init__(
        self,
        card: Card,
        model: Any,
        tokens: Tokens,
        database: Database,
        device: torch.device,
        batch: int,
        sampling: Sampling = GREEDY,
    ) -> None:
        self.card, self.model, self.tokens = card, model.double().to(device).eval(), tokens
        self.database, self.batch, self.sampling = database, batch, sampling

    def answers(self, steps: Sequence[Step]) -> list[Reply]:
        """The reply to each turn, from its history alone."""
        with enough_memory(f"lower --batch_size, which is {self.batch}"), torch.inference_mode():
            return self._answers(steps)

    def _answers(self, steps: Sequence[Step]) -> list[Reply]:
        marks, card = self.tokens.marks, self.card
        self.tokens.learn(text for step in steps for _, text in step.history)
        histories = [[*self.tokens.ids(step.history), marks[BELIEF]] for step in steps]
        prompts = [history[-card.length :] for history in histories]
        written = go_on(self.model, prompts, marks[DATABASE], card.belief, self.batch)
        beliefs = [belief_of(self.tokens.parts(ids)) for ids in written]
        matches = [database_parts(belief, self.database) for belief in beliefs]
        self.tokens.learn(text for parts in matches for _, text in parts)
        # A belief state of many services may leave less room than training had.
        room = int(self.model.config.max_position_embeddings) - card.response
        known = [
            [*prompt, *ids, marks[DATABASE], *self.tokens.ids(parts), marks[RESPONSE]]
            for prompt, ids, parts in zip(prompts, written, matches, strict=True)
        ]
        keys = [f"{step.dialogue_id}\0{step.turn}" for step in steps]
        prompts = [tokens[-room:] for tokens in known]
        responses = go_on(self.model, prompts, marks[END], card.response, self.batch, self.sampling, keys)
        return [
            Reply(belief, self.tokens.text(ids), len(history) > card.length or len(tokens) > room)
            for belief, ids, history, tokens in zip(beliefs, responses, histories, known, strict=True)
        ]


def load(folder: str, database: Database, device: str, batch: int, sampling: Sampling) -> Soloist:
    """The model in a folder, ready to answer.

    Args:
      folder: where it is.
      database: what it looks up.
      device: ``auto``, ``cpu`` or ``cuda``.
      batch: turns at a time.
      sampling: how the tokens of responses are chosen.

    Raises:
      InputError: it is not there, of another kind, or damaged.
    """
    card, checkpoint = check(folder)
    tokenizer, model = pretrained.load(checkpoint, MODEL_CLASS)
    lacking = [mark for mark in MARKS if mark not in tokenizer.get_vocab()]
    if lacking or len(tokenizer) > model.config.vocab_size:
        problem = f"lacks {lacking[0]}" if lacking else "has too many tokens"
        raise checkpoint.refused(f"its tokenizer is of another model: it {problem}")
    if card.length + card.belief + card.response > model.config.max_position_embeddings:
        raise checkpoint.refused(f"has fewer positions than {MODEL} beside it says")
    return Soloist(card, model, Tokens(tokenizer), database, device_of(device), batch, sampling)


class Job(inference.Job, frozen=True, kw_only=True):
    """What is predicted.

    Attributes:
      sampling: how the tokens of responses are chosen.
    """

    sampling: Sampling

    def load(self) -> Soloist:
        """The model, with the database of the reference."""
        return load(self.folder, self.database(), self.device, self.batch_size, self.sampling)
