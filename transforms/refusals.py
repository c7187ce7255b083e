"""How an engine (of translation, of speech) says that a request failed for good; each has an id of the reason first."""

from __future__ import annotations


class Refused(Exception):
    """A request failed for good.

    Args:
      reason: an id (``invalid``, ``unavailable``, ``wrong_count``), and after a colon what a person should know.
      splits: whether its parts may be tried apart; not where that would be paid for twice.
    """

    def __init__(self, reason: str, splits: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.splits = reason, splits


class Stopped(Exception):
    """No further request can succeed: ``reason`` as in :class:`Refused`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
