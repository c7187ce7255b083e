"""Utterances from templates: beam search, and how likely each candidate is."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import torch
from torch import Tensor

from parapet.evaluation.generation.corpus import Candidate
from parapet.evaluation.models.batching import Rows, by_length
from parapet.evaluation.models.generation.saving import Loaded, inputs_of

DIGITS = 6  # of a score, so that rounding errors make no difference among candidates


class Search(msgspec.Struct, frozen=True):
    """How utterances are searched for.

    Attributes:
      batch_size: templates at a time.
      beams: of the search; 1 takes the most likely token each time.
      candidates: how many of the best to return; 0 for the best alone, without a score.
    """

    batch_size: int
    beams: int
    candidates: int


class Generated(msgspec.Struct, frozen=True):
    """What a model generates for a template.

    Attributes:
      candidates: all different, the most likely first; there is at least one.
      cut: whether the beginning of the template was cut off.
      unfinished: whether the first did not end within the maximum number of tokens.
    """

    candidates: tuple[Candidate, ...]
    cut: bool
    unfinished: bool


class Generator:
    """A model that generates utterances.

    Args:
      loaded: the model.
      search: how.
    """

    def __init__(self, loaded: Loaded, search: Search) -> None:
        from transformers import GenerationConfig

        self.loaded, self.search = loaded, search
        self.t5, config = loaded.t5, loaded.t5.config
        self.device = next(self.t5.parameters()).device
        self.pad, self.end = int(loaded.tokenizer.pad_token_id), int(loaded.tokenizer.eos_token_id)
        start = config.decoder_start_token_id
        # A new one: the checkpoint's own has other beams and lengths.
        self.t5.generation_config = GenerationConfig(
            decoder_start_token_id=self.pad if start is None else start,
            pad_token_id=self.pad,
            eos_token_id=self.end,
            num_beams=search.beams,
            num_return_sequences=max(1, search.candidates),
            max_new_tokens=loaded.card.max_output,
            do_sample=False,
        )

    def generate(self, texts: Sequence[str]) -> list[Generated]:
        """What it generates for each template; equal ones are generated once."""
        different = list(dict.fromkeys(texts))
        rows, cut = inputs_of(self.loaded.tokenizer, different, self.loaded.card.max_input)
        inputs = Rows(rows, self.device)
        found: dict[str, Generated] = {}
        with torch.inference_mode():
            for ids in by_length(inputs.lengths.tolist(), self.search.batch_size):
                for i, (candidates, unfinished) in zip(ids, self._searched(inputs, torch.tensor(ids)), strict=True):
                    found[different[i]] = Generated(candidates, cut[i], unfinished)
        return [found[text] for text in texts]

    def _searched(self, inputs: Rows, batch: Tensor) -> list[tuple[tuple[Candidate, ...], bool]]:
        from transformers.modeling_outputs import BaseModelOutput

        ids, mask = inputs.padded(batch, self.pad)
        hidden = self.t5.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state
        # generate repeats its inputs for each beam, in place.
        tokens = self.t5.generate(encoder_outputs=BaseModelOutput(hidden), attention_mask=mask)
        each = len(tokens) // len(batch)
        scores = self._scores(hidden, mask, tokens, each) if self.search.candidates else [0.0] * len(tokens)
        texts = self.loaded.tokenizer.batch_decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        ended = (tokens[:, 1:] == self.end).any(1).tolist()
        outputs = list(zip((" ".join(text.split()) for text in texts), scores, ended, strict=True))
        return [_ordered(outputs[at : at + each]) for at in range(0, len(outputs), each)]

    def _scores(self, hidden: Tensor, mask: Tensor, tokens: Tensor, each: int) -> list[float]:
        """The mean log-probability of the tokens of each candidate, the end with them."""
        from transformers.modeling_outputs import BaseModelOutput

        found: list[float] = []
        of = torch.arange(len(tokens), device=tokens.device) // each
        for rows in torch.arange(len(tokens), device=tokens.device).split(self.search.batch_size):
            given, wanted = tokens[rows, :-1], tokens[rows, 1:]
            logits = self.t5(
                encoder_outputs=BaseModelOutput(hidden[of[rows]]),
                attention_mask=mask[of[rows]],
                decoder_input_ids=given,
                use_cache=False,
            ).logits
            chosen = logits.gather(2, wanted[..., None]).squeeze(2) - logits.logsumexp(2)
            ends = (wanted == self.end).long()
            counts = ends.cumsum(1) - ends == 0  # the tokens up to the first end
            means = (chosen * counts).sum(1) / counts.sum(1)
            found += [round(one, DIGITS) for one in means.tolist()]
        return found


def _ordered(outputs: Sequence[tuple[str, float, bool]]) -> tuple[tuple[Candidate, ...], bool]:
    """The candidates of one template, the best first, of equals the first in the alphabet; whether it has no end."""
    best: dict[str, tuple[float, bool]] = {}
    for text, score, ended in outputs:
        if text not in best or score > best[text][0]:
            best[text] = score, ended
    order = sorted(best, key=lambda text: (-best[text][0], text))
    return tuple(Candidate(text, best[text][0]) for text in order), not best[order[0]][1]
