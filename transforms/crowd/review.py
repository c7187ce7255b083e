"""The review sheet, and the review page, for answers that the automatic checks held."""

from __future__ import annotations

import base64
import hashlib
import json
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib import resources
from itertools import groupby
from typing import Any

import msgspec
from markupsafe import Markup

from parapet.schemas.decisions import COLUMNS, MAX_CELL, csv_lines
from parapet.schemas.rows import IN_WORDS
from parapet.transforms.report.report import render

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
        """Return the text that is used if the answer is accepted; the text as typed if the canonical form is empty."""
        return self.canonical or self.text

    @property
    def element(self) -> tuple[str, str, str]:
        """Return the service, the kind and the name of its element."""
        service, kind, name = [*self.element_id.split("/", 2), ""][:3]
        return service, kind, name or service


def review_order(item: ReviewItem) -> tuple[float, str, str, float, str]:
    """Return the sort key of sheet and pages: by doubt, with the items of an element together."""
    most, own = item.doubt
    return most, item.element_id, item.task, own, item.response_id


def neighbours(answers: Iterable[tuple[str, str]], own: tuple[str, str]) -> tuple[list[tuple[str, str]], int]:
    """Return the answers for an element that are shown beside one, those in use first, and how many more there are.

    Args:
      answers: (canonical, disposition) of each distinct answer. Rejected ones are left out to keep the list short.
      own: the answer beside which they are shown.
    """
    counts = Counter(answer for answer in answers if answer[1] != "rejected")
    counts[own] -= 1
    others = sorted(+counts, key=lambda answer: (answer[1] != "used", answer[1], answer[0]))
    return others[:MAX_NEIGHBOURS], max(0, len(others) - MAX_NEIGHBOURS)


def review_sheet(items: Iterable[ReviewItem], explanations: Mapping[str, str]) -> Iterator[bytes]:
    """Yield the lines of the review sheet: a decisions file with empty decisions and the context for making them.

    Args:
      items: the held answers, in the order of :func:`review_order`.
      explanations: reason id to a sentence in plain language.
    """
    return csv_lines(SHEET_COLUMNS, (_sheet_row(item, explanations) for item in items))


def review_pages(
    items: Sequence[ReviewItem], explanations: Mapping[str, str], command: str = "compose"
) -> Iterator[tuple[str, bytes]]:
    """Yield (file name, page): ``review.html``, ``review.2.html``, …; without items, one page that says so.

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
    for number, page in enumerate(pages, 1):
        first, last = last + 1, last + len(page)
        place = {"names": names, "listed": listed, "total": len(items), "number": number, "first": first, "last": last}
        yield names[number - 1], _page(page, explanations, place, command)


@lru_cache(maxsize=1 << 10)  # the same answers are neighbours of many items
def visible(text: str) -> str:
    """Make a text safe to display: cut at MAX_SHOWN characters, with invisible ones as code points (``⟨U+202E⟩``)."""
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
    """Return the reasons with their explanations, for display."""
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
    """Read a style or script of the page, and hash it. Line ends are normalised, as browsers do before hashing."""
    text = resources.files("parapet.crowd_templates").joinpath(name).read_text("utf-8").replace("\r\n", "\n")
    digest = base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
    return Markup(text), f"'sha256-{digest}'"  # noqa: S704  # our own file
