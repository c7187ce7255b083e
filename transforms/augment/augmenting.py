"""Dialogue files as training sets: one file is one element, read once, each dialogue followed by its versions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import apache_beam as beam
import msgspec
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.dialogue import typed
from parapet.schemas.dialogue_files import BETWEEN, CLOSING, EMPTY, OPENING, DialogueFile, dialogue_text, read_each
from parapet.schemas.errors import InputError
from parapet.transforms.augment.plan import ORIGINAL, TrainingSet, Work
from parapet.transforms.augment.tables import Part, ShardKey, batch_of, row_of, write_parts
from parapet.transforms.corpora import read_file
from parapet.transforms.dead_letters import DeadLetter, dead_dialogue, dead_file, id_of
from parapet.transforms.files import HashingWriter, Written, staged
from parapet.transforms.variants.dialogues import Places, places_of, rename
from parapet.transforms.variants.matching import Variant

ROWS, DEAD, COUNTS, IDS = "rows", "dead", "counts", "ids"


class Augmented(msgspec.Struct):
    """What became of one file.

    Attributes:
      written: the files of the sets.
      rows: where the same stand, as rows for Parquet.
      letters: what was left out, and why.
      counts: see :func:`check_invariants`.
      ids: of the dialogues that were read.
    """

    written: list[Written] = []
    rows: list[tuple[ShardKey, Part]] = []
    letters: list[DeadLetter] = []
    counts: Counter[str] = msgspec.field(default_factory=Counter)
    ids: list[str] = []


class AugmentFiles(beam.PTransform):
    """Writes dialogue files of all sets into staging.

    Args:
      output: the output folder.
      work: the versions, and the sets that have them.
    """

    def __init__(self, output: str, work: Work) -> None:
        super().__init__()
        self.output, self.work = output, work

    def expand(self, files: beam.PCollection) -> Any:
        """PCollection of DialogueFile to those of Written, of (ShardKey, Part), of (path, letters) and so on."""
        return files | "Augment file" >> beam.ParDo(_AugmentFile(self.output, self.work)).with_outputs(
            ROWS, DEAD, COUNTS, IDS, main="written"
        )


class _AugmentFile(beam.DoFn):
    def __init__(self, output: str, work: Work) -> None:
        super().__init__()
        self.output, self.work = output, work

    def process(self, file: DialogueFile) -> Iterator[Written | TaggedOutput]:
        found = augment_file(file, self.work, self.output)
        yield from found.written
        for rows in found.rows:
            yield TaggedOutput(ROWS, rows)
        if found.letters:
            yield TaggedOutput(DEAD, (file.relative, found.letters))
        for count in found.counts.items():
            yield TaggedOutput(COUNTS, count)
        yield TaggedOutput(IDS, (file.relative, found.ids))
        for name in ("files", "dialogues", "written", "left_out"):
            Metrics.counter("parapet", name).inc(found.counts[name])


def augment_file(file: DialogueFile, work: Work, output: str) -> Augmented:
    """Writes one file of every set, into staging.

    A file of which a set has no dialogue is not written for it; one that cannot be read is written for none.
    """
    try:
        with ExitStack() as stack:
            return _augment(file, work, output, stack)
    except InputError as error:
        return Augmented(letters=[dead_file(file, error)], counts=Counter(files=1, broken_files=1))


def _augment(file: DialogueFile, work: Work, output: str, stack: ExitStack) -> Augmented:
    found = Augmented(counts=Counter(files=1))
    sets = [_SetFile(of, f"{of.name}/{work.split}/{file.name}", output, stack) for of in work.sets]
    batches = []
    for i, (dialogue, plain) in enumerate(read_each(read_file(file), file.path)):
        found.counts["dialogues"] += 1
        name = id_of(dialogue, i)  # before the dialogue is given those of its versions
        versions, refused = make_versions(dialogue, plain, file.name, work)
        for label, error in refused.items():
            found.letters.append(dead_dialogue(file, name, error, label))
            found.counts[f"left_out/{label}"] += 1
        if not versions:
            continue
        found.ids.append(versions.source)
        found.counts["unknown_intents"] += versions.unknown_intents
        batches.append(versions.batch)
        for label, text in versions.texts.items():
            found.counts[f"written/{label}"] += 1
            for of in sets:
                of.add(label, text)
    for of in sets:
        of.close(empty=not found.counts["dialogues"])
        found.counts[f"dialogues/{of.name}"] = of.dialogues
    found.counts["written"] = sum(n for name, n in found.counts.items() if name.startswith("written/"))
    found.counts["left_out"] = len(found.letters)
    found.written = [written for of in sets for written in of.written()]
    found.rows = write_parts(batches, work.sets, output, file.relative) if batches else []
    return found


class _SetFile:
    """A file of one set, opened with its first dialogue."""

    def __init__(self, of: TrainingSet, relative: str, output: str, stack: ExitStack) -> None:
        self.name, self.versions, self.relative = of.name, frozenset(of.versions), relative
        self.dialogues = 0
        self._output, self._stack = output, stack
        self._writer: HashingWriter | None = None

    def add(self, label: str, text: bytes) -> None:
        """Takes one version of a dialogue, where the set has that version."""
        if label in self.versions:
            self._open().write(BETWEEN if self.dialogues else OPENING)
            self._open().write(text)
            self.dialogues += 1

    def close(self, empty: bool) -> None:
        """Ends the file; of an empty one an empty one is made."""
        if self.dialogues or empty:
            self._open().write(EMPTY if empty else CLOSING)

    def written(self) -> list[Written]:
        """What was written, if anything."""
        return [self._writer.written(self.relative)] if self._writer else []

    def _open(self) -> HashingWriter:
        if self._writer is None:
            self._writer = HashingWriter(self._stack.enter_context(staged(self._output, self.relative)))
        return self._writer


class Versions(msgspec.Struct):
    """One dialogue under the names of all versions that can have it.

    Attributes:
      source: its id.
      texts: version to the text, as it stands in a file.
      batch: the same as rows.
      unknown_intents: how many intents the schema lacks; they stay as they are.
    """

    source: str
    texts: dict[str, bytes]
    batch: Any
    unknown_intents: int


def version_id(source: str, label: str) -> str:
    """The id of a version: the original keeps its own."""
    return source if label == ORIGINAL else f"{source}_{label}"


def make_versions(dialogue: Any, plain: bool, file: str, work: Work) -> tuple[Versions | None, dict[str, InputError]]:
    """A dialogue under every version's names; and the versions that cannot have it, with the reason."""
    texts: dict[str, bytes] = {}
    rows: list[dict[str, Any]] = []
    refused: dict[str, InputError] = {}
    try:
        places = places_of(dialogue, work.known)
        if isinstance(places, InputError):
            raise places
        source = typed(dialogue).dialogue_id  # rows are made of no others
        for variant in work.versions:
            try:
                texts[variant.name], row = _version(variant, places, plain, source, file)
                rows.append(row)
            except InputError as error:
                refused[variant.name] = error
        return Versions(source, texts, batch_of(rows), places.unknown_intents) if rows else None, refused
    except InputError as error:
        return None, {variant.name: error for variant in work.versions}


def _version(variant: Variant, places: Places, plain: bool, source: str, file: str) -> tuple[bytes, dict[str, Any]]:
    places.dialogue["dialogue_id"] = version_id(source, variant.name)
    text = dialogue_text(rename(variant, places), plain)
    return text, row_of(places.dialogue, file, variant.name, source)


def check_ids(name: str, ids: Iterable[tuple[str, Sequence[str]]], labels: Sequence[str]) -> tuple[str, int]:
    """The number of dialogues, as a count called ``name``, once no two versions have one id.

    Args:
      name: the count's.
      ids: (dialogue file, the ids in it).
      labels: the versions but the original.

    Raises:
      InputError: an id stands twice, or is what another dialogue's version is called.
    """
    places: dict[str, str] = {}
    for file, of_file in sorted(ids):
        for one in of_file:
            if one in places:
                where = " and ".join(dict.fromkeys([places[one], file]))
                raise InputError(f"dialogue id {one!r} stands twice, so nothing was published", where)
            places[one] = file
    for one, file in places.items():
        for label in labels:
            if (other := version_id(one, label)) in places:
                reason = f"dialogue id {other!r} is taken, so {one!r} cannot be called so in variant {label!r}"
                raise InputError(f"{reason}; nothing was published", places[other] or file)
    return name, len(places)


def check_invariants(counts: Mapping[str, int], labels: Sequence[str], sets: Sequence[TrainingSet]) -> dict[str, int]:
    """Every dialogue ends once per version, written or left out; every set has its versions, in JSON and in Parquet.

    Raises:
      RuntimeError: they do not balance.
    """

    def of(name: str) -> int:
        return counts.get(name, 0)

    wrong = [label for label in labels if of("dialogues") != of(f"written/{label}") + of(f"left_out/{label}")]
    for one in sets:
        expected = sum(of(f"written/{label}") for label in one.versions)
        if not expected == of(f"dialogues/{one.name}") == of(f"rows/{one.name}"):
            wrong.append(one.name)
    if of("dialogues") * len(labels) != of("written") + sum(of(f"left_out/{label}") for label in labels):
        wrong.append("written")
    if wrong:
        raise RuntimeError(f"the counts do not balance for {', '.join(wrong)}: {dict(counts)}")
    return dict(counts)
