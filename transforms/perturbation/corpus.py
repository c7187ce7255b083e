"""A corpus as a perturbation leaves it: fitted and analyzed at once, perturbed when it is read."""

from __future__ import annotations

import logging
import os
import pickle
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from parapet.schemas.dialogue import DialogueFile
from parapet.schemas.errors import InputError
from parapet.transforms.corpora import Corpus, Item, checked_items, inlined
from parapet.transforms.perturbation.base import REFUSED, Perturbation, Place, Shared, States, checked_analysis
from parapet.transforms.perturbation.registry import options_named
from parapet.transforms.perturbation.results import apply, services_by_folder


class Analyzed:
    """What a perturbation computed from a whole corpus: nothing, where it needs no analysis."""

    def __init__(self, perturbation: Perturbation, states: States, shared: Shared) -> None:
        self.perturbation, self.states, self.shared = perturbation, states, dict(shared)
        self.refused: Mapping[Place, InputError] = self.shared.pop(REFUSED, {})

    def of(self, place: Place) -> Any:
        """The state of a dialogue, as ``perturb`` takes it."""
        if not self.perturbation.needs_analysis():
            return None
        return self.perturbation.state_of(place, self.states.get(place), self.shared)


class PerturbedCorpus(Corpus):
    """A perturbed corpus: one set of a perturbation. Dialogues are perturbed as they are read.

    Attributes:
      original: the corpus that was perturbed.
      perturbation: the perturbation, fitted.
      set_name: which of its sets this is.
      analyzed: what the perturbation computed from the whole corpus.
    """

    def __init__(self, original: Corpus, perturbation: Perturbation, set_name: str, analyzed: Analyzed) -> None:
        super().__init__(original.files, original.folders, dict(original.schemas))
        self.original, self.perturbation, self.set_name, self.analyzed = original, perturbation, set_name, analyzed

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
        services = services_by_folder(self)[file.split]
        for item in self.original.read(file):
            place = (file.relative, item.position)
            if item.error is None and place in self.analyzed.refused:
                yield item._replace(error=self.analyzed.refused[place])
                continue
            state = self.analyzed.of(place)
            yield apply(self.perturbation, item, self.set_name, state, services)

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
    analyzed = fitted(perturbation, corpus)
    names = perturbation.sets if set_names is None else set_names
    return {name: PerturbedCorpus(corpus, perturbation, name, analyzed) for name in names}


def fitted(perturbation: Perturbation, corpus: Corpus) -> Analyzed:
    """Fits a perturbation to a corpus, and analyzes it."""
    with options_named():
        perturbation.fit(corpus)
        if not perturbation.needs_analysis():
            return Analyzed(perturbation, {}, {})
        return Analyzed(perturbation, *_analyzed(perturbation, corpus))


def _analyzed(perturbation: Perturbation, corpus: Corpus) -> tuple[dict[Place, Any], dict[str, dict[Any, Any]]]:
    """The states of all dialogues, and what they share, computed by a Beam pipeline on this machine."""
    import apache_beam as beam

    with tempfile.TemporaryDirectory() as folder:
        try:
            # Beam's default looks for a Prism binary to download before it falls back to this runner.
            with _quiet_beam(), beam.Pipeline("FnApiRunner") as pipeline:
                files = pipeline | "Dialogue files" >> beam.Create(
                    inlined(corpus) if perturbation.analyzes_dialogues else []
                )
                analysis = checked_analysis(perturbation, files)
                kept = analysis.side_inputs() | ({"": analysis.states} if analysis.states else {})
                for i, (name, pairs) in enumerate(kept.items()):
                    batches = pairs | f"Batch {i}" >> beam.BatchElements(64, 4096)
                    _ = batches | f"Keep {i}" >> beam.Map(_keep, name, folder)
        except InputError as error:
            raise InputError(error.reason.partition(" [while running")[0], error.path, error.where) from None
        found: dict[str, dict[Any, Any]] = {name: {} for name in ("", *analysis.side_inputs())}
        for path in Path(folder).iterdir():
            name, batch = pickle.loads(path.read_bytes())  # noqa: S301 (written just now)
            found[name].update(batch)
    return found.pop(""), found


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


def _keep(pairs: list[tuple[Any, Any]], name: str, folder: str) -> None:
    Path(folder, uuid.uuid4().hex).write_bytes(pickle.dumps((name, pairs)))
