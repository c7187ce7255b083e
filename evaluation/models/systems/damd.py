"""DAMD: three encoders, and decoders for belief span, action span and response (Zhang, Ou and Yu 2020).

A decoder attends to its sources (Bahdanau et al. 2015) and either generates a word of the vocabulary or copies one from
a source (Gu et al. 2016), with one softmax over both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from parapet.evaluation.models import saving
from parapet.evaluation.models.batches import Rows, bucketed, by_length
from parapet.evaluation.models.configs import DamdConfig
from parapet.evaluation.models.saving import MODEL, device_of, enough_memory
from parapet.evaluation.models.systems import damd_encoding as encoding
from parapet.evaluation.models.systems import data
from parapet.evaluation.models.training import Learner

DIGITS = 9  # precision of probabilities; further digits depend on padding


NOTHING = -torch.inf


class Source(NamedTuple):
    """A sequence that a decoder attends to, and may copy from.

    Attributes:
      states: the state of each word; shape (steps, words, hidden).
      mask: whether there is a word; shape (steps, words).
      numbers: the numbers of the words, including those beyond the vocabulary; shape (steps, words).
    """

    states: Tensor
    mask: Tensor
    numbers: Tensor


class Encoder(nn.Module):
    """A bidirectional GRU that adds both directions."""

    def __init__(self, embedding: int, hidden: int) -> None:
        super().__init__()
        self.gru = nn.GRU(embedding, hidden, batch_first=True, bidirectional=True)
        for name, weights in self.gru.named_parameters():
            if name.startswith("weight_hh"):
                _orthogonal(weights)

    def forward(self, embedded: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Computes (state of each word, last state); shapes (steps, words, hidden) and (steps, hidden)."""
        packed = pack_padded_sequence(embedded, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
        states, last = self.gru(packed)
        both = pad_packed_sequence(states, batch_first=True, total_length=mask.shape[1])[0]
        forward, backward = both.chunk(2, 2)
        return forward + backward, last.sum(0)


class Attention(nn.Module):
    """The mean of a source, weighted by a decoder's state."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.both = nn.Linear(2 * hidden, hidden)
        self.score = nn.Linear(hidden, 1, bias=False)

    def keys(self, states: Tensor) -> Tensor:
        """Computes the part of the score that only depends on the source."""
        return F.linear(states, self.both.weight[:, states.shape[2] :], self.both.bias)

    def forward(self, state: Tensor, source: Source, keys: Tensor) -> Tensor:
        """Computes the mean; shape (steps, hidden)."""
        query = F.linear(state, self.both.weight[:, : state.shape[1]])
        scores = self.score(torch.tanh(query[:, None] + keys)).squeeze(2)
        weights = scores.masked_fill(~source.mask, NOTHING).softmax(1)
        return (weights[:, None] @ source.states).squeeze(1)


class Decoder(nn.Module):
    """Generates a span or a response.

    Args:
      words, embedding, hidden: the sizes of the net.
      copied: for each source, whether words can be copied from it.
      pointer: the size of an additional input.
    """

    def __init__(self, words: int, embedding: int, hidden: int, copied: Sequence[bool], pointer: int = 0) -> None:
        super().__init__()
        self.cell = nn.GRUCell(embedding + len(copied) * hidden + pointer, hidden)
        _orthogonal(self.cell.weight_hh)
        self.generate = nn.Linear(hidden, words)
        self.attentions = nn.ModuleList(Attention(hidden) for _ in copied)
        self.copies = nn.ModuleDict({str(i): nn.Linear(hidden, hidden) for i, copy in enumerate(copied) if copy})

    def keys(self, sources: Sequence[Source]) -> list[Tensor]:
        """See :meth:`Attention.keys`."""
        return [attention.keys(source.states) for attention, source in zip(self.attentions, sources, strict=True)]

    def step(
        self, word: Tensor, state: Tensor, pointer: Tensor, sources: Sequence[Source], keys: Sequence[Tensor]
    ) -> Tensor:
        """Computes the state after a word; shape (steps, hidden)."""
        means = [
            a(state, source, source_keys) for a, source, source_keys in zip(self.attentions, sources, keys, strict=True)
        ]
        return torch.as_tensor(self.cell(torch.cat([word, *means, pointer], 1), state))

    def scores(self, states: Tensor, sources: Sequence[Source]) -> tuple[Tensor, Tensor, Tensor]:
        """Scores the possible next words; the softmax is over all of them together.

        Args:
          states: the states of the decoder; shape (steps, places, hidden).
          sources: the sources to copy from.

        Returns:
          The scores of the words of the vocabulary, the scores of the words of sources that can be copied, and the
          numbers of the latter. Shapes (steps, places, vocabulary), (steps, places, words), (steps, words).
        """
        copied = [(layer, sources[int(i)]) for i, layer in self.copies.items()]
        scores = [
            (states @ torch.tanh(layer(source.states)).transpose(1, 2)).masked_fill(~source.mask[:, None], NOTHING)
            for layer, source in copied
        ]
        return self.generate(states), torch.cat(scores, 2), torch.cat([source.numbers for _, source in copied], 1)


class Net(nn.Module):
    """The whole net; see ``docs/models.md``.

    Args:
      words: the size of the vocabulary, including special words.
      embedding: the size of embeddings; ``hidden`` that of states.
    """

    def __init__(self, words: int, embedding: int, hidden: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, embedding)
        self.user, self.utterance, self.span = (Encoder(embedding, hidden) for _ in range(3))
        sizes = words, embedding, hidden
        self.belief = Decoder(*sizes, (True, True, True))  # user, previous response, previous belief span
        self.acts = Decoder(*sizes, (False, True), len(encoding.MATCHES))  # delexicalised user, belief span
        # delexicalised user, belief and action spans
        self.response = Decoder(*sizes, (True, True, True), len(encoding.MATCHES))

    def embedded(self, numbers: Tensor) -> Tensor:
        """Embeds words; those beyond the vocabulary share an embedding."""
        return torch.as_tensor(
            self.embedding(numbers.masked_fill(numbers >= self.embedding.num_embeddings, encoding.UNKNOWN))
        )

    def encoded(self, encoder: Encoder, numbers: Tensor, mask: Tensor) -> tuple[Source, Tensor]:
        """Encodes a sequence as a source; also returns its last state."""
        states, last = encoder(self.embedded(numbers), mask)
        return Source(states, mask, numbers), last

    def decoded(
        self,
        decoder: Decoder,
        first: Tensor,
        sources: Sequence[Source],
        pointer: Tensor | None = None,
        *,
        right: tuple[Tensor, Tensor] | None = None,
        most: int = 0,
        own: int = 0,
    ) -> Source:
        """Runs a decoder on the right words, or greedily up to the end; returns the words with the decoder's states.

        Args:
          decoder: the decoder.
          first: its initial state.
          sources: the sources that it attends to.
          pointer: its additional input; shape (steps, size).
          right: the right words with the end, and whether there is a word; both of shape (steps, words).
          most: without ``right``: the maximum number of words; ``own`` is the number of words beyond the vocabulary.
        """
        pointer = first.new_zeros(len(first), 0) if pointer is None else pointer
        word = torch.full((len(first),), encoding.GO, device=first.device)
        keys, state = decoder.keys(sources), first
        unfinished = torch.ones_like(word, dtype=torch.bool)
        states, masks, numbers = [], [], []
        for place in range(most if right is None else right[0].shape[1]):
            state = decoder.step(self.embedded(word), state, pointer, sources, keys)
            states.append(state)
            if right is not None:
                word = right[0][:, place]
                continue
            word = likeliest(*decoder.scores(state[:, None], sources), own).squeeze(1)
            masks.append(unfinished)
            numbers.append(word)
            unfinished = unfinished & (word != encoding.END)
            if not bool(unfinished.any()):
                break
        words, mask = right or (torch.stack(numbers, 1), torch.stack(masks, 1))
        return Source(torch.stack(states, 1), mask, words)


def likeliest(generated: Tensor, copied: Tensor, numbers: Tensor, own: int) -> Tensor:
    """Returns the most likely word at each place, ties by number; never padding, the beginning or the unknown word.

    Args:
      generated, copied, numbers: see :meth:`Decoder.scores`.
      own: the number of words beyond the vocabulary.
    """
    both = torch.cat([generated, copied], 2)
    probabilities = (both - both.logsumexp(2, keepdim=True)).exp()
    size = generated.shape[2]
    words = F.pad(probabilities[:, :, :size], (0, own))
    words = words.scatter_add(2, numbers[:, None].expand_as(copied), probabilities[:, :, size:])
    words[:, :, [encoding.PAD, encoding.UNKNOWN, encoding.GO]] = -1.0
    return words.round(decimals=DIGITS).argmax(2)


def losses(generated: Tensor, copied: Tensor, numbers: Tensor, right: Tensor) -> Tensor:
    """Computes the negative log-probability of each right word, generated or copied; shape (steps, places).

    Args:
      generated, copied, numbers: see :meth:`Decoder.scores`.
      right: the right words; those beyond the vocabulary must be among those that can be copied.
    """
    size = generated.shape[2]
    by_name = generated.gather(2, right.clamp(max=size - 1)[:, :, None])
    by_name = by_name.masked_fill((right >= size)[:, :, None], NOTHING)
    by_copy = copied.masked_fill(numbers[:, None] != right[:, :, None], NOTHING)
    total = torch.cat([generated, copied], 2).logsumexp(2)
    return total - torch.cat([by_name, by_copy], 2).logsumexp(2)


def _orthogonal(weights: Tensor) -> None:
    """Initialises the recurrent weights of each gate separately, as the authors do."""
    for gate in weights.data.chunk(3):
        nn.init.orthogonal_(gate)


class Card(saving.Card, frozen=True, kw_only=True):
    """The content of ``model.json``.

    Attributes:
      words: the vocabulary.
      surfaces: see :func:`parapet.evaluation.models.systems.damd_encoding.surfaces_of`.
      embedding, hidden: sizes of the net.
      belief, acts, response: the maximum number of words in these outputs, with the end.
    """

    model: str = "damd"
    format: int = 2  # 1 had the maximum lengths in a field of their own
    words: list[str]
    surfaces: dict[str, dict[str, str]]
    embedding: saving.Positive
    hidden: saving.Positive
    belief: saving.Positive
    acts: saving.Positive
    response: saving.Positive


def check(folder: str) -> Card:
    """Checks a folder, except for the weights. Raises InputError if it has no such model, or a damaged one."""
    return saving.read_card(folder, Card)


DECAY = 5e-5  # weight decay


SPARE = 1.25  # the maximum length of outputs, relative to the longest in training


OUTPUTS = ("belief", "acts", "response")


TRAINED = ("previous", "user", "before", "delexicalised", *OUTPUTS)


class Decoded(NamedTuple):
    """The run of a decoder on the right words.

    Attributes:
      decoder: the decoder; ``sources`` the sources that it attended to.
      output: its states, with the right words.
    """

    decoder: Decoder
    sources: list[Source]
    output: Source


class Learned:
    """Training steps as rows of numbers.

    Args:
      steps: the steps as words.
      vocabulary: the vocabulary.
      device: the device of the batches.
    """

    def __init__(self, steps: Sequence[encoding.Texts], vocabulary: encoding.Vocabulary, device: torch.device) -> None:
        numbers = [vocabulary.numbered(step) for step in steps]
        self.rows = {name: Rows([sequences[name] for sequences, _ in numbers], device) for name in TRAINED}
        self.lengths = sum(rows.lengths for rows in self.rows.values())
        self.own = torch.tensor([len(own) for _, own in numbers])
        pointers = torch.zeros(len(steps), len(encoding.MATCHES))
        for row, step in zip(pointers, steps, strict=True):
            if step.matches is not None:
                row[step.matches] = 1
        self.pointers = pointers.to(device)

    def batch(self, ids: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
        """Returns the padded sequences of some steps, and whether there is a word, by name."""
        padded = {name: rows.padded(ids, encoding.PAD) for name, rows in self.rows.items()}
        return {name: (numbers, mask.bool()) for name, (numbers, mask) in padded.items()}


class DamdLearner(Learner):
    """The model with its data.

    Args:
      config: the settings of the training.
      train: steps to learn from.
      dev: steps that select the best epoch.

    Raises:
      InputError: the vocabulary is too small.
    """

    metric = "belief and action spans and response words right"

    def __init__(
        self,
        config: DamdConfig,
        train: Sequence[data.Step],
        dev: Sequence[data.Step],
    ) -> None:
        self.config, self.device = config, torch.device(config.device)
        texts = [encoding.texts_of(step) for step in train]
        self.vocabulary = encoding.vocabulary_of(texts, config.vocabulary)
        self.surfaces = encoding.surfaces_of(train)
        self.net = Net(len(self.vocabulary), config.embedding, config.hidden).to(self.device)
        self.module = self.net
        parameters = self.net.parameters()
        self.optimiser = torch.optim.Adam(parameters, config.learning_rate, weight_decay=DECAY, fused=True)
        self.train = Learned(texts, self.vocabulary, self.device)
        self.longest = {name: int(SPARE * int(self.train.rows[name].lengths.max())) + 1 for name in OUTPUTS}
        self._dev = Learned([encoding.texts_of(step) for step in dev], self.vocabulary, self.device)

    def batches(self, generator: torch.Generator) -> Iterator[Tensor]:
        """Yields the batches of an epoch."""
        return bucketed(self.train.lengths, self.config.batch_size, generator)

    def loss(self, batch: Tensor) -> Tensor:
        """Sums the decoders' mean losses over words."""
        decoded = self._decoded(self.train, batch)
        return sum((_mean_loss(decoding) for decoding in decoded.values()), torch.zeros((), device=self.device))

    def _decoded(self, learned: Learned, batch: Tensor) -> dict[str, Decoded]:
        """Runs the decoders on the right belief spans, action spans and responses."""
        net, rows, pointer = self.net, learned.batch(batch), learned.pointers[batch.to(self.device)]
        user, first = net.encoded(net.user, *rows["user"])
        previous, _ = net.encoded(net.utterance, *rows["previous"])
        before, _ = net.encoded(net.span, *rows["before"])
        encoded_utterance, last = net.encoded(net.utterance, *rows["delexicalised"])
        belief = self._taught(net.belief, rows["belief"], first, [user, previous, before])
        acts = self._taught(net.acts, rows["acts"], last, [encoded_utterance, belief.output], pointer)
        sources = [encoded_utterance, belief.output, acts.output]
        response = self._taught(net.response, rows["response"], last, sources, pointer)
        return {"belief": belief, "acts": acts, "response": response}

    def _taught(
        self,
        decoder: Decoder,
        right: tuple[Tensor, Tensor],
        first: Tensor,
        sources: list[Source],
        pointer: Tensor | None = None,
    ) -> Decoded:
        return Decoded(decoder, sources, self.net.decoded(decoder, first, sources, pointer, right=right))

    def dev(self) -> float:
        """Averages three shares on dev: correct belief spans, correct action spans, and correct response words."""
        right: Mapping[str, list[int]] = {name: [] for name in OUTPUTS}
        for ids in by_length(self._dev.lengths.tolist(), self.config.batch_size):
            batch = torch.tensor(ids)
            own = int(self._dev.own[batch].max())
            for name, parts in self._decoded(self._dev, batch).items():
                words = likeliest(*parts.decoder.scores(parts.output.states, parts.sources), own)
                good, mask = words == parts.output.numbers, parts.output.mask
                shares = good[mask] if name == "response" else (good | ~mask).all(1)
                right[name].extend(shares.long().tolist())
        return sum(sum(are_right) / max(1, len(are_right)) for are_right in right.values()) / len(right)

    def files(self) -> dict[str, bytes]:
        """Makes the files of the model's folder."""
        card = Card(
            words=self.vocabulary.words,
            surfaces=self.surfaces,
            embedding=self.config.embedding,
            hidden=self.config.hidden,
            belief=self.longest["belief"],
            acts=self.longest["acts"],
            response=self.longest["response"],
        )
        return {MODEL: saving.card_bytes(card), saving.WEIGHTS: saving.weights_bytes(self.net.state_dict())}


def _mean_loss(decoded: Decoded) -> Tensor:
    output = decoded.output
    generated, copied, numbers = decoded.decoder.scores(output.states, decoded.sources)
    loss = losses(generated.float(), copied.float(), numbers, output.numbers)[output.mask]
    return loss.sum() / max(1, len(loss))


class Damd:
    """A model whose answer to a turn does not depend on other dialogues; it computes in double precision.

    Args:
      card: the card of the model.
      net: with its weights.
      database: is queried between belief span and action span.
      device: the device to use.
      batch: turns at a time.
    """

    def __init__(self, card: Card, net: Net, database: data.Database, device: torch.device, batch: int) -> None:
        self.card, self.net = card, net.double().to(device).eval()
        self.vocabulary = encoding.Vocabulary(card.words[len(encoding.SPECIAL) :])
        self.database, self.device, self.batch = database, device, batch

    def answers(self, steps: Sequence[data.Step]) -> list[data.Reply]:
        """Replies to each turn.

        Turns of a dialogue must be adjacent, as each starts from the preceding belief state.
        """
        dialogues = [list(group) for _, group in groupby(range(len(steps)), lambda i: steps[i].dialogue_id)]
        dialogue_numbers = {i: number for number, dialogue in enumerate(dialogues) for i in dialogue}
        replies: dict[int, data.Reply] = {}
        before: dict[int, tuple[data.Part, ...]] = {}
        with enough_memory(self.batch), torch.inference_mode():
            for batch in self._batches(dialogues):
                questions = [
                    msgspec.structs.replace(steps[i], before=before.get(dialogue_numbers[i], ())) for i in batch
                ]
                for i, (reply, belief) in zip(batch, self._answers(questions), strict=True):
                    replies[i], before[dialogue_numbers[i]] = reply, belief
        return [replies[i] for i in range(len(steps))]

    def _batches(self, dialogues: Sequence[Sequence[int]]) -> Iterator[list[int]]:
        """Yields the first turns of all dialogues, then the second ones, and so on."""
        for turn in range(max(map(len, dialogues), default=0)):
            wave = [dialogue[turn] for dialogue in dialogues if turn < len(dialogue)]
            for first in range(0, len(wave), self.batch):
                yield wave[first : first + self.batch]

    def _answers(self, steps: Sequence[data.Step]) -> list[tuple[data.Reply, tuple[data.Part, ...]]]:
        """Replies to turns of different dialogues; also returns their belief states."""
        net, card = self.net, self.card
        texts = [encoding.asked_of(step) for step in steps]
        numbers = [self.vocabulary.numbered(text) for text in texts]
        user, first = self._encoded("user", [sequences["user"] for sequences, _ in numbers])
        previous, _ = self._encoded("utterance", [sequences["previous"] for sequences, _ in numbers])
        before, _ = self._encoded("span", [sequences["before"] for sequences, _ in numbers])
        own = max(len(words) for _, words in numbers)
        belief = net.decoded(net.belief, first, [user, previous, before], most=card.belief, own=own)
        spans = [
            encoding.spelled(encoding.parts_of(words), step.before, card.surfaces, encoding.said_last(step))
            for words, step in zip(self._words(belief, [own_words for _, own_words in numbers]), steps, strict=True)
        ]
        states = [data.belief_of(parts) for parts in spans]
        matches = [
            encoding.matches_of(step.before, parts, data.database_parts(state, self.database))
            for step, parts, state in zip(steps, spans, states, strict=True)
        ]
        pointers = [[float(match == n) for n in range(len(encoding.MATCHES))] for match in matches]
        pointer = torch.tensor(pointers, dtype=torch.float64, device=self.device)
        texts = [
            msgspec.structs.replace(words, delexicalised=encoding.delexicalised(words.user, parts))
            for words, parts in zip(texts, spans, strict=True)
        ]
        numbers = [self.vocabulary.numbered(text) for text in texts]
        own = max(len(words) for _, words in numbers)
        encoded_utterance, first = self._encoded("utterance", [sequences["delexicalised"] for sequences, _ in numbers])
        sources = [encoded_utterance, belief]
        acts = net.decoded(net.acts, first, sources, pointer, most=card.acts, own=own)
        response = net.decoded(net.response, first, [*sources, acts], pointer, most=card.response, own=own)
        names = [own_words for _, own_words in numbers]
        answers = zip(states, self._words(acts, names), self._words(response, names), strict=True)
        replies = [
            data.Reply(state, " ".join(words), encoding.is_long(step), data.acts_of(encoding.parts_of(span)))
            for step, (state, span, words) in zip(steps, answers, strict=True)
        ]
        return list(zip(replies, spans, strict=True))

    def _encoded(self, name: str, rows: Sequence[Sequence[int]]) -> tuple[Source, Tensor]:
        numbers, mask = Rows(rows, self.device).padded(torch.arange(len(rows)), encoding.PAD)
        encoder: Encoder = getattr(self.net, name)
        encoded: tuple[Source, Tensor] = self.net.encoded(encoder, numbers, mask.bool())
        return encoded

    def _words(self, written: Source, own: Sequence[Sequence[str]]) -> list[list[str]]:
        """Returns the generated words, without the end."""
        rows = zip(written.numbers.tolist(), written.mask.tolist(), own, strict=True)
        return [
            self.vocabulary.text(
                [number for number, kept in zip(numbers, mask, strict=True) if kept and number != encoding.END], words
            )
            for numbers, mask, words in rows
        ]


def load(folder: str, database: data.Database, device: str, batch: int) -> Damd:
    """Loads a model, ready to answer.

    Args:
      folder: the folder of the model.
      database: the database to query.
      device: ``auto``, ``cpu`` or ``cuda``.
      batch: turns at a time.

    Raises:
      InputError: the model is missing, of another kind, or damaged.
    """
    card = check(folder)
    net = Net(len(card.words), card.embedding, card.hidden)
    saving.load_weights(net, folder)
    return Damd(card, net, database, device_of(device), batch)
