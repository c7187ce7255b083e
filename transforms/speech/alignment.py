"""Aligns reference and hypothesis: word errors, and where a slot value is in the hypothesis."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, Literal

import msgspec

from parapet.transforms.speech.spoken import Word

Kind = Literal["equal", "substitute", "delete", "insert"]
Chunk = tuple[Kind, int, int, int, int]  # kind, reference words from and to, hypothesis words from and to


class Aligned(msgspec.Struct, frozen=True):
    """Reference and hypothesis, aligned with the fewest errors.

    Attributes:
      chunks: runs of one kind, in order, without gaps: together they are all words of both sides.
      substitutions: words recognised as another.
      deletions: words of the reference that the hypothesis lacks.
      insertions: words of the hypothesis that the reference lacks.
      hits: words recognised correctly.
    """

    chunks: tuple[Chunk, ...]
    substitutions: int
    deletions: int
    insertions: int
    hits: int


class Found(msgspec.Struct, frozen=True):
    """Characters of the new utterance, start to end."""

    start: int
    end: int


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> Aligned:
    """Aligns words; either side may have none.

    One pair a call: jiwer spends 15 microseconds on a pair of eight words in a batch, 20 by itself.

    Args:
      reference: the words that were spoken, without spaces.
      hypothesis: the words of the transcript, likewise.
    """
    jiwer, apart = _jiwer()
    found = jiwer.process_words(" ".join(reference), " ".join(hypothesis), apart, apart)
    return Aligned(
        tuple((c.type, c.ref_start_idx, c.ref_end_idx, c.hyp_start_idx, c.hyp_end_idx) for c in found.alignments[0]),
        found.substitutions,
        found.deletions,
        found.insertions,
        found.hits,
    )


@lru_cache(maxsize=1)
def _jiwer() -> tuple[Any, Any]:
    """jiwer, which comes with the extra "speech", and its transform that only splits at spaces."""
    import jiwer

    return jiwer, jiwer.Compose([jiwer.ReduceToListOfListOfWords()])


def word_error_rate(aligned: Iterable[Aligned]) -> float:
    """(substitutions + deletions + insertions) / reference words, over all texts together: long ones weigh more.

    Without reference words it is the number of hypothesis words, as with jiwer.
    """
    errors = words = 0
    for one in aligned:
        errors += one.substitutions + one.deletions + one.insertions
        words += one.substitutions + one.deletions + one.hits
    return errors / (words or 1)


def alignment_text(reference: Sequence[str], hypothesis: Sequence[str], aligned: Aligned) -> str:
    """An alignment as text: word pairs, separated by spaces.

    ``want`` was recognised correctly, ``three>tree`` substituted, ``a>`` deleted, ``>the`` inserted.
    :func:`parse_alignment` reads "i want three>tree a> >the" back; it is empty where both sides are.

    Raises:
      ValueError: a word is empty or has a space or ">", as no word of an utterance has.
    """
    if not all(map(_PLAIN, [*reference, *hypothesis])):
        raise ValueError("not the words of an utterance: one is empty or has a space or '>'")
    return " ".join(_pairs(reference, hypothesis, aligned))


_PLAIN = re.compile(r"[^\s>]+").fullmatch


def _pairs(reference: Sequence[str], hypothesis: Sequence[str], aligned: Aligned) -> Iterator[str]:
    for kind, start, end, hyp_start, hyp_end in aligned.chunks:
        spoken, recognised = reference[start:end], hypothesis[hyp_start:hyp_end]
        if kind == "equal":
            yield from spoken
        elif kind == "substitute":
            yield from (f"{one}>{other}" for one, other in zip(spoken, recognised, strict=True))
        elif kind == "delete":
            yield from (f"{one}>" for one in spoken)
        else:
            yield from (f">{other}" for other in recognised)


def parse_alignment(text: str) -> tuple[list[str], list[str], Aligned]:
    """(reference, hypothesis, their alignment) of :func:`alignment_text`.

    Raises:
      ValueError: it is no such text.
    """
    reference, hypothesis, chunks = list[str](), list[str](), list[Chunk]()
    counts: dict[Kind, int] = {"substitute": 0, "delete": 0, "insert": 0, "equal": 0}
    for kind, run in groupby(map(_parsed, text.split(" ") if text else []), key=lambda pair: pair[0]):
        start, hyp_start = len(reference), len(hypothesis)
        for _, spoken, recognised in run:
            counts[kind] += 1
            reference += [spoken] if spoken else []
            hypothesis += [recognised] if recognised else []
        chunks.append((kind, start, len(reference), hyp_start, len(hypothesis)))
    return reference, hypothesis, Aligned(tuple(chunks), *counts.values())


def _parsed(pair: str) -> tuple[Kind, str, str]:
    spoken, parted, recognised = pair.partition(">")
    if not (spoken or recognised) or ">" in recognised or (spoken == recognised) or any(c.isspace() for c in pair):
        raise ValueError(f"not a word of an alignment: {pair!r}")
    if not parted:
        return "equal", spoken, spoken
    return ("substitute" if spoken and recognised else "delete" if spoken else "insert"), spoken, recognised


def plain_ranges(hypothesis: Sequence[str]) -> list[Found]:
    """Where each word is in ``" ".join(hypothesis)``."""
    ranges, at = [], 0
    for word in hypothesis:
        ranges.append(Found(at, at + len(word)))
        at += len(word) + 1
    return ranges


def find_span(start: int, end: int, words: Sequence[Word], aligned: Aligned, ranges: Sequence[Found]) -> Found | None:
    """The span of a slot value in the new utterance; None where it was not recognised correctly.

    All its words must be recognised correctly, with none inserted between them. A value that has a part of a number
    ("5" of "$5") has all of that number's words.

    Args:
      start: of the value's characters in the utterance.
      end: likewise.
      words: of the utterance.
      aligned: those words against the hypothesis.
      ranges: where each hypothesis word is in the new utterance: :func:`plain_ranges`, or those of :func:`restored`.
    """
    own = [i for i, word in enumerate(words) if word.start < end and start < word.end]
    if not own or start >= end:
        return None
    for kind, first, after, hyp_first, _ in aligned.chunks:
        if kind == "equal" and first <= own[0] and own[-1] < after:
            shift = hyp_first - first
            return Found(ranges[own[0] + shift].start, ranges[own[-1] + shift].end)
    return None


def restored(
    utterance: str, words: Sequence[Word], aligned: Aligned, hypothesis: Sequence[str]
) -> tuple[str, list[Found]]:
    """The hypothesis with the original spelling of words recognised correctly: "at 7:30 pm, tree people".

    These words have the capitals, digits and punctuation of the utterance. A number with a recognition error is spelled
    out. Punctuation stays with the word that it is attached to; what is between two words that follow one another in
    the utterance is kept. So without errors the result is the utterance itself.

    Returns:
      The text, and where each hypothesis word is in it: all words of a number are where that number is.
    """
    text, ranges = "", list[Found]()
    done: int | None = 0  # reference words up to here; None after a word written as recognised
    for piece in _pieces(words, aligned, hypothesis):
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


def _pieces(words: Sequence[Word], aligned: Aligned, hypothesis: Sequence[str]) -> Iterator[str | tuple[int, int]]:
    """The hypothesis, in order: a word, or (from, to) the reference words of a token that was recognised correctly."""
    reference_of: list[int] = [-1] * len(hypothesis)
    for kind, start, end, hyp_start, hyp_end in aligned.chunks:
        if kind == "equal":
            reference_of[hyp_start:hyp_end] = range(start, end)
    tokens = {}  # by its first word
    for _, run in groupby(range(len(words)), key=lambda i: (words[i].start, words[i].end)):
        token = list(run)
        tokens[token[0]] = token
    at = 0
    while at < len(hypothesis):
        token = tokens.get(reference_of[at], [])
        if token and reference_of[at : at + len(token)] == token:
            yield token[0], token[-1] + 1
            at += len(token)
        else:
            yield hypothesis[at]
            at += 1


# Punctuation after a word and before one, up to a blank: the hyphen of "drop-off" belongs to neither.
_TAIL = re.compile(r"\S*(?=\s)")
_HEAD = re.compile(r"(?<=\s)\S*\Z")


def _between(utterance: str, words: Sequence[Word], done: int | None, following: int | None) -> str:
    """What is between the words up to ``done`` and the one ``following``; None for a word written as recognised."""
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
