"""What there is: HITs, assignments, qualifications, bonuses, money, and a clock that can be set forward."""

import hashlib
import heapq
import time
from collections import Counter
from dataclasses import dataclass, field
from decimal import ROUND_DOWN, Decimal
from typing import Any

REVIEWED = ("Submitted", "Approved", "Rejected")
EXTRA_FEE_FROM = 10  # assignments of a HIT

_FEE = _EXTRA_FEE = Decimal("0.20")
_LEAST_FEE = Decimal("0.01")  # of an assignment, and of a bonus
_TOKEN_SECONDS = 24 * 3_600


class MTurkError(Exception):
    """A refusal of the service's.

    Args:
      message: for people. Where there is a ``turk_code``, the answer adds the time in brackets, as MTurk does.
      turk_code: ``HITDoesNotExist`` of ``AWS.MechanicalTurk.HITDoesNotExist``; "" where the error has none.
      code: boto3's ``error.response["Error"]["Code"]``.
      status: of the HTTP answer.
    """

    def __init__(self, message: str, turk_code: str = "", code: str = "RequestError", status: int = 400) -> None:
        super().__init__(message)
        self.message, self.turk_code, self.code, self.status = message, turk_code, code, status

    def body(self, milliseconds: int) -> dict[str, str]:
        if not self.turk_code:  # from the layer in front of MTurk, which has no clock in its messages
            return {"__type": self.code, "Message": self.message}
        turk_code = f"AWS.MechanicalTurk.{self.turk_code}"
        return {"__type": self.code, "Message": f"{self.message} ({milliseconds})", "TurkErrorCode": turk_code}


class Refusal(Exception):
    """What a worker cannot do: ``reason`` is a word such as ``not_qualified``."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def invalid_value(parameter: str, value: object, why: str = "") -> MTurkError:
    """A value that the model allows and MTurk does not.

    MTurk answers ``ParameterValidationError`` (botocore issue 2108, aws-sdk-java 2055), which the model does not have.
    """
    message = f'The value "{str(value)[:100]}" is not valid for the parameter {parameter}. {why}'.strip()
    return MTurkError(message, "InvalidParameterValue", "ParameterValidationError")


def missing(kind: str, name: str) -> MTurkError:
    """There is no such thing."""
    return MTurkError(f"{kind} {name} does not exist.", f"{kind}DoesNotExist")


@dataclass
class Assignment:
    id: str
    hit_id: str
    worker_id: str
    accepted: int
    deadline: int
    status: str = "Accepted"  # Submitted, Approved, Rejected, Returned, Abandoned
    submitted: int | None = None
    auto_approval: int | None = None
    approved: int | None = None
    rejected: int | None = None
    answer: str | None = None
    feedback: str | None = None


@dataclass
class Hit:
    id: str
    properties: dict[str, Any]  # as they were sent
    expiration: int
    annotation: str | None
    assignments: int
    unit: Decimal  # what one assignment costs, fee included
    question: str
    expired: bool = False  # its expiry has been dealt with
    held: Decimal = Decimal(0)
    work: list[Assignment] = field(default_factory=list)

    def count(self, *statuses: str) -> int:
        return sum(one.status in statuses for one in self.work)

    @property
    def remaining(self) -> int:
        """The assignments that nobody has, expired or not."""
        return max(0, self.assignments - self.count("Accepted", *REVIEWED))


class State:
    """All of it, for one requester; can be pickled.

    Args:
      seed: of the ids.
      balance: dollars in the account.
    """

    def __init__(self, seed: int, balance: Decimal) -> None:
        self.seed, self.available, self.paid = seed, balance, Decimal(0)
        self.offset = self.made = 0
        self.hits: dict[str, Hit] = {}
        self.assignments: dict[str, Assignment] = {}
        self.bonuses: list[dict[str, Any]] = []
        self.types: dict[str, dict[str, Any]] = {}  # of qualifications
        self.granted: dict[tuple[str, str], int] = {}
        self.tokens: dict[tuple[str, str], tuple[int, str]] = {}
        self.calls: Counter[tuple[str, str]] = Counter()
        self.due: list[tuple[int, str]] = []  # when time alone may change a HIT or an assignment, and its id

    def milliseconds(self) -> int:
        return int(time.time() * 1_000) + self.offset * 1_000

    def now(self) -> int:
        """The clock, in seconds since 1970."""
        return self.milliseconds() // 1_000

    def new_id(self) -> str:
        self.made += 1
        return "3" + hashlib.sha256(f"{self.seed}:{self.made}".encode()).hexdigest()[:29].upper()

    def used(self, scope: str, token: str | None) -> str | None:
        """What a request with this token made within the last 24 hours; None where there was none."""
        made, result = self.tokens.get((scope, token or ""), (0, None))
        return result if token and self.now() - made < _TOKEN_SECONDS else None

    def keep(self, scope: str, token: str | None, result: str = "") -> None:
        if token:
            self.tokens[scope, token] = (self.now(), result)

    def hit(self, hit_id: str) -> Hit:
        if hit_id not in self.hits:
            raise missing("HIT", hit_id)
        return self.hits[hit_id]

    def reviewed(self, assignment_id: str) -> Assignment:
        """An assignment that was submitted: in a worker's hands it does not exist (Mephisto issue 1081)."""
        assignment = self.assignments.get(assignment_id)
        if assignment is None or assignment.status not in REVIEWED:
            raise missing("Assignment", assignment_id)
        return assignment

    def require(self, dollars: Decimal) -> None:
        """Raises MTurkError where the account cannot pay. Assumption: the wording."""
        if self.available < dollars:
            message = "Your account does not have enough funds to pay for this request and its fees."
            raise MTurkError(message, "InsufficientFunds")

    def settle(self, hit: Hit) -> None:
        """Holds the money for every assignment of a HIT that may yet be paid, and no more.

        These are the ones that workers have or have sent in, and, while the HIT is on offer, the ones that nobody has.
        MTurk's own bookkeeping between publishing and paying is not documented; this is an assumption.
        """
        held = (hit.count("Accepted", "Submitted") + (0 if hit.expired else hit.remaining)) * hit.unit
        self.available += hit.held - held
        hit.held = held

    def wait(self, when: int, name: str) -> None:
        heapq.heappush(self.due, (when, name))

    def move(self, assignment: Assignment, status: str, when: int | None = None) -> None:
        """Gives an assignment another status; approved work is paid."""
        hit = self.hits[assignment.hit_id]
        assignment.status = status
        if status == "Approved":
            assignment.approved, assignment.rejected = when or self.now(), None
            self.available -= hit.unit
            self.paid += hit.unit
        self.settle(hit)

    def pass_time(self) -> None:
        """What has happened by itself since the last request: HITs expired, work was approved or given up.

        HITs come first, so that no assignment goes back on offer that nobody could take any more.
        """
        now, passed = self.now(), []
        while self.due and self.due[0][0] <= now:
            passed.append(heapq.heappop(self.due)[1])
        for name in passed:
            if (hit := self.hits.get(name)) and not hit.expired and hit.expiration <= now:
                hit.expired = True
                self.settle(hit)
        for name in passed:
            one = self.assignments.get(name)
            if one and one.status == "Submitted" and one.auto_approval is not None and one.auto_approval <= now:
                self.move(one, "Approved", one.auto_approval)
            elif one and one.status == "Accepted" and one.deadline <= now:
                self.move(one, "Abandoned")

    def balance(self) -> dict[str, Decimal]:
        """What is left, what is held for work to come, and what is spent."""
        held = sum((hit.held for hit in self.hits.values()), Decimal(0))
        return {"available": self.available, "held": held, "paid": self.paid}


def cost_of_assignment(reward: Decimal, assignments: int) -> Decimal:
    """Reward and fee for one assignment of a HIT that has so many."""
    return _units(reward + max(reward * (_FEE + (_EXTRA_FEE if assignments >= EXTRA_FEE_FROM else 0)), _LEAST_FEE))


def cost_of_bonus(amount: Decimal) -> Decimal:
    """A bonus and its fee."""
    return _units(amount + max(amount * _FEE, _LEAST_FEE))


def _units(amount: Decimal) -> Decimal:
    return amount.quantize(Decimal("0.0001"), rounding=ROUND_DOWN)
