"""Dialogue files under the names of their variants: one file is one element, read once and written for each variant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.dialogue_files import BETWEEN, CLOSING, EMPTY, OPENING, DialogueFile, dialogue_text, read_each
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.transforms.corpora import read_file
from parapet.transforms.dead_letters import DeadLetter, dead_dialogue, dead_file, id_of
from parapet.transforms.files import HashingWriter, Written, staged
from parapet.transforms.variants.dialogues import Places, places_of, rename
from parapet.transforms.variants.matching import Split, Variant

DEAD = "dead"
COUNTS = "counts"


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
        """DialogueFile to Written (main), (path, its dead letters) (DEAD), (name, n) to be summed (COUNTS)."""
        return files | "Rewrite file" >> beam.ParDo(_RewriteFile(self.output, self.splits)).with_outputs(
            DEAD, COUNTS, main="written"
        )


class _RewriteFile(beam.DoFn):
    def __init__(self, output: str, splits: Mapping[str, Split]) -> None:
        super().__init__()
        self.output, self.splits = output, splits

    def process(self, file: DialogueFile) -> Iterator[Written | TaggedOutput]:
        written, dead, counts = rewrite_file(file, self.splits[file.split], self.output)
        yield from written
        if dead:
            yield TaggedOutput(DEAD, (file.relative, dead))
        for count in counts.items():
            yield TaggedOutput(COUNTS, count)
        for name in ("files", "dialogues", "rewritten", "left_out"):
            Metrics.counter("parapet", name).inc(counts[name])


def rewrite_file(file: DialogueFile, split: Split, output: str) -> tuple[list[Written], list[DeadLetter], Counter[str]]:
    """Writes one file under the names of every variant, into staging.

    A file of which a variant has no dialogue is not written for it; one that cannot be read is written for none.

    Returns:
      What was written; what was left out, and why; the counts.
    """
    try:
        with ExitStack() as stack:
            return _rewrite(file, split, output, stack)
    except InputError as error:
        return [], [dead_file(file, error)], Counter(files=1, broken_files=1)


def _rewrite(
    file: DialogueFile, split: Split, output: str, stack: ExitStack
) -> tuple[list[Written], list[DeadLetter], Counter[str]]:
    dead: list[DeadLetter] = []
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
                dead.append(dead_dialogue(file, id_of(dialogue, i), error, variant.name))
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
    counts["left_out"] = len(dead)
    return [writer.written(f"{name}/{file.relative}") for name, writer in writers.items()], dead, counts


def text_under(variant: Variant, places: Places | InputError, plain: bool = True) -> bytes:
    """One dialogue under the names of one variant, as it stands in a file.

    Args:
      variant: the variant.
      places: the dialogue's, or why it has none.
      plain: as ``read_each`` has it.

    Raises:
      InputError: why the variant cannot have the dialogue.
    """
    return dialogue_text(rename(variant, places), plain)


def copy_schema(schema: tuple[str, str]) -> tuple[str, bytes]:
    """(path below the output, a variant's schema file) to (path below the output, its bytes as they are)."""
    return schema[0], as_path(schema[1]).read_bytes()


def check_invariants(counts: Mapping[str, int], variants: int) -> dict[str, int]:
    """Every dialogue ends once per variant: rewritten or left out. Raises RuntimeError where one does not."""
    left_out = counts.get("left_out", 0)
    if counts.get("dialogues", 0) * variants != counts.get("rewritten", 0) + left_out:
        raise RuntimeError(f"the counts do not balance for {variants} variants: {dict(counts)}")
    return dict(counts)
