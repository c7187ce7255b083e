"""Scores dialogue files: one element is a file in all sets, so that variants are compared frame by frame."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import apache_beam as beam
import msgspec
import numpy as np

from parapet.evaluation import bootstrap
from parapet.evaluation.dst import failures, results, rows, sensitivity, totals
from parapet.evaluation.dst.files import Dialogue, PassedOver, Scored, parse_dialogues, score_dialogues
from parapet.evaluation.dst.frames import JOINT
from parapet.evaluation.dst.model import Model, load, plugin_of, predicted
from parapet.evaluation.dst.predictions import (
    FilePart,
    as_dialogues,
    check_known,
    predictions_in,
    read_parts,
    read_predictions,
)
from parapet.evaluation.dst.results import (
    COMPARED,
    LOST_SLOTS,
    RIGHT_ON_ORIGINAL,
    SENSITIVITY,
    SLOTS,
    WRONG_FRAMES,
    WRONG_SLOTS,
    statistics_of,
)
from parapet.evaluation.dst.rows import HurtFrame
from parapet.evaluation.dst.sets import Config, Job, Set
from parapet.evaluation.sets import ORIGINAL
from parapet.schemas.errors import InputError
from parapet.schemas.limits import MAX_DIALOGUE_FILE
from parapet.transforms.compressed import read_input
from parapet.transforms.counts import Balance
from parapet.transforms.files import Written, prepare, write_staged
from parapet.transforms.parquet import parquet_bytes
from parapet.transforms.plugins import recorded
from parapet.transforms.progress import expect_dialogues, tracked
from parapet.transforms.runs import FileResult, FinishRun, RunInfo, WriteEach

PIPELINE = "evaluate_dst"

_FLAG = "--variants"
TOTALS, REPLICATES, HURT, FAILURES = "totals", "replicates", "hurt", "failures"


class ScoreFile:
    """A file in all sets -> rows of its frames, counts; and totals, replicates, and the frames that go wrong.

    Args:
      config: the run.
    """

    def __init__(self, config: Config) -> None:
        self.config = config

    def load(self) -> Model | None:
        """The model, where one predicts."""
        return load(self.config.model) if self.config.model else None

    def __call__(self, element: tuple[Job, Mapping[str, Sequence[bytes]]], model: Model | None = None) -> FileResult:
        """Scores a job.

        Args:
          element: the job, and by set the parts of loose prediction files that are for it.
          model: of :meth:`load`.

        Raises:
          InputError: a file cannot be read, or the predictions do not fit.
        """
        job, loose = element
        config, result = self.config, FileResult(job.name)
        scored: dict[str, list[list[Scored]]] = {}
        sums: list[tuple[str, totals.Totals]] = []
        original: failures.ScoredFile | None = None
        for member in job.members:
            name, of, passed_over = member.set, config.plan.sets[member.set], PassedOver()
            references = parse_dialogues(read_input(member.reference, MAX_DIALOGUE_FILE), member.reference)
            predictions, path = self._predictions(model, name, references, member.predictions, loose.get(name, ()))
            if not config.scoring.official:
                check_known(references, predictions, path)
            frames = score_dialogues(references, predictions, of.slots(), config.scoring, path, passed_over)
            # With a model it takes long to predict the states, and little to score them.
            scored[name] = list(frames if model is not None else tracked(frames, "dialogues"))
            result.written.append(self._write(of, job.name, scored[name]))
            file = failures.ScoredFile({one.dialogue_id: one for one in references}, predictions, scored[name])
            self._add_failures(of, file, original, result)
            original = file if name == ORIGINAL else original
            sums.append((name, totals.add_up(scored[name], of.seen, config.across_turn)))
            sums.append((SLOTS + name, totals.add_up_slots(scored[name])))
            result.counts.add("frames", sum(map(len, scored[name])), set=name)
            result.counts.add("dialogues", len(references), set=name)
            result.counts.add("scored_dialogues", len(scored[name]), set=name)
            for kind, n in Counter(
                rows.error_of(w) for of in scored[name] for frame in of for w in frame.wrong
            ).items():
                result.counts.add(WRONG_SLOTS, n, set=name, value=kind)
            for reason, n in msgspec.structs.asdict(passed_over).items():
                result.counts.add(reason, n, set=name)
        self._compare(scored, sums, result)
        result.others[TOTALS] = sums
        return result

    def _predictions(
        self, model: Model | None, name: str, references: Sequence[Dialogue], path: str, loose: Sequence[bytes]
    ) -> tuple[dict[str, Dialogue], str]:
        """What is predicted for the dialogues of a file, and its place for messages."""
        config = self.config
        if model is not None and config.model is not None:
            services, target = config.plan.sets[name].services, config.model.target
            return predicted(model, references, services, config.batch_size, target), f"{target} on {name}"
        if path:
            return as_dialogues(references, list(read_predictions(path)), path), path
        place = f"--predictions: {name}"
        parts = (msgspec.json.decode(part, type=FilePart) for part in loose)
        return as_dialogues(references, list(predictions_in(parts)), place), place

    def _write(self, of: Set, name: str, dialogues: Sequence[Sequence[Scored]]) -> Written:
        table = rows.table(of.name, dialogues, self.config.plan.originals, of.seen)
        path = f"rows/{of.name}/{name.removesuffix('.json')}.parquet"
        return write_staged(self.config.output, path, parquet_bytes(table))

    def _add_failures(
        self, of: Set, file: failures.ScoredFile, original: failures.ScoredFile | None, result: FileResult
    ) -> None:
        plan = self.config.plan
        is_variant = of.kind == "variant"
        pairs = rows.slot_pairs(plan.sets[ORIGINAL].services, of.services, plan.originals) if is_variant else {}
        shown, wrong, right_on_original = failures.failures(file, original, plan.originals, pairs, self.config.seed)
        result.counts.add(WRONG_FRAMES, wrong, set=of.name)
        result.counts.add(RIGHT_ON_ORIGINAL, right_on_original, set=of.name)
        result.others.setdefault(FAILURES, []).append((of.name, shown))

    def _compare(
        self,
        scored: Mapping[str, Sequence[Sequence[Scored]]],
        sums: list[tuple[str, totals.Totals]],
        result: FileResult,
    ) -> None:
        """Adds what is computed over several sets: sensitivity, replicates, the frames that variants hurt most."""
        plan, config = self.config.plan, self.config
        variants = plan.variants if all(name in scored for name in (ORIGINAL, *plan.variants)) else []
        together = sensitivity.aligned([scored[name] for name in variants], _FLAG) if len(variants) > 1 else []
        coefficients: dict[sensitivity.Unit, sensitivity.Coefficients] = {}
        if together:
            seen = plan.sets[ORIGINAL].seen
            coefficients = sensitivity.measured(together, lambda name: totals.keys_of(plan.originals[name], seen))
            sums += [(SENSITIVITY + name, of) for name, of in sensitivity.add_up(coefficients).items()]
        result.counts.add(COMPARED, len(together))
        if config.replicates:
            result.others[REPLICATES] = [self._replicates(scored, coefficients)]
        if variants:
            original = plan.sets[ORIGINAL]
            pairs = {
                name: rows.slot_pairs(original.services, plan.sets[name].services, plan.originals) for name in variants
            }
            together = sensitivity.aligned([scored[name] for name in (ORIGINAL, *variants)], _FLAG)
            found = list(rows.losses(together, pairs))
            for loss in found:
                for wrong in loss.slots:
                    result.counts.add(LOST_SLOTS, set=loss.variant, value=rows.error_of(wrong))
            result.others[HURT] = [rows.worst_of(found, pairs, original.seen, config.seed)]

    def _replicates(
        self,
        scored: Mapping[str, Sequence[Sequence[Scored]]],
        coefficients: Mapping[sensitivity.Unit, sensitivity.Coefficients],
    ) -> bootstrap.Counts:
        """Shape (replicates, statistics, 2); the statistics are those of :func:`statistics_of`."""
        config = self.config
        statistics: dict[tuple[str, str], bootstrap.Statistic] = {}
        for name, dialogues in scored.items():
            of_set = _joint_values(dialogues, config.plan.sets[name].seen, config.across_turn)
            statistics |= {(name, key): statistic for key, statistic in of_set.items()}
        for unit, of in coefficients.items():
            for policy in sensitivity.POLICIES:
                name = f"{SENSITIVITY}{unit}/{policy}"
                statistics |= {(name, key): of.statistic(policy, JOINT, key) for key in totals.AGGREGATES}
        nothing: bootstrap.Statistic = ([], [])
        wanted = [statistics.get(name, nothing) for name in statistics_of(config.plan)]
        return bootstrap.replicated(config.seed, wanted, config.replicates)


def _joint_values(
    dialogues: Iterable[Sequence[Scored]], seen: frozenset[str], across_turn: bool
) -> dict[str, tuple[list[str], list[float]]]:
    """The joint goal accuracies that the mean of each of the three aggregates is of, with their dialogues."""
    found: dict[str, tuple[list[str], list[float]]] = {key: ([], []) for key in totals.AGGREGATES}
    for frames in dialogues:
        of_dialogue = (
            totals.products(frames, seen)
            if across_turn
            else ((key, frame.values[JOINT:]) for frame in frames for key in totals.keys_of(frame.service, seen)[:2])
        )
        for key, joint in of_dialogue:
            if key in found:
                dialogue_ids, values = found[key]
                dialogue_ids.append(frames[0].dialogue_id)
                values.append(joint[0])
    return found


class Sort(beam.DoFn):
    """A loose prediction file of a set -> (name of the reference file, (set, part of the prediction file))."""

    def __init__(self, official: bool) -> None:
        self.official = official

    def process(self, element: tuple[str, str], places: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, bytes]]]:
        """``places`` has, for ``SET<tab>ID``, the file of that dialogue."""
        name, path = element
        for prediction, part in read_parts(path, name):
            place = places.get(f"{name}\t{prediction.dialogue_id}")
            if place is not None:
                yield place, (name, msgspec.json.encode(part))
            elif not self.official:
                raise InputError(f"dialogue {prediction.dialogue_id!r} is not in the reference of {name}", path)


def places_of(job: Job, sets: frozenset[str]) -> Iterator[tuple[str, str]]:
    """For every dialogue of a file, in sets with loose predictions, the name of the file."""
    for member in job.members:
        if member.set in sets:
            for dialogue in parse_dialogues(read_input(member.reference, MAX_DIALOGUE_FILE), member.reference):
                yield f"{member.set}\t{dialogue.dialogue_id}", job.name


class EvaluateStates(beam.PTransform):
    """Scores all files of a plan, and publishes rows, metrics and the page.

    Args:
      config: the run.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        """The pipeline to the manifest of the run."""
        config = self.config
        prepare(config.output, PIPELINE)
        expect_dialogues(member.reference for job in config.plan.jobs for member in job.members)
        score = ScoreFile(config)
        # The numbers of a set, or of a dialogue file: dead letters and drawn examples there are none.
        outputs = self._jobs(pipeline) | "Score" >> WriteEach(
            score, shown=0, others=(TOTALS, REPLICATES, HURT, FAILURES), progress=(), setup=score.load
        )
        side = (
            outputs.others[TOTALS] | "Sum" >> beam.CombinePerKey(totals.merged),
            outputs.others[REPLICATES] | "Replicates" >> beam.CombineGlobally(_summed).without_defaults(),
            outputs.others[HURT] | "Worst" >> beam.CombineGlobally(_worst_of_all).without_defaults(),
            outputs.others[FAILURES] | "First failures" >> beam.CombinePerKey(failures.first),
        )
        plugin = recorded(plugin_of(config.model.target) if config.model else None)
        balance = Balance("dialogues", ("scored_dialogues", "missing_dialogues"), tuple(config.plan.sets), by_set=True)
        published: beam.PCollection = outputs._replace(dead_letters=None) | FinishRun(
            RunInfo(PIPELINE, config.output, config.options(), header=plugin),
            partial(results.metadata_files, config),
            *map(beam.pvalue.AsList, side),
            invariants=[balance],
            recorded=("frames", "dialogues", *PassedOver.__struct_fields__),
        )
        return published

    def _jobs(self, pipeline: beam.Pipeline) -> beam.PCollection:
        """(job, by set its loose predictions)."""
        plan = self.config.plan
        jobs = pipeline | "Files" >> beam.Create(plan.jobs)
        if not plan.loose:
            alone: beam.PCollection = jobs | "Spread" >> beam.Reshuffle() | "Alone" >> beam.Map(lambda job: (job, {}))
            return alone
        named = frozenset(name for name, _ in plan.loose)
        read = jobs | "Read ids" >> beam.FlatMap(places_of, named)
        places = read | "By id" >> beam.GroupByKey() | "One place" >> beam.MapTuple(_only_place)
        predictions = (
            pipeline
            | "Predictions" >> beam.Create(plan.loose)
            | "Sort" >> beam.ParDo(Sort(self.config.scoring.official), beam.pvalue.AsDict(places))
        )
        by_name = jobs | "By name" >> beam.Map(lambda job: (job.name, job))
        joined: beam.PCollection = (by_name, predictions) | "Join" >> beam.CoGroupByKey() | "Pair" >> beam.Map(_pair)
        return joined


def _only_place(identity: str, files: Iterable[str]) -> tuple[str, str]:
    """``SET<tab>ID`` and the file of that dialogue. Raises InputError if several files have it."""
    first, *others = sorted(files)
    if others:
        name, _, dialogue_id = identity.partition("\t")
        reason = f"dialogue {dialogue_id!r} is in {first} and in {others[0]}: give each file predictions of its name"
        raise InputError(reason, "--reference", name)
    return identity, first


def _pair(joined: tuple[str, tuple[Iterable[Job], Iterable[tuple[str, bytes]]]]) -> tuple[Job, dict[str, list[bytes]]]:
    _, (jobs, predictions) = joined
    by_set: dict[str, list[bytes]] = {}
    for name, prediction in predictions:
        by_set.setdefault(name, []).append(prediction)
    return next(iter(jobs)), by_set


def _summed(replicates: Iterable[bootstrap.Counts]) -> bootstrap.Counts:
    """The replicates of some files, added up."""
    return sum(replicates, start=np.zeros((1, 1, 1), dtype=np.int64))


def _worst_of_all(hurt: Iterable[Sequence[HurtFrame]]) -> list[HurtFrame]:
    """The worst frames of some files."""
    return rows.worst(frame for frames in hurt for frame in frames)
