"""A dialogue as the small tracker reads it: steps, each a user turn with what the system said before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec
import numpy as np
from numpy.typing import NDArray

from evaluation.models.dst.tiny.mentions import LOOKS, Mention, listed, read
from evaluation.models.dst.tiny.words import Lexicon, bucket, normal, words_of_name, words_of_text
from schemas.service import Service

Ints = NDArray[np.int32]
Flags = NDArray[np.bool_]
History = Sequence[tuple[str, str]]

EMPTY, CARELESS = 0, 1  # the keys of no value and of "dontcare"; those of texts follow
BESIDE = 3  # words to each side of a mention that are read with it
OWN = 4  # words of a mention that are read
LISTED = LOOKS.index("listed")


class Schema(msgspec.Struct, frozen=True):
    """A service as numbers of words; 0 fills up.

    Attributes:
      slots, intents: (slot or intent, name or description, word).
      values: (slot, value that it lists, word).
      truth: (slot, value): 1 for "True", 2 for "False", else 0.
      normal: slot by slot the stems of the values that it lists.
      said: the stems of all of them, to their numbers.
      categorical: of each slot.
    """

    service: Service
    slots: Ints
    intents: Ints
    values: Ints
    truth: Ints
    normal: list[list[str]]
    said: dict[tuple[str, ...], int]
    categorical: Flags


class Track(msgspec.Struct, frozen=True):
    """A dialogue as a service sees it; arrays of places end with one that stands for no token.

    Attributes:
      words: of each token.
      sentences: (sentence, place): its tokens.
      step, user, asks, last: of each sentence: its step, whether the user says it, whether it is a question, whether
        it is the last of its turn.
      steps: how many.
      look, sentence, size, begins, whole: of each mention: how it looks, its sentence, its words, whether it begins a
        sentence, or is all of it.
      own, left, right: (mention, place): its tokens, and those beside it.
      keys: of each mention; two are the same where the texts are.
      valid: (slot, mention): whether the slot can have it.
      value_keys: (slot, listed value).
      texts: of the mentions.
      acts: of each step the rows of the words and pairs of words that the user says, then those of the system.
      beside: (mention, place): the rows of the words beside it, each by its place, and of its shape.
      known: from the stems of a text to its key.
    """

    schema: Schema
    words: Ints
    sentences: Ints
    step: Ints
    user: Flags
    asks: Flags
    last: Flags
    steps: int
    look: Ints
    sentence: Ints
    size: Ints
    begins: Flags
    whole: Flags
    own: Ints
    left: Ints
    right: Ints
    keys: Ints
    valid: Flags
    value_keys: Ints
    texts: list[str]
    known: dict[str, int]
    acts: list[Ints]
    beside: Ints

    def key(self, value: str) -> int:
        """Of a value in a state; -1 where nothing in the dialogue or the schema is like it."""
        return CARELESS if value == "dontcare" else self.known.get(normal(value), -1)


class Reader:
    """Reads services and dialogues; words get their numbers as they come.

    Args:
      buckets: of the table of embeddings.
    """

    def __init__(self, buckets: int) -> None:
        self.lexicon, self.buckets = Lexicon(buckets), buckets
        self._schemas: dict[bytes, Schema] = {}

    def schema(self, service: Service) -> Schema:
        """A service, read once."""
        told = msgspec.json.encode(service)
        found = self._schemas.get(told)
        if found is None:
            found = self._schemas[told] = self._schema(service)
        return found

    def _schema(self, service: Service) -> Schema:
        stems = [[normal(text) for text in slot.possible_values] for slot in service.slots]
        said = sorted({tuple(text.split()) for of in stems for text in of})
        truths = {"true": 1, "false": 2}
        return Schema(
            service,
            self._named((slot.name, slot.description) for slot in service.slots),
            self._named((intent.name, intent.description) for intent in service.intents),
            filled([[self.lexicon.all(text.split()) for text in of] for of in stems], 3),
            filled([[truths.get(text.lower(), 0) for text in slot.possible_values] for slot in service.slots], 2),
            stems,
            {words: i for i, words in enumerate(said)},
            np.array([slot.is_categorical for slot in service.slots], dtype=bool),
        )

    def _named(self, elements: Iterable[tuple[str, str]]) -> Ints:
        number = self.lexicon.all
        return filled(
            [[number(words_of_name(name)), number(words_of_text(text))] for name, text in elements], 3, (0, 2, 1)
        )

    def _beside(self, words: Sequence[str], one: Mention, user: bool) -> list[int]:
        """The rows of the words before and behind a mention, and of what it is like."""
        places = [*range(one.first - 1, one.first - 1 - BESIDE, -1), *range(one.behind, one.behind + BESIDE)]
        told = [words[i] if 0 <= i < len(words) else "<>" for i in places]
        rows = [
            bucket(f"{i - one.first if i < one.first else i - one.behind + 1} {word}", self.buckets)
            for i, word in zip(places, told, strict=True)
        ]
        return [*rows, bucket(f"{one.look} {one.behind - one.first} {user}", self.buckets)]

    def track(self, service: Service, history: History) -> Track:
        """Reads a dialogue.

        Args:
          service: whose state is asked.
          history: (speaker, utterance) of all turns, the user's last.
        """
        schema = self.schema(service)
        words: list[int] = []
        sentences: list[list[int]] = []
        of_sentence: list[tuple[int, bool, bool, bool]] = []
        mentions: list[
            tuple[Mention, int, int, int]
        ] = []  # with the place of its turn's first token and behind its last
        step = 0
        acts: list[list[int]] = [[], []]
        around: list[list[int]] = []
        for speaker, utterance in history:
            user = speaker == "USER"
            said = read(utterance, user)
            at, first = len(words), len(sentences)
            words += self.lexicon.all(said.words)
            for place, number in enumerate(said.sentences, at):
                while len(sentences) <= first + number:
                    sentences.append([])
                sentences[first + number].append(place)
            of_sentence += [(step, user, asks, i + 1 == len(said.asks)) for i, asks in enumerate(said.asks)]
            spans = {(one.first, one.behind) for one in said.mentions}
            found = [
                Mention(" ".join(said.words[start:end]), start, end, "listed")
                for start, end, _ in listed(said.words, schema.said)
                if (start, end) not in spans
            ]
            found = [*said.mentions, *found]
            mentions += [(one, at, len(words), first + said.sentences[one.first]) for one in found]
            around += [self._beside(said.words, one, user) for one in found]
            told = ["<", *said.words, ">"]
            acts[2 * step + (not user)] += [bucket(f"{a} {b}", self.buckets) for a, b in pairwise(told)] + [
                bucket(word, self.buckets) for word in said.words
            ]
            if user:
                step += 1
                acts += [[], []]
        return _track(schema, words, sentences, of_sentence, mentions, step, acts[: 2 * step], around)


def _track(
    schema: Schema,
    words: list[int],
    sentences: list[list[int]],
    of_sentence: list[tuple[int, bool, bool, bool]],
    mentions: list[tuple[Mention, int, int, int]],
    steps: int,
    acts: list[list[int]],
    around: list[list[int]],
) -> Track:
    known: dict[str, int] = {}
    keys = [known.setdefault(normal(one.text), len(known) + 2) for one, *_ in mentions]
    value_keys = [[known.setdefault(text, len(known) + 2) for text in of] for of in schema.normal]
    look = np.array([LOOKS.index(one.look) for one, *_ in mentions], dtype=np.int32)
    lists = np.array([[key in set(of) for key in keys] for of in value_keys], dtype=bool).reshape(len(value_keys), -1)
    # Whether a categorical slot lists it; any other may have all that looks like a value.
    valid = lists | (~schema.categorical[:, None] & (look != LISTED)[None])
    nowhere = len(words)

    def beside(places: range, first: int, behind: int) -> list[int]:
        return [place if first <= place < behind else nowhere for place in places]

    spans = [(at + one.first, at + one.behind, at, behind) for one, at, behind, _ in mentions]
    own = [beside(range(a, a + OWN), a, b) for a, b, _, _ in spans]
    left = [beside(range(a - BESIDE, a), at, behind) for a, _, at, behind in spans]
    right = [beside(range(b, b + BESIDE), at, behind) for _, b, at, behind in spans]
    step, user, asks, last = (np.array([row[i] for row in of_sentence]) for i in range(4))
    at_sentence = [number for *_, number in mentions]
    return Track(
        schema=schema,
        words=np.array([*words, 0], dtype=np.int32),
        sentences=filled(sentences, 2, (0, 1), nowhere),
        step=step.astype(np.int32),
        user=user.astype(bool),
        asks=asks.astype(bool),
        last=last.astype(bool),
        steps=steps,
        look=look,
        sentence=np.array(at_sentence, dtype=np.int32),
        size=np.array([one.behind - one.first for one, *_ in mentions], dtype=np.int32),
        begins=np.array([a == sentences[z][0] for (a, *_), z in zip(spans, at_sentence, strict=True)], dtype=bool),
        whole=np.array(
            [
                a == sentences[z][0] and b == sentences[z][-1] + 1
                for (a, b, *_), z in zip(spans, at_sentence, strict=True)
            ],
            dtype=bool,
        ),
        own=np.array(own, dtype=np.int32).reshape(-1, OWN),
        left=np.array(left, dtype=np.int32).reshape(-1, BESIDE),
        right=np.array(right, dtype=np.int32).reshape(-1, BESIDE),
        keys=np.array(keys, dtype=np.int32),
        valid=valid,
        value_keys=filled(value_keys, 2),
        texts=[one.text for one, *_ in mentions],
        known=known,
        beside=np.array(around, dtype=np.int32).reshape(len(around), 2 * BESIDE + 1),
        acts=[np.array(of, dtype=np.int32) for of in acts],
    )


def filled(nested: Sequence[object], depth: int, least: Sequence[int] = (), fill: int = 0) -> Ints:
    """Nested lists of numbers as an array.

    Args:
      nested: of lists that differ in length.
      depth: how deep they are.
      least: the least size of each dimension.
      fill: what fills up.
    """
    shape = list(least) or [0] * depth

    def measure(of: object, at: int) -> None:
        if isinstance(of, list | tuple):
            shape[at] = max(shape[at], len(of))
            for one in of:
                measure(one, at + 1)

    measure(nested, 0)
    array = np.full(shape, fill, dtype=np.int32)

    def put(of: object, place: tuple[int, ...]) -> None:
        if isinstance(of, list | tuple):
            for i, one in enumerate(of):
                put(one, (*place, i))
        else:
            array[place] = of

    put(nested, ())
    return array
