"""SGD Baseline (Rastogi et al. 2020): fixed vectors of a schema's elements, and an encoder of the last two utterances.

The checkpoint as it is encodes each intent, slot and possible value once. For a service in a user turn, an encoder that
starts from the same checkpoint reads the last utterances of the system and the user, and small heads compare them with
the elements. They predict the active intent, the requested slots, and the slots that get a value in this turn: a
possible value, or a span of the two utterances. Other slots keep their values.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from parapet.evaluation.dst.frames import State
from parapet.evaluation.dst.model import Example
from parapet.evaluation.models import saving
from parapet.evaluation.models import sgp_rules as rules
from parapet.evaluation.models.configs import SgdBaselineConfig
from parapet.evaluation.models.dst import Labelled, Tracker, some
from parapet.evaluation.models.sgp_dst import NEVER, Texts, best_spans, groups_of, labelled_turns, load_encoder
from parapet.evaluation.models.training import Rows, TrackerLearner, bucketed, by_length, settled
from parapet.schemas.service import Intent, Service, Slot
from parapet.transforms.core.checkpoints import Checkpoint

# What a turn does with a slot: it keeps its value, gets a new one, or "dontcare".
KEPT, NEW, ANY = 0, 1, 2


CLS = 0  # the column of [CLS], which is the span of values that neither utterance has


IGNORED = -100  # a label that the loss ignores


DROPOUT = 0.1  # of the encoder's outputs; its own is that of the checkpoint


ELEMENTS = 64  # elements of a schema that are encoded at a time


class TurnRow(msgspec.Struct, frozen=True):
    """A service in a user turn, as ``[CLS] system [SEP] user [SEP]``. If that is too long, its beginning is cut off.

    Attributes:
      texts: the tokens of the utterances.
      tokens: the token ids.
      system, user: the columns of the utterances' first tokens; below 1 if these are cut off.
    """

    texts: Texts
    exchange: rules.Exchange
    service: Service
    tokens: list[int]
    system: int
    user: int

    def span_of(self, values: Sequence[str]) -> tuple[int, int] | None:
        """Returns the first and the last column of a value, first of all in the user's utterance; None if not there."""
        for start, utterance in ((self.user, self.exchange[1]), (self.system, self.exchange[0])):
            place = rules.found_last(values, utterance)
            tokens = self.texts.tokens_of(utterance, *place) if place else None
            if tokens and start + tokens[0] >= 1:
                return start + tokens[0], start + tokens[1]
        return None

    def text_of(self, first: int, last: int) -> str:
        """Returns the text of a span; empty for that of [CLS]."""
        if first == CLS:
            return ""
        start, utterance = (self.user, self.exchange[1]) if first >= self.user else (self.system, self.exchange[0])
        return self.texts.text_of(utterance, first - start, last - start)


def row_of(texts: Texts, exchange: rules.Exchange, service: Service, limit: int) -> TurnRow:
    """Makes a row of at most ``limit`` tokens."""
    system, user = (texts.utterance(utterance) for utterance in exchange)
    separator = texts.tokenizer.sep_token_id
    utterances = [*system, separator, *user]
    kept = utterances[max(0, len(utterances) + 2 - limit) :]
    start = 1 + len(kept) - len(user)
    tokens = [texts.tokenizer.cls_token_id, *kept, separator]
    return TurnRow(texts, exchange, service, tokens, start - 1 - len(system), start)


class Outputs(NamedTuple):
    """What is predicted for each row, as scores of options, or as the numbers of the right or best options.

    Attributes:
      intents: the active intent: the service's intents, then none; shape (rows, 1), scores (rows, 1, options).
      requested: whether each slot is requested; shape (rows, slots).
      categorical, free: the status of each slot that can have a value; shape (rows, slots of this kind).
      values: the value of each categorical slot, among those of all slots; shape (rows, categorical slots).
      starts, ends: the first and the last column of the value of each free slot; shape (rows, free slots).
    """

    intents: Any
    requested: Any
    categorical: Any
    values: Any
    free: Any
    starts: Any
    ends: Any


def with_values(service: Service) -> tuple[list[Slot], list[Slot]]:
    """Returns the categorical and the free slots that an intent takes, as only these have values."""
    wanted = rules.needed(service)
    slots = [slot for slot in service.slots if slot.name in wanted]
    return [slot for slot in slots if slot.is_categorical], [slot for slot in slots if not slot.is_categorical]


def possible_values(categorical: Sequence[Slot]) -> list[tuple[int, str]]:
    """Lists the possible values of slots, each with the number of its slot."""
    return [(number, value) for number, slot in enumerate(categorical) for value in slot.possible_values]


def labels_of(row: TurnRow, before: State, after: State) -> Outputs:
    """Returns the right options of a turn from the states of the service before and after it."""
    categorical, free = with_values(row.service)
    possible = possible_values(categorical)
    new = {slot.name: rules.new_values(slot, before, after) for slot in (*categorical, *free)}
    status = {name: (ANY if values[0] == rules.DONTCARE else NEW) if values else KEPT for name, values in new.items()}
    pairs = [(number, (new[slot.name] or [""])[0]) for number, slot in enumerate(categorical)]
    spans = [
        (row.span_of(new[slot.name]) or (CLS, CLS)) if status[slot.name] == NEW else (IGNORED, IGNORED) for slot in free
    ]
    return Outputs(
        intents=[rules.intent_label(row.service, after)],
        requested=[int(slot.name in after.requested_slots) for slot in row.service.slots],
        categorical=[status[slot.name] for slot in categorical],
        values=[possible.index(pair) if pair in possible else IGNORED for pair in pairs],
        free=[status[slot.name] for slot in free],
        starts=[first for first, _ in spans],
        ends=[last for _, last in spans],
    )


def next_state(row: TurnRow, options: Outputs, before: State) -> State:
    """Updates the state of a service by the options that were chosen for a turn."""
    requested = [slot.name for slot, flag in zip(row.service.slots, options.requested, strict=False) if flag]
    categorical, free = with_values(row.service)
    possible = possible_values(categorical)
    new = {}
    for slot, status, value in zip(categorical, options.categorical, options.values, strict=False):
        if status == ANY:
            new[slot.name] = rules.DONTCARE
        elif status == NEW:
            new[slot.name] = possible[value][1]
    for slot, status, first, last in zip(free, options.free, options.starts, options.ends, strict=False):
        if status == ANY:
            new[slot.name] = rules.DONTCARE
        elif status == NEW and (text := row.text_of(first, last)):
            new[slot.name] = text
    return rules.next_state(before, row.service, rules.intent_name(row.service, options.intents[0]), requested, new)


def stacked(rows: Sequence[Tensor], fill: int) -> Tensor:
    """Pads rows of different lengths. A row of ``fill`` alone follows, so that no dimension is zero."""
    return pad_sequence([*rows, rows[0].new_full((1, *rows[0].shape[1:]), fill)], batch_first=True, padding_value=fill)


class Elements(NamedTuple):
    """The elements of services; padding is -1.

    Attributes:
      intents: vectors, with a place for none behind those of a service; shape (services, intents, size).
      slots: vectors; shape (services, slots, size).
      values: vectors of the possible values of all categorical slots; shape (services, values, size).
      counts: the numbers of intents and slots; shape (services, 2).
      categorical, free: the numbers of the slots that can have values; shape (services, slots of this kind).
      owners: the number of each value's slot among the categorical ones; shape (services, values).
    """

    intents: Tensor
    slots: Tensor
    values: Tensor
    counts: Tensor
    categorical: Tensor
    free: Tensor
    owners: Tensor


def named(element: Intent | Slot) -> str:
    """Returns the name and the description of an element."""
    return f"{element.name} {element.description}"


class ElementEncoder:
    """Encodes the elements of schemas, each as its text's [CLS], and keeps the vectors.

    Args:
      tokenizer: the tokenizer of the checkpoint.
      encoder: the checkpoint as it is, on its device.
      length: the maximum number of tokens in a text.
    """

    def __init__(self, tokenizer: Any, encoder: Any, length: int) -> None:
        self.tokenizer, self.encoder, self.length = tokenizer, encoder.requires_grad_(False), length
        self.device = next(encoder.parameters()).device
        self._known: dict[bytes, Elements] = {}

    def elements(self, services: Iterable[Service]) -> Elements:
        """Returns the elements of services, padded to the same shape."""
        return Elements(*(stacked(column, -1) for column in zip(*map(self._of, services), strict=True)))

    def _of(self, service: Service) -> Elements:
        key = msgspec.json.encode(service)
        if key not in self._known:
            self._known[key] = self._encode(service)
        return self._known[key]

    def _encode(self, service: Service) -> Elements:
        categorical, free = with_values(service)
        possible = possible_values(categorical)
        vectors = self._vectors(
            [
                *((service.description, named(intent)) for intent in service.intents),
                *((service.description, named(slot)) for slot in service.slots),
                *((named(categorical[number]), value) for number, value in possible),
            ]
        )
        counts = [len(service.intents), len(service.slots)]
        intents, slots, values = vectors.split([*counts, len(possible)])
        numbers = {slot.name: number for number, slot in enumerate(service.slots)}
        columns: tuple[list[int], ...] = (
            counts,
            [numbers[slot.name] for slot in categorical],
            [numbers[slot.name] for slot in free],
            [number for number, _ in possible],
        )
        rest = (torch.tensor(column, dtype=torch.long, device=self.device) for column in columns)
        return Elements(F.pad(intents, (0, 0, 0, 1)), slots, values, *rest)

    def _vectors(self, pairs: Sequence[tuple[str, str]]) -> Tensor:
        vectors = [torch.zeros(0, self.encoder.config.hidden_size, device=self.device)]
        with torch.no_grad():
            for start in range(0, len(pairs), ELEMENTS):
                firsts, seconds = zip(*pairs[start : start + ELEMENTS], strict=True)
                limits = {"truncation": True, "max_length": self.length}
                inputs = self.tokenizer(list(firsts), list(seconds), padding=True, return_tensors="pt", **limits)
                vectors.append(self.encoder(**inputs.to(self.device)).last_hidden_state[:, 0])
        return torch.cat(vectors)


class BaselineBatch(NamedTuple):
    """Rows as inputs of the net.

    Attributes:
      tokens, mask, types: the inputs of BERT; shape (rows, width).
      sources: the text that each token is from: 0 for [CLS], 1 for the system's utterance, 2 for the user's, and -1
        for none; shape (rows, width).
      elements: those of the service of each row.
    """

    tokens: Tensor
    mask: Tensor
    types: Tensor
    sources: Tensor
    elements: Elements


class TurnRows:
    """Rows with the elements of their services.

    Args:
      rows: the rows.
      encoder: of the elements.
    """

    def __init__(self, rows: Sequence[TurnRow], encoder: ElementEncoder) -> None:
        self.fill, self.device = encoder.tokenizer.pad_token_id, encoder.device
        self.tokens = Rows([row.tokens for row in rows], self.device)
        self.starts = torch.tensor([(row.system, row.user) for row in rows], device=self.device)
        services = {id(row.service): row.service for row in rows}
        numbers = {key: number for number, key in enumerate(services)}
        self.services = torch.tensor([numbers[id(row.service)] for row in rows], device=self.device)
        self.elements = encoder.elements(services.values())

    def batch(self, ids: Tensor) -> BaselineBatch:
        """Makes a batch; ``ids`` are the numbers of its rows, on the CPU."""
        tokens, mask = self.tokens.padded(ids, self.fill)
        ids = ids.to(self.device)
        system, user = self.starts[ids].split(1, 1)
        last = mask.sum(1, keepdim=True) - 1
        columns = torch.arange(tokens.shape[1], device=self.device)
        sources = torch.full_like(tokens, -1)
        sources[:, CLS] = 0
        sources[(columns >= system.clamp(min=1)) & (columns < user - 1)] = 1
        sources[(columns >= user.clamp(min=1)) & (columns < last)] = 2
        elements = Elements(*(column[self.services[ids]] for column in self.elements))
        return BaselineBatch(tokens, mask, (columns >= user).long() * mask, sources, elements)


class Match(nn.Module):
    """Scores pairs of vectors by two layers.

    Args:
      size: the size of vectors.
      options: the number of scores.
    """

    def __init__(self, size: int, options: int) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(size, size), nn.Linear(size, size, bias=False)
        self.scores = nn.Linear(size, options)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """Returns the scores, in single precision; shape (..., options)."""
        scores: Tensor = self.scores(F.gelu(self.left(left) + self.right(right)))
        return scores.float()


class ElementHead(nn.Module):
    """Scores elements for an utterance."""

    def __init__(self, size: int, options: int) -> None:
        super().__init__()
        self.utterance, self.match = nn.Linear(size, size), Match(size, options)

    def forward(self, utterance: Tensor, elements: Tensor) -> Tensor:
        """Returns the scores, of shape (rows, elements, options); utterances have shape (rows, size)."""
        scores: Tensor = self.match(F.gelu(self.utterance(utterance))[:, None], elements)
        return scores


class BaselineHeads(nn.Module):
    """All heads, and a vector for no intent."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.no_intent = nn.Parameter(torch.empty(size))
        nn.init.normal_(self.no_intent, std=0.02)
        self.intents, self.requested, self.values = (ElementHead(size, 1) for _ in range(3))
        self.categorical, self.free = (ElementHead(size, 3) for _ in range(2))  # a score for each status
        self.spans = Match(size, 2)

    def forward(self, utterance: Tensor, tokens: Tensor, batch: BaselineBatch) -> Outputs:
        """Computes the scores from the encodings of the utterances, of shape (rows, size), and of their tokens."""
        elements, rows = batch.elements, torch.arange(len(tokens), device=tokens.device)[:, None]
        places = torch.arange(elements.intents.shape[1], device=tokens.device)
        count = elements.counts[:, :1]
        intents = torch.where((places == count)[..., None], self.no_intent, elements.intents)
        intents = self.intents(utterance, intents).squeeze(-1).masked_fill(places > count, NEVER)
        requested = F.pad(self.requested(utterance, elements.slots), (1, 0))  # the score of "not requested" is 0
        categorical, free = (elements.slots[rows, kind.clamp(min=0)] for kind in (elements.categorical, elements.free))
        slots = torch.arange(categorical.shape[1], device=tokens.device)[:, None]
        values = self.values(utterance, elements.values).mT
        values = torch.where(elements.owners[:, None] == slots, values, NEVER)
        spans = self.spans(tokens[:, None], free[:, :, None])
        spans = spans.masked_fill((batch.sources < 0)[:, None, :, None], NEVER)
        return Outputs(
            intents=intents[:, None],
            requested=requested,
            categorical=self.categorical(utterance, categorical),
            values=values,
            free=self.free(utterance, free),
            starts=spans[..., 0],
            ends=spans[..., 1],
        )


class BaselineNet(nn.Module):
    """The encoder of utterances with its heads."""

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        self.encoder, self.heads = encoder, BaselineHeads(encoder.config.hidden_size)
        self.dropout = nn.Dropout(DROPOUT)
        # RoBERTa has one type of token, DistilBERT none.
        self.typed = getattr(encoder.config, "type_vocab_size", 0) > 1

    def forward(self, batch: BaselineBatch) -> Outputs:
        """Computes the scores of a batch."""
        types = {"token_type_ids": batch.types} if self.typed else {}
        encoded = self.encoder(input_ids=batch.tokens, attention_mask=batch.mask, **types)
        tokens = encoded.last_hidden_state
        pooled = getattr(encoded, "pooler_output", None)  # DistilBERT and ELECTRA have none
        utterance = tokens[:, 0] if pooled is None else pooled
        scores: Outputs = self.heads(self.dropout(utterance), self.dropout(tokens), batch)
        return scores


def loss_of(scores: Outputs, labels: Outputs) -> Tensor:
    """Computes the mean over the outputs of their mean losses; that of an output without any label is 0."""
    losses = []
    for scores_of_output, right in zip(scores, labels, strict=True):
        loss = F.cross_entropy(scores_of_output.flatten(0, 1), right.flatten(), ignore_index=IGNORED, reduction="sum")
        losses.append(loss / (right != IGNORED).sum().clamp(min=1))
    return torch.stack(losses).mean()


def choose(scores: Outputs, batch: BaselineBatch) -> tuple[Outputs, Tensor]:
    """Chooses the best options; also returns how far the closest choice of each row is ahead of the next."""
    elements, leads = batch.elements, []

    def best(scores: Tensor, matters: Tensor) -> Tensor:
        highest = scores.topk(min(2, scores.shape[2]))
        leads.append((highest.values[..., 0] - highest.values[..., -1]).masked_fill(~matters, torch.inf))
        return highest.indices[..., 0]

    slots = torch.arange(scores.requested.shape[1], device=scores.requested.device)
    intents = best(scores.intents, elements.counts[:, :1] >= 0)
    requested = best(scores.requested, slots < elements.counts[:, 1:])
    categorical = best(scores.categorical, elements.categorical >= 0)
    values = best(scores.values, (elements.categorical >= 0) & (categorical == NEW))
    free = best(scores.free, elements.free >= 0)
    sources = batch.sources.repeat_interleave(free.shape[1], 0)
    starts, ends, _, lead = best_spans(scores.starts.flatten(0, 1), scores.ends.flatten(0, 1), sources)
    leads.append(lead.view_as(free).masked_fill((elements.free < 0) | (free != NEW), torch.inf))
    options = Outputs(intents, requested, categorical, values, free, starts.view_as(free), ends.view_as(free))
    return options, torch.cat(leads, 1).amin(1)


class BaselineTracker(Tracker):
    """A model that is ready to predict. Predictions depend only on the history and the frames of the example.

    Args:
      elements: the encoder of the schema's elements.
      net: the net, on the same device.
      length: the maximum number of tokens in an input.
      batch: inputs at a time.
    """

    def __init__(self, elements: ElementEncoder, net: BaselineNet, length: int, batch: int) -> None:
        self.elements, self.net, self.length, self.batch = elements, net, length, batch

    def tracked(self, batch: Sequence[Example]) -> tuple[list[State], int]:
        """Predicts the state of each example; also returns the number of inputs that were cut."""
        dialogues, numbers = rules.longest_of(batch)
        texts = Texts(self.elements.tokenizer, ["", *(text for dialogue in dialogues for _, text in dialogue.history)])
        rows: list[TurnRow] = []
        places: list[tuple[int, int]] = []  # (dialogue, turn) of each row
        for number, dialogue in enumerate(dialogues):
            memory = rules.Memory()
            for turn in rules.follow(dialogue, memory):
                rows += [row_of(texts, turn.exchange, service, self.length) for service in turn.services]
                places += [(number, turn.position)] * len(turn.services)
                memory.conclude({service.service_name: rules.START for service in turn.services}, turn.services)
        last: dict[tuple[int, str], State] = {}
        states: dict[tuple[int, int, str], State] = {}
        for (number, position), row, options in zip(places, rows, self._options(rows), strict=True):
            name = row.service.service_name
            state = next_state(row, options, last.get((number, name), rules.START))
            last[number, name] = states[number, position, name] = state
        return [
            states[number, example.turn, example.service.service_name]
            for example, number in zip(batch, numbers, strict=True)
        ], sum(row.system < 1 for row in rows)

    def _options(self, rows: Sequence[TurnRow]) -> list[Outputs]:
        if not rows:
            return []
        with torch.inference_mode(), saving.enough_memory(self.batch):
            turns = TurnRows(rows, self.elements)

            def decide(numbers: Sequence[int]) -> Iterator[tuple[Outputs, float]]:
                batch = turns.batch(torch.tensor(numbers))
                options, leads = choose(self.net(batch), batch)
                by_row = zip(*(column.tolist() for column in options), strict=True)
                return zip((Outputs(*row) for row in by_row), leads.tolist(), strict=True)

            return settled(by_length(turns.tokens.lengths.tolist(), self.batch), decide)


class BaselineLearner(TrackerLearner):
    """A model with its data.

    Args:
      config: the settings of the training; its inputs are user turns, once for each of their services.
      checkpoint: what the encoder starts from.
      train: frames to learn from; those of a dialogue are adjacent.
      dev: frames that select the best epoch.

    Raises:
      InputError: the checkpoint cannot be loaded.
    """

    def __init__(
        self, config: SgdBaselineConfig, checkpoint: Checkpoint, train: Sequence[Labelled], dev: Sequence[Labelled]
    ) -> None:
        tokenizer, encoder = load_encoder(checkpoint)
        saving.longest(tokenizer, encoder, config.max_length, "--max_length")
        device = saving.device_of(config.device)
        _, fixed = load_encoder(checkpoint)
        self.config = config
        self.elements = ElementEncoder(tokenizer, fixed.to(device), config.max_length)
        self.module = self.net = BaselineNet(encoder).to(device)
        self.optimiser = torch.optim.AdamW(groups_of(self.net.named_parameters()), lr=config.learning_rate, fused=True)
        self._read(train)
        self._dev = some(dev, config.dev_frames, config.seed)
        self._tracker = BaselineTracker(self.elements, self.net, config.max_length, config.batch_size)

    def _read(self, frames: Sequence[Labelled]) -> None:
        texts = Texts(self.elements.tokenizer, ["", *(text for frame in frames for _, text in frame.asked.history)])
        rows, labels = [], []
        for memory, turn, states in labelled_turns(frames):
            for service in turn.services:
                row = row_of(texts, turn.exchange, service, self.config.max_length)
                rows.append(row)
                labels.append(labels_of(row, memory.state(service), states[service.service_name]))
        self.turns = TurnRows(rows, self.elements)
        columns = (
            [torch.tensor(numbers, dtype=torch.long) for numbers in column] for column in zip(*labels, strict=True)
        )
        self.labels = Outputs(*(stacked(column, IGNORED).to(self.elements.device) for column in columns))
        if cut := sum(row.system < 1 for row in rows):
            message = "%s turns are longer than %d tokens: the oldest part of the utterances is cut off"
            logging.warning(message, f"{cut:,}", self.config.max_length)
        lost = ((self.labels.categorical == NEW) & (self.labels.values == IGNORED)).sum()
        if lost := int(lost + (self.labels.starts == CLS).sum()):
            message = "%s values are neither in the last two utterances nor possible values, and cannot be learned"
            logging.warning(message, f"{lost:,}")

    def batches(self, generator: torch.Generator) -> Iterator[Tensor]:
        """Yields the batches of an epoch: all turns."""
        yield from bucketed(self.turns.tokens.lengths, self.config.batch_size, generator)

    def loss(self, batch: Tensor) -> Tensor:
        """Computes the mean loss of all outputs."""
        ids = batch.to(self.elements.device)
        return loss_of(self.net(self.turns.batch(batch)), Outputs(*(column[ids] for column in self.labels)))

    def files(self) -> dict[str, bytes]:
        """Makes the files of the model's folder."""
        encoders = (self.elements.encoder.cpu(), self.net.cpu().encoder)
        written = {
            saving.MODEL: saving.card_bytes(Card(length=self.config.max_length)),
            saving.WEIGHTS: saving.weights_bytes(self.net.heads.state_dict()),
        }
        for part, encoder in zip(PARTS, encoders, strict=True):
            written |= saving.saved(self.elements.tokenizer, encoder, f"{saving.FOLDER}/{part}")
        return written


class Card(saving.Card, frozen=True, kw_only=True):
    """The content of ``model.json``.

    Attributes:
      length: the maximum number of tokens in an input.
    """

    model: str = "sgd_baseline"
    format: int = 1
    length: saving.Positive


PARTS = ("elements", "utterances")


def check(folder: str) -> tuple[Card, list[Checkpoint]]:
    """Checks a folder, except for the weights. Raises InputError if it does not have a model of this kind."""
    saving.check_installed("transformers")
    card = saving.read_card(folder, Card)
    return card, [saving.inside(folder, card.model, f"{saving.FOLDER}/{part}") for part in PARTS]


def load(folder: str, device: str, batch: int) -> BaselineTracker:
    """Loads a model, ready to predict.

    Args:
      folder: the folder that ``parapet train sgd_baseline`` wrote.
      device: ``auto``, ``cpu`` or ``cuda``.
      batch: inputs at a time.

    Raises:
      InputError: the model is missing, of another kind, or damaged.
    """
    card, checkpoints = check(folder)
    (tokenizer, fixed), (_, encoder) = map(load_encoder, checkpoints)
    net = BaselineNet(encoder)
    saving.load_weights(net.heads, folder)
    place = saving.device_of(device)
    return BaselineTracker(
        ElementEncoder(tokenizer, fixed.to(place), card.length), net.to(place).eval(), card.length, batch
    )
