"""The errors by which a translation or speech engine reports that a request failed permanently."""

from __future__ import annotations


class Refused(Exception):
    """A request failed permanently.

    Args:
      reason: an id (``invalid``, ``unavailable``, ``wrong_count``), and after a colon an explanation.
      splits: whether its parts may be sent separately; not where they would be charged twice.
    """

    def __init__(self, reason: str, splits: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.splits = reason, splits


class Stopped(Exception):
    """No further request can succeed: ``reason`` as in :class:`Refused`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
