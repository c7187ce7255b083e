"""The terms of the work: pay, number of workers and time limits, and MTurk's limits on them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from decimal import ROUND_CEILING, ROUND_UP, Decimal
from typing import Any, Literal

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.service import Task

# The tasks of a HIT: SGD-X's two on schemas, RADDLE's on user utterances, SGSAcc's on generated utterances.
HitTask = Task | Literal["rewrites", "ratings"]
REWRITES: Literal["rewrites"] = "rewrites"
RATINGS: Literal["ratings"] = "ratings"
SCHEMAS = "schemas"  # both tasks on schemas

# The time estimates used by each kind of task.
ESTIMATES: Mapping[str, tuple[str, ...]] = {
    SCHEMAS: ("name_seconds", "description_seconds", "reading_seconds"),
    REWRITES: ("rewrite_seconds", "turn_seconds"),
    RATINGS: ("reading_seconds", "rating_seconds", "turn_seconds"),
}

CENT = Decimal("0.01")

# From botocore's service model, MTurkRequesterServiceV20170117.
REWARD = re.compile(r"[0-9]+(\.)?[0-9]{0,2}")
MAX_ANNOTATION = 255
MIN_DURATION, MAX_DURATION = 30, 31_536_000  # seconds
MAX_AUTO_APPROVAL = 2_592_000  # seconds
MAX_ASSIGNMENTS = 1_000_000_000

HOUR, QUARTER = 3_600, 900  # seconds


class Wording(msgspec.Struct, frozen=True):
    """How a task appears in the worker's list.

    It is the same for all its HITs, since a service name would reveal too much.
    """

    title: str
    description: str
    keywords: str


WORDING: dict[HitTask, Wording] = {
    "names": Wording(
        "Give short names to the parts of an app",
        "Read short lines that say what the parts of an app do, and give each part a name of a few words.",
        "writing, naming, short, english, words",
    ),
    "descriptions": Wording(
        "Describe the parts of an app in your own words",
        "Read the short names of the parts of an app, and say in a phrase of your own what each one means.",
        "writing, describing, short, english, words",
    ),
    "rewrites": Wording(
        "Say one sentence in four other ways",
        "Read a short conversation, and write its last sentence again: reworded, mistyped, longer and shorter.",
        "writing, rewording, paraphrase, english, sentence",
    ),
    "ratings": Wording(
        "Check whether the replies of an assistant say what they should",
        "Compare short replies of an assistant with lists of what they have to say, and answer Yes or No.",
        "rating, checking, comparing, english, sentence",
    ),
}


class Terms(msgspec.Struct, frozen=True):
    """What a worker earns and what MTurk charges; validated on creation.

    Attributes:
      hourly_wage: target pay in dollars per hour, at the estimated pace.
      reward: dollars per assignment, the same for every HIT; None computes it from the wage.
      name_seconds: estimated seconds to think of one name.
      description_seconds: estimated seconds to write one description.
      reading_seconds: estimated seconds to read a page's instructions; not used for rewrites.
      rewrite_seconds: estimated seconds for one rewriting of a sentence.
      rating_seconds: estimated seconds to answer one question about an utterance.
      turn_seconds: estimated seconds to read one turn of a dialogue, including the sentence to be rewritten; for
        ratings, the previous turn, the list of dialogue acts and the utterance count as one turn each.
      assignments: workers per HIT.
      fee: MTurk's fee as a fraction of the reward.
      extra_fee: its additional fee for HITs with ``extra_fee_from`` assignments or more.
      minimum_fee: MTurk's minimum fee per assignment, in dollars.
      assignment_minutes: minutes that a worker has; None for four times the estimate, at least an hour.
      auto_approval_hours: hours after which unreviewed work is paid.
      lifetime_days: days for which a HIT is available.

    Raises:
      InputError: a value that MTurk would refuse, or that makes no sense; names the flag.
    """

    hourly_wage: Decimal = Decimal("15")
    reward: Decimal | None = None
    name_seconds: Decimal = Decimal("20")
    description_seconds: Decimal = Decimal("30")
    reading_seconds: Decimal = Decimal("60")
    rewrite_seconds: Decimal = Decimal("25")
    rating_seconds: Decimal = Decimal("8")
    turn_seconds: Decimal = Decimal("5")
    assignments: int = 9
    fee: Decimal = Decimal("0.20")
    extra_fee: Decimal = Decimal("0.20")
    extra_fee_from: int = 10
    minimum_fee: Decimal = CENT
    assignment_minutes: int | None = None
    auto_approval_hours: int = 72
    lifetime_days: int = 7

    def __post_init__(self) -> None:
        for flag, holds, reason in self._rules():
            if not holds:
                raise InputError(reason, f"--{flag}")

    def _rules(self) -> list[tuple[str, bool, str]]:
        reward = self.reward
        minutes = self.assignment_minutes
        return [
            ("hourly_wage", 0 < self.hourly_wage <= 10_000, "must be dollars per hour, above 0"),
            (
                "reward",
                reward is None or (reward > 0 and bool(REWARD.fullmatch(f"{reward:f}"))),
                "must be dollars, above 0 (example: 1.25)",
            ),
            ("name_seconds", 0 < self.name_seconds <= HOUR, "must be seconds, above 0 and up to 3,600"),
            ("description_seconds", 0 < self.description_seconds <= HOUR, "must be seconds, above 0 and up to 3,600"),
            ("rewrite_seconds", 0 < self.rewrite_seconds <= HOUR, "must be seconds, above 0 and up to 3,600"),
            ("rating_seconds", 0 < self.rating_seconds <= HOUR, "must be seconds, above 0 and up to 3,600"),
            ("turn_seconds", 0 <= self.turn_seconds <= HOUR, "must be seconds, from 0 to 3,600"),
            ("reading_seconds", 0 <= self.reading_seconds <= HOUR, "must be seconds, from 0 to 3,600"),
            ("assignments", 1 <= self.assignments <= MAX_ASSIGNMENTS, "must be a number of workers per HIT, 1 or more"),
            ("fee", 0 <= self.fee <= 1, "must be a share of the reward, from 0 to 1 (0.20 is 20 %)"),
            ("extra_fee", 0 <= self.extra_fee <= 1, "must be a share of the reward, from 0 to 1 (0.20 is 20 %)"),
            ("extra_fee_from", self.extra_fee_from >= 1, "must be a number of assignments, 1 or more"),
            ("minimum_fee", 0 <= self.minimum_fee <= 1, "must be dollars per assignment, from 0 to 1"),
            (
                "assignment_minutes",
                minutes is None or 1 <= minutes <= MAX_DURATION // 60,
                "must be minutes, from 1 to 525,600",
            ),
            (
                "auto_approval_hours",
                0 <= self.auto_approval_hours <= MAX_AUTO_APPROVAL // HOUR,
                "must be hours, from 0 to 720",
            ),
            ("lifetime_days", 1 <= self.lifetime_days <= MAX_DURATION // (24 * HOUR), "must be days, from 1 to 365"),
        ]

    def seconds(self, task: HitTask, fields: int, turns: int = 0) -> Decimal:
        """Return the estimated seconds for a page with this number of fields and dialogue turns."""
        if task == REWRITES:
            return self.turn_seconds * turns + self.rewrite_seconds * fields
        if task == RATINGS:
            return self.reading_seconds + self.turn_seconds * turns + self.rating_seconds * fields
        each = self.name_seconds if task == "names" else self.description_seconds
        return self.reading_seconds + each * fields

    def reward_for(self, task: HitTask, fields: int, turns: int = 0) -> Decimal:
        """Return the reward in dollars for a page: fixed, or computed from the wage and rounded up to the cent."""
        if self.reward is not None:
            return self.reward.quantize(CENT)
        return up_to_cent(self.hourly_wage * self.seconds(task, fields, turns) / HOUR)

    def fee_rate(self) -> Decimal:
        """Return MTurk's fee as a fraction of each reward, for this number of assignments."""
        return self.fee + (self.extra_fee if self.assignments >= self.extra_fee_from else 0)

    def fees_for(self, reward: Decimal) -> Decimal:
        """Return MTurk's fees in dollars for all assignments of a HIT, rounded up to the cent."""
        return up_to_cent(max(reward * self.fee_rate(), self.minimum_fee) * self.assignments)

    def duration(self, task: HitTask, fields: int, turns: int = 0) -> int:
        """Return the seconds that a worker has for a page."""
        if self.assignment_minutes is not None:
            return self.assignment_minutes * 60
        # "-(-a // b)" does not work: Decimal division truncates towards zero.
        quarters = (4 * self.seconds(task, fields, turns) / QUARTER).to_integral_value(ROUND_CEILING)
        return min(max(HOUR, int(quarters) * QUARTER), MAX_DURATION)

    def options(self, tasks: Collection[str]) -> dict[str, Any]:
        """Return the terms as JSON, with decimals as strings, without the estimates that ``tasks`` do not use."""
        kind = kind_of(tasks)
        unused = {name for names in ESTIMATES.values() for name in names} - set(ESTIMATES[kind])
        return {name: plain(getattr(self, name)) for name in self.__struct_fields__ if name not in unused}


def kind_of(tasks: Collection[str]) -> str:
    """Return the task of a run's pages as named by ``--task``; ``schemas`` for both tasks on schemas."""
    return next((task for task in (REWRITES, RATINGS) if task in tasks), SCHEMAS)


def up_to_cent(amount: Decimal) -> Decimal:
    """Round up to the cent, so that nobody is paid less, and no bill is higher, than planned."""
    return amount.quantize(CENT, rounding=ROUND_UP)


def plain(value: Decimal | int | None) -> str | int | None:
    """Convert a number for JSON.

    Decimals become strings without an exponent, so that no reader parses money as a float.
    """
    return f"{value:f}" if isinstance(value, Decimal) else value
