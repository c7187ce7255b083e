"""What is told to a user as it is: a mistake in what was given, and a full disk."""

from __future__ import annotations


class InputError(Exception):
    """Input that cannot be used, said so that its owner can mend it.

    Args:
      reason: what is wrong and, where it helps, what to do.
      path: the file (or folder, or flag) at fault.
      where: the place inside it: ``row 7``, ``[3].slots[0].name``.
    """

    def __init__(self, reason: str, path: object = "", where: str = "") -> None:
        super().__init__(reason, str(path), where)
        self.reason, self.path, self.where = reason, str(path), where

    def __str__(self) -> str:
        place = ": ".join(part for part in (self.path, self.where) if part)
        return f"{place}: {self.reason}" if place else self.reason


class DamagedFile(InputError):
    """A file that is not whole: what it still has must not be taken for all of it."""


class NoRoomError(Exception):
    """A full disk, or a quota that is used up. No input is to blame: nothing may be left out because of it."""


def reason_and_place(error: Exception) -> tuple[str, str]:
    """What msgspec says of a value that does not fit: why, and where, as ``[3].slots[0].name``; "" is all of it."""
    reason, _, place = str(error).partition(" - at ")
    return reason, place.strip("`").removeprefix("$").removeprefix(".")
