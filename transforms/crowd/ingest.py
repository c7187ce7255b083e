"""Read the answers of crowd workers: batch results as CSV, JSON of MTurk's API, and lines of ``parapet collect``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam

from parapet.schemas import limits
from parapet.schemas.errors import InputError
from parapet.schemas.rows import Assignment, DeadLetter
from parapet.transforms.crowd.answer_files import SCHEMA_TASKS, Sources, TaskKind, distinct, read_responses, read_row
from parapet.transforms.crowd.outputs import WithDeadLetters
from parapet.transforms.crowd.worker_ids import load_worker_key


def read_answers(
    path: str, key: bytes, encoding: str = "utf-8", kind: TaskKind = SCHEMA_TASKS
) -> Iterator[Assignment | DeadLetter]:
    """Read the assignments of a file, and a dead letter for each record that cannot be used.

    Args:
      path: the file; CSV or JSON is detected by its first character.
      key: the key for hashing worker ids.
      encoding: of a file without a byte order mark.
      kind: the kind of tasks whose answers are accepted.

    Raises:
      InputError: so many rows cannot be used that this is no file of answers; raised before the end of the file.
      DamagedFile: a compressed file is truncated or damaged.
    """
    good, bad, first = 0, 0, ""
    for record in read_responses(path, key, encoding, kind):
        yield record
        if isinstance(record, Assignment):
            good += 1
        elif not record.reason.startswith("unknown_field"):  # a field of a row that is used
            bad, first = bad + 1, first or f"{record.source}: {record.reason}"
            if bad > max(limits.MAX_BAD_ROWS, good):
                raise InputError(f"{bad:,} of the first {bad + good:,} rows cannot be used (first {first})", path)


def as_assignments(record: Assignment | Mapping[str, Any], key: bytes) -> Iterator[Assignment | DeadLetter]:
    """Read a record from anywhere: a dict as in the lines of ``parapet collect`` or the rows of a batch CSV."""
    if isinstance(record, Assignment):
        yield record
    else:
        yield from read_row(record, key, "a record")


class ReadAnswers(WithDeadLetters):
    """Reads files with the answers of workers.

    The result is a PCollection of ``parapet.schemas.rows.Assignment``: the form that one worker has filled in.
    ``with_outputs()`` has ``assignments`` and ``dead_letters``.

    Args:
      paths: the files. One that is given twice is read once.
      worker_key: the key with which worker ids are hashed; by default that of the commands, ``PARAPET_WORKER_KEY`` or
        the key file.
      encoding: of files without a byte order mark.
      kind: the kind of tasks; by default those that paraphrase schemas.

    Raises:
      InputError: a file does not exist, or there is no such encoding.

    Example:
      >>> import apache_beam as beam, parapet
      >>> from parapet.schemas.layout import sample_root
      >>> names = str(sample_root() / "crowd" / "names.csv")
      >>> with beam.Pipeline() as pipeline:
      ...     answers = pipeline | parapet.beam.ReadAnswers([names])
      ...     _ = answers | beam.combiners.Count.Globally() | beam.Map(print)
      60
    """

    main = "assignments"

    def __init__(
        self,
        paths: str | Path | Sequence[str | Path],
        worker_key: bytes | str | None = None,
        *,
        encoding: str = "utf-8",
        kind: TaskKind = SCHEMA_TASKS,
    ) -> None:
        super().__init__()
        files = [paths] if isinstance(paths, str | Path) else paths
        sources = Sources([str(path) for path in files], encoding=encoding)
        sources.check("")
        self.paths = distinct(sources.responses)
        key = load_worker_key() if worker_key is None else worker_key
        self.key = key.encode() if isinstance(key, str) else key
        self.encoding, self.kind = encoding, kind

    def outputs(self, pipeline: beam.Pipeline) -> beam.DoOutputsTuple:
        """Return ``assignments`` and ``dead_letters``."""
        how = (self.key, self.encoding, self.kind)
        return (
            pipeline | "Files" >> beam.Create(self.paths) | "Read" >> self.apart(lambda path: read_answers(path, *how))
        )
