"""Metrics of plug-ins: how well what is said in a turn matches what the corpus says there, a share for each turn."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from typing import Protocol

import msgspec

from parapet.evaluation.generation.corpus import Corpus
from parapet.evaluation.generation.scoring import Scores
from parapet.evaluation.generation.turns import Place
from parapet.schemas.errors import InputError
from parapet.transforms import plugins

# Metric to the value of each turn.
Values = dict[str, dict[Place, float | None]]

FLAG = "--metrics"


class Metric(Protocol):
    """What the entry point of a metric gives when it is called."""

    def score(self, said: Sequence[str], references: Sequence[str]) -> Sequence[float | None]:
        """Of each utterance against its reference a share, 0 to 1, high is good; None where it has none.

        All turns of a run are given at once, in order.
        """
        ...


class Further(msgspec.Struct, frozen=True):
    """The values for what the system says; ``ranked``, for what ranking chose from its candidates."""

    said: Values = {}
    ranked: Values = {}


NOTHING = Further()


def read_metrics(given: Sequence[str], taken: Container[str]) -> dict[str, tuple[plugins.Chosen, Metric]]:
    """The metrics that ``--metrics`` names, by name.

    Args:
      given: the names.
      taken: names of other metrics, and of other columns of the rows.

    Raises:
      InputError: one is not installed, cannot be made, stands twice, or has a name that is taken.
    """
    found: dict[str, tuple[plugins.Chosen, Metric]] = {}
    for one in given:
        chosen = plugins.choose(plugins.METRICS, one, FLAG)
        name = chosen.plugin.name
        if name in found:
            raise InputError(f"{name!r} stands twice", FLAG)
        if name in taken:
            raise chosen.refused("cannot be used: the rows have a column of that name")
        found[name] = chosen, plugins.make(chosen, plugins.members(Metric))
    return found


def measured(metrics: Mapping[str, tuple[plugins.Chosen, Metric]], corpus: Corpus, scores: Scores) -> Further:
    """The values of all metrics. Raises InputError for what is no share, or too few of them."""
    ranked = scores.ranked[0] if scores.ranked is not None else None
    return Further(
        {name: _values(*one, corpus, scores.said) for name, one in metrics.items()},
        {name: _values(*one, corpus, ranked) for name, one in metrics.items()} if ranked is not None else {},
    )


def _values(
    chosen: plugins.Chosen, metric: Metric, corpus: Corpus, said: Mapping[Place, str]
) -> dict[Place, float | None]:
    references = [turn.utterance for turn in corpus.turns]
    given = list(metric.score([said[turn.place] for turn in corpus.turns], references))
    if len(given) != len(references):
        raise chosen.refused(f"gave {len(given)} values for {len(references)} turns")
    found = {turn.place: _share(value) for turn, value in zip(corpus.turns, given, strict=True)}
    for (dialogue_id, turn), value in found.items():
        if value is not None and not 0 <= value <= 1:
            raise chosen.refused(f"gave what is no share, 0 to 1, for {dialogue_id}, turn {turn}")
    return found


def _share(given: object) -> float | None:
    """As a plain number, whichever library it is of; NaN for what is none."""
    try:
        return None if given is None else float(given)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan


def means(values: Mapping[str, Mapping[Place, float | None]]) -> dict[str, float | None]:
    """The mean of each metric over the turns that have it; None where none has."""
    found = {}
    for name, of in values.items():
        known = [value for value in of.values() if value is not None]
        found[name] = math.fsum(known) / len(known) if known else None
    return found
