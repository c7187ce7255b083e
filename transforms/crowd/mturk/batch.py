"""The folder of a batch: its journal, and the settings that all later calls use.

``journal.jsonl`` and ``assignments.jsonl`` are raw data: only their owner can read them, and they must not be released.
All other files identify workers by keyed hashes.
"""

from __future__ import annotations

import hashlib
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
from parapet.transforms.crowd.journal import FILE, FORMAT, Event, Journal, refuse_lost
from parapet.transforms.crowd.mturk.client import (
    HOPELESS,
    UnusableAnswer,
    chunks,
    code_of,
    environment_of,
    explained,
    message_of,
)
from parapet.transforms.storage import disk

# Includes MTurk's own qualifications: locale, share of assignments approved, number approved.
MAX_QUALIFICATIONS = 10

_QUALIFICATION_ID = re.compile(r"[A-Z0-9]{1,64}")
_COUNTRY = re.compile(r"[A-Z]{2}(-[A-Z0-9]{1,3})?")

# Calls logged with one fsync, per parallel call, so that a throttled call does not hold up all others.
_AT_A_TIME = 8

Told = Callable[[int, int], None]  # called with the number done and the total


class Settings(msgspec.Struct, frozen=True):
    """The workers who may work on a batch; fixed by its first ``publish``.

    Attributes:
      countries: ISO 3166 codes of allowed countries; empty for any.
      min_approval: minimum percentage of a worker's assignments that were approved; 0 for any.
      min_approved: minimum number of approved assignments; 0 for any.
      masters: whether only MTurk's Masters may work on it.
      required: ids of qualifications that a worker must have; ``excluded``: must not have.
      max_per_worker: maximum number of this batch's assignments per worker; 0 for no limit.

    Raises:
      InputError: a value that MTurk would refuse; names the flag.
    """

    countries: tuple[str, ...] = ("US",)
    min_approval: int = 90
    min_approved: int = 0
    masters: bool = False
    required: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    max_per_worker: int = 0

    def __post_init__(self) -> None:
        for country in self.countries:
            if not _COUNTRY.fullmatch(country):
                raise InputError(f"{country!r} is not a country code such as US or US-CA", "--countries")
        if not 0 <= self.min_approval <= 100:
            raise InputError("must be a percentage from 0 to 100", "--min_approval")
        for flag, number in (("--min_approved", self.min_approved), ("--max_per_worker", self.max_per_worker)):
            if number < 0:
                raise InputError("must be a number of assignments, or 0 for any number", flag)
        for flag, ids in (("--require_qualification", self.required), ("--exclude_qualification", self.excluded)):
            for each in ids:
                if not _QUALIFICATION_ID.fullmatch(each):
                    raise InputError(
                        f"{each!r} is not a qualification id, which consists of capital letters and digits", flag
                    )
        # Two are ours: not on the block list, not on the sibling task; a top-up adds a third.
        own = bool(self.countries) + bool(self.min_approval) + bool(self.min_approved) + self.masters + 3
        if own + len(self.required) + len(self.excluded) > MAX_QUALIFICATIONS:
            raise InputError(
                f"MTurk allows at most {MAX_QUALIFICATIONS} qualifications per HIT, some of which Parapet needs: "
                "give fewer",
                "--require_qualification",
            )


class OutHit(msgspec.Struct, frozen=True):
    """A published HIT.

    Attributes:
      part: the part of its task's pages. ``round``: 0, or the number of the top-up that created it.
      fields: its form fields.
      reward: dollars per assignment. ``fee`` is MTurk's fee per assignment, not rounded.
      assignments: the number of workers when it was published. ``wanted``: the current number, including top-ups.
      expiration: the time when it expires.
      gone: whether MTurk reported that it no longer exists.
    """

    hit_id: str
    task_id: str
    part: int
    round: int
    fields: tuple[str, ...]
    reward: Decimal
    fee: Decimal
    assignments: int
    wanted: int
    lifetime_seconds: int
    expiration: datetime
    gone: bool = False


class Batch:
    """An open batch.

    Args:
      folder: the folder of the batch.
      writable: False for read-only access.

    Attributes:
      id: random; part of every request token, so that two batches never share a HIT.
      endpoint: the address where the batch is published.
      client: the boto3 client for all calls. ``parallel``: the number of parallel calls.
      key: the key for hashing worker ids in journal and ledger.

    Raises:
      InputError: there is no batch, or it cannot be opened.
    """

    client: Any = None
    parallel = 1
    key = b""

    def __init__(self, folder: str | Path, writable: bool = True) -> None:
        self.folder = Path(folder)
        if not (self.folder / FILE).exists():
            refuse_lost(self.folder, "is missing")
            raise InputError("contains no batch: create one with 'parapet mturk publish'", self.folder)
        self.journal = Journal(self.folder, writable)
        if not self.journal.batch:
            raise InputError("the batch was never started: run 'parapet mturk publish'", self.folder)
        self.id: str = self.journal.batch["id"]
        self.endpoint: str = self.journal.batch["endpoint"]
        self.settings = msgspec.convert(self.journal.batch["settings"], Settings, strict=False)

    @property
    def environment(self) -> str:
        """Return ``production``, ``sandbox`` or the address itself."""
        return environment_of(self.endpoint)

    def token(self, key: str) -> str:
        """Return the UniqueRequestToken of a call: 64 characters derived from the batch and the call's key."""
        return hashlib.sha256(f"{self.id} {key}".encode()).hexdigest()

    def hits(self) -> dict[str, OutHit]:
        """Return the published HITs by id, in order of publishing, including changes by top-ups."""
        hits = {}
        for facts in self.journal.with_prefix("hit").values():
            hit = msgspec.convert({**facts, "wanted": facts["assignments"]}, OutHit, strict=False)
            hits[hit.hit_id] = hit

        def change(hit_id: str, **values: Any) -> None:
            hits[hit_id] = msgspec.structs.replace(hits[hit_id], **values)

        for facts in self.journal.with_prefix("add").values():
            change(facts["hit_id"], wanted=max(hits[facts["hit_id"]].wanted, facts["to"]))
        for facts in self.journal.with_prefix("prolong").values():
            change(facts["hit_id"], expiration=datetime.fromisoformat(facts["expiration"]))
        for hit_id in self.journal.with_prefix("gone"):
            change(hit_id, gone=True)
        return hits

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, *_: object) -> None:
        self.journal.close()


def begin(folder: str | Path, endpoint: str, given: Mapping[str, Any]) -> bool:
    """Begin a batch, or check that an existing one has the same address and settings.

    Args:
      folder: the folder of the batch.
      endpoint: the address where it is to be published.
      given: the explicitly set fields of :class:`Settings`; others have their defaults, or the batch's values.

    Returns:
      Whether the batch is new, so that nothing of it can be at MTurk yet.

    Raises:
      InputError: the batch has another address or other settings, its journal is lost, or it cannot be written.
    """
    with Journal(Path(folder)) as journal:
        fresh = not journal.batch
        if not (journal.done or journal.open):
            facts = {
                "format": FORMAT,
                "parapet": parapet_version(),
                "id": journal.batch.get("id") or uuid4().hex,
                "endpoint": endpoint,
                "settings": msgspec.to_builtins(Settings(**given)),
            }
            if facts != journal.batch:
                journal.write([("batch", "batch", "", facts)])
        kept = msgspec.convert(journal.batch["settings"], Settings, strict=False)
        differ = [f"{name} {getattr(kept, name)!r}" for name in given if getattr(kept, name) != given[name]]
        if differ:
            reason = f"this batch was started with {', '.join(differ)}: give the same values, or start another batch"
            raise InputError(reason, folder)
        check_endpoint(journal.batch["endpoint"], endpoint, folder)
    return fresh


def check_endpoint(kept: str, wanted: str, folder: str | Path) -> None:
    """Raise InputError unless the batch is published at the address that the command uses."""
    if kept == wanted:
        return
    lives = environment_of(kept)
    if lives == "production":
        advice = "in production, where it costs money: add --production"
    elif environment_of(wanted) == "production":
        advice = f"{where(lives)}: leave out --production"
    else:
        advice = f"{where(lives)}: " + (
            "leave out --endpoint_url" if lives == "sandbox" else f"add --endpoint_url {kept}"
        )
    raise InputError(f"this batch was published {advice}", folder)


def where(environment: str) -> str:
    """Return ``in production``, ``in the sandbox`` or ``at http://…``."""
    return {"production": "in production", "sandbox": "in the sandbox"}.get(environment, f"at {environment}")


def write_whole(path: Path, data: bytes, private: bool = False) -> None:
    """Write a file under a temporary name and rename it, so that readers never see it partially written.

    Args:
      path: the file.
      data: its content.
      private: whether only its owner may read it.

    Raises:
      InputError: it cannot be written.
    """
    try:
        disk.write(path, data, private)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", path) from None


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


class NotTried(Exception):
    """A logged call was not sent, with the reason."""


class Failure(msgspec.Struct, frozen=True):
    """A call that MTurk refused."""

    key: str
    code: str
    message: str


def perform(
    batch: Batch,
    calls: Sequence[Call],
    told: Told | None = None,
    is_done: Callable[[Call, str], bool] = lambda *_: False,
    do: Callable[[Call], dict[str, Any]] | None = None,
) -> list[Failure]:
    """Make the calls and return those that were refused. An interrupted call stays open in the journal.

    Args:
      batch: the batch whose journal is used. An interrupted run leaves at most eight times as many calls open as run in
        parallel.
      calls: the calls in order.
      told: called with the number done.
      is_done: tells from a refused call and the error code whether MTurk shows it as done, because an earlier attempt
        succeeded and its response was lost.
      do: makes one call and returns further facts about its success, if a plain call is not enough. A botocore
        ClientError is a refusal; a response that cannot be used leaves the outcome open and ends the run.

    Raises:
      InputError: a refusal after which further calls would fail, too, or no response; completed calls are in the
        journal.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    hopeless: list[tuple[Call, Exception]] = []

    def make(call: Call) -> dict[str, Any]:
        try:
            getattr(batch.client, call.operation)(**call.arguments)
        except ClientError as error:
            if not is_done(call, code_of(error)):
                raise
        return {}

    def attempt(call: Call) -> dict[str, Any] | Exception:
        if hopeless:
            return NotTried("not tried, because an earlier call failed in a way that affects all")
        try:
            return (do or make)(call)
        except (ClientError, BotoCoreError, UnusableAnswer) as error:
            if not isinstance(error, ClientError) or code_of(error) in HOPELESS:
                hopeless.append((call, error))
            return error

    failures: list[Failure] = []
    done = 0
    with ThreadPoolExecutor(batch.parallel) as pool:
        for chunk in chunks(calls, batch.parallel * _AT_A_TIME):
            batch.journal.write([("begun", call.key, call.operation, call.facts) for call in chunk])
            outcomes = list(zip(chunk, pool.map(attempt, chunk), strict=True))
            batch.journal.write([_ended(*each) for each in outcomes])
            if hopeless:
                call, error = hopeless[0]
                raise explained(error, call.operation)
            failures += [
                Failure(call.key, code_of(error), message_of(error))
                for call, error in outcomes
                if isinstance(error, Exception)
            ]
            done += len(chunk)
            if told is not None:
                told(done, len(calls))
    return failures


def _ended(call: Call, outcome: dict[str, Any] | Exception) -> tuple[Event, str, str, dict[str, Any]]:
    if isinstance(outcome, Exception):
        return "failed", call.key, call.operation, {"code": code_of(outcome), "message": message_of(outcome)}
    return "done", call.key, call.operation, outcome
