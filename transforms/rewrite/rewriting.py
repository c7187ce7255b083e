"""Dialogue files under the names of their variants: one file is one element, read once and written for each variant."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import apache_beam as beam
import msgspec
import orjson
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput

from schemas.errors import InputError
from schemas.layout import as_path
from transforms.files import HashingWriter, Written, read_bytes, staged
from transforms.rewrite.places import Known, Places
from transforms.rewrite.plan import DialogueFile, Split, Variant
from transforms.rewrite.text import BETWEEN, CLOSING, EMPTY, OPENING, dialogue_text, read_each

DEAD = "dead"
COUNTS = "counts"
DEAD_LETTERS = "dead_letters.jsonl"

_SHOWN = 3


class LeftOut(msgspec.Struct, frozen=True):
    """A dialogue that a variant does not have, or a file that could not be read.

    Attributes:
      variant: the variant; nothing where it concerns all, as a file does.
      split: the folder of the file.
      file: the file's name.
      dialogue_id: the dialogue; nothing where the whole file is meant.
      where: the place inside: ``turns[2].frames[0]``, or line and column.
      reason: an id (``unknown_slot``) and a sentence.
    """

    variant: str
    split: str
    file: str
    dialogue_id: str
    where: str
    reason: str


class RewriteFiles(beam.PTransform):
    """Rewrites dialogue files into staging.

    Args:
      output: the output folder.
      splits: the folders of dialogues, with services and variants.
    """

    def __init__(self, output: str, splits: Mapping[str, Split]) -> None:
        super().__init__()
        self.output, self.splits = output, dict(splits)

    def expand(self, files: beam.PCollection) -> Any:
        """PCollection of DialogueFile to those of Written, of (path, its letters), and of (name, n) to be summed."""
        return files | "Rewrite file" >> beam.ParDo(_RewriteFile(self.output, self.splits)).with_outputs(
            DEAD, COUNTS, main="written"
        )


class _RewriteFile(beam.DoFn):
    def __init__(self, output: str, splits: Mapping[str, Split]) -> None:
        super().__init__()
        self.output, self.splits = output, splits

    def process(self, file: DialogueFile) -> Iterator[Written | TaggedOutput]:
        written, letters, counts = rewrite_file(file, self.splits[file.split], self.output)
        yield from written
        if letters:
            yield TaggedOutput(DEAD, (file.relative, letters))
        for count in counts.items():
            yield TaggedOutput(COUNTS, count)
        for name in ("files", "dialogues", "rewritten", "left_out"):
            Metrics.counter("parapet", name).inc(counts[name])


def rewrite_file(file: DialogueFile, split: Split, output: str) -> tuple[list[Written], list[LeftOut], Counter[str]]:
    """Writes one file under the names of every variant, into staging.

    A file of which a variant has no dialogue is not written for it; one that cannot be read is written for none.

    Returns:
      What was written; what was left out, and why; the counts.
    """
    try:
        with ExitStack() as stack:
            return _rewrite(file, split, output, stack)
    except InputError as error:
        letter = LeftOut("", file.split, file.name, "", error.where, f"broken_file: {error.reason}")
        return [], [letter], Counter(files=1, broken_files=1)


def _rewrite(
    file: DialogueFile, split: Split, output: str, stack: ExitStack
) -> tuple[list[Written], list[LeftOut], Counter[str]]:
    letters: list[LeftOut] = []
    counts: Counter[str] = Counter(files=1)
    writers: dict[str, HashingWriter] = {}

    def open_file(variant: str) -> HashingWriter:
        return HashingWriter(stack.enter_context(staged(output, f"{variant}/{file.relative}")))

    for i, (dialogue, plain) in enumerate(read_each(read_file(file), file.path)):
        counts["dialogues"] += 1
        places = places_of(dialogue, split.known)
        if isinstance(places, Places):
            counts["unknown_intents"] += places.unknown_intents
        for variant in split.variants:
            try:
                text = text_under(variant, places, plain)
            except InputError as error:
                name = id_of(dialogue, i)
                letters.append(LeftOut(variant.name, file.split, file.name, name, error.where, error.reason))
                counts[f"left_out/{variant.name}"] += 1
                continue
            counts[f"rewritten/{variant.name}"] += 1
            writer = writers.get(variant.name)
            if writer is None:
                writer = writers[variant.name] = open_file(variant.name)
                writer.write(OPENING)
            else:
                writer.write(BETWEEN)
            writer.write(text)
    for writer in writers.values():
        writer.write(CLOSING)
    if not counts["dialogues"]:
        for variant in split.variants:
            writer = writers[variant.name] = open_file(variant.name)
            writer.write(EMPTY)
    counts["rewritten"] = sum(n for name, n in counts.items() if name.startswith("rewritten/"))
    counts["left_out"] = len(letters)
    return [writer.written(f"{name}/{file.relative}") for name, writer in writers.items()], letters, counts


def places_of(dialogue: Any, known: Known) -> Places | InputError:
    """The places of a dialogue, or why it has none."""
    try:
        return Places(dialogue, known)
    except InputError as error:
        return error


def text_under(variant: Variant, places: Places | InputError, plain: bool = True) -> bytes:
    """One dialogue under the names of one variant, as it stands in a file.

    Args:
      variant: the variant.
      places: the dialogue's, or why it has none.
      plain: as ``read_each`` has it.

    Raises:
      InputError: why the variant cannot have the dialogue.
    """
    if isinstance(places, InputError):
        raise places
    for service in places.services:
        if service in variant.bad:
            raise InputError(f"bad_service: {service!r}: {variant.bad[service]}")
    places.write(variant.names, variant.as_published)
    return dialogue_text(places.dialogue, plain)


def read_file(file: DialogueFile) -> bytes:
    """The bytes of a dialogue file. Raises InputError where it cannot be read, ever."""
    try:
        return read_bytes(file.path)
    except OSError as error:
        if error.strerror is None:  # of the network: the runner tries again
            raise
        raise InputError(f"cannot be read: {error.strerror}", file.path) from None


def id_of(dialogue: Any, position: int) -> str:
    """The id of a dialogue, or its position as ``[3]`` where it has none."""
    found = dialogue.get("dialogue_id") if isinstance(dialogue, dict) else None
    return found if isinstance(found, str) else f"[{position}]"


def copy_schema(schema: tuple[str, str]) -> tuple[str, bytes]:
    """(path below the output, a variant's schema file) to (path below the output, its bytes as they are)."""
    return schema[0], as_path(schema[1]).read_bytes()


class LettersFile(beam.PTransform):
    """Makes ``dead_letters.jsonl`` of all letters of a run: see :func:`letters_file`.

    Args:
      leave_out: whether anything may be left out.
      done: what could not be done.
    """

    def __init__(self, leave_out: bool, done: str = "rewritten") -> None:
        super().__init__()
        self.leave_out, self.done = leave_out, done

    def expand(self, letters: beam.PCollection) -> beam.PCollection:
        """(path of a dialogue file, its letters) to one (path, bytes)."""
        return (
            letters.pipeline
            | "Once" >> beam.Create([DEAD_LETTERS], reshuffle=False)
            | "File" >> beam.Map(letters_file, beam.pvalue.AsList(letters), self.leave_out, self.done)
        )


def letters_file(
    name: str, letters: Iterable[tuple[str, list[LeftOut]]], leave_out: bool, done: str = "rewritten"
) -> tuple[str, bytes]:
    """``dead_letters.jsonl``, in the order of the files, their dialogues and the variants.

    Args:
      name: the file's.
      letters: (path of the dialogue file, what was left out of it).
      leave_out: whether dialogues may be left out.
      done: what could not be done to them.

    Raises:
      InputError: something was left out, and may not be.
    """
    every = [letter for _, of_file in sorted(letters, key=lambda one: one[0]) for letter in of_file]
    if every and not leave_out:
        raise InputError(why_not(every, done))
    return name, b"".join(_line(letter) for letter in every)


def _line(letter: LeftOut) -> bytes:
    found = msgspec.to_builtins(letter)
    try:
        return orjson.dumps(found) + b"\n"
    except TypeError:  # half a surrogate in an id
        return json.dumps(found).encode() + b"\n"


def why_not(letters: Iterable[LeftOut], done: str = "rewritten") -> str:
    """One line that says what keeps a run from being published: each dialogue once, the first of them in words."""
    said: dict[tuple[str, str, str], str] = {}
    for letter in letters:
        path = f"{letter.split}/{letter.file}" if letter.split else letter.file
        parts = [path, f"dialogue {letter.dialogue_id}" if letter.dialogue_id else "", letter.where, letter.reason]
        said.setdefault((letter.split, letter.file, letter.dialogue_id), ": ".join(part for part in parts if part))
    shown = [one.encode("utf-8", "backslashreplace").decode() for one in list(said.values())[:_SHOWN]]
    more = f"; and {len(said) - _SHOWN} more" if len(said) > _SHOWN else ""
    return (
        f"{len(said)} could not be {done}, so nothing was published (--leave_out goes on without them): "
        + "; ".join(shown)
        + more
    )


def check_balance(counts: Mapping[str, int], variants: int) -> dict[str, int]:
    """Every dialogue ends once per variant: rewritten or left out. Raises RuntimeError where one does not."""
    left_out = counts.get("left_out", 0)
    if counts.get("dialogues", 0) * variants != counts.get("rewritten", 0) + left_out:
        raise RuntimeError(f"the counts do not balance for {variants} variants: {dict(counts)}")
    return dict(counts)
