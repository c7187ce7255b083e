"""Predicts: one greedy answer to each prompt, and the states that they make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from parapet.evaluation.dst.frames import State
from parapet.evaluation.dst.model import Example
from parapet.evaluation.models.devices import enough_memory
from parapet.evaluation.models.dst.t5.encoding import Questions
from parapet.evaluation.models.dst.t5.prompts import state_of


class T5Tracker:
    """A model ready to predict.

    Args:
      tokenizer: of the checkpoint.
      t5: the checkpoint, on its device.
      length: tokens of an input at most.
      answer: tokens of an answer at most.
      batch: prompts at a time.
    """

    def __init__(self, tokenizer: Any, t5: Any, length: int, answer: int, batch: int) -> None:
        self.tokenizer, self.t5 = tokenizer, t5
        self.length, self.answer, self.batch = length, answer, batch
        start = t5.config.decoder_start_token_id
        self.start = tokenizer.pad_token_id if start is None else start

    def predict(self, batch: Sequence[Example]) -> list[State]:
        """The state of each example."""
        return self.tracked(batch)[0]

    def tracked(self, batch: Sequence[Example]) -> tuple[list[State], int]:
        """The state of each example; and how many prompts were too long, so that the dialogue was cut off."""
        if not batch:
            return [], 0
        questions = Questions(self.tokenizer, batch, self.length)
        pairs = questions.pairs

        def decide(numbers: Sequence[int]) -> list[tuple[list[int], float]]:
            tokens, mask = pairs.padded(torch.tensor(numbers), self.tokenizer.pad_token_id)
            return self.greedy(tokens.to(self.t5.device), mask.to(self.t5.device))

        with torch.inference_mode(), enough_memory(f"lower --batch_size, which is {self.batch}"):
            found = pairs.decisions(self.batch, decide)
        texts = self.tokenizer.batch_decode(found, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        answers = iter(texts)
        states = [
            state_of(one.service, [(prompt, next(answers)) for prompt in prompts])
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
        for _ in range(self.answer):
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
