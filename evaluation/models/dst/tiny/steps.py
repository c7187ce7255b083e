"""Services and dialogues as the small tracker reads them.

A service is numbers of words. A dialogue is a sequence of steps, each a user turn with what the system said before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from parapet.evaluation.models.dst.tiny.mentions import LOOKS, Mention, Said, listed, read
from parapet.evaluation.models.dst.tiny.words import Lexicon, bucket, normal, words_of_name, words_of_text
from parapet.schemas.service import Service

Ints = NDArray[np.int32]
Flags = NDArray[np.bool_]

_TRUTHS = {"true": 1, "false": 2}


class ServiceWords(msgspec.Struct, frozen=True):
    """A service as numbers of words; 0 fills up.

    Attributes:
      slots, intents: (slot or intent, name or description, word).
      values: (slot, value that it lists, word).
      truth: (slot, value): 1 for "True", 2 for "False", else 0.
      normal: slot by slot, the values that it lists as their stems.
      listed: all of them.
      categorical: of each slot.
    """

    service: Service
    slots: Ints
    intents: Ints
    values: Ints
    truth: Ints
    normal: list[list[str]]
    listed: frozenset[tuple[str, ...]]
    categorical: Flags


def read_service(service: Service, lexicon: Lexicon) -> ServiceWords:
    """Reads a service; new words get their numbers."""
    stems = [[normal(text) for text in slot.possible_values] for slot in service.slots]
    truth = [[_TRUTHS.get(text.lower(), 0) for text in slot.possible_values] for slot in service.slots]
    return ServiceWords(
        service=service,
        slots=_named(((slot.name, slot.description) for slot in service.slots), lexicon),
        intents=_named(((intent.name, intent.description) for intent in service.intents), lexicon),
        values=filled([[lexicon.all(text.split()) for text in of] for of in stems], 3),
        truth=filled(truth, 2),
        normal=stems,
        listed=frozenset(tuple(text.split()) for of in stems for text in of),
        categorical=np.array([slot.is_categorical for slot in service.slots], dtype=bool),
    )


def _named(elements: Iterable[tuple[str, str]], lexicon: Lexicon) -> Ints:
    rows = [[lexicon.all(words_of_name(name)), lexicon.all(words_of_text(text))] for name, text in elements]
    return filled(rows, 3, (0, 2, 1))


def filled(nested: Sequence[Any], depth: int, least: Sequence[int] = (), fill: int = 0) -> Ints:
    """Nested lists of numbers as an array.

    Args:
      nested: lists that differ in length.
      depth: how deep they are.
      least: the least size of each dimension.
      fill: what fills up.
    """
    shape = list(least) or [0] * depth
    leaves: list[tuple[tuple[int, ...], int]] = []

    def visit(of: Any, place: tuple[int, ...]) -> None:
        if len(place) == depth:
            leaves.append((place, of))
            return
        shape[len(place)] = max(shape[len(place)], len(of))
        for i, one in enumerate(of):
            visit(one, (*place, i))

    visit(nested, ())
    array = np.full(shape, fill, dtype=np.int32)
    for place, number in leaves:
        array[place] = number
    return array


History = Sequence[tuple[str, str]]

EMPTY, CARELESS = 0, 1  # the keys of no value and of "dontcare"; those of texts follow
DONTCARE = "dontcare"
BESIDE = 3  # words to each side of a mention that are read with it
OWN = 4  # words of a mention that are read
_LISTED = LOOKS.index("listed")


class Track(msgspec.Struct, frozen=True):
    """A dialogue as a service sees it. A place is the number of a token; the one behind the last is none.

    Attributes:
      words: of each token.
      sentences: (sentence, place).
      step, user, asks, last: of each sentence: its step, whether the user says it, whether it is a question, whether
        it is the last of its turn.
      steps: how many.
      look, sentence, size, begins, whole: of each mention: how it looks, its sentence, how many words, whether it
        begins the sentence, whether it is all of it.
      own, left, right: (mention, place): its words, and those beside it.
      beside: (mention, row of a table): the words beside it, each with its distance, and what the mention is like.
      keys: of each mention; equal where the texts say the same.
      valid: (slot, mention): whether the slot can have it.
      value_keys: (slot, listed value).
      texts: of the mentions.
      known: from the stems of a text to its key.
      acts: of each step the rows of the words and pairs of words that the user says, then those of the system.
    """

    schema: ServiceWords
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
    beside: Ints
    keys: Ints
    valid: Flags
    value_keys: Ints
    texts: list[str]
    known: dict[str, int]
    acts: list[Ints]

    def mention_steps(self) -> Ints:
        """The step of each mention."""
        return self.step[self.sentence]

    def key(self, value: str) -> int:
        """Of a value in a state; -1 where nothing in the dialogue or the schema is like it."""
        return CARELESS if value == DONTCARE else self.known.get(normal(value), -1)


class Reader:
    """Reads services and dialogues; words get their numbers as they come.

    Args:
      buckets: of the tables of embeddings.
    """

    def __init__(self, buckets: int) -> None:
        self.lexicon, self.buckets = Lexicon(buckets), buckets
        self._services: dict[bytes, ServiceWords] = {}

    def copy(self) -> Reader:
        """One that knows the same, and learns words of its own."""
        found = Reader(self.buckets)
        found.lexicon, found._services = self.lexicon.copy(), dict(self._services)
        return found

    def track(self, service: Service, history: History) -> Track:
        """Reads a dialogue.

        Args:
          service: whose state is asked.
          history: (speaker, utterance) of all turns, the user's last.
        """
        key = msgspec.json.encode(service)
        if key not in self._services:
            self._services[key] = read_service(service, self.lexicon)
        found = _Dialogue(self._services[key], self.lexicon, self.buckets)
        for speaker, utterance in history:
            found.add(utterance, speaker == "USER")
        return found.track()


class _Place(msgspec.Struct, frozen=True):
    """A mention's first token and the one behind its last, those of its turn, and its sentence."""

    first: int
    behind: int
    turn: int
    turn_behind: int
    sentence: int


class _Dialogue:
    """What a dialogue has so far."""

    def __init__(self, schema: ServiceWords, lexicon: Lexicon, buckets: int) -> None:
        self.schema, self.lexicon, self.buckets = schema, lexicon, buckets
        self.words: list[int] = []
        self.sentences: list[list[int]] = []
        self.of_sentence: list[tuple[int, bool, bool, bool]] = []
        self.mentions: list[Mention] = []
        self.places: list[_Place] = []
        self.beside: list[list[int]] = []
        self.acts: list[list[int]] = [[], []]
        self.steps = 0

    def add(self, utterance: str, user: bool) -> None:
        """Adds a turn."""
        said = read(utterance, user)
        at, first = len(self.words), len(self.sentences)
        self.words += self.lexicon.all(said.words)
        self.sentences += [[] for _ in said.asks]
        for place, number in enumerate(said.sentences, at):
            self.sentences[first + number].append(place)
        last = len(said.asks) - 1
        self.of_sentence += [(self.steps, user, asks, i == last) for i, asks in enumerate(said.asks)]
        for one in self._mentions(said):
            sentence = first + said.sentences[one.first]
            self.mentions.append(one)
            self.places.append(_Place(at + one.first, at + one.behind, at, len(self.words), sentence))
            self.beside.append(self._beside(said.words, one, user))
        self.acts[2 * self.steps + (not user)] += self._acts(said.words)
        if user:
            self.steps += 1
            self.acts += [[], []]

    def _mentions(self, said: Said) -> list[Mention]:
        """Those of the utterance, and what the schema lists and is said in it."""
        spans = {(one.first, one.behind) for one in said.mentions}
        more = [
            Mention(" ".join(said.tokens[start:end]), start, end, LOOKS[_LISTED])
            for start, end in listed(said.words, self.schema.listed)
            if (start, end) not in spans
        ]
        return [*said.mentions, *more]

    def _beside(self, words: Sequence[str], one: Mention, user: bool) -> list[int]:
        before = [(i - one.first, i) for i in range(one.first - 1, one.first - 1 - BESIDE, -1)]
        behind = [(i - one.behind + 1, i) for i in range(one.behind, one.behind + BESIDE)]
        features = [f"{away} {words[i] if 0 <= i < len(words) else '<>'}" for away, i in (*before, *behind)]
        return [bucket(text, self.buckets) for text in (*features, f"{one.look} {one.behind - one.first} {user}")]

    def _acts(self, words: Sequence[str]) -> list[int]:
        pairs = [f"{first} {second}" for first, second in pairwise(["<", *words, ">"])]
        return [bucket(text, self.buckets) for text in (*pairs, *words)]

    def track(self) -> Track:
        """All of it as arrays."""
        schema, places = self.schema, self.places
        known: dict[str, int] = {}
        keys = [known.setdefault(normal(one.text), len(known) + 2) for one in self.mentions]
        value_keys = [[known.setdefault(text, len(known) + 2) for text in of] for of in schema.normal]
        look = _ints([LOOKS.index(one.look) for one in self.mentions])
        lists = _flags([[key in set(of) for key in keys] for of in value_keys]).reshape(len(value_keys), len(keys))
        step, user, asks, last = zip(*self.of_sentence, strict=True) if self.of_sentence else ((), (), (), ())
        ends = [(self.sentences[one.sentence][0], self.sentences[one.sentence][-1] + 1) for one in places]
        return Track(
            schema=schema,
            words=_ints([*self.words, 0]),
            sentences=filled(self.sentences, 2, (0, 1), len(self.words)),
            step=_ints(step),
            user=_flags(user),
            asks=_flags(asks),
            last=_flags(last),
            steps=self.steps,
            look=look,
            sentence=_ints([one.sentence for one in places]),
            size=_ints([one.behind - one.first for one in places]),
            begins=_flags([one.first == first for one, (first, _) in zip(places, ends, strict=True)]),
            whole=_flags([(one.first, one.behind) == end for one, end in zip(places, ends, strict=True)]),
            own=self._tokens([(one.first, one.first + OWN, one.first, one.behind) for one in places], OWN),
            left=self._tokens([(one.first - BESIDE, one.first, one.turn, one.turn_behind) for one in places], BESIDE),
            right=self._tokens(
                [(one.behind, one.behind + BESIDE, one.turn, one.turn_behind) for one in places], BESIDE
            ),
            beside=_ints(self.beside).reshape(len(places), 2 * BESIDE + 1),
            keys=_ints(keys),
            # A categorical slot has what it lists; any other all that looks like a value.
            valid=lists | (~schema.categorical[:, None] & (look != _LISTED)[None]),
            value_keys=filled(value_keys, 2),
            texts=[one.text for one in self.mentions],
            known=known,
            acts=[_ints(of) for of in self.acts[: 2 * self.steps]],
        )

    def _tokens(self, rows: Sequence[tuple[int, int, int, int]], size: int) -> Ints:
        """Places from one to another, as far as they are within two others."""
        nowhere = len(self.words)
        found = [[i if low <= i < high else nowhere for i in range(start, end)] for start, end, low, high in rows]
        return _ints(found).reshape(len(rows), size)


def _ints(values: Sequence[object]) -> Ints:
    return np.array(values, dtype=np.int32)


def _flags(values: Sequence[object]) -> Flags:
    return np.array(values, dtype=bool)
