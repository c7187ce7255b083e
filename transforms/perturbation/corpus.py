"""Apply the installed perturbations to a corpus: it is fitted and analyzed immediately, and perturbed when read."""

from __future__ import annotations

import copy
import inspect
import logging
import os
import pickle
import re
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa

from parapet.schemas.dialogue import Dialogue, DialogueFile, problems_of, typed
from parapet.schemas.errors import InputError, UserCodeError, no_such
from parapet.schemas.json_text import compact_json
from parapet.schemas.rows import parquet_bytes
from parapet.schemas.service import Service, parse_service
from parapet.transforms.perturbation.base import (
    CHANGED_TURNS,
    REFUSED,
    Perturbation,
    Perturbed,
    Place,
    Shared,
    States,
    analysis_of,
    changed_turn,
    check_analysis,
)
from parapet.transforms.perturbation.corpora import Corpus, Item, check_languages, checked_items, inlined
from parapet.transforms.perturbation.languages import other_language
from parapet.transforms.running import plugins
from parapet.transforms.running.fence import PLUGIN, Fault, is_plugin

_FLAG = re.compile(r"(?<!\S)--(?=[a-z])")


class Registry(Mapping[str, type[Perturbation]]):
    """The installed perturbations by name. A class is imported when it is looked up."""

    def __init__(self) -> None:
        self._names = plugins.names(plugins.PERTURBATIONS)

    def __getitem__(self, name: str) -> type[Perturbation]:
        if name not in self._names:
            raise KeyError(name)
        chosen = plugins.choose(plugins.PERTURBATIONS, name, "")
        loaded = plugins.load(chosen)
        if not (isinstance(loaded, type) and issubclass(loaded, Perturbation)):
            raise chosen.refused("is not a subclass of parapet.Perturbation")
        if getattr(loaded, "name", None) != name:
            raise chosen.refused(
                f"has a different name in its class: add the line name = {name!r} to {loaded.__name__}"
            )
        return loaded

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<perturbations: {', '.join(self._names)}>"


def perturbation_of(
    which: str | type[Perturbation] | Perturbation, options: Mapping[str, Any], as_flags: bool = False
) -> Perturbation:
    """Return an instance of a perturbation.

    Args:
      which: the name of an installed perturbation, a class, or an instance.
      options: the options of the class.
      as_flags: whether messages name an option ``--seed`` rather than ``seed``.

    Raises:
      InputError: the perturbation does not exist, or does not accept these options.
    """
    if isinstance(which, Perturbation):
        if options:
            raise InputError(
                f"{which.name} is an object already: give its options where it is created ({', '.join(options)})"
            )
        return complete(copy.copy(which))  # what one corpus teaches it is not for another
    if isinstance(which, str):
        registry = Registry()
        if which not in registry:
            raise InputError(unknown(which))
        which = registry[which]
    if not (isinstance(which, type) and issubclass(which, Perturbation)):
        raise InputError(
            "expected the name of a perturbation, a subclass of Perturbation or an object of one, found "
            f"{type(which).__name__}"
        )
    _name_of(which)
    _check_options(which, options)
    with nullcontext() if as_flags else options_named():
        return complete(which(**options))


def unknown(name: str) -> str:
    """Return the message for an unknown perturbation, with the closest name or all names."""
    return no_such("perturbation", name, Registry())


@contextmanager
def options_named() -> Iterator[None]:
    """Replace ``--seed`` by ``seed`` in messages written for commands, since options of functions are not flags."""
    try:
        yield
    except InputError as error:
        error.args = tuple(_FLAG.sub("", part) for part in (error.reason, error.path, error.where))
        error.reason, error.path, error.where = error.args
        raise


def complete(perturbation: Perturbation) -> Perturbation:
    """Check a perturbation. Raises InputError if its class is incomplete."""
    its = type(perturbation)
    _name_of(its)
    methods = ("perturb", "perturb_set", "perturb_sets")
    if all(getattr(its, method) is getattr(Perturbation, method) for method in methods):
        raise InputError(f"the class {its.__name__} has no method perturb(self, dialogue, random)")
    if not hasattr(perturbation, "seed"):
        raise InputError(f"{its.__name__}.__init__ must call super().__init__(seed=seed)")
    return perturbation


def _name_of(which: type[Perturbation]) -> str:
    name = getattr(which, "name", None)
    if not isinstance(name, str) or not name:
        raise InputError(f'the class {which.__name__} has no name: add a line such as name = "my_perturbation"')
    return name


def _check_options(which: type[Perturbation], options: Mapping[str, Any]) -> None:
    """Raise InputError if the class does not accept an option, or requires another one."""
    signature = inspect.signature(which)
    try:
        signature.bind(**options)
    except TypeError as error:
        raise InputError(f"{which.name} {error}: its options are {', '.join(signature.parameters)}") from None


Services = Mapping[str, Service]


class Guard:
    """Compares a dialogue with its perturbed version. Must be created before the perturbation sees the dialogue.

    Args:
      perturbation: the perturbation that gets the dialogue.
      item: the dialogue.
      services: the services of its split, by name; None if unknown.
    """

    def __init__(self, perturbation: Perturbation, item: Item, services: Services | None) -> None:
        self.perturbation, self.raw, self.services = perturbation, item.raw, services
        self.original = item.dialogue or typed(item.raw)
        self.text = _text(item.raw)

    def check(self, dialogue: dict[str, Any]) -> None:
        """Raise Fault for the first problem of a perturbed dialogue."""
        for where, reason in self.problems(dialogue):
            raise Fault(f"{PLUGIN}: {reason} ({type(self.perturbation).__name__}.perturb)", "", where)

    def problems(self, dialogue: dict[str, Any]) -> Iterator[tuple[str, str]]:
        """Yield (place, problem) of a perturbed dialogue, except for problems of the original."""
        if _text(self.raw) != self.text:
            yield "", "the dialogue was modified in place: build new dicts and lists"
        if dialogue.get("dialogue_id") != self.original.dialogue_id:
            yield "", f"dialogue_id was changed to {dialogue.get('dialogue_id')!r}"
        try:
            result = typed(dialogue)
        except InputError as error:
            yield error.where, error.reason
            return
        try:
            compact_json(dialogue)
        except (TypeError, ValueError, RecursionError) as error:
            yield "", f"it is not JSON: {error}"
        if self.perturbation.keeps_turns:
            yield from self._changed_turns(result)
        elif self.original.turns and not result.turns:
            yield "turns", "no services are left"
        for i, name in enumerate(result.services):
            if self.services is not None and name not in self.services and name not in self.original.services:
                yield f"services[{i}]", f"no schema for service {name!r}"
        if problems := [*problems_of(result, self.services)]:
            known = {part for problem in problems_of(self.original, self.services) for part in problem}
            yield from (problem for problem in problems if known.isdisjoint(problem))

    def _changed_turns(self, result: Dialogue) -> Iterator[tuple[str, str]]:
        before, after = self.original, result
        if before.services != after.services:
            yield "services", f"was changed from {before.services} to {after.services}"
        if len(before.turns) != len(after.turns):
            yield "", f"the number of turns was changed from {len(before.turns)} to {len(after.turns)}"
            return
        for i, (old, new) in enumerate(zip(before.turns, after.turns, strict=True)):
            if old.speaker != new.speaker:
                yield f"turns[{i}]", "the speaker was changed"
            if [frame.service for frame in old.frames] != [frame.service for frame in new.frames]:
                yield f"turns[{i}].frames", "the services of the frames were changed"


def _text(raw: Any) -> str | None:
    """Return a dialogue as JSON; None if a perturbation has added something that JSON cannot represent."""
    try:
        return compact_json(raw)
    except (TypeError, ValueError, RecursionError):
        return None


def services_by_folder(corpus: Corpus) -> dict[str, Services]:
    """Return the services of each split of a corpus, by name."""
    return {
        folder: {service.service_name: service for service in schemas.services}
        for folder, schemas in corpus.folders.items()
    }


def guard_for(perturbation: Perturbation, item: Item, services: Services | None) -> Guard | None:
    """Return the guard of a dialogue; None for Parapet's own perturbations, which are tested."""
    return Guard(perturbation, item, services) if is_plugin(perturbation) else None


def apply(perturbation: Perturbation, item: Item, set_name: str, state: Any, services: Services | None) -> Item:
    """Perturb an item of a file for a set; the result has rows, or the error if it cannot be perturbed.

    Args and errors: see :func:`results`.
    """
    try:
        ((_, result),) = results(perturbation, item, state, services, set_name)
    except UserCodeError:
        raise
    except InputError as error:
        return item._replace(error=error)
    return item._replace(raw=result.dialogue, rows=result.rows, dialogue=None)


def results(
    perturbation: Perturbation, item: Item, state: Any, services: Services | None, set_name: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yield the dialogue in every set as Perturbed, or the InputError for a set.

    A dialogue in a language that the perturbation does not know is yielded as it is.

    Args:
      perturbation: the perturbation to apply.
      item: the dialogue.
      state: the state of the dialogue, see :meth:`Perturbation.state_of`.
      services: see :class:`Guard`.
      set_name: the only set to make.

    Raises:
      InputError: the dialogue cannot be perturbed.
      UserCodeError: the perturbation returned a wrong type, which is an error of the class rather than of the dialogue.
    """
    if item.error is not None:
        raise item.error
    names = [set_name] if set_name else perturbation.sets
    if other_language(item.dialogue or typed(item.raw), perturbation.languages):
        yield from ((name, Perturbed(item.raw)) for name in names)
        return
    guard = guard_for(perturbation, item, services)
    of_sets: Any = perturbation.perturb_sets(item, state)
    if set_name:
        of_sets = [(set_name, perturbation.perturb_set(item.raw, set_name, state))]
    sets = []
    for name, perturbed in of_sets:
        sets.append(name)
        if not isinstance(perturbed, InputError):
            checked(perturbation, perturbed)
            if guard is not None:
                guard.check(perturbed.dialogue)
        yield name, perturbed
    if guard is not None and sorted(sets) != sorted(names):
        found = ", ".join(map(str, sets)) or "no set"
        method = f"{type(perturbation).__name__}.perturb_sets"
        raise UserCodeError(f"{method} returned {found}: expected {', '.join(names)}")


def checked(perturbation: Perturbation, perturbed: Any) -> Perturbed:
    """Validate the result of ``perturb`` and return it.

    Raises:
      UserCodeError: the result is invalid.
    """
    name = f"{type(perturbation).__name__}.perturb"
    if not isinstance(perturbed, Perturbed):
        hint = "expected the dialogue, or parapet.Perturbed(dialogue, rows)"
        raise UserCodeError(f"{name} returned {_kind_of(perturbed)}: {hint}")
    if not isinstance(perturbed.dialogue, dict):
        raise UserCodeError(f"{name}: the dialogue in Perturbed is {_kind_of(perturbed.dialogue)}, expected a dict")
    if not isinstance(perturbed.rows, list | tuple):
        raise UserCodeError(f"{name}: the rows in Perturbed are {_kind_of(perturbed.rows)}, expected a list of dicts")
    columns = perturbation.row_schema.names if perturbed.rows else ()
    for row in perturbed.rows:
        if not isinstance(row, dict):
            raise UserCodeError(f"{name}: a row is {_kind_of(row)}, expected a dict")
        unknown = [str(column) for column in row if column not in columns]
        if unknown:
            known = ", ".join(columns)
            raise UserCodeError(
                f"{name}: a row has the column {unknown[0]!r}, which is not in row_schema: it has {known}"
            )
    return perturbed


def _kind_of(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


class Analyzed:
    """The analysis of a whole corpus; empty if the perturbation needs none."""

    def __init__(self, perturbation: Perturbation, states: States, shared: Shared) -> None:
        self.perturbation, self.states, self.shared = perturbation, states, dict(shared)
        self.refused: Mapping[Place, InputError] = self.shared.pop(REFUSED, {})

    def of(self, place: Place) -> Any:
        """Return the state of a dialogue for ``perturb``."""
        if not self.perturbation.needs_analysis():
            return None
        return self.perturbation.state_of(place, self.states.get(place), self.shared)


class PerturbedCorpus(Corpus):
    """One set of a perturbed corpus. Dialogues are perturbed when they are read.

    Attributes:
      original: the original corpus.
      perturbation: the fitted perturbation.
      set_name: the name of the set.
      analyzed: the analysis of the whole corpus.
    """

    def __init__(self, original: Corpus, perturbation: Perturbation, set_name: str, analyzed: Analyzed) -> None:
        super().__init__(original.files, original.folders, dict(original.schemas))
        self.original, self.perturbation, self.set_name, self.analyzed = original, perturbation, set_name, analyzed

    @property
    def rows(self) -> pa.Table:
        """The changes, as an Arrow table with the perturbation's ``row_schema``, in the order of dialogues.

        Raises:
          InputError: a dialogue cannot be used.
        """
        return self.rows_of()

    def rows_of(self, split: str | None = None) -> pa.Table:
        """Return the rows of one split. In SGD, dialogues of different splits may have the same ids.

        Raises:
          InputError: the split does not exist, or a dialogue cannot be used.
        """
        rows = [row for file in self.files_of(split) for item in checked_items(self, file) for row in item.rows]
        return table_of_rows(self.perturbation, rows)

    def read(self, file: DialogueFile) -> Iterator[Item]:
        """Yield the perturbed dialogues of a file."""
        services = services_by_folder(self)[file.split]
        for item in self.original.read(file):
            place = (file.relative, item.position)
            if item.error is None and place in self.analyzed.refused:
                yield item._replace(error=self.analyzed.refused[place])
                continue
            state = self.analyzed.of(place)
            yield apply(self.perturbation, item, self.set_name, state, services)

    def row_files(self, file: DialogueFile, rows: Sequence[dict[str, Any]]) -> list[tuple[str, bytes]]:
        """Return the rows of a dialogue file as Parquet."""
        return [rows_file(self.perturbation, file, rows)]

    def provenance(self) -> dict[str, Any]:
        """Return the original's provenance with the perturbation, its set and its seed."""
        made_by = {"perturbation": self.perturbation.name, "set": self.set_name, "seed": self.perturbation.seed}
        return {**self.original.provenance(), **made_by}


def table_of_rows(perturbation: Perturbation, rows: Sequence[dict[str, Any]]) -> pa.Table:
    """Rows as a table. Raises InputError where they are not of the perturbation's ``row_schema``."""
    wrong = f"{perturbation.name}: its rows do not match its row_schema"
    try:
        table = pa.Table.from_pylist(rows, perturbation.row_schema)
    except (pa.ArrowException, TypeError, UnicodeEncodeError, OverflowError) as error:
        raise InputError(f"{wrong}: {str(error).splitlines()[0]}") from None
    for field in table.schema:
        if not field.nullable and table.column(field.name).null_count:
            raise InputError(f"{wrong}: a row has no column {field.name!r}")
    return table


def rows_file(perturbation: Perturbation, file: DialogueFile, rows: Sequence[dict[str, Any]]) -> tuple[str, bytes]:
    """Return the rows of a dialogue file as (path below the set, Parquet). Raises as :func:`table_of_rows`."""
    parts = (perturbation.rows_folder, file.relative.removesuffix(".json"))
    return "/".join(filter(None, parts)) + ".parquet", parquet_bytes(table_of_rows(perturbation, rows))


def perturbed_sets(
    corpus: Corpus, perturbation: Perturbation, set_names: Sequence[str] | None = None
) -> dict[str, PerturbedCorpus]:
    """Return the sets of a perturbation, by name.

    Args:
      corpus: the original corpus.
      perturbation: the perturbation, which is fitted here.
      set_names: the sets to return; None for all.

    Raises:
      InputError: the perturbation cannot be applied to the corpus.
    """
    check_languages(perturbation.name, perturbation.languages, corpus)
    analyzed = fitted(perturbation, corpus)
    names = perturbation.sets if set_names is None else set_names
    return {name: PerturbedCorpus(corpus, perturbation, name, analyzed) for name in names}


def check_needs_none(perturbation: Perturbation, what: str, where: str = "") -> None:
    """Raise InputError if a perturbation needs the annotation of a corpus.

    Args:
      perturbation: the perturbation.
      what: the input without annotation, for the message.
      where: the flag that names it, for the message.
    """
    if perturbation.needs_annotation or not perturbation.keeps_turns:
        reason = f"{perturbation.name} needs a corpus with schemas and states, which {what} have not"
        raise InputError(f"{reason}: use typos, verbose, simple, paraphrase or speech_errors", where)


def fitted(perturbation: Perturbation, corpus: Corpus) -> Analyzed:
    """Fit a perturbation to a corpus, and analyze the corpus."""
    with options_named():
        perturbation.prepare(corpus)
        if not perturbation.needs_analysis():
            return Analyzed(perturbation, {}, {})
        return Analyzed(perturbation, *_analyzed(perturbation, corpus))


def _analyzed(perturbation: Perturbation, corpus: Corpus) -> tuple[dict[Place, Any], dict[str, dict[Any, Any]]]:
    """Compute the states of all dialogues, and their shared data, with a Beam pipeline on this machine."""
    import apache_beam as beam

    with tempfile.TemporaryDirectory() as folder:
        try:
            # Beam's default would look for a Prism binary to download before it falls back to this runner.
            with _quiet_beam(), beam.Pipeline("FnApiRunner") as pipeline:
                files = pipeline | "Dialogue files" >> beam.Create(
                    inlined(corpus) if perturbation.analyzes_dialogues else []
                )
                analysis = analysis_of(perturbation, files)
                check_analysis(perturbation, analysis)
                kept = analysis.side_inputs() | ({"": analysis.states} if analysis.states else {})
                for i, (name, pairs) in enumerate(kept.items()):
                    batches = pairs | f"Batch {i}" >> beam.BatchElements(64, 4096)
                    _ = batches | f"Keep {i}" >> beam.Map(_keep, name, folder)
        except InputError as error:
            raise InputError(error.reason.partition(" [while running")[0], error.path, error.where) from None
        analyzed: dict[str, dict[Any, Any]] = {name: {} for name in ("", *analysis.side_inputs())}
        for path in Path(folder).iterdir():
            name, batch = pickle.loads(path.read_bytes())  # noqa: S301 (written by this process)
            analyzed[name].update(batch)
    return analyzed.pop(""), analyzed


@contextmanager
def _quiet_beam() -> Iterator[None]:
    """Silence Beam, which logs each exception with a traceback, since a library should not print."""
    logger = logging.getLogger("apache_beam")
    level = logger.level
    if os.environ.get("PARAPET_DEBUG") != "1":
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _keep(pairs: list[tuple[Any, Any]], name: str, folder: str) -> None:
    Path(folder, uuid.uuid4().hex).write_bytes(pickle.dumps((name, pairs)))


Frame = Mapping[str, Any]


def check_perturbation(
    perturbation: str | type[Perturbation] | Perturbation,
    corpus: Corpus | str | Path | None = None,
    *,
    keeps_meaning: bool = True,
    **options: Any,
) -> list[str]:
    """Apply a perturbation to a corpus and list its problems. For the tests of your own perturbations.

    It checks for every dialogue and every set:

    - the result does not depend on repetition or on the order of dialogues, and the dialogue itself is not modified;
    - the result is in SGD format, keeps its id, and only names services, intents and slots of the schema;
    - turns, speakers and services are unchanged, unless the class sets ``keeps_turns = False``;
    - rows fit ``row_schema``; by default there is exactly one for each turn with a changed utterance;
    - with ``keeps_meaning``, states and the texts of spans are unchanged.

    A run of ``parapet perturb`` leaves out a plug-in's dialogues that fail the first three checks, except repetition.

    Args:
      perturbation: the name of an installed perturbation, a class, or an instance.
      corpus: the corpus to try it on, or its path; None for the bundled sample.
      keeps_meaning: whether the perturbation must not change the meaning.
      options: the options of the perturbation.

    Returns:
      A line for each problem: set, dialogue, place and description; empty if all checks pass.

    Raises:
      InputError: the perturbation or option does not exist, ``perturb`` returns a wrong type, or it cannot be applied
        to the corpus.

    Example:
      >>> import parapet
      >>> parapet.check_perturbation("typos", seed=1)
      []
      >>> class Forgetful(parapet.Perturbation):
      ...     name = "forgetful"
      ...
      ...     def perturb(self, dialogue, random):
      ...         dialogue["turns"].pop()
      ...         return dialogue
      >>> parapet.check_perturbation(Forgetful)[0]
      'forgetful: 1_00000: the number of turns was changed from 14 to 13'
    """
    from parapet.schemas.layout import sample_root
    from parapet.transforms.perturbation.corpora import read_corpus

    its = perturbation_of(perturbation, options)
    corpus = corpus if isinstance(corpus, Corpus) else read_corpus(corpus or sample_root(), None)
    analyzed = fitted(its, corpus)
    services = {service.service_name: service for service in map(parse_service, corpus.services())}
    places = [(file.relative, item) for file in corpus.files_of() for item in checked_items(corpus, file)]
    problems = []
    for set_name in its.sets:
        states = {(path, item.position): analyzed.of((path, item.position)) for path, item in places}
        first = [_applied(its, item, set_name, states[path, item.position], services) for path, item in places]
        again = [_applied(its, item, set_name, states[path, item.position], services) for path, item in places[::-1]]
        for (_, item), (result, broken), (second, _) in zip(places, first, reversed(again), strict=True):
            every = [*broken, *_problems(its, item, result, second, keeps_meaning)]
            problems += [f"{set_name}: {item.raw['dialogue_id']}: {problem}" for problem in every]
    return problems


def _applied(
    perturbation: Perturbation, item: Item, set_name: str, state: Any, services: Services
) -> tuple[Item, list[str]]:
    """Return the perturbed item, and the problems for which the drivers would leave it out."""
    item = item._replace(raw=copy.deepcopy(item.raw))
    guard = Guard(perturbation, item, services)
    try:
        perturbed = checked(perturbation, perturbation.perturb_set(item.raw, set_name, copy.deepcopy(state)))
    except UserCodeError:
        raise
    except InputError as error:
        return item._replace(error=error), []
    problems = [f"{where}: {reason}" if where else reason for where, reason in guard.problems(perturbed.dialogue)]
    return item._replace(raw=copy.deepcopy(perturbed.dialogue), rows=perturbed.rows), problems


def _problems(perturbation: Perturbation, item: Item, result: Item, second: Item, keeps_meaning: bool) -> Iterator[str]:
    if (result.raw, result.rows) != (second.raw, second.rows):
        yield "the result differs between two runs: draw random numbers from self.random(dialogue id, turn)"
    if result.error is not None:
        return  # a perturbation may leave out a dialogue
    try:
        typed(result.raw)
    except InputError:
        return  # already reported by the guard
    yield from _rows_that_differ(perturbation, item.raw, Perturbed(result.raw, result.rows))
    if keeps_meaning and len(item.raw["turns"]) == len(result.raw["turns"]):
        yield from _changes_of_meaning(item.raw, result.raw)


def _rows_that_differ(perturbation: Perturbation, dialogue: Any, perturbed: Perturbed) -> Iterator[str]:
    """Yield the differences between rows of the default schema and the changed turns."""
    if perturbation.row_schema is not CHANGED_TURNS:
        return
    turns = zip(dialogue["turns"], perturbed.dialogue["turns"], strict=False)
    expected = {
        i: changed_turn(dialogue, i, after)
        for i, (before, after) in enumerate(turns)
        if before["utterance"] != after["utterance"]
    }
    rows = {row.get("turn"): row for row in perturbed.rows}
    for turn in sorted({*expected, *(turn for turn in rows if isinstance(turn, int))}):
        if turn not in rows:
            yield f"turns[{turn}] was changed, but has no row"
        elif turn not in expected:
            yield f"turns[{turn}] has a row, but was not changed"
        elif rows[turn] != expected[turn]:
            yield f"turns[{turn}]: its row is {rows[turn]}, expected {expected[turn]}"
    if len(rows) != len(perturbed.rows):
        yield "a turn has two rows"


def _changes_of_meaning(dialogue: Any, perturbed: Any) -> Iterator[str]:
    for i, (before, after) in enumerate(zip(dialogue["turns"], perturbed["turns"], strict=True)):
        frames: Iterator[tuple[Frame, Frame]] = zip_longest(before["frames"], after["frames"], fillvalue={})
        for f, (old, new) in enumerate(frames):
            where = f"turns[{i}].frames[{f}]"
            if (old.get("service"), old.get("state")) != (new.get("service"), new.get("state")):
                yield f"{where}: the service or its state was changed"
            texts = _span_texts(before["utterance"], old), _span_texts(after["utterance"], new)
            if texts[0] != texts[1]:
                yield f"{where}: the texts of the spans were changed from {texts[0]} to {texts[1]}"


def _span_texts(utterance: str, frame: Frame) -> list[tuple[str, str]]:
    """Return (slot, text) of the spans of a frame."""
    spans = [span for span in frame.get("slots", ()) if "start" in span]
    return [(span["slot"], utterance[span["start"] : span["exclusive_end"]]) for span in spans]
