"""The folder of a batch: its journal, the settings that all later calls use, and what workers have submitted.

``journal.jsonl`` has JSON Lines, appended and fsynced, which tell later runs which calls were made and paid for. A call
with side effects is logged before it is sent (``begun``) and after (``done``, ``failed``). A call that was begun but is
not done when a run starts may have taken effect, even if MTurk refused it in the end: an earlier attempt may have
succeeded while its response was lost. The run looks up the outcome instead of guessing.

``assignments.jsonl`` has one boto3 assignment per line, as ``compose`` reads it. :func:`collect`, which writes it, only
reads from MTurk, so it can be run and interrupted at any time.

Both are raw data: only their owner can read them, and they must not be released. All other files identify workers by
keyed hashes.

Also the boto3 client: its address, its retries, and its errors in words.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import msgspec
import orjson

from parapet.schemas.errors import InputError, MissingExtra, parapet_version, storable
from parapet.schemas.layout import parse_json_line
from parapet.transforms.core import disk
from parapet.transforms.crowd.worker_ids import MASK, redact

PRODUCTION = "https://mturk-requester.us-east-1.amazonaws.com"
SANDBOX = "https://mturk-requester-sandbox.us-east-1.amazonaws.com"
ENDPOINT_VARIABLE = "AWS_ENDPOINT_URL_MTURK"

# MTurk has one region; for others, boto3 makes up an address that does not exist.
REGION = "us-east-1"

_ADVICE = {
    "UnrecognizedClientException": "MTurk does not recognise these credentials",
    "InvalidSignatureException": "the secret key does not match the access key",
    "IncompleteSignature": "the credentials are incomplete",
    "AccessDeniedException": "these credentials may not use MTurk: link the AWS account to a requester account",
    "ExpiredTokenException": "the session token has expired: log in again",
    "InsufficientFunds": "the account's balance does not cover this: prepay HITs at requester.mturk.com",
    "ThrottlingException": "too many calls: wait a while and run the same command again, or use --parallel_calls 1",
}

# After these errors, further calls would fail, too.
HOPELESS = frozenset(_ADVICE)

_ADDRESS = re.compile(r"https?://[^\s/]+(/\S*)?")

# A worker id such as "A2XYZ…" in MTurk's messages, also shorter or longer ones.
_WORKER_ID = re.compile(r"(?<![A-Za-z0-9])A(?:[A-Z0-9]{9,63}|(?=[A-Z]{0,62}[0-9])[A-Z0-9]{3,63})(?![A-Za-z0-9])")


class UnusableAnswer(InputError):
    """A response of MTurk cannot be used."""


def endpoint_of(production: bool, endpoint_url: str | None) -> str:
    """Returns the address to use: production, or the one given or in the environment, or the sandbox.

    Raises:
      InputError: both production and another address were requested.
    """
    other = endpoint_url or os.environ.get(ENDPOINT_VARIABLE)
    if production and other and other.rstrip("/") != PRODUCTION:
        flag = "--endpoint_url" if endpoint_url else ENDPOINT_VARIABLE
        raise InputError(f"{flag} names {other}: remove it, or leave out --production", "--production")
    if other and not _ADDRESS.fullmatch(other):
        raise InputError(f"{other!r} is not an address such as http://127.0.0.1:8765", "--endpoint_url")
    return PRODUCTION if production else (other or SANDBOX).rstrip("/")


def environment_of(endpoint: str) -> str:
    """Returns ``production``, ``sandbox`` or the address itself."""
    return {PRODUCTION: "production", SANDBOX: "sandbox"}.get(endpoint, endpoint)


def where(endpoint: str) -> str:
    """Returns ``in production``, ``in the sandbox`` or ``at http://…``."""
    return {PRODUCTION: "in production", SANDBOX: "in the sandbox"}.get(endpoint, f"at {endpoint}")


def connect(endpoint: str, parallel: int = 1) -> Any:
    """Creates a boto3 client for MTurk.

    Args:
      endpoint: the address, see :func:`endpoint_of`.
      parallel: the number of threads that will use it.

    Raises:
      InputError: boto3 is not installed.
    """
    try:
        import boto3
        from botocore.config import Config
    except ImportError:
        raise MissingExtra("boto3", "mturk") from None
    # At lower levels these log what they send, including worker ids, and the source of the credentials.
    for name in ("boto3", "botocore", "urllib3"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # Throttling begins at about a hundred calls; standard mode doubles its waits up to 20 s.
    retries = {"mode": "standard", "max_attempts": 10}
    config = Config(retries=retries, max_pool_connections=max(10, parallel), connect_timeout=60, read_timeout=60)
    with explaining():
        client = boto3.session.Session(region_name=REGION).client("mturk", endpoint_url=endpoint, config=config)
    client.meta.events.register("before-parse.mturk", check_before_parsing)
    return client


def code_of(error: Exception) -> str:
    """Returns the end of MTurk's error code, ``HitAlreadyExists``, or botocore's code, ``ThrottlingException``."""
    response = getattr(error, "response", None) or {}  # None for a broken connection
    turk = str(response.get("TurkErrorCode") or response.get("Error", {}).get("TurkErrorCode") or "")
    return turk.rpartition(".")[2] or str(response.get("Error", {}).get("Code", "")) or type(error).__name__


def message_of(error: Exception) -> str:
    """Returns MTurk's message without worker ids."""
    text = str((getattr(error, "response", None) or {}).get("Error", {}).get("Message", "")) or str(error)
    return _WORKER_ID.sub(MASK, redact(text))


@contextmanager
def explaining(operation: str = "") -> Iterator[None]:
    """Converts botocore's errors to errors for users. Raises InputError."""
    from botocore import exceptions

    try:
        yield
    except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError):
        reason = "no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile"
        raise InputError(reason, operation) from None
    except (exceptions.ConnectionError, exceptions.HTTPClientError) as error:
        raise InputError(f"no answer from MTurk: {error}; run the same command again", operation) from None
    except exceptions.ClientError as error:
        advice = _ADVICE.get(code_of(error), "MTurk refused the call")
        raise InputError(f"{advice}: {message_of(error)} [{code_of(error)}]", operation) from None
    except exceptions.BotoCoreError as error:
        raise InputError(message_of(error), operation) from None


def check_before_parsing(operation_model: Any, response_dict: dict[str, Any], **_: Any) -> None:
    """Handles botocore's event ``before-parse``.

    Raises UnusableAnswer for a body that is not JSON, such as a proxy's page, which botocore takes for an empty one.
    """
    body = response_dict["body"]
    if response_dict["status_code"] < 300 and body.strip():
        try:
            json.loads(body)
        except ValueError:
            shown = " ".join(body[:60].decode("ascii", "replace").split())
            reason = f"MTurk's answer is not JSON; it begins with {shown!r}"
            raise UnusableAnswer(reason, operation_model.name) from None


def pages(operation: Callable[..., Any], key: str, **arguments: Any) -> Iterator[dict[str, Any]]:
    """Yields every item of a paged listing.

    Args:
      operation: the boto3 method.
      key: the field with the items.
      **arguments: the operation's arguments.
    """
    token: dict[str, str] = {}
    while True:
        answer = operation(MaxResults=100, **arguments, **token)
        yield from answer[key]
        if not answer[key] or not answer.get("NextToken"):  # the last page may have a token and no items
            return
        token = {"NextToken": answer["NextToken"]}


JOURNAL = "journal.jsonl"

# Increased whenever this program would misread the journals of an older one, or the reverse.
FORMAT = 2

# Files beside a journal. If they exist without it, it is unknown what is published and paid.
TRACES = ("assignments.jsonl", "ledger.csv", "status.html")

Event = Literal["batch", "begun", "done", "failed"]


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of the journal.

    Attributes:
      at: the time, ISO 8601, UTC.
      event: ``batch`` opens the journal; ``begun``, ``done`` and ``failed`` belong to a call.
      key: identifies the call across runs: ``hit:Banks_1:names:1:4f0c…``, ``pay:3XYZ``.
      operation: boto3's name for the call.
      facts: the facts for later runs. Contains no worker ids: workers are identified by keyed hashes.
    """

    at: str
    event: Event
    key: str
    operation: str = ""
    facts: dict[str, Any] = {}


class Journal:
    """The open journal of a folder, for one process at a time.

    Args:
      folder: the folder of the journal.
      writable: if False, the journal is only read: nothing is created, repaired or locked, and writing is an error.

    Attributes:
      batch: the facts of the batch; empty if none was begun.
      done: key to facts of completed calls: those of ``begun`` and ``done`` together, and the time (``at``).
      open: key to facts of calls that were begun and are not done.

    Raises:
      InputError: another process uses the folder, a line cannot be read, or the journal is lost.
    """

    def __init__(self, folder: Path, writable: bool = True) -> None:
        self.path = folder / JOURNAL
        self.batch: dict[str, Any] = {}
        self.done: dict[str, dict[str, Any]] = {}
        self.open: dict[str, dict[str, Any]] = {}
        self._handle: int | None = None
        if not self.path.exists():
            self._refuse_if_lost()
        try:
            if writable:
                self._open_and_lock()
            self._read()
        except BaseException:
            self.close()
            raise

    def _refuse_if_lost(self) -> None:
        if traces := [name for name in TRACES if self.path.with_name(name).exists()]:
            raise InputError(
                f"the journal is lost, although the folder has {traces[0]} of a batch: it is not known what was "
                "published and paid, and publishing again would cost twice; restore the journal from a backup, or "
                "choose another folder to begin another batch",
                self.path,
            )

    def _open_and_lock(self) -> None:
        try:
            disk.make_folder(self.path.parent)
            self._handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
            disk.sync(self.path.parent)  # unless the folder's entry is synced, too, a crash can lose the whole journal
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            reason = "another 'parapet mturk' is using this batch; wait until it ends"
            raise InputError(reason, self.path.parent) from None

    def _read(self) -> None:
        data = self.path.read_bytes() if self.path.exists() else b""
        complete, _, torn = data.rpartition(b"\n")
        for number, line in enumerate(complete.splitlines(), 1):
            try:
                self._apply(msgspec.json.decode(line, type=Entry))
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise InputError(f"not a line of the journal: {error}", self.path, f"row {number}") from None
        if not self.batch:
            self._refuse_if_lost()
        if torn and self._handle is not None:
            # A killed run's last line: what it was about to say is not known, so its call counts as open (or unmade).
            logging.info("%s: the last line, of an interrupted run, is incomplete and is ignored", self.path)
            os.truncate(self.path, len(data) - len(torn))

    def _apply(self, entry: Entry) -> None:
        if entry.event == "batch":
            self.batch = entry.facts
            if self.batch.get("format") != FORMAT:
                version = self.batch.get("parapet", "(unknown)")
                reason = f"this batch was made by Parapet {version}, whose journal has another format"
                raise InputError(f"{reason}: continue with that version", self.path)
        elif entry.event == "begun":
            self.open[entry.key] = {"operation": entry.operation, **entry.facts}
        elif entry.event == "done":
            # Removed first so that a repeated key moves to the end.
            before = {**self.done.pop(entry.key, {}), **self.open.pop(entry.key, {})}
            self.done[entry.key] = {**before, **entry.facts, "at": entry.at}

    def write(self, entries: Iterable[tuple[Event, str, str, Mapping[str, Any]]]) -> None:
        """Appends (event, key, operation, facts) with one fsync; returns when they are on disk.

        Raises:
          OSError: they cannot be written; names the file.
        """
        assert self._handle is not None, "the journal was opened for reading"
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        lines = [Entry(at, event, key, operation, dict(facts)) for event, key, operation, facts in entries]
        data = b"".join(msgspec.json.encode(entry) + b"\n" for entry in lines)
        try:
            while data:
                data = data[os.write(self._handle, data) :]
            os.fsync(self._handle)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from None
        for entry in lines:
            self._apply(entry)

    def with_prefix(self, prefix: str) -> dict[str, dict[str, Any]]:
        """Returns what is done under keys that begin with ``prefix:``, without the prefix, in journal order."""
        start = f"{prefix}:"
        return {key.removeprefix(start): facts for key, facts in self.done.items() if key.startswith(start)}

    def close(self) -> None:
        """Unlocks the journal for other processes."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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
        """Returns the UniqueRequestToken of a call: 64 characters derived from the batch and the call's key."""
        return hashlib.sha256(f"{self.id} {key}".encode()).hexdigest()

    def hits(self) -> dict[str, PublishedHit]:
        """Returns the published HITs by id, in order of publishing."""
        published, stopped, gone = (self.journal.with_prefix(name) for name in ("hit", "stop", "gone"))
        hits = {facts["hit_id"]: facts | {"gone": facts["hit_id"] in gone} for facts in published.values()}
        hits = {hit_id: facts | stopped.get(hit_id, {}) for hit_id, facts in hits.items()}
        return msgspec.convert(hits, dict[str, PublishedHit], strict=False)


def begin(folder: str | Path, endpoint: str, chosen: Mapping[str, Any]) -> None:
    """Begins a batch, or checks that an existing one has the same address and settings.

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
    """Raises InputError unless the batch is published at the address that the command uses."""
    if of_batch == of_command:
        return
    flags = {PRODUCTION: "add --production, which spends real money", SANDBOX: "leave out --endpoint_url"}
    advice = flags.get(of_batch, f"add --endpoint_url {of_batch}")
    if of_command == PRODUCTION:
        advice = "leave out --production"
    raise InputError(f"this batch was published {where(of_batch)}: {advice}", folder)


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
    """Makes the calls and returns those that were refused; a dry run prints them instead.

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
        except (ClientError, BotoCoreError, UnusableAnswer) as error:
            if not isinstance(error, ClientError) or code_of(error) in HOPELESS:
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
                    facts = {"code": code_of(outcome), "message": message_of(outcome)}
                    entries.append(("failed", call.key, call.operation, facts))
                    failures[call.key] = f"MTurk refused: {facts['message']} [{facts['code']}]"
                else:
                    entries.append(("done", call.key, call.operation, outcome))
            batch.journal.write(entries)
            if fatal:
                with explaining(chunk[0].operation):
                    raise fatal[0]
            if progress is not None:
                progress(start + len(chunk), len(calls))
    return failures


ASSIGNMENTS = "assignments.jsonl"

_MEMBERS = (
    "AssignmentId", "WorkerId", "HITId", "AssignmentStatus", "AutoApprovalTime", "AcceptTime", "SubmitTime",
    "ApprovalTime", "RejectionTime", "RequesterFeedback", "Answer",
)  # fmt: skip


def line_of(assignment: Mapping[str, Any], hit: PublishedHit) -> Line:
    """Converts boto3's assignment to JSON types: times in ISO 8601, UTC, to the second; with facts of its HIT."""
    line = {name: _plain(assignment[name]) for name in _MEMBERS if assignment.get(name) is not None}
    return {**line, "RequesterAnnotation": hit.task_id, "Reward": f"{hit.reward:f}"}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="seconds")
    return storable(value) if isinstance(value, str) else value


def load(folder: Path) -> list[Line]:
    """Reads the lines in their order. Raises InputError if the file is not of ``collect``."""
    path = folder / ASSIGNMENTS
    if not path.exists():
        return []
    lines = []
    for number, text in enumerate(path.read_bytes().splitlines(), 1):
        try:
            line = parse_json_line(text)
            if not {"AssignmentId", "WorkerId", "HITId", "AssignmentStatus", "RequesterAnnotation"} <= line.keys():
                raise ValueError("a field is missing")
        except (ValueError, AttributeError) as error:
            reason = f"not an assignment ({error}): move the file away and collect again"
            raise InputError(reason, path, f"row {number}") from None
        lines.append(line)
    return lines


def collect(batch: Batch, progress: Progress | None = None) -> list[Line]:
    """Reads every HIT that is not complete and settled, writes ``assignments.jsonl``, and returns its lines.

    Payments of interrupted runs that MTurk shows as made are noted in the journal.

    Args:
      batch: the open batch.
      progress: called with the number of HITs read.

    Raises:
      InputError: MTurk does not answer, or refuses.
    """
    lines = {line["AssignmentId"]: line for line in load(batch.folder)}
    final = Counter(line["HITId"] for line in lines.values() if line["AssignmentStatus"] in VERDICTS)
    waiting = [hit for hit in batch.hits().values() if not hit.gone and final[hit.hit_id] < hit.assignments]
    entries: list[tuple[Event, str, str, dict[str, Any]]] = []
    with explaining(), ThreadPoolExecutor(batch.parallel) as pool:
        listings = pool.map(partial(_list_assignments, batch.client), waiting)
        for number, (hit, listing) in enumerate(zip(waiting, listings, strict=True), 1):
            if listing is None:
                entries.append(("done", f"gone:{hit.hit_id}", "", {}))
            lines |= listing or {}
            if progress is not None:
                progress(number, len(waiting))
    for assignment_id, line in lines.items():
        verdict, begun = VERDICTS.get(line["AssignmentStatus"]), batch.journal.open.get(f"pay:{assignment_id}")
        if verdict and begun:
            facts = {"verdict": verdict, "by": "us" if verdict == begun["verdict"] else "elsewhere"}
            entries.append(("done", f"pay:{assignment_id}", "", facts))
    ordered = sorted(lines.values(), key=itemgetter("RequesterAnnotation", "HITId", "AssignmentId"))
    data = b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in ordered)
    disk.write(batch.folder / ASSIGNMENTS, data, private=True)
    batch.journal.write([*entries, ("done", "collected", "", {"assignments": len(lines), "hits": len(batch.hits())})])
    return ordered


def _list_assignments(mturk: Any, hit: PublishedHit) -> dict[str, Line] | None:
    """Lists what workers have submitted for a HIT, by assignment id; None if the HIT no longer exists at MTurk."""
    from botocore.exceptions import ClientError

    operation, statuses = mturk.list_assignments_for_hit, ["Submitted", "Approved", "Rejected"]
    try:
        listed = pages(operation, "Assignments", HITId=hit.hit_id, AssignmentStatuses=statuses)
        return {item["AssignmentId"]: line_of(item, hit) for item in listed}
    except ClientError as error:
        if code_of(error) == "HITDoesNotExist":
            return None
        raise
