"""Are the files of a release those that SHA256SUMS and the manifest list, byte for byte, and no others?"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from parapet.schemas.release_manifest import MANIFEST, SIGNATURE, SUMS, File, Manifest
from parapet.transforms.release.verify.findings import Findings

Digest = tuple[str, int]  # SHA-256 and size

# What a download from the Hugging Face Hub has besides: no part of the release, and nothing that is loaded.
_OF_THE_HUB = (".gitattributes", ".cache/huggingface")

_LINE = re.compile(r"([0-9a-f]{64})  (.+)")
_BLOCK = 1 << 20


def is_inside(relative: str) -> bool:
    """Whether a path stays below the folder that it is relative to."""
    return not any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in relative.split("/"))


def check_files(root: Path, manifest: Manifest | None, found: Findings, digests: Mapping[str, Digest]) -> int:
    """Checks every file there is, and every file there should be; gives the number of those that were read.

    Args:
      root: the release.
      manifest: its manifest, where that could be read.
      found: takes what does not hold.
      digests: of files that were read already, by path.
    """
    sums = read_sums(root, found)
    listed = None if manifest is None else {file.path: file for file in manifest.files}
    _check_agreement(sums, listed, found)
    expected = {path for path in {*(sums or ()), *(listed or ())} if is_inside(path)}
    standing = standing_files(root, found, expected)
    for path in sorted(expected - standing):
        found.add("checksums", path, "", "is missing")
    # Without checksums the manifest says what belongs here; where neither can be read, nothing does.
    known = expected if sums is not None else {*expected, MANIFEST}
    for path in sorted(standing - known - {SUMS, SIGNATURE}):
        if sums is not None or listed is not None:
            found.add("checksums", path, "", f"is not listed in {SUMS if sums is not None else MANIFEST}")
    for path in sorted(standing & expected):
        with found.guard("checksums", path):
            digest = digests[path] if path in digests else digest_of(root / path)
            _check_file(path, digest, sums or {}, listed or {}, found)
    return len(standing)


def read_sums(root: Path, found: Findings) -> dict[str, str] | None:
    """Path to hash, in the one form in which the file is written; nothing where it cannot be read at all."""
    if not (root / SUMS).is_file():
        found.add("checksums", SUMS, "", "is missing")
        return None
    text = ""
    with found.guard("checksums", SUMS):
        text = (root / SUMS).read_bytes().decode("utf-8")
    if not text:
        found.add("checksums", SUMS, "", "lists no file")
        return None
    lines = text.split("\n")
    if lines.pop():
        found.add("checksums", SUMS, f"line {len(lines) + 1}", "does not end with a newline: the file was cut")
    sums: dict[str, str] = {}
    for i, line in enumerate(lines):
        match = _LINE.fullmatch(line)
        if not match:
            reason = "is not a SHA-256 in lower case, two spaces and a path"
        elif not is_inside(match[2]):
            reason = f"{match[2]!r} leaves the release's folder: it was not read"
        elif match[2] in sums:
            reason = f"{match[2]!r} occurs twice"
        elif sums and match[2] < next(reversed(sums)):
            reason = "is not in the order of the paths"
        else:
            reason = ""
        if reason:
            found.add("checksums", SUMS, f"line {i + 1}", reason)
        if match:
            sums.setdefault(match[2], match[1])
    return sums


def _check_agreement(sums: dict[str, str] | None, listed: dict[str, File] | None, found: Findings) -> None:
    if sums is None or listed is None:
        return
    if MANIFEST not in sums:
        found.add("checksums", MANIFEST, "", f"is not listed in {SUMS}")
    for path in sorted(listed.keys() - sums.keys()):
        found.add("checksums", path, "", f"is in {MANIFEST}, but not in {SUMS}")
    for path in sorted(sums.keys() - listed.keys() - {MANIFEST}):
        found.add("checksums", path, "", f"is in {SUMS}, but not in {MANIFEST}")
    for path in sorted(sums.keys() & listed.keys()):
        if sums[path] != listed[path].sha256:
            found.add("checksums", path, "", f"{SUMS} and {MANIFEST} give different hashes")


def standing_files(root: Path, found: Findings, expected: Iterable[str] = ()) -> set[str]:
    """All files below the folder.

    Links, which are not followed out of it, are findings, and so are empty folders, but for those of expected files.
    """
    files = set()
    with found.guard("checksums", ""):
        paths = sorted(root.rglob("*"), key=str)
        parents = {path.parent for path in (*paths, *(root / relative for relative in expected))}
        for path in paths:
            relative = path.relative_to(root).as_posix()
            if relative in _OF_THE_HUB or relative.startswith(f"{_OF_THE_HUB[1]}/"):
                continue
            if path.is_symlink():
                found.add("checksums", relative, "", "is a link: a release holds its files itself")
            elif path.is_file():
                files.add(relative)
            elif not path.is_dir():
                found.add("checksums", relative, "", "is neither a file nor a folder")
            elif path not in parents:
                found.add("checksums", relative, "", "is an empty folder: a release has none")
    return files


def digest_of(path: Path) -> Digest:
    """The SHA-256 and the size of a file."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as handle:
        while block := handle.read(_BLOCK):
            digest.update(block)
            size += len(block)
    return digest.hexdigest(), size


def _check_file(path: str, digest: Digest, sums: dict[str, str], listed: dict[str, File], found: Findings) -> None:
    (sha256, size), file = digest, listed.get(path)
    wrong = [SUMS] if sums.get(path, sha256) != sha256 else []
    wrong += [MANIFEST] if file is not None and file.sha256 != sha256 else []
    if wrong:
        found.add("checksums", path, "", f"its SHA-256 is {sha256}, not that of {' and '.join(wrong)}")
    if file is not None and file.bytes != size:
        found.add("checksums", path, "", f"has {size:,} bytes, {file.bytes:,} in {MANIFEST}")
