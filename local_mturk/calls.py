"""API requests as hooks get them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec


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
