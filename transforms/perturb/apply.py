"""Apply the installed perturbations to a corpus, which is perturbed when read, or to single texts."""

from __future__ import annotations

import copy
import hashlib
import inspect
import logging
import os
import pickle
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from parapet.schemas.dialogue import (
    Dialogue,
    DialogueFile,
    dialogue_of,
    longest_first,
    plain_service,
    problems_of,
    typed,
    user_turn,
)
from parapet.schemas.errors import InputError, UserCodeError, no_such
from parapet.schemas.layout import sample_root, services_by_name
from parapet.schemas.limits import compact_json
from parapet.schemas.rows import parquet_bytes
from parapet.schemas.service import Service, parse_service
from parapet.transforms.core import fence, plugins
from parapet.transforms.perturb import base, corpora, page
from parapet.transforms.perturb.base import (
    CHANGED_TURNS,
    REFUSED,
    Perturbation,
    Perturbed,
    Place,
    Shared,
    States,
    set_of,
)

_STATES = ".states"  # beside the names of shared data
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


def perturbation_of(which: str | type[Perturbation] | Perturbation, options: Mapping[str, Any]) -> Perturbation:
    """Returns an instance of a perturbation.

    Args:
      which: the name of an installed perturbation, a class, or an instance.
      options: the options of the class.

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
        which = installed(which)
    if not (isinstance(which, type) and issubclass(which, Perturbation)):
        raise InputError(
            "expected the name of a perturbation, a subclass of Perturbation or an object of one, found "
            f"{type(which).__name__}"
        )
    name, signature = _name_of(which), inspect.signature(which)
    try:
        signature.bind(**options)
    except TypeError as error:
        raise InputError(f"{name} {error}: its options are {', '.join(signature.parameters)}") from None
    with options_named():
        return complete(which(**options))


def installed(name: str) -> type[Perturbation]:
    """Returns the class of an installed perturbation. Raises InputError if there is none of this name."""
    registry = Registry()
    if name not in registry:
        raise InputError(no_such("perturbation", name, registry))
    return registry[name]


@contextmanager
def options_named() -> Iterator[None]:
    """Replaces ``--seed`` by ``seed`` in messages written for commands, since options of functions are not flags."""
    try:
        yield
    except InputError as error:
        error.args = tuple(_FLAG.sub("", part) for part in (error.reason, error.path, error.where))
        error.reason, error.path, error.where = error.args
        raise


def complete(perturbation: Perturbation) -> Perturbation:
    """Checks a perturbation. Raises InputError if its class is incomplete."""
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


Services = Mapping[str, Service]


def faults(
    perturbation: Perturbation,
    item: corpora.Item,
    text: str | None,
    dialogue: dict[str, Any],
    services: Services | None,
) -> Iterator[tuple[str, str]]:
    """Yields (place, problem) of a perturbed dialogue, except for problems of the original.

    Args:
      perturbation: the perturbation.
      item: the original dialogue.
      text: the original as JSON, from before the perturbation saw it.
      dialogue: the perturbed dialogue.
      services: the services of its split, by name; None if unknown.
    """
    original = item.dialogue
    assert original is not None
    if _text(item.raw) != text:
        yield "", "the dialogue was modified in place: build new dicts and lists"
    if dialogue.get("dialogue_id") != original.dialogue_id:
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
    if perturbation.keeps_turns:
        yield from _changed_structure(original, result)
    elif original.turns and not result.turns:
        yield "turns", "no services are left"
    for i, name in enumerate(result.services):
        if services is not None and name not in services and name not in original.services:
            yield f"services[{i}]", f"no schema for service {name!r}"
    if problems := [*problems_of(result, services)]:
        known = {part for problem in problems_of(original, services) for part in problem}
        yield from (problem for problem in problems if known.isdisjoint(problem))


def _changed_structure(before: Dialogue, after: Dialogue) -> Iterator[tuple[str, str]]:
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
    """Returns a dialogue as JSON; None if a perturbation has added something that JSON cannot represent."""
    try:
        return compact_json(raw)
    except (TypeError, ValueError, RecursionError):
        return None


def services_by_folder(corpus: corpora.Corpus) -> dict[str, Services]:
    """Returns the services of each split of a corpus, by name."""
    return {folder: services_by_name([schemas]) for folder, schemas in corpus.folders.items()}


def checked(perturbation: Perturbation, perturbed: Any) -> Perturbed:
    """Validates the result of ``perturb`` and returns it.

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
        if unknown := [str(column) for column in row if column not in columns]:
            known = ", ".join(columns)
            raise UserCodeError(
                f"{name}: a row has the column {unknown[0]!r}, which is not in row_schema: it has {known}"
            )
    return perturbed


def _kind_of(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


class Analyzed:
    """A perturbation with the analysis of a whole corpus.

    Args:
      perturbation: the fitted perturbation.
      states: the states of dialogues; empty if the perturbation needs no analysis.
      shared: the data shared by all dialogues, by name.
    """

    def __init__(self, perturbation: Perturbation, states: States, shared: Shared) -> None:
        self.perturbation, self.states, self.shared = perturbation, states, shared

    def of(self, place: Place) -> Any:
        """Returns the state of a dialogue for ``perturb_set``."""
        return self.perturbation.state_of(place, self.states.get(place), self.shared)

    def usable(self, path: str, item: corpora.Item) -> corpora.Item:
        """Returns a dialogue of a file, typed where its language matters. Raises InputError if it cannot be used."""
        if error := item.error or self.shared.get(REFUSED, {}).get((path, item.position)):
            raise error
        needs_types = self.perturbation.languages or fence.is_plugin(self.perturbation)
        return item._replace(dialogue=item.dialogue or typed(item.raw)) if needs_types else item

    def results(
        self, path: str, item: corpora.Item, services: Services | None, set_name: str = ""
    ) -> Iterator[tuple[str, Any]]:
        """Yields the dialogue in every set as Perturbed, or the InputError for a set.

        A dialogue in a language that the perturbation does not know is yielded as it is.

        Args:
          path: the file of the dialogue, below the root.
          item: the dialogue.
          services: the services of its split, by name; None if unknown.
          set_name: the only set to make.

        Raises:
          InputError: the dialogue cannot be perturbed.
          UserCodeError: the perturbation returned a wrong type, which is an error of the class rather than of the
            dialogue.
        """
        perturbation, item, state = self.perturbation, self.usable(path, item), self.of((path, item.position))
        names = [set_name] if set_name else perturbation.sets
        if item.dialogue and corpora.other_language(item.dialogue, perturbation.languages):
            yield from ((name, Perturbed(item.raw)) for name in names)
            return
        is_checked = fence.is_plugin(perturbation)  # Parapet's own perturbations are tested
        text = _text(item.raw) if is_checked else None
        of_sets: Any = perturbation.perturb_sets(item, state)
        if set_name:
            of_sets = [(set_name, perturbation.perturb_set(item.raw, set_name, state))]
        for name, perturbed in of_sets:
            if not isinstance(perturbed, InputError):
                checked(perturbation, perturbed)
                problems = faults(perturbation, item, text, perturbed.dialogue, services) if is_checked else ()
                for where, reason in problems:
                    raise fence.Fault(f"{fence.PLUGIN}: {reason} ({type(perturbation).__name__}.perturb)", "", where)
            yield name, perturbed


class PerturbedCorpus(corpora.Corpus):
    """One set of a perturbed corpus. Dialogues are perturbed when they are read.

    Attributes:
      original: the original corpus.
      perturbation: the fitted perturbation.
      set_name: the name of the set.
      analyzed: the analysis of the whole corpus.
    """

    def __init__(self, original: corpora.Corpus, perturbation: Perturbation, set_name: str, analyzed: Analyzed) -> None:
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
        """Returns the rows of one split. In SGD, dialogues of different splits may have the same ids.

        Raises:
          InputError: the split does not exist, or a dialogue cannot be used.
        """
        rows = [row for file in self.files_of(split) for item in corpora.checked_items(self, file) for row in item.rows]
        return table_of_rows(self.perturbation, rows)

    def read(self, file: DialogueFile) -> Iterator[corpora.Item]:
        """Yields the perturbed dialogues of a file."""
        services = services_by_folder(self)[file.split]
        for item in self.original.read(file):
            try:
                ((_, result),) = self.analyzed.results(file.relative, item, services, self.set_name)
            except UserCodeError:
                raise
            except InputError as error:
                yield item._replace(error=error)
            else:
                yield item._replace(raw=result.dialogue, rows=result.rows, dialogue=None)

    def row_files(self, file: DialogueFile, rows: Sequence[dict[str, Any]]) -> list[tuple[str, bytes]]:
        """Returns the rows of a dialogue file as Parquet."""
        return [rows_file(self.perturbation, file, rows)]

    def provenance(self) -> dict[str, Any]:
        """Returns the original's provenance with the perturbation, its set and its seed."""
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
    """Returns the rows of a dialogue file as (path below the set, Parquet). Raises as :func:`table_of_rows`."""
    parts = (perturbation.rows_folder, file.relative.removesuffix(".json"))
    return "/".join(filter(None, parts)) + ".parquet", parquet_bytes(table_of_rows(perturbation, rows))


def perturbed_sets(
    corpus: corpora.Corpus, perturbation: Perturbation, set_names: Sequence[str] | None = None
) -> dict[str, PerturbedCorpus]:
    """Returns the sets of a perturbation, by name.

    Args:
      corpus: the original corpus.
      perturbation: the perturbation, which is fitted here.
      set_names: the sets to return; None for all.

    Raises:
      InputError: the perturbation cannot be applied to the corpus.
    """
    corpora.check_languages(perturbation.name, perturbation.languages, corpus)
    analyzed = fitted(perturbation, corpus)
    names = perturbation.sets if set_names is None else set_names
    return {name: PerturbedCorpus(corpus, perturbation, name, analyzed) for name in names}


def check_needs_none(perturbation: Perturbation, what: str, where: str = "") -> None:
    """Raises InputError if a perturbation needs the annotation of a corpus.

    Args:
      perturbation: the perturbation.
      what: the input without annotation, for the message.
      where: the flag that names it, for the message.
    """
    if perturbation.needs_annotation or not perturbation.keeps_turns:
        reason = f"{perturbation.name} needs a corpus with schemas and states, which {what} have not"
        raise InputError(f"{reason}: use typos, verbose, simple, paraphrase or speech_errors", where)


def fitted(perturbation: Perturbation, corpus: corpora.Corpus) -> Analyzed:
    """Fits a perturbation to a corpus, and analyze the corpus."""
    with options_named():
        perturbation.prepare(corpus)
        return _analyze(perturbation, corpus) if perturbation.needs_analysis() else Analyzed(perturbation, {}, {})


def _analyze(perturbation: Perturbation, corpus: corpora.Corpus) -> Analyzed:
    """Computes the states of all dialogues, and their shared data, with a Beam pipeline on this machine."""
    import apache_beam as beam

    with tempfile.TemporaryDirectory() as folder:
        try:
            # Beam's default would look for a Prism binary to download before it falls back to this runner.
            with _quiet_beam(), beam.Pipeline("FnApiRunner") as pipeline:
                dialogue_files = corpora.inlined(corpus) if perturbation.analyzes_dialogues else []
                analysis = base.analysis_of(perturbation, pipeline | "Dialogue files" >> beam.Create(dialogue_files))
                base.check_analysis(perturbation, analysis)
                states = {} if analysis.states is None else {_STATES: analysis.states}
                for i, (name, pairs) in enumerate({**states, **analysis.shared}.items()):
                    as_dict = pairs | f"Gather {i}" >> beam.combiners.ToDict()
                    _ = as_dict | f"Keep {i}" >> beam.Map(_keep, name, f"{folder}/{i}")
        except InputError as error:
            raise InputError(error.reason.partition(" [while running")[0], error.path, error.where) from None
        kept = dict(pickle.loads(path.read_bytes()) for path in Path(folder).iterdir())  # noqa: S301 (our own)
    return Analyzed(perturbation, kept.pop(_STATES, {}), kept)


@contextmanager
def _quiet_beam() -> Iterator[None]:
    """Silences Beam, which logs each exception with a traceback, since a library should not print."""
    logger = logging.getLogger("apache_beam")
    level = logger.level
    if os.environ.get("PARAPET_DEBUG") != "1":
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _keep(data: dict[Any, Any], name: str, path: str) -> None:
    Path(path).write_bytes(pickle.dumps((name, data)))


def check_perturbation(
    perturbation: str | type[Perturbation] | Perturbation,
    corpus: corpora.Corpus | str | Path | None = None,
    *,
    keeps_meaning: bool = True,
    **options: Any,
) -> list[str]:
    """Applies a perturbation to a corpus and lists its problems. For the tests of your own perturbations.

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
    its = perturbation_of(perturbation, options)
    corpus = corpus if isinstance(corpus, corpora.Corpus) else corpora.read_corpus(corpus or sample_root(), None)
    analyzed = fitted(its, corpus)
    services = {service.service_name: service for service in map(parse_service, corpus.services())}
    places = [(file.relative, item) for file in corpus.files_of() for item in corpora.checked_items(corpus, file)]
    problems = []
    for set_name in its.sets:

        def perturbed(path: str, item: corpora.Item, name: str = set_name) -> tuple[Any, list[str]]:
            return _applied(its, item, name, analyzed.of((path, item.position)), services)

        first = [perturbed(*place) for place in places]
        again = [perturbed(*place) for place in places[::-1]]
        for (_, item), (result, broken), (second, _) in zip(places, first, reversed(again), strict=True):
            every = [*broken, *_problems(its, item, result, second, keeps_meaning)]
            problems += [f"{set_name}: {item.raw['dialogue_id']}: {problem}" for problem in every]
    return problems


def _applied(
    perturbation: Perturbation, item: corpora.Item, set_name: str, state: Any, services: Services
) -> tuple[Perturbed | None, list[str]]:
    """Returns the result, or None if the perturbation leaves the dialogue out; and why a run would leave it out."""
    item = item._replace(raw=copy.deepcopy(item.raw), dialogue=item.dialogue or typed(item.raw))
    text = _text(item.raw)
    try:
        perturbed = checked(perturbation, perturbation.perturb_set(item.raw, set_name, copy.deepcopy(state)))
    except UserCodeError:
        raise
    except InputError:
        return None, []
    problems = faults(perturbation, item, text, perturbed.dialogue, services)
    return copy.deepcopy(perturbed), [f"{where}: {reason}" if where else reason for where, reason in problems]


def _problems(
    perturbation: Perturbation,
    item: corpora.Item,
    result: Perturbed | None,
    second: Perturbed | None,
    keeps_meaning: bool,
) -> Iterator[str]:
    if (result and result[:2]) != (second and second[:2]):
        yield "the result differs between two runs: draw from the random that perturb is given"
    try:
        typed(result.dialogue if result else {})
    except InputError:
        return  # left out by the perturbation, or already in the list of faults
    assert result is not None
    if perturbation.row_schema is CHANGED_TURNS:
        yield from _wrong_rows(base.changed_turns(item.raw, result.dialogue), result.rows)
    if keeps_meaning and len(item.raw["turns"]) == len(result.dialogue["turns"]):
        yield from _changes_of_meaning(item.raw, result.dialogue)


def _wrong_rows(expected: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    turns = [row.get("turn") for row in rows]
    yield from (f"turns[{row['turn']}] was changed, but has no row" for row in expected if row["turn"] not in turns)
    for row in rows:
        if row not in expected:
            yield f"turns[{row.get('turn')}]: its row is not that of a change: {row}"
    if len({*turns}) != len(turns):
        yield "a turn has two rows"


def _changes_of_meaning(dialogue: Any, perturbed: Any) -> Iterator[str]:
    for i, (before, after) in enumerate(zip(dialogue["turns"], perturbed["turns"], strict=True)):
        old, new = _meaning(before), _meaning(after)
        if old != new:
            lost, gained = (
                [part for part in parts if part not in others] for parts, others in ((old, new), (new, old))
            )
            yield f"turns[{i}]: a service, its state or the texts of its spans were changed from {lost} to {gained}"


def _meaning(turn: Any) -> list[tuple[Any, Any]]:
    """Returns (service, state) of each frame, and ((service, slot), text) of each span."""
    return [*((frame["service"], frame.get("state")) for frame in turn["frames"]), *page.span_texts(turn)]


_SPLIT = "test"


def perturb_texts(
    texts: Sequence[str],
    which: str | type[Perturbation] | Perturbation,
    set_name: str | None,
    protect: Iterable[str],
    options: dict[str, Any],
) -> list[str]:
    """Perturbs single texts. For arguments and errors see ``parapet.perturb_text``."""
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"expected a text, found {type(text).__name__}", "text", f"[{i}]")
    values = [protect] if isinstance(protect, str) or not isinstance(protect, Iterable) else list(protect)
    if not all(isinstance(value, str) for value in values):
        raise InputError(f"expected a list of texts, found {protect!r}", "protect")
    perturbation = perturbation_of(which, options)
    name = set_of(perturbation, set_name)
    check_needs_none(perturbation, "plain texts")
    values = longest_first(values)
    # An id depends on the text alone, so that its random draws do not depend on other texts.
    ids = {text: hashlib.sha256(text.encode()).hexdigest()[:32] for text in texts if text.strip()}
    perturbed = perturbed_texts({ids[text]: (text, values) for text in ids}, perturbation, [name])[name]
    return [perturbed[ids[text]] if text in ids else text for text in texts]


def perturbed_texts(
    texts: Mapping[str, tuple[str, Sequence[str]]], perturbation: Perturbation, set_names: Sequence[str] | None = None
) -> dict[str, dict[str, str]]:
    """Returns the texts in every set, by set and id.

    Args:
      texts: by id, each text and the values in it that must stay, in the order of :func:`longest_first`.
      perturbation: the perturbation, which is fitted here.
      set_names: the sets to return; None for all.
    """
    dialogues = [dialogue_of(name, [user_turn(text, values)]) for name, (text, values) in texts.items()]
    sets = perturbed_sets(corpora.corpus_of({_SPLIT: dialogues}, {_SPLIT: [plain_service()]}), perturbation, set_names)
    return {
        name: {dialogue["dialogue_id"]: dialogue["turns"][0]["utterance"] for dialogue in of_set.dialogues()}
        for name, of_set in sets.items()
    }
