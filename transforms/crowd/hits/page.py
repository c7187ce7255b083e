"""The records of ``hits``, the page around a body, what pages cost, and the top-up of what ``compose`` misses.

All money is Decimal.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_DOWN, ROUND_UP, Decimal
from functools import cache
from math import ceil
from typing import Any, Literal

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.schemas.limits import MAX_DIALOGUE_FILE, read_text, read_whole
from parapet.schemas.service import TASKS, Service, elements_of, task_id
from parapet.transforms.crowd.hits.markup import MAX_BYTES, KeptValue, carriable, question_xml, without_variables
from parapet.transforms.crowd.hits.people import YIELD, People, people_of
from parapet.transforms.crowd.hits.terms import CENT, HOUR, WORDING, HitTask, Terms, plain
from parapet.transforms.reports.report import render

AUTO, NONE = "auto", "none"  # values of --ambiguous and --cues

TURNS_OF_ITEM = 3  # the turn before, the acts, which are about as long as a turn, and the utterance


class Settings(msgspec.Struct, frozen=True):
    """What shapes the pages.

    Attributes:
      ambiguous: ``auto``, ``none`` or the file that ``listed`` was read from.
      listed: element ids from that file.
      cues: ``auto``, ``none`` or the file that ``written`` was read from.
      written: cues to the domain from that file, by service.
      sandbox: whether the forms go to MTurk's sandbox.
      only: the fields of a top-up, as (task id, form field); None for everything.
      tasks: which tasks the pages are of.
      turns: how many user turns are drawn; None for all. ``seed`` is of that draw.
      naturalness: whether judged utterances have the question of how natural they sound.
    """

    terms: Terms = Terms()
    ambiguous: str = AUTO
    listed: frozenset[str] = frozenset()
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
      does: what the reply has to do: ``Ask for``.
      about: a slot or intent by its description, or nothing.
      value: the values to be said, or nothing.
    """

    does: str
    about: str = ""
    value: str = ""

    @property
    def text(self) -> str:
        """All of it as one line, as the page has it."""
        return ": ".join(filter(None, [self.does, " – ".join(filter(None, [self.about, self.value]))]))


CHECK: Literal["check"] = "check"
Stratum = Literal["faithful", "unfaithful", "invalid", "check"]
Place = tuple[str, str, int]  # of an utterance that is judged: its set, if it has one, dialogue and turn


class RatedItem(msgspec.Struct, frozen=True):
    """An utterance that workers judge. Its page shows the acts, the turn before and the utterance, and nothing else.

    Attributes:
      dialogue_id: the dialogue. ``turn`` is the position of the system's turn in it, from 0.
      stratum: ``faithful`` and ``unfaithful`` are the metric's verdicts on a valid turn, ``invalid`` is a turn that
        fails its validation, and ``check`` a turn beside the utterance of another one.
      faithful: the metric's verdict, whether the turn is valid or not. False for a check.
      acts: what the utterance has to say.
      previous: the turn before, or nothing.
      utterance: what the system said.
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
        """What distinguishes it from others of its task."""
        return "", self.dialogue_id, self.turn

    @property
    def values(self) -> tuple[str, ...]:
        """What the acts say, but for a plain yes."""
        return tuple(act.value for act in self.acts if act.value != "yes")

    @property
    def turns(self) -> int:
        """Turns to read."""
        return TURNS_OF_ITEM

    def as_check(self, utterance: str) -> RatedItem:
        """The same beside an utterance that does not fit."""
        return msgspec.structs.replace(self, stratum=CHECK, faithful=False, utterance=utterance)


class VariedItem(msgspec.Struct, frozen=True):
    """A user turn of a perturbed set, which workers compare with the original. The page does not say which set it is.

    Attributes:
      dialogue_id: the dialogue. ``turn`` is the position of the user's turn in it, from 0.
      stratum: the name of the set; ``check`` for a turn beside another one's.
      before: the turns before it: (speaker, utterance).
      original: what the user said.
      values: words of it that say a value.
      utterance: the same as the set has it.
    """

    dialogue_id: str
    turn: int
    stratum: str
    service_name: str
    before: tuple[tuple[str, str], ...]
    original: str
    values: tuple[str, ...]
    utterance: str

    @property
    def place(self) -> Place:
        """What distinguishes it from others of its task."""
        return self.stratum, self.dialogue_id, self.turn

    @property
    def turns(self) -> int:
        """Turns to read: those before, and both versions."""
        return len(self.before) + 2

    def as_check(self, utterance: str) -> VariedItem:
        """The same beside an utterance that does not fit."""
        return msgspec.structs.replace(self, stratum=CHECK, utterance=utterance)


class PageRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of ``manifest.jsonl``: one HIT, with everything that publishing it needs but the question's text.

    What schema tasks lack comes last, with defaults, and is left out of the lines of other tasks.

    Attributes:
      page: the HTML, below the output folder. ``question`` is the HTMLQuestion of it.
      fields: the form fields that the page asks for, in its order; ``element_ids`` the elements they are about.
      ambiguous: the ids of the elements that are shown with their description.
      bytes: of the question. ``sha256`` too.
      reward: dollars, as MTurk takes it.
      requester_annotation: the task id.
      cue: what the page says of the app as a whole.
      dialogue_id: the dialogue. ``turn`` is the position of the utterance in it, from 0, ``file`` the file it is in.
      utterance: the sentence to be rewritten, as the page shows it.
      values: what every answer must have letter for letter, as the page shows it; None where nothing is rewritten.
      items: what is rated, in the order of the page and of ``fields``, of which each has one or two.
      pairs: the same of turns that are compared with the original; each has one to three fields.
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
    pairs: list[VariedItem] | None = None

    @property
    def judged(self) -> Sequence[RatedItem | VariedItem] | None:
        """The utterances that are judged, of either kind."""
        return self.items if self.pairs is None else self.pairs

    @property
    def turns(self) -> int:
        """Turns to read: of the dialogue, that of the utterance included; of what is judged, those of all items."""
        if self.judged is not None:
            return sum(item.turns for item in self.judged)
        return 0 if self.turn is None else self.turn + 1


def read_manifest(folder: str) -> Iterator[tuple[str, PageRecord]]:
    """(``row N``, record) of the pages of a folder of ``parapet hits``. Raises InputError where it is none."""
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
    """An element or turn that cannot be asked about, and why."""

    task_id: str
    element_id: str
    reason: str


class Page(msgspec.Struct, frozen=True):
    """A rendered page. ``body`` is the part between the requester template's ends."""

    record: PageRecord
    html: bytes
    question: bytes
    body: str


class Hits(msgspec.Struct, frozen=True):
    """All pages of a service, or of a dialogue file. ``position`` is its place among the others.

    Attributes:
      not_drawn: the number of user turns that were not drawn.
    """

    position: int
    pages: list[Page]
    not_asked: list[NotAsked]
    not_drawn: int = 0


LIVE = "https://www.mturk.com/mturk/externalSubmit"
SANDBOX = "https://workersandbox.mturk.com/mturk/externalSubmit"

# Of the published SGD-X paraphrases the longest name has 8 words, the longest description 19.
# Of rewritings: how many more than the sentence itself.
MAX_WORDS: dict[HitTask, int] = {"names": 8, "descriptions": 25, "rewrites": 40}
MAX_LETTERS: dict[HitTask, int] = {"names": 60, "descriptions": 200, "rewrites": 300}

_BODY = "${body}"

TOO_LARGE = f"too_large: the text alone exceeds the {MAX_BYTES:,} bytes of an HTMLQuestion"

# Room for what the requester site puts around a page of its own accord.
SITE_BYTES = 1_024


def page_html(task: HitTask, body: str, sandbox: bool = False) -> str:
    """A whole page around a body, ready for :func:`parapet.transforms.crowd.hits.markup.question_xml`.

    Args:
      task: the task.
      body: HTML as :func:`one_line` has made it.
      sandbox: whether the form goes to MTurk's sandbox.
    """
    before, after = _frame(task, sandbox)
    return before + body + after


@cache
def _frame(task: HitTask, sandbox: bool) -> tuple[str, str]:
    """What every page has before and after its body: rendered once, for there are thousands of pages."""
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
    return {"max_words": MAX_WORDS.get(task, 0), "max_letters": MAX_LETTERS.get(task, 0)}


@cache
def capacity(task: HitTask) -> int:
    """Bytes that the body of a page may have."""
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
    """The page and its record.

    Args:
      task: the task.
      stem: the page's files, below the output folder, without their endings.
      body: at most :func:`capacity` bytes.
      settings: the conditions, and where the form goes.
      task_id: the task id.
      fields: the form fields.
      turns: the turns of a dialogue that are to be read.
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
        assignment_duration_seconds=terms.duration(*size),
        auto_approval_delay_seconds=terms.auto_approval_hours * HOUR,
        lifetime_seconds=terms.lifetime_days * 24 * HOUR,
        estimated_seconds=int(terms.seconds(*size).to_integral_value(ROUND_UP)),
        **about,
    )
    return Page(record, html.encode(), question, body)


def fit(items: Sequence[str], room: int) -> tuple[list[list[int]], list[int]]:
    """The positions of the items of each page, in order, and of those that are too large for any.

    Args:
      items: as HTML.
      room: bytes for the items of a page.
    """
    sizes = [len(item.encode()) for item in items]
    fits = [i for i, size in enumerate(sizes) if size <= room]
    runs = split([sizes[i] for i in fits], room)
    return [[fits[i] for i in run] for run in runs], [i for i, size in enumerate(sizes) if size > room]


def split(sizes: Sequence[int], capacity: int) -> list[range]:
    """Cuts a sequence into as few runs as possible, none above ``capacity``, about equally large.

    Args:
      sizes: bytes of each item; none may be above ``capacity``.
      capacity: bytes that a run may have.

    Returns:
      The positions of each run, in order; no run for no items.

    Raises:
      ValueError: an item is larger than a run may be.
    """
    if any(size > capacity for size in sizes):
        raise ValueError("an item is larger than a part may be")
    runs = _fill(sizes, capacity)
    if len(runs) < 2:
        return runs
    # The smallest capacity that needs no more runs makes the largest run as small as it can be.
    low, high = max(max(sizes), -(-sum(sizes) // len(runs))), capacity
    while low < high:
        middle = (low + high) // 2
        if len(_fill(sizes, middle)) <= len(runs):
            high = middle
        else:
            low = middle + 1
    return _fill(sizes, low)


def _fill(sizes: Sequence[int], capacity: int) -> list[range]:
    runs: list[range] = []
    start = used = 0
    for i, size in enumerate(sizes):
        if used + size > capacity:
            runs.append(range(start, i))
            start, used = i, 0
        used += size
    if start < len(sizes):
        runs.append(range(start, len(sizes)))
    return runs


# With ten assignments MTurk's fee doubles.
MOST = 9

# (task id, form field): the fields of a top-up.
Fields = frozenset[tuple[str, str]]


class PlanRow(msgspec.Struct, frozen=True):
    """One row of the cost table.

    Attributes:
      hits: HITs. ``fields`` is the form fields on them, ``assignments`` the number of submissions.
      reward: dollars to the workers. ``fees`` go to MTurk; ``cost`` is the sum.
      estimated_minutes: of all assignments together.
      hourly_pay: dollars per hour of work at the estimated pace, rounded down.
      lowest_reward: dollars for an assignment of the smallest HIT. ``highest_reward`` of the largest.
    """

    hits: int
    fields: int
    assignments: int
    reward: Decimal
    fees: Decimal
    cost: Decimal
    estimated_minutes: Decimal
    hourly_pay: Decimal
    lowest_reward: Decimal
    highest_reward: Decimal


class Plan(msgspec.Struct, frozen=True):
    """The cost table, by task and in total, and the people that it takes."""

    terms: Terms
    rows: dict[str, PlanRow]
    not_asked: list[NotAsked]
    people: People

    def to_json(self) -> dict[str, Any]:
        """``plan.json``."""
        rows = {
            name: {key: plain(getattr(row, key)) for key in row.__struct_fields__} for name, row in self.rows.items()
        }
        total = rows.pop("total")
        return {
            "currency": "USD",
            "tasks": rows,
            "total": total,
            "fee_rate": plain(self.terms.fee_rate()),
            "terms": self.terms.options(rows),
            "people": self.people.to_json(),
            "not_asked": msgspec.to_builtins(self.not_asked),
        }

    def not_asked_by_reason(self) -> dict[str, list[str]]:
        """Reason to the task ids of what is not asked; both sorted."""
        by_reason: dict[str, list[str]] = {}
        for each in sorted(self.not_asked, key=lambda each: each.reason):
            by_reason.setdefault(each.reason, []).append(each.task_id)
        return by_reason

    def table(self) -> str:
        """The cost table as aligned text."""
        head = ["", "HITs", "fields", "assignments", "reward", "fees", "cost", "hours", "pay an hour"]
        lines = [head, *([name, *cells] for name, cells in self.cells().items())]
        widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if i == 0 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            )
            for line in lines
        )

    def cells(self) -> dict[str, list[str]]:
        """The figures of each row as a person reads them, hours in place of minutes."""
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
    """Adds up the pages, a row for each of ``tasks``. The order of ``records`` does not matter."""
    records = list(records)
    rows: dict[str, PlanRow] = {
        task: _row([record for record in records if record.task == task], terms) for task in tasks
    }
    ordered = sorted(not_asked, key=lambda each: (each.task_id, each.element_id, each.reason))
    total = _row(records, terms)
    return Plan(terms, {**rows, "total": total}, ordered, people_of(records, total))


def _row(records: list[PageRecord], terms: Terms) -> PlanRow:
    rewards = [Decimal(record.reward) for record in records]
    each = (terms.seconds(record.task, len(record.fields), record.turns) for record in records)
    seconds = sum(each, Decimal(0)) * terms.assignments
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
        lowest_reward=min(rewards, default=Decimal(0)).quantize(CENT),
        highest_reward=max(rewards, default=Decimal(0)).quantize(CENT),
    )


def top_up_assignments(most_missing: int) -> int:
    """Workers per HIT from whom ``most_missing`` more good answers are expected, below the higher fee tier."""
    return max(1, min(MOST, ceil(most_missing / YIELD)))


def read_shortfall(path: str, services: Mapping[str, Service]) -> tuple[Fields, int]:
    """What a ``shortfall.csv`` asks for, and the most that one element lacks.

    Raises:
      InputError: not a shortfall file, or a row names what the schemas lack; with the row.
    """
    try:
        with io.StringIO(read_text(as_path(path)), newline="") as handle:
            reader = csv.DictReader(handle)
            missing = {"service_name", "task", "field", "have", "need"} - set(reader.fieldnames or ())
            if missing:
                raise InputError(
                    f"not a shortfall.csv of 'parapet compose': lacks {', '.join(sorted(missing))}", path, "row 1"
                )
            rows = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise InputError(f"cannot be read: {error}", path) from None
    fields, most = set(), 0
    for number, row in rows:
        place = _place(row, services)
        if place is None:
            what = f"{row['service_name']}, {row['task']}, {row['field']}"
            raise InputError(f"the schemas have no such element: {what}", path, f"row {number}")
        fields.add(place)
        most = max(most, _lacks(row, path, number))
    if not fields:
        raise InputError("no answers are missing, so there is nothing to ask for", path)
    return frozenset(fields), most


def _place(row: Mapping[str, str], services: Mapping[str, Service]) -> tuple[str, str] | None:
    service = services.get(row["service_name"] or "")
    for task in TASKS:
        if service is None or task != row["task"]:
            continue
        if any(element.field == row["field"] for element in elements_of(service, task)):
            return task_id(service.service_name, task), row["field"]
    return None


def _lacks(row: Mapping[str, str], path: str, number: int) -> int:
    try:
        return max(1, int(row["need"]) - int(row["have"]))
    except (TypeError, ValueError):
        raise InputError("'have' and 'need' must be numbers", path, f"row {number}") from None
