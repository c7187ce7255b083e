"""The language model of the embedded ASR engine, and the pronunciations of its words: CMU dictionary, else eSpeak."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec

from parapet.schemas.dialogue_files import DialogueFile
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.schemas.limits import read_text
from parapet.transforms.speech import ngram
from parapet.transforms.speech.embedded import SETTINGS, acoustic_model
from parapet.transforms.speech.espeak import library
from parapet.transforms.speech.turns import Speakers, sentences_of

KINDS = ("auto", "train", "mixed", "own")
SEEN = ("mixed", "own")  # trained on the transcribed turns, too

# A model of the split train suffices where its perplexity on the transcribed turns is at most so many times the lowest
# rate. On clean turns of SGD's dev split (docs/speech_errors.md) a perplexity of 26 gives a word error rate of 14 %,
# 44 22 %, 193 43 %; a rate can be reached, with some spread, where the rate without noise is up to 0.7 times it.
PERPLEXITY_BY_RATE = 140

Sentences = list[tuple[str, ...]]


class LanguageModel(msgspec.Struct, frozen=True):
    """The language model of a run.

    Attributes:
      model: the model and its dictionary.
      kind: ``train``, ``mixed``, ``own``, or ``a file``.
      sentences: its training sentences; none for a file.
      perplexity: of a model of train alone on the transcribed turns; None where it was not computed.
    """

    model: Model
    kind: str
    sentences: Sentences
    perplexity: float | None = None


def limit_of(target: float) -> float:
    """The perplexity up to which a model of train alone is taken, by the lowest word error rate."""
    return PERPLEXITY_BY_RATE * target


def choose_model(
    named: str, train_files: Sequence[DialogueFile], files: Sequence[DialogueFile], speakers: Speakers, lowest: float
) -> LanguageModel:
    """The language model that ``--language_model`` names.

    Args:
      named: one of ``KINDS``, or a file in the ARPA format.
      train_files: the dialogue files of the split train; empty if there is none.
      files: those whose turns are transcribed.
      speakers: how user turns are spoken.
      lowest: the lowest word error rate of the sets: by it ``auto`` decides whether train alone suffices.

    Raises:
      InputError: no such file; ``train`` or ``mixed`` of a corpus without a split train; no turn has words.
    """
    if named not in KINDS:
        return LanguageModel(given_model(named), "a file", [])
    own = list(sentences_of(files, speakers)) if named != "train" else []
    train: Sentences = []
    if named != "own":
        if not train_files and named != "auto":
            hint = "give --language_model own, or a file in the ARPA format"
            raise InputError(f"the language model needs a split train (there are no dialogues in 'train'); {hint}")
        # Of a folder with a single split, the files of train are those that are transcribed.
        if {file.relative for file in train_files} != {file.relative for file in files}:
            train = list(sentences_of(train_files, speakers))
        elif named == "train":
            return LanguageModel(trained_model(own := list(sentences_of(files, speakers)), False), "own", own)
    if named == "own" or (named == "auto" and not train):
        return LanguageModel(trained_model(own, general=False), "own", own)
    if named == "mixed":
        return LanguageModel(trained_model(train + own, general=True), "mixed", train + own)
    alone = trained_model(train, general=True)
    if named == "train":
        return LanguageModel(alone, "train", train)
    perplexity = round(ngram.perplexity(alone.arpa, own), 1)
    if perplexity <= limit_of(lowest):
        return LanguageModel(alone, "train", train, perplexity)
    return LanguageModel(trained_model(train + own, general=True), "mixed", train + own, perplexity)


_GENERAL_WORDS = 10_000


class Model(msgspec.Struct, frozen=True):
    """An n-gram model with the pronunciations of its words.

    Attributes:
      arpa: the model, in the ARPA format.
      words: its dictionary, as PocketSphinx reads it.
      unknown: the words that the CMU dictionary lacks; eSpeak gives their pronunciations.
    """

    arpa: str
    words: str
    unknown: list[str]

    @property
    def id(self) -> str:
        """A hash of everything that determines a transcript."""
        return hashlib.sha256(msgspec.json.encode([self.arpa, self.words, SETTINGS])).hexdigest()[:12]

    def files(self) -> dict[str, bytes]:
        """The model's files, by name."""
        return {f"{self.id}.arpa": self.arpa.encode(), f"{self.id}.dict": self.words.encode()}


def trained_model(sentences: Iterable[Sequence[str]], general: bool) -> Model:
    """A trigram model of these sentences.

    Args:
      sentences: of spoken words.
      general: whether to add frequent words of English: for sentences of other turns than the transcribed ones.

    Raises:
      InputError: there are no sentences, or PocketSphinx is missing.
    """
    known = read_dictionary(acoustic_model().with_name("cmudict-en-us.dict"))
    every = [tuple(sentence) for sentence in sentences if sentence]
    if not every:
        raise InputError("the language model needs user turns, and none of them has words", "--language_model")
    base = {word: n for word, n in _general_words().items() if word in known} if general else None
    words, unknown = dictionary({*(base or ()), *(word for sentence in every for word in sentence)}, known)
    sayable = {line.split()[0].partition("(")[0] for line in words.splitlines()}
    return Model(
        ngram.arpa(([word for word in one if word in sayable] for one in every), base),
        words,
        unknown,
    )


def given_model(path: str) -> Model:
    """Reads a model in the ARPA format, its words in lower case. Raises InputError where it is none."""
    known = read_dictionary(acoustic_model().with_name("cmudict-en-us.dict"))
    try:
        text = read_text(as_path(path), where="--language_model").replace("\r\n", "\n").replace("\r", "\n")
        words, unknown = dictionary(ngram.words_of(text), known)
    except ValueError as error:
        raise InputError(f"is no language model in the ARPA format: {error}", path, "--language_model") from None
    return Model(text, words, unknown)


def _general_words() -> Mapping[str, float]:
    from wordfreq import get_frequency_dict, top_n_list

    frequency = get_frequency_dict("en")
    return {word: frequency[word] for word in top_n_list("en", _GENERAL_WORDS)}


# eSpeak's en-us in the International Phonetic Alphabet to the 39 phones of the CMU dictionary (ARPAbet); the longest
# that fits is taken first.
PHONES = {
    "tʃ": "CH", "dʒ": "JH", "aɪɚ": "AY ER", "aɪə": "AY AH", "aɪ": "AY", "aʊ": "AW", "eɪ": "EY", "oʊ": "OW", "əʊ": "OW",
    "ɔɪ": "OY", "iə": "IY AH", "ɪɹ": "IH R", "ɛɹ": "EH R", "ɑːɹ": "AA R", "ɔːɹ": "AO R", "oːɹ": "AO R", "ʊɹ": "UH R",
    "ɜː": "ER", "ɚ": "ER", "əl": "AH L", "iː": "IY", "uː": "UW", "ɑː": "AA", "ɔː": "AO", "oː": "AO", "ɐ": "AH",
    "ə": "AH", "ʌ": "AH", "æ": "AE", "ɛ": "EH", "ɪ": "IH", "i": "IY", "ʊ": "UH", "u": "UW", "ɑ": "AA", "ɒ": "AA",
    "ɔ": "AO", "a": "AA", "e": "EH", "o": "OW", "ᵻ": "IH", "b": "B", "d": "D", "ð": "DH", "f": "F", "ɡ": "G", "g": "G",
    "h": "HH", "j": "Y", "k": "K", "l": "L", "m": "M", "n": "N", "ŋ": "NG", "p": "P", "ɹ": "R", "r": "R", "s": "S",
    "ʃ": "SH", "t": "T", "ɾ": "T", "θ": "TH", "v": "V", "w": "W", "z": "Z", "ʒ": "ZH", "x": "K", "ɬ": "L", "ʔ": "T",
}  # fmt: skip

_PHONE = re.compile("|".join(sorted(PHONES, key=lambda ipa: (-len(ipa), ipa))))
_ENTRY = re.compile(r"^(\S+?)(?:\(\d+\))?\s+(.+)$", re.MULTILINE)


def arpabet(ipa: str) -> str:
    """Phones separated by spaces: ``sˈuːʃi`` is ``S UW SH IY``; what is no phone (stress, length) is left out."""
    return " ".join(PHONES[found[0]] for found in _PHONE.finditer(ipa))


@cache
def read_dictionary(path: Path) -> Mapping[str, list[str]]:
    """Reads a pronunciation dictionary: word to its pronunciations."""
    found: dict[str, list[str]] = {}
    for word, phones in _ENTRY.findall(path.read_text(encoding="utf-8")):
        found.setdefault(word, []).append(phones)
    return found


def dictionary(words: Iterable[str], known: Mapping[str, list[str]]) -> tuple[str, list[str]]:
    """A dictionary of these words alone.

    Returns:
      Its text; the words that ``known`` lacks, which have eSpeak's pronunciations.
    """
    lines: list[str] = []
    unknown: list[str] = []
    for word in sorted(set(words)):
        spoken = known.get(word)
        if spoken is None:
            phones = arpabet(library().phonemes(word))
            if not phones:
                continue
            spoken = [phones]
            unknown.append(word)
        lines += [f"{word}{f'({i})' if i > 1 else ''} {phones}" for i, phones in enumerate(spoken, 1)]
    return "\n".join([*lines, ""]), unknown
