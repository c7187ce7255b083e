"""The open batch with its client, agreement to costs, progress and results: shared by all actions on a batch."""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import msgspec

from parapet.pipelines.command import counted
from parapet.pipelines.progress import running
from parapet.schemas.errors import InputError
from parapet.transforms.crowd import journal
from parapet.transforms.crowd.mturk import collect, status
from parapet.transforms.crowd.mturk.batch import Batch, Failures, Line, Progress, check_endpoint
from parapet.transforms.crowd.mturk.client import PRODUCTION, SANDBOX, connect, explaining
from parapet.transforms.crowd.mturk.qualifications import grant, read_block_list
from parapet.transforms.crowd.worker_ids import load_worker_key
from parapet.transforms.reports.report import page
from parapet.transforms.storage import disk

_SHOWN = 10  # ids shown of a long list
_MAX_PARALLEL = 32


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """The settings from the flags that all actions on a batch share.

    Attributes:
      folder: the batch's folder.
      key: the key that hashes worker ids.
      parallel_calls: the number of simultaneous calls.
      production: whether real money may be spent.
      confirm: the amount of ``--confirm`` in dollars, if set.
      dry_run: whether calls are only printed.
      quiet: whether results and progress are hidden.
      blocked: worker ids of the block list.
    """

    folder: str
    key: bytes
    parallel_calls: int
    production: bool
    confirm: Decimal | None
    dry_run: bool
    quiet: bool
    blocked: list[str]

    def look(self) -> Batch:
        """Opens the batch read-only. Raises InputError unless its endpoint agrees with ``--production``."""
        batch = Batch(self.folder, writable=False)
        elsewhere = SANDBOX if batch.endpoint == PRODUCTION else batch.endpoint
        check_endpoint(batch.endpoint, PRODUCTION if self.production else elsewhere, batch.folder)
        return batch

    @contextmanager
    def open(self, begin: Callable[[str], None] | None = None) -> Iterator[Batch]:
        """Opens the batch with its client; for a dry run, a temporary copy without a client.

        Args:
          begin: is called with the folder before the batch is opened.
        """
        with ExitStack() as stack:
            folder = self.folder
            if self.dry_run:
                folder = stack.enter_context(tempfile.TemporaryDirectory())
                for path in (Path(self.folder) / name for name in (journal.FILE, collect.FILE)):
                    if path.exists():
                        shutil.copy(path, folder)
            if begin is not None:
                begin(folder)
            batch = Batch(folder)
            stack.enter_context(batch.journal)
            batch.key, batch.parallel = self.key, self.parallel_calls
            if not self.dry_run:
                batch.client = connect(batch.endpoint, self.parallel_calls)
            yield batch

    @contextmanager
    def progress(self, what: str) -> Iterator[Progress | None]:
        """Shows how many calls are done; yields None for a dry run, which prints its calls instead."""
        if self.dry_run:
            yield None
            return
        with running(what) as run:
            yield lambda done, total: run.count(done, "calls", total)

    def announce(self, text: str) -> None:
        """Prints what is about to be done; a dry run prints it even with ``--quiet``."""
        if self.dry_run or not self.quiet:
            print(text)

    def agree(self, batch: Batch, amount: Decimal, held: Decimal | None = None) -> None:
        """Checks that the balance suffices; in production, the user must type the amount, or pass ``--confirm``.

        Args:
          batch: with the client.
          amount: the dollars to spend.
          held: the part that is taken from the balance now, by default all; the rest was held when the HITs were
            published.

        Raises:
          InputError: the balance is too low, or another amount was typed.
        """
        if self.dry_run:
            return
        needed = amount if held is None else held
        with explaining():
            balance = Decimal(batch.client.get_account_balance()["AvailableBalance"])
        if balance < needed:
            raise InputError(
                f"the balance of the account is ${balance:,.2f}, but ${needed:,.2f} are needed: prepay HITs "
                "at requester.mturk.com; nothing was spent"
            )
        if needed:
            logging.info("balance of the account: $%s; needed: $%s", f"{balance:,.2f}", f"{needed:,.2f}")
        if batch.endpoint != PRODUCTION:
            return
        typed = self.confirm
        if typed is None:
            prompt = f"This spends ${amount:,.2f} of real money. Type the amount to continue: "
            print(prompt, end="", file=sys.stderr, flush=True)
            typed = dollars(sys.stdin.readline())
        if typed != amount:
            flag = "--confirm" if self.confirm else ""
            raise InputError(f"does not match the amount, which is {amount:.2f}: nothing was spent", flag)

    def keep_out(
        self, batch: Batch, lines: Sequence[Line], upcoming: Sequence[tuple[str, str]] = ()
    ) -> tuple[Counter[str], Failures]:
        """Grants the qualifications that keep workers out, and logs refused calls. See :func:`grant`."""
        with self.progress("keeping workers out") as show:
            counts, failures = grant(batch, lines, self.blocked, upcoming, show)
        report(failures, "keeping workers out")
        return counts, failures

    def finish(self, batch: Batch, lines: Sequence[Line], summary: str) -> None:
        """Writes ledger and status page, logs urgent warnings, and prints the summary and the status table."""
        if self.dry_run:
            print("dry run: nothing was sent or written")
            return
        rows = status.ledger_rows(batch, lines)
        now = status.status_of(batch, lines, rows)
        urgent = status.warnings(now, datetime.now(UTC))
        status.write_ledger(batch, rows)
        disk.write(batch.folder / status.PAGE, page(status.status_report(now, urgent)).encode())
        for text in urgent:
            logging.warning("%s", text)
        if not self.quiet:
            print(f"{summary}\n{status.table(now)}")


def read_session(args: argparse.Namespace) -> Session:
    """Reads the session from parsed flags.

    Raises:
      InputError: a flag cannot be used.
    """
    flags: dict[str, Any] = {"parallel_calls": 1, "confirm": None, **vars(args)}
    if not 1 <= flags["parallel_calls"] <= _MAX_PARALLEL:
        raise InputError(f"must be from 1 to {_MAX_PARALLEL}", "--parallel_calls")
    amount = None if flags["confirm"] is None else dollars(flags["confirm"])
    if amount is None and flags["confirm"] is not None:
        raise InputError(f"{flags['confirm']!r} is not an amount in dollars, such as 12.50", "--confirm")
    return Session(
        folder=args.batch,
        key=load_worker_key(),
        parallel_calls=flags["parallel_calls"],
        production=flags.get("production", False),
        confirm=amount,
        dry_run=flags.get("dry_run", False),
        quiet=args.quiet,
        blocked=read_block_list(flags["block_list"]) if flags.get("block_list") else [],
    )


def dollars(text: str) -> Decimal | None:
    """Parses an amount such as ``$1,200.50``; None for other text."""
    try:
        amount = Decimal(text.strip().removeprefix("$").replace(",", ""))
    except InvalidOperation:
        return None
    return amount if amount.is_finite() else None


def report(reasons: Mapping[str, str], what: str) -> None:
    """Logs what could not be done, by reason, with the first few keys of each."""
    for reason, n in Counter(reasons.values()).most_common(_SHOWN):
        keys = [key for key in reasons if reasons[key] == reason]
        shown = ", ".join(keys[:_SHOWN]) + (", …" if n > _SHOWN else "")
        logging.error("%s: %s: %s: %s", what, counted(n, "failure"), reason, shown)
