"""What was said against what was heard, word by word: errors counted, and where a slot's value is to be found again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, Literal

import msgspec

from parapet.transforms.speech.spoken import Word

Kind = Literal["equal", "substitute", "delete", "insert"]
Chunk = tuple[Kind, int, int, int, int]  # kind, the words said from and to, the words heard from and to


class Aligned(msgspec.Struct, frozen=True):
    """Words said and words heard, aligned with the fewest errors.

    Attributes:
      chunks: runs of one kind, in order, without gaps: together they are all words of both sides.
      substitutions: words heard as another.
      deletions: words not heard.
      insertions: words heard that were not said.
      hits: words heard right.
    """

    chunks: tuple[Chunk, ...]
    substitutions: int
    deletions: int
    insertions: int
    hits: int


class Found(msgspec.Struct, frozen=True):
    """Characters of the text heard, start to end."""

    start: int
    end: int


def align(reference: Sequence[str], heard: Sequence[str]) -> Aligned:
    """Aligns words; either side may have none.

    One pair a call: jiwer spends 15 microseconds on a pair of eight words in a batch, 20 by itself.

    Args:
      reference: the words that were said, none of them with a blank.
      heard: the words that were heard, likewise.
    """
    jiwer, apart = _jiwer()
    found = jiwer.process_words(" ".join(reference), " ".join(heard), apart, apart)
    return Aligned(
        tuple((c.type, c.ref_start_idx, c.ref_end_idx, c.hyp_start_idx, c.hyp_end_idx) for c in found.alignments[0]),
        found.substitutions,
        found.deletions,
        found.insertions,
        found.hits,
    )


@lru_cache(maxsize=1)
def _jiwer() -> tuple[Any, Any]:
    """jiwer, which comes with the extra "speech", and its transform that does no more than part words at blanks."""
    import jiwer

    return jiwer, jiwer.Compose([jiwer.ReduceToListOfListOfWords()])


def word_error_rate(aligned: Iterable[Aligned]) -> float:
    """(substitutions + deletions + insertions) / words said, over all texts together: long ones weigh more.

    Where nothing was said it is the number of words heard, as with jiwer.
    """
    errors = said = 0
    for one in aligned:
        errors += one.substitutions + one.deletions + one.insertions
        said += one.substitutions + one.deletions + one.hits
    return errors / (said or 1)


def alignment_text(reference: Sequence[str], heard: Sequence[str], aligned: Aligned) -> str:
    """An alignment in a line: what was said and what was heard for it, separated by spaces.

    ``want`` was heard right, ``three>tree`` as another word, ``a>`` not at all, ``>the`` was not said. So
    "i want three>tree a> >the" can be read back (:func:`parse_alignment`); nothing was said or heard where it is empty.

    Raises:
      ValueError: a word is empty or has a blank or ">", as no word of an utterance has.
    """
    if not all(map(_PLAIN, [*reference, *heard])):
        raise ValueError("not the words of an utterance: one is empty or has a blank or '>'")
    return " ".join(_pairs(reference, heard, aligned))


_PLAIN = re.compile(r"[^\s>]+").fullmatch


def _pairs(reference: Sequence[str], heard: Sequence[str], aligned: Aligned) -> Iterator[str]:
    for kind, start, end, heard_start, heard_end in aligned.chunks:
        said, got = reference[start:end], heard[heard_start:heard_end]
        if kind == "equal":
            yield from said
        elif kind == "substitute":
            yield from (f"{one}>{other}" for one, other in zip(said, got, strict=True))
        elif kind == "delete":
            yield from (f"{one}>" for one in said)
        else:
            yield from (f">{other}" for other in got)


def parse_alignment(text: str) -> tuple[list[str], list[str], Aligned]:
    """(the words said, the words heard, how they are aligned) of :func:`alignment_text`.

    Raises:
      ValueError: it is no such text.
    """
    reference, heard, chunks = list[str](), list[str](), list[Chunk]()
    counts: dict[Kind, int] = {"substitute": 0, "delete": 0, "insert": 0, "equal": 0}
    for kind, run in groupby(map(_parsed, text.split(" ") if text else []), key=lambda pair: pair[0]):
        start, heard_start = len(reference), len(heard)
        for _, said, got in run:
            counts[kind] += 1
            reference += [said] if said else []
            heard += [got] if got else []
        chunks.append((kind, start, len(reference), heard_start, len(heard)))
    return reference, heard, Aligned(tuple(chunks), *counts.values())


def _parsed(pair: str) -> tuple[Kind, str, str]:
    said, parted, got = pair.partition(">")
    if not (said or got) or ">" in got or (said == got) or any(c.isspace() for c in pair):
        raise ValueError(f"not a word of an alignment: {pair!r}")
    if not parted:
        return "equal", said, said
    return ("substitute" if said and got else "delete" if said else "insert"), said, got


def plain_ranges(heard: Sequence[str]) -> list[Found]:
    """Where each word is in ``" ".join(heard)``."""
    ranges, at = [], 0
    for word in heard:
        ranges.append(Found(at, at + len(word)))
        at += len(word) + 1
    return ranges


def find_span(start: int, end: int, words: Sequence[Word], aligned: Aligned, ranges: Sequence[Found]) -> Found | None:
    """Where a value of the utterance is in the text heard; None where it was not heard as it was said.

    It is there only if all its words were heard right, with nothing heard between them. A value that has a part of a
    number ("5" of "$5") has all of that number's words.

    Args:
      start: of the value's characters in the utterance.
      end: likewise.
      words: of the utterance.
      aligned: those words against the words heard.
      ranges: where each word heard is in the text: :func:`plain_ranges`, or those of :func:`restored`.
    """
    own = [i for i, word in enumerate(words) if word.start < end and start < word.end]
    if not own or start >= end:
        return None
    for kind, first, after, heard_first, _ in aligned.chunks:
        if kind == "equal" and first <= own[0] and own[-1] < after:
            shift = heard_first - first
            return Found(ranges[own[0] + shift].start, ranges[own[-1] + shift].end)
    return None


def restored(utterance: str, words: Sequence[Word], aligned: Aligned, heard: Sequence[str]) -> tuple[str, list[Found]]:
    """The words heard, written as the utterance has them where they were heard right: "at 7:30 pm, tree people".

    With its capitals, digits and punctuation, that is. A number of which a word was not heard right is written as
    heard. Punctuation stays with the word that it is attached to; between two words that follow one another in the
    utterance all is as it is there. So the utterance itself comes back where every word was heard right.

    Returns:
      The text, and where each word heard is in it: the words of one number all where that number is.
    """
    text, ranges = "", list[Found]()
    done: int | None = 0  # of the words said, those up to here; None after a word that is written as heard
    for piece in _pieces(words, aligned, heard):
        if isinstance(piece, str):
            text += _between(utterance, words, done, None)
            ranges.append(Found(len(text), len(text) + len(piece)))
            text, done = text + piece, None
        else:
            first, after = piece
            text += _between(utterance, words, done, first)
            own = utterance[words[first].start : words[first].end]
            ranges += [Found(len(text), len(text) + len(own))] * (after - first)
            text, done = text + own, after
    return (text + _between(utterance, words, done, len(words)) if ranges else ""), ranges


def _pieces(words: Sequence[Word], aligned: Aligned, heard: Sequence[str]) -> Iterator[str | tuple[int, int]]:
    """What was heard, in order: a word, or (from, to) the words said of one token, all of them heard right."""
    said_as: list[int] = [-1] * len(heard)
    for kind, start, end, heard_start, heard_end in aligned.chunks:
        if kind == "equal":
            said_as[heard_start:heard_end] = range(start, end)
    tokens = {}  # by its first word
    for _, run in groupby(range(len(words)), key=lambda i: (words[i].start, words[i].end)):
        token = list(run)
        tokens[token[0]] = token
    at = 0
    while at < len(heard):
        token = tokens.get(said_as[at], [])
        if token and said_as[at : at + len(token)] == token:
            yield token[0], token[-1] + 1
            at += len(token)
        else:
            yield heard[at]
            at += 1


# Punctuation after a word and before one, up to a blank: the hyphen of "drop-off" belongs to neither.
_TAIL = re.compile(r"\S*(?=\s)")
_HEAD = re.compile(r"(?<=\s)\S*\Z")


def _between(utterance: str, words: Sequence[Word], done: int | None, following: int | None) -> str:
    """What stands between the words up to ``done`` and the one ``following``; None for a word that is as heard."""
    if done == following and done is not None:
        return _gap(utterance, words, done)
    tail = head = ""
    if done:
        found = _TAIL.match(_gap(utterance, words, done) + (" " if done == len(words) else ""))
        tail = found.group() if found else ""
    if following is not None and following < len(words):
        found = _HEAD.search((" " if following == 0 else "") + _gap(utterance, words, following))
        head = found.group() if found else ""
    inside = done != 0 and (following is None or following < len(words))
    return f"{tail} {head}" if inside else tail + head


def _gap(utterance: str, words: Sequence[Word], at: int) -> str:
    """The characters between word ``at`` and the one before it, or the edge of the utterance."""
    start = words[at - 1].end if at else 0
    end = words[at].start if at < len(words) else len(utterance)
    return utterance[start:end]
