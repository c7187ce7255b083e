"""The folder of a batch: its journal, what was collected, and the settings that every later call keeps to.

``journal.jsonl`` and ``assignments.jsonl`` are the raw files: only their owner can read them, and they belong in no
release. Everything else that is written here knows workers by keyed hashes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from parapet.schemas.errors import InputError, parapet_version
from parapet.transforms import disk
from parapet.transforms.mturk.client import environment_of
from parapet.transforms.mturk.journal import BATCH, FILE, FORMAT, Journal, refuse_lost

# Locale, share of assignments approved, number approved: MTurk's own qualifications.
MAX_QUALIFICATIONS = 10

_QUALIFICATION_ID = re.compile(r"[A-Z0-9]{1,64}")
_COUNTRY = re.compile(r"[A-Z]{2}(-[A-Z0-9]{1,3})?")


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
        if self.min_approved < 0:
            raise InputError("a number of assignments, 0 or more", "--min_approved")
        if self.max_per_worker < 0:
            raise InputError("a number of assignments, 0 for no limit", "--max_per_worker")
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

    Raises:
      InputError: there is no batch here, or it cannot be opened.
    """

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
        found = {}
        for facts in self.journal.with_prefix("hit").values():
            hit = msgspec.convert({**facts, "wanted": facts["assignments"]}, OutHit, strict=False)
            found[hit.hit_id] = hit
        for facts in self.journal.with_prefix("add").values():
            hit = found[facts["hit_id"]]
            found[hit.hit_id] = msgspec.structs.replace(hit, wanted=max(hit.wanted, facts["to"]))
        for facts in self.journal.with_prefix("prolong").values():
            end = datetime.fromisoformat(facts["expiration"])
            found[facts["hit_id"]] = msgspec.structs.replace(found[facts["hit_id"]], expiration=end)
        for hit_id in self.journal.with_prefix("gone"):
            found[hit_id] = msgspec.structs.replace(found[hit_id], gone=True)
        return found

    def close(self) -> None:
        """Lets other processes in."""
        self.journal.close()

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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


def check_endpoint(kept: str, asked: str, folder: str | Path) -> None:
    """Raises InputError unless the batch lives where the command is to talk to."""
    if kept == asked:
        return
    flags = {"production": "add --production", "sandbox": "leave --production and --endpoint_url out"}
    lives = environment_of(kept)
    advice = flags.get(lives, f"add --endpoint_url {kept}")
    raise InputError(
        f"this batch lives in MTurk's {lives}: {advice}" if lives in flags else f"this batch lives at {kept}: {advice}",
        folder,
    )


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
