"""Steps of dialogues as words and numbers: utterances, belief spans, action spans, delexicalised responses.

The encoders treat words beyond the vocabulary as unknown. Within a step, each has its own number, so that decoders can
copy it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from parapet.evaluation.models.systems.data import MARKS, SERVICE, SLOT, VALUE, Part, Step
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
    whole = text.encode("utf-8", "replace").decode()
    return [(match[0].lower(), match.span()) for match in _WORD.finditer(whole)]


def response_words(text: str) -> list[str]:
    """Splits a delexicalised response into words; a placeholder is one word."""
    return [word.lower() for word in _DELEXICALISED.findall(text.encode("utf-8", "replace").decode())]


def span_of(parts: Iterable[Part]) -> list[str]:
    """Flattens a belief or action span: one word for each name, such as ``<|slot|>city``, and the words of values."""
    return [word for mark, text in parts for word in (words_of(text) if mark == VALUE else [f"{mark}{text}"])]


def parts_of(span: Sequence[str]) -> list[Part]:
    """Parses a span into parts; the words of a value are joined by spaces."""
    parts: list[Part] = []
    for word in span:
        mark = next((mark for mark in MARKS if word.startswith(mark)), None)
        if mark:
            parts.append((mark, word.removeprefix(mark)))
        elif parts and parts[-1][0] == VALUE:
            parts[-1] = VALUE, f"{parts[-1][1]} {word}"
        else:
            parts.append((VALUE, word))
    return parts


def delexicalised(utterance: Sequence[str], belief: Iterable[Part]) -> list[str]:
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


def _named(belief: Iterable[Part]) -> Iterator[tuple[str, list[str]]]:
    """Yields (placeholder, words of the value) of each slot."""
    service = slot = ""
    for mark, text in belief:
        if mark == SERVICE:
            service = text
        elif mark == SLOT:
            slot = text
        elif mark == VALUE:
            yield f"[{plain_name(f'{service}_{slot}')}]", words_of(text)


def spelled(
    parts: Iterable[Part], before: Iterable[Part], known: Mapping[str, Mapping[str, str]], said: Sequence[str]
) -> tuple[Part, ...]:
    """Spells the values of a belief state as before, as in training, or as in the utterances.

    Args:
      parts: the generated parts, in lower-cased words.
      before: the belief state after the user's previous turn.
      known: from :func:`surfaces_of`.
      said: the utterances that values can be copied from, the newest first.
    """
    earlier = {" ".join(words_of(text)): text for mark, text in before if mark == VALUE}
    slot, spelled_parts = "", list[Part]()
    for mark, text in parts:
        slot = text if mark == SLOT else slot
        if mark == VALUE:
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


def surfaces_of(steps: Iterable[Step]) -> dict[str, dict[str, str]]:
    """Returns slot to the joined words of training values to their most frequent spelling, where it differs."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for step in steps:
        slot = ""
        for mark, text in step.belief:
            slot = text if mark == SLOT else slot
            if mark == VALUE:
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


def texts_of(step: Step) -> Texts:
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


def asked_of(step: Step) -> Texts:
    """Encodes the parts of a step that are known before the prediction."""
    user, previous = said_last(step)
    return Texts(words_of(previous)[-LONGEST:], words_of(user)[-LONGEST:], span_of(step.before))


def is_long(step: Step) -> bool:
    """Whether one of the utterances is cut."""
    return any(len(words_of(text)) > LONGEST for text in said_last(step))


def said_last(step: Step) -> tuple[str, str]:
    """Returns (user's utterance, system's preceding utterance, empty for none)."""
    return step.history[-1][1], step.history[-2][1] if len(step.history) > 1 else ""


def matches_of(before: Sequence[Part], belief: Sequence[Part], database: Iterable[Part]) -> int | None:
    """Returns the number of entities that satisfy the belief state of the turn's service, by ``MATCHES``.

    The turn's service is the last one whose state differs from the preceding state, or the last one if none differs.
    """
    counts: dict[str, int] = {}
    name = ""
    for mark, text in database:
        name = text if mark == SERVICE else name
        if mark == VALUE:
            counts[name] = MATCHES.index(text)
    earlier, now = _by_service(before), _by_service(belief)
    changed = [service for service, state in now.items() if state != earlier.get(service)] or list(now)
    return counts.get(changed[-1]) if changed else None


def _by_service(belief: Iterable[Part]) -> dict[str, list[Part]]:
    parts: dict[str, list[Part]] = {}
    state: list[Part] = []
    for mark, text in belief:
        if mark == SERVICE:
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
            numbers_here = [self._numbers.get(word) or own.setdefault(word, len(self) + len(own)) for word in words]
            if sources is not None:
                present = {number for source in sources for number in source}
                numbers_here = [
                    number if number < len(self) or number in present else UNKNOWN for number in numbers_here
                ]
            return [*numbers_here, END]

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
        raise InputError(
            f"{size}: must be larger, because the names and placeholders alone are {len(names):,} words", "--vocabulary"
        )
    counts = Counter(word for words in texts for word in words if not is_name(word))
    frequent = sorted(counts, key=lambda word: (-counts[word], word))
    return Vocabulary([*names, *frequent[:room]])


def is_name(word: str) -> bool:
    """Whether a word is a name or a placeholder."""
    return len(word) > 1 and word[0] in "<["
