"""A small tracker for demonstrations, not from a paper: it scores parts of the dialogue as values of a schema's slots.

Candidate values are the sequences of up to four words in the dialogue, and the values listed in the schema. Slots and
words are compared by vectors that are learned from scratch, and by shared words.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Annotated

import msgspec
import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from parapet.evaluation.dst.frames import State
from parapet.evaluation.dst.model import Example
from parapet.evaluation.models import saving
from parapet.evaluation.models.batches import bucketed
from parapet.evaluation.models.configs import LARGEST, TinyConfig
from parapet.evaluation.models.dst.data import Labelled, joint_goal_accuracy
from parapet.evaluation.models.saving import MODEL, WEIGHTS, device_of, enough_memory
from parapet.evaluation.models.training import Learner
from parapet.schemas.service import Intent, Service, Slot
from parapet.transforms.reports.text import name_words

BUCKETS = 8192  # rows of the table of embeddings; 0 is padding
LONGEST = 4  # words in a mention
BESIDE = 3  # context words on each side of a mention
TURNS = 8  # last turns, from which values are taken
NONE, ANY = 0, 1  # options of a slot: no value, any value; mentions follow
NO_INTENT, DONTCARE = "NONE", "dontcare"
FREE, OWNED = 1, 2  # owners of mentions: free slots, or a categorical slot; padding has none
NEVER = -1e4  # the score of impossible choices, also in half precision
DIGITS = 9  # precision of scores; further digits depend on padding
DROP = 0.3  # dropout of embeddings
FILLED = 2.0  # weight in the loss of slots with a value, relative to those without
FLAGS = 12  # features of a mention
CONTEXTS = 5  # contexts of a mention, see Frame
SEEN, HIDDEN = 8, 32

_MARKS = "?!.;,"
_TOKEN = re.compile(r"\$?\d+(?:[:.,/]\d+)*|[^\W_](?:[^\W_]|['’&-](?=[^\W_]))*|[?!.;,]")
_ENDING = re.compile("(?<=[a-z]{3})(?:ies|ing|ed|ly|es|s|e|y)$")
_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_IDLE = frozenset(  # no value begins or ends with these
    re.findall(
        r"\S+",
        """a about also an and any are as at be book but by can check could did do does find for from get give go have
        hello hi how i i'd i'll i'm i've if in is it it's just know let like look looking make me my need no not of ok
        okay on or please reserve right see should so some sure tell than thank thanks that that's the their them then
        there they this to up want was we what what's when where which who will with would yeah yes you your""",
    )
)


def stem(word: str) -> str:
    """Strips the ending of a word and lower-cases it; numbers in words become digits."""
    small = word.lower().replace("’", "'").removesuffix("'s")
    return str(_NUMBERS.index(small) + 1) if small in _NUMBERS else _ENDING.sub("", small)


@lru_cache(maxsize=1 << 16)
def normal(text: str) -> str:
    """Normalises a value, so that different spellings of the same value become equal."""
    return " ".join(stem(word) for word in _TOKEN.findall(text) if word not in _MARKS) or text.lower()


@lru_cache(maxsize=1 << 16)
def row_of(word: str) -> int:
    """Returns the row of a word in the table, the same on every machine.

    Numbers with equally many digits share a row.
    """
    return 1 + zlib.crc32(re.sub(r"\d", "0", stem(word)).encode("utf-8", "replace")) % (BUCKETS - 1)


class Said(msgspec.Struct, frozen=True):
    """An utterance.

    Attributes:
      rows: the rows of its words and punctuation.
      spans: for each mention, the first word and the one after the last; ``texts`` are the texts of mentions.
      flags: the features of each mention.
      question: the words of its last question, as a span.
    """

    rows: list[int]
    spans: list[tuple[int, int]]
    texts: list[str]
    flags: list[tuple[float, ...]]
    question: tuple[int, int]


@lru_cache(maxsize=1 << 15)
def read(utterance: str, is_user: bool) -> Said:
    """Reads an utterance. A system's mentions must have a capital or a digit, as systems name things."""
    matches = list(_TOKEN.finditer(utterance))
    words = [match[0] for match in matches]
    count, marks = len(words), [word in _MARKS for word in words]
    begins = [i == 0 or marks[i - 1] for i in range(count)]
    telling = [not word[0].islower() and not mark for word, mark in zip(words, marks, strict=True)]
    idle = [mark or word.lower() in _IDLE for word, mark in zip(words, marks, strict=True)]
    spans = [
        (first, behind)
        for first in range(count)
        for behind in range(first + 1, min(first + LONGEST, count) + 1)
        if not (idle[first] or idle[behind - 1] or any(marks[first:behind])) and (is_user or any(telling[first:behind]))
    ]
    flags: list[tuple[float, ...]] = [
        (
            all(telling[first:behind]),
            any(telling[first:behind]),
            not begins[first] and telling[first - 1],
            behind < count and telling[behind],
            begins[first] and (behind == count or marks[behind]),
            words[first][0].isdigit(),
            (behind - first) / LONGEST,
        )
        for first, behind in spans
    ]
    end = max((i for i, word in enumerate(words) if word == "?"), default=0)
    start = max((i + 1 for i in range(end) if words[i] in "?!.;"), default=0)
    texts = [utterance[matches[first].start() : matches[behind - 1].end()] for first, behind in spans]
    return Said([row_of(word) for word in words], spans, texts, flags, (start, end))


class Frame(msgspec.Struct, frozen=True):
    """A service's inputs after a user turn, as rows of words and spans of them.

    Attributes:
      rows: the rows of the dialogue, then of the schema.
      mentions: for each mention the spans of its words, of those to its left and right, of the turns before and after.
      slots, intents: their spans; ``heard`` those of the user's turn, its question, and the preceding turn.
      shared: whether each slot has each row's word; ``categorical`` whether each slot lists its values.
      flags: the features of each mention.
      owner: for each mention ``FREE``, or ``OWNED`` and the number of the categorical slot that lists it.
      texts: the texts of the mentions.
    """

    service: Service
    rows: NDArray[np.int64]
    mentions: NDArray[np.int64]
    slots: NDArray[np.int64]
    intents: NDArray[np.int64]
    heard: NDArray[np.int64]
    shared: NDArray[np.bool_]
    categorical: NDArray[np.bool_]
    flags: NDArray[np.float32]
    owner: NDArray[np.int64]
    texts: list[str]


def encode(asked: Example) -> Frame:
    """Encodes the words of an example."""
    service, history = asked.service, asked.history[-TURNS:]
    turns = [read(utterance, speaker == "USER") for speaker, utterance in history]
    places = [*pairwise([0, *accumulate(len(turn_here.rows) for turn_here in turns)])]
    rows = [row for turn_here in turns for row in turn_here.rows]
    mentions: list[tuple[tuple[int, int], ...]] = []
    flags: list[tuple[float, ...]] = []
    texts: list[str] = []
    for number, ((speaker, _), turn_here, (start, end)) in enumerate(zip(history, turns, places, strict=True)):
        is_user, age = speaker == "USER", len(turns) - 1 - number
        before = places[number - 1] if number else (0, 0)
        after = places[min(number + (not is_user), len(turns) - 1)]
        for first, behind in ((start + first, start + behind) for first, behind in turn_here.spans):
            left, right = (max(start, first - BESIDE), first), (behind, min(end, behind + BESIDE))
            mentions.append(((first, behind), left, right, before, after))
        flags += [(*flag, is_user, age == 0, age == 1, age / TURNS, False) for flag in turn_here.flags]
        texts += turn_here.texts
    owner, last = [FREE] * len(texts), {normal(text): number for number, text in enumerate(texts)}
    turn, before = places[-1], places[-2] if len(turns) > 1 else (0, 0)

    def add(words: Sequence[str]) -> tuple[int, int]:
        rows.extend(row_of(word) for word in words)
        return len(rows) - len(words), len(rows)

    for number, slot in enumerate(service.slots):
        for value in slot.possible_values if slot.is_categorical else ():
            said_as = last.get(normal(value))
            near = ((0, 0), (0, 0), before, turn) if said_as is None else mentions[said_as][1:]
            look = (0.0,) * (FLAGS - 1) if said_as is None else flags[said_as][:-1]
            mentions.append((add(_TOKEN.findall(value)), *near))
            flags.append((*look, True))
            texts.append(value)
            owner.append(OWNED + number)
    elements: list[Slot | Intent] = [*service.slots, *service.intents]
    described = [add([*name_words(element.name), *_TOKEN.findall(element.description)]) for element in elements]
    question = (turn[0] + turns[-1].question[0], turn[0] + turns[-1].question[1])
    count = len(service.slots)
    words = np.zeros((BUCKETS, count), dtype=np.bool_)
    for number, (first, behind) in enumerate(described[:count]):
        words[rows[first:behind], number] = True
    return Frame(
        service=service,
        rows=np.array(rows, dtype=np.int64),
        mentions=np.array(mentions, dtype=np.int64).reshape(-1, CONTEXTS, 2),
        slots=np.array(described[:count], dtype=np.int64).reshape(-1, 2),
        intents=np.array(described[count:], dtype=np.int64).reshape(-1, 2),
        heard=np.array([turn, question, before], dtype=np.int64),
        shared=words[rows],
        categorical=np.array([slot.is_categorical for slot in service.slots], dtype=np.bool_),
        flags=np.array(flags, dtype=np.float32).reshape(-1, FLAGS),
        owner=np.array(owner, dtype=np.int64),
        texts=texts,
    )


class Scores(msgspec.Struct, frozen=True):
    """The scores for each option of each slot, for none and each intent, and for each slot being requested.

    Shapes (frames, slots, options), (frames, intents), (frames, slots); padding cannot be chosen.
    """

    options: Tensor
    intents: Tensor
    requested: Tensor


class TinyNet(nn.Module):
    """The net.

    Args:
      size: the size of embeddings.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.words = nn.Embedding(BUCKETS, size, padding_idx=0)
        self.alike = nn.ModuleList(nn.Linear(size, size) for _ in range(CONTEXTS))
        self.seen = nn.Linear(2 * size, SEEN)
        self.mention = _layers(2 * CONTEXTS + FLAGS + SEEN + 1, 1)
        self.fixed = _layers(2 * size, 2)
        self.intent, self.no_intent = _layers(3 * size, 1), nn.Linear(2 * size, 1)
        self.requested = _layers(2 * size + 1, 1)
        with torch.no_grad():
            self.fixed[-1].bias[NONE] = 5.0  # most slots have no value, and few mentions are values

    def forward(self, frames: Sequence[Frame]) -> Scores:
        """Computes the scores of frames, which do not depend on each other."""

        def padded(name: str, fill: int = 0) -> Tensor:
            rows = [torch.from_numpy(getattr(frame, name)) for frame in frames]
            return pad_sequence(rows, batch_first=True, padding_value=fill).to(self.words.weight.device)

        rows, mentions, owner, slots, intents = map(padded, ("rows", "mentions", "owner", "slots", "intents"))
        vectors = F.dropout(self.words(rows), DROP, self.training)
        heard = padded("heard")
        spans = torch.cat([heard, slots, intents, mentions.flatten(1, 2)], 1)
        means = sums(vectors, spans) / (spans[..., 1] - spans[..., 0]).clamp(min=1)[..., None]
        sizes = [1, 1, 1, slots.shape[1], intents.shape[1], mentions.shape[1] * CONTEXTS]
        turn, question, before, slot, intent, near = means.split(sizes, 1)
        near = near.unflatten(1, mentions.shape[1:3])
        shared = torch.zeros(*rows.shape, slots.shape[1], device=rows.device, dtype=vectors.dtype)
        for number, frame in enumerate(frames):
            shared[number, : len(frame.rows), : len(frame.slots)] = torch.from_numpy(frame.shared)
        alike = [layer(slot) @ near[:, :, i].mT / slot.shape[2] ** 0.5 for i, layer in enumerate(self.alike)]
        common = sums(shared, mentions).clamp(max=2).permute(0, 3, 1, 2)
        look = torch.cat([padded("flags").to(vectors), torch.relu(self.seen(near[:, :, [0, 4]].flatten(2)))], 2)
        categorical = padded("categorical")[:, :, None]
        kind = categorical[..., None].expand(-1, -1, owner.shape[1], 1)
        features = [torch.stack(alike, 3), common, look[:, None].expand(-1, slot.shape[1], -1, -1), kind.to(vectors)]
        numbers = torch.arange(slot.shape[1], device=rows.device)[:, None]
        able = (owner[:, None] == numbers + OWNED) | ((owner[:, None] == FREE) & ~categorical)
        options = self.mention(torch.cat(features, 3)).squeeze(3).masked_fill(~able, NEVER)
        fixed = self.fixed(torch.cat([slot, slot * turn], 2))
        asks = sums(shared, heard[:, 1:2]).clamp(max=2).mT
        requested = self.requested(torch.cat([slot * question, question.expand_as(slot), asks], 2))
        named = self.intent(torch.cat([intent * turn, intent * before, intent], 2)).squeeze(2)
        named = named.masked_fill(intents[..., 1] == 0, NEVER)
        none = self.no_intent(torch.cat([turn, before], 2)).squeeze(2)
        return Scores(torch.cat([fixed, options], 2), torch.cat([none, named], 1), requested.squeeze(2))


def _layers(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, outputs))


def sums(vectors: Tensor, spans: Tensor) -> Tensor:
    """Sums the vectors of each span of a frame; spans of shape (frames, ..., 2) to (frames, ..., size)."""
    running = F.pad(vectors.cumsum(1), (0, 0, 1, 0))
    owners = torch.arange(len(spans), device=spans.device).view(-1, *[1] * (spans.dim() - 2))
    return running[owners, spans[..., 1]] - running[owners, spans[..., 0]]


def right_options(frame: Frame, state: State) -> NDArray[np.bool_]:
    """Marks the right options of each slot; none if its value is not in the dialogue. Shape (slots, options)."""
    right = np.zeros((len(frame.slots), 2 + len(frame.texts)), dtype=np.bool_)
    texts = [normal(text) for text in frame.texts]
    for number, slot in enumerate(frame.service.slots):
        values = state.slot_values.get(slot.name) or []
        right[number, NONE], right[number, ANY] = not values, values[:1] == [DONTCARE]
        if values:
            wanted = {normal(value) for value in values}
            owned = frame.owner == (number + OWNED if slot.is_categorical else FREE)
            right[number, 2:] = owned & [text in wanted for text in texts]
    return right


def losses(frames: Sequence[Frame], scores: Scores, states: Sequence[State]) -> Tensor:
    """Computes the loss of values, of the intent and of requested slots; the mean over the frames."""
    device = scores.options.device
    right = torch.zeros(scores.options.shape, dtype=torch.bool)
    asks, is_active = torch.zeros(scores.requested.shape), torch.zeros(scores.requested.shape)
    intents = []
    for i, (frame, state) in enumerate(zip(frames, states, strict=True)):
        slots, names = frame.service.slots, [intent.name for intent in frame.service.intents]
        right[i, : len(slots), : 2 + len(frame.texts)] = torch.from_numpy(right_options(frame, state))
        asks[i, : len(slots)] = torch.tensor([float(slot.name in state.requested_slots) for slot in slots])
        is_active[i, : len(slots)] = 1
        intents.append(1 + names.index(state.active_intent) if state.active_intent in names else 0)
    right, asks, is_active = right.to(device), asks.to(device), is_active.to(device)
    logs = scores.options.float().log_softmax(2).masked_fill(~right, NEVER).logsumexp(2)
    values = -(logs * right.any(2) * torch.where(right[..., NONE], 1.0, FILLED)).sum()
    requested = F.binary_cross_entropy_with_logits(scores.requested.float(), asks, is_active, reduction="sum")
    intent = F.cross_entropy(scores.intents.float(), torch.tensor(intents, device=device), reduction="sum")
    return (values + requested + intent) / len(frames)


class TinyLearner(Learner):
    """The net with its data; an example is a dialogue.

    Args:
      config: the settings of the training.
      train: frames to learn from.
      dev: frames that select the best epoch.
    """

    metric = "joint goal accuracy"

    def __init__(
        self,
        config: TinyConfig,
        train: Sequence[Labelled],
        dev: Sequence[Labelled],
    ) -> None:
        self.config, self._dev = config, list(dev)
        self.module = TinyNet(config.size).to(torch.device(config.device))
        self.dialogues = list(grouped(train))
        self._tracker = Tracker(self.module, config.batch_size)
        self.optimiser = torch.optim.Adam(self.module.parameters(), lr=config.learning_rate, fused=True)

    def batches(self, generator: torch.Generator) -> Iterator[Tensor]:
        """Yields the batches of an epoch."""
        lengths = torch.tensor([len(frames) for frames in self.dialogues])
        return bucketed(lengths, self.config.batch_size, generator)

    def loss(self, batch: Tensor) -> Tensor:
        """Computes the mean loss of the frames."""
        labelled = [frame for number in batch.tolist() for frame in self.dialogues[number]]
        frames = [encode(frame.asked) for frame in labelled]
        return losses(frames, self.module(frames), [frame.state for frame in labelled])

    def dev(self) -> float:
        """Computes joint goal accuracy on dev."""
        return joint_goal_accuracy(self._tracker, self._dev)

    def files(self) -> dict[str, bytes]:
        """Makes the files of the model's folder."""
        card = Card(buckets=BUCKETS, size=self.config.size)
        return {MODEL: saving.card_bytes(card), WEIGHTS: saving.weights_bytes(self.module.state_dict())}


def grouped(frames: Sequence[Labelled]) -> Iterator[list[Labelled]]:
    """Groups frames by dialogue and service; each history continues the previous one."""
    groups: dict[tuple[str, str], list[Labelled]] = {}
    for frame in frames:
        requested = frame.asked
        place = requested.dialogue_id, requested.service.service_name
        if place in groups:
            before = groups[place][-1].asked
            if before.service != requested.service or requested.history[: len(before.history)] != before.history:
                yield groups.pop(place)
        groups.setdefault(place, []).append(frame)
    yield from groups.values()


class Card(saving.Card, frozen=True, kw_only=True):
    """The content of ``model.json``: the number and the size of embeddings."""

    model: str = "tiny_dst"
    format: int = 2  # 1 was a larger net
    buckets: int
    size: Annotated[int, msgspec.Meta(ge=1, le=LARGEST)]


class Tracker:
    """A tracker that predicts each state from its history only.

    A loaded net computes in double precision, so that the rest of the batch does not change a state.

    Args:
      net: the net, on its device.
      batch: frames at a time.
    """

    def __init__(self, net: TinyNet, batch: int) -> None:
        self.net, self.batch = net, batch

    def predict(self, batch: Sequence[Example]) -> list[State]:
        """Predicts a state for each example."""
        states: list[State] = []
        with enough_memory(f"lower --batch_size, which is {self.batch}"), torch.inference_mode():
            for first in range(0, len(batch), self.batch):
                frames = [encode(question) for question in batch[first : first + self.batch]]
                scores = self.net(frames)
                options, intents = (each.round(decimals=DIGITS) for each in (scores.options, scores.intents))
                best = (options.argmax(2), intents.argmax(1), scores.requested > 0)
                states += map(_state, frames, *(tensor.tolist() for tensor in best))
        return states


def _state(frame: Frame, options: Sequence[int], intent: int, requested: Sequence[bool]) -> State:
    """Makes the state with the highest scores."""
    slots, texts = frame.service.slots, [None, DONTCARE, *frame.texts]
    values = {slot.name: [text] for slot, option in zip(slots, options, strict=False) if (text := texts[option])}
    named = frame.service.intents[intent - 1].name if intent else NO_INTENT
    return State(
        named, [slot.name for slot, is_requested in zip(slots, requested, strict=False) if is_requested], values
    )


def check(folder: str) -> None:
    """Checks a folder. Raises InputError if it does not have such a model, or it is damaged."""
    load(folder, "cpu", 1)  # the model is small enough to load it


def load(folder: str, device: str, batch: int) -> Tracker:
    """Loads a model, ready to predict.

    Args:
      folder: the folder that ``parapet train tiny_dst`` wrote.
      device: ``auto``, ``cpu`` or ``cuda``.
      batch: frames at a time.

    Raises:
      InputError: the model is missing, of another kind, or damaged.
    """
    card = saving.read_card(folder, Card)
    net = TinyNet(card.size)
    saving.load_weights(net, folder)
    return Tracker(net.double().to(device_of(device)).eval(), batch)
