"""User turns of dialogue files: what of them is said, by which voice, and by which draw it is heard."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from parapet.schemas.dialogue import Dialogue, Turn
from parapet.schemas.dialogue_files import DialogueFile
from parapet.schemas.errors import InputError
from parapet.transforms.corpora import dialogues_of
from parapet.transforms.seeding import stable_hash
from parapet.transforms.speech.spoken import Normalisation, Word, spoken_words, unspeakable

DRAWS = 10_000  # a turn's draw is one of so many
_SHARDS = 3  # hexadecimal digits: 4,096 groups of texts


class Speakers(msgspec.Struct, frozen=True):
    """Who says what, and how it is written down.

    Attributes:
      voices: of which each dialogue has one.
      seed: of all that is drawn.
      rules: of the spoken form.
      longest: characters that a turn may have to be said.
    """

    voices: tuple[str, ...]
    seed: str
    rules: Normalisation
    longest: int


class Utterance(msgspec.Struct, frozen=True, order=True):
    """What is said once, in however many turns it stands: a voice, and words parted by blanks."""

    voice: str
    text: str


class Use(msgspec.Struct, frozen=True, order=True):
    """A turn that says it.

    Attributes:
      file: its dialogue file, below the root.
      dialogue: the dialogue's position in the file.
      turn: the turn's position in the dialogue.
      draw: 0 to 9,999: the higher, the more of its words it is to have wrong, as its set goes.
    """

    file: str
    dialogue: int
    turn: int
    draw: int


class UserTurn(msgspec.Struct, frozen=True):
    """A user turn: its position, its words, or the reason why nobody says them."""

    position: int
    turn: Turn
    words: list[Word]
    reason: str


def user_turns(dialogue: Dialogue, speakers: Speakers) -> Iterator[UserTurn]:
    """The user's turns, in order."""
    for position, turn in enumerate(dialogue.turns):
        if turn.speaker == "USER":
            reason = unspeakable(turn.utterance, speakers.rules, speakers.longest)
            words = [] if reason else spoken_words(turn.utterance, speakers.rules)
            yield UserTurn(position, turn, words, reason or "")


def voice_of(dialogue_id: str, speakers: Speakers) -> str:
    """The voice of a dialogue's user."""
    return speakers.voices[stable_hash(speakers.seed, "voice", dialogue_id) % len(speakers.voices)]


def draw_of(dialogue_id: str, turn: int, speakers: Speakers) -> int:
    """A turn's draw, 0 to 9,999."""
    return stable_hash(speakers.seed, "draw", dialogue_id, str(turn)) % DRAWS


def shard_of(utterance: Utterance) -> str:
    """The group of texts that are kept in one file."""
    return hashlib.sha256(f"{utterance.voice}\0{utterance.text}".encode()).hexdigest()[:_SHARDS]


def uses_of(file: DialogueFile, speakers: Speakers) -> Iterator[tuple[Utterance, Use]]:
    """What is said in a file, and where. Of a file that cannot be read nothing; who writes the sets says so."""
    try:
        dialogues = list(dialogues_of(file))
    except InputError:
        return
    for position, _, _, dialogue in dialogues:
        if not isinstance(dialogue, InputError):
            voice = voice_of(dialogue.dialogue_id, speakers)
            for turn in user_turns(dialogue, speakers):
                if turn.words:
                    text = joined(turn.words)
                    draw = draw_of(dialogue.dialogue_id, turn.position, speakers)
                    yield Utterance(voice, text), Use(file.relative, position, turn.position, draw)


def joined(words: Sequence[Word]) -> str:
    """Words parted by blanks."""
    return " ".join(word.text for word in words)


def sentences_of(files: Iterable[DialogueFile], speakers: Speakers) -> Iterator[tuple[str, ...]]:
    """The words of every user turn, of which a language model is made."""
    for file in files:
        for utterance, _ in uses_of(file, speakers):
            yield tuple(utterance.text.split())
