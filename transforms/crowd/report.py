"""The report of ``compose``, and the parts that ``compose_variations`` and ``release`` share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from parapet.schemas.rows import IN_WORDS
from parapet.schemas.service import TASKS
from parapet.transforms.reports.report import Report, Section, Table, Text, Tile
from parapet.transforms.reports.text import counted, number, percent
from parapet.transforms.variants.table1 import TERMS, distance_charts, measures_table

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


class Example(msgspec.Struct):
    """An original text and its paraphrase in each variant."""

    original: str
    variants: list[str]


def compose_report(
    statistics: Mapping[str, Any],
    explanations: Mapping[str, str],
    examples: Mapping[str, Sequence[Example]],
    missing: Sequence[str] = (),
) -> Report:
    """The report of ``parapet compose``.

    Args:
      statistics: the content of statistics.json.
      explanations: reason id to a sentence that explains it.
      examples: service name to some of its texts in all variants.
      missing: a sentence for each service that needs more answers, see :func:`missing_answers`.
    """
    answers, services, variants = statistics["answers"], statistics["services"], statistics["variants"]
    keys = [key for key in ("name_distance", "description_bleu") if any(key in row for row in variants.values())]
    sections: list[Section] = [Text(title="What is missing", paragraphs=missing)] if missing else []
    sections += [answers_table(answers), *reasons_tables(statistics["reasons"], explanations)]
    sections += [_meaning_table(statistics["meaning"]), _services_table(services)]
    sections += [
        Table(
            title=f"Some texts of {service} and their variants",
            columns=["original", *variants],
            rows=[[text.original, *text.variants] for text in texts],
            text_columns=1 + len(variants),
            in_card=False,
        )
        for service, texts in examples.items()
    ]
    if variants:
        average = statistics["average"] if len(variants) > 1 else None
        title = "How far the variants are from the original"
        sections.append(measures_table(title, variants, average, keys, note="Composed services only."))
        sections += distance_charts(variants)
    tiles = {
        "answers": number(answers["total"]),
        "used in variants": number(answers["used"]),
        "held for review": number(answers["review"]),
        "elements that need more answers": number(sum(service["short"] for service in services.values())),
    }
    if statistics["self_bleu"] is not None:
        tiles["self-BLEU"] = number(statistics["self_bleu"], 1)
    return Report(
        command="compose",
        title="Composed variants",
        headline=_headline(services),
        lead=_lead(services),
        tiles=[Tile(label, value) for label, value in tiles.items()],
        notes=list(_notes(statistics)),
        sections=[*sections, *reviewers_text(statistics), method_table(statistics["method"])],
        terms=dict(TERMS[key] for key in (*keys, "self_bleu")) if variants else {},
        links=FILES,
    )


_MOST_NAMED = 4  # elements in a sentence about what is missing


def missing_answers(rows: Iterable[Mapping[str, Any]], services: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a sentence about each service that has answers and needs more, those that are nearest to complete first.

    Args:
      rows: the rows of ``shortfall.csv``.
      services: ``services`` of ``statistics.json``.
    """
    by_service: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_service.setdefault(row["service_name"], []).append(row)
    known = {name: short for name, short in by_service.items() if services[name]["answers"]["total"]}

    def order(name: str) -> tuple[bool, int, str]:
        return not services[name]["to_accept"], services[name]["to_accept"] or len(known[name]), name

    return [_missing(name, known[name], services[name]["to_accept"]) for name in sorted(known, key=order)]


def _missing(service: str, rows: Sequence[Mapping[str, Any]], to_accept: int) -> str:
    by_number: dict[int, list[str]] = {}
    for row in rows:
        _, _, element = row["element_id"].partition("/")
        label = f"{row['task'].removesuffix('s')} of {element.rpartition('/')[2]}"
        by_number.setdefault(max(int(row["need"]) - int(row["have"]), 0), []).append(label)
    needs = []
    for n, elements in sorted(by_number.items()):
        more = f", and {len(elements) - _MOST_NAMED:,} more" if len(elements) > _MOST_NAMED else ""
        verb, each = ("needs", "") if len(elements) == 1 else ("need", " each")
        lacking = f"{counted(n, 'more answer')}{each}" if n else "another answer, as a name would occur twice"
        needs.append(f"{counted(len(elements), 'element')} {verb} {lacking}: {', '.join(elements[:_MOST_NAMED])}{more}")
    held = sum(int(row["in_review"]) for row in rows)
    answers = f"{counted(held, 'answer')} to these {'is' if held == 1 else 'are'} held for review"
    if to_accept:
        answers += f": accepting {'it' if held == 1 else 'them' if held == to_accept else f'{to_accept:,} of them'} "
        answers += "would complete it"
    elif held:
        answers += ", which is not enough"
    return f"{service}: {'; '.join([*needs, answers] if held else needs)}"


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


def reasons_tables(
    reasons: Mapping[str, Mapping[str, int]],
    explanations: Mapping[str, str],
    title: str = "Why answers were not used",
) -> list[Table]:
    """Return the table of reasons why answers were not used; an empty list if there are none.

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
    return [Table(title=title, columns=columns, rows=rows, text_columns=3)] if rows else []


def _meaning_table(stated: Mapping[str, Any]) -> Table:
    """Return the table of the thresholds on meaning, and their expected false alarm rates."""
    rows = []
    for task in TASKS:
        for row in stated[task]:
            limits = number(row["margin"], 3), number(row["floor"], 3)
            rows.append([task, number(row["others"]), *limits, percent(row["expected_false_alarms"])])
    note = (
        f"Compared by {stated['measure']}. An answer is held if it is less near to its own element than to another one "
        "of the service, by the margin, or hardly similar to its own. Both depend on how many others have answered. "
        "The last column: how many of the right answers that SGD-X has published were held."
    )
    columns = ["answers", "others, at least", "margin below", "similarity below", "right answers held"]
    return Table(title="How meaning is checked", columns=columns, rows=rows, note=note)


def words(identifier: str) -> str:
    """Format an identifier as words: ``Too long`` for ``too_long``."""
    return identifier.replace("_", " ").capitalize()


def reviewers_text(statistics: Mapping[str, Any]) -> list[Text]:
    """Return the section on reviewers' decisions; an empty list without any."""
    decisions = statistics["decisions"]
    if not any(decisions.values()):
        return []
    applied = ", ".join(f"{key} {n:,}" for key, n in decisions.items())
    return [Text(title="Reviewers", paragraphs=[f"Decisions applied: {applied}."])]


def method_table(method: Mapping[str, str]) -> Table:
    """Return the table of the run's options."""
    rows = [[words(key), value] for key, value in method.items()]
    return Table(title="Method", columns=["step", "as configured"], rows=rows, text_columns=2)


def dead_letters_note(dead: int) -> list[str]:
    """Return a note on the number of dead letters, if any."""
    return [f"{counted(dead, 'record')} could not be read: see `dead_letters.jsonl`."] if dead else []


def review_notes(statistics: Mapping[str, Any]) -> Iterable[str]:
    """Yield notes on what reviewers have to do."""
    if review := statistics["answers"]["review"]:
        yield (
            f"{counted(review, 'answer')} {'waits' if review == 1 else 'wait'} for a decision: decide in `review.html` "
            "or `review.csv`, then run again with `--decisions`."
        )


def _notes(statistics: Mapping[str, Any]) -> Iterable[str]:
    yield from review_notes(statistics)
    seen = statistics["not_blind_assignments"]
    if seen and "blindness" in statistics["method"]:
        yield f"The workers of {counted(seen, 'assignment')} had seen the texts that were hidden from others."
    short = sum(service["short"] for service in statistics["services"].values())
    if short:
        yield f"{counted(short, 'element')} {_has(short)} too few good answers: see `shortfall.csv`."
    yield from dead_letters_note(statistics["dead_letters"])


def _headline(services: Mapping[str, Mapping[str, Any]]) -> str:
    composed = sum(service["composed"] for service in services.values())
    partial = sum(service["partial"] for service in services.values())
    if services and composed - partial == len(services):
        return f"{'All ' if composed > 1 else ''}{counted(composed, 'service')} composed"
    more = f", {partial:,} in part" if partial else ""
    return f"{composed - partial:,} of {counted(len(services), 'service')} composed{more}"


def _lead(services: Mapping[str, Mapping[str, Any]]) -> str:
    waiting = [service for service in services.values() if not service["composed"]]
    answered = [service for service in waiting if service["answers"]["total"]]
    unanswered = len(waiting) - len(answered)
    partial = sum(service["partial"] for service in services.values())
    sentences = []
    if unanswered:
        sentences.append(f"{counted(unanswered, 'service')} {_has(unanswered)} no answers yet.")
    if answered:
        lacking = f"{counted(len(answered), 'service')} {'lacks' if len(answered) == 1 else 'lack'}"
        short = sum(service["short"] for service in answered)
        sentences.append(f"{lacking} more good answers to {counted(short, 'element')}.")
    if partial:
        sentences.append(f"{counted(partial, 'service')} {_has(partial)} elements with fewer answers than variants.")
    return " ".join(sentences) or "Every element has the answers it needs."


def _services_table(services: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return the table of services, incomplete ones first, since users look for them."""

    def order(name: str) -> tuple[bool, bool, list[tuple[int, str]]]:
        return services[name]["composed"], not services[name]["partial"], _natural(name)

    rows = []
    for name in sorted(services, key=order):
        service, answers = services[name], services[name]["answers"]
        if service["composed"]:
            status = "composed in part" if service["partial"] else "composed"
        else:
            status = "needs more answers" if answers["total"] else "no answers"
        numbers = [service["short"], answers["total"], *(answers[key] for key in DISPOSITIONS)]
        rows.append([name, status, ", ".join(service["splits"]), *map(number, numbers)])
    columns = ["service", "status", "splits", "short", "answers", *(IN_WORDS[key] for key in DISPOSITIONS)]
    return Table(title="Services", columns=columns, rows=rows, text_columns=3)


def _has(n: int) -> str:
    return "has" if n == 1 else "have"


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts v2 before v10."""
    return [(int(part) if i % 2 else -1, part) for i, part in enumerate(re.split(r"([0-9]+)", name))]
