"""The user turns of dialogue files as they are spoken: their words, the voice, and the turn's draw."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from parapet.schemas.dialogue import Dialogue, DialogueFile, Turn
from parapet.schemas.errors import InputError, storable
from parapet.transforms.corpora import dialogues_of
from parapet.transforms.perturbation.fence import bad_record
from parapet.transforms.seeding import stable_hash
from parapet.transforms.speech.spoken import Normalisation, Word, spoken_words, unspeakable

DRAWS = 10_000  # a turn's draw is one of so many
_MOST = 1 << 63
_SHARDS = 3  # hexadecimal digits: 4,096 groups of texts
_SECONDS_A_WORD, _SECONDS_AROUND = 0.3, 0.8  # of eSpeak at its default speed, silence included


class Speakers(msgspec.Struct, frozen=True):
    """How user turns are spoken.

    Attributes:
      voices: each dialogue has one of them.
      seed: of all draws.
      rules: the normalisation that gives the spoken form.
      longest: the maximum length of an utterance that is spoken, in characters.
    """

    voices: tuple[str, ...]
    seed: str
    rules: Normalisation
    longest: int


class Utterance(msgspec.Struct, frozen=True, order=True):
    """A voice and words separated by spaces. However many turns have it, it is spoken once."""

    voice: str
    text: str


class Occurrence(msgspec.Struct, frozen=True, order=True):
    """A turn in which an utterance occurs.

    Attributes:
      file: its dialogue file, below the root.
      dialogue: the dialogue's position in the file.
      turn: the turn's position in the dialogue.
      draw: 0 to 9,999: the higher, the larger the share of wrong words, relative to the rest of the set.
      dialogue_id: the dialogue's id.
    """

    file: str
    dialogue: int
    turn: int
    draw: int
    dialogue_id: str


class SpokenTurn(msgspec.Struct, frozen=True):
    """A user turn: its position, and its words or the reason why it is not spoken."""

    position: int
    turn: Turn
    words: list[Word]
    reason: str


def user_turns(dialogue: Dialogue, speakers: Speakers) -> Iterator[SpokenTurn]:
    """The user turns of a dialogue, in order.

    Raises:
      InputError: a span begins or ends beyond 64 bits, so that no row can have it.
    """
    for position, turn in enumerate(dialogue.turns):
        if turn.speaker == "USER":
            for f, frame in enumerate(turn.frames):
                for span in frame.slots:
                    if any(isinstance(at, int) and not -_MOST <= at < _MOST for at in (span.start, span.exclusive_end)):
                        where = f"turns[{position}].frames[{f}]"
                        raise InputError(f"not_sgd: the span of {span.slot!r} is beyond 64 bits", "", where)
            reason = unspeakable(turn.utterance, speakers.rules, speakers.longest)
            words = [] if reason else spoken_words(turn.utterance, speakers.rules)
            yield SpokenTurn(position, turn, words, reason or "")


def voice_of(dialogue_id: str, speakers: Speakers) -> str:
    """The voice of a dialogue's user."""
    return speakers.voices[stable_hash(speakers.seed, "voice", dialogue_id) % len(speakers.voices)]


def draw_of(dialogue_id: str, turn: int, speakers: Speakers) -> int:
    """A turn's draw, 0 to 9,999."""
    return stable_hash(speakers.seed, "draw", dialogue_id, str(turn)) % DRAWS


def shard_of(utterance: Utterance) -> str:
    """The group of texts whose transcripts are cached in one file."""
    return hashlib.sha256(f"{utterance.voice}\0{utterance.text}".encode()).hexdigest()[:_SHARDS]


def occurrences_of(
    file: DialogueFile, speakers: Speakers, refused: dict[tuple[str, int], InputError] | None = None
) -> Iterator[tuple[Utterance, Occurrence]]:
    """The utterances of a file, and where they occur. Bad dialogues have none; they are reported with the sets.

    Args:
      file: the file.
      speakers: the voices, and what they can speak.
      refused: gets those dialogues that raise, by file and position.
    """
    try:
        dialogues = list(dialogues_of(file))
    except Exception as error:
        bad_record(error)
        return
    for position, _, _, dialogue in dialogues:
        if isinstance(dialogue, InputError):
            continue
        name = dialogue.dialogue_id
        try:
            voice = voice_of(name, speakers)
            found = [
                (
                    Utterance(voice, joined(turn.words)),
                    Occurrence(
                        file.relative, position, turn.position, draw_of(name, turn.position, speakers), storable(name)
                    ),
                )
                for turn in user_turns(dialogue, speakers)
                if turn.words
            ]
        except Exception as error:
            bad = bad_record(error)
            if refused is not None:
                refused[file.relative, position] = bad
            continue
        yield from found


def joined(words: Sequence[Word]) -> str:
    """Words separated by spaces."""
    return " ".join(word.text for word in words)


def sentences_of(files: Iterable[DialogueFile], speakers: Speakers) -> Iterator[tuple[str, ...]]:
    """The words of every user turn, of which a language model is made."""
    for file in files:
        for utterance, _ in occurrences_of(file, speakers):
            yield tuple(utterance.text.split())


class Size(msgspec.Struct):
    """The amount of speech in a corpus.

    Attributes:
      turns: user turns that are spoken.
      texts: distinct utterances.
      characters: of these.
      seconds: an estimate of their duration.
    """

    turns: int = 0
    texts: int = 0
    characters: int = 0
    seconds: float = 0.0


def size_of(files: Sequence[DialogueFile], speakers: Speakers) -> Size:
    """Reads all files and counts."""
    size = Size()
    seen: set[Utterance] = set()
    for file in files:
        for utterance, _ in occurrences_of(file, speakers):
            size.turns += 1
            if utterance not in seen:
                seen.add(utterance)
                size.characters += len(utterance.text)
                size.seconds += _SECONDS_A_WORD * len(utterance.text.split()) + _SECONDS_AROUND
    size.texts = len(seen)
    return size
