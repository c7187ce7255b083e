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
from itertools import groupby, islice
from typing import Any

import msgspec
from markupsafe import Markup

from parapet.schemas.decisions import COLUMNS, MAX_CELL, csv_lines
from parapet.schemas.rows import IN_WORDS
from parapet.transforms.reports.report import render

SHEET_COLUMNS = (*COLUMNS, "element_id", "task", "flags", "prompt", "original", "answer", "neighbours")

# Maximum number of characters of a text, and of other answers per item; responses.parquet has all of them.
MAX_SHOWN = 2000
MAX_NEIGHBOURS = 30

# More answers than fit on these pages are unlikely to be decided before the next run.
MAX_PAGES = 100

# Categories of characters that are invisible, or change the direction of the text: shown by their code point.
_INVISIBLE = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})

_OF_SENTENCE = {"prompt": "The system had said", "original": "The user's sentence, which workers saw"}

_TASK_WORDS: dict[str, dict[str, str]] = {
    "names": {
        "requested": "name",
        "prompt": "Workers saw this description",
        "original": "The original name, hidden from them",
    },
    "descriptions": {
        "requested": "description",
        "prompt": "Workers saw this name",
        "original": "The original description, hidden from them",
    },
    "paraphrase": {"requested": "paraphrase", **_OF_SENTENCE},
    "typos": {"requested": "mistyped version", **_OF_SENTENCE},
    "verbose": {"requested": "longer version", **_OF_SENTENCE},
    "simple": {"requested": "shorter version", **_OF_SENTENCE},
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
    """Yield the review sheet: a decisions file with empty decisions and the context for making them.

    Args:
      items: the held answers, in the order of :func:`review_order`.
      explanations: reason id to a sentence in plain language.

    Yields:
      Lines in UTF-8.
    """
    return csv_lines(SHEET_COLUMNS, (_sheet_row(item, explanations) for item in items))


def review_pages(
    items: Iterable[ReviewItem],
    explanations: Mapping[str, str],
    per_page: int = 500,
    command: str = "compose",
    most: int = MAX_PAGES,
) -> Iterator[tuple[str, bytes]]:
    """Yield (file name, page): ``review.html``, ``review.2.html``, …; without items, one page that says so.

    Args:
      items: the held answers, in the order of :func:`review_order`. They are iterated over twice.
      explanations: reason id to a sentence in plain language.
      per_page: maximum number of items on a page; the items of an element stay together if possible.
      command: the pipeline that reads the decisions.
      most: maximum number of pages. Further items are only in the sheet.
    """
    sizes = _sizes(items, per_page)
    total, sizes = sum(sizes), sizes[:most]
    names = ["review.html", *(f"review.{number}.html" for number in range(2, len(sizes) + 1))]
    rest, before = iter(items), 0
    for number, size in enumerate(sizes, 1):
        place = {
            "number": number,
            "names": names,
            "first": before + 1,
            "last": before + size,
            "listed": sum(sizes),
            "total": total,
        }
        yield names[number - 1], _page(list(islice(rest, size)), explanations, place, command)
        before += size


@lru_cache(maxsize=1 << 10)  # the same answers are neighbours of many items
def visible(text: str) -> str:
    """Make a text safe to display: cut at MAX_SHOWN characters, with invisible ones as code points (``⟨U+202E⟩``)."""
    if text.isascii() and text.isprintable() and len(text) <= MAX_SHOWN:
        return text
    shown = "".join(_shown(c) for c in text[:MAX_SHOWN].replace("\r\n", "\n"))
    return shown if len(text) <= MAX_SHOWN else f"{shown}… ({len(text):,} characters in all)"


def _shown(c: str) -> str:
    if c == "\n" or unicodedata.category(c) not in _INVISIBLE:
        return c
    return f"\u27e8U+{ord(c):04X}\u27e9"


def _sheet_row(item: ReviewItem, explanations: Mapping[str, str]) -> list[str]:
    flags = " | ".join(f"{reason}: {explanation}" for reason, explanation in _flags(item, explanations).items())
    others = [
        f"{visible(text)} ({visible(IN_WORDS.get(disposition, disposition))})" for text, disposition in item.neighbours
    ]
    others += [f"and {item.more_neighbours} more"] if item.more_neighbours else []
    texts = [visible(text) for text in (item.prompt, item.original, item.answer)]
    return [item.response_id, "", "", "", "", item.element_id, item.task, flags, *texts, " | ".join(others)]


def _sizes(items: Iterable[ReviewItem], per_page: int) -> list[int]:
    """Return the number of items of each page; pages break between elements unless one does not fit on a page."""
    if per_page < 1:
        raise ValueError(f"per_page must be at least 1, not {per_page}")
    sizes = [0]
    for _, group in groupby(items, key=lambda item: item.element_id):
        element = sum(1 for _ in group)
        if sizes[-1] and sizes[-1] + element > per_page:
            sizes.append(0)
        whole, rest = divmod(sizes[-1] + element, per_page)
        sizes[-1:] = [*[per_page] * whole, rest]
    return sizes[:-1] if len(sizes) > 1 and not sizes[-1] else sizes


def _page(
    items: Sequence[ReviewItem], explanations: Mapping[str, str], place: Mapping[str, Any], command: str
) -> bytes:
    groups = _groups(items, explanations)
    counts = Counter(flag for group in groups for card in group["cards"] for flag in {*map(_id_of, card["flags"])})
    data = {
        "key": "parapet.review." + _digest(items),
        "file": "decisions.csv" if place["number"] == 1 else f"decisions.{place['number']}.csv",
        "maxCell": MAX_CELL,
        "items": [[item.response_id, item.answer[:MAX_CELL]] for item in items],
    }
    script, style = _asset("review.js"), _asset("review.css")
    page = render(
        "review.html.jinja",
        command=command,
        groups=groups,
        flags=sorted(counts.items()),
        services=sorted({group["service"] for group in groups}),
        place=place,
        data=data,
        max_cell=MAX_CELL,
        # Only our script and style run, whatever the texts contain.
        policy=(
            f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
            "base-uri 'none'; form-action 'none'"
        ),
        script=script,
        style=style,
    )
    return page.encode("utf-8", errors="replace")


def _groups(items: Sequence[ReviewItem], explanations: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the cards of each element and task, which share prompt and original."""

    def shared(pair: tuple[int, ReviewItem]) -> tuple[str, str, str, str]:
        item = pair[1]
        return item.element_id, item.task, item.prompt, item.original

    groups = []
    for (element_id, task, prompt, original), pairs in groupby(enumerate(items), key=shared):
        service, _, rest = element_id.partition("/")
        kind, _, name = rest.partition("/")
        words = _TASK_WORDS[task]
        groups.append(
            {
                "service": visible(service),
                "kind": visible(kind),
                "name": visible(name or service),
                "requested": words["requested"],
                "prompt_label": words["prompt"],
                "prompt": visible(prompt),
                "original_label": words["original"],
                "original": visible(original),
                "cards": [_card(index, item, explanations) for index, item in pairs],
            }
        )
    return groups


def _card(index: int, item: ReviewItem, explanations: Mapping[str, str]) -> dict[str, Any]:
    return {
        "index": index,
        "response_id": visible(item.response_id),
        "answer": visible(item.answer),
        "typed": visible(item.text) if item.text != item.answer else "",  # only shown if it differs from the output
        "flags": _flags(item, explanations),
        "same_answers": item.same_answers,
        "neighbours": [
            {
                "text": visible(text),
                "disposition": visible(disposition),
                "label": visible(IN_WORDS.get(disposition, disposition)),
            }
            for text, disposition in item.neighbours
        ],
        "more_neighbours": item.more_neighbours,
    }


def _flags(item: ReviewItem, explanations: Mapping[str, str]) -> dict[str, str]:
    """Return reason id to its explanation, for display."""
    reasons = dict.fromkeys(item.reasons)
    return {visible(r): visible(_explained(r, explanations)) for r in reasons}


def _id_of(reason: str) -> str:
    """Return a reason without its details: ``other_element`` for ``other_element: fare``."""
    return reason.partition(":")[0]


def _explained(reason: str, explanations: Mapping[str, str]) -> str:
    name = _id_of(reason)
    return explanations.get(name, name.replace("_", " "))


def _digest(items: Sequence[ReviewItem]) -> str:
    """Return the key of the page in the browser's storage, so that decisions never appear beside other answers."""
    key = json.dumps([[item.response_id, item.answer] for item in items])
    return hashlib.sha256(key.encode("ascii")).hexdigest()[:16]


@cache
def _asset(name: str) -> Markup:
    """Read a style or script of the page. Line ends are normalised, as browsers do before hashing."""
    text = resources.files("parapet.crowd_templates").joinpath(name).read_text("utf-8").replace("\r\n", "\n")
    return Markup(text)  # noqa: S704  # our own file


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
