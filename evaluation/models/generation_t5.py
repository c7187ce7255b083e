"""A T5 for system utterances: fine-tuned, or frozen with trained prefixes (Li and Liang 2021); and its folder.

Each of the three kinds of attention has its own prefixes and MLP (Chen, Lin and Byrne 2023, Appendix E): an embedding
for each position of the prefix, and two layers with tanh in between that output the keys and values of all layers of
the T5. We read the paper's "two hidden dimensions being 512 and 384" as the embedding and the layer after it, since
this yields the paper's 7.7M parameters, 68.2M with T5-small (7,702,656 and 68,209,280).

T5's encoder accepts no past keys. The prefixes are therefore added where attention is computed, by a function
registered in transformers. There, every layer has its keys, including cached ones, and its position bias. A prefix has
no position, so its bias is 0; the positions of the other keys do not change.
"""

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parapet.evaluation.generation.corpus import NONE, Candidate, Templates
from parapet.evaluation.models import generation, saving, training
from parapet.evaluation.models.configs import GenerationConfig
from parapet.evaluation.models.saving import MODEL, WEIGHTS, longest
from parapet.schemas.errors import InputError
from parapet.transforms.core import checkpoints
from parapet.transforms.core.checkpoints import Checkpoint, digest

Kind = Literal["encoder", "decoder", "cross"]


KINDS: tuple[Kind, ...] = ("encoder", "decoder", "cross")


_NAME = "parapet_prefixes"  # the name of the attention function


def shapes_of(t5: Any, length: int) -> dict[Kind, tuple[int, ...]]:
    """Returns the shape of the prefixes of each kind: layers, keys and values, heads, positions, size of a key."""
    config = t5.config
    layers = config.num_layers, config.num_decoder_layers, config.num_decoder_layers
    return {kind: (n, 2, config.num_heads, length, config.d_kv) for kind, n in zip(KINDS, layers, strict=True)}


class Prefixes(nn.Module):
    """The MLPs of the prefixes.

    Args:
      shapes: from :func:`shapes_of`.
      embedding: the size of the embeddings.
      hidden: the size of the MLPs' hidden layer.
    """

    def __init__(self, shapes: Mapping[Kind, tuple[int, ...]], embedding: int, hidden: int) -> None:
        super().__init__()
        self.shapes = shapes
        self.embeddings = nn.ModuleDict({kind: nn.Embedding(shape[3], embedding) for kind, shape in shapes.items()})
        self.nets = nn.ModuleDict(
            {
                kind: nn.Sequential(
                    nn.Linear(embedding, hidden), nn.Tanh(), nn.Linear(hidden, math.prod(shape) // shape[3])
                )
                for kind, shape in shapes.items()
            }
        )

    def forward(self) -> dict[str, Tensor]:
        """Computes the prefixes of each kind."""
        states: dict[str, Tensor] = {}
        for kind, (layers, two, heads, length, width) in self.shapes.items():
            flat = self.nets[kind](self.embeddings[kind].weight)
            states[kind] = flat.view(length, layers, two, heads, width).permute(1, 2, 3, 0, 4)
        return states


class Held:
    """The prefixes that a T5 currently attends to, by kind; a missing kind has no prefix."""

    def __init__(self) -> None:
        self.of: Mapping[str, Tensor] = {}


def attach(t5: Any) -> Held:
    """Makes a T5 attend to the prefixes in the returned object; its weights do not change."""
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_ATTENTION_FUNCTIONS.register(_NAME, _attend)
    ALL_MASK_ATTENTION_FUNCTIONS.register(_NAME, _mask)
    held = Held()
    for kind, layer, attention in _attentions(t5):
        attention.prefixed = held, kind, layer  # neither a tensor nor a module, so it is not part of the model's state
    t5.set_attn_implementation(_NAME)
    return held


def _attentions(t5: Any) -> Iterator[tuple[Kind, int, Any]]:
    for layer, block in enumerate(t5.encoder.block):
        yield "encoder", layer, block.layer[0].SelfAttention
    for layer, block in enumerate(t5.decoder.block):
        yield "decoder", layer, block.layer[0].SelfAttention
        yield "cross", layer, block.layer[1].EncDecAttention


def _mask(**given: Any) -> Tensor | None:
    """Makes the boolean mask of the keys that a query may see; None for all. A causal mask is always explicit."""
    from transformers.masking_utils import sdpa_mask

    tensor: Tensor | None = sdpa_mask(**{**given, "allow_is_causal_skip": False})
    return tensor


def _attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    position_bias: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Computes attention to the prefix and the keys; all of shape (examples, heads, positions, width)."""
    held, kind, layer = module.prefixed
    assert position_bias is not None
    bias = position_bias.to(query.dtype)
    if attention_mask is not None:
        bias = torch.where(attention_mask, bias, torch.finfo(query.dtype).min)
    if kind in held.of:
        keys, values = held.of[kind][layer].to(query.dtype).expand(len(query), -1, -1, -1, -1).unbind(1)
        key, value = torch.cat([keys, key], 2), torch.cat([values, value], 2)
        bias = F.pad(bias, (keys.shape[2], 0))
    attended = F.scaled_dot_product_attention(query, key, value, bias.contiguous(), dropout, scale=scaling)
    return attended.transpose(1, 2).contiguous(), None


def tokenized(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """Tokenizes texts, each with the end token."""
    rows: list[list[int]] = tokenizer(list(texts), truncation=False)["input_ids"] if texts else []
    return rows


class Card(saving.Card, frozen=True, kw_only=True):
    """The content of ``model.json``.

    Attributes:
      checkpoint: the digest of the initial checkpoint.
      max_input: the maximum number of tokens in an input.
      max_output: the maximum number of tokens in an utterance.
      prefix: the number of positions in the prefixes; 0 for a fine-tuned model.
      templates: the user's templates, from which its inputs were made: service to key to sentence.
    """

    format: int = 2  # 1 had the acts in their original order
    checkpoint: str
    max_input: int
    max_output: int
    prefix: int = 0
    templates: Mapping[str, Mapping[str, str]] = {}


def check(folder: str, model: str, checkpoint: str | None) -> tuple[Card, Checkpoint]:
    """Checks a model's folder, except for the weights; also returns the T5 to load.

    Args:
      folder: the folder that ``parapet train`` wrote.
      model: the name of the model.
      checkpoint: the folder of the T5 that the prefixes belong to; None for a fine-tuned model, which has its own.

    Raises:
      InputError: the model is missing, of another kind, or for another checkpoint.
    """
    card = saving.read_card(folder, Card, model)
    if not card.prefix:
        return card, saving.inside(folder, model)
    if checkpoint is None:
        reason = "the model consists of prefixes only: give the folder of the T5 that they were trained with"
        raise InputError(reason, "--checkpoint")
    trained_with = checkpoints.inspect(checkpoint, saving.BY_MODEL[model], "--checkpoint")
    if digest(checkpoint) != card.checkpoint:
        reason = f"is not the T5 that the prefixes were trained with, which has the digest {card.checkpoint}"
        raise trained_with.refused(reason)
    return card, trained_with


def load_t5(checkpoint: Checkpoint) -> tuple[Any, Any]:
    """Loads the tokenizer and the T5 of a checkpoint. Raises InputError if they cannot be loaded or do not fit."""
    tokenizer, t5 = saving.load(checkpoint, "AutoModelForSeq2SeqLM")
    if tokenizer.pad_token_id is None or tokenizer("a")["input_ids"][-1:] != [tokenizer.eos_token_id]:
        raise checkpoint.refused("its tokenizer has no padding token, or does not append its end token to a text")
    if len(tokenizer) > t5.config.vocab_size:
        known = f"the model knows only {t5.config.vocab_size:,} of them"
        raise checkpoint.refused(f"its tokenizer has {len(tokenizer):,} tokens, but {known}")
    return tokenizer, t5


NO_TOKEN = -100  # padding of utterances: the label that transformers leaves out of the loss


PREFIX_TUNED = "pt_t5"


class GenerationLearner(training.Learner):
    """A T5, or prefixes for one, with its data.

    Args:
      config: the settings of the training.
      checkpoint: the T5.
      train, dev: system turns.
      templates: the user's templates, for the card.

    Raises:
      InputError: the checkpoint cannot be loaded.
    """

    metric = "mean token probability"

    def __init__(
        self,
        config: GenerationConfig,
        checkpoint: Checkpoint,
        train: Sequence[generation.Example],
        dev: Sequence[generation.Example],
        templates: Templates = NONE,
    ) -> None:
        self.tokenizer, t5 = load_t5(checkpoint)
        longest(self.tokenizer, t5, config.max_input, "--max_input")
        device = torch.device(config.device)
        self.config, self.checkpoint, self.templates = config, checkpoint, templates
        self.device, self.t5 = device, t5.to(device)
        self.pad = int(self.tokenizer.pad_token_id)
        self.train, self._dev = self._encoded(train, "train"), self._encoded(dev, "dev")
        self.prefixes: Prefixes | None = None
        self.module: nn.Module = self.t5
        if config.model == PREFIX_TUNED:
            t5.requires_grad_(False)
            self.held = attach(t5)
            shapes = shapes_of(t5, config.prefix_length)
            self.prefixes = Prefixes(shapes, config.prefix_embedding, config.prefix_size).to(device)
            self.module = self.prefixes
        # One kernel for all parameters, with the same results as a loop.
        self.optimiser = torch.optim.AdamW(self.module.parameters(), lr=config.learning_rate, fused=True)

    def _encoded(self, examples: Sequence[generation.Example], name: str) -> tuple[training.Rows, training.Rows]:
        inputs = tokenized(self.tokenizer, [example.text for example in examples])
        targets = tokenized(self.tokenizer, [example.said for example in examples])
        of_input, of_output = self.config.max_input, self.config.max_output
        for rows, text_kind, flag, most, side in (
            (inputs, "templates", "max_input", of_input, "the beginning"),
            (targets, "utterances", "max_output", of_output, "the end"),
        ):
            if n := sum(len(row) > most for row in rows):
                message = "%s: %s %s are longer than --%s, %d tokens: %s is cut off"
                logging.warning(message, name, f"{n:,} of {len(rows):,}", text_kind, flag, most, side)
        return (
            training.Rows([row[-of_input:] for row in inputs], self.device),
            training.Rows([row[:of_output] for row in targets], self.device),
        )

    def batches(self, generator: torch.Generator) -> Iterator[Tensor]:
        """Yields the batches of an epoch."""
        inputs, targets = self.train
        yield from training.bucketed(inputs.lengths + targets.lengths, self.config.batch_size, generator)

    def loss(self, batch: Tensor) -> Tensor:
        """Computes the mean loss of the tokens."""
        return self._loss(self.train, batch)

    def _loss(self, of: tuple[training.Rows, training.Rows], batch: Tensor) -> Tensor:
        ids, mask = of[0].padded(batch, self.pad)
        labels, _ = of[1].padded(batch, NO_TOKEN)
        if self.prefixes is not None:
            if self.t5.training != self.prefixes.training:  # a frozen T5 also uses dropout in training
                self.t5.train(self.prefixes.training)
            self.held.of = self.prefixes()
        loss: Tensor = self.t5(input_ids=ids, attention_mask=mask, labels=labels, use_cache=False).loss
        return loss

    def dev(self) -> float:
        """Computes the geometric mean of the tokens' probabilities on dev: one over the perplexity."""
        inputs, targets = self._dev
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        for ids in training.by_length((inputs.lengths + targets.lengths).tolist(), self.config.batch_size):
            batch = torch.tensor(ids)
            total += self._loss(self._dev, batch).double() * int(targets.lengths[batch].sum())
        return math.exp(-float(total) / int(targets.lengths.sum()))

    def files(self) -> dict[str, bytes]:
        """Makes the files of the model's folder."""
        card = Card(
            model=self.config.model,
            checkpoint=digest(self.checkpoint.path),
            max_input=self.config.max_input,
            max_output=self.config.max_output,
            prefix=self.config.prefix_length,
            templates=self.templates,
        )
        if self.prefixes is None:
            return {MODEL: saving.card_bytes(card), **saving.saved(self.tokenizer, self.t5)}
        with torch.inference_mode():  # saves the keys and values, without the MLPs that compute them
            return {MODEL: saving.card_bytes(card), WEIGHTS: saving.weights_bytes(self.prefixes())}


DIGITS = 6  # precision of scores, so that rounding errors do not reorder candidates


class Generator:
    """A model that generates utterances.

    Args:
      card: the card of the model.
      tokenizer, t5: the model, in double precision and evaluation mode.
      search: the settings of the search.
    """

    def __init__(self, card: Card, tokenizer: Any, t5: Any, search: generation.Search) -> None:
        from transformers import GenerationConfig

        self.card, self.tokenizer, self.t5, self.search = card, tokenizer, t5, search
        self.device = next(t5.parameters()).device
        self.pad, self.end = int(tokenizer.pad_token_id), int(tokenizer.eos_token_id)
        start = t5.config.decoder_start_token_id
        # A new configuration, as the checkpoint's may have other beams and lengths.
        self.t5.generation_config = GenerationConfig(
            decoder_start_token_id=self.pad if start is None else start,
            pad_token_id=self.pad,
            eos_token_id=self.end,
            num_beams=search.beams,
            num_return_sequences=max(1, search.candidates),
            max_new_tokens=card.max_output,
            do_sample=False,
        )

    def generate(self, texts: Sequence[str]) -> list[generation.Generated]:
        """Generates utterances for each template; equal templates are generated once."""
        different = list(dict.fromkeys(texts))
        rows, most = tokenized(self.tokenizer, different), self.card.max_input
        inputs = training.Rows([row[-most:] for row in rows], self.device)
        generated: dict[str, generation.Generated] = {}
        with torch.inference_mode():
            for ids in training.by_length(inputs.lengths.tolist(), self.search.batch_size):
                for i, (candidates, unfinished) in zip(ids, self._searched(inputs, torch.tensor(ids)), strict=True):
                    generated[different[i]] = generation.Generated(candidates, len(rows[i]) > most, unfinished)
        return [generated[text] for text in texts]

    def _searched(self, inputs: training.Rows, batch: Tensor) -> list[tuple[tuple[Candidate, ...], bool]]:
        from transformers.modeling_outputs import BaseModelOutput

        ids, mask = inputs.padded(batch, self.pad)
        hidden = self.t5.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state
        # generate repeats its inputs for each beam, in place.
        tokens = self.t5.generate(encoder_outputs=BaseModelOutput(hidden), attention_mask=mask)
        each = len(tokens) // len(batch)
        scores = self._scores(hidden, mask, tokens, each) if self.search.candidates else [0.0] * len(tokens)
        texts = self.tokenizer.batch_decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        ended = (tokens[:, 1:] == self.end).any(1).tolist()
        outputs = list(zip((" ".join(text.split()) for text in texts), scores, ended, strict=True))
        return [_ordered(outputs[at : at + each]) for at in range(0, len(outputs), each)]

    def _scores(self, hidden: Tensor, mask: Tensor, tokens: Tensor, each: int) -> list[float]:
        """Computes the mean log-probability of the tokens of each candidate, including the end token."""
        from transformers.modeling_outputs import BaseModelOutput

        scores: list[float] = []
        owners = torch.arange(len(tokens), device=tokens.device) // each
        for rows in torch.arange(len(tokens), device=tokens.device).split(self.search.batch_size):
            logits_kept, wanted = tokens[rows, :-1], tokens[rows, 1:]
            logits = self.t5(
                encoder_outputs=BaseModelOutput(hidden[owners[rows]]),
                attention_mask=mask[owners[rows]],
                decoder_input_ids=logits_kept,
                use_cache=False,
            ).logits
            chosen = logits.gather(2, wanted[..., None]).squeeze(2) - logits.logsumexp(2)
            ends = (wanted == self.end).long()
            counts = ends.cumsum(1) - ends == 0  # the tokens up to the first end token
            means = (chosen * counts).sum(1) / counts.sum(1)
            scores += [round(mean, DIGITS) for mean in means.tolist()]
        return scores


def _ordered(outputs: Sequence[tuple[str, float, bool]]) -> tuple[tuple[Candidate, ...], bool]:
    """Orders a template's candidates by score, then alphabetically; also returns whether the first has no end."""
    best: dict[str, tuple[float, bool]] = {}
    for text, score, ended in outputs:
        if text not in best or score > best[text][0]:
            best[text] = score, ended
    order = sorted(best, key=lambda text: (-best[text][0], text))
    return tuple(Candidate(text, best[text][0]) for text in order), not best[order[0]][1]


def load(folder: str, model: str, checkpoint: str | None, device: torch.device, search: generation.Search) -> Generator:
    """Loads a model; in double precision, so that the most likely output does not depend on rounding.

    Args:
      folder, model, checkpoint: see :func:`check`.
      device: the device to use.
      search: the settings of the search.

    Raises:
      InputError: see :func:`check`; or the model is damaged.
    """
    card, whole = check(folder, model, checkpoint)
    tokenizer, t5 = load_t5(whole)
    t5 = t5.double().to(device)
    if card.prefix:
        prefixes = nn.ParameterDict({kind: torch.empty(shape) for kind, shape in shapes_of(t5, card.prefix).items()})
        saving.load_weights(prefixes, folder)
        attach(t5).of = dict(prefixes.double().to(device))
    return Generator(card, tokenizer, t5, search)
