"""``parapet mturk``: publish, collect, status, pay, topup, stop. Runs in one process with a journal, without Beam."""

from decimal import Decimal
from functools import partial
from typing import Any

from parapet.pipelines.app import Command
from parapet.schemas.errors import InputError
from parapet.transforms.core import options
from parapet.transforms.core.options import PARALLEL_CALLS, REQUIRED, option
from parapet.transforms.crowd.hits.terms import REWARD

ACTIONS = {
    "publish": "publish the HITs of 'parapet hits'; shows the cost first",
    "collect": "download what workers have submitted, for 'parapet compose'",
    "status": "what is published, submitted and paid, and its cost",
    "topup": "ask for more answers where too few are good",
    "pay": "approve or reject assignments, pay bonuses, keep a ledger",
    "stop": "withdraw all HITs: no further work, no further cost",
    "site-csv": "Approve and Reject columns for the requester site",
}

ABOUT = """\
Publishes tasks on MTurk, in its sandbox unless --production is given. Everything
is kept in the folder of a batch. Run an interrupted command again: each HIT is
published once, each worker is paid once."""
EXAMPLE = """\
  parapet mturk publish --hits my_hits --batch my_batch
  parapet mturk collect --batch my_batch
  parapet mturk pay --batch my_batch --audit my_variants"""


def dollars(text: str) -> Decimal:
    """Parses an amount such as ``$1,200.50``. Raises InputError for other text."""
    digits = text.strip().removeprefix("$").replace(",", "")
    if not REWARD.fullmatch(digits):
        raise InputError(f"{text.strip()!r} is not an amount in dollars, such as 12.50")
    return Decimal(digits)


class Action(Command[Any]):
    """An action, whose work is a class of the same name in :mod:`parapet.pipelines.mturk.session`."""

    stopped = "run the same command again to continue"

    def check(self) -> Any:
        """Reads what the options name. Raises InputError if it cannot be used."""
        from parapet.pipelines.mturk import session

        return getattr(session, type(self).__name__)(self)

    def act(self, settings: Any) -> int:
        """Does the work. Returns the exit status."""
        status: int = settings.run()
        return status


class _Batch(Action):
    batch: str = option(REQUIRED, "folder of the batch", group=options.INPUT, metavar="DIR")


class _Calling(_Batch):
    parallel_calls: int = option(4, PARALLEL_CALLS, group=options.RUNNING, rare=True, ge=1, le=32)


class _KeepingOut(_Calling):
    block_list: str = options.folder("worker ids, one a line, who see no further HIT of this batch", "FILE")


class _Spending(options.Options):
    dry_run: bool = options.dry_run()
    production: bool = option(False, "real money, real workers; asks for the amount", group=options.RUNNING)
    confirm: Decimal | None = option(
        None, "amount in dollars, for scripts", group=options.RUNNING, rare=True, metavar="AMOUNT", parse=dollars
    )


class _Rejecting(options.Options):
    reject: bool = option(False, "reject assignments of which every answer is certainly careless", group="rejections")
    rejections: str = options.folder("CSV with assignment_id and feedback: reject these", "FILE", group="rejections")


_qualification = partial(option, [], rare=True, metavar="ID", repeated=True)


class Publish(_Spending, _KeepingOut):
    """``parapet mturk publish``."""

    name = "mturk publish"
    description = """Publishes the HITs of a 'parapet hits' folder, each once, after it has shown the cost and checked
        the balance. The first run of a batch decides which workers may do it."""
    example = "  parapet mturk publish --hits my_hits --batch my_batch --dry_run"
    group = "workers"
    hits: str = options.folder("output of 'parapet hits'", default=REQUIRED)
    tasks: tuple[str, ...] | None = option(None, "tasks, such as names (default: all)", group="input", commas=True)
    countries: tuple[str, ...] | None = option(None, "countries, such as US,CA; or 'any' (default: US)", commas=True)
    min_approval: int | None = option(None, "minimum share of approved assignments (default: 90)", metavar="PERCENT")
    min_approved: int | None = option(None, "minimum number of approved assignments (default: any)")
    max_per_worker: int | None = option(None, "assignments that one worker may do (default: that of 'hits')")
    require_qualification: list[str] = _qualification("id of a qualification that workers must have; may be repeated")
    exclude_qualification: list[str] = _qualification("id of one that they must not have; may be repeated")
    endpoint_url: str = option("", "MTurk (default: its sandbox)", group=options.RUNNING, rare=True, metavar="URL")


class Collect(_KeepingOut):
    """``parapet mturk collect``."""

    name = "mturk collect"
    description = """Downloads what workers have submitted so far into DIR/assignments.jsonl, for 'parapet compose'.
        Then keeps workers from the siblings of their tasks, and from more than --max_per_worker. Run it often."""
    example = "  parapet mturk collect --batch my_batch"


class Status(_Batch):
    """``parapet mturk status``."""

    name = "mturk status"
    description = """Shows for each task what is published, submitted, paid and about to expire, and what it has cost,
        as of the last 'collect'. Makes no requests. DIR/status.html shows the same."""
    example = "  parapet mturk status --batch my_batch"
    json: bool = option(False, "print JSON", group=options.OUTPUT)


class Topup(_Spending, _KeepingOut):
    """``parapet mturk topup``."""

    name = "mturk topup"
    description = """Publishes new HITs where good answers are missing: those of 'hits --shortfall', or the pages that
        --shortfall names. Workers who did the task or its sibling do not see them."""
    example = "  parapet mturk topup --batch my_batch --hits top_up"
    hits: str = options.folder("output of 'parapet hits'", default=REQUIRED)
    shortfall: str = options.folder("shortfall.csv of a command: only the pages that lack answers", "FILE")


class Pay(_Spending, _Rejecting, _Calling):
    """``parapet mturk pay``."""

    name = "mturk pay"
    description = """Approves and pays the assignments that 'parapet compose' has audited, also those whose answers are
        not used. It rejects only where asked to: it harms a worker's standing. DIR/ledger.csv has all payments."""
    example = "  parapet mturk pay --batch my_batch --audit my_variants --dry_run"
    audit: str = options.folder("output of 'parapet compose' for this batch")
    bonuses: str = options.folder("CSV with assignment_id, amount and reason: one bonus each", "FILE")
    all: bool = option(False, "also approve what was collected and is not in the audit")


class Stop(_Calling):
    """``parapet mturk stop``."""

    name = "mturk stop"
    description = """Withdraws every HIT of the batch. Workers who have begun may still submit, and must be paid; nobody
        else can begin. 'parapet mturk topup' asks for the answers that are missing then."""
    example = "  parapet mturk stop --batch my_batch"
    dry_run: bool = options.dry_run()


class SiteCsv(_Rejecting, Action):
    """``parapet mturk site-csv``."""

    name = "mturk site-csv"
    description = """Fills the Approve and Reject columns of a batch results CSV of the requester site from the audit of
        'parapet compose', for 'Upload CSV'. Everyone is paid unless --reject is given."""
    example = "  parapet mturk site-csv --audit my_variants --results my_crowd/names.csv --output names.reviewed.csv"
    audit: str = options.folder("output of 'parapet compose'", default=REQUIRED)
    results: str = options.folder("batch results CSV of the requester site", "FILE", REQUIRED)
    output: str = option(REQUIRED, "file to write", group=options.OUTPUT, metavar="FILE")


def command(action: str) -> type[Command[Any]]:
    """Returns the declaration of an action."""
    kinds = (Publish, Collect, Status, Topup, Pay, Stop, SiteCsv)
    return next(kind for kind in kinds if kind.name == f"mturk {action}")
