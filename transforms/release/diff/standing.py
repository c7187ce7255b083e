"""What stands of a release: a difference is one of files and rows, not of what manifests say of them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.release_manifest import MANIFEST, SIGNATURE, SUMS
from parapet.transforms.release.opening import Release
from parapet.transforms.release.verify.files import digest_of, is_inside, read_sums, standing_files
from parapet.transforms.release.verify.findings import Findings


class Standing(msgspec.Struct, frozen=True):
    """The files of a release as they are.

    Attributes:
      digests: of each file that is there, by path; one that says that it differs, where only sizes were compared.
      problems: path to why the file is not the one that the manifest lists.
    """

    digests: dict[str, str]
    problems: dict[str, str]


def standing(release: Release, quick: bool = False) -> Standing:
    """Compares the files of a release with its manifest, and the manifest with ``SHA256SUMS``.

    Args:
      release: the release.
      quick: by their sizes, without reading them.
    """
    digests: dict[str, str] = {}
    problems: dict[str, str] = {}
    for path, expected, size in _listed(release):
        place = release.root / path
        if not is_inside(path) or not place.is_file():
            problems[path] = "is missing"
        elif size is not None and (there := place.stat().st_size) != size:
            problems[path] = f"has {there:,} bytes, {size:,} in {MANIFEST}"
            digests[path] = f"{there} bytes" if quick else digest_of(place)[0]
        else:
            digests[path] = expected if quick and size is not None else digest_of(place)[0]
            if digests[path] != expected:
                problems[path] = f"its SHA-256 is not that of {SUMS if path == MANIFEST else MANIFEST}"
    if not (release.root / SUMS).is_file():
        problems[SUMS] = "is missing"
    listed = {*digests, *problems, MANIFEST, SIGNATURE, SUMS}
    for path in sorted(standing_files(release.root, Findings()) - listed):
        problems[path] = f"is not listed in {MANIFEST}"
    digests.pop(MANIFEST, None)  # that two releases have different manifests is no difference of theirs
    return Standing(digests, problems)


def check_rows(release: Release) -> None:
    """Raises InputError where a Parquet file is missing, or has another size than the manifest says."""
    for file in release.manifest.files:
        if file.rows is not None:
            place = release.root / file.path
            if not is_inside(file.path) or not place.is_file() or place.stat().st_size != file.bytes:
                raise InputError(
                    "is missing, or not the file of its release: 'parapet release verify' says more", place
                )


def _listed(release: Release) -> Iterator[tuple[str, str, int | None]]:
    """Path, hash and size of every file; of the manifest no size."""
    sums = read_sums(release.root, Findings()) or {}
    if MANIFEST in sums:
        yield MANIFEST, sums[MANIFEST], None
    for file in release.manifest.files:
        yield file.path, file.sha256, file.bytes
