"""Perturb a corpus as a run: each dialogue file is read once and written for every set, together with the rows.

The unit of work is a file, in the layout of the corpus. The perturbation determines the content of a set's files; this
module handles what all perturbations share: corrupt input, dead letters, counts, rows, schemas, statistics, card and
page.
"""

from __future__ import annotations

import copy
import gc
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from operator import index
from pathlib import Path
from typing import Any

import apache_beam as beam
import msgspec

from parapet.schemas.dialogue import LINE, MESSAGES, DialogueFile, dialogue_text, line_text, longest_first, values_in
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.schemas.tasks import ANSWERS, answers_beside, by_id
from parapet.transforms.core import fence, progress, runs
from parapet.transforms.core.counts import FAULTS, CountKey, Counts, DeadLetter, dead_dialogue, dead_file, id_of
from parapet.transforms.core.files import SetFiles, Written, write_staged
from parapet.transforms.core.runs import FileResult
from parapet.transforms.perturb import apply, base, corpora, page
from parapet.transforms.perturb.apply import Analyzed, Services, rows_file, services_by_folder, table_of_rows
from parapet.transforms.perturb.base import Analysis, Perturbation, Perturbed, States, analysis_of
from parapet.transforms.perturb.page import example_of, report_of
from parapet.transforms.report.report import report_files

Element = tuple[DialogueFile, States]  # a file, and the states of its dialogues


class PerturbCorpus(beam.PTransform):
    """Writes and publishes the sets of a perturbation.

    Args:
      perturbation: the fitted perturbation.
      corpus: the dialogues to perturb.
      info: the run.
      analyzed: the files to analyze, which may be of other splits, too.
    """

    def __init__(
        self, perturbation: Perturbation, corpus: corpora.Corpus, info: runs.RunInfo, analyzed: Sequence[DialogueFile]
    ) -> None:
        super().__init__()
        self.perturbation, self.corpus, self.info, self.analyzed = perturbation, corpus, info, analyzed
        self.tallies = perturbation.tallies  # for the command, which warns about what was left out

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        """Returns a PCollection with one element, the manifest of the run."""
        progress.expect_dialogues(self.corpus.files)
        files = pipeline | "Dialogue files" >> beam.Create(self.corpus.files)
        analyzed = None
        if self.perturbation.needs_analysis() and self.perturbation.analyzes_dialogues:
            progress.expect_dialogues(self.analyzed, progress.ANALYSIS)
            analyzed = pipeline | "Analyzed files" >> beam.Create(self.analyzed)
        elements, analysis = with_states(files, self.perturbation, analyzed)
        services = services_by_folder(self.corpus) if fence.is_plugin(self.perturbation) else {}
        of_dialogues: runs.Outputs = elements | "Sets" >> runs.WriteEach(
            partial(write_file, output=self.info.output, shared_names=(*analysis.shared,), services=services),
            *map(beam.pvalue.AsDict, analysis.shared.values()),
            shown=page.DRAWN,
            setup=partial(_opened, self.perturbation),
        )
        outputs = of_dialogues.with_more("Of the analysis", counts=analysis.counts, dead_letters=analysis.dead_letters)
        return outputs | "Finish" >> runs.FinishRun(
            self.info,
            partial(
                metadata_files,
                perturbation=self.perturbation,
                options=self.info.options,
                schemas=self.perturbation.schema_files(self.corpus),
            ),
            tallies=self.tallies,
            invariants=self.perturbation.invariants(),
            shown=page.DRAWN,
        )


def with_states(
    files: beam.PCollection, perturbation: Perturbation, analyzed: beam.PCollection | None = None
) -> tuple[beam.PCollection, Analysis]:
    """Analyzes a corpus, and join its files with the states of their dialogues.

    Args:
      files: PCollection of DialogueFile, to perturb.
      perturbation: the fitted perturbation.
      analyzed: the files to analyze, if they differ.

    Returns:
      PCollection of Element, and the analysis; elements with states are spread over the workers.
    """
    analysis = analysis_of(perturbation, files if analyzed is None else analyzed)
    if analysis.states is None:
        return files | "Without states" >> beam.Map(lambda file: (file, {})), analysis
    states = analysis.states | "States by file" >> beam.MapTuple(lambda place, state: (place[0], (place, state)))
    by_path = files | "Files by path" >> beam.Map(lambda file: (file.relative, file))
    joined = {"file": by_path, "states": states} | "Join states" >> beam.CoGroupByKey()
    return joined | "With states" >> beam.FlatMapTuple(_joined) | "Spread joined files" >> beam.Reshuffle(), analysis


def _joined(path: str, grouped: Mapping[str, Iterable[Any]]) -> list[Element]:
    """Joins a file with the states of its dialogues; files that are only analyzed produce no output."""
    files = list(grouped["file"])
    if len(files) > 1:
        raise InputError(f"{len(files)} dialogues have this id", f"dialogue {path}")
    return [(file, dict(grouped["states"])) for file in files]


def _opened(perturbation: Perturbation) -> Perturbation:
    gc.freeze()  # what is imported stays: collections need not look at it
    gc.set_threshold(50_000, 20, 50)  # dialogues are many small objects without cycles
    perturbation.open()
    return perturbation


def write_file(
    element: Element,
    perturbation: Perturbation,
    *shared: Mapping[Any, Any],
    output: str,
    shared_names: Sequence[str],
    services: Mapping[str, Services],
) -> runs.FileResult:
    """Writes one dialogue file for every set into staging; nothing if it cannot be read."""
    file, states = element
    analyzed = Analyzed(perturbation, states, dict(zip(shared_names, shared, strict=True)))
    of_sets = _FileOfSets(file, analyzed, output, services.get(file.split))
    try:
        of_sets.write()
    except Exception as error:
        return of_sets.result.failed(dead_file(file, fence.bad_record(error, perturbation)))
    return of_sets.result


class _FileOfSets:
    """A dialogue file in every set."""

    def __init__(self, file: DialogueFile, analyzed: Analyzed, output: str, services: Services | None) -> None:
        self.file, self.analyzed, self.output, self.services = file, analyzed, output, services
        self.perturbation = perturbation = analyzed.perturbation
        self.result = runs.FileResult(file.relative)
        self.folders = {name: name if perturbation.in_folders else "" for name in perturbation.sets}
        self.rows: dict[str, list[dict[str, Any]]] = {name: [] for name in perturbation.row_sets()}

    def write(self) -> None:
        counts = self.result.counts
        counts.add("files")
        with ExitStack() as stack:
            files = SetFiles(self.output, self.folders.values(), self.file.relative, stack, self.file.form == MESSAGES)
            for position, raw in enumerate(progress.tracked(corpora.read_items(self.file), "dialogues")):
                item = corpora.Item(position, raw)
                counts.add("dialogues")
                try:
                    of_sets = self._perturbed(item)
                except Exception as error:
                    self._leave_out(item, fence.bad_record(error, self.perturbation))
                    continue
                for name, text, result, own_counts in of_sets:
                    if isinstance(result, InputError):
                        self._leave_out(item, result, name)
                    else:
                        files.add(self.folders[name], text)
                        counts.update(own_counts)
                        self._add(name, item, result)
            files.close(keep_empty=not counts[CountKey("dialogues")])
        for name, folder in self.folders.items():
            counts.add("dialogues", files.dialogues[folder], set=name, split=self.file.split)
        self.result.written += files.written()
        for name, rows in self.rows.items():
            path, data = rows_file(self.perturbation, self.file, rows)
            path = f"{self.folders[name]}/{path}" if self.folders[name] else path
            self.result.written.append(write_staged(self.output, path, data))

    def _perturbed(self, item: corpora.Item) -> list[tuple[str, bytes, Any, Counts]]:
        """Returns the dialogue in each set: its text, the result or error, and counts.

        Nothing is written yet: a dialogue for which this raises is in no set.
        """
        item = self.analyzed.usable(self.file.relative, item)
        if item.dialogue and (language := corpora.other_language(item.dialogue, self.perturbation.languages)):
            self.result.counts.add(corpora.OTHER_LANGUAGES, value=language)
        of_sets = []
        is_ours = not fence.is_plugin(self.perturbation)
        for name, result in self.analyzed.results(self.file.relative, item, self.services):
            text, counts = b"", Counts()
            if not isinstance(result, InputError):
                turns = result.dialogue["turns"]
                is_line = self.file.form == MESSAGES
                text = line_text(item.raw[LINE], turns) if is_line else dialogue_text(result.dialogue, is_ours)
                if name in self.rows and not is_ours:
                    table_of_rows(self.perturbation, result.rows)  # raises if they do not fit its schema
                for key, n in result.counts.items():
                    count, value = (key, "") if isinstance(key, str) else key
                    counts.add(count, index(n), set=name, split=self.file.split, value=value)
                if self.perturbation.tables is None:
                    self._count_changes(counts, name, item.raw["turns"], turns)
            of_sets.append((name, text, result, counts))
        return of_sets

    def _count_changes(self, counts: Counts, name: str, before: Sequence[Any], after: Sequence[Any]) -> None:
        changed = sum(old is not new and old != new for old, new in zip(before, after, strict=False))
        n_turns = min(len(before), len(after))
        for count, n in (("turns", n_turns), ("turns_changed", changed), ("dialogues_changed", changed > 0)):
            counts.add(count, int(n), set=name, split=self.file.split)

    def _add(self, name: str, item: corpora.Item, perturbed: Perturbed) -> None:
        """Adds the rows, changed turns, problems and files of a dialogue in a set."""
        result, place = self.result, f"{self.file.relative}\0{item.position}"
        if name in self.rows:  # a mix has turns of another set
            self.rows[name] += perturbed.rows
            result.examples.setdefault(name, []).extend(page.drawn_turns(place, item.raw, perturbed.dialogue))
        result.dead_letters += [self._letter(item, problem) for problem in perturbed.problems]
        result.written += [write_staged(self.output, path, content) for path, content in perturbed.files]

    def _leave_out(self, item: corpora.Item, error: InputError, name: str = "") -> None:
        self.result.dead_letters.append(self._letter(item, error, name))
        self.result.counts.add("left_out", set=name)
        if isinstance(error, fence.Fault):
            self.result.counts.add(FAULTS)

    def _letter(self, item: corpora.Item, error: InputError, name: str = "") -> DeadLetter:
        return dead_dialogue(self.file, id_of(item.raw, item.position), error, name)


def metadata_files(
    counts: Counts,
    changed: Mapping[str, Sequence[page.Changed]],
    *,
    perturbation: Perturbation,
    options: Mapping[str, object],
    schemas: Mapping[str, bytes],
) -> dict[str, bytes]:
    """Returns the other files by path: schemas, ``statistics.json``, ``README.md``, ``report.html``."""
    statistics = perturbation.statistics(counts)
    if in_order := {name: changed[name] for name in perturbation.sets if name in changed}:
        statistics["quality"] = {name: page.quality_of(turns) for name, turns in in_order.items()}
    examples = {name: [*map(example_of, turns[: page.SHOWN])] for name, turns in in_order.items()}
    if others := counts.by("value", corpora.OTHER_LANGUAGES):
        statistics[corpora.OTHER_LANGUAGES] = others
    return {**schemas, **report_files(statistics, report_of(perturbation, statistics, examples, options))}


Task = Mapping[str, Any]

Rows = list[dict[str, Any]]


class Reworded(msgspec.Struct, frozen=True):
    """The sets of tasks whose messages are perturbed."""

    perturbation: base.Perturbation

    @property
    def sets(self) -> Sequence[str]:
        """Returns the names of the sets."""
        return self.perturbation.sets

    def write(self, path: str, output: str) -> FileResult:
        """Writes a file of tasks, and the right calls beside it, in every set."""
        result = FileResult(path)
        tasks, truths = read_rows(path)
        texts, others = texts_of_tasks(tasks, {truth["id"]: truth for truth in truths}, self.perturbation.languages)
        result.counts.add("messages", sum(1 for task in tasks for _ in messages_of(task)))
        for language, n in others.items():
            result.counts.add(corpora.OTHER_LANGUAGES, n, set=language)
        for name, perturbed in apply.perturbed_texts(texts, self.perturbation).items():
            reworded, changed = reworded_tasks(tasks, perturbed)
            result.counts.add("changed", changed, set=name)
            result.written += write_rows(output, name, path, reworded, truths)
        return result

    def check(self, counts: Mapping[str, int]) -> dict[str, int]:
        """Returns the summed counts for ``run.json``. Raises InputError if most messages are in other languages."""
        others = {key.partition("/")[2]: n for key, n in counts.items() if key.startswith(corpora.OTHER_LANGUAGES)}
        corpora.check_most(
            self.perturbation.name, self.perturbation.languages, counts["messages"], others, "--tasks", "message"
        )
        kept = {key: n for key, n in counts.items() if not key.startswith(corpora.OTHER_LANGUAGES)}
        return {**kept, corpora.OTHER_LANGUAGES: sum(others.values())}


def read_rows(path: str) -> tuple[Rows, Rows]:
    """Reads the tasks of a file and, if there are any, the right calls beside it."""
    return _rows(as_path(path)), _rows(answers_beside(as_path(path)))


def _rows(path: Path) -> Rows:
    return list(by_id(path.read_bytes(), path).values()) if path.is_file() else []


def write_rows(output: str, name: str, path: str, tasks: Rows, truths: Rows) -> list[Written]:
    """Writes tasks and, if there are any, their right calls in a set, under the name of their file."""
    file = as_path(path).name
    files = {f"{name}/{file}": tasks, f"{name}/{ANSWERS}/{file}": truths}
    return [write_staged(output, place, _json_lines(rows)) for place, rows in files.items() if rows]


def _json_lines(rows: Rows) -> bytes:
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows).encode("utf-8", "surrogatepass")


def texts_of_tasks(
    tasks: Sequence[Task], truths: Mapping[str, Task], languages: Collection[str] = ()
) -> tuple[dict[str, tuple[str, list[str]]], Counter[str]]:
    """Collects the texts of user messages.

    Args:
      tasks: lines of task files.
      truths: the expected calls, by the task's id.
      languages: messages in another language, or of a task in another, are left out; if empty, none are.

    Returns:
      Each text with the values that its task's calls need, by an id for :func:`reworded_tasks`; and the number of
        messages that are left out, by language.
    """
    texts, others, known = {}, Counter[str](), ("", *languages)
    for at, task in enumerate(tasks):
        values = longest_first(values_in(truths.get(task["id"], {}).get("ground_truth", [])))
        messages = [(place, holder[key]) for place, holder, key in messages_of(task)]
        of_task = corpora.language_of(" ".join(text for _, text in messages))
        for place, text in messages:
            language = of_task if of_task not in known else corpora.language_of(text)
            if languages and language not in known:
                others[language] += 1
            else:
                texts[_id(at, *place)] = text, values
    return texts, others


def reworded_tasks(tasks: Sequence[Task], texts: Mapping[str, str]) -> tuple[list[dict[str, Any]], int]:
    """Returns the tasks with other texts of messages, by id, and the number of changed messages."""
    changed, reworded = 0, []
    for at, task in enumerate(tasks):
        new_task = {**task, "question": copy.deepcopy(task["question"])}
        for place, holder, key in messages_of(new_task):
            new = texts.get(_id(at, *place), holder[key])
            changed += new != holder[key]
            holder[key] = new
        reworded.append(new_task)
    return reworded, changed


def messages_of(task: Task) -> Iterator[tuple[tuple[int, int, int], dict[str, Any], str]]:
    """Yields ((turn, message, part), object, key) of each non-empty user text; the part of a plain text is -1."""
    for i, turn in enumerate(task["question"]):
        for j, message in enumerate(turn):
            if message.get("role") != "user":
                continue
            holders = [(-1, message, "content")]
            if isinstance(message.get("content"), list):
                parts = [part if isinstance(part, dict) else {} for part in message["content"]]
                holders = [(k, part, "text") for k, part in enumerate(parts) if part.get("type") == "text"]
            for k, holder, key in holders:
                if isinstance(holder.get(key), str) and holder[key].strip():
                    yield (i, j, k), holder, key


def _id(task: int, turn: int, message: int, part: int) -> str:
    return f"{task:07}_{turn}_{message}" + (f"_{part}" if part >= 0 else "")
