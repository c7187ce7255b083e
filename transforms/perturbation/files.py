"""Perturb a corpus as a run: each dialogue file is read once and written for every set, together with the rows.

The unit of work is a file, in the layout of the corpus. The perturbation determines the content of a set's files; this
module handles what all perturbations share: corrupt input, dead letters, counts, rows, schemas, statistics, card and
page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from hashlib import blake2b
from operator import index
from typing import TYPE_CHECKING, Any

import apache_beam as beam

from parapet.schemas.dialogue import MESSAGES, DialogueFile, typed
from parapet.schemas.errors import InputError
from parapet.transforms.perturbation import quality
from parapet.transforms.perturbation.base import CHANGES, REFUSED, Analysis, Perturbation, Perturbed, analysis_of
from parapet.transforms.perturbation.corpora import Corpus, Item, text_in
from parapet.transforms.perturbation.corpus import (
    Services,
    results,
    rows_file,
    services_by_folder,
    table_of_rows,
)
from parapet.transforms.perturbation.languages import OTHER_LANGUAGES, other_language
from parapet.transforms.perturbation.quality import drawn_turns
from parapet.transforms.perturbation.report import report_of
from parapet.transforms.reports.report import report_files
from parapet.transforms.running.counts import (
    FAULTS,
    CountKey,
    Counts,
    DeadLetter,
    dead_dialogue,
    dead_file,
    id_of,
)
from parapet.transforms.running.fence import Fault, bad_record, is_plugin
from parapet.transforms.running.progress import ANALYSIS, expect_dialogues, tracked
from parapet.transforms.running.runs import FileResult, FinishRun, Outputs, RunInfo, WriteEach
from parapet.transforms.storage.files import WriteFiles, write_staged
from parapet.transforms.storage.set_files import SetFiles

if TYPE_CHECKING:
    from parapet.transforms.reports.report import Example

Element = tuple[DialogueFile, Mapping[int, Any]]  # a file, and the states of its dialogues by position


class PerturbCorpus(beam.PTransform):
    """Writes and publishes the sets of a perturbation.

    Args:
      perturbation: the fitted perturbation.
      corpus: the dialogues to perturb.
      info: the run.
      analyzed: the files to analyze, if they differ from those to perturb, such as other splits.
    """

    def __init__(
        self,
        perturbation: Perturbation,
        corpus: Corpus,
        info: RunInfo,
        analyzed: Sequence[DialogueFile] | None = None,
    ) -> None:
        super().__init__()
        self.perturbation, self.corpus, self.info, self.analyzed = perturbation, corpus, info, analyzed
        self.tallies = perturbation.tallies

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        """Return a PCollection with one element, the manifest of the run."""
        expect_dialogues(self.corpus.files)
        files = pipeline | "Dialogue files" >> beam.Create(self.corpus.files)
        analyzed = files
        if self.perturbation.needs_analysis() and self.perturbation.analyzes_dialogues:
            expect_dialogues(self.analyzed or self.corpus.files, ANALYSIS)
            if self.analyzed is not None:
                analyzed = pipeline | "Analyzed files" >> beam.Create(self.analyzed)
        elements, analysis = with_states(files, self.perturbation, analyzed)
        services = services_by_folder(self.corpus) if is_plugin(self.perturbation) else {}
        names = tuple(analysis.side_inputs())
        kept = max(self.perturbation.shown, quality.DRAWN)  # examples, and changed turns, kept for each set
        write = WriteEach(
            partial(write_file, output=self.info.output, shared_names=names, services=services),
            *(beam.pvalue.AsDict(pairs) for pairs in analysis.side_inputs().values()),
            shown=kept,
            others=self.perturbation.other_outputs,
            setup=partial(_opened, self.perturbation),
        )
        outputs: Outputs = elements | "Sets" >> write
        more = {"counts": analysis.counts, "dead_letters": analysis.dead_letters}
        if analysis.files is not None:
            more["written"] = analysis.files | "Write files of the analysis" >> WriteFiles(self.info.output)
        outputs = outputs.with_more(
            "Of the analysis", **{name: collection for name, collection in more.items() if collection is not None}
        )
        outputs = self.perturbation.finish(outputs, analysis)
        return outputs | "Finish" >> FinishRun(
            self.info,
            partial(
                metadata_files,
                perturbation=self.perturbation,
                options=self.info.options,
                schemas=self.perturbation.schema_files(self.corpus),
                reported_names=tuple(analysis.reported),
            ),
            *(beam.pvalue.AsList(values) for values in analysis.reported.values()),
            tallies=self.tallies,
            invariants=self.perturbation.invariants(),
            shown=kept,
        )


def with_states(
    files: beam.PCollection, perturbation: Perturbation, analyzed: beam.PCollection | None = None
) -> tuple[beam.PCollection, Analysis]:
    """Analyze a corpus, and join its files with the states of their dialogues.

    Args:
      files: PCollection of DialogueFile, to perturb.
      perturbation: the fitted perturbation.
      analyzed: the files to analyze, if they differ.

    Returns:
      PCollection of Element, and the analysis; elements with states are spread over the workers.
    """
    if analyzed is None:
        analyzed = files
    if not perturbation.analyzes_dialogues:
        analyzed = files.pipeline | "No files" >> beam.Create([], reshuffle=False)
    analysis = Analysis()
    if perturbation.needs_analysis():
        analysis = analyzed | "Analyze" >> _Analyze(perturbation)
    if analysis.states is None:
        return files | "Without states" >> beam.Map(lambda file: (file, {})), analysis
    states = analysis.states | "By file" >> beam.MapTuple(lambda place, state: (place[0], (place[1], state)))
    by_path = files | "By path" >> beam.Map(lambda file: (file.relative, file))
    joined = {"file": by_path, "states": states} | "Join" >> beam.CoGroupByKey()
    return joined | "Of file" >> beam.FlatMapTuple(_joined) | "Spread" >> beam.Reshuffle(), analysis


class _Analyze(beam.PTransform):
    def __init__(self, perturbation: Perturbation) -> None:
        super().__init__()
        self.perturbation = perturbation

    def expand(self, files: beam.PCollection) -> Any:
        return analysis_of(self.perturbation, files)


def _joined(path: str, grouped: Mapping[str, Iterable[Any]]) -> list[Element]:
    """Join a file with the states of its dialogues; files that are only analyzed produce no output."""
    files = list(grouped["file"])
    if len(files) > 1:
        raise InputError(f"{len(files)} dialogues have this id", f"dialogue {path}")
    return [(file, dict(grouped["states"])) for file in files]


def _opened(perturbation: Perturbation) -> Perturbation:
    perturbation.open()
    return perturbation


def write_file(
    element: Element,
    perturbation: Perturbation,
    *shared: Mapping[Any, Any],
    output: str,
    shared_names: Sequence[str],
    services: Mapping[str, Services],
) -> FileResult:
    """Write one dialogue file for every set into staging; nothing if it cannot be read."""
    file, states = element
    sides = dict(zip(shared_names, shared, strict=True))
    refused = {place[1]: error for place, error in sides.pop(REFUSED, {}).items() if place[0] == file.relative}
    of_sets = _FileOfSets(file, perturbation, output, refused, services.get(file.split))
    try:
        of_sets.write(states, sides)
    except Exception as error:
        return of_sets.result.failed(dead_file(file, bad_record(error, perturbation)))
    return of_sets.result


# A dialogue in one set, complete before anything is written, so that exceptions come first: text, rows, the rest.
_OfSet = tuple[bytes, Sequence[dict[str, Any]], FileResult]


class _FileOfSets:
    """A dialogue file in every set; ``refused`` are dialogues left out of all sets, by position."""

    def __init__(
        self,
        file: DialogueFile,
        perturbation: Perturbation,
        output: str,
        refused: Mapping[int, InputError],
        services: Services | None,
    ) -> None:
        self.file, self.perturbation, self.output, self.refused = file, perturbation, output, refused
        self.services = services
        self.result = FileResult(file.relative)
        self.folders = {name: name if perturbation.in_folders else "" for name in perturbation.sets}
        self.rows: dict[str, list[dict[str, Any]]] = {name: [] for name in perturbation.row_sets()}
        self.counts_changes = perturbation.metrics is CHANGES

    def write(self, states: Mapping[int, Any], shared: Mapping[str, Mapping[Any, Any]]) -> None:
        counts = self.result.counts
        counts.add("files")
        with ExitStack() as stack:
            is_lines = self.file.form == MESSAGES
            files = SetFiles(self.output, self.folders.values(), self.file.relative, stack, is_lines)
            for item in tracked(self.perturbation.items(self.file), "dialogues"):
                counts.add("dialogues")
                try:
                    of_sets = self._perturbed(item, states.get(item.position), shared)
                except Exception as error:
                    self._leave_out(item, bad_record(error, self.perturbation))
                    continue
                for name, of_set in of_sets:
                    if isinstance(of_set, InputError):
                        self._leave_out(item, of_set, name)
                    else:
                        text, rows, result = of_set
                        files.add(self.folders[name], text)
                        if name in self.rows:
                            self.rows[name] += rows
                        _add(self.result, result)
            files.close(self.perturbation.keeps_empty_files or not counts[CountKey("dialogues")])
        for name, folder in self.folders.items():
            counts.add("dialogues", files.dialogues[folder], set=name, split=self.file.split)
        self.result.written += files.written()
        self._write_rows()

    def _perturbed(
        self, item: Item, state: Any, shared: Mapping[str, Mapping[Any, Any]]
    ) -> list[tuple[str, _OfSet | InputError]]:
        """Return the dialogue in each set, or the error for this set. Nothing is written yet, in case it raises."""
        item = item._replace(error=item.error or self.refused.get(item.position))
        if item.error is None and self.perturbation.languages:
            item = item._replace(dialogue=item.dialogue or typed(item.raw))
            assert item.dialogue is not None
            if language := other_language(item.dialogue, self.perturbation.languages):
                self.result.counts.add(OTHER_LANGUAGES, value=language)
        state = self.perturbation.state_of((self.file.relative, item.position), state, shared)
        return [
            (name, result if isinstance(result, InputError) else self._of_set(name, item, result))
            for name, result in results(self.perturbation, item, state, self.services)
        ]

    def _of_set(self, name: str, item: Item, perturbed: Perturbed) -> _OfSet:
        """Compute the text, rows, counts, problems, examples and files of a dialogue in a set."""
        text = text_in(self.file, item, perturbed.dialogue)
        rows, shown = perturbed.rows, perturbed.rows if perturbed.shown is None else perturbed.shown
        if name in self.rows and is_plugin(self.perturbation):
            table_of_rows(self.perturbation, rows)  # raises if they do not fit its schema
        result, split = FileResult(""), self.file.split
        if self.counts_changes:
            turns = [*zip(item.raw["turns"], perturbed.dialogue["turns"], strict=False)]
            changed = sum(before is not after and before != after for before, after in turns)
            for count, n in (("turns", len(turns)), ("turns_changed", changed), ("dialogues_changed", changed > 0)):
                result.counts.add(count, int(n), set=name, split=split)
        for key, n in perturbed.counts.items():
            count, value = (key, "") if isinstance(key, str) else key
            result.counts[CountKey(count, name, split, value)] += index(n)
        for i, example in enumerate(shown):
            place = f"example\0{self.perturbation.seed}\0{name}\0{self.file.relative}\0{item.position}\0{i}"
            draw = blake2b(place.encode("utf-8", "surrogatepass"), digest_size=8).digest()
            result.examples.setdefault(name, []).append((draw, example))
        if name in self.perturbation.row_sets():  # a mix has turns of another set
            place = f"{self.file.relative}\0{item.position}"
            turns = [*drawn_turns(self.perturbation.seed, place, item.raw["turns"], perturbed.dialogue["turns"])]
            if turns:
                result.examples[quality.key_of_turns(name)] = turns
        result.dead_letters = [self._letter(item, problem) for problem in perturbed.problems]
        result.written = [write_staged(self.output, path, content) for path, content in perturbed.files]
        result.others = {tag: [(name, split, value) for value in values] for tag, values in perturbed.others.items()}
        return text, rows, result

    def _leave_out(self, item: Item, error: InputError, name: str = "") -> None:
        self.result.dead_letters.append(self._letter(item, error, name))
        self.result.counts.add("left_out", set=name)
        if isinstance(error, Fault):
            self.result.counts.add(FAULTS)

    def _letter(self, item: Item, error: InputError, name: str = "") -> DeadLetter:
        return dead_dialogue(self.file, id_of(item.raw, item.position), error, name)

    def _write_rows(self) -> None:
        for name, rows in self.rows.items():
            path, data = rows_file(self.perturbation, self.file, rows)
            path = f"{self.folders[name]}/{path}" if self.folders[name] else path
            self.result.written.append(write_staged(self.output, path, data))


def _add(result: FileResult, more: FileResult) -> None:
    result.written += more.written
    result.dead_letters += more.dead_letters
    result.counts.update(more.counts)
    for every, further in ((result.examples, more.examples), (result.others, more.others)):
        for key, values in further.items():
            every.setdefault(key, []).extend(values)


def metadata_files(
    counts: Counts,
    shown: Mapping[str, Sequence[Any]],
    *reported: Sequence[Any],
    perturbation: Perturbation,
    options: Mapping[str, object],
    schemas: Sequence[tuple[str, bytes]],
    reported_names: Sequence[str],
) -> dict[str, bytes]:
    """Return the other files by path: schemas, ``statistics.json``, ``README.md``, ``report.html``."""
    by_name = dict(zip(reported_names, reported, strict=True))
    statistics = perturbation.statistics(counts, by_name)
    examples: dict[str, list[Example]] = {
        name: [perturbation.example(example) for example in shown[name][: perturbation.shown]]
        for name in perturbation.sets
        if shown.get(name)
    }
    drawn = {name: quality.quality_of(shown.get(quality.key_of_turns(name), ())) for name in perturbation.sets}
    if of_sets := {name: numbers for name, numbers in drawn.items() if numbers}:
        statistics["quality"] = of_sets
    if others := counts.by("value", OTHER_LANGUAGES):
        statistics[OTHER_LANGUAGES] = others
    report = report_of(perturbation, statistics, examples, options)
    return {
        **dict(schemas),
        **perturbation.metadata_files(statistics, by_name),
        **report_files(statistics, report),
    }
