"""Encodes questions as rows of token ids, and defines the modules: an encoder each, with small heads."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
import torch
from torch import Tensor, nn

from parapet.evaluation.dst.frames import State
from parapet.evaluation.dst.model import Example
from parapet.evaluation.models import saving
from parapet.evaluation.models.batches import Pairs, Stretch, Tokens
from parapet.evaluation.models.dst import sgp_rules as rules
from parapet.evaluation.models.dst.data import Tracker
from parapet.evaluation.models.saving import MODEL, WEIGHTS, check_installed, device_of, enough_memory
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
        self.texts = Texts(
            tracker.tokenizer, ["", *(text for dialogue in self.dialogues for _, text in dialogue.history)]
        )
        self.device = next(tracker.modules.parameters()).device
        self.cut = 0
        self._combine = self._questions("combine")
        self._said: list[dict[tuple[int, str], list[int]]] = [
            self._ask_combine(dialogue) for dialogue in self.dialogues
        ]
        self._decisions = self._decide(self._combine)

    def states(self) -> tuple[list[State], int]:
        """Predicts the state of each example; also returns the number of questions that were cut."""
        states: list[dict[tuple[int, str], State]] = [{} for _ in self.dialogues]
        memories = [rules.Memory() for _ in self.dialogues]
        following = [rules.follow(dialogue, memory) for dialogue, memory in zip(self.dialogues, memories, strict=True)]
        while turns := {i: turn for i, dialogue in enumerate(following) if (turn := next(dialogue, None))}:
            states_here = self._step(turns, memories)
            for i, turn in turns.items():
                memories[i].conclude(states_here[i], turn.services)
                states[i].update({(turn.position, name): state for name, state in states_here[i].items()})
        result = [
            states[i][dialogue.turn, dialogue.service.service_name]
            for dialogue, i in zip(self.examples, self.numbers, strict=True)
        ]
        return result, self.cut

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
        values_here = [self._values(self._said[i], turn, service) for i, turn, service in frames]
        copied: list[list[tuple[str, str]]] = []  # frame to (slot, value) of its questions
        crossed: list[list[tuple[str, str]]] = []
        for (i, turn, service), intent, (values, _) in zip(frames, active, values_here, strict=True):
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
            zip(frames, active, values_here, strict=True)
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
    chosen_here = (~nothing & (certain > 0)).tolist()
    chosen = [
        rules.Decision(option, (span[0], span[1]) if is_present else None, flag, number)
        for option, span, is_present, flag, number in zip(
            options.tolist(), spans.tolist(), chosen_here, yes, score, strict=True
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


def files_of(card: Card, tokenizer: Any, modules: Modules) -> dict[str, bytes]:
    """Makes the files of a model's folder, as path to content."""
    files = {MODEL: saving.card_bytes(card), WEIGHTS: saving.weights_bytes(modules.heads.state_dict())}
    for kind in rules.KINDS:
        files |= saving.saved(tokenizer, modules.encoders[kind], f"{saving.FOLDER}/{kind}")
    return files


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
