"""The terms of the work: pay, number of workers and time limits, and MTurk's fees and limits."""

import re
from decimal import ROUND_UP, Decimal
from typing import Literal

import msgspec

from parapet.schemas.service import Task

# The tasks of a HIT: SGD-X's two on schemas, RADDLE's on user utterances, SGSAcc's on generated utterances.
HitTask = Task | Literal["rewrites", "ratings"]
REWRITES: Literal["rewrites"] = "rewrites"
RATINGS: Literal["ratings"] = "ratings"
SCHEMAS = "schemas"  # both tasks on schemas

# Estimated seconds to read a page's instructions, for one name, description, rewriting of a sentence, or answer to a
# question about an utterance, and to read a turn of a dialogue. For ratings, the previous turn, the list of dialogue
# acts and the utterance count as a turn each.
SECONDS = {"reading": 60, "name": 20, "description": 30, "rewrite": 25, "rating": 8, "turn": 5}

CENT = Decimal("0.01")

# From botocore's service model, MTurkRequesterServiceV20170117.
REWARD = re.compile(r"[0-9]+(\.)?[0-9]{0,2}")

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


# MTurk's fees: fractions of the reward, at least a cent for each assignment.
FEE = Decimal("0.20")
EXTRA_FEE, EXTRA_FEE_FROM = Decimal("0.20"), 10  # with this many assignments for a HIT, or more


class Terms(msgspec.Struct, frozen=True):
    """What a worker earns and how long a HIT is out.

    Attributes:
      hourly_wage: target pay in dollars per hour, at the estimated pace.
      reward: dollars per assignment, the same for every HIT; None computes it from the wage.
      assignments: workers per HIT.
      auto_approval_hours: hours after which unreviewed work is paid.
      lifetime_days: days for which a HIT is available.
      max_per_worker: the number of assignments that one worker may do; 0 for any.
    """

    hourly_wage: Decimal = Decimal("15")
    reward: Decimal | None = None
    assignments: int = 9
    auto_approval_hours: int = 72
    lifetime_days: int = 7
    max_per_worker: int = 0

    def reward_for(self, seconds: int) -> Decimal:
        """Returns the reward in dollars for a page: fixed, or computed from the wage and rounded up to the cent."""
        return self.reward.quantize(CENT) if self.reward is not None else up_to_cent(self.hourly_wage * seconds / HOUR)

    def fees_for(self, reward: Decimal) -> Decimal:
        """Returns MTurk's fees in dollars for all assignments of a HIT, rounded up to the cent."""
        return up_to_cent(fee_for(reward, self.assignments) * self.assignments)


def estimated_seconds(task: HitTask, fields: int, turns: int = 0) -> int:
    """Returns the estimated seconds for a page with this number of form fields and dialogue turns."""
    reading = 0 if task == REWRITES else SECONDS["reading"]
    return reading + SECONDS["turn"] * turns + SECONDS[task.removesuffix("s")] * fields


def seconds_allowed(estimated: int) -> int:
    """Returns the seconds that a worker has: four times the estimate in whole quarters of an hour, at least an hour."""
    return max(HOUR, -(-4 * estimated // QUARTER) * QUARTER)


def fee_rate(assignments: int) -> Decimal:
    """Returns MTurk's fee as a fraction of each reward, for this number of assignments."""
    return FEE + (EXTRA_FEE if assignments >= EXTRA_FEE_FROM else 0)


def fee_for(reward: Decimal, assignments: int) -> Decimal:
    """Returns MTurk's fee in dollars for one of the assignments of a HIT, not rounded."""
    return max(reward * fee_rate(assignments), CENT)


def up_to_cent(amount: Decimal) -> Decimal:
    """Rounds up to the cent, so that nobody is paid less, and no bill is higher, than planned."""
    return amount.quantize(CENT, rounding=ROUND_UP)
