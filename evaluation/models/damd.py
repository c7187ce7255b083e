"""DAMD: three encoders, and decoders for belief span, action span and response (Zhang, Ou and Yu 2020).

A decoder attends to its sources (Bahdanau et al. 2015) and either generates a word of the vocabulary or copies one from
a source (Gu et al. 2016), with one softmax over both. The encoders treat words beyond the vocabulary as unknown. Within
a step, each has its own number, so that decoders can copy it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from parapet.evaluation.models import configs, saving, systems, training
from parapet.evaluation.models.saving import MODEL, device_of, enough_memory
from parapet.evaluation.response.goals import plain_name
from parapet.schemas.errors import InputError

PAD, UNKNOWN, GO, END = range(4)
SPECIAL = ("<pad>", "<unknown>", "<go>", "<end>")
MATCHES = ("none", "one", "few", "many")  # in the database
LONGEST = 200  # words of an utterance; only the last ones are read

_WORD = re.compile(r"\w+(?:[.,:'’-]\w+)*|[^\w\s]")
_DELEXICALISED = re.compile(rf"\[[^\[\]\s]+\]|{_WORD.pattern}")


def words_of(text: str) -> list[str]:
    """Splits an utterance or a value into lower-cased words and punctuation."""
    return [word for word, _ in _spans(text)]


def _spans(text: str) -> list[tuple[str, tuple[int, int]]]:
    """Splits a text into words with their positions.

    Lone surrogates, which model files cannot hold, become question marks.
    """
    return [(match[0].lower(), match.span()) for match in _WORD.finditer(text.encode("utf-8", "replace").decode())]


def response_words(text: str) -> list[str]:
    """Splits a delexicalised response into words; a placeholder is one word."""
    return [word.lower() for word in _DELEXICALISED.findall(text.encode("utf-8", "replace").decode())]


def span_of(parts: Iterable[systems.Part]) -> list[str]:
    """Flattens a belief or action span: one word for each name, such as ``<|slot|>city``, and the words of values."""
    return [word for mark, text in parts for word in (words_of(text) if mark == systems.VALUE else [f"{mark}{text}"])]


def parts_of(span: Sequence[str]) -> list[systems.Part]:
    """Parses a span into parts; the words of a value are joined by spaces."""
    parts: list[systems.Part] = []
    for word in span:
        mark = next((mark for mark in systems.MARKS if word.startswith(mark)), None)
        if mark:
            parts.append((mark, word.removeprefix(mark)))
        elif parts and parts[-1][0] == systems.VALUE:
            parts[-1] = systems.VALUE, f"{parts[-1][1]} {word}"
        else:
            parts.append((systems.VALUE, word))
    return parts


def delexicalised(utterance: Sequence[str], belief: Iterable[systems.Part]) -> list[str]:
    """Replaces the values of the belief state in a user's utterance by placeholders, the longest first.

    Args:
      utterance: its words.
      belief: the parts of the following belief state.
    """
    words = list(utterance)
    for _, value, name in sorted(((-len(value), value, name) for name, value in _named(belief))):
        n = len(value)
        first = next((i for i in range(len(words) - n + 1) if words[i : i + n] == value), None)
        if n and first is not None:
            words[first : first + n] = [name]
    return words


def _named(belief: Iterable[systems.Part]) -> Iterator[tuple[str, list[str]]]:
    """Yields (placeholder, words of the value) of each slot."""
    service = slot = ""
    for mark, text in belief:
        if mark == systems.SERVICE:
            service = text
        elif mark == systems.SLOT:
            slot = text
        elif mark == systems.VALUE:
            yield f"[{plain_name(f'{service}_{slot}')}]", words_of(text)


def spelled(
    parts: Iterable[systems.Part],
    before: Iterable[systems.Part],
    known: Mapping[str, Mapping[str, str]],
    said: Sequence[str],
) -> tuple[systems.Part, ...]:
    """Spells the values of a belief state as before, as in training, or as in the utterances.

    Args:
      parts: the generated parts, in lower-cased words.
      before: the belief state after the user's previous turn.
      known: from :func:`surfaces_of`.
      said: the utterances that values can be copied from, the newest first.
    """
    earlier = {" ".join(words_of(text)): text for mark, text in before if mark == systems.VALUE}
    slot, spelled_parts = "", list[systems.Part]()
    for mark, text in parts:
        slot = text if mark == systems.SLOT else slot
        if mark == systems.VALUE:
            text = earlier.get(text) or known.get(slot, {}).get(text) or _found_in(text, said) or text
        spelled_parts.append((mark, text))
    return tuple(spelled_parts)


def _found_in(value: str, said: Iterable[str]) -> str | None:
    """Returns the spelling of a value in the first utterance that has it."""
    words = value.split(" ")
    for text in said:
        spans = _spans(text)
        for i in range(len(spans) - len(words) + 1):
            if [word for word, _ in spans[i : i + len(words)]] == words:
                return text[spans[i][1][0] : spans[i + len(words) - 1][1][1]]
    return None


def surfaces_of(steps: Iterable[systems.Step]) -> dict[str, dict[str, str]]:
    """Returns slot to the joined words of training values to their most frequent spelling, where it differs."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for step in steps:
        slot = ""
        for mark, text in step.belief:
            slot = text if mark == systems.SLOT else slot
            if mark == systems.VALUE:
                counts.setdefault((slot, " ".join(words_of(text))), Counter())[text] += 1
    surfaces: dict[str, dict[str, str]] = {}
    for (slot, words), ways in sorted(counts.items()):
        best = min(ways, key=lambda way: (-ways[way], way))
        if best != words:
            surfaces.setdefault(slot, {})[words] = best
    return surfaces


class Texts(msgspec.Struct, frozen=True):
    """A step as words.

    Attributes:
      previous: the system's preceding utterance; ``user`` is the user's.
      before: the belief span of the user's previous turn.
      delexicalised: the user's utterance without the values of the belief state.
      belief, acts, response: the outputs; the response is None if there is none.
      matches: the number of entities of the turn's service, by ``MATCHES``; None without a service.
    """

    previous: list[str]
    user: list[str]
    before: list[str]
    delexicalised: list[str] = []
    belief: list[str] = []
    acts: list[str] = []
    response: list[str] | None = None
    matches: int | None = None


def texts_of(step: systems.Step) -> Texts:
    """Encodes a step with all outputs to learn."""
    requested = asked_of(step)
    return msgspec.structs.replace(
        requested,
        delexicalised=delexicalised(requested.user, step.belief),
        belief=span_of(step.belief),
        acts=span_of(step.acts),
        response=None if step.response is None else response_words(step.response)[:LONGEST],
        matches=matches_of(step.before, step.belief, step.database),
    )


def asked_of(step: systems.Step) -> Texts:
    """Encodes the parts of a step that are known before the prediction."""
    user, previous = said_last(step)
    return Texts(words_of(previous)[-LONGEST:], words_of(user)[-LONGEST:], span_of(step.before))


def is_long(step: systems.Step) -> bool:
    """Whether one of the utterances is cut."""
    return any(len(words_of(text)) > LONGEST for text in said_last(step))


def said_last(step: systems.Step) -> tuple[str, str]:
    """Returns (user's utterance, system's preceding utterance, empty for none)."""
    return step.history[-1][1], step.history[-2][1] if len(step.history) > 1 else ""


def matches_of(
    before: Sequence[systems.Part], belief: Sequence[systems.Part], database: Iterable[systems.Part]
) -> int | None:
    """Returns the number of entities that satisfy the belief state of the turn's service, by ``MATCHES``.

    The turn's service is the last one whose state differs from the preceding state, or the last one if none differs.
    """
    counts: dict[str, int] = {}
    name = ""
    for mark, text in database:
        name = text if mark == systems.SERVICE else name
        if mark == systems.VALUE:
            counts[name] = MATCHES.index(text)
    earlier, now = _by_service(before), _by_service(belief)
    changed = [service for service, state in now.items() if state != earlier.get(service)] or list(now)
    return counts.get(changed[-1]) if changed else None


def _by_service(belief: Iterable[systems.Part]) -> dict[str, list[systems.Part]]:
    parts: dict[str, list[systems.Part]] = {}
    state: list[systems.Part] = []
    for mark, text in belief:
        if mark == systems.SERVICE:
            state = parts.setdefault(text, [])
        else:
            state.append((mark, text))
    return parts


class Vocabulary:
    """The vocabulary.

    Args:
      words: without the special words.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = [*SPECIAL, *words]
        self._numbers = {word: number for number, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def numbered(self, texts: Texts) -> tuple[dict[str, list[int]], list[str]]:
        """Encodes a step as numbers.

        Output words are unknown if they are not in the vocabulary and cannot be copied. An empty response, from which
        nothing can be learned, has no numbers.

        Returns:
          The numbers of each sequence with its end, by name, see :class:`Texts`; and the words beyond the vocabulary,
          in the order of their numbers.
        """
        own: dict[str, int] = {}

        def numbers(words: Iterable[str], sources: Iterable[Sequence[int]] | None = None) -> list[int]:
            sequence = [self._numbers.get(word) or own.setdefault(word, len(self) + len(own)) for word in words]
            if sources is not None:
                present = {number for source in sources for number in source}
                sequence = [number if number < len(self) or number in present else UNKNOWN for number in sequence]
            return [*sequence, END]

        previous, user, before = numbers(texts.previous), numbers(texts.user), numbers(texts.before)
        delexicalised, belief = numbers(texts.delexicalised), numbers(texts.belief, (previous, user, before))
        acts = numbers(texts.acts, (belief,))
        response = [] if texts.response is None else numbers(texts.response, (delexicalised, belief, acts))
        inputs = {"previous": previous, "user": user, "before": before, "delexicalised": delexicalised}
        return {**inputs, "belief": belief, "acts": acts, "response": response}, list(own)

    def text(self, numbers: Iterable[int], own: Sequence[str]) -> list[str]:
        """Decodes numbers to words."""
        return [self.words[number] if number < len(self) else own[number - len(self)] for number in numbers]


def vocabulary_of(steps: Sequence[Texts], size: int) -> Vocabulary:
    """Makes the vocabulary: all names and placeholders, and the most frequent words.

    Args:
      steps: the training steps.
      size: the maximum number of words, including the special ones.

    Raises:
      InputError: there are too many names and placeholders.
    """
    texts = [words for step in steps for words in (step.previous, step.user, step.belief, step.response or [])]
    spans = [words for step in steps for words in (step.belief, step.acts, step.delexicalised, step.response or [])]
    names = sorted({word for words in spans for word in words if is_name(word)})
    room = size - len(SPECIAL) - len(names)
    if room < 0:
        reason = f"{size}: must be larger, because the names and placeholders alone are {len(names):,} words"
        raise InputError(reason, "--vocabulary")
    counts = Counter(word for words in texts for word in words if not is_name(word))
    return Vocabulary([*names, *sorted(counts, key=lambda word: (-counts[word], word))[:room]])


def is_name(word: str) -> bool:
    """Whether a word is a name or a placeholder."""
    return len(word) > 1 and word[0] in "<["


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
        forward, backward = pad_packed_sequence(states, batch_first=True, total_length=mask.shape[1])[0].chunk(2, 2)
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
        """Sees :meth:`Attention.keys`."""
        return [attention.keys(source.states) for attention, source in zip(self.attentions, sources, strict=True)]

    def step(
        self, word: Tensor, state: Tensor, pointer: Tensor, sources: Sequence[Source], keys: Sequence[Tensor]
    ) -> Tensor:
        """Computes the state after a word; shape (steps, hidden)."""
        means = [attend(state, *pair) for attend, *pair in zip(self.attentions, sources, keys, strict=True)]
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
        self.acts = Decoder(*sizes, (False, True), len(MATCHES))  # delexicalised user, belief span
        # delexicalised user, belief and action spans
        self.response = Decoder(*sizes, (True, True, True), len(MATCHES))

    def embedded(self, numbers: Tensor) -> Tensor:
        """Embeds words; those beyond the vocabulary share an embedding."""
        return torch.as_tensor(self.embedding(numbers.masked_fill(numbers >= self.embedding.num_embeddings, UNKNOWN)))

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
        word = torch.full((len(first),), GO, device=first.device)
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
            unfinished = unfinished & (word != END)
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
    words[:, :, [PAD, UNKNOWN, GO]] = -1.0
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
      surfaces: see :func:`parapet.evaluation.models.damd.surfaces_of`.
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

    def __init__(self, steps: Sequence[Texts], vocabulary: Vocabulary, device: torch.device) -> None:
        numbers = [vocabulary.numbered(step) for step in steps]
        self.rows = {name: training.Rows([sequences[name] for sequences, _ in numbers], device) for name in TRAINED}
        self.lengths = sum(rows.lengths for rows in self.rows.values())
        self.own = torch.tensor([len(own) for _, own in numbers])
        pointers = torch.zeros(len(steps), len(MATCHES))
        for row, step in zip(pointers, steps, strict=True):
            if step.matches is not None:
                row[step.matches] = 1
        self.pointers = pointers.to(device)

    def batch(self, ids: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
        """Returns the padded sequences of some steps, and whether there is a word, by name."""
        padded = {name: rows.padded(ids, PAD) for name, rows in self.rows.items()}
        return {name: (numbers, mask.bool()) for name, (numbers, mask) in padded.items()}


class DamdLearner(training.Learner):
    """The model with its data.

    Args:
      config: the settings of the training.
      train: steps to learn from.
      dev: steps that select the best epoch.

    Raises:
      InputError: the vocabulary is too small.
    """

    metric = "belief and action spans and response words right"

    def __init__(self, config: configs.DamdConfig, train: Sequence[systems.Step], dev: Sequence[systems.Step]) -> None:
        self.config, self.device = config, torch.device(config.device)
        texts = [texts_of(step) for step in train]
        self.vocabulary = vocabulary_of(texts, config.vocabulary)
        self.surfaces = surfaces_of(train)
        self.net = Net(len(self.vocabulary), config.embedding, config.hidden).to(self.device)
        self.module = self.net
        self.optimiser = torch.optim.Adam(self.net.parameters(), config.learning_rate, weight_decay=DECAY, fused=True)
        self.train = Learned(texts, self.vocabulary, self.device)
        self.longest = {name: int(SPARE * int(self.train.rows[name].lengths.max())) + 1 for name in OUTPUTS}
        self._dev = Learned([texts_of(step) for step in dev], self.vocabulary, self.device)

    def batches(self, generator: torch.Generator) -> Iterator[Tensor]:
        """Yields the batches of an epoch."""
        return training.bucketed(self.train.lengths, self.config.batch_size, generator)

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
        for ids in training.by_length(self._dev.lengths.tolist(), self.config.batch_size):
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

    def __init__(self, card: Card, net: Net, database: systems.Database, device: torch.device, batch: int) -> None:
        self.card, self.net = card, net.double().to(device).eval()
        self.vocabulary = Vocabulary(card.words[len(SPECIAL) :])
        self.database, self.device, self.batch = database, device, batch

    def answers(self, steps: Sequence[systems.Step]) -> list[systems.Reply]:
        """Replies to each turn.

        Turns of a dialogue must be adjacent, as each starts from the preceding belief state.
        """
        dialogues = [list(group) for _, group in groupby(range(len(steps)), lambda i: steps[i].dialogue_id)]
        dialogue_numbers = {i: number for number, dialogue in enumerate(dialogues) for i in dialogue}
        replies: dict[int, systems.Reply] = {}
        before: dict[int, tuple[systems.Part, ...]] = {}
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

    def _answers(self, steps: Sequence[systems.Step]) -> list[tuple[systems.Reply, tuple[systems.Part, ...]]]:
        """Replies to turns of different dialogues; also returns their belief states."""
        net, card = self.net, self.card
        texts = [asked_of(step) for step in steps]
        numbers = [self.vocabulary.numbered(text) for text in texts]
        user, first = self._encoded("user", [sequences["user"] for sequences, _ in numbers])
        previous, _ = self._encoded("utterance", [sequences["previous"] for sequences, _ in numbers])
        before, _ = self._encoded("span", [sequences["before"] for sequences, _ in numbers])
        own = max(len(words) for _, words in numbers)
        belief = net.decoded(net.belief, first, [user, previous, before], most=card.belief, own=own)
        spans = [
            spelled(parts_of(words), step.before, card.surfaces, said_last(step))
            for words, step in zip(self._words(belief, [own_words for _, own_words in numbers]), steps, strict=True)
        ]
        states = [systems.belief_of(parts) for parts in spans]
        matches = [
            matches_of(step.before, parts, systems.database_parts(state, self.database))
            for step, parts, state in zip(steps, spans, states, strict=True)
        ]
        pointers = [[float(match == n) for n in range(len(MATCHES))] for match in matches]
        pointer = torch.tensor(pointers, dtype=torch.float64, device=self.device)
        texts = [
            msgspec.structs.replace(words, delexicalised=delexicalised(words.user, parts))
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
            systems.Reply(state, " ".join(words), is_long(step), systems.acts_of(parts_of(span)))
            for step, (state, span, words) in zip(steps, answers, strict=True)
        ]
        return list(zip(replies, spans, strict=True))

    def _encoded(self, name: str, rows: Sequence[Sequence[int]]) -> tuple[Source, Tensor]:
        numbers, mask = training.Rows(rows, self.device).padded(torch.arange(len(rows)), PAD)
        encoder: Encoder = getattr(self.net, name)
        encoded: tuple[Source, Tensor] = self.net.encoded(encoder, numbers, mask.bool())
        return encoded

    def _words(self, written: Source, own: Sequence[Sequence[str]]) -> list[list[str]]:
        """Returns the generated words, without the end."""
        return [
            self.vocabulary.text(
                [number for number, kept in zip(numbers, mask, strict=True) if kept and number != END], words
            )
            for numbers, mask, words in zip(written.numbers.tolist(), written.mask.tolist(), own, strict=True)
        ]


def load(folder: str, database: systems.Database, device: str, batch: int) -> Damd:
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
