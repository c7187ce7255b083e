"""What people see of a composition: the report, and the sheet and pages to review what the automatic checks held.

Other reports share parts of it, and how long tasks took workers and what they paid.
"""

import base64
import hashlib
import json
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache, lru_cache
from importlib import resources
from itertools import groupby
from statistics import median
from typing import Any

import msgspec
from markupsafe import Markup

from parapet.schemas.decisions import COLUMNS, MAX_CELL, csv_lines
from parapet.schemas.rows import IN_WORDS
from parapet.schemas.service import TASKS
from parapet.transforms.report.numbers import Metric, Numbers, sections_of
from parapet.transforms.report.report import Bars, Dot, Report, Section, Table, Text, Tile, render
from parapet.transforms.report.text import counted, number, percent
from parapet.transforms.variants.table1 import distance_charts, measures_table, terms_of

# An assignment's task, its seconds from acceptance to submission, and its reward in dollars; None for what is unknown.
Work = tuple[str, int | None, Decimal | None]

WORK_TIMES = Numbers(
    "Working time and pay",
    "work/*",
    ("task",),
    (
        Metric("assignments", "assignments"),
        Metric("median_minutes", "median minutes", digits=1),
        Metric("dollars_per_hour", "median pay an hour, $", digits=2),
    ),
    note="From acceptance to submission, where both are known. Medians, because some leave a page open: half of the "
    "assignments took longer, and half paid less an hour. Pay is the reward, without bonuses.",
)


def work_times(assignments: Iterable[Work]) -> dict[str, dict[str, Any]]:
    """Returns the numbers of :data:`WORK_TIMES` by task, over assignments whose time is known."""
    seconds, pay = defaultdict[str, list[int]](list), defaultdict[str, list[float]](list)
    for task, taken, reward in assignments:
        if taken is not None and taken > 0:
            seconds[task].append(taken)
            if reward is not None:
                pay[task].append(float(reward) * 3_600 / taken)
    return {
        task: {
            "assignments": len(seconds[task]),
            "median_minutes": round(median(seconds[task]) / 60, 2),
            "dollars_per_hour": round(median(pay[task]), 2) if pay[task] else None,
        }
        for task in sorted(seconds)
    }


def work_lines(times: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Formats the numbers of :func:`work_times` for the terminal, a line for each task whose pay is known."""
    return [
        f"{task}: median time {row['median_minutes']:.1f} minutes, median pay ${row['dollars_per_hour']:,.2f} an hour"
        for task, row in times.items()
        if row["dollars_per_hour"] is not None
    ]


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
    """Returns the key numbers of a composition, with ``more`` of them by label."""
    counts = {"answers": "total", "used": "used", "held for review": "review"}
    numbers = {label: number(statistics["answers"][key]) for label, key in counts.items()}
    return [Tile(label, value) for label, value in {**numbers, **more}.items()]


def notes(statistics: Mapping[str, Any], more: Sequence[str]) -> list[str]:
    """Returns notes on what reviewers have to do, ``more``, and on the number of dead letters."""
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
    """Returns the sections on answers, reasons and reviewers' decisions, with ``more``, and on the method.

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
    """Returns a sentence about each service that has answers and needs more, those that are nearest to complete first.

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
    if held := sum(int(row["in_review"]) for row in rows):
        those = "it" if held == 1 else "them" if held == to_accept else f"{to_accept:,} of them"
        outlook = f": accepting {those} would complete it" if to_accept else ", which is not enough"
        parts.append(f"{counted(held, 'answer to these is', 'answers to these are')} held for review{outlook}")
    return f"{service}: {'; '.join(parts)}"


def answers_chart(answers: Mapping[str, int]) -> Bars:
    """Charts the answers by disposition."""
    dots = [Dot(IN_WORDS[key].capitalize(), answers[key]) for key in DISPOSITIONS]
    note = f"{answers['used']:,} of {counted(answers['total'], 'answer is', 'answers are')} used."
    return Bars(title="What became of the answers", note=note, dots=dots)


def answers_table(
    answers: Mapping[str, int], used: str = DISPOSITIONS["used"], title: str = "What became of the answers"
) -> Table:
    """Returns the table of answers by disposition.

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
    reasons: Mapping[str, Mapping[str, int]], explanations: Mapping[str, str], title: str = "Why answers were not used"
) -> Table:
    """Returns the table of reasons why answers were not used.

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
    return Table(title=title, columns=["reason", "disposition", "meaning", "answers"], rows=rows, text_columns=3)


def _meaning(stated: Mapping[str, Any]) -> list[Section]:
    """Returns the table of limits by the number of other answers."""
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
    """Formats an identifier as words: ``Too long`` for ``too_long``."""
    return identifier.replace("_", " ").capitalize()


def dead_letters_note(dead: int) -> list[str]:
    """Returns a note on the number of dead letters, if any."""
    return [f"{counted(dead, 'record')} could not be read: see `dead_letters.jsonl`."] if dead else []


def _status(service: Mapping[str, Any]) -> str:
    if service["composed"]:
        return "composed in part" if service["partial"] else "composed"
    return "needs more answers" if service["answers"]["total"] else "no answers"


def _services_table(services: Mapping[str, Mapping[str, Any]]) -> Table:
    """Returns the table of services, incomplete ones first, since users look for them."""
    rows = []
    for name in sorted(services, key=lambda name: (services[name]["composed"], not services[name]["partial"], name)):
        service, answers = services[name], services[name]["answers"]
        numbers = [service["short"], answers["total"], *(answers[key] for key in DISPOSITIONS)]
        rows.append([name, _status(service), ", ".join(service["splits"]), *map(number, numbers)])
    columns = ["service", "status", "splits", "short", "answers", *(IN_WORDS[key] for key in DISPOSITIONS)]
    return Table(title="Services", columns=columns, rows=rows, text_columns=3)


SHEET_COLUMNS = (*COLUMNS, "element_id", "task", "flags", "prompt", "original", "answer", "neighbours")

# Maximum number of characters of a text, and of other answers per item; responses.parquet has all of them.
MAX_SHOWN = 2000
MAX_NEIGHBOURS = 30

# The items of an element stay on one page if possible. More answers than fit on the pages are unlikely to be decided
# before the next run, and are only in the sheet.
PER_PAGE, MAX_PAGES = 500, 100

# Categories of characters that are invisible, or change the direction of the text: shown by their code point.
_INVISIBLE = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})

# What was asked for, and the labels of the prompt and of the original.
_OF_SENTENCE = ("The system had said", "The user's sentence, which workers saw")
_LABELS = {
    "names": ("name", "Workers saw this description", "The original name, hidden from them"),
    "descriptions": ("description", "Workers saw this name", "The original description, hidden from them"),
    "paraphrase": ("paraphrase", *_OF_SENTENCE),
    "typos": ("mistyped version", *_OF_SENTENCE),
    "verbose": ("longer version", *_OF_SENTENCE),
    "simple": ("shorter version", *_OF_SENTENCE),
}


class ReviewItem(msgspec.Struct):
    """An answer for a reviewer to judge.

    Attributes:
      element_id: its element, in three parts: ``SERVICE/slot/NAME``; for rewrites ``SERVICES/turn/DIALOGUE:TURN``.
      task: ``names`` or ``descriptions``; for rewrites the kind of variation.
      prompt: the text shown to the worker; for rewrites the previous turn.
      original: the text that was hidden from the worker; for rewrites the sentence.
      text: the answer as typed.
      canonical: the answer as it would be written to the output.
      reasons: ids of the checks that held the answer.
      same_answers: the number of workers who gave the same words, including this one.
      neighbours: (canonical, disposition) of the other answers for the element that are shown.
      more_neighbours: the number of other answers that are not shown.
      doubt: the doubt of the most doubtful held answer for the element, and of this answer; lower is more doubtful.
    """

    response_id: str
    element_id: str
    task: str
    prompt: str
    original: str
    text: str
    canonical: str
    reasons: list[str]
    same_answers: int = 1
    neighbours: list[tuple[str, str]] = []
    more_neighbours: int = 0
    doubt: tuple[float, float] = (0.0, 0.0)

    @property
    def answer(self) -> str:
        """Returns the text that is used if the answer is accepted; the text as typed if the canonical form is empty."""
        return self.canonical or self.text

    @property
    def element(self) -> tuple[str, str, str]:
        """Returns the service, the kind and the name of its element."""
        service, kind, name = [*self.element_id.split("/", 2), ""][:3]
        return service, kind, name or service


def review_order(item: ReviewItem) -> tuple[float, str, str, float, str]:
    """Returns the sort key of sheet and pages: by doubt, with the items of an element together."""
    most, own = item.doubt
    return most, item.element_id, item.task, own, item.response_id


def neighbours(answers: Iterable[tuple[str, str]], own: tuple[str, str]) -> tuple[list[tuple[str, str]], int]:
    """Returns the answers for an element that are shown beside one, those in use first, and how many more there are.

    Args:
      answers: (canonical, disposition) of each distinct answer. Rejected ones are left out to keep the list short.
      own: the answer beside which they are shown.
    """
    counts = Counter(answer for answer in answers if answer[1] != "rejected")
    counts[own] -= 1
    others = sorted(+counts, key=lambda answer: (answer[1] != "used", answer[1], answer[0]))
    return others[:MAX_NEIGHBOURS], max(0, len(others) - MAX_NEIGHBOURS)


def review_sheet(items: Iterable[ReviewItem], explanations: Mapping[str, str]) -> Iterator[bytes]:
    """Yields the lines of the review sheet: a decisions file with empty decisions and the context for making them.

    Args:
      items: the held answers, in the order of :func:`review_order`.
      explanations: reason id to a sentence in plain language.
    """
    return csv_lines(SHEET_COLUMNS, (_sheet_row(item, explanations) for item in items))


def review_pages(
    items: Sequence[ReviewItem], explanations: Mapping[str, str], command: str = "compose"
) -> Iterator[tuple[str, bytes]]:
    """Yields (file name, page): ``review.html``, ``review.2.html``, …; without items, one page that says so.

    Args:
      items: the held answers, in the order of :func:`review_order`.
      explanations: reason id to a sentence in plain language.
      command: the pipeline that reads the decisions.
    """
    pages: list[list[ReviewItem]] = []
    for _, group in groupby(items, key=lambda item: item.element_id):
        element = list(group)
        if pages and len(pages[-1]) + len(element) <= PER_PAGE:
            pages[-1] += element
        else:
            pages += [element[i : i + PER_PAGE] for i in range(0, len(element), PER_PAGE)]
    pages = pages[:MAX_PAGES] or [[]]
    names = ["review.html", *(f"review.{number}.html" for number in range(2, len(pages) + 1))]
    listed = sum(map(len, pages))
    last = 0
    for n, page in enumerate(pages, 1):
        first, last = last + 1, last + len(page)
        place = {"names": names, "listed": listed, "total": len(items), "number": n, "first": first, "last": last}
        yield names[n - 1], _page(page, explanations, place, command)


@lru_cache(maxsize=1 << 10)  # the same answers are neighbours of many items
def visible(text: str) -> str:
    """Makes a text safe to display: cut at MAX_SHOWN characters, with invisible ones as code points (``⟨U+202E⟩``)."""
    if text.isascii() and text.isprintable() and len(text) <= MAX_SHOWN:
        return text
    cut = text[:MAX_SHOWN].replace("\r\n", "\n")
    hidden = {c for c in cut if c != "\n" and unicodedata.category(c) in _INVISIBLE}
    shown = cut.translate({ord(c): f"\u27e8U+{ord(c):04X}\u27e9" for c in hidden})
    return shown if len(text) <= MAX_SHOWN else f"{shown}… ({len(text):,} characters in all)"


def _sheet_row(item: ReviewItem, explanations: Mapping[str, str]) -> list[str]:
    flags = " | ".join(f"{reason}: {explanation}" for reason, explanation in _flags(item, explanations).items())
    others = [f"{visible(text)} ({visible(IN_WORDS.get(label, label))})" for text, label in item.neighbours]
    others += [f"and {item.more_neighbours} more"] if item.more_neighbours else []
    texts = [visible(text) for text in (item.prompt, item.original, item.answer)]
    return [item.response_id, "", "", "", "", item.element_id, item.task, flags, *texts, " | ".join(others)]


def _flags(item: ReviewItem, explanations: Mapping[str, str]) -> dict[str, str]:
    """Returns the reasons with their explanations, for display."""
    ids = {reason: reason.partition(":")[0] for reason in item.reasons}  # "other_element: fare"
    return {visible(reason): visible(explanations.get(name, name.replace("_", " "))) for reason, name in ids.items()}


def _page(
    items: Sequence[ReviewItem], explanations: Mapping[str, str], place: Mapping[str, Any], command: str
) -> bytes:
    cards = [(index, item, _flags(item, explanations)) for index, item in enumerate(items)]
    by_element = groupby(cards, key=lambda card: (card[1].element_id, card[1].task, card[1].prompt, card[1].original))
    counts = Counter(name for _, _, flags in cards for name in {flag.partition(":")[0] for flag in flags})
    answers = [[item.response_id, item.answer] for item in items]
    data = {
        # of the content, so that decisions never appear beside other answers
        "key": "parapet.review." + hashlib.sha256(json.dumps(answers).encode("ascii")).hexdigest()[:16],
        "file": "decisions.csv" if place["number"] == 1 else f"decisions.{place['number']}.csv",
        "maxCell": MAX_CELL,
        "items": [[response_id, answer[:MAX_CELL]] for response_id, answer in answers],
    }
    (script, script_hash), (style, style_hash) = _asset("review.js"), _asset("review.css")
    page = render(
        "review.html.jinja",
        command=command,
        groups=[list(group) for _, group in by_element],
        labels=_LABELS,
        in_words=IN_WORDS,
        visible=visible,
        flags=sorted(counts.items()),
        services=sorted({visible(item.element[0]) for item in items}),
        place=place,
        data=data,
        # Only our script and style run, whatever the texts contain.
        policy=f"default-src 'none'; script-src {script_hash}; style-src {style_hash}; "
        "base-uri 'none'; form-action 'none'",
        script=script,
        style=style,
    )
    return page.encode("utf-8", errors="replace")


@cache
def _asset(name: str) -> tuple[Markup, str]:
    """Reads a style or script of the page, and hash it. Line ends are normalised, as browsers do before hashing."""
    text = resources.files("parapet.crowd_templates").joinpath(name).read_text("utf-8").replace("\r\n", "\n")
    digest = base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
    return Markup(text), f"'sha256-{digest}'"  # noqa: S704  # our own file
