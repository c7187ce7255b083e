"""``parapet mturk``: publish, collect, status, pay, topup, stop. Runs in one process with a journal, without Beam."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from inspect import cleandoc
from typing import Any, NamedTuple

from parapet.pipelines.command import run_checked
from parapet.pipelines.dispatch import hand_over
from parapet.pipelines.flags import (
    INPUT,
    OUTPUT,
    PARALLEL_CALLS,
    RUNNING,
    StrictParser,
    add_dry_run,
    add_json,
)


class Action(NamedTuple):
    """An action's command line.

    Attributes:
      module: a module in this folder; its function with the action's name checks the flags and returns a function that
        does the work.
      summary: for the list of actions. ``description`` and ``example``: for the action's help.
      flags: names, in the order of the help.
    """

    module: str
    summary: str
    description: str
    example: str
    flags: str


_STOPPED = "run the same command again to continue"

_ACTIONS = {
    "publish": Action(
        "ask",
        "publish the HITs of 'parapet hits'; shows the cost first",
        """Publishes the HITs of a 'parapet hits' folder. Shows the cost and checks the balance first. Each HIT is
        published once: after an error, run the same command again. The first run of a batch decides which workers may
        do it.""",
        """\
  parapet mturk publish --hits my_hits --batch my_batch --dry_run
  parapet mturk publish --hits my_hits --batch my_batch --countries US,CA --max_per_worker 10
  parapet mturk publish --hits my_hits --batch my_batch --tasks names       # names first; publish descriptions later
  parapet mturk publish --hits my_hits --batch my_batch --production        # real money""",
        "hits batch tasks countries min_approval min_approved max_per_worker require_qualification "
        "exclude_qualification block_list dry_run production confirm endpoint_url parallel_calls",
    ),
    "collect": Action(
        "ask",
        "download what workers have submitted, for 'parapet compose'",
        """Downloads what workers have submitted so far into DIR/assignments.jsonl, for --responses of 'parapet
        compose' and other commands. Then grants qualifications, so that nobody who did a task sees its sibling, or any
        task beyond --max_per_worker. Run it often while a batch is open.""",
        """\
  parapet mturk collect --batch my_batch
  parapet mturk collect --batch my_batch --block_list blocked.txt""",
        "batch block_list parallel_calls",
    ),
    "status": Action(
        "pay",
        "what is published, submitted and paid, and its cost",
        """Shows for each task what is published, submitted, paid and about to expire, and what it has cost, as of the
        last 'collect'. Makes no requests. DIR/status.html shows the same.""",
        """\
  parapet mturk status --batch my_batch
  parapet mturk status --batch my_batch --json""",
        "batch json",
    ),
    "topup": Action(
        "ask",
        "ask for more answers where too few are good",
        """Publishes new HITs for what 'parapet compose' found too few good answers to: those of 'parapet hits
        --shortfall', or, with --shortfall, those of other pages that lack answers. Workers who did the task or its
        sibling do not see them.""",
        """\
  parapet hits --schemas my_corpus --shortfall my_variants/shortfall.csv --output top_up --sandbox
  parapet mturk topup --batch my_batch --hits top_up --dry_run
  parapet mturk topup --batch my_batch --hits my_ratings --shortfall my_judgements/shortfall.csv""",
        "batch hits shortfall block_list dry_run production confirm parallel_calls",
    ),
    "pay": Action(
        "pay",
        "approve or reject assignments, pay bonuses, keep a ledger",
        """Approves and pays the assignments that 'parapet compose' has audited, also those whose answers are not used.
        It rejects, with feedback, only where asked to: a rejection harms a worker's standing. Assignments that were
        settled elsewhere stay as they are. Every payment is recorded in DIR/ledger.csv.""",
        """\
  parapet mturk pay --batch my_batch --audit my_variants --dry_run
  parapet mturk pay --batch my_batch --audit my_variants
  parapet mturk pay --batch my_batch --audit my_variants --reject --dry_run    # who would be rejected, and why
  parapet mturk pay --batch my_batch --bonuses bonuses.csv""",
        "batch audit bonuses all reject rejections dry_run production confirm parallel_calls",
    ),
    "stop": Action(
        "ask",
        "withdraw all HITs: no further work, no further cost",
        """Withdraws every HIT of the batch. Workers who have begun may still submit, and must be paid; nobody else can
        begin. 'parapet mturk topup' asks for the answers that are missing then.""",
        "  parapet mturk stop --batch my_batch",
        "batch dry_run parallel_calls",
    ),
    "site-csv": Action(
        "pay",
        "Approve and Reject columns for the requester site",
        """For batches of the requester site: fills the Approve and Reject columns of a batch results CSV from the
        audit of 'parapet compose', for the site's 'Upload CSV'. Everyone is paid unless --reject is given. The file
        has worker ids: only its owner can read it.""",
        "  parapet mturk site-csv --audit my_variants --results my_crowd/names.csv --output names.reviewed.csv",
        "audit results output reject rejections",
    ),
}
ACTIONS = {name: action.summary for name, action in _ACTIONS.items()}

_WORKERS, _REJECTIONS = "workers", "rejections"
_READS = {"reads": True}
_REQUIRED = {"required": True}
_RARE = {"rare": True}
_NUMBER = {"type": int}
_SWITCH = {"action": "store_true"}

# Name to group, metavar, help and further options. A name that starts with an action overrides the flag for it.
_FLAGS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "batch": (INPUT, "DIR", "folder of the batch", _REQUIRED),
    "hits": (INPUT, "DIR", "output of 'parapet hits'", _REQUIRED | _READS),
    "tasks": (INPUT, "LIST", "tasks to publish, such as names (default: all); the others may follow", {}),
    "block_list": (INPUT, "FILE", "worker ids, one a line, who see no further HIT of this batch", _READS),
    "shortfall": (INPUT, "FILE", "shortfall.csv of a command: only the pages that lack answers", _READS),
    "audit": (INPUT, "DIR", "output of 'parapet compose' for this batch", _READS),
    "bonuses": (INPUT, "FILE", "CSV with assignment_id, amount and reason: one bonus each", _READS),
    "all": (INPUT, "", "also approve what was collected and is not in the audit", _SWITCH),
    "site-csv audit": (INPUT, "DIR", "output of 'parapet compose'", _REQUIRED | _READS),
    "results": (INPUT, "FILE", "batch results CSV of the requester site", _REQUIRED | _READS),
    "output": (OUTPUT, "FILE", "file to write", _REQUIRED),
    "countries": (_WORKERS, "LIST", "countries, such as US,CA; or 'any' (default: US)", {}),
    "min_approval": (_WORKERS, "PERCENT", "minimum share of approved assignments (default: 90)", _NUMBER),
    "min_approved": (_WORKERS, "N", "minimum number of approved assignments (default: any)", _NUMBER),
    "max_per_worker": (_WORKERS, "N", "assignments that one worker may do (default: any)", _NUMBER),
    "require_qualification": (
        *(_WORKERS, "ID", "id of a qualification that workers must have; may be repeated"),
        _RARE | {"action": "append", "dest": "required"},
    ),
    "exclude_qualification": (
        *(_WORKERS, "ID", "id of a qualification that workers must not have; may be repeated"),
        _RARE | {"action": "append", "dest": "excluded"},
    ),
    "reject": (_REJECTIONS, "", "reject assignments of which every answer is certainly careless", _SWITCH),
    "rejections": (_REJECTIONS, "FILE", "CSV with assignment_id and feedback: reject these in any case", _READS),
    "production": (RUNNING, "", "real money, real workers; asks for the amount", _SWITCH),
    "confirm": (RUNNING, "AMOUNT", "amount in dollars, for scripts, instead of typing it", _RARE),
    "endpoint_url": (RUNNING, "URL", "address of MTurk (default: AWS_ENDPOINT_URL_MTURK, else MTurk's sandbox)", _RARE),
    "parallel_calls": (RUNNING, "N", PARALLEL_CALLS, _RARE | _NUMBER | {"default": 4}),
}
_ADD: dict[str, Callable[[StrictParser], None]] = {"dry_run": add_dry_run, "json": add_json}

USAGE = f"""usage: parapet mturk ACTION [flags]

Publishes tasks on MTurk, in its sandbox unless --production is given. Everything
is kept in the folder of a batch. Run an interrupted command again: each HIT is
published once, each worker is paid once.

actions:
{chr(10).join(f"  {name:18}{what}" for name, what in ACTIONS.items())}

example:
  parapet hits --schemas my_corpus --output my_hits --sandbox --assignments 7
  parapet mturk publish --hits my_hits --batch my_batch --dry_run
  parapet mturk publish --hits my_hits --batch my_batch
  parapet mturk collect --batch my_batch
  parapet compose --schemas my_corpus --responses my_batch/assignments.jsonl \\
      --output my_variants
  parapet hits --schemas my_corpus --shortfall my_variants/shortfall.csv \\
      --output top_up --sandbox
  parapet mturk topup --batch my_batch --hits top_up
  parapet mturk pay --batch my_batch --audit my_variants

'parapet mturk ACTION --help' shows the flags of an action.
"""


def parser(name: str) -> StrictParser:
    """Builds the command line of an action."""
    action = _ACTIONS[name]
    parser = StrictParser(f"mturk {name}", cleandoc(action.description), action.example)
    for flag in action.flags.split():
        if flag in _ADD:
            _ADD[flag](parser)
        else:
            group, metavar, text, options = _FLAGS.get(f"{name} {flag}") or _FLAGS[flag]
            parser.group(group)(f"--{flag}", help=text, **options, **({"metavar": metavar} if metavar else {}))
    return parser


def run_action(name: str, argv: Sequence[str]) -> int:
    """Runs an action. Returns the exit status."""

    def check(args: argparse.Namespace) -> Callable[[], int]:
        module = importlib.import_module(f"{__name__}.{_ACTIONS[name].module}")
        act: Callable[[], int] = getattr(module, name.replace("-", "_"))(args)
        return act

    return run_checked(parser(name), argv, check, lambda act: act(), _STOPPED)


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet mturk``. Returns the exit status: 0, 1 for a failure, 2 for wrong usage."""
    argv = sys.argv[1:] if argv is None else list(argv)
    return hand_over("parapet mturk", "action", ACTIONS, __name__, USAGE, argv)
