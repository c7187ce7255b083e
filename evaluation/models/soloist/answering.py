"""The model: first the belief state, then, with what the database has, the response; and its folder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from parapet.evaluation.models import pretrained, saving
from parapet.evaluation.models.devices import device_of, enough_memory
from parapet.evaluation.models.saving import MODEL
from parapet.evaluation.models.soloist.decoding import GREEDY, Sampling, go_on
from parapet.evaluation.models.soloist.encoding import Tokens
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
from parapet.schemas.errors import InputError
from parapet.transforms import files
from parapet.transforms.checkpoints import Checkpoint


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


NAME = "soloist"
FORMAT = 1
KINDS = pretrained.BY_MODEL[NAME]
MODEL_CLASS = "AutoModelForCausalLM"


class Card(saving.Card, frozen=True, kw_only=True):
    """What ``model.json`` says.

    Attributes:
      length: tokens of a history at most, ``belief`` of a belief state, ``response`` of a response.
    """

    model: str = NAME
    format: int = FORMAT
    length: int
    belief: int
    response: int


def files_of(card: Card, model: Any, tokenizer: Any) -> dict[str, bytes]:
    """The files of a model's folder."""
    return {MODEL: saving.card_bytes(card), **pretrained.saved(tokenizer, model)}


def check(folder: str) -> tuple[Card, Checkpoint]:
    """Looks at a folder, without its weights. Raises InputError where no such model is there, or it is damaged."""
    card = saving.read_card(folder, NAME, Card, FORMAT)
    if min(card.length, card.belief, card.response) < 1:
        raise InputError("is damaged: its lengths must be 1 or more", files.join(folder, MODEL))
    return card, pretrained.inside(folder, KINDS)


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
