"""Human judgements of generated utterances: majority, agreement of the raters, and agreement with the metric."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from parapet.evaluation.ratings.answers import (
    Answers,
    Hits,
    answer_counts,
    answer_files,
    answer_warnings,
    read_answers,
    read_hits,
    why_none,
)
from parapet.evaluation.ratings.judgements import Details, Interval, Judged, evaluate, judge, verdict
from parapet.evaluation.ratings.page import report
from parapet.evaluation.task import Metrics, Result, Stage, Task, files_of, rows_bytes
from parapet.schemas.errors import InputError
from parapet.transforms import text
from parapet.transforms.crowd.worker_ids import load_worker_key
from parapet.transforms.hits.records import RatedItem
from parapet.transforms.hits.terms import RATINGS


class Inputs(msgspec.Struct, frozen=True):
    """The pages and what workers answered."""

    hits: Hits[RatedItem]
    answers: Answers


class Ratings(Task[Inputs], frozen=True, kw_only=True):
    """``parapet evaluate --task ratings``.

    Attributes:
      hits: the folder of ``parapet hits --task ratings``.
      responses: batch CSVs and JSON lines.
      encoding: of responses without a byte order mark.
      seed: of the bootstrap.
    """

    name = "evaluate_ratings"

    hits: str
    responses: tuple[str, ...]
    encoding: str = "utf-8"
    seed: str = "0"

    def inputs(self) -> dict[str, str | None]:
        """The pages, and the files of answers."""
        return {"hits": self.hits, **{f"responses/{i}": path for i, path in enumerate(self.responses, 1)}}

    def read(self) -> Inputs:
        """Reads pages and answers. Raises InputError where nothing can be made of them."""
        hits = read_hits(self.hits, RATINGS)
        return Inputs(hits, read_answers(self.responses, hits, load_worker_key(), self.encoding))

    def score(self, inputs: Inputs, stage: Stage) -> Result:
        """Majorities, and how far workers and metric agree. Raises InputError where no rating can be used."""
        hits, answers = inputs.hits, inputs.answers
        judged = judge(hits, answers.ratings)
        if not any(one.votes for one in judged):
            raise InputError(f"no rating can be used: {why_none(answers)}", ", ".join(self.responses))
        metrics, groups = evaluate(judged, hits, self.seed)
        details = Details(raters=hits.raters, groups=groups, **answer_counts(answers))
        short = {one.item.place: len(one.votes) for one in judged if len(one.votes) < hits.raters}
        files = files_of(metrics, details, _rows(judged), report(judged, metrics, details))
        files |= answer_files(hits, answers, short)
        return Result(
            files=files,
            summary=_summary(metrics, details),
            options={"raters": hits.raters, "naturalness": hits.naturalness, "seed": self.seed},
            counts={"utterances": len(judged), "assignments": answers.assignments, "ratings": len(answers.ratings)},
            warnings=answer_warnings(len(short), answers),
        )


def _rows(judged: Sequence[Judged]) -> bytes:
    values = [one.values() for one in judged]
    return rows_bytes(
        [("", one.item.dialogue_id, one.item.turn) for one in judged],
        {name: [row[name] for row in values] for name in ("agreement", "human_faithful", "naturalness")},
        {
            "stratum": [one.item.stratum for one in judged],
            "metric": [verdict(one.item.faithful) for one in judged],
            "majority": [verdict(one.majority) for one in judged],
            "votes": ["/".join(map(str, one.counts)) for one in judged],
            "utterance": [one.item.utterance for one in judged],
        },
    )


def _summary(metrics: Metrics, details: Details) -> list[str]:
    ratings = sum(details.answers.values())
    lines = [
        f"{text.counted(ratings, 'rating')} in {text.counted(details.assignments, 'assignment')} by "
        f"{text.counted(details.workers, 'worker')}: {details.answers.get('used', 0):,} count"
    ]
    for name, values in metrics.items():
        group = details.groups[name]
        low_high = _between(group.intervals["agreement"])
        lines.append(
            f"{name}: agreement with the metric {text.percent(values['agreement'])}{low_high}, "
            f"Fleiss' kappa {text.number(values['fleiss_kappa'], 2)}, of {text.counted(group.utterances, 'utterance')}"
        )
    return lines


def _between(pair: Interval | None) -> str:
    return f" ({text.percent(pair[0])} to {text.percent(pair[1])})" if pair else ""
