"""The steps of all runs that write files.

Each element becomes complete files, counts, dead letters and examples; the counts are summed and checked; metadata
files are made from them; and everything is published, with the manifest last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import apache_beam as beam
import msgspec
import orjson
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput
from apache_beam.typehints.decorators import IOTypeHints

from parapet.schemas import dialogue, errors
from parapet.schemas.layout import DEAD_LETTERS as DEAD_LETTERS_FILE
from parapet.transforms.core.counts import (
    Counts,
    DeadLetter,
    Invariant,
    Tally,
    check_invariants,
    check_letters,
    dead_file,
    in_order,
)
from parapet.transforms.core.fence import bad_record, fatal
from parapet.transforms.core.files import PublishStaged, Written, manifest_of, write_staged

WRITTEN, DEAD_LETTERS, COUNTS, EXAMPLES = "written", "dead_letters", "counts", "examples"

MetadataFiles = Callable[..., Mapping[str, bytes | Iterable[bytes]]]  # contents may be whole or in pieces
Letters = tuple[str, list[DeadLetter]]  # the key of an element, and its dead letters
Sums = Iterable[tuple[tuple[str, str, str, str], int]]  # counts by CountKey as a tuple


class RunInfo(msgspec.Struct, frozen=True):
    """A run, for its manifest and its dead letters.

    Attributes:
      pipeline: the name of the command.
      output: the output folder.
      options: the options that affect the content, as JSON.
      max_bad: maximum share of bad records of each kind.
      done: the operation that failed for bad records, as a participle such as ``used``, for messages.
      header: further entries of ``run.json``, such as the plug-in in use.
    """

    pipeline: str
    output: str
    options: Mapping[str, object]
    max_bad: Fraction = Fraction(0)
    done: str = "used"
    header: Mapping[str, object] = {}

    def manifest(self) -> dict[str, object]:
        """Returns the entries of ``run.json`` besides files and counts."""
        return {**errors.run_header(self.pipeline, self.options), **self.header}


class FileResult:
    """The result of one element of a run, such as a dialogue file or a shard of a simulation.

    Attributes:
      key: the sort key of dead letters, usually the path of the file.
      written: the files written into staging.
      dead_letters: the dead letters of records that could not be used.
      counts: the counts of this element.
      examples: set to (draw, example); those with the lowest draws are shown.
      others: further outputs, by tag.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        self.written: list[Written] = []
        self.dead_letters: list[DeadLetter] = []
        self.counts = Counts()
        self.examples: dict[str, list[tuple[bytes, Any]]] = {}
        self.others: dict[str, list[Any]] = {}

    def failed(self, letter: DeadLetter) -> FileResult:
        """Returns a result that only records that the file could not be read."""
        result = FileResult(self.key)
        result.dead_letters = [letter]
        result.counts.add("files")
        result.counts.add("broken_files")
        return result


class Outputs(NamedTuple):
    """The outputs of a run before summation.

    Attributes:
      written: PCollection of Written.
      dead_letters: PCollection of (key, list of DeadLetter), or None.
      counts: PCollection of (CountKey as a tuple, n).
      examples: PCollection of (set, (draw, example)), or None.
      others: tag to PCollection.
    """

    written: beam.PCollection
    dead_letters: beam.PCollection | None
    counts: beam.PCollection
    examples: beam.PCollection | None = None
    others: Mapping[str, beam.PCollection] = {}

    def with_more(self, label: str, **more: beam.PCollection | None) -> Outputs:
        """Adds further written files, dead letters or counts, if there are any."""
        flattened = {}
        for name, further in more.items():
            if further is not None:
                both = [pcollection for pcollection in (getattr(self, name), further) if pcollection is not None]
                flattened[name] = both | f"{label}: {name}" >> beam.Flatten()
        return self._replace(**flattened)


class WriteEach(beam.PTransform):
    """Writes the files of each element into staging.

    If ``write`` raises an exception for a dialogue file, or for a tuple that begins with one, the file becomes a dead
    letter; for other elements, the run fails.

    Args:
      write: makes a FileResult from an element and the side inputs.
      side: the side inputs.
      shown: number of examples kept for each set; 0 for none.
      others: the tags of further outputs.
      progress: the names of the counts that are shown during the run.
      setup: called once on each worker; its result is passed to ``write`` after the element. If it has a method
        ``close``, that is called at the end.
    """

    def __init__(
        self,
        write: Callable[..., FileResult],
        *side: Any,
        shown: int = 12,
        others: Sequence[str] = (),
        progress: Sequence[str] = ("files", "dialogues"),
        setup: Callable[[], Any] | None = None,
    ) -> None:
        super().__init__()
        self.each = _WriteEach(write, shown, progress, setup)
        self.side, self.shown, self.others = side, shown, tuple(others)

    def expand(self, elements: beam.PCollection) -> Outputs:
        """Converts a PCollection of elements to Outputs."""
        tags = (DEAD_LETTERS, COUNTS, *([EXAMPLES] if self.shown else []), *self.others)
        outputs = elements | "Write file" >> beam.ParDo(self.each, *self.side).with_outputs(*tags, main=WRITTEN)
        examples = outputs[EXAMPLES] if self.shown else None
        others = {tag: outputs[tag] for tag in self.others}
        return Outputs(outputs[WRITTEN], outputs[DEAD_LETTERS], outputs[COUNTS], examples, others)


class _WriteEach(beam.DoFn):
    def __init__(
        self, write: Callable[..., FileResult], shown: int, progress: Sequence[str], setup: Callable[[], Any] | None
    ) -> None:
        super().__init__()
        self.write, self.shown, self.progress, self.set_up = write, shown, tuple(progress), setup

    def default_type_hints(self) -> IOTypeHints:
        """Returns no hints, since Beam would apply those of ``*side`` to each side input."""
        return IOTypeHints.empty()

    def setup(self) -> None:
        self.own = (self.set_up(),) if self.set_up else ()

    def teardown(self) -> None:
        for own in self.own:
            if hasattr(own, "close"):
                own.close()

    def process(self, element: Any, *side: Any) -> Iterator[Written | TaggedOutput]:
        try:
            result = self.write(element, *self.own, *side)
        except Exception as error:
            result = _failed(element, error)
        yield from result.written
        yield from outputs_of(result, self.shown)
        for name in self.progress:
            Metrics.counter("parapet", name).inc(result.counts.sum(name, set=""))


def _failed(element: Any, error: Exception) -> FileResult:
    """Returns the result of a dialogue file that cannot be used, or re-raise the exception for other elements."""
    file = element[0] if isinstance(element, tuple) else element
    if isinstance(file, dialogue.DialogueFile):
        return FileResult(file.relative).failed(dead_file(file, bad_record(error)))
    if isinstance(error, errors.UserCodeError):  # it already names the place in its own traceback
        raise error
    raise fatal(bad_record(error)) from error


def outputs_of(result: FileResult, shown: int) -> Iterator[TaggedOutput]:
    """Yields the outputs of an element besides its files."""
    if result.dead_letters:
        yield TaggedOutput(DEAD_LETTERS, (result.key, result.dead_letters))
    for key, n in result.counts.items():
        yield TaggedOutput(COUNTS, (tuple(key), n))
    for name, examples in result.examples.items() if shown else ():
        for example in sorted(examples, key=_draw)[:shown]:
            yield TaggedOutput(EXAMPLES, (name, example))
    for tag, values in result.others.items():
        yield from (TaggedOutput(tag, value) for value in values)


def _draw(example: tuple[bytes, Any]) -> bytes:
    return example[0]


class FinishRun(beam.PTransform):
    """Sums up and publishes a run: dead letters, metadata files, checks, and the manifest last.

    Args:
      info: the run.
      metadata_files: returns the files made from counts, by path below the output; called with the summed Counts, the
        examples by set, and the side inputs.
      side: further side inputs of ``metadata_files``.
      tallies: returns the tallies that ``max_bad`` limits, given the summed counts; None if the run has no dead
        letters, or writes its own kind of them among the metadata files.
      invariants: the checks on the summed counts.
      recorded: the names of the counts for ``run.json``; by default all.
      shown: number of examples for each set.
    """

    def __init__(
        self,
        info: RunInfo,
        metadata_files: MetadataFiles,
        *side: Any,
        tallies: Callable[[Counts], list[Tally]] | None = None,
        invariants: Sequence[Invariant],
        recorded: Sequence[str] | None = None,
        shown: int = 12,
    ) -> None:
        super().__init__()
        self.info, self.metadata_files, self.side = info, metadata_files, side
        self.tallies, self.invariants, self.recorded, self.shown = tallies, list(invariants), recorded, shown

    def _extract_input_pvalues(self, outputs: Outputs) -> tuple[Outputs, dict[str, beam.PCollection]]:
        """Calls Beam's method, and remove missing inputs, since Beam does not accept None."""
        outputs, inputs = super()._extract_input_pvalues(outputs)
        return outputs, {name: pcollection for name, pcollection in inputs.items() if pcollection is not None}

    def expand(self, outputs: Outputs) -> beam.PCollection:
        """Converts Outputs to one element, the manifest as a dict."""
        summed = outputs.counts | "Sum counts" >> beam.CombinePerKey(sum)
        optional = {}
        if outputs.dead_letters is not None and self.tallies is not None:
            optional["dead_letters"] = beam.pvalue.AsList(outputs.dead_letters)
        if outputs.examples is not None:
            top = outputs.examples | "Examples" >> beam.combiners.Top.SmallestPerKey(self.shown, key=_draw)
            optional["examples"] = beam.pvalue.AsList(top)
        published: beam.PCollection = (
            outputs.written.pipeline
            | "Once" >> beam.Create([self.info], reshuffle=False)
            # a single step, since each of Beam's steps takes some 50 ms
            | "Publish"
            >> beam.ParDo(
                _Finish(self.metadata_files, self.tallies, self.invariants, self.recorded),
                beam.pvalue.AsList(outputs.written),
                beam.pvalue.AsList(summed),
                *self.side,
                **optional,
            )
            | "Move" >> PublishStaged(self.info.output)
        )
        return published


class _Finish(beam.DoFn):
    def __init__(
        self,
        metadata_files: MetadataFiles,
        tallies: Callable[[Counts], list[Tally]] | None,
        invariants: Sequence[Invariant],
        recorded: Sequence[str] | None,
    ) -> None:
        super().__init__()
        self.metadata_files, self.tallies, self.invariants = metadata_files, tallies, invariants
        self.recorded = recorded

    def default_type_hints(self) -> IOTypeHints:
        """Returns no hints, as in _WriteEach."""
        return IOTypeHints.empty()

    def process(
        self,
        info: RunInfo,
        written: Iterable[Written],
        sums: Sums,
        *side: Any,
        dead_letters: Sequence[Letters] | None = None,
        examples: Iterable[tuple[str, list[tuple[bytes, Any]]]] = (),
    ) -> Iterator[dict[str, Any]]:
        counts = Counts.of_pairs(sums)
        letters = in_order(dead_letters or ())
        if dead_letters is not None and self.tallies is not None:
            check_letters(letters, self.tallies(counts), info.max_bad, info.done)
        check_invariants(counts, self.invariants)
        shown = {name: [example for _, example in drawn] for name, drawn in examples}
        files = self.metadata_files(counts, shown, *side)
        metadata = [write_staged(info.output, path, data) for path, data in sorted(files.items())]
        if dead_letters is not None:
            lines = (orjson.dumps(msgspec.to_builtins(letter)) + b"\n" for letter in letters)
            metadata.append(write_staged(info.output, DEAD_LETTERS_FILE, lines))
        yield manifest_of(info.manifest(), counts.as_json(self.recorded), [*written, *metadata])


def check_dead_letters(
    dead_letters: beam.PCollection,
    counts: beam.PCollection,
    tallies: Callable[[Counts], list[Tally]],
    max_bad: Fraction,
) -> None:
    """Makes the pipeline fail if too many records are bad or none is usable."""
    summed = counts | "Counts to check" >> beam.CombinePerKey(sum)
    _ = (
        dead_letters.pipeline
        | "For the check" >> beam.Create([max_bad], reshuffle=False)
        | "Check dead letters"
        >> beam.Map(_check_dead_letters, beam.pvalue.AsList(dead_letters), beam.pvalue.AsList(summed), tallies)
    )


def _check_dead_letters(
    max_bad: Fraction, elements: Sequence[Letters], sums: Sums, tallies: Callable[[Counts], list[Tally]]
) -> None:
    check_letters(in_order(elements), tallies(Counts.of_pairs(sums)), max_bad, "used")
