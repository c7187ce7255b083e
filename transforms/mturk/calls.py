"""Calls that change something at MTurk: journalled before, made (a few at a time), journalled after."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, TypeVar

import msgspec

from parapet.transforms.mturk.answers import UnusableAnswer
from parapet.transforms.mturk.client import HOPELESS, code_of, explained, explaining, message_of
from parapet.transforms.mturk.journal import Event, Journal

T = TypeVar("T")
R = TypeVar("R")

# Calls that are written down together, for each that is under way: one that is throttled does not hold all others up.
_AT_A_TIME = 8

Told = Callable[[int, int], None]  # how many are done, of how many


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


Do = Callable[[Call], dict[str, Any]]

_Outcome = tuple[Call, dict[str, Any] | Exception]


def perform(
    journal: Journal, calls: Sequence[Call], do: Do, parallel: int = 1, told: Told | None = None
) -> list[Failure]:
    """Makes the calls; gives those that were refused. Any call may be cut off, and then stays open in the journal.

    Args:
      journal: of the batch.
      calls: in order.
      do: makes one call and gives the facts of its success. A botocore ClientError is a refusal; an answer that cannot
        be used leaves it open whether the call was done, and ends the run.
      parallel: how many are under way at a time. Eight times as many are open at most when the run is cut off.
      told: called with the number done.

    Raises:
      InputError: a refusal after which no further call can go well, or no answer; what was done is in the journal.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    hopeless = threading.Event()

    def attempt(call: Call) -> _Outcome:
        if hopeless.is_set():
            return call, NotTried("an earlier call showed that none can go well")
        try:
            return call, do(call)
        except (ClientError, BotoCoreError, UnusableAnswer) as error:
            if _is_hopeless(error):
                hopeless.set()
            return call, error

    failures: list[Failure] = []
    size = parallel * _AT_A_TIME
    with ThreadPoolExecutor(parallel) as pool:
        for start in range(0, len(calls), size):
            chunk = calls[start : start + size]
            journal.write([("begun", call.key, call.operation, call.facts) for call in chunk])
            outcomes = list(pool.map(attempt, chunk))
            journal.write([_ended(*each) for each in outcomes])
            refused = [(call, outcome) for call, outcome in outcomes if isinstance(outcome, Exception)]
            if hopeless.is_set():
                first = next((call, error) for call, error in refused if _is_hopeless(error))
                raise explained(first[1], first[0].operation)
            failures += [Failure(call.key, code_of(error), message_of(error)) for call, error in refused]
            if told is not None:
                told(start + len(chunk), len(calls))
    return failures


def _is_hopeless(error: Exception) -> bool:
    from botocore.exceptions import BotoCoreError

    return isinstance(error, BotoCoreError | UnusableAnswer) or code_of(error) in HOPELESS


def _ended(call: Call, outcome: dict[str, Any] | Exception) -> tuple[Event, str, str, dict[str, Any]]:
    if isinstance(outcome, Exception):
        return "failed", call.key, call.operation, {"code": code_of(outcome), "message": message_of(outcome)}
    return "done", call.key, call.operation, outcome


def in_parallel(do: Callable[[T], R], items: Sequence[T], parallel: int) -> list[R]:
    """Reads, a few at a time, in order. Raises InputError where one is not answered."""
    with explaining(), ThreadPoolExecutor(parallel) as pool:
        return list(pool.map(do, items))


def chunks(items: Sequence[T], size: int) -> Iterator[list[T]]:
    """Runs of ``size`` items."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk
