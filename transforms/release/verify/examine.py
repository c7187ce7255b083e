"""Verifies a release: every file, every row, every number; every mismatch is a finding.

What is checked against what: files against SHA256SUMS and the manifest; the manifest against itself; rows against
the manifest's hashes; dialogues against schemas; JSON files against the rows that restore them; documents against the
manifest. A release that was rewritten as a whole, all hashes with it, passes: who must know compares the SHA-256 of
MANIFEST.json with one from another source.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.schemas.release_manifest import MANIFEST, SUMS, Manifest
from parapet.transforms.release.opening import Release, latest_version, read_manifest
from parapet.transforms.release.verify.documents import check_documents
from parapet.transforms.release.verify.files import Progress, check_files
from parapet.transforms.release.verify.findings import Finding, Findings
from parapet.transforms.release.verify.manifest import check_manifest
from parapet.transforms.release.verify.records import Records


class Verification(msgspec.Struct):
    """The result.

    Attributes:
      path: the release's folder.
      files: read.
      rows: read.
      findings: by file.
    """

    path: str
    files: int
    rows: int
    findings: list[Finding]


def verify(release: Release, progress: Progress = lambda _: None) -> list[Finding]:
    """Checks a release; gives all findings.

    Args:
      release: to be checked.
      progress: called with the file that is being read.
    """
    return _examine(release.root, release.manifest, Findings(), progress).findings


def examine(root: Path, progress: Progress = lambda _: None) -> Verification:
    """Checks the folder of a release, whose manifest may be damaged too.

    Args:
      root: as :func:`find_release` gives it.
      progress: called with the file that is being read.
    """
    found = Findings()
    manifest = None
    if (root / MANIFEST).is_file():  # where it is missing, SHA256SUMS says so
        with found.guard("manifest", MANIFEST):
            manifest = read_manifest(root)
    return _examine(root, manifest, found, progress)


def _examine(root: Path, manifest: Manifest | None, found: Findings, progress: Progress) -> Verification:
    files, rows = check_files(root, manifest, found, progress), 0
    if manifest is not None:
        with found.guard("manifest", MANIFEST):
            check_manifest(root, manifest, found)
        records = Records(root, manifest, found, progress)
        records.check()
        rows = records.rows
        with found.guard("documents", MANIFEST):
            check_documents(Release(root, manifest), found)
    return Verification(str(root), files, rows, found.listed())


def find_release(place: str | Path) -> Path:
    """The folder of a release: ``NAME/VERSION``, or of ``NAME`` the version that ``latest.json`` names.

    Raises:
      InputError: there is no such folder, or it is not that of a release, not even of a damaged one.
    """
    root = as_path(place)
    if not root.is_dir():
        raise InputError("there is no such folder", place)
    if not _looks_like_one(root) and (version := latest_version(root)):
        root = root / version
    if not _looks_like_one(root):
        raise InputError(f"is no release: there is neither {MANIFEST} nor {SUMS}", root)
    return root


def _looks_like_one(root: Path) -> bool:
    return (root / MANIFEST).is_file() or (root / SUMS).is_file()
