"""The review of answers that the automatic checks held back: the sheet, and the page that reads better than it."""

from __future__ import annotations

import base64
import hashlib
import heapq
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
from parapet.transforms.reports.report import render

SHEET_COLUMNS = (*COLUMNS, "element_id", "task", "flags", "prompt", "original", "answer", "neighbours")

# Characters of any one text, and other answers per item, that are shown; responses.parquet has the whole.
MAX_SHOWN = 2000
MAX_NEIGHBOURS = 30

# Pages that are made: more answers than these have nobody decides on before the next run.
MAX_PAGES = 100

# Nothing to see in these, and some of them turn the text around them: they are shown by their number.
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
    """One answer for a person to judge.

    Attributes:
      element_id: what it is about, in three parts: ``SERVICE/slot/NAME``; of rewrites ``SERVICES/turn/DIALOGUE:TURN``.
      task: ``names`` or ``descriptions``; of rewrites the kind of variation.
      prompt: what the worker saw; of rewrites the turn before.
      original: the text that was hidden from the worker; of rewrites the sentence.
      text: the answer as typed.
      canonical: the answer as it would be emitted.
      reasons: ids of the checks that held it back.
      same_answers: how many workers gave the same words, this one included.
      neighbours: (canonical, disposition) of the other answers for the element: those that are shown.
      more_neighbours: how many others there are.
      doubt: of the most doubtful answer for the element that is held, and its own; the smaller, the more doubtful.
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
        """What an accepted answer becomes; the text as typed where that is empty."""
        return self.canonical or self.text


def review_order(item: ReviewItem) -> tuple[float, str, str, float, str]:
    """Sorts items by doubt, those of an element together: the order of sheet and pages."""
    most, own = item.doubt
    return most, item.element_id, item.task, own, item.response_id


class Neighbours:
    """The answers for an element, from which each of its items shows the others: sorted once for all of them.

    Args:
      answers: (canonical, disposition) of each distinct answer. Rejected ones are not shown: they would only fill the
        list.
    """

    def __init__(self, answers: Iterable[tuple[str, str]]) -> None:
        self._counts = Counter(answer for answer in answers if answer[1] != "rejected")
        # One more than is shown, because an item's own answer is left out.
        self._first = heapq.nsmallest(MAX_NEIGHBOURS + 1, self._counts, key=_used_first)

    def of(self, canonical: str, disposition: str) -> tuple[list[tuple[str, str]], int]:
        """The neighbours that are shown beside an answer, and how many more there are."""
        own = (canonical, disposition)
        alone = self._counts[own] == 1
        shown = [other for other in self._first if not alone or other != own][:MAX_NEIGHBOURS]
        return shown, len(self._counts) - alone - len(shown)


def _used_first(answer: tuple[str, str]) -> tuple[bool, str, str]:
    text, disposition = answer
    return disposition != "used", disposition, text


def review_sheet(items: Iterable[ReviewItem], explanations: Mapping[str, str]) -> Iterator[bytes]:
    """The review sheet: a decisions file with its decisions still empty, and what one needs to take them.

    Args:
      items: the answers held back, in the order of :func:`review_order`.
      explanations: a sentence in plain language for each reason id.

    Yields:
      A line at a time, in UTF-8.
    """
    return csv_lines(SHEET_COLUMNS, (_sheet_row(item, explanations) for item in items))


def review_pages(
    items: Iterable[ReviewItem],
    explanations: Mapping[str, str],
    per_page: int = 500,
    command: str = "compose",
    most: int = MAX_PAGES,
) -> Iterator[tuple[str, bytes]]:
    """Yields (file name, page): ``review.html``, ``review.2.html``, …; a page that says so where nothing is held.

    Args:
      items: the answers held back, in the order of :func:`review_order`. They are iterated over twice.
      explanations: a sentence in plain language for each reason id.
      per_page: items on a page at most; the items of an element stay together where they can.
      command: the pipeline that takes the decisions.
      most: pages at most. Those that come first are on them, and all in the sheet.
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


@lru_cache(maxsize=1 << 10)  # the answers for an element are beside each of its items
def visible(text: str) -> str:
    """The text for the eye: cut at MAX_SHOWN characters, invisible ones shown by number (``⟨U+202E⟩``)."""
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
    others = [f"{visible(text)} ({visible(disposition)})" for text, disposition in item.neighbours]
    others += [f"and {item.more_neighbours} more"] if item.more_neighbours else []
    texts = [visible(text) for text in (item.prompt, item.original, item.answer)]
    return [item.response_id, "", "", "", "", item.element_id, item.task, flags, *texts, " | ".join(others)]


def _sizes(items: Iterable[ReviewItem], per_page: int) -> list[int]:
    """The numbers of items of each page, cut between elements; one with more items than a page holds is cut itself."""
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
        # Only these two run, whatever the texts hold.
        policy=(
            f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
            "base-uri 'none'; form-action 'none'"
        ),
        script=script,
        style=style,
    )
    return page.encode("utf-8", errors="replace")


def _groups(items: Sequence[ReviewItem], explanations: Mapping[str, str]) -> list[dict[str, Any]]:
    """The cards of each element and task, which share prompt and original."""

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
        "typed": visible(item.text) if item.text != item.answer else "",  # where it is not what is emitted
        "flags": _flags(item, explanations),
        "same_answers": item.same_answers,
        "neighbours": [{"text": visible(text), "disposition": visible(said)} for text, said in item.neighbours],
        "more_neighbours": item.more_neighbours,
    }


def _flags(item: ReviewItem, explanations: Mapping[str, str]) -> dict[str, str]:
    """Reason id to what a person should know of it."""
    reasons = dict.fromkeys(item.reasons)
    return {visible(r): visible(_explained(r, explanations)) for r in reasons}


def _id_of(reason: str) -> str:
    """A reason without what it is about: ``other_element`` of ``other_element: fare``."""
    return reason.partition(":")[0]


def _explained(reason: str, explanations: Mapping[str, str]) -> str:
    name = _id_of(reason)
    return explanations.get(name, name.replace("_", " "))


def _digest(items: Sequence[ReviewItem]) -> str:
    """Names the page's place in the browser's storage: decisions never turn up beside other answers."""
    key = json.dumps([[item.response_id, item.answer] for item in items])
    return hashlib.sha256(key.encode("ascii")).hexdigest()[:16]


@cache
def _asset(name: str) -> Markup:
    """A style or script of the page. Line ends are normalised, as browsers do before they hash."""
    text = resources.files("parapet.crowd_templates").joinpath(name).read_text("utf-8").replace("\r\n", "\n")
    return Markup(text)  # noqa: S704  # our own file


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
