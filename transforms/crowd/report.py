"""The report of ``compose``, and the parts that ``compose_variations`` and ``release`` share."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from parapet.schemas.rows import IN_WORDS
from parapet.schemas.service import TASKS
from parapet.transforms.report.numbers import Metric, Numbers, sections_of
from parapet.transforms.report.report import Bars, Dot, Report, Section, Table, Text, Tile
from parapet.transforms.report.text import counted, number, percent
from parapet.transforms.variants.table1 import distance_charts, measures_table, terms_of

DISPOSITIONS = {
    "used": "used in one of the variants",
    "surplus": "others were drawn, or the service still lacks answers to other elements",
    "duplicate": "the same words as another answer",
    "rejected": "certainly bad",
    "review": "held for a person to look at",
}
FILES = {
    "review.html": "the answers held for review, to decide on in the browser",
    "review.csv": "the same as a spreadsheet",
    "shortfall.csv": "what has too few good answers",
    "responses.parquet": "every answer, what became of it and why",
    "dead_letters.jsonl": "input that could not be read, with file, place and reason",
    "statistics.json": "all numbers",
    "run.json": "options of the run, and the checksum of every file",
}


def compose_report(
    statistics: Mapping[str, Any],
    explanations: Mapping[str, str],
    examples: Mapping[str, Sequence[Sequence[str]]],
    missing: Sequence[str] = (),
) -> Report:
    """The report of ``parapet compose``.

    Args:
      statistics: the content of statistics.json.
      explanations: reason id to a sentence that explains it.
      examples: service name to some of its texts, each in the original and in all variants.
      missing: a sentence for each service that needs more answers, see :func:`missing_answers`.
    """
    services, variants = statistics["services"], statistics["variants"]
    statuses = Counter(map(_status, services.values()))
    partial = f", {statuses['composed in part']:,} in part" if statuses["composed in part"] else ""
    short = sum(service["short"] for service in services.values())
    needs = f"{counted(short, 'element needs', 'elements need')} more good answers."
    totals = {"elements that need more answers": number(short)}
    if statistics["self_bleu"] is not None:
        totals["self-BLEU"] = number(statistics["self_bleu"], 1)
    seen = statistics["not_blind_assignments"]
    not_blind = f"The workers of {counted(seen, 'assignment')} had seen the texts that were hidden from others."
    more: list[Section] = [*_meaning(statistics["meaning"]), _services_table(services)]
    columns = ["original", *variants]
    for service, rows in examples.items():
        title = f"Some texts of {service} and their variants"
        more += [Table(title=title, columns=columns, rows=rows, text_columns=len(columns), in_card=False)]
    keys = [key for key in ("name_distance", "description_bleu") if any(key in row for row in variants.values())]
    if variants:
        average = statistics["average"] if len(variants) > 1 else None
        title = "How far the variants are from the original"
        more += [measures_table(title, variants, average, keys, note="Composed services only.")]
        more += distance_charts(variants)
    return Report(
        command="compose",
        title="Composed variants",
        headline=f"{statuses['composed']:,} of {counted(len(services), 'service')} composed{partial}",
        lead=needs if short else "Every element has the answers it needs.",
        tiles=tiles(statistics, totals),
        notes=notes(statistics, [not_blind] if seen and "blindness" in statistics["method"] else []),
        sections=[
            answers_chart(statistics["answers"]),
            Text(title="What is missing", paragraphs=missing),
            *sections(statistics, explanations, more),
        ],
        terms=terms_of(keys) if variants else {},
        links=FILES,
    )


def tiles(statistics: Mapping[str, Any], more: Mapping[str, str]) -> list[Tile]:
    """Return the key numbers of a composition, with ``more`` of them by label."""
    counts = {"answers": "total", "used": "used", "held for review": "review"}
    numbers = {label: number(statistics["answers"][key]) for label, key in counts.items()}
    return [Tile(label, value) for label, value in {**numbers, **more}.items()]


def notes(statistics: Mapping[str, Any], more: Sequence[str]) -> list[str]:
    """Return notes on what reviewers have to do, ``more``, and on the number of dead letters."""
    review = statistics["answers"]["review"]
    held = counted(review, "answer waits", "answers wait")
    to_do = f"{held} for a decision: decide in `review.html` or `review.csv`, then run again with `--decisions`."
    return [*([to_do] if review else []), *more, *dead_letters_note(statistics["dead_letters"])]


def sections(
    statistics: Mapping[str, Any],
    explanations: Mapping[str, str],
    more: Iterable[Section],
    used: str = DISPOSITIONS["used"],
) -> list[Section]:
    """Return the sections on answers, reasons and reviewers' decisions, with ``more``, and on the method.

    Args:
      statistics: the content of statistics.json.
      explanations: reason id to a sentence that explains it.
      more: the sections in between.
      used: the meaning of the disposition ``used``.
    """
    tables = [answers_table(statistics["answers"], used), reasons_table(statistics["reasons"], explanations)]
    decisions = statistics["decisions"]
    applied = ", ".join(f"{key} {n:,}" for key, n in decisions.items() if any(decisions.values()))
    reviewers = Text(title="Reviewers", paragraphs=[f"Decisions applied: {applied}."] if applied else [])
    rows = [[words(key), value] for key, value in statistics["method"].items()]
    method = Table(title="Method", columns=["step", "as configured"], rows=rows, text_columns=2)
    return [*tables, *more, reviewers, method]


_MOST_NAMED = 4  # elements in a sentence about what is missing


def missing_answers(rows: Iterable[Mapping[str, Any]], services: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a sentence about each service that has answers and needs more, those that are nearest to complete first.

    Args:
      rows: the rows of ``shortfall.csv``.
      services: ``services`` of ``statistics.json``.
    """
    short: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        if services[row["service_name"]]["answers"]["total"]:
            short[row["service_name"]].append(row)
    to_accept = {name: services[name]["to_accept"] for name in short}
    order = sorted(short, key=lambda name: (not to_accept[name], to_accept[name] or len(short[name]), name))
    return [_missing(name, short[name], to_accept[name]) for name in order]


def _missing(service: str, rows: Sequence[Mapping[str, Any]], to_accept: int) -> str:
    by_number: dict[int, list[str]] = defaultdict(list)
    for row in rows:
        label = f"{row['task'].removesuffix('s')} of {row['element_id'].rpartition('/')[2]}"
        by_number[max(int(row["need"]) - int(row["have"]), 0)].append(label)
    parts = []
    for n, elements in sorted(by_number.items()):
        more = f", and {len(elements) - _MOST_NAMED:,} more" if len(elements) > _MOST_NAMED else ""
        each = " each" if len(elements) > 1 else ""
        lacking = f"{counted(n, 'more answer')}{each}" if n else "another answer, as a name would occur twice"
        needing = counted(len(elements), "element needs", "elements need")
        parts.append(f"{needing} {lacking}: {', '.join(elements[:_MOST_NAMED])}{more}")
    held = sum(int(row["in_review"]) for row in rows)
    if held:
        those = "it" if held == 1 else "them" if held == to_accept else f"{to_accept:,} of them"
        outlook = f": accepting {those} would complete it" if to_accept else ", which is not enough"
        parts.append(f"{counted(held, 'answer to these is', 'answers to these are')} held for review{outlook}")
    return f"{service}: {'; '.join(parts)}"


def answers_chart(answers: Mapping[str, int]) -> Bars:
    """Chart the answers by disposition."""
    dots = [Dot(IN_WORDS[key].capitalize(), answers[key]) for key in DISPOSITIONS]
    note = f"{answers['used']:,} of {counted(answers['total'], 'answer is', 'answers are')} used."
    return Bars(title="What became of the answers", note=note, dots=dots)


def answers_table(
    answers: Mapping[str, int], used: str = DISPOSITIONS["used"], title: str = "What became of the answers"
) -> Table:
    """Return the table of answers by disposition.

    Args:
      answers: the number of answers for each of ``DISPOSITIONS``, and ``total``.
      used: the meaning of the disposition ``used``.
      title: the title of the table.
    """
    total = answers["total"]
    rows = [
        [IN_WORDS[key].capitalize(), meaning, number(answers[key]), percent(answers[key] / total if total else None)]
        for key, meaning in {**DISPOSITIONS, "used": used}.items()
    ]
    rows.append(["All answers", "", number(total), ""])
    columns = ["disposition", "meaning", "answers", "share"]
    return Table(title=title, columns=columns, rows=rows, text_columns=2, total_rows=1)


def reasons_table(
    reasons: Mapping[str, Mapping[str, int]],
    explanations: Mapping[str, str],
    title: str = "Why answers were not used",
) -> Table:
    """Return the table of reasons why answers were not used.

    Args:
      reasons: disposition to reason to number of answers.
      explanations: reason to a sentence that explains it.
      title: the title of the table.
    """
    rows = [
        [words(reason), IN_WORDS[disposition], explanations.get(reason, ""), number(n)]
        for disposition in ("rejected", "review", "duplicate", "surplus", "used")
        for reason, n in sorted(reasons.get(disposition, {}).items(), key=lambda pair: (-pair[1], pair[0]))
    ]
    columns = ["reason", "disposition", "meaning", "answers"]
    return Table(title=title, columns=columns, rows=rows, text_columns=3)


def _meaning(stated: Mapping[str, Any]) -> list[Section]:
    """Return the table of limits by the number of other answers."""
    table = Numbers(
        "How meaning is checked",
        "*/*",
        ("answers", "others, at least"),
        (
            Metric("margin", "margin below", digits=3),
            Metric("floor", "similarity below", digits=3),
            Metric("expected_false_alarms", "right answers held", percent=True),
        ),
        note=f"Compared by {stated['measure']}. An answer is held if it is less near to its own element than to "
        "another one of the service, by the margin, or hardly similar to its own. Both depend on how many others have "
        "answered. The last column: how many of the right answers that SGD-X has published were held.",
    )
    return sections_of({task: {row["others"]: row for row in stated[task]} for task in TASKS}, table)


def words(identifier: str) -> str:
    """Format an identifier as words: ``Too long`` for ``too_long``."""
    return identifier.replace("_", " ").capitalize()


def dead_letters_note(dead: int) -> list[str]:
    """Return a note on the number of dead letters, if any."""
    return [f"{counted(dead, 'record')} could not be read: see `dead_letters.jsonl`."] if dead else []


def _status(service: Mapping[str, Any]) -> str:
    if service["composed"]:
        return "composed in part" if service["partial"] else "composed"
    return "needs more answers" if service["answers"]["total"] else "no answers"


def _services_table(services: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return the table of services, incomplete ones first, since users look for them."""
    rows = []
    for name in sorted(services, key=lambda name: (services[name]["composed"], not services[name]["partial"], name)):
        service, answers = services[name], services[name]["answers"]
        numbers = [service["short"], answers["total"], *(answers[key] for key in DISPOSITIONS)]
        rows.append([name, _status(service), ", ".join(service["splits"]), *map(number, numbers)])
    columns = ["service", "status", "splits", "short", "answers", *(IN_WORDS[key] for key in DISPOSITIONS)]
    return Table(title="Services", columns=columns, rows=rows, text_columns=3)
