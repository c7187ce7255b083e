"""Makes schema variants from crowd answers in memory: ``parapet.rank``, ``parapet.compose`` and ``Composition``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.layout import check_published

if TYPE_CHECKING:
    import pyarrow as pa

    from parapet.schemas.decisions import Decision
    from parapet.schemas.rows import Assignment, DeadLetter
    from parapet.transforms.crowd.schema_task import Batch, SchemaTask

Variants = dict[str, dict[str, list[dict[str, Any]]]]
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
        self.variants: Variants = {}
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

    distances = (name_distance, description_distance)
    rules = (vetting_rules,) if isinstance(vetting_rules, str) else tuple(vetting_rules)
    options = Options(seed, selection, allow_partial, *distances, rules, allow_not_blind)
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
