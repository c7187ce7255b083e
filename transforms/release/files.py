"""Compares the files of a release with those that ``SHA256SUMS`` and the manifest list; collects what is wrong."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.release import MANIFEST, SIGNATURE, SUMS, File, Manifest

MOST = 10  # findings of one check on one file that are reported in full

Digest = tuple[str, int]  # SHA-256 and size

# A download from the Hugging Face Hub adds these; they are no part of the release, and nobody loads them.
_OF_THE_HUB = (".gitattributes", ".cache/huggingface")

_LINE = re.compile(r"([0-9a-f]{64})  (.+)")
_BLOCK = 1 << 20


def printable(text: str) -> str:
    """Escapes what would steer a terminal or begin a new line."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


class Finding(msgspec.Struct, frozen=True):
    """A mismatch.

    Attributes:
      check: which check found it: ``checksums``, ``manifest``, ``parquet``, ``order``, ``keys``, ``restore``,
        ``faults``, ``counts``, ``private``, ``signature``.
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
        """Adds a finding."""
        self._seen[check, path] += 1
        if self._seen[check, path] <= MOST:
            self._kept.append(Finding(check, path, where, reason))

    @contextmanager
    def guard(self, check: str, path: str) -> Iterator[None]:
        """Turns any error in the block into a finding: one damaged file must not hide the others."""
        try:
            yield
        except InputError as error:
            self.add(check, path, error.where.lstrip("$."), error.reason)
        except Exception as error:  # a file of a stranger can raise anything
            self.add(check, path, "", f"cannot be read: {str(error) or type(error).__name__}")

    def listed(self) -> list[Finding]:
        """All findings by file; those of one file in the order of the checks."""
        more = [
            Finding(check, path, "", f"and {n - MOST:,} more of this kind")
            for (check, path), n in self._seen.items()
            if n > MOST
        ]
        order = {place: i for i, place in enumerate(self._seen)}
        return sorted([*self._kept, *more], key=lambda finding: (finding.path, order[finding.check, finding.path]))


def is_inside(relative: str) -> bool:
    """Whether a path stays below the folder that it is relative to."""
    return not any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in relative.split("/"))


def check_files(root: Path, manifest: Manifest | None, findings: Findings, digests: Mapping[str, Digest]) -> int:
    """Checks every file that is there, and every file that should be there; returns the number of files that are.

    Args:
      root: the release.
      manifest: its manifest, if that could be read.
      findings: takes what does not hold.
      digests: of files that were read already, by path; other files are read.
    """
    sums = read_sums(root, findings)
    listed = {} if manifest is None else {file.path: file for file in manifest.files}
    if sums is not None and manifest is not None:
        _check_agreement(sums, listed, findings)
    expected = {path for path in {*(sums or ()), *listed} if is_inside(path)}
    present = present_files(root, findings, expected)
    for path in sorted(expected - present):
        findings.add("checksums", path, "", "is missing")
    # Without checksums the manifest says what belongs here; where neither can be read, nothing does.
    known = expected if sums is not None else {*expected, MANIFEST}
    for path in sorted(present - known - {SUMS, SIGNATURE}):
        if sums is not None or manifest is not None:
            findings.add("checksums", path, "", f"is not listed in {SUMS if sums is not None else MANIFEST}")
    for path in sorted(present & expected):
        with findings.guard("checksums", path):
            digest = digests[path] if path in digests else digest_of(root / path)
            _check_file(path, digest, sums or {}, listed.get(path), findings)
    return len(present)


def read_sums(root: Path, findings: Findings) -> dict[str, str] | None:
    """Reads ``SHA256SUMS`` as path to hash; returns None if it cannot be read at all."""
    if not (root / SUMS).is_file():
        findings.add("checksums", SUMS, "", "is missing")
        return None
    text = ""
    with findings.guard("checksums", SUMS):
        text = (root / SUMS).read_bytes().decode("utf-8")
    if not text:
        findings.add("checksums", SUMS, "", "lists no file")
        return None
    lines = text.split("\n")
    if lines.pop():
        findings.add("checksums", SUMS, f"line {len(lines) + 1}", "does not end with a newline: the file was cut")
    sums: dict[str, str] = {}
    for i, line in enumerate(lines):
        match = _LINE.fullmatch(line)
        reason = ""
        if not match:
            reason = "is not a SHA-256 in lower case, two spaces and a path"
        elif not is_inside(match[2]):
            reason = f"{match[2]!r} leaves the release's folder: it was not read"
        elif sums and match[2] <= next(reversed(sums)):
            reason = f"{match[2]!r} is not in the order of the paths, or occurs twice"
        if reason:
            findings.add("checksums", SUMS, f"line {i + 1}", reason)
        if match:
            sums.setdefault(match[2], match[1])
    return sums


def _check_agreement(sums: Mapping[str, str], listed: Mapping[str, File], findings: Findings) -> None:
    if MANIFEST not in sums:
        findings.add("checksums", MANIFEST, "", f"is not listed in {SUMS}")
    for path in sorted(listed.keys() - sums.keys()):
        findings.add("checksums", path, "", f"is in {MANIFEST}, but not in {SUMS}")
    for path in sorted(sums.keys() - listed.keys() - {MANIFEST}):
        findings.add("checksums", path, "", f"is in {SUMS}, but not in {MANIFEST}")
    for path in sorted(sums.keys() & listed.keys()):
        if sums[path] != listed[path].sha256:
            findings.add("checksums", path, "", f"{SUMS} and {MANIFEST} give different hashes")


def present_files(root: Path, findings: Findings, expected: Iterable[str] = ()) -> set[str]:
    """Lists all files below the folder.

    Links, which are not followed, are findings, and so are empty folders, except those of expected files.
    """
    files = set()
    with findings.guard("checksums", ""):
        paths = sorted(root.rglob("*"), key=str)
        parents = {path.parent for path in (*paths, *(root / relative for relative in expected))}
        for path in paths:
            relative = path.relative_to(root).as_posix()
            if relative in _OF_THE_HUB or relative.startswith(f"{_OF_THE_HUB[1]}/"):
                continue
            if path.is_symlink():
                findings.add("checksums", relative, "", "is a link: a release holds its files itself")
            elif path.is_file():
                files.add(relative)
            elif not path.is_dir():
                findings.add("checksums", relative, "", "is neither a file nor a folder")
            elif path not in parents:
                findings.add("checksums", relative, "", "is an empty folder: a release has none")
    return files


def digest_of(path: Path) -> Digest:
    """Reads a file; returns its SHA-256 and its size."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as handle:
        while block := handle.read(_BLOCK):
            digest.update(block)
            size += len(block)
    return digest.hexdigest(), size


def _check_file(path: str, digest: Digest, sums: Mapping[str, str], file: File | None, findings: Findings) -> None:
    sha256, size = digest
    wrong = [SUMS] if sums.get(path, sha256) != sha256 else []
    wrong += [MANIFEST] if file is not None and file.sha256 != sha256 else []
    if wrong:
        findings.add("checksums", path, "", f"its SHA-256 is {sha256}, not that of {' and '.join(wrong)}")
    if file is not None and file.bytes != size:
        findings.add("checksums", path, "", f"has {size:,} bytes, {file.bytes:,} in {MANIFEST}")
