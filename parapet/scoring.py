"""Scores of dialogue state trackers. Import these names from ``parapet``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from parapet.schemas.errors import InputError, MissingExtra

if TYPE_CHECKING:
    import pandas
    import pyarrow as pa

    from parapet.evaluation import statistics
    from parapet.evaluation.dst.frames import Coefficients, Scored
    from parapet.evaluation.dst.model import References
    from parapet.evaluation.statistics import Policy

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
    from parapet.api import load_corpus
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
    zero: Policy = "zero",
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
    sums = frames.add_up_coefficients(coefficients, zero)
    return frames.means(sums).get(ALL, {}).get(metric, math.nan)


def schema_sensitivity_interval(
    scores: Mapping[str, Scores] | Iterable[Scores],
    *,
    metric: str = JGA,
    zero: Policy = "zero",
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
    scores: Mapping[str, Scores] | Iterable[Scores], metric: str, zero: Policy, allow_missing: bool
) -> Coefficients | None:
    """Computes the coefficients of all frames; None if the variants have no dialogue in common."""
    from parapet.evaluation import statistics
    from parapet.evaluation.dst import frames

    _check_known(metric, frames.METRICS, "metric")
    _check_known(zero, statistics.POLICIES, "zero")
    variants = _variants(scores)
    if len(variants) < 2:
        raise InputError(
            f"schema sensitivity requires the scores of at least two variants, found {len(variants)}", "scores"
        )
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
