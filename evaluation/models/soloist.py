"""SOLOIST, a language model over steps of dialogues: token ids, training, and folder."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parapet.evaluation.models import saving, systems
from parapet.evaluation.models.configs import SoloistConfig
from parapet.evaluation.models.saving import MODEL, device_of, enough_memory
from parapet.evaluation.models.training import Learner, Rows, bucketed, by_length
from parapet.schemas.dialogue import Action
from parapet.schemas.errors import InputError
from parapet.transforms.core.checkpoints import Checkpoint


class Sequenced(msgspec.Struct, frozen=True):
    """A step as token ids, in the order of the input.

    Attributes:
      history: with the mark before the belief state.
      belief: with the mark at its end.
      database: with the mark before the response.
      response: with the mark at its end, after its acts if these are learned, too; empty if there is none.
    """

    history: list[int]
    belief: list[int]
    database: list[int]
    response: list[int]

    def row(self, limit: int) -> list[int]:
        """Concatenates all tokens; of the history, only the newest ``limit``."""
        return [*self.history[-limit:], *self.belief, *self.database, *self.response]


class Tokens:
    """A tokenizer that knows the marks.

    Args:
      tokenizer: a tokenizer of transformers; missing marks are added.
    """

    def __init__(self, tokenizer: Any) -> None:
        tokenizer.add_special_tokens({"additional_special_tokens": list(systems.MARKS)})
        self.tokenizer = tokenizer
        self.marks: dict[str, int] = {mark: int(tokenizer.convert_tokens_to_ids(mark)) for mark in systems.MARKS}
        self._names = {number: mark for mark, number in self.marks.items()}
        self._known: dict[str, list[int]] = {}

    def learn(self, texts: Iterable[str]) -> None:
        """Tokenizes all new texts at once, and caches them."""
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            rows = self.tokenizer([_clean(text) for text in new], add_special_tokens=False, verbose=False)["input_ids"]
            self._known.update(zip(new, map(list, rows), strict=True))

    def ids(self, parts: Sequence[systems.Part]) -> list[int]:
        """Returns the ids of parts whose texts are cached."""
        return [token for mark, text in parts for token in (self.marks[mark], *self._known[text])]

    def sequences(self, steps: Sequence[systems.Step], acts: bool) -> list[Sequenced]:
        """Encodes each step; with ``acts``, the acts of the response and another mark come before its words."""
        self.learn(
            text
            for step in steps
            for parts in (step.history, step.belief, step.database, step.acts)
            for _, text in parts
        )
        self.learn(step.response for step in steps if step.response is not None)
        return [
            Sequenced(
                [*self.ids(step.history), self.marks[systems.BELIEF]],
                [*self.ids(step.belief), self.marks[systems.DATABASE]],
                [*self.ids(step.database), self.marks[systems.RESPONSE]],
                [] if step.response is None else self._response(step, step.response, acts),
            )
            for step in steps
        ]

    def _response(self, step: systems.Step, text: str, acts: bool) -> list[int]:
        before = [*self.ids(step.acts), self.marks[systems.RESPONSE]] if acts else []
        return [*before, *self._known[text], self.marks[systems.END]]

    def parts(self, ids: Sequence[int]) -> list[systems.Part]:
        """Parses ids to parts, ignoring those before the first mark."""
        parts: list[tuple[str, list[int]]] = []
        for token in ids:
            if token in self._names:
                parts.append((self._names[token], []))
            elif parts:
                parts[-1][1].append(token)
        return [(mark, self.text(part_text)) for mark, part_text in parts]

    def text(self, ids: Sequence[int]) -> str:
        """Decodes ids to a text, without marks."""
        plain = [token for token in ids if token not in self._names]
        return str(self.tokenizer.decode(plain, clean_up_tokenization_spaces=False)).strip()


def _clean(text: str) -> str:
    """Prepares a text for the tokenizer: with a leading space, and without lone surrogates and marks."""
    return f" {text}".encode("utf-8", "replace").decode().replace("<|", "< |")


MODEL_CLASS = "AutoModelForCausalLM"


class Card(saving.Card, frozen=True, kw_only=True):
    """The content of ``model.json``.

    Attributes:
      length: the maximum number of tokens in a history; ``belief`` in a belief state, ``response`` in a response.
      acts: whether the acts come before the response.
    """

    model: str = "soloist"
    format: int = 1
    length: saving.Positive
    belief: saving.Positive
    response: saving.Positive
    acts: bool = False


def check(folder: str) -> tuple[Card, Checkpoint]:
    """Checks a folder, except for the weights. Raises InputError if it has no such model, or a damaged one."""
    card = saving.read_card(folder, Card)
    return card, saving.inside(folder, card.model)


SPARE = 1.25  # the maximum length of outputs, relative to the longest in training


class Net(nn.Module):
    """A language model, with a head that tells whether the parts of a step belong together.

    Args:
      model: a model of transformers.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.matches = nn.Linear(model.config.hidden_size, 1)

    def hidden(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Computes the hidden state of each token; shape (steps, tokens, size)."""
        outputs = self.model.base_model(input_ids=tokens, attention_mask=mask, use_cache=False)
        return torch.as_tensor(outputs.last_hidden_state)

    def logits(self, hidden: Tensor) -> Tensor:
        """Computes the scores of the next tokens."""
        return torch.as_tensor(self.model.get_output_embeddings()(hidden))


class Learned:
    """Steps as rows of token ids, with the positions of what is learned.

    Args:
      steps: the steps.
      limit: the maximum number of tokens in a history; longer ones lose their oldest tokens.
      device: the device of the batches.
    """

    def __init__(self, steps: Sequence[Sequenced], limit: int, device: torch.device) -> None:
        self.rows = Rows([step.row(limit) for step in steps], device)
        lengths = torch.tensor([(len(step.belief), len(step.database), len(step.response)) for step in steps])
        starts = self.rows.lengths[:, None] - lengths.flip(1).cumsum(1).flip(1)
        self.belief, self.database, self.response = starts.to(device).unbind(1)

    def batch(self, ids: Tensor, pad: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns tokens, mask, and whether each token belongs to a belief state or to a response."""
        tokens, mask = self.rows.padded(ids, pad)
        token_ids = ids.to(tokens.device)
        columns = torch.arange(tokens.shape[1], device=tokens.device)
        belief = (columns >= self.belief[token_ids][:, None]) & (columns < self.database[token_ids][:, None])
        return tokens, mask, belief, (columns >= self.response[token_ids][:, None]) & mask.bool()


class SoloistLearner(Learner):
    """The model with its data.

    Args:
      config: the settings of the training.
      checkpoint: the checkpoint to start from.
      train: steps to learn from.
      dev: steps that select the best epoch.

    Attributes:
      card: with the maximum numbers of tokens in a predicted belief state and in a response.

    Raises:
      InputError: the checkpoint cannot be loaded, or has too few positions.
    """

    metric = "beliefs and response tokens right"

    def __init__(
        self, config: SoloistConfig, checkpoint: Checkpoint, train: Sequence[systems.Step], dev: Sequence[systems.Step]
    ) -> None:
        self.config, self.device = config, torch.device(config.device)
        tokenizer, model = saving.load(checkpoint, MODEL_CLASS)
        self.tokens = Tokens(tokenizer)
        # Some models have more embeddings than their tokenizers have tokens.
        model.resize_token_embeddings(max(len(tokenizer), model.config.vocab_size))
        self.net = Net(model).to(self.device)
        self.module = self.net
        rate, decay = config.learning_rate, config.weight_decay
        self.optimiser = torch.optim.AdamW(self.net.parameters(), lr=rate, weight_decay=decay, fused=True)
        self.steps = self.tokens.sequences(train, config.acts)
        parts = [(step.belief, step.database, step.response) for step in self.steps]
        belief, database, response = (int(SPARE * max(map(len, part))) + 1 for part in zip(*parts, strict=True))
        self.card = Card(length=config.max_length, belief=belief, response=response, acts=config.acts)
        # Any history that is read leaves room for the longest belief state with the longest response.
        check_room(config.max_length, belief + database + response, model)
        self.train = self._learned(self.steps, "train")
        self._dev = self._learned(self.tokens.sequences(dev, config.acts), "dev")

    def _learned(self, steps: Sequence[Sequenced], name: str) -> Learned:
        length = self.config.max_length
        if long := sum(len(step.history) > length for step in steps):
            message = "%s: %s turns have more than %d tokens of history: the oldest tokens are cut off"
            logging.warning(message, name, f"{long:,}", length)
        return Learned(steps, length, self.device)

    def batches(self, generator: torch.Generator) -> Iterator[Tensor]:
        """Yields the batches of an epoch."""
        return bucketed(self.train.rows.lengths, self.config.batch_size, generator)

    def loss(self, batch: Tensor) -> Tensor:
        """Computes the mean loss of the tokens of belief states and responses, and that of consistency."""
        tokens, mask, belief, response = self.train.batch(batch, 0)
        hidden = self.net.hidden(tokens, mask)
        kept = (belief | response)[:, 1:]
        # Scores over the whole vocabulary are only computed where they are needed.
        loss = F.cross_entropy(self.net.logits(hidden[:, :-1][kept]).float(), tokens[:, 1:][kept])
        if not self.config.consistency:
            return loss
        ends = hidden[torch.arange(len(tokens), device=self.device), mask.sum(1) - 1]
        return loss + self.config.consistency * self._consistency(batch, ends)

    def _consistency(self, batch: Tensor, ends: Tensor) -> Tensor:
        """Computes the loss of distinguishing steps from copies with another step's belief state, response or both."""
        spoiled = [spoil(self.steps, i) for i in batch.tolist()]
        rows = Rows([step.row(self.config.max_length) for step in spoiled], self.device)
        tokens, mask = rows.padded(torch.arange(len(spoiled)), 0)
        others = self.net.hidden(tokens, mask)[torch.arange(len(tokens), device=self.device), mask.sum(1) - 1]
        truth = torch.cat([torch.ones(len(ends)), torch.zeros(len(others))]).to(self.device)
        return F.binary_cross_entropy_with_logits(self.net.matches(torch.cat([ends, others])).squeeze(1).float(), truth)

    def dev(self) -> float:
        """Averages two shares on dev: correct belief states with greedy decoding, and correct response tokens."""
        beliefs = torch.zeros((), dtype=torch.long, device=self.device)
        right, all_tokens = beliefs.clone(), beliefs.clone()
        for ids in by_length(self._dev.rows.lengths.tolist(), self.config.batch_size):
            tokens, mask, belief, response = self._dev.batch(torch.tensor(ids), 0)
            hidden = self.net.hidden(tokens, mask)[:, :-1]
            kept = (belief | response)[:, 1:]
            good = torch.ones_like(kept)
            good[kept] = self.net.logits(hidden[kept]).argmax(1) == tokens[:, 1:][kept]
            # Greedy decoding is right if each token is the best after the right ones.
            beliefs += (good | ~belief[:, 1:]).all(1).sum()
            right, all_tokens = right + (good & response[:, 1:]).sum(), all_tokens + response[:, 1:].sum()
        return (int(beliefs) / len(self._dev.belief) + int(right) / max(1, int(all_tokens))) / 2

    def files(self) -> dict[str, bytes]:
        """Makes the files of the model's folder."""
        return {MODEL: saving.card_bytes(self.card), **saving.saved(self.tokens.tokenizer, self.net.model)}


def check_room(length: int, rest: int, model: Any) -> None:
    """Raises InputError if a model has too few positions for a history of this length and what follows it."""
    positions = int(model.config.max_position_embeddings)
    if length + rest > positions:
        reason = f"the checkpoint has {positions} positions, and belief states and responses need {rest} of them"
        if rest >= positions:
            raise InputError(f"{reason}: it is too small for these dialogues", "--checkpoint")
        raise InputError(f"{reason}: use {positions - rest} or fewer", "--max_length", str(length))


def spoil(steps: Sequence[Sequenced], number: int) -> Sequenced:
    """Replaces a step's belief state, response or both by another's (Peng et al. 2021, section 3.2), drawn by torch."""
    kind, other = int(torch.randint(3, ())), steps[int(torch.randint(len(steps), ()))]
    step = steps[number]
    if kind != 1:
        step = msgspec.structs.replace(step, belief=other.belief, database=other.database)
    if kind != 0:
        step = msgspec.structs.replace(step, response=other.response)
    return step


DIGITS = 9  # precision of scores; further digits depend on padding


def go_on(model: Any, prompts: Sequence[Sequence[int]], end: int, most: int, batch: int) -> list[list[int]]:
    """Continues each prompt greedily up to the end token, which is left out.

    Prompts are padded on the left, and positions count from their first token, so that a continuation does not depend
    on the rest of the batch.

    Args:
      model: a model of transformers, in double precision.
      prompts: token ids; none is empty.
      end: the end token.
      most: the maximum number of tokens.
      batch: prompts at a time.
    """
    rows = Rows(prompts, next(model.parameters()).device)
    sequences: list[list[int]] = [[] for _ in prompts]
    for ids in by_length(rows.lengths.tolist(), batch):
        tokens, mask = rows.padded(torch.tensor(ids), 0, left=True)
        for i, row in zip(ids, _written(model, tokens, mask, end, most), strict=True):
            sequences[i] = row[: row.index(end)] if end in row else row
    return sequences


def _written(model: Any, tokens: Tensor, mask: Tensor, end: int, most: int) -> list[list[int]]:
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    done = torch.zeros(len(tokens), dtype=torch.bool, device=tokens.device)
    chosen: list[Tensor] = []
    past = None
    for _ in range(most):
        outputs = model.base_model(
            input_ids=tokens, attention_mask=mask, position_ids=positions, past_key_values=past, use_cache=True
        )
        past = outputs.past_key_values
        logits = model.get_output_embeddings()(outputs.last_hidden_state[:, -1])
        token = logits.round(decimals=DIGITS).argmax(1)  # ties by number
        chosen.append(token)
        done |= token == end
        if bool(done.all()):
            break
        tokens, positions = token[:, None], positions[:, -1:] + 1
        mask = torch.cat([mask, mask.new_ones(len(mask), 1)], 1)
    written: list[list[int]] = torch.stack(chosen, 1).tolist()
    return written


class Soloist:
    """A model whose answer to a turn does not depend on the rest of the batch; it computes in double precision.

    Args:
      card: the card of the model.
      model: a model of transformers.
      tokens: its tokenizer.
      database: is queried between belief state and response.
      device: the device to use.
      batch: turns at a time.
    """

    def __init__(
        self, card: Card, model: Any, tokens: Tokens, database: systems.Database, device: torch.device, batch: int
    ) -> None:
        self.card, self.model, self.tokens = card, model.double().to(device).eval(), tokens
        self.database, self.batch = database, batch

    def answers(self, steps: Sequence[systems.Step]) -> list[systems.Reply]:
        """Replies to each turn from its history only."""
        with enough_memory(self.batch), torch.inference_mode():
            return self._answers(steps)

    def _answers(self, steps: Sequence[systems.Step]) -> list[systems.Reply]:
        marks, card = self.tokens.marks, self.card
        self.tokens.learn(text for step in steps for _, text in step.history)
        histories = [[*self.tokens.ids(step.history), marks[systems.BELIEF]] for step in steps]
        prompts = [history[-card.length :] for history in histories]
        written = go_on(self.model, prompts, marks[systems.DATABASE], card.belief, self.batch)
        beliefs = [systems.belief_of(self.tokens.parts(ids)) for ids in written]
        matches = [systems.database_parts(belief, self.database) for belief in beliefs]
        self.tokens.learn(text for parts in matches for _, text in parts)
        # A belief state with many services may leave less room than in training.
        room = int(self.model.config.max_position_embeddings) - card.response
        known = [
            [*prompt, *ids, marks[systems.DATABASE], *self.tokens.ids(parts), marks[systems.RESPONSE]]
            for prompt, ids, parts in zip(prompts, written, matches, strict=True)
        ]
        prompts = [tokens[-room:] for tokens in known]
        responses = go_on(self.model, prompts, marks[systems.END], card.response, self.batch)
        replies = []
        for belief, ids, history, tokens in zip(beliefs, responses, histories, known, strict=True):
            words, acts = self._spoken(ids)
            replies.append(systems.Reply(belief, words, len(history) > card.length or len(tokens) > room, acts))
        return replies

    def _spoken(self, ids: Sequence[int]) -> tuple[str, dict[str, list[Action]] | None]:
        """Parses a response to its words, and to its acts if the model writes them."""
        if not self.card.acts:
            return self.tokens.text(ids), None
        parts = self.tokens.parts(ids)
        return next((text for mark, text in parts if mark == systems.RESPONSE), ""), systems.acts_of(parts)


def load(folder: str, database: systems.Database, device: str, batch: int) -> Soloist:
    """Loads a model, ready to answer.

    Args:
      folder: the folder of the model.
      database: the database to query.
      device: ``auto``, ``cpu`` or ``cuda``.
      batch: turns at a time.

    Raises:
      InputError: the model is missing, of another kind, or damaged.
    """
    card, checkpoint = check(folder)
    tokenizer, model = saving.load(checkpoint, MODEL_CLASS)
    return Soloist(card, model, Tokens(tokenizer), database, device_of(device), batch)
