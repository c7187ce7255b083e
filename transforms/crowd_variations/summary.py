"""The metadata files of ``compose_variations``, from summaries of its dialogues: statistics, report, shortfall."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from parapet.schemas.decisions import csv_lines
from parapet.schemas.responses import DISPOSITIONS
from parapet.schemas.rewritings import KINDS, Kind
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

REWRITTEN_FILE, SHORTFALL_FILE = "rewritten.jsonl", "shortfall.csv"

SHOWN = 6  # examples of a kind on the page
SHOWN_REASON = 2  # of a reason


class Summary(msgspec.Struct):
    """What the page and the numbers need of the outcomes of dialogues.

    Attributes:
      turns: that were to be rewritten; ``incomplete`` of them lack a good answer of some kind.
      short: kind to number of turns without a good answer.
      answers: (kind, disposition) to number of answers. ``reasons`` with the reason too.
      words: kind to words of the sentences and of the rewritings that are used; ``letters`` to their letters and those
        that changed.
      examples: some of each kind, disposition and reason.
    """

    turns: int
    incomplete: int
    short: Counter[Kind]
    answers: Counter[tuple[Kind, str]]
    reasons: Counter[tuple[Kind, str, str]]
    words: dict[Kind, tuple[int, int]]
    letters: dict[Kind, tuple[int, int]]
    decisions: Counter[str]
    examples: list[Example]


def summarise(outcome: Outcome, turns: int) -> Summary:
    """The summary of one dialogue's outcome."""
    entries = outcome.entries
    used = [entry for entry in entries if entry.disposition == "used"]
    return Summary(
        turns,
        len({missing.turn for missing in outcome.short}),
        Counter(missing.kind for missing in outcome.short),
        Counter((entry.answer.kind, entry.disposition) for entry in entries),
        Counter((entry.answer.kind, entry.disposition, _reason(entry)) for entry in entries if entry.reason),
        _sums((entry.answer.kind, len(entry.answer.original), len(entry.answer.words)) for entry in used),
        _sums((entry.answer.kind, len(entry.answer.turn.utterance), _edits(entry)) for entry in used),
        Counter(entry.decision.decision for entry in entries if entry.decision is not None),
        _fewest([_example(entry) for entry in entries], 1),
    )


def sum_up(summaries: Iterable[Summary]) -> Summary:
    """One summary of several."""
    total = Summary(0, 0, Counter(), Counter(), Counter(), {}, {}, Counter(), [])
    for summary in summaries:
        total.turns += summary.turns
        total.incomplete += summary.incomplete
        total.short.update(summary.short)
        total.answers.update(summary.answers)
        total.reasons.update(summary.reasons)
        total.decisions.update(summary.decisions)
        for sums, more in ((total.words, summary.words), (total.letters, summary.letters)):
            for kind, (before, after) in more.items():
                sums[kind] = (sums.get(kind, (0, 0))[0] + before, sums.get(kind, (0, 0))[1] + after)
        total.examples += summary.examples
    total.examples = _fewest(total.examples, SHOWN)
    return total


def _reason(entry: Entry) -> str:
    return entry.reason.partition(":")[0]


def _edits(entry: Entry) -> int:
    return int(levenshtein(entry.answer.text, entry.answer.turn.utterance))


def _sums(numbers: Iterable[tuple[Kind, int, int]]) -> dict[Kind, tuple[int, int]]:
    sums: dict[Kind, tuple[int, int]] = {}
    for kind, before, after in numbers:
        sums[kind] = (sums.get(kind, (0, 0))[0] + before, sums.get(kind, (0, 0))[1] + after)
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


def used_examples(summary: Summary) -> dict[str, list[Example]]:
    """Of each kind some that are used."""
    used = [example for example in summary.examples if example.disposition == "used"]
    return {kind: [example for example in _fewest(used, SHOWN) if example.kind == kind] for kind in KINDS}


def other_examples(summary: Summary) -> dict[tuple[str, str], list[Example]]:
    """(disposition, reason) to some that were rejected or held."""
    groups: dict[tuple[str, str], list[Example]] = defaultdict(list)
    for example in sorted(example for example in summary.examples if example.disposition in ("rejected", "review")):
        group = groups[example.disposition, example.reason]
        if len(group) < SHOWN_REASON:
            group.append(example)
    return dict(sorted(groups.items()))


def statistics(
    summary: Summary, dead_letters: int, agreement: dict[str, Any] | None, method: Mapping[str, str]
) -> dict[str, Any]:
    """The content of ``statistics.json``.

    Args:
      summary: of all dialogues.
      dead_letters: how many.
      agreement: of two reviewers, or None.
      method: the options of the run.
    """
    return {
        "turns": summary.turns,
        "complete": summary.turns - summary.incomplete,
        "short": summary.short.total(),
        "answers": _dispositions(summary.answers, KINDS),
        "reasons": _reasons(summary.reasons, KINDS),
        "kinds": {
            kind: {
                "turns": summary.answers[kind, "used"],
                "short": summary.short[kind],
                "answers": _dispositions(summary.answers, [kind]),
                "reasons": _reasons(summary.reasons, [kind]),
                "words": _share(summary.words.get(kind)),
                "letters_changed": _share(summary.letters.get(kind)),
            }
            for kind in KINDS
        },
        "dead_letters": dead_letters,
        "agreement": agreement,
        "decisions": dict(sorted({"accept": 0, "reject": 0, "fix": 0, **summary.decisions}.items())),
        "method": dict(method),
    }


def _dispositions(answers: Mapping[tuple[Kind, str], int], kinds: Iterable[Kind]) -> dict[str, int]:
    counts: dict[str, int] = {name: sum(answers.get((kind, name), 0) for kind in kinds) for name in DISPOSITIONS}
    return {"total": sum(counts.values()), **counts}


def _reasons(reasons: Mapping[tuple[Kind, str, str], int], kinds: Iterable[Kind]) -> dict[str, dict[str, int]]:
    found: dict[str, Counter[str]] = {name: Counter() for name in ("rejected", "review", "surplus", "duplicate")}
    for (kind, disposition, reason), n in reasons.items():
        if kind in kinds:
            found[disposition][reason] += n
    return {disposition: dict(sorted(counts.items())) for disposition, counts in found.items()}


def _share(sums: tuple[int, int] | None) -> float | None:
    """The second sum over the first, of all that is used: 1.4 is 40 % more words."""
    return round(sums[1] / sums[0], 4) if sums and sums[0] else None


def of_other_sentences(numbers: Mapping[str, Any]) -> bool:
    """Whether most mistyped answers are too far from their sentences: they belong to another corpus or split."""
    typos = numbers["kinds"]["typos"]
    far = sum(typos["reasons"]["rejected"].get(reason, 0) for reason in ("lost_value", "too_many_typos"))
    return bool(2 * far > typos["answers"]["total"])


def shortfall_lines(short: Iterable[Short]) -> Iterator[bytes]:
    """``shortfall.csv``: its header, and a row for each turn and kind of a dialogue without a good answer."""
    return csv_lines(
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
            for missing in sorted(short, key=lambda row: (row.turn, KINDS.index(row.kind)))
        ),
    )
