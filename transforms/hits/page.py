"""Renders pages from questions. Nothing else of the schema comes in here."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import groupby

from parapet.schemas.elements import Task
from parapet.transforms.hits.markup import carriable, without_variables
from parapet.transforms.hits.questions import Question
from parapet.transforms.hits.terms import WORDING, HitTask
from parapet.transforms.pages import render

LIVE = "https://www.mturk.com/mturk/externalSubmit"
SANDBOX = "https://workersandbox.mturk.com/mturk/externalSubmit"

# Of the published SGD-X paraphrases the longest name has 8 words, the longest description 19; longer ones are essays.
# A rewriting may have so many more than the sentence that it is of.
MAX_WORDS: dict[HitTask, int] = {"names": 8, "descriptions": 25, "rewrites": 40}
MAX_LETTERS: dict[HitTask, int] = {"names": 60, "descriptions": 200, "rewrites": 300}

_BODY = "${body}"


def item_html(task: Task, question: Question) -> str:
    """One question as a list item, on one line."""
    return one_line(render("hit_item.html.jinja", task=task, q=question))


def body_html(task: Task, questions: Sequence[Question], items: Sequence[str]) -> str:
    """The sections of a page on one line, as the requester site's CSV has them.

    Args:
      task: the task.
      questions: the questions, those of one kind side by side.
      items: each question's :func:`item_html`.
    """
    pairs = zip(questions, items, strict=True)
    sections = [
        {"kind": kind, "items": [item for _, item in group]}
        for kind, group in groupby(pairs, lambda pair: pair[0].kind)
    ]
    return one_line(render("hit_body.html.jinja", task=task, sections=sections))


def page_html(task: HitTask, body: str, sandbox: bool = False) -> str:
    """A whole page around a body, ready for :func:`parapet.transforms.hits.question_xml.question_xml`.

    Args:
      task: the task.
      body: HTML as :func:`one_line` has made it.
      sandbox: whether the form goes to MTurk's sandbox.
    """
    before, after = _frame(task, sandbox)
    return before + body + after


@cache
def _frame(task: HitTask, sandbox: bool) -> tuple[str, str]:
    """What stands before and after the body of every page: rendered once, for there are thousands of pages."""
    context = {"task": task, "title": WORDING[task].title, "action": SANDBOX if sandbox else LIVE, "body": _BODY}
    before, _, after = carriable(render("hit_page.html.jinja", **context, **_limits(task))).partition(_BODY)
    return before, after


def requester_html(task: HitTask) -> str:
    """The template for the requester site: no form of its own, ``${body}`` in place of the questions."""
    return carriable(render("hit_requester.html.jinja", task=task, body=_BODY, **_limits(task)))


def one_line(html: str) -> str:
    """HTML for a body: on one line, as the requester site's CSV has it, with nothing that MTurk would not carry."""
    return without_variables("".join(line.strip() for line in carriable(html).split("\n")))


def _limits(task: HitTask) -> dict[str, int]:
    return {"max_words": MAX_WORDS[task], "max_letters": MAX_LETTERS[task]}
