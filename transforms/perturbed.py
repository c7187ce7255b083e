"""A corpus as a perturbation leaves it: fitted and analyzed at once, perturbed when it is read."""

from __future__ import annotations

import logging
import os
import pickle
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from parapet.schemas.dialogue_files import DialogueFile
from parapet.schemas.errors import InputError
from parapet.transforms.corpora import Corpus, Item, checked_items, inlined
from parapet.transforms.perturbation import Perturbation, Place, States, apply, options_named


class PerturbedCorpus(Corpus):
    """A perturbed corpus: one set of a perturbation. Dialogues are perturbed as they are read.

    Attributes:
      original: the corpus that was perturbed.
      perturbation: the perturbation, fitted.
      set_name: which of its sets this is.
      states: of the dialogues, by file and position, if the perturbation analyzes the corpus.
    """

    def __init__(self, original: Corpus, perturbation: Perturbation, set_name: str, states: States) -> None:
        super().__init__(original.files, original.folders, dict(original.schemas))
        self.original, self.perturbation, self.set_name, self.states = original, perturbation, set_name, states

    @property
    def rows(self) -> pa.Table:
        """What was changed, as an Arrow table with the perturbation's ``row_schema``, in the order of the dialogues.

        Raises:
          InputError: a dialogue cannot be used.
        """
        return self.rows_of()

    def rows_of(self, split: str | None = None) -> pa.Table:
        """The rows of one split. In SGD the dialogues of different splits may have the same ids.

        Raises:
          InputError: there is no such split, or a dialogue cannot be used.
        """
        rows = [row for file in self.files_of(split) for item in checked_items(self, file) for row in item.rows]
        return table_of_rows(self.perturbation, rows)

    def read(self, file: DialogueFile) -> Iterator[Item]:
        """The dialogues of one of the files, perturbed."""
        for item in self.original.read(file):
            state = self.states.get((file.relative, item.position))
            yield apply(self.perturbation, item, self.set_name, state)

    def provenance(self) -> dict[str, Any]:
        """The perturbation, its set and its seed, after the provenance of the original."""
        made_by = {"perturbation": self.perturbation.name, "set": self.set_name, "seed": self.perturbation.seed}
        return {**self.original.provenance(), **made_by}


def table_of_rows(perturbation: Perturbation, rows: Sequence[dict[str, Any]]) -> pa.Table:
    """Rows as a table. Raises InputError where they are not of the perturbation's ``row_schema``."""
    wrong = f"{perturbation.name}: its rows are not of its row_schema"
    try:
        table = pa.Table.from_pylist(rows, perturbation.row_schema)
    except (pa.ArrowException, TypeError, UnicodeEncodeError, OverflowError) as error:
        raise InputError(f"{wrong}: {str(error).splitlines()[0]}") from None
    for field in table.schema:
        if not field.nullable and table.column(field.name).null_count:
            raise InputError(f"{wrong}: a row has no {field.name!r}")
    return table


def perturbed_sets(
    corpus: Corpus, perturbation: Perturbation, set_names: Sequence[str] | None = None
) -> dict[str, PerturbedCorpus]:
    """The sets of a perturbation, by name.

    Args:
      corpus: the original.
      perturbation: what is done; it is fitted here.
      set_names: which of its sets; None: all.

    Raises:
      InputError: the corpus cannot be perturbed so.
    """
    states = fitted(perturbation, corpus)
    names = perturbation.sets if set_names is None else set_names
    return {name: PerturbedCorpus(corpus, perturbation, name, states) for name in names}


def fitted(perturbation: Perturbation, corpus: Corpus) -> States:
    """Fits a perturbation to a corpus, and finds the states of its dialogues."""
    with options_named():
        perturbation.fit(corpus)
        return analyzed(perturbation, corpus) if perturbation.needs_analysis() else {}


def analyzed(perturbation: Perturbation, corpus: Corpus) -> dict[Place, Any]:
    """The states of all dialogues, found by a Beam pipeline on this machine."""
    import apache_beam as beam

    with tempfile.TemporaryDirectory() as folder:
        try:
            # Beam's default looks for a Prism binary to download before it falls back to this runner.
            with _quiet_beam(), beam.Pipeline("FnApiRunner") as pipeline:
                files = pipeline | "Dialogue files" >> beam.Create(inlined(corpus))
                states = perturbation.analyze(files)
                _ = states | "Batch" >> beam.BatchElements(64, 4096) | "Keep" >> beam.Map(_keep, folder)
        except InputError as error:
            raise InputError(error.reason.partition(" [while running")[0], error.path, error.where) from None
        batches = [pickle.loads(path.read_bytes()) for path in Path(folder).iterdir()]  # noqa: S301 (written just now)
    return {place: state for batch in batches for place, state in batch}


@contextmanager
def _quiet_beam() -> Iterator[None]:
    """Beam logs each error that it raises, with a traceback; a library is not to print."""
    logger = logging.getLogger("apache_beam")
    level = logger.level
    if os.environ.get("PARAPET_DEBUG") != "1":
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _keep(states: list[tuple[Place, Any]], folder: str) -> None:
    Path(folder, uuid.uuid4().hex).write_bytes(pickle.dumps(states))
