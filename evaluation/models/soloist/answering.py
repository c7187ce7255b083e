"""A trained model that is asked: first the belief state, then, with what the database has, the response."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import torch

from parapet.evaluation.models.devices import enough_memory
from parapet.evaluation.models.soloist.data import Step
from parapet.evaluation.models.soloist.database import Database
from parapet.evaluation.models.soloist.decoding import GREEDY, Sampling, go_on
from parapet.evaluation.models.soloist.encoding import Tokens
from parapet.evaluation.models.soloist.parts import BELIEF, DATABASE, END, RESPONSE, Belief, belief_of, database_parts
from parapet.evaluation.models.soloist.saving import Card


class Said(msgspec.Struct, frozen=True):
    """What the model says after a user turn.

    Attributes:
      belief: what it understands; ``response`` what it answers.
      long: whether the history was longer than what it can read, for one of the two.
    """

    belief: Belief
    response: str
    long: bool


class Soloist:
    """A model that says the same whatever else it is asked at the same time; it computes in double precision.

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

    def answers(self, steps: Sequence[Step]) -> list[Said]:
        """An answer to each turn, of which the history is read."""
        with enough_memory(f"lower --batch_size, which is {self.batch}"), torch.inference_mode():
            return self._answers(steps)

    def _answers(self, steps: Sequence[Step]) -> list[Said]:
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
            Said(belief, self.tokens.text(ids), len(history) > card.length or len(tokens) > room)
            for belief, ids, history, tokens in zip(beliefs, responses, histories, known, strict=True)
        ]
