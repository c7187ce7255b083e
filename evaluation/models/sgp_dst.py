"""SGP-DST (Ruan et al. 2020): four encoders with small heads, the questions that they read, and their training.

Each module learns its own questions with its own schedule. Joint goal accuracy selects the best epoch.
"""

from __future__ import annotations

import logging
import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parapet.evaluation.dst.frames import State
from parapet.evaluation.dst.model import Example
from parapet.evaluation.models import saving
from parapet.evaluation.models import sgp_rules as rules
from parapet.evaluation.models.configs import SgpDstConfig
from parapet.evaluation.models.dst import Labelled, Tracker, some
from parapet.evaluation.models.saving import MODEL, WEIGHTS, check_installed, device_of, enough_memory, longest
from parapet.evaluation.models.training import Pairs, Stretch, Tokens, TrackerLearner, bucketed
from parapet.schemas.errors import InputError
from parapet.schemas.service import Service, Slot
from parapet.transforms.core.checkpoints import Checkpoint

ROOM = 16  # least number of tokens for the dialogue


class Batch(msgspec.Struct, frozen=True):
    """Inputs of a module.

    Attributes:
      tokens, mask, types: the inputs of BERT; shape (rows, width).
      features: the context feature of each token; shape (rows, width).
      options: the columns of each option's tokens, 0 for none; shape (rows, options, tokens).
      open: whether a span may begin or end at a token: the user's tokens and "null"; shape (rows, width).
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
        """Moves the batch to a device."""
        return Batch(*(getattr(self, name).to(device, non_blocking=True) for name in self.__struct_fields__))

    @property
    def sources(self) -> Tensor:
        """The text that each token is from: 0 for "null", 1 for the user's utterance, -1 for none that has spans."""
        columns = torch.arange(self.open.shape[1], device=self.open.device)
        return torch.where(columns == self.null[:, None], 0, 1).masked_fill(~self.open, -1)


class Texts:
    """Tokens of texts.

    Args:
      tokenizer: a fast tokenizer, of the checkpoint.
      utterances: the utterances of the dialogues.
    """

    def __init__(self, tokenizer: Any, utterances: Iterable[str]) -> None:
        self.tokenizer = tokenizer
        distinct = list(dict.fromkeys(utterances)) or [""]
        encoded = tokenizer(distinct, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        self._utterances = dict(zip(distinct, encoded["input_ids"], strict=True))
        self._offsets = dict(zip(distinct, encoded["offset_mapping"], strict=True))
        self._ids: dict[str, list[int]] = {}

    def utterance(self, text: str) -> list[int]:
        """Returns the token ids of an utterance."""
        ids: list[int] = self._utterances[text]
        return ids

    def ids(self, text: str) -> list[int]:
        """Returns the token ids of another text."""
        if text not in self._ids:
            self._ids[text] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return self._ids[text]

    def text_of(self, utterance: str, first: int, last: int) -> str:
        """Returns the text from one token of an utterance to another."""
        offsets = self._offsets[utterance]
        return utterance[offsets[first][0] : offsets[last][1]]

    def tokens_of(self, utterance: str, begin: int, end: int) -> tuple[int, int] | None:
        """Returns the first and the last token of a range of characters in an utterance; None if there is no token."""
        positions = [i for i, (first, last) in enumerate(self._offsets[utterance]) if first < end and last > begin]
        return (positions[0], positions[-1]) if positions else None


class _Written(msgspec.Struct, frozen=True):
    """A schema as tokens.

    Attributes:
      stretch: its tokens.
      options: (begin, end) of each option, relative to the tokens.
      segment: the token that ends the first segment, relative to the tokens.
    """

    stretch: Stretch
    options: list[tuple[int, int]]
    segment: int


class Questions:
    """Questions to a module.

    Args:
      texts: the tokens.
      kind: the module.
      limit: the maximum number of tokens in a row.
    """

    def __init__(self, texts: Texts, kind: rules.Kind, limit: int) -> None:
        self.texts, self.kind, self.limit = texts, kind, limit
        self._tokens = Tokens()
        self._contexts: dict[tuple[rules.Exchange, str], Stretch] = {}
        self._schemas: dict[rules.Schema, _Written] = {}
        self._rows: list[tuple[Stretch, Stretch]] = []
        self._options: list[list[tuple[int, int]]] = []
        self._features, self._spoken, self._segments = array("i"), array("i"), array("i")

    def ask(self, exchange: rules.Exchange, schema: rules.Schema, feature: int) -> int:
        """Adds a question; returns its number.

        Args:
          exchange: the utterances that the module sees.
          schema: the texts after the utterances.
          feature: the context feature; for "intents" the number of the previous intent, from 1, and 0 for none.

        Raises:
          InputError: the schema leaves too little room for the dialogue.
        """
        if schema not in self._schemas:
            self._schemas[schema] = self._write(schema)
        written = self._schemas[schema]
        self._rows.append((self._context(exchange, schema), written.stretch))
        self._options.append(written.options)
        self._features.append(feature)
        self._spoken.append(len(self.texts.utterance(exchange[1])))
        self._segments.append(written.segment)
        return len(self._rows) - 1

    def _context(self, exchange: rules.Exchange, schema: rules.Schema) -> Stretch:
        key = (exchange, schema.context)
        if key not in self._contexts:
            ids, (system, user) = self.texts.ids, exchange
            lead = [*ids(schema.context), self.texts.tokenizer.sep_token_id] if schema.context else []
            context = [*ids("sys :"), *self.texts.utterance(system), *ids("usr :"), *self.texts.utterance(user)]
            self._contexts[key] = self._tokens.add([*lead, *context, *ids(schema.mark)])
        return self._contexts[key]

    def _write(self, schema: rules.Schema) -> _Written:
        end = self.texts.tokenizer.sep_token_id
        written, places = [end], []
        for text in (*schema.head, *schema.options):
            ids = self.texts.ids(text)
            places.append((len(written), len(written) + len(ids)))
            written += [*ids, end]
        if len(written) + ROOM > self.limit:
            reason = (
                f"takes {len(written)} of {self.limit} tokens, which leaves too few for the dialogue: raise the limit"
            )
            raise InputError(reason, "--max_length", " ".join((*schema.head, *schema.options))[:80])
        segment = places[len(schema.head) - 1][0] - 1 if schema.head else 0
        return _Written(self._tokens.add(written), places[len(schema.head) :], segment)

    def __len__(self) -> int:
        return len(self._rows)

    @cached_property
    def pairs(self) -> Pairs:
        """Returns the rows, once all questions are added."""
        return Pairs(self._tokens, self._rows, self.limit, self.texts.tokenizer.cls_token_id)

    @cached_property
    def _tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Columns of schemas' options, each row's schema and feature, its number of user tokens, and ends of segments.

        The columns of options and the ends of the first segments are relative to the schema.
        """
        distinct = {id(option): option for option in self._options}
        places = {number: i for i, number in enumerate(distinct)}
        most = max((len(ranges) for ranges in distinct.values()), default=0)
        longest = max((end - begin for ranges in distinct.values() for begin, end in ranges), default=1)
        options = torch.zeros(len(distinct), most, longest, dtype=torch.long)
        for i, question in enumerate(distinct.values()):
            for j, (begin, end) in enumerate(question):
                options[i, j, : end - begin] = torch.arange(begin, end)
        which = torch.tensor([places[id(option)] for option in self._options], dtype=torch.long)
        rest = (torch.tensor(column, dtype=torch.long) for column in (self._features, self._spoken, self._segments))
        return (options, which, *rest)

    def batch(self, ids: Tensor) -> Batch:
        """Makes a batch of rows; ``ids`` are their numbers, on the CPU."""
        all_options, which, features, spoken, segments = self._tensors
        tokens, mask = self.pairs.padded(ids, self.texts.tokenizer.pad_token_id)
        behind = self.pairs.lead + self.pairs.stretches[ids]  # start of the schema
        columns = torch.arange(tokens.shape[1])
        options = all_options[which[ids]]
        options = torch.where(options > 0, options + behind[:, None, None], 0)
        feature = features[ids][:, None].expand_as(tokens)
        if self.kind == "intents":
            previous = options[torch.arange(len(ids)), (features[ids] - 1).clamp(min=0)]
            feature = torch.zeros_like(tokens).scatter_(1, previous, (feature[:, :1] > 0).long().expand_as(previous))
            feature[:, 0] = 0  # position of the padding indices
        first = self.first(ids)
        user = (columns >= first.clamp(min=self.pairs.lead)[:, None]) & (columns < (first + spoken[ids])[:, None])
        open = (user | (columns == behind[:, None] - 1)) & (self.kind == "combine")
        types = (columns > (behind + segments[ids])[:, None]).long() * mask
        return Batch(tokens, mask, types, feature, options, open, behind - 1)

    def first(self, ids: Tensor) -> Tensor:
        """Returns the columns of the first tokens of the user's utterances; below 1 if these are cut off."""
        marks = len(self.texts.ids("null")) if self.kind == "combine" else 0
        return self.pairs.lead + self.pairs.stretches[ids] - marks - self._tensors[3][ids]


NEVER = -1e9  # the score of impossible choices


class Scores(NamedTuple):
    """The outputs of a module, as logits in single precision.

    Attributes:
      options: the score of each option; shape (rows, options).
      starts, ends: the scores of each token as the start or end of a value; shape (rows, width).
      yes: the score that the slot is requested, or a value copied; shape (rows,).
    """

    options: Tensor
    starts: Tensor
    ends: Tensor
    yes: Tensor


class Heads(nn.Module):
    """The heads and the feature embedding of a module.

    Args:
      features: the number of values of the context feature.
      encoder: the encoder of the module.
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
        """Computes the scores; ``hidden`` has shape (rows, width, size)."""
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
    """All four modules.

    Args:
      encoders: BERT-like, one for each of ``KINDS``.
    """

    def __init__(self, encoders: Sequence[Any]) -> None:
        super().__init__()
        self.encoders = nn.ModuleDict(dict(zip(rules.KINDS, encoders, strict=True)))
        self.heads = nn.ModuleDict({kind: Heads(rules.FEATURES[kind], self.encoders[kind]) for kind in rules.KINDS})
        # RoBERTa has one type of token, DistilBERT none.
        self.typed = getattr(encoders[0].config, "type_vocab_size", 0) > 1

    def forward(self, kind: rules.Kind, batch: Batch) -> Scores:
        """Computes the scores of a module for a batch."""
        encoder, heads = self.encoders[kind], self.heads[kind]
        types = {"token_type_ids": batch.types} if self.typed else {}
        # Added before the normalisation, like BERT's own embeddings.
        embedded = encoder.get_input_embeddings()(batch.tokens) + heads.feature(batch.features)
        hidden = encoder(inputs_embeds=embedded, attention_mask=batch.mask, **types).last_hidden_state
        scores: Scores = heads(hidden, batch)
        return scores


def best_spans(starts: Tensor, ends: Tensor, sources: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Finds each row's best span: its start and end, the sum of their probabilities, and the lead over the next sum.

    Args:
      starts, ends: the scores of each token as the start or end; shape (rows, width).
      sources: the text that each token is from, -1 for none; a span lies in one text.
    """
    width = starts.shape[1]
    columns = torch.arange(width, device=starts.device)
    fits = (columns[:, None] <= columns) & (sources[:, :, None] == sources[:, None, :]) & (sources >= 0)[:, None, :]
    sums = starts.softmax(1)[:, :, None] + ends.softmax(1)[:, None, :]
    best = sums.masked_fill(~fits, -1.0).flatten(1).topk(min(2, width * width))
    places = best.indices[:, 0]
    return places // width, places % width, best.values[:, 0], best.values[:, 0] - best.values[:, -1]


def ask_intents(questions: Questions, memory: rules.Memory, turn: rules.Turn, service: Service) -> int:
    """Asks for the active intent; returns the number of the question."""
    same = memory.goes_on(turn.services)
    previous = 0
    if service.service_name in memory.states:
        active = memory.states[service.service_name].active_intent
        names = [intent.name for intent in service.intents]
        previous = 1 + (names.index(active) if active in names else len(names))
    return questions.ask(turn.exchange, rules.intents_of(service, same), previous)


def ask_combine(questions: Questions, memory: rules.Memory, turn: rules.Turn, service: Service, slot: Slot) -> int:
    """Asks for a slot's value in the user's utterance."""
    return questions.ask(turn.exchange, rules.slot_of(slot), memory.combine_feature(service, slot))


def ask_copy(questions: Questions, turn: rules.Turn, service: Service, slot: Slot, intent: str) -> int:
    """Asks whether the user accepts the value that the system offered for a slot."""
    return questions.ask(turn.exchange, rules.copy_of(service, slot), rules.role_of(slot.name, intent, service))


def ask_cross(
    questions: Questions,
    memory: rules.Memory,
    turn: rules.Turn,
    service: Service,
    slot: Slot,
    intent: str,
    source: rules.Source,
) -> int:
    """Asks whether a slot takes the value of another service's slot."""
    feature = memory.cross_feature(service, slot, intent, source)
    return questions.ask(turn.exchange, rules.cross_of(slot, source.slot), feature)


class SgpTracker(Tracker):
    """A model that is ready to predict. Predictions depend only on the history and the frames of the example.

    Args:
      tokenizer: the tokenizer of the checkpoint.
      modules: the modules, on their device.
      length: the maximum number of tokens in an input.
      batch: inputs at a time.
    """

    def __init__(self, tokenizer: Any, modules: Modules, length: int, batch: int) -> None:
        self.tokenizer, self.modules = tokenizer, modules
        self.length, self.batch = length, batch

    def tracked(self, batch: Sequence[Example]) -> tuple[list[State], int]:
        """Predicts the state of each example; also returns the number of questions with a dialogue that was cut."""
        with torch.inference_mode(), enough_memory(self.batch):
            return _Prediction(self, batch).states()


class _Prediction:
    """A prediction. The questions to "combine" are asked all at once, as it only sees text and the system's actions.

    The other modules depend on the previous state: they are asked for the n-th user turns of all dialogues together.
    """

    def __init__(self, tracker: SgpTracker, examples: Sequence[Example]) -> None:
        self.tracker, self.examples = tracker, examples
        self.dialogues, self.numbers = rules.longest_of(examples)
        said = [text for dialogue in self.dialogues for _, text in dialogue.history]
        self.texts = Texts(tracker.tokenizer, ["", *said])
        self.device = next(tracker.modules.parameters()).device
        self.cut = 0
        self._combine = self._questions("combine")
        self._said = list(map(self._ask_combine, self.dialogues))
        self._decisions = self._decide(self._combine)

    def states(self) -> tuple[list[State], int]:
        """Predicts the state of each example; also returns the number of questions that were cut."""
        states: list[dict[tuple[int, str], State]] = [{} for _ in self.dialogues]
        memories = [rules.Memory() for _ in self.dialogues]
        following = [rules.follow(dialogue, memory) for dialogue, memory in zip(self.dialogues, memories, strict=True)]
        while turns := {i: turn for i, dialogue in enumerate(following) if (turn := next(dialogue, None))}:
            step_states = self._step(turns, memories)
            for i, turn in turns.items():
                memories[i].conclude(step_states[i], turn.services)
                states[i].update({(turn.position, name): state for name, state in step_states[i].items()})
        return [
            states[i][example.turn, example.service.service_name]
            for example, i in zip(self.examples, self.numbers, strict=True)
        ], self.cut

    def _questions(self, kind: Any) -> Questions:
        return Questions(self.texts, kind, self.tracker.length)

    def _ask_combine(self, dialogue: Example) -> dict[tuple[int, str], list[int]]:
        questions, memory = {}, rules.Memory()
        for turn in rules.follow(dialogue, memory):
            for service in turn.services:
                numbers = [ask_combine(self._combine, memory, turn, service, slot) for slot in service.slots]
                questions[turn.position, service.service_name] = numbers
            memory.conclude({service.service_name: rules.START for service in turn.services}, turn.services)
        return questions

    def _decide(self, questions: Questions) -> list[rules.Decision]:
        if not len(questions):
            return []

        def decide(numbers: Sequence[int]) -> list[tuple[rules.Decision, float]]:
            return decided(self.tracker.modules, questions, numbers, self.device)

        self.cut += questions.pairs.cut
        return questions.pairs.decisions(self.tracker.batch, decide)

    def _step(self, turns: Mapping[int, rules.Turn], memories: Sequence[rules.Memory]) -> dict[int, dict[str, State]]:
        """Predicts the states after a user turn of each dialogue, by service."""
        frames = [(i, turn, service) for i, turn in turns.items() for service in turn.services]
        intents, copies, crosses = (self._questions(kind) for kind in ("intents", "copy_slot", "cross_copy"))
        for i, turn, service in frames:
            ask_intents(intents, memories[i], turn, service)
        active = [
            rules.intent_name(service, decision.option)
            for (_, _, service), decision in zip(frames, self._decide(intents), strict=True)
        ]
        extracted = [self._values(self._said[i], turn, service) for i, turn, service in frames]
        copied: list[list[tuple[str, str]]] = []  # frame to (slot, value) of its questions
        crossed: list[list[tuple[str, str]]] = []
        for (i, turn, service), intent, (values, _) in zip(frames, active, extracted, strict=True):
            memory = memories[i]
            filled = {*memory.state(service).slot_values, *values}
            copied.append([])
            for slot in memory.copy_questions(service, filled):
                ask_copy(copies, turn, service, slot, intent)
                is_given = memory.given(service, slot)
                copied[-1].append((slot.name, is_given.value if is_given else ""))
            crossed.append([])
            for slot, source in memory.cross_questions(service, filled):
                ask_cross(crosses, memory, turn, service, slot, intent, source)
                crossed[-1].append((slot.name, source.values[0]))
        of_copies, of_crosses = iter(self._decide(copies)), iter(self._decide(crosses))
        states: dict[int, dict[str, State]] = {i: {} for i in turns}
        for number, ((i, _, service), intent, (values, requested)) in enumerate(
            zip(frames, active, extracted, strict=True)
        ):
            others = likeliest(crossed[number], of_crosses), likeliest(copied[number], of_copies)
            state = rules.next_state(memories[i].state(service), service, intent, requested, values, *others)
            states[i][service.service_name] = state
        return states

    def _values(
        self, asked: Mapping[tuple[int, str], Sequence[int]], turn: rules.Turn, service: Service
    ) -> tuple[dict[str, str], list[str]]:
        """Returns the values of slots in the user's utterance, and the requested slots."""
        values, requested = {}, []
        for slot, number in zip(service.slots, asked[turn.position, service.service_name], strict=True):
            decision = self._decisions[number]
            text = self.texts.text_of(turn.exchange[1], *decision.span) if decision.span else ""
            if value := rules.value_of(slot, decision, text):
                values[slot.name] = value
            if decision.yes:
                requested.append(slot.name)
        return values, requested


def likeliest(asked: Sequence[tuple[str, str]], decisions: Iterator[rules.Decision]) -> dict[str, str]:
    """Chooses for each slot the most likely value, among those that are copied at all.

    Args:
      asked: (slot, value) of each question.
      decisions: yields the decision on each question.
    """
    best: dict[str, tuple[float, str]] = {}
    for (slot, value), decision in zip(asked, decisions, strict=False):
        if decision.yes and (slot not in best or decision.score > best[slot][0]):
            best[slot] = decision.score, value
    return {slot: value for slot, (_, value) in best.items()}


def decided(
    modules: Modules, questions: Questions, numbers: Sequence[int], device: torch.device
) -> list[tuple[rules.Decision, float]]:
    """Decides some questions; also returns the margin of the closest choice.

    Args:
      modules: the modules, on the device.
      questions: the questions to one module.
      numbers: the numbers of the questions.
      device: the device to use.
    """
    kind, ids = questions.kind, torch.tensor(numbers)
    batch = questions.batch(ids).to(device)
    scores = modules(kind, batch)
    if kind == "intents":
        best = scores.options.topk(min(2, scores.options.shape[1]))
        leads = best.values[:, 0] - best.values[:, -1]
        chosen = [rules.Decision(option) for option in best.indices[:, 0].tolist()]
        return list(zip(chosen, leads.tolist(), strict=True))
    margins = scores.yes - _logit(rules.CONFIDENT["requested" if kind == "combine" else kind])
    yes, score = (margins > 0).tolist(), scores.yes.tolist()
    if kind != "combine":
        # The likeliest of several sources is chosen, so their scores must not depend on the batch.
        leads = margins.abs() if kind == "copy_slot" else margins.abs().masked_fill(margins > 0, 0.0)
        chosen = [rules.Decision(rules.NULL, None, flag, number) for flag, number in zip(yes, score, strict=True)]
        return list(zip(chosen, leads.tolist(), strict=True))
    options, confidence = _confident(scores.options)
    begins, ends, sums, leads = best_spans(scores.starts, scores.ends, batch.sources)
    nothing = begins == batch.null
    certain = sums - rules.CONFIDENT["span"]
    leads = torch.where(nothing, leads, torch.minimum(leads, certain))
    leads = torch.where(certain > 0, leads, -certain)  # if no span is likely, the best one does not matter
    leads = torch.minimum(torch.minimum(leads, confidence.abs()), margins.abs())
    spans = torch.stack([begins, ends], 1).cpu() - questions.first(ids)[:, None]
    chosen = [
        rules.Decision(option, (span[0], span[1]) if is_present else None, flag, number)
        for option, span, is_present, flag, number in zip(
            options.tolist(), spans.tolist(), (~nothing & (certain > 0)).tolist(), yes, score, strict=True
        )
    ]
    return list(zip(chosen, leads.tolist(), strict=True))


def _logit(share: float) -> float:
    return math.log(share / (1 - share))


def _confident(options: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the number of the best option, ``NULL`` if it is not likely enough; and its margin, in logits."""
    best, numbers = options.max(1)
    others = options.scatter(1, numbers[:, None], -math.inf).logsumexp(1)
    lead = best - others - _logit(rules.CONFIDENT["option"])
    return torch.where(lead > 0, numbers, rules.NULL), lead


class Card(saving.Card, frozen=True, kw_only=True):
    """The content of ``model.json``.

    Attributes:
      length: the maximum number of tokens in an input.
    """

    model: str = "sgp_dst"
    format: int = 2
    length: saving.Positive


def check(folder: str) -> tuple[Card, list[Checkpoint]]:
    """Checks a folder, except for the weights. Raises InputError if it does not have a model of this kind."""
    check_installed("transformers")
    card = saving.read_card(folder, Card)
    return card, [saving.inside(folder, card.model, f"{saving.FOLDER}/{kind}") for kind in rules.KINDS]


def load(folder: str, device: str, batch: int) -> SgpTracker:
    """Loads a model, ready to predict.

    Args:
      folder: the folder that ``parapet train sgp_dst`` wrote.
      device: ``auto``, ``cpu`` or ``cuda``.
      batch: inputs at a time.

    Raises:
      InputError: the model is missing, of another kind, or damaged.
    """
    card, encoders = check(folder)
    loaded = [load_encoder(checkpoint) for checkpoint in encoders]
    modules = Modules([encoder for _, encoder in loaded])
    saving.load_weights(modules.heads, folder)
    return SgpTracker(loaded[0][0], modules.to(device_of(device)).eval(), card.length, batch)


def load_encoder(checkpoint: Checkpoint) -> tuple[Any, Any]:
    """Loads the tokenizer and the encoder of a checkpoint. Raises InputError if it cannot be used."""
    tokenizer, encoder = saving.load(checkpoint, "AutoModel", new=("pooler.",))
    for name in ("cls_token_id", "sep_token_id", "pad_token_id"):
        if getattr(tokenizer, name) is None:
            raise checkpoint.refused(f"its tokenizer has no {name.removesuffix('_id')}")
    if not tokenizer.is_fast:
        raise checkpoint.refused("its tokenizer cannot map tokens to characters: a fast tokenizer is required")
    return tokenizer, encoder


BETAS = (0.9, 0.999)


EPSILON = 1e-6


WEIGHT_DECAY = 0.01


NOT_DECAYED = ("bias", "LayerNorm.weight")


def warmup_linear(progress: float, warmup: float) -> float:
    """Returns the share of the full learning rate: it rises to 1 at ``warmup``, then falls to 0 at 1."""
    if progress < warmup:
        return progress / warmup
    return max((1 - progress) / (1 - warmup), 0.0) if warmup < 1 else 1.0


def groups_of(parameters: Iterable[tuple[str, Tensor]], **settings: Any) -> list[dict[str, Any]]:
    """Groups named parameters into those with weight decay, and biases and normalisations without.

    Args:
      parameters: (name, parameter).
      settings: settings of both groups, such as ``steps`` and ``warmup``.
    """
    decayed: dict[bool, list[Tensor]] = {True: [], False: []}
    for name, parameter in parameters:
        decayed[not name.endswith(NOT_DECAYED)].append(parameter)
    return [{"params": some, "weight_decay": WEIGHT_DECAY * flag, **settings} for flag, some in decayed.items()]


class BertAdam(torch.optim.Optimizer):
    """Adam with decoupled weight decay and without bias correction, as in ``pytorch-pretrained-bert`` 0.6.2.

    torch's AdamW corrects the bias, which makes a large difference in the first steps. A group's learning rate follows
    :func:`warmup_linear` over the steps that have a gradient for it, so that modules trained in alternation behave as
    if trained alone. The gradient norm of each tensor is clipped by itself.

    Args:
      groups: groups of parameters, each with ``steps``, its number of steps, and ``warmup``, the share of these in
        which the learning rate rises.
      lr: the full learning rate.
      clip: the largest norm; 0 for any.
      decay: whether the rate falls after the warm-up.
    """

    def __init__(self, groups: Iterable[dict[str, Any]], lr: float, clip: float = 1.0, decay: bool = True) -> None:
        super().__init__(groups, {"lr": lr, "initial_lr": lr, "clip": clip, "decay": decay, "step": 0})

    def step(self, closure: Callable[[], float] | None = None) -> None:
        """Makes a step for the parameters that have a gradient.

        It resets the ``lr`` of each group to its initial value.
        """
        with torch.no_grad():
            self._step()

    def _step(self) -> None:
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            if not parameters:
                group["lr"] = 0.0
                continue
            progress = group["step"] / group["steps"]
            share = warmup_linear(progress, group["warmup"]) if group["decay"] or progress < group["warmup"] else 1.0
            group["lr"] = group["initial_lr"] * share
            group["step"] += 1
            gradients = [parameter.grad for parameter in parameters]
            if group["clip"]:
                norms = torch.stack(torch._foreach_norm(gradients))
                shares = (group["clip"] / (norms + 1e-6)).clamp(max=1.0)
                gradients = torch._foreach_mul(gradients, list(shares.unbind()))
            means, squares = zip(*(self._moments(parameter) for parameter in parameters), strict=True)
            torch._foreach_mul_(means, BETAS[0])
            torch._foreach_add_(means, gradients, alpha=1 - BETAS[0])
            torch._foreach_mul_(squares, BETAS[1])
            torch._foreach_addcmul_(squares, gradients, gradients, value=1 - BETAS[1])
            scales = torch._foreach_sqrt(squares)
            torch._foreach_add_(scales, EPSILON)
            updates = torch._foreach_div(means, scales)
            if group["weight_decay"]:
                torch._foreach_add_(updates, parameters, alpha=group["weight_decay"])
            torch._foreach_add_(parameters, updates, alpha=-group["lr"])

    def _moments(self, parameter: Tensor) -> tuple[Tensor, Tensor]:
        state = self.state[parameter]
        if not state:
            state.update(mean=torch.zeros_like(parameter), square=torch.zeros_like(parameter))
        return state["mean"], state["square"]


class Examples:
    """The questions of a training set to one module, with their answers.

    Args:
      questions: all questions.
      labels: the right answers.
      negatives: the share of the questions without an answer that an epoch uses.
    """

    def __init__(self, questions: Questions, labels: Sequence[rules.Label], negatives: float) -> None:
        self.questions = questions
        self.options = torch.tensor([label.option for label in labels], dtype=torch.long)
        self.yes = torch.tensor([label.requested for label in labels], dtype=torch.float)
        # The tokens of a value; -1 if there is none, or it was cut off.
        self.spans = torch.tensor([label.place or (-1, -1) for label in labels], dtype=torch.long).view(-1, 2)
        if len(labels):
            self.spans[questions.first(torch.arange(len(labels))) + self.spans[:, 0] < questions.pairs.lead] = -1
        empty = (self.options == 0) & (self.yes == 0) & (self.spans[:, 0] < 0) & (questions.kind != "intents")
        self.full, self.empty = (~empty).nonzero().squeeze(1), empty.nonzero().squeeze(1)
        self.drawn = round(negatives * len(self.empty))

    def __len__(self) -> int:
        """The number of questions in an epoch."""
        return len(self.full) + self.drawn

    def draw(self, generator: torch.Generator) -> Tensor:
        """Draws the numbers of the questions of an epoch: all with an answer, and the share of the others."""
        drawn = torch.randperm(len(self.empty), generator=generator)[: self.drawn]
        return torch.cat([self.full, self.empty[drawn]]).sort().values


class SgpLearner(TrackerLearner):
    """The modules with their data.

    Args:
      config: the settings of the training.
      checkpoint: the checkpoint that the encoders start from.
      train: frames to learn from; those of a dialogue are adjacent.
      dev: frames that select the best epoch.

    Raises:
      InputError: the checkpoint cannot be loaded.
    """

    def __init__(
        self, config: SgpDstConfig, checkpoint: Checkpoint, train: Sequence[Labelled], dev: Sequence[Labelled]
    ) -> None:
        loaded = [load_encoder(checkpoint) for _ in rules.KINDS]
        tokenizer, encoder = loaded[0]
        longest(tokenizer, encoder, config.max_length, "--max_length")
        self.tokenizer, self.modules = tokenizer, Modules([encoder for _, encoder in loaded])
        self.device = device_of(config.device)
        self.config = config
        self.module = self.modules.to(self.device)
        self._read(train)
        self.steps = steps_of(config, {kind: len(examples_of_kind) for kind, examples_of_kind in self.examples.items()})
        warmups = config.by_module("warmup")
        groups = [
            {**group, "module": kind}
            for kind in self.examples
            for group in groups_of(
                [*self.modules.encoders[kind].named_parameters(), *self.modules.heads[kind].named_parameters()],
                steps=self.steps[kind],
                warmup=warmups[kind],
            )
        ]
        self.total_steps = sum(self.steps.values())
        self.optimiser = BertAdam(groups, config.learning_rate, config.clip, config.schedule == "linear")
        self._dev = some(dev, config.dev_frames, config.seed)
        self._tracker = SgpTracker(tokenizer, self.modules, config.max_length, config.batch_size)
        if cut := sum(example.questions.pairs.cut for example in self.examples.values()):
            message = "%s inputs are longer than %d tokens: the oldest part of the dialogue is cut off"
            logging.warning(message, f"{cut:,}", config.max_length)
        if self.lost:
            message = "%s values are neither in the dialogue nor among the possible values, and cannot be learned"
            logging.warning(message, f"{self.lost:,}")

    def _read(self, frames: Sequence[Labelled]) -> None:
        """Encodes frames: the questions to each module that has any."""
        texts = Texts(self.tokenizer, ["", *(text for frame in frames for _, text in frame.asked.history)])
        questions, labels, self.lost = questions_of(texts, frames, self.config.max_length)
        self.examples: dict[rules.Kind, Examples] = {}
        shares = self.config.by_module("negatives")
        for kind, questions_of_kind in questions.items():
            if len(examples := Examples(questions_of_kind, labels[kind], shares[kind])):
                self.examples[kind] = examples
        firsts = [0]
        for example in self.examples.values():
            firsts.append(firsts[-1] + len(example.questions))
        self._firsts = dict(zip(self.examples, firsts, strict=False))

    def batches(self, generator: torch.Generator) -> Iterator[Tensor]:
        """Yields the batches of an epoch, each for one module; input numbers continue from one module to the next.

        Modules that have completed their epochs have no batches.
        """
        done = {group["module"]: group["step"] for group in self.optimiser.param_groups}
        kinds = [kind for kind in self.examples if self.config.steps or done[kind] < self.steps[kind]]
        batches = []
        for kind in kinds or self.examples:  # if all are complete, the learning rates are 0
            examples_of_kind = self.examples[kind]
            numbers = examples_of_kind.draw(generator)
            for batch in bucketed(examples_of_kind.questions.pairs.lengths[numbers], self.config.batch_size, generator):
                batches.append(numbers[batch] + self._firsts[kind])
        for i in torch.randperm(len(batches), generator=generator).tolist():
            yield batches[i]

    def loss(self, batch: Tensor) -> Tensor:
        """Computes the mean loss of a batch, summed over the outputs of its module."""
        number = int(batch[0])
        kind = [kind for kind, first in self._firsts.items() if first <= number][-1]
        ids, examples = batch - self._firsts[kind], self.examples[kind]
        inputs = examples.questions.batch(ids)
        first, null = examples.questions.first(ids)[:, None], inputs.null[:, None]
        scores = self.module(kind, inputs.to(self.device))
        if kind in ("copy_slot", "cross_copy"):
            return F.binary_cross_entropy_with_logits(scores.yes, examples.yes[ids].to(self.device))
        loss = F.cross_entropy(scores.options, examples.options[ids].to(self.device))
        if kind == "combine":
            spans = examples.spans[ids]
            columns = torch.where(spans < 0, null, first + spans).to(self.device)
            loss = loss + F.cross_entropy(scores.starts, columns[:, 0]) + F.cross_entropy(scores.ends, columns[:, 1])
            loss = loss + F.binary_cross_entropy_with_logits(scores.yes, examples.yes[ids].to(self.device))
        return loss

    def files(self) -> dict[str, bytes]:
        """Makes the files of the model's folder."""
        modules = self.modules.cpu()
        files = {
            MODEL: saving.card_bytes(Card(length=self.config.max_length)),
            WEIGHTS: saving.weights_bytes(modules.heads.state_dict()),
        }
        for kind in rules.KINDS:
            files |= saving.saved(self.tokenizer, modules.encoders[kind], f"{saving.FOLDER}/{kind}")
        return files


def steps_of(config: SgpDstConfig, sizes: Mapping[rules.Kind, int]) -> dict[rules.Kind, int]:
    """Returns the number of steps of each module: from its epochs, or its share of ``--steps``.

    Args:
      config: the settings of the training.
      sizes: the number of inputs in an epoch.
    """
    epoch = {kind: math.ceil(size / config.batch_size) for kind, size in sizes.items()}
    if config.steps is not None:
        return {kind: max(1, round(config.steps * steps / sum(epoch.values()))) for kind, steps in epoch.items()}
    epochs = config.by_module("epochs")
    return {kind: int(epochs[kind]) * steps for kind, steps in epoch.items()}


def questions_of(
    texts: Texts, frames: Sequence[Labelled], limit: int
) -> tuple[dict[rules.Kind, Questions], dict[rules.Kind, list[rules.Label]], int]:
    """Makes the questions of dialogues, with answers from their states; also returns the number of lost values."""
    questions = {kind: Questions(texts, kind, limit) for kind in rules.KINDS}
    labels: dict[rules.Kind, list[rules.Label]] = {kind: [] for kind in rules.KINDS}
    lost = 0
    for memory, turn, states in labelled_turns(frames):
        for service in turn.services:
            lost += _add(questions, labels, memory, turn, service, states[service.service_name])
    return questions, labels, lost


def labelled_turns(frames: Sequence[Labelled]) -> Iterator[tuple[rules.Memory, rules.Turn, dict[str, State]]]:
    """Yields the user turns of dialogues with the memory before the turn, and the right states after it, by service."""
    for dialogue in dialogues_in(frames):
        states = {(frame.asked.turn, frame.asked.service.service_name): frame.state for frame in dialogue}
        memory = rules.Memory()
        for turn in rules.follow(max((frame.asked for frame in dialogue), key=lambda one: len(one.history)), memory):
            known = {
                service.service_name: states.get((turn.position, service.service_name)) or memory.state(service)
                for service in turn.services
            }
            yield memory, turn, known
            memory.conclude(known, turn.services)


def _add(
    questions: Mapping[rules.Kind, Questions],
    labels: Mapping[rules.Kind, list[rules.Label]],
    memory: rules.Memory,
    turn: rules.Turn,
    service: Service,
    state: State,
) -> int:
    """Adds the questions of a frame with their answers; returns the number of lost values."""
    ask_intents(questions["intents"], memory, turn, service)
    labels["intents"].append(rules.Label(rules.intent_label(service, state)))
    before, utterance = memory.state(service), turn.exchange[1]
    label_of_slot = {slot.name: rules.slot_label(service, slot, memory, state, utterance) for slot in service.slots}
    for slot in service.slots:
        label = label_of_slot[slot.name]
        if label.origin == "system":  # "combine" may or may not see such a value in the user's utterance
            continue
        ask_combine(questions["combine"], memory, turn, service, slot)
        place = questions["combine"].texts.tokens_of(utterance, *label.place) if label.place else None
        labels["combine"].append(rules.Label(label.option, place, label.requested) if label.place else label)
    filled = {*before.slot_values, *(name for name, label in label_of_slot.items() if label.origin == "user")}
    for slot in memory.copy_questions(service, filled):
        ask_copy(questions["copy_slot"], turn, service, slot, state.active_intent)
        labels["copy_slot"].append(rules.Label(requested=label_of_slot[slot.name].origin == "system"))
    crossed = set()
    for slot, source in memory.cross_questions(service, filled):
        ask_cross(questions["cross_copy"], memory, turn, service, slot, state.active_intent, source)
        new = label_of_slot[slot.name].origin == "other" and not memory.had_value(service, slot)
        copied = new and bool(set(state.slot_values[slot.name]) & set(source.values))
        labels["cross_copy"].append(rules.Label(requested=copied))
        if copied:
            crossed.add(slot.name)
    return sum(
        label.origin == "other" and name not in crossed
        for name, label in label_of_slot.items()
        if name in rules.needed(service)
    )


def dialogues_in(frames: Sequence[Labelled]) -> Iterator[list[Labelled]]:
    """Groups frames by dialogue, also if adjacent dialogues have the same id and the same beginning."""
    examples: list[Labelled] = []
    seen: set[tuple[int, str]] = set()
    for frame in frames:
        requested = frame.asked
        key = (requested.turn, requested.service.service_name)
        if examples:
            last = examples[-1].asked
            goes_on = (
                requested.dialogue_id == last.dialogue_id and requested.history[: len(last.history)] == last.history
            )
            if not goes_on or key in seen:
                yield examples
                examples, seen = [], set()
        examples.append(frame)
        seen.add(key)
    if examples:
        yield examples
