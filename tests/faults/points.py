"""A command that is killed, or whose disk fails, at one operation after the other: what is there then; and a rerun.

After each, every reader refuses the output or reads a whole one, the old or the new; the same command then ends with
the bytes of an undisturbed run.
"""

import errno
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kit import files_of

from faults.operations import FAIL, FAIL_ON, FILES, KILL_AFTER, KILL_BEFORE, Ended, Machine
from faults.world import Command, Readers

Files = dict[str, bytes]

# What a disk answers: full, over quota, broken, read-only; to operations that can meet it.
WRITING = ("create", "write", "fsync", "rename", "mkdir", "link", "truncate")
ERRORS = {
    "ENOSPC": (errno.ENOSPC, WRITING),
    "EDQUOT": (errno.EDQUOT, WRITING),
    "EIO": (errno.EIO, FILES),
    "EROFS": (errno.EROFS, tuple(kind for kind in FILES if kind not in ("write", "fsync"))),
}


class Point(NamedTuple):
    """What is done to a command.

    Attributes:
      mode: FAIL, FAIL_ON, KILL_BEFORE or KILL_AFTER.
      at: the number of the operation, from 1.
      error: the name of the error.
      kinds: the operations that count.
    """

    mode: int
    at: int
    error: str = ""
    kinds: tuple[str, ...] = FILES


class Result(NamedTuple):
    """What came of a point.

    Attributes:
      point: the point.
      kind: of the operation.
      fate: of the output after it: refused, old or new.
      status: of the command.
      faults: what was wrong, in words; must be empty.
    """

    point: Point
    kind: str
    fate: str
    status: int
    faults: tuple[str, ...]


class Trial:
    """A command, its undisturbed output, and the output that is in its place when it begins.

    Args:
      machine: runs it.
      command: the command.
      out: its output folder.
      over: whether another output of the same command is there before.
      readers: what reads its output.
    """

    def __init__(
        self, machine: Machine, command: Command, out: Path, over: bool = False, readers: Readers | None = None
    ) -> None:
        self.machine, self.command, self.out, self.readers = machine, command, out, readers or {}
        self.argv = command.argv(out)
        self.kept = out.with_name(f"{out.name}.before")
        self._read: dict[int, tuple[str, ...]] = {}
        self.old: Files = {}
        self._results: dict[str, list[tuple[int, Files]]] = {}
        for folder in (out, self.kept):
            shutil.rmtree(folder, ignore_errors=True)
        if over:
            assert command.other is not None
            self._succeed(command.other(out))
            self.old = self.visible()
            self._read_whole()
            shutil.copytree(out, self.kept)
        self.operations = self._succeed(self.argv).operations
        self.new = self.visible()
        self._read_whole()
        assert self.new
        assert self.new != self.old

    def _succeed(self, argv: list[str]) -> Ended:
        ended = self.machine.run(self.out, argv)
        assert ended.status == 0, ended.log
        return ended

    def visible(self) -> Files:
        """What a reader can see: the command's files, and a release under its name."""
        hidden = re.compile(r"(^|/)(\.suite|\.run\.previous\.json|[^/]*\.incomplete)(/|$)|\.tmp[^/]*$")
        return {path: data for path, data in files_of(self.out).items() if not hidden.search(path)}

    def run(self, point: Point) -> Result:
        """Runs the command to the point, reads what is there, and runs it again."""
        self._restore()
        error = ERRORS[point.error][0] if point.error else 0
        ended = self.machine.run(self.out, self.argv, mode=point.mode, at=point.at, error=error, kinds=point.kinds)
        faults = list(self._faults_of(ended, point))
        fate = self._fate()
        faults += self._read_by_all(fate)
        again = self.machine.run(self.out, self.argv)
        if again.status and "exists already, and a release never changes" not in again.log:
            faults.append(f"the rerun ends with {again.status}: {again.log[-300:]}")
        elif self.visible() != self.new:
            differing = sorted(name for name, _ in self.visible().items() ^ self.new.items())
            faults.append(f"the rerun gives other bytes: {differing[:5]}")
        elif left := [path.name for path in self.out.rglob("*") if ".tmp" in path.name or path.name == ".incomplete"]:
            faults.append(f"the rerun leaves {left[:3]}")
        return Result(point, ended.at[0], fate, ended.status, tuple(faults))

    def _restore(self) -> None:
        shutil.rmtree(self.out, ignore_errors=True)
        if self.kept.exists():
            shutil.copytree(self.kept, self.out)

    def _faults_of(self, ended: Ended, point: Point) -> Iterator[str]:
        if not ended.fired:
            yield "the point was not reached"
        if point.mode in (KILL_BEFORE, KILL_AFTER):
            if ended.status != -9:
                yield f"was not killed: {ended.status}"
            return
        if ended.status not in (0, 1, 2):
            yield f"ends with {ended.status}: {ended.log[-300:]}"
        if "Traceback" in ended.log:
            yield f"prints a traceback: {ended.log[-600:]}"
        errors = [line for line in ended.log.splitlines() if line.startswith("error: ")]
        if ended.status == 0:
            if errors or self.visible() != self.new:
                yield f"ends with 0, but not with its output: {errors}"
        elif len(errors) != 1:
            yield f"prints {len(errors)} errors: {ended.log[-600:]}"
        elif str(self.out) not in errors[0]:
            yield f"names no path: {errors[0][:300]}"
        elif len(errors[0]) > 500 or re.search(r"BeamIOError|\[while running|OSError|PARAPET_DEBUG", errors[0]):
            yield f"is not clear: {errors[0][:300]}"

    def _fate(self) -> str:
        found = self.visible()
        return "new" if found == self.new else "old" if self.old and found == self.old else "neither"

    def _read_whole(self) -> None:
        """What the readers make of the whole output that is there."""
        for name in self.readers:
            self._results.setdefault(name, []).append(self._read_by(name))

    def _read_by(self, reader: str) -> tuple[int, Files]:
        place = self.out.with_name(f"{self.out.name}.read")
        shutil.rmtree(place, ignore_errors=True)
        ended = self.machine.run(place, self.readers[reader](self.out, place))
        self._said = ended.log
        files = {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}
        return ended.status, files if ended.status == 0 else {}

    def _read_by_all(self, fate: str) -> tuple[str, ...]:
        """What is wrong with the readers' answers; the same state is read once."""
        # Of what waits in staging only whether it has begun, and its list.
        staging = [re.sub("[0-9a-f]{32}", "", str(path.relative_to(self.out))) for path in sorted(self.out.rglob(".*"))]
        known = hash((*self.visible().items(), *staging))
        if known not in self._read:
            self._read[known] = tuple(self._wrong_readings(fate))
        return self._read[known]

    def _wrong_readings(self, fate: str) -> Iterator[str]:
        for name in self.readers:
            status, files = self._read_by(name)
            if status == 0 and (status, files) not in self._results[name]:
                yield f"{name} takes what is neither the old nor the new"
            if status not in (0, 1, 2) or "Traceback" in self._said:
                yield f"{name} ends with {status}: {self._said[-300:]}"
            if status == 0 and fate == "neither":
                yield f"{name} takes what is not whole"
            if status and self._said.count("error: ") != 1:
                yield f"{name} does not say why it refuses: {self._said[-300:]}"


def spread(last: int, count: int) -> list[int]:
    """So many numbers from 1 to the last, evenly."""
    count = min(count, last)
    return sorted({last - round(i * (last - 1) / max(1, count - 1)) for i in range(count)})


def kills(trial: Trial, count: int) -> list[Point]:
    """Points at which the command is killed: before an operation, and after the last."""
    last = trial.operations.total()
    return [*[Point(KILL_BEFORE, at) for at in spread(last, count - 1)], Point(KILL_AFTER, last)]


def failures(trial: Trial, count: int) -> list[Point]:
    """Points at which the disk fails once, and from which on it stays full, for each error."""
    return [
        Point(mode, at, error, kinds)
        for error, (_, kinds) in ERRORS.items()
        for mode in (FAIL, FAIL_ON)
        for at in spread(sum(trial.operations[kind] for kind in kinds), count)
    ]
