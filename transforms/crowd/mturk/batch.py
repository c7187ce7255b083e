"""The folder of a batch: its journal, and the settings that all later calls use.

``journal.jsonl`` and ``assignments.jsonl`` are raw data: only their owner can read them, and they must not be released.
All other files identify workers by keyed hashes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from parapet.schemas.errors import InputError, parapet_version
from parapet.transforms.crowd.journal import FORMAT, Event, Journal
from parapet.transforms.crowd.mturk import client

_QUALIFICATION_ID = re.compile(r"[A-Z0-9]{1,64}")
_COUNTRY = re.compile(r"[A-Z]{2}(-[A-Z0-9]{1,3})?")

# Calls logged with one fsync, per parallel call, so that a throttled call does not hold up all others.
_AT_A_TIME = 8

Line = dict[str, Any]  # of assignments.jsonl

VERDICTS = {"Approved": "approve", "Rejected": "reject"}  # by MTurk's status, once it is final

Progress = Callable[[int, int], None]  # called with the number of finished calls and the total


class Settings(msgspec.Struct, frozen=True):
    """The workers who may work on a batch; fixed by its first ``publish``.

    Attributes:
      countries: ISO 3166 codes of allowed countries; empty for any.
      min_approval: minimum percentage of a worker's assignments that were approved; 0 for any.
      min_approved: minimum number of approved assignments; 0 for any.
      required: ids of qualifications that a worker must have; ``excluded``: must not have.
      max_per_worker: maximum number of this batch's assignments per worker; 0 for no limit.

    Raises:
      InputError: a value that MTurk would refuse; names the flag.
    """

    countries: tuple[str, ...] = ("US",)
    min_approval: int = 90
    min_approved: int = 0
    required: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    max_per_worker: int = 0

    def __post_init__(self) -> None:
        for flag, values, pattern, what in (
            ("--countries", self.countries, _COUNTRY, "a country code such as US or US-CA"),
            ("--require_qualification", self.required, _QUALIFICATION_ID, "a qualification id, in capital letters"),
            ("--exclude_qualification", self.excluded, _QUALIFICATION_ID, "a qualification id, in capital letters"),
        ):
            for value in values:
                if not pattern.fullmatch(value):
                    raise InputError(f"{value!r} is not {what}", flag)
        if not 0 <= self.min_approval <= 100:
            raise InputError("must be a percentage from 0 to 100", "--min_approval")
        for flag, number in (("--min_approved", self.min_approved), ("--max_per_worker", self.max_per_worker)):
            if number < 0:
                raise InputError("must be a number of assignments, or 0 for any number", flag)


class PublishedHit(msgspec.Struct, frozen=True):
    """A published HIT.

    Attributes:
      round: the id of the top-up that it belongs to, or empty.
      reward: dollars per assignment. ``fee`` is MTurk's fee per assignment, not rounded.
      assignments: the number of workers.
      expiration: the time when it expires.
      gone: whether MTurk reported that it no longer exists.
    """

    hit_id: str
    task_id: str
    round: str
    reward: Decimal
    fee: Decimal
    assignments: int
    expiration: datetime
    gone: bool = False


class Batch:
    """An open batch, whose journal the caller closes.

    Args:
      folder: the folder of the batch.
      writable: False for read-only access.

    Attributes:
      id: random; part of every request token, so that two batches never share a HIT.
      endpoint: the address where the batch is published.
      client: the boto3 client for all calls; None in a dry run. ``parallel``: the number of parallel calls.
      key: the key for hashing worker ids in journal and ledger.

    Raises:
      InputError: there is no batch, or it cannot be opened.
    """

    client: Any = None
    parallel = 1
    key = b""

    def __init__(self, folder: str | Path, writable: bool = True) -> None:
        self.folder = Path(folder)
        self.journal = Journal(self.folder, writable=False)
        if not self.journal.batch:
            raise InputError("contains no batch: create one with 'parapet mturk publish'", self.folder)
        if writable:
            self.journal = Journal(self.folder)
        self.id: str = self.journal.batch["id"]
        self.endpoint: str = self.journal.batch["endpoint"]
        self.settings = msgspec.convert(self.journal.batch["settings"], Settings, strict=False)

    def token(self, key: str) -> str:
        """Return the UniqueRequestToken of a call: 64 characters derived from the batch and the call's key."""
        return hashlib.sha256(f"{self.id} {key}".encode()).hexdigest()

    def hits(self) -> dict[str, PublishedHit]:
        """Return the published HITs by id, in order of publishing."""
        published, stopped, gone = (self.journal.with_prefix(name) for name in ("hit", "stop", "gone"))
        hits = {facts["hit_id"]: facts | {"gone": facts["hit_id"] in gone} for facts in published.values()}
        hits = {hit_id: facts | stopped.get(hit_id, {}) for hit_id, facts in hits.items()}
        return msgspec.convert(hits, dict[str, PublishedHit], strict=False)


def begin(folder: str | Path, endpoint: str, chosen: Mapping[str, Any]) -> None:
    """Begin a batch, or check that an existing one has the same address and settings.

    Args:
      folder: the folder of the batch.
      endpoint: the address where it is to be published.
      chosen: the explicitly set fields of :class:`Settings`; others have their defaults, or the batch's values.

    Raises:
      InputError: the batch has another address or other settings, its journal is lost, or it cannot be written.
    """
    with Journal(Path(folder)) as journal:
        if not (journal.done or journal.open):  # nothing is at MTurk yet
            facts = {
                "format": FORMAT,
                "parapet": parapet_version(),
                "id": journal.batch.get("id") or uuid4().hex,
                "endpoint": endpoint,
                "settings": msgspec.to_builtins(Settings(**chosen)),
            }
            if facts != journal.batch:
                journal.write([("batch", "batch", "", facts)])
        settings = msgspec.convert(journal.batch["settings"], Settings, strict=False)
        differ = [f"{name} {getattr(settings, name)!r}" for name in chosen if getattr(settings, name) != chosen[name]]
        if differ:
            reason = f"this batch was started with {', '.join(differ)}: give the same values, or start another batch"
            raise InputError(reason, folder)
        check_endpoint(journal.batch["endpoint"], endpoint, folder)


def check_endpoint(of_batch: str, of_command: str, folder: str | Path) -> None:
    """Raise InputError unless the batch is published at the address that the command uses."""
    if of_batch == of_command:
        return
    flags = {client.PRODUCTION: "add --production, which spends real money", client.SANDBOX: "leave out --endpoint_url"}
    advice = flags.get(of_batch, f"add --endpoint_url {of_batch}")
    if of_command == client.PRODUCTION:
        advice = "leave out --production"
    raise InputError(f"this batch was published {client.where(of_batch)}: {advice}", folder)


class Call(msgspec.Struct, frozen=True):
    """A call to MTurk.

    Attributes:
      key: identifies the call across runs in the journal.
      operation: boto3's name for it.
      arguments: boto3's arguments; may contain a worker id.
      facts: the facts for the journal; must not contain worker ids.
    """

    key: str
    operation: str
    arguments: dict[str, Any]
    facts: dict[str, Any] = {}


Failures = dict[str, str]  # key of a call to the reason why it was refused


def perform(
    batch: Batch,
    calls: Sequence[Call],
    progress: Progress | None = None,
    send: Callable[[Call], dict[str, Any]] | None = None,
) -> Failures:
    """Make the calls and return those that were refused; a dry run prints them instead.

    An interrupted call stays open in the journal. So does a refused one: boto3 repeats a call whose response was lost,
    and MTurk may refuse the repetition because the first attempt succeeded.

    Args:
      batch: the batch whose journal is used. An interrupted run leaves at most eight times as many calls open as run in
        parallel.
      calls: the calls in order.
      progress: called after each group of calls.
      send: makes one call and returns further facts about its success, if a plain call is not enough.

    Raises:
      InputError: a refusal after which further calls would fail, too, or no response; completed calls are in the
        journal.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    if batch.client is None:
        for call in calls:
            print(json.dumps({"call": call.operation, "key": call.key, **call.facts}))
        return {}
    fatal: list[Exception] = []

    def attempt(call: Call) -> dict[str, Any] | Exception:
        if fatal:
            return fatal[0]
        try:
            if send is not None:
                return send(call)
            getattr(batch.client, call.operation)(**call.arguments)
            return {}
        except (ClientError, BotoCoreError, client.UnusableAnswer) as error:
            if not isinstance(error, ClientError) or client.code_of(error) in client.HOPELESS:
                fatal.append(error)
            return error

    failures: Failures = {}
    size = batch.parallel * _AT_A_TIME
    with ThreadPoolExecutor(batch.parallel) as pool:
        for start in range(0, len(calls), size):
            chunk = calls[start : start + size]
            batch.journal.write([("begun", call.key, call.operation, call.facts) for call in chunk])
            entries: list[tuple[Event, str, str, dict[str, Any]]] = []
            for call, outcome in zip(chunk, pool.map(attempt, chunk), strict=True):
                if isinstance(outcome, Exception):
                    facts = {"code": client.code_of(outcome), "message": client.message_of(outcome)}
                    entries.append(("failed", call.key, call.operation, facts))
                    failures[call.key] = f"MTurk refused: {facts['message']} [{facts['code']}]"
                else:
                    entries.append(("done", call.key, call.operation, outcome))
            batch.journal.write(entries)
            if fatal:
                with client.explaining(chunk[0].operation):
                    raise fatal[0]
            if progress is not None:
                progress(start + len(chunk), len(calls))
    return failures
