"""The metadata files of ``compose_variations``, from one summary per dialogue: statistics, report, shortfall."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from parapet.schemas.decisions import csv_bytes
from parapet.schemas.responses import DISPOSITIONS
from parapet.schemas.rewritings import KINDS, Kind
from parapet.transforms.crowd.review import ReviewItem
from parapet.transforms.crowd_variations.report import Example
from parapet.transforms.crowd_variations.settle import Entry, Outcome, Short
from parapet.transforms.crowd_variations.tasks import FIELD_OF
from parapet.transforms.distance import levenshtein
from parapet.transforms.hits.rewriting import turn_task_id
from parapet.transforms.hits.terms import REWRITES
from parapet.transforms.seeding import stable_hash

# ``service_name``, ``task``, ``field``, ``have`` and ``need`` are what 'parapet mturk topup' takes.
SHORTFALL_COLUMNS = (
    "task_id",
    "dialogue_id",
    "turn",
    "kind",
    "service_name",
    "task",
    "field",
    "have",
    "need",
    "in_review",
)

REWRITTEN_FILE = "rewritten.jsonl"

SHOWN = 6  # examples of a kind on the page
SHOWN_REASON = 2  # of a reason


class Summary(msgspec.Struct):
    """What the page and the numbers need of one dialogue's outcome.

    Attributes:
      turns: that were to be rewritten.
      answers: (kind, disposition) to number of answers. ``reasons`` with the reason too.
      words: kind to words of the sentences and of the rewritings that are used; ``letters`` to their letters and those
        that changed.
    """

    turns: int
    answers: dict[tuple[Kind, str], int]
    reasons: dict[tuple[Kind, str, str], int]
    words: dict[Kind, tuple[int, int]]
    letters: dict[Kind, tuple[int, int]]
    decisions: dict[str, int]
    reviews: list[ReviewItem]
    short: list[Short]
    examples: list[Example]


def summarise(outcome: Outcome, turns: int) -> Summary:
    """The summary of one dialogue's outcome."""
    entries = outcome.entries
    used = [entry for entry in entries if entry.disposition == "used"]
    return Summary(
        turns,
        dict(Counter((entry.answer.kind, entry.disposition) for entry in entries)),
        dict(Counter((entry.answer.kind, entry.disposition, _reason(entry)) for entry in entries if entry.reason)),
        _sums(used, lambda entry: (len(entry.answer.original), len(entry.answer.words))),
        _sums(used, lambda entry: (len(entry.answer.turn.utterance), _edits(entry))),
        dict(Counter(entry.decision.decision for entry in entries if entry.decision is not None)),
        outcome.reviews,
        outcome.short,
        _fewest([_example(entry) for entry in entries], 1),
    )


def _reason(entry: Entry) -> str:
    return entry.reason.partition(":")[0]


def _edits(entry: Entry) -> int:
    return int(levenshtein(entry.answer.text, entry.answer.turn.utterance))


def _sums(entries: Iterable[Entry], numbers: Any) -> dict[Kind, tuple[int, int]]:
    sums: dict[Kind, tuple[int, int]] = {}
    for entry in entries:
        before, after = sums.get(entry.answer.kind, (0, 0))
        more, most = numbers(entry)
        sums[entry.answer.kind] = (before + more, after + most)
    return sums


def _example(entry: Entry) -> Example:
    answer = entry.answer
    text = answer.text or entry.text
    draw = stable_hash("example", entry.response_id)
    return Example(draw, answer.kind, entry.disposition, _reason(entry), answer.turn.place, answer.turn.utterance, text)


def _fewest(examples: Iterable[Example], n: int) -> list[Example]:
    """Of each kind, disposition and reason the first ``n`` in the drawn order."""
    groups: dict[tuple[str, str, str], list[Example]] = defaultdict(list)
    for example in sorted(examples):
        group = groups[example.kind, example.disposition, example.reason]
        if len(group) < n:
            group.append(example)
    return [example for group in groups.values() for example in group]


def used_examples(summaries: Iterable[Summary]) -> dict[str, list[Example]]:
    """Of each kind some that are used."""
    found = _fewest(
        (example for summary in summaries for example in summary.examples if example.disposition == "used"), SHOWN
    )
    return {kind: [example for example in found if example.kind == kind] for kind in KINDS}


def other_examples(summaries: Iterable[Summary]) -> dict[tuple[str, str], list[Example]]:
    """(disposition, reason) to some that were rejected or held."""
    groups: dict[tuple[str, str], list[Example]] = defaultdict(list)
    examples = (example for summary in summaries for example in summary.examples)
    for example in sorted(example for example in examples if example.disposition in ("rejected", "review")):
        group = groups[example.disposition, example.reason]
        if len(group) < SHOWN_REASON:
            group.append(example)
    return dict(sorted(groups.items()))


def statistics(
    summaries: Sequence[Summary], dead_letters: int, agreement: dict[str, Any] | None, method: Mapping[str, str]
) -> dict[str, Any]:
    """The content of ``statistics.json``.

    Args:
      summaries: one a dialogue.
      dead_letters: how many.
      agreement: of two reviewers, or None.
      method: the options of the run.
    """
    answers: Counter[tuple[str, str]] = Counter()
    reasons: Counter[tuple[str, str, str]] = Counter()
    decisions: Counter[str] = Counter({"accept": 0, "reject": 0, "fix": 0})
    for summary in summaries:
        answers.update(summary.answers)
        reasons.update(summary.reasons)
        decisions.update(summary.decisions)
    short = [missing for summary in summaries for missing in summary.short]
    turns = sum(summary.turns for summary in summaries)
    return {
        "turns": turns,
        "complete": turns - len({(missing.dialogue_id, missing.turn) for missing in short}),
        "short": len(short),
        "answers": _dispositions(answers, KINDS),
        "reasons": _reasons(reasons, KINDS),
        "kinds": {
            kind: {
                "turns": answers[kind, "used"],
                "short": sum(missing.kind == kind for missing in short),
                "answers": _dispositions(answers, [kind]),
                "reasons": _reasons(reasons, [kind]),
                "words": _share(summaries, kind, "words"),
                "letters_changed": _share(summaries, kind, "letters"),
            }
            for kind in KINDS
        },
        "dead_letters": dead_letters,
        "agreement": agreement,
        "decisions": dict(sorted(decisions.items())),
        "method": dict(method),
    }


def _dispositions(answers: Mapping[tuple[str, str], int], kinds: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {name: sum(answers.get((kind, name), 0) for kind in kinds) for name in DISPOSITIONS}
    return {"total": sum(counts.values()), **counts}


def _reasons(reasons: Mapping[tuple[str, str, str], int], kinds: Iterable[str]) -> dict[str, dict[str, int]]:
    found: dict[str, Counter[str]] = {name: Counter() for name in ("rejected", "review", "surplus", "duplicate")}
    for (kind, disposition, reason), n in reasons.items():
        if kind in kinds:
            found[disposition][reason] += n
    return {disposition: dict(sorted(counts.items())) for disposition, counts in found.items()}


def _share(summaries: Iterable[Summary], kind: Kind, what: str) -> float | None:
    """The second sum over the first, of all that is used: 1.4 is 40 % more words."""
    pairs = [pair for summary in summaries if (pair := getattr(summary, what).get(kind))]
    before, after = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
    return round(after / before, 4) if before else None


def of_other_sentences(numbers: Mapping[str, Any]) -> bool:
    """Whether most mistyped answers are too far from their sentences: they belong to another corpus or split."""
    typos = numbers["kinds"]["typos"]
    far = sum(typos["reasons"]["rejected"].get(reason, 0) for reason in ("lost_value", "too_many_typos"))
    return bool(2 * far > typos["answers"]["total"])


def shortfall_csv(short: Iterable[Short]) -> bytes:
    """One row for each turn and kind without a good answer."""
    return csv_bytes(
        SHORTFALL_COLUMNS,
        (
            [
                turn_task_id(missing.dialogue_id, missing.turn),
                missing.dialogue_id,
                str(missing.turn),
                missing.kind,
                f"{missing.dialogue_id}:{missing.turn}",
                REWRITES,
                FIELD_OF[missing.kind],
                "0",
                "1",
                str(missing.in_review),
            ]
            for missing in sorted(short, key=lambda row: (row.dialogue_id, row.turn, KINDS.index(row.kind)))
        ),
    )
