"""Scores dialogue files. One element is a file in all sets, so that variants are compared frame by frame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import apache_beam as beam
import msgspec

from parapet.evaluation import statistics
from parapet.evaluation.dst import failures, results
from parapet.evaluation.dst import frames as state_frames
from parapet.evaluation.dst.model import Config, Job, Model, Plan, load, plugin_of, predicted
from parapet.evaluation.sets import ORIGINAL
from parapet.schemas.errors import InputError
from parapet.schemas.limits import MAX_DIALOGUE_FILE
from parapet.schemas.rows import parquet_bytes
from parapet.transforms.core.counts import Balance
from parapet.transforms.core.files import prepare, write_staged
from parapet.transforms.core.inputs import read_input
from parapet.transforms.core.plugins import recorded
from parapet.transforms.core.progress import expect_dialogues_in, tracked
from parapet.transforms.core.runs import FileResult, FinishRun, RunInfo, WriteEach

PIPELINE = "evaluate_dst"
SCORES = "scores"  # tag of the output with the scores of files
_FLAG = "--variants"

Parts = dict[str, list[state_frames.FilePart]]  # set to the parts of prediction files that belong to a reference file


class ScoreFile:
    """Scores a file in all sets: returns rows, counts, totals, replicates, and wrong frames.

    Args:
      config: the settings of the run.
    """

    def __init__(self, config: Config) -> None:
        self.config = config

    def load(self) -> Model | None:
        """Makes the model, if the run has one."""
        return load(self.config.model) if self.config.model else None

    def __call__(self, element: tuple[Job, Parts], model: Model | None = None) -> FileResult:
        """Scores a job.

        Args:
          element: the job, and by set the parts of loose prediction files that belong to it.
          model: the result of :meth:`load`.

        Raises:
          InputError: a file cannot be read, or the predictions do not fit.
        """
        job, loose = element
        config, result = self.config, FileResult(job.name)
        plan, sums = config.plan, results.FileScores()
        result.others[SCORES] = [sums]
        scored: dict[str, list[list[state_frames.Scored]]] = {}
        original: failures.ScoredFile | None = None
        for member in job.members:
            name, dialogue_set, passed_over = member.set, plan.sets[member.set], state_frames.PassedOver()
            references = state_frames.parse_dialogues(read_input(member.reference, MAX_DIALOGUE_FILE), member.reference)
            known, common = references, plan.common
            if common is not None:
                references = [reference for reference in references if reference.dialogue_id in common]
            predictions, path = self._predictions(
                model, name, known if model is None else references, member.predictions, loose.get(name, ())
            )
            if not config.scoring.official:
                state_frames.check_known(known, predictions, path)
            frames = state_frames.score_dialogues(
                references, predictions, dialogue_set.slots(), config.scoring, path, passed_over
            )
            # With a model, the progress counts predictions rather than scores, as they take most of the time.
            scored[name] = list(frames if model is not None else tracked(frames, "dialogues"))
            table = failures.table(name, scored[name], plan.originals, dialogue_set.seen)
            path = f"rows/{name}/{job.name.removesuffix('.json')}.parquet"
            result.written.append(write_staged(config.output, path, parquet_bytes(table)))
            file = failures.ScoredFile(
                {reference.dialogue_id: reference for reference in references}, predictions, scored[name]
            )
            slots = failures.original_slots(plan, name) if dialogue_set.kind == "variant" else {}
            shown, wrong, right_on_original = failures.failures(file, original, plan.originals, slots, config.seed)
            sums.failures[name] = shown
            original = file if name == ORIGINAL else original
            sums.totals[name] = state_frames.add_up(scored[name], dialogue_set.seen, config.across_turn)
            sums.totals[results.SLOTS + name] = state_frames.add_up_slots(scored[name])
            counts = {
                "frames": sum(not frame.refused for frames in scored[name] for frame in frames),
                "dialogues": len(references),
                "scored_dialogues": len(scored[name]),
                results.WRONG_FRAMES: wrong,
                results.RIGHT_ON_ORIGINAL: right_on_original,
                **msgspec.structs.asdict(passed_over),
            }
            if refused := sum(frame.refused for frames in scored[name] for frame in frames):
                counts[results.REFUSED] = refused
            for count, n in counts.items():
                result.counts.add(count, n, set=name)
        self._compare(scored, sums, result)
        return result

    def _predictions(
        self,
        model: Model | None,
        name: str,
        references: Sequence[state_frames.Dialogue],
        path: str,
        loose: Sequence[state_frames.FilePart],
    ) -> tuple[dict[str, state_frames.Dialogue], str]:
        """Returns the predictions for the dialogues of a file, and their place for messages."""
        config = self.config
        if model is not None and config.model is not None:
            services, target = config.plan.sets[name].services, config.model.target
            return predicted(model, references, services, config.batch_size, target), f"{target} on {name}"
        place = path or f"--predictions: {name}"
        return state_frames.as_dialogues(
            references, list(state_frames.read_predictions(path) if path else state_frames.predictions_in(loose)), place
        ), place

    def _compare(
        self,
        scored: Mapping[str, Sequence[Sequence[state_frames.Scored]]],
        sums: results.FileScores,
        result: FileResult,
    ) -> None:
        """Adds numbers over several sets: sensitivity and replicates."""
        plan, config = self.config.plan, self.config
        variants = plan.variants if all(name in scored for name in (ORIGINAL, *plan.variants)) else []
        original = plan.sets[ORIGINAL]
        together = state_frames.aligned([scored[name] for name in variants], _FLAG) if len(variants) > 1 else []
        coefficients: state_frames.Coefficients | None = None
        if together:
            coefficients = state_frames.measured(
                together, lambda name: state_frames.keys_of(plan.originals[name], original.seen)
            )
            sums.totals[results.SENSITIVITY] = state_frames.add_up_coefficients(coefficients, config.zero)
        result.counts.add(results.COMPARED, len(together))
        if config.replicates:
            sums.replicates.append(self._replicates(scored, coefficients))

    def _replicates(
        self,
        scored: Mapping[str, Sequence[Sequence[state_frames.Scored]]],
        coefficients: state_frames.Coefficients | None,
    ) -> statistics.Counts:
        """Computes the replicates: shape (replicates, statistics, 2), with the statistics of :func:`statistics_of`."""
        config = self.config
        values_by_key: dict[tuple[str, str], statistics.Statistic] = {}
        for name, dialogues in scored.items():
            of_set = state_frames.metric_values(
                dialogues, config.plan.sets[name].seen, config.across_turn, state_frames.METRICS[state_frames.JOINT]
            )
            values_by_key |= {(name, key): statistic for key, statistic in of_set.items()}
        if coefficients is not None:
            values_by_key |= {
                (results.SENSITIVITY, key): coefficients.statistic(config.zero, state_frames.JOINT, key)
                for key in state_frames.AGGREGATES
            }
        nothing: statistics.Statistic = ([], [])
        wanted = [values_by_key.get(name, nothing) for name in results.statistics_of(config.plan)]
        return statistics.replicated(config.seed, wanted, config.replicates)


def added(several: Iterable[results.FileScores]) -> results.FileScores:
    """Adds up the scores of several files."""
    parts = list(several)
    names = dict.fromkeys(name for part in parts for name in part.totals)
    sets = dict.fromkeys(name for part in parts for name in part.failures)
    replicates = [array for part in parts for array in part.replicates]
    return results.FileScores(
        {name: state_frames.merged(part.totals[name] for part in parts if name in part.totals) for name in names},
        [sum(replicates[1:], start=replicates[0])] if replicates else [],
        {name: failures.first(part.failures.get(name, ()) for part in parts) for name in sets},
    )


def with_parts(plan: Plan, official: bool) -> Iterator[tuple[Job, Parts]]:
    """Yields each job with the parts of loose prediction files that belong to it.

    Raises:
      InputError: a file cannot be read; or, unless ``official``, the reference lacks a predicted dialogue.
    """
    parts: dict[str, Parts] = {job.name: {} for job in plan.jobs}
    for name in dict(plan.loose):
        places: dict[str, str] = {}
        members = [(job, member) for job in plan.jobs for member in job.members if member.set == name]
        for job, member in members:
            for dialogue in state_frames.parse_dialogues(
                read_input(member.reference, MAX_DIALOGUE_FILE), member.reference
            ):
                places[dialogue.dialogue_id] = job.name
        for path in (path for set_name, path in plan.loose if set_name == name):
            before = None
            for prediction, part in state_frames.read_parts(path, name):
                place = places.get(prediction.dialogue_id)
                if place is None:
                    if not official:
                        raise InputError(f"dialogue {prediction.dialogue_id!r} is not in the reference of {name}", path)
                elif place == before:
                    set_parts = parts[place][name]
                    set_parts[-1] = state_frames.FilePart(path, set_parts[-1].start, part.end)
                else:
                    parts[place].setdefault(name, []).append(part)
                before = place
    return ((job, parts[job.name]) for job in plan.jobs)


class EvaluateStates(beam.PTransform):
    """Scores all files of a plan, and publishes rows, metrics and the page.

    Args:
      config: the settings of the run.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        """Turns the pipeline into a PCollection of the run's manifest."""
        config = self.config
        prepare(config.output, PIPELINE)
        expect_dialogues_in(member.reference for job in config.plan.jobs for member in job.members)
        score = ScoreFile(config)
        jobs = (
            pipeline
            | "Plan" >> beam.Create([config.plan])
            | "Files" >> beam.FlatMap(with_parts, config.scoring.official)
            | "Spread" >> beam.Reshuffle()
        )
        # There are no dead letters and no sampled examples, only numbers of sets and files.
        outputs = jobs | "Score" >> WriteEach(score, shown=0, others=(SCORES,), progress=(), setup=score.load)
        scores = outputs.others[SCORES] | "Add up" >> beam.CombineGlobally(added).without_defaults()
        plugin = recorded(plugin_of(config.model.target) if config.model else None)
        header = {**plugin, **({"is_deterministic": False} if config.is_noisy else {})}
        balance = Balance("dialogues", ("scored_dialogues", "missing_dialogues"), tuple(config.plan.sets), by_set=True)
        published: beam.PCollection = outputs._replace(dead_letters=None) | FinishRun(
            RunInfo(PIPELINE, config.output, {**config.options(), "variants": config.plan.variants}, header=header),
            partial(results.metadata_files, config),
            beam.pvalue.AsList(scores),
            invariants=[balance],
            recorded=("frames", "dialogues", results.REFUSED, *state_frames.PassedOver.__struct_fields__),
        )
        return published
