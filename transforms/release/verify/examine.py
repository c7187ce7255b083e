"""Verifies a release: every file, every row, every number; every mismatch is a finding.

What is checked against what: files against SHA256SUMS and the manifest; the manifest against itself, its configuration
and its parent; rows against the manifest's hashes; dialogues against schemas; JSON files against the rows that restore
them; documents against those that the manifest makes. A release that was rewritten as a whole, all hashes with it,
passes: only its signature shows that (:mod:`parapet.transforms.release.signing`).
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.schemas.release_manifest import MANIFEST, SIGNATURE, SUMS, Manifest
from parapet.transforms.release.opening import Release, latest_version, read_manifest
from parapet.transforms.release.signing import Trust, problems, read_signature
from parapet.transforms.release.verify.configuration import check_configuration
from parapet.transforms.release.verify.documents import check_documents
from parapet.transforms.release.verify.files import check_files
from parapet.transforms.release.verify.findings import Finding, Findings
from parapet.transforms.release.verify.manifest import check_manifest
from parapet.transforms.release.verify.records import Records
from parapet.transforms.release.verify.survey import survey


class Verification(msgspec.Struct):
    """The result.

    Attributes:
      path: the release's folder.
      files: read.
      rows: read.
      findings: by file.
      not_compared: documents whose text another version of Parapet wrote; their facts were compared.
    """

    path: str
    files: int
    rows: int
    findings: list[Finding]
    not_compared: list[str] = []


def verify(release: Release) -> list[Finding]:
    """Checks a release; gives all findings."""
    return _examine(release.root, release.manifest, Findings(), None).findings


def examine(root: Path, processes: int | None = None, trust: Trust | None = None) -> Verification:
    """Checks the folder of a release, whose manifest may be damaged too.

    Args:
      root: as :func:`find_release` gives it.
      processes: how many read side by side; None: one for each core, where the release is large.
      trust: who must have signed it; None: a signature that is there must be of this manifest.
    """
    found = Findings()
    manifest = None
    if (root / MANIFEST).is_file():  # where it is missing, SHA256SUMS says so
        with found.guard("manifest", MANIFEST):
            manifest = read_manifest(root)
            with found.guard("signature", SIGNATURE):
                for reason in problems(
                    (root / MANIFEST).read_bytes(), read_signature(root), manifest, trust or Trust()
                ):
                    found.add("signature", SIGNATURE, "", reason)
    return _examine(root, manifest, found, processes)


def _examine(root: Path, manifest: Manifest | None, found: Findings, processes: int | None) -> Verification:
    if manifest is None:
        return Verification(str(root), check_files(root, manifest, found, {}), 0, found.listed())
    of_records = Findings()  # entered when those of the files are
    records = Records(root, manifest, of_records)
    records.check_schemas()
    read = survey(root, manifest, records.copies, records.services, processes)
    files = check_files(root, manifest, found, read.digests)
    with found.guard("manifest", MANIFEST):
        check_manifest(root, manifest, found)
    with found.guard("manifest", MANIFEST):
        check_configuration(root, manifest, found)
    records.check(read.whole)
    found.extend(of_records)
    not_compared: list[str] = []
    with found.guard("documents", MANIFEST):
        not_compared = check_documents(Release(root, manifest), found)
    return Verification(str(root), files, records.rows, found.listed(), not_compared)


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
