"""The folder of a batch: its journal, and the settings that every later call keeps to.

The journal is JSON lines, appended and fsynced, from which every later run knows what was done. A call that changes
something at MTurk is written down before it is made (``begun``) and after (``done`` or ``failed``). What is begun and
not done when a run starts may or may not have happened, even where MTurk refused it in the end (an earlier attempt may
have succeeded and its answer been lost): it is looked up at MTurk, never guessed.

``journal.jsonl`` and ``assignments.jsonl`` are the raw files: only their owner can read them, and they belong in no
release. Everything else that is written here knows workers by keyed hashes.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import msgspec

from parapet.schemas.errors import InputError, parapet_version
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

FILE = "journal.jsonl"

# Raised whenever an older program would misread what a newer one writes.
FORMAT = 1

# What a batch was begun with: the first line of its journal, from which a lost journal can be begun again.
BATCH = "batch.json"

# What stands beside the journal of a batch that was begun: without the journal nobody knows what is out and paid.
TRACES = (BATCH, "assignments.jsonl", "replaced.jsonl", "ledger.csv", "status.html")

Event = Literal["batch", "begun", "done", "failed", "noted"]

# Locale, share of assignments approved, number approved: MTurk's own qualifications.
MAX_QUALIFICATIONS = 10

_QUALIFICATION_ID = re.compile(r"[A-Z0-9]{1,64}")
_COUNTRY = re.compile(r"[A-Z]{2}(-[A-Z0-9]{1,3})?")

# Calls that are written down together, for each that is under way: one that is throttled does not hold all others up.
_AT_A_TIME = 8

Told = Callable[[int, int], None]  # how many are done, of how many


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of the journal.

    Attributes:
      at: when, ISO 8601, UTC.
      event: ``batch`` opens the journal; ``begun``, ``done`` and ``failed`` belong to a call; ``noted`` keeps a fact.
      key: what the call does, the same on every run: ``hit:Banks_1:names:1:4f0c…``, ``approve:3XYZ``.
      operation: boto3's name of the call.
      facts: what later runs need. No worker ids: workers are known by keyed hashes.
    """

    at: str
    event: Event
    key: str
    operation: str = ""
    facts: dict[str, Any] = {}


class Journal:
    """The open journal of one batch. One process at a time.

    Args:
      folder: the batch.
      writable: False only reads: nothing is made, mended or locked, and writing is an error.
      recover: begins a journal that is lost again; what there is of it is kept as ``journal.jsonl.lost``.

    Attributes:
      done: key to facts of what is done, those of ``begun`` and ``done`` together, and when (``at``). ``noted`` facts
        are here too.
      open: key to facts of what was begun and is not done; those that MTurk refused have its ``message``.

    Raises:
      InputError: another process works on the batch, a line cannot be read, or the journal of a batch is lost.
    """

    def __init__(self, folder: Path, writable: bool = True, recover: bool = False) -> None:
        self.path = folder / FILE
        self.done: dict[str, dict[str, Any]] = {}
        self.open: dict[str, dict[str, Any]] = {}
        self.batch: dict[str, Any] = {}
        if not (self.path.exists() or recover):
            refuse_lost(folder, "is not there")
        self._handle = _locked(self.path) if writable else None
        try:
            if recover:
                self._begin_again()
            elif self.path.exists():
                self._read()
        except BaseException:
            self.close()
            raise

    def _begin_again(self) -> None:
        """Puts what there is aside: a second lost journal replaces the first, which it holds."""
        assert self._handle is not None
        data = self.path.read_bytes()
        if data:
            with open(self.path.with_name(f"{FILE}.lost"), "ab", opener=_private) as lost:
                lost.write(data)
                lost.flush()
                os.fsync(lost.fileno())
            disk.sync(self.path.parent)
        os.truncate(self.path, 0)

    def _read(self) -> None:
        data = self.path.read_bytes()
        whole, _, torn = data.rpartition(b"\n")
        if data and not data.strip(b"\0 \t\r\n"):
            nothing = f"holds {len(data):,} bytes of nothing, as after a loss of power"
            refuse_lost(self.path.parent, nothing, always=True)
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                self._take(msgspec.json.decode(line, type=Entry))
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise InputError(f"not a line of the journal: {error}", self.path, f"row {number}") from None
        if not self.batch:
            refuse_lost(self.path.parent, "lacks its first line" if data else "is empty")
        if torn and self._handle is not None:
            # A killed run's last line: what it was about to say is not known, so its call counts as open (or unmade).
            logging.info("%s: the last line is torn, the run before was cut off; it is dropped", self.path)
            os.truncate(self.path, len(whole) + 1 if whole else 0)

    def _take(self, entry: Entry) -> None:
        if entry.event == "batch":
            self.batch = entry.facts
            if self.batch.get("format") != FORMAT:
                raise InputError(
                    f"this batch was made by Parapet {self.batch.get('parapet', '(unknown)')}, whose journal has "
                    "another format: go on with that version",
                    self.path,
                )
        elif entry.event == "begun":
            self.open[entry.key] = {"operation": entry.operation, **entry.facts}
        elif entry.event == "done":
            # Popped first: what is done again comes last.
            before = {**self.done.pop(entry.key, {}), **self.open.pop(entry.key, {})}
            self.done[entry.key] = {**before, **entry.facts, "at": entry.at}
        elif entry.event == "noted":
            self.done[entry.key] = {**self.done.get(entry.key, {}), **entry.facts, "at": entry.at}
        else:
            self.open[entry.key] = {**self.open.get(entry.key, {}), **entry.facts}

    def write(self, entries: Iterable[tuple[Event, str, str, Mapping[str, Any]]]) -> None:
        """Appends (event, key, operation, facts), all with one fsync; returns when they are on the disk."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        lines = [Entry(at, event, key, operation, dict(facts)) for event, key, operation, facts in entries]
        if not lines:
            return
        if self._handle is None:
            raise AssertionError("a journal opened for reading is not written")
        data = b"".join(msgspec.json.encode(entry) + b"\n" for entry in lines)
        try:
            while data:
                data = data[os.write(self._handle, data) :]
            os.fsync(self._handle)
        except OSError as error:
            reason = f"cannot be written: {error.strerror}; make room, then run the same command again"
            raise InputError(reason, self.path) from None
        for entry in lines:
            self._take(entry)

    def with_prefix(self, prefix: str) -> dict[str, dict[str, Any]]:
        """What is done under keys that begin with ``prefix:``, without the prefix, in the journal's order."""
        return {
            key.removeprefix(f"{prefix}:"): facts for key, facts in self.done.items() if key.startswith(f"{prefix}:")
        }

    def close(self) -> None:
        """Lets other processes in."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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
    beside = f", and beside it is {traces[0]} of a batch" if traces else ""
    recover = "run 'parapet mturk publish --recover', which looks at MTurk for what is out, or "
    raise InputError(
        f"the journal {what}{beside}: what is out and paid is not known, and publishing would ask and pay for it "
        f"again; {recover if BATCH in traces else ''}bring the journal back from a backup. To begin another batch, "
        "take another folder; HITs of this one that are still out are listed at MTurk",
        folder / FILE,
    )


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _locked(path: Path) -> int:
    try:
        disk.make_folder(path.parent)
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        disk.sync(path.parent)  # without its name in the folder, the lines of a journal are lost
    except OSError as error:
        raise InputError(f"cannot write the journal: {error.strerror}", path) from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise InputError("another 'parapet mturk' works on this batch; wait until it ends", path.parent) from None
    return handle


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
                raise InputError(f"{country!r} is no country such as US, or US-CA", "--countries")
        if not 0 <= self.min_approval <= 100:
            raise InputError("per cent, from 0 to 100", "--min_approval")
        for flag, number in (("--min_approved", self.min_approved), ("--max_per_worker", self.max_per_worker)):
            if number < 0:
                raise InputError("a number of assignments, 0 for any", flag)
        for flag, ids in (("--require_qualification", self.required), ("--exclude_qualification", self.excluded)):
            for each in ids:
                if not _QUALIFICATION_ID.fullmatch(each):
                    raise InputError(f"{each!r} is no qualification id: capital letters and digits", flag)
        # Two are ours: not on the block list, not on the sibling task; a top-up adds a third.
        own = bool(self.countries) + bool(self.min_approval) + bool(self.min_approved) + self.masters + 3
        if own + len(self.required) + len(self.excluded) > MAX_QUALIFICATIONS:
            raise InputError(f"MTurk takes {MAX_QUALIFICATIONS} qualifications a HIT", "--require_qualification")


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
            refuse_lost(self.folder, "is not there")
            raise InputError("no batch here: 'parapet mturk publish' makes one", self.folder)
        self.journal = Journal(self.folder, writable)
        if not self.journal.batch:
            raise InputError("the batch was never begun: run 'parapet mturk publish'", self.folder)
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
            reason = f"this batch was begun with {', '.join(differ)}: keep to that, or begin another"
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
            refuse_lost(folder, "is not there")
            return
        if Journal(folder, writable=False).batch:
            return
    except InputError:  # lost, or a line in it cannot be read
        pass
    try:
        facts = msgspec.json.decode((folder / BATCH).read_bytes(), type=dict[str, Any])
        msgspec.convert(facts["settings"], Settings, strict=False)
        if not (isinstance(facts["id"], str) and isinstance(facts["endpoint"], str)):
            raise ValueError("it is not what Parapet wrote")
    except OSError as error:
        raise InputError(f"there is nothing to recover the batch from: {error.strerror}", folder / BATCH) from None
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
        advice = "in production, where this costs money: add --production"
    elif environment_of(wanted) == "production":
        advice = f"{where(lives)}: leave --production out"
    else:
        advice = f"{where(lives)}: " + (
            "leave --endpoint_url out" if lives == "sandbox" else f"add --endpoint_url {kept}"
        )
    raise InputError(f"this batch lives {advice}", folder)


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
            return NotTried("an earlier call showed that none can go well")
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
