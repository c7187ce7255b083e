"""Human judgements of generated utterances: majority, agreement of the raters, and agreement with the metric."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from parapet.evaluation.ratings.agreement import Interval
from parapet.evaluation.ratings.answers import Answers, Hits, read_answers, read_hits, responses_bytes
from parapet.evaluation.ratings.judgements import Details, GroupDetails, Judged, evaluate, judge, verdict
from parapet.evaluation.ratings.page import report
from parapet.evaluation.task import Metrics, Result, Stage, Task, files_of
from parapet.evaluation.writing import rows_bytes
from parapet.schemas.decisions import csv_bytes
from parapet.schemas.errors import InputError
from parapet.schemas.responses import DeadLetter
from parapet.transforms import text
from parapet.transforms.crowd.worker_key import load_worker_key
from parapet.transforms.hits.ratings import FAITHFUL
from parapet.transforms.hits.terms import RATINGS


class Inputs(msgspec.Struct, frozen=True):
    """The pages and what workers answered."""

    hits: Hits
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
        hits = read_hits(self.hits)
        return Inputs(hits, read_answers(self.responses, hits, load_worker_key(), self.encoding))

    def score(self, inputs: Inputs, stage: Stage) -> Result:
        """Majorities, and how far workers and metric agree. Raises InputError where no rating can be used."""
        hits, answers = inputs.hits, inputs.answers
        judged = judge(hits, answers.ratings)
        if not any(one.votes for one in judged):
            raise InputError(f"no rating can be used: {_why_none(answers)}", ", ".join(self.responses))
        metrics, groups = evaluate(judged, hits, self.seed)
        details = _details(hits, answers, groups)
        short = [one for one in judged if len(one.votes) < hits.raters]
        files = files_of(metrics, details, _rows(judged), report(judged, metrics, details))
        files |= {
            "responses.parquet": responses_bytes(answers.ratings),
            "shortfall.csv": _shortfall(hits, short),
            "dead_letters.jsonl": _lines(answers.dead),
        }
        warnings = [f"{text.counted(len(short), 'utterance')} short of ratings, see shortfall.csv"] if short else []
        if answers.dead:
            warnings.append(f"not used: {text.counted(len(answers.dead), 'record')}, see dead_letters.jsonl")
        return Result(
            files=files,
            summary=_summary(metrics, details),
            options={"raters": hits.raters, "naturalness": hits.naturalness, "seed": self.seed},
            counts={"utterances": len(judged), "assignments": answers.assignments, "ratings": len(answers.ratings)},
            warnings=warnings,
        )


def _why_none(answers: Answers) -> str:
    reasons = Counter(rating.reason for rating in answers.ratings if rating.reason)
    reasons += Counter(letter.reason.partition(":")[0] for letter in answers.dead)
    return ", ".join(f"{n:,} {reason}" for reason, n in reasons.most_common(3)) or "the files hold none"


def _details(hits: Hits, answers: Answers, groups: dict[str, GroupDetails]) -> Details:
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    for rating in answers.ratings:
        if rating.reason:
            reasons[rating.disposition][rating.reason] += 1
    workers = {rating.assignment.worker_hash for rating in answers.ratings if rating.assignment.worker_hash}
    return Details(
        raters=hits.raters,
        workers=len(workers),
        assignments=answers.assignments,
        groups=groups,
        answers=dict(sorted(Counter(rating.disposition for rating in answers.ratings).items())),
        reasons={disposition: dict(sorted(of.items())) for disposition, of in sorted(reasons.items())},
        dead_letters=len(answers.dead),
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


def _lines(dead: Iterable[DeadLetter]) -> bytes:
    return b"".join(line + b"\n" for line in sorted(map(msgspec.json.encode, dead)))


def _shortfall(hits: Hits, short: Iterable[Judged]) -> bytes:
    """``shortfall.csv`` as ``parapet mturk topup`` reads it: a row for each utterance that lacks ratings."""
    fields = {
        (field.item.dialogue_id, field.item.turn): (page_id, name)
        for page_id, page in hits.pages.items()
        for name, field in page.fields.items()
        if field.question == FAITHFUL and field.item.stratum != "check"
    }
    rows = []
    for one in short:
        place = one.item.dialogue_id, one.item.turn
        page_id, field = fields[place]
        rows.append([page_id, f"{place[0]}:{place[1]}", RATINGS, field, str(len(one.votes)), str(hits.raters)])
    return csv_bytes(("service_name", "element_id", "task", "field", "have", "need"), sorted(rows))


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
