"""Which words the embedded listener expects: the model that ``--language_model`` names, and what ``auto`` takes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from parapet.schemas.dialogue_files import DialogueFile
from parapet.schemas.errors import InputError
from parapet.transforms.speech import ngram, sphinx
from parapet.transforms.speech.turns import Speakers, sentences_of

KINDS = ("auto", "train", "mixed", "own")
SEEN = ("mixed", "own")  # these are made of the turns that are heard, too

# A model of other turns will do where its perplexity on those that are heard is at most so many times the lowest rate.
# Measured on clean turns of SGD's dev split (docs/speech_errors.md): perplexity 26 gives 14 % of the words wrong, 44
# 22 %, 193 43 %; a rate can be had with some spread where no more than about 0.7 times as many are wrong without noise.
PERPLEXITY_BY_RATE = 140

Sentences = list[tuple[str, ...]]


class Choice(msgspec.Struct, frozen=True):
    """A language model.

    Attributes:
      model: it.
      kind: ``train``, ``mixed``, ``own``, or ``a file``.
      sentences: of which it is made; none of a file.
      perplexity: of the model of train alone on the turns that are heard; None where nobody asked.
    """

    model: sphinx.Model
    kind: str
    sentences: Sentences
    perplexity: float | None = None


def limit_of(target: float) -> float:
    """The perplexity up to which a model of train alone is taken, by the lowest word error rate."""
    return PERPLEXITY_BY_RATE * target


def choose_model(
    named: str, train_files: Sequence[DialogueFile], files: Sequence[DialogueFile], speakers: Speakers, lowest: float
) -> Choice:
    """The language model that ``--language_model`` names.

    Args:
      named: one of ``KINDS``, or a file in the ARPA format.
      train_files: of the split train, where there is one.
      files: whose turns are heard.
      speakers: who says what.
      lowest: the lowest word error rate that is wanted: by it ``auto`` decides whether train alone will do.

    Raises:
      InputError: no such file; ``train`` or ``mixed`` of a corpus without a split train; nobody says a word.
    """
    if named not in KINDS:
        return Choice(sphinx.given_model(named), "a file", [])
    heard = list(sentences_of(files, speakers)) if named != "train" else []
    train: Sentences = []
    if named != "own":
        if not train_files and named != "auto":
            hint = "give --language_model own, or a file in the ARPA format"
            raise InputError(f"the language model wants a split train (there are no dialogues in 'train'); {hint}")
        # A folder with one split has no other: what is read for train are the very turns that are heard.
        if {file.relative for file in train_files} != {file.relative for file in files}:
            train = list(sentences_of(train_files, speakers))
        elif named == "train":
            return Choice(sphinx.trained_model(heard := list(sentences_of(files, speakers)), False), "own", heard)
    if named == "own" or (named == "auto" and not train):
        return Choice(sphinx.trained_model(heard, general=False), "own", heard)
    if named == "mixed":
        return Choice(sphinx.trained_model(train + heard, general=True), "mixed", train + heard)
    alone = sphinx.trained_model(train, general=True)
    if named == "train":
        return Choice(alone, "train", train)
    perplexity = round(ngram.perplexity(alone.arpa, heard), 1)
    if perplexity <= limit_of(lowest):
        return Choice(alone, "train", train, perplexity)
    return Choice(sphinx.trained_model(train + heard, general=True), "mixed", train + heard, perplexity)
