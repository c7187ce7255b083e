"""The findings of ``verify``: a record for each mismatch, with file, place and reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from parapet.schemas.errors import InputError
from parapet.transforms.release.diff.differences import printable

MOST = 10  # findings of one check on one file that are reported in full


class Finding(msgspec.Struct, frozen=True):
    """A mismatch.

    Attributes:
      check: which check found it: ``checksums``, ``manifest``, ``parquet``, ``order``, ``keys``, ``restore``,
        ``faults``, ``counts``, ``documents``, ``private``, ``signature``.
      path: the file at fault, below the release.
      where: the place inside it: ``row 7``, ``dialogue 1_00000``.
      reason: what is wrong.
    """

    check: str
    path: str
    where: str
    reason: str

    def __str__(self) -> str:
        return printable(": ".join(part for part in (self.path, self.where, self.reason) if part))


class Findings:
    """Collects findings; of many of one kind in one file the first are kept and the others counted."""

    def __init__(self) -> None:
        self._kept: list[Finding] = []
        self._seen: Counter[tuple[str, str]] = Counter()

    def add(self, check: str, path: str, where: str, reason: str) -> None:
        """Enters one."""
        self._seen[check, path] += 1
        if self._seen[check, path] <= MOST:
            self._kept.append(Finding(check, path, where, reason))

    def extend(self, other: Findings) -> None:
        """Enters all that another collection has."""
        kept = Counter[tuple[str, str]]()
        for finding in other._kept:
            kept[finding.check, finding.path] += 1
            self.add(finding.check, finding.path, finding.where, finding.reason)
        self._seen.update(other._seen - kept)

    @contextmanager
    def guard(self, check: str, path: str, where: str = "") -> Iterator[None]:
        """Turns whatever goes wrong in the block into a finding: one damaged file must not hide the others."""
        try:
            yield
        except InputError as error:
            inside = error.where.lstrip("$.")
            self.add(check, path, ": ".join(part for part in (where, inside) if part), error.reason)
        except Exception as error:  # a file of a stranger can raise anything
            self.add(check, path, where, f"cannot be read: {str(error) or type(error).__name__}")

    def listed(self) -> list[Finding]:
        """All, by file; those of one file in the order of the checks."""
        more = [
            Finding(check, path, "", f"and {n - MOST:,} more of this kind")
            for (check, path), n in self._seen.items()
            if n > MOST
        ]
        order = {place: i for i, place in enumerate(self._seen)}
        return sorted([*self._kept, *more], key=lambda one: (one.path, order[one.check, one.path]))
