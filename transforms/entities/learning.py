"""A corpus studied in Beam: each file is read by a worker, and one puts together what all have.

What grows with the corpus is a vocabulary: the different values of each slot; of training, 8 bytes for each different
word and each different pair of words that follow each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import TaggedOutput

from parapet.transforms.entities.sources import CORPUS, GENERATED
from parapet.transforms.entities.study import (
    Inputs,
    Refused,
    StudiedFile,
    Study,
    checked,
    learn,
    names_in,
    needs_of,
    study_of,
    with_names,
)
from parapet.transforms.perturbation.base import REFUSED
from parapet.transforms.perturbation.fence import Fault
from parapet.transforms.progress import ANALYSIS, expect_dialogues


class StudyCorpus(beam.PTransform):
    """Reads training and the dialogues that are perturbed; where values are drawn from a pool, also who needs them.

    Args:
      inputs: the files, the schemas, and how values are replaced.
    """

    def __init__(self, inputs: Inputs) -> None:
        super().__init__()
        self.inputs = inputs

    def expand(self, pipeline: beam.Pipeline) -> tuple[beam.PCollection, beam.PCollection]:
        """Pipeline to one element, a Study; and to (place, error) of each dialogue of which nothing was learned."""
        inputs, config = self.inputs, self.inputs.config
        expect_dialogues([studied.file for studied in inputs.files], ANALYSIS)
        files = pipeline | "Files" >> beam.Create(inputs.files)
        learned, refused = _of_each(files, "Read", learn)
        once = pipeline | "Once" >> beam.Create([inputs], reshuffle=False)
        study: beam.PCollection = once | "Study" >> beam.Map(study_of, beam.pvalue.AsIter(learned))
        if config.values == GENERATED:
            return study, refused
        every = [refused]
        if config.values == CORPUS:
            names, refused = _of_each(files, "Names", names_in, beam.pvalue.AsSingleton(study))
            every.append(refused)
            study = study | "Hold out" >> beam.Map(with_names, beam.pvalue.AsIter(names), config.seed)
        needs, refused = _of_each(files, "Needs", needs_of, beam.pvalue.AsSingleton(study))
        every.append(refused)
        study = study | "Check" >> beam.Map(checked, beam.pvalue.AsIter(needs), config)
        return study, every | "Refused" >> beam.Flatten()


def _of_each(
    files: beam.PCollection, label: str, function: Callable[..., Any], *side: Any
) -> tuple[beam.PCollection, beam.PCollection]:
    """PCollections of what a function makes of each file, and of the dialogues that it refuses."""
    results = files | label >> beam.FlatMap(_call, function, *side).with_outputs(REFUSED, main="results")
    return results["results"], results[REFUSED]


def _call(studied: StudiedFile, function: Callable[..., Any], study: Study | None = None) -> Iterator[Any]:
    refused: Refused = {}
    yield function(studied, refused, *([] if study is None else [study]))
    # Those that are refused by a fault: of others whoever writes them finds out what is wrong.
    yield from (TaggedOutput(REFUSED, pair) for pair in refused.items() if isinstance(pair[1], Fault))
