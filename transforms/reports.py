"""Turns the numbers of statistics.json into report pages: one for ``statistics``, one for ``compose``.

Pure functions from a dict to HTML; the same dict gives the same bytes. Pages need nothing from the network.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from parapet.transforms import svg
from parapet.transforms.pages import render

Statistics = Mapping[str, Any]

DISPOSITIONS = {
    "used": "in one of the variants",
    "surplus": "good, but not needed",
    "duplicate": "the same words as another answer",
    "rejected": "certainly bad",
    "review": "held for a person to look at",
}
MAX_SERVICES = 1000  # rows of the table of services; a page with more is slow to open

# Lee et al. 2022, Table 1: the whole of SGD (45 services), v1 to v5.
PUBLISHED = {
    "name_distance": (0.30, 0.42, 0.49, 0.56, 0.61),
    "description_bleu": (18.8, 11.3, 5.6, 2.9, 1.0),
}
PUBLISHED_SEEN = {
    "original": {"slot_names_seen": 0.65, "intent_names_seen": 0.71},
    "average": {"slot_names_seen": 0.08, "intent_names_seen": 0.02},
}
PUBLISHED_SELF_BLEU = 4.5
SGD_X = ("v1", "v2", "v3", "v4", "v5")

# Column of statistics.json to its heading and its form.
MEASURES = {
    "slot_names_seen": ("Slots seen", svg.percent),
    "intent_names_seen": ("Intents seen", svg.percent),
    "name_distance": ("Name distance", svg.number(2)),
    "description_bleu": ("BLEU", svg.number(1)),
}
# What they mean, by the column, or ``seen`` for the first two.
TERMS = {
    "seen": (
        "Slots seen, intents seen",
        "Of the names of the services that train lacks, how many occur in train. Low is hard.",
    ),
    "name_distance": (
        "Name distance",
        "1 − Levenshtein ratio of a name and its paraphrase, the mean over all intents and slots: 0 the same, "
        "1 nothing in common.",
    ),
    "description_bleu": (
        "BLEU",
        "Word sequences that a variant's descriptions share with the original's: 100 the same, 0 nothing in common.",
    ),
    "self_bleu": (
        "Self-BLEU",
        "BLEU of the variants' descriptions against each other, the mean over ordered pairs. Low means diverse.",
    ),
}
_FILES = {
    "review.html": "the answers held for review, to be decided in the browser",
    "review.csv": "the same as a sheet",
    "shortfall.csv": "elements with too few good answers",
    "responses.parquet": "every answer with what became of it and why",
    "dead_letters.jsonl": "input that could not be read, with file, place and reason",
}


def statistics_page(statistics: Statistics) -> str:
    """The report page of ``parapet statistics``.

    Args:
      statistics: the content of its statistics.json.
    """
    variants, average = statistics["variants"], statistics["average"]
    published = tuple(variants) == SGD_X
    services, split, unseen = statistics["services"], statistics["split"], statistics["unseen_services"]
    lead = (
        f"{plural(services, 'service')} in {plural(len(variants), 'variant')}. Names seen in train are counted over "
        f"the {plural(unseen, 'service')} of {split} that train lacks."
    )
    return render(
        "statistics.html.jinja",
        title="Variant statistics",
        brand="variant statistics",
        headline="How far the variants are from the original",
        lead=lead,
        tiles=[
            _tile("average name distance", average["name_distance"], svg.number(2)),
            _tile("average BLEU of descriptions", average["description_bleu"], svg.number(1)),
            _tile("self-BLEU", statistics["self_bleu"], svg.number(1)),
            _tile("slot names seen, average", average["slot_names_seen"], svg.percent),
            _tile("intent names seen, average", average["intent_names_seen"], svg.percent),
        ],
        caption="Per variant, as in Table 1 of SGD-X",
        columns=[heading for heading, _ in MEASURES.values()],
        rows=_statistics_rows(statistics, published),
        notes=list(_statistics_notes(statistics, published)),
        plots=[*distance_plots(variants, published), _seen_plot(statistics)],
        terms=terms(TERMS),
        signature=statistics["bleu_signature"],
    )


def compose_page(
    statistics: Statistics,
    explanations: Mapping[str, str] | None = None,
    examples: Mapping[str, Sequence[Any]] | None = None,
) -> str:
    """The report page of ``parapet compose``.

    Args:
      statistics: the content of its statistics.json.
      explanations: for each reason id, what it means, in a sentence.
      examples: service name to some of its texts, each with ``original`` and ``variants``, near to far.
    """
    answers, services, variants = statistics["answers"], statistics["services"], statistics["variants"]
    keys = [key for key in ("name_distance", "description_bleu") if any(key in row for row in variants.values())]
    rows = [measures_row(name, row, keys) for name, row in variants.items()]
    if len(variants) > 1:
        rows.append(measures_row("Average", statistics["average"], keys, total=True))
    return render(
        "compose_report.html.jinja",
        title="Composed variants",
        brand="compose",
        headline=_compose_headline(services),
        lead=_compose_lead(services),
        tiles=[
            {"what": "answers", "value": f"{answers['total']:,}"},
            {"what": "used in variants", "value": f"{answers['used']:,}"},
            {"what": "held for review", "value": f"{answers['review']:,}"},
            {"what": "elements short of answers", "value": f"{sum(one['short'] for one in services.values()):,}"},
            *(
                [_tile("self-BLEU", statistics["self_bleu"], svg.number(1))]
                if statistics["self_bleu"] is not None
                else []
            ),
        ],
        todo=list(_todo(statistics)),
        bar=disposition_bar(answers),
        dispositions=disposition_rows(answers),
        total=f"{answers['total']:,}",
        reasons=reason_rows(statistics["reasons"], explanations or {}),
        examples=examples or {},
        variants=list(variants),
        service_columns=["Short", "Answers", *(key.capitalize() for key in DISPOSITIONS)],
        services=[_service_row(name, services[name]) for name in _ordered(services)[:MAX_SERVICES]],
        services_hidden=_hidden(len(services)),
        caption="Composed services only",
        columns=[MEASURES[key][0] for key in keys],
        rows=rows,
        plots=distance_plots(variants, published=False),
        terms=terms({key: TERMS[key] for key in (*keys, "self_bleu")}),
        reviewers=reviewer_rows(statistics),
        method=[{"term": key, "meaning": value} for key, value in statistics["method"].items()],
        files=[{"path": path, "what": what} for path, what in _FILES.items()],
    )


def _statistics_rows(statistics: Statistics, published: bool) -> list[dict[str, Any]]:
    rows = [measures_row("Original", statistics["original"], MEASURES, PUBLISHED_SEEN["original"] if published else {})]
    for i, (name, row) in enumerate(statistics["variants"].items()):
        rows.append(
            measures_row(name, row, MEASURES, {key: row[i] for key, row in PUBLISHED.items()} if published else {})
        )
    rows.append(
        measures_row(
            "Average", statistics["average"], MEASURES, PUBLISHED_SEEN["average"] if published else {}, total=True
        )
    )
    return rows


def measures_row(
    name: str,
    row: Mapping[str, float | None],
    keys: Iterable[str],
    published: Mapping[str, float] | None = None,
    total: bool = False,
) -> dict[str, Any]:
    """A row of ``measures_table`` (``report_parts.html.jinja``).

    Args:
      name: of the variant.
      row: its numbers; a dash where one is missing.
      keys: of ``MEASURES``, the columns.
      published: numbers to stand beside them.
      total: whether it sums up the others.
    """
    cells = []
    for key in keys:
        form = MEASURES[key][1]
        beside = form(published[key]) if published and key in published else ""
        cells.append({"value": _value(row.get(key), form), "published": beside})
    return {"name": name, "cells": cells, "total": total}


def _statistics_notes(statistics: Statistics, published: bool) -> Iterable[str]:
    if published:
        yield (
            "The small figures are the published ones of SGD-X, of the whole of SGD: 45 services, names seen over "
            "the 15 of test that train lacks. Other services give other numbers; order and size should agree. "
            f"The published self-BLEU is {PUBLISHED_SELF_BLEU}."
        )
    left_out = statistics["services_without_variants"]
    if left_out:
        shown = ", ".join(left_out[:12]) + (", …" if len(left_out) > 12 else "")
        yield f"{plural(len(left_out), 'service')} of the original in no variant and not counted: {shown}."


def distance_plots(
    variants: Mapping[str, Mapping[str, float | None]], published: bool, prefix: str = ""
) -> list[dict[str, Any]]:
    """Plots of name distance and BLEU, for ``plots`` of ``report_parts.html.jinja``; none of what nobody measured.

    Args:
      variants: name to its numbers.
      published: whether to draw those of SGD-X beside them; there must be as many variants.
      prefix: of the plots' ids, where a page has several of them.
    """
    plots = []
    for key, title, hint in (
        ("name_distance", "Name distance", "higher is farther from the original"),
        ("description_bleu", "BLEU of descriptions", "lower is farther from the original"),
    ):
        if not any(row.get(key) is not None for row in variants.values()):
            continue
        form = MEASURES[key][1]
        series = [svg.Series("here", tuple(row.get(key) for row in variants.values()))]
        if published:
            series.append(svg.Series("SGD-X, whole SGD", PUBLISHED[key], "ref"))
        said = ", ".join(f"{name} {_value(row.get(key), form)}" for name, row in variants.items())
        # A line says that the variants are steps on one way, which holds for v1, v2, ... only.
        ranked = len(variants) > 1 and all(re.fullmatch(r"v[0-9]+", name) for name in variants)
        draw = svg.lines if ranked else svg.bars
        plot = draw(prefix + key.replace("_", "-"), f"{title} by variant", said, list(variants), series, form)
        plots.append({"title": title, "hint": hint, "svg": plot})
    return plots


def _seen_plot(statistics: Statistics) -> dict[str, Any]:
    rows = {"original": statistics["original"], **statistics["variants"]}
    series = [
        svg.Series("slots", tuple(row["slot_names_seen"] for row in rows.values()), "s1"),
        svg.Series("intents", tuple(row["intent_names_seen"] for row in rows.values()), "s2"),
    ]
    said = ", ".join(
        f"{name} {_value(row['slot_names_seen'], svg.percent)} of slots and "
        f"{_value(row['intent_names_seen'], svg.percent)} of intents"
        for name, row in rows.items()
    )
    plot = svg.bars("names-seen", "Names seen in train, by variant", said, list(rows), series, svg.percent)
    return {"title": "Names seen in train", "hint": "of services that train lacks", "svg": plot}


def _compose_headline(services: Mapping[str, Mapping[str, Any]]) -> str:
    composed = sum(service["composed"] for service in services.values())
    partial = sum(bool(service["partial"]) for service in services.values())
    if services and composed - partial == len(services):
        return f"{'All ' if composed > 1 else ''}{plural(composed, 'service')} composed"
    more = f", {partial:,} in part" if partial else ""
    return f"{composed - partial:,} of {plural(len(services), 'service')} composed{more}"


def _compose_lead(services: Mapping[str, Mapping[str, Any]]) -> str:
    waiting = [service for service in services.values() if not service["composed"]]
    unanswered = sum(not service["answers"]["total"] for service in waiting)
    partial = sum(bool(service["partial"]) for service in services.values())
    said = []
    if unanswered:
        said.append(f"{plural(unanswered, 'service')} {_has(unanswered)} no answers yet.")
    if len(waiting) > unanswered:
        n = len(waiting) - unanswered
        short = sum(service["short"] for service in waiting if service["answers"]["total"])
        said.append(f"{plural(n, 'service')} {_wait(n)} for good answers to {plural(short, 'element')}.")
    if partial:
        said.append(f"{plural(partial, 'service')} {_has(partial)} elements with fewer answers than variants.")
    return " ".join(said) or "Every element has the answers it needs."


def _todo(statistics: Statistics) -> Iterable[dict[str, Any]]:
    review = statistics["answers"]["review"]
    if review:
        text = f"{plural(review, 'answer')} {_wait(review)} for a decision. Decide, then run again with"
        yield {"text": text, "flag": "--decisions", "links": ["review.html", "review.csv"]}
    short = sum(service["short"] for service in statistics["services"].values())
    if short:
        text = f"{plural(short, 'element')} {_has(short)} too few good answers:"
        yield {"text": text, "flag": "", "links": ["shortfall.csv"]}
    dead = statistics["dead_letters"]
    if dead:
        yield {"text": f"{plural(dead, 'record')} could not be read:", "flag": "", "links": ["dead_letters.jsonl"]}
    agreement = statistics["agreement"]
    if agreement and agreement["disagreements"]:
        text = f"The reviewers disagree on {plural(agreement['disagreements'], 'answer')}."
        yield {"text": text, "flag": "", "links": []}


def disposition_rows(answers: Mapping[str, int], used: str = DISPOSITIONS["used"]) -> list[dict[str, str]]:
    """What became of answers, a row for each of ``DISPOSITIONS``. ``answers`` has each of them, and ``total``.

    Args:
      answers: disposition to how many.
      used: what it means that one is.
    """
    return [
        {
            "name": key.capitalize(),
            "meaning": used if key == "used" else meaning,
            "style": key,
            "n": f"{answers[key]:,}",
            "share": _share(answers, key),
        }
        for key, meaning in DISPOSITIONS.items()
    ]


def disposition_bar(answers: Mapping[str, int], key: str = "dispositions") -> Markup:
    """The same as one bar; ``key`` is unique in the page."""
    parts = [svg.Part(name.capitalize(), answers[name], name) for name in DISPOSITIONS]
    said = ", ".join(f"{name} {answers[name]:,}" for name in DISPOSITIONS)
    return svg.stacked(key, f"What became of {answers['total']:,} answers", said, parts)


def reason_rows(reasons: Mapping[str, Mapping[str, int]], explanations: Mapping[str, str]) -> list[dict[str, Any]]:
    """Why answers were not used, a row for each reason of each disposition."""
    found = [(key, reason, n) for key in DISPOSITIONS for reason, n in reasons.get(key, {}).items()]
    order = ["rejected", "review", "duplicate", "surplus", "used"]
    found.sort(key=lambda row: (order.index(row[0]), -row[2], row[1]))
    return [
        {
            "reason": reason.replace("_", " ").capitalize(),
            "disposition": key,
            "style": key,
            "explanation": explanations.get(reason, ""),
            "n": f"{n:,}",
        }
        for key, reason, n in found
    ]


def _ordered(services: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What waits comes first: it is what one opens the page for."""
    return sorted(
        services, key=lambda name: (services[name]["composed"], not services[name]["partial"], _natural(name))
    )


def _service_row(name: str, service: Mapping[str, Any]) -> dict[str, Any]:
    answers = service["answers"]
    if service["composed"]:
        status, style = ("composed in part", "partial") if service["partial"] else ("composed", "")
    else:
        status, style = ("waits" if answers["total"] else "no answers"), "waits"
    numbers = [service["short"], answers["total"], *(answers[key] for key in DISPOSITIONS)]
    return {
        "name": name,
        "status": status,
        "style": style,
        "splits": ", ".join(service["splits"]),
        "numbers": [f"{n:,}" for n in numbers],
    }


def _hidden(services: int) -> str:
    if services <= MAX_SERVICES:
        return ""
    return f"{services - MAX_SERVICES:,} more services are in statistics.json."


def reviewer_rows(statistics: Statistics) -> list[dict[str, str]]:
    """What reviewers decided, and how far they agree: rows of ``terms`` (``report_parts.html.jinja``)."""
    decisions, agreement, rows = statistics["decisions"], statistics["agreement"], []
    if any(decisions.values()):
        said = ", ".join(f"{key} {n:,}" for key, n in decisions.items())
        rows.append({"term": "Decisions applied", "meaning": said})
    if agreement:
        rows.append({"term": "Answers judged by more than one", "meaning": f"{agreement['items']:,}"})
        rows.append({"term": "They disagree on", "meaning": f"{agreement['disagreements']:,}"})
        for key, term in (("cohen_kappa", "Cohen's kappa"), ("krippendorff_alpha", "Krippendorff's alpha")):
            said = _value(agreement[key], svg.number(2))
            rows.append({"term": term, "meaning": f"{said} (1 is full agreement, 0 is chance)"})
    return rows


def terms(found: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    """Rows of ``terms`` (``report_parts.html.jinja``) from such as ``TERMS``."""
    return [{"term": term, "meaning": meaning} for term, meaning in found.values()]


def _tile(what: str, value: float | None, form: svg.Format) -> dict[str, str]:
    return {"what": what, "value": _value(value, form)}


def _value(value: float | None, form: svg.Format) -> str:
    return "–" if value is None else form(value)


def _share(answers: Mapping[str, int], key: str) -> str:
    return f"{100 * answers[key] / answers['total']:.1f}%" if answers["total"] else "–"


def plural(n: int, noun: str) -> str:
    """``1 service``, ``2 services``."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def _has(n: int) -> str:
    return "has" if n == 1 else "have"


def _wait(n: int) -> str:
    return "waits" if n == 1 else "wait"


def _natural(name: str) -> list[tuple[int, str]]:
    """Sorts v2 before v10."""
    return [(int(part) if i % 2 else -1, part) for i, part in enumerate(re.split(r"([0-9]+)", name))]
