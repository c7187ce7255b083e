"""What a kind of variation made of a turn, before it is checked."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from parapet.transforms.perturb.protected import Range
from parapet.transforms.perturb.typos import Operation

RULES = "rules"


class Made(msgspec.Struct, frozen=True):
    """What is to be done to a turn.

    Attributes:
      operations: in order, apart; none where nothing could be done.
      reason: why nothing could: an id, and what it is about after a colon.
      source: whose words they are.
      places: of its spans afterwards, where the operations alone do not tell.
    """

    operations: Sequence[Operation] = ()
    reason: str = ""
    source: str = RULES
    places: Sequence[Range] | None = None
