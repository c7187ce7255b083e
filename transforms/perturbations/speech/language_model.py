"""The language model of the embedded ASR engine, and the pronunciations of its words: CMU dictionary, else eSpeak."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec

from parapet.schemas.dialogue import DialogueFile
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.schemas.limits import read_text
from parapet.transforms.perturbations.speech.embedded import SETTINGS, acoustic_model, library
from parapet.transforms.perturbations.speech.spoken import Speakers, sentences_of

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
    hesitation = round(perplexity(alone.arpa, own), 1)
    if hesitation <= limit_of(lowest):
        return LanguageModel(alone, "train", train, hesitation)
    return LanguageModel(trained_model(train + own, general=True), "mixed", train + own, hesitation)


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
        arpa(([word for word in one if word in sayable] for one in every), base),
        words,
        unknown,
    )


def given_model(path: str) -> Model:
    """Reads a model in the ARPA format, its words in lower case. Raises InputError where it is none."""
    known = read_dictionary(acoustic_model().with_name("cmudict-en-us.dict"))
    try:
        text = read_text(as_path(path), where="--language_model").replace("\r\n", "\n").replace("\r", "\n")
        words, unknown = dictionary(words_of(text), known)
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


# A trigram model in the ARPA format: interpolated Witten-Bell (Chen and Goodman 1999, section 2.4).

ORDER = 3
START, END = "<s>", "</s>"

_NEVER = -99.0  # of the sentence's start, which is never predicted

Gram = tuple[str, ...]


def arpa(sentences: Iterable[Sequence[str]], base: Mapping[str, float] | None = None) -> str:
    """The model of these sentences, sorted: the same sentences in any order give the same text.

    Args:
      sentences: of words.
      base: word frequencies of the language; the probability left for other words is distributed by them, or
        evenly among their own words where there is none.
    """
    counts = _counts(sentences)
    seen = [gram[0] for gram in counts[0] if gram != (START,)]
    words = sorted({*seen, *(base or ()), END})
    least = min((base or {}).values(), default=1.0)
    weights = {word: (base or {}).get(word, least) for word in words}
    total = sum(weights.values())
    lower: Mapping[Gram, float] = {(word,): weights[word] / total for word in words}
    counts[0] = Counter({(word,): counts[0][(word,)] for word in words})
    tables: list[dict[Gram, float]] = []
    rests: dict[Gram, float] = {}
    for order, found in enumerate(counts, 1):
        totals, kinds = _followers(found)
        rests |= {history: kinds[history] / (totals[history] + kinds[history]) for history in totals}
        table = {}
        for gram, n in found.items():
            history = gram[:-1]
            shorter = gram if order == 1 else gram[1:]
            table[gram] = (n + kinds[history] * lower[shorter]) / (totals[history] + kinds[history])
        tables.append(table)
        lower = table
    return _text(tables, rests)


def words_of(text: str) -> list[str]:
    """The words of a model in the ARPA format, of any order up to 3.

    Raises:
      ValueError: it is none, or a broken one: decoders do not check, and some end the process.
    """
    lines = [line.strip() for line in text.splitlines()]
    if "\\data\\" not in lines or "\\1-grams:" not in lines:
        raise ValueError("there are no 1-grams: it is no language model in the ARPA format")
    declared = {match[1]: match[2] for line in lines if (match := _COUNT.fullmatch(line))}
    grams: dict[str, list[list[str]]] = {}
    order = ""
    for line in lines[lines.index("\\data\\") + 1 :]:
        if line.startswith("\\"):
            order = line[1:2] if line.endswith("-grams:") else ""
            grams.setdefault(order, [])
        elif order and line:
            grams[order].append(_gram(line, int(order)))
    if "\\end\\" not in lines:
        raise ValueError("it does not end with \\\\end\\\\: it is no language model in the ARPA format, or cut off")
    for order, n in declared.items():
        if len(grams.get(order, [])) != int(n) or int(order) > ORDER:
            raise ValueError(f"it says that there are {n} {order}-grams, and has {len(grams.get(order, []))}")
    words = [gram[0] for gram in grams["1"]]
    if "1" not in declared or START not in words or END not in words:
        raise ValueError(f"it lacks {START} or {END}")
    return [word for word in words if not word.startswith("<")]


_COUNT = re.compile(r"ngram (\d) ?= ?(\d{1,9})")


def _gram(line: str, order: int) -> list[str]:
    parts = line.split()
    numbers = [parts[0], *parts[order + 1 :]]
    if len(parts) not in (order + 1, order + 2) or not all(_NUMBER.fullmatch(number) for number in numbers):
        raise ValueError(f"{line[:60]!r} is no {order}-gram")
    if any("(" in word for word in parts[1 : order + 1]):
        raise ValueError(f"a word with a bracket: {line[:60]!r}")
    return parts[1 : order + 1]


_NUMBER = re.compile(r"-?\d{1,9}(\.\d{1,12})?(e-?\d{1,2})?")


def perplexity(text: str, sentences: Iterable[Sequence[str]]) -> float:
    """How many words a model hesitates between, on average, before each word of these sentences and their ends.

    Args:
      text: a model in the ARPA format, of :func:`arpa`.
      sentences: of words; one that the model lacks counts as one of a million.

    Returns:
      10 to the mean of the negative decimal logarithms of the probabilities; 1 where there are no words.
    """
    grams, rests = _read(text)
    total, n = 0.0, 0
    for sentence in sentences:
        padded = (START, *sentence, END)
        for i in range(1, len(padded)):
            total += _log_probability(padded[max(0, i + 1 - ORDER) : i + 1], grams, rests)
            n += 1
    return float(10 ** (-total / n)) if n else 1.0


_UNKNOWN = -6.0


def _read(text: str) -> tuple[dict[Gram, float], dict[Gram, float]]:
    """The logarithms of the probabilities, and of what histories leave for others."""
    grams: dict[Gram, float] = {}
    rests: dict[Gram, float] = {}
    for line in text.splitlines():
        parts = line.split("\t")
        if len(parts) > 1:
            gram = tuple(parts[1].split(" "))
            grams[gram] = float(parts[0])
            if len(parts) > 2:
                rests[gram] = float(parts[2])
    return grams, rests


def _log_probability(gram: Gram, grams: Mapping[Gram, float], rests: Mapping[Gram, float]) -> float:
    if gram in grams:
        return grams[gram]
    if len(gram) == 1:
        return _UNKNOWN
    return rests.get(gram[:-1], 0.0) + _log_probability(gram[1:], grams, rests)


def _counts(sentences: Iterable[Sequence[str]]) -> list[Counter[Gram]]:
    counts: list[Counter[Gram]] = [Counter() for _ in range(ORDER)]
    for sentence in sentences:
        if sentence:
            padded = (START, *sentence, END)
            for order, found in enumerate(counts, 1):
                found.update(zip(*(padded[i:] for i in range(order)), strict=False))
    return counts


def _followers(found: Mapping[Gram, int]) -> tuple[Counter[Gram], Counter[Gram]]:
    """For each history how often it is followed, and by how many different words."""
    totals: Counter[Gram] = Counter()
    kinds: Counter[Gram] = Counter()
    for gram, n in found.items():
        totals[gram[:-1]] += n
        kinds[gram[:-1]] += n > 0
    return totals, kinds


def _text(tables: Sequence[Mapping[Gram, float]], rests: Mapping[Gram, float]) -> str:
    logs = [{gram: math.log10(p) for gram, p in table.items()} for table in tables]
    logs[0][(START,)] = _NEVER
    lines = ["\\data\\", *(f"ngram {order}={len(table)}" for order, table in enumerate(logs, 1))]
    for order, table in enumerate(logs, 1):
        lines += ["", f"\\{order}-grams:"]
        for gram in sorted(table):
            rest = f"\t{math.log10(rests[gram]):.4f}" if order < ORDER and gram in rests else ""
            lines.append(f"{table[gram]:.4f}\t{' '.join(gram)}{rest}")
    return "\n".join([*lines, "", "\\end\\", ""])
