"""The work of ``parapet mturk``: a class for each action, which reads what the options name, and then runs."""

import json
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

import msgspec

from parapet.pipelines.command import EXIT_FAILURE, counted, say
from parapet.pipelines.mturk import dollars
from parapet.pipelines.progress import running
from parapet.schemas.errors import InputError
from parapet.transforms.core import disk
from parapet.transforms.crowd import report, worker_ids
from parapet.transforms.crowd.hits.page import workers_needed
from parapet.transforms.crowd.hits.terms import fee_for, up_to_cent
from parapet.transforms.crowd.mturk import batch as batches
from parapet.transforms.crowd.mturk import pay, publish, status
from parapet.transforms.crowd.mturk.batch import (
    PRODUCTION,
    SANDBOX,
    Batch,
    Failures,
    Line,
    Settings,
    begin,
    check_endpoint,
    connect,
    endpoint_of,
    explaining,
)
from parapet.transforms.crowd.mturk.batch import where as place_of
from parapet.transforms.report.report import page

Result = TypeVar("Result")

_SHOWN = 10  # ids shown of a long list


class Session:
    """The work of an action on a batch.

    Args:
      action: its options.

    Raises:
      InputError: what they name cannot be used.
    """

    def __init__(self, action: Any) -> None:
        self.action = action
        self.key = worker_ids.load_worker_key()
        self.dry_run: bool = getattr(action, "dry_run", False)
        block_list = getattr(action, "block_list", "")
        self.blocked = publish.read_block_list(block_list) if block_list else []
        self.read()

    def read(self) -> None:
        """Reads what the options name. Raises InputError if it cannot be used."""
        Batch(self.action.batch, writable=False)

    def run(self) -> int:
        """Does the work. Returns the exit status."""
        raise NotImplementedError

    def look(self) -> Batch:
        """Opens the batch read-only. Raises InputError unless its endpoint agrees with ``--production``."""
        batch = Batch(self.action.batch, writable=False)
        elsewhere = SANDBOX if batch.endpoint == PRODUCTION else batch.endpoint
        check_endpoint(batch.endpoint, PRODUCTION if self.action.production else elsewhere, batch.folder)
        return batch

    def begin(self, folder: str) -> None:
        """Prepares the folder before the batch is opened."""

    @contextmanager
    def open(self) -> Iterator[Batch]:
        """Opens the batch with its client; for a dry run, a temporary copy without a client."""
        with ExitStack() as stack:
            folder = self.action.batch
            if self.dry_run:
                folder = stack.enter_context(tempfile.TemporaryDirectory())
                for path in (Path(self.action.batch) / name for name in (batches.JOURNAL, batches.ASSIGNMENTS)):
                    if path.exists():
                        shutil.copy(path, folder)
            self.begin(folder)
            batch = Batch(folder)
            stack.enter_context(batch.journal)
            batch.key, batch.parallel = self.key, self.action.parallel_calls
            if not self.dry_run:
                batch.client = connect(batch.endpoint, batch.parallel)
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
            reason = f"the balance of the account is ${balance:,.2f}, but ${needed:,.2f} are needed"
            raise InputError(f"{reason}: prepay HITs at requester.mturk.com; nothing was spent")
        if batch.endpoint != PRODUCTION:
            return
        typed = self.action.confirm
        if typed is None:
            print(f"This spends ${amount:,.2f} of real money. Type the amount to continue:", file=sys.stderr)
            with suppress(InputError):
                typed = dollars(sys.stdin.readline())
        if typed != amount:
            flag = "--confirm" if self.action.confirm else ""
            raise InputError(f"does not match the amount, which is {amount:.2f}: nothing was spent", flag)

    def keep_out(self, batch: Batch, lines: Sequence[Line], upcoming: Sequence[tuple[str, str]] = ()) -> Failures:
        """Grants the qualifications that keep workers out, and logs refused calls. See :func:`publish.grant`."""
        failures = self.calls("keeping workers out", publish.grant, batch, lines, self.blocked, upcoming)
        return _logged(failures, "keeping workers out")

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
        show("\n".join([summary, status.table(now), *report.work_lines(now.work)]))


def _logged(failures: Failures, what: str) -> Failures:
    """Logs what could not be done, by reason, with the first few keys of each. Returns it."""
    for reason, n in Counter(failures.values()).most_common(_SHOWN):
        keys = [key for key in failures if failures[key] == reason][:_SHOWN]
        logging.error("%s: %s: %s: %s", what, counted(n, "failure"), reason, ", ".join(keys))
    return failures


class Topup(Session):
    """Publishes what is not published yet; shows the cost first."""

    def read(self) -> None:
        """Reads the pages."""
        batch = self.look()
        self.hits = publish.read_top_up(self.action.hits, batch.endpoint, self.action.shortfall)
        limit, of_batch = self.hits[0].record.max_per_worker, batch.settings.max_per_worker
        if limit not in (0, of_batch):
            reason = f"these pages have --max_per_worker {limit}, but the batch was published with {of_batch or 'none'}"
            raise InputError(f"{reason}: make them again without it", self.action.hits)

    def run(self) -> int:
        """Publishes the HITs."""
        with self.open() as batch:
            names = publish.type_names((hit.record.task_id for hit in self.hits), self.hits[0].round)
            if not self.dry_run:
                publish.find_types(batch, names)
                publish.adopt(batch, self.hits)
                if batch.hits():
                    # Workers who have just done a task must not see its sibling, or the task again.
                    self.calls("collecting", batches.collect, batch)
            lines = batches.load(batch.folder)
            waiting = publish.unpublished(batch, self.hits)
            assignments = counted(sum(hit.record.assignments for hit in waiting), "assignment")
            cost = sum((hit.cost for hit in waiting), Decimal(0))
            where = place_of(batch.endpoint)
            self.announce(f"{counted(len(waiting), 'HIT')} to publish {where}, {assignments}: ${cost:,.2f} with fees")
            if waiting and not self.hits[0].round:
                sizes = [(hit.record.task, hit.record.assignments) for hit in waiting]
                self.announce(workers_needed(sizes, batch.settings.max_per_worker))
            places = publish.open_places(batch, lines, datetime.now(UTC)).values()
            if self.hits[0].round and places:
                logging.warning("earlier HITs still have %s that may be taken", counted(sum(places), "open place"))
            self.agree(batch, cost)
            publish.make_types(batch, names)
            # Before the HITs exist, so that excluded workers do not see them even for a minute.
            not_kept_out = self.keep_out(batch, lines, [(hit.record.task_id, hit.round) for hit in self.hits])
            failures = _logged(self.calls("publishing", publish.publish, batch, waiting), "publishing")
            self.finish(batch, lines, f"{counted(len(waiting) - len(failures), 'HIT')} published")
            return EXIT_FAILURE if failures or not_kept_out else 0


class Publish(Topup):
    """Publishes a folder of HITs, and begins the batch if there is none."""

    def read(self) -> None:
        """Reads the pages and the settings of the batch."""
        action = self.action
        self.endpoint = endpoint_of(action.production, action.endpoint_url)
        self.hits = publish.read_hits(action.hits, self.endpoint)
        limit = self.hits[0].record.max_per_worker or None
        settings = {
            "countries": () if action.countries == ("any",) else action.countries,
            "min_approval": action.min_approval,
            "min_approved": action.min_approved,
            "required": tuple(dict.fromkeys(action.require_qualification)) or None,
            "excluded": tuple(dict.fromkeys(action.exclude_qualification)) or None,
            "max_per_worker": limit if action.max_per_worker is None else action.max_per_worker,
        }
        self.chosen: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
        Settings(**self.chosen)
        if action.tasks:
            available = {hit.record.task for hit in self.hits}
            if not available.issuperset(action.tasks):
                raise InputError(f"must be some of {', '.join(sorted(available))}", "--tasks")
            self.hits = [hit for hit in self.hits if hit.record.task in action.tasks]

    def begin(self, folder: str) -> None:
        """Begins the batch, or checks that its settings are the same."""
        begin(folder, self.endpoint, self.chosen)


class Collect(Session):
    """Downloads what workers have submitted, and keeps them out of siblings of their tasks."""

    def run(self) -> int:
        """Downloads the assignments."""
        with self.open() as batch:
            before = len(batches.load(batch.folder))
            lines = self.calls("collecting", batches.collect, batch)
            not_kept_out = self.keep_out(batch, lines)
            new = counted(len(lines) - before, "new assignment")
            self.finish(batch, lines, f"{new}, {len(lines):,} in all: {batch.folder / batches.ASSIGNMENTS}")
            return EXIT_FAILURE if not_kept_out else 0


class Stop(Session):
    """Withdraws the HITs of the batch."""

    def run(self) -> int:
        """Withdraws those that can still be taken."""
        now = datetime.now(UTC)
        with self.open() as batch:
            lines = batches.load(batch.folder)
            hit_ids = publish.open_places(batch, lines, now)
            failures = _logged(self.calls("stopping", publish.stop, batch, hit_ids, now), "stopping")
            self.finish(batch, lines, f"{counted(len(hit_ids) - len(failures), 'HIT')} withdrawn")
            return EXIT_FAILURE if failures else 0


class Status(Session):
    """Shows the state of the batch, without requests."""

    def run(self) -> int:
        """Prints the state, and writes it as a page."""
        batch = Batch(self.action.batch, writable=False)
        batch.key = self.key
        lines = batches.load(batch.folder)
        now = status.status_of(batch, lines, status.ledger_rows(batch, lines))
        if self.action.json:
            print(json.dumps(msgspec.to_builtins(now), indent=2))
        else:
            self.finish(batch, lines, f"{now.environment}, collected {now.collected_at or 'never'}", print)
        return 0


def _decide(action: Any) -> tuple[dict[str, pay.Audited], dict[str, str]]:
    audit = pay.read_audit(action.audit)
    rejections = pay.read_rejections(action.rejections, audit) if action.rejections else {}
    return audit, pay.decide(audit, action.reject, rejections)


def _lines_of(batch: Batch) -> dict[str, Line]:
    """Returns assignment id to line, without assignments of other batches, which somebody may have added."""
    hits = batch.hits()
    return {line["AssignmentId"]: line for line in batches.load(batch.folder) if line["HITId"] in hits}


class Pay(Session):
    """Approves and rejects assignments, and sends bonuses."""

    def read(self) -> None:
        """Reads the audit and the bonuses."""
        action = self.action
        if not (action.audit or action.all or action.bonuses):
            raise InputError("one of --audit DIR, --all and --bonuses FILE is required")
        if (action.reject or action.rejections) and not action.audit:
            raise InputError("rejections require the audit that they are based on: add --audit DIR")
        self.lines_before = _lines_of(self.look())
        self.audit, self.feedback = _decide(action) if action.audit else ({}, {})
        self.bonuses = pay.read_bonuses(action.bonuses, self.lines_before) if action.bonuses else {}

    def decisions(self, batch: Batch, lines: Mapping[str, Line]) -> dict[str, str]:
        """Returns assignment id to the reason of its rejection, which is empty for approvals; warns of others."""
        action, audit = self.action, self.audit
        # What compose says about another submission with the same id says nothing about this one.
        known = {each for each, line in lines.items() if each in audit and audit[each].is_about(line, self.key)}
        if action.audit and not action.all and len(known) < len(lines):
            unknown = counted(len(lines) - len(known), "assignment")
            advice = f"compose again from {batch.folder / batches.ASSIGNMENTS}, or add --all"
            logging.warning("%s not in the audit, left unchanged: %s", unknown, advice)
        decisions = {key: self.feedback[key] if key in known else "" for key in lines if action.all or key in known}
        late = [each for each in decisions if decisions[each] and lines[each]["AssignmentStatus"] == "Approved"]
        if late:
            logging.warning("too late to reject, because they are approved already: %s", ", ".join(late))
        return pay.unpaid(batch, decisions, lines)

    def run(self) -> int:
        """Pays, after showing the amount."""
        with self.open() as batch:
            if not self.dry_run:
                self.calls("collecting", batches.collect, batch)
            hits, lines = batch.hits(), _lines_of(batch)
            decisions = self.decisions(batch, lines)
            due = {each: bonus for each, bonus in self.bonuses.items() if f"bonus:{each}" not in batch.journal.done}
            for_bonuses = up_to_cent(sum((each.amount + fee_for(each.amount, 1) for each in due.values()), Decimal(0)))
            approved = [hits[lines[each]["HITId"]] for each in decisions if not decisions[each]]
            rewards = up_to_cent(sum((hit.reward + hit.fee for hit in approved), Decimal(0)))
            self.announce(
                f"{counted(len(approved), 'assignment')} to approve (${rewards:,.2f} with fees), "
                f"{len(decisions) - len(approved):,} to reject, "
                f"{counted(len(due), 'bonus', 'bonuses')} to send (${for_bonuses:,.2f})"
            )
            for each, text in decisions.items():
                if text:
                    self.announce(f"  reject {each}: {text}")
            failures: Failures = {}
            if decisions or due:
                self.agree(batch, rewards + for_bonuses, held=for_bonuses)
                failures |= self.calls("paying", pay.pay, batch, decisions, lines)
                # To the worker whose work was read: MTurk refuses if the id is another worker's by now.
                failures |= self.calls("sending bonuses", pay.send_bonuses, batch, due, self.lines_before)
            failures |= pay.different_bonuses(batch, self.bonuses)
            _logged(failures, "paying")
            verdicts = Counter(bool(text) for each, text in decisions.items() if f"pay:{each}" not in failures)
            sent = counted(sum(f"bonus:{each}" not in failures for each in due), "bonus", "bonuses")
            summary = f"{verdicts[False]:,} approved, {verdicts[True]:,} rejected, {sent} sent"
            self.finish(batch, list(lines.values()), summary)
            return EXIT_FAILURE if failures else 0


class SiteCsv:
    """Fills in the decisions in the results of the requester site."""

    def __init__(self, action: Any) -> None:
        self.action = action
        _, decisions = _decide(action)
        self.data, self.counts, self.broken = pay.fill_in(action.results, decisions)

    def run(self) -> int:
        """Writes the file."""
        action, counts = self.action, self.counts
        disk.write(action.output, self.data, private=True)
        for record in self.broken:
            logging.error("%s: row %d: left out: %s", action.results, record.number, record.problem)
        if counts["unknown"]:
            unknown = counted(counts["unknown"], "assignment")
            logging.warning("%s not in the audit, neither approved nor rejected: compose again with this file", unknown)
        say(
            f"{action.output}: {counts['approved']:,} to approve, {counts['rejected']:,} to reject, "
            f"{counts['settled']:,} approved or rejected already, {counts['unknown']:,} without a decision"
        )
        return EXIT_FAILURE if self.broken else 0
