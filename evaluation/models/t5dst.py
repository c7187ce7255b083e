"""A T5 that is prompted for one slot at a time (Lee, Cheng and Ostendorf 2021, "Schema-Driven Prompting", section 3).

    [USER] I want to eat [SYSTEM] Where? [domain] Restaurants_1 finds tables [slot] city where it is [PVs] Rome, Paris

The paper has prompts for slots only, ``slots``. With ``all``, there are similar prompts for the active intent and the
requested slots.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec
import torch
from rapidfuzz.distance import Indel
from torch import Tensor

from parapet.evaluation.dst.frames import State
from parapet.evaluation.dst.model import Example
from parapet.evaluation.models import saving
from parapet.evaluation.models.configs import T5DstConfig
from parapet.evaluation.models.dst import Labelled, Tracker, some
from parapet.evaluation.models.training import History, Pairs, Rows, Stretch, Tokens, TrackerLearner, bucketed
from parapet.schemas.service import Service, Slot
from parapet.transforms.core.checkpoints import Checkpoint
from parapet.transforms.core.seeding import stable_hash

NONE = "NONE"


DONTCARE = "dontcare"


CLOSE = 0.75  # least similarity of an answer to a name or value that it stands for


Kind = Literal["slot", "intent", "requested"]


Prompts = Literal["all", "slots"]


Answers = Literal["nearest", "raw"]  # the treatment of an answer that is not a possible value of its slot


class Prompt(msgspec.Struct, frozen=True):
    """A question about a service.

    Attributes:
      text: the text after the dialogue.
      slot: the slot, for kind ``slot``.
    """

    kind: Kind
    text: str
    slot: Slot | None = None


def turn_text(speaker: str, utterance: str) -> str:
    """Formats a turn for the model."""
    return f" [{speaker}] {utterance}"


def prompts_of(service: Service, prompts: Prompts = "all") -> list[Prompt]:
    """Makes the prompts of a service: its slots in order, and with ``all`` active intent and requested slots."""
    domain = f" [domain] {service.service_name} {service.description}"
    slot_prompts = [Prompt("slot", domain + _slot(slot), slot) for slot in service.slots]
    if prompts == "slots":
        return slot_prompts
    intents = ", ".join(f"{intent.name} {intent.description}" for intent in service.intents)
    names = ", ".join(slot.name for slot in service.slots)
    return [
        *slot_prompts,
        Prompt("intent", f"{domain} [intent] {intents}"),
        Prompt("requested", f"{domain} [requested] {names}"),
    ]


def _slot(slot: Slot) -> str:
    values = f" [PVs] {', '.join(slot.possible_values)}" if slot.is_categorical else ""
    return f" [slot] {slot.name} {slot.description}{values}"


def target(
    prompt: Prompt, service: Service, state: State, history: Sequence[tuple[str, str]], seed: str | None = None
) -> str:
    """Returns the right answer.

    Args:
      prompt: the question.
      service: the service.
      state: the right state.
      history: (speaker, utterance) so far.
      seed: draws one of a slot's equivalent values, as Lee, Cheng and Ostendorf do; without a seed, it is the value
        that was mentioned last, or the first value of a categorical slot.
    """
    if prompt.kind == "intent":
        return state.active_intent or NONE
    if prompt.kind == "requested":
        requested = set(state.requested_slots)
        return ", ".join(slot.name for slot in service.slots if slot.name in requested) or NONE
    assert prompt.slot is not None
    values = state.slot_values.get(prompt.slot.name) or [NONE]
    if len(values) > 1 and seed is not None:
        place = (service.service_name, prompt.slot.name, *(utterance for _, utterance in history))
        return values[stable_hash(seed, "value", *place) % len(values)]
    return values[0] if prompt.slot.is_categorical or len(values) == 1 else said_last(values, history)


def said_last(values: Sequence[str], history: Sequence[tuple[str, str]]) -> str:
    """Returns the equivalent value that was mentioned last; the first of several, or if none was mentioned."""
    wanted = [value.casefold() for value in values]
    for _, utterance in reversed(history):
        lowered = utterance.casefold()
        positions = [lowered.rfind(value) for value in wanted]
        if max(positions) >= 0:
            return values[positions.index(max(positions))]
    return values[0]


def state_of(service: Service, answers: Iterable[tuple[Prompt, str]], read: Answers = "nearest") -> State:
    """Makes a state from answers. Without prompts for them, it has no intent and no requested slots.

    Args:
      service: the service.
      answers: (prompt, answer).
      read: see :func:`value_of`.
    """
    state = State(NONE, [], {})
    for prompt, answer in answers:
        answer = " ".join(answer.split())
        if prompt.kind == "intent":
            state.active_intent = nearest(answer, [NONE, *(intent.name for intent in service.intents)]) or NONE
        elif prompt.kind == "requested" and answer not in ("", NONE):
            names = [slot.name for slot in service.slots]
            nearest_names = {nearest(part.strip(), names) for part in answer.split(",")}
            state.requested_slots = [name for name in names if name in nearest_names]
        elif prompt.slot is not None:
            value = value_of(answer, prompt.slot, read)
            if value:
                state.slot_values[prompt.slot.name] = [value]
    return state


def value_of(answer: str, slot: Slot, read: Answers = "nearest") -> str:
    """Returns the value that an answer stands for; empty for none.

    Args:
      answer: the model's answer.
      slot: the slot.
      read: for a categorical slot, ``raw`` accepts any answer, ``nearest`` takes the most similar possible value.
    """
    if answer in ("", NONE):
        return ""
    if not slot.is_categorical or read == "raw":
        return answer
    nearest_value = nearest(answer, [*slot.possible_values, DONTCARE, NONE])
    return "" if nearest_value == NONE else nearest_value


def nearest(answer: str, choices: Sequence[str]) -> str:
    """Returns the choice that an answer stands for: itself, or the most similar one if it is close; ties by position.

    Args:
      answer: the model's answer.
      choices: the possible answers.

    Returns:
      Empty if none is close.
    """
    if answer in choices:
        return answer
    small = answer.casefold()
    scores = [Indel.normalized_similarity(small, choice.casefold()) for choice in choices]
    best = max(scores, default=0.0)
    return choices[scores.index(best)] if best >= CLOSE else ""


class Questions:
    """The prompts for examples.

    Args:
      tokenizer: the tokenizer of the checkpoint.
      asked: the examples.
      limit: the maximum number of tokens in a row.
      prompts: ``all`` or ``slots``.

    Attributes:
      prompts: the prompts of each example.
      pairs: the rows: each prompt of the first example, of the second, and so on.
    """

    def __init__(self, tokenizer: Any, asked: Sequence[Example], limit: int, prompts: Prompts = "all") -> None:
        services = {id(example.service): example.service for example in asked}
        texts = {number: prompts_of(service, prompts) for number, service in services.items()}
        self.prompts: list[list[Prompt]] = [texts[id(example.service)] for example in asked]
        tokens = Tokens()
        dialogues = _dialogues(tokenizer, (example.history for example in asked), tokens)
        schemas = {number: _prompts(tokenizer, of_service, tokens) for number, of_service in texts.items()}
        rows = [(dialogues[example.history], prompt) for example in asked for prompt in schemas[id(example.service)]]
        self.pairs = Pairs(tokens, rows, limit)


def encoded(tokenizer: Any, texts: Iterable[str]) -> dict[str, list[int]]:
    """Tokenizes texts without special tokens, each distinct text once."""
    distinct = list(dict.fromkeys(texts))
    if not distinct:
        return {}
    return dict(zip(distinct, tokenizer(distinct, add_special_tokens=False, verbose=False)["input_ids"], strict=True))


def _dialogues(tokenizer: Any, histories: Iterable[History], tokens: Tokens) -> dict[History, Stretch]:
    """Stores the tokens of histories; returns their positions."""
    distinct = list(dict.fromkeys(histories))
    ids = encoded(tokenizer, (turn_text(*turn) for history in distinct for turn in history))
    return {history: tokens.add(token for turn in history for token in ids[turn_text(*turn)]) for history in distinct}


def _prompts(tokenizer: Any, prompts: Sequence[Prompt], tokens: Tokens) -> list[Stretch]:
    ids = encoded(tokenizer, (prompt.text for prompt in prompts))
    return [tokens.add([*ids[prompt.text], tokenizer.eos_token_id]) for prompt in prompts]


class T5Tracker(Tracker):
    """A model that is ready to predict.

    Args:
      tokenizer: the tokenizer of the checkpoint.
      t5: the checkpoint, on its device.
      card: the settings of the training.
      batch: prompts at a time.
    """

    def __init__(self, tokenizer: Any, t5: Any, card: Card, batch: int) -> None:
        self.tokenizer, self.t5, self.card, self.batch = tokenizer, t5, card, batch
        start = t5.config.decoder_start_token_id
        self.start = tokenizer.pad_token_id if start is None else start

    def tracked(self, batch: Sequence[Example]) -> tuple[list[State], int]:
        """Predicts the state of each example; also returns the number of prompts with a dialogue that was cut."""
        if not batch:
            return [], 0
        questions = Questions(self.tokenizer, batch, self.card.length, self.card.prompts)
        pairs = questions.pairs

        def decide(numbers: Sequence[int]) -> list[tuple[list[int], float]]:
            tokens, mask = pairs.padded(torch.tensor(numbers), self.tokenizer.pad_token_id)
            return self.greedy(tokens.to(self.t5.device), mask.to(self.t5.device))

        with torch.inference_mode(), saving.enough_memory(self.batch):
            decisions = pairs.decisions(self.batch, decide)
        texts = self.tokenizer.batch_decode(decisions, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        answers = iter(texts)
        return [
            state_of(question.service, [(prompt, next(answers)) for prompt in prompts], self.card.answers)
            for question, prompts in zip(batch, questions.prompts, strict=True)
        ], pairs.cut

    def greedy(self, tokens: Tensor, mask: Tensor) -> list[tuple[list[int], float]]:
        """Decodes greedily: returns the tokens of the answers, and the margin of the closest choice.

        Args:
          tokens: the inputs, padded; shape (prompts, width).
          mask: 1 for tokens, 0 for padding.
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
            # Checkpoints may have more rows than their tokenizer has tokens.
            best = out.logits[:, -1, : len(self.tokenizer)].float().topk(2)
            margin = best.values[:, 0] - best.values[:, 1]
            margins = torch.where(done, margins, torch.minimum(margins, margin))
            last = best.indices[:, :1].masked_fill(done[:, None], end)
            answers.append(last)
            done |= last[:, 0] == end
            if bool(done.all()):
                break
        return list(zip(torch.cat(answers, 1).tolist(), margins.tolist(), strict=True))


class Card(saving.Card, frozen=True, kw_only=True):
    """The content of ``model.json``.

    Attributes:
      length: the maximum number of tokens in an input.
      answer: the maximum number of tokens in an answer.
      prompts: whether there are prompts for intents and requested slots, too.
      answers: the treatment of answers that are not possible values.
    """

    model: str = "t5dst"
    format: int = 1
    length: saving.Positive
    answer: saving.Positive
    prompts: Prompts = "all"
    answers: Answers = "nearest"


def check(folder: str) -> tuple[Card, Checkpoint]:
    """Checks a folder, except for the weights. Raises InputError if it does not have a model of this kind."""
    saving.check_installed("transformers", "sentencepiece")
    card = saving.read_card(folder, Card)
    return card, saving.inside(folder, card.model)


def load(folder: str, device: str, batch: int) -> T5Tracker:
    """Loads a model, ready to predict.

    Args:
      folder: the folder that ``parapet train t5dst`` wrote.
      device: ``auto``, ``cpu`` or ``cuda``.
      batch: prompts at a time.

    Raises:
      InputError: the model is missing, of another kind, or damaged.
    """
    card, checkpoint = check(folder)
    tokenizer, t5 = saving.load(checkpoint, "AutoModelForSeq2SeqLM")
    return T5Tracker(tokenizer, t5.to(saving.device_of(device)), card, batch)


IGNORED = -100  # a label that the loss ignores


class T5Learner(TrackerLearner):
    """A T5 with its data.

    Args:
      config: the settings of the training; its inputs are prompts.
      checkpoint: the T5.
      train: frames to learn from; those of a dialogue are adjacent.
      dev: frames that select the best epoch.

    Raises:
      InputError: the checkpoint cannot be loaded.
    """

    def __init__(
        self, config: T5DstConfig, checkpoint: Checkpoint, train: Sequence[Labelled], dev: Sequence[Labelled]
    ) -> None:
        self.tokenizer, t5 = saving.load(checkpoint, "AutoModelForSeq2SeqLM")
        saving.longest(self.tokenizer, t5, config.max_length, "--max_length")
        self.device = saving.device_of(config.device)
        self.config, self.fill = config, self.tokenizer.pad_token_id
        self.module = t5.to(self.device)
        self.optimiser = torch.optim.AdamW(t5.parameters(), lr=config.learning_rate, weight_decay=0.0, fused=True)
        long = self._read(train)
        self._dev = some(dev, config.dev_frames, config.seed)
        self.card = Card(
            length=config.max_length, answer=config.max_output, prompts=config.prompts, answers=config.answers
        )
        self._tracker = T5Tracker(self.tokenizer, t5, self.card, config.batch_size)
        if self.inputs.cut:
            message = "%s prompts are longer than %d tokens: the oldest part of the dialogue is cut off"
            logging.warning(message, f"{self.inputs.cut:,}", config.max_length)
        if long:
            logging.warning("%s answers are longer than %d tokens: they are cut off", f"{long:,}", config.max_output)

    def _read(self, frames: Sequence[Labelled]) -> int:
        """Encodes frames. Returns the number of answers that are too long."""
        config = self.config
        questions = Questions(self.tokenizer, [frame.asked for frame in frames], config.max_length, config.prompts)
        seed = config.seed if config.equal_values == "random" else None
        answers = [
            target(prompt, frame.asked.service, frame.state, frame.asked.history, seed)
            for frame, prompts in zip(frames, questions.prompts, strict=True)
            for prompt in prompts
        ]
        ids = encoded(self.tokenizer, answers)
        end = [self.tokenizer.eos_token_id]
        self.inputs = questions.pairs
        self.answers = Rows([ids[answer][: config.max_output - 1] + end for answer in answers])
        empty = torch.tensor([answer == NONE for answer in answers])
        self.full, self.empty = (~empty).nonzero().squeeze(1), empty.nonzero().squeeze(1)
        return sum(len(ids[answer]) >= config.max_output for answer in answers)

    def batches(self, generator: torch.Generator) -> Iterator[Tensor]:
        """Yields the batches of an epoch: all prompts with a value, and the share of the others."""
        drawn = torch.randperm(len(self.empty), generator=generator)
        share = self.empty[drawn[: round(self.config.negatives * len(self.empty))]]
        numbers = torch.cat([self.full, share]).sort().values
        for batch in bucketed(self.inputs.lengths[numbers], self.config.batch_size, generator):
            yield numbers[batch]

    def loss(self, batch: Tensor) -> Tensor:
        """Computes the mean loss of the answers' tokens."""
        tokens, mask = self.inputs.padded(batch, self.fill)
        labels, _ = self.answers.padded(batch, IGNORED)
        tokens, mask, labels = (tensor.to(self.device, non_blocking=True) for tensor in (tokens, mask, labels))
        loss: Tensor = self.module(input_ids=tokens, attention_mask=mask, labels=labels).loss
        return loss

    def files(self) -> dict[str, bytes]:
        """Makes the files of the model's folder."""
        return {saving.MODEL: saving.card_bytes(self.card), **saving.saved(self.tokenizer, self.module.cpu())}
