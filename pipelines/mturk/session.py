"""The open batch with its client, agreement to costs, progress and results: shared by all actions on a batch."""

from __future__ import annotations

import logging
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

from parapet.pipelines.command import counted, say
from parapet.pipelines.mturk import Action, dollars
from parapet.pipelines.progress import running
from parapet.schemas.errors import InputError
from parapet.transforms.crowd import journal
from parapet.transforms.crowd.mturk import collect, status
from parapet.transforms.crowd.mturk.batch import Batch, Failures, Line, check_endpoint
from parapet.transforms.crowd.mturk.client import PRODUCTION, SANDBOX, connect, explaining
from parapet.transforms.crowd.mturk.qualifications import grant, read_block_list
from parapet.transforms.crowd.worker_ids import load_worker_key
from parapet.transforms.reports.report import page
from parapet.transforms.storage import disk

Result = TypeVar("Result")

_SHOWN = 10  # ids shown of a long list


class Session:
    """The work of an action on a batch.

    Args:
      action: the options; those that it does not have are off.
    """

    def __init__(self, action: Action) -> None:
        chosen: dict[str, Any] = vars(action)
        self.folder: str = chosen["batch"]
        self.key = load_worker_key()
        self.parallel_calls: int = chosen.get("parallel_calls", 1)
        self.production: bool = chosen.get("production", False)
        self.confirm: Decimal | None = chosen.get("confirm")
        self.dry_run: bool = chosen.get("dry_run", False)
        blocked = chosen.get("block_list")
        self.blocked = read_block_list(blocked) if blocked else []

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

    def calls(self, what: str, function: Callable[..., Result], *arguments: Any) -> Result:
        """Calls a function that makes calls to MTurk, and shows their number; a dry run prints the calls instead."""
        if self.dry_run:
            return function(*arguments, None)
        with running(what) as run:
            return function(*arguments, lambda done, total: run.count(done, "calls", total))

    def announce(self, text: str) -> None:
        """Prints what is about to be done; a dry run prints it even with ``--quiet``."""
        (print if self.dry_run else say)(text)

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
            with suppress(InputError):
                typed = dollars(sys.stdin.readline())
        if typed != amount:
            flag = "--confirm" if self.confirm else ""
            raise InputError(f"does not match the amount, which is {amount:.2f}: nothing was spent", flag)

    def keep_out(
        self, batch: Batch, lines: Sequence[Line], upcoming: Sequence[tuple[str, str]] = ()
    ) -> tuple[Counter[str], Failures]:
        """Grants the qualifications that keep workers out, and logs refused calls. See :func:`grant`."""
        counts, failures = self.calls("keeping workers out", grant, batch, lines, self.blocked, upcoming)
        report(failures, "keeping workers out")
        return counts, failures

    def finish(self, batch: Batch, lines: Sequence[Line], summary: str, show: Callable[[str], None] = say) -> None:
        """Writes ledger and status page, logs urgent warnings, and shows the summary and the status table."""
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
        show(f"{summary}\n{status.table(now)}")


def report(reasons: Mapping[str, str], what: str) -> None:
    """Logs what could not be done, by reason, with the first few keys of each."""
    for reason, n in Counter(reasons.values()).most_common(_SHOWN):
        keys = [key for key in reasons if reasons[key] == reason]
        shown = ", ".join(keys[:_SHOWN]) + (", …" if n > _SHOWN else "")
        logging.error("%s: %s: %s: %s", what, counted(n, "failure"), reason, shown)
