"""A corpus perturbed as a run: each dialogue file is read once and written for every set, beside the rows.

The unit of work is a file, in the layout of the corpus. What a file of a set is made of is the perturbation's; what is
the same for all of them is here: corrupt input, dead letters, counts, rows, schemas, statistics, card, page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING, Any

import apache_beam as beam

from parapet.schemas.dialogue_files import DialogueFile, dialogue_text
from parapet.schemas.errors import InputError, UserCodeError, storable, storable_row
from parapet.transforms.corpora import Corpus, Item
from parapet.transforms.counts import CountKey, Counts, Value
from parapet.transforms.dead_letters import dead_dialogue, dead_file, id_of
from parapet.transforms.files import WriteFiles, write_staged
from parapet.transforms.parquet import parquet_bytes
from parapet.transforms.perturbation import CHANGES, Analysis, Detailed, Perturbation, Perturbed, analysis_of, checked
from parapet.transforms.perturbed_corpus import table_of_rows
from parapet.transforms.progress import ANALYSIS, expect_dialogues, tracked
from parapet.transforms.report import report_files
from parapet.transforms.runs import FileResult, FinishRun, Outputs, RunInfo, WriteEach
from parapet.transforms.set_files import SetFiles

if TYPE_CHECKING:
    from parapet.transforms.report import Example

Element = tuple[DialogueFile, Mapping[int, Any]]  # a file, and the states of its dialogues by position


class PerturbCorpus(beam.PTransform):
    """Writes and publishes the sets of a perturbation.

    Args:
      perturbation: what is done; it has been fitted.
      corpus: the dialogues that are perturbed.
      info: the run.
      analyzed: the files that are analyzed, where they are others than those that are perturbed: other splits, too.
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

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        """Pipeline to one element, the manifest of the run."""
        expect_dialogues(self.corpus.files)
        analysis = Analysis()
        if self.perturbation.needs_analysis():
            analyzed = self.corpus.files if self.analyzed is None else self.analyzed
            if not self.perturbation.analyzes_dialogues:
                analyzed = []
            expect_dialogues(analyzed, ANALYSIS)
            analysis = pipeline | "Analyzed files" >> beam.Create(analyzed) | "Analyze" >> _Analyze(self.perturbation)
        if analysis.states is None:
            elements = pipeline | "Dialogue files" >> beam.Create([(file, {}) for file in self.corpus.files])
        else:
            files = pipeline | "Dialogue files" >> beam.Create(self.corpus.files)
            states = analysis.states | "By file" >> beam.MapTuple(lambda place, state: (place[0], (place[1], state)))
            by_path = files | "By path" >> beam.Map(lambda file: (file.relative, file))
            joined = {"file": by_path, "states": states} | "Join" >> beam.CoGroupByKey()
            elements = joined | "Of file" >> beam.FlatMap(_joined) | "Spread" >> beam.Reshuffle()
        write = WriteEach(
            partial(write_file, output=self.info.output, shared_names=tuple(analysis.shared)),
            *(beam.pvalue.AsDict(pairs) for pairs in analysis.shared.values()),
            shown=self.perturbation.shown,
            others=self.perturbation.other_outputs,
            setup=partial(_Opened, self.perturbation),
        )
        outputs: Outputs = elements | "Sets" >> write
        more = {"counts": analysis.counts, "dead_letters": analysis.dead_letters}
        if analysis.files is not None:
            more["written"] = analysis.files | "Write files of the analysis" >> WriteFiles(self.info.output)
        outputs = outputs.with_more("Of the analysis", **{name: of for name, of in more.items() if of is not None})
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
            tallies=self.perturbation.tallies,
            invariants=self.perturbation.invariants(),
            shown=self.perturbation.shown,
        )


class _Analyze(beam.PTransform):
    def __init__(self, perturbation: Perturbation) -> None:
        super().__init__()
        self.perturbation = perturbation

    def expand(self, files: beam.PCollection) -> Any:
        return analysis_of(self.perturbation, files)


def _joined(joined: tuple[str, Mapping[str, Iterable[Any]]]) -> list[Element]:
    """Of a file that is analyzed and not perturbed nothing."""
    _, found = joined
    states = dict(found["states"])
    return [(file, states) for file in found["file"]]


class _Opened:
    """A perturbation on a worker."""

    def __init__(self, perturbation: Perturbation) -> None:
        self.perturbation = perturbation
        perturbation.open()

    def close(self) -> None:
        self.perturbation.close()


def write_file(
    element: Element, opened: _Opened, *shared: Mapping[Any, Any], output: str, shared_names: Sequence[str]
) -> FileResult:
    """Writes one dialogue file for every set into staging; of one that cannot be read nothing."""
    file, states = element
    of = _FileOfSets(file, opened.perturbation, output)
    try:
        of.write(states, dict(zip(shared_names, shared, strict=True)))
    except UserCodeError:
        raise
    except InputError as error:
        return of.result.failed(dead_file(file, error))
    return of.result


class _FileOfSets:
    """One dialogue file as every set has it."""

    def __init__(self, file: DialogueFile, perturbation: Perturbation, output: str) -> None:
        self.file, self.perturbation, self.output = file, perturbation, output
        self.result = FileResult(file.relative)
        self.folders = {name: name if perturbation.in_folders else "" for name in perturbation.sets}
        self.rows: dict[str, list[dict[str, Any]]] = {name: [] for name in perturbation.row_sets()}
        self.counts_changes = perturbation.metrics is CHANGES

    def write(self, states: Mapping[int, Any], shared: Mapping[str, Mapping[Any, Any]]) -> None:
        counts = self.result.counts
        counts.add("files")
        with ExitStack() as stack:
            files = SetFiles(self.output, self.folders.values(), self.file.relative, stack)
            for item in tracked(self.perturbation.items(self.file), "dialogues"):
                counts.add("dialogues")
                try:
                    if item.error is not None:
                        raise item.error
                    place = (self.file.relative, item.position)
                    state = self.perturbation.state_of(place, states.get(item.position), shared)
                    results = self.perturbation.perturb_sets(item, state)
                    first = next(results)  # of a generator, errors come with the first result
                except UserCodeError:
                    raise
                except InputError as error:
                    self._leave_out(item, error)
                    continue
                self._write_dialogue(item, chain([first], results), files)
            files.close(self.perturbation.keeps_empty_files or not counts[CountKey("dialogues")])
        for name, folder in self.folders.items():
            counts.add("dialogues", files.dialogues[folder], set=name, split=self.file.split)
        self.result.written += files.written()
        self._write_rows()

    def _write_dialogue(
        self, item: Item, results: Iterable[tuple[str, Perturbed | InputError]], files: SetFiles
    ) -> None:
        texts: dict[int, tuple[Any, bytes]] = {}  # of a short dialogue several sets have the same
        for name, perturbed in results:
            if isinstance(perturbed, InputError):
                self._leave_out(item, perturbed, name)
                continue
            checked(self.perturbation, perturbed)
            dialogue = perturbed.dialogue
            if id(dialogue) not in texts:
                try:
                    texts[id(dialogue)] = dialogue, dialogue_text(dialogue, item.plain)
                except InputError as error:  # nested too deeply
                    self._leave_out(item, error, name)
                    continue
            files.add(self.folders[name], texts[id(dialogue)][1])
            self._note(name, item, perturbed if isinstance(perturbed, Detailed) else Detailed(*perturbed))

    def _note(self, name: str, item: Item, perturbed: Detailed) -> None:
        """Takes the rows, counts, problems, examples and files of a dialogue that is in a set."""
        rows, shown = perturbed.rows, perturbed.rows if perturbed.shown is None else perturbed.shown
        if not item.plain:
            rows, shown = [storable_row(row) for row in rows], [storable_row(row) for row in shown]
        if name in self.rows:
            self.rows[name] += rows
        counts, split = self.result.counts, self.file.split
        if self.counts_changes:
            turns = [*zip(item.raw["turns"], perturbed.dialogue["turns"], strict=False)]
            changed = sum(before is not after and before != after for before, after in turns)
            counts.add("turns", len(turns), set=name, split=split)
            counts.add("turns_changed", changed, set=name, split=split)
            counts.add("dialogues_changed", int(changed > 0), set=name, split=split)
        for key, n in perturbed.counts.items():
            count, value = (key, "") if isinstance(key, str) else key
            counts[CountKey(count, name, split, value if item.plain else _storable(value))] += n
        for problem in perturbed.problems:
            self._report(item, problem)
        for i, example in enumerate(shown):
            place = f"example\0{name}\0{self.file.relative}\0{item.position}\0{i}"
            draw = blake2b(place.encode("utf-8", "surrogatepass"), digest_size=8).digest()
            self.result.examples.setdefault(name, []).append((draw, example))
        for path, content in perturbed.files:
            self.result.written.append(write_staged(self.output, path, content))
        for tag, values in perturbed.others.items():
            self.result.others.setdefault(tag, []).extend((name, split, value) for value in values)

    def _leave_out(self, item: Item, error: InputError, name: str = "") -> None:
        self._report(item, error, name)
        self.result.counts.add("left_out", set=name)

    def _report(self, item: Item, error: InputError, name: str = "") -> None:
        dead_letter = dead_dialogue(self.file, id_of(item.raw, item.position), error, name)
        self.result.dead_letters.append(dead_letter)

    def _write_rows(self) -> None:
        for name, rows in self.rows.items():
            parts = (self.folders[name], self.perturbation.rows_folder, self.file.relative.removesuffix(".json"))
            path = "/".join(part for part in parts if part) + ".parquet"
            table = table_of_rows(self.perturbation, rows)
            self.result.written.append(write_staged(self.output, path, parquet_bytes(table)))


def _storable(value: Value) -> Value:
    return storable(value) if isinstance(value, str) else tuple(map(storable, value))


def metadata_files(
    counts: Counts,
    shown: Mapping[str, Sequence[Any]],
    *reported: Sequence[Any],
    perturbation: Perturbation,
    options: Mapping[str, object],
    schemas: Sequence[tuple[str, bytes]],
    reported_names: Sequence[str],
) -> dict[str, bytes]:
    """The files besides dialogues and rows, by path: schemas, ``statistics.json``, ``README.md``, ``report.html``."""
    by_name = dict(zip(reported_names, reported, strict=True))
    statistics = perturbation.statistics(counts, by_name)
    examples: dict[str, list[Example]] = {
        name: [perturbation.example(one) for one in shown[name]] for name in perturbation.sets if shown.get(name)
    }
    report = perturbation.report(statistics, examples, options)
    return {
        **dict(schemas),
        **perturbation.metadata_files(statistics, by_name),
        **report_files(statistics, report),
    }
