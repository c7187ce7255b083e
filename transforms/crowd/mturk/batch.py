"""The folder of a batch: its journal, and the settings that every later call keeps to.

``journal.jsonl`` and ``assignments.jsonl`` are the raw files: only their owner can read them, and they belong in no
release. Everything else that is written here knows workers by keyed hashes.
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
from parapet.transforms.crowd import journal
from parapet.transforms.crowd.journal import FILE, FORMAT, Event
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

# What a batch was begun with: the first line of its journal, from which a lost journal can be begun again.
BATCH = "batch.json"

# What stands beside the journal of a batch that was begun: without the journal nobody knows what is out and paid.
TRACES = (BATCH, "assignments.jsonl", "replaced.jsonl", "ledger.csv", "status.html")

# Locale, share of assignments approved, number approved: MTurk's own qualifications.
MAX_QUALIFICATIONS = 10

_QUALIFICATION_ID = re.compile(r"[A-Z0-9]{1,64}")
_COUNTRY = re.compile(r"[A-Z]{2}(-[A-Z0-9]{1,3})?")

# Calls that are written down together, for each that is under way: one that is throttled does not hold all others up.
_AT_A_TIME = 8

Told = Callable[[int, int], None]  # how many are done, of how many


class Journal(journal.Journal):
    """The journal of a batch at MTurk."""

    program, what = "parapet mturk", "batch"

    def refuse_lost(self, what: str, always: bool = False) -> None:
        """As :func:`refuse_lost` says."""
        refuse_lost(self.path.parent, what, always)


def refuse_lost(folder: Path, what: str, always: bool = False) -> None:
    """Raises InputError where a folder shows that there was a journal.

    Args:
      folder: of the batch.
      what: what is the matter with the journal.
      always: whether the journal itself shows it.
    """
    traces = [name for name in TRACES if (folder / name).exists()]
    if not (traces or always):
        return
    beside = f", although the folder has {traces[0]} of a batch" if traces else ""
    recover = "run 'parapet mturk publish --recover', which asks MTurk for the published HITs, or "
    raise InputError(
        f"the journal {what}{beside}: without it, it is not known what was published and paid, and "
        f"publishing again would cost twice; {recover if BATCH in traces else ''}restore the journal from a "
        "backup. To begin another batch, choose another folder; MTurk lists the HITs of this batch that are "
        "still published",
        folder / FILE,
    )


class Settings(msgspec.Struct, frozen=True):
    """Who may work on the HITs of a batch; kept from its first ``publish`` on.

    Attributes:
      countries: ISO 3166 codes, of which a worker must have one; empty for any.
      min_approval: per cent of a worker's assignments that were approved, at least; 0 for any.
      min_approved: their number, at least; 0 for any.
      masters: whether only MTurk's Masters may.
      required: ids of qualifications that a worker must have. ``excluded``: must not have.
      max_per_worker: assignments of this batch that one worker may do; 0 for any number.

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
    """A HIT that is out.

    Attributes:
      part: of its task's pages. ``round``: 0, or the number of the top-up that made it.
      fields: the form fields that it asks for.
      reward: dollars for an assignment. ``fee`` is MTurk's for one, not rounded.
      assignments: workers when it was published. ``wanted``: now, top-ups counted in.
      expiration: when it goes off offer.
      gone: whether MTurk said that it no longer has it.
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
      folder: where it is kept.
      writable: False for a look that changes nothing.

    Attributes:
      id: made at random once; part of every request token, so that two batches never share a HIT.
      endpoint: the address that the batch lives at.
      client: boto3's, through which all calls go. ``parallel``: how many are under way at a time.
      key: for the workers' hashes, by which journal and ledger know them.

    Raises:
      InputError: there is no batch here, or it cannot be opened.
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
        """``production``, ``sandbox`` or the address itself."""
        return environment_of(self.endpoint)

    def token(self, key: str) -> str:
        """The UniqueRequestToken of a call: from the batch and what the call does, 64 characters."""
        return hashlib.sha256(f"{self.id} {key}".encode()).hexdigest()

    def hits(self) -> dict[str, OutHit]:
        """The HITs that are out, by id, in the order of publishing, top-ups counted in."""
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


def begin(folder: str | Path, endpoint: str, given: Mapping[str, Any], recover: bool = False) -> bool:
    """Begins a batch where there is none; one that is there must live at the same place under the same settings.

    What a batch was begun with is kept in ``batch.json`` too, before anything is sent: a folder that has it and no
    journal is a batch whose journal is lost, from which ``recover`` goes on.

    Args:
      folder: of the batch.
      endpoint: where it is to live.
      given: fields of :class:`Settings` that were asked for; the others have their defaults, or what the batch has.
      recover: whether a journal that is lost is begun again. What is out is then to be looked up at MTurk.

    Returns:
      Whether nothing of the batch can be at MTurk yet: it was begun just now.

    Raises:
      InputError: it lives elsewhere, was begun with other settings, its journal is lost, or it cannot be written.
    """
    if recover:
        _recover(Path(folder))
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
        kept_beside = msgspec.json.encode(journal.batch) + b"\n"
        if not (Path(folder) / BATCH).exists() or (Path(folder) / BATCH).read_bytes() != kept_beside:
            write_whole(Path(folder) / BATCH, kept_beside, private=True)
    return fresh


def _recover(folder: Path) -> None:
    """Begins a lost journal again with what ``batch.json`` has; what is left of it stays beside it."""
    try:
        if not (folder / FILE).exists():
            refuse_lost(folder, "is missing")
            return
        if Journal(folder, writable=False).batch:
            return
    except InputError:  # lost, or a line in it cannot be read
        pass
    try:
        facts = msgspec.json.decode((folder / BATCH).read_bytes(), type=dict[str, Any])
        msgspec.convert(facts["settings"], Settings, strict=False)
        if not (isinstance(facts["id"], str) and isinstance(facts["endpoint"], str)):
            raise ValueError("Parapet did not write this file")
    except OSError as error:
        raise InputError(f"the batch cannot be recovered without this file: {error.strerror}", folder / BATCH) from None
    except (ValueError, TypeError, KeyError, RecursionError, msgspec.MsgspecError) as error:
        raise InputError(f"the batch cannot be recovered: {error}", folder / BATCH) from None
    with Journal(folder, recover=True) as journal:
        # What was noted is no batch without a call: its settings stay.
        journal.write([("batch", "batch", "", facts), ("noted", "recovered", "", {})])


def check_endpoint(kept: str, wanted: str, folder: str | Path) -> None:
    """Raises InputError unless the batch lives where the command is to talk to."""
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
    """``in production``, ``in the sandbox`` or ``at http://…``."""
    return {"production": "in production", "sandbox": "in the sandbox"}.get(environment, f"at {environment}")


def write_whole(path: Path, data: bytes, private: bool = False) -> None:
    """Writes a file under another name and renames it: a reader sees the old one or the new one, whole.

    Args:
      path: the file.
      data: its bytes.
      private: whether only its owner may read it.

    Raises:
      InputError: it cannot be written.
    """
    try:
        disk.write(path, data, private)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", path) from None


class Call(msgspec.Struct, frozen=True):
    """One call.

    Attributes:
      key: what it does, the same on every run; the journal knows it by this.
      operation: boto3's name.
      arguments: boto3's; may hold a worker id.
      facts: what the journal keeps; may not.
    """

    key: str
    operation: str
    arguments: dict[str, Any]
    facts: dict[str, Any] = {}


class NotTried(Exception):
    """Why a call that was written down was not made."""


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
    """Makes the calls; gives those that were refused. Any call may be cut off, and then stays open in the journal.

    Args:
      batch: whose journal it is. Eight times as many calls as are under way at a time are open at most when the run is
        cut off.
      calls: in order.
      told: called with the number done.
      is_done: of a call that MTurk refused, and the code of the refusal: whether MTurk shows it as done, because an
        earlier attempt had gone through and its answer was lost.
      do: makes one call and gives further facts of its success, where that takes more. A botocore ClientError is a
        refusal; an answer that cannot be used leaves it open whether the call was done, and ends the run.

    Raises:
      InputError: a refusal after which no further call can go well, or no answer; what was done is in the journal.
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
