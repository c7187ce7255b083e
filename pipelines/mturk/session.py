"""What the actions share: flags, the open batch with its client, the agreement to a cost, progress."""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, TypedDict

import msgspec

from parapet.pipelines.command import counted
from parapet.pipelines.flags import INPUT, PARALLEL_CALLS, RUNNING, StrictParser, add_dry_run
from parapet.pipelines.progress import running
from parapet.schemas.errors import InputError
from parapet.transforms.mturk import client as mturk_client
from parapet.transforms.mturk import collected
from parapet.transforms.mturk.batch import Batch, write_whole
from parapet.transforms.mturk.calls import Failure, Told

_SHOWN = 10  # of a list on the terminal
_MAX_PARALLEL = 32

STOPPED = "run the same command again: it goes on where it was"


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """What the flags of every action come to.

    Attributes:
      batch: the folder of the batch.
      key: by which worker ids are hashed.
      parallel_calls: calls under way at a time.
      dry_run: whether calls are only printed.
      confirm: the amount in dollars, if it was given.
      quiet: whether progress is not shown.
    """

    batch: str
    key: bytes
    parallel_calls: int = 1
    dry_run: bool = False
    confirm: Decimal | None = None
    quiet: bool = False


class Shared(TypedDict):
    """The attributes of :class:`Config`."""

    batch: str
    key: bytes
    parallel_calls: int
    dry_run: bool
    confirm: Decimal | None
    quiet: bool


def shared(args: argparse.Namespace) -> Shared:
    """The part of an action's configuration that all actions have.

    Raises:
      InputError: a flag of :func:`add_network` or :func:`add_spending` cannot be used.
    """
    from parapet.transforms.crowd.worker_ids import load_worker_key

    parallel_calls = getattr(args, "parallel_calls", 1)
    if not 1 <= parallel_calls <= _MAX_PARALLEL:
        raise InputError(f"1 to {_MAX_PARALLEL}", "--parallel_calls")
    dry_run = getattr(args, "dry_run", False)
    confirm = getattr(args, "confirm", None)
    amount = None
    if confirm is not None:
        try:
            amount = Decimal(confirm.removeprefix("$").replace(",", ""))
        except InvalidOperation:
            raise InputError(f"{confirm!r} is no amount in dollars", "--confirm") from None
    return {
        "batch": args.batch,
        "key": load_worker_key(),
        "parallel_calls": 1 if dry_run else parallel_calls,  # a dry run prints the calls in their order
        "dry_run": dry_run,
        "confirm": amount,
        "quiet": args.quiet,
    }


def add_batch(parser: StrictParser) -> None:
    """Adds ``--batch``."""
    parser.group(INPUT)("--batch", required=True, metavar="DIR", help="folder of the batch")


def add_network(parser: StrictParser) -> None:
    """Adds ``--parallel_calls``."""
    parser.group(RUNNING)("--parallel_calls", rare=True, type=int, default=4, metavar="N", help=PARALLEL_CALLS)


def add_spending(parser: StrictParser) -> None:
    """Adds the flags of actions that spend money."""
    add_dry_run(parser)
    add = parser.group(RUNNING)
    add("--production", action="store_true", help="real money, real workers; asks for the amount")
    text = "amount in dollars, for scripts, instead of typing it"
    add("--confirm", rare=True, metavar="AMOUNT", help=text)


def add_block_list(parser: StrictParser) -> None:
    """Adds ``--block_list``."""
    text = "worker ids, one a line, who see no further HIT of this batch"
    parser.group(INPUT)("--block_list", metavar="FILE", reads=True, help=text)


def add_rejections(parser: StrictParser) -> None:
    """Adds ``--reject`` and ``--rejections``."""
    add = parser.group("rejections")
    text = "reject assignments of which every answer is certainly careless"
    add("--reject", action="store_true", help=text)
    text = "CSV with assignment_id and feedback: reject these in any case"
    add("--rejections", metavar="FILE", reads=True, help=text)


def check_place(batch: Batch, production: bool) -> None:
    """Raises InputError unless ``--production`` says where the batch lives."""
    if (batch.endpoint == mturk_client.PRODUCTION) == production:
        return
    raise InputError(
        f"--production is given, but this batch lives {where(batch.environment)}"
        if production
        else "this batch lives in production, where this costs money: add --production",
        batch.folder,
    )


def where(environment: str) -> str:
    """``in production``, ``in the sandbox`` or ``at http://…``."""
    return {"production": "in production", "sandbox": "in the sandbox"}.get(environment, f"at {environment}")


def copy_batch(folder: str, copy: str) -> None:
    """Copies what a dry run works on."""
    for name in ("journal.jsonl", "batch.json", collected.FILE):
        if (Path(folder) / name).exists():
            shutil.copyfile(Path(folder) / name, Path(copy) / name)


@contextmanager
def open_batch(folder: str, dry_run: bool = False, writable: bool = True) -> Iterator[Batch]:
    """The batch, or for a dry run a copy of it that is thrown away."""
    if not dry_run:
        with Batch(folder, writable) as batch:
            yield batch
        return
    with tempfile.TemporaryDirectory() as copy:
        copy_batch(folder, copy)
        with Batch(copy) as batch:
            yield batch


def client_for(batch: Batch, config: Config, lines: Sequence[collected.Line] = ()) -> Any:
    """The boto3 client of a batch; for a dry run one that prints its calls and sends nothing."""
    if config.dry_run:
        from parapet.transforms.mturk.rehearsal import rehearsing_client

        return rehearsing_client(batch.endpoint, lines, config.key, print)
    return mturk_client.connect(batch.endpoint, config.parallel_calls)


def agree(config: Config, amount: Decimal, environment: str) -> None:
    """In production, has the amount typed (or given by ``--confirm``).

    Raises:
      InputError: it is another one.
    """
    if config.dry_run or environment != "production":
        return
    typed = config.confirm
    if typed is None:
        print(
            f"This spends ${amount:,.2f} of real money. Type the amount to go on: ", end="", file=sys.stderr, flush=True
        )
        try:
            typed = Decimal(sys.stdin.readline().strip().removeprefix("$").replace(",", ""))
        except InvalidOperation:
            typed = None
    if typed is None or not typed.is_finite() or typed != amount:
        raise InputError(f"the amount is {amount:.2f}: nothing was spent", "--confirm" if config.confirm else "")


def check_funds(client: Any, amount: Decimal) -> None:
    """Raises InputError unless the account can pay ``amount`` dollars. The first call, so it finds bad credentials."""
    with mturk_client.explaining():
        balance = Decimal(client.get_account_balance()["AvailableBalance"])
    if balance < amount:
        raise InputError(
            f"the account has ${balance:,.2f} and this needs ${amount:,.2f}: prepay HITs at requester.mturk.com; "
            "nothing was spent"
        )
    if amount:
        logging.info("balance $%s, this needs $%s", f"{balance:,.2f}", f"{amount:,.2f}")


@contextmanager
def progress(what: str, config: Config) -> Iterator[Told | None]:
    """Shows how many calls are done; yields None for a dry run, which prints its calls instead."""
    if config.dry_run:
        yield None
        return
    with running(what) as run:
        yield lambda done, total: run.count(done, "calls", total)


def announce(config: Config, text: str) -> None:
    """Prints what is about to be done: a dry run even with ``--quiet``."""
    if config.dry_run or not config.quiet:
        print(text)


def many(n: int, what: str) -> str:
    """``1 bonus``, ``2 bonuses``, ``2 assignments``."""
    return counted(n, what).replace("bonuss", "bonuses")


def report_failures(failures: Sequence[Failure], what: str) -> None:
    """Logs what MTurk refused, by its reason, with the first few of each."""
    for (code, message), n in Counter((failure.code, failure.message) for failure in failures).most_common(_SHOWN):
        keys = [failure.key for failure in failures if (failure.code, failure.message) == (code, message)]
        shown = ", ".join(keys[:3]) + (", …" if n > 3 else "")
        logging.error("%s: MTurk refuses %s: %s [%s]: %s", what, n, message, code, shown)


def report_left(left: Sequence[tuple[str, str]], what: str) -> None:
    """Logs what was left alone, by reason."""
    for why, n in Counter(why for _, why in left).most_common():
        ids = [each for each, reason in left if reason == why]
        shown = ", ".join(ids[:_SHOWN]) + (", …" if n > _SHOWN else "")
        logging.warning("%s left alone: %s: %s", many(n, what), why, shown)


def finish(batch: Batch, lines: Sequence[collected.Line], key: bytes, warn: bool = True) -> Callable[[], str]:
    """Writes ledger and status page, warns of what is urgent; gives the status table to whoever prints it."""
    from datetime import UTC, datetime

    from parapet.transforms.mturk import ledger, status, status_page
    from parapet.transforms.report import page

    now = status.status_of(batch, lines, key)
    ledger.write(batch, ledger.rows_of(batch, lines, key))
    urgent = status.warnings(now, datetime.now(UTC)) if warn else []
    write_whole(batch.folder / status_page.FILE, page(status_page.status_report(now, urgent)).encode())
    for text in urgent:
        logging.warning("%s", text)
    return lambda: status.table(now)
