"""The records of ``hits``, the HTML around the body of a page, and the distribution of questions over pages."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Literal

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.schemas.limits import MAX_DIALOGUE_FILE, read_whole
from parapet.schemas.service import TASKS
from parapet.transforms.crowd.hits.markup import MAX_BYTES, KeptValue, carriable, question_xml, without_variables
from parapet.transforms.crowd.hits.terms import SCHEMAS, WORDING, HitTask, Terms, estimated_seconds, seconds_allowed
from parapet.transforms.reports.report import render

AUTO, NONE = "auto", "none"  # values of --cues


class Settings(msgspec.Struct, frozen=True):
    """The settings that affect the pages.

    Attributes:
      sandbox: whether the forms go to MTurk's sandbox.
      only: the fields of a top-up, as (task id, form field); None for all fields.
      tasks: the tasks to make pages for.
      turns: the number of user turns to draw; None for all. ``seed`` is the seed of the draw.
      naturalness: whether to ask how natural judged utterances sound.
      cues: what ``names`` pages say that the app is: ``auto``, ``none``, or cues written by a person, by service.
    """

    terms: Terms = Terms()
    sandbox: bool = False
    only: frozenset[tuple[str, str]] | None = None
    tasks: tuple[HitTask, ...] = TASKS
    turns: int | None = None
    seed: int = 0
    naturalness: bool = True
    cues: str | dict[str, str] = AUTO

    @property
    def kind(self) -> str:
        """Return the value of ``--task``: that of the pages, or ``schemas`` for both tasks on schemas."""
        return SCHEMAS if self.tasks == TASKS else self.tasks[0]


class PlainAct(msgspec.Struct, frozen=True):
    """A dialogue act in words that a worker understands.

    Attributes:
      does: the task of the reply, such as ``Ask for``.
      about: the description of a slot or intent, or an empty string.
      value: the values to mention, or an empty string.
    """

    does: str
    about: str = ""
    value: str = ""

    @property
    def text(self) -> str:
        """Return the act as one line of the page."""
        return ": ".join(filter(None, [self.does, " – ".join(filter(None, [self.about, self.value]))]))


CHECK: Literal["check"] = "check"
Stratum = Literal["faithful", "unfaithful", "invalid", "check"]
Place = tuple[str, int]  # of a judged utterance: dialogue and turn


class RatedItem(msgspec.Struct, frozen=True):
    """An utterance to be judged. Its page shows only the acts, the previous turn and the utterance.

    Attributes:
      dialogue_id: the dialogue. ``turn`` is the position of the system's turn in it, from 0.
      stratum: ``faithful`` and ``unfaithful`` are the metric's verdicts on a valid turn, ``invalid`` is a turn that
        fails its validation, and ``check`` a turn with the utterance of another turn.
      faithful: the metric's verdict, whether the turn is valid or not. False for a check.
      acts: the required content of the utterance.
      previous: the previous turn, or an empty string.
      utterance: the system's utterance.
    """

    dialogue_id: str
    turn: int
    stratum: Stratum
    faithful: bool
    service_name: str
    acts: tuple[PlainAct, ...]
    previous: str
    utterance: str

    @property
    def place(self) -> Place:
        """Return the key that identifies the item among those of its task."""
        return self.dialogue_id, self.turn


class PageRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of ``manifest.jsonl``: one HIT, with everything needed to publish it except the question's text.

    Fields that schema tasks do not use come last, have defaults, and are left out of the lines of other tasks.

    Attributes:
      page: the path of the HTML below the output folder; ``question`` is the path of its HTMLQuestion.
      fields: the page's form fields in order; ``element_ids`` are the elements that they are about.
      ambiguous: the ids of elements shown with their description.
      bytes: size of the question; ``sha256`` is its hash.
      reward: dollars, in MTurk's format.
      requester_annotation: the task id.
      cue: the page's description of the app as a whole.
      dialogue_id: the dialogue. ``turn`` is the position of the utterance in it, from 0, ``file`` its file.
      utterance: the sentence to be rewritten, as the page shows it.
      values: the texts that every answer must contain verbatim; None if nothing is rewritten.
      items: the rated utterances, in the order of the page and of ``fields``, with one or two fields each.
    """

    task_id: str
    service_name: str
    task: HitTask
    part: int
    parts: int
    page: str
    question: str
    fields: list[str]
    element_ids: list[str]
    ambiguous: list[str]
    bytes: int
    sha256: str
    title: str
    description: str
    keywords: str
    reward: str
    assignments: int
    requester_annotation: str
    assignment_duration_seconds: int
    auto_approval_delay_seconds: int
    lifetime_seconds: int
    estimated_seconds: int
    cue: str = ""
    dialogue_id: str = ""
    turn: int | None = None
    file: str = ""
    utterance: str = ""
    values: list[KeptValue] | None = None
    items: list[RatedItem] | None = None


def read_manifest(folder: str) -> Iterator[tuple[str, PageRecord]]:
    """Yield (``row N``, record) for the pages in a folder.

    Raises InputError if it is not the output of ``parapet hits``.
    """
    path = as_path(folder) / "manifest.jsonl"
    try:
        lines = read_whole(path, MAX_DIALOGUE_FILE).splitlines()
    except InputError as error:
        raise InputError(f"not the output of 'parapet hits': {error.reason}", path, "--hits") from None
    for number, line in enumerate(lines, 1):
        try:
            yield f"row {number}", msgspec.json.decode(line, type=PageRecord)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"not a manifest of 'parapet hits': {error}", path, f"row {number}") from None


class NotAsked(msgspec.Struct, frozen=True):
    """An element or turn that is left out, and the reason."""

    task_id: str
    element_id: str
    reason: str


class Page(msgspec.Struct, frozen=True):
    """A rendered page. ``body`` is the part between the two parts of the requester template."""

    record: PageRecord
    html: bytes
    question: bytes
    body: str


class Hits(msgspec.Struct, frozen=True):
    """The pages of a service, a dialogue file or a group of utterances, what is on none of them, and their counts."""

    pages: list[Page]
    not_asked: list[NotAsked]
    counts: dict[str, int]


LIVE = "https://www.mturk.com/mturk/externalSubmit"
SANDBOX = "https://workersandbox.mturk.com/mturk/externalSubmit"

# In the published SGD-X paraphrases, the longest name has 8 words and the longest description 19.
MAX_WORDS: dict[HitTask, int] = {"names": 8, "descriptions": 25, "rewrites": 40}
MAX_LETTERS: dict[HitTask, int] = {"names": 60, "descriptions": 200, "rewrites": 300}

_BODY = "${body}"

TOO_LARGE = f"too_large: the text alone exceeds the {MAX_BYTES:,} bytes of an HTMLQuestion"

# Room for what the requester site adds around a page.
SITE_BYTES = 1_024


def page_html(task: HitTask, body: str, sandbox: bool = False) -> str:
    """Return the whole page around a body of results of :func:`render_part`; the form goes to MTurk or its sandbox."""
    before, after = _frame(task, sandbox)
    return before + body + after


@cache
def _frame(task: HitTask, sandbox: bool) -> tuple[str, str]:
    """Return the HTML before and after the body; cached because there are thousands of pages."""
    action = SANDBOX if sandbox else LIVE
    html = render("hit_page.html.jinja", title=WORDING[task].title, action=action, **_content(task))
    before, _, after = carriable(html).partition(_BODY)
    return before, after


def requester_html(task: HitTask) -> str:
    """Return the template for the requester site: without a form, and with ``${body}`` in place of the questions."""
    return carriable(render("hit_requester.html.jinja", **_content(task)))


def _content(task: HitTask) -> dict[str, object]:
    limits = {"max_words": MAX_WORDS.get(task, 0), "max_letters": MAX_LETTERS.get(task, 0)}
    return {"task": task, "body": _BODY, **limits}


def render_part(template: str, **context: Any) -> str:
    """Render a part of a body on one line, for the requester site's CSV, and encode it for MTurk."""
    lines = carriable(render(template, **context)).split("\n")
    return without_variables("".join(line.strip() for line in lines))


@cache
def capacity(task: HitTask) -> int:
    """Return the maximum number of bytes of a page's body."""
    # The sandbox's address is the longer one.
    return MAX_BYTES - SITE_BYTES - len(question_xml(page_html(task, "", sandbox=True)))


def make_page(
    task: HitTask,
    name: str,
    body: str,
    settings: Settings,
    *,
    task_id: str,
    fields: list[str],
    turns: int = 0,
    part: int = 1,
    **about: Any,
) -> Page:
    """Make a page and its record.

    Args:
      task: the task.
      name: the first part of the names of the page's files, which all parts share.
      body: at most :func:`capacity` bytes.
      settings: the terms, and where the form goes.
      task_id: the task id.
      fields: the form fields.
      turns: the number of turns to read.
      part: the number of the part, from 1.
      about: further fields of the record: the service, the elements, the turn or the items.
    """
    terms = settings.terms
    question = question_xml(html := page_html(task, body, settings.sandbox))
    seconds = estimated_seconds(task, len(fields), turns)
    stem = f"pages/{name}.{task}" + (f".{part}" if part > 1 else "")
    record = PageRecord(
        task=task,
        task_id=task_id,
        part=part,
        page=f"{stem}.html",
        question=f"{stem}.xml",
        fields=fields,
        bytes=len(question),
        sha256=hashlib.sha256(question).hexdigest(),
        **msgspec.structs.asdict(WORDING[task]),
        reward=f"{terms.reward_for(seconds):f}",
        assignments=terms.assignments,
        requester_annotation=task_id,
        assignment_duration_seconds=seconds_allowed(seconds),
        auto_approval_delay_seconds=terms.auto_approval_hours * 3_600,
        lifetime_seconds=terms.lifetime_days * 86_400,
        estimated_seconds=seconds,
        **{"parts": 1, "element_ids": [], "ambiguous": [], **about},
    )
    return Page(record, html.encode(), question, body)


def fit(items: Sequence[str], room: int) -> tuple[list[list[int]], list[int]]:
    """Distribute items over pages, in order.

    Args:
      items: the items as HTML.
      room: bytes available for the items of a page.

    Returns:
      The positions of the items of each page, and the positions of items that are too large for any page.
    """
    pages: list[list[int]] = []
    large: list[int] = []
    used = room
    for i, size in enumerate(len(item.encode()) for item in items):
        if size > room:
            large.append(i)
        elif used + size > room:
            pages.append([i])
            used = size
        else:
            pages[-1].append(i)
            used += size
    return pages, large
