"""API requests as hooks see them, and what can go wrong on the way, decided by seed and number of the request."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from parapet.schemas.errors import InputError

Fault = Literal["", "throttled", "failed", "dropped_before", "dropped_after"]

_RATES: tuple[tuple[str, Fault], ...] = (
    ("throttle", "throttled"),
    ("error", "failed"),
    ("drop_before", "dropped_before"),
    ("drop_after", "dropped_after"),
)


class Faults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Shares of the API's requests that go wrong, each from 0 to 1 and together at most 1.

    Attributes:
      throttle: answered with ``ThrottlingException: Rate exceeded``, not handled.
      error: answered with HTTP 500 ``ServiceFault``, not handled.
      drop_before: the connection closes, not handled.
      drop_after: handled with success, then the connection closes without an answer.
      slow: answered late, by ``slow_seconds``; apart from the others.
      operations: the operations that this is about; empty for all.
    """

    throttle: float = 0
    error: float = 0
    drop_before: float = 0
    drop_after: float = 0
    slow: float = 0
    slow_seconds: float = 1
    operations: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        rates = [float(getattr(self, name)) for name, _ in _RATES]
        if not (all(0 <= rate <= 1 for rate in [*rates, self.slow]) and sum(rates) <= 1):
            raise InputError("rates of faults go from 0 to 1, and together to 1", "faults")
        if not 0 <= self.slow_seconds <= 600:
            raise InputError("seconds, from 0 to 600", "faults", "slow_seconds")

    def draw(self, seed: int, index: int, operation: str) -> tuple[Fault, float]:
        """The fault of a request, "" for none, and the seconds by which its answer is late."""
        if self.operations and operation not in self.operations:
            return "", 0
        place = _share(f"{seed}:{index}")
        late = self.slow_seconds if _share(f"{seed}:{index}:slow") < self.slow else 0
        for name, fault in _RATES:
            place -= float(getattr(self, name))
            if place < 0:
                return fault, late
        return "", late


def faults_from(given: Any) -> Faults:
    """Faults out of JSON. Raises InputError."""
    try:
        return msgspec.convert(given, Faults)
    except (msgspec.ValidationError, TypeError) as error:
        raise InputError(str(error), "faults") from None


def _share(text: str) -> float:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7]) / (1 << 56)


class Call(msgspec.Struct):
    """An API request.

    Attributes:
      index: 1 for the first that this state has ever had.
      params: None where the request was not JSON.
      outcome: "" before it is handled; then ``ok``, a TurkErrorCode without its prefix, an error code, or a fault.
      status: of the answer. ``answer`` is what is about to be sent.
    """

    index: int
    operation: str
    params: Any
    outcome: str = ""
    status: int = 0
    answer: bytes = b""


class Drop(Exception):
    """Raised by a hook: the connection closes without an answer."""


Hook = Callable[[Call], None]
