"""Scores dialogue files: one element is a file in all sets, so that variants are compared frame by frame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import msgspec
import numpy as np
from apache_beam.pvalue import TaggedOutput

from parapet.evaluation import bootstrap
from parapet.evaluation.dst import rows, sensitivity, totals
from parapet.evaluation.dst.files import Dialogue, Found, Scored, Settings, parse_dialogues, score_dialogues
from parapet.evaluation.dst.frames import METRICS
from parapet.evaluation.dst.model import Model, load, predicted
from parapet.evaluation.dst.predictions import Line, Predicted, as_dialogues, check_known, read_predictions
from parapet.evaluation.dst.rows import Example, worst, worst_of
from parapet.evaluation.dst.sets import ORIGINAL, Job, Plan, Set
from parapet.evaluation.user_code import UserCode
from parapet.schemas.errors import InputError
from parapet.transforms.files import Written, read_bytes, write_staged
from parapet.transforms.parquet import parquet_bytes

TOTALS, REPLICATES, EXAMPLES, COUNTS = "totals", "replicates", "examples", "counts"

SENSITIVITY = "sensitivity/"  # before the key of its sums: sensitivity/frame/drop
AGGREGATES = (totals.ALL, totals.SEEN, totals.UNSEEN)
_JOINT = METRICS.index("joint_goal_accuracy")


class Work(msgspec.Struct, frozen=True):
    """What every worker knows.

    Attributes:
      output: the folder.
      across_turn: joint accuracies are products over turns.
      seed: of the bootstrap; ``replicates`` how many, 0 for none.
      model: what predicts, where there are no files; ``batch_size`` of it.
    """

    output: str
    plan: Plan
    settings: Settings = Settings()
    across_turn: bool = False
    seed: str = "0"
    replicates: int = bootstrap.REPLICATES
    model: UserCode | None = None
    batch_size: int = 64


class ScoreFile(beam.DoFn):
    """A file in all sets -> rows of its frames; sums; replicates; examples; counts."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self._model: Model | None = None

    def setup(self) -> None:
        """Loads the model."""
        if self.work.model:
            self._model = load(self.work.model)

    def process(self, element: tuple[Job, Mapping[str, Sequence[bytes]]]) -> Iterator[Written | TaggedOutput]:
        """Takes a job, and by set the loose predictions for it."""
        job, loose = element
        work = self.work
        scored: dict[str, list[list[Scored]]] = {}
        counts = Found()
        for member in job.members:
            references = parse_dialogues(read_bytes(member.reference), member.reference)
            found, path = self._predictions(member.set, references, member.predictions, loose.get(member.set, ()))
            if not work.settings.official:
                check_known(references, found, path)
            of = work.plan.sets[member.set]
            scored[member.set] = list(score_dialogues(references, found, of.slots(), work.settings, path, counts))
            yield self._written(of, job.name, scored[member.set])
            yield TaggedOutput(TOTALS, (member.set, totals.add_up(scored[member.set], of.seen, work.across_turn)))
            yield TaggedOutput(COUNTS, (f"frames/{member.set}", sum(map(len, scored[member.set]))))
            yield TaggedOutput(COUNTS, (f"dialogues/{member.set}", len(references)))
        for name in counts.__struct_fields__:
            yield TaggedOutput(COUNTS, (name, getattr(counts, name)))
        yield from self._compared(scored)

    def _predictions(
        self, name: str, references: Sequence[Dialogue], path: str, loose: Sequence[bytes]
    ) -> tuple[dict[str, Dialogue], str]:
        work = self.work
        if self._model is not None:
            services = work.plan.sets[name].services
            target = work.model.target if work.model else ""
            return predicted(self._model, references, services, work.batch_size, target), f"{target} on {name}"
        if path:
            return as_dialogues(references, list(read_predictions(path)), path), path
        return as_dialogues(
            references, [decoded(one) for one in sorted(loose)], f"predictions of {name}"
        ), f"predictions of {name}"

    def _written(self, of: Set, name: str, dialogues: Sequence[Sequence[Scored]]) -> Written:
        made = rows.table(of.name, dialogues, self.work.plan.originals, of.seen)
        return write_staged(
            self.work.output, f"rows/{of.name}/{name.removesuffix('.json')}.parquet", parquet_bytes(made)
        )

    def _compared(self, scored: Mapping[str, Sequence[Sequence[Scored]]]) -> Iterator[TaggedOutput]:
        plan, work = self.work.plan, self.work
        variants = plan.variants if all(name in scored for name in (ORIGINAL, *plan.variants)) else []
        together = sensitivity.aligned([scored[name] for name in variants]) if len(variants) > 1 else []
        if together:
            for name, sums in sensitivity.add_up(together, plan.originals, plan.sets[ORIGINAL].seen).items():
                yield TaggedOutput(TOTALS, (SENSITIVITY + name, sums))
        if work.replicates:
            yield TaggedOutput(REPLICATES, self._replicates(scored, together))
        if variants:
            services = {name: one.services for name, one in plan.sets.items()}
            examples: list[Example] = []
            for frames, *others in sensitivity.aligned([scored[name] for name in (ORIGINAL, *variants)]):
                examples += worst_of(frames, dict(zip(variants, others, strict=True)), services, work.seed)
            yield TaggedOutput(EXAMPLES, worst(examples))

    def _replicates(
        self, scored: Mapping[str, Sequence[Sequence[Scored]]], together: Sequence[Sequence[Sequence[Scored]]]
    ) -> bootstrap.Counts:
        """Shape (replicates, statistics, 2); the statistics are those of :func:`statistics_of`."""
        work = self.work
        names = statistics_of(work.plan)
        place = {name: i for i, name in enumerate(names)}
        sums: dict[str, list[tuple[int, float]]] = {}

        def add(dialogue_id: str, of: str, keys: Iterable[str], value: float) -> None:
            for key in keys:
                if key in AGGREGATES and value == value:
                    sums.setdefault(dialogue_id, []).append((place[f"{of} {key}"], value))

        for name, dialogues in scored.items():
            seen = work.plan.sets[name].seen
            for frames in dialogues:
                for frame in frames:
                    add(frame.dialogue_id, name, totals.keys_of(frame.service, seen), frame.values[_JOINT])
        seen = work.plan.sets[ORIGINAL].seen
        for variants in together:
            for frame, found, _ in sensitivity.coefficients(variants, "frame"):
                keys = totals.keys_of(work.plan.originals[frame.service], seen)
                add(frame.dialogue_id, SENSITIVITY, keys, found[_JOINT])
        made = np.zeros((work.replicates, len(names), 2), dtype=np.int64)
        for dialogue_id, values in sums.items():
            at = [i for i, _ in values]
            total = np.bincount(at, [value for _, value in values], len(names))
            drawn = bootstrap.weights(work.seed, dialogue_id, work.replicates)
            made += bootstrap.resampled(drawn, total, np.bincount(at, minlength=len(names)))
        return made


def statistics_of(plan: Plan) -> list[str]:
    """What has replicates: joint goal accuracy of each set, and its sensitivity (by frame, zeros dropped)."""
    return [f"{of} {key}" for of in (*plan.sets, SENSITIVITY) for key in AGGREGATES]


def encoded(one: Predicted) -> bytes:
    """A prediction on its way to the file that it belongs to."""
    return (b"L" if isinstance(one, Line) else b"D") + msgspec.json.encode(one)


def decoded(data: bytes) -> Predicted:
    """The other way."""
    if data[:1] == b"L":
        return msgspec.json.decode(data[1:], type=Line)
    return msgspec.json.decode(data[1:], type=Dialogue)


class Sort(beam.DoFn):
    """A loose prediction file of a set -> (name of the reference file, (set, prediction))."""

    def __init__(self, official: bool) -> None:
        self.official = official

    def process(self, element: tuple[str, str], places: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, bytes]]]:
        """``places`` has, for ``SET<tab>ID``, the file of that dialogue."""
        name, path = element
        for one in read_predictions(path):
            place = places.get(f"{name}\t{one.dialogue_id}")
            if place is not None:
                yield place, (name, encoded(one))
            elif not self.official:
                raise InputError(f"dialogue {one.dialogue_id!r} is not in the reference of {name}", path)


def places_of(job: Job, sets: frozenset[str]) -> Iterator[tuple[str, str]]:
    """For every dialogue of a file, in sets with loose predictions, the name of the file."""
    for member in job.members:
        if member.set in sets:
            for dialogue in parse_dialogues(read_bytes(member.reference), member.reference):
                yield f"{member.set}\t{dialogue.dialogue_id}", job.name


class Score(beam.PTransform):
    """All files of a plan -> what :class:`ScoreFile` gives, as ``written`` and by tag."""

    def __init__(self, work: Work) -> None:
        super().__init__()
        self.work = work

    def expand(self, pipeline: beam.Pipeline) -> Any:
        """The pipeline to its outputs."""
        plan = self.work.plan
        jobs = pipeline | "Files" >> beam.Create(plan.jobs)
        if plan.loose:
            named = frozenset(name for name, _ in plan.loose)
            places = jobs | "Read ids" >> beam.FlatMap(places_of, named)
            sorted_out = (
                pipeline
                | "Predictions" >> beam.Create(plan.loose)
                | "Sort" >> beam.ParDo(Sort(self.work.settings.official), beam.pvalue.AsDict(places))
            )
            keyed = jobs | "By name" >> beam.Map(lambda job: (job.name, job))
            with_loose = (keyed, sorted_out) | "Join" >> beam.CoGroupByKey() | "Pair" >> beam.Map(_pair)
        else:
            with_loose = jobs | "Spread" >> beam.Reshuffle() | "Alone" >> beam.Map(lambda job: (job, {}))
        return with_loose | "Score" >> beam.ParDo(ScoreFile(self.work)).with_outputs(
            TOTALS, REPLICATES, EXAMPLES, COUNTS, main="written"
        )


def _pair(joined: tuple[str, tuple[Iterable[Job], Iterable[tuple[str, bytes]]]]) -> tuple[Job, dict[str, list[bytes]]]:
    _, (jobs, predictions) = joined
    by_set: dict[str, list[bytes]] = {}
    for name, one in predictions:
        by_set.setdefault(name, []).append(one)
    return next(iter(jobs)), by_set


def summed(found: Iterable[bootstrap.Counts]) -> Any:
    """Replicates of some files, added up."""
    return sum(found, start=np.zeros((1, 1, 1), dtype=np.int64))


def worst_of_all(found: Iterable[Sequence[Example]]) -> list[Example]:
    """The worst examples of some files."""
    return worst([one for of in found for one in of])
