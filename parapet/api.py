"""The functions of the public API. Import them from ``parapet``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec

from parapet.schemas.errors import InputError, MissingExtra
from parapet.schemas.layout import as_path, check_published, is_there, sample_root
from parapet.transforms.perturb.corpora import Corpus, read_corpus

if TYPE_CHECKING:
    import pandas
    import pyarrow as pa

    from parapet.evaluation import statistics
    from parapet.evaluation.dst.frames import Coefficients, Scored
    from parapet.evaluation.dst.model import References
    from parapet.schemas.decisions import Decision
    from parapet.schemas.rows import Assignment, DeadLetter
    from parapet.transforms.crowd.schema_task import Batch, SchemaTask
    from parapet.transforms.perturb.apply import PerturbedCorpus
    from parapet.transforms.perturb.base import Perturbation
    from parapet.transforms.variants.perturbation import RenamedCorpus, Variants


def load_corpus(root: str | Path | None = None, *, name: str = "original") -> Corpus:
    """Opens a schema-guided dialogue corpus. Dialogues are read lazily.

    Args:
      root: a folder in the SGD layout (``ROOT/{train,dev,test}/schema.json`` and ``dialogues_NNN.json``), the folder of
        a single split, a schema file, or a release made by ``parapet release``. Local, or in a bucket
        (``gs://``). By default, the sample that comes with Parapet.
      name: which corpus of a release to open.

    Raises:
      InputError: there is no corpus at ``root``, its schemas cannot be read, or the run that wrote the folder was
        interrupted.

    Example:
      >>> import parapet
      >>> corpus = parapet.load_corpus()
      >>> corpus.splits
      ('train', 'dev', 'test')
      >>> [service["service_name"] for service in corpus.services("test")]
      ['Ferries_1', 'Gyms_1', 'Libraries_2', 'Repairs_1']
      >>> next(corpus.dialogues("test"))["dialogue_id"]
      '1_00000'
    """
    if root is None:
        return read_corpus(sample_root(), None)
    check_published(root)
    corpora = as_path(root) / "sgd"
    if is_there(as_path(root) / "MANIFEST.json") and is_there(corpora):
        names = sorted(path.name for path in corpora.iterdir())
        if name not in names:
            raise InputError(f"the release has no corpus {name!r}: must be one of {', '.join(names)}", root)
        return read_corpus(corpora / name, None)
    return read_corpus(root, None)


def corpus_from(corpus: Corpus | str | Path | None) -> Corpus:
    """Returns a corpus as it is, or opens a path. Raises InputError for anything else."""
    if corpus is None or isinstance(corpus, str | Path):
        return load_corpus(corpus)
    if not isinstance(corpus, Corpus):
        problem = f"expected a corpus from parapet.load_corpus or parapet.corpus_of, found {type(corpus).__name__}"
        raise InputError(problem, "corpus")
    return corpus


def perturbations() -> Mapping[str, type[Perturbation]]:
    """The installed perturbations, built in and from plug-ins, as a mapping from name to class.

    A class is imported only when it is looked up, so a broken plug-in does not affect the others.

    Example:
      >>> import parapet
      >>> "typos" in parapet.perturbations()
      True
      >>> parapet.perturbations()["typos"].name
      'typos'
    """
    from parapet.transforms.perturb.apply import Registry

    return Registry()


def perturb(
    corpus: Corpus | str | Path,
    perturbation: str | type[Perturbation] | Perturbation,
    *,
    set_name: str | None = None,
    **options: Any,
) -> PerturbedCorpus:
    """Perturbs a corpus. Dialogues are perturbed lazily, as they are read.

    Args:
      corpus: a corpus, or anything that ``load_corpus`` accepts. It is not modified.
      perturbation: the name of an installed perturbation, or a class or instance of your own.
      set_name: which set to make, if the perturbation makes several, such as one for each rate.
      options: options of the perturbation. All of them take ``seed`` (default 0).

    Returns:
      A corpus, with an Arrow table ``rows`` of the changes. ``save`` writes the same bytes that the
      command writes.

    Raises:
      InputError: there is no such perturbation, set or option, or this corpus cannot be perturbed with them.

    Example:
      >>> import parapet
      >>> typos = parapet.perturb(parapet.load_corpus(), "typos", seed=1)
      >>> typos.rows.column_names[:6]
      ['dialogue_id', 'turn', 'status', 'reason', 'original', 'utterance']
      >>> typos.save("my_typos")  # doctest: +SKIP
    """
    from parapet.transforms.perturb.apply import perturbation_of, perturbed_sets
    from parapet.transforms.perturb.base import set_of

    instance = perturbation_of(perturbation, options)
    name = set_of(instance, set_name)
    return perturbed_sets(corpus_from(corpus), instance, [name])[name]


def perturb_sets(
    corpus: Corpus | str | Path, perturbation: str | type[Perturbation] | Perturbation, **options: Any
) -> dict[str, PerturbedCorpus]:
    """Makes all sets of a perturbation at once, and returns them by name. See ``perturb`` for arguments and errors.

    Example:
      >>> import parapet
      >>> sorted(parapet.perturb_sets(parapet.load_corpus(), "typos", env=(0.1, 0.5)))
      ['typos', 'typos-env1', 'typos-env2']
    """
    from parapet.transforms.perturb.apply import perturbation_of, perturbed_sets

    return perturbed_sets(corpus_from(corpus), perturbation_of(perturbation, options))


@overload
def perturb_text(text: str, perturbation: str | type[Perturbation] | Perturbation, **options: Any) -> str: ...


@overload
def perturb_text(
    text: Iterable[str], perturbation: str | type[Perturbation] | Perturbation, **options: Any
) -> list[str]: ...


def perturb_text(
    text: str | Iterable[str],
    perturbation: str | type[Perturbation] | Perturbation,
    *,
    protect: Iterable[str] = (),
    set_name: str | None = None,
    **options: Any,
) -> str | list[str]:
    """Perturbs a single utterance, or each of a list.

    A text that the perturbation cannot change is returned as it is. ``typos``, ``verbose``, ``simple`` and
    ``paraphrase`` depend on the text, the options and the seed alone: a text becomes the same whether it is
    perturbed by itself or in a list. ``speech_errors`` finds the noise for a word error rate over all texts of a call:
    give it many.

    Args:
      text: what a user says, or an iterable of such texts.
      perturbation: the name of a perturbation that needs no annotation (``typos``, ``verbose``, ``simple``,
        ``paraphrase``, ``speech_errors``, or that of a plug-in), or a class or instance of your own.
      protect: values that must not change, such as names and places, wherever they are whole words of a text, in upper
        or lower case. Numbers, times, money and words that say yes or no never change.
      set_name: which set to make, if the perturbation makes several.
      options: options of the perturbation. All of them take ``seed`` (default 0).

    Returns:
      The perturbed text; for an iterable the list of perturbed texts, in its order.

    Raises:
      InputError: there is no such perturbation, set or option, the perturbation needs a corpus, or a text cannot be
        perturbed.

    Example:
      >>> import parapet
      >>> parapet.perturb_text("I need a taxi", "typos", seed=1)
      'I need a tadi'
      >>> parapet.perturb_text(["I need a taxi to Port Alder"], "typos", seed=1, protect=["taxi", "Port Alder"])
      ['I neeed a taxi to Port Alder']
    """
    from parapet.transforms.perturb.apply import perturb_texts

    if not isinstance(text, Iterable):
        raise InputError(f"expected a text or a list of texts, found {type(text).__name__}", "text")
    results = perturb_texts([text] if isinstance(text, str) else list(text), perturbation, set_name, protect, options)
    return results[0] if isinstance(text, str) else results


def apply_variants(
    corpus: Corpus | str | Path, variants: str | Path | Variants, *, names: Sequence[str] = ()
) -> dict[str, RenamedCorpus]:
    """Renames schema elements in dialogues as in schema variants, as ``parapet rewrite`` does (SGD-X, section 3).

    Args:
      corpus: a corpus, or anything that ``load_corpus`` accepts.
      variants: a folder of variants (``DIR/v1/train/schema.json``), in the layout in which SGD-X is published and
        ``parapet compose`` writes; or variants in memory, ``{name: {split: services}}``, such as the ``variants`` of
        a ``Composition``.
      names: which variants to apply; all by default.

    Returns:
      A corpus for each variant, by name. Dialogues are renamed lazily. A dialogue with a service that the variant does
      not have raises InputError when it is read.

    Raises:
      InputError: there are no such variants, or a variant has no service that matches one of the corpus.

    Example:
      >>> import parapet
      >>> corpus = parapet.load_corpus()
      >>> renamed = [dict(service, service_name=service["service_name"] + "1") for service in corpus.services("test")]
      >>> v1 = parapet.apply_variants(corpus, {"v1": {"test": renamed}})["v1"]
      >>> next(v1.dialogues("test"))["services"]
      ['Repairs_11']
    """
    from parapet.transforms.variants.perturbation import renamed_corpora

    return renamed_corpora(corpus_from(corpus), variants, names)


PathLike = str | Path
Record = TypeVar("Record", "Assignment", "Decision")


def rank(original: str, paraphrases: Iterable[str], by: str = "levenshtein") -> list[tuple[float, str]]:
    """Orders paraphrases from near to far, as the variants v1 to v5 are composed (SGD-X, Lee et al. 2022, section 2.3).

    Args:
      original: the name or description that they paraphrase.
      paraphrases: the texts to rank.
      by: ``levenshtein``, with which names are ranked: the edit distance of the texts as written, in characters.
        ``jaccard``, with which descriptions are ranked: the Jaccard distance, 0 to 1, of their sets of lower-cased
        lemmas without articles. Or the name of an installed plug-in of ``parapet.distances``.

    Returns:
      (distance, paraphrase), the nearest first; ties by text.

    Raises:
      InputError: an unknown distance, or something that is no text.

    >>> rank("city_of_event", ["event_city", "town", "city_of_show"])
    [(5.0, 'city_of_show'), (10.0, 'town'), (12.0, 'event_city')]
    >>> rank("City of the event", ["Where an event is", "The city of events"], by="jaccard")
    [(0.0, 'The city of events'), (0.8, 'Where an event is')]
    """
    from parapet.transforms.variants.distance import metric_named

    metric = metric_named(by, "by")
    if isinstance(paraphrases, str):
        raise InputError("expected a list of texts, found one text: put it in a list", "paraphrases")
    texts = list(paraphrases)
    for place, text in [("original", original), *((f"paraphrases[{i}]", text) for i, text in enumerate(texts))]:
        if not isinstance(text, str):
            raise InputError(f"expected a text, found {type(text).__name__}", place)
    return sorted((float(metric(original, text)), text) for text in texts)


class Composition:
    """The result of :func:`compose`: the variants of a corpus's schemas, and the verdict on every answer.

    Attributes:
      variants: ``v1`` (nearest to the original in letters, not in meaning) to ``v5``, each a dict from the name of a
        split (``schema`` if there are no splits) to its services, as in ``schema.json``. Services that need more
        answers are left out.
      audit: the verdict on every answer, one row each, as in ``responses.parquet``.
      dead_letters: the records that could not be used, with the reasons.
    """

    def __init__(self, task: SchemaTask, batch: Batch) -> None:
        from parapet.transforms.crowd.schema_task import variants_of_split
        from parapet.transforms.crowd.task import audit_table

        self._task, self._batch = task, batch
        self.variants: dict[str, dict[str, list[dict[str, Any]]]] = {}
        for split in task.splits:
            for name, services in variants_of_split(split, batch.variants).items():
                self.variants.setdefault(name, {})[split.split] = services
        self.audit: pa.Table = audit_table(batch.answers, task.audit_schema)
        self.dead_letters: list[DeadLetter] = batch.dead

    def __repr__(self) -> str:
        services = f"{len(self._batch.variants)} of {len(self._batch.outcomes)} services composed"
        return f"<Composition: {services}, {self.audit.num_rows:,} answers, {len(self.dead_letters):,} dead letters>"

    @cached_property
    def shortfall(self) -> pa.Table:
        """A row for each element and task with fewer than five good answers, as in ``shortfall.csv``."""
        import pyarrow as pa

        from parapet.transforms.crowd.schema_task import SHORTFALL_COLUMNS, shortfall_rows

        counts = ("have", "need", "in_review")
        schema = pa.schema([(name, pa.int32() if name in counts else pa.string()) for name in SHORTFALL_COLUMNS])
        return pa.Table.from_pylist(shortfall_rows(self._task.in_order(self._batch.outcomes)), schema)

    @cached_property
    def statistics(self) -> dict[str, Any]:
        """The numbers of answers, the measures of Table 1, and working times, as in ``statistics.json``."""
        from parapet.transforms.crowd.report import work_times

        numbers = self._task.statistics(self._task.in_order(self._batch.outcomes), len(self.dead_letters))
        return {**numbers, "work": work_times(self._batch.notes.work)}

    def save(self, folder: PathLike) -> None:
        """Writes the same files as the command ``parapet compose``, byte for byte.

        These are ``v1/SPLIT/schema.json`` and so on, ``responses.parquet``, ``review.csv``, ``review.html``,
        ``shortfall.csv``, ``statistics.json``, ``report.html``, ``dead_letters.jsonl`` and, last, ``run.json``. The
        folder of an earlier composition is replaced.

        Raises:
          InputError: the folder contains anything else, or files that have changed since; or it cannot be written.
        """
        from parapet.transforms.core import files
        from parapet.transforms.core.disk import writing
        from parapet.transforms.crowd.schema_task import variant_files
        from parapet.transforms.crowd.task import stage_batch

        task = copy(self._task)
        task.output = str(folder)
        with writing(task.output):
            files.prepare(task.output, task.command)
            variants = [file for split in task.splits for file in variant_files(split, self._batch.variants).items()]
            written = [files.write_staged(task.output, path, data) for path, data in variants]
            batch = (self._batch.outcomes, self.dead_letters, self._batch.notes)
            files.publish(task.output, stage_batch(task, [self.audit], *batch, written))


def compose(
    services: Any,
    responses: PathLike | Assignment | Iterable[PathLike | Assignment],
    decisions: PathLike | Decision | Iterable[PathLike | Decision] | None = None,
    *,
    seed: int = 0,
    selection: str = "random",
    allow_partial: bool = False,
    allow_not_blind: bool = False,
    name_distance: str = "levenshtein",
    description_distance: str = "jaccard",
    vetting_rules: Sequence[str] = (),
    encoding: str = "utf-8",
) -> Composition:
    """Vets, ranks and composes crowd answers into the schema variants v1 to v5 (SGD-X, Lee et al. 2022, section 2.3).

    The same as the command ``parapet compose``, in memory and in this process.

    Args:
      services: a corpus (its folder, or from :func:`parapet.load_corpus`), a schema file, or the content of one:
        a list of services as dicts.
      responses: batch results of MTurk as CSV, or JSON lines of its API: one file or several; or records of
        ``parapet.schemas.rows.Assignment``.
      decisions: reviewers' decisions on held answers: CSV files, or records of
        ``parapet.schemas.decisions.Decision``.
      seed: random seed for choosing among more than five good answers.
      selection: ``random``, or ``diverse`` for the five that differ most from each other.
      allow_partial: also compose services whose elements have at least one good answer, which is repeated.
      allow_not_blind: use the answers of workers who also did the sibling task of a service; ``statistics`` says so.
      name_distance: ranks names: ``levenshtein``, ``jaccard``, or an installed plug-in of ``parapet.distances``.
      description_distance: ranks descriptions, likewise.
      vetting_rules: further rules, the names of installed plug-ins of ``parapet.vetting_rules``.
      encoding: of response files without a byte order mark.

    Returns:
      The variants and the audit. Records that cannot be used are in ``dead_letters``, services that were not composed
      in ``shortfall``.

    Raises:
      InputError: a file or option does not exist, a reviewer's sheet cannot be read, no service is good, or
        no assignment could be read. The message has file, place and reason.

    >>> import parapet
    >>> from parapet.schemas.layout import sample_root
    >>> crowd = sample_root() / "crowd"
    >>> corpus = parapet.load_corpus()
    >>> responses = [crowd / "names.csv", crowd / "descriptions.csv"]
    >>> composition = parapet.compose(corpus, responses, crowd / "decisions.csv")
    >>> list(composition.variants), list(composition.variants["v1"])
    (['v1', 'v2', 'v3', 'v4', 'v5'], ['train', 'dev', 'test'])
    >>> [service["service_name"] for service in composition.variants["v3"]["test"]]
    ['Ferries_13', 'Gyms_13', 'Libraries_23', 'Repairs_13']
    >>> composition.shortfall.select(["element_id", "task", "have"]).to_pylist()[0]
    {'element_id': 'Museums_1/slot/has_audio_guide', 'task': 'names', 'have': 3}
    """
    from parapet.schemas.decisions import Decision
    from parapet.schemas.rows import Assignment, DeadLetter
    from parapet.transforms.crowd.answer_files import Sources, distinct, read_sheet
    from parapet.transforms.crowd.ingest import read_answers
    from parapet.transforms.crowd.schema_task import Options, SchemaTask
    from parapet.transforms.crowd.vet import read_schemas
    from parapet.transforms.crowd.worker_ids import load_worker_key, without_ids

    rules = (vetting_rules,) if isinstance(vetting_rules, str) else tuple(vetting_rules)
    options = Options(seed, selection, allow_partial, name_distance, description_distance, rules, allow_not_blind)
    task = SchemaTask(read_schemas(services), options)
    response_files, assignments = _paths_and_records(responses, "responses", Assignment)
    sheets, decided = _paths_and_records(decisions if decisions is not None else [], "decisions", Decision)
    sources = Sources(response_files, sheets, encoding)
    sources.check("")
    for place, path in sources.files():
        check_published(path, place)
    records: list[Assignment | Decision | DeadLetter] = [*assignments, *decided]
    try:
        key = load_worker_key() if response_files else b""
        records += [record for path in distinct(response_files) for record in read_answers(path, key, encoding)]
        records += [record for path in distinct(sheets) for part in read_sheet(path) for record in part]
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", error.filename or "responses") from None
    read = [record for record in records if isinstance(record, Assignment)]
    dead = [without_ids(record) for record in records if isinstance(record, DeadLetter)]
    if not read:
        first = next((f"{letter.source}: {letter.reason}" for letter in dead), "the files contain none")
        raise InputError(f"no assignment could be read: {first}", "responses")
    return Composition(task, task.compose(read, [r for r in records if isinstance(r, Decision)], dead))


def _paths_and_records(items: Any, place: str, kind: type[Record]) -> tuple[list[str], list[Record]]:
    """Splits items into paths of existing files and records of a kind. Raises InputError for anything else."""
    paths: list[str] = []
    records: list[Record] = []
    for i, item in enumerate([items] if isinstance(items, str | Path | kind) else items):
        if isinstance(item, str | Path):
            paths.append(str(item))
        elif isinstance(item, kind):
            try:  # msgspec does not check the fields of a struct that is made in Python
                records.append(msgspec.convert(msgspec.to_builtins(item), kind))
            except msgspec.ValidationError as error:
                raise InputError(str(error), f"{place}[{i}]") from None
        else:
            expected = f"expected a path or a record of {kind.__name__}"
            raise InputError(f"{expected}, found {type(item).__name__}", f"{place}[{i}]")
    return paths, records


Metrics = dict[str, dict[str, float]]

ALL = "#ALL_SERVICES"
JGA = "joint_goal_accuracy"
ORIGINAL = "original"


@dataclass(repr=False, eq=False)
class Scores:
    """The result of :func:`score_states`.

    Attributes:
      name: the name of the set: ``original``, ``v1``, ``typos``.
      metrics: the content of the official scoring's ``metrics.json``: ``#ALL_SERVICES``, ``#SEEN_SERVICES``,
        ``#UNSEEN_SERVICES``, each service and each domain, to the mean of each metric over its frames (0 to 1). Metrics
        without any frame are left out.
      passed_over: what ``official=True`` has skipped: ``missing_dialogues``, ``missing_turns``, ``unknown_slots``.
    """

    name: str
    metrics: Metrics
    passed_over: dict[str, int]
    _dialogues: Sequence[Sequence[Scored]]
    _references: References
    _across_turn: bool = False

    def __repr__(self) -> str:
        frames = sum(map(len, self._dialogues))
        return f"<Scores of {self.name}: joint goal accuracy {self.joint_goal_accuracy:.4f} over {frames:,} frames>"

    @property
    def joint_goal_accuracy(self) -> float:
        """Joint goal accuracy over all services; NaN if no frame has a joint goal accuracy."""
        return self.metrics.get(ALL, {}).get(JGA, math.nan)

    def interval(
        self,
        metric: str = JGA,
        services: str = ALL,
        *,
        level: float = 0.95,
        replicates: int = 1000,
        seed: int | str = 0,
    ) -> tuple[float, float]:
        """Computes the percentile interval of a metric by resampling dialogues (bootstrap), as in ``robustness.json``.

        Args:
          metric: one of the official metrics.
          services: a key of ``metrics``: ``#SEEN_SERVICES``, a service, a domain.
          level: the share of the replicates inside the interval.
          replicates: how many times the dialogues are resampled.
          seed: the seed of the resampling; two trackers with the same seed are resampled alike.

        Returns:
          (low, high), 0 to 1; NaN if no frame has the metric. If the metric is the same in all dialogues, as at 0 and
          100 %, Wilson's interval with each dialogue as one observation.

        Raises:
          InputError: there is no such metric, or ``level`` or ``replicates`` is out of range.

        Example:
          >>> import parapet
          >>> from parapet.evaluation.dst.trackers import Names
          >>> low, high = parapet.score_states(parapet.load_corpus(), Names()).interval()
          >>> round(low, 2), round(high, 2)
          (0.58, 0.79)
        """
        from parapet.evaluation.dst.frames import METRICS, metric_values

        _check_known(metric, METRICS, "metric")
        values = metric_values(self._dialogues, self._references.of.seen, self._across_turn, metric)
        return _interval(values.get(services, ([], [])), level, replicates, seed, share=True)

    @cached_property
    def frames(self) -> pa.Table:
        """A row for each frame of a user turn, with its metrics and wrong slots, as ``evaluate`` writes them.

        Columns: set, dialogue_id, turn and frame (positions, from 0), service, original_service, seen, a column for
        each metric (null if the frame has none), wrong (slot, reference, predicted, score).
        """
        from parapet.evaluation.dst.failures import table

        return table(self.name, self._dialogues, self._references.originals, self._references.of.seen)


def score_states(
    references: Any,
    predictions: Any,
    *,
    split: str | None = None,
    schemas: Iterable[Mapping[str, Any]] | None = None,
    seen: Iterable[str] | None = None,
    name: str | None = None,
    fuzzy: bool = True,
    across_turn: bool = False,
    official: bool = False,
) -> Scores:
    """Scores predicted dialogue states as SGD's official script does (Rastogi et al. 2020, section 5.2).

    The numbers are those of ``parapet evaluate --task dst``: joint goal accuracy, average goal accuracy, active intent
    accuracy, the F1 of requested slots and of slot tagging.

    Args:
      references: a corpus (its folder, or from :func:`parapet.load_corpus`), or dialogues as dicts in SGD's form.
      predictions: one of

        - a file or a folder as the command accepts it: dialogues in SGD's form, or JSON lines
          ``{"dialogue_id", "turn", "service", "state"}``;
        - such dialogues or lines as dicts;
        - a corpus whose dialogues have the predicted states;
        - a tracker: an object with ``predict(batch)``, or a function, that returns a state for each example of a batch
          (``parapet.evaluation.dst.model.Example``).
      split: the split to score; by default ``test``, or the only split.
      schemas: the services as dicts, if the references are dicts.
      seen: the names of the services that count as seen in training; by default those of the corpus's ``train``; none
        without it.
      name: the name of the set in ``frames``; by default the variant's, or ``original``.
      fuzzy: match the values of non-categorical slots fuzzily, as SGD's script does; otherwise exactly.
      across_turn: joint accuracies are products over the frames of a turn, as in MultiWOZ's evaluation.
      official: skips missing dialogues and turns and unknown slots, as SGD's script does, and counts them.

    Returns:
      The scores.

    Raises:
      InputError: a dialogue, turn or frame has no prediction, a prediction has no reference, or something cannot be
        read. The message has file, place and reason.

    Example:
      >>> import parapet
      >>> from parapet.evaluation.dst.trackers import Names
      >>> scores = parapet.score_states(parapet.load_corpus(), Names())
      >>> scores.joint_goal_accuracy, scores.metrics["#SEEN_SERVICES"]["requested_slots_recall"]
      (0.6910170403587444, 0.8924731182795699)
      >>> scores.frames.column_names[:5]
      ['set', 'dialogue_id', 'turn', 'frame', 'service']
    """
    from parapet.evaluation.dst import frames, model
    from parapet.evaluation.dst.frames import ScoreConfig

    try:
        read = _references(references, split, schemas, name)
        if isinstance(seen, str):
            raise InputError("expected a list of service names, found one name: put it in a list", "seen")
        if seen is not None:
            read.of = msgspec.structs.replace(read.of, seen=frozenset(seen))
        dialogues, passed = model.score(read, predictions, ScoreConfig(fuzzy, official))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", error.filename or "") from None
    metrics = frames.means(frames.add_up(dialogues, read.of.seen, across_turn))
    return Scores(read.of.name, metrics, msgspec.structs.asdict(passed), dialogues, read, across_turn)


def _references(given: Any, split: str | None, schemas: Iterable[Any] | None, name: str | None) -> References:
    """Reads dialogues with their services. Raises InputError if there are none."""
    from parapet.evaluation.dst.model import of_corpus, of_dialogues
    from parapet.transforms.perturb.corpora import Corpus

    corpus = load_corpus(given) if isinstance(given, str | Path) else given
    if isinstance(corpus, Corpus):
        references = of_corpus(corpus, split, name or str(getattr(corpus, "variant", ORIGINAL)))
    elif isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise InputError(f"expected a corpus, its place or dialogues, found {type(given).__name__}", "references")
    elif schemas is None:
        raise InputError("dialogues in memory require the schemas of their services", "schemas")
    else:
        references = of_dialogues(given, schemas, name or ORIGINAL)
    if not references.dialogues:
        raise InputError("contains no dialogues", "references")
    return references


def schema_sensitivity(
    scores: Mapping[str, Scores] | Iterable[Scores],
    *,
    metric: str = JGA,
    zero: statistics.Policy = "zero",
    allow_missing: bool = False,
) -> float:
    """Computes schema sensitivity: how much a metric varies over schema variants (SGD-X, Lee et al. 2022, equation 1).

    This is the mean over frames of the coefficient of variation: the sample standard deviation of the metric over the
    variants, divided by its mean. Lower is better, but a tracker that is always wrong also scores 0.

    Args:
      scores: a dict from variant to scores (``original`` is left out, as in the paper), or the variants' scores.
      metric: one of the official metrics.
      zero: if the metric is 0 under all variants, the coefficient is 0 / 0: ``zero`` counts it as 0, since equation 1
        is over all turns; ``drop`` leaves the frame out.
      allow_missing: compare only the dialogues that all variants have, if they differ.

    Returns:
      0 or more, as a share: 0.404 is printed as 40.4 in the paper. NaN if no frame has a coefficient.

    Raises:
      InputError: there are fewer than two variants, or their dialogues, turns and frames differ.

    Example:
      >>> import parapet
      >>> from parapet.evaluation.dst.trackers import Names
      >>> corpus = parapet.load_corpus()
      >>> from parapet.schemas.layout import sample_root
      >>> crowd = sample_root() / "crowd"
      >>> answers = [crowd / "names.csv", crowd / "descriptions.csv"]
      >>> made = parapet.compose(corpus, answers, crowd / "decisions.csv", allow_partial=True)
      >>> scores = {
      ...     name: parapet.score_states(variant, Names())
      ...     for name, variant in parapet.apply_variants(corpus, made.variants).items()
      ... }
      >>> print(f"{parapet.schema_sensitivity(scores):.1%}")
      81.0%
    """
    from parapet.evaluation.dst import frames

    coefficients = _coefficients(scores, metric, zero, allow_missing)
    if coefficients is None:
        return math.nan
    return frames.means(frames.add_up_coefficients(coefficients, zero)).get(ALL, {}).get(metric, math.nan)


def schema_sensitivity_interval(
    scores: Mapping[str, Scores] | Iterable[Scores],
    *,
    metric: str = JGA,
    zero: statistics.Policy = "zero",
    allow_missing: bool = False,
    level: float = 0.95,
    replicates: int = 1000,
    seed: int | str = 0,
) -> tuple[float, float]:
    """Computes the percentile interval of schema sensitivity by resampling dialogues (bootstrap).

    Args:
      scores: as for :func:`schema_sensitivity`, and ``metric``, ``zero`` and ``allow_missing`` too.
      metric: the metric.
      zero: how to count frames whose metric is 0 under all variants.
      allow_missing: compare only the dialogues that all variants have.
      level: the share of the replicates inside the interval.
      replicates: how many times the dialogues are resampled.
      seed: the seed of the resampling.

    Returns:
      (low, high), as shares; NaN if no frame has a coefficient, or if all have the same one.

    Raises:
      InputError: as for :func:`schema_sensitivity`; or ``level`` or ``replicates`` is out of range.

    Example:
      >>> import parapet
      >>> from parapet.evaluation.dst.trackers import Names
      >>> scores = parapet.score_states(parapet.load_corpus(), Names())
      >>> parapet.schema_sensitivity_interval([scores, scores])  # two variants with the same predictions
      (nan, nan)
    """
    from parapet.evaluation.dst.frames import METRICS

    coefficients = _coefficients(scores, metric, zero, allow_missing)
    if coefficients is None:
        return math.nan, math.nan
    return _interval(coefficients.statistic(zero, METRICS.index(metric), ALL), level, replicates, seed)


def _coefficients(
    scores: Mapping[str, Scores] | Iterable[Scores], metric: str, zero: statistics.Policy, allow_missing: bool
) -> Coefficients | None:
    """Computes the coefficients of all frames; None if the variants have no dialogue in common."""
    from parapet.evaluation import statistics
    from parapet.evaluation.dst import frames

    _check_known(metric, frames.METRICS, "metric")
    _check_known(zero, statistics.POLICIES, "zero")
    variants = _variants(scores)
    if len(variants) < 2:
        reason = f"schema sensitivity requires the scores of at least two variants, found {len(variants)}"
        raise InputError(reason, "scores")
    if not allow_missing:
        _check_same_dialogues(variants)
    together = frames.aligned([state_scores._dialogues for state_scores in variants.values()])
    return frames.measured(together, lambda _: (ALL,)) if together else None


def _interval(
    statistic: statistics.Statistic, level: float, replicates: int, seed: int | str, share: bool = False
) -> tuple[float, float]:
    """Computes the interval of the mean of some values, which are 0 to 1 with ``share``; NaN if there is none."""
    from parapet.evaluation import statistics
    from parapet.transforms.core.seeding import seed_text

    if not 0 < level < 1:
        raise InputError(f"{level} is not a number between 0 and 1", "level")
    if replicates < 1:
        raise InputError(f"{replicates}: must be 1 or more", "replicates")
    drawn = statistics.replicated(seed_text(seed), [statistic], replicates)
    values, undefined = statistics.means(drawn)[:, 0], (math.nan, math.nan)
    if share:
        return statistics.share_interval(values, statistics.dialogues_of(drawn[:, 0, 1]), level) or undefined
    return statistics.interval(values, level) or undefined


def _check_known(value: str, known: Sequence[str], place: str) -> None:
    if value not in known:
        raise InputError(f"{value!r} is unknown: must be one of {', '.join(known)}", place)


def _variants(scores: Any) -> dict[str, Scores]:
    """Returns scores by the name of the variant, without those of the original."""
    if isinstance(scores, Mapping):
        variants = {str(name): state_scores for name, state_scores in scores.items() if name != ORIGINAL}
    else:
        variants = {f"scores[{i}]": state_scores for i, state_scores in enumerate(scores)}
    for name, state_scores in variants.items():
        if not isinstance(state_scores, Scores):
            raise InputError(f"expected the scores of a variant, found {type(state_scores).__name__}", name)
    return variants


def _check_same_dialogues(variants: Mapping[str, Scores]) -> None:
    ids = {
        name: {frames[0].dialogue_id for frames in state_scores._dialogues if frames}
        for name, state_scores in variants.items()
    }
    every = set().union(*ids.values())
    for name, ids_of_variant in ids.items():
        if lacking := sorted(every - ids_of_variant):
            reason = f"{name} lacks {len(lacking):,} of {len(every):,} dialogues, such as {lacking[0]!r}"
            raise InputError(f"{reason}: allow_missing=True compares only the dialogues that all have", "scores")


def to_pandas(x: Any) -> pandas.DataFrame:
    """Converts a table to a pandas DataFrame.

    Args:
      x: an Arrow table; or scores (their ``frames``), a composition (its ``audit``), a perturbed corpus (its ``rows``);
        or a dict from name to any of these, which becomes one table with the names in its first column, ``set``.

    Raises:
      InputError: ``x`` is something else.
      MissingExtra: pandas is not installed; the message says how to install it.

    Example:
      >>> import parapet
      >>> from parapet.evaluation.dst.trackers import Names
      >>> corpus = parapet.load_corpus()
      >>> sets = {"original": corpus, "typos": parapet.perturb(corpus, "typos", seed=1)}
      >>> frames = parapet.to_pandas({name: parapet.score_states(of, Names()) for name, of in sets.items()})
      >>> frames.groupby("set").joint_goal_accuracy.mean().to_dict()
      {'original': 0.6910170403587444, 'typos': 0.652496860986547}
    """
    try:
        import pandas
    except ImportError:
        raise MissingExtra("pandas", "pandas", "to_pandas") from None
    if not isinstance(x, Mapping):
        return _data_frame(x, "x")
    tables = {
        str(name): _data_frame(part, f"x[{name!r}]").drop(columns="set", errors="ignore") for name, part in x.items()
    }
    if not tables:
        raise InputError("it is empty", "x")
    return pandas.concat(tables, names=["set"]).reset_index("set").reset_index(drop=True)


def _data_frame(x: Any, place: str) -> pandas.DataFrame:
    import pyarrow as pa

    for table in (x, *(getattr(x, name, None) for name in ("frames", "audit", "rows"))):
        if isinstance(table, pa.Table):
            data_frame: pandas.DataFrame = table.to_pandas()
            return data_frame
    raise InputError(f"expected a table, scores, a composition or rows, found {type(x).__name__}", place)
