"""The records of ``hits``, the HTML around a body, the cost of pages, and top-ups for what ``compose`` still needs.

All amounts of money are Decimal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from decimal import ROUND_DOWN, Decimal
from functools import cache
from typing import Any, Literal

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.schemas.limits import MAX_DIALOGUE_FILE, read_whole
from parapet.schemas.service import TASKS
from parapet.transforms.crowd.answer_files import read_rows
from parapet.transforms.crowd.hits.markup import MAX_BYTES, KeptValue, carriable, question_xml, without_variables
from parapet.transforms.crowd.hits.terms import (
    CENT,
    EXTRA_FEE_FROM,
    HOUR,
    WORDING,
    HitTask,
    Terms,
    estimated_seconds,
    fee_rate,
    plain,
    seconds_allowed,
)
from parapet.transforms.reports.report import render

AUTO, NONE = "auto", "none"  # values of --cues

TURNS_OF_ITEM = 3  # the turn before, the acts (about as long as a turn), and the utterance


class Settings(msgspec.Struct, frozen=True):
    """The settings that affect the pages.

    Attributes:
      cues: ``auto``, ``none`` or the file that ``written`` was read from.
      written: cues to the domain from that file, by service.
      sandbox: whether the forms go to MTurk's sandbox.
      only: the fields of a top-up, as (task id, form field); None for all fields.
      tasks: the tasks to make pages for.
      turns: the number of user turns to draw; None for all. ``seed`` is the seed of the draw.
      naturalness: whether to ask how natural judged utterances sound.
    """

    terms: Terms = Terms()
    sandbox: bool = False
    only: frozenset[tuple[str, str]] | None = None
    tasks: tuple[HitTask, ...] = TASKS
    turns: int | None = None
    seed: int = 0
    naturalness: bool = True
    cues: str = AUTO
    written: dict[str, str] = {}


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

    @property
    def values(self) -> tuple[str, ...]:
        """Return the values in the acts, except a plain yes."""
        return tuple(act.value for act in self.acts if act.value != "yes")

    def as_check(self, utterance: str) -> RatedItem:
        """Return a copy with an utterance that does not fit."""
        return msgspec.structs.replace(self, stratum=CHECK, faithful=False, utterance=utterance)


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

    @property
    def turns(self) -> int:
        """Return the number of turns to read: those up to the utterance, or those of all judged items."""
        if self.items is not None:
            return TURNS_OF_ITEM * len(self.items)
        return 0 if self.turn is None else self.turn + 1


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
    """All pages of a service or dialogue file. ``position`` is its position among the inputs.

    Attributes:
      not_drawn: the number of user turns that were not drawn.
    """

    position: int
    pages: list[Page]
    not_asked: list[NotAsked]
    not_drawn: int = 0


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
    """Return a whole page around a body, ready for :func:`parapet.transforms.crowd.hits.markup.question_xml`.

    Args:
      task: the task.
      body: HTML from :func:`one_line`.
      sandbox: whether the form goes to MTurk's sandbox.
    """
    before, after = _frame(task, sandbox)
    return before + body + after


@cache
def _frame(task: HitTask, sandbox: bool) -> tuple[str, str]:
    """Return the HTML before and after the body; cached because there are thousands of pages."""
    context = {"task": task, "title": WORDING[task].title, "action": SANDBOX if sandbox else LIVE, "body": _BODY}
    before, _, after = carriable(render("hit_page.html.jinja", **context, **_limits(task))).partition(_BODY)
    return before, after


def requester_html(task: HitTask) -> str:
    """Return the template for the requester site: without a form, and with ``${body}`` in place of the questions."""
    return carriable(render("hit_requester.html.jinja", task=task, body=_BODY, **_limits(task)))


def one_line(html: str) -> str:
    """Put the HTML of a body on one line, for the requester site's CSV, and encode it for MTurk."""
    return without_variables("".join(line.strip() for line in carriable(html).split("\n")))


def _limits(task: HitTask) -> dict[str, int]:
    return {"max_words": MAX_WORDS.get(task, 0), "max_letters": MAX_LETTERS.get(task, 0)}


@cache
def capacity(task: HitTask) -> int:
    """Return the maximum number of bytes of a page's body."""
    # The sandbox's address is the longer one.
    return MAX_BYTES - SITE_BYTES - len(question_xml(page_html(task, "", sandbox=True)))


def make_page(
    task: HitTask,
    stem: str,
    body: str,
    settings: Settings,
    *,
    task_id: str,
    fields: Sequence[str],
    turns: int = 0,
    **about: Any,
) -> Page:
    """Make a page and its record.

    Args:
      task: the task.
      stem: the path of the page's files below the output folder, without extension.
      body: at most :func:`capacity` bytes.
      settings: the terms, and where the form goes.
      task_id: the task id.
      fields: the form fields.
      turns: the number of turns to read.
      about: further fields of the record: the service, the elements, the turn or the items.
    """
    terms, wording = settings.terms, WORDING[task]
    html = page_html(task, body, settings.sandbox)
    question = question_xml(html)
    if len(question) > MAX_BYTES:
        raise AssertionError(f"{stem} has {len(question)} bytes")
    size = (task, len(fields), turns)
    record = PageRecord(
        task_id=task_id,
        task=task,
        page=f"{stem}.html",
        question=f"{stem}.xml",
        fields=list(fields),
        bytes=len(question),
        sha256=hashlib.sha256(question).hexdigest(),
        title=wording.title,
        description=wording.description,
        keywords=wording.keywords,
        reward=f"{terms.reward_for(*size):f}",
        assignments=terms.assignments,
        requester_annotation=task_id,
        assignment_duration_seconds=seconds_allowed(*size),
        auto_approval_delay_seconds=terms.auto_approval_hours * HOUR,
        lifetime_seconds=terms.lifetime_days * 24 * HOUR,
        estimated_seconds=estimated_seconds(*size),
        **about,
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


MOST = EXTRA_FEE_FROM - 1  # assignments of a HIT at the lower fee


class PlanRow(msgspec.Struct, frozen=True):
    """One row of the cost table.

    Attributes:
      hits: the number of HITs. ``fields`` is the number of their form fields, ``assignments`` of submissions.
      reward: dollars paid to workers. ``fees`` are paid to MTurk; ``cost`` is the sum.
      estimated_minutes: the estimate for all assignments together.
      hourly_pay: dollars per hour at the estimated pace, rounded down.
    """

    hits: int
    fields: int
    assignments: int
    reward: Decimal
    fees: Decimal
    cost: Decimal
    estimated_minutes: Decimal
    hourly_pay: Decimal


class Plan(msgspec.Struct, frozen=True):
    """The cost table, by task and in total."""

    terms: Terms
    rows: dict[str, PlanRow]
    not_asked: list[NotAsked]

    def to_json(self) -> dict[str, Any]:
        """Return the content of ``plan.json``."""
        rows = {
            name: {key: plain(getattr(row, key)) for key in row.__struct_fields__} for name, row in self.rows.items()
        }
        total = rows.pop("total")
        return {
            "currency": "USD",
            "tasks": rows,
            "total": total,
            "fee_rate": plain(fee_rate(self.terms.assignments)),
            "terms": self.terms.to_json(),
            "not_asked": msgspec.to_builtins(self.not_asked),
        }

    def not_asked_by_reason(self) -> dict[str, list[str]]:
        """Return reason to the sorted ids of tasks that are left out."""
        by_reason: dict[str, list[str]] = {}
        for each in sorted(self.not_asked, key=lambda each: each.reason):
            by_reason.setdefault(each.reason, []).append(each.task_id)
        return by_reason

    def table(self) -> str:
        """Format the cost table as aligned text."""
        head = ["", "HITs", "fields", "assignments", "reward", "fees", "cost", "hours", "pay an hour"]
        return aligned([head, *([name, *cells] for name, cells in self.cells().items())])

    def cells(self) -> dict[str, list[str]]:
        """Return the formatted numbers of each row, with hours instead of minutes."""
        return {
            name: [
                f"{row.hits:,}",
                f"{row.fields:,}",
                f"{row.assignments:,}",
                *(f"${amount:,.2f}" for amount in (row.reward, row.fees, row.cost)),
                f"{row.estimated_minutes / 60:,.1f}",
                f"${row.hourly_pay:,.2f}",
            ]
            for name, row in self.rows.items()
        }


def make_plan(
    records: Iterable[PageRecord], not_asked: Iterable[NotAsked], terms: Terms, tasks: Sequence[HitTask] = TASKS
) -> Plan:
    """Add up the pages, with a row for each of ``tasks``. The order of ``records`` does not matter."""
    records = list(records)
    rows: dict[str, PlanRow] = {
        task: _row([record for record in records if record.task == task], terms) for task in tasks
    }
    ordered = sorted(not_asked, key=lambda each: (each.task_id, each.element_id, each.reason))
    return Plan(terms, {**rows, "total": _row(records, terms)}, ordered)


def _row(records: list[PageRecord], terms: Terms) -> PlanRow:
    rewards = [Decimal(record.reward) for record in records]
    each = (estimated_seconds(record.task, len(record.fields), record.turns) for record in records)
    seconds = Decimal(sum(each) * terms.assignments)
    reward = sum(rewards, Decimal(0)) * terms.assignments
    fees = sum(map(terms.fees_for, rewards), Decimal(0))
    return PlanRow(
        hits=len(records),
        fields=sum(len(record.fields) for record in records),
        assignments=len(records) * terms.assignments,
        reward=reward.quantize(CENT),
        fees=fees.quantize(CENT),
        cost=(reward + fees).quantize(CENT),
        estimated_minutes=(seconds / 60).quantize(Decimal("0.1")),
        hourly_pay=(reward * HOUR / seconds if seconds else Decimal(0)).quantize(CENT, rounding=ROUND_DOWN),
    )


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Format rows of cells as lines with aligned columns: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in rows)
    return "\n".join("  ".join(line).rstrip() for line in lines)


def top_up_assignments(most_missing: int) -> int:
    """Return the workers per HIT for ``most_missing`` good answers, below the higher fee: about half are good."""
    return max(1, min(MOST, 2 * most_missing))


def read_shortfall(path: str) -> dict[tuple[str, str], int]:
    """Read what a ``shortfall.csv`` of ``compose`` lists: (task id, form field) to the number of missing good answers.

    Raises:
      InputError: the file is not a shortfall file, or lists nothing; with the row.
    """
    lacks: dict[tuple[str, str], int] = {}
    for number, row in read_rows(path, ("service_name", "task", "field", "have", "need")):
        try:
            missing = max(1, int(row["need"]) - int(row["have"]))
        except ValueError:
            raise InputError("'have' and 'need' must be numbers", path, f"row {number}") from None
        lacks[f"{row['service_name']}:{row['task']}", row["field"]] = missing
    if not lacks:
        raise InputError("no answers are missing, so there is nothing to ask for", path)
    return lacks
