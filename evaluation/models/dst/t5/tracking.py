"""The tracker: prompts as rows of tokens, a greedy answer to each, the states that they make; and its folder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from parapet.evaluation.dst.frames import State
from parapet.evaluation.dst.model import Example
from parapet.evaluation.models import pretrained, saving
from parapet.evaluation.models.devices import check_installed, device_of, enough_memory
from parapet.evaluation.models.dst.pairs import Histories, History, Pairs, Stretch, Tokens
from parapet.evaluation.models.dst.t5.prompts import Answers, Prompt, Prompts, prompts_of, state_of, turn_text
from parapet.evaluation.models.saving import MODEL
from parapet.schemas.errors import InputError
from parapet.transforms import files
from parapet.transforms.checkpoints import Checkpoint


class Questions:
    """What is asked about examples.

    Args:
      tokenizer: of the checkpoint.
      asked: the examples. Those of a dialogue should follow one another, so that their tokens are stored once.
      limit: tokens of a row at most.
      prompts: ``all`` or ``slots``.

    Attributes:
      prompts: of each example.
      pairs: the rows: each prompt of the first example, of the second, and so on.
    """

    def __init__(self, tokenizer: Any, asked: Sequence[Example], limit: int, prompts: Prompts = "all") -> None:
        services = {id(one.service): one.service for one in asked}
        texts = {number: prompts_of(service, prompts) for number, service in services.items()}
        self.prompts: list[list[Prompt]] = [texts[id(one.service)] for one in asked]
        tokens = Tokens()
        dialogues = _dialogues(tokenizer, [one.history for one in asked], tokens)
        schemas = {number: _prompts(tokenizer, of_service, tokens) for number, of_service in texts.items()}
        rows = [
            (dialogue, prompt)
            for one, dialogue in zip(asked, dialogues, strict=True)
            for prompt in schemas[id(one.service)]
        ]
        self.pairs = Pairs(tokens, rows, limit)


def encoded(tokenizer: Any, texts: Iterable[str]) -> dict[str, list[int]]:
    """The token ids of texts, without special ones; each text once."""
    distinct = list(dict.fromkeys(texts))
    if not distinct:
        return {}
    return dict(zip(distinct, tokenizer(distinct, add_special_tokens=False, verbose=False)["input_ids"], strict=True))


def _dialogues(tokenizer: Any, histories: Sequence[History], tokens: Tokens) -> list[Stretch]:
    """The place of each history's tokens."""
    ids = encoded(tokenizer, (turn_text(*turn) for history in histories for turn in history))
    known = Histories(tokens, lambda turn: ids[turn_text(*turn)])
    turns = [known.add(history) for history in histories]
    return [Stretch(of[0].start, of[-1].end) for of in turns]


def _prompts(tokenizer: Any, prompts: Sequence[Prompt], tokens: Tokens) -> list[Stretch]:
    ids = encoded(tokenizer, (prompt.text for prompt in prompts))
    return [tokens.add([*ids[prompt.text], tokenizer.eos_token_id]) for prompt in prompts]


class T5Tracker:
    """A model ready to predict.

    Args:
      tokenizer: of the checkpoint.
      t5: the checkpoint, on its device.
      card: how it was trained.
      batch: prompts at a time.
    """

    def __init__(self, tokenizer: Any, t5: Any, card: Card, batch: int) -> None:
        self.tokenizer, self.t5, self.card, self.batch = tokenizer, t5, card, batch
        start = t5.config.decoder_start_token_id
        self.start = tokenizer.pad_token_id if start is None else start

    def predict(self, batch: Sequence[Example]) -> list[State]:
        """The state of each example."""
        return self.tracked(batch)[0]

    def tracked(self, batch: Sequence[Example]) -> tuple[list[State], int]:
        """The state of each example; and how many prompts were too long, so that their dialogue was cut off."""
        if not batch:
            return [], 0
        questions = Questions(self.tokenizer, batch, self.card.length, self.card.prompts)
        pairs = questions.pairs

        def decide(numbers: Sequence[int]) -> list[tuple[list[int], float]]:
            tokens, mask = pairs.padded(torch.tensor(numbers), self.tokenizer.pad_token_id)
            return self.greedy(tokens.to(self.t5.device), mask.to(self.t5.device))

        with torch.inference_mode(), enough_memory(f"lower --batch_size, which is {self.batch}"):
            found = pairs.decisions(self.batch, decide)
        texts = self.tokenizer.batch_decode(found, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        answers = iter(texts)
        states = [
            state_of(one.service, [(prompt, next(answers)) for prompt in prompts], self.card.answers)
            for one, prompts in zip(batch, questions.prompts, strict=True)
        ]
        return states, pairs.cut

    def greedy(self, tokens: Tensor, mask: Tensor) -> list[tuple[list[int], float]]:
        """The most likely token after token: the answers' tokens, and by how much the closest choice was won.

        Args:
          tokens: of the inputs, padded; shape (prompts, width).
          mask: 1 where there is a token.
        """
        end = self.tokenizer.eos_token_id
        encoded = self.t5.get_encoder()(input_ids=tokens, attention_mask=mask)
        last = torch.full((len(tokens), 1), self.start, device=tokens.device)
        done = torch.zeros(len(tokens), dtype=torch.bool, device=tokens.device)
        margins = torch.full((len(tokens),), torch.inf, device=tokens.device)
        answers, cache = [], None
        for _ in range(self.card.answer):
            out = self.t5(
                encoder_outputs=encoded,
                attention_mask=mask,
                decoder_input_ids=last,
                past_key_values=cache,
                use_cache=True,
            )
            cache = out.past_key_values
            # Checkpoints have rows for more tokens than their tokenizer knows.
            best = out.logits[:, -1, : len(self.tokenizer)].float().topk(2)
            margin = best.values[:, 0] - best.values[:, 1]
            margins = torch.where(done, margins, torch.minimum(margins, margin))
            last = best.indices[:, :1].masked_fill(done[:, None], end)
            answers.append(last)
            done |= last[:, 0] == end
            if bool(done.all()):
                break
        return list(zip(torch.cat(answers, 1).tolist(), margins.tolist(), strict=True))


NAME = "t5dst"
FORMAT = 1
KINDS = pretrained.BY_MODEL[NAME]


class Card(saving.Card, frozen=True, kw_only=True):
    """What ``model.json`` says.

    Attributes:
      length: tokens of an input at most.
      answer: tokens of an answer at most.
      prompts: whether intents and requested slots are asked for, too.
      answers: how those that are no possible value are understood.
    """

    model: str = NAME
    format: int = FORMAT
    length: int
    answer: int
    prompts: Prompts = "all"
    answers: Answers = "nearest"


def check(folder: str) -> tuple[Card, Checkpoint]:
    """Looks at a folder, without its weights. Raises InputError where no model of this kind is in it."""
    check_installed("transformers", "sentencepiece")
    card = saving.read_card(folder, NAME, Card, FORMAT)
    if card.length < 1 or card.answer < 1:
        raise InputError("is damaged: its lengths must be 1 or more", files.join(folder, MODEL))
    return card, pretrained.inside(folder, KINDS)


def load(folder: str, device: str, batch: int) -> T5Tracker:
    """The model in a folder, ready to predict.

    Args:
      folder: as ``parapet train t5dst`` wrote it.
      device: ``auto``, ``cpu`` or ``cuda``.
      batch: prompts at a time.

    Raises:
      InputError: it is not there, of another kind, or damaged.
    """
    card, checkpoint = check(folder)
    tokenizer, t5 = pretrained.load(checkpoint, "AutoModelForSeq2SeqLM")
    return T5Tracker(tokenizer, t5.to(device_of(device)), card, batch)
