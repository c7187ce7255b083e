"""A study at Prolific: create and publish it, approve and reject submissions, pay bonuses, each once.

Every call with side effects is logged in the journal of the study's folder before it is sent. The outcome of an
interrupted call is looked up at Prolific, except for bonus payments: these cannot be looked up, and Prolific pays again
if the request is repeated. So after a lost response, a person has to check.

All money is whole cents or pence, in the account's currency.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from parapet.schemas.errors import InputError, parapet_version
from parapet.transforms.crowd import journal
from parapet.transforms.crowd.collection.prolific_api import Denied, Prolific, Unknown
from parapet.transforms.crowd.journal import FILE, FORMAT
from parapet.transforms.running.fence import Refused

AWAITING, APPROVED, REJECTED = "AWAITING REVIEW", "APPROVED", "REJECTED"
DRAFT = "UNPUBLISHED"
COMPLETED = "https://app.prolific.com/submissions/complete?cc={code}"

_ID = re.compile(r"[0-9A-Za-z]{1,64}")


class Journal(journal.Journal):
    """The journal of a study."""

    program, what = "parapet collect prolific", "study"


class Settings(msgspec.Struct, frozen=True):
    """The settings with which a study is created.

    Attributes:
      url: the address that participants are sent to, with Prolific's placeholders.
      places: the number of participants.
      minutes: the estimated duration. ``reward``: cents or pence per submission.
    """

    name: str
    description: str
    url: str
    places: int
    minutes: int
    reward: int


class Submission(msgspec.Struct, frozen=True):
    """A submission as listed by Prolific. ``participant`` must not appear in any file or message."""

    id: str
    participant: str
    status: str
    started: str = ""


class Study:
    """The open folder of a study.

    Args:
      folder: the folder with the journal.
      client: the client of the API.
      settings: the settings of a new study; None if the study must exist.
      writable: False for read-only access.

    Raises:
      InputError: the study does not exist, has other settings or another address, or another process uses it.
    """

    def __init__(self, folder: Path, client: Prolific, settings: Settings | None = None, writable: bool = True) -> None:
        self.folder, self.client = folder, client
        if settings is None and not (folder / FILE).exists():
            raise InputError("contains no study: create one with 'parapet collect prolific create'", folder, "--study")
        self.journal = Journal(folder, writable)
        try:
            self._begin(settings, writable)
        except BaseException:
            self.journal.close()
            raise

    def _begin(self, settings: Settings | None, writable: bool) -> None:
        kept = self.journal.batch
        if not kept:
            if settings is None:
                raise InputError(
                    "contains no study: create one with 'parapet collect prolific create'", self.folder, "--study"
                )
            kept = {
                "format": FORMAT,
                "parapet": parapet_version(),
                "id": uuid4().hex,
                "endpoint": self.client.url,
                "code": secrets.token_hex(4).upper(),
                "settings": msgspec.to_builtins(settings),
            }
            if writable:
                self.journal.write([("batch", "batch", "", kept)])
        if kept["endpoint"] != self.client.url:
            raise InputError(f"this study was created at {kept['endpoint']}: give that address", "--endpoint_url")
        self.code: str = kept["code"]
        self.internal_name = f"parapet-{kept['id']}"
        self.settings = msgspec.convert(kept["settings"], Settings)
        if settings is not None and settings != self.settings:
            fields = Settings.__struct_fields__
            names = ", ".join(name for name in fields if getattr(settings, name) != getattr(self.settings, name))
            raise InputError(
                f"contains a study that was created with another {names}: choose another folder", self.folder, "--study"
            )

    @property
    def id(self) -> str:
        """Return Prolific's id of the study; empty until it is created."""
        return str(self.journal.done.get("create", {}).get("study_id", ""))

    @property
    def completion_url(self) -> str:
        """Return the URL to which participants return at the end."""
        return COMPLETED.format(code=self.code)

    def body(self) -> dict[str, Any]:
        """Return the request that creates the study."""
        settings = self.settings
        return {
            "name": settings.name,
            "internal_name": self.internal_name,
            "description": settings.description,
            "external_study_url": settings.url,
            "prolific_id_option": "url_parameters",
            "completion_codes": [
                {"code": self.code, "code_type": "COMPLETED", "actions": [{"action": "MANUALLY_REVIEW"}]}
            ],
            "total_available_places": settings.places,
            "estimated_completion_time": settings.minutes,
            "reward": settings.reward,
            "submissions_config": {"max_submissions_per_participant": 1},
            "filters": [],
        }

    def cost(self) -> int | None:
        """Return the study's cost with fees and taxes by Prolific's calculator; None if it does not answer."""
        body = {"reward": self.settings.reward, "total_available_places": self.settings.places}
        try:
            answer = self.client.post("/study-cost-calculator/", body, repeats=True)
        except (Refused, Unknown):
            return None
        return _whole(answer.get("total_cost")) if isinstance(answer, dict) else None

    def create(self) -> bool:
        """Create the draft, unless it exists. Returns whether this call created it.

        Raises:
          InputError: it was refused, the outcome is unknown, or the study differs from the request.
        """
        if self.id:
            return False
        is_created = True
        if "create" in self.journal.open and (existing := self._find()):
            study, is_created = existing, False
        else:
            self.journal.write([("begun", "create", "POST /studies/", {})])
            try:
                study = self.client.post("/studies/", self.body())
            except Refused as error:
                self._failed("create", error.reason)
                raise InputError(f"Prolific refused the study: {error.reason}") from None
            except Unknown as error:
                raise InputError(f"{error}; run this again, which checks first whether the study was created") from None
        self._check(study)
        self.journal.write([("done", "create", "", {"study_id": study["id"]})])
        return is_created

    def _find(self) -> dict[str, Any] | None:
        """Find a study that an earlier run created without receiving the response."""
        try:
            studies = self.client.listed("/studies/")
            matching = [study for study in studies if study.get("internal_name") == self.internal_name]
            if len(matching) > 1:
                reason = f"Prolific has {len(matching)} studies called {self.internal_name}: delete all but one"
                raise InputError(reason)
            return self.client.get(f"/studies/{_id(matching[0])}/") if matching else None
        except Refused as error:
            raise InputError(f"the studies cannot be listed: {error.reason}; nothing was created") from None

    def _check(self, study: Any) -> None:
        """Raise InputError if a study differs from the request."""
        if not isinstance(study, dict) or not is_id(study.get("id")):
            raise InputError("Prolific's answer names no study: run this again, which looks for the study at Prolific")
        wanted = self.body()
        numbers = ("reward", "total_available_places", "estimated_completion_time")
        differ = [
            f"{name} {study[name]!r}" for name in numbers if name in study and _whole(study[name]) != wanted[name]
        ]
        texts = ("internal_name", "external_study_url")
        differ += [name for name in texts if name in study and study[name] != wanted[name]]
        if differ:
            shown = ", ".join(differ)
            raise InputError(f"study {study['id']} differs from what was requested: {shown}; check it at Prolific")

    def status(self) -> str:
        """Return Prolific's status of the study. Raises InputError if the study does not exist."""
        try:
            study = self.client.get(f"/studies/{self._made()}/")
        except Refused as error:
            raise InputError(f"study {self.id} cannot be read: {error.reason}") from None
        self._check(study)
        return str(study.get("status", ""))

    def _made(self) -> str:
        if not self.id:
            raise InputError(
                "the study is not created yet: run 'parapet collect prolific create'", self.folder, "--study"
            )
        return self.id

    def publish(self) -> bool:
        """Publish the study, unless it is published. Returns whether this call published it. Raises InputError."""
        if self.status() != DRAFT:
            if "publish" not in self.journal.done:
                self.journal.write([("done", "publish", "", {})])
            return False
        self.journal.write([("begun", "publish", "POST /studies/ID/transition/", {})])
        try:
            self.client.post(f"/studies/{self.id}/transition/", {"action": "PUBLISH"})
        except Refused as error:
            self._failed("publish", error.reason)
            raise InputError(f"Prolific refused to publish the study: {error.reason}") from None
        except Unknown as error:
            if self.status() == DRAFT:
                raise InputError(f"{error}; the study is still a draft: run this again") from None
        self.journal.write([("done", "publish", "", {})])
        return True

    def submissions(self) -> list[Submission]:
        """List all submissions in Prolific's order. Raises InputError if that fails."""
        try:
            entries = list(self.client.listed(f"/studies/{self._made()}/submissions/"))
        except Refused as error:
            raise InputError(f"the submissions cannot be listed: {error.reason}") from None
        return [
            Submission(
                _id(entry),
                str(entry.get("participant_id") or entry.get("participant") or ""),
                str(entry.get("status", "")).replace("_", " ").upper(),
                str(entry.get("started_at") or ""),
            )
            for entry in entries
        ]

    def settle(self, submission_id: str, body: Mapping[str, str]) -> str:
        """Approve or reject a submission, which the API does only once. Returns why it was refused, or an empty string.

        Raises:
          InputError: further requests would fail, too.
        """
        key = f"settle:{submission_id}"
        self.journal.write([("begun", key, "POST /submissions/ID/transition/", {"action": body["action"]})])
        wanted = {"APPROVE": APPROVED, "REJECT": REJECTED}[body["action"]]
        try:
            answer = self.client.post(f"/submissions/{submission_id}/transition/", body, repeats=True)
        except Refused as error:
            self._failed(key, error.reason)
            return error.reason
        except Unknown as error:
            return f"unknown: {error}; run this again"
        status = str(answer.get("status", "")) if isinstance(answer, dict) else ""
        if status != wanted:
            self._failed(key, f"status {status[:40]!r}")
            return f"wrong_answer: its status is {status[:40]!r} and not {wanted}"
        self.journal.write([("done", key, "", {"status": status})])
        return ""

    def unsure(self) -> dict[str, dict[str, Any]]:
        """Return the bonus payments with an unknown outcome: bulk id to facts."""
        return {
            key.removeprefix("pay:"): facts
            for key, facts in self.journal.open.items()
            if key.startswith("pay:") and "code" not in facts
        }

    def declare(self, paid: bool) -> None:
        """Record the outcome, as checked by a person at Prolific, of the payments with an unknown outcome."""
        for bulk, facts in self.unsure().items():
            if paid:
                self._paid(bulk, facts["bonuses"])
            else:
                self._failed(f"pay:{bulk}", "not paid, according to the requester")

    def unpaid(self, bonuses: Mapping[str, int]) -> dict[str, int]:
        """Return the bonuses that no run has paid. Raises InputError if one was paid with another amount."""
        paid = self.journal.with_prefix("bonus")
        for submission_id, cents in bonuses.items():
            before = paid.get(submission_id, {}).get("cents", cents)
            if before != cents:
                reason = f"submission {submission_id} got a bonus of {money(before)} already; remove the row"
                raise InputError(reason, "--bonuses")
        return {submission_id: cents for submission_id, cents in bonuses.items() if submission_id not in paid}

    def prepare_bonuses(self, bonuses: Mapping[str, int]) -> tuple[str, int]:
        """Set up bonuses without paying them; return (bulk id, cost with fees and taxes).

        Raises:
          InputError: the bonuses were refused, or Prolific's total differs.
        """
        rows = "".join(f"{submission_id},{money(cents)}\n" for submission_id, cents in bonuses.items())
        key = f"prepare:{hashlib.sha256(rows.encode()).hexdigest()[:16]}"
        self.journal.write([("begun", key, "POST /submissions/bonus-payments/", {})])
        body = {"study_id": self._made(), "csv_bonuses": rows}
        try:
            answer = self.client.post("/submissions/bonus-payments/", body)
        except (Refused, Unknown) as error:
            reason = error.reason if isinstance(error, Refused) else str(error)
            self._failed(key, reason)
            raise InputError(f"the bonuses cannot be prepared: {reason}; nothing was paid") from None
        answer = answer if isinstance(answer, dict) else {}
        bulk, amount, total = (
            str(answer.get("id", "")),
            _whole(answer.get("amount")),
            _whole(answer.get("total_amount")),
        )
        if not re.fullmatch(r"[\w-]{1,64}", bulk) or amount != sum(bonuses.values()) or total is None or total < amount:
            shown = "no amount" if amount is None else money(amount)
            reason = f"Prolific understood {shown} instead of {money(sum(bonuses.values()))}; nothing was paid"
            raise InputError(reason, "--bonuses")
        self.journal.write([("done", key, "", {"bulk": bulk, "total": total})])
        return bulk, total

    def pay_bonuses(self, bulk: str, bonuses: Mapping[str, int]) -> None:
        """Pay the bonuses that were set up.

        The request is sent only once, since Prolific would pay a repeated one again.

        Raises:
          InputError: it was refused, or its outcome is unknown.
        """
        key = f"pay:{bulk}"
        self.journal.write([("begun", key, "POST /bulk-bonus-payments/ID/pay/", {"bonuses": dict(bonuses)})])
        try:
            self.client.post(f"/bulk-bonus-payments/{bulk}/pay/", {})
        except Refused as error:
            self._failed(key, error.reason)
            raise InputError(f"the bonuses were not paid: {error.reason}") from None
        except Denied as error:
            self._failed(key, f"denied: {error.reason}")
            raise
        except Unknown as error:
            raise InputError(f"{error}; {UNSURE}") from None
        self._paid(bulk, bonuses)

    def _paid(self, bulk: str, bonuses: Mapping[str, int]) -> None:
        each = [("done", f"bonus:{name}", "", {"cents": cents, "bulk": bulk}) for name, cents in bonuses.items()]
        self.journal.write([*each, ("done", f"pay:{bulk}", "", {})])  # type: ignore[list-item]

    def _failed(self, key: str, reason: str) -> None:
        code, _, message = reason.partition(": ")
        self.journal.write([("failed", key, "", {"code": code, "message": message})])

    def close(self) -> None:
        """Unlock the study for other processes."""
        self.journal.close()

    def __enter__(self) -> Study:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


UNSURE = (
    "it is not known whether the bonuses were paid, and a second request could pay them twice: check the "
    "study at Prolific, then run this with --last_payment paid or --last_payment unpaid"
)


def money(cents: int) -> str:
    """Format an amount as ``12.50``, in the account's currency."""
    return f"{Decimal(cents) / 100:.2f}"


def _whole(value: Any) -> int | None:
    """Convert an amount to whole cents; JSON may have it as 250.0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if value == int(value) else None


def _id(entry: Mapping[str, Any]) -> str:
    if not is_id(entry.get("id")):
        raise InputError("Prolific's answer has an entry without an id")
    return str(entry["id"])


def is_id(value: object) -> bool:
    """Whether a value has the form of a Prolific id."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def to_settle(submissions: Iterable[Submission], wanted: Collection[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """Split the wanted submissions into ids that await review, and (id, reason) of the others."""
    by_id = {submission.id: submission for submission in submissions}
    ready: list[str] = []
    left: list[tuple[str, str]] = []
    for submission_id in wanted:
        submission = by_id.get(submission_id)
        if submission is not None and submission.status == AWAITING:
            ready.append(submission_id)
        else:
            left.append((submission_id, submission.status if submission else "the study has no such submission"))
    return ready, left


def counts_of(submissions: Sequence[Submission]) -> dict[str, int]:
    """Count submissions by status, sorted."""
    statuses = [submission.status for submission in submissions]
    return {status: statuses.count(status) for status in sorted(set(statuses))}
