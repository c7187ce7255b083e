"""The records of ``hits``, how text is encoded for pages and MTurk, the HTML around a body, its parts, and the cost.

All amounts of money are Decimal.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import ROUND_DOWN, Decimal
from functools import cache
from operator import itemgetter
from typing import Any, Literal

import msgspec

from parapet.schemas import layout, limits
from parapet.schemas.errors import InputError
from parapet.schemas.service import TASKS
from parapet.transforms.crowd.answer_files import read_rows
from parapet.transforms.crowd.hits import terms
from parapet.transforms.crowd.hits.terms import SCHEMAS, HitTask, Terms
from parapet.transforms.report.report import render
from parapet.transforms.report.text import aligned, counted

# Not allowed in XML 1.0: C0 controls except tab and line ends, surrogates, the two non-characters.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
_LINE_ENDS = re.compile("\r\n?")

NAMESPACE = "http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2011-11-11/HTMLQuestion.xsd"
MAX_BYTES = 65_535

# FrameHeight 0: the page fills the frame of the worker's site.
_BEFORE = f'<HTMLQuestion xmlns="{NAMESPACE}"><HTMLContent><![CDATA['
_AFTER = "]]></HTMLContent><FrameHeight>0</FrameHeight></HTMLQuestion>"


def shown(text: str) -> str:
    """Cleans a text of the schema for display: single spaces, no characters that XML forbids."""
    return " ".join(_FORBIDDEN.sub(" ", text).split())


def carriable(html: str) -> str:
    """Encodes HTML so that it passes through MTurk unchanged.

    Line ends become ``\\n`` (as in an XML parser), forbidden characters are removed, and characters beyond the basic
    plane become numeric references (MTurk refuses four-byte characters). Not suitable for scripts with such characters.
    """
    html = _FORBIDDEN.sub("", _LINE_ENDS.sub("\n", html))
    return _ASTRAL.sub(lambda match: f"&#{ord(match.group())};", html)


def without_variables(html: str) -> str:
    """Escapes ``${``, so that the requester site does not substitute variables."""
    return html.replace("${", "&#36;{")


def question_xml(html: str) -> bytes:
    """Wraps a page that :func:`carriable` has encoded in an HTMLQuestion."""
    # "]]>" would end the CDATA section, so it is split across two sections.
    return (_BEFORE + html.replace("]]>", "]]]]><![CDATA[>") + _AFTER).encode("utf-8")


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
        """Returns the value of ``--task``: that of the pages, or ``schemas`` for both tasks on schemas."""
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
        """Returns the act as one line of the page."""
        return ": ".join(filter(None, [self.does, " – ".join(filter(None, [self.about, self.value]))]))


CHECK: Literal["check"] = "check"
Stratum = Literal["faithful", "unfaithful", "invalid", "check"]
Place = tuple[str, int] | tuple[str, int, int]  # of a judged utterance: dialogue and turn, and the act if it is one


class RatedItem(msgspec.Struct, frozen=True, omit_defaults=True):
    """An utterance to be judged. Its page shows only the acts, the previous turn and the utterance.

    Attributes:
      dialogue_id: the dialogue. ``turn`` is the position of the system's turn in it, from 0.
      stratum: ``faithful`` and ``unfaithful`` are the metric's verdicts on a valid turn, ``invalid`` is a turn that
        fails its validation, and ``check`` a turn with the utterance of another turn.
      faithful: the metric's verdict, whether the turn is valid or not. False for a check.
      acts: the required content of the utterance.
      previous: the previous turn, or an empty string.
      utterance: the system's utterance.
      act: the position in the turn, from 0, of the one act by which the utterance is judged; None for all acts.
    """

    dialogue_id: str
    turn: int
    stratum: Stratum
    faithful: bool
    service_name: str
    acts: tuple[PlainAct, ...]
    previous: str
    utterance: str
    act: int | None = None

    @property
    def place(self) -> Place:
        """Returns the key that identifies the item among those of its task."""
        return (self.dialogue_id, self.turn) if self.act is None else (self.dialogue_id, self.turn, self.act)


class KeptValue(msgspec.Struct, frozen=True):
    """A value, as the page shows it, that an answer must contain verbatim, and its slot."""

    slot: str
    service: str
    value: str


class PageRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of ``manifest.jsonl``: one HIT, with everything needed to publish it except the question's text.

    Fields that schema tasks do not use come last, have defaults, and are left out of the lines of other tasks.

    Attributes:
      page: the path of the HTML below the output folder; ``question`` is the path of its HTMLQuestion.
      fields: the page's form fields in order; ``element_ids`` are the elements that they are about.
      ambiguous: the ids of elements shown with their description.
      bytes: size of the question; ``sha256`` is its hash.
      reward: dollars.
      requester_annotation: the task id.
      max_per_worker: the number of assignments of all HITs that one worker may do; 0 for any.
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
    reward: Decimal
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
    max_per_worker: int = 0


def read_manifest(folder: str) -> Iterator[PageRecord]:
    """Yields the records of the pages in a folder. Raises InputError if it is not the output of ``parapet hits``."""
    path = layout.as_path(folder) / "manifest.jsonl"
    try:
        lines = limits.read_whole(path, limits.MAX_DIALOGUE_FILE).splitlines()
    except InputError as error:
        raise InputError(f"not the output of 'parapet hits': {error.reason}", path, "--hits") from None
    for number, line in enumerate(lines, 1):
        try:
            yield msgspec.json.decode(line, type=PageRecord)
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

    counts: dict[str, int]
    pages: list[Page] = []
    not_asked: list[NotAsked] = []


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
    """Returns the whole page around a body of results of :func:`render_part`; the form goes to MTurk or its sandbox."""
    frame = _frame("hit_page.html.jinja", task, title=terms.WORDING[task].title, action=SANDBOX if sandbox else LIVE)
    return frame.replace(_BODY, body)


def requester_html(task: HitTask) -> str:
    """Returns the template for the requester site: without a form, and with ``${body}`` in place of the questions."""
    return _frame("hit_requester.html.jinja", task)


@cache
def _frame(template: str, task: HitTask, **context: str) -> str:
    """Renders what surrounds the body; cached because there are thousands of pages."""
    limits = {"max_words": MAX_WORDS.get(task, 0), "max_letters": MAX_LETTERS.get(task, 0)}
    return carriable(render(template, task=task, body=_BODY, **limits, **context))


def render_part(template: str, **context: Any) -> str:
    """Renders a part of a body on one line, for the requester site's CSV, and encodes it for MTurk."""
    return without_variables("".join(line.strip() for line in carriable(render(template, **context)).split("\n")))


@cache
def capacity(task: HitTask) -> int:
    """Returns the maximum number of bytes of a page's body."""
    # The sandbox's address is the longer one.
    return MAX_BYTES - SITE_BYTES - len(question_xml(page_html(task, "", sandbox=True)))


class Part(msgspec.Struct, frozen=True):
    """A part of a body that is not divided between pages.

    Attributes:
      id: the element id in ``not_asked`` if the part is too large.
      fields: its form fields.
      source: the question or utterance that it shows.
      turns: the number of turns to read.
    """

    html: str
    id: str
    fields: Sequence[str]
    source: Any = None
    turns: int = 0


Parts = Sequence[Part]


def add_pages(
    hits: Hits,
    task: HitTask,
    task_id: str,
    name: str,
    parts: Parts,
    body: Callable[[Parts], str],
    about: Callable[[Parts], dict[str, Any]],
    settings: Settings,
) -> None:
    """Distributes parts over as few pages as they need, in order; parts that are too large for any page are not asked.

    Args:
      hits: the pages are added here.
      task: the task.
      task_id: the task id.
      name: the first part of the names of all files.
      parts: the parts.
      body: returns the body of a page with some of the parts.
      about: returns the fields of its record that differ between tasks.
      settings: the terms, and where the form goes.
    """
    offer = settings.terms
    around = body([msgspec.structs.replace(part, html="") for part in parts])
    runs, large = fit(parts, capacity(task) - len(around.encode()))
    hits.not_asked.extend(NotAsked(task_id, part.id, TOO_LARGE) for part in large)
    for number, run in enumerate(runs, 1):
        page_body = body(run)
        question = question_xml(html := page_html(task, page_body, settings.sandbox))
        fields = [field for part in run for field in part.fields]
        seconds = terms.estimated_seconds(task, len(fields), sum(part.turns for part in run))
        stem = f"pages/{name}.{task}" + (f".{number}" if number > 1 else "")
        record = PageRecord(
            task=task,
            task_id=task_id,
            part=number,
            parts=len(runs),
            page=f"{stem}.html",
            question=f"{stem}.xml",
            fields=fields,
            bytes=len(question),
            sha256=hashlib.sha256(question).hexdigest(),
            **msgspec.structs.asdict(terms.WORDING[task]),
            reward=offer.reward_for(seconds),
            assignments=offer.assignments,
            requester_annotation=task_id,
            assignment_duration_seconds=terms.seconds_allowed(seconds),
            auto_approval_delay_seconds=offer.auto_approval_hours * 3_600,
            lifetime_seconds=offer.lifetime_days * 86_400,
            max_per_worker=offer.max_per_worker,
            estimated_seconds=seconds,
            **{"element_ids": [], "ambiguous": [], **about(run)},
        )
        hits.pages.append(Page(record, html.encode(), question, page_body))


def fit(parts: Parts, room: int) -> tuple[list[list[Part]], list[Part]]:
    """Distributes parts over pages with ``room`` bytes each. Returns the pages, and parts too large for any."""
    pages: list[list[Part]] = []
    large: list[Part] = []
    used = room
    for part in parts:
        size = len(part.html.encode())
        if size > room:
            large.append(part)
            continue
        if used + size > room:
            pages.append([])
            used = 0
        pages[-1].append(part)
        used += size
    return pages, large


# The assignments of a worker of SGD-X, whose authors paid 1 to 2 dollars for each, 2,000 in all, to over 400 workers.
SPREAD = 3


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

    def cells(self) -> list[str]:
        """Formats the numbers, with hours instead of minutes."""
        numbers = (f"{number:,}" for number in (self.hits, self.fields, self.assignments))
        amounts = (f"${amount:,.2f}" for amount in (self.reward, self.fees, self.cost))
        return [*numbers, *amounts, f"{self.estimated_minutes / 60:,.1f}", f"${self.hourly_pay:,.2f}"]


class Plan(msgspec.Struct, frozen=True):
    """The content of ``plan.json``: the cost by task and in total, and what no page asks about."""

    currency: Literal["USD"]
    tasks: dict[HitTask, PlanRow]
    total: PlanRow
    fee_rate: Decimal
    terms: Terms
    not_asked: list[NotAsked]

    def not_asked_by_reason(self) -> dict[str, list[str]]:
        """Returns reason to the sorted ids of tasks that are left out."""
        by_reason: dict[str, list[str]] = {}
        for each in sorted(self.not_asked, key=lambda each: each.reason):
            by_reason.setdefault(each.reason, []).append(each.task_id)
        return by_reason

    def cells(self) -> dict[str, list[str]]:
        """Returns the cells of each row of the cost table."""
        return {**{task: row.cells() for task, row in self.tasks.items()}, "total": self.total.cells()}

    def workers(self) -> str:
        """Says how few workers could do everything, see :func:`workers_needed`."""
        hits = [(task, self.terms.assignments) for task, row in self.tasks.items() for _ in range(row.hits)]
        return workers_needed(hits, self.terms.max_per_worker)

    def table(self) -> str:
        """Formats the cost table as aligned text."""
        head = ["", "HITs", "fields", "assignments", "reward", "fees", "cost", "hours", "pay an hour"]
        return aligned([head, *([name, *cells] for name, cells in self.cells().items())])


def make_plan(records: Iterable[PageRecord], not_asked: Iterable[NotAsked], settings: Settings) -> Plan:
    """Adds up the pages, and sorts what is not asked. Raises InputError if there is nothing to ask about."""
    offer = settings.terms
    # Of each page, which may be large, only what its cost depends on.
    sizes = [(each.task, len(each.fields), each.reward, each.estimated_seconds) for each in records]
    left_out = sorted(not_asked, key=lambda each: (each.task_id, each.element_id, each.reason))
    if not sizes and not left_out:  # of services and utterances, there is always something to ask
        raise InputError("contains no user turns, so nothing was written", "--dialogues")
    tasks = {task: _row([size for size in sizes if size[0] == task], offer) for task in settings.tasks}
    return Plan("USD", tasks, _row(sizes, offer), terms.fee_rate(offer.assignments), offer, left_out)


def _row(pages: Sequence[tuple[HitTask, int, Decimal, int]], offer: Terms) -> PlanRow:
    fields = sum(n for _, n, _, _ in pages)
    seconds = sum(estimate for _, _, _, estimate in pages) * offer.assignments
    reward = sum((of_page for _, _, of_page, _ in pages), Decimal("0.00")) * offer.assignments
    fees = sum((offer.fees_for(of_page) for _, _, of_page, _ in pages), Decimal("0.00"))
    minutes = (Decimal(seconds) / 60).quantize(Decimal("0.1"))
    hourly_pay = (reward * terms.HOUR / seconds if seconds else reward).quantize(terms.CENT, rounding=ROUND_DOWN)
    return PlanRow(len(pages), fields, len(pages) * offer.assignments, reward, fees, reward + fees, minutes, hourly_pay)


def least_workers(hits: Sequence[tuple[HitTask, int]], limit: int) -> int:
    """Returns how few workers can do all assignments.

    The assignments of a HIT are for different workers, and nobody may do both tasks of a service.

    Args:
      hits: the task of each HIT, and its number of assignments.
      limit: the number of assignments that one worker may do; 0 for any.
    """
    most = dict(sorted(hits, key=itemgetter(1)))
    assignments = sum(n for _, n in hits)
    return max(sum(most.values()), -(-assignments // limit) if limit else 0)


def workers_needed(hits: Sequence[tuple[HitTask, int]], limit: int) -> str:
    """Says how few workers could do all assignments, and which limit would make the texts of schemas diverse."""
    least = counted(least_workers(hits, limit), "worker")
    if limit:
        return f"with --max_per_worker {limit}, at least {least} must take part"
    if not any(task in TASKS for task, _ in hits):
        return f"as few as {least} could do everything"
    spread = f"with --max_per_worker {SPREAD}, at least {least_workers(hits, SPREAD):,}"
    return f"as few as {least} could do everything; {spread} (SGD-X had over 400, about {SPREAD} each)"


def top_up_assignments(most_missing: int) -> int:
    """Returns the workers per HIT for ``most_missing`` good answers, below the higher fee: about half are good."""
    return max(1, min(terms.EXTRA_FEE_FROM - 1, 2 * most_missing))


def read_shortfall(path: str) -> dict[tuple[str, str], int]:
    """Reads what a ``shortfall.csv`` of ``compose`` lists: (task id, form field) to the number of missing good answers.

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
